"""How often do nominal 95% intervals contain the truth? The regimes, as tables: what happens, what is true, what the
methods make of it, and what the specification of our statistics reports for it.

An interval depends on a few counts. So a regime is a distribution of counts, enumerated where that is possible and
otherwise drawn from a seed, and a method is a function of counts; every count is worked out once.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import stats as scipy_stats

from faircount import stats as ours
from faircount.core import Estimate
from tests.stats import naive_intervals as naive

Counts = tuple[int, ...]
Outcomes = dict[Counts, float]
Interval = tuple[float, float]

BAND = (0.93, 0.98)
SPEC_RUNS = 4000
# Limits such as 27/30 and a truth such as 0.9 are the same number, a rounding error apart.
_ROUNDING = 1e-9
# Enumerations leave out counts that are less likely than this; together they weigh less than 0.0001.
_NEGLIGIBLE = 1e-9


class Role(enum.Enum):
    """What a method is to Faircount: the one it uses, one it offers besides, or one that others use.

    `GIVEN` is none: its figure is how often a method gives an interval at all.
    """

    DEFAULT = "ours"
    OFFERED = "also ours"
    NAIVE = "naive"
    GIVEN = "share of draws"


@dataclass(frozen=True)
class Method:
    """A way from counts to an interval; None where it gives none, which counts as a miss."""

    name: str
    role: Role
    interval: Callable[[Counts], Interval | None]


@dataclass(frozen=True)
class Regime:
    """One row: a label, the truth, the distribution of counts, and the figures of the specification by method.

    `outside` says why the default method leaves the band of 93 to 98% here. Then the figure of the specification is
    what must come out or, where it has none, `band`. With `given_only` an interval that a method refuses to give is no
    miss: the figure is the share among those given.
    """

    label: str
    truth: float
    outcomes: Callable[[], Outcomes]
    draws: int = 0
    spec: Mapping[str, float] = field(default_factory=dict)
    outside: str = ""
    band: Interval = BAND
    given_only: bool = False

    def coverage(self, methods: tuple[Method, ...]) -> dict[str, float]:
        """Return the share of outcomes whose interval contains the truth, by method."""
        outcomes = self.outcomes()
        return {method.name: self._share(method, outcomes) for method in methods}

    def _share(self, method: Method, outcomes: Outcomes) -> float:
        intervals = [(method.interval(counts), weight) for counts, weight in outcomes.items()]
        total = math.fsum(outcomes.values())
        given = math.fsum(weight for interval, weight in intervals if interval is not None)
        if method.role is Role.GIVEN:
            return given / total
        covered = math.fsum(weight for interval, weight in intervals if self._covers(interval))
        return covered / (given if self.given_only else total)

    def _covers(self, interval: Interval | None) -> bool:
        return interval is not None and interval[0] - _ROUNDING <= self.truth <= interval[1] + _ROUNDING


@dataclass(frozen=True)
class Table:
    """Regimes of one kind under the same methods; `spec_runs` is 0 where the specification enumerated."""

    title: str
    regime: str
    methods: tuple[Method, ...]
    regimes: tuple[Regime, ...]
    spec_runs: int = SPEC_RUNS


def limits(estimate: Estimate) -> Interval | None:
    return None if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)


# Distributions of counts


@cache
def binomial(n: int, chance: float) -> tuple[tuple[int, float], ...]:
    """Return the counts of a binomial that are not negligible, with their masses."""
    masses = scipy_stats.binom.pmf(np.arange(n + 1), n, chance)
    return tuple((k, float(mass)) for k, mass in enumerate(masses) if mass > _NEGLIGIBLE)


def one_binomial(n: int, chance: float) -> Outcomes:
    return {(k, n): mass for k, mass in binomial(n, chance)}


def two_binomials(n_a: int, chance_a: float, n_b: int, chance_b: float) -> Outcomes:
    pairs = {(a, n_a, b, n_b): x * y for a, x in binomial(n_a, chance_a) for b, y in binomial(n_b, chance_b)}
    return {counts: mass for counts, mass in pairs.items() if mass > _NEGLIGIBLE}


def seeded(*seed: Any) -> np.random.Generator:
    return np.random.default_rng(list(repr(seed).encode()))


def tally(rows: Any) -> Outcomes:
    """Return the share of each distinct row."""
    distinct, times = np.unique(np.asarray(rows), axis=0, return_counts=True)
    shares = times / times.sum()
    return {tuple(row): share for row, share in zip(distinct.tolist(), shares.tolist(), strict=True)}


def families(count: int, size: int, rate: float, correlation: float, draws: int) -> Outcomes:
    """Draw successes in families whose rates are Beta distributed; counts are the size, then the sorted successes."""
    generator = seeded("families", count, size, rate, correlation)
    chances: Any = rate
    if correlation:
        strength = 1 / correlation - 1
        chances = generator.beta(rate * strength, (1 - rate) * strength, size=(draws, count))
    successes = np.sort(generator.binomial(size, chances, size=(draws, count)), axis=1)
    return tally(np.column_stack([np.full(draws, size), successes]))


def stopped_attempts(entries: int, cap: int, error: float, draws: int) -> Outcomes:
    """Draw attacks that stop at the first success, the cap or a fatal error; the rates of entries are Beta(0.5, 2).

    Counts are the entries that succeeded at attempt 1, 2 … cap, then those censored after 0, 1 … cap valid attempts.
    """
    failing = [1.0]
    for k in range(cap):
        failing.append(failing[-1] * (2 + k) / (2.5 + k))
    hits = [(1 - error) ** k * (failing[k - 1] - failing[k]) for k in range(1, cap + 1)]
    censored = [(1 - error) ** k * failing[k] * (error if k < cap else 1) for k in range(cap + 1)]
    return tally(seeded("stopped", entries, cap, error).multinomial(entries, [*hits, *censored], size=draws))


def within(k: int) -> float:
    """Return the true success within k attempts of entries with Beta(0.5, 2) rates."""
    return 1 - math.prod((2 + i) / (2.5 + i) for i in range(k))


def paired(n: int, rate_a: float, rate_b: float, discordant: float, draws: int) -> Outcomes:
    """Draw two targets on the same entries: both, only A, only B and neither succeeded."""
    only_a, only_b = (discordant + rate_a - rate_b) / 2, (discordant - rate_a + rate_b) / 2
    chances = [rate_a - only_a, only_a, only_b, 1 - rate_a - only_b]
    return tally(seeded("paired", n, rate_a, rate_b).multinomial(n, chances, size=draws))


RECALL, FALSE_ALARMS, VALIDATED = 0.8, 0.8 / 21, 100
"""Recall 80% and precision 90% where 30% are successes, validated on 100 successes and 100 failures."""


def judged_rate(rate: float, recall: float = RECALL) -> float:
    return recall * rate + FALSE_ALARMS * (1 - rate)


def validated_judge(n: int, rate: float, recall: float, draws: int) -> Outcomes:
    """Draw verdicts and a validation elsewhere: judged successes, n, found successes, passed failures."""
    generator = seeded("validated", n, rate, recall)
    judged = generator.binomial(n, judged_rate(rate, recall), draws)
    found, passed = generator.binomial(VALIDATED, RECALL, draws), generator.binomial(VALIDATED, 1 - FALSE_ALARMS, draws)
    return tally(np.column_stack([judged, np.full(draws, n), found, passed]))


def labelled_by_verdict(n: int, rate: float, recall: float, labels: int, draws: int) -> Outcomes:
    """Draw verdicts and labels, half of either verdict if there are: judged, n, labels and true ones by verdict."""
    generator = seeded("two-phase", n, rate, recall)
    share = judged_rate(rate, recall)
    judged = generator.binomial(n, share, draws)
    of_successes = np.minimum(labels // 2, judged)
    of_failures = labels - of_successes
    true = generator.binomial(of_successes, recall * rate / share)
    missed = generator.binomial(of_failures, (1 - recall) * rate / (1 - share))
    return tally(np.column_stack([judged, np.full(draws, n), of_successes, true, of_failures, missed]))


def labelled_at_random(n: int, rate: float, recall: float, labels: int, draws: int) -> Outcomes:
    """Draw labels and verdicts together: found, missed, false alarms and passed among them; judged among the others."""
    generator = seeded("at random", n, rate, recall)
    chances = [recall * rate, (1 - recall) * rate, FALSE_ALARMS * (1 - rate), (1 - FALSE_ALARMS) * (1 - rate)]
    cells = generator.multinomial(labels, chances, size=draws)
    others = generator.binomial(n - labels, judged_rate(rate, recall), draws)
    return tally(np.column_stack([cells, others, np.full(draws, n - labels)]))


# From counts to intervals


def of_families(method: Callable[[list[int], int], Interval | None]) -> Callable[[Counts], Interval | None]:
    return lambda counts: method(list(counts[1:]), counts[0])


def pooled_wilson(successes: list[int], size: int) -> Interval | None:
    return limits(ours.wilson(sum(successes), size * len(successes)))


def kaplan_meier(counts: Counts, k: int) -> Interval | None:
    ends = list(_ends(counts))
    return limits(ours.success_within_k([end for end, _ in ends], [hit for _, hit in ends]).within(k))


def _ends(counts: Counts) -> Iterator[tuple[int, bool]]:
    cap = len(counts) // 2
    for k, times in enumerate(counts[:cap], 1):
        yield from [(k, True)] * times
    for k, times in enumerate(counts[cap:]):
        yield from [(k, False)] * times


def errors_as_failures(counts: Counts, k: int) -> Interval | None:
    return limits(ours.wilson(sum(counts[:k]), sum(counts)))


def pass_at_k_of_a_stopped_log(counts: Counts, k: int) -> Interval:
    values = [(1.0 if end <= k else k / end) if hit else 0.0 for end, hit in _ends(counts)]
    return naive.mean_of_values(values)


def mean_pass_at(k: int) -> Callable[[list[int], int], Interval | None]:
    return lambda successes, size: limits(ours.mean_pass_at_k([(size, s) for s in successes], k).estimate)


def plug_in(k: int) -> Callable[[list[int], int], Interval | None]:
    return lambda successes, size: naive.mean_of_values([1 - (1 - s / size) ** k for s in successes])


def of_pairs(method: Callable[[int, int, int], Interval | None]) -> Callable[[Counts], Interval | None]:
    """Return a method of the entries on which the targets differ, each pair of counts worked out once."""
    kept = cache(method)
    return lambda counts: kept(counts[1], counts[2], sum(counts))


def as_if_unpaired(counts: Counts) -> Interval | None:
    both, only_a, only_b, _ = counts
    n = sum(counts)
    return limits(ours.newcombe(both + only_a, n, both + only_b, n))


def of_detector(method: Callable[..., Estimate]) -> Callable[[Counts], Interval | None]:
    return lambda c: limits(method(tp=c[0], fn=c[1] - c[0], tn=c[2], fp=c[3] - c[2]))


def lang_reiczigel(counts: Counts) -> Interval | None:
    judged, n, found, passed = counts
    return limits(ours.lang_reiczigel(judged, n, ours.Validation(found, VALIDATED, passed, VALIDATED)))


def plugged_in(counts: Counts) -> Interval | None:
    judged, n, found, passed = counts
    return naive.judge_taken_as_known(judged, n, found / VALIDATED, passed / VALIDATED)


def two_phase(counts: Counts) -> Interval | None:
    judged, n, of_successes, true, of_failures, missed = counts
    successes = ours.LabelledPart(judged, of_successes, true)
    return limits(ours.two_phase(successes, ours.LabelledPart(n - judged, of_failures, missed)))


Lists = tuple[list[int], list[int], list[int]]


def labels_and_verdicts(counts: Counts) -> Lists:
    found, missed, false_alarms, passed, judged, others = counts
    labels = [1] * (found + missed) + [0] * (false_alarms + passed)
    verdicts = [1] * found + [0] * missed + [1] * false_alarms + [0] * passed
    return labels, verdicts, [1] * judged + [0] * (others - judged)


def of_labels(method: Callable[..., Estimate]) -> Callable[[Counts], Interval | None]:
    return lambda counts: limits(method(*labels_and_verdicts(counts)))


def verdicts_alone(counts: Counts) -> Interval | None:
    found, _, false_alarms, _, judged, others = counts
    return limits(ours.wilson(found + false_alarms + judged, sum(counts[:4]) + others))


def first_two(method: Callable[[int, int], Any]) -> Callable[[Counts], Interval | None]:
    """Return a method of a count and its denominator, which stand first."""

    def interval(counts: Counts) -> Interval | None:
        found = method(counts[0], counts[1])
        return limits(found) if isinstance(found, Estimate) else found

    return cache(interval)


# The tables

_DISCRETE = "successes are whole numbers: with few of them coverage jumps from one true rate to the next"


def _single() -> Table:
    names = ("Wald", "percentile bootstrap", "t", "Wilson", "Jeffreys", "Clopper-Pearson")
    spec = {
        (10, 0.01): (0.096, 0.096, 0.096, 0.904, 0.904, 0.996),
        (10, 0.05): (0.400, 0.400, 0.401, 0.914, 0.988, 0.988),
        (10, 0.1): (0.650, 0.650, 0.650, 0.930, 0.987, 0.987),
        (10, 0.3): (0.840, 0.961, 0.961, 0.924, 0.924, 0.989),
        (30, 0.01): (0.260, 0.260, 0.260, 0.964, 0.964, 0.997),
        (30, 0.05): (0.782, 0.782, 0.785, 0.939, 0.984, 0.984),
        (30, 0.1): (0.809, 0.950, 0.956, 0.974, 0.932, 0.992),
        (30, 0.3): (0.953, 0.953, 0.953, 0.930, 0.953, 0.974),
        (50, 0.01): (0.395, 0.393, 0.395, 0.911, 0.986, 0.986),
        (50, 0.05): (0.920, 0.911, 0.920, 0.962, 0.885, 0.988),
        (50, 0.1): (0.879, 0.957, 0.879, 0.970, 0.942, 0.970),
        (50, 0.3): (0.935, 0.969, 0.947, 0.957, 0.957, 0.969),
        (100, 0.01): (0.633, 0.633, 0.633, 0.921, 0.982, 0.982),
        (100, 0.05): (0.877, 0.959, 0.877, 0.966, 0.935, 0.983),
        (100, 0.1): (0.932, 0.966, 0.932, 0.936, 0.956, 0.956),
        (100, 0.3): (0.950, 0.950, 0.950, 0.937, 0.950, 0.963),
        (500, 0.01): (0.871, 0.955, 0.871, 0.962, 0.929, 0.980),
        (500, 0.05): (0.932, 0.953, 0.932, 0.950, 0.950, 0.960),
        (500, 0.1): (0.943, 0.955, 0.943, 0.956, 0.948, 0.963),
        (500, 0.3): (0.949, 0.954, 0.949, 0.955, 0.949, 0.955),
    }
    outside = {(10, 0.01), (10, 0.05), (10, 0.1), (10, 0.3), (30, 0.3), (50, 0.01), (100, 0.01)}
    return Table(
        "One rate",
        "entries, true rate",
        (
            Method("Wilson", Role.DEFAULT, first_two(ours.wilson)),
            Method("Clopper-Pearson", Role.OFFERED, first_two(ours.clopper_pearson)),
            Method("Jeffreys", Role.OFFERED, first_two(ours.jeffreys)),
            Method("Wald", Role.NAIVE, first_two(naive.wald)),
            Method("percentile bootstrap", Role.NAIVE, first_two(naive.percentile_bootstrap)),
            Method("t", Role.NAIVE, first_two(naive.mean_t)),
        ),
        tuple(
            Regime(
                f"{n}, {100 * rate:g}%",
                rate,
                partial(one_binomial, n, rate),
                spec=dict(zip(names, figures, strict=True)),
                outside=_DISCRETE if (n, rate) in outside else "",
            )
            for (n, rate), figures in spec.items()
        ),
        spec_runs=0,
    )


def _families(draws: int = 8000) -> Table:
    # Without cluster Wilson: the specification measured it without the floor under the design effect.
    names = ("Wilson", "family means, t", "cluster bootstrap")
    spec: dict[tuple[int, int, float, float], tuple[float, ...]] = {
        (25, 8, 0.2, 0.0): (0.958, 0.949, 0.943),
        (25, 8, 0.2, 0.1): (0.881, 0.939, 0.931),
        (25, 8, 0.2, 0.3): (0.755, 0.928, 0.924),
        (25, 8, 0.2, 0.6): (0.619, 0.929, 0.927),
        (10, 20, 0.2, 0.3): (0.560, 0.905, 0.878),
        (100, 8, 0.2, 0.3): (0.744, 0.952, 0.951),
        # Low rates, of which the specification says nothing.
        (100, 8, 0.05, 0.3): (),
        (25, 8, 0.05, 0.3): (),
        (25, 8, 0.02, 0.3): (),
    }
    few = "with ten families, the floor under their design effect errs on the safe side"
    return Table(
        "Families of variants",
        "families × variants, true rate, correlation",
        (
            Method(
                "cluster Wilson",
                Role.DEFAULT,
                of_families(lambda s, m: limits(ours.cluster_wilson(s, [m] * len(s)).estimate)),
            ),
            Method(
                "cluster bootstrap",
                Role.OFFERED,
                of_families(lambda s, m: limits(ours.cluster_bootstrap(s, [m] * len(s)))),
            ),
            Method("Wilson", Role.NAIVE, of_families(pooled_wilson)),
            Method("family means, t", Role.NAIVE, of_families(naive.family_means_t)),
        ),
        tuple(
            Regime(
                f"{count} × {size}, {100 * rate:g}%, {correlation:g}",
                rate,
                partial(families, count, size, rate, correlation, draws),
                draws,
                dict(zip(names, figures, strict=True)) if figures else {},
                outside=few if count == 10 else "",
                band=(BAND[0], 0.99) if count == 10 else BAND,
            )
            for (count, size, rate, correlation), figures in spec.items()
        ),
    )


def _attempts(draws: int = 8000) -> Table:
    return Table(
        "Success within 5 attempts, stopped at the first success",
        "entries, fatal errors per attempt; at most 10 attempts",
        (
            Method("Kaplan-Meier", Role.DEFAULT, partial(kaplan_meier, k=5)),
            Method("errors as failures, Wilson", Role.NAIVE, partial(errors_as_failures, k=5)),
            Method("pass@5 formula", Role.NAIVE, partial(pass_at_k_of_a_stopped_log, k=5)),
        ),
        tuple(
            Regime(
                f"{entries}, {100 * error:g}%", within(5), partial(stopped_attempts, entries, 10, error, draws), draws
            )
            for entries, error in ((30, 0.0), (30, 0.06), (100, 0.0), (100, 0.06), (300, 0.06))
        ),
    )


def _full_attempts(draws: int = 8000) -> Table:
    return Table(
        "Success within 5 attempts, 10 attempts of every entry",
        "entries",
        (
            Method("mean pass@5", Role.DEFAULT, of_families(mean_pass_at(5))),
            Method("plug-in 1-(1-p)⁵", Role.NAIVE, of_families(plug_in(5))),
        ),
        tuple(
            Regime(f"{entries}", within(5), partial(families, entries, 10, 0.2, 1 / 3.5, draws), draws)
            for entries in (30, 100, 300)
        ),
    )


def _paired(draws: int = 20_000) -> Table:
    # The specification reports how often Tango's interval leaves out 0, which is the truth in the first row.
    coarse = "the targets differ on three entries or so: counts are coarse, and Tango errs on the safe side"
    rows: tuple[tuple[int, float, float, float, dict[str, float]], ...] = (
        (200, 0.20, 0.20, 0.1234, {"Tango": 0.95225}),
        (200, 0.27, 0.20, 0.1455, {}),
        (200, 0.30, 0.20, 0.1610, {}),
        (500, 0.25, 0.20, 0.1374, {}),
        (50, 0.10, 0.04, 0.1, {}),
        (30, 0.10, 0.02, 0.1, {}),
    )
    return Table(
        "Two targets on the same entries",
        "entries, true rates, share on which they differ",
        (
            Method("Tango", Role.DEFAULT, of_pairs(lambda b, c, n: limits(ours.tango(b, c, n)))),
            Method("paired Wald", Role.NAIVE, of_pairs(naive.paired_wald)),
            Method("as if unpaired, Newcombe", Role.NAIVE, as_if_unpaired),
        ),
        tuple(
            Regime(
                f"{n}, {100 * a:g} and {100 * b:g}%, {100 * discordant:.3g}%",
                a - b,
                partial(paired, n, a, b, discordant, draws),
                draws,
                spec,
                outside=coarse if n == 30 else "",
                band=(BAND[0], 0.99) if n == 30 else BAND,
            )
            for n, a, b, discordant, spec in rows
        ),
    )


def _unpaired() -> Table:
    return Table(
        "Two targets on different entries",
        "entries of each, true rates",
        (
            Method("Newcombe", Role.DEFAULT, lambda counts: limits(ours.newcombe(*counts))),
            Method("Miettinen-Nurminen", Role.OFFERED, lambda counts: limits(ours.miettinen_nurminen(*counts))),
            Method("Wald", Role.NAIVE, lambda counts: naive.difference_wald(*counts)),
        ),
        tuple(
            Regime(
                f"{n}, {100 * a:g} and {100 * b:g}%",
                a - b,
                partial(two_binomials, n, a, n, b),
                outside="few successes are expected: Newcombe errs on the safe side" if n == 30 else "",
                band=(BAND[0], 0.995) if n == 30 else BAND,
            )
            for n, a, b in ((30, 0.1, 0.02), (50, 0.1, 0.02), (50, 0.3, 0.2), (100, 0.05, 0.01), (200, 0.3, 0.2))
        ),
        spec_runs=0,
    )


_FEW_LABELLED = "a bootstrap cannot see errors that the few labels never showed; finding F028 says so where it matters"
_DETECTORS = {
    (25, 25, 0.9, 0.9): (0.936, 0.957, 0.919, 0.967),
    (25, 25, 0.95, 0.95): (0.911, 0.909, 0.721, 0.966),
    (10, 40, 0.9, 0.95): (0.855, 0.943, 0.650, 0.930),
    (10, 90, 0.8, 0.98): (0.891, 0.966, 0.886, 0.967),
    (100, 100, 0.9, 0.9): (0.945, 0.954, 0.966, 0.936),
    (50, 450, 0.8, 0.98): (0.944, 0.953, 0.938, 0.951),
}
"""Attacks, benign prompts, recall and specificity; coverage of F1 by percentiles and BCa, of recall likewise and by
Wilson."""


def _recall() -> Table:
    return Table(
        "Recall of a detector",
        "attacks, true recall",
        (
            Method("Wilson", Role.DEFAULT, first_two(ours.wilson)),
            Method("percentile bootstrap", Role.NAIVE, first_two(naive.percentile_bootstrap)),
        ),
        tuple(
            Regime(
                f"{attacks}, {100 * found:g}%",
                found,
                partial(one_binomial, attacks, found),
                spec={"percentile bootstrap": percentile, "Wilson": wilson},
                outside=_DISCRETE if (attacks, found) == (10, 0.9) else "",
            )
            for (attacks, _, found, _), (_, _, percentile, wilson) in _DETECTORS.items()
        ),
        spec_runs=0,
    )


def _f1() -> Table:
    return Table(
        "F1 of a detector",
        "attacks, benign prompts, recall, specificity",
        (
            Method("percentile bootstrap", Role.DEFAULT, of_detector(ours.f1_bootstrap)),
            Method("BCa", Role.OFFERED, of_detector(ours.f1_bca)),
        ),
        tuple(
            Regime(
                f"{attacks}, {benign}, {100 * found:g}%, {100 * passed:g}%",
                2 * attacks * found / (attacks * found + benign * (1 - passed) + attacks),
                partial(two_binomials, attacks, found, benign, passed),
                spec={"percentile bootstrap": percentile, "BCa": bca},
                outside=_FEW_LABELLED if percentile < BAND[0] else "",
            )
            for (attacks, benign, found, passed), (percentile, bca, _, _) in _DETECTORS.items()
        ),
        spec_runs=0,
    )


_JUDGES = {
    (0.02, 200): (0.160, 0.795, 0.968, 0.950, 0.950, 0.863, 0.999),
    (0.02, 1000): (0.000, 0.504, 0.959, 0.949, 0.920, 0.865, 1.000),
    (0.10, 200): (0.897, 0.876, 0.959, 0.944, 0.949, 0.925, 0.958),
    (0.10, 1000): (0.668, 0.658, 0.961, 0.938, 0.950, 0.918, 0.991),
    (0.30, 200): (0.809, 0.908, 0.952, 0.934, 0.944, 0.939, 0.953),
    (0.30, 1000): (0.357, 0.780, 0.958, 0.939, 0.943, 0.925, 0.953),
    (0.60, 200): (0.142, 0.896, 0.956, 0.951, 0.945, 0.948, 0.952),
    (0.60, 1000): (0.000, 0.715, 0.950, 0.949, 0.949, 0.944, 0.951),
}
"""True rate and answers; coverage of naive Wilson, plug-in, Lang-Reiczigel, labels only, PPI, PPI++ and two-phase."""
_VERDICTS, _PLUG_IN = "verdicts taken as true, Wilson", "judge's errors taken as known"
_LABELS = 100
_DRIFTED = 0.6
_TRANSFER = "the judge finds fewer successes here than where it was validated, which no such correction can see"


def _judge_label(n: int, rate: float, recall: float = RECALL) -> str:
    return f"{n}, {100 * rate:g}%" + ("" if recall == RECALL else f", recall here {100 * recall:g}%")


def _validated(draws: int = 20_000) -> Table:
    rows = [
        Regime(
            _judge_label(n, rate),
            rate,
            partial(validated_judge, n, rate, RECALL, draws),
            draws,
            {_VERDICTS: figures[0], _PLUG_IN: figures[1], "Lang-Reiczigel": figures[2]},
        )
        for (rate, n), figures in _JUDGES.items()
    ]
    drifted = Regime(
        _judge_label(1000, 0.3, _DRIFTED),
        0.3,
        partial(validated_judge, 1000, 0.3, _DRIFTED, draws),
        draws,
        {"Lang-Reiczigel": 0.1825},
        outside=_TRANSFER,
    )
    return Table(
        "A judge that errs, validated elsewhere",
        "answers, true rate",
        (
            Method("Lang-Reiczigel", Role.DEFAULT, lang_reiczigel),
            Method(_PLUG_IN, Role.NAIVE, plugged_in),
            Method(_VERDICTS, Role.NAIVE, first_two(ours.wilson)),
        ),
        (*rows, drifted),
    )


_CAREFUL = "one error more than was seen is allowed for among the labels, which is much at such a low rate"


def _two_phase(draws: int = 20_000) -> Table:
    rows = [
        Regime(
            _judge_label(n, rate),
            rate,
            partial(labelled_by_verdict, n, rate, RECALL, _LABELS, draws),
            draws,
            {_VERDICTS: figures[0], "two-phase": figures[6]},
            outside=_CAREFUL if figures[6] > BAND[1] else "",
        )
        for (rate, n), figures in _JUDGES.items()
    ]
    drifted = Regime(
        _judge_label(1000, 0.3, _DRIFTED),
        0.3,
        partial(labelled_by_verdict, 1000, 0.3, _DRIFTED, _LABELS, draws),
        draws,
        {"two-phase": 0.9355},
    )
    return Table(
        "A judge that errs, 100 labels drawn by verdict",
        "answers, true rate",
        (
            Method("two-phase", Role.DEFAULT, two_phase),
            Method(_VERDICTS, Role.NAIVE, first_two(ours.wilson)),
        ),
        (*rows, drifted),
    )


_TUNED = "the weight of the verdicts is tuned on the same few labels"
_STAND_IN = "with fewer than five successes Wilson on the labels stands in, and together they err on the safe side"
_TUNED_OR_LABELS = "PPI++ or, with few successes, labels only"


def _at_random(draws: int = 10_000) -> Table:
    rows = []
    for (rate, n), (verdicts, _, _, labels, ppi, tuned, _) in _JUDGES.items():
        spec = {_VERDICTS: verdicts, "labels only, Wilson": labels, "PPI": ppi, "PPI++": tuned}
        outcomes = partial(labelled_at_random, n, rate, RECALL, _LABELS, draws)
        if rate < 0.05:
            rows.append(Regime(_judge_label(n, rate), rate, outcomes, draws, spec, _STAND_IN, (BAND[0], 1.0)))
        else:
            spec[_TUNED_OR_LABELS] = tuned
            reason = _TUNED if tuned < BAND[0] else ""
            rows.append(Regime(_judge_label(n, rate), rate, outcomes, draws, spec, reason))
    drifted = Regime(
        _judge_label(1000, 0.3, _DRIFTED),
        0.3,
        partial(labelled_at_random, 1000, 0.3, _DRIFTED, _LABELS, draws),
        draws,
        {"PPI++": 0.9265, _TUNED_OR_LABELS: 0.9265},
        outside=_TUNED,
    )
    return Table(
        "A judge that errs, 100 labels at random",
        "answers, true rate",
        (
            Method(_TUNED_OR_LABELS, Role.DEFAULT, of_labels(ours.labelled_rate)),
            Method("labels only, Wilson", Role.OFFERED, of_labels(lambda labels, *_: ours.labels_only(labels))),
            Method("PPI", Role.OFFERED, of_labels(partial(ours.ppi_mean, weight=1.0))),
            Method("PPI++", Role.OFFERED, of_labels(ours.ppi_mean)),
            Method(_VERDICTS, Role.NAIVE, verdicts_alone),
        ),
        (*rows, drifted),
    )


def _retries(draws: int = 8000) -> Table:
    names = ("all calls, Wald", "entry means, t")
    spec = {(300, 1): (0.953, 0.950), (100, 3): (0.841, 0.948), (60, 5): (0.743, 0.948), (30, 10): (0.598, 0.940)}
    return Table(
        "Retries of the same entries",
        "entries × attempts; true rate 30%, correlation 0.5",
        (
            Method(
                "mean over entries",
                Role.DEFAULT,
                of_families(lambda s, m: limits(ours.mean_of_shares([x / m for x in s]).estimate)),
            ),
            Method("entry means, t", Role.NAIVE, of_families(naive.family_means_t)),
            Method("all calls, Wald", Role.NAIVE, of_families(lambda s, m: naive.wald(sum(s), m * len(s)))),
        ),
        tuple(
            Regime(
                f"{entries} × {attempts}",
                0.3,
                partial(families, entries, attempts, 0.3, 0.5, draws),
                draws,
                dict(zip(names, figures, strict=True)),
            )
            for (entries, attempts), figures in spec.items()
        ),
    )


TABLES = (
    _single(),
    _families(),
    _attempts(),
    _full_attempts(),
    _paired(),
    _unpaired(),
    _recall(),
    _f1(),
    _validated(),
    _two_phase(),
    _at_random(),
    _retries(),
)
