"""What people really write is read; what cannot be read is counted and named; nothing crashes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from faircount.core import Notes, Outcome, Source
from faircount.io import lenient_json, streams
from faircount.ledger import FACET, WITH_WORDS, Batch, Kind, Tables, kind_of, lexicon_of, word_of
from faircount.readers import (
    FACETS,
    BadLine,
    Cleaner,
    ReadOptions,
    Row,
    RowDecoder,
    RowLines,
    SpikeeReader,
    Stream,
    describe,
    spikee,
)
from tests.conftest import Write, analysis_of, attack, codes, encode, standard


def source_of(reader: RowLines) -> Source:
    return SpikeeReader().source(reader.found, reader.stream.bytes_read)


def read(*lines: dict[str, Any] | str | bytes, **options: Any) -> tuple[list[dict[str, Any]], RowLines]:
    """Return the rows of a file as dictionaries of columns and facets, and its reader."""
    reader = RowLines(Stream("f", iter([encode(lines)])), ReadOptions(**options))
    rows: list[dict[str, Any]] = []
    for batch in reader.batches():
        missing = dict.fromkeys(FACETS)
        for values in rows_in("attempt", batch):
            values["own_id"] = values["own_id"] or values["parent_id"]
            rows.append(missing | values)
    return rows, reader


def rows_in(name: str, batch: Batch) -> list[dict[str, Any]]:
    """Return the rows of a table of a batch with words for their numbers, and None for nothing."""
    tables = batch.tables()
    columns = {
        column.removeprefix(FACET): [meant(name, column, number, tables) for number in numbers]
        for column, numbers in tables.numbers[name].items()
    }
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def meant(name: str, column: str, number: Any, tables: Tables) -> Any:
    kind = kind_of(name, column)
    if column == "state":
        return list(Outcome)[number].value
    if kind in WITH_WORDS:
        return word_of(number, tables.words[lexicon_of(column)])
    if kind == Kind.FLAG:
        return {1: True, 0: False, -1: None}[number]
    return None if (kind == Kind.NUMBER and number != number) or (kind == Kind.CHECKSUM and number == 0) else number


# -- lines ------------------------------------------------------------------------------------------------------

BAD_LINES = {
    "torn": ('{"id": 1, "success": tr', "torn"),
    "torn in a text": ('{"id": 1, "response": "abc', "torn"),
    "not JSON": ("{id: 1}", "not JSON"),
    "two values": ('{"id": 1} {"id": 2}', "more than one value"),
    "a list": ("[1, 2]", "not a JSON object but a list"),
    "a number": ("17", "not a JSON object but a number"),
    "null": ("null", "not a JSON object but null"),
    "no id": ('{"success": true}', "no id"),
    "id null": ('{"id": null}', "no id"),
    "id of the wrong kind": ('{"id": [1]}', "neither a string nor a number"),
    "raw escape": (b'{"id": 1, "response": "a\x1b[31m"}', "raw control character"),
    "raw NUL": (b'{"id": 1, "response": "a\x00b"}', "raw control character"),
    "not UTF-8": (b'{"id": 1, "response": "\xff\xfe"}', "not UTF-8"),
    "not UTF-8 in a key": (b'{"id": 1, "\xff": 1}', "not UTF-8"),
    "too deep": ('{"id": 1, "response": ' + "[" * 200 + "]" * 200 + "}", "nested more than 128"),
    "far too deep": ('{"id": 1, "x": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested more than 128"),
}


@pytest.mark.parametrize(("line", "reason"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_bad_line_is_named_with_its_place_and_the_good_ones_count(line: str | bytes, reason: str) -> None:
    rows, reader = read(standard(1), line, standard(2))
    assert [row["own_id"] for row in rows] == ["1", "2"]
    source = source_of(reader)
    assert (source.lines, source.good_lines, source.bad_lines) == (3, 2, 1)
    ((noted, count),) = list(reader.notes.subjects("F001"))
    assert reason in noted
    assert count == 1
    assert reader.notes.where("F001") == ["f:2"]


def test_an_overlong_line_is_a_bad_line() -> None:
    rows, reader = read(standard(1), standard(2, response="x" * 500), standard(3), max_line=300)
    assert [row["own_id"] for row in rows] == ["1", "3"]
    assert next(reader.notes.subjects("F001"))[0] == "longer than 300 bytes"


GOOD_LINES: dict[str, str | bytes] = {
    "carriage return": '{"id": 7, "success": true}\r',
    "indented": '   {"id": 7, "success": true}  ',
    "NaN": '{"id": 7, "success": true, "response_time": NaN}',
    "Infinity": '{"id": 7, "success": true, "meta": {"x": -Infinity}}',
    "lone surrogate": '{"id": 7, "success": true, "response": "a\\ud800b"}',
    "lone surrogate in a facet": '{"id": 7, "success": true, "plugin": "a\\ud800b"}',
    "duplicate key": '{"id": 7, "success": false, "success": true}',
    "separator inside text": '{"id": 7, "success": true, "response": "a\u2028b"}'.encode(),
    "escaped NUL": '{"id": 7, "success": true, "response": "a\\u0000b"}',
    "emoji": '{"id": 7, "success": true, "response": "😀"}'.encode(),
    "huge number": '{"id": 7, "success": true, "meta": 1' + "0" * 400 + "}",
    "digits beyond the interpreter": '{"id": 7, "success": true, "meta": ' + "9" * 6000 + "}",
}


@pytest.mark.parametrize("line", GOOD_LINES.values(), ids=GOOD_LINES.keys())
def test_what_people_write_is_read(line: str | bytes) -> None:
    rows, reader = read(line)
    assert source_of(reader).bad_lines == 0
    assert [(row["own_id"], row["decision"]) for row in rows] == [("7", True)]


def test_huge_ids_are_kept_exactly() -> None:
    rows, _ = read('{"id": 100000000000000000000000001}', '{"id": ' + "9" * 5000 + "}")
    assert rows[0]["own_id"] == "100000000000000000000000001"
    assert rows[1]["own_id"] == "9" * 5000


def test_blank_lines_are_no_rows_and_no_fault() -> None:
    rows, reader = read(standard(1), "", "   \t", standard(2))
    source = source_of(reader)
    assert len(rows) == 2
    assert (source.bad_lines, source.blank_lines, source.lines) == (0, 2, 4)


@pytest.mark.parametrize("rows", [1, 300], ids=["line by line", "at once"])
@pytest.mark.parametrize(
    "line",
    [
        '{"id": 1, "success": false, "\\u0073uccess": true, "response": "r"}',
        '{"id": 1, "\\u0073uccess": true, "success": false, "response": "r"}',
        '{"id": 1, "succ\\u0065ss": true, "succes\\u0073": false, "response": "r"}',
        '{"\\u0069d": 2, "id": 1, "success": false, "response": "r"}',
    ],
)
def test_a_key_that_is_there_twice_is_found_however_it_is_spelled(write: Write, line: str, rows: int) -> None:
    found = analysis_of(write([line, *(standard(n + 10) for n in range(rows))]))
    assert codes(found)["F011"] == 1
    plain = '{"id": 1, "success": true, "response": "\\u0073uccess \\u0069d"}'
    assert "F011" not in codes(analysis_of(write([plain, *(standard(n + 10) for n in range(rows))])))


def test_changes_of_meaning_are_noted() -> None:
    _, reader = read(
        '{"id": 1, "success": true, "success": false}',
        '{"id": 2, "success": NaN}',
        '{"id": 3, "id": 4}',
        '{"id": 5, "plugin": "\\ud800"}',
        '{"id": 6, "success": true, "success": true}',
    )
    assert {code for code, _ in reader.notes.counts} == {"F011", "F012", "F004", "F025"}
    assert sorted(subject for subject, _ in reader.notes.subjects("F011")) == ["id", "success"]
    assert reader.notes.where("F011") == ["f:1", "f:3"]


def test_the_keys_of_a_history_are_not_taken_for_doubled_keys() -> None:
    history = [{"success": False, "error": None, "id": 1}, {"success": True, "error": None, "id": 2}]
    _, reader = read(attack(1, attempt_history=history), standard(2, response={"success": 1, "id": 3}))
    assert not reader.notes.total("F011")


# -- fields -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "meant", "code"),
    [
        (True, True, None),
        (False, False, None),
        (1, True, None),
        (0, False, None),
        (1.0, True, None),
        (None, None, None),
        ("true", True, "F003"),
        ("False", False, "F003"),
        (" YES ", True, "F003"),
        ("no", False, "F003"),
        ("1", True, "F003"),
        ("maybe", None, "F004"),
        (2, None, "F004"),
        ([], None, "F004"),
        ("", None, "F004"),
    ],
)
def test_verdicts_are_understood_or_left_unjudged(written: object, meant: bool | None, code: str | None) -> None:
    rows, reader = read(standard(1, success=written))
    assert rows[0]["decision"] is meant
    assert rows[0]["truthy"] is bool(written)
    assert [noted for noted, _ in reader.notes.counts] == ([code] if code else [])


@pytest.mark.parametrize(
    ("written", "meant", "noted"),
    [(3, 3, False), (0, 0, False), (2.0, 2, False), (None, 1, True), ("4", 4, True), (2.5, 1, True), (-1, 1, True),
     (True, 1, True), (10**30, 1, True), ("x", 1, True)],
)  # fmt: skip
def test_attempts_are_counts(written: object, meant: int, noted: bool) -> None:
    rows, reader = read(standard(1) | {"attempts": written})
    assert rows[0]["requests"] == meant
    assert bool(reader.notes.total("F013")) is noted


def test_missing_attempts_count_as_one() -> None:
    rows, reader = read({"id": 1, "success": True})
    assert rows[0]["requests"] == 1
    assert not reader.notes.counts


@pytest.mark.parametrize("written", [-1, "soon", 10**310, True, [1]])
def test_a_response_time_that_is_none_is_not_recorded(written: object) -> None:
    rows, reader = read(standard(1, response_time=written))
    assert rows[0]["response_time"] is None
    assert reader.notes.total("F027") == 1


def test_not_a_number_is_missing_wherever_it_stands() -> None:
    fields = ("error", "attack_name", "attack_parent_id", "original_id", "result_parent_id", "lang", "response_time")
    rows, reader = read(*(f'{{"id": 7, "success": false, "{field}": NaN}}' for field in fields))
    for row in rows:
        assert (row["state"], row["mark"], row["parent_id"], row["lang"], row["response_time"]) == (
            "failure", 0, "7", None, None,
        )  # fmt: skip
    assert [code for code, _ in reader.notes.counts] == ["F012"]
    assert next(read('{"id": NaN}')[1].notes.subjects("F001"))[0] == "no id"


@pytest.mark.parametrize("value", [False, 0, ["x"], {"a": 1}])
def test_an_attack_name_that_is_no_text_is_noted(value: object) -> None:
    rows, reader = read(standard(1, attack_name=value))
    assert rows[0]["mark"] == (1 if value else 0)
    assert reader.notes.total("F027") == 1


def test_a_whole_number_with_a_point_is_the_same_id() -> None:
    rows, _ = read('{"id": 1.0}', '{"id": 1.5}')
    assert [row["own_id"] for row in rows] == ["1", "1.5"]


def test_a_doubled_key_is_found_whatever_the_other_lines_hold() -> None:
    line = '{"id": 1, "success": false, "success": true}'
    for other in ('{"id": 2}', "", '{"id": 2, "response": "x"}'):
        assert read(line, other)[1].notes.where("F011") == ["f:1"]


def test_a_success_with_an_error_or_a_block_is_noted() -> None:
    _, reader = read(
        standard(1, success=True, error="x"),
        standard(2, success=True, guardrail=True),
        standard(3, success=True, error="No response received"),
    )
    assert reader.notes.where("F021") == ["f:1", "f:2"]


def test_the_prompt_may_stand_under_other_names() -> None:
    rows, _ = read('{"id": 1, "input": null, "content": "a"}', '{"id": 1, "content": "a"}', '{"id": 1, "text": "a"}')
    assert len({row["text_hash"] for row in rows}) == 1


def test_learning_a_field_does_not_change_what_a_row_is() -> None:
    line = '{"id": 1, "success": true, "input": "caf\\u00e9", "response": "x", "zz": 1}'
    rows, _ = read(line, line)
    first, second = rows
    assert {**first, "line": 0} == {**second, "line": 0}


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({"success": True}, "success"),
        ({"success": False}, "failure"),
        ({"success": None}, "unjudged"),
        ({"success": False, "error": "boom"}, "error"),
        ({"success": False, "error": ""}, "error"),
        ({"success": False, "error": "No response received"}, "failure"),
        ({"success": False, "error": "blocked", "guardrail": True}, "guardrail"),
        ({"success": None, "guardrail": True}, "guardrail"),
        ({"success": None, "guardrail": False}, "unjudged"),
        ({"success": True, "error": "boom"}, "success"),
        ({"success": True, "guardrail": True, "error": "x"}, "success"),
    ],
)
def test_a_row_has_one_state(values: dict[str, Any], state: str) -> None:
    rows, _ = read(standard(1) | values)
    assert rows[0]["state"] == state


@pytest.mark.parametrize(
    ("values", "mark", "parent", "name"),
    [
        ({"id": 5, "attack_name": "None"}, 0, "5", None),
        ({"id": "5-attack", "attack_name": "goat"}, 1, "5", "goat"),
        ({"id": "pre-attack", "attack_name": "None"}, 0, "pre-attack", None),
        ({"id": "pre-attack-attack", "attack_name": "spikee.attacks.best_of_n"}, 1, "pre-attack", "best_of_n"),
        ({"id": "5-attack-3", "attack_name": "goat"}, 1, "5", "goat"),
        ({"id": "5-attack"}, 2, "5", None),
        ({"id": 9, "attack_parent_id": 4, "attack_name": "x"}, 1, "4", "x"),
        ({"id": 3, "original_id": "7-attack", "attack_name": "goat"}, 1, "7", "goat"),
        ({"id": 3, "original_id": 7, "result_parent_id": 6, "attack_name": "None"}, 0, "6", None),
        ({"id": 3, "attack_name": ""}, 0, "3", None),
    ],
)
def test_rows_name_their_entry(values: dict[str, Any], mark: int, parent: str, name: str | None) -> None:
    rows, _ = read({"success": False, **values})
    assert (rows[0]["mark"], rows[0]["parent_id"], rows[0]["attack"]) == (mark, parent, name)


def test_facets_are_text_and_structures_become_their_json() -> None:
    rows, _ = read(standard(1, plugin=["a", "b"], lang=7, position=True, suffix_id=None, task_type={"a": 1}))
    assert [rows[0][name] for name in ("plugin", "lang", "position", "suffix_id", "task_type")] == [
        '["a","b"]', "7", "true", None, '{"a":1}',
    ]  # fmt: skip


def test_unknown_fields_are_kept_as_facets() -> None:
    rows, reader = read(
        standard(1), standard(2, team="red", weight=2.5), standard(3, team="blue", nested={"x": 1}), standard(4)
    )
    assert [row["team"] for row in rows] == [None, "red", "blue", None]
    assert [row["weight"] for row in rows] == [None, "2.5", None, None]
    assert [row.get("nested") for row in rows] == [None, None, None, None]
    assert not reader.notes.counts


def test_more_unknown_fields_than_are_kept_are_noted_and_harmless() -> None:
    rows, reader = read(*(standard(i, **{f"field{j}": "x" for j in range(i * 20)}) for i in range(4)))
    assert len(rows) == 4
    assert len([name for name in rows[3] if name.startswith("field")]) == 32
    assert reader.notes.where("F023") == ["f:3", "f:4"]


@pytest.mark.parametrize("name", ["a\x1b[31m", 'a"b', "a\\b", "a\ud800", "\u202e"])
def test_an_oddly_named_field_is_no_facet_and_no_crash(name: str) -> None:
    rows, reader = read(standard(1, **{name: "x"}), standard(2, team="red"), standard(3, **{name: "y"}))
    assert [row["team"] for row in rows] == [None, "red", None]
    assert reader.notes.where("F023") == ["f:1", "f:3"]


def test_histories_are_counted_by_state_and_kind() -> None:
    history = [
        {"success": None, "error": "Guardrail was triggered by the target: policy 3"},
        {"success": None, "error": "HTTP 503 after 12 s"},
        {"success": None, "error": "HTTP 503 after 99 s"},
        {"success": False, "error": None},
        {"success": True, "error": None},
    ]
    reader = RowLines(Stream("f", iter([encode([attack(1, attempt_history=history)])])))
    (batch,) = reader.batches()
    rows = [tuple(row.values()) for row in rows_in("history", batch)]
    assert sorted(rows, key=lambda item: item[4]) == [
        (1, "guardrail", None, 1, 1),
        (1, "error", "HTTP 503 after # s", 2, 2),
        (1, "failure", None, 1, 4),
        (1, "success", None, 1, 5),
    ]


@pytest.mark.parametrize("odd", ['"score": NaN', '"input": "\\ud800"', '"guardrail": "x"'])
def test_an_odd_item_does_not_cost_the_history(odd: str) -> None:
    line = f'{{"id": "1-attack", "attack_name": "b", "attempt_history": [{{"success": 0, "error": false, {odd}}}]}}'
    (batch,) = RowLines(Stream("f", iter([line.encode() + b"\n"]))).batches()
    assert [tuple(row.values()) for row in rows_in("history", batch)] == [(1, "failure", None, 1, 1)]


@pytest.mark.parametrize("history", [17, "text", {"a": 1}, [1, 2], [{"success": "x"}], None, []])
def test_a_strange_history_is_no_crash(history: object) -> None:
    rows, _ = read(attack(1, attempt_history=history))
    assert len(rows) == 1


@pytest.mark.parametrize(
    ("categories", "named"),
    [
        ({"a": True, "b": False, "c": "yes", "d": 0, "e": 1}, ["a", "c", "e"]),
        (["a", "b", "a"], ["a", "b"]),
        ("text", []),
        (None, []),
        ([str(n) for n in range(100)], [str(n) for n in range(100)]),
        ([str(n) for n in range(101)], [*(str(n) for n in range(100)), "(more than 100 named at once)"]),
    ],
)
def test_guardrail_categories_are_those_with_a_true_value(categories: object, named: list[str]) -> None:
    lines = [standard(1) | {"guardrail": True, "error": "x", "guardrail_categories": categories}]
    (batch,) = RowLines(Stream("f", iter([encode(lines)]))).batches()
    assert [row["category"] for row in rows_in("category", batch)] == named


@pytest.mark.parametrize(
    ("values", "version"),
    [
        ({}, "0.1"),
        ({"attack_name": "None"}, "0.2"),
        ({"attack_name": "None", "judge_name": "canary"}, "0.3 or later"),
        ({"attack_name": "None", "judge_name": "canary", "input_type": "text"}, "0.8 or later"),
        ({"attack_name": "x", "attempt_history": []}, "0.9.2 or later"),
    ],
)
def test_the_version_is_guessed_from_the_fields(values: dict[str, Any], version: str) -> None:
    _, reader = read({"id": 1, "success": True, **values})
    assert source_of(reader).tool_version == version


# -- errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("HTTP 503 upstream timeout (code 3)", "HTTP 503 upstream timeout (code #)"),
        ("timed out after 30.5 s", "timed out after # s"),
        ("request 550e8400-e29b-41d4-a716-446655440000 failed", "request # failed"),
        ("first line\nsecond line 17", "first line"),
        ("", "(no text)"),
        ("bad\x1b[31m", "bad\\x1b[#m"),
    ],
)
def test_errors_that_differ_in_numbers_only_are_of_one_kind(error: str, kind: str) -> None:
    assert describe(error)[1] == kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (
            "Error code: 429 - {'error': {'message': 'You exceeded your current quota, please check your plan.', "
            "'type': 'insufficient_quota', 'param': None, 'code': 'insufficient_quota'}}",
            "429 insufficient_quota: You exceeded your current quota, please check your plan.",
        ),
        (
            "openai.BadRequestError: Error code: 400 - {'error': {'message': \"It's \\\\ too long\", 'code': None}}",
            "400: It's \\ too long",
        ),
        (
            'Error: 400 {"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 9 > 8"}}',
            "400 invalid_request_error: max_tokens: # > #",
        ),
        (
            "429 RESOURCE_EXHAUSTED. {'error': {'code': 429, 'message': 'Quota exceeded.\\nSee x', 'status': "
            "'RESOURCE_EXHAUSTED'}}",
            "429 RESOURCE_EXHAUSTED: Quota exceeded. See x",
        ),
        ("Error code: 404 - {'detail': 'Not Found'}", "404: Not Found"),
        ("judge: Error code: 500 - {'error': {'message': 'oops', 'code': 'x_y'}}", "judge: 500 x_y: oops"),
        ("Error code: 500 - {'error': {'message': 'cut off in the mid", "500: cut off in the mid"),
        ("Error code: 502 - Bad Gateway", "502: Bad Gateway"),
        (
            "An error occurred (ThrottlingException) when calling the InvokeModel operation (reached max retries: 4): "
            "Too many requests, please wait before trying again.",
            "ThrottlingException: Too many requests, please wait before trying again.",
        ),
        (
            "litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached",
            "RateLimitError: Rate limit reached",
        ),
        ("openai.APIConnectionError: Connection error.", "APIConnectionError: Connection error."),
        ("status: http://127.0.0.1:8000/v1: the server answered with status 503: overloaded", "503: overloaded"),
        ("ValueError: {}", "ValueError: {}"),
        ("{'message': ''}", "{'message': ''}"),
    ],
)
def test_a_kind_of_error_begins_with_the_words_that_distinguish_it(error: str, kind: str) -> None:
    assert describe(error)[1] == kind
    assert describe(error)[0].startswith(error[:14])


def test_errors_are_of_one_kind_whatever_varies_in_the_message_of_the_provider() -> None:
    said = "Error code: 429 - {{'error': {{'message': 'Used {0} of 30000. Try again in {0} ms.', 'code': 'tokens'}}}}"
    assert {describe(said.format(used))[1] for used in (17, 29876)} == {"429 tokens: Used # of #. Try again in # ms."}


@pytest.mark.parametrize(
    "piece",
    [
        "{'message': '",
        "'message': '\\",
        '{"error":"',
        "-----BEGIN ",
        "An error occurred (",
        "aA.Error: ",
        "a: http://x: ",
    ],
)
def test_a_long_error_is_described_in_no_time(piece: str) -> None:
    began = time.perf_counter()
    shown, kind = describe(piece * (1_000_000 // len(piece)))
    assert time.perf_counter() - began < 0.5
    assert len(shown) <= 300 and len(kind) <= 120


@pytest.mark.parametrize("before", [0, 3980, 3990, 3999])
def test_a_secret_is_masked_in_the_words_of_a_provider_and_where_an_error_is_cut(before: int) -> None:
    secret = "sk-abcdefghijklmnopqrstuvwxyz"
    for error in ("x" * before + f"{{'message': 'bad key {secret}'}}", " " * before + secret):
        assert all("ijkl" not in text for text in describe(error + "y" * 5000))


def test_secrets_never_enter_the_ledger() -> None:
    rows, _ = read(standard(1) | {"error": "401: Bearer sk-abcdefghijklmnopqrstuvwxyz refused"})
    assert "mnopqrstuvwxyz" not in json.dumps(rows[0])


# -- anything ---------------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
field_names = st.sampled_from([*Row.__struct_fields__, "unknown", "unknown_0"])


@given(st.dictionaries(field_names, json_values))
@example({"id": 1, "success": "\ud800", "plugin": "\ud800", "error": "\ud800", "attempt_history": ["\ud800"]})
@example({"id": 1, "guardrail": True, "guardrail_categories": {"\ud800": 1}})
def test_no_row_of_any_shape_breaks_the_reader(values: dict[str, Any]) -> None:
    line = json.dumps(values)
    rows, reader = read(line, standard(2))
    source = source_of(reader)
    assert source.good_lines + source.bad_lines == 2
    assert rows[-1]["own_id"] == "2"
    for row in rows:
        json.dumps(row).encode("utf-8")
        for value in row.values():
            if isinstance(value, str):
                value.encode("utf-8")


@given(st.binary())
def test_no_bytes_break_the_reader(data: bytes) -> None:
    reader = RowLines(Stream("f", iter([data])))
    rows = sum(len(batch) for batch in reader.batches())
    source = source_of(reader)
    assert rows == source.good_lines
    assert source.good_lines + source.bad_lines + source.blank_lines == source.lines


@given(st.text())
def test_loose_parsing_agrees_with_the_standard_parser(text: str) -> None:
    line = json.dumps({"id": text}).encode()
    assert lenient_json.parse(line)[0] == {"id": text}


def test_the_fast_and_the_careful_way_agree_on_clean_rows() -> None:
    line = json.dumps(standard(3, plugin="p", response_time=0.5, guardrail=False, error=None)).encode()
    decoder = RowDecoder(Notes("f"))
    fast, careful = decoder.fast(line, 1), decoder.careful(line, 1)
    assert fast == careful


def test_a_cleaner_gives_up_on_what_has_no_meaning() -> None:
    notes = Notes("f")
    cleaner = Cleaner(notes)
    assert cleaner.seconds("response_time", "soon") is None
    assert cleaner.flag("guardrail", "perhaps") is None
    assert cleaner.error(False) is None
    assert cleaner.error({"code": 5}) == '{"code":5}'
    assert notes.total("F027") == 4


def test_depth_is_measured_outside_of_texts() -> None:
    assert lenient_json.depth(b'{"a": "' + b"[" * 500 + b'"}') == 1
    assert lenient_json.depth(b"[" * 200 + b"]" * 200) == 200
    with pytest.raises(BadLine, match="deep"):
        lenient_json.parse(b"[" * 200 + b"]" * 200)


def test_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spikee, "BATCH_ROWS", 10)
    monkeypatch.setattr(streams, "BLOCK_BYTES", 200)
    lines = encode(standard(i) for i in range(35)).splitlines(keepends=True)
    reader = RowLines(Stream("f", iter(lines)))
    sizes = [len(batch) for batch in reader.batches()]
    assert sum(sizes) == 35
    assert max(sizes) <= 11


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [("good", 10, 0), ("badline", 9, 1), ("badutf8", 9, 1), ("bigint", 10, 0), ("blank", 10, 0), ("bom", 10, 0),
     ("crlf", 10, 0), ("deep", 9, 1), ("dupkey", 10, 0), ("int5000", 10, 0), ("mixed", 10, 0), ("nan", 10, 0),
     ("no_final_newline", 10, 0), ("nonobj", 9, 1), ("nul", 10, 0), ("rawctl", 9, 1), ("surrogate", 10, 0),
     ("trunc", 9, 1), ("u2028", 10, 0)],
)  # fmt: skip
def test_the_hostile_files_are_read(shared: Path, name: str, good: int, bad: int) -> None:
    analysis = analysis_of(str(shared / "hostile" / f"{name}.jsonl"))
    (source,) = analysis.sources
    assert (source.good_lines, source.bad_lines) == (good, bad)
    assert analysis.tally.total == good
    assert ("F001" in codes(analysis)) is bool(bad)


def test_every_byte_prefix_of_a_file_is_read_without_loss() -> None:
    whole = encode([standard(1, success=True), standard(2, plugin="é"), attack(2, success=True)])
    for end in range(len(whole) + 1):
        reader = RowLines(Stream("f", iter([whole[:end]])))
        for _ in reader.batches():
            pass
        source = source_of(reader)
        complete = whole[:end].count(b"\n")
        assert source.good_lines in (complete, complete + 1)
        assert source.good_lines + source.bad_lines == complete + bool(whole[:end].rpartition(b"\n")[2].strip())


def test_a_number_with_more_digits_than_python_reads_is_kept_as_its_digits(write: Write) -> None:
    digits = "9" * 5000
    lines = [
        f'{{"id": 1, "success": true, "n": {digits}}}',
        f'{{"id": 2, "success": true, "attempt_history": [{digits}]}}',
    ]
    analysis = analysis_of(write(lines))
    assert analysis.tally.success == 2
    assert analysis.breakdowns["n"][0].value == digits
