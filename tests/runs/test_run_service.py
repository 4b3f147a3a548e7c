"""Runs as Python calls: options by keyword, results as values, nothing printed, and the folder as it was."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from faircount.core import UsageError, options_from
from faircount.runs import bench, options, service
from tests.runs.running import attempts, write_tests

BOT = """\
async def answer(messages):
    return "PWNED" if messages[-1]["content"].split()[-1] in ("1", "2") else "no"
"""
KEYED = """\
class Bot:
    def __init__(self, api_key):
        pass

    def answer(self, messages):
        return "no"
"""
BENCH = """\
output_folder = "out"
[targets.bot]
target = "./bot.py:answer"
[datasets.small]
path = "d.jsonl"
"""


class Heard(service.RunListener):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.events: list[str] = []

    def notice(self, sentence: str) -> None:
        self.notices.append(sentence)

    def begin(self, journal: str, *, entries: bool) -> None:
        self.events.append(f"begin {Path(journal).name} {entries}")

    def progress(self, tally: Any) -> None:
        self.events.append(f"{tally.done}/{tally.total}")

    def end(self) -> None:
        self.events.append("end")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bot.py").write_text(BOT, "utf-8")
    rows = [{"id": n, "content": f"obey {n}", "judge_name": "canary", "judge_args": "PWNED"} for n in range(6)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return tmp_path


def test_a_run_is_a_call_that_prints_nothing(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    result = service.run(Path("d.jsonl"), target="./bot.py:answer", journal=here / "j.jsonl", concurrency=1)
    assert result.complete
    assert (result.journal, result.report, result.failure) == (str(here / "j.jsonl"), "", None)
    assert result.ending.attempts == len(attempts(here / "j.jsonl")) == 6
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("here")
def test_a_run_can_be_started_in_a_notebook_where_an_event_loop_is_running() -> None:
    async def cell() -> bool:
        return service.run("d.jsonl", target="./bot.py:answer").complete

    assert asyncio.run(cell())


@pytest.mark.usefixtures("here")
def test_a_listener_hears_how_it_goes() -> None:
    heard = Heard()
    service.run("d.jsonl", target="./bot.py:answer", journal="j.jsonl", concurrency=1, listener=heard)
    assert heard.events == ["begin j.jsonl True", *(f"{n}/6" for n in range(1, 7)), "end"]
    assert heard.notices == []
    service.resume("j.jsonl", listener=heard)
    assert heard.notices == ["the run is complete; nothing to do"]


def test_a_target_tells_the_listener_what_the_user_should_know(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    secret = "sk-sentinel-Zq81xW0v7Tn4Rr2LmKp9"
    (here / "keyed.py").write_text(KEYED, "utf-8")
    heard = Heard()
    service.run("d.jsonl", target="./keyed.py:Bot", target_args={"api_key": secret}, journal="j.jsonl", listener=heard)
    assert "arguments that look like secrets are not recorded" in heard.notices[0]
    assert capfd.readouterr() == ("", "")
    assert secret not in (here / "j.jsonl").read_text("utf-8")


def test_a_run_of_tests_has_a_report_and_says_what_failed(here: Path) -> None:
    write_tests(here, cases=3, attempts=2)
    result = service.run("tests", target="simulated", output_folder="out", concurrency=4)
    assert Path(result.report).parent == Path("out")
    assert json.loads(Path(result.report).read_text("utf-8"))["metadata"]
    failed, cases = result.failed_cases()
    assert cases == 3
    assert 0 <= failed <= 3


def test_a_report_that_cannot_be_written_loses_no_results(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    write_tests(here, cases=1, attempts=1)
    monkeypatch.setattr("faircount.runs.service.NewFile._publish", full)
    result = service.run("tests", target="simulated")
    assert result.complete
    assert result.report == ""
    assert "No space left on device; the results are safe in the journal" in str(result.failure)


def test_a_run_is_resumed_in_its_folder_and_the_caller_stays_in_his(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = service.run("d.jsonl", target="./bot.py:answer", journal="j.jsonl", concurrency=1, max_calls=2)
    assert not stopped.complete
    assert "--max-calls" in stopped.ending.why
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    result = service.resume("../j.jsonl", max_calls=100, spikee_results="rows.jsonl")
    assert result.complete
    assert Path.cwd() == elsewhere
    assert result.report == str(elsewhere / "rows.jsonl")
    assert len((elsewhere / "rows.jsonl").read_text().splitlines()) == len(attempts(here / "j.jsonl")) == 6


@pytest.mark.usefixtures("here")
def test_a_plan_is_a_value() -> None:
    found = service.plan("d.jsonl", attempts=2, attack="best-of-n", attack_iterations=3)
    assert (len(found.cases), found.calls, found.at_most) == (6, 6 * 5, True)


def test_shards_are_merged_into_a_new_file(here: Path) -> None:
    journals = [f"{n}.jsonl" for n in (1, 2)]
    for n, journal in enumerate(journals, start=1):
        service.run("d.jsonl", target="./bot.py:answer", journal=journal, shard=f"{n}/2")
    whole = service.merge(*journals, output="whole.jsonl")
    assert (whole.entries, whole.attempts, len(attempts(here / "whole.jsonl"))) == (6, 6, 6)
    with pytest.raises(UsageError, match="already exists"):
        service.merge(*journals, output="whole.jsonl")
    with pytest.raises(UsageError, match="is an input"):
        service.merge(*journals, output="1.jsonl", force=True)
    with pytest.raises(UsageError, match="nothing to merge"):
        service.merge(output="none.jsonl")


def test_a_bench_is_a_call_that_says_how_every_run_stands(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "b.toml").write_text(BENCH, "utf-8")
    assert bench.bench("b.toml", plan=True).states == ("planned",)
    heard = Heard()
    done = bench.bench(here / "b.toml", listener=heard)
    assert (done.states, done.complete, done.interrupted) == (("complete",), True, False)
    assert [cell.journal for cell in done.cells] == ["out/bot_small.jsonl"]
    assert heard.notices == ["1 of 1: bot_small"]
    assert bench.bench("b.toml", plan=True).states == ("begun",)
    assert capfd.readouterr() == ("", "")


# -- options ----------------------------------------------------------------------------------------------------


def test_keywords_become_options_and_what_is_none_is_the_default() -> None:
    given = {"paths": (Path("a"),), "case": "x", "sample": 0.5, "target_args": {"n": 1}, "judge": None, "journal": "j"}
    assert options_from(given, options.RunOptions, options.JournalOptions) == (
        options.RunOptions(paths=("a",), case=("x",), sample="0.5", target_args='{"n": 1}'),
        options.JournalOptions(journal="j"),
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_cost": -1}, "max_cost must be more than 0, not -1"),
        ({"concurrency": "many"}, "concurrency must be a whole number, not 'many'"),
        ({"report_layout": "wide"}, "report_layout must be one of per-case, per-metric, not 'wide'"),
        ({"attack_only": "yes"}, "attack_only must be true or false, not 'yes'"),
        ({"aggregation": "mean"}, "--aggregation works only with tests"),
    ],
)
def test_what_is_not_allowed_is_refused_before_anything_is_written(
    here: Path, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        service.run("d.jsonl", target="./bot.py:answer", **given)
    assert not (here / "results").exists()


def test_a_keyword_that_is_no_option_is_a_mistake_in_the_program() -> None:
    with pytest.raises(TypeError, match=r"no such option: modle; available: .*model"):
        service.run("d.jsonl", modle="x")
