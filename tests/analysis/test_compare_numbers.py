"""Every figure of a comparison, recomputed by others: statsmodels, scipy, and root finding of our own."""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy import optimize, special
from scipy import stats as scipy_stats

from faircount.analysis import CompareOptions, Figures, compare_files, detectable
from faircount.readers import family
from faircount.stats import cluster_bootstrap_difference, cluster_mean, cluster_tango, tango
from tests.analysis.gate_results import cells
from tests.conftest import Write, document_of, standard
from tests.oracles import correlation_floor, known, oracle
from tests.runs.run_files import HEADER, attempt, case

Rows = dict[str, dict[str, Any]]
FIELDS = ("jailbreak_type", "instruction_type", "document_id")
KINDS = [(seed, families) for seed in range(3) for families in (False, True)]


def found(paths: Sequence[str], **options: Any) -> dict[str, Any]:
    return document_of(compare_files(paths, CompareOptions(**options)))


# -- oracles ----------------------------------------------------------------------------------------------------


def outcome(row: Mapping[str, Any]) -> str:
    if row["success"]:
        return "success"
    if "flagged as potentially violating our usage policy" in (row.get("error") or ""):
        return "guardrail"
    return "error" if row.get("error") else "failure"


def paired(a: Rows, b: Rows) -> list[tuple[str, int, int]]:
    """Return id and both successes of the entries that both answered."""
    pairs = []
    for name, row in a.items():
        other = b.get(name)
        if other is not None and other["input"] == row["input"]:
            ends = outcome(row), outcome(other)
            if "error" not in ends:
                pairs.append((name, int(ends[0] == "success"), int(ends[1] == "success")))
    return pairs


def score(b: float, c: float, n: float, difference: float) -> float:
    """Tango's statistic by numeric maximum likelihood: the chance of c, given the difference, is searched for."""

    def loss(q: float) -> float:
        rest = n - b - c
        parts = ((b, q + difference), (c, q), (rest, 1 - 2 * q - difference))
        return -sum(count * math.log(max(chance, 1e-300)) for count, chance in parts if count > 0)

    low, high = max(0.0, -difference), (1 - difference) / 2
    best = optimize.minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-13}).x
    variance = (2 * best + difference - difference**2) / n
    return float(((b - c) / n - difference) / math.sqrt(variance))


def score_limits(b: float, c: float, n: float, z: float) -> tuple[float, float]:
    value, edge = (b - c) / n, 1e-6
    low = optimize.brentq(lambda d: score(b, c, n, d) - z, -1 + edge, value - 1e-9)
    high = optimize.brentq(lambda d: score(b, c, n, d) + z, value + 1e-9, 1 - edge)
    return float(low), float(high)


def cluster_error(differences: Sequence[float], families: Sequence[Any]) -> tuple[float, float]:
    """Return standard error and p of a mean, by ordinary least squares with clusters."""
    api = oracle("statsmodels.api")
    groups = np.unique(families, return_inverse=True)[1]
    fit = api.OLS(np.asarray(differences, float), np.ones(len(differences))).fit(
        cov_type="cluster", cov_kwds={"groups": groups}, use_t=True
    )
    return float(fit.bse[0]), float(fit.pvalues[0])


def check_estimate(ours: Mapping[str, Any], value: float, low: float, high: float, tolerance: float = 1e-6) -> None:
    assert (ours["value"], ours["low"], ours["high"]) == pytest.approx((value, low, high), abs=tolerance)


def check_figures(ours: Mapping[str, Any], pairs: Sequence[tuple[str, int, int]], families: Sequence[Any]) -> None:
    """Check the cells, both rates, the difference and its tests."""
    n, level = len(pairs), 0.95
    cells = [sum((x, y) == cell for _, x, y in pairs) for cell in ((1, 1), (1, 0), (0, 1), (0, 0))]
    both, only_a, only_b, neither = cells
    assert [ours[name] for name in ("both", "only_a", "only_b", "neither")] == cells
    assert ours["paired"] == n
    tables = oracle("statsmodels.stats.contingency_tables")
    exact = tables.mcnemar([[both, only_a], [only_b, neither]], exact=True)
    value = (only_b - only_a) / n
    sizes = len(set(families))
    if sizes in (1, n):
        one_family = sizes == 1 < n
        assert ours["families"] == (1 if one_family else None) and ours["families_p"] is None
        # Variants of one family do not show whether others differ.
        assert ours["mcnemar_p"] == (None if one_family else pytest.approx(exact.pvalue, abs=1e-12))
        for name, won in (("rate_a", both + only_a), ("rate_b", both + only_b)):
            limits = scipy_stats.binomtest(won, n).proportion_ci(level, "wilson")
            check_estimate(ours[name], won / n, limits.low, limits.high)
        scale, z = 1.0, scipy_stats.norm.ppf(0.975)
    else:
        differences = [y - x for _, x, y in pairs]
        error, _ = cluster_error(differences, families)
        assert ours["families"] == sizes and ours["mcnemar_p"] is None
        variance = (only_a + only_b) / n - value**2
        design, degrees = (
            max(error**2 / (variance / n) if variance else 1.0, floor_of(pairs, families), 1.0),
            kish(families),
        )
        assert ours["effective_n"] == pytest.approx(n / design, rel=5e-3)
        if variance:
            t = value / math.sqrt(design * variance / n)
            p = 2 * scipy_stats.t.sf(abs(t), degrees)
            assert ours["families_p"] == pytest.approx(max(p, exact.pvalue), rel=0.02, abs=1e-9)
        scale, z = 1 / design, scipy_stats.t.ppf(0.975, degrees)
    if sizes == 1 < n:
        assert (ours["difference"]["value"], ours["difference"]["low"], ours["difference"]["high"]) == (
            pytest.approx(value),
            None,
            None,
        )
    elif abs(value) < 1 and only_a + only_b:
        low, high = score_limits(only_b * scale, only_a * scale, n * scale, z)
        if sizes not in (1, n):
            # Neither limit is inside the one that there would be without any flip in its direction.
            low = min(low, limit_without(pairs, families, 1, z)[0])
            high = max(high, limit_without(pairs, families, 0, z)[1])
        check_estimate(ours["difference"], value, low, high, 2e-5 if sizes in (1, n) else 2e-3)


def p_of(figures: Mapping[str, Any]) -> float | None:
    p: float | None = figures["mcnemar_p"] if figures["families"] is None else figures["families_p"]
    return p


def check_adjusted(compared: Sequence[Mapping[str, Any]], method: str) -> None:
    tested = [figures for figures in compared if p_of(figures) is not None]
    assert all(figures["adjusted_p"] is None for figures in compared if p_of(figures) is None)
    if tested:
        multiple = oracle("statsmodels.stats.multitest").multipletests
        adjusted = multiple([p_of(figures) for figures in tested], method=method)[1]
        assert [figures["adjusted_p"] for figures in tested] == pytest.approx(list(adjusted))


def kish(families: Sequence[Any]) -> float:
    sizes = Counter(families).values()
    return max(1.0, sum(sizes) ** 2 / sum(m * m for m in sizes) - 1)


def flips_by_family(pairs: Sequence[tuple[str, int, int]], families: Sequence[Any], side: int) -> list[list[int]]:
    """Return, for each family, the pairs of which only A (0) or only B (1) succeeded, and all."""
    found: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for (_, x, y), name in zip(pairs, families, strict=True):
        found[name][0] += (x, y) == ((1, 0), (0, 1))[side]
        found[name][1] += 1
    return list(found.values())


def floor_of(pairs: Sequence[tuple[str, int, int]], families: Sequence[Any]) -> float:
    weighted = total = 0.0
    for side in (0, 1):
        flips, sizes = zip(*flips_by_family(pairs, families, side), strict=True)
        weighted += (sum(flips) + 0.5) * correlation_floor(flips, sizes)
        total += sum(flips) + 0.5
    return weighted / total


def limit_without(
    pairs: Sequence[tuple[str, int, int]], families: Sequence[Any], side: int, z: float
) -> tuple[float, float]:
    """Return the limits as if the pairs of which only A (1) or only B (0) succeeded had not differed."""
    gone = ((0, 1), (1, 0))[side]
    kept = [(name, *((0, 0) if (x, y) == gone else (x, y))) for name, x, y in pairs]
    n, won, lost = len(kept), sum((x, y) == (0, 1) for _, x, y in kept), sum((x, y) == (1, 0) for _, x, y in kept)
    value = (won - lost) / n
    error, _ = cluster_error([y - x for _, x, y in kept], families)
    variance = (won + lost) / n - value**2
    design = max(error**2 / (variance / n) if variance else 1.0, floor_of(kept, families), 1.0)
    return score_limits(won / design, lost / design, n / design, z)


# -- random files -----------------------------------------------------------------------------------------------


def random_rows(seed: int, target: int, *, families: bool, n: int = 240) -> Rows:
    rng, shared = random.Random(100 * seed + target), random.Random(seed)
    rows = {}
    for number in range(n):
        base = {"plugin": shared.choice(["x", "y", "z", None]), "lang": shared.choice(["en", "de"])}
        hard = shared.random()
        # Variants of one thing fall together.
        alike = random.Random(f"{seed} {target} {number // 8}").random() if families else rng.random()
        chance = rng.random()
        row = standard(
            number,
            success=bool(0.6 * alike + 0.4 * hard < 0.25 + 0.08 * target),
            error="HTTP 503" if chance < 0.05 else None,
            long_id=f"case{number // 8}" if families else None,
            **base,
        )
        if row["error"]:
            row["success"] = False
        rows[str(number)] = row
    dropped = rng.sample(sorted(rows), 10)
    return {name: row for name, row in rows.items() if name not in dropped}


def families_of(pairs: Sequence[tuple[str, int, int]], *, families: bool) -> list[str]:
    return [str(int(name) // 8) if families else name for name, _, _ in pairs]


@pytest.mark.parametrize(("seed", "families"), KINDS)
def test_a_comparison_is_what_others_compute(write: Write, seed: int, families: bool) -> None:
    a, b = (random_rows(seed, target, families=families) for target in (0, 1))
    paths = [write(rows.values(), f"results_{name}.jsonl") for name, rows in (("a", a), ("b", b))]
    (ours,) = found(paths)["pairs"]
    pairs = paired(a, b)
    check_figures(ours, pairs, families_of(pairs, families=families))
    assert ours["adjusted_p"] == ours["p"] == ours["families_p" if families else "mcnemar_p"]
    assert ours["fixed"]["ids"] == [name for name, x, y in pairs if (x, y) == (1, 0)]
    assert ours["broken"]["ids"] == [name for name, x, y in pairs if (x, y) == (0, 1)]
    ratio = ours["only_b"] / ours["only_a"]
    assert ours["odds_ratio"]["value"] == pytest.approx(ratio)
    for field in ("plugin", "lang"):
        values = {name: row[field] for name, row in a.items()}
        groups = ours["by"][field]
        assert {group["value"] for group in groups} == {values[name] for name, _, _ in pairs}
        for group in groups:
            members = [pair for pair in pairs if values[pair[0]] == group["value"]]
            check_figures(group, members, families_of(members, families=families))
    check_adjusted([group for groups in ours["by"].values() for group in groups], "fdr_bh")


@pytest.mark.parametrize("families", [False, True])
def test_three_files_are_tested_together_and_pair_by_pair(write: Write, families: bool) -> None:
    targets = [random_rows(7, target, families=families) for target in range(3)]
    paths = [write(rows.values(), f"results_{place}.jsonl") for place, rows in enumerate(targets)]
    ours = found(paths)
    shared = [name for name in targets[0] if all(name in rows and not rows[name]["error"] for rows in targets)]
    theirs = oracle("statsmodels.stats.contingency_tables").cochrans_q(
        np.array([[int(rows[name]["success"]) for rows in targets] for name in shared])
    )
    assert ours["overall"]["entries"] == len(shared)
    assert ours["overall"]["df"] == 2
    assert (ours["overall"]["cochran_q"], ours["overall"]["p"]) == pytest.approx((theirs.statistic, theirs.pvalue))
    check_adjusted(ours["pairs"], "holm")
    for pair, (a, b) in zip(ours["pairs"], combinations(targets, 2), strict=True):
        pairs = paired(a, b)
        check_figures(pair, pairs, families_of(pairs, families=families))
        assert p_of(pair) is not None
        assert (pair["families"] is not None) is families
    assert any(pair["adjusted_p"] != p_of(pair) for pair in ours["pairs"])


@pytest.mark.parametrize("families", [False, True])
def test_more_files_are_tested_against_the_first_and_answer_for_as_many_tests(write: Write, families: bool) -> None:
    targets = [random_rows(11, target, families=families) for target in range(5)]
    paths = [write(rows.values(), f"results_{place}.jsonl") for place, rows in enumerate(targets)]
    ours = found(paths)
    assert [pair["labels"] for pair in ours["pairs"]] == [["0", str(other)] for other in range(1, 5)]
    for pair, other in zip(ours["pairs"], targets[1:], strict=True):
        pairs = paired(targets[0], other)
        check_figures(pair, pairs, families_of(pairs, families=families))
    check_adjusted(ours["pairs"], "holm")
    shared = [name for name in targets[0] if all(name in rows and not rows[name]["error"] for rows in targets)]
    theirs = oracle("statsmodels.stats.contingency_tables").cochrans_q(
        np.array([[int(rows[name]["success"]) for rows in targets] for name in shared])
    )
    assert (ours["overall"]["entries"], ours["overall"]["df"]) == (len(shared), 4)
    assert (ours["overall"]["cochran_q"], ours["overall"]["p"]) == pytest.approx((theirs.statistic, theirs.pvalue))


def test_different_entries_are_compared_as_such(write: Write) -> None:
    a = [standard(number, success=number % 10 < 3) for number in range(100)]
    b = [standard(1000 + number, success=number % 100 < 18) for number in range(100)]
    (ours,) = found([write(a, "a.jsonl"), write(b, "b.jsonl")])["pairs"]
    check_estimate(ours["difference"], -0.12, -0.234698, -0.001334)
    assert ours["difference"]["method"] == "newcombe"
    assert ours["p"] == pytest.approx(scipy_stats.fisher_exact([[18, 82], [30, 70]]).pvalue)
    assert ours["test"] == "fisher" and ours["mcnemar_p"] is None and ours["paired"] == 0


# -- scores -----------------------------------------------------------------------------------------------------


def journal(seed: int, *, suites: int, cases: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    records: list[dict[str, Any]] = [dict(HEADER)]
    for suite in range(suites):
        for number in range(cases):
            name = f"suite{suite}_[k={number}]"
            records.append(case(name, parameters={"k": number}, count=2))
            for place in range(2):
                told = attempt(name, place, rng.choice("pf"))
                told["verdicts"][0]["score"] = None if rng.random() < 0.1 else round(rng.random() + seed / 10, 3)
                records.append(told)
    return records


def means_of(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    scores: dict[str, list[float]] = defaultdict(list)
    for record in records:
        if record["kind"] == "attempt":
            scores[record["case"]] += [said["score"] for said in record["verdicts"] if said["score"] is not None]
    return {name: float(np.mean(told)) for name, told in scores.items() if told}


@pytest.mark.parametrize(("suites", "cases"), [(1, 30), (6, 8)])
def test_scores_are_compared_case_by_case(write: Write, suites: int, cases: int) -> None:
    a, b = journal(1, suites=suites, cases=cases), journal(4, suites=suites, cases=cases)
    (pair,) = found([write(a, "a.jsonl"), write(b, "b.jsonl")])["pairs"]
    (ours,) = pair["scores"]["metrics"]
    first, second = means_of(a), means_of(b)
    names = [name for name in first if name in second]
    assert ours["metric"] == "Correct"
    assert ours["difference"]["n"] == len(names)
    x, y = (np.array([means[name] for name in names]) for means in (first, second))
    if suites == 1:
        theirs = scipy_stats.ttest_rel(y, x)
        limits = theirs.confidence_interval(0.95)
        check_estimate(ours["difference"], float(np.mean(y - x)), limits.low, limits.high)
        assert ours["p"] == pytest.approx(theirs.pvalue)
        assert ours["standard_error"] == pytest.approx(scipy_stats.sem(y - x))
    else:
        error, p = cluster_error(y - x, [name.partition("_")[0] for name in names])
        assert (ours["standard_error"], ours["p"]) == pytest.approx((error, p))
        width = scipy_stats.t.ppf(0.975, suites - 1) * error
        value = float(np.mean(y - x))
        check_estimate(ours["difference"], value, value - width, value + width)


# -- published files --------------------------------------------------------------------------------------------


def published(folder: Path) -> Iterator[Path]:
    yield from sorted((folder / "data" / "spikee-v0.1").glob("*-full-prompt_*.jsonl"))


def rows_in(path: Path) -> Rows:
    with path.open(encoding="utf-8") as file:
        return {str(row["id"]): row for row in map(json.loads, file)}


@pytest.mark.shared
def test_published_results_of_several_models_are_compared_as_others_do(shared: Path) -> None:
    paths = list(published(shared))
    assert len(paths) >= 4
    targets = [rows_in(path) for path in paths]
    ours = found([str(path) for path in paths], by=FIELDS, flips=1)
    assert [(pair["a"], pair["b"]) for pair in ours["pairs"]] == [(str(paths[0]), str(path)) for path in paths[1:]]
    kept = {name: family(*(row[field] for field in FAMILY)) or name for name, row in targets[0].items()}
    for pair, other in zip(ours["pairs"], targets[1:], strict=True):
        pairs = paired(targets[0], other)
        check_figures(pair, pairs, [kept[name] for name, _, _ in pairs])
        for field in FIELDS:
            assert sum(group["paired"] for group in pair["by"][field]) == len(pairs)
    check_adjusted([group for pair in ours["pairs"] for field in FIELDS for group in pair["by"][field]], "fdr_bh")
    check_adjusted(ours["pairs"], "holm")
    shared_ids = [name for name in targets[0] if all(outcome(rows[name]) != "error" for rows in targets)]
    table = np.array([[int(rows[name]["success"]) for rows in targets] for name in shared_ids])
    theirs = oracle("statsmodels.stats.contingency_tables").cochrans_q(table)
    assert ours["overall"]["cochran_q"] == pytest.approx(theirs.statistic)


FAMILY = ("long_id", "document_id", "position", "instruction_type", "plugin")


# -- functions --------------------------------------------------------------------------------------------------


def test_families_of_one_are_entries() -> None:
    apart = cluster_tango([1] * 8 + [0] * 42, [0] * 48 + [1] * 2, [1] * 50).estimate
    together = tango(8, 2, 50)
    assert apart.value == pytest.approx(together.value)
    # Student's quantile is a little wider than the normal one.
    assert apart.low == pytest.approx(together.low, abs=0.01) and apart.high == pytest.approx(together.high, abs=0.01)


def test_families_that_show_no_variance_are_worth_what_the_floor_says() -> None:
    nothing = cluster_tango([0] * 6, [0] * 6, [4] * 6)
    floor, t = correlation_floor([0] * 6, [4] * 6), scipy_stats.t.ppf(0.975, 5)
    assert nothing.effective_n == pytest.approx(24 / floor, rel=1e-3) and nothing.p == 1.0
    assert nothing.estimate.high == pytest.approx(t**2 / (24 / floor + t**2), rel=1e-3)
    all_of_them = cluster_tango([4] * 6, [0] * 6, [4] * 6)
    assert all_of_them.estimate.value == 1 and all_of_them.p is None


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9)), min_size=2, max_size=9))
def test_a_limit_is_never_inside_the_one_without_any_flip_in_its_direction(units: list[tuple[int, int, int]]) -> None:
    won, lost, sizes = [b for b, _, _ in units], [c for _, c, _ in units], [b + c + more + 1 for b, c, more in units]
    found = cluster_tango(won, lost, sizes).estimate
    none = [0] * len(units)
    assert known(found.high) >= known(cluster_tango(none, lost, sizes).estimate.high) - 1e-9
    assert known(found.low) <= known(cluster_tango(won, none, sizes).estimate.low) + 1e-9


@pytest.mark.shared
def test_groups_that_are_beyond_chance_among_those_of_their_field_are_not_among_all(shared: Path) -> None:
    paths = [str(path) for path in published(shared) if "35_sonnet" in path.name or "o1-preview" in path.name]
    (pair,) = found(paths)["pairs"]
    assert pair["claimed"] == "higher"
    tested = {field: [group for group in groups if p_of(group) is not None] for field, groups in pair["by"].items()}
    adjust = oracle("statsmodels.stats.multitest").multipletests
    within = [
        (field, group["value"])
        for field, groups in tested.items()
        for group, p in zip(groups, adjust([p_of(group) for group in groups], method="fdr_bh")[1], strict=True)
        if p < 0.05 and not group["difference"]["low"] <= 0 <= group["difference"]["high"]
    ]
    assert ("spotlighting_data_markers", "\n<data>\nDOCUMENT\n</data>\n") in within
    assert not any(group["stands_out"] for groups in pair["by"].values() for group in groups)


def test_families_of_nearly_one_size_keep_their_degrees_of_freedom() -> None:
    """429 pairs of four families without a flip: 107, 107, 107 and 108 are worth as much as four of one size."""
    nearly, equal = (cluster_tango([0] * 4, [0] * 4, sizes) for sizes in ([107, 107, 107, 108], [107, 107, 107, 107]))
    assert known(nearly.degrees) == pytest.approx(3, abs=1e-3)
    assert known(nearly.estimate.high) == pytest.approx(known(equal.estimate.high), abs=1e-3)
    flipped = cluster_tango([1, 0, 0, 0], [0] * 4, [107, 107, 107, 108]).estimate
    assert known(nearly.estimate.high) <= known(flipped.high) + 1e-12, "no flip is not wider than one"
    assert known(nearly.estimate.low) >= known(flipped.low) - 0.1


def test_a_broken_entry_does_not_make_a_difference_surer_than_none() -> None:
    """200 families of 8 without a flip, and with one: the limit on the side of the worse must not come nearer."""
    none = cluster_tango([0] * 200, [0] * 200, [8] * 200).estimate
    broken = cluster_tango([1] + [0] * 199, [0] * 200, [8] * 200).estimate
    assert known(broken.high) >= known(none.high) - 1e-12


def test_one_family_has_a_difference_and_no_interval() -> None:
    lonely = cluster_tango([2], [1], [9])
    assert lonely.estimate.value == pytest.approx(1 / 9)
    assert lonely.estimate.low is None and lonely.p is None
    assert cluster_mean([3.0], [2]).estimate.value == 1.5
    assert cluster_mean([3.0], [2]).standard_error is None


def test_a_mean_that_never_varies_has_no_test() -> None:
    assert cluster_mean([0.2] * 5, [1] * 5).p is None
    assert cluster_mean([0.0] * 5, [1] * 5).p == 1.0
    assert cluster_mean([], []).estimate.value is None


@pytest.mark.parametrize(
    "wrong",
    [lambda: cluster_tango([1], [1], [1]), lambda: cluster_tango([1], [0], [1, 2]), lambda: cluster_mean([1.0], [])],
)
def test_impossible_counts_are_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"famil|differ"):
        wrong()


def figures_with(both: int, only_a: int, only_b: int, neither: int) -> Figures:
    return replace(cells(both, only_a, only_b, neither), effective_n=float(both + only_a + only_b + neither))


def test_what_could_have_been_shown_is_found_four_times_in_five() -> None:
    """Entries with rates of their own, of which 15% flip; the new target is better by just as much."""
    could = known(detectable(figures_with(100, 40, 35, 325), 0.05))
    rng = np.random.default_rng(3)
    rates = np.clip(rng.beta(0.166, 0.437, (2000, 500)), 1e-12, 1 - 1e-12)
    shift = optimize.brentq(lambda by: float((special.expit(special.logit(rates) + by) - rates).mean()) - could, 0, 5)
    a, b = rng.random(rates.shape) < rates, rng.random(rates.shape) < special.expit(special.logit(rates) + shift)
    tables = zip((b & ~a).sum(axis=1), (a & ~b).sum(axis=1), strict=True)
    hits = sum(scipy_stats.binomtest(int(won), int(won + lost)).pvalue < 0.05 for won, lost in tables)
    assert hits / 2000 == pytest.approx(0.8, abs=0.03)


def test_files_that_agree_on_everything_could_have_shown_a_few_flips() -> None:
    """Of 120 entries at least six must flip, all one way: that is likely enough with 6.5 points."""
    could = known(detectable(figures_with(10, 0, 0, 110), 0.05))
    assert scipy_stats.binom.sf(5, 120, could) == pytest.approx(0.8, abs=0.01)
    assert detectable(figures_with(1, 0, 0, 2), 0.05) is None


@pytest.mark.parametrize(("count", "size", "alike"), [(10, 20, 0.6), (36, 7, 0.3)])
def test_the_interval_over_families_covers_where_drawing_families_does_not(count: int, size: int, alike: float) -> None:
    rng = np.random.default_rng(5)
    chances = np.array([0.1, 0.05, 0.85])
    covered = np.zeros(3)
    runs = 400
    for own in rng.dirichlet(chances * (1 - alike) / alike, size=(runs, count)):
        drawn = rng.multinomial(size, own / own.sum(axis=1, keepdims=True))
        only_a, only_b, sizes = drawn[:, 0].tolist(), drawn[:, 1].tolist(), [size] * count
        tried = (
            cluster_tango(only_a, only_b, sizes).estimate,
            cluster_bootstrap_difference(only_a, only_b, sizes),
            tango(sum(only_a), sum(only_b), size * count),
        )
        covered += [known(found.low) <= 0.05 <= known(found.high) for found in tried]
    ours, bootstrap, independent = covered / runs
    assert ours >= 0.94
    assert bootstrap < ours and independent < 0.85
