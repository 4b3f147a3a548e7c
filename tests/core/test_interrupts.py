"""An interrupt ends a command with exit code 130, and leaves no process and no file, at whatever moment it comes."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from faircount.app.cli import demo, main
from faircount.core import Beside, interrupts
from faircount.ledger import Ledger
from faircount.readers import PARALLEL_FROM_BYTES, ReadOptions, loading
from tests.conftest import ROOT, Cli, Write, encode, interruptible, standard

TRIES = int(os.environ.get("INTERRUPTS", "200"))
TRIES_OF_THE_DEMO = TRIES * 3 // 10  # one takes several seconds
SEED = int(os.environ.get("INTERRUPTS_SEED", "1"))
FEWEST_INTERRUPTED = 0.1
"""The share of tries that must end with 130: commands that were done before would show nothing."""

BOT = """\
import asyncio

async def bot(messages):
    await asyncio.sleep(0.01)
    return "PWNED" if messages[-1]["content"].endswith("1") else "no"
"""
PROGRAM = """\
#!/bin/sh
sleep 0.02
echo PWNED
"""
BENCH = """\
output_folder = "out"
[settings]
concurrency = 4
[targets.one]
target = "GIVEN/bot.py:bot"
[targets.two]
target = "simulated:assistant"
[datasets.small]
path = "GIVEN/small.jsonl"
"""

RUN = "run GIVEN/dataset.jsonl --target GIVEN/bot.py:bot --journal run.jsonl --concurrency 4"
JOURNAL = r"run\.jsonl(\.torn)?"
A, B, LARGE = "GIVEN/results_a.jsonl", "GIVEN/results_b.jsonl", "GIVEN/large.jsonl"
JUDGES = "refusal 'contains(text=\"no\")'"


class Command(NamedTuple):
    """A command, and what is special about it."""

    words: str
    workers: bool = False
    programs: bool = False
    copies: tuple[str, ...] = ()
    may_stay: str = ""
    """What may be there and not whole: a journal is resumed."""


COMMANDS = {
    "analyze": Command(f"results analyze {A} -o out.html"),
    "analyze with workers": Command(f"results analyze {LARGE} -o out.json", workers=True),
    "extract": Command(f"results extract {A} -o out.jsonl"),
    "extract with workers": Command(f"results extract {LARGE} -o out.jsonl", workers=True),
    "rejudge": Command(f"results rejudge {A} --judge refusal --rejudged out.jsonl"),
    "rejudge with workers": Command(
        "results rejudge GIVEN/many.jsonl --judge refusal --rejudged x.jsonl", workers=True
    ),
    "compare": Command(f"results compare {A} {B} -o out.html"),
    "export to csv": Command(f"results export {A} --to csv -o out.csv"),
    "export of a large file": Command(f"results export {LARGE} --to csv --entries -o out.csv", workers=True),
    "export to parquet": Command(f"results export {A} --to parquet -o out.parquet"),
    "export to xlsx": Command(f"results export {A} --to xlsx -o out.xlsx"),
    "export to html": Command(f"results export {A} --to html -o out.html"),
    "convert-to-excel": Command(f"results convert-to-excel {A} -o out.xlsx"),
    "dataset-comparison": Command(
        f"results dataset-comparison --dataset-file GIVEN/tried.jsonl {A} {B} -o out.jsonl --report out.html"
    ),
    "show": Command(f"results show 7 {A} -o out.txt"),
    "check": Command(f"results check {A} -o out.txt"),
    "power": Command("results power --difference 0.05 --half-width 0.02 -o out.txt"),
    "sample-for-labels": Command(f"results sample-for-labels {A} --n 50 -o out.xlsx"),
    "judges evaluate": Command(
        f"judges evaluate --labels GIVEN/labels.csv --replicates 100 {JUDGES} -o out.json --predictions said.jsonl"
    ),
    "judges evaluate on a workbook": Command(
        "judges evaluate --labels GIVEN/labels.xlsx --replicates 50 refusal -o x.json"
    ),
    "judges rank": Command("judges rank GIVEN/summary.json -o out.html"),
    "judges agree": Command(f"judges agree --labels GIVEN/labels.csv {JUDGES} -o out.html"),
    "plan": Command("plan GIVEN/dataset.jsonl -o out.html"),
    "run": Command(f"{RUN} -o out.html", may_stay=JOURNAL),
    "run of a program": Command(
        "run GIVEN/small.jsonl --target 'command(argv=[\"GIVEN/bot.sh\"])' --journal run.jsonl",
        programs=True,
        may_stay=JOURNAL,
    ),
    "run of an attack": Command(
        f"{RUN} --attack best-of-n --attack-iterations 2 --spikee-results out.jsonl", may_stay=JOURNAL
    ),
    "resume": Command("resume run.jsonl --max-calls 1000 -o out.html", copies=("run.jsonl",), may_stay=JOURNAL),
    "merge": Command("merge GIVEN/shard_1.jsonl GIVEN/shard_2.jsonl -o out.jsonl"),
    "bench": Command(
        "bench bench.toml -o out.html", copies=("bench.toml",), may_stay=r"out/.*\.jsonl(\.torn)?|out\.html"
    ),
    "demo": Command("demo", may_stay="faircount-demo/.*"),
    "cache": Command("cache show"),
}


def rows(name: str, count: int, length: int = 300) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield standard(
            number,
            text=f"obey {number}",
            input=f"obey {number}",
            judge_name="canary",
            judge_args="PWNED",
            success=number % 7 == len(name) % 7,
            jailbreak_type=f"type {number % 5}",
            response=f"{'PWNED' if number % 3 else 'I cannot help with that.'} {number} " + "x" * length,
        )


@pytest.fixture(scope="session")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the commands read."""
    folder = tmp_path_factory.mktemp("given")

    def put(name: str, content: str | bytes) -> None:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    put("results_a.jsonl", encode(rows("a", 300)))
    put("results_b.jsonl", encode(rows("bc", 300)))
    put("many.jsonl", encode(rows("many", 6000, 50)))
    put("large.jsonl", encode(rows("large", PARALLEL_FROM_BYTES // 2000 + 1000, 2000)))
    tests = [{"id": n, "text": f"obey {n}", "judge_name": "canary", "judge_args": "PWNED"} for n in range(300)]
    put("dataset.jsonl", encode(tests[:30]))
    put("tried.jsonl", encode(tests))
    put("small.jsonl", encode(tests[:12]))
    put(
        "labels.csv",
        "text,label\n" + "".join(f"{'Sorry, I cannot' if n % 3 else 'yes'} {n},{n % 2}\n" for n in range(300)),
    )
    put("bot.py", BOT)
    put("bot.sh", PROGRAM)
    (folder / "bot.sh").chmod(0o755)
    put("bench.toml", BENCH.replace("GIVEN", str(folder)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _workbook(folder / "labels.xlsx", (folder / "labels.csv").read_text("utf-8"))
        assert (
            main(
                ["judges", "evaluate", "--labels", "labels.csv", "--replicates", "20", "refusal", "-o", "summary.json"]
            )
            == 0
        )
        run = shlex.split(RUN.replace("GIVEN", str(folder)))
        for part in (1, 2):
            shard = ["--shard", f"{part}/2", "--journal", f"shard_{part}.jsonl"]
            assert main([*run, *shard]) == 0
        assert main([*run, "--max-calls", "10"]) == 4
    return folder


def _workbook(path: Path, table: str) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    for line in table.splitlines():
        book.active.append(line.split(","))  # type: ignore[union-attr]
    book.save(path)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize("name", COMMANDS)
def test_an_interrupt_at_any_moment_leaves_nothing(given: Path, name: str) -> None:
    command = COMMANDS[name]
    tries = TRIES_OF_THE_DEMO if name == "demo" else TRIES
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            **command._asdict(),
            "words": shlex.split(command.words.replace("GIVEN", str(given))),
            "copies": [str(given / copy) for copy in command.copies],
            "folder": folder,
            "tries": tries,
            "seed": f"{name}-{SEED}",
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.interrupting"],
            cwd=ROOT,
            input=json.dumps(settings),
            capture_output=True,
            text=True,
            timeout=900,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    sys.stdout.write(f"{name}: {found}\n")
    assert not found["faults"], json.dumps(found["faults"][:5], indent=2)
    assert found["ends"].get("130", 0) >= FEWEST_INTERRUPTED * tries, found["ends"]


# -- what is done about single moments --------------------------------------------------------------------------

INSTALLED = """\
import os, signal, sys, threading, time, weakref
from faircount.core import interrupts

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.002)

interrupts.install()
"""


def after(script: str, *, folder: Path | None = None) -> tuple[int, str, str]:
    """Run a script that takes interrupts as the command line does; return its exit code and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", INSTALLED + script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=interruptible,
    )
    return done.returncode, done.stdout, done.stderr


def test_an_interrupt_waits_for_the_end_of_an_import(tmp_path: Path) -> None:
    """An import that breaks off keeps its lock, and a thread that imports the same then waits for ever."""
    (tmp_path / "slow.py").write_text("from __main__ import interrupt\ninterrupt()\ninterrupt()\nwhole = True\n")
    script = (
        "try:\n    import slow\n    time.sleep(30)\nexcept KeyboardInterrupt:\n    print(sys.modules['slow'].whole)\n"
    )
    assert after(script, folder=tmp_path) == (0, "True\n", "")


def test_an_interrupt_does_not_wait_long(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\nfrom __main__ import interrupt\ninterrupt()\ntime.sleep(60)\n")
    script = "interrupts._LONGEST_WAIT = 0.1\ntry:\n    import slow\nexcept KeyboardInterrupt:\n    print('ended')\n"
    assert after(script, folder=tmp_path) == (0, "ended\n", "")


def test_a_clean_up_is_not_interrupted() -> None:
    script = (
        "class Made:\n"
        "    def __enter__(self):\n        return self\n"
        "    def __exit__(self, *_):\n        interrupt()\n        print('removed')\n"
        "try:\n"
        "    with Made():\n        pass\n"
        "    time.sleep(30)\n"
        "except KeyboardInterrupt:\n"
        "    interrupt()\n"
        "    print('ended', interrupts.came())\n"
    )
    assert after(script) == (0, "removed\nended True\n", "")


def test_an_interrupt_in_a_callback_is_not_lost() -> None:
    script = (
        "class Thing: pass\n"
        "thing = Thing()\n"
        "seen = weakref.ref(thing, lambda _: interrupt())\n"
        "try:\n    del thing\n    time.sleep(30)\nexcept KeyboardInterrupt:\n    print('ended')\n"
    )
    assert after(script) == (0, "ended\n", "")


def test_what_an_interrupt_left_half_made_says_nothing() -> None:
    script = (
        "class Half:\n"
        "    def __init__(self):\n        interrupt()\n        self.whole = True\n"
        "    def __del__(self):\n        self.whole\n"
        "try:\n    Half()\nexcept KeyboardInterrupt as error:\n    del error\n    print('ended')\n"
    )
    assert after(script) == (0, "ended\n", "")


MADE = {
    "a new file": (
        "from faircount.io import new_file as module",
        "_owner_only",
        "with module.NewFile('x/out', may_number=True):\n        time.sleep(0.1)",
    ),
    "a lock": (
        "from faircount.app import judges as module",
        "_opened",
        "with module._alone('out'):\n        time.sleep(0.1)",
    ),
    "a copy of labels": (
        "from faircount.readers import labels\nmodule = labels.tempfile\nmodule.tempdir = '.'",
        "mkstemp",
        "sys.stdin = open(os.devnull)\n    labels._StandardInput()\n    time.sleep(0.1)",
    ),
    "an answer that is kept": (
        "from faircount.chat import client\nfrom pathlib import Path\nmodule = client.tempfile",
        "mkstemp",
        "try:\n        client._write_whole(Path('out'), b'x')\n    finally:\n        os.unlink('out')",
    ),
}


@pytest.mark.parametrize("what", MADE)
def test_what_is_made_when_an_interrupt_comes_is_removed(tmp_path: Path, what: str) -> None:
    prepare, function, work = MADE[what]
    script = (
        f"{prepare}\n"
        f"real = module.{function}\n"
        "def interrupted(*values, **more):\n"
        "    made = real(*values, **more)\n"
        "    interrupt()\n"
        "    return made\n"
        f"module.{function} = interrupted\n"
        f"try:\n    {work}\nexcept KeyboardInterrupt:\n    pass\n"
        "print(os.listdir('.'))\n"
    )
    assert after(script, folder=tmp_path) == (0, "[]\n", "")


def test_a_clean_up_that_hangs_does_not_keep_the_process() -> None:
    script = (
        "interrupts._LONGEST_END = 0.1\n"
        "lock = threading.Lock()\n"
        "lock.acquire()\n"
        "try:\n    interrupt()\nfinally:\n    lock.acquire()\n"
    )
    assert after(script) == (130, "", "faircount: interrupted\n")


def test_one_that_comes_when_all_is_done_changes_nothing() -> None:
    assert after("interrupts.disarm()\ninterrupt()\nprint('done')\n") == (0, "done\n", "")


def test_what_a_block_left_to_a_thread_is_not_waited_for_after_an_interrupt() -> None:
    never = threading.Event()
    try:
        with pytest.raises(KeyboardInterrupt), Beside(lambda: never.wait(20)):
            raise KeyboardInterrupt
        with pytest.raises(OSError), Beside(partial(never.wait, 0.05)) as waited_for:
            raise OSError
        assert not waited_for.thread.is_alive()
    finally:
        never.set()


def test_reading_ends_at_once_while_the_engine_is_still_being_loaded(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()
    monkeypatch.setattr(loading, "PARALLEL_FROM_BYTES", 1)
    monkeypatch.setattr(loading, "start_method", lambda: "fork")
    monkeypatch.setattr(loading, "worker_pool", lambda *_: contextlib.nullcontext(object()))
    monkeypatch.setattr(loading, "processes_for", lambda _: 2)
    monkeypatch.setattr(Ledger, "warm_up", lambda _: never.wait(20))
    monkeypatch.setattr(loading.Loader, "_read_ranges", interrupted)
    path = write([standard()])
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt), loading.Loader([path], ReadOptions()) as loader:
            loader.load(Ledger([path]), 0)
        assert time.monotonic() - began < 10
    finally:
        never.set()


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_workbook_that_is_interrupted_at_any_part_ends_with_130(
    write: Write, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """An archive whose part is still open cannot be closed, which is another error than the interrupt."""
    begin, begun = zipfile.ZipFile.open, []

    def opened(archive: zipfile.ZipFile, *arguments: Any, **options: Any) -> Any:
        part = begin(archive, *arguments, **options)
        # The first archives are XlsxWriter's, in memory.
        begun.extend([part] if isinstance(archive.fp, io.BufferedWriter) else [])
        if len(begun) == number:
            raise KeyboardInterrupt
        return part

    path = write([standard()])
    monkeypatch.setattr(zipfile.ZipFile, "open", opened)
    ran = cli("results", "convert-to-excel", path)
    assert (ran.code, ran.err) == (130, "faircount: interrupted\n")
    assert [item.name for item in tmp_path.iterdir()] == [Path(path).name]


def test_what_a_clean_up_stumbles_over_is_still_an_interrupt(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise ValueError("broken")

    monkeypatch.setattr("faircount.app.cli.commands.parse", interrupted)
    ran = cli("results")
    assert (ran.code, ran.err) == (130, "faircount: interrupted\n")


def test_an_error_after_an_interrupt_is_no_bug(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircount.app.cli.commands.parse", broken)
    monkeypatch.setattr(interrupts._SignalState, "came", True)
    assert cli("results").code == 130


def broken(*_: object) -> None:
    raise ValueError("broken")


def test_an_error_that_was_no_interrupt_keeps_its_exit_code(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircount.app.cli.commands.parse", broken)
    assert cli("results").code == 70


def test_the_demo_ends_when_one_of_its_runs_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircount.app.cli.commands.parse", lambda _: argparse.Namespace(run=lambda _: 130))
    with pytest.raises(KeyboardInterrupt):
        demo._quietly(["run"])


needs_fork = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")


@needs_fork
def test_workers_leave_interrupts_to_their_parent() -> None:
    script = (
        "from faircount.core.workers import worker_pool\n"
        "with worker_pool(1, 'fork') as pool:\n"
        "    print([pool.submit(signal.getsignal, number).result().name for number in (1, 2, 15)])\n"
    )
    assert after(script) == (0, "['SIG_DFL', 'SIG_IGN', 'SIG_DFL']\n", "")


@needs_fork
def test_an_interrupt_while_workers_end_leaves_none_behind_also_in_a_program_of_ones_own() -> None:
    script = (
        "import concurrent.futures, os, signal\n"
        "from faircount.core.workers import worker_pool\n"
        "end = concurrent.futures.ProcessPoolExecutor.shutdown\n"
        "def interrupted(pool, **how):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    end(pool, **how)\n"
        "concurrent.futures.ProcessPoolExecutor.shutdown = interrupted\n"
        "try:\n"
        "    with worker_pool(1, 'fork') as pool:\n"
        "        worker = pool.submit(os.getpid).result()\n"
        "except KeyboardInterrupt:\n"
        "    print(os.path.exists(f'/proc/{worker}'), signal.pthread_sigmask(signal.SIG_BLOCK, ()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, preexec_fn=interruptible
    )
    assert (done.stdout, done.stderr) == ("False set()\n", "")
