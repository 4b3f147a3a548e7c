"""The sheets beside the rows: figures are numbers, charts are drawn from cells that exist, hostile text stays text."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import openpyxl
import pytest
from openpyxl.utils import range_boundaries
from openpyxl.worksheet.worksheet import Worksheet

from faircount import AnalyzeOptions, Report, analyze, as_report
from faircount.core import Estimate, Finding, Passage, Severity
from faircount.report import (
    Bar,
    Bars,
    Column,
    Evidence,
    Exhibit,
    Fact,
    Facts,
    Findings,
    Grid,
    HeatMap,
    Interval,
    Label,
    Lead,
    Paragraph,
    Place,
    Record,
    Records,
    Seconds,
    Section,
    write_workbook,
)
from tests.conftest import Write, attack, standard
from tests.report.test_present import hostile_rows
from tests.report.test_xlsx import AS_THEY_ARE, MAIN, SPELLED_OUT

CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
RATE = Estimate(0.25, 0.1, 0.5, 40, "entry", 0.95, "wilson")
UNDEFINED = Estimate(None, None, None, 0, "entry", 0.95, "wilson")
SHARE = Estimate(0.5, None, None, 8, "entry", 0.95, "share")
FINDING = Finding("F001", Severity.ERROR, 7, "=1+1 is \x1b torn", ("a.jsonl:1", "=b:2"))


def report(*blocks: Any, **values: Any) -> Report:
    return Report((Section("Part", blocks, **values),))


def sheet_of(path: Path, made: Report, name: str = "Analysis") -> Worksheet:
    write_workbook(str(path), [["x"]], ["text"], made)
    sheet = openpyxl.load_workbook(path)[name]
    assert isinstance(sheet, Worksheet)
    return sheet


def values(sheet: Worksheet) -> list[list[Any]]:
    rows = [[cell.value for cell in row] for row in sheet.iter_rows()]
    return [[value for value in row if value is not None] for row in rows if any(v is not None for v in row)]


def test_facts_have_their_figures_as_numbers(tmp_path: Path) -> None:
    facts = Facts((Fact("Total", 40), Fact("Hits", 10, RATE, "of 40"), Fact("Half", None, SHARE, depth=1)))
    sheet = sheet_of(tmp_path / "x.xlsx", report(facts, Paragraph("=words"), subject=Place("=a/b.jsonl")))
    assert values(sheet) == [
        ["Part =a/b.jsonl"],
        ["Rate", "low (95%)", "high (95%)", "n"],
        ["Total", 40],
        ["Hits", 10, 0.25, 0.1, 0.5, 40, "of 40"],
        ["Half", 0.5, 8],
        ["=words"],
    ]
    assert [sheet[place].number_format for place in ("B4", "C4", "D4", "F4")] == ["#,##0", "0.00%", "0.00%", "#,##0"]
    assert sheet["A5"].alignment.indent == 2


def test_a_grid_has_the_limits_of_its_rates_beside_them(tmp_path: Path) -> None:
    columns = (Column("Value", numeric=False), Column("Total"), Column("Rate"), Column("Time"))
    rows = (
        (Record("=x"), 40, RATE, Seconds(1.25)),
        (Record(None), None, UNDEFINED, None),
        (Records(("a", None)), 1, None, None),
    )
    sheet = sheet_of(tmp_path / "x.xlsx", report(Grid(columns, rows, frozenset([1]), "a note")))
    assert values(sheet)[1:] == [
        ["Value", "Total", "Rate", "low (95%)", "high (95%)", "n", "Time"],
        ["=x", 40, 0.25, 0.1, 0.5, 40, 1.25],
        ["(none)", "?", "undefined", 0, "?", "a small group: read the interval, not the rate"],
        ["a · (none)", 1, "?", "?"],
        ["a note"],
    ]
    assert sheet["G3"].number_format == '0.000 "s"'


def test_a_lead_names_and_explained_columns_are_plain_cells(tmp_path: Path) -> None:
    columns = (
        Column("File", numeric=False),
        Column("Rate", note="=Rate: a share."),
        Column("Interval", rank=1),
        Column("Errors"),
    )
    grid = Grid(columns, ((Label("=a"), RATE, Interval(RATE), 3),), note="a note")
    sheet = sheet_of(
        tmp_path / "x.xlsx", report(Lead(("=One.", "Two."), (Fact("Hits", 10, RATE),)), grid, subject=Label("=b"))
    )
    # What others draw stands there in figures already.
    assert values(sheet) == [
        ["Part =b"],
        ["=One."],
        ["Two."],
        ["File", "Rate", "low (95%)", "high (95%)", "n", "Errors"],
        ["=a", 0.25, 0.1, 0.5, 40, 3],
        ["=Rate: a share."],
        ["a note"],
    ]
    assert not [cell for row in sheet.iter_rows() for cell in row if cell.data_type == "f"]


def test_a_heat_map_is_coloured_and_tells_its_numbers(tmp_path: Path) -> None:
    names = (Record("=a"), Record(None))
    sheet = sheet_of(
        tmp_path / "x.xlsx", report(HeatMap("Title", "r", "c", names, names, ((RATE, None), (None, SHARE))))
    )
    assert values(sheet)[1:] == [
        ["Title"],
        ["r ↓ c →", "=a", "(none)"],
        ["=a", 0.25],
        ["(none)", 0.5],
        ["Number of entries", "=a", "(none)"],
        ["=a", 40, 0],
        ["(none)", 0, 8],
    ]
    assert [str(scale.sqref) for scale in sheet.conditional_formatting] == ["B4:C5"]


def test_evidence_stands_in_full(tmp_path: Path) -> None:
    known = (("strategy", Record("s")), ("judge", Record(None)))
    said = (("prompt", Passage("=prompt\r\n\x00")), ("response", Passage(" response ")))
    exhibit = Exhibit(Record("e"), Place("f:1"), known, said)
    sheet = sheet_of(tmp_path / "x.xlsx", report(Evidence((exhibit,), 9, "entries")))
    assert values(sheet)[1:] == [
        ["1 of 9 entries"],
        ["Entry", "Place", "Strategy", "Judge", "Prompt", "Response"],
        ["e", "f:1", "s", "(none)", "=prompt\r\n\\x00", " response "],
    ]


def test_exhibits_that_say_different_things_share_columns(tmp_path: Path) -> None:
    one = Exhibit(Record("a"), Place("f:1"), (), (("prompt", Passage("p")), ("answer", Passage("x"))))
    other = Exhibit(
        Record("b"), Place("f:2"), (("passed", Record("1 of 2")),), (("prompt", Passage(None)), ("error", Passage("e")))
    )
    sheet = sheet_of(tmp_path / "x.xlsx", report(Evidence((one, other), 2, "entries")))
    cells = [[cell.value for cell in row] for row in sheet.iter_rows()]
    head = next(at for at, row in enumerate(cells) if row[0] == "Entry")
    assert cells[head : head + 3] == [
        ["Entry", "Place", "Passed", "Prompt", "Answer", "Error"],
        ["a", "f:1", None, "p", "x", None],
        ["b", "f:2", "1 of 2", None, None, "e"],
    ]


def test_findings_have_a_sheet_of_their_own(tmp_path: Path) -> None:
    made = report(Findings((FINDING,)))
    sheet = sheet_of(tmp_path / "x.xlsx", made, "Findings")
    assert values(sheet) == [
        ["Severity", "Code", "Count", "Message", "Where"],
        ["error", "F001", 7, "=1+1 is \\x1b torn", "a.jsonl:1, =b:2, …"],
    ]
    assert (sheet.freeze_panes, sheet.auto_filter.ref) == ("A2", "A1:E2")
    assert values(sheet_of(tmp_path / "x.xlsx", made))[1:] == [["1 finding: see the sheet Findings"]]


def test_other_findings_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    write_workbook(str(path), [], ["a"], None, [FINDING, FINDING])
    book = openpyxl.load_workbook(path)
    assert book.sheetnames == ["Rows", "Findings"]
    assert book["Findings"].max_row == 3


# -- charts -----------------------------------------------------------------------------------------------------


def charts(path: Path) -> list[ElementTree.Element]:
    with zipfile.ZipFile(path) as archive:
        names = sorted(name for name in archive.namelist() if re.fullmatch(r"xl/charts/chart\d+\.xml", name))
        return [ElementTree.fromstring(archive.read(name)) for name in names]


def referenced(root: ElementTree.Element, path: Path) -> dict[str, list[Any]]:
    """Return what the cells hold that a chart is drawn from, by the kind of reference."""
    book = openpyxl.load_workbook(path)
    found = {}
    for kind in ("cat", "val", "minus", "plus"):
        formula = root.find(f".//{CHART}ser//{CHART}{kind}//{CHART}f")
        assert formula is not None
        name, _, area = (formula.text or "").partition("!")
        left, top, right, bottom = range_boundaries(area)
        assert None not in (left, top, right, bottom)
        cells = book[name.strip("'")].iter_rows(top, bottom, left, right)
        found[kind] = [cell.value for row in cells for cell in row]
    return found


def drawn_on(sheet: Worksheet) -> list[Any]:
    found: list[Any] = sheet._charts  # type: ignore[attr-defined]
    return found


def cached(root: ElementTree.Element, kind: str) -> list[str]:
    return [(value.text or "").strip() for value in root.findall(f".//{CHART}ser//{CHART}{kind}//{CHART}v")]


def test_a_chart_is_drawn_from_cells_that_hold_the_figures(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    bars = (Bar(Record("=a"), RATE, small=True), Bar("ours", UNDEFINED), Bar(Record("<r>b</r>"), SHARE))
    sheet = sheet_of(path, report(Bars("=Rate by <b>", bars, RATE)))
    (root,) = charts(path)
    cells = referenced(root, path)
    assert cells["cat"] == ["=a", "ours", "<r>b</r>"] == cached(root, "cat")
    assert cells["val"] == [0.25, "undefined", 0.5]
    assert [float(value) for value in cached(root, "val")] == [0.25, 0.5]
    assert cells["minus"] == [pytest.approx(0.15), None, None]
    assert cells["plus"] == [pytest.approx(0.25), None, None]
    assert root.find(f".//{CHART}barDir[@val='bar']") is not None
    assert root.find(f".//{CHART}title//{CHART}strRef") is None
    assert len(drawn_on(sheet)) == 1


@pytest.mark.parametrize("labels", [("1", "2"), ("nan", "inf"), ("１", "0x1")])
def test_labels_are_never_taken_for_numbers(tmp_path: Path, labels: tuple[str, ...]) -> None:
    path = tmp_path / "x.xlsx"
    sheet_of(path, report(Bars("Rates", tuple(Bar(Record(label), RATE) for label in labels))))
    (root,) = charts(path)
    assert root.find(f".//{CHART}cat/{CHART}strRef") is not None
    assert cached(root, "cat") == list(labels)


def test_the_rate_over_all_entries_is_a_bar_unless_it_is_there_already(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    sheet_of(path, report(Bars("Rates", (Bar("a", RATE),), SHARE), Bars("Rates", (Bar("a", RATE),), RATE)))
    assert [cached(root, "cat") for root in charts(path)] == [["a", "all entries"], ["a"]]


def test_no_chart_covers_another_or_the_rows_below(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    figure = Bars("Rates", tuple(Bar(str(i), RATE) for i in range(12)))
    sheet = sheet_of(path, report(figure, figure, Paragraph("below")))
    ends = [(chart.anchor._from.row, chart.anchor.to.row) for chart in drawn_on(sheet)]
    below = next(cell.row for cell in sheet["A"] if cell.value == "below")
    assert ends[0][0] < ends[0][1] < ends[1][0] < ends[1][1] < below


# -- whole reports ----------------------------------------------------------------------------------------------


def test_a_report_of_real_rows_fills_all_sheets(tmp_path: Path, write: Write) -> None:
    rows = [standard(i, plugin=f"p{i % 3}", lang=f"l{i % 2}", success=i % 4 == 0) for i in range(60)]
    rows += [attack(i, success=i % 2 == 0, attempts=3) for i in range(1, 20)]
    made = as_report(analyze(write([*rows, "{torn"])).analyses, figures=True)
    path = tmp_path / "x.xlsx"
    write_workbook(str(path), [["x"]], ["text"], made)
    book = openpyxl.load_workbook(path)
    assert book.sheetnames == ["Rows", "Analysis", "Findings"]
    assert {row[1] for row in book["Findings"].iter_rows(2, values_only=True)} >= {"F001"}
    drawn = charts(path)
    assert len(drawn) > 2
    for root in drawn:
        assert [value for value in referenced(root, path)["val"] if isinstance(value, float)]
    (hits,) = [row for row in book["Analysis"].iter_rows(values_only=True) if row[0] == "Successful attacks"]
    rate = made.document.analyses[0].rates.asr
    assert hits[2:6] == (rate.value, rate.low, rate.high, rate.n)


def test_hostile_records_stay_text_in_every_sheet(tmp_path: Path, write: Write) -> None:
    texts = [*AS_THEY_ARE, *SPELLED_OUT]
    rows = [*hostile_rows(), *(standard(f"h{i}", plugin=t, lang=t, error=t, **{t: t}) for i, t in enumerate(texts))]
    rows += [attack(f"h{i}", name=text, success=True) for i, text in enumerate(texts)]
    options = AnalyzeOptions(evidence=(("", len(rows)), ("errors", len(rows))))
    made = as_report(analyze(write(rows), options=options).analyses, figures=True)
    path = tmp_path / "x.xlsx"
    write_workbook(str(path), [], ["a"], made)
    book = openpyxl.load_workbook(path)
    assert not [cell for sheet in book for row in sheet.iter_rows() for cell in row if cell.data_type == "f"]
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            root = ElementTree.fromstring(archive.read(name))
            assert not [e for e in root.iter() if e.tag in (f"{MAIN}f", f"{MAIN}hyperlink")], name
            assert not [e for e in root.iter() if e.get("TargetMode") == "External"], name


def test_the_same_report_makes_the_same_bytes(tmp_path: Path) -> None:
    made = report(Bars("Rates", (Bar("a", RATE),)), Findings((FINDING,)))
    for name in ("a.xlsx", "b.xlsx"):
        sheet_of(tmp_path / name, made)
    assert (tmp_path / "a.xlsx").read_bytes() == (tmp_path / "b.xlsx").read_bytes()
