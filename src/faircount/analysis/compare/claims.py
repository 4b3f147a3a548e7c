"""What may be said about two files, in words, and what could have been said had there been something to find.

A difference is claimed where both agree: its interval leaves out 0, and its p-value, adjusted for the number of tests,
is below 1 - level. Where something is known of the judge, the difference corrected for its errors must say the same.
Nothing else is a claim, and no claim is not a claim that there is no difference.
"""

from __future__ import annotations

from faircount.analysis.compare.model import CorrectedPair, Figures
from faircount.core.findings import counted
from faircount.core.model import Estimate
from faircount.report import formats
from faircount.stats import detectable_paired, detectable_unpaired, shown_sign

POWER = 0.8
"""How often a difference that counts as one that could have been shown would have been."""


def supported(sign: int, corrected: CorrectedPair | None, alpha: float) -> int:
    """Return the sign of a raw difference if the corrected one shows it, too, or if nothing was to be corrected."""
    if corrected is None:
        return sign
    # Where the corrected difference has no test of its own, that of the raw one is.
    p = 0.0 if corrected.adjusted_p is None else corrected.adjusted_p
    return sign if shown_sign(corrected.difference, p, alpha) == sign else 0


def detectable(figures: Figures, alpha: float) -> float | None:
    """Return the true difference that pairs like these show in four cases of five, None where there is none.

    It is decided by the rule of `shown_sign`: McNemar's exact test, or Student's t with the families' design effect.
    """
    n, worth = figures.paired, figures.effective_n
    if not n or not worth:
        return None
    return detectable_paired(
        n,
        figures.differing / n,
        (2 * figures.both + figures.differing) / (2 * n),
        power=POWER,
        alpha=alpha,
        design_effect=n / worth,
        degrees=figures.degrees,
    )


def detectable_apart(figures: Figures, alpha: float) -> float | None:
    """Return the true difference that different entries like these show in four cases of five."""
    a, b, worth = figures.rate_a, figures.rate_b, figures.effective_n
    if a.value is None or b.value is None or not worth:
        return None
    degrees = None if figures.families is None else max(1.0, figures.families / 2 - 1)
    rate = (a.value + b.value) / 2
    return detectable_unpaired(worth, min(rate, 1 - rate), power=POWER, alpha=alpha, degrees=degrees)


def claim(
    figures: Figures,
    sign: int,
    flips: tuple[int, int] | None,
    could: float | None,
    labels: tuple[str, str],
    *,
    corrected: CorrectedPair | None = None,
    supports: bool = True,
) -> str:
    """Return the claim in words; `flips` are the entries fixed and broken, None where entries are not paired.

    `sign` is that of the raw difference; `supports` says whether the corrected one shows it, too.
    """
    a, b = labels
    if figures.difference.value is None:
        return f"No difference between {a} and {b} can be claimed: no entry was answered by both."
    flipped = "" if flips is None else f"; {counted(flips[0], 'entry', 'entries')} fixed, {flips[1]:,} broken"
    if sign:
        raw = f"{b} is {formats.points(figures.difference.value)} {'higher' if sign > 0 else 'lower'} than {a}"
        raw += _limits(figures.difference)
        if corrected is None:
            return f"{raw}{flipped}."
        if supports and corrected.difference is not None:
            shown = formats.points(corrected.difference.value or 0.0) + _limits(corrected.difference)
            return f"{raw} as judged, and by {shown} corrected for the judge{flipped}."
        return f"No difference can be claimed: {raw} as judged, {_unsupported(corrected)}{flipped}."
    if could is None:
        shown = f"there are too few {'entries' if figures.families is None else 'families'} to show any reliably"
    else:
        shown = f"this comparison could have shown {formats.points(could)}"
    if corrected is not None and corrected.difference is not None:
        shown += f"; corrected for the judge it is {_points(corrected.difference)}"
    return f"No difference between {a} and {b} can be claimed; {shown}{flipped}."


def _limits(difference: Estimate) -> str:
    """Return the interval of a claimed difference, for a sentence."""
    if difference.low is None or difference.high is None:
        return ""
    low, high = sorted((abs(difference.low), abs(difference.high)))
    return f" ({formats.exact_percent(difference.level)} interval {100 * low:.1f}–{100 * high:.1f} points)"


def _unsupported(corrected: CorrectedPair) -> str:
    if corrected.difference is None:
        return "and that cannot be corrected for the judge"
    return f"and the difference corrected for the judge, {_points(corrected.difference)}, does not show it"


def _points(difference: Estimate) -> str:
    """Return a difference in points with its interval, for a sentence."""
    if difference.value is None:
        return formats.UNDEFINED
    value = f"{formats.fixed(100 * difference.value, 1)} points"
    if difference.low is None or difference.high is None:
        return f"{value} without an interval"
    return f"{value} [{formats.fixed(100 * difference.low, 1)}, {formats.fixed(100 * difference.high, 1)}]"
