"""Full-text search: what is found, against what plain Python finds in the same rows."""

from __future__ import annotations

import json

import pytest

from faircount.analysis import AnalyzeOptions
from faircount.app.web.runs import Runs
from faircount.app.web.search import Hit, SearchProgress, as_line, needles_of, search
from tests.app.web.conftest import Client
from tests.conftest import Write, standard

TEXTS = (
    "plain words here",
    "Plain WORDS again",
    'a "quoted" word',
    "a path C:\\temp\\x/y",
    "line one\nline two",
    "Größe und Straße",
    "GRÖSSE",
    "中文字符",
    "emoji 🙂 inside",
    "tab\there",
    "<b>bold</b> & more",
    "nothing of it",
)
WORDS = (
    *TEXTS,
    "words",
    "WORDS",
    "größe",
    "文字",
    "🙂",
    "<b>",
    '"quoted"',
    "one\nline",
    "x/y",
    "C:\\temp",
    "e",
    "zzz",
    "strasse",
)


def rows() -> list[dict[str, object]]:
    return [standard(number, input=f"prompt {number}", response=text) for number, text in enumerate(TEXTS)]


def found_lines(path: str, words: str) -> list[int]:
    with Runs([path], AnalyzeOptions()) as runs:
        return sorted({hit.line for hit in search(runs.all, words) if isinstance(hit, Hit)})


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("ascii_only", [True, False], ids=["escaped", "UTF-8"])
def test_search_finds_what_python_finds(words: str, ascii_only: bool, write: Write) -> None:
    lines = [json.dumps(row, ensure_ascii=ascii_only) for row in rows()]
    wanted = [
        number
        for number, row in enumerate(rows(), 1)
        if any(words.lower() in str(row[name]).lower() for name in ("input", "response"))
    ]
    assert found_lines(write(lines), words) == wanted


def test_text_that_is_written_with_needless_escapes_is_found(write: Write) -> None:
    line = json.dumps(standard(1, response="SECRET")).replace("SECRET", "\\u0053E\\u0043RET")
    assert found_lines(write([line]), "secret") == [1]


def test_reasons_histories_and_conversations_are_searched(write: Write) -> None:
    history = [{"input": "apple", "response": "pear", "success": True, "metrics": [{"name": "j", "reason": "plum"}]}]
    path = write(
        [standard(1, judge_reason="cherry", attempt_history=history, conversation=[{"role": "user", "content": "fig"}])]
    )
    for words in ("apple", "pear", "plum", "cherry", "fig"):
        assert found_lines(path, words) == [1], words
    assert found_lines(path, "attempt_history") == []


def test_a_bad_line_is_passed_over_and_the_numbers_stay_right(write: Write) -> None:
    assert found_lines(write([standard(1), b"{ torn needle", "", standard(2, response="needle")]), "needle") == [4]


def test_other_formats_are_searched_row_by_row(shared_journal: str) -> None:
    assert found_lines(shared_journal, "paris") != []


@pytest.fixture
def shared_journal(write: Write) -> str:
    header = {"kind": "run", "schema": 2, "aim": "task", "run": "r", "settings": {}}
    case = {"kind": "case", "case": "c", "input": {"messages": [{"role": "user", "content": "Capital of France?"}]}}
    attempt = {"kind": "attempt", "case": "c", "attempt": 0, "output": {"output": "It is Paris."}, "verdicts": []}
    return write([header, case, attempt], "run.jsonl")


def test_hits_come_as_they_are_found_and_are_limited(write: Write) -> None:
    path = write([standard(number, response="needle") for number in range(500)])
    with Runs([path], AnalyzeOptions()) as runs:
        found = search(runs.all, "needle", per_run=20)
        assert isinstance(next(found), Hit)
        rest = list(found)
    assert len([one for one in rest if isinstance(one, Hit)]) == 19
    assert isinstance(rest[-1], SearchProgress)
    assert rest[-1].more


def test_a_file_that_vanished_is_named_and_the_others_are_searched(write: Write) -> None:
    from pathlib import Path

    gone, there = write([standard(1)], "results_a.jsonl"), write([standard(2, response="needle")], "results_b.jsonl")
    with Runs([gone, there], AnalyzeOptions()) as runs:
        Path(gone).unlink()
        found = list(search(runs.all, "needle"))
    assert [one.problem for one in found if isinstance(one, SearchProgress) and one.problem]
    assert [one.line for one in found if isinstance(one, Hit)] == [1]


def test_hits_are_lines_of_ascii_in_which_nothing_is_hidden() -> None:
    line = as_line(Hit("r", 1, "response", "a\u202e", "b\x1b", "<script>"))
    assert line.isascii()
    assert json.loads(line)["before"] == "a\\u202e"
    assert line.count(b"\n") == 1


def test_the_page_streams_them(client: Client) -> None:
    answer = client.get("/hits?q=CANARY-0001")
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    found = [json.loads(line) for line in answer.text.splitlines()]
    assert {one["what"] for one in found if one["kind"] == "hit"} >= {"prompt"}


@pytest.mark.parametrize("words", ["a", "é", "中", '"', "\\", " ", "ſ"])
def test_every_needle_is_lower_case_and_short_of_escapes(words: str) -> None:
    assert all(needle == needle.lower() and needle for needle in needles_of(words))
