"""The promises of SECURITY.md that only a whole process can show: what a result file makes Faircount do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from faircount.ledger import engine
from tests.conftest import ROOT, encode, standard
from tests.runs.run_files import HEADER, attempt, case, entry, report

# A child that runs the commands one after the other, and writes down what its interpreter was asked to do.
WATCHED = """
import json, sys
events, canary = [], sys.argv[1]
def watch(event, given):
    if event.startswith(("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.", "os.exec", "os.spawn",
                         "os.posix_spawn", "os.system", "os.fork", "webbrowser.")):
        events.append([event, repr(given)[:200]])
    elif event in ("open", "compile", "exec", "import", "os.listdir", "os.scandir",
                   "ctypes.dlopen") and canary in repr(given):
        events.append([event, repr(given)[:200]])
sys.addaudithook(watch)
from faircount.app.cli import main
codes = []
for words in json.load(open(sys.argv[2])):
    try:
        codes.append(main(words))
    except SystemExit as stop:
        codes.append(stop.code)
print("\\n" + json.dumps([codes, events]))
"""
FIELDS = (
    *("input", "response", "judge_name", "judge_args", "judge_options", "attack_name", "jailbreak_type", "plugin"),
    *(
        "instruction_type",
        "task_type",
        "document_id",
        "suffix_id",
        "lang",
        "system_message",
        "payload",
        "tool",
        "target",
    ),
    *("injection_pattern", "spotlighting_data_markers", "long_id", "error", "full_prompt", "module", "__reduce__"),
)


def results_of(folder: Path) -> list[str]:
    """Write result files of each kind in which every field names code, a file or a server, and return their paths."""
    code = folder / "canary.py"
    code.write_text(f"open({str(folder / 'ran')!r}, 'w').close()\ndef judge(attempt): return True\n")
    lures = [
        f"{code}:judge",
        str(folder / "canary.csv"),
        f"file://{folder}/canary.html",
        "http://127.0.0.1:9/canary",
        f"__import__('runpy').run_path({str(code)!r})",
        "{{ config.items() }}{% include 'canary' %}${jndi:ldap://127.0.0.1/canary}",
        f"read_csv('{folder}/canary.csv')",
        f"'; COPY (SELECT 1) TO '{folder}/canary.out'; --",
    ]
    rows = [
        standard(
            f"{number}{lure[:20]}", success=bool(number % 2), **{field: lure for field in FIELDS if field != "error"}
        )
        for number, lure in enumerate(lures)
    ]
    rows += [standard(f"e{number}", error=lure, lure=lure) for number, lure in enumerate(lures)]
    (folder / "canary.csv").write_text("secret\n")
    written = {
        "results_a.jsonl": encode(rows),
        "results_b.jsonl": encode([{**row, "success": not row["success"]} for row in rows]),
        "journal.jsonl": encode(
            [
                {**HEADER, "settings": {"target": lures[0], "config": lures[1], "base_url": lures[3]}},
                *(
                    line
                    for lure in lures
                    for line in (case(lure, metrics=[lure], prompt=lure), attempt(lure, metrics=[lure]))
                ),
            ]
        ),
        "report.json": report(*(entry(lure, [lure], "p", tags=[lure]) for lure in lures), model=lures[3]),
    }
    for name, content in written.items():
        (folder / name).write_bytes(content)
    return [str(folder / name) for name in written]


def test_no_command_on_results_executes_connects_or_opens_what_a_file_names(tmp_path: Path) -> None:
    given, out = tmp_path / "given", tmp_path / "out"
    given.mkdir()
    out.mkdir()
    files = results_of(given)
    before = {path: sha256(path.read_bytes()).hexdigest() for path in given.iterdir()}
    one, other, *_ = files
    by = ["--by", "judge_name", "--by", "module"]
    commands: list[list[str]] = [
        *(["analyze", path, *(by if path == one else []), "--evidence", "3"] for path in files),
        *(
            ["analyze", one, "--output-format", kind, "-o", str(out / f"a.{kind}")]
            for kind in ("json", "markdown", "html")
        ),
        *(["check", path] for path in files),
        *(["show", "e0", path] for path in files[:1]),
        *(
            ["export", one, "--to", kind, "-o", str(out / f"e.{kind}")]
            for kind in ("csv", "jsonl", "parquet", "xlsx", "html")
        ),
        ["extract", "--result-file", one, "--category", "success", "-o", str(out / "x.jsonl")],
        ["convert-to-excel", "--result-file", one, "-o", str(out / "x.xlsx")],
        ["compare", one, other],
        ["rejudge", one, "--rejudged", str(out / "again.jsonl"), "--store", str(out / "store")],
    ]
    listed = tmp_path / "commands.json"
    listed.write_text(json.dumps([["results", *words] for words in commands]))
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, "canary", str(listed)], capture_output=True, text=True, cwd=out, timeout=120
    )
    exits, events = json.loads(done.stdout.splitlines()[-1])
    failed = [(words, code) for words, code in zip(commands, exits, strict=True) if code not in (0, 1)]
    # Nothing may judge these rows but what they name, which is not done.
    assert [words[0] for words, _ in failed] == ["rejudge"], (failed, done.stderr)
    assert events == []
    assert not (given / "ran").exists()
    assert {path: sha256(path.read_bytes()).hexdigest() for path in given.iterdir()} == before


def test_every_promise_names_tests_that_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    promises = re.findall(r"^(\d+)\. \*\*", text, re.M)
    rows = re.findall(r"^\| ([\d, ]+) \| (.*) \|$", text, re.M)
    assert [number for named, _ in rows for number in named.split(", ")] == promises
    for _, named in rows:
        files = re.findall(r"`((?:tests|bench)/[\w/]+\.py)`", named)
        assert files
        assert all((ROOT / file).is_file() for file in files), named


def test_the_watch_notices(tmp_path: Path) -> None:
    """Without this, the test above could be blind."""
    (tmp_path / "canary.py").write_text("import socket, subprocess\n")
    tried = (
        f"import runpy; runpy.run_path({str(tmp_path / 'canary.py')!r}); import socket, subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', ''])\n"
        "try: socket.create_connection(('127.0.0.1', 9), 1)\nexcept OSError: pass\n"
    )
    script = WATCHED.replace("from faircount.app.cli import main", tried + "main = len")
    (tmp_path / "none.json").write_text("[]")
    done = subprocess.run(
        [sys.executable, "-c", script, "canary", str(tmp_path / "none.json")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    _, events = json.loads(done.stdout.splitlines()[-1])
    assert {"open", "subprocess.Popen", "socket.connect"} <= {event for event, _ in events}


@pytest.mark.parametrize(
    "query", ["SELECT * FROM read_csv('{}')", "COPY (SELECT 1) TO '{}.out'", "ATTACH '{}.db'", "INSTALL httpfs"]
)
def test_the_database_opens_no_file_and_loads_no_extension(tmp_path: Path, query: str) -> None:
    file = tmp_path / "canary.csv"
    file.write_text("a\n1\n")
    connection: Any = engine.connect()
    with pytest.raises(engine.module().Error, match=r"(?i)disabled|permission|not allowed|cannot"):
        connection.execute(query.format(file))
    with pytest.raises(engine.module().Error):
        connection.execute("SET enable_external_access = true")
    assert list(tmp_path.iterdir()) == [file]
