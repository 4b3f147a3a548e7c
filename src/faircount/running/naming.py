"""What naming a target and naming an attack have in common: reading a name, what it is given, and what is near to it.

Also how either is made again from what a journal recorded. Nothing is loaded here.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from faircount.errors import InputError, UsageError
from faircount.judging.expression import Call, parse
from faircount.query import QueryError
from faircount.text import clip, visible

T = TypeVar("T")
_LONGEST_NAME = 200


class Available(msgspec.Struct, frozen=True):
    """What can be named, and a sentence about it."""

    name: str
    sentence: str


def short(name: str) -> str:
    """Return a name as a message shows it."""
    return clip(visible(name), _LONGEST_NAME)


def parsed(name: str, flag: str, example: str) -> Call:
    """Return a name and what follows it in brackets; the option `flag` gave it."""
    if "(" not in name and name[0] not in "\"'":
        return Call(name)  # a path may have blanks in it
    try:
        return parse(name)
    except QueryError as error:
        raise UsageError(
            f"{flag}: {short(name)} cannot be parsed at character {error.position + 1}; write NAME or "
            f"NAME(option=value), such as {example} or ./file.py:Name(limit=3)"
        ) from None


# -- what it is given -------------------------------------------------------------------------------------------


def refuse_unnamed(call: Call, noun: str) -> None:
    """Raise UsageError where something in brackets has no name, or is no plain value."""
    if call.positional:
        raise UsageError(f"{short(call.name)}: name its {noun}: {short(call.name)}(name=value)")
    for name, value in call.keywords.items():
        if isinstance(value, Call):
            raise UsageError(f'{short(call.name)}: put text in quotes: {name}="{short(value.name)}"')


def together(call: Call, told: Mapping[str, Any], flag: str, beside: str) -> dict[str, Any]:
    """Return what stands in the brackets of the option `flag` and what the option `beside` told, which may not meet."""
    for name in told:
        if name in call.keywords:
            raise UsageError(f"{short(call.name)}: {visible(name)} is given twice, in {flag} and in {beside}")
    return {**call.keywords, **told}


# -- names that nothing has -------------------------------------------------------------------------------------


def near(name: str, known: Iterable[str]) -> list[str]:
    """Return the names that somebody may have meant."""
    return difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)


def did_you_mean(names: Sequence[str]) -> str:
    """Return the question, with a blank behind it; nothing where no name is near."""
    return f"did you mean {', '.join(names)}? " if names else ""


# -- again ------------------------------------------------------------------------------------------------------


def made_again(
    one: str, settings: Mapping[str, Any], makers: Mapping[str, Callable[..., T]], tell: Callable[[str], None]
) -> T:
    """Return what a journal recorded, by the maker of its kind; `one` is what it is called: "a target"."""
    kind = settings.get("kind")
    if not isinstance(kind, str) or kind not in makers:
        raise InputError(f"the journal names {one} of an unknown kind: {short(str(kind))}")
    try:
        return makers[kind](settings, tell)
    except (msgspec.ValidationError, UnicodeError) as error:  # half a character in the name of a field
        noun = one.rpartition(" ")[2]
        raise InputError(f"the journal does not record how to create its {noun}: {visible(str(error))}") from None


def tell_changed(called: str, before: str, now: str, does: str, tell: Callable[[str], None]) -> None:
    """Say that code is another than when the run began; `does` is what it does: "answers"."""
    if before and before != now:
        tell(f"{called}: has changed since the run began; what it {does} now may not be comparable")
