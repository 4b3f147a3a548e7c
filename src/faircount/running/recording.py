"""What stands in the records of a run: an attempt, its answer or error, what it took, and what measures said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import structs

from faircount.running.case import Case, Measured
from faircount.running.courses import Planned
from faircount.running.targets.seam import Answer, TargetError
from faircount.text import clip, mask_secrets

_LONGEST_ERROR = 500
_WORDS = {"passed": "success", "failed": "failure"}
"""What a verdict on an attack is called: there a success is bad news, and nobody passed anything."""


def begun_record(case: Case, planned: Planned, calls: int) -> dict[str, Any]:
    """Return what the record of an attempt says before anything came of it."""
    begun = {
        "kind": "attempt",
        "case": case.name,
        "attempt": planned.number,
        "calls": calls,
        "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    if case.fields is None:
        return begun
    begun |= {"strategy": planned.strategy, "iteration": planned.iteration}
    if planned.messages is not case.messages and planned.messages != case.messages:
        begun["messages"] = list(planned.messages)
    if planned.note is not None:
        begun["note"] = planned.note
    return begun


def attempt_record(
    begun: Mapping[str, Any],
    case: Case,
    answer: Answer | None,
    error: TargetError | None,
    measured: Sequence[tuple[str, Measured]],
) -> dict[str, Any]:
    """Return the record of an attempt; `measured` is what each measure said, by its name."""
    told = error or answer
    return {
        **begun,
        "output": None if answer is None else output_data(answer),
        "error": None if error is None else error_data(error),
        "verdicts": [_verdict_data(name, one, attacked=case.fields is not None) for name, one in measured],
        **_cost_data(answer),
        "tries": 0 if told is None else told.tries,
        "waited": 0.0 if told is None else round(told.waited, 6),
    }


def unusable_record(
    begun: Mapping[str, Any], answer: Answer | None, error: TargetError | None, wrong: ValueError
) -> tuple[dict[str, Any], TargetError]:
    """Return the record of an answer that no journal can hold, and what is wrong with it."""
    told = error or answer
    tries = 1 if told is None else told.tries
    unusable = TargetError("wrong answer", f"the answer cannot be recorded: {wrong}", tries)
    empty: dict[str, Any] = {"output": None, "verdicts": [], "tries": tries, "waited": 0.0}
    return {**begun, **empty, "error": error_data(unusable)}, unusable


def output_data(answer: Answer) -> dict[str, Any]:
    """Return an answer as it stands in a journal."""
    output = {
        "output": answer.output,
        "tools_called": list(answer.tools_called),
        "context": list(answer.context),
        "execution_time": round(answer.latency, 6),
    }
    return output if answer.let_through is None else output | {"let_through": answer.let_through}


def error_data(error: TargetError) -> dict[str, Any]:
    """Return an error as it stands in a journal."""
    told: dict[str, Any] = {"kind": error.kind, "message": clip(mask_secrets(error.message), _LONGEST_ERROR)}
    if error.categories:
        told["categories"] = list(error.categories)
    if error.policy_block is not None:
        told["policy_block"] = error.policy_block
    return told


def raised(error: BaseException) -> TargetError:
    """Return what somebody's code raised as an error of the target."""
    return TargetError(type(error).__name__, clip(mask_secrets(str(error)), _LONGEST_ERROR))


def _cost_data(answer: Answer | None) -> Mapping[str, Any]:
    """Return what is known of how an answer came about."""
    if answer is None:
        return {}
    usage = {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "cost": answer.cost,
    }
    return {
        "model": answer.model,
        "finish_reason": answer.finish_reason,
        "usage": usage,
        "request_id": answer.request_id,
    }


def _verdict_data(name: str, verdict: Measured, *, attacked: bool) -> dict[str, Any]:
    """Return what a measure said, and what its own requests to models took, where it made any."""
    told = verdict.record(name)
    if attacked:
        told["verdict"] = _WORDS.get(verdict.verdict, verdict.verdict)
    return told if verdict.usage is None else {**told, "usage": structs.asdict(verdict.usage)}
