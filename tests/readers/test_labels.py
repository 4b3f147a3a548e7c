"""Labelled data as people keep it: which columns are taken, what a label means, and what becomes of damage."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import re
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.analysis import balanced
from faircount.core import InputError, UsageError
from faircount.io import ID_NAMES
from faircount.judges import Attempt, Decision, Expected, ToolCall, Turn
from faircount.readers import (
    HIT_WORDS,
    KEY_NAMES,
    LABEL_NAMES,
    LATE_LABEL_NAMES,
    PASS_WORDS,
    PROMPT_NAMES,
    RATINGS_NAMES,
    TEXT_NAMES,
    UNRATED_WORDS,
    Columns,
    DataProblemKind,
    Labelled,
    LabelOptions,
    Labels,
    read_labels,
    saved_row,
)
from tests.conftest import ROOT, Write, encode, some

HIT, PASS = Decision.HIT, Decision.PASS
SHARED_LABELS = (
    "pyrit_exploits.csv",
    "pyrit_mini_refusal.csv",
    "pyrit_privacy.csv",
    "pyrit_refusal.csv",
    "ratings_three_raters.csv",
)


def write_text(folder: Path, text: str | bytes, name: str = "labels.csv") -> str:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def labels_in(path: str, **options: Any) -> Labels:
    return read_labels([path], LabelOptions(**options))


def said(labels: Labels) -> list[Decision | None]:
    return [labelled.label for labelled in labels]


def doubted(labels: Labels) -> dict[DataProblemKind, int]:
    counts: dict[DataProblemKind, int] = {}
    for doubt in labels.problems:
        counts[doubt.kind] = counts.get(doubt.kind, 0) + doubt.count
    return counts


def places(labels: Labels, kind: DataProblemKind) -> list[int]:
    return [int(place.rpartition(":")[2]) for doubt in labels.problems if doubt.kind is kind for place in doubt.places]


# -- published files --------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize("name", SHARED_LABELS[:4])
def test_files_of_pyrit_are_read_as_they_are(shared: Path, name: str) -> None:
    path = shared / "data" / "labelled" / name
    table = pandas.read_csv(path, comment=None, skiprows=1)
    labels = labels_in(str(path))
    items = list(labels)
    assert [item.label for item in items] == [HIT if score == 1 else PASS for score in table["human_score"]]
    assert [item.attempt.response for item in items] == list(table["assistant_response"])
    assert [item.attempt.prompt for item in items] == list(table["objective"])
    (source,) = labels.sources
    assert (source.good, source.bad, source.unlabelled, source.ties) == (len(table), 0, 0, 0)
    assert (source.hits, source.passes) == tuple((table["human_score"] == value).sum() for value in (1, 0))
    assert source.lines == path.read_bytes().count(b"\n") + (not path.read_bytes().endswith(b"\n"))
    assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert source.columns.guessed == ("labels", "text", "prompt")


@pytest.mark.shared
@pytest.mark.parametrize("name", SHARED_LABELS)
def test_the_place_of_an_item_is_the_line_where_its_record_begins(shared: Path, name: str) -> None:
    path = shared / "data" / "labelled" / name
    with path.open(encoding="utf-8", newline="") as file:
        comments = 1 if name.startswith("pyrit") else 0
        for _ in range(comments):
            file.readline()
        reader = csv.reader(file)
        next(reader)
        begins, last = [], reader.line_num
        for _ in reader:
            begins.append(comments + last + 1)
            last = reader.line_num
    assert [item.place for item in labels_in(str(path))] == [f"{path}:{line}" for line in begins]


@pytest.mark.shared
def test_a_file_of_ratings_alone_is_read_for_agreement(shared: Path) -> None:
    path = shared / "data" / "labelled" / "ratings_three_raters.csv"
    table = pandas.read_csv(path)
    labels = labels_in(str(path))
    items = list(labels)
    raters = ["rater_1", "rater_2", "rater_3"]
    hits = (table[raters] >= 0.5).sum(axis=1)
    assert not labels.has_text
    assert [item.label for item in items] == [HIT if count >= 2 else PASS for count in hits]
    assert [item.item for item in items] == [str(item) for item in table["item"]]
    assert [tuple(name for name, _ in item.ratings) for item in items] == [tuple(raters)] * len(table)
    assert all(item.attempt.response is None for item in items)
    scored = ((table[raters] > 0) & (table[raters] < 1)).any(axis=1).sum()
    assert (labels.sources[0].scores, labels.sources[0].no_text) == (scored, len(table))


@pytest.mark.shared
def test_hostile_files_are_read_without_a_crash(shared: Path) -> None:
    for path in some(sorted((shared / "hostile").glob("*.jsonl"))):
        labels = labels_in(str(path), label_column=("success",))
        items = list(labels)
        (source,) = labels.sources
        assert source.good == len(items) == source.hits + source.passes + source.ties + source.unlabelled
        assert source.good + source.bad + source.blank == source.lines
        assert 9 <= source.good <= 10
        assert doubted(labels).get(DataProblemKind.BAD_LINE, 0) == source.bad
        for item in some(items):
            assert json.loads(saved_row(item))["item"] == item.item
        with pytest.raises(UsageError, match=r"--label-column.*id, success, response"):
            labels_in(str(path))


@pytest.mark.shared
def test_hostile_files_called_csv_are_refused_or_read_but_never_crash(shared: Path, tmp_path: Path) -> None:
    for path in sorted((shared / "hostile").glob("*.jsonl")):
        copy = write_text(tmp_path, path.read_bytes(), f"{path.stem}.csv")
        with pytest.raises((UsageError, InputError)):
            list(labels_in(copy))


# -- columns ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        ("response,label", Columns(("label",), "response")),
        ("Prompt,Response,Is Hit", Columns(("Is Hit",), "Response", "Prompt")),
        ("id,question,answer,HUMAN-SCORE", Columns(("HUMAN-SCORE",), "answer", "question", "id")),
        ("uuid,item,text,gold", Columns(("gold",), "text", None, "item")),
        ("conversation_id,content,output,truth", Columns(("truth",), "output", None, "conversation_id")),
        ("text,human_score_1,human_score_2", Columns(("human_score_1", "human_score_2"), "text")),
        ("text,annotator_ann,annotator_bob,annotator_id", Columns(("annotator_ann", "annotator_bob"), "text")),
        ("text,rater_1,rater_2,rater_notes", Columns(("rater_1", "rater_2"), "text")),
        ("response,label,rater_1,rater_2", Columns(("label",), "response")),
        ("response,expected,label", Columns(("label",), "response")),
        ("response,expected", Columns(("expected",), "response")),
        ("resPonse,response,label,LABEL,proMpt,prompt", Columns(("label",), "response", "prompt")),
    ],
)
def test_columns_are_taken_by_their_names(tmp_path: Path, header: str, taken: Columns) -> None:
    path = write_text(tmp_path, header + "\n")
    ((name, columns),) = labels_in(path).columns
    assert name == path
    assert (columns.labels, columns.text, columns.prompt, columns.item) == (
        taken.labels,
        taken.text,
        taken.prompt,
        taken.item,
    )


@pytest.mark.parametrize(
    ("header", "options", "sentence"),
    [
        ("response,output,label", {}, r"several columns .*response, output; name one with --text-column"),
        ("prompt,objective,text,label", {}, r"several columns .*prompt, objective; name one with --prompt-column"),
        ("text,label,hit", {}, r"several columns .*label, hit; name one with --label-column"),
        ("text,label,label", {}, r"several columns .*label, label; name one with --label-column"),
        ("text,rater_1,human_score_1", {}, r"several columns .*--label-column"),
        ("reply,label", {}, r"no column that contains the responses; .*--text-column.*reply, label"),
        ("text,verdict", {}, r"no column that contains labels; .*--label-column.*text, verdict"),
        ("text,label", {"label_column": ("gold",)}, r"no column gold \(--label-column\).*text, label"),
        ("text,label", {"text_column": "body"}, r"no column body \(--text-column\)"),
        ("text,a b,a-b,label", {"prompt_column": "a_b"}, r"several columns .*a b, a-b; name one with --prompt-column"),
        ("te\x1b[2Jxt,verdict", {}, r"te\\x1b\[2Jxt"),
    ],
)
def test_a_guess_that_cannot_be_made_names_the_option(
    tmp_path: Path, header: str, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        labels_in(write_text(tmp_path, header + "\nx,1\n"), **options)


def test_columns_that_are_named_need_no_guess(tmp_path: Path) -> None:
    path = write_text(tmp_path, "reply,output,Ann,bob,nr\nyes!,no,1,0,7\nwell,no,1,1,8\n")
    labels = labels_in(path, text_column="reply", label_column=("ann", "bob"), id_column="NR", prompt_column="output")
    first, second = labels
    assert first == Labelled("7", f"{path}:2", Attempt("yes!", "no"), (("Ann", HIT), ("bob", PASS)), None)
    assert (second.item, second.label) == ("8", HIT)
    assert labels.sources[0].columns.guessed == ()


def test_columns_can_be_named_by_their_roles_at_once(tmp_path: Path) -> None:
    path = write_text(tmp_path, "reply,output,verdict,nr\nyes!,no,1,7\n")
    labels = labels_in(path, map=("response=reply,label=verdict,id=nr", "prompt="))
    assert list(labels) == [Labelled("7", f"{path}:2", Attempt("yes!"), (("verdict", HIT),), HIT)]
    assert labels.sources[0].columns.guessed == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"map": ("text=reply",), "text_column": "reply"}, "--map text=reply: another option names this column"),
        ({"map": ("answer=reply",)}, "the roles are text, prompt, label, id"),
        ({"map": ("reply",)}, "--map reply: give ROLE=COLUMN"),
    ],
)
def test_roles_that_make_no_sense_are_refused(tmp_path: Path, options: Any, message: str) -> None:
    path = write_text(tmp_path, "reply,verdict\nyes!,1\n")
    with pytest.raises(UsageError, match=re.escape(message)):
        labels_in(path, **options)


def test_a_name_that_only_later_records_have_can_be_named(write: Write) -> None:
    early = [{"response": f"r{number}"} for number in range(1500)]
    path = write([*early, {"response": "late", "verdict": 1}], "l.jsonl")
    assert said(labels_in(path, label_column=("verdict",)))[-1] is HIT


def test_responses_may_be_missing_where_nobody_needs_them(tmp_path: Path) -> None:
    path = write_text(tmp_path, "item,category,rater_1,rater_2\n1,x,1,1\n")
    with pytest.raises(UsageError, match="--text-column"):
        labels_in(path)
    (item,) = labels_in(path, text_needed=False)
    assert (item.attempt.response, item.label) == (None, HIT)


def test_an_item_without_an_id_is_called_by_its_place(tmp_path: Path) -> None:
    path = write_text(tmp_path, "id,text,label\n,a,1\nx,b,0\n")
    assert [item.item for item in labels_in(path)] == [f"{path}:2", "x"]


# -- labels -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "decision"),
    [
        (["hit", "Hit ", "TRUE", "t", "yes", "Y", "1", "1.0", "positive", "success", "0.5", "0.75", True, 1, 0.5], HIT),
        (["pass", "false", "F", "no", "n", "0", "0.0", "negative", "failure", "0.49", ".25", False, 0, 0.1], PASS),
        (["", "  ", "NA", "n/a", "nan", "None", "null", "unresolved", None], None),
    ],
)
def test_what_people_write_as_a_label(write: Write, values: list[Any], decision: Decision | None) -> None:
    labels = labels_in(write([{"response": f"{n}", "label": value} for n, value in enumerate(values)], "l.jsonl"))
    assert said(labels) == [decision] * len(values)
    assert labels.problems == ()
    assert labels.sources[0].bad_labels == 0


@pytest.mark.parametrize(
    "value", ["maybe", "2", "-1", "1,5", "fail", 2, 1e300, "1e999", [], {}, [["x"]], "x" * 99, "١"]
)
def test_anything_else_is_a_bad_label_and_other_records_still_count(write: Write, value: Any) -> None:
    labels = labels_in(write([{"response": "a", "label": value}, {"response": "b", "label": 1}], "l.jsonl"))
    assert said(labels) == [None, HIT]
    bad = 0 if value in ([], {}) else 1
    assert (labels.sources[0].unlabelled, labels.sources[0].bad_labels) == (1, bad)
    assert places(labels, DataProblemKind.BAD_LABEL) == [1] * bad


def test_a_score_beyond_one_needs_a_threshold(tmp_path: Path) -> None:
    path = write_text(tmp_path, "text,label\na,1\nb,2\nc,3\nd,true\ne,false\nf,hit\n")
    without, threshold = labels_in(path), labels_in(path, label_threshold=2)
    assert said(without) == [HIT, None, None, HIT, PASS, HIT]
    assert "--label-threshold" in without.problems[0].reason
    assert said(threshold) == [PASS, HIT, HIT, HIT, PASS, HIT]
    assert (threshold.sources[0].scores, threshold.problems) == (3, ())


def test_true_and_one_are_told_apart_by_a_threshold(write: Write) -> None:
    values: list[Any] = [True, 1, 1.0, "1", False, 0, 5]
    path = write([{"response": f"{n}", "label": value} for n, value in enumerate(values)], "l.jsonl")
    assert said(labels_in(path, label_threshold=3)) == [HIT, PASS, PASS, PASS, PASS, PASS, HIT]


@given(
    scores=st.lists(st.floats(-5, 5), min_size=1, max_size=20),
    threshold=st.floats(-5, 5),
)
def test_a_score_is_a_hit_from_the_threshold_on(
    tmp_path_factory: pytest.TempPathFactory, scores: list[float], threshold: float
) -> None:
    path = tmp_path_factory.mktemp("scores") / "l.jsonl"
    path.write_bytes(encode({"response": "r", "label": score} for score in scores))
    assert said(labels_in(str(path), label_threshold=threshold)) == [Decision.of(s >= threshold) for s in scores]


@pytest.mark.parametrize("threshold", [float("nan"), float("inf")])
def test_a_threshold_is_a_number(tmp_path: Path, threshold: float) -> None:
    with pytest.raises(UsageError, match="--label-threshold"):
        labels_in(write_text(tmp_path, "text,label\n"), label_threshold=threshold)


def test_labels_can_mean_the_opposite(tmp_path: Path) -> None:
    path = write_text(tmp_path, "text,rater_1,rater_2,rater_3\na,1,0,1\nb,0,0,NA\nc,,,\n")
    labels = labels_in(path, invert_labels=True)
    assert said(labels) == [PASS, HIT, None]
    assert next(iter(labels)).ratings == (("rater_1", PASS), ("rater_2", HIT), ("rater_3", PASS))


def test_raters_decide_together_and_a_tie_is_shown(tmp_path: Path) -> None:
    rows = ["1,1,0", "0,NA,0", "1,0,n/a", "NA,NA,1", ",,", "1,maybe,1", "0,0,1"]
    path = write_text(tmp_path, "text,r1,r2,r3\n" + "".join(f"t{n},{row}\n" for n, row in enumerate(rows)))
    labels = labels_in(path, label_column=("r1", "r2", "r3"))
    assert said(labels) == [HIT, PASS, None, HIT, None, None, PASS]
    (source,) = labels.sources
    assert (source.hits, source.passes, source.ties, source.unlabelled, source.bad_labels) == (2, 2, 1, 2, 1)
    assert places(labels, DataProblemKind.TIE) == [4]
    assert places(labels, DataProblemKind.BAD_LABEL) == [7]
    assert list(labels)[5].ratings == (("r1", HIT), ("r2", None), ("r3", HIT))


def test_ratings_may_be_a_list_or_an_object(write: Write) -> None:
    rows = [{"ann": 1, "bob": "pass", "cy": True}, [1, 0, None], [], 1, {"ann": "so-so"}]
    labels = labels_in(write([{"text": f"{n}", "ratings": value} for n, value in enumerate(rows)], "l.jsonl"))
    items = list(labels)
    assert [item.label for item in items] == [HIT, None, None, HIT, None]
    assert items[0].ratings == (("ann", HIT), ("bob", PASS), ("cy", HIT))
    assert items[1].ratings == (("ratings_1", HIT), ("ratings_2", PASS), ("ratings_3", None))
    assert (labels.sources[0].ties, labels.sources[0].bad_labels) == (1, 1)


# -- CSV --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "delimiter"), [("l.csv", ","), ("l.csv", ";"), ("l.csv", "\t"), ("l.tsv", "\t"), ("l.txt", ";")]
)
def test_the_header_tells_what_parts_the_columns(tmp_path: Path, name: str, delimiter: str) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerows([["id", "text", "label"], ["1", 'a, b; "c"\td\ne', "1"], ["2", "", "0"]])
    first, second = labels_in(write_text(tmp_path, text.getvalue(), name))
    assert (first.attempt.response, first.label) == ('a, b; "c"\td\ne', HIT)
    assert (second.attempt.response, second.label, second.place[-2:]) == ("", PASS, ":4")


def test_comments_marks_and_empty_lines_are_no_records(tmp_path: Path) -> None:
    text = "\ufeff# version=1,,\n\n# more\ntext,label\r\n# not a comment,1\r\n\r\n,\r\nb,0,,\r\n"
    labels = labels_in(write_text(tmp_path, text))
    assert [(item.attempt.response, item.place[-2:]) for item in labels] == [("# not a comment", ":5"), ("b", ":8")]
    (source,) = labels.sources
    assert (source.lines, source.good, source.bad, source.blank) == (8, 2, 0, 5)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"just one", "1 field, but the header has 2"),
        (b"a,1,and more", "3 fields, but the header has 2"),
        (b'"a"b,1', "text after the closing quote of a field"),
        (b"caf\xe9,1", "not UTF-8"),
        (b"x" * 2000 + b",1", "a record longer than 1000 characters; is a quote never closed?"),
    ],
)
def test_a_bad_record_is_reported_and_the_next_one_is_read(tmp_path: Path, record: bytes, reason: str) -> None:
    path = write_text(tmp_path, b"text,label\nfirst,1\n" + record + b"\nlast,0\n")
    labels = labels_in(path, max_line=1000)
    assert [(item.attempt.response, item.label) for item in labels] == [("first", HIT), ("last", PASS)]
    assert [(doubt.kind, doubt.reason, doubt.places) for doubt in labels.problems] == [
        (DataProblemKind.BAD_LINE, reason, (f"{path}:3",))
    ]
    assert (labels.sources[0].good, labels.sources[0].bad) == (2, 1)


def test_a_quote_that_is_never_closed_is_reported_where_it_opens(tmp_path: Path) -> None:
    labels = labels_in(write_text(tmp_path, 'text,label\na,1\n"b,0\nc,1\nd,1\n'))
    assert said(labels) == [HIT]
    assert places(labels, DataProblemKind.BAD_LINE) == [3]
    assert labels.problems[0].reason == "a quote is never closed"


def test_a_record_that_does_not_end_takes_no_more_than_the_limit(tmp_path: Path) -> None:
    lines = ["text,label", '"open', *['x","y'] * 5000, 'end"', "good,1"]
    labels = labels_in(write_text(tmp_path, "\n".join(lines) + "\n"), max_line=2000)
    items = list(labels)
    assert items[-1].label is HIT
    assert labels.sources[0].lines == len(lines)
    assert labels.sources[0].bad > 1


def test_fields_may_be_longer_than_the_parser_allows_by_itself(tmp_path: Path) -> None:
    text = "x" * 500_000
    (item,) = labels_in(write_text(tmp_path, f"text,label\n{text},1\n"))
    assert item.attempt.response == text


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# only\n", b"caf\xe9,label\n", b'"text\n'])
def test_a_file_without_a_header_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match=r"labels\.csv"):
        labels_in(write_text(tmp_path, content))


def test_a_file_without_records_is_refused(tmp_path: Path) -> None:
    labels = labels_in(write_text(tmp_path, "text,label\nonly one field\n"))
    with pytest.raises(InputError, match=r"no readable items; .*:2: 1 field, but the header has 2"):
        list(labels)


# -- JSONL ------------------------------------------------------------------------------------------------------


def test_a_record_of_jsonl_says_more_of_an_attempt(write: Write) -> None:
    record = {
        "response": "r",
        "prompt": "p",
        "label": "hit",
        "conversation": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None}],
        "tools_called": [
            {"name": "f", "arguments": {"x": 1}},
            {"type": "function", "function": {"name": "g", "arguments": "{}"}},
            "h",
        ],
        "context": ["c1", "c2"],
        "expected_output": "e",
        "expected_tools": [],
        "response_time": 1.5,
        "judge_args": "CANARY",
        "triggers": ["a", "b"],
    }
    (item,) = labels_in(write([record], "l.jsonl"))
    assert item.attempt == Attempt(
        response="r",
        prompt="p",
        conversation=(Turn("user", "hi"), Turn("assistant", "")),
        tools_called=(ToolCall("f", '{"x": 1}'), ToolCall("g"), ToolCall("h")),
        context=("c1", "c2"),
        expected=Expected("e", ()),
        latency=1.5,
        notes={"judge_args": "CANARY", "triggers": ["a", "b"]},
    )


NOTES = {"triggers": ["a", "b"], "repeat_word": "poem", "terms": {"x": 1}}


def test_notes_are_columns_of_their_own_or_one_column_of_json(write: Write, tmp_path: Path) -> None:
    by_column = {f"notes.{name}": value for name, value in NOTES.items()}
    assert [
        item.attempt.notes for item in labels_in(write([{"response": "r", "label": 1, **by_column}], "a.jsonl"))
    ] == [NOTES]
    whole = {"response": "r", "label": 1, "notes": {**NOTES, "triggers": "x"}, "triggers": ["a", "b"]}
    assert [item.attempt.notes for item in labels_in(write([whole], "b.jsonl"))] == [NOTES]
    cells = {name: value if isinstance(value, str) else json.dumps(value) for name, value in by_column.items()}
    for header, row in ((["response", "label", *cells], ["r", 1, *cells.values()]),
                        (["response", "label", "notes"], ["r", 1, json.dumps(NOTES)])):  # fmt: skip
        table = io.StringIO()
        csv.writer(table).writerows([header, row])
        labels = labels_in(write_text(tmp_path, table.getvalue(), "c.csv"))
        assert [item.attempt.notes for item in labels] == [NOTES]
        assert labels.problems == ()


@pytest.mark.parametrize("text", ["looks fine to me", "[sic]", "1"])
def test_a_remark_is_no_note(tmp_path: Path, text: str) -> None:
    labels = labels_in(write_text(tmp_path, f"response,label,notes\nr,1,{text}\n", "l.csv"))
    assert [item.attempt for item in labels] == [Attempt("r")]
    assert labels.problems == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"notes": "{torn"},
        {"notes": ["a"]},
        {"conversation": "hello"},
        {"conversation": [{"content": "no role"}]},
        {"conversation": ["text"]},
        {"tools_called": {"name": "f"}},
        {"tools_called": [{"arguments": "{}"}]},
        {"tools_called": [7]},
        {"tools_called": [{"name": "f", "arguments": [1]}]},
        {"context": [1]},
        {"expected_output": {"x": 1}},
        {"latency": "soon"},
        {"latency": -1},
        {"latency": True},
        {"prompt": {"x": 1}},
    ],
)
def test_a_field_of_the_wrong_shape_is_left_out_and_noted(write: Write, fields: dict[str, Any]) -> None:
    labels = labels_in(write([{"response": "r", "label": 1, **fields}], "l.jsonl"))
    (item,) = labels
    assert item.attempt == Attempt("r")
    (doubt,) = labels.problems
    assert (doubt.kind, doubt.reason) == (DataProblemKind.WRONG_KIND, next(iter(fields)))


@pytest.mark.parametrize(
    ("value", "text", "doubts"),
    [("", "", 0), (None, None, 0), (12, "12", 0), (True, None, 1), (["a"], None, 1), ({"a": 1}, None, 1)],
)
def test_what_is_no_text_is_no_response(write: Write, value: Any, text: str | None, doubts: int) -> None:
    labels = labels_in(write([{"response": value, "label": 1}, {"response": "x", "label": 0}], "l.jsonl"))
    first, _ = labels
    assert first.attempt.response == text
    assert labels.sources[0].no_text == (text is None)
    assert len(labels.problems) == doubts


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"response": "x", "label": 1', "torn: the line ends in the middle of a value"),
        (b'{"response": "x", "label": 1}{"response": "y", "label": 1}', "more than one value on the line"),
        (b'{"response": "x"}{"label": 1}', "more than one value on the line"),
        (b'["response"]', "not a JSON object but a list"),
        (b'{"response": "\xff", "label": 1}', "not UTF-8"),
        (b'{"response": "x", "other": "\xff", "label": 1}', "not UTF-8"),
        (b'{"label": 0, "response": "x", "label": 1}', "the key label appears twice, with different values"),
        (b'{"response": "x", "label": 1, "o": ' + b"[" * 200 + b"]" * 200 + b"}", "nested more than 128 levels deep"),
        (b'{"response": "' + b"x" * 70_000 + b'", "label": 1}', "longer than 65,000 bytes"),
    ],
)
@pytest.mark.parametrize("among", [1, 3000])
def test_a_bad_line_is_reported_whatever_stands_around_it(write: Write, line: bytes, reason: str, among: int) -> None:
    def good(number: int) -> dict[str, Any]:
        return {"response": f"r{number}", "label": number % 2}

    path = write([*map(good, range(among)), line, *map(good, range(among, 2 * among))], "l.jsonl")
    labels = labels_in(path, max_line=65_000)
    assert [item.attempt.response for item in labels] == [f"r{number}" for number in range(2 * among)]
    (doubt,) = labels.problems
    assert doubt.kind is DataProblemKind.BAD_LINE
    assert doubt.reason.startswith(reason)
    assert doubt.places == (f"{path}:{among + 1}",)
    (source,) = labels.sources
    assert (source.lines, source.good, source.bad, source.hits) == (2 * among + 1, 2 * among, 1, among)


def test_half_characters_are_replaced_so_that_everything_can_be_written(write: Write) -> None:
    labels = labels_in(write(['{"response": "a\\ud83d", "label": 1, "judge_args": {"x": ["\\udc00"]}}'], "l.jsonl"))
    (item,) = labels
    assert (item.attempt.response, item.attempt.notes) == ("a\ufffd", {"judge_args": {"x": ["\ufffd"]}})
    assert doubted(labels) == {DataProblemKind.CHANGED_TEXT: 1}


def test_a_key_inside_a_field_is_not_the_key_of_the_record(write: Write) -> None:
    row = {"response": "r", "conversation": [{"role": "user", "content": "c", "label": 0}], "label": 1}
    assert said(labels_in(write([row] * 3, "l.jsonl"))) == [HIT] * 3


def test_comments_blank_lines_and_windows_line_ends_are_fine(write: Write) -> None:
    good = '{"response": "r", "label": 1}'
    labels = labels_in(write(["# about", "", f"{good}\r", "\r", good, "# late"], "l.jsonl"))
    assert [item.place[-2:] for item in labels] == [":3", ":5"]
    (source,) = labels.sources
    assert (source.lines, source.good, source.bad, source.blank) == (6, 2, 1, 3)


def test_jsonl_is_known_by_what_it_holds(tmp_path: Path) -> None:
    row = '{"response": "r", "label": 1}\n'
    assert said(labels_in(write_text(tmp_path, row * 2, "labels.txt"))) == [HIT, HIT]
    assert said(labels_in(write_text(tmp_path, f"[{row}]", "labels.json"))) == [HIT]
    assert said(labels_in(write_text(tmp_path, row * 2, "labels.csv"))) == [HIT, HIT]
    with pytest.raises(InputError, match="no line is a JSON object"):
        labels_in(write_text(tmp_path, "text,label\na,1\n", "labels.jsonl"))


@pytest.mark.parametrize("name", ["l.csv.gz", "l.jsonl.gz"])
def test_packed_files_are_read_and_an_early_end_is_noted(tmp_path: Path, name: str) -> None:
    rows = [(f"r{number}", number % 2) for number in range(2000)]
    if "csv" in name:
        text = "response,label\n" + "".join(f"{text},{label}\n" for text, label in rows)
    else:
        text = "".join(json.dumps({"response": text, "label": label}) + "\n" for text, label in rows)
    packed = gzip.compress(text.encode())
    labels = labels_in(write_text(tmp_path, packed, name))
    assert [item.attempt.response for item in labels] == [text for text, _ in rows]
    assert labels.sources[0].sha256 == hashlib.sha256(packed).hexdigest()
    torn = labels_in(write_text(tmp_path, packed[:-500], f"torn_{name}"))
    assert 0 < len(list(torn)) < 2000
    assert any("the gzip stream ends before its end mark" in doubt.reason for doubt in torn.problems)


# -- several files, and the same thing twice --------------------------------------------------------------------


def test_files_of_different_kinds_are_one_set(tmp_path: Path, write: Write) -> None:
    table = write_text(tmp_path, "text,label\na,1\n")
    lines = write([{"output": "b", "is_hit": False}], "l.jsonl")
    labels = read_labels([table, lines])
    assert [(item.attempt.response, item.label, item.place) for item in labels] == [
        ("a", HIT, f"{table}:2"),
        ("b", PASS, f"{lines}:1"),
    ]
    assert [(source.path, source.format, source.good) for source in labels.sources] == [
        (table, "csv", 1),
        (lines, "jsonl", 1),
    ]


def test_a_file_given_twice_is_read_once(tmp_path: Path) -> None:
    path, copy = (write_text(tmp_path, "text,label\na,1\n", name) for name in ("a.csv", "b.csv"))
    labels = read_labels([path, copy])
    assert len(list(labels)) == 1
    assert [(doubt.kind, doubt.places) for doubt in labels.problems] == [(DataProblemKind.SAME_FILE, (copy,))]


def test_items_that_are_there_twice_all_count_and_are_noted(tmp_path: Path) -> None:
    rows = ["a,x,1", "b,y,0", "c,x,1", "a,z,0", "d,y,1", "e,z,", "f,w,1", "f,v,1", "g,z,0"]
    labels = labels_in(write_text(tmp_path, "id,text,label\n" + "\n".join(rows) + "\n"))
    assert len(list(labels)) == len(rows)
    assert places(labels, DataProblemKind.REPEATED) == [4, 10]
    assert places(labels, DataProblemKind.CONTRADICTED) == [3, 6]
    assert places(labels, DataProblemKind.SAME_ID) == [2, 5]


def test_an_id_counts_within_its_file_and_a_text_everywhere(tmp_path: Path) -> None:
    one = write_text(tmp_path, "id,text,label\n1,a,1\n", "one.csv")
    two = write_text(tmp_path, "id,text,label\n1,b,0\n2,a,0\n", "two.csv")
    labels = read_labels([one, two])
    assert doubted(labels) == {DataProblemKind.CONTRADICTED: 2}


def test_the_same_answer_to_another_prompt_is_another_item(tmp_path: Path) -> None:
    assert labels_in(write_text(tmp_path, "prompt,text,label\np,no,1\nq,no,0\n")).problems == ()


def test_doubts_are_counted_exactly_and_shown_by_a_few_places(write: Write) -> None:
    rows = [{"response": f"{n}", "label": f"word {n % 90}"} for n in range(900)]
    labels = labels_in(write(rows, "l.jsonl"))
    assert doubted(labels) == {DataProblemKind.BAD_LABEL: 900}
    assert len(labels.problems) == 51
    assert max(len(doubt.places) for doubt in labels.problems) == 5
    assert {doubt.reason for doubt in labels.problems} >= {'"word 0" is neither a hit nor a pass', "other reasons"}


def test_the_text_of_a_label_is_made_visible_and_secrets_are_masked(write: Write) -> None:
    labels = labels_in(write([{"response": "r", "label": "\x1b[31m sk-abcdefghijklmnopqrst"}], "l.jsonl"))
    assert "\x1b" not in labels.problems[0].reason
    assert "klmnop" not in labels.problems[0].reason


# -- again and again --------------------------------------------------------------------------------------------


def test_labels_can_be_iterated_again_and_side_by_side(tmp_path: Path) -> None:
    labels = labels_in(write_text(tmp_path, "text,label\na,1\nb,0\n"))
    for one, other in zip(labels, labels, strict=True):
        assert one == other
    facts = labels.sources
    assert list(labels) == list(labels)
    assert labels.sources == facts


def test_what_is_asked_before_reading_is_read_for(tmp_path: Path) -> None:
    labels = labels_in(write_text(tmp_path, "text,label\na,1\na,1\nb,oops\n"))
    next(iter(labels))
    assert labels.sources[0].good == 3
    assert doubted(labels) == {DataProblemKind.BAD_LABEL: 1, DataProblemKind.REPEATED: 1}


def test_a_file_that_changes_between_two_passes_is_refused(tmp_path: Path) -> None:
    labels = labels_in(write_text(tmp_path, "text,label\na,1\n"))
    list(labels)
    write_text(tmp_path, "text,label\na,0\n")
    with pytest.raises(InputError, match="changed while it was being used"):
        list(labels)


def test_standard_input_can_be_read_again_and_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    content = b"text,label\na,1\nb,0\n"
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with read_labels(["-"]) as labels:
        assert said(labels) == said(labels) == [HIT, PASS]
        assert next(iter(labels)).place == "-:2"
        assert labels.sources[0].sha256 == hashlib.sha256(content).hexdigest()
        (kept,) = tmp_path.iterdir()
        assert kept.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("files", "sentence"), [([], "no file with labels"), (["."], r"\.: this is a folder")])
def test_what_is_no_file_is_refused(files: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        read_labels(files)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(InputError, match=r"absent\.csv: no such file"):
        read_labels(["absent.csv"])


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_texts_are_not_kept_in_memory(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"l.{suffix}"
    with path.open("w", encoding="utf-8") as file:
        if suffix == "csv":
            file.write("response,label\n")
        for number in range(20_000):
            text = f"{number} " + "word " * 200
            file.write(f"{text},1\n" if suffix == "csv" else json.dumps({"response": text, "label": 1}) + "\n")
    labels = labels_in(str(path))
    tracemalloc.start()
    try:
        count = sum(1 for _ in labels)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 20_000
    assert peak < path.stat().st_size / 2


# -- written down, and balanced ---------------------------------------------------------------------------------


def test_what_was_used_can_be_written_and_read_again(write: Write, tmp_path: Path) -> None:
    rows = [
        {"id": 1, "prompt": "p", "response": "r\u2028\x00é", "ratings": {"ann": 1, "bob": 1}, "context": ["c"]},
        {"id": 2, "prompt": "p", "response": None, "ratings": {"ann": 1, "bob": 0}, "judge_args": {"x": 10**30}},
        {"id": 3, "response": "", "ratings": {"ann": 0}, "tools_called": [{"name": "f", "arguments": "{}"}]},
        {"id": 4, "response": "s", "conversation": [{"role": "user", "content": "u"}], "expected_output": "e"},
        {"id": 5, "response": "t", "notes.repeat_word": "poem", "triggers": ["\ud800"]},
    ]
    before = list(labels_in(write(rows, "l.jsonl")))
    lines = [saved_row(item) for item in before]
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    after = list(labels_in(write_text(tmp_path, b"".join(lines), "saved.jsonl")))
    assert [(a.item, a.attempt, a.label) for a in after] == [(b.item, b.attempt, b.label) for b in before]
    again = labels_in(write_text(tmp_path, b"".join(lines), "again.jsonl"), label_column=("ratings",))
    assert [a.ratings for a in again][:3] == [b.ratings for b in before][:3]
    assert json.loads(lines[0])["place"] == before[0].place


def labelled(labels: Sequence[Decision | None]) -> list[Labelled]:
    return [Labelled(f"{n}", f"f:{n}", Attempt("r"), (), label) for n, label in enumerate(labels)]


@given(st.lists(st.sampled_from([HIT, PASS, None]), max_size=60), st.integers(0, 2**64))
def test_balanced_classes_are_equal_and_the_smaller_one_is_whole(labels: list[Decision | None], seed: int) -> None:
    hits, passes = labels.count(HIT), labels.count(PASS)
    if not min(hits, passes):
        with pytest.raises(InputError, match=r"the labels have no (hits|passes)"):
            balanced(labelled(labels), seed)
        return
    kept = balanced(labelled(labels), seed)
    assert len(kept) == len(labels)
    chosen = [label for label, stays in zip(labels, kept, strict=True) if stays]
    assert chosen.count(HIT) == chosen.count(PASS) == min(hits, passes)
    assert None not in chosen
    assert kept == balanced(labelled(labels), seed)


def test_every_item_of_the_larger_class_has_the_same_chance() -> None:
    from scipy.stats import chisquare

    items = labelled([HIT, HIT, PASS, PASS, PASS, PASS, PASS, PASS, PASS, PASS])
    draws = 2000
    stayed = [sum(column) for column in zip(*(balanced(items, seed) for seed in range(draws)), strict=True)]
    assert stayed[:2] == [draws, draws]
    assert sum(stayed[2:]) == 2 * draws
    assert chisquare(stayed[2:]).pvalue > 0.001


def test_a_seed_always_draws_the_same_items() -> None:
    # Python's random() with seed 42 begins 0.64, 0.03, 0.28, 0.22, 0.74, 0.68, 0.89, 0.09, 0.42, 0.03; of 12 passes
    # 3 are wanted, so the first stays below 3/12, the next below 3/11, and so on.
    kept = balanced(labelled([PASS] * 12 + [HIT] * 3), 42)
    assert [number for number, stays in enumerate(kept) if stays] == [1, 7, 9, 12, 13, 14]


# -- documentation ----------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "reference" / "labels.md").read_text(encoding="utf-8")
BLOCK = r"`([\w.]+)`(?:, read with `--label-threshold (\d)`)?\n\n```(?:csv|json)\n(.*?)```\n\n"
EXAMPLES = re.findall(rf"((?:{BLOCK})+)\| line [^\n]*\n\|-[^\n]*\n((?:\|[^\n]*\n)+)", PAGE, re.DOTALL)


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == 6


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example[1])
def test_the_examples_of_the_page_are_true(tmp_path: Path, example: tuple[str, ...]) -> None:
    blocks = re.findall(BLOCK, example[0], re.DOTALL)
    paths = [write_text(tmp_path, text, name) for name, _, text in blocks]
    threshold = float(blocks[-1][1]) if blocks[-1][1] else None
    labels = labels_in(paths[-1], label_threshold=threshold, results=tuple(paths[:-1]))
    read = [
        f"| {item.place.rpartition(':')[2]} | `{item.item.removeprefix(f'{tmp_path}/')}` | {item.label or 'none'} |"
        for item in labels
    ]
    assert read == example[-1].splitlines()


@pytest.mark.parametrize(
    ("row", "words"),
    [("hit", HIT_WORDS), ("pass", PASS_WORDS), ("not rated", [word for word in UNRATED_WORDS if word])],
)
def test_the_page_names_every_word_that_is_a_label(row: str, words: Sequence[str]) -> None:
    (listed,) = re.findall(rf"^\| {row} \| (.*) \|$", PAGE, re.MULTILINE)
    assert {word.casefold() for word in re.findall(r"`(.*?)`", listed)} == set(words)


def test_the_page_names_every_column_that_is_guessed() -> None:
    guessed = [*TEXT_NAMES, *PROMPT_NAMES, LABEL_NAMES, RATINGS_NAMES, LATE_LABEL_NAMES, *ID_NAMES, *KEY_NAMES]
    for name in some([name for names in guessed for name in names]):
        assert f"`{name}`" in PAGE, name
