"""What the values of a row mean when they are compared, ordered and searched.

A missing field and null are the same, and arrive here as None. Nothing is normalised; case is ignored where it is
said. Values are decoded JSON of any shape and depth, and nothing here fails on any of them.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from faircount.core.patterns import Pattern
from faircount.query.tree import Literal, Operator

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
        whole = _compiled(parts[0])
        return lambda text: whole.fullmatch(text) is not None
    first, last = _compiled(parts[0]), _compiled(parts[-1])
    between = [_compiled(part) for part in parts[1:-1] if part]
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


def _compiled(part: list[str]) -> re.Pattern[str]:
    """Return the pattern of a part, which has as many characters as the part has tokens."""
    return re.compile("".join("." if token == "_" else re.escape(token[-1]) for token in part), re.DOTALL)
