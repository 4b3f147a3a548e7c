"""What a test file writes: messages and calls of tools, `@test_case`, and groups of metrics.

The names, fields and defaults are REBEL's. Where REBEL takes only a text as the content of a message, a list of parts
(as OpenAI has them) and None are taken too. A target in Python is an `APIClient`, and raises `GuardrailTriggered`.

The decorator calls the listener of whoever executes the file, and nobody else: a test file that a program imports for
its own reasons declares nothing. There is one listener at most, in the thread that executes a file.
"""

from __future__ import annotations

import abc
import contextlib
import enum
import itertools
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import field
from inspect import isasyncgen, isawaitable, isgenerator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from faircount.readers.aggregation import DEFAULT
from faircount.testing.fields import Data

if TYPE_CHECKING:
    from faircount.components.factory import Context

T = TypeVar("T", bound=Data)


# A StrEnum would be printed differently: REBEL's prints as RoleEnum.user.
class RoleEnum(str, enum.Enum):  # noqa: UP042
    """The author of a message."""

    user = "user"
    assistant = "assistant"
    tool = "tool"
    system = "system"


class Function(Data):
    """Which function is called, and with what: `arguments` is JSON, as a model writes it."""

    name: str
    arguments: str

    def _settle(self) -> None:
        _require_text(self, "name", "arguments")

    def parse_arguments(self) -> Any:
        """Return the arguments as Python values."""
        return json.loads(self.arguments)


class ToolCall(Data):
    """A call of a tool; can also be created from `name` and `input_parameters`."""

    id: str = ""
    type: str = "function"
    function: Function = field(kw_only=True)

    def __init__(
        self,
        *,
        id: str = "",  # noqa: A002  OpenAI's name
        type: str = "function",  # noqa: A002
        function: Function | Mapping[str, Any] | None = None,
        name: str | None = None,
        input_parameters: Mapping[str, Any] | None = None,
    ) -> None:
        if function is None and name is not None and input_parameters is not None:
            function = Function(name=name, arguments=json.dumps(input_parameters))
        elif name is not None or input_parameters is not None:
            raise TypeError("ToolCall takes either function, or both name and input_parameters")
        if function is None:
            raise TypeError("ToolCall needs function, or both name and input_parameters")
        super().__init__(id=id, type=type, function=function)

    def _settle(self) -> None:
        _require_text(self, "id", "type")
        if self.type != "function":
            raise ValueError(f"ToolCall: type must be function, not {self.type!r}")
        self.function = data_of(Function, self.function, "ToolCall", "function")


class Message(Data):
    """One message of a conversation."""

    role: str
    content: str | list[Any] | None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None

    def _settle(self) -> None:
        role = getattr(self.role, "value", self.role)
        if role not in list(RoleEnum):
            roles = ", ".join(one.value for one in RoleEnum)
            raise ValueError(f"Message: role must be one of {roles}, not {role!r}")
        self.role = RoleEnum(role)
        if not isinstance(self.content, str | list | None):
            raise TypeError(f"Message: content must be a string, not {type(self.content).__name__}")
        if self.tool_calls is not None:
            self.tool_calls = list_of(ToolCall, self.tool_calls, "Message", "tool_calls")

    @property
    def text(self) -> str:
        """The content as text: the text parts of a list, nothing for None."""
        return text_of(self.content)


class AssistantInput(Data):
    """What a target is asked: the conversation, and the parameters of the request."""

    messages: list[Message]
    api_params: dict[str, Any] = field(default_factory=dict)

    def _settle(self) -> None:
        self.messages = list_of(Message, self.messages, "AssistantInput", "messages")
        given: Any = self.api_params
        if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
            raise TypeError("AssistantInput: api_params must be a dictionary with strings as keys")
        self.api_params = dict(given)


class AssistantOutput(Data):
    """What a target answered, or should answer; `execution_time` is in seconds."""

    output: str | None = ""
    tools_called: list[ToolCall] | None = field(default_factory=list)
    context: list[str] | None = field(default_factory=list)
    execution_time: float | None = None

    def _settle(self) -> None:
        if not isinstance(self.output, str | None):
            raise TypeError(f"AssistantOutput: output must be a string, not {type(self.output).__name__}")
        if self.tools_called is not None:
            self.tools_called = list_of(ToolCall, self.tools_called, "AssistantOutput", "tools_called")
        context: Any = self.context
        if context is not None:
            if not isinstance(context, list | tuple) or not all(isinstance(text, str) for text in context):
                raise TypeError("AssistantOutput: context must be a list of strings")
            self.context = list(context)


def text_of(content: object) -> str:
    """Return the text of a content in OpenAI's shape."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    return "\n".join(part for part in parts if isinstance(part, str))


def _require_text(data: Data, *names: str) -> None:
    for name in names:
        value = getattr(data, name)
        if not isinstance(value, str):
            raise TypeError(f"{type(data).__name__}: {name} must be a string, not {type(value).__name__}")


def data_of(kind: type[T], value: object, owner: str, name: str) -> T:
    """Return data of a kind, also from a mapping or from what another package has in its place."""
    if isinstance(value, kind):
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        value = dump()
    if isinstance(value, Mapping):
        return kind(**value)
    raise TypeError(f"{owner}: {name} must be {kind.__name__}, not {type(value).__name__}")


def list_of(kind: type[T], values: object, owner: str, name: str) -> list[T]:
    if not isinstance(values, list | tuple):
        raise TypeError(f"{owner}: {name} must be a list of {kind.__name__}, not {type(values).__name__}")
    return [data_of(kind, value, owner, name) for value in values]


# -- targets ------------------------------------------------------------------------------------------------------


class APIClient(abc.ABC):
    """A target: something that answers an input. `request` may be a coroutine function."""

    @abc.abstractmethod
    def request(self, input: AssistantInput) -> AssistantOutput | Awaitable[AssistantOutput]:  # noqa: A002
        """Return the answer to an input."""


class GuardrailTriggered(Exception):
    """A guardrail stopped the request or the answer. `categories` are what it found, if it reports that.

    Categories may be given as names, or as a mapping of names to something true.
    """

    def __init__(
        self, message: str = "a guardrail stopped the request", categories: Iterable[str] | Mapping[str, Any] = ()
    ) -> None:
        super().__init__(message)
        self.categories = category_names(categories)


def category_names(categories: object) -> tuple[str, ...]:
    """Return the names of categories: those of a mapping whose value is true, those of a list, or one name."""
    if isinstance(categories, str):
        return (categories,) if categories else ()
    if isinstance(categories, Mapping):
        return tuple(str(name) for name, value in categories.items() if value)
    if isinstance(categories, Iterable):
        return tuple(str(name) for name in categories if name is not None)
    return ()


# -- what a file declares, and to whom ----------------------------------------------------------------------------


class Suite(Struct, frozen=True):
    """One group of one test, as it was declared; a grid makes several cases of it. Its values are not checked yet."""

    function: str
    name: str
    tags: tuple[str, ...]
    asked: AssistantInput
    expected: AssistantOutput
    grid: Mapping[str, list[Any]]
    metrics: tuple[Any, ...]
    count: int
    aggregation: str
    place: str


class Listener(Protocol):
    """What takes the declarations of a test file."""

    @property
    def context(self) -> Context | None:
        """What judges that a file names are made with."""

    def listens(self) -> bool:
        """Return whether what is executed now is declared here."""

    def place(self, filename: str, line: int) -> str:
        """Return a place as the user knows it."""

    def declare(self, suite: Suite) -> None:
        """Take a suite."""


_listener: ContextVar[Listener | None] = ContextVar("faircount_listener", default=None)


def listener() -> Listener | None:
    """Return who listens now."""
    return _listener.get()


@contextlib.contextmanager
def with_listener(who: Listener) -> Iterator[None]:
    """Let somebody listen for a while."""
    token = _listener.set(who)
    try:
        yield
    finally:
        _listener.reset(token)


# -- tests and groups of metrics ----------------------------------------------------------------------------------


F = TypeVar("F", bound=Callable[..., Any])


# A StrEnum would be printed differently from REBEL's.
class RetryAggregationStrategy(str, enum.Enum):  # noqa: UP042
    """The ways to combine several attempts into one result, except those with a number in their names."""

    MIN = "min"
    MAX = "max"
    MEAN = "mean"
    MEDIAN = "median"
    MODE = "mode"
    MAJORITY = "majority"
    ANY = "any"
    ALL = "all"
    FIRST = "first"


class RetryParams(Data):
    """How often a case is tried, always in full, and how its attempts are combined into one result."""

    count: int
    aggregation_strategy: str | None = RetryAggregationStrategy.MEAN

    def _settle(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int):
            raise TypeError(f"RetryParams: count must be a whole number, not {self.count!r}")
        if not isinstance(self.aggregation_strategy, str | None):
            raise TypeError(f"RetryParams: aggregation_strategy must be a name, not {self.aggregation_strategy!r}")
        if self.aggregation_strategy in [strategy.value for strategy in RetryAggregationStrategy]:
            self.aggregation_strategy = RetryAggregationStrategy(self.aggregation_strategy)


class ParameterGrid(Data):
    """Parameters of the request, each with the values to try."""

    parameters: dict[str, list[Any]]

    def _settle(self) -> None:
        given: Any = self.parameters
        if not isinstance(given, Mapping):
            raise TypeError("ParameterGrid: parameters must be a dictionary of lists")
        for name, values in given.items():
            if not isinstance(name, str) or isinstance(values, str | bytes) or not isinstance(values, Iterable):
                raise TypeError(f"ParameterGrid: {name!r} must be a string with a list of values")
        self.parameters = {name: list(values) for name, values in given.items()}

    def expand(self) -> list[dict[str, Any]]:
        """Return every combination of values; the last parameter changes fastest."""
        names = list(self.parameters)
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*self.parameters.values())]


class TestGroup(Data):
    """Metrics for the answers to a test, and how often the test is tried."""

    __test__ = False  # it is no test of pytest's

    metrics: Sequence[Any]
    tags: list[str] | None = field(default_factory=list)
    retry_params: RetryParams | None = field(default_factory=lambda: RetryParams(count=1))
    postfix: str | None = None

    def _settle(self) -> None:
        if not isinstance(self.metrics, list | tuple):
            raise TypeError(f"TestGroup: metrics must be a list, not {type(self.metrics).__name__}")
        if self.retry_params is not None:
            self.retry_params = data_of(RetryParams, self.retry_params, "TestGroup", "retry_params")
        if not isinstance(self.postfix, str | None):
            raise TypeError("TestGroup: postfix must be a string")
        self.metrics = list(self.metrics)
        self.tags = _tags(self.tags, "TestGroup")


def test_case(
    messages: Sequence[Message | Mapping[str, Any]],
    tags: Sequence[str] | None = None,
    expected_output: AssistantOutput | Mapping[str, Any] | None = None,
    api_params: Mapping[str, Any] | None = None,
    param_grid: ParameterGrid | Mapping[str, Any] | None = None,
) -> Callable[[F], F]:
    """Declare a test by what it sends; the decorated function yields or returns the groups of metrics."""
    asked = AssistantInput(messages=list(messages), api_params=dict(api_params or {}))  # type: ignore[arg-type]
    own_tags = _tags(tags, "test_case")
    expected = AssistantOutput() if expected_output is None else expected_output
    expected = data_of(AssistantOutput, expected, "test_case", "expected_output")
    grid = ParameterGrid(parameters={}) if param_grid is None else param_grid
    grid = data_of(ParameterGrid, grid, "test_case", "param_grid")

    def declare(function: F) -> F:
        listening = listener()
        if listening is None or not listening.listens():
            return function
        for group, line in _groups(function):
            listening.declare(
                Suite(
                    function=function.__name__,
                    name=f"{function.__name__}_{group.postfix}" if group.postfix else function.__name__,
                    tags=(*own_tags, *(group.tags or ())),
                    asked=asked,
                    expected=expected,
                    grid=grid.parameters,
                    metrics=tuple(group.metrics),
                    count=1 if group.retry_params is None else group.retry_params.count,
                    aggregation=_strategy(group.retry_params),
                    place=listening.place(*line),
                )
            )
        return function

    return declare


test_case.__test__ = False  # type: ignore[attr-defined]  # it is no test of pytest's


def _strategy(retry: RetryParams | None) -> str:
    strategy = DEFAULT if retry is None else retry.aggregation_strategy
    return DEFAULT if strategy is None else str(getattr(strategy, "value", strategy))


def _tags(tags: Any, owner: str) -> list[str]:
    if tags is None:
        return []
    if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags):
        raise TypeError(f"{owner}: tags must be a list of strings")
    return list(tags)


def _groups(function: Callable[..., Any]) -> Iterator[tuple[TestGroup, tuple[str, int]]]:
    """Yield the groups of a test, each with the file and line that it comes from."""
    code = getattr(function, "__code__", None)
    if code is None or not hasattr(function, "__name__"):
        raise TypeError("test_case decorates a function")
    own = (code.co_filename, code.co_firstlineno)
    made = function()
    if isgenerator(made):
        for group in made:
            frame = made.gi_frame
            yield _group(group, function.__name__), (own[0], frame.f_lineno) if frame else own
        return
    groups = [made] if isinstance(made, TestGroup) else made
    if isasyncgen(made) or isawaitable(made) or not isinstance(groups, list | tuple):
        if hasattr(made, "close"):
            made.close()
        kind = type(made).__name__
        raise TypeError(f"{function.__name__}: must yield or return TestGroups; it returned {kind}")
    for group in groups:
        yield _group(group, function.__name__), own


def _group(group: object, function: str) -> TestGroup:
    if not isinstance(group, TestGroup):
        raise TypeError(f"{function}: must yield or return TestGroups, not {type(group).__name__}")
    return group
