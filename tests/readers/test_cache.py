"""What was read from a large file is kept, believed only while the file is the same, and never in the way."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from xxhash import xxh3_128_digest

from faircount import Analysis, analyze
from faircount.analysis import summary
from faircount.app.cli import main
from faircount.io import streams, version_of
from faircount.ledger import store
from faircount.readers import (
    FOLDER_VARIABLE,
    SECRET_BYTES,
    Cache,
    ContentHash,
    ReadAs,
    ReadOptions,
    Secret,
    SpikeeReader,
    identity_of_file,
    loading,
)
from faircount.readers import cache as caching
from tests.conftest import Write, analysis_of, attack, standard


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and files that are large enough for it."""
    folder = tmp_path / "cache"
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    monkeypatch.setattr(loading, "CACHED_FROM_BYTES", 1)
    for module in (loading, store):
        monkeypatch.setattr(module, "ONE_BY_ONE_UP_TO_ROWS", 1)
    return folder


def lines() -> list[dict[str, Any] | str]:
    rows: list[dict[str, Any] | str] = []
    for i in range(60):
        rows.append(
            standard(
                i if i % 3 else f"case {i}", success=i % 4 == 0, plugin="p1" if i % 2 else None, response_time=i / 9
            )
        )
        if i % 5 == 0:
            history = [{"success": False, "error": None}, {"success": None, "error": "Guardrail was triggered"}]
            rows.append(attack(i, success=i % 2 == 0, attempts=2, objective=f"prompt {i}", attempt_history=history))
        if i % 7 == 0:
            rows.append(
                standard(f"e{i}", error=f"HTTP 503 after {i} s", guardrail=True, guardrail_categories=["hate", "other"])
            )
    return [*rows, standard(1, plugin="another case"), rows[4], '{"id": "torn', ""]


def entries(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir()] if folder.exists() else []


def answers(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/answer-*"))


def forget_answers(folder: Path) -> None:
    """Leave the tables alone, from which any question can be answered."""
    for path in answers(folder):
        path.unlink()


def forbid_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the file was read")

    monkeypatch.setattr(loading, "open_source", refuse)


# -- used -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"evidence": (("", 4), ("failures", 2))},
        {"figures": True, "by": ("plugin",)},
        {"definition": "spikee"},
        {"combine": True},
    ],
    ids=str,
)
def test_a_second_analysis_is_the_same_and_reads_nothing(
    write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    path = write(lines())
    without = analysis_of(path, cache=False, **options)
    assert not entries(folder)
    first = analysis_of(path, **options)
    assert len(entries(folder)) == 1
    forbid_reading(monkeypatch)
    for _ in range(2):
        second = analysis_of(path, **options)
        assert second == first == without
        # A whole number stays one: 2 and 2.0 are equal, and not the same.
        assert repr(second) == repr(first) == repr(without)
        forget_answers(folder)


def test_the_same_question_is_answered_without_tables(
    write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(lines())
    first = analysis_of(path, by=("plugin",))
    other = analysis_of(path, by=("plugin",), min_n=3)
    assert len(answers(folder)) == 2
    monkeypatch.setattr(caching, "_load", lambda *_: pytest.fail("tables were read"))
    assert repr(analysis_of(path, by=("plugin",))) == repr(first)
    assert repr(analysis_of(path, by=("plugin",), min_n=3)) == repr(other)
    with pytest.raises(pytest.fail.Exception, match="tables were read"):
        analysis_of(path, by=("plugin",), min_n=4)


def test_several_files_are_answered_file_by_file(write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "TOGETHER_BELOW_BYTES", 0)
    paths = [write([*lines(), standard(f"x{i}")], f"results_{i}.jsonl") for i in range(3)]
    first = analyze(*paths)
    answers(folder)[1].unlink()
    assert repr(analyze(*paths)) == repr(first)
    assert repr(analyze(*paths)) == repr(first)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_answer_is_not_believed(write: Write, folder: Path, damage: str) -> None:
    path = write(lines())
    first = analysis_of(path)
    (answer,) = answers(folder)
    text = bytearray(answer.read_bytes())
    text[len(text) // 2] ^= 1
    answer.write_bytes({"cut": bytes(text[: len(text) // 2]), "flipped": bytes(text), "empty": b""}[damage])
    assert analysis_of(path) == first


@pytest.mark.parametrize("options", [{"combine": True}, {"where": "success = true"}, {"evidence": (("", 4),)}], ids=str)
def test_no_answer_is_kept_that_needs_more_than_the_file_or_holds_texts(
    write: Write, folder: Path, options: dict[str, Any]
) -> None:
    analysis_of(write(lines()), **options)
    assert not answers(folder)


def test_a_changed_program_answers_anew(write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(lines())
    analysis_of(path)
    package = folder.parent / "package" / "readers"
    package.mkdir(parents=True)
    (package / "cache.py").touch()
    monkeypatch.setattr(caching, "__file__", str(package / "cache.py"))
    analysis_of(path)
    assert len(answers(folder)) == 2


def test_files_that_are_analysed_together_are_kept_as_rows(
    write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write(lines(), "results_a.jsonl"), write([*lines(), standard("more")], "results_b.jsonl")
    first = analysis_of(*paths, combine=True)
    assert len(entries(folder)) == 2
    forbid_reading(monkeypatch)
    assert analysis_of(*paths, combine=True) == first


@pytest.mark.usefixtures("folder")
def test_a_copy_is_known_and_keeps_its_own_name(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(lines())
    analysis_of(path)
    elsewhere = Path(path).with_name("results_copy.jsonl")
    shutil.copy(path, elsewhere)
    forbid_reading(monkeypatch)
    again = analysis_of(str(elsewhere))
    assert again.sources[0].path == str(elsewhere)
    assert all(place.startswith(str(elsewhere)) for finding in again.findings for place in finding.where)


@pytest.mark.usefixtures("folder")
def test_packed_files_are_kept_too(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(write(lines()))
    packed = path.with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    first = analysis_of(str(packed))
    forbid_reading(monkeypatch)
    assert analysis_of(str(packed)) == first


# -- never stale ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"short"])
def test_a_secret_that_a_full_disk_cut_off_is_made_again(tmp_path: Path, content: bytes) -> None:
    cache = Cache(tmp_path / "cache")
    assert cache.secret() is not None
    secret = tmp_path / "cache" / "secret"
    secret.write_bytes(content)
    assert cache.secret() is not None
    assert secret.read_bytes() != content


@pytest.mark.parametrize("which", ["content", "rows", "secret"])
def test_a_pipe_in_the_cache_is_not_waited_for(write: Write, folder: Path, which: str) -> None:
    path = write(lines())
    before = analysis_of(path)
    (entry,) = entries(folder)
    rows = next(file for file in sorted(entry.iterdir()) if file.name != caching._CONTENT)
    file = {"content": entry / caching._CONTENT, "rows": rows, "secret": folder / "secret"}[which]
    file.unlink()
    os.mkfifo(file)
    found: list[Analysis] = []
    waiting = threading.Thread(target=lambda: found.append(analysis_of(path)), daemon=True)
    waiting.start()
    waiting.join(60)
    assert found == [before]


def test_one_changed_byte_is_noticed_whatever_the_clock_says(write: Write, folder: Path) -> None:
    path = Path(write([standard(i, success=True) for i in range(30)]))
    assert analysis_of(str(path)).tally.success == 30
    before = path.stat()
    text = path.read_bytes().replace(b'"id": 17, "success": true', b'"id": 17, "success": null')
    assert len(text) == before.st_size
    path.write_bytes(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert analysis_of(str(path)).tally.success == 29
    assert len(entries(folder)) == 2


@pytest.mark.usefixtures("folder")
def test_another_way_of_reading_is_another_entry(write: Write) -> None:
    path = write([{"id": i, "success": True, "response": True} for i in range(12)])
    assert analysis_of(path).tally.success == 12
    assert analysis_of(path, guardrail_success="detected").tally.success == 0
    assert analysis_of(path, max_line=44).sources[0].bad_lines == 2
    assert analysis_of(path).tally.success == 12


def test_another_version_reads_anew(write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(lines())
    analysis_of(path)
    monkeypatch.setattr(caching, "FORMAT", caching.FORMAT + 1)
    analysis_of(path)
    assert len(entries(folder)) == 2


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone", "content"])
def test_a_damaged_entry_is_not_believed(write: Write, folder: Path, damage: str) -> None:
    path = write(lines())
    first = analysis_of(path)
    forget_answers(folder)
    (entry,) = entries(folder)
    file = entry / ("content" if damage == "content" else "counted_row.parquet")
    text = bytearray(file.read_bytes())
    if damage == "gone":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(text[: len(text) // 2])
    else:
        text[len(text) // 2] ^= 1
        file.write_bytes(text)
    assert analysis_of(path) == first
    for _ in range(2):
        (entry,) = entries(folder)
        assert caching._checked(entry) is not None, "what was damaged was not replaced"
        forget_answers(folder)
        assert analysis_of(path) == first


def test_a_cache_that_is_deleted_during_an_analysis_does_no_harm(
    write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(lines())
    first = analysis_of(path)
    dynamic = summary.dynamic

    def meanwhile(*arguments: Any) -> Any:
        shutil.rmtree(folder, ignore_errors=True)
        return dynamic(*arguments)

    forget_answers(folder)
    monkeypatch.setattr(summary, "dynamic", meanwhile)
    assert analysis_of(path) == first


# -- never in the way -----------------------------------------------------------------------------------------


def test_nothing_is_kept_or_used_without_the_cache(write: Write, folder: Path) -> None:
    path = write(lines())
    assert main(["results", "analyze", path, "--no-cache"]) == 0
    assert not entries(folder)


@pytest.mark.usefixtures("folder")
def test_a_folder_that_cannot_be_used_does_no_harm(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(lines())
    (tmp_path / "a file").write_text("", encoding="utf-8")
    expected = analysis_of(path, cache=False)
    for name in (tmp_path / "a file", tmp_path / "a file" / "below", tmp_path / "every*"):
        monkeypatch.setenv(FOLDER_VARIABLE, str(name))
        assert analysis_of(path) == expected
    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setattr(caching, "_folder_of_the_system", _homeless)
    assert analysis_of(path) == expected
    assert main(["cache", "show"]) == 2


def _homeless() -> Path:
    raise RuntimeError("no home")


def test_an_interrupted_analysis_leaves_nothing_unfinished(
    write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(summary, "dynamic", interrupted)
    with pytest.raises(KeyboardInterrupt):
        analysis_of(write(lines()))
    assert all(not path.name.startswith(".unfinished") for path in entries(folder))


def test_only_the_user_may_look(write: Write, folder: Path) -> None:
    analysis_of(write(lines()))
    (entry,) = entries(folder)
    for path in (folder, entry):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "secret").stat().st_mode) == 0o600


def test_prompts_and_responses_are_not_kept(write: Write, folder: Path) -> None:
    analysis_of(write([standard(i, input=f"PROMPT-{i}", response=f"ANSWER-{i}") for i in range(9)]))
    (entry,) = entries(folder)
    kept = b"".join(path.read_bytes() for path in entry.iterdir())
    assert b"PROMPT-" not in kept
    assert b"ANSWER-" not in kept


def test_what_was_not_used_for_longest_goes_first(write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [write([*lines(), standard(f"x{i}" * (i + 1))], f"results_{i}.jsonl") for i in range(3)]
    for path in paths[:2]:
        analysis_of(path)
    _, size = Cache(folder).size()
    for age, entry in enumerate(sorted(entries(folder), key=lambda entry: entry.stat().st_mtime_ns)):
        os.utime(entry / "content", (1000 + age, 1000 + age))
    analysis_of(paths[0])  # used again, so now the younger one
    monkeypatch.setattr(caching.Cache.__init__, "__kwdefaults__", {"limit": size + size // 4})
    analysis_of(paths[2])
    forbid_reading(monkeypatch)
    analysis_of(paths[0])
    analysis_of(paths[2])
    with pytest.raises(AssertionError, match="was read"):
        analysis_of(paths[1])


def test_entries_that_were_never_finished_are_removed_in_the_end(write: Write, folder: Path) -> None:
    analysis_of(write(lines()))
    old, new = (folder / f".unfinished-{digit * 16}" for digit in "ab")
    for path in (old, new):
        path.mkdir()
    os.utime(old, (1, 1))
    Cache(folder).make_room()
    assert (old.exists(), new.exists()) == (False, True)


def test_clearing_removes_what_is_ours_and_nothing_else(
    write: Write, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    analysis_of(write(lines()))
    (folder / "family photos").mkdir()
    assert main(["cache", "show"]) == 0
    assert "1 cached file" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert "deleted 1 cached file" in capsys.readouterr().out
    assert [path.name for path in folder.iterdir()] == ["family photos"]
    assert main(["cache", "clear"]) == 0
    assert "nothing to delete" in capsys.readouterr().out


# -- the identity of a file -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 1000])
@pytest.mark.parametrize("step", [1, 7, 100, 350, 5000])
def test_a_file_has_one_identity_however_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, step: int
) -> None:
    monkeypatch.setattr(streams, "RANGE_BYTES", 100)
    monkeypatch.setattr(streams, "_STEP", 10)
    data = bytes(i * 7 % 251 for i in range(size))
    path = tmp_path / "x"
    path.write_bytes(data)
    secret = a_secret(5)
    content = ContentHash(secret)
    for start in range(0, size, step):
        content.update(data[start : start + step])
    assert streams.identity(content.digests(), secret) == identity_of_file(str(path), secret)
    assert streams.identity(content.digests(), secret) != identity_of_file(str(path), a_secret(6))


def a_secret(number: int) -> Secret:
    return Secret(random.Random(number).randbytes(SECRET_BYTES))


def test_what_deceives_a_seed_does_not_deceive_the_identity() -> None:
    """XXH3 mixes words 0 and 12 of a block with numbers that are alike for one seed in seventy."""
    first = bytearray(b" " * 1024)
    first[0:4], first[768:772] = b"{   ", bytes(a ^ b for a, b in zip(b"{   ", b"\x10\x04\x0a\x06", strict=True))
    first[7:8], first[775:776] = b"s", b"3"
    second = bytearray(first)
    second[7], second[775] = first[775], first[7]
    one, other = bytes(first) * 20, bytes(second) * 20
    seeds = [random.Random(number).getrandbits(64) for number in range(2000)]
    deceived = [s for s in seeds if xxh3_128_digest(one, seed=s) == xxh3_128_digest(other, seed=s)]
    assert deceived, "the recipe no longer works: is XXH3 another one?"
    for seed in deceived[:5]:
        for length in range(1, 1024, 31):
            start = seed.to_bytes(8) + (length - 1).to_bytes(8)
            secret = Secret(start + random.Random(length).randbytes(SECRET_BYTES - len(start)))
            assert digests_of(one, secret) != digests_of(other, secret)


def digests_of(data: bytes, secret: Secret) -> list[bytes]:
    content = ContentHash(secret)
    content.update(data)
    return content.digests()


def test_ranges_of_several_processes_have_the_identity_of_the_file(
    write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(lines())
    for module in (streams, loading):
        monkeypatch.setattr(module, "RANGE_BYTES", 500)
    monkeypatch.setattr(streams, "_STEP", 500)
    secret = Cache(folder).secret()
    assert secret is not None
    size = Path(path).stat().st_size
    digests: list[bytes] = []
    for start in range(0, size, 500):
        part = loading._FileRange(
            path, start, min(start + 500, size), ReadOptions(), ReadAs(), secret, version_of(path)
        )
        digests += loading._read_range(SpikeeReader(), part).digests
    assert streams.identity(digests, secret) == identity_of_file(path, secret)


# -- a real large file ----------------------------------------------------------------------------------------


def test_a_large_file_is_analysed_from_the_cache_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "results_large.jsonl"
    rows = (
        b'{"id": %d, "success": %s, "input": "%s", "response": "no", "attempts": 1, "plugin": "p%d"}\n'
        % (i, b"true" if i % 7 == 0 else b"false", b"x" * 1800, i % 3)
        for i in range(20_000)
    )
    path.write_bytes(b"".join(rows))
    assert path.stat().st_size > loading.PARALLEL_FROM_BYTES
    environment = {**os.environ, FOLDER_VARIABLE: str(tmp_path / "cache")}
    command = [sys.executable, "-m", "faircount", "results", "analyze", str(path)]
    outputs = [subprocess.run(command, capture_output=True, env=environment, check=True).stdout for _ in range(2)]
    assert outputs[0] == outputs[1]
    (entry,) = entries(tmp_path / "cache")
    assert sorted(file.name for file in entry.glob("*.parquet")) == [
        "category.parquet",
        "counted_row.parquet",
        "entry.parquet",
        "every_case.parquet",
        "row_history.parquet",
        "verdict.parquet",
    ]


def test_the_library_uses_the_cache_unless_told_otherwise(write: Write, folder: Path) -> None:
    path = write(lines())
    found: Analysis = analyze(path, cache=False).analyses[0]
    assert not entries(folder)
    assert analyze(path).analyses[0] == found
    assert entries(folder)
