"""The command line as users meet it: exit codes, messages, files, pipes and interruptions."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import pty
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from faircount.app.cli import EXIT_BUG, EXIT_INTERRUPTED, EXIT_SYSTEM
from faircount.app.cli.commands import build_in_full
from faircount.version import __version__
from tests.conftest import ROOT, Cli, Write, encode, interruptible, standard

FAIRCOUNT = [sys.executable, "-m", "faircount"]


def test_version(cli: Cli) -> None:
    assert cli("--version").out == cli("-V").out == f"faircount {__version__}\n"


@pytest.mark.parametrize("words", [(), ("results",), ("judges",)])
def test_a_command_without_its_verb_shows_help(cli: Cli, words: tuple[str, ...]) -> None:
    ran = cli(*words)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == cli(*words, "--help").out


def test_results_may_be_left_out_and_analyze_spelled_both_ways(cli: Cli, write: Write) -> None:
    path = write([standard(1)])
    whole = cli("results", "analyze", path, "--overview").out
    for words in (("analyze",), ("analyse",), ("results", "analyse"), ("-q", "analyze")):
        assert cli(*words, path, "--overview").out == whole
    # No command of `results` is hidden by a noun of the same name.
    assert not {*_commands(build_in_full())["results"].choices} & {
        "run",
        "resume",
        "merge",
        "bench",
        "plan",
        *_commands(build_in_full()),
    }


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse._SubParsersAction[Any]]:
    (nouns,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {
        name: action
        for name, noun in nouns.choices.items()
        for action in noun._actions
        if isinstance(action, argparse._SubParsersAction)
    }


def test_help_of_a_run_shows_the_options_that_matter_and_help_all_the_rest(cli: Cli) -> None:
    short, long = cli("run", "--help").out, cli("run", "--help-all").out

    def options(text: str) -> set[str]:
        return set(re.findall(r"^  (?:-\w(?: \w+)?, )?(--[\w-]+)", text, re.MULTILINE)) - {"--help", "--help-all"}

    assert len(options(short)) == 10
    assert options(short) < options(long) and {"--stop-when", "--shard", "--baseline"} <= options(long)


@pytest.mark.parametrize(
    ("name", "begins"),
    [("x.html", b"<!doctype html>"), ("x.json", b"{"), ("x.md", b"# "), ("x.xlsx", b"PK")],
)
def test_the_name_of_a_file_chooses_its_format(
    cli: Cli, write: Write, tmp_path: Path, name: str, begins: bytes
) -> None:
    path = write([standard(1), standard(2, success=True)])
    for command in ("analyze", "check", "compare"):
        files = [path, write([standard(1), standard(2)], "results_y.jsonl")] if command == "compare" else [path]
        place = tmp_path / command / name
        place.parent.mkdir()
        ran = cli("results", command, *files, "-o", str(place))
        assert ran.code == 0, ran.err
        assert place.read_bytes().lower().startswith(begins.lower())


def test_any_other_name_gets_what_the_console_shows(cli: Cli, write: Write, tmp_path: Path) -> None:
    path, place = write([standard(1)]), tmp_path / "x.txt"
    assert cli("results", "analyze", path, "-o", str(place)).code == 0
    assert place.read_text(encoding="utf-8") == cli("results", "analyze", path).out


def test_a_workbook_of_a_report_has_its_analysis_and_its_findings(cli: Cli, write: Write, tmp_path: Path) -> None:
    place = tmp_path / "report.xlsx"
    assert cli("analyze", write([standard(1), standard(2, success=True, error="x")]), "-o", str(place)).code == 0
    book = openpyxl.load_workbook(place)
    assert book.sheetnames == ["Analysis", "Findings"]
    values = [cell.value for row in book["Analysis"].iter_rows() for cell in row]
    assert "Successful attacks" in values and 0.5 in values


def terminal(words: list[str], typed: str, until: str, **environment: str) -> str:
    """Run a program in a terminal, type something, and return what it shows until a text is seen."""
    pid, screen = pty.fork()
    if pid == 0:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        os.execvpe(words[0], words, {**os.environ, "PATH": path, "TERM": "xterm", "PS1": "$ ", **environment})
    shown, end = "", time.monotonic() + 30
    os.write(screen, typed.encode())
    try:
        while until not in shown and time.monotonic() < end:
            if select.select([screen], [], [], 0.2)[0]:
                shown += os.read(screen, 65536).decode("utf-8", "replace")
    except OSError:
        pass  # The program has ended.
    finally:
        os.close(screen)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return shown


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [("completion z\t", "completion zsh"), ("results comp\t", "results compare"), ("run --max-co\t", "run --max-cost")],
)
def test_bash_completes_commands_and_options(typed: str, completed: str) -> None:
    if not Path(sys.executable).with_name("faircount").exists():
        pytest.skip("the program is not installed beside this interpreter")
    shell = ["bash", "--norc", "--noprofile", "-i"]
    set_up = 'eval "$(faircount completion bash)"\n'
    shown = terminal(shell, f"{set_up}faircount {typed}", f"faircount {completed}", TERM="dumb")
    assert f"faircount {completed}" in shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_every_shell(cli: Cli, shell: str) -> None:
    ran = cli("completion", shell)
    assert ran.code == 0 and "faircount" in ran.out
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=ran.out, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(("environment", "red"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_errors_are_red_on_a_terminal(environment: dict[str, str], red: bool) -> None:
    for words in (["results", "analyze", "missing.jsonl"], ["nonsense"]):
        shown = terminal([*FAIRCOUNT, *words], "", "\n", **environment)
        assert ("\x1b[1;31mfaircount:\x1b[0m " in shown) is red
        assert "no such" in shown


@pytest.mark.parametrize(
    "words", [["--help"], ["results", "--help"], ["results", "analyze", "--help"], ["demo", "--help"]]
)
def test_help_ends_with_the_exit_codes(cli: Cli, words: list[str]) -> None:
    ran = cli(*words)
    assert ran.code == 0
    assert "exit codes: 0 success" in ran.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nonsense"], "nonsense: no such command; available: results, run,"),
        (["anlyze"], "anlyze: no such command (did you mean analyze?)"),
        (["results", "exctract"], "exctract: no such command (did you mean extract?)"),
        (["results", "analyze", "x", "-o", "x.html", "--output-format", "json"], "-o x.html implies html, but"),
        (["results", "analyze", "x", "--output-format", "xlsx"], "--output-format xlsx needs -o FILE"),
        (["results", "analyze", "--overvew", "x"], "--overvew (did you mean --overview?)"),
        (["results", "analyze", "--o", "x"], "ambiguous option: --o could match --overview, --output-format, --output"),
        (["results", "analyze", "x", "--level", "high"], "invalid float value: 'high'"),
        (["results", "analyze", "x", "--definition", "rebel"], "invalid choice: 'rebel'"),
        (["results", "analyze"], "no result file given"),
        (["results", "analyze", "-", "-"], "only once"),
        (["results", "analyze", "x\x1b[31m", "--sort", "\x1b[31m"], "invalid choice: '\\x1b[31m'"),
    ],
)
def test_wrong_words_are_answered_in_one_line_with_exit_code_2(cli: Cli, words: list[str], says: str) -> None:
    ran = cli(*words)
    assert ran.code == 2
    assert says.replace("\\x1b", "x1b") in ran.err.replace("\\x1b", "x1b")
    assert ran.err.count("\n") == 1
    assert "\x1b" not in ran.err
    assert ran.out == ""


def test_a_missing_file_is_exit_code_3_and_one_sentence(cli: Cli) -> None:
    ran = cli("results", "analyze", "no\x1b]0;pe.jsonl")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == "faircount: no\\x1b]0;pe.jsonl: no such file\n"


def test_an_unreadable_file_is_exit_code_3(cli: Cli, write: Write) -> None:
    path = write([standard(1)])
    Path(path).chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    ran = cli("results", "analyze", path)
    assert ran.code == 3
    assert "cannot be read: Permission denied" in ran.err


def test_bad_lines_are_a_finding_or_exit_code_3_with_strict(cli: Cli, write: Write) -> None:
    path = write([standard(1), "torn {"])
    relaxed, strict = cli("results", "analyze", path), cli("results", "analyze", path, "--strict")
    assert (relaxed.code, strict.code) == (0, 3)
    assert "F001" in relaxed.out and "\n    at line 2\n" in relaxed.out
    (told,) = json.loads(cli("results", "analyze", path, "--output-format", "json").out)["analyses"][0]["findings"]
    assert (told["code"], told["where"]) == ("F001", [f"{path}:2"])
    assert strict.out == relaxed.out
    assert "--strict" in strict.err


def test_strict_minds_only_damage(cli: Cli, write: Write) -> None:
    assert cli("results", "analyze", write([standard(1, success="yes")]), "--strict").code == 0


def test_no_good_line_is_exit_code_3(cli: Cli, write: Write) -> None:
    ran = cli("results", "analyze", write(["[]"]))
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.count("\n") == 1
    assert "not a JSON object but a list" in ran.err


def test_a_hopeless_file_among_good_ones_is_told_and_exit_code_3(cli: Cli, write: Write) -> None:
    good, bad = write([standard(1)], "good.jsonl"), write(["[]"], "bad.jsonl")
    ran = cli("results", "analyze", good, bad)
    assert ran.code == 3
    assert "good.jsonl" in ran.out
    assert "bad.jsonl: cannot read its only line" in ran.err


def test_an_empty_file_says_so_and_is_fine(cli: Cli, write: Write) -> None:
    ran = cli("results", "analyze", write([]))
    assert ran.code == 0
    assert "without entries" in ran.out


def test_false_positive_checks_need_exactly_one_result_file(cli: Cli, write: Write) -> None:
    paths = [write([standard(i)], f"{i}.jsonl") for i in range(3)]
    ran = cli("results", "analyze", paths[0], paths[1], "--false-positive-checks", paths[2])
    assert (ran.code, ran.out) == (2, "")


def test_a_missing_benign_file_is_noticed_before_the_work(cli: Cli, write: Write) -> None:
    ran = cli("results", "analyze", write([standard(1)]), "--false-positive-checks", "nope.jsonl")
    assert (ran.code, ran.out) == (3, "")
    assert "nope.jsonl: no such file" in ran.err


def test_inputs_keep_the_order_of_the_command_line(cli: Cli, write: Write) -> None:
    paths = {name: write([standard(name)], f"{name}.jsonl") for name in "abcd"}
    write([standard("f")], "folder/results_f.jsonl")
    folder = str(Path(paths["a"]).parent / "folder")
    words = [
        "--result-file",
        paths["d"],
        paths["b"],
        "--result-folder",
        folder,
        "--results-file",
        paths["a"],
        paths["c"],
    ]
    ran = cli("results", "analyze", *words, "--output-format", "json")
    names = [Path(analysis["name"]).stem for analysis in json.loads(ran.out)["analyses"]]
    assert names == ["d", "b", "results_f", "a", "c"]


def test_output_goes_to_a_file_whole(cli: Cli, write: Write, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("old", encoding="utf-8")
    ran = cli("results", "analyze", write([standard(1)]), "--output-format", "json", "-o", str(target))
    assert (ran.code, ran.out) == (0, "")
    assert json.loads(target.read_text(encoding="utf-8"))["kind"] == "analysis"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("place", ["nowhere/out.json", "."])
def test_a_place_that_cannot_be_written_is_a_usage_error(cli: Cli, write: Write, tmp_path: Path, place: str) -> None:
    ran = cli("results", "analyze", write([standard(1)]), "-o", str(tmp_path / place))
    assert ran.code == 2
    assert ran.err.count("\n") == 1


def test_an_input_is_never_overwritten(cli: Cli, write: Write) -> None:
    path = write([standard(1)])
    before = Path(path).read_bytes()
    ran = cli("results", "analyze", path, "-o", path)
    assert ran.code == 2
    assert Path(path).read_bytes() == before


def test_no_named_file_is_ever_overwritten(cli: Cli, write: Write) -> None:
    attacks, benign = write([standard(1)], "a.jsonl"), write([standard(2)], "b.jsonl")
    copy = write([standard(1)], "copy.jsonl")
    for words in ([attacks, "--false-positive-checks", benign, "-o", benign], [attacks, copy, "-o", copy]):
        assert cli("results", "analyze", *words).code == 2
    assert Path(benign).read_bytes() == encode([standard(2)])
    assert Path(copy).read_bytes() == encode([standard(1)])


@pytest.mark.parametrize(
    ("name", "says"),
    [("*.jsonl", "matches 2 files"), ("a.jsonl", "is the result file itself"), ("-", "is the result file itself")],
)
def test_the_benign_file_is_one_other_file(cli: Cli, write: Write, name: str, says: str) -> None:
    attacks, _ = write([standard(1)], "a.jsonl"), write([standard(2)], "b.jsonl")
    benign = name if name == "-" else str(Path(attacks).parent / name)
    ran = cli("results", "analyze", "-" if name == "-" else attacks, "--false-positive-checks", benign)
    assert ran.code == 2
    assert says in ran.err


def test_damage_in_the_benign_file_counts_for_strict_under_every_definition(cli: Cli, write: Write) -> None:
    words = [
        write([standard(1)], "a.jsonl"),
        "--false-positive-checks",
        write([standard(1), "torn{"], "b.jsonl"),
        "--strict",
    ]
    assert cli("results", "analyze", *words).code == 3
    assert cli("results", "analyze", *words, "--definition", "spikee").code == 3


@pytest.mark.parametrize("flag", [("--guardrail-success", "detected"), ("--block-signal", "raised")])
def test_spikees_definition_takes_no_flags_of_ours(cli: Cli, write: Write, flag: tuple[str, str]) -> None:
    ran = cli("results", "analyze", write([standard(1)]), "--definition", "spikee", *flag)
    assert ran.code == 2
    assert "exclude each other" in ran.err


def test_a_bug_is_named_as_one(cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("surprise\x1b[31m")

    monkeypatch.setattr("faircount.analysis.analyze.analyze_files", broken)
    ran = cli("results", "analyze", write([standard(1)]))
    assert ran.code == EXIT_BUG
    assert "internal error, please report it" in ran.err
    assert "\x1b" not in ran.err
    monkeypatch.setenv("FAIRCOUNT_DEBUG", "1")
    with pytest.raises(RuntimeError):
        cli("results", "analyze", write([standard(1)]))


def test_an_interruption_is_exit_code_130(cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("faircount.analysis.analyze.analyze_files", interrupted)
    ran = cli("results", "analyze", write([standard(1)]))
    assert (ran.code, ran.err) == (EXIT_INTERRUPTED, "faircount: interrupted\n")


# -- in a process of its own ------------------------------------------------------------------------------------


def test_results_come_from_a_pipe_packed_or_not() -> None:
    data = encode([standard(1, success=True), standard(2)])
    for piped in (data, gzip.compress(data)):
        done = subprocess.run(
            [*FAIRCOUNT, "results", "analyze", "-", "--output-format", "json"], input=piped, capture_output=True
        )
        assert done.returncode == 0
        assert json.loads(done.stdout)["analyses"][0]["entries"]["total"] == 2


def test_a_reader_that_closes_early_is_no_error(write: Write) -> None:
    path = write([standard(i, plugin=f"p{i}") for i in range(3000)])
    process = subprocess.Popen(
        [*FAIRCOUNT, "results", "analyze", path, "--output-format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


def test_ctrl_c_while_reading_ends_at_once_and_leaves_no_file(tmp_path: Path) -> None:
    fifo, target = tmp_path / "results_slow.jsonl", tmp_path / "out.txt"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [*FAIRCOUNT, "results", "analyze", str(fifo), "-o", str(target)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=interruptible,
    )
    with fifo.open("wb", buffering=0) as writer:
        writer.write(encode([standard(1)]))
        time.sleep(0.7)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=5) == EXIT_INTERRUPTED
    assert process.stdout is not None and process.stderr is not None
    assert process.stderr.read() == b"faircount: interrupted\n"
    process.stdout.close()
    process.stderr.close()
    assert not target.exists()


def on_terminal(words: list[str], **environment: str) -> bytes:
    """Run a command on a real pseudo-terminal and return what reached it."""
    master, slave = pty.openpty()
    variables = {**os.environ, "TERM": "xterm", **environment}
    variables.pop("NO_COLOR", None) if "NO_COLOR" not in environment else None
    process = subprocess.Popen([*FAIRCOUNT, *words], stdout=slave, stderr=slave, env=variables)
    os.close(slave)
    received = b""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:
            break
        if not chunk:
            break
        received += chunk
    os.close(master)
    process.wait()
    return received


def test_a_terminal_gets_colour_and_no_color_is_respected(write: Write) -> None:
    path = write([standard(1, success="yes")])
    assert b"\x1b[1" in on_terminal(["results", "analyze", path])
    assert b"\x1b" not in on_terminal(["results", "analyze", path], NO_COLOR="1")


def test_hostile_records_do_not_reach_a_terminal(write: Write) -> None:
    path = write(
        [standard(i, success=i == 1, plugin=f"\x1b]0;owned{i}\x07\u202e") for i in range(2)], "results_\x1b[2Jx.jsonl"
    )
    for words in (["results", "analyze", path], ["results", "analyze", path, "--output-format", "json"]):
        received = on_terminal(words, NO_COLOR="1", COLUMNS="90")
        assert b"\x1b" not in received
        assert b"\x07" not in received
        assert "\u202e".encode() not in received


# -- what a record, or the reader of a pipe, cannot do ----------------------------------------------------------

_OBEYED = re.compile(r"(?m)^\s*::|##\[|##vso\[", re.IGNORECASE)
_COMMANDS = ("::add-mask::0", "\u3000::stop-commands::x", "##vso[task.complete result=Succeeded;]", "a ##[error]b")


@pytest.mark.parametrize("output_format", ["console", "markdown", "json"])
@pytest.mark.parametrize("columns", ["40", "80", "100"])
def test_no_text_of_a_record_is_a_command_to_the_runner_of_a_ci_job(
    cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch, output_format: str, columns: str
) -> None:
    rows = [
        standard(
            number,
            jailbreak_type=command,
            judge_name=f"x\n  {command}",
            input="words " * (number + 5) + command,
            response=f"{'word ' * number}{command}\n{command}",
            success=number % 2 == 0,
        )
        for number, command in enumerate(_COMMANDS * 10)
    ]
    rows += [standard(100 + number, error=f"{c} {c}", success=False) for number, c in enumerate(_COMMANDS)]
    monkeypatch.setenv("COLUMNS", columns)
    evidence = [] if output_format == "json" else ["--evidence", "successes=20"]
    ran = cli("results", "analyze", write(rows), "--output-format", output_format, *evidence)
    assert ran.code == 0 and "add-mask" in ran.out
    assert not _OBEYED.search(ran.out) and not _OBEYED.search(ran.err)
    if output_format == "json":
        assert "##vso[" in str(json.loads(ran.out))


def test_neither_is_a_file_name(cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    write([standard()], "::error::x.jsonl")
    page = cli("results", "analyze", "::error::x.jsonl", "--output-format", "html")
    missing = cli("results", "analyze", "::error::gone\n  ::error::y")
    assert page.code == 0 and missing.code == 3
    assert not _OBEYED.search(page.out + page.err) and not _OBEYED.search(missing.err)


def test_a_record_cannot_write_lines_of_its_own_to_stderr(cli: Cli, write: Write, tmp_path: Path) -> None:
    forged = "x\n  faircount: all gates met"
    path = write([standard(judge_name=forged, judge_args=forged)])
    ran = cli("results", "rejudge", path, "--rejudged", str(tmp_path / "z"), "--store", str(tmp_path / "s"))
    assert ran.code == 3 or ran.code == 2
    assert len(ran.err.splitlines()) == 1 and r"x\n  faircount" in ran.err


def test_a_query_is_shown_with_a_mark_under_the_mistake(cli: Cli, write: Write) -> None:
    ran = cli("results", "analyze", write([standard()]), "--where", "success = = 1")
    assert ran.code == 2
    assert [line.strip() for line in ran.err.splitlines()][2] == "^"


def _unread(*words: str, both: bool = False) -> int:
    """Run a command whose output nobody reads, and return its exit code."""
    read, write_end = os.pipe()
    os.close(read)
    err = write_end if both else subprocess.DEVNULL
    try:
        return subprocess.run([*FAIRCOUNT, *words], stdout=write_end, stderr=err, timeout=60).returncode
    finally:
        os.close(write_end)


@pytest.mark.parametrize("both", [False, True])
def test_the_exit_code_does_not_depend_on_who_reads(write: Write, both: bool) -> None:
    good = write([standard(number, success=True) for number in range(30)], "good.jsonl")
    many = write([standard(n, jailbreak_type=f"type {n}") for n in range(3000)], "many.jsonl")
    bad = write([standard(), "{broken"], "bad.jsonl")
    assert _unread("results", "analyze", good, both=both) == 0
    assert _unread("results", "analyze", good, "--fail-on", "asr > 0.01", both=both) == 1
    assert _unread("results", "analyze", many, "--fail-on", "asr < 0.9", "--output-format", "json", both=both) == 1
    assert _unread("results", "analyze", bad, "--strict", both=both) == 3
    assert _unread("results", "check", bad, both=both) == 1
    assert _unread("results", "nothing", both=both) == 2


def _code(script: str, *words: str) -> tuple[int, str]:
    command = f"{sys.executable} -m faircount {' '.join(words)} {script}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_said_to_be_full(write: Write) -> None:
    code, err = _code("> /dev/full", "results", "analyze", write([standard()]))
    assert code == EXIT_SYSTEM and "No space left on device" in err and len(err.splitlines()) == 1


def test_closed_streams_are_no_bug(write: Write) -> None:
    path = write([standard()])
    assert _code(">&-", "results", "analyze", path)[0] == 0
    assert _code(">&- 2>&- <&-", "results", "analyze", path, "--fail-on", "'asr < 0.9'")[0] == 1
    code, err = _code("<&-", "results", "analyze", "-")
    assert code == 3 and "standard input is closed" in err
    assert _code("<&-", "judges", "try", "refusal", "-")[0] == EXIT_SYSTEM


def test_names_that_are_too_long_are_no_bug(cli: Cli, write: Write) -> None:
    for words in (["a" * 300], [write([standard()]), "-o", "b" * 300]):
        ran = cli("results", "analyze", *words)
        assert ran.code in (2, 3, EXIT_SYSTEM) and "long" in ran.err and "bug" not in ran.err


def test_a_deleted_working_folder_is_no_bug(write: Write) -> None:
    path = write([standard()])
    script = f"mkdir {path}.d && cd {path}.d && rmdir {path}.d && {sys.executable} -m faircount results analyze {path}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, EXIT_SYSTEM) and "internal error" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_to_be_terminated_ends_the_programs_of_a_target(tmp_path: Path, number: signal.Signals) -> None:
    bot = tmp_path / "bot.sh"
    bot.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nexec sleep 60\n")
    bot.chmod(0o755)
    (tmp_path / "ds.jsonl").write_bytes(encode([{"id": n, "text": "x", "judge_name": "canary"} for n in range(3)]))
    words = ["run", "ds.jsonl", "--target", f'command(argv=["{bot}"])', "--journal", "j.jsonl", "--judge", "refusal"]
    with subprocess.Popen(
        [*FAIRCOUNT, *words],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # which nohup would have them ignore
    ) as running:
        until = time.monotonic() + 30
        while not (tmp_path / "pids").exists() and running.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.3)
        running.send_signal(number)
        _, err = running.communicate(timeout=30)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert running.returncode == EXIT_INTERRUPTED, err
    assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_to_be_terminated_is_an_interrupt_for_every_command(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    words = [*FAIRCOUNT, "results", "analyze", str(tmp_path / "pipe.jsonl")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
        time.sleep(1.5)
        running.terminate()
        _, err = running.communicate(timeout=30)
    assert (running.returncode, err) == (EXIT_INTERRUPTED, "faircount: interrupted\n")


# -- odd surroundings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", ["9" * 5000, "99999999", "0", "-3", "x", ""])
def test_a_width_that_is_none_is_not_used(
    cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    path = write([standard(1)])
    expected = cli("results", "analyze", path).out
    monkeypatch.setenv("COLUMNS", columns)
    ran = cli("results", "analyze", path)
    assert (ran.code, ran.out) == (0, expected)


def test_standard_input_that_is_closed_is_said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    ran = cli("results", "analyze", "-")
    assert ran.code == 3
    assert "standard input is closed" in ran.err


def test_deep_json_is_no_judge_quality(cli: Cli, write: Write, tmp_path: Path) -> None:
    for content in ('{"a":' * 20_000 + "1" + "}" * 20_000, '{"results":' + "[" * 20_000 + "]" * 20_000 + "}"):
        deep = tmp_path / "deep.json"
        deep.write_text(content)
        ran = cli("results", "analyze", write([standard(1)]), "--judge-quality", str(deep))
        assert ran.code == 3, ran.err
        assert "nested too deeply" in ran.err


@pytest.mark.parametrize(
    ("words", "content", "says"),
    [
        (("bench", "--plan"), "a = " + "9" * 5000, "a number has too many digits"),
        (
            ("bench", "--plan"),
            '[datasets.d]\npath = "d"\n[targets.t]\n[[leave_out]]\ntarget = {}\n',
            "no such target: {}",
        ),
        (("judges", "try", "refusal", "x", "--config"), "[prices.m]\nprompt = 1" + "0" * 400, "not negative"),
    ],
)
def test_odd_toml_is_refused_in_words(
    cli: Cli, tmp_path: Path, words: tuple[str, ...], content: str, says: str
) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(content + "\n")
    ran = cli(*words, str(file))
    assert ran.code == 2, ran.err
    assert says in ran.err


def test_a_rate_next_to_nothing_and_a_name_of_nothing_are_no_crash(cli: Cli, tmp_path: Path) -> None:
    labels = str(ROOT / "docs" / "samples" / "labelled.csv")
    ran = cli("judges", "evaluate", "--labels", labels, "-o", "", "--", "refusal")
    assert ran.code == 2
    assert "an empty name is no file" in ran.err
    out = tmp_path / "s.json"
    ran = cli("judges", "evaluate", "--labels", labels, "-o", str(out), "--false-positive-rate", "1e-320", "refusal")
    assert ran.code == 0, ran.err
    assert out.is_file()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_a_file_that_is_replaced_keeps_its_rights(cli: Cli, write: Write, tmp_path: Path, mode: int) -> None:
    out = tmp_path / "report.json"
    words = ("results", "analyze", write([standard(1)]), "--output-format", "json", "-o", str(out))
    assert cli(*words).code == 0
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(out.stat().st_mode) == 0o666 & ~mask
    out.chmod(mode)
    assert cli(*words).code == 0
    assert stat.S_IMODE(out.stat().st_mode) == mode
