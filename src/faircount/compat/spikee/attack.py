"""spikee's attacks: `spikee:best_of_n` from the installed package, `spikee:./attacks/mine.py` from a workspace.

A module of a workspace is loaded only where the user names its file. Both forms are taken: classes with a method
`attack`, and modules with a function of that name. Such an attack asks the target itself and calls a judge; here both
are a stand-in: the attack runs in a thread and stops at every request, and the engine sends, judges and records, within
the same budgets as ever. The thread is nobody's to wait for: it does not keep the program from ending. When the play is
closed, whatever the attack asks next ends it; one that catches even that, and asks on and on, is left asleep.

A run that was stopped is resumed by playing the attack again: as long as it sends what is recorded, it is answered from
the record. Most attacks of spikee's draw at random what nobody can draw again; where one sends something else than is
recorded, that is sent, as the next iteration, and the records from there on stay what they are: attempts that were
made. In all, no more iterations are made than were allowed.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from faircount.compat.spikee import class_with, first_option, installed
from faircount.components.code import in_short, is_there, load, printing_aside, version_of, version_of_code
from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets, visible
from faircount.runs.attacks.base import (
    Attack,
    AttackError,
    Entry,
    Messages,
    Play,
    Prompt,
    Step,
    after,
    opening,
    user,
)
from faircount.runs.targets.user_code import resolve

if TYPE_CHECKING:
    import asyncio


_LONGEST_ERROR = 300
_PATIENCE = 100
"""How often an attack that is over may ask on before it is left asleep."""


class AttackEnded(BaseException):
    """Raised in an attack that nobody listens to any more. Not an Exception: attacks catch those and go on."""


class GuardrailTrigger(Exception):
    """What spikee's attacks expect for a request that a guardrail blocked, where spikee itself is not loaded."""

    def __init__(self, message: str, categories: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.categories = {} if categories is None else categories


class TargetFailed(Exception):
    """A request that ended in an error."""


class _SendRequest(NamedTuple):
    """The attack wants something sent."""

    messages: Messages


class _Done(NamedTuple):
    """The attack is over; `error` is what it raised."""

    error: BaseException | None


class SpikeePlay(Play):
    """One attack of spikee's on one entry, called with what spikee gives it; `hide` takes secrets out of errors."""

    def __init__(self, call: Callable[..., Any], hide: Callable[[str], str], entry: Entry, iterations: int) -> None:
        self._call = call
        self._hide = hide
        self._entry = entry
        self._iterations = iterations
        self._answers: queue.SimpleQueue[Step | None] = queue.SimpleQueue()
        self._asked: asyncio.Queue[_SendRequest | _Done] | None = None
        self._replayed = 0
        """How many steps of the history the attack was answered with, or found not to repeat."""
        self._waits = False
        """Whether the attack waits for the answer to what was returned last."""
        self._over = False

    async def next(self, history: Sequence[Step]) -> Prompt | None:
        """Return what the attack sends next."""
        if self._over or len(history) >= self._iterations:
            self._stop()
            return None
        asked = self._begun(history)
        while True:
            event = await asked.get()
            if isinstance(event, _Done):
                self._over = True
                if event.error is not None:
                    words = visible(mask_secrets(self._hide(in_short(event.error))))
                    raise AttackError(clip(words, _LONGEST_ERROR)) from None
                return None
            recorded = history[self._replayed].messages if self._replayed < len(history) else None
            if recorded is not None and list(map(dict, recorded)) == list(map(dict, event.messages)):
                self._answer(history[self._replayed])
                continue
            # It is new, or not what is recorded: the rest of the record is none of its answers.
            self._replayed, self._waits = len(history), True
            return Prompt(event.messages)

    async def close(self) -> None:
        """Let the attack end."""
        self._stop()

    def _begun(self, history: Sequence[Step]) -> asyncio.Queue[_SendRequest | _Done]:
        """Return what the attack asks by: begun, or with the answer to what it asked last."""
        import asyncio

        if self._asked is not None:
            if self._waits:
                self._answer(history[self._replayed])
            return self._asked
        loop = asyncio.get_running_loop()
        asked: asyncio.Queue[_SendRequest | _Done] = asyncio.Queue()
        self._asked = asked

        def send(event: _SendRequest | _Done) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(asked.put_nowait, event)

        stand_in = StandIn(self._entry, send, self._answers)
        given = (
            as_spikee_has_it(self._entry),
            stand_in,
            stand_in.judge,
            self._iterations,
            SilentBar(self._iterations),
            threading.Lock(),
        )

        def work() -> None:
            error: BaseException | None = None
            try:
                self._call(*given)
            except BaseException as raised:  # noqa: BLE001  it would end in this thread, and nobody would hear of it
                error = raised
            send(_Done(error))

        threading.Thread(target=work, name="faircount-attack", daemon=True).start()
        return asked

    def _answer(self, step: Step) -> None:
        self._replayed, self._waits = self._replayed + 1, False
        self._answers.put(step)

    def _stop(self) -> None:
        self._over = True
        self._answers.put(None)


class StandIn:
    """What an attack of spikee's takes for the target, wrapped as spikee wraps it; lives in the attack's thread.

    Every request is handed to the engine, and this waits for what came of it. A session is a conversation: what was
    said in it goes along, and `backtrack` takes the last exchange back.
    """

    def __init__(
        self, entry: Entry, send: Callable[[_SendRequest | _Done], None], answers: queue.SimpleQueue[Step | None]
    ) -> None:
        self.config = {"single-turn": True, "multi-turn": True, "backtrack": True}
        self.target_options = None
        self._entry = entry
        self._send = send
        self._answers = answers
        self._sessions: dict[str, list[Messages]] = {}
        self._steps: list[Step] = []
        self._in_vain = 0

    def get_target(self) -> StandIn:
        """Return the target behind the wrapping, which is this one too."""
        return self

    def process_input(
        self,
        input_text: object,
        system_message: object = None,
        logprobs: bool = False,
        input_id: object = None,
        output_file: object = None,
        spikee_session_id: object = None,
        backtrack: bool = False,
        **_: Any,
    ) -> tuple[str, Any]:
        """Return the answer to a text, and None in the place of what a target may say beside it."""
        del logprobs, input_id, output_file
        session = None if spikee_session_id is None else str(spikee_session_id)
        said = self._sessions.setdefault(session, []) if session is not None else []
        if backtrack and said:
            said.pop()
        before = said[-1] if said else self._opening(system_message)
        step = self._asked((*before, *user(_text(input_text))))
        said.append(after(step))
        return step.response or "", None

    def judge(self, entry: object, response: object, *_: Any, **__: Any) -> bool:
        """Return what the engine's judge said of the answer; one that nobody decided about is no success."""
        del entry
        content = getattr(response, "content", response)
        found = next((step for step in reversed(self._steps) if step.response == content), None)
        step = found or (self._steps[-1] if self._steps else None)
        return step is not None and step.success is True

    def _opening(self, system_message: object) -> Messages:
        if system_message is None:
            return opening(self._entry)
        rest = tuple(one for one in opening(self._entry) if one.get("role") != "system")
        text = _text(system_message)
        return ({"role": "system", "content": text}, *rest) if text else rest

    def _asked(self, messages: Messages) -> Step:
        """Hand a request over, wait, and return the step, or raise what spikee would have raised."""
        if self._in_vain:
            self._end()
        self._send(_SendRequest(messages))
        step = self._answers.get()
        if step is None:
            self._end()
        self._steps.append(step)
        if step.blocked:
            raise _guardrail(step.error or "blocked")
        if step.error is not None:
            raise TargetFailed(step.error)
        return step

    def _end(self) -> NoReturn:
        self._in_vain += 1
        if self._in_vain > _PATIENCE:
            threading.Event().wait()
        raise AttackEnded


class SilentBar:
    """What an attack takes for spikee's progress bar; it shows nothing."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.n = 0

    def update(self, count: int = 1) -> None:
        """Count."""
        self.n += count

    def refresh(self) -> None:
        """Show nothing."""


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    content = getattr(value, "content", None)
    # spikee's sounds and pictures are objects with Base64 in them.
    if isinstance(content, str) and type(value).__name__ not in ("Audio", "Image"):
        return content
    raise TypeError(f"the attack sent {type(value).__name__}; only strings can be sent")


def _guardrail(message: str) -> Exception:
    """Return the error of a blocked request: of spikee's own class where spikee is loaded, since attacks catch that."""
    tester = sys.modules.get("spikee.tester")
    theirs = getattr(tester, "GuardrailTrigger", None) if tester is not None else _imported()
    kind = theirs if isinstance(theirs, type) and issubclass(theirs, Exception) else GuardrailTrigger
    return kind(message, {})


def _imported() -> Any:
    if not is_there("spikee.tester"):
        return None
    try:
        with printing_aside():
            from spikee.tester import GuardrailTrigger as Theirs  # type: ignore[import-not-found, unused-ignore]
    except Exception:  # noqa: BLE001  another package can fail in any way
        return None
    return Theirs


# -- the attack -------------------------------------------------------------------------------------------------

PREFIX = "spikee"
_OPTION = "attack_options"
_OPTIONS = ("attack_options", "attack_option")
_PLACES = 6
"""How many arguments spikee gives every attack by their place; the option is the seventh, by its name."""


class SpikeeAttack(Attack):
    """One of spikee's attacks. `option` is handed to it as it is; "$NAME" stands for an environment variable.

    Without it the attack gets the first that it offers, as in spikee.
    """

    def __init__(self, target: str, option: str | None, place: str | None = None) -> None:
        self.name = f"{PREFIX}:{target}"
        is_file = target.endswith(".py")
        self._target = target
        self._place = (place or str(Path.cwd() / target)) if is_file else None
        if self._place:
            module = load(self._place)
            spikee = f"spikee {version_of('spikee')}" if is_there("spikee") else "no spikee"
            self.version = f"{spikee}, {version_of_code(self._place, module)}"
        else:
            module, self.version = installed("attack", target), f"spikee {version_of('spikee')}"
        # spikee's attacks print what goes wrong; standard output belongs to answers.
        vars(module).setdefault("print", functools.partial(print, file=sys.stderr))
        self._implementation = _implementation(self.name, module)
        self._call = _function(self.name, self._implementation)
        self.arguments = resolve({} if option is None else {_OPTION: option})
        self._default = first_option(self.name, self._implementation)[0] if option is None else None

    def settings(self) -> Mapping[str, Any]:
        """Return which attack it is, and its option; `version` is spikee's, and the digest of a file."""
        return {
            "kind": "spikee",
            "name": self.name,
            "target": self._target,
            "place": self._place,
            "option": self.arguments.recorded.get(_OPTION),
            "version": self.version,
        }

    def begin(self, entry: Entry, *, iterations: int) -> Play:
        """Return the attack on an entry, in a thread of its own."""
        option = self.arguments.given.get(_OPTION, self._default)
        wanted = inspect.signature(self._call).parameters
        named = dict.fromkeys([one for one in _OPTIONS if one in wanted][:1], option)
        call = functools.partial(self._call, **named)
        return SpikeePlay(call, self.arguments.hide, entry, iterations)


def as_spikee_has_it(entry: Entry) -> dict[str, Any]:
    """Return an entry as a dataset of spikee's has it; what it lacks is filled in."""
    fields = copy.deepcopy(dict(entry.fields))
    content = fields.get("content", fields.get("text"))
    # Several turns are a list there; everything else is what is really sent.
    text = content if isinstance(content, list) else entry.text
    system = [one.get("content") for one in entry.messages if one.get("role") == "system"]
    return {
        "id": entry.name,
        "long_id": entry.name,
        "judge_name": "canary",
        "judge_args": "",
        **fields,
        "content": text,
        "text": text,
        "content_type": "text",
        "system_message": fields.get("system_message") or (system[0] if system else None),
    }


# -- finding ----------------------------------------------------------------------------------------------------


def _implementation(name: str, module: ModuleType) -> Any:
    """Return an object of the first class in a module that has a method `attack`, else the module itself."""
    if inspect.isfunction(getattr(module, "attack", None)):
        return module
    found = class_with(module, "attack")
    try:
        return module if found is None else found()
    except Exception as error:
        raise UsageError(f"{name}: cannot create its class: {in_short(error)}") from error


def _function(name: str, implementation: Any) -> Callable[..., Any]:
    function: Callable[..., Any] | None = getattr(implementation, "attack", None)
    if not callable(function):
        raise UsageError(f"{name}: has no function attack and no class with a method attack")
    parameters = list(inspect.signature(function).parameters.values())
    placed = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    several = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    needed = [one for one in placed[_PLACES:] if one.default is one.empty and one.name not in _OPTIONS]
    if (len(placed) < _PLACES and not several) or needed:
        raise UsageError(
            f"{name}: its attack must take (entry, target_module, call_judge, max_iterations, attempts_bar, bar_lock"
            "[, attack_options]), as spikee calls it"
        )
    return function
