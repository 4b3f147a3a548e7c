"""`judges agree`: figures that others give too, missing ratings that count for nothing, and the cases."""

from __future__ import annotations

import csv
import itertools
import json
import tracemalloc
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest

from faircount.analysis import (
    JUDGE,
    PERSON,
    Agreement,
    AgreeOptions,
    GroupAgreement,
    Rater,
    Ratings,
    measure_agreement,
    read_predictions,
)
from faircount.analysis.judges.agreement import RaterPair, _together
from faircount.analysis.judges.agreement_report import as_report
from faircount.core import InputError
from faircount.judges import Attempt, Decision, Judge, Verdict
from faircount.readers import LabelOptions, read_labels
from faircount.report import console, html, markdown
from faircount.stats import alpha_of_kinds, krippendorff_alpha
from tests.conftest import Cli, Write
from tests.oracles import known, limits, oracle

sklearn_metrics = oracle("sklearn.metrics")
krippendorff = oracle("krippendorff")
inter_rater = oracle("statsmodels.stats.inter_rater")

SCHEMA = json.loads(
    resources.files("faircount.report").joinpath("schemas", "judge-agreement-2.json").read_text("utf-8")
)
FEW = AgreeOptions(replicates=50)
THREE_RATERS = Path("data", "labelled", "ratings_three_raters.csv")
RATERS = ("rater_1", "rater_2", "rater_3")
KEY = "sk-" + "a1B2" * 8


class Word(Judge):
    """Hits where the response has a word; fails where it says so."""

    name = "test.Word"
    looks_for = "a word"

    def __init__(self, word: str, degrees: int = 0) -> None:
        super().__init__(word=word, degrees=degrees)
        self.called = f"test.Word(word={word})"
        self._word, self._degrees = word, degrees

    def decide(self, attempt: Attempt) -> Verdict:
        response = attempt.response or ""
        if "broken" in response:
            raise ValueError(f"cannot read {response}")
        hit = self._word in response
        score = min(1.0, response.count(self._word) / self._degrees) if self._degrees else None
        return Verdict(Decision.of(hit), score, f"{self._word} is {'' if hit else 'not '}there: {response}")


Labelling = Callable[..., str]


@pytest.fixture
def labelling(tmp_path: Path) -> Labelling:
    """Write labelled rows as CSV: an id, a response and what each rater said."""

    def written(rows: Sequence[Sequence[object]], raters: Sequence[str] = ("label",), name: str = "labels.csv") -> str:
        path = tmp_path / name
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("id", "response", *raters), *rows])
        return str(path)

    return written


def columns(*names: str) -> LabelOptions:
    return LabelOptions(text_column="response", id_column="id", label_column=names or ("label",), text_needed=False)


def agreement_of(
    path: str, *judges: Judge, raters: Sequence[str] = ("label",), options: AgreeOptions = FEW
) -> Agreement:
    return measure_agreement(read_labels([path], columns(*raters)), None, judges, options)


def pair_of(agreement: Agreement, one: str, other: str) -> RaterPair:
    (found,) = [pair for pair in agreement.pairs if set(pair.raters) == {one, other}]
    return found


def together(agreement: Agreement, who: str, measurement: str = "nominal") -> GroupAgreement:
    (found,) = [one for one in agreement.together if (one.who, one.measurement) == (who, measurement)]
    return found


def shown(agreement: Agreement) -> str:
    return console.render(as_report(agreement), width=160)


def valid(agreement: Agreement) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(msgspec.json.encode(agreement))
    jsonschema.Draft202012Validator(SCHEMA).validate(told)
    return told


# -- numbers ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three_raters(shared: Path) -> tuple[Agreement, Any]:
    """Three people who gave scores, and the scores as a table of items by raters."""
    path = shared / THREE_RATERS
    labels = read_labels([str(path)], LabelOptions(label_column=RATERS, text_needed=False))
    with path.open(encoding="utf-8", newline="") as file:
        scores = np.array([[float(row[rater]) for rater in RATERS] for row in csv.DictReader(file)])
    return measure_agreement(labels), scores


@pytest.mark.shared
@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(range(3), 2)))
def test_kappa_of_two_raters_is_that_of_scikit_learn(three_raters: tuple[Agreement, Any], one: int, other: int) -> None:
    agreement, scores = three_raters
    pair = pair_of(agreement, RATERS[one], RATERS[other])
    decided = scores >= 0.5
    assert pair.kappa.value == pytest.approx(sklearn_metrics.cohen_kappa_score(decided[:, one], decided[:, other]))
    table = sklearn_metrics.confusion_matrix(decided[:, one], decided[:, other])
    theirs = inter_rater.cohens_kappa(table)
    assert limits(pair.kappa) == pytest.approx((theirs.kappa_low, theirs.kappa_upp))
    assert tuple(pair.counts.values()) == tuple(table.ravel())
    assert pair.observed.value == pytest.approx((decided[:, one] == decided[:, other]).mean())
    assert pair.pabak == pytest.approx(2 * known(pair.observed.value) - 1)
    share = (decided[:, one].mean() + decided[:, other].mean()) / 2
    chance = 2 * share * (1 - share)
    assert pair.ac1 == pytest.approx((known(pair.observed.value) - chance) / (1 - chance))
    assert pair.items == len(scores)


@pytest.mark.shared
def test_alpha_is_that_of_the_krippendorff_package_on_decisions_and_on_the_raters_own_scale(
    three_raters: tuple[Agreement, Any],
) -> None:
    agreement, scores = three_raters
    decided = (scores >= 0.5).astype(float)
    for measurement, rated in (("nominal", decided), ("ordinal", scores), ("interval", scores)):
        theirs = krippendorff.alpha(reliability_data=rated.T, level_of_measurement=measurement)
        estimate = together(agreement, "people", measurement).alpha
        assert estimate.value == pytest.approx(theirs)
        low, high = limits(estimate)
        assert known(low) < theirs < known(high)
        assert estimate.n == len(scores)


def test_raters_who_never_differ_have_no_interval_and_the_report_says_why(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,text,rater_a,rater_b\n" + "".join(f"{n},t{n},{n % 2},{n % 2}\n" for n in range(5)), "utf-8")
    (pair,) = json.loads(cli("judges", "agree", "--labels", str(path), "--output-format", "json").out)["pairs"]
    assert (pair["kappa"]["value"], pair["kappa"]["low"], pair["kappa"]["high"]) == (1.0, None, None)
    told = " ".join(cli("judges", "agree", "--labels", str(path)).out.split())
    assert told.count("No interval where raters never or always differed") == 2


@pytest.mark.shared
def test_fleiss_kappa_is_that_of_statsmodels(three_raters: tuple[Agreement, Any]) -> None:
    agreement, scores = three_raters
    hits = (scores >= 0.5).sum(axis=1)
    theirs = inter_rater.fleiss_kappa(np.stack([3 - hits, hits], axis=1))
    fleiss = together(agreement, "people").fleiss
    assert fleiss is not None
    assert fleiss.value == pytest.approx(theirs)


@pytest.mark.shared
def test_another_threshold_gives_other_decisions_and_the_same_scores(shared: Path) -> None:
    path = shared / THREE_RATERS
    options = LabelOptions(label_column=RATERS, text_needed=False, label_threshold=0.75)
    agreement = measure_agreement(read_labels([str(path)], options), options=FEW)
    with path.open(encoding="utf-8", newline="") as file:
        scores = np.array([[float(row[rater]) for rater in RATERS] for row in csv.DictReader(file)])
    theirs = sklearn_metrics.cohen_kappa_score(scores[:, 0] >= 0.75, scores[:, 1] >= 0.75)
    assert pair_of(agreement, "rater_1", "rater_2").kappa.value == pytest.approx(theirs)
    alpha = krippendorff.alpha(reliability_data=scores.T, level_of_measurement="interval")
    assert together(agreement, "people", "interval").alpha.value == pytest.approx(alpha)
    assert "a score counts as a hit from 0.75 on" in shown(agreement)
    assert valid(agreement)["label_threshold"] == 0.75


@pytest.mark.parametrize("measurement", ["nominal", "ordinal", "interval"])
def test_alpha_by_kinds_is_alpha_by_items_with_the_same_limits(measurement: Any) -> None:
    generator = np.random.default_rng(3)
    ratings = generator.integers(0, 4, (5, 300)).astype(float)
    ratings[0] = ratings[1]
    ratings[generator.random(ratings.shape) < 0.3] = np.nan
    values = np.arange(4.0)
    per_item = np.stack([(ratings == value).sum(axis=0) for value in values], axis=1)
    kinds, times = np.unique(per_item, axis=0, return_counts=True)
    ours = alpha_of_kinds(kinds, times, values, measurement, replicates=200)
    theirs = krippendorff_alpha(ratings.tolist(), measurement, replicates=200)
    assert (ours.value, ours.low, ours.high) == pytest.approx((theirs.value, theirs.low, theirs.high))
    assert (ours.n, ours.method) == (theirs.n, theirs.method)
    package = krippendorff.alpha(reliability_data=ratings, level_of_measurement=measurement)
    assert ours.value == pytest.approx(package)


def test_alpha_by_kinds_refuses_a_table_that_does_not_fit_and_is_undefined_where_nothing_is_paired() -> None:
    with pytest.raises(ValueError, match="kinds of items"):
        alpha_of_kinds([[1, 1]], [1], [0, 1, 2])
    assert alpha_of_kinds([[1, 0]], [5], [0, 1]).value is None
    assert alpha_of_kinds([[2, 0]], [5], [0, 1]).value is None
    assert limits(alpha_of_kinds([[2, 0], [0, 2]], [5, 5], [0, 1])) == (None, None)


def scored(scores: Sequence[Any]) -> dict[str, GroupAgreement]:
    """Return what is found of judges that gave these scores, by measurement."""
    ratings = Ratings()
    for number, given in enumerate(scores):
        for item, score in enumerate(given):
            ratings.add(Rater(str(number), JUDGE), item, Decision.of(score >= 0.5), float(score))
    return {one.measurement: one for one in _together(ratings.table(), FEW)}


def noisy(count: int) -> list[Any]:
    generator = np.random.default_rng(5)
    truth = generator.random(count)
    return [np.clip(truth + generator.normal(0, 0.1, count), 0, 1) for _ in range(3)]


def test_scores_with_many_digits_are_taken_in_steps() -> None:
    scores = noisy(60)
    found = scored(scores)
    for measurement in ("ordinal", "interval"):
        theirs = krippendorff.alpha(reliability_data=scores, level_of_measurement=measurement)
        assert found[measurement].alpha.value == pytest.approx(theirs, abs=0.002)
        assert found[measurement].step == pytest.approx(0.01, rel=0.05)


def test_many_scores_with_many_digits_are_taken_in_larger_steps() -> None:
    scores = np.array(noisy(3000))
    # Interval alpha of complete data: the mean squared distance inside items over that of all values.
    expected = 2 * scores.var(ddof=1)
    theirs = 1 - 2 * scores.var(axis=0, ddof=1).mean() / expected
    found = scored(list(scores))["interval"]
    assert found.alpha.value == pytest.approx(theirs, abs=known(found.step) ** 2 / 6 / expected)
    assert 0.04 < known(found.step) < 0.11


# -- what is missing --------------------------------------------------------------------------------------------


def test_a_missing_rating_and_an_unjudged_item_are_no_disagreement(labelling: Labelling) -> None:
    rows = [
        (1, "yes", "hit", "hit"),
        (2, "no", "pass", "pass"),
        (3, "yes", "hit", ""),
        (4, "broken", "hit", ""),
        (5, "no", "", "pass"),
    ]
    raters = ("ann", "bob")
    agreement = agreement_of(labelling(rows, raters), Word("yes"), raters=raters)
    assert agreement.parted == 0
    assert agreement.compared == 4
    assert [pair_of(agreement, one, other).items for one, other in (("ann", "bob"), ("ann", Word("yes").called))] == [
        2,
        3,
    ]
    assert {pair.kappa.value for pair in agreement.pairs} == {1.0}
    assert together(agreement, "people_and_judges").alpha.value == 1
    fleiss = together(agreement, "people_and_judges").fleiss
    assert fleiss is not None
    assert fleiss.n == 2
    judge = agreement.raters[2]
    assert (judge.decided, judge.undecided) == (4, 1)
    assert "ValueError: cannot read broken" in shown(agreement)
    assert "No item was decided differently by two raters" in shown(agreement)


def test_a_judge_that_decides_nothing_is_undefined_and_not_zero(labelling: Labelling) -> None:
    agreement = agreement_of(labelling([(1, "broken", "hit"), (2, "broken", "pass")]), Word("yes"))
    (pair,) = agreement.pairs
    assert (pair.items, pair.kappa.value, pair.ac1, pair.pabak, pair.prevailing) == (0, None, None, None, None)
    assert "1 pair decided no common items" in shown(agreement)
    valid(agreement)


def test_one_rater_cannot_agree(labelling: Labelling) -> None:
    with pytest.raises(InputError, match="label is the only one who rated anything"):
        agreement_of(labelling([(1, "x", "hit")]))


def test_where_one_category_prevails_kappa_is_doubted_and_ac1_stands_beside_it(labelling: Labelling) -> None:
    rows = [(number, "yes" if number == 0 else "no", "hit" if number == 1 else "pass") for number in range(100)]
    agreement = agreement_of(labelling(rows), Word("yes"))
    (pair,) = agreement.pairs
    assert known(pair.kappa.value) < 0
    assert known(pair.ac1) > 0.97
    assert pair.prevailing == 0.99
    assert valid(agreement)["pairs"][0]["one_sided"]
    assert "In 1 pair over 90% of the decisions are the same" in shown(agreement)
    even = [(number, "yes" if number % 2 else "no", "hit" if number % 2 else "pass") for number in range(100)]
    assert "over 90%" not in shown(agreement_of(labelling(even), Word("yes")))


# -- scores of people and judges --------------------------------------------------------------------------------


def test_scores_of_people_are_compared_with_those_of_judges_on_one_scale_only(labelling: Labelling) -> None:
    rows = [(number, "a" * (number % 5) + "b", (number % 5) / 4) for number in range(40)]
    agreement = agreement_of(labelling(rows), Word("a", degrees=4))
    assert together(agreement, "people_and_judges", "interval").alpha.value == pytest.approx(1)
    options = LabelOptions(text_column="response", id_column="id", label_column=("label",), label_threshold=2)
    path = labelling([(number, text, 4 * score) for number, text, score in rows])
    apart = measure_agreement(read_labels([path], options), None, [Word("a", degrees=4)], FEW)
    assert {one.measurement for one in apart.together} == {"nominal"}
    assert "not compared" in shown(apart)


def test_labels_that_say_the_opposite_are_turned_round_with_their_scores(labelling: Labelling) -> None:
    path = labelling([(number, "a" * (number % 5) + "b", 1 - (number % 5) / 4) for number in range(40)])
    options = LabelOptions(text_column="response", id_column="id", label_column=("label",), invert_labels=True)
    agreement = measure_agreement(read_labels([path], options), None, [Word("a", degrees=4)], FEW)
    assert together(agreement, "people_and_judges", "interval").alpha.value == pytest.approx(1)


def test_several_ratings_in_one_field_are_several_raters_with_scores(write: Write) -> None:
    lines = [{"id": n, "response": "x", "ratings": [n / 10, n / 10, (n + 1) / 10]} for n in range(8)]
    path = write(lines, "labels.jsonl")
    agreement = measure_agreement(read_labels([path], columns("ratings")), options=FEW)
    scores = [[line["ratings"][rater] for line in lines] for rater in range(3)]  # type: ignore[index]
    theirs = krippendorff.alpha(reliability_data=scores, level_of_measurement="interval")
    assert together(agreement, "people", "interval").alpha.value == pytest.approx(theirs)
    assert [figures.name for figures in agreement.raters] == ["ratings_1", "ratings_2", "ratings_3"]


def test_scores_that_are_keyed_to_results_are_compared_as_decisions_and_it_is_said(write: Write, cli: Cli) -> None:
    results = write([{"id": n, "success": True, "input": "p", "response": f"r{n}"} for n in range(3)])
    labels = write(["id,ann,bob", "0,1,0.8", "1,0,0.6", "2,1,0.2"], "keyed.csv")
    words = ("--labels", labels, "--results", results, "--label-column", "ann", "--label-column", "bob")
    ran = cli("judges", "agree", *words)
    assert ran.code == 0, ran.err
    assert "Only decisions are compared" in " ".join(ran.out.split())
    told = json.loads(cli("judges", "agree", *words, "--output-format", "json").out)
    assert told["pairs"][0]["counts"] == {"pass_pass": 0, "pass_hit": 1, "hit_pass": 1, "hit_hit": 1}


# -- predictions ------------------------------------------------------------------------------------------------


def told(judge: str, item: object, decision: str | None, **values: Any) -> dict[str, Any]:
    return {"judge": judge, "item": item, "decision": decision, "label": "hit", **values}


def of_predictions(path: str, *more: str) -> Agreement:
    return measure_agreement(None, read_predictions([path, *more]), options=FEW)


def test_predictions_give_the_figures_that_asking_the_judges_gives(labelling: Labelling, tmp_path: Path) -> None:
    from faircount.analysis import prediction_line

    rows = [(f"i{n}", "yes" if n % 3 else "no a", "hit" if n % 4 else "pass") for n in range(60)]
    path = labelling(rows)
    judges = [Word("yes"), Word("a")]
    asked = agreement_of(path, *judges)
    file = tmp_path / "predictions.jsonl"
    with file.open("wb") as out:
        for judge in judges:
            for item in read_labels([path], columns()):
                out.write(prediction_line(judge.called, judge.identity.digest, item, judge.decide(item.attempt)))
    read = of_predictions(str(file))
    assert read.pairs == asked.pairs
    assert read.together == asked.together
    assert [case.item for case in read.cases] == [case.item for case in asked.cases]
    assert [case.opinions for case in read.cases] == [case.opinions for case in asked.cases]
    both = measure_agreement(read_labels([path], columns()), read_predictions([str(file)]), options=FEW)
    assert both.pairs == asked.pairs
    assert both.cases[0].response is not None


def test_items_are_matched_by_id_whatever_the_order(write: Write) -> None:
    first = write([told("a", n, "hit" if n % 2 else "pass") for n in range(10)], "a.jsonl")
    second = write([told("b", str(n), "hit" if n % 2 else "pass") for n in reversed(range(5, 15))], "b.jsonl")
    agreement = of_predictions(first, second)
    pair = pair_of(agreement, "a", "b")
    assert (pair.items, pair.kappa.value) == (5, 1.0)
    assert agreement.items == 15


def test_of_two_predictions_of_one_item_the_last_counts_and_it_is_said(write: Write) -> None:
    path = write([told("a", 1, "pass", reason="first"), told("b", 1, "hit"), told("a", 1, "hit", reason="second")])
    agreement = of_predictions(path)
    assert tuple(pair_of(agreement, "a", "b").counts.values()) == (0, 0, 0, 1)
    assert "1 rating of an item that the same rater had rated before: the last one counts" in shown(agreement)
    # The label stands in every line of an item: that is no repetition.
    assert [figures.repeated for figures in agreement.raters] == [0, 1, 0]


def test_two_versions_of_a_judge_are_two_raters(write: Write) -> None:
    lines = [told("a", n, "hit" if n % 2 else "pass", identity="1" * 64) for n in range(6)]
    lines += [told("a", n, "hit", identity="2" * 64) for n in range(6)]
    agreement = of_predictions(write(lines))
    assert tuple(pair_of(agreement, "a #11111111", "a #22222222").counts.values()) == (0, 3, 0, 3)
    assert len({figures["name"] for figures in valid(agreement)["raters"]}) == 3


def test_bad_lines_of_predictions_are_told(write: Write) -> None:
    path = write([told("a", 1, "hit"), "{", told("b", 1, "hit")])
    agreement = of_predictions(path)
    assert f"{path}:2" in shown(agreement)
    assert valid(agreement)["predictions"][0]["bad_lines"] == 1


# -- the cases --------------------------------------------------------------------------------------------------


def test_items_that_set_people_and_judges_apart_come_first_then_those_most_evenly_split(labelling: Labelling) -> None:
    rows = [
        ("alike", "yes a", "hit", "hit", "hit"),
        ("one person", "yes a", "hit", "hit", "pass"),
        ("one judge", "yes", "hit", "hit", "hit"),
        ("opposite", "no", "hit", "hit", "hit"),
        ("split", "yes", "hit", "pass", ""),
    ]
    raters = ("ann", "bob", "cid")
    agreement = agreement_of(labelling(rows, raters), Word("yes"), Word("a"), raters=raters)
    assert [case.item for case in agreement.cases] == ["opposite", "one judge", "one person", "split"]
    assert [case.distance for case in agreement.cases] == pytest.approx([1, 0.5, 1 / 3, 0])
    assert agreement.parted == 4


def test_a_case_shows_place_decisions_reasons_and_text(labelling: Labelling) -> None:
    path = labelling([(f"item {n}", "yes indeed" if n == 3 else "no", "pass") for n in range(6)])
    text = shown(agreement_of(path, Word("yes")))
    case = text[text.index("Case 1:") :]
    assert "Case 1: item 3" in case
    assert "labels.csv:5" in case
    assert "yes is there: yes indeed" in case
    assert "Case 2" not in text


def test_hostile_text_and_secrets_do_not_get_through(labelling: Labelling) -> None:
    response = f"yes \x1b[31m<script>alert(1)</script> {KEY} " + "long " * 300
    agreement = agreement_of(labelling([("\x1b]0;x\x07", response, "pass"), (2, "no", "pass")]), Word("yes"))
    report = as_report(agreement)
    for page in (
        console.render(report),
        markdown.render(report),
        html.render(report),
        msgspec.json.encode(report.document).decode(),
    ):
        assert "\x1b" not in page
        assert KEY not in page
    assert "<script>alert" not in html.render(report)
    assert "the whole text has 1,5" in console.render(report)


def test_so_many_cases_are_shown_as_are_wanted_and_all_are_in_the_document(labelling: Labelling) -> None:
    path = labelling([(f"i{n}", "yes", "pass" if n < 7 else "hit") for n in range(20)])
    few = agreement_of(path, Word("yes"), options=AgreeOptions(cases=2, replicates=0))
    assert len(few.cases) == 2
    options = AgreeOptions(cases=2, every_case=True, replicates=0)
    every = agreement_of(path, Word("yes"), options=options)
    assert [case["item"] for case in valid(every)["cases"]] == ["i0", "i1"]
    items = valid(every)["parted_items"]
    assert [item["item"] for item in items] == [f"i{n}" for n in range(7)]
    assert {tuple(item["decisions"]) for item in items} == {("pass", "hit")}
    assert valid(few)["parted_items"] is None
    assert "the first 2 of them" in shown(every)
    none = agreement_of(path, Word("yes"), options=AgreeOptions(cases=0, replicates=0))
    assert "--cases shows some" in shown(none)


# -- the table --------------------------------------------------------------------------------------------------


def test_many_items_take_little_memory() -> None:
    count = 50_000
    tracemalloc.start()
    ratings = Ratings()
    raters = [Rater(str(number), PERSON if number < 3 else JUDGE) for number in range(5)]
    for item in range(count):
        for number, rater in enumerate(raters):
            ratings.add(rater, item, Decision.of((item + number) % 3 == 0))
    table = ratings.table()
    table.parting()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 17 bytes for each rating while it is taken down, and some columns of numbers for each item.
    assert peak < 170 * count


def test_a_table_keeps_the_order_of_items_and_puts_people_first() -> None:
    ratings = Ratings()
    ratings.add(Rater("j", JUDGE), 9, Decision.HIT, 0.5)
    ratings.add(Rater("j", JUDGE), 3, Decision.PASS)
    ratings.add(Rater("p", PERSON), 5, Decision.HIT)
    ratings.add(Rater("p", PERSON), 9, None)
    ratings.add_score(Rater("p", PERSON), 77, 1.0)
    table = ratings.table()
    assert [rater.name for rater in table.raters] == ["p", "j"]
    assert table.items.tolist() == [5, 9, 3]
    assert table.decisions.tolist() == [[1, -1, -1], [-1, 1, 0]]
    assert np.isnan(table.scores[0]).all()
    assert table.scores[1][1] == 0.5


# -- the command ------------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_the_command_shows_every_format(shared: Path, cli: Cli, tmp_path: Path) -> None:
    words = ("judges", "agree", "--labels", str(shared / THREE_RATERS), "--cases", "1")
    assert "Krippendorff's alpha" in cli(*words).out
    assert "| Raters |" in cli(*words, "--output-format", "markdown").out
    ran = cli(*words, "--output-format", "json")
    told = json.loads(ran.out)
    jsonschema.Draft202012Validator(SCHEMA).validate(told)
    assert (ran.code, told["kind"], told["schema"]) == (0, "judge-agreement", 2)
    assert told["parted"] == len(told["parted_items"]) > len(told["cases"]) == 1
    page = tmp_path / "agreement.html"
    assert cli(*words, "--output-format", "html", "-o", str(page)).code == 0
    assert "<svg" in page.read_text(encoding="utf-8")


@pytest.mark.shared
def test_the_command_asks_judges_about_labelled_data(shared: Path, cli: Cli) -> None:
    path = str(shared / "data" / "labelled" / "pyrit_refusal.csv")
    ran = cli("judges", "agree", "--labels", path, 'contains(text="sorry")', "--output-format", "json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    jsonschema.Draft202012Validator(SCHEMA).validate(told)
    with Path(path).open(encoding="utf-8", newline="") as file:
        next(file)
        rows = list(csv.DictReader(file))
    said = ["sorry" in row["assistant_response"] for row in rows]
    people = [row["human_score"] == "1" for row in rows]
    (pair,) = told["pairs"]
    assert pair["kappa"]["value"] == pytest.approx(sklearn_metrics.cohen_kappa_score(people, said))


def test_the_schema_is_itself_valid_and_refuses_what_is_missing(labelling: Labelling) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    answer = valid(agreement_of(labelling([(1, "yes", "hit"), (2, "yes", "pass")]), Word("yes")))
    del answer["cases"][0]["place"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(answer, SCHEMA)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "nothing to compare"),
        (("refusal",), "nothing to compare"),
        (("refusal", "--predictions", "p.jsonl"), "name it with --labels"),
        (("--predictions", "p.jsonl", "--cases", "-1"), "--cases must be 0 or more, not -1"),
        (("--predictions", "p.jsonl", "--output-format", "html"), "--output-format html needs -o FILE"),
        (("--predictions", "-"), "read twice"),
    ],
)
def test_a_wrong_use_is_explained(words: tuple[str, ...], reason: str, cli: Cli) -> None:
    ran = cli("judges", "agree", *words)
    assert (ran.code, ran.out) == (2, "")
    assert reason in ran.err
