"""JSON in texts that models write: strict about what JSON is, patient about what stands around it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from msgspec import Struct

MOST_CHARACTERS = 50_000_000
"""How many characters are read in vain: a text made of beginnings of JSON would otherwise be read again for each."""

# An error of the decoder counts the lines before it, from the beginning of what it was given, so that it is given a
# text cut off at its front every now and then; counting goes about this many times as fast as reading.
_COUNTING = 64
_SHORTEST_CUT = 65_536

_OPENING = re.compile(r"[{\[]")
_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})")


class NotJson(ValueError):
    """A text is not JSON; the message says why."""


class DoubledKey(NotJson):
    """An object has a key twice, so that what it says depends on who reads it."""


class ReadInVain(ValueError):
    """A text has so many beginnings of JSON that lead nowhere that nobody can say what it holds."""


class FencedBlock(Struct, frozen=True):
    """A piece of a text: what it says it is, its content, and its place."""

    kind: str
    content: str
    start: int
    end: int


def _no_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object with a key twice."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise DoubledKey("an object has a key twice")
    return made


_DECODER = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_once)


def decode(text: str) -> Any:
    """Return what a text says, all of it being one JSON value; NaN, infinities and doubled keys are refused."""
    try:
        return _DECODER.decode(text)
    except NotJson:
        raise
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except ValueError:  # a number with more digits than Python turns into one
        raise NotJson("a number has too many digits") from None


def values(text: str) -> Iterator[tuple[Any, int, int]]:
    """Yield the objects and lists in a text that do not lie within one another, each with its place.

    `DoubledKey` is raised at an object with a key twice, `ReadInVain` when too much was read for nothing.
    """
    cut = max(_SHORTEST_CUT, len(text) // _COUNTING)
    place, in_vain, before = 0, 0, 0
    while (opening := _OPENING.search(text, place)) is not None:
        start = opening.start()
        if start > cut:
            text, before, start = text[start:], before + start, 0
        try:
            value, place = _DECODER.raw_decode(text, start)
        except DoubledKey:
            raise
        except (ValueError, RecursionError) as error:
            end = error.pos if isinstance(error, json.JSONDecodeError) else len(text)
            place = start + 1
            in_vain += end - start + end // _COUNTING
            if in_vain > MOST_CHARACTERS:
                raise ReadInVain("the text has too many false starts of JSON") from None
        else:
            yield value, before + start, before + place


def fenced(text: str) -> Iterator[FencedBlock]:
    """Yield the fenced blocks of a Markdown text; one that is not closed goes to the end."""
    place, begun = 0, 0
    fence, kind = "", ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        place += len(line) + 1
        if mark is None:
            continue
        words = line[mark.end() :].split(maxsplit=1)
        if not fence and "`" not in line[mark.end() :]:
            fence, kind, begun = mark[1], words[0].lower() if words else "", min(place, len(text))
        elif fence and mark[1].startswith(fence) and not words:
            end = place - len(line) - 1
            yield FencedBlock(kind, text[begun:end], begun, end)
            fence = ""
    if fence:
        yield FencedBlock(kind, text[begun:], begun, len(text))
