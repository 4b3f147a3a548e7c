"""A ledger whose rows are in parts elsewhere: questions go to all of them, and their answers are put together."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any, NoReturn, Protocol

from msgspec import Struct
from msgspec.structs import replace

from faircount.core.workers import Answered
from faircount.ledger import engine
from faircount.ledger.engine import DuckDB
from faircount.ledger.parts import RANGE_BITS, Division
from faircount.ledger.questions import Question, Rows, merged, with_values, word_column
from faircount.ledger.schema import FACET, Lexicon, lexicon_of, sql_names, word_of
from faircount.ledger.store import LedgerView, source_and_line


class Crew(Protocol):
    """Those who have the parts, and ask them."""

    def ask(self, questions: Sequence[Question], family: str | None) -> Iterable[list[Rows]]:
        """Return the answers of each part, in their order, with texts for words.

        With `family`, the column of `entry` whose values belong together, of entries dealt by that.
        """


class SourcePlaces(Struct, frozen=True):
    """Where the rows of a source are: the lines before each of its ranges, nothing where it was read as a whole."""

    name: Callable[[int], str]
    """Makes `file:line` of a line."""
    lines_before: Sequence[int] = ()

    def line(self, place: int) -> int:
        """Return the line of a place."""
        if not self.lines_before:
            return place
        return self.lines_before[place >> RANGE_BITS] + (place & ((1 << RANGE_BITS) - 1))


class DividedLedger:
    """Rows that were folded in parts, asked as if they were here."""

    def __init__(self, division: Division, rows: Sequence[int], places: Sequence[SourcePlaces], crew: Crew) -> None:
        self.paths, self.rows, self.fields = division.paths, list(rows), division.fields
        self.facets = {column.removeprefix(FACET): name for column, name in sql_names(division.facets).items()}
        self._places = places
        self._crew = crew
        self._lexicons: dict[str, Lexicon] = {}
        self._answers: dict[Question, Rows] = {}
        self._recorded: list[Question] | None = None

    def ask(self, question: Question) -> Rows:
        """Ask something of the folded rows once, and remember the answer."""
        asked = replace(question, over=None)
        if asked not in self._answers:
            if self._recorded is not None:
                self._recorded.append(asked)
                return []
            self._ask([asked])
        found = self._answers[asked]
        return found if question.over is None else _asked_again(question, found)

    def expect(self, asking: Callable[[LedgerView], object]) -> None:
        """Ask all parts at once what a function asks: the answers are then here when they are wanted.

        The function sees empty answers. A question that is forgotten here only takes longer.
        """
        self._recorded = []
        try:
            asking(self)
        finally:
            recorded, self._recorded = self._recorded, None
        if recorded:
            self._ask(list(dict.fromkeys(recorded)))

    def _ask(self, questions: Sequence[Question]) -> None:
        for family in dict.fromkeys(question.family for question in questions):
            group = [question for question in questions if question.family == family]
            sent = [
                replace(question, words=tuple((name, self._text(name, n)) for name, n in question.words))
                for question in group
            ]
            answers: list[list[Rows]] = [[] for _ in group]
            for of_part in self._crew.ask(sent, family):
                for found, question, rows in zip(answers, group, of_part, strict=True):
                    found.append(with_values(rows, question.columns, self._number))
            for question, found in zip(group, answers, strict=True):
                self._answers[question] = merged(question, found)

    def _text(self, column: str, number: Any) -> Any:
        return number if number is None or number < 0 else self.word(column, number)

    def _number(self, column: str, text: Any) -> Any:
        return self._lexicons.setdefault(lexicon_of(column), Lexicon())[text] if isinstance(text, str) else text

    def word(self, column: str, number: int | None) -> str | None:
        """Return the word that a number stands for in a column; a facet's column goes by its name in the engine."""
        if number is None:
            return None
        return word_of(number, self._lexicons[lexicon_of(column)].words if number > 0 else (None,))

    def known_words(self, column: str) -> int:
        """Return a number that is not less than that of the words in a column: nobody has all of them."""
        del column
        return sys.maxsize

    def meanwhile(self, ask: Callable[[], Answered]) -> Callable[[], Answered]:
        """Ask when the answer is wanted."""
        return ask

    def line(self, ord_: int) -> int:
        """Return the line of a row in its file."""
        source, place = source_and_line(ord_)
        return self._places[source].line(place)

    def place(self, ord_: int) -> str:
        """Return `file:line` of a row."""
        return self._places[source_and_line(ord_)[0]].name(self.line(ord_))

    def lexicon(self, column: str) -> NoReturn:
        """Nobody has all words."""
        raise NotImplementedError(f"the words of {column} are in parts")

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> NoReturn:
        """Rows are elsewhere: only questions can be asked."""
        raise NotImplementedError(f"rows are in parts: {sql} {parameters}")

    def ord(self, source: int, line: int) -> int:
        """Return the number by which a line of a source is known."""
        before = self._places[source].lines_before
        place = line
        if before:
            range_ = bisect_right(before, line - 1) - 1
            place = range_ << RANGE_BITS | (line - before[range_])
        from faircount.ledger.store import ord_of

        return ord_of(source, place)


def _asked_again(question: Question, rows: Rows) -> Rows:
    """Ask a statement of an answer that all parts gave together."""
    with closing(DuckDB(*engine.connect_small())) as asking:
        columns = ", ".join(
            f"c{at} {'INTEGER' if word_column(role) else 'BIGINT'}" for at, role in enumerate(question.columns)
        )
        asking.rows(f"CREATE TABLE answer ({columns})")
        if rows:
            asking.append("answer", rows)
        return asking.rows((question.over or "").replace("$answer", "answer"))
