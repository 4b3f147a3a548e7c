"""Verdicts that result files record, as predictions: each is an item on which the judges of a row may disagree.

An item is an answer: an attempt of a row where its attempts were judged one by one, else the row as a whole.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from faircount.analysis.evidence import lines_again
from faircount.analysis.judges.predictions import AnswerTexts, Prediction, PredictionsSource
from faircount.analysis.recorded import masked, recorded
from faircount.errors import InputError
from faircount.findings import Notes
from faircount.judging.verdict import Decision
from faircount.ledger.lookup import counted_rows
from faircount.ledger.store import Ledger, source_and_line
from faircount.ledger.tallies import verdicts_compared
from faircount.reading.cache import ReadSource
from faircount.reading.loading import Loader, refuse_hopeless
from faircount.reading.loose import BadLine, parse
from faircount.reading.rows import ReadOptions


class RecordedVerdicts:
    """The verdicts in one result file; they can be gone through more than once."""

    def __init__(self, path: str, max_line: int) -> None:
        self.path = path
        self._max_line = max_line
        self._read: ReadSource | None = None
        self._good = 0

    def __iter__(self) -> Iterator[Prediction]:
        with self._open() as ledger:
            self._good = 0
            for place, attempt, judge, decision, score in verdicts_compared(ledger):
                line = source_and_line(place)[1]
                self._good += 1
                yield Prediction(
                    judge=judge,
                    item=_item(self.path, line, attempt),
                    decision=None if decision is None else Decision.of(decision),
                    score=score if score is None or 0 <= score <= 1 else None,
                    place=f"{self.path}:{line}",
                )
        if not self._good:
            raise InputError(f"{self.path}: no row has verdicts of several judges")

    @property
    def notes(self) -> Notes:
        """What was noted while the file was read."""
        return Notes(self.path) if self._read is None else self._read.notes

    @property
    def source(self) -> PredictionsSource:
        """How the lines of the file fared."""
        with Path(self.path).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        source = None if self._read is None else self._read.source
        counts = (0,) * 4 if source is None else (source.bytes, source.lines, source.good_lines, source.bad_lines)
        blank = 0 if source is None else source.blank_lines
        return PredictionsSource(self.path, digest, *counts, blank, holds="results")

    def texts(self, items: Collection[str]) -> dict[str, AnswerTexts]:
        """Return the texts of items, as far as they can be read back."""
        wanted = {item: found for item in items if (found := _place_of(item, self.path)) is not None}
        if not wanted or self._read is None:
            return {}
        with self._open() as ledger:
            rows = counted_rows(ledger, {ledger.ord(0, line) for line, _ in wanted.values()})
            lines, _ = lines_again(self.path, rows, self._read.anchors, self._max_line)
        return {item: _texts(lines[line], attempt) for item, (line, attempt) in wanted.items() if line in lines}

    @contextlib.contextmanager
    def _open(self) -> Iterator[Ledger]:
        options = ReadOptions(self._max_line, verdicts=True)
        with Loader([self.path], options, alone=False) as loader, Ledger([self.path]) as ledger:
            self._read = loader.load(ledger, 0)
            refuse_hopeless([self._read.source], [self._read.notes])
            ledger.fold()
            yield ledger


def _item(path: str, line: int, attempt: int) -> str:
    return f"{path}:{line}#{attempt}" if attempt else f"{path}:{line}"


def _place_of(item: str, path: str) -> tuple[int, int] | None:
    """Return the line and the attempt of an item of this file."""
    if not item.startswith(f"{path}:"):
        return None
    line, _, attempt = item.removeprefix(f"{path}:").partition("#")
    return int(line), int(attempt or 0)


def _texts(line: bytes, attempt: int) -> AnswerTexts:
    said = recorded(line)
    requests = said.history or ()
    request = requests[attempt - 1] if 0 < attempt <= len(requests) else None
    try:
        fields = parse(line)[0]
    except BadLine as bad:
        raise InputError(f"a row cannot be read back: {bad}") from None
    return AnswerTexts(
        prompt=said.prompt if request is None or request.input is None else request.input,
        response=said.response if request is None else request.response,
        reasons={judge: masked(reason) for judge, reason in _reasons(fields, attempt)},
    )


def _reasons(fields: Mapping[str, Any], attempt: int) -> Iterator[tuple[str, str]]:
    """Yield the reasons that a row records: those of its metrics, and those of judges that were asked later."""
    history = fields.get("attempt_history")
    item = history[attempt - 1] if isinstance(history, list) and 0 < attempt <= len(history) else None
    metrics = item.get("metrics") if isinstance(item, dict) else None
    told = [(one.get("name"), one) for one in _objects(metrics)]
    rejudged, chain = fields.get("rejudged"), []
    while isinstance(rejudged, dict):
        chain.append(rejudged)
        before = rejudged.get("before")
        rejudged = before.get("rejudged") if isinstance(before, dict) else None
    for one in reversed(chain):
        parts = [turn for turn in _objects(one.get("turns")) if attempt and turn.get("turn") == attempt - 1]
        told.append((one.get("judge"), parts[0] if parts else one))
    for judge, one in told:
        if isinstance(judge, str) and isinstance(one.get("reason"), str) and one["reason"]:
            yield judge, one["reason"]


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
