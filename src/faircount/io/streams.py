"""Bytes of a source as blocks of whole lines, with exact line numbers and byte offsets, and their digest.

Plain, gzip and Zstandard streams are distinguished by their first bytes, whatever the file is called. Lines end at
`\\n` only (U+2028 and the like are text). Memory is bounded: a line over the limit is passed over, a stream that
expands out of proportion is refused, a stream that ends too early is noticed after its whole lines were given.
"""

from __future__ import annotations

import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from io import FileIO, RawIOBase
from pathlib import Path
from typing import Any

from msgspec import Struct
from xxhash import xxh3_128

from faircount.core.errors import InputError, UsageError
from faircount.core.options import MAX_LINE_BYTES
from faircount.io import object_store
from faircount.io.files import chunks_of, is_address, is_file, is_local_folder, open_binary, read_range, size_of
from faircount.io.object_store import CHUNK_BYTES as CHUNK_BYTES
from faircount.io.object_store import RANGE_BYTES as RANGE_BYTES

STDIN = "-"
BLOCK_BYTES = 256 * 1024
"""As many lines as fit are decoded at once: more of them would not stay in a processor's cache."""
MAX_EXPANSION = 200
EXPANSION_CHECKED_FROM = 64 * 1024 * 1024
MAX_EXPANDED_BYTES = 64 * 1024**3

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_UTF8_MARK = b"\xef\xbb\xbf"
_COMPRESSED = (_GZIP_MAGIC, _ZSTD_MAGIC)
_EXPANDED_STEP = 1024 * 1024
_LINE_FEED = ord("\n")
# One Zstandard block expands to at most 128 KiB and takes at least 4 bytes: 2 KiB in is at most 64 MiB out.
_ZSTD_INPUT_STEP = 2048

TOO_LONG = b"(a line over the limit)"
"""Stands for a line that was passed over because of its length; compare by identity."""


class Block(Struct, frozen=True):
    """Whole lines of a source as they stand there: the first bytes of a buffer, which is used again for the next.

    A line over the limit is a block of its own, without its text.
    """

    offset: int
    buffer: bytes | bytearray
    length: int

    @property
    def data(self) -> bytes:
        """The lines as they stand there; they may be kept."""
        return bytes(memoryview(self.buffer)[: self.length])

    @property
    def lines(self) -> list[bytes]:
        """The lines, each without its line feed; they may be kept."""
        if self.buffer is TOO_LONG:
            return [TOO_LONG]
        lines = self.data.split(b"\n")
        if not lines[-1]:
            del lines[-1]
        return lines


class Stream(Struct):
    """A source being read: its name for messages, its expanded bytes, and what was noticed on the way."""

    name: str
    chunks: Iterator[bytes]
    bytes_read: int = 0
    truncated: str | None = None
    starts_at: int = 0
    content: ContentHash | None = None
    path: str = ""
    """Where the bytes are; a run in a file is named behind the file, see `split_member`."""
    max_line: int = MAX_LINE_BYTES
    read_as: Any = None
    """What the user says of the file (`readers.ReadAs`)."""
    only_run: str | None = None
    """The only run in the file that is wanted."""
    run: Any = None
    """What a reader knows of the file (`readers.RunFile`), if its lines are rows made from something else."""
    _expanded: int = 0
    _waiting: memoryview = memoryview(b"")

    @property
    def tells_of_tests(self) -> bool:
        """Whether the rows are cases of a run of tests, and not attacks."""
        return self.run is not None and str(self.run.aim) == "task"

    def count(self, chunk: bytes) -> bytes:
        """Count raw bytes as they come in, and take their digest if that is wanted."""
        self.take(memoryview(chunk))
        return chunk

    def take(self, raw: memoryview) -> None:
        """Count raw bytes, and take their digest if that is wanted."""
        self.bytes_read += len(raw)
        if self.content is not None:
            self.content.update(raw)

    def fill(self, room: memoryview) -> int:
        """Put the next expanded bytes into a buffer; return how many they are, 0 at the end."""
        while not self._waiting:
            chunk = next(self.chunks, None)
            if chunk is None:
                return 0
            self._waiting = memoryview(chunk)
        count = min(len(room), len(self._waiting))
        room[:count] = self._waiting[:count]
        self._waiting = self._waiting[count:]
        return count

    def close(self) -> None:
        """Read no further."""

    def expanded(self, piece: bytes) -> bytes:
        """Count expanded bytes and refuse a stream that grows out of proportion."""
        self._expanded += len(piece)
        if self._expanded > MAX_EXPANDED_BYTES:
            raise InputError(
                f"{self.name}: expands beyond {MAX_EXPANDED_BYTES // 1024**3} GiB and was not read further; "
                "decompress it yourself if you trust it"
            )
        if self._expanded > max(EXPANSION_CHECKED_FROM, MAX_EXPANSION * self.bytes_read):
            raise InputError(
                f"{self.name}: expands more than {MAX_EXPANSION} times and was not read further, as a decompression "
                "bomb would; decompress it yourself if you trust it"
            )
        return piece


def split_member(path: str) -> tuple[str, str | None]:
    """Return the file that a path names, and what it names inside: `archive.zip/file.csv`, `eval.json/openai:gpt-4`."""
    if is_address(path):
        return object_store.split_member(path)
    if path != STDIN and not Path(path).exists():
        for parent in Path(path).parents:
            if parent.is_file():
                return str(parent), Path(path).relative_to(parent).as_posix()
    return path, None


def file_of(path: str) -> str:
    """Return the file that a path names, or names something in."""
    return split_member(path)[0]


def is_stored(path: str) -> bool:
    """Return whether a path names a file or folder, or something in one, that can be read again."""
    return path != STDIN and (is_file(file_of(path)) or is_local_folder(path))


def sha256_of(path: str) -> str:
    """Return the SHA-256 of a file in hexadecimal; that of a folder is over the names and contents of its files."""
    import hashlib

    whole, file = hashlib.sha256(), file_of(path)
    if not is_local_folder(file):
        for chunk in chunks_of(file):
            whole.update(chunk)
        return whole.hexdigest()
    place = Path(file)
    for one in sorted(place.rglob("*")):
        if one.is_file():
            whole.update(f"{one.relative_to(place).as_posix()}\0".encode("utf-8", "surrogateescape"))
            whole.update(one.read_bytes())
    return whole.hexdigest()


def open_bytes(path: str, name: str, content: ContentHash | None = None) -> Stream:
    """Open a file, or standard input for `-`, and expand it where it is compressed."""
    file, run = split_member(path)
    stream = Stream(name, iter(()), content=content, path=path, only_run=run)
    if is_local_folder(file):  # its reader goes through it
        return stream
    raw = map(stream.count, raw_chunks(file, name))
    first = next(raw, b"")
    if is_utf16(first):
        raise InputError(f"{name}: this is UTF-16 text, not UTF-8; convert it first (iconv -f UTF-16 -t UTF-8)")
    stream.chunks = _expand(stream, first, raw)
    return stream


def is_compressed(path: str) -> bool:
    """Return whether a file has to be decompressed; one that cannot be read has not."""
    try:
        return read_range(file_of(path), 0, len(_ZSTD_MAGIC)).startswith(_COMPRESSED)
    except (OSError, InputError):
        return False


def is_utf16(start: bytes) -> bool:
    """Return whether a text that begins so is UTF-16."""
    return start[:2] in _UTF16_MARKS


def open_range(path: str, name: str, start: int, end: int, content: ContentHash | None = None) -> Stream:
    """Open the part of a plain file that holds the lines beginning at `start` or later and before `end`.

    Lines do not keep to the bounds; the digest is that of the bytes from `start` to `end` all the same.
    """
    return _Range(name, iter(()), content=content, path=path, start=start, end=end)


class _Range(Stream):
    """A part of a plain file, read straight into the buffer it is wanted in."""

    path: str = ""
    start: int = 0
    end: int = 0
    _file: FileIO | RawIOBase | None = None
    _position: int = 0
    _inside_line: bool = False

    def fill(self, room: memoryview) -> int:
        """Put the next bytes into a buffer: from the first line that begins in the range to the end of the last."""
        try:
            if self._file is None:
                self._file = open_binary(self.path, max(self.start - 1, 0), self.end + CHUNK_BYTES)
                self._find_first_line(self._file)
            return self._read(self._file, room)
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror or error}") from error

    def close(self) -> None:
        """Read no further."""
        if self._file is not None:
            self._file.close()

    def _find_first_line(self, file: FileIO | RawIOBase) -> None:
        """Go to the first line that begins in the range, or to its end."""
        self._position = self.start
        file.seek(max(self.start - 1, 0))
        found = self.start == 0 or file.read(1) == b"\n"
        while not found and self._position < self.end:
            chunk = file.read(min(CHUNK_BYTES, self.end - self._position)) or b""
            cut = chunk.find(b"\n") + 1
            passed = cut or len(chunk)
            self.take(memoryview(chunk)[:passed])
            self._position += passed
            found = cut > 0 or not chunk
        file.seek(self._position)
        self.starts_at = self._position

    def _read(self, file: FileIO | RawIOBase, room: memoryview) -> int:
        if self._position < self.end:
            count = file.readinto(room[: self.end - self._position]) or 0
            self.take(room[:count])
        elif self._inside_line:
            count = file.readinto(room[:CHUNK_BYTES]) or 0
            count = bytes(room[:count]).find(b"\n") + 1 or count
        else:
            count = 0
        self._position += count
        self._inside_line = count > 0 and room[count - 1] != _LINE_FEED
        return count


def raw_chunks(path: str, name: str) -> Iterator[bytes]:
    """Yield the bytes of a file as they are on the disk, or those of standard input."""
    try:
        if path == STDIN:
            if sys.stdin is None:
                raise InputError(f"{name}: cannot be read: standard input is closed")
            yield from iter(lambda: sys.stdin.buffer.read(CHUNK_BYTES), b"")
        else:
            yield from chunks_of(path)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error


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


def _fastest_zlib() -> Any:
    """Return zlib-ng where it is installed, which does the same in about half the time, else zlib."""
    try:
        from zlib_ng import zlib_ng
    except ImportError:
        return zlib
    return zlib_ng


def _gunzip(stream: Stream, chunks: Iterator[bytes]) -> Iterator[bytes]:
    library = _fastest_zlib()
    member, begun = library.decompressobj(wbits=31), False
    try:
        for chunk in chunks:
            data = chunk
            while data:
                begun = True
                yield from _inflate(member, data, library.error)
                data = b""
                if member.eof:
                    data = member.unused_data.lstrip(b"\0")
                    member, begun = library.decompressobj(wbits=31), False
    except library.error as error:
        stream.truncated = f"the gzip stream is damaged ({error})"
    else:
        if begun:
            stream.truncated = "the gzip stream ends before its end mark"


def _inflate(member: Any, data: bytes, damage: type[Exception]) -> Iterator[bytes]:
    """Expand `data` in bounded pieces, until the member ends or wants more; before damage, all that came whole."""
    rest = data
    while True:
        before = member.copy()
        try:
            piece = member.decompress(rest, _EXPANDED_STEP)
        except damage:
            yield from _salvage(before, rest, damage)
            raise
        if not piece:
            return
        yield piece
        if member.eof:
            return
        rest = member.unconsumed_tail


def _salvage(member: Any, data: bytes, damage: type[Exception]) -> Iterator[bytes]:
    """Expand what stands before damage, in ever smaller steps: a call that fails gives nothing of what it read."""
    for step in (4096, 64, 1):
        for start in range(0, len(data), step):
            before = member.copy()
            try:
                yield member.decompress(data[start : start + step])
            except damage:
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


def blocks(stream: Stream, max_line: int = MAX_LINE_BYTES, size: int = 0) -> Iterator[Block]:
    """Yield the whole lines of a stream in blocks of about a size; the last line needs no line feed."""
    splitter = _Splitter(stream, max_line, size or BLOCK_BYTES)
    try:
        while splitter.fill():
            yield from splitter.whole_lines()
        yield from splitter.rest()
    finally:
        stream.close()


class _Splitter:
    """Gathers what comes in a buffer, hands out whole lines, and passes over lines beyond the limit.

    The buffer is used over and over: new memory for every block would cost more than to fill it.
    """

    def __init__(self, stream: Stream, max_line: int, size: int) -> None:
        self._stream = stream
        self._max_line = max_line
        self._buffer = bytearray(size)
        self._used = 0
        self._offset = -1
        self._passed_over = 0

    def fill(self) -> bool:
        """Take more from the stream; return whether there was more."""
        if self._used == len(self._buffer):
            larger = bytearray(2 * self._used)
            larger[: self._used] = self._buffer
            self._buffer = larger
        count = self._stream.fill(memoryview(self._buffer)[self._used :])
        self._used += count
        if self._offset < 0 and (not count or self._used >= len(_UTF8_MARK)):
            self._begin()
        return count > 0

    def _begin(self) -> None:
        self._offset = self._stream.starts_at
        if not self._offset and self._buffer.startswith(_UTF8_MARK, 0, self._used):
            self._drop(len(_UTF8_MARK))

    def whole_lines(self) -> Iterator[Block]:
        """Yield the lines that are there, once they fill the buffer."""
        if self._passed_over:
            yield from self._pass_over()
        if self._used < len(self._buffer):
            return
        end = self._buffer.rfind(b"\n", 0, self._used) + 1
        if end:
            yield from self._hand_out(end)
        elif self._used > self._max_line:
            self._passed_over, self._used = self._used, 0

    def rest(self) -> Iterator[Block]:
        """Yield what is left at the end; the last line may have no line feed."""
        if self._passed_over:
            yield Block(self._offset, TOO_LONG, 0)
        elif self._used:
            yield from self._hand_out(self._used)

    def _pass_over(self) -> Iterator[Block]:
        end = self._buffer.find(b"\n", 0, self._used) + 1
        if not end:
            self._passed_over += self._used
            self._used = 0
            return
        yield Block(self._offset, TOO_LONG, 0)
        self._offset += self._passed_over
        self._passed_over = 0
        self._drop(end)

    def _hand_out(self, end: int) -> Iterator[Block]:
        block = Block(self._offset, self._buffer, end)
        if end > self._max_line:
            yield from _without_overlong(block, self._max_line)
        else:
            yield block
        self._drop(end)

    def _drop(self, count: int) -> None:
        """Forget the first bytes of the buffer."""
        self._offset += count
        left = self._used - count
        self._buffer[:left] = self._buffer[count : self._used]
        self._used = left


def _without_overlong(block: Block, max_line: int) -> Iterator[Block]:
    """Yield a block line by line if any is too long, with those replaced, so that every offset stays exact."""
    lines = block.lines
    if max(map(len, lines)) <= max_line:
        yield block
        return
    offset = block.offset
    for line in lines:
        if len(line) > max_line:
            yield Block(offset, TOO_LONG, 0)
        else:
            yield Block(offset, line + b"\n", len(line) + 1)
        offset += len(line) + 1


# -- what a file holds, as one short value ----------------------------------------------------------------------
# Files with the same value hold the same bytes. The digest is taken over ranges of a fixed size and then over their
# digests, so that several processes or threads can share the work. It is XXH3 with 128 bits, with a seed of its own and
# begun with some bytes of its own, so that neither the numbers that XXH3 works with nor the places where it uses them
# are known to anybody but the user's cache. That matters because XXH3 is fast but no cryptographic digest: with the
# seed alone kept secret, one can still write two files that one seed in seventy takes for one.

SECRET_BYTES = 2048
_STEP = 1024 * 1024
_XXH3_BLOCK = 1024
"""After so many bytes XXH3 begins again with the same numbers."""


class Secret:
    """What makes the digests of one cache its own."""

    def __init__(self, random: bytes) -> None:
        if len(random) != SECRET_BYTES:
            raise ValueError(f"a secret has {SECRET_BYTES} bytes, not {len(random)}")
        length = 1 + int.from_bytes(random[8:16]) % (_XXH3_BLOCK - 1)
        self._seed, self._beginning = int.from_bytes(random[:8]), random[16 : 16 + length]

    def digesting(self) -> xxh3_128:
        """Begin a digest."""
        return xxh3_128(self._beginning, seed=self._seed)


class ContentHash:
    """Digests of the ranges of a file whose bytes are handed in one after the other."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret
        self._digest = secret.digesting()
        self._left = RANGE_BYTES
        self._whole: list[bytes] = []

    def update(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        rest = memoryview(data)
        while len(rest) >= self._left:
            self._digest.update(rest[: self._left])
            rest = rest[self._left :]
            self._whole.append(self._digest.digest())
            self._digest, self._left = self._secret.digesting(), RANGE_BYTES
        self._digest.update(rest)
        self._left -= len(rest)

    def digests(self) -> list[bytes]:
        """Return the digests of all ranges, the last of which may be short."""
        return [*self._whole, self._digest.digest()] if self._left < RANGE_BYTES else list(self._whole)


def identity(digests: Sequence[bytes], secret: Secret) -> str:
    """Return the value that stands for a file with these digests of its ranges."""
    whole = secret.digesting()
    whole.update(b"".join(digests))
    return whole.digest().hex()


def identity_of_file(path: str, secret: Secret) -> str:
    """Read a file, by a thread per core, and return the value that stands for it."""
    starts = list(range(0, size_of(path), RANGE_BYTES))
    digests: dict[int, bytes] = {}
    failures: list[OSError] = []

    def work(mine: Sequence[int]) -> None:
        try:
            with Path(path).open("rb", buffering=0) as file:
                for start in mine:
                    digests[start] = _range_digest(file, start, secret)
        except OSError as error:
            failures.append(error)

    count = min(os.cpu_count() or 1, len(starts)) or 1
    threads = [threading.Thread(target=work, args=(starts[turn::count],)) for turn in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return identity([digests[start] for start in starts], secret)


def _range_digest(file: FileIO, start: int, secret: Secret) -> bytes:
    digest = secret.digesting()
    file.seek(start)
    for _ in range(RANGE_BYTES // _STEP):
        digest.update(file.read(_STEP))
    return digest.digest()
