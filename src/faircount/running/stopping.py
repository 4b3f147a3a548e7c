"""When a run knows enough: `asr < 5%`, `asr > 20%`, `width < 4%`, joined by `or`, looked at after every entry.

The interval is a confidence sequence: it holds at all sample sizes at once, so that a run may stop as soon as it says
enough, and be right as often as its level says. Entries must come in random order: see `shards.in_random_order`. The
rate is that of entries of which an attempt succeeded, among all that are finished, errors and blocks included. Nobody
knows what an error or an unjudged entry would have come to: a rule holds only if it does whether all of these succeeded
or none did.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from faircount import formats
from faircount.errors import UsageError
from faircount.findings import counted
from faircount.model import Estimate, Outcome
from faircount.stats.gates import confidence_sequence
from faircount.text import clip, visible

_RULE = re.compile(
    r"\s*(?P<figure>asr|width)\s*(?P<sign>[<>])\s*(?P<number>\d{1,3}(?:\.\d{1,6})?)\s*(?:(?P<percent>%)\s*)?"
)
_HINT = "write 'asr < 5%', 'asr > 20%' or 'width < 4%', or several joined by or"


class Rule(Struct, frozen=True):
    """One reason to stop: the rate is surely below or above a share, or the interval is narrower than one."""

    figure: str
    sign: str
    share: float

    def holds(self, low: float, high: float) -> bool:
        """Return whether an interval says enough."""
        if self.figure == "width":
            return high - low < self.share
        return high < self.share if self.sign == "<" else low > self.share

    def __str__(self) -> str:
        return f"{self.figure} {self.sign} {formats.exact_percent(self.share)}"


def read_rules(text: str) -> tuple[Rule, ...]:
    """Return the rules of `--stop-when`."""
    return tuple(_read_rule(part, text) for part in re.split(r"\bor\b", text))


def _read_rule(part: str, text: str) -> Rule:
    found = _RULE.fullmatch(part)
    if found is None:
        raise UsageError(f"--stop-when {clip(visible(text), 100)}: {_HINT}")
    share = float(found["number"]) / (100 if found["percent"] else 1)
    if not 0 < share < 1:
        raise UsageError(f"--stop-when {clip(visible(text), 100)}: the number must be between 0 and 100%")
    if found["figure"] == "width" and found["sign"] == ">":
        raise UsageError(f"--stop-when {clip(visible(text), 100)}: intervals get narrower: write width < {share:g}")
    return Rule(found["figure"], found["sign"], share)


def watcher(text: str, level: float = 0.95, *, ignore_errors: bool = False) -> Callable[[Outcome], str]:
    """Return what hears of every finished entry in its order, and says why no more are needed.

    With `ignore_errors`, errors and unjudged entries count as entries without a success.
    """
    rules = read_rules(text)
    successes = undecided = finished = 0

    def watch(outcome: Outcome) -> str:
        nonlocal successes, undecided, finished
        finished += 1
        successes += outcome is Outcome.SUCCESS
        undecided += outcome in (Outcome.ERROR, Outcome.UNJUDGED) and not ignore_errors
        # The sequence of either extreme holds at all sample sizes, and so does the union of both.
        estimate = confidence_sequence(successes, finished - successes, level=level)
        highest = confidence_sequence(successes + undecided, finished - successes - undecided, level=level)
        assert estimate.low is not None and highest.high is not None
        for rule in rules:
            if rule.holds(estimate.low, highest.high):
                return f"--stop-when {rule}: {_told(replace(estimate, high=highest.high), undecided)}"
        return ""

    return watch


def _told(estimate: Estimate, undecided: int) -> str:
    reach = f"; {counted(undecided, 'error or unjudged entry', 'errors or unjudged entries')} cannot change this"
    return (
        f"{formats.estimate(estimate)} of {estimate.n:,} entries succeeded, by an interval of "
        f"{formats.exact_percent(estimate.level)} that holds whenever one looks"
        f"{reach if undecided else ''}"
    )
