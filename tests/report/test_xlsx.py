"""Workbooks: every text comes back as it was, as text, and a workbook is whole or not there at all.

The oracles are openpyxl, which reads the files independently, and the bare XML.
"""

from __future__ import annotations

import json
import math
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import openpyxl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from openpyxl.utils.escape import unescape
from openpyxl.worksheet.worksheet import Worksheet

from faircount.core import UsageError, visible
from faircount.report import (
    LONGEST,
    SheetLimits,
    Value,
    Written,
    cell_text,
    column_letters,
    companion_lines,
    is_ours,
    units,
    write_workbook,
)
from tests.conftest import some

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"

# Texts that some writer of sheets makes something else of, or loses.
AS_THEY_ARE = (
    "=1+1",
    "{=1}",
    '=HYPERLINK("http://evil.invalid","x")',
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "http://evil.invalid/",
    "https://evil.invalid/" + "a" * 3000,
    "mailto:a@evil.invalid",
    "internal:Sheet2!A1",
    "external:evil.xlsx",
    "file:///etc/passwd",
    "00123",
    "1e5",
    "1,000.5",
    "12345678901234567890",
    "TRUE",
    "2024-01-02",
    "NaN",
    "#REF!",
    "'quoted",
    "'=1",
    " leading, trailing and   several ",
    "\n line\n\nfeeds \n",
    "tab\tand\r\nboth\rkinds",
    "",
    " ",
    "<r><t>rich</t></r>",
    "</t></is></c><c><f>1+1</f></c>",
    "<![CDATA[x]]> ]]> &amp; &#61;1 <!-- -->",
    "_x0041_",
    "_x000D_ _X0041_ _x00e9_ _x005F_x0041_",
    "_x005F_x005F_",
    "__x0041__x0042_",
    "_x0041",
    "x005F_",
    "\u202eevil\u2066 \u200b\ufeff \u2028\u2029 \u00a0",
    "😀🇩🇪👩‍👩‍👧 é e\u0301 中文 \U0010ffff",
    "&<>\"'",
)
SPELLED_OUT = {
    "\x1b[31mred": "\\x1b[31mred",
    "\x00\x07\x0b\x0c\x1f": "\\x00\\x07\\x0b\\x0c\\x1f",
    "\x7f\x85\x9b2J": "\\x7f\\x85\\x9b2J",
    "half \ud800 of \udfff": "half \\ud800 of \\udfff",
    "\ufffe\uffff": "\\ufffe\\uffff",
}


def written(path: Path, rows: Sequence[Sequence[Value]], columns: Sequence[str] = ("text",)) -> Worksheet:
    write_workbook(str(path), rows, columns)
    sheet = openpyxl.load_workbook(path)["Rows"]
    assert isinstance(sheet, Worksheet)
    return sheet


def parts(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


# -- text -------------------------------------------------------------------------------------------------------


def test_text_is_exactly_the_sources_text(tmp_path: Path) -> None:
    sheet = written(tmp_path / "x.xlsx", [[text] for text in AS_THEY_ARE])
    cells = [sheet.cell(row, 1) for row in range(2, 2 + len(AS_THEY_ARE))]
    assert [cell.value for cell in cells] == list(AS_THEY_ARE)
    assert {cell.data_type for cell in cells} == {"s"}
    assert not [cell for cell in cells if cell.hyperlink]


@pytest.mark.parametrize(("text", "shown"), SPELLED_OUT.items())
def test_what_a_sheet_cannot_hold_is_spelled_out(tmp_path: Path, text: str, shown: str) -> None:
    assert written(tmp_path / "x.xlsx", [[text]])["A2"].value == shown == visible(text)


def test_nothing_in_the_file_can_act(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    write_workbook(str(path), [[text] * 2 for text in (*AS_THEY_ARE, *SPELLED_OUT)], AS_THEY_ARE[:2])
    content = parts(path)
    assert not [name for name in content if re.search("link|macro|vba|embed|connection|query|customXml", name, re.I)]
    for name, xml in content.items():
        root = ElementTree.fromstring(xml)
        tags = {element.tag for element in root.iter()}
        assert not tags & {f"{MAIN}f", f"{MAIN}hyperlink", f"{MAIN}hyperlinks", f"{MAIN}externalReference"}, name
        assert not [element for element in root.iter() if element.get("TargetMode") == "External"], name
        assert not [element for element in root.iter() if element.get("quotePrefix")], name


def test_every_text_is_in_a_cell_of_type_text(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    write_workbook(str(path), [[text] for text in AS_THEY_ARE], ["=head"])
    root = ElementTree.fromstring(parts(path)["xl/worksheets/sheet1.xml"])
    assert {cell.get("t") for cell in root.iter(f"{MAIN}c")} == {"inlineStr"}


def test_a_text_that_is_edited_later_stays_a_text(tmp_path: Path) -> None:
    assert written(tmp_path / "x.xlsx", [["=1+1"]])["A2"].number_format == "@"


HOSTILE_ALPHABET = st.one_of(
    st.characters(),
    st.characters(categories=["Cs", "Cc"]),
    st.sampled_from("_x0041_F=<>&'\"\r\n\t \ufffe"),
    st.sampled_from(["_x0041_", "_x005F_", "]]>", "\ud83d", "\ude00"]),
)


@given(st.lists(st.lists(HOSTILE_ALPHABET).map("".join), min_size=1, max_size=20))
@example(["_x005F_x0041_", "__x0041_x0041_"])
def test_any_text_comes_back(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    sheet = written(tmp_path_factory.mktemp("any") / "x.xlsx", [[text] for text in texts])
    for number, text in enumerate(texts, 2):
        expected = "".join(
            visible(c) if (ord(c) < 32 and c not in "\t\n\r") or 0x7F <= ord(c) <= 0x9F or not _is_xml(c) else c
            for c in text
        )
        assert sheet.cell(number, 1).value == expected


def _is_xml(character: str) -> bool:
    code = ord(character)
    return code in (9, 10, 13) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000


@given(st.lists(HOSTILE_ALPHABET).map("".join))
def test_no_run_of_a_text_looks_like_an_escape_to_excel(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("runs") / "x.xlsx"
    write_workbook(str(path), [[text]], ["text"])
    root = ElementTree.fromstring(parts(path)["xl/worksheets/sheet1.xml"])
    for element in some(root.iter(f"{MAIN}t")):
        assert unescape(element.text or "") == (element.text or "")


# -- numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, -1, 1.5, -0.25, 1e-300, 1e300, 0.1 + 0.2, 10**15 - 1, 123456789012, True, False])
def test_a_number_is_a_number(tmp_path: Path, number: float) -> None:
    cell = written(tmp_path / "x.xlsx", [[number]])["A2"]
    assert cell.value == number
    assert cell.data_type == ("b" if isinstance(number, bool) else "n")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (2**63, "9223372036854775808"),
        (-(10**15), "-1000000000000000"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (-0.0, "-0.0"),
        (5e-324, "5e-324"),
        (1.7e308, "1.7e+308"),
    ],
)
def test_a_number_that_excel_would_change_is_a_text(tmp_path: Path, number: float, text: str) -> None:
    cell = written(tmp_path / "x.xlsx", [[number]])["A2"]
    assert (cell.value, cell.data_type) == (text, "s")


def test_long_whole_numbers_are_written_out(tmp_path: Path) -> None:
    assert written(tmp_path / "x.xlsx", [[123456789012]])["A2"].number_format == "0"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_finite_number_is_kept(tmp_path_factory: pytest.TempPathFactory, number: float) -> None:
    value = written(tmp_path_factory.mktemp("number") / "x.xlsx", [[number]])["A2"].value
    assert value == number or value == repr(number)


def test_nothing_leaves_its_cell_empty(tmp_path: Path) -> None:
    sheet = written(tmp_path / "x.xlsx", [[None, "", "x"]], ["a", "b", "c"])
    assert [cell.value for cell in sheet[2]] == [None, "", "x"]
    assert b'r="A2"' not in parts(tmp_path / "x.xlsx")["xl/worksheets/sheet1.xml"]


# -- texts that are too long ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["x" * LONGEST, "😀" * (LONGEST // 2), "é" * LONGEST])
def test_a_text_that_just_fits_is_whole(tmp_path: Path, text: str) -> None:
    assert written(tmp_path / "x.xlsx", [[text]])["A2"].value == text


@pytest.mark.parametrize("text", ["x" * (LONGEST + 1), "😀" * (LONGEST // 2 + 1), "\x1b" * 9000, "y😀" * 100_000])
def test_a_text_that_is_too_long_is_cut_with_a_mark(text: str) -> None:
    shown, cut = cell_text(text, "x.long.jsonl")
    match = re.fullmatch(r"(.*)… \[cut: ([\d,]+) more characters, full text in x\.long\.jsonl\]", shown, re.DOTALL)
    assert cut
    assert match is not None
    kept = len(text) - int(match[2].replace(",", ""))
    assert match[1] == "".join(visible(c) for c in text[:kept])
    assert LONGEST - 10 < units(shown) <= LONGEST


@given(st.text(max_size=200), st.integers(LONGEST - 200, LONGEST + 200))
def test_no_cell_is_longer_than_excel_allows(text: str, length: int) -> None:
    shown, cut = cell_text(text + "z" * length)
    assert len(shown.encode("utf-16-le")) // 2 <= LONGEST
    assert cut == ("[cut: " in shown and "[cut: " not in text)


def test_a_long_text_is_handed_over_whole(tmp_path: Path) -> None:
    long = "\ud800" + "x" * 40_000
    told: list[tuple[int, str, str]] = []
    path = tmp_path / "x.xlsx"
    done = write_workbook(
        str(path),
        [["a", "b"], ["c", long]],
        ["one", "two"],
        companion="x\x1b.jsonl",
        overlong=lambda *cell: told.append(cell),
        limits=SheetLimits(rows=1),
    )
    assert told == [(2, "two", long)]
    assert done == Written(rows=2, sheets=2, cut=1)
    assert str(openpyxl.load_workbook(path)["Rows 2"]["B2"].value).endswith(" full text in x\\x1b.jsonl]")
    (line,) = companion_lines(told)
    assert line.isascii()
    assert line.endswith("}\n")
    assert json.loads(line) == {"row": 2, "column": "two", "text": long}


# -- the sheet --------------------------------------------------------------------------------------------------


def test_the_header_is_bold_frozen_and_filtered(tmp_path: Path) -> None:
    sheet = written(tmp_path / "x.xlsx", [["a", 1], ["b", 2]], ["=name", "n"])
    assert [cell.value for cell in sheet[1]] == ["=name", "n"]
    assert all(cell.font.bold for cell in sheet[1])
    assert sheet.freeze_panes == "A2"
    assert sheet.auto_filter.ref == "A1:B3"


def test_columns_are_as_wide_as_what_they_hold_within_bounds(tmp_path: Path) -> None:
    rows: list[list[Value]] = [["x", "y" * 30, "z" * 5000, "first line\n" + "w" * 50, 1]]
    sheet = written(tmp_path / "x.xlsx", rows, ["a", "b", "c", "d", "a longer name"])
    widths = [sheet.column_dimensions[letter].width for letter in "ABCDE"]
    assert widths[0] < widths[4] < widths[1] < widths[2] < 65
    assert widths[3] < 15
    assert not sheet["C2"].alignment.wrap_text


def test_rows_beyond_the_limit_go_on_in_the_next_sheet(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    done = write_workbook(str(path), ([number] for number in range(7)), ["n"], limits=SheetLimits(rows=3))
    book = openpyxl.load_workbook(path)
    assert done == Written(rows=7, sheets=3, cut=0)
    assert book.sheetnames == ["Rows", "Rows 2", "Rows 3"]
    values = [[cell.value for (cell,) in book[name].iter_rows()] for name in book.sheetnames]
    assert values == [["n", 0, 1, 2], ["n", 3, 4, 5], ["n", 6]]
    assert [book[name].auto_filter.ref for name in book.sheetnames] == ["A1:A4", "A1:A4", "A1:A2"]
    assert {book[name].freeze_panes for name in book.sheetnames} == {"A2"}


def test_no_empty_sheet_follows_a_full_one(tmp_path: Path) -> None:
    assert write_workbook(str(tmp_path / "x.xlsx"), [[1]] * 6, ["n"], limits=SheetLimits(rows=3)).sheets == 2


def test_a_sheet_also_ends_before_it_is_too_large_to_be_packed(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    done = write_workbook(str(path), [["x" * 1000]] * 10, ["t"], limits=SheetLimits(bytes=4000))
    book = openpyxl.load_workbook(path)
    assert done.sheets == len(book.sheetnames) > 2
    assert write_workbook(str(path), [["x"]] * 3, ["t"], limits=SheetLimits(bytes=1)).sheets == 3
    assert sum(book[name].max_row - 1 for name in book.sheetnames) == 10


@pytest.mark.parametrize(("rows", "columns"), [([], ["a"]), ([], []), ([[], []], [])])
def test_nothing_to_write_is_a_workbook_too(tmp_path: Path, rows: list[list[Value]], columns: list[str]) -> None:
    sheet = written(tmp_path / "x.xlsx", rows, columns)
    assert [cell.value for cell in sheet[1] if cell.value is not None] == columns


def test_more_columns_than_a_sheet_has_are_refused(tmp_path: Path) -> None:
    names = [str(number) for number in range(16_385)]
    with pytest.raises(UsageError, match="16,385 columns"):
        write_workbook(str(tmp_path / "x.xlsx"), [], names)
    assert written(tmp_path / "x.xlsx", [], names[:-1]).max_column == 16_384


def test_columns_are_named_as_in_excel() -> None:
    names = column_letters(16_384)
    assert [names[index] for index in (0, 25, 26, 701, 702, 16_383)] == ["A", "Z", "AA", "ZZ", "AAA", "XFD"]


# -- the file ---------------------------------------------------------------------------------------------------


def test_a_failure_in_the_middle_leaves_everything_as_it_was(tmp_path: Path) -> None:
    def failing() -> Iterator[list[int]]:
        yield from ([number] for number in range(2000))
        raise RuntimeError("torn")

    path = tmp_path / "x.xlsx"
    with pytest.raises(RuntimeError, match="torn"):
        write_workbook(str(path), failing(), ["n"])
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"before")
    with pytest.raises(RuntimeError, match="torn"):
        write_workbook(str(path), failing(), ["n"])
    assert [item.read_bytes() for item in tmp_path.iterdir()] == [b"before"]


@pytest.mark.parametrize("place", ["", "missing/x.xlsx"])
def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path, place: str) -> None:
    with pytest.raises(UsageError, match=r"is a folder|cannot be written"):
        write_workbook(str(tmp_path / place), [], ["n"])


def test_the_same_rows_make_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.xlsx", "b.xlsx"):
        write_workbook(str(tmp_path / name), [["x", 1.5, None]], ["a", "b", "c"])
    assert (tmp_path / "a.xlsx").read_bytes() == (tmp_path / "b.xlsx").read_bytes()


def test_a_workbook_of_ours_is_known_again(tmp_path: Path) -> None:
    ours, another, none = tmp_path / "a.xlsx", tmp_path / "b.xlsx", tmp_path / "c.xlsx"
    write_workbook(str(ours), [["<dc:creator>Faircount</dc:creator>"]], ["a"])
    openpyxl.Workbook().save(another)
    none.write_bytes(b"PK\x03\x04 torn")
    assert [is_ours(str(path)) for path in (ours, another, none, tmp_path / "missing")] == [True, False, False, False]


def test_without_the_extra_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    with pytest.raises(UsageError, match=r"pip install 'faircount\[xlsx\]'"):
        write_workbook(str(tmp_path / "x.xlsx"), [], ["n"])
    assert list(tmp_path.iterdir()) == []
