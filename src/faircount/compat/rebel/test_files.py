"""Test files that are written for REBEL, executed as they are where REBEL is installed.

Such a file declares its tests to REBEL's own registry; while the file is executed, the registry is watched, and what
is added to it is taken over. REBEL's metrics are asked as they are, with REBEL's own objects.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from faircount.components.code import is_there
from faircount.readers.aggregation import DEFAULT
from faircount.testing.cases import AssistantInput, AssistantOutput, Suite, text_of

PACKAGE = "rebel-eval"

_ROOT = "rebel"
_REGISTRY = "rebel.extractor.test_case_registry"
_MODELS = "rebel.models"
_LIST = "test_suites"


class Hears(Protocol):
    """Who takes the suites of a file."""

    def listens(self) -> bool:
        """Tell whether what is executed now is declared here."""

    def here(self) -> str:
        """Return the place that is being executed now."""

    def declare(self, suite: Suite) -> None:
        """Take a suite."""


class _Watched(list[Any]):
    """REBEL's list of suites, for as long as a file is executed; it belongs to that file alone."""

    def __init__(self, who: Hears, source: bytes) -> None:
        super().__init__()
        self._who = who
        self._functions = _functions(source)

    def extend(self, suites: Iterable[Any]) -> None:
        for suite in suites:
            self.append(suite)

    def append(self, suite: Any) -> None:
        if self._who.listens():
            self._who.declare(suite_of(suite, self._who.here(), self._functions))


@contextlib.contextmanager
def watch_registry(who: Hears, place: str, source: bytes) -> Iterator[None]:
    """Let somebody take what a file declares to REBEL."""
    registry = _registry(source)
    if registry is None:
        yield
        # A file that does not name REBEL can import one that does.
        registry = sys.modules.get(_REGISTRY)
        for suite in list(getattr(registry, _LIST, ())):
            who.declare(suite_of(suite, place, ()))
        if registry is not None:
            getattr(registry, _LIST).clear()
        return
    before = getattr(registry, _LIST)
    setattr(registry, _LIST, _Watched(who, source))
    try:
        yield
    finally:
        setattr(registry, _LIST, before)


def _registry(source: bytes) -> Any:
    """Return REBEL's registry, if it is loaded or a file imports REBEL and can."""
    if _REGISTRY not in sys.modules and (not imports_rebel(source) or not is_there(_ROOT)):
        return None
    try:
        return importlib.import_module(_REGISTRY)
    except Exception:  # noqa: BLE001  the file itself will say what is wrong, with its line
        return None


def imports_rebel(source: bytes) -> bool:
    """Tell whether a file imports REBEL."""
    if b"rebel" not in source:
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        if any(name.partition(".")[0] == _ROOT for name in names):
            return True
    return False


def hint_for(error: BaseException) -> str:
    """Return what to do about an error, if it is that REBEL or DeepEval is missing."""
    missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if missing == _ROOT:
        return f"; install {PACKAGE}, or import from faircount.testing instead: the names are the same"
    return "; install it: pip install deepeval" if missing == "deepeval" else ""


def _functions(source: bytes) -> list[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _function(suite: str, functions: Iterable[str]) -> str:
    """Return the function that a suite is named after: REBEL keeps only the name, with the postfix of the group."""
    fitting = [name for name in functions if suite == name or suite.startswith(f"{name}_")]
    return max(fitting, key=len, default=suite)


def suite_of(suite: Any, place: str, functions: Iterable[str]) -> Suite:
    """Return a suite of REBEL's in our words; its metrics stay what they are."""
    asked = AssistantInput(
        messages=[message.model_dump() for message in suite.messages], api_params=dict(suite.api_params)
    )
    said = suite.expected_output.model_dump(include=set(suite.expected_output.model_fields_set))
    retry = suite.retry_params
    strategy = DEFAULT if retry.aggregation_strategy is None else retry.aggregation_strategy
    return Suite(
        function=_function(suite.name, functions),
        name=suite.name,
        tags=tuple(suite.tags),
        asked=asked,
        expected=AssistantOutput(**said),
        grid=dict(suite.parameter_grid.parameters),
        metrics=tuple(suite.metrics),
        count=retry.count,
        aggregation=str(getattr(strategy, "value", strategy)),
        place=place,
    )


# -- REBEL's metrics --------------------------------------------------------------------------------------------


def is_rebel_metric(metric: object) -> bool:
    """Tell whether a metric is one of REBEL's kind, without loading REBEL."""
    models = sys.modules.get(_MODELS)
    kind = getattr(models, "Metric", None)
    return isinstance(kind, type) and isinstance(metric, kind)


def rebel_input(messages: Iterable[Mapping[str, Any]], api_params: Mapping[str, Any]) -> Any:
    """Return an input as REBEL's metrics know it; they know texts alone."""
    models = importlib.import_module(_MODELS)
    told = [models.Message(**{**message, "content": text_of(message.get("content"))}) for message in messages]
    return models.AssistantInput(messages=told, api_params=dict(api_params))


def rebel_output(output: Mapping[str, Any]) -> Any:
    """Return an output as REBEL's metrics know it."""
    models = importlib.import_module(_MODELS)
    calls = output.get("tools_called")
    told = {**output, "tools_called": None if calls is None else [models.ToolCall(**call) for call in calls]}
    return models.AssistantOutput(**{name: value for name, value in told.items() if name in output})
