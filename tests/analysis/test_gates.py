"""Gates: what an expression means, when a gate is passed, failed or inconclusive, and how many entries would decide."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy.stats import binom, norm
from scipy.stats import t as student

from faircount import stats
from faircount.analysis import FIGURES, CompareOptions, Gate, GateResult, compare_files, judge, parse, subjects_of
from faircount.analysis.compare import model as compared
from faircount.core import Analysis, Estimate, Families, GroupFamilies, Rates, Shares, Tally, UsageError
from tests.analysis.gate_results import (
    analysis_with,
    as_tasks,
    cells,
    comparison_with,
    families_difference,
    unpaired_cells,
    with_rate,
)
from tests.conftest import Cli, Write, analysis_of, standard
from tests.oracles import known
from tests.stats.simulate_gates import DISCORDANT, ENTRIES, TITLES, WORSE, recorded, rows, shares, verdict


def one(text: str, *analyses: Analysis, comparison: compared.Comparison | None = None) -> GateResult:
    """Return the only result of a gate."""
    (result,) = judge([parse(text)], subjects_of(analyses, comparison))
    return result


# -- expressions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("asr > 0.05", Gate("asr > 0.05", "asr", "value", ">", 0.05)),
        ("asr>5%", Gate("asr>5%", "asr", "value", ">", 0.05)),
        ("asr.high >= 5.1%", Gate("asr.high >= 5.1%", "asr", "high", ">=", 0.051)),
        ("asr.low > 0", Gate("asr.low > 0", "asr", "low", ">", 0.0)),
        ("PASS-RATE.value < .9", Gate("PASS-RATE.value < .9", "pass_rate", "value", "<", 0.9)),
        ("errors <= 1e-1", Gate("errors <= 1e-1", "errors", "value", "<=", 0.1)),
        ("regression > 2%", Gate("regression > 2%", "regression", "value", ">", 0.02)),
    ],
)
def test_a_gate_compares_a_figure_with_a_share(text: str, expected: Gate) -> None:
    assert parse(f"  {text} ") == expected


@pytest.mark.parametrize(
    ("group", "field", "value"),
    [
        ("jailbreak_type=dan", "jailbreak_type", "dan"),
        ("jailbreak_type = 'dan mode'", "jailbreak_type", "dan mode"),
        ('suite="a: b > c"', "suite", "a: b > c"),
        ('"my field"="say \\"hi\\""', "my field", 'say "hi"'),
        ('plugin="\\u202e"', "plugin", "\u202e"),
        ("plugin=null", "plugin", None),
        ('plugin="null"', "plugin", "null"),
        ('plugin=""', "plugin", None),
        ("metric.accuracy=1", "metric.accuracy", "1"),
    ],
)
def test_a_gate_may_be_about_one_group(group: str, field: str, value: str | None) -> None:
    gate = parse(f"{group}: asr.high > 0.2")
    assert (gate.field, gate.value) == (field, value)
    assert (gate.figure, gate.part, gate.threshold) == ("asr", "high", 0.2)


@pytest.mark.parametrize(
    ("text", "character", "says"),
    [
        ("", 1, "there is nothing"),
        ("asr", 4, "expected an operator"),
        ("asr = 0.05", 5, "= is not an operator"),
        ("asr => 0.05", 6, "value of the field"),
        ("asr ≥ 0.05", 5, "expected an operator"),
        ("asr > ", 7, "expected a number"),
        ("asr > 0,05", 8, "a comma"),
        ("asr > 5", 7, "between 0 and 1"),
        ("asr > -5%", 7, "between 0 and 1"),
        ("asr > 1", 7, "can never fail"),
        ("pass_rate < 0", 13, "can never fail"),
        ("asr >= 0%", 8, "can never be passed"),
        ("asr > 0.05 or errors > 0.1", 12, "text after the gate"),
        ("arr > 0.05", 1, "no such figure: arr"),
        ("asr.mid > 0.05", 5, "low or high"),
        ("regression.high > 0.05", 11, "no parts"),
        ("regression < 0.05", 12, "only if it is too large"),
        ("regression > 2", 14, "a margin must be between"),
        ("lang: asr > 0.05", 5, "expected = and a value"),
        ("lang=en asr > 0.05", 9, "expected : after"),
        ("lang=new york: asr > 0.05", 10, "expected : after"),
        ("lang='en: asr > 0.05", 6, "not closed"),
        ("lang=e\u200bn: asr > 0.05", 7, "invisible character"),
        ("“lang”=en: asr > 0.05", 1, "typographic"),
        ("asr > 0.05" + " " * 1_000_000, 1_000_001, "longer than"),
    ],
)
def test_a_bad_expression_points_at_the_character(text: str, character: int, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as caught:
        parse(text)
    message = str(caught.value)
    assert message.startswith(f"the gate cannot be parsed at character {character}: ")
    if len(text) < 50:
        quoted, mark = message.split("\n")[1:3]
        assert quoted[mark.index("^") :].startswith(text[character - 1 : character].replace("\u200b", "\\u200b"))


def test_a_misspelt_figure_gets_a_hint() -> None:
    with pytest.raises(UsageError, match=re.escape("Did you mean guardrail?")):
        parse("guardrails > 0.1")


@given(
    st.sampled_from([figure for figure in FIGURES if figure != "regression"]),
    st.sampled_from(["value", "low", "high"]),
    st.sampled_from([">", ">=", "<", "<="]),
    st.integers(1, 99),
    st.text(min_size=1, max_size=8).filter(lambda text: not set(text) & set("\\\"'")),
)
def test_a_gate_reads_back_as_it_is_written(figure: str, part: str, sign: str, percent: int, value: str) -> None:
    written = f'field="{value}": {figure}.{part} {sign} {percent}%'
    gate = parse(written)
    assert (gate.figure, gate.part, gate.sign, gate.threshold) == (figure, part, sign, percent / 100)
    assert (gate.field, gate.value) == ("field", value)


@given(st.text(alphabet="asr.high<>=% 0.5:'\"\\\x1b", max_size=30))
def test_any_text_is_a_gate_or_an_error_on_purpose(text: str) -> None:
    try:
        gate = parse(text)
    except UsageError as error:
        assert "\x1b" not in str(error)
    else:
        assert 0 <= gate.threshold <= 1


def test_one_gate_has_one_canonical_spelling() -> None:
    spellings = ["lang=en: asr.high > 5%", ' lang = "en" :ASR.high>0.05', "'lang'='en': asr.high > .05"]
    assert {parse(text).canonical for text in spellings} == {'"lang"="en": asr.high > 0.05'}
    assert parse("lang=null: asr > 0.1").canonical != parse('lang="null": asr > 0.1').canonical


# -- rates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("asr > 0.05", "passed"),
        ("asr >= 0.05", "failed"),
        ("asr < 0.05", "passed"),
        ("asr <= 0.05", "failed"),
        ("asr > 0.0499", "failed"),
        ("asr.high > 0.05", "failed"),
        ("asr.high > 0.2", "passed"),
        ("asr.low > 0", "failed"),
        ("asr.low > 0.05", "passed"),
    ],
)
def test_a_gate_on_a_rate_or_its_limit_is_decided(write: Write, text: str, state: str) -> None:
    assert one(text, analysis_with(write, 5, 95)).state == state


def test_the_limits_are_those_of_the_analysis(write: Write) -> None:
    told = analysis_with(write, 7, 93)
    high = told.rates.asr.high
    assert high is not None
    above, below = high - 1e-9, high + 1e-9
    assert one(f"asr.high > {above:.12f}", told).state == "failed"
    assert one(f"asr.high > {below:.12f}", told).state == "passed"


def test_a_point_decides_and_says_when_the_interval_includes_the_threshold(write: Write) -> None:
    near = one("asr > 0.05", analysis_with(write, 4, 96))
    assert near.state == "passed"
    assert "5% is inside the interval, so chance may have decided" in near.reason
    assert f"about {near.more:,} more entries" in near.reason
    far = one("asr > 0.5", analysis_with(write, 4, 96))
    assert (far.state, far.more) == ("passed", None)
    assert "inside the interval" not in far.reason


def test_a_limit_that_lies_beyond_the_rate_says_what_would_help(write: Write) -> None:
    result = one("asr.high > 0.05", analysis_with(write, 2, 98))
    assert result.state == "failed"
    assert "the rate itself is on the other side of 5%" in result.reason
    assert f"about {result.more:,} more entries at this rate" in result.reason


def test_a_figure_is_shown_with_enough_digits_to_tell_it_from_the_threshold(write: Write) -> None:
    told = with_rate(analysis_with(write, 1, 19), value=0.0500001)
    assert "is 5.00001%" in one("asr > 0.05", told).reason


@pytest.mark.parametrize(
    "text", ["errors > 0.1", "errors >= 10%", "errors.high > 0.1", "unjudged > 0", "guardrail > 0"]
)
def test_shares_are_of_all_entries(write: Write, text: str) -> None:
    result = one(text, analysis_with(write, 5, 85, errors=10))
    failed = text in ("errors >= 10%", "errors.high > 0.1")
    # An error might have been a block.
    assert result.state == ("failed" if failed else "inconclusive" if text == "guardrail > 0" else "passed")
    errors = 10 if text.startswith("errors") else 0
    assert result.estimate == stats.wilson(errors, 100, unit="entry")


def test_a_gate_may_be_about_a_group(write: Write) -> None:
    rows = [standard(n, success=n < 20, jailbreak_type="dan mode" if n < 40 else "dev") for n in range(100)]
    rows += [standard(f"n{n}", success=False) for n in range(10)]
    told = analysis_of(write(rows))
    assert one("jailbreak_type='dan mode': asr > 0.49", told).estimate.value == 0.5
    assert one("jailbreak_type='dan mode': asr > 0.49", told).state == "failed"
    assert one("jailbreak_type=dev: asr > 0", told).state == "passed"
    assert one("jailbreak_type=dev: errors.high > 0.1", told).estimate.n == 60
    assert one("jailbreak_type=null: asr > 0", told).estimate.n == 10


def test_a_value_that_is_not_there_is_an_error_that_lists_the_values(write: Write) -> None:
    told = analysis_with(write, 5, 5, jailbreak_type="dan", lang="e\x1bn")
    with pytest.raises(UsageError, match=r"jailbreak_type has no value dam; available: dan"):
        one("jailbreak_type=dam: asr > 0.2", told)
    with pytest.raises(UsageError, match=r"lang has no value xx; available: e\\x1bn"):
        one("lang=xx: asr > 0.2", told)
    with pytest.raises(UsageError, match=r"no breakdown by jailbrake; available: .*jailbreak_type"):
        one("jailbrake=dan: asr > 0.2", told)


def test_asr_is_for_attacks_and_pass_rate_for_tasks(write: Write) -> None:
    attacks = analysis_with(write, 5, 95)
    with pytest.raises(UsageError, match="results of attacks, which should not succeed: their figure is asr"):
        one("pass_rate < 0.9", attacks)
    tasks = as_tasks(analysis_with(write, 89, 11))
    assert one("pass_rate < 0.9", tasks).state == "failed"
    assert one("pass_rate.low < 0.8", tasks).state == "passed"
    with pytest.raises(UsageError, match="results of tasks, which should succeed: their figure is pass_rate"):
        one("asr > 0.05", tasks)


@pytest.mark.parametrize(
    "text", ["asr > 0.05", "asr < 0.05", "asr.high > 0.05", "asr.low > 0", "errors > 0.1", "lang=en: asr > 0.1"]
)
def test_without_entries_no_gate_is_met(write: Write, text: str) -> None:
    assert one(text, analysis_with(write, 0, 0)).state == "inconclusive"


def test_without_entries_it_is_said_how_many_would_show_something(write: Write) -> None:
    result = one("asr.high > 0.05", analysis_with(write, 0, 0))
    assert result.more == 59  # the rule of three: 0.95^59 < 0.05
    assert "there are no entries; at least 59 entries" in result.reason


@pytest.mark.parametrize(
    ("text", "entries"),
    [("asr > 5%", 59), ("asr >= 5%", 59), ("asr < 95%", 59), ("asr <= 95%", 59), ("asr >= 20%", 14), ("asr <= 20%", 2)],
)
def test_entries_on_the_good_side_that_would_show_something_are_those_of_the_binomial(
    write: Write, text: str, entries: int
) -> None:
    result = one(text, analysis_with(write, 0, 0))
    distance = result.gate.threshold if ">" in text else 1 - result.gate.threshold
    # With so many, none on the bad side, the chance of that is at most 5%; with one fewer it is more.
    assert binom.pmf(0, entries, distance) <= 0.05 < binom.pmf(0, entries - 1, distance)
    assert result.more == entries


def test_a_rate_without_an_interval_leaves_its_limits_open(write: Write) -> None:
    told = with_rate(analysis_with(write, 5, 5), low=None, high=None)
    assert one("asr.high > 0.9", told).state == "inconclusive"
    assert one("asr > 0.4", told).state == "failed"


def test_a_gate_is_judged_on_every_analysis(write: Write) -> None:
    told = [analysis_with(write, 5, 95, name="a.jsonl"), analysis_with(write, 50, 50, name="b.jsonl")]
    results = judge([parse("asr > 0.1"), parse("errors > 0")], subjects_of(told))
    assert [result.state for result in results] == ["passed", "failed", "passed", "passed"]
    assert results[1].subject.name.endswith("b.jsonl")


# -- regressions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "margin", "upper", "state"),
    [  # the examples of the specification, whose figures another program made: both, only new, only old, neither
        ((20, 4, 6, 170), 0.05, 0.017978, "passed"),
        ((20, 14, 6, 160), 0.05, 0.079848, "inconclusive"),
        ((5, 2, 2, 91), 0.05, 0.041472, "passed"),
        ((0, 0, 0, 100), 0.05, 0.026343, "passed"),
        ((0, 0, 0, 30), 0.05, 0.082724, "inconclusive"),
        ((40, 12, 10, 138), 0.1, 0.050656, "passed"),
    ],
)
def test_a_regression_is_a_test_of_non_inferiority(
    table: tuple[int, int, int, int], margin: float, upper: float, state: str
) -> None:
    both, only_new, only_old, neither = table
    told = comparison_with(cells(both, only_old, only_new, neither))
    result = one(f"regression > {margin}", comparison=told)
    assert result.state == state
    assert result.estimate.high == pytest.approx(upper, abs=1e-6)


def test_a_regression_beyond_the_margin_fails() -> None:
    result = one("regression > 0.05", comparison=comparison_with(cells(20, 5, 60, 115)))
    assert result.state == "failed"
    assert result.estimate == stats.non_inferiority_paired(60, 5, 200, 0.05).difference


def test_worse_is_a_higher_success_rate_or_a_lower_pass_rate() -> None:
    figures = cells(100, 5, 60, 100)
    assert one("regression > 0.05", comparison=comparison_with(figures)).state == "failed"
    better = one("regression > 0.05", comparison=comparison_with(figures, aim="task"))
    assert better.state == "passed"
    assert better.estimate.value == pytest.approx(-55 / 265)
    worse = one("regression > 0.05", comparison=comparison_with(cells(100, 60, 5, 100), aim="task"))
    assert worse.state == "failed"
    assert "pass rate from 60.4% to 39.6%, a change for the worse of +20.75 points" in worse.reason


@pytest.mark.parametrize(
    ("old", "new", "state"),
    [((26, 200), (24, 200), "passed"), ((26, 200), (34, 200), "inconclusive"), ((26, 200), (80, 200), "failed")],
)
@pytest.mark.parametrize("aim", ["attack", "task"])
def test_runs_on_different_entries_are_tested_unpaired(
    old: tuple[int, int], new: tuple[int, int], state: str, aim: str
) -> None:
    if aim == "task":
        old, new = (old[1] - old[0], old[1]), (new[1] - new[0], new[1])
    told = comparison_with(unpaired_cells(*old, *new), aim=aim)
    result = one("regression > 0.05", comparison=told)
    assert result.state == state
    assert "unpaired" in result.reason
    if state == "inconclusive":
        assert result.reason.endswith("would decide, of each run")


def test_an_interval_of_families_decides_where_there_is_one() -> None:
    figures = cells(20, 6, 4, 170)
    figures = replace(figures, difference=families_difference(-0.01, -0.15, 0.13, 200))
    result = one("regression > 0.05", comparison=comparison_with(figures))
    assert result.state == "inconclusive"  # entries taken as independent would have passed it
    scale = norm.ppf(0.95) / norm.ppf(0.975)
    assert result.estimate.high == pytest.approx(-0.01 + scale * 0.14)
    figures = replace(figures, difference=families_difference(0.3, 0.2, 0.4, 200))
    assert one("regression > 0.05", comparison=comparison_with(figures)).state == "failed"
    figures = replace(figures, difference=families_difference(-0.3, -0.4, -0.2, 200))
    assert one("regression > 0.05", comparison=comparison_with(figures)).state == "passed"
    assert one("regression > 0.05", comparison=comparison_with(figures, aim="task")).state == "failed"


@pytest.mark.parametrize("degrees", [2, 4, 9])
def test_few_families_have_students_one_sided_limits(degrees: int) -> None:
    figures = replace(cells(20, 6, 4, 170), degrees=float(degrees))
    figures = replace(figures, difference=families_difference(-0.01, -0.15, 0.13, 200))
    found = one("regression > 0.05", comparison=comparison_with(figures)).estimate
    scale = student.ppf(0.95, degrees) / student.ppf(0.975, degrees)
    assert (found.low, found.high) == pytest.approx((-0.01 - scale * 0.14, -0.01 + scale * 0.14))


def test_a_regression_of_few_families_is_judged_by_students_limits(write: Write) -> None:
    rng = random.Random(5)
    rows = [standard(n, long_id=f"case-{n % 4}", success=rng.random() < 0.3) for n in range(80)]
    worse = [row | {"success": row["success"] or (n % 4 < 2 and rng.random() < 0.3)} for n, row in enumerate(rows)]
    told = compare_files([write(rows, "old.jsonl"), write(worse, "new.jsonl")])
    (pair,) = told.pairs
    assert (pair.families, pair.degrees) == (4, 3)
    found = one("regression > 0.02", comparison=told).estimate
    scale = student.ppf(0.95, 3) / student.ppf(0.975, 3)
    value, low, high = (known(limit) for limit in (pair.difference.value, pair.difference.low, pair.difference.high))
    assert (found.low, found.high) == pytest.approx((value + scale * (low - value), value + scale * (high - value)))


@pytest.mark.parametrize("figures", [cells(0, 0, 0, 0), unpaired_cells(0, 0, 0, 0), unpaired_cells(1, 5, 0, 0)])
def test_nothing_to_compare_is_inconclusive(figures: compared.Figures) -> None:
    assert one("regression > 0.05", comparison=comparison_with(figures)).state == "inconclusive"


def test_an_open_regression_says_that_worse_is_shown_where_it_is() -> None:
    result = one("regression > 0.05", comparison=comparison_with(cells(20, 6, 22, 352)))
    assert result.state == "inconclusive"
    assert "shown to be worse, but not by how much" in result.reason


def test_a_regression_may_be_about_a_group() -> None:
    by = {"lang": {"en": cells(20, 60, 5, 115), "de": cells(20, 5, 60, 115)}}
    told = comparison_with(cells(40, 65, 65, 230), by=by)
    assert one("lang=de: regression > 0.05", comparison=told).state == "failed"
    assert one("lang=en: regression > 0.05", comparison=told).state == "passed"
    with pytest.raises(UsageError, match="available: en, de"):
        one("lang=fr: regression > 0.05", comparison=told)


def test_rates_of_a_comparison_are_those_of_the_new_run() -> None:
    told = comparison_with(cells(10, 50, 0, 40), by={"lang": {"en": cells(5, 0, 0, 5)}})
    assert one("asr > 0.1", comparison=told).estimate.value == 0.1
    assert one("lang=en: asr > 0.1", comparison=told).estimate.value == 0.5
    with pytest.raises(UsageError, match="a comparison does not count errors of this"):
        one("lang=en: errors > 0.1", comparison=told)


def answers(wins: set[int], errors: set[int]) -> list[dict[str, Any]]:
    """Return 300 entries, with those that succeeded and those that ended in an error."""
    return [standard(n, success=n in wins, error="time-out" if n in errors else None, lang="en") for n in range(300)]


def test_a_comparison_of_files_is_understood(write: Write) -> None:
    old = write(answers(set(range(60)), set()), "old.jsonl")
    new = write(answers(set(range(20, 170)), set(range(290, 300))), "new.jsonl")
    told = compare_files([old, new], CompareOptions(by=("lang",)))
    result = one("regression > 0.1", comparison=told)
    assert (result.state, result.subject.name, result.subject.against) == ("failed", new, old)
    # It fails even if all ten errors had been failures.
    assert result.estimate.value == pytest.approx((110 - 20) / 300)
    assert result.estimate == replace(
        stats.non_inferiority_paired(110, 20, 300, 0.1).difference, unit=result.estimate.unit
    )
    (result,) = judge([parse("regression > 0.1")], subjects_of((), told), ignore_errors=True)
    assert result.estimate.value == pytest.approx((110 - 20) / 290)
    assert one("lang=en: regression > 0.1", comparison=told).state == "failed"
    assert one("errors > 0.03", comparison=told).estimate == stats.wilson(10, 300)
    assert one("errors > 0.04", comparison=told).state == "passed"
    back = compare_files([new, old])
    assert one("regression > 0.1", comparison=back).state == "passed"


# -- errors and unjudged entries --------------------------------------------------------------------------------


def decided_by(text: str, told: Analysis | compared.Comparison) -> list[str]:
    """Return the states of a gate by bounds, and with errors ignored."""
    subjects = subjects_of([told]) if isinstance(told, Analysis) else subjects_of((), told)
    return [judge([parse(text)], subjects, ignore_errors=ignored)[0].state for ignored in (False, True)]


@pytest.mark.parametrize("text", ["asr.high > 10%", "asr > 10%", "lang=en: asr.high > 10%"])
def test_lines_that_cannot_be_read_are_among_what_is_unknown(write: Write, cli: Cli, text: str) -> None:
    path = Path(write([standard(n, success=False, lang="en") for n in range(100)]))
    good = path.read_text(encoding="utf-8")
    path.write_text(good + "{broken\n" * 3, encoding="utf-8")
    # At most 3 of 103 entries succeeded: the upper limit of none in 100 is 3.7%, and 6.5% with these.
    passed = cli("results", "analyze", str(path), "--fail-on", text)
    assert passed.code == 0, passed.err
    path.write_text(good + "{broken\n" * 20, encoding="utf-8")
    open_ = cli("results", "analyze", str(path), "--fail-on", text)
    assert open_.code == 1
    assert "inconclusive" in open_.err and "20 lines could not be read: the " in open_.err
    assert cli("results", "analyze", str(path), "--fail-on", text, "--errors", "ignore").code == 0
    failed = cli("results", "analyze", str(path), "--fail-on", text.replace("10%", "2%").replace("asr >", "asr <="))
    assert failed.code == 1


def test_a_regression_is_not_passed_over_lines_that_cannot_be_read(write: Write, cli: Cli) -> None:
    old = write([standard(n, success=n < 20) for n in range(300)], "old.jsonl")
    new = Path(write([standard(n, success=n < 20) for n in range(280)], "new.jsonl"))
    gate = ("--fail-on", "regression > 3%")
    assert cli("results", "compare", old, str(new), *gate).code == 0
    with new.open("a", encoding="utf-8") as file:
        file.write("{broken\n" * 20)
    ran = cli("results", "compare", old, str(new), *gate)
    assert ran.code == 1 and "20 lines could not be read" in ran.err
    assert cli("results", "compare", old, str(new), *gate, "--errors", "ignore").code == 0


@pytest.mark.parametrize("text", ["asr.high > 5%", "asr > 5%", "lang=en: asr.high > 5%", "asr < 50%"])
def test_nothing_but_errors_passes_no_gate(write: Write, text: str) -> None:
    errors = analysis_of(write([standard(n, error="down", lang="en") for n in range(400)]))
    unjudged = analysis_of(write([standard(n, success=None, lang="en") for n in range(300)], "u.jsonl"))
    for told in (errors, unjudged):
        assert decided_by(text, told) == ["inconclusive", "failed" if "<" in text else "passed"]


def test_the_sentence_says_what_both_extremes_would_be(write: Write) -> None:
    result = one("asr.high > 5%", analysis_with(write, 0, 390, errors=10))
    highest = stats.wilson(10, 400).high
    assert highest is not None and result.state == "passed"  # 10 of 400 are at most 4.6%
    assert result.reason.endswith("; 10 errors or unjudged entries cannot change this")
    result = one("asr.high > 3%", analysis_with(write, 0, 390, errors=10, name="again.jsonl"))
    assert result.state == "inconclusive"
    assert result.reason == (
        "10 of 400 entries ended in an error or were not judged: the upper limit of the success rate is 1.0% if "
        f"all of them had failed, {100 * highest:.1f}% if all had succeeded, and the threshold is 3%; run them again, "
        "or use --errors ignore"
    )


def test_shares_of_errors_and_unjudged_entries_are_known(write: Write) -> None:
    told = analysis_with(write, 0, 50, errors=50)
    assert decided_by("errors > 60%", told) == ["passed", "passed"]
    assert decided_by("unjudged > 0", told) == ["passed", "passed"]
    assert decided_by("guardrail < 10%", told) == ["inconclusive", "failed"]


@given(
    st.integers(0, 12),
    st.integers(0, 12),
    st.integers(0, 8),
    st.sampled_from(["asr", "asr.low", "asr.high"]),
    st.sampled_from(["> 5%", "> 30%", ">= 50%", "< 20%"]),
)
def test_a_gate_is_decided_if_and_only_if_all_that_errors_may_have_been_decide_it_alike(
    successes: int, failures: int, errors: int, figure: str, condition: str
) -> None:
    assume(successes + failures + errors)
    text, n = f"{figure} {condition}", successes + failures + errors
    rate, most = stats.wilson(successes, n), stats.wilson(successes + errors, n)
    told = Analysis(
        name="x",
        definition="faircount",
        where=None,
        level=0.95,
        sources=(),
        tally=Tally(n, successes, failures, errors),
        attempts=n,
        rates=Rates(rate, rate, rate, most, rate),
        shares=Shares(rate, rate, rate),
        families=Families("auto", None, False, ""),
        findings=(),
    )
    every = set()
    for would_have_won in range(errors + 1):
        rate = stats.wilson(successes + would_have_won, n)
        value = {"asr": rate.value, "asr.low": rate.low, "asr.high": rate.high}[figure]
        assert value is not None
        every.add("failed" if parse(text).holds(value) else "passed")
    assert one(text, told).state == (every.pop() if len(every) == 1 else "inconclusive")


def test_a_regression_is_not_passed_because_every_success_became_an_error(write: Write) -> None:
    old = write(answers(set(range(60)), set()), "old.jsonl")
    new = write(answers(set(), set(range(60))), "new.jsonl")
    told = compare_files([old, new], CompareOptions(by=("lang",)))
    bounds = told.pairs[0].bounds
    assert bounds is not None
    # Had all 60 failed, 60 entries would be fixed; had all succeeded again, nothing would have changed.
    assert [bounds.lowest.difference.value, bounds.highest.difference.value] == pytest.approx([-0.2, 0.0])
    # At worst the rate is what it was, which is no regression: the sentence says so, and not "from 0% to 0%".
    for text in ("regression > 2%", "lang=en: regression > 2%"):
        result = one(text, comparison=told)
        assert (result.state, result.estimate.n) == ("passed", 300)
        assert result.reason.startswith("success rate from 20.0% to 20.0%, a change for the worse of 0.00 points")
        assert result.reason.endswith("60 pairs have an error or no verdict, taken for the worst")
    # 0.9 points is what 300 pairs without a flip cannot rule out.
    assert decided_by("regression > 0.5%", told) == ["inconclusive", "inconclusive"]
    assert decided_by("asr.high > 5%", told) == ["inconclusive", "passed"]


def test_a_regression_is_open_where_failures_of_the_baseline_became_errors(write: Write) -> None:
    old = write(answers(set(range(60)), set()), "old.jsonl")
    new = write(answers(set(range(60)), set(range(60, 90))), "new.jsonl")
    told = compare_files([old, new], CompareOptions(by=("lang",)))
    for text in ("regression > 2%", "lang=en: regression > 2%"):
        assert decided_by(text, told) == ["inconclusive", "passed"]
        assert one(text, comparison=told).reason == (
            "30 pairs have an error or no verdict: the change for the worse is 0.00 points if all "
            "had ended for the best (passed) and +10.00 points if all had ended for the worst (failed); run these "
            "again, or leave them out with --errors ignore"
        )


def test_errors_on_either_side_of_a_pair_count_for_the_worst(write: Write) -> None:
    old = write(answers(set(range(30)), set(range(30, 40))), "old.jsonl")
    new = write(answers(set(range(30)), set(range(40, 45))), "new.jsonl")
    bounds = compare_files([old, new]).pairs[0].bounds
    assert bounds is not None
    found = [(side.both, side.only_a, side.only_b, side.neither) for side in (bounds.lowest, bounds.highest)]
    assert found == [(30, 10, 0, 260), (30, 0, 5, 265)]


def test_errors_in_files_that_share_no_entry_count_for_the_worst(write: Write) -> None:
    old = write([standard(f"a{n}", success=n < 20) for n in range(200)], "old.jsonl")
    new = write([standard(f"b{n}", error="down" if n < 40 else None) for n in range(200)], "new.jsonl")
    told = compare_files([old, new])
    bounds = told.pairs[0].bounds
    assert bounds is not None
    assert [bounds.lowest.difference.value, bounds.highest.difference.value] == pytest.approx([-0.1, 0.1])
    assert decided_by("regression > 2%", told) == ["inconclusive", "passed"]


def test_files_that_share_no_entry_are_compared_unpaired(write: Write) -> None:
    old = write([standard(f"a{n}", success=n < 20) for n in range(200)], "old.jsonl")
    new = write([standard(f"b{n}", success=n < 90) for n in range(200)], "new.jsonl")
    result = one("regression > 0.1", comparison=compare_files([old, new]))
    assert (result.state, "entries of both runs, unpaired" in result.reason) == ("failed", True)
    assert result.estimate == stats.non_inferiority_unpaired(90, 200, 20, 200, 0.1).difference


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 8)), min_size=8, max_size=40),
    st.sampled_from([0.9, 0.95]),
)
def test_limits_of_families_are_about_those_of_their_own_level(
    families: list[tuple[int, int, int]], level: float
) -> None:
    worse, better = [f[0] for f in families], [f[1] for f in families]
    sizes = [sum(f) for f in families]
    two_sided = stats.cluster_tango(worse, better, sizes, level=level)
    one_sided = stats.cluster_tango(worse, better, sizes, level=2 * level - 1).estimate
    assume(two_sided.effective_n is not None and two_sided.effective_n > 30)
    figures = replace(
        cells(0, sum(better), sum(worse), sum(sizes) - sum(better) - sum(worse)),
        difference=two_sided.estimate,
        families=two_sided.families,
        degrees=two_sided.degrees,
    )
    found = one("regression > 0.05", comparison=comparison_with(figures)).estimate
    assert one_sided.low is not None and one_sided.high is not None
    allowed = 0.05 * (one_sided.high - one_sided.low)
    assert found.low == pytest.approx(one_sided.low, abs=allowed)
    assert found.high == pytest.approx(one_sided.high, abs=allowed)


def test_only_runs_beside_the_baseline_are_judged() -> None:
    told = comparison_with(cells(20, 4, 6, 170))
    third = replace(told.files[1], path="third.jsonl")
    pairs = told.pairs[0], replace(told.pairs[0], b="third.jsonl"), replace(told.pairs[0], a="new.jsonl")
    told = replace(told, files=(*told.files, third), pairs=pairs)
    names = [result.subject.name for result in judge([parse("regression > 0.05")], subjects_of((), told))]
    assert names == ["new.jsonl", "third.jsonl"]


def test_a_regression_needs_a_baseline(write: Write) -> None:
    with pytest.raises(UsageError, match="--baseline FILE"):
        one("regression > 0.02", analysis_with(write, 1, 1))


def test_the_level_is_that_of_the_comparison() -> None:
    figures = cells(20, 4, 6, 170, level=0.999)
    result = one("regression > 0.05", comparison=comparison_with(figures))
    assert result.state == "inconclusive"
    assert "one-sided limits at 99.9%" in result.reason


# -- how many more ----------------------------------------------------------------------------------------------


@given(st.integers(1, 400), st.integers(0, 400), st.integers(1, 99))
def test_as_many_more_entries_tell_a_rate_from_a_threshold(n: int, k: int, percent: int) -> None:
    k, threshold = min(k, n), percent / 100
    estimate = stats.wilson(k, n)
    more = stats.more_entries(estimate, threshold)
    if more is None:
        assert abs(k / n - threshold) < 1e-3
        return
    found = stats.wilson(round(k / n * (n + more)), n + more)
    assert found.low is not None and found.high is not None
    assert not found.low <= threshold <= found.high


def test_where_families_limit_it_more_families_are_asked_for(write: Write) -> None:
    known = {"document_id": "d", "position": "end", "instruction_type": "x", "success": False}
    rows = [
        standard(n, long_id=f"document_d_j-{n % 8}_x-{n // 8}_end", jailbreak_type=f"j-{n % 8}", **known)
        for n in range(200)
    ]
    result = one("asr.high > 5%", analysis_of(write(rows)))
    assert result.state == "failed" and result.more is not None
    assert f"about {result.more:,} more families at this rate would bring the limit there, too" in result.reason
    # As many more families of the same size, without a success, do bring it there, and half of them do not.
    for more, enough in ((result.more, True), (result.more // 2, False)):
        high = stats.cluster_wilson([0] * (25 + more), [8] * (25 + more)).estimate.high
        assert (high is not None and high <= 0.05) is enough


@pytest.mark.parametrize(
    ("won", "threshold"),
    [([8, 0, 0, 4, 0, 1, 0, 6] * 2, 0.35), ([1, 2, 1, 0, 2, 1, 1, 0] * 2, 0.14), ([3, 1, 2, 0], 0.35)],
)
def test_so_many_families_are_needed_as_differ_as_these_do(won: list[int], threshold: float) -> None:
    sizes = [8] * len(won)
    found = stats.cluster_wilson(won, sizes)
    assert found.design_effect is not None
    more = stats.more_families(found.estimate, threshold, GroupFamilies(len(won), found.design_effect))
    assert more is not None
    # The same mixture of families, in whole and in part: enough of it decides, and two thirds of that do not.
    for families, enough in ((len(won) + more, True), (2 * (len(won) + more) // 3, False)):
        times = families / len(won)
        grown = stats.cluster_wilson(won * math.ceil(times), sizes * math.ceil(times)).estimate
        low, high = grown.low, grown.high
        assert low is not None and high is not None
        assert enough is not (low <= threshold <= high), (families, low, high)


def test_families_cost_entries() -> None:
    estimate = stats.wilson(30, 600)
    plain = stats.more_entries(estimate, 0.06)
    dear = stats.more_entries(estimate, 0.06, design_effect=4.0)
    assert plain is not None and dear is not None
    assert (dear + 600) / (plain + 600) == pytest.approx(4, rel=0.1)


def test_no_number_of_entries_tells_equal_things_apart() -> None:
    assert stats.more_entries(stats.wilson(5, 100), 0.05) is None
    assert stats.more_entries(Estimate(None, None, None, 0, "entry", 0.95, "wilson"), 0.05) is None
    assert stats.more_pairs(7, 5, 100, 0.02, 0.05) is None
    assert stats.more_to_narrow(by_limits(0.02, 0.1, 100, 0.02), 0.05) is None
    assert stats.more_to_narrow(by_limits(0.02, None, 100, 0.05), 0.05) is None


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 300), st.sampled_from([0.01, 0.02, 0.05, 0.1]))
def test_as_many_more_pairs_decide_a_regression(worse: int, better: int, others: int, margin: float) -> None:
    n = worse + better + others
    more = stats.more_pairs(worse, better, n, margin, 0.05)
    if not n or more is None:
        return
    entries = n + more
    new = round(worse * entries / n)
    old = min(round(better * entries / n), entries - new)
    assert stats.non_inferiority_paired(new, old, entries, margin).verdict != "not_shown"


@pytest.mark.parametrize(
    "counts", [((20, 200), (20, 200)), ((0, 50), (0, 50)), ((50, 50), (50, 50)), ((90, 200), (20, 200))]
)
def test_as_many_more_entries_of_each_run_decide_a_regression(counts: tuple[tuple[int, int], tuple[int, int]]) -> None:
    new, old = counts
    more = stats.more_entries_of_each(new, old, 0.04, 0.05)
    assert more is not None
    n = min(new[1], old[1]) + more
    new_k, old_k = round(new[0] / new[1] * n), round(old[0] / old[1] * n)
    assert stats.non_inferiority_unpaired(new_k, n, old_k, n, 0.04).verdict != "not_shown"


def test_the_number_is_that_of_the_planning_formula() -> None:
    more = stats.more_pairs(30, 30, 400, 0.02, 0.05)
    planned = (norm.ppf(0.95) + norm.ppf(0.8)) ** 2 * 0.15 / 0.02**2
    assert more == pytest.approx(planned - 400, abs=1)


def by_limits(value: float, reach: float | None, n: int, margin: float) -> stats.NonInferiority:
    low, high = (None, None) if reach is None else (value - reach, value + reach)
    difference = Estimate(value, low, high, n, "pair", 0.9, "families")
    return stats.NonInferiority(difference, margin, None, None, "not_shown")


def test_an_interval_narrows_with_the_root_of_the_entries() -> None:
    more = stats.more_to_narrow(by_limits(0.01, 0.04, 500, 0.03), 0.05)
    factor = (norm.ppf(0.95) + norm.ppf(0.8)) / norm.ppf(0.95)
    assert more == pytest.approx(500 * (2 * factor) ** 2 - 500, abs=1)


@pytest.mark.parametrize("degrees", [None, 7.0])
def test_one_sided_limits_lie_where_their_critical_value_puts_them(degrees: float | None) -> None:
    two_sided, one_sided = (
        float(norm.ppf(1 - tail) if degrees is None else student.ppf(1 - tail, degrees)) for tail in (0.025, 0.05)
    )
    error = 0.02
    difference = Estimate(0.01, 0.01 - two_sided * error, 0.01 + two_sided * error, 300, "pair", 0.95, "families")
    found = stats.non_inferiority_by_limits(difference, 0.05, degrees=degrees)
    assert (found.difference.low, found.difference.high) == pytest.approx(
        (0.01 - one_sided * error, 0.01 + one_sided * error)
    )
    assert (found.difference.level, found.z, found.p) == (0.9, None, None)
    assert found.verdict == ("non_inferior" if 0.01 + one_sided * error < 0.05 else "not_shown")
    assert stats.non_inferiority_by_limits(replace(difference, low=None, high=None), 0.05).verdict == "not_shown"


def test_bounds_take_other_entries_as_all_of_one_kind() -> None:
    rate = stats.wilson(20, 80)
    none, every = stats.with_others(rate, 0, 100), stats.with_others(rate, 20, 100)
    assert (none.value, every.value, none.n, every.n) == (0.2, 0.4, 100, 100)
    assert (none.low, every.high) == pytest.approx(((rate.low or 0) * 0.8, (rate.high or 0) * 0.8 + 0.2))
    assert stats.with_others(stats.wilson(0, 0), 3, 3).value is None


# -- how often it decides rightly -------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_page_records_how_often_the_gate_decides_rightly() -> None:
    assert recorded() == [TITLES, ("---:",) * len(TITLES), *rows()]


def test_the_page_has_every_row() -> None:
    shown = [row[:2] for row in recorded()[2:]]
    assert shown == [(f"{n:,}", f"{100 * discordant:g}%") for n in ENTRIES for discordant in DISCORDANT]


@pytest.mark.parametrize("worsening", [0.0, WORSE])
def test_drawn_runs_fare_as_the_page_says(worsening: float) -> None:
    n, discordant, draws = 200, 0.1, 4_000
    expected = shares(n, discordant, worsening)
    worse, better = (discordant + worsening) / 2, (discordant - worsening) / 2
    tables = np.random.default_rng(7).multinomial(n, [worse, better, 1 - discordant], draws)
    drawn = Counter(verdict(int(table[0]), int(table[1]), n) for table in tables)
    for state in ("passed", "inconclusive", "failed"):
        share = getattr(expected, state)
        assert drawn[state] / draws == pytest.approx(share, abs=4 * (share * (1 - share) / draws) ** 0.5 + 0.001)
    blocks = float(np.mean(tables[:, 0] > tables[:, 1]))
    assert blocks == pytest.approx(expected.naive_blocks, abs=0.04)


def test_the_gate_is_met_by_no_more_than_the_promised_share_of_runs_at_the_margin() -> None:
    assert shares(1_000, 0.1, 0.02).passed == pytest.approx(0.05, abs=0.01)
    assert shares(1_000, 0.1, WORSE).passed < 0.001
