"""`judges list`: the judges that can be named, those of installed packages, and the tools whose judges can be used."""

from __future__ import annotations

import json
from inspect import Parameter
from typing import Any

from msgspec import Struct

from faircount.judging.judge import Judge
from faircount.judging.making import parameters_of
from faircount.judging.outside import is_there, version_of
from faircount.judging.registry import BUILT_IN, Plugin, plugins
from faircount.report import Block, Cell, Column, Grid, Paragraph, Place, Record, Report, Section
from faircount.version import __version__

KIND = "judges"
SCHEMA = 1
_ADAPTED = (
    ("spikee", "spikee", "spikee", 'spikee:canary(judge_args="BYPASSED")'),
    ("rebel", "rebel", "rebel-eval", "rebel:ToolCallsAccuracy(threshold=0.8)"),
    ("garak", "garak", "garak", "garak:dan.DAN"),
    ("deepeval", "deepeval", "deepeval", "deepeval:ExactMatchMetric"),
)
_HOW = (
    'Parameters follow in brackets: contains(text="BYPASSED"), any(refusal, canary), threshold(refusal, at=0.8). '
    "A judge of your own is ./file.py:Name."
)


class Takes(Struct, frozen=True):
    """A parameter of a judge. `several` stands for any number of judges; a default that is no plain data is None."""

    name: str
    required: bool
    default: Any = None
    several: bool = False

    @property
    def shown(self) -> str:
        """The parameter as it is written in an expression."""
        if self.several:
            return f"{self.name}…"
        return self.name if self.required else f"{self.name}={json.dumps(self.default, ensure_ascii=False)}"


class Listed(Struct, frozen=True):
    """A judge that can be named; `package` is None where it is built in."""

    name: str
    short: str | None
    looks_for: str
    version: str
    scores: bool
    string_matcher: bool
    parameters: tuple[Takes, ...]
    package: str | None = None


class Adapter(Struct, frozen=True):
    """Another tool whose judges can be used when its package is installed."""

    prefix: str
    package: str
    version: str | None
    example: str


class Listing(Struct, frozen=True):
    """All judges, the packages whose judges cannot be used, and the other tools."""

    judges: tuple[Listed, ...]
    plugins: tuple[Listed, ...]
    broken: tuple[Plugin, ...]
    adapters: tuple[Adapter, ...]


def list_judges() -> Listing:
    """Load every judge that is built in or offered by a package; no other tool is imported."""
    built_in = [_listed(judge.load(), judge.short) for judge in BUILT_IN]
    offered: list[Listed] = []
    broken: list[Plugin] = []
    for plugin in plugins():
        if plugin.judge is None:
            broken.append(plugin)
        else:
            offered.append(_listed(plugin.judge, None, plugin))
    adapters = [
        Adapter(prefix, package, version_of(package) if is_there(module) else None, example)
        for prefix, module, package, example in _ADAPTED
    ]
    return Listing(tuple(built_in), tuple(offered), tuple(broken), tuple(adapters))


def _listed(judge: type[Judge], short: str | None, plugin: Plugin | None = None) -> Listed:
    return Listed(
        judge.name,
        short,
        str(getattr(judge, "looks_for", "")),
        judge.version if plugin is None else plugin.version,
        bool(judge.scores),
        bool(judge.string_matcher),
        tuple(_takes(one) for one in parameters_of(judge) if one.kind is not Parameter.VAR_KEYWORD),
        None if plugin is None else plugin.package,
    )


def _takes(parameter: Parameter) -> Takes:
    several = parameter.kind is Parameter.VAR_POSITIONAL
    required = parameter.default is Parameter.empty and not several
    return Takes(parameter.name, required, None if required or several else _plain(parameter.default), several)


def _plain(value: object) -> Any:
    """Return a default as plain data, None where it is none."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        return None


# -- the report -------------------------------------------------------------------------------------------------


def as_report(listing: Listing) -> Report:
    """Arrange the judges into a report."""
    sections = [
        Section("Judges", (Paragraph(_HOW),), level=1),
        Section("Built in", (_built_in(listing.judges),)),
    ]
    if listing.plugins or listing.broken:
        sections.append(Section("From installed packages", tuple(_packages(listing))))
    sections.append(Section("Other tools' judges", (_tools(listing.adapters),)))
    return Report(tuple(sections), document(listing))


def _built_in(judges: tuple[Listed, ...]) -> Grid:
    columns = (
        Column("judge", numeric=False),
        Column("looks for", numeric=False),
        Column("parameters", rank=1, numeric=False),
        Column("full name", rank=2, numeric=False),
        Column("version", rank=3, numeric=False),
    )
    rows = tuple((one.short, one.looks_for, _parameters(one), one.name, one.version) for one in judges)
    return Grid(columns, rows)


def _packages(listing: Listing) -> list[Block]:
    blocks: list[Block] = []
    if listing.plugins:
        columns = (
            Column("judge", numeric=False),
            Column("looks for", numeric=False),
            Column("parameters", rank=1, numeric=False),
            Column("package", numeric=False),
            Column("version", rank=2, numeric=False),
        )
        rows: list[tuple[Cell, ...]] = []
        for one in listing.plugins:
            texts = (one.name, one.looks_for, _parameters(one), one.package, one.version)
            rows.append(tuple(Record(text) for text in texts))
        blocks.append(Grid(columns, tuple(rows)))
    if listing.broken:
        titles = ("cannot be used", "package", "why")
        broken = tuple((Record(one.name), Record(one.package), Record(one.error)) for one in listing.broken)
        blocks.append(Grid(tuple(Column(title, numeric=False) for title in titles), broken))
    return blocks


def _tools(adapters: tuple[Adapter, ...]) -> Grid:
    titles = ("prefix", "package", "version", "example")
    rows = tuple(
        (f"{one.prefix}:", one.package, "not installed" if one.version is None else Place(one.version), one.example)
        for one in adapters
    )
    return Grid(tuple(Column(title, numeric=False) for title in titles), rows)


def _parameters(judge: Listed) -> str:
    return ", ".join(one.shown for one in judge.parameters) or "none"


def document(listing: Listing) -> dict[str, Any]:
    """Return the whole answer of `judges list` as plain data; every key is always present."""
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "version": __version__,
        "judges": [_judge_data(one) for one in (*listing.judges, *listing.plugins)],
        "broken": [
            {"name": one.name, "package": one.package, "package_version": one.version, "error": one.error}
            for one in listing.broken
        ],
        "adapters": [
            {
                "prefix": one.prefix,
                "package": one.package,
                "installed": one.version is not None,
                "package_version": one.version,
                "example": one.example,
            }
            for one in listing.adapters
        ],
    }


def _judge_data(judge: Listed) -> dict[str, Any]:
    return {
        "name": judge.name,
        "short": judge.short,
        "package": judge.package,
        "looks_for": judge.looks_for,
        "version": judge.version,
        "scores": judge.scores,
        "string_matcher": judge.string_matcher,
        "parameters": [
            {"name": one.name, "required": one.required, "several": one.several, "default": one.default}
            for one in judge.parameters
        ],
    }
