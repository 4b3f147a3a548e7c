"""Predictions: what judges said of labelled items, a record for each judge and item.

`judges evaluate --predictions` writes such lines and `judges agree` reads them. A line that cannot be read is counted
and told with its place, and the lines around it still count. Nothing here decides which of two lines counts.
"""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from faircount.analysis.recorded import masked
from faircount.errors import UsageError
from faircount.findings import Notes, counted, finding
from faircount.io.records import Records, RecordType, Sha256, report_to, without_surrogates
from faircount.judging.verdict import Decision, Verdict
from faircount.model import Finding
from faircount.options import MAX_LINE_BYTES
from faircount.reading.loose import BadLine
from faircount.reading.streams import STDIN
from faircount.text import clip, visible

if TYPE_CHECKING:
    from faircount.reading.labelled import Labelled

_LONGEST_FAULT = 120
_PACKED_AT_ONCE = 1 << 20
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
        "reason": _masked(verdict.reason),
        "error": None if verdict.error is None else _masked(verdict.error),
        "place": labelled.place,
        "identity": identity,
    }
    try:
        return _encoder.encode(line) + b"\n"
    except UnicodeEncodeError:
        # A lone surrogate, which no UTF-8 can hold.
        return _encoder.encode(without_surrogates(line)) + b"\n"


def _masked(text: str) -> str:
    return _masked_once(text) if len(text) <= _REPEATED_REASON else masked(text)


@lru_cache(maxsize=_REASONS_KEPT)
def _masked_once(text: str) -> str:
    return masked(text)


# -- reading ----------------------------------------------------------------------------------------------------


class PredictionsSource(msgspec.Struct, frozen=True):
    """A file of predictions, or of results that several judges judged, and how its lines fared."""

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


class JudgedResults(Protocol):
    """A result file that has verdicts of several judges."""

    path: str

    def __iter__(self) -> Iterator[Prediction]: ...
    @property
    def source(self) -> PredictionsSource: ...
    @property
    def notes(self) -> Notes: ...
    def texts(self, items: Collection[str]) -> dict[str, AnswerTexts]: ...


class Predictions:
    """The lines of predictions files in their order, then the verdicts in result files; to be gone through at will.

    `sources` and `findings` tell how the lines fared the last time.
    """

    def __init__(
        self, files: Sequence[str], results: Sequence[JudgedResults] = (), *, max_line: int = MAX_LINE_BYTES
    ) -> None:
        if STDIN in (*files, *(file.path for file in results)):
            raise UsageError("predictions are read twice, and standard input can be read only once; name a file")
        self.files = tuple(dict.fromkeys(files))
        self._max_line = max_line
        self._read: dict[str, _PredictionsFile] = {}
        self._results = results

    def __iter__(self) -> Iterator[Prediction]:
        for path in self.files:
            self._read[path] = file = _PredictionsFile(path, self._max_line)
            yield from file.predictions()
        for recorded in self._results:
            yield from recorded

    @property
    def sources(self) -> tuple[PredictionsSource, ...]:
        """How the lines of each file fared."""
        return (*(file.source for file in self._read.values()), *(recorded.source for recorded in self._results))

    def texts(self, items: Collection[str]) -> dict[str, AnswerTexts]:
        """Return the texts of items in result files."""
        found: dict[str, AnswerTexts] = {}
        for recorded in self._results:
            found |= recorded.texts(items)
        return found

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is doubtful about the files: lines that could not be read, streams that end too early."""
        own = [item for file in self._read.values() for item in file.findings()]
        return (*own, *(item for recorded in self._results for item in _findings(recorded.notes)))


def read_predictions(files: Sequence[str], results: Sequence[JudgedResults] = ()) -> Predictions:
    """Return the predictions in files and the verdicts in result files, to be gone through."""
    return Predictions(files, results)


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
        """How the lines fared."""
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
    told = {name: fields[name] for name in Prediction.__struct_fields__ if name in fields}
    known = {name: value for name, value in told.items() if value is not None or name == "decision"}
    try:
        return msgspec.convert(known, Prediction)
    except msgspec.ValidationError as error:
        raise BadLine(f"no prediction: {clip(visible(str(error)), _LONGEST_FAULT)}") from None


_PREDICTION = RecordType(_decoder, _from_fields)


# -- keeping ----------------------------------------------------------------------------------------------------


class KeptPredictions:
    """Lines of predictions kept in memory, packed, to be gone through more than once: reasons repeat themselves."""

    def __init__(self) -> None:
        self._packed: list[bytes] = []
        self._open = bytearray()

    def add(self, line: bytes) -> None:
        """Keep one more line, as `prediction_line` makes it."""
        self._open += line
        if len(self._open) >= _PACKED_AT_ONCE:
            self._packed.append(zlib.compress(self._open, level=1))
            self._open = bytearray()

    def __iter__(self) -> Iterator[Prediction]:
        for part in self._packed:
            yield from map(_decoder.decode, zlib.decompress(part).splitlines())
        yield from map(_decoder.decode, bytes(self._open).splitlines())
