"""Given texts and patterns in the response: contained, alone, at its beginning, or by a regular expression.

Such a judge is right by definition: it says whether the text is there, not what the text means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from faircount.core.attempt import Attempt
from faircount.core.errors import UsageError
from faircount.core.patterns import Pattern, SlowPattern
from faircount.core.verdict import Decision, Span, Verdict
from faircount.judges.judge import Judge, check_flag, check_texts, quoted, texts_of_notes, written


class Sought(Struct, frozen=True):
    """A text or pattern as the user gave it, and what finds it; a plain text needs no pattern."""

    text: str
    pattern: re.Pattern[str] | Pattern | None = None

    def find(self, response: str) -> Span | None:
        """Return the first place in the response."""
        if self.pattern is None:
            start = response.find(self.text)
            return None if start < 0 else Span(start, start + len(self.text))
        match = self.pattern.search(response)
        span = match.span() if isinstance(match, re.Match) else match
        return None if span is None else Span(*span)


def sought(text: str, *, ignore_case: bool = False, whole_word: bool = False) -> Sought:
    """Return what finds a text as it is.

    Folding the case of a response would move the places of its characters, so that a span would point elsewhere;
    a pattern that ignores case leaves them where they are.
    """
    if not ignore_case and not whole_word:
        return Sought(text)
    pattern = re.escape(text)
    if whole_word:
        pattern = rf"(?<!\w){pattern}(?!\w)"
    return Sought(text, re.compile(pattern, re.IGNORECASE if ignore_case else 0))


def found_any(every: Iterable[Sought], response: str | None, verb: str = "contains") -> Verdict:
    """Return a hit with the place of the first of the things sought that the response holds."""
    response = response or ""
    for each in every:
        span = each.find(response)
        if span is not None:
            return Verdict(Decision.HIT, reason=f"{verb} {quoted(each.text)}", span=span)
    return Verdict(Decision.PASS, reason=f"{verb} nothing that was looked for")


class Contains(Judge):
    """Hits when the response contains the text, or any of a list of texts.

    `whole_word` asks that no letter, digit or underscore stands directly before or after it.
    """

    name = "strings.Contains"
    looks_for = "a given text anywhere in the response"
    string_matcher = True

    def __init__(self, text: str | Sequence[str], *, ignore_case: bool = False, whole_word: bool = False) -> None:
        texts = check_texts(self.name, "text", text)
        check_flag(self.name, "ignore_case", ignore_case)
        check_flag(self.name, "whole_word", whole_word)
        self._sought = [sought(each, ignore_case=ignore_case, whole_word=whole_word) for each in texts]
        super().__init__(text=written(texts), ignore_case=ignore_case, whole_word=whole_word)

    def decide(self, attempt: Attempt) -> Verdict:
        """Return a hit with the place of the first text of the list that is found."""
        return found_any(self._sought, attempt.response)


class StartsWith(Judge):
    """Hits when the response starts with the text, or any of a list; `strip` passes over white space before it."""

    name = "strings.StartsWith"
    looks_for = "a given text at the beginning of the response"
    string_matcher = True

    def __init__(self, text: str | Sequence[str], *, ignore_case: bool = False, strip: bool = False) -> None:
        texts = check_texts(self.name, "text", text)
        check_flag(self.name, "ignore_case", ignore_case)
        self._strip = check_flag(self.name, "strip", strip)
        flags = re.IGNORECASE if ignore_case else re.NOFLAG
        self._beginnings = [(each, re.compile(re.escape(each), flags)) for each in texts]
        super().__init__(text=written(texts), ignore_case=ignore_case, strip=strip)

    def decide(self, attempt: Attempt) -> Verdict:
        """Return a hit with the place of the beginning that is there."""
        response = attempt.response or ""
        start = len(response) - len(response.lstrip()) if self._strip else 0
        for text, pattern in self._beginnings:
            match = pattern.match(response, start)
            if match is not None:
                return Verdict(Decision.HIT, reason=f"starts with {quoted(text)}", span=Span(start, match.end()))
        return Verdict(Decision.PASS, reason="starts with none of the texts looked for")


class Exact(Judge):
    """Hits when the response is the text, or any of a list, and nothing else.

    Without `text` it is compared with the output that the record expects; a record that expects none is unjudged.
    `strip` leaves white space around both out of the comparison.
    """

    name = "strings.Exact"
    looks_for = "a response that is exactly a given text"
    string_matcher = True

    def __init__(
        self, text: str | Sequence[str] | None = None, *, ignore_case: bool = False, strip: bool = False
    ) -> None:
        self._texts = None if text is None else check_texts(self.name, "text", text, empty=True)
        self._ignore_case = check_flag(self.name, "ignore_case", ignore_case)
        self._strip = check_flag(self.name, "strip", strip)
        super().__init__(text=written(self._texts), ignore_case=ignore_case, strip=strip)

    def decide(self, attempt: Attempt) -> Verdict:
        """Return a hit when the whole response is one of the texts."""
        texts = self._texts
        if texts is None:
            if attempt.expected.output is None:
                return Verdict.unjudged("no text given, and the record has no expected output")
            texts = (attempt.expected.output,)
        response = attempt.response or ""
        answer = self._compared(response)
        for text in texts:
            if self._compared(text) == answer:
                return Verdict(Decision.HIT, reason=f"is exactly {quoted(text)}", span=self._span(response))
        return Verdict(Decision.PASS, reason="differs from what was looked for")

    def _compared(self, text: str) -> str:
        text = text.strip() if self._strip else text
        return text.casefold() if self._ignore_case else text

    def _span(self, response: str) -> Span:
        if not self._strip:
            return Span(0, len(response))
        start = len(response) - len(response.lstrip())
        return Span(start, start + len(response.strip()))


class Regex(Judge):
    """Hits when a regular expression, or any of a list, is found anywhere in the response, as spikee's judge does.

    Without `pattern` each record names its own, in `judge_args`; a record that names none is unjudged. The patterns
    are Python's. Its engine cannot be interrupted, and a pattern with nested repetitions such as `(a+)+$` can take
    longer than anybody waits on a response made for it: use patterns that you know.
    """

    name = "strings.Regex"
    looks_for = "a match of a regular expression in the response"
    string_matcher = True

    def __init__(
        self,
        pattern: str | Sequence[str] | None = None,
        *,
        ignore_case: bool = False,
        multiline: bool = False,
        dotall: bool = False,
    ) -> None:
        given = {"ignore_case": ignore_case, "multiline": multiline, "dotall": dotall}
        flags = {"ignore_case": re.IGNORECASE, "multiline": re.MULTILINE, "dotall": re.DOTALL}
        self._flags = re.NOFLAG
        for flag, value in given.items():
            if check_flag(self.name, flag, value):
                self._flags |= flags[flag]
        texts = None if pattern is None else check_texts(self.name, "pattern", pattern)
        self._patterns = None if texts is None else [self._compiled(text) for text in texts]
        parameters: dict[str, Any] = {"pattern": written(texts), **given}
        super().__init__(**parameters)

    def decide(self, attempt: Attempt) -> Verdict:
        """Return a hit with the place of the first pattern that is found."""
        patterns = self._patterns
        if patterns is None:
            texts = texts_of_notes(attempt, "pattern")
            if isinstance(texts, str):
                return Verdict.unjudged(texts)
            patterns = [self._compiled(text) for text in texts]
        try:
            return found_any(patterns, attempt.response, "matches")
        except SlowPattern as error:
            return Verdict.unjudged(str(error))

    def _compiled(self, text: str) -> Sought:
        try:
            return Sought(text, Pattern(text, self._flags))
        except re.error as error:
            place = "" if error.pos is None else f" at character {error.pos + 1}"
            why = f"{error.msg}{place}"
        except (OverflowError, RecursionError) as error:
            why = str(error)
        raise UsageError(f"{self.name}: pattern {quoted(text)} is not a regular expression: {why}")
