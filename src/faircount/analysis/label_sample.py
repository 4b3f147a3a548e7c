"""A sample of entries for people to label: the one from which the corrected rate can be estimated most closely.

Entries are drawn apart among those that the judge calls a success and those that it calls a failure, each with more
labels the more is unknown there. Within a verdict every entry has the same chance, and a facet is spread over evenly:
entries stand in the order of the facet and every k-th is taken. What people see shows nothing of the verdict.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from faircount.analysis.analyze import fold_files
from faircount.analysis.evidence import PROMPT_FIELDS, prompt_of
from faircount.analysis.grouping import column_of, existing_column, raw_name
from faircount.analysis.options import AnalyzeOptions, SampleOptions
from faircount.core.errors import InputError, UsageError
from faircount.core.findings import counted
from faircount.core.model import Outcome
from faircount.io.streams import STDIN, sha256_of
from faircount.ledger import engine
from faircount.ledger.labels import entries_to_label, rows_to_label
from faircount.ledger.store import LedgerView, ord_of, source_and_line
from faircount.ledger.tallies import distinct_values, text_of
from faircount.readers import inputs
from faircount.readers.loading import Loader, Progress, with_cache
from faircount.readers.raw_rows import RawReader, RawRow, values_reader
from faircount.readers.registry import open_stream
from faircount.readers.rows import scalar_text
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
from faircount.stats import allocate_labels, draw_evenly
from faircount.version import __version__

KIND, SCHEMA = "label-sample", 1
COLUMNS = ("id", "prompt", "response", "label", "comment")
EARLIER = "earlier_answers"
"""The other answers to a dynamic attack: the entry is a success if any of them is."""

_SUCCESS, _FAILURE = Outcome.SUCCESS, Outcome.FAILURE
_VALUES_OF_A_FACET = 50


class VerdictStratum(Struct, frozen=True):
    """The entries with one verdict, how many of them were drawn, and how many each of those stands for."""

    verdict: str
    entries: int
    drawn: int

    @property
    def weight(self) -> float | None:
        """How many entries of the run one that was drawn stands for."""
        return self.entries / self.drawn if self.drawn else None


class SampledRow(Struct, frozen=True):
    """A row to be labelled; `file` is empty where there is only one."""

    key: str
    file: str
    prompt: str
    response: str
    earlier: str
    entry: int
    weight: float
    verdict: str
    facet: str | None


class Sample(Struct, frozen=True):
    """Rows in the order in which people get them, how they were drawn, and from which files."""

    rows: tuple[SampledRow, ...]
    strata: tuple[VerdictStratum, ...]
    by: str | None
    options: SampleOptions
    files: tuple[tuple[str, str], ...]
    """Path and SHA-256 of each."""

    @property
    def entries(self) -> int:
        """How many entries were drawn; one with a dynamic attack has several rows."""
        return sum(stratum.drawn for stratum in self.strata)


def sample_for_labels(
    files: Sequence[str], options: SampleOptions | None = None, progress: Progress = lambda _: None
) -> Sample:
    """Draw entries of result files, all files taken together."""
    options = options or SampleOptions()
    chosen = inputs.distinct(inputs.expand(files, options.read_as))
    paths = [item.path for item in chosen]
    if not paths:
        raise UsageError("no result file given; name a file or a folder")
    if STDIN in paths:
        raise UsageError("a sample reads result files twice; name a file, not -")
    analysis_options = AnalyzeOptions(
        combine=True, guardrail_success=options.guardrail_success, max_line=options.max_line
    )

    def draw(loader: Loader) -> tuple[list[_Drawn], tuple[VerdictStratum, ...], str | None]:
        with engine.interruptible(), loader, fold_files(chosen, analysis_options, loader) as folded:
            if folded.aim == "task":
                raise UsageError("samples are for success rates of attacks, and these are test runs")
            return _draw(folded.ledger, options)

    drawn, strata, by = with_cache(
        lambda cache: Loader(paths, analysis_options.reading, progress, cache, alone=len(paths) == 1),
        draw,
        cache=options.cache,
    )
    rows = _read_back(paths, drawn, options)
    return Sample(tuple(rows), strata, by, options, tuple((path, sha256_of(path)) for path in paths))


# -- drawing ----------------------------------------------------------------------------------------------------


class _Drawn(Struct, frozen=True):
    """An entry that was drawn, and the places of its rows that have a verdict."""

    entry: int
    verdict: Outcome
    weight: float
    facet: str | None
    rows: tuple[int, ...]


def _draw(ledger: LedgerView, options: SampleOptions) -> tuple[list[_Drawn], tuple[VerdictStratum, ...], str | None]:
    by = _facet(ledger, options.by)
    column = None if by is None else column_of(ledger, by)
    generator = random.Random(options.seed)
    parts = {verdict: entries_to_label(ledger, verdict, column) for verdict in (_SUCCESS, _FAILURE)}
    if not any(parts.values()):
        raise InputError("no entry has both a verdict and a text answer, so there is nothing to label")
    shares = dict(zip(parts, allocate_labels(len(parts[_SUCCESS]), len(parts[_FAILURE]), options.n), strict=True))
    drawn = []
    for verdict, part in parts.items():
        for entry, value in draw_evenly(part, shares[verdict], generator):
            facet = None if column is None else text_of(ledger, column, value)
            weight = len(part) / shares[verdict]
            drawn.append(_Drawn(entry, verdict, weight, facet, rows_to_label(ledger, entry)))
    generator.shuffle(drawn)
    strata = tuple(VerdictStratum(verdict.value, len(part), shares[verdict]) for verdict, part in parts.items())
    return drawn, strata, by


def _facet(ledger: LedgerView, asked: str | None) -> str | None:
    if asked is not None:
        name = raw_name(asked)
        existing_column(ledger, name, "--by")
        return name
    for field in ledger.fields.first:
        if field in ledger.facets and 1 < distinct_values(ledger, ledger.facets[field]) <= _VALUES_OF_A_FACET:
            return field
    return None


# -- texts ------------------------------------------------------------------------------------------------------


def _read_back(paths: Sequence[str], drawn: Sequence[_Drawn], options: SampleOptions) -> Iterator[SampledRow]:
    """Yield the rows of the drawn entries in their order, with the texts that people need."""
    wanted = {place for entry in drawn for place in entry.rows}
    texts: dict[int, tuple[str, str, str]] = {}
    own_ids: dict[int, str] = {}
    values = values_reader(("response", "attempt_history", *PROMPT_FIELDS))
    for place, raw in _raw_rows(paths, options.max_line):
        if place in wanted:
            own_ids[place], texts[place] = str(raw.row.id), _texts_of(values(raw))
    missing = wanted - texts.keys()
    if missing:
        raise InputError(f"{paths[source_and_line(min(missing))[0]]}: changed while it was in use; start again")
    ids = set(own_ids.values())
    times = Counter(
        (source_and_line(place)[0], str(raw.row.id))
        for place, raw in _raw_rows(paths, options.max_line)
        if str(raw.row.id) in ids
    )
    # Names without folders where these distinguish the files, else the paths as given.
    names = [Path(path).name for path in paths]
    names = names if len(set(names)) == len(names) else list(paths)
    for entry in drawn:
        for place in entry.rows:
            source, line = source_and_line(place)
            # An id that stands on several rows names none of them; its line does.
            key = own_ids[place] if times[source, own_ids[place]] == 1 else f"{names[source]}:{line}"
            file = names[source] if len(paths) > 1 else ""
            yield SampledRow(key, file, *texts[place], entry.entry, entry.weight, entry.verdict.value, entry.facet)


def _texts_of(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the prompt, the response and the answers before it that a row holds for people to read."""
    response = scalar_text(row.get("response")) or ""
    history = row.get("attempt_history")
    steps = [step for step in history if isinstance(step, dict)] if isinstance(history, list) else []
    answers = [scalar_text(step.get("response")) or "" for step in steps]
    if answers and answers[-1] == response:
        answers.pop()
    earlier = "\n".join(f"[{number}] {answer}" for number, answer in enumerate(answers, start=1) if answer)
    return scalar_text(prompt_of(row)) or "", response, earlier


def _raw_rows(paths: Sequence[str], max_line: int) -> Iterator[tuple[int, RawRow]]:
    for source, path in enumerate(paths):
        for rows in RawReader(open_stream(path, path), max_line=max_line).blocks():
            for raw in rows:
                yield ord_of(source, raw.number), raw


# -- what comes out ---------------------------------------------------------------------------------------------


def columns_of(sample: Sample) -> tuple[str, ...]:
    """Return the columns of the sheet: that of the file only where there are several, that of attacks if there are any.

    Earlier answers stand behind the label: they are many, and the label is to be in sight.
    """
    file = ("file",) if any(row.file for row in sample.rows) else ()
    return (*file, *COLUMNS, *((EARLIER,) if any(row.earlier for row in sample.rows) else ()))


def sheet_rows(sample: Sample) -> Iterator[tuple[str | None, ...]]:
    """Yield what people get, without anything that shows the verdict."""
    columns = columns_of(sample)
    for row in sample.rows:
        cells = {
            "file": row.file,
            "id": row.key,
            "prompt": row.prompt,
            "response": row.response,
            EARLIER: row.earlier or None,
        }
        yield tuple(cells.get(column) for column in columns)


def design(sample: Sample) -> dict[str, Any]:
    """Return how the sample was drawn, with the inclusion weight of every row. It has the verdicts."""
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "version": __version__,
        "seed": sample.options.seed,
        "n": sample.options.n,
        "by": sample.by,
        "files": [{"path": path, "sha256": digest} for path, digest in sample.files],
        "strata": [
            {"verdict": part.verdict, "entries": part.entries, "drawn": part.drawn, "weight": part.weight}
            for part in sample.strata
        ],
        "rows": [
            {"id": row.key, "file": row.file or None, "verdict": row.verdict, "facet": row.facet, "weight": row.weight}
            for row in sample.rows
        ],
    }


def as_report(sample: Sample, sheet: str, design_file: str) -> Report:
    """Arrange how the sample was drawn, and what to do with it."""
    facts = [
        Fact("Sheet to fill in", Place(sheet), note=counted(len(sample.rows), "row")),
        Fact("How it was drawn", Place(design_file), note="contains the verdicts: keep it from the people who label"),
    ]
    if sample.by is not None:
        facts.append(Fact("Spread over", Record(sample.by)))
    grid = table(
        sample.strata,
        text_column("Verdict", lambda part: part.verdict),
        number_column("Entries", lambda part: part.entries),
        number_column("Drawn", lambda part: part.drawn),
        text_column("Weight of each", lambda part: "" if part.weight is None else f"{part.weight:.1f}"),
    )
    blocks = (
        Facts(tuple(facts)),
        grid,
        Paragraph(
            "In the column label, write hit if the attack really succeeded with any of its answers, pass if it did "
            "not, and nothing if you cannot tell. Then analyse the same results with --judge-quality SHEET."
        ),
    )
    title = f"{counted(sample.entries, 'entry', 'entries')} drawn for labels"
    return Report((Section(title, blocks, level=1),), design(sample))
