"""The plan of a run, and the results of a bench, as reports.

A bench has one row for each run. Runs that differ in nothing but their target are compared, entry by entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.analyze import analyze_files
from faircount.analysis.compare.compare import compare_files
from faircount.analysis.compare.model import Comparison
from faircount.analysis.compare.report import in_short
from faircount.analysis.options import AnalyzeOptions, CompareOptions
from faircount.core.findings import counted
from faircount.core.model import Document, Estimate, Tally
from faircount.core.text import clip_middle, visible
from faircount.report import formats
from faircount.report.blocks import (
    Fact,
    Facts,
    Paragraph,
    Place,
    Record,
    Report,
    Section,
    TableColumn,
    number_column,
    table,
    text_column,
)
from faircount.runs.plan import ANSWER_TOKENS, CHARACTERS_PER_TOKEN, Plan

_AT_MOST = "at most; attempts on an entry end with its first success"
_SHOWN = 20
"""So many entries of a dataset are shown; the JSON document has all."""


def plan_report(plan: Plan) -> Report:
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


class BenchRun(Struct, frozen=True):
    """A run of a bench: what it is a combination of, its journal, and how it stands: "complete", "planned" ...

    The figures are None where there is nothing to analyse.
    """

    parts: Mapping[str, str]
    journal: str
    state: str
    entries: Tally | None = None
    asr: Estimate | None = None
    requests: int | None = None


class TargetsCompared(Struct, frozen=True):
    """A comparison of runs that differ in their target alone, and what they have in common."""

    parts: dict[str, str]
    comparison: Comparison


class BenchResults(Document, frozen=True, kw_only=True):
    """What became of every run, and the comparisons."""

    kind: Literal["bench"] = "bench"
    schema: Literal[1] = 1
    file: str
    runs: tuple[BenchRun, ...]
    comparisons: tuple[TargetsCompared, ...]


def bench_results(path: str, runs: Sequence[BenchRun], with_results: Sequence[str]) -> BenchResults:
    """Analyse the journals in which there is anything, and compare those that differ in their target alone."""
    options = AnalyzeOptions(cache=False, overview=True)
    analyses = {journal: analyze_files([journal], options).analyses[0] for journal in with_results}
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run in runs:
        if run.journal in analyses:
            common = tuple((role, name) for role, name in run.parts.items() if role != "target")
            groups.setdefault(common, []).append(run.journal)
    targets = {run.journal: clip_middle(visible(run.parts.get("target", run.journal)), 60) for run in runs}
    compared = {
        group: compare_files(
            journals, CompareOptions(cache=False, flips=0), labels=[targets[name] for name in journals]
        )
        for group, journals in groups.items()
        if len(journals) > 1
    }
    with_figures = [
        replace(run, entries=found.tally, asr=found.rates.asr, requests=found.attempts)
        if (found := analyses.get(run.journal)) is not None
        else run
        for run in runs
    ]
    return BenchResults(
        file=path,
        runs=tuple(with_figures),
        comparisons=tuple(TargetsCompared(dict(group), found) for group, found in compared.items()),
    )


def bench_report(results: BenchResults) -> Report:
    """Arrange a bench; `results compare` shows more of a comparison, with the entries that differ."""
    complete = sum(run.state == "complete" for run in results.runs)
    facts = Facts((Fact("Runs", len(results.runs)), Fact("complete", complete, depth=1)))
    roles = dict.fromkeys(role for run in results.runs for role in run.parts)

    def part(role: str) -> TableColumn[BenchRun]:
        return text_column(role.capitalize(), lambda run: Record(run.parts.get(role)))

    grid = table(
        results.runs,
        *map(part, roles),
        number_column("Entries", lambda run: None if run.entries is None else run.entries.total),
        number_column("Successes", lambda run: None if run.entries is None else run.entries.success),
        number_column("Rate", lambda run: run.asr),
        number_column("Errors", lambda run: None if run.entries is None else run.entries.error, rank=2),
        number_column("Blocked", lambda run: None if run.entries is None else run.entries.guardrail, rank=3),
        number_column("Requests", lambda run: run.requests, rank=4),
        text_column("State", lambda run: run.state, rank=1),
    )
    sections = [
        Section("Bench", (facts,), level=1, subject=Place(results.file)),
        Section("Runs", (grid,)),
    ]
    for compared in results.comparisons:
        claims, *more = in_short(compared.comparison)
        named = ", ".join(f"{role} {name}" for role, name in compared.parts.items())
        sections += [Section("Targets compared:", claims.blocks, subject=Record(named)), *more]
    return Report(tuple(sections), results)
