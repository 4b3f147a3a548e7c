"""Datasets as what is run: which entries they make, what is said of the rest, and what a file may never do."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.components import Context
from faircount.core import InputError, UsageError
from faircount.readers import OutputRecord, decode_record, encode_record
from faircount.runs import (
    AttackCase,
    Case,
    DatasetChoice,
    RunCases,
    Selection,
    are_datasets,
    choose_entries,
    is_dataset,
    read_map,
    sample_size,
    with_drawn_seed,
)
from tests.conftest import ROOT

PEER = ROOT / ".venv-peers" / "bin" / "python"

Dataset = Callable[..., str]


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """Write rows, or a text as it is, into a file of the folder that the test is in; return its name."""
    monkeypatch.chdir(tmp_path)

    def write(content: list[Any] | str | bytes, name: str = "attacks.jsonl") -> str:
        if isinstance(content, list):
            content = "".join(json.dumps(row) + "\n" for row in content)
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write


def chosen(*paths: str, setting: Context | None = None, **choice: Any) -> RunCases:
    return choose_entries(DatasetChoice(paths=paths, **choice), setting or Context())


def entry(number: float | str = 1, **values: Any) -> dict[str, Any]:
    """Return an entry as spikee writes it."""
    return {
        "id": number,
        "long_id": f"doc_{number}",
        "content": f"Say CANARY {number}",
        "content_type": "text",
        "judge_name": "canary",
        "judge_args": "CANARY",
        "jailbreak_type": "dan",
        "system_message": None,
        **values,
    }


def names(found: RunCases) -> list[str]:
    return [case.name for case in found.cases]


def said(found: RunCases) -> str:
    return "\n".join(found.notes)


# -- spikee's datasets ------------------------------------------------------------------------------------------


def test_an_entry_of_spikees_is_a_case_with_all_its_fields_and_its_judge(dataset: Dataset) -> None:
    row = entry(7, extra={"a": [1]})
    found = chosen(dataset([row]), attempts=3)
    (case,) = found.cases
    assert case.name == "7"
    assert case.messages == ({"role": "user", "content": "Say CANARY 7"},)
    assert dict(case.fields or {}) == row
    assert isinstance(case, AttackCase)
    assert (case.place, case.attempts, case.turns) == ("attacks.jsonl:1", 3, ())
    assert [metric.name for metric in case.metrics] == ["canary.Canary"]
    assert case.metrics[0].measure(case, OutputRecord("so: CANARY")).decision == "hit"
    assert case.metrics[0].measure(case, OutputRecord("no")).decision == "pass"
    assert found.notes == ()


def test_the_prompt_of_an_old_dataset_is_its_text_and_content_goes_first(dataset: Dataset) -> None:
    old, both = entry(1, text="old"), entry(2, text="old")
    del old["content"]
    cases = chosen(dataset([old, both])).cases
    assert [case.messages[-1]["content"] for case in cases] == ["old", "Say CANARY 2"]


def test_a_system_message_is_sent_first(dataset: Dataset) -> None:
    (case,) = chosen(dataset([entry(system_message="Be good.")])).cases
    assert case.messages[0] == {"role": "system", "content": "Be good."}
    assert [message["role"] for message in case.messages] == ["system", "user"]


@pytest.mark.parametrize("wrap", [lambda text: text, lambda text: {"role": "user", "content": text}])
def test_several_turns_of_the_user_follow_each_other(dataset: Dataset, wrap: Callable[[str], Any]) -> None:
    (case,) = chosen(dataset([entry(content=[wrap("one"), wrap("two"), wrap("three")])])).cases
    assert case.messages == ({"role": "user", "content": "one"},)
    assert isinstance(case, AttackCase)
    assert case.turns == ("two", "three")


def test_a_conversation_with_answers_is_sent_as_it_stood(dataset: Dataset) -> None:
    talk = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "again"},
    ]
    (case,) = chosen(dataset([entry(content=talk)])).cases
    assert list(case.messages) == talk
    assert isinstance(case, AttackCase)
    assert case.turns == ()


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"content": ""}, "the prompt is empty"),
        ({"content": None}, "there is no prompt"),
        ({"content": 5}, "neither a string nor a list of turns"),
        ({"content": []}, "an empty list"),
        ({"content": [{"type": "text", "text": "x"}]}, "turn 1 of the prompt is neither a string nor a message"),
        ({"content": [{"role": "tool", "content": "x"}]}, "has the role tool"),
        ({"content": ["x", ""]}, "turn 2 of the prompt has no text"),
        ({"content": [{"role": "system", "content": "x"}]}, "no user message"),
        ({"content": ["x", {"role": "system", "content": "x"}]}, "a system message comes after"),
        ({"content": ["x", {"role": "assistant", "content": "x"}]}, "ends with a message from the assistant"),
        ({"content_type": "audio"}, "its content_type is audio; only text can be sent"),
        ({"system_message": 3}, "the system message is not a string"),
        ({"id": [1]}, "the id is neither a string nor a number"),
        ({"judge_args": None}, "the judge canary has nothing to look for"),
        ({"judge_args": [1]}, "judge_args is neither a string nor a list of strings"),
        ({"judge_args": ["", ""]}, "judge_args has only empty strings"),
        ({"judge_name": "regex", "judge_args": "(("}, "is not a regular expression"),
    ],
)
def test_an_entry_that_cannot_be_run_is_told_with_its_line_and_the_others_run(
    dataset: Dataset, values: dict[str, Any], reason: str
) -> None:
    path = dataset([entry(1), entry(2) | values, entry(3)])
    found = chosen(path)
    assert names(found) == ["1", "3"]
    assert reason in said(found)
    assert "attacks.jsonl:2" in said(found)


# -- judges -----------------------------------------------------------------------------------------------------


def test_judges_are_made_once_and_shared(dataset: Dataset) -> None:
    rows = [entry(1), entry(2, judge_args=["A", "B"]), entry(3, judge_name="regex"), entry(4, judge_name="regex")]
    first, second, third, fourth = chosen(dataset(rows)).cases
    assert first.metrics[0] is second.metrics[0]
    assert third.metrics[0] is fourth.metrics[0]
    assert second.metrics[0].measure(second, OutputRecord("a B")).decision == "hit"


@pytest.mark.parametrize(
    ("judge", "hit", "miss"),
    [("contains", "a yes b", "no"), ("startswith", "yes b", "a yes"), ("exact", "yes", "yes.")],
)
def test_judges_of_one_text_look_for_the_judge_args(dataset: Dataset, judge: str, hit: str, miss: str) -> None:
    path = dataset([entry(1, judge_name=judge, judge_args="yes"), entry(2, judge_name=judge, judge_args="other")])
    case, other = chosen(path).cases
    assert case.metrics[0].measure(case, OutputRecord(hit)).decision == "hit"
    assert case.metrics[0].measure(case, OutputRecord(miss)).decision == "pass"
    assert other.metrics[0].measure(other, OutputRecord(hit)).decision == "pass"


@pytest.mark.parametrize(
    "name", ["llm_judge_harmful", "./evil.py:Judge", "spikee:canary", "llm", "garak:x.Y", "os.system", 5, None, ""]
)
def test_a_file_chooses_no_other_judge(dataset: Dataset, name: Any) -> None:
    Path("evil.py").write_text("raise SystemExit('loaded')\n")
    path = dataset([entry(1), entry(2, judge_name=name), entry(3, judge_name=name)])
    with pytest.raises(UsageError, match="--judge") as caught:
        chosen(path)
    assert "2 entries cannot be judged" in str(caught.value)
    assert "attacks.jsonl:2: " in str(caught.value)


def test_a_judge_that_the_user_names_decides_all_entries(dataset: Dataset) -> None:
    path = dataset([entry(1), entry(2, judge_name="llm_judge_harmful"), entry(3, judge_name=None, judge_args=None)])
    found = chosen(path, judge='contains(text="x")')
    assert {case.metrics[0] for case in found.cases} == {found.cases[0].metrics[0]}
    assert found.cases[2].metrics[0].measure(found.cases[2], OutputRecord("x")).decision == "hit"


def test_a_dataset_may_name_a_judge_to_which_the_configuration_gives_that_name(dataset: Dataset) -> None:
    path = dataset([entry(1, judge_name="harmful", judge_args=None)])
    (case,) = chosen(path, setting=Context(named={"harmful": 'contains(text="x")'})).cases
    assert case.metrics[0].measure(case, OutputRecord("x")).decision == "hit"


def test_a_target_that_decides_itself_needs_no_judge(dataset: Dataset) -> None:
    found = chosen(dataset([entry(1, judge_name="llm_judge_harmful")]), needs_judge=False)
    assert found.cases[0].metrics == ()


def test_only_the_judges_of_chosen_entries_matter(dataset: Dataset) -> None:
    path = dataset([entry(1), entry(2, judge_name="llm_judge_harmful")])
    assert names(chosen(path, selection=Selection(names=("1",)))) == ["1"]


# -- plain files ------------------------------------------------------------------------------------------------


def test_a_table_is_read_with_line_ends_in_quotes_and_a_byte_order_mark(dataset: Dataset) -> None:
    path = dataset('\ufeffid,Prompt,system prompt,kind\r\na,"one\r\ntwo",be,x\r\nb,three,,\r\n', "plain.csv")
    found = chosen(path, judge="refusal")
    first, second = found.cases
    assert first.messages == ({"role": "system", "content": "be"}, {"role": "user", "content": "one\r\ntwo"})
    assert second.messages == ({"role": "user", "content": "three"},)
    assert (second.name, second.place) == ("b", "plain.csv:4")
    assert dict(first.fields or {})["kind"] == "x"
    assert dict(second.fields or {})["kind"] is None
    assert "prompt (Prompt)" in said(found)
    assert "system message (system prompt)" in said(found)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain.tsv", "id\tgoal\n1\tx, y\n2\tz\n"),
        ("plain.csv", "id;goal\n1;x, y\n2;z\n"),
        ("plain.jsonl", '{"id": 1, "goal": "x, y"}\r\n\r\n{"id": 2, "goal": "z"}'),
        ("plain.json", '[\n {"id": 1, "goal": "x, y"},\n\n {"id": 2,\n "goal": "z"}]\n'),
        ("plain.ndjson", '{"id": 1, "goal": "x, y"}\n{"id": 2, "goal": "z"}\n'),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_every_format_gives_the_same_entries(dataset: Dataset, name: str, text: str, packed: bool) -> None:
    path = dataset(gzip.compress(text.encode()), f"{name}.gz") if packed else dataset(text, name)
    found = chosen(path, judge="refusal")
    assert names(found) == ["1", "2"]
    assert [case.messages[0]["content"] for case in found.cases] == ["x, y", "z"]


def test_an_item_of_an_array_has_the_line_on_which_it_begins(dataset: Dataset) -> None:
    path = dataset('[\n {"goal": "x"}, 5,\n\n {"goal":\n "z"}, {"goal": "u"', "plain.json")
    found = chosen(path, judge="refusal")
    assert [case.place for case in found.cases] == ["plain.json:2", "plain.json:4"]
    assert "not a JSON object but a number: plain.json:2" in said(found)
    assert "the array is not valid JSON from here on: plain.json:5" in said(found)


def test_columns_are_mapped_to_roles(dataset: Dataset) -> None:
    path = dataset("ref,question,input,sys,flag,topic\nr1,q,i,s,F,t\n", "plain.csv")
    mapped = read_map(
        ["prompt=Question", "id=ref", "system-message=sys", "judge_args = flag", "jailbreak_type=topic"],
    )
    (case,) = chosen(path, columns=mapped, judge="canary").cases
    assert case.name == "r1"
    assert [message["content"] for message in case.messages] == ["s", "q"]
    fields = dict(case.fields or {})
    assert (fields["judge_args"], fields["jailbreak_type"], fields["id"], fields["input"]) == ("F", "t", "r1", "i")
    assert case.metrics[0].measure(case, OutputRecord("F")).decision == "hit"


def test_a_role_without_a_column_is_not_guessed(dataset: Dataset) -> None:
    path = dataset([{"prompt": "p", "system": "Linux", "id": 5}], "plain.jsonl")
    (case,) = chosen(path, columns=read_map(["system="]), judge="refusal").cases
    assert case.messages == ({"role": "user", "content": "p"},)


@pytest.mark.parametrize(
    ("rows", "mapped", "message"),
    [
        ([{"question": "a", "instruction": "b"}], [], r"several columns could be the prompt: .* --map prompt=COLUMN"),
        ([{"foo": "a"}], [], r"no column that contains prompts; .* --map prompt=COLUMN\. Its columns: foo"),
        ([{"foo": "a"}], ["prompt=bar"], r"has no column bar \(--map prompt=…\); its columns: foo"),
        ([{"prompt": "a", "system": "b", "system_prompt": "c"}], [], r"could be the system: .* --map system=COLUMN"),
        ([{"prompt": "a"}], ["promt=a"], r"--map promt=a: give ROLE=COLUMN"),
        ([{"prompt": "a"}], ["prompt"], r"--map prompt: give ROLE=COLUMN"),
        ([{"prompt": "a"}], ["prompt="], r"without a prompt there is nothing to send"),
        ([{"prompt": "a"}], ["prompt=a", "content=b"], r"given twice"),
    ],
)
def test_what_cannot_be_told_is_an_error_that_names_the_option(
    dataset: Dataset, rows: list[Any], mapped: list[str], message: str
) -> None:
    path = dataset(rows, "plain.jsonl")
    with pytest.raises(UsageError, match=message):
        chosen(path, columns=read_map(mapped), judge="refusal")


def test_columns_of_the_same_name_are_told_apart(dataset: Dataset) -> None:
    (case,) = chosen(dataset("prompt,x,x,\np,1,2,3\n", "plain.csv"), judge="refusal").cases
    assert dict(case.fields or {}) == {"prompt": "p", "x": "1", "x#2": "2", "column_4": "3"}


# -- names ------------------------------------------------------------------------------------------------------


def test_an_id_that_is_there_again_is_numbered(dataset: Dataset) -> None:
    rows = [entry(1), entry("1"), entry("1#2"), entry(1.0), entry("x")]
    found = chosen(dataset(rows), dataset([entry("x")], "more.jsonl"))
    assert names(found) == ["1", "1#2", "1#2#2", "1#3", "x", "x#2"]
    assert "repeated id, numbered: 4 entries (1#2, 1#2#2, 1#3 and 1 more)" in found.notes


def test_an_entry_without_an_id_is_called_by_file_and_line(dataset: Dataset) -> None:
    found = chosen(dataset([{"prompt": "a"}, {"prompt": "b", "id": ""}], "my plain.jsonl"), judge="refusal")
    assert names(found) == ["my plain:1", "my plain:2"]
    assert "no id, named by file and line: 2 entries (my plain:1, my plain:2)" in found.notes


def test_names_can_be_shown(dataset: Dataset) -> None:
    found = chosen(dataset([entry("a\x1b[2J\nb"), entry("x" * 5000), entry("é‮")]))
    assert names(found) == [r"a\x1b[2J\nb", "x" * 199 + "…", r"é\u202e"]


# -- which entries ----------------------------------------------------------------------------------------------


def test_entries_are_chosen_by_name_keyword_and_field(dataset: Dataset) -> None:
    path = dataset([entry("base-1"), entry("base-2", jailbreak_type="emergency"), entry("other-1", n={"m": 3})])
    assert names(chosen(path, selection=Selection(keyword="base"))) == ["base-1", "base-2"]
    assert names(chosen(path, selection=Selection(names=("other-1",)))) == ["other-1"]
    assert names(chosen(path, where='jailbreak_type = "emergency"')) == ["base-2"]
    assert names(chosen(path, where="n.m > 2")) == ["other-1"]
    assert names(chosen(path, where='"emergency"')) == ["base-2"]
    assert names(chosen(f"{path}::base-2", f"{path}::base-1")) == ["base-1", "base-2"]
    assert names(chosen(f"{path}::base-2", path)) == ["base-1", "base-2", "other-1"]


def test_a_line_can_be_asked_for(dataset: Dataset) -> None:
    path = dataset([entry(number) for number in range(1, 6)])
    assert names(chosen(path, where="line >= 4")) == ["4", "5"]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"where": 'jailbreak_type = "x"'}, "selects none of 1 entry"),
        ({"where": "outcome = success"}, "outcome exists only in results"),
        ({"selection": Selection(names=("zz",))}, "selects none of 1 case"),
        ({"selection": Selection(tags=("a",))}, "have no tags"),
        ({"attempts": 0}, "--attempts"),
        ({"sample": "0"}, "draws none"),
        ({"sample": "0.1"}, "draws none of 1 entry"),
        ({"sample": "1.5"}, "a share such as 0.25"),
        ({"sample": "-1"}, "a share such as 0.25"),
        ({"sample": "many"}, "a share such as 0.25"),
        ({"sample": "1", "sample_seed": "x"}, "write a whole number, or the word random"),
        ({"judge": "no-such-judge"}, "no such judge"),
    ],
)
def test_a_choice_that_leaves_nothing_or_is_not_understood_is_an_error(
    dataset: Dataset, choice: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        chosen(dataset([entry()]), **choice)


def test_a_file_that_is_given_twice_is_read_once(dataset: Dataset) -> None:
    path = dataset([entry()])
    found = chosen(path, f"./{path}")
    assert names(found) == ["1"]
    assert len(found.files) == 1
    assert "./attacks.jsonl: given more than once, read once" in found.notes


def test_an_entry_that_is_not_there_is_an_error(dataset: Dataset) -> None:
    with pytest.raises(InputError, match=r"attacks\.jsonl: no entry named 9"):
        chosen(f"{dataset([entry()])}::9")


# -- samples ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sample", "size"), [("0.25", 10), ("25%", 10), ("25%", 10), ("7", 7), ("100", 40), ("1.0", 40)]
)
def test_a_sample_is_a_share_or_a_number(dataset: Dataset, sample: str, size: int) -> None:
    path = dataset([entry(number) for number in range(40)])
    found = chosen(path, sample=sample)
    assert len(set(names(found))) == len(found.cases) == size
    assert found.notes == (f"a sample of {size} of 40 entries, drawn with seed 42",)
    assert names(found) == names(chosen(path, sample=sample))
    assert names(found) != names(chosen(path, sample=sample, sample_seed="43"))


def test_a_sample_is_drawn_of_what_was_chosen(dataset: Dataset) -> None:
    path = dataset([entry(number, kind="odd" if number % 2 else "even") for number in range(40)])
    assert {int(name) % 2 for name in names(chosen(path, sample="10", where='kind = "odd"'))} == {1}


def test_a_random_seed_is_drawn_once_and_recorded(dataset: Dataset) -> None:
    path = dataset([entry(number) for number in range(100)])
    choice = with_drawn_seed(DatasetChoice(paths=(path,), sample="10", sample_seed="random"))
    assert choice.sample_seed.isdigit()
    assert with_drawn_seed(choice) == choice
    again = msgspec.convert(msgspec.json.decode(msgspec.json.encode(choice)), DatasetChoice)
    assert again == choice
    assert names(choose_entries(again, Context())) == names(choose_entries(choice, Context()))
    others = [
        with_drawn_seed(DatasetChoice(paths=(path,), sample="10", sample_seed="random")).sample_seed for _ in range(5)
    ]
    assert len({choice.sample_seed, *others}) > 1


@given(st.integers(1, 100_000), st.integers(1, 100))
def test_the_size_of_a_sample_is_rounded_as_python_rounds(total: int, percent: int) -> None:
    wanted = round(total * (percent / 100))
    if wanted:
        assert sample_size(f"{percent}%", total) == sample_size(str(percent / 100), total) == wanted


@pytest.mark.skipif(not PEER.exists(), reason="spikee is not installed (make peers)")
def test_a_seed_draws_what_spikee_draws(dataset: Dataset) -> None:
    path = dataset([entry(number) for number in range(173)])
    draws = [(0.25, "42"), (0.5, "0"), (0.1, "7"), (0.031, "123456"), (1.0, "-3")]
    script = (
        "import contextlib, json, sys\n"
        "with contextlib.redirect_stdout(sys.stderr):\n"
        "    from spikee.tester import _apply_sampling\n"
        "    from spikee.utilities.files import read_jsonl_file\n"
        f"    found = [[str(entry['id']) for entry in _apply_sampling(read_jsonl_file({path!r}), share, seed)]\n"
        f"             for share, seed in {draws!r}]\n"
        "print(json.dumps(found))\n"
    )
    done = subprocess.run([str(PEER), "-c", script], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this spikee cannot be asked: {done.stderr[-300:]}")
    ours = [names(chosen(path, sample=str(share), sample_seed=seed)) for share, seed in draws]
    assert ours == json.loads(done.stdout)


# -- damaged and hostile files ----------------------------------------------------------------------------------


def test_bad_lines_are_counted_and_told_and_the_good_ones_run(dataset: Dataset) -> None:
    good = [json.dumps(entry(number)) for number in (1, 2)]
    found = chosen(dataset("\n".join([good[0], "{oops}", "[1]", "", good[1], '{"id": 3'])))
    assert names(found) == ["1", "2"]
    assert [case.place for case in found.cases] == ["attacks.jsonl:1", "attacks.jsonl:5"]
    assert "attacks.jsonl:2" in said(found)
    assert "not a JSON object but a list: attacks.jsonl:3" in said(found)
    assert "torn: the line ends in the middle of a value: attacks.jsonl:6" in said(found)


def test_many_bad_lines_make_few_notes(dataset: Dataset) -> None:
    found = chosen(dataset(json.dumps(entry()) + "\n" + "".join("x" * n + "{\n" for n in range(200)) + "[1]\n" * 50))
    assert len(found.notes) <= 7
    assert "and 47 more" in said(found)


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("", "a.jsonl", "no runnable entries"),
        ("\n\n", "a.jsonl", "no runnable entries"),
        ("{x}\n", "a.jsonl", r"no runnable entries\n  left out, .*: a.jsonl:1"),
        ("[]", "a.json", "no runnable entries"),
        ("", "a.csv", "has no header"),
        ("prompt\n", "a.csv", "no runnable entries"),
        (b"\xff\xfep\x00", "a.csv", "is UTF-16"),
        ('{"kind": "run", "schema": 1, "run": "x"}\n', "a.jsonl", "holds the results of a run, not a dataset"),
    ],
)
def test_a_file_without_anything_to_run_is_an_input_error(
    dataset: Dataset, content: str | bytes, name: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        chosen(dataset(content, name), judge="refusal")


def test_a_file_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        chosen(str(tmp_path / "none.jsonl"))


def test_what_a_journal_cannot_hold_is_changed_and_told(dataset: Dataset) -> None:
    rows = [
        json.dumps(entry(1))[:-1] + ', "rate": NaN, "deep": {"more": [1e999]}, "big": ' + "9" * 5000 + "}",
        json.dumps(entry(2, content="half \ud800 character")),
        json.dumps(entry(3))[:-1] + ', "nest": ' + "[" * 500 + "]" * 500 + "}",
        json.dumps(entry(4))[:-1] + ', "content": "another"}',
        json.dumps(entry(5, content="x" * (8 * 1024 * 1024))),
        json.dumps(entry(6, content="é" * 4_000_000), ensure_ascii=False),
    ]
    found = chosen(dataset("\n".join(rows)))
    assert names(found) == ["1", "2", "6"]
    first = dict(found.cases[0].fields or {})
    assert (first["rate"], first["deep"], first["big"]) == (None, {"more": [None]}, "9" * 5000)
    assert found.cases[1].messages[0]["content"] == "half \ufffd character"
    for reason in ("not finite", "lone surrogates", "levels deep", "content appears twice", "longer than"):
        assert reason in said(found)
    for case in found.cases:
        encode_record(case.record())


@pytest.mark.shared
def test_hostile_files_never_end_in_a_traceback(shared: Path) -> None:
    files = sorted((shared / "hostile").glob("*.jsonl"))
    assert files
    for path in files:
        found = chosen(str(path), columns=read_map(["prompt=response"]), judge="refusal")
        lines = path.read_bytes().count(b"\n") + 1
        assert 0 < len(found.cases) <= lines, path.name
        for case in found.cases:
            encode_record(case.record())


@pytest.mark.shared
def test_spikees_own_datasets_are_read_whole(shared: Path) -> None:
    files = sorted((shared / "golden" / "spikee").glob("out/compare*/files/datasets/*.jsonl"))
    assert files
    for path in files:
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        found = chosen(str(path), needs_judge=False)
        assert [dict(case.fields or {}) for case in found.cases] == rows
        assert [case.messages[-1]["content"] for case in found.cases] == [row["content"] for row in rows]


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("any")
    for name in ("a.jsonl", "a.json", "a.csv"):
        path = folder / name
        path.write_bytes(content)
        try:
            found = chosen(str(path), judge="refusal")
        except (InputError, UsageError) as error:
            assert name in str(error)
            continue
        assert found.cases, "a dataset without entries is refused"
        for case in found.cases:
            assert decode_record(encode_record(case.record()))["case"] == case.name


# -- the page about datasets ------------------------------------------------------------------------------------

_EXAMPLE = re.compile(r"^`([a-z]+\.[a-z]+)`\n\n```[a-z]+\n(.*?)^```\n\n(\| line .*?)\n\n", re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_reference_are_true(dataset: Dataset) -> None:
    page = (ROOT / "docs" / "reference" / "datasets.md").read_text("utf-8")
    examples = _EXAMPLE.findall(page)
    assert len(examples) == 3
    for name, content, table in examples:
        claimed = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()[2:]]
        assert [_as_shown(case) for case in chosen(dataset(content, name)).cases] == claimed


def _as_shown(case: Case) -> list[str]:
    sent = [f"{message['role']}: {message['content']}" for message in case.messages]
    assert isinstance(case, AttackCase)
    sent += [f"then: {turn}" for turn in case.turns]
    line = case.place.rpartition(":")[2]
    return [line, f"`{case.name}`", " / ".join(sent).replace("\n", "⏎"), f"`{case.metrics[0].name}`"]


# -- what a run needs to be resumed -----------------------------------------------------------------------------


def test_files_are_known_by_their_content(dataset: Dataset) -> None:
    import hashlib

    path = dataset([entry()])
    found = chosen(path)
    assert found.files == ((path, hashlib.sha256(Path(path).read_bytes()).hexdigest()),)
    dataset([entry(), entry(2)])
    assert chosen(path).files != found.files


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("a.jsonl", True),
        ("a.JSONL.gz", True),
        ("a.csv.zst", True),
        ("x/a.tsv", True),
        ("a.json", True),
        ("a.jsonl::7", True),
        ("test_a.py", False),
        ("test_a.py::test_x.csv", False),
        ("tests/", False),
        ("jsonl", False),
    ],
)
def test_a_dataset_is_known_by_its_name(path: str, is_one: bool) -> None:
    assert is_dataset(path) is is_one


def test_tests_and_datasets_are_not_mixed() -> None:
    assert are_datasets(["a.jsonl", "b.csv"])
    assert not are_datasets(["test_a.py"])
    with pytest.raises(UsageError, match=r"a\.jsonl is a dataset and test_a\.py contains tests"):
        are_datasets(["test_a.py", "a.jsonl"])


def test_what_entries_have_in_common_is_kept_once(dataset: Dataset) -> None:
    common = {f"field_{number}": "the same text in every entry" for number in range(20)}
    path = dataset([entry(number, **common, listed=["a", "b"]) for number in range(5000)])
    tracemalloc.start()
    try:
        cases = chosen(path).cases
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A dict of 29 fields alone takes 1,184 bytes, and with values of its own 3,500.
    assert size / len(cases) < 1600
    assert cases[0].fields is not None
    assert dict(cases[0].fields)["listed"] == ["a", "b"]


def test_many_entries_are_chosen_quickly(dataset: Dataset) -> None:
    path = dataset([entry(number) for number in range(20_000)])
    began = time.process_time()
    assert len(chosen(path).cases) == 20_000
    # 0.2 to 0.4 s; the limit leaves room for slow and busy machines.
    assert time.process_time() - began < 3
