"""Entries and rows of a folded ledger one by one: which have an id, what they are made of, what was left
out, and which rows findings are about.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any

from msgspec import Struct

from faircount.core.definition import Definition
from faircount.core.findings import EXAMPLES_KEPT
from faircount.core.model import Outcome
from faircount.ledger.questions import KEY, SUM, Question, listed_words, word
from faircount.ledger.schema import OUTCOME_NUMBER, AnswerKind, Lexicon, RowMark, Tables, id_number, word_of
from faircount.ledger.store import GIVEN, LINE_BITS, Ledger, LedgerView
from faircount.ledger.tallies import ATTACK_NAME, role_of, strategy_name, text_of

REPEATED, RECORDED_ELSEWHERE, JUDGED_AGAIN = "repeated", "recorded elsewhere", "judged again elsewhere"
"""Why a row was left out, as `resolve_rows.sql` writes it."""

_OUTCOMES = tuple(Outcome)
_ATTACK_ROW = "-attack"
ENTRY_ID = f"""
    CASE
        WHEN t.mark = {RowMark.ATTACK_BY_ID} AND NOT t.is_attack THEN COALESCE(t.own_id, t.parent_id) ELSE t.parent_id
    END
"""
"""The id of the entry that a row of `counted_row` counts in."""


class FoldedEntry(Struct, frozen=True):
    """An entry as it was counted; `family_size` counts the entries of its family with itself, 0 without a family."""

    key: int
    name: str
    outcome: Outcome
    requests: int
    family_size: int
    facets: tuple[tuple[str, str | None], ...]


class CountedRow(Struct, frozen=True):
    """A row that was counted, with what is needed to read it back."""

    ord: int
    line: int
    identity: tuple[str | None, str | None, int, int]


class EntryRow(CountedRow, frozen=True):
    """A row of an entry, and what became of it."""

    source: int
    strategy: str
    is_attack: bool
    state: Outcome
    counts_as: tuple[Outcome, ...]
    requests: int
    response_time: float | None


class ExampleRow(CountedRow, frozen=True):
    """A row to look at, and what it belongs to."""

    source: int
    entry: str
    strategy: str
    facet: int | None


class RowLeftOut(Struct, frozen=True):
    """A row that adds nothing to an entry, why, and the row that counts instead where only one can."""

    ord: int
    is_attack: bool
    status: str
    instead: int | None


# -- finding entries --------------------------------------------------------------------------------------------


def entries_with_id(ledger: LedgerView, name: str) -> list[int]:
    """Return the keys of the entries that have an id, or a row that is known to have it, in the order of the files."""
    numbers = _id_numbers(ledger, name)
    attacked = _id_numbers(ledger, name.removesuffix(_ATTACK_ROW)) if name.endswith(_ATTACK_ROW) else []
    return _keys_where(
        ledger,
        f"{ENTRY_ID} IN {GIVEN} OR own_id IN {GIVEN} OR (is_attack AND parent_id IN {GIVEN})",
        [numbers, numbers, attacked],
    )


def entries_of_rows(ledger: LedgerView, ords: Sequence[int]) -> list[int]:
    """Return the keys of the entries that rows count in, or were left out of."""
    counted = _keys_where(ledger, f"ord IN {GIVEN}", [ords])
    if counted or not has_left_out(ledger):
        return counted
    kept = f"SELECT k.ord FROM {LEFT_OUT_BESIDE_KEPT} WHERE l.ord IN {GIVEN}"
    return _keys_where(ledger, f"ord IN ({kept})", [ords])


def _keys_where(ledger: LedgerView, condition: str, parameters: Sequence[Sequence[int]]) -> list[int]:
    rows = ledger.query(
        f"SELECT entry_key FROM entry WHERE entry_key IN (SELECT entry_key FROM counted_row AS t WHERE {condition})"
        " ORDER BY first_ord",
        parameters,
    )
    return [key for (key,) in rows]


def ids_near(ledger: LedgerView, name: str, limit: int) -> list[str]:
    """Return some of the ids that entries have, no more than `limit`; for a number, those of the nearest numbers."""
    wanted = min(id_number(name, Lexicon()), 0)
    rows = ledger.query(
        f"SELECT id FROM (SELECT DISTINCT {ENTRY_ID} AS id FROM counted_row AS t) ORDER BY ABS(id - ?), id LIMIT ?",
        [wanted, limit],
    )
    return [ledger.word("parent_id", number) or "" for (number,) in rows]


def _id_numbers(ledger: LedgerView, name: str) -> list[int]:
    """Return the numbers that stand for an id; a word may have more than one."""
    number = id_number(name, Lexicon())
    if number < 0:
        return [number]
    return [number for number, word in enumerate(ledger.lexicon("parent_id")) if word == name]


# -- what entries are made of -----------------------------------------------------------------------------------


def folded_entries(ledger: LedgerView, keys: Sequence[int]) -> list[FoldedEntry]:
    """Return entries by their keys, in that order."""
    columns = list(ledger.facets.values())
    listed = "".join(f", e.{column}" for column in columns)
    rows = ledger.query(
        f"""
        SELECT
            e.entry_key, {ENTRY_ID}, e.outcome, e.requests,
            (SELECT COUNT(*) FROM entry AS variant WHERE variant.family = e.family){listed}
        FROM entry AS e
        INNER JOIN counted_row AS t ON e.first_ord = t.ord
        WHERE e.entry_key IN {GIVEN}
        """,
        [keys],
    )
    found = {}
    for key, number, outcome, requests, size, *values in rows:
        words = [ledger.word(column, value) for column, value in zip(columns, values, strict=True)]
        name = ledger.word("parent_id", number) or ""
        facets = tuple(zip(ledger.facets, words, strict=True))
        found[key] = FoldedEntry(key, name, _OUTCOMES[outcome], int(requests), size, facets)
    return [found[key] for key in keys]


def rows_of(ledger: LedgerView, key: int) -> list[EntryRow]:
    """Return the rows that count in an entry, standard attempts first."""
    return rows_by_entry(ledger, [key])[key]


def rows_by_entry(ledger: LedgerView, keys: Sequence[int]) -> dict[int, list[EntryRow]]:
    """Return the rows that count in entries, by their keys, standard attempts first."""
    rows = ledger.query(
        f"""
        SELECT
            {TO_READ_BACK},
            entry_key, source, attack, is_attack, state, succeeded, failed, errored, blocked, requests, response_time
        FROM counted_row AS t
        WHERE entry_key IN {GIVEN}
        ORDER BY is_attack, ord
        """,
        [list(keys)],
    )
    found: dict[int, list[EntryRow]] = {key: [] for key in keys}
    for row in rows:
        key, source, attack, is_attack, state, *flags, requests, seconds = row[5:]
        found[key].append(
            EntryRow(
                *to_read_back(ledger, row[:5]),
                source,
                strategy_name(ledger, attack, is_attack),
                is_attack,
                _OUTCOMES[state],
                tuple(outcome for outcome, flag in zip(_OUTCOMES, flags, strict=False) if flag),
                requests,
                seconds,
            )
        )
    return found


def categories_of(ledger: LedgerView, ords: Sequence[int]) -> dict[int, list[str]]:
    """Return what guardrails named in rows, by row."""
    found: dict[int, list[str]] = {}
    for ord_, number in ledger.query(f"SELECT ord, category FROM category WHERE ord IN {GIVEN}", [ords]):
        found.setdefault(ord_, []).append(ledger.word("category", number) or "")
    return {ord_: sorted(names) for ord_, names in found.items()}


# -- what was left out ------------------------------------------------------------------------------------------

LEFT_OUT_BESIDE_KEPT = """
    row_history AS l
    INNER JOIN row_history AS k
        ON
            l.status <> 'kept'
            AND k.status = 'kept'
            AND l.origin_key = k.origin_key
            AND l.entry_id = k.entry_id
            AND l.is_attack = k.is_attack
            AND l.text_hash IS NOT DISTINCT FROM k.text_hash
            AND l.signature = k.signature
            AND (l.status <> 'repeated' OR l.source = k.source)
"""


def rows_left_out(ledger: LedgerView, key: int) -> list[RowLeftOut]:
    """Return the rows that repeat what rows of an entry record already, and why they do not count."""
    if not has_left_out(ledger):
        return []
    rows: Iterable[tuple[int, bool, str, int, int]] = ledger.query(
        f"""
        SELECT l.ord, l.is_attack, l.status, MIN(k.ord), MAX(k.ord)
        FROM {LEFT_OUT_BESIDE_KEPT}
        INNER JOIN counted_row AS t ON k.ord = t.ord
        WHERE t.entry_key = ?
        GROUP BY l.ord, l.is_attack, l.status
        ORDER BY l.ord
        """,
        [key],
    )
    return [
        RowLeftOut(ord_, is_attack, status, first if first == last else None)
        for ord_, is_attack, status, first, last in rows
    ]


def has_left_out(ledger: LedgerView) -> bool:
    """Return whether any row was left out; where no id was suspected, the table has hardly any columns."""
    return bool(ledger.query("SELECT 1 FROM row_history WHERE status <> 'kept' LIMIT 1"))


# -- rows to be read back ---------------------------------------------------------------------------------------


TO_READ_BACK = "t.ord, t.parent_id, t.own_id, COALESCE(t.text_hash, 0), COALESCE(t.response_hash, 0)"


def counted_rows(ledger: LedgerView, places: Collection[int]) -> list[CountedRow]:
    """Return the rows at some places."""
    rows = ledger.query(
        f"SELECT {TO_READ_BACK} FROM counted_row AS t WHERE ord IN {GIVEN} ORDER BY ord", [list(places)]
    )
    return [CountedRow(*to_read_back(ledger, row)) for row in rows]


def deciding_rows(ledger: LedgerView, keys: Collection[int]) -> dict[int, CountedRow]:
    """Return of each entry its first success, or else its first row; standard rows go first."""
    rows = ledger.query(
        f"""
        SELECT entry_key, {TO_READ_BACK}
        FROM counted_row AS t
        WHERE entry_key IN {GIVEN}
        ORDER BY NOT succeeded, is_attack, ord
        """,
        [list(keys)],
    )
    found: dict[int, CountedRow] = {}
    for key, *row in rows:
        if key not in found:
            found[key] = CountedRow(*to_read_back(ledger, row))
    return found


def examples(ledger: LedgerView, outcomes: Sequence[Outcome], column: str, limit: int) -> list[ExampleRow]:
    """Return a row of each entry that ended so: up to `limit` per source and value of `column`.

    It is the first that was decided like the entry, of standard attempts if any; where none was, the first of all.
    """
    numbers = ", ".join(str(_OUTCOMES.index(outcome)) for outcome in outcomes)
    decided = "t.succeeded" if list(outcomes) == [Outcome.SUCCESS] else f"t.state IN ({numbers})"
    sql = f"""
        SELECT
            {TO_READ_BACK},
            t.source, s.attack, s.is_attack, s.facet, s.source
        FROM (
            SELECT
                f.ord,
                f.attack,
                f.is_attack,
                f.facet,
                f.source,
                ROW_NUMBER() OVER (PARTITION BY f.source, f.facet ORDER BY f.ord) AS turn
            FROM (
                SELECT
                    t.ord,
                    t.attack,
                    t.is_attack,
                    e.source,
                    {column} AS facet,
                    ROW_NUMBER() OVER (
                        PARTITION BY t.entry_key
                        ORDER BY CASE WHEN {decided} THEN 0 ELSE 1 END, t.is_attack, t.ord
                    ) AS nth
                FROM counted_row AS t
                INNER JOIN entry AS e ON t.entry_key = e.entry_key
                WHERE e.outcome IN ({numbers})
            ) AS f
            WHERE f.nth = 1
        ) AS s
        INNER JOIN counted_row AS t ON s.ord = t.ord
        WHERE s.turn <= {limit}
    """
    roles = (KEY, word("parent_id"), word("own_id"), KEY, KEY, KEY, word("attack"), KEY, role_of(column), KEY)
    # Parts know only of their own entries: each may have as many.
    turns = Counter[tuple[int | None, int]]()
    rows = []
    for *row, of_entry in sorted(ledger.ask(Question(sql, roles))):
        turns[row[-1], of_entry] += 1
        if turns[row[-1], of_entry] <= limit:
            rows.append(row)
    return [
        ExampleRow(
            *to_read_back(ledger, row[:5]),
            source,
            ledger.word("parent_id", row[1]) or "",
            strategy_name(ledger, attack, is_attack),
            facet,
        )
        for row in rows
        for source, attack, is_attack, facet in [row[5:]]
    ]


def to_read_back(ledger: LedgerView, row: Sequence[Any]) -> tuple[int, int, tuple[str | None, str | None, int, int]]:
    """Return what `CountedRow` begins with, of a row of `TO_READ_BACK`."""
    ord_, parent, own, text, response = row
    identity = ledger.word("parent_id", parent), ledger.word("own_id", own), text, response
    return ord_, ledger.line(ord_), identity


def identities(tables: Tables) -> dict[int, tuple[str | None, str | None, int, int]]:
    """Return what identifies each attempt of tables by its line, to be compared with that of a `CountedRow`."""
    numbers, words = tables.numbers["attempt"], tables.words["parent_id"]
    columns = (numbers[column] for column in ("line", "parent_id", "own_id", "text_hash", "response_hash"))
    return {
        line: (word_of(parent, words), word_of(own, words), text, response)
        for line, parent, own, text, response in zip(*columns, strict=True)
    }


# -- all entries ------------------------------------------------------------------------------------------------


class ListedEntry(Struct, frozen=True):
    """An entry as one line of a table: its first row, what became of it, and its values by field."""

    ord: int
    id: str | None
    outcome: Outcome
    initial_success: bool
    requests: int
    attack_name: str | None
    facets: dict[str, str | None]


ENTRIES_AT_ONCE = 10_000


def listed_entries(ledger: LedgerView) -> Iterator[ListedEntry]:
    """Yield all entries in the order of their first rows; they are fetched a part at a time."""
    fields = ledger.facets.items()
    listed = "".join(f", e.{column}" for _, column in fields)
    statement = f"""
        SELECT e.first_ord, {ENTRY_ID}, e.outcome, e.initial_success, e.requests, e.attack_name{listed}
        FROM entry AS e
        INNER JOIN counted_row AS t ON e.first_ord = t.ord
        WHERE e.first_ord > ?
        ORDER BY e.first_ord
        LIMIT {ENTRIES_AT_ONCE}
    """
    last = -1
    while found := ledger.query(statement, [last]):
        for last, number, outcome, initial, requests, attack, *values in found:
            words = zip(fields, values, strict=True)
            yield ListedEntry(
                last,
                ledger.word("parent_id", number),
                _OUTCOMES[outcome],
                initial,
                int(requests),
                text_of(ledger, ATTACK_NAME, attack),
                {field: ledger.word(column, value) for (field, column), value in words},
            )


class EntryHeads(Struct, frozen=True):
    """All entries in columns: key, outcome, family (0 for none), and the row by which each is known.

    That is its first standard row, whose prompt is the content. Where an entry stands `alone`, without one, it is known
    by its first row: the prompt of that is a variant that an attack made up, so that its objective is the content.
    """

    entry_key: Any
    outcome: Any
    family: Any
    ord: Any
    id: Any
    content: Any
    alone: Any


_HEADS = f"""
SELECT
    e.entry_key AS entry_key,
    e.outcome AS outcome,
    COALESCE(e.family, 0) AS family,
    t.ord AS ord,
    {ENTRY_ID} AS id,
    CASE WHEN t.is_attack THEN 0 ELSE COALESCE(t.text_hash, 0) END AS content,
    t.is_attack AS alone
FROM (
    SELECT entry_key, COALESCE(MIN(CASE WHEN is_attack THEN NULL ELSE ord END), MIN(ord)) AS head
    FROM counted_row
    GROUP BY entry_key
) AS h
INNER JOIN entry AS e ON h.entry_key = e.entry_key
INNER JOIN counted_row AS t ON h.head = t.ord
ORDER BY t.ord
"""

_OBJECTIVES = """
SELECT e.entry_key, COALESCE(a.objective_hash, 0)
FROM entry AS e
INNER JOIN attempt AS a ON e.first_ord = a.ord
WHERE NOT e.has_standard
"""


def entry_heads(ledger: Ledger, *, arrays: bool) -> EntryHeads:
    """Return all entries in the order of the files, as arrays of numpy or as lists."""
    if arrays:
        heads = EntryHeads(**ledger.arrays(_HEADS))
    else:
        rows = ledger.query(_HEADS)
        heads = EntryHeads(*([row[at] for row in rows] for at in range(len(EntryHeads.__struct_fields__))))
    if _has_attacks_alone(ledger):
        objectives = dict(ledger.query(_OBJECTIVES))
        for at in heads.alone.nonzero()[0].tolist() if arrays else compress(range(len(heads.alone)), heads.alone):
            heads.content[at] = objectives[int(heads.entry_key[at])]
    return heads


def lacks_objectives(ledger: LedgerView) -> bool:
    """Return whether attacks stand alone in a ledger that knows no objectives: it has only what its rows fold into."""
    return not has_rows(ledger) and _has_attacks_alone(ledger)


def has_rows(ledger: LedgerView) -> bool:
    """Return whether a ledger has its rows, and not only what they fold into."""
    return bool(ledger.query("SELECT 1 FROM information_schema.tables WHERE table_name = 'attempt'"))


def _has_attacks_alone(ledger: LedgerView) -> bool:
    return bool(ledger.query("SELECT 1 FROM entry WHERE NOT has_standard LIMIT 1"))


def values_of_entries(ledger: Ledger, column: str) -> tuple[Any, Any]:
    """Return the keys of all entries, and the numbers of their values in a column, as arrays."""
    found = ledger.arrays(f"SELECT entry_key, COALESCE({column}, 0) AS value FROM entry")
    return found["entry_key"], found["value"]


# -- all rows ---------------------------------------------------------------------------------------------------


class RowOfEntry(Struct, frozen=True):
    """A row that counts in an entry, by the name of what it belongs to."""

    entry: int
    line: int
    is_attack: bool
    parent_id: str
    succeeded: bool


def rows_of_entries(ledger: LedgerView) -> Iterator[RowOfEntry]:
    """Yield all rows that count, in their order."""
    rows = ledger.query("SELECT entry_key, ord, is_attack, parent_id, succeeded FROM counted_row ORDER BY ord")
    for key, ord_, is_attack, parent, succeeded in rows:
        yield RowOfEntry(key, ledger.line(ord_), is_attack, ledger.word("parent_id", parent) or "", succeeded)


_ENTRY_OF_EVERY_ROW = """
CREATE TABLE IF NOT EXISTS row_entry AS
SELECT m.ord, COALESCE(t.entry_key, r.entry_key, s.entry_key) AS entry_key, m.is_attack
FROM marked AS m
LEFT JOIN counted_row AS t ON m.ord = t.ord
LEFT JOIN resolved AS r ON m.ord = r.ord
LEFT JOIN (
    SELECT m.origin_key, m.entry_id, MIN(t.entry_key) AS entry_key
    FROM counted_row AS t
    INNER JOIN marked AS m ON m.ord = t.ord
    GROUP BY m.origin_key, m.entry_id
) AS s ON m.origin_key = s.origin_key AND m.entry_id = s.entry_id
"""
"""A row that adds nothing goes with the entry that it repeats."""

_ENTRY_OF_EVERY_ROW_BY_ID = """
CREATE TABLE IF NOT EXISTS row_entry AS
SELECT
    ord,
    entry_key,
    mark = 1 OR (
        mark = 2
        AND (source, parent_id) IN (SELECT (source, COALESCE(own_id, parent_id)) FROM counted_row WHERE mark = 0)
    ) AS is_attack
FROM counted_row
"""

ROWS_WITH_ENTRIES = """
    attempt AS a
    INNER JOIN row_entry AS r ON a.ord = r.ord
    INNER JOIN entry AS e ON r.entry_key = e.entry_key
"""
"""All rows, each with the entry that it belongs to, once `find_entries_of_rows` has found it."""

_ROWS_AT_ONCE = 100_000
_SLICE_OF_ROWS = f"""
SELECT r.ord, r.entry_key, e.outcome
FROM row_entry AS r
INNER JOIN entry AS e ON r.entry_key = e.entry_key
WHERE r.ord > ?
ORDER BY r.ord
LIMIT {_ROWS_AT_ONCE}
"""


def find_entries_of_rows(ledger: LedgerView, rules: Definition) -> None:
    """Find out which entry every row belongs to, rows that were left out included."""
    ledger.query(_ENTRY_OF_EVERY_ROW_BY_ID if rules.merges_rows_by_id else _ENTRY_OF_EVERY_ROW)


class EntriesOfRows:
    """Which entry every row belongs to, and what became of it; it outlives the ledger."""

    def __init__(self, ledger: LedgerView, rules: Definition) -> None:
        self._rows, self._keys, self._outcomes = array("q"), array("q"), array("b")
        find_entries_of_rows(ledger, rules)
        last = -1
        while found := ledger.query(_SLICE_OF_ROWS, [last]):
            rows, keys, outcomes = map(list, zip(*found, strict=True))
            self._rows.fromlist(rows)
            self._keys.fromlist(keys)
            self._outcomes.fromlist(outcomes)
            last = self._rows[-1]

    def outcome(self, place: int) -> str | None:
        """Return what became of the entry that a row belongs to."""
        index = place_in(self._rows, place)
        return None if index is None else _OUTCOMES[self._outcomes[index]].value

    def with_rows(self, places: Iterable[int]) -> tuple[array[int], int]:
        """Return every row of the entries that the given rows belong to, and how many entries these are."""
        found = (place_in(self._rows, place) for place in places)
        keys = {self._keys[index] for index in found if index is not None}
        rows = array("q", [row for row, key in zip(self._rows, self._keys, strict=True) if key in keys])
        return rows, len(keys)


def place_in(places: array[int], place: int) -> int | None:
    """Return where a place stands in a list in ascending order."""
    index = bisect_left(places, place)
    return index if index < len(places) and places[index] == place else None


# -- rows that findings are about ------------------------------------------------------------------------------

_SUCCESS, _ERROR, _UNJUDGED = (OUTCOME_NUMBER[o] for o in (Outcome.SUCCESS, Outcome.ERROR, Outcome.UNJUDGED))
_SHARED_IDS = """
    SELECT origin_key, entry_id, MIN(case_ord) AS ord
    FROM every_case
    GROUP BY origin_key, entry_id
    HAVING COUNT(*) > 1
"""
ROWS_BEHIND = {
    "F005": f"""
        SELECT c.case_ord AS ord
        FROM every_case AS c
        INNER JOIN ({_SHARED_IDS}) AS s USING (origin_key, entry_id)
    """,
    "F006": "SELECT ord FROM row_history WHERE status = 'repeated'",
    "F008": "SELECT ord FROM row_history WHERE status IN ('recorded elsewhere', 'judged again elsewhere')",
    "F009": "SELECT ord FROM row_history WHERE status = 'judged again elsewhere'",
    "F014": f"SELECT first_ord AS ord FROM entry WHERE outcome = {_UNJUDGED}",
    "F015": f"SELECT first_ord AS ord FROM entry WHERE outcome = {_ERROR}",
    "F018": "SELECT ord FROM counted_row WHERE is_attack AND blocks IS NULL AND requests > 0",
    "F019": f"SELECT ord FROM counted_row WHERE mark = {RowMark.ATTACK_BY_ID} AND NOT is_attack",
    "F020": "SELECT first_ord AS ord FROM entry WHERE NOT has_standard",
}
_BLOCKED_ENTRIES = f"""
    SELECT c.category, e.entry_key, e.first_ord AS ord, e.source
    FROM category AS c
    INNER JOIN counted_row AS t ON c.ord = t.ord
    INNER JOIN entry AS e ON t.entry_key = e.entry_key
    WHERE e.outcome = {OUTCOME_NUMBER[Outcome.GUARDRAIL]}
"""


class ProblemRows(Struct, frozen=True):
    """Rows with a problem: how many, and `file:line` of the first."""

    count: int
    where: Sequence[str]


def rows_behind(ledger: LedgerView, code: str) -> ProblemRows:
    """Return the rows that the finding with a code is about."""
    return _counted(ledger, ROWS_BEHIND[code])


def expect_rows_behind(ledger: LedgerView) -> None:
    """Ask what is asked about findings, of a ledger that is told what to expect."""
    for sql in ROWS_BEHIND.values():
        _count(ledger, sql)
        _places(ledger, sql)
    shared_ids(ledger)
    blocked_by_category(ledger)


def shared_ids(ledger: LedgerView) -> int:
    """Count the ids that several cases share, see F005."""
    return _count(ledger, _SHARED_IDS)


def answers_of_successes(ledger: LedgerView) -> dict[tuple[int, int], int]:
    """Count successful rows by their source and the kind of their answer, see `schema.AnswerKind`."""
    sql = (
        f"SELECT source AS place, answer, COUNT(*)$apart FROM counted_row WHERE state = {_SUCCESS}"
        " GROUP BY place, answer$apart"
    )
    rows = ledger.ask(Question(sql, (KEY, KEY, SUM)))
    alone = len(ledger.paths) == 1
    return {(0 if alone else source, answer): count for source, answer, count in rows}


def successes_without_answer(ledger: LedgerView, source: int) -> list[str]:
    """Return where the first successful rows of a source without any answer are."""
    empty = f"state = {_SUCCESS} AND answer = {AnswerKind.EMPTY}"
    return _places(ledger, f"SELECT ord FROM counted_row WHERE source = {source} AND {empty}")


def blocked_by_category(ledger: LedgerView) -> dict[int, int]:
    """Count blocked entries by the number of each category that their rows name."""
    counts = f"SELECT category, COUNT(DISTINCT entry_key)$apart FROM ({_BLOCKED_ENTRIES}) GROUP BY category$apart"
    return dict(ledger.ask(Question(counts, (word("category"), SUM))))


def blocked_with_categories(ledger: LedgerView, categories: Collection[int]) -> ProblemRows:
    """Return the first rows of blocked entries whose rows name any of some categories, given by their numbers."""
    words, listed = listed_words("category", categories)
    return _counted(ledger, f"SELECT DISTINCT ord FROM ({_BLOCKED_ENTRIES}) WHERE category IN ({listed})", words)


def _counted(ledger: LedgerView, sql: str, words: tuple[tuple[str, int], ...] = ()) -> ProblemRows:
    count = _count(ledger, sql, words)
    return ProblemRows(count, _places(ledger, sql, words) if count else ())


def _count(ledger: LedgerView, sql: str, words: tuple[tuple[str, int], ...] = ()) -> int:
    """Count the rows that `sql` selects by `ord`, which says their source as well."""
    source = f"CAST(ord >> {LINE_BITS} AS INTEGER) AS source"
    rows = ledger.ask(Question(f"SELECT COUNT(*)$apart FROM (SELECT {source} FROM ({sql})) $by", (SUM,), words))
    return int(rows[0][0]) if rows else 0


def _places(ledger: LedgerView, sql: str, words: tuple[tuple[str, int], ...] = ()) -> list[str]:
    first = Question(f"{sql} ORDER BY 1 LIMIT {EXAMPLES_KEPT}", (KEY,), words, limit=EXAMPLES_KEPT)
    return [ledger.place(place) for (place,) in ledger.ask(first)]
