"""Records of OpenAI evals (oaieval): real ones of 3.0.1 beside their oracle, and small ones made here."""

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

from faircount import AnalyzeOptions, analyze
from tests.conftest import ROOT, Cli, codes, shared_folder
from tests.readers.test_deepeval import ODD, analysis, counted, entries, outcomes, read_damaged

SHARED = shared_folder()
GOLDEN = (SHARED or Path("shared")) / "golden" / "openai-evals"
ORACLE: dict[str, Any] = json.loads((GOLDEN / "oracle.json").read_text()) if SHARED is not None else {}
SAMPLE = ROOT / "docs" / "samples" / "openai_evals.jsonl"
TOOL = "OpenAI evals"
RUN = "run-1"
pytestmark = pytest.mark.filterwarnings("error")


def spec(run: str = RUN, **changed: Any) -> dict[str, Any]:
    told = {"completion_fns": ["bot"], "eval_name": "towns.dev.v0", "base_eval": "towns", "split": "dev", "run_id": run}
    return {"spec": {**told, **changed}}


def report(run: str = RUN, **told: Any) -> dict[str, Any]:
    return {"final_report": told, "run_id": run}


def event(number: int, kind: str, run: str = RUN, **data: Any) -> dict[str, Any]:
    return {"run_id": run, "event_id": 0, "sample_id": f"towns.dev.{number}", "type": kind, "data": data}


def asked(number: int, sampled: Any = "Beta", run: str = RUN) -> dict[str, Any]:
    prompt = [{"role": "system", "content": "Be short."}, {"role": "user", "content": f"question {number}"}]
    return event(number, "sampling", run, prompt=prompt, sampled=sampled)


def match(number: int, correct: Any = True, run: str = RUN, **data: Any) -> dict[str, Any]:
    return event(number, "match", run, correct=correct, **{"sampled": "Beta", "picked": "Beta", **data})


Records = Callable[..., Path]


@pytest.fixture
def records(tmp_path: Path) -> Records:
    def write(*lines: Any, name: str = "towns.jsonl", whole: bool = True) -> Path:
        every = [spec(), *lines, report()] if whole else lines
        path = tmp_path / name
        path.write_text("".join(one if isinstance(one, str) else json.dumps(one) + "\n" for one in every))
        return path

    return write


# -- the golden files -------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize("name", ORACLE)
def test_samples_are_those_of_the_oracle(name: str) -> None:
    expected = ORACLE[name]["expected"]
    found = analysis(GOLDEN / name)
    assert outcomes(found) == expected["outcomes"]
    assert (found.tally.total, found.attempts) == (expected["entries"], expected["attempts"])
    (source,) = found.sources
    assert (source.tool, source.target, source.lines, source.bad_lines) == (TOOL, "bot", ORACLE[name]["lines"], 0)
    assert ("F039" in codes(found)) is (ORACLE[name]["tool_says"] is None)
    assert "F040" not in codes(found)


@pytest.mark.shared
@pytest.mark.parametrize("name", [name for name, told in ORACLE.items() if told["tool_says"]])
def test_oaievals_own_figures_are_those_of_its_report(name: str) -> None:
    told = {key: value for key, value in ORACLE[name]["tool_says"].items() if key != "boostrap_std"}  # it is random
    (source,) = analysis(GOLDEN / name, definition=TOOL).sources
    assert {one.name: one.value for one in source.figures} == pytest.approx(told)
    assert all(one.stated == pytest.approx(one.value) for one in source.figures)
    assert (source.figures[0].count, source.figures[0].n) == (7, 12)


@pytest.mark.shared
def test_an_aborted_run_is_paired_with_the_whole_one(cli: Cli) -> None:
    both = [str(GOLDEN / name) for name in ("towns.jsonl", "towns_aborted.jsonl")]
    (pair,) = json.loads(cli("results", "compare", *both, "--output-format", "json").out)["pairs"]
    assert (pair["unpaired"]["a"]["missing"]["count"], pair["unpaired"]["b"]["missing"]["count"]) == (10, 0)


# -- states -----------------------------------------------------------------------------------------------------


def test_matches_decide_and_an_empty_answer_is_an_answer(records: Records) -> None:
    path = records(
        asked(0), match(0), asked(1), match(1, correct=False), asked(2, ""), match(2, correct=False, sampled="")
    )
    found = analysis(path)
    assert outcomes(found) == counted(success=1, failure=2)
    assert codes(found)["F053"] == 1


def test_an_answer_that_was_never_judged_is_unjudged(records: Records) -> None:
    path = records(asked(0), match(0), asked(1), asked(2), match(2, correct=None))
    found = analysis(path, definition=TOOL)
    assert outcomes(found) == counted(success=1, unjudged=2)
    assert codes(found)["F004"] == 1
    (source,) = found.sources
    assert source.differs == ("oaieval reports 50.0% (1 of 2 match events); 1 more sample has no match event.",)


def test_an_error_without_an_answer_is_an_error(records: Records) -> None:
    path = records(
        event(0, "error", type="RateLimitError", message="slow down"),
        asked(1), event(1, "error", type="ValueError", message="odd"), match(1),
        asked(2), match(2),
    )  # fmt: skip
    found = analysis(path)
    assert outcomes(found) == counted(success=2, error=1)
    assert [kind.kind for kind in found.errors] == ["slow down"]


def test_several_matches_of_a_sample_are_its_attempts(records: Records, cli: Cli) -> None:
    path = records(asked(0, "one"), match(0, sampled="one"), asked(0, "two"), match(0, correct=False, sampled="two"))
    found = analysis(path)
    assert (found.tally.total, found.attempts) == (1, 2)
    (row,) = entries(path, cli).values()
    assert [one["response"] for one in row["attempt_history"]] == ["one", "two"]


def test_events_of_samples_that_ran_side_by_side_are_kept_apart(records: Records, cli: Cli) -> None:
    path = records(asked(0), asked(1), asked(2), match(2, correct=False), match(0), match(1))
    rows = entries(path, cli)
    assert {name: row["input"] for name, row in rows.items()} == {
        f"towns.dev.{number}": f"question {number}" for number in range(3)
    }
    assert outcomes(analysis(path)) == counted(success=2, failure=1)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"score": 1.0, "choice": "B"}, "success"),
        ({"score": 0.25}, "failure"),
        ({"accuracy": True, "score": 0.0}, "success"),
        ({"choice": "Y"}, "success"),
        ({"choice": "No"}, "failure"),
        ({"choice": "__invalid__"}, "unjudged"),
        ({"tokens": 5}, "unjudged"),
    ],
)
def test_metrics_decide_where_nothing_matches(records: Records, data: dict[str, Any], expected: str, cli: Cli) -> None:
    path = records(asked(0, "the answer"), asked(0, "the talk with the judge"), event(0, "metrics", **data))
    assert outcomes(analysis(path)) == counted(**{expected: 1})
    (row,) = entries(path, cli).values()
    assert row["response"] == "the answer"


def test_a_scale_beyond_one_needs_a_threshold(records: Records) -> None:
    path = records(*(line for at in range(4) for line in (asked(at), event(at, "metrics", score=at))))
    found = analysis(path)
    assert outcomes(found) == counted(unjudged=4)
    assert codes(found)["F052"] == 4
    assert outcomes(analysis(path, success_threshold=2)) == counted(success=2, failure=2)


def test_metrics_beside_a_match_are_judges_of_their_own(records: Records) -> None:
    path = records(asked(0), match(0), event(0, "metrics", score=0.0))
    assert outcomes(analysis(path)) == counted(success=1)
    assert outcomes(analysis(path, judge="score")) == counted(failure=1)


# -- ids, runs, figures -----------------------------------------------------------------------------------------


def test_ids_do_not_depend_on_the_order_of_events_or_the_run(records: Records, cli: Cli) -> None:
    lines = [line for at in range(3) for line in (asked(at), match(at))]
    first = records(*lines)
    again = [{**line, "run_id": "run-2"} for line in (*lines[4:], *lines[:4])]
    second = records(spec("run-2"), report("run-2"), *again, name="second.jsonl", whole=False)
    assert entries(first, cli).keys() == entries(second, cli).keys() == {f"towns.dev.{at}" for at in range(3)}


def test_runs_of_one_file_are_read_apart(records: Records) -> None:
    lines = [asked(0), match(0), report(), spec("run-2", completion_fns=["other"]), asked(0, run="run-2")]
    path = records(spec(), *lines, match(0, correct=False, run="run-2"), whole=False)
    found = analyze(str(path), options=AnalyzeOptions(cache=False, definition=TOOL)).analyses
    assert [(one.sources[0].path.rpartition("/")[2], one.tally.success) for one in found] == [(RUN, 1), ("run-2", 0)]
    assert [one.sources[0].figures[0].value for one in found] == [1.0, 0.0]
    assert ["F039" in codes(one) for one in found] == [False, True]


def test_a_report_that_its_events_contradict_is_found(records: Records) -> None:
    lines = spec(), asked(0), match(0), asked(1), match(1, correct=False)
    assert "F040" not in codes(analysis(records(*lines, report(accuracy=0.5), whole=False)))
    assert codes(analysis(records(*lines, report(accuracy=0.75), whole=False)))["F040"] == 1


def test_a_run_without_a_report_did_not_complete(records: Records) -> None:
    assert "F039" in codes(analysis(records(spec(), asked(0), match(0), whole=False)))


# -- everything that is done with results ------------------------------------------------------------------------


def test_the_page_has_the_numbers_of_its_sample() -> None:
    found = analysis(SAMPLE, definition=TOOL)
    assert outcomes(found) == counted(success=5, failure=2, unjudged=1)
    assert (found.sources[0].figures[0].count, found.sources[0].figures[0].n) == (5, 7)


def test_every_command_takes_a_file(cli: Cli, tmp_path: Path) -> None:
    path = Path(shutil.copy(SAMPLE, tmp_path))
    data, journal, rejudged = (tmp_path / name for name in ("data.jsonl", "journal.jsonl", "rejudge_x.jsonl"))
    for words in (
        ("results", "analyze", "--by", "eval", "--by", "judge"),
        ("results", "analyze", "--where", "split = dev"),
        ("results", "analyze", "--definition", TOOL, "-o", str(tmp_path / "page.html")),
        ("results", "show", "library.dev.3"),
        ("results", "check"),
        ("results", "extract", "--category", "failure", "-o", str(data)),
        ("results", "rejudge", "--judge", 'contains("e")', "--rejudged", str(rejudged)),
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
    assert analysis(journal).tally.total == 2


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


@pytest.mark.parametrize("line", ["[1]", "null", "{", "\x00", "{}", '{"type": "match"}', "[" * 5000 + "]" * 5000])
def test_a_line_that_cannot_be_read_is_counted_as_such(records: Records, line: str) -> None:
    found = analysis(records(asked(0), match(0), line + "\n", asked(1), match(1)))
    assert outcomes(found) == counted(success=2)
    assert found.sources[0].bad_lines == 1


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:20])
def test_odd_values_cost_nothing_but_themselves(records: Records, value: Any, cli: Cli) -> None:
    lines: list[Any] = [asked(0), match(0)]
    for number, name in enumerate(("prompt", "sampled", "usage"), start=1):
        lines += [{**asked(number), "data": {**asked(number)["data"], name: value}}, match(number)]
    for number, name in enumerate(("correct", "sampled", "picked"), start=4):
        lines += [asked(number), {**match(number), "data": {**match(number)["data"], name: value}}]
    lines += [{**match(7), "data": value}, {**asked(8), "type": value}, match(8)]
    lines += [asked(9), event(9, "metrics", score=value, choice=value), event(10, "error", message=value)]
    path = records(spec(completion_fns=value, split=value), *lines, report(accuracy=value), whole=False)
    found = analysis(path)
    assert (found.tally.total, found.sources[0].bad_lines) == (11, 0)
    assert cli("results", "export", str(path), "--to", "csv", "-o", str(path.with_suffix(".csv"))).code == 0


def test_torn_files_give_the_samples_before_the_break(records: Records) -> None:
    whole = records(*(line for at in range(4) for line in (asked(at), match(at)))).read_text()
    totals = []
    for cut in range(whole.index("match"), len(whole) + 1, 211):
        found = analysis(records(whole[:cut], whole=False))
        totals.append(found.tally.total)
        assert "F039" in codes(found) or cut > len(whole) - 3
    assert totals == sorted(totals) and totals[-1] == 4


def test_doubled_records_are_further_attempts_and_no_further_entries(records: Records) -> None:
    lines = [line for at in range(3) for line in (asked(at), match(at))]
    found = analysis(records(*lines, *lines))
    assert (found.tally.total, found.tally.success) == (3, 3)


def test_blank_lines_and_a_byte_order_mark_are_no_problem(records: Records) -> None:
    path = records("\ufeff" + json.dumps(spec()) + "\n", "\n", asked(0), match(0), report(), whole=False)
    found = analysis(path)
    assert (found.tally.success, found.sources[0].blank_lines, found.sources[0].bad_lines) == (1, 1, 0)


@pytest.mark.shared
@pytest.mark.parametrize("name", ORACLE)
def test_damaged_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    read_damaged((GOLDEN / name).read_bytes(), tmp_path / name, TOOL, 12)
