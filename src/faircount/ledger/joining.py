"""Tables put together: the same columns one below the other, every line where it belongs, one number for a word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from faircount.ledger.schema import TABLES, TYPE_CODES, WITH_WORDS, Kind, Lexicon, Tables, kind_of, lexicon_of


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

        numbers = {
            table: {
                column: numpy.concatenate(found) if found else numpy.empty(0, TYPE_CODES[kind_of(table, column)])
                for column, found in pieces.items()
            }
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
