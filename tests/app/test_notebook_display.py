"""What a notebook shows: the figures of a page, in a piece that is inert and keeps to itself."""

from __future__ import annotations

import re
from typing import Any

import pytest

import faircount
from faircount.app import HOSTILE_RESPONSES
from faircount.app.notebook import SCOPE, fragment
from faircount.core import visible
from faircount.report import Report
from tests.conftest import Cli, Write, analysis_of, some, standard
from tests.report.test_html import TEXTS, Page, full_report, tamed
from tests.report.test_present import HOSTILE, harmless, hostile_report

FORMULA = r"$\href{javascript:alert(1)}{click}$ \(x\) $$y$$"
INERT = {"script", "link", "img", "iframe", "object", "embed", "form", "base", "use", "image", "a", "meta"}


@pytest.fixture(params=["written by hand", "from hostile rows"])
def report(request: pytest.FixtureRequest, write: Write) -> Report:
    return full_report(*TEXTS, FORMULA) if request.param == "written by hand" else hostile_report(write)


def test_the_shape_does_not_depend_on_what_records_hold(report: Report) -> None:
    assert Page(fragment(report)).shape() == Page(fragment(tamed(report))).shape()


def test_nothing_can_run_load_or_lead_away(report: Report) -> None:
    page = Page(fragment(report))
    assert not page.other
    assert not INERT & {*page.elements}
    for tag, name, value in page.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name not in ("style", "src", "srcset", "href", "xlink:href", "action", "ping"), (tag, name)
        assert "://" not in value or (name, value) == ("xmlns", "http://www.w3.org/2000/svg")
    assert len(page.styles) == 1
    assert not re.search(r"url\(|@import|expression", page.styles[0])


def test_every_hostile_text_can_be_read(write: Write) -> None:
    for report, texts in ((full_report(*TEXTS), TEXTS), (hostile_report(write), HOSTILE)):
        shown = Page(fragment(report)).text
        assert all(visible(text) in shown for text in texts)
        assert harmless(shown)


def test_two_of_them_cannot_disturb_each_other_or_the_notebook(report: Report) -> None:
    page = Page(fragment(report))
    assert page.values("id") == page.values("aria-labelledby") == page.values("name") == []
    selectors = re.sub(r"/\*.*?\*/|\{[^}]*\}", ",", page.styles[0]).split(",")
    assert {selector.strip().partition(" ")[0] for selector in selectors} - {""} == {f".{SCOPE}", f".{SCOPE}.{SCOPE}"}


def test_no_notebook_takes_a_text_for_a_formula() -> None:
    assert {SCOPE, "tex2jax_ignore", "mathjax_ignore"} == {*Page(fragment(full_report("x"))).values("class")[0].split()}


def test_colours_are_tints_over_those_of_the_notebook(report: Report) -> None:
    css = Page(fragment(report)).styles[0]
    for declaration in some(re.findall(r"(?<![-\w])(?:color|background): ([^;}]*)", css)):
        assert declaration in ("inherit", "none") or re.fullmatch(r"rgba\(.*, 0\.1\d?\)", declaration), declaration


# --- a summary ------------------------------------------------------------------------------------------------------


def summary_of(path: str, **options: Any) -> faircount.Summary:
    return faircount.read(path).summary(**options)


def test_a_summary_is_the_analysis_and_shows_it(write: Write) -> None:
    path = write([standard(n, success=n % 2 == 0, plugin="ab"[n % 2]) for n in range(1, 11)])
    summary = summary_of(path)
    analysis = analysis_of(path, figures=True)
    assert summary.analysis == analysis
    assert {name: getattr(summary, name) for name in analysis.__struct_fields__} == {
        name: getattr(analysis, name) for name in analysis.__struct_fields__
    }
    shown = Page(summary._repr_html_()).text
    assert "50.0%" in shown
    assert "Breakdown by plugin" in shown


def test_text_is_what_the_command_line_prints(write: Write, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    path = write([standard(n, success=n % 3 == 0, lang=("en", "fr")[n % 2]) for n in range(1, 11)])
    printed = cli("results", "analyze", path).out.strip("\n").splitlines()
    overview = cli("results", "analyze", path, "--overview").out.strip("\n").splitlines()
    summary = summary_of(path)
    assert str(summary).splitlines() == printed
    assert repr(summary).splitlines() == overview
    assert len(overview) < len(printed)


def test_a_notebook_is_offered_both(write: Write) -> None:
    summary = summary_of(write([standard(1)]))
    bundle = summary._repr_mimebundle_(include=None, exclude=None)
    assert bundle == {"text/html": summary._repr_html_(), "text/plain": repr(summary)}


def test_figures_are_drawn_unless_they_are_not_wanted(write: Write) -> None:
    path = write([standard(n, plugin="x") for n in range(1, 4)])
    assert "<svg" in summary_of(path)._repr_html_()
    assert "<svg" not in summary_of(path, figures=False)._repr_html_()


def test_hostile_evidence_stays_text(write: Write) -> None:
    rows = [standard(n, success=True, response=text, lang=text) for n, text in enumerate(HOSTILE_RESPONSES, start=1)]
    summary = summary_of(write(rows), evidence=10)
    shape = Page(summary._repr_html_())
    assert not INERT & {*shape.elements}
    for text in HOSTILE_RESPONSES:
        assert visible(text) in shape.text
    assert harmless(str(summary))
    assert harmless(repr(summary))


# --- results --------------------------------------------------------------------------------------------------------


def test_results_say_which_rows_they_are(write: Write) -> None:
    hostile = 'response contains "<script>alert(1)</script>\x1b[2J"'
    results = faircount.read(write([standard(1)], "results_<b>.jsonl")).where(hostile)
    page = Page(results._repr_html_())
    assert "results_<b>.jsonl" in page.text
    assert visible(hostile) in page.text
    assert not INERT & {*page.elements}
    assert "b" not in page.elements
    assert visible(hostile) in repr(results)
    assert harmless(repr(results))


def test_many_files_are_not_all_listed(write: Write) -> None:
    files = [write([standard(1)], f"results_{number:02d}.jsonl") for number in range(13)]
    results = faircount.read(*files)
    assert "Results of 13 files" in Page(results._repr_html_()).text
    assert "And 3 other files." in Page(results._repr_html_()).text
    assert repr(results).endswith("and 12 other files>")
