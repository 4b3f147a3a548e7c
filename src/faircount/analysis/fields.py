"""Which fields there are to break results down by, under which names, and where their values are."""

from __future__ import annotations

from collections.abc import Iterable

from faircount.core.errors import UsageError
from faircount.core.text import clip, visible
from faircount.ledger import tallies
from faircount.ledger.store import LedgerView

ATTACK_FIELD = tallies.ATTACK_NAME
VALUES_OF_AN_UNKNOWN_FACET = 50
_ONLY_ASKED_FOR = ("metric.", "tag.")
_ALIASES = {"attack": ATTACK_FIELD, "document": "document_id", "judge": "judge_name"}


def raw_name(name: str) -> str:
    """Return a field's name in the files, for a name that may be a short one."""
    return _ALIASES.get(name, name)


def raw_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names in the files of fields that the user named, each once."""
    return tuple(dict.fromkeys(map(raw_name, names)))


def to_break_down(ledger: LedgerView, asked: tuple[str, ...], aim: str = "attack") -> tuple[str, ...]:
    """Return the fields to break results down by: the nine, those asked for, else every facet that is present.

    What a metric decided is part of the result, and a tag stands among the tags: these are for those who ask.
    """
    for field in asked:
        existing_column(ledger, field, "--by")
    if asked:
        return tuple(dict.fromkeys([*ledger.fields.first, *asked]))
    known = ledger.fields.facets
    others = [field for field in known if field in ledger.facets]
    unknown = [
        field
        for field, column in ledger.facets.items()
        if field not in known
        and not (aim == "task" and _is_for_asking(ledger, field, column))
        and tallies.distinct_values(ledger, column) <= VALUES_OF_AN_UNKNOWN_FACET
    ]
    return tuple(dict.fromkeys([*ledger.fields.first, ATTACK_FIELD, *others, *unknown]))


def _is_for_asking(ledger: LedgerView, field: str, column: str) -> bool:
    """Tell whether a field of a run is shown only on request: it tells nothing new, or each entry has its own value."""
    return field.startswith(_ONLY_ASKED_FOR) or tallies.distinct_values(ledger, column) == sum(ledger.rows) > 1


def existing_column(ledger: LedgerView, field: str, option: str) -> str:
    """Return the column of `entry` that holds a field that an option names, which must be one of these files."""
    present = {*ledger.fields.first, ATTACK_FIELD, *ledger.facets}
    if field not in present and field == _ALIASES["judge"]:
        raise UsageError(f"{option} judge: no judge is recorded in these files")
    if field not in present:
        listed = ", ".join(sorted(clip(visible(name), 40) for name in present))
        raise UsageError(f"{option} {clip(visible(field), 40)}: no such field; available: {listed}")
    return column_of(ledger, field)


def column_of(ledger: LedgerView, field: str) -> str:
    """Return the column of `entry` that holds a field; a field without any value is a column of nulls."""
    if field in ledger.facets:
        return ledger.facets[field]
    return ATTACK_FIELD if field == ATTACK_FIELD else tallies.NO_COLUMN
