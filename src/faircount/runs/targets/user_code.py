"""Code of the user's: its arguments, what it returns as an answer, the threads that it waits in; as a target.

A value "$NAME" stands for the environment variable of that name ("$$NAME" for the text itself). It is recorded as it
was given, never as what the variable holds. A value that is a secret by its name or by its look is not recorded either:
in its place stands a variable of ours, which whoever resumes the run has to set.

Code returns a text, true or false, a mapping, an object with an `output`, or an Answer. True or false is what a
guardrail says: true, the request was let through. A mapping may have `output`, `let_through`, `tools_called`,
`context`, `execution_time` (or `latency`), `model`, `finish_reason`, `prompt_tokens`, `completion_tokens`, `cost`,
`usage` (with the three before), `tries`, `waited` and `request_id`. Other keys are refused: what would be dropped in
silence is more often a mistake.

The threads of Python's own pools are joined when the program ends, so that one call that hangs would keep it from
ending. Those here are not: a call that was given up goes on by itself, and ends with the program.

A target is `./file.py:Name` or `package.module:Name`, only where the user names it so. `Name` is a function, a class,
or an object. A class is made once, with the arguments that the user gives. Of a class or an object the first of these
methods is asked: `request`, `answer`, `respond`, `__call__`. What is asked gets, by the annotation of its first
parameter,

    Request          the whole request: messages, parameters, case, attempt, fields, conversation
    AssistantInput   REBEL's input: messages, api_params
    anything else    the messages, a list of mappings in OpenAI's shape, and the parameters of the case by their names

and where the parameter has no annotation: a Request if it is called `request`, an AssistantInput if the method is
called `request` (REBEL's `APIClient`), else the messages. Parameters that a function does not take are an error and not
dropped; `**parameters` takes all. The arguments that the user gives for a function go with every call, and those of the
case before them.

It may be sync or async; sync code runs in threads of its own. What it raises becomes a recorded error with the name of
its type; the signal of a guardrail (`faircount.testing.GuardrailTriggered`, or another tool's) becomes a block with its
categories. What it is handed is its own: changing it changes no record.
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
import inspect
import json
import math
import os
import queue
import re
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct, structs

from faircount.chat.http import Key
from faircount.compat.rebel import assistant_input
from faircount.components.code import CodePlace, in_short, printing_aside, refuse_unknown, version_of_code
from faircount.components.factory import Plugin
from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets, visible
from faircount.runs.targets.base import (
    Answer,
    Request,
    Target,
    TargetError,
    blocked,
    in_time,
    is_signal,
    plain_messages,
)
from faircount.testing.fields import is_secret

if TYPE_CHECKING:
    import asyncio

# -- arguments ----------------------------------------------------------------------------------------------------


OURS = "FAIRCOUNT_ARG_"
_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


class Arguments(Struct, frozen=True):
    """Arguments as code gets them (`given`) and as they are recorded.

    `secrets` are the values that are not recorded, `unrecorded` the variables that stand for those of them that were
    given as they are.
    """

    given: Mapping[str, Any]
    recorded: Mapping[str, Any]
    secrets: tuple[Key, ...] = ()
    unrecorded: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Arguments({dict(self.recorded)!r})"

    def hide(self, text: str) -> str:
        """Return a text for people without the secrets."""
        return hidden_in_message(text, self.secrets)

    def hide_in_answer(self, text: str) -> str:
        """Return a text of the target without the secrets, as far as they are no words."""
        return hidden_in_answer(text, self.secrets)


def hidden_in_message(text: str, secrets: Iterable[Key]) -> str:
    """Return a text for people without secrets."""
    for secret in secrets:
        text = secret.hide_in_message(text)
    return text


def hidden_in_answer(text: str, secrets: Iterable[Key]) -> str:
    """Return a text of the target without secrets, as far as they are no words."""
    for secret in secrets:
        text = secret.hide_in_answer(text)
    return text


def read_arguments(text: str | None, flag: str) -> dict[str, Any]:
    """Return the arguments that a flag gives as a JSON object."""
    if text is None or not text.strip():
        return {}
    try:
        arguments = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        arguments = None
    if not isinstance(arguments, dict):
        raise UsageError(f"""{flag}: not a JSON object; write, for example, '{{"url": "http://localhost:8000"}}'""")
    return arguments


def resolve(arguments: Mapping[str, Any]) -> Arguments:
    """Return arguments with variables in the place of their names."""
    secrets: list[Key] = []
    unrecorded: list[str] = []

    def given(path: tuple[str, ...], value: str) -> str:
        name = _VARIABLE.fullmatch(value)
        if name is not None:
            variable = name.group(1)
            found = os.environ.get(variable)
            if not found:
                where = visible(".".join(path))
                raise UsageError(
                    f"the argument {where} is taken from the environment variable {variable}, which is not set"
                )
            secrets.append(Key(found))
            return found
        plain = value[1:] if value.startswith("$$") else value
        if _is_secret(path, value):
            secrets.append(Key(plain))
            unrecorded.append(_variable(path))
        return plain

    def recorded(path: tuple[str, ...], value: str) -> str:
        named = _VARIABLE.fullmatch(value) is not None
        return f"${_variable(path)}" if not named and _is_secret(path, value) else value

    return Arguments(_each(arguments, given), _each(arguments, recorded), tuple(secrets), tuple(unrecorded))


def _each(arguments: Mapping[str, Any], turn: Callable[[tuple[str, ...], str], str]) -> dict[str, Any]:
    """Return a copy with every text turned, however deep it stands; the path leads to it."""

    def walk(path: tuple[str, ...], value: Any) -> Any:
        if isinstance(value, str):
            return turn(path, value)
        if isinstance(value, Mapping):
            return {name: walk((*path, str(name)), inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [walk((*path, str(number)), inner) for number, inner in enumerate(value)]
        return value

    return {name: walk((name,), value) for name, value in arguments.items()}


def _is_secret(path: tuple[str, ...], value: str) -> bool:
    if not value.strip():
        return False
    labelled = f"{path[-1]}={value}"
    return any(map(is_secret, path)) or mask_secrets(labelled) != labelled or mask_secrets(value) != value


def _variable(path: tuple[str, ...]) -> str:
    return OURS + re.sub(r"[^A-Z0-9]+", "_", "_".join(path).upper())


# -- answers ------------------------------------------------------------------------------------------------------


_USAGE = ("prompt_tokens", "completion_tokens", "cost")
_KNOWN = (
    *("output", "tools_called", "context", "execution_time", "latency", "model", "finish_reason", "usage"),
    *(*_USAGE, "tries", "waited", "request_id", "let_through"),
)


class WrongAnswer(Exception):
    """What was returned is no answer."""


def answer_of(value: object, seconds: float) -> Answer:
    """Return what was returned as an answer; where it does not say how long it took, it took `seconds`."""
    if isinstance(value, str):
        return Answer(output=value, latency=seconds)
    through = _truth(value)
    if through is not None:
        return Answer(output=str(through), latency=seconds, let_through=through)
    return _from_mapping(_fields(value), seconds)


def without_secrets(answer: Answer, hide: Callable[[str], str]) -> Answer:
    """Return an answer in which a target that repeats a secret does no harm: `hide` takes secrets out of a text."""

    def calls() -> Iterator[Mapping[str, Any]]:
        for call in answer.tools_called:
            function = {name: hide(text) for name, text in call["function"].items()}
            yield {"id": hide(call["id"]), "type": hide(call["type"]), "function": function}

    words = {name: getattr(answer, name) for name in ("model", "finish_reason", "request_id")}
    return structs.replace(
        answer,
        output=hide(answer.output),
        tools_called=tuple(calls()),
        context=tuple(map(hide, answer.context)),
        **{name: hide(word) for name, word in words.items() if word is not None},
    )


def _fields(value: object) -> Mapping[str, Any]:
    if isinstance(value, Answer):
        return {**structs.asdict(value), "latency": value.latency or None}
    if isinstance(value, Mapping):
        unknown = [str(name) for name in value if name not in _KNOWN]
        if unknown:
            raise WrongAnswer(
                f"the target returned a mapping with the unknown key {_quoted(unknown[0])}; "
                f"known keys: {', '.join(_KNOWN)}"
            )
        if not any(name in value for name in ("output", "tools_called", "let_through")):
            raise WrongAnswer("the target returned a mapping with neither output nor tools_called nor let_through")
        return value
    if not isinstance(value, type) and hasattr(value, "output"):
        return {name: getattr(value, name) for name in _KNOWN if hasattr(value, name)}
    raise WrongAnswer(
        f"the target returned {type(value).__name__}; expected a string, true or false, a mapping, an "
        "AssistantOutput or an Answer"
    )


def _from_mapping(fields: Mapping[str, Any], seconds: float) -> Answer:
    usage = fields.get("usage")
    if usage is not None and not isinstance(usage, Mapping):
        usage = {name: getattr(usage, name, None) for name in _USAGE}
    spent = {name: fields[name] if fields.get(name) is not None else (usage or {}).get(name) for name in _USAGE}
    took = fields.get("execution_time") if fields.get("execution_time") is not None else fields.get("latency")
    through = fields.get("let_through")
    if through is not None and _truth(through) is None:
        raise WrongAnswer(f"let_through of the answer is {_quoted(repr(through))}; expected true or false")
    decision = "" if through is None else str(_truth(through))
    return Answer(
        output=_text("output", fields.get("output")) or decision,
        let_through=_truth(through),
        tools_called=tuple(tool_call(call) for call in _list("tools_called", fields.get("tools_called"))),
        context=tuple(_needed_text("context", text) for text in _list("context", fields.get("context"))),
        latency=seconds if took is None else _number("execution_time", took),
        cost=None if spent["cost"] is None else _number("cost", spent["cost"]),
        tries=_count("tries", fields.get("tries", 1)) or 0,
        waited=_number("waited", fields.get("waited") or 0.0),
        model=_text("model", fields.get("model")),
        finish_reason=_text("finish_reason", fields.get("finish_reason")),
        request_id=_text("request_id", fields.get("request_id")),
        prompt_tokens=_count("prompt_tokens", spent["prompt_tokens"]),
        completion_tokens=_count("completion_tokens", spent["completion_tokens"]),
    )


def _truth(value: object) -> bool | None:
    """Return what is true or false, numpy's own included; None for anything else."""
    if isinstance(value, bool):
        return value
    return bool(value) if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_") else None


def tool_call(call: object) -> Mapping[str, Any]:
    """Return a call of a tool in OpenAI's shape, from that, from REBEL's `{name, input_parameters}`, or an object."""
    function = _part(call, "function")
    source = call if function is None else function
    name = _part(source, "name")
    if not isinstance(name, str) or not name:
        raise WrongAnswer("tools_called has a call without a function name")
    arguments = _part(source, "arguments")
    if arguments is None:
        arguments = _part(source, "input_parameters")
    kind, number = _part(call, "type") or "function", _part(call, "id") or ""
    try:
        if not isinstance(arguments, str):
            arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise WrongAnswer("tools_called has arguments that cannot be written as JSON") from None
    return {"id": str(number), "type": str(kind), "function": {"name": name, "arguments": arguments}}


def _part(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _text(name: str, value: object) -> str | None:
    return None if value is None else _needed_text(name, value)


def _needed_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise WrongAnswer(f"{name} of the answer is {type(value).__name__}; expected a string")
    return value


def _list(name: str, value: object) -> list[Any] | tuple[Any, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise WrongAnswer(f"{name} of the answer is {type(value).__name__}; expected a list")
    return value


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise WrongAnswer(f"{name} of the answer is {_quoted(repr(value))}; expected a number that is not negative")
    return float(value)


def _count(name: str, value: object) -> int | None:
    if value is None:
        return None
    number = _number(name, value)
    if number != int(number):
        raise WrongAnswer(f"{name} of the answer is {number}; expected a whole number")
    return int(number)


def _quoted(text: str) -> str:
    return f'"{clip(visible(text), 60)}"'


# -- threads ------------------------------------------------------------------------------------------------------


class CallResult(NamedTuple):
    """What a call came to: a value or an error, after so many seconds."""

    value: Any
    error: BaseException | None
    seconds: float


class _Threads:
    """Threads that wait for the next call when they are done with one: to start one takes longer than most calls.

    One that hangs is not waited for: other calls get a thread of their own, and the program can end.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._free = 0
        self._lock = threading.Lock()

    def call(self, work: Callable[[], None]) -> None:
        """Let a thread do some work, which must not raise."""
        with self._lock:
            is_free = self._free > 0
            self._free -= is_free
        self._calls.put(work)
        if not is_free:
            threading.Thread(target=self._run, name="faircount-waiting", daemon=True).start()

    def _run(self) -> None:
        while True:
            self._calls.get()()
            with self._lock:
                self._free += 1


_threads = _Threads()


async def in_thread(call: Callable[[], Any]) -> CallResult:
    """Return what a call that may wait came to."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[CallResult] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        outcome = context.run(_called, call)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, future, outcome)

    _threads.call(work)
    return await future


async def in_loop(call: Callable[[], Awaitable[Any]]) -> CallResult:
    """Return what a coroutine came to."""
    began = time.perf_counter()
    try:
        value, error = await call(), None
    except (Exception, SystemExit) as raised:  # noqa: BLE001  the user's code can fail in any way
        value, error = None, raised
    return CallResult(value, error, time.perf_counter() - began)


async def call_user_code(call: Callable[[], Any], *, waits: bool) -> CallResult:
    """Return what a call came to: a coroutine function in this loop, any other in a thread."""
    result = await (in_loop(call) if waits else in_thread(call))
    if not inspect.isawaitable(result.value):
        return result
    awaitable = result.value  # of a plain function that returns a coroutine

    async def wait() -> Any:
        return await awaitable

    later = await in_loop(wait)
    return later._replace(seconds=result.seconds + later.seconds)


def _called(call: Callable[[], Any]) -> CallResult:
    began = time.perf_counter()
    try:
        value, error = call(), None
    except BaseException as raised:  # noqa: BLE001  it would end in this thread, and nobody would hear of it
        value, error = None, raised
    return CallResult(value, error, time.perf_counter() - began)


def _settle(future: asyncio.Future[CallResult], outcome: CallResult) -> None:
    if not future.done():
        future.set_result(outcome)


# -- targets ------------------------------------------------------------------------------------------------------


METHODS = ("request", "answer", "respond", "__call__")
_LONGEST_MESSAGE = 500


class _FirstParameter(Enum):
    REQUEST = "Request"
    INPUT = "AssistantInput"
    MESSAGES = "messages"


class _UserFunction(Struct, frozen=True):
    """What is asked, what it takes first, and which names it takes beside; None stands for any."""

    function: Callable[..., Any]
    takes: _FirstParameter
    names: frozenset[str] | None
    waits: bool


class LocalTarget(Target):
    """Code of the user's, or a target that a package offers. One answer may take `timeout` seconds."""

    def __init__(
        self, place: CodePlace, arguments: Arguments, timeout: float, plugin: Plugin[Target] | None = None
    ) -> None:
        self.name = place.called
        self._place = place
        self._arguments = arguments
        self._timeout = timeout
        self._plugin = plugin
        if plugin is None:
            module = place.load()
            found, self.version = place.find(module), version_of_code(place.module, module)
        else:
            found, self.version = plugin.kind, f"{plugin.package} {plugin.version}"
        self._object = None if inspect.isroutine(found) else _construct(place, found, arguments)
        self._asked = _function_of(place, found if self._object is None else self._object)
        # A class has its arguments already; a function gets them with every call.
        self._always = dict(arguments.given) if self._object is None else {}
        if self._asked.names is not None:
            refuse_unknown(visible(place.called), self._always, sorted(self._asked.names), "argument")
        if plugin is not None:
            self.decides = bool(getattr(self._object, "decides", False))

    def settings(self) -> Mapping[str, Any]:
        """Return where the code is and what it is given; `version` is the digest of its file, or the package's."""
        where = {"kind": "local", "name": self.name, "place": structs.asdict(self._place)}
        return {
            **(where if self._plugin is None else {"kind": "plugin", "name": self.name}),
            "arguments": dict(self._arguments.recorded),
            "timeout": self._timeout,
            "version": self.version,
        }

    async def answer(self, request: Request) -> Answer:
        """Ask the code."""
        call = self._call(request)
        try:
            result = await in_time(call_user_code(call, waits=self._asked.waits), self._timeout)
        except TimeoutError:
            raise TargetError("timeout", f"no answer within {self._timeout:g} s") from None
        if result.error is not None:
            raise self._failed(result.error) from None
        try:
            answer = answer_of(result.value, result.seconds)
            return without_secrets(answer, self._arguments.hide_in_answer) if self._arguments.secrets else answer
        except WrongAnswer as error:
            raise TargetError("wrong answer", self._for_people(str(error))) from None
        except Exception as error:  # noqa: BLE001  an object of the user's, whose properties may fail
            raise self._failed(error) from None

    async def close(self) -> None:
        """Close an object that can be closed. All answers are there by now: that it fails is no error."""
        for name in ("aclose", "close"):
            method = getattr(self._object, name, None)
            if callable(method):
                await call_user_code(method, waits=inspect.iscoroutinefunction(method))
                return

    def _call(self, request: Request) -> Callable[[], Any]:
        asked = self._asked
        if asked.takes is _FirstParameter.REQUEST:
            own = structs.replace(
                request,
                messages=tuple(plain_messages(request)),
                parameters=_copied(request),
                fields=copy.deepcopy(dict(request.fields)),
            )
            return partial(asked.function, own, **self._always)
        if asked.takes is _FirstParameter.INPUT:
            return partial(asked.function, assistant_input(self._object, request, _copied(request)), **self._always)
        given = {**self._always, **_copied(request)}
        unknown = [name for name in given if asked.names is not None and name not in asked.names]
        if unknown:
            raise TargetError(
                "parameters",
                f"{visible(self.name)} does not take the parameter {clip(visible(unknown[0]), 60)} of the case; "
                "make it accept **parameters",
                tries=0,
            )
        return partial(asked.function, plain_messages(request), **given)

    def _failed(self, error: BaseException) -> TargetError:
        if isinstance(error, TargetError):
            return TargetError(
                error.kind,
                self._for_people(error.message),
                error.tries,
                error.waited,
                categories=error.categories,
                policy_block=error.policy_block,
            )
        if is_signal(error):
            return blocked(error, self._for_people(str(error).strip() or "the guardrail stopped it"))
        words = f"{str(error).strip() or type(error).__name__}{_line(error, self._place)}"
        return TargetError(type(error).__name__, self._for_people(words))

    def _for_people(self, words: str) -> str:
        return clip(visible(mask_secrets(self._arguments.hide(words))), _LONGEST_MESSAGE)


def _copied(request: Request) -> dict[str, Any]:
    return copy.deepcopy(dict(request.parameters)) if request.parameters else {}


# -- finding ----------------------------------------------------------------------------------------------------


def _construct(place: CodePlace, found: Any, arguments: Arguments) -> Any:
    """Return an object of a class, or the object that is there already."""
    if not isinstance(found, type):
        if arguments.given:
            raise UsageError(f"{visible(place.called)}: is already an object and takes no arguments")
        return found
    try:
        with printing_aside():
            return found(**arguments.given)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  the user's code can fail in any way
        words = arguments.hide(f"{in_short(error)}{_line(error, place)}")
        # Not "from error": what the user's error quotes may be a secret.
        raise UsageError(f"{visible(place.called)}: cannot be created with these arguments: {visible(words)}") from None


def _line(error: BaseException, place: CodePlace) -> str:
    """Return where in the user's own file an error came up, the innermost place of it."""
    file = place.module if place.module.endswith(".py") else getattr(sys.modules.get(place.module), "__file__", None)
    if not file:
        return ""
    path = Path(file).resolve()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return f" ({path.name}:{frames[-1].lineno})" if frames else ""


def _function_of(place: CodePlace, target: Any) -> _UserFunction:
    if inspect.isroutine(target):
        return _user_function(place, target, "")
    for name in METHODS:
        if callable(getattr(target, name, None)):
            return _user_function(place, getattr(target, name), name)
    methods = ", ".join(METHODS)
    raise UsageError(f"{visible(place.called)}: is not a function and has none of the methods {methods}")


def _user_function(place: CodePlace, function: Callable[..., Any], method: str) -> _UserFunction:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise UsageError(f"{visible(place.called)}: cannot read its parameters; wrap it in a function") from None
    first = parameters[0] if parameters else None
    if first is None or first.kind in (first.KEYWORD_ONLY, first.VAR_KEYWORD):
        raise UsageError(f"{visible(place.called)}: takes no parameters; the first must be the messages or a Request")
    rest = parameters[1:]
    names = frozenset(one.name for one in rest if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY))
    takes_all = any(one.kind is one.VAR_KEYWORD for one in rest)
    takes = _takes(first, method)
    return _UserFunction(function, takes, None if takes_all else names, inspect.iscoroutinefunction(function))


def _takes(first: inspect.Parameter, method: str) -> _FirstParameter:
    if first.annotation is first.empty:
        if method == "request":
            return _FirstParameter.INPUT
        return _FirstParameter.REQUEST if first.name == "request" else _FirstParameter.MESSAGES
    word = first.annotation if isinstance(first.annotation, str) else getattr(first.annotation, "__name__", "")
    word = word.strip("'\" ").rpartition(".")[2]
    if word == "Request":
        return _FirstParameter.REQUEST
    # A class whose method is called `request` is REBEL's, whatever its annotation is called.
    return _FirstParameter.INPUT if word == "AssistantInput" or method == "request" else _FirstParameter.MESSAGES
