"""`faircount run` beside `spikee test`: the same dataset against the same target, and where the two differ."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.analysis.test_golden_spikee import SPIKEE, needs_spikee
from tests.conftest import Cli
from tests.runs.running import attempts

TARGET = """\
import pathlib

try:
    from spikee.tester import GuardrailTrigger
except ImportError:

    class GuardrailTrigger(Exception):
        def __init__(self, message, categories=None):
            super().__init__(message)
            self.categories = categories or {}


LOG = pathlib.Path("calls.log")


def process_input(input_text, system_message=None, target_options=None, logprobs=False):
    with LOG.open("a") as file:
        file.write(input_text + "\\n")
    seen = LOG.read_text().splitlines().count(input_text)
    if "blocked" in input_text:
        raise GuardrailTrigger("stopped", {"injection": True})
    if "broken" in input_text:
        raise RuntimeError("down")
    if "late" in input_text:
        return "PWNED" if seen >= 2 else "no"
    return "PWNED" if "weak" in input_text else "no"
"""
PROMPTS = ("weak", "strong", "late", "broken", "blocked", "weak again")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace of spikee's."""
    monkeypatch.chdir(tmp_path)
    for folder in ("targets", "datasets", "results"):
        (tmp_path / folder).mkdir()
    (tmp_path / "targets" / "fixed.py").write_text(TARGET, "utf-8")
    rows = [
        {"id": number, "long_id": f"x-{number}", "content": prompt, "judge_name": "canary", "judge_args": "PWNED"}
        for number, prompt in enumerate(PROMPTS)
    ]
    (tmp_path / "datasets" / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return tmp_path


def calls(here: Path) -> Counter[str]:
    """Return how often each prompt was sent, and forget it."""
    log = here / "calls.log"
    counted = Counter(log.read_text("utf-8").splitlines())
    log.unlink()
    return counted


@needs_spikee
@pytest.mark.peer
def test_both_find_the_same_successes_and_differ_in_what_they_send_again(here: Path, cli: Cli) -> None:
    words = ["test", "--dataset", "datasets/d.jsonl", "--target", "fixed", "--attempts", "2"]
    command = [str(SPIKEE), *words, "--threads", "1", "--no-auto-resume"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (path,) = (here / "results").glob("results_*.jsonl")
    theirs = {row["id"]: row for row in map(json.loads, path.read_text("utf-8").splitlines())}
    sent_by_them = calls(here)

    ran = cli("run", "datasets/d.jsonl", "--target", "spikee:fixed", "--attempts", "2", "--journal", "j.jsonl")
    assert ran.code == 0, ran.err
    sent_by_us = calls(here)
    ours = attempts(here / "j.jsonl")
    won = {
        int(name) for (name, _), one in ours.items() for verdict in one["verdicts"] if verdict["verdict"] == "success"
    }

    assert won == {number for number, row in theirs.items() if row["success"]} == {0, 2, 5}
    # A block is sent three times for each attempt by spikee, which tells of two; Faircount takes it for the answer.
    assert (sent_by_them["blocked"], theirs[4]["attempts"]) == (6, 2)
    assert sent_by_us["blocked"] == sum(name == "4" for name, _ in ours) == 2
    assert {prompt: sent_by_them[prompt] for prompt in PROMPTS if prompt != "blocked"} == {
        prompt: sent_by_us[prompt] for prompt in PROMPTS if prompt != "blocked"
    }
    # spikee keeps one row of an entry that was tried twice; Faircount keeps both attempts.
    assert sum(row["id"] == 2 for row in theirs.values()) == 1
    assert [ours["2", number]["output"]["output"] for number in (0, 1)] == ["no", "PWNED"]
    assert theirs[2]["response"] == "PWNED"
    assert "attempt_history" not in theirs[2]
