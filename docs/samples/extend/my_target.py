from typing import Any


def answer(messages: list[dict[str, Any]]) -> str:
    """Return an answer to the last message."""
    return f"You said: {messages[-1]['content']}"
