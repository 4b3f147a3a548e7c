"""The groups of a field are read together: rates pulled in, differences marked only where they survive."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from scipy.stats import false_discovery_control, fisher_exact

from faircount.analysis.slices import stands_out
from faircount.model import Analysis
from tests.conftest import Cli, Write, analysis_of, attack, standard

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
    assert (sides(alike), alike.slices["plugin"].untested) == ({}, "")


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
    assert "Benjamini-Hochberg for 3 groups" in told


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
    assert "that had resisted" in analysis.slices["attack_name"].untested
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
    assert "each family has only one value" in analysis.slices["instruction_type"].untested
    assert "all entries ended alike" in analysis.slices["jailbreak_type"].untested
    for row in rows[::7]:
        row["success"] = not row["success"]
    assert analysis_of(write(rows)).slices["jailbreak_type"].untested == ""
    assert analysis_of(write(rows), cluster="none").slices["instruction_type"].untested == ""


def test_more_groups_than_can_be_read_together_are_left_as_they_are(write: Write) -> None:
    rows = [standard(i, plugin=f"p{i}") for i in range(1001)]
    analysis = analysis_of(write(rows))
    assert analysis.slices["plugin"].shrinkage == "many"
    assert analysis.breakdowns["plugin"][0].shrunk is None


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
    assert "Fisher's exact test, Benjamini-Hochberg for 12 groups" in " ".join(out.split())


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
    }
    first = analysis["breakdowns"]["plugin"][0]
    assert first["shrunk"]["method"] == "empirical bayes"
    assert first["against_rest"]["stands_out"] is True
