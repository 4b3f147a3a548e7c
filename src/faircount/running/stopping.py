"""When a run knows enough: `asr < 5%`, `asr > 20%`, `width < 4%`, joined by `or`, looked at after every entry.

The interval is a confidence sequence: it holds at all sample sizes at once, so that a run may stop as soon as it says
enough, and be right as often as its level says. Entries must come in random order: see `shards.in_random_order`. The
rate is that of entries of which an attempt succeeded, among all that are finished, errors and blocks included.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from faircount import formats
from faircount.errors import UsageError
from faircount.model import Estimate, Outcome
from faircount.stats.gates import confidence_sequence
from faircount.text import clip, visible

_RULE = re.compile(
    r"\s*(?P<figure>asr|width)\s*(?P<sign>[<>])\s*(?P<number>\d{1,3}(?:\.\d{1,6})?)\s*(?P<percent>%?)\s*"
)
_HINT = "write 'asr < 5%', 'asr > 20%' or 'width < 4%', or several joined by or"


class Rule(Struct, frozen=True):
    """One reason to stop: the rate is surely below or above a share, or the interval is narrower than one."""

    figure: str
    sign: str
    share: float

    def holds(self, estimate: Estimate) -> bool:
        """Return whether an interval says enough."""
        if estimate.low is None or estimate.high is None:
            return False
        if self.figure == "width":
            return estimate.high - estimate.low < self.share
        return estimate.high < self.share if self.sign == "<" else estimate.low > self.share

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


def watcher(text: str, level: float = 0.95) -> Callable[[Outcome], str]:
    """Return what hears of every finished entry in its order, and says why no more are needed."""
    rules = read_rules(text)
    counts = {True: 0, False: 0}

    def watch(outcome: Outcome) -> str:
        counts[outcome is Outcome.SUCCESS] += 1
        estimate = confidence_sequence(counts[True], counts[False], level=level)
        for rule in rules:
            if rule.holds(estimate):
                return f"--stop-when {rule}: {_told(estimate)}"
        return ""

    return watch


def _told(estimate: Estimate) -> str:
    return (
        f"{formats.estimate(estimate)} of {estimate.n:,} entries succeeded, by an anytime-valid interval "
        f"of {formats.exact_percent(estimate.level)}"
    )
