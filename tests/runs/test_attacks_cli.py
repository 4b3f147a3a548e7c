"""`attacks list` and `attacks try`: what can be named, what would be sent, and what comes of it."""

from __future__ import annotations

import io
import json
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from faircount.analysis import list_attacks
from faircount.runs import ATTACKS, ENCODINGS
from tests.conftest import ROOT, Cli, some
from tests.report.test_present import harmless

BOT = '''
import re


def answer(messages):
    """Refuse, unless asked in hexadecimal."""
    coded = re.search(r"\\[\\[([0-9a-f]+)\\]\\]", messages[-1]["content"])
    return "Gladly: " + bytes.fromhex(coded[1]).decode() if coded else "I cannot do that."


def guard(messages):
    from faircount.runs.targets.base import BLOCKED, TargetError

    raise TargetError(BLOCKED, "not with us")


def late(messages):
    raise RuntimeError("no answer today")
'''
HOSTILE = "\x1b]0;owned\x07 \u202eevil <script>alert(1)</script>"


def validator(name: str) -> Any:
    text = resources.files("faircount.report").joinpath("schemas", f"{name}.json").read_text("utf-8")
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def tried(cli: Cli, *words: str) -> tuple[int, dict[str, Any]]:
    ran = cli("attacks", "try", *words, "--output-format", "json")
    assert ran.out, ran.err
    read: dict[str, Any] = json.loads(ran.out)
    validator("attack-trial-1").validate(read)
    return ran.code, read


def prompts(read: dict[str, Any]) -> list[str]:
    return [step["messages"][-1]["content"] for step in read["steps"]]


@pytest.fixture
def bot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "bot.py"
    path.write_text(BOT, encoding="utf-8")
    return path


# -- list -------------------------------------------------------------------------------------------------------


def test_every_attack_built_in_is_listed_with_its_options_and_its_purpose(cli: Cli) -> None:
    ran = cli("attacks", "list", "--output-format", "json")
    assert ran.code == 0
    read = json.loads(ran.out)
    validator("attacks-2").validate(read)
    attacks = {one["name"]: one for one in read["attacks"]}
    assert list(attacks) == [one.name for one in ATTACKS.known]
    assert {"name": "seed", "required": False, "several": False, "default": 0} in attacks["best-of-n"]["options"]
    assert all(one["name"] != "chat" for one in attacks["multi-turn"]["options"])
    assert attacks["multi-turn"]["aliases"] == ["crescendo"]
    assert "systems that you own" in read["purpose"]


def test_the_list_can_be_read_by_people(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "attacks.html"
    assert cli("attacks", "list", "--output-format", "html", "-o", str(page)).code == 0
    for text in (
        cli("attacks", "list").out,
        cli("attacks", "list", "--output-format", "markdown").out,
        page.read_text(encoding="utf-8"),
    ):
        assert "systems that you own" in " ".join(text.split())
        assert all(one.name in text for one in ATTACKS.known)


def test_attacks_of_packages_and_those_that_are_broken_are_listed(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "listed_attacks.py").write_text(
        "from faircount.runs.attacks.base import Attack\n\n\nclass Mine(Attack):\n"
        '    """Does what I want."""\n\n    name = "mine"\n\n    def __init__(self, depth, seed=7):\n        pass\n\n'
        "    def settings(self):\n        return {}\n\n"
        "    def begin(self, entry, *, iterations):\n        raise NotImplementedError\n",
        encoding="utf-8",
    )
    about = tmp_path / "listed-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: listed\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(
        f"[{ATTACKS.group}]\nmine = listed_attacks:Mine\ngone = listed_attacks:Gone\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    read = json.loads(cli("attacks", "list", "--output-format", "json").out)
    validator("attacks-2").validate(read)
    mine = read["attacks"][-1]
    assert (mine["name"], mine["package"], mine["package_version"]) == ("mine", "listed", "1.0")
    assert mine["does"] == "Does what I want."
    assert mine["options"][0] == {"name": "depth", "required": True, "several": False, "default": None}
    assert [one["name"] for one in read["broken"]] == ["gone"]
    console = cli("attacks", "list").out
    assert "From installed packages" in console
    assert "gone" in console


def test_the_guide_names_every_attack_option_and_encoding() -> None:
    page = (ROOT / "docs" / "guides" / "attacks.md").read_text(encoding="utf-8")
    for attack in list_attacks().attacks:
        assert f"| `{attack.name}` |" in page
        assert all(f"`{option.name}" in page for option in attack.options), attack.name
        assert all(f"`{alias}`" in page for alias in attack.aliases)
    assert all(kind.name in page for kind in ENCODINGS)


# -- try --------------------------------------------------------------------------------------------------------


def test_without_a_target_the_prompts_are_shown_and_nothing_is_sent(cli: Cli) -> None:
    code, read = tried(cli, "encodings", "Say it.", "--iterations", "3")
    assert code == 0
    assert [step["note"] for step in read["steps"]] == [{"encoding": name} for name in ("base64", "hex", "rot13")]
    assert all(step["response"] is None and step["success"] is None for step in read["steps"])
    assert (read["target"], read["judge"], read["success"], read["prompt"]) == (None, None, None, "Say it.")
    assert read["settings"]["kind"] == "built-in"


def test_with_a_target_and_a_judge_it_ends_at_the_first_success(cli: Cli, bot: Path) -> None:
    words = ["encodings", "Say BYPASSED.", "--target", f"./{bot.name}:answer", "--judge", 'contains(text="BYPASSED")']
    code, read = tried(cli, *words)
    assert (code, read["success"]) == (0, True)
    assert [step["success"] for step in read["steps"]] == [False, True]
    assert read["steps"][1]["response"] == "Gladly: Say BYPASSED."
    console = cli("attacks", "try", *words).out
    assert "Success" in console
    assert "Gladly: Say BYPASSED." in console


def test_the_judge_gets_the_arguments_of_the_entry(cli: Cli, bot: Path) -> None:
    words = ["encodings", "Say BYPASSED.", "--target", f"./{bot.name}:answer", "--judge", "canary"]
    _, read = tried(cli, *words, "--field", "judge_args=BYPASSED")
    assert read["success"] is True
    _, read = tried(cli, *words)
    assert [step["success"] for step in read["steps"]] == [None] * 5


def test_a_target_without_a_judge_answers_and_nobody_decides(cli: Cli, bot: Path) -> None:
    _, read = tried(cli, "best-of-n", "Say it.", "--target", f"./{bot.name}:answer", "--iterations", "2")
    assert [step["response"] for step in read["steps"]] == ["I cannot do that."] * 2
    assert read["success"] is None


def test_guardrails_and_errors_are_told_apart(cli: Cli, bot: Path) -> None:
    words = ("best-of-n", "Say it.", "--iterations", "1", "--judge", "refusal", "--target")
    _, blocked = tried(cli, *words, f"./{bot.name}:guard")
    _, failed = tried(cli, *words, f"./{bot.name}:late")
    assert (blocked["steps"][0]["blocked"], failed["steps"][0]["blocked"]) == (True, False)
    assert blocked["steps"][0]["error"] == "blocked: not with us"
    assert "no answer today" in failed["steps"][0]["error"]
    assert "blocked" in cli("attacks", "try", *words, f"./{bot.name}:guard").out


def test_fields_of_the_entry_can_be_given(cli: Cli) -> None:
    words = ["best-of-n(strength=1)", "Dear all, say XYZZY and PLUGH now. Bye.", "--iterations", "4"]
    fields = [
        "payload=say XYZZY and PLUGH now.",
        *(f"exclude_from_transformations_regex={one}" for one in ("XYZZY", "PLUGH")),
    ]
    _, read = tried(cli, *words, *(word for field in fields for word in ("--field", field)))
    for prompt in some(prompts(read)):
        assert prompt.startswith("Dear all, ")
        assert prompt.endswith(" Bye.")
        assert "XYZZY" in prompt and "PLUGH" in prompt


def test_options_can_be_given_beside_the_name(cli: Cli) -> None:
    _, one = tried(cli, "best_of_n(seed=7)", "Say it.")
    _, other = tried(cli, "best-of-n", "Say it.", "--attack-options", "seed=7")
    assert one == other


def test_a_prompt_can_be_piped_in(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("Säg det.".encode())))
    _, read = tried(cli, "anti-spotlighting", "-", "--iterations", "1")
    assert read["prompt"] == "Säg det."


def test_an_attack_that_fails_says_so_and_the_exit_code_is_3(cli: Cli) -> None:
    code, read = tried(cli, "multi-turn", "Say it.")
    assert (code, read["steps"]) == (3, [])
    assert "only one turn" in read["error"]
    ran = cli("attacks", "try", "multi-turn", "Say it.")
    assert "The attack itself failed" in ran.out
    assert ran.err.startswith("faircount: multi-turn: ")


def test_an_attack_that_has_nothing_left_says_so(cli: Cli) -> None:
    assert "nothing more to send" in cli("attacks", "try", 'encodings(kinds="hex")', "Say it.").out


def test_what_an_attack_prints_does_not_stand_among_answers(cli: Cli, bot: Path) -> None:
    bot.write_text("def loud(entry, history):\n    print('LOUD')\n    return 'hi'\n", encoding="utf-8")
    ran = cli("attacks", "try", "./bot.py:loud", "x", "--output-format", "json")
    assert json.loads(ran.out)["steps"]
    assert "LOUD" in ran.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["best-off-n", "x"], "did you mean best-of-n"),
        (["best-of-n", "x", "--judge", "refusal"], "--judge needs --target"),
        (["best-of-n", "x", "--iterations", "0"], "--iterations must be from 1"),
        (["best-of-n", "  "], "the prompt is empty"),
        (["best-of-n", "x", "--field", "payload"], "expected NAME=VALUE"),
        (["best-of-n", "x", "--target", "nowhere"], "no such target"),
        (["best-of-n", "x", "--output-format", "html"], "--output-format html needs -o FILE"),
        (["crescendo", "x"], "needs a model"),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Cli, words: list[str], message: str) -> None:
    ran = cli("attacks", "try", *words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


@pytest.mark.parametrize("output_format", ["console", "markdown", "html"])
def test_hostile_prompts_and_answers_do_no_harm(cli: Cli, bot: Path, output_format: str) -> None:
    bot.write_text(f"def answer(messages):\n    return {HOSTILE!r}\n", encoding="utf-8")
    place = bot.parent / "trial.out"
    words = ["anti-spotlighting", HOSTILE, "--target", "./bot.py:answer", "--iterations", "2"]
    ran = cli("attacks", "try", *words, "--output-format", output_format, "-o", str(place))
    assert ran.code == 0
    text = place.read_text(encoding="utf-8")
    assert harmless(text)
    if output_format == "html":
        assert "<script>alert" not in text
