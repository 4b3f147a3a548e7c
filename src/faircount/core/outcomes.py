"""The outcome rule: how the states of an entry's attempts become its one outcome, and which errors are blocks.

Success if any attempt succeeded; else failure if any failed normally; else error if any errored; else guardrail if
its attempts were blocked; else unjudged. The SQL that folds millions of rows is generated from the same order. A
provider's refusal to take a prompt is a block, not an outage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct

from faircount.core.model import Outcome

PRECEDENCE: tuple[Outcome, ...] = (
    Outcome.SUCCESS,
    Outcome.FAILURE,
    Outcome.ERROR,
    Outcome.GUARDRAIL,
    Outcome.UNJUDGED,
)


def fold(states: Iterable[Outcome]) -> Outcome:
    """Return the outcome of an entry whose attempts ended in `states`."""
    present = set(states)
    for outcome in PRECEDENCE:
        if outcome in present:
            return outcome
    return Outcome.UNJUDGED


def state(*, success: bool | None, error: bool, guardrail: bool) -> Outcome:
    """Return the state of one recorded attempt: a success stands, a block is no error, an error is no failure."""
    if success:
        return Outcome.SUCCESS
    if guardrail:
        return Outcome.GUARDRAIL
    if error:
        return Outcome.ERROR
    if success is None:
        return Outcome.UNJUDGED
    return Outcome.FAILURE


# -- which errors are a provider's refusal to take a prompt -----------------------------------------------------
# `policy_blocks.json` lists phrases that a provider's error holds word for word. An error is compared by its words
# alone: case, punctuation, quotes and line breaks do not count, so that one phrase fits the JSON of a server, the text
# that a Python library makes of it, and either of them wrapped into lines. Only the beginning and the end of an error
# are looked at, and phrases are no regular expressions: time is linear, whatever the text is.

DATA = Path(__file__).with_name("policy_blocks.json")
LOOKED_AT = 4000
"""So many characters at either end of an error are looked at: the message of a traceback is its last line."""

_NOT_IN_WORDS = re.compile(r"(?:\\u[0-9a-f]{4}|\\[nrt]|[^a-z0-9_])+")


class BlockPattern(Struct, frozen=True, forbid_unknown_fields=True):
    """What a provider says when it refuses a prompt; any of the phrases is enough."""

    id: str
    provider: str
    source: str
    phrases: tuple[str, ...]


@cache
def patterns() -> tuple[BlockPattern, ...]:
    """Return all patterns in the order in which they are tried; they are read when the first error is met."""
    return msgspec.json.decode(DATA.read_bytes(), type=tuple[BlockPattern, ...])


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
