"""The members of a zip archive, one at a time, for formats that are archives of many small documents.

The directory is read with the standard library; the bytes are expanded here, because some tools compress members with
Zstandard (method 93), which the standard library does not know. A member may be several Zstandard frames. Nothing is
ever written under the name of a member. An archive without a directory, as a killed program leaves it, is read from
its beginning as far as it goes. What expands like a decompression bomb is refused.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from faircount.core.errors import InputError, UsageError
from faircount.io.streams import CHUNK_BYTES, EXPANSION_CHECKED_FROM, MAX_EXPANDED_BYTES, MAX_EXPANSION

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

ZIP_MAGIC = b"PK\x03\x04"
STORED, DEFLATED, ZSTANDARD = 0, 8, 93

_LOCAL_HEADER = struct.Struct("<4sHHHHHIIIHH")
_STEP = 1024 * 1024
_MOST_MEMBERS = 2_000_000
_ENCRYPTED, _SIZES_FOLLOW, _UTF8 = 0x1, 0x8, 0x800
_UNREADABLE = (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, OverflowError, IndexError, struct.error)
"""What the standard library raises for a directory that is damaged, or not what it says."""


class DamagedMember(Exception):
    """A member that cannot be read; the message is the reason."""


class ZipMember(Struct, frozen=True):
    """A member of an archive: its name, for people alone, and where and how its bytes are stored."""

    name: str
    header_at: int
    compressed: int
    size: int
    method: int
    flags: int
    crc: int


class ZipMembers:
    """An archive whose members are read one after the other. Of members with the same name the last one counts."""

    def __init__(self, path: str, shown: str) -> None:
        self._shown = shown
        self._expanded = 0
        self.damage = ""
        """What is wrong with the archive as a whole, where it could be read all the same."""
        self._file = Path(path).open("rb")  # noqa: SIM115  closed by `close`
        try:
            self.every = self._listed()
        except BaseException:
            self._file.close()
            raise
        self.members: dict[str, ZipMember] = {}
        for member in self.every:
            self.members.pop(member.name, None)
            self.members[member.name] = member

    def __enter__(self) -> ZipMembers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Read no further."""
        self._file.close()

    def chunks(self, member: ZipMember) -> Iterator[bytes]:
        """Yield the bytes of a member; `DamagedMember` says what is wrong with it, perhaps after some of them."""
        limit = max(EXPANSION_CHECKED_FROM, MAX_EXPANSION * member.compressed)
        size = crc = 0
        try:
            for chunk in self._expand(member):
                size += len(chunk)
                self._expanded += len(chunk)
                if size > limit:
                    raise DamagedMember(f"expands more than {MAX_EXPANSION} times, as a decompression bomb does")
                if self._expanded > MAX_EXPANDED_BYTES:
                    raise InputError(
                        f"{self._shown}: expands beyond {MAX_EXPANDED_BYTES // 1024**3} GiB and was not read further"
                    )
                crc = zlib.crc32(chunk, crc)
                yield chunk
        except OSError as error:
            raise InputError(f"{self._shown}: cannot be read: {error.strerror or error}") from error
        if size != member.size or crc != member.crc:
            raise DamagedMember("damaged: its bytes are not those that were written")

    def read(self, member: ZipMember, most: int) -> bytes:
        """Return the bytes of a member, or raise `DamagedMember`, also if they are more than `most`."""
        pieces, size = [], 0
        for chunk in self.chunks(member):
            size += len(chunk)
            if size > most:
                raise DamagedMember(f"longer than {most:,} bytes")
            pieces.append(chunk)
        return b"".join(pieces)

    # -- the directory ----------------------------------------------------------------------------------------------

    def _listed(self) -> list[ZipMember]:
        try:
            with zipfile.ZipFile(self._file) as archive:
                found = [_of_directory(info) for info in archive.infolist()]
        except _UNREADABLE as error:
            found = list(self._walked())
            self.damage = "the zip archive has no readable directory: its members were read from the beginning"
            if not found:
                raise InputError(f"{self._shown}: cannot read this zip archive; it is damaged") from error
        except OSError as error:
            raise InputError(f"{self._shown}: cannot be read: {error.strerror or error}") from error
        if len(found) > _MOST_MEMBERS:
            raise InputError(f"{self._shown}: the archive has more than {_MOST_MEMBERS:,} members")
        return found

    def _walked(self) -> Iterator[ZipMember]:
        """Yield the whole members at the beginning of an archive, by the headers before them."""
        end, place = self._file.seek(0, io.SEEK_END), 0
        for _ in range(_MOST_MEMBERS):
            self._file.seek(place)
            header = self._file.read(_LOCAL_HEADER.size)
            if len(header) < _LOCAL_HEADER.size or not header.startswith(ZIP_MAGIC):
                return
            _, _, flags, method, _, _, crc, compressed, size, name, extra = _LOCAL_HEADER.unpack(header)
            text = self._file.read(name)
            after = place + _LOCAL_HEADER.size + name + extra + compressed
            if after > end or flags & _SIZES_FOLLOW:
                return
            yield ZipMember(_name(text), place, compressed, size, method, flags, crc)
            place = after

    # -- the bytes --------------------------------------------------------------------------------------------------

    def _expand(self, member: ZipMember) -> Iterator[bytes]:
        if member.flags & _ENCRYPTED:
            raise DamagedMember("encrypted")
        self._file.seek(member.header_at)
        header = self._file.read(_LOCAL_HEADER.size)
        if len(header) < _LOCAL_HEADER.size or not header.startswith(ZIP_MAGIC):
            raise DamagedMember("damaged: it is not where the directory says")
        *_, name, extra = _LOCAL_HEADER.unpack(header)
        raw = io.BufferedReader(
            _Member(self._file, member.header_at + _LOCAL_HEADER.size + name + extra, member.compressed), CHUNK_BYTES
        )
        if member.method == STORED:
            return iter(lambda: raw.read(_STEP), b"")
        if member.method == DEFLATED:
            return _inflated(raw)
        if member.method == ZSTANDARD:
            return self._unzstd(raw)
        raise DamagedMember(f"compressed in a way that is not known here (method {member.method})")

    def _unzstd(self, raw: IO[bytes]) -> Iterator[bytes]:
        try:
            import zstandard
        except ImportError as error:
            raise UsageError(
                f"{self._shown}: its members are compressed with Zstandard; reading them needs the extra: "
                "pip install 'faircount[zst]'"
            ) from error
        with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=False) as reader:
            while chunk := _read(reader.read, zstandard.ZstdError):
                yield chunk


class _Member(io.RawIOBase):
    """The compressed bytes of a member as a file of their own."""

    def __init__(self, file: IO[bytes], place: int, size: int) -> None:
        super().__init__()
        self._file, self._place, self._left = file, place, size

    def readable(self) -> bool:
        return True

    def readinto(self, room: WriteableBuffer, /) -> int:
        view = memoryview(room).cast("B")
        self._file.seek(self._place)
        data = self._file.read(min(len(view), self._left))
        view[: len(data)] = data
        self._place += len(data)
        self._left -= len(data)
        return len(data)


def _read(read: Callable[[int], bytes], damage: type[Exception]) -> bytes:
    try:
        return read(_STEP)
    except damage as error:
        raise DamagedMember(f"damaged: {error}") from None


def _inflated(raw: IO[bytes]) -> Iterator[bytes]:
    inflate = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    try:
        while not inflate.eof:
            data = inflate.unconsumed_tail or raw.read(CHUNK_BYTES)
            piece = inflate.decompress(data, _STEP)
            if not data and not piece:
                return
            yield piece
    except zlib.error as error:
        raise DamagedMember(f"damaged: {error}") from None


def _of_directory(info: zipfile.ZipInfo) -> ZipMember:
    # Without this mark the library takes a name as code page 437; programs that write UTF-8 often forget it.
    text = info.filename if info.flag_bits & _UTF8 else _name(info.orig_filename.encode("cp437", "replace"))
    return ZipMember(
        name=text,
        header_at=info.header_offset,
        compressed=info.compress_size,
        size=info.file_size,
        method=info.compress_type,
        flags=info.flag_bits,
        crc=info.CRC,
    )


def _name(text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("cp437")
