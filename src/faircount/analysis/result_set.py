"""Results that stay open: files are read once, and any number of questions is asked of them, from any thread.

What the ledger holds, it answers. Texts are read back from the files, and believed only if a line still reads as the
row that was counted.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from msgspec.structs import replace

from faircount.analysis import summary
from faircount.analysis.analyze import (
    COMBINED,
    AnalysisRequest,
    AnalysisSet,
    Folded,
    NotHeldError,
    analysis_of,
    analysis_set,
    analyze_files,
    fold_files,
    inputs_of,
    wanted_rows,
)
from faircount.analysis.evidence import READ_ONCE, lines_of
from faircount.analysis.export import (
    COMPUTED_COLUMNS,
    Export,
    all_columns,
    fields_needed,
    named_column,
    split_names,
    value_of,
)
from faircount.analysis.grouping import existing_column, find_families, raw_name
from faircount.analysis.options import AUTO, AnalyzeOptions, ExportOptions
from faircount.analysis.words import WORDS
from faircount.core.errors import InputError, UsageError
from faircount.core.model import Analysis, Source, Tally
from faircount.core.options import options_from
from faircount.core.workers import Answered
from faircount.io.streams import is_stored
from faircount.ledger import engine, row_filter, tallies
from faircount.ledger.lookup import EntriesOfRows, find_entries_of_rows, has_rows
from faircount.ledger.row_filter import ChosenRow
from faircount.ledger.store import Ledger, source_and_line
from faircount.query import Query, parse
from faircount.readers import inputs
from faircount.readers.cache import users_cache
from faircount.readers.inputs import Input
from faircount.readers.loading import Loader, Progress, parse_row_query
from faircount.readers.raw_rows import values_decoder, values_of

if TYPE_CHECKING:
    from faircount.analysis.compare.model import Comparison
    from faircount.analysis.evidence import RowTexts
    from faircount.analysis.options import CompareOptions
    from faircount.analysis.show import FoundEntries
    from faircount.stats import Design

_Names = list[str] | tuple[str, ...]
_OF_READING = (
    *("definition", "guardrail_success", "policy_blocks", "max_line", "cache"),
    *("aim", "format", "map", "success_threshold"),
)
_OWN = ("combine", "where")
_ROWS_BY = ("outcome", "file", *row_filter.NUMBERS)


def open_results(*paths: str | os.PathLike[str], progress: Progress = lambda _: None, **keywords: Any) -> ResultSet:
    """Return the results in files, folders and globs: read at the first question, and kept open. A context manager.

    Options for reading: `definition`, `guardrail_success`, `policy_blocks`, `max_line`, `cache`, `aim`,
    `format`, `map` and `success_threshold`.
    """
    options = reading_options(keywords)
    return ResultSet(files_of(paths, options), options, progress)


def reading_options(keywords: Mapping[str, Any]) -> AnalyzeOptions:
    """Return the options that say how files are read; no others are allowed."""
    _refuse_unknown(keywords, _OF_READING)
    return options_from(keywords, AnalyzeOptions)[0]  # type: ignore[no-any-return]


def _refuse_unknown(given: Iterable[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            raise TypeError(f"no such option: {name}; available: {', '.join(sorted(known))}")


def files_of(paths: Sequence[str | os.PathLike[str]], options: AnalyzeOptions) -> list[str]:
    """Return the files that names of files, folders and globs mean."""
    files: list[str] = []
    for path in paths:
        files += inputs.expand([os.fspath(path)], options.read_as)
    if not files:
        raise UsageError("no result file given: name a file, a folder or a glob")
    return files


class ResultSet:
    """The results in files, kept open for questions. It answers one question at a time, from any thread."""

    def __init__(self, files: Sequence[str], options: AnalyzeOptions, progress: Progress = lambda _: None) -> None:
        self.files = tuple(files)
        self._options = replace(options, combine=len(files) > 1)
        self._chosen, self._alone = inputs_of(files, self._options)
        self._progress = progress
        self._lock = threading.RLock()
        self._opened = contextlib.ExitStack()
        self._folded: Folded | None = None
        self._closed = self._knows_entries = self._has_verdicts = False
        self._conditions: dict[str, str] = {}
        self._analyses: dict[AnalyzeOptions, AnalysisSet] = {}

    def _open(self, *, cache: bool, alone: bool) -> Folded:
        self._folded, self._knows_entries = None, False
        self._conditions.clear()
        self._opened.close()
        kept = users_cache(wanted=cache)
        with contextlib.ExitStack() as opening:
            paths = [item.path for item in self._chosen]
            reading = replace(self._options.reading, verdicts=self._has_verdicts)
            self._loader = opening.enter_context(Loader(paths, reading, self._progress, kept, alone=alone))
            self._folded = opening.enter_context(fold_files(self._chosen, self._options, self._loader))
            self._loader.end_workers()
            self._opened = opening.pop_all()
        return self._folded

    def close(self) -> None:
        """Give the memory back. Nothing can be asked any more."""
        with self._lock:
            self._closed = True
            self._opened.close()

    def __enter__(self) -> ResultSet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(
        self, question: Callable[[Folded], Answered], *, of_rows: bool = False, of_verdicts: bool = False
    ) -> Answered:
        of_rows |= of_verdicts
        with self._lock, engine.interruptible():
            if self._closed:
                raise UsageError("the results are closed; open them again")
            if of_verdicts and not self._has_verdicts:
                if self._folded is not None:
                    self._refuse_streams()
                self._folded, self._has_verdicts = None, True
            try:
                folded = self._folded or self._open(cache=self._options.cache, alone=self._alone and not of_rows)
                if of_rows:
                    folded = self._with_rows(folded)
                return question(folded)
            except engine.module().Error:
                # Somebody may have deleted what the cache had of a file.
                if not self._loader.used_cache:
                    raise
                folded = self._open(cache=False, alone=False)
                return question(self._with_rows(folded) if of_rows else folded)

    def ask(
        self, question: Callable[[Folded], Answered], *, where: str | None = None, verdicts: bool = False
    ) -> Answered:
        """Ask a question of the ledger; with `where`, one that needs the rows of its entries, see `entries_with`.

        `verdicts` are those of all judges, for which a file is read again if it was read without them.
        """
        return self._ask(question, of_rows=where is not None, of_verdicts=verdicts)

    def entries_with(self, folded: Folded, where: str) -> str:
        """Return the condition that at least one row of an entry `e` fits a query."""
        return row_filter.condition_of_entries(self._condition(folded, where))

    @property
    def options(self) -> AnalyzeOptions:
        """How the files are read and counted."""
        return self._options

    @property
    def chosen(self) -> Sequence[Input]:
        """The files, each once."""
        return self._chosen

    def _with_rows(self, folded: Folded) -> Folded:
        """Return the ledger with its rows, each with its entry; the cache may have only what they fold into."""
        if self._knows_entries:
            return folded
        if not has_rows(folded.ledger):
            folded = self._open(cache=self._options.cache, alone=False)
        find_entries_of_rows(folded.ledger, self._options.rules)
        self._knows_entries = True
        return folded

    # -- counts --------------------------------------------------------------------------------------------------

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files that were read, and how their lines were read."""
        return self._ask(lambda folded: folded.sources)

    @overload
    def tally(self, by: None = None, where: str | None = None) -> Tally: ...

    @overload
    def tally(self, by: str, where: str | None = None) -> dict[str | None, Tally]: ...

    @overload
    def tally(self, by: _Names, where: str | None = None) -> dict[tuple[str | None, ...], Tally]: ...

    def tally(self, by: str | _Names | None = None, where: str | None = None) -> Any:
        """Count entries by outcome: all of them, or those of each value of a field, or of some fields together.

        `where` leaves only entries of which at least one row fits the query.
        """
        names = [by] if isinstance(by, str) else by or ()

        def question(folded: Folded) -> dict[tuple[str | None, ...], Tally]:
            ledger = folded.ledger
            source = "entry" if where is None else row_filter.entries_with(self._condition(folded, where))
            columns = [
                tallies.SOURCE if name == "file" else existing_column(ledger, raw_name(name), "by") for name in names
            ]
            found = tallies.by_values(ledger, columns, source)
            return {value: summary.as_defined(counts, self._options).tally for value, counts in found.items()}

        found = self._ask(question, of_rows=where is not None)
        if by is None:
            return found.get((), Tally())
        return {value: tally for (value,), tally in found.items()} if isinstance(by, str) else found

    def analysis(self, where: str | None = None, **keywords: Any) -> Analysis:
        """Return every figure over all files together, or over the rows that a query chooses."""
        return self.analysis_set(where, **keywords).analyses[0]

    def analysis_set(self, where: str | None = None, **keywords: Any) -> AnalysisSet:
        """Return the analysis over all files together, and the entries with their texts that were asked for."""
        _refuse_unknown(keywords, set(AnalyzeOptions.__struct_fields__) - {*_OF_READING, *_OWN})
        shown = {name: bool(keywords.pop(name)) for name in ("details", "figures") if name in keywords}
        (asked,) = options_from(keywords, AnalyzeOptions, given=replace(self._options, where=where, **shown))
        query = None if where is None else parse_row_query(where)
        if asked.false_positive_checks is not None:
            self._refuse_streams()
            return analyze_files(self.files, asked)

        def question(folded: Folded) -> AnalysisSet:
            if asked not in self._analyses:
                with self._only(folded, query, asked.judge) as chosen:
                    name = COMBINED if asked.combine else self._chosen[0].path
                    found = analysis_of(AnalysisRequest.of(self._chosen, asked), chosen, asked, name, self._loader)
                self._analyses[asked] = analysis_set([found], self.files)
            return self._analyses[asked]

        try:
            return self._ask(question, of_rows=query is not None, of_verdicts=asked.wants_verdicts)
        except NotHeldError:
            self._refuse_streams()
            return analyze_files(self.files, asked)

    @contextlib.contextmanager
    def _only(self, folded: Folded, query: Query | None, judge: str | None = None) -> Iterator[Folded]:
        """Give the rows that a query chooses, with the verdicts of a judge, folded as if there were no others."""
        if query is None and judge is None:
            yield folded
            return
        with wanted_rows(_whole(folded), folded.read, query, judge, folded=True) as (ledger, read):
            ledger.fold(self._options.rules, combined=self._options.combine)
            yield Folded(ledger, tuple(read))

    def design(self, cluster: str = AUTO, level: float = 0.95) -> Design:
        """Return how rates over the entries are to be estimated, with the families that `cluster` names."""

        def question(folded: Folded) -> Design:
            counts = summary.overall(folded.ledger, self._options)
            return find_families(folded.ledger, counts, cluster, level, WORDS[folded.aim]).design

        return self._ask(question)

    def compare(self, other: ResultSet, *, options: CompareOptions | None = None, **keywords: Any) -> Comparison:
        """Compare one file with one other on the entries that they share; options are those of `CompareOptions`."""
        from faircount.analysis.compare.compare import compare_sides
        from faircount.analysis.compare.pairing import Side
        from faircount.analysis.options import CompareOptions

        counted = self._options
        read = ("guardrail_success", "max_line", "policy_blocks")
        given = options or CompareOptions(**{name: getattr(counted, name) for name in read})
        (asked,) = options_from(keywords, CompareOptions, given=given)

        def question(both: Sequence[Folded]) -> Comparison:
            if any(len(one.sources) > 1 for one in both):
                raise UsageError("a comparison needs two sets of one file each")
            with self._only(both[0], None, asked.judge) as one, other._only(both[1], None, asked.judge) as another:
                return compare_sides([Side(one), Side(another)], asked)

        return ask_together([self, other], question, of_rows=True, of_verdicts=asked.judge is not None)

    # -- rows and texts ------------------------------------------------------------------------------------------

    def rows(
        self,
        where: str | None = None,
        columns: str | Sequence[str] = (),
        sort: str | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return rows: what Faircount computed for each, then its fields, with lists and objects unchanged.

        `sort` names outcome, file, line, attempts, response_time or a facet, with - before it for the reverse.
        """
        named = [named_column(name) for name in split_names([columns] if isinstance(columns, str) else columns)]
        field, descending = (sort or "").removeprefix("-"), (sort or "").startswith("-")

        def question(folded: Folded) -> list[dict[str, Any]]:
            ledger = _whole(folded)
            if field and field not in _ROWS_BY and field not in ledger.facets:
                available = ", ".join([*_ROWS_BY, *sorted(ledger.facets)])
                raise UsageError(f"sort {field}: no such field; available: {available}")
            condition = None if where is None else self._condition(folded, where)
            found = row_filter.chosen_rows(
                ledger, condition, field or None, descending=descending, offset=offset, limit=limit
            )
            needed = fields_needed(named) if named else None
            decoder = values_decoder(needed)
            lines = itertools.repeat(b"{}", len(found)) if needed == frozenset() else self._lines(folded, found)
            values = [values_of(line, decoder) for line in lines]
            chosen = named or all_columns(COMPUTED_COLUMNS, dict.fromkeys(name for row in values for name in row))
            return [
                {column.name: value_of(column, fields_of_row, _computed_fields(ledger, row)) for column in chosen}
                for row, fields_of_row in zip(found, values, strict=True)
            ]

        return self._ask(question, of_rows=True)

    def entry(self, name: str) -> FoundEntries:
        """Return the entries that have an id, a row's own id or a long id, with all that is recorded of them."""
        from faircount.analysis.options import ShowOptions
        from faircount.analysis.show import entries_in

        options = ShowOptions(max_line=self._options.max_line, policy_blocks=self._options.policy_blocks)
        return self._ask(lambda folded: entries_in(folded, self._chosen, name, options))

    def text(self, location: str) -> RowTexts:
        """Return what the row at `file:line` holds, with secrets masked."""
        from faircount.analysis.evidence import recorded

        path, _, line = location.rpartition(":")

        def question(folded: Folded) -> RowTexts:
            ledger, found = _whole(folded), []
            if path in ledger.paths and line.isdecimal():
                place = row_filter.condition_of_place(ledger.ord(ledger.paths.index(path), int(line)))
                found = row_filter.chosen_rows(ledger, place)
            if not found:
                raise UsageError(f"{location}: no such row")
            return recorded(self._lines(folded, found)[0], policy_blocks=self._options.policy_blocks)

        return self._ask(question, of_rows=True)

    def _lines(self, folded: Folded, rows: Sequence[ChosenRow]) -> list[bytes]:
        """Read rows back; raise if any of them is not there any more."""
        found = lines_of(folded.ledger, folded.read, rows, self._options.max_line)
        for row in rows:
            if isinstance(reason := found[row.ord], str):
                raise InputError(f"{folded.ledger.place(row.ord)}: {reason}")
        return [line for row in rows if isinstance(line := found[row.ord], bytes)]

    def _condition(self, folded: Folded, where: str) -> str:
        """Return a query as a condition: by what the ledger holds, or else by reading the files."""
        if where not in self._conditions:
            ledger, query = _whole(folded), parse(where)
            found = row_filter.condition_of(ledger, query, ledger.fields.facets)
            self._conditions[where] = found or row_filter.condition_of_places(ledger, self._places(ledger, where))
        return self._conditions[where]

    def _refuse_streams(self) -> None:
        for path in self.files:
            if not is_stored(path):
                raise UsageError(f"{path}: {READ_ONCE}, and this question reads the files again; name a file")

    def _places(self, ledger: Ledger, where: str) -> list[int]:
        self._refuse_streams()
        options = self._options
        asked = ExportOptions(where=where, definition=options.definition, max_line=options.max_line)
        with Export(ledger.paths, asked) as export:
            known = EntriesOfRows(ledger, options.rules)
            sources = [ledger.paths.index(item.path) for item in export.inputs]
            return [ledger.ord(sources[source], line) for source, line in map(source_and_line, export.places(known))]


def ask_together(
    results: Sequence[ResultSet],
    question: Callable[[Sequence[Folded]], Answered],
    *,
    of_rows: bool = False,
    of_verdicts: bool = False,
) -> Answered:
    """Ask a question of several sets at once; nobody else asks any of them meanwhile."""

    def ask(folded: Sequence[Folded]) -> Answered:
        if len(folded) == len(results):
            return question(folded)
        following = results[len(folded)]
        return following._ask(lambda one: ask([*folded, one]), of_rows=of_rows, of_verdicts=of_verdicts)

    # Threads that ask the same sets, each in its own order, take their locks in one order: none waits for ever.
    with contextlib.ExitStack() as locks:
        for one in sorted(results, key=id):
            locks.enter_context(one._lock)
        return ask([])


def _whole(folded: Folded) -> Ledger:
    assert isinstance(folded.ledger, Ledger)
    return folded.ledger


def _computed_fields(ledger: Ledger, row: ChosenRow) -> dict[str, object]:
    path = ledger.paths[row.source]
    return {"file": path, "line": row.line, "strategy": row.strategy, "outcome": row.outcome.value}
