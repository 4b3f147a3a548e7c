"""Single entries of a folded ledger: which have an id, which rows they are made of, and which rows were left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from faircount.ledger.schema import Lexicon, Mark, id_number
from faircount.ledger.store import LINE_BITS, LedgerView
from faircount.ledger.tallies import strategy_name
from faircount.model import Outcome

REPEATED, TOLD_ELSEWHERE, JUDGED_AGAIN = "repeated", "told elsewhere", "judged again elsewhere"
"""Why a row was left out, as `tell_rows_apart.sql` says it."""

_OUTCOMES = tuple(Outcome)
_ATTACK_ROW = "-attack"
_ONLY_LIKE_AN_ATTACK = f"mark = {Mark.ATTACK_BY_ID} AND NOT is_attack"
_ENTRY_ID = f"CASE WHEN {_ONLY_LIKE_AN_ATTACK} THEN COALESCE(own_id, parent_id) ELSE parent_id END"
"""The id of the entry that a row of `told` counts in."""


class FoldedEntry(Struct, frozen=True):
    """An entry as it was counted; `kin` is how many entries its family has, itself included, 0 without a family."""

    key: int
    name: str
    outcome: Outcome
    requests: int
    kin: int
    facets: tuple[tuple[str, str | None], ...]


class EntryRow(Struct, frozen=True):
    """A row of an entry: what became of it, and what is needed to read it back."""

    ord: int
    source: int
    line: int
    strategy: str
    is_attack: bool
    state: Outcome
    counts_as: tuple[Outcome, ...]
    requests: int
    response_time: float | None
    identity: tuple[str | None, str | None, int, int]


class RowLeftOut(Struct, frozen=True):
    """A row that tells nothing new of an entry, why, and the row that counts instead where only one can."""

    ord: int
    is_attack: bool
    story: str
    instead: int | None


# -- finding entries --------------------------------------------------------------------------------------------


def entries_with_id(ledger: LedgerView, name: str) -> list[int]:
    """Return the keys of the entries that have an id, or a row that is known to have it, in the order of the files."""
    numbers = _id_numbers(ledger, name)
    attacked = _id_numbers(ledger, name.removesuffix(_ATTACK_ROW)) if name.endswith(_ATTACK_ROW) else []
    return _keys_where(
        ledger,
        f"{_ENTRY_ID} IN ({_marks(numbers)}) OR own_id IN ({_marks(numbers)})"
        f" OR (is_attack AND parent_id IN ({_marks(attacked)}))",
        [*numbers, *numbers, *attacked],
    )


def entries_of_rows(ledger: LedgerView, ords: Sequence[int]) -> list[int]:
    """Return the keys of the entries that rows count in, or were left out of."""
    counted = _keys_where(ledger, f"ord IN ({_marks(ords)})", ords)
    if counted or not _has_left_out(ledger):
        return counted
    kept = f"SELECT k.ord FROM {_LEFT_OUT_BESIDE_KEPT} WHERE l.ord IN ({_marks(ords)})"
    return _keys_where(ledger, f"ord IN ({kept})", ords)


def _keys_where(ledger: LedgerView, condition: str, parameters: Sequence[int]) -> list[int]:
    rows = ledger.query(
        f"SELECT entry_key FROM entry WHERE entry_key IN (SELECT entry_key FROM told WHERE {condition})"
        " ORDER BY first_ord",
        parameters,
    )
    return [key for (key,) in rows]


def ids_near(ledger: LedgerView, name: str, limit: int) -> list[str]:
    """Return some of the ids that entries have, no more than `limit`; for a number, those of the nearest numbers."""
    wanted = min(id_number(name, Lexicon()), 0)
    rows = ledger.query(
        f"SELECT id FROM (SELECT DISTINCT {_ENTRY_ID} AS id FROM told) ORDER BY ABS(id - ?), id LIMIT ?",
        [wanted, limit],
    )
    return [ledger.word("parent_id", number) or "" for (number,) in rows]


def _id_numbers(ledger: LedgerView, name: str) -> list[int]:
    """Return the numbers that stand for an id; a word may have more than one."""
    number = id_number(name, Lexicon())
    if number < 0:
        return [number]
    return [number for number, word in enumerate(ledger.lexicon("parent_id")) if word == name]


def _marks(values: Sequence[object]) -> str:
    """Return a place for each value, and something that nothing equals where there are none."""
    return ", ".join("?" * len(values)) or "NULL"


# -- what entries are made of -----------------------------------------------------------------------------------


def folded_entries(ledger: LedgerView, keys: Sequence[int]) -> list[FoldedEntry]:
    """Return entries by their keys, in that order."""
    columns = list(ledger.facets.values())
    listed = "".join(f", e.{column}" for column in columns)
    rows = ledger.query(
        f"""
        SELECT
            e.entry_key, t.entry_id, e.outcome, e.requests,
            (SELECT COUNT(*) FROM entry AS kin WHERE kin.family = e.family){listed}
        FROM entry AS e
        INNER JOIN (SELECT ord, {_ENTRY_ID} AS entry_id FROM told) AS t ON e.first_ord = t.ord
        WHERE e.entry_key IN ({_marks(keys)})
        """,
        keys,
    )
    found = {}
    for key, number, outcome, requests, kin, *values in rows:
        words = [ledger.word(column, value) for column, value in zip(columns, values, strict=True)]
        name = ledger.word("parent_id", number) or ""
        facets = tuple(zip(ledger.facets, words, strict=True))
        found[key] = FoldedEntry(key, name, _OUTCOMES[outcome], int(requests), kin, facets)
    return [found[key] for key in keys]


def rows_of(ledger: LedgerView, key: int) -> list[EntryRow]:
    """Return the rows that count in an entry, standard attempts first."""
    rows = ledger.query(
        """
        SELECT
            ord, source, attack, is_attack, state, succeeded, failed, errored, blocked, requests, response_time,
            parent_id, own_id, text_hash, response_hash
        FROM told
        WHERE entry_key = ?
        ORDER BY is_attack, ord
        """,
        [key],
    )
    return [
        EntryRow(
            ord_,
            source,
            ord_ & ((1 << LINE_BITS) - 1),
            strategy_name(ledger, attack, is_attack),
            is_attack,
            _OUTCOMES[state],
            tuple(outcome for outcome, flag in zip(_OUTCOMES, flags, strict=False) if flag),
            requests,
            seconds,
            (ledger.word("parent_id", parent), ledger.word("own_id", own), text, response),
        )
        for ord_, source, attack, is_attack, state, *flags, requests, seconds, parent, own, text, response in rows
    ]


def categories_of(ledger: LedgerView, ords: Sequence[int]) -> dict[int, list[str]]:
    """Return what guardrails named in rows, by row."""
    found: dict[int, list[str]] = {}
    for ord_, number in ledger.query(f"SELECT ord, category FROM category WHERE ord IN ({_marks(ords)})", ords):
        found.setdefault(ord_, []).append(ledger.word("category", number) or "")
    return {ord_: sorted(names) for ord_, names in found.items()}


# -- what was left out ------------------------------------------------------------------------------------------

_LEFT_OUT_BESIDE_KEPT = """
    row_story AS l
    INNER JOIN row_story AS k
        ON
            l.story <> 'kept'
            AND k.story = 'kept'
            AND l.origin_key = k.origin_key
            AND l.entry_id = k.entry_id
            AND l.is_attack = k.is_attack
            AND l.text_hash IS NOT DISTINCT FROM k.text_hash
            AND l.signature = k.signature
            AND (l.story <> 'repeated' OR l.source = k.source)
"""


def rows_left_out(ledger: LedgerView, key: int) -> list[RowLeftOut]:
    """Return the rows that tell what rows of an entry tell already, and why they do not count."""
    if not _has_left_out(ledger):
        return []
    rows: Iterable[tuple[int, bool, str, int, int]] = ledger.query(
        f"""
        SELECT l.ord, l.is_attack, l.story, MIN(k.ord), MAX(k.ord)
        FROM {_LEFT_OUT_BESIDE_KEPT}
        INNER JOIN told AS t ON k.ord = t.ord
        WHERE t.entry_key = ?
        GROUP BY l.ord, l.is_attack, l.story
        ORDER BY l.ord
        """,
        [key],
    )
    return [
        RowLeftOut(ord_, is_attack, story, first if first == last else None)
        for ord_, is_attack, story, first, last in rows
    ]


def _has_left_out(ledger: LedgerView) -> bool:
    """Tell whether any row was left out; where no id was suspected, the table has hardly any columns."""
    return bool(ledger.query("SELECT 1 FROM row_story WHERE story <> 'kept' LIMIT 1"))
