"""Labelled data: attempts with what people said of them, read again whenever they are wanted.

    records                 a response each, perhaps a prompt, and one or more labels
    results and labels      responses from result files; the labels name their rows

Nothing is kept but counts, and of labels that name rows the labels, so that a set of them may be of any size. Labels
are read as data: no code that a file names is loaded, and no text of theirs reaches a terminal from here.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
import tempfile
import weakref
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, ClassVar

import msgspec
from msgspec import Struct

from faircount.core.attempt import Attempt, Expected
from faircount.core.errors import InputError, UsageError
from faircount.core.findings import counted
from faircount.core.interrupts import uninterrupted
from faircount.io.columns import listed
from faircount.io.records import Sha256, without_surrogates
from faircount.io.streams import STDIN
from faircount.ledger.schema import RowMark
from faircount.readers import inputs
from faircount.readers.label_types import (
    Columns,
    DataProblem,
    DataProblemKind,
    DataProblems,
    Labelled,
    LabelOptions,
    LabelSource,
    LabelState,
    ResultsSource,
)
from faircount.readers.label_values import (
    LabelFile,
    LabelReader,
    LabelRecords,
    LabelTally,
    RecordLabels,
    attempt_fields,
    label_file,
)
from faircount.readers.raw_rows import RawReader, RawRow, values_decoder, values_of
from faircount.readers.registry import open_stream
from faircount.readers.result_rows import mark_of, parent_id_of
from faircount.readers.rows import scalar_text

_SPOOL_STEP = 1024 * 1024
_REASONS_SHOWN = 3
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

    `sources` and `problems` say how the files were read. They are known after the first whole pass, and make one if
    there was none. Standard input is kept in a file of its own until `close`, or until nobody needs the labels any
    more.
    """

    def __init__(self, files: Sequence[str], options: LabelOptions) -> None:
        self.options = options
        self._copy: _StandardInput | None = None
        self._repeated = DataProblems()
        self._known: tuple[tuple[LabelSource, ...], tuple[ResultsSource, ...], tuple[DataProblem, ...]] | None = None
        given = _given(files, self._repeated)
        self._results = _results(options.results)
        by_name = _by_file_name(self._results)
        self._files = [label_file(name, self._path(name), options, by_name) for name in given]

    def __iter__(self) -> Iterator[Labelled]:
        if self._results:
            index = self._index
            yield from index
            self._known = (index.sources, index.results, self._repeated.listed() + index.problems.listed())
            return
        # Items that are there twice are looked for once: that takes memory.
        repeats, problems, sources = None if self._known else _Repeats(), DataProblems(), list[LabelSource]()
        for number, file in enumerate(self._files):
            items = _FileItems(number, file, self.options, problems, repeats)
            yield from items
            sources.append(items.source())
        if repeats is not None:
            repeats.report(problems, [file.name for file in self._files])
        self._finish(tuple(sources), problems.listed())

    @property
    def columns(self) -> tuple[tuple[str, Columns], ...]:
        """Each file, and which of its columns was taken for what."""
        return tuple((file.name, file.columns) for file in self._files)

    @property
    def has_text(self) -> bool:
        """Whether any file has a column of responses; raters can agree without one, judges need it."""
        return bool(self._results) or any(file.columns.text is not None for file in self._files)

    @property
    def drawn_by_verdict(self) -> bool:
        """Whether any file says itself that what was labelled was drawn by the verdicts of the results."""
        return any(file.is_log for file in self._files)

    @property
    def sources(self) -> tuple[LabelSource, ...]:
        """The files of labels, in the order given."""
        return self._facts()[0]

    @property
    def results(self) -> tuple[ResultsSource, ...]:
        """The files of results that the labels are keyed to."""
        return self._facts()[1]

    @property
    def problems(self) -> tuple[DataProblem, ...]:
        """The problems with the data, most serious kinds first."""
        return self._facts()[2]

    def close(self) -> None:
        """Remove what was kept of standard input; the labels cannot be read again then."""
        if self._copy is not None:
            self._copy.remove()

    def __enter__(self) -> Labels:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _index(self) -> _Index:
        return _Index(self._files, self._results, self.options)

    def _facts(self) -> tuple[tuple[LabelSource, ...], tuple[ResultsSource, ...], tuple[DataProblem, ...]]:
        if self._known is None:
            for _ in self:
                pass
        if self._known is None:
            raise AssertionError("a whole pass counts what the files hold")
        return self._known

    def _path(self, name: str) -> str:
        """Return where the bytes of a file are."""
        if name != STDIN:
            return name
        self._copy = self._copy or _StandardInput()
        return self._copy.path

    def _finish(self, sources: tuple[LabelSource, ...], problems: tuple[DataProblem, ...]) -> None:
        if self._known is not None:
            changed = [now.path for now, before in zip(sources, self._known[0], strict=True) if now != before]
            if changed:
                raise InputError(f"{changed[0]}: changed while it was being used; start again")
            return
        if not any(source.good for source in sources):
            reasons = [f"{problem.places[0]}: {problem.reason}" for problem in problems][:_REASONS_SHOWN]
            raise InputError("; ".join([f"{sources[0].path}: no readable items", *reasons]))
        self._known = (sources, (), self._repeated.listed() + problems)


def _given(files: Sequence[str], problems: DataProblems) -> list[str]:
    """Return the files that are meant, each once."""
    for name in files:
        if name != STDIN and Path(name).is_dir():
            raise UsageError(f"{name}: this is a folder; name the files with labels")
    found = inputs.distinct(inputs.expand(files, split=False))
    if not found:
        raise UsageError("no file with labels; give one with --labels")
    for file in found:
        for copy in file.also:
            problems.add(DataProblemKind.SAME_FILE, "read once", copy)
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
    """The items of one file; `source` has its counts afterwards."""

    def __init__(
        self, number: int, file: LabelFile, options: LabelOptions, problems: DataProblems, repeats: _Repeats | None
    ) -> None:
        self._number, self._file, self._problems, self._repeats = number, file, problems, repeats
        self._digest = Sha256()
        self._records = file.records(problems.of_records(file.name), options.max_line, self._digest)
        columns, places = file.columns, {name: place for place, name in enumerate(file.wanted)}
        self._labels_of = itemgetter(*(places[name] for name in columns.labels))
        self._text_at = _NOWHERE if columns.text is None else places[columns.text]
        self._prompt_at = _NOWHERE if columns.prompt is None else places[columns.prompt]
        self._item_at = _NOWHERE if columns.item is None else places[columns.item]
        self._more = tuple((role, name, places[name]) for role, name in file.more)
        self._read_labels = LabelReader(columns.labels, options).labels_of
        self._tally = LabelTally()

    def __iter__(self) -> Iterator[Labelled]:
        name, problems = self._file.name, self._problems
        item, states = self._item, self._tally.states
        labels_of, read = self._labels_of, self._read_labels
        for line, values in self._records:
            place = f"{name}:{line}"
            labels = read(labels_of(values))
            if labels.plain:
                states[labels.state] += 1
            else:
                self._tally.count(labels, place, problems)
            yield item(line, values, place, labels)

    def source(self) -> LabelSource:
        """Return the counts of the file."""
        return self._tally.source(self._file, self._records, self._digest)

    def _item(self, line: int, values: Sequence[Any], place: str, labels: RecordLabels) -> Labelled:
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
            self._repeats.add(self._number, line, own_id or None, text, prompt, labels.state)
        if self._more:
            fields = ((role, name, values[at]) for role, name, at in self._more)
            attempt = Attempt(text, prompt, **attempt_fields(fields, lambda name: self._wrong(name, place)))
        else:
            attempt = Attempt(text, prompt, (), (), (), _NOTHING_EXPECTED)
        return Labelled(own_id or place, place, attempt, labels.ratings, labels.label)

    def _odd_text(self, value: Any, column: str | None, place: str) -> str | None:
        """Return the text of a number; what else is no text is none, and nothing is nothing."""
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return scalar_text(value)
        self._wrong(column or "", place)
        return None

    def _wrong(self, column: str, place: str) -> None:
        self._problems.add(DataProblemKind.WRONG_KIND, listed([column]), place)


# -- items that are there more than once -------------------------------------------------------------------------


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

    def report(self, problems: DataProblems, names: Sequence[str]) -> None:
        """Add the problems, each where it comes up again; `names` are those of the files."""
        import numpy as np

        states = np.frombuffer(bytes(self._states), np.uint8)
        repeated, contradicted = _again(np.frombuffer(self._texts, np.int64), states)
        _, contrary = _again(np.frombuffer(self._ids, np.int64), states)
        for kind, found in (
            (DataProblemKind.REPEATED, repeated),
            (DataProblemKind.CONTRADICTED, contradicted),
            (DataProblemKind.SAME_ID, contrary),
        ):
            for number in found:
                where = self._places[number]
                problems.add(kind, "", f"{names[where >> _LINE_BITS]}:{where & ((1 << _LINE_BITS) - 1)}")


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


# -- labels that name rows of results ---------------------------------------------------------------------------
#
#     12                  the standard row of entry 12
#     12-attack           the row with that id
#     a long id           the row with that long id, a standard row before one of an attack
#     results.jsonl:7     the row on that line
#
# The labels are kept, the texts are not: a first pass finds the line of every key, later ones read those lines.

_PROMPT_FIELDS = ("input", "content", "text")
_MORE_FIELDS = (("conversation", "conversation"), ("latency", "response_time"), ("notes.judge_args", "judge_args"))
_BOOLEAN_WORDS = ("True", "False")
_NO_ANSWERS = (b"", b"null", b"true", b"false", b'"True"', b'"False"')
_LINE_KEY = re.compile(r"(.+):([1-9][0-9]{0,14})", re.DOTALL)
_AMBIGUOUS_SHOWN = 3

_BY_LINE, _BY_ID, _BY_ENTRY, _BY_LONG_ID = range(4)
"""How a key names a row, the surest first."""


class _LabelKey(Struct):
    """A key of the labels: what it says, where it stands, and the row that it turned out to name."""

    name: str
    file: int | None
    label_file: int
    place: str
    labels: RecordLabels
    rank: tuple[int, bool] | None = None
    row: tuple[int, int] | None = None
    content: int = 0
    answered: bool = False
    rivals: int = 0


def _results(files: Sequence[str]) -> list[str]:
    paths = [file.path for file in inputs.distinct(inputs.expand(files))]
    if STDIN in paths:
        raise UsageError("the results that labels refer to are read more than once; give a file, not standard input")
    return paths


def _by_file_name(paths: Sequence[str]) -> dict[str, set[int]]:
    """Return which result files a name may mean: a path as it was given, or a name without its folder."""
    found: dict[str, set[int]] = {}
    for number, path in enumerate(paths):
        for name in (path, Path(path).name):
            found.setdefault(name, set()).add(number)
    return found


def _rows(path: str, max_line: int, digest: Sha256) -> tuple[RawReader, Iterator[RawRow]]:
    reader = RawReader(open_stream(path, path, digest), max_line=max_line)
    return reader, (raw for found in reader.blocks() for raw in found)


class _Index:
    """Which line of which result file every key names, and the counts of all files; a pass reads the results again."""

    def __init__(self, files: Sequence[LabelFile], results: Sequence[str], options: LabelOptions) -> None:
        self._options, self._paths = options, results
        self._by_name = _by_file_name(results)
        self.problems = DataProblems()
        self._keys: dict[tuple[int | None, str], _LabelKey] = {}
        self._read = [self._read_labels(number, file) for number, file in enumerate(files)]
        self._lines = self._keys_of_lines()
        found = [self._find_rows(number) for number in range(len(results))]
        self._refuse_ambiguous()
        self.rows = self._settle(len(results))
        self.results = tuple(
            ResultsSource(source.path, digest.hexdigest(), source.lines, source.good_lines, source.bad_lines, len(rows))
            for (source, digest), rows in zip(found, self.rows, strict=True)
        )
        self.sources = tuple(self._source(number, *read) for number, read in enumerate(self._read))
        if not any(source.good for source in self.sources):
            raise InputError(f"{files[0].name}: no readable labels")
        if not any(self.rows):
            raise InputError(f"{files[0].name}: none of its keys matches a row of the results")

    def __iter__(self) -> Iterator[Labelled]:
        for number, path in enumerate(self._paths):
            wanted, digest = self.rows[number], Sha256()
            for raw in _rows(path, self._options.max_line, digest)[1]:
                key = wanted.get(raw.number)
                if key is not None:
                    labels = key.labels
                    yield Labelled(key.name, f"{path}:{raw.number}", _attempt(raw), labels.ratings, labels.label)
            if digest.hexdigest() != self.results[number].sha256:
                raise InputError(f"{path}: changed while it was being used; start again")

    # -- keys ----------------------------------------------------------------------------------------------------

    def _read_labels(self, number: int, file: LabelFile) -> tuple[LabelFile, Sha256, LabelRecords, int]:
        columns, digest, names = file.columns, Sha256(), file.wanted
        records = file.records(self.problems.of_records(file.name), self._options.max_line, digest)
        labels_of = itemgetter(*map(names.index, columns.labels))
        item_at = names.index(columns.item or "")
        file_at = None if columns.file is None else names.index(columns.file)
        read = LabelReader(columns.labels, self._options).labels_of
        total = 0
        for line, values in records:
            results_file = "" if file_at is None else (scalar_text(values[file_at]) or "").strip()
            if file.is_log and results_file not in self._by_name:
                continue  # people label several runs in one file
            total += 1
            place = f"{file.name}:{line}"
            name = (scalar_text(values[item_at]) or "").strip()
            if not name or (results_file and results_file not in self._by_name):
                reason = "no key" if not name else f"the file {listed([results_file])} is not among the results"
                self.problems.add(DataProblemKind.KEY_WITHOUT_ROW, reason, place)
                continue
            found = self._by_name[results_file] if results_file else set[int]()
            if len(found) > 1:
                raise InputError(
                    f"{place}: several result files are named {listed([results_file])}; write the path as given"
                )
            which = next(iter(found), None)
            self._add(_LabelKey(name, which, number, place, read(labels_of(values))))
        return file, digest, records, total

    def _add(self, key: _LabelKey) -> None:
        before = self._keys.setdefault((key.file, key.name), key)
        if before is not key:
            self._merge(before, key)

    def _merge(self, before: _LabelKey, again: _LabelKey) -> None:
        """Let the first of two keys for one row stand for both; labels that differ are none."""
        if before.labels.label == again.labels.label:
            self.problems.add(DataProblemKind.KEY_TWICE, "the first counts", again.place)
            return
        self.problems.add(DataProblemKind.KEY_CONTRADICTED, f"first at {before.place}", again.place)
        before.labels = RecordLabels(before.labels.ratings, None, LabelState.UNLABELLED)

    def _keys_of_lines(self) -> dict[tuple[int, int], list[_LabelKey]]:
        """Return the keys that name a line of a file."""
        found: dict[tuple[int, int], list[_LabelKey]] = {}
        for key in self._keys.values():
            match = _LINE_KEY.fullmatch(key.name)
            for number in self._by_name.get(match[1], ()) if match else ():
                if match and key.file in (None, number):
                    found.setdefault((number, int(match[2])), []).append(key)
        return found

    # -- rows ----------------------------------------------------------------------------------------------------

    def _find_rows(self, number: int) -> tuple[Any, Sha256]:
        """Find the rows of one result file that keys name."""
        digest, keys, lines = Sha256(), self._keys, self._lines
        reader, rows = _rows(self._paths[number], self._options.max_line, digest)
        for raw in rows:
            own_id = str(raw.row.id)
            mark = mark_of(raw.row, own_id)
            is_attack = mark != RowMark.STANDARD
            names = [(_BY_ID, own_id)]
            if not is_attack:
                names.append((_BY_ENTRY, parent_id_of(raw.row, own_id, mark)))
            if raw.row.long_id:
                names.append((_BY_LONG_ID, raw.row.long_id))
            for way, name in names:
                for key in (keys.get((None, name)), keys.get((number, name))):
                    if key is not None:
                        _offer(key, (way, is_attack), number, raw)
            for key in lines.get((number, raw.number), ()):
                _offer(key, (_BY_LINE, False), number, raw)
        return reader.source(), digest

    def _refuse_ambiguous(self) -> None:
        ambiguous = [key for key in self._keys.values() if key.rivals]
        if not ambiguous:
            return
        some = "; ".join(
            f"{key.place}: {listed([key.name])} is {self._place(key)} and {counted(key.rivals, 'other row')}"
            for key in ambiguous[:_AMBIGUOUS_SHOWN]
        )
        raise InputError(
            f"{counted(len(ambiguous), 'key')} could match several rows of the results ({some}); give the labels a "
            "column `file` with the name of the results file, or write file:line as the key"
        )

    def _place(self, key: _LabelKey) -> str:
        return "nowhere" if key.row is None else f"{self._paths[key.row[0]]}:{key.row[1]}"

    def _settle(self, count: int) -> list[dict[int, _LabelKey]]:
        """Return for each result file the key of every line that has one."""
        rows: list[dict[int, _LabelKey]] = [{} for _ in range(count)]
        for key in self._keys.values():
            if key.row is None:
                self.problems.add(DataProblemKind.KEY_WITHOUT_ROW, "no such row", key.place)
                continue
            number, line = key.row
            before = rows[number].setdefault(line, key)
            if before is not key:
                self._merge(before, key)
        return rows

    def _source(self, number: int, file: LabelFile, digest: Sha256, records: LabelRecords, total: int) -> LabelSource:
        tally = LabelTally()
        for key in (key for rows in self.rows for key in rows.values() if key.label_file == number):
            tally.count(key.labels, key.place, self.problems)
            tally.no_text += not key.answered
        return tally.source(file, records, digest, total - sum(tally.states))


def _offer(key: _LabelKey, rank: tuple[int, bool], number: int, raw: RawRow) -> None:
    """Let a key name a row unless it names one more surely; the same row once more, word by word, changes nothing."""
    row = (number, raw.number)
    if key.row == row or (key.rank is not None and rank > key.rank):
        return
    content = hash(raw.line)
    if key.rank == rank:
        key.rivals += content != key.content
    else:
        key.rank, key.row, key.content, key.rivals = rank, row, content, 0
        key.answered = bytes(raw.row.response) not in _NO_ANSWERS


# -- what a row holds -------------------------------------------------------------------------------------------

_decoder = values_decoder(("response", *_PROMPT_FIELDS, *(name for _, name in _MORE_FIELDS)))


def _attempt(raw: RawRow) -> Attempt:
    """Return a row of results as judges see it."""
    values: Mapping[str, Any] = without_surrogates(values_of(raw.line, _decoder))
    prompt = next((values[name] for name in _PROMPT_FIELDS if values.get(name) not in (None, "")), "")
    fields = ((role, name, values.get(name)) for role, name in _MORE_FIELDS)
    # A field of results that no judge can use is no fault of the labels.
    more = attempt_fields(fields, lambda _: None)
    return Attempt(_response(values.get("response")), scalar_text(prompt) or "", **more)


def _response(value: Any) -> str | None:
    """Return the text of an answer; a guardrail's true or false is none."""
    if value is None or isinstance(value, bool) or value in _BOOLEAN_WORDS:
        return None
    return scalar_text(value)
