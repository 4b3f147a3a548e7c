"""The same numbers from Spark as from one machine, with a session that was there before."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import faircount
from tests.cluster.conftest import Expected, Files
from tests.conftest import Cli

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("default")]


@pytest.fixture(autouse=True)
def _where_the_files_are(files: Files, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 (it must be started first)
    monkeypatch.chdir(files.folder)


def on_spark(cli: Cli, path: Path, *words: str) -> bytes:
    """Return the document that a command writes with the session that is there."""
    ran = cli("results", "analyze", *words, "--engine", "spark", "-o", str(path))
    assert ran.code == 0, ran.err
    return path.read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        ("--combine",),
        ("--combine", "--definition", "spikee"),
        ("--combine", "--cluster", "document_id", "--by", "lang", "--by", "plugin", "--min-n", "5", "--sort", "shrunk"),
        ("--combine", "--cluster", "none", "--where", 'lang == "de"', "--guardrail-success", "detected"),
    ],
    ids=lambda options: " ".join(options),
)
def test_files_together_give_the_document_of_one_machine(
    cli: Cli, files: Files, one_machine: Expected, tmp_path: Path, options: tuple[str, ...]
) -> None:
    made = on_spark(cli, tmp_path / "spark.json", *files.names, *options, "--output-format", "json")
    assert made == one_machine(*options)


def test_files_one_by_one_give_the_document_of_one_machine(
    cli: Cli, files: Files, one_machine: Expected, tmp_path: Path
) -> None:
    """Small ones are analysed whole, each by one task; a large one is dealt."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("faircount.analysis.analyze.WHOLE_BELOW_BYTES", 32 * 1024**2)
        made = on_spark(cli, tmp_path / "spark.json", *files.names, "--output-format", "json")
    assert made == one_machine()


def test_a_file_among_several_that_cannot_be_used_is_named(cli: Cli, files: Files, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.jsonl"
    nothing.write_bytes(b"no rows\n")
    words = ("results", "analyze", files.names[-1], str(nothing), "--output-format", "json")
    here = cli(*words)
    there = cli(*words, "--engine", "spark")
    assert (here.code, here.err) == (there.code, there.err)
    assert here.out == there.out


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_reports_with_texts_are_those_of_one_machine(cli: Cli, files: Files, tmp_path: Path, form: str) -> None:
    words = ("results", "analyze", *files.names, "--combine", "--evidence", "successes=3", "--output-format", form)
    here, there = tmp_path / f"here.{form}", tmp_path / f"there.{form}"
    assert cli(*words, "-o", str(here)).code == 0
    assert cli(*words, "--engine", "spark", "-o", str(there)).code == 0
    # The report shows the command that made it.
    made = there.read_text("utf-8").replace(" --engine spark", "").replace("there.", "here.")
    assert made == here.read_text("utf-8")
    assert re.search("CANARY|INJECTION|account", made)


def test_no_rows_that_a_query_chooses_are_no_rows_on_spark_either(cli: Cli, files: Files) -> None:
    words = ("results", "analyze", *files.names, "--combine", "--where", 'lang == "xx"', "--output-format", "json")
    here, there = cli(*words), cli(*words, "--engine", "spark")
    assert (there.code, there.err, there.out) == (here.code, here.err, here.out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--judge-quality", "labels.jsonl"), "--judge-quality does not work with --engine spark yet"),
        (("--judge", "any"), "--judge does not work with --engine spark yet"),
        (("--combine", "--by", "judge"), "--by judge does not work with --engine spark yet"),
        (("--by", "owasp"), "--by owasp or atlas does not work with --engine spark yet"),
        (("--definition", "garak"), "--definition garak does not work with --engine spark yet"),
        (("--where", "line > 3"), "--where with a line does not work with --engine spark yet"),
        (("--baseline", "results_torn.jsonl"), "--baseline does not work with --engine spark yet"),
        (("--master", "local[2]"), "a Spark session is already there"),
        (("--spark-conf", "spark.x"), "--spark-conf spark.x: must be KEY=VALUE"),
    ],
)
def test_what_spark_does_not_do_is_refused(cli: Cli, files: Files, options: tuple[str, ...], message: str) -> None:
    ran = cli("results", "analyze", *files.names, "--engine", "spark", *options)
    assert ran.code == 2
    assert message in ran.err


def test_standard_input_is_refused(cli: Cli) -> None:
    ran = cli("results", "analyze", "-", "--engine", "spark")
    assert ran.code == 2
    assert "name files that every machine can read" in ran.err


def test_options_of_spark_need_it(cli: Cli) -> None:
    ran = cli("results", "analyze", "x.jsonl", "--master", "local[2]")
    assert ran.code == 2
    assert "--master and --spark-conf need --engine spark" in ran.err


def test_a_session_is_used_by_a_call_and_left_alone(files: Files, session: Any) -> None:
    setting = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = session.conf.get(setting)
    (here,) = faircount.analyze(*files.names, combine=True).analyses
    (there,) = faircount.analyze(*files.names, combine=True, engine=session).analyses
    assert msgspec.json.encode(there) == msgspec.json.encode(here)
    assert session.conf.get(setting) == before
    assert session.range(10).count() == 10
    assert session.sparkContext._jsc.getPersistentRDDs().isEmpty(), "what was kept is given back"


def test_settings_of_ours_must_be_numbers(files: Files, session: Any) -> None:
    other = session.newSession()
    other.conf.set("spark.faircount.parts", "many")
    with pytest.raises(faircount.UsageError, match="must be a whole number above 0"):
        faircount.analyze(*files.names, combine=True, engine=other)
