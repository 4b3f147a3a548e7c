"""A case of a run and its attempts as one row of results, whatever file they come from.

The row has the fields that spikee's rows have, so that everything that counts, chooses or shows rows works on it: the
verdict over all attempts is its success, each attempt is an item of its history. What a run knows beyond that becomes
fields of its own: suite, tags, parameters, and what each metric decided. Nothing here opens a file.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from faircount.core.model import Outcome, Source
from faircount.core.outcomes import policy_block, state
from faircount.core.verdict import Decision, Verdict
from faircount.io.lenient_json import BadLine
from faircount.readers.aggregation import DEFAULT, aggregated
from faircount.readers.journal_records import DECISIONS
from faircount.readers.journals import BLOCKED, STANDARD

MOST_TAGS = 8
"""So many tags are fields of their own; of all others only the list tells."""

FAIRCOUNT, REBEL = "faircount", "rebel"
BAD = b"?"
"""What stands on the line of something that could not be read; why is told beside the rows."""

METRIC = "metric."
"""Stands before the name of a metric in the name of the field that has its verdict."""

PASSED, FAILED, ERROR = "passed", "failed", "error"
WORDS = {True: PASSED, False: FAILED, None: ERROR}
"""What REBEL calls verdicts on tests, and what rows of tests say."""
LONGEST_SECONDS = 10**12
_ENCODER = msgspec.json.Encoder()


class RunFile(Struct):
    """What a file of a run says of itself while it is read, and what was odd in it, by the lines of its rows."""

    tool: str
    reader: str
    version: str | None = None
    target: str | None = None
    """What was tested or attacked, as people call it."""
    stop_rule: str = ""
    """When the run was to stop early, as its header says."""
    aim: str = "task"
    """What the run is about: tasks, or attacks, whose rows are as spikee's."""
    blank_lines: int = 0
    bad: dict[int, str] = field(default_factory=dict)
    doubts: list[tuple[str, str, int]] = field(default_factory=list)
    """Codes of findings, each with its subject and its line."""
    tags: list[str] = field(default_factory=list)
    """The tags that are fields of their own."""
    wanted: Collection[int] | None = None
    """The lines whose rows are wanted, if not all are: others need not be made."""
    cases: Collection[bytes] | None = None
    """The cases that those lines are about, as they are written there."""

    def of(self, source: Source) -> Source:
        """Return what was read of a file of a run: most of its lines hold no row, and are not blank for that."""
        return replace(
            source,
            tool=self.tool,
            tool_version=self.version,
            reader=self.reader,
            aim=self.aim,
            target=self.target,
            blank_lines=self.blank_lines,
            stop_rule=self.stop_rule,
        )

    def facets(
        self, case: str, tags: Sequence[str], parameters: Mapping[str, Any], by_metric: Mapping[str, bool | None]
    ) -> dict[str, Any]:
        """Return the fields of a case beyond those that attacks have; the first tags that turn up are fields."""
        self.tags += [tag for tag in dict.fromkeys(tags) if tag not in self.tags][: MOST_TAGS - len(self.tags)]
        return {
            "suite": suite_of(case),
            "tags": ", ".join(tags) or None,
            **{f"tag.{tag}": True for tag in self.tags if tag in tags},
            **{f"param.{name}": _scalar(value) for name, value in parameters.items()},
            **{METRIC + name: WORDS[passed] for name, passed in by_metric.items()},
        }


class RunAttempt(Struct, frozen=True):
    """An attempt as a journal or a report records it: its answer or the error in its place, and what judges said.

    Attempts count from 0. `success` is what the verdicts come to: of a test whether all metrics passed it, of an entry
    whether any judge found what it looks for.
    """

    number: int
    output: Mapping[str, Any] | None
    error: str | None = None
    success: bool | None = None
    verdicts: Sequence[Verdict] = ()
    block: GuardrailBlock | None = None
    model: str | None = None
    strategy: str = STANDARD
    iteration: int = 0
    messages: Sequence[Mapping[str, Any]] = ()
    """What was sent, where that is known."""

    @property
    def state(self) -> Outcome:
        """What became of it."""
        return state(success=self.success, error=self.error is not None, guardrail=self.block is not None)

    @property
    def input(self) -> Any:
        """What the user said last."""
        return asked_of(self.messages)

    @property
    def text(self) -> str:
        """The text of the answer, or the calls of tools where there is no text."""
        output = self.output or {}
        text = output.get("output")
        if isinstance(text, str) and text:
            return text
        return json.dumps(output["tools_called"]) if output.get("tools_called") else ""

    @property
    def response(self) -> str | None:
        """The text of the answer; None where there is an error and no text."""
        return self.text if self.error is None else self.text or None

    @property
    def seconds(self) -> float | None:
        """How long the answer took."""
        return plausible_seconds((self.output or {}).get("execution_time"))


class GuardrailBlock(Struct, frozen=True):
    """That a guardrail stopped an attempt, with what it named, or that the provider refused it, by which pattern.

    Whoever counts may take the second back: the run took an error for it.
    """

    categories: tuple[str, ...] = ()
    policy: str | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """What a row has beside the error."""
        if self.policy is not None:
            return {"policy_block": self.policy}
        return {"guardrail": True, "guardrail_categories": dict.fromkeys(self.categories, True)}


def block_of(error: Any) -> GuardrailBlock | None:
    """Return what the error of a journal's record says of a block; None if it is none."""
    if not isinstance(error, Mapping) or error.get("kind") != BLOCKED:
        return None
    policy = error.get("policy_block")
    if isinstance(policy, str):
        return GuardrailBlock(policy=policy)
    return GuardrailBlock(tuple([name for name in listed(error, "categories") if isinstance(name, str)]))


class RunCase(Struct, frozen=True):
    """A case with all that was tried; `success` is what it comes to over all attempts and metrics."""

    name: str
    described: Mapping[str, Any]
    """Tags, input, expected_output, retry_params and place, as the file has them."""
    attempts: Sequence[RunAttempt]
    success: bool | None
    by_metric: Mapping[str, bool | None]
    names_metrics: bool = True
    """Whether the names of the metrics are known, not only their order."""


def suite_of(case: str) -> str:
    """Return what a case is a variant of: its name without the parameters."""
    return case.partition("_[")[0]


def row_of(case: RunCase, own_id: str, run: RunFile) -> bytes:
    """Return the row of a case as a line of JSON, without its line feed."""
    answered = [tried for tried in case.attempts if tried.error is None]
    messages, parameters = input_of(case.described)
    tags = [tag for tag in listed(case.described, "tags") if isinstance(tag, str)]
    seconds = [tried.seconds for tried in answered if tried.seconds is not None]
    success = case.success if answered else None
    failed = None if answered else telling_error(case.attempts)
    suite = suite_of(case.name)
    row = {
        "id": own_id,
        # Cases of one suite are variants: they differ in parameters, not in what is asked.
        "long_id": suite,
        "success": success,
        "input": asked_of(messages),
        "response": _telling(answered, success),
        "response_time": sum(seconds) / len(seconds) if seconds else None,
        "judge_name": ", ".join(case.by_metric) if case.names_metrics and case.by_metric else None,
        "attempts": len(case.attempts),
        "attack_name": "None",
        "error": None if failed is None else failed.error,
        **({} if failed is None or failed.block is None else failed.block.fields),
        "attempt_history": [_history_item(one) for one in case.attempts],
        "conversation": messages,
        "meta": {name: case.described.get(name) for name in ("expected_output", "retry_params", "place")},
        "target": next((tried.model for tried in answered if tried.model), None),
        **run.facets(case.name, tags, parameters, case.by_metric),
    }
    return encoded(row)


def success_over(strategy: Any, verdicts: Iterable[Verdict], *, per_attempt: int = 1) -> bool | None:
    """Return what several verdicts come to, by the mean where nobody knows the strategy."""
    scored = tuple([(one.decision, one.score) for one in verdicts])
    return _success_over(strategy if isinstance(strategy, str) else DEFAULT, scored, per_attempt)


@lru_cache(maxsize=4096)
def _success_over(
    strategy: str, scored: tuple[tuple[Decision | None, float | None], ...], per_attempt: int
) -> bool | None:
    """Decide once for all cases with the same decisions and scores, of which a run has many."""
    verdicts = [Verdict(*one) for one in scored]
    try:
        return aggregated(strategy, verdicts, per_attempt=per_attempt).success
    except ValueError:
        return aggregated(DEFAULT, verdicts).success


def metric_names(described: Mapping[str, Any]) -> list[str]:
    """Return the names of the metrics of a case, or of the judges of an entry."""
    return [str(metric.get("name")) for metric in objects(described, "metrics")]


def strategy_of(described: Mapping[str, Any]) -> Any:
    """Return how the attempts of a case are made into one result."""
    parameters = described.get("retry_params")
    return parameters.get("aggregation_strategy") if isinstance(parameters, Mapping) else None


def is_verdict(word: Any) -> bool:
    """Return whether a report or a journal has this word for a verdict."""
    return isinstance(word, str) and word in DECISIONS


def decision_of(word: Any) -> Decision | None:
    """Return what a word in a report or a journal decides; any other word decides nothing."""
    return DECISIONS.get(word) if isinstance(word, str) else None


def verdict_of(said: Mapping[str, Any]) -> Verdict:
    """Return the verdict in a record of a report or a journal."""
    reason, error = said.get("reason"), said.get("error")
    return Verdict(
        decision_of(said.get("verdict")),
        number_of(said.get("score")),
        reason if isinstance(reason, str) else "",
        error=error if isinstance(error, str) else None,
        judge=str(said.get("metric")),
    )


def error_text(error: Any) -> str | None:
    """Return an error in one line, whether it is told in parts or not; None where there is none."""
    if error is None or isinstance(error, str):
        return error
    if not isinstance(error, Mapping):
        return json.dumps(error)
    parts = [str(error[name]) for name in ("kind", "message") if error.get(name)]
    return ": ".join(parts) or "an error without a message"


def plausible_seconds(value: Any) -> float | None:
    """Return a duration, if it is one that an answer may have taken."""
    seconds = number_of(value)
    return seconds if seconds is not None and 0 <= seconds <= LONGEST_SECONDS else None


def seconds_of(time: Any) -> float | None:
    """Return a time that is written as ISO 8601 has it, in seconds since 1970."""
    try:
        return datetime.fromisoformat(time).timestamp() if isinstance(time, str) else None
    except (ValueError, OverflowError):
        return None


def number_of(score: Any) -> float | None:
    """Return a score if it is a number."""
    if type(score) is float:
        return score
    if isinstance(score, bool) or not isinstance(score, int | float):
        return None
    try:
        return float(score)
    except OverflowError:
        return None


def objects(holder: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return a list of objects, which may be missing; anything else cannot be read."""
    found = listed(holder, name)
    for item in found:
        if not isinstance(item, dict):
            raise BadLine(f"{name} contains something other than objects")
    return found


def listed(holder: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list, which may be missing; anything else cannot be read."""
    found = holder.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise BadLine(f"{name} is not a list")
    return found


def input_of(described: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], Mapping[str, Any]]:
    """Return the messages of a case and the parameters that go with them."""
    given = described.get("input")
    if given is None:
        return [], {}
    if not isinstance(given, dict):
        raise BadLine("input is not an object")
    parameters = given.get("api_params")
    return objects(given, "messages"), parameters if isinstance(parameters, dict) else {}


def asked_of(messages: Sequence[Mapping[str, Any]]) -> Any:
    """Return the last message of the user, or the last of all where the user says nothing."""
    said = [message.get("content") for message in messages if message.get("role") == "user"]
    return said[-1] if said else messages[-1].get("content") if messages else None


def _telling(answered: Sequence[RunAttempt], success: bool | None) -> str | None:
    """Return the first answer that was decided like the case, or else the first of all."""
    alike = next((one for one in answered if one.success is success), None)
    first = alike or (answered[0] if answered else None)
    return None if first is None else first.text


class _Failed(Protocol):
    @property
    def error(self) -> str | None: ...
    @property
    def block(self) -> GuardrailBlock | None: ...


_Attempt = TypeVar("_Attempt", bound=_Failed)


def telling_error(attempts: Sequence[_Attempt]) -> _Attempt | None:
    """Return the attempt whose error says why none was answered: the first that is no block, or else the first."""
    outage = (one for one in attempts if one.block is None and policy_block(one.error or "") is None)
    return next(outage, attempts[0] if attempts else None)


def _history_item(attempt: RunAttempt) -> dict[str, Any]:
    item: dict[str, Any] = {
        "attempt": attempt.number,
        "success": attempt.success,
        "response": attempt.response,
        "error": attempt.error,
        "response_time": attempt.seconds,
        **({} if attempt.block is None else attempt.block.fields),
    }
    if attempt.error is None:
        item["metrics"] = [metric_item(one) for one in attempt.verdicts]
    return item


def metric_item(verdict: Verdict) -> dict[str, Any]:
    """Return what a metric said as an item of a row."""
    passed = verdict.success
    return {"name": verdict.judge, "verdict": WORDS[passed], "score": verdict.score, "reason": verdict.reason}


def _scalar(value: Any) -> Any:
    """Return a value that can be a facet: what has parts becomes its text."""
    return json.dumps(value, sort_keys=True) if isinstance(value, list | dict) else value


def encoded(value: Any) -> bytes:
    """Return JSON in one line."""
    try:
        return _ENCODER.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError):
        # Half characters and huge numbers, which the standard library can write.
        return json.dumps(value).encode()
