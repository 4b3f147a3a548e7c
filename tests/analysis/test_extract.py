"""`results extract`: which rows are chosen, what becomes of them, and where they go."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.analysis import CATEGORIES, Extraction, ExtractOptions, RowSelection, RowSelector
from faircount.analysis import extract as extract_module
from faircount.core import UsageError
from faircount.query import Condition, CustomSearch, parse
from faircount.readers import Origin, RawReader, Stream, dataset_row, loading, raw_rows
from tests.conftest import ROOT, Cli, Write, analysis_of, attack, encode, interruptible, row, shared_folder, standard

SHARED = shared_folder()
FAIRCOUNT = [sys.executable, "-m", "faircount"]
Row = dict[str, Any]

STATES: dict[str, Row] = {
    "success": standard(1, success=True),
    "failure": standard(2, success=False),
    "error": standard(3, success=False, error="HTTP 503"),
    "empty error": standard(4, success=False, error=""),
    "guardrail": standard(5, success=False, error="blocked", guardrail=True),
    "guardrail alone": standard(6, success=False, guardrail=True),
    "guardrail false": standard(7, success=False, guardrail=False),
    "unjudged": standard(8, success=None),
    "no verdict": {"id": 9, "input": "x", "attack_name": "None"},
    "success with an error": standard(10, success=True, error="late"),
    "success with a block": standard(11, success=True, error="late", guardrail=True),
    "no response": standard(12, success=False, error="No response received"),
    "word": standard(13, success="True"),
    "false word": standard(14, success="false"),
    "error false": standard(15, success=False, error=False),
    "guardrail word": standard(16, success=False, error="blocked", guardrail="yes"),
    "unknown verdict": standard(17, success="maybe"),
}


@pytest.fixture(autouse=True)
def _folder_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every test write its results in a folder of its own."""
    monkeypatch.chdir(tmp_path)


def read(path: str | Path) -> list[Row]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def whole_number(digits: str) -> int | str:
    return int(digits) if len(digits) < 4000 else digits


def extracted(*files: str, **options: Any) -> list[Row]:
    """Return the rows of the new dataset."""
    with Extraction(files, ExtractOptions(**options)) as extraction:
        text = b"".join(piece for pieces in extraction.lines() for piece in pieces)
    return [json.loads(line, parse_int=whole_number) for line in text.splitlines()]


def ids(*files: str, **options: Any) -> list[Any]:
    return [found["original_id"] for found in extracted(*files, **options)]


def chosen_states(write: Write, **options: Any) -> set[str]:
    wanted = set(ids(write(list(STATES.values())), **options))
    return {name for name, state in STATES.items() if state["id"] in wanted}


# -- categories -------------------------------------------------------------------------------------------------

FLAGGED = {"guardrail", "guardrail alone", "success with a block", "guardrail word"}
BY_FAIRCOUNT = {
    "success": {"success", "success with an error", "success with a block", "word"},
    "failure": {"failure", "guardrail false", "no response", "false word", "error false"},
    "error": {"error", "empty error"},
    "errors": {"error", "empty error"},
    "guardrail": {"guardrail", "guardrail alone", "guardrail word"},
    "no-guardrail": set(STATES) - FLAGGED,
}
TRUTHY = BY_FAIRCOUNT["success"] | {"false word", "unknown verdict"}
WITH_ERROR = {"error", "empty error", "guardrail", "guardrail word", "error false"}
BY_SPIKEE = {
    "success": TRUTHY,
    "failure": set(STATES) - TRUTHY,
    "error": WITH_ERROR | {"success with an error", "success with a block"},
    "guardrail": FLAGGED,
    "no-guardrail": set(STATES) - FLAGGED,
}


@pytest.mark.parametrize("category", BY_FAIRCOUNT)
def test_a_category_has_exactly_the_rows_of_its_state(write: Write, category: str) -> None:
    assert chosen_states(write, category=category) == BY_FAIRCOUNT[category]


@pytest.mark.parametrize("category", BY_SPIKEE)
def test_spikees_categories_are_had_on_request(write: Write, category: str) -> None:
    assert chosen_states(write, category=category, definition="spikee") == BY_SPIKEE[category]


@pytest.mark.parametrize("state", STATES)
def test_a_row_is_the_same_alone_and_among_others(write: Write, state: str) -> None:
    """A block of clean rows is read at once, any other line by line."""
    for category, states in BY_FAIRCOUNT.items():
        path = write([STATES[state]], f"results_{category}.jsonl")
        assert bool(ids(path, category=category)) is (state in states)


def test_success_is_the_default(write: Write) -> None:
    assert chosen_states(write) == BY_FAIRCOUNT["success"]


def test_the_command_line_offers_every_category(cli: Cli) -> None:
    choices = re.findall(r"--category \{(.*?)\}", " ".join(cli("results", "extract", "--help").out.split()))
    assert {tuple(found.split(",")) for found in choices} == {CATEGORIES}


# -- queries and terms ------------------------------------------------------------------------------------------

ROWS = [
    standard(1, success=True, response="Café: 100%\nin January", lang="en", meta={"ids": [1, 2.50], "on": True}),
    standard(2, success=False, response="nothing", lang="EN", error="HTTP 503: time-out"),
    attack(2, "goat", success=True, response="January", objective="prompt 2"),
    standard(3, success=False, response="", lang="fr", guardrail=True, error="blocked"),
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("success", [1, "2-attack"]),
        ("lang = en", [1]),
        ('"january"', [1, "2-attack"]),
        ("response contains CAFÉ", [1]),
        ('"2.5"', [1]),
        ('"true"', [1, "2-attack", 3]),
        ("strategy = goat", ["2-attack"]),
        ("strategy = standard and success", [1]),
        ("line > 2", ["2-attack", 3]),
        ('file like "%results_x.jsonl"', [1, 2, "2-attack", 3]),
        ("outcome = success", [1, 2, "2-attack"]),
        ("outcome = guardrail", [3]),
        ("outcome = success and not success", [2]),
        ('row has meta and "january"', [1]),
    ],
)
def test_a_query_chooses_rows(write: Write, query: str, expected: list[Any]) -> None:
    assert ids(write(ROWS), where=query) == expected


def test_spikees_option_ignores_case(write: Write) -> None:
    path = write(ROWS)
    assert ids(path, query="lang = EN") == ids(path, where="lang = EN", ignore_case=True) == [1, 2]
    assert ids(path, where="lang = EN") == [2]


def test_a_category_and_a_query_must_both_hold(write: Write) -> None:
    assert ids(write(ROWS), category="error", where='"503"') == [2]
    assert ids(write(ROWS), category="failure", where='"503"') == []


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (["January"], [1, "2-attack"]),
        (["!January"], [2, 3]),
        (["error:HTTP 503"], [2]),
        (["503: time"], [2]),
        (["!error:HTTP"], [1, "2-attack", 3]),
        (["!lang:en", "!error:HTTP"], ["2-attack", 3]),
        (["100%\nin"], [1]),
        (['"on":true'], [1]),
        (["[1,2.5]"], [1]),
        (["True"], [1, "2-attack", 3]),
        (["nofield:x"], []),
        (["!nofield:x"], [1, 2, "2-attack", 3]),
        (["objective:prompt"], ["2-attack"]),
        (["guardrail:"], [3]),
    ],
)
def test_terms_choose_rows(write: Write, terms: list[str], expected: list[Any]) -> None:
    assert ids(write(ROWS), custom_search=tuple(terms)) == expected


def test_terms_may_ignore_case_or_be_patterns(write: Write) -> None:
    path = write(ROWS)
    assert ids(path, custom_search=("january",)) == []
    assert ids(path, custom_search=("january",), ignore_case=True) == [1, "2-attack"]
    assert ids(path, custom_search=("J.*y$",), regex=True) == [1, "2-attack"]
    assert ids(path, custom_search=("response:j.*y$",), regex=True, ignore_case=True) == [1, "2-attack"]


def test_a_field_of_any_file_makes_a_field_of_every_file(write: Write) -> None:
    first, second = write([standard(1, a="note:x")], "results_1.jsonl"), write([standard(2, note="x")])
    assert ids(first, second, custom_search=("note:x",)) == [2]
    assert ids(first, custom_search=("note:x",)) == [1]


@pytest.mark.parametrize("escaped", [r'{"id": 1, "n\u006fte": "\u0078"}', '{"id": 1, "note": "x", "v": NaN}'])
def test_what_escapes_hide_is_found(write: Write, escaped: str) -> None:
    path = write([escaped])
    assert ids(path, custom_search=("note:x",)) == ids(path, custom_search=("x",)) == [1]
    assert ids(path, where='note contains "x"') == ids(path, where='"x"') == [1]


@pytest.mark.parametrize("text", ["u00e9", "00e9", "0e9x", "nend", "tend"])
def test_parts_of_escapes_are_no_text(write: Write, text: str) -> None:
    path = write([r'{"id": 1, "response": "\u00e9x", "input": "\nend \tend"}', {"id": 2, "response": text}])
    assert ids(path, where=f'"{text}"') == ids(path, custom_search=(text,)) == [2]


TEXTS = st.text(st.sampled_from('aAbnkKéßſİ"\\/\n{}[],:.-+01e5truTRUfalsFN\x1f\u2028😀'), max_size=6)
SCALARS = st.none() | st.booleans() | st.integers(-20, 1005) | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))


@given(
    st.dictionaries(st.sampled_from(["a", "b", "input", "response", "lang"]), VALUES),
    TEXTS.filter(bool),
    st.booleans(),
    st.booleans(),
)
def test_looking_at_the_line_first_never_misses_a_row(values: Row, text: str, escape: bool, ignore_case: bool) -> None:
    line = json.dumps({"id": 1, **values}, ensure_ascii=escape).encode()
    rows = [found for block in RawReader(Stream("x", iter([line])), max_line=10**6).blocks() for found in block]
    quoted = '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
    query = parse(quoted)
    search = CustomSearch((Condition(text),), ignore_case)
    values = json.loads(line)
    for choice, holds in (
        (RowSelection(None, "faircount", query=query), query.matches(values)),
        (RowSelection("custom", "faircount", search=search), search.matches(values)),
    ):
        assert bool(RowSelector(choice, lambda _: {})(rows)) is holds


@pytest.mark.parametrize(
    "query",
    [
        "success",
        "success = true",
        "success != true",
        "success = false and not error exists",
        "error exists",
        'error = "" or guardrail',
        "guardrail = true",
        "attack_name exists",
        "attack_name is null",
        "id < 5 and lang is null",
        "attempts = 1",
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_a_query_sees_the_fields_as_they_are(write: Write, query: str, clean: bool) -> None:
    """Fields of clean rows are taken from where they were decoded already."""
    strict = [one for one in STATES.values() if isinstance(one.get("success"), bool | None)]
    rows = [one for one in strict if one["id"] not in (15, 16)] if clean else list(STATES.values())
    assert ids(write(rows), where=query) == [one["id"] for one in rows if parse(query).matches(one)]


# -- what becomes of a row --------------------------------------------------------------------------------------


def test_a_row_gets_a_new_id_and_says_where_it_comes_from(write: Write) -> None:
    write([standard(5, long_id="case-5", success=True), attack(6, success=True, long_id="case-6-goat")])
    assert extracted("results_x.jsonl") == [
        {
            **standard(5, success=True),
            "id": 1,
            "long_id": "case-5_extracted_results_x",
            "source_file": "results_x.jsonl",
            "result_parent_id": 5,
            "result_origin": "results_x.jsonl",
            "original_id": 5,
            "content": "prompt 5",
        },
        {
            **attack(6, success=True),
            "id": 2,
            "long_id": "case-6-goat_extracted_results_x",
            "source_file": "results_x.jsonl",
            "result_parent_id": "6",
            "result_origin": "results_x.jsonl",
            "original_id": "6-attack",
            "content": "variant",
        },
    ]


def test_an_extract_of_an_extract_still_knows_the_run(write: Write) -> None:
    write([standard(5, long_id="a", success=True), attack(6, success=True)])
    for name, files in (("extract_1.jsonl", ["results_x.jsonl"]), ("extract_2.jsonl", ["extract_1.jsonl"])):
        with Extraction(files) as extraction:
            Path(name).write_bytes(b"".join(piece for pieces in extraction.lines() for piece in pieces))
    first, second = read("extract_2.jsonl")
    assert (first["source_file"], first["original_id"]) == ("extract_1.jsonl", 1)
    assert (first["result_origin"], first["result_parent_id"]) == ("results_x.jsonl", 5)
    assert first["long_id"] == "a_extracted_results_x_extracted_extract_1"
    assert (second["result_origin"], second["result_parent_id"]) == ("results_x.jsonl", "6")
    assert analysis_of("results_x.jsonl", "extract_1.jsonl", "extract_2.jsonl", combine=True).tally.total == 2


def test_what_spikee_091_extracted_keeps_its_origin(write: Write) -> None:
    old = standard(1, success=True, source_file="results/results_a.jsonl", original_id=30)
    (found,) = extracted(write([old], "extract_success_1.jsonl"))
    assert (found["result_origin"], found["result_parent_id"]) == ("results/results_a.jsonl", 30)


def test_null_and_missing_fields_are_filled_in(write: Write) -> None:
    nothing = {"long_id": None, "source_file": None, "result_origin": None, "result_parent_id": None}
    (found,) = extracted(write([{"id": "a", "success": True, **nothing}]))
    assert found["long_id"] == "a_extracted_results_x"
    assert found["result_parent_id"] == "a"
    assert found["result_origin"] == found["source_file"]
    assert "content" not in found


@pytest.mark.parametrize("name", ["content", "text"])
def test_a_prompt_that_has_its_name_already_is_left_alone(write: Write, name: str) -> None:
    (found,) = extracted(write([standard(1, success=True, input="", **{name: "ask"})]))
    assert {key: found.get(key) for key in ("content", "text")} == {"content": None, "text": None} | {name: "ask"}


def test_rows_that_only_their_id_calls_attacks_stay_with_their_entry(write: Write) -> None:
    rows = [row("a", success=False), row("a-attack", success=True), row("b-attack-1", success=True)]
    path = write(rows)
    found = {one["original_id"]: one for one in extracted(path, category="no-guardrail")}
    assert found["a-attack"]["result_parent_id"] == found["a-attack"]["attack_parent_id"] == "a"
    assert found["b-attack-1"]["result_parent_id"] == "b-attack-1"
    assert "attack_parent_id" not in found["b-attack-1"]
    assert ids(path, where='strategy = "(unnamed)"') == ["a-attack"]


VALUES_AS_WRITTEN = [
    b"1.50",
    b"1E5",
    b"12345678901234567890123",
    b"9" * 5000,
    b"1e999",
    b"NaN",
    b"-Infinity",
    rb'"\ud800"',
    rb'"\u00e9 \/ \u000a"',
    '"é \u2028 😀"'.encode(),
    b'[1,  2,{"a" : NaN}]',
    b"{}",
    b'" } , \\" "',
]


@pytest.mark.parametrize("value", VALUES_AS_WRITTEN, ids=lambda value: value[:20])
@pytest.mark.parametrize("space", [b" ", b""])
def test_every_value_stays_byte_for_byte(write: Write, value: bytes, space: bytes) -> None:
    line = b'{"success": true,%b"v":%b%b,"x": 1.0,"id" : 7, "input":%b}' % (space, space, value, value)
    path = write([line])
    with Extraction([path]) as extraction:
        text = b"".join(piece for pieces in extraction.lines() for piece in pieces)
    assert b'"v": ' + value + b", " in text
    assert b'"x": 1.0, "id": 1, "input": ' + value + b", " in text
    assert text.endswith(b'"original_id": 7, "content": ' + value + b"}\n")
    assert ids(write([text.strip()], "extract_1.jsonl")) == [1]


ODD_LINES = [
    b'{"id": 1, "long_id": "a", "success": true, "id": 1}',
    b'{"id": 1, "long_id": "a", "success": true, "long_id": "a"}',
    b'{"id": 1, "long_id": "a", "success": true, "source_file": null}',
    b'{"id": 1, "long_id": "a", "success": true, "meta": {"id": 5}}',
    rb'{"id": 1, "long_id": "a\n", "success": true}',
    b'{"id": "1", "long_id": "a", "success": true, "input_type": "text", "input": "x"}',
    b'{"id": 1, "long_id": "a", "success": true, "input": "x", "attack_name": "goat"}',
    b'{"id": "1-attack", "long_id": "a", "success": true, "input": "x", "attack_name": "goat"}',
    b'{"id": "1-attack", "long_id": "a", "success": true, "input": "x"}',
    b'{"id": 1, "long_id": "a", "success": true, "content_type": "text", "input": "x", "input_type": "image"}',
    b'{"id":1,"long_id":"a","success":true}',
    b'{"id": 1, "long_id": "a", "success": true}\r',
    b'{"id": 1, "long_id": "a", "success": true, "input_type": null, "input": null}',
]


@pytest.mark.parametrize("line", ODD_LINES)
def test_the_quick_way_writes_what_the_thorough_way_writes(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(line)
    origin = Origin("results_é.jsonl", str(tmp_path / "x.jsonl"))
    ((raw,),) = RawReader(Stream("x", iter([line])), max_line=10**6).blocks()
    before, after = raw_rows._rewritten(raw, origin, 10**6)
    splice = raw_rows._splice(raw, origin)
    quick = None if splice is None else raw_rows.spliced(splice, raw.line)
    assert quick is None or json.loads(b"7".join(quick)) == json.loads(before + b"7" + after)
    written = json.loads(b"7".join(dataset_row(raw, origin, 10**6)))
    assert written["id"] == 7
    assert written["long_id"].endswith("_extracted_results_é")


@given(st.dictionaries(st.sampled_from(["long_id", "input", "response", "meta", "note"]), VALUES), st.booleans())
def test_any_row_stays_as_it_was(values: Row, escape: bool) -> None:
    line = json.dumps({"id": 3, **values}, ensure_ascii=escape).encode()
    ((raw,),) = RawReader(Stream("x", iter([line])), max_line=10**6).blocks()
    written = json.loads(b"1".join(dataset_row(raw, Origin("r", "r"), 10**6)))
    kept = {name: value for name, value in values.items() if name != "long_id"}
    assert {name: written[name] for name in kept} == kept
    assert (written["id"], written["original_id"], written["result_parent_id"]) == (1, 3, 3)


# -- entries ----------------------------------------------------------------------------------------------------


def test_entries_bring_all_their_rows(write: Write, cli: Cli) -> None:
    path = write(ROWS)
    assert ids(path, entries=True) == [1, 2, "2-attack"]
    assert ids(path, where="strategy = goat", entries=True) == [2, "2-attack"]
    ran = cli("results", "extract", path, "--entries", "--where", "strategy = goat", "-o", "new.jsonl")
    assert ran.out == "1 of 4 rows (25.0%) matches: extracted all 2 rows of 1 entry to new.jsonl\n"


def test_entries_keep_apart_what_is_apart_and_bring_copies_along(write: Write) -> None:
    first = write([*ROWS, ROWS[2]], "results_1.jsonl")
    second = write([standard(2, success=False, input="another")], "results_2.jsonl")
    found = extracted(first, second, where="strategy = goat", entries=True)
    assert [(one["original_id"], Path(one["source_file"]).name) for one in found] == [
        (2, "results_1.jsonl"),
        ("2-attack", "results_1.jsonl"),
        ("2-attack", "results_1.jsonl"),
    ]


def test_entries_by_spikees_definition(write: Write) -> None:
    rows = [standard(1, input="a", success=True), standard(1, input="b", success=False)]
    path = write(rows)
    assert len(ids(path, entries=True)) == 1
    assert len(ids(path, entries=True, definition="spikee")) == 2
    assert len(ids(path, where="outcome = success")) == 1
    assert len(ids(path, where="outcome = success", definition="spikee")) == 2


def test_no_entry_without_a_matching_row(write: Write) -> None:
    assert ids(write(ROWS), where="lang = xx", entries=True) == []


# -- round trips ------------------------------------------------------------------------------------------------

CASES = [
    *(standard(number, long_id=f"case-{number}", success=number % 3 == 0) for number in range(1, 30)),
    *(attack(number, success=number % 2 == 0, long_id=f"case-{number}-goat") for number in range(1, 30, 4)),
    *(standard(number, success=False, error="HTTP 503") for number in range(30, 40)),
    *(standard(number, success=False, error="blocked", guardrail=True) for number in range(40, 45)),
]


@pytest.mark.parametrize("category", ["success", "failure", "error", "guardrail"])
def test_an_extract_counts_as_its_rows_did(write: Write, cli: Cli, category: str) -> None:
    path = write(CASES)
    cli("results", "extract", path, "--category", category, "-o", "extract_1.jsonl")
    tally = analysis_of("extract_1.jsonl").tally
    wanted = {one["result_parent_id"] for one in read("extract_1.jsonl")}
    assert getattr(tally, category) == tally.total == len({str(number) for number in wanted}) > 0


def test_entries_count_in_the_extract_as_they_did_before(write: Write, cli: Cli) -> None:
    path = write(CASES)
    whole = analysis_of(path).tally
    cli("results", "extract", path, "--where", "outcome = success", "-o", "extract_1.jsonl")
    cli("results", "extract", path, "--entries", "-o", "extract_2.jsonl")
    assert Path("extract_1.jsonl").read_bytes() == Path("extract_2.jsonl").read_bytes()
    part = analysis_of("extract_1.jsonl").tally
    assert part.total == part.success == whole.success
    together = analysis_of(path, "extract_1.jsonl", combine=True).tally
    assert together == whole


# -- files in ---------------------------------------------------------------------------------------------------


def test_files_folders_and_packed_files_are_read_in_their_order(write: Write, cli: Cli, tmp_path: Path) -> None:
    write([standard(1, success=True)], "run/results_b.jsonl")
    write([standard(2, success=True)], "run/results_a.jsonl")
    (tmp_path / "more.jsonl.gz").write_bytes(gzip.compress(encode([standard(3, success=True, long_id="c")])))
    ran = cli("results", "extract", "more.jsonl.gz", "--result-folder", "run", "-o", "new.jsonl")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "Extracted 3 of 3 rows (100.0%) to new.jsonl\n"
    assert [one["original_id"] for one in read("new.jsonl")] == [3, 2, 1]
    assert read("new.jsonl")[0]["long_id"] == "c_extracted_more"
    assert read("new.jsonl")[0]["source_file"] == "more.jsonl.gz"


@pytest.mark.parametrize("words", [[], ["--entries"], ["--category", "custom", "--custom-search", "attempts:1"]])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input(cli: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str], pack: Any) -> None:
    data = pack(encode([standard(1, success=True)]))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert cli("results", "extract", "-", "-o", "new.jsonl", *words).code == 0
    (found,) = read("new.jsonl")
    assert (found["source_file"], found["long_id"]) == ("-", "1_extracted_stdin")


def test_a_pipe_is_read_as_often_as_needed(write: Write) -> None:
    path = write(ROWS)
    command = f"{sys.executable} -m faircount results extract <(cat {path}) --entries -o new.jsonl"
    subprocess.run(["bash", "-c", command], check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
    assert [one["original_id"] for one in read("new.jsonl")] == [1, 2, "2-attack"]


def test_the_same_file_twice_is_read_once(write: Write, cli: Cli) -> None:
    write(ROWS)
    ran = cli("results", "extract", "results_x.jsonl", "./results_x.jsonl", "-o", "new.jsonl")
    assert ran.out == "Extracted 2 of 4 rows (50.0%) to new.jsonl\n"
    assert ran.err == "faircount: F007 ./results_x.jsonl: the same file as results_x.jsonl, read once\n"


def test_damaged_lines_are_told_and_left_out(write: Write, cli: Cli) -> None:
    write([standard(1, success=True), '{"id": 2', "", "[]", "{}", *['{"id": 3'] * 4])
    ran = cli("results", "extract", "results_x.jsonl", "-o", "new.jsonl")
    assert (ran.code, ran.out) == (0, "Extracted 1 of 1 row (100.0%) to new.jsonl\n")
    assert ran.err.splitlines() == [
        "faircount: F001 5 lines could not be read and were skipped: torn: the line ends in the middle of a value; "
        "results_x.jsonl:2, results_x.jsonl:6, results_x.jsonl:7 and 2 more",
        "faircount: F001 1 line could not be read and was skipped: not a JSON object but a list; results_x.jsonl:4",
        "faircount: F001 1 line could not be read and was skipped: no id; results_x.jsonl:5",
    ]
    strict = cli("results", "extract", "results_x.jsonl", "-o", "strict.jsonl", "--strict")
    assert strict.code == 3
    assert strict.err.endswith("faircount: --strict: some input could not be read, see above\n")
    assert len(read("strict.jsonl")) == 1


def test_long_lines_are_left_out(write: Write, cli: Cli) -> None:
    write([standard(1, success=True), standard(2, success=True, note="x" * 1000)])
    ran = cli("results", "extract", "results_x.jsonl", "-o", "new.jsonl", "--max-line", "500")
    assert "1 line could not be read and was skipped: longer than 500 bytes; results_x.jsonl:2" in ran.err
    assert len(read("new.jsonl")) == 1


def test_a_packed_file_that_breaks_off_is_told(cli: Cli, tmp_path: Path) -> None:
    rows = [standard(number, success=True, note=os.urandom(400).hex()) for number in range(400)]
    data = gzip.compress(encode(rows))
    (tmp_path / "x.jsonl.gz").write_bytes(data[: len(data) // 2])
    ran = cli("results", "extract", "x.jsonl.gz", "-o", "new.jsonl", "--strict")
    assert ran.code == 3
    assert "faircount: F002 x.jsonl.gz: the gzip stream ends before its end mark: the rest is missing" in ran.err


@pytest.mark.parametrize("words", [[], ["--entries"]])
def test_a_file_without_a_good_line_ends_with_3_and_no_file(write: Write, cli: Cli, words: list[str]) -> None:
    write(["x", "y"])
    write([standard(1, success=True)], "results_good.jsonl")
    ran = cli("results", "extract", "results_good.jsonl", "results_x.jsonl", *words)
    assert ran.code == 3
    assert ran.err.startswith(
        "faircount: results_x.jsonl: cannot read any of its 2 lines as a spikee result; most often"
    )
    assert not Path("results").exists()


@pytest.mark.parametrize("words", [[], ["--entries"], ["--custom-search", "a:b"]])
def test_a_file_without_lines_gives_a_file_without_lines(write: Write, cli: Cli, words: list[str]) -> None:
    write([])
    ran = cli("results", "extract", "results_x.jsonl", "-o", "new.jsonl", *words)
    assert (ran.code, ran.out) == (0, "No rows were read: new.jsonl is empty\n")
    assert Path("new.jsonl").read_bytes() == b""


@pytest.mark.shared
@pytest.mark.skipif(SHARED is None, reason="the shared files are not here (FAIRCOUNT_SHARED or ../shared)")
@pytest.mark.parametrize("path", sorted((SHARED or ROOT).glob("hostile/*.jsonl")), ids=lambda path: path.name)
def test_hostile_files_are_extracted_as_they_are_counted(path: Path, cli: Cli) -> None:
    ran = cli("results", "extract", str(path), "--category", "no-guardrail", "-o", "new.jsonl")
    assert ran.code == 0
    before = analysis_of(str(path))
    after = analysis_of("new.jsonl")
    assert after.tally == before.tally
    assert after.sources[0].good_lines == before.sources[0].good_lines
    assert after.sources[0].bad_lines == 0
    assert ("F001" in ran.err) is bool(before.sources[0].bad_lines)
    assert not re.search(r"[^\n -~…“”’é]", ran.out + ran.err)
    for query in ('"x"', "outcome = success", "not success"):
        assert cli("results", "extract", str(path), "--where", query).code == 0
    assert cli("results", "extract", str(path), "--custom-search", "success:true", "--entries").code == 0


# -- files out --------------------------------------------------------------------------------------------------


def test_the_default_name_is_spikees(write: Write, cli: Cli) -> None:
    path = write(ROWS)
    for words, name in (
        ([], "extract_success"),
        (["--category", "errors", "--tag", "a-b_1"], "extract_error_a-b_1"),
        (["--category", "no-guardrail"], "extract_no-guardrail"),
        (["--custom-search", "x"], "extract_custom"),
        (["--query", "success"], "extract_sfl"),
        (["--where", "success"], "extract_where"),
        (["--where", "success", "--category", "failure"], "extract_failure"),
    ):
        ran = cli("results", "extract", path, *words)
        assert re.search(rf" results/{name}_[0-9]+(_[0-9]+)?\.jsonl( is empty)?\n$", ran.out), ran.out


def test_no_match_is_said_and_leaves_an_empty_file(write: Write, cli: Cli) -> None:
    write(ROWS)
    ran = cli("results", "extract", "results_x.jsonl", "--where", "lang = xx", "-o", "new.jsonl")
    assert (ran.code, ran.out) == (0, "None of 4 rows matches: new.jsonl is empty\n")
    assert Path("new.jsonl").read_bytes() == b""


def test_nothing_is_overwritten_unless_that_is_wished(write: Write, cli: Cli) -> None:
    write(ROWS)
    Path("new.jsonl").write_text("precious")
    ran = cli("results", "extract", "results_x.jsonl", "-o", "new.jsonl")
    assert ran.code == 2
    assert ran.err == "faircount: new.jsonl: already exists; overwrite it with --force, or name another file with -o\n"
    assert Path("new.jsonl").read_text() == "precious"
    assert cli("results", "extract", "results_x.jsonl", "-o", "new.jsonl", "--force").code == 0
    assert len(read("new.jsonl")) == 2
    assert sorted(path.name for path in Path().iterdir()) == ["new.jsonl", "results_x.jsonl"]


def test_an_input_is_never_replaced(write: Write, cli: Cli) -> None:
    write(ROWS)
    ran = cli("results", "extract", "results_x.jsonl", "-o", "./results_x.jsonl", "--force")
    assert (ran.code, "is an input" in ran.err) == (2, True)
    assert len(read("results_x.jsonl")) == 4


def test_a_file_that_turns_up_in_the_meantime_is_not_overwritten(
    write: Write, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = Extraction.lines

    def slow(self: Extraction) -> Any:
        yield from lines(self)
        Path("new.jsonl").write_text("precious")

    monkeypatch.setattr(Extraction, "lines", slow)
    write(ROWS)
    assert cli("results", "extract", "results_x.jsonl", "-o", "new.jsonl").code == 2
    assert Path("new.jsonl").read_text() == "precious"
    assert sorted(path.name for path in Path().iterdir()) == ["new.jsonl", "results_x.jsonl"]


def test_two_in_one_second_do_not_collide(write: Write, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    write(ROWS)
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.5)
    outs = [cli("results", "extract", "results_x.jsonl", "--where", f"id = {number}").out for number in (1, 2, 3)]
    names = ["extract_where_1800000000.jsonl", "extract_where_1800000000_2.jsonl", "extract_where_1800000000_3.jsonl"]
    assert [out.split("results/")[-1].strip() for out in outs] == names
    assert [read(Path("results") / name)[0]["original_id"] for name in names] == [1, 2, 3]


def test_processes_at_the_same_moment_do_not_collide(write: Write) -> None:
    path = write(ROWS)
    command = [*FAIRCOUNT, "results", "extract", path]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outs = {process.communicate()[0] for process in running}
    assert len(outs) == len(list(Path("results").iterdir())) == 4
    assert {len(read(path)) for path in Path("results").iterdir()} == {2}


def test_a_file_system_without_links_will_do(write: Write, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    write(ROWS)
    assert cli("results", "extract", "results_x.jsonl", "-o", "new.jsonl").code == 0
    assert len(read("new.jsonl")) == 2
    assert cli("results", "extract", "results_x.jsonl", "-o", "new.jsonl").code == 2


@pytest.mark.parametrize("output", [["-o", "new.jsonl"], []])
def test_an_interruption_leaves_nothing(write: Write, tmp_path: Path, output: list[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    write(ROWS)
    command = [*FAIRCOUNT, "results", "extract", "results_x.jsonl", "pipe", *output]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=interruptible)
    with (tmp_path / "pipe").open("w") as pipe:
        pipe.write("{")
        pipe.flush()
        assert _interrupted(process) == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe", "results_x.jsonl"]


def _interrupted(process: subprocess.Popen[bytes]) -> int:
    """Interrupt a process and return its exit code; what comes just before it begins to wait is not heard by it."""
    for _ in range(10):
        process.send_signal(signal.SIGINT)
        try:
            return process.wait(5)
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    return process.wait()


def test_what_fails_halfway_leaves_nothing(write: Write, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Extraction) -> Any:
        yield [b"half a line"]
        raise KeyboardInterrupt

    monkeypatch.setattr(Extraction, "lines", broken)
    write(ROWS)
    assert cli("results", "extract", "results_x.jsonl").code == 130
    assert cli("results", "extract", "results_x.jsonl", "-o", "new.jsonl").code == 130
    assert [path.name for path in Path().iterdir()] == ["results_x.jsonl"]


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("nowhere/new.jsonl", "nowhere/new.jsonl: cannot be written: No such"),
        (".", ".: is a folder; name a file"),
        ("pipe", "pipe: is not a regular file"),
    ],
)
def test_a_place_that_cannot_be_written_to_is_told(write: Write, cli: Cli, output: str, says: str) -> None:
    write(ROWS)
    os.mkfifo("pipe")
    for words in ([], ["--force"]):
        ran = cli("results", "extract", "results_x.jsonl", "-o", output, *words)
        assert (ran.code, says in ran.err) == (2, True)


def test_a_new_file_has_the_usual_permissions(write: Write, cli: Cli) -> None:
    write(ROWS)
    cli("results", "extract", "results_x.jsonl", "-o", "new.jsonl")
    Path("usual").touch()
    assert Path("new.jsonl").stat().st_mode == Path("usual").stat().st_mode


# -- wrong words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--category", "custom"], "--category custom needs a term"),
        (["--category", "failure", "--custom-search", "x"], "goes with --category custom, not with failure"),
        (["--where", "a", "--query", "b"], "--query is spikee's word for --where"),
        (["--regex"], "--regex is about the terms of --custom-search"),
        (["--ignore-case"], "--ignore-case is about --where and --custom-search"),
        (["--tag", "a/b"], "--tag a/b: use 1 to 50 letters, digits, - and _"),
        (["--tag", "x", "-o", "y"], "--tag is part of the default file name"),
        (["--force"], "--force needs -o"),
        (["-o", "-"], "the new dataset needs a file"),
        (["--max-line", "0"], "--max-line must be 1 or more"),
        (["--category", "unjudged"], "invalid choice: 'unjudged'"),
        (["--custom-search", ""], "expected a text to search for"),
    ],
)
def test_wrong_words_are_answered_with_exit_code_2(write: Write, cli: Cli, words: list[str], says: str) -> None:
    write(ROWS)
    ran = cli("results", "extract", "results_x.jsonl", *words)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err
    assert [path.name for path in Path().iterdir()] == ["results_x.jsonl"]


def test_no_file_is_told(cli: Cli) -> None:
    assert "no result file given" in cli("results", "extract").err


def test_the_library_checks_its_options() -> None:
    with pytest.raises(UsageError, match="category must be one of"):
        ExtractOptions(category="x")
    with pytest.raises(UsageError, match="definition must be one of"):
        ExtractOptions(definition="x")


def test_a_query_that_is_not_understood_is_shown_with_a_mark(write: Write, cli: Cli) -> None:
    write(ROWS)
    ran = cli("results", "extract", "results_x.jsonl", "--where", 'response contain "\x1b[31m"')
    assert ran.code == 2
    assert ran.err.splitlines() == [
        "faircount: the query cannot be parsed at character 10: expected an operator, found “contain”",
        '  response contain "\\x1b[31m"',
        "           ^",
        "  Did you mean contains?",
    ]


def test_a_name_with_a_line_break_stays_on_one_line(cli: Cli) -> None:
    ran = cli("results", "extract", "no\nfaircount: all is well")
    assert ran.err == "faircount: no\\nfaircount: all is well: no such file\n"


# -- several processes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [[], ["--where", '"HTTP"'], ["--where", "strategy = goat"], ["--entries"]])
def test_several_processes_give_what_one_gives(write: Write, words: list[str]) -> None:
    damaged = [line for number in range(40) for line in (*CASES, f'{{"id": {number}')]
    path = write(damaged)
    outputs = []
    for size in (1000, 10**9):
        script = (
            "import faircount.readers.loading as loading, faircount.analysis.extract as extracting\n"
            f"loading.PARALLEL_FROM_BYTES = {size}\n"
            "loading.RANGE_BYTES = extracting.RANGE_BYTES = 10_000\n"
            "loading.os.cpu_count = lambda: 3\n"
            "from faircount.app.cli import main\n"
            f"main(['results', 'extract', {path!r}, '-o', 'new.jsonl', '--force', *{words!r}])\n"
        )
        ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        outputs.append((ran.stdout, ran.stderr, Path("new.jsonl").read_bytes()))
    assert outputs[0] == outputs[1]
    assert "F001 40 lines" in outputs[0][1]
    assert len(outputs[0][2]) > 1000


def test_one_process_reads_where_no_others_can_be_started(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PARALLEL_FROM_BYTES", 1)
    monkeypatch.setattr(extract_module, "start_method", lambda: None)
    assert ids(write(ROWS)) == [1, "2-attack"]
