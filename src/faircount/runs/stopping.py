"""When a run knows enough: `asr < 5%`, `asr > 20%`, `width < 4%`, joined by `or`, looked at after every entry.

The interval is a confidence sequence: it holds at all sample sizes at once, so that a run may stop as soon as it says
enough, and be right as often as its level says. Entries must come in random order: see `shards.in_random_order`. The
rate is that of entries of which an attempt succeeded, among all that are finished, errors and blocks included. Nobody
knows what an error or an unjudged entry would have come to: a rule holds only if it does whether all of these succeeded
or none did.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from faircount.core.findings import counted
from faircount.core.model import Estimate, Outcome
from faircount.query.parser import FigureScanner
from faircount.report import formats
from faircount.stats.gates import confidence_sequence

_HINT = "Write 'asr < 5%', 'asr > 20%' or 'width < 4%', or several joined by or."


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
    """Return the rules of `--stop-when`; QueryError points at what is not understood."""
    return _RuleScanner(text).rules()


class _RuleScanner(FigureScanner):
    what = "rule of --stop-when"
    figures = ("asr", "width")
    signs = ("<", ">")
    signs_hint = _HINT

    def rules(self) -> tuple[Rule, ...]:
        rules = [self._rule()]
        while self.take_keyword("or"):
            rules.append(self._rule())
        if self.next:
            raise self.error(f"expected or, or the end, found {self.found()}", _HINT)
        return tuple(rules)

    def _rule(self) -> Rule:
        figure = self.figure()
        before_sign = self.skip()
        sign = self.sign()
        before_share = self.skip()
        share = self.share()
        if not 0 < share < 1:
            raise self.error("the number must be between 0 and 100%", _HINT, before_share)
        if figure == "width" and sign == ">":
            raise self.error("intervals get narrower", f"Write width < {share:g}.", before_sign)
        return Rule(figure, sign, share)


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
