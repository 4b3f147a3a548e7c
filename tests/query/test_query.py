"""The query language: what a query means for a row, what it needs, and what is said of one that is not understood."""

from __future__ import annotations

import itertools
import json
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.core import UsageError, visible
from faircount.query import COMPUTED, CustomSearch, Query, QueryError, parse
from tests.conftest import ROOT, some

PAGE = ROOT / "docs" / "reference" / "query.md"
PEER = ROOT / ".venv-peers" / "bin" / "python"
Row = dict[str, Any]


def holds(query: str, row: Row, **options: Any) -> bool:
    return parse(query, **options).matches(row)


def quoted(text: str) -> str:
    """Return a text in double quotes, as people write it in a query."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# -- the page ----------------------------------------------------------------------------------------------------


def rows_of_the_page() -> list[Row]:
    (block,) = re.findall(r"^```jsonl\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [json.loads(line) for line in block.splitlines()]


def tables(header: str) -> Iterator[list[str]]:
    """Yield the cells of every table of the page that begins with a header."""
    for table in re.findall(rf"^{re.escape(header)}\n\|[-|]+\n((?:\|.*\n)+)", PAGE.read_text(encoding="utf-8"), re.M):
        for line in table.splitlines():
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def ids(rows: list[Row]) -> str:
    return ", ".join(str(row["id"]) for row in rows) or "none"


def examples(beginning: str) -> list[tuple[str, str]]:
    """Return the lines "what is asked → the rows it chooses" of the block that begins with this one."""
    (block,) = re.findall(rf"^```text\n({beginning} .*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return [(asked.rstrip(), chosen) for asked, _, chosen in (line.partition("→ ") for line in block.splitlines())]


EXAMPLES = examples("success")
TERMS = examples("January")
DIFFERENCES = [
    (query.strip("`"), theirs, ours) for query, theirs, ours, _ in tables("| query | spikee 0.9.2 | Faircount | why |")
]


@pytest.mark.parametrize(("query", "chosen"), EXAMPLES)
def test_an_example_of_the_page_chooses_the_rows_it_says(query: str, chosen: str) -> None:
    rows = rows_of_the_page()
    assert ids([row for row in rows if parse(query).matches(row)]) == chosen


@pytest.mark.parametrize(("term", "chosen"), TERMS)
def test_a_term_of_the_page_chooses_the_rows_it_says(term: str, chosen: str) -> None:
    rows = rows_of_the_page()
    search = CustomSearch.parse([term], {name for row in rows for name in row})
    assert ids([row for row in rows if search.matches(row)]) == chosen


@pytest.mark.parametrize(("query", "theirs", "ours"), DIFFERENCES)
def test_a_difference_from_spikee_is_as_the_page_says(query: str, theirs: str, ours: str) -> None:
    rows = rows_of_the_page()
    assert ids([row for row in rows if parse(query).matches(row)]) == ours
    assert theirs != ours


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) > 30
    assert len(TERMS) >= 10
    assert len(DIFFERENCES) >= 15


ASK_SPIKEE = """
import json, sys
from spikee.utilities.sfl import matches_sfl, parse_sfl
asked = json.load(sys.stdin)
print(json.dumps([[matches_sfl(row, parse_sfl(query)) for row in asked["rows"]] for query in asked["queries"]]))
"""


def answers_of_spikee(queries: list[str], rows: list[Row]) -> list[list[bool]]:
    asked = json.dumps({"queries": queries, "rows": rows})
    done = subprocess.run([str(PEER), "-c", ASK_SPIKEE], input=asked, capture_output=True, text=True, check=True)
    answers: list[list[bool]] = json.loads(done.stdout)
    return answers


@pytest.mark.peer
@pytest.mark.skipif(not PEER.exists(), reason="spikee is not installed (make peers)")
def test_spikee_chooses_what_the_page_says_it_does() -> None:
    rows = rows_of_the_page()
    answers = answers_of_spikee([query for query, _, _ in DIFFERENCES], rows)
    for (query, theirs, _), answer in some(zip(DIFFERENCES, answers, strict=True)):
        assert ids([row for row, chosen in zip(rows, answer, strict=True) if chosen]) == theirs, query


ALIKE = [
    "success = true AND lang = en",
    "NOT lang = en",
    'lang = EN OR error LIKE "BLOCKED"',
    "id = 3",
    "id != 3 AND error EXISTS",
    "response_time < 1",
    "response_time >= 0.4",
    "guardrail_categories.hate = true",
    'error LIKE "HTTP ___: %"',
    "(success = false OR lang = fr) AND NOT guardrail = true",
    "not (Error exists) and error exists",
    "attempts = 12",
    '"BLOCKED"',
    "plugin != null",
]


@pytest.mark.peer
@pytest.mark.skipif(not PEER.exists(), reason="spikee is not installed (make peers)")
def test_spikee_agrees_where_the_page_names_no_difference() -> None:
    rows = [row for row in rows_of_the_page() if row["id"] != "4-attack"]
    for query, answer in some(zip(ALIKE, answers_of_spikee(ALIKE, rows), strict=True)):
        assert [parse(query, ignore_case=True).matches(row) for row in rows] == answer, query


# -- what is equal -----------------------------------------------------------------------------------------------

SAME = [
    ("x", "x", True),
    ("x", "X", False),
    ('"two words"', "two words", True),
    ("'single'", "single", True),
    ("5", 5, True),
    ("5", 5.0, True),
    ("5", "5", True),
    ("5", "5.0", True),
    ('"5"', 5, True),
    ('"5"', "5.0", False),
    ("5", "five", False),
    ("-0.5e1", -5, True),
    ("+3", 3, True),
    (".5", 0.5, True),
    ("10000000000000001", 10000000000000000, False),
    ("10000000000000001", "10000000000000001", True),
    ("1e3", 1000, True),
    ("9" * 350, int("9" * 350), False),
    ("2026-01-31", "2026-01-31", True),
    ("nan", float("nan"), False),
    ("true", True, True),
    ("TRUE", True, True),
    ("true", "True", True),
    ("true", "yes", False),
    ('"true"', True, True),
    ("true", False, False),
    ("false", "FALSE", True),
    ("false", None, False),
    ("1", True, True),
    ("0", False, True),
    ("true", 1, True),
    ("true", 1.0, True),
    ('"1"', True, False),
    ("2", True, False),
    ("null", None, True),
    ("NULL", None, True),
    ("null", "null", False),
    ("null", False, False),
    ("None", "None", True),
    ("none", None, False),
    ('""', "", True),
    ('""', None, False),
    ("x", ["x"], False),
    ("x", {"x": 1}, False),
    ("\u00e9", "e\u0301", False),
    ("运行", "运行", True),
    ("a/b:c~d%e*f.g#h@i", "a/b:c~d%e*f.g#h@i", True),
]


@pytest.mark.parametrize(("literal", "value", "same"), SAME)
def test_what_is_equal(literal: str, value: object, same: bool) -> None:
    for sign in ("=", "==", "is", " IS "):
        assert holds(f"f {sign} {literal}", {"f": value}) is same
    for sign in ("!=", "<>", "is not"):
        assert holds(f"f {sign} {literal}", {"f": value}) is not same
    assert holds(f"f in (other, {literal})", {"f": value}) is same
    assert holds(f"f not in ({literal})", {"f": value}) is not same
    assert holds(f"f[*] = {literal}", {"f": ["something else", value]}) is same


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("f = x", False),
        ("f != x", True),
        ("f = null", True),
        ("f != null", False),
        ("f is null", True),
        ("f is not null", False),
        ("f = false", False),
        ("f != false", True),
        ("f < 5", False),
        ("f >= 5", False),
        ("not f < 5", True),
        ('f = ""', False),
        ("f in (x, y)", False),
        ("f in (x, null)", True),
        ("f not in (x, y)", True),
        ('f contains ""', False),
        ("f not contains x", True),
        ("f like %", False),
        ('f matches ""', False),
        ("f !~ x", True),
        ("f has x", False),
        ("f has null", False),
        ("f exists", False),
        ("exists f", False),
        ("exists(f)", False),
        ("f not exists", True),
        ("f", False),
        ("f.g.h = 1", False),
        ("f[0] = 1", False),
        ("f[*] = 1", False),
        ("f[*] != 1", True),
        ('"x"', False),
    ],
)
@pytest.mark.parametrize("row", [{}, {"f": None}])
def test_a_missing_field_is_the_same_as_null(row: Row, query: str, expected: bool) -> None:
    assert holds(query, row) is expected


@pytest.mark.parametrize(
    ("query", "value", "expected"),
    [
        ("f < 5", 4, True),
        ("f < 5", 5, False),
        ("f <= 5", 5.0, True),
        ("f > 5", "12", True),
        ("f > 5", "many", False),
        ('f > "5"', 12, True),
        ('f > "5"', "12", False),
        ("f > b", 12, False),
        ("f >= a", "b", True),
        ("f < a", "B", True),
        ("f >= 2026-01-31", "2026-02-01", True),
        ("f >= 0", True, False),
        ("f >= 0", [1], False),
        ("f < 0", float("nan"), False),
        ("f>=-1", 0, True),
        ("f < 1", 10**400, False),
    ],
)
def test_what_is_smaller(query: str, value: object, expected: bool) -> None:
    assert holds(query, {"f": value}) is expected


@pytest.mark.parametrize("value", [True, 1, 0.5, "x", "0", "no", [0], {"a": None}])
def test_a_field_alone_asks_whether_its_value_says_yes(value: object) -> None:
    assert holds("f", {"f": value})


@pytest.mark.parametrize("value", [None, False, 0, 0.0, "", [], {}, "false", "False", "None", "NULL"])
def test_a_field_alone_does_not_hold_for_what_says_no(value: object) -> None:
    assert not holds("f", {"f": value})


# -- searching ---------------------------------------------------------------------------------------------------

NESTED = {"a": [1, {"b": "Deep\nText"}], "n": None}


@pytest.mark.parametrize(
    ("query", "value", "expected"),
    [
        ("f contains cana", "The Canary", True),
        ("f contains 'a b'", "a  b", False),
        ("f contains STRASSE", "Straße", True),
        ("f contains 1.50", "costs 1.50", True),
        ("f contains 33", 1337, True),
        ("f contains true", True, True),
        ("f contains text", NESTED, True),
        ("f contains b", {"b": 1}, False),
        ("f contains 'p\\nt'", NESTED, True),
        ("f like %text", NESTED, True),
        ("f matches ^Deep", NESTED, True),
        ("f contains null", NESTED, False),
        ("f like abc", "ABC", True),
        ("f like abc", "abcd", False),
        ("f like %", "", True),
        ("f like _", "", False),
        ("f like a%c", "a\nb\nc", True),
        ("f like a_c", "a\nc", True),
        ("f like a%a", "a", False),
        ("f like a%a", "aa", True),
        ("f like %b%b%", "abc", False),
        ("f like %b%c%b%", "abcb", True),
        ("f like %_b", "b", False),
        ('f like "100\\%"', "100%", True),
        ('f like "100\\%"', "1000", False),
        ("f like 100\\%", "100%", True),
        ('f like "a\\_b"', "axb", False),
        ('f like "a\\\\\\\\b"', "a\\b", True),
        ("f like a*", "abc", False),
        ("f like a*", "A*", True),
        ("f like a.c", "abc", False),
        ("f like 13%", 1337, True),
        ("f matches Jan.*end", "In January\nthe end", True),
        ("f matches jan", "January", False),
        ("f matches '(?i)'", "x", True),
        ('f matches "(?i)jan"', "January", True),
        ('f matches "\\d+\\.\\d"', "v12.5", True),
        ('f matches "\\\\d"', "5", True),
        ("f matches \\d", "5", True),
        ('f regex "^a$"', "a\nb", False),
        ('f =~ "(?m)^a$"', "a\nb", True),
        ('f !~ "^a"', "b", True),
        ("f matches '[[]a'", "[a", True),
        ("f has x", ["x", "y"], True),
        ("f has X", ["x"], False),
        ("f has 5", ["5"], True),
        ("f has null", [None], True),
        ("f has x", {"x": None}, True),
        ("f has x", "x", True),
        ("f has x", "xy", False),
        ("f not has x", ["y"], True),
    ],
)
def test_what_a_search_finds(query: str, value: object, expected: bool) -> None:
    assert holds(query, {"f": value}) is expected


def test_a_text_in_quotes_is_searched_in_every_value_of_the_row_but_not_in_what_faircount_says() -> None:
    query = parse('"canary"')
    assert query.matches({"a": None, "b": {"c": ["x", "a Canary"]}})
    assert not query.matches({"canary": "x"})
    assert not query.matches({"a": "x"}, {"file": "canary.jsonl"})
    assert parse("'canary'").tree == query.tree


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r'"a\"b"', 'a"b'),
        (r"'a\'b'", "a'b"),
        (r"'a\"b'", 'a"b'),
        ('"it\'s"', "it's"),
        (r'"a\\b"', "a\\b"),
        (r'"a\nb\r\tc"', "a\nb\r\tc"),
        ('"a\nb"', "a\nb"),
        (r'"caf\u00e9"', "café"),
        (r'"caf\xe9"', "café"),
        (r'"\ud83d\ude00"', "😀"),
        (r'"\ud83d"', "\ud83d"),
        (r'"\d\%\ "', r"\d\%" + "\\ "),
        ('"运行 café"', "运行 café"),
        ('"a\u200bb"', "a\u200bb"),
        (r"a\nb", r"a\nb"),
    ],
)
def test_escapes_in_texts(written: str, text: str) -> None:
    assert holds(f"f = {written}", {"f": text})


@pytest.mark.parametrize(
    ("query", "value", "sensitive", "insensitive"),
    [
        ("f = Dan", "DAN", False, True),
        ("f != Dan", "DAN", True, False),
        ("f in (Dan, x)", "dan", False, True),
        ("f has Dan", ["dan"], False, True),
        ("f < b", "A", True, True),
        ("f < B", "a", False, True),
        ("f matches dan", "DAN", False, True),
        ("f like d_n", "DAN", True, True),
        ("f contains an", "DAN", True, True),
        ("F = Dan", "Dan", False, False),
    ],
)
def test_case(query: str, value: object, sensitive: bool, insensitive: bool) -> None:
    assert holds(query, {"f": value}) is sensitive
    assert holds(query, {"f": value}, ignore_case=True) is insensitive


# -- fields ------------------------------------------------------------------------------------------------------

DEEP: Row = {
    "a": {"b": {"c": 1}, "with space": 2, "0": 3},
    "l": [{"x": 1}, {"x": 2}, 7],
    "m": [[1, 2], [3]],
    "outcome": "submitted",
    "not": 4,
    "the-name": 5,
    "größe": 6,
    "row": {"x": 7},
    "é": 8,
}


@pytest.mark.parametrize(
    "query",
    [
        "a.b.c = 1",
        "a['b'].c = 1",
        'a["with space"] = 2',
        "a.0 = 3",
        "a[0] is null",
        "a[*] = 2",
        "a[*].c = 1",
        "l[0].x = 1",
        "l[ 1 ].x = 2",
        "l[-1] = 7",
        "l[3] is null",
        "l[-4] is null",
        "l.x is null",
        "l[*].x = 2",
        "not l[*].x = 3",
        "l[*].x != 3",
        "not l[*].x != 2",
        "l[*].x > 1",
        "l[*].x exists",
        "l[*].x is null",
        "l[*]",
        "m[*][*] = 3",
        "m[0][*] = 2",
        "m[*][0] = 3",
        "row.not = 4",
        "row['not'] = 4",
        "the-name = 5",
        "größe = 6",
        "row.row.x = 7",
        'row["e\u0301"] = 8',
        "é = 8",
        "row has a",
        "row[*] = 8",
        "row",
        "row contains submitted",
        "row[0] is null",
    ],
)
def test_steps_into_a_row(query: str) -> None:
    row = {**DEEP, "e\u0301": 8}
    assert holds(query, row)
    assert holds(query, MappingProxyType(row))  # type: ignore[arg-type]


def test_what_faircount_says_is_told_apart_from_what_the_row_says() -> None:
    said = {"outcome": "success", "line": 7, "file": "a.jsonl", "strategy": "goat"}
    query = parse("outcome = success and row.outcome = submitted and line in (7, 8) and file like %.jsonl")
    assert query.matches(DEEP, said)
    assert not query.matches(DEEP)
    assert query.computed == {"outcome", "line", "file"}
    assert query.fields == frozenset(["outcome"])
    assert frozenset(["outcome", "strategy", "line", "file"]) == COMPUTED
    assert parse("strategy[*] = x").matches({}, {"strategy": ["x"]})


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("success = true", {"success"}),
        ("a.b[0] = 1 or not (c exists and row.d)", {"a", "c", "d"}),
        ('row["my field"] has x', {"my field"}),
        ("outcome = success", set()),
        ('a = 1 and "canary"', None),
        ("row contains x", None),
        ("row[*] = 1", None),
        ("row[0] = 1", set()),
    ],
)
def test_a_query_says_which_fields_it_needs(query: str, fields: set[str] | None) -> None:
    assert parse(query).fields == (None if fields is None else frozenset(fields))


# -- and, or, not ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "a or b and c",
        "(a or b) and c",
        "not a or b",
        "not (a or b)",
        "NOT NOT a AND Not c",
        "not(a)and(b)or(c)",
        "not a = true and b = true",
        "a and b and c or not a and not b",
    ],
)
def test_and_or_not_bind_as_they_do_in_python(query: str) -> None:
    oracle = query.lower().replace("= true", "== True")
    for a, b, c in itertools.product([True, False], repeat=3):
        row = {"a": a, "b": b, "c": c}
        assert holds(query, row) is bool(eval(oracle, dict(row)))


def test_words_of_the_language_are_fields_and_values_where_nothing_else_can_be_meant() -> None:
    row = {"like": "in", "contains": "is", "is": 5, "in": "exists"}
    assert holds("like = in and contains = is and is = 5 and in = exists", row)
    assert holds("is is 5 and in in (exists)", row)


# -- mistakes ----------------------------------------------------------------------------------------------------

MISTAKES = [
    ("", 0, "expected a condition", "success = true"),
    ("   ", 3, "expected a condition", "success = true"),
    ("success =", 9, "expected a value", "success = true"),
    ("success = )", 10, "expected a value", "success = true"),
    ("a = [x", 4, "expected a value", "Quote"),
    ("success = true extra", 15, "and, or, or the end", "Quote"),
    ("(a = b c)", 7, "expected and, or, or ),", "Quote"),
    ('"unterminated', 0, "not closed", '"'),
    ("a = 'x\\'", 4, "not closed", "'"),
    ("a @ b", 2, "expected an operator", "contains"),
    ("5 = 5", 0, "not a number", 'row["5"]'),
    ("a and", 5, "expected a condition", "success = true"),
    ("and a", 0, "expected a condition", "row.and"),
    ("true", 0, "expected a condition", "row.true"),
    ("not", 3, "expected a condition", "success = true"),
    ("a = and", 4, "expected a value", "Quote"),
    ("(a", 0, "not closed", ")"),
    ("(a = (b", 5, "expected a value", "Quote"),
    ("()", 1, "expected a condition", "success = true"),
    ("a = 1)", 5, "unmatched", "Remove"),
    ("a && b", 2, "expected an operator", "the word and"),
    ("a = 1 || b", 6, "and, or, or the end", "the word or"),
    ("!a", 0, "expected a condition", "the word not"),
    ("a = hello!", 9, "and, or, or the end", "Quote"),
    ("response contain x", 9, "expected an operator", "Did you mean contains?"),
    ("a not true", 6, "contains, like", "before it"),
    ("error:HTTP", 5, "expected an operator", "contains"),
    ("“x”", 0, "typographic", "straight"),
    ("a = “x”", 4, "typographic", "straight"),
    ("a = x\u200b", 5, "invisible", "quote"),
    ("a\u200b = 1", 1, "expected an operator", "contains"),
    ("a..b = 1", 2, "the name of a field", "row["),
    ("a. = 1", 2, "the name of a field", "row["),
    ("a[x] = 1", 2, "a number, * or a quoted name", "[0]"),
    ("a[1 = 1", 1, "not closed", "]"),
    ('a["b = 1', 2, "not closed", '"'),
    ('"f" = 1', 0, "expected a field", 'row["f"]'),
    ('"f" contains 1', 0, "expected a field", 'row["f"]'),
    ("a in x", 5, "expected (", "in (en, fr)"),
    ("a in ()", 6, "expected a value", "success = true"),
    ("a in (x,", 8, "expected a value", "success = true"),
    ("a in (x", 5, "not closed", ")"),
    ("a in (x y)", 8, "expected , or )", "Quote"),
    ("exists", 6, "the name of a field", "row["),
    ("exists(a b)", 9, "expected )", "exists(error)"),
    ("a < true", 4, "a number or a text", "use = or !="),
    ("a >= null", 5, "a number or a text", "use = or !="),
    (r'a = "\u12"', 5, "four hexadecimal", r"\\u"),
    (r'a = "\xg1"', 5, "two hexadecimal", r"\\x"),
    ('a matches "(b"', 11, "regular expression", "contains"),
    ('a matches "\\n\\u00e9(b"', 19, "regular expression", "contains"),
    ('a matches "x["', 12, "regular expression", "contains"),
    ("a matches x**", 12, "regular expression", "contains"),
    ('a matches "(?P<n"', 15, "regular expression", "contains"),
    ('a matches "' + "(" * 5000 + ")" * 5000 + '"', 11, "regular expression", "contains"),
    ('a matches "x{99999999999}"', 11, "regular expression", "contains"),
    ("(" * 10_000 + "a" + ")" * 10_000, 50, "nested too deeply", "50"),
    ("a = " + "x" * 1_000_000, 1_000_000, "longer than 1,000,000", "shorter"),
]


@pytest.mark.parametrize(("query", "position", "reason", "hint"), MISTAKES, ids=lambda value: str(value)[:30])
def test_a_mistake_is_pointed_at(query: str, position: int, reason: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(query)
    first, shown, mark, last = str(caught.value).split("\n")
    assert f"at character {position + 1}:" in first
    assert caught.value.position == position
    assert reason in first
    assert hint in last
    assert mark.endswith("^")
    assert caught.value.exit_code == 2
    assert isinstance(caught.value, UsageError)
    assert len(shown) < 130
    if len(query) < 50:
        assert shown == "  " + visible(query)


@pytest.mark.parametrize(
    ("query", "shown", "mark"),
    [
        ("a\n=\x1b[31m 1 2", r"  a\n=\x1b[31m 1 2", "   "),
        ("运行 = 1 ?", "  运行 = 1 ?", " " * 11),
        ("e\u0301 = 1 ?", "  e\u0301 = 1 ?", " " * 8),
    ],
)
def test_the_mark_stands_under_the_place_as_it_is_seen(query: str, shown: str, mark: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(query)
    lines = str(caught.value).split("\n")
    assert lines[1] == shown
    assert lines[2].startswith(mark)
    assert lines[2].count(" ") + 1 == len(lines[2])


def test_a_long_query_is_shown_around_the_place() -> None:
    with pytest.raises(QueryError) as caught:
        parse("a = b and " * 100 + "c ? d" + " and e = f" * 100)
    _, shown, mark, _ = str(caught.value).split("\n")
    assert shown.startswith("  …")
    assert shown.endswith("…")
    assert shown[mark.index("^")] == "?"


def test_the_message_on_the_page_is_real() -> None:
    with pytest.raises(QueryError) as caught:
        parse('response contain "x"')
    assert f"```text\n{caught.value}\n```" in PAGE.read_text(encoding="utf-8")


def test_an_error_and_a_query_can_be_handed_to_another_process() -> None:
    query = parse("a = 1 and b like x%", ignore_case=True)
    assert query.matches({"a": 1, "b": "X"})
    copy = pickle.loads(pickle.dumps(query))
    assert copy == query
    assert copy.matches({"a": 1, "b": "X"})
    with pytest.raises(QueryError) as caught:
        parse("a ? b")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.position) == (str(caught.value), 2)


# -- hostile and large -------------------------------------------------------------------------------------------


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


def test_deep_and_odd_values_are_searched_without_failing() -> None:
    huge = 10**5000
    row = {"f": deep(100_000), "n": huge, "s": "\ud800", "l": [huge]}
    assert holds('"BOTTOM"', row)
    assert holds("f contains bottom and n > 5 and not n contains 0", row)
    assert holds("l not has 5 and l[0] != 5 and s = '\\ud800'", row)
    assert CustomSearch.parse(["bottom"], {}).matches(row)
    assert not CustomSearch.parse(["n:1"], {"n"}).matches(row)


def test_a_long_query_is_read() -> None:
    many = parse("id in (" + ", ".join(map(str, range(50_000))) + ")")
    assert many.matches({"id": 49_999})
    assert not many.matches({"id": 50_000})
    chain = parse(" or ".join(f"id = {number}" for number in range(20_000)))
    assert chain.matches({"id": 19_999})
    assert parse("not " * 100_000 + "a").matches({"a": 1})
    nested = "(a or b and not " * 50 + "a" + ")" * 50
    assert parse(nested).matches({"a": 1})


def test_a_text_that_nearly_fits_does_not_make_like_slow() -> None:
    began = time.perf_counter()
    assert not holds("f like " + "%a" * 30 + "%b", {"f": "a" * 20_000})
    assert time.perf_counter() - began < 2


def test_nothing_is_imported_above_the_package() -> None:
    script = "import sys, faircount.query\nprint([n for n in sys.modules if n.startswith('faircount.')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = re.findall(r"faircount\.(\w+)", done.stdout)
    assert set(loaded) <= {"query", "core", "version"}


# -- laws --------------------------------------------------------------------------------------------------------

PIECES = [
    *"()[],.=<>!&|\"'\\%_*@:-5 ",
    *["and ", "or ", "not ", "exists ", "in ", "is ", "like ", "contains ", "matches ", "has ", "true ", "null "],
    *["a ", "b.c ", "row", "outcome ", "[0]", "[*]", '"x"', "'(' ", "\\u00e9", "é", "\n", "\u200b", "“", "(?i)", "+"],
]
NAMES = st.sampled_from(["a", "b", "c", "é", "outcome"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.sampled_from(["5", "true", "a"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
ROWS = st.dictionaries(NAMES, VALUES, max_size=4)

FIELDS = st.sampled_from(["a", "b", "a.b", "a[0]", "a[*]", "row[*].b", "row", "outcome", "row.outcome", 'row["é"]'])
LITERALS = st.one_of(
    st.integers().map(str),
    st.sampled_from(["true", "false", "null", "a", "5", '"5"', "1.5"]),
    st.text(max_size=3).map(quoted),
)
CONDITIONS = st.one_of(
    FIELDS,
    FIELDS.map(lambda field: f"{field} exists"),
    st.builds("{} {} {}".format, FIELDS, st.sampled_from(["=", "!=", "contains", "like", "has", "is not"]), LITERALS),
    st.builds("{} {} {}".format, FIELDS, st.sampled_from(["<", "<=", ">", ">="]), st.sampled_from(["5", "a", '"5"'])),
    st.builds("{} in ({}, {})".format, FIELDS, LITERALS, LITERALS),
    st.text(max_size=3).map(quoted),
)
QUERIES = st.recursive(
    CONDITIONS,
    lambda inner: st.one_of(
        st.builds("({}) and {}".format, inner, inner),
        st.builds("{} or ({})".format, inner, inner),
        inner.map(lambda query: f"not ({query})"),
    ),
    max_leaves=5,
)


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)), ROWS, st.booleans())
def test_any_text_is_a_query_or_a_mistake(text: str, row: Row, ignore_case: bool) -> None:
    try:
        query = parse(text, ignore_case=ignore_case)
    except QueryError as error:
        assert 0 <= error.position <= len(text)
        assert len(str(error).split("\n")) == 4
    else:
        assert isinstance(query, Query)
        assert isinstance(query.matches(row), bool)


@given(QUERIES, ROWS, st.booleans())
def test_not_is_the_opposite(text: str, row: Row, ignore_case: bool) -> None:
    answer = holds(text, row, ignore_case=ignore_case)
    assert holds(f"not ({text})", row, ignore_case=ignore_case) is not answer
    assert holds(f"not (not ({text}))", row, ignore_case=ignore_case) is answer


@given(QUERIES, QUERIES, ROWS)
def test_and_and_or_follow_de_morgan(one: str, other: str, row: Row) -> None:
    assert holds(f"not (({one}) and ({other}))", row) is holds(f"not ({one}) or not ({other})", row)


@given(FIELDS, LITERALS, ROWS)
def test_unequal_is_the_opposite_of_equal(field: str, literal: str, row: Row) -> None:
    assert holds(f"{field} != {literal}", row) is not holds(f"{field} = {literal}", row)


@given(QUERIES, ROWS)
def test_only_the_fields_that_a_query_needs_decide(text: str, row: Row) -> None:
    query = parse(text)
    if query.fields is not None:
        assert query.matches({name: row[name] for name in row if name in query.fields}) is query.matches(row)


@given(st.text(max_size=6), st.text(max_size=6))
def test_any_text_in_quotes_is_found_as_it_is(text: str, around: str) -> None:
    assert holds(f"f = {quoted(text)}", {"f": text})
    assert holds(f"f contains {quoted(text)}", {"f": around + text + around})
    escaped = re.sub(r"([\\%_])", r"\\\1", text)
    assert holds(f"f like {quoted('%' + escaped + '%')}", {"f": around + text + around})


@given(st.text("ab%_\\\n", max_size=6), st.text("ab%_\\\n", max_size=6))
def test_like_agrees_with_a_regular_expression(wanted: str, text: str) -> None:
    tokens = re.findall(r"\\[\\%_]|.", wanted, re.DOTALL)
    oracle = "".join({"%": ".*", "_": "."}.get(token, re.escape(token[-1])) for token in tokens)
    found = re.fullmatch(oracle, text, re.DOTALL) is not None
    assert holds(f"f like {quoted(wanted)}", {"f": text}) is found


def test_simple_comparisons_are_fast() -> None:
    rows = [{"id": number, "success": number % 3 == 0, "lang": "en", "attempts": number} for number in range(20_000)]
    for text in ("success = true", "lang = en", "attempts > 5", "not lang = fr"):
        query = parse(text)
        best = min(_seconds(query, rows) for _ in range(5))
        # 500,000 a second on a quiet core; these machines are not quiet.
        assert len(rows) / best > 150_000, text


def _seconds(query: Query, rows: list[Row]) -> float:
    began = time.perf_counter()
    for row in rows:
        query.matches(row)
    return time.perf_counter() - began
