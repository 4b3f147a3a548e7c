"""Attacks of spikee's as plays: modules of ours that keep the contract, and spikee's own where it is installed."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from faircount.components import Context, make_again
from faircount.core import UsageError
from faircount.runs import Attack, AttackError, Entry, Play, Prompt, Step, make_attack
from tests.conftest import ROOT, some

PEER = ROOT / ".venv-peers" / "bin" / "python"
needs_spikee = pytest.mark.skipif(not PEER.exists(), reason="spikee is not installed (make peers)")

CLASS = '''
"""An attack as a class of a workspace: numbers its prompts, and keeps a diary."""

diary = []


class Numbering:
    def get_available_option_values(self):
        return ["mark=#", "mark=%"], False

    def attack(self, entry, target_module, call_judge, max_iterations, attempts_bar=None, bar_lock=None,
               attack_option=None):
        mark = (attack_option or "mark=?").partition("=")[2]
        response = ""
        for number in range(1, max_iterations + 3):
            prompt = f"{entry['text']} {mark}{number}"
            try:
                response, meta = target_module.process_input(prompt, entry.get("system_message"))
                success = call_judge(entry, response)
                diary.append((number, response, success, meta))
            except Exception as error:
                success = False
                diary.append((number, type(error).__name__, str(error), getattr(error, "categories", None)))
            with bar_lock:
                attempts_bar.update(1)
            if success:
                return number, True, prompt, response
        return max_iterations, False, {"input": entry["text"]}, response
'''
FUNCTION = '''
"""An attack as older workspaces have it: a function, without an option."""


def attack(entry, target_module, call_judge, max_iterations, attempts_bar, bar_lock):
    print("this must not stand among answers")
    for number in range(3):
        target_module.process_input(f"{number} {entry['payload']}", "Another system message.")
    return 3, False, "", ""
'''
TALKING = '''
"""An attack that talks, takes the last exchange back once, and begins a second conversation."""


class Talking:
    def attack(self, entry, target_module, call_judge, max_iterations, attempts_bar, bar_lock, attack_options=None):
        assert target_module.config["multi-turn"] and target_module.get_target() is not None
        say = target_module.process_input
        say(input_text="one", spikee_session_id="s")
        say(input_text="two", spikee_session_id="s")
        say(input_text="two, nicely", spikee_session_id="s", backtrack=True)
        say(input_text="other", spikee_session_id="t")
        return 4, False, entry["text"], ""
'''
STUBBORN = '''
"""An attack that catches everything and asks on."""

asked = 0


def attack(entry, target_module, call_judge, max_iterations, attempts_bar, bar_lock):
    global asked
    while True:
        asked += 1
        try:
            target_module.process_input("again")
        except BaseException:
            pass
'''
BROKEN = """
class Raises:
    def attack(self, entry, target_module, call_judge, max_iterations, attempts_bar, bar_lock, attack_options=None):
        target_module.process_input("once")
        raise ValueError(f"no way on with {attack_options}")
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    sources = {
        "numbering": CLASS,
        "function": FUNCTION,
        "talking": TALKING,
        "stubborn": STUBBORN,
        "broken": BROKEN,
        "empty": "",
        "wrong": "def attack(entry):\n    return None\n",
    }
    for name, source in sources.items():
        # A module is known by its content and folder: those of another test are other modules.
        (tmp_path / f"{name}.py").write_text(f"{source}\n# {tmp_path.name}\n", encoding="utf-8")
    return tmp_path


def made(name: str, options: str | None = None) -> Attack:
    return make_attack(f"spikee:./{name}.py", Context(tell=lambda _: None), options)


def entry(text: str = "say it", **fields: Any) -> Entry:
    return Entry("e1", ({"role": "system", "content": "S"}, {"role": "user", "content": text}), fields)


def fails(number: int, prompt: Prompt) -> Step:
    return Step(prompt.messages, f"answer {number}", success=False)


async def steps_of(play: Play, history: list[Step], answers: Any = fails) -> list[Step]:
    while (prompt := await play.next(history)) is not None:
        history.append(answers(len(history), prompt))
        if history[-1].success:
            break
    return history


def played(
    attack: Attack, on: Entry | None = None, iterations: int = 5, answers: Any = fails, known: Sequence[Step] = ()
) -> list[Step]:
    async def play() -> list[Step]:
        begun = attack.begin(on or entry(), iterations=iterations)
        try:
            return await steps_of(begun, list(known), answers)
        finally:
            await begun.close()

    return asyncio.run(play())


def texts(steps: Sequence[Step]) -> list[str]:
    return [str(step.messages[-1]["content"]) for step in steps]


def diary_of(attack: Any) -> list[tuple[Any, ...]]:
    module = sys.modules[type(attack._implementation).__module__]
    diary: list[tuple[Any, ...]] = module.diary
    return diary


def until(happened: Any, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not happened() and time.monotonic() < end:
        time.sleep(0.005)
    return bool(happened())


# -- the contract -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("workspace")
def test_what_the_attack_asks_the_target_is_what_is_sent() -> None:
    attack = made("numbering")
    steps = played(attack)
    assert attack.name == "spikee:./numbering.py"
    assert texts(steps) == [f"say it #{number}" for number in range(1, 6)]
    assert all(step.messages[0] == {"role": "system", "content": "S"} for step in steps)


@pytest.mark.usefixtures("workspace")
def test_the_attack_hears_answers_verdicts_guardrails_and_errors() -> None:
    def answer(number: int, prompt: Prompt) -> Step:
        if number == 1:
            return Step(prompt.messages, error="blocked: not here", blocked=True)
        if number == 2:
            return Step(prompt.messages, error="timeout: late")
        return Step(prompt.messages, f"answer {number}", success=None if number == 3 else False)

    attack = made("numbering")
    played(attack, answers=answer)
    assert until(lambda: len(diary_of(attack)) >= 4)
    assert diary_of(attack)[:4] == [
        (1, "answer 0", False, None),
        (2, "GuardrailTrigger", "blocked: not here", {}),
        (3, "TargetFailed", "timeout: late", None),
        (4, "answer 3", False, None),
    ]


@pytest.mark.usefixtures("workspace")
def test_the_first_option_that_is_offered_is_given_unless_another_is() -> None:
    assert texts(played(made("numbering", "mark=%")))[0] == "say it %1"
    assert made("numbering", "mark=%").settings()["option"] == "mark=%"


@pytest.mark.usefixtures("workspace")
def test_a_function_of_an_older_workspace_is_called_as_it_wants(capfd: pytest.CaptureFixture[str]) -> None:
    steps = played(made("function"), entry(payload="p"), 10)
    assert texts(steps) == ["0 p", "1 p", "2 p"]
    assert steps[0].messages[0]["content"] == "Another system message."
    printed = capfd.readouterr()
    assert "must not" not in printed.out
    assert "must not" in printed.err


@pytest.mark.usefixtures("workspace")
def test_a_session_is_a_conversation_whose_last_exchange_can_be_taken_back() -> None:
    steps = played(made("talking"), iterations=10)
    contents = [[one["content"] for one in step.messages] for step in steps]
    assert contents == [
        ["S", "one"],
        ["S", "one", "answer 0", "two"],
        ["S", "one", "answer 0", "two, nicely"],
        ["S", "other"],
    ]


@pytest.mark.usefixtures("workspace")
def test_what_the_attack_raises_ends_it_with_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_MINE", "hunter2-and-more")
    attack = made("broken", "$SECRET_OF_MINE")
    assert attack.settings()["option"] == "$SECRET_OF_MINE"
    with pytest.raises(AttackError) as raised:
        played(attack)
    assert "ValueError: no way on with" in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.usefixtures("workspace")
def test_an_option_that_looks_like_a_secret_is_not_recorded() -> None:
    told: list[str] = []
    attack = make_attack("spikee:./broken.py", Context(tell=told.append), "api_key=sk-live-0123456789abcdef")
    assert "sk-live" not in json.dumps(attack.settings())
    assert "FAIRCOUNT_ARG_ATTACK_OPTIONS" in told[0]


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("spikee:./empty.py", "has no function attack and no class with a method attack"),
        ("spikee:./wrong.py", "its attack must take"),
        ("spikee:./gone.py", "no such file"),
        ("spikee:no-name", "name one of spikee's attacks, or the file of one"),
    ],
)
def test_what_is_no_attack_of_spikees_is_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_attack(name, Context())


def test_a_missing_spikee_is_named_with_the_way_to_install_it() -> None:
    script = (
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, *a: None if n.split('.')[0] == 'spikee' else find(n, *a)\n"
        "from faircount.components import Context\nfrom faircount.runs import make_attack\n"
        "make_attack('spikee:best_of_n', Context())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith(
        "UsageError: spikee:best_of_n: needs the package spikee; install it: pip install spikee"
    )


# -- resuming ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize("name", ["numbering", "talking", "function"])
def test_an_attack_that_draws_no_lots_goes_on_where_it_was_cut_off(name: str) -> None:
    on = entry(payload="p")
    whole = played(made(name), on)
    for cut_at in range(len(whole) + 1):
        assert played(made(name), on, known=whole[:cut_at]) == whole


@pytest.mark.usefixtures("workspace")
def test_an_attack_that_sends_something_else_goes_on_with_that_within_its_iterations() -> None:
    known = [Step(({"role": "user", "content": "something drawn"},), "no", success=False)] * 2
    steps = played(made("numbering"), known=known)
    assert texts(steps) == ["something drawn"] * 2 + [f"say it #{number}" for number in (1, 2, 3)]


@pytest.mark.usefixtures("workspace")
def test_what_was_recorded_is_answered_from_the_record_up_to_the_first_difference() -> None:
    attack = made("numbering")
    whole = played(attack, iterations=4)
    other = Step(({"role": "user", "content": "drawn"},), "no", success=False)
    steps = played(made("numbering"), iterations=6, known=[*whole[:2], other])
    assert texts(steps) == ["say it #1", "say it #2", "drawn", "say it #3", "say it #4", "say it #5"]


@pytest.mark.usefixtures("workspace")
def test_a_success_in_the_record_is_heard_by_the_attack() -> None:
    attack = made("numbering")
    won = Step(({"role": "system", "content": "S"}, {"role": "user", "content": "say it #1"}), "yes", success=True)
    assert texts(played(attack, known=[won])) == ["say it #1"]
    assert diary_of(attack)[-1] == (1, "yes", True, None)


@pytest.mark.usefixtures("workspace")
def test_an_attack_is_made_again_from_a_journal_wherever_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attack = made("numbering", "mark=%")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    recorded = json.loads(json.dumps(attack.settings()))
    again = make_again("attack", recorded)
    assert (again.name, again.settings()) == (attack.name, attack.settings())
    assert texts(played(again)) == texts(played(attack))
    told: list[str] = []
    make_again("attack", {**recorded, "version": "older"}, told.append)
    assert "has changed since the run began" in told[0]


# -- ending -----------------------------------------------------------------------------------------------------


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "faircount-attack"]


@pytest.mark.usefixtures("workspace")
def test_closing_ends_the_thread_of_an_attack_in_the_middle() -> None:
    async def play() -> None:
        begun = made("numbering").begin(entry(), iterations=100)
        assert await begun.next([]) is not None
        (new,) = set(threads()) - before
        await begun.close()
        assert until(lambda: not new.is_alive())

    before = set(threads())
    asyncio.run(play())


@pytest.mark.usefixtures("workspace")
def test_an_attack_that_catches_everything_is_left_asleep() -> None:
    attack = made("stubborn")
    steps = played(attack, iterations=3)
    assert len(steps) == 3
    module: Any = attack._implementation  # type: ignore[attr-defined]
    assert until(lambda: module.asked > 100)
    asked = module.asked
    time.sleep(0.05)
    assert module.asked <= asked + 5


@pytest.mark.usefixtures("workspace")
def test_an_attack_that_hangs_does_not_keep_the_program_from_ending(tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text(
        "import time\n\ndef attack(entry, target, judge, iterations, bar, lock):\n"
        "    target.process_input('one')\n    time.sleep(1000)\n",
        encoding="utf-8",
    )
    script = (
        "import asyncio\n"
        "from faircount.components import Context\nfrom faircount.runs import make_attack\n"
        "from faircount.runs.attacks.base import Entry, Step\n"
        "async def main():\n"
        "    play = make_attack('spikee:./hanging.py', Context()).begin(Entry('e', ()), iterations=5)\n"
        "    prompt = await play.next([])\n"
        "    try:\n"
        "        async with asyncio.timeout(0.2):\n"
        "            await play.next([Step(prompt.messages, 'no', success=False)])\n"
        "    except TimeoutError:\n"
        "        print('gave up')\n"
        "    await play.close()\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert (done.stdout, done.returncode) == ("gave up\n", 0), done.stderr


@pytest.mark.usefixtures("workspace")
def test_many_attacks_run_beside_each_other() -> None:
    async def all_of_them() -> list[list[Step]]:
        attack = made("numbering")
        plays = [attack.begin(entry(f"say {number}"), iterations=5) for number in range(20)]
        try:
            return await asyncio.gather(*(steps_of(play, []) for play in plays))
        finally:
            for play in plays:
                await play.close()

    results = asyncio.run(all_of_them())
    for number, steps in some(enumerate(results)):
        assert texts(steps) == [f"say {number} #{turn}" for turn in range(1, 6)]
    gc.collect()


# -- the real one -----------------------------------------------------------------------------------------------

REAL = """
import asyncio, json, sys
from faircount.components import Context, make_again
from faircount.runs import make_attack
from faircount.runs.attacks.base import Entry, Step


async def play(attack, fields, text="Please tell me BEEP now.", win_at=None):
    on = Entry("e1", ({"role": "system", "content": "S"}, {"role": "user", "content": text}), fields)
    begun, steps = attack.begin(on, iterations=4), []
    while (prompt := await begun.next(steps)) is not None:
        number = len(steps)
        blocked = number == 1
        steps.append(Step(prompt.messages, None if blocked else f"answer {number}", success=number == win_at,
                          error="blocked: x" if blocked else None, blocked=blocked))
        if number == win_at:
            break
    await begun.close()
    return [[message["content"] for message in step.messages] for step in steps]


async def main():
    told = {}
    fields = {"payload": "tell me BEEP", "exclude_from_transformations_regex": ["BEEP"]}
    for name in ("best_of_n", "anti_spotlighting", "prompt_decomposition"):
        attack = make_attack(f"spikee:{name}", Context())
        attack = make_again("attack", json.loads(json.dumps(attack.settings())))
        told[name] = await play(attack, fields)
    talk = make_attack("spikee:multi_turn", Context())
    told["won"] = await play(talk, {"content": ["Hello", "tell me BEEP", "now"]}, win_at=0)
    try:
        await play(make_attack("spikee:crescendo", Context()), fields)
    except Exception as error:
        told["crescendo"] = f"{type(error).__name__}: {error}"
    try:
        make_attack("spikee:no_such_attack", Context())
    except Exception as error:
        told["unknown"] = f"{type(error).__name__}: {error}"
    told["version"] = talk.settings()["version"]
    print(json.dumps(told))


asyncio.run(main())
"""


@pytest.mark.peer
@needs_spikee
def test_spikees_own_attacks_play(tmp_path: Path) -> None:
    # That interpreter need not have what Faircount needs: of that, attacks are made with msgspec alone.
    (tmp_path / "needed").mkdir()
    (tmp_path / "needed" / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "needed"), str(ROOT / "src")])}
    done = subprocess.run(
        [str(PEER), "-c", REAL], capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = done.stdout.splitlines()
    told = json.loads(line)
    for name in ("best_of_n", "anti_spotlighting", "prompt_decomposition"):
        assert len(told[name]) == 4
        for system, prompt in told[name]:
            assert system == "S"
            assert "BEEP" in prompt
        # What spikee draws at random may now and then be the prompt itself.
        assert {prompt for _, prompt in told[name]} != {"Please tell me BEEP now."}
    assert told["won"] == [["S", "Hello"]]
    assert told["crescendo"].startswith("AttackError: ValueError")
    assert "the installed spikee has no such attack" in told["unknown"]
    assert told["version"].startswith("spikee 0.")
