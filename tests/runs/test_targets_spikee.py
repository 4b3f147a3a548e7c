"""spikee's target modules as targets: found, asked as spikee asks them, and their signals understood."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from faircount.chat import ChatSettings
from faircount.components import Context, make_again
from faircount.core import UsageError
from faircount.runs import BLOCKED, Answer, Request, Target, TargetError, make_target
from tests.conftest import ROOT

PEER = ROOT / ".venv-peers" / "bin" / "python"
SIGNALS = textwrap.dedent(
    """
    try:
        from spikee.tester import GuardrailTrigger, MultiTurnSkip, RetryableError
    except ImportError:
        class GuardrailTrigger(Exception):
            def __init__(self, message, categories=None):
                super().__init__(message)
                self.categories = categories or {}
        class RetryableError(Exception):
            def __init__(self, message, retry_period=None):
                super().__init__(message)
                self.retry_period = retry_period
        class MultiTurnSkip(Exception):
            pass
    """
)
"""A module of a workspace that works with spikee and without."""
REQUEST = Request(
    ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}),
    case="entry-7",
    fields={"id": 7},
    conversation="c1",
)

Made = Callable[..., Target]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "targets").mkdir()
    return tmp_path


@pytest.fixture
def module(workspace: Path) -> Made:
    """Return a target of a module of the workspace."""

    def make(code: str, options: str = "", **chat: Any) -> Target:
        (workspace / "targets" / "bot.py").write_text(SIGNALS + textwrap.dedent(code), encoding="utf-8")
        told = ChatSettings(**{"tries": 1, "backoff": 0.0, **chat})
        return make_target(f"spikee:bot{options}", Context(chat=told))

    return make


def ask(target: Target, *requests: Request) -> list[Answer]:
    async def run() -> list[Answer]:
        return [await target.answer(request) for request in requests or [REQUEST]]

    return asyncio.run(run())


def error_of(target: Target, request: Request = REQUEST) -> TargetError:
    with pytest.raises(TargetError) as caught:
        ask(target, request)
    return caught.value


# -- what is asked, and what comes ------------------------------------------------------------------------------


def test_a_function_gets_what_it_has_parameters_for(module: Made) -> None:
    plain = module("def process_input(input_text, system_message=None): return f'{system_message}|{input_text}'")
    assert ask(plain)[0].output == "Be brief.|hello"
    code = "def process_input(input_text, system_message=None, target_options=None, logprobs=True, input_id=None, "
    code += "output_file='x', spikee_session_id=None, backtrack=True):\n"
    code += "    return repr((target_options, logprobs, input_id, output_file, spikee_session_id, backtrack))"
    assert ask(module(code, '(target_options="a=1")'))[0].output == "('a=1', False, 7, None, 'c1', False)"
    assert ask(module(code))[0].output == "(None, False, 7, None, 'c1', False)"


def test_a_class_is_made_once_and_asked(module: Made) -> None:
    code = """
        class Bot:
            def __init__(self):
                self.count = 0
            def process_input(self, input_text, system_message=None, target_options=None):
                self.count += 1
                return f"{input_text} {self.count}"
    """
    assert [one.output for one in ask(module(code), REQUEST, REQUEST)] == ["hello 1", "hello 2"]


@pytest.mark.parametrize(
    ("returned", "output", "through"),
    [
        ("'text'", "text", None),
        ("('text', {'logprobs': 1})", "text", None),
        ("True", "True", True),
        ("False", "False", False),
        ("(False, None)", "False", False),
        ("''", "", None),
    ],
)
def test_a_target_returns_a_text_or_a_decision(module: Made, returned: str, output: str, through: bool | None) -> None:
    (told,) = ask(module(f"def process_input(input_text, system_message=None): return {returned}"))
    assert (told.output, told.let_through, told.tries) == (output, through, 1)


@pytest.mark.parametrize("returned", ["None", "7", "('a', 'b', 'c')", "{'output': 'x'}", "b'x'"])
def test_anything_else_is_no_answer(module: Made, returned: str) -> None:
    error = error_of(module(f"def process_input(input_text, system_message=None): return {returned}"))
    assert error.kind == "wrong answer"


# -- signals ----------------------------------------------------------------------------------------------------


def raising(error: str) -> str:
    return f"def process_input(input_text, system_message=None):\n    raise {error}"


def test_a_guardrail_that_was_triggered_is_a_block_with_categories_and_is_not_repeated(module: Made) -> None:
    error = error_of(module(raising("GuardrailTrigger('no', {'hate': True, 'pii': 0, 'x': 'high'})"), tries=5))
    assert (error.kind, error.message, error.categories, error.tries) == (BLOCKED, "no", ("hate", "x"), 1)
    assert error_of(module(raising("GuardrailTrigger('no')"))).categories == ()


def test_an_error_that_may_be_repeated_is_repeated_after_its_time(module: Made) -> None:
    code = """
        tries = []
        def process_input(input_text, system_message=None):
            tries.append(1)
            if len(tries) == 1:
                raise RetryableError("busy", retry_period=0.2)
            if len(tries) == 2:
                raise RuntimeError("status 429: too many")
            return "at last"
    """
    (told,) = ask(module(code, tries=3))
    assert (told.output, told.tries) == ("at last", 3)
    assert 0.2 <= told.waited < 5
    error = error_of(module(raising("RetryableError('busy', 0.0)"), tries=2))
    assert (error.kind, error.tries) == ("RetryableError", 2)
    assert "given up after 2 tries" in error.message


def test_no_target_decides_how_long_a_run_waits(module: Made) -> None:
    error = error_of(module(raising("RetryableError('busy', 3600)"), tries=3, longest_wait=5.0))
    assert error.tries == 1 and "longest_wait is 5.0 s" in error.message


def test_other_errors_are_recorded_by_their_name(module: Made) -> None:
    assert error_of(module(raising("KeyError('x')"), tries=5)).kind == "KeyError"
    assert error_of(module(raising("MultiTurnSkip('no')"))).kind == "MultiTurnSkip"
    assert error_of(module(raising("SystemExit(3)"))).kind == "SystemExit"
    secret = "sk-sentinel-0123456789abcdefSECRET"
    assert secret not in error_of(module(raising(f"ValueError('key {secret}')"))).message


def test_a_target_that_hangs_is_left_behind(module: Made) -> None:
    code = "import time\ndef process_input(input_text, system_message=None): time.sleep(3)"
    assert error_of(module(code, timeout=0.2)).kind == "timeout"


# -- conversations ----------------------------------------------------------------------------------------------


MULTI = """
    class Bot:
        config = {"single-turn": True, "multi-turn": True, "backtrack": True}
        def add_managed_dicts(self, target_data, add_dicts=None):
            self.data = target_data
        def process_input(self, input_text, system_message=None, target_options=None, spikee_session_id=None,
                          backtrack=False):
            said = self.data.setdefault(spikee_session_id, [])
            if backtrack:
                said.pop()
            said.append(input_text)
            return " ".join(said)
"""


def turns(*texts: str, conversation: str = "c1") -> Request:
    messages: list[dict[str, Any]] = []
    for text in texts:
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "…"}]
    return Request(tuple(messages[:-1]), conversation=conversation)


def test_a_conversation_goes_on_in_the_session_of_the_target(module: Made) -> None:
    asked = [turns("a"), turns("x", conversation="c2"), turns("a", "b"), turns("a", "c"), turns("a", "c", "d")]
    assert [one.output for one in ask(module(MULTI), *asked)] == ["a", "x", "a b", "a c", "a c d"]


def test_a_conversation_that_the_target_does_not_know_is_an_error(module: Made) -> None:
    error = error_of(module(MULTI), turns("a", "b"))
    assert error.kind == "conversation" and "turn 2" in error.message
    assert error_of(module(MULTI), turns("a", "b", conversation="")).kind == "conversation"
    plain = module("def process_input(input_text, system_message=None): return 'x'")
    assert error_of(plain, turns("a", "b")).kind == "MultiTurnSkip"


# -- names and records ------------------------------------------------------------------------------------------


def test_a_module_is_made_again_from_its_record(module: Made, workspace: Path) -> None:
    code = "def process_input(input_text, system_message=None, target_options=None): return target_options"
    first = module(code, '(target_options="x")')
    settings = json.loads(json.dumps(dict(first.settings())))
    assert settings["arguments"] == {"target_options": "x"} and settings["folder"] == str(workspace)
    heard: list[str] = []
    assert ask(make_again("target", settings, heard.append))[0].output == "x"
    assert heard == []
    (workspace / "targets" / "bot.py").write_text(code + "\n# changed", encoding="utf-8")
    make_again("target", settings, heard.append)
    assert "has changed since the run began" in heard[0]


def test_a_file_is_named_by_its_path_and_options_come_from_target_args(workspace: Path) -> None:
    (workspace / "mine.py").write_text(
        "def process_input(input_text, system_message=None, target_options=None): return str(target_options)"
    )
    target = make_target("spikee:./mine.py", Context(), target_args='{"target_options": "a,b"}')
    assert ask(target)[0].output == "a,b"
    assert target.name == "spikee:./mine.py"


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("spikee:gone", "", "no targets/gone.py here"),
        ("spikee:", "", "name one of spikee's target modules"),
        ("spikee:a b", "", "name one of spikee's target modules"),
        ("spikee:./gone.py", "", "no such file"),
        ("spikee:bot", "x = 1", "has no function process_input"),
        ("spikee:bot", "def process_input(input_text, magic): return ''", "takes magic"),
        ("spikee:bot", "async def process_input(input_text, system_message=None): return ''", "async"),
        ("spikee:bot", "raise OSError('no key')", "cannot be loaded: OSError: no key"),
        ("spikee:bot", "class T:\n    def __init__(self): 1 / 0\n    def process_input(self): 0", "cannot be created"),
        ("spikee:bot(model='x')", "def process_input(input_text): return ''", "it takes target_options"),
        ("spikee:bot(target_options='x')", "def process_input(input_text): return ''", "takes no target_options"),
    ],
)
def test_what_is_no_target_is_refused(workspace: Path, name: str, code: str, words: str) -> None:
    (workspace / "targets" / "bot.py").write_text(code, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        make_target(name, Context())
    assert words in str(caught.value)


# -- the real spikee --------------------------------------------------------------------------------------------


MODULES = {
    "text": "def process_input(input_text, system_message=None): return f'{system_message} {input_text}'",
    "options": "def process_input(input_text, system_message=None, target_options='d'): return str(target_options)",
    "every": "def process_input(input_text, system_message=None, logprobs=None, input_id=None, output_file=1,"
    " spikee_session_id=None, backtrack=None): return repr((logprobs, input_id, backtrack))",
    "open": "def process_input(input_text, system_message=None, **more): return str(sorted(more))",
    "yes": "def process_input(input_text, system_message=None): return True",
    "pair": "def process_input(input_text, system_message=None): return (False, {'score': 0.9})",
    "triple": "def process_input(input_text, system_message=None): return ('a', 'b', 'c')",
    "none": "def process_input(input_text, system_message=None): return None",
    "number": "def process_input(input_text, system_message=None): return 7",
    "blocks": "def process_input(input_text, system_message=None):"
    " raise GuardrailTrigger('stop', {'hate': True, 'pii': 'high'})",
    "skips": "def process_input(input_text, system_message=None): raise MultiTurnSkip('no')",
    "fails": "def process_input(input_text, system_message=None): raise ValueError('oops')",
    "method": """
        try:
            from spikee.templates.target import Target
        except ImportError:
            class Target:
                pass
        class Bot(Target):
            def __init__(self):
                super().__init__()
                self.asked = 0
            def get_description(self):
                return [], "a bot"
            def get_available_option_values(self):
                return ["x"], False
            def process_input(self, input_text, system_message=None, target_options=None):
                self.asked += 1
                return f"{input_text} {target_options} {self.asked}"
    """,
}

IN_SPIKEE = """
import json, sys
from spikee.tester import AdvancedTargetWrapper, GuardrailTrigger
told = {}
for name in sys.argv[1:]:
    wrapper = AdvancedTargetWrapper.create_target_wrapper(name, None, 1, 0)
    try:
        value, _ = wrapper.process_input("hello", "Be brief.", input_id=7)
        told[name] = ["answer", value]
    except GuardrailTrigger as error:
        told[name] = ["blocked", str(error), [one for one, value in error.categories.items() if value]]
    except Exception as error:
        told[name] = ["error"]
print(json.dumps(told))
"""


def seen_here(name: str) -> list[Any]:
    target = make_target(f"spikee:{name}", Context(chat=ChatSettings(tries=1)))
    try:
        (told,) = ask(target)
    except TargetError as error:
        return ["blocked", error.message, list(error.categories)] if error.kind == BLOCKED else ["error"]
    return ["answer", told.output if told.let_through is None else told.let_through]


@pytest.mark.peer
@pytest.mark.skipif(not PEER.exists(), reason="spikee is not installed (make peers)")
def test_modules_answer_here_as_they_do_in_spikee(workspace: Path) -> None:
    for name, code in MODULES.items():
        (workspace / "targets" / f"{name}.py").write_text(SIGNALS + textwrap.dedent(code), encoding="utf-8")
    command = [str(PEER), "-c", IN_SPIKEE, *MODULES]
    done = subprocess.run(command, cwd=workspace, capture_output=True, text=True, check=True)
    in_spikee = json.loads(done.stdout.splitlines()[-1])
    assert {name: seen_here(name) for name in MODULES} == in_spikee
    assert {told[0] for told in in_spikee.values()} == {"answer", "blocked", "error"}


REAL = """
import asyncio, json
from faircount.core import UsageError
from faircount.components import Context
from faircount.runs import make_target
from faircount.runs.targets.base import Request, TargetError

def said(*texts, conversation="c"):
    messages = [{"role": role, "content": text} for text in texts for role in ("user", "assistant")]
    return Request(tuple(messages[:-1]), conversation=conversation)

async def main():
    target = make_target("spikee:several", Context())
    told = {"turns": [(await target.answer(said(*texts))).output for texts in (("a",), ("a", "b"), ("a", "c"))]}
    try:
        await make_target("spikee:wall", Context()).answer(said("a"))
    except TargetError as error:
        told["wall"] = [error.kind, error.message, list(error.categories)]
    told["version"] = target.settings()["version"]
    try:
        make_target("spikee:no_such_target", Context())
    except UsageError as error:
        told["unknown"] = str(error)
    told["built in"] = make_target("spikee:llm_provider", Context()).settings()["version"]
    print(json.dumps(told))

asyncio.run(main())
"""
SEVERAL = """
from spikee.templates.simple_multi_target import SimpleMultiTarget

class Several(SimpleMultiTarget):
    def __init__(self):
        super().__init__(backtrack=True)

    def get_description(self):
        return [], "several turns"

    def get_available_option_values(self):
        return [], False

    def process_input(self, input_text, system_message=None, target_options=None, spikee_session_id=None,
                      backtrack=False):
        said = list(self._get_conversation_data(spikee_session_id))
        if backtrack:
            said.pop()
        self._update_conversation_data(spikee_session_id, [*said, input_text])
        return " ".join([*said, input_text])
"""


@pytest.mark.peer
@pytest.mark.skipif(not PEER.exists(), reason="spikee is not installed (make peers)")
def test_spikees_own_classes_and_signals_work(workspace: Path) -> None:
    (workspace / "targets" / "several.py").write_text(SEVERAL)
    (workspace / "targets" / "wall.py").write_text(SIGNALS + raising("GuardrailTrigger('stop', {'hate': 1})"))
    # That interpreter need not have what Faircount needs.
    (workspace / "needed").mkdir()
    (workspace / "needed" / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    path = os.pathsep.join([str(workspace / "needed"), str(ROOT / "src")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [str(PEER), "-c", REAL], cwd=workspace, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["turns"] == ["a", "a b", "a c"]
    assert told["wall"] == ["blocked", "stop", ["hate"]]
    assert told["version"].startswith("0.9.2+") and told["built in"] == "0.9.2"
    assert "the installed spikee has no such target" in told["unknown"]
