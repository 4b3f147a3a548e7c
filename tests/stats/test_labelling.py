"""Labels that are watched while they are given: the interval holds at all times, whatever is drawn next."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import pytest
from scipy.stats import betabinom

from faircount.core import Estimate
from faircount.stats import (
    DrawnPart,
    LabelledCorrector,
    LabelledPart,
    VerdictCounts,
    allocate_labels,
    draw_chances,
    label_sequence,
    labels_to_decide,
    run_quality,
    shown_below,
    two_phase,
    wilson,
)
from faircount.stats.corrector import EXPECTED_TRUE

LEVEL = 0.95
Policy = Callable[[DrawnPart, DrawnPart, random.Random], bool]
"""Says whether the next entry is drawn from the judged successes."""


# -- the interval -------------------------------------------------------------------------------------------------


def evidence(part: DrawnPart, expected: float, true: int) -> float:
    """Return the chance of a number of true successes before the labels, beta-binomial, over that after them."""
    a, b = 2 * expected, 2 * (1 - expected)
    left = betabinom.logpmf(true - part.hits, part.entries - part.drawn, a + part.hits, b + part.passes)
    return float(betabinom.logpmf(true, part.entries, a, b) - left)


@pytest.mark.parametrize(
    "parts",
    [
        (DrawnPart(12), DrawnPart(20)),
        (DrawnPart(12, 5, 4, 1), DrawnPart(20, 6, 0, 6)),
        (DrawnPart(30, 10, 3, 7), DrawnPart(25, 12, 6, 6)),
        (DrawnPart(8, 8, 6, 2), DrawnPart(40, 30, 1, 29)),
        (DrawnPart(0), DrawnPart(40, 30, 1, 29)),
    ],
)
def test_it_holds_the_sums_of_all_pairs_without_strong_evidence_against_them(
    parts: tuple[DrawnPart, DrawnPart],
) -> None:
    possible = [
        one + other
        for one in range(parts[0].entries + 1)
        for other in range(parts[1].entries + 1)
        if evidence(parts[0], EXPECTED_TRUE[0], one) + evidence(parts[1], EXPECTED_TRUE[1], other) < math.log(20)
    ]
    n = sum(part.entries for part in parts)
    found = label_sequence(*parts)
    assert (found.low, found.high, found.n) == pytest.approx((min(possible) / n, max(possible) / n, n))


def least_shown_first(successes: DrawnPart, failures: DrawnPart, _: random.Random) -> bool:
    """Chase successes: go where the share of hits is lower, as somebody might who wants a low rate."""
    shares = [(part.hits + 0.5) / (part.labelled + 1) for part in (successes, failures)]
    return shares[0] < shares[1]


def most_shown_first(successes: DrawnPart, failures: DrawnPart, generator: random.Random) -> bool:
    return not least_shown_first(successes, failures, generator)


def as_the_page_does(successes: DrawnPart, failures: DrawnPart, generator: random.Random) -> bool:
    return generator.random() < draw_chances(successes, failures)[0]


def one_more(part: DrawnPart, hit: bool) -> DrawnPart:
    return DrawnPart(part.entries, part.drawn + 1, part.hits + hit, part.passes + (not hit))


@pytest.mark.parametrize("policy", [least_shown_first, most_shown_first])
@pytest.mark.parametrize("true", [(2, 2), (1, 2), (4, 1)])
def test_the_evidence_against_the_truth_is_at_most_one_in_the_mean_whatever_is_drawn_next(
    policy: Policy, true: tuple[int, int]
) -> None:
    """Over all orders of the labels, which are equally likely."""
    sizes, means = (4, 5), []
    orders = [
        sorted(set(itertools.permutations([True] * hits + [False] * (size - hits))))
        for size, hits in zip(sizes, true, strict=True)
    ]
    for draws in range(1, 7):
        values = []
        for lists in itertools.product(*orders):
            parts = [DrawnPart(size) for size in sizes]
            for _ in range(draws):
                at = 0 if policy(parts[0], parts[1], random.Random(1)) else 1
                at = at if parts[at].drawn < sizes[at] else 1 - at
                parts[at] = one_more(parts[at], lists[at][parts[at].drawn])
            values.append(math.exp(sum(map(evidence, parts, EXPECTED_TRUE, true))))
        means.append(math.fsum(values) / len(values))
    assert all(later <= before + 1e-9 for before, later in itertools.pairwise([1.0, *means]))
    if true == (2, 2):
        # Two labels of any kind are possible then, so that nothing of the mean can be lost.
        assert means[:2] == pytest.approx([1, 1])


def ever_missed(sizes: tuple[int, int], true: tuple[int, int], policy: Policy, seed: int) -> bool:
    """Label a whole run, and return whether the interval missed the rate after any label."""
    generator = random.Random(seed)
    labels = [[place < hits for place in range(size)] for size, hits in zip(sizes, true, strict=True)]
    for part in labels:
        generator.shuffle(part)
    parts = [DrawnPart(size) for size in sizes]
    rate = sum(true) / sum(sizes)
    while sum(part.drawn for part in parts) < sum(sizes):
        at = 0 if policy(parts[0], parts[1], generator) else 1
        at = at if parts[at].drawn < sizes[at] else 1 - at
        parts[at] = one_more(parts[at], labels[at][parts[at].drawn])
        found = label_sequence(*parts)
        assert found.low is not None
        assert found.high is not None
        if not found.low - 1e-9 <= rate <= found.high + 1e-9:
            return True
    return False


REGIMES = {
    "a good judge": ((30, 60), (25, 2)),
    "a judge that errs": ((40, 50), (15, 12)),
    "a rare success": ((8, 92), (5, 0)),
    "a judge that is wrong": ((30, 40), (3, 30)),
}


@pytest.mark.parametrize("regime", REGIMES)
def test_it_holds_at_all_times_at_once(regime: str) -> None:
    runs = 120
    missed = sum(ever_missed(*REGIMES[regime], as_the_page_does, seed) for seed in range(runs))
    # The chance is at most 1 in 20; 12 or more of 120 have a chance of 0.02 then.
    assert missed < 12


LARGE = {
    "a good judge, 270 entries": ((70, 200), (60, 6)),
    "a perfect judge": ((50, 250), (50, 0)),
    "a judge that errs": ((120, 180), (60, 40)),
    "a rare success": ((10, 390), (6, 0)),
    "successes that are missed": ((10, 290), (8, 30)),
    "a judge that is wrong": ((60, 120), (6, 90)),
}


@pytest.mark.slow
@pytest.mark.parametrize("policy", [as_the_page_does, least_shown_first, most_shown_first])
@pytest.mark.parametrize("regime", LARGE)
def test_it_holds_in_94_of_100_runs_from_the_first_label_to_the_last(regime: str, policy: Policy) -> None:
    runs = 1_000
    covered = 1 - sum(ever_missed(*LARGE[regime], policy, seed) for seed in range(runs)) / runs
    assert covered >= 0.94


def test_an_interval_of_one_time_is_missed_by_many_who_watch_it() -> None:
    """The check above would notice: Wald's interval of the two-phase rate is left by far more than 5 of 100 runs."""
    sizes, true = REGIMES["a judge that errs"]
    rate, missed = sum(true) / sum(sizes), 0
    for seed in range(60):
        generator = random.Random(seed)
        labels = [[place < hits for place in range(size)] for size, hits in zip(sizes, true, strict=True)]
        for part in labels:
            generator.shuffle(part)
        parts = [DrawnPart(size) for size in sizes]
        for _ in range(60):
            at = 0 if as_the_page_does(parts[0], parts[1], generator) else 1
            parts[at] = one_more(parts[at], labels[at][parts[at].drawn])
            found = two_phase(*(LabelledPart(part.entries, part.labelled, part.hits) for part in parts))
            if found.low is not None and found.high is not None and not found.low <= rate <= found.high:
                missed += 1
                break
    assert missed > 9


def test_all_labels_leave_nothing_open() -> None:
    found = label_sequence(DrawnPart(60, 60, 48, 12), DrawnPart(182, 182, 5, 177), total=270, certain=3)
    assert (found.value, found.low, found.high) == pytest.approx((56 / 270, 56 / 270, 56 / 270))


def test_the_value_is_that_of_the_two_phase_estimate_over_all_entries() -> None:
    counts = VerdictCounts(270, LabelledPart(60, 20, 16), LabelledPart(182, 30, 1))
    corrected = LabelledCorrector(LEVEL).rate(counts).estimate
    assert corrected is not None
    assert label_sequence(DrawnPart(60, 20, 16, 4), DrawnPart(182, 30, 1, 29), total=270).value == pytest.approx(
        corrected.value
    )


def test_what_is_drawn_and_not_decided_may_be_either() -> None:
    known = [DrawnPart(60, 20, 16, 4), DrawnPart(182, 30, 1, 29)]
    either = [
        label_sequence(DrawnPart(60, 21, 16 + hit, 5 - hit), DrawnPart(182, 31, 1 + other, 30 - other))
        for hit in (0, 1)
        for other in (0, 1)
    ]
    open_ones = label_sequence(DrawnPart(60, 21, 16, 4), DrawnPart(182, 31, 1, 29))
    assert open_ones.low == min(one.low or 0.0 for one in either)
    assert open_ones.high == max(one.high or 1.0 for one in either)
    assert open_ones.value == pytest.approx(label_sequence(*known).value)


def test_a_hit_more_never_lowers_a_limit() -> None:
    """So the two extremes of what is not decided are enough."""
    for size, drawn in ((9, 4), (14, 9), (25, 12)):
        limits = [
            label_sequence(DrawnPart(size, drawn, hits, drawn - hits), DrawnPart(20, 6, others, 6 - others))
            for others in (0, 3)
            for hits in range(drawn + 1)
        ]
        for half in (limits[: drawn + 1], limits[drawn + 1 :]):
            for one, other in itertools.pairwise(half):
                assert (one.low or 0.0) <= (other.low or 0.0)
                assert (one.high or 0.0) <= (other.high or 0.0)


def test_before_the_first_label_there_is_no_rate_and_everything_is_possible() -> None:
    found = label_sequence(DrawnPart(60), DrawnPart(182), total=270)
    assert (found.value, found.low) == (None, 0.0)
    assert found.high == pytest.approx(242 / 270)
    assert label_sequence(DrawnPart(0), DrawnPart(0)).low is None


@pytest.mark.parametrize("counts", [(5, 6, 0, 0), (5, 3, 2, 2), (5, 3, -1, 2), (-1, 0, 0, 0)])
def test_impossible_counts_are_refused(counts: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="outnumber"):
        DrawnPart(*counts)


# -- what comes next ----------------------------------------------------------------------------------------------


def test_draws_follow_the_allocation_of_a_sample_for_labels() -> None:
    """Without a label, the part that is behind what `sample-for-labels` would draw gets nine tenths and a half."""
    for drawn in range(1, 60):
        wanted = allocate_labels(100, 900, drawn + 1)
        successes = DrawnPart(100, wanted[0] - 1) if wanted[0] else DrawnPart(100)
        chances = draw_chances(successes, DrawnPart(900, drawn - successes.drawn))
        assert sum(chances) == pytest.approx(1)
        assert chances[0] == pytest.approx(0.95 if wanted[0] > successes.drawn else 0.05)


def test_labels_change_where_the_next_draws_go() -> None:
    """Judged failures that turn out to be successes are worth more labels: there is more to be known."""
    generator, drawn = random.Random(5), {False: 0, True: 0}
    for surprising in (False, True):
        parts = [DrawnPart(100), DrawnPart(900)]
        for _ in range(100):
            at = 0 if as_the_page_does(parts[0], parts[1], generator) else 1
            hit = generator.random() < (0.98 if at == 0 else 0.4 if surprising else 0.0)
            parts[at] = one_more(parts[at], hit)
        drawn[surprising] = parts[1].drawn
    assert drawn[True] > drawn[False] + 5


@pytest.mark.parametrize(
    ("successes", "failures", "chances"),
    [
        (DrawnPart(5, 5, 5, 0), DrawnPart(5, 2, 0, 2), (0, 1)),
        (DrawnPart(0), DrawnPart(5), (0, 1)),
        (DrawnPart(5, 5, 5, 0), DrawnPart(5, 5, 0, 5), (0, 0)),
    ],
)
def test_nothing_is_drawn_where_nothing_is_left(
    successes: DrawnPart, failures: DrawnPart, chances: tuple[float, float]
) -> None:
    assert draw_chances(successes, failures) == pytest.approx(chances)


def test_a_rate_is_below_a_threshold_when_all_of_its_interval_is() -> None:
    def between(low: float | None, high: float | None) -> Estimate:
        return Estimate(0.05, low, high, 9, "entry", LEVEL, "")

    assert shown_below(between(0.01, 0.049), 0.05) is True
    assert shown_below(between(0.05, 0.2), 0.05) is False
    assert shown_below(between(0.01, 0.05), 0.05) is None
    assert shown_below(between(None, None), 0.05) is None


def test_as_many_more_labels_decide_as_are_foretold() -> None:
    parts = DrawnPart(60, 20, 16, 4), DrawnPart(182, 30, 1, 29)
    more = labels_to_decide(*parts, 0.25, total=270)
    assert more is not None
    assert 0 < more < 192
    sizes = allocate_labels(60, 182, 50 + more, ((16 + 1.6) / 22, (1 + 0.1) / 32))
    grown = [DrawnPart(60, sizes[0], round(0.8 * sizes[0]), sizes[0] - round(0.8 * sizes[0]))]
    grown.append(DrawnPart(182, sizes[1], round(sizes[1] / 30), sizes[1] - round(sizes[1] / 30)))
    assert shown_below(label_sequence(*grown, total=270), 0.25) is True
    assert labels_to_decide(*parts, 0.9, total=270) == 0
    assert labels_to_decide(DrawnPart(60), DrawnPart(182), 0.25) is None
    # Everything is drawn, and five are not decided yet: those are the labels that are missing.
    assert labels_to_decide(DrawnPart(10, 10, 1, 4), DrawnPart(10, 10, 0, 10), 0.2) == 5
    # With the last two judged successes, of which one will be true, 5 of 20 are known: not below 25%.
    assert labels_to_decide(DrawnPart(10, 8, 4, 4), DrawnPart(10, 8, 0, 8), 0.25) == 2


# -- how good the judge is ----------------------------------------------------------------------------------------


def test_a_judge_is_measured_on_the_run_and_not_on_what_was_drawn_of_it() -> None:
    found = run_quality([LabelledPart(60, 20, 16)], [LabelledPart(182, 30, 1)])
    true, missed = 60 * 16 / 20, 182 * 1 / 30
    assert found.sensitivity.value == pytest.approx(true / (true + missed))
    assert found.specificity.value == pytest.approx((182 - missed) / (242 - true - missed))
    assert found.accuracy.value == pytest.approx((true + 182 - missed) / 242)
    # Where labels of one part alone matter, it is the plain share of these.
    for ours, plain in ((found.precision, wilson(16, 20)), (found.pass_precision, wilson(29, 30))):
        assert (ours.value, ours.low, ours.high) == pytest.approx((plain.value, plain.low, plain.high))


def test_several_parts_add_up() -> None:
    """Other verdicts than those that labels were drawn by: each part keeps its weight."""
    found = run_quality(
        [LabelledPart(40, 20, 18), LabelledPart(10, 2, 1)], [LabelledPart(20, 5, 2), LabelledPart(172, 28, 1)]
    )
    positive, negative = 40 * 18 / 20 + 10 * 1 / 2, 20 * 2 / 5 + 172 * 1 / 28
    assert found.precision.value == pytest.approx(positive / 50)
    assert found.sensitivity.value == pytest.approx(positive / (positive + negative))


def test_a_part_without_labels_may_hold_anything() -> None:
    known = run_quality([LabelledPart(50, 20, 18)], [LabelledPart(180, 28, 1)])
    partly = run_quality([LabelledPart(50, 20, 18), LabelledPart(10, 0, 0)], [LabelledPart(180, 28, 1)])
    assert partly.precision.value == known.precision.value
    assert (partly.precision.low or 0) == pytest.approx(50 / 60 * (known.precision.low or 0))
    assert (partly.precision.high or 0) == pytest.approx((50 * (known.precision.high or 0) + 10) / 60)
    nothing = run_quality([LabelledPart(50, 0, 0)], [LabelledPart(180, 28, 1)])
    assert nothing.sensitivity.value is None
    assert nothing.precision.value is None
    assert nothing.pass_precision.value is not None


@pytest.mark.parametrize(("rate", "found", "passed", "labels"), [(0.2, 0.9, 0.95, 60), (0.1, 0.95, 0.99, 50)])
def test_the_quality_of_the_run_is_in_its_interval(rate: float, found: float, passed: float, labels: int) -> None:
    generator, runs = random.Random(3), 400
    covered = dict.fromkeys(("precision", "sensitivity", "specificity", "accuracy"), 0)
    for _ in range(runs):
        true = [generator.random() < rate for _ in range(600)]
        called = [generator.random() < (found if one else 1 - passed) for one in true]
        sides = [[one for one, verdict in zip(true, called, strict=True) if verdict is side] for side in (True, False)]
        drawn = allocate_labels(len(sides[0]), len(sides[1]), labels)
        parts = [
            LabelledPart(len(side), many, sum(generator.sample(side, many)))
            for side, many in zip(sides, drawn, strict=True)
        ]
        quality = run_quality(parts[:1], parts[1:])
        hits = [sum(side) for side in sides]
        truth = {
            "precision": hits[0] / len(sides[0]),
            "sensitivity": hits[0] / sum(hits),
            "specificity": (len(sides[1]) - hits[1]) / (600 - sum(hits)),
            "accuracy": (hits[0] + len(sides[1]) - hits[1]) / 600,
        }
        for name, value in truth.items():
            ours = getattr(quality, name)
            covered[name] += ours.low - 1e-9 <= value <= ours.high + 1e-9
    assert {name: share / runs > 0.91 for name, share in covered.items()} == dict.fromkeys(covered, True)
