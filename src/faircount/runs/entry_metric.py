"""The judge of a dataset's entries as what measures their answers: a hit is a success of the attack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from faircount.core.attempt import Attempt, ToolCall, Turn
from faircount.core.verdict import Verdict
from faircount.judges.judge import Judge, every_part, verdict_of
from faircount.readers.journals import OutputRecord
from faircount.runs.cases import Case
from faircount.testing.cases import text_of
from faircount.testing.metrics import is_our_own


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
    return Attempt(
        response=output.output,
        prompt=prompts[-1] if prompts else "",
        conversation=tuple(turns),
        tools_called=tuple([ToolCall(call.get("name", ""), call.get("arguments", "{}")) for call in calls]),
        context=tuple(output.context or ()),
        latency=output.execution_time,
        notes=_notes(case.fields),
    )


def _notes(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what an entry says for its judge alone."""
    arguments = fields.get("judge_args")
    return {} if arguments in (None, "") else {"judge_args": arguments}
