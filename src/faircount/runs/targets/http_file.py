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
"""

from __future__ import annotations

import codecs
import hashlib
import pathlib
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from faircount.config import small_file, toml_of
from faircount.core.errors import UsageError
from faircount.core.text import visible
from faircount.runs.targets.json_path import Path, WrongPath, read_path

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
    told: HttpFile


def read_file(path: str) -> ReadFile:
    """Return what a file says; UsageError with its name where that cannot be understood."""
    shown = visible(path)
    content = small_file(path)
    told = _decoded(path, content)
    try:
        file = msgspec.convert(told, HttpFile)
    except msgspec.ValidationError as error:
        raise UsageError(f"{shown}: {visible(str(error))}") from None
    _check(shown, file)
    return ReadFile(str(pathlib.Path(path).absolute()), hashlib.sha256(content).hexdigest()[:16], file)


def path_in(where: str, name: str, told: str | None) -> Path | None:
    """Return a path of the file, or None where it has none."""
    if told is None:
        return None
    try:
        return read_path(told)
    except WrongPath as error:
        raise UsageError(
            f"{where}: {name}: {visible(str(error))}; write a path such as choices[0].message.content"
        ) from None


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
