"""A bench arranged into a report: one row for each run, then the targets compared with each other.

Runs that differ in nothing but their target are compared, entry by entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.analyze import analyze_files
from faircount.analysis.compare.compare import compare_files
from faircount.analysis.compare.model import Comparison
from faircount.analysis.compare.report import in_short
from faircount.analysis.options import AnalyzeOptions, CompareOptions
from faircount.core.model import Analysis, Document, Estimate, Tally
from faircount.core.text import clip_middle, visible
from faircount.report.blocks import Fact, Facts, Grid, Place, Record, Report, Section, number_column, table, text_column


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
    return BenchResults(
        file=path,
        runs=tuple(_with_figures(run, analyses.get(run.journal)) for run in runs),
        comparisons=tuple(TargetsCompared(dict(group), found) for group, found in compared.items()),
    )


def _with_figures(run: BenchRun, analysis: Analysis | None) -> BenchRun:
    if analysis is None:
        return run
    return replace(run, entries=analysis.tally, asr=analysis.rates.asr, requests=analysis.attempts)


def as_report(results: BenchResults) -> Report:
    """Arrange a bench; `results compare` shows more of a comparison, with the entries that differ."""
    sections = [
        Section("Bench", (_facts(results),), level=1, subject=Place(results.file)),
        Section("Runs", (_grid(results),)),
    ]
    for compared in results.comparisons:
        claims, *more = in_short(compared.comparison)
        named = ", ".join(f"{role} {name}" for role, name in compared.parts.items())
        sections += [Section("Targets compared:", claims.blocks, subject=Record(named)), *more]
    return Report(tuple(sections), results)


def _facts(results: BenchResults) -> Facts:
    complete = sum(run.state == "complete" for run in results.runs)
    return Facts((Fact("Runs", len(results.runs)), Fact("complete", complete, depth=1)))


def _grid(results: BenchResults) -> Grid:
    roles = dict.fromkeys(role for run in results.runs for role in run.parts)
    return table(
        results.runs,
        *(text_column(role.capitalize(), _part(role)) for role in roles),
        number_column("Entries", lambda run: None if run.entries is None else run.entries.total),
        number_column("Successes", lambda run: None if run.entries is None else run.entries.success),
        number_column("Rate", lambda run: run.asr),
        number_column("Errors", lambda run: None if run.entries is None else run.entries.error, rank=2),
        number_column("Blocked", lambda run: None if run.entries is None else run.entries.guardrail, rank=3),
        number_column("Requests", lambda run: run.requests, rank=4),
        text_column("State", lambda run: run.state, rank=1),
    )


def _part(role: str) -> Callable[[BenchRun], Record]:
    return lambda run: Record(run.parts.get(role))
