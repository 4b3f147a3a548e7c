"""The chat client against a real server that misbehaves: patience, limits, costs, the cache, and what stays secret."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import logging
import os
import pickle
import random
import re
import shutil
import signal
import ssl
import stat
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from faircount.chat import (
    BUILT_IN,
    Address,
    Bucket,
    ChatAnswer,
    ChatClient,
    ChatError,
    ChatRequest,
    ChatSettings,
    ChatToolCall,
    Clock,
    Key,
    Prices,
    Proxy,
    Trouble,
    asked_wait,
    http,
    providers,
)
from faircount.core import UsageError
from tests.conftest import ROOT, interruptible
from tests.runs.misbehaving_server import (
    Server,
    Step,
    answer,
    completion,
    echo_of_headers,
    failing,
    half,
    huge,
    raw,
    reset,
    slow,
    trickle,
)

HELLO = [{"role": "user", "content": "hello"}]
KEY = "sk-sentinel-0123456789abcdefSECRET"
VARIABLE = "FAIRCOUNT_TEST_KEY"


class FastClock(Clock):
    """A clock on which waiting takes no time but is remembered."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return time.monotonic() + sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


Ask = Callable[..., ChatAnswer]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture
def clock() -> FastClock:
    return FastClock()


@pytest.fixture(autouse=True)
def _no_keys_or_proxies_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)


def settings_for(server: Server, **settings: Any) -> ChatSettings:
    return ChatSettings(**{"base_url": server.url, "model": "m", "api_key_env": VARIABLE, "seed": 1, **settings})


def asked(server: Server, *script: Step, clock: Clock | None = None, **settings: Any) -> ChatAnswer:
    """Ask a server that follows a script."""
    server.script = list(script) or server.script
    with ChatClient(settings_for(server, **settings), clock=clock or FastClock()) as client:
        return client.ask_now(HELLO)


def refused(server: Server, *script: Step, **settings: Any) -> ChatError:
    with pytest.raises(ChatError) as caught:
        asked(server, *script, **settings)
    return caught.value


def raised(expected: type[Exception], **settings: Any) -> str:
    with pytest.raises(expected) as caught:
        ChatClient(ChatSettings(**settings))
    return str(caught.value)


# What is sent and what comes back


def test_an_answer_has_its_text_its_tokens_and_what_it_took(server: Server) -> None:
    got = asked(server, answer(x_request_id="req-9"))
    assert (got.text, got.finish_reason, got.model) == ("hello", "stop", "m-2024-08-06")
    assert (got.prompt_tokens, got.completion_tokens, got.cost) == (7, 3, None)
    assert (got.tries, got.waited, got.cached, got.request_id) == (1, 0.0, False, "req-9")
    assert 0 < got.latency < 5


def test_the_request_is_the_one_that_openai_documents(server: Server) -> None:
    with ChatClient(settings_for(server, parameters={"temperature": 0, "seed": 3, "top_p": 0.5})) as client:
        client.ask_now(HELLO, parameters={"seed": 4, "top_p": None, "model": "other", "tools": [{"type": "function"}]})
    (request,) = server.received
    assert request.target == "/v1/chat/completions"
    assert request.json == {
        "model": "other",
        "messages": HELLO,
        "temperature": 0,
        "seed": 4,
        "tools": [{"type": "function"}],
    }
    assert request.headers["content-type"] == "application/json"
    assert "authorization" not in request.headers


def test_a_query_of_the_base_url_stays_behind_the_path(server: Server) -> None:
    asked(server, base_url=f"{server.url}/?api-version=2024")
    assert server.received[0].target == "/v1/chat/completions?api-version=2024"


def test_half_a_surrogate_pair_in_a_prompt_reaches_the_server(server: Server) -> None:
    with ChatClient(settings_for(server)) as client:
        client.ask_now([{"role": "user", "content": "a\ud800b"}])
    assert server.received[0].json["messages"][0]["content"] == "a\ud800b"


def test_a_prompt_of_three_megabytes_is_sent_whole(server: Server) -> None:
    with ChatClient(settings_for(server)) as client:
        client.ask_now([{"role": "user", "content": "x" * 3_000_000}])
    assert len(server.received[0].json["messages"][0]["content"]) == 3_000_000


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (completion(None, tool_calls=[CALL]), ChatAnswer("", (ChatToolCall("c1", "look", '{"a": 1}'),))),
        (completion(None, function_call={"name": "old"}), ChatAnswer("", (ChatToolCall("", "old", "{}"),))),
        (
            completion(None, tool_calls=[{"function": {"name": "f", "arguments": {"a": [1]}}}]),
            ChatAnswer("", (ChatToolCall("", "f", '{"a":[1]}'),)),
        ),
        (completion(None), ChatAnswer("")),
        (completion(None, refusal="I cannot."), ChatAnswer("I cannot.")),
        (completion("Yes", refusal="No"), ChatAnswer("Yes")),
        (
            completion([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]),
            ChatAnswer("ab"),
        ),
        (completion([{"type": "refusal", "refusal": "No."}]), ChatAnswer("No.")),
        (completion("\ud83d\ude00 \ud800"), ChatAnswer("😀 �")),
    ],
)
def test_every_way_to_write_a_message_is_understood(server: Server, content: Any, expected: ChatAnswer) -> None:
    got = asked(server, answer(content))
    assert (got.text, got.tool_calls) == (expected.text, expected.tool_calls)


@pytest.mark.parametrize("reason", ["length", "content_filter", "tool_calls", None])
def test_the_reason_to_finish_is_reported_as_it_is(server: Server, reason: str | None) -> None:
    content = completion()
    content["choices"][0]["finish_reason"] = reason
    assert asked(server, answer(content)).finish_reason == reason


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": "7"}, {"prompt_tokens": -1}, {"prompt_tokens": 10**30}, [1]]
)
def test_tokens_that_are_not_told_are_not_invented(server: Server, usage: Any) -> None:
    got = asked(server, answer({**completion(), "usage": usage, "model": "gpt-4o"}))
    assert (got.prompt_tokens, got.cost) == (None, None)


@pytest.mark.parametrize(
    "content",
    [
        [],
        1,
        None,
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [1]},
        {"choices": [{}]},
        {"choices": [{"message": "text"}]},
        {"choices": [{"message": {"content": 5}}]},
        {"choices": [{"message": {"tool_calls": 1}}]},
        {"choices": [{"message": {"tool_calls": [1]}}]},
        {"choices": [{"message": {"tool_calls": [{"function": {}}]}}]},
        {"error": {"message": "upstream is sad"}},
    ],
)
def test_an_answer_of_the_wrong_shape_is_incomplete_and_not_asked_for_again(server: Server, content: Any) -> None:
    error = refused(server, answer(json.dumps(content).encode()))
    assert (error.kind, error.tries, len(server.received)) == ("incomplete", 1, 1)


def test_the_true_status_of_an_error_under_status_200_counts(server: Server) -> None:
    upstream = {"error": {"message": "slow down", "code": 429}}
    assert asked(server, answer(upstream), answer()).tries == 2
    assert refused(server, answer(upstream), tries=1).status == 429


# Trying again


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
def test_what_may_pass_is_tried_again(server: Server, clock: FastClock, status: int) -> None:
    got = asked(server, failing(status), failing(status), answer(), clock=clock)
    assert (got.text, got.tries, len(server.received)) == ("hello", 3, 3)
    assert len(clock.slept) == 2
    assert got.waited == pytest.approx(sum(clock.slept))


@pytest.mark.parametrize("status", [400, 402, 404, 405, 413, 422])
def test_what_stays_wrong_is_not_tried_again(server: Server, clock: FastClock, status: int) -> None:
    error = refused(server, failing(status, "that is wrong", retry_after="1"), clock=clock)
    assert (error.kind, error.status, error.tries, len(server.received)) == ("status", status, 1, 1)
    assert "that is wrong" in str(error)
    assert not clock.slept


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_names_the_variable(server: Server, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    error = refused(server, failing(status, "Incorrect API key"))
    assert (error.kind, error.status, error.tries) == ("refused key", status, 1)
    assert f"rejected the key in {VARIABLE}" in str(error)
    monkeypatch.delenv(VARIABLE)
    assert f"{VARIABLE} is not set" in str(refused(server, failing(status)))
    assert "api_key_env names no variable" in str(refused(server, failing(status), api_key_env=""))


def test_a_server_that_stays_broken_is_given_up_with_what_was_tried(server: Server, clock: FastClock) -> None:
    error = refused(server, failing(500, "database is down"), tries=4, clock=clock)
    assert (error.kind, error.status, error.tries, len(server.received)) == ("status", 500, 4, 4)
    assert error.waited == pytest.approx(sum(clock.slept))
    assert "database is down" in str(error)
    assert f"given up after 4 tries and {error.waited:.1f} s of waiting" in str(error)
    assert error.exit_code == 4


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (reset(), "connection"),
        (half(), "connection"),
        (raw(b""), "connection"),
        (raw(b"this is not HTTP\r\n\r\n"), "connection"),
        (raw(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "connection"),
        (raw(b"HTTP/1.1 200 X\r\n" + b"A" * 20_000), "connection"),
        (answer(b"<html>Bad gateway</html>"), "not json"),
        (answer(b""), "not json"),
        (answer(b'{"choices": NaN}'), "not json"),
        (answer(b'{"a": "\xff"}'), "not json"),
        (answer(b"[" * 100_000), "not json"),
        (answer(b'{"id": "half'), "not json"),
        (answer(Content_Encoding="gzip"), "not json"),
    ],
)
def test_a_broken_answer_is_tried_again_and_then_named(server: Server, step: Step, kind: str) -> None:
    assert asked(server, step, answer()).tries == 2
    error = refused(server, step, tries=2)
    assert (error.kind, error.status, error.tries) == (kind, None, 2)


def test_no_server_at_all_is_a_connection_error(server: Server) -> None:
    with Server() as gone:
        url = gone.url
    error = refused(server, base_url=url, tries=2)
    assert (error.kind, error.tries) == ("connection", 2)
    assert "connection refused" in str(error)
    assert str(error).startswith(url)


@pytest.mark.parametrize("step", [slow(5), trickle()])
def test_the_time_limit_holds_for_the_whole_answer(server: Server, step: Step) -> None:
    began = time.monotonic()
    assert asked(server, step, answer(), timeout=0.15).tries == 2
    error = refused(server, step, timeout=0.1, tries=2)
    assert (error.kind, error.tries) == ("timeout", 2)
    assert "within 0.1 s" in str(error)
    assert time.monotonic() - began < 4


def test_waits_are_drawn_below_a_bound_that_doubles(server: Server, clock: FastClock) -> None:
    refused(server, failing(500), tries=8, backoff=1.0, longest_backoff=8.0, clock=clock, seed=5)
    draws = random.Random(5)
    assert clock.slept == [draws.uniform(0, bound) for bound in (1, 2, 4, 8, 8, 8, 8)]


def test_a_huge_number_of_tries_does_not_overflow(server: Server, clock: FastClock) -> None:
    server.script = [failing(500)] * 1200 + [answer()]
    assert asked(server, tries=1500, backoff=0.001, longest_backoff=0.001, clock=clock).tries == 1201


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7),
        ({"retry_after": "1.5"}, 1.5),
        ({"retry_after_ms": "2500", "retry_after": "9"}, 2.5),
        ({"retry_after_ms": "x", "retry_after": "9"}, 9),
        ({"date": formatdate(1_000_000, usegmt=True), "retry_after": formatdate(1_000_012, usegmt=True)}, 12),
    ],
)
def test_the_wait_that_a_server_asks_for_is_kept(
    server: Server, clock: FastClock, headers: dict[str, str], seconds: float
) -> None:
    got = asked(server, failing(429, **headers), answer(), clock=clock, backoff=0.0)
    assert clock.slept == [pytest.approx(seconds)]
    assert got.waited == pytest.approx(seconds)


@pytest.mark.parametrize("told", ["", "soon", "-5", "nan", "inf", "1e999", "Wed, 99 Foo 2020 00:00:00 GMT", "9" * 400])
def test_a_wait_that_cannot_be_read_is_not_kept(told: str) -> None:
    assert asked_wait({"retry-after": told}) is None


def test_a_date_without_the_time_of_the_server_is_read_by_our_clock() -> None:
    wait = asked_wait({"retry-after": formatdate(time.time() + 60, usegmt=True)})
    assert wait is not None
    assert 50 < wait < 61
    assert asked_wait({"retry-after": formatdate(time.time() - 60, usegmt=True)}) == 0


def test_a_wait_beyond_the_limit_is_not_waited_for(server: Server, clock: FastClock) -> None:
    error = refused(server, failing(429, retry_after="3600"), longest_wait=100, clock=clock)
    assert (error.tries, error.waited, clock.slept) == (1, 0.0, [])
    assert "the server asks for 3600.0 s more, but longest_wait is 100.0 s" in str(error)


def test_all_waits_together_stay_below_the_limit(server: Server, clock: FastClock) -> None:
    error = refused(server, failing(503, retry_after="40"), longest_wait=100, tries=9, clock=clock)
    assert error.tries == 3
    assert error.waited == pytest.approx(80)
    assert sum(clock.slept) <= 100


def test_a_wait_holds_back_the_other_requests_of_the_client(server: Server) -> None:
    server.script = [failing(429, retry_after_ms="400"), answer()]
    with ChatClient(settings_for(server)) as client, ThreadPoolExecutor(2) as pool:
        first = pool.submit(client.ask_now, HELLO)
        while not server.received:
            time.sleep(0.005)
        time.sleep(0.1)
        began = time.monotonic()
        second = client.ask_now(HELLO)
        assert time.monotonic() - began > 0.2
        assert second.tries == 1
        assert 0.2 < second.waited <= 0.4
        assert first.result().tries == 2


def test_a_request_that_waits_to_retry_takes_no_turn_from_others(server: Server) -> None:
    server.script = [failing(500), answer()]
    with ChatClient(settings_for(server, concurrency=1, backoff=100, seed=1), clock=FastClock()) as client:
        assert client.ask_now(HELLO).tries == 2
    with ChatClient(settings_for(server, concurrency=1, backoff=30, seed=1, tries=2)) as client:
        server.script = [failing(500), answer()]
        pool = ThreadPoolExecutor(1)
        waiting = pool.submit(client.ask_now, HELLO)
        while len(server.received) < 3:
            time.sleep(0.005)
        time.sleep(0.05)
        assert client.ask_now(HELLO).tries == 1
    assert isinstance(waiting.exception(5), ChatError)
    pool.shutdown()


# Limits


def test_no_more_requests_are_under_way_than_allowed(server: Server) -> None:
    server.script = [slow(0.02)]
    with ChatClient(settings_for(server, concurrency=3)) as client, ThreadPoolExecutor(12) as pool:
        assert len(list(pool.map(lambda _: client.ask_now(HELLO), range(24)))) == 24
    assert server.most_at_once == 3
    assert server.connections == 3


def test_requests_in_a_minute_are_limited(server: Server, clock: FastClock) -> None:
    with ChatClient(settings_for(server, requests_per_minute=30), clock=clock) as client:
        for _ in range(5):
            client.ask_now(HELLO)
    assert sum(clock.slept) == pytest.approx(8, abs=0.5)


def test_the_bucket_lets_a_second_through_at_once_and_then_the_rate() -> None:
    bucket = Bucket(600)
    waits = [bucket.take(0.0) for _ in range(1200)]
    assert waits[:10] == pytest.approx([0.0] * 10)
    assert waits[10:13] == pytest.approx([0.1, 0.2, 0.3])
    assert sum(wait < 60 for wait in waits) <= 610
    assert bucket.take(1e6) == 0


def test_an_answer_that_is_too_large_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert http.LARGEST_ANSWER == 16 * 1024 * 1024
    monkeypatch.setattr(http, "LARGEST_ANSWER", 1024 * 1024)
    error = refused(server, huge(3 * 1024 * 1024))
    assert (error.kind, error.tries) == ("too large", 1)
    assert asked(server, answer(completion("x" * 1_000_000))).text == "x" * 1_000_000


def test_a_redirect_is_not_followed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    with Server() as elsewhere:
        error = refused(server, answer(b"", 302, location=f"{elsewhere.url}/chat/completions"))
        assert not elsewhere.received
    assert (error.kind, error.status, error.tries) == ("redirect", 302, 1)
    assert "base_url" in str(error)


# Secrets


def everything_told(error: BaseException) -> str:
    """Return all that an error could ever show: its chain, its attributes, its traceback."""
    parts = ["".join(traceback.format_exception(error))]
    seen: BaseException | None = error
    while seen is not None:
        parts += [repr(seen), repr(vars(seen)), repr(seen.args)]
        seen = seen.__cause__ or seen.__context__
    return "\n".join(parts)


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_key_that_the_server_repeats_is_in_no_error(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path, status: int
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(VARIABLE, KEY)
    error = refused(server, echo_of_headers(status), tries=2, cache=str(tmp_path))
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"
    assert "[key]" in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None
    assert KEY not in everything_told(error) + caplog.text
    assert KEY.encode() not in pickle.dumps(error)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "step", [reset(), half(), slow(1), answer(b"no"), raw(b"HTTP/1.1 " + KEY.encode() + b"\r\n\r\n")]
)
def test_a_broken_connection_tells_no_key(server: Server, monkeypatch: pytest.MonkeyPatch, step: Step) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    error = refused(server, step, tries=2, timeout=0.1)
    assert error.__context__ is None
    assert KEY not in everything_told(error)


def test_a_key_that_the_server_repeats_is_in_no_answer_and_no_file(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(VARIABLE, KEY)
    got = asked(server, echo_of_headers(200), cache=str(tmp_path))
    assert '"Bearer [key]"' in got.text
    assert got.request_id == "Bearer [key]"
    assert KEY not in repr(got) + caplog.text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 1
    assert not any(KEY.encode() in path.read_bytes() for path in files)


DISGUISES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in lines": lambda key: f"{key[:9]}\n{key[9:20]}\n\n{key[20:]}",
    "letter by letter": lambda key: '"' + '", "'.join(key) + '"',
    "between zero-width spaces": "\u200b".join,
    "in base64": lambda key: base64.b64encode(key.encode()).decode(),
    "in base64 behind a word": lambda key: base64.b64encode(f"Bearer {key}".encode()).decode(),
    "in base64 behind two letters": lambda key: base64.urlsafe_b64encode(f"k={key}&x".encode()).decode(),
    "in base64 in lines": lambda key: base64.encodebytes(f"a {key} and more of it".encode()).decode(),
    "in hex": lambda key: key.encode().hex(),
    "in hex with colons": lambda key: key.encode().hex(":").upper(),
}


def readings(text: str) -> list[str]:
    """Return a text as it is, its letters alone, and those read as base64 and as hex from wherever one may begin."""
    letters = re.sub("[^A-Za-z0-9]", "", text)
    found = [text, letters]
    for start in range(4):
        part = letters[start:]
        found.append(base64.b64decode(part[: len(part) // 4 * 4]).decode("latin-1"))
        hexadecimal = re.sub("[^0-9A-Fa-f]", "", part)
        found.append(bytes.fromhex(hexadecimal[: len(hexadecimal) // 2 * 2]).decode("latin-1"))
    return found


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_key_is_hidden_however_a_server_writes_it(
    server: Server, monkeypatch: pytest.MonkeyPatch, disguise: str
) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    written = DISGUISES[disguise](KEY)
    call = {"id": written, "type": "function", "function": {"name": written, "arguments": json.dumps({"a": written})}}
    told = completion(f"Before: {written}; after.", tool_calls=[call]) | {"model": written}
    told["choices"][0]["finish_reason"] = written
    got = asked(server, answer(told))
    assert got.text.startswith("Before: ") and got.text.endswith("; after.")
    texts = [got.text, got.model, got.finish_reason]
    texts += [text for one in got.tool_calls for text in (one.id, one.name, one.arguments)]
    for text in texts:
        assert text is not None and "[key]" in text
        assert written not in text
        left = readings(text)
        assert not [KEY[at : at + 6] for at in range(len(KEY) - 5) if any(KEY[at : at + 6] in one for one in left)]


def test_words_that_only_resemble_a_key_stay() -> None:
    key = Key("correct-horse-battery-staple")
    assert key.hide_in_answer("correct horse battery staple!") == "[key]!"
    for text in ("correct horse battery stapler"[:-2], "a correct horse", "", "\u200b"):
        assert key.hide_in_answer(text) == text
    assert Key("EMPTY").hide_in_answer("E M P T Y EMPTY") == "E M P T Y EMPTY"


def test_hiding_a_key_takes_time_in_proportion() -> None:
    key = Key("a" * 40)
    text = "a-" * 20 * 5_000
    began = time.perf_counter()
    assert "a" not in key.hide_in_answer(text)
    assert time.perf_counter() - began < 5


def test_a_made_up_key_does_not_change_answers(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "EMPTY")
    assert asked(server, answer(completion("The box is EMPTY."))).text == "The box is EMPTY."


def test_neither_client_nor_settings_nor_key_show_the_key(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f" {KEY}\n")
    with ChatClient(settings_for(server)) as client:
        client.ask_now(HELLO)
        assert server.received[0].headers["authorization"] == f"Bearer {KEY}"
        (lane,) = client._lanes.values()
        assert KEY not in repr(client) + repr(client.settings) + repr(vars(client)) + repr(vars(lane.provider))
    key = Key(KEY)
    assert repr(key) == str(key) == "Key([key])"
    with pytest.raises(TypeError, match="cannot be serialised"):
        pickle.dumps(key)


def test_the_words_of_a_server_are_clipped_masked_and_visible(server: Server) -> None:
    hostile = "\x1b[31mred\u202e sk-abcdefghijklmnopqrstuvwxyz " + "x" * 5000
    message = str(refused(server, failing(400, hostile)))
    assert message.isprintable()
    assert "sk-…[masked]" in message
    assert len(message) < 450
    assert "Content-Length" not in message


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": "plain"}', ": plain"),
        (b'{"detail": "of fastapi"}', ": of fastapi"),
        (b'{"message": "of others"}', ": of others"),
        (b'{"odd": 1}', ': {"odd": 1}'),
        (b"just text", ": just text"),
        (b"", "status 400"),
    ],
)
def test_the_reason_is_found_wherever_servers_put_it(server: Server, body: bytes, said: str) -> None:
    assert str(refused(server, answer(body, 400))).endswith(said)


def test_a_missing_key_is_told_when_the_client_is_made() -> None:
    assert VARIABLE in raised(UsageError, api_key_env=VARIABLE)
    assert "api.openai.com" in raised(UsageError, api_key_env=VARIABLE)


def test_an_empty_variable_is_a_missing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "  ")
    assert VARIABLE in raised(UsageError, api_key_env=VARIABLE)


def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"{KEY}\nX-Evil: 1")
    assert KEY not in raised(UsageError, api_key_env=VARIABLE)


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1/v1", True),
        ("http://LOCALHOST/v1", True),
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:8000/v1", True),
        ("http://127.0.0.1.example.com/v1", False),
        ("http://localhost.example.com/v1", False),
        ("http://notlocalhost/v1", False),
        ("http://evil-localhost:8000/v1", False),
        ("http://api.localhost:8000/v1", True),
        ("http://localhost./v1", True),
        ("http://0x7f.1.example/v1", False),
        ("https://10.0.0.1/v1", False),
    ],
)
def test_only_this_machine_needs_no_key(url: str, local: bool) -> None:
    assert Address(url).is_local is local
    if local:
        ChatClient(ChatSettings(base_url=url)).close()
    else:
        assert "OPENAI_API_KEY" in raised(UsageError, base_url=url)
        ChatClient(ChatSettings(base_url=url, api_key_env="")).close()


@pytest.mark.parametrize(
    "url", ["", "api.openai.com", "ftp://x/v1", "http://", "http://a b/", "http://x:0/", "http://x:y/"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    assert "base_url" in raised(UsageError, base_url=url)


def test_an_address_with_a_password_is_refused_without_showing_it() -> None:
    message = raised(UsageError, base_url=f"https://me:{KEY}@example.com/v1")
    assert "environment variable" in message
    assert KEY not in message


def test_credentials_of_netrc_are_sent_nowhere(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("default login me password hunter2hunter2\n", encoding="utf-8")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HOME", str(tmp_path))
    asked(server)
    assert "authorization" not in server.received[0].headers
    monkeypatch.setenv("HTTP_PROXY", server.url.removesuffix("/v1"))
    asked(server, base_url="http://model.example/v1", api_key_env="")
    assert server.received[1].target == "http://model.example/v1/chat/completions"
    assert not {"authorization", "proxy-authorization"} & set(server.received[1].headers)


def test_a_proxy_of_the_environment_is_used_with_its_password(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://me:p%40ss@127.0.0.1:{server.port}")
    monkeypatch.setenv(VARIABLE, KEY)
    asked(server, base_url="http://model.example/v1")
    (request,) = server.received
    assert request.target == "http://model.example/v1/chat/completions"
    assert request.headers["proxy-authorization"] == "Basic bWU6cEBzcw=="
    assert request.headers["authorization"] == f"Bearer {KEY}"
    monkeypatch.setenv("https_proxy", f"http://me:p%40ss@127.0.0.1:{server.port}")
    error = refused(server, echo_of_headers(502), base_url="https://model.example/v1", tries=1)
    assert server.received[1].target == "model.example:443"
    assert server.received[1].headers["proxy-authorization"] == "Basic bWU6cEBzcw=="
    assert "authorization" not in server.received[1].headers
    assert not any(secret in everything_told(error) for secret in ("p@ss", "bWU6cEBzcw", KEY))


def test_a_proxy_that_refuses_is_told_apart_from_the_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", f"127.0.0.1:{server.port}")
    error = refused(server, failing(407), base_url="https://model.example/v1", api_key_env="")
    assert "the proxy refused to connect (status 407)" in str(error)
    assert error.tries == 1


def test_proxies_are_passed_by_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "http://me:secret@proxy.example:3128")
    assert Address("https://model.example/v1").proxy() == Proxy("http://proxy.example:3128", "Basic bWU6c2VjcmV0")
    assert "Basic" not in repr(Address("https://model.example/v1").proxy())
    assert Address("http://localhost:1/v1").proxy() is None
    monkeypatch.setenv("no_proxy", "model.example")
    assert Address("https://model.example/v1").proxy() is None
    monkeypatch.setenv("https_proxy", "socks5://proxy.example")
    with pytest.raises(UsageError, match="NO_PROXY"):
        Address("https://other.example/v1").proxy()


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl, which makes the certificate, is not here")
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    made, secret = folder / "certificate.pem", folder / "secret.pem"
    command = [program, *words.split(), "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, "-keyout", secret, "-out", made], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, secret)
    return made, context


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", script]
    around = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, env=around, check=False)


def test_a_certificate_is_checked(tmp_path: Path) -> None:
    made, context = certificate(tmp_path)
    with Server(tls=context) as server:
        error = refused(server, tries=3)
        assert (error.kind, error.tries, server.received) == ("connection", 1, [])
        assert "certificate" in str(error)
        script = (
            "from faircount.chat.client import ChatClient\nfrom faircount.chat.settings import ChatSettings\n"
            f"with ChatClient(ChatSettings(base_url={server.url!r}, model='m')) as client:\n"
            "    print(client.ask_now([{'role': 'user', 'content': 'hello'}]).text)\n"
        )
        done = run(script, SSL_CERT_FILE=str(made))
        assert (done.stdout, done.stderr) == ("hello\n", "")


# Costs


def test_the_cost_follows_from_tokens_and_the_price(server: Server) -> None:
    got = asked(server, prices={"m": {"prompt": 2.5, "completion": 10}})
    assert got.cost == pytest.approx(7 * 2.5e-6 + 3 * 10e-6)


def test_a_price_of_nothing_is_a_cost_of_nothing(server: Server) -> None:
    assert asked(server, prices={"m": {"prompt": 0, "completion": 0.0}}).cost == 0.0


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("gpt-4o", "gpt-4o"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("gpt-4.1-nano-latest", "gpt-4.1-nano"),
        ("gpt-4o-audio-preview", None),
        ("gpt-4o-mini-search-preview-2025-03-11", None),
        ("gpt-4", None),
        ("gpt-4ox", None),
        ("openai/gpt-4o", None),
        ("", None),
        (None, None),
    ],
)
def test_a_dated_model_has_the_price_of_its_name_and_another_model_has_not(
    model: str | None, found: str | None
) -> None:
    assert Prices({}).of(model) == (BUILT_IN[found] if found else None)


def test_the_price_of_the_user_goes_before_all_others() -> None:
    prices = Prices({"gpt-4o": {"prompt": 1, "completion": 2}, "mine": {"prompt": 3, "completion": 4}})
    own = prices.of("gpt-4o-2024-08-06")
    assert own is not None
    assert (own.prompt, own.completion) == (1, 2)
    deployed = prices.of("gpt-4.1", "mine")
    assert deployed is not None
    assert deployed.prompt == 3
    assert prices.cost("unheard-of", prompt_tokens=1, completion_tokens=1) is None
    assert prices.cost("mine", prompt_tokens=1, completion_tokens=None) is None


def test_every_price_built_in_says_when_it_was_noted() -> None:
    assert all(price.noted and 0 < price.prompt < price.completion for price in BUILT_IN.values())


@pytest.mark.parametrize(
    "price", [5, {}, {"prompt": 1}, {"prompt": -1, "completion": 1}, {"prompt": True, "completion": 1},
              {"prompt": "1", "completion": 1}, {"prompt": float("nan"), "completion": 1},
              {"prompt": 1, "completion": 1, "output": 2}],
)  # fmt: skip
def test_a_price_that_is_none_is_refused(price: Any) -> None:
    assert 'prices."x"' in raised(UsageError, base_url="http://localhost", prices={"x": price})


# The cache


def cache_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_the_same_request_is_answered_from_the_cache(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "cache"
    options: dict[str, Any] = {"cache": str(folder), "prices": {"m": {"prompt": 1, "completion": 1}}}
    script = [answer(completion(None, tool_calls=[CALL]), x_request_id="r")]
    first = asked(server, *script, **options)
    second = asked(server, failing(500), **options)
    assert len(server.received) == 1
    assert (first.cached, second.cached, second.cost, second.tries, second.waited) == (False, True, 0.0, 0, 0.0)
    assert (second.tool_calls, second.prompt_tokens, second.completion_tokens) == (first.tool_calls, 7, 3)
    assert (second.latency, second.request_id, second.model) == (first.latency, "r", first.model)


@pytest.mark.parametrize(
    "other",
    [
        {"parameters": {"temperature": 1}},
        {"parameters": {"model": "n"}},
        {"messages": [{"role": "user", "content": "hello!"}]},
        {"messages": [{"role": "system", "content": "hello"}]},
    ],
)
def test_another_request_is_asked(server: Server, tmp_path: Path, other: Mapping[str, Any]) -> None:
    with ChatClient(settings_for(server, cache=str(tmp_path))) as client:
        client.ask_now(HELLO)
        assert not client.ask_now(**{"messages": HELLO, **other}).cached
        assert client.ask_now(**{"messages": HELLO, **other}).cached
    assert len(cache_files(tmp_path)) == 2


def test_the_order_of_parameters_does_not_make_another_request(server: Server, tmp_path: Path) -> None:
    with ChatClient(settings_for(server, cache=str(tmp_path))) as client:
        client.ask_now(HELLO, parameters={"a": 1, "b": {"c": 1, "d": 2}})
        assert client.ask_now(HELLO, parameters={"b": {"d": 2, "c": 1}, "a": 1}).cached
    other_server = settings_for(server, cache=str(tmp_path), base_url=server.url.replace("/v1", "/v2"))
    with ChatClient(other_server) as client:
        assert not client.ask_now(HELLO, parameters={"a": 1, "b": {"c": 1, "d": 2}}).cached


def test_a_kept_answer_is_one_file_for_its_owner_that_holds_no_prompt(server: Server, tmp_path: Path) -> None:
    with ChatClient(settings_for(server, cache=str(tmp_path / "cache"))) as client:
        client.ask_now([{"role": "user", "content": "my private prompt"}])
    (file,) = cache_files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    content = json.loads(file.read_text("utf-8"))
    assert content["answer"]["text"] == "hello"
    assert file.stem == content["request"]
    assert "private" not in file.read_text("utf-8")


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda data: data[:-20],
        lambda data: data.replace(b"hello", b"hullo"),
        lambda _: b"[]",
        lambda _: b"\xff\x00",
        lambda data: data.replace(b'"format":1', b'"format":99'),
    ],
)
def test_a_damaged_file_is_ignored_and_replaced(
    server: Server, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    asked(server, cache=str(tmp_path))
    (file,) = cache_files(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    assert not asked(server, cache=str(tmp_path)).cached
    again = asked(server, cache=str(tmp_path))
    assert (again.cached, again.text) == (True, "hello")


def test_errors_are_not_kept(server: Server, tmp_path: Path) -> None:
    refused(server, failing(400), cache=str(tmp_path))
    refused(server, answer(b"{}"), cache=str(tmp_path))
    assert not cache_files(tmp_path)


def test_a_cache_that_cannot_be_written_harms_nobody(server: Server, tmp_path: Path) -> None:
    with ChatClient(settings_for(server, cache=str(tmp_path / "cache"))) as client:
        shutil.rmtree(tmp_path / "cache")
        (tmp_path / "cache").write_text("a file", encoding="utf-8")
        assert client.ask_now(HELLO).text == "hello"
    with pytest.raises(UsageError, match="cannot create a folder for answers"):
        ChatClient(settings_for(server, cache=str(tmp_path / "cache")))


# Threads, event loops and the end


def test_threads_share_one_loop(server: Server) -> None:
    server.script = [slow(0.01)]
    before = threading.active_count()
    with ChatClient(settings_for(server, concurrency=50)) as client, ThreadPoolExecutor(50) as pool:
        texts = list(pool.map(lambda _: client.ask_now(HELLO).text, range(200)))
        assert sum(thread.name == "faircount-chat" for thread in threading.enumerate()) == 1
    assert texts == ["hello"] * 200
    assert threading.active_count() == before


def test_a_program_with_a_loop_asks_on_its_own(server: Server) -> None:
    async def many(client: ChatClient) -> list[ChatAnswer]:
        return await asyncio.gather(*(client.ask(HELLO) for _ in range(20)))

    async def program() -> list[ChatAnswer]:
        async with ChatClient(settings_for(server)) as client:
            answers = await many(client)
            assert not any(thread.name == "faircount-chat" for thread in threading.enumerate())
            return answers

    assert len(asyncio.run(program())) == 20


@pytest.mark.filterwarnings("error")
def test_one_client_serves_loop_after_loop_and_threads_between(server: Server) -> None:
    client = ChatClient(settings_for(server))

    async def twice() -> int:
        return len(await asyncio.gather(client.ask(HELLO), client.ask(HELLO)))

    assert asyncio.run(twice()) == 2
    assert client.ask_now(HELLO).text == "hello"
    assert asyncio.run(twice()) == 2
    client.close()
    client.close()
    with pytest.raises(ChatError, match="closed"):
        client.ask_now(HELLO)
    with pytest.raises(ChatError, match="closed") as caught:
        asyncio.run(twice())
    assert caught.value.kind == "closed"


def test_a_client_may_be_closed_from_inside_a_running_loop(server: Server) -> None:
    async def program() -> None:
        client = ChatClient(settings_for(server))
        await client.ask(HELLO)
        client.close()
        await asyncio.sleep(0.05)

    asyncio.run(program())


def test_a_client_may_be_closed_when_its_loop_rests(server: Server) -> None:
    loop = asyncio.new_event_loop()
    client = ChatClient(settings_for(server))
    loop.run_until_complete(client.ask(HELLO))
    client.close()
    loop.close()


def test_those_who_wait_are_told_that_the_client_was_closed(server: Server) -> None:
    server.script = [slow(20)]
    client = ChatClient(settings_for(server))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.ask_now, HELLO)
        while not server.received:
            time.sleep(0.005)
        client.close()
        error = waiting.exception(5)
    assert isinstance(error, ChatError)
    assert (error.kind, error.__context__) == ("closed", None)


OPEN = (
    "import os, sys, time\n"
    "from faircount.chat.client import ChatClient\nfrom faircount.chat.settings import ChatSettings\n"
    "client = ChatClient(ChatSettings(base_url=sys.argv[1] if len(sys.argv) > 1 else os.environ['URL'], model='m'))\n"
    "hello = [{'role': 'user', 'content': 'hello'}]\n"
)


def test_a_client_that_nobody_closes_keeps_no_program_alive(server: Server) -> None:
    began = time.monotonic()
    done = run(OPEN + "print(client.ask_now(hello).text)", URL=server.url)
    assert (done.stdout, done.stderr, done.returncode) == ("hello\n", "", 0)
    done = run(OPEN + "print(client.ask_now(hello).text)\ndel client\nimport gc; gc.collect()", URL=server.url)
    assert (done.stdout, done.stderr) == ("hello\n", "")
    assert time.monotonic() - began < 20


def test_a_client_that_nobody_holds_any_more_ends_its_thread(server: Server) -> None:
    client = ChatClient(settings_for(server))
    client.ask_now(HELLO)
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "faircount-chat")
    del client
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()


def test_a_forked_child_asks_on_connections_of_its_own(server: Server) -> None:
    script = OPEN + (
        "print(client.ask_now(hello).text, flush=True)\n"
        "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"
        "child = os.fork()\n"
        "if child == 0:\n    print(client.ask_now(hello).text, flush=True); client.close(); os._exit(0)\n"
        "print(os.waitpid(child, 0)[1], client.ask_now(hello).text)\nclient.close()\n"
    )
    done = run(script, URL=server.url)
    assert (done.stdout, done.stderr) == ("hello\nhello\n0 hello\n", "")
    assert server.connections == 2


def test_ctrl_c_interrupts_at_once(server: Server) -> None:
    server.script = [slow(30)]
    script = OPEN + "try:\n    client.ask_now(hello)\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
    command = [sys.executable, "-W", "error", "-c", script, server.url]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=interruptible
    ) as child:
        while not server.received:
            time.sleep(0.01)
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=20)
    assert (out, err) == ("interrupted\n", "")
    assert time.monotonic() - began < 3


def test_neither_the_http_library_nor_asyncio_is_loaded_before_a_client_is_made() -> None:
    modules = [f"faircount.chat.{path.stem}" for path in (ROOT / "src/faircount/chat").glob("[a-z]*.py")]
    done = run(f"import sys, {', '.join(modules)}\nprint([n for n in ('aiohttp', 'asyncio') if n in sys.modules])")
    assert done.stdout == "[]\n"


# Settings and providers


@pytest.mark.parametrize(
    "wrong",
    [
        {"tries": 0},
        {"concurrency": 0},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"requests_per_minute": 0},
        {"backoff": -1},
        {"longest_wait": float("inf")},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: Any) -> None:
    (name,) = wrong
    assert name in raised(UsageError, base_url="http://localhost", **wrong)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"model": ""}, "no model"),
        ({"stream": True}, "stream"),
        ({"messages": []}, "messages"),
        ({"temperature": float("nan")}, "temperature"),
        ({"x": object()}, "JSON"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(server: Server, parameters: Any, said: str) -> None:
    with ChatClient(settings_for(server)) as client, pytest.raises(UsageError, match=said):
        client.ask_now(HELLO, parameters=parameters)
    assert not server.received


class Parrot:
    """A provider of another package: repeats, the second time it is asked."""

    made: list[Parrot] = []

    def __init__(self, settings: ChatSettings) -> None:
        self.where = f"parrot {settings.model}"
        self.asked = 0
        self.closed = False
        self.made.append(self)

    async def ask(self, request: ChatRequest) -> ChatAnswer:
        self.asked += 1
        if request.messages[-1]["content"] == "die":
            raise Trouble("it is dead", kind="incomplete")
        if self.asked == 1:
            raise Trouble("asleep", kind="connection", again=True)
        return ChatAnswer(request.messages[-1]["content"], prompt_tokens=1_000_000, completion_tokens=0)

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        metadata.EntryPoint("parrot", "tests.chat.test_chat:Parrot", providers.GROUP),
        metadata.EntryPoint("dumb", "builtins:object", providers.GROUP),
        metadata.EntryPoint("openai", "builtins:object", providers.GROUP),
    ]
    monkeypatch.setattr(metadata, "entry_points", lambda group: entries if group == "faircount.chat" else [])
    monkeypatch.setattr(Parrot, "made", [])


@pytest.mark.usefixtures("plugged")
def test_a_provider_of_another_package_gets_patience_prices_and_the_cache(tmp_path: Path) -> None:
    from tests.chat.test_chat import Parrot as Loaded

    settings = ChatSettings(
        provider="parrot", model="p", cache=str(tmp_path), prices={"p": {"prompt": 2, "completion": 1}}
    )
    with ChatClient(settings, clock=FastClock()) as client:
        got = client.ask_now(HELLO)
        assert (got.text, got.tries, got.cost) == ("hello", 2, 2.0)
        assert client.ask_now(HELLO).cached
        with pytest.raises(ChatError, match=r"^parrot p: it is dead$"):
            client.ask_now([{"role": "user", "content": "die"}])
    assert [parrot.closed for parrot in Loaded.made] == [True]


@pytest.mark.usefixtures("plugged")
def test_a_provider_that_is_missing_or_none_is_refused() -> None:
    assert "available: dumb, litellm, openai, parrot" in raised(UsageError, provider="claude")
    assert "no method ask" in raised(UsageError, provider="dumb")
    assert providers.find_provider("openai") is providers.OpenAI
