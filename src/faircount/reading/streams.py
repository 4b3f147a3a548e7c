"""Bytes of a source as blocks of whole lines, with exact line numbers and byte offsets.

Plain, gzip and Zstandard streams are told apart by their first bytes, whatever the file is called. Lines end at
`\\n` only (U+2028 and its kin are text). Memory is bounded: a line over the limit is passed over, a stream that
expands out of proportion is refused, a stream that ends too early is noticed after its whole lines were given.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from faircount.errors import InputError, UsageError

STDIN = "-"
BLOCK_BYTES = 1024 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_EXPANSION = 200
EXPANSION_CHECKED_FROM = 64 * 1024 * 1024
MAX_EXPANDED_BYTES = 64 * 1024**3

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_UTF8_MARK = b"\xef\xbb\xbf"
_EXPANDED_STEP = 1024 * 1024
_LINE_STEP = 256 * 1024
# One Zstandard block expands to at most 128 KiB and takes at least 4 bytes: 2 KiB in is at most 64 MiB out.
_ZSTD_INPUT_STEP = 2048

TOO_LONG = b"(a line over the limit)"
"""Stands for a line that was passed over because of its length; compare by identity."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a source: the number of the first, its byte offset, and each without its line feed."""

    first_line: int
    offset: int
    lines: list[bytes]


@dataclass(slots=True)
class Stream:
    """A source being read: its name for messages, its expanded bytes, and what was noticed on the way."""

    name: str
    chunks: Iterator[bytes]
    bytes_read: int = 0
    truncated: str | None = None
    starts_at: int = 0
    _expanded: int = field(default=0)

    def count(self, chunk: bytes) -> bytes:
        """Count raw bytes as they come in."""
        self.bytes_read += len(chunk)
        return chunk

    def expanded(self, piece: bytes) -> bytes:
        """Count expanded bytes and refuse a stream that grows out of proportion."""
        self._expanded += len(piece)
        if self._expanded > MAX_EXPANDED_BYTES:
            raise InputError(
                f"{self.name}: expands beyond {MAX_EXPANDED_BYTES // 1024**3} GiB and was not read further; "
                "unpack it yourself if you trust it"
            )
        if self._expanded > max(EXPANSION_CHECKED_FROM, MAX_EXPANSION * self.bytes_read):
            raise InputError(
                f"{self.name}: expands more than {MAX_EXPANSION} times and was not read further, as a decompression "
                "bomb would; unpack it yourself if you trust it"
            )
        return piece


def open_stream(path: str, name: str) -> Stream:
    """Open a file, or standard input for `-`, and expand it where it is compressed."""
    stream = Stream(name, iter(()))
    raw = map(stream.count, _raw_chunks(path, name))
    first = next(raw, b"")
    if first[:2] in _UTF16_MARKS:
        raise InputError(f"{name}: is UTF-16 text, not UTF-8; convert it first (iconv -f UTF-16 -t UTF-8)")
    stream.chunks = _expand(stream, first, raw)
    return stream


def is_plain(path: str) -> bool:
    """Tell whether a file is neither packed nor UTF-16, so that it can be read from anywhere in it."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(4)
    except OSError:
        return False
    return not start.startswith((_GZIP_MAGIC, _ZSTD_MAGIC, *_UTF16_MARKS))


def open_range(path: str, name: str, start: int, end: int) -> Stream:
    """Open the part of a plain file that holds the lines beginning at `start` or later and before `end`."""
    stream = Stream(name, iter(()))
    stream.chunks = map(stream.count, _range_chunks(stream, path, start, end))
    return stream


def _range_chunks(stream: Stream, path: str, start: int, end: int) -> Iterator[bytes]:
    """Yield a range's lines: from the first that begins in it, which the stream is told, to the end of the last."""
    try:
        with Path(path).open("rb", buffering=0) as file:
            position = max(start - 1, 0)
            file.seek(position)
            left = end - position
            beginning = start > 0
            while left > 0 and (chunk := file.read(min(BLOCK_BYTES, left))):
                left -= len(chunk)
                if beginning:
                    cut = chunk.find(b"\n") + 1
                    position += cut or len(chunk)
                    if not cut:
                        continue
                    chunk, beginning = chunk[cut:], False
                    stream.starts_at = position
                yield chunk
            if not beginning:
                yield from _rest_of_line(file, chunk)
    except OSError as error:
        raise InputError(f"{stream.name}: cannot be read: {error.strerror or error}") from error


def _rest_of_line(file: FileIO, last: bytes) -> Iterator[bytes]:
    """Yield what completes the last line of a range, if it is not complete."""
    while last and not last.endswith(b"\n"):
        chunk = file.read(_LINE_STEP)
        cut = chunk.find(b"\n") + 1
        last = chunk[:cut] if cut else chunk
        yield last


def _raw_chunks(path: str, name: str) -> Iterator[bytes]:
    try:
        if path == STDIN:
            yield from _read_all(sys.stdin.buffer)
        else:
            with Path(path).open("rb", buffering=0) as file:
                yield from _read_all(file)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error


def _read_all(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(BLOCK_BYTES):
        yield chunk


def _expand(stream: Stream, first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    expand: Callable[[Stream, Iterator[bytes]], Iterator[bytes]] | None = None
    if first.startswith(_GZIP_MAGIC):
        expand = _gunzip
    elif first.startswith(_ZSTD_MAGIC):
        expand = _unzstd

    def everything() -> Iterator[bytes]:
        yield first
        yield from rest

    if expand is None:
        return everything()
    return map(stream.expanded, expand(stream, everything()))


def _gunzip(stream: Stream, chunks: Iterator[bytes]) -> Iterator[bytes]:
    member, begun = zlib.decompressobj(wbits=31), False
    try:
        for chunk in chunks:
            data = chunk
            while data:
                begun = True
                yield from _inflate(member, data)
                data = b""
                if member.eof:
                    data = member.unused_data.lstrip(b"\0")
                    member, begun = zlib.decompressobj(wbits=31), False
    except zlib.error as error:
        stream.truncated = f"the gzip stream is damaged ({error})"
    else:
        if begun:
            stream.truncated = "the gzip stream ends before its end mark"


def _inflate(member: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """Expand `data` in bounded pieces, until the member ends or wants more; before damage, all that came whole."""
    rest = data
    while True:
        before = member.copy()
        try:
            piece = member.decompress(rest, _EXPANDED_STEP)
        except zlib.error:
            yield from _salvage(before, rest)
            raise
        if not piece:
            return
        yield piece
        if member.eof:
            return
        rest = member.unconsumed_tail


def _salvage(member: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """Expand what stands before damage, in ever smaller steps: a call that fails gives nothing of what it read."""
    for step in (4096, 64, 1):
        for start in range(0, len(data), step):
            before = member.copy()
            try:
                yield member.decompress(data[start : start + step])
            except zlib.error:
                member, data = before, data[start : start + step]
                break
        else:
            return


def _unzstd(stream: Stream, chunks: Iterator[bytes]) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError as error:
        raise UsageError(f"{stream.name}: reading .zst needs the extra: pip install 'faircount[zst]'") from error
    context = zstandard.ZstdDecompressor()
    frame, begun = context.decompressobj(), False
    for chunk in chunks:
        for start in range(0, len(chunk), _ZSTD_INPUT_STEP):
            data = chunk[start : start + _ZSTD_INPUT_STEP]
            while data:
                begun = True
                try:
                    piece = frame.decompress(data)
                except zstandard.ZstdError as error:
                    stream.truncated = f"the Zstandard stream is damaged ({error})"
                    return
                if piece:
                    yield piece
                data = b""
                if frame.eof:
                    data = frame.unused_data
                    frame, begun = context.decompressobj(), False
    if begun:
        stream.truncated = "the Zstandard stream ends inside a frame"


def blocks(stream: Stream, max_line: int = MAX_LINE_BYTES) -> Iterator[Block]:
    """Yield the whole lines of a stream in blocks; the last line needs no line feed."""
    splitter = _Splitter(max_line)
    first = True
    for chunk in stream.chunks:
        data = chunk
        if first and data:
            first = False
            splitter.offset = stream.starts_at
            if not stream.starts_at and data.startswith(_UTF8_MARK):
                splitter.offset = len(_UTF8_MARK)
                data = data[len(_UTF8_MARK) :]
        yield from splitter.feed(data)
    yield from splitter.finish()


class _Splitter:
    """Cuts chunks into blocks of whole lines and passes over lines beyond the limit."""

    def __init__(self, max_line: int) -> None:
        self.max_line = max_line
        self.line = 1
        self.offset = 0
        self.carried: list[bytes] = []
        self.carried_bytes = 0

    def feed(self, chunk: bytes) -> Iterator[Block]:
        """Yield the lines that a chunk completes; what it begins is carried on."""
        lines = chunk.split(b"\n")
        self._carry(lines[0])
        if len(lines) == 1:
            return
        last = lines.pop()
        if len(self.carried) != 1 or self.carried_bytes > self.max_line:
            yield self._carried_line()
            del lines[0]
        else:
            self._forget()
        if lines:
            yield from self._block(lines)
        self._carry(last)

    def finish(self) -> Iterator[Block]:
        """Yield a last line that has no line feed."""
        if self.carried_bytes:
            yield self._carried_line()

    def _carry(self, piece: bytes) -> None:
        self.carried_bytes += len(piece)
        if self.carried_bytes > self.max_line:
            self.carried.clear()
        else:
            self.carried.append(piece)

    def _carried_line(self) -> Block:
        line = TOO_LONG if self.carried_bytes > self.max_line else b"".join(self.carried)
        block = Block(self.line, self.offset, [line])
        self.line += 1
        self.offset += self.carried_bytes + 1
        self._forget()
        return block

    def _forget(self) -> None:
        self.carried, self.carried_bytes = [], 0

    def _block(self, lines: list[bytes]) -> Iterator[Block]:
        block = Block(self.line, self.offset, lines)
        self.line += len(lines)
        self.offset += sum(map(len, lines)) + len(lines)
        if max(map(len, lines)) > self.max_line:
            yield from _split_overlong(block, self.max_line)
        else:
            yield block


def _split_overlong(block: Block, max_line: int) -> Iterator[Block]:
    """Yield a block line by line, with the over-long ones replaced, so that every offset stays exact."""
    offset = block.offset
    for number, line in enumerate(block.lines, start=block.first_line):
        yield Block(number, offset, [TOO_LONG if len(line) > max_line else line])
        offset += len(line) + 1
