"""What corrections ask of a folded ledger: which entries and rows people label, and where their labels fall."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from faircount.core.model import Outcome
from faircount.ledger.questions import SUM, Question, word
from faircount.ledger.schema import OUTCOME_NUMBER, AnswerKind
from faircount.ledger.store import GIVEN, JUDGE_FIELD, LedgerView
from faircount.ledger.tallies import text_of

_SUCCESS = OUTCOME_NUMBER[Outcome.SUCCESS]
_DECIDED = f"({_SUCCESS}, {OUTCOME_NUMBER[Outcome.FAILURE]})"
_LABELLED = f"entry_key IN {GIVEN}"
_READ_ROWS = f"state IN {_DECIDED} AND answer <> {AnswerKind.BOOLEAN}"
_WAS_READ = f"entry_key IN (SELECT entry_key FROM counted_row WHERE {_READ_ROWS})"
"""A guardrail answers true or false by itself, and no judge is asked, whatever the row names."""

FamilyKey = tuple[int | None, int | None]
"""What identifies a family: the value of the column, or the entry where it has none."""


# -- what there is to label -------------------------------------------------------------------------------------


def entries_to_label(ledger: LedgerView, verdict: Outcome, column: str | None) -> list[tuple[int, int | None]]:
    """Return the entries with a verdict that have a text to be read, each with its value of a column."""
    return ledger.query(
        f"SELECT entry_key, {column or 'NULL'} FROM entry WHERE outcome = ? AND {_WAS_READ} ORDER BY first_ord",
        [OUTCOME_NUMBER[verdict]],
    )


def rows_to_label(ledger: LedgerView, entry: int) -> tuple[int, ...]:
    """Return the places of the rows of an entry that have a verdict."""
    rows = ledger.query(
        f"SELECT ord FROM counted_row WHERE entry_key = ? AND state IN {_DECIDED} ORDER BY is_attack, ord", [entry]
    )
    return tuple(place for (place,) in rows)


def entries_by_judge(ledger: LedgerView, *, read: bool = False) -> list[tuple[str | None, int]]:
    """Count entries with a verdict by the judge that their rows name, the most frequent first.

    Of rows that were judged again, it is the last judge. `read` leaves out entries that no judge can have read.
    """
    if JUDGE_FIELD not in ledger.facets:
        return []
    column, also = ledger.facets[JUDGE_FIELD], f" AND {_WAS_READ}" if read else ""
    sql = f"""
        SELECT {column}, v.judge, COUNT(*)$apart
        FROM entry
        LEFT JOIN (
            SELECT ord, ARG_MAX(judge, given) AS judge FROM verdict WHERE attempt = 0 AND given > 0 GROUP BY ord
        ) AS v ON first_ord = v.ord
        WHERE outcome IN {_DECIDED}{also}
        GROUP BY {column}, v.judge$apart
    """
    found: dict[str | None, int] = {}
    for number, last, count in ledger.ask(Question(sql, (word(column), word("judge"), SUM))):
        # A judge that judged again did so after several others.
        name = ledger.word("judge", last) or ledger.word(column, number)
        found[name] = found.get(name, 0) + count
    return sorted(found.items(), key=lambda judged: (-judged[1], judged[0] is None, judged[0] or ""))


# -- what judges say of entries ---------------------------------------------------------------------------------


class EntryOutcome(Struct, frozen=True):
    """What an entry came to: the place of its first row, its outcome, and its family."""

    place: int
    outcome: Outcome
    family: FamilyKey


_OUTCOMES = tuple(Outcome)


def entry_outcomes(ledger: LedgerView, family: str | None = None) -> list[EntryOutcome]:
    """Return all entries in the order of the file; without a column of families, each is one."""
    column = family or "NULL"
    rows = ledger.query(
        f"SELECT first_ord, outcome, {column}, CASE WHEN {column} IS NULL THEN entry_key END FROM entry ORDER BY 1"
    )
    return [EntryOutcome(place, _OUTCOMES[outcome], (value, alone)) for place, outcome, value, alone in rows]


def entry_scores(ledger: LedgerView, judge: str) -> dict[int, tuple[float, float]]:
    """Return the lowest and the highest score that a judge gave entries, where several judges are recorded."""
    numbers = [at for at, word in enumerate(ledger.lexicon("judge")) if word == judge]
    rows = ledger.query(
        f"""
        WITH latest AS (
            SELECT ord, attempt, ARG_MAX(score, given) AS score
            FROM verdict
            WHERE judge IN {GIVEN}
            GROUP BY ord, attempt
        )
        SELECT e.first_ord, MIN(v.score), MAX(v.score)
        FROM latest AS v
        INNER JOIN counted_row AS t ON v.ord = t.ord
        INNER JOIN entry AS e ON t.entry_key = e.entry_key
        WHERE v.score IS NOT NULL
        GROUP BY e.first_ord
        """,
        [numbers],
    )
    return {place: (float(low), float(high)) for place, low, high in rows}


def first_rows(ledger: LedgerView) -> dict[int, int]:
    """Return for the place of every row that counts that of the first row of its entry."""
    rows = ledger.query(
        "SELECT t.ord, e.first_ord FROM counted_row AS t INNER JOIN entry AS e ON t.entry_key = e.entry_key"
    )
    return dict(rows)


# -- where labels fall ------------------------------------------------------------------------------------------


class LabelledRow(Struct, frozen=True):
    """A row of an entry with a verdict, of which any row is labelled.

    `won` is what the judge says of the row, None where it says nothing; `attack` is None for a standard attempt.
    """

    ord: int
    entry: int
    success: bool
    won: bool | None
    attack: int | None


def rows_beside_labels(ledger: LedgerView, places: Sequence[int]) -> list[LabelledRow]:
    """Return all rows of the entries with a verdict that labelled rows belong to."""
    rows = ledger.query(
        f"""
        SELECT
            t.ord,
            t.entry_key,
            e.outcome = {_SUCCESS},
            CASE WHEN t.state IN {_DECIDED} THEN t.state = {_SUCCESS} END,
            CASE WHEN t.is_attack THEN COALESCE(t.attack, 0) END
        FROM counted_row AS t
        INNER JOIN entry AS e ON t.entry_key = e.entry_key
        WHERE t.entry_key IN (SELECT entry_key FROM counted_row WHERE ord IN {GIVEN})
            AND e.outcome IN {_DECIDED}
        ORDER BY t.ord
        """,
        [list(places)],
    )
    return [LabelledRow(*row) for row in rows]


def values_of(ledger: LedgerView, keys: Sequence[int], column: str) -> dict[int, int | None]:
    """Return the values of entries in a column of `entry`."""
    return dict(ledger.query(f"SELECT entry_key, {column} FROM entry WHERE {_LABELLED}", [list(keys)]))


def families_of(ledger: LedgerView, keys: Sequence[int], family: str | None) -> dict[int, FamilyKey]:
    """Return the family of each entry, by the column of families; without one, all entries are of one family."""
    if family is None:
        return dict.fromkeys(keys, (None, None))
    found = values_of(ledger, keys, family)
    return {key: (value, key if value is None else None) for key, value in found.items()}


def labels_by_value(ledger: LedgerView, column: str, keys: Sequence[int]) -> list[tuple[str | None, int, int]]:
    """Count the entries with a verdict, and the labelled ones among them, by the values of a column of `entry`."""
    rows = ledger.query(
        f"SELECT {column}, COUNT(*), COUNT(CASE WHEN {_LABELLED} THEN 1 END) FROM entry"
        f" WHERE outcome IN {_DECIDED} GROUP BY 1 ORDER BY 2 DESC, 1",
        [list(keys)],
    )
    return [(text_of(ledger, column, value), entries, labelled) for value, entries, labelled in rows]


class VerdictsOfFamilies(Struct, frozen=True):
    """Families that are alike in their verdicts, and how many; one with a label stands by itself, with its `family`."""

    family: FamilyKey
    facet: int | None
    total: int
    successes: int
    failures: int
    times: int


def verdicts_of_families(ledger: LedgerView, family: str, facet: str, keys: Sequence[int]) -> list[VerdictsOfFamilies]:
    """Count the verdicts of families among the entries of each value of a facet; `keys` are the labelled entries."""
    alone = f"CASE WHEN {family} IS NULL THEN entry_key END"
    rows = ledger.query(
        f"""
        SELECT
            CASE WHEN labelled > 0 THEN family END, CASE WHEN labelled > 0 THEN alone END, facet,
            total, success, failure, COUNT(*)
        FROM (
            SELECT
                {family} AS family,
                {alone} AS alone,
                {facet} AS facet,
                COUNT(*) AS total,
                COUNT(CASE WHEN outcome = {_SUCCESS} THEN 1 END) AS success,
                COUNT(CASE WHEN outcome = {OUTCOME_NUMBER[Outcome.FAILURE]} THEN 1 END) AS failure,
                COUNT(CASE WHEN {_LABELLED} THEN 1 END) AS labelled
            FROM entry
            GROUP BY {family}, {alone}, {facet}
        )
        GROUP BY 1, 2, 3, 4, 5, 6
        """,
        [list(keys)],
    )
    return [VerdictsOfFamilies((value, single), *counts) for value, single, *counts in rows]


class AttackedEntries(Struct, frozen=True):
    """Entries of a family that an attack was tried on: whether it won, both were judged, and the entry succeeded."""

    attack: int
    won: bool
    judged: bool
    success: bool
    family: FamilyKey
    entries: int


def attacked_entries(ledger: LedgerView, family: str | None) -> list[AttackedEntries]:
    """Count the entries that each dynamic attack was tried on, by family and by what came of it."""
    key = "NULL, NULL" if family is None else f"{family}, CASE WHEN {family} IS NULL THEN e.entry_key END"
    rows = ledger.query(
        f"""
        SELECT a.attack, a.won, a.judged AND e.outcome IN {_DECIDED}, e.outcome = {_SUCCESS}, {key}, COUNT(*)
        FROM (
            SELECT
                COALESCE(attack, 0) AS attack,
                entry_key,
                BOOL_OR(succeeded) AS won,
                BOOL_OR(state IN {_DECIDED}) AS judged
            FROM counted_row
            WHERE is_attack
            GROUP BY COALESCE(attack, 0), entry_key
        ) AS a
        INNER JOIN entry AS e ON a.entry_key = e.entry_key
        GROUP BY ALL
        """
    )
    return [
        AttackedEntries(attack, won, judged, success, (kind, alone), entries)
        for attack, won, judged, success, kind, alone, entries in rows
    ]
