"""Answers to worked examples about rates, families, attempts, comparisons, planning, slices and gates.

An example is recognised by its family and the names of its inputs, never by its id, so that any file of the same shape
can be checked. Whatever an example expects must be answered: a key that nobody knows is a failure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from faircount.core import Estimate
from faircount.stats import attempts, clusters, comparison, gates, planning, proportion, slices, student_critical_value
from tests.oracles import correlation_floor, oracle

Inputs = dict[str, Any]
Expected = dict[str, Any]
# By key; a function answers all keys that match its key as a pattern, and is given the match and what is expected.
Answers = dict[str, Any]
Recipe = Callable[[Inputs], Answers]

# The likelihood of the prior of slices is flat: the examples ask to compare its parameters relatively.
FLAT = {"alpha": 1e-3, "beta": 1e-3}


@dataclass(frozen=True)
class Shape:
    """The inputs by which a kind of example is known, and what answers it."""

    family: str
    needs: frozenset[str]
    allows: frozenset[str]
    answer: Recipe


SHAPES: list[Shape] = []


def shape(family: str, needs: str, allows: str = "") -> Callable[[Recipe], Recipe]:
    def register(answer: Recipe) -> Recipe:
        SHAPES.append(Shape(family, frozenset(needs.split()), frozenset(allows.split()), answer))
        return answer

    return register


def check(family: str, inputs: Inputs, expected: Expected, tolerance: float) -> None:
    """Compare everything that an example expects with what the library gives."""
    answers = recipe_for(family, inputs)(inputs)
    assert expected, "the example expects nothing"
    if family == "clustered_proportion" and (floored := with_floor(inputs, expected)):
        expected, tolerance = floored, max(tolerance, 1e-3)
    for key, value in expected.items():
        relative = FLAT[key] * abs(value) if family == "slices" and key in FLAT and value else 0.0
        compare(answer_to(key, answers, expected), value, max(tolerance, relative), key)


def with_floor(inputs: Inputs, expected: Expected) -> Expected | None:
    """Return what an example expects with the floor under the design effect, by scipy, where that decides.

    The examples are of the cluster-robust variance alone, which sees no likeness where all families come out the same.
    """
    successes, sizes = [sum(family) for family in inputs["families"]], [len(family) for family in inputs["families"]]
    count, n, p = len(sizes), sum(sizes), sum(successes) / max(sum(sizes), 1)
    if count < 2 or 0 < p < 1:
        return None
    effective = n / correlation_floor(successes, sizes)
    squared = oracle("scipy.stats").t.ppf((1 + inputs.get("conf", 0.95)) / 2, count - 1) ** 2
    upper = squared / effective / (1 + squared / effective)
    known = {"n_eff": effective, "wilson_cluster_upper": upper} if p == 0 else {"n_eff": effective}
    return {key: known.get(key, value) for key, value in expected.items()}


def answer_to(key: str, answers: Answers, expected: Expected) -> Any:
    """Return the answer that a key names or, if there is none, that of the pattern which it matches."""
    if key in answers and not callable(answers[key]):
        return answers[key]
    for pattern, answer in answers.items():
        if callable(answer) and (found := re.fullmatch(pattern, key)):
            return answer(found, expected)
    raise AssertionError(f"nothing here answers {key!r}")


def recipe_for(family: str, inputs: Inputs) -> Recipe:
    """Return what answers a family with these inputs."""
    for known in SHAPES:
        if known.family == family and known.needs <= set(inputs) <= known.needs | known.allows:
            return known.answer
    if family == "paired_comparison" and len(inputs) > 1 and all(isinstance(value, list) for value in inputs.values()):
        return cochran
    raise AssertionError(f"no function is known for {family} with {sorted(inputs)}")


def compare(actual: Any, expected: Any, tolerance: float, where: str) -> None:
    """Compare texts exactly, numbers within the tolerance and lists element by element; None is only None."""
    if isinstance(actual, list | tuple) and not isinstance(expected, list):
        assert expected is None and all(element is None for element in actual), f"{where}: {actual} is not {expected}"
    elif isinstance(expected, list):
        assert isinstance(actual, list | tuple), f"{where}: {actual} is no list"
        assert len(actual) == len(expected), f"{where}: {actual} is not as long as {expected}"
        for place, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
            compare(ours, theirs, tolerance, f"{where}[{place}]")
    elif expected is None or isinstance(expected, str | bool) or actual is None:
        assert actual == expected, f"{where}: {actual} is not {expected}"
    else:
        assert abs(actual - expected) <= tolerance, f"{where}: {actual} is not {expected} within {tolerance}"


def limits(estimate: Estimate) -> tuple[float | None, float | None]:
    return estimate.low, estimate.high


def limits_of_rate(estimate: Estimate) -> tuple[float | None, float | None]:
    """Return the limits of a rate; where nothing is known nothing is excluded, which the examples write as 0 to 1."""
    return limits(estimate) if estimate.n else (0.0, 1.0)


@shape("single_proportion_ci", "k n", "conf")
def single_proportion(inputs: Inputs) -> Answers:
    k, n, level = inputs["k"], inputs["n"], inputs.get("conf", 0.95)
    answers: Answers = {
        "p": proportion.wilson(k, n, level=level).value,
        "wilson": limits_of_rate(proportion.wilson(k, n, level=level)),
        "clopper_pearson": limits_of_rate(proportion.clopper_pearson(k, n, level=level)),
        "jeffreys_bcd": limits_of_rate(proportion.jeffreys(k, n, level=level)),
        "jeffreys_plain": limits_of_rate(proportion.jeffreys(k, n, level=level, open_ended=False)),
    }
    if k == 0 and n:
        answers["upper_one_sided"] = proportion.zero_hits_upper(n, level=level).high
        answers["rule_of_three"] = 3 / n
    elif n and level > 0.5:
        answers["upper_one_sided"] = proportion.clopper_pearson(k, n, level=2 * level - 1).high
    return answers


@shape("clustered_proportion", "families", "conf")
def clustered(inputs: Inputs) -> Answers:
    level = inputs.get("conf", 0.95)
    successes, sizes = [sum(family) for family in inputs["families"]], [len(family) for family in inputs["families"]]
    naive = proportion.wilson(sum(successes), sum(sizes), level=level)
    ours = clusters.cluster_wilson(successes, sizes, level=level)
    drawn = clusters.cluster_bootstrap(successes, sizes, level=level)
    p, error = ours.estimate.value, ours.standard_error
    critical = student_critical_value(level, ours.families - 1) if ours.families > 1 else None
    answers: Answers = {
        "p": p,
        "n": ours.estimate.n,
        "G": ours.families,
        "naive_se": None if p is None else math.sqrt(p * (1 - p) / ours.estimate.n),
        "cluster_se": error,
        "design_effect": ours.design_effect,
        "n_eff": ours.effective_n,
        "t_crit": critical,
        "wilson_naive": limits(naive),
        "wilson_naive_lower": naive.low,
        "wilson_naive_upper": naive.high,
        "wilson_cluster": limits(ours.estimate),
        "wilson_cluster_lower": ours.estimate.low,
        "wilson_cluster_upper": ours.estimate.high,
        "icc1": clusters.family_correlation(successes, sizes),
        "macro_p": ours.macro_rate,
        "wald_t": (None, None),
    }
    if p is not None and error is not None and critical is not None:
        answers["wald_t"] = (p - critical * error, p + critical * error)
    if "exact" in drawn.method:
        answers["cluster_bootstrap_exact_percentile"] = limits(drawn)
    return answers


@shape("k_attempts", "n c k")
def pass_k(inputs: Inputs) -> Answers:
    n, c, k = inputs["n"], inputs["c"], inputs["k"]

    def each(function: Callable[[int], float | None]) -> Any:
        return [function(one) for one in k] if isinstance(k, list) else function(k)

    answers: Answers = {
        "pass_at_k": each(lambda one: attempts.pass_at_k(n, c, one)),
        "pass_hat_k": each(lambda one: attempts.pass_hat_k(n, c, one)),
    }
    if n:
        answers["plug_in_at_k"] = each(lambda one: attempts.any_of_k(c / n, one))
        answers["plug_in_hat_k"] = each(lambda one: attempts.all_of_k(c / n, one))
    return answers


@shape("k_attempts", "entries k")
def pass_k_of_entries(inputs: Inputs) -> Answers:
    entries = [(n, c) for n, c in inputs["entries"]]
    at_k = attempts.mean_pass_at_k(entries, inputs["k"])
    hat_k = attempts.mean_pass_hat_k(entries, inputs["k"])
    return {
        "per_entry": at_k.per_entry,
        "mean": at_k.estimate.value,
        "se": at_k.standard_error,
        "hat": hat_k.estimate.value,
        "left_out": at_k.left_out,
    }


@shape("k_attempts", "attempts success", "conf")
def survival(inputs: Inputs) -> Answers:
    entries = inputs["attempts"], inputs["success"]
    curve = attempts.success_within_k(*entries, level=inputs.get("conf", 0.95))

    def rows(expected: Expected) -> list[attempts.AttemptStep]:
        return [step_at(curve, k) for k in expected.get("k", [step.k for step in curve.steps])]

    def column(value: Callable[[attempts.AttemptStep], Any]) -> Callable[[Any, Expected], Any]:
        return lambda _, expected: [value(row) for row in rows(expected)]

    def within(_: Any, expected: Expected) -> Any:
        values = [1 - row.survival for row in rows(expected)]
        return values if isinstance(expected["success_within_k"], list) else values[-1]

    def upper(found: re.Match[str], _: Expected) -> float | None:
        again = attempts.success_within_k(*entries, level=as_share(found[1]))
        assert again.successes == 0, "a one-sided limit is given where nothing succeeded"
        return again.steps[-1].estimate.high

    return {
        "k": column(lambda row: row.k),
        "at_risk": column(lambda row: row.at_risk),
        "events": column(lambda row: row.successes),
        "censored": column(lambda row: row.censored),
        "survival": column(lambda row: row.survival),
        "success_within_k": within,
        "greenwood_se": column(lambda row: row.standard_error),
        "ci_low_survival": column(lambda row: below_one(log_log_limits(row)[1])),
        "ci_high_survival": column(lambda row: below_one(log_log_limits(row)[0])),
        "naive_success_rate": curve.successes / curve.entries,
        "geometric_mle": curve.successes / curve.attempts_spent,
        "median_attempts": curve.attempts_for(0.5).value,
        r"rmst_(\d+)": lambda found, _: curve.mean_attempts(int(found[1])),
        r"upper(\d+)_one_sided": upper,
    }


def log_log_limits(step: attempts.AttemptStep) -> tuple[float | None, float | None]:
    """Return the log-log limits; where those do not exist the library has exact one-sided ones, the examples none."""
    return limits(step.estimate) if step.estimate.method == "kaplan-meier" else (None, None)


def below_one(share: float | None) -> float | None:
    return None if share is None else 1 - share


def as_share(digits: str) -> float:
    """Return 0.05 for the "05" of a key's name."""
    return float(f"0.{digits}")


def step_at(curve: attempts.AttemptCurve, k: int) -> attempts.AttemptStep:
    """Return the step at k; between two steps nothing happens."""
    exact = [step for step in curve.steps if step.k == k]
    if exact:
        return exact[0]
    before = [step for step in curve.steps if step.k < k]
    survival, error = (before[-1].survival, before[-1].standard_error) if before else (1.0, 0.0)
    at_risk = next((step.at_risk for step in curve.steps if step.k > k), 0)
    return attempts.AttemptStep(k, at_risk, 0, 0, survival, error, curve.within(k))


@shape("k_attempts", "attempts_a success_a attempts_b success_b")
def log_rank(inputs: Inputs) -> Answers:
    result = attempts.logrank(inputs["attempts_a"], inputs["success_a"], inputs["attempts_b"], inputs["success_b"])
    return {"z": result.z, "chi2": result.chi_square, "p": result.p}


@shape("paired_comparison", "both only_A only_B neither", "conf")
def paired(inputs: Inputs) -> Answers:
    both, only_a, only_b, neither = (inputs[key] for key in ("both", "only_A", "only_B", "neither"))
    n, level = both + only_a + only_b + neither, inputs.get("conf", 0.95)
    test = comparison.mcnemar(only_a, only_b)
    difference = comparison.tango(only_a, only_b, n, level=level)
    odds = comparison.conditional_odds_ratio(only_a, only_b, level=level)
    return {
        "asr_A": proportion.wilson(both + only_a, n).value,
        "asr_B": proportion.wilson(both + only_b, n).value,
        "diff": difference.value,
        "mcnemar_exact_p": test.p,
        "mcnemar_midp": test.mid_p,
        "tango_ci": limits(difference),
        "newcombe_ci": limits(comparison.newcombe_paired(both, only_a, only_b, neither, level=level)),
        "cond_odds_ratio": odds.value,
        "odds_ratio_exact_ci": limits(odds),
    }


@shape("paired_comparison", "n only_A only_B", "conf")
def paired_difference(inputs: Inputs) -> Answers:
    level = inputs.get("conf", 0.95)
    difference = comparison.tango(inputs["only_A"], inputs["only_B"], inputs["n"], level=level)
    test = comparison.mcnemar(inputs["only_A"], inputs["only_B"])
    return {
        "diff": difference.value,
        "tango_ci": limits(difference),
        "mcnemar_exact_p": test.p,
        "mcnemar_midp": test.mid_p,
    }


def cochran(inputs: Inputs) -> Answers:
    result = comparison.cochran_q(list(inputs.values()))
    return {
        "Q": result.statistic,
        "df": result.degrees_of_freedom,
        "p": result.p,
        "rates": result.rates,
    }


ADJUSTMENTS = {
    "holm": comparison.holm,
    "bh": comparison.benjamini_hochberg,
    "by": comparison.benjamini_yekutieli,
    "bonferroni": comparison.bonferroni,
}


@shape("multiple_testing", "p", "pairs")
def multiple_testing(inputs: Inputs) -> Answers:
    adjusted = {name: adjust(inputs["p"]) for name, adjust in ADJUSTMENTS.items()}

    def rejected(found: re.Match[str], _: Expected) -> int:
        return sum(p is not None and p <= as_share(found[2]) for p in adjusted[found[1]])

    return {**adjusted, r"(holm|bh|by|bonferroni)_rejected_at_(\d+)": rejected}


@shape("unpaired_comparison", "k1 n1 k2 n2", "conf")
def unpaired(inputs: Inputs) -> Answers:
    counts = inputs["k1"], inputs["n1"], inputs["k2"], inputs["n2"]
    level = inputs.get("conf", 0.95)
    hybrid = comparison.newcombe(*counts, level=level)
    answers: Answers = {
        "diff": hybrid.value,
        "newcombe": limits(hybrid),
        "miettinen_nurminen": limits(comparison.miettinen_nurminen(*counts, level=level)),
        "farrington_manning": limits(comparison.farrington_manning(*counts, level=level)),
        "fisher_p": comparison.fisher_exact(*counts),
        "risk_ratio": comparison.risk_ratio(*counts, level=level).value,
        "risk_ratio_ci": limits(comparison.risk_ratio(*counts, level=level)),
    }
    if inputs["n1"] and inputs["n2"]:
        answers["cohen_h"] = comparison.cohen_h(inputs["k1"] / inputs["n1"], inputs["k2"] / inputs["n2"])
    return answers


@shape("planning", "target", "conf")
def plan_zero_hits(inputs: Inputs) -> Answers:
    return {"n": planning.sample_size_zero_hits(inputs["target"], level=inputs.get("conf", 0.95)).entries}


def power_and_alpha(inputs: Inputs) -> dict[str, float]:
    return {key: inputs[key] for key in ("power", "alpha") if key in inputs}


@shape("planning", "p1 p2", "power alpha")
def plan_unpaired(inputs: Inputs) -> Answers:
    settings = power_and_alpha(inputs)
    pooled = planning.sample_size_unpaired(inputs["p1"], inputs["p2"], method="pooled", **settings)
    arcsine = planning.sample_size_unpaired(inputs["p1"], inputs["p2"], method="arcsine", **settings)
    return {
        "n_arcsine": arcsine.n,
        "n_arcsine_ceil": arcsine.entries,
        "n_pooled": pooled.n,
        "n_pooled_ceil": pooled.entries,
    }


@shape("planning", "discordant diff", "power alpha")
def plan_paired(inputs: Inputs) -> Answers:
    size = planning.sample_size_paired(inputs["discordant"], inputs["diff"], **power_and_alpha(inputs))
    return {"n": size.n, "n_ceil": size.entries}


@shape("planning", "n base discordant", "power alpha")
def detectable(inputs: Inputs) -> Answers:
    settings = power_and_alpha(inputs)
    return {
        "mde_unpaired": planning.minimum_detectable(inputs["n"], base=inputs["base"], **settings),
        "mde_paired": planning.minimum_detectable(inputs["n"], discordant=inputs["discordant"], **settings),
    }


@shape("planning", "p half_width", "conf")
def plan_half_width(inputs: Inputs) -> Answers:
    size = planning.sample_size_half_width(
        inputs["p"], inputs["half_width"], level=inputs.get("conf", 0.95), interval="normal"
    )
    return {"n": size.n, "n_ceil": size.entries}


@shape("planning", "n m icc")
def plan_families(inputs: Inputs) -> Answers:
    size = planning.sample_size_in_families(inputs["n"], inputs["m"], inputs["icc"])
    return {"deff": planning.design_effect(inputs["m"], inputs["icc"]), "n": size.n, "n_ceil": size.entries}


@shape("slices", "k n", "conf")
def shrunken_slices(inputs: Inputs) -> Answers:
    k, n = inputs["k"], inputs["n"]
    fit = slices.empirical_bayes(k, n, level=inputs.get("conf", 0.95))
    tests = slices.adjust_together(slices.slices_against_rest(k, n))
    values = [one.value for one in fit.slices]
    answers: Answers = {
        "status": fit.status,
        "alpha": fit.prior.alpha if fit.prior else None,
        "beta": fit.prior.beta if fit.prior else None,
        "prior_mean": fit.prior.mean if fit.prior else None,
        "loglik": fit.prior.log_likelihood if fit.prior else None,
        "raw": [proportion.wilson(*pair).value for pair in zip(k, n, strict=True)],
        "shrunk": values,
        "cred_int": [limits(one) for one in fit.slices],
        "fisher_p": [test.p for test in tests],
        "bh": [test.adjusted_p for test in tests],
        "raw_var": fit.raw_variance,
        "binomial_var": fit.binomial_variance,
        "between_var_mom": fit.between_variance,
    }
    if len(set(values)) == 1:
        answers["shrunk_all"] = values[0]
    return answers


def gate_answers(inputs: Inputs, test: Callable[[float], gates.NonInferiority]) -> Answers:
    result = test(inputs.get("alpha", 0.05))
    return {
        "diff": result.difference.value,
        "z": result.z,
        "p": result.p,
        # The examples know two verdicts: a system that is shown to be inferior is not shown to be the contrary.
        "verdict": "non_inferior" if result.verdict == "non_inferior" else "not_shown",
        r"upper_one_sided_(\d+)": lambda found, _: test(1 - as_share(found[1])).difference.high,
    }


@shape("gating", "both only_new only_old neither margin", "alpha")
def gate_paired(inputs: Inputs) -> Answers:
    n = inputs["both"] + inputs["only_new"] + inputs["only_old"] + inputs["neither"]

    def test(alpha: float) -> gates.NonInferiority:
        return gates.non_inferiority_paired(inputs["only_new"], inputs["only_old"], n, inputs["margin"], alpha=alpha)

    mcnemar = comparison.mcnemar(inputs["only_new"], inputs["only_old"])
    return {**gate_answers(inputs, test), "mcnemar_p": mcnemar.p}


@shape("gating", "new_k new_n old_k old_n margin", "alpha")
def gate_unpaired(inputs: Inputs) -> Answers:
    def test(alpha: float) -> gates.NonInferiority:
        counts = inputs["new_k"], inputs["new_n"], inputs["old_k"], inputs["old_n"]
        return gates.non_inferiority_unpaired(*counts, inputs["margin"], alpha=alpha)

    return gate_answers(inputs, test)


@shape("gating", "p0 p1 outcomes", "alpha beta")
def sequential(inputs: Inputs) -> Answers:
    outcomes = [int(outcome) for outcome in inputs["outcomes"]]
    errors = {key: inputs[key] for key in ("alpha", "beta") if key in inputs}
    result = gates.sprt(outcomes, inputs["p0"], inputs["p1"], **errors)
    return {
        "lower": result.lower,
        "upper": result.upper,
        "llr": result.log_ratios,
        "decision": None if result.decision is None else [result.decided_at, result.decision],
    }


@shape("gating", "successes failures p0", "conf")
def e_process(inputs: Inputs) -> Answers:
    successes, failures, level = inputs["successes"], inputs["failures"], inputs.get("conf", 0.95)
    p0 = inputs["p0"]
    log_e = [gates.log_e_value(successes, failures, one) for one in (p0 if isinstance(p0, list) else [p0])]
    return {
        "log_e": log_e if isinstance(p0, list) else log_e[0],
        "conf_sequence": limits_of_rate(gates.confidence_sequence(successes, failures, level=level)),
        "wilson_fixed_n": limits_of_rate(proportion.wilson(successes, successes + failures, level=level)),
    }


FAMILIES = frozenset(known.family for known in SHAPES)
