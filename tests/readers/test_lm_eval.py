"""Samples files of lm-evaluation-harness: real ones of 0.4.13 and 0.4.2 beside their oracle, and small ones."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Cli, codes, shared_folder
from tests.readers.test_deepeval import ODD, analysis, counted, entries, outcomes, read_damaged

SHARED = shared_folder()
GOLDEN = (SHARED or Path("shared")) / "golden" / "lm-eval"
ORACLE: dict[str, Any] = json.loads((GOLDEN / "oracle.json").read_text()) if SHARED is not None else {}
SAMPLES = [(folder, name) for folder, told in ORACLE.items() for name in told if name != "tool_says"]
JUDGES = [(folder, name, judge) for folder, name in SAMPLES for judge in ORACLE[folder][name]["expected"]]
SAMPLE = ROOT / "docs" / "samples" / "lm_eval.jsonl"
pytestmark = pytest.mark.filterwarnings("error")


def sample(number: int, value: Any = 1.0, *, name: str | None = "none", **changed: Any) -> dict[str, Any]:
    """Return a sample of 0.4.13, of a model that generates text."""
    question = f"question {number}"
    return {
        "doc_id": number, "doc": {"question": question, "level": "easy"}, "target": "yes",
        "arguments": {"gen_args_0": {"arg_0": question, "arg_1": {"until": ["\n"]}}}, "resps": [["yes"]],
        "filtered_resps": ["yes"], "filter": name, "metrics": ["exact_match"], "exact_match": value, **changed,
    }  # fmt: skip


Samples = Callable[..., Path]


@pytest.fixture
def samples(tmp_path: Path) -> Samples:
    def write(*lines: Any, name: str = "samples_sums_2026-01-01T12-00-00.000000.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(one if isinstance(one, str) else json.dumps(one) + "\n" for one in lines))
        return path

    return write


# -- the golden files -------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize(("folder", "name", "judge"), JUDGES)
def test_documents_by_each_metric_and_filter_are_those_of_the_oracle(folder: str, name: str, judge: str) -> None:
    told = ORACLE[folder][name]
    expected = told["expected"][judge]
    found = analysis(GOLDEN / folder / name, judge=judge)
    assert outcomes(found) == expected["outcomes"]
    assert (found.tally.total, found.attempts) == (told["documents"], expected["attempts"])
    if judge == next(iter(told["expected"])):
        assert outcomes(analysis(GOLDEN / folder / name)) == expected["outcomes"]


@pytest.mark.shared
@pytest.mark.parametrize(("folder", "name"), SAMPLES)
def test_lm_evals_own_figures_are_those_of_its_results_file(folder: str, name: str) -> None:
    task = next(task for task in sorted(ORACLE[folder]["tool_says"], key=len, reverse=True) if task in name)
    told = {key: value for key, value in ORACLE[folder]["tool_says"][task].items() if "," in key}
    filters = list(dict.fromkeys(key.partition(",")[2] for key in told))
    (source,) = analysis(GOLDEN / folder / name).sources
    found = {one.name: one.value for one in source.figures}
    if "bypass" in next(iter(told)):
        assert found == {}  # lm-eval writes 999
        return
    for key, value in told.items():
        metric, _, own = key.partition(",")
        unnamed = f"{metric},#{filters.index(own) + 1}"
        assert found[key if key in found else unnamed] == pytest.approx(value)
    assert len(found) == len(told)


@pytest.mark.shared
def test_a_folder_of_lm_eval_is_its_samples_files_each_with_its_task(cli: Cli) -> None:
    ran = cli("results", "analyze", str(GOLDEN / "v0.4.13"), "--combine", "--by", "task", "--output-format", "json")
    assert ran.code == 0, ran.err
    (found,) = json.loads(ran.out)["analyses"]
    assert found["entries"]["total"] == 16 + 8 + 15
    values = {group["value"]: group["entries"]["success"] for group in found["breakdowns"]["task"]}
    assert values == {"capitals_north": 7, "capitals_south": 3, "sums_gen": 9}


@pytest.mark.shared
def test_documents_of_a_limited_run_are_paired_with_those_of_the_whole(cli: Cli) -> None:
    both = [str(next((GOLDEN / folder).glob("samples_sums_gen*"))) for folder in ("v0.4.13", "v0.4.13_limit5")]
    (pair,) = json.loads(cli("results", "compare", *both, "--output-format", "json").out)["pairs"]
    assert pair["unpaired"]["a"]["missing"]["count"] == 10
    assert pair["unpaired"]["b"]["missing"]["count"] == 0


@pytest.mark.shared
def test_documents_without_a_hash_have_the_hash_that_newer_versions_write(cli: Cli, tmp_path: Path) -> None:
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    shutil.copy(GOLDEN / "v0.4.2" / "pretrained__org__model_sums_gen.jsonl", old)
    shutil.copy(next((GOLDEN / "v0.4.13").glob("samples_sums_gen*")), new)
    assert entries(old, cli).keys() == entries(new, cli).keys()


@pytest.mark.shared
@pytest.mark.parametrize("folder", ORACLE)
def test_a_results_file_alone_is_refused(folder: str, cli: Cli) -> None:
    (path,) = (GOLDEN / folder).glob("results*.json")
    ran = cli("results", "analyze", str(path))
    assert ran.code == 3
    assert "aggregates without the samples" in ran.err and "samples_<task>_<time>.jsonl" in ran.err


# -- metrics and filters ----------------------------------------------------------------------------------------


def test_lines_of_a_document_are_one_attempt_with_a_judge_for_each_filter(samples: Samples, cli: Cli) -> None:
    path = samples(
        *(sample(number, float(number < 1), name="strict") for number in range(3)),
        *(sample(number, float(number < 2), name="loose", filtered_resps=["YES"]) for number in range(3)),
    )
    found = analysis(path)
    assert (outcomes(found), found.attempts) == (counted(success=1, failure=2), 3)
    assert outcomes(analysis(path, judge="exact_match,loose")) == counted(success=2, failure=1)
    row = entries(path, cli)[next(iter(entries(path, cli)))]
    said = [(one["name"], one["reason"]) for one in row["attempt_history"][0]["metrics"]]
    assert said == [("exact_match,strict", "filtered answer: yes"), ("exact_match,loose", "filtered answer: YES")]


def test_a_metric_that_is_not_0_or_1_everywhere_decides_nothing_without_a_threshold(samples: Samples) -> None:
    path = samples(sample(0, 1.0), sample(1, 0.4), sample(2, 0.7), sample(3, 0))
    found = analysis(path)
    assert outcomes(found) == counted(unjudged=4)
    assert codes(found)["F052"] == 4
    decided = analysis(path, success_threshold=0.7)
    assert outcomes(decided) == counted(success=2, failure=2)
    assert "F052" not in codes(decided)


def test_values_that_are_no_numbers_have_no_verdict(samples: Samples) -> None:
    path = samples(sample(0, [3.2, 5]), sample(1, None), sample(2, True))
    assert outcomes(analysis(path)) == counted(unjudged=3)
    assert outcomes(analysis(samples(sample(0, None), sample(1, True), sample(2, 0)))) == counted(
        success=1, failure=1, unjudged=1
    )


def test_without_names_of_filters_the_order_of_lines_names_them(samples: Samples) -> None:
    lines = [sample(number, float(number < 1)) for number in (0, 1)] + [sample(number, 1.0) for number in (0, 1)]
    for one in lines:
        del one["filter"], one["metrics"]
    path = samples(json.dumps(lines, indent=2), name="model_sums.jsonl")
    assert outcomes(analysis(path)) == counted(success=1, failure=1)
    assert outcomes(analysis(path, judge="exact_match,#2")) == counted(success=2)


def test_a_line_that_is_repeated_is_another_attempt(samples: Samples) -> None:
    lines = [sample(number, 1.0) for number in range(3)]
    found = analysis(samples(*lines, *lines))
    assert (found.tally.total, found.attempts) == (3, 6)


# -- prompts, answers, ids --------------------------------------------------------------------------------------


def test_the_answer_to_choices_is_the_most_likely_one(samples: Samples, cli: Cli) -> None:
    arguments = {f"gen_args_{at}": {"arg_0": "Which?", "arg_1": f" {choice}"} for at, choice in enumerate("ABC")}
    new = sample(0, arguments=arguments, resps=[[["-8.4", "False"]], [["-1.5", "True"]], [["-3.0", "False"]]])
    old = sample(1, arguments=[["Which?", " A"], ["Which?", " B"]], resps=[[[-1.0, False]], [[-2.0, False]]])
    contexts = sample(2, arguments=[["He ", "ran"], ["She ", "ran"]], resps=[[[-3.0, False]], [[-2.0, False]]])
    rows = list(entries(samples(new, old, contexts), cli).values())
    assert [(row["input"], row["response"]) for row in rows] == [
        ("Which?", "B"), ("Which?", "A"), ("He ", "She ran"),
    ]  # fmt: skip


def test_all_answers_of_a_repeated_question_are_shown(samples: Samples, cli: Cli) -> None:
    (row,) = entries(samples(sample(0, resps=[["one", "two"]])), cli).values()
    assert (row["response"], row["repeats"], row["attempts"]) == ("one\n\ntwo", 2, 1)


def test_chats_are_shown_as_messages(samples: Samples, cli: Cli) -> None:
    chat = [{"role": "system", "content": "be short"}, {"role": "user", "content": "why?"}]
    (row,) = entries(samples(sample(0, arguments={"gen_args_0": {"arg_0": chat, "arg_1": {}}})), cli).values()
    assert row["input"] == "why?"
    assert [one["content"] for one in row["conversation"]][:2] == ["be short", "why?"]


def test_ids_are_of_the_task_and_the_document_and_not_of_its_place(samples: Samples, cli: Cli) -> None:
    first = samples(sample(0), sample(1))
    moved = samples(sample(1, doc_id=7), sample(0, 0.0, doc_id=3), name="samples_sums_2026-02-02T12-00-00.5.jsonl")
    other = samples(sample(0), sample(1), name="samples_more_2026-02-02T12-00-00.5.jsonl")
    assert entries(first, cli).keys() == entries(moved, cli).keys()
    assert all(name.startswith("sums:") for name in entries(first, cli))
    assert not entries(first, cli).keys() & entries(other, cli).keys()


def test_short_values_of_a_document_are_fields(samples: Samples) -> None:
    path = samples(sample(0), sample(1, 0.0, doc={"question": "q" * 500, "level": "hard", "parts": [1]}))
    found = analysis(path, by=("doc.level",))
    assert {group.value: group.tally.success for group in found.breakdowns["doc.level"]} == {"easy": 1, "hard": 0}
    assert outcomes(analysis(path, where='row["doc.level"] = easy')) == counted(success=1)


def test_a_standard_error_of_zero_is_named(samples: Samples) -> None:
    found = analysis(samples(*map(sample, range(5))), definition="lm-eval")
    (source,) = found.sources
    assert found.rates.pass_rate is not None
    assert found.rates.pass_rate.low == pytest.approx(5 / (5 + 1.959964**2), abs=1e-6)  # Wilson's, at 5 of 5
    assert [(one.name, one.value) for one in source.figures] == [
        ("exact_match,none", 1.0), ("exact_match_stderr,none", 0.0),
    ]  # fmt: skip
    assert "standard error of 0 for exact_match,none, because all of 5 documents" in source.differs[0]


# -- everything that is done with results ------------------------------------------------------------------------


def test_the_page_has_the_numbers_of_its_sample() -> None:
    found = analysis(SAMPLE, definition="lm-eval")
    assert outcomes(found) == counted(success=5, failure=3)
    assert outcomes(analysis(SAMPLE, judge="exact_match,majority")) == counted(success=6, failure=2)
    assert [one.count for one in found.sources[0].figures] == [5, None, 6, None]


def test_every_command_takes_a_samples_file(cli: Cli, tmp_path: Path) -> None:
    path = Path(shutil.copy(SAMPLE, tmp_path))
    data, journal, rejudged = (tmp_path / name for name in ("data.jsonl", "journal.jsonl", "rejudge_x.jsonl"))
    for words in (
        ("results", "analyze", "--by", "doc.level", "--by", "judge"),
        ("results", "analyze", "--where", 'row["doc.level"] = hard'),
        ("results", "analyze", "--definition", "lm-eval", "-o", str(tmp_path / "page.html")),
        ("results", "show", next(iter(entries(path, cli)))),
        ("results", "check"),
        ("results", "extract", "--category", "failure", "-o", str(data)),
        ("results", "rejudge", "--judge", 'contains("3")', "--rejudged", str(rejudged)),
        ("results", "export", "--to", "csv", "-o", str(tmp_path / "x.csv")),
        ("results", "convert-to-excel", "-o", str(tmp_path / "x.xlsx")),
        ("results", "analyze", "--fail-on", "pass-rate < 1%"),
    ):
        ran = cli(*words, str(path))
        assert ran.code == 0, (words, ran.err)
    assert cli("results", "analyze", str(path), "--fail-on", "pass-rate < 99%").code == 1
    assert len(rejudged.read_text().splitlines()) == 8
    ran = cli("run", str(data), "--target", "simulated:assistant", "--judge", "refusal", "--journal", str(journal))
    assert ran.code == 0, ran.err
    assert analysis(journal).tally.total == 3


def test_compressed_files_and_standard_input_give_the_same_counts(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "x.jsonl.gz"
    packed.write_bytes(gzip.compress(SAMPLE.read_bytes()))
    assert outcomes(analysis(packed)) == outcomes(analysis(SAMPLE))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SAMPLE.read_bytes())))
    (found,) = json.loads(cli("results", "analyze", "-", "--output-format", "json").out)["analyses"]
    assert (found["entries"]["total"], found["entries"]["success"]) == (8, 5)


# -- hostile files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", ["[1]", "null", "{", "\x00", '{"doc_id": 1}', '{"doc": null}', '{"doc": ' + "[" * 5000 + "]" * 5000 + "}"]
)
def test_a_line_that_cannot_be_read_is_counted_as_such(samples: Samples, line: str) -> None:
    found = analysis(samples(sample(0), line + "\n", sample(1)))
    assert outcomes(found) == counted(success=2)
    assert found.sources[0].bad_lines == 1


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:20])
def test_odd_values_cost_nothing_but_themselves(samples: Samples, value: Any, cli: Cli) -> None:
    odd = [name for name in sample(0) if name != "doc"]
    path = samples(sample(0), *({**sample(at, 1.0), name: value} for at, name in enumerate(odd, start=1)))
    found = analysis(path)
    assert found.attempts == 1 + len(odd) and not found.sources[0].bad_lines
    assert cli("results", "export", str(path), "--to", "csv", "-o", str(path.with_suffix(".csv"))).code == 0


def test_torn_files_give_the_documents_before_the_break(samples: Samples) -> None:
    lines = [sample(number) for number in range(6)]
    for text, name in (
        ("".join(json.dumps(one) + "\n" for one in lines), "a.jsonl"),
        (json.dumps(lines, indent=2), "b.jsonl"),
    ):
        totals = []
        for cut in range(len(text) // 5, len(text) + 1, 307):
            found = analysis(samples(text[:cut], name=name))
            totals.append(found.tally.total)
            assert found.tally.total == 6 or {"F001", "F002"} & set(codes(found)) or text[cut - 1] == "\n"
        assert totals == sorted(totals) and totals[0] < 3


def test_blank_lines_and_a_byte_order_mark_are_no_problem(samples: Samples) -> None:
    found = analysis(samples("\ufeff" + json.dumps(sample(0)) + "\n", "\n", sample(1)))
    assert (found.tally.success, found.sources[0].blank_lines, found.sources[0].bad_lines) == (2, 1, 0)


@pytest.mark.shared
@pytest.mark.parametrize(("folder", "name"), SAMPLES)
def test_damaged_files_are_read_or_refused(folder: str, name: str, tmp_path: Path) -> None:
    read_damaged((GOLDEN / folder / name).read_bytes(), tmp_path / name, "lm-eval", 10)
