"""Targets in the user's own code: `./file.py:Name` or `package.module:Name`, only where the user names them so.

`Name` is a function, a class, or an object. A class is made once, with the arguments that the user gives. Of a class or
an object the first of these methods is asked: `request`, `answer`, `respond`, `__call__`. What is asked gets, by the
annotation of its first parameter,

    Request          the whole request: messages, parameters, case, attempt, fields, conversation
    AssistantInput   REBEL's input: messages, api_params
    anything else    the messages, a list of mappings in OpenAI's shape, and the parameters of the case by their names

and where the parameter has no annotation: a Request if it is called `request`, an AssistantInput if the method is
called `request` (REBEL's `APIClient`), else the messages. Parameters that a function does not take are an error and not
dropped; `**parameters` takes all. The arguments that the user gives for a function go with every call, and those of the
case before them.

It may be sync or async; sync code runs in threads of its own. It returns what `answers` says. What it raises becomes a
recorded error with the name of its type; the signal of a guardrail (`faircount.testing.GuardrailTriggered`, or
spikee's) becomes a block with its categories. What it is handed is its own: changing it changes no record.
"""

from __future__ import annotations

import copy
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from faircount.compat.rebel.client import assistant_input
from faircount.components.code import CodePlace, in_short, printing_aside, refuse_unknown, version_of_code
from faircount.components.factory import Plugin
from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets, visible
from faircount.runs.targets.answers import WrongAnswer, answer_of, without_secrets
from faircount.runs.targets.arguments import Arguments
from faircount.runs.targets.base import Answer, Request, Target, TargetError, plain_messages
from faircount.runs.targets.concurrency import Outcome, in_loop, in_thread
from faircount.runs.targets.guardrail import blocked, is_signal

METHODS = ("request", "answer", "respond", "__call__")
_LONGEST_MESSAGE = 500


class _Takes(Enum):
    REQUEST = "Request"
    INPUT = "AssistantInput"
    MESSAGES = "messages"


class _Asked(Struct, frozen=True):
    """What is asked, what it takes first, and which names it takes beside; None stands for any."""

    function: Callable[..., Any]
    takes: _Takes
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
        self._object = None if inspect.isroutine(found) else _made(place, found, arguments)
        self._asked = _asked(place, found if self._object is None else self._object)
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
        outcome = await self._outcome(self._call(request))
        if outcome.error is not None:
            raise self._failed(outcome.error) from None
        try:
            return without_secrets(answer_of(outcome.value, outcome.seconds), self._arguments.hide_in_answer)
        except WrongAnswer as error:
            raise TargetError("wrong answer", self._for_people(str(error))) from None
        except Exception as error:  # noqa: BLE001  an object of the user's, whose properties may fail
            raise self._failed(error) from None

    async def close(self) -> None:
        """Close an object that can be closed. All answers are there by now: that it fails is no error."""
        for name in ("aclose", "close"):
            method = getattr(self._object, name, None)
            if callable(method):
                waits = inspect.iscoroutinefunction(method)
                await (in_loop(method) if waits else in_thread(method))
                return

    def _call(self, request: Request) -> Callable[[], Any]:
        asked = self._asked
        if asked.takes is _Takes.REQUEST:
            own = structs.replace(
                request,
                messages=tuple(plain_messages(request)),
                parameters=_copied(request),
                fields=copy.deepcopy(dict(request.fields)),
            )
            return partial(asked.function, own, **self._always)
        if asked.takes is _Takes.INPUT:
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

    async def _outcome(self, call: Callable[[], Any]) -> Outcome:
        import asyncio

        try:
            async with asyncio.timeout(self._timeout):
                outcome = await (in_loop(call) if self._asked.waits else in_thread(call))
                if inspect.isawaitable(outcome.value):  # a plain function that returns a coroutine
                    later = await in_loop(partial(_identity, outcome.value))
                    outcome = later._replace(seconds=outcome.seconds + later.seconds)
                return outcome
        except TimeoutError:
            raise TargetError("timeout", f"no answer within {self._timeout:g} s") from None

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


async def _identity(value: Any) -> Any:
    return await value


def _copied(request: Request) -> dict[str, Any]:
    return copy.deepcopy(dict(request.parameters)) if request.parameters else {}


# -- finding ----------------------------------------------------------------------------------------------------


def _made(place: CodePlace, found: Any, arguments: Arguments) -> Any:
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


def _asked(place: CodePlace, target: Any) -> _Asked:
    if inspect.isroutine(target):
        return _as_asked(place, target, "")
    for name in METHODS:
        if callable(getattr(target, name, None)):
            return _as_asked(place, getattr(target, name), name)
    methods = ", ".join(METHODS)
    raise UsageError(f"{visible(place.called)}: is not a function and has none of the methods {methods}")


def _as_asked(place: CodePlace, function: Callable[..., Any], method: str) -> _Asked:
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
    return _Asked(function, takes, None if takes_all else names, inspect.iscoroutinefunction(function))


def _takes(first: inspect.Parameter, method: str) -> _Takes:
    if first.annotation is first.empty:
        if method == "request":
            return _Takes.INPUT
        return _Takes.REQUEST if first.name == "request" else _Takes.MESSAGES
    word = first.annotation if isinstance(first.annotation, str) else getattr(first.annotation, "__name__", "")
    word = word.strip("'\" ").rpartition(".")[2]
    if word == "Request":
        return _Takes.REQUEST
    # A class whose method is called `request` is REBEL's, whatever its annotation is called.
    return _Takes.INPUT if word == "AssistantInput" or method == "request" else _Takes.MESSAGES
