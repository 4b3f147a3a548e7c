"""The documented shape of what readers hand to the ledger: numbers in columns, and the words behind them.

A batch carries four kinds of rows. *Attempts*: one per recorded line, with the columns below and an open set of
facets. *History*: what happened inside a dynamic attack, counted per line by state and kind of error. *Verdicts*: what
each judge said, where several did. *Categories*: what a guardrail named when it blocked. Long text stays in the source;
three checksums of it are enough to tell whether two rows tell of the same case and the same answer. Short text is kept
once, in a lexicon of its column, and travels as its number there: numbers are cheap to move, to group and to join, and
no text ever reaches the engine.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any

from msgspec import Struct
from xxhash import xxh3_64_intdigest

from faircount.core.model import Outcome

OUTCOME_NUMBER: dict[Outcome, int] = {outcome: number for number, outcome in enumerate(Outcome)}
"""How an outcome is written in a column."""


class RowMark:
    """How sure a row is to belong to a dynamic attack. Plain numbers: they are written for every row."""

    STANDARD = 0
    ATTACK = 1
    ATTACK_BY_ID = 2
    """No attack is named, but the id ends like an attack row's: decided when all ids are known."""
    TASK = 3
    """A case of a run of tests: its verdict is the one over all its attempts, which its history tells."""


class AnswerKind:
    """What kind of response a row holds. Plain numbers, too."""

    EMPTY = 0
    BOOLEAN = 1
    TEXT = 2


RECORDED, REJUDGED = "recorded", "rejudged"
"""Where a verdict comes from: the tool that wrote the results, or a judge that was asked about them later."""


class Kind:
    """What the numbers of a column mean, and which of them means that nothing is recorded."""

    COUNT = "count"
    """A whole number."""
    SMALL = "small"
    """One of a few numbers that are named in this module."""
    FLAG = "flag"
    """1 for true, 0 for false, -1 for neither."""
    NUMBER = "number"
    """Any number, such as a duration; NaN for none."""
    CHECKSUM = "checksum"
    """64 bits that stand for a text; 0 for none."""
    WORD = "word"
    """A number in the lexicon of the column; 0 for none."""
    ID = "id"
    """The same, but whole numbers stand for themselves, below 0: -1 for 0, -2 for 1, and so on."""


WITH_WORDS = frozenset([Kind.WORD, Kind.ID])

TYPE_CODES = {
    Kind.COUNT: "q",
    Kind.SMALL: "b",
    Kind.FLAG: "b",
    Kind.NUMBER: "d",
    Kind.CHECKSUM: "q",
    Kind.WORD: "i",
    Kind.ID: "i",
}
"""How a kind is held in an `array`."""

ATTEMPT_COLUMNS: dict[str, str] = {
    "line": Kind.COUNT,
    "own_id": Kind.ID,
    "parent_id": Kind.ID,
    "result_origin": Kind.WORD,
    "source_file": Kind.WORD,
    "mark": Kind.SMALL,
    "attack": Kind.WORD,
    "decision": Kind.FLAG,
    "truthy": Kind.FLAG,
    "state": Kind.SMALL,
    "errored": Kind.FLAG,
    "guardrail": Kind.FLAG,
    "error_text": Kind.WORD,
    "error_kind": Kind.WORD,
    "requests": Kind.COUNT,
    "response_time": Kind.NUMBER,
    "answer": Kind.SMALL,
    "text_hash": Kind.CHECKSUM,
    "objective_hash": Kind.CHECKSUM,
    "response_hash": Kind.CHECKSUM,
    "family": Kind.CHECKSUM,
}
"""Columns of an attempt in order; the ledger adds `ord` and `source` before and the facets after them.

`parent_id` is the id of the entry that the row seems to belong to; `own_id` is given only where it is another one and
the row does not say that it is part of a dynamic attack. `family` stands for what the row is a variant of.
"""

HISTORY_COLUMNS: dict[str, str] = {
    "line": Kind.COUNT,
    "state": Kind.SMALL,
    "error_kind": Kind.WORD,
    "times": Kind.COUNT,
    "first_at": Kind.COUNT,
}

VERDICT_COLUMNS: dict[str, str] = {
    "line": Kind.COUNT,
    "attempt": Kind.COUNT,
    "judge": Kind.WORD,
    "decision": Kind.FLAG,
    "score": Kind.NUMBER,
    "threshold": Kind.NUMBER,
    "reason_line": Kind.COUNT,
    "judged_at": Kind.NUMBER,
    "origin": Kind.WORD,
    "given": Kind.COUNT,
}
"""Columns of a verdict, see `VerdictRow`. A row with one verdict has none here: it is the row's decision."""

CATEGORY_COLUMNS: dict[str, str] = {"line": Kind.COUNT, "category": Kind.WORD}

TABLES: dict[str, dict[str, str]] = {
    "attempt": ATTEMPT_COLUMNS,
    "history": HISTORY_COLUMNS,
    "verdict": VERDICT_COLUMNS,
    "category": CATEGORY_COLUMNS,
}

FACET = "facet:"
"""Stands before the field's name in the name of a facet's column; every column so named is a `Kind.WORD`."""


def sql_names(columns: Iterable[str]) -> dict[str, str]:
    """Return our name for each column: a facet's is never the record's, which may hold anything."""
    facets = [column for column in columns if column.startswith(FACET)]
    numbered = {column: f"facet_{number}" for number, column in enumerate(facets)}
    return {column: numbered.get(column, column) for column in columns}


_SHARED_LEXICONS = {"own_id": "parent_id", "source_file": "result_origin"}


def lexicon_of(column: str) -> str:
    """Return the column whose lexicon holds the words of a column.

    Words that are compared have a lexicon in common, and so have columns of the same name in different tables.
    """
    return _SHARED_LEXICONS.get(column, column)


def kind_of(table: str, column: str) -> str:
    """Return the kind of a column, facets included."""
    return Kind.WORD if column.startswith(FACET) else TABLES[table][column]


class Lexicon(dict[str | None, int]):
    """The words of one column, numbered as they turn up; 0 is no word. A facet's empty text is no word, either."""

    def __init__(self, *, empty_is_none: bool = False) -> None:
        super().__init__({None: 0, "": 0} if empty_is_none else {None: 0})
        self.words: list[str | None] = [None]

    def __missing__(self, word: str | None) -> int:
        number = self[word] = len(self.words)
        self.words.append(word)
        return number

    def numbers(self, words: Sequence[str | None]) -> Iterable[int]:
        """Return the numbers of words that are mostly new, faster than one by one; one may get two numbers."""
        new = [word for word in words if word not in self]
        self.update(zip(new, range(len(self.words), len(self.words) + len(new)), strict=True))
        self.words += new
        return map(self.__getitem__, words)


_FEW_WORDS = 256
"""The numbers of so many words fit into a byte."""
_LARGEST_ID = 10**9
_DIGITS_OF_AN_ID = 9


def id_number(name: int | str, lexicon: Lexicon) -> int:
    """Return the number of an id; 5 and "5" are one."""
    if type(name) is int and 0 <= name < _LARGEST_ID:
        return -1 - name
    text = str(name)
    if len(text) <= _DIGITS_OF_AN_ID and text.isascii() and text.isdigit() and (text[0] != "0" or text == "0"):
        return -1 - int(text)
    return lexicon[text]


def plain_id_numbers(names: Sequence[int | str]) -> list[int]:
    """Return the numbers of those ids that are whole numbers, and 0 for the others."""
    return [-1 - name if type(name) is int and 0 <= name < _LARGEST_ID else 0 for name in names]


def word_of(number: int, words: Sequence[str | None]) -> str | None:
    """Return the word behind a number."""
    return words[number] if number >= 0 else str(-1 - number)


class Tables(Struct, frozen=True):
    """What a source, or a part of one, holds: the columns of each table as numbers, and the words of each lexicon."""

    numbers: dict[str, dict[str, Any]]
    words: dict[str, list[str | None]]

    def rows(self, table: str) -> int:
        """Return how many rows a table has."""
        return len(self.numbers[table]["line"])

    @property
    def is_plain(self) -> bool:
        """Whether the numbers are still as a reader gives them, and not numpy's."""
        return isinstance(self.numbers["attempt"]["line"], array)


class Growing(Struct):
    """Columns of a table that a reader adds to, and their lexicons."""

    columns: dict[str, array[Any]]
    lexicons: dict[str, Lexicon]

    def __len__(self) -> int:
        return len(self.columns["line"])

    def add(self, *values: Any) -> None:
        """Append one row, in which there are no ids."""
        for (name, column), value in zip(self.columns.items(), values, strict=True):
            column.append(self.lexicons[name][value] if name in self.lexicons else value)

    def extend(self, kinds: Mapping[str, str], rows: Iterable[tuple[Any, ...]]) -> None:
        """Append rows, column by column, with words and ids as they are."""
        for (name, kind), values in zip(kinds.items(), zip(*rows, strict=True), strict=False):
            self.columns[name].fromlist(list(_numbers(values, kind, self.lexicons.get(name))))


def _numbers(values: Sequence[Any], kind: str, lexicon: Lexicon | None) -> Iterable[Any]:
    """Return the numbers of a column for values as readers have them."""
    if lexicon is not None:
        if kind == Kind.ID:
            return [0 if value is None else id_number(value, lexicon) for value in values]
        return map(lexicon.__getitem__, values)
    if kind == Kind.FLAG:
        return [-1 if value is None else value for value in values]
    if kind == Kind.NUMBER:
        return [math.nan if value is None else value for value in values]
    return values


class Fields(Struct, frozen=True):
    """Fields of a format: those that a report shows first, those whose combinations it ranks, all that are facets.

    `case` are the facets that make two rows with one id different cases; who judged them does not. `family` says, in
    words, what variants of one entry have in common, where that is not a document and an instruction.
    """

    first: tuple[str, ...] = ()
    combined: tuple[str, ...] = ()
    facets: tuple[str, ...] = ()
    case: tuple[str, ...] = ()
    family: tuple[str, ...] = ()
    others_on_request: bool = False
    """Whether facets beyond these are shown only where they are asked for."""


_NAMES_OF_FIELDS = tuple(name for name in Fields.__struct_fields__ if name != "others_on_request")


def fields_together(every: Sequence[Fields]) -> Fields:
    """Return the fields of several formats."""
    if not every or all(one == every[0] for one in every):
        return every[0] if every else Fields()
    joined = {name: dict.fromkeys(field for one in every for field in getattr(one, name)) for name in _NAMES_OF_FIELDS}
    on_request = all(one.others_on_request for one in every)
    return Fields(**{name: tuple(found) for name, found in joined.items()}, others_on_request=on_request)


class HistoryCount(Struct, frozen=True, gc=False):
    """How often requests of one row came to a state and kind of error, and which was the first of them, from 1."""

    state: int
    error_kind: str | None
    times: int
    first_at: int


class VerdictRow(Struct, frozen=True, kw_only=True, gc=False):
    """What one judge said of one attempt; `decision` is None where it did not decide.

    Of several verdicts of one judge on an attempt, the one that was given last counts.
    """

    judge: str | None
    attempt: int = 0
    """The request of the row, from 1; 0 is the row as a whole, by the rule that its format has for that."""
    decision: bool | None
    score: float | None = None
    threshold: float | None = None
    """From which score on the judge decides for a success."""
    reason_line: int = 0
    """The line of the source on which the reason is; 0 for none."""
    judged_at: float | None = None
    """When it was given, in seconds since 1970."""
    origin: str = RECORDED
    given: int = 0
    """Its place among the verdicts of its judge on the attempt."""


class LedgerRow(Struct, frozen=True, kw_only=True, gc=False):
    """A row of results as a reader hands it over: what `ATTEMPT_COLUMNS` hold, with words and ids as they are.

    `parent_id` is the entry that the row belongs to. `state` is the number of an outcome. A hash stands for a text.
    """

    line: int
    parent_id: int | str
    own_id: int | str | None = None
    result_origin: str | None = None
    source_file: str | None = None
    mark: int = RowMark.STANDARD
    attack: str | None = None
    decision: bool | None = None
    truthy: bool = False
    """Whether the verdict that is recorded is truthy, whatever it is."""
    state: int
    errored: bool = False
    guardrail: bool | None = None
    error_text: str | None = None
    error_kind: str | None = None
    requests: int = 1
    response_time: float | None = None
    answer: int = AnswerKind.TEXT
    text_hash: int = 0
    objective_hash: int = 0
    response_hash: int = 0
    family: int = 0
    facets: Mapping[str, str | None] = {}
    history: Sequence[HistoryCount] = ()
    verdicts: Sequence[VerdictRow] = ()
    """Of all judges, where there are several; else `decision` is the verdict."""
    categories: Sequence[str] = ()


_attempt_of, _history_of, _verdict_of = (
    attrgetter(*ATTEMPT_COLUMNS),
    attrgetter(*list(HISTORY_COLUMNS)[1:]),
    attrgetter(*list(VERDICT_COLUMNS)[1:]),
)


class Batch:
    """A bounded number of rows on their way from a reader to the ledger."""

    def __init__(self) -> None:
        self._lexicons: dict[str, Lexicon] = {}
        self.attempts, self.history, self.verdicts, self.categories = map(self._growing, TABLES.values())

    def _growing(self, kinds: Mapping[str, str]) -> Growing:
        lexicons = {
            name: self._lexicons.setdefault(lexicon_of(name), Lexicon())
            for name, kind in kinds.items()
            if kind in WITH_WORDS
        }
        return Growing({name: array(TYPE_CODES[kind]) for name, kind in kinds.items()}, lexicons)

    def __len__(self) -> int:
        return len(self.attempts)

    def extend(self, rows: Sequence[LedgerRow], facets: Sequence[str] = ()) -> None:
        """Append rows, column by column; `facets` are the names of facets that come first, in this order."""
        if not rows:
            return
        self.attempts.extend(ATTEMPT_COLUMNS, map(_attempt_of, rows))
        labels = [row.facets for row in rows]
        for name in dict.fromkeys([*facets, *(name for own in labels for name in own)]):
            self.add_facet(name, [own.get(name) for own in labels])
        counted = [(row.line, *_history_of(one)) for row in rows for one in row.history]
        self.history.extend(HISTORY_COLUMNS, counted)
        for row in rows:
            self.add_verdicts(row.line, row.verdicts)
        self.categories.extend(CATEGORY_COLUMNS, [(row.line, name) for row in rows for name in row.categories])

    def add_verdicts(self, line: int, verdicts: Sequence[VerdictRow]) -> None:
        """Append what the judges said of a row."""
        if verdicts:
            self.verdicts.extend(VERDICT_COLUMNS, [(line, *_verdict_of(one)) for one in verdicts])

    def add_facet(self, name: str, labels: Sequence[str | None]) -> None:
        """Append the labels of the rows that were just added; where there are none, a facet is missing."""
        first = labels[0]
        same = labels.count(first) == len(labels)
        if same and not first:
            return
        column = FACET + name
        if column not in self.attempts.columns:
            self.attempts.columns[column] = array(TYPE_CODES[Kind.WORD])
            self._lexicons[column] = Lexicon(empty_is_none=True)
        numbers = self.attempts.columns[column]
        extend_with_zeros(numbers, len(self) - len(labels) - len(numbers))
        lexicon = self._lexicons[column]
        numbers.fromlist([lexicon[first]] * len(labels) if same else list(map(lexicon.__getitem__, labels)))

    def tables(self) -> Tables:
        """Return what the batch holds; a facet that the last rows do not have is missing there."""
        for name, numbers in self.attempts.columns.items():
            if name.startswith(FACET):
                extend_with_zeros(numbers, len(self) - len(numbers))
        grown = zip(TABLES, (self.attempts, self.history, self.verdicts, self.categories), strict=True)
        words = {name: lexicon.words for name, lexicon in self._lexicons.items()}
        return Tables({name: rows.columns for name, rows in grown}, words)


def checksum(text: bytes) -> int:
    """Return 64 bits that stand for a text, as a signed number that is never 0."""
    unsigned = xxh3_64_intdigest(text)
    return (unsigned - (1 << 64) if unsigned >> 63 else unsigned) or 1


def extend_with_zeros(numbers: array[Any], count: int) -> None:
    """Append so many zeros to an array of numbers."""
    numbers.frombytes(bytes(numbers.itemsize * count))


# -- tables joined: every line where it belongs, one number for a word -------------------------------------------


def joined(parts: Sequence[tuple[Tables, int]]) -> Tables:
    """Join parts in their order; the number beside a part is added to its lines."""
    if len(parts) == 1 and not parts[0][1]:
        return parts[0][0]
    joining = Joining()
    for tables, offset in parts:
        joining.add(tables, offset)
    return joining.tables()


class Joining:
    """Parts being joined, as they come in."""

    def __init__(self) -> None:
        self._pieces: dict[str, dict[str, list[Any]]] = {
            table: {column: [] for column in columns} for table, columns in TABLES.items()
        }
        self._rows = dict.fromkeys(TABLES, 0)
        self._lexicons: dict[str, Lexicon] = {}

    def add(self, tables: Tables, offset: int) -> None:
        """Add a part, and a number to its lines."""
        now = {name: self._renumbered(name, words) for name, words in tables.words.items()}
        for table, columns in tables.numbers.items():
            self._add_table(table, columns, offset, now)
            self._rows[table] += tables.rows(table)

    def _renumbered(self, name: str, words: Sequence[str | None]) -> Any:
        """Give every word one number; return these by the numbers that they had."""
        import numpy

        lexicon = self._lexicons.setdefault(name, Lexicon())
        return numpy.fromiter(lexicon.numbers(words), dtype=TYPE_CODES[Kind.WORD], count=len(words))

    def _add_table(self, table: str, columns: Mapping[str, Any], offset: int, now: Mapping[str, Any]) -> None:
        import numpy

        pieces = self._pieces[table]
        for column in dict.fromkeys([*pieces, *columns]):
            if column not in columns:
                pieces[column].append(_nothing(len(columns["line"])))
                continue
            numbers = numpy.asarray(columns[column])
            kind = kind_of(table, column)
            if kind == Kind.WORD:
                numbers = now[lexicon_of(column)][numbers]
            elif kind == Kind.ID:
                numbers = numpy.where(numbers < 0, numbers, now[lexicon_of(column)][numpy.maximum(numbers, 0)])
            elif column == "line":
                numbers = numbers + offset
            pieces.setdefault(column, [_nothing(self._rows[table])]).append(numbers)

    def tables(self) -> Tables:
        """Return everything that was added."""
        import numpy

        def whole(table: str, column: str, found: list[Any]) -> Any:
            numbers = numpy.concatenate(found) if found else numpy.empty(0, TYPE_CODES[kind_of(table, column)])
            found.clear()  # both at once would be too much of a large file
            few = column.startswith(FACET) and len(self._lexicons[column].words) <= _FEW_WORDS
            return numbers.astype("u1") if few else numbers

        numbers = {
            table: {column: whole(table, column, found) for column, found in pieces.items()}
            for table, pieces in self._pieces.items()
        }
        return Tables(numbers, {name: lexicon.words for name, lexicon in self._lexicons.items()})


def _nothing(rows: int) -> Any:
    """Return the words of a facet that rows do not have."""
    import numpy

    return numpy.zeros(rows, dtype=TYPE_CODES[Kind.WORD])


def columns_of(table: str, parts: Iterable[Tables]) -> list[str]:
    """Return the columns that a table has in any part: those that all have, then the facets as they turn up."""
    return list(dict.fromkeys([*TABLES[table], *(column for part in parts for column in part.numbers[table])]))


def rows_of(
    table: str, tables: Tables, offset: int, columns: Sequence[str], lexicons: Mapping[str, Lexicon]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table one by one, `offset` added to its lines, its words with the numbers of `lexicons`."""
    values: list[Any] = []
    for column in columns:
        numbers = tables.numbers[table].get(column)
        if numbers is None:
            values.append(repeat(0, tables.rows(table)))
        elif column == "line":
            values.append([line + offset for line in numbers])
        elif kind_of(table, column) in WITH_WORDS:
            lexicon = lexicon_of(column)
            now = [lexicons[lexicon][word] for word in tables.words[lexicon]]
            values.append([now[number] if number >= 0 else number for number in numbers])
        else:
            values.append(numbers)
    return zip(*values, strict=True)
