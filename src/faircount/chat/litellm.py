"""Providers that the package LiteLLM knows, under its names: `provider = "litellm"`, `model = "anthropic/claude-…"`.

The package comes with the extra `litellm`. Each provider's key is taken by LiteLLM from the
variable that it wants; `api_key_env` and `base_url` count where they are not left at OpenAI's. Single tries are made:
repetition, limits, prices and the cache are the client's. What LiteLLM tells others about its use is switched off.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

from faircount.chat import wire
from faircount.chat.answer import ChatAnswer, without_key
from faircount.chat.completion import incomplete, read_completion
from faircount.chat.provider import ChatRequest, Trouble, refusal
from faircount.chat.rate_limit import asked_wait, worth_another_try
from faircount.chat.secret import Key
from faircount.chat.settings import ChatSettings
from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets, visible

_LONGEST_QUOTE = 300
_CONNECTION = ("APIConnectionError", "ServiceUnavailableError")


class LiteLLM:
    """Whatever LiteLLM reaches; see `faircount.chat.provider.Provider`."""

    where = "litellm"

    def __init__(self, settings: ChatSettings) -> None:
        self._library = _library()
        self._timeout = settings.timeout
        default = ChatSettings()
        self._fixed: dict[str, Any] = {"timeout": settings.timeout, "num_retries": 0}
        self._key: Key | None = None
        if settings.base_url != default.base_url:
            self._fixed["api_base"] = settings.base_url
        if settings.api_key_env not in ("", default.api_key_env):
            self._key = Key.from_environment(settings.api_key_env)
            if self._key is None:
                raise UsageError(f"litellm: the environment variable {visible(settings.api_key_env)} is not set")

    async def ask(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to one request, or raise `Trouble`."""
        import asyncio

        key = {} if self._key is None else {"api_key": self._key.header.removeprefix("Bearer ")}
        asked = {"model": request.model, "messages": list(request.messages), **request.parameters, **self._fixed, **key}
        try:
            async with asyncio.timeout(self._timeout):
                told = await self._library.acompletion(**asked)
        except TimeoutError:
            raise Trouble(f"no answer within {self._timeout:g} s", kind="timeout", again=True) from None
        except Exception as error:  # noqa: BLE001  every provider has errors of its own
            raise self._trouble(error) from None
        content = told.model_dump() if hasattr(told, "model_dump") else told
        if not isinstance(content, Mapping):
            raise incomplete("is not what LiteLLM should return")
        return without_key(read_completion(content), self._key)

    async def close(self) -> None:
        """Nothing is held."""

    def _trouble(self, error: Exception) -> Trouble:
        name, status = type(error).__name__, getattr(error, "status_code", None)
        status = status if isinstance(status, int) else None
        said = self._quoted(str(error))
        refused = refusal(f"{name}: {error}", said, status)
        if refused is not None:
            return refused
        if name == "Timeout":
            return Trouble(f"no answer in time{said}", kind="timeout", again=True)
        if name in _CONNECTION or status is None:
            return Trouble(f"{visible(name)}{said}", kind="connection", again=name in _CONNECTION)
        if status in (401, 403):
            return Trouble(f"the provider rejected the key (status {status}){said}", kind="refused key", status=status)
        again = worth_another_try(status)
        headers = getattr(getattr(error, "response", None), "headers", None)
        wait = asked_wait(headers) if again and isinstance(headers, Mapping) else None
        words = f"the provider answered with status {status}{said}"
        return Trouble(words, kind="status", status=status, again=again, wait=wait)

    def _quoted(self, text: str) -> str:
        if self._key is not None:
            text = self._key.hide_in_message(text)
        said = clip(visible(mask_secrets(wire.mended(text).strip())), _LONGEST_QUOTE)
        return f": {said}" if said else ""


def _library() -> Any:
    # It would ask a server for prices as soon as it is imported; ours are the client's.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        library = importlib.import_module("litellm")
    except ImportError:
        raise UsageError("litellm: needs the package litellm; install it: pip install 'faircount[litellm]'") from None
    library.telemetry = False  # type: ignore[attr-defined]
    library.suppress_debug_info = True  # type: ignore[attr-defined]
    return library
