"""What is said where Spark does not start: one sentence, soon, and never a trace of Java."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cluster.conftest import QUIET, Files, no_trace, run_program
from tests.cluster.standalone import free_port

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_an_address_where_nobody_answers_is_named_soon(files: Files, scheme: str) -> None:
    """Spark would try again for minutes."""
    master = f"{scheme}://127.0.0.1:{free_port()}"
    before = time.monotonic()
    ran = run_program("results", "analyze", *files.names, "--engine", "spark", "--master", master, cwd=files.folder)
    assert ran.code == 2
    assert no_trace(ran)
    assert ran.err == f"faircount: --master {master}: no Spark answers there: Connection refused\n"
    assert time.monotonic() - before < 60


def test_no_java_is_said(files: Files, tmp_path: Path) -> None:
    ran = run_program(
        *("results", "analyze", *files.names, "--engine", "spark", "--master", "local[2]"),
        cwd=files.folder,
        environment={"JAVA_HOME": str(tmp_path)},
    )
    assert ran.code == 2
    assert no_trace(ran)
    assert "no Java here; install Java 17" in ran.err


@pytest.mark.parametrize(
    ("master", "settings", "reason"),
    [
        ("nonsense", (), "Master must either be yarn or start with spark, k8s, or local"),
        ("local[2]", ("--spark-conf", "spark.driver.memory=much"), "Invalid maximum heap size: -Xmxmuch"),
    ],
)
def test_what_spark_refuses_is_one_line(files: Files, master: str, settings: tuple[str, ...], reason: str) -> None:
    words = ("--engine", "spark", "--master", master, *settings, *QUIET)
    ran = run_program("results", "analyze", *files.names, *words, cwd=files.folder)
    assert ran.code == 3
    assert no_trace(ran)
    assert len(ran.err.splitlines()) == 1
    assert reason in ran.err


def test_without_an_address_and_a_session_the_option_is_named(files: Files) -> None:
    ran = run_program("results", "analyze", *files.names, "--engine", "spark", cwd=files.folder)
    assert ran.code == 2
    assert "no Spark session here; name the cluster with --master" in ran.err
