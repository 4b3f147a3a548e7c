"""An attack that asks the target itself, as a play that is asked: it runs in a thread and stops at every request.

The thread is nobody's to wait for: it does not keep the program from ending. When the play is closed, whatever the
attack asks next ends it; one that catches even that, and asks on and on, is left asleep.
"""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from faircount.components.code import in_short
from faircount.core.text import clip, mask_secrets, visible
from faircount.runs.attacks.base import AttackError, Entry, Messages, Play, Prompt, Step
from faircount.runs.attacks.conversation import after, opening, user

if TYPE_CHECKING:
    import asyncio

_LONGEST_ERROR = 300
_PATIENCE = 100
"""How often an attack that is over may ask on before it is left asleep."""


class Call(NamedTuple):
    """An attack of spikee's, called with what spikee gives it by place, and what takes secrets out of its errors."""

    function: Callable[..., Any]
    hide: Callable[[str], str]


class Ended(BaseException):
    """Raised in an attack that nobody listens to any more. Not an Exception: attacks catch those and go on."""


class GuardrailTrigger(Exception):
    """What spikee's attacks expect for a request that a guardrail blocked, where spikee itself is not loaded."""

    def __init__(self, message: str, categories: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.categories = {} if categories is None else categories


class TargetFailed(Exception):
    """A request that ended in an error."""


class _Asks(NamedTuple):
    """The attack wants something sent."""

    messages: Messages


class _Done(NamedTuple):
    """The attack is over; `error` is what it raised."""

    error: BaseException | None


class SpikeePlay(Play):
    """One attack of spikee's on one entry."""

    def __init__(self, call: Call, entry: Entry, fields: dict[str, Any], iterations: int) -> None:
        self._call = call
        self._entry = entry
        self._fields = fields
        self._iterations = iterations
        self._answers: queue.SimpleQueue[Step | None] = queue.SimpleQueue()
        self._asked: asyncio.Queue[_Asks | _Done] | None = None
        self._heard = 0
        """How many steps of the history the attack has heard of, or been found not to repeat."""
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
            told = await asked.get()
            if isinstance(told, _Done):
                self._over = True
                if told.error is not None:
                    raise AttackError(self._words(told.error)) from None
                return None
            if self._heard < len(history) and _same(history[self._heard].messages, told.messages):
                self._hear(history[self._heard])
                continue
            # It is new, or not what is recorded: the rest of the record is none of its answers.
            self._heard, self._waits = len(history), True
            return Prompt(told.messages)

    async def close(self) -> None:
        """Let the attack end."""
        self._stop()

    def _begun(self, history: Sequence[Step]) -> asyncio.Queue[_Asks | _Done]:
        """Return what the attack asks by: begun, or with the answer to what it asked last."""
        import asyncio

        if self._asked is not None:
            if self._waits:
                self._hear(history[self._heard])
            return self._asked
        loop = asyncio.get_running_loop()
        asked: asyncio.Queue[_Asks | _Done] = asyncio.Queue()
        self._asked = asked

        def tell(what: _Asks | _Done) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(asked.put_nowait, what)

        stand_in = StandIn(self._entry, tell, self._answers)
        given = (self._fields, stand_in, stand_in.judge, self._iterations, Bar(self._iterations), threading.Lock())

        def work() -> None:
            error: BaseException | None = None
            try:
                self._call.function(*given)
            except BaseException as raised:  # noqa: BLE001  it would end in this thread, and nobody would hear of it
                error = raised
            tell(_Done(error))

        threading.Thread(target=work, name="faircount-attack", daemon=True).start()
        return asked

    def _hear(self, step: Step) -> None:
        self._heard, self._waits = self._heard + 1, False
        self._answers.put(step)

    def _stop(self) -> None:
        self._over = True
        self._answers.put(None)

    def _words(self, error: BaseException) -> str:
        return clip(visible(mask_secrets(self._call.hide(in_short(error)))), _LONGEST_ERROR)


class StandIn:
    """What an attack of spikee's takes for the target, wrapped as spikee wraps it; lives in the attack's thread.

    Every request is handed to the engine, and this waits for what came of it. A session is a conversation: what was
    said in it goes along, and `backtrack` takes the last exchange back.
    """

    def __init__(
        self, entry: Entry, tell: Callable[[_Asks | _Done], None], answers: queue.SimpleQueue[Step | None]
    ) -> None:
        self.config = {"single-turn": True, "multi-turn": True, "backtrack": True}
        self.target_options = None
        self._entry = entry
        self._tell = tell
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
        told = getattr(response, "content", response)
        found = next((step for step in reversed(self._steps) if step.response == told), None)
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
        self._tell(_Asks(messages))
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
        raise Ended


class Bar:
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
    from faircount.components.code import is_there, printing_aside

    if not is_there("spikee.tester"):
        return None
    try:
        with printing_aside():
            from spikee.tester import GuardrailTrigger as Theirs  # type: ignore[import-not-found, unused-ignore]
    except Exception:  # noqa: BLE001  another package can fail in any way
        return None
    return Theirs


def _same(one: Messages, other: Messages) -> bool:
    return [dict(message) for message in one] == [dict(message) for message in other]
