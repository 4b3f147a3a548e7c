"""What an export calls what the files say: their paths as the user gave them, and no free text where that is withheld.

Pages and documents are made of analyses, comparisons and lists of entries. What is named here is changed in those
before any page is made, so that no page can forget it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.browse import EntryPreview
from faircount.analysis.compare.model import FlipGroup
from faircount.core.model import ErrorKind, FailedCase, Finding, Passage, Source

LONGEST_NAME, MOST_WORDS = 40, 3
"""A value that is longer, or of more words, may be a sentence of a prompt."""
_SHORT = 12
_WITHHELD = "(withheld)"
_TEXTS = re.compile(
    r"(?:.*\.)?(?:error_kind|error|(?:judge_)?(?:reason|args)|rationale|explanation|feedback"
    r"|(?:system_|judge_)?(?:prompt|message|instructions?)|input|question|query|content|text"
    r"|response|output|answer|completion|payload|injection|goal|objective)",
    re.IGNORECASE,
)
"""Names of fields whose values are texts, however short these are."""


class Naming:
    """How the values of a run are called: by the path that it was given, and without texts where it is redacted."""

    def __init__(self, paths: Mapping[str, str], words: Mapping[str, Iterable[str]] | None = None) -> None:
        self._paths = paths
        self.redacted = words is not None
        self._withheld = {} if words is None else _withheld(words)
        self._recorded = {shown: word for word, shown in self._withheld.items()}

    def of(self, value: Any) -> Any:
        """Return a value with every path and every text in it as an export shows it."""
        if not (self._paths or self.redacted):
            return value
        return self._changed(value)

    def recorded(self, shown: str) -> str:
        """Return the word of a record that something stands for."""
        return self._recorded.get(shown, shown)

    def name(self, text: str) -> str:
        """Return a word of a record that is expected to be a name."""
        changed = self._text(text)
        return _WITHHELD if self.redacted and changed == text and _may_be_text(text) else changed

    def _changed(self, value: Any) -> Any:
        if type(value) is str:
            return self._text(value)
        if isinstance(value, Struct):
            return self._struct(value)
        if type(value) is tuple:
            return tuple(map(self._changed, value))
        if type(value) is dict:
            return {self._changed(key): self._changed(one) for key, one in value.items()}
        return value

    def _struct(self, value: Struct) -> Struct:
        changed = {}
        for name in value.__struct_fields__:
            before = getattr(value, name)
            after = self._changed(before)
            if after is not before:
                changed[name] = after
        if self.redacted:
            changed |= _without_text(value)
        return replace(value, **changed) if changed else value

    def _text(self, text: str) -> str:
        if self.redacted and text in self._withheld:
            return self._withheld[text]
        for path, shown in self._paths.items():
            if text == path or text.startswith(f"{path}:"):
                return shown + text[len(path) :]
        return text


def _without_text(value: Struct) -> dict[str, Any]:
    if isinstance(value, Finding):
        # What follows the colon quotes records.
        return {"message": value.message.partition(": ")[0]}
    if isinstance(value, FlipGroup) and value.kind == "text":
        return {"value": _WITHHELD}
    if isinstance(value, EntryPreview):
        return {"prompt": None, "response": None}
    if isinstance(value, ErrorKind):
        return {"example": _WITHHELD}
    if isinstance(value, FailedCase):
        return {name: _WITHHELD for name in ("measured", "error") if getattr(value, name) is not None}
    if isinstance(value, Passage):
        return {"text": None, "begin": 0, "end": 0}
    if isinstance(value, Source) and value.target is not None and _may_be_text(value.target):
        return {"target": _WITHHELD, "label": _WITHHELD}
    return {}


def _withheld(words: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return what stands for each value that may be a text, the same wherever the value occurs.

    Where a field is one of texts, or one of its values may be a text, its other values may be so as well, if they are
    more than a word.
    """
    found: dict[str, str] = {}
    for name, values in words.items():
        listed = list(values)
        if not (_TEXTS.fullmatch(name) or any(map(_may_be_text, listed))):
            continue
        for value in listed:
            if _may_be_text(value) or len(value) > _SHORT or " " in value:
                found.setdefault(value, f"(withheld {len(found) + 1})")
    return found


def _may_be_text(text: str) -> bool:
    return len(text) > LONGEST_NAME or "\n" in text or len(text.split()) > MOST_WORDS
