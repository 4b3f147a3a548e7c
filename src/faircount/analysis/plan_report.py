"""The plan of a run as a report."""

from __future__ import annotations

from faircount.findings import counted
from faircount.report import Column, Fact, Facts, Grid, Paragraph, Place, Record, Report, Section
from faircount.running.planning import ANSWER_TOKENS, CHARACTERS_PER_TOKEN, Plan, PlannedCase

_COLUMNS = (
    Column("Case", numeric=False),
    Column("Attempts"),
    Column("Aggregation", rank=2, numeric=False),
    Column("Metrics", rank=1, numeric=False),
    Column("Tags", rank=4, numeric=False),
    Column("Tokens, about", rank=3),
    Column("Place", rank=5, numeric=False),
)
_AT_MOST = "at most; attempts on an entry end with its first success"
_SHOWN = 20
"""So many entries of a dataset are shown; the JSON document has all."""


def as_report(plan: Plan) -> Report:
    """Arrange a plan: what would be sent, what that may cost, and every case."""
    facts = (
        Fact("Cases", len(plan.cases)),
        Fact("Requests", plan.calls, note=_AT_MOST if plan.at_most else "at least; one that fails is sent again"),
        Fact("Measurements", plan.measurements, note="each metric on each attempt"),
        Fact("Tokens of prompts, about", plan.prompt_tokens),
        Fact("Tokens of answers, about", plan.completion_tokens),
        Fact("Cost, about", _cost(plan)),
    )
    how = (
        f"Tokens are estimated: {CHARACTERS_PER_TOKEN} characters each, and {ANSWER_TOKENS} for an answer where a "
        "case sets no max_tokens. Requests that metrics make to models are not included."
    )
    shown = plan.cases[:_SHOWN] if plan.at_most else plan.cases
    more = "" if len(shown) == len(plan.cases) else f", of which the first {len(shown)} are shown"
    grid = Grid(_COLUMNS, tuple(_row(case) for case in shown), note=f"{counted(len(plan.cases), 'case')}{more}.")
    return Report((Section("Plan", (Facts(facts), Paragraph(how))), Section("Cases", (grid,))), plan)


def _cost(plan: Plan) -> str:
    if plan.cost is not None:
        return f"{plan.cost:.4f}"
    models = sorted({case.model for case in plan.cases if case.model and case.cost is None})
    if not models:
        return "unknown: no model is named, see --model"
    return f"unknown: no price for {', '.join(models)}; give it in --config, under [prices]"


def _row(case: PlannedCase) -> tuple[Record | Place | str | int, ...]:
    return (
        Record(case.name),
        case.attempts,
        case.aggregation,
        Record(", ".join(case.metrics)),
        Record(", ".join(case.tags)),
        case.prompt_tokens + case.completion_tokens,
        Place(case.place),
    )
