"""Labelled data: attempts with what people said of them, read again whenever they are wanted.

    records                 a response each, perhaps a prompt, and one or more labels
    results and labels      responses from result files; the labels name their rows

Nothing is kept but counts, so that a set of labels may be of any size. Labels are read as data: no code that a file
names is loaded, and no text of theirs reaches a terminal from here.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, ClassVar

import msgspec

from faircount.core.attempt import Attempt, Expected
from faircount.core.errors import InputError, UsageError
from faircount.core.interrupts import uninterrupted
from faircount.io.columns import listed
from faircount.io.records import Sha256
from faircount.io.streams import STDIN
from faircount.readers import inputs
from faircount.readers.label_columns import LabelFile, label_file
from faircount.readers.label_keys import KeyedLabels
from faircount.readers.label_types import (
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
from faircount.readers.label_values import LabelReader, LabelTally, Told, attempt_fields
from faircount.readers.normalise import scalar_text

_SPOOL_STEP = 1024 * 1024
_REASONS_TOLD = 3
_NOTHING_EXPECTED = Expected()
_NOWHERE = -1
_LINE_BITS = 40
_NONE = 0


def read_labels(files: Sequence[str], options: LabelOptions | None = None) -> Labels:
    """Find the columns of labelled files; their items are read when the labels are iterated, as often as wanted."""
    options = options or LabelOptions()
    if options.label_threshold is not None and not math.isfinite(options.label_threshold):
        raise UsageError("--label-threshold must be a finite number")
    return Labels(files, options)


class Labels:
    """A set of labelled items. Iterate to read them; every pass reads the files again.

    `sources` and `doubts` tell how the files fared. They are known after the first whole pass, and make one if there
    was none. Standard input is kept in a file of its own until `close`, or until nobody needs the labels any more.
    """

    def __init__(self, files: Sequence[str], options: LabelOptions) -> None:
        self.options = options
        self._copy: _StandardInput | None = None
        self._repeated = Doubts()
        self._known: tuple[tuple[LabelSource, ...], tuple[ResultsSource, ...], tuple[Doubt, ...]] | None = None
        given = _given(files, self._repeated)
        self._keyed = None
        if options.results:
            self._keyed = KeyedLabels([(name, self._path(name)) for name in given], options)
        self._files = [] if self._keyed else [label_file(name, self._path(name), options) for name in given]

    def __iter__(self) -> Iterator[Labelled]:
        if self._keyed is not None:
            yield from self._keyed
            self._known = (self._keyed.sources, self._keyed.results, self._repeated.told() + self._keyed.doubts)
            return
        # Items that are there twice are looked for once: that takes memory.
        repeats, doubts, sources = None if self._known else _Repeats(), Doubts(), list[LabelSource]()
        for number, file in enumerate(self._files):
            items = _FileItems(number, file, self.options, doubts, repeats)
            yield from items
            sources.append(items.source())
        if repeats is not None:
            repeats.tell(doubts, lambda file, line: f"{self._files[file].name}:{line}")
        self._finish(tuple(sources), doubts.told())

    @property
    def columns(self) -> tuple[tuple[str, Columns], ...]:
        """Each file, and which of its columns was taken for what."""
        if self._keyed is not None:
            return self._keyed.columns
        return tuple((file.name, file.columns) for file in self._files)

    @property
    def has_text(self) -> bool:
        """Whether any file has a column of responses; raters can agree without one, judges need it."""
        return self._keyed is not None or any(file.columns.text is not None for file in self._files)

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
        """Remove what was kept of standard input; the labels cannot be read again then."""
        if self._copy is not None:
            self._copy.remove()

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

    def _path(self, name: str) -> str:
        """Return where the bytes of a file are."""
        if name != STDIN:
            return name
        self._copy = self._copy or _StandardInput()
        return self._copy.path

    def _finish(self, sources: tuple[LabelSource, ...], doubts: tuple[Doubt, ...]) -> None:
        if self._known is not None:
            changed = [now.path for now, before in zip(sources, self._known[0], strict=True) if now != before]
            if changed:
                raise InputError(f"{changed[0]}: changed while it was being used; start again")
            return
        if not any(source.good for source in sources):
            reasons = [f"{doubt.places[0]}: {doubt.reason}" for doubt in doubts][:_REASONS_TOLD]
            raise InputError("; ".join([f"{sources[0].path}: no readable items", *reasons]))
        self._known = (sources, (), self._repeated.told() + doubts)


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


class _StandardInput:
    """A copy of standard input, which cannot be read twice, in a file that only its owner can read."""

    every: ClassVar[weakref.WeakSet[_StandardInput]] = weakref.WeakSet()

    def __init__(self) -> None:
        with self._make() as file:
            shutil.copyfileobj(sys.stdin.buffer, file, _SPOOL_STEP)

    @uninterrupted
    def _make(self) -> IO[bytes]:
        descriptor, self.path = tempfile.mkstemp(prefix="faircount-labels-")
        self.remove = weakref.finalize(self, Path(self.path).unlink, missing_ok=True)
        self.every.add(self)
        return os.fdopen(descriptor, "wb")


def remove_copies() -> None:
    """Remove what was kept of standard input: a process that ends at once does not wait for it."""
    for copy in list(_StandardInput.every):
        copy.remove()


# -- one pass over the files ------------------------------------------------------------------------------------


class _FileItems:
    """The items of one file; `source` says afterwards how it fared."""

    def __init__(
        self, number: int, file: LabelFile, options: LabelOptions, doubts: Doubts, repeats: _Repeats | None
    ) -> None:
        self._number, self._file, self._doubts, self._repeats = number, file, doubts, repeats
        self._digest = Sha256()
        self._records = file.records(doubts.of_records(file.name), options.max_line, self._digest)
        columns, places = file.columns, {name: place for place, name in enumerate(file.wanted)}
        self._labels_of = itemgetter(*(places[name] for name in columns.labels))
        self._text_at = _NOWHERE if columns.text is None else places[columns.text]
        self._prompt_at = _NOWHERE if columns.prompt is None else places[columns.prompt]
        self._item_at = _NOWHERE if columns.item is None else places[columns.item]
        self._more = tuple((role, name, places[name]) for role, name in file.more)
        self._told = LabelReader(columns.labels, options).told
        self._tally = LabelTally()

    def __iter__(self) -> Iterator[Labelled]:
        name, doubts = self._file.name, self._doubts
        item, states = self._item, self._tally.states
        labels_of, told_of = self._labels_of, self._told
        for line, values in self._records:
            place = f"{name}:{line}"
            told = told_of(labels_of(values))
            if told.plain:
                states[told.state] += 1
            else:
                self._tally.count(told, place, doubts)
            yield item(line, values, place, told)

    def source(self) -> LabelSource:
        """Return how the file fared."""
        return self._tally.source(self._file, self._records, self._digest)

    def _item(self, line: int, values: Sequence[Any], place: str, told: Told) -> Labelled:
        text = values[self._text_at] if self._text_at >= 0 else None
        if type(text) is not str:
            text = self._odd_text(text, self._file.columns.text, place)
            self._tally.no_text += text is None
        prompt = values[self._prompt_at] if self._prompt_at >= 0 else ""
        if type(prompt) is not str:
            prompt = self._odd_text(prompt, self._file.columns.prompt, place) or ""
        own_id = values[self._item_at] if self._item_at >= 0 else None
        if type(own_id) is not str:
            own_id = str(own_id) if type(own_id) is int else scalar_text(own_id)
        if self._repeats is not None:
            self._repeats.add(self._number, line, own_id or None, text, prompt, told.state)
        if self._more:
            attempt = Attempt(text, prompt, **self._said_more(values, place))
        else:
            attempt = Attempt(text, prompt, (), (), (), _NOTHING_EXPECTED)
        return Labelled(own_id or place, place, attempt, told.ratings, told.label)

    def _odd_text(self, value: Any, column: str | None, place: str) -> str | None:
        """Return the text of a number; what else is no text is none, and nothing is nothing."""
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return scalar_text(value)
        self._wrong(column or "", place)
        return None

    def _said_more(self, values: Sequence[Any], place: str) -> dict[str, Any]:
        fields = ((role, name, values[at]) for role, name, at in self._more)
        return attempt_fields(fields, lambda name: self._wrong(name, place))

    def _wrong(self, column: str, place: str) -> None:
        self._doubts.add(DoubtKind.WRONG_KIND, listed([column]), place)


# -- items that are there more than once -------------------------------------------------------------------------

Place = Callable[[int, int], str]
"""Gives the place of a line in a file, both as numbers."""


class _Repeats:
    """Finds items that are there more than once: a text with the same label or another, an id with contrary labels.

    No text is kept: an item is 25 bytes, of which 16 are hashes that the interpreter makes with a secret of its own.
    """

    def __init__(self) -> None:
        self._texts = array("q")
        self._ids = array("q")
        self._states = bytearray()
        self._places = array("q")
        # Called a million times: the methods are looked up once.
        self._add_text, self._add_id = self._texts.append, self._ids.append
        self._add_state, self._add_place = self._states.append, self._places.append

    def add(self, file: int, line: int, item: str | None, text: str | None, prompt: str, state: int) -> None:
        """Remember an item; an id counts within its file."""
        self._add_text(_NONE if text is None else hash((prompt, text)))
        self._add_id(_NONE if item is None else hash((file, item)))
        self._add_state(state)
        self._add_place((file << _LINE_BITS) + line)

    def tell(self, doubts: Doubts, place: Place) -> None:
        """Hand over what is doubtful, each doubt where it comes up again."""
        import numpy as np

        states = np.frombuffer(bytes(self._states), np.uint8)
        repeated, contradicted = _again(np.frombuffer(self._texts, np.int64), states)
        _, contrary = _again(np.frombuffer(self._ids, np.int64), states)
        for kind, found in (
            (DoubtKind.REPEATED, repeated),
            (DoubtKind.CONTRADICTED, contradicted),
            (DoubtKind.SAME_ID, contrary),
        ):
            for number in found:
                where = self._places[number]
                doubts.add(kind, "", place(where >> _LINE_BITS, where & ((1 << _LINE_BITS) - 1)))


def _again(keys: Any, states: Any) -> tuple[list[int], list[int]]:
    """Return the items whose key and state another one before them has; and all whose key is both hit and pass."""
    import numpy as np

    known = np.flatnonzero(keys)
    order = known[np.lexsort((known, states[known], keys[known]))]
    sorted_keys, sorted_states = keys[order], states[order]
    same_key = sorted_keys[1:] == sorted_keys[:-1]
    repeated = order[1:][same_key & (sorted_states[1:] == sorted_states[:-1])]
    # A hit and a pass stand side by side among those with one key, with nothing between them.
    parted = same_key & (sorted_states[:-1] == LabelState.HIT) & (sorted_states[1:] == LabelState.PASS)
    contrary = np.isin(sorted_keys, sorted_keys[1:][parted]) & (sorted_states <= LabelState.PASS)
    return sorted(repeated.tolist()), sorted(order[contrary].tolist())


# -- written down ------------------------------------------------------------------------------------------------


def saved_row(labelled: Labelled) -> bytes:
    """Return an item as one line of JSONL that `read_labels` reads again, line feed included.

    Hits and passes are as they were used: where labels were inverted, those written down are not to be inverted again.
    """
    attempt, expected = labelled.attempt, labelled.attempt.expected
    more = {
        "conversation": attempt.conversation,
        "tools_called": attempt.tools_called,
        "context": attempt.context,
        "expected_output": expected.output,
        "expected_tools": expected.tools_called,
        "expected_context": expected.context,
        "latency": attempt.latency,
        "notes": attempt.notes or None,
    }
    row = {
        "item": labelled.item,
        "prompt": attempt.prompt,
        "response": attempt.response,
        "label": labelled.label,
        "ratings": dict(labelled.ratings),
        "place": labelled.place,
        **{name: value for name, value in more.items() if value is not None and value != ()},
    }
    return msgspec.json.encode(row) + b"\n"
