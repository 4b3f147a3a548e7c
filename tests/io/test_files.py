"""Local files through the interface that addresses share; `tests/test_object_stores.py` has the addresses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faircount.core import UsageError
from faircount.io import (
    NewFile,
    ReplacedError,
    chunks_of,
    expect_version,
    is_address,
    list_files,
    list_folder,
    local_file,
    open_binary,
    place_key,
    read_range,
    size_of,
    version_of,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_bytes(bytes(range(256)) * 1000)
    return path


def test_a_file_is_read_whole_by_range_and_from_the_middle(file: Path) -> None:
    content = file.read_bytes()
    assert size_of(str(file)) == len(content)
    assert b"".join(chunks_of(str(file))) == content
    assert read_range(str(file), 70_000, 200_000) == content[70_000:200_000]
    assert read_range(str(file), 250_000, 10**9) == content[250_000:]
    assert read_range(str(file), 10**9, 2 * 10**9) == b""
    with open_binary(str(file)) as opened:
        opened.seek(500)
        assert opened.read(7) == content[500:507]
    assert local_file(str(file)) == str(file)


def test_files_are_listed_by_name(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "c.txt", "sub/d.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert list_files(f"{tmp_path}/*.jsonl") == [f"{tmp_path}/a.jsonl", f"{tmp_path}/b.jsonl"]
    assert list_files(f"{tmp_path}/**/*.jsonl")[-1] == f"{tmp_path}/sub/d.jsonl"
    assert list_folder(str(tmp_path)) == [f"{tmp_path}/{name}" for name in ("a.jsonl", "b.jsonl", "c.txt")]


def test_a_file_may_grow_while_it_is_read(file: Path) -> None:
    before = version_of(str(file))
    expect_version(str(file), before)
    with file.open("ab") as more:
        more.write(b"more")
    expect_version(str(file), before)


def test_a_file_that_becomes_another_one_is_an_error(file: Path) -> None:
    before = version_of(str(file))
    os.truncate(file, 100)
    with pytest.raises(ReplacedError, match=r"a\.jsonl: replaced or cut while it was being read; run the command"):
        expect_version(str(file), before)
    before = version_of(str(file))
    os.utime(file, ns=(0, before.modified + 1))
    with pytest.raises(ReplacedError, match=r"a\.jsonl: rewritten while"):
        expect_version(str(file), before)
    before = version_of(str(file))
    copy = file.with_name("copy")
    copy.write_bytes(file.read_bytes())
    copy.replace(file)
    with pytest.raises(ReplacedError, match="replaced or cut"):
        expect_version(str(file), before)
    file.unlink()
    with pytest.raises(ReplacedError, match="replaced or cut"):
        expect_version(str(file), before)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("s3://bucket/a.jsonl", True),
        ("s3a://bucket/runs/*.jsonl", True),
        ("gs://bucket/a", True),
        ("abfss://container@account.dfs.core.windows.net/a", True),
        ("https://bucket/a", False),
        ("a.jsonl", False),
        ("./s3:/bucket/a", False),
        ("-", False),
    ],
)
def test_addresses_are_known_by_how_they_begin(path: str, expected: bool) -> None:
    assert is_address(path) is expected


def test_spellings_of_one_place_are_known_as_such(file: Path) -> None:
    assert place_key("s3a://bucket/a//b") == place_key("s3://bucket/a//b")
    assert place_key("s3://bucket/a") != place_key("gs://bucket/a")
    link = file.with_name("link")
    link.symlink_to(file)
    assert place_key(str(link)) == place_key(str(file))


@pytest.mark.parametrize(
    "address",
    [
        "s3://AKIAKEY:hunter2@bucket/a.jsonl",
        "s3://hunter2@bucket/a.jsonl",
        "gs://bucket:hunter2/a.jsonl",
        "s3://bucket/a.jsonl?X-Amz-Signature=hunter2",
        "abfss://container@account.dfs.core.windows.net/a.jsonl?sv=2024&sig=hunter2",
    ],
)
def test_credentials_in_an_address_are_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(UsageError, match="credentials do not belong in an address") as error:
        size_of(address)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("address", ["s3://", "s3:///a", "s3://b/a", "gs://-bucket/a", "abfss://container/a"])
def test_what_only_looks_like_an_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="is not an address; write"):
        size_of(address)


def test_nothing_is_written_to_an_address() -> None:
    with pytest.raises(UsageError, match=r"s3://bucket/a\.csv: object stores are only read; write to a local file"):
        NewFile("s3://bucket/a.csv")
