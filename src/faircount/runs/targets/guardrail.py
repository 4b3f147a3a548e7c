"""Which errors are blocks: the signals of guardrails in code of anybody's, and refusals of providers.

A signal is known by the name of its class, so that spikee's own counts where spikee is installed, and so does one of
the same name where it is not. A refusal is known by the words of the provider, see `faircount.core.policy_blocks`.
"""

from __future__ import annotations

from faircount.chat.types import FILTERED, ChatError
from faircount.core.outcomes import policy_block
from faircount.core.text import clip, mask_secrets, visible
from faircount.runs.targets.base import BLOCKED, TargetError
from faircount.testing.cases import category_names

SIGNALS = frozenset(["GuardrailTriggered", "GuardrailTrigger"])
"""Ours and spikee's."""
_MOST = 100
_LONGEST = 200


def has_name(error: BaseException, names: frozenset[str]) -> bool:
    """Tell whether an error is of a class of one of these names, or of a subclass of one."""
    return any(kind.__name__ in names for kind in type(error).__mro__)


def is_signal(error: BaseException) -> bool:
    """Tell whether an error says that a guardrail stopped something."""
    return has_name(error, SIGNALS)


def categories_of(told: object) -> tuple[str, ...]:
    """Return the names of categories as they are recorded."""
    return tuple(clip(visible(mask_secrets(name)), _LONGEST) for name in category_names(told)[:_MOST])


def blocked(error: BaseException, message: str) -> TargetError:
    """Return the record of a signal; `message` is what it said, fit for people."""
    return TargetError(BLOCKED, message, categories=categories_of(getattr(error, "categories", ())))


def unanswered(error: ChatError) -> TargetError:
    """Return the record of a request that the transport has no answer to; a refusal of the provider's is a block."""
    kind = BLOCKED if error.kind == FILTERED else error.kind
    return TargetError(kind, str(error), error.tries, error.waited, policy_block=error.policy_block)


def classified(error: TargetError) -> TargetError:
    """Return an error, as a block if its words are those of a provider that refuses a prompt.

    A target that sees all that a server says decides for itself; this is for all others, whoever wrote them.
    """
    pattern = None if error.kind == BLOCKED else policy_block(f"{error.kind}: {error.message}")
    if pattern is None:
        return error
    return TargetError(BLOCKED, error.message, error.tries, error.waited, answer=error.answer, policy_block=pattern)
