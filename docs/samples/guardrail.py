"""Your own guardrails: one that answers true or false, and one that stops an assistant and says why."""

from typing import Any

from faircount.testing import GuardrailTriggered

SUSPICIOUS = ("ignore all previous instructions", "developer mode")


def check(messages: list[dict[str, Any]]) -> bool:
    """Return whether a prompt is let through."""
    asked = str(messages[-1]["content"]).lower()
    return not any(words in asked for words in SUSPICIOUS)


def guarded(messages: list[dict[str, Any]]) -> str:
    """Return an answer, unless the guardrail stops the prompt."""
    if not check(messages):
        raise GuardrailTriggered("the prompt was stopped", categories=["prompt injection"])
    return f"You said: {messages[-1]['content']}"
