"""Rows folded in parts give the document of one ledger, byte for byte, whatever the files and the options."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import faircount.readers.pieces as pieces
from faircount import AnalyzeOptions, analyze
from faircount.app.cli import EXIT_SYSTEM
from faircount.core import InputError
from tests.conftest import Cli, Write, encode, standard
from tests.parts import Dividing, document, drawn_options, made_files, shared_files
from tests.spread import spread

EVERYTHING: dict[str, Any] = {
    "combine": True,
    "figures": True,
    "by": ("team", "lang"),
    "evidence": (("successes", 5), ("errors", 3), ("blocks", 3)),
}


@pytest.fixture
def dividing(monkeypatch: pytest.MonkeyPatch) -> Dividing:
    # The engine runs here: workers cannot be forked any more.
    monkeypatch.setattr("faircount.readers.loading.start_method", lambda: None)
    return Dividing(monkeypatch)


def refuse_difference(dividing: Dividing, files: Sequence[str], options: dict[str, Any], *parts: int) -> None:
    """Raise unless all numbers of parts give the document of one ledger."""
    dividing.into(0)
    whole = document(files, options)
    for number in parts:
        dividing.into(number)
        assert document(files, options) == whole, (files, options, number)


# -- files and options drawn at random --------------------------------------------------------------------------


def refuse_drawn_difference(dividing: Dividing, draw: random.Random, files: Any, parts: Sequence[int]) -> None:
    paths, fields = files
    options, number = drawn_options(draw, paths, fields), draw.choice(parts)
    if draw.random() < 0.5:
        dividing.read_in_ranges(draw.choice([3_000, 30_000, 300_000]))
    refuse_difference(dividing, paths, options, number)


@pytest.mark.parametrize("seed", range(3))
def test_files_of_our_own_give_the_same_document(tmp_path: Path, dividing: Dividing, seed: int) -> None:
    draw = random.Random(seed)
    refuse_drawn_difference(dividing, draw, made_files(tmp_path, draw), (1, 2, 7))


@pytest.mark.shared
@pytest.mark.parametrize("seed", range(2))
def test_golden_hostile_and_published_files_give_the_same_document(shared: Path, dividing: Dividing, seed: int) -> None:
    draw = random.Random(seed)
    refuse_drawn_difference(dividing, draw, shared_files(shared, draw), (1, 2, 7))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_more_files_of_our_own_give_the_same_document(tmp_path: Path, dividing: Dividing, seed: int) -> None:
    draw = random.Random(seed)
    refuse_drawn_difference(dividing, draw, made_files(tmp_path, draw), (1, 2, 7, 40))


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("seed", range(100, 160))
def test_more_golden_hostile_and_published_files_give_the_same_document(
    shared: Path, dividing: Dividing, seed: int
) -> None:
    draw = random.Random(seed)
    refuse_drawn_difference(dividing, draw, shared_files(shared, draw), (1, 2, 7, 40))


# -- everything in which rows of one file depend on those of another ---------------------------------------------


def test_files_that_repeat_each_other_give_the_same_document(tmp_path: Path, dividing: Dividing) -> None:
    files = spread(tmp_path, 2000)
    dividing.read_in_ranges(100_000)
    refuse_difference(dividing, files, EVERYTHING, 3)
    assert dividing.folds == 1


def test_forty_parts_give_the_same_document(tmp_path: Path, dividing: Dividing) -> None:
    dividing.read_in_ranges(2_000)
    few_questions = {"combine": True, "details": False, "cluster": "none"}
    refuse_difference(dividing, spread(tmp_path, 100), few_questions, 40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("definition", ["faircount", "spikee"])
def test_any_number_of_parts_gives_the_same_document(
    tmp_path: Path, dividing: Dividing, seed: int, definition: str
) -> None:
    files = spread(tmp_path, 2000, seed)
    dividing.read_in_ranges(random.Random(seed).choice([3_000, 50_000, 1_000_000]))
    refuse_difference(dividing, files, EVERYTHING | {"definition": definition}, 1, 2, 7, 40)


@pytest.mark.parametrize("shown", ["markdown", "html"])
def test_pages_of_parts_are_those_of_one_ledger(tmp_path: Path, dividing: Dividing, cli: Cli, shown: str) -> None:
    files = spread(tmp_path, 60)
    out = tmp_path / "out"
    asked = ["results", "analyze", *files, "--combine", "--output-format", shown, "--evidence", "successes=4"]

    def written(parts: int) -> bytes:
        dividing.into(parts)
        assert cli(*asked, "--by", "lang", "--no-cache", "-o", str(out)).code == 0
        return out.read_bytes()

    whole, divided = written(0), written(3)
    assert dividing.folds == 1
    assert len(whole) > 10_000
    assert divided == whole


# -- files that change, workers that die ------------------------------------------------------------------------


def change(path: Path, how: str) -> None:
    """Change a file that is being read."""
    content = path.read_bytes()
    if how == "replaced":
        other = path.with_suffix(".new")
        other.write_bytes(content)
        other.replace(path)
    elif how == "gone":
        path.unlink()
    elif how == "cut":
        path.write_bytes(content[:-5])
    elif how == "rewritten":
        path.write_bytes(content.replace(b"lang1", b"lang2"))
        os.utime(path, ns=(1, 1))
    else:
        path.write_bytes(content + encode([standard("later")]))


def rows() -> list[dict[str, Any]]:
    return [standard(number, success=number % 5 == 0, lang=f"lang{number % 3}") for number in range(200)]


@pytest.mark.parametrize(
    ("step", "how"),
    [*(("_read_to_file", how) for how in ("replaced", "cut", "rewritten", "gone")), ("_read_ranges", "rewritten")],
)
def test_a_file_that_changes_is_refused_and_nothing_written(
    write: Write, tmp_path: Path, dividing: Dividing, cli: Cli, monkeypatch: pytest.MonkeyPatch, step: str, how: str
) -> None:
    path, out = write(rows()), tmp_path / "out.json"
    dividing.read_in_ranges(2_000)
    dividing.into(3)
    read, calls = getattr(pieces, step), []

    def read_and_change(*given: Any) -> Any:
        found = read(*given)
        calls.append(given)
        if len(calls) == 2:
            change(Path(path), how)
        return found

    monkeypatch.setattr(pieces, step, read_and_change)
    ran = cli("results", "analyze", path, "--output-format", "json", "-o", str(out))
    assert ran.code == 3
    assert path in ran.err
    assert "while it was being read; run the command again" in ran.err
    assert len(calls) == 2
    assert not out.exists()
    assert ran.out == ""


def test_a_file_may_grow_while_it_is_read_in_parts(write: Write, dividing: Dividing) -> None:
    path = write(rows())
    dividing.read_in_ranges(2_000)
    dividing.into(0)
    (before,) = analyze(path).analyses
    dividing.into(3)
    grown: list[int] = []

    def grow(read: int) -> None:
        if not grown:
            change(Path(path), "grown")
        grown.append(read)

    (after,) = analyze(path, progress=grow).analyses
    assert len(grown) > 2
    assert after == before


def test_worker_processes_give_the_same_document(
    tmp_path: Path, dividing: Dividing, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = spread(tmp_path, 60)
    dividing.read_in_ranges(5_000)
    dividing.into(0)
    whole = document(files, EVERYTHING)
    monkeypatch.setattr("faircount.readers.loading.start_method", lambda: "spawn")
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    dividing.into(3)
    assert document(files, EVERYTHING) == whole


def test_a_file_that_workers_find_replaced_is_refused(
    write: Write, dividing: Dividing, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(rows() * 5)
    dividing.read_in_ranges(1_000)
    monkeypatch.setattr("faircount.readers.loading.start_method", lambda: "spawn")
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    dividing.into(3)
    changed: list[int] = []

    def replace(read: int) -> None:
        if not changed:
            change(Path(path), "replaced")
        changed.append(read)

    with pytest.raises(InputError, match="replaced or cut while it was being read; run the command again"):
        analyze(path, options=AnalyzeOptions(cache=False), progress=replace)


KILLED = """
import os, signal, sys
import faircount.analysis.analyze as analysis
import faircount.app.cli.results as commands
import faircount.readers.loading as loading
import faircount.readers.pieces as pieces
from faircount.app.cli import main

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

os.cpu_count = lambda: 2
loading.RANGE_BYTES = pieces.RANGE_BYTES = 2_000
loading.PARALLEL_FROM_BYTES = 1
commands.SMALL_BYTES = 0  # workers are forked before the engine starts
analysis.parts_for = lambda _: 3
setattr(pieces, sys.argv[1], die)
sys.exit(main(["results", "analyze", *sys.argv[2:], "--combine", "--no-cache"]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked")
@pytest.mark.parametrize("step", ["_read_to_file", "_survey", "_fold", "_deal_entries", "_ask"])
def test_a_killed_worker_is_an_error_and_leaves_nothing(write: Write, tmp_path: Path, step: str) -> None:
    files = [write(rows(), "results_a.jsonl"), write(rows()[50:], "results_b.jsonl")]
    left = tmp_path / "temporary"
    left.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, step, *files, "-o", str(tmp_path / "out.txt")],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TMPDIR": str(left)},
    )
    assert "a worker process was killed, perhaps for lack of memory" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert done.returncode == EXIT_SYSTEM
    assert not (tmp_path / "out.txt").exists()
    assert list(left.iterdir()) == []
