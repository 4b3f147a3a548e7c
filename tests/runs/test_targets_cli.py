"""`targets list` and `targets try`, and the providers that `--target` reaches."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from faircount.chat import ChatSettings, providers
from faircount.components import Context, make_again
from faircount.core import UsageError
from faircount.runs import BLOCKED, Answer, Request, TargetError, available, make_target, read_file
from tests.conftest import ROOT, Cli, some
from tests.report.test_present import harmless
from tests.runs.misbehaving_server import Server, answer, completion, failing

HELLO = Request(({"role": "user", "content": "hello"},))
KEY = "sk-sentinel-0123456789abcdefSECRET"


def valid(name: str, text: str) -> dict[str, Any]:
    schema = resources.files("faircount.report").joinpath("schemas", f"{name}.json").read_text("utf-8")
    document: dict[str, Any] = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(json.loads(schema))
    jsonschema.Draft202012Validator(json.loads(schema)).validate(document)
    return document


def tried(cli: Cli, *words: str) -> tuple[int, dict[str, Any]]:
    ran = cli("targets", "try", *words, "--output-format", "json")
    assert ran.out.isascii()
    return ran.code, valid("answer-1", ran.out)


# -- list -------------------------------------------------------------------------------------------------------


def test_every_target_is_listed_with_a_sentence(cli: Cli, tmp_path: Path) -> None:
    listed = valid("targets-2", cli("targets", "list", "--output-format", "json").out)
    assert [(one["name"], one["sentence"]) for one in listed["targets"]] == [
        (one.name, one.sentence) for one in available()
    ]
    console, markdown = cli("targets", "list").out, cli("targets", "list", "--output-format", "markdown").out
    for one in available():
        assert one.name.partition("(")[0] in console and one.name.partition("(")[0] in markdown
    page = tmp_path / "targets.html"
    assert cli("targets", "list", "--output-format", "html", "-o", str(page)).code == 0
    assert "simulated:guarded" in page.read_text(encoding="utf-8")
    assert cli("targets", "list", "--output-format", "html").code == 2


def test_targets_of_packages_that_are_broken_are_listed_with_the_reason(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "listed-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: listed\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[faircount.targets]\ngone = listed_targets:Gone\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    (broken,) = valid("targets-2", cli("targets", "list", "--output-format", "json").out)["broken"]
    assert (broken["name"], broken["package"], broken["package_version"]) == ("gone", "listed", "1.0")
    assert broken["error"].startswith("listed_targets:Gone cannot be loaded: ModuleNotFoundError")
    console = cli("targets", "list").out
    assert "From installed packages" in console and "gone    listed   listed_targets:Gone cannot be" in console
    assert "gone" not in [one.name for one in available()]


def test_every_name_that_is_listed_is_understood() -> None:
    """A name in the list may lack a file or a model, but is never unknown."""
    for one in some(available()):
        try:
            make_target(one.name, Context(tell=lambda _: None))
        except Exception as error:  # noqa: BLE001
            assert "no such target" not in str(error), one.name


# -- try --------------------------------------------------------------------------------------------------------


def test_an_answer_is_shown_with_what_it_took(cli: Cli) -> None:
    code, told = tried(cli, "simulated", "What is 17 + 25? Only the number.")
    assert (code, told["output"], told["error"]) == (0, "42", None)
    assert (told["target"], told["model"], told["prompt_tokens"], told["completion_tokens"]) == (
        "simulated", "simulated", 8, 1
    )  # fmt: skip
    console = cli("targets", "try", "simulated", "What is 17 + 25? Only the number.").out
    assert re.search(r"Answer +42\n", console) and "8 + 1" in console
    assert "42" in cli("targets", "try", "simulated", "17 + 25", "--output-format", "markdown").out


def test_system_and_fields_go_along(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bot.py").write_text(
        "def bot(request):\n"
        "    return repr(([m['role'] for m in request.messages], request.case, request.fields['lang']))"
    )
    words = ("./bot.py:bot", "hi", "--system", "Be brief.", "--field", "id=5", "--field", "lang=de")
    assert tried(cli, *words)[1]["output"] == "(['system', 'user'], '5', 'de')"


def test_a_prompt_may_come_from_standard_input(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfline 1\nline 2\n")))
    assert tried(cli, 'command(argv=["cat"])', "-")[1]["output"] == "line 1\nline 2"


def test_guardrails_are_shown_for_what_they_said(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wall.py").write_text(
        "from faircount.testing import GuardrailTriggered\n"
        "def no(messages): return False\n"
        "def stop(messages): raise GuardrailTriggered('stop it', ['hate'])\n"
    )
    code, told = tried(cli, "./wall.py:no", "hi")
    assert (code, told["let_through"], told["blocked"], told["error"]) == (0, False, False, None)
    code, told = tried(cli, "./wall.py:stop", "hi")
    assert (code, told["blocked"], told["categories"]) == (0, True, ["hate"])
    assert told["error"] == {"kind": BLOCKED, "message": "stop it"} and told["output"] is None
    console = cli("targets", "try", "./wall.py:stop", "hi").out
    assert "blocked by a guardrail" in console and "hate" in console and "stop it" in console


def test_an_error_is_shown_and_is_exit_code_4(cli: Cli) -> None:
    code, told = tried(cli, 'command(argv=["false"])', "hi")
    assert code == 4 and told["error"]["kind"] == "exit code"
    ran = cli("targets", "try", 'command(argv=["false"])', "hi")
    assert ran.code == 4 and "exit code 1" in ran.err and "an error" in ran.out
    code, told = tried(cli, "simulated:flaky(error_rate=1, timeout_rate=0)", "hi")
    assert code == 4 and told["error"]["kind"] in ("status", "connection")


def test_code_that_raises_is_an_error_and_no_bug(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bot.py").write_text("def bot(messages): raise ValueError('\\x1b[31m')")
    ran = cli("targets", "try", "./bot.py:bot", "hi")
    assert ran.code == 4 and "ValueError" in ran.out
    assert harmless(ran.out + ran.err)


def test_a_server_is_tried_once_unless_more_is_asked_for(cli: Cli, tmp_path: Path) -> None:
    with Server(script=[failing(500)]) as server:
        file = tmp_path / "t.toml"
        file.write_text(f'url = "{server.url}"\n[json]\nx = "{{prompt}}"')
        assert tried(cli, str(file), "hi")[1]["tries"] == 1
        assert tried(cli, str(file), "hi", "--tries", "2")[1]["tries"] == 2
        assert len(server.received) == 3


def test_hostile_answers_and_long_ones_do_no_harm(cli: Cli) -> None:
    hostile = "\x1b]0;owned\x07 \u202eevil <script>alert(1)</script> key=sk-abcdefghijklmnop1234 " + "z" * 9000
    ran = cli("targets", "try", 'command(argv=["cat"])', hostile)
    assert ran.code == 0 and harmless(ran.out)
    assert "abcdefghijklmnop" not in ran.out and "characters; --output-format json shows all" in ran.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["simulated"], "PROMPT"),
        (["nothing", "hi"], "no such target"),
        (["simulated", "hi", "--field", "lang"], "--field lang: expected NAME=VALUE"),
        (["simulated", "hi", "--timeout", "0"], "--timeout must be more than 0"),
        (["simulated", "hi", "--output-format", "html"], "--output-format html needs -o FILE"),
        (["openai", "hi"], "no model given"),
    ],
)
def test_what_cannot_be_tried_is_said(cli: Cli, words: list[str], told: str) -> None:
    ran = cli("targets", "try", *words)
    assert ran.code == 2 and told in ran.err


def test_the_file_of_the_guide_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    told = read_file(str(ROOT / "docs" / "samples" / "target.toml")).spec
    assert told.answer is not None and told.has_json
    monkeypatch.setenv("BOT_TOKEN", "x")
    assert make_target(str(ROOT / "docs" / "samples" / "target.toml"), Context()).settings()["kind"] == "http"


# -- providers --------------------------------------------------------------------------------------------------


def ask(target: Any, request: Request = HELLO) -> Answer | TargetError:
    async def run() -> Answer | TargetError:
        try:
            told = await target.answer(request)
            assert isinstance(told, Answer)
            return told
        except TargetError as error:
            return error
        finally:
            await target.close()

    return asyncio.run(run())


@pytest.fixture
def parrot(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [metadata.EntryPoint("parrot", "tests.chat.test_chat:Parrot", providers.GROUP)]
    monkeypatch.setattr(metadata, "entry_points", lambda group: entries if group == providers.GROUP else [])


@pytest.mark.usefixtures("parrot")
def test_a_provider_of_another_package_is_a_target_by_its_name() -> None:
    assert "parrot" in [one.name for one in available()]
    target = make_target("parrot", Context(chat=ChatSettings(model="p", backoff=0.0)))
    told = ask(target)
    assert isinstance(told, Answer) and (told.output, told.tries) == ("hello", 2)
    settings = json.loads(json.dumps(dict(target.settings())))
    assert (settings["kind"], settings["name"], settings["chat"]["provider"]) == ("openai", "parrot", "parrot")
    assert make_again("target", settings).name == "parrot"
    with pytest.raises(UsageError, match="parrot: no model given"):
        make_target("parrot", Context())


class Response:
    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content

    def model_dump(self) -> dict[str, Any]:
        return self.content


class RateLimitError(Exception):
    status_code = 429
    response = types.SimpleNamespace(headers={"retry-after": "0"})


class ContentPolicyViolationError(Exception):
    status_code = 400


class AuthenticationError(Exception):
    status_code = 401


@pytest.fixture
def litellm(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A stand-in for the package, which is no part of the test environment; it does what its documentation says."""
    library: Any = types.ModuleType("litellm")
    library.calls = []
    library.script = []

    async def acompletion(**asked: Any) -> Response:
        library.calls.append(asked)
        step = library.script.pop(0) if library.script else None
        if isinstance(step, Exception):
            raise step
        message = {"role": "assistant", "content": f"echo {asked['messages'][-1]['content']}"}
        usage = {"prompt_tokens": 3, "completion_tokens": 2}
        return Response({"model": "m-1", "choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})

    library.acompletion = acompletion
    monkeypatch.setitem(sys.modules, "litellm", library)
    yield library


def by_litellm(**chat: Any) -> Any:
    told = {"model": "anthropic/claude", "backoff": 0.0, "tries": 3, **chat}
    return make_target("litellm", Context(chat=ChatSettings(**told)))


def test_litellm_reaches_other_providers(litellm: Any) -> None:
    litellm.script = [RateLimitError("slow down")]
    told = ask(by_litellm(parameters={"temperature": 0}))
    assert isinstance(told, Answer)
    assert (told.output, told.tries, told.prompt_tokens, told.model) == ("echo hello", 2, 3, "m-1")
    asked = litellm.calls[-1]
    assert (asked["model"], asked["temperature"], asked["num_retries"]) == ("anthropic/claude", 0, 0)
    assert "api_key" not in asked and "api_base" not in asked
    assert litellm.telemetry is False
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"  # nothing is fetched when it is imported


def test_a_key_that_a_provider_of_litellm_repeats_is_in_no_answer(
    litellm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-sentinel-0123456789abcdefSECRET"
    monkeypatch.setenv("OTHER_KEY", key)
    request = Request(({"role": "user", "content": f"my key is {key}"},))
    told = ask(by_litellm(api_key_env="OTHER_KEY"), request)
    assert litellm.calls[-1]["api_key"] == key
    assert isinstance(told, Answer)
    assert told.output == "echo my key is [key]"


@pytest.mark.peer
def test_the_real_litellm_reaches_a_server_and_shows_no_key() -> None:
    python = os.environ.get("FAIRCOUNT_LITELLM")
    if not python:
        pytest.skip("no litellm: name an interpreter that has it and what Faircount needs in FAIRCOUNT_LITELLM")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OTHER_KEY": KEY}
    with Server([answer(completion("It is 4.")), failing(401)]) as server:
        words = ["targets", "try", "litellm", "2+2?", "--model", "openai/m", "--api-key-env", "OTHER_KEY"]
        command = [python, "-m", "faircount", *words, "--base-url", server.url]
        told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        refused = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (told.returncode, "It is 4." in told.stdout) == (0, True), told.stderr
    assert (refused.returncode, "rejected the key" in refused.stderr) == (4, True), refused.stderr
    assert KEY not in told.stdout + told.stderr + refused.stdout + refused.stderr


def test_errors_of_litellm_are_told_apart_and_show_no_key(litellm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_KEY", KEY)
    seen = []
    for error in (ContentPolicyViolationError("no"), AuthenticationError(f"bad key {KEY}"), KeyError("odd")):
        litellm.script = [error]
        told = ask(by_litellm(api_key_env="OTHER_KEY", base_url="http://localhost:1/v1"))
        assert isinstance(told, TargetError) and KEY not in str(told)
        seen.append((told.kind, told.tries))
    assert seen == [(BLOCKED, 1), ("refused key", 1), ("connection", 1)]
    assert (litellm.calls[0]["api_key"], litellm.calls[0]["api_base"]) == (KEY, "http://localhost:1/v1")


def test_without_its_package_litellm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(UsageError, match=r"pip install 'faircount\[litellm\]'"):
        by_litellm()
