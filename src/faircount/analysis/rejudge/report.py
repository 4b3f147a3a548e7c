"""What became of rejudged files as a report: the work, the flips with examples, and what they do to the rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faircount.analysis.rejudge.rejudge import (
    ANSWER_TOKENS,
    CHARACTERS_PER_TOKEN,
    FlipTexts,
    RateChange,
    Rejudged,
    RejudgedFile,
)
from faircount.analysis.rejudge.rows import SkipReason
from faircount.analysis.words import WORDS
from faircount.core.findings import counted
from faircount.core.model import Outcome, Passage
from faircount.core.text import clip, visible
from faircount.report import formats
from faircount.report.blocks import (
    Block,
    Evidence,
    Exhibit,
    Fact,
    Facts,
    Grid,
    Paragraph,
    Place,
    Points,
    Record,
    Report,
    Section,
    TableColumn,
    number_column,
    table,
    text_column,
)

_VERDICTS = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.UNJUDGED)
_HIT = {"attack": "A success is", "task": "A test passes with"}
"""Heads what a judge looks for: a hit is what counts as won."""
_NOW_WON = {"attack": "Entries that now succeed", "task": "Entries that now pass"}
_LEFT_ALONE = {
    SkipReason.ERROR: "an error is recorded",
    SkipReason.BLOCKED: "blocked by a guardrail",
    SkipReason.BOOLEAN: "a guardrail's true or false",
    SkipReason.NOT_TEXT: "audio or an image",
    SkipReason.EMPTY: "the response is empty",
    SkipReason.NO_JUDGE: "no judge named",
    SkipReason.NOT_ALLOWED: "the named judge is not allowed",
}
_LONGEST_ERROR = 200


def as_report(results: Rejudged, flips: Sequence[Sequence[FlipTexts]]) -> Report:
    """Arrange what became of files, or what would be done with them; `flips` are examples of each file's."""
    sections: list[Section] = []
    for result, examples in zip(results.files, flips, strict=True):
        sections += _plan(result) if results.dry_run else _sections(result, examples)
    return Report(tuple(sections), results)


# -- a dry run --------------------------------------------------------------------------------------------------


def _plan(result: RejudgedFile) -> Iterator[Section]:
    work = result.verdicts
    facts = [
        *_rows(result, "To judge"),
        Fact("Verdicts wanted", work.wanted),
        Fact("Known already", work.known, depth=1, note="from the store; they cost nothing"),
        *([Fact("Repeated", work.repeated, depth=1, note="judged once")] if work.repeated else []),
        Fact("Calls of judges", work.asked, depth=1),
    ]
    notes: list[Block] = []
    cost = "nothing: no model is asked"
    if work.planned:
        usages = work.planned.values()
        facts += [
            Fact("Requests to models", sum(usage.requests for usage in usages), note="at least"),
            Fact("Tokens of prompts, about", sum(usage.prompt_tokens for usage in usages)),
            Fact("Tokens of answers, about", sum(usage.completion_tokens for usage in usages)),
        ]
        how = f"Tokens are estimated: {CHARACTERS_PER_TOKEN} characters each, and {ANSWER_TOKENS} for an answer."
        notes.append(Paragraph(how))
        known = [usage.cost for usage in usages if usage.cost is not None]
        unpriced = [model for model, usage in work.planned.items() if usage.cost is None and model]
        cost = formats.cost(sum(known) if len(known) == len(usages) else None, unpriced)
    facts.append(Fact("Cost, about", cost))
    blocks: tuple[Block, ...] = (Facts(tuple(facts)), *_judges(result), *notes, *_not_allowed(result))
    yield Section("Plan for", blocks, level=1, subject=Place(result.source.path))


# -- what became of a file --------------------------------------------------------------------------------------


def _sections(result: RejudgedFile, flips: Sequence[FlipTexts]) -> Iterator[Section]:
    work = result.verdicts
    facts = [
        *_rows(result, "Judged"),
        Fact("Verdicts", work.wanted),
        Fact("Known already", work.known, depth=1),
        *([Fact("Repeated", work.repeated, depth=1, note="judged once")] if work.repeated else []),
        Fact("Asked for now", work.asked, depth=1),
    ]
    if work.failed:
        facts.append(Fact("Failed", work.failed, depth=2, note="not kept: they will be asked for again"))
    if work.usage.requests:
        tokens = work.usage.prompt_tokens + work.usage.completion_tokens
        facts += [
            Fact("Requests to models", work.usage.requests),
            Fact("Tokens", tokens),
            Fact("Cost", formats.cost(work.usage.cost)),
        ]
    done = "Nothing to judge; no file is written." if result.path is None else f"Written to {visible(result.path)}"
    blocks: tuple[Block, ...] = (
        Facts(tuple(facts)),
        Paragraph(done),
        *_judges(result),
        *(
            Paragraph(f"{counted(rows, 'row')} unjudged: {clip(visible(error), _LONGEST_ERROR)}")
            for error, rows in result.errors.items()
        ),
        *_not_allowed(result),
    )
    yield Section("Rejudge of", blocks, level=1, subject=Place(result.source.path))
    if result.rates is not None:
        same = all(change.before is change.after for change in result.changes)
        yield Section("What changed", (_table(result), *([Paragraph("No verdict changed.")] if same else [])))
        rate = WORDS[result.source.aim].rate_column
        yield Section(f"What it does to the {rate.lower()}", tuple(_rates(result, result.rates, rate)))
        for changed in result.changes:
            shown = [one for one in flips if (one.flip.before, one.flip.after) == (changed.before, changed.after)]
            if shown:
                change = f"{_word(result, changed.before)} before, {_word(result, changed.after)} now"
                exhibits = tuple(
                    Exhibit(
                        entry=Record(f"entry {one.flip.id}"),
                        place=Place(one.flip.place),
                        known=(
                            ("verdict", Record(change)),
                            ("judge", Record(f"{one.judge}: {one.reason}" if one.reason else one.judge)),
                        ),
                        said=(("prompt", Passage(one.prompt)), ("response", Passage(one.response))),
                    )
                    for one in shown
                )
                evidence = Evidence(exhibits, changed.rows, f"rows: {change}")
                yield Section(change[:1].upper() + change[1:], (evidence,))


def _rows(result: RejudgedFile, judged: str) -> Iterator[Fact]:
    yield Fact("Rows", result.rows)
    yield Fact(judged, result.judged - result.unjudged, depth=1)
    if result.unjudged:
        yield Fact("Unjudged", result.unjudged, depth=1, note="the judge failed; success is null")
    left = sum(result.left_alone.values())
    if left:
        yield Fact("Left as they are", left, depth=1)
    for why in SkipReason:
        if result.left_alone[why]:
            yield Fact(f"because {_LEFT_ALONE[why]}", result.left_alone[why], depth=2)


def _judges(result: RejudgedFile) -> Iterator[Block]:
    if result.judges:
        yield table(
            result.judges,
            text_column("Judge", lambda judge: Record(judge.judge)),
            number_column("Rows", lambda judge: judge.rows),
            text_column(_HIT[result.source.aim], lambda judge: Record(judge.looks_for), rank=1),
            text_column("Identity", lambda judge: judge.identity[:12], rank=2),
        )


def _not_allowed(result: RejudgedFile) -> Iterator[Block]:
    names = [clip(visible(name), 40) for name in result.not_allowed]
    if names:
        yield Paragraph(
            f"{counted(result.left_alone[SkipReason.NOT_ALLOWED], 'row')} not judged: rows may name only canary, "
            f"exact or regex; these name {', '.join(names[:5])}. Say which judge you mean with "
            "--allow-judge NAME=JUDGE, or name one for all rows with --judge."
        )
    if result.left_alone[SkipReason.NO_JUDGE]:
        yield Paragraph("Rows that name no judge need --judge.")


def _word(result: RejudgedFile, verdict: Outcome) -> str:
    """Return what a verdict is called, by what the results are about."""
    return WORDS[result.source.aim].outcomes[verdict]


def _table(result: RejudgedFile) -> Grid:
    counts = {(change.before, change.after): change.rows for change in result.changes}

    def rows(after: Outcome) -> TableColumn[Outcome]:
        return number_column(f"now {_word(result, after)}", lambda before: counts.get((before, after), 0))

    return table(
        [word for word in _VERDICTS if any(before is word for before, _ in counts)],
        text_column("Before", lambda before: _word(result, before)),
        *map(rows, _VERDICTS),
    )


def _rates(result: RejudgedFile, rates: RateChange, name: str) -> Iterator[Block]:
    p = "" if rates.p is None else f"p {formats.p_value(rates.p)}"
    facts = [
        Fact("Entries with verdicts before and after", rates.entries),
        Fact(f"{name} before", rates.before),
        Fact(f"{name} after", rates.after),
        Fact("Difference, after minus before", Points(rates.difference), note=p),
        Fact(_NOW_WON[result.source.aim], rates.gained, depth=1),
        Fact("Entries that no longer do", rates.lost, depth=1),
    ]
    if rates.left_out:
        facts.append(Fact("Entries left out", rates.left_out, note="unjudged before or after"))
    yield Facts(tuple(facts))
    if rates.families is not None:
        yield Paragraph(
            f"The intervals respect {counted(rates.families, 'family', 'families')} of variants: the same "
            f"{WORDS[result.source.aim].family}."
        )
