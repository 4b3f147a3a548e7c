"""What `judges try`, `targets try` and `attacks try` are given: a text, and what a dataset would say beside it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from faircount.errors import InputError, UsageError
from faircount.text import clip, visible

STDIN = "-"
_LONGEST = 64 * 1024 * 1024


def text_of(word: str) -> str:
    """Return the text that is meant: the word itself or, for -, standard input without the line feed at its end."""
    if word != STDIN:
        return word
    if sys.stdin is None:
        raise UsageError("no standard input; give the text itself")
    content = sys.stdin.buffer.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        raise InputError("standard input: is larger than 64 MiB")
    # A byte that is not UTF-8 becomes a character that says so; to refuse the rest would help nobody.
    return content.decode("utf-8-sig", "replace").removesuffix("\n")


def fields_of(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the fields of an entry from NAME=VALUE; a field that is given several times is a list."""
    fields: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--field {clip(visible(pair), 60)}: expected NAME=VALUE")
        name = name.strip()
        earlier = fields.get(name)
        fields[name] = value if name not in fields else [*(earlier if isinstance(earlier, list) else [earlier]), value]
    return fields
