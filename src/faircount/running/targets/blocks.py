"""Guardrails in code of anybody's: which errors are their signal, and what they name.

The signal is known by the name of its class, so that spikee's own counts where spikee is installed, and so does one of
the same name where it is not.
"""

from __future__ import annotations

from faircount.running.targets.seam import BLOCKED, TargetError
from faircount.testing.guardrail import category_names
from faircount.text import clip, mask_secrets, visible

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
