"""A model that helps to attack: asked for JSON of a given form, believed only if it is on the menu.

What the target wrote reaches it between fences, as material and nothing else. That it refuses, or answers something
that cannot be used after one repair, is an error of the attack. What it took goes into the note of the prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from faircount.core.attempt import Attempt
from faircount.core.text import clip, visible
from faircount.core.verdict import Decision, Usage
from faircount.judges.model_judge import Form, Message, Questioner, check_temperature, settings_for
from faircount.runs.attacks.base import AttackError
from faircount.runs.attacks.built_in import BuiltInAttack
from faircount.runs.targets.concurrency import in_thread
from faircount.runs.targets.openai import recordable

if TYPE_CHECKING:
    from faircount.chat.settings import ChatSettings

T = TypeVar("T")
_LONGEST_QUOTE = 80
_LONGEST_REFUSAL = 600


class Told(NamedTuple):
    """What a model was told about how it is reached, as the options of an attack give it."""

    model: str = ""
    base_url: str | None = None
    api_key_env: str | None = None
    temperature: float | None = None


class Attacker:
    """One model, for one attack."""

    def __init__(self, attack: str, told: Told, chat: ChatSettings | None) -> None:
        settings = settings_for(attack, chat, model=told.model, base_url=told.base_url, api_key_env=told.api_key_env)
        self.settings = recordable(settings)
        self.temperature = check_temperature(attack, told.temperature)
        self._questioner = Questioner(self.settings, self.temperature, who="the attacking model")

    @property
    def chat(self) -> dict[str, Any]:
        """How the model is reached, as it is recorded; no secrets."""
        written: dict[str, Any] = msgspec.to_builtins(self.settings)
        return written

    def ready(self) -> None:
        """Raise UsageError where the key is missing."""
        self._questioner.ready()

    async def close(self) -> None:
        """Close the client."""
        await in_thread(self._questioner.close)

    async def ask(self, messages: Sequence[Message], form: Form[T]) -> tuple[T, Mapping[str, Any]]:
        """Return what the model says and what that took; AttackError where it says nothing that can be used."""
        outcome = await in_thread(lambda: self._questioner.ask(messages, form))
        if outcome.error is not None:
            raise outcome.error
        reply = outcome.value
        if reply.value is None:
            took = f" ({reply.usage.requests} requests)" if reply.usage.requests else ""
            if is_refusal(reply.said):
                quoted = clip(visible(reply.said.strip()), _LONGEST_QUOTE)
                raise AttackError(f'the attacking model refused: "{quoted}"{took}')
            raise AttackError(f"{reply.problem}{took}")
        return reply.value, {"model": self.settings.model, **_used(reply.usage)}


class Assisted(BuiltInAttack):
    """An attack that is built in and may be helped by a model; `attacker` is None where none is asked."""

    attacker: Attacker | None

    def settings(self) -> Mapping[str, Any]:
        """Return the options, and how the model is reached where one is asked."""
        told = super().settings()
        return told if self.attacker is None else {**told, "chat": self.attacker.chat}

    def ready(self) -> None:
        """Make the client now, so that a missing key is told before any work begins."""
        if self.attacker is not None:
            self.attacker.ready()

    async def close(self) -> None:
        """Close the client."""
        if self.attacker is not None:
            await self.attacker.close()


def is_refusal(text: str) -> bool:
    """Tell whether a short text is a refusal; a long one is taken for what it claims to be."""
    from faircount.judges.builtin.refusal import Refusal

    if not text.strip() or len(text) > _LONGEST_REFUSAL:
        return False
    return Refusal().decide(Attempt(text)).decision is Decision.HIT


def _used(usage: Usage) -> dict[str, Any]:
    return {
        "requests": usage.requests,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cost": usage.cost,
    }
