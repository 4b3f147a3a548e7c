"""How judges are named: expressions, the table of judges, parameters, local code, and what a file may name."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.components import DEEPEST, LONGEST, Context, Plugin, Spec, parse, render
from faircount.core import UsageError
from faircount.judges import JUDGES, STRING_JUDGES, Attempt, Decision, Judge, make_judge, make_trusted_only, verdict_of
from tests.conftest import some

HIT, PASS = Decision.HIT, Decision.PASS


def decision(judge: Judge, response: str | None, **values: Any) -> Decision | None:
    return verdict_of(judge, Attempt(response, **values)).decision


def refused(expression: str, setting: Context | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        make_judge(expression, setting or Context())
    return str(caught.value)


def without_places(value: Any) -> Any:
    if isinstance(value, Spec):
        positional = tuple(map(without_places, value.positional))
        return spec(value.name, positional, {key: without_places(item) for key, item in value.parameters.items()})
    return value


def spec(name: str, positional: tuple[Any, ...] = (), parameters: Mapping[str, Any] | None = None) -> Spec:
    return Spec("judge", name, parameters or {}, positional)


def class_of(name: str) -> type[Judge]:
    known = JUDGES.built_in(name)
    assert known is not None
    kind: type[Judge] = known.load()
    return kind


# -- expressions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("refusal", spec("refusal")),
        ("  refusal ( ) ", spec("refusal")),
        ('contains(text="BYPASSED")', spec("contains", (), {"text": "BYPASSED"})),
        (r"regex('\bfoo\d+\.')", spec("regex", (r"\bfoo\d+\.",))),
        (r'regex("a\"b\\c\n\u00e9\ud83d\ude00\x41")', spec("regex", ('a"b\\c\né😀A',))),
        ("a(1, -2.5, 1e3, true, false, null)", spec("a", (1, -2.5, 1000.0, True, False, None))),
        ("a(x=[1, ['b', {}]], y={'k': null})", spec("a", (), {"x": [1, ["b", {}]], "y": {"k": None}})),
        ("any(refusal, b(c(d)))", spec("any", (spec("refusal"), spec("b", (spec("c", (spec("d"),)),))))),
        ("t(at=0.7, llm(rubric='@f.txt'))", spec("t", (spec("llm", (), {"rubric": "@f.txt"}),), {"at": 0.7})),
        ("not(garak:dan.DAN)", spec("not", (spec("garak:dan.DAN"),))),
        ("./my-file.py:Name(limit=3)", spec("./my-file.py:Name", (), {"limit": 3})),
        (r"C:\judges\a.py:Name", spec(r"C:\judges\a.py:Name")),
        ("'./my judges/f.py:Name'(limit=3)", spec("./my judges/f.py:Name", (), {"limit": 3})),
        ("any('./my judges/f.py:Name'(), 'a text')", spec("any", (spec("./my judges/f.py:Name"), "a text"))),
    ],
)
def test_an_expression_is_a_call_with_json_like_values_and_judges(text: str, call: Spec) -> None:
    assert without_places(parse(text)) == call
    assert without_places(parse(render(call))) == call


def test_a_call_knows_where_it_stands() -> None:
    call = parse("  any(refusal, 'b c'(x=1))")
    assert [call.where, *(part.where for part in call.positional)] == [2, 6, 15]


@pytest.mark.parametrize(
    ("text", "character", "reason"),
    [
        ("", 1, "it is empty"),
        ("   ", 4, "it is empty"),
        ("()", 1, "expected the name of a judge, found “(”"),
        ("''", 1, "the name of the judge is empty"),
        ("a(", 3, "expected a value, found the end"),
        ("a(b", 2, "this bracket is not closed"),
        ("a(b))", 5, "unexpected text after the judge: “)”"),
        ("a b", 3, "unexpected text after the judge: “b”"),
        ("a(b c)", 5, "expected , or ), found “c”"),
        ("a(b,)", 5, "expected a value, found “)”"),
        ("a(x=1, x=2)", 8, "x is given twice"),
        ("a(x==1)", 5, "expected a value, found “=”"),
        ("a([b])", 4, "put text in quotes: “b”"),
        ("a([1, 2)", 8, "expected , or ]"),
        ("a({b: 1})", 4, "expected a key in quotes, found “b:”"),
        ("a({[1]})", 4, "expected a key in quotes, found “[”"),
        ("a({'b'})", 7, "expected :, found “}”"),
        ("a((b))", 3, "expected a value, found “(”"),
        ("a(b)(c)", 5, "unexpected text after the judge: “(”"),
        ("a(b[0])", 4, "expected , or ), found “[”"),
        ("a('b' 'c')", 7, "expected , or ), found “'”"),
        ("a(1(b))", 4, "expected , or ), found “(”"),
        ("a({'b': 1, 'b': 2})", 12, "this key appears twice"),
        ("a(1e999)", 3, "this number is too large"),
        ("a('b)", 3, "this quote is not closed"),
        ("a(“b”)", 3, "typographic quotation mark"),
        ("a\u202eb", 2, "invisible character"),
        ("a(" * 50, 2 * DEEPEST + 2, f"brackets are nested more than {DEEPEST} deep here"),
        ("a(x=" + "[" * 50, DEEPEST + 4, f"brackets are nested more than {DEEPEST} deep here"),
    ],
)
def test_a_mistake_is_shown_with_a_mark_under_its_character(text: str, character: int, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    first, shown, mark, hint = str(caught.value).split("\n")
    assert first.startswith(f"the judge cannot be parsed at character {character}: {reason}")
    assert mark.strip() == "^" and len(mark) <= len(shown) + 1
    assert hint.strip()


def test_a_huge_expression_is_refused_and_not_repeated() -> None:
    for text in ("a" * (LONGEST + 1), "a(" * LONGEST, "a(x='" + "b" * LONGEST):
        with pytest.raises(UsageError) as caught:
            parse(text)
        assert len(str(caught.value)) < 500
    assert parse(f"a(x='{'b' * (LONGEST // 2)}')").parameters["x"] == "b" * (LONGEST // 2)


NAMES = st.one_of(
    st.sampled_from(["refusal", "strings.Regex", "garak:dan.DAN", "./a b.py:X", "true", "1e3", "-", "a=b", "x\u202ey"]),
    st.text(min_size=1),
)
LITERALS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
PARAMETERS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True)


def calls_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Spec]:
    positional = st.lists(values, max_size=3).map(tuple)
    return st.builds(spec, NAMES, positional, st.dictionaries(PARAMETERS, values, max_size=3))


CALLS = st.recursive(calls_of(LITERALS), lambda inner: calls_of(LITERALS | inner), max_leaves=4)


@given(CALLS)
def test_what_is_written_back_reads_as_the_same_call(call: Spec) -> None:
    text = render(call)
    assert without_places(parse(text)) == call
    assert text.isprintable() or text == render(parse(text))


@given(st.text(alphabet="ab.:/-_=()[]{},\"'\\ 01etrunl\n\u202e", max_size=60))
def test_any_text_is_a_call_or_a_usage_error(text: str) -> None:
    try:
        call = parse(text)
    except UsageError:
        return
    assert without_places(parse(render(call))) == without_places(call)


# -- the table --------------------------------------------------------------------------------------------------


def test_every_judge_of_the_table_is_there_under_its_name() -> None:
    for judge in JUDGES.known:
        found = class_of(judge.short)
        assert found.name == judge.name == f"{judge.name.partition('.')[0]}.{found.__name__}"
        assert found is class_of(judge.name)
        assert issubclass(found, Judge) and found.looks_for and found.__doc__
    assert len({judge.short for judge in JUDGES.known}) == len(JUDGES.known) == 21


def test_string_judges_are_those_that_say_so_and_need_nothing_else() -> None:
    for name in some(STRING_JUDGES):
        assert class_of(name).string_matcher


@pytest.mark.parametrize("name", ["json-schema", "JSON_Schema", "json_schema", "structure.JsonSchema"])
def test_short_names_ignore_case_and_take_an_underscore_for_a_dash(name: str) -> None:
    assert class_of(name).name == "structure.JsonSchema"


def test_an_unknown_name_is_met_with_near_ones() -> None:
    assert refused("refusals").startswith("refusals: no such judge; did you mean refusal")
    assert "canary.Canary" in refused("canary.Canarie")
    assert refused("xyzzy") == "xyzzy: no such judge; `faircount judges list` shows them all"


def test_to_look_at_the_table_loads_no_judge() -> None:
    script = (
        "import sys\nfrom faircount.judges import JUDGES\nJUDGES.built_in('llm')\n"
        "print([n for n in sys.modules if n.startswith('faircount.judges.builtin.') or n in ('asyncio', 'aiohttp')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- making -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "called"),
    [
        ("refusal", "refusal.Refusal"),
        ("REGEX('^Sure')", 'strings.Regex(pattern="^Sure")'),
        ("regex(ignore_case=true, pattern='^Sure')", 'strings.Regex(pattern="^Sure", ignore_case=true)'),
        ("regex(pattern='^Sure', ignore_case=false)", 'strings.Regex(pattern="^Sure")'),
        ("not(contains('x'))", 'combine.Not(strings.Contains(text="x"))'),
        ("any(refusal, contains('x'))", 'combine.AnyOf(refusal.Refusal, strings.Contains(text="x"))'),
        ("threshold(refusal)", "combine.Threshold(refusal.Refusal)"),
        ("threshold(refusal, 0.8)", "combine.Threshold(refusal.Refusal, at=0.8)"),
        ("threshold(at=0.8, judge=refusal)", "combine.Threshold(refusal.Refusal, at=0.8)"),
    ],
)
def test_a_judge_is_called_by_its_canonical_expression(expression: str, called: str) -> None:
    judge = make_judge(expression, Context())
    assert judge.called == called
    again = make_judge(judge.called, Context())
    assert again.called == called
    assert again.identity.digest == judge.identity.digest


def test_judges_decide_as_they_were_made() -> None:
    judge = make_judge("any(contains(text='alpha'), regex(pattern='\\bbeta\\d'))", Context())
    assert [decision(judge, text) for text in ("alpha", "a beta7", "beta")] == [HIT, HIT, PASS]
    assert decision(judge, None) is None


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("llm", "llm.Rubric: needs rubric; it takes rubric, "),
        ("refusal(patern='x')", "refusal.Refusal: has no parameter patern; it takes "),
        ("regex(foo=1, pattern='a')", "strings.Regex: has no parameter foo; it takes pattern, "),
        ("regex('a', pattern='b')", "strings.Regex: pattern is given twice, by position and by name"),
        ("not(refusal, canary)", "combine.Not: takes at most 1 positional, not 2; it takes judge"),
        ("contains(text=BYPASSED)", 'contains: text is not a judge; put text in quotes: text="BYPASSED"'),
        ("contains(BYPASSED)", 'contains: text is not a judge; put text in quotes: text="BYPASSED"'),
        ("threshold(refusal, chat=1)", "combine.Threshold: has no parameter chat; it takes judge, at"),
        ("any('refusal')", "combine.AnyOf"),
        ("any(refusal, nosuch)", "nosuch: no such judge"),
        ("regex('(')", "strings.Regex"),
        ("garak:", "garak:: name a judge of garak: garak:NAME"),
        ("./file.py", "./file.py: name the judge in the file: ./file.py:Name"),
        ("./missing.py:Name", "./missing.py: no such file"),
        (
            "no_such_module:Name",
            "no_such_module: no such module; name a file by its path: ./no_such_module.py:Name",
        ),
    ],
)
def test_what_cannot_be_made_says_why(expression: str, message: str) -> None:
    assert refused(expression).startswith(message)


class Cell(Judge):
    """A judge with every kind of parameter."""

    name = "test.Cell"
    looks_for = "nothing"

    def __init__(self, first: int, /, *judges: Judge, second: str = "b", **others: Any) -> None:
        super().__init__(first=first, judges=[judge.called for judge in judges], second=second, **others)


def test_parameters_of_every_kind_are_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JUDGES, "plugin", lambda _: (Cell, Plugin("cell", "cells", "1", Cell)))
    judge = make_judge("cell(1, refusal, canary, second='c', third=[2])", Context())
    assert judge.called == 'test.Cell(1, refusal.Refusal, canary.Canary, second="c", third=[2])'
    assert judge.parameters["judges"] == ["refusal.Refusal", "canary.Canary"]
    assert judge.parameters["third"] == [2]


# -- judges that the configuration names ------------------------------------------------------------------------


def test_a_named_judge_is_what_the_configuration_says() -> None:
    named = {"strict": "threshold(refusal, at=0.8)", "either": "any(strict, mine.Canary)", "mine.Canary": "canary"}
    judge = make_judge("not(either)", Context(named=named))
    inner = "combine.AnyOf(combine.Threshold(refusal.Refusal, at=0.8), canary.Canary)"
    assert judge.called == f"combine.Not({inner})"
    assert make_judge(judge.called, Context()).identity.digest == judge.identity.digest


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"a": "a"}, "a: the configuration defines it in terms of itself: a → a"),
        ({"a": "any(b)", "b": "not(a)"}, "a: the configuration defines it in terms of itself: a → b → a"),
        ({f"a{n}": f"a{n + 1}" for n in range(50)} | {"a": "a0"}, "nested more than 20 judges deep"),
        ({"a": "refusal("}, "the judge cannot be parsed at character 9"),
        ({"refusal": "canary", "a": "refusal"}, "refusal: the configuration defines this name, but"),
    ],
)
def test_names_that_lead_nowhere_are_refused(named: dict[str, str], message: str) -> None:
    assert message in refused("a", Context(named=named))


def test_judges_that_names_stand_for_count_as_deep() -> None:
    named = {f"a{n}": "not(" * 6 + f"a{n + 1}" + ")" * 6 for n in range(20)} | {"a20": "refusal"}
    assert "nested more than 20 judges deep" in refused("a0", Context(named=named))


def test_a_named_judge_takes_no_parameters() -> None:
    assert refused("a(at=1)", Context(named={"a": "refusal"})).startswith("a: takes no parameters")


def test_a_setting_can_be_sent_to_another_process() -> None:
    from faircount.chat import ChatSettings

    setting = Context(chat=ChatSettings(model="m"), named={"a": "refusal"})
    assert pickle.loads(pickle.dumps(setting)) == setting


def test_the_chat_setting_reaches_the_judges_that_ask_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from faircount.chat import ChatSettings

    monkeypatch.setenv("SOME_KEY", "x")
    chat = ChatSettings(base_url="http://127.0.0.1:9/v1", model="the-model", api_key_env="SOME_KEY")
    judge = make_judge("not(llm(rubric='Is it rude?'))", Context(chat=chat))
    assert judge.called == 'combine.Not(llm.Rubric(rubric="Is it rude?"))'
    assert "the-model" in json.dumps(judge.parameters)
    judge.close()


# -- names that come from a file --------------------------------------------------------------------------------


def test_a_file_can_name_judges_that_compare_strings() -> None:
    assert decision(make_trusted_only("canary"), "it BYPASSED", notes={"judge_args": "BYPASSED"}) is HIT
    assert decision(make_trusted_only("regex", pattern="a+"), "baab") is HIT
    assert make_judge("contains(text='x')", Context(local_code=False)).called == 'strings.Contains(text="x")'


@pytest.mark.parametrize(
    "name",
    ["./evil.py:Judge", "json:loads", "spikee:canary", "garak:dan.DAN", "llm", "json-schema", "any", "mine", "os"],
)
def test_a_file_can_name_nothing_else(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text("raise SystemExit('loaded')\n", encoding="utf-8")
    with pytest.raises(UsageError, match="a file can name only the judges canary, contains, exact, startswith, regex"):
        make_trusted_only(name)
    setting = Context(named={"mine": "./evil.py:Judge"}, local_code=False)
    assert "a file can name only" in refused(name, setting)


# -- local code -------------------------------------------------------------------------------------------------

LOCAL = '''
"""Judges of somebody's own."""

import beside
from .near import WORD

from faircount.judges.judge import Judge
from faircount.core import Decision, Verdict

print("loaded", beside.__name__)


class Long(Judge):
    """Hits when a response is long."""

    def __init__(self, limit: int = 3) -> None:
        self.limit = limit
        super().__init__(limit=limit)

    def decide(self, attempt):
        return Verdict(Decision.of(len(attempt.response) > self.limit), reason=WORD)


class Named(Long):
    name = "mine.Named"
    looks_for = "long texts"


ready = Long(limit=1)


def truth(attempt, word="yes"):
    """Says whether a word is there."""
    return word in attempt.response


def score(attempt) -> float:
    return float(attempt.response)


def nothing(attempt):
    return None


def wrong(attempt):
    return attempt.response


def verdict(attempt):
    return Verdict(Decision.HIT, reason="always")


async def later(attempt):
    import asyncio

    await asyncio.sleep(0)
    return True


class Other:
    pass


class Odd(Judge):
    """A judge whose parameters are no plain data."""

    def __init__(self) -> None:
        super().__init__(what=object())


constant = 3
'''


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(LOCAL, encoding="utf-8")
    (tmp_path / "beside.py").write_text("", encoding="utf-8")
    (tmp_path / "near.py").write_text("WORD = 'near'\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_a_class_of_a_file_is_a_judge_with_the_digest_of_the_file(local: Path, capsys: Any) -> None:
    import hashlib

    judge = make_judge("./mine.py:Long(limit=2)", Context())
    assert judge.called == "./mine.py:Long(limit=2)"
    assert [decision(judge, text) for text in ("ab", "abc")] == [PASS, HIT]
    digest = hashlib.sha256((local / "mine.py").read_bytes()).hexdigest()
    assert (judge.identity.name, judge.identity.version) == ("mine.Long", digest[:16])
    assert (judge.looks_for, verdict_of(judge, Attempt("abc")).reason) == ("Hits when a response is long.", "near")
    named = make_judge(f"{local}/mine.py:Named", Context())
    assert (named.identity.name, named.looks_for, named.identity.version) == ("mine.Named", "long texts", digest[:16])
    assert capsys.readouterr().out == ""


def test_a_changed_file_is_another_judge(local: Path) -> None:
    before = make_judge("./mine.py:Long", Context())
    source = (local / "mine.py").read_text(encoding="utf-8")
    (local / "mine.py").write_text(source.replace("> self.limit", "< self.limit"), encoding="utf-8")
    after = make_judge("./mine.py:Long", Context())
    assert before.identity.digest != after.identity.digest
    assert (decision(before, "abcd"), decision(after, "abcd")) == (HIT, PASS)


@pytest.mark.parametrize(
    ("name", "response", "wanted"),
    [
        ("ready", "ab", HIT),
        ("truth", "yes", HIT),
        ("truth", "no", PASS),
        ("truth(word='no')", "no", HIT),
        ("score", "0.5", HIT),
        ("score", "0.49", PASS),
        ("score", "nan", None),
        ("score", "7", None),
        ("score", "text", None),
        ("nothing", "x", None),
        ("wrong", "x", None),
        ("verdict", "x", HIT),
        ("later", "x", HIT),
        ("truth", None, None),
    ],
)
@pytest.mark.usefixtures("local")
def test_a_function_or_a_judge_of_a_file_decides(name: str, response: str | None, wanted: Decision | None) -> None:
    judge = make_judge(f"./mine.py:{name}", Context())
    assert decision(judge, response) is wanted
    assert judge.scores == (name == "score")
    assert judge.called.startswith("./mine.py:")


@pytest.mark.usefixtures("local")
def test_a_function_that_waits_works_in_a_running_loop_too() -> None:
    import asyncio

    async def ask() -> Decision | None:
        return decision(make_judge("./mine.py:later", Context()), "x")

    assert asyncio.run(ask()) is HIT


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "Nothing",
            "./mine.py: has no Nothing; it has Long, Named, Odd, later, nothing, ready, score, truth, verdict, wrong",
        ),
        (
            "Odd",
            "./mine.py:Odd: its parameters are not plain data: TypeError: "
            "Object of type object is not JSON serializable",
        ),
        ("constant", "./mine.py:constant: is int; expected a subclass of Judge, a judge or a function"),
        ("Other", "./mine.py:Other: is not a subclass of Judge"),
        ("Long(limt=2)", "./mine.py:Long: has no parameter limt; it takes limit"),
        ("truth(wrd='a')", "./mine.py:truth: has no parameter wrd; it takes word"),
        ("ready(limit=2)", "./mine.py:ready: is already a judge and takes no parameters"),
        ("Long(limit=canary)", './mine.py:Long: limit is not a judge; put text in quotes: limit="canary"'),
        ("", "./mine.py:: name the judge in the file: ./file.py:Name"),
    ],
)
@pytest.mark.usefixtures("local")
def test_what_a_file_does_not_have_is_said(name: str, message: str) -> None:
    assert refused(f"./mine.py:{name}") == message


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import os\nimport no_such_package\n", "bad.py:2: cannot be loaded: ModuleNotFoundError: No module named"),
        ("x = 1\ndef f(:\n", "bad.py:2: cannot be loaded: SyntaxError: "),
        ("def f():\n    raise ValueError('a\\nb')\n\nf()\n", "bad.py:2: cannot be loaded: ValueError: a"),
        ("import sys\nsys.exit('enough')\n", "bad.py:2: cannot be loaded: SystemExit: enough"),
        ("import json\njson.loads('{')\n", "bad.py:2: cannot be loaded: JSONDecodeError: "),
        ("import helper_that_fails\n", "helper_that_fails.py:3: cannot be loaded: ZeroDivisionError"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_said_with_its_line(local: Path, source: str, message: str) -> None:
    (local / "bad.py").write_text(source, encoding="utf-8")
    (local / "helper_that_fails.py").write_text("\n\n1 / 0\n", encoding="utf-8")
    found = refused("./bad.py:Judge")
    assert found.removeprefix("./").startswith(message)
    assert "Traceback" not in found and "\n" not in found


def test_a_module_of_the_path_can_be_named(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = local / "some_package_of_ours"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "inner.py").write_text("def f(attempt):\n    return True\n", encoding="utf-8")
    assert refused("some_package_of_ours.inner:f").startswith("some_package_of_ours.inner: no such module")
    monkeypatch.syspath_prepend(str(local))
    judge = make_judge("some_package_of_ours.inner:f", Context())
    assert (decision(judge, "x"), judge.identity.name) == (HIT, "inner.f")


def test_a_package_that_fails_is_said_with_its_line(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = local / "failing_package_of_ours"
    package.mkdir()
    (package / "__init__.py").write_text("print('noise')\n1 / 0\n", encoding="utf-8")
    (package / "inner.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(str(local))
    assert "__init__.py:2: cannot be loaded: ZeroDivisionError" in refused("failing_package_of_ours.inner:f")
    assert refused("json.nothing:f").startswith("json.nothing: no such module")


def test_a_folder_of_local_code_hides_no_module(local: Path) -> None:
    (local / "colorsys.py").write_text("raise SystemExit('hidden')\n", encoding="utf-8")
    make_judge("./mine.py:Long", Context())
    script = textwrap.dedent(
        """
        from faircount.components import Context
        from faircount.judges import make_judge
        make_judge("./mine.py:Long", Context())
        import colorsys
        print(colorsys.rgb_to_hsv(0, 0, 0))
        """
    )
    # Without -P, `python -c` itself would look into the folder first; the program that users call does not.
    done = subprocess.run([sys.executable, "-P", "-c", script], cwd=local, capture_output=True, text=True, check=True)
    assert done.stdout == "(0.0, 0.0, 0)\n"


@pytest.mark.usefixtures("local")
def test_a_judge_is_the_same_in_another_process() -> None:
    script = textwrap.dedent(
        """
        from faircount.components import Context
        from faircount.judges import make_judge
        setting = Context(named={"mine": "any(./mine.py:Long(limit=2), ./mine.py:truth)"})
        print(make_judge("mine", setting).identity.digest)
        """
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    setting = Context(named={"mine": "any(./mine.py:Long(limit=2), ./mine.py:truth)"})
    assert done.stdout.strip() == make_judge("mine", setting).identity.digest
