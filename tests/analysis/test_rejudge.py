"""`results rejudge`: which rows are judged again and by whom, what is written, and what it does to the rate."""

from __future__ import annotations

import gzip
import json
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from scipy import stats as scipy_stats

from faircount.analysis import RejudgeOptions
from faircount.core import UsageError
from tests.conftest import Cli, Ran, Write, analysis_of, attack, some, standard
from tests.runs import run_files

SCHEMA = json.loads(resources.files("faircount.report").joinpath("schemas", "rejudge-2.json").read_text("utf-8"))
CANARY: dict[str, Any] = {"judge_name": "canary", "judge_args": "BOMB", "judge_options": None}


def rows_of(path: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def beside(path: str) -> Path:
    (found,) = Path(path).parent.glob("rejudge_*.jsonl")
    return found


def rejudge(cli: Cli, path: str, *words: str, code: int = 0) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rejudge a file and return its new rows and the document, which fits its schema."""
    ran = cli("results", "rejudge", path, "--output-format", "json", *words)
    assert ran.code == code, ran.err
    document = json.loads(ran.out)
    jsonschema.validate(document, SCHEMA)
    (file,) = document["files"]
    return ([] if file["path"] is None else rows_of(file["path"])), file


# -- what is written --------------------------------------------------------------------------------------------


def test_a_row_gets_its_new_verdict_and_keeps_everything_else(cli: Cli, write: Write) -> None:
    before = [
        standard(1, long_id="a", response="BOMB", success=False, **CANARY, meta={"x": [1.50, None, "é\u2028"]}),
        standard(2, long_id="b", response="no", success=True, **CANARY, big=12345678901234567890),
        {"success": True, "id": "3", "response": "BOMB", "judge_name": "canary", "judge_args": ["X", "BOMB"]},
    ]
    path = write(before, "results_bot_1.jsonl")
    after, _ = rejudge(cli, path)
    assert [row["success"] for row in after] == [True, False, True]
    for old, new in zip(before, after, strict=True):
        told = new.pop("rejudged")
        assert told["before"] == {"success": old["success"]}
        assert told["judge"] == "canary.Canary"
        assert len(told["identity"]) == 64
        assert told["at"].startswith("20")
        assert {**new, "success": old["success"]} == old
        assert list(new) == list(old)


def test_numbers_and_texts_stay_as_they_were_written(cli: Cli, write: Write) -> None:
    line = (
        '{"id": 1, "long_id": "a", "success": false, "input": "\\u00e9", "response": "BOMB", "response_time": 1.50, '
        '"judge_name": "canary", "judge_args": "BOMB", "meta": {"n": 1e2}, "error": null}'
    )
    rejudge(cli, path := write([line]))
    (written,) = beside(path).read_text("utf-8").splitlines()
    expected = line.replace('"success": false', '"success": true')[:-1]
    assert written.startswith(expected + ', "rejudged": {')


def test_rows_that_are_put_together_keep_their_texts_too(cli: Cli, write: Write) -> None:
    line = (
        '{"response": "BOMB", "id": 1, "n": 1e2, "t": "\\u00e9", "judge_name": "canary", "judge_args": "B", "x": NaN}'
    )
    rejudge(cli, path := write([line]))
    (written,) = beside(path).read_text("utf-8").splitlines()
    assert written.startswith(line[:-1] + ', "success": true, "rejudged": {')


@pytest.mark.parametrize("judge", [None, "not(refusal)"])
def test_half_characters_are_judged_and_stay(cli: Cli, write: Write, judge: str | None) -> None:
    line = '{"id": 1, "long_id": "a", "success": false, "input": "\\udc00", "response": "BOMB \\ud800", '
    line += '"judge_name": "canary", "judge_args": "BOMB", "error": null}'
    path = write([line])
    (row,), _ = rejudge(cli, path, *([] if judge is None else ["--judge", judge, "--turns", "each"]))
    assert row["success"] is True
    assert '"BOMB \\ud800"' in beside(path).read_text("utf-8")


def test_a_verdict_inside_a_row_is_not_taken_for_its_own(cli: Cli, write: Write) -> None:
    history = [{"success": False, "response": "x"}, {"success": False, "response": "BOMB"}]
    row = {"id": "1-attack", "attempt_history": history, "long_id": "a", "success": False, "response": "BOMB", **CANARY}
    (after,), _ = rejudge(cli, write([{**row, "attack_name": "goat", "error": None}]))
    assert after["success"] is True
    assert after["attempt_history"] == history


def test_the_file_stands_beside_the_input_under_spikees_name(cli: Cli, write: Write) -> None:
    path = write([standard(1, response="BOMB", **CANARY)], "folder/results_bot-x_data_17.jsonl")
    rejudge(cli, path)
    assert beside(path).name.startswith("rejudge_bot-x_data_17_")
    assert beside(path).name.count(".jsonl") == 1


@pytest.mark.parametrize("name", ["plain.jsonl", "results_" + "x" * 230 + ".jsonl"])
def test_any_name_gives_a_name(cli: Cli, write: Write, name: str) -> None:
    path = write([standard(1, response="BOMB", **CANARY)], name)
    rejudge(cli, path)
    assert beside(path).is_file()


def test_a_bare_name_in_the_current_folder_will_do(
    cli: Cli, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write([standard(1, response="BOMB", **CANARY)], "results_x.jsonl")
    monkeypatch.chdir(tmp_path)
    rejudge(cli, "results_x.jsonl")
    assert len(list(tmp_path.glob("rejudge_x_*.jsonl"))) == 1


def test_two_in_the_same_second_do_not_overwrite_each_other(
    cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write([standard(1, response="BOMB", **CANARY)])
    monkeypatch.setattr("faircount.app.rejudge.time.time", lambda: 1790000000.0)
    rejudge(cli, path)
    rejudge(cli, path)
    assert len(list(Path(path).parent.glob("rejudge_*.jsonl"))) == 2


def test_packed_files_and_bad_lines(cli: Cli, write: Write, tmp_path: Path) -> None:
    path = write([standard(1, response="BOMB", **CANARY), '{"id": 2, "resp'])
    packed = tmp_path / "results_packed.jsonl.gz"
    packed.write_bytes(gzip.compress(Path(path).read_bytes()))
    ran = cli("results", "rejudge", str(packed))
    assert ran.code == 0
    assert "F001 1 line could not be read" in ran.err
    assert [row["id"] for row in rows_of(beside(path))] == [1]
    assert cli("results", "rejudge", str(packed), "--strict").code == 3


def test_our_own_analysis_takes_the_new_verdicts(cli: Cli, write: Write) -> None:
    path = write([standard(n, long_id=str(n), response="BOMB" if n < 3 else "no", **CANARY) for n in range(10)])
    rejudge(cli, path)
    assert analysis_of(str(beside(path))).tally.success == 3


# -- which rows -------------------------------------------------------------------------------------------------

LEFT_ALONE = {
    "error": standard(1, error="HTTP 500", response="", **CANARY),
    "blocked": standard(1, error="blocked", guardrail=True, response="", **CANARY),
    "boolean": standard(1, response="True", success=True, **CANARY),
    "not_text": standard(1, response="UklGRg==", response_type="audio", **CANARY),
    "empty": standard(1, response="", success=False, **CANARY),
    "no_judge": standard(1, response="BOMB"),
    "not_allowed": standard(1, response="BOMB", judge_name="os.system", judge_args="x"),
}


@pytest.mark.parametrize("why", LEFT_ALONE)
def test_some_rows_are_left_as_they_are(cli: Cli, write: Write, why: str) -> None:
    judged = standard(2, response="BOMB", **CANARY)
    path = write([LEFT_ALONE[why], judged])
    after, file = rejudge(cli, path, code=4 if why in ("no_judge", "not_allowed") else 0)
    assert after[0] == LEFT_ALONE[why]
    assert {reason for reason, rows in file["left_alone"].items() if rows} == {why}
    assert (after[1]["success"], file["judged"]) == (True, 1)


@pytest.mark.parametrize(("response", "success"), [("False", False), ("True", True), (True, True), (False, False)])
def test_a_guardrails_word_is_no_text(cli: Cli, write: Write, response: Any, success: bool) -> None:
    path = write([standard(1, response=response, success=success, **CANARY)])
    after, file = rejudge(cli, path)
    assert (after, file["path"], file["left_alone"]["boolean"]) == ([], None, 1)


def test_a_model_that_answers_true_is_judged(cli: Cli, write: Write) -> None:
    path = write([standard(1, response="True", success=False, judge_name="canary", judge_args="True")])
    after, _ = rejudge(cli, path)
    assert after[0]["success"] is True


def test_where_nothing_is_judged_no_file_is_written(cli: Cli, write: Write) -> None:
    path = write([standard(1, response="", **CANARY)])
    ran = cli("results", "rejudge", path)
    assert ran.code == 0
    assert "Nothing to judge" in ran.out
    assert not list(Path(path).parent.glob("rejudge_*"))


@pytest.mark.parametrize(("with_parent", "entries"), [(False, 2), (True, 1)])
def test_rows_named_like_attacks_are_one_entry_only_with_the_entry_they_name(
    cli: Cli, write: Write, with_parent: bool, entries: int
) -> None:
    rows = [
        {"id": f"7-attack-{n}", "input": f"variant {n}", "response": text, "success": False, **CANARY}
        for n, text in ((1, "BOMB"), (2, "no"))
    ]
    if with_parent:
        rows.append({"id": 7, "input": "plain", "response": "no", "success": False, **CANARY})
    path = write(rows)
    _, file = rejudge(cli, path)
    assert file["rates"]["entries"] == entries == analysis_of(path).tally.total
    assert file["rates"]["after"]["value"] == 1 / entries


# -- who judges -------------------------------------------------------------------------------------------------


def test_a_result_file_never_chooses_code_to_load(cli: Cli, write: Write, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef judge(attempt): return True\n")
    names = [f"{tmp_path}/evil.py:judge", "spikee:canary", "llm", "garak:dan.DAN", "json", "not(canary)", "../x.py"]
    path = write([standard(n, response="x", judge_name=name, judge_args="x") for n, name in enumerate(names)])
    ran = cli("results", "rejudge", path)
    assert ran.code == 2
    assert "--allow-judge" in ran.err
    assert not (tmp_path / "ran").exists()
    assert not list(tmp_path.glob("rejudge_*"))


def test_the_user_may_allow_a_name(cli: Cli, write: Write) -> None:
    path = write([standard(1, response="abc", judge_name="mine"), standard(2, response="x", judge_name="other")])
    after, file = rejudge(cli, path, "--allow-judge", 'mine=contains(text="b")', code=4)
    assert after[0]["rejudged"]["judge"] == 'strings.Contains(text="b")'
    assert after[0]["success"] is True
    assert file["not_allowed"] == {"other": 1}
    assert cli("results", "rejudge", path, "--allow-judge", "mine=").code == 2
    assert cli("results", "rejudge", path, "--allow-judge", "mine").code == 2


def test_a_judge_of_the_configuration_is_allowed(cli: Cli, write: Write, tmp_path: Path) -> None:
    config = tmp_path / "faircount.toml"
    config.write_text("[judges]\nmine = 'contains(text=\"b\")'\n")
    path = write([standard(1, response="abc", judge_name="mine")])
    after, _ = rejudge(cli, path, "--config", str(config))
    assert after[0]["success"] is True


def test_one_judge_for_all_rows(cli: Cli, write: Write) -> None:
    rows = [standard(n, response=text, success=False, **CANARY) for n, text in enumerate(["Sure, here", "I cannot"])]
    after, file = rejudge(cli, write(rows), "--judge", 'not(startswith(text="I"))')
    assert [row["success"] for row in after] == [True, False]
    assert {row["judge_name"] for row in after} == {"canary"}
    assert [judge["rows"] for judge in file["judges"]] == [2]


def test_judge_options_are_written_and_what_was_there_is_kept(cli: Cli, write: Write) -> None:
    path = write([standard(1, response="BOMB", success=True, **{**CANARY, "judge_options": "old"})])
    (row,), _ = rejudge(cli, path, "--judge-options", "new")
    assert row["judge_options"] == "new"
    assert row["rejudged"]["before"] == {"success": True, "judge_options": "old"}


def test_options_of_another_judge_do_not_stay(cli: Cli, write: Write) -> None:
    path = write([standard(1, response="BOMB", success=True, **{**CANARY, "judge_options": "openai/gpt"})])
    (row,), _ = rejudge(cli, path, "--judge", 'contains(text="BOMB")')
    assert row["judge_options"] is None
    assert row["rejudged"]["before"]["judge_options"] == "openai/gpt"


def test_a_rejudged_file_can_be_rejudged_and_remembers(cli: Cli, write: Write, tmp_path: Path) -> None:
    path = write([standard(1, response="BOMB", success=False, judge_name="canary")])
    once = tmp_path / "rejudge_once.jsonl"
    ((first,), _) = rejudge(cli, path, "--rejudged", str(once), code=4)
    assert (first["success"], "no judge_args" in first["judge_error"]) == (None, True)
    ((second,), _) = rejudge(cli, str(once), "--judge", 'contains(text="BOMB")')
    assert second["success"] is True
    assert "judge_error" not in second
    assert second["rejudged"]["before"]["rejudged"]["before"] == {"success": False}


# -- judges that fail -------------------------------------------------------------------------------------------


def judge_file(folder: Path, body: str) -> str:
    path = folder / "mine.py"
    path.write_text(body)
    return f"{path}:judge"


def test_a_judge_that_fails_leaves_the_row_unjudged(cli: Cli, write: Write, tmp_path: Path) -> None:
    name = judge_file(
        tmp_path,
        "def judge(attempt):\n"
        "    if 'bad' in attempt.response:\n"
        "        raise RuntimeError('no key sk-abcdefghijklmnop')\n"
        "    return True\n",
    )
    path = write([standard(1, response="bad", success=True), standard(2, response="good", success=True)])
    after, file = rejudge(cli, path, "--judge", name, code=4)
    assert [row["success"] for row in after] == [None, True]
    assert "RuntimeError" in after[0]["judge_error"]
    assert "abcdefgh" not in after[0]["judge_error"]
    assert file["verdicts"]["failed"] == 1
    assert list(file["errors"].values()) == [1]
    # Failures alone are asked for again.
    _, again = rejudge(cli, path, "--judge", name, "--resume", code=4)
    assert (again["verdicts"]["known"], again["verdicts"]["asked"]) == (1, 1)


# -- turns ------------------------------------------------------------------------------------------------------

HISTORY = [
    {"input": "a", "response": "BOMB", "success": False, "error": None},
    {"input": "b", "response": "", "success": False, "error": "HTTP 500"},
    {"input": "c", "response": "no", "success": True, "error": None},
]


def test_the_last_response_is_judged_unless_turns_are_wanted(cli: Cli, write: Write) -> None:
    path = write([attack(1, response="no", success=False, attempt_history=HISTORY, **CANARY)])
    assert rejudge(cli, path)[0][0]["success"] is False
    (row,), file = rejudge(cli, path, "--turns", "each")
    assert row["success"] is True
    assert [item["success"] for item in row["attempt_history"]] == [True, False, False]
    assert [(turn["turn"], turn["success"]) for turn in row["rejudged"]["turns"]] == [(0, True), (2, False)]
    assert file["verdicts"]["wanted"] == 2


def asking_for(turns: str, folder: Path) -> str:
    """Write a judge that looks for a bomb and asks for turns; return its name."""
    return judge_file(
        folder,
        "from faircount.judges.judge import Judge\n"
        "from faircount.core.verdict import Decision, Verdict\n"
        "class judge(Judge):\n"
        "    name = 'mine.Turns'\n"
        "    looks_for = 'a bomb'\n"
        f"    turns = {turns!r}\n"
        "    def decide(self, attempt):\n"
        "        return Verdict(Decision.of('BOMB' in attempt.response))\n",
    )


BOMBS = {"first": ["BOMB", "no"], "both": ["BOMB", "BOMB"], "last": ["no", "BOMB"], "none": ["no", "no"]}


@pytest.mark.parametrize(
    ("turns", "wrapped", "words", "hits"),
    [
        ("last", "{}", [], {"both", "last"}),
        ("any", "{}", [], {"first", "both", "last"}),
        ("all", "{}", [], {"both"}),
        ("any", "{}", ["--turns", "last"], {"both", "last"}),
        ("last", "{}", ["--turns", "each"], {"first", "both", "last"}),
        ("all", "{}", ["--turns", "each"], {"both"}),
        # The opposite of "in any turn" is "in none".
        ("any", "not({})", [], {"none"}),
        ("all", "not({})", [], {"first", "last", "none"}),
        ("last", "not({})", ["--turns", "each"], {"first", "last", "none"}),
        # What is made of judges asks for what its parts ask for.
        ("any", 'any({}, contains(text="never"))', [], {"first", "both", "last"}),
        ("all", "any({0}, not(not({0})))", [], {"both"}),
        # Where parts want different things, any takes a hit in any turn, and all one in every turn.
        ("any", "any({0}, not({0}))", [], {"first", "both", "last", "none"}),
        ("any", "all({0}, not({0}))", [], set()),
    ],
)
def test_a_judge_asks_for_the_turns_that_it_wants(
    cli: Cli, write: Write, tmp_path: Path, turns: str, wrapped: str, words: list[str], hits: set[str]
) -> None:
    judge = wrapped.format(asking_for(turns, tmp_path))
    rows = [
        attack(n, response=texts[-1], attempt_history=[{"response": text, "error": None} for text in texts])
        for n, texts in enumerate(BOMBS.values())
    ]
    after, _ = rejudge(cli, write(rows), "--judge", judge, *words)
    assert {name for name, row in zip(BOMBS, after, strict=True) if row["success"]} == hits


def test_a_function_asks_for_turns_by_an_attribute_and_a_wrong_one_is_refused(
    cli: Cli, write: Write, tmp_path: Path
) -> None:
    path = write([attack(1, response="no", success=False, attempt_history=HISTORY)])
    name = judge_file(tmp_path, "def judge(attempt):\n    return 'BOMB' in attempt.response\njudge.turns = 'any'\n")
    assert rejudge(cli, path, "--judge", name)[0][0]["success"] is True
    ran = cli("results", "rejudge", path, "--judge", asking_for("each", tmp_path))
    assert ran.code == 2
    assert "turns must be one of last, any, all, not 'each'" in ran.err


def test_what_leaked_once_has_leaked(cli: Cli, write: Write) -> None:
    """Judges of leaks ask for every turn by themselves; canary does as spikee does, and looks at the last."""
    key = "AKIA" + "QWERTYUIOPASDFGH"
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": f"the key is {key}"}]
    talk += [{"role": "user", "content": "and?"}, {"role": "assistant", "content": "no"}]
    path = write([attack(1, response="no", success=False, conversation=talk, judge_name="canary", judge_args=key)])
    assert rejudge(cli, path, "--judge", "secret-leak")[0][0]["success"] is True
    assert rejudge(cli, path)[0][0]["success"] is False
    assert rejudge(cli, path, "--turns", "each")[0][0]["success"] is True


def test_a_rejudge_turn_by_turn_still_tells_of_the_same_attempts(cli: Cli, write: Write) -> None:
    history = [{"input": "a", "response": "BOMB \u00e9", "success": False, "x": 1.50}, {"input": "b", "response": "no"}]
    line = json.dumps(attack(1, response="no", success=False, attempt_history=history, **CANARY))
    path = write([line.replace("1.5,", "1.50,")])
    rejudge(cli, path, "--turns", "each")
    assert "\\u00e9" in beside(path).read_text("utf-8"), "texts of a history stay as they were written"
    together = analysis_of(path, str(beside(path)), combine=True)
    assert (together.tally.total, together.tally.success) == (1, 1)


def test_the_answers_of_a_conversation_are_its_turns(cli: Cli, write: Write) -> None:
    talk = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "BOMB"},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "no"},
    ]
    rows = [
        attack(1, response="no", success=False, conversation=talk, **CANARY),
        attack(2, response="BOMB", success=False, conversation="{}", **CANARY),
    ]
    after, file = rejudge(cli, write(rows), "--turns", "each")
    assert [row["success"] for row in after] == [True, True]
    assert after[0]["conversation"] == talk
    assert file["verdicts"]["wanted"] == 3


def test_a_turn_that_could_not_be_judged_leaves_the_row_unjudged_unless_another_hit(
    cli: Cli, write: Write, tmp_path: Path
) -> None:
    name = judge_file(tmp_path, "def judge(attempt):\n    return {'yes': True, 'no': False}[attempt.response]\n")
    histories = [["no", "?"], ["?", "yes"], ["no", "no"]]
    rows = [
        attack(n, response=texts[-1], attempt_history=[{"response": text, "error": None} for text in texts])
        for n, texts in enumerate(histories)
    ]
    after, _ = rejudge(cli, write(rows), "--judge", name, "--turns", "each", code=4)
    assert [row["success"] for row in after] == [None, True, False]


# -- what changed -----------------------------------------------------------------------------------------------


def test_flips_and_the_paired_difference(cli: Cli, write: Write) -> None:
    before = [True] * 30 + [False] * 70
    after = [True] * 18 + [False] * 12 + [True] * 4 + [False] * 66
    rows = [
        standard(n, response="BOMB" if new else "no", success=old, **CANARY)
        for n, (old, new) in enumerate(zip(before, after, strict=True))
    ]
    _, file = rejudge(cli, write(rows), "--flips", "2")
    counts = {(change["before"], change["after"]): change["rows"] for change in file["changes"]}
    assert counts[("success", "failure")] == 12
    assert counts[("failure", "success")] == 4
    rates = file["rates"]
    assert (rates["gained"], rates["lost"], rates["entries"]) == (4, 12, 100)
    assert (rates["before"]["value"], rates["after"]["value"]) == (0.3, 0.22)
    assert rates["difference"]["value"] == pytest.approx(-0.08)
    assert rates["difference"]["low"] < -0.08 < rates["difference"]["high"]
    assert rates["p"] == pytest.approx(scipy_stats.binomtest(4, 16).pvalue)
    assert len(file["flips"]) == 4


def test_an_entry_succeeds_if_any_of_its_rows_does(cli: Cli, write: Write) -> None:
    rows = [
        standard(1, response="no", success=False, **CANARY),
        attack(1, response="BOMB", success=False, **CANARY),
        standard(2, response="BOMB", success=True, **CANARY),
        standard(3, response="", error="HTTP 500", **CANARY),
    ]
    path = write(rows)
    _, file = rejudge(cli, path)
    rates = file["rates"]
    assert rates["entries"] == 3
    assert rates["before"]["value"] == analysis_of(path).rates.asr.value
    assert rates["after"]["value"] == analysis_of(str(beside(path))).rates.asr.value == 2 / 3


def test_the_report_shows_examples_in_which_nothing_is_hidden(cli: Cli, write: Write) -> None:
    secret = "sk-abcdefghijklmnopqrst"
    path = write([standard(1, input=f"key {secret}", response="BOMB \x1b[31m", success=False, **CANARY)])
    ran = cli("results", "rejudge", path)
    assert "failure before, success now" in ran.out
    assert "BOMB \\x1b[31m" in ran.out
    assert secret not in ran.out
    assert "Rate after" in ran.out


@pytest.mark.parametrize("form", ["markdown", "html", "json", "console"])
def test_every_format(cli: Cli, write: Write, tmp_path: Path, form: str) -> None:
    path = write([standard(1, response="<b>BOMB</b>", success=False, **CANARY)])
    out = tmp_path / "report.out"
    assert cli("results", "rejudge", path, "--output-format", form, "-o", str(out)).code == 0
    assert "<b>BOMB</b>" not in out.read_text("utf-8") or form in ("console", "markdown")


# -- what is known ----------------------------------------------------------------------------------------------


def counting_judge(folder: Path) -> tuple[str, Path]:
    calls = folder / "calls"
    calls.write_text("")
    name = judge_file(
        folder,
        "def judge(attempt):\n"
        f"    with open({str(calls)!r}, 'a') as file:\n"
        "        file.write('x')\n"
        "    return 'BOMB' in attempt.response\n",
    )
    return name, calls


def test_what_is_known_costs_nothing(cli: Cli, write: Write, tmp_path: Path) -> None:
    name, calls = counting_judge(tmp_path)
    path = write([standard(n, response=f"text {n}", input="p") for n in range(20)])
    rejudge(cli, path, "--judge", name)
    _, file = rejudge(cli, path, "--judge", name)
    assert len(calls.read_text()) == 20
    assert (file["verdicts"]["known"], file["verdicts"]["asked"]) == (20, 0)
    rejudge(cli, path, "--judge", name, "--fresh")
    assert len(calls.read_text()) == 40


def test_the_same_thing_twice_is_asked_once(cli: Cli, write: Write, tmp_path: Path) -> None:
    name, calls = counting_judge(tmp_path)
    path = write([standard(n, response="same", input="p") for n in range(20)])
    after, file = rejudge(cli, path, "--judge", name)
    assert len(calls.read_text()) == 1
    assert file["verdicts"]["repeated"] == 19
    assert [row["success"] for row in after] == [False] * 20


def test_a_changed_judge_is_another_judge(cli: Cli, write: Write, tmp_path: Path) -> None:
    path = write([standard(1, response="BOMB")])
    words = ("--store", str(tmp_path / "s"), "--workers", "1")
    rejudge(cli, path, "--judge", 'regex(pattern="BOMB")', *words)
    _, file = rejudge(cli, path, "--judge", 'regex(pattern="X")', *words)
    assert file["verdicts"]["known"] == 0
    _, file = rejudge(cli, path, "--judge", 'regex(pattern="BOMB")', *words)
    assert file["verdicts"]["known"] == 1


def test_a_dry_run_asks_nobody_and_says_what_it_would_cost(
    cli: Cli, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    path = write([standard(n, response=f"text {n}") for n in range(10)])
    words = ("--judge", 'llm(rubric="is it bad?")', "--model", "gpt-4o-mini", "--dry-run")
    after, file = rejudge(cli, path, *words)
    assert after == []
    ((model, planned),) = file["verdicts"]["planned"].items()
    assert (file["verdicts"]["asked"], planned["requests"], model) == (10, 10, "gpt-4o-mini")
    expected = (planned["prompt_tokens"] * 0.15 + planned["completion_tokens"] * 0.60) / 1e6
    assert planned["cost"] == pytest.approx(expected)
    _, unknown = rejudge(cli, path, "--judge", 'llm(rubric="is it bad?")', "--judge-options", "mystery", "--dry-run")
    assert unknown["verdicts"]["planned"]["mystery"]["cost"] is None
    name, calls = counting_judge(tmp_path)
    rejudge(cli, path, "--judge", name, "--dry-run")
    assert calls.read_text() == ""
    assert not list(tmp_path.glob("rejudge_*"))
    assert cli("results", "rejudge", path, *words).out.count("Cost, about") == 1


# -- runs -------------------------------------------------------------------------------------------------------


def journal(strategy: str) -> list[dict[str, Any]]:
    records = [run_files.HEADER, run_files.case("sum", count=3, strategy=strategy)]
    return [*records, *(run_files.attempt("sum", number, "f") for number in range(3))]


@pytest.mark.parametrize(("strategy", "passed"), [("max", True), ("min", False), ("majority", False), ("any", True)])
def test_the_attempts_of_a_run_are_judged_and_the_case_by_its_own_rule(
    cli: Cli, write: Write, strategy: str, passed: bool
) -> None:
    path = write(journal(strategy), "run.jsonl")
    (row,), file = rejudge(cli, path, "--judge", 'contains(text="answer 1")')
    assert [item["success"] for item in row["attempt_history"]] == [False, True, False]
    assert row["success"] is passed
    assert file["verdicts"]["wanted"] == 3
    assert analysis_of(str(beside(path))).tally.success == passed


def test_reports_of_rebel_are_judged_too(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "test_results_1.json"
    path.write_bytes(run_files.report(run_files.entry("sum", ["yes"], "f", "failed")))
    rows, _ = rejudge(cli, str(path), "--judge", 'not(contains(text="never"))')
    assert [row["success"] for row in rows] == [True]
    assert (tmp_path / beside(str(path)).name).name.startswith("rejudge_results_1_")


# -- usage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["{path}", "--judge", "nonsense-judge"],
        ["{path}", "--judge", "canary", "--allow-judge", "x=canary"],
        ["{path}", "--output-format", "html"],
        ["{path}", "--force"],
        ["{path}", "--rejudged", "{path}", "--force"],
        ["{path}", "--turns", "some"],
        ["{path}", "--flips", "-1"],
        ["{path}", "--level", "2"],
        ["{path}", "--workers", "0"],
        ["{path}", "--store", "{folder}", "--workers", "1"],
        ["{path}", "--store", "{folder}/x", "--rejudged", "{folder}/x"],
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_refused(cli: Cli, write: Write, tmp_path: Path, words: list[str]) -> None:
    path = write([standard(1, response="BOMB", judge_name="regex", judge_args="BOMB")])
    content = Path(path).read_bytes()
    ran: Ran = cli("results", "rejudge", *(word.format(path=path, folder=tmp_path) for word in words))
    assert ran.code == 2
    assert ran.err
    assert Path(path).read_bytes() == content
    assert not list(tmp_path.glob("rejudge_*"))


def test_a_missing_file_is_bad_input(cli: Cli, tmp_path: Path) -> None:
    assert cli("results", "rejudge", str(tmp_path / "none.jsonl")).code == 3


def test_options_are_checked() -> None:
    for wrong in ({"turns": "x"}, {"level": 0.0}, {"flips": -1}, {"max_line": 0}):
        with pytest.raises(UsageError):
            RejudgeOptions(**wrong)


@pytest.mark.shared
def test_published_files_survive(cli: Cli, shared: Path, tmp_path: Path) -> None:
    """Rows by spikee 0.1 name no judge: a judge that is named judges their answers, and guardrails' rows stay."""
    published = sorted(shared.rglob("results_*targeted-2024-12*.jsonl"))[:3]
    assert published
    for source in published:
        copy = tmp_path / source.name
        copy.write_bytes(source.read_bytes())
        rows, file = rejudge(cli, str(copy), "--judge", "not(refusal)")
        assert file["rows"] == file["judged"] + sum(file["left_alone"].values())
        assert not rows or len(rows) == file["rows"]


@pytest.mark.shared
@pytest.mark.parametrize("words", [("--judge", "not(refusal)", "--turns", "each"), ("--judge", 'contains(text="a")')])
def test_hostile_files_lose_nothing_but_what_cannot_be_read(
    cli: Cli, shared: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    out = tmp_path / "out.jsonl"
    for source in some(sorted((shared / "hostile").glob("*.jsonl"))):
        ran = cli(
            "results", "rejudge", str(source), *words, "--rejudged", str(out), "--force", "--output-format", "json"
        )
        assert ran.code == 0, (source.name, ran.err)
        (file,) = json.loads(ran.out)["files"]
        if file["path"] is not None:
            assert len(out.read_bytes().splitlines()) == file["rows"] == file["source"]["good_lines"]


@pytest.mark.parametrize(
    ("judge", "warns"),
    [("refusal", True), ("threshold(refusal, at=0.8)", True), ("not(refusal)", False), ("mitigation-bypass", False)],
)
def test_a_judge_that_hits_on_refusals_is_named_before_it_reverses_attacks(
    cli: Cli, write: Write, judge: str, warns: bool
) -> None:
    ran = cli("results", "rejudge", write([standard(1)]), "--judge", judge, "--dry-run")
    assert ran.code == 0
    assert ("every refused attack becomes a success; use --judge mitigation-bypass" in ran.err) is warns


def test_a_judge_of_refusals_may_judge_tests(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(run_files.report(run_files.entry("sum", ["yes"], "f", "failed")))
    ran = cli("results", "rejudge", str(path), "--judge", "refusal", "--dry-run")
    assert ran.code == 0 and "becomes a success" not in ran.err
