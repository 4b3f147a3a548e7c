"""What judges are made with, from the options that every command with judges has."""

from __future__ import annotations

from collections.abc import Sequence

from faircount.errors import UsageError
from faircount.judging.judge import Judge, every_part
from faircount.judging.making import Setting, make
from faircount.judging.many import DEFAULT_CONCURRENCY


def made_judges(expressions: Sequence[str], setting: Setting) -> list[Judge]:
    """Return the judges that are named; one that is named twice is refused."""
    judges = [make(expression, setting) for expression in expressions]
    for judge in judges:
        for part in every_part(judge):
            part.ready()
    called = [judge.called for judge in judges]
    for name in called:
        if called.count(name) > 1:
            raise UsageError(f"{name}: named twice; name each judge once")
    return judges


def concurrency_of(setting: Setting) -> int:
    """Return how many requests may be under way at once."""
    return DEFAULT_CONCURRENCY if setting.chat is None else setting.chat.concurrency
