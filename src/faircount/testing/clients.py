"""The base of targets that are written as REBEL's API clients."""

from __future__ import annotations

import abc
from collections.abc import Awaitable

from faircount.testing.messages import AssistantInput, AssistantOutput


class APIClient(abc.ABC):
    """A target: something that answers an input. `request` may be a coroutine function."""

    @abc.abstractmethod
    def request(self, input: AssistantInput) -> AssistantOutput | Awaitable[AssistantOutput]:  # noqa: A002
        """Return the answer to an input."""
