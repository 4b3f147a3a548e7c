"""Counts over folded entries. Each function asks the ledger one question and returns plain counts, no rates."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, field

from faircount.core.model import AttemptsToSuccess, Counts, ErrorKind, FlakyCase, Latency, Outcome, Tally
from faircount.ledger.questions import KEY, MAX, MIN, SUM, Question, first_word, listed_words, word, word_of_field
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
_COUNT_ROLES = (KEY, SUM, SUM, SUM, SUM, MIN)


class _Facets(Struct, frozen=True):
    """Columns of `entry` that are asked about at once: that takes hardly longer than to ask about one.

    In SQL they are `field`, which says of which column a row is, and `value`.
    """

    columns: tuple[str, ...]

    @property
    def field(self) -> str:
        """The number of a column: its bit alone is not set."""
        return f"GROUPING({', '.join(self.columns)}) AS field"

    @property
    def value(self) -> str:
        return f"COALESCE({', '.join(self.columns)}) AS value"

    def sets(self, *others: str) -> str:
        """Return what a statement groups by: each column, and others."""
        sets = [", ".join([*others, column]) + "$apart" for column in self.columns]
        return f"GROUPING SETS ({', '.join(f'({one})' for one in sets)})"

    @property
    def roles(self) -> tuple[str, str]:
        """What `field` and `value` are in an answer."""
        with_words = (column for column in self.columns if column not in (SOURCE, FAMILY))
        return KEY, word_of_field({self.number(column): _words_of(column) for column in with_words})

    def number(self, column: str) -> int:
        """Return the number of a column."""
        count = len(self.columns)
        return (1 << count) - 1 - (1 << (count - 1 - self.columns.index(column)))

    def rows(self, answer: Iterable[tuple[Any, ...]], column: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of an answer that are of a column, without `field`, which is the last but one."""
        number = self.number(column)
        return ((*row[:-2], row[-1]) for row in answer if row[-2] == number)


_MOST_AT_ONCE = 60
_FEW_VALUES = 1_000


def _facets_with(ledger: LedgerView, column: str) -> _Facets:
    """Return the columns to ask about at once with one: all that have few values."""
    few = [
        one for one in (*ledger.facets.values(), ATTACK_NAME) if ledger.known_words(_words_of(one)) <= _FEW_VALUES + 1
    ]
    columns = tuple(dict.fromkeys(few))[:_MOST_AT_ONCE]
    return _Facets(columns if column in columns else (column,))


def _varying_with(ledger: LedgerView, column: str, family: str) -> _Facets:
    """Return those of them that have more than one value, and do not define the families: those are in every set."""
    if column == family:
        return _Facets((column,))
    facets = _facets_with(ledger, column)
    values = Counter(number for number, _ in {row[-2:] for row in ledger.ask(_counts_of(facets))})
    return _Facets(
        tuple(one for one in facets.columns if one == column or (one != family and values[facets.number(one)] > 1))
    )


def role_of(column: str) -> str:
    """Return what a column of `entry` is in an answer: a number that means the same everywhere, or a word."""
    return KEY if column in (SOURCE, FAMILY, NO_COLUMN) else word(_words_of(column))


def _words_of(column: str) -> str:
    """Return the column whose words the numbers of a column of `entry` stand for."""
    return "attack" if column == ATTACK_NAME else column


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


def _counts_of(facets: _Facets) -> Question:
    sql = f"SELECT {_COUNTS}, {facets.field}, {facets.value}$apart FROM entry GROUP BY {facets.sets('outcome')}"
    return Question(sql, (*_COUNT_ROLES, *facets.roles))


def grouped(ledger: LedgerView, *columns: str, source: str = "entry") -> dict[tuple[Any, ...], Counts]:
    """Count the entries of a table by the numbers that stand for values of its columns, as they first appear."""
    if source == "entry" and columns == (NO_COLUMN,):
        return {(None,): found[()]} if (found := grouped(ledger)) else {}
    if source == "entry" and len(columns) == 1:
        facets = _facets_with(ledger, columns[0])
        return _gathered(facets.rows(ledger.ask(_counts_of(facets)), columns[0]))
    keys = "".join(f", {column}" for column in columns)
    sql = f"SELECT {_COUNTS}{keys}$apart FROM {source} GROUP BY outcome{keys}$apart"
    return _gathered(ledger.ask(Question(sql, (*_COUNT_ROLES, *map(role_of, columns)))))


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
    return families_by(ledger, column).get((), [])


def families_by(
    ledger: LedgerView, column: str, *facets: str, source: str = "entry"
) -> dict[tuple[Any, ...], list[FamilyCounts]]:
    """Count the entries of families as `families` does, among those of each value of other columns by itself."""
    if source == "entry" and len(facets) == 1 and facets[0] != NO_COLUMN:
        at_once = _varying_with(ledger, facets[0], column)
        return _families_by_key(at_once.rows(ledger.ask(_families_of_facets(column, at_once)), facets[0]))
    return _families_by_key(ledger.ask(_families_alike(column, facets, list(map(role_of, facets)), source)))


def _families_of_facets(column: str, facets: _Facets) -> Question:
    alone = f"CASE WHEN {column} IS NULL THEN entry_key END"
    shown, by = f"{_FAMILY_COUNTS}, {facets.field}, {facets.value}$apart", facets.sets(column, alone)
    return _families_counted("field, value", f"SELECT {shown} FROM entry GROUP BY {by}", facets.roles, (), column)


def _families_by_key(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[Any, ...], list[FamilyCounts]]:
    found: dict[tuple[Any, ...], list[tuple[int, ...]]] = {}
    width = len(FamilyCounts.__struct_fields__)
    for row in rows:
        found.setdefault(tuple(row[width:]), []).append(row[:width])
    # Sums of fractions over families depend on their order in the last digits.
    return {key: [FamilyCounts(*kind) for kind in sorted(kinds)] for key, kinds in found.items()}


def _families_alike(
    column: str,
    facets: Sequence[str] = (),
    roles: Sequence[str] = (),
    source: str = "entry",
    words: tuple[tuple[str, int | None], ...] = (),
) -> Question:
    keys = "".join(f", {facet}" for facet in facets) + "$apart"
    alone = f"CASE WHEN {column} IS NULL THEN entry_key END"
    families = f"SELECT {_FAMILY_COUNTS}{keys} FROM {source} GROUP BY {column}, {alone}{keys}"
    return _families_counted(", ".join(facets), families, roles, words, column)


_FAMILY_COUNTS = f"""
    COUNT(*) AS total,
    COUNT(CASE WHEN outcome = {_SUCCESS} THEN 1 END) AS success,
    COUNT(CASE WHEN outcome IN ({_SUCCESS}, {_FAILURE}) THEN 1 END) AS judged,
    COUNT(CASE WHEN initial_success THEN 1 END) AS initial,
    COUNT(CASE WHEN outcome = {_SUCCESS} AND NOT initial_success THEN 1 END) AS attack_only,
    COUNT(CASE WHEN outcome = {_GUARDRAIL} THEN 1 END) AS guardrail,
    COUNT(CASE WHEN guardrail_any THEN 1 END) AS guardrail_any,
    COUNT(CASE WHEN outcome = {_ERROR} THEN 1 END) AS error,
    COUNT(CASE WHEN outcome = {_UNJUDGED} THEN 1 END) AS unjudged
"""


def _families_counted(
    keys: str, families: str, roles: Sequence[str], words: tuple[tuple[str, int | None], ...], column: str
) -> Question:
    """Return how many families are alike in all their counts, of each value of the keys by itself."""
    by = ", ".join(
        filter(
            None, ["total, success, judged, initial, attack_only, guardrail, guardrail_any", "error, unjudged", keys]
        )
    )
    return Question(
        f"SELECT COUNT(*), {by}$apart FROM ({families}) GROUP BY {by}$apart", (SUM, *[KEY] * 9, *roles), words, column
    )


_SCALE = 10**12
"""Fractions are added up as whole numbers of this part: sums of those do not depend on the order of the parts."""
_SUMMED_HERE_UP_TO_ROWS = 20_000
_LONE = ", ".join(f"SUM(IF(size IS NULL, {one}, 0))" for one in ("inside", "won"))


def groups_in_families(ledger: LedgerView, column: str, facet: str) -> dict[int | None, tuple[Any, ...]]:
    """Sum up how the judged entries of each value of a facet compare with the others of their families.

    The sums are those of `faircount.stats.Strata`, in its order. For many rows SQL adds them up, of the same fractions.
    """
    if sum(ledger.rows) > _SUMMED_HERE_UP_TO_ROWS:
        return _groups_summed(ledger, column, facet)
    return {value: _summed(strata) for value, strata in strata_of_groups(ledger, column, facet).items()}


def _summed(strata: Iterable[tuple[int, ...]], sums: Iterable[int] = (0,) * 8) -> tuple[Any, ...]:
    """Sum up strata, and add what others come to."""
    sums = list(sums)
    for inside, won, total, successes, times, alone in strata:
        expected, spread = inside * successes / total, inside * (total - inside) / total
        parts = (
            won - expected,
            spread,
            spread * successes * (total - successes) / (total * (total - 1)),
            expected - max(0, successes - (total - inside)),
            min(inside, successes) - expected,
        )
        for position, part in enumerate(parts):
            sums[position] += math.floor(abs(part) * _SCALE + 0.5) * (-times if part < 0 else times)
        if not alone:
            more = won * total - inside * successes
            sums[5] += times
            sums[6] += times if more > 0 else 0
            sums[7] += times if more < 0 else 0
    return (*(one / _SCALE for one in sums[:5]), *sums[5:])


def _groups_summed(ledger: LedgerView, column: str, facet: str) -> dict[int | None, tuple[Any, ...]]:
    facets = _varying_with(ledger, facet, column)
    parts = ("deviation", "spread", "variance", "to_least", "to_most")
    sums = [f"SUM(CAST(SIGN({one}) * FLOOR(ABS({one}) * 1e12 + 0.5) AS HUGEINT))" for one in parts]
    means = "inside * successes::DOUBLE / total AS expected, inside * (total - inside)::DOUBLE / total AS spread"
    # In two columns, either of which fits into 64 bits.
    columns = ", ".join(f"{one} // {_SCALE}, {one} % {_SCALE}" for one in sums)
    sql = f"""
        SELECT
            {_LONE},
            {columns},
            COUNT(size),
            COUNT(CASE WHEN won * total > inside * successes THEN 1 END),
            COUNT(CASE WHEN won * total < inside * successes THEN 1 END),
            field,
            value$apart
        FROM (
            SELECT
                *,
                won - expected AS deviation,
                spread * successes * (total - successes) / (total * (total - 1)) AS variance,
                expected - GREATEST(0, successes - (total - inside)) AS to_least,
                LEAST(inside, successes) - expected AS to_most
            FROM (SELECT *, {means} FROM {_groups_and_families(facets, column)})
        )
        GROUP BY field, value$apart
    """
    answer = ledger.ask(Question(sql, (*[SUM] * 15, *facets.roles), family=column))
    rows = {row[-1]: [int(one or 0) for one in row[:-1]] for row in facets.rows(answer, facet)}
    alone = _alone({value: (row[0], row[1]) for value, row in rows.items()})
    return {
        value: _summed(alone.get(value, ()), [*(row[at] * _SCALE + row[at + 1] for at in range(2, 12, 2)), *row[12:]])
        for value, row in rows.items()
        if row[12] or value in alone
    }


def strata_of_groups(ledger: LedgerView, column: str, facet: str) -> dict[int | None, list[tuple[int, ...]]]:
    """Count the judged entries of each value of a facet in the families that it shares with others.

    The counts are those of `faircount.stats.Stratum`, in its order. Entries that are alone are one stratum.
    """
    facets = _varying_with(ledger, facet, column)
    kinds = ", ".join(f"IF(size IS NULL, 0, {one})" for one in ("inside", "won", "total", "successes"))
    sql = f"""
        SELECT {kinds}, COUNT(*), {_LONE}, field, value$apart
        FROM {_groups_and_families(facets, column)}
        GROUP BY {kinds}, field, value$apart
    """
    answer = ledger.ask(Question(sql, (*[KEY] * 4, *[SUM] * 3, *facets.roles), family=column))
    found: dict[int | None, list[tuple[int, ...]]] = {}
    lonely: dict[int | None, tuple[int, int]] = {}
    for inside, won, total, successes, times, lone_inside, lone_won, value in facets.rows(answer, facet):
        if total:
            found.setdefault(value, []).append((int(inside), int(won), int(total), int(successes), int(times), 0))
        else:
            lonely[value] = (int(lone_inside), int(lone_won))
    for value, strata in _alone(lonely).items():
        found.setdefault(value, []).extend(strata)
    return {value: sorted(strata) for value, strata in found.items()}


def _alone(counts: dict[int | None, tuple[int, int]]) -> dict[int | None, list[tuple[int, ...]]]:
    """Return the stratum of the entries that are alone, by the value, given those judged and successful of each."""
    total, successes = (sum(column) for column in zip(*counts.values(), strict=True)) if counts else (0, 0)
    return {value: [(*one, total, successes, 1, 1)] for value, one in counts.items() if 0 < one[0] < total}


def _groups_and_families(facets: _Facets, column: str) -> str:
    """Return the judged entries of each value in families that have others, and of those alone: `size` is null."""
    counts = f"""
        COUNT(CASE WHEN outcome IN ({_SUCCESS}, {_FAILURE}) THEN 1 END) AS {{}},
        COUNT(CASE WHEN outcome = {_SUCCESS} THEN 1 END) AS {{}}$apart"""
    numbers = ", ".join(str(facets.number(one)) for one in facets.columns)
    fields = f"UNNEST([{numbers}]) AS field, UNNEST([{', '.join(facets.columns)}]) AS value"
    return f"""(
        SELECT *
        FROM (
            SELECT field, value, family, {counts.format("inside", "won")}
            FROM (SELECT {column} AS family, outcome, {fields}$apart FROM entry)
            GROUP BY field, value, family$apart
        )
        LEFT JOIN (
            SELECT {column} AS family, COUNT(*) AS size, {counts.format("total", "successes")}
            FROM entry
            WHERE {column} IS NOT NULL
            GROUP BY {column}$apart
            HAVING COUNT(*) > 1
        ) USING (family$apart)
        WHERE size IS NULL OR (0 < inside AND inside < total)
    )"""


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
    if column == NO_COLUMN or ledger.known_words(_words_of(column)) <= most + 1:
        return by_number(ledger, column), 0
    role = role_of(column)
    counted = ledger.ask(
        Question(
            f"SELECT {column}, COUNT(*), MIN(first_ord)$apart FROM entry WHERE {column} IS NOT NULL"
            f" GROUP BY {column}$apart",
            (role, SUM, MIN),
        )
    )
    if len(counted) <= most:
        return by_number(ledger, column), 0
    kept = heapq.nsmallest(most, counted, key=lambda row: (-row[1], row[2]))
    words, listed = listed_words(_words_of(column), [value for value, _, _ in kept])
    found = _gathered(
        ledger.ask(
            Question(
                f"SELECT {_COUNTS}, {column}$apart FROM entry"
                f" WHERE {column} IN ({listed}) OR {column} IS NULL GROUP BY outcome, {column}$apart",
                (*_COUNT_ROLES, role),
                words,
            )
        )
    )
    return [(value, counts) for (value,), counts in found.items()], len(counted) - most


MOST_DISTINCT = 100_000
"""So many different values are counted, and one for all the others."""


def distinct_values(ledger: LedgerView, column: str) -> int:
    """Return how many different values, missing ones aside, a column of `entry` has, up to `MOST_DISTINCT` and one."""
    return _distinct(ledger, [column], f"WHERE {column} IS NOT NULL")


def distinct_pairs(ledger: LedgerView, first: str, second: str) -> int:
    """Return how many different pairs of values two columns of `entry` have, missing ones among them; up to as many."""
    return _distinct(ledger, [first, second])


def _distinct(ledger: LedgerView, columns: Sequence[str], condition: str = "") -> int:
    sql = f"SELECT DISTINCT {', '.join(columns)}$apart FROM entry {condition} LIMIT {MOST_DISTINCT + 1}"
    return min(len(ledger.ask(Question(sql, tuple(map(role_of, columns))))), MOST_DISTINCT + 1)


def _one_number(ledger: LedgerView, sql: str) -> int:
    """Return the number that a statement counts; a source without any row answers with none."""
    rows = ledger.ask(Question(sql, (SUM,)))
    return int(rows[0][0]) if rows else 0


RankedCombination = tuple[tuple[str | None, ...], Counts, list[FamilyCounts]]
"""The values of a combination, and what is counted about its entries and their families."""


class RankedCombinations:
    """The combinations of the values of some columns of `entry` that have at least so many entries."""

    def __init__(self, ledger: LedgerView, columns: Sequence[str], *, min_n: int) -> None:
        self._ledger = ledger
        self._columns = columns
        self._roles = tuple(map(role_of, columns))
        self._min_n = min_n

    def _asked(self, over: str) -> list[tuple[Any, ...]]:
        """Ask something of all combinations: columns c0, c1 … are their entries, successes, first place and values."""
        keys = ", ".join(self._columns)
        counts = f"COUNT(*), COUNT(CASE WHEN outcome = {_SUCCESS} THEN 1 END), MIN(first_ord)"
        sql = f"SELECT {counts}, {keys} FROM entry GROUP BY {keys}"
        return self._ledger.ask(Question(sql, (SUM, SUM, MIN, *self._roles), over=over))

    def alike(self) -> list[tuple[int, int, int]]:
        """Return successes, entries and how many combinations have these."""
        return self._asked(
            f"SELECT c1, c0, COUNT(*) FROM $answer WHERE c0 >= {self._min_n} GROUP BY 1, 2 ORDER BY 1, 2"
        )

    def ranked(
        self, limit: int, family: str | None, *, prior: tuple[float, float] = (0.0, 0.0)
    ) -> tuple[list[RankedCombination], list[RankedCombination]]:
        """Return the first combinations by rate, and the last, the larger first among equals.

        `prior` adds so many successes and failures to each, so that a few entries do not make an extreme.
        """
        alpha, beta = prior
        rate = f"({alpha!r}::DOUBLE + c1) / ({alpha + beta!r}::DOUBLE + c0)"
        enough = f"SELECT * FROM $answer WHERE c0 >= {self._min_n}"
        highest, lowest = (
            [row[3:] for row in self._asked(f"{enough} ORDER BY {rate} {order}, c0 DESC, c2 LIMIT {limit}")]
            for order in ("DESC", "ASC")
        )
        described = self._described(list(dict.fromkeys([*highest, *lowest])), family)
        return [described[key] for key in highest], [described[key] for key in lowest]

    def _described(
        self, keys: Sequence[tuple[int | None, ...]], family: str | None
    ) -> dict[tuple[int | None, ...], RankedCombination]:
        """Return what is counted about the entries of combinations, and about their families where there are."""
        if not keys:
            return {}
        words = tuple(pair for key in keys for pair in zip(map(_words_of, self._columns), key, strict=True))
        names = [f"key_{position}" for position in range(len(self._columns))]
        tokens = [
            "CAST(NULL AS INTEGER)" if number is None else f"$word{position}"
            for position, (_, number) in enumerate(words)
        ]
        width = len(names)
        listed = ", ".join(f"({', '.join(tokens[at : at + width])})" for at in range(0, len(tokens), width))
        same = " AND ".join(
            f"c.{name} IS NULL" if column == NO_COLUMN else f"e.{column} IS NOT DISTINCT FROM c.{name}"
            for column, name in zip(self._columns, names, strict=True)
        )
        entries = f"entry AS e INNER JOIN (VALUES {listed}) AS c({', '.join(names)}) ON {same}"
        listed_keys = "".join(f", c.{name}" for name in names)
        counts = f"SELECT {_COUNTS}{listed_keys} FROM {entries} GROUP BY outcome{listed_keys}"
        counted = _gathered(self._ledger.ask(Question(counts, (*_COUNT_ROLES, *self._roles), words)))
        kinds: dict[tuple[Any, ...], list[FamilyCounts]] = {}
        if family is not None:
            kinds = _families_by_key(self._ledger.ask(_families_alike(family, names, self._roles, entries, words)))
        text = partial(text_of, self._ledger)
        return {key: (tuple(map(text, self._columns, key)), counted[key], kinds.get(key, [])) for key in keys}


def attacks(ledger: LedgerView) -> list[AttackCounts]:
    """Count by dynamic attack: entries it was invoked for, entries it won, requests, blocks where the file tells."""
    sql = """
        SELECT
            attack,
            COUNT(*),
            COUNT(CASE WHEN won THEN 1 END),
            SUM(requests),
            SUM(blocks),
            CASE WHEN COUNT(blocks) > 0 THEN COUNT(CASE WHEN blocks > 0 THEN 1 END) END$apart
        FROM entry_attack
        GROUP BY attack$apart
    """
    counted = [
        AttackCounts(ledger.word("attack", attack) or UNNAMED_ATTACK, total, won, int(requests), blocks, entries)
        for attack, total, won, requests, blocks, entries in ledger.ask(
            Question(sql, (word("attack"), SUM, SUM, SUM, SUM, SUM))
        )
    ]
    return sorted(counted, key=lambda c: c.attack)


def cells(ledger: LedgerView, column: str | None, facet: str) -> list[tuple[int | None, int | None, int, int]]:
    """Count successes and entries by family and the value of a facet; without a column, all are of one family.

    An entry without a family is alone: it is given a number below 0.
    """
    family = "CAST(0 AS INTEGER)" if column is None else f"COALESCE({column}, -1 - first_ord)"
    sql = f"""
        SELECT {family} AS family, {facet}, COUNT(CASE WHEN outcome = {_SUCCESS} THEN 1 END), COUNT(*)$apart
        FROM entry
        GROUP BY {family}, {facet}$apart
    """
    role = KEY if column is None else role_of(column)
    found = ledger.ask(Question(sql, (role, role_of(facet), SUM, SUM)))

    def order(cell: tuple[int | None, int | None, int, int]) -> tuple[Any, ...]:
        of_family, value, *_ = cell
        known = "" if column in (None, FAMILY) or (of_family or 0) < 0 else text_of(ledger, column or "", of_family)
        return known or "", 0 if known else of_family, text_of(ledger, facet, value) or ""

    return sorted(found, key=order)


FamilyKinds = list[tuple[int, int, int]]
"""Families that are alike: how many, how many entries each has, and how many of these are of interest."""


def attack_families(ledger: LedgerView, column: str) -> dict[str, FamilyKinds]:
    """Count the families of each dynamic attack: how many have so many entries, and so many that it won."""
    sql = f"""
        SELECT COUNT(*), total, won, attack$apart
        FROM (
            SELECT attack, COUNT(*) AS total, COUNT(CASE WHEN won THEN 1 END) AS won$apart
            FROM (
                SELECT t.attack, t.won, t.source, e.family, e.alone
                FROM entry_attack AS t
                INNER JOIN ({_entries_in_families(column)}) AS e ON t.entry_key = e.entry_key
            )
            GROUP BY attack, family, alone$apart
        )
        GROUP BY total, won, attack$apart
    """
    return _kinds_by_word(ledger, "attack", Question(sql, (SUM, KEY, KEY, word("attack")), family=column))


def _kinds_by_word(ledger: LedgerView, column: str, question: Question, unnamed: str = "") -> dict[str, FamilyKinds]:
    unnamed = UNNAMED_ATTACK if column == "attack" else unnamed
    found: dict[str, FamilyKinds] = {}
    for times, total, won, number in ledger.ask(question):
        found.setdefault(ledger.word(column, number) or unnamed, []).append((times, total, won))
    return {name: sorted(kinds) for name, kinds in found.items()}


def value_families(ledger: LedgerView, column: str, facet: str, won: int | None, lost: int | None) -> FamilyKinds:
    """Count the families of the entries with one of two values of a facet, and those with the first."""
    sql = f"""
        SELECT COUNT(*), total, won$apart
        FROM (
            SELECT COUNT(*) AS total, COUNT(CASE WHEN {facet} = $word0 THEN 1 END) AS won$apart
            FROM entry
            WHERE {facet} IN ($word0, $word1)
            GROUP BY {column}, CASE WHEN {column} IS NULL THEN entry_key END$apart
        )
        GROUP BY total, won$apart
    """
    words = (_words_of(facet), won), (_words_of(facet), lost)
    return sorted(ledger.ask(Question(sql, (SUM, KEY, KEY), words, column)))


def category_families(ledger: LedgerView, column: str, *, flagged_only: bool = False) -> dict[str, FamilyKinds]:
    """Count the families with an entry that guardrails named a category of, see `guardrail_categories`."""
    sql = f"""
        SELECT COUNT(*), total, won, category$apart
        FROM (
            SELECT category, size AS total, COUNT(DISTINCT entry_key) AS won$apart
            FROM (
                SELECT n.category, n.entry_key, n.source, e.family, e.alone, e.size
                FROM entry_category AS n
                INNER JOIN ({_entries_in_families(column)}) AS e ON n.entry_key = e.entry_key
                {"WHERE n.flagged" if flagged_only else ""}
            )
            GROUP BY category, family, alone, size$apart
        )
        GROUP BY total, won, category$apart
    """
    return _kinds_by_word(ledger, "category", Question(sql, (SUM, KEY, KEY, word("category")), family=column))


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
    sql = "SELECT attack, COUNT(CASE WHEN all_blocked THEN 1 END)$apart FROM entry_attack GROUP BY attack$apart"
    blocked = {
        ledger.word("attack", attack) or UNNAMED_ATTACK: entries
        for attack, entries in ledger.ask(Question(sql, (word("attack"), SUM)))
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
    sql = f"""
        SELECT category, COUNT(DISTINCT entry_key)$apart
        FROM entry_category
        {"WHERE flagged" if flagged_only else ""}
        GROUP BY category$apart
    """
    rows = ledger.ask(Question(sql, (word("category"), SUM)))
    named = ((ledger.word("category", number) or "", entries) for number, entries in rows)
    return heapq.nsmallest(most, named, key=lambda c: (-c[1], c[0])), max(0, len(rows) - most)


def error_kinds(ledger: LedgerView, most: int) -> tuple[list[ErrorKind], int]:
    """Count errored rows by the most frequent kinds of error, with the first of each as its example.

    Return also how many kinds are left out.
    """
    sql = f"""
        SELECT
            error_kind,
            COUNT(*),
            COUNT(DISTINCT entry_key),
            ARG_MIN(error_text, ord),
            MIN(ord)$apart
        FROM counted_row
        WHERE state = {_ERROR}
        GROUP BY error_kind$apart
    """
    rows = ledger.ask(Question(sql, (word("error_kind"), SUM, SUM, first_word("error_text"), MIN)))
    return [
        ErrorKind(
            ledger.word("error_kind", kind) or "",
            count,
            entries,
            ledger.word("error_text", text) or "",
            ledger.place(first),
        )
        for kind, count, entries, text, first in heapq.nsmallest(most, rows, key=lambda row: (-row[1], row[4]))
    ], max(0, len(rows) - most)


# -- response times ---------------------------------------------------------------------------------------------


_TIMED = """
    SELECT CASE WHEN is_attack THEN attack END AS attack, is_attack, response_time AS seconds$apart
    FROM counted_row
    WHERE response_time IS NOT NULL
"""
_QUANTILES = (0.5, 0.95)
_TIMES_AT_ONCE = 20_000
"""So many different times are looked at one by one; among more, those of interest are looked for."""
_BUCKETS = 4096


class _TimeWindow(Struct):
    """Where the time of a rank lies among those of a strategy: so many are before `low`, and the window has `count`."""

    attack: int | None
    is_attack: bool
    rank: int
    low: float
    high: float
    before: int
    count: int

    @property
    def key(self) -> tuple[int | None, bool, float, float]:
        return self.attack, self.is_attack, self.low, self.high


def latency(ledger: LedgerView) -> list[Latency]:
    """Return median and 95th percentile of the response times by strategy, interpolated between neighbours."""
    groups = timed_strategies(ledger)
    few = sum(count for _, _, count, _, _ in groups) <= _TIMES_AT_ONCE
    times = _every_time(ledger) if few else _times_at_ranks(ledger, groups)
    found = []
    for attack, is_attack, count, _, _ in groups:
        quantiles = []
        for quantile in _QUANTILES:
            at = (count - 1) * quantile
            below, above = (times[attack, is_attack][rank] for rank in (math.floor(at), math.ceil(at)))
            quantiles.append(below + (above - below) * (at - math.floor(at)))
        median, most = quantiles
        found.append((is_attack, Latency(strategy_name(ledger, attack, is_attack), count, median, most)))
    return [times for _, times in sorted(found, key=lambda item: (item[0], item[1].strategy))]


_Strategy = tuple[int | None, bool]


def timed_strategies(ledger: LedgerView) -> list[tuple[int | None, bool, int, float, float]]:
    """Return the strategies whose response times are recorded: attack, how many times there are, least and largest."""
    sql = f"""
        SELECT attack, is_attack, COUNT(*), MIN(seconds), MAX(seconds)$apart
        FROM ({_TIMED})
        GROUP BY attack, is_attack$apart
    """
    return ledger.ask(Question(sql, (word("attack"), KEY, SUM, MIN, MAX)))


def _every_time(ledger: LedgerView) -> dict[_Strategy, list[float]]:
    """Return all times in their order, by strategy."""
    sql = f"SELECT attack, is_attack, seconds, COUNT(*)$apart FROM ({_TIMED}) GROUP BY ALL"
    found: dict[_Strategy, list[float]] = {}
    for attack, is_attack, seconds, count in ledger.ask(Question(sql, (word("attack"), KEY, KEY, SUM))):
        found.setdefault((attack, is_attack), []).extend([seconds] * count)
    return {strategy: sorted(times) for strategy, times in found.items()}


def _times_at_ranks(
    ledger: LedgerView, groups: Sequence[tuple[int | None, bool, int, float, float]]
) -> dict[_Strategy, dict[int, float]]:
    """Return the times that the quantiles lie between, by strategy and rank.

    Windows around them are divided until few times are left in them, so that they are found among any number.
    """
    windows = [
        _TimeWindow(attack, is_attack, rank, low, high, 0, count)
        for attack, is_attack, count, low, high in groups
        for rank in {round_((count - 1) * quantile) for quantile in _QUANTILES for round_ in (math.floor, math.ceil)}
    ]
    while sum({window.key: window.count for window in windows if window.low < window.high}.values()) > _TIMES_AT_ONCE:
        _narrow(ledger, windows)
    wide = list({window.key: None for window in windows if window.low < window.high})
    counted: dict[tuple[Any, ...], list[tuple[float, int]]] = {}
    if wide:
        sql = f"""
            SELECT w.number, t.seconds, COUNT(*)$apart
            FROM ({_TIMED}) AS t
            INNER JOIN {_windows(wide)}
            GROUP BY w.number, t.seconds$apart
        """
        for number, seconds, count in ledger.ask(Question(sql, (KEY, KEY, SUM), _attacks_of(wide))):
            counted.setdefault(wide[number], []).append((seconds, count))
    found: dict[_Strategy, dict[int, float]] = {}
    for window in windows:
        before, at_rank = window.before, window.low
        for seconds, count in sorted(counted.get(window.key, ())):
            if before <= window.rank:
                at_rank = seconds
            before += count
        found.setdefault((window.attack, window.is_attack), {})[window.rank] = at_rank
    return found


def _narrow(ledger: LedgerView, windows: Sequence[_TimeWindow]) -> None:
    """Divide windows into equal parts, and leave of each the part that its rank is in."""
    wide = list({window.key: None for window in windows if window.low < window.high})
    sql = f"""
        SELECT
            w.number,
            LEAST(FLOOR((t.seconds - w.low) / (w.high - w.low) * {_BUCKETS}), {_BUCKETS - 1}) AS bucket,
            COUNT(*),
            MIN(t.seconds),
            MAX(t.seconds)$apart
        FROM ({_TIMED}) AS t
        INNER JOIN {_windows(wide)}
        GROUP BY w.number, bucket$apart
    """
    buckets: dict[tuple[Any, ...], list[tuple[float, int, float, float]]] = {}
    for number, *bucket in ledger.ask(Question(sql, (KEY, KEY, SUM, MIN, MAX), _attacks_of(wide))):
        buckets.setdefault(wide[number], []).append(tuple(bucket))
    for window in windows:
        for _, count, low, high in sorted(buckets.get(window.key, ())):
            if window.before + count > window.rank:
                window.low, window.high, window.count = low, high, count
                break
            window.before += count


def _attacks_of(keys: Sequence[tuple[int | None, bool, float, float]]) -> tuple[tuple[str, int | None], ...]:
    return tuple(("attack", attack) for attack, *_ in keys)


def _windows(keys: Sequence[tuple[int | None, bool, float, float]]) -> str:
    """Return windows of times as a table, each with its number, joined with the times in them."""
    listed = ", ".join(
        f"({number}, CAST($word{number} AS INTEGER), {is_attack}, {low!r}::DOUBLE, {high!r}::DOUBLE)"
        for number, (_, is_attack, low, high) in enumerate(keys)
    )
    return (
        f"(VALUES {listed}) AS w(number, attack, is_attack, low, high) ON t.is_attack = w.is_attack"
        " AND t.attack IS NOT DISTINCT FROM w.attack AND t.seconds BETWEEN w.low AND w.high"
    )


def strategy_name(ledger: LedgerView, attack: int | None, is_attack: bool) -> str:
    return (ledger.word("attack", attack) or UNNAMED_ATTACK) if is_attack else STANDARD


def attempts_to_success(ledger: LedgerView, *, answered: bool = False, several: bool = True) -> list[AttemptsToSuccess]:
    """Count successful entries by the number of requests up to their first success, standard attempts first.

    `answered` leaves out requests that ended in an error. Where a row is one attempt, not `several`, that is not known.
    """
    lost = "lost" if several else "0"
    before = "OVER (PARTITION BY entry_key ORDER BY is_attack, ord ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    sql = f"""
        SELECT CAST(made AS BIGINT), CAST(answered AS BIGINT), COUNT(*)$apart
        FROM (
            SELECT entry_key, MIN(made_before) AS made, MIN(answered_before) AS answered$apart
            FROM (
                SELECT
                    entry_key,
                    succeeded,
                    source,
                    success_at + COALESCE(SUM(requests) {before}, 0) AS made_before,
                    success_at - {lost} + COALESCE(SUM(requests - {lost}) {before}, 0) AS answered_before
                FROM counted_row
                WHERE entry_key IN (SELECT entry_key FROM entry WHERE outcome = {_SUCCESS})
            )
            WHERE succeeded
            GROUP BY entry_key$apart
        )
        GROUP BY made, answered$apart
    """
    steps = Counter[int]()
    for *at, entries in ledger.ask(Question(sql, (KEY, KEY, SUM))):
        steps[int(at[answered])] += entries
    return [AttemptsToSuccess(*step) for step in sorted(steps.items())]


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
    sql = f"""
        SELECT CAST(e.requests - t.lost AS BIGINT) AS spent, t.errored, t.unknown, COUNT(*)$apart
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
    """
    rows = sorted(ledger.ask(Question(sql, (KEY, KEY, KEY, SUM))))
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
    tried = "SELECT COUNT(*), COALESCE(MAX(tries), 0)$apart FROM counted_row WHERE NOT is_attack $by"
    rows = ledger.ask(Question(tried, (SUM, MAX)))
    standard, tries = rows[0] if rows else (0, 0)
    if tries < 2 and standard == _one_number(ledger, "SELECT COUNT(*)$apart FROM entry WHERE has_standard $by"):
        return []
    family, joined = "NULL", ""
    if column is not None:
        family = "COALESCE(variant_of, -1 - first_ord)"
        joined = f" LEFT JOIN (SELECT entry_key, {column} AS variant_of, first_ord FROM entry) USING (entry_key)"
    sql = f"""
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
    """
    role = KEY if column is None else role_of(column)

    def order(row: tuple[int, int, int, bool, int | None]) -> tuple[Any, ...]:
        *_, number = row
        name = "" if role == KEY or (number or 0) < 0 else text_of(ledger, column or "", number)
        return row[1], row[2], row[3], name or "", 0 if name else number or 0

    rows = sorted(ledger.ask(Question(sql, (SUM, KEY, KEY, KEY, role))), key=order)
    return [RepeatedEntries(*row) for row in rows]


def flaky_cases(ledger: LedgerView, limit: int) -> list[FlakyCase]:
    """Return the cases of a run of tests that passed in some attempts and failed in others, the least steady first."""
    sql = f"""
        SELECT ABS(2 * tries_won - tries) / tries AS steadiness, ord, parent_id, tries_won, tries
        FROM counted_row
        WHERE tries_won > 0 AND tries_won < tries
        ORDER BY 1, 2
        LIMIT {limit}
    """
    rows = ledger.ask(Question(sql, (KEY, KEY, word("parent_id"), KEY, KEY), limit=limit))
    return [
        FlakyCase(ledger.word("parent_id", name) or "", ledger.place(ord_), int(won), int(tries))
        for _, ord_, name, won, tries in rows
    ]


def failures_with_text(ledger: LedgerView) -> int:
    """Count failed entries with a failed row whose answer is a text."""
    return _one_number(
        ledger,
        f"""
        SELECT COUNT(DISTINCT e.entry_key)
        FROM entry AS e
        INNER JOIN counted_row AS t ON e.entry_key = t.entry_key
        WHERE e.outcome = {_FAILURE} AND t.state = {_FAILURE} AND t.answer = {AnswerKind.TEXT}
        """,
    )


def kinds_of_answers(ledger: LedgerView) -> dict[int, int]:
    """Count judged rows by the kind of their answer, see `schema.AnswerKind`."""
    sql = (
        f"SELECT answer, COUNT(*)$apart FROM counted_row WHERE state IN ({_SUCCESS}, {_FAILURE}) GROUP BY answer$apart"
    )
    rows = ledger.ask(Question(sql, (KEY, SUM)))
    return {int(answer): int(count) for answer, count in rows}


# -- verdicts of several judges ---------------------------------------------------------------------------------


def has_several_judges(ledger: LedgerView) -> bool:
    """Return whether verdicts of more than one judge are recorded of any row."""
    sql = "SELECT 1 FROM verdict GROUP BY ord HAVING COUNT(DISTINCT judge) > 1 LIMIT 1"
    return bool(ledger.ask(Question(sql, (KEY,))))


COMPARED = """
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
    rows = ledger.query(f"{COMPARED} SELECT ord, attempt, judge, decision, score FROM compared ORDER BY 1, 2, 3")
    for place, attempt, judge, decision, score in rows:
        yield place, attempt, str(ledger.word("judge", judge)), decision, score


def verdict_pairs(ledger: LedgerView) -> dict[tuple[str, str], list[list[int]]]:
    """Count the verdicts that two judges gave on the same answer, for each two: failure before success, twice."""
    rows = ledger.query(
        f"""
        {COMPARED}
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
