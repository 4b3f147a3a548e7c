"""`results sample-for-labels`: equal chances within a verdict, nothing that tells the verdict, and the way back."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import tracemalloc
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from faircount import InputError, UsageError
from faircount.analysis import Sample, SampleOptions, columns_of, sample_for_labels, sheet_rows
from faircount.io import Records, all_fields
from faircount.stats import allocate_labels, draw_evenly
from tests.conftest import Cli, Write, analysis_of, attack, standard

LANGUAGES = ("de", "en", "fr", "it")


def run_of(successes: int, failures: int) -> list[dict[str, Any]]:
    rows = [
        standard(n, success=n < successes, response=f"answer {n}", judge_name="canary", lang=LANGUAGES[n % 4])
        for n in range(successes + failures)
    ]
    return [*rows, standard("broken", error="time-out"), standard("nobody", success=None)]


def drawn(path: str, **options: Any) -> Sample:
    return sample_for_labels([path], SampleOptions(**options))


# -- which entries ----------------------------------------------------------------------------------------------


def test_entries_of_both_verdicts_are_drawn_and_weights_add_up_to_all_of_them(write: Write) -> None:
    sample = drawn(write(run_of(60, 182)), n=50)
    assert sample.entries == len(sample.rows) == 50
    weights: Counter[str] = Counter()
    for row in sample.rows:
        weights[row.verdict] += row.weight  # type: ignore[assignment]
    assert weights == pytest.approx({"success": 60, "failure": 182})
    assert sample.by == "lang"
    for stratum in sample.strata:
        found = Counter(row.facet for row in sample.rows if row.verdict == stratum.verdict)
        # Every so-manieth of a list in the order of the facet: no value has one more than its share.
        assert all(abs(found[language] - stratum.drawn / 4) < 2 for language in LANGUAGES)


def test_more_is_drawn_where_more_is_unknown() -> None:
    # By hand: 100 * sqrt(0.8 * 0.2) against 900 * sqrt(0.05 * 0.95) is 40 against 196.2.
    successes = round(60 * 40 / 236.15)
    assert allocate_labels(100, 900, 60) == (successes, 60 - successes)


@pytest.mark.parametrize(
    ("sizes", "n", "expected"),
    [
        ((3, 900), 50, (3, 47)),
        ((900, 3), 50, (47, 3)),
        ((0, 900), 50, (0, 50)),
        ((900, 0), 50, (50, 0)),
        ((4, 5), 50, (4, 5)),
        ((500, 500), 2, (1, 1)),
        ((1, 100_000), 8, (1, 7)),
    ],
)
def test_what_one_verdict_cannot_use_goes_to_the_other(sizes: Any, n: int, expected: Any) -> None:
    assert allocate_labels(sizes[0], sizes[1], n) == expected


def test_every_entry_of_a_verdict_has_the_same_chance() -> None:
    part: list[tuple[int, int | None]] = [(n, n % 3 or None) for n in range(23)]
    times, rounds = Counter[int](), 4000
    generator = random.Random(3)
    for _ in range(rounds):
        found = draw_evenly(part, 7, generator)
        assert len({entry for entry, _ in found}) == 7
        times.update(entry for entry, _ in found)
    chance = 7 / 23
    assert all(abs(times[n] / rounds - chance) < 5 * math.sqrt(chance * (1 - chance) / rounds) for n in range(23))


def test_the_same_seed_draws_the_same_and_another_another(write: Write) -> None:
    path = write(run_of(60, 182))
    first, again, other = (drawn(path, n=20, seed=seed).rows for seed in (1, 1, 2))
    assert first == again
    assert {row.key for row in first} != {row.key for row in other}


def test_all_rows_of_an_entry_with_a_verdict_are_asked_about(write: Write) -> None:
    history = [{"response": "first"}, {"response": "second"}, {"response": "last"}]
    rows = [standard(1), attack(1, response="last", attempt_history=history), standard(2, success=True)]
    sample = drawn(write(rows), n=5)
    assert sorted(row.key for row in sample.rows) == ["1", "1-attack", "2"]
    assert sample.entries == 2
    assert next(row.earlier for row in sample.rows if row.key == "1-attack") == "[1] first\n[2] second"
    assert columns_of(sample)[-1] == "earlier_answers"


def test_an_id_on_several_rows_is_named_by_its_line(write: Write) -> None:
    rows = [standard(1, lang="de", input="a"), standard(1, lang="en", input="b"), standard(2, success=True)]
    assert sorted(row.key for row in drawn(write(rows), n=5).rows) == ["2", "results_x.jsonl:1", "results_x.jsonl:2"]


@pytest.mark.parametrize("rows", [[], [standard(1, error="x")], [standard(1, response=True, success=True)]])
def test_where_there_is_nothing_to_label_that_is_said(write: Write, rows: Any) -> None:
    with pytest.raises(InputError, match="nothing to label"):
        drawn(write(rows))


def test_what_cannot_be_drawn_is_refused(write: Write, cli: Cli, tmp_path: Path) -> None:
    path = write(run_of(5, 5))
    with pytest.raises(UsageError, match="2 or more"):
        SampleOptions(n=1)
    with pytest.raises(UsageError, match="no such field"):
        drawn(path, by="colour")
    with pytest.raises(UsageError, match="files twice"):
        sample_for_labels(["-"])
    assert cli("results", "sample-for-labels", path, "-o", str(tmp_path / "sheet.pdf")).code == 2


# -- the sheet --------------------------------------------------------------------------------------------------


def test_the_sheet_does_not_tell_the_verdict(write: Write) -> None:
    """Rows that differ in nothing but the verdict make sheets of the same texts."""
    path = write(run_of(30, 30))
    sample = drawn(path, n=20)
    assert columns_of(sample) == ("id", "prompt", "response", "label", "comment")
    for key, prompt, response, *blank in sheet_rows(sample):
        assert (prompt, response) == (f"prompt {key}", f"answer {key}")
        assert blank == [None, None]
    order = [row.verdict for row in sample.rows]
    assert order not in (sorted(order), sorted(order, reverse=True))


def fill(path: Path, truth: Any) -> None:
    """Label a sheet, JSONL or workbook, as a person would who knows the truth of an entry by its id."""
    if path.suffix == ".xlsx":
        book = openpyxl.load_workbook(path)
        sheet = book.worksheets[0]
        head = [cell.value for cell in sheet[1]]
        for row in sheet.iter_rows(min_row=2):
            row[head.index("label")].value = truth(str(row[head.index("id")].value))
        book.save(path)
        return
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**row, "label": truth(row["id"])}) + "\n" for row in rows))


@pytest.mark.parametrize("name", ["sheet.jsonl", "sheet.xlsx"])
@pytest.mark.parametrize("words", [("hit", "pass"), (1, 0), (True, False)])
def test_a_sheet_that_was_filled_in_corrects_the_rate(
    write: Write, cli: Cli, tmp_path: Path, name: str, words: Any
) -> None:
    path, sheet = write(run_of(60, 182)), tmp_path / name
    ran = cli("results", "sample-for-labels", path, "--n", "50", "-o", str(sheet))
    assert (ran.code, ran.err) == (0, "")
    assert "50 entries drawn for labels" in ran.out
    # The judge takes 54 true successes for 60: those above are failures; and misses those from 200 on.
    truth = {str(n): n < 54 or n >= 200 for n in range(242)}
    fill(sheet, lambda key: words[0] if truth[key] else words[1])
    kept = json.loads((tmp_path / f"{name}.design.json").read_text())
    estimate = sum(row["weight"] * truth[row["id"]] for row in kept["rows"]) / 242
    analysis = analysis_of(path, judge_quality=str(sheet))
    correction = analysis.correction
    assert correction is not None
    assert (correction.labels_from, correction.labels.n, correction.labels.left_out) == ("run", 50, 0)
    assert correction.judged is not None
    # The weights that were kept say the same as the estimate, which weighs by verdict itself.
    assert correction.judged.value == pytest.approx(estimate)
    assert "With these 50 labels: " in cli("results", "analyze", path, "--judge-quality", str(sheet)).out


def test_a_sheet_over_several_files_goes_back_to_each(write: Write, cli: Cli, tmp_path: Path) -> None:
    first, second = write(run_of(20, 40), "results_a.jsonl"), write(run_of(10, 50), "results_b.jsonl")
    sheet = tmp_path / "sheet.jsonl"
    assert cli("results", "sample-for-labels", first, second, "-o", str(sheet)).code == 0
    fill(sheet, lambda key: "hit" if int(key) < 10 else "pass")
    ran = cli("results", "analyze", first, second, "--judge-quality", str(sheet), "--output-format", "json")
    labels = [analysis["correction"]["labels"] for analysis in json.loads(ran.out)["analyses"]]
    assert sum(one["n"] for one in labels) == 50
    assert all(one["n"] for one in labels)


def test_a_sheet_is_not_replaced_by_a_slip(write: Write, cli: Cli, tmp_path: Path) -> None:
    path, sheet = write(run_of(5, 5)), str(tmp_path / "sheet.xlsx")
    assert cli("results", "sample-for-labels", path, "-o", sheet).code == 0
    before = Path(sheet).read_bytes()
    ran = cli("results", "sample-for-labels", path, "-o", sheet, "--seed", "9")
    assert ran.code == 2
    assert "already exists" in ran.err
    assert Path(sheet).read_bytes() == before
    assert cli("results", "sample-for-labels", path, "-o", sheet, "--force").code == 0


def test_hostile_texts_stay_texts_in_the_workbook(write: Write, cli: Cli, tmp_path: Path) -> None:
    texts = ['=HYPERLINK("https://attacker.invalid","x")', "\x1b[31mred", "_x0041_", "a\ud800b", "x" * 40_000]
    rows = [standard(n, response=text, success=n % 2 == 0) for n, text in enumerate(texts)]
    sheet = tmp_path / "sheet.xlsx"
    assert cli("results", "sample-for-labels", write(rows), "-o", str(sheet)).code == 0
    cells = [cell for row in openpyxl.load_workbook(sheet).worksheets[0].iter_rows() for cell in row]
    assert all(cell.data_type in ("s", "n") for cell in cells)
    fill(sheet, lambda key: "hit" if int(key) % 2 == 0 else "pass")
    assert "With these 5 labels" in cli("results", "analyze", write(rows), "--judge-quality", str(sheet)).out


# -- workbooks of others ----------------------------------------------------------------------------------------


def test_the_first_sheet_of_a_workbook_is_read_as_it_stands(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["id", None, "label", "comment"])  # type: ignore[union-attr]
    book.active.append([12, None, True])  # type: ignore[union-attr]
    book.active.append([])  # type: ignore[union-attr]
    book.active.append(["13-attack", "x", 0, 'a "b", c\nd'])  # type: ignore[union-attr]
    book.create_sheet("other").append(["not", "this"])
    path = tmp_path / "book.xlsx"
    book.save(path)
    records = Records(str(path), all_fields())
    assert records.header == ["id", "", "label", "comment"]
    assert list(records) == [
        (2, {"id": "12", "column_2": None, "label": "true", "comment": None}),
        (4, {"id": "13-attack", "column_2": "x", "label": "0", "comment": 'a "b", c\nd'}),
    ]


@pytest.mark.parametrize(
    "sheet",
    [
        b"<!DOCTYPE x [<!ENTITY a 'b'>]><worksheet><sheetData/></worksheet>",
        b"<worksheet><sheetData><row>",
        b"<worksheet><sheetData><row><c r='A1' t='s'><v>7</v></c></row></sheetData></worksheet>",
        b"<worksheet><sheetData><row><c r='ZZZ1'><v>7</v></c></row></sheetData></worksheet>",
        None,
    ],
)
def test_a_workbook_that_is_none_is_refused(write: Write, tmp_path: Path, sheet: bytes | None) -> None:
    path = tmp_path / "bad.xlsx"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("hello.txt", "x")
        if sheet is not None:
            packed.writestr("xl/worksheets/sheet1.xml", sheet)
    with pytest.raises(InputError, match=r"bad\.xlsx: (cannot read this workbook|declares a document type)"):
        analysis_of(write(run_of(5, 5)), judge_quality=str(path))


def _book(path: Path, sheet: bytes, *, compression: int = zipfile.ZIP_DEFLATED, members: int = 0) -> str:
    with zipfile.ZipFile(path, "w", compression) as packed:
        packed.writestr("xl/worksheets/sheet1.xml", sheet)
        for number in range(members):
            packed.writestr(f"x{number}", b"")
    return str(path)


_LAUGHS = """<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;">]>
<worksheet><sheetData><row><c t="inlineStr"><is><t>&b;</t></is></c></row></sheetData></worksheet>"""


@pytest.mark.parametrize(
    ("sheet", "members", "reason"),
    [
        (b"<worksheet><sheetData>" + b"<row/>" * 110_000, 0, "more than 100,000 rows"),
        (b"<worksheet><sheetData>" + b"<row/>" * 90_000, 0, "expands more than 200 times"),
        (b"<worksheet><sheetData>" + b"<row><c r='XFD1'><v>1</v></c></row>" * 2_000, 0, "more than 10,000,000 cells"),
        (_LAUGHS.encode("utf-16"), 0, "declares a document type"),
        (b"<worksheet/>", 10_001, "more than 10,000 parts"),
    ],
)
def test_a_workbook_that_is_a_bomb_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sheet: bytes, members: int, reason: str
) -> None:
    monkeypatch.setattr("faircount.io.archives._MOST_ROWS", 100_000)
    if reason.startswith("expands"):
        monkeypatch.setattr("faircount.io.archives.EXPANSION_CHECKED_FROM", 1 << 16)
    path = _book(tmp_path / "bomb.xlsx", sheet, members=members)
    del sheet
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=rf"bomb\.xlsx: (has )?({reason})"):
            for _ in Records(path, all_fields()):
                pass
        assert tracemalloc.get_traced_memory()[1] < 128 * 1024**2
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_workbooks_are_refused(cli: Cli, write: Write, tmp_path: Path, compression: int) -> None:
    header = b"<row><c t='str'><v>id</v></c><c t='str'><v>label</v></c></row>"
    rows = b"".join(b"<row><c><v>%d</v></c><c><v>%d</v></c></row>" % (n, n % 2) for n in range(5000))
    sheet = b"<worksheet><sheetData>" + header + rows
    path = Path(_book(tmp_path / "bad.xlsx", sheet + b"</sheetData></worksheet>", compression=compression))
    whole = path.read_bytes()
    for at in range(60, len(whole) - 200, len(whole) // 25):
        path.write_bytes(whole[:at] + bytes(255 - byte for byte in whole[at : at + 20]) + whole[at + 20 :])
        ran = cli("results", "analyze", write(run_of(5, 5)), "--judge-quality", str(path))
        assert ran.code == 3, (at, ran.err)


def test_nothing_of_a_workbook_or_of_standard_input_is_left_behind(write: Write, tmp_path: Path) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    book = openpyxl.Workbook()
    book.active.append(["response", "label"])  # type: ignore[union-attr]
    for number in range(20):
        book.active.append([f"I cannot help {number}.", number % 2])  # type: ignore[union-attr]
    path = tmp_path / "labels.xlsx"
    book.save(path)
    run = [sys.executable, "-m", "faircount"]
    environment = {**os.environ, "TMPDIR": str(place)}
    csv = b"response,label\nSorry,1\nSure,0\n"
    for words, given in (
        (["results", "analyze", write(run_of(5, 5)), "--judge-quality", str(path)], b""),
        (["judges", "evaluate", "--labels", str(path), "refusal", "-o", str(tmp_path / "s.json")], b""),
        (["judges", "evaluate", "--labels", "-", "refusal", "-o", str(tmp_path / "t.json")], csv),
    ):
        done = subprocess.run([*run, *words], input=given, capture_output=True, env=environment, timeout=60)
        assert done.returncode in (0, 3), done.stderr
        assert not list(place.iterdir())
    assert json.loads((tmp_path / "s.json").read_text())
