"""Targets: a server over HTTP, the user's own code in every shape, REBEL's clients, and what a journal makes again."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from faircount.chat import ChatSettings
from faircount.compat import read_api_config
from faircount.components import Context, make_again
from faircount.core import FaircountError, InputError, UsageError
from faircount.runs import (
    OURS,
    Answer,
    LocalTarget,
    OpenAITarget,
    Request,
    Target,
    TargetError,
    available,
    make_target,
    resolve,
)
from tests.conftest import Cli
from tests.runs.misbehaving_server import Server, answer, completion, echo_of_headers, failing, reset, slow

KEY = "sk-sentinel-0123456789abcdefSECRET"
VARIABLE = "FAIRCOUNT_TARGET_TEST_KEY"
FILE_KEY = "sk-of-a-file-0123456789abcdefSECRET"
HELLO = ({"role": "user", "content": "hello"},)
REQUEST = Request(HELLO, case="greets_[]", attempt=2)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


def chat(server: Server, **told: Any) -> ChatSettings:
    told = {"model": "m", "api_key_env": VARIABLE, "tries": 1, "backoff": 0.0, **told}
    return ChatSettings(base_url=server.url, **told)


def ask(target: Target, request: Request = REQUEST) -> Answer:
    return ask_all(target, [request])[0]


def ask_all(target: Target, requests: Sequence[Request]) -> list[Answer]:
    """Ask everything at once in one event loop, and close the target."""

    async def run() -> list[Answer]:
        try:
            return await asyncio.gather(*map(target.answer, requests))
        finally:
            await target.close()

    return asyncio.run(run())


def error_of(target: Target, request: Request = REQUEST) -> TargetError:
    with pytest.raises(TargetError) as caught:
        ask(target, request)
    return caught.value


def with_choice(finish_reason: str, text: str | None = None, **message: Any) -> dict[str, Any]:
    content = completion(text, **message)
    content["choices"][0]["finish_reason"] = finish_reason
    return content


# -- a server ---------------------------------------------------------------------------------------------------


def test_an_answer_is_kept_exactly_as_it_came(server: Server) -> None:
    server.script = [answer(completion("  two\n\nlines  \n"), x_request_id="req-7")]
    got = ask(OpenAITarget(chat(server, prices={"m": {"prompt": 1.0, "completion": 2.0}})))
    assert got.output == "  two\n\nlines  \n"
    assert (got.model, got.finish_reason, got.request_id) == ("m-2024-08-06", "stop", "req-7")
    assert (got.prompt_tokens, got.completion_tokens) == (7, 3)
    assert got.cost == pytest.approx((7 * 1.0 + 3 * 2.0) / 1e6)
    assert (got.tries, got.waited, got.context) == (1, 0.0, ())


def test_messages_go_as_they_are_and_what_is_null_is_left_out(server: Server) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = (
        {"role": "user", "content": "x", "tool_calls": None, "tool_call_id": None},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "42", "tool_call_id": "c1"},
    )
    ask(OpenAITarget(chat(server)), Request(messages))
    assert server.received[0].json["messages"] == [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "42", "tool_call_id": "c1"},
    ]


def test_the_parameters_of_a_case_go_before_those_of_the_settings_and_its_model_too(server: Server) -> None:
    target = OpenAITarget(chat(server, parameters={"temperature": 0.2, "max_tokens": 9, "stream": True}))
    ask(target, Request(HELLO, {"temperature": 1.0, "model": "other"}))
    sent = server.received[0].json
    assert (sent["temperature"], sent["max_tokens"], sent["model"]) == (1.0, 9, "other")
    assert "stream" not in sent


@pytest.mark.parametrize("stream", [True, False])
def test_stream_among_the_parameters_of_a_case_is_left_out_and_loses_nothing(server: Server, stream: bool) -> None:
    target = OpenAITarget(chat(server))
    assert target.settings()["stream"] is False
    assert ask(target, Request(HELLO, {"stream": stream, "stream_options": {}})).output == "hello"
    assert "stream" not in server.received[0].json


@pytest.mark.parametrize("finish_reason", ["stop", "tool_calls", "length"])
def test_tool_calls_are_kept_whatever_the_finish_reason_says(server: Server, finish_reason: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"b": 2,  "a": 1}'}}
    server.script = [answer(with_choice(finish_reason, None, tool_calls=[call]))]
    got = ask(OpenAITarget(chat(server)))
    assert got.tools_called == (call,)
    assert (got.output, got.finish_reason) == ("", finish_reason)


def test_latency_is_that_of_the_try_that_succeeded(server: Server) -> None:
    server.script = [slow(0.4, failing(500)), answer()]
    got = ask(OpenAITarget(chat(server, tries=2)))
    assert got.tries == 2
    assert got.latency < 0.3


@pytest.mark.parametrize(
    ("step", "kind", "words"),
    [
        (failing(500, "boom"), "status", "500"),
        (failing(401, "who are you"), "refused key", VARIABLE),
        (answer(b"<html>"), "not json", "not JSON"),
        (answer({"choices": []}), "incomplete", "choices"),
        (reset(), "connection", ""),
        (slow(5), "timeout", "0.2 s"),
    ],
)
def test_a_failed_request_is_an_error_with_its_kind(server: Server, step: Any, kind: str, words: str) -> None:
    server.script = [step]
    error = error_of(OpenAITarget(chat(server, timeout=0.2)))
    assert (error.kind, error.tries) == (kind, 1)
    assert words in error.message == str(error)


def test_tries_and_waits_of_a_failed_request_are_counted(server: Server) -> None:
    server.script = [failing(503, retry_after_ms="30")]
    error = error_of(OpenAITarget(chat(server, tries=3)))
    assert error.tries == 3 == len(server.received)
    assert error.waited >= 0.06


def test_an_answer_that_the_content_filter_stopped_is_blocked_and_what_it_cost_is_known(server: Server) -> None:
    server.script = [answer(with_choice("content_filter", "half of"))]
    error = error_of(OpenAITarget(chat(server)))
    assert error.kind == "blocked"
    assert error.answer is not None
    assert (error.answer.output, error.answer.completion_tokens) == ("half of", 3)


@pytest.mark.parametrize(
    "error",
    [
        # Azure's and OpenAI's own words.
        {
            "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management "
            "policy. Please modify your prompt and retry.",
            "code": "content_filter",
            "status": 400,
        },
        {"message": "Your request was rejected as a result of our safety system.", "code": "content_policy_violation"},
        {"code": "content_filter", "message": None},
        {"code": "content_filter", "message": "The prompt was refused."},
    ],
)
def test_a_prompt_that_the_content_filter_refused_is_blocked(server: Server, error: Mapping[str, Any]) -> None:
    server.script = [answer({"error": error}, 400)]
    assert error_of(OpenAITarget(chat(server))).kind == "blocked"


def test_another_bad_request_is_not_blocked(server: Server) -> None:
    server.script = [failing(400, "max_tokens is too large")]
    assert error_of(OpenAITarget(chat(server))).kind == "status"


def test_parameters_that_cannot_be_sent_are_an_error_of_their_case_alone(server: Server) -> None:
    error = error_of(OpenAITarget(chat(server)), Request(HELLO, {"temperature": float("nan")}))
    assert (error.kind, error.tries) == ("parameters", 0)
    assert not server.received


def test_attempts_are_never_answered_from_a_cache(server: Server, tmp_path: Path) -> None:
    server.script = [answer(completion("one")), answer(completion("two"))]
    target = OpenAITarget(chat(server, cache=str(tmp_path / "cache"), concurrency=1))
    texts = {got.output for got in ask_all(target, [REQUEST, REQUEST])}
    assert texts == {"one", "two"}
    assert not (tmp_path / "cache").exists()


def test_the_key_is_sent_and_in_nothing_that_is_recorded(server: Server) -> None:
    server.script = [echo_of_headers(200), echo_of_headers(400)]
    target = OpenAITarget(chat(server, concurrency=1))

    async def both() -> tuple[Answer, TargetError]:
        got = await target.answer(REQUEST)
        with pytest.raises(TargetError) as caught:
            await target.answer(REQUEST)
        await target.close()
        return got, caught.value

    got, error = asyncio.run(both())
    assert [one.headers["authorization"] for one in server.received] == [f"Bearer {KEY}"] * 2
    assert KEY not in json.dumps(target.settings())
    assert KEY not in repr(got)
    assert KEY not in "".join((str(error), repr(error.__dict__), repr(target)))


def test_what_looks_like_a_key_in_the_address_or_the_parameters_is_refused() -> None:
    for told in (
        {"base_url": f"https://host/v1?api-key={KEY}"},
        {"base_url": f"https://host/{KEY}/v1"},
        {"parameters": {"headers": {"api_key": KEY}}},
    ):
        with pytest.raises(UsageError, match="contains a key or what looks like one") as caught:
            OpenAITarget(ChatSettings(model="m", **told))
        assert KEY not in str(caught.value)


def test_the_key_itself_is_refused_where_it_would_be_recorded_though_it_looks_like_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = "a passphrase without any form".replace(" ", "/")
    monkeypatch.setenv(VARIABLE, plain)
    for told in ({"base_url": f"https://host/{plain}"}, {"parameters": {"user": plain}}):
        OpenAITarget(ChatSettings(model="m", api_key_env="", **told))
        with pytest.raises(UsageError, match=f"--api-key-env .now {VARIABLE}") as caught:
            OpenAITarget(ChatSettings(model="m", api_key_env=VARIABLE, **told))
        assert plain not in str(caught.value)


def test_a_server_target_is_made_again_of_what_is_recorded(server: Server) -> None:
    target = make_target("openai", Context(chat(server, parameters={"seed": 3}, tries=4)))
    recorded = json.loads(json.dumps(target.settings()))
    asyncio.run(target.close())
    other = make_again("target", recorded)
    assert other.settings() == target.settings()
    assert ask(other).output == "hello"
    assert server.received[0].json["seed"] == 3


@pytest.mark.shared
def test_the_stub_that_rebel_lost_tool_calls_of_loses_none_here(shared: Path) -> None:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    stub = subprocess.Popen([sys.executable, str(shared / "tools" / "openai_stub.py"), "--port", str(port)])
    try:
        _wait_for(port)
        settings = ChatSettings(base_url=f"http://127.0.0.1:{port}/v1", model="m", api_key_env=VARIABLE)
        asked = Request(({"role": "user", "content": 'TOOLSTOP:add {"a": 1}'},))
        got = ask(OpenAITarget(settings), asked)
    finally:
        stub.terminate()
        stub.wait(10)
    assert [call["function"] for call in got.tools_called] == [{"name": "add", "arguments": '{"a": 1}'}]
    assert got.finish_reason == "stop"


def _wait_for(port: int) -> None:
    import socket

    for _ in range(200):
        with socket.socket() as trying:
            if trying.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError("the stub did not start")


# -- the user's own code ----------------------------------------------------------------------------------------

CODE = '''
"""Targets of every shape."""
import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace

from faircount.runs.targets.base import Answer, Request, Target, TargetError
from faircount.testing import APIClient, AssistantInput, AssistantOutput, ToolCall


def of_messages(messages, **parameters):
    return f"{messages[-1]['content']} {sorted(parameters)}"

async def async_of_messages(messages, **parameters):
    await asyncio.sleep(0)
    return f"{messages[-1]['content']} {sorted(parameters)}"

def picky(messages, temperature=1.0):
    return f"at {temperature}"

def of_request(request):
    return f"{request.case} {request.attempt}"

def annotated(asked: Request):
    return f"{asked.case} {asked.attempt}"

def annotated_by_text(asked: "Request"):
    return f"{asked.case} {asked.attempt}"

def messages_called_request(request: list):
    return request[0]["content"]

def of_input(given: AssistantInput):
    return f"{given.messages[0].content} {given.api_params}"

def mapping(messages):
    return {"output": "m", "tools_called": [{"name": "f", "input_parameters": {"a": 1}}], "context": ["c"],
            "execution_time": 1.5, "model": "x", "usage": {"prompt_tokens": 3, "completion_tokens": 4, "cost": 0.5}}

def whole_answer(messages):
    return Answer(output="a", model="y", finish_reason="stop")

def output_of_rebel(messages):
    return AssistantOutput(output="r", tools_called=[ToolCall(name="f", input_parameters={"a": 1})], context=["c"])

@dataclass
class Like:
    output: str = "like"
    tools_called: list = field(default_factory=list)
    context: list = field(default_factory=list)
    execution_time: float = 2.5

def like(messages):
    return Like()

def returns_a_coroutine(messages):
    return async_of_messages(messages)

def greedy(messages, **parameters):
    messages[0]["content"] = "changed"
    parameters["list"].append("changed")
    return "ok"

def raises(messages):
    raise LookupError("no such thing")

def raises_with_secret(messages):
    raise ValueError("Authorization: Bearer sk-abcdefghijklmnopqrst")

def leaves(messages):
    raise SystemExit(3)

async def leaves_async(messages):
    raise SystemExit(3)

def ends(messages):
    raise StopIteration

def own_error(messages):
    raise TargetError("overloaded", "try later", 4, 1.5)

def nothing(messages):
    pass

def number(messages):
    return 7

def strange(messages):
    return {"output": "x", "text": "y"}

def empty(messages):
    return {}

def with_number(messages):
    return {"output": 7}

def with_negative_time(messages):
    return {"output": "x", "execution_time": -1}

def nameless_tool(messages):
    return {"tools_called": [{"arguments": "{}"}]}

def takes_nothing():
    return "x"

def limited(messages, limit=1, **parameters):
    return f"limit {limit} {sorted(parameters)}"

class Client:
    def __init__(self, url="here", times=1):
        self.url, self.times = url, times
    def request(self, input):
        return AssistantOutput(output=f"{self.url} {input.messages[-1].content * self.times} {input.api_params}")

class Derived(APIClient):
    async def request(self, input: AssistantInput) -> AssistantOutput:
        dumped = [message.model_dump(exclude_none=True) for message in input.messages]
        return AssistantOutput(output=str(dumped[0]["content"]), execution_time=0.25)

class Responds:
    def respond(self, messages, **parameters):
        return f"responds {messages[0]['content']}"

class Answers:
    closed = []
    async def answer(self, request: Request) -> Answer:
        return Answer(output=f"answers {request.case}")
    async def close(self):
        Answers.closed.append(1)

class Called:
    def __call__(self, messages):
        return "called"

class AsyncCalled:
    async def __call__(self, messages):
        return "async called"

class WholeTarget(Target):
    name = "whole"
    def settings(self):
        return {}
    async def answer(self, request):
        return Answer(output=request.messages[0]["content"], latency=9.0)

class Silent:
    pass

class Demanding:
    def __init__(self, api_key):
        if api_key != "right":
            raise ValueError(f"the key {api_key} is wrong")
    def respond(self, messages):
        return "x"

class Leaky:
    def __init__(self, api_key):
        self.api_key = api_key
    def respond(self, messages):
        if messages[0]["content"] == "fail":
            raise RuntimeError(f"server refused {self.api_key}")
        key = self.api_key
        call = {"id": key, "type": key, "function": {"name": key, "arguments": {"a": key}}}
        words = dict.fromkeys(["model", "finish_reason", "request_id"], key)
        return {"output": f"my key is {key}", "context": [key], "tools_called": [call], **words}

ready = Called()
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "mine.py").write_text(CODE, encoding="utf-8")
    return tmp_path


def local(name: str, target_args: str | None = None, **told: Any) -> Target:
    return make_target(name if ":" in name else f"./mine.py:{name}", Context(**told), target_args=target_args)


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("of_messages", "hello ['a']"),
        ("async_of_messages", "hello ['a']"),
        ("of_request", "greets_[] 2"),
        ("annotated", "greets_[] 2"),
        ("annotated_by_text", "greets_[] 2"),
        ("of_input", "hello {'a': 1}"),
        ("Client", "here hello {'a': 1}"),
        ("Derived", "hello"),
        ("Responds", "responds hello"),
        ("Answers", "answers greets_[]"),
        ("WholeTarget", "hello"),
        ("Client(url='there', times=2)", "there hellohello {'a': 1}"),
        ("limited(limit=3)", "limit 3 ['a']"),
    ],
)
def test_code_of_every_shape_gets_what_its_signature_asks_for(name: str, output: str) -> None:
    assert ask(local(name), Request(HELLO, {"a": 1}, "greets_[]", 2)).output == output


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("messages_called_request", "hello"),
        ("returns_a_coroutine", "hello []"),
        ("Called", "called"),
        ("AsyncCalled", "async called"),
        ("ready", "called"),
        ("picky", "at 1.0"),
    ],
)
def test_code_without_parameters_of_the_case(name: str, output: str) -> None:
    assert ask(local(name)).output == output


def test_a_parameter_of_the_case_goes_to_the_function_that_takes_it_and_is_never_dropped() -> None:
    assert ask(local("picky"), Request(HELLO, {"temperature": 0.5})).output == "at 0.5"
    error = error_of(local("picky"), Request(HELLO, {"top_p": 0.5}))
    assert error.kind == "parameters"
    assert "top_p" in error.message
    assert "**parameters" in error.message


def test_a_parameter_of_the_case_goes_before_an_argument_of_the_user() -> None:
    assert ask(local("limited(limit=3)"), Request(HELLO, {"limit": 5})).output == "limit 5 []"


def test_what_a_mapping_says_is_kept() -> None:
    got = ask(local("mapping"))
    call = {"id": "", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    assert got == Answer("m", (call,), ("c",), 1.5, "x", None, 3, 4, 0.5)


def test_an_answer_an_output_of_rebels_shape_and_an_object_like_it_are_answers() -> None:
    whole = ask(local("whole_answer"))
    assert (whole.output, whole.model, whole.finish_reason) == ("a", "y", "stop")
    assert 0 < whole.latency < 5
    rebel = ask(local("output_of_rebel"))
    assert (rebel.output, rebel.context) == ("r", ("c",))
    assert rebel.tools_called[0]["function"] == {"name": "f", "arguments": '{"a": 1}'}
    assert (ask(local("like")).output, ask(local("like")).latency) == ("like", 2.5)
    assert ask(local("Derived")).latency == 0.25
    assert ask(local("WholeTarget")).latency == 9.0


def test_code_that_changes_what_it_gets_changes_no_record() -> None:
    request = Request(({"role": "user", "content": "hello"},), {"list": []})
    assert ask(local("greedy"), request).output == "ok"
    assert request == Request(({"role": "user", "content": "hello"},), {"list": []})


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("raises", "LookupError", "no such thing (mine.py:"),
        ("leaves", "SystemExit", "3"),
        ("leaves_async", "SystemExit", "3"),
        ("ends", "StopIteration", "StopIteration"),
        ("nothing", "wrong answer", "returned NoneType"),
        ("number", "wrong answer", "returned int"),
        ("strange", "wrong answer", '"text"'),
        ("empty", "wrong answer", "neither output nor tools_called"),
        ("with_number", "wrong answer", "output of the answer is int"),
        ("with_negative_time", "wrong answer", "execution_time"),
        ("nameless_tool", "wrong answer", "a function name"),
    ],
)
def test_what_code_raises_or_wrongly_returns_is_an_error_with_its_kind(name: str, kind: str, words: str) -> None:
    error = error_of(local(name))
    assert error.kind == kind
    assert words in error.message


def test_an_error_names_the_line_of_the_users_file() -> None:
    line = CODE.splitlines().index('    raise LookupError("no such thing")') + 1
    assert error_of(local("raises")).message == f"no such thing (mine.py:{line})"


def test_an_error_of_the_users_making_keeps_its_kind_and_its_counts() -> None:
    error = error_of(local("own_error"))
    assert (error.kind, error.message, error.tries, error.waited) == ("overloaded", "try later", 4, 1.5)


def test_secrets_in_errors_are_masked() -> None:
    message = error_of(local("raises_with_secret")).message
    assert "abcdefghijklmnopqrst" not in message
    assert "masked" in message


def test_an_object_is_closed() -> None:
    target = local("Answers")
    module = [loaded for name, loaded in sys.modules.items() if ".mine_" in name][-1]
    module.Answers.closed.clear()
    ask(target)
    assert module.Answers.closed == [1]


def test_sync_code_does_not_block_the_loop_however_many_wait(folder: Path) -> None:
    many = 40  # more than a pool of threads has on a small machine
    code = f"""
        import threading
        barrier = threading.Barrier({many}, timeout=10)
        def waits(messages):
            barrier.wait()
            return "met"
    """
    (folder / "waiting.py").write_text(textwrap.dedent(code), encoding="utf-8")
    answers = ask_all(local("./waiting.py:waits"), [REQUEST] * many)
    assert {got.output for got in answers} == {"met"}


def test_code_that_hangs_is_given_up_and_does_not_keep_the_program_from_ending(folder: Path) -> None:
    (folder / "hanging.py").write_text("import time\ndef hangs(messages):\n    time.sleep(60)\n", encoding="utf-8")
    script = """
        import asyncio
        from faircount.chat.settings import ChatSettings
        from faircount.components import Context
        from faircount.runs import make_target
        from faircount.runs.targets.base import Request, TargetError
        target = make_target("./hanging.py:hangs", Context(ChatSettings(timeout=0.1)))
        try:
            asyncio.run(target.answer(Request(())))
        except TargetError as error:
            print(error.kind, error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "timeout no answer within 0.1 s\n"


def test_threads_that_have_answered_are_asked_again_and_keep_no_program_from_ending() -> None:
    def waiting() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one.name == "faircount-waiting"]

    ask_all(local("of_messages"), [REQUEST] * 8)
    before = waiting()
    for _ in range(50):
        ask_all(local("of_messages"), [REQUEST])
    assert 1 <= len(waiting()) <= len(before) + 1
    assert all(one.daemon for one in waiting())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("./absent.py:Name", "no such file"),
        ("./mine.py:absent", "has no absent; it has"),
        ("./mine.py", "name the target"),
        ("./mine.py:takes_nothing", "takes no parameters"),
        ("./mine.py:Silent", "request, answer, respond, __call__"),
        ("./mine.py:Client(nonsense=1)", "cannot be created with these arguments: TypeError"),
        ("./mine.py:Client(url=there)", 'url="there"'),
        ("./mine.py:Client(1)", "name its arguments"),
        ("./mine.py:picky(limit=1)", "has no argument limit; it takes temperature"),
        ("./mine.py:ready(limit=1)", "takes no arguments"),
        ("./mine.py:Client(", "cannot be parsed at character"),
        ("absent_module_of_mine:Name", "no such module"),
    ],
)
def test_what_cannot_be_a_target_is_said_before_the_run(name: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        local(name)
    assert words in str(caught.value)


def test_a_file_that_fails_to_load_is_said_with_its_line(folder: Path) -> None:
    (folder / "broken.py").write_text("x = 1\nimport absent_module_of_mine\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"\./broken\.py:2|broken\.py:2"):
        local("./broken.py:x")


def test_a_module_in_the_current_folder_is_found(folder: Path) -> None:
    (folder / "target_module_a.py").write_text("def f(messages):\n    return 'from module'\n", encoding="utf-8")
    target = local("target_module_a:f")
    assert ask(target).output == "from module"
    assert target.name == "target_module_a:f"


def test_a_path_with_blanks_needs_no_quotes_unless_it_has_arguments(folder: Path) -> None:
    (folder / "my targets").mkdir()
    (folder / "my targets" / "one.py").write_text("def f(messages, n=1):\n    return str(n)\n", encoding="utf-8")
    assert ask(local("./my targets/one.py:f")).output == "1"
    assert ask(local('"./my targets/one.py:f"(n=2)')).output == "2"


def test_local_code_is_made_again_from_another_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = local("Client(url='there')", target_args='{"times": 2}', chat=ChatSettings(timeout=7.0))
    recorded = json.loads(json.dumps(target.settings()))
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    told: list[str] = []
    other = make_again("target", recorded, told.append)
    assert other.settings() == target.settings()
    assert ask(other).output == "there hellohello {}"
    assert not told


def test_code_that_changed_since_the_run_began_is_said(folder: Path) -> None:
    recorded = local("Called").settings()
    (folder / "mine.py").write_text(CODE + "\n# changed\n", encoding="utf-8")
    told: list[str] = []
    make_again("target", recorded, told.append)
    assert len(told) == 1
    assert "has changed" in told[0]


def test_an_argument_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="times is given twice"):
        local("Client(times=1)", target_args='{"times": 2}')


@pytest.mark.parametrize("text", ["[1]", "nonsense", '{"a": 1', '"x"'])
def test_arguments_that_are_no_json_object_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--target-args: not a JSON object"):
        local("Client", target_args=text)


# -- secrets among arguments ------------------------------------------------------------------------------------


def test_a_secret_argument_is_used_and_recorded_nowhere() -> None:
    told: list[str] = []
    target = local("Leaky", target_args=json.dumps({"api_key": KEY}), tell=told.append)
    assert target.settings()["arguments"] == {"api_key": f"${OURS}API_KEY"}
    assert f"{OURS}API_KEY" in told[0]

    async def both() -> tuple[Answer, TargetError]:
        got = await target.answer(REQUEST)
        with pytest.raises(TargetError) as caught:
            await target.answer(Request(({"role": "user", "content": "fail"},)))
        return got, caught.value

    got, error = asyncio.run(both())
    everything = json.dumps(target.settings()) + repr(got) + str(error) + repr(vars(error)) + "".join(told)
    assert KEY not in everything
    assert got.output == "my key is [key]"
    assert repr(got).count("[key]") == 9


def test_a_secret_argument_is_taken_from_the_environment_when_a_run_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = local("Demanding", target_args='{"api_key": "right"}', tell=lambda _: None).settings()
    with pytest.raises(UsageError, match=f"{OURS}API_KEY, which is not set"):
        make_again("target", recorded)
    monkeypatch.setenv(f"{OURS}API_KEY", "right")
    assert ask(make_again("target", recorded)).output == "x"


def test_an_argument_can_name_a_variable_and_then_nothing_else_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "right")
    told: list[str] = []
    target = local("Demanding(api_key='$MY_KEY')", tell=told.append)
    assert target.settings()["arguments"] == {"api_key": "$MY_KEY"}
    assert ask(make_again("target", target.settings())).output == "x"
    assert not told


def test_a_constructor_that_quotes_its_secret_does_not_give_it_away() -> None:
    with pytest.raises(UsageError, match="is wrong") as caught:
        local("Demanding", target_args=json.dumps({"api_key": KEY}))
    assert KEY not in str(caught.value)


def test_secrets_are_found_by_name_and_by_look_however_deep_they_stand() -> None:
    told = {
        "url": "http://localhost",
        "headers": {"Authorization": "$ecret words"},
        "list": [{"token": "abc"}, f"key={KEY}"],
        "max_tokens": 7,
        "price": "$$FIVE",
    }
    found = resolve(told)
    assert found.given == {**told, "price": "$FIVE"}
    assert found.recorded == {
        "url": "http://localhost",
        "headers": {"Authorization": f"${OURS}HEADERS_AUTHORIZATION"},
        "list": [{"token": f"${OURS}LIST_0_TOKEN"}, f"${OURS}LIST_1"],
        "max_tokens": 7,
        "price": "$$FIVE",
    }
    assert KEY not in repr(found)


# -- REBEL's flags ----------------------------------------------------------------------------------------------


def test_rebels_flags_name_a_client_in_the_current_folder(folder: Path) -> None:
    (folder / "rebel_client_b.py").write_text(CODE, encoding="utf-8")
    target = make_target(
        "",
        Context(),
        api_client_module="rebel_client_b",
        api_client_class="Client",
        api_client_args='{"url": "u", "times": 2}',
    )
    assert isinstance(target, LocalTarget)
    assert target.name == "rebel_client_b:Client"
    assert ask(target, Request(HELLO, {"a": 1})).output == "u hellohello {'a': 1}"
    assert ask(make_again("target", json.loads(json.dumps(target.settings())))).output == "u hellohello {}"


@pytest.mark.parametrize("module", ["openai", "simulated", "spikee"])
def test_a_client_in_a_module_that_is_called_as_a_target_is_loaded_all_the_same(
    folder: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))  # to load code adds its folder
    (folder / f"{module}.py").write_text(CODE, encoding="utf-8")
    arguments = '{"url": "u", "times": 2}'
    flags = {"api_client_module": module, "api_client_class": "Client", "api_client_args": arguments}
    target = make_target("", Context(), **flags)
    assert isinstance(target, LocalTarget)
    assert target.name == f"{module}:Client"
    assert ask(target).output == "u hellohello {}"
    assert ask(make_again("target", json.loads(json.dumps(target.settings())))).output == "u hellohello {}"
    del sys.modules[module]


def test_a_model_can_be_given_in_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "a key that nobody sees")
    target = make_target(
        "openai(model='b', base_url='http://localhost:1/v1', api_key_env='SOME_KEY')",
        Context(ChatSettings(model="a", timeout=9)),
    )
    chat = target.settings()["chat"]
    assert (chat["model"], chat["base_url"], chat["api_key_env"]) == ("b", "http://localhost:1/v1", "SOME_KEY")
    assert chat["timeout"] == 9
    assert make_again("target", json.loads(json.dumps(target.settings()))).settings() == target.settings()


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"api_client_module": "m"}, "--api-client-module needs --api-client-class"),
        ({"api_client_class": "C"}, "--api-client-class needs --api-client-module"),
        ({"api_client_args": "{}"}, "needs"),
        ({"api_client_module": "mine", "api_client_class": "C", "name": "openai"}, "each name a target"),
        ({"api_client_module": "mine", "api_client_class": "Client", "api_client_args": "[]"}, "--api-client-args"),
    ],
)
def test_rebels_flags_that_do_not_fit_are_refused(told: dict[str, str], words: str) -> None:
    name = told.pop("name", "")
    with pytest.raises(UsageError, match=words):
        make_target(name, Context(), **told)


def test_a_client_goes_before_a_configuration_as_in_rebel_and_that_is_said() -> None:
    told: list[str] = []
    flags = {"api_client_module": "mine", "api_client_class": "Client", "api_config": "x.json"}
    assert isinstance(make_target(None, Context(tell=told.append), **flags), LocalTarget)
    assert told == ["--api-config is not used: --api-client-module names the target"]


def test_a_client_of_rebels_own_classes_gets_rebels_own_input(folder: Path) -> None:
    """REBEL needs pydantic, so that a package of the same name and shape stands for it here."""
    package = folder / "rebel"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "models.py").write_text(
        "class AssistantInput:\n    def __init__(self, messages, api_params):\n"
        "        self.messages, self.api_params = messages, api_params\n",
        encoding="utf-8",
    )
    (package / "collector.py").write_text(
        "from rebel.models import AssistantInput\nclass APIClient:\n    pass\n", encoding="utf-8"
    )
    (folder / "rebel_client_c.py").write_text(
        "from rebel.collector import APIClient\n"
        "class Mine(APIClient):\n    def request(self, input):\n"
        "        return type(input).__module__ + ' ' + repr(input.messages[0])\n",
        encoding="utf-8",
    )
    try:
        flags = {"api_client_module": "rebel_client_c", "api_client_class": "Mine"}
        message = {"role": "assistant", "content": None, "name": "x"}
        got = ask(make_target("", Context(), **flags), Request((message,)))
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "rebel"]:
            del sys.modules[name]
    assert got.output == "rebel.models {'role': 'assistant', 'content': ''}"


@pytest.fixture
def config(tmp_path: Path, server: Server) -> Callable[..., str]:
    def write(**told: Any) -> str:
        path = tmp_path / "api.json"
        path.write_text(json.dumps({"base_url": server.url, "model": "m", **told}), encoding="utf-8")
        return str(path)

    return write


def test_a_configuration_of_rebels_works_and_what_rebel_ignores_is_sent(
    server: Server, config: Callable[..., str]
) -> None:
    told: list[str] = []
    path = config(api_key=FILE_KEY, temperature=0.3, max_tokens=17, timeout=5, stream=True)
    target = make_target("", Context(tell=told.append), api_config=path)
    assert isinstance(target, OpenAITarget)
    assert target.chat.timeout == 5
    assert ask(target).output == "hello"
    sent = server.received[0]
    assert (sent.json["temperature"], sent.json["max_tokens"], sent.json["model"]) == (0.3, 17, "m")
    assert sent.headers["authorization"] == f"Bearer {FILE_KEY}"
    assert "api_key" not in sent.json
    assert "timeout" not in sent.json
    assert len(told) == 1
    assert "api_key_env" in told[0]
    assert FILE_KEY not in told[0]


def test_a_key_in_the_configuration_is_in_nothing_that_is_recorded_and_not_in_the_environment(
    server: Server, config: Callable[..., str]
) -> None:
    path = config(api_key=FILE_KEY)
    target = make_target("openai", Context(tell=lambda _: None), api_config=path)
    assert FILE_KEY not in os.environ.values()
    assert FILE_KEY not in json.dumps(target.settings())
    assert FILE_KEY not in repr(read_api_config(path))
    server.script = [echo_of_headers(401)]
    error = error_of(target)
    assert FILE_KEY not in str(error)
    assert "the key in api_key of api.json" in str(error)


def test_a_configured_target_is_made_again_with_the_key_of_its_file(server: Server, config: Callable[..., str]) -> None:
    path = config(api_key=FILE_KEY, temperature=0.3)
    target = make_target("", Context(chat=ChatSettings(tries=2), tell=lambda _: None), api_config=path)
    recorded = json.loads(json.dumps(target.settings()))
    asyncio.run(target.close())
    other = make_again("target", recorded)
    assert other.settings() == target.settings()
    ask(other)
    assert server.received[0].headers["authorization"] == f"Bearer {FILE_KEY}"
    assert server.received[0].json["temperature"] == 0.3


def test_a_configuration_can_name_the_variable_of_its_key(server: Server, config: Callable[..., str]) -> None:
    told: list[str] = []
    ask(make_target("", Context(tell=told.append), api_config=config(api_key_env=VARIABLE)))
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"
    assert not told


def test_what_the_user_says_goes_before_the_configuration(server: Server, config: Callable[..., str]) -> None:
    path = config(temperature=0.3, api_key_env=VARIABLE)
    told = ChatSettings(model="mine", parameters={"temperature": 0.9})
    ask(make_target("openai", Context(chat=told), api_config=path))
    assert server.received[0].json["model"] == "mine"
    assert server.received[0].json["temperature"] == 0.9


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        (b"{", ": not JSON"),
        (b"[]", ": not a JSON object"),
        (b'{"api_key": 7, "model": "m"}', "api_key is not a string"),
        (b'{"model": "m", "timeout": "long"}', "timeout"),
        (b'{"base_url": "http://localhost:1/v1"}', "no model given"),
        (b'{"model": "m", "base_url": "nonsense"}', "base_url"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_said(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "api.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((InputError, UsageError)) as caught:
        make_target("", Context(), api_config=str(path))
    assert words in str(caught.value)


def test_advice_goes_to_whoever_listens(config: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []
    for path in (config(api_key=FILE_KEY), None):
        asyncio.run(make_target("" if path else "simulated", Context(tell=heard.append), api_config=path).close())
    (sentence,) = heard
    assert "contains a key" in sentence
    assert FILE_KEY not in sentence
    assert capsys.readouterr() == ("", "")


def test_a_command_says_advice_on_standard_error(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "api.toml").write_text('url = "https://127.0.0.1:9/"\nverify = false\n')
    ran = cli("targets", "try", str(tmp_path / "api.toml"), "Hello", "--timeout", "2")
    assert ran.code == 4
    assert "api.toml: verify is false" in ran.err


# -- names ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("opnai", "did you mean openai?"),
        ("simulate", "did you mean simulated"),
        ("simulated:flakey", "did you mean simulated:flaky"),
        ("nonsense", "no such target; available: openai"),
        ("openai:gpt-4o", "did you mean openai? available"),
        ("openai(temperature=0)", "has no argument temperature; it takes model, base_url, api_key_env"),
        ("openai(model=3)", "openai: model must be a string"),
        ("openai", "no model given"),
        ("", "no target given"),
        ("simulated(seed", "cannot be parsed at character"),
        ("simulated(sed=1)", "has no option sed; it takes seed"),
        ("simulated(7)", "name its arguments"),
    ],
)
def test_a_name_that_is_no_target_is_refused_with_what_was_meant(name: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_target(name, Context())
    assert words in str(caught.value)


def test_a_configuration_belongs_to_no_other_target_than_openai() -> None:
    with pytest.raises(UsageError, match="--api-config is for the target openai"):
        make_target("simulated", Context(), api_config="x.json")


def test_every_target_that_is_listed_has_a_sentence() -> None:
    assert [one.name for one in available()][:2] == ["openai", "simulated"]
    assert all(one.sentence and not one.sentence.endswith(".") for one in available())


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "simulated", "name": "./loud.py:answer"},
        {"kind": "http", "name": "./loud.py:answer", "file": "target.toml"},
        {"kind": "plugin", "name": "./loud.py:answer", "timeout": 1.0},
    ],
)
def test_a_journal_loads_no_code_by_a_record_of_another_kind(settings: Mapping[str, Any], folder: Path) -> None:
    (folder / "loud.py").write_text("raise SystemExit('loaded')\n")
    with pytest.raises(InputError, match="records another kind"):
        make_again("target", settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"kind": "nonsense"},
        {"kind": "openai"},
        {"kind": "local", "place": "x"},
        {"kind": "simulated", "name": 7},
        {"kind": "simulated", "name": "absent"},
    ],
)
def test_a_journal_that_does_not_say_how_its_target_is_made_is_refused(settings: Mapping[str, Any]) -> None:
    with pytest.raises(FaircountError) as caught:
        make_again("target", settings)
    assert caught.value.exit_code in (2, 3)


def test_nothing_heavy_is_loaded_to_list_the_targets() -> None:
    script = (
        "import sys\nfrom faircount.runs import available\navailable()\n"
        "print([n for n in ('aiohttp', 'asyncio', 'numpy', 'duckdb', 'rich', 'jsonschema') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
