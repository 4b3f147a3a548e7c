"""Prompts that a provider refuses during a run: blocked whoever the target is, sent once, and no reason to stop."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faircount.chat import ChatSettings
from faircount.components import Context
from faircount.runs import (
    BLOCKED,
    Answer,
    Budget,
    Limits,
    OpenAITarget,
    ReplayTarget,
    Request,
    Strategy,
    Target,
    TargetError,
    make_target,
)
from tests.conftest import Cli, analysis_of, codes, row
from tests.core.test_policy_blocks import FILTERED, FLAGGED, OUTAGES, outcomes_of
from tests.runs.misbehaving_server import Server, answer, failing
from tests.runs.running import Run, Scripted, attempts, case, records
from tests.runs.target_outcomes import in_turn

SAID = "Invalid prompt: your prompt was flagged as potentially violating our usage policy."
REFUSED = {"error": {"message": SAID, "type": "invalid_request_error", "code": "invalid_prompt"}}
BY_CODE = {"error": {"message": None, "code": "content_filter"}}
REQUEST = Request(({"role": "user", "content": "hello"},), case="a")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


def chat(server: Server, **told: Any) -> ChatSettings:
    return ChatSettings(**{"base_url": server.url, "model": "m", "api_key_env": "", "tries": 4, "backoff": 0.0, **told})


def came_of(target: Target) -> TargetError:
    (told,) = in_turn(target, [REQUEST])
    assert isinstance(told, TargetError)
    return told


# -- targets that see all that a server says ----------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 403, 429, 500])
@pytest.mark.parametrize(("body", "pattern"), [(REFUSED, "openai-usage-policy"), (BY_CODE, "azure-content-filter")])
def test_a_refusal_of_a_model_is_sent_once_whatever_its_status(
    server: Server, status: int, body: Any, pattern: str
) -> None:
    server.script = [answer(body, status)]
    error = came_of(OpenAITarget(chat(server)))
    assert (error.kind, error.policy_block, error.tries) == (BLOCKED, pattern, 1)
    assert len(server.received) == 1


def test_an_error_under_status_200_can_be_a_refusal_too(server: Server) -> None:
    server.script = [answer(REFUSED)]
    assert came_of(OpenAITarget(chat(server))).policy_block == "openai-usage-policy"


def test_an_outage_is_sent_again_and_no_block(server: Server) -> None:
    server.script = [failing(429, "Rate limit reached for gpt-4o")]
    error = came_of(OpenAITarget(chat(server)))
    assert (error.kind, error.policy_block, error.tries) == ("status", None, 4)


@pytest.mark.parametrize("status", [400, 403, 500])
def test_a_refusal_of_any_server_is_sent_once(server: Server, tmp_path: Path, status: int) -> None:
    (tmp_path / "target.toml").write_text(f'url = "{server.url}"\njson = {{q = "{{prompt}}"}}\nanswer = "a"\n', "utf-8")
    server.script = [answer(BY_CODE, status)]
    error = came_of(make_target(str(tmp_path / "target.toml"), Context(chat=chat(server), tell=lambda _: None)))
    assert (error.kind, error.policy_block, len(server.received)) == (BLOCKED, "azure-content-filter", 1)


def test_a_module_of_spikees_is_asked_once_although_its_error_has_a_429(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = tmp_path / "asked"
    code = f"""
def process_input(input_text, system_message=None):
    with open({str(asked)!r}, "a") as file:
        file.write("x")
    raise RuntimeError({FLAGGED + " (request 429)"!r})
"""
    (tmp_path / "target.py").write_text(code, "utf-8")
    setting = Context(chat=ChatSettings(tries=4, backoff=0.0), tell=lambda _: None)
    error = came_of(make_target("spikee:./target.py", setting))
    assert (error.kind, error.policy_block) == (BLOCKED, "openai-usage-policy")
    assert asked.read_text() == "x"


# -- every other target -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [RuntimeError(FLAGGED), TargetError("status", FLAGGED, 3, 0.5), TargetError("exit code", FLAGGED)]
)
def test_what_a_target_raises_is_recorded_as_a_block_with_its_pattern(tmp_path: Path, error: Exception) -> None:
    async def refuse(_: Request) -> Answer:
        raise error

    run = Run(tmp_path, [case("a")], Scripted(refuse))
    assert run.go().complete
    (record,) = run.attempts
    assert record["error"] | {"message": ""} == {
        "kind": "blocked",
        "message": "",
        "policy_block": "openai-usage-policy",
    }
    assert record["error"]["message"].startswith("Error code: 400 - {'error': {'message': 'Invalid prompt")
    assert (run.engine.progress.blocked, run.engine.progress.errors) == (1, 0)


@pytest.mark.parametrize("message", OUTAGES)
def test_an_outage_stays_what_it_is(tmp_path: Path, message: str) -> None:
    async def fail(_: Request) -> Answer:
        raise TargetError("status", message)

    run = Run(tmp_path, [case("a")], Scripted(fail))
    run.go()
    assert run.attempts[0]["error"] == {"kind": "status", "message": message}


def test_an_attempt_that_was_refused_is_not_made_again_and_its_entry_is_blocked(tmp_path: Path) -> None:
    async def refuse(_: Request) -> Answer:
        raise RuntimeError(FLAGGED)

    target = Scripted(refuse)
    run = Run(tmp_path, [case("a", fields={"id": "a"})], target, strategy=Strategy(retries=3))
    assert run.go().complete
    assert len(target.asked) == 1
    assert run.engine.progress.blocked == 1


def test_refusals_are_not_counted_as_errors_in_a_row() -> None:
    budget = Budget(Limits(stop_after_errors=2), 10)
    outage, block = TargetError("status", "HTTP 503"), TargetError(BLOCKED, SAID, policy_block="openai-usage-policy")
    assert [budget.take_answer(None, error) for error in (block, block, block, outage, block, outage)] == [""] * 6
    assert "2 requests in a row failed" in budget.take_answer(None, outage)


def test_saved_refusals_are_refusals_again(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    rows = [row(1, input="a", response="", error="x", policy_block="azure-content-filter")]
    rows += [row(2, input="b", response="", error=FLAGGED)]
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    run = Run(
        tmp_path,
        [case(str(n), messages=({"role": "user", "content": text},)) for n, text in ((1, "a"), (2, "b"))],
        ReplayTarget(str(path)),
    )
    run.go()
    patterns = {record["case"]: record["error"]["policy_block"] for record in run.attempts}
    assert patterns == {"1": "azure-content-filter", "2": "openai-usage-policy"}


# -- from the command line to the figures -------------------------------------------------------------------------


BOT = f"""
import sys

def answer(messages):
    text = messages[-1]["content"]
    if "refuse" in text:
        raise RuntimeError({FLAGGED!r})
    if "filter" in text:
        raise RuntimeError({FILTERED!r})
    return "PWNED" if "win" in text else "no"

if __name__ == "__main__":
    try:
        print(answer([{{"content": sys.stdin.read()}}]))
    except RuntimeError as error:
        sys.exit(str(error))
"""
TEXTS = ("win", "lose", *["refuse"] * 5, "filter")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bot.py").write_text(BOT, "utf-8")
    rows = [
        {"id": n, "content": f"{text} {n}", "judge_name": "canary", "judge_args": "PWNED"}
        for n, text in enumerate(TEXTS)
    ]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    return tmp_path


TARGETS = ("./bot.py:answer", f'command(argv=[{json.dumps(sys.executable)}, "bot.py"])')


@pytest.mark.parametrize("target", TARGETS)
def test_a_run_over_a_dataset_counts_refusals_as_blocks_and_goes_on(here: Path, cli: Cli, target: str) -> None:
    words = ["--stop-after-errors", "2", "--retries", "2", "--concurrency", "1", "--spikee-results", "results_s.jsonl"]
    ran = cli("run", "d.jsonl", "--target", target, "--journal", "j.jsonl", *words)
    assert ran.code == 0, ran.err
    assert len(attempts("j.jsonl")) == len(TEXTS)
    for path in ("j.jsonl", "results_s.jsonl"):
        analysis = analysis_of(path)
        assert outcomes_of(analysis) == {"success": 1, "failure": 1, "guardrail": 6}
        assert codes(analysis)["F035"] == 6
        assert outcomes_of(analysis_of(path, policy_blocks=False)) == {"success": 1, "failure": 1, "error": 6}
        assert outcomes_of(analysis_of(path, definition="spikee")) == {"success": 1, "failure": 1, "error": 6}
    rows = map(json.loads, (here / "results_s.jsonl").read_text("utf-8").splitlines())
    refused = next(one for one in rows if one["error"])
    assert (refused["policy_block"], refused.get("guardrail")) == ("openai-usage-policy", None)


@pytest.mark.usefixtures("here")
def test_a_run_that_was_recorded_by_the_code_alone_is_read_as_it_was_counted(server: Server, cli: Cli) -> None:
    server.script = [answer(BY_CODE, 400)]
    words = ["--base-url", server.url, "--model", "m", "--api-key-env", "", "--journal", "j.jsonl"]
    assert cli("run", "d.jsonl", "--target", "openai", *words, "--stop-after-errors", "1").code == 0
    assert len(server.received) == len(TEXTS)
    assert outcomes_of(analysis_of("j.jsonl")) == {"guardrail": len(TEXTS)}
    assert outcomes_of(analysis_of("j.jsonl", policy_blocks=False)) == {"error": len(TEXTS)}


@pytest.mark.usefixtures("here")
def test_trying_a_target_or_an_attack_says_that_it_was_blocked(cli: Cli) -> None:
    ran = cli("targets", "try", "./bot.py:answer", "refuse", "--output-format", "json")
    told = json.loads(ran.out)
    assert (ran.code, told["blocked"], told["categories"]) == (0, True, ["openai-usage-policy"])
    ran = cli(
        "attacks", "try", "random-suffix-search", "refuse", "--target", "./bot.py:answer", "--output-format", "json"
    )
    assert ran.code == 0, ran.err
    assert '"blocked": true' in ran.out


def test_a_resumed_run_tries_errors_again_and_no_blocks(here: Path, cli: Cli) -> None:
    down = '    if "lose" in text:\n        raise ConnectionError("down")\n'
    (here / "bot.py").write_text(BOT.replace("    return", f"{down}    return"), "utf-8")
    assert cli("run", "d.jsonl", "--target", "./bot.py:answer", "--journal", "j.jsonl").code == 0
    assert cli("resume", "j.jsonl", "--retry-errors").code == 0
    again = [record["case"] for record in records("j.jsonl") if record["kind"] == "retry"]
    assert again == [str(TEXTS.index("lose"))]
