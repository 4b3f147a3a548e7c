"""Which rows are meant: by their category, by a query, by search terms; everything that is given must hold.

A row is decoded only as far as the question needs, and often a look at its line spares even that.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import UNSET, Struct

from faircount.analysis.options import CUSTOM
from faircount.core.errors import InputError
from faircount.core.model import Outcome
from faircount.core.outcomes import state
from faircount.core.patterns import SlowPattern
from faircount.query import CustomSearch, Query
from faircount.query.query import And, Node, Operator, Test
from faircount.readers.raw_rows import ESCAPE, RawRow, values_reader
from faircount.readers.rows import NO_RESPONSE, Refusable, policy_block_of


class Choice(Struct, frozen=True):
    """Which rows are meant; everything that is given must hold."""

    category: str | None
    definition: str
    query: Query | None = None
    search: CustomSearch | None = None
    policy_blocks: bool = True
    """Whether a provider's refusal to take a prompt is a block, by Faircount's definition."""


Say = Callable[[RawRow], dict[str, object]]
"""Returns what Faircount says of a row."""


_STATES = {
    (success, error, guardrail): state(success=None if success is UNSET else success, error=error, guardrail=guardrail)
    for success in (True, False, None, UNSET)
    for error in (True, False)
    for guardrail in (True, False)
}


_NO_GUARDRAIL = "no-guardrail"


def _by_faircount(category: str, *, policy_blocks: bool) -> Callable[[RawRow], bool]:
    """Return whether a row is of a category, as it is counted."""

    def blocked(row: Refusable) -> bool:
        return row.guardrail is True or (row.error is not None and policy_blocks and policy_block_of(row) is not None)

    if category == _NO_GUARDRAIL:
        return lambda raw: not blocked(raw.row)
    wanted = Outcome(category)

    def has_state(raw: RawRow) -> bool:
        row = raw.row
        error = row.error
        return _STATES[row.success, error is not None and error != NO_RESPONSE, blocked(row)] is wanted

    return has_state


_BY_SPIKEE: dict[str, Callable[[dict[str, Any]], bool]] = {
    "success": lambda values: bool(values.get("success")),
    "failure": lambda values: not values.get("success"),
    "error": lambda values: values.get("error") not in (None, NO_RESPONSE),
    "guardrail": lambda values: bool(values.get("guardrail")),
    _NO_GUARDRAIL: lambda values: not values.get("guardrail"),
}
_SPIKEE_FIELDS = ("success", "error", "guardrail")


class Chooser:
    """Chooses rows of one source."""

    def __init__(self, choice: Choice, say: Say, place: Callable[[int], str] = "line {}".format) -> None:
        self._place = place
        self._needles: list[_Needle] = []
        self._tests: list[Callable[[RawRow], bool]] = []
        if choice.category not in (None, CUSTOM):
            self._tests.append(_category_test(str(choice.category), choice))
        if choice.query is not None:
            self._ask(choice.query, say)
        if choice.search is not None:
            self._look_for(choice.search)

    def __call__(self, rows: list[RawRow]) -> list[RawRow]:
        """Return those of the rows that are meant."""
        for needle in self._needles:
            rows = needle.candidates(rows)
        for test in self._tests:
            rows = [row for row in rows if self._passes(test, row)]
        return rows

    def _passes(self, test: Callable[[RawRow], bool], row: RawRow) -> bool:
        try:
            return test(row)
        except SlowPattern as error:
            raise InputError(f"{self._place(row.number)}: {error}; use a simpler pattern, or contains") from None

    def _ask(self, query: Query, say: Say) -> None:
        needle = _needle_in(query.tree)
        if needle is not None:
            self._needles.append(needle)
        read, matches = values_reader(query.fields), query.matches
        if query.computed:
            self._tests.append(lambda row: matches(read(row), say(row)))
        elif needle is not None and _asks_for_a_text(query.tree):
            self._tests.append(needle.or_else(lambda row: matches(read(row))))
        else:
            self._tests.append(lambda row: matches(read(row)))

    def _look_for(self, search: CustomSearch) -> None:
        wanted = [] if search.regex else [condition for condition in search.conditions if not condition.inverted]
        found = [_needle(condition.text, ignore_case=search.ignore_case) for condition in wanted]
        needles = [needle for needle in found if needle is not None]
        self._needles += needles
        read, matches = values_reader(search.fields), search.matches
        if len(search.conditions) == len(needles) == 1 and search.fields is None:
            self._tests.append(needles[0].or_else(lambda row: matches(read(row))))
        else:
            self._tests.append(lambda row: matches(read(row)))


def _category_test(category: str, choice: Choice) -> Callable[[RawRow], bool]:
    if choice.definition != "spikee":
        return _by_faircount(category, policy_blocks=choice.policy_blocks)
    test, read = _BY_SPIKEE[category], values_reader(_SPIKEE_FIELDS)
    return lambda row: test(read(row))


class _Needle(Struct, frozen=True):
    """A text without which a row cannot be meant, unless an escape hides it: looking for it spares decoding the row."""

    text: str
    encoded: bytes
    ignore_case: bool

    def candidates(self, rows: list[RawRow]) -> list[RawRow]:
        """Return those of the rows that may contain the text."""
        if not rows or not rows[0].clean or (self.ignore_case and not rows[0].buffer.isascii()):
            return [row for row in rows if self._may_be_in(row.line)]
        buffer, last = rows[0].buffer, rows[-1].end
        text = buffer.lower() if self.ignore_case else buffer
        starts = [row.start for row in rows]
        places = _places(lambda start: text.find(self.encoded, start, last), starts)
        places |= _places(lambda start: _found_at(_ESCAPE.search(buffer, start, last)), starts)
        return [rows[index] for index in sorted(places) if index >= 0]

    def or_else(self, test: Callable[[RawRow], bool]) -> Callable[[RawRow], bool]:
        """Return a test for the text anywhere in a row that looks at the long texts first, as they are written."""
        wanted, lower = self.encoded, self.ignore_case
        if not wanted.isascii():
            return test

        def found(row: RawRow) -> bool:
            for text in (row.row.judge_args, row.row.response, row.row.input) if row.clean else ():
                written = bytes(text).lower() if lower else bytes(text)
                place = written.find(wanted)
                # Behind a backslash, what was found may be a part of another character.
                if place > 0 and written[0] == _QUOTE and written[place - 1] != _BACKSLASH and ESCAPE not in written:
                    return True
            return test(row)

        return found

    def _may_be_in(self, line: bytes) -> bool:
        if ESCAPE in line:
            return True
        return self.text in line.decode().casefold() if self.ignore_case else self.encoded in line


_QUOTE, _BACKSLASH = b'"\\'
# Faster than to look for both characters at once: the first is found quickly.
_ESCAPE = re.compile(rb"\\(?=u)")


def _found_at(match: re.Match[bytes] | None) -> int:
    return -1 if match is None else match.start()


def _places(find: Callable[[int], int], starts: Sequence[int]) -> set[int]:
    """Return in which of the lines, given by where they start, something is found; -1 is before the first."""
    places: set[int] = set()
    found = find(starts[0])
    while found >= 0:
        after = bisect_right(starts, found)
        places.add(after - 1)
        found = find(starts[after]) if after < len(starts) else -1
    return places


# Texts that a value may contain without its line doing so: parts of numbers, which may be written in several ways, of
# true and false, which may be searched as Python writes them, of what stands between values, and of escapes.
_HAS_SEVERAL_SPELLINGS = re.compile(r'[-+.0-9e]*|.*["\\/\[\]{}:,\x00-\x1f].*', re.DOTALL)
_WORDS = ("true", "false", "infinity", "-infinity")


def _needle(text: str, *, ignore_case: bool) -> _Needle | None:
    """Return what to look for in lines before they are decoded, or None if it might miss a row."""
    folded = text.casefold()
    if _HAS_SEVERAL_SPELLINGS.fullmatch(folded) or any(folded in word for word in _WORDS):
        return None
    wanted = folded if ignore_case else text
    try:
        return _Needle(wanted, wanted.encode(), ignore_case)
    except UnicodeEncodeError:
        return None


def _asks_for_a_text(node: Node) -> bool:
    """Tell whether a query asks for nothing but a text anywhere in a row."""
    return isinstance(node, Test) and node.operator is Operator.CONTAINS and not node.path.steps


def _needle_in(node: Node) -> _Needle | None:
    """Return a text that every row contains for which the query holds."""
    if isinstance(node, And):
        return next((needle for part in node.parts if (needle := _needle_in(part)) is not None), None)
    if isinstance(node, Test) and node.operator is Operator.CONTAINS and not node.path.computed:
        return _needle(node.literals[0].text, ignore_case=True)
    return None
