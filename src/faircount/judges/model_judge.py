"""Judges that ask a model for a structured answer: JSON of a given form, believed only if it is one of those allowed.

An answer that cannot be used is sent back once with the reason; after that there is no answer. What an attacker wrote
reaches the model between fences that nobody can write beforehand, and nothing that the model answers is executed.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct, field
from msgspec.structs import replace

from faircount.core.errors import UsageError
from faircount.core.text import replace_surrogates
from faircount.core.verdict import Usage
from faircount.judges.json_text import NotJson, ReadInVain, values
from faircount.judges.judge import Judge, check_number

if TYPE_CHECKING:
    from faircount.chat.settings import ChatSettings
    from faircount.chat.types import ChatAnswer


Message = Mapping[str, Any]
T = TypeVar("T")

FENCE = "{fence}"
"""What stands for the fence in the prompt of an identity: the fence itself differs from attempt to attempt."""

_REPAIRS = 1
_REPAIR = "That answer cannot be used: %s. Answer again, with the one JSON object that was asked for alone."
_CUT_SHORT = {
    "length": "was cut off at its length limit; allow it more tokens",
    "content_filter": "was stopped by a content filter",
}
_THINKING = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FORM_WORDS = ("response_format", "response format", "json_schema", "structured output")
"""One of these is in the error of a server that does not know how to answer in a form."""
_OWN = ("model", "temperature", "response_format")


class ModelClient(Protocol):
    """What asks a model: the chat client, or anything that answers in its place."""

    def ask_now(self, messages: Sequence[Message], *, parameters: Mapping[str, Any] | None = None) -> ChatAnswer:
        """Send messages and return the answer."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class OffMenu(ValueError):
    """An answer that is none of those that a form allows; the message says why, in words of ours."""


class Form(Struct, Generic[T], frozen=True):
    """What an answer must look like: its schema, the key that matters most, and what reads the object.

    `read` raises `OffMenu` for an object that is not allowed.
    """

    name: str
    key: str
    schema: Mapping[str, Any]
    read: Callable[[Mapping[str, Any]], T]


class Reply(Struct, Generic[T], frozen=True):
    """What a model answered in the end; without a value `problem` says why. `usage` is what it took.

    `said` is the text of the last answer that could not be used.
    """

    value: T | None
    problem: str = ""
    usage: Usage = field(default_factory=Usage)
    said: str = ""


def object_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these keys."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def read_answer(text: str, form: Form[T]) -> T:
    """Return what an answer says; prose and fences around the JSON, and thoughts before it, are passed over."""
    try:
        objects = [value for value, _, _ in values(_THINKING.sub("", text))]
    except (NotJson, ReadInVain) as error:
        raise OffMenu(f"it cannot be read: {error}") from None
    answers = [value for value in objects if isinstance(value, dict) and form.key in value]
    if not answers:
        raise OffMenu(f'it holds no JSON object with "{form.key}"')
    if any(value[form.key] != answers[0][form.key] for value in answers):
        raise OffMenu(f'it says different things for "{form.key}"')
    return form.read(answers[-1])


class Questioner:
    """Asks one model, for one judge or attack; it may be used from several threads at once.

    The client is made when the first question is asked, so that a judge can be named without a key. `who` is what the
    model is called in messages.
    """

    def __init__(self, settings: ChatSettings, temperature: float | None, *, who: str = "the judging model") -> None:
        self._settings = settings
        self._who = who
        # A parameter that is None takes that of the settings away.
        self._parameters: dict[str, Any] = {"model": settings.model, "temperature": temperature}
        self._client: ModelClient | None = None
        self._lock = threading.Lock()
        self._plain = False

    def ask_with(self, client: ModelClient) -> None:
        """Ask by this client from now on."""
        self._client = client

    def ready(self) -> None:
        """Make the client now, so that a missing key is reported before any work begins."""
        self._client_made()

    def close(self) -> None:
        """Close the client, if there is one."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def ask(self, messages: Sequence[Message], form: Form[T]) -> Reply[T]:
        """Return the answer to a question, or why there is none that can be used."""
        from faircount.chat.types import ChatError

        sent, usage, problem, said = list(messages), Usage(), "", ""
        for _ in range(1 + _REPAIRS):
            try:
                answer, took = self._answer(sent, form)
            except ChatError as error:
                return Reply(None, str(error), usage + Usage(error.tries))
            usage += took
            if answer.finish_reason in _CUT_SHORT:
                problem = f"the answer of {self._who} {_CUT_SHORT[answer.finish_reason]}"
                return Reply(None, problem, usage, answer.text)
            try:
                return Reply(read_answer(answer.text, form), usage=usage)
            except OffMenu as error:
                problem, said = str(error), answer.text
            sent.append({"role": "assistant", "content": replace_surrogates(answer.text)})
            sent.append({"role": "user", "content": _REPAIR % problem})
        problem = f"the answer of {self._who} cannot be used, after one repair: {problem}"
        return Reply(None, problem, usage, said)

    def _answer(self, messages: Sequence[Message], form: Form[T]) -> tuple[ChatAnswer, Usage]:
        """Ask for JSON of the form, or without it where the server does not know how."""
        from faircount.chat.types import ChatError

        client, in_vain = self._client_made(), Usage()
        if not self._plain:
            wanted = {"name": form.name, "strict": True, "schema": form.schema}
            parameters = {**self._parameters, "response_format": {"type": "json_schema", "json_schema": wanted}}
            try:
                answer = client.ask_now(messages, parameters=parameters)
            except ChatError as error:
                words = str(error).lower()
                if error.status not in (400, 404, 422) or not any(word in words for word in _FORM_WORDS):
                    raise
                self._plain = True
                in_vain = Usage(error.tries)
            else:
                return answer, _took(answer)
        answer = client.ask_now(messages, parameters=self._parameters)
        return answer, in_vain + _took(answer)

    def _client_made(self) -> ModelClient:
        with self._lock:
            if self._client is None:
                from faircount.chat.client import ChatClient

                self._client = ChatClient(self._settings)
            return self._client


def _took(answer: ChatAnswer) -> Usage:
    """Return what an answer took; one from the cache took nothing."""
    if answer.cached:
        return Usage()
    return Usage(answer.tries, answer.prompt_tokens or 0, answer.completion_tokens or 0, answer.cost)


def fence_for(*texts: str) -> str:
    """Return a word that stands in none of the texts and depends on all of them.

    Whoever writes one of them would have to foresee a digest of what he is writing in order to forge it. The same
    texts have the same fence, so that an answer can be found again in a cache.
    """
    number = 0
    while True:
        digest = hashlib.sha256(json.dumps([number, *texts]).encode()).hexdigest()
        fence = f"fence-{digest[:20]}"
        if not any(fence in text for text in texts):
            return fence
        number += 1


def between_fences(fence: str, parts: Sequence[tuple[str, str]]) -> str:
    """Return named texts, each between its fences."""
    blocks = (f"[{fence} {name} begins]\n{replace_surrogates(text)}\n[{fence} {name} ends]" for name, text in parts)
    return "\n\n".join(blocks)


def settings_for(
    judge: str, chat: object, *, model: object = "", base_url: object = None, api_key_env: object = None
) -> ChatSettings:
    """Return the settings of a judge's own client: what the judge says itself, over those of the chat."""
    from faircount.chat.settings import ChatSettings

    settings = ChatSettings() if chat is None else chat
    if not isinstance(settings, ChatSettings):
        raise UsageError(f"{judge}: chat is not a parameter that can be written")
    # The client, too, takes a model among the parameters before the one of the settings.
    own = {
        "model": model or settings.parameters.get("model") or settings.model,
        "base_url": settings.base_url if base_url is None else base_url,
        "api_key_env": settings.api_key_env if api_key_env is None else api_key_env,
    }
    for name, value in own.items():
        if not isinstance(value, str):
            raise UsageError(f"{judge}: {name} must be a string")
    if not own["model"]:
        raise UsageError(f'{judge} asks a model; name it: {judge.split(".")[0]}(model="…")')
    try:
        return replace(settings, **own)
    except ValueError:
        raise UsageError(f"{judge}: base_url is not an address") from None


def check_temperature(judge: str, value: object) -> float | None:
    """Return a temperature; null sends none, since some models refuse any."""
    return None if value is None else check_number(judge, "temperature", value, high=2.0)


def _identity(settings: ChatSettings, temperature: float | None) -> dict[str, Any]:
    """Return what of the settings can change an answer, as parameters of an identity; no secrets."""
    from faircount.chat.settings import ChatSettings

    # People put keys into the user, the password and the query of an address.
    address = urlsplit(settings.base_url)
    written: dict[str, Any] = {
        "model": settings.model,
        "base_url": urlunsplit((address.scheme, address.netloc.rpartition("@")[2], address.path, "", "")),
        "temperature": temperature,
    }
    request = {name: value for name, value in settings.parameters.items() if name not in _OWN}
    if settings.provider != ChatSettings().provider:
        written["provider"] = settings.provider
    return {**written, "request": request} if request else written


class ModelJudge(Judge):
    """A judge that asks a model by a questioner. It waits most of the time, and its verdicts have scores."""

    scores = True
    waits = True

    def __init__(
        self,
        chat: ChatSettings | None,
        temperature: object,
        *,
        model: str,
        base_url: str | None,
        api_key_env: str | None,
        **parameters: Any,
    ) -> None:
        checked = check_temperature(self.name, temperature)
        settings = settings_for(self.name, chat, model=model, base_url=base_url, api_key_env=api_key_env)
        self._questioner = Questioner(settings, checked)
        super().__init__(**parameters, **_identity(settings, checked))

    def ask_with(self, client: ModelClient) -> None:
        """Ask by this client instead of one made from the settings."""
        self._questioner.ask_with(client)

    def ready(self) -> None:
        """Make the client now, so that a missing key is reported before any work begins."""
        self._questioner.ready()

    def close(self) -> None:
        """Close the client."""
        self._questioner.close()
