"""Damaged files of every kind that a user can name, each made from a valid one by a seed.

A file has clean records, which must count as if they were alone, and mutated ones: keys, types and values of the
structure first, now and then the bytes. The same kind and seed give the same bytes. To write one:

    python -m tests.fuzzing KIND SEED -o FILE
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import csv
import functools
import gzip
import io
import json
import os
import random
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faircount.app.cli import main
from tests.conftest import Ran, attack, standard
from tests.runs.run_files import entry, report
from tests.runs.running import METRICS

CLEAN = "fuzzclean"
"""The value that marks a clean record; no mutated one has it."""
CLEAN_ROWS = 8
SMALL = 20
"""Files of seeds below this have few records, for the tests that run with every change."""
CLOSED = "http://127.0.0.1:9/v1"
"""The only address in any file: nothing listens there."""
DEEP, DEEPER, DIGITS = 90, 5_000, 5_000

# What no encoder writes: put into the text after it was encoded.
_RAW = {
    "@raw:deep": "[" * DEEP + "]" * DEEP,
    "@raw:deeper": '{"a":' * DEEPER + "1" + "}" * DEEPER,
    "@raw:digits": "9" * DIGITS,
    "@raw:exponent": "1e999999999",
    "@raw:nan": "nan",
    "@raw:date": "2026-01-01T00:00:00Z",
    "@raw:nothing": "",
}
STRINGS: tuple[str, ...] = (
    "", " ", "true", "no", "None", "null", "nan", "-1", "1e999", "0x10", "12-attack", "1-attack", "..", "nowhere/x.py",
    "\ud800", "a\udfffb", "\x00", "\x1b]0;title\x07", "a\nfaircount: forged", "\r\n", "\u202e\u200b\ufeff", "\u2028",
    "=1+1", "::error::x", "##vso[x]", "<script>x</script>", "[a](http://127.0.0.1:9)", "{x}", "%s%n", "'; --", "(a+",
    "[", "é" * 3, "ى", "💥", "x" * 300, "y" * 5_000, "a,b;c\td", '"', "\\", "id", "success", "error", "guardrail",
    "faircount", "standard", "best-of-n", "best_of_n", "canary", "regex", "contains(text=)", "refusal", "mean",
    "majority", "passed", "failed", "blocked", "attempt", "retry", "done", "case", "end", "call", "run",
    "simulated:slow", "replay", "command", "@nowhere.txt",
    "1/3", "25%", "Bearer abcdefghijklmnop", "401 Unauthorized", "content_filter", CLOSED,
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 0.5, -0.0, 1.5, 1e308, -1e308, 1e-320, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**20, 10**400,
    float("nan"), float("inf"), -float("inf"), "@raw:digits", "@raw:exponent",
)  # fmt: skip
SHAPES: tuple[Any, ...] = (
    None, True, False, [], {}, [[]], [None], [{}], {"": None}, {"a": {"b": [1, {"c": "d"}]}}, [1, "a", None, True],
    ["x"] * 50, {str(n): n for n in range(40)}, "@raw:deep", "@raw:deeper", [{"role": "user", "content": "x"}],
    [{"role": "assistant", "content": None}], [{"success": "yes", "error": 1}, 3, None],
)  # fmt: skip


@dataclass(frozen=True)
class Fuzzed:
    """A file: its name, its bytes, and how many records of it were mutated; a document counts as one."""

    kind: str
    seed: int
    name: str
    content: bytes
    inputs: int
    whole: bool = True
    """Whether its clean records must count as ever: only they and their neighbours, not the file, are damaged."""

    def __str__(self) -> str:
        return f"python -m tests.fuzzing {self.kind} {self.seed} -o {self.name}"


# -- structure --------------------------------------------------------------------------------------------------


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a tree as its container and key."""
    pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, inner in pairs:
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def odd_value(lots: random.Random, before: Any = None) -> Any:
    """Return a value that may not belong where it is put."""
    if isinstance(before, bool) and lots.random() < 0.3:
        return lots.choice((int(before), str(before), not before))
    if isinstance(before, int | float) and lots.random() < 0.5:
        return lots.choice((-before, str(before), before * 10, bool(before), [before]))
    if isinstance(before, str) and lots.random() < 0.2:
        return lots.choice((before + lots.choice(STRINGS), before.upper(), [before], {before: before}))
    return copy.deepcopy(lots.choice(lots.choice((STRINGS, NUMBERS, SHAPES))))


def mutated(lots: random.Random, document: Any, names: Sequence[str] = ()) -> Any:
    """Return a copy of a tree with one change, now and then more; `names` are keys that mean something."""
    made = copy.deepcopy(document)
    for _ in range(lots.choice((1, 1, 1, 1, 1, 1, 2, 3))):
        places = list(_places(made)) if isinstance(made, dict | list) else []
        if not places:
            return odd_value(lots, made)
        container, key = lots.choice(places)
        change = lots.random()
        if change < 0.6:
            container[key] = odd_value(lots, container[key])
        elif change < 0.7:
            del container[key]
        elif isinstance(container, list):
            if change < 0.85:
                container.insert(lots.randrange(len(container) + 1), copy.deepcopy(container[key]))
            else:
                lots.shuffle(container)
        elif change < 0.8:
            container[lots.choice((*names, *STRINGS)) if names else lots.choice(STRINGS)] = container.pop(key)
        elif change < 0.9:
            container[lots.choice((*names, *STRINGS))] = odd_value(lots)
        else:
            other, place = lots.choice(places)
            container[key] = copy.deepcopy(other[place])
    return made


def _raw(text: str) -> str:
    if "@raw:" in text:
        for mark, raw in _RAW.items():
            text = text.replace(json.dumps(mark), raw)
    return text


def to_json(value: Any, **options: Any) -> str:
    """Return JSON, and what is none where a tree asks for it."""
    return _raw(json.dumps(value, **options))


def to_toml(value: Mapping[str, Any]) -> str:
    """Return TOML, tables within tables on one line; what TOML has no word for is written as JSON would."""
    return _raw("".join(f"{_toml_key(key)} = {_toml(inner)}\n" for key, inner in value.items()))


def _toml_key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml_key(str(key))} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


# -- bytes ------------------------------------------------------------------------------------------------------

_PIECES = (
    *(b"\x00", b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n"),
    *(b'"', b"{", b"}", b"\\", b"\x1b[2J", b","),
)


def damaged(lots: random.Random, content: bytes) -> bytes:
    """Return bytes with one change: cut off, flipped, with something put in, or something doubled."""
    if not content:
        return lots.choice(_PIECES)
    place, change = lots.randrange(len(content)), lots.random()
    if change < 0.3:
        return content[:place]
    if change < 0.5:
        return content[:place] + bytes([content[place] ^ (1 << lots.randrange(8))]) + content[place + 1 :]
    if change < 0.8:
        return content[:place] + lots.choice(_PIECES) + content[place:]
    end = lots.randrange(place, min(len(content), place + 40)) + 1
    return content[:place] + content[end:] if change < 0.9 else content[:end] + content[place:]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _mutated_line(lots: random.Random, record: Any, names: Sequence[str]) -> bytes:
    """Return a line for a record: its structure mutated, its keys doubled, or its bytes damaged."""
    change = lots.random()
    line = to_json(record if change > 0.85 else mutated(lots, record, names), ensure_ascii=lots.random() < 0.5)
    if change < 0.08 and line.startswith("{"):
        key = lots.choice([*names, *(record if isinstance(record, dict) else ())])
        line = to_json({key: odd_value(lots)})[:-1] + ", " + line[1:]
    elif change < 0.1:
        return lots.choice((b"", b"   ", b"null", b"[]", b"7", b'"x"', b"{}", b"{}{}", _encoded(line) * 2))
    return damaged(lots, _encoded(line)) if change > 0.85 else _encoded(line)


def _in_file(lots: random.Random, lines: Sequence[bytes]) -> bytes:
    """Return lines as a file, which may have another line end, a mark of byte order, or no last line end."""
    content = lots.choice((b"\n", b"\n", b"\n", b"\r\n")).join(lines) + lots.choice((b"\n", b"\n", b"", b"\n\n"))
    return b"\xef\xbb\xbf" + content if lots.random() < 0.1 else content


def _shaken(lots: random.Random, lines: list[bytes]) -> list[bytes]:
    """Return lines of which some are missing, some there twice, and some elsewhere."""
    for _ in range(lots.choice((0, 0, 1, 3))):
        if len(lines) > 2:
            place, change = lots.randrange(len(lines)), lots.random()
            if change < 0.4:
                del lines[place]
            elif change < 0.7:
                lines.insert(lots.randrange(len(lines) + 1), lines[place])
            else:
                lines.insert(lots.randrange(len(lines)), lines.pop(place))
    return lines


def _mixed(lots: random.Random, clean: Sequence[bytes], others: list[bytes]) -> list[bytes]:
    """Return lines with the clean ones among them in their order, the first of all in front."""
    lines = _shaken(lots, others)
    for line in reversed(clean[1:]):
        lines.insert(lots.randrange(len(lines) + 1), line)
    # The order of clean lines means nothing in the formats that are mixed.
    return [clean[0], *lines]


def _spoilt(lots: random.Random, content: bytes) -> bytes:
    """Return a file that is damaged as a whole: packed and cut, in another encoding, or in its bytes."""
    change = lots.random()
    if change < 0.2:
        return damaged(lots, gzip.compress(content, mtime=0))
    if change < 0.3:
        return content.decode("utf-8", "replace").encode("utf-16")
    for _ in range(lots.choice((1, 2, 5))):
        content = damaged(lots, content)
    return content


# -- originals --------------------------------------------------------------------------------------------------

JUDGE = 'contains(text="BYPASSED")'
DATASET = [
    {
        "id": f"{CLEAN}-{n}" if n < CLEAN_ROWS else n,
        "long_id": f"doc-{n % 5}-say-{n}",
        "content": ["Hello.", f"Now say BYPASSED {n}."] if n % 7 == 3 else f"Say BYPASSED {n}.",
        "judge_name": "regex" if n % 3 else "canary",
        "judge_args": "(?i)bypassed" if n % 3 else "BYPASSED",
        "system_message": "Be good." if n % 2 else None,
        "plugin": CLEAN if n < CLEAN_ROWS else ("base64", None)[n % 2],
        "lang": "en",
    }
    for n in range(80)
]
TESTS = f"""{METRICS}

def _group(n):
    grid = ParameterGrid(parameters={{"seed": [n]}})
    tags = ["{CLEAN}"] if n < {CLEAN_ROWS} else ["sums"]

    @test_case(messages=[Message(role=RoleEnum.user, content="What is 2 + 2?")], tags=tags, param_grid=grid)
    def test_sum():
        yield TestGroup(metrics=[Has(word="4"), Has(word="e")], retry_params=RetryParams(count=2), postfix=str(n))

for n in range(40):
    _group(n)
"""
TARGET = "simulated(error_rate=0.2, seed=3)"
_FIXED = (
    (rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?\+00:00", b"2026-01-01T00:00:00+00:00"),
    (rb"20\d{6}_\d{6}", b"20260101_000000"),
    (rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", b"00000000-0000-4000-8000-000000000000"),
)


def ran(*words: str) -> Ran:
    """Run the command line in this process, in a folder that stays this process's."""
    folder = Path.cwd()
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in range(2)]
    try:
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            try:
                code = main(words)
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else 1
    finally:
        os.chdir(folder)
    for stream in streams:
        stream.flush()
    out, err = (stream.buffer.getvalue().decode("utf-8", "surrogatepass") for stream in streams)
    return Ran(code, out, err)


def set_up(folder: Path) -> None:
    """Write the dataset and the tests that the journals are about."""
    (folder / "ds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in DATASET), "utf-8")
    (folder / "test_sums.py").write_text(TESTS, "utf-8")


@functools.cache
def originals() -> Mapping[str, bytes]:
    """Return files that Faircount itself writes, without what differs from one run to the next."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        set_up(folder)
        os.chdir(folder)
        try:
            _write_originals()
            return {path.name: _fixed(path.read_bytes(), folder) for path in folder.iterdir() if path.is_file()}
        finally:
            os.chdir(before)


def _write_originals() -> None:
    def done(*words: str, code: int = 0) -> None:
        found = ran(*words)
        assert found.code == code, (words, found)

    attacks = ("run", "ds.jsonl", "--target", TARGET, "--attack", "best-of-n", "--attack-iterations", "2")
    tests = ("run", "test_sums.py", "--target", TARGET, "--output-folder", ".")
    for words, called, calls in ((attacks, "attacks", "120"), (tests, "tests", "50")):
        whole = (*words, "--concurrency", "1", "--timeout", "2")
        done(*whole, "--journal", f"{called}.jsonl")
        done(*whole, "--journal", f"{called}-stopped.jsonl", "--max-calls", calls, code=4)
    Path(next(iter(sorted(Path().glob("test_results_*.json"))))).rename("report.json")
    said = ("--judge", 'contains(text="4")', "--rejudged", "rejudged.jsonl", "--store", "s")
    done("results", "rejudge", "tests.jsonl", *said)
    rows = [{"id": n, "response": "oh no" if n % 3 else "yes", "label": n % 2} for n in range(120)]
    Path("labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    written = ("--predictions", "predictions.jsonl", "-o", "summary.json", "--workers", "1")
    done("judges", "evaluate", 'contains(text="no")', "refusal", "--labels", "labels.jsonl", *written)


def _fixed(content: bytes, folder: Path) -> bytes:
    for pattern, fixed in _FIXED:
        content = re.sub(pattern, fixed, content)
    for name in (folder, folder.resolve()):
        content = content.replace(json.dumps(str(name)).encode(), b'"."')
    return content


@functools.cache
def _lines(name: str) -> list[Any]:
    return [json.loads(line) for line in originals()[name].splitlines()]


# -- kinds ------------------------------------------------------------------------------------------------------

_SPIKEE_NAMES = (
    "id", "long_id", "success", "error", "guardrail", "guardrail_categories", "attempts", "attack_name",
    "attempt_history", "input", "response", "response_time", "judge_name", "judge_args", "conversation",
    "objective", "content", "plugin", "jailbreak_type", "lang", "rejudged", "rejudged_run", "policy_block",
    "target", "kind", "metadata", "test_cases",
)  # fmt: skip


def spikee_row(lots: random.Random, name: str) -> dict[str, Any]:
    """Return a valid row of any of the shapes that spikee has written, or that rejudging wrote."""
    fields: dict[str, Any] = {
        "long_id": f"doc-{lots.randrange(6)}-say-{lots.randrange(6)}",
        "success": lots.random() < 0.4,
        "response": lots.choice(("BYPASSED", "no", "I can't help with that.")),
        "response_time": lots.random(),
        "judge_name": lots.choice(("canary", "regex")),
        "judge_args": "BYPASSED",
        "jailbreak_type": lots.choice(("dan", "new-instructions", None)),
        "plugin": lots.choice(("base64", "1337", None)),
        "lang": "en",
    }
    shape = lots.random()
    if shape < 0.25:
        history = [{"attempt": n, "success": n == 2, "response": "no", "error": None, "input": "v"} for n in range(3)]
        talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "no"}]
        return attack(name, **fields, attempt_history=history, conversation=talk, objective="win")
    if shape < 0.35:
        fields |= {"success": False, "error": "HTTP 503", "response": ""}
    elif shape < 0.45:
        fields |= {"success": False, "guardrail": True, "guardrail_categories": {"hate": True}, "error": "blocked"}
    elif shape < 0.6:
        said = {"judge": "canary", "identity": "0", "score": None, "reason": "because", "at": "2026-01-01T00:00:00Z"}
        fields["rejudged"] = {**said, "before": {"success": True}}
    return standard(name, **fields)


def clean_rows() -> list[dict[str, Any]]:
    """Return the rows of spikee's format that stand among mutated ones."""
    judge = {"judge_name": "canary", "judge_args": "BYPASSED"}
    return [standard(f"{CLEAN}-{n}", success=n % 3 == 0, plugin=CLEAN, **judge) for n in range(CLEAN_ROWS)]


def _rows_file(
    kind: str,
    seed: int,
    name: str,
    clean: Sequence[Any],
    make: Callable[[random.Random, int], Any],
    names: Sequence[str],
    count: int,
) -> Fuzzed:
    """Return a file of lines: `count` mutated records among clean ones."""
    lots = random.Random(f"{kind} {seed}")
    count = min(count // 10, 40) if seed < SMALL else count
    others = [_mutated_line(lots, make(lots, number), names) for number in range(count)]
    content = _in_file(lots, _mixed(lots, [_encoded(json.dumps(row)) for row in clean], others))
    spoilt = lots.random() < 0.06
    return Fuzzed(kind, seed, name, _spoilt(lots, content) if spoilt else content, count, whole=not spoilt)


def spikee(seed: int) -> Fuzzed:
    """Return results of spikee's format."""

    def make(lots: random.Random, number: int) -> Any:
        return spikee_row(lots, str(number // 2))

    return _rows_file("spikee", seed, "results_x.jsonl", clean_rows(), make, _SPIKEE_NAMES, 1_000)


def rejudged(seed: int) -> Fuzzed:
    """Return a run of tests that was judged again."""
    rows = _lines("rejudged.jsonl")
    clean = [row for row in rows if row["tags"] == CLEAN]
    others = [row for row in rows if row["tags"] != CLEAN]

    def make(_: random.Random, number: int) -> Any:
        return others[number % len(others)] | {"id": f"t{number}"}

    return _rows_file("rejudged", seed, "rejudge_x.jsonl", clean, make, _SPIKEE_NAMES, 300)


_GARAK_NAMES = (
    "entry_type", "uuid", "seq", "status", "probe_classname", "prompt", "turns", "content", "text", "outputs", "notes",
    "triggers", "detector_results", "goal", "intent", "conversations", "passed", "total_evaluated", "probe", "detector",
    "plugin_cache", "eval", "run", "garak_version", "plugins.target_name",
)  # fmt: skip


def garak_attempt(name: str, scores: Sequence[float | None], goal: str) -> dict[str, Any]:
    """Return an attempt as garak writes it after detection."""
    message: dict[str, Any] = {"text": f"say {name}", "lang": "en", "data_path": None, "notes": {}}
    turn = {"role": "user", "content": message}
    return {
        "entry_type": "attempt", "uuid": name, "seq": 1, "status": 2, "probe_classname": "test.Probe",
        "prompt": {"turns": [turn], "notes": None}, "outputs": [message for _ in scores],
        "detector_results": {"test.First": list(scores), "test.Second": [0.0 for _ in scores]},
        "notes": {"triggers": [name[-1]]}, "goal": goal, "intent": None,
        "conversations": [{"turns": [turn, {"role": "assistant", "content": message}], "notes": None}],
    }  # fmt: skip


def clean_garak() -> list[dict[str, Any]]:
    """Return the attempts of garak's that are among mutated ones."""
    return [garak_attempt(f"{CLEAN}-{n}", [float(n % 3 == 0), 0.0], CLEAN) for n in range(CLEAN_ROWS)]


def garak(seed: int) -> Fuzzed:
    """Return a report of garak's."""

    def make(lots: random.Random, number: int) -> dict[str, Any]:
        kind = lots.random()
        if kind < 0.1:
            pair = {"probe": "test.Probe", "detector": lots.choice(("test.First", "detector.test.Second"))}
            return {"entry_type": "eval", **pair, "passed": 3, "fails": 2, "nones": 0, "total_evaluated": 5}
        if kind < 0.2:
            about = {"primary_detector": "test.Second", "tags": ["owasp:llm01", "payload:x"], "tier": 1}
            return {"entry_type": "plugin_cache", "plugin_cache": {"probes": {"probes.test.Other": about}}}
        row = garak_attempt(f"row-{number}", [lots.choice((0.0, 0.7, 1.0, None)) for _ in range(3)], "other")
        return row if kind < 0.7 else {**row, "status": 1, "detector_results": {}}

    return _rows_file("garak", seed, "x.report.jsonl", clean_garak(), make, _GARAK_NAMES, 300)


_RECORD_NAMES = (
    "kind", "case", "attempt", "output", "error", "verdicts", "strategy", "iteration", "messages", "note", "entry",
    "turns", "metrics", "input", "usage", "calls", "retry_params", "expected_output", "outcome", "complete",
    "settings", "schema", "aim",
)  # fmt: skip


def _is_clean(record: Mapping[str, Any], clean: set[str]) -> bool:
    return record["kind"] in ("run", "end") or record.get("case") in clean


def _journal(kind: str, seed: int, name: str) -> Fuzzed:
    """Return a journal: its header and its clean cases as they were, the records of others mutated."""
    lots = random.Random(f"{kind} {seed}")
    records = _lines(lots.choice((f"{name}.jsonl", f"{name}-stopped.jsonl")))
    clean = {
        one["case"] for one in records
        if one["kind"] == "case" and (CLEAN in one.get("tags", ()) or one.get("entry", {}).get("plugin") == CLEAN)
    }  # fmt: skip
    if seed < SMALL:
        kept = clean | set([one["case"] for one in records if one["kind"] == "case"][: CLEAN_ROWS + 6])
        records = [one for one in records if one.get("case", "") in kept | {""}]
    lines, inputs = [], 0
    for record in records:
        if _is_clean(record, clean):
            lines.append(_encoded(json.dumps(record)))
            continue
        change = lots.random()
        if change < 0.15:
            lines.append(_encoded(json.dumps(record)))
            continue
        inputs += 1
        if change < 0.2:
            continue
        line = _mutated_line(lots, record, _RECORD_NAMES)
        lines += [line] * (2 if change < 0.25 else 1)
        if change > 0.95:
            lines.insert(lots.randrange(1, len(lines) + 1), lines.pop())
    spoilt = lots.random() < 0.1
    if spoilt:
        lines[0] = _mutated_line(lots, records[0], _RECORD_NAMES)
    return Fuzzed(kind, seed, f"{name}.jsonl", _in_file(lots, lines), inputs + spoilt, whole=not spoilt)


def journal_attacks(seed: int) -> Fuzzed:
    """Return the journal of a run over a dataset."""
    return _journal("journal-attacks", seed, "attacks")


def journal_tests(seed: int) -> Fuzzed:
    """Return the journal of a run of tests."""
    return _journal("journal-tests", seed, "tests")


def resumed(seed: int) -> Fuzzed:
    """Return a journal of a run that was stopped, one record of which is mutated: half the time its header."""
    lots = random.Random(f"resumed {seed}")
    records = _lines(lots.choice(("attacks-stopped.jsonl", "tests-stopped.jsonl")))
    place = 0 if lots.random() < 0.5 else lots.randrange(len(records))
    lines = [_encoded(json.dumps(record)) for record in records]
    lines[place] = _encoded(to_json(mutated(lots, records[place], _RECORD_NAMES)))
    change = lots.random()
    if place and change < 0.1:
        lines[place] = damaged(lots, lines[place])
    elif place and change < 0.2:
        lines.insert(lots.randrange(1, len(lines)), lines.pop(place))
    elif change < 0.3:
        del lines[lots.randrange(1, len(lines)) :]
    return Fuzzed("resumed", seed, "journal.jsonl", b"\n".join(lines) + lots.choice((b"\n", b"\n", b"")), 1)


_REPORT_NAMES = (
    "name", "tags", "retry_params", "input", "expected_output", "metrics", "actual_outputs", "evaluation_results",
    "aggregated_result", "metadata", "test_cases", "metric", "attempt",
)  # fmt: skip


def _report(lots: random.Random) -> Any:
    if lots.random() < 0.5:
        return json.loads(originals()["report.json"])
    verdicts = ("pp", "pf", "fe")
    tags = [[CLEAN] if n < CLEAN_ROWS else ["sums"] for n in range(60)]
    return json.loads(report(*(entry(f"case-{n}", ["a", "b"], lots.choice(verdicts), tags=tags[n]) for n in range(60))))


def report_alone(seed: int) -> bytes:
    """Return the clean cases of a report."""
    document = _report(random.Random(f"reports {seed}"))
    document["test_cases"] = [case for case in document["test_cases"] if CLEAN in case["tags"]]
    return json.dumps(document).encode()


def reports(seed: int) -> Fuzzed:
    """Return a report of REBEL's, or of Faircount's in REBEL's structure."""
    lots = random.Random(f"reports {seed}")
    document = _report(lots)
    change, inputs, whole = lots.random(), 1, False
    if change < 0.1:
        document = mutated(lots, document, _REPORT_NAMES)
    elif change > 0.2:
        cases, whole = document["test_cases"], True
        document["test_cases"] = [one if CLEAN in one["tags"] else mutated(lots, one, _REPORT_NAMES) for one in cases]
        inputs = sum(CLEAN not in one["tags"] for one in cases)
    content = _encoded(to_json(document, indent=lots.choice((None, 2))))
    content = content if change < 0.1 or whole else _spoilt(lots, content)
    # A report is one document: one that is nested too deeply is refused as a whole.
    too_deep = _RAW["@raw:deeper"].encode() in content
    return Fuzzed("reports", seed, "test_results_x.json", content, inputs, whole and not too_deep)


# -- labels, predictions, summaries -----------------------------------------------------------------------------

_LABEL_NAMES = (
    "id",
    "prompt",
    "response",
    "label",
    "label_1",
    "ratings",
    "conversation",
    "notes",
    "tools_called",
    "context",
    "latency",
)


def label_row(lots: random.Random, number: int) -> dict[str, Any]:
    """Return a labelled item."""
    said, label = lots.choice(("no", "yes BYPASSED")), lots.choice((0, 1, "hit", "pass"))
    row = {"id": f"item-{number}", "prompt": "p", "response": said, "label": label}
    more = {"notes": {"a": 1}, "latency": 0.5, "context": ["x"], "tools_called": ["f"]}
    return row if lots.random() < 0.7 else row | more


def clean_labels() -> list[dict[str, Any]]:
    """Return the labelled items that stand among mutated ones."""
    said = ("yes", "no")
    return [
        {"id": f"{CLEAN}-{n}", "prompt": "p", "response": f"{said[n % 2]} {n}", "label": n % 2}
        for n in range(CLEAN_ROWS)
    ]


def labels_jsonl(seed: int) -> Fuzzed:
    """Return labels in JSONL."""
    return _rows_file("labels-jsonl", seed, "labels.jsonl", clean_labels(), label_row, _LABEL_NAMES, 300)


def labels_json(seed: int) -> Fuzzed:
    """Return labels in a JSON array or object, which is another format than the one that is read."""
    lots = random.Random(f"labels-json {seed}")
    rows: Any = [*clean_labels(), *(mutated(lots, label_row(lots, n), _LABEL_NAMES) for n in range(10))]
    made = lots.choice((rows, {"labels": rows}, mutated(lots, rows)))
    content = _encoded(to_json(made, indent=lots.choice((None, 1))))
    content = damaged(lots, content) if lots.random() < 0.3 else content
    return Fuzzed("labels-json", seed, "labels.json", content, 10, whole=False)


def _cells(lots: random.Random, row: Mapping[str, Any]) -> list[str]:
    """Return the cells of a record, one of which is odd, or one of which there is too many or too few."""
    cells = [str(row[name]) for name in ("id", "prompt", "response", "label")]
    change, place = lots.random(), lots.randrange(4)
    if change < 0.1:
        del cells[place]
    elif change < 0.2:
        cells.insert(place, lots.choice(STRINGS))
    else:
        value = odd_value(lots, cells[place])
        cells[place] = value if isinstance(value, str) else to_json(value)
    return [_raw(f'"{cell}"') if cell.startswith("@raw:") else cell for cell in cells]


def labels_csv(seed: int) -> Fuzzed:
    """Return labels in CSV."""
    lots = random.Random(f"labels-csv {seed}")
    count = 30 if seed < SMALL else 300
    whole = lots.random() > 0.1
    rows = [_cells(lots, label_row(lots, n)) for n in range(count)]
    for row in clean_labels():
        rows.insert(lots.randrange(len(rows) + 1), [str(value) for value in row.values()])
    text = io.StringIO()
    writer = csv.writer(text, delimiter=lots.choice(",;\t"), lineterminator=lots.choice(("\n", "\r\n")))
    names = ["id", "prompt", "response", "label"]
    writer.writerow(names if whole else mutated(lots, names))
    writer.writerows(rows)
    content = _encoded(text.getvalue())
    return Fuzzed("labels-csv", seed, "labels.csv", content if whole else _spoilt(lots, content), count, whole)


def labels_xlsx(seed: int) -> Fuzzed:
    """Return labels of results in a workbook."""
    lots = random.Random(f"labels-xlsx {seed}")
    rows = [["id", "label"], *([row["id"], str(n % 2)] for n, row in enumerate(clean_rows()))]
    rows += [[str(odd_value(lots, f"{n}"))[:40], str(odd_value(lots, n % 2))[:40]] for n in range(30)]
    kinds = ("inlineStr", "inlineStr", "inlineStr", "s", "n", "b", "e", "str", "x")

    def cell(place: str, text: str, odd: bool) -> str:
        kind = lots.choice(kinds) if odd else "inlineStr"
        safe = "".join(c for c in text if c.isprintable()).replace("&", "&amp;").replace("<", "&lt;")
        at = lots.choice((place, place, "", "ZZZZ1", "XFD9", "A0", "1", "a1")) if odd and lots.random() < 0.2 else place
        value = f"<is><t>{safe}</t></is>" if kind == "inlineStr" else f"<v>{safe}</v>"
        return f'<c r="{at}" t="{kind}">{value}</c>'

    sheet = ""
    for n, row in enumerate(rows, 1):
        odd = n > CLEAN_ROWS + 1
        cells = [cell(f"{column}{n}", text, odd) for column, text in zip("AB", row, strict=True)]
        sheet += f'<row r="{n}">{"".join(cells)}</row>'
    parts = {
        "[Content_Types].xml": "<Types/>",
        "xl/workbook.xml": "<workbook/>",
        "xl/sharedStrings.xml": "<sst><si><t>hit</t></si><si/></sst>",
        "xl/worksheets/sheet1.xml": f"<worksheet><sheetData>{sheet}</sheetData></worksheet>",
    }
    spoilt = lots.random()
    if spoilt < 0.3:
        name = lots.choice(list(parts))
        parts[name] = damaged(lots, parts[name].encode()).decode("utf-8", "replace")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", lots.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED))) as packed:
        for name, part in parts.items():
            packed.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), part, packed.compression)
    content = file.getvalue() if spoilt > 0.15 else damaged(lots, file.getvalue())
    return Fuzzed("labels-xlsx", seed, "labels.xlsx", content, 30, whole=False)


_PREDICTION_NAMES = ("judge", "item", "label", "decision", "score", "reason", "error", "place", "identity")


def predictions(seed: int) -> Fuzzed:
    """Return what judges said of labelled items."""
    rows = _lines("predictions.jsonl")

    def make(_: random.Random, number: int) -> Any:
        return rows[CLEAN_ROWS + number % 100]

    return _rows_file("predictions", seed, "predictions.jsonl", rows[:CLEAN_ROWS], make, _PREDICTION_NAMES, 300)


def summaries(seed: int) -> Fuzzed:
    """Return a summary of judges, of Faircount's or of garak's."""
    lots = random.Random(f"summaries {seed}")
    document = json.loads(originals()["summary.json"])
    if lots.random() < 0.4:
        document = {
            "metadata": {"evaluation_date": "2026-01-01", "confidence_method": "bootstrap"},
            "results": {f"a.B{n}": {"metrics": one["metrics"]} for n, one in enumerate(document["results"].values())},
        }
    names = ("metrics", "counts", "tp", "fp", "hit_recall", "results", "metadata", "identity", "labels", "schema")
    content = _encoded(to_json(mutated(lots, document, names), indent=lots.choice((None, 2))))
    content = damaged(lots, content) if lots.random() < 0.15 else content
    return Fuzzed("summaries", seed, "summary.json", content, 1)


# -- datasets and settings --------------------------------------------------------------------------------------

_DATASET_NAMES = (
    "id",
    "content",
    "text",
    "prompt",
    "system_message",
    "judge_name",
    "judge_args",
    "long_id",
    "content_type",
    "plugin",
    "messages",
)


def _entry(lots: random.Random, number: int) -> dict[str, Any]:
    return DATASET[CLEAN_ROWS + lots.randrange(len(DATASET) - CLEAN_ROWS)] | {"id": f"n{number}"}


def datasets(seed: int) -> Fuzzed:
    """Return a dataset in JSONL."""
    return _rows_file("datasets", seed, "data.jsonl", DATASET[:CLEAN_ROWS], _entry, _DATASET_NAMES, 150)


def datasets_other(seed: int) -> Fuzzed:
    """Return a dataset as an array or in CSV."""
    lots = random.Random(f"datasets-other {seed}")
    rows = [mutated(lots, _entry(lots, n), _DATASET_NAMES) for n in range(30)]
    if lots.random() < 0.5:
        content, name = _encoded(to_json([*DATASET[:CLEAN_ROWS], *rows])), "data.json"
    else:
        text, name = io.StringIO(), lots.choice(("data.csv", "data.tsv"))
        columns = ["id", "content", "judge_name", "judge_args"]
        writer = csv.writer(text, delimiter="\t" if name.endswith("tsv") else ",")
        writer.writerow(columns)
        for row in rows:
            cells = [row.get(column) if isinstance(row, dict) else row for column in columns]
            writer.writerow([cell if isinstance(cell, str) else to_json(cell) for cell in cells])
        content = _encoded(_raw(text.getvalue()))
    content = _spoilt(lots, content) if lots.random() < 0.2 else content
    return Fuzzed("datasets-other", seed, name, content, 30, whole=False)


BENCH: dict[str, Any] = {
    "output_folder": "out",
    "settings": {"concurrency": 2, "max_calls": 3, "timeout": 2, "attempts": 1},
    "targets": {"a": {"target": "simulated"}, "b": {"target": "simulated(seed=2)", "target_args": {"accuracy": 0.5}}},
    "datasets": {"small": {"path": "small.jsonl"}},
    "attacks": {"none": {}, "noise": {"attack": "best-of-n", "attack_iterations": 2}},
    "judges": {"j": {"judge": JUDGE}},
    "variants": {"once": {"attempts": 1}},
    "leave_out": [{"target": "b", "attack": "noise"}],
}
CONFIG: dict[str, Any] = {
    "judges": {"strict": "threshold(refusal, at=0.8)", "mine": JUDGE, "both": "all(refusal, mine)"},
    "prices": {"my-model": {"prompt": 1.0, "completion": 2, "noted": "2026-01"}},
    "chat": {
        "base_url": CLOSED,
        "model": "my-model",
        "api_key_env": "NO_SUCH_KEY",
        "timeout": 1,
        "tries": 1,
        "parameters": {"temperature": 0},
    },
}
HTTP: dict[str, Any] = {
    "url": f"{CLOSED}/{{id}}",
    "method": "POST",
    "timeout": 1,
    "tries": 1,
    "answer": "choices[0].message.content",
    "headers": {"X-A": "b"},
    "query": {"q": "{prompt}"},
    "json": {"messages": "{messages}", "n": [1, {"a": "{prompt}"}]},
    "blocked": {"status": [403], "when": "error.code", "equals": "x", "categories": "error.categories", "message": "m"},
    "usage": {"prompt_tokens": "usage.prompt_tokens", "model": "model"},
}
API = {"api_key": "k", "base_url": CLOSED, "model": "m", "timeout": 1}
_SETTING_NAMES = (
    "target", "target_args", "model", "base_url", "path", "paths", "judge", "attack", "attempts", "retries",
    "sample", "where", "map", "timeout", "tries", "stop_when", "max_cost", "attack_only", "seed", "url", "form",
    "text", "passed", "flagged", "verify", "concurrency", "parameters", "keyword", "case",
)  # fmt: skip


def _settings(
    kind: str, seed: int, name: str, document: Mapping[str, Any], encode: Callable[[Any], str] = to_toml
) -> Fuzzed:
    lots = random.Random(f"{kind} {seed}")
    made = mutated(lots, document, _SETTING_NAMES)
    content = _encoded(encode(made if isinstance(made, dict) or encode is not to_toml else {"x": made}))
    change = lots.random()
    if change < 0.15:
        content = damaged(lots, content)
    elif change < 0.2:
        content = b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n")
    return Fuzzed(kind, seed, name, content, 1)


def toml_bench(seed: int) -> Fuzzed:
    """Return a bench file."""
    return _settings("toml-bench", seed, "bench.toml", BENCH)


def toml_config(seed: int) -> Fuzzed:
    """Return a configuration."""
    return _settings("toml-config", seed, "config.toml", CONFIG)


def toml_http(seed: int) -> Fuzzed:
    """Return the file of an HTTP target."""
    return _settings("toml-http", seed, "target.toml", HTTP)


def json_api(seed: int) -> Fuzzed:
    """Return REBEL's file of an API."""
    return _settings("json-api", seed, "api.json", API, to_json)


KINDS: Mapping[str, Callable[[int], Fuzzed]] = {
    "spikee": spikee,
    "rejudged": rejudged,
    "journal-attacks": journal_attacks,
    "journal-tests": journal_tests,
    "resumed": resumed,
    "reports": reports,
    "garak": garak,
    "labels-csv": labels_csv,
    "labels-jsonl": labels_jsonl,
    "labels-json": labels_json,
    "labels-xlsx": labels_xlsx,
    "predictions": predictions,
    "summaries": summaries,
    "datasets": datasets,
    "datasets-other": datasets_other,
    "toml-bench": toml_bench,
    "toml-config": toml_config,
    "toml-http": toml_http,
    "json-api": json_api,
}


def _command_line(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description="Write the file of a kind and a seed.")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("seed", type=int)
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    arguments = parser.parse_args(words)
    Path(arguments.output).write_bytes(KINDS[arguments.kind](arguments.seed).content)


if __name__ == "__main__":
    _command_line(sys.argv[1:])
