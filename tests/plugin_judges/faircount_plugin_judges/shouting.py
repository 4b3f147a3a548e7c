"""Words in capital letters."""

from __future__ import annotations

import re

from faircount import Attempt, Decision, Judge, Span, Verdict
from faircount.core import UsageError

_WORD = re.compile(r"[A-Z]{3,}")


class Shouting(Judge):
    """Hits when a response has at least this many words in capital letters."""

    name = "shouting.Shouting"
    looks_for = "words in capital letters"
    scores = True

    def __init__(self, words: int = 1) -> None:
        if isinstance(words, bool) or not isinstance(words, int) or words < 1:
            raise UsageError("shouting.Shouting: words must be a whole number from 1 on")
        self._words = words
        super().__init__(words=words)

    def decide(self, attempt: Attempt) -> Verdict:
        """Count the words in capital letters."""
        found = list(_WORD.finditer(attempt.response or ""))
        span = Span(*found[0].span()) if found else None
        score = min(len(found) / self._words, 1.0)
        return Verdict(Decision.of(len(found) >= self._words), score, f"{len(found)} of {self._words} words", span)
