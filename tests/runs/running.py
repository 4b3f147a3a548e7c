"""What the tests of runs share: cases and targets made in a line, and journals read back without Faircount's help."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from faircount.readers import RunRecord
from faircount.runs import (
    Answer,
    Case,
    Ending,
    Engine,
    Journal,
    Limits,
    Request,
    Strategy,
    Target,
    TaskCase,
    case_metric,
)
from faircount.testing import EvaluationResult, Metric

HEADER = RunRecord(schema=2, run="r", started="2026-01-02T03:04:05+00:00", settings={})
Answering = Callable[[Request], Awaitable[Answer]]


class Says(Metric):
    """Passes when a word is in the answer."""

    word: str = "yes"
    blocking = False

    def measure(self, input: Any, expected: Any, actual: Any) -> EvaluationResult:  # noqa: A002, ARG002
        found = self.word in actual.output
        return EvaluationResult(score=float(found), verdict="passed" if found else "failed", reason=f"{self.word}?")

    def get_name(self) -> str:
        return f"says {self.word}"


class Doing(Metric):
    """Measures by whatever a test gives it."""

    name: str = "doing"
    do: Any = None
    blocking: Any = False

    def measure(self, input: Any, expected: Any, actual: Any) -> Any:  # noqa: A002, ARG002
        return self.do(actual)

    def get_name(self) -> str:
        return self.name


class Scripted(Target):
    """A target that a test scripts; it remembers what it was asked, and how many were under way at most."""

    name = "scripted"

    def __init__(self, answering: Answering | None = None) -> None:
        self._answering = answering
        self.asked: list[tuple[str, int]] = []
        self.at_once = self.most_at_once = 0
        self.closed = False

    def settings(self) -> Mapping[str, Any]:
        return {"kind": "scripted"}

    async def answer(self, request: Request) -> Answer:
        self.asked.append((request.case, request.attempt))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self._answering is None:
                await asyncio.sleep(0)
                return Answer(output="yes")
            return await self._answering(request)
        finally:
            self.at_once -= 1

    async def close(self) -> None:
        self.closed = True


def case(name: str = "a", metrics: Sequence[Any] | None = None, attempts: int = 1, **more: Any) -> Case:
    """Return a case that says its own name."""
    taken: set[str] = set()
    fields: dict[str, Any] = {
        "tags": (),
        "messages": ({"role": "user", "content": f"say {name}"},),
        "api_params": {},
        "expected": {"output": "", "tools_called": [], "context": [], "execution_time": None},
        "aggregation": "mean",
        "place": "test_x.py:1",
        **more,
    }
    metrics = [Says()] if metrics is None else metrics
    own = tuple(case_metric(metric, taken=taken) for metric in metrics)
    return TaskCase(name=name, metrics=own, attempts=attempts, **fields)


class Run:
    """A run of an engine into a journal of its own, in this process."""

    def __init__(
        self, folder: Path, cases: Sequence[Case], target: Target, *, strategy: Strategy | None = None, **limits: Any
    ) -> None:
        self.path = str(folder / "journal.jsonl")
        self.journal = Journal.create(self.path, replace(HEADER, aim="task" if strategy is None else "attack"))
        for one in cases:
            self.journal.note(one.record())
        self.engine = Engine(cases, target, self.journal, Limits(**limits), strategy=strategy)

    def go(self) -> Ending:
        """Run to the end."""
        try:
            return asyncio.run(self.engine.run())
        finally:
            self.journal.close()

    @property
    def records(self) -> list[dict[str, Any]]:
        return records(self.path)

    @property
    def attempts(self) -> list[dict[str, Any]]:
        return [record for record in self.records if record["kind"] == "attempt"]


def records(path: str | Path) -> list[dict[str, Any]]:
    """Return the records of a journal, each of which must be whole."""
    return [json.loads(line) for line in Path(path).read_text(encoding="ascii").splitlines()]


def attempts(path: str | Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the records of attempts, of which each must have one that counts."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for record in records(path):
        key = (record.get("case", ""), record.get("attempt", -1))
        if record["kind"] == "retry":
            del found[key]
        elif record["kind"] == "attempt":
            assert key not in found, f"two records of {key}"
            found[key] = record
    return found


def forever() -> None:
    """Wait in a thread that nobody ends."""
    threading.Event().wait()


# -- tests and targets in files ---------------------------------------------------------------------------------

METRICS = """\
from faircount.testing import (
    AssistantOutput, EvaluationResult, Message, Metric, ParameterGrid, RetryAggregationStrategy, RetryParams, RoleEnum,
    TestGroup, test_case,
)


class Has(Metric):
    word: str = "4"

    def measure(self, input, expected, actual):
        found = self.word in actual.output
        return EvaluationResult(score=float(found), verdict="passed" if found else "failed", reason="looked")

    def get_name(self):
        return f"has {self.word}"
"""


def write_tests(folder: Path, cases: int = 3, attempts: int = 4, name: str = "test_sums.py") -> Path:
    """Write a test file with so many cases of two metrics each."""
    path = folder / "tests" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    grid = f'ParameterGrid(parameters={{"seed": {list(range(cases))}}})'
    path.write_text(
        f"""{METRICS}

@test_case(messages=[Message(role=RoleEnum.user, content="What is 2 + 2?")], tags=["sums"], param_grid={grid})
def test_sum():
    yield TestGroup(metrics=[Has(word="4"), Has(word="e")], retry_params=RetryParams(count={attempts}))
"""
    )
    return path


def report_of(folder: Path, pattern: str = "test_results_*.json") -> dict[str, Any]:
    """Return the only report in a folder."""
    (path,) = folder.glob(pattern)
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


def without_times(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report without what differs between two runs of the same tests: times, names, and repeats."""
    cut = {"timestamp", "run", "started", "settings", "repeated_calls", "calls", "execution_time", "request_id"}

    def inner(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: inner(item) for name, item in value.items() if name not in cut}
        return [inner(item) for item in value] if isinstance(value, list) else value

    told: dict[str, Any] = inner(report)
    return told
