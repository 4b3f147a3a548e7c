"""Tables of any kind: the golden ones beside their oracle, and small ones made here for each rule.

The golden tables hold the same forty rows in nine files. Everything else is made in the test, so that it can be seen
what a rule does.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from faircount import Analysis, AnalyzeOptions, FaircountError, InputError, UsageError, analyze, compare
from faircount.core import Notes
from faircount.readers import Found, Probe, ReadAs, Reader, ReadOptions, open_source, recognise
from tests.conftest import ROOT, Cli, codes, shared_folder, some

SHARED = shared_folder()
GOLDEN = (SHARED or Path("shared")) / "golden" / "tables"
ORACLE: dict[str, Any] = json.loads((GOLDEN / "oracle.json").read_text()) if SHARED is not None else {}
SAME = [name.partition(" ")[0] for name in ORACLE.get("same_counts_in", [])]
SAMPLE = ROOT / "docs" / "samples" / "table.csv"
SAMPLE_MAP = "id=case,family=template,target=model,attempt=try,response=answer,time=latency_ms:ms"
OUTCOMES = ("success", "failure", "error", "guardrail", "unjudged")
pytestmark = pytest.mark.filterwarnings("error")

Rows = Sequence[Mapping[str, Any]]
Write = Callable[..., str]


def analyses(path: Path | str, columns: str | Sequence[str] = (), **options: Any) -> list[Analysis]:
    named = (columns,) if isinstance(columns, str) else tuple(columns)
    return list(analyze(str(path), options=AnalyzeOptions(cache=False, map=named, **options)).analyses)


def analysis(path: Path | str, columns: str | Sequence[str] = (), **options: Any) -> Analysis:
    (found,) = analyses(path, columns, **options)
    return found


def outcomes(*found: Analysis) -> dict[str, int]:
    counts = {name: sum(getattr(one.tally, name) for one in found) for name in OUTCOMES}
    return {name: count for name, count in counts.items() if count}


def messages(found: Analysis, code: str) -> list[str]:
    return [one.message for one in found.findings if one.code == code]


@pytest.fixture
def table(tmp_path: Path) -> Write:
    """Write rows as CSV and return the path."""

    def write(rows: Rows, name: str = "table.csv", delimiter: str = ",") -> str:
        path = tmp_path / name
        names = list(dict.fromkeys(key for row in rows for key in row))
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, names, delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
        return str(path)

    return write


def verdicts(*values: Any, column: str = "jailbroken") -> list[dict[str, Any]]:
    return [{"id": f"c{number}", column: value} for number, value in enumerate(values)]


# -- the golden tables ------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize("columns", [ORACLE.get("mapping", ""), ""], ids=["as said", "guessed"])
@pytest.mark.parametrize("name", SAME)
def test_the_same_rows_give_the_same_counts_in_every_file(name: str, columns: str) -> None:
    expected = ORACLE["expected"]
    runs = analyses(GOLDEN / name, columns)
    assert sorted(str(one.sources[0].target) for one in runs) == ["bot-a", "bot-b"]
    assert outcomes(*runs) == expected["outcomes"]
    assert sum(one.tally.total for one in runs) == expected["entries"]
    assert sum(one.attempts for one in runs) == expected["attempts"]
    assert [one.code for run in runs for one in run.findings if one.code == "F055"] == ([] if columns else ["F055"] * 2)


@pytest.mark.shared
@pytest.mark.parametrize("name", SAME)
def test_without_targets_a_file_is_one_run_with_the_families_of_the_oracle(name: str) -> None:
    found = analysis(GOLDEN / name, ORACLE["mapping"].replace("target=model", "target="))
    assert outcomes(found) == ORACLE["expected"]["outcomes"]
    assert (found.tally.total, found.attempts) == (ORACLE["expected"]["entries"], ORACLE["expected"]["attempts"])
    assert found.families is not None
    assert (found.families.count, found.families.by) == (ORACLE["families_by_template"], "family")


@pytest.mark.shared
@pytest.mark.parametrize("name", SAME)
def test_attempts_have_the_states_of_the_oracle(name: str) -> None:
    # An id for every attempt makes each an entry of its own.
    found = analysis(
        GOLDEN / name, ORACLE["mapping"].replace("entry=case", "id=case+try").replace("target=model", "target=")
    )
    assert outcomes(found) == ORACLE["expected"]["attempt_states"]


@pytest.mark.shared
def test_places_inside_objects_are_columns() -> None:
    columns = (
        "id=meta.case,prompt=io.in,response=io.out,success=eval.hit,score=eval.score,error=err,facet=meta.category"
    )
    found = analysis(GOLDEN / "results_nested.json", columns, by=("category",))
    # Nothing in this file says what was blocked: those four are unjudged.
    assert outcomes(found) == {"success": 8, "failure": 17, "error": 1, "unjudged": 4}
    assert {group.value for group in some(found.breakdowns["category"])} == {"mail", "web", "file"}
    assert outcomes(analysis(GOLDEN / "results_nested.json", [columns, "rows=data.items"])) == outcomes(found)


@pytest.mark.shared
def test_each_named_column_of_a_wide_table_is_the_success_of_a_target() -> None:
    runs = analyses(GOLDEN / "wide_by_model.csv", "id=case,target=@bot-a+@bot-b,facet=category", aim="attack")
    with (GOLDEN / "wide_by_model.csv").open() as file:
        rows = list(csv.DictReader(file))
    for run in some(runs):
        written = [row[str(run.sources[0].target)] for row in rows]
        assert (run.tally.success, run.tally.failure) == (written.count("Yes"), written.count("No"))
        assert (run.tally.unjudged, run.tally.total) == (written.count(""), len(rows))


# -- columns ----------------------------------------------------------------------------------------------------


def test_guessed_columns_are_reported_as_the_option_that_gives_them(table: Write) -> None:
    rows = [{"Case ID": "a", "question": "q", "Is Correct": "yes", "output": "o", "topic": "law"}]
    found = analysis(table(rows))
    assert found.sources[0].aim == "task"
    (said,) = messages(found, "F055")
    option = said.partition("--map ")[2]
    assert option == "id=Case ID,success=Is Correct,prompt=question,response=output,facet=topic"
    again = analysis(table(rows), option)
    assert outcomes(again) == outcomes(found)
    assert "F055" not in codes(again)


def test_a_map_that_names_everything_guesses_nothing(table: Write) -> None:
    rows = [{"id": "x", "case": "a", "hit": 1, "error": "e"}, {"id": "y", "case": "b", "hit": 0, "error": "e"}]
    assert outcomes(analysis(table(rows), "id=case,success=hit,error=", aim="attack")) == {"success": 1, "failure": 1}
    assert outcomes(analysis(table(rows), "id=case,success=hit", aim="attack")) == {"error": 2}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["id", "success", "label"], ["several columns could be the success", "success, label"]),
        (["id", "question_id", "passed"], ["several columns could be the id", "id, question_id"]),
        (["id", "score", "rating"], ["several columns could be the score"]),
    ],
)
def test_two_candidates_are_refused_and_both_listed(table: Write, columns: list[str], words: list[str]) -> None:
    with pytest.raises(UsageError) as raised:
        analysis(table([dict.fromkeys(columns, "1")]))
    assert all(word in str(raised.value) for word in words)
    assert "--map" in str(raised.value)


def test_two_columns_with_one_name_are_two_candidates(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,passed,passed\na,yes,no\n")
    with pytest.raises(UsageError, match="several columns could be the success"):
        analysis(path)


def test_a_column_that_is_not_there_is_named_with_those_that_are(table: Write) -> None:
    with pytest.raises(UsageError, match=r"no column hits \(--map success=…\); its columns: id, jailbroken"):
        analysis(table(verdicts(1)), "success=hits")
    with pytest.raises(UsageError, match="the roles are id, "):
        analysis(table(verdicts(1)), "verdict=jailbroken")
    with pytest.raises(UsageError, match="found no column that says whether an attempt succeeded"):
        analysis(table([{"id": 1, "text": "x"}]), "id=id")
    with pytest.raises(UsageError, match="found no column that identifies the test cases"):
        analysis(table([{"passed": 1}]), "success=passed")


def test_an_id_can_be_several_columns_that_stay_apart(table: Write) -> None:
    rows = [
        {"a": "x+y", "b": "z", "passed": 1},
        {"a": "x", "b": "y+z", "passed": 0},
        {"a": "x", "b": "y+z", "passed": 1},
    ]
    found = analysis(table(rows), "id=a+b,success=passed")
    assert (found.tally.total, found.attempts) == (2, 3)


def test_without_an_id_the_prompt_is_the_entry(table: Write) -> None:
    long = "word " * 100
    rows = [
        {"prompt": text, "jailbroken": value} for text, value in ((long + "a", 1), (long + "b", 0), (long + "b", 1))
    ]
    found = analysis(table(rows))
    assert (found.tally.total, found.attempts, found.tally.success) == (2, 3, 2)
    assert "id=prompt" in messages(found, "F055")[0]
    assert outcomes(analysis(table(rows[::-1], "reversed.csv"))) == outcomes(found)


def test_ids_are_the_same_however_a_file_stores_them(table: Write, tmp_path: Path) -> None:
    first = table([{"id": number, "jailbroken": 1} for number in range(3)])
    second = tmp_path / "second.jsonl"
    second.write_text("".join(json.dumps({"id": float(number), "jailbroken": True}) + "\n" for number in range(3)))
    found = analyze(first, options=AnalyzeOptions(cache=False)).analyses[0], analysis(second)
    assert outcomes(*found) == {"success": 6}
    (compared,) = compare(first, str(second)).pairs
    assert compared.both == 3


def test_attempts_come_in_the_order_of_their_numbers(table: Write, cli: Cli) -> None:
    rows = [{"id": "a", "attempt": n, "response": f"answer {n}", "jailbroken": 0} for n in (3, 1, 2)]
    ran = cli("results", "show", "a", table(rows))
    assert ran.code == 0
    assert ran.out.rindex("answer 1") < ran.out.rindex("answer 2") < ran.out.rindex("answer 3")


def test_rows_of_several_targets_are_runs_with_the_same_entries(table: Write, cli: Cli) -> None:
    models = ("openai/gpt", "b", "")
    rows = [{"id": f"c{n}", "model": model, "jailbroken": n % 2} for n in range(6) for model in models]
    path = table(rows)
    runs = analyses(path)
    assert [one.sources[0].path.removeprefix(path) for one in runs] == ["/openai/gpt", "/b", "/(no target)"]
    assert [(one.tally.total, one.tally.success) for one in runs] == [(6, 3)] * 3
    assert cli("results", "compare", f"{path}/b", f"{path}/openai/gpt").code == 0


def test_a_column_with_many_values_names_no_targets(table: Write) -> None:
    rows = [{"id": n, "model": f"m{n}", "jailbroken": 1} for n in range(101)]
    with pytest.raises(UsageError, match="--map target= leaves it out"):
        analysis(table(rows))
    assert analysis(table(rows), "target=").tally.total == 101


# -- values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["true", "True", "YES", "1", "1.0", "jailbroken", "Unsafe", "attack", "fail", "failed"]
)
def test_words_for_an_attack_that_worked(table: Write, value: str) -> None:
    assert outcomes(analysis(table(verdicts(value)))) == {"success": 1}


@pytest.mark.parametrize("value", ["false", "no", "0", "pass", "passed", "correct", "refused", "safe", "benign"])
def test_words_for_an_attack_that_failed(table: Write, value: str) -> None:
    assert outcomes(analysis(table(verdicts(value)))) == {"failure": 1}


@pytest.mark.parametrize("value", ["", "NaN", "null", "N/A", "None", "-"])
def test_an_empty_verdict_is_unjudged_and_nothing_else_is_odd(table: Write, value: str) -> None:
    found = analysis(table(verdicts(value, "1")))
    assert outcomes(found) == {"success": 1, "unjudged": 1}
    assert "F004" not in codes(found)


@pytest.mark.parametrize("value", ["maybe", "2 of 3", "success", "85%", "inf", "1,5"])
def test_a_verdict_that_is_not_understood_is_unjudged_and_reported(table: Write, value: str) -> None:
    found = analysis(table(verdicts(value, "no")))
    assert outcomes(found) == {"failure": 1, "unjudged": 1}
    assert codes(found)["F004"] == 1


def test_the_direction_of_words_follows_the_aim_and_is_said(table: Write) -> None:
    path = table(verdicts("pass", "pass", "fail", column="verdict"))
    attack, task = analysis(path, aim="attack"), analysis(path, aim="task")
    assert (outcomes(attack), outcomes(task)) == ({"success": 1, "failure": 2}, {"success": 2, "failure": 1})
    assert codes(attack)["F003"] == 3
    assert "pass means that the attack failed" in messages(attack, "F003")[0]
    assert "F003" not in codes(task)


def test_the_direction_of_a_column_follows_the_aim_and_is_said(table: Write) -> None:
    path = table(verdicts("yes", "no", "no", column="passed"))
    found = analysis(path)
    assert (found.sources[0].aim, outcomes(found)) == ("task", {"success": 1, "failure": 2})
    turned = analysis(path, aim="attack")
    assert outcomes(turned) == {"success": 2, "failure": 1}
    assert "true in passed is read as: the attack failed" in messages(turned, "F051")[0]
    safe = analysis(table(verdicts("yes", "no", "no", column="is_safe")), "success=is_safe")
    assert (safe.sources[0].aim, outcomes(safe)) == ("attack", {"success": 2, "failure": 1})


def test_an_aim_that_nothing_shows_is_assumed_and_said(table: Write) -> None:
    path = table(verdicts(1, column="success"))
    assert codes(analysis(path))["F051"] == 1
    assert "F051" not in codes(analysis(path, aim="attack"))
    assert "F051" not in codes(analysis(path, "success=success,aim=attack"))
    assert analysis(path, "success=success,aim=task").sources[0].aim == "task"


def test_numbers_beside_0_and_1_are_a_score_that_needs_a_threshold(table: Write) -> None:
    path = table(verdicts("1", "3", "5", "yes"))
    found = analysis(path)
    # A 1 on a scale from 1 to 5 is no yes.
    assert outcomes(found) == {"success": 1, "unjudged": 3}
    assert codes(found)["F052"] == 3
    assert outcomes(analysis(path, success_threshold=3)) == {"success": 3, "failure": 1}


def test_scores_from_0_to_1_decide_at_one_half_and_others_only_by_a_threshold(table: Write) -> None:
    path = table(verdicts("0.2", "0.5", "1", "", column="score"))
    assert outcomes(analysis(path)) == {"success": 2, "failure": 1, "unjudged": 1}
    assert outcomes(analysis(path, success_threshold=0.6)) == {"success": 1, "failure": 2, "unjudged": 1}
    assert outcomes(analysis(path, "score>=0.2")) == {"success": 3, "unjudged": 1}
    assert outcomes(analysis(path, "score=score<0.5")) == {"success": 1, "failure": 2, "unjudged": 1}
    wide = analysis(table(verdicts("0.2", "7", column="rating"), "wide.csv"))
    assert (outcomes(wide), codes(wide)["F052"]) == ({"unjudged": 2}, 2)
    with pytest.raises(UsageError, match="would both decide"):
        analysis(table([{"id": 1, "hit": 1, "s": 0.3}]), "success=hit,score=s>=0.5")


def test_decimal_commas_count_only_between_semicolons(table: Write) -> None:
    rows = verdicts("0,2", "0,7", column="score")
    assert outcomes(analysis(table(rows, delimiter=";"))) == {"success": 1, "failure": 1}
    found = analysis(table(rows))
    assert (outcomes(found), codes(found)["F004"]) == ({"unjudged": 2}, 2)


def test_an_error_goes_before_a_verdict_and_a_success_before_a_block(table: Write) -> None:
    rows = [
        {"id": "a", "jailbroken": "yes", "error": "HTTP 500", "blocked": ""},
        {"id": "b", "jailbroken": "yes", "error": "none", "blocked": "true"},
        {"id": "c", "jailbroken": "no", "error": "", "blocked": "content_filter"},
        {"id": "d", "jailbroken": "no", "error": "False", "blocked": "0"},
    ]
    assert outcomes(analysis(table(rows))) == {"error": 1, "success": 1, "guardrail": 1, "failure": 1}


@pytest.mark.parametrize(("columns", "median"), [("time=t:ms", 0.5), ("time=t:s", 500.0), ("time=t:us", 0.0005)])
def test_durations_have_the_unit_that_is_said(table: Write, columns: str, median: float) -> None:
    found = analysis(table([{"id": "a", "jailbroken": 1, "t": 500}]), columns)
    assert found.latency[0].median == pytest.approx(median)


def test_values_of_the_wrong_kind_are_dropped_and_reported(table: Write) -> None:
    rows = [
        {"id": n, "jailbroken": 1, "latency_ms": t, "attempt": "x", "category": "c" * 300}
        for n, t in enumerate((-1, "1e16", "soon"))
    ]
    found = analysis(table(rows), "time=latency_ms")
    assert outcomes(found) == {"success": 3}
    assert codes(found)["F027"] == 9


# -- files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "is_table"),
    [
        (b"id,success\n1,yes\n", True),
        (b"prompt;rating\n", True),
        (b'{"question_id": 1, "correct": true}\n{}', True),
        (b'[{"prompt": "x", "jailbroken": true}]', True),
        (b'{\n "meta": {"n": 1},\n "rows": [\n  {"id": 1, "passed": true}\n ]\n}', True),
        (b"PAR1\x15\x04", True),
        (b"PK\x03\x04....xl/workbook.xml", True),
        (b"id,text\n", False),
        (b"success\n", False),
        (b"a line of a log\nanother\n", False),
        (b'{"id": 1, "prompt": "x"}\n', False),
        (b'{"turns": [{"id": 1, "passed": true}]}\n{"turns": []}\n', False),
        (b"PK\x03\x04....notes.txt", False),
        (b'"id,success', False),
        (b"[" * 60_000, False),
    ],
)
def test_a_table_is_recognised_only_where_its_columns_can_be_guessed(head: bytes, is_table: bool) -> None:
    found: Reader = recognise(Probe(head, "x"), "x")
    assert (found.name == "table") is is_table


def test_json_lines_with_an_id_and_success_stay_results_of_spikee(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"id": 1, "success": true, "input": "x", "response": "y"}\n')
    assert analysis(path).sources[0].reader == "spikee"
    assert analysis(path, "id=id,success=success,aim=attack").sources[0].reader == "table"


def test_lines_that_nobody_knows_get_the_message_of_the_default_reader(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("one\ntwo\n")
    with pytest.raises(InputError, match="cannot read any of its 2 lines"):
        analysis(path)


def parquet(path: Path, select: str) -> Path:
    import duckdb

    duckdb.sql(f"COPY ({select}) TO '{path}' (FORMAT PARQUET)")
    return path


def test_parquet_has_objects_lists_and_any_type(tmp_path: Path) -> None:
    select = """SELECT 'c' || i AS "case", {'hit': i % 2 = 0, 'at': DATE '2026-01-01'} AS eval, [i, i] AS outputs,
        0.25::DECIMAL(4, 2) AS score, TIMESTAMP '2026-01-01' AS seen, 'x'::BLOB AS raw FROM range(1, 2501) t(i)"""
    path = parquet(tmp_path / "t[1].parquet", select)
    found = analysis(path, "id=case,success=eval.hit,response=outputs[1],facet=seen", aim="attack")
    assert outcomes(found) == {"success": 1250, "failure": 1250}
    assert found.sources[0].lines == 2500
    with pytest.raises(UsageError, match="has no column nothing"):
        analysis(path, "id=nothing,success=eval.hit")


def test_rows_of_parquet_are_shown_by_their_number(tmp_path: Path, cli: Cli) -> None:
    path = parquet(tmp_path / "t.parquet", "SELECT i AS id, 'odd' AS passed FROM range(1, 4) t(i)")
    found = analysis(path)
    (said,) = [one for one in found.findings if one.code == "F004"]
    assert said.where[0].endswith("t.parquet!row 1")
    assert "t.parquet!row 2" in cli("results", "show", "2", str(path)).out.replace("\n", "")


def sheet(rows: Sequence[Sequence[Any]]) -> str:
    cells = "".join(
        "<row>" + "".join(f'<c t="inlineStr"><is><t>{cell}</t></is></c>' for cell in row) + "</row>" for row in rows
    )
    return f'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{cells}</sheetData></worksheet>'


def workbook(path: Path, sheets: Mapping[str, Sequence[Sequence[Any]]]) -> Path:
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    with zipfile.ZipFile(path, "w") as file:
        named = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>' for n, name in enumerate(sheets, 1))
        main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
        file.writestr(
            "xl/workbook.xml", f'<workbook xmlns="{main}" xmlns:r="{kind}"><sheets>{named}</sheets></workbook>'
        )
        # The parts are numbered from the last sheet on.
        links = "".join(
            f'<Relationship Id="r{n}" Target="worksheets/sheet{len(sheets) + 1 - n}.xml"/>'
            for n in range(1, len(sheets) + 1)
        )
        file.writestr("xl/_rels/workbook.xml.rels", f"<Relationships>{links}</Relationships>")
        for n, rows in enumerate(sheets.values(), 1):
            file.writestr(f"xl/worksheets/sheet{len(sheets) + 1 - n}.xml", sheet(rows))
    return path


def test_the_first_sheet_that_fits_is_read_or_the_one_that_is_named(tmp_path: Path) -> None:
    sheets = {
        "Notes": [["about"], ["x"]],
        "Monday": [["id", "jailbroken"], ["a", "yes"], ["b", "yes"]],
        "Tuesday": [["id", "jailbroken"], ["a", "no"]],
    }
    path = workbook(tmp_path / "w.xlsx", sheets)
    assert outcomes(analysis(path)) == {"success": 2}
    assert outcomes(analysis(path, "sheet=Tuesday")) == {"failure": 1}
    with pytest.raises(UsageError, match="has no sheet Friday; its sheets: Notes, Monday, Tuesday"):
        analysis(path, "rows=Friday")
    with pytest.raises(UsageError, match="found no column that identifies the test cases"):
        analysis(workbook(tmp_path / "n.xlsx", {"Notes": [["about"], ["x"]]}))


@pytest.mark.parametrize("indent", [None, 1])
def test_the_list_of_a_document_is_found_by_its_columns(tmp_path: Path, cli: Cli, indent: int | None) -> None:
    path = tmp_path / "d.json"
    rows = verdicts(True, False, None, "yes")
    path.write_text(
        json.dumps(
            {"id": "run", "tools": [{"name": "x"}], "out": {"rows": rows, "more": verdicts(True)}}, indent=indent
        )
    )
    assert outcomes(analysis(path)) == {"success": 2, "failure": 1, "unjudged": 1}
    assert outcomes(analysis(path, "rows=out.more")) == {"success": 1}
    shown = cli("results", "show", "c3", str(path))
    assert (shown.code, "success" in shown.out) == (0, True)


def test_items_on_one_line_are_numbered_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps([*verdicts(True, False), 3, [], *verdicts(True)[:0], {"id": "z", "jailbroken": True}]))
    found = analysis(path)
    assert outcomes(found) == {"success": 2, "failure": 1}
    assert (found.sources[0].bad_lines, codes(found)["F001"]) == (2, 2)


def test_formats_come_from_the_file_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("case,stars,answer\na,4,x\nb,2,y\n")
    with pytest.raises(UsageError, match=r"--format ours: no such format; available: run journal, .*promptfoo"):
        analysis("t.csv", format="ours")
    Path("faircount.toml").write_text(
        '[formats.ours]\nmap = "id=case,score=stars"\naim = "task"\nsuccess_threshold = 3\n'
    )
    found = analysis("t.csv", format="ours")
    assert (found.sources[0].aim, outcomes(found)) == ("task", {"success": 1, "failure": 1})
    assert outcomes(analysis("t.csv", format="ours", success_threshold=5)) == {"failure": 2}
    assert outcomes(analysis("t.csv", "score=stars>=2", format="ours")) == {"success": 2}
    with pytest.raises(UsageError, match=r"available: .*table, spikee, ours"):
        analysis("t.csv", format="theirs")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[formats.x]\nmap = 3", "formats.x.map: must be a string"),
        ('[formats.x]\naim = "both"', "formats.x.aim: must be attack or task"),
        ("[formats.x]\nsuccess_threshold = true", "success_threshold: must be a number"),
        ("[formats.x]\nmaps = 1", "did you mean map"),
        ("formats = 3", "must be a table"),
        ("[formats", "invalid TOML"),
    ],
)
def test_mistakes_in_formats_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("case,stars\na,4\n")
    Path("faircount.toml").write_text(text)
    with pytest.raises(UsageError, match=message):
        analysis("t.csv", format="x")


# -- everything works -------------------------------------------------------------------------------------------


def test_the_sample_is_read_as_its_page_says() -> None:
    page = (ROOT / "docs" / "reference" / "formats" / "tables.md").read_text()
    with SAMPLE.open() as file:
        rows = list(csv.DictReader(file))
    for run in some(analyses(SAMPLE, SAMPLE_MAP)):
        name, tally = run.sources[0].target, run.tally
        mine = [row for row in rows if row["model"] == name]
        hits = [row["case"] for row in mine if row["attack_worked"] == "yes"]
        assert (run.attempts, tally.success) == (len(mine), len(set(hits)))
        judged = tally.success + tally.failure
        line = (
            f"| {name} | {len(hits)} of {len(mine)}, {len(hits) / len(mine):.1%} | {tally.success} of {tally.total} "
            f"entries, {tally.success / tally.total:.1%}; of {judged} judged, {tally.success / judged:.1%} |"
        )
        assert line in page


@pytest.fixture
def sample(tmp_path: Path) -> str:
    """One target of the sample, as a file of its own."""
    lines = SAMPLE.read_text().splitlines(keepends=True)
    path = tmp_path / "bot-a.csv"
    path.write_text("".join([lines[0], *(line for line in lines if ",bot-a," in line)]))
    return str(path)


COLUMNS = ("--map", SAMPLE_MAP)


@pytest.mark.parametrize(
    "words",
    [
        ("analyze", "FILE", "--by", "category", "--where", "category = web"),
        ("analyze", "FILE", "--details"),
        ("show", "c01", "FILE"),
        ("check", "FILE"),
        ("sample-for-labels", "FILE", "--n", "5", "-o", "sample.jsonl"),
        ("export", "FILE", "--to", "csv", "-o", "rows.csv"),
        ("convert-to-excel", "FILE", "-o", "book.xlsx"),
        ("rejudge", "FILE", "--judge", 'contains("BANANA")'),
    ],
    ids=itemgetter(0),
)
def test_every_command_takes_a_table(
    cli: Cli, sample: str, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = cli("results", *(sample if word == "FILE" else word for word in words), *COLUMNS)
    assert (ran.code, "Traceback" in ran.err) == (0, False), ran.err
    assert ran.out or ran.err


def test_an_extract_of_a_table_is_a_dataset_to_run(cli: Cli, sample: str, tmp_path: Path) -> None:
    dataset, journal = tmp_path / "dataset.jsonl", tmp_path / "run.jsonl"
    assert cli("results", "extract", sample, *COLUMNS, "-o", str(dataset)).code == 0
    entries = [json.loads(line) for line in dataset.read_text().splitlines()]
    assert len(entries) == analysis(sample, SAMPLE_MAP).tally.success
    assert all("BANANA" in json.dumps(entry) for entry in entries)
    ran = cli(
        "run",
        str(dataset),
        "--target",
        "simulated:assistant(weakness=1)",
        "--judge",
        'contains("BANANA")',
        "--journal",
        str(journal),
    )
    assert (ran.code, "Traceback" in ran.err) == (0, False), ran.err
    assert analysis(journal).tally.total == len(entries)


def test_gates_and_comparison_read_tables(cli: Cli, sample: str, tmp_path: Path) -> None:
    assert cli("results", "analyze", sample, *COLUMNS, "--fail-on", "asr > 1%").code == 1
    assert cli("results", "analyze", sample, *COLUMNS, "--fail-on", "asr > 99%").code == 0
    other = tmp_path / "other.csv"
    other.write_text(Path(sample).read_text().replace(",yes,0.", ",no,0."))
    ran = cli("results", "compare", sample, str(other), *COLUMNS)
    assert ran.code == 0
    assert "24" in ran.out


def test_compressed_files_and_standard_input_are_read(sample: str, tmp_path: Path) -> None:
    plain = outcomes(analysis(sample, SAMPLE_MAP))
    packed = tmp_path / "packed.bin"
    packed.write_bytes(gzip.compress(Path(sample).read_bytes()))
    assert outcomes(analysis(packed, SAMPLE_MAP)) == plain
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "faircount",
            "results",
            "analyze",
            "-",
            "--map",
            SAMPLE_MAP,
            "--format",
            "table",
            "--output-format",
            "json",
        ],
        input=SAMPLE.read_bytes(),
        capture_output=True,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert (ran.returncode, b"Traceback" in ran.stderr) == (0, False), ran.stderr


def test_the_targets_of_a_compressed_file_are_runs_of_their_own(tmp_path: Path) -> None:
    packed = tmp_path / "table.csv.gz"
    packed.write_bytes(gzip.compress(SAMPLE.read_bytes()))
    found = analyses(packed, SAMPLE_MAP)
    assert len(found) > 1
    assert [one.tally for one in found] == [one.tally for one in analyses(SAMPLE, SAMPLE_MAP)]


# -- damage -----------------------------------------------------------------------------------------------------


def test_rows_that_cannot_be_read_are_counted_and_the_others_too(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"id,jailbroken,response\na,yes,x\nb,no\n,yes,x\nc,no,\xff\n\nd,no,x\n")
    found = analysis(path)
    assert outcomes(found) == {"success": 1, "failure": 1}
    assert (codes(found)["F001"], found.sources[0].bad_lines) == (3, 3)


def test_json_that_is_not_strict_is_read_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lines = [
        '{"id": "a", "jailbroken": NaN}',
        '{"id": "b", "jailbroken": true, "response": "\\ud800"}',
        '{"id": "c", "jailbroken": true, "jailbroken": false}',
        '{"id": "d", "jailbroken": 1' + "0" * 400 + "}",
        '{"id": "e", "jailbroken": ' + "[" * 500 + "]" * 500 + "}",
        '{"id": {"a": 1}, "jailbroken": [true]}',
        "[1]",
    ]
    path.write_text("".join(line + "\n" for line in lines))
    found = analysis(path)
    assert found.tally.success == 1
    assert codes(found)["F001"] == 3
    assert {"F004", "F012", "F025"} <= codes(found).keys()


def test_a_cell_over_the_limit_is_a_bad_row(tmp_path: Path) -> None:
    path = parquet(
        tmp_path / "t.parquet", "SELECT i AS id, true AS passed, repeat('x', i * 100) AS output FROM range(1, 4) t(i)"
    )
    found = analysis(path, max_line=250)
    assert (found.tally.total, codes(found)["F001"]) == (2, 1)


def damage(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    start = rng.randrange(len(data))
    match rng.randrange(5):
        case 0:
            del data[start:]
        case 1:
            data[start] = rng.randrange(256)
        case 2:
            del data[start : start + rng.randrange(1, 40)]
        case 3:
            data[start:start] = data[start : start + rng.randrange(1, 400)]
        case _:
            data[start:start] = rng.choice(
                [b'"', b",", b"\n", b"{", b"[" * 200, b"NaN", b"9" * 400, b"\\ud800", b"\xff", b"\0"]
            )
    return bytes(data)


@pytest.mark.shared
@pytest.mark.parametrize("name", [*SAME, "results_nested.json", "wide_by_model.csv"])
def test_damaged_tables_are_read_as_far_as_they_go_or_refused(name: str, tmp_path: Path) -> None:
    content, rng, path = (GOLDEN / name).read_bytes(), random.Random(name), tmp_path / name
    columns = {
        "results_nested.json": "id=meta.case,response=io.out,success=eval.hit",
        "wide_by_model.csv": "id=case,target=@bot-a+@bot-b",
    }.get(name, ORACLE["mapping"].replace("target=model", "target="))
    reader, read = recognise(Probe(b"id,passed", "x"), "x"), 0
    for turn in range(30):
        path.write_bytes(damage(content, rng))
        found = Found(Notes(str(path)))
        try:
            stream, _ = open_source(str(path), str(path))
            stream.read_as = ReadAs(columns=tuple(columns.split(",")))
            some(reader.read(stream, ReadOptions(), found))
            if turn % 10 == 0:
                analyses(path, columns, evidence=(("successes", 2),))
        except FaircountError as error:
            assert "\x00" not in str(error)
        read += found.good
    assert read > 90


# -- columns that say nothing -----------------------------------------------------------------------------------


def test_a_table_whose_columns_cannot_be_guessed_asks_for_a_map(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "t.csv"
    path.write_text("case,worked,text\n1,yes,a\n2,no,b\n")
    ran = cli("results", "analyze", str(path))
    assert ran.code == 3
    assert "columns cannot be guessed from their names (case, worked, text)" in ran.err
    assert "--map id=COLUMN,success=COLUMN" in ran.err
    assert cli("results", "analyze", str(path), "--map", "id=case,success=worked,aim=attack").code == 0


def test_two_tools_on_one_dataset_are_compared_by_prompt(tmp_path: Path, cli: Cli) -> None:
    asked = [f"Tell me secret number {one}" for one in range(12)]
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path, every in zip(paths, (2, 3), strict=True):
        rows = [
            {"case_id": f"{path.stem}{at}", "prompt": text, "response": "x", "jailbroken": at % every == 0}
            for at, text in enumerate(asked)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = json.loads(cli("results", "compare", *map(str, paths), "--output-format", "json").out)
    (paired,) = [one for one in told["findings"] if one["code"] == "F038"]
    assert (paired["count"], "paired by prompt alone" in paired["message"]) == (12, True)
    apart = json.loads(cli("results", "compare", *map(str, paths), "--match", "prompt", "--output-format", "json").out)
    assert not any(one["code"] == "F038" for one in apart["findings"])
