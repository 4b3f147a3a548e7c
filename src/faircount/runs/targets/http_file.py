"""The file of an HTTP target, in TOML or JSON: what is sent, and where in the answer what is looked for stands.

    url = "https://bot.example/chat"           required; {places} only behind the name of the server
    method = "POST"                            by default POST where there is a body, else GET
    timeout = 30                               seconds for one try; tries = 3; verify = false or "authority.pem"
    answer = "choices[0].message.content"      without it, the whole body is the answer
    passed = "allowed"                         or flagged: a guardrail that answers yes or no

    [headers]  [query]                         name = "text"
    [json]  or  [form]  or  text = "…"         the body

    [blocked]                                  a guardrail stopped it: any of these
    status = [403]
    when = "error.code"                        true, or as `equals` says
    equals = "content_filter"
    categories = "error.categories"            names, or a mapping of names to something true
    message = "error.message"

    [usage]                                    paths: prompt_tokens, completion_tokens, cost, model, finish_reason

What a file may hold beside is refused: a word that is misspelt would be dropped in silence.

Texts and JSON in it are templates with places that are filled in for every request:

    {prompt}           the last message of the user; {system}, {messages}, {id}, {attempt}, {conversation} likewise
    {lang}             any other name is a field of the entry
    $NAME, ${NAME}     the environment variable NAME, looked up when the target is made
    {{lang}}, $$       stand for {lang} and $ themselves

A string of a JSON body that is one place and nothing else becomes the value, whatever its type is: "{messages}" becomes
a list. Inside of a longer string a value becomes its text. Values are put into data that is written as JSON afterwards,
never into the text of JSON, so that no prompt can add to the request or take something from it. What a value holds is
not looked at again: `$HOME` in a prompt stays `$HOME`.

A path says where in a JSON answer something stands, such as `choices[0].message.content`:

    path    step { step }
    step    name | "." name | "[" number "]" | "[*]" | '["any name"]'

A number counts from 0, or from the end where it is negative; `[*]` stands for all elements of a list or all values of
an object. A name that is no word, such as one with a dot in it, stands in quotes and brackets.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from faircount.chat.http import Key
from faircount.config import small_file, toml_of
from faircount.core.errors import UsageError
from faircount.core.text import clip, visible
from faircount.runs.targets.base import Request, TargetError, plain_messages, prompt_of, system_of

# -- paths in an answer -------------------------------------------------------------------------------------------


Step: TypeAlias = str | int | None
"""A name, a place in a list, or None for all."""

_STEP = re.compile(
    r"""(?P<dot>\.?)(?P<name>[^\W\d][\w-]*)|\[\s*(?:(?P<number>-?\d{1,9})|(?P<all>\*)|(?P<quoted>"(?:[^"\\]|\\.)*"))\s*\]"""
)


class WrongPath(ValueError):
    """A path that cannot be understood."""


class JsonPath(Struct, frozen=True):
    """A path as it was written, and its steps."""

    text: str
    steps: tuple[Step, ...]

    def find(self, content: Any) -> list[Any]:
        """Return everything that stands there; nothing where a step leads nowhere."""
        found = [content]
        for step in self.steps:
            found = [inner for outer in found for inner in _taken(outer, step)]
        return found


def read_path(text: str) -> JsonPath:
    """Return what a path says."""
    steps: list[Step] = []
    place = 0
    while place < len(text):
        step = _STEP.match(text, place)
        # A name needs a dot before it, except at the beginning.
        if step is None or (step["name"] is not None and bool(step["dot"]) == (place == 0)):
            raise WrongPath(f'"{text}" cannot be parsed at character {place + 1}')
        steps.append(_step(step))
        place = step.end()
    if not steps:
        raise WrongPath("it is empty")
    return JsonPath(text, tuple(steps))


def _step(found: re.Match[str]) -> Step:
    if found["all"] is not None:
        return None
    if found["number"] is not None:
        return int(found["number"])
    if found["quoted"] is not None:
        try:
            return str(json.loads(found["quoted"]))
        except ValueError:
            raise WrongPath(f"{found['quoted']} is not a string in quotes") from None
    return found["name"]


def _taken(content: Any, step: Step) -> Iterator[Any]:
    if isinstance(step, str):
        if isinstance(content, Mapping) and step in content:
            yield content[step]
    elif isinstance(step, int):
        if isinstance(content, list) and -len(content) <= step < len(content):
            yield content[step]
    elif isinstance(content, list):
        yield from content
    elif isinstance(content, Mapping):
        yield from content.values()


# -- templates ----------------------------------------------------------------------------------------------------


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


class TemplateField(Struct, frozen=True):
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

    parts: tuple[str | TemplateField, ...]

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
        if len(self.parts) == 1 and isinstance(self.parts[0], TemplateField):
            return self.parts[0].value(request)
        return self.fill(request)


Filled: TypeAlias = Callable[[Request], Any]


class Templates:
    """Compiles texts and remembers what of them is secret."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.secrets: list[Key] = []
        """The values of the environment variables that were named."""

    def text(self, template: str) -> Text:
        """Return a text with places."""
        parts: list[str | TemplateField] = []
        at = 0
        for mark in _MARK.finditer(template):
            parts += [template[at : mark.start()], self._part(mark)]
            at = mark.end()
        parts.append(template[at:])
        return Text(tuple(_joined(parts)))

    def json(self, template: Any) -> Filled:
        """Return what makes the data of a body for a request."""
        if isinstance(template, str):
            return self.text(template).value
        if isinstance(template, Mapping):
            inner = [(self.text(str(name)), self.json(value)) for name, value in template.items()]
            return lambda request: {name.fill(request): value(request) for name, value in inner}
        if isinstance(template, list):
            items = [self.json(value) for value in template]
            return lambda request: [value(request) for value in items]
        return lambda _: template

    def _part(self, mark: re.Match[str]) -> str | TemplateField:
        variable = mark["variable"] or mark["braced"]
        if variable:
            return self._from_environment(variable)
        if mark["field"]:
            return TemplateField(mark["field"])
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
        return value


def _joined(parts: list[str | TemplateField]) -> list[str | TemplateField]:
    """Return parts in which no text is empty and none stands beside another."""
    joined: list[str | TemplateField] = []
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


# -- the file -----------------------------------------------------------------------------------------------------


Scalar = str | int | float | bool


class BlockedRules(Struct, frozen=True, forbid_unknown_fields=True):
    """When an answer says that a guardrail stopped something."""

    status: tuple[int, ...] = ()
    when: str | None = None
    equals: Any = UNSET
    categories: str | None = None
    message: str | None = None


class UsagePaths(Struct, frozen=True, forbid_unknown_fields=True):
    """Where an answer says what it took."""

    prompt_tokens: str | None = None
    completion_tokens: str | None = None
    cost: str | None = None
    model: str | None = None
    finish_reason: str | None = None


class HttpFile(Struct, frozen=True, forbid_unknown_fields=True):
    """What a file says."""

    url: str
    method: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, Scalar] = field(default_factory=dict)
    json: Any = UNSET
    form: dict[str, Scalar] | None = None
    text: str | None = None
    answer: str | None = None
    passed: str | None = None
    flagged: str | None = None
    blocked: BlockedRules = field(default_factory=BlockedRules)
    usage: UsagePaths = field(default_factory=UsagePaths)
    timeout: float | None = None
    tries: int | None = None
    verify: bool | str = True

    def __repr__(self) -> str:
        return "HttpFile()"  # its headers may hold a secret

    @property
    def has_json(self) -> bool:
        """Whether there is a JSON body; null is one."""
        return not isinstance(self.json, UnsetType)


class ReadFile(Struct, frozen=True):
    """A file that was read: its whole path, the digest of its bytes, and what it says."""

    path: str
    digest: str
    spec: HttpFile


def read_file(path: str) -> ReadFile:
    """Return what a file says; UsageError with its name where that cannot be understood."""
    shown = visible(path)
    content = small_file(path)
    try:
        file = msgspec.convert(_decoded(path, content), HttpFile)
    except msgspec.ValidationError as error:
        raise UsageError(f"{shown}: {visible(str(error))}") from None
    _check(shown, file)
    return ReadFile(str(pathlib.Path(path).absolute()), hashlib.sha256(content).hexdigest()[:16], file)


def _decoded(path: str, content: bytes) -> Any:
    if not path.endswith(".json"):
        return toml_of(content, path)
    try:
        return msgspec.json.decode(content.removeprefix(codecs.BOM_UTF8))
    except (msgspec.DecodeError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else visible(str(error))
        raise UsageError(f"{visible(path)}: not JSON: {why}") from None


def _check(shown: str, file: HttpFile) -> None:
    bodies = [
        name
        for name, there in (("json", file.has_json), ("form", file.form is not None), ("text", file.text is not None))
        if there
    ]
    if len(bodies) > 1:
        raise UsageError(f"{shown}: has {' and '.join(bodies)}; a request has one body")
    answers = [name for name in ("answer", "passed", "flagged") if getattr(file, name) is not None]
    if len(answers) > 1:
        raise UsageError(f"{shown}: has {' and '.join(answers)}; an answer is described in one way only")
    if file.method is not None and not (file.method.isascii() and file.method.isalpha()):
        raise UsageError(f"{shown}: method must be a word such as POST")
    if not isinstance(file.blocked.equals, UnsetType) and file.blocked.when is None:
        raise UsageError(f"{shown}: blocked.equals needs blocked.when, the path of what is compared")
    if file.timeout is not None and not 0 < file.timeout < float("inf"):
        raise UsageError(f"{shown}: timeout must be a number of seconds above 0")
    if file.tries is not None and file.tries < 1:
        raise UsageError(f"{shown}: tries must be 1 or more")
