"""Labels that people give one after the other: what they show so far, which entry comes next, how many more decide.

The judged entries of a run are in two parts, judged successes and judged failures. From either, entries are drawn at
random without replacement, and people label them. Which part is next may depend on all labels before: watching the
rate, changing the allocation and stopping when enough is known do no harm to `label_sequence`. It is about the entries
of this run and about no others. Its only chance is that of the draw, so families of variants do not matter to it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

from faircount.core.model import Estimate
from faircount.stats.corrector import EXPECTED_TRUE, allocate_labels
from faircount.stats.distributions import check_level, log_beta
from faircount.stats.proportion import DEFAULT_LEVEL, undefined

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LABEL_SEQUENCE = "confidence sequence, drawn by verdict"
"""The method of a rate whose interval holds at all numbers of labels at once."""
_PRIOR_LABELS = 2.0
"""What is expected of a part counts as much as so many labels of it."""
_ALWAYS_POSSIBLE = 0.1
"""So much of the chance of a draw is shared equally by the parts: no entry is ever out of reach."""


class DrawnPart(Struct, frozen=True):
    """The entries with one verdict: how many there are, how many were drawn, and their labels.

    Of the others that were drawn nothing is known: nobody has labelled them yet, or nobody could decide.
    """

    entries: int
    drawn: int = 0
    hits: int = 0
    passes: int = 0

    def __post_init__(self) -> None:
        if not (0 <= self.drawn <= self.entries and min(self.hits, self.passes) >= 0 and self.unknown >= 0):
            raise ValueError("labels cannot outnumber the entries that were drawn, nor those the entries")

    @property
    def labelled(self) -> int:
        """How many were drawn and decided."""
        return self.hits + self.passes

    @property
    def unknown(self) -> int:
        """How many were drawn and are not decided."""
        return self.drawn - self.hits - self.passes


# -- the rate so far ----------------------------------------------------------------------------------------------


def label_sequence(
    successes: DrawnPart,
    failures: DrawnPart,
    *,
    total: int | None = None,
    certain: int = 0,
    unit: str = "entry",
    level: float = DEFAULT_LEVEL,
) -> Estimate:
    """Estimate the true rate with an interval that holds at all numbers of labels.

    If T of the N entries of a part are true successes, m labels with h successes have the chance
    (T)_h·(N-T)_(m-h)/(N)_m, where (x)_k = x(x-1)…(x-k+1). The evidence against T is B(a+h, b+m-h)/B(a, b) over that, a
    supermartingale that begins at 1 under the true T (Waudby-Smith and Ramdas 2020). So is the product of both parts,
    however the part of the next draw is chosen (Spertus and Stark 2022). The interval holds the sums T₁ + T₂ of all
    pairs whose product is below 1/(1 - level). The chance that it ever misses the true sum is at most 1 - level. a and
    b are worth two labels with the shares of `EXPECTED_TRUE`. A drawn entry without a decided label counts as a failure
    for the lower limit and as a success for the upper one.

    `total` has the entries that nobody judged as well, which are no successes; `certain` are successes without a judge.
    The value is that of `two_phase`; undefined where a part has no label.
    """
    check_level(level)
    parts = [part for part in (successes, failures) if part.entries]
    n = successes.entries + failures.entries + certain if total is None else total
    if not n:
        return undefined(unit, level, LABEL_SEQUENCE)
    value = None
    if all(part.labelled for part in parts):
        value = (certain + math.fsum(part.entries * part.hits / part.labelled for part in parts)) / n
    low, high = (
        _limits(successes, failures, level, unknown_hits=unknown_hits)[place]
        for place, unknown_hits in enumerate((False, True))
    )
    return Estimate(value, (certain + low) / n, (certain + high) / n, n, unit, level, LABEL_SEQUENCE)


def _limits(successes: DrawnPart, failures: DrawnPart, level: float, *, unknown_hits: bool) -> tuple[int, int]:
    """Return the fewest and the most true successes that the labels leave possible."""
    import numpy as np

    start, least, rises = 0, 0.0, []
    for part, expected in zip((successes, failures), EXPECTED_TRUE, strict=True):
        hits = part.hits + (part.unknown if unknown_hits else 0)
        evidence = _log_evidence(part.entries, part.drawn, hits, expected)
        start, least = start + hits, least + float(evidence[0])
        rises.append(np.diff(evidence))
    # Each is convex in its T. So the least evidence against a sum, over all ways to make it, takes the smallest rises
    # of both first: in order of their size.
    together = least + np.concatenate([[0.0], np.cumsum(np.sort(np.concatenate(rises), kind="stable"))])
    possible = np.flatnonzero(together < -math.log1p(-level))
    return start + int(possible[0]), start + int(possible[-1])


def _log_evidence(entries: int, drawn: int, hits: int, expected: float) -> npt.NDArray[np.float64]:
    """Return the logarithm of the evidence against each number of true successes that the labels leave possible."""
    import numpy as np

    passes, a = drawn - hits, _PRIOR_LABELS * expected
    b = _PRIOR_LABELS - a
    mixture = log_beta(a + hits, b + passes) - log_beta(a, b)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, entries + 1)))])  # of factorials
    true = np.arange(hits, entries - passes + 1)
    chance = logs[true] - logs[true - hits] + logs[entries - true] - logs[entries - true - passes]
    evidence: npt.NDArray[np.float64] = mixture - chance + logs[entries] - logs[entries - drawn]
    return evidence


def shown_below(estimate: Estimate, threshold: float) -> bool | None:
    """Return whether a rate is shown to be below a threshold; None while its interval holds that."""
    if estimate.high is not None and estimate.high < threshold:
        return True
    return False if estimate.low is not None and estimate.low >= threshold else None


# -- which entry next ---------------------------------------------------------------------------------------------


def draw_chances(successes: DrawnPart, failures: DrawnPart) -> tuple[float, float]:
    """Return the chance with which the next entry is drawn from either part; within one, all have the same.

    Of either part as many are wanted as `allocate_labels` draws for one label more, given the labels so far and two
    labels' worth of `EXPECTED_TRUE`. The part with fewer than wanted has nine tenths of the chance; one tenth is shared
    equally. 0 and 0 where nothing is left.
    """
    parts = (successes, failures)
    left = [part.entries > part.drawn for part in parts]
    if not any(left):
        return 0.0, 0.0
    wanted = allocate_labels(
        successes.entries, failures.entries, successes.drawn + failures.drawn + 1, _expected(successes, failures)
    )
    lacking = [max(of - part.drawn, 0) * more for of, part, more in zip(wanted, parts, left, strict=True)]
    if not any(lacking):
        lacking = [int(more) for more in left]
    first, second = (
        (1 - _ALWAYS_POSSIBLE) * lack / sum(lacking) + _ALWAYS_POSSIBLE * more / sum(left)
        for lack, more in zip(lacking, left, strict=True)
    )
    return first, second


def _expected(successes: DrawnPart, failures: DrawnPart) -> tuple[float, float]:
    first, second = (
        (part.hits + _PRIOR_LABELS * share) / (part.labelled + _PRIOR_LABELS)
        for part, share in zip((successes, failures), EXPECTED_TRUE, strict=True)
    )
    return first, second


def labels_to_decide(
    successes: DrawnPart,
    failures: DrawnPart,
    threshold: float,
    *,
    total: int | None = None,
    certain: int = 0,
    level: float = DEFAULT_LEVEL,
) -> int | None:
    """Estimate how many more labels decide about a threshold; if the shares stay as they are.

    0 where that is known. What was drawn and is unknown is among them, and taken to be like the rest. None before both
    parts have a label, and where the rate is too close to the threshold for any number of labels.
    """
    parts, unknown = (successes, failures), successes.unknown + failures.unknown
    if not all(part.labelled for part in parts if part.entries):
        return None
    if (
        shown_below(label_sequence(successes, failures, total=total, certain=certain, level=level), threshold)
        is not None
    ):
        return 0

    def decides(more: int) -> bool:
        drawn = sum(part.drawn for part in parts) + more
        wanted, _ = allocate_labels(successes.entries, failures.entries, drawn, _expected(successes, failures))
        # What was drawn stays so, and no part gives more than it has.
        first = min(max(wanted, successes.drawn, drawn - failures.entries), drawn - failures.drawn)
        found = label_sequence(
            _as_so_far(successes, first),
            _as_so_far(failures, drawn - first),
            total=total,
            certain=certain,
            level=level,
        )
        return shown_below(found, threshold) is not None

    fewest, most = 0, sum(part.entries - part.drawn for part in parts)
    if not decides(most):
        return None
    while fewest < most:
        middle = (fewest + most) // 2
        fewest, most = (fewest, middle) if decides(middle) else (middle + 1, most)
    return most + unknown


def _as_so_far(part: DrawnPart, drawn: int) -> DrawnPart:
    """Return a part of which more is drawn and all of that is labelled, with labels as they were so far."""
    hits = round(part.hits / part.labelled * drawn) if part.labelled else 0
    return DrawnPart(part.entries, drawn, hits, drawn - hits)
