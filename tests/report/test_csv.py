"""CSV: every field comes back, and no spreadsheet takes one for a formula unless the bytes were asked for."""

from __future__ import annotations

import csv
import io
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.core import visible
from faircount.report import Value, csv_lines
from tests.report.test_xlsx import AS_THEY_ARE, HOSTILE_ALPHABET

FORMULA = "=+-@＝＋－＠"


def read(lines: list[str]) -> list[list[str]]:
    text = "".join(lines).encode().decode()
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def field(value: Value, *, raw: bool = False) -> str:
    ((header,), (written, last)) = read(list(csv_lines(["head"], [[value, "last"]], raw=raw)))
    assert (header, last) == ("head", "last")
    return written


def test_lines_are_those_of_rfc_4180() -> None:
    lines = list(csv_lines(["a", 'b"c', "d,e"], [["x\ny", None, 'say "hi"'], [1, True, ""]]))
    assert lines == ['a,"b""c","d,e"\r\n', '"x\ny",,"say ""hi"""\r\n', "1,true,\r\n"]


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t'=1"),
        ("\r=1", "'\r'=1"),
        ("\nx", "'\nx"),
        ("＝1", "'＝1"),
        ("＋1", "'＋1"),
        ("－1", "'－1"),
        ("＠x", "'＠x"),
        ("  =1", "'  =1"),
        ("\u00a0=1", "'\u00a0=1"),
        ("\ufeff=1", "'\ufeff=1"),
        ("a;=1", "a;'=1"),
        ("a; =1", "a;' =1"),
        ('a";=1', "a\";'=1"),
        ("list:\n- one\n- two", "list:\n'- one\n'- two"),
        ("a\r\n=1", "a\r\n'=1"),
        ("a=1", "a=1"),
        ("a - b", "a - b"),
        ("a;b", "a;b"),
        ("", ""),
        ("'quoted", "'quoted"),
        ("\x00=1", "\\x00=1"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\ud800", "\\ud800"),
    ],
)
def test_a_text_is_made_safe_for_spreadsheets(text: str, safe: str) -> None:
    assert field(text) == safe


def test_a_header_is_made_safe_too() -> None:
    assert list(csv_lines(["=1"], [])) == ["'=1\r\n"]
    assert list(csv_lines(["=1"], [], raw=True)) == ["=1\r\n"]


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (-1.5, "-1.5"),
        (-3, "-3"),
        (2**63, "9223372036854775808"),
        (1e300, "1e+300"),
        (True, "true"),
        (False, "false"),
        (None, ""),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
    ],
)
def test_a_number_stays_a_number(number: Value, written: str) -> None:
    assert field(number) == field(number, raw=True) == written


def test_minus_infinity_is_no_number_to_a_spreadsheet() -> None:
    assert (field(-math.inf), field(-math.inf, raw=True)) == ("'-Infinity", "-Infinity")


@pytest.mark.parametrize("text", AS_THEY_ARE)
def test_raw_leaves_a_text_as_it_is(text: str) -> None:
    assert field(text, raw=True) == text


@given(st.lists(HOSTILE_ALPHABET).map("".join))
def test_raw_loses_nothing_but_half_characters(text: str) -> None:
    assert field(text, raw=True) == re.sub("[\ud800-\udfff]", lambda half: visible(half[0]), text)


@given(st.lists(st.one_of(HOSTILE_ALPHABET, st.sampled_from(FORMULA + ";\t\r\n "))).map("".join))
def test_no_spreadsheet_finds_a_formula_whatever_separates_its_cells(text: str) -> None:
    (line,) = list(csv_lines(["a", "b"], [["first", text]]))[1:]
    assert not re.match(rf"\s*[{re.escape(FORMULA)}]", field(text))
    # A spreadsheet that knows no comma sees cells between semicolons and line breaks, and no quotes but those in front.
    for cell in re.split("[;\t\r\n]", line):
        assert not cell.strip(' "').startswith(tuple(FORMULA))
    harmless = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", lambda c: visible(c[0]), text)
    assert re.sub("'", "", field(text)) == harmless.replace("'", "")


@pytest.mark.parametrize("text", ['x;"=1+1;y', 'x; "=1+1', 'x;""=cmd|x', 'a\n"@SUM(1)', 'a;\t" -1'])
def test_a_quotation_mark_hides_no_formula_where_the_semicolon_separates(text: str) -> None:
    content = "".join(csv_lines(["a", "b"], [["one", text], [text, "two"]]))
    cells = [cell for row in csv.reader(io.StringIO(content), delimiter=";") for cell in row]
    assert any("'" in cell for cell in cells)
    assert not [cell for cell in cells if cell.lstrip().startswith(("=", "+", "-", "@"))]
