"""`judges list`: the judges that can be named, those of installed packages, and the tools whose judges can be used."""

from __future__ import annotations

from inspect import Parameter
from typing import Literal

from msgspec import Struct

from faircount.analysis import offered
from faircount.components.registry import Plugin
from faircount.judging.factory import parameters_of
from faircount.judging.judge import Judge
from faircount.judging.registry import JUDGES
from faircount.model import Document
from faircount.report import Grid, Paragraph, Record, Report, Section, table, text_column

_ADAPTED = (
    ("spikee", "spikee", "spikee", 'spikee:canary(judge_args="BYPASSED")'),
    ("rebel", "rebel", "rebel-eval", "rebel:ToolCallsAccuracy(threshold=0.8)"),
    ("garak", "garak", "garak", "garak:dan.DAN"),
    ("deepeval", "deepeval", "deepeval", "deepeval:AnswerRelevancyMetric(threshold=0.7)"),
)
"""Prefix, module and package of each tool, and a judge that every version of it has."""
_HOW = (
    'Parameters go in brackets: contains(text="BYPASSED"), any(refusal, canary), threshold(refusal, at=0.8). '
    "For a judge of your own: ./file.py:Name."
)


class ListedJudge(Struct, frozen=True):
    """A judge that can be named; `package` is None where it is built in."""

    name: str
    short: str | None
    package: str | None
    looks_for: str
    version: str
    scores: bool
    string_matcher: bool
    parameters: tuple[offered.ListedParameter, ...]


class Judges(Document, frozen=True, kw_only=True):
    """All judges, those of packages that cannot be used, and the other tools."""

    kind: Literal["judges"] = "judges"
    schema: Literal[1] = 1
    judges: tuple[ListedJudge, ...]
    broken: tuple[offered.Broken, ...]
    adapters: tuple[offered.Tool, ...]


def list_judges() -> Judges:
    """Load every judge that is built in or offered by a package; no other tool is imported."""
    built_in = [_listed(judge.load(), judge.short) for judge in JUDGES.known]
    usable, broken = offered.sorted_out(JUDGES.every())
    return Judges(
        judges=(*built_in, *(_listed(judge, None, plugin) for judge, plugin in usable)),
        broken=broken,
        adapters=tuple(offered.tool(*words) for words in _ADAPTED),
    )


def _listed(judge: type[Judge], short: str | None, plugin: Plugin[Judge] | None = None) -> ListedJudge:
    return ListedJudge(
        judge.name,
        short,
        None if plugin is None else plugin.package,
        str(getattr(judge, "looks_for", "")),
        judge.version if plugin is None else plugin.version,
        bool(judge.scores),
        bool(judge.string_matcher),
        tuple(offered.takes(one) for one in parameters_of(judge) if one.kind is not Parameter.VAR_KEYWORD),
    )


# -- the report -------------------------------------------------------------------------------------------------


def as_report(listing: Judges) -> Report:
    """Arrange the judges into a report."""
    sections = (
        Section("Judges", (Paragraph(_HOW),), level=1),
        Section("Built in", (_built_in(listing.judges),)),
        *offered.packages(_of_packages(listing.judges), listing.broken),
        Section("Other tools' judges", (offered.tools(listing.adapters),)),
    )
    return Report(sections, listing)


def _built_in(judges: tuple[ListedJudge, ...]) -> Grid:
    return table(
        [one for one in judges if one.package is None],
        text_column("judge", lambda one: one.short),
        text_column("looks for", lambda one: one.looks_for),
        text_column("parameters", lambda one: offered.shown(one.parameters), rank=1),
        text_column("full name", lambda one: one.name, rank=2),
        text_column("version", lambda one: one.version, rank=3),
    )


def _of_packages(judges: tuple[ListedJudge, ...]) -> Grid:
    """Return what packages offer; all of it is anybody's text."""
    return table(
        [one for one in judges if one.package is not None],
        text_column("judge", lambda one: Record(one.name)),
        text_column("looks for", lambda one: Record(one.looks_for)),
        text_column("parameters", lambda one: Record(offered.shown(one.parameters)), rank=1),
        text_column("package", lambda one: Record(one.package)),
        text_column("version", lambda one: Record(one.version), rank=2),
    )
