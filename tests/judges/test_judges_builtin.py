"""The judges that look at a response by itself: what hits, passes or stays unjudged, and where the evidence is."""

from __future__ import annotations

import contextlib
import json
import math
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.core import UsageError
from faircount.judges import (
    Attempt,
    Canary,
    Contains,
    Decision,
    Exact,
    Expected,
    JsonSchema,
    Judge,
    Latency,
    NotJson,
    ReadInVain,
    Regex,
    StartsWith,
    Verdict,
    decode,
    fenced,
    values,
    verdict_of,
)
from tests.conftest import ROOT

PEER = ROOT / ".venv-peers" / "bin" / "python"
HIT, PASS = Decision.HIT, Decision.PASS


def said(judge: Judge, response: str | None, **values: Any) -> Verdict:
    return verdict_of(judge, Attempt(response, **values))


def decision(judge: Judge, response: str | None, **values: Any) -> Decision | None:
    return said(judge, response, **values).decision


def evidence(judge: Judge, response: str, **values: Any) -> str:
    span = said(judge, response, **values).span
    assert span is not None
    return response[span.start : span.end]


def args(value: object) -> dict[str, Any]:
    return {"notes": {"judge_args": value}}


# -- canary -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("canary", "response", "wanted"),
    [
        ("SPIKEE", "here: SPIKEE!", HIT),
        ("SPIKEE", "here: spikee", PASS),
        (["one", "two"], "only two", HIT),
        (["one", "two"], "three", PASS),
        ("SPIKEE", "", PASS),
        ("a.c", "abc", PASS),
    ],
)
def test_a_canary_is_found_as_it_is(canary: Any, response: str, wanted: Decision) -> None:
    assert decision(Canary(canary=canary), response) is wanted
    assert decision(Canary(), response, **args(canary)) is wanted


def test_a_canary_shows_where_it_was_found() -> None:
    assert evidence(Canary(canary=["zzz", "Straße"], ignore_case=True), "ſ die STRAßE entlang") == "STRAßE"
    assert evidence(Canary(), "well, two", **args(["one", "two"])) == "two"


@pytest.mark.parametrize("value", [None, "", [], [""], ["", ""], 3, {"a": 1}, ["a", 1]])
def test_a_record_that_names_no_canary_is_unjudged(value: object) -> None:
    verdict = said(Canary(), "anything", **args(value))
    assert verdict.decision is None
    assert "judge_args" in str(verdict.error)


def test_the_canary_of_the_judge_goes_before_that_of_the_record() -> None:
    assert decision(Canary(canary="mine"), "theirs", **args("theirs")) is PASS


CASES: list[tuple[str, object, str]] = [
    (judge, value, response)
    for judge in ("canary", "regex")
    for value in ("word", "WORD", ["x", "word"], "^word", ["^a", "d$"], "w.rd")
    for response in ("a word", "WORD", "word", "wo\nrd", "line\nword", "")
]


@pytest.mark.peer
def test_canary_and_regex_decide_as_spikee_does() -> None:
    if not PEER.exists():
        pytest.skip("spikee is not installed in .venv-peers")
    program = (
        "import json, sys\n"
        "from spikee.judges.canary import CanaryJudge\n"
        "from spikee.judges.regex import RegexJudge\n"
        "judges = {'canary': CanaryJudge(), 'regex': RegexJudge()}\n"
        "cases = json.load(sys.stdin)\n"
        "print(json.dumps([bool(judges[judge].judge('', text, value)) for judge, value, text in cases]))\n"
    )
    ran = subprocess.run([PEER, "-c", program], input=json.dumps(CASES), capture_output=True, text=True, check=True)
    ours = {"canary": Canary(), "regex": Regex()}
    mine = [decision(ours[judge], response, **args(value)) is HIT for judge, value, response in CASES]
    assert mine == json.loads(ran.stdout.splitlines()[-1])


# -- strings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("judge", "response", "found"),
    [
        (Contains("ab"), "xxabxx", "ab"),
        (Contains("ab"), "xxABxx", None),
        (Contains("ab", ignore_case=True), "xxABxx", "AB"),
        (Contains("cat", whole_word=True), "concatenate a cat.", "cat"),
        (Contains("cat", whole_word=True), "concatenate cats", None),
        (Contains("C++", whole_word=True), "in C++, yes", "C++"),
        (Contains(["no", "yes"]), "yes and no", "no"),
        (Contains("."), "no stop", None),
        (StartsWith("Sure"), "Sure, here", "Sure"),
        (StartsWith("Sure"), " Sure, here", None),
        (StartsWith("Sure", strip=True), "\n Sure, here", "Sure"),
        (StartsWith(["No", "sure"], ignore_case=True), "SURE", "SURE"),
        (StartsWith("Sure"), "Well.\nSure", None),
        (Exact("yes"), "yes", "yes"),
        (Exact("yes"), "yes\n", None),
        (Exact("yes", strip=True), "  yes\n", "yes"),
        (Exact(["no", "Yes"], ignore_case=True), "yES", "yES"),
        (Exact(""), "", ""),
        (Regex("^Sure"), "Sure", "Sure"),
        (Regex("^Sure"), "a\nSure", None),
        (Regex("^Sure", multiline=True), "a\nSure", "Sure"),
        (Regex("a.b"), "a\nb", None),
        (Regex("a.b", dotall=True), "a\nb", "a\nb"),
        (Regex(["x", "(?P<n>[0-9]+)"]), "tel 123", "123"),
        (Regex("SURE", ignore_case=True), "sure", "sure"),
        (Regex("a*"), "bbb", ""),
    ],
)
def test_texts_are_found_where_they_are(judge: Judge, response: str, found: str | None) -> None:
    if found is None:
        verdict = said(judge, response)
        assert (verdict.decision, verdict.span) == (PASS, None)
    else:
        assert decision(judge, response) is HIT
        assert evidence(judge, response) == found


@given(st.text(min_size=1), st.text(), st.text())
def test_a_text_is_found_wherever_it_stands_also_in_other_letters(text: str, before: str, after: str) -> None:
    response = before + text + after
    assert evidence(Contains(text), response) == text
    assert decision(StartsWith(text), text + after) is HIT
    assert decision(Exact(response), response) is HIT
    assert decision(Contains(text, ignore_case=True), response) is HIT


def test_exact_compares_with_what_the_record_expects() -> None:
    assert decision(Exact(), "Paris", expected=Expected(output="Paris")) is HIT
    assert decision(Exact(), "Rome", expected=Expected(output="Paris")) is PASS
    assert decision(Exact(), "", expected=Expected(output="")) is HIT
    unjudged = said(Exact(), "Paris")
    assert (unjudged.decision, unjudged.error) == (None, "no text given, and the record has no expected output")


def test_a_regex_of_a_record_that_does_not_compile_leaves_it_unjudged() -> None:
    verdict = said(Regex(), "x", **args("(a"))
    assert verdict.decision is None
    assert "at character 1" in str(verdict.error)


@pytest.mark.parametrize("judge", [Canary(), Contains("x"), Exact("x"), StartsWith("x"), Regex("x")])
def test_judges_of_strings_say_that_they_are_and_need_a_response(judge: Judge) -> None:
    assert judge.string_matcher
    assert not judge.scores
    assert decision(judge, None) is None


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (Canary, {"canary": ""}, "canary.Canary: every item of canary must be a non-empty string"),
        (Canary, {"canary": []}, "a list of such strings"),
        (Canary, {"canary": 3}, "canary.Canary: canary must be a non-empty string"),
        (Contains, {"text": ["a", ""]}, "strings.Contains: every item of text"),
        (Contains, {"text": "a", "ignore_case": 1}, "ignore_case must be true or false"),
        (Contains, {"text": "a", "whole_word": "no"}, "whole_word must be true or false"),
        (StartsWith, {"text": None}, "strings.StartsWith: text"),
        (Exact, {"text": ["a", 1]}, "every item of text must be a string"),
        (Regex, {"pattern": "ab(c"}, r'Regex: pattern "ab\(c" is not a regular expression: .* at character 3'),
        (Regex, {"pattern": ["fine", "*"]}, "at character 1"),
        (Regex, {"pattern": "a{99999999999999}"}, "is not a regular expression"),
        (Regex, {"pattern": "x", "dotall": None}, "dotall must be true or false"),
        (Latency, {"limit": "soon"}, "latency.Latency: limit must be a number"),
        (Latency, {"limit": 0}, "more than 0"),
        (Latency, {"limit": math.inf}, "number"),
        (Latency, {"limit": True}, "number"),
    ],
)
def test_wrong_parameters_are_refused_with_their_name(kind: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        kind(**options)


def test_the_identity_follows_every_parameter() -> None:
    judges = [
        Contains("a"),
        Contains("b"),
        Contains(["a", "b"]),
        Contains("a", ignore_case=True),
        Contains("a", whole_word=True),
        StartsWith("a"),
        Canary(canary="a"),
        Canary(),
        Regex("a"),
        Regex("a", dotall=True),
        Latency(1),
        JsonSchema({}),
        JsonSchema({}, extract="first"),
        JsonSchema({"type": "object"}),
    ]
    assert len({judge.identity.digest for judge in judges}) == len(judges)
    assert Contains("a").identity.digest == Contains(["a"]).identity.digest


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize(
    "judge",
    [Canary(canary="a"), Contains("a", ignore_case=True), Exact("a"), Regex("a"), Latency(1), JsonSchema(SCHEMA)],
)
def test_judges_without_a_model_can_go_to_another_process(judge: Judge) -> None:
    copy = pickle.loads(pickle.dumps(judge))
    attempt = Attempt('{"a": 1}', latency=0.5)
    assert copy.identity == judge.identity
    assert verdict_of(copy, attempt) == verdict_of(judge, attempt)


# -- JSON by a schema -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extract", "response", "found"),
    [
        ("whole", '{"a": 1}', '{"a": 1}'),
        ("whole", ' {"a": 1}\n', ' {"a": 1}\n'),
        ("whole", '{"a": 1} and more', None),
        ("whole", '```json\n{"a": 1}\n```', None),
        ("whole", "", None),
        ("fenced", 'So:\n```json\n{"a": 1}\n```\nbye', '{"a": 1}\n'),
        ("fenced", '```\nnot this\n```\n~~~~JSON\n{"a": 1}\n~~~~', '{"a": 1}\n'),
        ("fenced", '```python\n{"a": 1}\n```', None),
        ("fenced", '```\n{"a": 1}\n```', '{"a": 1}\n'),
        ("fenced", '```json\n{"a": 1}', '{"a": 1}'),
        ("fenced", '{"a": 1}', None),
        ("first", 'Here it is: {"a": 1}. And {"a": "x"}', '{"a": 1}'),
        ("first", 'Mind the {braces}: {"a": 1}', '{"a": 1}'),
        ("first", '[1] says {"a": 1}', None),
        ("first", "nothing here", None),
    ],
)
def test_json_is_looked_for_where_the_judge_is_told(extract: str, response: str, found: str | None) -> None:
    judge = JsonSchema(SCHEMA, extract=extract)
    assert decision(judge, response) is (PASS if found is None else HIT)
    if found is not None:
        assert evidence(judge, response) == found


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ('{"a": "x"}', "not valid at $.a: 'x' is not of type 'integer'"),
        ("{}", "not valid at $: 'a' is a required property"),
        ("[1]", "not valid at $: [1] is not of type 'object'"),
        ('{"a": NaN}', "not JSON: NaN is not JSON"),
        ('{"a": 1, "a": 2}', "not JSON: an object has a key twice"),
        ('{"a": ', "not JSON: Expecting value at line 1, column 7"),
        ('{"a":' * 100_000, "not JSON: it is nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON: a number has too many digits"),
    ],
)
def test_the_reason_names_the_first_problem(response: str, words: str) -> None:
    verdict = said(JsonSchema(SCHEMA), response)
    assert (verdict.decision, verdict.reason) == (PASS, words)


def test_a_reason_stays_short() -> None:
    assert len(said(JsonSchema(SCHEMA), json.dumps({"a": "x" * 10_000})).reason) < 300


def test_a_schema_may_stand_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA), encoding="utf-8")
    judge = JsonSchema(f"@{path}")
    assert decision(judge, '{"a": 1}') is HIT
    assert judge.identity.digest == JsonSchema(SCHEMA).identity.digest


def test_references_within_a_schema_are_followed_and_none_is_fetched() -> None:
    inner = {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}
    assert decision(JsonSchema(inner), '{"a": 1}') is HIT
    assert decision(JsonSchema(inner), '{"a": "x"}') is PASS
    outer = JsonSchema({"properties": {"a": {"$ref": "http://127.0.0.1:9/x.json"}}})
    verdict = said(outer, '{"a": 1}')
    assert verdict.decision is None
    assert "http://127.0.0.1:9/x.json, which is not in it; nothing is fetched" in str(verdict.error)


def test_the_draft_is_the_one_that_the_schema_names() -> None:
    draft4 = {"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 3, "exclusiveMaximum": True}
    assert decision(JsonSchema(draft4), "3") is PASS
    assert decision(JsonSchema({"exclusiveMaximum": 3}), "3") is PASS
    with pytest.raises(UsageError, match=r"schema is not a JSON Schema: \$\.exclusiveMaximum"):
        JsonSchema({"exclusiveMaximum": True})


@pytest.mark.parametrize(
    ("schema", "extract", "words"),
    [
        ("text", "whole", "schema must be an object, or @"),
        (["a"], "whole", "schema must be an object"),
        ("@/nowhere/x.json", "whole", "/nowhere/x.json cannot be read: No such file"),
        ({"type": "nonsense"}, "whole", r"structure.JsonSchema: schema is not a JSON Schema: \$.type"),
        ({}, "somewhere", "extract must be one of whole, fenced, first"),
    ],
)
def test_what_is_no_schema_is_refused(schema: Any, extract: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        JsonSchema(schema, extract=extract)


def test_a_file_that_is_not_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_bytes(b"{nope")
    with pytest.raises(UsageError, match="the schema file is not JSON"):
        JsonSchema(f"@{tmp_path / 's.json'}")
    (tmp_path / "t.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8 text"):
        JsonSchema(f"@{tmp_path / 't.json'}")
    (tmp_path / "u.json").write_bytes(b" ")
    with pytest.raises(UsageError, match="is empty"):
        JsonSchema(f"@{tmp_path / 'u.json'}")


def test_without_jsonschema_the_judge_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(UsageError, match=r'pip install "faircount\[schema\]"'):
        JsonSchema({})


# -- JSON in text -----------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
BRACKETS = st.lists(JSON, max_size=3) | st.dictionaries(st.text(), JSON, max_size=3)
PROSE = st.text(st.characters(exclude_characters="{[")).filter(lambda text: not text.endswith("\\"))


@given(st.lists(st.tuples(PROSE, BRACKETS), max_size=4), PROSE)
def test_json_is_found_between_prose(pieces: list[tuple[str, Any]], end: str) -> None:
    text = "".join(prose + json.dumps(value) for prose, value in pieces) + end
    assert [value for value, _, _ in values(text)] == [value for _, value in pieces]
    for value, start, stop in values(text):
        assert json.loads(text[start:stop]) == value


@given(JSON)
def test_json_is_decoded_as_it_was_written(value: Any) -> None:
    assert decode(json.dumps(value)) == value


@given(st.text())
def test_no_text_breaks_the_search_for_json(text: str) -> None:
    with contextlib.suppress(NotJson, ReadInVain):
        list(values(text))
    for block in fenced(text):
        assert text[block.start : block.end] == block.content


@pytest.mark.parametrize("text", ["[" * 2_000_000, '{"a":[' * 300_000, "[1," * 400_000 + "x", '["' * 500_000])
def test_a_text_of_beginnings_does_not_take_for_ever(text: str) -> None:
    begun = time.perf_counter()
    verdict = said(JsonSchema(SCHEMA, extract="first"), text)
    assert verdict.decision is not HIT
    assert time.perf_counter() - begun < 10


@pytest.mark.parametrize(
    "text", ["```" + "a" * 1_000_000 + "`", "`" * 1_000_000 + "x`", "```x\n" * 200_000, "\n" * 1_000_000]
)
def test_a_text_of_fences_does_not_take_for_ever(text: str) -> None:
    begun = time.perf_counter()
    assert decision(JsonSchema(SCHEMA, extract="fenced"), text) is PASS
    assert time.perf_counter() - begun < 5


def test_json_far_behind_is_found_with_its_place() -> None:
    text = "if (x[0]) { y[1] = z }; " * 20_000 + '{"a": 1}' + " }" * 100_000
    (found,) = [(value, text[start:end]) for value, start, end in values(text) if isinstance(value, dict)]
    assert found == ({"a": 1}, '{"a": 1}')


def test_what_was_read_in_vain_is_unjudged_not_a_pass() -> None:
    text = "[" * 200 + "1," * 200_000 + "NaN" + '{"a": 1}'
    assert decision(JsonSchema(SCHEMA, extract="first"), text) is None


# -- latency ----------------------------------------------------------------------------------------------------


def test_latency_hits_up_to_the_limit() -> None:
    judge = Latency(2)
    assert said(judge, None, latency=0.0) == Verdict(HIT, 1.0, "took 0.000 s, within the limit of 2 s")
    assert said(judge, None, latency=2.0).score == 0.5
    late = said(judge, None, latency=6.0)
    assert (late.decision, late.score, late.reason) == (PASS, 0.25, "took 6.000 s, over the limit of 2 s")


@pytest.mark.parametrize("latency", [None, math.nan, -1.0])
def test_what_is_not_a_time_is_unjudged(latency: float | None) -> None:
    assert decision(Latency(1), "x", latency=latency) is None


@given(st.floats(1e-6, 1e6), st.floats(0, 1e9))
def test_the_score_of_latency_is_half_or_more_exactly_for_hits(limit: float, latency: float) -> None:
    for taken in (latency, limit, math.nextafter(limit, 0), math.nextafter(limit, math.inf)):
        verdict = said(Latency(limit), None, latency=taken)
        assert verdict.score is not None
        assert 0 <= verdict.score <= 1
        assert (verdict.score >= 0.5) == (taken <= limit) == (verdict.decision is HIT)
