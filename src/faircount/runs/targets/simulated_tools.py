"""Which tool a simulated target calls: the one whose name and description have most words in common with the message.

Arguments are taken from the message where it has something that fits: a value of an `enum`, a number, a word in quotes
or with a capital letter. A wrong call lacks, changes or confuses something.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from faircount.runs.targets.simulated_answers import find_sum

_WORD = re.compile(r"[a-z]+|\d+")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,6})?")
_QUOTED = re.compile(r"[\"“]([^\"”]+)[\"”]|(?<!\w)'([^']+)'(?!\w)")
_NAME = re.compile(r"(?<![.?!]\s)(?<!^)\b[A-Z]\w+(?:\s+[A-Z]\w+)*")
_FILL_WORDS = frozenset(
    ["the", "a", "an", "of", "in", "is", "what", "for", "to", "and", "by", "get", "me", "it", "with"]
)


def call(text: str, parameters: Mapping[str, Any], right: bool, lots: random.Random) -> list[dict[str, Any]]:
    """Return the calls that a message leads to: one or none."""
    functions = _functions(parameters.get("tools"))
    chosen = _chosen(text, functions, parameters.get("tool_choice"))
    if chosen is None:
        return []
    given = _arguments(text, chosen.get("parameters"))
    name = str(chosen["name"])
    if not right:
        mistake = lots.choice(("none", "arguments", "name"))
        others = [str(one["name"]) for one in functions if one["name"] != name]
        if mistake == "none":
            return []
        if mistake == "name" and others:
            name = lots.choice(others)
        else:
            given = _spoilt(given)
    written = {"name": name, "arguments": json.dumps(given, ensure_ascii=False)}
    return [{"id": f"call_{lots.getrandbits(48):012x}", "type": "function", "function": written}]


def _functions(tools: object) -> list[Mapping[str, Any]]:
    told = tools if isinstance(tools, list | tuple) else ()
    functions = [tool.get("function") for tool in told if isinstance(tool, Mapping)]
    return [one for one in functions if isinstance(one, Mapping) and one.get("name")]


def _chosen(text: str, functions: Sequence[Mapping[str, Any]], choice: object) -> Mapping[str, Any] | None:
    if choice == "none" or not functions:
        return None
    if isinstance(choice, Mapping) and isinstance(choice.get("function"), Mapping):
        wanted = choice["function"].get("name")
        return next((one for one in functions if one["name"] == wanted), None)
    asked = _words(text)
    in_common = [len(asked & _words(f"{one['name']} {one.get('description', '')}")) for one in functions]
    best = max(range(len(functions)), key=in_common.__getitem__)
    return functions[best] if in_common[best] or choice == "required" else None


def _words(text: str) -> frozenset[str]:
    """Return the words of a text, without their endings: "additions" and "add" have their beginning in common."""
    words = _WORD.findall(text.lower().replace("_", " "))
    return frozenset(word[:5] for word in words if word not in _FILL_WORDS)


def _arguments(text: str, schema: object) -> dict[str, Any]:
    described = schema if isinstance(schema, Mapping) else {}
    properties = described.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    required = described.get("required") or []
    found = _Found(text)
    given: dict[str, Any] = {}
    for name, kind in properties.items():
        value = found.take(str(name), kind if isinstance(kind, Mapping) else {})
        if value is None and name in required:
            value = found.anything(kind if isinstance(kind, Mapping) else {})
        if value is not None:
            given[str(name)] = value
    return given


class _Found:
    """What a message offers as arguments; each number and name is taken once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._numbers = _NUMBER.findall(text)
        quoted = [first or second for first, second in _QUOTED.findall(text)]
        self._names = quoted or _NAME.findall(text)

    def take(self, name: str, kind: Mapping[str, Any]) -> Any:
        """Return what fits a property, or None."""
        choices = kind.get("enum")
        if isinstance(choices, list | tuple):
            words = self._text.lower()
            return next((one for one in choices if str(one).lower() in words), None)
        if kind.get("type") in ("number", "integer"):
            number = self._numbers.pop(0) if self._numbers else None
            return None if number is None else float(number) if "." in number else int(number)
        if kind.get("type", "string") == "string":
            if "expression" in name.lower():
                return find_sum(self._text)
            return self._names.pop(0) if self._names else None
        return None

    def anything(self, kind: Mapping[str, Any]) -> Any:
        """Return a value for a property that needs one and finds none in the message."""
        choices = kind.get("enum")
        if isinstance(choices, list | tuple) and choices:
            return choices[0]
        empty: dict[str, Any] = {"number": 0, "integer": 0, "boolean": True, "array": [], "object": {}}
        return empty.get(str(kind.get("type")), self._text)


def _spoilt(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of which the first is wrong; where there are none, one too many."""
    spoilt = dict(given)
    if not spoilt:
        return {"unexpected": True}
    name, value = next(iter(spoilt.items()))
    spoilt[name] = value + 1 if isinstance(value, int | float) and not isinstance(value, bool) else f"{value}?"
    return spoilt
