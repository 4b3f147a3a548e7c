"""What a record says of an attempt beyond its prompt and its response, where it has a shape that judges can use."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from faircount.judging.attempt import Expected, ToolCall, Turn
from faircount.reading.label_columns import plain
from faircount.reading.label_rows import without_halves

_ROLES = {
    "conversation": "conversation",
    "tools_called": "tools_called",
    "tool_calls": "tools_called",
    "context": "context",
    "retrieval_context": "context",
    "expected_output": "expected_output",
    "expected": "expected_output",
    "expected_tools": "expected_tools",
    "expected_context": "expected_context",
    "latency": "latency",
    "response_time": "latency",
    "notes": "notes",
    "judge_args": "notes.judge_args",
    "triggers": "notes.triggers",
}
_BY_NAME = {plain(name): role for name, role in _ROLES.items()}
_ARGUMENTS = ("arguments", "input_parameters", "args")
_NOTE = "notes."
_LONGEST_LATENCY = 10**12

Field = tuple[str, str, Any]
"""A role, the name of the column, and the value."""


class WrongKind(ValueError):
    """A value of a shape that no judge can use."""


def more_columns(names: Iterable[str], taken: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the columns that say more of an attempt, each with its role; of several for one role the first."""
    left_out, found = set(taken), dict[str, str]()
    for name in names:
        is_note = name.casefold().startswith(_NOTE) and name != _NOTE
        role = _NOTE + name[len(_NOTE) :] if is_note else _BY_NAME.get(plain(name))
        if role is not None and name not in left_out:
            found.setdefault(role, name)
    return tuple(found.items())


def attempt_fields(fields: Iterable[Field], wrong: Callable[[str], None]) -> dict[str, Any]:
    """Return fields of an attempt; `wrong` hears the columns whose values cannot be used."""
    made: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    for role, name, value in fields:
        if value is None or value == "":
            continue
        try:
            if role == "notes":
                notes = {**_notes(value), **notes}
            elif role.startswith(_NOTE):
                notes[role.removeprefix(_NOTE)] = value if role == "notes.judge_args" else _note(value)
            elif role.startswith("expected_"):
                target, make = _EXPECTED[role]
                expected[target] = make(value)
            else:
                made[role] = _MADE[role](value)
        except WrongKind:
            wrong(name)
    if expected:
        made["expected"] = Expected(**expected)
    if notes:
        made["notes"] = notes
    return made


def _notes(value: Any) -> dict[str, Any]:
    """Return a JSON object of notes; any other text is a remark of the people who labelled."""
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        return {}
    notes = _note(value)
    if not isinstance(notes, dict):
        raise WrongKind
    return notes


def _note(value: Any) -> Any:
    """Return a note; a cell of CSV holds a list or an object as JSON."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return without_halves(json.loads(value))
    except (ValueError, RecursionError):
        return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongKind
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(_text, value if isinstance(value, list) else [value]))


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list):
        raise WrongKind
    return value


def _turns(value: Any) -> tuple[Turn, ...]:
    return tuple(map(_turn, _list(value)))


def _turn(value: Any) -> Turn:
    if not isinstance(value, dict):
        raise WrongKind
    content = value.get("content")
    # A turn that only calls tools has no content.
    return Turn(_text(value.get("role")), "" if content is None else _text(content))


def _tool_calls(value: Any) -> tuple[ToolCall, ...]:
    return tuple(map(_tool_call, _list(value)))


def _tool_call(value: Any) -> ToolCall:
    if isinstance(value, str):
        return ToolCall(value)
    call = value.get("function", value) if isinstance(value, dict) else None
    if not isinstance(call, dict):
        raise WrongKind
    arguments: Any = next((call[name] for name in _ARGUMENTS if call.get(name) is not None), {})
    if not isinstance(arguments, str | dict):
        raise WrongKind
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(_text(call.get("name")), written)


def _seconds(value: Any) -> float:
    try:
        seconds = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        raise WrongKind from None
    if not 0 <= seconds <= _LONGEST_LATENCY:
        raise WrongKind
    return seconds


_MADE: dict[str, Callable[[Any], Any]] = {
    "conversation": _turns,
    "tools_called": _tool_calls,
    "context": _texts,
    "latency": _seconds,
}
_EXPECTED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "expected_output": ("output", _text),
    "expected_tools": ("tools_called", _tool_calls),
    "expected_context": ("context", _texts),
}
