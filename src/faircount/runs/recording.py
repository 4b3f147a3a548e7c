"""What stands in the records of a run: an attempt, its answer or error, what it took, and what measures said."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import UNSET
from msgspec.structs import replace

from faircount.core.text import clip, mask_secrets
from faircount.core.verdict import Verdict
from faircount.readers.journals import AttemptRecord, ErrorRecord, OutputRecord, UsageRecord, VerdictRecord
from faircount.runs.cases import AttackCase, Case
from faircount.runs.plan import NextAttempt
from faircount.runs.targets.base import Answer, TargetError

_LONGEST_ERROR = 500


def begun_record(case: Case, following: NextAttempt, calls: int) -> AttemptRecord:
    """Return what the record of an attempt says before anything came of it."""
    begun = AttemptRecord(case.name, following.number, calls, datetime.now(UTC).isoformat(timespec="milliseconds"))
    if not isinstance(case, AttackCase):
        return begun
    same = following.messages is case.messages or following.messages == case.messages
    messages, note = UNSET if same else list(following.messages), UNSET if following.note is None else following.note
    return replace(begun, strategy=following.strategy, iteration=following.iteration, messages=messages, note=note)


def attempt_record(
    begun: AttemptRecord, answer: Answer | None, error: TargetError | None, verdicts: Sequence[Verdict]
) -> AttemptRecord:
    """Return the record of an attempt."""
    told = error or answer
    record = replace(
        begun,
        output=None if answer is None else output_record(answer),
        error=None if error is None else _error_record(error),
        verdicts=[VerdictRecord.of(verdict) for verdict in verdicts],
        tries=0 if told is None else told.tries,
        waited=0.0 if told is None else round(told.waited, 6),
    )
    if answer is None:
        return record
    return replace(
        record,
        model=answer.model,
        finish_reason=answer.finish_reason,
        usage=UsageRecord(UNSET, answer.prompt_tokens, answer.completion_tokens, answer.cost),
        request_id=answer.request_id,
    )


def unusable_record(
    begun: AttemptRecord, answer: Answer | None, error: TargetError | None, wrong: ValueError
) -> tuple[AttemptRecord, TargetError]:
    """Return the record of an answer that no journal can hold, and what is wrong with it."""
    told = error or answer
    unusable = TargetError("wrong answer", f"the answer cannot be recorded: {wrong}", 1 if told is None else told.tries)
    return attempt_record(begun, None, unusable, ()), unusable


def output_record(answer: Answer) -> OutputRecord:
    """Return an answer as it is in a journal."""
    return OutputRecord(
        answer.output, list(answer.tools_called), list(answer.context), round(answer.latency, 6), answer.let_through
    )


def _error_record(error: TargetError) -> ErrorRecord:
    message = clip(mask_secrets(error.message), _LONGEST_ERROR)
    return ErrorRecord(error.kind, message, list(error.categories) or None, error.policy_block)


def raised(error: BaseException) -> TargetError:
    """Return what somebody's code raised as an error of the target."""
    return TargetError(type(error).__name__, clip(mask_secrets(str(error)), _LONGEST_ERROR))
