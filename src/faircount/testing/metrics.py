"""What measures an answer: the base of all metrics, and what they say.

A metric is shared by all attempts of its cases, and is asked from several threads at once.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Awaitable
from typing import Any

from faircount.testing.fields import Data, Declared
from faircount.testing.messages import AssistantInput, AssistantOutput


# A StrEnum would be printed differently from REBEL's.
class EvaluationVerdict(str, enum.Enum):  # noqa: UP042
    """What a metric decides; an error is neither passed nor failed."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"


class EvaluationResult(Data):
    """What a metric says of one answer. The score is on the metric's own scale, and may be NaN or infinite."""

    score: float
    verdict: str
    reason: str = ""

    def _settle(self) -> None:
        self.score = score_of(self.score)
        self.verdict = verdict_of(self.verdict)
        # REBEL takes no None here, and loses the run over it.
        self.reason = "" if self.reason is None else str(self.reason)


def score_of(value: Any) -> float:
    """Return a score as a number; what is none is a TypeError."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"the score must be a number, not {type(value).__name__}") from None


def verdict_of(value: Any) -> EvaluationVerdict:
    """Return a verdict, also from its word; what is none is a ValueError."""
    word = getattr(value, "value", value)
    if not isinstance(word, str) or word not in [verdict.value for verdict in EvaluationVerdict]:
        raise ValueError(f"the verdict must be passed, failed or error, not {word!r}")
    return EvaluationVerdict(word)


class Metric(Declared, abc.ABC):
    """What all metrics are: a class with `measure`, and fields that its annotations declare.

    Fields are given by keyword, as in `LetterCount(letter="r")`; defaults stand in the class, and one that can be
    changed (a list, say) is copied for every metric. A class may have an `__init__` of its own instead. `measure` may
    be a coroutine function.
    """

    @abc.abstractmethod
    def measure(
        self,
        input: AssistantInput,  # noqa: A002  REBEL's name
        expected: AssistantOutput,
        actual: AssistantOutput,
    ) -> EvaluationResult | Awaitable[EvaluationResult]:
        """Compare the answer with what was asked and expected. It is called with these three names."""

    def get_name(self) -> str:
        """Return the name of the metric in reports."""
        return type(self).__name__

    @property
    def blocking(self) -> bool:
        """Whether measuring takes long, so that it must happen in a thread; false only for what computes quickly."""
        return True

    def ready(self) -> None:
        """Raise UsageError where nothing at all could be measured: a key that is missing, say."""

    def close(self) -> None:
        """Give back what the metric holds: connections, processes."""

    def _code_version(self) -> str | None:
        """Return the version of the rules that the metric follows, where it has one."""
        return None
