"""Whether a run is worse than its baseline by more than a margin: a test of non-inferiority, said as a gate's result.

Worse is a higher success rate of attacks and a lower pass rate of tasks. Where the comparison's own interval is one of
families, or of scores, its limits decide; else Tango's on the same entries, or Farrington's and Manning's on others.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from faircount import stats
from faircount.analysis.compare.model import CorrectedPair, Figures, File, Pair
from faircount.analysis.gates.subject import RATE_OF, TASK
from faircount.analysis.gates.wording import rate_name
from faircount.core.errors import UsageError
from faircount.core.findings import counted
from faircount.core.model import Estimate
from faircount.report import formats
from faircount.stats import NonInferiority

PASSED, FAILED, INCONCLUSIVE = "passed", "failed", "inconclusive"
# Intervals that take entries as independent: the tests of `stats.gates` say the same with one-sided limits.
_PLAIN = ("tango", "newcombe paired", "newcombe", "miettinen-nurminen", "farrington-manning")
_ROUNDED = 0.00005
_STATES = {"non_inferior": PASSED, "inferior": FAILED, "not_shown": INCONCLUSIVE}


class Change(Struct, frozen=True):
    """A change for the worse with one-sided limits, what follows from it, and how many more entries would decide."""

    worsening: Estimate
    state: str
    reason: str
    more: int | None


def judged(figures: Figures, margin: float, aim: str, files: Sequence[File] = ()) -> Change:
    """Judge a pair of runs, or a group of one; the `files` of a pair are told where their rates differ from it."""
    difference = figures.difference
    alpha = round(1 - difference.level, 12)
    if not 0 < alpha < 0.5:
        raise UsageError("--fail-on regression needs a --level above 0.5")
    if isinstance(figures, Pair) and figures.corrected is not None:
        return _corrected(figures, figures.corrected, margin, alpha, aim)
    # Without an interval, as in a group of one family, nothing is tested either.
    if difference.method not in _PLAIN or difference.low is None:
        worsening = _worsening(difference, aim)
        found = stats.non_inferiority_by_limits(worsening, margin, alpha=alpha, degrees=figures.degrees)
        more = stats.more_to_narrow(found, alpha) if found.verdict == "not_shown" else None
    elif figures.paired:
        found, more = _paired(figures, margin, alpha, aim)
    else:
        found, more = _unpaired(figures, margin, alpha, aim)
    state, paired = _STATES[found.verdict], bool(figures.paired)
    reason = _sentence(figures, found.difference, state, margin, more, paired=paired, aim=aim, files=files)
    return Change(found.difference, state, reason, more)


def bounded(found: Change, figures: Figures, margin: float, aim: str) -> Change:
    """Judge the change by its bounds: as if errors and unjudged entries had ended for the best, and for the worst."""
    if figures.bounds is None:
        return found
    low, high = (judged(bound, margin, aim) for bound in (figures.bounds.lowest, figures.bounds.highest))
    if isinstance(figures, Pair) and figures.corrected is not None:
        # The labels say nothing of entries without a verdict: the bounds move a corrected change as far as a raw one.
        low, high = (_moved(found, judged_raw, figures.difference, margin, aim) for judged_raw in (low, high))
    best, worst = (low, high) if aim != TASK else (high, low)
    undecided = figures.undecided
    what = f"{undecided:,} {'pair has' if undecided == 1 else 'pairs have'}"
    if best.state == worst.state != INCONCLUSIVE:
        decisive, how = (worst, "for the worst") if worst.state == PASSED else (best, "for the best")
        said = decisive.reason or found.reason
        reason = f"{said}; {what} an error or an entry that nothing judged, taken {how}"
        return replace(decisive, reason=reason)
    changes = " and ".join(
        f"{formats.signed_points(change.worsening.value or 0.0, 2)} points if all had ended {how} ({change.state})"
        for change, how in ((best, "for the best"), (worst, "for the worst"))
    )
    reason = (
        f"{what} an error or an entry that nothing judged: the change for the worse is {changes}; run these again, or "
        "leave them out with --errors ignore"
    )
    return Change(found.worsening, INCONCLUSIVE, reason, None)


def with_unread(found: Change, unread: int, margin: float) -> Change:
    """Judge the change as if lines that could not be read had been pairs that ended for the best, or for the worst."""
    worsening = found.worsening
    total = worsening.n + unread
    best = stats.with_others(worsening, -unread, total).low
    worst = stats.with_others(worsening, unread, total).high
    if best is None or worst is None or found.state == INCONCLUSIVE:
        return found
    if best > margin if found.state == FAILED else worst < margin:
        return found
    reason = (
        f"{counted(unread, 'line')} could not be read; had all of them been entries that changed, the gate could come "
        "out the other way; fix the files, or use --errors ignore"
    )
    return Change(worsening, INCONCLUSIVE, reason, None)


def _moved(found: Change, bound: Change, difference: Estimate, margin: float, aim: str) -> Change:
    raw, there, worsening = difference.value, bound.worsening.value, found.worsening
    if raw is None or there is None or worsening.value is None or worsening.low is None or worsening.high is None:
        return bound
    by = there - (raw if aim != TASK else -raw)
    value, low, high = (limit + by for limit in (worsening.value, worsening.low, worsening.high))
    state = PASSED if high < margin else FAILED if low > margin else INCONCLUSIVE
    return Change(replace(worsening, value=value, low=low, high=high), state, "", None)


def _worsening(difference: Estimate, aim: str) -> Estimate:
    """Return a difference as a change for the worse."""
    value, low, high = difference.value, difference.low, difference.high
    if aim != TASK or value is None or low is None or high is None:
        return difference
    return replace(difference, value=-value, low=-high, high=-low)


def _paired(figures: Figures, margin: float, alpha: float, aim: str) -> tuple[NonInferiority, int | None]:
    n, worse, better = figures.paired, figures.only_b, figures.only_a
    if aim == TASK:
        worse, better = better, worse
    found = stats.non_inferiority_paired(worse, better, n, margin, alpha=alpha)
    return found, stats.more_pairs(worse, better, n, margin, alpha) if found.verdict == "not_shown" else None


def _unpaired(figures: Figures, margin: float, alpha: float, aim: str) -> tuple[NonInferiority, int | None]:
    new, old = (figures.successes_b, figures.rate_b.n), (figures.successes_a, figures.rate_a.n)
    if aim == TASK:
        new, old = (new[1] - new[0], new[1]), (old[1] - old[0], old[1])
    found = stats.non_inferiority_unpaired(*new, *old, margin, alpha=alpha)
    return found, stats.more_entries_of_each(new, old, margin, alpha) if found.verdict == "not_shown" else None


def _corrected(pair: Pair, corrected: CorrectedPair, margin: float, alpha: float, aim: str) -> Change:
    """Decide by the difference corrected for the judge; where it could not be corrected, nothing is shown."""
    if corrected.difference is None:
        nothing = stats.undefined("entry", 1 - 2 * alpha, "corrected", pair.difference.n)
        reason = "the change corrected for the judge is undefined: the comparison could not correct it, and says why"
        return Change(nothing, INCONCLUSIVE, reason, None)
    worsening = _worsening(corrected.difference, aim)
    found = stats.non_inferiority_by_limits(worsening, margin, alpha=alpha, degrees=pair.degrees)
    state = _STATES[found.verdict]
    # More labels may be what is missing: how many entries would decide is not known.
    reason = _sentence(corrected, found.difference, state, margin, None, paired=bool(pair.paired), aim=aim)
    return Change(found.difference, state, f"corrected for the judge: {reason}", None)


def _sentence(
    figures: Figures | CorrectedPair,
    worsening: Estimate,
    state: str,
    margin: float,
    more: int | None,
    *,
    paired: bool,
    aim: str,
    files: Sequence[File] = (),
) -> str:
    said = f"margin of {formats.exact_percent(margin).removesuffix('%')} points"
    kind = "paired entries" if paired else "entries of both runs, unpaired"
    enough = "" if more is None else f"; about {counted(more, 'more entry', 'more entries')} would decide"
    if more is not None and not paired:
        enough += ", of each run"
    if worsening.value is None or worsening.low is None or worsening.high is None:
        lack = f"there are {counted(worsening.n, 'entry', 'entries')} to compare, with no interval"
        if isinstance(figures, Figures) and figures.families == 1:
            lack = f"{counted(worsening.n, 'entry', 'entries')} of one family do not show how families vary"
        return f"the change is undefined: {lack if worsening.n else 'there are no entries to compare'}{enough}"
    change, low, high = (formats.signed_points(share, 2) for share in (worsening.value, worsening.low, worsening.high))
    old, new = (None if rate is None else rate.value for rate in (figures.rate_a, figures.rate_b))
    start = (
        f"{rate_name(RATE_OF[aim])} from {_rate(old)} to {_rate(new)}{_of_files((old, new), files)}, a change for "
        f"the worse of {change} points ({low} to {high}), "
        f"{worsening.n:,} {kind}, one-sided limits at {formats.exact_percent((1 + worsening.level) / 2)}; "
    )
    if state == PASSED:
        return f"{start}the upper limit is below the {said}"
    if state == FAILED:
        return f"{start}the lower limit is above the {said}"
    shown = "; it is shown to be worse, but not by how much" if worsening.low > 0 else ""
    return f"{start}the {said} lies between the limits{shown}{enough}"


def _of_files(pairs: Sequence[float | None], files: Sequence[File]) -> str:
    """Return the rates of both files, where those of the pairs are others: some entries are in no pair."""
    rates = [file.rate.value for file in files if file.rate.value is not None]
    if len(rates) != 2:
        return ""
    if all(pair is not None and abs(pair - of) < _ROUNDED for pair, of in zip(pairs, rates, strict=True)):
        return ""
    return f" ({' and '.join(map(formats.percent, rates))} of all answered entries)"


def _rate(value: float | None) -> str:
    return "undefined" if value is None else formats.percent(value)
