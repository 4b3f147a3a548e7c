"""Variants of one instruction in one document are one family, and the intervals of rates over all entries know it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from faircount import analyze
from faircount.analysis import CompareOptions, compare_files
from faircount.core import Estimate
from faircount.readers import family
from faircount.stats import cluster_wilson
from tests.conftest import Cli, Write, analysis_of, attack, some, standard
from tests.oracles import correlation_floor, known, oracle

OLS = oracle("statsmodels.regression.linear_model").OLS

BALANCED = [[1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
"""The families, and below the figures, of the shared example cluster_balanced_6x4."""


def rows_of(families: Sequence[Sequence[int]], **values: Any) -> list[dict[str, Any]]:
    """Return a row for every member of every family, as spikee crosses an instruction with jailbreaks."""
    rows: list[dict[str, Any]] = []
    for index, members in enumerate(families):
        for jailbreak, success in enumerate(members):
            rows.append(
                standard(
                    len(rows) + 1,
                    long_id=f"document_mail-01_dan-{jailbreak:02d}_xss-{index:02d}_end",
                    success=bool(success),
                    document_id="mail-01",
                    position="end",
                    jailbreak_type=f"dan-{jailbreak:02d}",
                    instruction_type="xss",
                    **values,
                )
            )
    return rows


def limits(estimate: Estimate) -> list[float | None]:
    return [estimate.value, estimate.low, estimate.high]


# -- what a family is -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("long_id", "fields", "expected"),
    [
        ("document_mail-01_dan-01_xss-02_end", ("mail-01", "end", "xss", None), "mail-01\nxss-02"),
        ("qa_mail-01_dan-01_xss-02_start-sys", ("mail-01", "start", "xss", None), "mail-01\nxss-02"),
        (
            "document_mail-01_dan-01_xss-02_end_1337-2-pone-stwo-sys",
            ("mail-01", "end", "xss", "1337"),
            "mail-01\nxss-02",
        ),
        ("document_mail-01_dan-01_long-01_fixed", ("mail-01", "fixed", "long-output", None), "mail-01\nlong-01"),
        ("document_a_b_dev_mode-1_long-2_end", ("a_b", "end", "other", None), "a_b\nlong-2"),
        ("document_a_b_dev_mode-1_data_exfil-2_end_b64-1", ("a_b", "end", "data_exfil", "b64"), "a_b\ndata_exfil-2"),
        ("document_mail-01_dan-01_xss-02_end-best_of_n", ("mail-01", "end", "xss", None), "mail-01\nxss-02"),
        ("document_mail-01_dan-01_xss-02_end_extracted_results_x", ("mail-01", "end", "xss", None), "mail-01\nxss-02"),
        ("chat-07", (None, None, None, None), "\nchat-07"),
        ("chat-07_base64-3", (None, None, None, "base64"), "\nchat-07"),
        ("chat-07_base64-3_extracted_results_x", (None, None, None, "base64"), "\nchat-07"),
        ("01", ("mail-01", "end", "", None), "\n01"),
        (None, ("mail-01", None, "xss", None), "mail-01\nxss"),
        (None, (None, None, None, None), None),
        ("", (None, None, "", None), None),
    ],
)
def test_a_family_is_the_document_and_the_instruction_behind_a_row(
    long_id: str | None, fields: tuple[str | None, str | None, str | None, str | None], expected: str | None
) -> None:
    assert family(long_id, *fields) == expected


# -- what families do to the rate -------------------------------------------------------------------------------


def test_the_rate_carries_the_interval_of_families_and_the_plain_one_stands_beside_it(write: Write) -> None:
    analysis = analysis_of(write(rows_of(BALANCED)))
    assert limits(analysis.rates.asr) == pytest.approx([1 / 3, 0.075633, 0.753416], abs=1e-6)
    assert analysis.rates.asr.method == "cluster wilson"
    assert limits(analysis.rates.asr_unclustered) == pytest.approx([1 / 3, 0.179722, 0.532937], abs=1e-6)
    assert analysis.rates.asr_unclustered.method == "wilson"
    told = analysis.families
    assert (told.asked, told.by, told.respected, told.count) == ("auto", "document and instruction", True, 6)
    assert told.effective_n == pytest.approx(6.956522, abs=1e-6)
    assert told.design_effect == pytest.approx(3.45)


def test_families_without_a_success_are_cautious(write: Write) -> None:
    analysis = analysis_of(write(rows_of([[0] * 4] * 6)))
    floor = correlation_floor([0] * 6, [4] * 6)
    critical = float(scipy_stats.t.ppf(0.975, 5))
    assert limits(analysis.rates.asr) == pytest.approx([0, 0, critical**2 / (24 / floor + critical**2)], rel=1e-3)
    assert analysis.families.effective_n == pytest.approx(24 / floor, rel=1e-3)
    assert analysis.families.design_effect == pytest.approx(floor, rel=1e-3)


def test_the_mean_over_families_counts_each_once(write: Write) -> None:
    unbalanced = [[1, 1, 1], [0], [1, 0, 0, 0, 0], [0, 0], [1, 1], [0, 0, 0, 0], [0, 1, 0], [1]]
    analysis = analysis_of(write(rows_of(unbalanced)))
    successes, sizes = [sum(family) for family in unbalanced], [len(family) for family in unbalanced]
    assert analysis.rates.asr == cluster_wilson(successes, sizes).estimate
    assert analysis.rates.asr.value == pytest.approx(8 / 21)
    assert analysis.families.mean_rate == pytest.approx(0.441667, abs=1e-6)


def _named(long_id: str) -> str:
    parts = long_id.split("_")
    return f"{parts[1]} {parts[3]}" if len(parts) > 4 else long_id


def test_published_rates_have_the_cluster_robust_error_of_statsmodels(shared: Path) -> None:
    for path in some(sorted((shared / "data/spikee-v0.1").glob("results_*full-prompt_*.jsonl"))):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        won = np.array([row["success"] is True for row in rows], dtype=float)
        named = [_named(row["long_id"]) for row in rows]
        groups = np.array([sorted(set(named)).index(name) for name in named])
        model = OLS(won, np.ones(len(won)))
        error = model.fit(cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False}).bse[0]
        count = len(set(named))
        seen = error**2 * count / (count - 1) / (won.mean() * (1 - won.mean()) / len(won))
        sizes = np.bincount(groups)
        floor = correlation_floor(np.bincount(groups, won).astype(int).tolist(), sizes.tolist())
        found = analysis_of(str(path)).families
        assert found.count == count
        assert found.effective_n == pytest.approx(len(won) / max(seen, floor, 1), rel=5e-3)


def test_judged_initial_and_attacked_rates_respect_families(write: Write) -> None:
    rows = rows_of(BALANCED)
    rows[-1] |= {"error": "boom", "success": False}
    rows += [attack(row["id"], success=row["id"] % 2 == 0) for row in rows if not row["success"]]
    analysis = analysis_of(write(rows))
    assert analysis.dynamic is not None
    for rate in (
        analysis.rates.asr,
        analysis.rates.asr_judged,
        analysis.dynamic.initial_rate,
        analysis.dynamic.improvement,
    ):
        assert rate.method == "cluster wilson"
    assert limits(analysis.dynamic.initial_rate) == pytest.approx([1 / 3, 0.075633, 0.753416], abs=1e-6)
    assert {attack.rate.method for attack in analysis.dynamic.attacks} == {"cluster wilson"}


def same_limits(one: Estimate, other: Estimate) -> None:
    assert limits(one) == pytest.approx(limits(other), abs=1e-12)


def test_one_number_has_one_interval_wherever_it_stands(write: Write) -> None:
    """A file alone and among others, a group in an analysis and in a comparison, a rate and what is left of it."""
    old, new = (
        write([row | {"lang": "en" if row["id"] % 3 else "de"} for row in rows_of(families)], name)
        for families, name in ((BALANCED, "results_old.jsonl"), ([*reversed(BALANCED)], "results_new.jsonl"))
    )
    alone = analysis_of(new, by=("lang",))
    (together,) = analyze(old, new, combine=True).analyses
    # The files hold the same prompts: together they are one run, and each source shows its own entries.
    groups = {group.value: group for group in alone.breakdowns["lang"]}
    assert {group.rate.method for group in groups.values()} == {"cluster wilson"}
    compared = compare_files([old, new], CompareOptions(by=("lang",)))
    (pair,) = compared.pairs
    same_limits(pair.rate_b, alone.rates.asr)
    same_limits(compared.files[1].rate, alone.rates.asr)
    for group in pair.by["lang"]:
        same_limits(group.rate_b, groups[group.value].rate)
        assert group.mcnemar_p is None
    for source in together.by_source:
        if source.tally.total == alone.tally.total:
            same_limits(source.rate, analysis_of(source.path).rates.asr)
    blocked = [
        1 - known(share) for share in (alone.rates.blocked.value, alone.rates.blocked.high, alone.rates.blocked.low)
    ]
    assert blocked == pytest.approx(limits(alone.rates.asr), abs=1e-12)
    recall = analysis_of(new, false_positive_checks=old).false_positives
    assert recall is not None
    same_limits(recall.recall, alone.rates.blocked)
    same_limits(recall.fpr, analysis_of(old).rates.blocked)


def test_sources_with_entries_of_their_own_have_the_interval_that_each_has_alone(write: Write) -> None:
    first = write(rows_of(BALANCED), "results_a.jsonl")
    others = [row | {"id": f"b{row['id']}", "input": f"other {row['id']}"} for row in rows_of(BALANCED[:3])]
    singles = [standard(f"s{n}", input=f"single {n}", success=n < 3, long_id=f"single-{n}") for n in range(9)]
    paths = [first, write(others, "results_b.jsonl"), write(singles, "results_c.jsonl")]
    (together,) = analyze(*paths, combine=True).analyses
    assert len(together.by_source) == 3
    for source in together.by_source:
        assert source.rate == analysis_of(source.path).rates.asr


def test_a_file_of_one_family_has_the_interval_among_others_that_it_has_alone(write: Write) -> None:
    one = [row | {"id": f"b{row['id']}", "input": f"other {row['id']}"} for row in rows_of([[1, 0, 0, 1, 0]])]
    paths = [write(rows_of(BALANCED), "results_a.jsonl"), write(one, "results_b.jsonl")]
    (together,) = analyze(*paths, combine=True).analyses
    assert together.families.respected
    for source in together.by_source:
        alone = analysis_of(source.path).rates.asr
        assert alone.low is not None
        assert source.rate == alone


def test_the_same_family_in_two_files_is_one(write: Write) -> None:
    first = write(rows_of(BALANCED), "results_a.jsonl")
    second = write(rows_of(BALANCED, response="another target's answer"), "results_b.jsonl")
    combined = analysis_of(first, second, combine=True)
    alone = analysis_of(first)
    assert combined.tally.total == 48
    assert combined.families.count == 6
    assert limits(combined.rates.asr) == pytest.approx(limits(alone.rates.asr), abs=1e-9)
    assert [figures.rate for figures in combined.by_source] == [alone.rates.asr, alone.rates.asr]


# -- what the user asks for -------------------------------------------------------------------------------------


def test_none_takes_entries_as_independent(write: Write) -> None:
    analysis = analysis_of(write(rows_of(BALANCED)), cluster="none")
    assert analysis.rates.asr == analysis.rates.asr_unclustered
    assert (analysis.families.respected, analysis.families.by) == (False, None)


def test_a_field_makes_families(write: Write) -> None:
    rows = [row | {"team": f"t{index // 4}"} for index, row in enumerate(rows_of(BALANCED))]
    asked = analysis_of(write(rows), cluster="team")
    assert limits(asked.rates.asr) == pytest.approx([1 / 3, 0.075633, 0.753416], abs=1e-6)
    assert (asked.families.asked, asked.families.by, asked.families.count) == ("team", "team", 6)


def test_an_entry_without_a_value_is_a_family_of_its_own(write: Write) -> None:
    rows = [row | {"team": "t" if index < 4 else None} for index, row in enumerate(rows_of(BALANCED))]
    assert analysis_of(write(rows), cluster="team").families.count == 21


def test_a_short_name_does_for_a_field(write: Write) -> None:
    rows = [row | {"document_id": f"d{index % 3}"} for index, row in enumerate(rows_of(BALANCED))]
    assert analysis_of(write(rows), cluster="document").families.by == "document_id"


def test_a_field_that_no_file_has_is_refused(write: Write, cli: Cli) -> None:
    ran = cli("results", "analyze", write(rows_of(BALANCED)), "--cluster", "nonsense")
    assert ran.code == 2
    assert "--cluster nonsense: no such field; available: " in ran.err


def test_entries_that_share_nothing_are_independent(write: Write) -> None:
    analysis = analysis_of(write([standard(i, long_id=f"case-{i}", success=i % 3 == 0) for i in range(30)]))
    assert analysis.rates.asr == analysis.rates.asr_unclustered
    assert not analysis.families.respected
    assert analysis.families.explanation.startswith("No two entries share a document and instruction")


def test_one_family_found_is_no_reason_to_give_no_interval(write: Write) -> None:
    analysis = analysis_of(write(rows_of([[1, 0, 0, 1, 0]])))
    assert analysis.rates.asr == analysis.rates.asr_unclustered
    assert "only for variants of this one" in analysis.families.explanation


def test_one_family_asked_for_gives_no_interval_and_says_why(write: Write) -> None:
    analysis = analysis_of(write(rows_of([[1, 0, 0, 1, 0]])), cluster="instruction_type")
    assert limits(analysis.rates.asr) == [0.4, None, None]
    assert "there is no interval" in analysis.families.explanation
    assert limits(analysis.rates.asr_unclustered)[1] is not None


def test_an_empty_file_has_no_families(write: Write) -> None:
    for cluster in ("auto", "none"):
        analysis = analysis_of(write([]), cluster=cluster)
        assert limits(analysis.rates.asr) == [None, None, None]
        assert not analysis.families.respected


def test_the_report_says_what_entries_are_worth(write: Write, cli: Cli) -> None:
    out = cli("results", "analyze", write(rows_of(BALANCED)), "--overview").out
    told = " ".join(out.split())
    assert "Successful attacks 8 33% [8, 75] of 24 entries (95% Wilson, 6 families)" in told
    assert "They are variants of 6 attacks and carry about as much information as 7 independent ones." in told
    assert "families of variants 6 worth about 7 independent entries (design effect 3.5)" in told
    assert "as if independent 33% [18, 53]" in told
    assert "distinguished by document and instruction" in told


def test_by_spikees_definition_families_are_respected_too(write: Write) -> None:
    path = write(rows_of(BALANCED))
    assert limits(analysis_of(path, definition="spikee").rates.asr) == limits(analysis_of(path).rates.asr)


def test_json_holds_both_intervals_and_what_was_done(write: Write, cli: Cli) -> None:
    out = cli("results", "analyze", write(rows_of(BALANCED)), "--output-format", "json").out
    (analysis,) = json.loads(out)["analyses"]
    assert analysis["rates"]["asr"]["method"] == "cluster wilson"
    assert analysis["rates"]["asr_unclustered"]["method"] == "wilson"
    assert analysis["families"]["design_effect"] == pytest.approx(3.45)


def test_a_long_id_that_is_no_text_is_read_all_the_same(write: Write) -> None:
    counts: dict[object, int] = defaultdict(int)
    for value in (5, ["a"], {"b": 1}, None, True, "x\ud800y"):
        analysis = analysis_of(write([standard(i, long_id=value) for i in range(3)]))
        counts[str(value)] = analysis.tally.total
    assert set(counts.values()) == {3}


# -- every share of entries -------------------------------------------------------------------------------------


def blocked_and_failed() -> list[dict[str, Any]]:
    """Return rows of families in which variants end alike: blocks with a category, errors, unjudged entries."""
    rows = rows_of([[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0], [0]])
    for row, category in zip(rows[4:8], ["hate", "hate", "hate", "fraud"], strict=True):
        row |= {"guardrail": True, "guardrail_categories": {category: True}, "success": False}
    for row in rows[8:11]:
        row |= {"error": "HTTP 500", "response": ""}
    rows[11] |= {"success": None}
    return rows


def test_guardrail_categories_and_other_shares_have_the_intervals_of_families(write: Write) -> None:
    analysis = analysis_of(write(blocked_and_failed()))
    sizes = [4, 4, 4, 4, 1]
    by_name = {category.category: category.rate for category in analysis.guardrail_categories}
    assert by_name == {
        "hate": cluster_wilson([0, 3, 0, 0, 0], sizes).estimate,
        "fraud": cluster_wilson([0, 1, 0, 0, 0], sizes).estimate,
    }
    assert analysis.shares.errors == cluster_wilson([0, 0, 3, 0, 0], sizes).estimate
    assert analysis.shares.guardrail == cluster_wilson([0, 4, 0, 0, 0], sizes).estimate
    assert analysis.shares.unjudged == cluster_wilson([0, 0, 1, 0, 0], sizes).estimate


def test_gates_on_shares_are_judged_by_the_interval_of_the_report(write: Write, cli: Cli) -> None:
    path = write(blocked_and_failed())
    document = json.loads(cli("results", "analyze", path, "--output-format", "json").out)["analyses"][0]
    for figure in ("errors", "guardrail", "unjudged"):
        high = document["shares"][figure]["high"]
        codes = [
            cli("results", "analyze", path, "--errors", "ignore", "--fail-on", f"{figure}.high > {limit}").code
            for limit in (high - 1e-4, high + 1e-4)
        ]
        assert codes == [1, 0]
    group = document["breakdowns"]["jailbreak_type"][0]
    high, name = group["shares"]["errors"]["high"], group["value"]
    gate = f"jailbreak_type={name}: errors.high > "
    assert cli("results", "analyze", path, "--fail-on", f"{gate}{high - 1e-4}").code == 1
    assert cli("results", "analyze", path, "--fail-on", f"{gate}{high + 1e-4}").code == 0


def test_shrunken_rates_are_as_wide_as_their_families_make_them(write: Write) -> None:
    rows = rows_of([[1, 1, 1, 0, 0, 1], [0] * 6, [0, 1, 0, 0, 0, 0], [0] * 6, [1, 1, 0, 1, 0, 1]] * 4)
    groups = analysis_of(write(rows)).breakdowns["jailbreak_type"]
    plain = analysis_of(write(rows), cluster="none").breakdowns["jailbreak_type"]
    for group, other in some(zip(groups, plain, strict=True)):
        assert group.shrunk is not None and other.shrunk is not None
        assert group.shrunk.value == other.shrunk.value
        assert known(group.shrunk.high) >= known(other.shrunk.high)


# -- attacks in general -----------------------------------------------------------------------------------------


def test_the_rate_for_attacks_in_general_is_wider_than_that_for_these(write: Write, cli: Cli) -> None:
    path = write(rows_of(BALANCED))
    analysis = analysis_of(path, generalise="attacks")
    general = analysis.families.general
    assert general is not None and (general.field, general.values) == ("jailbreak_type", 4)
    assert general.rate.value == analysis.rates.asr.value
    assert known(general.rate.low) <= known(analysis.rates.asr.low) and known(general.rate.high) >= known(
        analysis.rates.asr.high
    )
    out = " ".join(cli("results", "analyze", path, "--generalise", "attacks").out.split())
    assert "for jailbreak types of this kind, of which 4 were tested" in out
    document = json.loads(cli("results", "analyze", path, "--generalise", "attacks", "--output-format", "json").out)
    assert document["analyses"][0]["families"]["general"]["values"] == 4
    refused = cli("results", "analyze", path, "--generalise", "lang")
    assert (refused.code, refused.out) == (2, "") and "all entries have one value here" in refused.err


def test_where_entries_are_independent_the_attacks_are_the_families(write: Write) -> None:
    general = analysis_of(write(rows_of(BALANCED)), cluster="none", generalise="jailbreak_type").families.general
    assert general is not None
    won = [sum(members[jailbreak] for members in BALANCED) for jailbreak in range(4)]
    assert general.rate == cluster_wilson(won, [6] * 4).estimate
