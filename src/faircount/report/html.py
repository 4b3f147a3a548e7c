"""A report as one HTML file that needs nothing else: no network, no other file, and no script unless it is asked for.

It opens from disk with scripting off, reads on a telephone and on paper, and cannot be made to do anything by what
the records hold: every text is escaped by the one function that makes elements (`markup.tag`), and a content security
policy forbids whatever would still get through.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import resources
from itertools import chain
from typing import assert_never

import msgspec
from msgspec import Struct

from faircount.core.findings import counted
from faircount.core.model import Estimate, Finding, Passage, Severity
from faircount.core.text import replace_surrogates, visible
from faircount.report import blocks, formats
from faircount.report.markup import Child, Markup, tag, together
from faircount.report.svg import bars_svg, curves_svg, differences_svg, heat_map_svg, interval_svg
from faircount.version import __version__

BREAK_MARK = "↵"
"""Stands where a text breaks its line, so that a real break can be told from a line that was too long."""

SCRIPT = resources.files("faircount.report").joinpath("interactive.js").read_text("utf-8")
"""What makes the tables of a page sortable, where that is asked for."""

_LONGEST_TEXT = 2000
_LONGEST_ENTRY = 60
_PLACES_SHOWN = 3
_SECTIONS_WITHOUT_CONTENTS = 4
_SMALL_NOTE = "* a small group: read the interval, not the rate"
_EMPTY = "(empty)"
_STAR = Markup("\N{NO-BREAK SPACE}*")
_OURS = re.compile(
    r'<!doctype html>\s*<html lang="en">.{0,1000}<meta name="generator" content="Faircount [^"]*">', re.DOTALL
)
_SIGNS = {Severity.ERROR: "✖", Severity.WARNING: "▲", Severity.INFO: "ℹ"}


def render(report: blocks.Report) -> str:
    """Return the report as an HTML document."""
    articles = articles_of(report.sections)
    words, subject = "Report", None
    if articles and articles[0].heading is not None:
        words, subject = articles[0].heading.section.title, articles[0].heading.section.subject
    entries = None if report.entries is None else _entries(report.entries)
    runs = "runs nothing" if entries is None else "runs one script of its own"
    written_by = f"Written by Faircount {__version__}. This file loads nothing, {runs} and sends nothing."
    page = tag(
        "html",
        _head(words, subject, interactive=entries is not None),
        tag(
            "body",
            tag("a", "Skip to the report", class_="skip", href="#report"),
            tag("header", tag("p", "Faircount", class_="brand"), heading_markup(1, words, subject), class_="banner"),
            tag(
                "div",
                _contents(articles),
                tag(
                    "main",
                    *[_analysis(article, titled_by_page=article is articles[0]) for article in articles],
                    None if articles else tag("p", "There is nothing to report."),
                    id="report",
                    tabindex=-1,
                ),
                class_="page",
            ),
            tag("footer", tag("p", written_by)),
            entries,
        ),
        lang="en",
    )
    return f"<!doctype html>\n{page.text}\n"


def is_ours(text: str) -> bool:
    """Return whether a text begins as the documents that `render` makes do, whatever the version."""
    return _OURS.match(text) is not None


# --- the articles of a page -------------------------------------------------------------------------------------------


class Titled(Struct, frozen=True):
    """A section with its anchor and the rank of its heading on the page."""

    section: blocks.Section
    anchor: str
    rank: int


class Article(Struct, frozen=True):
    """An analysis: its heading, where it has one, and the sections under it."""

    heading: Titled | None
    sections: tuple[Titled, ...]


def articles_of(sections: Sequence[blocks.Section]) -> tuple[Article, ...]:
    """Gather sections under their analyses. The first heading is that of the page, the others begin at 2."""
    groups: list[list[blocks.Section]] = []
    for section in sections:
        if section.level == 1 or not groups:
            groups.append([])
        groups[-1].append(section)
    titled = bool(groups) and groups[0][0].level == 1
    return tuple(
        _article(group, number, 1 if titled and number == 1 else 2) for number, group in enumerate(groups, start=1)
    )


def _article(group: Sequence[blocks.Section], number: int, top: int) -> Article:
    heading = Titled(group[0], f"a{number}", top) if group[0].level == 1 else None
    rank = top if heading else top - 1
    titled = []
    for at, section in enumerate(group[1:] if heading else group, start=1):
        wanted = (top if heading else top - 1) + section.level - 1
        rank = min(max(wanted, 2), rank + 1, 6)
        titled.append(Titled(section, f"a{number}-{at}", rank))
    return Article(heading, tuple(titled))


def _entries(tables: Sequence[blocks.EntryTable]) -> Markup:
    """Return the entries as data that nothing runs, and the one script of the page, which the policy names."""
    return together(island("entries", tables), Markup(f"<script>{SCRIPT}</script>"))


def island(name: str, data: object) -> Markup:
    """Return data as JSON in an element that no browser runs; no text in it can end the element."""
    text = replace_surrogates(msgspec.json.encode(data).decode())
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(f'<script type="application/json" id="{name}">{text}</script>')


def _head(words: str, subject: blocks.Subject | None, *, interactive: bool) -> Markup:
    css = _css() + (_INTERACTIVE_STYLE if interactive else "")
    # The policy allows our one style element and nothing else.
    script = f"'{hash_source(SCRIPT)}'" if interactive else "'none'"
    policy = (
        f"default-src 'none'; style-src '{hash_source(css)}'; script-src {script}; img-src 'none'; "
        "base-uri 'none'; form-action 'none'"
    )
    name = words if subject is None else f"{words} {formats.cell(subject, width=_LONGEST_TEXT)}"
    return tag(
        "head",
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", charset="utf-8"),
        tag("meta", name="generator", content=f"Faircount {__version__}"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{name} – Faircount"),
        Markup(f"<style>{css}</style>"),
    )


def hash_source(content: str) -> str:
    """Return how a policy names the one style or script that it allows."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


_INTERACTIVE_STYLE = """
.sort { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; text-align: inherit; }
.sort::after { content: " ↕"; opacity: 0.5; } [aria-sort="ascending"] .sort::after { content: " ▲"; opacity: 1; }
[aria-sort="descending"] .sort::after { content: " ▼"; opacity: 1; }
.filter { display: block; margin: 0.5rem 0; }
.filter input, .behind { font: inherit; font-size: 0.875rem; color: inherit; }
.behind { background: none; border: 1px solid var(--line); border-radius: 4px; cursor: pointer; margin-left: 0.5rem; }
.behind-row:hover rect { opacity: 0.75; } .behind-row { cursor: pointer; }
.behind-entries { max-height: 24rem; overflow: auto; margin: 0.5rem 0; }
@media print { .sort::after { content: ""; } .filter, .behind { display: none; } }
"""


@cache
def _css() -> str:
    return resources.files("faircount.report").joinpath("report.css").read_text(encoding="utf-8")


def heading_markup(rank: int, words: str, subject: blocks.Subject | None, anchor: str | None = None) -> Markup:
    return tag(f"h{rank}", words, _following(subject), id=anchor)


def _following(subject: blocks.Subject | None) -> Markup | None:
    """Return the record's text that belongs to a title."""
    return None if subject is None else together(" ", _text(subject, "subject"))


def _contents(articles: Sequence[Article]) -> Markup | None:
    """Return links to the articles, where there are enough of them to get lost."""
    if len(articles) < 2 and sum(len(article.sections) for article in articles) <= _SECTIONS_WITHOUT_CONTENTS:
        return None
    nested = len(articles) > 1
    entries: list[Markup] = []
    for article in articles:
        inner = [tag("li", _link(titled)) for titled in article.sections]
        if nested and article.heading is not None:
            entries.append(tag("li", _link(article.heading), tag("ul", *inner) if inner else None))
        else:
            entries += inner
    title = tag("p", "Contents", class_="nav-title", id="contents")
    return tag("nav", title, tag("ul", *entries), aria_labelledby="contents", tabindex=0)


def _link(titled: Titled) -> Markup:
    subject = titled.section.subject
    following = None if subject is None else together(" ", tag("bdi", formats.cell(subject, _LONGEST_ENTRY)))
    return tag("a", titled.section.title, following, href=f"#{titled.anchor}")


def _analysis(article: Article, *, titled_by_page: bool) -> Markup:
    """Return an analysis: its findings first, then the rate that it is about, then everything in order."""
    title: Child = None
    opening: list[Markup] = []
    label = anchor = None
    if article.heading is not None:
        section = article.heading.section
        opening = [block_markup(block, section) for block in section.blocks]
        if titled_by_page:
            anchor = article.heading.anchor
        else:
            label = article.heading.anchor
            title = heading_markup(article.heading.rank, section.title, section.subject, label)
    sections = [
        tag(
            "section",
            heading_markup(titled.rank, titled.section.title, titled.section.subject, titled.anchor),
            *[block_markup(block, titled.section) for block in titled.section.blocks],
        )
        for titled in article.sections
    ]
    return tag("article", title, *opening, headline_markup(article), *sections, aria_labelledby=label, id=anchor)


# --- blocks ---------------------------------------------------------------------------------------------------------


def block_markup(block: blocks.Block, section: blocks.Section) -> Markup:
    """Return a block of a section, by whose title its tables are called."""
    match block:
        case blocks.Findings():
            return tag("ul", *[_finding(item) for item in block.items], class_="findings", aria_label="Findings")
        case blocks.Facts():
            return _facts(block.rows, section)
        case blocks.Grid():
            return _grid(block, section)
        case blocks.Bars():
            return _figure(block.title, Markup(bars_svg(block)))
        case blocks.HeatMap() | blocks.Curves():
            drawing = heat_map_svg(block) if isinstance(block, blocks.HeatMap) else curves_svg(block)
            return _figure(block.title, _scrolling(Markup(drawing), f"Figure: {block.title}"))
        case blocks.Differences():
            return _figure(block.title, Markup(differences_svg(block)))
        case blocks.Evidence():
            return _evidence(block)
        case blocks.Lead():
            return _lead(block)
        case blocks.Paragraph():
            return tag("p", block.text, class_="prose")
        case _:
            assert_never(block)


def _figure(title: str, drawing: Markup) -> Markup:
    return tag("figure", tag("figcaption", title), drawing)


def _scrolling(content: Markup, label: str) -> Markup:
    """Return content that may be wider than the page: it scrolls, by keyboard too, and says what it is."""
    return tag("div", content, class_="scroll", tabindex=0, role="group", aria_label=label)


def _finding(item: Finding) -> Markup:
    severity = item.severity
    badge = tag("span", tag("span", _SIGNS[severity], aria_hidden="true"), f" {severity.value} ", class_="severity")
    return tag(
        "li",
        tag("p", badge, tag("span", item.code, class_="code"), " ", item.message),
        *_places(item),
        class_=f"finding {severity.value}",
    )


def _places(item: Finding) -> Iterator[Markup]:
    """Yield the first places of a finding, and the others behind a click."""
    first, others = item.where[:_PLACES_SHOWN], item.where[_PLACES_SHOWN:]
    if first:
        more = item.count > len(item.where) and not others
        yield tag("p", "at ", *_listed(first), ", …" if more else None, class_="places")
    if others:
        more = item.count > len(item.where)
        summary = tag("summary", counted(len(others), "more place"))
        yield tag("details", summary, tag("p", *_listed(others), ", …" if more else None), class_="places")


def _listed(places: Sequence[str]) -> Iterator[Child]:
    for index, place in enumerate(places):
        if index:
            yield ", "
        yield _text(blocks.Place(place))


def _lead(lead: blocks.Lead) -> Markup:
    """Return what a report comes to: its figures large, then the sentences."""
    figures = [tag("div", *_large(fact, fact.rate)) for fact in lead.figures if fact.rate is not None]
    large = tag("div", *figures, class_="headline-figures") if figures else None
    return tag("div", large, *(tag("p", text, class_="headline-text") for text in lead.paragraphs), class_="headline")


def headline_markup(article: Article) -> Markup | None:
    """Return the rate that a report without a lead is about, large: the first of its facts, parts of others aside."""
    if article.heading is not None and any(isinstance(block, blocks.Lead) for block in article.heading.section.blocks):
        return None
    facts = [block for titled in article.sections for block in titled.section.blocks if isinstance(block, blocks.Facts)]
    rated = [(f, f.rate) for block in facts[:1] for f in block.rows if f.rate is not None and not f.depth]
    if not rated:
        return None
    return tag("div", *_large(*rated[0]), class_="headline")


def _large(fact: blocks.Fact, rate: Estimate) -> Iterator[Markup]:
    limits = None
    if rate.low is not None and rate.high is not None:
        named = f"{formats.exact_percent(rate.level)} interval "
        limits = together(named, tag("strong", formats.interval(rate)), " · ")
    count = "" if fact.value is None else f"{formats.cell(fact.value)} "
    yield tag("p", fact.label, class_="headline-label")
    yield tag("p", formats.rate(rate), class_="headline-rate undefined" if rate.value is None else "headline-rate")
    yield tag("p", limits, f"{count}{fact.note or f'of {rate.n:,}'}", class_="headline-words")


def _facts(rows: Sequence[blocks.Fact], section: blocks.Section) -> Markup:
    valued = any(fact.value is not None for fact in rows)
    rated = any(fact.rate is not None for fact in rows)
    roomy = _has_interval(fact.rate for fact in rows)
    heads = ["Figure", *(["Count"] if valued else []), *(["Rate"] if rated else [])]
    head = tag("tr", *[tag("th", tag("span", words, class_="unseen"), scope="col") for words in heads])
    return _table(
        section,
        tag("thead", head),
        tag("tbody", *[_fact(fact, valued, rated, roomy) for fact in rows]),
        class_="facts",
    )


def _fact(fact: blocks.Fact, valued: bool, rated: bool, roomy: bool) -> Markup:
    note = tag("span", fact.note, class_="fact-note") if fact.note else None
    value = None if fact.value is None else _cell(fact.value)
    return tag(
        "tr",
        tag("th", tag("span", fact.label, class_="fact-label"), note, scope="row"),
        tag("td", value, class_="number") if valued else None,
        tag("td", None if fact.rate is None else _estimate(fact.rate, roomy), class_="number") if rated else None,
        class_=f"depth-{min(fact.depth, 3)}",
    )


def _grid(grid: blocks.Grid, section: blocks.Section) -> Markup:
    key = next((index for index, column in enumerate(grid.columns) if not column.numeric), 0)
    head = [
        tag("th", column.title, scope="col", class_="number" if column.numeric else None) if column.title else tag("td")
        for column in grid.columns
    ]
    roomy = [_has_interval(row[index] for row in grid.rows) for index in range(len(grid.columns))]
    rows = [_row(grid, number, key, roomy) for number in range(len(grid.rows))]
    explained = " ".join(filter(None, [*(column.note for column in grid.columns), grid.note]))
    notes = [note for note in (_SMALL_NOTE if grid.marked else "", explained) if note]
    table = _table(section, tag("thead", tag("tr", *head)), tag("tbody", *rows), class_="grid")
    return together(table, *[tag("p", note, class_="note") for note in notes])


def _row(grid: blocks.Grid, number: int, key: int, roomy: Sequence[bool]) -> Markup:
    """Return a row of a grid; the row of a small group bears a star, as it does everywhere."""
    small = number in grid.marked
    cells = []
    for index, (column, content) in enumerate(zip(grid.columns, grid.rows[number], strict=True)):
        kind = "number" if column.numeric else None
        if index == key:
            cells.append(tag("th", _cell(content, roomy[index]), _STAR if small else None, scope="row", class_=kind))
        else:
            cells.append(tag("td", _cell(content, roomy[index]), class_=kind))
    return tag("tr", *cells, class_="small" if small else None)


def _table(section: blocks.Section, *content: Child, class_: str) -> Markup:
    """Return a table called by its section. Its frame is called by our words alone: attributes hold no record."""
    caption = tag("caption", tag("span", section.title, _following(section.subject), class_="unseen"))
    return _scrolling(tag("table", caption, *content, class_=class_), f"Table: {section.title}")


def _has_interval(cells: Iterable[blocks.Cell]) -> bool:
    return any(isinstance(cell, Estimate) and cell.low is not None for cell in cells)


def _cell(content: blocks.Cell, roomy: bool = False) -> Child:
    """Return a cell's content: text of a record apart from ours, and a rate with its interval kept in one piece."""
    match content:
        case None:
            return tag("abbr", formats.UNKNOWN, title="not known")
        case blocks.Label() | blocks.Record() | blocks.Place() | blocks.Records():
            return _text(content)
        case blocks.Interval():
            return Markup(interval_svg(content.estimate))
        case Estimate():
            return _estimate(content, roomy)
        case _:
            return formats.cell(content)


def _estimate(estimate: Estimate, roomy: bool) -> Markup:
    """Return a rate with its interval; in a `roomy` column, one without keeps the room free, so that all line up."""
    value, _, interval = formats.estimate(estimate).partition(" [")
    limits = together(" ", tag("span", f"[{interval}" if interval else None, class_="interval")) if roomy else None
    return tag("span", value, limits, class_="undefined" if estimate.value is None else "rate")


def _text(content: blocks.Subject | blocks.Records, class_: str = "") -> Markup:
    """Return a record's text, set apart so that its writing direction cannot disturb what stands beside it."""
    kind = {blocks.Place: "place", blocks.Label: "label"}.get(type(content), "record")
    if isinstance(content, blocks.Label):
        # A name may break after its separators, and nowhere else.
        parts = re.split(r"(?<=[-_])", formats.cell(content, width=_LONGEST_TEXT))
        return tag("bdi", *chain.from_iterable((part, tag("wbr")) for part in parts), class_=f"label {class_}".strip())
    return tag("bdi", formats.cell(content, width=_LONGEST_TEXT), class_=f"{kind} {class_}".strip())


# --- evidence -------------------------------------------------------------------------------------------------------


def _evidence(evidence: blocks.Evidence) -> Markup:
    shown = len(evidence.exhibits)
    marked = any(passage.begin < passage.end for exhibit in evidence.exhibits for _, passage in exhibit.said)
    words = f"{shown:,} of {evidence.total:,} {evidence.name}. {BREAK_MARK} marks a line break in the text"
    words += "; the part that matters is highlighted." if marked else "."
    return tag("div", tag("p", words, class_="note"), *map(_exhibit, evidence.exhibits), class_="evidence")


def _exhibit(exhibit: blocks.Exhibit) -> Markup:
    summary = tag(
        "summary",
        tag("span", tag("bdi", formats.cell(exhibit.entry, _LONGEST_ENTRY)), class_="exhibit-entry"),
        " ",
        tag("span", _text(exhibit.place), class_="exhibit-place"),
    )
    facts = [
        tag("div", tag("dt", name[0].upper() + name[1:]), tag("dd", _text(content))) for name, content in exhibit.known
    ]
    said: list[Markup] = []
    for name, passage in exhibit.said:
        said.append(tag("p", name[0].upper() + name[1:], class_="spoken"))
        said.append(tag("pre", *_said(passage), tabindex=0, role="group", aria_label="Text", dir="auto"))
    return tag("details", summary, tag("dl", *facts) if facts else None, *said, class_="exhibit")


def _said(passage: Passage) -> Iterator[Child]:
    """Yield a text with the part that matters set apart."""
    if not passage.text:
        yield formats.MISSING if passage.text is None else _EMPTY
        return
    begin, end = passage.begin, passage.end
    yield _lines(passage.text[:begin])
    yield tag("mark", _lines(passage.text[begin:end])) if begin < end else None
    yield _lines(passage.text[max(begin, end) :])


def _lines(text: str) -> str:
    """Return a text with everything hidden spelled out, its line breaks kept and marked."""
    return f"{BREAK_MARK}\n".join(visible(line) for line in text.split("\n"))
