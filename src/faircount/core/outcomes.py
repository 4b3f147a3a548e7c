"""The outcome rule: how the states of an entry's attempts become its one outcome.

Success if any attempt succeeded; else failure if any failed normally; else error if any errored; else guardrail if
its attempts were blocked; else unjudged. The SQL that folds millions of rows is generated from the same order.
"""

from collections.abc import Iterable

from faircount.core.model import Outcome

PRECEDENCE: tuple[Outcome, ...] = (
    Outcome.SUCCESS,
    Outcome.FAILURE,
    Outcome.ERROR,
    Outcome.GUARDRAIL,
    Outcome.UNJUDGED,
)


def fold(states: Iterable[Outcome]) -> Outcome:
    """Return the outcome of an entry whose attempts ended in `states`."""
    present = set(states)
    for outcome in PRECEDENCE:
        if outcome in present:
            return outcome
    return Outcome.UNJUDGED


def state(*, success: bool | None, error: bool, guardrail: bool) -> Outcome:
    """Return the state of one recorded attempt: a success stands, a block is no error, an error is no failure."""
    if success:
        return Outcome.SUCCESS
    if guardrail:
        return Outcome.GUARDRAIL
    if error:
        return Outcome.ERROR
    if success is None:
        return Outcome.UNJUDGED
    return Outcome.FAILURE
