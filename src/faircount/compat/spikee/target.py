"""spikee's target modules: `spikee:NAME`, and `spikee:./path/target.py` for a file by its path.

`NAME` is `./targets/NAME.py` of the workspace that the command runs in, else one of the installed package. Both forms
are taken: a class with a method `process_input`, and a module with a function of that name. It gets what it has
parameters for, as in spikee: `target_options`, `logprobs`, `input_id`, `output_file`, `spikee_session_id`, `backtrack`.
It returns a text, true or false, or one of these with something beside, which is dropped.

What spikee's targets raise is known by the name of its class. `GuardrailTrigger` is a block with its categories, and is
not repeated. `RetryableError`, and any error with "429" in its words, is repeated within the limits of the run, after
`retry_period` where it says one. `MultiTurnSkip` is an error of that name. A target keeps its conversations itself, by
their session: one that it does not know, because a run was resumed in the middle of it, cannot be gone on with.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import structs

from faircount.chat.rate_limit import Clock, RateLimit, Retrying
from faircount.chat.settings import ChatSettings
from faircount.chat.types import ChatError, Trouble
from faircount.compat.spikee import class_with, file_version
from faircount.components.code import (
    CodePlace,
    imported,
    in_short,
    is_there,
    printing_aside,
    version_of,
)
from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets, visible
from faircount.runs.targets.base import (
    Answer,
    Request,
    Target,
    TargetError,
    blocked,
    has_name,
    is_signal,
    prompt_of,
    recorded_retries,
    system_of,
    unanswered,
)
from faircount.runs.targets.user_code import Arguments, WrongAnswer, answer_of, in_thread, without_secrets

PREFIX = "spikee:"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_AGAIN = frozenset(["RetryableError"])
_SKIP = frozenset(["MultiTurnSkip"])
_OPTION = "target_options"
_LONGEST_MESSAGE = 500
_GIVEN = frozenset(
    ["input_text", "system_message", _OPTION, "logprobs", "input_id", "output_file", "spikee_session_id", "backtrack"]
)


class SpikeeTarget(Target):
    """A target that was written for spikee. `folder` is the workspace."""

    def __init__(self, called: str, arguments: Arguments, folder: str, chat: ChatSettings) -> None:
        self.name = f"{PREFIX}{called}"
        self._called = called
        self._arguments = arguments
        self._folder = folder
        self._chat = chat
        self._options = _options(self.name, arguments)
        module, self.version = _found(called, folder)
        implementation = _implementation(self.name, module)
        self._function = _function(self.name, implementation)
        self._takes = frozenset(inspect.signature(self._function).parameters)
        if self._options is not None and _OPTION not in self._takes:
            raise UsageError(f"{visible(self.name)}: takes no {_OPTION}")
        self._several_turns = _takes_several_turns(implementation)
        self._turns: dict[str, int] = {}
        pace = RateLimit(chat.requests_per_minute, chat.longest_wait, Clock())
        self._retrying = Retrying(chat, pace, Clock())

    def settings(self) -> Mapping[str, Any]:
        """Return which module is asked, and with what; `version` is that of spikee, with the digest of the file."""
        return {
            "kind": "spikee",
            "name": self.name,
            "module": self._called,
            "arguments": dict(self._arguments.recorded),
            "folder": self._folder,
            "version": self.version,
            "chat": recorded_retries(self._chat),
        }

    async def answer(self, request: Request) -> Answer:
        """Ask the module."""
        given = self._given(request)

        async def once() -> Answer | TargetError:
            try:
                return await self._once(given)
            except TargetError as error:
                return error

        try:
            tried = await self._retrying.first(once, contextlib.nullcontext(), visible(self.name))
        except ChatError as error:
            raise unanswered(error) from None
        result = tried.value
        if isinstance(result, TargetError):
            raise TargetError(result.kind, result.message, tried.tries, tried.waited, categories=result.categories)
        if request.conversation and self._several_turns:
            self._turns[request.conversation] = _user_turns(request)
        return structs.replace(result, tries=tried.tries, waited=tried.waited)

    def _given(self, request: Request) -> dict[str, Any]:
        given: dict[str, Any] = {"input_text": prompt_of(request), "system_message": system_of(request)}
        session, backtrack = self._session(request)
        offered = {
            "logprobs": False,
            "input_id": request.fields.get("id", request.case),
            "output_file": None,
            "spikee_session_id": session,
            "backtrack": backtrack,
        }
        if self._options is not None:
            offered[_OPTION] = self._options
        return given | {name: value for name, value in offered.items() if name in self._takes}

    def _session(self, request: Request) -> tuple[str | None, bool]:
        """Return the session of a conversation, and whether its last turn is taken back."""
        turns, known = _user_turns(request), self._turns.get(request.conversation, 0)
        if turns <= 1 and known == 0:
            return request.conversation or None, False
        if not self._several_turns:
            raise TargetError(
                "MultiTurnSkip", f"{visible(self.name)} takes single turns, but this is a conversation", 0
            )
        if request.conversation and turns == known + 1:
            return request.conversation, False
        if request.conversation and turns == known and "backtrack" in self._takes:
            return request.conversation, True
        raise TargetError(
            "conversation",
            f"{visible(self.name)} keeps its own conversations and cannot be asked for turn {turns} of this one: "
            f"it has {known}",
            tries=0,
        )

    async def _once(self, given: Mapping[str, Any]) -> Answer:
        import asyncio

        try:
            async with asyncio.timeout(self._chat.timeout):
                outcome = await in_thread(partial(self._function, **given))
        except TimeoutError:
            raise TargetError("timeout", f"no answer within {self._chat.timeout:g} s") from None
        if outcome.error is not None:
            raise self._failed(outcome.error) from None
        value = outcome.value
        if isinstance(value, tuple):
            if len(value) != 2:
                raise TargetError("wrong answer", f"the target returned a tuple of {len(value)}; expected a pair")
            value = value[0]
        if not isinstance(value, str | bool):
            raise TargetError(
                "wrong answer", f"the target returned {type(value).__name__}; expected a string, or true or false"
            )
        try:
            answer = answer_of(value, outcome.seconds)
        except WrongAnswer as error:
            raise TargetError("wrong answer", self._for_people(str(error))) from None
        return without_secrets(answer, self._arguments.hide_in_answer)

    def _failed(self, error: BaseException) -> TargetError | Trouble:
        words = self._for_people(str(error).strip() or type(error).__name__)
        if is_signal(error):
            return blocked(error, words)
        kind = type(error).__name__
        if has_name(error, _SKIP):
            return TargetError("MultiTurnSkip", words)
        if has_name(error, _AGAIN) or "429" in str(error):
            return Trouble(words, kind=kind, again=True, wait=_seconds(getattr(error, "retry_period", None)))
        return TargetError(kind, words)

    def _for_people(self, words: str) -> str:
        return clip(visible(mask_secrets(self._arguments.hide(words))), _LONGEST_MESSAGE)


def _user_turns(request: Request) -> int:
    return sum(message.get("role") == "user" for message in request.messages)


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        return None
    return float(value)


# -- finding ----------------------------------------------------------------------------------------------------


def _options(name: str, arguments: Arguments) -> Any:
    unknown = [given for given in arguments.given if given != _OPTION]
    if unknown:
        raise UsageError(f"{visible(name)}: has no argument {visible(unknown[0])}; it takes {_OPTION}")
    return arguments.given.get(_OPTION)


def _found(called: str, folder: str) -> tuple[ModuleType, str]:
    name = visible(f"{PREFIX}{called}")
    if called.endswith(".py"):
        return _of_file(called, str(Path(folder) / called), folder)
    if not _NAME.fullmatch(called):
        raise UsageError(f"{name}: name one of spikee's target modules, or its file: {PREFIX}./targets/mine.py")
    near = Path(folder) / "targets" / f"{called}.py"
    if near.is_file():
        return _of_file(called, str(near), folder)
    if not is_there("spikee"):
        raise UsageError(f"{name}: there is no targets/{called}.py here, and the package spikee is not installed")
    if not is_there(f"spikee.targets.{called}"):
        raise UsageError(f"{name}: there is no targets/{called}.py here, and the installed spikee has no such target")
    return imported(f"spikee.targets.{called}", name, "spikee"), version_of("spikee")


def _of_file(called: str, path: str, folder: str) -> tuple[ModuleType, str]:
    module = CodePlace(called, path, "process_input", folder).load()
    return module, file_version(path, module)


def _implementation(name: str, module: ModuleType) -> Any:
    """Return an object of the first class of a module that has `process_input`, else the module itself."""
    found = class_with(module, "process_input")
    if found is None:
        return module
    try:
        with printing_aside():
            made = found()
            # What spikee shares between processes; here there is one, and its targets need the dictionary.
            share = getattr(made, "add_managed_dicts", None)
            if callable(share):
                share({})
    except (Exception, SystemExit) as error:  # noqa: BLE001  the user's code can fail in any way
        raise UsageError(f"{visible(name)}: cannot be created: {visible(in_short(error))}") from None
    return made


def _function(name: str, implementation: Any) -> Callable[..., Any]:
    function: Callable[..., Any] | None = getattr(implementation, "process_input", None)
    if not callable(function):
        raise UsageError(f"{visible(name)}: has no function process_input and no class with such a method")
    if inspect.iscoroutinefunction(function):
        raise UsageError(f"{visible(name)}: its process_input is async, which spikee does not support")
    for one in inspect.signature(function).parameters.values():
        if (
            one.name not in _GIVEN
            and one.default is one.empty
            and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        ):
            raise UsageError(
                f"{visible(name)}: its process_input takes {one.name}, which spikee does not pass to a target"
            )
    return function


def _takes_several_turns(implementation: Any) -> bool:
    config = getattr(implementation, "config", None)
    return isinstance(config, Mapping) and bool(config.get("multi-turn"))
