"""Gates on the command line: exit codes, the sentences that say why, and what is written where."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace

from faircount.app.cli.commands import parse
from faircount.app.cli.options import SUMMARY_VARIABLE, BaselineGates
from faircount.app.cli.runner import apply_gates, fields_of_gates, refuse_gates
from faircount.core import UsageError, option_fields, visible
from faircount.version import __version__
from tests.analysis.gate_results import analysis_with, cells, comparison_with
from tests.conftest import Cli, Write, standard

OPEN = comparison_with(cells(20, 6, 14, 160))
"""A comparison that leaves a margin of 5 points open."""


@pytest.fixture(autouse=True)
def _no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUMMARY_VARIABLE, raising=False)


def given(*words: str) -> BaselineGates:
    """Return the gates that words are parsed into."""
    arguments = parse(["results", "analyze", "x", *words])
    return BaselineGates(**{known.name: getattr(arguments, known.name) for known in option_fields(BaselineGates)})


def gates(*texts: str) -> list[str]:
    return [word for text in texts for word in ("--fail-on", text)]


# -- exit codes and sentences -----------------------------------------------------------------------------------


def test_a_gate_that_passes_gives_0_and_one_that_fails_1(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    told = analysis_with(write, 5, 95)
    assert apply_gates(given(*gates("asr > 0.1")), analyses=[told]) == 0
    assert apply_gates(given(*gates("asr > 0.1", "asr.high > 0.1")), analyses=[told]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    *_, passed, failed = captured.err.splitlines()
    assert passed.startswith("faircount: gate asr > 0.1: passed: the success rate is 5.0% (2.2–11.2%) of 100 entries")
    assert failed.startswith("faircount: gate asr.high > 0.1: failed: the upper limit of the success rate is 11.2%")


def test_without_gates_nothing_is_said_and_nothing_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert apply_gates(given(), analyses=()) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("words", "code"), [((), 1), (("--inconclusive", "fail"), 1), (("--inconclusive", "pass"), 0)])
def test_what_is_inconclusive_counts_as_the_user_says(
    words: tuple[str, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert apply_gates(given(*gates("regression > 0.05"), *words), comparison=OPEN) == code
    said = capsys.readouterr().err
    assert f"inconclusive, which counts as {'passed' if code == 0 else 'a failure'}: " in said
    assert "more entries would decide" in said


def test_what_failed_is_no_pass_however_inconclusive_counts(write: Write) -> None:
    arguments = given(*gates("asr > 0.01"), "--inconclusive", "pass")
    assert apply_gates(arguments, analyses=[analysis_with(write, 5, 95)]) == 1


def test_the_file_is_named_where_there_are_several(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    told = [analysis_with(write, 5, 95, name=name) for name in ("a.jsonl", "b.jsonl")]
    apply_gates(given(*gates("asr > 0.1")), analyses=[told[0], replace(told[1], name="b\x1b[2J.jsonl")])
    said = capsys.readouterr().err
    assert "a.jsonl): passed" in said
    assert "(b\\x1b[2J.jsonl): passed" in said


def test_rates_are_the_analysis_and_regressions_the_comparison(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = given(*gates("asr > 0.5", "regression > 0.05"), "--inconclusive", "pass")
    assert apply_gates(arguments, analyses=[analysis_with(write, 5, 95)], comparison=OPEN) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert "5.0%" in first
    assert "200 paired entries" in second


# -- what is refused --------------------------------------------------------------------------------------------


def test_gates_are_refused_before_any_work() -> None:
    with pytest.raises(UsageError, match="at character 5: expected an operator"):
        refuse_gates(given(*gates("asr ! 3")), [])
    with pytest.raises(UsageError, match="--baseline FILE"):
        refuse_gates(given(*gates("regression > 0.02")), [])
    refuse_gates(given(*gates("regression > 0.02"), "--baseline", "x"), [])
    with pytest.raises(UsageError, match="must be different files"):
        refuse_gates(given("--junit", "x.xml", "--sarif", "./x.xml"), [])


def test_the_facets_of_gates_are_known_before_the_analysis() -> None:
    found = given(*gates("lang=en: asr > 0.1", "asr > 0.1", "plugin=x: asr > 0.1", "lang=de: asr > 0.1"))
    assert fields_of_gates(found) == ("lang", "plugin")


@pytest.mark.parametrize("by", [[], ["lang"], ["plugin"], ["lang", "plugin"]])
def test_a_gate_on_a_field_is_judged_whatever_the_report_is_broken_down_by(
    write: Write, cli: Cli, by: list[str]
) -> None:
    rows = [standard(n, success=n < 30, lang="de", plugin="b64" if n < 40 else "hex") for n in range(100)]
    words = [word for field in by for word in ("--by", field)]
    ran = cli("results", "analyze", write(rows), *words, *gates("plugin=b64: asr > 0.7", "plugin=hex: asr > 0.7"))
    assert ran.code == 1, ran.err
    failed, passed = ran.err.splitlines()
    assert "gate plugin=b64: asr > 0.7: failed: the success rate is 75.0%" in failed
    assert "gate plugin=hex: asr > 0.7: passed: the success rate is 0.0%" in passed
    paths = write(rows, "old.jsonl"), write(rows, "new.jsonl")
    compared = cli("results", "compare", *paths, *words, *gates("plugin=b64: asr > 0.7"))
    assert compared.code == 1, compared.err


@pytest.mark.parametrize("meaning", ["bypassed", "detected"])
def test_what_a_guardrails_true_means_is_the_same_for_the_baseline(write: Write, cli: Cli, meaning: str) -> None:
    # The new guardrail says True more often: it lets more through, or it detects more.
    old, new = (
        write([standard(n, success=n < count, response=str(n < count)) for n in range(100)], name)
        for count, name in ((20, "old.jsonl"), (80, "new.jsonl"))
    )
    words = "--guardrail-success", meaning, *gates("regression > 5%")
    expected = 1 if meaning == "bypassed" else 0
    assert cli("results", "compare", "--baseline", old, new, *words).code == expected
    assert cli("results", "analyze", new, "--baseline", old, *words).code == expected


def test_the_families_of_an_analysis_are_those_of_its_baseline(write: Write, cli: Cli) -> None:
    rng = random.Random(3)
    rows = [standard(n, team=f"t{n % 5}", success=rng.random() < 0.2) for n in range(200)]
    worse = [row | {"success": row["success"] or (n % 5 == 0 and n % 2 == 0)} for n, row in enumerate(rows)]
    old, new = write(rows, "old.jsonl"), write(worse, "new.jsonl")

    def sentence(*words: str) -> str:
        return cli("results", *words, *gates("regression > 5%")).err.partition(": success rate")[2]

    for cluster in ("none", "team"):
        asked = "--cluster", cluster
        assert sentence("analyze", new, "--baseline", old, *asked) == sentence(
            "compare", new, "--baseline", old, *asked
        )
    assert sentence("analyze", new, "--baseline", old, "--cluster", "none") != sentence(
        "analyze", new, "--baseline", old, "--cluster", "team"
    )


def test_an_unknown_value_is_a_usage_error(write: Write) -> None:
    with pytest.raises(UsageError, match="available: dan") as caught:
        apply_gates(
            given(*gates("jailbreak_type=x: asr > 0.1")), analyses=[analysis_with(write, 1, 1, jailbreak_type="dan")]
        )
    assert caught.value.exit_code == 2


def test_an_analysis_is_shown_before_a_baseline_is_missed(write: Write, cli: Cli, tmp_path: Path) -> None:
    words = ["--baseline", str(tmp_path / "none.jsonl"), *gates("regression > 0.05")]
    ran = cli("results", "analyze", write([standard(n, success=n < 2) for n in range(10)]), *words)
    assert ran.code == 3
    assert "20% of 10 attacks succeeded" in ran.out
    assert "none.jsonl: no such file" in ran.err


# -- files ------------------------------------------------------------------------------------------------------


def test_files_are_written_whole_also_if_a_gate_fails(write: Write, tmp_path: Path) -> None:
    junit, sarif = tmp_path / "gates.xml", tmp_path / "gates.sarif"
    arguments = given(*gates("asr > 0.01"), "--junit", str(junit), "--sarif", str(sarif))
    assert apply_gates(arguments, analyses=[analysis_with(write, 5, 95)]) == 1
    assert ElementTree.parse(junit).getroot().get("failures") == "1"
    assert len(json.loads(sarif.read_text())["runs"][0]["results"]) == 1


def test_an_input_is_never_overwritten(write: Write, tmp_path: Path) -> None:
    path = tmp_path / "results_x.jsonl"
    told = analysis_with(write, 5, 95)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is an input"):
        apply_gates(given("--junit", str(path)), analyses=[told], inputs=[str(path)])
    assert path.read_bytes() == before


def test_a_file_that_cannot_be_written_is_a_usage_error_after_the_sentences(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = given(*gates("asr > 0.01"), "--sarif", str(tmp_path / "no" / "gates.sarif"))
    with pytest.raises(UsageError, match="cannot be written"):
        apply_gates(arguments, analyses=[analysis_with(write, 5, 95)])
    assert "gate asr > 0.01: failed" in capsys.readouterr().err


# -- the summary of a job ---------------------------------------------------------------------------------------


def test_a_summary_is_added_to_that_of_the_job(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# Before\n", encoding="utf-8")
    monkeypatch.setenv(SUMMARY_VARIABLE, str(summary))
    told = analysis_with(write, 5, 95)
    apply_gates(given(*gates("asr > 0.01", "errors > 0.1")), analyses=[told])
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("# Before\n")
    assert "1 of 2 gates blocks." in text
    assert "| `asr > 0.01` | failed |" in text
    assert "| `errors > 0.1` | passed |" in text
    assert "5.0% [2.2, 11.2]" in text
    tables = [token for token in MarkdownIt().enable("table").parse(text) if token.type == "table_open"]
    assert len(tables) == 2


def test_a_summary_of_a_comparison_names_both_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SUMMARY_VARIABLE, str(tmp_path / "summary.md"))
    apply_gates(given(*gates("regression > 0.05"), "--inconclusive", "pass"), comparison=OPEN)
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "The gate passes. 1 inconclusive, which counts as passed." in text
    assert "Comparison, success rate of `new.jsonl`" in text
    assert "`old.jsonl`" in text


def test_without_gates_a_summary_must_be_asked_for(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = analysis_with(write, 5, 95)
    summary = tmp_path / "summary.md"
    assert apply_gates(given("--job-summary"), analyses=[told]) == 0
    assert "$GITHUB_STEP_SUMMARY is not set" in capsys.readouterr().err
    monkeypatch.setenv(SUMMARY_VARIABLE, str(summary))
    assert apply_gates(given("--junit", str(tmp_path / "x.xml")), analyses=[told]) == 0
    assert not summary.exists()
    assert apply_gates(given("--job-summary"), analyses=[told]) == 0
    assert "Results of" in summary.read_text(encoding="utf-8")
    assert "Gates" not in summary.read_text(encoding="utf-8")


@pytest.mark.parametrize("place", ["missing/summary.md", ".", "nul\0byte"])
def test_a_summary_that_cannot_be_written_is_said_and_changes_nothing(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    path = str(tmp_path / place)
    monkeypatch.setattr("os.environ", {SUMMARY_VARIABLE: path})
    assert apply_gates(given(*gates("asr > 0.1")), analyses=[analysis_with(write, 5, 95)]) == 0
    assert f"{visible(path)}: the job summary could not be written: " in capsys.readouterr().err


def test_hostile_values_and_names_stay_inert_in_a_summary(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nasty = "</code><script>x</script> | [a](http://evil.invalid) ` @all \x1b[2J"
    told = replace(analysis_with(write, 5, 95, jailbreak_type=nasty), name=nasty)
    monkeypatch.setenv(SUMMARY_VARIABLE, str(tmp_path / "summary.md"))
    quoted = nasty.replace("\x1b", "\\x1b")
    apply_gates(given(*gates(f'jailbreak_type="{quoted}": asr > 0.01')), analyses=[told])
    tokens = (
        MarkdownIt("commonmark", {"html": True})
        .enable("table")
        .parse((tmp_path / "summary.md").read_text(encoding="utf-8"))
    )
    inline = [child for token in tokens for child in token.children or ()]
    assert not [token for token in tokens if token.type == "html_block"]
    assert {token.type for token in inline} <= {"text", "code_inline"}
    assert len([token for token in inline if "script" in token.content]) == 3


# -- the example of the guide -----------------------------------------------------------------------------------

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "ci.md"
_RUN = re.compile(r"^( *)(?:- )?run: (\|\n(?:(?:\1  .*|)\n)+|.+\n)", re.MULTILINE)


def workflow_of_the_guide() -> str:
    """Return the workflow that installs Faircount by itself; other blocks use the action."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (workflow,) = (block for block in blocks if "pip install" in block and "on: [pull_request]" in block)
    return str(workflow)


def steps_of(workflow: str) -> list[str]:
    """Return what the steps of a workflow run, in order."""
    found = [body.removeprefix("|\n") for _, body in _RUN.findall(workflow)]
    return [textwrap.dedent(body).strip() for body in found]


def test_the_steps_of_the_example_are_found() -> None:
    workflow = workflow_of_the_guide()
    install, demo, analyze, compare = steps_of(workflow)
    assert install == f"pip install tools/faircount-{__version__}-py3-none-any.whl"
    assert demo == "faircount demo"
    assert analyze.startswith("faircount results analyze ")
    assert analyze.endswith("--junit gates.xml --sarif gates.sarif")
    assert compare.startswith("faircount results compare ")


def test_the_commands_of_the_example_run(tmp_path: Path) -> None:
    workflow = workflow_of_the_guide()
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, does in (("faircount", f'exec "{sys.executable}" -m faircount "$@"'), ("pip", "exit 0")):
        (programs / name).write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    folder = tmp_path / "job"
    folder.mkdir()
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        SUMMARY_VARIABLE: str(folder / "summary.md"),
        "PYTHONUTF8": "1",
    }
    for step in steps_of(workflow):
        done = subprocess.run(["sh", "-e", "-c", step], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{step}\n{done.stderr}"
    uploaded = re.findall(r"^ +(?:sarif_file: )?([\w.-]+\.(?:md|xml|sarif))$", workflow, re.MULTILINE)
    assert {"analysis.md", "gates.xml", "gates.sarif"} <= set(uploaded)
    assert all((folder / name).stat().st_size > 100 for name in uploaded)
    summary = (folder / "summary.md").read_text(encoding="utf-8")
    assert "All 3 gates pass." in summary
    assert "`regression > 2%`" in summary


def test_a_regression_names_the_rates_of_the_files_where_pairs_have_others(write: Write, cli: Cli) -> None:
    """Every entry that succeeded in the baseline ends in an error: no pair has a success."""
    old = [standard(n, success=n < 60) for n in range(300)]
    new = [standard(n, success=False, **({"error": "HTTP 503"} if n < 60 else {})) for n in range(300)]
    paths = [write(old, "results_old.jsonl"), write(new, "results_new.jsonl")]
    ran = cli("results", "compare", *paths, "--fail-on", "regression > 2%", "--errors", "ignore")
    assert "from 0.0% to 0.0% (20.0% and 0.0% of all answered entries)" in ran.err + ran.out
    same = cli("results", "compare", paths[0], write(old, "results_same.jsonl"), "--fail-on", "regression > 2%")
    assert "of all answered entries" not in same.err + same.out
