"""From paths to cases: which files are taken, how they are executed, what is refused, and how metrics are asked.

REBEL itself takes part where FAIRCOUNT_REBEL names a Python interpreter that has it (made with rebel-eval 0.2.0).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from faircount.chat import ChatSettings
from faircount.compat import imports_rebel
from faircount.components import Context, is_there
from faircount.core import Decision, InputError, Verdict
from faircount.readers import AttemptRecord, OutputRecord, encode_record
from faircount.runs import Case, CollectedTests, attempt_of, attempt_record, collect, discover
from tests import peers
from tests.runs import rebel_cases

HEAD = """
from faircount.testing import *
class Passing(Metric):
    def measure(self, input, expected, actual):
        return EvaluationResult(score=1.0, verdict="passed", reason="always")
HI = [Message(role="user", content="hi")]
"""


def test(name: str = "test_a", group: str = "metrics=[Passing()]", **words: str) -> str:
    """Return the text of a test."""
    given = "".join(f", {key}={value}" for key, value in words.items())
    return f"@test_case(messages=HI{given})\ndef {name}():\n    yield TestGroup({group})\n"


test.__test__ = False  # type: ignore[attr-defined]  # it writes tests, and is none

Put = Callable[..., str]


@pytest.fixture(autouse=True)
def _imports_of_our_own() -> Iterator[None]:
    """Let test files leave nothing behind in this process."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith(("_faircount_tests_", "near")):
            del sys.modules[name]


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Write a file in the folder of the test, where the test is, too."""
    monkeypatch.chdir(tmp_path)

    def write(*parts: str, name: str = "test_it.py") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(textwrap.dedent(part) for part in parts), encoding="utf-8")
        return name

    return write


def names(collected: CollectedTests) -> list[str]:
    return [case.name for case in collected.cases]


def refused(*paths: str) -> str:
    with pytest.raises(InputError) as caught:
        collect(paths)
    return str(caught.value)


# -- discovery --------------------------------------------------------------------------------------------------


def test_in_folders_files_are_taken_by_their_names_in_order_and_the_others_are_told(put: Put) -> None:
    for name in ("b_test.py", "a/my_TESTS.py", "a/test_z.py", "helper.py", "a/common.py", "__init__.py", "notes.txt"):
        put("", name=name)
    for name in (".hidden/test_a.py", "venv/pyvenv.cfg", "venv/test_b.py", "lib/site-packages/test_c.py"):
        put("", name=name)
    put("", name="__test__.py")
    found = discover(["."])
    assert [file.path for file in found.files] == ["a/my_TESTS.py", "a/test_z.py", "b_test.py"]
    assert found.passed_over == ("a/common.py", "helper.py")


def test_a_file_that_is_named_is_always_taken_once(put: Put) -> None:
    put("", name="letters.py")
    put("", name="test_a.py")
    found = discover(["letters.py", ".", "./letters.py"])
    assert [file.path for file in found.files] == ["letters.py", "test_a.py"]
    assert found.passed_over == ()


def test_no_file_and_no_test_file_are_errors(put: Put) -> None:
    put("", name="empty/helper.py")
    assert refused("nowhere") == "nowhere: no such file or folder"
    message = refused("empty")
    assert message.startswith("empty: no test files") and "skipped: empty/helper.py" in message


def test_files_without_tests_are_told_and_are_an_error_if_there_are_no_others(put: Put) -> None:
    put("x = 1", name="test_none.py")
    assert refused(".").startswith("test_none.py: no cases; a test is a function decorated with @test_case")
    put(HEAD, test(), name="test_some.py")
    collected = collect(["."])
    assert (names(collected), collected.without_cases) == (["test_a_[]"], ("test_none.py",))


def test_the_digest_is_that_of_the_file(put: Put, tmp_path: Path) -> None:
    path = put(HEAD, test())
    digest = hashlib.sha256((tmp_path / path).read_bytes()).hexdigest()
    assert collect([path]).files == (("test_it.py", digest),)


def test_names_after_two_colons_choose_functions_suites_and_cases(put: Put) -> None:
    grid = "ParameterGrid(parameters={'n': [1, 2]})"
    two = test("test_b", "metrics=[Passing()], postfix='long'", param_grid=grid)
    put(HEAD, test("test_a"), f"{two}    yield TestGroup(metrics=[Passing()])\n")
    every = ["test_a_[]", "test_b_long_[n=1]", "test_b_long_[n=2]", "test_b_[n=1]", "test_b_[n=2]"]
    every = sorted(every)
    assert sorted(names(collect(["test_it.py"]))) == every
    assert names(collect(["test_it.py::test_a"])) == ["test_a_[]"]
    assert sorted(names(collect(["test_it.py::test_b"]))) == every[1:]
    assert names(collect(["test_it.py::test_b_long"])) == ["test_b_long_[n=1]", "test_b_long_[n=2]"]
    assert names(collect(["test_it.py::test_b_[n=2]", ".::test_a"])) == ["test_a_[]", "test_b_[n=2]"]
    assert sorted(names(collect(["test_it.py::test_a", "."]))) == every
    message = refused("test_it.py::test_bb")
    assert message.startswith("test_it.py: no test named test_bb; available: test_b, test_a, test_b_long")


# -- execution --------------------------------------------------------------------------------------------------


def test_a_file_finds_what_is_beside_it_relatively_and_absolutely(put: Put) -> None:
    put("LIMIT = 3", name="deep/near_one.py")
    put("from near_one import LIMIT\nTWICE = 2 * LIMIT", name="deep/near_two.py")
    body = "from .near_one import LIMIT\nimport near_two\nassert (LIMIT, near_two.TWICE) == (3, 6)\n"
    put(HEAD, body, test(), name="deep/test_it.py")
    assert names(collect(["deep"])) == ["test_a_[]"]


def test_files_in_packages_reach_the_packages_above(put: Put) -> None:
    for name in ("near_pkg/__init__.py", "near_pkg/tests/__init__.py"):
        put("", name=name)
    put("WORD = 'w'", name="near_pkg/metrics.py")
    body = "from ..metrics import WORD\nfrom near_pkg.metrics import WORD as SAME\nassert WORD == SAME == 'w'\n"
    put(HEAD, body, test(), name="near_pkg/tests/test_it.py")
    assert names(collect(["near_pkg"])) == ["test_a_[]"]


def test_two_folders_may_have_helpers_of_the_same_name(put: Put) -> None:
    for folder in ("a", "b"):
        put(f"NAME = 'test_{folder}'", name=f"{folder}/near_names.py")
        body = f"import near_names\nassert near_names.NAME == 'test_{folder}'\n"
        put(HEAD, body, test(f"test_{folder}"), name=f"{folder}/test_it.py")
    assert names(collect(["a", "b"])) == ["test_a_[]", "test_b_[]"]


def test_every_collection_executes_the_files_again(put: Put) -> None:
    put(HEAD, test("test_a"))
    assert names(collect(["."])) == ["test_a_[]"]
    put(HEAD, test("test_b"))
    assert names(collect(["."])) == ["test_b_[]"]


def test_what_a_file_prints_goes_to_standard_error(put: Put, capsys: pytest.CaptureFixture[str]) -> None:
    put(HEAD, "print('hello')", test())
    collect(["."])
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "hello\n")


def test_classes_of_a_file_belong_to_a_module_that_is_there(put: Put) -> None:
    body = """
    import dataclasses, sys
    @dataclasses.dataclass
    class Point:
        x: "int" = 1
    assert sys.modules[__name__].Point is Point and __file__.endswith("test_it.py") and __name__ != "test_it"
    """
    put(HEAD, body, test())
    assert names(collect(["."])) == ["test_a_[]"]


def test_a_test_file_that_imports_another_declares_only_its_own(put: Put) -> None:
    put(HEAD, test("test_one"), "SHARED = 5\n", name="test_1.py")
    put(HEAD, "from .test_1 import SHARED\nassert SHARED == 5\n", test("test_two"), name="test_2.py")
    assert names(collect(["."])) == ["test_one_[]", "test_two_[]"]
    # Alone, it brings along what it imports, as in REBEL.
    assert names(collect(["test_2.py"])) == ["test_one_[]", "test_two_[]"]


def test_a_helper_may_make_tests_for_others_even_if_it_is_a_test_file_itself(put: Put) -> None:
    factory = """
    def make(name):
        def function():
            yield TestGroup(metrics=[Passing()])
        function.__name__ = name
        return test_case(messages=HI)(function)
    make("test_made_here")
    """
    put(HEAD, factory, name="test_factory.py")
    put("from .test_factory import make\nmake('test_made_there')\n", name="test_user.py")
    assert names(collect(["."])) == ["test_made_here_[]", "test_made_there_[]"]


@pytest.mark.parametrize(
    ("body", "line", "problem"),
    [
        ("x = 1\nraise RuntimeError('sk-0123456789abcdefghij')", 2, "RuntimeError: sk-…[masked]"),
        ("\nimport sys\nsys.exit(3)", 3, "SystemExit: 3"),
        ("def f(:\n    pass", 1, "SyntaxError: invalid syntax"),
        ("import no_such_module", 1, "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def f():\n    return 1 / 0\nf()", 2, "ZeroDivisionError: division by zero"),
        ("import json\n\njson.loads('{')", 3, "JSONDecodeError: Expecting property name"),
        ("raise RuntimeError('a\\x1b[2Jb')", 1, r"RuntimeError: a\x1b[2Jb"),
    ],
)
def test_a_file_that_fails_is_an_error_with_its_line(put: Put, body: str, line: int, problem: str) -> None:
    put(body)
    assert refused(".").startswith(f"test_it.py:{line}: cannot be loaded: {problem}")


def test_all_files_that_fail_are_told_at_once_and_tests_before_the_failure_do_not_stay(put: Put) -> None:
    put(HEAD, test(), "raise ValueError('one')", name="test_1.py")
    put("raise ValueError('two')", name="test_2.py")
    put(HEAD, test(), name="test_3.py")
    first, *lines = refused(".").splitlines()
    assert first == "the tests cannot be run, for 2 reasons:"
    assert [line.split(": ", 1)[1] for line in lines] == [f"cannot be loaded: ValueError: {n}" for n in ("one", "two")]
    assert lines[0].startswith("  test_1.py:12:") and lines[1].startswith("  test_2.py:1")


def test_an_interruption_is_not_swallowed(put: Put) -> None:
    put("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        collect(["."])


def test_a_file_of_rebels_without_rebel_says_what_to_do(put: Put) -> None:
    put("import nothing_here\n" if is_there("rebel") else "from rebel import test_case\n")
    message = refused(".")
    assert "test_it.py:1: cannot be loaded: ModuleNotFoundError" in message
    if "rebel" in message:
        assert "install rebel-eval, or import from faircount.testing instead: the names are the same" in message


# -- declarations -----------------------------------------------------------------------------------------------


def test_cases_have_rebels_names_and_parameters(put: Put) -> None:
    body = """
    @test_case(
        messages=[Message(role=RoleEnum.system, content="s"), Message(role="user", content="u")],
        tags=["a", "b"],
        expected_output=AssistantOutput(output="x"),
        api_params={"temperature": 0.5, "n": 1},
        param_grid=ParameterGrid(parameters={"n": [2, 3], "stop": ["x"]}),
    )
    def test_grid():
        yield TestGroup(
            metrics=[Passing(), Passing()],
            tags=["b", "c"],
            retry_params=RetryParams(count=4, aggregation_strategy="max"),
        )
        yield TestGroup(metrics=[Passing()], postfix="more")
    """
    put(HEAD, body)
    cases = collect(["."]).cases
    assert [case.name for case in cases] == [
        "test_grid_[n=2_stop=x]",
        "test_grid_[n=3_stop=x]",
        "test_grid_more_[n=2_stop=x]",
        "test_grid_more_[n=3_stop=x]",
    ]
    first, last = cases[0], cases[-1]
    assert first.tags == ("a", "b", "c") and last.tags == ("a", "b")
    assert first.api_params == {"temperature": 0.5, "n": 2, "stop": "x"}
    assert first.messages == ({"role": "system", "content": "s"}, {"role": "user", "content": "u"})
    assert first.expected == {"output": "x", "tools_called": [], "context": [], "execution_time": None}
    assert (first.attempts, first.aggregation, last.attempts, last.aggregation) == (4, "max", 1, "mean")
    assert [metric.name for metric in first.metrics] == ["Passing", "Passing #2"]
    assert (first.function, first.suite, last.suite) == ("test_grid", "test_grid", "test_grid_more")
    assert first.place == "test_it.py:17" and last.place == "test_it.py:22"


@pytest.mark.parametrize(
    "body",
    [
        "    return [TestGroup(metrics=[Passing()])]",
        "    return (TestGroup(metrics=[Passing()]),)",
        "    return TestGroup(metrics=[Passing()])",
        "    yield from [TestGroup(metrics=[Passing()])]",
    ],
)
def test_a_function_may_yield_or_return_its_groups(put: Put, body: str) -> None:
    put(HEAD, f"@test_case(messages=HI)\ndef test_a():\n{body}\n")
    (case,) = collect(["."]).cases
    assert case.place.startswith("test_it.py:")


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (test(group="metrics=[]"), 10, "test_a: metrics is empty"),
        (test(group="metrics=[Passing]"), 10, "test_a: a metric needs a method measure; this is the class Passing;"),
        (test(group="metrics=['x']"), 10, "test_a: a metric needs a method measure; this is a str"),
        (test(group="metrics=[Passing()], retry_params=RetryParams(count=0)"), 10, "test_a: retry_params: count is 0"),
        (
            test(group="metrics=[Passing()], retry_params=RetryParams(count=-1)"),
            10,
            "test_a: retry_params: count is -1",
        ),
        (
            test(group="metrics=[Passing()], retry_params=RetryParams(count=1, aggregation_strategy='average')"),
            10,
            'test_a: no such aggregation: "average"; available: mean, median',
        ),
        (
            test(group="metrics=[Passing()], retry_params=RetryParams(count=2, aggregation_strategy='pass@3')"),
            10,
            "test_a: pass@3 needs 3 attempts or more, but there are 2",
        ),
        (test(param_grid="ParameterGrid(parameters={'n': []})"), 10, "test_a: param_grid: n has no values"),
        (test(api_params="{'f': print}"), 10, "test_a: api_params: f cannot be sent as plain data"),
        (
            test(api_params="{'t': float('nan')}"),
            10,
            "test_a: api_params: t cannot be sent as plain data: Out of range",
        ),
        (
            "@test_case([Message(role='user', content=[print])])\ndef test_a():\n    yield TestGroup([Passing()])",
            10,
            "test_a: messages cannot be sent as plain data",
        ),
        ("@test_case(messages=[])\ndef test_a():\n    yield TestGroup(metrics=[Passing()])", 10, "test_a: messages is"),
        ("@test_case(messages=HI)\ndef test_a():\n    pass", 8, "cannot be loaded: TypeError: test_a: must yield or"),
        (
            "@test_case(messages=HI)\ndef test_a():\n    yield 3",
            8,
            "cannot be loaded: TypeError: test_a: must yield or",
        ),
        ("@test_case(messages=HI)\nasync def test_a():\n    yield 3", 8, "cannot be loaded: TypeError: test_a: must"),
        (test(group="metrics=[JudgeMetric(judge='refusel')]"), 10, "refusel"),
    ],
)
def test_what_would_be_lost_later_is_refused_with_its_place(put: Put, text: str, line: int, problem: str) -> None:
    put(HEAD, text)
    assert refused(".").startswith(f"test_it.py:{line}: {problem}")


def test_two_cases_of_one_name_are_an_error_that_names_both_places(put: Put) -> None:
    put(HEAD, test(), name="test_1.py")
    put(HEAD, test(), name="test_2.py")
    message = refused(".")
    assert message == (
        "two cases are both named test_a_[], at test_1.py:10 and test_2.py:10; rename one, or give its "
        "TestGroup a postfix"
    )


def test_two_groups_of_one_name_and_values_written_alike_are_errors(put: Put) -> None:
    put(HEAD, f"{test()}    yield TestGroup(metrics=[Passing()])\n")
    assert "at test_it.py:10 and test_it.py:11;" in refused(".")
    # Only groups of one test get numbers: another test of the same name is a mistake, whatever measures it.
    put(HEAD, test(), test(group="metrics=[JudgeMetric('refusal')]").replace("HI", "[*HI, *HI]"))
    assert "two cases are both named test_a_[]" in refused(".")
    put(HEAD, test(param_grid="ParameterGrid(parameters={'n': [1, '1']})"))
    assert (
        refused(".")
        == "test_it.py:10: two cases are both named test_a_[n=1]: two values of the grid are written the same"
    )


def test_judges_that_files_name_are_made_with_the_setting_of_the_run(put: Put) -> None:
    put(HEAD, test(group="metrics=[JudgeMetric(judge='mine'), JudgeMetric(judge='llm(rubric=\"good?\")')]"))
    setting = Context(chat=ChatSettings(model="judge-1"), named={"mine": 'contains(text="x")'})
    (case,) = collect(["."], context=setting).cases
    assert case.metrics[0].name == 'strings.Contains(text="x")' and not case.metrics[0].blocking
    assert case.metrics[1].parameters["parameters"]["model"] == "judge-1" and case.metrics[1].blocking


# -- metrics ----------------------------------------------------------------------------------------------------


ANSWER = OutputRecord("Paris", [], ["c"], 0.25)


def case_with(put: Put, body: str, group: str = "metrics=[Own()]", **words: str) -> Case:
    put(HEAD, body, test(group=group, **words))
    (case,) = collect(["."]).cases
    return case


def said(score: float | None, verdict: str, reason: str, error: str | None = None, by: str = "Own") -> Verdict:
    decision = {"success": Decision.HIT, "failure": Decision.PASS, "error": None}[verdict]
    return Verdict(decision, score, reason, error=error, judge=by)


def measured(put: Put, statement: str, *, word: str = "def") -> Verdict:
    body = f"class Own(Metric):\n    {word} measure(self, input, expected, actual):\n        {statement}\n"
    case = case_with(put, body)
    return case.metrics[0].measure(case, ANSWER)


NO_RESULT = "the metric returned %s, not an EvaluationResult"
WRONG_SCORE = "the score must be a number, not str"
WRONG_VERDICT = "the verdict must be passed, failed or error, not 'great'"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("return EvaluationResult(score=0.5, verdict='failed', reason='r')", said(0.5, "failure", "r")),
        ("return EvaluationResult(score=0, verdict='error', reason='r')", said(0.0, "error", "r", "r")),
        ("raise ValueError('no')", said(None, "error", "no", "ValueError: no")),
        ("raise ValueError('two\\nlines')", said(None, "error", "two\nlines", "ValueError: two")),
        ("raise SystemExit(3)", said(None, "error", "3", "SystemExit: 3")),
        ("raise TimeoutError", said(None, "error", "TimeoutError", "TimeoutError")),
        ("return None", said(None, "error", NO_RESULT % "None", NO_RESULT % "None")),
        ("return 0.5", said(None, "error", NO_RESULT % "a float", NO_RESULT % "a float")),
        (
            "from types import SimpleNamespace as N; return N(score=1, verdict='passed', reason=None)",
            said(1.0, "success", ""),
        ),
        (
            "from types import SimpleNamespace as N; return N(score='x', verdict='passed', reason='')",
            said(None, "error", WRONG_SCORE, f"TypeError: {WRONG_SCORE}"),
        ),
        (
            "from types import SimpleNamespace as N; return N(score=1, verdict='great', reason='')",
            said(None, "error", WRONG_VERDICT, f"ValueError: {WRONG_VERDICT}"),
        ),
    ],
)
def test_whatever_a_metric_does_becomes_something_to_write_down(put: Put, statement: str, expected: Verdict) -> None:
    assert measured(put, statement) == expected


def test_a_score_that_is_no_number_is_kept_and_written_as_null(put: Put) -> None:
    told = measured(put, "return EvaluationResult(score=float('nan'), verdict='passed', reason='')")
    assert told.score is not None and told.score != told.score
    begun, half = AttemptRecord("a", 0), said(0.5, "success", "")
    (record, other) = attempt_record(begun, None, None, [told, half]).verdicts
    assert (record.score, record.score_as_told) == (None, "nan")
    assert (other.score, other.verdict, other.metric) == (0.5, "success", half.judge)


ASYNC = "import asyncio; await asyncio.sleep(0); return EvaluationResult(score=1.0, verdict='passed', reason='later')"


def test_coroutine_functions_are_waited_for_from_any_thread_and_inside_a_loop(put: Put) -> None:
    assert measured(put, ASYNC, word="async def") == said(1.0, "success", "later")
    case = collect(["."]).cases[0]

    async def inside() -> Verdict:
        return case.metrics[0].measure(case, ANSWER)

    assert asyncio.run(inside()).decision == "hit"
    with ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(lambda _: case.metrics[0].measure(case, ANSWER).decision, range(20)))
    assert verdicts == ["hit"] * 20
    failing = measured(put, "raise ValueError('later')", word="async def")
    assert failing.error == "ValueError: later"


def test_a_metric_is_called_by_name_as_rebel_calls_it(put: Put) -> None:
    body = """
    class Own(Metric):
        def measure(self, actual, input, expected):
            told = f"{input.messages[-1].content} {actual.output} {expected.output} {input.api_params}"
            return EvaluationResult(score=1.0, verdict="passed", reason=told)
    """
    case = case_with(put, body, api_params="{'n': 1}", expected_output="AssistantOutput(output='Rome')")
    assert case.metrics[0].measure(case, ANSWER).reason == "hi Paris Rome {'n': 1}"


def test_a_metric_that_changes_what_it_is_given_changes_it_for_nobody_else(put: Put) -> None:
    body = """
    class Own(Metric):
        def measure(self, input, expected, actual):
            seen = f"{len(input.messages)} {len(actual.context)} {actual.output}"
            input.messages.clear(), actual.context.clear(), input.api_params.clear()
            actual.output = "changed"
            return EvaluationResult(score=1.0, verdict="passed", reason=seen)
    """
    case = case_with(put, body, "metrics=[Own(), Own()]", api_params="{'n': 1}")
    assert [metric.measure(case, ANSWER).reason for metric in case.metrics] == ["1 1 Paris"] * 2
    assert ANSWER.context == ["c"] and case.api_params == {"n": 1}


def test_anything_with_measure_is_a_metric(put: Put) -> None:
    body = """
    class Own:
        __slots__ = ()
        def measure(self, input, expected, actual):
            return EvaluationResult(score=1.0, verdict="passed", reason="duck")
    """
    case = case_with(put, body)
    metric = case.metrics[0]
    assert (metric.name, metric.parameters, metric.blocking) == ("Own", {}, True)
    assert metric.measure(case, ANSWER) == said(1.0, "success", "duck")
    metric.ready()
    metric.close()


def test_secrets_of_a_metric_are_neither_recorded_nor_told(put: Put) -> None:
    body = """
    class Own(Metric):
        api_key: str
        config: dict
        letter: str = "r"
        def measure(self, input, expected, actual):
            raise RuntimeError(f"refused {self.api_key} and {self.config['token']}")
    """
    group = "metrics=[Own(api_key='very secret', config={'token': 'hush hush', 'url': 'u'})]"
    case = case_with(put, body, group, api_params="{'extra_headers': {'Authorization': 'Basic abc'}}")
    written = encode_record(case.record()).decode()
    assert "very secret" not in written and "hush hush" not in written and "Basic abc" not in written
    parameters = {"api_key": "[secret]", "config": {"token": "[secret]", "url": "u"}, "letter": "r"}
    assert case.metrics[0].parameters == parameters
    assert case.api_params["extra_headers"] == {"Authorization": "Basic abc"}
    assert case.metrics[0].measure(case, ANSWER).error == "RuntimeError: refused [key] and [key]"
    assert "very secret" not in repr(case.metrics[0])


def test_the_identity_of_a_metric_follows_its_parameters_and_its_code(put: Put) -> None:
    body = """
    class Own(Metric):
        letter: str = "r"
        api_key: str = "one"
        def measure(self, input, expected, actual):
            return EvaluationResult(score=1.0, verdict="passed", reason="")
    """
    groups = "metrics=[Own(), Own(letter='r', api_key='two'), Own(letter=Own), Own(letter=HI[0])]"
    case = case_with(put, body, groups)
    first, same, *others = (metric.digest for metric in case.metrics)
    assert first == same and len({first, *others}) == 3
    assert case.metrics[2].parameters["letter"] == "test_it.Own"
    assert case.metrics[0].type == "test_it.Own"
    assert [metric.digest for metric in collect(["."]).cases[0].metrics] == [first, same, *others]
    changed = case_with(put, body.replace("score=1.0", "score=0.5"), groups)
    assert changed.metrics[0].digest != first


def test_the_identity_of_a_built_in_metric_follows_the_code_of_its_parts(put: Put) -> None:
    body = """
    class Own(ToolCallDistance):
        def measure(self, first_call, second_call):
            return 1.0
    """
    case = case_with(put, body, "metrics=[ToolCallsAccuracy(distance=Own()), ToolCallsAccuracy()]")
    first, plain = case.metrics
    assert first.parameters["distance"] == {"type": "test_it.Own"} and first.version != plain.version
    changed = case_with(put, body.replace("1.0", "0.5"), "metrics=[ToolCallsAccuracy(distance=Own())]")
    assert changed.metrics[0].digest != first.digest


def test_a_case_is_written_as_the_journal_has_it(put: Put) -> None:
    case = case_with(put, "", "metrics=[ToolCallsAccuracy()], retry_params=RetryParams(count=2)", tags="['t']")
    record = json.loads(encode_record(case.record()))
    assert record["kind"] == "case" and record["case"] == "test_a_[]" and record["tags"] == ["t"]
    assert record["input"] == {"messages": [{"role": "user", "content": "hi"}], "api_params": {}}
    assert record["expected_output"] == {"output": "", "tools_called": [], "context": [], "execution_time": None}
    assert record["retry_params"] == {"count": 2, "aggregation_strategy": "mean"}
    (metric,) = record["metrics"]
    assert (metric["name"], metric["identity"]) == ("Tool Calls Accuracy", case.metrics[0].digest)
    assert metric["parameters"]["threshold"] == 0.5
    assert record["place"] == "test_it.py:11"


def test_judges_see_a_case_and_its_answer_as_an_attempt(put: Put) -> None:
    silent = case_with(put, "", "metrics=[Passing()]")
    attempt = attempt_of(silent, ANSWER)
    assert (attempt.prompt, attempt.response, attempt.context, attempt.latency) == ("hi", "Paris", ("c",), 0.25)
    assert attempt.expected.tools_called is None and attempt.expected.output is None
    told = case_with(put, "", "metrics=[Passing()]", expected_output="AssistantOutput(tools_called=[], output='x')")
    assert attempt_of(told, ANSWER).expected.tools_called == () and attempt_of(told, ANSWER).expected.output == "x"


def test_calls_that_nobody_expected_mean_none_to_rebels_metric_and_nothing_to_the_judge(put: Put) -> None:
    case = case_with(put, "", "metrics=[ToolCallsAccuracy(), JudgeMetric(judge='tool-calls')]")
    assert [metric.measure(case, ANSWER).decision for metric in case.metrics] == ["hit", None]


# -- REBEL ------------------------------------------------------------------------------------------------------


STAND_IN = {
    "rebel/__init__.py": "from rebel.extractor.test_case_registry import test_case\n",
    "rebel/extractor/__init__.py": "",
    "rebel/extractor/test_case_registry.py": """
        from rebel.models import Data
        test_suites = []
        def test_case(messages, tags=[], expected_output=None, api_params={}, param_grid=None):
            def decorate(function):
                test_suites.extend([
                    Data(name=f"{function.__name__}_{group.postfix}" if group.postfix else function.__name__,
                         messages=messages, tags=tags, api_params=api_params, expected_output=Data(),
                         parameter_grid=Data(parameters={}), metrics=group.metrics,
                         retry_params=Data(count=group.count, aggregation_strategy=None))
                    for group in function()
                ])
                return function
            return decorate
    """,
    "rebel/models.py": """
        class Data:
            def __init__(self, **values):
                self.__dict__.update(values)
            def model_dump(self, include=None):
                return {k: v for k, v in vars(self).items() if include is None or k in include}
            @property
            def model_fields_set(self):
                return set(vars(self))
        class Message(Data): ...
        class AssistantInput(Data): ...
        class AssistantOutput(Data): ...
        class ToolCall(Data): ...
        class TestGroup(Data):
            postfix, count = None, 1
        class Metric(Data):
            def get_name(self):
                return "Own"
    """,
}


def test_a_file_of_rebels_runs_unchanged_where_a_rebel_is(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_there("rebel"):
        pytest.skip("REBEL itself is here")
    for name, text in STAND_IN.items():
        put(text, name=f"near_lib/{name}")
    monkeypatch.syspath_prepend("near_lib")
    body = """
    from rebel import test_case
    from rebel.models import Message, Metric, TestGroup
    class Own(Metric):
        def measure(self, input, expected, actual):
            word = f"{type(input).__module__} {actual.output} {input.messages[0].content}"
            return type("R", (), {"score": 1, "verdict": "passed", "reason": word})
    @test_case(messages=[Message(role="user", content="hi")])
    def test_a():
        yield TestGroup(metrics=[Own()])
        yield TestGroup(metrics=[Own()], postfix="b", count=COUNT)
    """
    body = textwrap.dedent(body)
    try:
        put(body.replace("COUNT", "2"), name="tests/test_it.py")
        put(
            "from test_it import test_a\n" + body.replace("COUNT", "2").replace("test_a()", "test_z()"),
            name="tests/test_z.py",
        )
        put("import near_indirect", name="tests/test_y.py")
        put(body.replace("COUNT", "2").replace("test_a()", "test_y()"), name="tests/near_indirect.py")
        cases = collect(["tests"]).cases
        assert [case.name for case in cases] == [f"test_{n}_{b}[]" for n in "ayz" for b in ("", "b_")]
        assert [(case.attempts, case.place) for case in cases[:2]] == [
            (1, "tests/test_it.py:8"),
            (2, "tests/test_it.py:8"),
        ]
        assert cases[1].is_called("test_a") and cases[1].function == "test_a"
        assert cases[2].place == "tests/test_y.py:1"
        assert cases[0].metrics[0].measure(cases[0], ANSWER) == said(1.0, "success", "rebel.models Paris hi")
        registry = sys.modules["rebel.extractor.test_case_registry"]
        assert registry.test_suites == []
        put(body.replace("COUNT", "0"), name="tests/test_it.py")
        assert "test_it.py:8: test_a_b: retry_params: count is 0" in refused("tests/test_it.py")
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "rebel"]:
            del sys.modules[name]


@pytest.mark.peer
def test_rebel_itself_and_we_collect_the_same_cases(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    assert peers.run_file("rebel", tmp_path, rebel_cases.__file__, str(tmp_path / "tests")) == "all good\n"


def test_the_same_file_runs_with_only_its_imports_changed(put: Put) -> None:
    put(rebel_cases.NEAR, name="near.py")
    put(rebel_cases.ours(rebel_cases.PLAIN))
    collected = collect(["."])
    assert len(collected.cases) == 13 and collected.passed_over == ("near.py",)
    tools, letters = collected.cases[-1], collected.cases[0]
    assert tools.metrics[0].measure(tools, rebel_cases.answer("x")).decision == "hit"
    assert letters.metrics[0].measure(letters, rebel_cases.answer("2")) == said(
        1.0, "success", "faircount 0 1", by="Letters"
    )


def test_whether_a_file_imports_rebel_is_seen_without_executing_it() -> None:
    assert imports_rebel(b"if 1:\n    from rebel.models import X")
    assert imports_rebel(b"import os, rebel.metrics")
    assert not imports_rebel(b"from rebellion import x\n'rebel'\nfrom .rebel import y")
    assert not imports_rebel(b"from rebel import (")
