"""`results rejudge` when things go wrong: killed at any moment, run twice at once, a full disk, a file that changes."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from faircount.analysis import Panel, Rejudging
from faircount.components import Context
from faircount.core import InputError
from faircount.judges import VerdictStore, make_judge
from tests.conftest import Cli, Write, interruptible, standard

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and descriptors of POSIX")

ROWS = 60
_JUDGE = """
import os, time

def judge(attempt):
    # One line for a question that is asked, one for a verdict that is given; each is written in one go.
    note("asked", attempt.response)
    time.sleep({seconds})
    note("given", attempt.response)
    return int(attempt.response.split()[1]) % 3 == 0

def note(what, text):
    descriptor = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{{what}} {{text}}\\n".encode())
    os.close(descriptor)
"""


class Slow:
    """A local judge that takes its time and writes down when it is asked, and a file for it."""

    def __init__(self, folder: Path, write: Write, *, seconds: float = 0.01) -> None:
        self.folder = folder
        self.log = folder / "calls.txt"
        (folder / "slow.py").write_text(_JUDGE.format(log=str(self.log), seconds=seconds))
        self.path = write([standard(n, response=f"response {n}", success=n % 2 == 0) for n in range(ROWS)])
        self.words = ["results", "rejudge", self.path, "--judge", f"{folder}/slow.py:judge"]
        self.words += ["--store", str(folder / "verdicts.jsonl")]

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "faircount", *self.words, *more]
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=interruptible, cwd=self.folder
        )

    def counts(self, what: str) -> Counter[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return Counter(line.partition(" ")[2] for line in lines if line.startswith(what))

    def wait_for(self, calls: int, process: subprocess.Popen[bytes]) -> None:
        while self.counts("given").total() < calls and process.poll() is None:
            time.sleep(0.005)

    def rows(self) -> list[dict[str, Any]]:
        (path,) = self.folder.glob("rejudge_*.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_that_is_killed_again_and_again_loses_nothing_and_repeats_nothing(tmp_path: Path, write: Write) -> None:
    slow = Slow(tmp_path, write)
    chance = random.Random(7)
    kills = 0
    while kills < 8:
        process = slow.start()
        slow.wait_for(slow.counts("given").total() + chance.randrange(1, 8), process)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        assert not list(tmp_path.glob("rejudge_*")), "a file is whole or not there"
    assert kills >= 5
    last = slow.start()
    _, told = last.communicate()
    assert last.returncode == 0, told
    assert [row["success"] for row in slow.rows()] == [n % 3 == 0 for n in range(ROWS)]
    given = slow.counts("given")
    assert set(given) == {f"response {n}" for n in range(ROWS)}
    # What was being judged, or was about to be written down, when the run was killed has to be asked once more.
    assert given.total() - ROWS <= kills
    assert slow.counts("asked").total() - ROWS <= kills
    asked = slow.counts("asked").total()
    slow.start("--rejudged", str(tmp_path / "again.jsonl")).communicate()
    assert slow.counts("asked").total() == asked


def test_workers_keep_verdicts_as_they_give_them(tmp_path: Path, write: Write) -> None:
    """With many rows local judges work in processes of their own; a chunk that is cut short is not lost."""
    slow = Slow(tmp_path, write, seconds=0.002)
    rows = 4200
    write([standard(n, response=f"response {n}") for n in range(rows)])
    process = slow.start("--workers", "2")
    slow.wait_for(150, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    time.sleep(0.5)  # workers see that their parent is gone, and end
    given = slow.counts("given")
    with VerdictStore(tmp_path / "verdicts.jsonl") as store:
        panel = Panel(make_judge(f"{tmp_path}/slow.py:judge", Context()))
        with Rejudging(slow.path, panel, store) as work:
            work.plan()
    assert work.work.wanted == rows
    assert given.total() - 2 <= work.work.known <= slow.counts("given").total()
    assert work.work.known >= 140


def test_an_interrupted_run_says_that_it_can_go_on(tmp_path: Path, write: Write) -> None:
    slow = Slow(tmp_path, write, seconds=0.02)
    process = slow.start()
    slow.wait_for(3, process)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    assert process.returncode == 130
    assert b"repeat the command to resume" in told
    assert not list(tmp_path.glob("rejudge_*"))
    assert not list(tmp_path.glob(".rejudge_*"))


def test_two_runs_at_once_lose_nothing(tmp_path: Path, write: Write) -> None:
    slow = Slow(tmp_path, write, seconds=0.002)
    outs = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    processes = [slow.start("--rejudged", str(out)) for out in outs]
    for process in processes:
        _, told = process.communicate()
        assert process.returncode == 0, told
    for out in outs:
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert [row["success"] for row in rows] == [n % 3 == 0 for n in range(ROWS)]
    asked = slow.counts("asked").total()
    assert asked <= 2 * ROWS
    slow.start("--rejudged", str(tmp_path / "three.jsonl")).communicate()
    assert slow.counts("asked").total() == asked


class _Model(BaseHTTPRequestHandler):
    """Answers as a judging model would, and refuses what the test wants refused."""

    asked: ClassVar[list[str]] = []
    refused: ClassVar[set[str]] = set()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        (text,) = re.findall(r"text-\d+", body)
        type(self).asked.append(text)
        said = json.dumps({"verdict": "hit", "score": 1.0, "reason": "it is bad"})
        answer: dict[str, Any] = {"model": "m", "usage": {"prompt_tokens": 100, "completion_tokens": 10}}
        answer["choices"] = [{"message": {"content": said}, "finish_reason": "stop"}]
        content = json.dumps({"error": {"message": "no"}} if text in self.refused else answer).encode()
        self.send_response(400 if text in self.refused else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def model() -> Iterator[str]:
    """A model on this machine."""
    _Model.asked, _Model.refused = [], set()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_model_is_asked_again_only_where_it_failed(
    cli: Cli, tmp_path: Path, write: Write, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none-of-your-business")
    path = write([standard(n, input="p", response=f"text-{n}", judge_name="harmful") for n in range(12)])
    config = tmp_path / "c.toml"
    config.write_text(f'[chat]\nbase_url = "{model}"\ntries = 1\n[prices.m]\nprompt = 1.0\ncompletion = 2.0\n')
    words = ["--allow-judge", 'harmful=llm(rubric="is it bad?")', "--judge-options", "m", "--config", str(config)]
    words += ["--store", str(tmp_path / "v"), "--output-format", "json"]
    _Model.refused = {"text-3", "text-7"}
    ran = cli("results", "rejudge", path, *words)
    assert ran.code == 4
    (first,) = json.loads(ran.out)["files"]
    assert (first["unjudged"], first["verdicts"]["failed"]) == (2, 2)
    assert first["verdicts"]["usage"]["cost"] == pytest.approx(10 * (100 * 1.0 + 10 * 2.0) / 1e6)
    rows = [json.loads(line) for line in Path(first["path"]).read_text().splitlines()]
    assert [row["success"] for row in rows] == [None if n in (3, 7) else True for n in range(12)]
    assert {row["judge_options"] for row in rows} == {"m"}
    assert "sk-none" not in (tmp_path / "v").read_text() + Path(first["path"]).read_text() + ran.out
    _Model.asked, _Model.refused = [], set()
    ran = cli("results", "rejudge", path, *words, "--resume")
    assert ran.code == 0
    assert sorted(_Model.asked) == ["text-3", "text-7"]


def test_a_full_disk_leaves_the_verdicts_and_says_so(
    cli: Cli, tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write([standard(n, response=f"text {n}") for n in range(5)])
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if data.startswith(b'\n{"judge"'):
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    words = ("--store", str(tmp_path / "v"), "--workers", "1")
    ran = cli("results", "rejudge", path, "--judge", 'regex(pattern="text [01]")', *words)
    assert ran.code == 0
    assert "5 verdicts could not be written to the store" in ran.err
    (out,) = tmp_path.glob("rejudge_*.jsonl")
    assert [json.loads(line)["success"] for line in out.read_text().splitlines()] == [True, True, False, False, False]


@pytest.mark.parametrize("why", ["already exists", "a folder", "no folder", "no permission"])
def test_where_rows_cannot_be_written_nobody_is_asked(
    cli: Cli, tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    slow = Slow(tmp_path, write, seconds=0)
    out = tmp_path / "out.jsonl"
    if why == "already exists":
        out.write_text("precious")
    elif why == "a folder":
        out.mkdir()
    elif why == "no folder":
        out = tmp_path / "nowhere" / "out.jsonl"
    else:
        monkeypatch.setattr("faircount.app.rejudge.os.access", lambda *_: False)
    ran = cli(*slow.words, *([] if why == "no permission" else ["--rejudged", str(out)]))
    assert ran.code == 2
    assert "rejudge_" in ran.err if why == "no permission" else str(out) in ran.err
    assert slow.counts("asked").total() == 0
    assert why != "already exists" or out.read_text() == "precious"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits of a process of its own")
def test_a_disk_that_is_full_leaves_no_half_file_and_loses_no_verdict(tmp_path: Path, write: Write) -> None:
    import resource

    slow = Slow(tmp_path, write, seconds=0)
    rows = 200
    path = write([standard(n, response=f"response {n}", input="x" * 5000) for n in range(rows)])

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    ended = subprocess.run(
        [sys.executable, "-m", "faircount", *slow.words], capture_output=True, preexec_fn=little_room, check=False
    )
    assert ended.returncode == 2
    assert b"cannot be written: File too large" in ended.stderr
    assert b"Traceback" not in ended.stderr
    left = {file.name for file in tmp_path.iterdir()}
    assert left == {Path(path).name, "slow.py", "calls.txt", "verdicts.jsonl"} | {"__pycache__"} & left
    asked = slow.counts("asked").total()
    assert asked == rows
    last = slow.start()
    last.communicate()
    assert last.returncode == 0
    assert slow.counts("asked").total() == asked


def test_a_cache_that_cannot_be_made_is_no_reason_to_fail(
    cli: Cli, tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    monkeypatch.setenv("FAIRCOUNT_CACHE", str(blocked))
    path = write([standard(1, response="BOMB", judge_name="regex", judge_args="BOMB")])
    ran = cli("results", "rejudge", path)
    assert ran.code == 0
    assert "verdicts of this run are not stored" in ran.err


@pytest.mark.parametrize("how", ["longer", "shorter", "another"])
def test_a_file_that_changes_meanwhile_is_not_written(write: Write, how: str) -> None:
    rows = [standard(n, response="BOMB", judge_name="canary", judge_args="BOMB") for n in range(4)]
    path = write(rows)
    with Rejudging(path, Panel(), None) as work:
        work.ask()
        changed = {"longer": [*rows, standard(9)], "shorter": rows[:2], "another": [*rows[:3], standard(8)]}[how]
        write(changed)
        with pytest.raises(InputError, match="changed while it was in use"):
            list(work.lines())


def test_a_store_that_is_damaged_costs_calls_and_nothing_else(cli: Cli, tmp_path: Path, write: Write) -> None:
    path = write([standard(n, response=f"text {n}") for n in range(20)])
    store = tmp_path / "v"
    words = ["--judge", 'regex(pattern="text 1")', "--store", str(store), "--workers", "1", "--force"]
    out = tmp_path / "out.jsonl"
    cli("results", "rejudge", path, *words, "--rejudged", str(out))
    expected = [json.loads(line)["success"] for line in out.read_text().splitlines()]
    whole = store.read_bytes()
    chance = random.Random(3)
    for _ in range(20):
        damaged = bytearray(whole)
        for _ in range(5):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        # The first record must still be one, or the file is taken for somebody else's.
        store.write_bytes(whole[:20] + bytes(damaged)[20:])
        assert cli("results", "rejudge", path, *words, "--rejudged", str(out)).code == 0
        assert [json.loads(line)["success"] for line in out.read_text().splitlines()] == expected
