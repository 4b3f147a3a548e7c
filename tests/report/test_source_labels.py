"""Labels of files: what a reader needs to tell the files at hand apart, unique, on one line, with nothing hidden."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from faircount import analyze
from faircount.analysis import compare_files
from faircount.core import Source, visible
from faircount.readers import RunRecord, target_of
from faircount.report import labelled, looks_benign
from faircount.report.source_labels import LONGEST, source_labels
from tests.conftest import Cli, Write, analysis_of, standard
from tests.runs.run_files import HEADER, attempt, case

SPIKEE_0_1 = {
    "aws_bedrock_guardrail-1734615302_guardrail-false-positive-check_1734623677": (
        "aws_bedrock_guardrail guardrail-false-positive-check"
    ),
    "aws_bedrock_guardrail-targeted-2024-12-document_1734620371": "aws_bedrock_guardrail document",
    "aws_claude_35_haiku-targeted-2024-12-full-prompt_1734604799": "aws_claude_35_haiku",
    "aws_claude_35_sonnet-targeted-2024-12-full-prompt_1734605189": "aws_claude_35_sonnet",
    "az_gpt4o-targeted-2024-12-full-prompt-sys_1734525495": "az_gpt4o full-prompt-sys",
    "az_gpt4o-targeted-2024-12-full-prompt_1734525165": "az_gpt4o full-prompt",
    "az_prompt_shields-1734615302_guardrail-false-positive-check_1734623707": (
        "az_prompt_shields guardrail-false-positive-check"
    ),
    "az_prompt_shields-targeted-2024-12-document_1734615457": "az_prompt_shields document",
    "openai_o1-preview-targeted-2024-12-full-prompt_1734786001": "openai_o1-preview",
    "prompt_guard_jailbreak-1734615302_guardrail-false-positive-check_1734782734": (
        "prompt_guard_jailbreak guardrail-false-positive-check"
    ),
    "prompt_guard_jailbreak-targeted-2024-12-document_1734782626": "prompt_guard_jailbreak document",
    "together_gemma2_8b-targeted-2024-12-full-prompt_1734860110": "together_gemma2_8b",
    "together_llama31_8b-targeted-2024-12-full-prompt-sys_1734601978": "together_llama31_8b full-prompt-sys",
    "together_llama31_8b-targeted-2024-12-full-prompt_1734598785": "together_llama31_8b full-prompt",
}
"""Every result file that was published with spikee 0.1, by its name, and what people call it among the others."""
SPIKEE_0_9 = {
    "bot-mid_cybersec-2026-01-user-input-atk-dataset-1700000001_1700001001": "bot-mid",
    "bot-strong_cybersec-2026-01-user-input-atk-dataset-1700000001_1700001005": "bot-strong",
    "bot-weak_cybersec-2026-01-user-input-atk-dataset-1700000001_1700001007": "bot-weak",
    "openai_api-gpt-4o-mini_cybersec-2026-01-user-input-atk-dataset-1700000001_1700001008": "openai_api-gpt-4o-mini",
    "guard-strict_investment-advice-fp-user-input-benign-dataset-1700000005_benrun_1700001010": "guard-strict benrun",
    "guard-strict_investment-advice-user-input-inv-dataset-1700000004_atkrun_1700001011": "guard-strict atkrun",
    "guard-flaky_investment-advice-fp-user-input-benign-dataset-1700000005_benrun_1700001008": "guard-flaky benrun",
    "guard-flaky_investment-advice-user-input-inv-dataset-1700000004_atkrun_1700001009": "guard-flaky atkrun",
}
"""Names as spikee 0.9 makes them: target, dataset, a tag where there is one, and the time."""


def named(names: Sequence[str]) -> list[str]:
    return [f"folder/results_{name}.jsonl" for name in names]


# -- what the tools write ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [SPIKEE_0_1, SPIKEE_0_9])
def test_names_of_spikee_come_to_target_and_what_tells_its_files_apart(names: dict[str, str]) -> None:
    assert source_labels(named(list(names))) == list(names.values())


@pytest.mark.parametrize("names", [SPIKEE_0_1, SPIKEE_0_9])
def test_the_order_of_files_does_not_change_what_they_are_called(names: dict[str, str]) -> None:
    assert source_labels(named(list(names)[::-1])) == list(names.values())[::-1]


@pytest.mark.shared
def test_the_published_files_are_those_of_the_table(shared: Path) -> None:
    found = sorted((shared / "data" / "spikee-v0.1").glob("*.jsonl"))
    assert [path.stem.removeprefix("results_") for path in found] == sorted(SPIKEE_0_1)


@pytest.mark.parametrize(
    ("paths", "labels"),
    [
        (["results_bot_sample_1700000001.jsonl"], ["bot_sample"]),
        (["r/results_a_x_1700000001.jsonl", "r/results_b_x_1700000002.jsonl.gz"], ["a", "b"]),
        (["results_a_x.jsonl.zst", "rejudge_b_x.csv", "extract_c_x.json"], ["a", "b", "c"]),
        (["results_1.jsonl", "results_2.jsonl"], ["1", "2"]),
        (["results_.jsonl"], ["results_"]),
        ([".jsonl"], [".jsonl"]),
        (["no-extension"], ["no-extension"]),
        (["results_a_12345678.jsonl"], ["a_12345678"]),
        (["old.jsonl", "new.jsonl", "other/third.jsonl"], ["old", "new", "third"]),
        ([], []),
    ],
)
def test_what_the_tool_put_into_a_name_is_no_part_of_its_label(paths: list[str], labels: list[str]) -> None:
    assert source_labels(paths) == labels


# -- what tells files apart -------------------------------------------------------------------------------------


def test_two_files_of_one_target_are_told_apart_by_their_datasets() -> None:
    names = ["bot-targeted-2024-12-document_1734620371", "bot-targeted-2024-12-full-prompt_1734620999"]
    assert source_labels(named(names)) == ["bot document", "bot full-prompt"]
    assert source_labels(["set-1-doc.jsonl", "set-2-mail.jsonl"], ["bot"] * 2) == ["bot doc", "bot mail"]
    # Where what stands after the numbers is the same, the whole names must do.
    assert source_labels(["set-1-doc.jsonl", "set-2-doc.jsonl"], ["bot"] * 2) == ["bot set-1-doc", "bot set-2-doc"]


def test_files_of_one_name_in_two_folders_are_told_apart_by_the_folders() -> None:
    assert source_labels(["one/results_a.jsonl", "two/results_a.jsonl"]) == ["a one", "a two"]
    assert source_labels(["one/x/results_a.jsonl", "two/x/results_a.jsonl"]) == ["a one/x", "a two/x"]
    # Others are called as they would be without them.
    assert source_labels(["one/a.jsonl", "two/a.jsonl", "one/b.jsonl"]) == ["a one", "a two", "b"]


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ((1734615457, 1734701857), ["2024-12-19", "2024-12-20"]),
        ((1734615457, 1734615458), ["2024-12-19 13:37:37", "2024-12-19 13:37:38"]),
        ((999999999, 1734615457), ["2001-09-09", "2024-12-19"]),
    ],
)
def test_one_target_and_dataset_at_two_times_are_told_apart_by_these(times: tuple[int, int], told: list[str]) -> None:
    paths = [f"results_bot_sample_{time}.jsonl" for time in times]
    assert source_labels(paths) == [f"bot_sample {time}" for time in told]


def test_standard_input_is_called_so() -> None:
    assert source_labels(["-"]) == ["standard input"]
    assert source_labels(["-", "results_a.jsonl"]) == ["standard input", "a"]
    assert source_labels(["-"], ["gpt-4o"]) == ["gpt-4o"]


def test_what_nothing_tells_apart_is_numbered() -> None:
    assert source_labels(["a.jsonl", "a.jsonl", "b.jsonl", "a.jsonl"]) == ["a", "a (2)", "b", "a (3)"]


def test_a_number_that_a_file_has_already_is_not_given_twice() -> None:
    labels = source_labels(["a.jsonl", "a.jsonl", "a (2).jsonl"])
    assert len(set(labels)) == 3


# -- targets that are known -------------------------------------------------------------------------------------


def test_a_known_target_is_the_label() -> None:
    assert source_labels(["run1.jsonl", "run2.jsonl"], ["gpt-4o", "llama 3"]) == ["gpt-4o", "llama 3"]
    assert source_labels(["run1.jsonl", "run2.jsonl"], ["gpt-4o", None]) == ["gpt-4o", "run2"]
    assert source_labels(["run1.jsonl", "run2.jsonl"], ["gpt-4o"]) == ["gpt-4o", "run2"]
    assert source_labels(["run1.jsonl"], [""]) == ["run1"]


def test_two_runs_of_a_known_target_are_told_apart_by_their_names() -> None:
    assert source_labels(["a.jsonl", "b.jsonl"], ["gpt-4o"] * 2) == ["gpt-4o a", "gpt-4o b"]
    assert source_labels(["x/run.jsonl", "y/run.jsonl"], ["gpt-4o"] * 2) == ["gpt-4o x", "gpt-4o y"]
    times = ["run_1734615457.jsonl", "run_1734701857.jsonl"]
    assert source_labels(times, ["gpt-4o"] * 2) == ["gpt-4o 2024-12-19", "gpt-4o 2024-12-20"]


def test_a_target_that_one_file_names_is_known_in_the_names_of_others() -> None:
    labels = source_labels(["run1.jsonl", "results_gpt-4o_sample.jsonl"], ["gpt-4o", None])
    assert labels == ["gpt-4o run1", "gpt-4o sample"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ({"kind": "http", "name": "bot", "options": {"model": "gpt-4o"}}, "gpt-4o"),
        ({"kind": "chat", "name": "bot", "chat": {"model": "llama"}}, "llama"),
        ({"kind": "http", "name": "bot", "options": {}}, "bot"),
        ({"kind": "simulated"}, "simulated"),
        ({}, None),
        ("bot", None),
        (None, None),
        ({"name": ["hostile"]}, None),
    ],
)
def test_a_journal_tells_what_it_was_made_against(target: object, expected: str | None, write: Write) -> None:
    header = {**HEADER, "settings": {"target": target}}
    assert target_of(RunRecord(settings={"target": target})) == expected
    (source,) = analysis_of(write([header, case("a"), attempt("a", 0, "p")], "run_x.jsonl")).sources
    assert (source.target, source.label) == (expected, expected or "run_x")


def test_rows_that_all_name_one_target_make_it_known(write: Write) -> None:
    one = [standard(n, target="gpt-4o") for n in range(3)]
    two = [*one, standard(9, target="llama")]
    paths = [write(one, "x.jsonl"), write(two, "y.jsonl"), write([standard(1)], "z.jsonl")]
    found = analyze(*paths).analyses
    assert [(a.sources[0].target, a.sources[0].label) for a in found] == [
        ("gpt-4o", "gpt-4o"),
        (None, "y"),
        (None, "z"),
    ]


# -- hostile names ----------------------------------------------------------------------------------------------

HOSTILE = [
    "x\x1b]0;owned\x07y",
    "two\nlines\r\n",
    "\u202egnp.exe",
    "caf\udce9",
    "\u200b\u2800\ufe0f",
    "<script>alert(1)<|script>",
    "`x` [a](javascript:b)",
    "results_" + "long_name-" * 24,
]


def is_safe(label: str) -> bool:
    return bool(label) and visible(label) == label and len(label.splitlines()) == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_on_one_line_with_nothing_hidden(name: str) -> None:
    for targets in ([], [name], [None, name]):
        labels = source_labels([f"{name}.jsonl", f"{name}/other.jsonl", f"{name}/{name}_1734615457.jsonl"], targets)
        assert all(map(is_safe, labels))
        assert len(set(labels)) == 3
        assert all(len(label) <= LONGEST + len(" (2)") for label in labels)


def test_a_long_name_keeps_its_beginning_and_its_end() -> None:
    (label,) = source_labels(["begin_" + "x" * 300 + "_end.jsonl"])
    assert len(label) == LONGEST
    assert label.startswith("begin_xx") and label.endswith("xx_end") and "…" in label
    alike = [f"{'a' * 100}{letter}{'a' * 100}.jsonl" for letter in "bc"]
    assert len(set(source_labels(alike))) == 2


def test_hostile_names_are_inert_wherever_labels_are_shown(write: Write, cli: Cli) -> None:
    paths = [write([standard(n, success=n < 9 * won) for n in range(30)], f"{HOSTILE[0]}{won}.jsonl") for won in (0, 2)]
    for command in ("analyze", "compare"):
        for form in ("console", "markdown", "json"):
            out = cli("results", command, *paths, "--output-format", form).out
            assert "\x1b" not in out and "\x07" not in out
    told = json.loads(cli("results", "compare", *paths, "--output-format", "json").out)
    # A label is made visible; the path is the path.
    assert [file["label"] for file in told["files"]] == [f"x\\x1b]0;owned\\x07y{won}" for won in (0, 2)]
    assert [file["path"] for file in told["files"]] == paths


# -- promises ---------------------------------------------------------------------------------------------------

WORDS = [
    "a",
    "b",
    "bot",
    "results_",
    "-",
    "_",
    ".",
    "2024",
    "_1734615457",
    "_1734615458",
    ".jsonl",
    "\n",
    "\\n",
    "x" * 40,
]
FILE_NAMES = st.one_of(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map("".join),
    st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=40),
).filter(lambda name: name.strip(". \u00a0") != "" and not name.isspace())
PATHS = st.lists(
    st.one_of(
        st.just("-"), FILE_NAMES, st.builds("{}/{}".format, st.sampled_from(["one", "two", "one/two"]), FILE_NAMES)
    ),
    max_size=8,
)
TARGETS = st.lists(st.one_of(st.none(), st.sampled_from(["a", "bot", "gpt-4o"]), st.text(max_size=10)), max_size=3)


@given(PATHS, TARGETS)
@example(["a.jsonl"] * 3, [])
@example(["one/a", "two/a", "a one"], [])
@example(["x\n", "x\\n"], [])
@example(["-", "-", "standard input"], [])
def test_labels_are_unique_and_safe_whatever_the_names_are(paths: list[str], targets: list[str | None]) -> None:
    known = targets[: len(paths)]
    labels = source_labels(paths, known)
    assert len(labels) == len(paths)
    assert len(set(labels)) == len(labels)
    assert all(map(is_safe, labels))


@given(PATHS)
def test_sources_get_the_labels_of_their_paths_and_nothing_else_changes(paths: list[str]) -> None:
    sources = [Source(path, lines=number) for number, path in enumerate(paths)]
    found = labelled(sources)
    assert [source.label for source in found] == source_labels(paths)
    assert [(source.path, source.lines) for source in found] == [(source.path, source.lines) for source in sources]


def test_labels_are_made_among_the_files_of_one_answer(write: Write) -> None:
    rows = [standard(n, success=n < 3) for n in range(10)]
    paths = [write(rows, name) for name in ("results_bot_set_1734615457.jsonl", "results_cat_set_1734615457.jsonl")]
    assert [a.sources[0].label for a in analyze(*paths, definition="spikee").analyses] == ["bot", "cat"]
    assert analysis_of(paths[0]).sources[0].label == "bot_set"
    combined = analysis_of(*paths, combine=True, definition="spikee")
    assert [figures.label for figures in combined.by_source] == [source.label for source in combined.sources]
    assert [file.label for file in compare_files(paths).files] == ["bot", "cat"]


# -- benign prompts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("results_aws_bedrock_guardrail-1734615302_guardrail-false-positive-check_1734623677.jsonl", True),
        ("results_guardrail_sample-benign_1790000000.jsonl", True),
        ("results_h_guard_investment-advice-fp-user-input-dataset-1_benrun_2.jsonl", True),
        ("benign.jsonl.gz", True),
        ("Harmless prompts.jsonl", True),
        ("guard_falsepositives.csv", True),
        ("guard.FALSE_POSITIVE.jsonl", True),
        ("results_guardrail_sample-attacks_1790000000.jsonl", False),
        ("benign/results_attacks.jsonl", False),
        ("results_benignity.jsonl", False),
        ("results_llama-fp16_sample.jsonl", False),
        ("results_false-alarm.jsonl", False),
        ("-", False),
        ("", False),
    ],
)
def test_a_check_with_benign_prompts_is_known_by_its_name(path: str, expected: bool) -> None:
    assert looks_benign(path) is expected


@pytest.mark.shared
def test_of_the_published_files_three_are_checks_with_benign_prompts(shared: Path) -> None:
    found = sorted((shared / "data" / "spikee-v0.1").glob("*.jsonl"))
    assert [looks_benign(str(path)) for path in found] == ["false-positive" in path.name for path in found]
    assert sum(looks_benign(str(path)) for path in found) == 3
