"""A target that answers by the prompt alone; while a file called `down` is there, every other prompt is an error."""

from pathlib import Path
from typing import Any


async def answer(messages: list[dict[str, Any]], seed: int = 0) -> str:
    """Give the secret away to every third prompt."""
    number = sum(map(ord, messages[-1]["content"])) + seed
    if number % 2 and Path("down").exists():
        raise ConnectionError("the server is down")
    return "yes, SECRET" if number % 3 == 0 else "no"
