"""A case of a run, or an entry of a dataset, with its attempts as rows of results, whatever file they come from.

A case of tests is one row; an entry has one of its standard attempts and one of its attack. Rows have the fields of
`result_rows`, with the same meaning, so that everything that counts, selects or shows rows works on them: each attempt
is an item of the history. What a run of tests knows beyond that becomes fields of its own: suite, tags, parameters,
and what each metric decided. Nothing here opens a file.
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
from faircount.readers.aggregation import DEFAULT, aggregated, any_hit
from faircount.readers.journals import BLOCKED, DECISIONS, STANDARD, AttackFailure, RunRecord
from faircount.readers.result_rows import RUN_MARK

MOST_TAGS = 8
"""So many tags are fields of their own; of all others there is only the list."""

FAIRCOUNT, REBEL = "faircount", "rebel"
BAD = b"?"
"""What stands on the line of something that could not be read; why is recorded beside the rows."""

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
    """What the run is about: tasks or attacks."""
    blank_lines: int = 0
    bad: dict[int, str] = field(default_factory=dict)
    problems: list[tuple[str, str, int]] = field(default_factory=list)
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
            # What has parts becomes its text, so that it can be a facet.
            **{
                f"param.{name}": json.dumps(value, sort_keys=True) if isinstance(value, list | dict) else value
                for name, value in parameters.items()
            },
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
    long_id: str | None = None
    """What it is a variant of, if that is not its suite."""
    fields: Mapping[str, Any] | None = None
    """Its fields, if they do not follow from tags, parameters and metrics."""


def suite_of(case: str) -> str:
    """Return what a case is a variant of: its name without the parameters."""
    return case.partition("_[")[0]


def row_of(case: RunCase, own_id: str, run: RunFile) -> bytes:
    """Return the row of a case as a line of JSON, without its line feed."""
    return encoded(case_row(case, own_id, run))


def case_row(case: RunCase, own_id: str, run: RunFile) -> dict[str, Any]:
    """Return the row of a case."""
    answered = [tried for tried in case.attempts if tried.error is None]
    messages, parameters = input_of(case.described)
    tags = [tag for tag in listed(case.described, "tags") if isinstance(tag, str)]
    seconds = [tried.seconds for tried in answered if tried.seconds is not None]
    success = case.success if answered else None
    failed = None if answered else telling_error(case.attempts)
    shown = next((one for one in answered if one.success is success), answered[0] if answered else None)
    fields = run.facets(case.name, tags, parameters, case.by_metric) if case.fields is None else case.fields
    return {
        "id": own_id,
        # Cases of one suite are variants: they differ in parameters, not in what is asked.
        "long_id": suite_of(case.name) if case.long_id is None else case.long_id,
        "success": success,
        "input": asked_of(messages),
        "response": None if shown is None else shown.text,
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
        **fields,
    }


def success_over(strategy: Any, verdicts: Iterable[Verdict], *, per_attempt: int = 1) -> bool | None:
    """Return what several verdicts come to, by the mean where nobody knows the strategy."""
    scored = tuple([(one.decision, one.score) for one in verdicts])
    return _success_over(strategy if isinstance(strategy, str) else DEFAULT, scored, per_attempt)


def success_by_metric(strategy: Any, verdicts: Sequence[Verdict], metrics: Iterable[str]) -> dict[str, bool | None]:
    """Return what the verdicts of each metric come to."""
    return {metric: success_over(strategy, [one for one in verdicts if one.judge == metric]) for metric in metrics}


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


def verdict_of(recorded: Mapping[str, Any]) -> Verdict:
    """Return the verdict in a record of a report or a journal."""
    reason, error = recorded.get("reason"), recorded.get("error")
    return Verdict(
        decision_of(recorded.get("verdict")),
        number_of(recorded.get("score")),
        reason if isinstance(reason, str) else "",
        error=error if isinstance(error, str) else None,
        judge=str(recorded.get("metric")),
    )


def recorded_attempt(
    record: Mapping[str, Any],
    verdicts: Sequence[Verdict],
    success: bool | None,
    messages: Sequence[Mapping[str, Any]] = (),
) -> RunAttempt:
    """Return an attempt as a journal records it; `success` is what the verdicts come to, unless there is an error."""
    output, model, error = record.get("output"), record.get("model"), error_text(record.get("error"))
    strategy, iteration = record.get("strategy"), record.get("iteration")
    return RunAttempt(
        number=record["attempt"],
        output=output if isinstance(output, dict) else None,
        error=error,
        success=None if error is not None else success,
        verdicts=verdicts,
        block=block_of(record.get("error")),
        model=model if isinstance(model, str) else None,
        strategy=strategy if isinstance(strategy, str) else STANDARD,
        iteration=iteration if type(iteration) is int else 0,
        messages=messages,
    )


def error_text(error: Any) -> str | None:
    """Return an error in one line, whether it is recorded in parts or not; None where there is none."""
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
    asked = [message.get("content") for message in messages if message.get("role") == "user"]
    return asked[-1] if asked else messages[-1].get("content") if messages else None


class _AnyAttempt(Protocol):
    @property
    def error(self) -> str | None: ...
    @property
    def block(self) -> GuardrailBlock | None: ...
    @property
    def state(self) -> Outcome: ...


_Attempt = TypeVar("_Attempt", bound=_AnyAttempt)


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


def encoded(value: Any) -> bytes:
    """Return JSON in one line."""
    try:
        return _ENCODER.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError):
        # Lone surrogates and huge numbers, which the standard library can write.
        return json.dumps(value).encode()


# -- entries of a dataset ---------------------------------------------------------------------------------------

NO_ATTACK = "None"
"""What a standard row has as the name of its attack."""
UNNAMED = "(unnamed)"

NOT_OF_ENTRIES = frozenset(
    [
        *("id", "success", "input", "input_type", "content", "content_type", "text", "response", "response_type"),
        *("response_time", "attempts", "attack_name", "attack_options", "error", "guardrail", "guardrail_categories"),
        "policy_block",
        *("objective", "attempt_history", "conversation", "meta", "outcome", "timestamp", "target", "target_options"),
        *("judge_name", "judge_options", "judge_error", "rejudged", RUN_MARK),
        *("result_parent_id", "attack_parent_id", "original_id", "result_origin", "source_file"),
        *("attack_parent_long_id", "entry_complete", "attack_attempt", "attack_invocation", "attack_result_format"),
    ]
)
"""What a dataset made from results may say of its entries, and a new run says again or does not take over."""

_ENTRY_WORDS = {True: "success", False: "failure", None: "error"}
_SHOWN_FIRST = (Outcome.FAILURE, Outcome.UNJUDGED, Outcome.ERROR, Outcome.GUARDRAIL)


class Attacked(Struct, frozen=True):
    """An entry with all that was tried by one strategy."""

    name: str
    described: Mapping[str, Any]
    """The record of the case: input, entry, metrics, place and turns."""
    entry: Mapping[str, Any]
    """What the dataset says of the entry."""
    said: Any
    """What the user says in the entry's own messages."""
    attempts: Sequence[RunAttempt]
    attack: str | None = None
    """The name of the dynamic attack; None for standard attempts."""
    failure: AttackFailure | None = None

    @property
    def text(self) -> Any:
        """The text of the entry, the same whatever was sent; several turns are written as Python shows a list."""
        return text_of(self.entry, self.said, listed(self.described, "turns"))


def text_of(entry: Mapping[str, Any], said: Any, turns: Sequence[Any]) -> Any:
    """Return the text of an entry; `said` is what the user says in its own messages."""
    content = entry.get("content", entry.get("text"))
    if isinstance(content, list):
        return str(content)
    return str([said, *turns]) if turns else said


def attempt_shown(attempts: Sequence[_Attempt]) -> _Attempt | None:
    """Return the attempt that a row shows: the first success, or else the last of those that decide.

    An answer that nobody judged is shown before an error, since the error is not all that came.
    """
    if len(attempts) == 1:
        return attempts[0]
    last = {one.state: one for one in attempts}
    if Outcome.SUCCESS in last:
        return next(one for one in attempts if one.state is Outcome.SUCCESS)
    return next((last[state] for state in _SHOWN_FIRST if state in last), None)


def _entry_attempt(record: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> RunAttempt:
    """Return an attempt on an entry; `messages` is what is sent where the record says nothing else."""
    output = record.get("output")
    through = output.get("let_through") if isinstance(output, dict) else None
    verdicts = [verdict_of(one) for one in objects(record, "verdicts")]
    success = success_of(through, [one.decision for one in verdicts])
    return recorded_attempt(record, verdicts, success, objects(record, "messages") or messages)


def success_of(through: Any, decisions: Iterable[Decision | None]) -> bool | None:
    """Return what was decided: by a guardrail that let it through or not, or else by the judges: one is enough."""
    return through if isinstance(through, bool) else any_hit(decisions)


def row_of_entry(tried: Attacked) -> dict[str, Any]:
    """Return the row of an entry's standard attempts, or of its attack."""
    shown, text = attempt_shown(tried.attempts), tried.text
    # There is no error if any attempt was answered.
    error = shown.error if shown is not None else None if tried.failure is None else tried.failure.error
    row: dict[str, Any] = {
        "id": entry_id(tried.name, tried.entry.get("id")) if tried.attack is None else f"{tried.name}-attack",
        "long_id": long_id_of(tried.name, tried.entry.get("long_id"), tried.attack, tried=bool(tried.attempts)),
        # Where there is an error it is false, and does not count.
        "success": False if error is not None else None if shown is None else shown.success,
        "input": text if tried.attack is None or shown is None else shown.input,
        "response": None if shown is None else shown.response if shown.error is None else "",
        "response_time": None if shown is None else shown.seconds,
        "judge_name": ", ".join(metric_names(tried.described)) or None,
        "attempts": len(tried.attempts),
        "attack_name": NO_ATTACK if tried.attack is None else tried.attack,
        "error": error,
        **_blocked(tried, shown),
        "attempt_history": [_entry_history_item(one, text if tried.attack is None else None) for one in tried.attempts],
        "meta": {
            "place": tried.described.get("place"),
            **({} if tried.failure is None else {"attack_error": tried.failure.error}),
        },
        "target": next((one.model for one in reversed(tried.attempts) if one.model), None),
    }
    if tried.attack is not None:
        row["objective"] = text
    conversation = conversation_of(shown)
    if conversation:
        row["conversation"] = conversation
    # What the dataset says of the entry beside its text.
    return row | {
        name: value
        for name, value in tried.entry.items()
        if name not in NOT_OF_ENTRIES and name != "long_id" and not (isinstance(value, str) and value == tried.said)
    }


def entry_id(name: str, given: Any) -> int | str:
    """Return the id of an entry as the dataset writes it."""
    return given if type(given) is int and str(given) == name else name


def long_id_of(name: str, given: Any, attack: str | None, *, tried: bool) -> str:
    """Return the long id of a row: with the attack's name, and a mark where the attack itself failed."""
    long_id = given if isinstance(given, str) and given else name
    return long_id if attack is None else f"{long_id}-{attack}" if tried else f"{long_id}-{attack}-ERROR"


def _blocked(tried: Attacked, shown: RunAttempt | None) -> dict[str, Any]:
    """Return what shows that a guardrail stopped every attempt, with all that it named, or that the provider did."""
    if shown is None or shown.state is not Outcome.GUARDRAIL or shown.block is None:
        return {}
    if shown.block.policy is not None:
        return shown.block.fields
    names = [name for one in tried.attempts if one.block is not None for name in one.block.categories]
    return GuardrailBlock(tuple(names)).fields


def _entry_history_item(attempt: RunAttempt, own_text: Any) -> dict[str, Any]:
    """Return an attempt as an item of the history, with what was sent unless it is the text of the row."""
    item: dict[str, Any] = {"attempt": attempt.number, "strategy": attempt.strategy, "iteration": attempt.iteration}
    if attempt.input != own_text:
        item["input"] = attempt.input
    item |= {
        "response": attempt.response,
        "success": attempt.success,
        "error": attempt.error,
        "response_time": attempt.seconds,
        **({} if attempt.block is None else attempt.block.fields),
    }
    if attempt.error is None and attempt.verdicts:
        item["metrics"] = [
            {**metric_item(one), "verdict": _ENTRY_WORDS[one.success], "reason": one.reason or one.error}
            for one in attempt.verdicts
        ]
    return item


def conversation_of(attempt: RunAttempt | None) -> list[Mapping[str, Any]]:
    """Return what was said before an attempt and in it, if it is more than one question and its answer."""
    if attempt is None or not any(message.get("role") == "assistant" for message in attempt.messages):
        return []
    answer = [] if attempt.error is not None else [{"role": "assistant", "content": attempt.response}]
    return [*attempt.messages, *answer]


def attack_of(header: RunRecord) -> str:
    """Return the name of the attack of a run as its header has it."""
    found: Any = header.settings
    for name in ("attacking", "attack", "name"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) and found else UNNAMED


def attacked(
    name: str,
    described: Mapping[str, Any],
    records: Iterable[Mapping[str, Any]],
    *,
    attack: str | None = None,
    failure: AttackFailure | None = None,
) -> Attacked:
    """Return an entry with the attempts of its standard strategy, or of the attack of this name, in their order.

    BadLine: the records cannot be understood; a row can be made of everything else.
    """
    entry = described.get("entry", {})
    if not isinstance(entry, dict):
        raise BadLine("entry is not an object")
    objects(described, "metrics")
    listed(described, "turns")
    messages, _ = input_of(described)
    attempts = sorted((_entry_attempt(record, messages) for record in records), key=lambda one: one.number)
    if attack is not None and attempts:
        attack = attempts[0].strategy
    return Attacked(name, described, entry, asked_of(messages), attempts, attack, failure)
