"""Verdicts kept on disk, each under what was judged and who judged it, so that nothing is asked twice.

A record is one line, added in one go behind all others. It survives the process that wrote it, and two processes that
write at once lose nothing: a line that was torn spoils no other, because every record begins on a line of its own. A
damaged record is as good as none. Only decisions are kept: a judge that failed is asked again. Prompts and responses
are no part of a record, but a reason may quote them; the files are for their owner alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import zlib
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from faircount.core.attempt import Attempt
from faircount.core.errors import UsageError
from faircount.core.text import visible
from faircount.core.verdict import Decision, Span, Usage, Verdict
from faircount.judges.factory import JUDGES, STRING_JUDGES
from faircount.judges.judge import Judge, every_part

FORMAT = 1
EVERYTHING = frozenset(Attempt.__struct_fields__)
_WITHOUT_TIME = EVERYTHING - {"latency"}
TEXT_ALONE = frozenset(["response", "expected", "notes"])
_TIMED = "latency.Latency"

_SYNC_SECONDS = 1.0
_BLOCK = 1024 * 1024
_DIGEST_BYTES = 32
_HEX = 2 * _DIGEST_BYTES
_JUDGE_AT = len('{"judge":"')
_CONTENT_AT = _JUDGE_AT + _HEX + len('","content":"')
_SHORTEST = _CONTENT_AT + _HEX
_encoder = msgspec.json.Encoder(order="deterministic")


class _KeptVerdict(Struct, frozen=True, omit_defaults=True):
    """What is kept of a verdict."""

    hit: bool
    at: str
    score: float | None = None
    reason: str = ""
    span: Span | None = None
    usage: Usage | None = None


class _StoredVerdict(Struct, frozen=True):
    judge: str
    content: str
    sum: int
    said: Raw


def seen_by(judge: Judge) -> frozenset[str]:
    """Return which fields of an attempt a judge may look at.

    Of judges built in that is known; any other may look at all of them.
    """
    parts = [part for part in every_part(judge) if not list(part.parts())]
    if not all(_is_built_in(part) for part in every_part(judge)):
        return EVERYTHING
    names = {part.name for part in parts}
    if names <= STRING_JUDGES:
        return TEXT_ALONE
    return EVERYTHING if _TIMED in names else _WITHOUT_TIME


def _is_built_in(judge: Judge) -> bool:
    return JUDGES.built_in(judge.name) is not None and type(judge).__module__.startswith("faircount.judges.builtin.")


def content_digest(attempt: Attempt, fields: Collection[str]) -> bytes:
    """Return the SHA-256 of what a judge sees of an attempt."""
    seen: dict[str, Any] = {name: getattr(attempt, name) for name in fields}
    return hashlib.sha256(_encoder.encode((FORMAT, seen))).digest()


class VerdictStore:
    """The verdicts of one file, or of a folder with a file for each judge.

    A file is read when one of its judges is first asked about; what other processes add later is found the next time.
    """

    def __init__(self, path: Path, *, folder: bool = False) -> None:
        self.path = path
        self._is_folder = folder
        self._files: dict[str, _VerdictFile] = {}
        try:
            (path if folder else path.parent).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(path, error) from error

    def __enter__(self) -> VerdictStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def known(self, judge: str, content: bytes) -> Verdict | None:
        """Return what a judge said before, by the digests of the judge and of what it was shown."""
        return self._file(judge).read(bytes.fromhex(judge) + content)

    def keep(self, judge: str, content: bytes, verdict: Verdict) -> Verdict:
        """Write a verdict down and return it with its time; one without a decision is not kept.

        A disk that takes nothing more is no reason to lose a verdict: it comes back, without a time.
        """
        if verdict.decision is None:
            return verdict
        dated = msgspec.structs.replace(verdict, at=datetime.now(UTC).isoformat(timespec="milliseconds"))
        try:
            self._file(judge).add(bytes.fromhex(judge), content, dated)
        except OSError:
            return verdict
        return dated

    def open(self, judge: str) -> None:
        """Read what a judge said, so that processes that are forked from here have it."""
        self._file(judge)

    def close(self) -> None:
        """See to it that everything is on the disk, and close the files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _file(self, judge: str) -> _VerdictFile:
        name = judge if self._is_folder else ""
        if name not in self._files:
            self._files[name] = _VerdictFile(self.path / f"{judge}.jsonl" if self._is_folder else self.path)
        return self._files[name]


class _VerdictFile:
    """One file of records. What stands in it is known by place; a record is read when it is wanted."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        try:
            if path.exists() and not path.is_file():
                raise UsageError(f"{visible(str(path))}: not a regular file; verdicts need their own file")
            self._descriptor = os.open(path, flags, 0o600)
            self._places = _places(path)
            self._reading = path.open("rb")
        except OSError as error:
            raise _unusable(path, error) from error
        self._synced = time.monotonic()

    def read(self, name: bytes) -> Verdict | None:
        place = self._places.get(name)
        if place is None:
            return None
        start, length = place
        self._reading.seek(start)
        return _verdict(self._reading.read(length), name)

    def add(self, judge: bytes, content: bytes, verdict: Verdict) -> None:
        encoded = _encoder.encode(
            _KeptVerdict(
                hit=verdict.decision is Decision.HIT,
                at=verdict.at,
                score=verdict.score,
                reason=verdict.reason,
                span=verdict.span,
                usage=verdict.usage,
            )
        )
        record = _StoredVerdict(judge.hex(), content.hex(), _checksum(judge + content, encoded), Raw(encoded))
        # A line before may be torn: its writer was killed, or the disk was full for a moment.
        line = b"\n" + msgspec.json.encode(record) + b"\n"
        if os.write(self._descriptor, line) < len(line):
            raise OSError("the disk is full")
        if time.monotonic() - self._synced > _SYNC_SECONDS:
            self.sync()

    def sync(self) -> None:
        self._synced = time.monotonic()
        with contextlib.suppress(OSError):
            os.fsync(self._descriptor)

    def close(self) -> None:
        self.sync()
        self._reading.close()
        os.close(self._descriptor)


def _places(path: Path) -> dict[bytes, tuple[int, int]]:
    """Return where each record begins and how long it is; of two for the same thing the first counts."""
    places: dict[bytes, tuple[int, int]] = {}
    offset = 0
    with path.open("rb", buffering=_BLOCK) as file:
        for number, line in enumerate(file):
            if number == 0 and line != b"\n" and not line.startswith(b'{"judge":"'):
                raise UsageError(
                    f"{visible(str(path))}: contains something other than verdicts; verdicts need their own file"
                )
            name = _name(line)
            if name is not None:
                places.setdefault(name, (offset, len(line)))
            offset += len(line)
    return places


def _name(line: bytes) -> bytes | None:
    if len(line) < _SHORTEST or not line.endswith(b"}\n"):
        return None
    try:
        judge = bytes.fromhex(line[_JUDGE_AT : _JUDGE_AT + _HEX].decode())
        return judge + bytes.fromhex(line[_CONTENT_AT : _CONTENT_AT + _HEX].decode())
    except ValueError:
        return None


def _verdict(line: bytes, name: bytes) -> Verdict | None:
    try:
        record = msgspec.json.decode(line, type=_StoredVerdict)
        if record.sum != _checksum(name, bytes(record.said)):
            return None
        stored = msgspec.json.decode(record.said, type=_KeptVerdict)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    decision = Decision.of(stored.hit)
    return Verdict(decision, stored.score, stored.reason, stored.span, usage=stored.usage, at=stored.at)


def _checksum(name: bytes, encoded: bytes) -> int:
    return zlib.crc32(encoded, zlib.crc32(name))


def _unusable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{visible(str(path))}: cannot store verdicts here: {error.strerror or error}; choose another file with --store"
    )
