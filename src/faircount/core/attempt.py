"""What a judge is given: one attempt, with what was asked, what came back and what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field


class Turn(Struct, frozen=True):
    """One message of a conversation."""

    role: str
    content: str


class ToolCall(Struct, frozen=True):
    """A call of a tool: its name, and its arguments as the JSON text that a model writes."""

    name: str
    arguments: str = "{}"


class Expected(Struct, frozen=True):
    """What the answer should have been, as far as somebody said so; None is not said, an empty tuple is none."""

    output: str | None = None
    tools_called: tuple[ToolCall, ...] | None = None
    context: tuple[str, ...] = ()


class Attempt(Struct, frozen=True):
    """One request to a target and its answer, as a judge sees them.

    `response` is None where there was no answer; an empty answer is the empty text. `notes` has what
    the record holds for judges, such as "judge_args" or, for another tool's judges, "triggers".
    """

    response: str | None
    prompt: str = ""
    conversation: tuple[Turn, ...] = ()
    tools_called: tuple[ToolCall, ...] = ()
    context: tuple[str, ...] = ()
    expected: Expected = field(default_factory=Expected)
    latency: float | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
