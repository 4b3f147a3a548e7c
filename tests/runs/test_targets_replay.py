"""Saved results as a target: each prompt gets what was answered then, in the order of the attempts, or an error."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from faircount.components import Context, make_again
from faircount.core import InputError, UsageError
from faircount.runs import BLOCKED, Answer, ReplayTarget, Request, Target, TargetError, make_target
from tests.conftest import row
from tests.runs.running import Run, Scripted, case
from tests.runs.target_outcomes import in_turn

Written = Callable[..., Path]


def asked(prompt: str, entry: str | int | None = None, attempt: int = 0) -> Request:
    fields = {} if entry is None else {"id": entry}
    return Request(({"role": "user", "content": prompt},), case=f"case {entry}", attempt=attempt, fields=fields)


def outcomes(target: Target, *requests: Request) -> list[Any]:
    return in_turn(target, requests)


def texts(told: Iterable[Any]) -> list[str]:
    return [one.output if isinstance(one, Answer) else f"{one.kind}: {one.message}" for one in told]


@pytest.fixture
def results(tmp_path: Path) -> Callable[..., Path]:
    def write(*rows: dict[str, Any] | str) -> Path:
        path = tmp_path / "results.jsonl"
        lines = [one if isinstance(one, str) else json.dumps(one) for one in rows]
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return path

    return write


# -- spikee's files ---------------------------------------------------------------------------------------------


def test_every_row_of_a_file_is_given_back(results: Written) -> None:
    rows = [
        row(n, input=f"prompt {n}\n\u00e9 {n % 7}", response=f"answer {n}", response_time=n / 10) for n in range(300)
    ]
    told = outcomes(ReplayTarget(str(results(*rows))), *[asked(one["input"], one["id"]) for one in reversed(rows)])
    assert [(one.output, one.latency) for one in told] == [(r["response"], r["response_time"]) for r in reversed(rows)]


def test_the_id_tells_apart_what_has_the_same_prompt(results: Written) -> None:
    path = results(row(1, input="same", response="of 1"), row("b", input="same", response="of b"))
    told = outcomes(ReplayTarget(str(path)), asked("same", "b"), asked("same", 1), asked("same", "1"))
    assert texts(told[:2]) == ["of b", "of 1"]
    assert told[2].kind == "not recorded" and "it has 1 to this prompt" in told[2].message


def test_without_a_known_id_the_prompt_decides(results: Written) -> None:
    path = results(row(1, input="same", response="of 1"), row(2, input="same", response="of 2"))
    told = outcomes(ReplayTarget(str(path)), asked("same"), asked("same", 77), asked("same"), asked("other", 1))
    assert texts(told[:2]) == ["of 1", "of 2"]
    assert [one.kind for one in told[2:]] == ["not recorded", "not recorded"]
    assert "it does not have this prompt" in told[3].message and told[3].tries == 0


def test_iterations_of_an_attack_are_given_by_the_entry_that_they_were_made_on(results: Written) -> None:
    history = [
        {"input": "try", "response": "a", "success": False, "error": None},
        {"input": "try harder", "response": "", "success": False, "error": "boom 500"},
        {"input": "try", "response": "b", "success": True, "error": None},
    ]
    path = results(
        row(5, input="plain", response="no"),
        row("5-attack", input="try", response="b", attack_name="best_of_n", attempt_history=history),
    )
    told = outcomes(ReplayTarget(str(path)), *[asked(one, 5) for one in ("plain", "try", "try harder", "try", "try")])
    assert texts(told)[:4] == ["no", "a", "replayed: boom 500", "b"]
    assert told[4].kind == "not recorded"


def test_errors_blocks_and_decisions_are_what_they_were(results: Written) -> None:
    path = results(
        row(1, input="a", response="", error="HTTP 500"),
        row(2, input="b", response="", error="stop", guardrail=True, guardrail_categories={"hate": True, "x": False}),
        row(3, input="c", response="True", success=True),
        row(4, input="d", response="False", success=False),
        row(5, input="e", response="True", success=False),
    )
    error, block, yes, no, text = outcomes(ReplayTarget(str(path)), *[asked(x, n + 1) for n, x in enumerate("abcde")])
    assert (error.kind, error.message) == ("replayed", "HTTP 500")
    assert (block.kind, block.message, block.categories) == (BLOCKED, "stop", ("hate",))
    assert (yes.let_through, no.let_through, text.let_through) == (True, False, None)


def test_damaged_lines_answer_nothing_and_are_reported(results: Written) -> None:
    path = results("{torn", '{"id": 1, "input": "a", "response": NaN}', "[]", "", row(2, input="b", response="\ud800"))
    said: list[str] = []
    told = outcomes(ReplayTarget(str(path), said.append), asked("a", 1), asked("b", 2))
    assert texts(told) == ["", "\ud800"]
    assert [sentence.rpartition(":")[2] for sentence in said] == ["1", "3"]
    assert all("1 line could not be read and was skipped" in sentence for sentence in said)


def test_a_packed_file_is_read_too(results: Written) -> None:
    path = results(row(1, input="a", response="x"))
    packed = path.with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert texts(outcomes(ReplayTarget(str(packed)), asked("a", 1))) == ["x"]


def test_texts_stay_in_the_file(results: Written) -> None:
    path = results(*[row(n, input=f"p{n}", response="x" * 100_000) for n in range(200)])
    tracemalloc.start()
    target = ReplayTarget(str(path))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000 < path.stat().st_size
    assert len(outcomes(target, asked("p7", 7))[0].output) == 100_000


# -- journals ---------------------------------------------------------------------------------------------------


def test_a_run_that_is_replayed_answers_as_it_did(tmp_path: Path) -> None:
    async def answering(request: Request) -> Answer:
        if request.attempt == 1:
            raise TargetError("status", "status 500")
        if request.case == "b":
            raise TargetError(BLOCKED, "stop", categories=("hate",))
        return Answer(output=f"{request.case} {request.attempt}", prompt_tokens=3, model="m")

    cases = [case("a", attempts=3), case("b", attempts=1)]
    run = Run(tmp_path, cases, Scripted(answering))
    assert run.go().complete
    requests = [Request(one.messages, case=one.name, attempt=n) for one in cases for n in range(one.attempts)]
    first, error, third, block = outcomes(ReplayTarget(run.path), *requests)
    assert (first.output, first.prompt_tokens, first.model, third.output) == ("a 0", 3, "m", "a 2")
    assert (error.kind, error.message) == ("status", "status 500")
    assert (block.kind, block.categories) == (BLOCKED, ("hate",))
    (late,) = outcomes(ReplayTarget(run.path), Request(cases[0].messages, case="a", attempt=9))
    assert late.output == "a 0"  # an attempt that was not made then gets what is there, from the first on


def journal(path: Path, *records: dict[str, Any]) -> str:
    head = {"kind": "run", "schema": 1, "aim": "attack", "run": "x", "version": "0", "settings": {}}
    path.write_text("".join(json.dumps(one) + "\n" for one in (head, *records)))
    return str(path)


def test_a_journal_of_attacks_gives_iterations_and_turns(tmp_path: Path) -> None:
    entry = {"kind": "case", "case": "e7", "input": {"messages": [{"role": "user", "content": "plain"}]}}
    conversation = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "first"},
        {"role": "user", "content": "two"},
    ]

    def attempt(number: int, said: str | None, **more: Any) -> dict[str, Any]:
        output = None if said is None else {"output": said, "tools_called": [], "context": [], "execution_time": 1.5}
        return {"kind": "attempt", "case": "e7", "attempt": number, "output": output, "error": None, **more}

    path = journal(
        tmp_path / "run.jsonl",
        entry | {"entry": {"id": 7}, "metrics": []},
        attempt(0, "void"),
        {"kind": "retry", "case": "e7", "attempt": 0},
        attempt(0, "no"),
        attempt(1, None, error={"kind": BLOCKED, "message": "stop", "categories": ["x"]}, messages=conversation[:1]),
        attempt(2, "last", messages=conversation),
        attempt(3, None, messages=[{"role": "user", "content": "g"}])
        | {"output": {"output": "True", "let_through": True}},
    )
    told = outcomes(
        ReplayTarget(path),
        asked("plain", 7),
        asked("one", 7, attempt=1),
        asked("one", 7, attempt=5),
        asked("one", 7, attempt=6),
        asked("two", 7, attempt=2),
        asked("g", 7, attempt=3),
    )
    assert (told[0].output, told[0].latency) == ("no", 1.5)
    assert (told[1].kind, told[1].categories) == (BLOCKED, ("x",))
    # The order of the journal: the block, then what was answered in the conversation.
    assert told[2].kind == BLOCKED and told[3].output == "first"
    assert told[4].output == "last" and told[5].let_through is True


# -- names ------------------------------------------------------------------------------------------------------


def test_a_replay_is_named_and_made_again(results: Written) -> None:
    path = results(row(1, input="a", response="x"))
    target = make_target(f'replay(file="{path}")', Context())
    settings = json.loads(json.dumps(dict(target.settings())))
    assert settings == {"kind": "replay", "name": "replay", "file": str(path)}
    assert (
        texts(outcomes(target, asked("a", 1)))
        == texts(outcomes(make_again("target", settings), asked("a", 1)))
        == ["x"]
    )


@pytest.mark.parametrize("name", ["answers.csv", "answers.jsonl", "answers.csv.gz"])
def test_any_table_answers_when_its_columns_are_named(tmp_path: Path, name: str) -> None:
    rows = [{"Nr": f"{n}", "Question": f"say, {n}", "answer": f"it is {n}", "took": f"{n}.5"} for n in range(3)]
    rows.append({"Nr": "x", "Question": "broken", "answer": "", "took": ""})
    if "csv" in name:
        lines = [",".join(f'"{value}"' for value in one.values()) for one in rows]
        text = "\n".join(["Nr,Question,answer,took", *lines, ""])
    else:
        text = "".join(json.dumps(one) + "\n" for one in rows)
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    columns = "id=nr,prompt=question,response=answer,response_time=took"
    target = make_target(f'replay(file="{path}", map="{columns}")', Context())
    again = make_again("target", json.loads(json.dumps(target.settings())))
    for one in (target, again):
        told = outcomes(one, asked("say, 2", "2"), asked("say, 0"), asked("Say, 0"))
        assert texts(told)[:2] == ["it is 2", "it is 0"]
        assert told[0].latency == 2.5
        assert told[2].kind == "not recorded"


def test_a_map_that_fits_no_column_names_those_there_are(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("question,answer\na,b\n")
    with pytest.raises(UsageError, match=r"has no column reply \(map=.*; its columns: question, answer"):
        ReplayTarget(str(path), columns="prompt=question,response=reply")
    with pytest.raises(UsageError, match="the roles are id, prompt, response, error, response_time"):
        ReplayTarget(str(path), columns="judge=question")
    with pytest.raises(UsageError, match="map is text"):
        make_target(f'replay(file="{path}", map=3)', Context())


def test_a_file_without_answers_is_refused(results: Written, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        make_target('replay(file="gone.jsonl")', Context())
    with pytest.raises(InputError, match="no saved answers"):
        ReplayTarget(str(results({"id": 1, "prompt": "a"})))
    with pytest.raises(InputError, match="no saved answers"):
        ReplayTarget(journal(tmp_path / "run.jsonl"))
    with pytest.raises(UsageError, match="takes one argument, the file"):
        make_target("replay", Context())


@pytest.mark.shared
def test_published_files_are_given_back_whole(shared: Path) -> None:
    files = [path for path in sorted(shared.rglob("results_*.jsonl")) if "hostile" not in str(path)]
    small = sorted((path for path in files if 2_000 < path.stat().st_size < 3_000_000), key=lambda path: path.name)
    checked = 0
    for path in small[:6]:
        saved = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        plain = [
            one
            for one in saved
            if not (one.get("attempt_history") or one.get("error") or one.get("guardrail"))
            and isinstance(one.get("input"), str)
        ]
        requests = [asked(one["input"], str(one["id"]).removesuffix("-attack")) for one in plain]
        told = outcomes(ReplayTarget(str(path)), *requests)
        assert texts(told) == [one.get("response") or "" for one in plain], path.name
        checked += len(plain)
    assert checked > 50
