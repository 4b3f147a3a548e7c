"""What people see: readable at any width, safe whatever the records hold, the same figures in every format."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from faircount import AnalyzeOptions, analyze, as_report
from faircount.app import HOSTILE_RESPONSES
from faircount.core import Estimate, cell_width, visible
from faircount.report import (
    Column,
    Grid,
    Place,
    Record,
    Records,
    Report,
    Seconds,
    Section,
    console,
    documents,
    formats,
    number_column,
    table,
    text_column,
)
from tests.conftest import Write, attack, standard

HOSTILE = (
    *HOSTILE_RESPONSES,
    "\x1b]8;;http://evil.invalid\x07link\x1b]8;;\x07",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x9b2J\x90q\x9c",
    "[red]markup[/red] :smile: [link=http://evil.invalid]x[/link]",
    "a\rb\x08\x0bc",
    "\u202e\u2066\u200f\u200b\ufeff",
    "x" * 500,
)


def hostile_rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for i, text in enumerate(HOSTILE):
        rows.append(standard(f"{i}{text}", success=True, response=text, plugin=text, jailbreak_type=text, lang=text))
        rows.append(standard(f"e{i}", error=text, plugin="other", **{text: text}))
        rows.append(standard(f"g{i}", error=text, guardrail=True, guardrail_categories={text: True}, plugin=None))
        rows.append(attack(f"e{i}", name=text, attempt_history=[{"success": None, "error": text}]))
        rows.append(standard(f"w{i}", success=text))
    return rows


def hostile_report(write: Write, **options: Any) -> Report:
    return as_report(analyze(write(hostile_rows()), options=AnalyzeOptions(**options)).analyses)


def harmless(text: str) -> bool:
    allowed = {"\n"}
    return not [c for c in text if c not in allowed and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_record_text_acts_on_a_terminal(write: Write, width: int) -> None:
    text = console.render(hostile_report(write), width=width)
    assert harmless(text)
    assert "[red]markup[/red]" in text.replace("\n", "")


def test_colour_codes_are_ours_alone(write: Write) -> None:
    text = console.render(hostile_report(write), width=100, colour=True)
    assert "\x1b[" in text
    assert harmless(re.sub(r"\x1b\[[0-9;]*m", "", text))


def test_json_is_pure_ascii_and_keeps_the_text(write: Write) -> None:
    text = documents.as_json(hostile_report(write))
    assert text.isascii()
    assert harmless(text)
    values = {group["value"] for group in json.loads(text)["analyses"][0]["breakdowns"]["plugin"]}
    assert set(HOSTILE) <= values


@given(st.text(st.sampled_from('a\\\\ud8"#é😀\ud800\udbff\udc00')))
def test_json_has_no_lone_surrogates_that_parsers_refuse(text: str) -> None:
    # Two halves beside each other read as one character, in JSON too.
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert msgspec.json.decode(documents.as_json(Report((), {"text": text}))) == {"text": joined}


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_a_report_fits_its_width(write: Write, width: int) -> None:
    text = console.render(hostile_report(write), width=width)
    lines = [line for line in text.splitlines() if not line.startswith("Analysis of")]
    assert max(cell_len(line) for line in lines) <= width


def test_columns_are_given_up_by_name_where_room_is_short(write: Write) -> None:
    rows = [standard(i, plugin=f"p{i % 2}", success=i % 3 == 0) for i in range(40)] + [attack(1, attempts=3)]
    report = as_report(analyze(write(rows)).analyses)
    narrow, wide = console.render(report, width=60), console.render(report, width=200)
    assert "Not shown for lack of width: " in narrow
    assert "Not shown" not in wide
    assert "Attempts" in wide


@given(st.text(max_size=60).map(visible), st.integers(1, 30))
def test_folding_loses_nothing_and_fits(text: str, width: int) -> None:
    lines = console.fold(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(cell_len(line) <= max(width, 2) or not line.strip() for line in lines)


def test_wide_letters_take_two_cells() -> None:
    assert [cell_width(text) for text in ("abc", "运行", "e\u0301", "")] == [3, 4, 1, 0]


def test_findings_come_first(write: Write) -> None:
    text = console.render(as_report(analyze(write([standard(1, success="yes")])).analyses), width=100)
    assert text.index("F003") < text.index("General")


def test_a_field_with_one_value_is_left_out_unless_asked_for(write: Write) -> None:
    path = write([standard(1, lang="en"), standard(2, lang="en")])
    plain = console.render(as_report(analyze(path).analyses))
    asked = console.render(as_report(analyze(path, by=("lang",)).analyses))
    assert "Breakdown by language" not in plain
    assert "Breakdown by language" in asked


def test_the_overview_is_the_general_part_alone(write: Write) -> None:
    path = write([standard(1, lang="en", error="x"), standard(2, lang="de"), attack(2)])
    text = console.render(as_report(analyze(path).analyses, overview=True))
    assert "General" in text
    assert "Dynamic attacks" in text
    assert "Breakdown" not in text
    assert "Errors by kind" not in text


def test_the_report_ends_with_what_the_numbers_cannot_tell(write: Write) -> None:
    text = console.render(as_report(analyze(write([standard(1)])).analyses))
    ending = text[text.index("\nLimits of these numbers\n") :]
    assert "hold for this dataset" in ending
    assert "ignore severity" in ending


def test_the_judged_rate_stands_beside_only_where_it_differs(write: Write) -> None:
    same = console.render(as_report(analyze(write([standard(1), standard(2)])).analyses))
    differs = console.render(as_report(analyze(write([standard(1), standard(2, error="x")])).analyses))
    assert "judged entries" not in same
    assert "of 1 judged entry" in differs


def test_undefined_is_a_word_not_a_zero(write: Write) -> None:
    text = console.render(as_report(analyze(write([])).analyses))
    assert "undefined" in text
    assert "0.0%" not in text


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (None, "?"),
        (1234567, "1,234,567"),
        ("ours", "ours"),
        (Record(None), "(none)"),
        (Record("a\nb"), "a\\nb"),
        (Records(("a", None)), "a · (none)"),
        (Place("/x/y.jsonl:3"), "/x/y.jsonl:3"),
        (Seconds(0.0123), "12.3 ms"),
        (Seconds(2.5), "2.5 s"),
        (Seconds(12345.0), "12,345 s"),
        (Estimate(0.2956, 0.265, 0.328, 812, "entry", 0.95, "wilson"), "29.6% [26.5, 32.8]"),
        (Estimate(None, None, None, 0, "entry", 0.95, "wilson"), "undefined"),
        (Estimate(0.5, None, None, 2, "entry", 0.95, "share"), "50.0%"),
    ],
)
def test_cells_are_written_alike_everywhere(cell: Any, shown: str) -> None:
    assert formats.cell(cell) == shown


def test_the_width_is_the_environments_the_terminals_or_one_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "77")
    assert console.terminal_width(True) == 77
    monkeypatch.setenv("COLUMNS", "wide")
    assert console.terminal_width(False) == console.PLAIN_WIDTH


def test_right_to_left_letters_do_not_turn_the_figures_beside_them() -> None:
    hebrew = "\u05e2\u05d1\u05e8\u05d9\u05ea"
    columns = (Column("Value", numeric=False), Column("Total"))
    grid = Grid(columns, ((Record(hebrew), 20), (Record("caf\u00e9"), 2)))
    lines = console.render(Report((Section("Groups", (grid,)),))).splitlines()
    assert next(line for line in lines if hebrew in line).split("\u200e") == ["  ", hebrew, "     20"]
    assert not any("\u200e" in line for line in lines if hebrew not in line)


def test_a_column_that_is_left_out_of_a_table_has_no_cells() -> None:
    grid = table(
        [("a", 1), ("b", 2)],
        text_column("Name", lambda row: row[0]),
        number_column("Twice", lambda row: 2 * row[1], rank=1, note="Twice: two times.", when=True),
        number_column("Never", lambda row: row[1] // 0, when=False),
        marked=lambda row: row[1] > 1,
        note="All of them.",
    )
    columns = (Column("Name", numeric=False), Column("Twice", rank=1, note="Twice: two times."))
    assert grid == Grid(columns, (("a", 2), ("b", 4)), frozenset({1}), "All of them.")
