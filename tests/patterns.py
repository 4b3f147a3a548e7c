"""Every regular expression of the package, where it is used, and the texts that cost it most."""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import math
import pkgutil
import re
import re._constants as op  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import faircount

ROOT = Path(faircount.__file__).parent
_LONGEST = 3.0
_ANCHORED = {"match", "fullmatch"}
_CALLS = {"compile", "search", "match", "fullmatch", "sub", "subn", "findall", "finditer", "split"}
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
_MISMATCH = "\x00\n!"
_BETWEEN = ("", " ", "-", "\n", ".")
_TYPICAL = "a0A_- .:/=\"'<>{}\\\n\té"


class Found(msgspec.Struct, frozen=True):
    """A pattern: where it is, what it is, and whether it is only tried at one place of a text."""

    place: str
    pattern: re.Pattern[Any]
    anchored: bool


def modules() -> list[str]:
    names = [found.name for found in pkgutil.walk_packages(faircount.__path__, "faircount.")]
    return [name for name in names if not name.endswith("__main__")]


@functools.cache
def collect() -> tuple[Found, ...]:
    """Import the whole package and return each pattern in it once, also those inside structures and of functions."""
    found: dict[tuple[str | bytes, int, bool], Found] = {}
    for name in modules():
        module = importlib.import_module(name)
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        used = _methods(tree)
        for variable, value in vars(module).items():
            for pattern in _inside(value, set()):
                methods = used.get(variable, set())
                anchored = bool(methods) and methods <= _ANCHORED
                key = (pattern.pattern, pattern.flags, anchored)
                found.setdefault(key, Found(f"{name}.{variable}", pattern, anchored))
        for line, method, text, flags in _literals(tree):
            pattern = re.compile(text, flags)
            key = (pattern.pattern, pattern.flags, method in _ANCHORED)
            found.setdefault(key, Found(f"{name}:{line}", pattern, method in _ANCHORED))
    return tuple(found.values())


def _inside(value: object, seen: set[int]) -> Iterator[re.Pattern[Any]]:
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        for part in itertools.chain(value.keys(), value.values()):
            yield from _inside(part, seen)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for part in value:
            yield from _inside(part, seen)
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from _inside(getattr(value, field), seen)
    elif isinstance(value, type) and value.__module__.startswith("faircount"):
        for part in list(vars(value).values()):
            yield from _inside(part, seen)


def _methods(tree: ast.AST) -> dict[str, set[str]]:
    """Return the methods that are called, or passed on, of each name."""
    used: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used.setdefault(node.value.id, set()).add(node.attr)
    return used


def _literals(tree: ast.AST) -> Iterator[tuple[int, str, str | bytes, int]]:
    """Return the patterns that functions of `re` are called with, where these are written out."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        first = node.args[0]
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and node.func.attr in _CALLS:
            text = first.value if isinstance(first, ast.Constant) else None
            if isinstance(text, (str, bytes)) and node.func.attr != "compile":
                flags = [word.value for word in node.keywords if word.arg == "flags"]
                yield node.lineno, node.func.attr, text, re.I if flags else 0


# -- worst texts ------------------------------------------------------------------------------------------------


def hostile_texts(pattern: re.Pattern[Any], size: int) -> Iterator[str | bytes]:
    """Yield texts of about `size` characters that make a pattern try as much as it can."""
    tree = parser.parse(
        pattern.pattern, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
    )
    seen = set()
    for pump, before in _pumps(tree):
        if not pump:
            continue
        if (before, pump) not in seen:
            seen.add((before, pump))
            text = before + pump * (size // len(pump)) + _MISMATCH
            yield text.encode("utf-8", "replace") if isinstance(pattern.pattern, bytes) else text


def _pumps(tree: Any) -> Iterator[tuple[str, str]]:
    """Yield what is to be repeated, and what stands before it."""
    fragments: dict[str, None] = {}
    signs: dict[str, None] = {}
    for before, repeated in _repeats(tree, ""):
        body = _sample(repeated[2])
        least = min(max(repeated[0], 1), 40)
        yield body, before
        for sign in _signs_of(repeated[2]):
            signs[sign] = None
            yield sign, before
            fragments[before + sign * least] = None
        fragments[before + body * least] = None
    whole = _sample(tree)
    fragments[whole] = None
    fragments[whole[:-1]] = None
    for sign in [*signs, *dict.fromkeys(whole)][:24]:
        yield sign, ""
    for fragment in fragments:
        for between in _BETWEEN:
            yield fragment + between, ""


def _repeats(tree: Any, before: str) -> Iterator[tuple[str, Any]]:
    """Yield every repetition with a text that leads to it."""
    for code, argument in tree:
        if code in _REPEATS:
            if argument[1] > 8:
                yield before, argument
            yield from _repeats(argument[2], before)
        elif code is op.BRANCH:
            for branch in argument[1]:
                yield from _repeats(branch, before)
        elif code is op.SUBPATTERN:
            yield from _repeats(argument[3], before)
        elif code in (op.ASSERT, op.ASSERT_NOT):
            yield from _repeats(argument[1], before)
        elif code is op.ATOMIC_GROUP:
            yield from _repeats(argument, before)
        before += _sample([(code, argument)])


def _sample(tree: Any) -> str:
    """Return a short text that a part of a pattern matches, or nearly."""
    text = ""
    for code, argument in tree:
        if code is op.LITERAL:
            text += chr(argument)
        elif code is op.ANY:
            text += "a"
        elif code in (op.IN, op.NOT_LITERAL):
            text += next(iter(_signs_of([(code, argument)])), "")
        elif code in _REPEATS:
            text += _sample(argument[2]) * min(argument[0], 40)
        elif code is op.BRANCH:
            text += _sample(argument[1][0])
        elif code is op.SUBPATTERN:
            text += _sample(argument[3])
        elif code is op.ATOMIC_GROUP:
            text += _sample(argument)
    return text


def _signs_of(tree: Any) -> list[str]:
    """Return single characters that a repetition takes, of different kinds."""
    signs: list[str] = []
    for code, argument in tree:
        if code is op.LITERAL:
            signs.append(chr(argument))
        elif code is op.ANY:
            signs += ["a", " ", '"']
        elif code is op.NOT_LITERAL:
            signs += [sign for sign in _TYPICAL if ord(sign) != argument][:4]
        elif code is op.IN:
            accepts = re.compile(_class(argument))
            listed = [chr(value) for kind, value in argument if kind is op.LITERAL]
            ranges = [chr(value[0]) for kind, value in argument if kind is op.RANGE]
            signs += [s for s in dict.fromkeys([*_TYPICAL, *listed, *ranges]) if accepts.match(s)][:7]
        elif code in _REPEATS:
            signs += _signs_of(argument[2])
        elif code is op.BRANCH:
            for branch in argument[1]:
                signs += _signs_of(branch)
        elif code is op.SUBPATTERN:
            signs += _signs_of(argument[3])
        elif code is op.ATOMIC_GROUP:
            signs += _signs_of(argument)
    return list(dict.fromkeys(signs))[:10]


_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}


def _class(items: Any) -> str:
    text = ""
    for kind, value in items:
        if kind is op.NEGATE:
            text += "^"
        elif kind is op.LITERAL:
            text += re.escape(chr(value))
        elif kind is op.RANGE:
            text += f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        elif kind is op.CATEGORY:
            text += _CATEGORIES[value]
    return f"[{text}]"


# -- time -------------------------------------------------------------------------------------------------------


def cost(found: Found, text: str | bytes) -> float:
    """Return the CPU seconds of one search through a whole text; infinity where it had to be stopped."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, _LONGEST)
    begun = time.process_time()
    try:
        if found.anchored:
            found.pattern.match(text)
            found.pattern.fullmatch(text)
        else:
            for _ in found.pattern.finditer(text):
                pass
    except TimeoutError:
        return math.inf
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return time.process_time() - begun


def _too_long(*_: object) -> None:
    raise TimeoutError
