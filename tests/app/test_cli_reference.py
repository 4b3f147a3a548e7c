"""The reference page of the command line: its tables hold together, and what it shows can be typed as it stands."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tools import cli_reference

from tests.conftest import ROOT
from tests.test_docs import run_here

TEXT = cli_reference.PAGE.read_text(encoding="utf-8")
EXAMPLES = [line for block in re.findall(r"^```sh\n(.*?)^```$", TEXT, re.M | re.S) for line in block.splitlines()]
SAMPLES = ROOT / "docs" / "samples"
BENCH = """\
output_folder = "bench"
[targets.one]
target = "simulated:assistant(seed=7)"
[datasets.attacks]
path = "attacks.jsonl"
"""


def sh(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line as a shell does, with this Python's faircount; in this process where it needs no shell."""
    if command.startswith("faircount ") and not re.search(r"[|<>;&$*~]", re.sub(r"'[^']*'", "", command)):
        return subprocess.CompletedProcess(command, *run_here(shlex.split(command)[1:], folder))
    shell = f'faircount() {{ "{sys.executable}" -m faircount "$@"; }}\n{command}'
    environment = {**os.environ, "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    return subprocess.run(["sh", "-c", shell], cwd=folder, env=environment, capture_output=True, text=True)


class Bot(BaseHTTPRequestHandler):
    """Answers everything over HTTP."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"answer": "Hello."}')

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def bot() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Bot)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, bot: str) -> Path:
    """A folder with everything that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    assert sh("faircount -q demo --folder sample", folder).returncode == 0
    (folder / "results").mkdir()
    for name, sample in (("x", "weak"), ("bot", "mid"), ("old", "mid"), ("new", "strong")):
        shutil.copy(
            folder / f"sample/results_bot-{sample}_sample_1790000000.jsonl", folder / f"results/results_{name}.jsonl"
        )
    shutil.copytree(
        folder / "sample" / "benchmark", folder / "tests", ignore=shutil.ignore_patterns("results", "*.jsonl")
    )
    shutil.copy(folder / "sample" / "attacks" / "injections.jsonl", folder / "attacks.jsonl")
    shutil.copy(SAMPLES / "labelled.csv", folder)
    shutil.copy(SAMPLES / "guard_a_attacks.jsonl", folder / "guarded.jsonl")
    shutil.copy(SAMPLES / "guard_a_benign.jsonl", folder / "benign.jsonl")
    for name in ("bot.py", "my_bot.py"):
        shutil.copy(SAMPLES / "bot.py", folder / name)
    (folder / "target.toml").write_text(f'url = "{bot}"\nanswer = "answer"\n[json]\nmessages = "{{messages}}"\n')
    (folder / "bot").write_text("#!/bin/sh\ncat\n")
    (folder / "bot").chmod(0o755)
    (folder / "prompt.txt").write_text("Hello.")
    (folder / "answer.txt").write_text("Sure, here it is.")
    (folder / "release.toml").write_text(BENCH)
    entries = len((folder / "attacks.jsonl").read_text().splitlines())
    run = "faircount run attacks.jsonl --target 'simulated:assistant(seed=7)'"
    for line in (
        "faircount results extract results/results_x.jsonl --where 'success exists' -o my.jsonl",
        f"{run} --shard 1/2 --journal run_shard1.jsonl",
        f"{run} --shard 2/2 --journal run_shard2.jsonl",
        f"{run} --max-calls {entries // 2 + 1} --journal results/run_20260101_120000.jsonl",
    ):
        assert sh(line, folder).returncode in (0, 4), line
    return folder


def test_every_example_runs_as_printed(workspace: Path) -> None:
    assert len(EXAMPLES) > 30
    for line in EXAMPLES:
        # The page is asked for once, without a server that nobody ends.
        serves = line.startswith("faircount view") and "--export" not in line
        ran = sh(f"{line} --get /" if serves else line, workspace)
        # Tests may fail, and warnings are what check is asked to fail for.
        allowed = (0, 1) if line.startswith(("faircount run", "faircount results check")) else (0,)
        assert ran.returncode in allowed, f"{line}\n{ran.stderr}"


def shown_values(option: str) -> list[str]:
    """Return what the page shows in quotes as values of an option."""
    (meaning,) = set(re.findall(rf"^\| `{option} [A-Z]+` \| (.*) \|$", TEXT, re.M))
    return re.findall(r"'([^']+)'", meaning)


def test_every_gate_is_one(workspace: Path) -> None:
    gates = shown_values("--fail-on")
    assert "errors > 10%" in gates
    for gate in gates:
        results = "sample/benchmark/run.jsonl" if "pass_rate" in gate else "results/results_new.jsonl"
        baseline = " --baseline results/results_old.jsonl" if "regression" in gate else ""
        ran = sh(f"faircount results analyze {results}{baseline} --fail-on '{gate}'", workspace)
        assert ran.returncode in (0, 1), f"{gate}\n{ran.stderr}"


def test_every_rule_to_stop_and_every_sample_is_one(workspace: Path) -> None:
    words = [f"--stop-when '{rule}'" for rule in shown_values("--stop-when")] + [
        f"--sample {p}" for p in ("0.25", "25%", "100")
    ]
    assert len(words) == 6
    for number, option in enumerate(words):
        ran = sh(f"faircount run attacks.jsonl --target simulated {option} --journal {number}.jsonl", workspace)
        assert ran.returncode in (0, 4), f"{option}\n{ran.stderr}"


def test_every_row_of_a_table_has_two_cells_and_nothing_of_the_parser() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}
    assert "%%" not in TEXT
    assert "SUPPRESS" not in TEXT
