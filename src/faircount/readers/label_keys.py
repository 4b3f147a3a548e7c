"""Labels keyed to results: a file of labels names rows of result files, which hold the prompts and the responses.

    12                  the standard row of entry 12
    12-attack           the row with that id
    a long id           the row with that long id, a standard row before one of an attack
    results.jsonl:7     the row on that line

The labels are kept, the texts are not: a first pass finds the line of every key, later ones read those lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

from msgspec import Struct

from faircount.core.attempt import Attempt
from faircount.core.errors import InputError, UsageError
from faircount.core.findings import counted
from faircount.io.columns import listed
from faircount.io.records import Records, Sha256, without_surrogates
from faircount.io.streams import STDIN
from faircount.ledger.schema import RowMark
from faircount.readers import inputs
from faircount.readers.label_columns import LabelFile, label_file
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
from faircount.readers.raw_rows import RawReader, RawRow, values_decoder, values_of
from faircount.readers.registry import open_stream
from faircount.readers.spikee import mark_of, parent_id_of

_PROMPT_FIELDS = ("input", "content", "text")
_MORE_FIELDS = (("conversation", "conversation"), ("latency", "response_time"), ("notes.judge_args", "judge_args"))
_BOOLEAN_WORDS = ("True", "False")
_NO_ANSWERS = (b"", b"null", b"true", b"false", b'"True"', b'"False"')
_LINE_KEY = re.compile(r"(.+):([1-9][0-9]{0,14})", re.DOTALL)
_AMBIGUOUS_TOLD = 3

_BY_LINE, _BY_ID, _BY_ENTRY, _BY_LONG_ID = range(4)
"""How a key names a row, the surest first."""


class _Key(Struct):
    """A key of the labels: what it says, where it stands, and the row that it turned out to name."""

    name: str
    file: int | None
    label_file: int
    place: str
    told: Told
    rank: tuple[int, bool] | None = None
    row: tuple[int, int] | None = None
    content: int = 0
    answered: bool = False
    rivals: int = 0


class KeyedLabels:
    """Labels whose texts are rows of result files. Iterate to read them; every pass reads the results again."""

    def __init__(self, files: Sequence[tuple[str, str]], options: LabelOptions) -> None:
        self._options = options
        self._results = _results(options.results)
        self._files = [label_file(name, path, options, _by_file_name(self._results)) for name, path in files]

    @property
    def columns(self) -> tuple[tuple[str, Columns], ...]:
        """Each file of labels, and which of its columns was taken for what."""
        return tuple((file.name, file.columns) for file in self._files)

    @property
    def sources(self) -> tuple[LabelSource, ...]:
        """The files of labels."""
        return self._index.sources

    @property
    def results(self) -> tuple[ResultsSource, ...]:
        """The files of results."""
        return self._index.results

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What was doubtful."""
        return self._index.doubts.told()

    def __iter__(self) -> Iterator[Labelled]:
        index = self._index
        for number, path in enumerate(self._results):
            wanted, digest = index.rows[number], Sha256()
            for raw in _rows(path, self._options.max_line, digest)[1]:
                key = wanted.get(raw.number)
                if key is not None:
                    told = key.told
                    attempt = _attempt(raw)
                    yield Labelled(key.name, f"{path}:{raw.number}", attempt, told.ratings, told.label)
            if digest.hexdigest() != index.results[number].sha256:
                raise InputError(f"{path}: changed while it was being used; start again")

    @cached_property
    def _index(self) -> _Index:
        return _Index(self._files, self._results, self._options)


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
    """Which line of which result file every key names, and how all files fared."""

    def __init__(self, files: Sequence[LabelFile], results: Sequence[str], options: LabelOptions) -> None:
        self._options, self._paths = options, results
        self._by_name = _by_file_name(results)
        self.doubts = Doubts()
        self._keys: dict[tuple[int | None, str], _Key] = {}
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

    # -- keys ----------------------------------------------------------------------------------------------------

    def _read_labels(self, number: int, file: LabelFile) -> tuple[LabelFile, Sha256, Records[Any], int]:
        columns, digest, names = file.columns, Sha256(), file.wanted
        records = file.records(self.doubts.of_records(file.name), self._options.max_line, digest)
        labels_of = itemgetter(*map(names.index, columns.labels))
        item_at = names.index(columns.item or "")
        file_at = None if columns.file is None else names.index(columns.file)
        told_of = LabelReader(columns.labels, self._options).told
        total = 0
        for line, values in records:
            total += 1
            place = f"{file.name}:{line}"
            name = (scalar_text(values[item_at]) or "").strip()
            results_file = "" if file_at is None else (scalar_text(values[file_at]) or "").strip()
            if not name or (results_file and results_file not in self._by_name):
                reason = "no key" if not name else f"the file {listed([results_file])} is not among the results"
                self.doubts.add(DoubtKind.KEY_WITHOUT_ROW, reason, place)
                continue
            which = self._which_file(results_file, place) if results_file else None
            self._add(_Key(name, which, number, place, told_of(labels_of(values))))
        return file, digest, records, total

    def _which_file(self, name: str, place: str) -> int:
        found = self._by_name[name]
        if len(found) > 1:
            raise InputError(f"{place}: several result files are named {listed([name])}; write the path as given")
        return next(iter(found))

    def _add(self, key: _Key) -> None:
        before = self._keys.setdefault((key.file, key.name), key)
        if before is not key:
            self._merge(before, key)

    def _merge(self, before: _Key, again: _Key) -> None:
        """Let the first of two keys for one row stand for both; labels that differ are none."""
        if before.told.label == again.told.label:
            self.doubts.add(DoubtKind.KEY_TWICE, "the first counts", again.place)
            return
        self.doubts.add(DoubtKind.KEY_CONTRADICTED, f"first at {before.place}", again.place)
        before.told = Told(before.told.ratings, None, LabelState.UNLABELLED)

    def _keys_of_lines(self) -> dict[tuple[int, int], list[_Key]]:
        """Return the keys that name a line of a file."""
        found: dict[tuple[int, int], list[_Key]] = {}
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
        told = "; ".join(
            f"{key.place}: {listed([key.name])} is {self._place(key)} and {counted(key.rivals, 'other row')}"
            for key in ambiguous[:_AMBIGUOUS_TOLD]
        )
        raise InputError(
            f"{counted(len(ambiguous), 'key')} could match several rows of the results ({told}); give the labels a "
            "column `file` with the name of the results file, or write file:line as the key"
        )

    def _place(self, key: _Key) -> str:
        return "nowhere" if key.row is None else f"{self._paths[key.row[0]]}:{key.row[1]}"

    def _settle(self, count: int) -> list[dict[int, _Key]]:
        """Return for each result file the key of every line that has one."""
        rows: list[dict[int, _Key]] = [{} for _ in range(count)]
        for key in self._keys.values():
            if key.row is None:
                self.doubts.add(DoubtKind.KEY_WITHOUT_ROW, "no such row", key.place)
                continue
            number, line = key.row
            before = rows[number].setdefault(line, key)
            if before is not key:
                self._merge(before, key)
        return rows

    def _source(self, number: int, file: LabelFile, digest: Sha256, records: Records[Any], total: int) -> LabelSource:
        tally = LabelTally()
        for key in (key for rows in self.rows for key in rows.values() if key.label_file == number):
            tally.count(key.told, key.place, self.doubts)
            tally.no_text += not key.answered
        return tally.source(file, records, digest, total - sum(tally.states))


def _offer(key: _Key, rank: tuple[int, bool], number: int, raw: RawRow) -> None:
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
