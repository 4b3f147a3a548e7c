"""Run journals are results like any other: one entry per case, at the line of its last attempt that counts."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from faircount import analyze, read
from faircount.core import InputError, UsageError
from faircount.readers import Origin, journal_rows, open_stream, reads_ranges, rows_of
from faircount.runs import Layout, read_journal, report_pieces
from tests.conftest import Cli, Write, analysis_of, codes, examples_of, standard
from tests.runs.run_files import HEADER, attempt, call, case, retry, unanswered

LIMIT = 64 * 1024 * 1024


def rows(path: str) -> dict[str, dict[str, Any]]:
    """Return the rows that a file is read as, by id, with the line of each."""
    found = {}
    for raw in rows_of(Origin(path, path), LIMIT):
        found[str(raw.row.id)] = {**json.loads(raw.line), "line": raw.number}
    return found


def tally(path: str) -> tuple[int, int, int, int]:
    """Return how many entries passed, failed, ended in an error and were not judged."""
    counted = analysis_of(path).tally
    return counted.success, counted.failure, counted.error, counted.unjudged


def test_a_case_is_one_entry_whatever_the_number_of_its_attempts(write: Write) -> None:
    lines = [HEADER, case("test_a_[]", count=3), case("test_b_[]")]
    lines += [attempt("test_a_[]", number, verdict) for number, verdict in enumerate("ppf")]
    path = write([*lines, attempt("test_b_[]", 0, "f")])
    found = analysis_of(path)
    assert (found.tally.success, found.tally.failure, found.tally.total) == (1, 1, 2)
    assert found.attempts == 4
    assert found.aim == "task"
    assert found.dynamic is None


@pytest.mark.parametrize(
    ("strategy", "verdicts", "passed"),
    [
        ("mean", "ppf", True),
        ("mean", "pf", False),
        ("min", "ppf", False),
        ("max", "fff", False),
        ("max", "ffp", True),
        ("all", "pp", True),
        ("any", "fp", True),
        ("majority", "pff", False),
    ],
)
def test_the_rule_that_a_case_names_makes_one_verdict_of_its_attempts(
    write: Write, strategy: str, verdicts: str, passed: bool
) -> None:
    told = [attempt("a", number, verdict) for number, verdict in enumerate(verdicts)]
    path = write([HEADER, case("a", count=len(verdicts), strategy=strategy), *told])
    assert tally(path) == ((1, 0, 0, 0) if passed else (0, 1, 0, 0))


def test_a_row_stands_on_the_line_of_the_last_attempt_of_its_case(write: Write) -> None:
    path = write(
        [
            HEADER,
            case("a", count=2),
            case("b", count=2),
            call("a", 0),
            attempt("a", 0),
            attempt("b", 1),
            attempt("a", 1),
            attempt("b", 0),
            {"kind": "end", "at": "x", "complete": True, "why": ""},
        ]
    )
    assert {name: row["line"] for name, row in rows(path).items()} == {"a": 7, "b": 8}
    assert [item["attempt"] for item in rows(path)["b"]["attempt_history"]] == [0, 1]
    (source,) = analysis_of(path).sources
    assert (source.lines, source.good_lines, source.bad_lines, source.blank_lines) == (9, 2, 0, 0)
    assert (source.tool, source.reader, source.tool_version) == ("faircount", "run journal", "0.1.0")


def test_an_attempt_that_was_tried_again_counts_once_and_as_it_ended(write: Write) -> None:
    lines = [HEADER, case("a"), unanswered("a", 0), retry("a", 0), attempt("a", 0, "p"), attempt("a", 0, "f")]
    path = write(lines)
    assert tally(path) == (1, 0, 0, 0)
    assert rows(path)["a"]["line"] == 5
    assert rows(path)["a"]["attempts"] == 1


def test_a_case_that_was_never_tried_is_not_judged_and_stands_where_it_is_told(write: Write) -> None:
    path = write([HEADER, case("a"), case("b"), call("b", 0), attempt("a", 0)])
    assert tally(path) == (1, 0, 0, 1)
    assert rows(path)["b"]["line"] == 3
    assert rows(path)["b"]["attempts"] == 0


def test_a_case_without_any_answer_is_an_error_and_one_with_some_is_not(write: Write) -> None:
    lines = [HEADER, case("a", count=2), unanswered("a", 0), unanswered("a", 1), case("b", count=2)]
    path = write([*lines, unanswered("b", 0), attempt("b", 1, "p")])
    assert tally(path) == (1, 0, 1, 0)
    assert rows(path)["a"]["error"] == "status: HTTP 503"
    assert rows(path)["b"]["error"] is None
    assert rows(path)["b"]["response_time"] == 1.5
    (kind,) = analysis_of(path).errors
    assert kind.where == f"{path}:4"


def test_metrics_that_broke_leave_a_case_unjudged_and_never_failed(write: Write) -> None:
    path = write([HEADER, case("a", count=2), attempt("a", 0, "e"), attempt("a", 1, "e")])
    assert tally(path) == (0, 0, 0, 1)


def test_an_attempt_that_one_metric_failed_has_failed_though_another_broke(write: Write) -> None:
    metrics = ("Correct", "Polite")
    lines = [HEADER, case("a", metrics=metrics, count=3)]
    lines += [attempt("a", number, said, metrics=metrics) for number, said in enumerate(["fe", "ef", "pe"])]
    path = write([*lines, case("b", count=2), attempt("b", 0), attempt("b", 1)])
    assert [item["success"] for item in rows(path)["a"]["attempt_history"]] == [False, False, None]
    retries = analysis_of(path).retries
    assert retries is not None
    assert (retries.entries, retries.attempts) == (2, 4)


def test_failed_attempts_do_not_fail_a_case_that_nothing_decided(write: Write) -> None:
    lines = [HEADER, case("a", count=3, strategy="majority")]
    path = write([*lines, *(attempt("a", number, verdict) for number, verdict in enumerate("fpe"))])
    assert tally(path) == (0, 0, 0, 1)


def test_what_is_known_of_a_case_can_be_asked_for(write: Write) -> None:
    metrics = ("Correct", "Polite")
    one = case(
        "test_a_[temperature=1]",
        metrics=metrics,
        count=2,
        tags=["slow", "math"],
        parameters={"temperature": 1, "stop": ["x"]},
    )
    name = one["case"]
    path = write([HEADER, one, *(attempt(name, n, v, metrics=metrics) for n, v in enumerate(["pf", "pf"]))])
    row = rows(path)[name]
    assert row["input"] == "what is 6 times 7?"
    assert [turn["role"] for turn in row["conversation"]] == ["system", "user"]
    assert (row["suite"], row["long_id"], row["target"]) == ("test_a", "test_a", "model-1")
    assert (row["tags"], row["tag.slow"], row["tag.math"]) == ("slow, math", True, True)
    assert (row["param.temperature"], row["param.stop"]) == (1, '["x"]')
    assert (row["metric.Correct"], row["metric.Polite"]) == ("passed", "failed")
    assert row["judge_name"] == "Correct, Polite"
    assert row["meta"]["expected_output"]["output"] == "42"
    first = row["attempt_history"][0]
    assert first["success"] is False
    assert [(said["name"], said["verdict"]) for said in first["metrics"]] == [
        ("Correct", "passed"),
        ("Polite", "failed"),
    ]


def test_the_response_of_a_row_is_one_that_was_decided_like_the_case(write: Write) -> None:
    told = [attempt("a", number, verdict) for number, verdict in enumerate("fpp")]
    path = write([HEADER, case("a", count=3), *told])
    assert rows(path)["a"]["response"] == "answer 1"


def test_an_answer_that_only_calls_tools_is_told_by_the_calls(write: Write) -> None:
    tools = [{"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}}]
    output = {"output": "", "tools_called": tools, "context": [], "execution_time": 0.1}
    path = write([HEADER, case("a"), attempt("a", 0, output=output)])
    assert json.loads(rows(path)["a"]["response"]) == tools


def test_cases_of_one_suite_are_variants_of_one_thing(write: Write) -> None:
    names = [f"test_{suite}_[t={t}]" for suite in "abc" for t in (0, 1, 2)]
    lines = [record for name in names for record in (case(name), attempt(name, 0, "p" if "a" in name else "f"))]
    families = analysis_of(write([HEADER, *lines])).families
    assert families.respected
    assert (families.by, families.count) == ("suite", 3)


# -- retries ----------------------------------------------------------------------------------------------------


def test_attempts_tell_how_steady_cases_are(write: Write) -> None:
    verdicts = {"a": "ppp", "b": "pfp", "c": "fff", "d": "ffp"}
    lines = [HEADER]
    for name, letters in verdicts.items():
        lines += [case(name, count=3), *(attempt(name, n, v) for n, v in enumerate(letters))]
    found = analysis_of(write(lines))
    retries = found.retries
    assert retries is not None
    assert not retries.refused
    assert (retries.entries, retries.attempts) == (4, 12)
    assert retries.mean is not None
    assert retries.mean.value == pytest.approx((3 / 3 + 2 / 3 + 0 + 1 / 3) / 4)
    assert retries.flake_rate is not None
    assert (retries.flake_rate.value, retries.flake_rate.n) == (0.5, 4)
    # ICC(1) from the textbook's mean squares, three attempts each
    shares = [1, 2 / 3, 0, 1 / 3]
    between = 3 * sum((share - 0.5) ** 2 for share in shares) / 3
    within = sum(3 * share * (1 - share) for share in shares) / 8
    assert retries.icc == pytest.approx((between - within) / (between + 2 * within))
    assert found.success_within is None
    assert found.attempts_to_success == ()


def test_attempts_that_broke_are_no_tries(write: Write) -> None:
    lines = [HEADER, case("a", count=3), attempt("a", 0, "p"), unanswered("a", 1), attempt("a", 2, "p")]
    retries = analysis_of(write(lines)).retries
    assert retries is not None
    assert retries.attempts == 2


def test_one_attempt_each_says_nothing_of_steadiness(write: Write) -> None:
    assert analysis_of(write([HEADER, case("a"), attempt("a"), case("b"), attempt("b")])).retries is None


# -- damage -----------------------------------------------------------------------------------------------------


def test_a_torn_end_is_a_line_that_could_not_be_read(write: Write, cli: Cli) -> None:
    path = write([HEADER, case("a"), attempt("a", 0), case("b")])
    Path(path).write_bytes(Path(path).read_bytes() + json.dumps(attempt("b", 0)).encode()[:100])
    found = analysis_of(path)
    assert codes(found)["F001"] == 1
    (finding,) = [finding for finding in found.findings if finding.code == "F001"]
    assert finding.where == (f"{path}:5",)
    assert "torn" in finding.message
    assert (found.tally.success, found.tally.unjudged) == (1, 1)
    assert found.sources[0].bad_lines == 1
    assert "F001" in cli("results", "check", path).out


@pytest.mark.parametrize("cut", range(0, 700, 13))
def test_a_journal_that_was_cut_anywhere_is_read_or_refused_in_words(write: Write, cut: int) -> None:
    path = write([HEADER, case("a"), call("a", 0), attempt("a", 0)])
    Path(path).write_bytes(Path(path).read_bytes()[:cut])
    try:
        found = analysis_of(path)
    except InputError as error:
        assert path in str(error)
    else:
        assert found.tally.total <= 1


def test_damage_in_the_middle_takes_only_what_stood_there(write: Write) -> None:
    lines = [HEADER, case("a"), "{torn", attempt("a", 0), attempt("nobody", 0), "", case("b"), attempt("b", 0), "[]"]
    path = write([*lines, {"kind": "attempt", "case": "b"}, {"kind": 7}, HEADER])
    found = analysis_of(path)
    assert found.tally.success == 2
    source = found.sources[0]
    assert (source.lines, source.good_lines, source.bad_lines, source.blank_lines) == (12, 2, 6, 1)
    assert {place.rpartition(":")[2] for f in found.findings if f.code == "F001" for place in f.where} == {
        *("3", "5", "9", "10", "11", "12")
    }


def test_a_line_of_another_file_does_not_become_a_row(write: Write) -> None:
    path = write([HEADER, case("a"), standard(1, success=True), attempt("a", 0, "f")])
    assert tally(path) == (0, 1, 0, 0)
    assert codes(analysis_of(path))["F001"] == 1


def test_a_case_whose_record_is_odd_is_a_bad_line_and_others_count(write: Write) -> None:
    odd = {**case("a"), "metrics": "all"}
    path = write([HEADER, odd, attempt("a", 0), case("b"), attempt("b", 0)])
    assert tally(path) == (1, 0, 0, 0)
    assert codes(analysis_of(path))["F001"] == 1


def test_a_journal_of_another_schema_is_refused(write: Write) -> None:
    with pytest.raises(InputError, match="schema 3"):
        analysis_of(write([{**HEADER, "schema": 3}, case("a"), attempt("a", 0)]))


def test_a_journal_without_cases_is_a_file_without_entries(write: Write) -> None:
    assert codes(analysis_of(write([HEADER])))["F026"] == 1


def test_half_a_character_survives(write: Write) -> None:
    output = {"output": "half \ud83d", "tools_called": [], "context": [], "execution_time": 1}
    path = write([HEADER, case("a", prompt="also \ude00"), attempt("a", 0, output=output)])
    assert tally(path) == (1, 0, 0, 0)


def test_half_a_character_in_the_name_of_a_field_is_no_reason_to_stop(write: Write) -> None:
    lines = [HEADER, {**case("a"), "half \ud83d": 1}, {**attempt("a", 0), "\ude00": 1}, call("a", 1) | {"\ude00": 1}]
    assert tally(write(lines)) == (1, 0, 0, 0)


def test_a_number_beyond_all_floats_matters_only_where_it_is_used(write: Write) -> None:
    odd = json.dumps(attempt("b", 0))
    unused, used = odd.replace('"waited": 0.0', '"waited": 1e999'), odd.replace('"score": 1.0', '"score": 1e999')
    assert tally(write([HEADER, case("a"), case("b"), attempt("a", 0), unused])) == (2, 0, 0, 0)
    path = write([HEADER, case("a"), case("b"), attempt("a", 0), used])
    assert tally(path) == (1, 0, 0, 1)
    (finding,) = [one for one in analysis_of(path).findings if one.code == "F001"]
    assert "a number is too large" in finding.message


def test_a_byte_order_mark_is_nothing_special(write: Write) -> None:
    lines = [json.dumps(line).encode() for line in (HEADER, case("a"), attempt("a", 0, "f"))]
    path = write([b"\xef\xbb\xbf" + lines[0], *lines[1:]])
    assert tally(path) == (0, 1, 0, 0)
    assert codes(analysis_of(path)) == codes(analysis_of(write(lines, "plain.jsonl")))


def test_tests_can_be_counted_by_spikees_definition(write: Write) -> None:
    path = write([HEADER, case("a", count=2), attempt("a", 0, "p"), attempt("a", 1, "f"), case("b"), attempt("b", 0)])
    found = analysis_of(path, definition="spikee")
    assert (found.tally.total, found.flaky_cases) == (2, ())
    assert [one.entry for one in analysis_of(path).flaky_cases] == ["a"]


def test_names_of_metrics_and_tags_can_be_anything(write: Write) -> None:
    metrics = ('quote " and \\', "new\nline")
    path = write([HEADER, case("a", metrics=metrics, tags=['"', "id"]), attempt("a", 0, "pp", metrics=metrics)])
    assert tally(path) == (1, 0, 0, 0)


# -- how it is read ---------------------------------------------------------------------------------------------


def test_a_journal_is_known_by_what_it_holds(write: Write) -> None:
    path = write([HEADER, case("a"), attempt("a", 0)], name="whatever.txt")
    assert not reads_ranges(path)
    assert open_stream(path, path).run is not None
    assert reads_ranges(write([standard(1, note='{"kind": "run"}', kind="run")], name="results_y.jsonl"))


@pytest.mark.parametrize("how", ["gzip", "pipe"])
def test_a_journal_that_can_be_read_only_once_gives_the_same(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    lines = [HEADER, case("a"), unanswered("a", 0), retry("a", 0), attempt("a", 0), case("b"), attempt("b", 0, "f")]
    plain = write(lines)
    if how == "gzip":
        path = str(tmp_path / "run.jsonl.gz")
        Path(path).write_bytes(gzip.compress(Path(plain).read_bytes()))
    else:
        path = "-"
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(plain).read_bytes())))
    found = analysis_of(path)
    assert (found.tally.success, found.tally.failure) == (1, 1)
    assert found.sources[0].lines == 7


def test_what_a_run_adds_while_its_journal_is_read_waits(write: Write) -> None:
    path = write([HEADER, case("a"), attempt("a", 0)])
    grown = Path(path).read_bytes() + json.dumps(case("b")).encode() + b"\n"
    from faircount.readers import RunFile

    run = RunFile("faircount", "run journal")
    lines = b"".join(journal_rows.rows(iter([Path(path).read_bytes()]), lambda: iter([grown]), run, path))
    assert lines.count(b"\n") == 3


def test_lines_come_out_whole_however_the_bytes_come_in(write: Write) -> None:
    from faircount.readers import RunFile

    data = Path(write([HEADER, case("a"), "", attempt("a", 0), case("b"), attempt("b", 0)])).read_bytes()

    def expanded(size: int) -> bytes:
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        return b"".join(journal_rows.rows(iter(pieces), lambda: iter(pieces), RunFile("faircount", "x"), "x"))

    assert len({expanded(size) for size in (1, 7, 64, 10_000)}) == 1


def test_a_long_journal_is_read_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    text = "x" * 4000
    with path.open("w") as file:
        file.write(json.dumps(HEADER) + "\n")
        for number in range(1500):
            output = {"output": text, "tools_called": [], "context": [], "execution_time": 1}
            file.write(json.dumps(case(f"c{number}")) + "\n")
            file.write(json.dumps(attempt(f"c{number}", 0, output=output)) + "\n")
    tracemalloc.start()
    stream = open_stream(str(path), str(path))
    size = sum(map(len, stream.chunks))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size > 6_000_000
    assert peak < 3_500_000


# -- every command ----------------------------------------------------------------------------------------------


@pytest.fixture
def journal(write: Write) -> str:
    lines = [HEADER]
    for number in range(6):
        name = f"test_{number}_[]"
        verdict = "p" if number < 4 else "f"
        lines += [case(name, count=2, tags=["even"] if number % 2 == 0 else ["odd"])]
        lines += [attempt(name, 0, verdict), attempt(name, 1, verdict)]
    return write(lines, name="run.jsonl")


def test_rows_are_chosen_and_broken_down(journal: str) -> None:
    chosen = analysis_of(journal, where='tags = "even"')
    assert (chosen.tally.success, chosen.tally.total) == (2, 3)
    by = analysis_of(journal, by=("metric.Correct",)).breakdowns["metric.Correct"]
    assert {(group.value, group.tally.total) for group in by} == {("passed", 4), ("failed", 2)}
    shown = analysis_of(journal).breakdowns
    assert "tags" in shown
    assert not [field for field in shown if field.startswith(("metric.", "tag.", "suite"))]


def test_rows_are_extracted(cli: Cli, journal: str, tmp_path: Path) -> None:
    target = tmp_path / "failed.jsonl"
    assert cli("results", "extract", journal, "--category", "failure", "--output", str(target)).code == 0
    written = [json.loads(line) for line in target.read_text().splitlines()]
    assert [row["original_id"] for row in written] == ["test_4_[]", "test_5_[]"]
    assert written[0]["content"] == "what is 6 times 7?"


def test_rows_and_entries_are_exported(cli: Cli, journal: str, tmp_path: Path) -> None:
    target = tmp_path / "rows.csv"
    assert cli("results", "export", journal, "--output", str(target)).code == 0
    told = list(csv.DictReader(io.StringIO(target.read_text(encoding="utf-8-sig"))))
    assert [row["line"] for row in told] == ["4", "7", "10", "13", "16", "19"]
    assert [row["outcome"] for row in told] == ["success"] * 4 + ["failure"] * 2


def test_an_entry_is_shown_with_its_attempts(cli: Cli, journal: str) -> None:
    shown = cli("results", "show", "test_4_[]", journal).out
    assert "failed" in shown
    assert "answer 1" in shown
    assert "Correct: failed (0.0), because of Correct" in shown
    assert f"{journal}:16" in shown


def test_a_suite_names_its_cases(write: Write, cli: Cli) -> None:
    names = ["test_a_[t=0]", "test_a_[t=1]"]
    path = write([HEADER, *(record for name in names for record in (case(name), attempt(name)))])
    assert "2 entries" in cli("results", "show", "test_a", path).out


def test_passed_entries_can_be_looked_at(journal: str) -> None:
    _, evidence = examples_of(journal, evidence=(("successes", 2),))
    assert [shown.place for shown in evidence.shown] == [f"{journal}:4", f"{journal}:7"]
    assert evidence.total == 4
    assert evidence.shown[0].response.text == "answer 0"
    assert evidence.shown[0].judge == "Correct"


def test_failed_entries_are_what_is_looked_at_first(journal: str) -> None:
    # At length they stand first anyway, and are not shown twice.
    assert [one.kind for one in examples_of(journal, evidence=(("", 5),))] == ["failed cases"]
    _, evidence = examples_of(journal, evidence=(("", 5),), overview=True)
    assert (evidence.kind, evidence.total) == ("failures", 2)
    assert [shown.place for shown in evidence.shown] == [f"{journal}:16", f"{journal}:19"]
    first = evidence.shown[0]
    assert (first.entry, first.response.text) == ("test_4_[]", "answer 0")
    assert first.measured == "Correct: failed (0.0), because of Correct"


def test_a_notebook_reads_a_journal(journal: str) -> None:
    results = read(journal)
    assert [entry["outcome"] for entry in results.entries()] == ["success"] * 4 + ["failure"] * 2
    assert "pass rate" in str(results.summary())


def test_two_runs_are_combined(journal: str, write: Write) -> None:
    other = write([HEADER, case("test_0_[]"), attempt("test_0_[]", 0, "f", model="model-2")], name="other.jsonl")
    (found,) = analyze(journal, other, combine=True).analyses
    assert (found.tally.success, found.tally.total) == (4, 7)


def test_attacks_and_tests_are_not_counted_together(journal: str, write: Write, cli: Cli) -> None:
    attacks = write([standard(1)], name="results_attacks.jsonl")
    with pytest.raises(UsageError, match="one rate cannot cover both"):
        analyze(journal, attacks, combine=True)
    assert cli("results", "analyze", journal, attacks, "--combine").code == 2
    assert cli("results", "analyze", journal, attacks).code == 0
    with pytest.raises(UsageError, match="is a test run"):
        analyze(attacks, false_positive_checks=journal)
    with pytest.raises(UsageError, match="is a test run"):
        analyze(journal, false_positive_checks=attacks)


def test_an_empty_file_has_no_aim(journal: str, write: Write) -> None:
    empty = write([], name="results_empty.jsonl")
    (found,) = analyze(empty, journal, combine=True).analyses
    assert (found.aim, found.tally.total) == ("task", 6)


# -- what was written is what is read ---------------------------------------------------------------------------


def test_a_journal_and_the_reports_made_of_it_agree(tmp_path: Path, write: Write) -> None:
    metrics = ("Correct", "Polite")
    journal = [HEADER]
    for number in range(6):
        name = f"test_{number // 2}_[t={number % 2}]"
        journal.append(case(name, count=3, metrics=metrics, strategy="min"))
        for tried in range(3):
            lost = number == 5 or (number == 4 and tried == 1)
            verdicts = "pp" if number % 3 else "fp"
            told = unanswered(name, tried) if lost else attempt(name, tried, verdicts, metrics=metrics)
            journal += [call(name, tried), told]
    path = write(journal, "run.jsonl")
    layouts: tuple[Layout, ...] = ("per-case", "per-metric")
    files = [path]
    for layout in layouts:
        files.append(str(tmp_path / f"{layout}.json"))
        Path(files[-1]).write_bytes(b"".join(report_pieces(read_journal(path), "20260101_000000", layout)))
    assert [tally(file) for file in files] == [(3, 2, 1, 0)] * 3
    assert [analysis_of(file).attempts for file in files] == [18] * 3
    assert {analysis_of(file).sources[0].tool for file in files} == {"faircount"}
    assert analysis_of(files[0], files[1], combine=True).tally.total == 6


ODD: list[Any] = [None, True, -1, 1.5, 10**30, "", "x", [], {}, [1], {"a": 1}, [None], "\ud83d", "passed"]


@pytest.mark.parametrize("field", [*case("a"), *attempt("a")])
def test_anything_may_stand_in_a_record(write: Write, field: str) -> None:
    for odd in ODD:
        described, told = case("a"), attempt("a", 0)
        for record in (described, told):
            if field in record and field != "kind":
                record[field] = odd
        path = write([HEADER, described, told, case("b"), attempt("b", 0)])
        assert rows(path)["b"]["line"] == 5
