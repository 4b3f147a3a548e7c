"""What a run would do: cases, requests, and an estimate of what they cost. Nothing is called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from faircount.chat.settings import Prices
from faircount.core.model import Document
from faircount.runs.cases import AttackCase, Case, TaskCase

CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for English; other languages and code take more tokens."""
TOKENS_PER_MESSAGE = 4
ANSWER_TOKENS = 256
"""What an answer is taken to have where the case sets no limit."""
_LIMITS = ("max_completion_tokens", "max_tokens")


class PlannedCase(Struct, frozen=True):
    """A case, how often it is sent, and how many tokens that may take."""

    name: str
    place: str
    tags: tuple[str, ...]
    metrics: tuple[str, ...]
    attempts: int
    aggregation: str
    model: str | None
    prompt_tokens: int
    completion_tokens: int
    cost: float | None


class Plan(Document, frozen=True, kw_only=True):
    """Cases with totals; `cost` is None where the price of any model is not known.

    `at_most`: these are the most that there can be, as attempts on an entry end with the first success.
    """

    kind: Literal["plan"] = "plan"
    schema: Literal[1] = 1
    cases: tuple[PlannedCase, ...]
    calls: int
    measurements: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    at_most: bool


def planned(
    cases: Sequence[Case], model: str | None, prices: Prices, *, iterations: int = 0, attack_only: bool = False
) -> Plan:
    """Return what a run of cases would do; `model` answers those that name none.

    `iterations` is how many an attack on each entry has at most; `attack_only` leaves the standard attempts out.
    """
    rows = tuple(_planned_case(_with_attack(case, iterations, attack_only), model, prices) for case in cases)
    return Plan(
        cases=rows,
        calls=sum(row.attempts for row in rows),
        measurements=sum(row.attempts * len(row.metrics) for row in rows),
        prompt_tokens=sum(row.prompt_tokens for row in rows),
        completion_tokens=sum(row.completion_tokens for row in rows),
        cost=_sum(row.cost for row in rows),
        at_most=any(isinstance(case, AttackCase) for case in cases),
    )


def _with_attack(case: Case, iterations: int, attack_only: bool) -> Case:
    """Return an entry with as many attempts as it may have in all: turns, and iterations of an attack."""
    if not isinstance(case, AttackCase):
        return case
    standard = 0 if attack_only else case.attempts * (1 + len(case.turns))
    return replace(case, attempts=standard + iterations)


def _planned_case(case: Case, model: str | None, prices: Prices) -> PlannedCase:
    named = case.api_params.get("model")
    answered_by = named if isinstance(named, str) else model
    prompt = sum(_tokens(message.get("content")) for message in case.messages)
    prompt_tokens, completion_tokens = case.attempts * prompt, case.attempts * _answer_tokens(case)
    cost = None
    if answered_by:
        cost = prices.cost(answered_by, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
    return PlannedCase(
        name=case.name,
        place=case.place,
        tags=case.tags,
        metrics=tuple(metric.name for metric in case.metrics),
        attempts=case.attempts,
        aggregation=case.aggregation if isinstance(case, TaskCase) else "any",
        model=answered_by,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cost=cost,
    )


def _tokens(content: Any) -> int:
    text = content if isinstance(content, str) else ""
    return TOKENS_PER_MESSAGE + -(-len(text) // CHARACTERS_PER_TOKEN)


def _answer_tokens(case: Case) -> int:
    limits = [case.api_params.get(name) for name in _LIMITS]
    return next((limit for limit in limits if isinstance(limit, int) and limit > 0), ANSWER_TOKENS)


def _sum(costs: Iterable[float | None]) -> float | None:
    known = list(costs)
    return None if None in known else sum(cost for cost in known if cost is not None)
