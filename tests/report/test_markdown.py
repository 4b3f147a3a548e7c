"""Markdown reports: what people read on a pull request, and nothing that a record could make of it.

The oracle is markdown-it, an independent CommonMark parser with tables, which comes with the terminal library.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from faircount import AnalyzeOptions, Report, analyze, as_report
from faircount.core import Estimate, Finding, MadeWith, Passage, Severity, visible
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
    Place,
    Record,
    Records,
    Section,
    markdown,
)
from faircount.report.source_labels import source_labels
from tests.conftest import Write, attack, report_of, standard
from tests.report.test_present import HOSTILE, harmless, hostile_rows

MARKUP = (
    "a | b | c",
    "\\| \\\\| \\",
    "`code` ``more`` ```",
    "```\n</details>\n# broken out\n```",
    "~~~\nx",
    "[click](https://evil.invalid) [ref][1] [1]: https://evil.invalid",
    "![image](https://evil.invalid/x.png)",
    "<b>bold</b> <!-- comment --> </details> <script>alert(1)</script>",
    "https://evil.invalid www.evil.invalid a@evil.invalid",
    "@octocat please see #1, GH-2, octocat/hello#3 and deadbeefcafe",
    "*em* **strong** _em_ ~~gone~~ :smile: $x$ &copy;",
    "\n\n# Heading\n\n- list\n\n1. one\n\n---\n\n> quote",
    " leading and trailing ",
    "`",
    "",
    "\ud800 half",
)
ALL_HOSTILE = (*HOSTILE, *MARKUP)
OUR_HTML = re.compile(r"<details>\n<summary><code>[^<>\n]*</code> \(<code>[^<>\n]*</code>\)</summary>\n|</details>\n?")


def parsed(text: str) -> list[Token]:
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [token for outer in tokens for token in (outer, *(outer.children or ()))]


def assert_inert(text: str) -> None:
    """Nothing but our own headings, tables, lists, emphasis and details; nothing hidden; no platform's magic."""
    assert harmless(text)
    for token in parsed(text):
        assert token.type not in ("link_open", "image", "html_inline", "em_open", "s_open", "blockquote_open", "hr")
        assert token.type not in ("ordered_list_open", "code_block"), token.content
        if token.type == "html_block":
            assert OUR_HTML.fullmatch(token.content), token.content
        if token.type == "text":
            assert not re.search(r"@|#|//|www\.|:\w+:|\$|\bgh-\d|\b[0-9a-f]{7,40}\b", token.content, re.I), (
                token.content
            )


def rate(value: float | None = 0.25, n: int = 40) -> Estimate:
    return Estimate(value, None if value is None else 0.1, None if value is None else 0.5, n, "entry", 0.95, "wilson")


def report_with(text: str) -> Report:
    """Return a report that has a text wherever a record's text can stand."""
    record, place = Record(text), Place(text)
    (short,) = source_labels([f"/folder/{text.replace('/', '_')}x"])
    label = Label(short)
    blocks = (
        Lead((f"From 1% ({short}) to 2% ({short}).", f"Lower than {short}.")),
        Findings((Finding("F001", Severity.ERROR, 5, f"a message about {text} and more", (text,) * 4),)),
        Facts((Fact("ours", record, rate()), Fact("ours", place, note="a note", depth=1))),
        Grid(
            (
                Column("Key", numeric=False),
                Column("Rate", note="Rate: a share."),
                Column("Where", numeric=False),
                Column("Interval", rank=1),
                Column("File", numeric=False),
            ),
            ((record, rate(), place, Interval(rate()), label), (Records((text, None, text)), None, record, "", label)),
            frozenset({0}),
            "a note",
        ),
        Bars("a figure", (Bar(record, rate()), Bar(place, rate(None), small=True))),
        HeatMap("a map", "rows", "columns", (record, Record(None)), (record,), ((rate(),), (None,))),
        Evidence(
            (
                Exhibit(
                    record,
                    place,
                    (("judge", record), ("place", place)),
                    ((f"response of {short}", Passage(f"{text}\n{text}", 0, 1)), ("error", Passage(text))),
                ),
            ),
            9,
            "entries",
        ),
    )
    return Report(
        (
            Section("Analysis of", (), 1, place),
            Section("A section", blocks, subject=record),
            Section("Another", (), subject=label),
        )
    )


@pytest.mark.parametrize("text", ALL_HOSTILE)
def test_a_records_text_has_no_effect_wherever_it_stands(text: str) -> None:
    assert_inert(markdown.render(report_with(text)))


@given(st.text(alphabet=st.sampled_from("`~|\\[](){}<>!#@*_-+=:/.$&;'\" \n\r\tawGH123\u202e\u2028é"), max_size=60))
def test_no_mixture_of_signs_has_an_effect(text: str) -> None:
    assert_inert(markdown.render(report_with(text)))


@pytest.mark.parametrize("text", ALL_HOSTILE)
def test_every_table_keeps_its_shape(text: str) -> None:
    """The same tokens come out for any text as for a harmless one."""

    def shape(of: str) -> list[str]:
        types = [token.type for token in parsed(markdown.render(report_with(of)))]
        return [kind for kind in types if kind not in ("text", "code_inline", "inline", "softbreak")]

    assert shape(text) == shape("harmless")


@given(st.text(max_size=11))
def test_a_code_span_holds_exactly_the_visible_text(text: str) -> None:
    spans = [token.content for token in parsed(markdown.code(text)) if token.type == "code_inline"]
    shown = visible(text).replace("|", "\\x7c")
    assert spans == ([shown] if shown else [])


@given(st.text(max_size=80))
def test_a_fenced_block_holds_exactly_the_visible_lines(text: str) -> None:
    (block,) = parsed(markdown.fenced(text))
    assert block.type == "fence"
    assert block.content == "".join(f"{visible(line)}\n" for line in text.split("\n"))


def test_plain_sentences_stay_plain() -> None:
    for sentence in ("19 entries of 270 that ended in an error; none counts", "at 95% (Wilson), see below: --strict"):
        assert markdown.prose(sentence) == sentence


def test_whole_hostile_analyses_are_inert(write: Write) -> None:
    rows = hostile_rows()
    rows += [
        standard(f"m{i}", success=True, input=text, response=text, plugin=text, lang=f"l{i % 2}")
        for i, text in enumerate(MARKUP[:-1])
    ]
    result = analyze(write(rows), options=AnalyzeOptions(figures=True, evidence=(("", 50),)))
    made = MadeWith(f"faircount results analyze {HOSTILE[0]} {MARKUP[4]}", (("Faircount", "1"),), {})
    text = markdown.render(as_report(result.analyses, evidence=result.evidence, figures=True, made_with=made))
    assert_inert(text)
    ours = [token.content for token in parsed(text) if token.type == "html_block"]
    ((examples,),) = result.evidence.values()
    shown = len(examples.shown)
    assert shown > 20
    assert sum(content.startswith("<details>") for content in ours) == shown
    assert sum(content.startswith("</details>") for content in ours) == shown


def test_findings_come_first_then_tables(write: Write) -> None:
    report = as_report(analyze(write([standard(1, success=True), "torn {"])).analyses)
    lines = [line for line in markdown.render(report).splitlines() if line]
    assert lines[0] == "# Analysis of `x`"
    assert lines[1] == "100% of 1 attack succeeded (95% interval 21–100%)."
    assert lines[2].startswith("- **error F001** ")
    assert lines[3] == "  at `line 2`"
    assert "| Successful attacks | 1 | 100% [21, 100] | of 1 entry (95% Wilson) |" in lines


def test_a_heat_map_is_a_table_with_counts_and_gaps() -> None:
    cells = ((rate(0.25, 8), None), (rate(1.0, 1234), rate(0.0, 1)))
    figure = HeatMap("t", "rows", "columns", (Record("a"), Record(None)), (Record("x"), Record("y")), cells)
    text = markdown.render(Report((Section("s", (figure,)),)))
    assert "| rows ↓ columns → | `x` | `y` |\n| --- | ---: | ---: |\n" in text
    assert "| `a` | 25% (8) | – |\n| (none) | 100% (1,234) | 0% (1) |" in text


def test_bars_are_drawn_to_scale_with_their_interval() -> None:
    figure = Bars("t", (Bar("ours", rate()), Bar(Record("a"), rate(None), small=True)))
    text = markdown.render(Report((Section("s", (figure,)),)))
    assert "ours  ████▓▓▓▓▓▓░░░░░░░░░░····················  25% [10, 50]\n" in text
    assert re.search(r"^a \*\s+undefined$", text, re.MULTILINE)
    assert text.count("Bars run from 0 to 100%") == 1


def test_labels_that_begin_alike_stay_apart_beside_their_bars() -> None:
    names = [f"{'the same long beginning ' * 3}{end}" for end in ("one", "two")]
    figure = Bars("t", tuple(Bar(Record(name), rate()) for name in names))
    drawn = re.findall(r"^(.*\S)  █", markdown.render(Report((Section("s", (figure,)),))), re.MULTILINE)
    assert len(set(drawn)) == 2 and drawn[0].endswith("one") and drawn[1].endswith("two")


def test_a_drawn_interval_is_code_and_columns_are_explained() -> None:
    columns = (Column("File", numeric=False), Column("Rate", note="Rate: a share."), Column("Interval", rank=1))
    grid = Grid(columns, ((Label("a"), rate(), Interval(rate())),), note="So.")
    text = markdown.render(Report((Section("s", (grid,)),)))
    assert "| `a` | 25% [10, 50] | `··├──●────┤·········` |\n\nRate: a share. So." in text


def test_evidence_is_folded_away_with_its_prompt_and_response(write: Write) -> None:
    path = write([standard(1), attack(1, success=True, input="do\nit", response="done ```", judge_name="canary")])
    text = markdown.render(report_of(path, evidence=(("", 3),)))
    assert "<details>\n<summary><code>entry 1</code> (<code>line 2</code>)</summary>\n\n" in text
    assert "| strategy | `goat` |\n| judge | `canary` |" in text
    assert "Prompt:\n\n```text\ndo\nit\n```\n\nResponse:\n\n````text\ndone ```\n````\n\n</details>" in text
    assert "## Successful attacks\n\n1 of 1 successful attacks.\n" in text


def test_an_empty_report_is_no_error() -> None:
    assert markdown.render(Report(())) == "\n"


def test_undefined_and_unknown_are_words(write: Write) -> None:
    text = markdown.render(report_of(write([]), figures=True, evidence=(("", 5),)))
    assert "undefined" in text
    assert "There are no entries." in text and "None." in text
    assert "█" not in text
