"""The groups of a field are read together: rates pulled in, differences marked only where they survive."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import false_discovery_control, fisher_exact

from faircount import as_report
from faircount.analysis import stands_out
from faircount.core import Analysis
from faircount.report import console
from faircount.stats import Stratum, exact_p_of_strata
from tests.conftest import Cli, Write, analysis_of, attack, some, standard
from tests.oracles import in_strata

SLICES_12 = ([9, 6, 5, 4, 4, 3, 3, 2, 2, 2, 1, 0], [10, 12, 20, 10, 30, 15, 40, 10, 25, 50, 20, 8])
"""Successes and sizes of the shared example eb_slices_12."""
SHRUNK_12 = [0.712218, 0.434829, 0.247832, 0.353802, 0.145378, 0.207682, 0.089547, 0.210436, 0.101403, 0.054414]
HOMOGENEOUS = ([2, 1, 3, 2, 2, 2, 1, 3, 2, 2], [10] * 10)


def rows_of(successes: Sequence[int], sizes: Sequence[int], **values: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for index, (won, size) in enumerate(zip(successes, sizes, strict=True)):
        for member in range(size):
            rows.append(standard(len(rows), plugin=f"p{index:02d}", success=member < won, **values))
    return rows


def test_groups_are_shrunk_as_in_the_worked_example(write: Write) -> None:
    analysis = analysis_of(write(rows_of(*SLICES_12)), sort="name")
    groups = analysis.breakdowns["plugin"]
    assert [group.shrunk.value for group in groups if group.shrunk][:10] == pytest.approx(SHRUNK_12, abs=1e-6)
    assert {group.shrunk.method for group in groups if group.shrunk} == {"empirical bayes"}
    assert analysis.slices["plugin"].shrinkage == "shrunk"


def test_groups_are_tested_against_the_rest_as_scipy_does(write: Write) -> None:
    successes, sizes = SLICES_12
    analysis = analysis_of(write(rows_of(*SLICES_12)), sort="name")
    won, total = sum(successes), sum(sizes)
    p_values = [
        fisher_exact([[k, n - k], [won - k, total - n - won + k]]).pvalue for k, n in zip(successes, sizes, strict=True)
    ]
    tests = [group.against_rest for group in analysis.breakdowns["plugin"]]
    assert [test.p for test in tests if test] == pytest.approx(p_values, rel=1e-7)
    adjusted = false_discovery_control(p_values)
    assert [test.adjusted_p for test in tests if test] == pytest.approx(list(adjusted), rel=1e-7)
    assert [index for index, test in enumerate(tests) if test and test.stands_out] == [0, 1, 9]


def sides(analysis: Analysis) -> dict[str | None, int]:
    """Return the groups that stand out, with the side on which they do."""
    return {group.value: stands_out(group) for group in analysis.breakdowns["plugin"] if stands_out(group)}


def test_groups_stand_out_above_or_below_the_rest_or_not_at_all(write: Write) -> None:
    assert sides(analysis_of(write(rows_of(*SLICES_12)))) == {"p00": 1, "p01": 1, "p09": -1}
    alike = analysis_of(write(rows_of(*HOMOGENEOUS)))
    assert (sides(alike), alike.slices["plugin"].untested) == ({}, None)


def test_few_groups_stand_out_by_their_raw_rates_as_scipy_has_them(write: Write) -> None:
    successes = [180, 100, 20, 2]
    analysis = analysis_of(write(rows_of(successes, [200] * 4)))
    rest = [sum(successes) - won for won in successes]
    p = [fisher_exact([[k, 200 - k], [r, 600 - r]]).pvalue for k, r in zip(successes, rest, strict=True)]
    assert max(false_discovery_control(p)) < 0.05
    above = [1 if k / 200 > r / 600 else -1 for k, r in zip(successes, rest, strict=True)]
    assert sides(analysis) == {f"p{index:02d}": side for index, side in enumerate(above)}
    assert above == [1, 1, -1, -1]


def test_entries_without_a_value_are_tested_but_no_row_of_the_table(write: Write, cli: Cli) -> None:
    rows = rows_of([95, 10, 10], [100] * 3)
    path = write([row | {"plugin": None} if row["plugin"] == "p00" else row for row in rows])
    missing = analysis_of(path).breakdowns["plugin"][0]
    assert missing.value is None and missing.against_rest is not None and missing.against_rest.stands_out
    out = cli("results", "analyze", path).out
    table = out[out.index("Breakdown by plugin") : out.index("Limits of")]
    assert [line.split()[0] for line in table.splitlines() if line.startswith("  p")] == ["p01", "p02"]
    assert "(none)" not in table
    told = " ".join(table.split())
    assert "Not in the table: 100 entries without a value, 95.0% [88.8, 97.8]." in told
    assert "Benjamini-Hochberg for all 3 groups of this report" in told


def test_a_field_with_one_value_has_no_table_unless_it_is_asked_for(write: Write, cli: Cli) -> None:
    rows = rows_of([5, 20], [30, 30], lang="en")
    path = write([row | {"plugin": None} if row["plugin"] == "p01" else row for row in rows])
    assert "Breakdown by" not in cli("results", "analyze", path).out
    asked = cli("results", "analyze", path, "--by", "plugin", "--by", "lang").out
    assert "Breakdown by plugin" in asked and "Breakdown by language" in asked
    told = analysis_of(path).breakdowns
    assert [group.value for group in told["plugin"]] == [None, "p00"] and [group.value for group in told["lang"]] == [
        "en"
    ]


def test_a_field_that_splits_the_entries_as_another_does_has_its_table_with_it(write: Write, cli: Cli) -> None:
    rows = rows_of([5, 20], [30, 30])
    path = write([{**row, "suffix_id": f"s-{row['plugin']}"} for row in rows])
    analysis = analysis_of(path)
    assert {field: found.same_as for field, found in analysis.slices.items() if found.same_as} in (
        {"plugin": "suffix_id"},
        {"suffix_id": "plugin"},
    )
    out = cli("results", "analyze", path).out
    assert out.count("Breakdown by") == 1
    title = next(line for line in out.splitlines() if line.startswith("Breakdown by"))
    assert {"plugin", "suffix"} <= set(title.split())


def test_groups_that_differ_no_more_than_by_chance_have_the_pooled_rate(write: Write) -> None:
    analysis = analysis_of(write(rows_of(*HOMOGENEOUS)))
    assert analysis.slices["plugin"].shrinkage == "pooled"
    assert {group.shrunk.value for group in analysis.breakdowns["plugin"] if group.shrunk} == {0.2}


def test_fewer_than_five_groups_are_not_shrunk(write: Write) -> None:
    analysis = analysis_of(write(rows_of([9, 1, 2], [10, 10, 10])))
    assert analysis.slices["plugin"].shrinkage == "few"
    assert [group.shrunk for group in analysis.breakdowns["plugin"]] == [None] * 3
    assert all(group.against_rest for group in analysis.breakdowns["plugin"])


def test_the_level_is_that_of_the_claims_too(write: Write) -> None:
    path = write(rows_of([7, 2, 3, 3, 3], [10] * 5))
    marked = {
        level: [
            group.value
            for group in analysis_of(path, level=level).breakdowns["plugin"]
            if group.against_rest and group.against_rest.stands_out
        ]
        for level in (0.7, 0.95)
    }
    assert marked == {0.7: ["p00"], 0.95: []}


def test_a_single_group_has_nothing_to_be_compared_with(write: Write) -> None:
    slices = analysis_of(write(rows_of([3], [9]))).slices["plugin"]
    assert slices.untested == "A single group has nothing to be compared with."


def test_attacks_are_not_tested_since_they_follow_from_failures(write: Write) -> None:
    rows = [standard(i, success=i < 20) for i in range(60)]
    rows += [attack(i, success=i % 4 == 0) for i in range(20, 60)]
    analysis = analysis_of(write(rows))
    assert "that had resisted" in str(analysis.slices["attack_name"].untested)
    assert {group.against_rest for group in analysis.breakdowns["attack_name"]} == {None}


def test_what_families_do_not_vary_in_is_not_tested(write: Write) -> None:
    rows = [
        standard(
            i,
            long_id=f"document_d_j-{i % 6}_{'ab'[i // 6 % 2]}-{i // 12}_end",
            document_id="d",
            position="end",
            instruction_type="ab"[i // 6 % 2],
            jailbreak_type=f"j-{i % 6}",
            success=i // 6 % 2 == 0,
        )
        for i in range(120)
    ]
    analysis = analysis_of(write(rows))
    assert analysis.families.count == 20
    assert "each family has a single value here" in str(analysis.slices["instruction_type"].untested)
    assert "all entries ended alike" in str(analysis.slices["jailbreak_type"].untested)
    for row in rows[::7]:
        row["success"] = not row["success"]
    assert analysis_of(write(rows)).slices["jailbreak_type"].untested is None
    assert analysis_of(write(rows), cluster="none").slices["instruction_type"].untested is None


def test_more_groups_than_can_be_read_together_are_left_as_they_are(write: Write) -> None:
    rows = [standard(i, plugin=f"p{i % 1005}") for i in range(1010)] + [standard(2_000)]
    analysis = analysis_of(write(rows))
    found, groups = analysis.slices["plugin"], analysis.breakdowns["plugin"]
    assert (found.shrinkage, found.left_out) == ("many", 5)
    assert groups[0].shrunk is None
    # The largest are kept, of equals those that came first; entries without a value are always counted.
    assert {group.value for group in groups if group.tally.total == 2} == {f"p{i}" for i in range(5)}
    assert len(groups) == 1001 and {"p5", "p999", None} <= {group.value for group in groups}
    assert "p1000" not in {group.value for group in groups}
    shown = " ".join(console.render(as_report([analysis])).split())
    assert "960 more groups in the JSON output. Not listed: 5 smaller groups." in shown


def test_of_very_many_categories_and_kinds_of_error_the_most_frequent_are_listed(write: Write) -> None:
    rows = [
        standard(i, guardrail=True, success=False, guardrail_categories={f"c{max(i, 3)}": True}) for i in range(1_004)
    ]
    rows += [
        standard(f"e{i}", success=False, response="", error=f"lost {chr(65 + i % 26) * (1 + i // 26)}")
        for i in range(1_002)
    ]
    analysis = analysis_of(write(rows))
    assert (len(analysis.guardrail_categories), analysis.categories_left_out) == (1_000, 1)
    assert (analysis.guardrail_categories[0].category, analysis.guardrail_categories[0].entries) == ("c3", 4)
    assert (len(analysis.errors), analysis.errors_left_out) == (1_000, 2)
    shown = " ".join(console.render(as_report([analysis])).split())
    assert "960 more categories in the JSON output. Not listed: 1 of the rarest." in shown


def test_combinations_are_ranked_by_their_shrunken_rates(write: Write) -> None:
    path = write(rows_of([1, 9, 3, 2, 4, 1], [1, 12, 30, 40, 50, 20]))
    found = analysis_of(path).combinations
    assert found.shrinkage == "shrunk"
    assert [dict(group.values)["plugin"] for group in found.most][:2] == ["p01", "p00"]
    assert all(group.shrunk for group in (*found.most, *found.least))
    groups = {group.value: group.shrunk for group in analysis_of(path).breakdowns["plugin"]}
    assert {dict(group.values)["plugin"]: group.shrunk for group in found.most} == groups
    raw = analysis_of(path, definition="spikee").combinations
    assert [dict(group.values)["plugin"] for group in raw.most][:2] == ["p00", "p01"]
    assert raw.most[0].shrunk is None


def test_combinations_that_differ_by_chance_alone_share_one_rate(write: Write) -> None:
    found = analysis_of(write(rows_of(*HOMOGENEOUS))).combinations
    assert found.shrinkage == "pooled"
    assert {group.shrunk.value for group in found.most if group.shrunk} == {0.2}


def test_groups_can_be_sorted_by_their_shrunken_rate(write: Write) -> None:
    path = write(rows_of([1, 9, 3, 2, 4, 1], [1, 12, 30, 40, 50, 20]))
    assert [group.value for group in analysis_of(path).breakdowns["plugin"]][:2] == ["p00", "p01"]
    assert [group.value for group in analysis_of(path, sort="shrunk").breakdowns["plugin"]][:2] == ["p01", "p00"]


def test_the_table_names_the_marked_groups_and_the_method(write: Write, cli: Cli) -> None:
    out = cli("results", "analyze", write(rows_of(*SLICES_12)), "--by", "plugin").out
    table = out[out.index("Breakdown by plugin") : out.index("Limits of")]
    lines = {line.split()[0]: line for line in table.splitlines() if line.startswith("  p")}
    successes, sizes = SLICES_12
    for value, index in (("p00", 0), ("p01", 1), ("p09", 9)):
        won, n = successes[index], sizes[index]
        apart = 100 * (won / n - (sum(successes) - won) / (sum(sizes) - n))
        assert f"{apart:+.1f} points " in lines[value]
    assert ("+76.7 points" in lines["p00"], "-15.5 points" in lines["p09"]) == (True, True)
    assert sum("points" in line for line in lines.values()) == 3
    assert "Shrunk: empirical Bayes, beta-binomial." in out
    assert "Fisher's exact test, judged entries, Benjamini-Hochberg for all 12 groups" in " ".join(out.split())


def test_a_table_without_a_difference_says_so(write: Write, cli: Cli) -> None:
    out = " ".join(cli("results", "analyze", write(rows_of(*HOMOGENEOUS)), "--by", "plugin").out.split())
    assert "None differs from the rest by more than chance" in out
    assert "the groups differ no more than chance explains, so all get the pooled rate" in out
    assert "points" not in out


def test_json_tells_how_groups_were_read(write: Write, cli: Cli) -> None:
    out = cli("results", "analyze", write(rows_of(*SLICES_12)), "--output-format", "json").out
    (analysis,) = json.loads(out)["analyses"]
    assert analysis["slices"]["plugin"] == {
        "shrinkage": "shrunk",
        "untested": None,
        "same_as": None,
        "left_out": 0,
    }
    first = analysis["breakdowns"]["plugin"][0]
    assert first["shrunk"]["method"] == "empirical bayes"
    assert first["against_rest"]["stands_out"] is True


def in_families(outcomes: Sequence[tuple[str, str, bool | None]]) -> list[dict[str, Any]]:
    """Return rows of (instruction, plugin, success); None is an error."""
    return [
        standard(
            i,
            long_id=f"document_d_j-{i}_{family}_end",
            document_id="d",
            position="end",
            instruction_type=family,
            jailbreak_type=f"j-{i}",
            plugin=plugin,
            success=bool(success),
            **({"error": "HTTP 400", "response": ""} if success is None else {}),
        )
        for i, (family, plugin, success) in enumerate(outcomes)
    ]


def drawn(seed: int, families: int, variants: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    rates = [draw.random() for _ in range(families)]
    return in_families(
        [
            (f"i-{family}", f"p{draw.randrange(3)}", None if draw.random() < 0.2 else draw.random() < rates[family])
            for family in range(families)
            for _ in range(draw.choice([1, variants]))
        ]
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("families", "variants"), [(6, 9), (40, 30)], ids=["exact", "chi-square"])
@pytest.mark.parametrize("few_rows", [0, 20_000], ids=["summed in SQL", "summed here"])
def test_groups_in_families_are_tested_on_judged_entries_as_their_strata_say(
    seed: int, families: int, variants: int, few_rows: int, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faircount.ledger.tallies._SUMMED_HERE_UP_TO_ROWS", few_rows)
    rows = drawn(seed, families, variants)
    counted: dict[str, Counter[str]] = {}
    sizes = Counter(row["instruction_type"] for row in rows)
    for row in rows:
        if row.get("error"):
            continue
        family = row["instruction_type"] if sizes[row["instruction_type"]] > 1 else "alone"
        cells = counted.setdefault(family, Counter())
        cells[row["plugin"]] += 1
        cells[f"{row['plugin']} won"] += row["success"]
    plugins = ("p0", "p1", "p2")
    for group in some(analysis_of(write(rows)).breakdowns["plugin"]):
        value = str(group.value)
        strata = [
            Stratum(
                c[value],
                c[f"{value} won"],
                sum(c[p] for p in plugins),
                sum(c[f"{p} won"] for p in plugins),
                alone=name == "alone",
            )
            for name, c in counted.items()
        ]
        expected, test = in_strata(strata), group.against_rest
        assert test is not None
        assert (test.difference, test.p) == pytest.approx((expected.difference, expected.p), rel=1e-9)
        assert (test.p == exact_p_of_strata(strata)) == (families == 6)
        assert (test.families, test.above, test.below) == (expected.families, expected.above, expected.below)


def test_errors_are_no_failures_where_groups_are_compared(write: Write, cli: Cli) -> None:
    """A group of which hardly any entry was answered says hardly anything: nobody asked its prompts."""
    rows = rows_of([40, 45, 4], [100, 100, 100])
    errors = [row["id"] for row in rows if row["plugin"] == "p02" and not row["success"]][:86]
    rows = [row | {"error": "HTTP 400", "response": ""} if row["id"] in errors else row for row in rows]
    path = write(rows)
    assert sides(analysis_of(path)) == {}
    table = cli("results", "analyze", path, "--by", "plugin").out
    assert re.search(r"Value +Total +Successes +Rate +Errors", table)
    assert re.search(r"p02 +100 +4 .* 86\b", table)


def test_blocks_and_errors_are_told_in_a_narrow_table_too(write: Write) -> None:
    rows = rows_of([30, 5], [60, 60])
    for row in rows[100:110]:
        row |= {"guardrail": True}
    only_blocks = console.render(as_report([analysis_of(write(rows), by=("plugin",))]), width=80)
    assert re.search(r"Value .* Guardrail", only_blocks) and "Not judged" not in only_blocks
    for row in rows[110:]:
        row |= {"error": "HTTP 500", "response": ""}
    both = console.render(as_report([analysis_of(write(rows), by=("plugin",))]), width=72)
    assert re.search(r"p01 +60 +5 .* 20\b", both)
    assert "Not judged: errors, blocks and unjudged entries." in " ".join(both.split())


def test_all_fields_of_a_report_are_adjusted_together(write: Write) -> None:
    rows = [row | {"lang": f"l{int(row['id']) % 7}"} for row in rows_of(*SLICES_12)]
    groups = [group for found in analysis_of(write(rows)).breakdowns.values() for group in found]
    tests = [group.against_rest for group in groups if group.against_rest and group.against_rest.p is not None]
    assert len(tests) == 19
    theirs = false_discovery_control([test.p for test in tests])
    assert [test.adjusted_p for test in tests] == pytest.approx(list(theirs), rel=1e-7)


def test_a_group_in_families_says_in_how_many_of_them_it_is_so(write: Write, cli: Cli) -> None:
    outcomes = [
        (f"i-{family}", f"p{plugin}", (plugin == 0) == (family < 6))
        for family in range(7)
        for plugin in range(2)
        for _ in range(10)
    ]
    path = write(in_families(outcomes))
    (group,) = (group for group in analysis_of(path).breakdowns["plugin"] if group.value == "p0")
    test = group.against_rest
    assert test is not None and (test.families, test.above, test.below) == (7, 6, 1)
    assert test.difference == pytest.approx(5 / 7)
    out = cli("results", "analyze", path, "--by", "plugin").out
    assert re.search(r"p0 .*\+71\.4 points +6 of 7", out) and re.search(r"p1 .*-71\.4 points +6 of 7", out)
    assert "Mantel-Haenszel test inside these 7 families" in " ".join(out.split())
    document = json.loads(cli("results", "analyze", path, "--output-format", "json").out)
    assert document["analyses"][0]["breakdowns"]["plugin"][0]["against_rest"]["families"] == 7


CLAIMS = {
    "aws_bedrock_guardrail-targeted-2024-12-document": (2, 2),
    "aws_claude_35_haiku-targeted-2024-12-full-prompt": (9, 9),
    "aws_claude_35_sonnet-targeted-2024-12-full-prompt": (6, 6),
    "az_gpt4o-targeted-2024-12-full-prompt-sys": (13, 13),
    "az_gpt4o-targeted-2024-12-full-prompt": (7, 7),
    "az_prompt_shields-targeted-2024-12-document": (2, 1),
    "openai_o1-preview-targeted-2024-12-full-prompt": (7, 3),
    "prompt_guard_jailbreak-targeted-2024-12-document": (8, 9),
    "together_gemma2_8b-targeted-2024-12-full-prompt": (4, 0),
}
"""Groups of published files that stood out, when errors counted as failures and fields by themselves, and now."""


def test_claims_about_published_files_are_those_of_the_changelog(shared: Path) -> None:
    for name, (_, now) in CLAIMS.items():
        (path,) = (shared / "data/spikee-v0.1").glob(f"results_{name}_[0-9]*.jsonl")
        analysis = analysis_of(str(path))
        named = [(field, g.value) for field, found in analysis.breakdowns.items() for g in found if stands_out(g)]
        assert len(named) == now, name
        if "o1-preview" in name:
            assert named[0] == ("jailbreak_type", "ignore")
            (dan,) = (group for group in analysis.breakdowns["jailbreak_type"] if group.value == "dan")
            assert (dan.tally.success, dan.tally.judged, dan.tally.total) == (6, 19, 112)
            # Over all entries it lay 43 points below the rest, over judged ones 13, which is chance.
            assert dan.against_rest is not None and dan.against_rest.difference == pytest.approx(-0.125, abs=5e-4)
