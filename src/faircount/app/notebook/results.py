"""Result files in a notebook: `read` names them, and what it returns answers questions about their rows.

Nothing is read before it is asked for, and nothing stays open afterwards: every question reads the files again, large
ones through the cache. So a `Results` costs nothing, and always reflects the current files.

A notebook shows an analysis as a page would, a terminal as the command line does. In a notebook it is a piece of HTML
among other outputs: scoped, inert, readable without its style. Every text is escaped by the one function that makes
elements (`markup.tag`), as in a page. There is no script, no link, no id and nothing to load. The style hangs on the
class of the outermost element, so that it reaches nothing else; its colours are tints over those of the notebook,
whichever theme that has.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from importlib import resources
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis import problems
from faircount.analysis.export import Export, value_of
from faircount.analysis.options import AnalyzeOptions, ExportOptions
from faircount.analysis.report import as_report
from faircount.analysis.result_set import ResultSet, files_of, reading_options
from faircount.core.errors import UsageError
from faircount.core.findings import counted
from faircount.core.model import Analysis, Examples
from faircount.core.text import LONE_SURROGATES, clip, clip_middle, visible
from faircount.io.files import size_of
from faircount.io.streams import file_of, is_stored
from faircount.query import Query, parse
from faircount.query.query import text_of
from faircount.report import console
from faircount.report.blocks import Fact, Facts, Place, Record, Report, Section, number_column, table, text_column
from faircount.report.html import Article, Titled, articles_of, block_markup, heading_markup, headline_markup
from faircount.report.markup import Child, Markup, tag

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

MOST_COLUMNS = 2_000
"""A hostile file could name a new field in every row."""

SCOPE = "faircount-report"
_NO_FORMULAS = "tex2jax_ignore mathjax_ignore"
"""Keeps notebooks from taking what stands between dollar signs for a formula, which can hold links."""

_FILES_SHOWN = 10
_QUERY_SHOWN = 200
_DAMAGE = ("F001", "F002")
_HERE = Path(__file__).parent

Columns = Sequence[str] | None


def read(*paths: str | os.PathLike[str], **keywords: Any) -> Results:
    """Return the results in files, folders and globs. Names are looked up now, files are read when they are needed.

    Options are those of `open_results`.
    """
    options = reading_options(keywords)
    files = files_of(paths, options)
    for file in files:
        if not is_stored(file):
            raise UsageError(f"{file}: can be read only once; copy it to a file first")
    return Results(tuple(files), options)


class Results:
    """The rows of result files, or those that match queries. Make one with `faircount.read`."""

    def __init__(self, files: tuple[str, ...], options: AnalyzeOptions, queries: tuple[Query, ...] = ()) -> None:
        self.files = files
        self._options = options
        self._queries = queries

    @property
    def query(self) -> str | None:
        """Which rows are meant, in the language of queries; None if all are."""
        if len(self._queries) <= 1:
            return self._queries[0].text if self._queries else None
        return " and ".join(f"({query.text})" for query in self._queries)

    def where(self, query: str) -> Results:
        """Return the results whose rows also fit a query, see `docs/reference/query.md`."""
        return Results(self.files, self._options, (*self._queries, parse(query)))

    def summary(self, **options: Any) -> Summary:
        """Return the analysis of all files together, made of the chosen rows alone; it shows itself in a notebook.

        Options are those of `results analyze` for counting and display: `by`, `level`, `evidence` …
        """
        if any("outcome" in query.computed for query in self._queries):
            raise UsageError(
                "a summary derives outcomes from rows, so it cannot select rows by outcome; select by success, "
                "error or guardrail, or use to_pandas(entries=True)"
            )
        counted = replace(
            self._options, guardrail_success=options.pop("guardrail_success", self._options.guardrail_success)
        )
        figures, overview = options.setdefault("figures", True), options.get("overview", False)
        with ResultSet(self.files, counted) as results:
            found = results.analysis_set(self.query, **options)
        (analysis,) = found.analyses
        return Summary(analysis, found.evidence[analysis.name], figures=figures, overview=overview)

    # -- rows and entries ----------------------------------------------------------------------------------------

    def rows(self, columns: Columns = None) -> Iterator[dict[str, Any]]:
        """Yield the rows: what Faircount computed for each, then its fields, with lists and objects unchanged."""
        with self._table(columns, entries=False) as table:
            yield from table.dicts()
            table.warn()

    def entries(self, columns: Columns = None) -> Iterator[dict[str, Any]]:
        """Yield the entries that the rows belong to, each with its outcome and its facets."""
        with self._table(columns, entries=True) as table:
            names = [column.name for column in table.columns]
            for cells in table.rows():
                yield dict(zip(names, cells, strict=True))
            table.warn()

    def to_arrow(self, columns: Columns = None, *, entries: bool = False) -> pyarrow.Table:
        """Return the rows, or the entries that they belong to, as a table of Arrow."""
        library("pyarrow")
        with self._table(columns, entries) as table:
            return table.arrow()

    def to_pandas(self, columns: Columns = None, *, entries: bool = False) -> pandas.DataFrame:
        """Return the rows, or the entries that they belong to, as a data frame of pandas."""
        library("pandas")
        return as_pandas(self.to_arrow(columns, entries=entries))

    def to_polars(self, columns: Columns = None, *, entries: bool = False) -> polars.DataFrame:
        """Return the rows, or the entries that they belong to, as a data frame of Polars."""
        library("polars")
        return as_polars(self.to_arrow(columns, entries=entries))

    def _table(self, columns: Columns, entries: bool) -> _ResultTable:
        options = ExportOptions(
            where=self.query,
            definition=self._options.definition,
            entries=entries,
            max_line=self._options.max_line,
            cache=self._options.cache,
            policy_blocks=self._options.policy_blocks,
            columns=(columns,) if isinstance(columns, str) else tuple(columns or ()),
        )
        return _ResultTable(self.files, options)

    # -- shown ---------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        first = clip_middle(visible(self.files[0]), _QUERY_SHOWN)
        others = f" and {counted(len(self.files) - 1, 'other file')}" if len(self.files) > 1 else ""
        chosen = "" if self.query is None else f" where {clip(visible(self.query), _QUERY_SHOWN)}"
        return f"<Results of {first}{others}{chosen}>"

    def _repr_html_(self) -> str:
        shown = self.files[:_FILES_SHOWN]
        hidden = len(self.files) - len(shown)
        grid = table(
            shown,
            text_column("File", Place),
            number_column("Bytes", lambda file: size_of(file_of(file)) if is_stored(file) else None),
            note=f"And {counted(hidden, 'other file')}." if hidden else "",
        )
        chosen = "all" if self.query is None else Record(self.query)
        facts = Facts((Fact("Rows", chosen), Fact("Definition", self._options.definition)))
        title = f"Results of {counted(len(self.files), 'file')}"
        return fragment(Report((Section(title, (), level=1), Section("Files", (grid, facts)))))


class _ResultTable(Export):
    """A table of rows or entries, and what is to be told about it. Use it as a context."""

    def __enter__(self) -> _ResultTable:
        return self

    def dicts(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as the files have them, under the names of the columns."""
        for _, row, said in self._described_rows():
            yield {column.name: value_of(column, row, said) for column in self.columns}

    def arrow(self) -> pyarrow.Table:
        """Return the whole table."""
        if len(self.columns) > MOST_COLUMNS:
            raise UsageError(f"the rows have {len(self.columns):,} different fields; select some with columns=")
        made = as_table([column.name for column in self.columns], self.rows())
        self.warn(made.spelled_out)
        return made.arrow

    def warn(self, spelled_out: int = 0) -> None:
        """Warn of what is not in the table, or not as it was."""
        for finding in problems.from_reading([notes for _, notes in self.read], self.options.rules):
            if finding.code in _DAMAGE:
                _warn(f"{finding.code} {finding.message}; at {', '.join(map(visible, finding.where[:3]))}")
        if spelled_out:
            _warn(f"{counted(spelled_out, 'text')} contained lone surrogates, written as escapes such as \\ud800")
        if self.never_there:
            _warn(f"empty in every row: {', '.join(visible(name) for name in sorted(self.never_there))}")


def _warn(message: str) -> None:
    """Warn at the line that uses this package, not at one of ours."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and Path(frame.f_code.co_filename).parent == _HERE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


# -- what a notebook shows --------------------------------------------------------------------------------------


class Summary(Struct, frozen=True):
    """An analysis, with every figure as an attribute; a notebook shows it as HTML, `print` as text.

    `evidence` has entries with their texts: those asked for, and the failed cases of a run of tests.
    """

    analysis: Analysis
    evidence: tuple[Examples, ...] = ()
    figures: bool = True
    overview: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.analysis, name)

    def __str__(self) -> str:
        """Return everything, as the command line prints it."""
        return console.render(self._report(overview=self.overview)).strip("\n")

    def __repr__(self) -> str:
        """Return the overview: findings and the general figures."""
        return console.render(self._report(overview=True)).strip("\n")

    def _repr_html_(self) -> str:
        return fragment(self._report(figures=self.figures, overview=self.overview))

    def _report(self, *, figures: bool = False, overview: bool) -> Report:
        evidence = {self.analysis.name: self.evidence}
        return as_report([self.analysis], evidence=evidence, figures=figures, overview=overview)

    def _repr_mimebundle_(self, **_: object) -> Mapping[str, str]:
        """Return what notebooks may choose from."""
        return {"text/html": self._repr_html_(), "text/plain": repr(self)}


def fragment(report: Report) -> str:
    """Return the report as one element, with its style inside."""
    style = Markup(f"<style>{_css()}</style>")
    return tag("div", style, *_articles(articles_of(report.sections)), class_=f"{SCOPE} {_NO_FORMULAS}").text


@cache
def _css() -> str:
    return resources.files("faircount.app.notebook").joinpath("fragment.css").read_text(encoding="utf-8")


def _articles(articles: Sequence[Article]) -> Iterator[Markup]:
    for article in articles:
        opening: list[Child] = []
        if article.heading is not None:
            section = article.heading.section
            opening.append(heading_markup(3, section.title, section.subject))
            opening += [block_markup(block, section) for block in section.blocks]
        yield tag("article", *opening, headline_markup(article), *_sections(article.sections))


def _sections(sections: Sequence[Titled]) -> Iterator[Markup]:
    """Yield the first section open and the others folded: a notebook has other things to show."""
    for number, titled in enumerate(sections):
        section = titled.section
        blocks = [block_markup(block, section) for block in section.blocks]
        if number == 0:
            yield tag("section", *blocks)
        else:
            yield tag(
                "details", tag("summary", heading_markup(4, section.title, section.subject)), *blocks, class_="part"
            )


# -- tables -----------------------------------------------------------------------------------------------------

# Rows come one by one and are kept only as columns, a batch at a time. A column has one type for all rows: true or
# false, whole numbers of 64 bits, numbers, or text. Where its values do not fit one of these, it is text, as JSON would
# write them. What is missing or null is null.

BATCH_ROWS = 2_000
EXTRA = "pip install 'faircount[notebook]'"

_LARGEST_WHOLE = 2**63 - 1
_EXACT_AS_NUMBER = 2**53


class ColumnType(Enum):
    """What the values of a column are."""

    NOTHING = "null"
    FLAG = "bool_"
    WHOLE = "int64"
    NUMBER = "float64"
    BOTH = "whole and other numbers, kept as text until it is known whether the column holds nothing else"
    TEXT = "string"


class ColumnPart(Struct, frozen=True):
    """The values of a column in one batch."""

    kind: ColumnType
    array: Any


class ArrowTable(Struct, frozen=True):
    """An Arrow table, and how many texts in it had a lone surrogate spelled out, which UTF-8 has no bytes for."""

    arrow: pyarrow.Table
    spelled_out: int


def library(name: str) -> ModuleType:
    """Return a library that only data frames need."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        how = EXTRA if name == "pyarrow" else f"pip install {name}"
        raise UsageError(f"{name} is not installed: {how}") from error


def as_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> ArrowTable:
    """Return rows as a table whose columns have the given names; every row has a value for every column."""
    builder = _Builder(library("pyarrow"), names)
    coming = iter(rows)
    while batch := list(islice(coming, BATCH_ROWS)):
        builder.take(batch)
    return builder.table()


def as_pandas(table: pyarrow.Table) -> pandas.DataFrame:
    """Return a data frame of pandas; whole numbers, true and false stay such where some are missing."""
    module = library("pandas")
    kinds = {"int64": module.Int64Dtype(), "bool": module.BooleanDtype(), "string": module.StringDtype("pyarrow")}
    frame: pandas.DataFrame = table.to_pandas(types_mapper=lambda kind: kinds.get(str(kind)))
    return frame


def as_polars(table: pyarrow.Table) -> polars.DataFrame:
    """Return a data frame of Polars."""
    frame: polars.DataFrame = library("polars").from_arrow(table)
    return frame


class _Builder:
    """Gathers rows into columns."""

    def __init__(self, arrow: Any, names: Sequence[str]) -> None:
        self._arrow = arrow
        self._names = names
        self._columns: list[list[ColumnPart]] = [[] for _ in names]
        self._spelled_out = 0

    def take(self, rows: Sequence[Sequence[object]]) -> None:
        """Add a batch of rows."""
        for pieces, values in zip(self._columns, zip(*rows, strict=True), strict=True):
            pieces.append(self._piece(values))

    def table(self) -> ArrowTable:
        """Return all that was taken in."""
        arrays = [self._joined(pieces) for pieces in self._columns]
        names = _apart([spelled_out(name) for name in self._names])
        return ArrowTable(self._arrow.Table.from_arrays(arrays, names=names), self._spelled_out)

    def _piece(self, values: Sequence[object]) -> ColumnPart:
        kind = _kind(values)
        if kind in (ColumnType.BOTH, ColumnType.TEXT):
            return ColumnPart(kind, self._texts(values))
        return ColumnPart(kind, self._arrow.array(values, self._type(kind)))

    def _texts(self, values: Sequence[object]) -> Any:
        texts = [None if value is None else text_of(value) for value in values]
        try:
            return self._arrow.array(texts, self._arrow.string())
        except UnicodeEncodeError:
            whole = [None if text is None else spelled_out(text) for text in texts]
            self._spelled_out += sum(old != new for old, new in zip(texts, whole, strict=True))
            return self._arrow.array(whole, self._arrow.string())

    def _type(self, kind: ColumnType) -> Any:
        return getattr(self._arrow, kind.value)()

    def _joined(self, pieces: Sequence[ColumnPart]) -> Any:
        kind = _common(pieces)
        return self._arrow.chunked_array([self._converted(piece, kind) for piece in pieces], self._type(kind))

    def _converted(self, piece: ColumnPart, kind: ColumnType) -> Any:
        if piece.kind is kind or (kind is ColumnType.TEXT and piece.kind is ColumnType.BOTH):
            return piece.array
        if kind is ColumnType.TEXT and piece.kind is not ColumnType.NOTHING:
            return self._texts(piece.array.to_pylist())
        return piece.array.cast(self._type(kind))


def _kind(values: Sequence[object]) -> ColumnType:
    types = set(map(type, values)) - {type(None)}
    if not types:
        return ColumnType.NOTHING
    if types == {bool}:
        return ColumnType.FLAG
    if types == {float}:
        return ColumnType.NUMBER
    if types <= {int, float}:
        most = _LARGEST_WHOLE if types == {int} else _EXACT_AS_NUMBER
        exact = all(abs(value) <= most for value in values if type(value) is int)
        return (ColumnType.WHOLE if types == {int} else ColumnType.BOTH) if exact else ColumnType.TEXT
    return ColumnType.TEXT


def _common(pieces: Sequence[ColumnPart]) -> ColumnType:
    """Return the kind that the pieces of a column have in common; one without a value is text."""
    kinds = {piece.kind for piece in pieces} - {ColumnType.NOTHING}
    if len(kinds) == 1 and kinds != {ColumnType.BOTH}:
        return kinds.pop()
    numbers = bool(kinds) and kinds <= {ColumnType.WHOLE, ColumnType.NUMBER, ColumnType.BOTH}
    return ColumnType.NUMBER if numbers and all(map(_is_exact, pieces)) else ColumnType.TEXT


def _is_exact(piece: ColumnPart) -> bool:
    """Return whether whole numbers lose no digit if they become numbers of the other kind."""
    if piece.kind is not ColumnType.WHOLE:
        return True
    return all(value is None or abs(value) <= _EXACT_AS_NUMBER for value in piece.array.to_pylist())


def spelled_out(text: str) -> str:
    """Return a text that UTF-8 has bytes for: lone surrogates are spelled out."""
    return text if text.isascii() else LONE_SURROGATES.sub(lambda half: visible(half[0]), text)


def _apart(names: Sequence[str]) -> list[str]:
    """Return names of which no two are equal, although they may have become so."""
    apart: dict[str, None] = {}
    for name in names:
        while name in apart:
            name += "_"
        apart[name] = None
    return list(apart)
