"""Spark Connect: a machine that has neither Java nor Spark, only its client, and a server elsewhere."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import SMALL_TASKS, Expected, Files, no_trace, run_program
from tests.cluster.standalone import free_port, spark_home, until
from tests.conftest import ROOT

pytestmark = pytest.mark.cluster

CLIENT = ROOT / ".venv-connect" / "bin" / "python"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of Spark Connect."""
    if not CLIENT.exists():
        pytest.skip("pyspark-client is not installed in .venv-connect: run make test-cluster")
    folder, port = tmp_path_factory.mktemp("connect"), free_port()
    settings = {"spark.connect.grpc.binding.port": port, "spark.ui.enabled": "false"}
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    start = spark_home() / "sbin" / "start-connect-server.sh"
    environment = {"SPARK_HOME": spark_home(), "PYSPARK_PYTHON": sys.executable, "SPARK_NO_DAEMONIZE": "1"}
    environment |= {"SPARK_LOG_DIR": folder, "SPARK_PID_DIR": folder}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", str(start), "--master", "local[2]", *conf],
            cwd=folder,
            stdout=log,
            stderr=log,
            env=os.environ | {name: str(value) for name, value in environment.items()},
            start_new_session=True,
        )
    try:
        until(lambda: b"Spark Connect server started" in (folder / "log").read_bytes(), "a server of Spark Connect")
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    """An environment where no Java is found."""
    nothing = tmp_path / "bin"
    nothing.mkdir()
    assert shutil.which("java", path=str(nothing)) is None
    return {"PATH": str(nothing), "JAVA_HOME": "", "SPARK_HOME": ""}


def test_a_client_without_java_gets_the_document_of_one_machine(
    server: str, files: Files, one_machine: Expected, tmp_path: Path, without_java: dict[str, str]
) -> None:
    output = tmp_path / "document.json"
    ran = run_program(
        *("results", "analyze", *files.names, "--combine", "--engine", "spark", "--master", server, *SMALL_TASKS),
        *("--output-format", "json", "-o", str(output)),
        cwd=files.folder,
        environment=without_java,
        program=[str(CLIENT), "-m", "faircount"],
    )
    assert ran.code == 0, ran.err
    assert ran.err == ""
    assert output.read_bytes() == one_machine("--combine")


def test_the_server_works_for_others_afterwards(
    server: str, files: Files, one_machine: Expected, tmp_path: Path, without_java: dict[str, str]
) -> None:
    """A session of one user is stopped, not the server; files one by one."""
    output = tmp_path / "document.json"
    ran = run_program(
        *("results", "analyze", *files.names, "--engine", "spark", "--output-format", "json", "-o", str(output)),
        cwd=files.folder,
        environment=without_java | {"SPARK_REMOTE": server},
        program=[str(CLIENT), "-m", "faircount"],
    )
    assert ran.code == 0, ran.err
    assert output.read_bytes() == one_machine()


def test_a_client_without_spark_is_told_what_it_can_use(
    server: str, files: Files, without_java: dict[str, str]
) -> None:
    del server  # only where its client is installed
    ran = run_program(
        *("results", "analyze", *files.names, "--engine", "spark", "--master", "local[2]"),
        cwd=files.folder,
        environment=without_java,
        program=[str(CLIENT), "-m", "faircount"],
    )
    assert ran.code == 2
    assert no_trace(ran)
    assert "only the client of Spark Connect is installed" in ran.err
