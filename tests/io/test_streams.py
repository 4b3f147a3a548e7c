"""Bytes become whole lines with exact numbers and offsets, whatever the file is packed in, within bounds."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from faircount.core import MAX_LINE_BYTES, InputError
from faircount.io import streams
from faircount.readers import TOO_LONG, Stream, blocks, open_stream


def numbered_lines(stream: Stream, max_line: int = MAX_LINE_BYTES) -> list[tuple[int, int, bytes]]:
    found: list[tuple[int, int, bytes]] = []
    for block in blocks(stream, max_line):
        offset = block.offset
        for line in block.lines:
            found.append((len(found) + 1, offset, line))
            offset += len(line) + 1
    return found


@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b"?")), max_size=20), st.data())
def test_lines_come_back_with_their_numbers_and_offsets_however_chunks_fall(
    lines: list[bytes], data: st.DataObject
) -> None:
    text = b"".join(line + b"\n" for line in lines)
    if text.startswith(b"\xef\xbb\xbf"):
        return
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    found = numbered_lines(Stream("x", iter(chunks)))
    assert [line for _, _, line in found] == lines
    assert [number for number, _, _ in found] == list(range(1, len(lines) + 1))
    for _, offset, line in found:
        assert text[offset : offset + len(line)] == line


def test_the_last_line_needs_no_line_feed() -> None:
    assert [line for *_, line in numbered_lines(Stream("x", iter([b"a\nb"])))] == [b"a", b"b"]


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    assert numbered_lines(Stream("x", iter([b"\xef\xbb\xbfa\nb\n"]))) == [(1, 3, b"a"), (2, 5, b"b")]


@pytest.mark.parametrize("chunk", [3, 7, 1000])
def test_a_line_over_the_limit_is_passed_over_and_the_next_is_exact(chunk: int) -> None:
    text = b"ab\n" + b"x" * 50 + b"\ncd\n"
    chunks = [text[i : i + chunk] for i in range(0, len(text), chunk)]
    found = numbered_lines(Stream("x", iter(chunks)), max_line=10)
    assert [(number, line) for number, _, line in found] == [(1, b"ab"), (2, TOO_LONG), (3, b"cd")]
    assert found[1][2] is TOO_LONG
    assert found[2][1] == text.index(b"cd")


TEXT = b"".join(f'{{"id": {i}, "x": "{i * i}"}}\n'.encode() for i in range(5000))


def zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


PACKERS: list[Callable[[bytes], bytes]] = [bytes, gzip.compress, zst]


@pytest.mark.parametrize("pack", PACKERS, ids=["plain", "gzip", "zstandard"])
def test_packed_files_are_told_by_their_content(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "misleading.name"
    path.write_bytes(pack(TEXT))
    stream = open_stream(str(path), "x")
    assert b"\n".join(line for *_, line in numbered_lines(stream)) + b"\n" == TEXT
    assert stream.truncated is None


@pytest.mark.parametrize("pack", PACKERS[1:], ids=["gzip", "zstandard"])
def test_several_members_are_one_stream(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "two"
    path.write_bytes(pack(TEXT) + pack(TEXT))
    assert len(numbered_lines(open_stream(str(path), "x"))) == 10_000


@pytest.mark.parametrize("pack", PACKERS[1:], ids=["gzip", "zstandard"])
def test_a_stream_that_ends_early_is_noticed_and_what_came_is_kept(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    packed = pack(b"".join(b"%d\n" % (i * i) for i in range(100_000)))
    path = tmp_path / "short"
    path.write_bytes(packed[: len(packed) * 2 // 3])
    stream = open_stream(str(path), "x")
    lines = numbered_lines(stream)
    assert stream.truncated is not None
    assert len(lines) > 1000


@pytest.mark.parametrize("pack", PACKERS[1:], ids=["gzip", "zstandard"])
def test_a_damaged_stream_is_noticed(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    packed = bytearray(pack(TEXT * 10))
    middle = len(packed) // 2
    packed[middle : middle + 40] = b"\xff" * 40
    path = tmp_path / "damaged"
    path.write_bytes(bytes(packed))
    stream = open_stream(str(path), "x")
    for _ in stream.chunks:
        pass
    assert stream.truncated is not None


def test_what_stands_before_a_wrong_checksum_is_kept(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(TEXT[:5000]))
    packed[-6] ^= 0xFF
    path = tmp_path / "sum.gz"
    path.write_bytes(bytes(packed))
    stream = open_stream(str(path), "x")
    assert b"".join(stream.chunks) == TEXT[:5000]
    assert stream.truncated is not None


@pytest.mark.parametrize("pack", PACKERS[1:], ids=["gzip", "zstandard"])
def test_a_decompression_bomb_is_refused_by_name(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(pack(b"\0" * (300 * 1024 * 1024)))
    with pytest.raises(InputError, match=r"bomb: expands more than 200 times.*decompression bomb"):
        numbered_lines(open_stream(str(path), "bomb"))


def test_the_absolute_limit_of_expansion_holds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(streams, "MAX_EXPANDED_BYTES", 1000)
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(TEXT))
    with pytest.raises(InputError, match="expands beyond"):
        numbered_lines(open_stream(str(path), "x.gz"))


def test_standard_input_is_read_and_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(b"a\nb\n"))))
    assert [line for *_, line in numbered_lines(open_stream("-", "-"))] == [b"a", b"b"]


def test_utf_16_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "powershell.jsonl"
    path.write_text('{"id": 1}\n', encoding="utf-16")
    with pytest.raises(InputError, match="UTF-16"):
        open_stream(str(path), "powershell.jsonl")
