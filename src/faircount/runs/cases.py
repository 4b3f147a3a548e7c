"""A case, its metrics, and what they say of an answer, without keeping the event loop or waiting for ever.

Whatever a metric does, something comes back that can be written down: what it raises is an error of its own, and takes
nothing from the answer or from other metrics. Metrics that never wait are asked at once. Those that may wait are asked
in a thread, one after the other; one that does not come back in time is an error of its own, and those behind it have
their turn nevertheless. The thread that it hangs in goes on by itself, and ends with the program.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import hashlib
import inspect
import json
import threading
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from faircount.chat.client import Background
from faircount.chat.http import Key
from faircount.compat.rebel import PACKAGE, is_rebel_metric, rebel_input, rebel_output
from faircount.components.code import in_short, version_of
from faircount.core.attempt import Attempt
from faircount.core.text import clip, mask_secrets
from faircount.core.verdict import Decision, Usage, Verdict
from faircount.readers.aggregation import all_passed, any_hit
from faircount.readers.journals import AttemptsRecord, CaseRecord, InputRecord, MetricRecord, OutputRecord, State
from faircount.readers.run_rows import decision_of
from faircount.runs.targets.user_code import in_thread
from faircount.testing.cases import AssistantInput, AssistantOutput
from faircount.testing.fields import Declared, class_name, plain, secrets_in
from faircount.testing.metrics import Metric, attempt_from, score_of, verdict_of

T = TypeVar("T")

_LONGEST_REASON = 100_000
_LONGEST_NAME = 500
_DIGITS = 16
_OUTPUT_FIELDS = ("output", "tools_called", "context", "execution_time")


class Measuring(Protocol):
    """What measures the answers of a case: a metric of a test, or the judge of an entry."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...
    @property
    def blocking(self) -> bool: ...
    @property
    def judge(self) -> Any: ...
    @property
    def digest(self) -> str: ...
    def ready(self) -> None: ...
    def close(self) -> None: ...
    def measure(self, case: Case, output: OutputRecord) -> Verdict: ...


class CaseMetric(Struct, frozen=True):
    """A metric of a case: under which name, what it is, and how it is asked.

    `type` is the module and class, `version` says which code that is: the digest of its file, or the version of its
    rules or of REBEL. `parameters` are plain data without secrets. `blocking`: it is asked in a thread.
    """

    name: str
    type: str
    version: str
    parameters: Mapping[str, Any]
    judge: Any
    blocking: bool = True
    keys: tuple[Key, ...] = ()

    @property
    def digest(self) -> str:
        """Return the SHA-256 of everything that can change what the metric says."""
        content = {"type": self.type, "version": self.version, "parameters": self.parameters}
        text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def ready(self) -> None:
        """Raise UsageError where the metric could measure nothing at all: a key that is missing, say."""
        _call(self.judge, "ready")

    def close(self) -> None:
        """Give back what the metric holds."""
        _call(self.judge, "close")

    def measure(self, case: Case, output: OutputRecord) -> Verdict:
        """Return what the metric says of an answer. Blocks; threads may ask at the same time."""
        try:
            told = self.judge.measure(**_arguments(self.judge, case, output))
            if inspect.isawaitable(told):
                told = _awaited(told)
            return self._measured(told)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  the outermost door of metrics, which may be anybody's code
            # REBEL's reports have the text of the error as the reason.
            reason = clip(mask_secrets(self._hidden(str(error) or type(error).__name__)), _LONGEST_REASON)
            return _undecided(self, self._hidden(in_short(error)), reason)

    def _measured(self, told: Any) -> Verdict:
        for name in ("score", "verdict"):
            if not hasattr(told, name):
                wrong = f"the metric returned {_kind(told)}, not an EvaluationResult"
                return _undecided(self, wrong, wrong)
        decision = decision_of(verdict_of(told.verdict).value)
        reason = getattr(told, "reason", None)
        reason = "" if reason is None else self._hidden(str(reason))
        usage = getattr(told, "usage", None)
        return Verdict(
            decision,
            score_of(told.score),
            clip(reason, _LONGEST_REASON),
            error=(reason or "the metric reported an error") if decision is None else None,
            usage=usage if isinstance(usage, Usage) else None,
            judge=self.name,
        )

    def _hidden(self, text: str) -> str:
        for key in self.keys:
            text = key.hide_in_message(text)
        return text


class Case(Struct, frozen=True, kw_only=True):
    """What is asked of a target, what is expected, how it is measured, how often it is tried.

    `messages` are in OpenAI's shape, without what is not there. `expected` has all fields of an output, and
    `expected_fields` says which of them somebody gave. `fields` is what a dataset says of an entry.
    """

    name: str
    messages: tuple[Mapping[str, Any], ...]
    metrics: tuple[Measuring, ...]
    attempts: int = 1
    place: str = ""
    tags: tuple[str, ...] = ()
    api_params: Mapping[str, Any] = {}
    expected: Mapping[str, Any] = {}
    expected_fields: tuple[str, ...] = ()
    fields: Mapping[str, Any] = {}

    def is_called(self, name: str) -> bool:
        """Return whether a name means this case."""
        return name == self.name

    @property
    def units(self) -> int:
        """How much there is to do, as progress counts it."""
        raise NotImplementedError

    def units_done(self, state: State) -> int:
        """Return how much of it a journal has a record of."""
        raise NotImplementedError

    def success(self, decisions: Iterable[Decision | None]) -> bool | None:
        """Return what the verdicts on an attempt come to."""
        raise NotImplementedError

    def record(self) -> CaseRecord:
        """Return what is written down about the case."""
        raise NotImplementedError

    def _recorded(self) -> dict[str, Any]:
        metrics = [
            MetricRecord(one.name, one.type, one.version, dict(one.parameters), one.digest) for one in self.metrics
        ]
        asked = InputRecord(list(self.messages), plain(self.api_params))
        return {"case": self.name, "input": asked, "metrics": metrics, "place": self.place}


class TaskCase(Case, frozen=True, kw_only=True):
    """A case of a test: its attempts do not depend on each other, and all its metrics must pass one.

    `function` and `suite` are the names that it comes from; `declared_name` is its name before a number made it unique,
    empty where none did.
    """

    aggregation: str = "mean"
    expected_fields: tuple[str, ...] = _OUTPUT_FIELDS
    function: str = ""
    suite: str = ""
    declared_name: str = ""

    def is_called(self, name: str) -> bool:
        """Return whether a name means this case: its own, or that of its suite or function."""
        return name in (self.name, self.declared_name, self.suite, self.function)

    @property
    def units(self) -> int:
        """Its attempts."""
        return self.attempts

    def units_done(self, state: State) -> int:
        """Return how many attempts have a record."""
        return sum(state.is_done(self.name, attempt) for attempt in range(self.attempts))

    def success(self, decisions: Iterable[Decision | None]) -> bool | None:
        """Return whether all metrics passed an attempt."""
        return all_passed(decisions)

    def record(self) -> CaseRecord:
        """Return what is written down about the case."""
        return CaseRecord(
            **self._recorded(),
            tags=list(self.tags),
            expected_output=dict(self.expected),
            expected_fields=list(self.expected_fields),
            retry_params=AttemptsRecord(self.attempts, self.aggregation),
            declared_name=self.declared_name,
        )


class AttackCase(Case, frozen=True, kw_only=True):
    """An entry of a dataset: its attempts follow each other and end with the first success.

    There are up to `attempts` that were answered. `turns` are further messages of the user, sent one after the other
    once the one before was answered.
    """

    turns: tuple[str, ...] = ()

    @property
    def units(self) -> int:
        """The entry itself."""
        return 1

    def units_done(self, state: State) -> int:
        """Return 1 if nothing more is to be tried."""
        return int(state.is_finished(self.name))

    def success(self, decisions: Iterable[Decision | None]) -> bool | None:
        """Return whether any judge found what it looks for."""
        return any_hit(decisions)

    def record(self) -> CaseRecord:
        """Return what is written down about the entry."""
        prompt = self.messages[-1].get("content") if self.messages else None  # is in `input` already
        fields = {name: value for name, value in self.fields.items() if value != prompt}
        return CaseRecord(**self._recorded(), entry=fields, turns=list(self.turns) or ())


class Chosen(Struct, frozen=True):
    """The cases that are run, the files that they come from with their SHA-256, and what is to be said about them."""

    cases: tuple[Case, ...]
    files: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def attempt_of(case: Case, output: OutputRecord) -> Attempt:
    """Return an attempt as judges see it."""
    return attempt_from(*_ours(case, output))


def _ours(case: Case, output: OutputRecord) -> tuple[AssistantInput, AssistantOutput, AssistantOutput]:
    asked = AssistantInput(messages=[_as_message(message) for message in case.messages], api_params=case.api_params)  # type: ignore[arg-type]
    return asked, AssistantOutput(**_expected(case)), AssistantOutput(**_actual(output))


def _as_message(message: Mapping[str, Any]) -> Any:
    return message if "content" in message else {**message, "content": None}


def _expected(case: Case) -> dict[str, Any]:
    return {name: case.expected[name] for name in case.expected_fields}


def _actual(output: OutputRecord) -> dict[str, Any]:
    return {name: value for name in _OUTPUT_FIELDS if (value := getattr(output, name)) is not None}


def _arguments(judge: object, case: Case, output: OutputRecord) -> dict[str, Any]:
    """Return what a metric is called with: objects of its own, so that what it does to them concerns nobody else."""
    if is_rebel_metric(judge):
        asked, expected = rebel_input(case.messages, case.api_params), rebel_output(_expected(case))
        return {"input": asked, "expected": expected, "actual": rebel_output(_actual(output))}
    return dict(zip(("input", "expected", "actual"), _ours(case, output), strict=True))


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _call(judge: object, name: str) -> None:
    method = getattr(judge, name, None)
    # REBEL's metrics are pydantic models: a field may have the name.
    if callable(method) and not is_rebel_metric(judge):
        method()


# -- measuring --------------------------------------------------------------------------------------------------


async def measured(case: Case, output: OutputRecord, timeout: float | None) -> list[Verdict]:
    """Return what every metric says of an answer, in their order."""
    if not any(metric.blocking for metric in case.metrics):
        return [metric.measure(case, output) for metric in case.metrics]
    said: list[Verdict] = []
    while len(said) < len(case.metrics):
        said += await _as_many_as_come(case, case.metrics[len(said) :], output, timeout)
    return said


async def _as_many_as_come(
    case: Case, metrics: Sequence[Measuring], output: OutputRecord, timeout: float | None
) -> list[Verdict]:
    """Return what metrics say, up to and with the first that does not come back in time."""
    said: list[Verdict] = []
    given_up = False

    def ask() -> None:
        for metric in metrics:
            try:
                told = metric.measure(case, output)
            except BaseException as error:  # noqa: BLE001  in a thread nobody else would hear of it
                told = _undecided(metric, in_short(error))
            if given_up:
                return
            said.append(told)

    try:
        async with asyncio.timeout(timeout):
            await in_thread(ask)
    except TimeoutError:
        given_up = True
        late = [_undecided(metric, f"no verdict within {timeout:g} s") for metric in metrics[len(said) :]]
        return [*said, *late[:1]]
    return said


def _awaited(work: Awaitable[T]) -> T:
    """Return what a coroutine function of a metric says; it runs on an event loop in another thread."""

    async def wait() -> T:
        return await work

    return _loop().submit(wait()).result()


def _loop() -> Background:
    """Return the loop of all metrics: what one of them keeps (connections, say) works as long as the program does."""
    global _background
    with _lock:
        if _background is None or not _background.is_here:
            _background = Background()
            atexit.register(_background.close)
        return _background


_lock = threading.Lock()
_background: Background | None = None


def _undecided(metric: Measuring, error: str, reason: str = "") -> Verdict:
    return Verdict(None, reason=reason, error=error, judge=metric.name)


# -- making -----------------------------------------------------------------------------------------------------


def case_metric(judge: Any, *, taken: set[str]) -> CaseMetric:
    """Return a metric of a case; a name that is taken gets a number. TypeError or ValueError: it is no metric."""
    if isinstance(judge, type) or not callable(getattr(judge, "measure", None)):
        what = (
            f"the class {judge.__name__}; create an instance: {judge.__name__}(…)"
            if isinstance(judge, type)
            else _kind(judge)
        )
        raise TypeError(f"a metric needs a method measure; this is {what}")
    name = _unique(_name(judge), taken)
    taken.add(name)
    keys = tuple(Key(secret) for secret in sorted(secrets_in(judge), key=len, reverse=True))
    return CaseMetric(
        name=name,
        type=class_name(type(judge)),
        version=_version(judge),
        parameters=_parameters(judge),
        judge=judge,
        blocking=_blocks(judge),
        keys=keys,
    )


def _name(judge: Any) -> str:
    name = judge.get_name() if callable(getattr(judge, "get_name", None)) else type(judge).__name__
    if not isinstance(name, str) or not name:
        raise TypeError(f"get_name of {type(judge).__name__} must return a string; it returned {name!r}")
    return clip(mask_secrets(name), _LONGEST_NAME)


def _unique(name: str, taken: set[str]) -> str:
    number, candidate = 1, name
    while candidate in taken:
        number += 1
        candidate = f"{name} #{number}"
    return candidate


def _parameters(judge: Any) -> Mapping[str, Any]:
    parameters = plain(judge)
    if isinstance(parameters, Mapping):
        return parameters
    own = {name: value for name, value in getattr(judge, "__dict__", {}).items() if not name.startswith("_")}
    written = plain(own)
    return written if isinstance(written, Mapping) else {}


def _version(judge: object) -> str:
    """Return which code a metric is: the version that it tells, or the digest of its file, and those of its parts."""
    told = judge._code_version() if isinstance(judge, Metric) else None
    rebel = f"{PACKAGE} {version_of(PACKAGE)}" if is_rebel_metric(judge) else None
    parts = [judge, *(value for value in getattr(judge, "__dict__", {}).values() if isinstance(value, Declared))]
    digests = [_code_digest(type(part)) for part in parts]
    known = dict.fromkeys(word for word in (told, rebel, *digests) if word)
    return " ".join(known) or "unknown"


def _code_digest(kind: type) -> str:
    """Return the digest of the file that a class stands in, if that is the user's own."""
    if kind.__module__.partition(".")[0] in ("faircount", "rebel", "builtins"):
        return ""
    try:
        path = Path(inspect.getfile(kind))
        return _file_digest(path, path.stat().st_mtime_ns)
    except (TypeError, OSError):
        return ""


@functools.lru_cache(maxsize=256)
def _file_digest(path: Path, _changed: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]


def _blocks(judge: Any) -> bool:
    blocking = getattr(judge, "blocking", True)
    return blocking if isinstance(blocking, bool) else True
