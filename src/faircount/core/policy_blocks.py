"""Which errors are a provider's refusal to take a prompt: a block, not an outage. The patterns are data.

`policy_blocks.json` lists them: phrases that a provider's error holds word for word. An error is compared by its words
alone: case, punctuation, quotes and line breaks do not count, so that one phrase fits the JSON of a server, the text
that a Python library makes of it, and either of them wrapped into lines. Only the beginning and the end of an error
are looked at, and phrases are no regular expressions: time is linear, whatever the text is.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct

DATA = Path(__file__).with_suffix(".json")
LOOKED_AT = 4000
"""So many characters at either end of an error are looked at: the message of a traceback is its last line."""

_NOT_IN_WORDS = re.compile(r"(?:\\u[0-9a-f]{4}|\\[nrt]|[^a-z0-9_])+")


class Pattern(Struct, frozen=True, forbid_unknown_fields=True):
    """What a provider says when it refuses a prompt; any of the phrases is enough."""

    id: str
    provider: str
    source: str
    phrases: tuple[str, ...]


@cache
def patterns() -> tuple[Pattern, ...]:
    """Return all patterns in the order in which they are tried; they are read when the first error is met."""
    return msgspec.json.decode(DATA.read_bytes(), type=tuple[Pattern, ...])


@cache
def pattern_ids() -> frozenset[str]:
    """Return the ids of all patterns."""
    return frozenset(pattern.id for pattern in patterns())


def known_pattern(recorded: object) -> str | None:
    """Return the id of a pattern as a record has it, if there is such a pattern."""
    return recorded if isinstance(recorded, str) and recorded in pattern_ids() else None


def policy_block(error: str) -> str | None:
    """Return the id of the first pattern that an error fits; None where it fits none."""
    if len(error) > 2 * LOOKED_AT:
        error = f"{error[:LOOKED_AT]}\n{error[-LOOKED_AT:]}"
    return _fitting(error)


@lru_cache(maxsize=1024)
def _fitting(error: str) -> str | None:
    words = words_of(error)
    return next((name for phrase, name in _phrases() if phrase in words), None)


@cache
def _phrases() -> tuple[tuple[str, str], ...]:
    """Return every phrase as `words_of` gives it, with the id of its pattern."""
    return tuple((words_of(phrase), pattern.id) for pattern in patterns() for phrase in pattern.phrases)


def words_of(text: str) -> str:
    """Return the words of a text in lower case, each between single spaces."""
    return f" {_NOT_IN_WORDS.sub(' ', text.lower()).strip()} "
