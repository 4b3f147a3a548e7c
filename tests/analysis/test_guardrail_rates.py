"""What a guardrail stops and what it stops wrongly: counted from files, and checked against other people's code."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import json as msgspec_json

from faircount import as_report
from faircount.analysis import COMBINED
from faircount.core import Analysis, Estimate, FalsePositives
from faircount.report import Fact, Facts, Lead, console, html, markdown
from tests.conftest import Cli, Write, analysis_of, codes, examples_of, report_of, standard
from tests.oracles import known, limits, oracle

GUARDRAILS = ("aws_bedrock_guardrail", "az_prompt_shields", "prompt_guard_jailbreak")


def boolean(number: int, *, let_through: bool) -> dict[str, Any]:
    return standard(number, input=f"prompt {number}", success=let_through, response=str(let_through))


def result_of(analysis: Analysis) -> FalsePositives:
    assert analysis.false_positives is not None
    return analysis.false_positives


def assert_as_others_count(result: FalsePositives, counts: tuple[int, int, int, int], level: float) -> None:
    """The matrix is what was counted apart, and every rate and interval is what statsmodels and scikit-learn say."""
    metrics, proportion = oracle("sklearn.metrics"), oracle("statsmodels.stats.proportion")
    assert (result.tp, result.fn, result.tn, result.fp) == counts
    tp, fn, tn, fp = counts
    truth, said = [1] * (tp + fn) + [0] * (tn + fp), [1] * tp + [0] * (fn + tn) + [1] * fp

    def wilson(estimate: Estimate, count: int, n: int) -> None:
        assert (estimate.n, estimate.level) == (n, level)
        expected = proportion.proportion_confint(count, n, alpha=1 - level, method="wilson")
        if estimate.method == "wilson":
            assert limits(estimate) == pytest.approx(expected, abs=1e-9)
        else:
            # Families widen it; `test_families` compares them with others' figures.
            assert estimate.method == "cluster wilson" and known(estimate.low) < expected[0] < expected[1]
            assert expected[1] < known(estimate.high)

    wilson(result.recall, tp, tp + fn)
    wilson(result.fpr, fp, fp + tn)
    assert result.recall.value == pytest.approx(metrics.recall_score(truth, said))
    assert result.fpr.value == pytest.approx(1 - metrics.recall_score(truth, said, pos_label=0))
    balanced = result.balanced_accuracy
    assert balanced.value == pytest.approx(metrics.balanced_accuracy_score(truth, said))
    low, high = proportion.confint_proportions_2indep(tp, tp + fn, fp, fp + tn, method="newcomb", alpha=1 - level)
    if {result.recall.method, result.fpr.method} != {"wilson"}:
        recall, fpr = result.recall, result.fpr
        difference = known(recall.value) - known(fpr.value)
        low = difference - math.hypot(known(recall.value) - known(recall.low), known(fpr.high) - known(fpr.value))
        high = difference + math.hypot(known(recall.high) - known(recall.value), known(fpr.value) - known(fpr.low))
    assert limits(balanced) == pytest.approx(((1 + low) / 2, (1 + high) / 2), abs=1e-9)
    assert (balanced.n, balanced.method) == (sum(counts), "newcombe")


@pytest.mark.parametrize("seed", range(8))
def test_rates_of_random_tables_are_what_others_compute(write: Write, seed: int) -> None:
    generator = random.Random(seed)
    tp, fn, tn, fp = (generator.randrange(1, 40) for _ in range(4))
    level = generator.choice([0.8, 0.9, 0.95, 0.99])
    attacks = [boolean(number, let_through=number >= tp) for number in range(tp + fn)]
    benign = [boolean(number, let_through=number >= fp) for number in range(fp + tn)]
    # Neither an error nor what nobody judged is a decision.
    attacks += [standard("e", error="timeout"), standard("u", success=None)]
    benign += [standard("e", error="timeout")]
    for rows in (attacks, benign):
        generator.shuffle(rows)
    paths = write(attacks, "results_a.jsonl"), write(benign, "results_b.jsonl")
    result = result_of(analysis_of(paths[0], false_positive_checks=paths[1], level=level))
    assert_as_others_count(result, (tp, fn, tn, fp), level)
    assert (result.left_out.attack_error, result.left_out.attack_unjudged, result.left_out.benign_error) == (1, 1, 1)


def published(shared: Path, guardrail: str) -> tuple[str, str]:
    """Return the file of attacks and that of benign prompts of a published guardrail."""
    folder = shared / "data" / "spikee-v0.1"
    (attacks,) = folder.glob(f"results_{guardrail}-targeted-*.jsonl")
    (benign,) = folder.glob(f"results_{guardrail}-*false-positive-check*.jsonl")
    return str(attacks), str(benign)


def detected(path: str) -> tuple[int, int]:
    """Return how many prompts of a published file were detected, and how many were not: `success` meant that then."""
    rows = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
    assert len({row["id"] for row in rows}) == len(rows) and not [row for row in rows if row.get("error")]
    found = sum(row["success"] is True for row in rows)
    return found, len(rows) - found


@pytest.mark.shared
@pytest.mark.parametrize("guardrail", GUARDRAILS)
def test_rates_of_published_guardrails_are_what_others_compute(shared: Path, guardrail: str) -> None:
    attacks, benign = published(shared, guardrail)
    analysis = analysis_of(attacks, false_positive_checks=benign, guardrail_success="detected")
    (tp, fn), (fp, tn) = detected(attacks), detected(benign)
    assert_as_others_count(result_of(analysis), (tp, fn, tn, fp), 0.95)


@pytest.mark.shared
def test_a_guardrail_is_read_by_recall_and_false_positive_rate(shared: Path, cli: Cli) -> None:
    attacks, benign = published(shared, "aws_bedrock_guardrail")
    words = ("results", "analyze", attacks, "--false-positive-checks", benign, "--guardrail-success", "detected")
    ran = cli(*words)
    assert ran.code == 0
    lead = " ".join(ran.out.split("\n\n")[0].split())
    assert lead.startswith(
        "Analysis of aws_bedrock_guardrail-targeted-2024-12-document The guardrail blocked 88% "
        "(95% interval 70–94%) of 238 attacks and 3% (95% interval 1–17%) of 30 benign prompts."
    )
    assert ran.out.index("\nGuardrail\n") < ran.out.index("\nGeneral\n")
    overview = cli(*words, "--overview").out
    for text in (ran.out, overview):
        assert re.search(r"^  attacks +209 +29$", text, re.MULTILINE)
        assert re.search(r"^  benign prompts +1 +29$", text, re.MULTILINE)
        assert re.search(r"^  False positive rate +3% \[1, 17\]", text, re.MULTILINE)
        assert re.search(r"^  Balanced accuracy +92% \[81, 96\]", text, re.MULTILINE)
    assert "Breakdown" in ran.out and "Breakdown" not in overview
    document = json.loads(cli(*words, "--output-format", "json").out)["analyses"][0]["false_positives"]
    assert document["fpr"]["value"] == pytest.approx(1 / 30)
    assert document["balanced_accuracy"]["value"] == pytest.approx((209 / 238 + 29 / 30) / 2)
    assert (document["benign"]["path"], document["benign"]["label"]) == (
        benign,
        "aws_bedrock_guardrail-17346153…uardrail-false-positive-check",
    )


# -- how it is told ---------------------------------------------------------------------------------------------


def guarded_files(write: Write) -> tuple[str, str]:
    """Return the results of a guardrail that lets 3 of 10 attacks through and stops 2 of 12 benign prompts."""
    attacks = write([boolean(number, let_through=number < 3) for number in range(10)], "results_attacks.jsonl")
    benign = write([boolean(number, let_through=number >= 2) for number in range(12)], "results_harmless.jsonl")
    return attacks, benign


def guarded(write: Write) -> Analysis:
    attacks, benign = guarded_files(write)
    return analysis_of(attacks, false_positive_checks=benign)


def test_the_figures_that_a_page_shows_large_are_recall_and_false_positive_rate(write: Write) -> None:
    analysis = guarded(write)
    heading = as_report([analysis]).sections[0]
    (lead,) = [block for block in heading.blocks if isinstance(block, Lead)]
    result = result_of(analysis)
    assert lead.figures == (
        Fact("Recall", 7, result.recall, "of 10 attacks"),
        Fact("False positive rate", 2, result.fpr, "of 12 benign prompts"),
    )
    assert lead.paragraphs == (
        "The guardrail blocked 70% (95% interval 40–89%) of 10 attacks and 17% (95% interval 5–45%) of 12 benign "
        "prompts.",
    )


def test_prompts_without_a_decision_are_told_and_have_columns_of_their_own(write: Write) -> None:
    rows = [boolean(1, let_through=True), standard("e", error="timeout"), standard("u", success=None)]
    analysis = analysis_of(write(rows, "a.jsonl"), false_positive_checks=write(rows[:2], "b.jsonl"))
    text = console.render(as_report([analysis]))
    assert "3 prompts without a decision are left out." in " ".join(text.split())
    assert re.search(r"^  attacks +0 +1 +1 +1$", text, re.MULTILINE)
    assert re.search(r"^  benign prompts +0 +1 +1 +0$", text, re.MULTILINE)
    whole = console.render(as_report([guarded(write)]))
    assert "without a decision" not in whole and "unjudged" not in whole.split("General")[0]


def test_what_a_guardrail_did_wrong_is_shown_as_evidence(write: Write) -> None:
    attacks, benign = guarded_files(write)
    asked: Any = {"false_positive_checks": benign, "evidence": (("", 2),)}
    found = examples_of(attacks, **asked)
    told = [(examples.kind, examples.total, [e.entry for e in examples.shown]) for examples in found]
    assert told == [("let through", 3, ["0", "1"]), ("blocked", 2, ["0", "1"])]
    text = console.render(report_of(attacks, **asked))
    for title in ("Attacks that the guardrail let through", "Benign prompts that the guardrail blocked"):
        assert f"\n{title}\n" in text
    assert "2 of 3 attacks that the guardrail let through" in text
    assert "entry 0 (harmless:1)" in text and "entry 0 (attacks:1)" in text


def test_a_benign_check_alone_is_read_by_what_was_blocked(write: Write) -> None:
    proportion = oracle("statsmodels.stats.proportion")
    rows = [boolean(number, let_through=number >= 4) for number in range(30)]
    path = write(rows, "results_benign.jsonl")
    analysis = analysis_of(path)
    assert analysis.role == "benign"
    (lead,) = [block for block in as_report([analysis]).sections[0].blocks if isinstance(block, Lead)]
    (blocked,) = lead.figures
    assert blocked.rate is not None
    assert (blocked.label, blocked.value, blocked.note) == ("False positive rate", 4, "of 30 benign prompts")
    assert blocked.rate.value == pytest.approx(4 / 30)
    assert limits(blocked.rate) == pytest.approx(proportion.proportion_confint(4, 30, method="wilson"))
    assert lead.paragraphs == ("The guardrail blocked 13% (95% interval 5–30%) of 30 benign prompts.",)
    (examples,) = examples_of(path, evidence=(("", 2),))
    assert (examples.kind, examples.total, [e.entry for e in examples.shown]) == ("blocked", 4, ["0", "1"])


# -- benign checks among attacks --------------------------------------------------------------------------------


def test_benign_checks_that_are_pooled_with_attacks_are_doubted(write: Write, cli: Cli) -> None:
    attacks = write([boolean(number, let_through=number < 3) for number in range(10)], "results_attacks.jsonl")
    benign = [
        write([boolean(number, let_through=True) for number in range(first, first + 5)], f"results_{name}.jsonl")
        for first, name in ((20, "fp-one"), (30, "benign-two"))
    ]
    pooled = analysis_of(attacks, *benign[:1], combine=True)
    assert pooled.name == COMBINED
    (doubt,) = [finding for finding in pooled.findings if finding.code == "F036"]
    assert (doubt.severity.value, doubt.count, doubt.where) == ("warning", 1, (benign[0],))
    assert doubt.message == (
        "1 file that by its name is a check with benign prompts, counted among the attacks; measure a guardrail with "
        "--false-positive-checks"
    )
    both = analysis_of(attacks, *benign, combine=True)
    (doubt,) = [finding for finding in both.findings if finding.code == "F036"]
    assert (doubt.count, doubt.where) == (2, tuple(benign))
    assert doubt.message.startswith("2 files that by their names are checks with benign prompts, counted among")
    assert "warning F036" in cli("results", "analyze", attacks, benign[0], "--combine").out
    checked = cli("results", "check", attacks, benign[0], "--combine", "--warnings")
    assert checked.code == 1 and "serious: F036" in checked.out


def test_benign_checks_apart_from_attacks_are_not_doubted(write: Write, cli: Cli) -> None:
    attacks = write([boolean(1, let_through=True)], "results_attacks.jsonl")
    benign = [write([boolean(number, let_through=True)], f"results_fp-{number}.jsonl") for number in range(2)]
    assert "F036" not in codes(analysis_of(*benign, combine=True))
    assert "F036" not in codes(analysis_of(attacks, false_positive_checks=benign[0]))
    assert "F036" not in cli("results", "analyze", attacks, *benign).out


# -- whatever the files are called ------------------------------------------------------------------------------


def test_hostile_names_of_guardrail_files_act_nowhere(write: Write) -> None:
    name = "\x1b]0;owned\x07\u202e<script>|`x`"
    attacks = write([boolean(number, let_through=True) for number in range(3)], f"results_{name}.jsonl")
    benign = write([boolean(number, let_through=False) for number in range(3)], f"results_{name}-fp.jsonl")
    report = report_of(attacks, false_positive_checks=benign, evidence=(("", 1),))
    for text in (console.render(report), markdown.render(report), html.render(report)):
        assert not set(text) & set("\x1b\x07\u202e") and "\\u202e" in text
    assert "<script" not in html.render(report)
    assert msgspec_json.decode(msgspec_json.encode(report.document))


def test_every_rate_of_the_matrix_is_a_fact_with_words(write: Write) -> None:
    (section,) = [section for section in as_report([guarded(write)]).sections if section.title == "Guardrail"]
    (facts,) = [block for block in section.blocks if isinstance(block, Facts)]
    assert [fact.label for fact in facts.rows] == [
        "Recall",
        "False positive rate",
        "Precision",
        "F1",
        "Accuracy",
        "Balanced accuracy",
    ]
    assert all(fact.rate is not None and fact.note for fact in facts.rows)
