"""Templates of requests: texts and JSON with places that are filled in for every request.

    {prompt}           the last message of the user; {system}, {messages}, {id}, {attempt}, {conversation} likewise
    {lang}             any other name is a field of the entry
    $NAME, ${NAME}     the environment variable NAME, looked up when the target is made
    {{lang}}, $$       stand for {lang} and $ themselves

A string of a JSON body that is one place and nothing else becomes the value, whatever its type is: "{messages}" becomes
a list. Inside of a longer string a value becomes its text. Values are put into data that is written as JSON afterwards,
never into the text of JSON, so that no prompt can add to the request or take something from it. What a value holds is
not looked at again: `$HOME` in a prompt stays `$HOME`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from faircount.chat.http import Key
from faircount.core.errors import UsageError
from faircount.core.text import clip, visible
from faircount.runs.targets.base import Request, TargetError, plain_messages, prompt_of, system_of

_MARK = re.compile(
    r"\$\$|\$(?P<variable>[A-Za-z_]\w*)|\$\{(?P<braced>[A-Za-z_]\w*)\}"
    r"|\{\{(?P<itself>[A-Za-z_][\w.-]*)\}\}|\{(?P<field>[A-Za-z_][\w.-]*)\}"
)
_OWN: Mapping[str, Callable[[Request], Any]] = {
    "prompt": prompt_of,
    "system": system_of,
    "messages": plain_messages,
    "id": lambda request: request.fields.get("id", request.case),
    "attempt": lambda request: request.attempt,
    "conversation": lambda request: request.conversation,
}


class Place(Struct, frozen=True):
    """A place that is filled in."""

    name: str

    def value(self, request: Request) -> Any:
        """Return what a request has for it."""
        if self.name in _OWN:
            return _OWN[self.name](request)
        if self.name in request.fields:
            return request.fields[self.name]
        raise TargetError(
            "parameters",
            f"the template has {{{visible(self.name)}}}, but the entry has no such field; "
            "write {{" + visible(self.name) + "}} for the literal text",
            tries=0,
        )


class Text(Struct, frozen=True):
    """A text with places."""

    parts: tuple[str | Place, ...]

    def __repr__(self) -> str:
        return "Text()"  # it may hold a secret

    @property
    def is_fixed(self) -> bool:
        """Whether nothing is filled in."""
        return all(isinstance(part, str) for part in self.parts)

    def fill(self, request: Request, change: Callable[[str], str] = str) -> str:
        """Return the text for a request; `change` is done to what is filled in, and to nothing else."""
        return "".join(part if isinstance(part, str) else change(as_text(part.value(request))) for part in self.parts)

    def value(self, request: Request) -> Any:
        """Return the value of the only place, if there is nothing else, or the text."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Place):
            return self.parts[0].value(request)
        return self.fill(request)


Filled: TypeAlias = Callable[[Request], Any]


class Templates:
    """Compiles texts and remembers what of them is secret."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.secrets: list[Key] = []
        """The values of the environment variables that were named."""
        self.variables: list[str] = []

    def text(self, told: str) -> Text:
        """Return a text with places."""
        parts: list[str | Place] = []
        at = 0
        for mark in _MARK.finditer(told):
            parts += [told[at : mark.start()], self._part(mark)]
            at = mark.end()
        parts.append(told[at:])
        return Text(tuple(_joined(parts)))

    def json(self, told: Any) -> Filled:
        """Return what makes the data of a body for a request."""
        if isinstance(told, str):
            return self.text(told).value
        if isinstance(told, Mapping):
            inner = [(self.text(str(name)), self.json(value)) for name, value in told.items()]
            return lambda request: {name.fill(request): value(request) for name, value in inner}
        if isinstance(told, list):
            items = [self.json(value) for value in told]
            return lambda request: [value(request) for value in items]
        return lambda _: told

    def _part(self, mark: re.Match[str]) -> str | Place:
        variable = mark["variable"] or mark["braced"]
        if variable:
            return self._from_environment(variable)
        if mark["field"]:
            return Place(mark["field"])
        return f"{{{mark['itself']}}}" if mark["itself"] else "$"

    def _from_environment(self, variable: str) -> str:
        value = os.environ.get(variable, "").strip()
        if not value:
            raise UsageError(
                f"{self._where}: names the environment variable {variable}, which is not set; write $$ for a literal $"
            )
        if not value.isprintable():
            raise UsageError(f"{self._where}: {variable} contains invisible characters; set it again")
        self.secrets.append(Key(value))
        self.variables.append(variable)
        return value


def _joined(parts: list[str | Place]) -> list[str | Place]:
    """Return parts in which no text is empty and none stands beside another."""
    joined: list[str | Place] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return joined


def as_text(value: Any) -> str:
    """Return a value as it stands inside of a text: nothing for null, JSON for what is neither text nor number."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        name = clip(type(value).__name__, 40)
        raise TargetError(
            "parameters", f"a field of the entry contains {name}, which is not plain data", tries=0
        ) from None
