"""The sentences of gates. They hold figures and our own words only, never a file's name nor a value of a record."""

from __future__ import annotations

from faircount.analysis.gates.expression import Gate
from faircount.core.findings import counted
from faircount.core.model import Estimate, LabelsByVerdict
from faircount.report import formats

_NAMES = {
    "asr": "success rate",
    "asr_corrected": "success rate corrected for the judge",
    "pass_rate": "pass rate",
    "errors": "share of errors",
    "guardrail": "share of entries that a guardrail blocked",
    "unjudged": "share of unjudged entries",
}
_NOT_CORRECTED = {
    "not_identifiable": "it is not identifiable, since the judge is too close to chance",
    "incompatible_with_validation": "the judge was measured elsewhere, and that does not hold here",
    "no_verdicts": "no entry has a verdict",
    "too_few_labels": "there are too few labels",
    "not_random": "the labels were not drawn at random from all entries, as --correction ppi needs",
    "no_measured_judge": "the judge is unmeasured, or there are several",
    "compared": "the comparison could not correct it, and says why",
}
_LIMITS = {"low": "lower limit of the ", "high": "upper limit of the ", "value": ""}
_SO = {">": "above", ">=": "at least", "<": "below", "<=": "at most"}
_NOT_SO = {">": "not above", ">=": "below", "<": "not below", "<=": "above"}


def rate_name(figure: str) -> str:
    """Return what a figure is called in a sentence."""
    return _NAMES[figure]


def nothing(gate: Gate, entries: int | None) -> str:
    """Say that a figure is undefined, and how many entries would be needed at least."""
    what = f"the {_LIMITS[gate.part]}{_NAMES[gate.figure]} is undefined: there are no entries"
    if entries is None:
        return what
    return f"{what}; at least {counted(entries, 'entry', 'entries')} would be needed to show that the gate is passed"


def not_corrected(gate: Gate, status: str, labels: LabelsByVerdict | None) -> str:
    """Say that a rate could not be corrected for the judge, and why."""
    why = _NOT_CORRECTED[status]
    if labels is not None and status == "too_few_labels":
        why += f", {labels.successes:,} of judged successes and {labels.failures:,} of judged failures"
    return f"the {_LIMITS[gate.part]}{_NAMES[gate.figure]} is undefined: {why}"


def no_limit(gate: Gate, estimate: Estimate) -> str:
    """Say that a rate has no interval."""
    return (
        f"the {_LIMITS[gate.part]}{_NAMES[gate.figure]} is undefined: {counted(estimate.n, 'entry', 'entries')} of one "
        "family have no interval; entries of other families would be needed"
    )


def decided(gate: Gate, estimate: Estimate, value: float, *, failed: bool) -> str:
    """Say what was compared, and with what result."""
    relation = f"{(_SO if failed else _NOT_SO)[gate.sign]} {formats.exact_percent(gate.threshold)}"
    entries = counted(estimate.n, "entry", "entries")
    what = f"the {_LIMITS[gate.part]}{_NAMES[gate.figure]} is {formats.percent_apart(value, gate.threshold)}"
    if gate.part == "value":
        return f"{what}{_interval(estimate)} of {entries}, {relation}"
    assert estimate.value is not None
    return f"{what}, {relation}; it is {formats.rate(estimate)}{_interval(estimate)} of {entries}"


def unchanged(undecided: int, unread: int) -> str:
    """Say that errors, unjudged entries and lines that could not be read cannot change the result."""
    what = [counted(undecided, "error or unjudged entry", "errors or unjudged entries")] if undecided else []
    what += [counted(unread, "unreadable line")] if unread else []
    return f"{' and '.join(what)} cannot change this"


def bounded(gate: Gate, bounds: tuple[Estimate, Estimate], undecided: int, unread: int) -> str:
    """Say what a figure would be if every error and unjudged entry had failed, and if every one had succeeded."""
    known = [{"value": bound.value, "low": bound.low, "high": bound.high}[gate.part] for bound in bounds]
    said = ["undefined" if value is None else formats.percent_apart(value, gate.threshold) for value in known]
    of = max(bound.n for bound in bounds) - unread
    what = [f"{counted(undecided, 'entry', 'entries')} of {of:,} ended in an error or nothing judged them"]
    what = what if undecided else []
    what += [f"{counted(unread, 'line')} could not be read"] if unread else []
    ways = ("had not been blocked", "had been") if gate.figure == "guardrail" else ("had failed", "had succeeded")
    do = "run them again" if undecided else "fix the file"
    return (
        f"{' and '.join(what)}: the {_LIMITS[gate.part]}{_NAMES[gate.figure]} is {said[0]} if all of them {ways[0]}, "
        f"{said[1]} if all {ways[1]}, and the threshold is {formats.exact_percent(gate.threshold)}; {do}, or use "
        "--errors ignore"
    )


def straddles(gate: Gate, more: int | None, what: tuple[str, str]) -> str:
    """Say that a rate lies too near to the threshold to be told from it."""
    lies = f"{formats.exact_percent(gate.threshold)} is inside the interval, so chance may have decided"
    if more is None:
        return f"{lies}, and no number of entries is known that would tell"
    return f"{lies}: about {counted(more, *what)} at this rate would tell"


def only_the_limit(gate: Gate, more: int | None, what: tuple[str, str]) -> str:
    """Say that the limit is on one side of the threshold and the rate on the other."""
    says = f"the rate itself is on the other side of {formats.exact_percent(gate.threshold)}"
    if more is None:
        return says
    return f"{says}: about {counted(more, *what)} at this rate would bring the limit there, too"


def _interval(estimate: Estimate) -> str:
    limits = formats.interval(estimate)
    return f" ({limits})" if limits else ""
