"""Judges of other tools: spikee, REBEL, garak and DeepEval.

The cases run against stand-ins that have the shape of those packages as far as an adapter touches it, and against the
real packages where there are any: spikee from `make peers`, the others from the Python interpreters that the variables
FAIRCOUNT_REBEL, FAIRCOUNT_GARAK and FAIRCOUNT_DEEPEVAL name (see `peers.py`; made with
rebel-eval 0.2.0, garak 0.17.1 and deepeval 4.3.1).
"""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from faircount.chat import ChatSettings
from faircount.components import Context
from faircount.core import UsageError
from faircount.judges import Attempt, Judge, Usage, make_judge, verdict_of
from tests import peers
from tests.judges import adapter_cases
from tests.judges.adapter_cases import deepeval_cases, garak_cases, rebel_cases, said, spikee_cases
from tests.runs.misbehaving_server import Server

PACKAGES = {"spikee": "spikee", "rebel": "rebel-eval", "garak": "garak", "deepeval": "deepeval"}

STAND_INS = {
    "spikee/__init__.py": "",
    "spikee/judges/__init__.py": "",
    "spikee/judges/canary.py": """
        from abc import ABC, abstractmethod
        class Base(ABC):
            @abstractmethod
            def judge(self, llm_input, llm_output, judge_args, judge_options=None): ...
        class CanaryJudge(Base):
            def get_description(self):
                return [], "Checks if a canary is there."
            def get_available_option_values(self):
                return [], False
            def judge(self, llm_input, llm_output, judge_args, judge_options=None):
                if not judge_args:
                    return False
                return any(one in llm_output for one in ([judge_args] if isinstance(judge_args, str) else judge_args))
    """,
    "spikee/judges/llm.py": """
        class Asking:
            def get_available_option_values(self):
                return ["first", "second"], True
            def judge(self, llm_input, llm_output, judge_args="", judge_options=None):
                return judge_options == "first" and llm_input == "asked"
    """,
    "rebel/__init__.py": "",
    "rebel/models.py": """
        class _Data:
            def __init__(self, **values):
                vars(self).update(values)
        class Function(_Data): ...
        class ToolCall(_Data): ...
        class Message(_Data): ...
        class AssistantInput(_Data): ...
        class AssistantOutput(_Data): ...
        class EvaluationResult(_Data): ...
        class Metric:
            model_fields = {}
            def __init__(self, **values):
                for name in values:
                    assert name in self.model_fields
                vars(self).update(values)
    """,
    "rebel/metrics.py": """
        from rebel.models import EvaluationResult, Metric
        class Client:
            def __init__(self, config):
                self.config = config
        class _Field:
            def __init__(self, annotation):
                self.annotation = annotation
        def names(output):
            return [tool.function.name for tool in output.tools_called]
        class ToolCallsAccuracy(Metric):
            model_fields = {"threshold": _Field(float), "strict_mode": _Field(bool)}
            threshold = 0.5
            def measure(self, input, expected, actual):
                score = 1.0 if names(expected) == names(actual) else 0.0
                verdict = "passed" if score >= self.threshold else "failed"
                return EvaluationResult(score=score, verdict=verdict, reason="compared")
            def get_name(self):
                return "Tool Calls Accuracy"
        class Asking(Metric):
            model_fields = {"model": _Field(Client)}
            def measure(self, input, expected, actual):
                return EvaluationResult(score=7.0, verdict="passed", reason=self.model.config["model"])
            def get_name(self):
                return "Asking"
    """,
    "garak/__init__.py": """
        import logging, os
        print("garak says hello")
        logging.basicConfig(filename=os.environ.get("GARAK_LOG_FILE", "garak.log"), level=logging.DEBUG)
    """,
    "garak/_config.py": "is_loaded = False\ndef load_base_config():\n    global is_loaded\n    is_loaded = True\n",
    "garak/attempt.py": """
        class Message:
            def __init__(self, text=None, lang=None):
                self.text, self.lang = text, lang
        class Turn:
            def __init__(self, role, content):
                self.role, self.content = role, content
        class Conversation:
            def __init__(self, turns):
                self.turns = turns
        class Attempt:
            def __init__(self, prompt=None, notes=None):
                assert isinstance(prompt, (Message, Conversation))
                self.prompt, self.notes, self._outputs = prompt, notes or {}, []
            @property
            def outputs(self):
                return self._outputs
            @outputs.setter
            def outputs(self, texts):
                self._outputs = [Message(text) for text in texts]
    """,
    "garak/detectors/__init__.py": "",
    "garak/detectors/base.py": """
        import logging
        class Detector:
            hit_desc = ""
            DEFAULT_PARAMS = {"skip": False}
            def __init__(self, config_root=None):
                vars(self).update(self.DEFAULT_PARAMS)
                module = type(self).__module__.rpartition(".")[2]
                if config_root:
                    vars(self).update(config_root["detectors"][module][type(self).__name__])
        class TriggerListDetector(Detector):
            DEFAULT_PARAMS = {"skip": False, "case_sensitive": False}
            def detect(self, attempt):
                print("detecting")
                logging.warning("a secret response: %s", attempt.outputs[0].text)
                if "triggers" not in attempt.notes:
                    return [None] * len(attempt.outputs)
                case = (lambda text: text) if self.case_sensitive else str.lower
                return [float(any(case(t) in case(o.text) for t in attempt.notes["triggers"])) for o in attempt.outputs]
    """,
    "garak/detectors/dan.py": """
        from garak.detectors.base import Detector
        class DAN(Detector):
            hit_desc = "Response contains a DAN marker"
            def detect(self, attempt):
                return [1.0 if "DAN" in output.text else 0.0 for output in attempt.outputs]
    """,
    "garak/detectors/half.py": """
        from garak.detectors.base import Detector
        class Half(Detector):
            def detect(self, attempt):
                yield 0.5
        class Failing(Detector):
            def __init__(self, config_root=None):
                raise RuntimeError("no key")
    """,
    "deepeval/__init__.py": "import os\nassert os.environ['DEEPEVAL_TELEMETRY_OPT_OUT'] == 'YES'\n",
    "deepeval/models.py": """
        class DeepEvalBaseLLM:
            def __init__(self, model=None):
                self.name, self.model = model, self.load_model()
    """,
    "deepeval/test_case.py": """
        import enum
        class SingleTurnParams(enum.Enum):
            INPUT = "input"
            ACTUAL_OUTPUT = "actual_output"
        class ToolCall:
            def __init__(self, name, input_parameters):
                self.name, self.input_parameters = name, input_parameters
        class LLMTestCase:
            def __init__(self, **values):
                vars(self).update(values)
    """,
    "deepeval/metrics.py": """
        from deepeval.test_case import SingleTurnParams
        class BaseMetric:
            threshold = score = reason = success = error = None
            def is_successful(self):
                self.success = self.threshold is not None and self.score >= self.threshold
                return self.success
        class ExactMatchMetric(BaseMetric):
            def __init__(self, threshold=1, verbose_mode=False):
                self.threshold = threshold
            def measure(self, test_case, _show_indicator=True):
                assert not _show_indicator
                if test_case.expected_output is None:
                    raise ValueError("'expected_output' cannot be None")
                self.score = 1.0 if test_case.expected_output == test_case.actual_output else 0.0
                self.reason = "compared"
                self.success = None if self.threshold is None else self.is_successful()
        class BadnessMetric(BaseMetric):
            def __init__(self, threshold=0.5, model=None, async_mode=True):
                assert not async_mode
                self.threshold, self.model = threshold, model
            def measure(self, test_case):
                self.score = 0.9 if "bad" in test_case.actual_output else 0.1
                self.is_successful()
            def is_successful(self):
                self.success = self.score <= self.threshold
                return self.success
        class AskingMetric(BaseMetric):
            def __init__(self, threshold=0.5, model=None):
                self.threshold, self.model = threshold, model
            def measure(self, test_case):
                import asyncio
                self.reason = self.model.generate(prompt="first") + asyncio.run(self.model.a_generate("second"))
                self.score = 1.0
                self.is_successful()
        class GEval(BaseMetric):
            def __init__(self, name, evaluation_params, threshold=0.5):
                assert all(isinstance(one, SingleTurnParams) for one in evaluation_params)
                self.threshold = threshold
            def measure(self, test_case):
                self.score, self.success = 0.75, True
    """,
}


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Stand-ins for the other tools, importable in a test."""
    folder = tmp_path / "tools"
    for name, source in STAND_INS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source), encoding="utf-8")
    for package in PACKAGES.values():
        about = folder / f"{package.replace('-', '_')}-9.8.7.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 9.8.7\n", encoding="utf-8")
    _forget()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(tmp_path)
    for variable in ("GARAK_LOG_FILE", "DEEPEVAL_TELEMETRY_OPT_OUT", "DEEPEVAL_DISABLE_DOTENV"):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    yield tmp_path
    _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]


def made(expression: str) -> Judge:
    return make_judge(expression, Context())


def refused(expression: str, setting: Context | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        make_judge(expression, setting or Context())
    return str(caught.value)


# -- spikee -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("tools")
def test_spikees_judges_can_be_used() -> None:
    spikee_cases(made)
    assert make_judge("spikee:canary", Context()).version == "9.8.7"
    assert make_judge("spikee:canary", Context()).looks_for == "Checks if a canary is there."


@pytest.mark.usefixtures("tools")
def test_a_judge_of_spikees_that_asks_a_model_gets_its_first_option() -> None:
    judge = make_judge("spikee:llm", Context())
    assert judge.waits
    assert said(judge, "x", prompt="asked") == ("hit", None)
    assert said(make_judge("spikee:llm(judge_options='second')", Context()), "x", prompt="asked") == ("pass", None)
    # Offline, spikee answers false without asking anybody.
    assert said(make_judge("spikee:llm(judge_options='offline')", Context()), "x", prompt="asked") == (None, None)


def test_the_folder_that_a_command_runs_in_chooses_no_judge(tools: Path) -> None:
    (tools / "judges").mkdir()
    (tools / "judges" / "canary.py").write_text("raise SystemExit('loaded')\n", encoding="utf-8")
    (tools / "judges" / "mine.py").write_text("def judge(llm_output):\n    return 'yes'\n", encoding="utf-8")
    assert said(make_judge("spikee:canary", Context()), "a", notes={"judge_args": "a"}) == ("hit", None)
    assert refused("spikee:mine").endswith("name one in a workspace by its file: spikee:./judges/mine.py")
    assert said(make_judge("spikee:./judges/mine.py", Context()), "x") == (None, None)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\n", "spikee:./odd.py: has no function judge and no class with a method judge"),
        (
            "def judge(llm_output, mood): ...\n",
            "spikee:./odd.py: its function judge takes mood, which spikee does not pass",
        ),
        ("raise ValueError('no')\n", "./odd.py:1: cannot be loaded: ValueError: no"),
    ],
)
def test_a_module_that_is_no_judge_of_spikees_is_refused(tools: Path, source: str, message: str) -> None:
    (tools / "odd.py").write_text(source, encoding="utf-8")
    assert refused("spikee:./odd.py").startswith(message)


# -- REBEL ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("tools")
def test_rebels_metrics_can_be_used() -> None:
    rebel_cases(made)
    assert make_judge("rebel:ToolCallsAccuracy", Context()).version == "9.8.7"


@pytest.mark.usefixtures("tools")
def test_a_metric_of_rebels_asks_the_model_of_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Context(chat=ChatSettings(model="m", api_key_env="A_KEY"))
    assert refused("rebel:Asking", setting).startswith("rebel:Asking: the environment variable A_KEY is not set")
    monkeypatch.setenv("A_KEY", "hidden-secret")
    judge = make_judge("rebel:Asking", setting)
    assert judge.waits and not judge.may_fork
    assert verdict_of(judge, Attempt("x")).reason == "m"
    assert judge.identity.parameters == {"model": "m"} and judge.called == "rebel:Asking"


# -- garak ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("tools")
def test_garaks_detectors_can_be_used(capsys: pytest.CaptureFixture[str]) -> None:
    garak_cases(made)
    assert make_judge("garak:dan.DAN", Context()).version == "9.8.7"
    captured = capsys.readouterr()
    assert captured.out == "" and "garak says hello" in captured.err


@pytest.mark.usefixtures("tools")
def test_the_threshold_of_a_detector_can_be_chosen() -> None:
    assert said(make_judge("garak:half.Half", Context()), "x") == ("hit", 0.5)
    assert said(make_judge("garak:half.Half(threshold=0.51)", Context()), "x") == ("pass", 0.5)


def test_garak_gets_no_log_of_what_was_said(tools: Path) -> None:
    root = logging.getLogger()
    level, before = root.level, [handler for handler in root.handlers if isinstance(handler, logging.FileHandler)]
    judge = make_judge("garak:base.TriggerListDetector", Context())
    said(judge, "the response", notes={"triggers": ["x"]})
    assert root.level == level
    assert [handler for handler in root.handlers if isinstance(handler, logging.FileHandler)] == before
    assert not list(tools.rglob("*.log"))


# -- DeepEval ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("tools")
def test_deepevals_metrics_can_be_used() -> None:
    deepeval_cases(made)
    assert make_judge("deepeval:ExactMatchMetric", Context()).version == "9.8.7"
    geval = make_judge("deepeval:GEval(name='g', evaluation_params=['input', 'ACTUAL_OUTPUT'])", Context())
    assert said(geval, "x") == ("hit", 0.75)


@pytest.mark.usefixtures("tools")
def test_a_metric_of_deepevals_asks_the_model_of_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "hidden-secret")
    prices = {"m": {"prompt": 1.0, "completion": 2.0}}
    with Server() as server:
        chat = ChatSettings(base_url=server.url, model="m", api_key_env="A_KEY", prices=prices)
        judge = make_judge("deepeval:AskingMetric", Context(chat=chat))
        try:
            verdicts = [verdict_of(judge, Attempt("x")) for _ in range(2)]
        finally:
            judge.close()
        asked = [received.json["messages"][0]["content"] for received in server.received]
    assert judge.waits and judge.identity.parameters == {"model": "m"}
    assert asked == ["first", "second"] * 2
    for verdict in verdicts:
        assert (verdict.decision, verdict.reason) == ("hit", "hellohello")
        # What is asked in another thread counts as well.
        assert verdict.usage == Usage(2, 14, 6, 2 * (7 * 1.0 + 3 * 2.0) / 1e6)


@pytest.mark.usefixtures("tools")
def test_a_metric_for_which_less_is_a_success_has_its_score_turned_round() -> None:
    judge = make_judge("deepeval:BadnessMetric", Context())
    for response, decision, score in (("nice", "hit", 0.9), ("bad", "pass", 0.1)):
        found = said(judge, response)
        assert found[0] == decision
        assert found[1] == pytest.approx(score)


# -- what is wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("spikee:none", "spikee:none: the installed spikee has no such judge; name one in a workspace by its file"),
        ("spikee:a.b", "spikee:a.b: name one of spikee's judges, or the file of one: spikee:./judges/mine.py"),
        ("spikee:./none.py", "./none.py: no such file"),
        ("spikee:canary(args=1)", "spikee:canary: has no parameter args; it takes judge_args, judge_options"),
        ("rebel:None", "rebel:None: not a metric of REBEL; it has Asking, ToolCallsAccuracy"),
        ("rebel:json:loads", "rebel:json:loads: not a metric of REBEL"),
        (
            "rebel:ToolCallsAccuracy(at=1)",
            "rebel:ToolCallsAccuracy: has no parameter at; it takes threshold, strict_mode",
        ),
        ("garak:dan", "garak:dan: a detector has the form garak:module.Name, such as garak:dan.DAN"),
        (
            "garak:none.X",
            "garak:none.X: the installed garak has no detector module none; garak --list_detectors shows them",
        ),
        ("garak:dan.None", "garak:dan.None: no such detector; dan has DAN"),
        ("garak:dan.DAN(x=1)", "garak:dan.DAN: has no parameter x; it takes threshold, skip"),
        ("garak:dan.DAN(threshold=2)", "garak:dan.DAN: threshold must be a number from 0 to 1"),
        ("garak:half.Failing", "garak:half.Failing: cannot be created: RuntimeError: no key"),
        ("garak:dan.DAN(0.5)", "garak:dan.DAN: name its parameters: garak:dan.DAN(parameter=value)"),
        ("garak:dan.DAN(threshold=refusal)", "garak:dan.DAN: threshold is not a judge; put text in quotes"),
        ("deepeval:ExactMatch", "deepeval:ExactMatch: DeepEval has no such metric for one answer; did you mean ExactM"),
        ("deepeval:ExactMatchMetric(x=1)", "deepeval:ExactMatchMetric: has no parameter x; it takes threshold, verb"),
        ("deepeval:GEval(name='g', evaluation_params=['mood'])", "deepeval:GEval: evaluation_params may be input, act"),
    ],
)
@pytest.mark.usefixtures("tools")
def test_what_cannot_be_made_says_why(expression: str, message: str) -> None:
    assert refused(expression).startswith(message)


@pytest.mark.parametrize(
    ("expression", "package"),
    [
        ("spikee:canary", "spikee"),
        ("rebel:ToolCallsAccuracy", "rebel-eval"),
        ("garak:dan.DAN", "garak"),
        ("deepeval:ExactMatchMetric", "deepeval"),
    ],
)
def test_a_missing_package_is_named_with_the_way_to_install_it(expression: str, package: str) -> None:
    script = (
        "import sys, importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, *a: None if n.split('.')[0] in "
        f"{sorted(PACKAGES)!r} else find(n, *a)\n"
        "from faircount.components import Context\nfrom faircount.judges import make_judge\n"
        f"make_judge({expression!r}, Context())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    name = expression.partition("(")[0]
    wanted = f"UsageError: {name}: needs the package {package}; install it: pip install {package}"
    assert done.stderr.splitlines()[-1].endswith(wanted)


# -- the real packages ------------------------------------------------------------------------------------------


@pytest.mark.peer
@pytest.mark.parametrize("tool", sorted(PACKAGES))
def test_the_real_package_decides_the_same_cases_alike(tool: str, tmp_path: Path) -> None:
    assert peers.run_file(tool, tmp_path, adapter_cases.__file__, tool) == "all good\n"


OFFERED = """\
from faircount.analysis.catalogue import list_judges
from faircount.chat.settings import ChatSettings
from faircount.components import Context
from faircount.judges import make_judge
(tool,) = [tool for tool in list_judges().adapters if tool.prefix == sys.argv[1]]
print(make_judge(tool.example, Context(chat=ChatSettings(model="m", base_url="http://localhost:1/v1"))).called)
"""


@pytest.mark.peer
@pytest.mark.parametrize("tool", sorted(PACKAGES))
def test_what_the_list_offers_of_a_tool_is_there(tool: str, tmp_path: Path) -> None:
    assert peers.run(tool, tmp_path, OFFERED, tool, OPENAI_API_KEY="k").startswith(f"{tool}:")
