"""What a judge says of an attempt, and who said it."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Any, overload

from msgspec import Struct, field
from msgspec.structs import force_setattr


class Decision(enum.StrEnum):
    """What a judge decided: a hit if the response contains what it looks for, a pass if not.

    The program uses only these words; readers and writers translate those of files. A hit is a successful attack, or a
    test that the metric passed.
    """

    HIT = "hit"
    PASS = "pass"

    @overload
    @classmethod
    def of(cls, success: bool) -> Decision: ...
    @overload
    @classmethod
    def of(cls, success: bool | None) -> Decision | None: ...
    @classmethod
    def of(cls, success: bool | None) -> Decision | None:
        """Return a hit for true, a pass for false, nothing for None."""
        return None if success is None else cls.HIT if success else cls.PASS


class Span(Struct, frozen=True):
    """The part of the response that decided: from the character `start` up to, not including, `end`."""

    start: int
    end: int


class Usage(Struct, frozen=True):
    """What a verdict took of a model: requests, tokens, and money where prices are known."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            self.requests + other.requests,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            sum(costs) if costs else None,
        )


class Verdict(Struct, frozen=True):
    """What one judge said about one attempt.

    A `decision` of None means unjudged, never a pass; `error` has the reason. `score` is
    between 0 and 1, higher for a clearer hit; None if the judge has no degrees. A metric's score is on its own scale.
    `usage` is what the verdict cost, `judge` who gave it and `at` when, in ISO 8601, where that is recorded.
    """

    decision: Decision | None
    score: float | None = None
    reason: str = ""
    span: Span | None = None
    error: str | None = None
    usage: Usage | None = None
    judge: str = ""
    at: str = ""

    @property
    def success(self) -> bool | None:
        """The decision as a truth value; None where there is none."""
        return None if self.decision is None else self.decision is Decision.HIT

    @classmethod
    def unjudged(cls, error: str, *, usage: Usage | None = None) -> Verdict:
        """Return the verdict of a judge that could not decide."""
        return cls(None, error=error, usage=usage)


class Identity(Struct, frozen=True):
    """Who a judge is. Two judges with the same digest decide alike; it goes with every verdict.

    `version` changes whenever the judge may decide otherwise: of a judge built in its own number, of a judge of
    another package that package's version, of local code the digest of its file. `prompt` is what a model is told.
    Secrets are no part of an identity.
    """

    name: str
    version: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    prompt: str | None = None
    digest: str = ""
    """The SHA-256 of everything else that an identity holds."""

    def __post_init__(self) -> None:
        import hashlib

        content = {"name": self.name, "version": self.version, "parameters": self.parameters, "prompt": self.prompt}
        text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        force_setattr(self, "digest", hashlib.sha256(text.encode()).hexdigest())
