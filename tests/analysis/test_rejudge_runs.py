"""A run that was judged again is still a run of tests: with its rule, with its words, and apart from attacks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from faircount.core import Decision, UsageError, Verdict
from faircount.readers import RunFile, aggregated, marked, recognised
from tests.analysis.test_rejudge import SCHEMA, rejudge, rows_of
from tests.conftest import Cli, Write, analysis_of, codes, standard
from tests.runs import attack_journals, run_files

CASES = {"sum": "ffp", "product": "ppp", "root": "fff"}
"""Cases of a run, with a letter for what the metric said of each attempt; the answer to attempt n is "answer n"."""
ANSWER_1 = 'contains(text="answer 1")'


def journal(cases: dict[str, str] = CASES, *, strategy: str = "mean") -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = [run_files.HEADER]
    for name, letters in cases.items():
        records.append(run_files.case(name, count=len(letters), strategy=strategy))
        records += [run_files.attempt(name, number, letter) for number, letter in enumerate(letters)]
    return records


def report(tool: str | None) -> bytes:
    """Return the cases as a report, by REBEL or by Faircount."""
    words = {"p": "passed", "f": "failed"}
    entries = [
        run_files.entry(name, [f"answer {n}" for n in range(3)], letters, words[max(letters, key=letters.count)])
        for name, letters in CASES.items()
    ]
    metadata: dict[str, Any] = {} if tool is None else {"tool": tool, "version": "0.1.0"}
    return run_files.report(*entries, **metadata)


Written = Callable[[str], str]


@pytest.fixture
def written(write: Write, tmp_path: Path) -> Written:
    """Return what writes a run as a journal, as REBEL's report or as one of ours, and returns its path."""

    def write_it(kind: str) -> str:
        if kind == "journal":
            return write(journal(), "run.jsonl")
        path = tmp_path / "test_results.json"
        path.write_bytes(report("faircount" if kind == "ours" else None))
        return str(path)

    return write_it


KINDS = {"journal": "faircount", "ours": "faircount", "rebel": "rebel"}


# -- its aim ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_rejudged_run_is_about_tests(cli: Cli, written: Written, tmp_path: Path, kind: str) -> None:
    path, out = written(kind), str(tmp_path / "rejudge_run.jsonl")
    before = analysis_of(path)
    _, file = rejudge(cli, path, "--judge", ANSWER_1, "--rejudged", out)
    assert file["source"]["aim"] == "task"
    after = analysis_of(out)
    assert (after.aim, before.aim) == ("task", "task")
    (source,) = after.sources
    assert (source.tool, source.reader) == (KINDS[kind], "rejudged run")
    assert source.tool_version == before.sources[0].tool_version
    # One of three answers is a hit: by the mean no case passes, whatever its metric had said.
    assert (after.tally.success, after.tally.failure, after.tally.total) == (0, 3, 3)
    assert before.tally.success == 1
    assert file["rates"]["before"]["value"] == pytest.approx(before.rates.asr.value)
    assert file["rates"]["after"]["value"] == after.rates.asr.value == 0
    assert codes(after) == {}
    document = json.loads(cli("results", "analyze", out, "--output-format", "json").out)["analyses"][0]
    assert document["rates"]["pass_rate"]["value"] == 0


def test_the_words_are_those_of_tests(cli: Cli, written: Written) -> None:
    ran = cli("results", "rejudge", written("journal"), "--judge", 'contains(text="answer")')
    told = " ".join(ran.out.split())
    # A head stands over its numbers, in as many lines as it needs.
    assert "now now now Before passed failed unjudged passed 1 0 0 failed 2 0 0" in told
    assert "A test passes with" in told
    assert "Pass rate before 33%" in told
    assert "Pass rate after 100%" in told
    assert "Entries that now pass 2" in told
    assert "Failed before, passed now" in told
    assert re.search(r" sum \(\S+run\.jsonl:5\) verdict failed before, passed now, judge ", told)
    assert "success" not in told.lower()


def test_attacks_keep_theirs(cli: Cli, write: Write) -> None:
    path = write([standard(1, response="BOMB", success=False)])
    out = cli("results", "rejudge", path, "--judge", 'contains(text="BOMB")').out
    assert "failure before, success now" in out
    assert "A success is" in out
    assert "Rate after" in out
    assert "pass" not in out.lower()


def test_a_test_passes_on_a_hit_and_not_turns_it_round(cli: Cli, written: Written, tmp_path: Path) -> None:
    """The same as JudgeMetric: `passes_on="hit"` is the judge, `passes_on="pass"` is not(judge)."""
    path = written("journal")
    for judge, passed in [('contains(text="answer")', 3), ('not(contains(text="answer"))', 0)]:
        out = str(tmp_path / "out.jsonl")
        rejudge(cli, path, "--judge", judge, "--rejudged", out, "--force")
        assert analysis_of(out).tally.success == passed


@pytest.mark.parametrize("command", ["show", "extract", "export", "compare", "check"])
def test_other_commands_take_it_for_a_run(cli: Cli, written: Written, tmp_path: Path, command: str) -> None:
    path, out = written("journal"), str(tmp_path / "rejudge_run.jsonl")
    rejudge(cli, path, "--judge", ANSWER_1, "--rejudged", out)
    words = {
        "show": ["show", "sum", out],
        "extract": ["extract", out, "-o", str(tmp_path / "extract.jsonl")],
        "export": ["export", out, "-o", str(tmp_path / "rows.csv")],
        "compare": ["compare", path, out],
        "check": ["check", out],
    }[command]
    ran = cli("results", *words)
    assert ran.code == 0, ran.err
    made = (tmp_path / "extract.jsonl").read_text() if command == "extract" else ran.out
    assert "rejudged_run" not in made
    if command in ("show", "compare"):
        assert "passed" in ran.out or "pass rate" in ran.out.lower()
        assert "succe" not in ran.out.lower()


def test_together_with_its_run_the_new_verdicts_stand(cli: Cli, written: Written, tmp_path: Path) -> None:
    path, out = written("journal"), str(tmp_path / "rejudge_run.jsonl")
    rejudge(cli, path, "--judge", 'contains(text="answer")', "--rejudged", out)
    together = analysis_of(path, out, combine=True)
    assert (together.tally.success, together.tally.total) == (3, 3)
    assert codes(together) == {"F008": 3, "F009": 2}


def test_tests_and_attacks_are_never_counted_together(cli: Cli, written: Written, write: Write, tmp_path: Path) -> None:
    path, out = written("journal"), tmp_path / "rejudge_run.jsonl"
    rejudge(cli, path, "--judge", ANSWER_1, "--rejudged", str(out))
    attacks = write([standard(n, success=True) for n in range(4)])
    with pytest.raises(UsageError, match="one rate cannot cover both"):
        analysis_of(str(out), attacks, combine=True)
    # In one file, whatever does not fit its first row is left out and told.
    lines = [out.read_text(), Path(attacks).read_text()]
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text("".join(lines))
    found = analysis_of(str(mixed))
    assert (found.aim, found.tally.total, codes(found)["F001"]) == ("task", 3, 4)
    mixed.write_text("".join(reversed(lines)))
    found = analysis_of(str(mixed))
    assert (found.aim, found.tally.total, codes(found)["F001"]) == ("attack", 4, 3)


# -- what is in its rows ----------------------------------------------------------------------------------------


def test_rows_are_still_spikees_and_say_what_was_replaced(cli: Cli, written: Written) -> None:
    rows, _ = rejudge(cli, written("journal"), "--judge", ANSWER_1)
    row = rows[1]
    assert row["rejudged_run"] == {"aim": "task", "tool": "faircount", "version": "0.1.0"}
    assert (row["id"], row["success"], row["response"], row["attack_name"]) == ("product", False, "answer 0", "None")
    judge = 'strings.Contains(text="answer 1")'
    assert row["judge_name"] == judge
    assert row["metric.strings.Contains(text='answer 1')"] == "failed"
    assert "metric.Correct" not in row
    before = row["rejudged"]["before"]
    assert before == {"success": True, "metric.Correct": "passed", "judge_name": "Correct"}
    items = row["attempt_history"]
    assert [item["success"] for item in items] == [False, True, False]
    assert [item["metrics"][0]["verdict"] for item in items] == ["failed", "passed", "failed"]
    assert {item["metrics"][0]["name"] for item in items} == {judge}
    assert {item["metrics_before"][0]["name"] for item in items} == {"Correct"}


def test_the_metrics_of_a_rejudged_run_are_its_judge(cli: Cli, written: Written, tmp_path: Path) -> None:
    out = str(tmp_path / "out.jsonl")
    rejudge(cli, written("journal"), "--judge", 'contains(text="answer")', "--rejudged", out)
    (metric,) = analysis_of(out).metrics
    assert (metric.passed, metric.failed) == (3, 0)
    assert metric.metric == "strings.Contains(text='answer')"


def test_the_answer_shown_is_one_that_was_decided_like_its_case(cli: Cli, write: Write) -> None:
    path = write(journal({"sum": "fff"}, strategy="max"), "run.jsonl")
    (row,), _ = rejudge(cli, path, "--judge", 'contains(text="answer 2")')
    assert (row["success"], row["response"]) == (True, "answer 2")
    assert "response: answer 2" in cli("results", "rejudge", path, "--judge", 'contains(text="answer 2")').out


def test_a_rejudged_run_can_be_rejudged(cli: Cli, written: Written, tmp_path: Path) -> None:
    path, once, twice = written("journal"), tmp_path / "once.jsonl", tmp_path / "twice.jsonl"
    rejudge(cli, path, "--judge", ANSWER_1, "--rejudged", str(once))
    rows, file = rejudge(cli, str(once), "--judge", 'contains(text="answer")', "--rejudged", str(twice))
    assert file["source"]["aim"] == "task"
    assert [row["success"] for row in rows] == [True] * 3
    assert rows[0]["rejudged"]["before"]["rejudged"]["before"]["metric.Correct"] == "failed"
    assert rows[0]["attempt_history"][0]["metrics_before"][0]["name"] == "Correct"
    assert analysis_of(str(twice)).aim == "task"


@pytest.mark.parametrize("change", ["sorted", "spread", "blank", "windows", "mark", "long", "packed", "no end"])
def test_a_file_that_somebody_wrote_anew_is_still_a_run(
    cli: Cli, written: Written, tmp_path: Path, change: str
) -> None:
    out = tmp_path / "out.jsonl"
    rejudge(cli, written("journal"), "--judge", 'contains(text="answer")', "--rejudged", str(out))
    rows = rows_of(out)
    if change == "long":
        rows[0]["response"] = "x" * 200_000
    texts = [json.dumps(row, sort_keys=change == "sorted") for row in rows]
    if change == "spread":
        texts = [json.dumps(row, separators=(" , ", " : ")) for row in rows]
    content = {"blank": "\n\n", "windows": "\r\n"}.get(change, "\n").join(texts) + ("" if change == "no end" else "\n")
    data = content.encode("utf-8-sig" if change == "mark" else "utf-8")
    if change == "packed":
        import gzip

        data = gzip.compress(data)
    out.write_bytes(data)
    found = analysis_of(str(out))
    assert (found.aim, found.tally.success, found.sources[0].bad_lines) == ("task", 3, 0)
    assert found.sources[0].blank_lines == (2 if change == "blank" else 0)


@pytest.mark.parametrize(
    "mark",
    ['{"aim":"attack","tool":"rebel"}', '{"aim":"task","tool":"spikee"}', '"task"', "{}", "null", "[" * 500],
)
def test_a_mark_that_says_something_else_makes_no_run(mark: str) -> None:
    assert recognised(f'{{"rejudged_run": {mark}, "id": 1}}\n'.encode()) is None


def test_marks_are_recognised_in_what_they_are_written_as() -> None:
    run = RunFile("rebel", "REBEL report", "0.2.0")
    found = recognised(marked(run) + b'"id": "' + b"x" * 100_000)
    assert found is not None
    assert (found.tool, found.version, found.reader) == ("rebel", "0.2.0", "rejudged run")


# -- which attempts count ---------------------------------------------------------------------------------------

RULES = ["mean", "min", "max", "median", "majority", "pass@2", "pass^2", "at_least_2", "any", "all"]


@pytest.mark.parametrize("strategy", RULES)
def test_a_case_is_decided_as_the_same_verdicts_of_a_metric_would_be(cli: Cli, write: Write, strategy: str) -> None:
    """An attempt without an answer is no failure; what the rule leaves open then is no failure of the judge."""
    records = [run_files.HEADER, run_files.case("sum", count=3, strategy=strategy)]
    records += [run_files.attempt("sum", 0, "f"), run_files.unanswered("sum", 1), run_files.attempt("sum", 2, "f")]
    path = write(records, "run.jsonl")
    (row,), file = rejudge(cli, path, "--judge", 'contains(text="answer 2")')
    expected = aggregated(strategy, [Verdict(Decision.PASS, 0.0), Verdict(None), Verdict(Decision.HIT, 1.0)])
    assert row["success"] is expected.success
    assert (file["verdicts"]["wanted"], file["unjudged"]) == (2, 0)
    assert ("judge_error" in row) == (expected.success is None)
    (metric,) = [value for name, value in row.items() if name.startswith("metric.")]
    assert metric == {True: "passed", False: "failed", None: "error"}[expected.success]


def test_an_empty_answer_and_the_word_true_are_answers(cli: Cli, write: Write) -> None:
    empty = {"output": "", "tools_called": [], "context": [], "execution_time": 0.5}
    records = [run_files.HEADER, run_files.case("a"), run_files.case("b")]
    records += [run_files.attempt("a", 0, "p", output=empty)]
    records += [run_files.attempt("b", 0, "p", output={**empty, "output": "True"})]
    rows, file = rejudge(cli, write(records, "run.jsonl"), "--judge", 'contains(text="True")')
    assert [row["success"] for row in rows] == [False, True]
    assert sum(file["left_alone"].values()) == 0


def test_cases_without_any_answer_stay_and_are_still_tests(cli: Cli, write: Write, tmp_path: Path) -> None:
    records = [run_files.HEADER, run_files.case("none"), run_files.case("never"), run_files.case("some")]
    records += [run_files.unanswered("none"), run_files.attempt("some", 0, "f")]
    path, out = write(records, "run.jsonl"), str(tmp_path / "out.jsonl")
    rows, file = rejudge(cli, path, "--judge", 'contains(text="answer")', "--rejudged", out)
    assert (file["left_alone"]["error"], file["left_alone"]["empty"], file["judged"]) == (1, 1, 1)
    assert all("rejudged_run" in row for row in rows)
    tally = analysis_of(out).tally
    assert (tally.success, tally.error, tally.unjudged, tally.total) == (1, 1, 1, 3)


def test_a_judge_that_fails_leaves_a_case_unjudged(cli: Cli, written: Written, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def judge(attempt):\n    raise RuntimeError('down')\n")
    out = str(tmp_path / "out.jsonl")
    words = ("--judge", f"{tmp_path}/mine.py:judge", "--rejudged", out)
    rows, file = rejudge(cli, written("journal"), *words, code=4)
    assert {row["success"] for row in rows} == {None}
    assert file["unjudged"] == 3
    assert analysis_of(out).tally.unjudged == 3


def test_the_name_of_a_metric_is_not_taken_for_that_of_a_judge(cli: Cli, write: Write) -> None:
    records = [run_files.HEADER, run_files.case("a", metrics=["canary"])]
    records.append(run_files.attempt("a", 0, "p", metrics=["canary"]))
    path = write(records, "run.jsonl")
    ran = cli("results", "rejudge", path)
    assert ran.code == 2
    assert "--judge" in ran.err
    (row,), _ = rejudge(cli, path, "--allow-judge", 'canary=contains(text="answer")')
    assert row["success"] is True


def test_a_run_over_a_dataset_stays_about_attacks_and_every_attempt_counts(
    cli: Cli, write: Write, tmp_path: Path
) -> None:
    said = [attack_journals.tried("1", number, "f") for number in range(3)]
    records = [attack_journals.header(), attack_journals.entry("1"), *said]
    path, out = write(records, "run.jsonl"), str(tmp_path / "rejudge_run.jsonl")
    for words, success in [([], True), (["--turns", "last"], False)]:
        (row,), file = rejudge(cli, path, "--judge", 'contains(text="answer 0")', "--rejudged", out, "--force", *words)
        assert (row["success"], file["source"]["aim"]) == (success, "attack")
        assert "rejudged_run" not in row
        assert analysis_of(out).aim == "attack"


def test_a_dry_run_over_a_run_fits_its_schema(cli: Cli, written: Written) -> None:
    words = ("results", "rejudge", written("rebel"), "--judge", ANSWER_1, "--dry-run", "--output-format", "json")
    document = json.loads(cli(*words).out)
    jsonschema.validate(document, SCHEMA)
    (file,) = document["files"]
    assert (file["source"]["aim"], file["verdicts"]["wanted"], file["path"]) == ("task", 9, None)
