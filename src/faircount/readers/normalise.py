"""Values as people write them, made into what a field means; every change of meaning is noted.

Used on the careful way only: a value that a strict decoder accepts needs none of this.
"""

from __future__ import annotations

import json
import math
from typing import Any

from faircount.core.findings import Notes
from faircount.core.text import clip, mask_secrets, replace_surrogates, visible

TRUE_WORDS = frozenset(["true", "yes", "y", "t", "1", "on"])
FALSE_WORDS = frozenset(["false", "no", "n", "f", "0", "off"])

LARGEST_COUNT = 10**15
_LONGEST_SECONDS = 10**12


class Cleaner:
    """Cleans the values of one row at a time; `line` is the row's in the notes."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.line = 0

    def verdict(self, value: Any) -> bool | None:
        """Read a verdict: true, false, 0, 1 and null as they stand, words with a note, anything else unjudged."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float) and value in (0, 1):
            return bool(value)
        word = value.strip().lower() if isinstance(value, str) else None
        if word in TRUE_WORDS or word in FALSE_WORDS:
            self.notes.add("F003", shown(value), self.line)
            return word in TRUE_WORDS
        self.notes.add("F004", shown(value), self.line)
        return None

    def flag(self, field: str, value: Any) -> bool | None:
        """Read a flag that may be missing; what is neither true nor false is taken as missing, with a note."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float) and value in (0, 1):
            return bool(value)
        word = value.strip().lower() if isinstance(value, str) else None
        self.notes.add("F027", field, self.line)
        if word in TRUE_WORDS:
            return True
        return False if word in FALSE_WORDS else None

    def count(self, value: Any) -> int:
        """Read a number of attempts; what is no whole number of requests counts as one, with a note."""
        number = value
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= LARGEST_COUNT:
            return number
        self.notes.add("F013", shown(value), self.line)
        digits = value.strip() if isinstance(value, str) else ""
        if digits.isdecimal() and len(digits) < len(str(LARGEST_COUNT)):
            return int(digits)
        return 1

    def seconds(self, field: str, value: Any) -> float | None:
        """Read a duration; what is no finite number of seconds is taken as not recorded, with a note."""
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LONGEST_SECONDS:
            return float(value)
        if value == value:  # NaN is noted where it was parsed
            self.notes.add("F027", field, self.line)
        return None

    def error(self, value: Any) -> str | None:
        """Read an error text; false means none, and anything that is no text is kept as its JSON."""
        if value is None or value != value:
            return None
        if isinstance(value, str):
            return self.whole("error", value)
        self.notes.add("F027", "error", self.line)
        return None if value is False else scalar_text(value)

    def label(self, field: str, value: Any) -> str | None:
        """Read a facet; numbers, flags and lists become text."""
        text = None if isinstance(value, float) and not math.isfinite(value) else scalar_text(value)
        return None if text is None else self.whole(field, text)

    def attack(self, value: Any) -> str | None:
        """Read the name of an attack; what is neither text nor missing is noted, and names one only if it is true."""
        if value is None or value != value:
            return None
        if isinstance(value, str):
            return self.whole("attack_name", value)
        self.notes.add("F027", "attack_name", self.line)
        return self.label("attack_name", value) if value else None

    def whole(self, field: str, text: str) -> str:
        """Return text that can be stored; a lone surrogate becomes U+FFFD, with a note."""
        kept = replace_surrogates(text)
        if kept != text:
            self.notes.add("F025", field, self.line)
        return kept


def scalar_text(value: Any) -> str | None:
    """Return the text of a value: text as it is, null as None, anything else as compact JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def shown(value: Any) -> str:
    """Return a short, safe form of a value for a message."""
    return clip(visible(mask_secrets(json.dumps(value, ensure_ascii=False))), 40)
