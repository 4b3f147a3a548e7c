"""Any judge as a metric: `JudgeMetric(judge="refusal", passes_on="pass")`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from faircount.components.factory import Context
from faircount.core.attempt import Attempt, Expected, ToolCall, Turn
from faircount.core.errors import UsageError
from faircount.core.verdict import Decision, Usage, Verdict
from faircount.judges.factory import make_judge
from faircount.judges.judge import Judge, every_part, verdict_of
from faircount.testing import messages as said
from faircount.testing.metrics import EvaluationResult, EvaluationVerdict, Metric
from faircount.testing.registering import listener


class JudgedResult(EvaluationResult):
    """What a metric says that asked a judge, and what that took."""

    usage: Usage | None = None


def attempt_from(asked: said.AssistantInput, expected: said.AssistantOutput, actual: said.AssistantOutput) -> Attempt:
    """Return an attempt as judges see it.

    What nobody gave in the expected output is not said; an empty list of calls that somebody gave means no calls.
    """
    turns = tuple(Turn(_word(message.role), said.text_of(message.content)) for message in asked.messages)
    prompts = [turn.content for turn in turns if turn.role == said.RoleEnum.user.value]
    given = expected.model_fields_set
    return Attempt(
        response=actual.output,
        prompt=prompts[-1] if prompts else "",
        conversation=turns,
        tools_called=calls_of(actual.tools_called),
        context=tuple(actual.context or ()),
        expected=Expected(
            output=expected.output if "output" in given else None,
            tools_called=_if_given(expected.tools_called) if "tools_called" in given else None,
            context=tuple(expected.context or ()),
        ),
        latency=actual.execution_time,
    )


def calls_of(calls: Iterable[said.ToolCall] | None) -> tuple[ToolCall, ...]:
    """Return calls of tools as judges see them."""
    return tuple(ToolCall(call.function.name, call.function.arguments) for call in calls or ())


def _if_given(calls: list[said.ToolCall] | None) -> tuple[ToolCall, ...] | None:
    return None if calls is None else calls_of(calls)


def _word(role: Any) -> str:
    return str(getattr(role, "value", role))


def result_of(verdict: Verdict, *, passes_on: Decision = Decision.HIT) -> JudgedResult:
    """Return what a verdict means for a metric; where there is no decision it is an error."""
    if verdict.decision is None:
        why = verdict.error or "the judge did not decide"
        return JudgedResult(score=0.0, verdict=EvaluationVerdict.ERROR, reason=why, usage=verdict.usage)
    passed = verdict.decision is passes_on
    score = float(verdict.decision is Decision.HIT) if verdict.score is None else verdict.score
    return JudgedResult(
        score=score if passes_on is Decision.HIT else 1.0 - score,
        verdict=EvaluationVerdict.PASSED if passed else EvaluationVerdict.FAILED,
        reason=verdict.reason,
        usage=verdict.usage,
    )


class JudgeMetric(Metric):
    """Measures by a judge: an expression as on the command line, or a judge.

    An answer passes if the judge finds what it looks for (`passes_on="hit"`), or if it does not ("pass"). The score
    is the judge's, turned round for "pass"; a judge without scores gives 1 or 0. What it cannot decide is an error.
    """

    def __init__(self, judge: str | Judge, passes_on: str = "hit", name: str | None = None) -> None:
        if passes_on not in (Decision.HIT, Decision.PASS):
            raise UsageError(f'JudgeMetric: passes_on must be "hit" or "pass", not {passes_on!r}')
        if not isinstance(judge, str | Judge):
            raise UsageError(f"JudgeMetric: judge must be an expression or a judge, not {type(judge).__name__}")
        listening = listener()
        setting = (listening.setting if listening else None) or Context()
        self.judge = make_judge(judge, setting) if isinstance(judge, str) else judge
        self.passes_on = passes_on
        self.name = name

    def measure(
        self,
        input: said.AssistantInput,  # noqa: A002
        expected: said.AssistantOutput,
        actual: said.AssistantOutput,
    ) -> EvaluationResult:
        """Ask the judge."""
        verdict = verdict_of(self.judge, attempt_from(input, expected, actual))
        return result_of(verdict, passes_on=Decision(self.passes_on))

    def get_name(self) -> str:
        """Return the name that was given, or how the judge is called."""
        if self.name is not None:
            return self.name
        called = self.judge.called or self.judge.name
        return called if self.passes_on == Decision.HIT else f"not {called}"

    @property
    def blocking(self) -> bool:
        """Whether the judge waits for a model, or is somebody's own code that may wait."""
        return any(part.waits or not is_our_own(part) for part in every_part(self.judge))

    def ready(self) -> None:
        """Let the judge say now what it lacks."""
        self.judge.ready()

    def close(self) -> None:
        """Close the judge."""
        self.judge.close()

    def _recorded(self) -> dict[str, Any]:
        identity = self.judge.identity
        return {
            "judge": self.judge.called or identity.name,
            "passes_on": self.passes_on,
            "parameters": identity.parameters,
            "digest": identity.digest,
        }

    def _code_version(self) -> str:
        return self.judge.version


def is_our_own(judge: Judge) -> bool:
    """Tell whether a judge is one of those built in."""
    return type(judge).__module__.startswith("faircount.judges.builtin.")
