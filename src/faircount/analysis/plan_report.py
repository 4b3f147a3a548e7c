"""The plan of a run as a report."""

from __future__ import annotations

from faircount.core.findings import counted
from faircount.report import formats
from faircount.report.blocks import (
    Fact,
    Facts,
    Paragraph,
    Place,
    Record,
    Report,
    Section,
    number_column,
    table,
    text_column,
)
from faircount.runs.plan import ANSWER_TOKENS, CHARACTERS_PER_TOKEN, Plan

_AT_MOST = "at most; attempts on an entry end with its first success"
_SHOWN = 20
"""So many entries of a dataset are shown; the JSON document has all."""


def as_report(plan: Plan) -> Report:
    """Arrange a plan: what would be sent, what that may cost, and every case."""
    unpriced = sorted({case.model for case in plan.cases if case.model and case.cost is None})
    facts = (
        Fact("Cases", len(plan.cases)),
        Fact("Requests", plan.calls, note=_AT_MOST if plan.at_most else "at least; one that fails is sent again"),
        Fact("Measurements", plan.measurements, note="each metric on each attempt"),
        Fact("Tokens of prompts, about", plan.prompt_tokens),
        Fact("Tokens of answers, about", plan.completion_tokens),
        Fact("Cost, about", formats.cost(plan.cost, unpriced)),
    )
    how = (
        f"Tokens are estimated: {CHARACTERS_PER_TOKEN} characters each, and {ANSWER_TOKENS} for an answer where a "
        "case sets no max_tokens. Requests that metrics make to models are not included."
    )
    shown = plan.cases[:_SHOWN] if plan.at_most else plan.cases
    more = "" if len(shown) == len(plan.cases) else f", of which the first {len(shown)} are shown"
    cases = table(
        shown,
        text_column("Case", lambda case: Record(case.name)),
        number_column("Attempts", lambda case: case.attempts),
        text_column("Aggregation", lambda case: case.aggregation, rank=2),
        text_column("Metrics", lambda case: Record(", ".join(case.metrics)), rank=1),
        text_column("Tags", lambda case: Record(", ".join(case.tags)), rank=4),
        number_column("Tokens, about", lambda case: case.prompt_tokens + case.completion_tokens, rank=3),
        text_column("Place", lambda case: Place(case.place), rank=5),
        note=f"{counted(len(plan.cases), 'case')}{more}.",
    )
    return Report((Section("Plan", (Facts(facts), Paragraph(how))), Section("Cases", (cases,))), plan)
