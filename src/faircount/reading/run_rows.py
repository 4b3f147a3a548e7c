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
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from faircount.model import Source
from faircount.policy_blocks import policy_block
from faircount.reading.aggregation import DEFAULT, ERROR, FAILED, PASSED, Result, aggregated
from faircount.reading.journals import is_block
from faircount.reading.loose import BadLine
from faircount.stats.reducers import RebelVerdict

MOST_TAGS = 8
"""So many tags are fields of their own; of all others only the list tells."""

FAIRCOUNT, REBEL = "faircount", "rebel"
BAD = b"?"
"""What stands on the line of something that could not be read; why is told beside the rows."""

METRIC = "metric."
"""Stands before the name of a metric in the name of the field that has its verdict."""

SUCCESS = {PASSED: True, FAILED: False}
_VERDICTS: dict[str, RebelVerdict] = {
    PASSED: PASSED,
    FAILED: FAILED,
    ERROR: ERROR,
    "success": PASSED,
    "failure": FAILED,
}
_LONGEST_SECONDS = 10**12
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
        self, case: str, tags: Sequence[str], parameters: Mapping[str, Any], by_metric: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the fields of a case beyond those that attacks have; the first tags that turn up are fields."""
        self.tags += [tag for tag in dict.fromkeys(tags) if tag not in self.tags][: MOST_TAGS - len(self.tags)]
        return {
            "suite": suite_of(case),
            "tags": ", ".join(tags) or None,
            **{f"tag.{tag}": True for tag in self.tags if tag in tags},
            **{f"param.{name}": _scalar(value) for name, value in parameters.items()},
            **{METRIC + name: decided for name, decided in by_metric.items()},
        }


class Measured(Struct, frozen=True, gc=False):
    """What one metric said of one attempt."""

    metric: str
    score: Any
    verdict: str
    reason: Any = None

    @property
    def result(self) -> Result:
        """The same for the rules that make one result of several."""
        return Result(number_of(self.score), self.verdict)  # type: ignore[arg-type]

    @property
    def success(self) -> bool | None:
        """What it decided."""
        return SUCCESS.get(self.verdict)


class Tried(Struct, frozen=True):
    """One attempt: its answer or the error in its place, and what the metrics said. Attempts count from 0."""

    number: int
    output: Mapping[str, Any] | None
    error: str | None = None
    measured: Sequence[Measured] = ()
    model: str | None = None
    blocked: Mapping[str, Any] = {}
    """What a row has beside an error that is a block: flag and categories of a guardrail, or the provider's policy."""

    @property
    def verdict(self) -> str:
        """What the metrics said of it together."""
        return verdict_of_attempt(self.error, [one.verdict for one in self.measured])

    @property
    def response(self) -> str:
        """The text of the answer, or the calls of tools where there is no text."""
        output = self.output or {}
        text = output.get("output")
        if isinstance(text, str) and text:
            return text
        return json.dumps(output["tools_called"]) if output.get("tools_called") else ""

    @property
    def seconds(self) -> float | None:
        """How long the answer took."""
        return plausible_seconds((self.output or {}).get("execution_time"))


class RunCase(Struct, frozen=True):
    """A case with all that was tried; `verdict` is the one over all attempts and metrics."""

    name: str
    described: Mapping[str, Any]
    """Tags, input, expected_output, retry_params and place, as the file has them."""
    attempts: Sequence[Tried]
    verdict: str
    by_metric: Mapping[str, str]
    names_metrics: bool = True
    """Whether the names of the metrics are known, not only their order."""


def verdict_of_attempt(error: str | None, verdicts: Sequence[str]) -> str:
    """Return what the metrics said of an attempt: failed if any failed it, passed if all passed it, else an error."""
    said = [] if error is not None else verdicts
    if FAILED in said:
        return FAILED
    return PASSED if said and ERROR not in said else ERROR


def suite_of(case: str) -> str:
    """Return what a case is a variant of: its name without the parameters."""
    return case.partition("_[")[0]


def row_of(case: RunCase, own_id: str, run: RunFile) -> bytes:
    """Return the row of a case as a line of JSON, without its line feed."""
    answered = [tried for tried in case.attempts if tried.error is None]
    messages, parameters = input_of(case.described)
    tags = [tag for tag in listed(case.described, "tags") if isinstance(tag, str)]
    seconds = [tried.seconds for tried in answered if tried.seconds is not None]
    verdict = case.verdict if answered else ERROR
    failed = None if answered else _telling_error(case.attempts)
    suite = suite_of(case.name)
    row = {
        "id": own_id,
        # Cases of one suite are variants: they differ in parameters, not in what is asked.
        "long_id": suite,
        "success": SUCCESS.get(verdict),
        "input": asked_of(messages),
        "response": _telling(answered, verdict),
        "response_time": sum(seconds) / len(seconds) if seconds else None,
        "judge_name": ", ".join(case.by_metric) if case.names_metrics and case.by_metric else None,
        "attempts": len(case.attempts),
        "attack_name": "None",
        "error": None if failed is None else failed.error,
        **({} if failed is None else failed.blocked),
        "attempt_history": [_history_item(tried) for tried in case.attempts],
        "conversation": messages,
        "meta": {name: case.described.get(name) for name in ("expected_output", "retry_params", "place")},
        "target": next((tried.model for tried in answered if tried.model), None),
        **run.facets(case.name, tags, parameters, case.by_metric),
    }
    return encoded(row)


def verdict_over(strategy: Any, results: Iterable[Result], *, per_attempt: int = 1) -> RebelVerdict:
    """Return the verdict over several results, by the mean where nobody knows the strategy."""
    return _verdict_over(strategy if isinstance(strategy, str) else DEFAULT, tuple(results), per_attempt)


@lru_cache(maxsize=4096)
def _verdict_over(strategy: str, results: tuple[Result, ...], per_attempt: int) -> RebelVerdict:
    """Decide once for all cases with the same results, of which a run has many."""
    try:
        return aggregated(strategy, results, per_attempt=per_attempt).verdict
    except ValueError:
        return aggregated(DEFAULT, results).verdict


def metric_names(described: Mapping[str, Any]) -> list[str]:
    """Return the names of the metrics of a case, or of the judges of an entry."""
    return [str(metric.get("name")) for metric in objects(described, "metrics")]


def strategy_of(described: Mapping[str, Any]) -> Any:
    """Return how the attempts of a case are made into one result."""
    parameters = described.get("retry_params")
    return parameters.get("aggregation_strategy") if isinstance(parameters, Mapping) else None


def blocked_of(error: Any) -> dict[str, Any]:
    """Return what a row has beside the error of a journal's record, if that is a block; else nothing."""
    if not is_block(error):
        return {}
    if isinstance(error.get("policy_block"), str):
        return {"policy_block": error["policy_block"]}
    names = [name for name in listed(error, "categories") if isinstance(name, str)]
    return {"guardrail": True, "guardrail_categories": dict.fromkeys(names, True)}


def verdict_word(value: Any) -> RebelVerdict | None:
    """Return a verdict on a test if it is one, in the words of reports; journals have others."""
    return _VERDICTS.get(value) if isinstance(value, str) else None


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
    return seconds if seconds is not None and 0 <= seconds <= _LONGEST_SECONDS else None


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


def _telling(answered: Sequence[Tried], verdict: str) -> str | None:
    """Return the first answer that was decided like the case, or else the first of all."""
    alike = next((tried for tried in answered if tried.verdict == verdict), None)
    first = alike or (answered[0] if answered else None)
    return None if first is None else first.response


def _telling_error(attempts: Sequence[Tried]) -> Tried | None:
    """Return the attempt whose error tells why none was answered: the first that is no block, or else the first."""
    outage = (tried for tried in attempts if not tried.blocked and policy_block(tried.error or "") is None)
    return next(outage, attempts[0] if attempts else None)


def _history_item(tried: Tried) -> dict[str, Any]:
    item: dict[str, Any] = {
        "attempt": tried.number,
        "success": SUCCESS.get(tried.verdict),
        "response": tried.response if tried.error is None else tried.response or None,
        "error": tried.error,
        "response_time": tried.seconds,
        **tried.blocked,
    }
    if tried.error is None:
        item["metrics"] = [
            {"name": one.metric, "verdict": one.verdict, "score": one.score, "reason": one.reason}
            for one in tried.measured
        ]
    return item


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
