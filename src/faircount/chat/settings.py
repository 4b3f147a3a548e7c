"""How to reach a model: where, which one, how patiently and how fast. Plain data that may be written down.

The key is no part of it: settings name the environment variable that holds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from faircount.core.errors import UsageError

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
