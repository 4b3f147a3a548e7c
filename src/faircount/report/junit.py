"""Gates as JUnit's XML, which CI systems show as tests: a test case for each gate, a suite for each thing judged.

Names of files and values of facets are made visible and escaped. It has no prompt, no response and no time.
"""

from __future__ import annotations

from collections.abc import Sequence

from faircount.analysis.gates.judge import GateResult
from faircount.analysis.gates.regression import FAILED, INCONCLUSIVE
from faircount.analysis.gates.subject import RATE_OF, Subject
from faircount.core.text import clip, visible
from faircount.report.markup import Markup, tag

_WIDTH = 300
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def render(results: Sequence[GateResult], subjects: Sequence[Subject], *, inconclusive_fails: bool = True) -> str:
    """Return the document. A gate that is inconclusive fails or is skipped, as the user says."""
    suites = [_suite(subject, results, inconclusive_fails) for subject in subjects]
    blocking = sum(result.blocks(inconclusive_fails) for result in results)
    lines = [part for suite in suites for part in ("\n  ", suite)]
    whole = tag("testsuites", *lines, "\n", name="faircount", tests=len(results), failures=blocking, errors=0)
    return f"{_HEAD}{whole.text}\n"


def _suite(subject: Subject, results: Sequence[GateResult], inconclusive_fails: bool) -> Markup:
    own = [result for result in results if result.subject is subject]
    cases = [part for result in own for part in ("\n    ", _case(result, inconclusive_fails))]
    blocking = sum(result.blocks(inconclusive_fails) for result in own)
    return tag(
        "testsuite",
        "\n    ",
        _properties(subject),
        *cases,
        "\n  ",
        name=_shown(subject.name),
        tests=len(own),
        failures=blocking,
        errors=0,
        skipped=sum(result.state == INCONCLUSIVE for result in own) if not inconclusive_fails else 0,
    )


def _properties(subject: Subject) -> Markup:
    rate = subject.rate
    figures = {"value": rate.value, "low": rate.low, "high": rate.high}
    pairs = [(f"entries.{name}", str(count)) for name, count in subject.counts]
    pairs += [(f"{RATE_OF[subject.aim]}.{name}", repr(share)) for name, share in figures.items() if share is not None]
    if subject.against is not None:
        pairs.append(("baseline", _shown(subject.against)))
    lines = [part for name, value in pairs for part in ("\n      ", tag("property", name=name, value=value))]
    return tag("properties", *lines, "\n    ")


def _case(result: GateResult, inconclusive_fails: bool) -> Markup:
    sentence = f"{result.state}: {result.reason}"
    outcome = None
    if result.blocks(inconclusive_fails):
        kind = "gate" if result.state == FAILED else INCONCLUSIVE
        outcome = tag("failure", sentence, message=sentence, type=kind)
    elif result.state == INCONCLUSIVE:
        outcome = tag("skipped", message=sentence)
    else:
        outcome = tag("system-out", sentence)
    name = _shown(result.gate.text)
    return tag("testcase", outcome, name=name, classname=_shown(result.subject.name), time="0")


def _shown(text: str) -> str:
    return clip(visible(text), _WIDTH)
