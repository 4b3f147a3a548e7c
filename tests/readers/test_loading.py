"""Large files are read by several processes: the same figures, the same line numbers, and nobody left behind."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from faircount.app.cli import EXIT_INTERRUPTED
from faircount.core import InputError, Notes
from faircount.ledger import ONE_BY_ONE_UP_TO_ROWS
from faircount.readers import blocks, loading, open_range
from tests.conftest import Write, analysis_of, attack, encode, interruptible, standard


def lines_of(path: Path, start: int, end: int) -> list[bytes]:
    """Return the lines of a range, each of which must stand in the file where its offset says."""
    text, found = path.read_bytes(), []
    for block in blocks(open_range(str(path), "x", start, end)):
        offset = block.offset
        for line in block.lines:
            assert text[offset : offset + len(line)] == line
            offset += len(line) + 1
            found.append(line)
    return found


@given(st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"?")), max_size=12), st.integers(1, 30))
def test_ranges_give_every_line_once_and_in_order(tmp_path_factory: Any, lines: list[bytes], step: int) -> None:
    path = tmp_path_factory.mktemp("ranges") / "x"
    text = b"".join(line + b"\n" for line in lines)
    if text.startswith((b"\xef\xbb\xbf", b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff")):
        return
    for data in (text, text[:-1]):
        path.write_bytes(data)
        expected = lines_of(path, 0, len(data)) if data else []
        found = [line for s in range(0, len(data), step) for line in lines_of(path, s, min(s + step, len(data)))]
        assert found == expected


def in_parallel(monkeypatch: pytest.MonkeyPatch, range_bytes: int) -> None:
    monkeypatch.setattr(loading, "RANGE_BYTES", range_bytes)
    monkeypatch.setattr(loading, "PARALLEL_FROM_BYTES", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(loading, "start_method", lambda: "spawn")


def mixed_lines() -> list[dict[str, Any] | str | bytes]:
    history = [{"success": None, "error": "Guardrail was triggered"}, {"success": True, "error": None}]
    lines: list[dict[str, Any] | str | bytes] = []
    for i in range(120):
        lines.append(
            standard(i, success=i % 5 == 0, plugin=f"p{i % 3}", response_time=i / 7, team="x" if i % 2 else None)
        )
        if i % 7 == 0:
            lines.append(attack(i, success=i % 2 == 0, attempt_history=history, attempts=2))
        if i % 31 == 0:
            lines += ['{"id": "torn', "", b'{"id": 1, "x": "\xff"}']
        if i % 40 == 0:
            lines.append(standard(f"e{i}", error=f"HTTP 503 after {i} s", guardrail=i % 80 == 0, late_field=i))
    return lines


@pytest.mark.parametrize("range_bytes", [300, 5000])
def test_several_processes_give_the_same_analysis(
    write: Write, monkeypatch: pytest.MonkeyPatch, range_bytes: int
) -> None:
    path = write([b"\xef\xbb\xbf" + b'{"id": "first", "success": true}', *mixed_lines()])
    alone = analysis_of(path)
    in_parallel(monkeypatch, range_bytes)
    together = analysis_of(path)
    assert together == alone
    assert [f.where for f in together.findings if f.code == "F001"] == [
        f.where for f in alone.findings if f.code == "F001"
    ]


@pytest.mark.parametrize("values", [255, 256, 300])
def test_fields_with_few_and_with_many_values_are_read_alike(
    write: Write, monkeypatch: pytest.MonkeyPatch, values: int
) -> None:
    path = write([standard(i, success=i % 3 == 0, plugin=f"p{i % values}", lang="en") for i in range(2 * values)])
    alone = analysis_of(path)
    in_parallel(monkeypatch, 5000)
    assert analysis_of(path) == alone
    assert len(alone.breakdowns["plugin"]) == values


@pytest.mark.parametrize("damage", ["none", "cut", "overwritten"])
@pytest.mark.parametrize("how", ["gzip", "zstd"])
def test_what_is_decompressed_is_read_by_several_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, damage: str
) -> None:
    lines = [b"\xef\xbb\xbf" + b'{"id": "first", "success": true}', *mixed_lines(), "x" * 40_000, *mixed_lines()]
    compress = gzip.compress if how == "gzip" else zstandard.ZstdCompressor(write_checksum=True).compress
    data = compress(encode(lines[:100])) + compress(encode(lines[100:]))
    if damage == "cut":
        data = data[: len(data) * 3 // 4]
    elif damage == "overwritten":
        data = data[: len(data) // 2] + b"\xff" * 20 + data[len(data) // 2 + 20 :]
    path = tmp_path / "results_x.jsonl.gz"
    path.write_bytes(data)
    with monkeypatch.context() as without:
        without.setattr("faircount.io.streams._fastest_zlib", lambda: zlib)
        alone = analysis_of(str(path), max_line=30_000)
    monkeypatch.setattr(loading, "COMPRESSED_PARALLEL_FROM_BYTES", 1)
    monkeypatch.setattr(loading, "PIECE_BYTES", 2000)
    in_parallel(monkeypatch, 300)
    pieces: list[bool] = []
    whole = loading.Loader._read_pieces

    def read_pieces(self: loading.Loader, *given: Any) -> Any:
        pieces.append(True)
        return whole(self, *given)

    monkeypatch.setattr(loading.Loader, "_read_pieces", read_pieces)
    together = analysis_of(str(path), max_line=30_000)
    assert pieces
    assert together == alone
    codes = {finding.code for finding in together.findings}
    assert "F001" in codes
    assert ("F002" in codes) == (damage != "none")


def test_several_processes_read_where_signals_cannot_be_held_back(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(mixed_lines())
    alone = analysis_of(path)
    in_parallel(monkeypatch, 5000)
    monkeypatch.delattr(signal, "pthread_sigmask")  # as on Windows
    assert analysis_of(path) == alone


def test_an_error_in_a_worker_is_an_error_here(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(mixed_lines())
    in_parallel(monkeypatch, 300)
    monkeypatch.setattr(loading, "_read_range", _unreadable)
    with pytest.raises(OSError, match="gone"):
        analysis_of(path)


@pytest.mark.parametrize("how", ["replaced", "cut", "rewritten", "gone"])
@pytest.mark.parametrize("parallel", [False, True])
def test_a_file_that_changes_while_it_is_read_is_refused(
    write: Write, monkeypatch: pytest.MonkeyPatch, how: str, parallel: bool
) -> None:
    path = write(mixed_lines())
    if parallel:
        in_parallel(monkeypatch, 300)
    read = "_read_ranges" if parallel else "_read_alone"
    whole = getattr(loading.Loader, read)

    def change_meanwhile(self: loading.Loader, *given: Any) -> Any:
        found = whole(self, *given)
        file = Path(path)
        content = file.read_bytes()
        if how == "replaced":
            other = file.with_suffix(".new")
            other.write_bytes(content)
            other.replace(file)
        elif how == "gone":
            file.unlink()
        else:
            file.write_bytes(content[:-5] if how == "cut" else content.replace(b"p1", b"p2"))
        return found

    monkeypatch.setattr(loading.Loader, read, change_meanwhile)
    with pytest.raises(InputError, match="while it was being read; run the command again"):
        analysis_of(path)


def test_a_file_may_grow_while_it_is_read(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(mixed_lines())
    before = analysis_of(path)
    whole = loading.Loader._read_alone

    def grow(self: loading.Loader, *given: Any) -> Any:
        found = whole(self, *given)
        with Path(path).open("ab") as file:
            file.write(encode([standard("later")]))
        return found

    monkeypatch.setattr(loading.Loader, "_read_alone", grow)
    assert analysis_of(path).tally == before.tally


def _unreadable(*_: object) -> None:
    raise OSError("gone")


def test_a_script_that_analyses_twice_is_never_run_again_by_workers(tmp_path: Path) -> None:
    path, script = tmp_path / "results_large.jsonl", tmp_path / "script.py"
    line = b'{"id": 1, "success": true, "response": "' + b"x" * 2000 + b'"}\n'
    path.write_bytes(line * (2 * loading.PARALLEL_FROM_BYTES // len(line)))
    call = f"faircount.analyze({str(path)!r}).analyses[0].tally.total"
    script.write_text(f"import faircount\nprint('begun')\nprint({call}, {call})\n", encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "begun\n1 1\n")


def test_any_thread_may_analyse_many_rows(write: Write) -> None:
    path = write([standard(i, error="boom" if i % 9 == 0 else None) for i in range(ONE_BY_ONE_UP_TO_ROWS + 10)])
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(analysis_of, path).result() == analysis_of(path)


def test_packed_and_small_files_are_read_here(write: Write, tmp_path: Path) -> None:
    packed = tmp_path / "x.gz"
    packed.write_bytes(b"\x1f\x8b" + b"\0" * (loading.PARALLEL_FROM_BYTES + 1))
    assert loading.processes_for(str(packed)) == 1
    assert loading.processes_for(write([standard(1)])) == 1
    assert loading.processes_for("-") == 1


def test_notes_of_a_later_part_keep_their_lines() -> None:
    whole, part = Notes("f"), Notes("f")
    whole.add("F001", "torn", 3)
    part.add("F001", "torn", 2)
    part.add("F001", "no id", 1)
    whole.absorb(part, lines_before=10)
    assert whole.where("F001") == ["f:3", "f:11", "f:12"]
    assert whole.total("F001") == 3


def descendants(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children")
    try:
        found = [int(child) for child in children.read_text().split()]
    except OSError:
        return []
    return found + [grandchild for child in found for grandchild in descendants(child)]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize("killing", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_the_command(tmp_path: Path, killing: signal.Signals) -> None:
    path = tmp_path / "results_large.jsonl"
    line = b'{"id": 1, "success": true, "response": "' + b"x" * 2000 + b'"}\n'
    path.write_bytes(line * (8 * loading.PARALLEL_FROM_BYTES // len(line)))
    script = "import os, sys; os.cpu_count = lambda: 2; from faircount.app.cli import main; sys.exit(main())"
    words = ["results", "analyze", str(path), "-o", str(tmp_path / "out.txt")]
    command = [sys.executable, "-c", script, *words]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=interruptible)
    workers: list[int] = []
    deadline = time.monotonic() + 20
    while len(workers) < 2 and time.monotonic() < deadline and process.poll() is None:
        workers = descendants(process.pid)
        time.sleep(0.005)
    assert workers, "the file was read before it could be interrupted"
    process.send_signal(killing)
    code = process.wait(timeout=20)
    assert code == (EXIT_INTERRUPTED if killing is signal.SIGINT else -signal.SIGKILL)
    while any(Path(f"/proc/{worker}").exists() for worker in workers) and time.monotonic() < deadline + 10:
        time.sleep(0.05)
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]
    assert not (tmp_path / "out.txt").exists()


def _killed_at_three(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_worker_that_is_killed_ends_the_work_with_an_error() -> None:
    script = (
        "from tests.readers.test_loading import _killed_at_three\n"
        "from faircount.core.workers import in_order, worker_pool\n"
        "with worker_pool(2, 'fork') as pool:\n"
        "    print(list(in_order(pool, _killed_at_three, range(%d), 4)))\n"
    )
    for parts, expected in ((3, "[0, 1, 2]\n"), (50, "")):
        done = subprocess.run([sys.executable, "-c", script % parts], capture_output=True, text=True, timeout=60)
        assert done.stdout == expected
        assert ("a worker process was killed" in done.stderr) is (expected == "")


def test_an_interrupt_while_workers_start_leaves_none_behind() -> None:
    script = (
        "import time\n"
        "from faircount.core.workers import worker_pool\n"
        "print('begins', flush=True)\n"
        "with worker_pool(2, 'fork') as pool:\n"
        "    pool.submit(time.sleep, 60).result()\n"
    )
    for delay in (0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.3):
        words = [sys.executable, "-c", script]
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=interruptible
        ) as running:
            assert running.stdout is not None
            running.stdout.readline()
            time.sleep(delay)
            running.send_signal(signal.SIGINT)
            # The pipe is closed when the last process is gone that holds it.
            running.communicate(timeout=20)
        assert running.returncode != 0
