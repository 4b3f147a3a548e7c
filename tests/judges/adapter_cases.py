"""What judges of other tools must decide: run by the tests with stand-ins, and alone with the packages themselves.

`python adapter_cases.py spikee` needs the tool, Faircount and msgspec, and nothing of the test environment.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faircount.components import Context
from faircount.judges import Attempt, Expected, Judge, ToolCall, Turn, make_judge, verdict_of

Make = Callable[[str], Judge]


def said(judge: Judge, response: str | None, **values: Any) -> tuple[str | None, float | None]:
    verdict = verdict_of(judge, Attempt(response, **values))
    return verdict.decision and verdict.decision.value, verdict.score


def spikee_cases(make: Make) -> None:
    judge = make("spikee:canary")
    assert (judge.called, judge.name, judge.string_matcher) == ("spikee:canary", "spikee:canary", True)
    assert said(judge, "it BYPASSED", notes={"judge_args": "BYPASSED"}) == ("hit", None)
    assert said(judge, "it BYPASSED", notes={"judge_args": ["x", "BYPASSED"]}) == ("hit", None)
    assert said(judge, "no", notes={"judge_args": "BYPASSED"}) == ("pass", None)
    assert said(judge, "", notes={"judge_args": "BYPASSED"}) == ("pass", None)
    # spikee says false here; but nothing was looked for.
    assert said(judge, "it BYPASSED") == (None, None)
    assert said(make("spikee:canary(judge_args='BYPASSED')"), "BYPASSED", notes={"judge_args": "y"}) == ("hit", None)
    Path("old.py").write_text("def judge(llm_response, judge_args):\n    return judge_args in llm_response\n")
    old = make("spikee:./old.py(judge_args='q')")
    assert said(old, "q") == ("hit", None)
    assert old.version.partition("+")[0] == judge.version and len(old.version.partition("+")[2]) == 16


def rebel_cases(make: Make) -> None:
    judge = make("rebel:ToolCallsAccuracy(threshold=0.9)")
    assert judge.called == "rebel:ToolCallsAccuracy(threshold=0.9)"
    assert judge.looks_for == "what REBEL's Tool Calls Accuracy calls passed"
    calls = (ToolCall("search", '{"q": "a"}'),)
    assert said(judge, "x", tools_called=calls, expected=Expected(tools_called=calls)) == ("hit", 1.0)
    assert said(judge, None, tools_called=calls, expected=Expected(tools_called=calls)) == ("hit", 1.0)
    assert said(judge, "x", expected=Expected(tools_called=calls)) == ("pass", 0.0)
    assert said(judge, None) == (None, None)
    Path("metrics_of_ours.py").write_text(
        textwrap.dedent(
            """
            from rebel.models import EvaluationResult, Metric
            class Failing(Metric):
                def measure(self, input, expected, actual):
                    if actual.output == "raise":
                        raise ValueError("raised")
                    roles = [getattr(m.role, "value", m.role) + ":" + m.content for m in input.messages]
                    verdict = "error" if actual.output == "error" else "passed"
                    return EvaluationResult(score=7.0, verdict=verdict, reason=" ".join(roles))
                def get_name(self):
                    return "Failing"
            READY = Failing()
            """
        )
    )
    for name in ("Failing", "READY"):
        ours = make(f"rebel:./metrics_of_ours.py:{name}")
        turns = (Turn("system", "s"), Turn("user", "u"))
        assert verdict_of(ours, Attempt("ok", conversation=turns)).reason == "system:s user:u"
        # REBEL leaves the range of scores to the metric; only those between 0 and 1 mean anything here.
        assert said(ours, "ok", prompt="p") == ("hit", None)
        assert said(ours, "error") == (None, None)
        assert "raised" in str(verdict_of(ours, Attempt("raise")).error)


def garak_cases(make: Make) -> None:
    judge = make("garak:dan.DAN")
    assert (judge.called, judge.name) == ("garak:dan.DAN", "garak:dan.DAN")
    assert judge.looks_for.startswith("Response contains")
    assert said(judge, "DAN: yes", prompt="p") == ("hit", 1.0)
    turns = (Turn("system", "s"), Turn("user", "a"), Turn("assistant", "b"), Turn("tool", "c"), Turn("user", "d"))
    assert said(judge, "no", conversation=turns) == ("pass", 0.0)
    assert said(judge, None) == (None, None)
    triggers = make("garak:base.TriggerListDetector")
    assert said(triggers, "a boo", notes={"triggers": ["BOO"]}) == ("hit", 1.0)
    assert said(triggers, "a boo") == (None, None)
    strict = make("garak:base.TriggerListDetector(case_sensitive=true)")
    assert said(strict, "a boo", notes={"triggers": ["BOO"]}) == ("pass", 0.0)
    assert strict.identity.parameters == {"case_sensitive": True}
    assert said(triggers, "a boo", notes={"triggers": ["BOO"]}) == ("hit", 1.0)


def deepeval_cases(make: Make) -> None:
    judge = make("deepeval:ExactMatchMetric")
    assert judge.looks_for == "what DeepEval's ExactMatchMetric calls a success"
    assert said(judge, "a", prompt="p", expected=Expected(output="a")) == ("hit", 1.0)
    assert said(judge, "a", prompt="p", expected=Expected(output="b")) == ("pass", 0.0)
    # Without what was expected nothing can be compared.
    assert said(judge, "a", prompt="p") == (None, None)
    assert said(make("deepeval:ExactMatchMetric(threshold=null)"), "a", expected=Expected(output="a")) == (None, None)
    calls = (ToolCall("f", '{"a": 1}'), ToolCall("f", "{cut"), ToolCall("f", "[1]"))
    assert said(judge, "a", tools_called=calls, expected=Expected(output="a")) == ("hit", 1.0)
    assert os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] == "YES"
    assert os.environ["DEEPEVAL_DISABLE_DOTENV"] == "1"


CASES = {"spikee": spikee_cases, "rebel": rebel_cases, "garak": garak_cases, "deepeval": deepeval_cases}

if __name__ == "__main__":
    CASES[sys.argv[1]](lambda expression: make_judge(expression, Context()))
    sys.stdout.write("all good\n")
