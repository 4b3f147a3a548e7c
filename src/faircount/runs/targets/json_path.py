"""Where in a JSON answer something stands: `choices[0].message.content`.

    path    step { step }
    step    name | "." name | "[" number "]" | "[*]" | '["any name"]'

A number counts from 0, or from the end where it is negative; `[*]` stands for all elements of a list or all values of
an object. A name that is no word, such as one with a dot in it, stands in quotes and brackets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

Step: TypeAlias = str | int | None
"""A name, a place in a list, or None for all."""

_STEP = re.compile(
    r"""(?P<dot>\.?)(?P<name>[^\W\d][\w-]*)|\[\s*(?:(?P<number>-?\d{1,9})|(?P<all>\*)|(?P<quoted>"(?:[^"\\]|\\.)*"))\s*\]"""
)


class WrongPath(ValueError):
    """A path that cannot be understood."""


class Path(Struct, frozen=True):
    """A path as it was written, and its steps."""

    text: str
    steps: tuple[Step, ...]

    def find(self, content: Any) -> list[Any]:
        """Return everything that stands there; nothing where a step leads nowhere."""
        found = [content]
        for step in self.steps:
            found = [inner for outer in found for inner in _taken(outer, step)]
        return found


def read_path(text: str) -> Path:
    """Return what a path says."""
    steps: list[Step] = []
    place = 0
    while place < len(text):
        step = _STEP.match(text, place)
        # A name needs a dot before it, except at the beginning.
        if step is None or (step["name"] is not None and bool(step["dot"]) == (place == 0)):
            raise WrongPath(f'"{text}" cannot be parsed at character {place + 1}')
        steps.append(_step(step))
        place = step.end()
    if not steps:
        raise WrongPath("it is empty")
    return Path(text, tuple(steps))


def _step(found: re.Match[str]) -> Step:
    if found["all"] is not None:
        return None
    if found["number"] is not None:
        return int(found["number"])
    if found["quoted"] is not None:
        try:
            return str(json.loads(found["quoted"]))
        except ValueError:
            raise WrongPath(f"{found['quoted']} is not a string in quotes") from None
    return found["name"]


def _taken(content: Any, step: Step) -> Iterator[Any]:
    if isinstance(step, str):
        if isinstance(content, Mapping) and step in content:
            yield content[step]
    elif isinstance(step, int):
        if isinstance(content, list) and -len(content) <= step < len(content):
            yield content[step]
    elif isinstance(content, list):
        yield from content
    elif isinstance(content, Mapping):
        yield from content.values()
