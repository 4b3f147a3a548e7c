"""How often does the corrected rate of `results analyze --judge-quality` contain the truth? Regimes as tables.

From drawn counts on everything is what the product does: a `Corrector` for the estimate over all entries, errors and
blocks among them, and for families, `allocate_labels` for how many labels `sample-for-labels` draws of either verdict.
Nothing but the drawing is written here, and what others do instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from msgspec.structs import replace
from scipy.stats import norm

from faircount import stats as ours
from faircount.core import Estimate, Validation
from faircount.stats import LabelledCorrector, LabelledPart, MeasuredCorrector, VerdictCounts, allocate_labels
from tests.stats import naive_intervals as naive
from tests.stats.coverage_regimes import (
    BAND,
    Counts,
    Interval,
    Method,
    Outcomes,
    Regime,
    Role,
    Table,
    limits,
    seeded,
    tally,
)

ENTRIES, ANSWERED = 1000, 0.9
RATES = (0.02, 0.1, 0.4)
JUDGES = ((0.95, 0.98), (0.8, 0.9), (0.6, 0.8))
LABELS = (50, 100, 400)
LEVEL = 0.95
Z = float(norm.ppf(0.975))
TWO_PHASE, PPI = "two-phase", "ppi"

Judge = tuple[float, float]
"""Sensitivity and specificity."""


# What happens


def _verdicts(generator: np.random.Generator, rate: float, judge: Judge, draws: int) -> list[Any]:
    """Draw entries with an answer, and of these the found, the false alarms, the missed and the passed."""
    answered = generator.binomial(ENTRIES, ANSWERED, draws)
    true = generator.binomial(answered, rate / ANSWERED)
    found = generator.binomial(true, judge[0])
    alarms = generator.binomial(answered - true, 1 - judge[1])
    return [found, alarms, true - found, answered - true - alarms]


def measured_elsewhere(rate: float, judge: Judge, labels: int, draws: int) -> Outcomes:
    """Draw judged successes and failures, and how many of the labels elsewhere, half of either kind, it got right."""
    generator = seeded("measured elsewhere", rate, judge, labels)
    found, alarms, missed, passed = _verdicts(generator, rate, judge, draws)
    right = [generator.binomial(labels // 2, share, draws) for share in judge]
    return tally(np.column_stack([found + alarms, missed + passed, *right, np.full(draws, labels // 2)]))


def drawn_by_verdict(rate: float, judge: Judge, labels: int, draws: int) -> Outcomes:
    """Draw labels as `sample-for-labels` does: judged, labelled and true among judged successes, failures alike."""
    generator = seeded("drawn by verdict", rate, judge, labels)
    rows = []
    for found, alarms, missed, passed in zip(*_verdicts(generator, rate, judge, draws), strict=True):
        shares = allocate_labels(int(found + alarms), int(missed + passed), labels)
        of_successes = generator.hypergeometric(found, alarms, shares[0])
        of_failures = generator.hypergeometric(missed, passed, shares[1])
        rows.append([found + alarms, shares[0], of_successes, missed + passed, shares[1], of_failures])
    return tally(rows)


def drawn_at_random(rate: float, judge: Judge, labels: int, draws: int) -> Outcomes:
    """Draw labels among all entries with a verdict, whatever it is; counts as in `drawn_by_verdict`."""
    generator = seeded("drawn at random", rate, judge, labels)
    rows = []
    for cells in zip(*_verdicts(generator, rate, judge, draws), strict=True):
        found, alarms, missed, passed = generator.multivariate_hypergeometric(cells, labels)
        judged = [cells[0] + cells[1], cells[2] + cells[3]]
        rows.append([judged[0], found + alarms, found, judged[1], missed + passed, missed])
    return tally(rows)


_SMALL, _LARGE, _UNEVEN = "25 × 8", "100 × 10", "30 of 6 to 96"
SIZES = {
    _SMALL: (8,) * 25,
    _LARGE: (10,) * 100,
    _UNEVEN: tuple(round(25 * math.exp(0.9 * place)) for place in np.linspace(-1.5, 1.5, 30)),
}


def _beta(generator: np.random.Generator, mean: float, correlation: float, count: int) -> Any:
    if not correlation:
        return np.full(count, mean)
    strength = 1 / correlation - 1
    return generator.beta(mean * strength, (1 - mean) * strength, count)


class Clustered:
    """Families whose rates are Beta distributed and, with `alike`, the judge's errors in them as well."""

    def __init__(self, sizes: str, rate: float, judge: Judge, correlation: float, alike: float = 0.0) -> None:
        self.sizes = SIZES[sizes]
        self.of = np.repeat(np.arange(len(self.sizes)), self.sizes)
        self.rate, self.judge, self.correlation, self.alike = rate, judge, correlation, alike

    def draw(self, generator: np.random.Generator) -> tuple[Any, Any, Any]:
        """Return of each entry whether it is answered, a true success, and a judged one."""
        count, entries = len(self.sizes), len(self.of)
        chance = _beta(generator, self.rate / ANSWERED, self.correlation, count)[self.of]
        found = _beta(generator, self.judge[0], self.alike, count)[self.of]
        alarms = _beta(generator, 1 - self.judge[1], self.alike, count)[self.of]
        answered = generator.random(entries) < ANSWERED
        true = answered & (generator.random(entries) < chance)
        return answered, true, answered & (generator.random(entries) < np.where(true, found, alarms))

    def counted(self, *marks: Any) -> list[Any]:
        return [np.bincount(self.of, weights=mark, minlength=len(self.sizes)).astype(int) for mark in marks]

    def labelled(self, labels: int, draws: int, *, by_verdict: bool) -> Outcomes:
        """Draw the seven counts of `LabelledFamily` for each family, one family after the other."""
        generator = seeded("clustered", self.sizes, self.rate, self.judge, self.correlation, self.alike, labels)
        rows = []
        for _ in range(draws):
            answered, true, hit = self.draw(generator)
            miss = answered & ~hit
            chosen = np.zeros(len(self.of), dtype=bool)
            if by_verdict:
                shares = allocate_labels(int(hit.sum()), int(miss.sum()), labels)
                for part, share in zip((hit, miss), shares, strict=True):
                    chosen[generator.choice(np.flatnonzero(part), share, replace=False)] = True
            else:
                chosen[generator.choice(np.flatnonzero(answered), labels, replace=False)] = True
            counts = self.counted(
                np.ones(len(self.of)),
                *(mark for part in (hit, miss) for mark in (part, part & chosen, part & chosen & true)),
            )
            rows.append(np.column_stack(counts).ravel())
        return tally(rows)

    def judged(self, labels: int, draws: int) -> Outcomes:
        """Draw what the judge got right elsewhere, then entries, judged successes and judged failures of families."""
        generator = seeded("clustered elsewhere", self.sizes, self.rate, self.judge, self.correlation, labels)
        rows = []
        for _ in range(draws):
            answered, _, hit = self.draw(generator)
            right = [generator.binomial(labels // 2, share) for share in self.judge]
            counts = self.counted(np.ones(len(self.of)), hit, answered & ~hit)
            rows.append(np.concatenate([right, [labels // 2], np.column_stack(counts).ravel()]))
        return tally(rows)


# From counts to intervals


def by_measured_judge(entries: VerdictCounts, validation: Validation) -> Interval | None:
    return limits_of(MeasuredCorrector(LEVEL, validation=validation).rate(entries).estimate)


def limits_of(estimate: Estimate | None) -> Interval | None:
    return None if estimate is None else limits(estimate)


@cache
def corrected_elsewhere(counts: Counts) -> Interval | None:
    successes, failures, found, passed, each = counts
    entries = VerdictCounts(ENTRIES, LabelledPart(successes, 0, 0), LabelledPart(failures, 0, 0))
    return by_measured_judge(entries, Validation(found, each, passed, each))


def by_sample(entries: VerdictCounts, method: str) -> Interval | None:
    corrector = LabelledCorrector(LEVEL, method=method)
    if method == PPI and not corrector.drawn_at_random(entries):
        return None
    return limits_of(corrector.rate(entries).estimate)


@cache
def corrected_by_sample(counts: Counts, method: str) -> Interval | None:
    return by_sample(VerdictCounts(ENTRIES, LabelledPart(*counts[:3]), LabelledPart(*counts[3:6])), method)


@cache
def verdicts_taken_as_true(successes: int, entries: int) -> Interval | None:
    return limits(ours.wilson(successes, entries))


def garak(successes: int, judged: int, quality: Judge, entries: int = ENTRIES) -> Interval:
    """Return garak's interval of the rate over judged entries, times their share: it knows no other rate."""
    low, high = naive.garak(successes, judged, *quality)
    return low * judged / entries, high * judged / entries


def garak_elsewhere(counts: Counts) -> Interval:
    successes, failures, found, passed, each = counts
    return garak(successes, successes + failures, (found / each, passed / each))


def garak_by_sample(counts: Counts) -> Interval:
    """Return garak's interval with what these labels tell of the judge, each verdict weighing as in the run.

    A judge without true successes or failures among them has no figures, and is taken as right.
    """
    successes, labelled, found, failures, others, missed = counts
    hits = [
        part * true / n if n else 0.0 for part, n, true in ((successes, labelled, found), (failures, others, missed))
    ]
    passes = [successes - hits[0], failures - hits[1]]
    known = bool(sum(hits) and sum(passes))
    quality = (hits[0] / sum(hits), passes[1] / sum(passes)) if known else (1.0, 1.0)
    return garak(successes, successes + failures, quality)


def labels_pooled(counts: Counts) -> Interval | None:
    """Return Wilson's interval of the labels as if they were drawn at random, times the share of judged entries."""
    found = limits(ours.wilson(counts[2] + counts[5], counts[1] + counts[4]))
    share = (counts[0] + counts[3]) / ENTRIES
    return None if found is None else (found[0] * share, found[1] * share)


def families_of(counts: Counts) -> tuple[VerdictCounts, ...]:
    rows = [counts[start : start + 7] for start in range(0, len(counts), 7)]
    return tuple(VerdictCounts(row[0], LabelledPart(*row[1:4]), LabelledPart(*row[4:7])) for row in rows)


def _sums(counts: Sequence[int], width: int) -> tuple[int, ...]:
    return tuple(sum(counts[place::width]) for place in range(width))


def clustered_sample(counts: Counts, method: str, *, respected: bool = True) -> Interval | None:
    entries, *parts = _sums(counts, 7)
    families = families_of(counts) if respected else ()
    return by_sample(
        VerdictCounts(entries, LabelledPart(*parts[:3]), LabelledPart(*parts[3:]), families=families), method
    )


def by_design_effect(counts: Counts, method: str) -> Interval | None:
    """Return the interval of labels, its variance grown by what the design effect of the verdicts adds to p(1-p)/n."""
    entries, *parts = _sums(counts, 7)
    sample = VerdictCounts(entries, LabelledPart(*parts[:3]), LabelledPart(*parts[3:]))
    corrector = LabelledCorrector(LEVEL, method=method)
    if method == PPI and not corrector.drawn_at_random(sample):
        return None
    judged = corrector.rate(sample).judged
    if judged is None or judged.value is None or judged.low is None or judged.high is None:
        return None
    rate, n = judged.value, judged.n
    widening = ours.widening(ours.cluster_wilson(list(counts[1::7]), list(counts[::7])))
    further = Z * math.sqrt((widening - 1) * rate * (1 - rate) / n)
    low, high = rate - math.hypot(rate - judged.low, further), rate + math.hypot(judged.high - rate, further)
    return limits(ours.rate_over_all(replace(judged, low=max(low, 0.0), high=min(high, 1.0)), sample))


def clustered_elsewhere(counts: Counts, *, respected: bool = True) -> Interval | None:
    found, passed, each, *families = counts
    rows = [families[start : start + 3] for start in range(0, len(families), 3)]
    kinds = tuple(VerdictCounts(row[0], LabelledPart(row[1], 0, 0), LabelledPart(row[2], 0, 0)) for row in rows)
    entries, successes, failures = _sums(families, 3)
    whole = VerdictCounts(
        entries, LabelledPart(successes, 0, 0), LabelledPart(failures, 0, 0), families=kinds if respected else ()
    )
    return by_measured_judge(whole, Validation(found, each, passed, each))


def clustered_garak(counts: Counts) -> Interval:
    found, passed, each, *families = counts
    entries, successes, failures = _sums(families, 3)
    return garak(successes, successes + failures, (found / each, passed / each), entries)


def clustered_verdicts(counts: Counts, start: int, width: int) -> Interval | None:
    sums = _sums(counts[start:], width)
    return verdicts_taken_as_true(sums[1], sums[0])


# The tables

_VERDICTS, _GARAK = "verdicts taken as true, Wilson", "garak's way"
_GIVEN = "an interval is given"
_REGIME = "true rate, sensitivity and specificity, labels"

_CAREFUL = (
    "one error more than was seen is allowed for among the labels, which is much where they are few or errors rare"
)
_FEW = "where few families succeed, the floor under their design effect errs on the safe side"

Key = tuple[float, Judge, int]
GOOD, FAIR, POOR = JUDGES
_CAREFUL_ELSEWHERE: set[Key] = {
    *((0.02, GOOD, labels) for labels in (50, 100)),
    *((0.1, GOOD, labels) for labels in (50, 100)),
    *((0.4, judge, 50) for judge in (GOOD, POOR)),
    (0.02, FAIR, 50),
}
_CAREFUL_BY_VERDICT: set[Key] = {
    *((0.02, judge, labels) for judge in JUDGES for labels in (50, 100)),
    *((0.1, GOOD, labels) for labels in (50, 100)),
    (0.4, GOOD, 50),
}
"""Where coverage is above the band."""


def _label(rate: float, judge: Judge, labels: int) -> str:
    return f"{100 * rate:g}%, {judge[0]:g} and {judge[1]:g}, {labels}"


def _every(
    outcomes: Callable[..., Outcomes],
    draws: int,
    careful: Collection[Key] = (),
    rates: Sequence[float] = RATES,
) -> tuple[Regime, ...]:
    rows = []
    for rate, judge, labels in product(rates, JUDGES, LABELS):
        above = (rate, judge, labels) in careful
        rows.append(
            Regime(
                _label(rate, judge, labels),
                rate,
                partial(outcomes, rate, judge, labels, draws),
                draws,
                outside=_CAREFUL if above else "",
                band=(BAND[0], 1.0) if above else BAND,
                given_only=True,
            )
        )
    return tuple(rows)


def _elsewhere(draws: int = 4000) -> Table:
    return Table(
        "A corrected rate, judge measured elsewhere",
        _REGIME,
        (
            Method("Rogan-Gladen with Lang-Reiczigel", Role.DEFAULT, corrected_elsewhere),
            Method(_GIVEN, Role.GIVEN, corrected_elsewhere),
            Method(_GARAK, Role.NAIVE, garak_elsewhere),
            Method(_VERDICTS, Role.NAIVE, lambda counts: verdicts_taken_as_true(counts[0], ENTRIES)),
        ),
        _every(measured_elsewhere, draws, _CAREFUL_ELSEWHERE),
    )


def _by_verdict(draws: int = 4000) -> Table:
    return Table(
        "A corrected rate, labels drawn by sample-for-labels",
        _REGIME,
        (
            Method("two-phase", Role.DEFAULT, partial(corrected_by_sample, method=TWO_PHASE)),
            Method(_GARAK, Role.NAIVE, garak_by_sample),
            Method("labels taken as drawn at random, Wilson", Role.NAIVE, labels_pooled),
            Method(_VERDICTS, Role.NAIVE, lambda counts: verdicts_taken_as_true(counts[0], ENTRIES)),
        ),
        _every(drawn_by_verdict, draws, _CAREFUL_BY_VERDICT),
    )


def _at_random(draws: int = 2000) -> Table:
    return Table(
        "A corrected rate, labels at random",
        _REGIME,
        (
            Method("PPI++ or labels only", Role.DEFAULT, partial(corrected_by_sample, method=PPI)),
            Method(_GIVEN, Role.GIVEN, partial(corrected_by_sample, method=PPI)),
            Method(_GARAK, Role.NAIVE, garak_by_sample),
            Method(_VERDICTS, Role.NAIVE, lambda counts: verdicts_taken_as_true(counts[0], ENTRIES)),
        ),
        _every(drawn_at_random, draws, rates=RATES[1:]),
    )


FamilyKey = tuple[str, float, float, Judge, int, float]


def _family_label(sizes: str, correlation: float, rate: float, judge: Judge, labels: int, alike: float) -> str:
    shared = ", alike errors" if alike else ""
    return f"{sizes}; {correlation:g}{shared}; {_label(rate, judge, labels)}"


_FAMILIES: tuple[FamilyKey, ...] = tuple(
    (sizes, correlation, rate, JUDGES[1], 100, 0.0)
    for sizes in SIZES
    for correlation in (0.1, 0.4)
    for rate in (0.1, 0.4)
) + tuple(
    (sizes, 0.4, rate, JUDGES[2], 150 if sizes == _SMALL else 400, alike)
    for sizes, rate, alike in (
        (_SMALL, 0.4, 0.0),
        (_LARGE, 0.1, 0.0),
        (_LARGE, 0.4, 0.0),
        (_LARGE, 0.4, 0.2),
        (_UNEVEN, 0.4, 0.0),
    )
)
_FAMILY_REGIME = "families; correlation; " + _REGIME


def _family_rows(
    keys: Sequence[FamilyKey],
    outcomes: Callable[[Clustered, int], Outcomes],
    draws: int,
    most: Mapping[FamilyKey, float] | None = None,
) -> tuple[Regime, ...]:
    """Return a row for each key; `most` is what a row that leaves the band above may reach."""
    rows = []
    for key in keys:
        sizes, correlation, rate, judge, labels, alike = key
        above = (most or {}).get(key)
        rows.append(
            Regime(
                _family_label(*key),
                rate,
                partial(outcomes, Clustered(sizes, rate, judge, correlation, alike), labels),
                draws,
                outside="" if above is None else _FEW,
                band=BAND if above is None else (BAND[0], above),
                given_only=True,
            )
        )
    return tuple(rows)


def _families_by_verdict(draws: int = 1500) -> Table:
    rare: FamilyKey = (_UNEVEN, 0.4, 0.02, FAIR, 400, 0.0)
    keys = (*_FAMILIES, rare)
    return Table(
        "A corrected rate of families, labels drawn by sample-for-labels",
        _FAMILY_REGIME,
        (
            Method("two-phase, families respected", Role.DEFAULT, partial(clustered_sample, method=TWO_PHASE)),
            Method("two-phase, entries as independent", Role.NAIVE, _alone(TWO_PHASE)),
            Method("two-phase, design effect of the verdicts", Role.NAIVE, partial(by_design_effect, method=TWO_PHASE)),
            Method(_VERDICTS, Role.NAIVE, partial(clustered_verdicts, start=0, width=7)),
        ),
        _family_rows(keys, lambda c, labels: c.labelled(labels, draws, by_verdict=True), draws, {rare: 0.995}),
    )


def _alone(method: str) -> Callable[[Counts], Interval | None]:
    return partial(clustered_sample, method=method, respected=False)


def _families_at_random(draws: int = 800) -> Table:
    keys = [key for key in _FAMILIES if key[1] == 0.4 and key[0] != _SMALL and not key[5]]
    return Table(
        "A corrected rate of families, labels at random",
        _FAMILY_REGIME,
        (
            Method("PPI++, families respected", Role.DEFAULT, partial(clustered_sample, method=PPI)),
            Method("PPI++, entries as independent", Role.NAIVE, _alone(PPI)),
            Method(_VERDICTS, Role.NAIVE, partial(clustered_verdicts, start=0, width=7)),
        ),
        _family_rows(keys, lambda c, labels: c.labelled(labels, draws, by_verdict=False), draws),
    )


def _families_elsewhere(draws: int = 1500) -> Table:
    keys = [key for key in _FAMILIES if not key[5]]
    return Table(
        "A corrected rate of families, judge measured elsewhere",
        _FAMILY_REGIME,
        (
            Method("Lang-Reiczigel, families respected", Role.DEFAULT, clustered_elsewhere),
            Method("entries as independent", Role.NAIVE, partial(clustered_elsewhere, respected=False)),
            Method(_GARAK, Role.NAIVE, clustered_garak),
            Method(_VERDICTS, Role.NAIVE, partial(clustered_verdicts, start=3, width=3)),
        ),
        _family_rows(keys, lambda c, labels: c.judged(labels, draws), draws),
    )


TABLES = (
    _elsewhere(),
    _by_verdict(),
    _at_random(),
    _families_elsewhere(),
    _families_by_verdict(),
    _families_at_random(),
)
