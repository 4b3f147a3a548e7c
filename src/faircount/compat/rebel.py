"""REBEL: its ways to name a target, its metrics as judges, and test files that are written for it.

REBEL is imported only where the user names something of its own, and only if it is installed.
"""

from __future__ import annotations

import ast
import codecs
import contextlib
import importlib
import inspect
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from faircount.chat.settings import ChatSettings
from faircount.components.code import (
    imported,
    in_short,
    is_there,
    load,
    printing_aside,
    refuse_unknown,
    version_of,
    version_of_code,
)
from faircount.core.attempt import Attempt, ToolCall
from faircount.core.errors import InputError, UsageError
from faircount.core.text import visible
from faircount.core.verdict import Decision, Verdict
from faircount.judges.judge import ThirdPartyJudge, share
from faircount.readers.aggregation import DEFAULT
from faircount.runs.targets.base import Request, plain_messages
from faircount.testing.cases import AssistantInput, AssistantOutput, Message, Suite, text_of

if TYPE_CHECKING:
    from faircount.chat.client import ChatClient

PACKAGE = "rebel-eval"
_ROOT = "rebel"
_MODELS = "rebel.models"
_METRICS = "rebel.metrics"
_REGISTRY = "rebel.extractor.test_case_registry"

# -- how a target is named ------------------------------------------------------------------------------------------

# `--api-config FILE` and `--api-client-module M --api-client-class C`; where both are given the client counts, as in
# REBEL. The file is a JSON object: `api_key`, `base_url` and `model` as REBEL reads them; `api_key_env`, `timeout`,
# `tries`, `concurrency` and `requests_per_minute` as Faircount's own settings have them; everything else (temperature,
# max_tokens ...) goes with every request. REBEL drops that without a word. A key in the file is used and never
# recorded. It is not kept in the environment either: that lends it for the moment in which the client is made.

_SETTINGS = ("base_url", "model", "api_key_env", "timeout", "tries", "concurrency", "requests_per_minute")
_KEY = "api_key"
_MESSAGE = ("role", "content", "tool_calls", "tool_call_id")
_lending = threading.Lock()


class ApiConfig(Struct, frozen=True):
    """What a file says: settings, parameters, and perhaps a key."""

    path: str
    settings: Mapping[str, Any] = {}
    parameters: Mapping[str, Any] = {}
    key: str | None = None

    def __repr__(self) -> str:
        return f"ApiConfig({self.path!r})"

    @property
    def name_of_key(self) -> str:
        """How messages call the key; the name of the variable that lends it."""
        return f"{_KEY} of {visible(Path(self.path).name).replace('=', '_')}"

    def over(self, chat: ChatSettings) -> ChatSettings:
        """Return settings with what the file says; what differs from the defaults was set by the user and stays."""
        default = ChatSettings()
        names = [name for name in self.settings if getattr(chat, name) == getattr(default, name)]
        try:
            own = msgspec.convert({name: self.settings[name] for name in names}, ChatSettings)
        except msgspec.ValidationError as error:
            raise UsageError(f"{visible(self.path)}: {visible(str(error))}") from None
        found = {name: getattr(own, name) for name in names}
        return replace(chat, **found, parameters={**self.parameters, **chat.parameters})

    def client(self, chat: ChatSettings) -> ChatClient:
        """Return a client for settings; if the file has a key, with that, and then for one event loop."""
        from faircount.chat.client import ChatClient

        if self.key is None:
            return ChatClient(chat)
        name = self.name_of_key
        with _lending:
            os.environ[name] = self.key
            try:
                return ChatClient(replace(chat, api_key_env=name))
            finally:
                del os.environ[name]

    def advice(self) -> str | None:
        """Return what to say to somebody whose file holds a key."""
        if self.key is None:
            return None
        return (
            f"{visible(self.path)}: contains a key; it is used but not recorded. It is safer in an environment "
            'variable: write "api_key_env": "NAME" instead of "api_key"'
        )


def read_api_config(path: str) -> ApiConfig:
    """Return what a file says that `--api-config` names."""
    shown = visible(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{shown}: cannot be read: {error.strerror or error}") from None
    try:
        content = msgspec.json.decode(data.removeprefix(codecs.BOM_UTF8))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # The message of the decoder names a place and quotes nothing.
        raise InputError(f"{shown}: not JSON: {visible(str(error))}") from None
    if not isinstance(content, dict):
        raise InputError(f"{shown}: not a JSON object with base_url, model and api_key_env")
    key = content.pop(_KEY, None)
    if key is not None and not isinstance(key, str):
        raise InputError(f"{shown}: {_KEY} is not a string")
    settings = {name: content.pop(name) for name in _SETTINGS if name in content}
    return ApiConfig(
        path=str(Path(path).absolute()),
        settings={name: value for name, value in settings.items() if value is not None},
        parameters={name: value for name, value in content.items() if value is not None},
        key=(key or "").strip() or None,
    )


def client_name(module: str | None, name: str | None) -> str:
    """Return the client that `--api-client-module` and `--api-client-class` name; both are needed."""
    if not module or not name:
        missing, given = ("module", "class") if not module else ("class", "module")
        raise UsageError(f"--api-client-{given} needs --api-client-{missing}")
    return f"{module}:{name}"


def assistant_input(client: object, request: Request, parameters: dict[str, Any]) -> Any:
    """Return REBEL's input: of REBEL's own classes for a client that is made of them, else of ours."""
    plain = [{name: message[name] for name in _MESSAGE if name in message} for message in plain_messages(request)]
    # Where a client is a subclass of REBEL's, that is loaded.
    theirs = any(kind.__module__.partition(".")[0] == _ROOT for kind in type(client).__mro__)
    models: Any = sys.modules.get(_MODELS) if theirs else None
    if models is not None:
        # A message of REBEL's has a text, even where it only calls tools.
        messages = [{**message, "content": message.get("content") or ""} for message in plain]
        return models.AssistantInput(messages=messages, api_params=parameters)
    return AssistantInput(messages=[Message(**message) for message in plain], api_params=parameters)


# -- metrics as judges ----------------------------------------------------------------------------------------------

_MODEL_FIELDS = ("model", "judge_llm")
_ROLES = ("system", "user", "assistant", "tool")
_CLIENT_PARAMETERS = ("temperature", "max_tokens")


class RebelJudge(ThirdPartyJudge):
    """One of REBEL's metrics: `rebel:ToolCallsAccuracy(threshold=0.8)`, `rebel:module:Class`, `rebel:./file.py:Class`.

    What REBEL calls passed is a hit: the thing that the metric looks for is there. Failed is a pass, and an error
    leaves the attempt unjudged. A metric that asks a model gets the one of the setting, unless its parameters say
    otherwise.
    """

    scores = True

    def __init__(self, target: str, parameters: Mapping[str, Any], chat: ChatSettings | None) -> None:
        name = f"rebel:{target}"
        self._models = imported(_MODELS, name, PACKAGE)
        module, inner, digest = _place(target, name)
        found = getattr(module, inner, None)
        metric, asked = _metric(name, found, parameters, chat, self._models)
        self._metric = metric
        version = version_of(PACKAGE) + (f"+{digest}" if digest else "")
        written = {**parameters, "model": asked} if asked else parameters
        super().__init__(name, version, f"what REBEL's {metric.get_name()} calls passed", written)
        self.waits = any(hasattr(metric, field) for field in _MODEL_FIELDS)
        self.may_fork = not self.waits
        # A metric can look at the tools alone: an answer without text is none of its business.
        self.needs_response = False

    def decide(self, attempt: Attempt) -> Verdict:
        """Measure an attempt."""
        if attempt.response is None and not attempt.tools_called:
            return Verdict.unjudged("no response to judge")
        expected = attempt.expected
        result = self._metric.measure(
            self._input(attempt),
            self._output(expected.output, expected.tools_called or (), expected.context, None),
            self._output(attempt.response, attempt.tools_called, attempt.context, attempt.latency),
        )
        verdict = getattr(result.verdict, "value", result.verdict)
        if verdict not in ("passed", "failed"):
            return Verdict.unjudged(str(result.reason) or "the metric failed")
        return Verdict(Decision.of(verdict == "passed"), score=share(result.score), reason=str(result.reason))

    def _input(self, attempt: Attempt) -> Any:
        turns = [(turn.role, turn.content) for turn in attempt.conversation if turn.role in _ROLES]
        messages = [self._models.Message(role=role, content=content) for role, content in turns]
        if not messages:
            messages = [self._models.Message(role="user", content=attempt.prompt)]
        return self._models.AssistantInput(messages=messages, api_params={})

    def _output(
        self, text: str | None, tools: tuple[ToolCall, ...], context: tuple[str, ...], latency: float | None
    ) -> Any:
        calls = [
            self._models.ToolCall(function=self._models.Function(name=tool.name, arguments=tool.arguments))
            for tool in tools
        ]
        return self._models.AssistantOutput(
            output=text or "", tools_called=calls, context=list(context), execution_time=latency
        )


def _place(target: str, name: str) -> tuple[ModuleType, str, str]:
    """Return the module of a metric, the name in it, and a digest where the module is the user's own."""
    place, _, inner = target.rpartition(":")
    if not place:
        return imported(_METRICS, name, PACKAGE), inner, ""
    module = load(place)
    own = not place.startswith("rebel.")
    return module, inner, version_of_code(place, module) if own else ""


def _metric(
    name: str, found: Any, parameters: Mapping[str, Any], chat: ChatSettings | None, models: ModuleType
) -> tuple[Any, str]:
    """Return a metric, and the model that it asks if that is the one of the setting."""
    if isinstance(found, models.Metric):
        refuse_unknown(name, parameters, [])
        return found, ""
    if not isinstance(found, type) or not issubclass(found, models.Metric):
        metrics = inspect.getmembers(importlib.import_module(_METRICS), inspect.isclass)
        names = [kind.__name__ for _, kind in metrics if issubclass(kind, models.Metric) and kind is not models.Metric]
        known = f"; it has {', '.join(names)}" if names else ""
        raise UsageError(f"{name}: not a metric of REBEL{known}")
    fields: Mapping[str, Any] = getattr(found, "model_fields", {})
    refuse_unknown(name, parameters, list(fields))
    given = dict(parameters)
    asked = ""
    for field in _MODEL_FIELDS:
        if field in fields and field not in given and chat is not None and chat.model:
            given[field] = fields[field].annotation(_client(name, chat))
            asked = chat.model
    try:
        with printing_aside():
            return found(**given), asked
    except Exception as error:  # a class of anybody's, and a value that it does not expect
        raise UsageError(f"{name}: cannot be created with these parameters: {_problem(error)}") from error


def _client(name: str, chat: ChatSettings) -> dict[str, Any]:
    """Return what REBEL's clients are configured with; the key comes from the environment and goes nowhere else."""
    key = os.environ.get(chat.api_key_env)
    if not key:
        raise UsageError(f"{name}: the environment variable {chat.api_key_env} is not set; it holds the key")
    wanted = {key: value for key, value in chat.parameters.items() if key in _CLIENT_PARAMETERS}
    return {"api_key": key, "base_url": chat.base_url, "model": chat.model, "timeout": chat.timeout, **wanted}


def _problem(error: Exception) -> str:
    """Return what pydantic says of the first value that it does not take, or what any other error says."""
    details = getattr(error, "errors", None)
    if callable(details):
        first = details()[0]
        model = bool(first["loc"]) and first["loc"][0] in _MODEL_FIELDS
        hint = "name a model with --model" if model else "name a metric created in a file as rebel:./file.py:NAME"
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}; {hint}"
    return in_short(error)


# -- test files -----------------------------------------------------------------------------------------------------

# Such a file declares its tests to REBEL's own registry; while the file is executed, the registry is watched, and what
# is added to it is taken over. REBEL's metrics are asked as they are, with REBEL's own objects.

_LIST = "test_suites"


class SuiteListener(Protocol):
    """Who takes the suites of a file."""

    def listens(self) -> bool:
        """Return whether what is executed now is declared here."""

    def here(self) -> str:
        """Return the place that is being executed now."""

    def declare(self, suite: Suite) -> None:
        """Take a suite."""


class _Watched(list[Any]):
    """REBEL's list of suites, for as long as a file is executed; it belongs to that file alone."""

    def __init__(self, who: SuiteListener, source: bytes) -> None:
        super().__init__()
        self._who = who
        self._functions = _functions(source)

    def extend(self, suites: Iterable[Any]) -> None:
        for suite in suites:
            self.append(suite)

    def append(self, suite: Any) -> None:
        if self._who.listens():
            self._who.declare(suite_of(suite, self._who.here(), self._functions))


@contextlib.contextmanager
def watch_registry(who: SuiteListener, place: str, source: bytes) -> Iterator[None]:
    """Let somebody take what a file declares to REBEL."""
    registry = _registry(source)
    if registry is None:
        yield
        # A file that does not name REBEL can import one that does.
        registry = sys.modules.get(_REGISTRY)
        for suite in list(getattr(registry, _LIST, ())):
            who.declare(suite_of(suite, place, ()))
        if registry is not None:
            getattr(registry, _LIST).clear()
        return
    before = getattr(registry, _LIST)
    setattr(registry, _LIST, _Watched(who, source))
    try:
        yield
    finally:
        setattr(registry, _LIST, before)


def _registry(source: bytes) -> Any:
    """Return REBEL's registry, if it is loaded or a file imports REBEL and can."""
    if _REGISTRY not in sys.modules and (not imports_rebel(source) or not is_there(_ROOT)):
        return None
    try:
        return importlib.import_module(_REGISTRY)
    except Exception:  # noqa: BLE001  the file itself will say what is wrong, with its line
        return None


def imports_rebel(source: bytes) -> bool:
    """Return whether a file imports REBEL."""
    if b"rebel" not in source:
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        if any(name.partition(".")[0] == _ROOT for name in names):
            return True
    return False


def hint_for(error: BaseException) -> str:
    """Return what to do about an error, if it is that REBEL or DeepEval is missing."""
    missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if missing == _ROOT:
        return f"; install {PACKAGE}, or import from faircount.testing instead: the names are the same"
    return "; install it: pip install deepeval" if missing == "deepeval" else ""


def _functions(source: bytes) -> list[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _function(suite: str, functions: Iterable[str]) -> str:
    """Return the function that a suite is named after: REBEL keeps only the name, with the postfix of the group."""
    fitting = [name for name in functions if suite == name or suite.startswith(f"{name}_")]
    return max(fitting, key=len, default=suite)


def suite_of(suite: Any, place: str, functions: Iterable[str]) -> Suite:
    """Return a suite of REBEL's in our words; its metrics stay what they are."""
    asked = AssistantInput(
        messages=[message.model_dump() for message in suite.messages], api_params=dict(suite.api_params)
    )
    said = suite.expected_output.model_dump(include=set(suite.expected_output.model_fields_set))
    retry = suite.retry_params
    strategy = DEFAULT if retry.aggregation_strategy is None else retry.aggregation_strategy
    return Suite(
        function=_function(suite.name, functions),
        name=suite.name,
        tags=tuple(suite.tags),
        asked=asked,
        expected=AssistantOutput(**said),
        grid=dict(suite.parameter_grid.parameters),
        metrics=tuple(suite.metrics),
        count=retry.count,
        aggregation=str(getattr(strategy, "value", strategy)),
        place=place,
    )


def is_rebel_metric(metric: object) -> bool:
    """Return whether a metric is one of REBEL's kind, without loading REBEL."""
    models = sys.modules.get(_MODELS)
    kind = getattr(models, "Metric", None)
    return isinstance(kind, type) and isinstance(metric, kind)


def rebel_input(messages: Iterable[Mapping[str, Any]], api_params: Mapping[str, Any]) -> Any:
    """Return an input as REBEL's metrics know it; they know texts alone."""
    models = importlib.import_module(_MODELS)
    translated = [models.Message(**{**message, "content": text_of(message.get("content"))}) for message in messages]
    return models.AssistantInput(messages=translated, api_params=dict(api_params))


def rebel_output(output: Mapping[str, Any]) -> Any:
    """Return an output as REBEL's metrics know it."""
    models = importlib.import_module(_MODELS)
    calls = output.get("tools_called")
    translated = {**output, "tools_called": None if calls is None else [models.ToolCall(**call) for call in calls]}
    return models.AssistantOutput(**{name: value for name, value in translated.items() if name in output})
