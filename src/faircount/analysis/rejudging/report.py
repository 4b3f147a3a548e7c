"""What became of rejudged files as a report: the work, the flips with examples, and what they do to the rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from faircount import formats
from faircount.analysis.document import estimate_data, source_data
from faircount.analysis.rejudging.changes import Flip, Rates
from faircount.analysis.rejudging.options import RejudgeOptions
from faircount.analysis.rejudging.rejudge import ANSWER_TOKENS, CHARACTERS_PER_TOKEN, Rejudged, Work
from faircount.analysis.rejudging.rows import LeftAlone
from faircount.analysis.words import WORDS
from faircount.chat.prices import Prices
from faircount.findings import counted
from faircount.judging.verdict import Usage
from faircount.model import Outcome, Passage
from faircount.report import (
    Block,
    Cell,
    Column,
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
)
from faircount.text import clip, visible
from faircount.version import __version__

_OUTCOMES = {True: Outcome.SUCCESS, False: Outcome.FAILURE, None: Outcome.UNJUDGED}
_HIT = {"attack": "A success is", "task": "A test passes with"}
"""Heads what a judge looks for: a hit is what counts as won."""
_NOW_WON = {"attack": "Entries that now succeed", "task": "Entries that now pass"}
_LEFT_ALONE = {
    LeftAlone.ERROR: "an error is recorded",
    LeftAlone.BLOCKED: "blocked by a guardrail",
    LeftAlone.BOOLEAN: "a guardrail's true or false",
    LeftAlone.NOT_TEXT: "audio or an image",
    LeftAlone.EMPTY: "the response is empty",
    LeftAlone.NO_JUDGE: "no judge named",
    LeftAlone.NOT_ALLOWED: "the named judge is not allowed",
}
_LONGEST_ERROR = 200
KIND = "rejudge"
SCHEMA = 1
_WORDS = {True: "success", False: "failure", None: "unjudged"}


def as_report(
    results: Sequence[Rejudged], options: RejudgeOptions, *, dry_run: bool = False, prices: Prices | None = None
) -> Report:
    """Arrange what became of files, or what would be done with them."""
    prices = prices or Prices({})
    sections: list[Section] = []
    for result in results:
        sections += _plan(result, prices) if dry_run else _sections(result)
    return Report(tuple(sections), document(results, options, dry_run=dry_run, prices=prices))


# -- a dry run --------------------------------------------------------------------------------------------------


def _plan(result: Rejudged, prices: Prices) -> Iterator[Section]:
    work = result.work
    facts = [
        *_rows(result, "To judge"),
        Fact("Verdicts wanted", work.wanted),
        Fact("Known already", work.known, depth=1, note="from the store; they cost nothing"),
        *_repeated(work),
        Fact("Calls of judges", work.asked, depth=1),
    ]
    notes: list[Block] = []
    if work.planned:
        usages = work.planned.values()
        facts += [
            Fact("Requests to models", sum(usage.requests for usage in usages), note="at least"),
            Fact("Tokens of prompts, about", sum(usage.prompt_tokens for usage in usages)),
            Fact("Tokens of answers, about", sum(usage.completion_tokens for usage in usages)),
        ]
        notes.append(
            Paragraph(
                f"Tokens are estimated: {CHARACTERS_PER_TOKEN} characters each, and {ANSWER_TOKENS} for an answer."
            )
        )
    facts.append(Fact("Cost, about", _cost(work, prices)))
    blocks: tuple[Block, ...] = (Facts(tuple(facts)), *_judges(result), *notes, *_not_allowed(result))
    yield Section("Plan for", blocks, level=1, subject=Place(result.source.path))


def _cost(work: Work, prices: Prices) -> str:
    cost = planned_cost(work, prices)
    if cost is not None:
        return f"{cost:.4f}" if work.planned else "nothing: no model is asked"
    unknown = [visible(model) for model in work.planned if prices.of(model or None) is None and model]
    if not unknown:
        return "unknown: no model is named, see --model"
    return f"unknown: no price for {', '.join(unknown)}; give it in --config, under [prices]"


# -- what became of a file --------------------------------------------------------------------------------------


def _sections(result: Rejudged) -> Iterator[Section]:
    work = result.work
    facts = [
        *_rows(result, "Judged"),
        Fact("Verdicts", work.wanted),
        Fact("Known already", work.known, depth=1),
        *_repeated(work),
        Fact("Asked for now", work.asked, depth=1),
    ]
    if work.failed:
        facts.append(Fact("Failed", work.failed, depth=2, note="not kept: they will be asked for again"))
    if work.usage.requests:
        cost = "unknown" if work.usage.cost is None else f"{work.usage.cost:.4f}"
        tokens = work.usage.prompt_tokens + work.usage.completion_tokens
        facts += [Fact("Requests to models", work.usage.requests), Fact("Tokens", tokens), Fact("Cost", cost)]
    blocks: tuple[Block, ...] = (
        Facts(tuple(facts)),
        *_written(result),
        *_judges(result),
        *_errors(result),
        *_not_allowed(result),
    )
    yield Section("Rejudge of", blocks, level=1, subject=Place(result.source.path))
    if result.rates is not None:
        yield Section("What changed", (_table(result), *_told(result)))
        yield Section(f"What it does to the {_rate(result).lower()}", tuple(_rates(result, result.rates)))
        yield from _flips(result)


def _rows(result: Rejudged, judged: str) -> Iterator[Fact]:
    yield Fact("Rows", result.rows)
    yield Fact(judged, result.judged - result.unjudged, depth=1)
    if result.unjudged:
        yield Fact("Unjudged", result.unjudged, depth=1, note="the judge failed; success is null")
    left = sum(result.left_alone.values())
    if left:
        yield Fact("Left as they are", left, depth=1)
    for why in LeftAlone:
        if result.left_alone.get(why):
            yield Fact(f"because {_LEFT_ALONE[why]}", result.left_alone[why], depth=2)


def _repeated(work: Work) -> Iterator[Fact]:
    if work.repeated:
        yield Fact("Repeated", work.repeated, depth=1, note="judged once")


def _judges(result: Rejudged) -> Iterator[Block]:
    if not result.judges:
        return
    columns = (
        Column("Judge", numeric=False),
        Column("Rows"),
        Column(_HIT[result.source.aim], rank=1, numeric=False),
        Column("Identity", rank=2, numeric=False),
    )
    rows = tuple(
        (Record(judge.name), judge.rows, Record(judge.looks_for), judge.identity[:12]) for judge in result.judges
    )
    yield Grid(columns, rows)


def _errors(result: Rejudged) -> Iterator[Block]:
    for error, rows in result.errors:
        yield Paragraph(f"{counted(rows, 'row')} unjudged: {clip(visible(error), _LONGEST_ERROR)}")


def _not_allowed(result: Rejudged) -> Iterator[Block]:
    names = [clip(visible(name), 40) for name, _ in result.not_allowed]
    if names:
        yield Paragraph(
            f"{counted(result.left_alone[LeftAlone.NOT_ALLOWED], 'row')} not judged: a file may only name judges "
            f"that compare strings; these do not: {', '.join(names[:5])}. Say which judge you mean with "
            "--allow-judge NAME=JUDGE, or name one for all rows with --judge."
        )
    if result.left_alone.get(LeftAlone.NO_JUDGE):
        yield Paragraph("Rows that name no judge need --judge.")


def _written(result: Rejudged) -> Iterator[Block]:
    if result.path is None:
        yield Paragraph("Nothing to judge; no file is written.")
    else:
        yield Paragraph(f"Written to {visible(result.path)}")


def _word(result: Rejudged, verdict: bool | None) -> str:
    """Return what a verdict is called, by what the results are about."""
    return WORDS[result.source.aim].outcomes[_OUTCOMES[verdict]]


def _rate(result: Rejudged) -> str:
    return WORDS[result.source.aim].rate_column


def _table(result: Rejudged) -> Grid:
    words: tuple[bool | None, ...] = (True, False, None)
    befores = [word for word in words if any(before is word for before, _ in result.changes)]
    columns = (
        Column("Before", numeric=False),
        *(Column(f"now {_word(result, after)}") for after in words),
    )
    rows: list[tuple[Cell, ...]] = [
        (_word(result, before), *(result.changes.get((before, after), 0) for after in words)) for before in befores
    ]
    return Grid(columns, tuple(rows))


def _told(result: Rejudged) -> Iterator[Block]:
    changed = sum(rows for (before, after), rows in result.changes.items() if before is not after)
    if not changed:
        yield Paragraph("No verdict changed.")


def _rates(result: Rejudged, rates: Rates) -> Iterator[Block]:
    p = "" if rates.p is None else f"p {formats.p_value(rates.p)}"
    facts = [
        Fact("Entries with verdicts before and after", rates.entries),
        Fact(f"{_rate(result)} before", rates.before),
        Fact(f"{_rate(result)} after", rates.after),
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


def _flips(result: Rejudged) -> Iterator[Section]:
    for (before, after), total in sorted(result.changes.items(), key=lambda item: str(item[0])):
        flips = [flip for flip in result.flips if flip.before is before and flip.after is after]
        if before is after or not flips:
            continue
        change = f"{_word(result, before)} before, {_word(result, after)} now"
        exhibits = tuple(_exhibit(flip, change) for flip in flips)
        yield Section(change[:1].upper() + change[1:], (Evidence(exhibits, total, f"rows: {change}"),))


def _exhibit(flip: Flip, change: str) -> Exhibit:
    judge = f"{flip.judge}: {flip.reason}" if flip.reason else flip.judge
    return Exhibit(
        entry=Record(f"entry {flip.id}"),
        place=Place(flip.place),
        known=(("verdict", Record(change)), ("judge", Record(judge))),
        said=(("prompt", Passage(flip.prompt)), ("response", Passage(flip.response))),
    )


# -- the document -----------------------------------------------------------------------------------------------


def document(
    results: Sequence[Rejudged], options: RejudgeOptions, *, dry_run: bool = False, prices: Prices | None = None
) -> dict[str, Any]:
    """Return the whole answer of `results rejudge`."""
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "version": __version__,
        "dry_run": dry_run,
        "turns": options.turns,
        "judge_options": options.judge_options,
        "fresh": options.fresh,
        "complete": all(not result.unjudged and not result.refused for result in results),
        "files": [_file(result, dry_run=dry_run, prices=prices or Prices({})) for result in results],
    }


def planned_cost(work: Work, prices: Prices) -> float | None:
    """Return what planned questions to models would cost, 0 without any, None where a price is not known."""
    costs = [
        prices.cost(model or None, prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens)
        for model, usage in work.planned.items()
    ]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _file(result: Rejudged, *, dry_run: bool, prices: Prices) -> dict[str, Any]:
    return {
        "source": source_data(result.source),
        "aim": result.source.aim,
        "path": result.path,
        "judges": [
            {"judge": judge.name, "identity": judge.identity, "looks_for": judge.looks_for, "rows": judge.rows}
            for judge in result.judges
        ],
        "rows": result.rows,
        "judged": result.judged,
        "unjudged": result.unjudged,
        "left_alone": {why.value: result.left_alone.get(why, 0) for why in LeftAlone},
        "not_allowed": [{"judge": name, "rows": rows} for name, rows in result.not_allowed],
        "errors": [{"error": error, "rows": rows} for error, rows in result.errors],
        "verdicts": _verdicts(result.work),
        "plan": _plan_data(result.work, prices) if dry_run else None,
        "changes": [
            {"before": _WORDS[before], "after": _WORDS[after], "rows": rows}
            for (before, after), rows in sorted(result.changes.items(), key=lambda item: str(item[0]))
        ],
        "flips": [_flip(flip) for flip in result.flips],
        "rates": None if result.rates is None else _rates_data(result.rates),
    }


def _verdicts(work: Work) -> dict[str, Any]:
    return {
        "wanted": work.wanted,
        "known": work.known,
        "repeated": work.repeated,
        "asked": work.asked,
        "failed": work.failed,
        "not_kept": work.not_kept,
        "usage": _usage(work.usage),
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "requests": usage.requests,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cost": usage.cost,
    }


def _plan_data(work: Work, prices: Prices) -> dict[str, Any]:
    return {
        "requests": sum(usage.requests for usage in work.planned.values()),
        "prompt_tokens": sum(usage.prompt_tokens for usage in work.planned.values()),
        "completion_tokens": sum(usage.completion_tokens for usage in work.planned.values()),
        "models": [model or None for model in work.planned],
        "cost": planned_cost(work, prices),
    }


def _flip(flip: Flip) -> dict[str, Any]:
    return {
        "place": flip.place,
        "id": flip.id,
        "before": _WORDS[flip.before],
        "after": _WORDS[flip.after],
    }


def _rates_data(rates: Rates) -> dict[str, Any]:
    return {
        "entries": rates.entries,
        "left_out": rates.left_out,
        "families": rates.families,
        "before": estimate_data(rates.before),
        "after": estimate_data(rates.after),
        "difference": estimate_data(rates.difference),
        "gained": rates.gained,
        "lost": rates.lost,
        "p": rates.p,
    }
