"""A bench arranged into a report: one row for each run, then the targets compared with each other.

Runs that differ in nothing but their target are compared, entry by entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from faircount.analysis.comparing.compare import compare_files
from faircount.analysis.comparing.document import document as comparison_document
from faircount.analysis.comparing.found import Comparison
from faircount.analysis.comparing.options import CompareOptions
from faircount.analysis.comparing.report import in_short
from faircount.analysis.document import estimate_data
from faircount.analysis.options import AnalyzeOptions
from faircount.analysis.results import analyze
from faircount.model import Analysis
from faircount.report import Cell, Column, Fact, Facts, Grid, Place, Record, Report, Section
from faircount.text import clip_middle, visible
from faircount.version import __version__

KIND, SCHEMA = "bench", 1
_FIGURES = (
    Column("Entries"),
    Column("Successes"),
    Column("Rate"),
    Column("Errors", rank=2),
    Column("Blocked", rank=3),
    Column("Requests", rank=4),
    Column("State", rank=1, numeric=False),
)


class BenchRun(Struct, frozen=True):
    """A run of a bench: what it is a combination of, its journal, and how it stands: "complete", "planned" ..."""

    parts: Mapping[str, str]
    journal: str
    state: str

    @property
    def group(self) -> tuple[tuple[str, str], ...]:
        """What it has in common with the runs that it is compared with."""
        return tuple((role, name) for role, name in self.parts.items() if role != "target")


class BenchResults(Struct, frozen=True):
    """What became of every run, with its analysis where there is anything to analyse, and the comparisons."""

    path: str
    runs: tuple[BenchRun, ...]
    analyses: Mapping[str, Analysis]
    comparisons: tuple[tuple[tuple[tuple[str, str], ...], Comparison], ...]


def bench_results(path: str, runs: Sequence[BenchRun], with_results: Sequence[str]) -> BenchResults:
    """Analyse the journals in which there is anything, and compare those that differ in their target alone."""
    options = AnalyzeOptions(cache=False, overview=True)
    analyses = {journal: analyze([journal], options).analyses[0] for journal in with_results}
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run in runs:
        if run.journal in analyses:
            groups.setdefault(run.group, []).append(run.journal)
    targets = {run.journal: clip_middle(visible(run.parts.get("target", run.journal)), 60) for run in runs}
    comparisons = tuple(
        (
            group,
            compare_files(journals, CompareOptions(cache=False, flips=0), labels=[targets[name] for name in journals]),
        )
        for group, journals in groups.items()
        if len(journals) > 1
    )
    return BenchResults(path, tuple(runs), analyses, comparisons)


def as_report(results: BenchResults) -> Report:
    """Arrange a bench; `results compare` shows more of a comparison, with the entries that differ."""
    sections = [
        Section("Bench", (_facts(results),), level=1, subject=Place(results.path)),
        Section("Runs", (_grid(results),)),
    ]
    for group, comparison in results.comparisons:
        claims, *more = in_short(comparison)
        sections += [Section("Targets compared:", claims.blocks, subject=Record(_named(group))), *more]
    return Report(tuple(sections), document(results))


def _named(group: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{role} {name}" for role, name in group)


def _facts(results: BenchResults) -> Facts:
    complete = sum(run.state == "complete" for run in results.runs)
    return Facts((Fact("Runs", len(results.runs)), Fact("complete", complete, depth=1)))


def _roles(results: BenchResults) -> tuple[str, ...]:
    return tuple(dict.fromkeys(role for run in results.runs for role in run.parts))


def _grid(results: BenchResults) -> Grid:
    roles = _roles(results)
    columns = (*(Column(role.capitalize(), numeric=False) for role in roles), *_FIGURES)
    return Grid(columns, tuple(_row(run, roles, results.analyses.get(run.journal)) for run in results.runs))


def _row(run: BenchRun, roles: Sequence[str], analysis: Analysis | None) -> tuple[Cell, ...]:
    names: tuple[Cell, ...] = tuple(Record(run.parts.get(role)) for role in roles)
    if analysis is None:
        return (*names, None, None, None, None, None, None, run.state)
    tally = analysis.tally
    figures: tuple[Cell, ...] = (tally.total, tally.success, analysis.asr, tally.error, tally.guardrail)
    return (*names, *figures, analysis.attempts, run.state)


def document(results: BenchResults) -> dict[str, Any]:
    """Return the whole answer of `bench` as plain data; every key is always present."""
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "version": __version__,
        "file": results.path,
        "runs": [_run_data(run, results.analyses.get(run.journal)) for run in results.runs],
        "comparisons": [
            {"parts": dict(group), "comparison": comparison_document(comparison)}
            for group, comparison in results.comparisons
        ],
    }


def _run_data(run: BenchRun, analysis: Analysis | None) -> dict[str, Any]:
    told: dict[str, Any] = {"parts": dict(run.parts), "journal": run.journal, "state": run.state}
    if analysis is None:
        return {**told, "entries": None, "asr": None, "requests": None}
    tally = analysis.tally
    entries = {name: getattr(tally, name) for name in tally.__struct_fields__}
    return {**told, "entries": entries, "asr": estimate_data(analysis.asr), "requests": analysis.attempts}
