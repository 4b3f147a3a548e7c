"""The HTML report: complete, readable by everybody, and inert whatever the records hold."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from faircount import analyze, as_report
from faircount.core import Estimate, Finding, Passage, Severity, visible
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
    Report,
    Section,
    html,
    markup,
)
from faircount.report import (
    svg as figure,
)
from faircount.report.source_labels import source_labels
from tests.conftest import Write, standard
from tests.report.test_present import HOSTILE, harmless, hostile_report

BREAKOUTS = (
    '"><script>document.title="ran"</script>',
    "' onmouseover='document.title=1' x='",
    "</style><script>document.title='ran'</script><style>",
    "</title></head><body onload=document.title='ran'>",
    "</pre></details></main><iframe src=javascript:alert(1)></iframe>",
    "<svg/onload=document.title='ran'><use href='https://attacker.invalid/x.svg#a'/>",
    "<!-- unfinished",
    "]]><![CDATA[ <a href=javascript:alert(1)>click</a>",
    "&lt;script&gt; &amp;#60; &#x3c;",
    '<meta http-equiv="refresh" content="0;url=https://attacker.invalid/"><base href="https://attacker.invalid/">',
    "<style>@import url(https://attacker.invalid/x.css)</style>",
    "<textarea><plaintext><template><noscript>",
    "\ud800 lone \x00 nul",
)
TEXTS = (*HOSTILE, *BREAKOUTS)
UNCLOSED = {"meta", "br", "wbr"}


def estimate(value: float | None, n: int, half: float = 0.05) -> Estimate:
    if value is None:
        return Estimate(None, None, None, n, "entry", 0.95, "wilson")
    return Estimate(value, max(value - half, 0), min(value + half, 1), n, "entry", 0.95, "wilson")


def bars(*labels: str | None, value: float = 0.4) -> Bars:
    made = tuple(Bar(Record(label), estimate(value, 54), small=index == 1) for index, label in enumerate(labels))
    return Bars("Rate by plugin", (*made, Bar("never judged", estimate(None, 0))), estimate(value + 0.0123, 1234))


def heat_map(*labels: str, value: float = 0.4) -> HeatMap:
    records = tuple(map(Record, labels))
    cells = tuple(
        tuple(None if (row + column) % 5 == 4 else estimate(value, 10 + row) for column in range(len(labels)))
        for row in range(len(labels))
    )
    return HeatMap("Rate by plugin and language", "plugin", "language", records, records, cells)


def evidence(*texts: str) -> Evidence:
    exhibits = [
        Exhibit(Record(t), Place(t), (("judge", Record(t)),), (("prompt", Passage(t)), ("response", Passage(t, 1, 3))))
        for t in texts
    ]
    return Evidence(tuple(exhibits), 130, "successful attacks")


def full_report(*texts: str) -> Report:
    """Return a report with every block, each text in every place that a record can reach."""
    labels = [Label(label) for label in source_labels([f"/folder/{t.replace('/', '_')}" for t in texts])]
    columns = (
        Column("Value", numeric=False),
        Column("Total"),
        Column("Rate", note="Rate: a share."),
        Column("Interval", rank=1),
        Column("All", numeric=False),
        Column("File", numeric=False),
    )
    rows = tuple(
        (Record(t), 7, estimate(0.25, 7), Interval(estimate(0.25, 7)), Records((t, None)), label)
        for t, label in zip(texts, labels, strict=True)
    )
    places = tuple(texts)
    return Report(
        (
            Section(
                "Analysis of",
                (Findings((Finding("F001", Severity.ERROR, 99, "torn", places),)),),
                level=1,
                subject=Place(texts[0]),
            ),
            Section("General", (Facts((Fact("Successful attacks", 130, estimate(0.4815, 270), "of 270 entries"),)),)),
            *[
                Section("Breakdown by", (Grid(columns, rows, frozenset([0]), "A note."),), subject=Record(t))
                for t in texts
            ],
            *[Section("Files", (Lead((f"From 1% ({t.text}) to 2%.",)),), subject=t) for t in labels],
            Section("Figures", (bars(*texts), heat_map(*texts))),
            Section("Evidence", (evidence(*texts),)),
            Section("Limits", (Paragraph("These numbers hold for this dataset."),)),
        )
    )


def tamed(part: Any) -> Any:
    """Return the same report with a plain word wherever a record's text stood."""
    if isinstance(part, Place | Label):
        return type(part)("plain")
    if isinstance(part, Lead):
        return replace(part, paragraphs=("plain",) * len(part.paragraphs))
    if isinstance(part, Passage):
        return replace(part, text=part.text and "plain")
    if isinstance(part, Record):
        return Record(None if part.text is None else "plain")
    if isinstance(part, Records):
        return Records(tuple(None if text is None else "plain" for text in part.texts))
    if isinstance(part, Finding):
        return replace(part, message="plain", where=tuple("plain" for _ in part.where))
    if isinstance(part, tuple):
        return tuple(tamed(item) for item in part)
    if isinstance(part, Struct):
        return replace(part, **{name: tamed(getattr(part, name)) for name in part.__struct_fields__})
    return part


class Page(HTMLParser):
    """A document taken apart: its elements, attributes and visible text; complains about unbalanced tags."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.styles: list[str] = []
        self.other: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in UNCLOSED:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.styles if self._open[-1:] == ["style"] else self.words).append(data)

    def handle_comment(self, data: str) -> None:
        self.other.append(data)

    def unknown_decl(self, data: str) -> None:
        self.other.append(data)

    def handle_pi(self, data: str) -> None:
        self.other.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def shape(self) -> Counter[str]:
        """Return how often each element and attribute occurs; where a name may break has no effect."""
        elements = [element for element in self.elements if element != "wbr"]
        return Counter([*elements, *(f"{tag} {name}" for tag, name, _ in self.attributes)])

    def values(self, name: str) -> list[str]:
        return [value for _, found, value in self.attributes if found == name]


@pytest.fixture(params=["written by hand", "from hostile rows"])
def report(request: pytest.FixtureRequest, write: Write) -> Report:
    return full_report(*TEXTS) if request.param == "written by hand" else hostile_report(write)


# --- nothing gets out -----------------------------------------------------------------------------------------------


def test_the_shape_of_the_page_does_not_depend_on_what_records_hold(report: Report) -> None:
    assert Page(html.render(report)).shape() == Page(html.render(tamed(report))).shape()


@pytest.mark.parametrize("text", TEXTS)
def test_each_text_alone_leaves_the_shape_as_it_is(text: str) -> None:
    assert Page(html.render(full_report(text))).shape() == Page(html.render(full_report("plain"))).shape()


def test_every_hostile_text_can_be_read(write: Write) -> None:
    for report, texts in ((full_report(*TEXTS), TEXTS), (hostile_report(write), HOSTILE)):
        shown = Page(html.render(report)).text
        for text in texts:
            assert visible(text) in shown
        assert harmless(shown)


def test_nothing_can_run_or_load(report: Report) -> None:
    text = html.render(report)
    page = Page(text)
    assert "<script" not in text.lower()
    assert not page.other
    assert not {"script", "link", "img", "iframe", "object", "embed", "form", "base", "use", "image"} & {*page.elements}
    for tag, name, value in page.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name not in ("style", "src", "srcset", "action", "formaction", "xlink:href", "ping"), (tag, name)
        assert "javascript:" not in value.lower()
        assert "://" not in value or (name, value) == ("xmlns", "http://www.w3.org/2000/svg")
        assert "url(" not in value
    assert "url(" not in page.styles[0]
    assert "@import" not in page.styles[0]


def test_no_text_of_a_record_gets_into_an_attribute() -> None:
    marked = [value for _, _, value in Page(html.render(full_report("MARKED"))).attributes if "MARKED" in value]
    assert marked == []


@pytest.mark.parametrize("times", [1, 2])
def test_links_stay_on_the_page_and_lead_somewhere(report: Report, times: int) -> None:
    page = Page(html.render(Report(report.sections * times)))
    names = page.values("id")
    assert len(names) == len(set(names))
    assert page.values("href")
    assert {href.removeprefix("#") for href in page.values("href")} <= set(names)
    assert set(page.values("aria-labelledby")) <= set(names)


def test_the_policy_comes_first_and_allows_our_style_alone(report: Report) -> None:
    text = html.render(report)
    page = Page(text)
    assert text.startswith('<!doctype html>\n<html lang="en"><head><meta http-equiv="Content-Security-Policy"')
    (style,) = page.styles
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = dict(part.strip().split(" ", 1) for part in page.values("content")[0].split(";"))
    assert policy == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest}'",
        "script-src": "'none'",
        "img-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert text.index("charset") < 1024


def test_markup_is_made_in_one_place_that_refuses_what_acts() -> None:
    assert markup.tag("p", "<b>", title='"&').text == '<p title="&quot;&amp;">&lt;b&gt;</p>'
    assert markup.tag("p", markup.tag("b", "x"), None, hidden=True, id=None).text == "<p hidden><b>x</b></p>"
    for name, value in (("onclick", "x"), ("style", "x"), ("src", "x"), ("href", "https://x.invalid"), ("href", "")):
        with pytest.raises(ValueError, match="never has the attribute"):
            markup.tag("a", "x", **{name: value})


def test_our_files_are_known_by_their_beginning() -> None:
    ours = html.render(full_report("x"))
    assert html.is_ours(ours)
    assert html.is_ours(re.sub(r"Faircount \d[^\"]*", "Faircount 99.0", ours, count=1))
    marker = '<meta name="generator" content="Faircount 0.1.0">'
    assert not html.is_ours("")
    assert not html.is_ours(marker)
    assert not html.is_ours('<!doctype html>\n<html lang="en"><head><title>mine</title>' + " " * 5000 + marker)
    assert not html.is_ours(ours.replace("Faircount ", "Other ", 1))
    assert not html.is_ours(f"<p>{ours}</p>")


# --- what people read -----------------------------------------------------------------------------------------------


def test_findings_come_before_the_headline_and_the_headline_before_the_facts() -> None:
    text = Page(html.render(full_report("x"))).text
    assert text.index("F001") < text.index("48.1%") < text.index("General", text.index("48.1%"))
    assert "95% interval 43.1–53.1% · 130 of 270 entries" in text


def test_a_lead_comes_first_with_its_figures_large(write: Write) -> None:
    rows = [standard(i, success=i < 2) for i in range(40)]
    report = as_report(analyze(write([*rows, "torn {"])).analyses)
    page = Page(html.render(report))
    assert page.text.index("5%") < page.text.index("of 40 attacks succeeded (95% interval") < page.text.index("F001")
    assert page.text.index("F001") < page.text.index("General", page.text.index("F001"))
    assert page.values("class").count("headline-rate") == 1
    figures = tuple(Fact(name, 1, estimate(value, 9), "of 9") for name, value in (("Recall", 0.75), ("FPR", None)))
    told = Page(html.render(Report((Section("Guardrail", (Lead(("One.", "Two."), figures),), level=1),)))).text
    assert "Recall75%95% interval 70–80% · 1 of 9FPRundefined1 of 9One.Two." in told


def test_a_page_is_titled_by_its_first_part(write: Write) -> None:
    paths = [write([standard(i)], f"results_{name}.jsonl") for i, name in enumerate(("one", "two"))]
    text = html.render(as_report(analyze(*paths).analyses))
    assert "<title>Analysis of 2 files – Faircount</title>" in text and ">Analysis of 2 files</h1>" in text
    assert "<title>Analysis of one – Faircount</title>" in html.render(as_report(analyze(*paths[:1]).analyses))


def test_severity_is_a_word() -> None:
    items = tuple(Finding(f"F00{i}", severity, 1, "m") for i, severity in enumerate(Severity))
    text = Page(html.render(Report((Section("Analysis of", (Findings(items),), level=1),)))).text
    assert "error F000" in text
    assert "warning F001" in text
    assert "info F002" in text


def test_headings_descend_without_gaps(report: Report) -> None:
    one = [int(name[1]) for name in Page(html.render(report)).elements if re.fullmatch(r"h[1-6]", name)]
    two = [
        int(name[1])
        for name in Page(html.render(Report(report.sections * 2))).elements
        if re.fullmatch(r"h[1-6]", name)
    ]
    for ranks in (one, two):
        assert ranks.count(1) == 1
        assert ranks[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(ranks))


def test_contents_are_listed_where_there_is_much_to_find() -> None:
    short = Report((Section("Analysis of", (), level=1, subject=Place("a")), Section("General", ())))
    assert "nav" not in Page(html.render(short)).elements
    assert "nav" in Page(html.render(Report(short.sections * 2))).elements
    assert Page(html.render(Report(short.sections * 2))).text.startswith("\nAnalysis of a – Faircount")
    assert "nav" in Page(html.render(full_report("a", "b"))).elements
    assert "There is nothing to report." in Page(html.render(Report(()))).text


def test_tables_have_captions_heads_and_a_way_to_scroll(report: Report) -> None:
    page = Page(html.render(report))
    count = Counter(page.elements)
    assert count["table"] == count["caption"] == count["thead"] == count["tbody"] > 0
    assert set(page.values("scope")) == {"col", "row"}
    scrolling = [name for tag, name, value in page.attributes if tag == "div" and (name, value) == ("class", "scroll")]
    assert len(scrolling) >= count["table"]
    assert page.values("lang") == ["en"]
    assert {"main", "header", "footer", "nav"} <= set(page.elements)


def test_undefined_is_a_word_not_a_zero(write: Write) -> None:
    text = Page(html.render(as_report(analyze(write([])).analyses))).text
    assert "undefined" in text
    assert "0.0%" not in text


def test_small_groups_bear_a_star_that_is_explained() -> None:
    page = Page(html.render(full_report("first", "second")))
    assert "first\N{NO-BREAK SPACE}*" in page.text
    assert "* a small group: read the interval, not the rate" in page.text


def test_line_breaks_of_evidence_are_kept_and_marked() -> None:
    report = Report((Section("Evidence", (evidence("one\r\ntwo\n\n\tthree\u202e"),)),))
    assert "one\\r↵\ntwo↵\n↵\n\\tthree\\u202e" in Page(html.render(report)).text
    said = (("prompt", Passage("")), ("response", Passage(None)))
    empty = Exhibit(Record("1"), Place("f:1"), (), said)
    text = Page(html.render(Report((Section("Evidence", (Evidence((empty,), 1, "entries"),)),)))).text
    assert "Prompt(empty)Response(none)" in text


def test_the_part_that_matters_is_marked_and_nothing_else() -> None:
    text = "ignore <all>\nbefore & say \u202e it"
    begin, end = text.index("<all>"), text.index("& say") + len("& say")
    shown = Exhibit(Record("1"), Place("f:1"), (), (("prompt", Passage(text, begin, end)), ("answer", Passage("no"))))
    page = html.render(Report((Section("Evidence", (Evidence((shown,), 1, "entries"),)),)))
    assert re.findall(r"<mark>(.*?)</mark>", page, re.DOTALL) == ["&lt;all&gt;↵\nbefore &amp; say"]
    assert "ignore &lt;all&gt;↵\nbefore &amp; say \\u202e it" in page.replace("<mark>", "").replace("</mark>", "")
    assert "the part that matters is highlighted." in page
    plain = Exhibit(Record("1"), Place("f:1"), (), (("prompt", Passage(text)),))
    without = html.render(Report((Section("Evidence", (Evidence((plain,), 1, "entries"),)),)))
    assert "<mark>" not in without and "highlighted" not in without


def test_what_is_known_of_an_exhibit_stands_before_what_was_said() -> None:
    known = (("strategy", Record("goat")), ("judge", Record("canary")))
    shown = Exhibit(Record("entry 1"), Place("line 7"), known, (("prompt", Passage("do it")),))
    text = Page(html.render(Report((Section("Evidence", (Evidence((shown,), 9, "attacks"),)),)))).text
    assert "1 of 9 attacks. ↵ marks a line break in the text." in text
    assert "entry 1 line 7StrategygoatJudgecanaryPromptdo it" in text


def test_a_column_is_explained_before_the_table() -> None:
    grid = Grid(
        (Column("Value", numeric=False), Column("Rate", note="Rate: a share.")), ((Record("a"), 1),), note="So."
    )
    assert "Rate: a share. So." in Page(html.render(Report((Section("Part", (grid,)),)))).text


def test_a_name_may_break_after_its_separators_only() -> None:
    page = html.render(Report((Section("Analysis of", (), level=1, subject=Label("az_gpt4o-sys prompt")),)))
    assert "az_<wbr>gpt4o-<wbr>sys prompt<wbr>" in page


def test_a_finding_shows_some_places_and_keeps_the_others_at_hand() -> None:
    for places, shown in ((5, "at f:0, f:1, f:22 more placesf:3, f:4, …"), (4, "at f:0, f:1, f:21 more placef:3, …")):
        item = Finding("F001", Severity.ERROR, 50, "torn", tuple(f"f:{i}" for i in range(places)))
        text = Page(html.render(Report((Section("Analysis of", (Findings((item,)),), level=1),)))).text
        assert shown in text


# --- figures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drawing", [figure.bars_svg(bars(*TEXTS)), figure.heat_map_svg(heat_map(*TEXTS))])
def test_a_figure_tells_hostile_labels_visibly(drawing: str) -> None:
    assert visible(HOSTILE[1]) in (ET.fromstring(drawing)[1].text or "")


@pytest.mark.parametrize(
    "drawing",
    [
        figure.bars_svg(bars(*TEXTS)),
        figure.heat_map_svg(heat_map(*TEXTS)),
        figure.interval_svg(estimate(0.4, 54)),
        figure.bars_svg(Bars("t", (Bar(Record("a"), estimate(0.4, 54), shrunk=estimate(0.3, 54)),))),
    ],
)
def test_a_figure_stands_alone_and_says_what_it_shows(drawing: str) -> None:
    root = ET.fromstring(drawing)
    name = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{name}svg"
    assert root.get("role") == "img"
    assert [child.tag for child in root][:2] == [f"{name}title", f"{name}desc"]
    assert "40.0% [35.0, 45.0]" in (root[1].text or "")
    assert not root.findall(f".//{name}style")
    for element in root.iter():
        assert "id" not in element.attrib
        colours = [element.get("fill", "none"), element.get("stroke", "none")]
        assert all(colour == "none" or re.fullmatch(r"var\(--fc-[a-z0-9-]+, .+\)", colour) for colour in colours)


def drawn(svg: str) -> str:
    return " ".join(text for text in ET.fromstring(svg).itertext())


def test_bars_carry_their_numbers() -> None:
    text = drawn(figure.bars_svg(bars("a", "b", None)))
    assert "40.0% [35.0, 45.0] · n = 54" in text
    assert "overall 41.2% [36.2, 46.2] · n = 1,234" in text
    assert "undefined · n = 0" in text
    assert "95% interval" in text
    assert "b *" in text
    assert "small group" in text
    assert "(none)" in text


def test_the_shrunken_rate_is_a_diamond_on_the_bar_of_the_raw_one() -> None:
    made = Bars(
        "t", (Bar(Record("a"), estimate(0.4, 54), shrunk=estimate(0.3, 54)), Bar(Record("b"), estimate(0.6, 9)))
    )
    root = ET.fromstring(figure.bars_svg(made))
    assert (root[1].text or "").startswith("a: 40.0% [35.0, 45.0], n = 54, shrunken 30.0%. b: 60% [55, 65], n = 9.")
    inner = [element for element in root.iter() if element.tag.endswith("svg") and element is not root]
    assert [element.get("x") for element in inner] == ["30.00%"]
    assert sum("shrunken rate" in text for text in root.itertext()) == 1
    without = drawn(figure.bars_svg(Bars("t", (Bar(Record("a"), estimate(0.4, 54)),))))
    assert "shrunken" not in without


def places(svg: str, name: str) -> list[str | None]:
    return [element.get(name) for element in ET.fromstring(svg).iter() if element.get(name)]


@pytest.mark.parametrize("value", [0.0, 0.25, 0.5, 1.0])
def test_a_drawn_interval_lies_where_its_numbers_do(value: float) -> None:
    svg = figure.interval_svg(Estimate(value, value / 2, (1 + value) / 2, 40, "entry", 0.95, "wilson"))
    assert places(svg, "cx") == [f"{100 * value:.2f}%"]
    assert (places(svg, "x1")[0], places(svg, "x2")[0]) == (f"{50 * value:.2f}%", f"{50 + 50 * value:.2f}%")
    nothing = figure.interval_svg(estimate(None, 0))
    assert places(nothing, "cx") == [] and "undefined, n = 0." in drawn(nothing)


def test_a_scale_that_ends_early_says_so() -> None:
    for make in (lambda value: figure.bars_svg(bars("a", value=value)), _heat_map_of):
        assert "The scale ends at 20%, not at 100%." in drawn(make(0.1))
        assert "The scale ends" not in drawn(make(0.6))


def _heat_map_of(value: float) -> str:
    return figure.heat_map_svg(heat_map("a", "b", value=value))


def test_heat_maps_carry_their_numbers() -> None:
    cells = ((estimate(0.125, 16), None), (estimate(None, 0), estimate(1.0, 3)))
    made = HeatMap("t", "plugin", "language", (Record("p"), Record(None)), (Record("en"), Record("de")), cells)
    text = drawn(figure.heat_map_svg(made))
    for words in ("12.5%", "n = 16", "no entries", "undefined", "100.0%", "n = 3", "(none) × en", "plugin ↓"):
        assert words in text


def test_cells_of_few_entries_are_pale_and_the_legend_says_so() -> None:
    cells = ((estimate(0.5, 19), estimate(0.5, 20)),)
    made = HeatMap("t", "plugin", "language", (Record("p"),), (Record("en"), Record("de")), cells)
    svg = figure.heat_map_svg(made)
    assert places(svg, "fill-opacity") == ["0.25"]
    assert "rate, with n: the number of entries; pale: fewer than 20" in drawn(svg)
    pale = [element for element in ET.fromstring(svg).iter() if element.get("fill-opacity")]
    assert pale[0].get("fill") == figure._heat(figure.heat_step(0.5))
    # Text on a pale cell is in the ink of the page, which stands out from its paper.
    weights = [element for element in ET.fromstring(svg).iter() if element.get("y") == "21"]
    assert [(e.get("fill") == figure.INK, e.get("font-weight")) for e in weights] == [(True, None), (False, "600")]
    many = figure.heat_map_svg(replace(made, few=10))
    assert places(many, "fill-opacity") == [] and "pale" not in drawn(many)


def test_a_figure_without_rows_is_still_a_figure() -> None:
    for text in (figure.bars_svg(Bars("t", ())), figure.heat_map_svg(HeatMap("t", "r", "c", (), (), ()))):
        assert ET.fromstring(text).tag.endswith("svg")


def test_long_labels_are_cut_and_kept_in_full_beside() -> None:
    root = ET.fromstring(figure.bars_svg(Bars("t", (Bar(Record("x" * 500), estimate(0.5, 9)),))))
    labels = [element for element in root.iter() if element.get("class") in ("fc-short", "fc-long")]
    assert [len(label[0].tail or "") for label in labels] == [18, 44]
    assert {label[0].text for label in labels} == {"x" * 500}
    wide = ET.fromstring(figure.bars_svg(Bars("t", (Bar(Record("日" * 40), estimate(0.5, 9)),))))
    assert "日" * 8 + "…" in [element.tail for element in wide.iter()]


def colours(css: str) -> dict[str, str]:
    return dict(re.findall(r"(--[a-z0-9-]+): (#[0-9a-f]{6});", css))


def test_text_stands_out_from_its_ground_in_light_and_dark() -> None:
    css = resources.files("faircount.report").joinpath("report.css").read_text(encoding="utf-8")
    light_css, dark_css = css.split("prefers-color-scheme: dark", 1)
    light, dark = colours(light_css), colours(dark_css)
    for theme in (light, {**light, **dark}):
        for ink in ("--ink", "--muted", "--accent"):
            for ground in ("--paper", "--raised"):
                assert figure.contrast(theme[ink], theme[ground]) >= 4.5, (ink, ground)
        for level in ("error", "warning", "info"):
            for ink in (f"--{level}", "--ink", "--muted"):
                assert figure.contrast(theme[ink], theme[f"--{level}-paper"]) >= 4.5, (ink, level)
        assert figure.contrast(theme["--ink"], theme["--mark"]) >= 4.5
        for mark in ("--fc-bar", "--fc-overall"):
            assert figure.contrast(theme[mark], theme["--paper"]) >= 3, mark
        assert figure.contrast(theme["--ink"], theme["--fc-bar"]) >= 3
    for step in range(len(figure.HEAT_STEPS)):
        assert figure.contrast(dark[f"--fc-heat-{step}"], dark[f"--fc-heat-ink-{step}"]) >= 4.5, step
        fallback = re.search(r"ink-\d, (#[0-9a-f]{6})", figure._ink(step))
        assert fallback is not None
        assert figure.contrast(fallback[1], figure.HEAT_STEPS[step]) >= 4.5, step


def test_contrast_agrees_with_the_definition() -> None:
    assert figure.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert figure.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # the example known to fail AA


# --- in a browser ---------------------------------------------------------------------------------------------------

CHROMIUM = shutil.which("chromium")
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--enable-logging=stderr",
    "--v=0",
)
Load = Callable[..., tuple[str, list[str]]]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Open a document from disk; return the page that came of it and what the browser's console said."""

    def open_page(text: str, *flags: str) -> tuple[str, list[str]]:
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        command = [CHROMIUM or "", *FLAGS, profile, *flags, "--dump-dom", path.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True, timeout=120)
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    yield open_page


@in_browser
def test_a_browser_finds_the_same_page_and_nothing_to_complain_about(load: Load, report: Report) -> None:
    text = html.render(report)
    dom, console = load(text)
    assert console == []
    written, found = Page(text), Page(dom)
    assert found.shape() == written.shape()
    assert found.text.split() == written.text.split()
    assert "ran" not in re.findall(r"<title>([^<]*)</title>", dom)


@in_browser
def test_the_policy_would_stop_what_got_through(load: Load) -> None:
    smuggled = (
        "<script>document.title='ran'</script><svg onload=\"document.title='ran'\"></svg>"
        '<img src="x.png" onerror="document.title=\'ran\'"><p id="styled" style="color:red">x</p>'
    )
    text = html.render(full_report("plain")).replace("<main", f"{smuggled}<main")
    dom, console = load(text)
    assert "<title>ran</title>" not in dom
    assert any("Content Security Policy" in line for line in console)
    without, _ = load(re.sub(r"<meta http-equiv=[^>]*>", "", text))
    assert "<title>ran</title>" in without


MEASURE = """<!doctype html><title>?</title><iframe src="report.html" width="{width}" height="800"></iframe>
<script>onload = () => {{ const page = frames[0].document.documentElement;
document.title = page.scrollWidth + " of " + page.clientWidth }}</script>"""


@in_browser
@pytest.mark.parametrize("width", [320, 360, 800, 1400])
def test_the_page_is_never_wider_than_its_window(load: Load, tmp_path: Path, report: Report, width: int) -> None:
    opened = html.render(report).replace("<details", "<details open")
    (tmp_path / "report.html").write_text(opened, encoding="utf-8")
    dom, _ = load(MEASURE.format(width=width), "--allow-file-access-from-files", "--hide-scrollbars")
    (measured,) = re.findall(r"<title>(\d+) of (\d+)</title>", dom)
    assert measured == (str(width), str(width))


@in_browser
def test_what_is_folded_on_screen_is_unfolded_on_paper(tmp_path: Path) -> None:
    if shutil.which("pdftotext") is None:
        pytest.skip("pdftotext is not installed")
    page, paper = tmp_path / "page.html", tmp_path / "page.pdf"
    page.write_text(html.render(full_report("a text to find")), encoding="utf-8")
    flags = [*FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={paper}", "--no-pdf-header-footer"]
    subprocess.run([CHROMIUM or "", *flags, page.as_uri()], capture_output=True, check=True, timeout=120)
    text = subprocess.run(["pdftotext", str(paper), "-"], capture_output=True, text=True, check=True).stdout
    assert "Response" in text
    assert text.rindex("a text to find") > text.rindex("Response")


def test_a_report_of_a_file_without_hostility_is_rendered_whole(write: Write) -> None:
    rows = [standard(i, plugin=f"p{i % 3}", success=i % 2 == 0) for i in range(60)]
    text = Page(html.render(as_report(analyze(write(rows)).analyses))).text
    for words in ("Breakdown by plugin", "30", "50.0%", "of 60 entries (95% Wilson)", "ignore severity"):
        assert words in text
