"""One line of JSON as people really write it, decided in one place.

What the strict decoder refuses comes here. The standard parser accepts NaN, lone surrogates and huge integers; the
rest becomes a `BadLine` with a reason in plain words. Problems (a key that appears twice, a NaN) are handed back beside
the value, so that the reader can raise them as findings.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

MAX_DEPTH = 128

_INT_DIGITS_KEPT = 4000
_CONTROL = re.compile(r"[\x00-\x1f]")


class BadLine(Exception):
    """A line that cannot be counted; the message is the reason."""


class LineProblems(Struct):
    """What was odd about a line that could still be read."""

    duplicate_keys: list[str] = field(default_factory=list)
    not_finite: bool = False
    too_large: bool = False
    """Whether a number is beyond any float, such as 1e999, and was read as infinity."""

    def __bool__(self) -> bool:
        return bool(self.duplicate_keys) or self.not_finite


def parse(line: bytes) -> tuple[dict[str, Any], LineProblems]:
    """Parse a line into an object, or raise `BadLine`. Of keys that stand twice the last wins, and is reported."""
    problems = LineProblems()
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadLine(f"not UTF-8 at byte {error.start + 1} of the line") from None
    if depth(line) > MAX_DEPTH:
        raise BadLine(f"nested more than {MAX_DEPTH} levels deep")
    try:
        value = _decoder(problems).decode(text)
    except json.JSONDecodeError as error:
        raise BadLine(_reason(text, error)) from None
    except RecursionError:
        raise BadLine(f"nested more than {MAX_DEPTH} levels deep") from None
    if not isinstance(value, dict):
        raise BadLine(f"not a JSON object but {_kind(value)}")
    return value, problems


def _decoder(problems: LineProblems) -> json.JSONDecoder:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in items:
            if key in result and result[key] != value:
                problems.duplicate_keys.append(key)
            result[key] = value
        return result

    def constant(name: str) -> float:
        problems.not_finite = True
        return float(name)

    def fraction(digits: str) -> float:
        value = float(digits)
        problems.too_large |= math.isinf(value)
        return value

    return json.JSONDecoder(
        object_pairs_hook=pairs, parse_constant=constant, parse_int=whole_number, parse_float=fraction
    )


def whole_number(digits: str) -> int | str:
    """Keep an integer beyond what the interpreter converts as its digits."""
    return int(digits) if len(digits) <= _INT_DIGITS_KEPT else digits


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    names = {list: "a list", str: "a string", int: "a number", float: "a number"}
    return names.get(type(value), "something else")


def _reason(text: str, error: json.JSONDecodeError) -> str:
    column = f"at character {error.pos + 1}"
    if error.msg.startswith("Extra data"):
        return f"more than one value on the line ({column})"
    if error.msg.startswith("Invalid control character"):
        return f"a raw control character inside a string ({column})"
    written = text.strip()
    if error.pos >= len(text.rstrip()) or (written.startswith("{") and not written.endswith("}")):
        return "torn: the line ends in the middle of a value"
    if _CONTROL.search(text[error.pos : error.pos + 1]):
        return f"a raw control character ({column})"
    return f"not JSON ({error.msg[0].lower()}{error.msg[1:]}, {column})"


def depth(line: bytes) -> int:
    """Return how deep lists and objects nest in a line of JSON, without parsing it."""
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
        return 1
    level = deepest = 0
    for token in _structure(line):
        if token in b"[{":
            level += 1
            deepest = max(deepest, level)
        else:
            level -= 1
    return deepest


_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)


def _structure(line: bytes) -> Iterator[bytes]:
    for match in _STRUCTURE.finditer(line):
        token = match.group()
        if not token.startswith(b'"'):
            yield token


def is_utf8(text: bytes | memoryview) -> bool:
    """Return whether text is UTF-8: the strict decoder does not look at what it skips."""
    try:
        str(text, "utf-8")
    except UnicodeDecodeError:
        return False
    return True
