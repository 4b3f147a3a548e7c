"""Programs as targets: started without a shell, killed with all that they started, and their secrets kept."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from faircount.chat import ChatSettings
from faircount.components import Context, make_again
from faircount.core import UsageError
from faircount.runs import BLOCKED, Answer, CommandTarget, Request, Target, TargetError, make_target, resolve
from tests.runs.target_outcomes import in_turn

SECRET = "hunter2-0123456789-not-to-be-seen"
REQUEST = Request(
    ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "héllo\nworld $HOME; rm -rf /"}),
    {"temperature": 0.5},
    case="entry-7",
    attempt=2,
    fields={"id": 7, "lang": "en"},
    conversation="c1",
)

Made = Callable[..., CommandTarget]


@pytest.fixture
def program(tmp_path: Path) -> Made:
    """Return a target of a program in Python."""

    def make(code: str, *, timeout: float = 20.0, **options: Any) -> CommandTarget:
        (tmp_path / "bot.py").write_text(textwrap.dedent(code), encoding="utf-8")
        told = {"argv": [sys.executable, "bot.py"], **options}
        return CommandTarget(resolve(told), str(tmp_path), timeout)

    return make


def ask(target: Target, *requests: Request) -> list[Answer]:
    async def run() -> list[Answer]:
        try:
            return [await target.answer(request) for request in requests or [REQUEST]]
        finally:
            await target.close()

    return asyncio.run(run())


def outcomes(target: Target, requests: Sequence[Request]) -> list[Answer | TargetError]:
    """Ask everything at once."""

    async def run() -> list[Any]:
        try:
            return await asyncio.gather(*map(target.answer, requests), return_exceptions=True)
        finally:
            await target.close()

    return asyncio.run(run())


def error_of(target: Target) -> TargetError:
    with pytest.raises(TargetError) as caught:
        ask(target)
    return caught.value


def said(text: str) -> Request:
    return Request(({"role": "user", "content": text},), case=text)


def is_gone(pid: int) -> bool:
    """Tell whether a process is gone within a moment; one that nobody waited for is a zombie."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


# -- a process for each request ---------------------------------------------------------------------------------


def test_a_program_gets_the_prompt_and_its_output_is_the_answer(program: Made) -> None:
    (told,) = ask(program("import sys; print('said: ' + sys.stdin.read())"))
    assert told.output == "said: héllo\nworld $HOME; rm -rf /"
    assert 0 < told.latency < 20


def test_nothing_goes_through_a_shell() -> None:
    target = make_target('command(argv=["echo", "$(id)", "; ls", "*"])', Context())
    assert ask(target)[0].output == "$(id) ; ls *"


def test_a_program_may_get_the_whole_request(program: Made) -> None:
    code = "import json, sys; print(json.dumps(json.load(sys.stdin)))"
    (told,) = ask(program(code, input="json"))
    assert json.loads(told.output) == {
        "prompt": "héllo\nworld $HOME; rm -rf /",
        "system": "Be brief.",
        "messages": [dict(one) for one in REQUEST.messages],
        "id": 7,
        "attempt": 2,
        "conversation": "c1",
        "parameters": {"temperature": 0.5},
        "fields": {"id": 7, "lang": "en"},
    }


@pytest.mark.parametrize(
    ("written", "output", "through"),
    [
        ('{"output": "hi", "usage": {"prompt_tokens": 3}}', "hi", None),
        ('"hi"', "hi", None),
        ("true", "True", True),
        ('{"let_through": false}', "False", False),
    ],
)
def test_an_answer_may_be_json(program: Made, written: str, output: str, through: bool | None) -> None:
    (told,) = ask(program(f"print({written!r})", output="json"))
    assert (told.output, told.let_through) == (output, through)


@pytest.mark.parametrize(
    ("written", "kind", "words"),
    [
        ("not json", "not json", "did not write JSON: not json"),
        ("", "not json", "nothing"),
        ('{"outptu": "x"}', "wrong answer", "outptu"),
        ("[1]", "wrong answer", "list"),
        ('{"error": "no model"}', "program", "no model"),
        ('{"blocked": "stop it", "categories": {"hate": 1, "x": 0}}', BLOCKED, "stop it"),
    ],
)
def test_an_answer_that_is_none_is_an_error(program: Made, written: str, kind: str, words: str) -> None:
    error = error_of(program(f"print({written!r})", output="json"))
    assert error.kind == kind and words in error.message
    assert error.categories == (("hate",) if kind == BLOCKED else ())


def test_json_is_no_answer_of_its_own_where_text_is_wanted(program: Made) -> None:
    assert ask(program("print('{\"output\": 1}')"))[0].output == '{"output": 1}'


def test_another_exit_code_than_0_is_an_error_with_the_first_words(program: Made) -> None:
    error = error_of(program("import sys; print('x'); sys.exit('broken \\x1b[31m' + 'z' * 100_000)"))
    assert error.kind == "exit code"
    assert error.message.startswith("the program ended with exit code 1: broken \\x1b[31mzzz")
    assert len(error.message) < 400
    error = error_of(program("import os, signal; os.kill(os.getpid(), signal.SIGTERM)"))
    assert "was killed by SIGTERM" in error.message


def test_a_program_need_not_read_its_prompt(program: Made) -> None:
    big = said("x" * 5_000_000)
    assert ask(program("print('done')"), big)[0].output == "done"


def test_a_program_that_hangs_is_killed_with_its_children(program: Made, tmp_path: Path) -> None:
    code = """
        import subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        open("pids", "w").write(f"{child.pid}")
        time.sleep(600)
    """
    target = program(code, timeout=600.0)
    target._timeout = 1.5
    error = error_of(target)
    assert error.kind == "timeout" and "1.5 s" in error.message
    assert is_gone(int((tmp_path / "pids").read_text()))


def test_a_program_that_is_no_longer_wanted_is_killed(program: Made, tmp_path: Path) -> None:
    target = program("import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)")

    async def run() -> None:
        task = asyncio.create_task(target.answer(REQUEST))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert is_gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("lines", [False, True])
def test_a_program_that_writes_too_much_is_ended(program: Made, lines: bool) -> None:
    target = program("import sys\nwhile True: sys.stdout.write('x' * 65536)", lines=lines)
    target._limit = 200_000
    before = time.monotonic()
    assert error_of(target).kind == "too large"
    assert time.monotonic() - before < 10, "nobody waits for the time-out, which is 20 seconds"


# -- secrets ----------------------------------------------------------------------------------------------------


def test_the_environment_is_handed_on_and_never_seen(program: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOT_API_KEY", SECRET)
    monkeypatch.setenv("BOT_PLAIN", "plain-0123456789-value")
    target = program("import os; print(os.environ['BOT_API_KEY'], os.environ['BOT_PLAIN'])")
    assert ask(target)[0].output == "[key] plain-0123456789-value"
    error = error_of(program("import os, sys; sys.exit(os.environ['BOT_API_KEY'])"))
    assert SECRET not in error.message and "[key]" in error.message
    assert "BOT" not in json.dumps(dict(target.settings()))


EVERYWHERE = """
    import json, os
    key = os.environ["BOT_API_KEY"]
    call = {"id": key, "type": key, "function": {"name": key, "arguments": {"a": key}}}
    words = dict.fromkeys(["output", "model", "finish_reason", "request_id"], key)
    print(json.dumps({**words, "tools_called": [call], "context": [key]}))
"""


@pytest.mark.parametrize("lines", [False, True])
def test_a_secret_is_hidden_in_everything_that_a_program_answers(
    program: Made, monkeypatch: pytest.MonkeyPatch, lines: bool
) -> None:
    monkeypatch.setenv("BOT_API_KEY", SECRET)
    code = textwrap.dedent(EVERYWHERE)
    (told,) = ask(program(f"input()\n{code}" if lines else code, lines=lines, output="json"))
    assert SECRET not in repr(told)
    assert repr(told).count("[key]") == 9


def test_arguments_may_name_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOT_WORD", SECRET)
    heard: list[str] = []
    target = make_target('command(argv=["echo", "$BOT_WORD"])', Context(tell=heard.append))
    assert ask(target)[0].output == "[key]"
    settings = json.loads(json.dumps(dict(target.settings())))
    assert settings["arguments"] == {"argv": ["echo", "$BOT_WORD"]}
    assert (settings["folder"], settings["timeout"], heard) == (str(tmp_path), 60.0, [])
    assert ask(make_again("target", settings))[0].output == "[key]"


# -- a process that stays ---------------------------------------------------------------------------------------


COUNTER = """
    import json, os, sys
    for number, line in enumerate(sys.stdin):
        asked = json.loads(line)["prompt"]
        if asked == "die":
            sys.exit("I am dead")
        if asked == "hang":
            import time
            time.sleep(600)
        if asked == "noise":
            print("no json", flush=True)
            continue
        print(json.dumps({"output": f"{asked} {number}", "request_id": str(os.getpid())}), flush=True)
        if asked == "last":
            break
"""


def test_one_process_answers_many_requests(program: Made) -> None:
    told = ask(program(COUNTER, lines=True), *[said(f"line\n{number}") for number in range(20)])
    assert [one.output for one in told] == [f"line\n{number} {number}" for number in range(20)]
    assert len({one.request_id for one in told}) == 1


def test_requests_at_once_wait_for_their_turn_or_have_processes_of_their_own(program: Made) -> None:
    requests = [said(str(number)) for number in range(12)]
    told = outcomes(program(COUNTER, lines=True), requests)
    assert [one.output.split()[0] for one in told if isinstance(one, Answer)] == [str(n) for n in range(12)]
    assert len({one.request_id for one in told if isinstance(one, Answer)}) == 1
    told = outcomes(program(COUNTER, lines=True, processes=3), requests)
    assert [one.output.split()[0] for one in told if isinstance(one, Answer)] == [str(n) for n in range(12)]
    assert 1 < len({one.request_id for one in told if isinstance(one, Answer)}) <= 3


def test_a_process_that_dies_is_started_anew(program: Made) -> None:
    requests = [said(text) for text in ("a", "die", "b", "last", "c", "noise", "d")]
    target = program(COUNTER, lines=True)
    first, died, second, last, third, noise, fourth = in_turn(target, requests)
    assert (first.output, second.output, last.output, third.output) == ("a 0", "b 0", "last 1", "c 0")
    assert (died.kind, died.message) == (
        "exit code",
        "the program ended with exit code 1 before it answered: I am dead",
    )
    assert noise.kind == "not json" and fourth.output == "d 2"


@pytest.mark.parametrize("asked", ["die", "crash", "kill"])
def test_a_request_that_kills_a_process_is_not_sent_to_the_next(program: Made, tmp_path: Path, asked: str) -> None:
    code = COUNTER.replace("asked = ", "asked = open('asked.log', 'a').write(line) and ")
    code = code.replace(
        'if asked == "hang"',
        'if asked == "crash":\n            raise ValueError("broken")\n        '
        'if asked == "kill":\n            os.kill(os.getpid(), 9)\n        if asked == "hang"',
    )
    first, died, second = in_turn(program(code, lines=True), [said("a"), said(asked), said("b")])
    assert (first.output, second.output) == ("a 0", "b 0")
    assert died.kind == "exit code" and "before it answered" in died.message
    sent = [json.loads(line)["prompt"] for line in (tmp_path / "asked.log").read_text().splitlines()]
    assert sent == ["a", asked, "b"]


def test_a_process_that_ends_well_after_its_answer_leaves_the_next_request_to_another(program: Made) -> None:
    requests = [said(text) for text in ("last", "last", "a")]
    assert [one.output for one in in_turn(program(COUNTER, lines=True), requests)] == ["last 0", "last 0", "a 0"]


def test_a_program_that_fails_after_it_has_answered_has_failed(program: Made) -> None:
    error = error_of(program("import sys; print('an answer', flush=True); sys.exit('and then it broke')"))
    assert (error.kind, error.message) == ("exit code", "the program ended with exit code 1: and then it broke")


def test_an_answer_that_comes_too_late_is_not_taken_for_the_next(program: Made) -> None:
    target = program(COUNTER, lines=True)
    target._timeout = 1.5
    told = outcomes(target, [said("hang"), said("b")])
    assert isinstance(told[0], TargetError) and told[0].kind == "timeout"
    assert isinstance(told[1], Answer) and told[1].output == "b 0"


def test_processes_that_stay_are_ended_with_the_target(program: Made) -> None:
    (told,) = ask(program(COUNTER, lines=True))
    assert is_gone(int(told.request_id or "0"))


# -- names ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("command", "needs argv"),
        ("command(argv=[])", "needs argv"),
        ('command(argv="ls -l")', "a list of strings"),
        ("command(argv=[1])", "Expected `str`"),
        ('command(argv=["ls"], shell=true)', "unknown field `shell`; it takes argv"),
        ('command(argv=["ls"], input="xml")', 'input must be "text" or "json"'),
        ('command(argv=["ls"], lines=true, input="text")', "with lines=true, both must be json"),
        ('command(argv=["ls"], processes=0)', "1 or more"),
        ('command(argv=["ls"], timeout=0)', "above 0"),
        ('command(argv=["./no-such-program"])', "no such program"),
        ('command(argv=["./data.txt"])', "not a program that can be started"),
    ],
)
def test_what_cannot_be_started_is_refused_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.txt").write_text("x")
    with pytest.raises(UsageError) as caught:
        make_target(name, Context())
    assert words in str(caught.value)


def test_the_time_of_the_run_holds_unless_the_target_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Context(chat=ChatSettings(timeout=7))
    assert make_target('command(argv=["ls"])', setting).settings()["timeout"] == 7
    assert make_target('command(argv=["ls"], timeout=3)', setting).settings()["timeout"] == 3
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(UsageError, match="no such program"):
        make_target('command(argv=["ls"])', setting)
