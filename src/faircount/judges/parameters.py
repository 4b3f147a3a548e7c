"""Checks of the parameters that judges take; what is wrong is refused with a sentence that names judge and parameter.

Nothing here looks at an attempt, except `texts_of_notes`, which reads what a record says for its judge alone.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from faircount.core.attempt import Attempt
from faircount.core.errors import UsageError
from faircount.core.text import clip, visible

_LONGEST_QUOTE = 60
_FILE_MARK = "@"

Word = TypeVar("Word", bound=str)


def quoted(text: str) -> str:
    """Return a text as a reason or an error quotes it: visible, short, between quotation marks."""
    return f'"{clip(visible(text), _LONGEST_QUOTE)}"'


def check_texts(judge: str, parameter: str, value: object, *, empty: bool = False) -> tuple[str, ...]:
    """Return a parameter that is one text or a list of texts; an empty text only where it means something."""
    texts = [value] if isinstance(value, str) else value
    kind = "a string" if empty else "a non-empty string"
    if not isinstance(texts, list | tuple) or not texts:
        raise UsageError(f"{judge}: {parameter} must be {kind}, or a list of such strings")
    if not all(isinstance(text, str) and (text or empty) for text in texts):
        raise UsageError(f"{judge}: every item of {parameter} must be {kind}")
    return tuple(texts)


def written(texts: Sequence[str] | None) -> str | list[str] | None:
    """Return texts as a parameter is written down: one text by itself, several as a list."""
    if texts is None:
        return None
    return texts[0] if len(texts) == 1 else list(texts)


def check_flag(judge: str, parameter: str, value: object) -> bool:
    """Return a parameter that is true or false."""
    if not isinstance(value, bool):
        raise UsageError(f"{judge}: {parameter} must be true or false")
    return value


def check_number(judge: str, parameter: str, value: object, *, low: float = 0.0, high: float = math.inf) -> float:
    """Return a parameter that is a finite number from `low` to `high`."""
    # A whole number may be larger than any float: it is compared before it is made one.
    most = min(high, sys.float_info.max)
    if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= most:
        return float(value)
    limits = f"of at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
    raise UsageError(f"{judge}: {parameter} must be a number {limits}")


def check_choice(judge: str, parameter: str, value: object, choices: Sequence[Word]) -> Word:
    """Return a parameter that is one of a few words."""
    for choice in choices:
        if value == choice:
            return choice
    raise UsageError(f"{judge}: {parameter} must be one of {', '.join(choices)}")


def text_or_file(judge: str, parameter: str, value: object) -> str:
    """Return a text given as it is, or the content of the file whose path follows an @."""
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{judge}: {parameter} must be a non-empty string, or @ followed by the path of a file")
    if not value.startswith(_FILE_MARK):
        return value
    path = value.removeprefix(_FILE_MARK)
    try:
        content = Path(path).read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "not UTF-8 text"
        raise UsageError(f"{judge}: {parameter}: {visible(path)} cannot be read: {why}") from None
    if not content.strip():
        raise UsageError(f"{judge}: {parameter}: {visible(path)} is empty")
    return content


def texts_of_notes(attempt: Attempt, parameter: str) -> tuple[str, ...] | str:
    """Return the texts that spikee's `judge_args` of a record gives, or a sentence that says why there are none."""
    value: Any = attempt.notes.get("judge_args")
    texts = [value] if isinstance(value, str) else value
    if texts is None or texts in ([], [""]):
        return f"nothing to look for: no {parameter} given, and the record has no judge_args"
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        return "judge_args of the record is neither a string nor a list of strings"
    # An empty text stands in every response; spikee finds it in none.
    return tuple(text for text in texts if text) or "judge_args of the record has only empty strings"
