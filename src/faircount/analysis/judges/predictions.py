"""Predictions: what judges said of labelled items, one line of JSON for each judge and item.

`judges evaluate --predictions` writes such lines and `judges agree` reads them. A line that cannot be read is counted
and told with its place, and the lines around it still count. Nothing here decides which of two lines counts.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from faircount.analysis.recorded import masked
from faircount.errors import UsageError
from faircount.findings import Notes, counted, finding
from faircount.judging.verdict import Decision, Verdict
from faircount.model import Finding
from faircount.options import MAX_LINE_BYTES
from faircount.reading.label_rows import Sha256
from faircount.reading.loose import BadLine, parse
from faircount.reading.readers import open_stream
from faircount.reading.streams import STDIN, TOO_LONG, Stream, blocks
from faircount.text import clip, visible

if TYPE_CHECKING:
    from faircount.reading.labelled import Labelled

_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
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
        # Half a surrogate pair, which no UTF-8 can hold.
        return _encoder.encode({key: _whole(value) for key, value in line.items()}) + b"\n"


def _whole(value: Any) -> Any:
    return whole(value) if isinstance(value, str) else value


def whole(text: str) -> str:
    """Return text that every JSON parser reads: half a surrogate pair becomes U+FFFD."""
    return _HALF_CHARACTER.sub("\ufffd", text)


def _masked(text: str) -> str:
    return _masked_once(text) if len(text) <= _REPEATED_REASON else masked(text)


@lru_cache(maxsize=_REASONS_KEPT)
def _masked_once(text: str) -> str:
    return masked(text)


# -- reading ----------------------------------------------------------------------------------------------------


class PredictionsSource(msgspec.Struct, frozen=True):
    """A file of predictions that was read, and how its lines fared."""

    path: str
    sha256: str
    bytes: int
    lines: int
    good_lines: int
    bad_lines: int
    blank_lines: int


class Predictions:
    """The lines of predictions files in their order; they can be gone through more than once.

    `sources` and `findings` tell how the lines fared the last time.
    """

    def __init__(self, files: Sequence[str], *, max_line: int = MAX_LINE_BYTES) -> None:
        if STDIN in files:
            raise UsageError("predictions are read twice, and standard input can be read only once; name a file")
        self.files = tuple(dict.fromkeys(files))
        self._max_line = max_line
        self._read: dict[str, _PredictionsFile] = {}

    def __iter__(self) -> Iterator[Prediction]:
        for path in self.files:
            self._read[path] = file = _PredictionsFile(path, self._max_line)
            yield from file.predictions()

    @property
    def sources(self) -> tuple[PredictionsSource, ...]:
        """How the lines of each file fared."""
        return tuple(file.source for file in self._read.values())

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is doubtful about the files: lines that could not be read, streams that end too early."""
        return tuple(item for file in self._read.values() for item in file.findings())


def read_predictions(files: Sequence[str]) -> Predictions:
    """Return the predictions in files, to be gone through."""
    return Predictions(files)


class _PredictionsFile:
    """One file, read once."""

    def __init__(self, path: str, max_line: int) -> None:
        self.path = path
        self.notes = Notes(path)
        self.digest = Sha256()
        self._max_line = max_line
        self._lines = self._good = self._blank = 0
        self._stream: Stream | None = None

    def predictions(self) -> Iterator[Prediction]:
        """Yield the lines that can be read."""
        self._stream = open_stream(self.path, self.path, self.digest)
        decode = _decoder.decode
        for block in blocks(self._stream, self._max_line):
            for line in block.lines:
                self._lines += 1
                try:
                    prediction = decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    careful = self._carefully(line)
                    if careful is None:
                        continue
                    prediction = careful
                self._good += 1
                yield prediction

    def _carefully(self, line: bytes) -> Prediction | None:
        """Read a line that is not clean; None and a note if there is no way."""
        if not line.strip():
            self._blank += 1
            return None
        try:
            return _loosely(line, self._max_line)
        except BadLine as fault:
            self.notes.add("F001", str(fault), self._lines)
        return None

    @property
    def source(self) -> PredictionsSource:
        """How the lines fared."""
        return PredictionsSource(
            self.path,
            self.digest.hexdigest(),
            0 if self._stream is None else self._stream.bytes_read,
            self._lines,
            self._good,
            self.notes.total("F001"),
            self._blank,
        )

    def findings(self) -> Iterator[Finding]:
        """Yield what is doubtful about the file."""
        bad = self.notes.total("F001")
        if bad:
            what = "; ".join(f"{subject} ({count:,})" for subject, count in self.notes.subjects("F001"))
            is_ = "is" if bad == 1 else "are"
            message = f"{counted(bad, 'line')} could not be read and {is_} not counted: {clip(what, 400)}"
            yield finding("F001", bad, message, self.notes.where("F001"))
        if self._stream is not None and self._stream.truncated:
            message = f"{self._stream.truncated}: what came before the break is counted, the rest is missing"
            yield finding("F002", 1, message, [self.path])


def _loosely(line: bytes, max_line: int) -> Prediction:
    """Read a line that is JSON only to forgiving readers, or raise `BadLine`; NaN is no score."""
    if line is TOO_LONG:
        raise BadLine(f"longer than {max_line:,} bytes")
    fields, _ = parse(line)
    score = fields.get("score")
    if isinstance(score, float) and not math.isfinite(score):
        fields["score"] = None
    known = {name: _whole(fields[name]) for name in Prediction.__struct_fields__ if name in fields}
    try:
        return msgspec.convert(known, Prediction)
    except msgspec.ValidationError as error:
        raise BadLine(f"no prediction: {clip(visible(str(error)), _LONGEST_FAULT)}") from None


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
