"""Rows divided into parts that are folded and asked one by one, by any number of processes or machines.

All rows of an entry are in one part: it is found from the id of the entry, by a hash of our own that is the same
everywhere. What leaves a process is bytes: rows as numbers, checksums and short words, never a prompt or a response.
Words have numbers of their own in every part; answers hold the words themselves. Entries are dealt a second time, by
what their families share, where a question is about families.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from xxhash import xxh3_64_intdigest

from faircount.core.definition import Definition
from faircount.ledger import engine
from faircount.ledger.engine import StoredTables
from faircount.ledger.questions import NO_SUCH_WORD, Question, Rows, with_values
from faircount.ledger.schema import (
    TABLES,
    TYPE_CODES,
    WITH_WORDS,
    Fields,
    Kind,
    Lexicon,
    RowMark,
    Tables,
    kind_of,
    lexicon_of,
    sql_names,
    word_of,
)
from faircount.ledger.store import FOLDED, ONE_BY_ONE_UP_TO_ROWS, Ledger, Overlap, RunFacts, ord_of

RANGE_BITS = 24
"""A row in a file that is read in ranges is known by the number of its range, and so many bits for its line there."""

_ATTACK = "-attack"
_WHOLE_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")


# -- which part a row belongs to --------------------------------------------------------------------------------


def part_of_text(name: str, parts: int) -> int:
    """Return the part of the entries with an id: 5, "5", "5-attack" and "5-attack-2" are in one."""
    root = name[: _end_of_root(name)]
    if _WHOLE_NUMBER.match(root):
        return int(mixed(int(root))) % parts
    return int(xxh3_64_intdigest(root.encode("utf-8", "surrogatepass"))) % parts


def _end_of_root(name: str) -> int:
    """Return where an id ends without all that marks it as an attack's: `-attack` and `-attack-2`."""
    end = len(name)
    while True:
        number = name.rfind("-", 0, end)
        digits = name[number + 1 : end] if number >= 0 else ""
        before = number if digits.isascii() and digits.isdigit() else end
        if not name.endswith(_ATTACK, 0, before):
            return end
        end = before - len(_ATTACK)


def mixed(numbers: Any) -> Any:
    """Return numbers, or an array of them, scattered over 64 bits: the finaliser of splitmix64 (Steele et al. 2014)."""
    import numpy

    with numpy.errstate(over="ignore"):
        x = numpy.asarray(numbers).astype(numpy.uint64) + numpy.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return x ^ (x >> numpy.uint64(31))


def _parts_of_ids(numbers: Any, words: Sequence[str | None], parts: int) -> Any:
    """Return the part of each id; whole numbers are below 0, see `schema.Kind.ID`."""
    import numpy

    by_word = numpy.fromiter((part_of_text(word or "", parts) for word in words), numpy.int64, len(words))
    whole = (mixed(numpy.maximum(-1 - numbers.astype(numpy.int64), 0)) % numpy.uint64(parts)).astype(numpy.int64)
    return numpy.where(numbers < 0, whole, by_word[numpy.maximum(numbers, 0)])


# -- rows on their way ------------------------------------------------------------------------------------------


class PackedColumn(Struct, frozen=True, array_like=True):
    """Numbers of one column: their type, how many there are, and their bytes; a single number stands for all."""

    type: str
    count: int
    data: bytes


class PackedTables(Struct, frozen=True, array_like=True):
    """Tables of one source as bytes, with the words that they use."""

    source: int
    numbers: dict[str, dict[str, PackedColumn]]
    words: dict[str, list[str | None]]
    ghosts: list[int | str] = []
    """Ids that rows of other parts name: an id that looks like an attack's is one if its entry is there."""


def packed(numbers: Any) -> PackedColumn:
    """Return an array as bytes, as few as its numbers need."""
    import numpy

    array = numpy.asarray(numbers)
    if len(array) and (array == array[0]).all():
        return PackedColumn(array.dtype.str, len(array), array[:1].tobytes())
    if array.dtype.kind == "i" and len(array):
        least, most = int(array.min()), int(array.max())
        narrow = next(
            (t for t in ("i1", "i2", "i4") if numpy.iinfo(t).min <= least and most <= numpy.iinfo(t).max),
            array.dtype.str,
        )
        array = array.astype(narrow)
    return PackedColumn(array.dtype.str, len(array), array.tobytes())


def unpacked(column: PackedColumn, kind: str) -> Any:
    """Return the numbers of a column of a kind again."""
    import numpy

    array = numpy.frombuffer(column.data, column.type).astype(TYPE_CODES.get(kind, column.type))
    return numpy.repeat(array, column.count) if len(array) != column.count else array


def deal(tables: Tables, source: int, parts: int) -> tuple[dict[int, bytes], int]:
    """Return the rows of a source, or of a piece of it, by the part that they belong to.

    A row whose id looks like that of an attack is sent to two parts if it does not follow from the id itself what it
    belongs to; a survey of all rows shows which of them it is in. Return also how many such rows there are.
    """
    import numpy

    numbers = {
        table: {name: numpy.asarray(values) for name, values in columns.items()}
        for table, columns in tables.numbers.items()
    }
    attempts = numbers["attempt"]
    ids = tables.words.get("parent_id", [None])
    home = _parts_of_ids(attempts["parent_id"], ids, parts)
    named = attempts["own_id"] != 0
    ghosts: dict[int, list[int | str]] = {}
    where = [home]
    rows = [numpy.arange(len(home))]
    if named.any():
        own = numpy.where(named, _parts_of_ids(attempts["own_id"], ids, parts), home)
        elsewhere = own != home
        moving = numpy.nonzero(elsewhere & (attempts["mark"] == RowMark.ATTACK_BY_ID))[0]
        where.append(own[moving])
        rows.append(moving)
        for row in numpy.nonzero(elsewhere & (attempts["mark"] == RowMark.STANDARD))[0].tolist():
            number = int(attempts["own_id"][row])
            ghosts.setdefault(int(own[row]), []).append(number if number < 0 else str(ids[number]))
    all_rows, all_parts = numpy.concatenate(rows), numpy.concatenate(where)
    places = {
        table: numpy.searchsorted(attempts["line"], numbers[table]["line"]) for table in TABLES if table != "attempt"
    }
    dealt = {}
    for part in sorted({*numpy.unique(all_parts).tolist(), *ghosts}):
        chosen = numpy.sort(all_rows[all_parts == part])
        belongs = numpy.zeros(len(home) + 1, bool)
        belongs[chosen] = True
        picked = {"attempt": chosen} | {table: numpy.nonzero(belongs[at])[0] for table, at in places.items()}
        of_part = {
            table: {name: values[picked[table]] for name, values in columns.items()}
            for table, columns in numbers.items()
        }
        dealt[int(part)] = _packed_tables(source, of_part, _lexicon_of_row, tables.words, ghosts.get(int(part), []))
    return dealt, len(all_rows) - len(home)


def _lexicon_of_row(table: str, column: str) -> str | None:
    return lexicon_of(column) if kind_of(table, column) in WITH_WORDS else None


def _packed_tables(
    source: int,
    numbers: dict[str, dict[str, Any]],
    lexicon_in: Callable[[str, str], str | None],
    words: Mapping[str, Sequence[str | None]],
    ghosts: Sequence[int | str] = (),
) -> bytes:
    """Return tables as bytes, with no other words than those that they use, numbered in the same order."""
    import numpy

    using: dict[str, list[tuple[str, str]]] = {}
    for table, columns in numbers.items():
        for column in columns:
            lexicon = lexicon_in(table, column)
            if lexicon is not None:
                using.setdefault(lexicon, []).append((table, column))
    kept: dict[str, list[str | None]] = {}
    for lexicon, users in using.items():
        used = numpy.unique(numpy.concatenate([numbers[table][column] for table, column in users]))
        used = used[used > 0]
        known = words[lexicon]
        kept[lexicon] = [None, *(known[number] for number in used.tolist())]
        for table, column in users:
            old = numbers[table][column]
            numbers[table][column] = numpy.where(old > 0, numpy.searchsorted(used, old) + 1, old)
    columns_packed = {
        table: {name: packed(values) for name, values in columns.items()} for table, columns in numbers.items()
    }
    return msgspec.msgpack.encode(PackedTables(source, columns_packed, kept, list(ghosts)))


# -- a part -----------------------------------------------------------------------------------------------------


class Division(Struct, frozen=True):
    """What is known of all rows before any part is folded."""

    paths: list[str]
    parts: int
    facets: list[str]
    """Columns of facets, in the order in which they turned up."""
    fields: Fields
    rules: Definition
    combined: bool
    facts: RunFacts = RunFacts([], [], [])
    strangers: list[int] = []
    """Rows with an id like an attack's that belong to no attack: they go by their own id, in the part of that."""
    memory: str = ""
    """How much memory the engine that has a part may use."""


def rows_of_part(blobs: Iterable[bytes], part: int, division: Division, *, surveyed: bool = True) -> Ledger:
    """Return a ledger with the rows of a part, not folded yet.

    `surveyed`: whether it is known which rows belong to another part after all; else they are counted in one only.
    """
    ledger = _new_ledger(division)
    ledger.load(0, _no_rows(division.facets))
    ghosts: list[tuple[int, int | str]] = []
    strangers = frozenset(division.strangers)
    for blob in blobs:
        found = msgspec.msgpack.decode(blob, type=PackedTables)
        numbers = {
            table: {name: unpacked(values, kind_of(table, name)) for name, values in columns.items()}
            for table, columns in found.numbers.items()
        }
        tables = Tables(numbers, found.words)
        ghosts += [(found.source, name) for name in found.ghosts]
        ledger.load(found.source, _at_home(tables, found.source, part, division.parts, strangers, surveyed=surveyed))
    ledger.ghosts = ghosts
    return ledger


def _new_ledger(division: Division) -> Ledger:
    if division.memory:
        engine.keep_within(division.memory)
    ledger = Ledger(division.paths)
    ledger.fields_of[0] = division.fields
    return ledger


def _no_rows(facets: Sequence[str]) -> Tables:
    """Return tables with all columns and no rows, so that columns have the same order in every part."""
    import numpy

    columns = {table: dict(kinds) for table, kinds in TABLES.items()}
    columns["attempt"] |= dict.fromkeys(facets, Kind.WORD)
    numbers = {
        table: {name: numpy.empty(0, TYPE_CODES[kind]) for name, kind in kinds.items()}
        for table, kinds in columns.items()
    }
    lexicons: dict[str, list[str | None]] = {
        lexicon_of(name): [None] for kinds in columns.values() for name, kind in kinds.items() if kind in WITH_WORDS
    }
    return Tables(numbers, lexicons)


def _at_home(
    tables: Tables, source: int, part: int, parts: int, strangers: frozenset[int], *, surveyed: bool
) -> Tables:
    """Return tables without the rows that belong to another part."""
    import numpy

    attempts, ids = tables.numbers["attempt"], tables.words["parent_id"]
    unsure = (attempts["mark"] == RowMark.ATTACK_BY_ID) & (attempts["own_id"] != 0)
    if parts == 1 or not unsure.any():
        return tables
    at_parent = _parts_of_ids(attempts["parent_id"], ids, parts) == part
    at_own = _parts_of_ids(attempts["own_id"], ids, parts) == part
    stays = at_parent
    if surveyed and strangers:
        first = ord_of(source, 0)
        is_stranger = numpy.fromiter((first + line in strangers for line in attempts["line"].tolist()), bool)
        stays = numpy.where(is_stranger, at_own, at_parent)
    keep = ~unsure | stays
    if keep.all():
        return tables
    lines = attempts["line"][keep]
    numbers = {
        table: {
            name: values[keep if table == "attempt" else numpy.isin(columns["line"], lines)]
            for name, values in columns.items()
        }
        for table, columns in tables.numbers.items()
    }
    return Tables(numbers, tables.words)


class Survey(Struct, frozen=True):
    """What the rows of a part show of rows in other parts."""

    shared_times: list[tuple[int, int]] = []
    overlaps: list[Overlap] = []
    strangers: list[int] = []


def survey(
    blobs: Iterable[bytes], part: int, division: Division, pairs: Sequence[tuple[int, int]] | None = None
) -> Survey:
    """Look at the rows of a part before any is folded; with `pairs` of sources, count what they share."""
    with rows_of_part(blobs, part, division, surveyed=False) as ledger:
        ledger.settle()
        if pairs is not None:
            return Survey(overlaps=ledger.overlaps(pairs))
        several = len(division.paths) > 1
        strangers = ledger.strangers() if division.parts > 1 else []
        ids = ledger.lexicon("parent_id")

        def moves(own: int, parent: int) -> bool:
            one, other = (part_of_text(word_of(number, ids) or "", division.parts) for number in (own, parent))
            return one != other

        moving = [place for place, own, parent in strangers if moves(own, parent)]
        return Survey(ledger.shared_times() if several else [], [], moving)


def fold_part(blobs: Iterable[bytes], part: int, division: Division, folder: Path) -> FoldedPart:
    """Fold the rows of a part, and write what they fold into to an empty folder."""
    with rows_of_part(blobs, part, division) as ledger:
        ledger.folder = folder
        ledger.fold(division.rules, combined=division.combined, known=division.facts)
        return FoldedPart(*ledger.save(folder))


class FoldedPart(Struct, frozen=True, array_like=True):
    """What a part was folded into: files of tables, beside it, and the words behind their numbers."""

    columns: dict[str, list[str]]
    words: dict[str, list[str | None]]
    rows: int


def open_fold(folded: FoldedPart, folder: Path, division: Division, *, at_once: bool = False) -> Ledger:
    """Return what a part was folded into as a ledger; `at_once` if much will be asked of it."""
    ledger, words = _new_ledger(division), folded.words
    stored = StoredTables(folder, folded.columns, list(words), lambda name: words[name], folded.rows)
    ledger.load_folded(stored, FOLDED if at_once or folded.rows <= ONE_BY_ONE_UP_TO_ROWS else ())
    return ledger


# -- answers ----------------------------------------------------------------------------------------------------


def answers(ledger: Ledger, questions: Sequence[Question]) -> bytes:
    """Return the answers of a part to questions that name words by their texts, with texts for words."""
    numbers: dict[str, dict[str | None, int]] = {}

    def number_of(column: str, text: Any) -> Any:
        if not isinstance(text, str):
            return text
        if column not in numbers:
            numbers[column] = {word: number for number, word in enumerate(ledger.lexicon(column))}
        return numbers[column].get(text, NO_SUCH_WORD)

    def text_of(column: str, number: Any) -> Any:
        return number if number is None or number < 0 else ledger.lexicon(column)[number]

    found = []
    for question in questions:
        named = tuple((column, number_of(column, text)) for column, text in question.words)
        rows = ledger.query(replace(question, words=named, over=None).statement())
        found.append(with_values(rows, question.columns, text_of))
    # Sums may be larger than what other formats hold.
    return json.dumps(found, separators=(",", ":")).encode()


def read_answers(data: bytes) -> list[Rows]:
    """Return the answers of a part again."""
    return [[tuple(row) for row in rows] for rows in json.loads(data)]


# -- entries dealt by their families ----------------------------------------------------------------------------

_ENTRY_COLUMNS = {
    "entry": {
        "entry_key": "first_ord",
        "first_ord": "first_ord",
        "source": "source",
        "has_standard": "has_standard",
        "requests": "requests",
        "attack_name": "COALESCE(attack_name, 0)",
        "family": "COALESCE(family, 0)",
        "outcome": "outcome",
        "initial_success": "initial_success",
        "guardrail_any": "guardrail_any",
    },
    "entry_attack": {
        "entry_key": "e.first_ord",
        "source": "t.source",
        "attack": "COALESCE(t.attack, 0)",
        "won": "t.won",
        "all_blocked": "t.all_blocked",
        "requests": "t.requests",
        "blocks": "COALESCE(t.blocks, -1)",
    },
    "entry_category": {
        "entry_key": "e.first_ord",
        "source": "t.source",
        "category": "COALESCE(t.category, 0)",
        "flagged": "t.flagged",
    },
}
"""What questions about families need; an entry is known by its first row, in whatever part it is."""


def _entry_columns(facets: Iterable[str]) -> dict[str, dict[str, str]]:
    return _ENTRY_COLUMNS | {"entry": _ENTRY_COLUMNS["entry"] | {name: f"COALESCE({name}, 0)" for name in facets}}


def _lexicon_of_entry(_: str, column: str) -> str | None:
    if column == "attack_name":
        return "attack"
    return column if column in ("attack", "category") or column.startswith("facet_") else None


def deal_entries(ledger: Ledger, column: str, parts: int) -> dict[int, bytes]:
    """Return the entries of a part by the value of a column, one without a value by itself."""
    import numpy

    tables = {}
    for table, columns in _entry_columns(ledger.facets.values()).items():
        selected = ", ".join(f"{value} AS {name}" for name, value in columns.items())
        rows = "entry" if table == "entry" else f"{table} AS t INNER JOIN entry AS e ON t.entry_key = e.entry_key"
        tables[table] = ledger.arrays(f"SELECT {selected} FROM {rows} ORDER BY 1")
    entries = tables["entry"]
    alone = mixed(entries["first_ord"])
    # A field of the format that no row has is no column.
    shared = entries.get(column, numpy.zeros(len(alone), numpy.int64))
    lexicon = _lexicon_of_entry("entry", column)
    if lexicon is None:
        keys = numpy.where(shared != 0, mixed(shared.astype(numpy.int64).view(numpy.uint64)), alone)
    else:
        words = ledger.lexicon(lexicon)
        hashes = (xxh3_64_intdigest((word or "").encode("utf-8", "surrogatepass")) for word in words)
        by_word = numpy.fromiter(hashes, numpy.uint64, len(words))
        keys = numpy.where(shared > 0, by_word[numpy.maximum(shared, 0)], numpy.where(shared < 0, mixed(shared), alone))
    where = (keys % numpy.uint64(parts)).astype(numpy.int64)
    at = {
        table: where[numpy.searchsorted(entries["first_ord"], columns["entry_key"])]
        for table, columns in tables.items()
    }
    lexicons = {name: ledger.lexicon(name) for name in ("attack", "category", *ledger.facets.values())}
    dealt = {}
    for part in numpy.unique(where).tolist():
        chosen = {
            table: {name: values[at[table] == part] for name, values in columns.items()}
            for table, columns in tables.items()
        }
        dealt[part] = _packed_tables(0, chosen, _lexicon_of_entry, lexicons)
    return dealt


def entries_of_part(blobs: Iterable[bytes], division: Division) -> Ledger:
    """Return a ledger of entries that were dealt by their families; it knows nothing of their rows."""
    import numpy

    lexicons: dict[str, Lexicon] = {}
    found: dict[str, dict[str, list[Any]]] = {
        table: {name: [numpy.empty(0, numpy.int64)] for name in columns}
        for table, columns in _entry_columns(sql_names(division.facets).values()).items()
    }
    for blob in blobs:
        piece = msgspec.msgpack.decode(blob, type=PackedTables)
        now = {
            name: numpy.fromiter(lexicons.setdefault(name, Lexicon()).numbers(words), numpy.int32, len(words))
            for name, words in piece.words.items()
        }
        for table, columns in piece.numbers.items():
            for name, column in columns.items():
                lexicon = _lexicon_of_entry(table, name)
                values = unpacked(column, Kind.COUNT)
                if lexicon is not None:
                    values = numpy.where(values > 0, now[lexicon][numpy.maximum(values, 0)], values)
                found[table][name].append(values)
    arrays = {
        table: {name: numpy.concatenate(pieces) for name, pieces in columns.items()} for table, columns in found.items()
    }
    ledger = _new_ledger(division)
    ledger.load_entries(arrays, {name: lexicon.words for name, lexicon in lexicons.items()}, division.facets)
    return ledger
