"""A query that was understood: what it says as a tree, which fields it needs, and whether a row fits.

The tree is made into functions once, so that asking a row costs little more than looking into it. A missing field and
null are the same. Nothing is normalised; case is ignored where it is said. Values are decoded JSON of any shape and
depth, and nothing here fails on any of them.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any

from msgspec import Struct

from faircount.core.patterns import Pattern

# What Faircount says of a row. A row's own field of such a name is reached as row.outcome, and so on.
COMPUTED = frozenset(["outcome", "strategy", "line", "file"])

# A step into a value: the name of a field, the number of an element, or None for every element.
Step = str | int | None


class Operator(StrEnum):
    """What a test asks of a value."""

    EQUAL = "="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="
    CONTAINS = "contains"
    LIKE = "like"
    MATCHES = "matches"
    HAS = "has"
    EXISTS = "exists"
    HOLDS = "holds"


class Path(Struct, frozen=True):
    """Where a value is; no steps are the whole row. `computed`: the first step is what Faircount says of the row."""

    steps: tuple[Step, ...]
    computed: bool = False


class Literal(Struct, frozen=True):
    """A value of a query: as it was written, and what it means."""

    text: str
    value: bool | int | float | str | None


class Test(Struct, frozen=True):
    """One question to the value at a path; it is enough if it holds for one of the literals."""

    path: Path
    operator: Operator
    literals: tuple[Literal, ...] = ()


class And(Struct, frozen=True):
    """All parts hold."""

    parts: tuple[Node, ...]


class Or(Struct, frozen=True):
    """At least one part holds."""

    parts: tuple[Node, ...]


class Not(Struct, frozen=True):
    """The part does not hold."""

    part: Node


Node = And | Or | Not | Test


def tests(node: Node) -> list[Test]:
    """Return every test in a tree."""
    if isinstance(node, Test):
        return [node]
    if isinstance(node, Not):
        return tests(node.part)
    return [test for part in node.parts for test in tests(part)]


def paths(node: Node) -> list[Path]:
    """Return the path of every test in a tree."""
    return [test.path for test in tests(node)]


# -- what values mean when they are compared, ordered and searched --------------------------------------------

Check = Callable[[object], bool]

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONGEST_NUMBER = 300
_WILDCARD = re.compile(r"\\[\\%_]|.", re.DOTALL)
_SPELLED = {"true": True, "false": False}
_EMPTY_WORDS = frozenset(["false", "none", "null"])
_ORDERS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.LESS: operator.lt,
    Operator.AT_MOST: operator.le,
    Operator.MORE: operator.gt,
    Operator.AT_LEAST: operator.ge,
}


def number_of(text: str) -> int | float | None:
    """Return the number that a text spells, or None."""
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return None
    return int(text) if text.lstrip("+-").isdecimal() else float(text)


def text_of(value: object) -> str:
    """Return the text of a single value: a text as it is, anything else as compact JSON without escapes."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError):  # deeper, or a longer number, than Python writes
        return " ".join(text_of(single) for single in singles(value)) if isinstance(value, dict | list) else ""


def singles(value: object) -> Iterator[object]:
    """Yield every value inside lists and objects, at any depth, in order; null is passed over."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(reversed(value.values()))
        elif isinstance(value, list):
            waiting.extend(reversed(value))
        elif value is not None:
            yield value


def check_of(asked: Operator, literals: tuple[Literal, ...], *, ignore_case: bool) -> Check:
    """Return the check that an operator makes of a value."""
    if asked is Operator.EQUAL:
        return _equal(literals, ignore_case)
    if asked is Operator.HAS:
        return _has(_equal(literals, ignore_case))
    if asked in _ORDERS:
        return _ordered(_ORDERS[asked], literals[0], ignore_case)
    if asked is Operator.EXISTS:
        return _exists
    return _holds if asked is Operator.HOLDS else _searched(_text_test(asked, literals[0].text, ignore_case))


def pattern(text: str, *, ignore_case: bool) -> Pattern:
    """Return a compiled pattern whose dot matches line breaks, too; raises what `re` raises."""
    return Pattern(text, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def pattern_trouble(text: str, *, ignore_case: bool) -> tuple[str, int] | None:
    """Return what is wrong with a regular expression, and at which of its characters; None if it can be used."""
    try:
        pattern(text, ignore_case=ignore_case)
    except re.error as error:
        return error.msg, error.pos or 0
    except (RecursionError, OverflowError, MemoryError):
        return "too large", 0
    return None


def _exists(value: object) -> bool:
    return value is not None


def _holds(value: object) -> bool:
    """Return whether a value is true: not null, false, zero, empty, or a word for these."""
    return bool(value) and not (isinstance(value, str) and value.casefold() in _EMPTY_WORDS)


def _equal(literals: tuple[Literal, ...], ignore_case: bool) -> Check:
    """Return whether a value equals one of the literals.

    A number and a text are equal if the text spells the number; so are true or false and a text, in any case. True
    and 1, false and 0 are equal.
    """
    values = [literal.value for literal in literals]
    written = [value for value in values if isinstance(value, str)]
    texts = frozenset(text.casefold() for text in written) if ignore_case else frozenset(written)
    null = None in values
    truths = frozenset(value for value in values if isinstance(value, bool))
    numbers = frozenset(value for value in values if isinstance(value, int | float) and not isinstance(value, bool))
    for_numbers = numbers | truths | {number for text in written if (number := number_of(text)) is not None}
    for_truths = numbers | truths | {_SPELLED[text.lower()] for text in written if text.lower() in _SPELLED}

    def check(value: object) -> bool:
        if isinstance(value, str):
            return (
                (value.casefold() if ignore_case else value) in texts
                or (bool(numbers) and number_of(value) in numbers)
                or (bool(truths) and _SPELLED.get(value.lower()) in truths)
            )
        if isinstance(value, bool):
            return value in for_truths
        if isinstance(value, int | float):
            return value in for_numbers
        return null and value is None

    return check


def _has(equal: Check) -> Check:
    """Return whether a list has such an element or an object such a name; a single value is a list of one."""

    def check(value: object) -> bool:
        if isinstance(value, dict | list):
            return any(equal(element) for element in value)
        return value is not None and equal(value)

    return check


def _ordered(compare: Callable[[Any, Any], bool], literal: Literal, ignore_case: bool) -> Check:
    """Return a comparison by size: of numbers if either side is one, else of texts by their characters' numbers."""
    bound = literal.value
    number = number_of(bound) if isinstance(bound, str) else bound
    text = bound.casefold() if ignore_case and isinstance(bound, str) else bound

    def check(value: object) -> bool:
        if isinstance(value, str):
            if isinstance(text, str):
                return compare(value.casefold() if ignore_case else value, text)
            spelled = number_of(value)
            return spelled is not None and compare(spelled, number)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return number is not None and compare(value, number)
        return False

    return check


def _text_test(asked: Operator, text: str, ignore_case: bool) -> Callable[[str], bool]:
    if asked is Operator.MATCHES:
        search = pattern(text, ignore_case=ignore_case).search
        return lambda value: search(value) is not None
    folded = text.casefold()
    if asked is Operator.LIKE:
        fit = _fits(folded)
        return lambda value: fit(value.casefold())
    return lambda value: folded in value.casefold()


def _searched(test: Callable[[str], bool]) -> Check:
    """Return whether the text of a value passes; of a list or an object, that of any value inside."""

    def check(value: object) -> bool:
        if isinstance(value, str):
            return test(value)
        return any(test(text_of(single)) for single in singles(value))

    return check


def _fits(wanted: str) -> Callable[[str], bool]:
    """Return the test of whether a whole text fits; case counts.

    % stands for any characters or none, _ for one, and a backslash takes the meaning from either. The parts between the
    % are looked for from left to right and never again, so that no text makes the search slow.
    """
    parts = _parts_of(wanted)
    if len(parts) == 1:
        whole = _like_pattern(parts[0])
        return lambda text: whole.fullmatch(text) is not None
    first, last = _like_pattern(parts[0]), _like_pattern(parts[-1])
    between = [_like_pattern(part) for part in parts[1:-1] if part]
    tail = len(parts[-1])

    def test(text: str) -> bool:
        found = first.match(text)
        for part in between:
            if found is None:
                return False
            found = part.search(text, found.end())
        return found is not None and len(text) - found.end() >= tail and last.match(text, len(text) - tail) is not None

    return test


def _parts_of(wanted: str) -> list[list[str]]:
    """Cut a text at every %; a part is a list of characters and _ wildcards, those with a backslash kept with it."""
    parts: list[list[str]] = [[]]
    for token in _WILDCARD.findall(wanted):
        if token == "%":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _like_pattern(part: list[str]) -> re.Pattern[str]:
    """Return the pattern of a part, which has as many characters as the part has tokens."""
    return re.compile("".join("." if token == "_" else re.escape(token[-1]) for token in part), re.DOTALL)


# -- the query --------------------------------------------------------------------------------------------------

Row = Mapping[str, object]

# Asks a row, and what Faircount says of it.
Question = Callable[[Row, Row], bool]

_NOTHING_SAID: Row = {}


class Query(Struct, frozen=True, dict=True):
    """A query: its text, its tree, and whether `=` and the like ignore case."""

    text: str
    tree: Node
    ignore_case: bool = False

    @property
    def fields(self) -> frozenset[str] | None:
        """The fields of a row that the query looks at; None if it looks at all of them."""
        own = [path.steps[:1] for path in paths(self.tree) if not path.computed]
        if () in own or (None,) in own:
            return None
        return frozenset(step for steps in own for step in steps if isinstance(step, str))

    @property
    def compared(self) -> frozenset[str]:
        """The fields of a row that must be in some file: those that the query asks for more than whether they exist."""
        asked = [test.path for test in tests(self.tree) if test.operator is not Operator.EXISTS]
        return frozenset(
            path.steps[0] for path in asked if not path.computed and path.steps and isinstance(path.steps[0], str)
        )

    @property
    def computed(self) -> frozenset[str]:
        """What Faircount has to say of a row before the query can be asked: outcome, strategy, line, file."""
        return frozenset(str(path.steps[0]) for path in paths(self.tree) if path.computed)

    @cached_property
    def _question(self) -> Question:
        return _compiled(self.tree, ignore_case=self.ignore_case)

    def matches(self, row: Row, said: Row = _NOTHING_SAID) -> bool:
        """Return whether a row fits; `said` holds what Faircount says of it, by the names in `computed`."""
        return self._question(row, said)


def _compiled(node: Node, *, ignore_case: bool) -> Question:
    """Return the question that a tree asks."""
    if isinstance(node, And):
        return _every([_compiled(part, ignore_case=ignore_case) for part in node.parts])
    if isinstance(node, Or):
        return _some([_compiled(part, ignore_case=ignore_case) for part in node.parts])
    if isinstance(node, Not):
        return _not(_compiled(node.part, ignore_case=ignore_case))
    return _asked_at(node.path, check_of(node.operator, node.literals, ignore_case=ignore_case))


def _every(parts: list[Question]) -> Question:
    def question(row: Row, said: Row) -> bool:
        for part in parts:  # noqa: SIM110 - a loop is twice as fast as all()
            if not part(row, said):
                return False
        return True

    return question


def _some(parts: list[Question]) -> Question:
    def question(row: Row, said: Row) -> bool:
        for part in parts:  # noqa: SIM110 - a loop is twice as fast as any()
            if part(row, said):
                return True
        return False

    return question


def _not(part: Question) -> Question:
    return lambda row, said: not part(row, said)


def _asked_at(path: Path, check: Check) -> Question:
    first, rest = path.steps[:1], path.steps[1:]
    if path.steps.count(None):
        return _asked_of_several(path, check)
    if not first:
        return lambda row, _: check(_as_object(row))
    name = first[0]
    if not isinstance(name, str):
        return lambda _, __: check(None)
    if path.computed:
        return lambda _, said: check(_followed(said.get(name), rest))
    if rest:
        return lambda row, _: check(_followed(row.get(name), rest))
    return lambda row, _: check(row.get(name))


def _asked_of_several(path: Path, check: Check) -> Question:
    def question(row: Row, said: Row) -> bool:
        start = said if path.computed else row
        return any(check(value) for value in values_at(_as_object(start), path.steps))

    return question


def _as_object(row: Row) -> dict[str, object]:
    return row if isinstance(row, dict) else dict(row)


def _followed(value: object, steps: tuple[Step, ...]) -> object:
    """Return what is at the end of the steps; None where there is nothing."""
    for step in steps:
        value = _step(value, step)
    return value


def _step(value: object, step: Step) -> object:
    if isinstance(value, dict) and isinstance(step, str):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
        return value[step]
    return None


def values_at(value: object, steps: tuple[Step, ...]) -> Iterator[object]:
    """Yield what is at the end of the steps, for every element where a step means every one."""
    reached = [value]
    for step in steps:
        if step is None:
            reached = [element for value in reached for element in _elements(value)]
        else:
            reached = [_step(value, step) for value in reached]
    yield from reached


def _elements(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
