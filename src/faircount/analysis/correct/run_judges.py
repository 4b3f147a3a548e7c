"""The judges that the rows of a run name, and which of them decide by opinion. Loads no judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faircount.core.errors import UsageError
from faircount.core.findings import counted, finding
from faircount.core.model import Finding
from faircount.core.string_judges import STRING_JUDGES
from faircount.core.text import clip, visible
from faircount.ledger.labels import entries_by_judge
from faircount.ledger.store import LedgerView

_NAMES_SHOWN = 5
_BY_THE_TEXT = frozenset(name.casefold() for pair in STRING_JUDGES.items() for name in pair)
_OF_OTHERS = frozenset(
    ["any", "all", "majority", "not", "combine.anyof", "combine.allof", "combine.majority", "combine.not"]
)
"""Judges that only put others together: they are an opinion where one of those is."""


def judges_of_run(ledger: LedgerView) -> tuple[str | None, ...]:
    """Return the judges that the rows of entries with a verdict name, the most frequent first; None for no name."""
    return tuple(name for name, _ in entries_by_judge(ledger)) or (None,)


def judge_names(judges: Sequence[str | None]) -> str:
    """Return the names of judges for a sentence."""
    names = [clip(visible(name), 60) if name is not None else "no judge" for name in judges]
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def unmeasured(ledger: LedgerView) -> list[Finding]:
    """Return a finding if judges that decide by opinion gave verdicts; for a run whose judge nobody measured."""
    if all(_compares_strings(name) for name, _ in entries_by_judge(ledger) if name is not None):
        return []
    opinions = [
        (name, n) for name, n in entries_by_judge(ledger, read=True) if name is not None and not _compares_strings(name)
    ]
    if not opinions:
        return []
    entries = sum(n for _, n in opinions)
    message = (
        f"this rate rests on an unmeasured judge: {judge_names([name for name, _ in opinions])} judged "
        f"{counted(entries, 'entry', 'entries')}; label a sample of them with `faircount results "
        "sample-for-labels`, and give it to --judge-quality"
    )
    return [finding("F031", entries, message)]


def _compares_strings(name: str) -> bool:
    """Return whether what a judge says is defined by the text itself."""
    plain = _plain(name)
    if plain in _BY_THE_TEXT:
        return True
    if plain not in _OF_OTHERS:
        return False
    # Only such a name needs to be taken apart.
    from faircount.components.spec import parse

    try:
        return _all_compare_strings(parse(name))
    except UsageError:
        return False


def _all_compare_strings(call: Any) -> bool:
    from faircount.components.spec import Spec

    plain = _plain(call.name)
    if plain in _BY_THE_TEXT:
        return True
    parts = [part for part in (*call.positional, *call.parameters.values()) if isinstance(part, Spec)]
    return plain in _OF_OTHERS and bool(parts) and all(map(_all_compare_strings, parts))


def _plain(name: str) -> str:
    """Return a name without parameters; spikee's judges of the same names do the same."""
    return name.partition("(")[0].strip().casefold().removeprefix("spikee:")
