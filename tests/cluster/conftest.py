"""Result files for a cluster, what one machine makes of them, and how commands are run with a real Spark."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from bench.generate import write_results

from tests.conftest import Ran

PYTHON = sys.executable
FAIRCOUNT = [PYTHON, "-m", "faircount"]
LONGEST = 600
"""So many seconds a command may take on a machine that does much else."""
SMALL_TASKS = ("--spark-conf", "spark.faircount.parts=3", "--spark-conf", f"spark.faircount.taskBytes={8 * 1024**2}")
"""So many parts and tasks that there is something to deal, and to kill."""
QUIET = ("--spark-conf", "spark.ui.enabled=false")


@pytest.fixture(scope="session", autouse=True)
def _spark_is_here() -> None:
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: install openjdk-17-jre-headless")
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("PySpark is not installed: run make test-cluster")


@dataclass(frozen=True)
class Files:
    """Result files that have something to do with one another, and their folder."""

    folder: Path
    names: tuple[str, ...]


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A file that is read in ranges, a resumed copy, a rejudged one, a damaged and a compressed one."""
    folder = tmp_path_factory.mktemp("results")
    run = folder / "results_run.jsonl"
    write_results(run, 11_000)
    with run.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line, _ in zip(file, range(1200), strict=False)]
    new = [{**row, "id": f"new-{row['id']}", "response_time": 3.25} for row in rows[:40]]
    _write(folder / "results_run_resumed.jsonl", rows[:700] + new)
    rejudged = [{**row, "success": not row["success"]} if at % 9 == 0 else row for at, row in enumerate(rows)]
    _write(folder / "rejudge_results_run.jsonl", rejudged)
    torn = folder / "results_torn.jsonl"
    write_results(torn, 300, seed=2)
    lines = torn.read_bytes().splitlines(keepends=True)
    lines[7], lines[90] = lines[7][: len(lines[7]) // 2] + b"\n", b'{"id": 7, "success": "maybe"}\n'
    torn.write_bytes(b"".join(lines) + b'{"id": 12, "inp')
    other = folder / "other.jsonl"
    write_results(other, 400, seed=3)
    (folder / "results_other.jsonl.gz").write_bytes(gzip.compress(other.read_bytes(), 1, mtime=0))
    other.unlink()
    return Files(folder, tuple(sorted(path.name for path in folder.iterdir())))


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def run_program(
    *words: str | Path, cwd: Path, environment: Mapping[str, str] | None = None, program: list[str] = FAIRCOUNT
) -> Ran:
    """Run Faircount as a user does."""
    done = subprocess.run(
        [*program, *map(str, words)],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


Expected = Callable[..., bytes]


@pytest.fixture(scope="session")
def one_machine(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Expected:
    """What one machine makes of all files together, as a document."""
    made: dict[tuple[str, ...], bytes] = {}

    def document(*options: str, names: tuple[str, ...] = files.names) -> bytes:
        asked = (*names, *options)
        if asked not in made:
            path = tmp_path_factory.mktemp("one") / "document.json"
            ran = run_program("results", "analyze", *asked, "--output-format", "json", "-o", path, cwd=files.folder)
            assert ran.code == 0, ran.err
            made[asked] = path.read_bytes()
        return made[asked]

    return document


def no_trace(ran: Ran) -> bool:
    """Return whether a message is one of ours alone."""
    java = ("Traceback", "\tat ", "Exception in thread", "WARN", "ERROR", "py4j")
    return ran.err.startswith("faircount: ") and not any(word in ran.err for word in java)


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A session of Spark in this process, which commands and calls find."""
    import warnings

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("PYSPARK_PYTHON", PYTHON)
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").appName("tests")
        builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.faircount.parts", "3")
        builder = builder.config("spark.faircount.taskBytes", str(8 * 1024**2))
        builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()
