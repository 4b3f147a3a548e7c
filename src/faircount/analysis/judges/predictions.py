"""Predictions: what judges said of labelled items, a record for each judge and item.

`judges evaluate --predictions` writes such lines and `judges agree` reads them, and the verdicts that result files
record. An item of a result file is an answer: an attempt of a row whose attempts were judged one by one, else the row.
A line that cannot be read is counted and reported with its place, and the lines around it still count. Nothing here
decides which of two lines counts.
"""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from faircount.analysis.evidence import masked, recorded
from faircount.core.errors import InputError, UsageError
from faircount.core.findings import Notes, counted, finding
from faircount.core.model import Finding
from faircount.core.options import MAX_LINE_BYTES
from faircount.core.text import clip, visible
from faircount.core.verdict import Decision, Verdict
from faircount.io.lenient_json import BadLine, parse
from faircount.io.records import Records, RecordType, Sha256, report_to, without_surrogates
from faircount.io.streams import STDIN, sha256_of
from faircount.readers.rows import rejudgings

if TYPE_CHECKING:
    from faircount.ledger.store import Ledger
    from faircount.readers.cache import ReadSource
    from faircount.readers.label_types import Labelled

_LONGEST_FAULT = 120
_COMPRESSED_AT_ONCE = 1 << 20
_REASONS_KEPT = 4096
_REPEATED_REASON = 300
"""Pattern judges give the same short reasons over and over: those are masked once."""


class Prediction(msgspec.Struct, frozen=True, gc=False):
    """What a judge said of an item. `label` is what people said, `place` where the item stands."""

    judge: str
    item: int | str
    decision: Decision | None
    label: Decision | None = None
    score: float | None = None
    reason: str = ""
    error: str | None = None
    place: str = ""
    identity: str = ""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Prediction)


# -- writing ----------------------------------------------------------------------------------------------------


def prediction_line(judge: str, identity: str, labelled: Labelled, verdict: Verdict) -> bytes:
    """Return what a judge, known by what it is called and by its digest, said of an item, as one line.

    What looks like a secret in its reason is masked: a reason may quote the response.
    """
    line = {
        "judge": judge,
        "item": labelled.item,
        "label": labelled.label,
        "decision": verdict.decision,
        "score": verdict.score,
        "reason": _without_secrets(verdict.reason),
        "error": None if verdict.error is None else _without_secrets(verdict.error),
        "place": labelled.place,
        "identity": identity,
    }
    try:
        return _encoder.encode(line) + b"\n"
    except UnicodeEncodeError:
        # A lone surrogate, which no UTF-8 can hold.
        return _encoder.encode(without_surrogates(line)) + b"\n"


@lru_cache(maxsize=_REASONS_KEPT)
def _masked_once(text: str) -> str:
    return masked(text)


def _without_secrets(text: str) -> str:
    return _masked_once(text) if len(text) <= _REPEATED_REASON else masked(text)


# -- reading ----------------------------------------------------------------------------------------------------


class PredictionsSource(msgspec.Struct, frozen=True):
    """A file of predictions, or of results that several judges judged, and how its lines were read."""

    path: str
    sha256: str
    bytes: int
    lines: int
    good_lines: int
    bad_lines: int
    blank_lines: int
    holds: Literal["predictions", "results"] = "predictions"


class AnswerTexts(msgspec.Struct, frozen=True):
    """What an item is about, and the reasons that judges gave, by their names."""

    prompt: str | None
    response: str | None
    reasons: Mapping[str, str]


class Predictions:
    """The lines of predictions files in their order, then the verdicts in result files; to be gone through at will.

    `sources` and `findings` show how the lines were read the last time.
    """

    def __init__(self, files: Sequence[str], results: Sequence[str] = (), *, max_line: int = MAX_LINE_BYTES) -> None:
        if STDIN in (*files, *results):
            raise UsageError("predictions are read twice, and standard input can be read only once; name a file")
        self.files = tuple(dict.fromkeys(files))
        self._max_line = max_line
        self._read: dict[str, _PredictionsFile] = {}
        self._results = [RecordedVerdicts(path, max_line) for path in dict.fromkeys(results)]

    def __iter__(self) -> Iterator[Prediction]:
        for path in self.files:
            self._read[path] = file = _PredictionsFile(path, self._max_line)
            yield from file.predictions()
        for results in self._results:
            yield from results

    @property
    def sources(self) -> tuple[PredictionsSource, ...]:
        """How the lines of each file were read."""
        return (*(file.source for file in self._read.values()), *(results.source for results in self._results))

    def texts(self, items: Collection[str]) -> dict[str, AnswerTexts]:
        """Return the texts of items in result files."""
        found: dict[str, AnswerTexts] = {}
        for results in self._results:
            found |= results.texts(items)
        return found

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is doubtful about the files: lines that could not be read, streams that end too early."""
        own = [item for file in self._read.values() for item in file.findings()]
        return (*own, *(item for results in self._results for item in results.findings()))

    def close(self) -> None:
        """Give the memory back that result files take."""
        for results in self._results:
            results.close()


def read_predictions(
    files: Sequence[str], results: Sequence[str] = (), *, max_line: int = MAX_LINE_BYTES
) -> Predictions:
    """Return the predictions in files and the verdicts in result files, to be gone through; close it afterwards."""
    return Predictions(files, results, max_line=max_line)


class _PredictionsFile:
    """One file, read once."""

    def __init__(self, path: str, max_line: int) -> None:
        self._notes, self._digest, self._good = Notes(path), Sha256(), 0
        self._records = Records(path, _PREDICTION, report_to(self._notes), max_line=max_line, digest=self._digest)

    def predictions(self) -> Iterator[Prediction]:
        """Yield the predictions that can be read."""
        for _, prediction in self._records:
            self._good += 1
            yield prediction

    @property
    def source(self) -> PredictionsSource:
        """How the lines were read."""
        records = self._records
        digest = self._digest.hexdigest()
        counts = records.source.bytes_read, records.lines, self._good, records.bad, records.blank
        return PredictionsSource(records.path, digest, *counts)

    def findings(self) -> Iterator[Finding]:
        """Yield what is doubtful about the file."""
        yield from _findings(self._notes)


def _findings(notes: Notes) -> Iterator[Finding]:
    bad = notes.total("F001")
    if bad:
        what = "; ".join(f"{subject} ({count:,})" for subject, count in notes.subjects("F001"))
        is_ = "is" if bad == 1 else "are"
        message = f"{counted(bad, 'line')} could not be read and {is_} not counted: {clip(what, 400)}"
        yield finding("F001", bad, message, notes.where("F001"))
    for reason, _ in notes.subjects("F002"):
        message = f"{reason}: what came before the break is counted, the rest is missing"
        yield finding("F002", 1, message, [notes.name])


def _from_fields(fields: dict[str, Any]) -> Prediction:
    """Make a prediction of what is not clean JSON, or of the row of a table; NaN is no score."""
    score = fields.get("score")
    with contextlib.suppress(ValueError):
        fields["score"] = score = float(score) if isinstance(score, str) else score
    if isinstance(score, float) and not math.isfinite(score):
        fields["score"] = None
    # Where an empty cell of a table is nothing, only a decision that is nothing means something.
    given = {name: fields[name] for name in Prediction.__struct_fields__ if name in fields}
    known = {name: value for name, value in given.items() if value is not None or name == "decision"}
    try:
        return msgspec.convert(known, Prediction)
    except msgspec.ValidationError as error:
        raise BadLine(f"no prediction: {clip(visible(str(error)), _LONGEST_FAULT)}") from None


_PREDICTION = RecordType(_decoder, _from_fields)


# -- verdicts in result files -----------------------------------------------------------------------------------


class RecordedVerdicts:
    """The verdicts in one result file; they can be gone through more than once."""

    def __init__(self, path: str, max_line: int) -> None:
        self.path = path
        self._max_line = max_line
        self._opened: tuple[Ledger, ReadSource] | None = None

    def __iter__(self) -> Iterator[Prediction]:
        from faircount.ledger.store import source_and_line
        from faircount.ledger.tallies import verdicts_compared

        found = 0
        for place, attempt, judge, decision, score in verdicts_compared(self._open()[0]):
            found, line = found + 1, source_and_line(place)[1]
            yield Prediction(
                judge=judge,
                item=f"{self.path}:{line}#{attempt}" if attempt else f"{self.path}:{line}",
                decision=None if decision is None else Decision.of(decision),
                # Scores on other scales cannot be compared with those of judges.
                score=score if score is None or 0 <= score <= 1 else None,
                place=f"{self.path}:{line}",
            )
        if not found:
            raise InputError(f"{self.path}: no row has verdicts of several judges")

    def findings(self) -> Iterator[Finding]:
        """Yield what is doubtful about the file."""
        return _findings(self._open()[1].notes)

    @property
    def source(self) -> PredictionsSource:
        """How the lines of the file were read."""
        source = self._open()[1].source
        digest = sha256_of(self.path)
        counts = source.bytes, source.lines, source.good_lines, source.bad_lines, source.blank_lines
        return PredictionsSource(self.path, digest, *counts, holds="results")

    def texts(self, items: Collection[str]) -> dict[str, AnswerTexts]:
        """Return the texts of items, as far as they can be read back."""
        from faircount.analysis.evidence import lines_again
        from faircount.ledger.lookup import counted_rows

        wanted: dict[str, tuple[int, int]] = {}
        for item in items:
            if item.startswith(f"{self.path}:"):
                place, _, attempt = item.removeprefix(f"{self.path}:").partition("#")
                wanted[item] = int(place), int(attempt or 0)
        if not wanted:
            return {}
        ledger, read = self._open()
        rows = counted_rows(ledger, {ledger.ord(0, line) for line, _ in wanted.values()})
        lines, _ = lines_again(self.path, rows, read.anchors, self._max_line)
        return {item: _answer_texts(lines[line], attempt) for item, (line, attempt) in wanted.items() if line in lines}

    def close(self) -> None:
        """Give the memory back."""
        if self._opened is not None:
            self._opened[0].close()

    def _open(self) -> tuple[Ledger, ReadSource]:
        """Read the file the first time that it is asked."""
        if self._opened is None:
            # Only result files need the ledger.
            from faircount.ledger.store import Ledger
            from faircount.readers.loading import Loader, refuse_hopeless
            from faircount.readers.rows import ReadOptions

            ledger = Ledger([self.path])
            with Loader([self.path], ReadOptions(self._max_line, verdicts=True), alone=False) as loader:
                read = loader.load(ledger, 0)
            refuse_hopeless([read.source], [read.notes])
            ledger.fold()
            self._opened = ledger, read
        return self._opened


def _answer_texts(line: bytes, attempt: int) -> AnswerTexts:
    row = recorded(line)
    requests = row.history or ()
    request = requests[attempt - 1] if 0 < attempt <= len(requests) else None
    try:
        fields = parse(line)[0]
    except BadLine as bad:
        raise InputError(f"a row cannot be read back: {bad}") from None
    return AnswerTexts(
        prompt=row.prompt if request is None or request.input is None else request.input,
        response=row.response if request is None else request.response,
        reasons={judge: masked(reason) for judge, reason in _reasons(fields, attempt)},
    )


def _reasons(fields: Mapping[str, Any], attempt: int) -> Iterator[tuple[str, str]]:
    """Yield the reasons that a row records: those of its metrics, and those of judges that were asked later."""
    history = fields.get("attempt_history")
    item = history[attempt - 1] if isinstance(history, list) and 0 < attempt <= len(history) else None
    metrics = item.get("metrics") if isinstance(item, dict) else None
    named = [(one.get("name"), one) for one in _objects(metrics)]
    for one in rejudgings(fields.get("rejudged")):
        parts = [turn for turn in _objects(one.get("turns")) if attempt and turn.get("turn") == attempt - 1]
        named.append((one.get("judge"), parts[0] if parts else one))
    for judge, one in named:
        if isinstance(judge, str) and isinstance(one.get("reason"), str) and one["reason"]:
            yield judge, one["reason"]


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


# -- keeping ----------------------------------------------------------------------------------------------------


class KeptPredictions:
    """Lines of predictions kept in memory, packed, to be gone through more than once: reasons repeat themselves."""

    def __init__(self) -> None:
        self._packed: list[bytes] = []
        self._open = bytearray()

    def add(self, line: bytes) -> None:
        """Keep one more line, as `prediction_line` makes it."""
        self._open += line
        if len(self._open) >= _COMPRESSED_AT_ONCE:
            self._packed.append(zlib.compress(self._open, level=1))
            self._open = bytearray()

    def __iter__(self) -> Iterator[Prediction]:
        for part in self._packed:
            yield from map(_decoder.decode, zlib.decompress(part).splitlines())
        yield from map(_decoder.decode, bytes(self._open).splitlines())
