"""Checks of the parameters that pattern judges take: each returns the value as it is written down, or refuses it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from faircount.core.errors import UsageError


def check_share(judge: str, parameter: str, value: object) -> float:
    """Return a number above 0 and up to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise UsageError(f"{judge}: {parameter} must be a number above 0 and at most 1")
    return float(value)


def check_switch(judge: str, parameter: str, value: object) -> bool:
    """Return true or false, and nothing that only looks like it."""
    if not isinstance(value, bool):
        raise UsageError(f"{judge}: {parameter} must be true or false")
    return value


def check_count(judge: str, parameter: str, value: object, *, least: int = 1) -> int:
    """Return a whole number that is not below `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{judge}: {parameter} must be a whole number of at least {least}")
    return value


def check_texts(judge: str, parameter: str, value: object) -> tuple[str, ...]:
    """Return a list of texts, none of them empty; one text stands for a list of one."""
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise UsageError(f"{judge}: {parameter} must be a list of non-empty strings")
    return tuple(text.strip() for text in texts)


def check_choices(judge: str, parameter: str, value: object, known: Iterable[str]) -> tuple[str, ...]:
    """Return a list of names that are all known, at least one."""
    names = check_texts(judge, parameter, value)
    choices = tuple(known)
    wrong = [name for name in names if name not in choices]
    if wrong or not names:
        problem = f"has unknown names {', '.join(repr(name) for name in wrong)}" if wrong else "must name at least one"
        raise UsageError(f"{judge}: {parameter} {problem}; available: {', '.join(choices)}")
    return names
