"""What code of the user's returned, as an answer: a text, true or false, a mapping, an object with an `output`, or an
Answer.

True or false is what a guardrail says: true, the request was let through. A mapping may have `output`, `let_through`,
`tools_called`, `context`, `execution_time` (or `latency`), `model`, `finish_reason`, `prompt_tokens`,
`completion_tokens`, `cost`, `usage` (with the three before), `tries`, `waited` and `request_id`. Other keys are
refused: what would be dropped in silence is more often a mistake.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import structs

from faircount.core.text import clip, visible
from faircount.runs.targets.base import Answer

_USAGE = ("prompt_tokens", "completion_tokens", "cost")
_KNOWN = (
    "output",
    "tools_called",
    "context",
    "execution_time",
    "latency",
    "model",
    "finish_reason",
    "usage",
    *_USAGE,
    "tries",
    "waited",
    "request_id",
    "let_through",
)


class WrongAnswer(Exception):
    """What was returned is no answer."""


def answer_of(value: object, seconds: float) -> Answer:
    """Return what was returned as an answer; where it does not say how long it took, it took `seconds`."""
    if isinstance(value, str):
        return Answer(output=value, latency=seconds)
    through = _truth(value)
    if through is not None:
        return Answer(output=str(through), latency=seconds, let_through=through)
    return _from_mapping(_fields(value), seconds)


def without_secrets(answer: Answer, hide: Callable[[str], str]) -> Answer:
    """Return an answer in which a target that repeats a secret does no harm: `hide` takes secrets out of a text."""

    def calls() -> Iterator[Mapping[str, Any]]:
        for call in answer.tools_called:
            function = {name: hide(text) for name, text in call["function"].items()}
            yield {"id": hide(call["id"]), "type": hide(call["type"]), "function": function}

    words = {name: getattr(answer, name) for name in ("model", "finish_reason", "request_id")}
    return structs.replace(
        answer,
        output=hide(answer.output),
        tools_called=tuple(calls()),
        context=tuple(map(hide, answer.context)),
        **{name: hide(word) for name, word in words.items() if word is not None},
    )


def _fields(value: object) -> Mapping[str, Any]:
    if isinstance(value, Answer):
        return {**structs.asdict(value), "latency": value.latency or None}
    if isinstance(value, Mapping):
        unknown = [str(name) for name in value if name not in _KNOWN]
        if unknown:
            raise WrongAnswer(
                f"the target returned a mapping with the unknown key {_quoted(unknown[0])}; "
                f"known keys: {', '.join(_KNOWN)}"
            )
        if not any(name in value for name in ("output", "tools_called", "let_through")):
            raise WrongAnswer("the target returned a mapping with neither output nor tools_called nor let_through")
        return value
    if not isinstance(value, type) and hasattr(value, "output"):
        return {name: getattr(value, name) for name in _KNOWN if hasattr(value, name)}
    raise WrongAnswer(
        f"the target returned {type(value).__name__}; expected a string, true or false, a mapping, an "
        "AssistantOutput or an Answer"
    )


def _from_mapping(told: Mapping[str, Any], seconds: float) -> Answer:
    usage = told.get("usage")
    if usage is not None and not isinstance(usage, Mapping):
        usage = {name: getattr(usage, name, None) for name in _USAGE}
    spent = {name: told[name] if told.get(name) is not None else (usage or {}).get(name) for name in _USAGE}
    took = told.get("execution_time") if told.get("execution_time") is not None else told.get("latency")
    through = told.get("let_through")
    if through is not None and _truth(through) is None:
        raise WrongAnswer(f"let_through of the answer is {_quoted(repr(through))}; expected true or false")
    said = "" if through is None else str(_truth(through))
    return Answer(
        output=_text("output", told.get("output")) or said,
        let_through=_truth(through),
        tools_called=tuple(tool_call(call) for call in _list("tools_called", told.get("tools_called"))),
        context=tuple(_needed_text("context", text) for text in _list("context", told.get("context"))),
        latency=seconds if took is None else _number("execution_time", took),
        cost=None if spent["cost"] is None else _number("cost", spent["cost"]),
        tries=_count("tries", told.get("tries", 1)) or 0,
        waited=_number("waited", told.get("waited") or 0.0),
        model=_text("model", told.get("model")),
        finish_reason=_text("finish_reason", told.get("finish_reason")),
        request_id=_text("request_id", told.get("request_id")),
        prompt_tokens=_count("prompt_tokens", spent["prompt_tokens"]),
        completion_tokens=_count("completion_tokens", spent["completion_tokens"]),
    )


def _truth(value: object) -> bool | None:
    """Return what is true or false, numpy's own included; None for anything else."""
    if isinstance(value, bool):
        return value
    return bool(value) if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_") else None


def tool_call(call: object) -> Mapping[str, Any]:
    """Return a call of a tool in OpenAI's shape, from that, from REBEL's `{name, input_parameters}`, or an object."""
    function = _part(call, "function")
    source = call if function is None else function
    name = _part(source, "name")
    if not isinstance(name, str) or not name:
        raise WrongAnswer("tools_called has a call without a function name")
    arguments = _part(source, "arguments")
    if arguments is None:
        arguments = _part(source, "input_parameters")
    kind, number = _part(call, "type") or "function", _part(call, "id") or ""
    written = arguments if isinstance(arguments, str) else _json({} if arguments is None else arguments)
    return {"id": str(number), "type": str(kind), "function": {"name": name, "arguments": written}}


def _part(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise WrongAnswer("tools_called has arguments that cannot be written as JSON") from None


def _text(name: str, value: object) -> str | None:
    return None if value is None else _needed_text(name, value)


def _needed_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise WrongAnswer(f"{name} of the answer is {type(value).__name__}; expected a string")
    return value


def _list(name: str, value: object) -> list[Any] | tuple[Any, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise WrongAnswer(f"{name} of the answer is {type(value).__name__}; expected a list")
    return value


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise WrongAnswer(f"{name} of the answer is {_quoted(repr(value))}; expected a number that is not negative")
    return float(value)


def _count(name: str, value: object) -> int | None:
    if value is None:
        return None
    number = _number(name, value)
    if number != int(number):
        raise WrongAnswer(f"{name} of the answer is {number}; expected a whole number")
    return int(number)


def _quoted(text: str) -> str:
    return f'"{clip(visible(text), 60)}"'
