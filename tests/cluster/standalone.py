"""A standalone cluster of Spark on this machine: a master, and workers with addresses of their own.

With one address for all, the death of a worker looks like that of the whole host, and everything is read again.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from tests.cluster.conftest import LONGEST

T = TypeVar("T")


def spark_home() -> Path:
    """Return where Spark is installed."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nobody uses at the moment."""
    with socket.socket() as found:
        found.bind((host, 0))
        return int(found.getsockname()[1])


def until(found: Callable[[], T | None], what: str) -> T:
    """Wait until something is there."""
    end = time.monotonic() + LONGEST / 2
    while time.monotonic() < end:
        with suppress(OSError, ValueError, KeyError, IndexError):
            one = found()
            if one:
                return one
        time.sleep(0.1)
    raise TimeoutError(what)


def asked(url: str) -> Any:
    """Return a JSON document of Spark."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def children(process: int) -> list[int]:
    """Return the processes that a process started."""
    found: list[int] = []
    for thread in Path(f"/proc/{process}/task").iterdir():
        found += map(int, (thread / "children").read_text().split())
    return found


class Standalone:
    """A master with two workers of one core each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self._page = free_port(), free_port()
        self.address = f"spark://127.0.0.1:{self.port}"
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        words = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(self.port)]
        self._master = self._started("master", [*words, "--webui-port", str(self._page)], {})

    def _started(self, name: str, words: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [str(spark_home() / "bin" / "spark-class"), *words],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                env={**os.environ, "SPARK_HOME": str(spark_home()), "SPARK_DAEMON_MEMORY": "256m", **environment},
                start_new_session=True,
            )

    def start_worker(self, number: int) -> None:
        """Start a worker, and wait until the master knows it."""
        host = f"127.0.0.{number + 1}"
        words = ["org.apache.spark.deploy.worker.Worker", "--host", host, "--cores", "1", "--memory", "1g"]
        words += ["--webui-port", "0", "--work-dir", str(self.folder / f"work{number}"), self.address]
        self.workers[number] = self._started(f"worker{number}", words, {"SPARK_LOCAL_IP": host})
        until(lambda: self._alive() == len(self.workers), f"{len(self.workers)} workers")

    def _alive(self) -> int:
        for process in (self._master, *self.workers.values()):
            assert process.poll() is None, self.folder
        known = asked(f"http://127.0.0.1:{self._page}/json/")["workers"]
        return sum(worker["state"] == "ALIVE" for worker in known)

    def applications(self) -> int:
        """Return how many programs use the cluster at the moment."""
        return len(asked(f"http://127.0.0.1:{self._page}/json/")["activeapps"])

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors, without any warning."""
        worker = self.workers.pop(number)
        for process in (worker.pid, *children(worker.pid)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        worker.wait()

    def close(self) -> None:
        for process in (*self.workers.values(), self._master):
            process.terminate()
        for process in (*self.workers.values(), self._master):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def standalone(folder: Path) -> Iterator[Standalone]:
    """Give a cluster that ends with the test."""
    cluster = Standalone(folder)
    try:
        for number in (1, 2):
            cluster.start_worker(number)
        yield cluster
    finally:
        cluster.close()


class Driver:
    """A command that uses a cluster, and what Spark's pages show of its work."""

    def __init__(
        self, words: Sequence[str], *, cwd: Path, folder: Path, settings: Mapping[str, str], pause: float
    ) -> None:
        self._port = free_port()
        self._events = folder / "events"
        self._events.mkdir()
        wanted = {
            "spark.ui.port": str(self._port),
            "spark.executorEnv.FAIRCOUNT_TASK_PAUSE": str(pause),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self._events.as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            # Of what a dead machine had, nothing is worth waiting for.
            "spark.shuffle.io.maxRetries": "1",
            "spark.shuffle.io.retryWait": "1s",
            **settings,
        }
        conf = [word for name, value in wanted.items() for word in ("--spark-conf", f"{name}={value}")]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "faircount", *words, *conf],
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _pages(self, what: str) -> Any:
        page = f"http://127.0.0.1:{self._port}/api/v1/applications"
        return asked(f"{page}/{asked(page)[0]['id']}/{what}")

    def wait_for(self, what: str, done: int) -> None:
        """Wait until a job with a description runs, with so many of its tasks done."""

        def found() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            return any(
                job["status"] == "RUNNING" and what in job.get("description", "") and job["numCompletedTasks"] >= done
                for job in self._pages("jobs")
            )

        until(found, f"{what}, {done} tasks done")

    def host_of_parts(self) -> str:
        """Return a host that keeps rows of some parts, and if possible none of the first part."""

        def found() -> str:
            rows = self._pages(f"storage/rdd/{min(one['id'] for one in self._pages('storage/rdd'))}")
            keepers = {one["blockName"].rsplit("_", 1)[1]: one["executors"][0] for one in rows["partitions"]}
            others = [keeper for keeper in keepers.values() if keeper != keepers["0"]]
            chosen = (others or [keepers["0"]])[0]
            hosts = {one["id"]: one["hostPort"] for one in self._pages("executors")}
            return str(hosts.get(chosen, chosen)).split(":")[0]

        return until(found, "a host that keeps rows")

    def executor_with_work(self) -> str:
        """Return the host of an executor that has done something."""
        return until(
            lambda: next(
                str(one["hostPort"]).split(":")[0]
                for one in self._pages("executors")
                if one["id"] != "driver" and one["completedTasks"]
            ),
            "an executor that has done something",
        )

    def end(self) -> tuple[int, str, str]:
        """Wait for the end; return the exit code and what was written."""
        try:
            out, err = self.process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, out, err

    def events(self) -> list[dict[str, Any]]:
        """Return what Spark recorded of its work."""
        (log,) = [path for path in self._events.rglob("*") if path.is_file() and not path.name.startswith(".")]
        return [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def tasks_done_again(events: Sequence[Mapping[str, Any]]) -> int:
    """Return how many tasks were started for work that another task had been started for."""
    work, again = set(), 0
    names = {}
    for event in events:
        if event["Event"] == "SparkListenerStageSubmitted":
            stage = event["Stage Info"]
            names[stage["Stage ID"]] = tuple(sorted(one["RDD ID"] for one in stage["RDD Info"]))
        elif event["Event"] == "SparkListenerTaskStart":
            task = (names.get(event["Stage ID"]), event["Task Info"]["Index"])
            again += task in work
            work.add(task)
    return again


def executors_lost(events: Sequence[Mapping[str, Any]]) -> int:
    """Return how many executors went away while there was work."""
    return sum(event["Event"] == "SparkListenerExecutorRemoved" for event in events)
