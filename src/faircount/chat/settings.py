"""How to reach a model: where, which one, how patiently and how fast; and what tokens cost.

Plain data that may be written down. The key is no part of it: settings name the environment variable that holds it. A
model without a price has no cost, never a cost of 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from faircount.core.errors import UsageError
from faircount.core.text import clip, visible

_AT_LEAST_ZERO = ("backoff", "longest_backoff", "longest_wait")


class ChatSettings(Struct, frozen=True):
    """Settings of a client; the defaults are those of OpenAI's own endpoint.

    `timeout` holds for one whole request, in seconds. `tries` counts the first one. `backoff` is the longest wait
    before the second try; it doubles with every try up to `longest_backoff`, and each wait is drawn evenly between 0
    and that (`seed` makes the draws repeatable). A server that says how long to wait is obeyed. All waits of a request
    together take `longest_wait` at most. `parameters` go with every request (temperature, max_tokens, tools ...).
    `cache` is a folder for answers. `prices` adds to the prices built in: model to prompt and completion, each per
    million tokens. An empty `api_key_env` means that no key is sent.
    """

    base_url: str = "https://api.openai.com/v1"
    model: str = ""
    api_key_env: str = "OPENAI_API_KEY"
    timeout: float = 60.0
    tries: int = 5
    concurrency: int = 8
    requests_per_minute: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    cache: str | None = None
    prices: Mapping[str, Any] = field(default_factory=dict)
    backoff: float = 0.5
    longest_backoff: float = 30.0
    longest_wait: float = 120.0
    seed: int | None = None
    provider: str = "openai"

    def __post_init__(self) -> None:
        for name in ("tries", "concurrency"):
            if getattr(self, name) < 1:
                raise UsageError(f"chat: {name} must be 1 or more")
        # Written so that a NaN is refused too.
        if not 0 < self.timeout < float("inf"):
            raise UsageError("chat: timeout must be a number of seconds above 0")
        if self.requests_per_minute is not None and not 0 < self.requests_per_minute < float("inf"):
            raise UsageError("chat: requests_per_minute must be above 0")
        for name in _AT_LEAST_ZERO:
            if not 0 <= getattr(self, name) < float("inf"):
                raise UsageError(f"chat: {name} must be 0 seconds or more")
        if "@" in urlsplit(self.base_url).netloc:
            raise UsageError("chat: base_url contains a user name or password; put the key in an environment variable")


_MILLION = 1_000_000
_MOST_DOLLARS = 1e12

# What may stand behind the name of a model without making it another model: a date, as in `-2024-08-06` or `-0613`.
_DATE = re.compile(r"-\d{4}-\d\d-\d\d|-\d{3,4}|-\d{6}|-\d{8}|-latest")


class Price(Struct, frozen=True):
    """US dollars for a million tokens, and when that was noted."""

    prompt: float
    completion: float
    noted: str = ""

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return what so many tokens cost."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / _MILLION


# List prices of OpenAI without discounts for batches and repeated prompts.
BUILT_IN: Mapping[str, Price] = {
    "gpt-4.1": Price(2.00, 8.00, "2026-04"),
    "gpt-4.1-mini": Price(0.40, 1.60, "2026-04"),
    "gpt-4.1-nano": Price(0.10, 0.40, "2026-04"),
    "gpt-4o": Price(2.50, 10.00, "2026-04"),
    "gpt-4o-2024-05-13": Price(5.00, 15.00, "2026-04"),
    "gpt-4o-mini": Price(0.15, 0.60, "2026-04"),
}


class Prices:
    """The prices built in, and those of the user before them."""

    def __init__(self, own: Mapping[str, Any]) -> None:
        self._own = {model: _price(model, price) for model, price in own.items()}

    def of(self, *models: str | None) -> Price | None:
        """Return the price of the first model that has one; what the user says goes before what is built in."""
        for table in (self._own, BUILT_IN):
            for model in models:
                price = _longest(table, model) if model else None
                if price is not None:
                    return price
        return None

    def cost(self, *models: str | None, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """Return what an answer cost, or None where the price or the tokens are not known."""
        price = self.of(*models)
        if price is None or prompt_tokens is None or completion_tokens is None:
            return None
        return price.cost(prompt_tokens, completion_tokens)


def _longest(table: Mapping[str, Price], model: str) -> Price | None:
    """Return the price of a model, or of the longest name that it is a dated version of."""
    name = model
    while name:
        if name in table and (name == model or _DATE.fullmatch(model, len(name))):
            return table[name]
        name = name.rpartition("-")[0]
    return None


def _price(model: str, price: object) -> Price:
    if isinstance(price, Price):
        return price
    if not isinstance(price, Mapping):
        raise _wrong(model, "is not a table")
    unknown = sorted(set(price) - {"prompt", "completion", "noted"})
    if unknown:
        raise _wrong(model, f"has the unknown field {clip(visible(str(unknown[0])), 40)}")
    return Price(_dollars(model, price, "prompt"), _dollars(model, price, "completion"), str(price.get("noted", "")))


def _dollars(model: str, price: Mapping[str, Any], name: str) -> float:
    value = price.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_DOLLARS:
        raise _wrong(model, f"needs {name} as a number that is not negative")
    return float(value)


def _wrong(model: str, what: str) -> UsageError:
    name = clip(visible(model), 60)
    return UsageError(
        f'prices: the price of "{name}" {what}; write prompt and completion in US dollars per million tokens, as in '
        f'[prices."{name}"] prompt = 2.5, completion = 10'
    )
