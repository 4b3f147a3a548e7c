"""Rows dealt to parts: each is in one, with all rows of its entry, and comes out as it went in."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from msgspec.structs import replace

from faircount.core import DEFINITIONS, Outcome
from faircount.ledger import (
    Batch,
    DividedLedger,
    Division,
    Fields,
    Kind,
    Ledger,
    LedgerRow,
    RowMark,
    RunFacts,
    SourcePlaces,
    Tables,
    VerdictRow,
    deal,
    mixed,
    packed,
    part_of_text,
    rows_of_part,
    source_and_line,
    survey,
    unpacked,
)

OURS, SPIKEE = DEFINITIONS["faircount"], DEFINITIONS["spikee"]

# -- which part -------------------------------------------------------------------------------------------------


def test_numbers_are_scattered_as_splitmix64_does() -> None:
    # The first outputs for the seed 0, as published with the generator (Vigna, prng.di.unimi.it/splitmix64.c).
    step = 0x9E3779B97F4A7C15
    found = [int(mixed(number * step % 2**64)) for number in range(3)]
    assert found == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@given(st.one_of(st.integers(0, 10**12).map(str), st.text()), st.integers(1, 500))
def test_an_entry_and_the_attacks_on_it_are_in_one_part(name: str, parts: int) -> None:
    endings = ("", "-attack", "-attack-3", "-attack-attack", "-attack-12-attack")
    found = {part_of_text(name + ending, parts) for ending in endings}
    assert len(found) == 1
    assert found <= set(range(parts))


def test_ids_that_only_look_alike_need_not_be_in_one_part() -> None:
    roots = ("5", "05", "5-attacks", "5-attack-x", "-attack 5", "5 ")
    assert len({part_of_text(name, 10**9) for name in roots}) == len(roots)


@pytest.mark.parametrize("name", ["{}", "case {}", "case {}-attack-7"])
def test_parts_are_about_equal(name: str) -> None:
    sizes = Counter(part_of_text(name.format(number), 8) for number in range(8000))
    assert len(sizes) == 8
    # Five standard deviations of a binomial count.
    assert all(abs(size - 1000) < 5 * (8000 * 1 / 8 * 7 / 8) ** 0.5 for size in sizes.values())


# -- rows on their way ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "type_"), [(Kind.COUNT, "i8"), (Kind.CHECKSUM, "i8"), (Kind.ID, "i4"), (Kind.FLAG, "i1")]
)
@given(data=st.data())
def test_whole_numbers_come_out_as_they_went_in(kind: str, type_: str, data: st.DataObject) -> None:
    numbers = data.draw(arrays.arrays(type_, st.integers(0, 9)))
    found = unpacked(packed(numbers), kind)
    assert found.dtype == numbers.dtype
    assert found.tolist() == numbers.tolist()


@given(arrays.arrays("f8", st.integers(0, 9)))
def test_durations_come_out_as_they_went_in(numbers: Any) -> None:
    assert np.array_equal(unpacked(packed(numbers), Kind.NUMBER), numbers, equal_nan=True)


def test_a_column_with_one_value_takes_no_more_than_that() -> None:
    assert len(packed(np.full(10_000, 2**40)).data) == 8
    assert len(packed(np.arange(100)).data) == 100


ROOTS = ("1", "2", "n", "m", "n-attack", "7-attack-2")
NAMES = st.sampled_from([*ROOTS, *(f"{root}-attack" for root in ROOTS), "1-attack-3"])


@st.composite
def drawn_row(draw: st.DrawFn) -> LedgerRow:
    """Draw a row as a reader makes it: `own_id` is another id than that of its entry, unless an attack is named."""
    mark = draw(st.sampled_from([RowMark.STANDARD, RowMark.STANDARD, RowMark.ATTACK, RowMark.ATTACK_BY_ID]))
    name, own = draw(NAMES), draw(st.one_of(st.none(), NAMES))
    if mark == RowMark.ATTACK_BY_ID:
        own = draw(st.sampled_from([f"{name}-attack", f"{name}-attack-4", "m-attack", "2-attack"]))
    if own == name or mark == RowMark.ATTACK:
        own = None
    decision = draw(st.booleans())
    return LedgerRow(
        line=0,
        parent_id=name,
        own_id=own,
        mark=mark,
        attack="goat" if mark != RowMark.STANDARD else None,
        decision=decision,
        truthy=decision,
        state=list(Outcome).index(Outcome.SUCCESS if decision else Outcome.FAILURE),
        text_hash=draw(st.integers(1, 2)),
        facets={"lang": draw(st.sampled_from(["en", "de", None]))},
        categories=draw(st.lists(st.sampled_from(["a", "b"]), max_size=2)),
        verdicts=[VerdictRow(judge=judge, decision=True) for judge in draw(st.lists(st.just("j"), max_size=2))],
    )


GHOST = [
    LedgerRow(line=0, parent_id="m", own_id="1", state=1),
    LedgerRow(line=0, parent_id="1", own_id="1-attack", mark=RowMark.ATTACK_BY_ID, state=0),
    LedgerRow(line=0, parent_id="1", own_id="n-attack", mark=RowMark.ATTACK_BY_ID, state=0),
]
"""The only row that says that there is an entry 1 counts in another entry."""
SOURCES = st.lists(st.lists(drawn_row(), max_size=9), min_size=1, max_size=2)


def tables_of(rows: list[LedgerRow]) -> Tables:
    batch = Batch()
    batch.extend([replace(row, line=line) for line, row in enumerate(rows, 1)])
    return batch.tables()


def entry_ids(rows: list[LedgerRow]) -> dict[int, str]:
    """Return the id of the entry that each line of a file belongs to.

    An id that only looks like that of an attack is one if the file has a standard row of that entry.
    """
    there = {row.own_id or row.parent_id for row in rows if row.mark == RowMark.STANDARD}
    return {
        line: str(
            row.own_id
            if row.mark == RowMark.ATTACK_BY_ID and row.own_id is not None and row.parent_id not in there
            else row.parent_id
        )
        for line, row in enumerate(rows, 1)
    }


def all_blobs(sources: list[list[LedgerRow]], parts: int) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {part: [] for part in range(parts)}
    for source, rows in enumerate(sources):
        dealt, _ = deal(tables_of(rows), source, parts)
        for part, blob in dealt.items():
            found[part].append(blob)
    return found


def surveyed(blobs: dict[int, list[bytes]], sources: list[list[LedgerRow]]) -> Division:
    paths = [f"results_{number}.jsonl" for number in range(len(sources))]
    facts = RunFacts([(source, "", source) for source in range(len(sources))], [], [])
    division = Division(paths, len(blobs), ["facet:lang"], Fields(case=("lang",)), OURS, True, facts)
    strangers = [place for part, dealt in blobs.items() for place in survey(dealt, part, division).strangers]
    return replace(division, strangers=strangers)


def settled_places(ledger: Ledger, table: str) -> list[tuple[int, int]]:
    return [source_and_line(ord_) for (ord_,) in ledger.query(f"SELECT ord FROM {table}")]


@settings(max_examples=15)
@given(SOURCES, st.integers(1, 6))
@example([GHOST], 4)
def test_every_row_is_in_one_part_with_all_rows_of_its_entry(sources: list[list[LedgerRow]], parts: int) -> None:
    blobs = all_blobs(sources, parts)
    division = surveyed(blobs, sources)
    where: dict[tuple[int, int], int] = {}
    tags: Counter[tuple[str, int, int]] = Counter()
    for part, dealt in blobs.items():
        with rows_of_part(dealt, part, division) as ledger:
            ledger.settle()
            for place in settled_places(ledger, "attempt"):
                assert place not in where, "a row is in two parts"
                where[place] = part
            for table in ("category", "verdict"):
                tags.update((table, *place) for place in settled_places(ledger, table))
    everything = {(source, line) for source, rows in enumerate(sources) for line in range(1, len(rows) + 1)}
    assert set(where) == everything
    expected: Counter[tuple[str, int, int]] = Counter()
    for source, rows in enumerate(sources):
        ids = entry_ids(rows)
        homes = {(name, where[source, line]) for line, name in ids.items()}
        assert len(homes) == len(set(ids.values())), "an entry is in two parts"
        for line, row in enumerate(rows, 1):
            expected["category", source, line] += len(row.categories)
            expected["verdict", source, line] += len(row.verdicts)
    assert tags == +expected


def test_the_ghost_is_in_another_part() -> None:
    assert len({part_of_text(name, 4) for name in ("m", "1", "n")}) == 3


ENTRIES = """
    SELECT e.first_ord, e.source, e.has_standard, e.outcome, e.initial_success, e.requests, LIST(t.ord ORDER BY t.ord)
    FROM entry AS e
    INNER JOIN counted_row AS t ON e.entry_key = t.entry_key
    GROUP BY ALL
    ORDER BY 1
"""


@pytest.mark.parametrize("rules", [OURS, SPIKEE], ids=lambda rules: rules.name)
@settings(max_examples=12)
@given(sources=SOURCES, parts=st.integers(2, 5))
@example(sources=[GHOST], parts=4)
def test_parts_fold_into_the_entries_of_one_ledger(rules: Any, sources: list[list[LedgerRow]], parts: int) -> None:
    blobs = all_blobs(sources, parts)
    division = replace(surveyed(blobs, sources), rules=rules)
    if rules.merges_rows_by_id:
        division = replace(division, facts=RunFacts([], [], []), strangers=[])
    with Ledger(division.paths) as whole:
        whole.fields_of[0] = division.fields
        for source, rows in enumerate(sources):
            whole.load(source, tables_of(rows))
        whole.fold(rules)
        expected = whole.query(ENTRIES)
    found = []
    for part, dealt in blobs.items():
        with rows_of_part(dealt, part, division) as ledger:
            ledger.fold(rules, known=division.facts)
            found += ledger.query(ENTRIES)
    assert sorted(found) == expected
    assert sum(len(rows) for *_, rows in expected) <= sum(map(len, sources))


def test_what_is_dealt_holds_words_of_its_own_rows_alone() -> None:
    names = range(10, 50)
    rows = [LedgerRow(line=0, parent_id=name, state=1, facets={"team": f"team{name}"}) for name in names]
    dealt, moving = deal(tables_of(rows), 0, 10)
    assert moving == 0
    assert len(dealt) > 1
    for part, blob in dealt.items():
        own = [name for name in names if part_of_text(str(name), 10) == part]
        assert [name for name in names if f"team{name}".encode() in blob] == own


# -- places -----------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9), st.integers(0, 3))
def test_a_line_is_found_from_its_place_and_back(lines_of_ranges: list[int], source: int) -> None:
    before = [sum(lines_of_ranges[:number]) for number in range(len(lines_of_ranges))]
    places = [SourcePlaces(lambda line: f"other:{line}")] * source + [SourcePlaces("file:{}".format, before)]
    ledger = divided_ledger(places)
    for line in range(1, sum(lines_of_ranges) + 1):
        ord_ = ledger.ord(source, line)
        assert (ledger.line(ord_), ledger.place(ord_)) == (line, f"file:{line}")
        in_range = source_and_line(ord_)[1]
        number, first = in_range >> 24, in_range & (2**24 - 1)
        assert 1 <= first <= lines_of_ranges[number]
    ords = [ledger.ord(source, line) for line in range(1, sum(lines_of_ranges) + 1)]
    assert ords == sorted(ords)


def test_a_line_of_a_file_that_was_read_as_a_whole_is_its_place() -> None:
    ledger = divided_ledger([SourcePlaces("a:{}".format), SourcePlaces("b:{}".format)])
    assert [ledger.place(ledger.ord(source, 2**30)) for source in (0, 1)] == [f"a:{2**30}", f"b:{2**30}"]


class _Nobody:
    def ask(self, *_: Any) -> Any:
        raise AssertionError("nothing is asked")


def divided_ledger(places: list[SourcePlaces]) -> DividedLedger:
    paths = [f"{number}.jsonl" for number in range(len(places))]
    division = Division(paths, 1, [], Fields(), OURS, True)
    return DividedLedger(division, [1] * len(paths), places, _Nobody())
