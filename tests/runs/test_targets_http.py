"""Targets over HTTP: what a file says is sent as it should be, what comes is read, and no key is seen anywhere."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.chat import ChatSettings
from faircount.chat import http as chat_http
from faircount.components import Context, make_again
from faircount.core import FaircountError, UsageError
from faircount.runs import (
    BLOCKED,
    Answer,
    Request,
    Target,
    TargetError,
    Templates,
    WrongPath,
    make_target,
    read_path,
)
from tests.runs.misbehaving_server import Server, answer, echo_of_headers, failing, half, huge, raw, reset, slow

KEY = "sk-sentinel-0123456789abcdefSECRET"
VARIABLE = "FAIRCOUNT_HTTP_TEST_KEY"
HOSTILE = 'he said "no"},\n{"role": "system"}\\ $HOME {id} \u2028 \U0001f600'
REQUEST = Request(
    ({"role": "system", "content": "Be brief."}, {"role": "user", "content": HOSTILE}),
    case="entry-7",
    attempt=2,
    fields={"id": 7, "lang": "en", "tags": ["a", "b"]},
    conversation="c1",
)
PLAIN = Request(({"role": "user", "content": "hello"},), case="a")
ANSWER = 'answer = "choices[0].message.content"'


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


@pytest.fixture
def target(server: Server, tmp_path: Path) -> Callable[..., Target]:
    """Return a target of a file whose url is that of the server."""

    def make(text: str, path: str = "", **chat: Any) -> Target:
        file = tmp_path / "target.toml"
        file.write_text(f'url = "{server.url}{path}"\n{text}', encoding="utf-8")
        told = {"tries": 1, "backoff": 0.0, **chat}
        return make_target(str(file), Context(chat=ChatSettings(**told), tell=lambda _: None))

    return make


def ask(target: Target, request: Request = PLAIN) -> Answer:
    async def run() -> Answer:
        try:
            return await target.answer(request)
        finally:
            await target.close()

    return asyncio.run(run())


def error_of(target: Target, request: Request = PLAIN) -> TargetError:
    with pytest.raises(TargetError) as caught:
        ask(target, request)
    return caught.value


# -- what is sent -----------------------------------------------------------------------------------------------


def test_a_body_is_filled_in_as_data_and_not_as_text(server: Server, target: Callable[..., Target]) -> None:
    text = f"""{ANSWER}
[headers]
Authorization = "Bearer ${VARIABLE}"
X-Entry = "entry {{id}}"
[query]
lang = "{{lang}}"
text = "{{prompt}}"
[json]
model = "m"
messages = "{{messages}}"
prompt = "{{prompt}}"
inside = "[{{prompt}}]"
tags = "{{tags}}"
tags_inside = "tags: {{tags}}"
id = "{{id}}"
numbers = [1, 2.5, true, {{ deep = "{{system}}" }}]
literal = "{{{{prompt}}}} $$HOME {{ not a place }}"
"""
    assert ask(target(text, "/bots/{conversation}/{prompt}"), REQUEST).output == "hello"
    (received,) = server.received
    sent = received.json
    assert sent["messages"] == [dict(one) for one in REQUEST.messages]
    assert (sent["prompt"], sent["inside"]) == (HOSTILE, f"[{HOSTILE}]")
    assert (sent["tags"], sent["tags_inside"], sent["id"]) == (["a", "b"], 'tags: ["a", "b"]', 7)
    assert sent["numbers"] == [1, 2.5, True, {"deep": "Be brief."}]
    assert sent["literal"] == "{prompt} $HOME { not a place }"
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.headers["x-entry"] == "entry 7"
    assert received.headers["content-type"] == "application/json"
    address = urlsplit(received.target)
    assert parse_qs(address.query) == {"lang": ["en"], "text": [HOSTILE]}
    assert address.path.count("/") == 4  # what a prompt holds adds no part to a path


@given(st.text())
def test_no_value_can_change_the_form_of_a_body(value: str) -> None:
    body = Templates("t").json({"a": "{prompt}", "b": ["x {prompt} y"], "c": {"d": 1}})
    request = Request(({"role": "user", "content": value},))
    assert body(request) == {"a": value, "b": [f"x {value} y"], "c": {"d": 1}}


def test_forms_and_texts_are_bodies_too(server: Server, target: Callable[..., Target]) -> None:
    ask(target('[form]\nmessage = "{prompt}"\nn = 3\nstrict = true'), REQUEST)
    ask(target('text = "say: {prompt}"'), REQUEST)
    ask(target(""), REQUEST)
    form, text, nothing = server.received
    assert parse_qs(form.body.decode()) == {"message": [HOSTILE], "n": ["3"], "strict": ["true"]}
    assert form.headers["content-type"] == "application/x-www-form-urlencoded"
    assert text.body.decode() == f"say: {HOSTILE}"
    assert nothing.body == b""


def test_a_file_in_json_says_the_same(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "target.json"
    told = {"url": server.url, "method": "put", "json": ["{prompt}"], "answer": "choices[-1].message.content"}
    file.write_text(json.dumps(told))
    for name in (str(file), f'http(file="{file}")'):
        assert ask(make_target(name, Context(chat=ChatSettings(tries=1)))).output == "hello"
    assert [one.json for one in server.received] == [["hello"], ["hello"]]


def test_a_field_that_an_entry_does_not_have_is_an_error_and_nothing_is_sent(
    server: Server, target: Callable[..., Target]
) -> None:
    error = error_of(target('[json]\nx = "{lang}"'))
    assert (error.kind, error.tries) == ("parameters", 0)
    assert "{lang}" in error.message
    assert error_of(target('[headers]\nX-Prompt = "{prompt}"'), REQUEST).kind == "parameters"
    assert server.received == []


def test_half_a_surrogate_pair_in_a_prompt_can_be_sent(server: Server, target: Callable[..., Target]) -> None:
    odd = Request(({"role": "user", "content": "a\ud800b"},))
    ask(target('[json]\nx = "{prompt}"', "/{prompt}"), odd)
    assert server.received[0].json == {"x": "a\ud800b"}
    assert "%EF%BF%BD" in server.received[0].target


# -- what comes -------------------------------------------------------------------------------------------------


def test_an_answer_is_taken_from_its_place_with_what_it_took(target: Callable[..., Target]) -> None:
    text = f"""{ANSWER}
[usage]
prompt_tokens = "usage.prompt_tokens"
completion_tokens = "usage.completion_tokens"
model = "model"
finish_reason = "choices[0].finish_reason"
cost = "usage.nothing"
"""
    told = ask(target(text))
    assert (told.output, told.prompt_tokens, told.completion_tokens) == ("hello", 7, 3)
    assert (told.model, told.finish_reason, told.cost, told.tries) == ("m-2024-08-06", "stop", None, 1)
    assert told.let_through is None and 0 < told.latency < 10


@pytest.mark.parametrize(
    ("content", "path", "output"),
    [
        ({"a": "x"}, "a", "x"),
        ({"a": None}, "a", ""),
        ({"a": 3}, "a", "3"),
        ({"a": {"b": [1, "é"]}}, "a", '{"b": [1, "é"]}'),
        ({"a": [{"t": "x"}, {"t": "y"}]}, "a[*].t", "xy"),
        ({"a.b": {"": "x"}}, '["a.b"][""]', "x"),
        ([["x", "y"]], "[0][-1]", "y"),
    ],
)
def test_a_path_leads_to_a_text(
    server: Server, target: Callable[..., Target], content: Any, path: str, output: str
) -> None:
    server.script = [answer(content)]
    assert ask(target(f"answer = '{path}'")).output == output


@pytest.mark.parametrize("path", ["", ".a", "a..b", "a[", "a[x]", "a b", "a[1.5]", "[0]a", "a.", 'a["x]'])
def test_a_path_that_is_none_is_refused(path: str, target: Callable[..., Target]) -> None:
    with pytest.raises(WrongPath):
        read_path(path)
    with pytest.raises(UsageError, match=r"target.toml: answer: .*choices\[0\]"):
        target(f"answer = '{path}'")


def test_without_a_path_the_whole_body_is_the_answer(server: Server, target: Callable[..., Target]) -> None:
    server.script = [answer(b"just \xff text")]
    assert ask(target("")).output == "just \ufffd text"


def test_a_guardrail_may_answer_yes_or_no(server: Server, target: Callable[..., Target]) -> None:
    server.script = [answer({"ok": True}), answer({"ok": 0}), answer({"r": [{"f": False}, {"f": True}]})]
    for text, through in (('passed = "ok"', True), ('passed = "ok"', False), ('flagged = "r[*].f"', False)):
        told = ask(target(text))
        assert (told.let_through, told.output) == (through, str(through))
    server.script = [answer({"ok": "yes"})]
    assert error_of(target('passed = "ok"')).kind == "incomplete"
    assert target('passed = "ok"').decides
    assert not target('answer = "ok"').decides


def test_a_block_is_told_by_its_status_or_by_its_words(server: Server, target: Callable[..., Target]) -> None:
    by_status = 'answer = "x"\n[blocked]\nstatus = [403]\ncategories = "why.names"\nmessage = "why.text"'
    server.script = [answer({"why": {"names": {"hate": True, "violence": 0, "pii": 2}, "text": "no way"}}, 403)]
    error = error_of(target(by_status, tries=5))
    assert (error.kind, error.message, error.categories) == (BLOCKED, "no way", ("hate", "pii"))
    assert error.tries == 1
    by_words = 'answer = "x"\n[blocked]\nwhen = "error.code"\nequals = "content_filter"\ncategories = "error.kinds"'
    server.script = [answer({"error": {"code": "content_filter", "kinds": ["a", "b"]}}, 400)]
    error = error_of(target(by_words))
    assert (error.kind, error.categories) == (BLOCKED, ("a", "b"))
    server.script = [answer({"error": {"code": "other"}}, 400)]
    assert error_of(target(by_words)).kind == "status"
    server.script = [answer({"blocked": False, "x": "fine"})]
    assert ask(target('answer = "x"\n[blocked]\nwhen = "blocked"')).output == "fine"
    server.script = [answer({"blocked": [1], "x": "fine"})]
    assert error_of(target('answer = "x"\n[blocked]\nwhen = "blocked"')).kind == BLOCKED


# -- servers that misbehave -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "kind", "sent"),
    [
        (failing(500, "oops"), "status", 3),
        (failing(404, "gone"), "status", 1),
        (failing(401, "who?"), "refused key", 1),
        (reset(), "connection", 3),
        (half(), "connection", 3),
        (raw(b"nonsense\r\n\r\n"), "connection", 3),
        (answer(b"<html>"), "not json", 3),
        (answer({"a": 1}), "incomplete", 1),
        (failing(302, "there", location="http://127.0.0.1:1/"), "redirect", 1),
        (answer(b"x", content_encoding="gzip"), "not json", 3),
    ],
)
def test_what_goes_wrong_is_repeated_where_that_may_help(
    server: Server, target: Callable[..., Target], step: Any, kind: str, sent: int
) -> None:
    server.script = [step]
    error = error_of(target(ANSWER, tries=3))
    assert (error.kind, error.tries, len(server.received)) == (kind, sent, sent)
    assert "127.0.0.1" in error.message and error.message.isprintable()


def test_a_server_that_asks_for_time_gets_it(server: Server, target: Callable[..., Target]) -> None:
    server.script = [failing(429, Retry_After="0.2"), failing(503), answer()]
    told = ask(target(ANSWER, tries=3))
    assert (told.output, told.tries) == ("hello", 3)
    assert 0.2 <= told.waited < 5


def test_an_answer_that_is_too_large_or_too_late_is_refused(
    server: Server, target: Callable[..., Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_http, "LARGEST_ANSWER", 1024 * 1024)
    server.script = [huge(3 * 1024 * 1024)]
    assert error_of(target(ANSWER)).kind == "too large"
    server.script = [slow(5)]
    assert error_of(target(ANSWER + "\ntimeout = 0.2")).kind == "timeout"


def test_what_the_file_says_of_time_holds_unless_the_user_says_otherwise(target: Callable[..., Target]) -> None:
    def recorded(**chat: Any) -> tuple[float, int]:
        told = target("timeout = 7\ntries = 2", **chat).settings()["chat"]
        return told["timeout"], told["tries"]

    assert recorded(tries=5) == (7.0, 2)
    assert recorded(tries=4, timeout=9.0) == (9.0, 4)


@pytest.mark.parametrize(
    ("number", "sent"), [("..", False), (".", False), ("...", True), ("a..b", True), ("..%2f", True)]
)
def test_no_field_of_an_entry_climbs_up_the_path(server: Server, tmp_path: Path, number: str, sent: bool) -> None:
    file = tmp_path / "t.toml"
    file.write_text(f'url = "{server.url}/items/{{id}}/ask"\n')
    made = make_target(str(file), Context())
    asked = Request(({"role": "user", "content": "x"},), case="c", fields={"id": number})

    async def run() -> None:
        try:
            await made.answer(asked)
        finally:
            await made.close()

    if sent:
        asyncio.run(run())
        assert len(server.received) == 1
    else:
        with pytest.raises(TargetError, match=r"would make \. or \.\. a part of the address"):
            asyncio.run(run())
        assert not server.received


# -- secrets ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 400, 401, 500])
@pytest.mark.parametrize("written", [f"Bearer ${{{VARIABLE}}}", f"Bearer {KEY}"])
def test_a_server_that_repeats_the_key_does_no_harm(
    server: Server, target: Callable[..., Target], status: int, written: str
) -> None:
    server.script = [echo_of_headers(status)]
    made = target(f'{ANSWER}\n[headers]\nAuthorization = "{written}"')
    seen = repr(made) + json.dumps(dict(made.settings()))
    try:
        seen += ask(made).output
    except TargetError as error:
        seen += str(error) + repr(error)
    assert KEY not in seen
    assert "[key]" in seen or "[masked]" in seen
    assert KEY in server.received[0].headers["authorization"]


def test_a_key_in_the_file_is_used_and_advised_against(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text(f'url = "{server.url}"\nverify = false\n[headers]\nX-Api-Key = "{KEY}"\n')
    heard: list[str] = []
    made = make_target(str(file), Context(tell=heard.append))
    ask(made)
    assert server.received[0].headers["x-api-key"] == KEY
    assert "a header contains a key" in heard[1] and "verify is false" in heard[0]
    assert KEY not in "".join(heard) + json.dumps(dict(made.settings()))


def test_a_target_is_made_again_from_its_record(target: Callable[..., Target], tmp_path: Path) -> None:
    first = target(f'{ANSWER}\n[headers]\nAuthorization = "${VARIABLE}"', requests_per_minute=600.0)
    settings = json.loads(json.dumps(dict(first.settings())))
    heard: list[str] = []
    second = make_again("target", settings, heard.append)
    assert ask(second).output == "hello"
    assert second.settings() == first.settings() and heard == []
    file = tmp_path / "target.toml"
    file.write_text(file.read_text() + "# changed\n")
    make_again("target", settings, heard.append)
    assert "has changed since the run began" in heard[0]


# -- files that cannot be used ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "missing required field `url`"),
        ("url = 7", "url"),
        ('url = "nonsense"', "url is"),
        ('url = "https://{lang}.example/x"', "an entry cannot choose the server"),
        ('url = "https://user:pw@bot.example/x"', "contains a user name or password"),
        ('url = "https://bot.example"\nansver = "x"', "ansver"),
        ('url = "https://bot.example"\ntext = "a"\n[json]\nb = 1', "one body"),
        ('url = "https://bot.example"\npassed = "a"\nflagged = "b"', "in one way"),
        ('url = "https://bot.example"\n[headers]\n"a b" = "c"', "not a valid header name"),
        ('url = "https://bot.example"\n[headers]\nA = "$NO_SUCH_VARIABLE"', "NO_SUCH_VARIABLE, which is not set"),
        ('url = "https://bot.example"\ntries = 0', "tries must be 1"),
        ('url = "https://bot.example"\n[blocked]\nequals = 1', "needs blocked.when"),
        ('url = "https://bot.example"\nverify = "gone.pem"', "not a file of certificates"),
        ("url = ", "invalid TOML"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_when_the_target_is_made(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "t.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        make_target(str(file), Context(tell=lambda _: None))
    assert words in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_file_that_is_missing_is_said() -> None:
    with pytest.raises(FaircountError, match=r"gone.toml: no such file"):
        make_target("./gone.toml", Context())
    with pytest.raises(UsageError, match=r"takes one argument, the file"):
        make_target("http(url='x')", Context())


def test_certificates_are_checked_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificate, is not here")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out"),
            *(str(certificate), "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
        ],
        capture_output=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip("openssl is not there")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    file = tmp_path / "t.toml"
    with Server(tls=context) as server:
        for verify, kind in (("true", "connection"), ("false", None), ('"certificate.pem"', None)):
            file.write_text(f'url = "{server.url}"\n{ANSWER}\nverify = {verify}\n')
            target = make_target(str(file), Context(chat=ChatSettings(tries=1), tell=lambda _: None))
            if kind is None:
                assert ask(target).output == "hello"
            else:
                assert error_of(target).kind == kind
