"""The judge of a dataset's entries as what measures their answers: a hit is a success of the attack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faircount.judging.attempt import Attempt, ToolCall, Turn
from faircount.judging.judge import Judge, every_part, verdict_of
from faircount.judging.verdict import Decision
from faircount.reading.journal_records import OutputRecord, VerdictRecord, VerdictWord
from faircount.running.case import Case, usage_record
from faircount.testing.judged import is_our_own
from faircount.testing.messages import text_of

_WORDS = {Decision.HIT: VerdictWord.SUCCESS, Decision.PASS: VerdictWord.FAILURE, None: VerdictWord.ERROR}


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

    def measure(self, case: Case, output: OutputRecord) -> VerdictRecord:
        """Return what the judge says of an answer. Blocks; threads may ask at the same time."""
        verdict = verdict_of(self.judge, attempt_of_entry(case, output))
        decided = verdict.decision is not None
        return VerdictRecord(
            metric=self.name,
            score=verdict.score if decided else None,
            verdict=_WORDS[verdict.decision],
            reason=verdict.reason,
            error=None if decided else verdict.error or "the judge did not decide",
            usage=usage_record(verdict.usage),
        )


def attempt_of_entry(case: Case, output: OutputRecord) -> Attempt:
    """Return an attempt as judges see it; `case.messages` is what was really sent."""
    turns = [Turn(str(message.get("role")), text_of(message.get("content"))) for message in case.messages]
    prompts = [turn.content for turn in turns if turn.role == "user"]
    calls = [call.get("function", {}) for call in output.tools_called or ()]
    return Attempt(
        response=output.output,
        prompt=prompts[-1] if prompts else "",
        conversation=tuple(turns),
        tools_called=tuple([ToolCall(call.get("name", ""), call.get("arguments", "{}")) for call in calls]),
        context=tuple(output.context or ()),
        latency=output.execution_time,
        notes=_notes(case.fields or {}),
    )


def _notes(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what an entry says for its judge alone."""
    arguments = fields.get("judge_args")
    return {} if arguments in (None, "") else {"judge_args": arguments}
