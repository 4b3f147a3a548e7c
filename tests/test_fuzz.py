"""Damaged files of every kind: nothing crashes, nothing hangs, nothing hidden is shown, and what is whole still counts.

A failure names the line that writes its file again, such as `python -m tests.fuzzing spikee 17 -o results_x.jsonl`.
The long test is part of `make test-slow`; the short one has a few seeds of each kind, some of which once found a fault.
"""

from __future__ import annotations

import ipaddress
import itertools
import json
import random
import signal
import socket
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import fuzzing
from tests.conftest import Ran
from tests.fuzzing import CLEAN, KINDS, Fuzzed, ran

CODES = {0, 1, 2, 3, 4, 74}
"""Those of docs/reference/exit-codes.md, without 70, a bug, and 130, an interrupt."""
LONGEST = 300
"""Seconds after which a command hangs."""
INPUTS: Mapping[str, int] = {
    "spikee": 58_000,
    "rejudged": 3_000,
    "journal-attacks": 14_000,
    "journal-tests": 3_000,
    "resumed": 600,
    "reports": 2_000,
    "garak": 4_000,
    "labels-csv": 6_000,
    "labels-jsonl": 4_000,
    "labels-json": 300,
    "labels-xlsx": 1_500,
    "predictions": 3_000,
    "summaries": 400,
    "datasets": 4_000,
    "datasets-other": 1_000,
    "toml-bench": 300,
    "toml-config": 400,
    "toml-http": 400,
    "json-api": 100,
}
"""How many mutated records or documents of each kind the long test tries at least, by seeds from 0 on."""
LEAST = 100_000
PARTS = {"spikee": 6, "journal-attacks": 2, "resumed": 3}
"""In how many tests those of one kind are tried, so that they run side by side."""
QUICK: Mapping[str, Sequence[int]] = dict.fromkeys(KINDS, (1,)) | {
    "spikee": (5,),
    "rejudged": (6,),
    # These once found a fault.
    "journal-attacks": (9,),
    "journal-tests": (5, 11),
    "predictions": (9,),
    "resumed": (1, 105),
}
"""Seeds that are tried with every change."""


class Hung(BaseException):
    """A command took too long; not an Exception, because the command line catches those."""


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Hung

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stay in a folder of its own, with nothing to reach but this machine."""
    connect = socket.socket.connect

    def only_here(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not ipaddress.ip_address(address[0]).is_loopback:
            raise ConnectionRefusedError(f"{address}: the tests reach nothing but this machine")
        connect(self, address)

    def no_names(*_: object, **__: object) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "the tests look up no names")

    monkeypatch.setattr(socket.socket, "connect", only_here)
    monkeypatch.setattr(socket, "getaddrinfo", no_names)
    monkeypatch.chdir(tmp_path)
    fuzzing.set_up(tmp_path)
    rows = "".join(json.dumps(row) + "\n" for row in fuzzing.DATASET[:3])
    Path("small.jsonl").write_text(rows, "utf-8")
    Path("clean.jsonl").write_text("".join(json.dumps(row) + "\n" for row in fuzzing.clean_rows()), "utf-8")


class Case:
    """One file, and the commands that are run over it."""

    def __init__(self, fuzzed: Fuzzed) -> None:
        self.fuzzed, self.path = fuzzed, fuzzed.name
        self.lots = random.Random(f"commands {fuzzed.kind} {fuzzed.seed}")
        Path(self.path).write_bytes(fuzzed.content)

    def fail(self, why: str) -> None:
        pytest.fail(f"{why}\nto write the file: {self.fuzzed}", pytrace=False)

    def check(self, holds: bool, why: str) -> None:
        if not holds:
            self.fail(why)

    def run(self, *words: str, changes: bool = False) -> Ran:
        """Run a command, and check what holds for every one."""
        said = f"faircount {' '.join(words)}"
        try:
            with _time_limit():
                found = ran(*words)
        except Hung:
            self.fail(f"{said}: no end within {LONGEST} seconds")
        self.check(found.code in CODES, f"{said}: exit code {found.code}: {found.err[-1500:]}")
        self.check("Traceback" not in found.err, f"{said}: a traceback: {found.err[-1500:]}")
        for stream in (found.out, found.err):
            hidden = sorted({c for c in stream if c not in "\n\u200e" and unicodedata.category(c) in _HIDDEN})
            self.check(not hidden, f"{said}: shows {[hex(ord(c)) for c in hidden]}")
        if found.code:
            self.check(bool(found.err.strip() or found.out.strip()), f"{said}: exit code {found.code} without a word")
        if not changes:
            self.check(Path(self.path).read_bytes() == self.fuzzed.content, f"{said}: the file was changed")
        return found

    def document(self, *words: str) -> Any:
        """Run a command and return the JSON document that it shows, or None if it shows none."""
        found = self.run(*words, "--output-format", "json")
        if not found.out:
            self.check(found.code != 0, f"faircount {' '.join(words)}: no answer, and no error")
            return None
        self.check(found.out.isascii(), f"faircount {' '.join(words)}: JSON that is not ASCII")
        return json.loads(found.out, parse_constant=lambda name: self.fail(f"{' '.join(words)}: {name} in JSON"))


_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
OUTCOMES = ("success", "failure", "error", "guardrail", "unjudged")


# -- results ----------------------------------------------------------------------------------------------------


def _analysis(case: Case, *words: str) -> Any:
    document = case.document("results", "analyze", *words)
    if document is None or not document["analyses"]:
        return None
    (found,) = document["analyses"]
    entries = found["entries"]
    case.check(sum(entries[one] for one in OUTCOMES) == entries["total"], f"{entries}: the outcomes do not add up")
    for field, groups in found["breakdowns"].items():
        shown = sum(group["entries"]["total"] for group in groups)
        case.check(shown == entries["total"], f"{field}: {shown} entries in its groups, of {entries['total']}")
        for group in groups:
            parts = sum(group["entries"][one] for one in OUTCOMES)
            case.check(parts == group["entries"]["total"], f"{field}: the outcomes of a group do not add up: {group}")
    return found


def _lines_add_up(case: Case, found: Any) -> None:
    (source,) = found["sources"]
    content = case.fuzzed.content
    lines = content.count(b"\n") + (not content.endswith(b"\n") and content != b"")
    told = [source[name] for name in ("good_lines", "bad_lines", "blank_lines")]
    case.check(source["lines"] == lines, f"{source['lines']} lines are told, {lines} are in the file")
    case.check(sum(told) == lines, f"good, bad and blank lines are {told}, of {lines}")


def _results(case: Case, where: str, alone: str, *, rows: bool) -> None:
    """Check a file of results: `where` selects the clean records, and `alone` is a file of these."""
    if case.fuzzed.whole:
        found = _analysis(case, case.path, "--where", where)
        case.check(found is not None, "the file is refused as a whole")
        if rows:
            _lines_add_up(case, found)
        expected = json.loads(ran("results", "analyze", alone, "--where", where, "--output-format", "json").out)
        clean = expected["analyses"][0]["entries"]
        assert clean["total"] > 2
        case.check(found["entries"] == clean, f"clean records come to {found['entries']}, alone to {clean}")
    if not case.fuzzed.whole or case.lots.random() < 0.3:
        _analysis(case, case.path)
    words = case.lots.choice(_COMMANDS)
    case.run(*(word.format(file=case.path, alone=alone) for word in words))


_AGAIN = ("--rejudged", "again.jsonl", "--store", "store", "--force", "--workers", "1")
_COMMANDS: Sequence[Sequence[str]] = (
    ("results", "analyze", "{file}", "--evidence", "success=3", "--details"),
    ("results", "analyze", "{file}", "--definition", "spikee", "--output-format", "markdown"),
    ("results", "analyze", "{file}", "-o", "page.html"),
    ("results", "analyze", "{file}", "{alone}", "--combine", "--overview"),
    ("results", "check", "{file}", "--warnings"),
    ("results", "check", "{file}", "--output-format", "json"),
    ("results", "extract", "{file}", "--category", "failure", "-o", "extract.jsonl", "--force"),
    ("results", "extract", "{file}", "--where", "outcome = error", "-o", "extract.jsonl", "--force"),
    ("results", "compare", "{alone}", "{file}"),
    ("results", "compare", "{file}", "{alone}", "--match", "id", "--output-format", "json"),
    ("results", "show", f"{CLEAN}-1", "{file}"),
    ("results", "show", "3", "{file}"),
    ("results", "rejudge", "{file}", *_AGAIN),
    ("results", "rejudge", "{file}", *_AGAIN, "--judge", 'contains(text="no")'),
    ("results", "export", "{file}", "-o", "export.csv", "--force"),
    ("results", "export", "{file}", "-o", "export.jsonl", "--force"),
    ("results", "sample-for-labels", "{file}", "-o", "sample.csv", "--force"),
    ("results", "dataset-comparison", "{file}", "{alone}"),
)  # fmt: skip


def _spikee(case: Case) -> None:
    _results(case, f"plugin = {CLEAN}", "clean.jsonl", rows=True)


def _rejudged(case: Case) -> None:
    _results(case, f"tags = {CLEAN}", _original("rejudged.jsonl"), rows=True)


def _journal(case: Case) -> None:
    """Check a journal; alone, its clean cases are in one of the two that it was made from."""
    name = "attacks" if case.fuzzed.kind == "journal-attacks" else "tests"
    where = f"plugin = {CLEAN}" if name == "attacks" else f"tags = {CLEAN}"
    whole = random.Random(f"{case.fuzzed.kind} {case.fuzzed.seed}").choice((f"{name}.jsonl", f"{name}-stopped.jsonl"))
    _results(case, where, _original(whole), rows=False)


def _reports(case: Case) -> None:
    """Check a report; its clean cases alone are those of the file without the others."""
    alone = "alone.json"
    if case.fuzzed.whole:
        Path(alone).write_bytes(fuzzing.report_alone(case.fuzzed.seed))
    else:
        alone = _original("report.json")
    _results(case, f"tags = {CLEAN}", alone, rows=False)


def _garak(case: Case) -> None:
    Path("clean.report.jsonl").write_text("".join(json.dumps(one) + "\n" for one in fuzzing.clean_garak()), "utf-8")
    _results(case, f"goal = {CLEAN}", "clean.report.jsonl", rows=False)
    case.run("results", "analyze", case.path, "--definition", "garak", "--by", "judge")


def _original(name: str) -> str:
    path = Path(f"original_{name}")
    if not path.exists():
        path.write_bytes(fuzzing.originals()[name])
    return str(path)


def _resumed(case: Case) -> None:
    """Resume a journal: no record of it is lost, and what it comes to can be read."""
    found = case.run("resume", case.path, "--max-calls", "2", "--concurrency", "1", changes=True)
    before, after = case.fuzzed.content, Path(case.path).read_bytes()
    whole = before[: before.rstrip(b"\n").rfind(b"\n") + 1]
    case.check(after.startswith(whole), "resume: records are gone from the journal")
    if found.code in (0, 4):
        found = ran("results", "analyze", case.path, "--overview")
        case.check(found.code == 0, f"what was resumed cannot be analysed: {found.err}")


# -- labels -----------------------------------------------------------------------------------------------------


def _labels(case: Case) -> None:
    words = ("judges", "evaluate", 'contains(text="no")', "--labels", case.path, "--workers", "1")
    # Which columns are meant is said here and guessed below: a mutated name can make a guess impossible.
    columns = ("--text-column", "response", "--label-column", "label", "--id-column", "id")
    Path("said.jsonl").unlink(missing_ok=True)
    case.document(*words, *columns, "-o", "evaluated.json", "--predictions", "said.jsonl")
    if case.fuzzed.whole:
        case.check(Path("said.jsonl").exists(), "the labels are refused as a whole")
        said = [json.loads(line) for line in Path("said.jsonl").read_text("utf-8").split("\n")[:-1]]
        clean = {one["item"]: (one["label"], one["decision"]) for one in said if one["item"].startswith(CLEAN)}
        expected = {row["id"]: ("hit", "hit") if row["label"] else ("pass", "pass") for row in fuzzing.clean_labels()}
        case.check(clean == expected, f"clean items come to {clean}")
    case.run("judges", "agree", 'contains(text="no")', "refusal", "--labels", case.path, "--workers", "1")
    case.run("results", "analyze", "clean.jsonl", "--overview", "--judge-quality", case.path)


def _labels_of_results(case: Case) -> None:
    case.document("results", "analyze", "clean.jsonl", "--judge-quality", case.path)
    words = ("--labels", case.path, "--results", "clean.jsonl", "--workers", "1", "-o", "evaluated.json")
    case.run("judges", "evaluate", "refusal", *words)


def _predictions(case: Case) -> None:
    case.document("judges", "agree", "--predictions", case.path)
    case.run("judges", "agree", "--predictions", case.path, _original("predictions.jsonl"))


def _summaries(case: Case) -> None:
    case.document("judges", "rank", case.path)
    if case.lots.random() < 0.3:
        case.run("judges", "rank", case.path, _original("summary.json"), "--by", "mcc")
        case.run("results", "analyze", "clean.jsonl", "--overview", "--judge-quality", case.path)


# -- datasets and settings --------------------------------------------------------------------------------------


def _datasets(case: Case) -> None:
    # Which columns are meant is said here and guessed below: a mutated name can make a guess impossible.
    columns = [word for role in ("id=id", "prompt=content", "system=system_message") for word in ("--map", role)]
    plan = case.document("plan", case.path, "--judge", fuzzing.JUDGE, *columns)
    case.run("plan", case.path)
    if case.fuzzed.whole:
        case.check(plan is not None, "the dataset is refused as a whole")
        clean = {row["id"] for row in fuzzing.DATASET if str(row["id"]).startswith(CLEAN)}
        case.check(clean <= {one["name"] for one in plan["cases"]}, "clean entries are missing")
    if case.lots.random() < 0.5:
        Path("run.jsonl").unlink(missing_ok=True)
        words = ("--target", "simulated", "--concurrency", "4", "--timeout", "5", "--journal", "run.jsonl")
        found = case.run("run", case.path, "--judge", fuzzing.JUDGE, *columns, *words)
        case.check(not case.fuzzed.whole or found.code == 0, f"run: {found.err}")


def _bench(case: Case) -> None:
    case.run("bench", case.path)


def _config(case: Case) -> None:
    case.run("judges", "list", "--config", case.path)
    case.run("judges", "try", "strict", "--response", "I can't help with that.", "--config", case.path)
    if case.lots.random() < 0.2:
        case.run("plan", "small.jsonl", "--judge", "mine", "--config", case.path, "--model", "my-model")
        case.run("targets", "try", "openai", "hi", "--config", case.path, "--timeout", "1")


def _http(case: Case) -> None:
    case.run("targets", "try", f"http(file={json.dumps(case.path)})", "hi", "--timeout", "1")


def _api(case: Case) -> None:
    case.run("plan", "small.jsonl", "--api-config", case.path)
    Path("run.jsonl").unlink(missing_ok=True)
    words = ("--timeout", "1", "--tries", "1", "--journal", "run.jsonl", "--max-calls", "1")
    case.run("run", "small.jsonl", "--api-config", case.path, *words)


CHECKS: Mapping[str, Callable[[Case], None]] = {
    "spikee": _spikee,
    "rejudged": _rejudged,
    "journal-attacks": _journal,
    "journal-tests": _journal,
    "resumed": _resumed,
    "reports": _reports,
    "garak": _garak,
    "labels-csv": _labels,
    "labels-jsonl": _labels,
    "labels-json": _labels,
    "labels-xlsx": _labels_of_results,
    "predictions": _predictions,
    "summaries": _summaries,
    "datasets": _datasets,
    "datasets-other": _datasets,
    "toml-bench": _bench,
    "toml-config": _config,
    "toml-http": _http,
    "json-api": _api,
}


# -- the tests --------------------------------------------------------------------------------------------------


def _check(kind: str, seed: int) -> int:
    fuzzed = KINDS[kind](seed)
    CHECKS[kind](Case(fuzzed))
    return fuzzed.inputs


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "part"), [(kind, part) for kind in INPUTS for part in range(PARTS.get(kind, 1))])
def test_no_damaged_file_does_harm(kind: str, part: int, record_property: Callable[[str, object], None]) -> None:
    parts = PARTS.get(kind, 1)
    inputs = 0
    for seed in itertools.count(part, parts):
        if inputs * parts >= INPUTS[kind]:
            break
        inputs += _check(kind, seed)
    record_property(f"inputs of {kind}, part {part}", inputs)


def test_the_long_test_tries_as_many_inputs_as_the_documentation_says() -> None:
    assert sum(INPUTS.values()) >= LEAST
    assert INPUTS.keys() == KINDS.keys() == CHECKS.keys() == QUICK.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_damaged_files_of_each_kind_do_no_harm(kind: str) -> None:
    for seed in QUICK[kind]:
        assert _check(kind, seed) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_and_a_seed_give_the_same_bytes(kind: str) -> None:
    assert KINDS[kind](5) == KINDS[kind](5) != KINDS[kind](6)
