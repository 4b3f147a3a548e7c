"""`results check`: the doubts about files and nothing else, with exit codes that a script can go by."""

from __future__ import annotations

import gzip
import io
import json
import sys
from importlib import resources
from io import FileIO
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from faircount import InputError, UsageError, analyze
from faircount.analysis import CheckOptions, Checks, check_files, findings_of, summary, verdict
from faircount.analysis import check as checking
from faircount.analysis.check import as_report
from faircount.app.cli import main
from faircount.core import REGISTER, Severity
from faircount.readers import loading
from faircount.report import console
from tests.conftest import ROOT, Cli, Ran, Write, attack, encode, standard
from tests.report.test_present import harmless, hostile_rows

SCHEMA = json.loads(resources.files("faircount.report").joinpath("schemas", "check-2.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
GUIDE = ROOT / "docs" / "guides" / "look-closer.md"


def check(cli: Cli, *words: str) -> Ran:
    return cli("results", "check", *words)


def document(cli: Cli, *words: str) -> tuple[int, dict[str, Any]]:
    ran = check(cli, *words, "--output-format", "json")
    assert ran.out.isascii()
    read: dict[str, Any] = json.loads(ran.out)
    VALIDATOR.validate(read)
    return ran.code, read


def checks_of(*paths: str, **options: Any) -> Checks:
    return check_files(paths, CheckOptions(**options))


CLEAN: list[Any] = [standard(1), standard(2, success=True)]
TORN: list[Any] = [*CLEAN, "{torn", ""]
DOUBTFUL = [standard(1, success="yes")]


# -- exit codes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "words", "code"),
    [
        (CLEAN, (), 0),
        (CLEAN, ("--warnings", "--strict"), 0),
        (DOUBTFUL, (), 0),
        (DOUBTFUL, ("--warnings",), 1),
        ([standard(1, error="x"), *(standard(n) for n in range(2, 40))], ("--warnings",), 0),
        ([standard(1, error="x")], ("--warnings",), 1),
        (TORN, (), 1),
        (TORN, ("--warnings",), 1),
        (TORN, ("--strict",), 3),
        (["nonsense"], (), 3),
        ([], (), 0),
    ],
)
def test_the_exit_code_says_how_serious_it_is(write: Write, cli: Cli, lines: Any, words: Any, code: int) -> None:
    assert check(cli, write(lines), *words).code == code


def test_a_packed_file_that_ends_too_early_is_serious(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "results_x.jsonl.gz"
    path.write_bytes(gzip.compress(encode([standard(i, response="x" * i) for i in range(500)]))[:-20])
    ran = check(cli, str(path))
    assert ran.code == 1
    assert "error F002" in ran.out


def test_files_that_cannot_be_used_end_with_3_and_the_others_are_checked(write: Write, cli: Cli) -> None:
    good, torn = write(CLEAN, "good.jsonl"), write(TORN, "torn.jsonl")
    hopeless = write(["nonsense"], "hopeless.jsonl")
    code, read = document(cli, "missing.jsonl", torn, hopeless, "*.nothing", good)
    assert code == 3
    assert [item["name"] for item in read["checks"]] == ["missing.jsonl", torn, hopeless, "*.nothing", good]
    assert [item["unusable"] for item in read["checks"]] == [
        "no such file",
        None,
        "cannot read its only line as a spikee result; most often: not JSON (expecting value, at character 1)",
        "no file matches",
        None,
    ]
    assert (read["unusable"], read["serious"]) == (3, 1)


def test_a_file_that_may_not_be_read_does_not_stop_the_others(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    good, locked = write(CLEAN, "good.jsonl"), write(CLEAN, "locked.jsonl")

    def refusing(path: str) -> FileIO:
        if path == locked:
            raise PermissionError(13, "Permission denied")
        return FileIO(path)

    monkeypatch.setattr("faircount.io.files.FileIO", refusing)
    checks = checks_of(good, locked)
    assert [item.unusable for item in checks.checks] == [None, "cannot be read: Permission denied"]


def test_mistakes_of_usage_end_with_2(cli: Cli, write: Write) -> None:
    path = write(CLEAN)
    assert check(cli).code == 2
    assert check(cli, path, "--output-format", "html").code == 2
    assert check(cli, path, "--output-format", "json", "-o", path).code == 2
    assert check(cli, "-", "-").code == 2
    with pytest.raises(UsageError):
        check_files([])


def test_serious_findings_are_those_of_severity_error_as_help_and_guide_say() -> None:
    errors = [code for code, kind in REGISTER.items() if kind.severity is Severity.ERROR]
    assert f"of severity error, which is {' or '.join(errors)};" in GUIDE.read_text("utf-8")


# -- what is told -----------------------------------------------------------------------------------------------


def test_lines_and_the_version_are_told_of_every_file(write: Write, cli: Cli) -> None:
    out = " ".join(check(cli, write(TORN)).out.split())
    assert "4 lines: 2 good, 1 bad, 1 blank; written by spikee 0.2, judging by its fields" in out
    empty = check(cli, write([], "empty.jsonl")).out
    assert "- 0 lines: 0 good, 0 bad, 0 blank\n" in empty
    assert "info F026" in empty


def test_without_findings_there_is_nothing_to_report(write: Write, cli: Cli) -> None:
    out = check(cli, write(CLEAN)).out
    assert "  - nothing to report\n" in out
    assert out.endswith("  - 1 file checked: nothing to report\n")


@pytest.mark.parametrize(
    ("files", "options", "said"),
    [
        ([CLEAN, DOUBTFUL], {}, "2 files checked: 1 warning; nothing serious"),
        ([CLEAN, DOUBTFUL], {"warnings": True}, "2 files checked: 1 warning; serious: F003"),
        ([TORN, DOUBTFUL], {"warnings": True}, "2 files checked: 1 error, 1 warning; serious: F001, F003"),
        ([[standard(1, error="x"), standard(2, error="")]], {}, "1 file checked: 1 warning, 1 info; nothing serious"),
        ([["nonsense"], CLEAN], {}, "2 files checked: 1 file that cannot be used"),
    ],
)
def test_the_last_line_sums_up(write: Write, files: Any, options: Any, said: str) -> None:
    paths = [write(lines, f"{number}.jsonl") for number, lines in enumerate(files)]
    checks = checks_of(*paths, **options)
    assert verdict(checks) == said
    assert console.render(as_report(checks)).endswith(f"  - {said}\n")


def test_the_findings_are_those_of_analyze(write: Write) -> None:
    odd = [
        *hostile_rows(),
        standard("twice", input="one"),
        standard("twice", input="other"),
        standard("copy"),
        standard("copy"),
        attack("orphan"),
        '{"id": 1, "success": NaN}',
        '{"id": "d", "success": true, "success": false}',
    ]
    path = write(odd)
    (analysis,) = analyze(path).analyses
    (checked,) = checks_of(path).checks
    assert checked.findings == analysis.findings
    assert checked.sources == analysis.sources
    assert len(checked.findings) > 8


def test_no_breakdowns_are_made(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "breakdowns", None)
    assert checks_of(write(CLEAN)).findings == ()


def test_files_can_be_checked_together(write: Write, cli: Cli) -> None:
    rows = [standard(i, response_time=i / 7) for i in range(4)]
    first, again = write(rows, "results_a.jsonl"), write([{**r, "success": True} for r in rows], "rejudge_a.jsonl")
    code, apart = document(cli, first, again)
    assert (code, [len(item["findings"]) for item in apart["checks"]]) == (0, [0, 0])
    code, together = document(cli, first, again, "--combine")
    (item,) = together["checks"]
    assert [finding["code"] for finding in item["findings"]] == ["F008", "F009"]
    assert [source["path"] for source in item["sources"]] == [first, again]
    assert "Check of 2 files together" in check(cli, first, again, "--combine").out
    with pytest.raises(InputError):
        checks_of(write(["x"], "b1.jsonl"), write(["y"], "b2.jsonl"), combine=True)


def test_a_file_given_twice_is_found_out(write: Write) -> None:
    path = write(CLEAN)
    (checked,) = checks_of(path, path).checks
    assert [finding.code for finding in checked.findings] == ["F007"]


def test_standard_input_can_be_checked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(encode(TORN))))
    ran = check(cli, "-")
    assert ran.code == 1
    assert "at -:3" in ran.out


def test_the_meaning_of_a_guardrails_true_can_be_told(write: Write) -> None:
    path = write([{"id": i, "success": True, "input": str(i), "response": ""} for i in range(3)])
    assert [finding.code for finding in checks_of(path).findings] == ["F010"]
    assert checks_of(path, guardrail_success="detected").findings == ()


def test_a_cache_that_vanishes_is_done_without(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    from faircount.ledger import engine

    monkeypatch.setattr(loading, "CACHED_FROM_BYTES", 1)
    path = write([standard(i) for i in range(16_100)])
    assert checks_of(path).checks[0].sources[0].lines == 16_100
    asked: list[str] = []

    def failing_once(*arguments: Any) -> Any:
        asked.append("")
        if len(asked) == 1:
            raise engine.module().Error("the files are gone")
        return findings_of(*arguments)

    monkeypatch.setattr(checking, "findings_of", failing_once)
    assert checks_of(path).checks[0].sources[0].lines == 16_100
    assert len(asked) == 2


# -- formats ----------------------------------------------------------------------------------------------------


def test_every_format_says_the_same(write: Write, cli: Cli, tmp_path: Path) -> None:
    path, page = write(TORN), tmp_path / "check.html"
    _, read = document(cli, path)
    assert read["checks"][0]["sources"][0]["bad_lines"] == 1
    assert read["serious_severities"] == ["error"]
    assert document(cli, path, "--warnings")[1]["serious_severities"] == ["error", "warning"]
    shown = check(cli, path, "--output-format", "markdown").out
    assert shown.startswith(f"# Check of `{path}`\n")
    assert "**error F001**" in shown
    assert check(cli, path, "--output-format", "html", "-o", str(page)).code == 1
    assert "F001" in page.read_text("utf-8")


def test_hostile_text_and_names_never_act(write: Write, cli: Cli) -> None:
    path = write([*hostile_rows(), "\x1b[2J{torn"], "results_\x1b[2J\u202e.jsonl")
    missing = "no\x1b]0;such\x07file"
    for form in ("console", "markdown", "json"):
        ran = check(cli, path, missing, "--output-format", form)
        assert ran.code == 3
        assert harmless(ran.out + ran.err)


def test_help_says_what_is_serious(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["results", "check", "--help"])
    assert "severity error are serious" in capsys.readouterr().out


# -- shared files -----------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_hostile_files_are_checked_as_analyze_finds_them(shared: Path, cli: Cli) -> None:
    paths = [str(path) for path in sorted((shared / "hostile").glob("*.jsonl"))]
    code, read = document(cli, *paths)
    by_name = {item["name"]: item for item in read["checks"]}
    result = analyze(*paths)
    for analysis in result.analyses:
        told = [finding["code"] for finding in by_name[analysis.name]["findings"]]
        assert told == [finding.code for finding in analysis.findings]
    assert read["unusable"] == len(result.failures)
    assert code == (3 if result.failures else 1)
    assert harmless(check(cli, *paths).out)


@pytest.mark.shared
def test_golden_files_are_without_serious_doubts(shared: Path) -> None:
    paths = sorted((shared / "golden" / "spikee" / "ws" / "results").glob("*.jsonl"))[:20]
    checks = checks_of(*map(str, paths))
    assert len(checks.checks) >= 1
    assert checks.serious == 0
