"""Correctors: one object for every rate and difference of a judge's verdicts, against formulas by hand and draws."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats as scipy_stats

from faircount.core import Estimate, Validation
from faircount.stats import (
    Corrector,
    LabelledCorrector,
    LabelledPart,
    MeasuredCorrector,
    VerdictCounts,
    corrected_difference,
    newcombe,
    tango,
    two_phase,
)
from tests.analysis.test_correction_groups import lang_reiczigel_by_hand, two_phase_by_hand
from tests.oracles import known

Z = float(scipy_stats.norm.ppf(0.975))
CELLS = (80, 20, 92, 8)
JUDGE = MeasuredCorrector(0.95, validation=Validation(80, 100, 92, 100))
LABELS = LabelledCorrector(0.95)


def judged(total: int, successes: int, failures: int, *families: VerdictCounts) -> VerdictCounts:
    return VerdictCounts(total, LabelledPart(successes, 0, 0), LabelledPart(failures, 0, 0), families=families)


def defined(estimate: Estimate | None) -> Estimate:
    assert estimate is not None
    return estimate


def limits(estimate: Estimate | None) -> tuple[float, float, float]:
    found = defined(estimate)
    return known(found.value), known(found.low), known(found.high)


def over_all_by_hand(rate: tuple[float, float, float], share: float, n: int) -> tuple[float, float, float]:
    """Return s·p, and its limits with Var(s·p) = s²·Var(p) + p²·s(1-s)/n."""
    p, low, high = rate
    further = Z * p * math.sqrt(share * (1 - share) / n)
    return (
        share * p,
        share * p - math.hypot(share * (p - low), further),
        share * p + math.hypot(share * (high - p), further),
    )


# -- a rate -----------------------------------------------------------------------------------------------------


def test_a_measured_judge_corrects_the_rate_of_judged_and_of_all_entries() -> None:
    found = JUDGE.rate(judged(250, 60, 140))
    expected = lang_reiczigel_by_hand(60, 200, CELLS)
    assert limits(found.judged) == pytest.approx(expected)
    assert limits(found.estimate) == pytest.approx(over_all_by_hand(expected, 0.8, 250))
    assert (defined(found.judged).n, defined(found.estimate).n) == (200, 250)


def test_families_of_twins_are_worth_one_entry_each_and_their_small_number_costs() -> None:
    # Twelve families of ten that end all alike: a design effect of ten, and Student's critical value with 11 degrees.
    alike = [VerdictCounts(10, LabelledPart(10 * won, 0, 0), LabelledPart(10 - 10 * won, 0, 0), 6) for won in (1, 0)]
    found = JUDGE.rate(judged(120, 60, 60, *alike)).judged
    # The sample variance of the families, with G - 1 below the line, is G/(G - 1) times p(1-p).
    effect = 10 * 12 / 11 * (scipy_stats.t.ppf(0.975, 11) / Z) ** 2
    worth = math.floor(120 / effect)
    assert limits(found) == pytest.approx(lang_reiczigel_by_hand(worth / 2, worth, CELLS))
    assert defined(found).n == 120


def test_one_family_has_a_rate_and_no_interval() -> None:
    labelled = VerdictCounts(100, LabelledPart(40, 10, 9), LabelledPart(60, 10, 1))
    for corrector, counts in ((JUDGE, judged(100, 40, 60)), (LABELS, labelled)):
        alone = corrector.rate(counts)
        found = corrector.rate(replace(counts, families=(counts,)))
        assert defined(found.estimate).value == defined(alone.estimate).value
        assert (defined(found.estimate).low, defined(found.judged).high) == (None, None)


def test_labels_correct_the_rate_of_judged_and_of_all_entries() -> None:
    counts = VerdictCounts(150, LabelledPart(40, 10, 9), LabelledPart(80, 20, 1))
    found = LABELS.rate(counts)
    expected = two_phase_by_hand((40, 10, 9), (80, 20, 1))
    assert limits(found.judged) == pytest.approx(expected)
    assert limits(found.estimate) == pytest.approx(over_all_by_hand(expected, 0.8, 150))


def test_strata_take_the_place_of_the_verdicts_where_there_are_three() -> None:
    strata = (LabelledPart(40, 10, 9), LabelledPart(30, 10, 4), LabelledPart(50, 10, 1))
    counts = VerdictCounts(120, strata[0], LabelledPart(80, 20, 5), strata=strata)
    assert limits(LABELS.rate(counts).judged) == pytest.approx(two_phase_by_hand((40, 10, 9), (30, 10, 4), (50, 10, 1)))
    assert LABELS.rate(replace(counts, strata=strata[:2])) == LABELS.rate(replace(counts, strata=()))


@pytest.mark.parametrize(
    ("corrector", "counts", "status"),
    [
        (JUDGE, judged(5, 0, 0), "no_verdicts"),
        (LABELS, judged(5, 0, 0), "no_verdicts"),
        (LABELS, VerdictCounts(20, LabelledPart(10, 0, 0), LabelledPart(10, 5, 1)), "too_few_labels"),
        (
            replace(LABELS, least_labels=2),
            VerdictCounts(20, LabelledPart(10, 1, 0), LabelledPart(10, 5, 1)),
            "too_few_labels",
        ),
        (replace(LABELS, least_labels=2), VerdictCounts(11, LabelledPart(1, 1, 0), LabelledPart(10, 5, 1)), "ok"),
        (replace(LABELS, method="ppi"), judged(20, 10, 10), "too_few_labels"),
        (MeasuredCorrector(0.95, validation=Validation(50, 100, 52, 100)), judged(20, 10, 10), "not_identifiable"),
        (JUDGE, judged(1000, 0, 1000), "incompatible_with_validation"),
        (JUDGE, judged(100, 7, 93), "clipped"),
    ],
)
def test_what_cannot_be_corrected_has_a_status_and_no_figure(
    corrector: Corrector, counts: VerdictCounts, status: str
) -> None:
    found = corrector.rate(counts)
    assert found.status == status
    assert (found.estimate is None) == (found.judged is None) == (not found.status.corrects)


def test_prediction_powered_rates_are_cut_to_what_is_possible_and_count_all_judged_entries() -> None:
    counts = VerdictCounts(100, LabelledPart(50, 10, 10), LabelledPart(50, 10, 0))
    found = replace(LABELS, method="ppi").rate(counts)
    # Labels that always agree leave the rate to the verdicts, with their error alone.
    assert defined(found.judged).value == pytest.approx(0.5)
    assert defined(found.judged).n == 100
    few = replace(LABELS, method="ppi").rate(VerdictCounts(100, LabelledPart(50, 2, 2), LabelledPart(50, 2, 0)))
    assert (defined(few.judged).method, defined(few.judged).n) == ("wilson", 100)


def test_labels_look_random_within_the_deviation_of_a_draw_without_replacement() -> None:
    share, labels, total = 0.3, 80, 400
    deviation = float(scipy_stats.hypergeom(total, 120, labels).std())
    for found in range(labels):
        counts = VerdictCounts(total, LabelledPart(120, found, 0), LabelledPart(280, labels - found, 0))
        assert LABELS.drawn_at_random(counts) == (abs(found - labels * share) <= 1.645 * deviation)
    assert not LABELS.drawn_at_random(judged(10, 5, 5))


def test_the_quality_that_labels_show_weighs_verdicts_as_in_the_run() -> None:
    counts = VerdictCounts(500, LabelledPart(133, 50, 45), LabelledPart(367, 50, 4))
    found, passed = LABELS.quality(counts)
    hits, missed = 133 * 45 / 50, 367 * 4 / 50
    assert known(found.value) == pytest.approx(hits / (hits + missed))
    assert known(passed.value) == pytest.approx((367 - missed) / (367 - missed + 133 - hits))
    assert JUDGE.quality[0].value == 0.8 and JUDGE.quality[1].value == 0.92


def test_as_many_labels_as_promised_halve_the_interval() -> None:
    counts = VerdictCounts(2000, LabelledPart(600, 40, 32), LabelledPart(1400, 60, 6))
    more = known(LABELS.labels_to_halve(counts))
    factor = (counts.labelled + more) / counts.labelled
    grown = (LabelledPart(p.judged, round(p.labelled * factor), round(p.true * factor)) for p in counts.parts)
    before, after = (limits(two_phase(*parts)) for parts in (counts.parts, grown))
    assert (after[2] - after[1]) / (before[2] - before[1]) == pytest.approx(0.5, abs=0.02)
    assert LABELS.labels_to_halve(VerdictCounts(20, LabelledPart(10, 9, 8), LabelledPart(10, 9, 1))) is None


def test_all_successes_may_be_false_alarms_only_where_the_raw_rate_is_that_of_alarms() -> None:
    # One failure in five is called a success: 200 of 1,000 is what no success at all would give.
    loose = MeasuredCorrector(0.95, validation=Validation(8000, 10000, 8000, 10000))
    assert loose.all_false_alarms(judged(1000, 200, 800))
    assert not loose.all_false_alarms(judged(1000, 400, 600))
    assert not loose.all_false_alarms(judged(10, 2, 8))


# -- a difference -----------------------------------------------------------------------------------------------


def pairs(seed: int, n: int = 300) -> tuple[Any, Any]:
    """Draw verdicts of both sides: 0 for a success, 1 for a failure, 2 for none."""
    draw = np.random.default_rng(seed)
    return draw.choice(3, n, p=(0.4, 0.45, 0.15)), draw.choice(3, n, p=(0.2, 0.75, 0.05))


def counted(verdicts: Any) -> VerdictCounts:
    return judged(len(verdicts), int((verdicts == 0).sum()), int((verdicts == 1).sum()))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_paired", [True, False])
def test_false_alarms_fall_on_entries_with_a_verdict_alone(seed: int, is_paired: bool) -> None:
    a, b = pairs(seed)
    won, has_verdict = [(of == 0).astype(int) for of in (a, b)], [(of != 2).astype(int) for of in (a, b)]
    only_b, only_a = int(((b == 0) & (a != 0)).sum()), int(((a == 0) & (b != 0)).sum())
    if is_paired:
        raw, columns = tango(only_b, only_a, len(a)), [(won[1] - won[0], has_verdict[1] - has_verdict[0])]
        table = np.bincount(3 * a + b, minlength=9).reshape(3, 3).tolist()
    else:
        raw, columns = (
            newcombe(int(won[1].sum()), len(b), int(won[0].sum()), len(a)),
            list(zip(won, has_verdict, strict=True)),
        )
        table = None
    added = [(np.var(w - 0.08 * j) - np.var(w)) / len(w) for w, j in columns]
    more = float(has_verdict[1].mean() - has_verdict[0].mean())
    further = sum(max(float(of), 0.0) for of in added)
    expected = corrected_difference(raw, JUDGE.validation, judged_more=more, further_variance=further)
    found, p = JUDGE.difference(counted(a), counted(b), raw, table=table)
    assert limits(found) == pytest.approx(limits(expected), abs=1e-9)
    assert p is None
    assert limits(JUDGE.difference(counted(a), counted(b), raw, table=table, effective_n=raw.n)[0]) == limits(found)


def test_p_and_interval_of_labelled_differences_agree() -> None:
    a = VerdictCounts(200, LabelledPart(90, 30, 25), LabelledPart(110, 30, 2))
    b = VerdictCounts(200, LabelledPart(50, 30, 22), LabelledPart(150, 30, 1))
    raw = newcombe(50, 200, 90, 200)
    found, p = LABELS.difference(a, b, raw)
    value, low, high = limits(found)
    parts = [two_phase_by_hand(*((q.judged, q.labelled, q.true) for q in side.parts)) for side in (a, b)]
    assert value == pytest.approx(parts[1][0] - parts[0][0])
    error = math.hypot(*((high_ - value_) / Z for value_, _, high_ in parts))
    assert (low, high) == pytest.approx((value - Z * error, value + Z * error))
    assert known(p) == pytest.approx(2 * float(scipy_stats.norm.sf(abs(value) / error)))


def test_different_entries_in_families_are_compared_by_rates_that_respect_them() -> None:
    """In 500 draws of two runs whose families differ, the interval holds the true difference as often as promised."""
    draw = random.Random(5)
    raw = newcombe(1, 10, 1, 10)
    covered = naive = 0
    for _ in range(500):
        a, b = (_run_in_families(draw, mean) for mean in (0.5, 0.3))
        found = limits(LABELS.difference(a, b, raw)[0])
        alone = limits(LABELS.difference(replace(a, families=()), replace(b, families=()), raw)[0])
        covered += found[1] <= -0.2 <= found[2]
        naive += alone[1] <= -0.2 <= alone[2]
    assert covered / 500 >= 0.93
    assert naive < covered


def _run_in_families(draw: random.Random, mean: float) -> VerdictCounts:
    """Draw 30 families of 8 entries, alike by 0.3, all labelled; the judge errs in one of ten."""
    families = []
    for _ in range(30):
        chance = draw.betavariate(mean * 7 / 3, (1 - mean) * 7 / 3)
        true = [draw.random() < chance for _ in range(8)]
        said = [t != (draw.random() < 0.1) for t in true]
        won, lost = ([t for t, s in zip(true, said, strict=True) if s is verdict] for verdict in (True, False))
        parts = [LabelledPart(len(part), len(part), sum(part)) for part in (won, lost)]
        families.append(VerdictCounts(8, parts[0], parts[1]))
    sums = [sum(family.counts[place] for family in families) for place in range(7)]
    return VerdictCounts(sums[0], LabelledPart(*sums[1:4]), LabelledPart(*sums[4:]), families=tuple(families))
