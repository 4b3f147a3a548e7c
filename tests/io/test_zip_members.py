"""Members of zip archives: every way to compress them, doubled names, hostile sizes and names, damage and torn ends."""

from __future__ import annotations

import struct
import sys
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest
import zstandard

from faircount import FaircountError
from faircount.io import DEFLATED, STORED, ZSTANDARD, DamagedMember, ZipMembers, zip_members

MOST = 1 << 20
Members = Iterable[tuple[str, bytes]]


def packed(data: bytes, method: int, frames: int = 1) -> bytes:
    """Return data as a member of an archive has it."""
    if method == STORED:
        return data
    if method == DEFLATED:
        deflate = zlib.compressobj(wbits=-15)
        return deflate.compress(data) + deflate.flush()
    step = max(1, -(-len(data) // frames))
    pieces = [data[start : start + step] for start in range(0, max(len(data), 1), step)]
    return b"".join(zstandard.ZstdCompressor().compress(piece) for piece in pieces)


def zipped(members: Members, method: int = ZSTANDARD, *, frames: int = 1, flags: int = 0x800, size: int = 0) -> bytes:
    """Return an archive as inspect_ai writes it; `size` is a false size to be claimed for every member."""
    body, directory, count = b"", b"", 0
    for name, data in members:
        text, raw = name.encode(), packed(data, method, frames)
        told = (flags, method, 0, 33, zlib.crc32(data), len(raw), size or len(data), len(text), 0)
        place = len(body)
        body += struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, *told) + text + raw
        directory += struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, *told, 0, 0, 0, 0, place) + text
        count += 1
    return body + directory + struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count, count, len(directory), len(body), 0)


def archive(folder: Path, data: bytes) -> ZipMembers:
    path = folder / "a.zip"
    path.write_bytes(data)
    return ZipMembers(str(path), "a.zip")


@pytest.mark.parametrize("method", [STORED, DEFLATED, ZSTANDARD])
@pytest.mark.parametrize("data", [b"", b"{}", b"text and more text " * 100_000])
def test_every_way_to_compress_gives_the_bytes_back(tmp_path: Path, method: int, data: bytes) -> None:
    with archive(tmp_path, zipped([("one", b"first"), ("two", data)], method)) as members:
        assert list(members.members) == ["one", "two"]
        assert members.read(members.members["two"], 10 * MOST) == data
        assert members.damage == ""


def test_a_standard_archive_is_read_as_the_standard_library_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr("ü/one.json", b"1" * 5_000)
        writer.writestr("two.json", b"2")
    with ZipMembers(str(path), "a.zip") as members, zipfile.ZipFile(path) as known:
        found = {name: members.read(member, MOST) for name, member in members.members.items()}
        assert found == {name: known.read(name) for name in known.namelist()}


def test_a_member_in_several_frames_is_read_to_its_end(tmp_path: Path) -> None:
    data = bytes(range(256)) * 400
    with archive(tmp_path, zipped([("one", data)], frames=7)) as members:
        assert members.read(members.members["one"], MOST) == data


def test_of_a_doubled_name_the_later_member_counts_at_its_place(tmp_path: Path) -> None:
    with archive(tmp_path, zipped([("a", b"old"), ("b", b"b"), ("a", b"new")])) as members:
        assert list(members.members) == ["b", "a"]
        assert members.read(members.members["a"], MOST) == b"new"
        assert [one.name for one in members.every] == ["a", "b", "a"]


def test_names_in_utf_8_are_read_as_such_even_without_the_mark(tmp_path: Path) -> None:
    with archive(tmp_path, zipped([("samples/ü.json", b"1")], flags=0)) as members:
        assert list(members.members) == ["samples/ü.json"]


def test_hostile_names_are_only_names(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    names = ["../up.json", "/faircount-absolute.json", "a\nb", "..\\up", "nul\0byte", ""]
    with archive(inside, zipped([(name, b"x") for name in names])) as members:
        assert [members.read(one, MOST) for one in members.every] == [b"x"] * len(names)
    assert [one.name for one in tmp_path.rglob("*")] == ["inside", "a.zip"]
    assert not Path("/faircount-absolute.json").exists()


# -- limits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [DEFLATED, ZSTANDARD])
@pytest.mark.parametrize("claimed", [0, 10])
def test_a_bomb_is_refused_before_it_is_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: int, claimed: int
) -> None:
    monkeypatch.setattr(zip_members, "EXPANSION_CHECKED_FROM", MOST)
    with archive(tmp_path, zipped([("bomb", bytes(64 * MOST))], method, size=claimed)) as members:
        seen = 0
        with pytest.raises(DamagedMember, match="expands more than 200 times"):
            for chunk in members.chunks(members.members["bomb"]):
                seen += len(chunk)
        assert seen < 24 * MOST


def test_many_small_bombs_are_refused_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_members, "MAX_EXPANDED_BYTES", 5 * MOST)
    with (
        archive(tmp_path, zipped((str(number), bytes(MOST)) for number in range(9))) as members,
        pytest.raises(FaircountError, match="expands beyond"),
    ):
        for member in members.every:
            members.read(member, 2 * MOST)


def test_a_member_longer_than_wanted_is_refused(tmp_path: Path) -> None:
    with (
        archive(tmp_path, zipped([("one", b"x" * 100)])) as members,
        pytest.raises(DamagedMember, match="longer than 99 bytes"),
    ):
        members.read(members.members["one"], 99)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (zipped([("one", b"x")], flags=1), "encrypted"),
        (zipped([("one", b"x")], STORED).replace(struct.pack("<HH", 0x800, 0), struct.pack("<HH", 0x800, 14)), "14"),
        (zipped([("one", b"x")], size=2), "not those that were written"),
        (zipped([("one", b"xyz")], STORED).replace(b"onexyz", b"onexyy"), "not those that were written"),
        (zipped([("one", b"x")]).replace(b"PK\3\4", b"PK\3\5"), "not where the directory says"),
        (zipped([("one", b"x" * 99)], DEFLATED).replace(packed(b"x" * 99, DEFLATED)[:3], b"\xff\xff\xff"), "damaged"),
        (zipped([("one", b"x" * 99)]).replace(b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfe"), "damaged"),
    ],
    ids=["encrypted", "unknown method", "false size", "changed", "moved", "bad deflate", "bad Zstandard"],
)
def test_a_member_that_cannot_be_trusted_is_refused_with_a_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    with archive(tmp_path, data) as members, pytest.raises(DamagedMember, match=reason):
        members.read(members.members["one"], MOST)


def test_without_zstandard_the_message_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with (
        archive(tmp_path, zipped([("one", b"x")])) as members,
        pytest.raises(FaircountError, match=r"pip install 'faircount\[zst\]'"),
    ):
        members.read(members.members["one"], MOST)


# -- torn archives ----------------------------------------------------------------------------------------------


def test_a_torn_archive_gives_its_whole_members(tmp_path: Path) -> None:
    data = zipped([("one", b"first"), ("two", b"second")])
    directory = data.index(b"PK\1\2")
    with archive(tmp_path, data[:directory]) as members:
        assert [members.read(one, MOST) for one in members.every] == [b"first", b"second"]
        assert "no readable directory" in members.damage
    with archive(tmp_path, data[: directory - 1]) as members:
        assert list(members.members) == ["one"]


def test_an_archive_cut_anywhere_is_read_or_refused(tmp_path: Path) -> None:
    data = zipped([("one", b"first"), ("two", b"second")])
    for end in range(4, len(data)):
        try:
            with archive(tmp_path, data[:end]) as members:
                for member in members.every:
                    assert members.read(member, MOST) in (b"first", b"second")
        except FaircountError as refusal:
            assert "damaged" in str(refusal)
