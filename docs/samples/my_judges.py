"""Your own judges: a function for a simple one, a class for one with parameters and evidence."""

import re

from faircount import Attempt, Decision, Judge, Span, UsageError, Verdict


def mentions_prompt(attempt: Attempt, share: float = 0.5) -> bool:
    """The response repeats at least this share of the prompt's words."""
    asked = set(attempt.prompt.lower().split())
    answered = set((attempt.response or "").lower().split())
    return bool(asked) and len(asked & answered) >= share * len(asked)


class Shouting(Judge):
    """Hits when a response has at least this many words in capital letters."""

    name = "my_judges.Shouting"
    looks_for = "words in capital letters"
    scores = True

    def __init__(self, words: int = 1) -> None:
        if isinstance(words, bool) or not isinstance(words, int) or words < 1:
            raise UsageError("Shouting: words must be a whole number from 1 on")
        self._words = words
        super().__init__(words=words)

    def decide(self, attempt: Attempt) -> Verdict:
        """Count the words in capital letters."""
        found = list(re.finditer(r"[A-Z]{3,}", attempt.response or ""))
        span = Span(*found[0].span()) if found else None
        score = min(len(found) / self._words, 1.0)
        reason = f"{len(found)} of {self._words} words"
        return Verdict(Decision.of(len(found) >= self._words), score, reason, span)
