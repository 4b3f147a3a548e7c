"""What became of rejudged files as plain data; every key is always present. It holds no prompts and responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faircount.analysis.document import estimate_data, source_data
from faircount.analysis.rejudging.changes import Flip, Rates
from faircount.analysis.rejudging.options import RejudgeOptions
from faircount.analysis.rejudging.rejudge import Rejudged, Work
from faircount.analysis.rejudging.rows import LeftAlone
from faircount.chat.prices import Prices
from faircount.judging.verdict import Usage
from faircount.version import __version__

KIND = "rejudge"
SCHEMA = 1
_WORDS = {True: "success", False: "failure", None: "unjudged"}


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
        "plan": _plan(result.work, prices) if dry_run else None,
        "changes": [
            {"before": _WORDS[before], "after": _WORDS[after], "rows": rows}
            for (before, after), rows in sorted(result.changes.items(), key=lambda item: str(item[0]))
        ],
        "flips": [_flip(flip) for flip in result.flips],
        "rates": None if result.rates is None else _rates(result.rates),
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


def _plan(work: Work, prices: Prices) -> dict[str, Any]:
    return {
        "requests": sum(usage.requests for usage in work.planned.values()),
        "prompt_tokens": sum(usage.prompt_tokens for usage in work.planned.values()),
        "completion_tokens": sum(usage.completion_tokens for usage in work.planned.values()),
        "models": [model or None for model in work.planned],
        "cost": planned_cost(work, prices),
    }


def _flip(flip: Flip) -> dict[str, Any]:
    told = flip.told.own_id
    return {
        "place": flip.place,
        "id": None if told is None else told.text,
        "before": _WORDS[flip.before],
        "after": _WORDS[flip.after],
    }


def _rates(rates: Rates) -> dict[str, Any]:
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
