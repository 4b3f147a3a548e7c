"""A real cluster: the same document, whatever machine dies meanwhile, and no document of a file that changes."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import SMALL_TASKS, Expected, Files, no_trace, run_program
from tests.cluster.standalone import (
    Driver,
    Standalone,
    executors_lost,
    spark_home,
    standalone,
    tasks_done_again,
    until,
)

pytestmark = pytest.mark.cluster

READING, COUNTING = "Faircount: reading", "Faircount: folding and counting"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def both_workers(cluster: Standalone) -> Iterator[Standalone]:
    """A cluster that has both workers before and after a test."""
    yield cluster
    for number in {1, 2} - set(cluster.workers):
        cluster.start_worker(number)


def started(cluster: Standalone, files: Files, folder: Path, output: Path, pause: float = 1.0) -> Driver:
    words = ["results", "analyze", *files.names, "--combine", "--engine", "spark", "--master", cluster.address]
    words += ["--output-format", "json", "-o", str(output), *SMALL_TASKS]
    settings = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    return Driver(words, cwd=files.folder, folder=folder, settings=settings, pause=pause)


@pytest.mark.parametrize(("job", "tasks"), [(READING, 3), (COUNTING, 1)], ids=["reading", "folding"])
def test_a_worker_that_is_killed_changes_nothing(
    both_workers: Standalone,
    files: Files,
    one_machine: Expected,
    tmp_path: Path,
    job: str,
    tasks: int,
) -> None:
    """What it had is done again by the other one."""
    output = tmp_path / "document.json"
    driver = started(both_workers, files, tmp_path, output)
    driver.wait_for(job, tasks)
    host = driver.executor_with_work()
    both_workers.kill_worker(int(host.rsplit(".", 1)[1]) - 1)
    code, _, err = driver.end()
    assert code == 0, err
    assert output.read_bytes() == one_machine("--combine")
    assert "lost" not in err
    events = driver.events()
    assert executors_lost(events) >= 1
    assert tasks_done_again(events) >= 1


def test_a_file_that_is_rewritten_before_it_is_read_again_is_an_error(
    both_workers: Standalone, files: Files, tmp_path: Path
) -> None:
    """Whatever parts are folded again, the document would be of two versions of the file."""
    changing = Files(tmp_path / "results", files.names)
    changing.folder.mkdir()
    for name in files.names:
        (changing.folder / name).write_bytes((files.folder / name).read_bytes())
    output = tmp_path / "document.json"
    driver = started(both_workers, changing, tmp_path, output, pause=2)
    driver.wait_for(COUNTING, 1)
    file = changing.folder / "results_run.jsonl"
    with file.open("r+b") as rewritten:
        rewritten.write(rewritten.readline().replace(b'"success": ', b'"success":  ')[:10])
    os.utime(file, ns=(1, 1))
    both_workers.kill_worker(int(driver.host_of_parts().rsplit(".", 1)[1]) - 1)
    code, _, err = driver.end()
    assert code == 3, err
    assert re.fullmatch(r"faircount: \S*results_run.jsonl: rewritten while it was being read; .*\n", err)
    assert not output.exists()


def test_ctrl_c_stops_the_jobs(cluster: Standalone, files: Files, tmp_path: Path) -> None:
    output = tmp_path / "document.json"
    driver = started(cluster, files, tmp_path, output, pause=30)
    driver.wait_for(READING, 0)
    before = time.monotonic()
    os.killpg(driver.process.pid, signal.SIGINT)
    code, _, err = driver.end()
    assert code == 130
    assert err == "faircount: interrupted\n"
    assert time.monotonic() - before < 60, "tasks wait for 30 seconds each"
    assert not output.exists()
    events = driver.events()
    ended = [event["Job Result"]["Result"] for event in events if event["Event"] == "SparkListenerJobEnd"]
    assert ended[-1] == "JobFailed", "the job was cancelled"


def test_a_file_that_executors_cannot_see_is_an_error(cluster: Standalone, files: Files) -> None:
    """A path that leads somewhere else in every process stands for one of another machine."""
    here = "/proc/self/cwd/results_torn.jsonl"
    words = ["--engine", "spark", "--master", cluster.address, "--spark-conf", "spark.driver.host=127.0.0.1"]
    for combined in ([], ["--combine"]):
        ran = run_program("results", "analyze", here, *combined, *words, cwd=files.folder)
        assert ran.code == 3
        assert ran.err == f"faircount: {here}: executors cannot read it; give an address that every machine can read\n"


def test_spark_submit_runs_the_program(
    cluster: Standalone, files: Files, one_machine: Expected, tmp_path: Path
) -> None:
    script = tmp_path / "analyse.py"
    script.write_text("import sys\nfrom faircount.app.cli import main\nsys.exit(main(sys.argv[1:]))\n")
    words = ["--master", cluster.address, "--conf", "spark.faircount.parts=3", "--conf", "spark.driver.host=127.0.0.1"]
    words += ["--conf", "spark.executor.memory=512m", str(script), "results", "analyze", *files.names, "--combine"]
    submit = [str(spark_home() / "bin" / "spark-submit")]
    output = tmp_path / "document.json"
    ran = run_program(
        *words,
        *("--engine", "spark", "--output-format", "json", "-o", output),
        cwd=files.folder,
        program=submit,
        environment={"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home())},
    )
    assert ran.code == 0, ran.err
    assert output.read_bytes() == one_machine("--combine")


def test_executors_with_other_versions_are_refused(cluster: Standalone, files: Files, tmp_path: Path) -> None:
    """Executors find another DuckDB first."""
    other = tmp_path / "other" / "duckdb-1.9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: duckdb\nVersion: 1.9.9\n")
    words = ["--engine", "spark", "--master", cluster.address, "--spark-conf", "spark.driver.host=127.0.0.1"]
    path = ["--spark-conf", f"spark.executorEnv.PYTHONPATH={other.parent}"]
    ran = run_program("results", "analyze", *files.names, *words, *path, cwd=files.folder)
    assert ran.code == 2
    assert no_trace(ran)
    assert "executors have other versions: DuckDB 1.9.9 there" in ran.err


def test_executors_without_faircount_are_explained(cluster: Standalone, files: Files, tmp_path: Path) -> None:
    """An environment with everything else: what is installed for development is not on the paths of a .pth file."""
    import subprocess
    import sysconfig

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    (packages,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    words = ["--engine", "spark", "--master", cluster.address, "--spark-conf", "spark.driver.host=127.0.0.1"]
    python = ["--spark-conf", f"spark.pyspark.python={tmp_path / 'bare' / 'bin' / 'python'}"]
    ran = run_program("results", "analyze", *files.names, *words, *python, cwd=files.folder)
    assert ran.code == 2
    assert no_trace(ran)
    assert "Faircount is not installed on the executors" in ran.err


def test_nothing_is_left_running(cluster: Standalone) -> None:
    """Every command gave its executors back."""
    until(lambda: cluster.applications() == 0, "an end of all applications")
