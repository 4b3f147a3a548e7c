"""Result files in a notebook: `read` names them, and what it returns answers questions about their rows.

Nothing is read before it is asked for, and nothing stays open afterwards: every question reads the files again, large
ones through the cache. So a `Results` costs nothing, and tells of the files as they are now.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from faircount.analysis import problems
from faircount.analysis.export import Export, value_of
from faircount.analysis.options import AnalyzeOptions, ExportOptions
from faircount.analysis.result_set import ResultSet, files_of, reading_options
from faircount.app.notebook import tables
from faircount.app.notebook.summary import Summary, fragment
from faircount.core.errors import UsageError
from faircount.core.findings import counted
from faircount.core.text import clip, clip_middle, visible
from faircount.query import Query, parse
from faircount.report.blocks import Fact, Facts, Place, Record, Report, Section, number_column, table, text_column

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

MOST_COLUMNS = 2_000
"""A hostile file could name a new field in every row."""

_FILES_SHOWN = 10
_QUERY_SHOWN = 200
_DAMAGE = ("F001", "F002")
_HERE = Path(__file__).parent

Columns = Sequence[str] | None


def read(*paths: str | os.PathLike[str], **keywords: Any) -> Results:
    """Return the results in files, folders and globs. Names are looked up now, files are read when they are needed.

    Options say how, as for `open_results`.
    """
    options, files = reading_options(keywords), files_of(paths)
    for file in files:
        if not Path(file).is_file():
            raise UsageError(f"{file}: can be read only once; copy it to a file first")
    return Results(tuple(files), options)


class Results:
    """The rows of result files, or those among them for which queries hold. Make one with `faircount.read`."""

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

        Options are those of `results analyze` that say what to count and what to show: `by`, `level`, `evidence` …
        """
        self._refuse_outcomes()
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
        """Yield the rows: what Faircount says of each, then its fields, with lists and objects as they are."""
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
        tables.library("pyarrow")
        with self._table(columns, entries) as table:
            return table.arrow()

    def to_pandas(self, columns: Columns = None, *, entries: bool = False) -> pandas.DataFrame:
        """Return the rows, or the entries that they belong to, as a data frame of pandas."""
        tables.library("pandas")
        return tables.as_pandas(self.to_arrow(columns, entries=entries))

    def to_polars(self, columns: Columns = None, *, entries: bool = False) -> polars.DataFrame:
        """Return the rows, or the entries that they belong to, as a data frame of Polars."""
        tables.library("polars")
        return tables.as_polars(self.to_arrow(columns, entries=entries))

    def _table(self, columns: Columns, entries: bool) -> _Table:
        options = ExportOptions(
            where=self.query,
            definition=self._options.definition,
            entries=entries,
            max_line=self._options.max_line,
            cache=self._options.cache,
            policy_blocks=self._options.policy_blocks,
            columns=(columns,) if isinstance(columns, str) else tuple(columns or ()),
        )
        return _Table(self.files, options)

    def _refuse_outcomes(self) -> None:
        if any("outcome" in query.computed for query in self._queries):
            raise UsageError(
                "a summary derives outcomes from rows, so it cannot select rows by outcome; select by success, "
                "error or guardrail, or use to_pandas(entries=True)"
            )

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
            number_column("Bytes", lambda file: Path(file).stat().st_size if Path(file).is_file() else None),
            note=f"And {counted(hidden, 'other file')}." if hidden else "",
        )
        chosen = "all" if self.query is None else Record(self.query)
        facts = Facts((Fact("Rows", chosen), Fact("Definition", self._options.definition)))
        title = f"Results of {counted(len(self.files), 'file')}"
        return fragment(Report((Section(title, (), level=1), Section("Files", (grid, facts)))))


class _Table(Export):
    """A table of rows or entries, and what is to be told about it. Use it as a context."""

    def __enter__(self) -> _Table:
        return self

    def dicts(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as the files have them, under the names of the columns."""
        for _, row, said in self._told_rows():
            yield {column.name: value_of(column, row, said) for column in self.columns}

    def arrow(self) -> pyarrow.Table:
        """Return the whole table."""
        if len(self.columns) > MOST_COLUMNS:
            raise UsageError(f"the rows have {len(self.columns):,} different fields; select some with columns=")
        made = tables.as_table([column.name for column in self.columns], self.rows())
        self.warn(made.spelled_out)
        return made.arrow

    def warn(self, spelled_out: int = 0) -> None:
        """Warn of what is not in the table, or not as it was."""
        for finding in problems.from_reading([notes for _, notes in self.read], definition=self.options.definition):
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
