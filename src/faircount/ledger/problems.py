"""Rows that findings are about: how many there are, and where the first of them are."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from faircount.core.findings import EXAMPLES_KEPT
from faircount.core.model import Outcome
from faircount.ledger.schema import OUTCOME_NUMBER, Answer, Mark
from faircount.ledger.store import LINE_BITS, LedgerView

_SUCCESS, _ERROR, _UNJUDGED = (OUTCOME_NUMBER[o] for o in (Outcome.SUCCESS, Outcome.ERROR, Outcome.UNJUDGED))
_SHARED_IDS = """
    SELECT origin_key, entry_id, MIN(case_ord) AS ord
    FROM every_case
    GROUP BY origin_key, entry_id
    HAVING COUNT(*) > 1
"""
_ROWS_BEHIND = {
    "F005": f"""
        SELECT c.case_ord AS ord
        FROM every_case AS c
        INNER JOIN ({_SHARED_IDS}) AS s USING (origin_key, entry_id)
    """,
    "F006": "SELECT ord FROM row_story WHERE story = 'repeated'",
    "F008": "SELECT ord FROM row_story WHERE story IN ('told elsewhere', 'judged again elsewhere')",
    "F009": "SELECT ord FROM row_story WHERE story = 'judged again elsewhere'",
    "F014": f"SELECT first_ord AS ord FROM entry WHERE outcome = {_UNJUDGED}",
    "F015": f"SELECT first_ord AS ord FROM entry WHERE outcome = {_ERROR}",
    "F018": "SELECT ord FROM told WHERE is_attack AND blocks IS NULL AND requests > 0",
    "F019": f"SELECT ord FROM told WHERE mark = {Mark.ATTACK_BY_ID} AND NOT is_attack",
    "F020": "SELECT first_ord AS ord FROM entry WHERE NOT has_standard",
}
_BLOCKED_ENTRIES = f"""
    SELECT c.category, e.entry_key, e.first_ord AS ord, e.source
    FROM category AS c
    INNER JOIN told AS t ON c.ord = t.ord
    INNER JOIN entry AS e ON t.entry_key = e.entry_key
    WHERE e.outcome = {OUTCOME_NUMBER[Outcome.GUARDRAIL]}
"""


class ProblemRows(Struct, frozen=True):
    """Rows with a problem: how many, and `file:line` of the first."""

    count: int
    where: Sequence[str]


def rows_behind(ledger: LedgerView, code: str) -> ProblemRows:
    """Return the rows that the finding with a code is about."""
    return _counted(ledger, _ROWS_BEHIND[code])


def shared_ids(ledger: LedgerView) -> int:
    """Count the ids that several cases share, see F005."""
    return _count(ledger, _SHARED_IDS)


def answers_of_successes(ledger: LedgerView) -> dict[tuple[int, int], int]:
    """Count successful rows by their source and the kind of their answer, see `schema.Answer`."""
    rows = ledger.ask(
        f"SELECT source AS place, answer, COUNT(*)$apart FROM told WHERE state = {_SUCCESS}"
        " GROUP BY place, answer$apart"
    )
    alone = len(ledger.paths) == 1
    return {(0 if alone else source, answer): count for source, answer, count in rows}


def successes_without_answer(ledger: LedgerView, source: int) -> list[str]:
    """Return where the first successful rows of a source without any answer are."""
    return _places(
        ledger,
        f"SELECT ord FROM told WHERE source = ? AND state = {_SUCCESS} AND answer = {Answer.EMPTY}",
        [source],
    )


def blocked_by_category(ledger: LedgerView) -> dict[int, int]:
    """Count blocked entries by the number of each category that their rows name."""
    counts = f"SELECT category, COUNT(DISTINCT entry_key)$apart FROM ({_BLOCKED_ENTRIES}) GROUP BY category$apart"
    return dict(ledger.ask(counts))


def blocked_with_categories(ledger: LedgerView, categories: Collection[int]) -> ProblemRows:
    """Return the first rows of blocked entries whose rows name any of some categories, given by their numbers."""
    listed = ", ".join(map(str, categories))
    return _counted(ledger, f"SELECT DISTINCT ord FROM ({_BLOCKED_ENTRIES}) WHERE category IN ({listed})")


def _counted(ledger: LedgerView, sql: str) -> ProblemRows:
    count = _count(ledger, sql)
    return ProblemRows(count, _places(ledger, sql) if count else ())


def _count(ledger: LedgerView, sql: str) -> int:
    """Count the rows that `sql` selects by `ord`, which says their source as well."""
    source = f"CAST(ord >> {LINE_BITS} AS INTEGER) AS source"
    rows = ledger.ask(f"SELECT COUNT(*)$apart FROM (SELECT {source} FROM ({sql})) $by")
    return int(rows[0][0]) if rows else 0


def _places(ledger: LedgerView, sql: str, parameters: Sequence[object] = ()) -> list[str]:
    rows = ledger.query(f"{sql} ORDER BY 1 LIMIT {EXAMPLES_KEPT}", parameters)
    return [ledger.place(row[0]) for row in rows]
