"""What is said to a target and what it says: messages, calls of tools, the whole input and the whole output.

The names, fields and defaults are REBEL's. Where REBEL takes only a text as the content of a message, a list of parts
(as OpenAI has them) and None are taken too.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeVar

from faircount.testing.fields import Data

T = TypeVar("T", bound=Data)


# A StrEnum would be printed differently: REBEL's prints as RoleEnum.user.
class RoleEnum(str, enum.Enum):  # noqa: UP042
    """Who says a message."""

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
    """A call of a tool; also made of `name` and `input_parameters`."""

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
        self.role = _role(self.role)
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
        self.api_params = _mapping(self.api_params, "AssistantInput", "api_params")


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


def _role(role: object) -> RoleEnum:
    value = getattr(role, "value", role)
    if value not in list(RoleEnum):
        roles = ", ".join(one.value for one in RoleEnum)
        raise ValueError(f"Message: role must be one of {roles}, not {value!r}")
    return RoleEnum(value)


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


def _mapping(value: object, owner: str, name: str) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise TypeError(f"{owner}: {name} must be a dictionary with strings as keys")
    return dict(value)
