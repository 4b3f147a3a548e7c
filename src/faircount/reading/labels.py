"""Labelled data: attempts with what people said of them, read again whenever they are wanted.

    JSONL or CSV            one record an item: a response, perhaps a prompt, and one or more labels
    results and labels      responses from result files; the labels name their rows

Nothing is kept but counts, so that a set of labels may be of any size. Labels are read as data: no code that a file
names is loaded, and no text of theirs reaches a terminal from here.
"""

from __future__ import annotations

import functools
import math
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, ClassVar

from faircount.errors import InputError, UsageError
from faircount.interrupts import uninterrupted
from faircount.reading import inputs
from faircount.reading.label_columns import find_columns
from faircount.reading.label_fields import more_columns
from faircount.reading.label_items import ChosenColumns, FileItems
from faircount.reading.label_keys import KeyedLabels
from faircount.reading.label_repeats import Repeats
from faircount.reading.label_rows import LabelFile, label_file, names_of
from faircount.reading.label_sheet import is_workbook, write_as_csv
from faircount.reading.labelled import (
    Columns,
    Doubt,
    DoubtKind,
    Doubts,
    Labelled,
    LabelOptions,
    LabelSource,
    LabelState,
    ResultsSource,
)
from faircount.reading.labels_saved import saved_row
from faircount.reading.streams import STDIN

__all__ = [
    "Columns",
    "Doubt",
    "DoubtKind",
    "LabelOptions",
    "LabelSource",
    "LabelState",
    "Labelled",
    "Labels",
    "ResultsSource",
    "read_labels",
    "saved_row",
]

_SPOOL_STEP = 1024 * 1024
_REASONS_TOLD = 3


def read_labels(files: Sequence[str], options: LabelOptions | None = None) -> Labels:
    """Find the columns of labelled files; their items are read when the labels are iterated, as often as wanted."""
    options = options or LabelOptions()
    if options.label_threshold is not None and not math.isfinite(options.label_threshold):
        raise UsageError("--label-threshold must be a finite number")
    return Labels(files, options)


class Labels:
    """A set of labelled items. Iterate to read them; every pass reads the files again.

    `sources` and `doubts` tell how the files fared. They are known after the first whole pass, and make one if there
    was none. Standard input, and a workbook as CSV, is kept in a file of its own until `close`, or until nobody needs
    the labels any more.
    """

    def __init__(self, files: Sequence[str], options: LabelOptions) -> None:
        self.options = options
        self._copies: dict[str, _Copy] = {}
        self._repeated = Doubts()
        self._known: tuple[tuple[LabelSource, ...], tuple[ResultsSource, ...], tuple[Doubt, ...]] | None = None
        given = _given(files, self._repeated)
        self._keyed = None
        if options.results:
            paths = [self._label_file(name) for name in given]
            self._keyed = KeyedLabels(paths, options)
        self._files = [] if self._keyed else [self._open(name) for name in given]

    def __iter__(self) -> Iterator[Labelled]:
        if self._keyed is not None:
            yield from self._keyed
            self._known = (self._keyed.sources, self._keyed.results, self._repeated.told() + self._keyed.doubts)
            return
        # Items that are there twice are looked for once: that takes memory.
        reading = _Pass(self._files, self.options, None if self._known else Repeats())
        yield from reading
        self._finish(reading)

    @property
    def columns(self) -> tuple[tuple[str, Columns], ...]:
        """Each file, and which of its columns was taken for what."""
        if self._keyed is not None:
            return self._keyed.columns
        return tuple((chosen.file.name, chosen.columns) for chosen in self._files)

    @property
    def has_text(self) -> bool:
        """Whether any file has a column of responses; raters can agree without one, judges need it."""
        return self._keyed is not None or any(chosen.columns.text is not None for chosen in self._files)

    @property
    def sources(self) -> tuple[LabelSource, ...]:
        """The files of labels, in the order given."""
        return self._facts()[0]

    @property
    def results(self) -> tuple[ResultsSource, ...]:
        """The files of results that the labels are keyed to."""
        return self._facts()[1]

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What was doubtful, most serious kinds first."""
        return self._facts()[2]

    def close(self) -> None:
        """Remove what was kept of standard input and of workbooks; the labels cannot be read again then."""
        for copy in self._copies.values():
            copy.remove()

    def __enter__(self) -> Labels:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _facts(self) -> tuple[tuple[LabelSource, ...], tuple[ResultsSource, ...], tuple[Doubt, ...]]:
        if self._known is None:
            for _ in self:
                pass
        if self._known is None:
            raise AssertionError("a whole pass tells how the files fared")
        return self._known

    def _label_file(self, name: str) -> LabelFile:
        if name == STDIN:
            self._copies[name] = copy = _Copy(_copy_standard_input)
        elif is_workbook(name):
            self._copies[name] = copy = _Copy(functools.partial(write_as_csv, name))
        else:
            return label_file(name, name, self.options.max_line)
        return label_file(name, copy.path, self.options.max_line)

    def _open(self, name: str) -> ChosenColumns:
        file = self._label_file(name)
        names, all_known = names_of(file, self.options.max_line)
        columns = find_columns(name, names, self.options, all_known=all_known)
        taken = [*columns.labels, columns.text, columns.prompt, columns.item]
        return ChosenColumns(file, columns, more_columns(names, filter(None, taken)))

    def _finish(self, reading: _Pass) -> None:
        sources = tuple(reading.sources)
        if self._known is not None:
            changed = [now.path for now, before in zip(sources, self._known[0], strict=True) if now != before]
            if changed:
                raise InputError(f"{changed[0]}: changed while it was being used; start again")
            return
        if not any(source.good for source in sources):
            reasons = [f"{doubt.places[0]}: {doubt.reason}" for doubt in reading.doubts.told()][:_REASONS_TOLD]
            raise InputError("; ".join([f"{sources[0].path}: no readable items", *reasons]))
        self._known = (sources, (), self._repeated.told() + reading.doubts.told())


def _given(files: Sequence[str], doubts: Doubts) -> list[str]:
    """Return the files that are meant, each once."""
    for name in files:
        if name != STDIN and Path(name).is_dir():
            raise UsageError(f"{name}: this is a folder; name the files with labels")
    found = inputs.distinct(inputs.expand(files))
    if not found:
        raise UsageError("no file with labels; give one with --labels")
    for file in found:
        for copy in file.also:
            doubts.add(DoubtKind.SAME_FILE, "read once", copy)
    return [file.path for file in found]


class _Copy:
    """A file that only its owner can read, filled from what cannot be read as it is, or not twice."""

    every: ClassVar[weakref.WeakSet[_Copy]] = weakref.WeakSet()

    def __init__(self, fill: Callable[[IO[bytes]], None]) -> None:
        with self._make() as file:
            fill(file)

    @uninterrupted
    def _make(self) -> IO[bytes]:
        descriptor, self.path = tempfile.mkstemp(prefix="faircount-labels-")
        self.remove = weakref.finalize(self, Path(self.path).unlink, missing_ok=True)
        self.every.add(self)
        return os.fdopen(descriptor, "wb")


def _copy_standard_input(file: IO[bytes]) -> None:
    shutil.copyfileobj(sys.stdin.buffer, file, _SPOOL_STEP)


def remove_copies() -> None:
    """Remove what was kept of standard input and of workbooks: a process that ends at once does not wait for it."""
    for copy in list(_Copy.every):
        copy.remove()


# -- one pass over the files ------------------------------------------------------------------------------------


class _Pass:
    """Reads files from beginning to end; afterwards `sources` and `doubts` tell how they fared."""

    def __init__(self, files: Sequence[ChosenColumns], options: LabelOptions, repeats: Repeats | None) -> None:
        self._files = files
        self._options = options
        self._repeats = repeats
        self.sources: list[LabelSource] = []
        self.doubts = Doubts()

    def __iter__(self) -> Iterator[Labelled]:
        for number, chosen in enumerate(self._files):
            items = FileItems(number, chosen, self._options, self.doubts, self._repeats)
            yield from items
            if items.source is not None:
                self.sources.append(items.source)
        if self._repeats is not None:
            self._repeats.tell(self.doubts, lambda file, line: f"{self._files[file].file.name}:{line}")
