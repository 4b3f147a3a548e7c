"""`results export`: what goes into a table, and that every format gives it back as it was."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.analysis import (
    COMPUTED_COLUMNS,
    ENTRY_COLUMNS,
    Export,
    ExportOptions,
    named_column,
    split_names,
    written_name,
)
from faircount.core import UsageError, visible
from tests.conftest import Cli, Write, analysis_of, attack, encode, row, standard

HOSTILE: dict[str, Any] = {
    "formula": '=HYPERLINK("http://evil.invalid","x")',
    "command": "+cmd|' /C calc'!A0",
    "escape": "\x1b[31mred\x00",
    "half": "half \ud800 of it",
    "breaks": 'a "quoted"\r\nsecond, line\n\ttab',
    "long": "x" * 40_000,
    "markup": "<script>alert(1)</script>&amp;",
    "looks like a number": "00123",
    "right to left": "\u202eevil\u2066",
    "nested": {"list": [1, None, "é"], "deep": {"=1": "\x1b"}},
}
FORMATS = ("jsonl", "csv", "parquet", "xlsx", "html")


@pytest.fixture(autouse=True)
def _folder_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def table(*paths: str, **options: Any) -> tuple[list[str], list[list[Any]]]:
    with Export(paths, ExportOptions(**options)) as export:
        return [column.name for column in export.columns], list(export.rows())


def lines(*paths: str, **options: Any) -> list[bytes]:
    with Export(paths, ExportOptions(**options)) as export:
        return [line for some in export.lines() for line in some]


def csv_rows(path: str | Path) -> list[dict[str, str]]:
    text = Path(path).read_bytes().decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


# -- columns ----------------------------------------------------------------------------------------------------


def test_columns_are_what_faircount_says_and_then_the_fields_as_they_first_appear(write: Write) -> None:
    path = write([{"id": 1, "b": 1}, {"b": 2, "id": 2, "a": [1, {"x": "é"}]}])
    names, rows = table(path)
    assert names == [*COMPUTED_COLUMNS, "id", "b", "a"]
    assert rows == [
        [path, 1, "standard", "unjudged", 1, 1, None],
        [path, 2, "standard", "unjudged", 2, 2, '[1,{"x":"é"}]'],
    ]


def test_a_field_called_like_something_that_faircount_says_keeps_its_value_under_another_name(write: Write) -> None:
    path = write([row(1, outcome="theirs", line="theirs", row="theirs")])
    names, ((*cells,),) = table(path)
    named = dict(zip(names, cells, strict=True))
    assert (named["outcome"], named["row.outcome"]) == ("failure", "theirs")
    assert (named["line"], named["row.line"], named["row"]) == (1, "theirs", "theirs")
    assert table(path, columns=("row.outcome,row.row",)) == (["row.outcome", "row.row"], [["theirs", "theirs"]])


def test_chosen_columns_come_in_the_order_given(write: Write) -> None:
    history = [{"success": False}, {"success": True, "error": "é"}]
    path = write([standard(1, guardrail_categories={"hate": True}), attack(1, attempt_history=history, success=True)])
    names = ("outcome,id", "guardrail_categories.hate, attempt_history[-1].success,attempt_history[*].error")
    assert table(path, columns=names) == (
        ["outcome", "id", "guardrail_categories.hate", "attempt_history[-1].success", "attempt_history[*].error"],
        [["success", 1, True, None, None], ["success", "1-attack", None, True, '[null,"é"]']],
    )


def test_a_field_of_any_name_can_be_chosen(write: Write) -> None:
    path = write([row(1, **{"a, b": 1, "c.d": 2, 'e"]': 3, "": 4})])
    names = """row["a, b"],row['c.d'],row["e\\"]"],row[""]"""
    assert table(path, columns=(names,))[1] == [[1, 2, 3, 4]]


@given(st.text(min_size=1))
def test_the_name_that_a_message_gives_for_a_field_can_be_used(field: str) -> None:
    name = written_name(field)
    assert split_names([name]) == [name.strip()]
    assert named_column(name).steps == (field,)


@pytest.mark.parametrize("name", ["id = 1", "not id", "id or lang", "(id)", "5", '"id"', "a b", "id not", "exists id"])
def test_what_is_no_name_of_a_field_is_refused(write: Write, cli: Cli, name: str) -> None:
    ran = cli("results", "export", write([row()]), "--to", "csv", "--columns", name)
    assert (ran.code, ran.out) == (2, "")
    assert "not a field name" in ran.err


def test_an_unknown_column_is_refused_with_those_that_there_are(write: Write, cli: Cli, tmp_path: Path) -> None:
    path = write([row(1, **{"my \x1b field": 1})])
    ran = cli("results", "export", path, "--to", "csv", "--columns", "id,sucess")
    assert ran.code == 2
    assert "--columns sucess: no such column; available: attempts, id, input, response, " in ran.err
    assert 'row["my \\x1b field"], success, file, line, strategy, outcome' in ran.err
    assert [item.name for item in tmp_path.iterdir()] == ["results_x.jsonl"]


def test_a_column_that_is_named_twice_is_refused(write: Write) -> None:
    with pytest.raises(UsageError, match="id is named twice"):
        table(write([row()]), columns=("id", "success, id"))


def test_a_column_that_no_row_has_a_value_in_is_told(write: Write, cli: Cli) -> None:
    path = write([row(1, meta={"a": 1})])
    ran = cli("results", "export", path, "-o", "-", "--to", "jsonl", "--columns", "meta.a,meta.b")
    assert ran.code == 0
    assert "meta.b is empty in every row" in ran.err
    assert "meta.a is empty" not in ran.err


def test_a_file_without_rows_has_no_unknown_columns(write: Write) -> None:
    path = write([])
    assert table(path) == (list(COMPUTED_COLUMNS), [])
    assert table(path, columns=("id,nothing.inside",)) == (["id", "nothing.inside"], [])


# -- which rows -------------------------------------------------------------------------------------------------


def test_a_query_chooses_rows_and_not_columns(write: Write, cli: Cli) -> None:
    path = write([row(1, success=True), row(2, only_here=1), row(3, success=True)])
    names, rows = table(path, where="success")
    assert [cells[names.index("id")] for cells in rows] == [1, 3]
    assert "only_here" in names
    ran = cli("results", "export", path, "--to", "csv", "--where", "success")
    assert ran.err == f"faircount: wrote 2 of 3 rows to {path.removesuffix('.jsonl')}.csv\n"


def test_the_outcome_is_that_of_the_entry(write: Write) -> None:
    path = write([standard(1), attack(1, success=True), standard(2, error="x")])
    rows = table(path, columns=("line,strategy,outcome",))[1]
    assert rows == [[1, "standard", "success"], [2, "goat", "success"], [3, "standard", "error"]]
    assert table(path, columns=("id",), where="outcome = success and strategy = goat")[1] == [["1-attack"]]


def test_outcomes_are_not_found_out_for_nothing(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircount.analysis.extract.EntriesOfRows", None)
    path = write([row(1)])
    assert table(path, columns=("id,line,strategy",))[1] == [[1, 1, "standard"]]
    assert len(lines(path)) == 1


def test_rows_of_several_files_follow_one_another(write: Write, cli: Cli) -> None:
    first, second = write([row(1)], "results_a.jsonl"), write([row(1, extra=5)], "results_b.jsonl")
    names, rows = table(first, second)
    assert [cells[:2] for cells in rows] == [[first, 1], [second, 1]]
    assert [cells[names.index("extra")] for cells in rows] == [None, 5]
    ran = cli("results", "export", first, second, first, "--to", "csv")
    assert "F007" in ran.err
    assert [line["file"] for line in csv_rows("Combined.csv")] == [first, second]


def test_folders_and_packed_files_are_read(write: Write, cli: Cli, tmp_path: Path) -> None:
    write([row(1)], "runs/results_a.jsonl")
    (tmp_path / "runs" / "results_b.jsonl.gz").write_bytes(gzip.compress(encode([row(2)])))
    assert cli("results", "export", "--result-folder", "runs", "-o", "all.csv").code == 0
    assert [line["id"] for line in csv_rows("all.csv")] == ["1", "2"]
    assert cli("results", "export", "runs/results_b.jsonl.gz", "--to", "csv").code == 0
    assert (tmp_path / "runs" / "results_b.csv").exists()


@pytest.mark.parametrize("kind", FORMATS)
def test_standard_input_is_read(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    content = io.BytesIO(encode([standard(1), attack(1, success=True)]))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=content))
    ran = cli("results", "export", "-", "--to", kind)
    assert (ran.code, ran.out) == (0, "")
    name = "stdin_export.jsonl" if kind == "jsonl" else f"stdin.{kind}"
    assert ran.err == f"faircount: wrote 2 rows to {name}\n"
    assert (tmp_path / name).exists()


def test_damaged_lines_are_left_out_and_told(write: Write, cli: Cli) -> None:
    path = write([row(1), '{"id": 2, "tor', row(3)])
    for words in ([], ["--entries"]):
        ran = cli("results", "export", path, "--to", "csv", "--strict", "--force", *words)
        assert ran.code == 3
        assert "F001 1 line could not be read and was skipped" in ran.err
        assert f"{path}:2" in ran.err
    assert [line["line"] for line in csv_rows(path.removesuffix(".jsonl") + ".csv")] == ["1", "3"]


@pytest.mark.parametrize("words", [[], ["--entries"], ["--columns", "id"]])
def test_a_file_without_a_good_line_is_an_error_and_leaves_nothing(
    write: Write, cli: Cli, tmp_path: Path, words: list[str]
) -> None:
    ran = cli("results", "export", write(["nonsense", "[]"]), "--to", "csv", *words)
    assert ran.code == 3
    assert "cannot read any of its 2 lines" in ran.err
    assert [item.name for item in tmp_path.iterdir()] == ["results_x.jsonl"]


# -- entries ----------------------------------------------------------------------------------------------------

OUTCOMES = ("success", "failure", "error", "guardrail", "unjudged")
SOME_ENTRIES = [
    standard(1, success=True, lang="en"),
    standard(2, lang="de"),
    attack(2, success=True, attempts=7, lang="de"),
    attack(2, name="crescendo", attempts=3, lang="de"),
    standard(3, error="HTTP 503", lang="fr"),
    standard(4, error="blocked", guardrail=True),
    standard(5, success=None),
    attack("lonely", attempts=2),
]


@pytest.mark.parametrize("definition", ["faircount", "spikee"])
def test_entries_are_those_that_are_analysed(write: Write, definition: str) -> None:
    path = write(SOME_ENTRIES)
    names, rows = table(path, entries=True, definition=definition)
    entries = [dict(zip(names, cells, strict=True)) for cells in rows]
    analysis = analysis_of(path, definition=definition)
    counted = {outcome: sum(entry["outcome"] == outcome for entry in entries) for outcome in OUTCOMES}
    if definition == "spikee":
        # A block is one of the errors there.
        counted["error"] += counted["guardrail"]
    assert counted == {outcome: getattr(analysis.tally, outcome) for outcome in OUTCOMES}
    assert len(entries) == analysis.tally.total
    assert sum(entry["attempts"] for entry in entries) == analysis.attempts
    assert analysis.dynamic is not None
    assert sum(entry["initial_success"] for entry in entries) == 1


def test_an_entry_tells_where_it_begins_and_what_was_done(write: Write) -> None:
    path = write(SOME_ENTRIES)
    names, rows = table(path, entries=True)
    assert names == [*ENTRY_COLUMNS, "lang"]
    assert rows[:3] == [
        [path, 1, "1", "success", True, 1, None, "en"],
        [path, 2, "2", "success", False, 11, "several attacks", "de"],
        [path, 5, "3", "error", False, 1, None, "fr"],
    ]
    assert rows[-1][:7] == [path, 8, "lonely", "failure", False, 2, "goat"]


def test_an_id_that_only_looks_like_that_of_an_attack_is_the_entrys_own(write: Write) -> None:
    path = write([row("x-attack-1"), row("x-attack-2")])
    assert [cells[2] for cells in table(path, entries=True)[1]] == ["x-attack-1", "x-attack-2"]


def test_a_query_chooses_entries_with_a_row_for_which_it_holds(write: Write, cli: Cli) -> None:
    path = write(SOME_ENTRIES)
    assert [cells[2] for cells in table(path, entries=True, where="attempts > 2")[1]] == ["2"]
    assert [cells[2] for cells in table(path, entries=True, where="outcome = success")[1]] == ["1", "2"]
    assert table(path, entries=True, where="lang = xx")[1] == []
    ran = cli("results", "export", path, "--entries", "--where", "strategy = goat", "--to", "csv")
    assert ran.err == f"faircount: wrote 2 of 6 entries to {path.removesuffix('.jsonl')}_entries.csv\n"


def test_columns_of_entries_are_chosen_by_their_names(write: Write) -> None:
    path = write([standard(1, lang="en", line="theirs", id_of_mine=3)])
    assert table(path, entries=True, columns=("lang,id",))[1] == [["en", "1"]]
    with pytest.raises(UsageError, match="available: file, line, id, outcome, initial_success"):
        table(path, entries=True, columns=("langs",))
    names, rows = table(path, entries=True)
    assert dict(zip(names, rows[0], strict=True))["row.line"] == "theirs"


def test_entries_of_several_files_are_folded_together(write: Write) -> None:
    first, second = write([standard(1)], "results_a.jsonl"), write([standard(1, input="b")], "results_b.jsonl")
    assert [cells[:3] for cells in table(first, second, entries=True)[1]] == [[first, 1, "1"], [second, 1, "1"]]


def test_more_entries_than_are_asked_for_at_once_all_come(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircount.ledger.lookup.ENTRIES_AT_ONCE", 2)
    path = write([standard(number) for number in range(7)])
    assert [cells[2] for cells in table(path, entries=True)[1]] == [str(number) for number in range(7)]


# -- formats ----------------------------------------------------------------------------------------------------


def test_jsonl_is_the_rows_byte_for_byte(write: Write, cli: Cli) -> None:
    odd = [
        b'{ "id":1 ,"x": 1.00, "y": NaN, "z": "\\ud800\\u00e9" }',
        b'{"id": 2, "big": 123456789012345678901234567890, "id": 2}\r',
        json.dumps(row(3, **HOSTILE)).encode(),
    ]
    path = write([*odd, "torn {", ""])
    assert cli("results", "export", path, "-o", "out.jsonl").code == 0
    assert Path("out.jsonl").read_bytes() == b"".join(line + b"\n" for line in odd)


def test_chosen_fields_keep_their_text_in_jsonl(write: Write) -> None:
    path = write([b'{"id": 1.50, "x": {"a":  1.00}, "t": "\\u00e9\\ud800", "u": NaN}', '{"id": "é"}'])
    assert lines(path, columns=("t,id,x,x.a,line,u",)) == [
        b'{"t": "\\u00e9\\ud800", "id": 1.50, "x": {"a":  1.00}, "x.a": 1.0, "line": 1, "u": NaN}\n',
        '{"t": null, "id": "é", "x": null, "x.a": null, "line": 2, "u": null}\n'.encode(),
    ]


def test_entries_are_objects_in_jsonl(write: Write) -> None:
    (line,) = lines(write([standard(1, success=True, lang="d\ud800")]), entries=True, columns=("id,outcome,attempts",))
    assert json.loads(line) == {"id": "1", "outcome": "success", "attempts": 1}


def test_csv_comes_back_and_is_safe(write: Write, cli: Cli) -> None:
    path = write([row(1, **HOSTILE)])
    assert cli("results", "export", path, "-o", "safe.csv").code == 0
    (safe,) = csv_rows("safe.csv")
    assert Path("safe.csv").read_bytes().startswith(b"\xef\xbb\xbf")
    assert safe["formula"] == "'" + HOSTILE["formula"]
    assert safe["command"] == "'" + HOSTILE["command"]
    assert safe["escape"] == "\\x1b[31mred\\x00"
    assert safe["half"] == "half \\ud800 of it"
    for name in ("long", "markup", "looks like a number", "right to left", "breaks"):
        assert safe[name] == HOSTILE[name]
    assert json.loads(safe["nested"].replace("\\x1b", "\\\\x1b"))["list"] == [1, None, "é"]


def test_raw_csv_has_the_texts_as_they_are(write: Write, cli: Cli) -> None:
    path = write([row(1, **HOSTILE)])
    assert cli("results", "export", path, "-o", "raw.csv", "--raw").code == 0
    (raw,) = csv_rows("raw.csv")
    assert not Path("raw.csv").read_bytes().startswith(b"\xef\xbb\xbf")
    for name, text in HOSTILE.items():
        if isinstance(text, str):
            assert raw[name] == text.replace("\ud800", "\\ud800")
    assert json.loads(raw["nested"]) == HOSTILE["nested"]


def test_a_workbook_has_the_texts_as_texts_and_the_long_ones_in_a_companion(write: Write, cli: Cli) -> None:
    path = write([row(0), row(1, **HOSTILE)])
    ran = cli("results", "export", path, "-o", "out.xlsx")
    book = openpyxl.load_workbook("out.xlsx")
    assert book.sheetnames == ["Rows"]
    names, _, cells = ([cell.value for cell in line] for line in book["Rows"].iter_rows())
    shown = dict(zip(names, cells, strict=True))
    for name, text in HOSTILE.items():
        if name not in ("long", "nested"):
            assert shown[name] == re.sub("[\x00\x1b\ud800]", lambda match: visible(match[0]), str(text))
    assert shown["nested"] == '{"list":[1,null,"é"],"deep":{"=1":"\\u001b"}}'
    assert str(shown["long"]).endswith("more characters, full text in out.long.jsonl]")
    told = json.loads(Path("out.long.jsonl").read_text(encoding="ascii"))
    assert told == {"row": 2, "column": "long", "text": HOSTILE["long"]}
    assert "1 text is too long for a cell: shortened there, in full in out.long.jsonl" in ran.err


def test_a_page_shows_everything_and_can_do_nothing(write: Write, cli: Cli) -> None:
    path = write([row(1, **HOSTILE)])
    assert cli("results", "export", path, "-o", "out.html").code == 0
    page = Path("out.html").read_text(encoding="utf-8")
    assert "default-src &#x27;none&#x27;" in page
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;" in page
    assert "\\x1b[31mred\\x00" in page
    assert "half \\ud800 of it" in page
    assert "\\u202eevil" in page
    assert "x" * 1999 + "…" in page
    assert "cut off after 2,000 characters" in page


def test_a_page_has_a_limit_and_says_so(write: Write, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircount.analysis.export.MOST_ROWS", 2)
    path = write([row(number) for number in range(3)])
    ran = cli("results", "export", path, "-o", "out.html")
    assert ran.code == 2
    assert "a page holds at most 2 rows" in ran.err
    assert not Path("out.html").exists()
    assert cli("results", "export", path, "-o", "out.html", "--where", "id < 2").code == 0


@pytest.mark.parametrize("kind", FORMATS)
def test_numbers_of_any_size_are_written(write: Write, cli: Cli, kind: str) -> None:
    odd = ["1" * 30, "9" * 5000, "1e400", "-1e400", "NaN", "-0.0", "1e-400"]
    path = write([f'{{"id": {number}, "n": {value}}}' for number, value in enumerate(odd)])
    ran = cli("results", "export", path, "--to", kind, "--columns", "line,n")
    assert ran.code == 0, ran.err
    assert "wrote 7 rows" in ran.err
    assert table(path, columns=("n",))[1][:2] == [[int("1" * 30)], ["9" * 5000]]


# -- places -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "out"), [("csv", "id\r\n1\r\n"), ("jsonl", '{"id": 1}\n')])
def test_lines_can_go_to_standard_output(write: Write, cli: Cli, kind: str, out: str) -> None:
    ran = cli("results", "export", write([row(1)]), "--to", kind, "-o", "-", "--columns", "id")
    assert (ran.code, ran.out.replace("\r\n", "\n")) == (0, out.replace("\r\n", "\n"))
    assert ran.err == "faircount: wrote 1 row to standard output\n"


@pytest.mark.parametrize("kind", ["parquet", "xlsx", "html"])
def test_other_formats_need_a_file(write: Write, cli: Cli, kind: str) -> None:
    ran = cli("results", "export", write([row(1)]), "--to", kind, "-o", "-")
    assert (ran.code, ran.out) == (2, "")
    assert f"{kind} needs a file" in ran.err


def test_the_format_is_told_by_the_name_or_asked_for(write: Write, cli: Cli) -> None:
    path = write([row(1)])
    assert cli("results", "export", path, "-o", "X.CSV").code == 0
    assert Path("X.CSV").read_bytes().startswith("\ufefffile,line".encode())
    for words in ([], ["-o", "x.txt"], ["-o", "-"]):
        ran = cli("results", "export", path, *words)
        assert ran.code == 2
        assert "choose one with --to (jsonl, csv, parquet, xlsx, html)" in ran.err
    assert "--raw works only with csv" in cli("results", "export", path, "--to", "jsonl", "--raw").err


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_of_somebody_elses_is_replaced_only_if_forced(write: Write, cli: Cli, tmp_path: Path, kind: str) -> None:
    path, target = write([row(1)]), tmp_path / f"out.{kind}"
    target.write_bytes(b"precious")
    ran = cli("results", "export", path, "-o", str(target))
    assert ran.code == 2
    assert "already exists; overwrite it with --force" in ran.err
    assert target.read_bytes() == b"precious"
    assert cli("results", "export", path, "-o", str(target), "--force").code == 0
    assert target.read_bytes() != b"precious"


@pytest.mark.parametrize("kind", ["xlsx", "html"])
def test_a_file_that_says_that_it_is_ours_is_replaced(write: Write, cli: Cli, kind: str) -> None:
    path = write([row(1, response="x" * 40_000)])
    for _ in range(2):
        assert cli("results", "export", path, "--to", kind).code == 0


def test_a_workbook_that_somebody_has_saved_since_is_not_replaced(write: Write, cli: Cli) -> None:
    path = write([row(1)])
    assert cli("results", "export", path, "-o", "out.xlsx").code == 0
    book = openpyxl.load_workbook("out.xlsx")
    book["Rows"]["A9"] = "a note"
    book.properties.lastModifiedBy = "an analyst"
    book.save("out.xlsx")
    assert cli("results", "export", path, "-o", "out.xlsx").code == 2
    assert openpyxl.load_workbook("out.xlsx")["Rows"]["A9"].value == "a note"


def test_a_companion_of_somebody_elses_is_not_replaced(write: Write, cli: Cli) -> None:
    path = write([row(1, response="x" * 40_000)])
    Path("out.long.jsonl").write_text("precious", encoding="utf-8")
    assert "out.long.jsonl: already exists" in cli("results", "export", path, "-o", "out.xlsx").err
    assert not Path("out.xlsx").exists()
    assert cli("results", "export", path, "-o", "out.xlsx", "--force").code == 0
    assert Path("out.long.jsonl").read_bytes().startswith(b'{"row": 1')


def test_an_input_is_never_replaced(write: Write, cli: Cli) -> None:
    path = write([row(1)])
    before = Path(path).read_bytes()
    ran = cli("results", "export", path, "-o", path, "--force")
    assert ran.code == 2
    assert "is an input" in ran.err
    assert Path(path).read_bytes() == before


def test_a_place_that_cannot_be_written_to_is_named(write: Write, cli: Cli) -> None:
    path = write([row(1)])
    Path("folder.csv").mkdir()
    assert "folder.csv: is a folder" in cli("results", "export", path, "-o", "folder.csv").err
    for kind in FORMATS:
        ran = cli("results", "export", path, "-o", f"missing/out.{kind}")
        assert ran.code == 2
        assert "cannot be written" in ran.err


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("words", [[], ["--entries"]])
def test_an_interruption_leaves_nothing(
    write: Write, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, words: list[str]
) -> None:
    path = write([row(1, response="x" * 40_000), row(2)])
    whole = Export._counted

    def interrupted(self: Export, items: Any) -> Any:
        yield next(whole(self, items))
        raise KeyboardInterrupt

    monkeypatch.setattr(Export, "_counted", interrupted)
    ran = cli("results", "export", path, "-o", str(tmp_path / f"out.{kind}"), *words)
    assert (ran.code, ran.err) == (130, "faircount: interrupted\n")
    assert [item.name for item in tmp_path.iterdir()] == ["results_x.jsonl"]


def test_rows_are_made_one_by_one(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write([row(number, response="x" * 1000) for number in range(5000)])
    read = []
    chosen = Export._chosen

    def watched(self: Export, *words: Any) -> Any:
        for found in chosen(self, *words):
            read.append(len(found))
            yield found

    monkeypatch.setattr(Export, "_chosen", watched)
    with Export([path], ExportOptions(columns=("id", "line"))) as export:
        rows = export.rows()
        assert next(rows) == [0, 1]
        assert 0 < sum(read) < 1000
        assert sum(1 for _ in rows) == 4999
