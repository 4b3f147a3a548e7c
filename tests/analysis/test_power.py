"""`results power`: numbers that agree with statsmodels and with formulas worked by hand, and words that can be used."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, fisher_exact

from faircount.analysis import PowerOptions, PowerQuestion, ask
from faircount.app.cli import main
from faircount.core import UsageError
from faircount.stats import power_paired
from tests.conftest import Cli, some
from tests.oracles import oracle

normal_sample_size_one_tail = oracle("statsmodels.stats.power").normal_sample_size_one_tail
proportion_confint = oracle("statsmodels.stats.proportion").proportion_confint
samplesize_proportions_2indep_onetail = oracle("statsmodels.stats.proportion").samplesize_proportions_2indep_onetail

SCHEMA = json.loads(resources.files("faircount.report").joinpath("schemas", "power-1.json").read_text("utf-8"))
FAMILIES = ("--families", "4", "--icc", "0.3")
ASKED: list[list[str]] = [
    ["--half-width", "0.05"],
    ["--half-width", "0.05", "--rate", "0.2", "--families", "10", "--icc", "0.3"],
    ["--zero-hits", "0.01"],
    ["--difference", "0.1", "--rate", "0.2"],
    ["--difference", "-0.1", "--rate", "0.2", "--power", "0.9", "--level", "0.99"],
    ["--difference", "0.1", "--paired", "--discordant", "0.3"],
    ["--half-width", "0.05", "--zero-hits", "0.01", "--difference", "0.1", "--rate", "0.2"],
    ["--entries", "300"],
    ["--entries", "300", "--rate", "0.2", "--families", "5", "--icc", "0.5"],
    ["--entries", "300", "--discordant", "0.3"],
    ["--entries", "1"],
    ["--entries", "3", "--discordant", "0.1"],
    ["--entries", "1000000000000", "--rate", "0.000001"],
    ["--half-width", "0.000001", "--zero-hits", "0.000001"],
    ["--difference", "0.5", "--level", "0.999999", "--power", "0.999999"],
]


def only(**options: Any) -> PowerQuestion:
    (question,) = ask(PowerOptions(**options)).questions
    return question


def document(cli: Cli, *words: str) -> dict[str, Any]:
    ran = cli("results", "power", *words, "--output-format", "json")
    assert ran.code == 0, ran.err
    read: dict[str, Any] = json.loads(ran.out)
    return read


# -- numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("half_width", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_as_few_entries_as_give_wilsons_interval_that_width(rate: float, half_width: float, level: float) -> None:
    def half(n: int) -> float:
        low, high = proportion_confint(rate * n, n, alpha=1 - level, method="wilson")
        return float(high - low) / 2

    (point,) = only(rate=rate, half_width=half_width, level=level).answers
    assert half(point.entries) <= half_width + 1e-9 < half(point.entries - 1) + 2e-9


def test_the_interval_of_a_number_of_entries_is_wilsons() -> None:
    interval, *_ = ask(PowerOptions(entries=300, rate=0.2)).questions
    (point,) = interval.answers
    assert (point.low, point.high) == pytest.approx(proportion_confint(60, 300, method="wilson"))
    assert point.half_width == pytest.approx(((point.high or 0) - (point.low or 0)) / 2)


@pytest.mark.parametrize(("rate", "difference"), [(0.2, 0.1), (0.2, -0.1), (0.5, 0.05), (0.05, 0.2), (0.9, 0.1)])
@pytest.mark.parametrize(("level", "power"), [(0.95, 0.8), (0.99, 0.9), (0.9, 0.5)])
def test_entries_of_each_target_agree_with_statsmodels(
    rate: float, difference: float, level: float, power: float
) -> None:
    (point,) = only(rate=rate, difference=difference, level=level, power=power).answers
    # statsmodels subtracts its arguments the other way round; alpha is halved for two sides.
    theirs = samplesize_proportions_2indep_onetail(
        difference, rate, power, ratio=1, alpha=(1 - level) / 2, value=0, alternative="larger"
    )
    # The exact test needs as many more as its continuity correction takes (Fleiss, Tytun and Ury 1980).
    exact = theirs / 4 * (1 + math.sqrt(1 + 4 / (theirs * abs(difference)))) ** 2
    assert point.entries == math.ceil(exact - 1e-6)


@pytest.mark.parametrize(("discordant", "difference"), [(0.3, 0.1), (0.3, -0.1), (0.2, 0.2), (1.0, 0.25)])
def test_as_few_entries_put_to_both_targets_as_the_exact_test_needs(discordant: float, difference: float) -> None:
    def power(n: int) -> float:
        flips = np.arange(n + 1)
        worst = binom.ppf(0.025, flips, 0.5)
        worst -= 2 * binom.cdf(worst, flips, 0.5) >= 0.05
        finds = binom.cdf(worst, flips, (discordant - abs(difference)) / 2 / discordant)
        return float((binom.pmf(flips, n, discordant) * finds).sum())

    (point,) = only(discordant=discordant, difference=difference).answers
    assert power(point.entries) >= 0.8 > power(point.entries - 1)
    assert power_paired(point.entries, abs(difference), discordant) == pytest.approx(power(point.entries), abs=1e-6)
    theirs = normal_sample_size_one_tail(
        abs(difference),
        0.8,
        0.025,
        std_null=math.sqrt(discordant),
        std_alternative=math.sqrt(discordant - difference**2),
    )
    assert theirs < point.entries < 1.2 * theirs + 10, "the z test promises more than the exact test keeps"


def test_the_rule_of_three() -> None:
    assert only(zero_hits=0.01).answers[0].entries == 299  # 0.99^299 = 0.0495, 0.99^298 = 0.0500359
    shown = ask(PowerOptions(entries=299)).questions[1].answers[0].upper_limit
    assert shown == pytest.approx(1 - 0.05 ** (1 / 299))


def test_families_cost_the_design_effect() -> None:
    alone, together = only(zero_hits=0.01), only(zero_hits=0.01, families=11, icc=0.1)
    assert alone.families is None
    assert together.families is not None
    assert together.families.design_effect == 2
    assert together.answers[0].entries == math.ceil(2 * math.log(0.05) / math.log(0.99)) == 597
    assert together.answers[0].worth == 298.5


@pytest.mark.parametrize("asked", [{"half_width": 0.05}, {"difference": 0.1}, {"difference": 0.1, "discordant": 0.3}])
def test_families_that_are_not_alike_cost_nothing_and_copies_cost_all(asked: dict[str, Any]) -> None:
    plain = only(**asked).answers[0].entries
    alone, copies = (only(**asked, families=8, icc=icc).answers[0].entries for icc in (0, 1))
    # Over families differences are decided by Student's t, and not by an exact test.
    few = 0.1 if "difference" in asked else 0.0
    assert alone == pytest.approx(plain, rel=few, abs=0)
    assert copies == pytest.approx(8 * plain, rel=few, abs=8)


@given(rate=st.floats(0.01, 0.99), entries=st.integers(20, 10**6), icc=st.floats(0, 1))
def test_both_directions_agree_for_different_entries(rate: float, entries: int, icc: float) -> None:
    shared: dict[str, Any] = {"rate": rate, "families": 4, "icc": icc}
    for point in some(ask(PowerOptions(entries=entries, **shared)).questions[2].answers):
        if point.difference is not None and abs(point.difference) >= 1e-5:
            assert only(difference=point.difference, **shared).answers[0].entries in (entries, entries + 1)
            less = only(difference=point.difference * 0.99, **shared).answers[0].entries
            assert less >= entries


@settings(max_examples=8)
@given(discordant=st.floats(0.01, 1), entries=st.integers(20, 10**5))
def test_both_directions_agree_for_the_same_entries(discordant: float, entries: int) -> None:
    (point,) = ask(PowerOptions(entries=entries, discordant=discordant)).questions[2].answers
    if point.difference is not None:
        again = only(difference=point.difference, discordant=discordant).answers[0].entries
        # The power of an exact test does not rise with every entry.
        assert 0.75 * entries - 10 <= again <= 1.25 * entries + 1


def test_the_found_difference_is_found_as_often_as_promised() -> None:
    """Fisher's exact test, run on the binomial counts of both targets: its true power is the one asked for."""
    n, rise = 300, ask(PowerOptions(entries=300, rate=0.2)).questions[2].answers[0].other_rate
    first, second = binom.pmf(range(n + 1), n, 0.2), binom.pmf(range(n + 1), n, rise)
    power, b = 0.0, 0
    for a in range(n + 1):
        while b <= n and (b <= a or fisher_exact([[a, n - a], [b, n - b]]).pvalue >= 0.05):
            b += 1
        power += first[a] * second[b:].sum()
    assert power == pytest.approx(0.8, abs=0.02)


def test_too_few_entries_show_no_difference_rather_than_a_wrong_one() -> None:
    rise, fall = ask(PowerOptions(entries=20, rate=0.001)).questions[2].answers
    assert rise.difference is not None
    assert (fall.difference, fall.other_rate) == (None, None)
    assert ask(PowerOptions(entries=3, discordant=0.1)).questions[2].answers[0].difference is None


# -- words ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "nothing to compute: give --half-width"),
        (["--rate", "0.2"], "nothing to compute"),
        (["--entries", "100", "--half-width", "0.05"], "give one of the two"),
        (["--difference", "0.1", "--rate", "0.2", "--paired"], "it would be 0.38 if the targets were independent"),
        (["--difference", "0.4", "--discordant", "0.3"], "raise --discordant or lower --difference"),
        (["--difference", "0.2", "--rate", "0.9"], "leave the range 0 to 1"),
        (["--difference", "0"], "--difference must be between 0.000001 and 1, not 0"),
        (["--difference", "nan"], "--difference must be between"),
        (["--half-width", "5"], "0.05 means 5 percentage points"),
        (["--half-width", "0.05", "--rate", "20"], "0.2 means 20%"),
        (["--half-width", "0.05", "--rate", "0"], "use --zero-hits"),
        (["--half-width", "0.05", "--families", "10"], "--families needs --icc"),
        (["--half-width", "0.05", "--icc", "0.1"], "--icc needs --families"),
        (["--half-width", "0.05", "--icc", "1.5", "--families", "10"], "--icc must be between 0 and 1, not 1.5"),
        (["--half-width", "0.05", "--icc", "0.5", "--families", "0"], "the number of variants in a family"),
        (["--half-width", "0.05", "--power", "0.9"], "--power is about differences"),
        (["--half-width", "0.05", "--discordant", "0.3"], "--discordant is about two targets"),
        (["--zero-hits", "0.01", "--rate", "0.2"], "makes no use of --rate"),
        (["--difference", "0.1", "--discordant", "0.3", "--rate", "0.2"], "makes no use of --rate"),
        (["--zero-hits", "1"], "0.01 means 1%"),
        (["--half-width", "0.05", "--level", "95"], "--level must be between 0.6 and 0.999999, not 95"),
        (["--difference", "0.1", "--power", "0.05"], "--power must be between 0.5 and 0.999999, not 0.05"),
        (["--entries", "0"], "--entries must be between 1 and 1,000,000,000,000, not 0"),
        (["--entries", "ten"], "invalid int value"),
        (["--entries", "5", "--families", "10", "--icc", "0.1"], "do not make one family of 10"),
        (["--entries", "5", "--output-format", "html"], "--output-format html needs -o FILE"),
        (["--entires", "5"], "did you mean --entries?"),
        (["results.jsonl", "--entries", "5"], "unknown argument: results.jsonl"),
    ],
)
def test_what_cannot_be_asked_is_exit_code_2_and_one_sentence(cli: Cli, words: list[str], says: str) -> None:
    ran = cli("results", "power", *words)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err
    assert ran.err.count("\n") == 1


def test_options_are_refused_in_the_library_too() -> None:
    with pytest.raises(UsageError, match="nothing to compute"):
        ask(PowerOptions())


@pytest.mark.parametrize("words", ASKED, ids=" ".join)
def test_every_document_keeps_to_the_schema(cli: Cli, words: list[str]) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(document(cli, *words))


def test_the_schema_is_itself_valid_and_refuses_what_is_missing(cli: Cli) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    answer = document(cli, "--entries", "100")
    del answer["questions"][0]["answers"][0]["worth"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(answer, SCHEMA)


def test_the_document_says_what_was_asked_and_how_it_was_answered(cli: Cli) -> None:
    answer = document(cli, "--difference", "0.1", "--discordant", "0.3")
    assert (answer["kind"], answer["schema"]) == ("power", 1)
    (question,) = answer["questions"]
    assert (question["about"], question["wanted"], question["design"]) == ("difference", "entries", "same_entries")
    assert question["method"] == "McNemar's exact test"
    assert question["unit"] == "entry run against both targets"
    assert (question["level"], question["families"], question["rate_assumed"]) == (0.95, None, False)
    assert question["answers"][0] in question["nearby"]


@pytest.mark.parametrize("words", ASKED, ids=" ".join)
@pytest.mark.parametrize("output_format", ["console", "markdown"])
def test_every_answer_names_its_method_level_and_assumptions(cli: Cli, words: list[str], output_format: str) -> None:
    ran = cli("results", "power", *words, "--output-format", output_format)
    assert (ran.code, ran.err) == (0, "")
    text = " ".join(ran.out.replace("`", "").split())
    for question in document(cli, *words)["questions"]:
        assert question["method"].split(",")[0].split(" (")[0] in text
    assert "Level" in text
    assert "What these numbers assume" in text
    assert "nan" not in text.lower().split()
    assert "e-0" not in text


def test_a_page_is_written_where_it_is_wanted(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    ran = cli("results", "power", "--half-width", "0.05", "--output-format", "html", "-o", str(page))
    assert (ran.code, ran.out) == (0, f"{page}\n")
    written = page.read_text(encoding="utf-8")
    assert "Planning: how many entries" in written
    assert "381" in written


@pytest.mark.parametrize("output_format", ["console", "json", "markdown"])
def test_an_answer_can_go_to_a_file(cli: Cli, tmp_path: Path, output_format: str) -> None:
    path = tmp_path / "plan"
    words = ("results", "power", "--half-width", "0.05", "--output-format", output_format)
    assert cli(*words, "-o", str(path)).out == ""
    assert path.read_text(encoding="utf-8") == cli(*words).out


def test_a_rate_that_was_not_given_is_said_to_be_assumed(cli: Cli) -> None:
    assert "50% is assumed" in " ".join(cli("results", "power", "--half-width", "0.05").out.split())
    assert "is assumed" not in cli("results", "power", "--half-width", "0.05", "--rate", "0.5").out


@pytest.mark.parametrize(
    "words", [["--rate", "0.01", "--difference", "0.4"], ["--entries", "20", "--discordant", "0.2", *FAMILIES]]
)
def test_a_rough_formula_is_said_to_be_rough(cli: Cli, words: list[str]) -> None:
    assert "rough here" in " ".join(cli("results", "power", *words).out.split())


def test_entries_that_show_no_difference_at_all_are_said_to(cli: Cli) -> None:
    assert "no change is found in 80% of such comparisons" in " ".join(
        cli("results", "power", "--entries", "1").out.split()
    )
    assert "no difference is found" in " ".join(
        cli("results", "power", "--entries", "3", "--discordant", "0.1").out.split()
    )


def test_without_a_rate_the_answer_is_enough_at_any_rate() -> None:
    enough = only(half_width=0.05).answers[0].entries
    assert max(only(half_width=0.05, rate=number / 100).answers[0].entries for number in range(1, 100)) == enough


def test_each_target_needs_its_own_families(cli: Cli) -> None:
    words = ("results", "power", "--difference", "0.1", "--families", "10", "--icc", "0.1")
    assert "of 10 variants each, for each target" in cli(*words).out


def test_an_answer_needs_neither_numpy_nor_scipy() -> None:
    script = (
        "import sys\nfrom faircount.app.cli import main\n"
        "assert main(['results', 'power', '--entries', '300', '--discordant', '0.3']) == 0\n"
        "print([n for n in ('numpy', 'scipy', 'duckdb', 'rich') if n in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_a_strict_level_is_not_rounded_to_certainty(cli: Cli) -> None:
    assert "99.999%" in cli("results", "power", "--half-width", "0.05", "--level", "0.99999").out


def test_help_names_the_questions_and_the_exit_codes(cli: Cli) -> None:
    ran = cli("results", "power", "--help")
    assert ran.code == 0
    for word in ("--half-width W", "--difference D", "--zero-hits UPPER", "--entries N", "exit codes: 0 success"):
        assert word in ran.out


def test_a_page_names_no_rate_that_was_only_assumed_as_its_result(tmp_path: Path) -> None:
    page = tmp_path / "power.html"
    assert main(["results", "power", "--half-width", "0.05", "--output-format", "html", "-o", str(page)]) == 0
    assert 'class="headline"' not in page.read_text(encoding="utf-8")


def test_one_whole_family_is_enough_to_ask_about_and_less_is_refused(cli: Cli) -> None:
    families = ("--families", "10", "--icc", "0.3", "--rate", "0.2", "--output-format", "json")
    told = json.loads(cli("results", "power", "--entries", "10", *families).out)["questions"][0]
    assert told["nearby"][0]["entries"] == told["answers"][0]["entries"] == 10
    worth = 10 / (1 + 9 * 0.3)
    low, high = proportion_confint(0.2 * worth, worth, method="wilson")
    assert (told["answers"][0]["low"], told["answers"][0]["high"]) == pytest.approx((low, high))
    refused = cli("results", "power", "--entries", "9", *families)
    assert refused.code == 2
    assert "9 entries do not make one family of 10" in refused.err
