"""What measures the answers of a case: the metrics of a test, and the judges of a dataset's entries.

Whatever a metric does, something comes back that can be written down: what it raises is an error of its own, and takes
nothing from the answer or from other metrics. Metrics that never wait are asked at once. Those that may wait are asked
in a thread, one after the other; one that does not come back in time is an error of its own, and those behind it have
their turn nevertheless. The thread that it hangs in goes on by itself, and ends with the program.

The judge of an entry is the one that the user names, or the one that the entry names itself; a hit is a success of the
attack. A file never chooses code: it can name judges that compare strings, and those to which the user's configuration
gives a name. An entry for whose judge there is nothing to look for is not sent, because nothing would come of it.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import hashlib
import inspect
import itertools
import json
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from faircount.chat.client import Background
from faircount.chat.http import Key
from faircount.compat.rebel import PACKAGE, is_rebel_metric, rebel_input, rebel_output
from faircount.components.code import in_short, version_of
from faircount.components.factory import Context
from faircount.core.attempt import Attempt, ToolCall, Turn
from faircount.core.errors import UsageError
from faircount.core.findings import counted
from faircount.core.text import clip, mask_secrets, visible
from faircount.core.verdict import Usage, Verdict
from faircount.io.lenient_json import BadLine
from faircount.judges.factory import JUDGES, STRING_JUDGES, make_judge, make_trusted_only
from faircount.judges.judge import Judge, every_part, verdict_of, written
from faircount.readers.journals import OutputRecord
from faircount.readers.run_rows import decision_of
from faircount.runs.cases import OUTPUT_FIELDS, Case, CaseMetric
from faircount.runs.targets.user_code import hidden_in_message, in_thread
from faircount.testing.cases import AssistantInput, AssistantOutput, text_of
from faircount.testing.fields import Declared, class_name, plain, secrets_in
from faircount.testing.metrics import Metric, attempt_from, evaluation_verdict, is_our_own, score_of

T = TypeVar("T")

_LONGEST_REASON = 100_000
_LONGEST_NAME = 500
_DIGITS = 16


class TaskMetric(Struct, frozen=True):
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
            result = self.judge.measure(**_arguments(self.judge, case, output))
            if inspect.isawaitable(result):
                result = _awaited(result)
            return self._measured(result)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  metrics may be anybody's code
            # REBEL's reports have the text of the error as the reason.
            reason = clip(mask_secrets(self._hidden(str(error) or type(error).__name__)), _LONGEST_REASON)
            return _undecided(self, self._hidden(in_short(error)), reason)

    def _measured(self, result: Any) -> Verdict:
        for name in ("score", "verdict"):
            if not hasattr(result, name):
                wrong = f"the metric returned {_kind(result)}, not an EvaluationResult"
                return _undecided(self, wrong, wrong)
        decision = decision_of(evaluation_verdict(result.verdict).value)
        reason = getattr(result, "reason", None)
        reason = "" if reason is None else self._hidden(str(reason))
        usage = getattr(result, "usage", None)
        return Verdict(
            decision,
            score_of(result.score),
            clip(reason, _LONGEST_REASON),
            error=(reason or "the metric reported an error") if decision is None else None,
            usage=usage if isinstance(usage, Usage) else None,
            judge=self.name,
        )

    def _hidden(self, text: str) -> str:
        return hidden_in_message(text, self.keys)


def attempt_of(case: Case, output: OutputRecord) -> Attempt:
    """Return an attempt as judges see it."""
    return attempt_from(*_arguments(None, case, output).values())


def _arguments(judge: object, case: Case, output: OutputRecord) -> dict[str, Any]:
    """Return what a metric is called with: objects of its own, so that what it does to them concerns nobody else."""
    expected = {name: case.expected[name] for name in case.expected_fields}
    actual = {name: value for name in OUTPUT_FIELDS if (value := getattr(output, name)) is not None}
    if is_rebel_metric(judge):
        asked = rebel_input(case.messages, case.api_params)
        return {"input": asked, "expected": rebel_output(expected), "actual": rebel_output(actual)}
    messages: Any = [one if "content" in one else {**one, "content": None} for one in case.messages]
    return {
        "input": AssistantInput(messages=messages, api_params=dict(case.api_params)),
        "expected": AssistantOutput(**expected),
        "actual": AssistantOutput(**actual),
    }


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _call(judge: object, name: str) -> None:
    method = getattr(judge, name, None)
    # REBEL's metrics are pydantic models: a field may have the name.
    if callable(method) and not is_rebel_metric(judge):
        method()


# -- measuring --------------------------------------------------------------------------------------------------


async def measure_case(case: Case, output: OutputRecord, timeout: float | None) -> list[Verdict]:
    """Return what every metric says of an answer, in their order."""
    if not any(metric.blocking for metric in case.metrics):
        return [metric.measure(case, output) for metric in case.metrics]
    verdicts: list[Verdict] = []
    while len(verdicts) < len(case.metrics):
        verdicts += await _verdicts_in_time(case, case.metrics[len(verdicts) :], output, timeout)
    return verdicts


async def _verdicts_in_time(
    case: Case, metrics: Sequence[CaseMetric], output: OutputRecord, timeout: float | None
) -> list[Verdict]:
    """Return what metrics say, up to and with the first that does not come back in time."""
    verdicts: list[Verdict] = []
    given_up = False

    def ask() -> None:
        for metric in metrics:
            try:
                result = metric.measure(case, output)
            except BaseException as error:  # noqa: BLE001  in a thread nobody else would hear of it
                result = _undecided(metric, in_short(error))
            if given_up:
                return
            verdicts.append(result)

    try:
        async with asyncio.timeout(timeout):
            await in_thread(ask)
    except TimeoutError:
        given_up = True
        late = [_undecided(metric, f"no verdict within {timeout:g} s") for metric in metrics[len(verdicts) :]]
        return [*verdicts, *late[:1]]
    return verdicts


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


def _undecided(metric: CaseMetric, error: str, reason: str = "") -> Verdict:
    return Verdict(None, reason=reason, error=error, judge=metric.name)


# -- making -----------------------------------------------------------------------------------------------------


def case_metric(judge: Any, *, taken: set[str]) -> TaskMetric:
    """Return a metric of a case; a name that is taken gets a number. TypeError or ValueError: it is no metric."""
    if isinstance(judge, type) or not callable(getattr(judge, "measure", None)):
        what = (
            f"the class {judge.__name__}; create an instance: {judge.__name__}(…)"
            if isinstance(judge, type)
            else _kind(judge)
        )
        raise TypeError(f"a metric needs a method measure; this is {what}")
    name = own = _name(judge)
    for number in itertools.count(2):
        if name not in taken:
            break
        name = f"{own} #{number}"
    taken.add(name)
    keys = tuple(Key(secret) for secret in sorted(secrets_in(judge), key=len, reverse=True))
    blocking = getattr(judge, "blocking", True)
    return TaskMetric(
        name=name,
        type=class_name(type(judge)),
        version=_version(judge),
        parameters=_parameters(judge),
        judge=judge,
        blocking=blocking if isinstance(blocking, bool) else True,
        keys=keys,
    )


def _name(judge: Any) -> str:
    name = judge.get_name() if callable(getattr(judge, "get_name", None)) else type(judge).__name__
    if not isinstance(name, str) or not name:
        raise TypeError(f"get_name of {type(judge).__name__} must return a string; it returned {name!r}")
    return clip(mask_secrets(name), _LONGEST_NAME)


def _parameters(judge: Any) -> Mapping[str, Any]:
    parameters = plain(judge)
    if isinstance(parameters, Mapping):
        return parameters
    own = {name: value for name, value in getattr(judge, "__dict__", {}).items() if not name.startswith("_")}
    written = plain(own)
    return written if isinstance(written, Mapping) else {}


def _version(judge: object) -> str:
    """Return which code a metric is: the version that it tells, or the digest of its file, and those of its parts."""
    declared = judge._code_version() if isinstance(judge, Metric) else None
    rebel = f"{PACKAGE} {version_of(PACKAGE)}" if is_rebel_metric(judge) else None
    parts = [judge, *(value for value in getattr(judge, "__dict__", {}).values() if isinstance(value, Declared))]
    digests = [_code_digest(type(part)) for part in parts]
    known = dict.fromkeys(word for word in (declared, rebel, *digests) if word)
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


# -- judges of entries -------------------------------------------------------------------------------------------------


class EntryMetric:
    """A judge that decides whether an attempt succeeded. Entries whose judge is the same share one of these."""

    def __init__(self, judge: Judge) -> None:
        identity = judge.identity
        self.judge = judge
        self.name = judge.called or judge.name
        self.type = identity.name
        self.version = identity.version
        self.parameters = identity.parameters
        self.digest = identity.digest
        self.blocking = any(part.waits or not is_our_own(part) for part in every_part(judge))

    def ready(self) -> None:
        """Raise UsageError where the judge could decide nothing at all."""
        self.judge.ready()

    def close(self) -> None:
        """Give back what the judge holds."""
        self.judge.close()

    def measure(self, case: Case, output: OutputRecord) -> Verdict:
        """Return what the judge says of an answer. Blocks; threads may ask at the same time."""
        verdict = verdict_of(self.judge, attempt_of_entry(case, output))
        if verdict.decision is not None:
            return replace(verdict, judge=self.name, error=None)
        return replace(verdict, judge=self.name, score=None, error=verdict.error or "the judge did not decide")


def attempt_of_entry(case: Case, output: OutputRecord) -> Attempt:
    """Return an attempt as judges see it; `case.messages` is what was really sent."""
    turns = [Turn(str(message.get("role")), text_of(message.get("content"))) for message in case.messages]
    prompts = [turn.content for turn in turns if turn.role == "user"]
    calls = [call.get("function", {}) for call in output.tools_called or ()]
    judge_args = case.fields.get("judge_args")
    return Attempt(
        response=output.output,
        prompt=prompts[-1] if prompts else "",
        conversation=tuple(turns),
        tools_called=tuple([ToolCall(call.get("name", ""), call.get("arguments", "{}")) for call in calls]),
        context=tuple(output.context or ()),
        latency=output.execution_time,
        notes={} if judge_args in (None, "") else {"judge_args": judge_args},
    )


# -- which judge decides which entry ------------------------------------------------------------------------------


_BY_NOTES = frozenset(["canary.Canary", "strings.Regex"])
"""Judges that look for what stands in the `judge_args` of each entry, so that one of them does for all."""
_MOST_NAMES = 5
_LONGEST_JUDGE_NAME = 60
_MOST_KEPT = 10_000

Bad = Callable[[Case, str], None]


class EntryJudges:
    """The judges of entries; each is made once and shared."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._made: dict[Any, tuple[EntryMetric, ...]] = {}
        self._found: dict[tuple[str, str], tuple[EntryMetric, ...] | None] = {}
        self._patterns: dict[str, str] = {}
        self._unknown: dict[str, list[Any]] = {}

    def judged(self, cases: Iterable[Case], bad: Bad) -> list[Case]:
        """Return cases with their judges; `bad` is called with those that no judge can decide, which are left out.

        UsageError: there are entries without a judge that may be used.
        """
        found: list[Case] = []
        for case in cases:
            name = case.fields.get("judge_name")
            try:
                metrics = self._known(name, case.fields.get("judge_args"))
            except BadLine as reason:
                bad(case, str(reason))
                continue
            if metrics is None:
                missing = name is None or name == ""
                judge = "no judge named" if missing else f"the judge {clip(visible(str(name)), _LONGEST_JUDGE_NAME)}"
                self._unknown.setdefault(judge, [0, case.place])[0] += 1
                continue
            found.append(replace(case, metrics=metrics))
        if self._unknown:
            raise self._refusal()
        return found

    def _known(self, name: Any, arguments: Any) -> tuple[EntryMetric, ...] | None:
        if type(name) is not str or type(arguments) is not str:
            return self._metrics(name, arguments)
        if (name, arguments) not in self._found:
            metrics = self._metrics(name, arguments)
            if len(self._found) >= _MOST_KEPT:
                return metrics
            self._found[name, arguments] = metrics
        return self._found[name, arguments]

    def _metrics(self, name: Any, arguments: Any) -> tuple[EntryMetric, ...] | None:
        """Return the judge that an entry names; None where a file may not name it."""
        if not isinstance(name, str) or not name:
            return None
        if name in self._context.named:
            return self._once(name, lambda: make_judge(name, self._context))
        known = JUDGES.built_in(name)
        if known is None or known.name not in STRING_JUDGES:
            return None
        texts = _texts(known.short, arguments)
        if known.name not in _BY_NOTES:
            return self._once((known.name, *texts), lambda: make_trusted_only(known.name, text=written(texts)))
        if known.name == "strings.Regex":
            self._check_patterns(texts)
        return self._once(known.name, lambda: make_trusted_only(known.name))

    def _once(self, key: Any, made: Callable[[], Judge]) -> tuple[EntryMetric, ...]:
        if key not in self._made:
            self._made[key] = (EntryMetric(made()),)
        return self._made[key]

    def _check_patterns(self, patterns: Iterable[str]) -> None:
        for pattern in patterns:
            if pattern not in self._patterns:
                self._patterns[pattern] = ""
                try:
                    make_trusted_only("regex", pattern=pattern)
                except UsageError as error:
                    self._patterns[pattern] = str(error)
            if self._patterns[pattern]:
                raise BadLine(self._patterns[pattern])

    def _refusal(self) -> UsageError:
        lines = [
            f"{visible(place)}: {name} ({counted(count, 'entry', 'entries')})"
            for name, (count, place) in self._unknown.items()
        ]
        more = len(lines) - _MOST_NAMES
        if more > 0:
            lines[_MOST_NAMES:] = [f"and {more:,} more names"]
        short = ", ".join(judge.short for judge in JUDGES.known if judge.name in STRING_JUDGES)
        total = counted(sum(count for count, _ in self._unknown.values()), "entry", "entries")
        lines.append(f"a dataset can name {short}, and judges that your configuration names")
        message = f"{total} cannot be judged; name a judge for all entries with --judge"
        error = UsageError("\n  ".join([message, *lines]))
        error.further = tuple(lines)
        return error


def judged_by(expression: str, context: Context, cases: Iterable[Case]) -> list[Case]:
    """Return cases that one judge decides, which the user named."""
    metrics = (EntryMetric(make_judge(expression, context)),)
    return [replace(case, metrics=metrics) for case in cases]


def _texts(judge: str, arguments: Any) -> tuple[str, ...]:
    """Return what a judge is to look for in the response, by the `judge_args` of an entry."""
    texts = [arguments] if isinstance(arguments, str) else arguments
    if texts is None or texts in ([], [""], ""):
        raise BadLine(f"the judge {judge} has nothing to look for: the entry has no judge_args")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadLine("judge_args is neither a string nor a list of strings")
    found = tuple(text for text in texts if text)
    if not found:
        raise BadLine("judge_args has only empty strings")
    return found
