"""Counts over folded entries. Each function asks the ledger one question and returns plain counts, no rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from faircount.ledger.store import Ledger
from faircount.model import AttemptsToSuccess, Counts, ErrorKind, Latency, Outcome, Tally

UNNAMED_ATTACK = "(unnamed)"
STANDARD = "standard"

_OUTCOMES = ", ".join(f"COUNT(CASE WHEN outcome = '{outcome.value}' THEN 1 END)" for outcome in Outcome)
_COUNTS = f"""
    {_OUTCOMES},
    COUNT(*),
    COALESCE(SUM(requests), 0),
    COUNT(CASE WHEN initial THEN 1 END),
    COUNT(CASE WHEN outcome = 'success' AND NOT initial THEN 1 END),
    COUNT(CASE WHEN guardrail_any THEN 1 END)
"""
_WIDTH = len(Outcome) + 5


@dataclass(frozen=True, slots=True)
class AttackCounts:
    """What one dynamic attack did, counted."""

    attack: str
    total: int
    successes: int
    attempts: int
    blocks: int | None
    entries_blocked: int | None


@dataclass(frozen=True, slots=True)
class SuccessRow:
    """A row that tells of a success: where it stands, what it belongs to, and what identifies its text."""

    ord: int
    source: int
    line: int
    byte_offset: int
    entry: str
    strategy: str
    facet: str | None
    checksums: tuple[Any, ...]


def _counts(row: tuple[Any, ...]) -> Counts:
    tally = Tally(*(int(number) for number in row[: len(Outcome) + 1]))
    attempts, initial, attack_only, guardrail_any = (int(number) for number in row[len(Outcome) + 1 :])
    return Counts(tally, attempts, initial, attack_only, guardrail_any)


def overall(ledger: Ledger) -> Counts:
    """Count all entries."""
    return _counts(ledger.query(f"SELECT {_COUNTS} FROM entry")[0])


def by_source(ledger: Ledger) -> dict[int, Counts]:
    """Count entries by the source that holds their first row."""
    rows = ledger.query(f"SELECT {_COUNTS}, source FROM entry GROUP BY source")
    return {row[_WIDTH]: _counts(row[:_WIDTH]) for row in rows}


def by_facet(ledger: Ledger, column: str) -> list[tuple[str | None, Counts]]:
    """Count entries by the values of a column of `entry`, in order of first appearance."""
    rows = ledger.query(f"SELECT {_COUNTS}, {column} FROM entry GROUP BY {column} ORDER BY MIN(entry_key)")
    return [(row[_WIDTH], _counts(row[:_WIDTH])) for row in rows]


def by_two_facets(ledger: Ledger, first: str, second: str) -> dict[tuple[str | None, str | None], Counts]:
    """Count entries by the values of two columns of `entry`, in order of first appearance; empty pairs are absent."""
    keys = f"{first}, {second}"
    rows = ledger.query(f"SELECT {_COUNTS}, {keys} FROM entry GROUP BY {keys} ORDER BY MIN(entry_key)")
    return {(row[_WIDTH], row[_WIDTH + 1]): _counts(row[:_WIDTH]) for row in rows}


def distinct_values(ledger: Ledger, column: str) -> int:
    """Return how many different values, missing ones aside, a column of `entry` has."""
    return int(ledger.query(f"SELECT COUNT(DISTINCT {column}) FROM entry")[0][0])


def combinations(
    ledger: Ledger, columns: list[str], *, min_n: int, limit: int, most: bool
) -> list[tuple[tuple[str | None, ...], Counts]]:
    """Count the most or least successful combinations with at least `min_n` entries, the larger first among equals."""
    keys = ", ".join(columns)
    rate = "1.0 * COUNT(CASE WHEN outcome = 'success' THEN 1 END) / COUNT(*)"
    rows = ledger.query(
        f"SELECT {_COUNTS}, {keys} FROM entry GROUP BY {keys} HAVING COUNT(*) >= ?"
        f" ORDER BY {rate} {'DESC' if most else 'ASC'}, COUNT(*) DESC, MIN(entry_key) LIMIT ?",
        [min_n, limit],
    )
    return [(row[_WIDTH:], _counts(row[:_WIDTH])) for row in rows]


def count_combinations(ledger: Ledger, columns: list[str], *, min_n: int) -> int:
    """Return how many combinations have at least `min_n` entries."""
    keys = ", ".join(columns)
    grouped = f"SELECT 1 FROM entry GROUP BY {keys} HAVING COUNT(*) >= ?"
    return int(ledger.query(f"SELECT COUNT(*) FROM ({grouped})", [min_n])[0][0])


def attacks(ledger: Ledger) -> list[AttackCounts]:
    """Count by dynamic attack: entries it was invoked for, entries it won, requests, blocks where the file tells."""
    rows = ledger.query(
        """
        SELECT
            COALESCE(attack, ?) AS name,
            COUNT(DISTINCT entry_key),
            COUNT(DISTINCT CASE WHEN succeeded THEN entry_key END),
            SUM(requests),
            SUM(blocks),
            CASE WHEN COUNT(blocks) > 0 THEN COUNT(DISTINCT CASE WHEN blocks > 0 THEN entry_key END) END
        FROM told
        WHERE is_attack
        GROUP BY name
        ORDER BY name
        """,
        [UNNAMED_ATTACK],
    )
    return [AttackCounts(*row) for row in rows]


def attacks_as_spikee(ledger: Ledger) -> list[AttackCounts]:
    """Count by dynamic attack as spikee does: a block is an entry all of whose attack rows are flagged."""
    blocked = {
        row[0]: row[1]
        for row in ledger.query(
            """
            SELECT name, COUNT(CASE WHEN flagged THEN 1 END)
            FROM (
                SELECT COALESCE(attack, ?) AS name, entry_key, BOOL_AND(blocked) AS flagged
                FROM told
                WHERE is_attack
                GROUP BY name, entry_key
            )
            GROUP BY name
            """,
            [UNNAMED_ATTACK],
        )
    }
    return [
        AttackCounts(c.attack, c.total, c.successes, c.attempts, blocked[c.attack], blocked[c.attack])
        for c in attacks(ledger)
    ]


def guardrail_categories(ledger: Ledger) -> list[tuple[str, int]]:
    """Count entries by the categories that guardrails named, most frequent first."""
    rows = ledger.query(
        """
        SELECT c.category, COUNT(DISTINCT t.entry_key) AS entries
        FROM category AS c
        INNER JOIN told AS t ON c.ord = t.ord
        GROUP BY c.category
        ORDER BY entries DESC, c.category
        """
    )
    return [(row[0], row[1]) for row in rows]


def error_kinds(ledger: Ledger) -> list[ErrorKind]:
    """Count errored rows by kind of error, most frequent first, with the first of each as its example."""
    rows = ledger.query(
        """
        SELECT k.error_kind, k.errored_rows, k.entries, a.error_text, k.first_ord
        FROM (
            SELECT
                a.error_kind,
                COUNT(*) AS errored_rows,
                COUNT(DISTINCT t.entry_key) AS entries,
                MIN(a.ord) AS first_ord
            FROM told AS t
            INNER JOIN attempt AS a ON t.ord = a.ord
            WHERE a.state = 'error'
            GROUP BY a.error_kind
        ) AS k
        INNER JOIN attempt AS a ON k.first_ord = a.ord
        ORDER BY k.errored_rows DESC, k.first_ord
        """
    )
    return [ErrorKind(kind, n, entries, text, ledger.place(first)) for kind, n, entries, text, first in rows]


def latency(ledger: Ledger) -> list[Latency]:
    """Return median and 95th percentile of the response times by strategy. Quantiles are DuckDB's own."""
    rows = ledger.query(
        """
        SELECT
            CASE WHEN t.is_attack THEN COALESCE(t.attack, ?) ELSE ? END AS strategy,
            COUNT(*),
            QUANTILE_CONT(a.response_time, 0.5),
            QUANTILE_CONT(a.response_time, 0.95)
        FROM told AS t
        INNER JOIN attempt AS a ON t.ord = a.ord
        WHERE a.response_time IS NOT NULL
        GROUP BY strategy, t.is_attack
        ORDER BY t.is_attack, strategy
        """,
        [UNNAMED_ATTACK, STANDARD],
    )
    return [Latency(*row) for row in rows]


def attempts_to_success(ledger: Ledger) -> list[AttemptsToSuccess]:
    """Count successful entries by the number of requests up to their first success, standard attempts first."""
    rows = ledger.query(
        """
        SELECT first_success, COUNT(*)
        FROM (
            SELECT entry_key, MIN(made_before + success_at) AS first_success
            FROM (
                SELECT
                    entry_key,
                    succeeded,
                    success_at,
                    COALESCE(
                        SUM(requests) OVER (
                            PARTITION BY entry_key
                            ORDER BY is_attack, ord
                            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                        ),
                        0
                    ) AS made_before
                FROM told
                WHERE entry_key IN (SELECT entry_key FROM entry WHERE outcome = 'success')
            )
            WHERE succeeded
            GROUP BY entry_key
        )
        GROUP BY first_success
        ORDER BY first_success
        """
    )
    return [AttemptsToSuccess(int(at), n) for at, n in rows]


IDENTITY_COLUMNS = ("own_id", "text_crc", "response_crc")
"""Columns of an attempt that tell whether a line still holds the row that was read."""


def count_successes(ledger: Ledger) -> int:
    """Return how many rows tell of a success."""
    return int(ledger.query("SELECT COUNT(*) FROM told WHERE succeeded")[0][0])


def first_successes(ledger: Ledger, column: str, limit: int) -> list[SuccessRow]:
    """Return each entry's first success, standard attempts first: up to `limit` per source and value of `column`."""
    checksums = ", ".join(f"a.{name}" for name in IDENTITY_COLUMNS)
    rows = ledger.query(
        f"""
        SELECT s.ord, a.source, a.line, a.byte_offset, a.parent_id, s.strategy, s.facet, {checksums}
        FROM (
            SELECT
                f.ord,
                f.strategy,
                f.facet,
                ROW_NUMBER() OVER (PARTITION BY f.source, f.facet ORDER BY f.ord) AS turn
            FROM (
                SELECT
                    t.ord,
                    e.source,
                    {column} AS facet,
                    CASE WHEN t.is_attack THEN COALESCE(t.attack, ?) ELSE ? END AS strategy,
                    ROW_NUMBER() OVER (PARTITION BY t.entry_key ORDER BY t.is_attack, t.ord) AS nth
                FROM told AS t
                INNER JOIN entry AS e ON t.entry_key = e.entry_key
                WHERE t.succeeded
            ) AS f
            WHERE f.nth = 1
        ) AS s
        INNER JOIN attempt AS a ON s.ord = a.ord
        WHERE s.turn <= ?
        ORDER BY s.ord
        """,
        [UNNAMED_ATTACK, STANDARD, limit],
    )
    return [
        SuccessRow(ord_, source, line, offset, entry, strategy, facet, tuple(identity))
        for ord_, source, line, offset, entry, strategy, facet, *identity in rows
    ]
