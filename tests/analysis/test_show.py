"""`results show`: an entry as it was counted, with everything that is recorded of it, safe whatever that is."""

from __future__ import annotations

import difflib
import gzip
import io
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from faircount import InputError, UsageError, analyze
from faircount.analysis import CHANGED, VANISHED, ShownEntry, ShowOptions, evidence, find_entries, masked
from faircount.analysis import show as show_module
from faircount.analysis.show import as_report
from faircount.core import Outcome, visible
from faircount.ledger import ONE_BY_ONE_UP_TO_ROWS
from faircount.readers import loading, open_range
from faircount.report import Grid, Record, console, documents, markdown
from tests.conftest import Cli, Ran, Write, attack, encode, some, standard
from tests.report.test_present import HOSTILE, harmless, hostile_rows

SCHEMA = json.loads(resources.files("faircount.report").joinpath("schemas", "entry-2.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
REPEATED = "the same row appears earlier in the file"
JUDGED_AGAIN = "another file judges the same attempt differently and takes precedence"
KEY = "sk-abcdefghijklmnopqrstuvwxyz"


def entries_of(name: str, *paths: str, **options: Any) -> tuple[ShownEntry, ...]:
    return find_entries(name, paths, ShowOptions(**options)).entries


def entry_of(name: str, *paths: str, **options: Any) -> ShownEntry:
    (entry,) = entries_of(name, *paths, **options)
    return entry


def show(cli: Cli, name: str, *words: str) -> Ran:
    return cli("results", "show", name, *words)


def document(cli: Cli, name: str, *words: str) -> dict[str, Any]:
    ran = show(cli, name, *words, "--output-format", "json")
    assert ran.code == 0, ran.err
    assert ran.out.isascii()
    read: dict[str, Any] = json.loads(ran.out)
    VALIDATOR.validate(read)
    return read


def flat(text: str) -> str:
    """Return text without the line breaks that folding put in."""
    return " ".join(text.split())


# -- what an entry is -------------------------------------------------------------------------------------------


def test_an_entry_has_its_attempts_in_order_with_their_places(write: Write) -> None:
    path = write([attack(5, success=True, attempts=3), standard(4), standard(5)])
    entry = entry_of("5", path)
    assert [(a.number, a.place, a.strategy) for a in entry.attempts] == [
        (1, f"{path}:3", "standard"),
        (2, f"{path}:1", "goat"),
    ]
    assert (entry.outcome, entry.decided_by, entry.requests) == (Outcome.SUCCESS, 2, 4)


@pytest.mark.parametrize(
    ("rows", "outcome", "decided_by", "why"),
    [
        ([standard(1), attack(1, success=True)], "success", 2, "attempt 2 succeeded, and one success is enough"),
        ([standard(1, error="x"), attack(1)], "failure", 2, "attempt 2 failed, and none succeeded"),
        (
            [standard(1, success=True), attack(1, success=True)],
            "success",
            1,
            "attempt 1 succeeded, and one success is enough",
        ),
        (
            [standard(1, error="x"), attack(1, "a", error="x"), attack(1, "b"), attack(1, "c")],
            "failure",
            3,
            "attempt 3 failed, and none succeeded",
        ),
        (
            [attack(1, "a", success=True), standard(1, error="x"), standard(1, success=True)],
            "success",
            2,
            "attempt 2 succeeded, and one success is enough",
        ),
        ([standard(1, error="x")], "error", 1, "attempt 1 ended in an error, and none succeeded or failed"),
        ([standard(1, guardrail=True, error="x")], "guardrail", 1, "attempt 1 was blocked, and none was answered"),
        (
            [standard(1, success=None)],
            "unjudged",
            None,
            "no attempt succeeded, failed, ended in an error or was blocked",
        ),
    ],
)
def test_the_outcome_comes_with_the_attempt_that_decided(
    write: Write, rows: list[dict[str, Any]], outcome: str, decided_by: int | None, why: str
) -> None:
    entry = entry_of("1", write(rows))
    assert (entry.outcome.value, entry.decided_by, entry.reason) == (outcome, decided_by, why)
    assert [a.number for a in entry.attempts if a.decides] == ([] if decided_by is None else [decided_by])


def test_a_history_can_decide_against_the_state_of_its_row(write: Write, cli: Cli) -> None:
    path = write([attack(1, attempts=2, attempt_history=[{"success": False, "error": "time-out"}] * 2)])
    entry = entry_of("1", path)
    assert (entry.outcome, entry.attempts[0].state) == (Outcome.ERROR, Outcome.FAILURE)
    assert entry.attempts[0].counts_as == (Outcome.ERROR,)
    assert entry.reason.endswith(", according to its history")
    assert "counts as" in show(cli, "1", path).out


def test_every_entry_has_the_outcome_that_analyze_counts(write: Write) -> None:
    path = write(hostile_rows())
    (analysis,) = analyze(path).analyses
    names = {str(row["id"]).removesuffix("-attack") for row in hostile_rows()}
    entries = [entry for name in names for entry in entries_of(name, path)]
    assert len(entries) == analysis.tally.total
    for outcome in Outcome:
        assert sum(entry.outcome is outcome for entry in entries) == getattr(analysis.tally, outcome.value)


def test_facets_are_those_of_the_entry(write: Write) -> None:
    path = write([standard(1, plugin="b64", lang="", colour="red"), standard(2, lang="en")])
    facets = entry_of("1", path).facets
    assert facets["plugin"] == "b64"
    assert facets["colour"] == "red"
    assert facets["lang"] is None


def test_a_family_is_named_and_counted(write: Write, cli: Cli) -> None:
    crossed = {"document_id": "mail", "position": "start"}
    rows = [standard(i, long_id=f"task_mail_dan-{i}_steal_start", **crossed) for i in range(3)]
    path = write(rows)
    entry = entry_of("1", path)
    assert entry.family is not None and entry.family.entries == 3
    shown = flat(show(cli, "1", path).out)
    assert "Variants 3 entries of its family, itself included" in shown
    assert "family: document mail family: instruction steal" in shown
    assert document(cli, "1", path)["entries"][0]["family"] == {
        "document": "mail",
        "instruction": "steal",
        "entries": 3,
    }
    assert document(cli, "1", write([standard(1)], "none.jsonl"))["entries"][0]["family"] is None


# -- which entry is meant ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["12", "12-attack", "long-12", "long-12-goat"])
def test_an_entry_is_found_by_its_id_a_rows_id_and_a_long_id(write: Write, name: str) -> None:
    path = write([standard(11), standard(12, long_id="long-12"), attack(12, long_id="long-12-goat"), standard(112)])
    assert entry_of(name, path).id == "12"


def test_the_lines_are_looked_through_only_for_what_the_ledger_does_not_know(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("the file was looked through")

    path = write([standard("a", long_id="long"), attack("a"), standard(7)])
    monkeypatch.setattr(show_module, "_lines_holding", never)
    for name in ("a", "a-attack", "7"):
        assert entry_of(name, path).found_by == "id"
    with pytest.raises(AssertionError):
        entry_of("long", path)


def test_an_attack_row_that_names_its_parent_is_found_by_its_own_id(write: Write) -> None:
    path = write([standard(1), standard("other", attack_parent_id=1, attack_name="goat", success=True)])
    entry = entry_of("other", path)
    assert (entry.id, entry.found_by, len(entry.attempts)) == ("1", "row", 2)


def test_an_extracted_row_is_found_by_its_new_and_its_old_id(write: Write) -> None:
    path = write([standard(1, result_parent_id=40, result_origin="results_a.jsonl", original_id=40)])
    assert entry_of("1", path).id == entry_of("40", path).id == "40"


def test_a_long_id_is_found_however_it_is_written(write: Write, tmp_path: Path) -> None:
    name = 'é"\\x'
    plain, escaped = standard(1, long_id=name), standard(2, long_id=name)
    path = write([json.dumps(plain, ensure_ascii=False), "", escaped])
    assert [entry.id for entry in entries_of(name, path)] == ["1", "2"]
    (tmp_path / "no_end.jsonl").write_bytes(encode([plain, {**plain, "id": 3, "long_id": "last"}]).rstrip(b"\n"))
    assert entry_of("last", str(tmp_path / "no_end.jsonl")).id == "3"


def test_lines_are_numbered_across_blocks_and_overlong_lines(write: Write) -> None:
    rows = [standard(i, long_id=f"long-{i}", response="x" * 3000) for i in range(300)]
    path = write([*rows[:150], standard("huge", response="y" * 400_000), *rows[150:]])
    entry = entry_of("long-299", path, max_line=10_000)
    assert (entry.id, entry.attempts[0].place) == ("299", f"{path}:301")


def test_a_text_that_merely_holds_the_id_is_not_it(write: Write) -> None:
    path = write([standard(1, response="needle", long_id="a needle")])
    with pytest.raises(UsageError, match="no entry or row has the id needle"):
        entries_of("needle", path)


def test_entries_that_share_an_id_are_all_shown_and_numbered(write: Write, cli: Cli) -> None:
    path = write([standard(1, input="one"), standard(1, input="other", success=True)])
    other = write([standard(1, input="third")], "results_y.jsonl")
    ran = show(cli, "1", path, other)
    assert ran.code == 0
    assert ran.out.startswith("\n3 entries, for the id 1\n")
    for number in (1, 2, 3):
        assert f"\nEntry {number}: 1\n" in ran.out
    assert [e["outcome"] for e in document(cli, "1", path, other)["entries"]] == ["failure", "success", "failure"]


def test_many_entries_of_one_id_are_bounded_with_a_note(write: Write, cli: Cli) -> None:
    path = write([standard(1, input=f"case {i}") for i in range(25)])
    assert show(cli, "1", path).out.startswith("\n25 entries, the first 10 are shown, for the id 1\n")
    read = document(cli, "1", path)
    assert (read["total"], len(read["entries"])) == (25, 10)


def test_all_attempts_of_an_entry_are_shown_however_many(write: Write, cli: Cli) -> None:
    rows = [standard(1, response=f"answer {i}", success=i == 29) for i in range(40)]
    path = write(rows)
    entry = entry_of("1", path)
    assert [a.number for a in entry.attempts] == [*range(1, 41)]
    assert [a.number for a in entry.attempts if a.decides] == [30]
    shown = show(cli, "1", path).out
    assert all(re.search(rf"Response +answer {number}\n", shown) for number in range(40))
    assert flat(shown).startswith("Entry 1 Outcome success attempt 30 succeeded, and one success is enough")


@pytest.mark.parametrize(
    ("name", "alike"),
    [("promt-7", "prompt-7"), ("1000", "100"), ("\x1b[2Jprompt-7", "prompt-7")],
)
def test_an_unknown_id_ends_with_2_and_ids_that_look_alike(write: Write, cli: Cli, name: str, alike: str) -> None:
    path = write([standard(f"prompt-{i}") for i in range(30)] + [standard(i) for i in range(100, 130)])
    ran = show(cli, name, path)
    assert (ran.code, ran.out) == (2, "")
    assert harmless(ran.err)
    named = ran.err.rstrip().rpartition("similar ids: ")[2].split(", ")
    assert alike in named
    assert len(named) <= 5


def test_ids_that_look_alike_are_looked_for_among_a_bounded_number(
    write: Write, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show_module, "IDS_COMPARED", 3)
    path = write([standard(i) for i in range(1000, 1100)])
    assert show(cli, "999", path).err.endswith("no entry or row has the id 999\n")
    monkeypatch.undo()
    compared: list[int] = []

    def watched(_: str, words: Sequence[str], **_more: int) -> list[str]:
        compared.append(len(words))
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(difflib, "get_close_matches", watched)
        show(cli, "999", write([standard(i) for i in range(1000, 2000)]))
    assert compared == [500]
    hostile = write([standard("x" * 100_000), standard("x" * 100_001)], "long.jsonl")
    assert show(cli, "x" * 100_002, hostile).err == f"faircount: no entry or row has the id {'x' * 79}…\n"


def test_an_unknown_id_of_a_damaged_file_tells_of_the_damage(write: Write, cli: Cli) -> None:
    assert show(cli, "2", write([standard(1), '{"id": 2, "succ'])).err.endswith("; 1 line could not be read\n")


# -- texts ------------------------------------------------------------------------------------------------------


def test_what_a_row_holds_is_shown(write: Write, cli: Cli) -> None:
    path = write(
        [
            standard(
                1,
                long_id="the-long-id",
                judge_name="canary",
                judge_args=["A", "B"],
                response_time=1.5,
                error="blocked by policy",
                guardrail=True,
                guardrail_categories={"violence": True, "spam": False},
                input="the prompt",
                response="the response",
            )
        ]
    )
    shown = flat(show(cli, "1", path).out)
    for text in (
        f"Attempt 1: {path}:1",
        "Judge canary",
        'Judge arguments ["A","B"]',
        "Response time 1.5 s",
        "Error blocked by policy",
        "Guardrail categories violence",
        "Prompt the prompt",
        "Response the response",
        "Long id the-long-id",
        "State guardrail",
    ):
        assert text in shown
    assert "spam" not in shown


def test_the_prompt_is_found_under_the_names_that_spikee_gave_it(write: Write) -> None:
    for field in ("input", "content", "text"):
        row = {"id": 1, "success": False, field: "the prompt"}
        line = entry_of("1", write([row])).attempts[0].recorded
        assert line is not None
        assert line.prompt == "the prompt"


def test_long_texts_are_shown_whole(write: Write, cli: Cli) -> None:
    path = write([standard(1, response="x" * 70_000 + " THE END", input="y" * 700)])
    shown = show(cli, "1", path).out
    assert "THE END" in flat(shown) and shown.count("y") >= 700
    assert "(cut here)" not in shown and "…" not in shown
    assert document(cli, "1", path)["entries"][0]["attempts"][0]["recorded"]["response"].endswith("THE END")


def test_a_history_is_shown_item_by_item(write: Write, cli: Cli) -> None:
    history = [{"input": f"try {i}.", "response": f"re {i}.", "success": False, "error": None} for i in range(20)]
    history[1] = {"input": "try 1.", "response": None, "success": None, "error": "time-out"}
    history[19]["success"] = True
    path = write([standard(1), attack(1, success=True, attempts=20, attempt_history=history)])
    shown = flat(show(cli, "1", path).out)
    assert "History of attempt 2: 20 requests" in shown
    assert "2, error input try 1. error time-out" in shown
    assert "20, success input try 19. response re 19." in shown
    assert all(f"try {i}." in shown for i in range(20))
    told = document(cli, "1", path)["entries"][0]["attempts"][1]["recorded"]["history"]
    assert len(told) == 20


@pytest.mark.parametrize("history", [None, "nonsense", {}, 7])
def test_what_is_no_history_is_none(write: Write, cli: Cli, history: Any) -> None:
    path = write([standard(1), attack(1, attempt_history=history)])
    assert document(cli, "1", path)["entries"][0]["attempts"][1]["recorded"]["history"] is None


def test_odd_items_of_a_history_do_no_harm(write: Write, cli: Cli) -> None:
    items: list[Any] = [None, 3, [], {}, {"success": [1], "error": {"a": 1}, "input": [1, 2], "response": True}]
    path = write([standard(1), attack(1, attempt_history=items)])
    told = document(cli, "1", path)["entries"][0]["attempts"][1]["recorded"]["history"]
    assert [item["number"] for item in told] == [1, 2]
    assert told[1]["input"] == "[1,2]"


TREE = {
    "0": {"children": [1], "data": None},
    "1": {"parent": 0, "children": [], "data": {"role": "user", "content": "first"}, "attempt": True},
    "2": {"parent": 1, "children": [], "data": "second"},
}


@pytest.mark.parametrize(
    ("conversation", "turns"),
    [
        ([{"role": "user", "content": "hi"}, {"role": "bot", "content": None}], [("user", "hi"), ("bot", None)]),
        (json.dumps(TREE), [(None, None), ("user", "first"), (None, "second")]),
        (TREE, [(None, None), ("user", "first"), (None, "second")]),
        (["a", 3], [(None, "a"), (None, "3")]),
        ("just text", [(None, "just text")]),
        ("[" * 1000, [(None, "[" * 1000)]),
        ("9" * 5000, [(None, "9" * 5000)]),
        (7, [(None, "7")]),
    ],
)
def test_a_conversation_is_told_turn_by_turn(write: Write, cli: Cli, conversation: Any, turns: Any) -> None:
    path = write([standard(1), attack(1, conversation=conversation)])
    told = document(cli, "1", path)["entries"][0]["attempts"][1]["recorded"]["conversation"]
    assert [(turn["speaker"], turn["text"]) for turn in told] == turns
    assert f"Conversation of attempt 2: {len(turns)} turn" in show(cli, "1", path).out


@pytest.mark.parametrize("conversation", [None, "", "null"])
def test_without_a_conversation_there_is_none(write: Write, cli: Cli, conversation: Any) -> None:
    path = write([standard(1, conversation=conversation)])
    assert document(cli, "1", path)["entries"][0]["attempts"][0]["recorded"]["conversation"] is None


def test_long_conversations_are_shown_whole(write: Write, cli: Cli) -> None:
    path = write([standard(1, conversation=[f"turn {i}." for i in range(30)])])
    line = entry_of("1", path).attempts[0].recorded
    assert line is not None
    assert line.conversation is not None
    assert [turn.name for turn in line.conversation] == [str(number) for number in range(1, 31)]
    assert len(line.conversation) == 30
    shown = show(cli, "1", path).out
    assert "Conversation of attempt 1: 30 turns\n" in shown
    assert all(f"turn {i}." in shown for i in range(30))


# -- secrets ----------------------------------------------------------------------------------------------------


def test_secrets_are_masked_wherever_they_stand(write: Write, cli: Cli) -> None:
    row = standard(
        1,
        long_id=f"long {KEY}",
        input=f"use {KEY}",
        response=f"the key is {KEY}",
        error=f"denied for {KEY}",
        judge_args=[KEY],
        judge_name=f"judge {KEY}",
        plugin=f"plugin {KEY}",
        guardrail=True,
        guardrail_categories=[KEY],
        conversation=[{"role": KEY, "content": KEY}],
        attempt_history=[{"input": KEY, "response": KEY, "error": KEY}],
    )
    path = write([row])
    for words in ((), ("--output-format", "json"), ("--output-format", "markdown")):
        ran = show(cli, "1", path, *words)
        assert ran.code == 0
        assert KEY[:8] not in ran.out
        assert "[masked]" in ran.out


@pytest.mark.parametrize("before", [0, 2000, 4080, 4090, 4096, 4100, 8190])
@pytest.mark.parametrize("filling", ["word ", "x", "one. two; ", "\n"])
def test_a_secret_is_masked_wherever_a_long_text_is_taken_apart(before: int, filling: str) -> None:
    text = (filling * before)[:before] + f" {KEY} " + filling * 5000
    shown = masked(text)
    assert KEY[3:9] not in shown
    assert shown.count("[masked]") == 1
    assert shown.replace(f"{KEY[:3]}…[masked]", KEY) == text


def test_a_secret_longer_than_a_piece_is_masked_to_its_end() -> None:
    shown = masked("token=" + "A" * 10_000 + " end")
    assert shown == "token=AAA…[masked] end"
    assert masked("-----BEGIN PRIVATE KEY-----\n" + "ABC\n" * 5000) == "---…[masked]"


def test_nobody_can_hide_text_by_writing_a_mask_himself() -> None:
    text = "…[masked]".rjust(4096, "x") + "evidence" + "y" * 5000
    assert masked(text) == text


def test_masking_a_hostile_text_takes_no_longer_than_its_length_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def watched(text: str) -> str:
        looked_at.append(len(text))
        return text

    monkeypatch.setattr(evidence, "mask_secrets", watched)
    text = "-eyJ" * 100_000
    assert masked(text) == text
    assert sum(looked_at) == len(text)
    assert max(looked_at) <= 4096


# -- rows that do not count -------------------------------------------------------------------------------------


def test_repeated_rows_are_told_with_the_row_that_counts(write: Write, cli: Cli) -> None:
    path = write([standard(1, success=True), standard(2), standard(1, success=True)])
    (left_out,) = entry_of("1", path).left_out
    assert (left_out.place, left_out.reason, left_out.instead) == (f"{path}:3", REPEATED, f"{path}:1")
    assert document(cli, "1", path)["entries"][0]["left_out"][0]["reason"].startswith("the same row")
    assert "Rows that do not count" in show(cli, "1", path).out
    assert entry_of("2", path).left_out == ()


def test_a_row_judged_again_elsewhere_is_told_where_files_are_combined(write: Write, cli: Cli) -> None:
    rows = [standard(i, response_time=i / 7, response=f"re {i}") for i in range(5)]
    first = write(rows, "results_a.jsonl")
    again = write([{**row, "success": True} for row in rows], "rejudge_a.jsonl")
    (entry,) = entries_of("3", first, again, combine=True)
    assert entry.outcome is Outcome.SUCCESS
    assert [(row.place, row.reason) for row in entry.left_out] == [(f"{first}:4", JUDGED_AGAIN)]
    assert entry.left_out[0].instead == f"{again}:4"
    assert len(entries_of("3", first, again)) == 2
    assert document(cli, "3", first, again, "--combine")["entries"][0]["files"] == [first, again]


def test_an_entry_is_found_by_a_row_that_was_left_out(write: Write) -> None:
    row = standard(1, response_time=0.5)
    first = write([{**row, "long_id": "old"}, standard(2)], "results_a.jsonl")
    again = write([{**row, "long_id": "new", "success": True}, standard(2)], "rejudge_a.jsonl")
    (entry,) = entries_of("old", first, again, combine=True)
    assert entry.id == "1"
    assert entry.attempts[0].place == f"{again}:1"


def test_several_kept_rows_leave_open_which_one_counts_instead(write: Write) -> None:
    tries = [standard(1, response=f"answer {i}") for i in range(2)]
    entry = entry_of("1", write([*tries, *tries]))
    assert [row.instead for row in entry.left_out] == [None, None]
    assert len(entry.left_out) == 2


# -- files ------------------------------------------------------------------------------------------------------


def test_standard_input_is_refused_because_it_cannot_be_read_back(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(encode([standard(1)]))))
    ran = show(cli, "1", "-")
    assert (ran.code, ran.out) == (2, "")
    assert "can be read only once" in ran.err


def test_a_pipe_is_refused_before_it_is_read(cli: Cli, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert show(cli, "1", str(tmp_path / "pipe")).code == 2


def test_without_a_file_or_with_the_words_swapped_there_is_a_hint(cli: Cli, write: Write) -> None:
    assert "no result file given" in show(cli, "1").err
    ran = show(cli, write([standard(1)]), "1")
    assert ran.code == 2
    assert "put the id first" in ran.err


def test_options_may_stand_between_the_words(cli: Cli, write: Write) -> None:
    path = write([standard(1, long_id="-x")])
    for words in (["--output-format", "json", "1", path], ["1", "--output-format", "json", path], ["--", "-x", path]):
        assert cli("results", "show", *words).code == 0


def test_packed_files_are_shown_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "results_x.jsonl.gz"
    path.write_bytes(gzip.compress(encode([standard(i, long_id=f"l{i}") for i in range(50)])))
    assert entry_of("31", str(path)).attempts[0].place == f"{path}:32"
    assert entry_of("l31", str(path)).id == "31"


def test_damage_is_told_and_strict_ends_with_3(write: Write, cli: Cli) -> None:
    path = write([standard(1), "{torn", standard(2)])
    ran = show(cli, "2", path)
    assert ran.code == 0
    assert "error F001" in ran.out
    strict = show(cli, "2", path, "--strict")
    assert strict.code == 3
    assert strict.err == "faircount: --strict: some input could not be read; see the findings\n"
    assert [finding["code"] for finding in document(cli, "2", path)["findings"]] == ["F001"]


def test_a_file_that_cannot_be_used_does_not_hide_the_others(write: Write, cli: Cli) -> None:
    good, bad = write([standard(1)]), write(["nonsense"], "bad.jsonl")
    ran = show(cli, "1", bad, good)
    assert ran.code == 3
    assert "Entry 1" in ran.out
    assert f"faircount: {bad}: cannot read its only line" in ran.err
    with pytest.raises(InputError):
        entries_of("1", bad)
    assert show(cli, "7", bad, good).err.endswith("no entry or row has the id 7; 1 file could not be used\n")


@pytest.mark.parametrize("change", ["forge", "remove"])
def test_a_file_that_changed_is_told_not_believed(
    write: Write, cli: Cli, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    path = write([standard(1, response="as it was")])
    read_back = evidence.lines_again

    def late(*arguments: Any) -> Any:
        if change == "remove":
            Path(path).unlink(missing_ok=True)
        else:
            Path(path).write_bytes(encode([standard(1, response="forged!!!")]))
        return read_back(*arguments)

    monkeypatch.setattr(evidence, "lines_again", late)
    ran = show(cli, "1", path)
    assert ran.code == 0
    assert f"Its texts are not shown: {VANISHED if change == 'remove' else CHANGED}." in flat(ran.out)
    assert "forged" not in ran.out


def test_large_files_are_taken_from_the_cache_and_read_back_near_the_line(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "CACHED_FROM_BYTES", 1)
    rows = ONE_BY_ONE_UP_TO_ROWS + 10
    path = write([standard(f"e-{i}", response=f"re {i}", plugin=f"p{i % 3}") for i in range(rows)] + [standard("e-3")])
    first = entry_of("e-12345", path)
    opened: list[tuple[int, int]] = []

    def watched(*arguments: Any) -> Any:
        opened.append(arguments[2:4])
        return open_range(*arguments)

    monkeypatch.setattr(evidence, "open_range", watched)
    monkeypatch.setattr(loading, "open_source", None)
    monkeypatch.setattr(show_module, "_lines_holding", None)
    assert entry_of("e-12345", path) == first
    assert first.attempts[0].recorded is not None
    assert [end - start < 600_000 for start, end in opened] == [True]
    assert [entry.id for entry in entries_of("e-3", path)] == ["e-3"] * 2


def test_rows_that_stand_together_are_read_back_at_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []

    def watched(*arguments: Any) -> Any:
        opened.append(arguments)
        return open_range(*arguments)

    monkeypatch.setattr(evidence, "open_range", watched)
    path = write([standard(1, response=f"re {i}") for i in range(200)])
    assert len(entry_of("1", path).attempts) == 200
    assert len(opened) == 1


def test_the_same_file_given_twice_is_shown_once(write: Write) -> None:
    path = write([standard(1)])
    assert len(entries_of("1", path, path)) == 1


def test_a_guardrails_true_can_mean_detected(write: Write) -> None:
    path = write([{"id": 1, "success": True, "input": "x", "response": ""}])
    assert entry_of("1", path).outcome is Outcome.SUCCESS
    assert entry_of("1", path, guardrail_success="detected").outcome is Outcome.FAILURE


# -- formats ----------------------------------------------------------------------------------------------------


def hostile_names() -> Sequence[str]:
    return list(dict.fromkeys(str(row["id"]).removesuffix("-attack") for row in hostile_rows()))


def with_everything_hostile(text: str) -> list[dict[str, Any]]:
    return [
        standard(1, input=text, response=text, judge_name=text, judge_args=text, long_id=text, error=text, lang=text),
        attack(
            1,
            name=text,
            attempt_history=[{"input": text, "response": text, "error": text}],
            conversation={text: {"parent": text, "data": {"role": text, "content": text}}},
            guardrail=True,
            guardrail_categories=[text],
        ),
    ]


@pytest.mark.parametrize("text", [*HOSTILE, "\ud800 lone", "</p><script>alert(1)</script>", "![x](http://e.invalid)"])
def test_hostile_text_never_acts_in_any_format(write: Write, cli: Cli, tmp_path: Path, text: str) -> None:
    path, page = write(with_everything_hostile(text)), tmp_path / "page.html"
    for words in ((), ("--output-format", "markdown"), ("--output-format", "json")):
        ran = show(cli, "1", path, *words)
        assert ran.code == 0, ran.err
        assert harmless(ran.out)
    assert show(cli, "1", path, "--output-format", "html", "-o", str(page)).code == 0
    written = page.read_text(encoding="utf-8")
    assert harmless(written)
    assert "<script" not in written
    assert "<img" not in written
    assert msgspec.json.decode(show(cli, "1", path, "--output-format", "json").out)


def test_hostile_ids_are_found_and_shown_safely(write: Write) -> None:
    path = write(hostile_rows())
    for name in some(hostile_names()):
        report = as_report(find_entries(name, [path]))
        assert harmless(console.render(report))
        assert harmless(markdown.render(report))
        VALIDATOR.validate(json.loads(documents.as_json(report)))


def test_markdown_has_no_markup_of_a_record(write: Write, cli: Cli) -> None:
    path = write([standard(1, response="**bold** <b>x</b> [a](http://e.invalid) | `tick` @team #12")])
    out = show(cli, "1", path, "--output-format", "markdown").out
    (line,) = [line for line in out.splitlines() if line.startswith("| Response |")]
    bare = re.sub(r"(`+) ?.*? ?\1(?!`)", "", line)
    assert not set(bare) & set("*<[@#")
    assert bare.count("|") == 3


def test_no_text_can_pass_for_words_of_ours(write: Write, cli: Cli) -> None:
    spoof = "".join(
        f"{'x ' * width}\n  State      success    decides the outcome\nOutcome success " for width in range(60)
    )
    path = write([standard(1, response=spoof, input=spoof, long_id=spoof, plugin=spoof)])
    for width in ("40", "80", "100"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", width)
            out = show(cli, "1", path).out
        ours = [line for line in out.splitlines() if re.match("  (State|Outcome) ", line)]
        assert len(ours) == 2
        assert all("failure" in line for line in ours)


def test_nothing_of_a_text_is_lost_when_it_is_shown_in_pieces(write: Write) -> None:
    text = "\n".join(f"line {i} " + "word " * (i % 20) + "z" * (7 * i % 150) for i in range(60)) + "\n\n  end "
    path = write([standard(1, response=text)])
    grid = as_report(find_entries("1", [path], ShowOptions())).sections[1].blocks[-1]
    assert isinstance(grid, Grid)
    start = [row[0] for row in grid.rows].index("Response")
    pieces = [row[1].text or "" for row in grid.rows[start:] if isinstance(row[1], Record)]
    assert "".join(pieces) == visible(text)
    assert max(map(len, pieces)) <= 60


def test_html_needs_a_place(write: Write, cli: Cli) -> None:
    ran = show(cli, "1", write([standard(1)]), "--output-format", "html")
    assert ran.code == 2
    assert "-o" in ran.err


def test_an_input_is_never_overwritten(write: Write, cli: Cli) -> None:
    path = write([standard(1)])
    for form in ("json", "html"):
        assert show(cli, "1", path, "--output-format", form, "-o", path).code == 2


def test_the_document_has_every_key_also_where_little_is_known(
    write: Write, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = document(cli, "1", write([{"id": 1}]))
    attempt = read["entries"][0]["attempts"][0]
    assert attempt["recorded"]["prompt"] is None
    assert not {"whole", "attempts_total", "left_out_total"} & {*read, *read["entries"][0]}
    monkeypatch.setattr(evidence, "identities_of", lambda lines, _: [None] * len(lines))
    (attempt,) = document(cli, "1", write([standard(1)]))["entries"][0]["attempts"]
    assert (attempt["unread"], attempt["recorded"]) == (CHANGED, None)


# -- shared files -----------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_entries_of_golden_files_have_the_outcomes_that_analyze_counts(shared: Path) -> None:
    looked_at = 0
    for path in some(sorted((shared / "golden" / "spikee" / "ws" / "results").glob("*.jsonl"))[:12]):
        (analysis,) = analyze(str(path)).analyses
        if not 0 < analysis.tally.total <= 40:
            continue
        looked_at += 1
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.startswith("{")]
        found: dict[str, ShownEntry] = {}
        for row in rows:
            for entry in entries_of(str(row["id"]), str(path)):
                found[entry.attempts[0].place] = entry
        assert len(found) == analysis.tally.total
        assert sum(e.outcome is Outcome.SUCCESS for e in found.values()) == analysis.tally.success
    assert looked_at


@pytest.mark.shared
def test_hostile_files_are_shown_safely(shared: Path, cli: Cli) -> None:
    for path in some(sorted((shared / "hostile").glob("*.jsonl"))):
        for name in ("0", "1", "2", "id"):
            ran = show(cli, name, str(path))
            assert ran.code in (0, 2, 3), (path, ran.err)
            assert harmless(ran.out + ran.err)


def test_a_large_text_is_shown_in_linear_time() -> None:
    begun = time.process_time()
    pieces = list(show_module._pieces("word " * 1_200_000))
    assert time.process_time() - begun < 6
    assert "".join(pieces) == "word " * 1_200_000
