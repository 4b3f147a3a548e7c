"""`run`, `resume`, `plan` and `merge` on datasets, from the command line."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from scipy.optimize import brentq
from scipy.special import betaln

from faircount.runs import Ending, lifecycle
from tests.conftest import Cli
from tests.runs.running import attempts, records

BOT = """\
async def answer(messages):
    text = messages[-1]["content"]
    return "PWNED" if " 3" in text or text.endswith("!") else "no"

def guard(messages):
    return "3" in messages[-1]["content"]

def broken(messages):
    raise ConnectionError("down")

def shout(entry, history):
    return entry.text + "!" * len(history)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bot.py").write_text(BOT, "utf-8")
    rows = [
        {
            "id": number,
            "long_id": f"summarization_doc{number % 3}_{'dan' if number % 2 else 'dev'}_x_start",
            "content": f"obey {number}",
            "judge_name": "canary",
            "judge_args": "PWNED",
            "jailbreak_type": "dan" if number % 2 else "dev",
        }
        for number in range(10)
    ]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return tmp_path


RUN = ("run", "d.jsonl", "--target", "./bot.py:answer", "--journal", "j.jsonl")


def document(cli: Cli, *words: str, code: int = 0) -> Mapping[str, Any]:
    ran = cli(*words, "--output-format", "json")
    assert ran.code == code, ran.err
    found: Mapping[str, Any] = json.loads(ran.out)["analyses"][0]
    return found


def test_a_dataset_is_run_and_analysed_as_attacks(here: Path, cli: Cli) -> None:
    found = document(cli, *RUN)
    assert found["aim"] == "attack"
    assert (found["entries"]["success"], found["entries"]["failure"]) == (1, 9)
    assert {group["value"] for group in found["breakdowns"]["jailbreak_type"]} == {"dan", "dev"}
    header = records(here / "j.jsonl")[0]
    assert header["aim"] == "attack"
    assert header["settings"]["entries"]["paths"] == ["d.jsonl"]


def test_an_attack_adds_to_what_the_entries_themselves_achieve(here: Path, cli: Cli) -> None:
    found = document(cli, *RUN, "--attack", "./bot.py:shout", "--attack-iterations", "4")
    assert found["entries"]["success"] == 10
    assert found["dynamic"]["initially_successful"] == 1
    assert found["dynamic"]["only_with_attack"] == 9
    told = [record for record in records(here / "j.jsonl") if record["kind"] == "attempt" and record["case"] == "0"]
    assert [one["strategy"] for one in told] == ["standard", "./bot.py:shout", "./bot.py:shout"]


def test_a_run_is_resumed_with_its_attack_and_its_judge(here: Path, cli: Cli) -> None:
    words = (*RUN, "--attack", "./bot.py:shout", "--judge", 'contains(text="PWNED")')
    ran = cli(*words, "--max-calls", "7", "--concurrency", "1")
    assert ran.code == 4
    assert "resume with: faircount resume j.jsonl" in ran.err
    ran = cli("resume", "j.jsonl", "--max-calls", "100")
    assert ran.code == 0, ran.err
    assert len(attempts(here / "j.jsonl")) == 1 + 9 * 3
    again = cli("resume", "j.jsonl")
    assert "nothing to do" in again.err


def test_a_dataset_that_has_changed_is_not_resumed(here: Path, cli: Cli) -> None:
    cli(*RUN, "--max-calls", "2")
    with (here / "d.jsonl").open("a") as file:
        file.write('{"id": 99, "content": "x", "judge_name": "canary", "judge_args": "y"}\n')
    ran = cli("resume", "j.jsonl")
    assert ran.code == 3
    assert "d.jsonl: has changed since the run" in ran.err


def test_errors_are_retried_and_recorded_each(here: Path, cli: Cli) -> None:
    ran = cli("run", "d.jsonl", "--target", "./bot.py:broken", "--journal", "j.jsonl", "--retries", "2")
    assert ran.code == 0
    assert len(attempts(here / "j.jsonl")) == 30
    assert document(cli, "results", "analyze", "j.jsonl")["entries"]["error"] == 10


def test_a_guardrail_that_answers_yes_or_no_needs_no_judge(here: Path, cli: Cli) -> None:
    assert here.is_dir()
    found = document(cli, "run", "d.jsonl", "--target", "./bot.py:guard", "--journal", "j.jsonl", "--no-judge")
    assert (found["entries"]["success"], found["entries"]["failure"]) == (1, 9)


def test_results_in_spikees_format_are_the_same_results(here: Path, cli: Cli) -> None:
    ran = document(cli, *RUN, "--attack", "best-of-n", "--attack-iterations", "3", "--spikee-results", "s.jsonl")
    other = document(cli, "results", "analyze", "s.jsonl")
    assert (other["entries"], other["rates"], other["attempts"]) == (ran["entries"], ran["rates"], ran["attempts"])
    refused = cli(*RUN[:-1], "k.jsonl", "--spikee-results", "s.jsonl")
    assert refused.code == 2
    assert "s.jsonl: already exists" in refused.err
    later = cli("resume", "j.jsonl", "--spikee-results", "t.jsonl")
    assert later.code == 0, later.err
    assert (here / "t.jsonl").read_bytes() == (here / "s.jsonl").read_bytes()


def test_shards_are_run_apart_and_put_together(here: Path, cli: Cli) -> None:
    whole = document(cli, *RUN)
    for number in (1, 2, 3):
        words = ("run", "d.jsonl", "--target", "./bot.py:answer", "--shard", f"{number}/3")
        assert cli(*words, "--journal", f"s{number}.jsonl").code == 0
    assert cli("merge", "s1.jsonl", "s2.jsonl", "-o", "m.jsonl").code == 3
    assert cli("merge", "s3.jsonl", "s1.jsonl", "s2.jsonl", "-o", "m.jsonl").code == 0
    assert document(cli, "results", "analyze", "m.jsonl")["rates"] == whole["rates"]
    resumed = cli("resume", "m.jsonl")
    assert "nothing to do" in resumed.err
    assert here.is_dir()


def test_a_run_stops_when_enough_is_known_and_says_why(here: Path, cli: Cli) -> None:
    rows = [json.dumps({"id": n, "content": "x", "judge_name": "canary", "judge_args": "PWNED"}) for n in range(300)]
    (here / "d.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
    ran = cli(*RUN, "--stop-when", "asr < 10%", "--concurrency", "1")
    assert ran.code == 0
    assert "stopped early: --stop-when asr < 10%: 0.0% [0.0, 10.0]" in ran.err
    end = records(here / "j.jsonl")[-1]
    assert (end["complete"], end["decided"]) == (False, True)
    assert 20 < len(attempts(here / "j.jsonl")) < 100
    assert cli("resume", "j.jsonl").code == 0
    assert len(attempts(here / "j.jsonl")) == 300


def sequence(successes: int, failures: int) -> tuple[float, float]:
    """Return all rates against which the evidence is below 20, by scipy."""

    def surplus(rate: float) -> float:
        mixture = betaln(successes + 0.5, failures + 0.5) - betaln(0.5, 0.5)
        return float(mixture - successes * math.log(rate) - failures * math.log1p(-rate) - math.log(20))

    seen = successes / (successes + failures)
    return brentq(surplus, 1e-9, seen, xtol=1e-12), brentq(surplus, seen, 1 - 1e-9, xtol=1e-12)


def test_the_rate_of_a_run_with_a_rule_has_an_interval_that_holds_whenever_it_stops(here: Path, cli: Cli) -> None:
    rows = [
        {"id": n, "content": f"x {n % 4}", "judge_name": "canary", "judge_args": "PWNED", "kind": "ab"[n % 2]}
        for n in range(300)
    ]
    (here / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    ran = document(cli, *RUN, "--stop-when", "asr > 10%", "--concurrency", "1")
    entries, rate = ran["entries"], ran["rates"]["asr"]
    assert 20 < entries["total"] < 300
    assert rate["method"] == "confidence sequence"
    expected = sequence(entries["success"], entries["failure"])
    assert (rate["low"], rate["high"]) == pytest.approx(expected, abs=1e-9)
    assert rate["low"] > 0.10
    assert ran["rates"]["asr_at_most"] == rate == ran["rates"]["asr_unclustered"]
    (told,) = (one["message"] for one in ran["findings"] if one["code"] == "F034")
    assert "it stopped early by --stop-when asr > 10%; the interval of the success rate allows for that" in told
    assert "(95% confidence sequence)" in " ".join(cli("results", "analyze", "j.jsonl").out.split())
    again = document(cli, "results", "analyze", "j.jsonl", "--by", "kind")
    assert again["rates"] == ran["rates"]
    assert {group["rate"]["method"] for group in again["breakdowns"]["kind"]} == {"wilson"}
    assert "intervals of groups" in again["limits"][-1]
    part = document(cli, "results", "analyze", "j.jsonl", "--where", "kind = b")
    assert part["entries"]["total"] < entries["total"]
    assert part["rates"]["asr"]["method"] == "confidence sequence"
    # A gate reads the same limit: 10.0x% is just above the rule's 10%.
    gated = cli("results", "analyze", "j.jsonl", "--fail-on", f"asr.low < {100 * expected[0] - 0.001:.4f}%")
    assert gated.code == 0, gated.err
    gated = cli("results", "analyze", "j.jsonl", "--fail-on", f"asr.low < {100 * expected[0] + 0.001:.4f}%")
    assert gated.code == 1


@pytest.mark.usefixtures("here")
def test_files_with_and_without_a_rule_keep_their_intervals_side_by_side(cli: Cli) -> None:
    assert cli(*RUN, "--stop-when", "asr > 90%").code == 0
    assert cli("run", "d.jsonl", "--target", "./bot.py:guard", "--journal", "plain.jsonl").code == 0
    both = document(cli, "results", "analyze", "j.jsonl", "plain.jsonl", "--combine", "--cluster", "none")
    methods = {Path(one["path"]).name: one["rate"]["method"] for one in both["by_source"]}
    assert methods == {"j.jsonl": "confidence sequence", "plain.jsonl": "wilson"}
    assert both["rates"]["asr"]["method"] == "confidence sequence"
    compared = cli("results", "compare", "j.jsonl", "plain.jsonl", "--cluster", "none", "--output-format", "json")
    rates = {Path(one["path"]).name: one["rate"] for one in json.loads(compared.out)["files"]}
    for one in both["by_source"]:
        rate = rates[Path(one["path"]).name]
        assert (rate["method"], rate["low"], rate["high"]) == tuple(one["rate"][k] for k in ("method", "low", "high"))
    families = cli("results", "compare", "j.jsonl", "plain.jsonl", "--output-format", "json")
    alone = document(cli, "results", "analyze", "j.jsonl")["rates"]["asr"]
    assert {**json.loads(families.out)["files"][0]["rate"], "unit": "entry"} == alone
    assert alone["method"] == "confidence sequence, families"
    # It had a rule, and it has come to the end: what it would have shown had it stopped counts, too.
    assert not [one for one in both["findings"] if one["code"] == "F034"]


def test_an_incomplete_run_exits_with_4_whatever_its_gates_say(here: Path, cli: Cli) -> None:
    assert here.is_dir()
    gates = ("--fail-on", "asr > 0.5%", "--fail-on", "asr < 99%")
    ran = cli(*RUN, *gates, "--max-calls", "5", "--concurrency", "1")
    assert ran.code == 4
    assert "the run is incomplete: --max-calls: 5 requests were sent" in ran.err
    assert "failed:" not in ran.err
    complete = cli("run", "d.jsonl", "--target", "./bot.py:answer", "--journal", "k.jsonl", *gates)
    assert complete.code == 1
    assert complete.err.count(": failed: ") == 2


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (Ending(complete=True), 0),
        (Ending(complete=False, why="enough", decided=True), 0),
        (Ending(complete=False, why="enough", interrupted=True), 130),
        (Ending(complete=False, why="--max-calls"), 4),
        (Ending(complete=False, why="interrupted", interrupted=True, aborted=True), 130),
    ],
)
def test_how_a_run_ended_is_its_exit_code_and_gates_are_for_complete_or_decided_runs(
    here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, ending: Ending, code: int
) -> None:
    execute = lifecycle.execute
    monkeypatch.setattr(lifecycle, "execute", lambda *a, **k: replace(ending, attempts=execute(*a, **k).attempts))
    assert cli(*RUN).code == code
    gated = cli("run", "d.jsonl", "--target", "./bot.py:answer", "--journal", "g.jsonl", "--fail-on", "asr > 0.5%")
    assert gated.code == (code or 1)
    assert here.is_dir()


def test_a_target_that_is_down_passes_no_gate_and_ends_no_run_early(here: Path, cli: Cli) -> None:
    rows = [json.dumps({"id": n, "content": "x", "judge_name": "canary", "judge_args": "PWNED"}) for n in range(400)]
    (here / "d.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
    run = ("run", "d.jsonl", "--target", "./bot.py:broken", "--fail-on", "asr.high > 5%", "--stop-when", "asr < 5%")
    ran = cli(*run, "--journal", "j.jsonl")
    assert ran.code == 1
    assert "stopped early" not in ran.err
    assert "asr.high > 5%: inconclusive, which counts as a failure: 400 of 400 entries ended in an error" in ran.err
    assert len(attempts(here / "j.jsonl")) == 400
    ran = cli(*run, "--journal", "ignored.jsonl", "--errors", "ignore")
    assert ran.code == 0
    assert "stopped early" in ran.err


def test_a_plan_counts_what_an_attack_may_take(here: Path, cli: Cli) -> None:
    assert here.is_dir()
    words = (
        "plan",
        "d.jsonl",
        "--attempts",
        "2",
        "--attack",
        "best-of-n",
        "--attack-iterations",
        "5",
        "--shard",
        "1/2",
    )
    plan = json.loads(cli(*words, "--output-format", "json").out)
    assert (len(plan["cases"]), plan["calls"], plan["at_most"]) == (5, 5 * 7, True)
    assert cli(*words, "--stop-when", "asr < 5%").code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--attack-iterations", "3"], "needs --attack"),
        (["--attack-only"], "needs --attack"),
        (["--tags", "a"], "--tags works only with tests"),
        (["--report-layout", "per-metric"], "--report-layout works only with tests"),
        (["--fail-on-failed-tests"], "--fail-on-failed-tests works only with tests"),
        (["--attempts", "0"], "--attempts must be 1 or more"),
        (["--attack", "best-of-n", "--attack-iterations", "0"], "--attack-iterations must be 1 or more"),
        (["--retries", "-1"], "--retries must be 0 or more"),
        (["--judge", "nobody"], "nobody"),
        (["--map", "prompt"], "--map"),
        (["--shard", "1/2", "--stop-when", "asr < 5%"], "--stop-when does not work with --shard: each shard would"),
        (["--shard", "1/2", "--sample", "5", "--sample-seed", "random"], "would draw another sample"),
    ],
)
def test_what_does_not_fit_is_told_before_anything_is_written(
    here: Path, cli: Cli, words: list[str], told: str
) -> None:
    ran = cli(*RUN, *words)
    assert ran.code == 2
    assert told in ran.err
    assert not (here / "j.jsonl").exists()


def test_what_is_for_datasets_is_refused_for_tests(here: Path, cli: Cli) -> None:
    sample = Path(__file__).parents[2] / "docs/samples/test_assistant.py"
    (here / "test_x.py").write_text(sample.read_text("utf-8"), "utf-8")
    for words in (["--attack", "best-of-n"], ["--shard", "1/2"], ["--stop-when", "asr < 5%"], ["--sample", "5"]):
        ran = cli("run", "test_x.py", "--target", "simulated", *words)
        assert ran.code == 2
        assert f"{words[0]} works only with datasets" in ran.err
