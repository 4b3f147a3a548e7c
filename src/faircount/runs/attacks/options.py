"""Options of an attack: those of its expression, and those of `--attack-options`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any

import msgspec

from faircount.components.code import refuse_unknown as refuse
from faircount.core.errors import UsageError
from faircount.core.text import clip, visible

FLAG = "--attack-options"
_PAIR = re.compile(r"\s*([A-Za-z][A-Za-z0-9_-]*)\s*=(.*)", re.DOTALL)
_CHAT = "chat"


def read_options(text: str | None) -> dict[str, Any]:
    """Return options from a JSON object or from pairs: `strength=0.5,seed=7`.

    A value of a pair is JSON if it can be read so, else a text. A comma divides pairs only before the next name and =.
    """
    if text is None or not text.strip():
        return {}
    if text.lstrip().startswith("{"):
        try:
            told = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise UsageError(f"{FLAG}: not a JSON object: {visible(str(error))}") from None
        return {_folded(name): value for name, value in told.items()}
    return _pairs(text)


def _pairs(text: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for part in re.split(r",(?=\s*[A-Za-z][A-Za-z0-9_-]*\s*=)", text):
        pair = _PAIR.fullmatch(part)
        if pair is None:
            raise UsageError(
                f"{FLAG}: {clip(visible(part.strip()), 60)} cannot be parsed; write NAME=VALUE,NAME=VALUE, or a JSON "
                "object"
            )
        name = _folded(pair[1])
        if name in options:
            raise UsageError(f"{FLAG}: {name} is given twice")
        options[name] = _value(pair[2].strip())
    return options


def _folded(name: str) -> str:
    """Return a name as an option has it; people write max-turns where Python needs max_turns."""
    return name.replace("-", "_")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def takes(kind: Callable[..., Any]) -> list[Parameter]:
    """Return what a class can be given as options, in its own order."""
    try:
        parameters = list(signature(kind).parameters.values())
    except (TypeError, ValueError):
        return []
    return [one for one in parameters if one.name != _CHAT and one.kind is not Parameter.VAR_KEYWORD]


def takes_chat(kind: Callable[..., Any]) -> bool:
    """Return whether a class wants to know how a model is reached."""
    try:
        return _CHAT in signature(kind).parameters
    except (TypeError, ValueError):
        return False


def refuse_unknown(name: str, kind: Callable[..., Any], given: Mapping[str, Any], *, but: int = 0) -> None:
    """Raise UsageError for an option that a class or function does not take; the first `but` are no options."""
    if any(one.kind is Parameter.VAR_KEYWORD for one in signature(kind).parameters.values()):
        return
    refuse(name, given, [one.name for one in takes(kind)[but:]], "option")
