"""Conversations that an attack leads: what was said so far, by the history, and what is said next."""

from __future__ import annotations

from collections.abc import Sequence

from faircount.runs.attacks.base import Entry, Messages, Step


def opening(entry: Entry) -> Messages:
    """Return what stands before the entry's own request: a system message, say."""
    places = [place for place, one in enumerate(entry.messages) if one.get("role") == "user"]
    return entry.messages[: places[-1]] if places else entry.messages


def user(text: str) -> Messages:
    """Return one message of the user."""
    return ({"role": "user", "content": text},)


def after(step: Step) -> Messages:
    """Return what was said when a step was answered."""
    return (*step.messages, {"role": "assistant", "content": step.response or ""})


def script(entry: Entry, turns: Sequence[str], history: Sequence[Step]) -> Messages | None:
    """Return the conversation up to the next of given turns; None where all were said.

    A turn that ended in an error is said again. One that a guardrail blocked is left out of the conversation, and the
    next one follows.
    """
    said, turn = opening(entry), 0
    for step in history:
        if step.blocked:
            turn += 1
        elif step.error is None and step.response is not None:
            said, turn = after(step), turn + 1
    return (*said, *user(turns[turn])) if turn < len(turns) else None
