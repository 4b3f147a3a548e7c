"""Counts over folded entries. Each function asks the ledger one question and returns plain counts, no rates."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, field

from faircount.core.model import AttemptsToSuccess, Counts, ErrorKind, FlakyCase, Latency, Outcome, Tally
from faircount.ledger.schema import OUTCOME_NUMBER, AnswerKind
from faircount.ledger.store import SEVERAL_ATTACKS, LedgerView

UNNAMED_ATTACK = "(unnamed)"
STANDARD = "standard"
ATTACK_NAME = "attack_name"
"""The column of `entry` that names its dynamic attack."""

NO_COLUMN = "CAST(NULL AS INTEGER)"
"""Stands for the column of a facet that no entry has."""

SEVERAL = "several attacks"

SOURCE = "source"
"""The column of `entry` that says in which file it begins."""

FAMILY = "family"
"""The column of `entry` that says what it is a variant of."""

_SUCCESS = OUTCOME_NUMBER[Outcome.SUCCESS]
_FAILURE = OUTCOME_NUMBER[Outcome.FAILURE]
_ERROR, _GUARDRAIL, _UNJUDGED = (OUTCOME_NUMBER[o] for o in (Outcome.ERROR, Outcome.GUARDRAIL, Outcome.UNJUDGED))
_COUNTS = "outcome, COUNT(*), COUNT_IF(initial_success), COUNT_IF(guardrail_any), SUM(requests), MIN(first_ord)"
"""What is counted about entries, grouped by their outcome."""


class AttackCounts(Struct, frozen=True):
    """What one dynamic attack did, counted."""

    attack: str
    total: int
    successes: int
    attempts: int
    blocks: int | None
    entries_blocked: int | None


class _Gathered(Struct):
    """Entries of one group, added up."""

    outcomes: list[int] = field(default_factory=lambda: [0] * len(Outcome))
    requests: int = 0
    initial: int = 0
    attack_only: int = 0
    blocked: int = 0
    first: int | None = None

    def add(self, outcome: int, entries: int, initial: int, blocked: int, requests: int, first: int) -> None:
        self.outcomes[outcome] += entries
        self.requests += int(requests)
        self.initial += initial
        self.attack_only += entries - initial if outcome == _SUCCESS else 0
        self.blocked += blocked
        self.first = first if self.first is None else min(first, self.first)

    def counts(self) -> Counts:
        success, failure, error, guardrail, unjudged = self.outcomes
        tally = Tally(sum(self.outcomes), success, failure, error, guardrail, unjudged)
        return Counts(tally, self.requests, self.initial, self.attack_only, self.blocked)


def _gathered(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[Any, ...], Counts]:
    """Add up rows of `_COUNTS`, each followed by the group's key; in order of first appearance."""
    groups: dict[tuple[Any, ...], _Gathered] = {}
    for outcome, entries, initial, blocked, requests, first, *key in rows:
        groups.setdefault(tuple(key), _Gathered()).add(outcome, entries, initial, blocked, requests, first)
    ordered = sorted(groups.items(), key=lambda item: item[1].first or 0)
    return {key: group.counts() for key, group in ordered}


def grouped(ledger: LedgerView, *columns: str, source: str = "entry") -> dict[tuple[Any, ...], Counts]:
    """Count the entries of a table by the numbers that stand for values of its columns, as they first appear."""
    keys = "".join(f", {column}" for column in columns)
    return _gathered(ledger.ask(f"SELECT {_COUNTS}{keys}$apart FROM {source} GROUP BY outcome{keys}$apart"))


def by_values(
    ledger: LedgerView, columns: Sequence[str], source: str = "entry"
) -> dict[tuple[str | None, ...], Counts]:
    """Count the entries of a table by the values of some of its columns, in order of first appearance."""
    found = grouped(ledger, *columns, source=source)
    return {tuple(map(partial(text_of, ledger), columns, key)): counts for key, counts in found.items()}


def overall(ledger: LedgerView) -> Counts:
    """Count all entries."""
    return grouped(ledger).get((), _Gathered().counts())


class FamilyCounts(Struct, frozen=True):
    """Families that are alike in all that is counted about their entries, and how many there are."""

    times: int
    total: int
    success: int
    judged: int
    initial: int
    attack_only: int
    guardrail: int
    guardrail_any: int
    error: int
    unjudged: int

    @property
    def undecided(self) -> int:
        """Errors and unjudged entries: nobody knows whether they would have succeeded."""
        return self.error + self.unjudged

    @property
    def error_or_guardrail(self) -> int:
        """Errors, where blocks are counted among them."""
        return self.error + self.guardrail

    @property
    def possible(self) -> int:
        """Entries that succeeded or may have."""
        return self.success + self.undecided

    @property
    def answered(self) -> int:
        """Entries with a verdict or a block."""
        return self.judged + self.guardrail

    @property
    def blocked(self) -> int:
        """Answered entries that did not succeed."""
        return self.answered - self.success


def families(ledger: LedgerView, column: str) -> list[FamilyCounts]:
    """Count the entries of families, the entries that share a value of a column; one without a value is alone."""
    return [FamilyCounts(*row) for row in ledger.ask(_families_alike(column, "$apart"))]


def families_by(
    ledger: LedgerView, column: str, *facets: str, source: str = "entry"
) -> dict[tuple[Any, ...], list[FamilyCounts]]:
    """Count the entries of families as `families` does, among those of each value of other columns by itself."""
    keys = "".join(f", {facet}" for facet in facets)
    return _families_by_key(ledger.ask(_families_alike(column, f"{keys}$apart", source)))


def _families_by_key(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[Any, ...], list[FamilyCounts]]:
    found: dict[tuple[Any, ...], list[FamilyCounts]] = {}
    width = len(FamilyCounts.__struct_fields__)
    for row in rows:
        found.setdefault(tuple(row[width:]), []).append(FamilyCounts(*row[:width]))
    return found


def _families_alike(column: str, apart: str = "", source: str = "entry") -> str:
    counts = "total, success, judged, initial, attack_only, guardrail, guardrail_any, error, unjudged"
    return f"""
        SELECT COUNT(*), {counts}{apart}
        FROM (
            SELECT
                COUNT(*) AS total,
                COUNT(CASE WHEN outcome = {_SUCCESS} THEN 1 END) AS success,
                COUNT(CASE WHEN outcome IN ({_SUCCESS}, {_FAILURE}) THEN 1 END) AS judged,
                COUNT(CASE WHEN initial_success THEN 1 END) AS initial,
                COUNT(CASE WHEN outcome = {_SUCCESS} AND NOT initial_success THEN 1 END) AS attack_only,
                COUNT(CASE WHEN outcome = {_GUARDRAIL} THEN 1 END) AS guardrail,
                COUNT(CASE WHEN guardrail_any THEN 1 END) AS guardrail_any,
                COUNT(CASE WHEN outcome = {_ERROR} THEN 1 END) AS error,
                COUNT(CASE WHEN outcome = {_UNJUDGED} THEN 1 END) AS unjudged{apart}
            FROM {source}
            GROUP BY {column}, CASE WHEN {column} IS NULL THEN entry_key END{apart}
        )
        GROUP BY {counts}{apart}
    """


def groups_in_families(ledger: LedgerView, column: str, facet: str) -> dict[int | None, tuple[Any, ...]]:
    """Sum up what the judged entries of each value of a facet tell against the others of their families.

    The sums are those of `faircount.stats.Strata`, in its order.
    """
    total_of = "CAST(SUM(CAST(ROUND(({}) * 1e12) AS HUGEINT)) AS DOUBLE) / 1e12".format
    # Sums of whole numbers do not depend on the order, which those of fractions do in their last digits.
    rows = ledger.ask(
        f"""
        SELECT
            {total_of("won - expected")},
            {total_of("spread")},
            {total_of("spread * successes * (total - successes) / (total * (total - 1))")},
            {total_of("expected - GREATEST(0, successes - (total - inside))")},
            {total_of("LEAST(inside, successes) - expected")},
            COUNT(stratum),
            COUNT(CASE WHEN won * total > inside * successes THEN stratum END),
            COUNT(CASE WHEN won * total < inside * successes THEN stratum END),
            {facet}$apart
        FROM (
            SELECT *, inside * successes / total AS expected, inside * (total - inside) / total AS spread
            FROM ({_groups_in_strata(column, facet)})
        )
        GROUP BY {facet}$apart
        """
    )
    return {value: tuple(sums) for *sums, value in rows}


def strata_of_groups(ledger: LedgerView, column: str, facet: str) -> dict[int | None, list[tuple[int, ...]]]:
    """Count the judged entries of each value of a facet in the families that it shares with others.

    The counts are those of `faircount.stats.Stratum`, in its order. Entries that are alone are one stratum.
    """
    rows = ledger.ask(
        f"""
        SELECT inside, won, total, successes, COUNT(*), stratum IS NULL, {facet}$apart
        FROM ({_groups_in_strata(column, facet)})
        GROUP BY inside, won, total, successes, stratum IS NULL, {facet}$apart
        """
    )
    found: dict[int | None, list[tuple[int, ...]]] = {}
    for *counts, value in rows:
        found.setdefault(value, []).append(tuple(map(int, counts)))
    return found


def _groups_in_strata(column: str, facet: str) -> str:
    return f"""
        SELECT *
        FROM (
            SELECT
                *,
                SUM(inside) OVER (PARTITION BY stratum$apart) AS total,
                SUM(won) OVER (PARTITION BY stratum$apart) AS successes
            FROM (
                SELECT
                    {facet},
                    CASE WHEN size > 1 THEN family END AS stratum,
                    SUM(inside) AS inside,
                    SUM(won) AS won$apart
                FROM (
                    SELECT *, SUM(entries) OVER (PARTITION BY family$apart) AS size
                    FROM (
                        SELECT
                            {facet},
                            {column} AS family,
                            COUNT(*) AS entries,
                            CAST(COUNT(CASE WHEN outcome IN ({_SUCCESS}, {_FAILURE}) THEN 1 END) AS DOUBLE) AS inside,
                            CAST(COUNT(CASE WHEN outcome = {_SUCCESS} THEN 1 END) AS DOUBLE) AS won$apart
                        FROM entry
                        GROUP BY {facet}, {column}$apart
                    )
                )
                GROUP BY {facet}, CASE WHEN size > 1 THEN family END$apart
            )
        )
        WHERE 0 < inside AND inside < total
    """


def text_of(ledger: LedgerView, column: str, number: int | None) -> str | None:
    """Return the text behind a number in a column of `entry`."""
    if column == ATTACK_NAME:
        return SEVERAL if number == SEVERAL_ATTACKS else ledger.word("attack", number)
    if column == SOURCE:
        return None if number is None else ledger.paths[number]
    return ledger.word(column, number)


def by_number(ledger: LedgerView, column: str) -> list[tuple[int | None, Counts]]:
    """Count entries by the values of a column of `entry`, given as numbers, in order of first appearance."""
    return [(value, counts) for (value,), counts in grouped(ledger, column).items()]


def largest(ledger: LedgerView, column: str, most: int) -> tuple[list[tuple[int | None, Counts]], int]:
    """Count entries as `by_number` does, by the most frequent of very many values; return how many are left out.

    A missing value is always among those that are counted.
    """
    if column == NO_COLUMN or len(ledger.lexicon("attack" if column == ATTACK_NAME else column)) <= most + 1:
        return by_number(ledger, column), 0
    counted = ledger.ask(
        f"SELECT {column}, COUNT(*), MIN(first_ord)$apart FROM entry WHERE {column} IS NOT NULL GROUP BY {column}$apart"
    )
    if len(counted) <= most:
        return by_number(ledger, column), 0
    kept = heapq.nsmallest(most, counted, key=lambda row: (-row[1], row[2]))
    listed = ", ".join(str(value) for value, _, _ in kept)
    found = _gathered(
        ledger.ask(
            f"SELECT {_COUNTS}, {column}$apart FROM entry"
            f" WHERE {column} IN ({listed}) OR {column} IS NULL GROUP BY outcome, {column}$apart"
        )
    )
    return [(value, counts) for (value,), counts in found.items()], len(counted) - most


def distinct_values(ledger: LedgerView, column: str) -> int:
    """Return how many different values, missing ones aside, a column of `entry` has."""
    return _one_number(ledger, f"SELECT COUNT(DISTINCT {column})$apart FROM entry $by")


def distinct_pairs(ledger: LedgerView, first: str, second: str) -> int:
    """Return how many different pairs of values, missing ones among them, two columns of `entry` have."""
    return _one_number(
        ledger,
        f"SELECT COUNT(*)$apart FROM (SELECT {first} AS one, {second} AS other$apart FROM entry"
        f" GROUP BY {first}, {second}$apart) $by",
    )


def _one_number(ledger: LedgerView, sql: str) -> int:
    """Return the number that a statement counts; a source without any row answers with none."""
    rows = ledger.ask(sql)
    return int(rows[0][0]) if rows else 0


class RankedCombinations:
    """The combinations of the values of some columns of `entry` that have at least so many entries."""

    def __init__(self, ledger: LedgerView, columns: Sequence[str], *, min_n: int) -> None:
        self._ledger = ledger
        self._columns = columns
        self._names = [f"key_{position}" for position in range(len(columns))]
        named = ", ".join(f"{column} AS {name}" for column, name in zip(columns, self._names, strict=True))
        ledger.query(
            f"CREATE OR REPLACE TEMP TABLE combination AS"
            f" SELECT {named}, COUNT(*) AS entries, COUNT(CASE WHEN outcome = {_SUCCESS} THEN 1 END) AS successes,"
            f" MIN(first_ord) AS first FROM entry GROUP BY {', '.join(columns)} HAVING COUNT(*) >= ?",
            [min_n],
        )

    def alike(self) -> list[tuple[int, int, int]]:
        """Return successes, entries and how many combinations have these."""
        return self._ledger.query(
            "SELECT successes, entries, COUNT(*) FROM combination GROUP BY successes, entries ORDER BY 1, 2"
        )

    def ranked(
        self,
        limit: int,
        family: str | None,
        *,
        lowest: bool = False,
        prior: tuple[float, float] = (0.0, 0.0),
    ) -> list[tuple[tuple[str | None, ...], Counts, list[FamilyCounts]]]:
        """Return the first combinations by rate, the larger first among equals, and their families where there are.

        `prior` adds so many successes and failures to each, so that a few entries do not make an extreme.
        """
        alpha, beta = prior
        chosen = (
            f"SELECT {', '.join(self._names)} FROM combination"
            f" ORDER BY (? + successes) / (? + entries) {'ASC' if lowest else 'DESC'}, entries DESC, first LIMIT ?"
        )
        parameters = [alpha, alpha + beta, limit]
        same = " AND ".join(
            f"e.{column} IS NOT DISTINCT FROM c.{name}"
            if column in self._ledger.facets.values()
            else f"c.{name} IS NULL"
            for column, name in zip(self._columns, self._names, strict=True)
        )
        entries = f"entry AS e INNER JOIN ({chosen}) AS c ON {same}"
        listed = "".join(f", c.{name}" for name in self._names)
        found = self._ledger.query(chosen, parameters)
        counts = f"SELECT {_COUNTS}{listed} FROM {entries} GROUP BY outcome{listed}"
        counted = _gathered(self._ledger.query(counts, parameters))
        kinds: dict[tuple[Any, ...], list[FamilyCounts]] = {}
        if family is not None:
            names = "".join(f", {name}" for name in self._names)
            kinds = _families_by_key(self._ledger.query(_families_alike(family, names, entries), parameters))
        text = partial(text_of, self._ledger)
        return [(tuple(map(text, self._columns, key)), counted[key], kinds.get(key, [])) for key in found]


def attacks(ledger: LedgerView) -> list[AttackCounts]:
    """Count by dynamic attack: entries it was invoked for, entries it won, requests, blocks where the file tells."""
    rows = ledger.ask(
        """
        SELECT
            attack,
            COUNT(*),
            COUNT(CASE WHEN won THEN 1 END),
            SUM(requests),
            SUM(blocks),
            CASE WHEN COUNT(blocks) > 0 THEN COUNT(CASE WHEN blocks > 0 THEN 1 END) END$apart
        FROM (
            SELECT attack, entry_key, BOOL_OR(succeeded) AS won, SUM(requests) AS requests, SUM(blocks) AS blocks$apart
            FROM counted_row
            WHERE is_attack
            GROUP BY attack, entry_key$apart
        )
        GROUP BY attack$apart
        """
    )
    counted = [
        AttackCounts(ledger.word("attack", attack) or UNNAMED_ATTACK, total, won, int(requests), blocks, entries)
        for attack, total, won, requests, blocks, entries in rows
    ]
    return sorted(counted, key=lambda c: c.attack)


def cells(ledger: LedgerView, column: str | None, facet: str) -> list[tuple[int | None, int | None, int, int]]:
    """Count successes and entries by family and the value of a facet; without a column, all are of one family.

    An entry without a family is alone: it is given a number below 0.
    """
    family = "CAST(0 AS INTEGER)" if column is None else f"COALESCE({column}, -1 - entry_key)"
    return ledger.ask(
        f"""
        SELECT {family} AS family, {facet}, COUNT(CASE WHEN outcome = {_SUCCESS} THEN 1 END), COUNT(*)$apart
        FROM entry
        GROUP BY {family}, {facet}$apart
        """
    )


FamilyKinds = list[tuple[int, int, int]]
"""Families that are alike: how many, how many entries each has, and how many of these are of interest."""


def attack_families(ledger: LedgerView, column: str) -> dict[str, FamilyKinds]:
    """Count the families of each dynamic attack: how many have so many entries, and so many that it won."""
    rows = ledger.ask(
        f"""
        SELECT COUNT(*), total, won, attack$apart
        FROM (
            SELECT attack, COUNT(*) AS total, COUNT(CASE WHEN won THEN 1 END) AS won$apart
            FROM (
                SELECT t.attack, t.entry_key, e.family, e.alone, BOOL_OR(t.succeeded) AS won$apart
                FROM counted_row AS t
                INNER JOIN ({_entries_in_families(column)}) AS e ON t.entry_key = e.entry_key
                WHERE t.is_attack
                GROUP BY t.attack, t.entry_key, e.family, e.alone$apart
            )
            GROUP BY attack, family, alone$apart
        )
        GROUP BY total, won, attack$apart
        """
    )
    return _kinds_by_word(ledger, "attack", rows, UNNAMED_ATTACK)


def _kinds_by_word(
    ledger: LedgerView, column: str, rows: Iterable[tuple[Any, ...]], unnamed: str
) -> dict[str, FamilyKinds]:
    found: dict[str, FamilyKinds] = {}
    for times, total, won, number in rows:
        found.setdefault(ledger.word(column, number) or unnamed, []).append((times, total, won))
    return found


def value_families(ledger: LedgerView, column: str, facet: str, won: int | None, lost: int | None) -> FamilyKinds:
    """Count the families of the entries with one of two values of a facet, and those with the first."""
    first, second = ("NULL" if number is None else str(number) for number in (won, lost))
    return ledger.ask(
        f"""
        SELECT COUNT(*), total, won$apart
        FROM (
            SELECT COUNT(*) AS total, COUNT(CASE WHEN {facet} = {first} THEN 1 END) AS won$apart
            FROM entry
            WHERE {facet} IN ({first}, {second})
            GROUP BY {column}, CASE WHEN {column} IS NULL THEN entry_key END$apart
        )
        GROUP BY total, won$apart
        """
    )


def category_families(ledger: LedgerView, column: str, *, flagged_only: bool = False) -> dict[str, FamilyKinds]:
    """Count the families with an entry that guardrails named a category of, see `guardrail_categories`."""
    rows = ledger.ask(
        f"""
        SELECT COUNT(*), total, won, category$apart
        FROM (
            SELECT n.category, e.size AS total, COUNT(DISTINCT n.entry_key) AS won$apart
            FROM ({_named_categories(flagged_only)}) AS n
            INNER JOIN ({_entries_in_families(column)}) AS e ON n.entry_key = e.entry_key
            GROUP BY n.category, e.family, e.alone, e.size$apart
        )
        GROUP BY total, won, category$apart
        """
    )
    return _kinds_by_word(ledger, "category", rows, "")


def _entries_in_families(column: str) -> str:
    """Return the entries with what tells families apart, one without a value being alone, and the family's size."""
    return f"""
        SELECT entry_key, family, alone, COUNT(*) OVER (PARTITION BY family, alone$apart) AS size
        FROM (
            SELECT entry_key, {column} AS family, CASE WHEN {column} IS NULL THEN entry_key END AS alone, source
            FROM entry
        )
    """


def attacks_blocked_by_flag(ledger: LedgerView) -> list[AttackCounts]:
    """Count by dynamic attack; a block is an entry all of whose attack rows are flagged."""
    blocked = {
        ledger.word("attack", attack) or UNNAMED_ATTACK: entries
        for attack, entries in ledger.query(
            """
            SELECT attack, COUNT(CASE WHEN flagged THEN 1 END)
            FROM (
                SELECT attack, entry_key, BOOL_AND(blocked) AS flagged
                FROM counted_row
                WHERE is_attack
                GROUP BY attack, entry_key
            )
            GROUP BY attack
            """
        )
    }
    return [
        AttackCounts(c.attack, c.total, c.successes, c.attempts, blocked[c.attack], blocked[c.attack])
        for c in attacks(ledger)
    ]


def guardrail_categories(
    ledger: LedgerView, most: int, *, flagged_only: bool = False
) -> tuple[list[tuple[str, int]], int]:
    """Count entries by the most frequent categories that guardrails named; return how many are left out.

    With `flagged_only`, what only a history names is not counted.
    """
    rows = ledger.ask(
        f"""
        SELECT category, COUNT(DISTINCT entry_key)$apart
        FROM ({_named_categories(flagged_only)})
        GROUP BY category$apart
        """
    )
    named = ((ledger.word("category", number) or "", entries) for number, entries in rows)
    return heapq.nsmallest(most, named, key=lambda c: (-c[1], c[0])), max(0, len(rows) - most)


def _named_categories(flagged_only: bool) -> str:
    flagged = "WHERE t.blocked" if flagged_only else ""
    return f"""
        SELECT c.category, t.entry_key, t.source
        FROM category AS c
        INNER JOIN counted_row AS t ON c.ord = t.ord
        {flagged}
    """


def error_kinds(ledger: LedgerView, most: int) -> tuple[list[ErrorKind], int]:
    """Count errored rows by the most frequent kinds of error, with the first of each as its example.

    Return also how many kinds are left out.
    """
    rows = ledger.ask(
        f"""
        SELECT
            error_kind,
            COUNT(*) AS errored_rows,
            COUNT(DISTINCT entry_key),
            ARG_MIN(error_text, ord),
            MIN(ord) AS first_ord$apart
        FROM counted_row
        WHERE state = {_ERROR}
        GROUP BY error_kind$apart
        ORDER BY errored_rows DESC, first_ord
        """
    )
    return [
        ErrorKind(
            ledger.word("error_kind", kind) or "",
            count,
            entries,
            ledger.word("error_text", text) or "",
            ledger.place(first),
        )
        for kind, count, entries, text, first in rows[:most]
    ], max(0, len(rows) - most)


def latency(ledger: LedgerView) -> list[Latency]:
    """Return median and 95th percentile of the response times by strategy. Quantiles are DuckDB's own."""
    rows = ledger.ask(
        """
        SELECT attack, is_attack, COUNT(*), QUANTILE_CONT(response_time, [0.5, 0.95])$apart
        FROM (
            SELECT CASE WHEN is_attack THEN attack END AS attack, is_attack, response_time$apart
            FROM counted_row
            WHERE response_time IS NOT NULL
        )
        GROUP BY attack, is_attack$apart
        """
    )
    found = [
        (is_attack, Latency(strategy_name(ledger, attack, is_attack), count, *quantiles))
        for attack, is_attack, count, quantiles in rows
    ]
    return [times for _, times in sorted(found, key=lambda item: (item[0], item[1].strategy))]


def strategy_name(ledger: LedgerView, attack: int | None, is_attack: bool) -> str:
    return (ledger.word("attack", attack) or UNNAMED_ATTACK) if is_attack else STANDARD


def attempts_to_success(ledger: LedgerView, *, answered: bool = False) -> list[AttemptsToSuccess]:
    """Count successful entries by the number of requests up to their first success, standard attempts first.

    `answered` leaves out requests that ended in an error.
    """
    lost = "lost" if answered else "0"
    rows = ledger.ask(
        f"""
        SELECT first_success, COUNT(*)$apart
        FROM (
            SELECT entry_key, MIN(made_before + success_at) AS first_success$apart
            FROM (
                SELECT
                    entry_key,
                    succeeded,
                    success_at - {lost} AS success_at,
                    source,
                    COALESCE(
                        SUM(requests - {lost}) OVER (
                            PARTITION BY entry_key
                            ORDER BY is_attack, ord
                            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                        ),
                        0
                    ) AS made_before
                FROM counted_row
                WHERE entry_key IN (SELECT entry_key FROM entry WHERE outcome = {_SUCCESS})
            )
            WHERE succeeded
            GROUP BY entry_key$apart
        )
        GROUP BY first_success$apart
        ORDER BY first_success
        """
    )
    return [AttemptsToSuccess(int(at), n) for at, n in rows]


class GivenUp(Struct, frozen=True):
    """Entries without a success after so many answered requests, and whether any ended in an error.

    `unknown`: at least so many were answered, but the file does not say how many were before the error.
    """

    requests: int
    errored: bool
    entries: int
    unknown: bool = False


def attempts_given_up(ledger: LedgerView) -> list[GivenUp]:
    """Count judged entries without a success by the requests they had; those that ended in an error show nothing.

    An entry that nothing judged is left out: nobody knows whether it succeeded.
    """
    rows = ledger.ask(
        f"""
        SELECT e.requests - t.lost AS spent, t.errored, t.unknown, COUNT(*)$apart
        FROM entry AS e
        INNER JOIN (
            SELECT
                entry_key,
                SUM(lost) AS lost,
                SUM(lost) > 0 OR BOOL_OR(state = {_ERROR}) AS errored,
                BOOL_OR(lost_unknown) AS unknown
            FROM counted_row
            GROUP BY entry_key
        ) AS t ON e.entry_key = t.entry_key
        WHERE e.outcome NOT IN ({_SUCCESS}, {_UNJUDGED})
        GROUP BY spent, t.errored, t.unknown$apart
        ORDER BY spent, t.errored, t.unknown
        """
    )
    return [GivenUp(int(spent), errored, entries, unknown) for spent, errored, unknown, entries in rows]


def entries_attacked(ledger: LedgerView) -> int:
    """Count the entries on which a dynamic attack was tried."""
    return _one_number(ledger, "SELECT COUNT(DISTINCT entry_key)$apart FROM counted_row WHERE is_attack $by")


class RepeatedEntries(Struct, frozen=True):
    """Entries with so many judged standard attempts and successes among them; `after_success` if one came later."""

    times: int
    attempts: int
    successes: int
    after_success: bool
    family: int | None = None


def repeated_entries(ledger: LedgerView, column: str | None = None) -> list[RepeatedEntries]:
    """Count entries by their judged standard attempts, each recorded by itself; nothing where no entry has two.

    Where one row stands for several requests, only the last of them is known: such an entry counts without attempts.
    The row of a case of a run has each. With the `column` of families, entries of different families are kept apart; an
    entry without one has a number below 0 of its own.
    """
    rows = ledger.ask("SELECT COUNT(*), COALESCE(MAX(tries), 0)$apart FROM counted_row WHERE NOT is_attack $by")
    standard, tries = rows[0] if rows else (0, 0)
    if tries < 2 and standard == _one_number(ledger, "SELECT COUNT(*)$apart FROM entry WHERE has_standard $by"):
        return []
    family = "NULL" if column is None else "COALESCE(variant_of, -1 - entry_key)"
    joined = (
        "" if column is None else f" LEFT JOIN (SELECT entry_key, {column} AS variant_of FROM entry) USING (entry_key)"
    )
    rows = ledger.ask(
        f"""
        SELECT COUNT(*), attempts, successes, after_success, family$apart
        FROM (
            SELECT
                MIN({family}) AS family,
                CAST(CASE
                    WHEN COUNT(tries) > 0 THEN SUM(tries) WHEN MAX(requests) > 1 THEN 0 ELSE COUNT(judged)
                END AS BIGINT) AS attempts,
                CAST(CASE
                    WHEN COUNT(tries) > 0 THEN SUM(tries_won) WHEN MAX(requests) > 1 THEN 0 ELSE COUNT(won)
                END AS BIGINT) AS successes,
                BOOL_OR(continued) OR COALESCE(MAX(judged) > MIN(won), FALSE) AS after_success$apart
            FROM (
                SELECT
                    entry_key,
                    requests,
                    tries,
                    tries_won,
                    continued,
                    source,
                    CASE WHEN state IN ({_SUCCESS}, {_FAILURE}) THEN ord END AS judged,
                    CASE WHEN state = {_SUCCESS} THEN ord END AS won
                FROM counted_row
                WHERE NOT is_attack
            ){joined}
            GROUP BY entry_key$apart
        )
        GROUP BY attempts, successes, after_success, family$apart
        ORDER BY attempts, successes, after_success, family
        """
    )
    return [RepeatedEntries(*row) for row in rows]


def flaky_cases(ledger: LedgerView, limit: int) -> list[FlakyCase]:
    """Return the cases of a run of tests that passed in some attempts and failed in others, the least steady first."""
    rows = ledger.query(
        """
        SELECT parent_id, ord, tries_won, tries
        FROM counted_row
        WHERE tries_won > 0 AND tries_won < tries
        ORDER BY ABS(2 * tries_won - tries) / tries, ord
        LIMIT ?
        """,
        [limit],
    )
    return [
        FlakyCase(ledger.word("parent_id", name) or "", ledger.place(ord_), int(won), int(tries))
        for name, ord_, won, tries in rows
    ]


def failures_with_text(ledger: LedgerView) -> int:
    """Count failed entries with a failed row whose answer is a text."""
    rows = ledger.query(
        f"""
        SELECT COUNT(DISTINCT e.entry_key)
        FROM entry AS e
        INNER JOIN counted_row AS t ON e.entry_key = t.entry_key
        WHERE e.outcome = {_FAILURE} AND t.state = {_FAILURE} AND t.answer = {AnswerKind.TEXT}
        """
    )
    return int(rows[0][0])


def kinds_of_answers(ledger: LedgerView) -> dict[int, int]:
    """Count judged rows by the kind of their answer, see `schema.AnswerKind`."""
    rows = ledger.ask(
        f"SELECT answer, COUNT(*)$apart FROM counted_row WHERE state IN ({_SUCCESS}, {_FAILURE}) GROUP BY answer$apart"
    )
    return {int(answer): int(count) for answer, count in rows}


# -- verdicts of several judges ---------------------------------------------------------------------------------


def has_several_judges(ledger: LedgerView) -> bool:
    """Return whether verdicts of more than one judge are recorded of any row."""
    return bool(ledger.query("SELECT 1 FROM verdict GROUP BY ord HAVING COUNT(DISTINCT judge) > 1 LIMIT 1"))


_COMPARED = """
    WITH latest AS (
        SELECT ord, attempt, judge, ARG_MAX(decision, given) AS decision, ARG_MAX(score, given) AS score
        FROM verdict
        WHERE judge IS NOT NULL AND ord IN (SELECT ord FROM counted_row)
        GROUP BY ord, attempt, judge
    ), level AS (
        SELECT ord, COUNT(DISTINCT CASE WHEN attempt > 0 THEN judge END) > 1 AS by_request FROM latest GROUP BY ord
    ), compared AS (
        SELECT a.* FROM latest AS a INNER JOIN level AS l ON a.ord = l.ord AND (a.attempt > 0) = l.by_request
    )
"""
"""The last verdict of each judge on each answer. Where several judges judged the requests of a row one by one, those
are the answers, and not the row as a whole."""


def verdicts_compared(ledger: LedgerView) -> Iterator[tuple[int, int, str, bool | None, float | None]]:
    """Yield the verdicts on answers that several judges may have judged: place, request, judge, decision and score."""
    rows = ledger.query(f"{_COMPARED} SELECT ord, attempt, judge, decision, score FROM compared ORDER BY 1, 2, 3")
    for place, attempt, judge, decision, score in rows:
        yield place, attempt, str(ledger.word("judge", judge)), decision, score


def verdict_pairs(ledger: LedgerView) -> dict[tuple[str, str], list[list[int]]]:
    """Count the verdicts that two judges gave on the same answer, for each two: failure before success, twice."""
    rows = ledger.query(
        f"""
        {_COMPARED}
        SELECT a.judge, b.judge, a.decision, b.decision, COUNT(*)
        FROM compared AS a
        INNER JOIN compared AS b ON a.ord = b.ord AND a.attempt = b.attempt AND a.judge < b.judge
        WHERE a.decision IS NOT NULL AND b.decision IS NOT NULL
        GROUP BY a.judge, b.judge, a.decision, b.decision
        ORDER BY a.judge, b.judge
        """
    )
    pairs: dict[tuple[str, str], list[list[int]]] = {}
    for one, other, first, second, count in rows:
        judges = str(ledger.word("judge", one)), str(ledger.word("judge", other))
        pairs.setdefault(judges, [[0, 0], [0, 0]])[first][second] += count
    return pairs
