"""`results compare`: which entries are pairs, what may be claimed, what flipped, and what could not be paired."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import openpyxl
import pytest
from bench.generate import write_results

from faircount.analysis import CompareOptions, Comparison, compare_files
from faircount.analysis.compare.model import Pair
from faircount.analysis.compare.report import as_report
from faircount.core import Estimate, InputError, Passage, UsageError
from faircount.report import (
    Column,
    Difference,
    Differences,
    Evidence,
    Exhibit,
    Grid,
    Label,
    Place,
    Points,
    Record,
    Report,
    Section,
    console,
    html,
    markdown,
)
from faircount.report import (
    svg as figure,
)
from tests.analysis.test_xlsx_analysis import sheet_of, values
from tests.conftest import Cli, Lines, Write, attack, document_of, standard
from tests.oracles import known, oracle
from tests.runs.run_files import HEADER, attempt, case, entry, report, unanswered

SCHEMA = json.loads(resources.files("faircount.report").joinpath("schemas", "comparison-2.json").read_text("utf-8"))
HOSTILE = "\x1b]0;owned\x07\u202e<script>alert(1)</script>|`x`"


def result(number: int | str, success: bool | None = False, **values: Any) -> dict[str, Any]:
    return standard(number, **{"success": success, **values})


def many(successes: Iterable[int], n: int = 100, **values: Any) -> list[dict[str, Any]]:
    won = set(successes)
    return [result(number, number in won, **values) for number in range(n)]


def compared(write: Write, *files: Lines, **options: Any) -> Comparison:
    paths = [write(lines, f"results_{place}.jsonl") for place, lines in enumerate(files)]
    comparison = compare_files(paths, CompareOptions(**options))
    jsonschema.Draft202012Validator(SCHEMA).validate(document_of(comparison))
    return comparison


def only(comparison: Comparison) -> Pair:
    (pair,) = comparison.pairs
    return pair


def left_out(pair: Pair, side: str) -> dict[str, int]:
    return {reason: found.count for reason, found in getattr(pair.unpaired, side).items() if found.count}


def cells(pair: Pair) -> tuple[int, int, int, int]:
    return pair.both, pair.only_a, pair.only_b, pair.neither


# -- pairs ------------------------------------------------------------------------------------------------------


def test_entries_are_paired_by_id_and_prompt_whatever_their_order(write: Write) -> None:
    a = [result(1, True), result(2), result("x", True), result(4)]
    pair = only(compared(write, a, [result("x"), result(4, True), result("2"), result("1", True)]))
    assert cells(pair) == (1, 1, 1, 1)
    assert pair.fixed.ids == ("x",) and pair.broken.ids == ("4",)


def test_words_as_ids_are_paired_though_each_file_numbers_them_its_own_way(write: Write) -> None:
    names = [f"case-{number}" for number in range(40)]
    a, b = ([result(name, name.endswith(end)) for name in order] for order, end in ((names, "1"), (names[::-1], "2")))
    assert cells(only(compared(write, a, b))) == (0, 4, 4, 32)


def test_errors_and_what_nobody_judged_are_in_no_pair_and_are_told(write: Write) -> None:
    a = [result(1, True), result(2, error="HTTP 503"), result(3, None), result(4), result(5), result(6, error="x")]
    b = [result(1), result(2, True), result(3, True), result(4, error="x"), result(7), result(6, error="x")]
    pair = only(compared(write, a, b))
    assert cells(pair) == (0, 1, 0, 0)
    assert left_out(pair, "a") == {"missing": 1, "error": 2, "unjudged": 1, "other_unanswered": 1}
    assert left_out(pair, "b") == {"missing": 1, "error": 2, "other_unanswered": 2}


def test_a_block_is_an_answer(write: Write) -> None:
    blocked = result(1, error="Guardrail was triggered", guardrail=True)
    assert cells(only(compared(write, [blocked, result(2, True)], [result(1, True), result(2, True)]))) == (1, 0, 1, 0)


def test_what_is_left_out_and_what_is_paired_are_all_entries(write: Write) -> None:
    a = [result(1), result(1, input="another"), result(2), result(3, error="x"), result(4, input="other"), result(5)]
    b = [result(1), result(2), result(3), result(4), result(4, input="more"), result(9)]
    comparison = compared(write, a, b)
    pair = only(comparison)
    for side, file in zip("ab", comparison.files, strict=True):
        assert sum(left_out(pair, side).values()) + pair.paired == file.tally.total


def test_an_id_that_stands_for_another_prompt_is_another_entry(write: Write) -> None:
    a, b = [result(1, True), result(2)], [result(1, input="something else"), result(2, True)]
    pair = only(compared(write, a, b))
    assert cells(pair) == (0, 0, 1, 0)
    assert left_out(pair, "a") == left_out(pair, "b") == {"other_content": 1}
    assert any("--match id" in note for note in pair.notes)
    assert cells(only(compared(write, a, b, match="id"))) == (0, 1, 1, 0)


def test_a_prompt_that_is_written_in_another_way_is_the_same(write: Write) -> None:
    a = [result(number, number < 3, input=f"prüfe {number} </a>") for number in range(60)]
    b = [json.dumps(row, ensure_ascii=False).replace("/", "\\/") for row in a]
    changed = json.dumps(result(60, input="prüfe 61"), ensure_ascii=False)
    pair = only(compared(write, [*a, result(60, input="prüfe 60")], [*b, changed]))
    assert cells(pair) == (3, 0, 0, 57)
    assert left_out(pair, "a") == {"other_content": 1}
    attacks = [attack(1, success=True, objective="täusche")]
    assert cells(only(compared(write, attacks, [json.dumps(attacks[0], ensure_ascii=False)]))) == (1, 0, 0, 0)


def test_where_no_prompt_is_recorded_the_id_must_do(write: Write) -> None:
    a = [{"id": 1, "success": True, "response": "x"}, {"id": 2, "success": False, "response": "x"}]
    assert cells(only(compared(write, a, [result(1), result(2)]))) == (0, 1, 0, 1)
    assert cells(only(compared(write, a, a[::-1]))) == (1, 0, 0, 1)


def own_prompts(on: str, n: int = 100, same: int = 9, **values: Any) -> list[dict[str, Any]]:
    """Return entries whose prompts were made for a target, but for a few."""
    return [result(m, m % 3 == len(on), input=f"{'' if m < same else on} goal {m}", **values) for m in range(n)]


def test_prompts_that_were_made_for_each_target_are_paired_by_id_with_a_finding(write: Write, cli: Cli) -> None:
    a, b = own_prompts("x"), own_prompts("yy")
    comparison = compared(write, a, b)
    pair = only(comparison)
    assert pair.paired == 100
    (doubt,) = comparison.findings
    assert (doubt.code, doubt.count, doubt.severity.value) == ("F038", 100, "warning")
    assert "prompts are the same for only 9 of them; --match prompt" in doubt.message
    assert doubt.where[0].endswith("results_0.jsonl:1")
    asked = compared(write, a, b, match="id")
    assert asked.findings == () and only(asked) == pair
    old = compared(write, a, b, match="prompt")
    assert old.findings == () and only(old).paired == 9
    ran = cli("results", "compare", *comparison.paths)
    assert "warning F038  100 entries of 0 and 1 paired by their ids alone" in ran.out


@pytest.mark.parametrize(
    ("a", "b", "pairs"),
    [
        (own_prompts("x", same=50), own_prompts("yy", same=50), 50),
        # Of 100 entries 40 have the same prompt, and 60 the same id.
        (own_prompts("x", same=40), [*own_prompts("yy", 60, same=40), *many([], 140)[100:]], 40),
        # The ids are in both, and a field says that they stand for other things.
        (
            [row | {"lang": f"l{n % 7}"} for n, row in enumerate(own_prompts("x"))],
            [row | {"lang": f"l{n % 5}"} for n, row in enumerate(own_prompts("yy"))],
            9,
        ),
    ],
    ids=["half of the prompts match", "ids match hardly better", "a field differs"],
)
def test_entries_are_not_paired_by_id_where_it_is_not_clear(
    write: Write, a: list[dict[str, Any]], b: list[dict[str, Any]], pairs: int
) -> None:
    comparison = compared(write, a, b)
    assert only(comparison).paired == pairs
    assert comparison.findings == ()


def test_a_field_that_agrees_shows_that_ids_mean_the_same(write: Write) -> None:
    a, b = (
        [row | {"lang": f"l{n % 7}", "plugin": f"{on}{n % 2}"} for n, row in enumerate(own_prompts(on))]
        for on in ("x", "yy")
    )
    assert only(compared(write, a, b)).paired == 100


@pytest.mark.shared
def test_artifacts_of_jailbreakbench_are_paired_by_behaviour(write: Write, shared: Path) -> None:
    """Llama 2 and Vicuna under PAIR, which writes prompts for each: rates of 0% and 69%, as published."""
    folder = shared / "golden" / "jailbreakbench" / "PAIR" / "black_box"
    files = []
    for name in ("llama-2-7b-chat-hf", "vicuna-13b-v1.5"):
        artifact = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        assert len(artifact["jailbreaks"]) == 100
        files.append([jailbreak(item) for item in artifact["jailbreaks"]])
        published = artifact["parameters"]["attack_success_rate"]
        assert sum(row["success"] for row in files[-1]) == round(100 * published)
    comparison = compared(write, *files)
    assert [item.code for item in comparison.findings] == ["F038"]
    assert only(comparison).paired == 100
    assert only(comparison).claimed == "higher"
    old = only(compared(write, *files, match="prompt"))
    assert old.paired < 50 and not old.claimed


def jailbreak(item: dict[str, Any]) -> dict[str, Any]:
    prompt = item["prompt"] or {"sha256": "none found"}
    return result(item["index"], bool(item["jailbroken"]), input=json.dumps(prompt), category=item["category"])


def test_cases_under_one_id_are_told_apart_by_their_prompts(write: Write) -> None:
    a = [result(1, True, input="one"), result(1, input="two")]
    b = [result(1, input="two"), result(1, input="one")]
    assert cells(only(compared(write, a, b))) == (0, 1, 0, 1)
    by_id = only(compared(write, a, b, match="id"))
    assert left_out(by_id, "a") == {"repeated": 2}


def test_dynamic_attacks_are_folded_into_their_entries(write: Write) -> None:
    a = [result(1), attack(1, success=True), result(2), attack(2, success=False)]
    b = [result(1), result(2, True)]
    assert cells(only(compared(write, a, b))) == (0, 1, 1, 0)


def test_attacks_alone_are_known_by_their_objective(write: Write) -> None:
    a = [attack(number, success=number < 3, objective=f"goal {number}") for number in range(5)]
    same = [attack(number, success=False, objective=f"goal {number}") for number in range(5)]
    other = [attack(number, success=False, objective=f"aim {number}") for number in range(5)]
    assert cells(only(compared(write, a, same))) == (0, 3, 0, 2)
    pair = only(compared(write, a, other))
    assert not pair.shares_entries and left_out(pair, "a") == {"other_content": 5}


def test_attacks_alone_out_of_the_cache_are_still_known_by_their_objective(write: Write) -> None:
    a, b = (
        [
            attack(number, success=number % 9 < won, objective=f"goal {number}", response="x" * 200)
            for number in range(17_000)
        ]
        for won in (3, 2)
    )
    paths = [write(a, "results_a.jsonl"), write(b, "results_b.jsonl")]
    anew, again = compare_files(paths), compare_files(paths)
    assert cells(only(anew)) == cells(only(again)) == (3778, 1889, 0, 11333)


def test_files_that_share_no_entry_are_compared_as_different_ones_and_say_so(write: Write) -> None:
    pair = only(compared(write, many(range(30)), [result(1000 + number, number < 10) for number in range(100)]))
    assert not pair.shares_entries and pair.paired == 0
    assert "share no entry" in pair.notes[0]
    low, high = (abs(100 * known(limit)) for limit in (pair.difference.high, pair.difference.low))
    assert pair.claim == f"1 is 20.0 points lower than 0 (95% interval {low:.1f}–{high:.1f} points)."


def test_a_comparison_of_few_of_the_entries_says_so(write: Write) -> None:
    b = [result(number, input="changed") if number < 60 else result(number) for number in range(100)]
    pair = only(compared(write, many([]), b, match="prompt"))
    assert any("Only 40 of 100 answered entries" in note for note in pair.notes)


def test_packed_files_and_large_files_are_compared_alike(tmp_path: Path) -> None:
    paths = [tmp_path / f"results_{seed}.jsonl" for seed in (1, 2)]
    for seed, path in enumerate(paths, start=1):
        write_results(path, 14_000, seed=seed)
    packed = tmp_path / "results_2.jsonl.gz"
    packed.write_bytes(gzip.compress(paths[1].read_bytes(), 1))
    names = [str(path) for path in paths]
    plain, cached = (compare_files(names, CompareOptions(match="id")) for _ in range(2))
    other = compare_files([names[0], str(packed)], CompareOptions(match="id"))
    for comparison in (cached, other):
        assert only(comparison).difference == only(plain).difference
        assert only(comparison).by == only(plain).by
        assert only(comparison).fixed.ids == only(plain).fixed.ids


# -- claims -----------------------------------------------------------------------------------------------------


def test_a_difference_is_claimed_in_words(write: Write) -> None:
    pair = only(compared(write, many(range(50), 400), many(range(41, 59), 400)))
    assert pair.claim == ("1 is 8.0 points lower than 0 (95% interval 4.7–11.6 points); 41 entries fixed, 9 broken.")
    assert pair.claimed == "lower"


def test_no_claim_says_what_could_have_been_shown(write: Write) -> None:
    pair = only(compared(write, many(range(20), 200), many(range(8, 26), 200)))
    assert pair.claimed is None and pair.detectable is not None
    shown = f"{100 * pair.detectable:.1f} points"
    assert pair.claim == (
        "No difference between 0 and 1 can be claimed; "
        f"this comparison could have shown {shown}; 8 entries fixed, 6 broken."
    )


def test_an_interval_that_leaves_out_0_is_no_claim_if_the_exact_test_disagrees(write: Write) -> None:
    pair = only(compared(write, many(range(5)), many([])))
    assert pair.difference.high is not None and pair.difference.high < 0
    assert pair.p == pytest.approx(0.0625) and pair.claimed is None


def test_files_without_a_pair_of_answers_claim_nothing(write: Write) -> None:
    pair = only(compared(write, [result(1, True), result(2, error="x")], [result(1, error="x"), result(2, True)]))
    assert pair.shares_entries and pair.difference.value is None
    assert pair.claim == "No difference between 0 and 1 can be claimed: no entry was answered by both."


def test_too_few_entries_could_have_shown_nothing(write: Write) -> None:
    pair = only(compared(write, [result(1, True)], [result(1)]))
    assert "too few entries to show any" in pair.claim


def test_families_widen_the_interval_and_can_undo_a_claim(write: Write) -> None:
    # 3 of 20 families changed, each as a whole.
    a = [result(number, number < 30, long_id=f"case{number // 10}") for number in range(200)]
    b = [result(number, False, long_id=f"case{number // 10}") for number in range(200)]
    respected, ignored = only(compared(write, a, b)), only(compared(write, a, b, cluster="none"))
    assert ignored.claimed == "lower" and ignored.families is None
    assert respected.claimed is None and respected.families == 20
    assert "20 families" in respected.families_told
    asked = [{**row, "plugin": row["long_id"]} for row in a], [{**row, "plugin": row["long_id"]} for row in b]
    assert only(compared(write, *asked, cluster="plugin")).families == 20


def test_many_pairs_of_files_ask_for_more(write: Write) -> None:
    base = many(range(7))
    assert only(compared(write, base, many([]))).claimed == "lower"
    several = compared(write, base, many([]), many(range(7)), many(range(6)), many(range(5)))
    first = several.pairs[0]
    assert first.adjusted_p == pytest.approx(4 * known(first.p)) and first.claimed is None
    assert first.claim.startswith("No difference between 0 and 1 can be claimed")
    assert several.overall is not None and several.overall.entries == 100


@pytest.mark.parametrize("count", [2, 3, 4, 6])
def test_few_files_are_compared_with_each_other_and_many_with_the_baseline(write: Write, count: int) -> None:
    several = compared(write, *(many(range(10 * won)) for won in range(count)))
    each = [(a, b) for b in range(count) for a in range(b)]
    expected = each if count <= 3 else [pair for pair in each if pair[0] == 0]
    paths = several.paths
    assert [(pair.a, pair.b) for pair in several.pairs] == [(paths[a], paths[b]) for a, b in sorted(expected)]
    told = document_of(several)
    assert [file["label"] for file in told["files"]] == [str(place) for place in range(count)]
    assert [pair["labels"] for pair in told["pairs"]] == [[str(a), str(b)] for a, b in sorted(expected)]


def test_files_are_called_by_what_tells_them_apart(write: Write) -> None:
    names = (
        "results_gpt_4o-targeted-2024-12-full-prompt_1734598785.jsonl",
        "results_llama-targeted-2024-12-full-prompt_1734604799.jsonl",
    )
    paths = [write(many(range(won)), name) for won, name in zip((40, 10), names, strict=True)]
    comparison = compare_files(paths)
    assert [file.label for file in comparison.files] == ["gpt_4o", "llama"]
    assert only(comparison).claim.startswith("llama is 30.0 points lower than gpt_4o (")
    called = compare_files(paths, labels=["before", "after"])
    assert only(called).claim.startswith("after is 30.0 points lower than before (")
    assert called.pairs[0].labels == ("before", "after")


def test_the_baseline_comes_first_wherever_it_stands(write: Write) -> None:
    paths = [write(many(range(won)), f"results_{won}.jsonl") for won in (10, 40)]
    comparison = compare_files(paths, CompareOptions(baseline=paths[1]))
    assert comparison.paths == (paths[1], paths[0])
    assert only(comparison).claim.startswith("10 is 30.0 points lower than 40 (")
    assert compare_files(paths[:1], CompareOptions(baseline=paths[1])).paths == (paths[1], paths[0])


# -- groups -----------------------------------------------------------------------------------------------------


def test_differences_are_shown_where_they_lie(write: Write) -> None:
    a = [result(n, n % 2 == 0, plugin="x" if n % 2 == 0 else "y", lang="en") for n in range(80)]
    b = [result(n, False, plugin="x" if n % 2 == 0 else "y", lang="en") for n in range(80)]
    pair = only(compared(write, a, b))
    assert list(pair.by) == ["plugin"], "a field with one value tells nothing new"
    x, y = pair.by["plugin"]
    assert (x.value, x.stands_out, x.difference.value) == ("x", True, -1.0)
    assert (y.value, y.stands_out, y.difference.value) == ("y", False, 0.0)
    asked = only(compared(write, a, b, by=("lang",)))
    assert list(asked.by) == ["lang"]


def variant(number: int, family: str, succeeded: bool) -> dict[str, Any]:
    """Return a variant of an instruction, which makes its family."""
    return standard(
        str(number),
        long_id=f"document_d_j-{number}_{family}_end",
        document_id="d",
        position="end",
        instruction_type=family.partition("-")[0],
        jailbreak_type=f"j-{number}",
        success=succeeded,
    )


def test_a_group_of_one_family_is_marked_and_not_tested_in_every_format(write: Write, cli: Cli, tmp_path: Path) -> None:
    """Forty variants of one instruction that all flipped, beside eighty of four."""
    names = ["alone-0"] * 40 + [f"many-{n % 4}" for n in range(80)]
    a, b = ([variant(n, name, on == 0) for n, name in enumerate(names)] for on in (0, 1))
    paths = [write(rows, f"results_{name}.jsonl") for rows, name in ((a, "a"), (b, "b"))]
    pair = compare_files(paths, CompareOptions(by=("instruction_type",))).pairs[0]
    groups = {group.value: group for group in pair.by["instruction_type"]}
    alone, many = groups["alone"], groups["many"]
    assert alone.one_family and not many.one_family
    assert (alone.adjusted_p, alone.stands_out, alone.difference.value) == (None, False, -1.0)
    assert alone.difference.low is None, "one family does not show how families vary"
    assert many.difference.low is not None
    for form in ("console", "markdown", "html", "xlsx"):
        suffix = {"console": "txt", "markdown": "md"}.get(form, form)
        target = tmp_path / f"report.{suffix}"
        ran = cli("results", "compare", *paths, "--by", "instruction_type", "--output-format", form, "-o", str(target))
        assert ran.code == 0
        if form == "xlsx":
            cells = [cell for sheet in openpyxl.load_workbook(target) for row in sheet.values for cell in row]
            assert cells.count("one family: not tested") == 1
        else:
            assert target.read_text(encoding="utf-8").count("one family: not tested") == 1
    ran = cli("results", "compare", *paths, "--by", "instruction_type", "--output-format", "json")
    (found,) = [g for g in json.loads(ran.out)["pairs"][0]["by"]["instruction_type"] if g["value"] == "alone"]
    assert (found["families"], found["families_p"], found["adjusted_p"]) == (1, None, None)
    gate = ("--by", "instruction_type", "--fail-on", "instruction_type=alone: regression > 5%")
    judged = cli("results", "compare", *paths, *gate)
    assert judged.code == 1
    assert "inconclusive" in judged.err and "40 entries of one family do not show how families vary" in judged.err


def test_groups_of_all_fields_are_adjusted_together(write: Write) -> None:
    """A field that splits the entries in two is tested with another that splits them in twenty."""

    def rows(on: str) -> list[dict[str, Any]]:
        return [
            result(n, on == "b" and n < 14 and n % 2 == 0, plugin="x" if n % 2 == 0 else "y", lang=f"l{n % 20}")
            for n in range(200)
        ]

    pair = only(compared(write, rows("a"), rows("b")))
    groups = [group for groups in pair.by.values() for group in groups]
    assert len(groups) == 22
    raw = [group.p for group in groups]
    adjusted = oracle("statsmodels.stats.multitest").multipletests(raw, method="fdr_bh")[1]
    assert [group.adjusted_p for group in groups] == pytest.approx(list(adjusted))
    (x,) = [group for group in groups if group.value == "x"]
    assert x.p == pytest.approx(2 / 2**7)
    assert not x.stands_out, "one of 22 groups with p 0.016"


def test_values_that_differ_between_the_files_are_in_no_group(write: Write) -> None:
    a = [result(n, plugin="x" if n < 40 else "y") for n in range(80)]
    b = [result(n, plugin="x" if n < 50 else "y") for n in range(80)]
    pair = only(compared(write, a, b))
    assert pair.differing_values == {"plugin": 10}
    assert sum(group.paired for group in pair.by["plugin"]) == 70


def test_a_field_that_a_file_does_not_have_is_refused_by_name(write: Write) -> None:
    with pytest.raises(UsageError, match=r"--by colour: no such field; available: .* \(in .*results_1"):
        compared(write, [result(1, colour="red")], [result(1)], by=("colour",))


# -- flips ------------------------------------------------------------------------------------------------------


def test_flips_are_shown_with_prompt_and_both_answers_masked_and_cut(write: Write) -> None:
    key = "sk-" + "a1B2c3D4" * 5
    a = [result(1, True, input=f"use {key}", response="yes " * 4000), result(2, True), result(3)]
    b = [result(1, response=f"no, {key}", input=f"use {key}"), result(2), result(3, True)]
    comparison = compared(write, a, b, flips=1)
    pair = only(comparison)
    (flip,) = pair.fixed.shown
    assert pair.fixed.ids == ("1", "2") and pair.broken.ids == ("3",)
    assert flip.entry == "1" and flip.where[0].endswith("results_0.jsonl:1") and flip.where[1].endswith("1.jsonl:1")
    said = [passage.text or "" for passage in (flip.prompt, flip.response_a, flip.response_b)]
    assert key not in " ".join(said) and "[masked]" in said[0] and "[masked]" in said[2]
    assert said[1].startswith("yes yes ") and said[1].endswith("[cut: the whole text has 16,000 characters]")
    assert len(said[1]) < 5000
    (told,) = document_of(comparison)["pairs"][0]["fixed"]["shown"]
    assert [told[name]["text"] for name in ("prompt", "response_a", "response_b")] == said


def test_the_row_that_succeeded_is_shown(write: Write) -> None:
    a = [result(1, response="no"), attack(1, success=True, response="yes, at last")]
    (flip,) = only(compared(write, a, [result(1, response="never")])).fixed.shown
    assert flip.response_a.text == "yes, at last" and flip.response_b.text == "never"


def test_a_file_that_cannot_be_read_again_still_names_its_flips(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    text = json.dumps(result(1, True)).encode() + b"\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    pair = only(compare_files(["-", write([result(1)])]))
    assert pair.fixed.ids == ("1",) and not pair.fixed.shown
    assert pair.fixed.missing == {"-": "standard input and pipes can be read only once"}


# -- runs -------------------------------------------------------------------------------------------------------


def journal(verdicts: Sequence[str]) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = [dict(HEADER)]
    for number, verdict in enumerate(verdicts):
        name = f"suite{number}_[]"
        records.append(case(name))
        records.append(unanswered(name) if verdict == "-" else attempt(name, 0, verdict))
    return records


def test_a_test_that_passes_again_is_fixed(write: Write) -> None:
    comparison = compared(write, journal("ppff-"), journal("pfpff"))
    pair = only(comparison)
    assert comparison.aim == "task"
    assert cells(pair) == (1, 1, 1, 1)
    assert pair.fixed.ids == ("suite2_[]",) and pair.broken.ids == ("suite1_[]",)
    assert left_out(pair, "a") == {"error": 1} and left_out(pair, "b") == {"other_unanswered": 1}
    (score,) = pair.scores.metrics
    assert score.difference.value == 0.0 and score.difference.n == 4


def test_reports_of_rebel_are_compared_by_verdict_and_score(tmp_path: Path) -> None:
    paths = []
    for name, verdicts in (("a", "pff"), ("b", "ppf")):
        cases = [
            entry(f"t{place}_[]", ["x"], verdict, {"p": "passed", "f": "failed"}[verdict])
            for place, verdict in enumerate(verdicts)
        ]
        path = tmp_path / f"{name}.json"
        path.write_bytes(report(*cases))
        paths.append(str(path))
    pair = only(compare_files(paths))
    assert cells(pair) == (1, 0, 1, 1) and pair.fixed.ids == ("t1_[]",)
    assert [round(score.difference.value or 0, 6) for score in pair.scores.metrics] == [0.333333]


def test_results_without_scores_say_so(write: Write) -> None:
    assert only(compared(write, [result(1)], [result(1)])).scores.refused == "The files hold verdicts and no scores."


def test_tests_and_attacks_are_not_compared(write: Write) -> None:
    with pytest.raises(UsageError, match=r"is a test run, which should pass, and .* an attack run"):
        compared(write, journal("p"), [result(1)])


# -- which files ------------------------------------------------------------------------------------------------


def test_files_that_make_no_comparison_are_refused(write: Write, tmp_path: Path) -> None:
    one, empty = write([result(1)], "results_1.jsonl"), write([], "results_2.jsonl")
    with pytest.raises(UsageError, match="needs at least two result files, and no result file is given"):
        compare_files([])
    with pytest.raises(UsageError, match=r"results_1\.jsonl is the only file given"):
        compare_files([one])
    with pytest.raises(UsageError, match="given twice"):
        compare_files([one, str(tmp_path / "." / "results_1.jsonl")])
    with pytest.raises(InputError, match="no such file"):
        compare_files([one, str(tmp_path / "nowhere.jsonl")])
    with pytest.raises(InputError, match=r"results_2\.jsonl: no entries"):
        compare_files([one, empty])
    with pytest.raises(UsageError, match="matches 2 files; name one"):
        compare_files([one], CompareOptions(baseline=str(tmp_path / "results_*")))


@pytest.mark.parametrize("wrong", [{"flips": -1}, {"match": "content"}, {"level": 1.5}, {"max_line": 0}])
def test_impossible_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        CompareOptions(**wrong)


def test_a_copy_is_compared_and_called_one(write: Write) -> None:
    comparison = compared(write, many(range(5)), many(range(5)))
    assert [(Path(copy).name, Path(first).name) for copy, first in comparison.copies.items()] == [
        ("results_1.jsonl", "results_0.jsonl")
    ]
    assert only(comparison).p == 1.0


def test_damage_is_told(write: Write) -> None:
    comparison = compared(write, [result(1), b'{"id": 2, "succ'], [result(1)])
    assert comparison.damaged and comparison.findings[0].code == "F001"


# -- how it is shown --------------------------------------------------------------------------------------------


def hostile(write: Write, more: int = 0) -> Report:
    a = [result(n, n < 30, plugin=HOSTILE if n % 2 else "x", input=HOSTILE + str(n)) for n in range(60)]
    b = [result(n, n >= 50, plugin=HOSTILE if n % 2 else "x", input=HOSTILE + str(n)) for n in range(60)]
    names = f"results_{HOSTILE.replace('/', '_')}.jsonl", "results_<b>.jsonl"
    files = [(name, b if place == 1 else a) for place, name in enumerate([*names, *map(str, range(more))])]
    return as_report(compare_files([write(lines, name) for name, lines in files]), figures=True)


@pytest.mark.parametrize("more", [0, 1, 2])
def test_hostile_text_reaches_no_presenter_raw(write: Write, more: int) -> None:
    shown = hostile(write, more)
    for text in (console.render(shown), markdown.render(shown), html.render(shown)):
        assert "\x1b" not in text and "\u202e" not in text and "\x07" not in text
        assert "\\u202e" in text
    page = html.render(shown)
    assert "<script>" not in page and "&lt;script&gt;" in page and "<b>" not in page
    literal = re.sub(
        r"(`+)text\n.*?\n\1|(`+) ?.*?(?<!`)\2(?!`)|<code>.*?</code>", "", markdown.render(shown), flags=re.DOTALL
    )
    assert "<script>" not in literal and "<b>" not in literal


def test_three_files_have_a_section_for_each_pair(write: Write) -> None:
    text = console.render(as_report(compared(write, many(range(30)), many(range(10)), many([]))))
    for title in ("Files", "All files together", "0 → 1: difference", "0 → 2: difference", "1 → 2: difference"):
        assert f"\n{title}\n" in text


def test_many_files_stand_in_one_table_against_the_baseline(write: Write) -> None:
    comparison = compared(write, *(many(range(won)) for won in (30, 40, 29, 10, 5)))
    lead = console.render(as_report(comparison)).split("\n")[1:5]
    assert lead[1:] == [
        "  Lower than 0: 3, 4.",
        "  Higher than 0: 1.",
        "  No difference from 0 can be claimed for 1 file of 4.",
    ]
    section = next(section for section in as_report(comparison).sections if section.title == "Against")
    assert section.subject == Label("0")
    (grid,) = (block for block in section.blocks if isinstance(block, Grid))
    assert [(row[0], row[3], row[-3:]) for row in grid.rows] == [
        (Label("1"), "beyond chance", (100, 0, 10)),
        (Label("2"), "", (100, 1, 0)),
        (Label("3"), "beyond chance", (100, 20, 0)),
        (Label("4"), "beyond chance", (100, 25, 0)),
    ]
    assert [row[2] for row in grid.rows] == [Points(pair.difference) for pair in comparison.pairs]
    assert [row[1] for row in grid.rows] == [comparison.files[place].rate for place in (1, 2, 3, 4)]
    assert "0: 30% [22, 40] of 100 answered entries." in grid.note
    text = console.render(as_report(comparison))
    assert "difference\n" not in text and "→" not in text


def test_figures_are_drawn_where_they_are_asked_for(write: Write) -> None:
    shown = hostile(write)
    blocks = [block for section in shown.sections for block in section.blocks]
    assert any(isinstance(block, Differences) for block in blocks)
    assert any(isinstance(block, Evidence) for block in blocks)
    assert "fc-differences" in html.render(shown)
    assert "│ marks 0" in markdown.render(shown)


def estimate(value: float | None, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value, low, high, 40, "pair", 0.95, "tango")


def differences(*items: Difference) -> Differences:
    return Differences("Difference", items, "B lower", "B higher")


def test_a_figure_of_differences_has_0_in_its_middle() -> None:
    drawn = differences(
        Difference(Record("x"), estimate(-0.1, -0.2, 0.1), stands_out=True),
        Difference(Record("y"), estimate(None), small=True),
        Difference(Record("z"), estimate(0.3)),
    )
    root = ET.fromstring(figure.differences_svg(drawn))
    name = "{http://www.w3.org/2000/svg}"
    circles = [circle for circle in root.iter(f"{name}circle") if "%" in circle.get("cx", "")]
    assert [circle.get("cx") for circle in circles] == ["37.50%", "87.50%"]
    described = root.find(f"{name}desc")
    assert described is not None and described.text is not None
    assert "x: -10.0 [-20.0, +10.0] points, n = 40, stands out." in described.text
    assert "y: undefined points" in described.text
    assert ET.fromstring(figure.differences_svg(differences())).tag == f"{name}svg"


def test_differences_are_drawn_in_text() -> None:
    drawn = differences(Difference(Record("x"), estimate(-0.1, -0.2, 0.0)), Difference(Record("y"), estimate(None)))
    text = markdown.render(Report((Section("t", (drawn,)),)))
    line = next(line for line in text.splitlines() if line.startswith("x "))
    assert "●" in line and line.index("●") < line.index("┼") and "-10.0 [-20.0, 0.0]" in line
    assert "from -40 points (B lower) to 40 (B higher)" in text


def test_differences_and_both_answers_stand_in_a_workbook(tmp_path: Path) -> None:
    said = [
        (name, Passage(text))
        for name, text in (("prompt", "prompt"), ("response of a", "yes"), ("response of b", "no"))
    ]
    flip = Exhibit(Record("1"), Place("f:1, g:2"), (("judge", Record(None)),), tuple(said))
    drawn = differences(Difference(Record("x"), estimate(-0.1, -0.2, 0.0), stands_out=True))
    grid = Grid((Column("Difference"),), ((Points(estimate(0.1)),),))
    shown = Report((Section("Part", (drawn, grid, Evidence((flip,), 1, "fixed entries"))),))
    rows = values(sheet_of(tmp_path / "x.xlsx", shown))
    assert ["x", -0.1, -0.2, 0, 40, "stands out"] in rows
    assert ["+10.0 [no interval]"] in rows
    assert ["1", "f:1, g:2", "(none)", "prompt", "yes", "no"] in rows
