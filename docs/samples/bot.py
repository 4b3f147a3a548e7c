"""Your own target: a function, and a class with a parameter that can also be async."""

import json
import re
from typing import Any

REFUSAL = "I'm sorry, but I can't help with that."


def answer(messages: list[dict[str, Any]], **parameters: Any) -> str | dict[str, Any]:
    """Return a text; where a tool is called, a mapping with the call."""
    asked = str(messages[-1]["content"])
    if "system prompt" in asked:
        return REFUSAL
    city = re.search(r"weather in (\w+)", asked)
    if city and parameters.get("tools"):
        call = {"function": {"name": "get_weather", "arguments": json.dumps({"city": city[1]})}}
        return {"output": "", "tools_called": [call], "model": "bot"}
    numbers = [int(number) for number in re.findall(r"\d+", asked)]
    return f"That is {sum(numbers)}."


class Bot:
    """The same with a name; `answer` is asked, and may wait."""

    def __init__(self, name: str = "Bot") -> None:
        self.name = name

    async def answer(self, messages: list[dict[str, Any]], **parameters: Any) -> dict[str, Any]:
        """Return the answer with the name."""
        told = answer(messages, **parameters)
        return told if isinstance(told, dict) else {"output": f"{self.name}: {told}", "model": self.name.lower()}
