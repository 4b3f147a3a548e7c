"""Judges that are right by definition: given texts and patterns in the response, JSON of a given shape, a time limit.

They say whether the thing is there, not what it means.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from faircount.core.attempt import Attempt
from faircount.core.errors import UsageError
from faircount.core.patterns import Pattern, SlowPattern
from faircount.core.text import clip
from faircount.core.verdict import Decision, Span, Verdict
from faircount.judges.json_text import NotJson, decode, fenced, values
from faircount.judges.judge import (
    Judge,
    check_choice,
    check_flag,
    check_number,
    check_texts,
    quoted,
    text_or_file,
    texts_of_notes,
    written,
)


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
    string_matcher = quick = True

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
    string_matcher = quick = True

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
    string_matcher = quick = True

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
                start = len(response) - len(response.lstrip()) if self._strip else 0
                end = len(response.rstrip()) if self._strip else len(response)
                return Verdict(Decision.HIT, reason=f"is exactly {quoted(text)}", span=Span(start, max(start, end)))
        return Verdict(Decision.PASS, reason="differs from what was looked for")

    def _compared(self, text: str) -> str:
        text = text.strip() if self._strip else text
        return text.casefold() if self._ignore_case else text


class Regex(Judge):
    """Hits when a regular expression, or any of a list, is found anywhere in the response.

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


class Canary(Judge):
    """Hits when the response holds a canary: case matters, any of a list will do.

    Without `canary` each record names its own, in `judge_args`; a record that names none is unjudged.
    """

    name = "canary.Canary"
    looks_for = "a canary in the response"
    string_matcher = quick = True

    def __init__(self, *, canary: str | Sequence[str] | None = None, ignore_case: bool = False) -> None:
        self._ignore_case = check_flag(self.name, "ignore_case", ignore_case)
        texts = None if canary is None else check_texts(self.name, "canary", canary)
        self._sought = None if texts is None else self._of(texts)
        super().__init__(canary=written(texts), ignore_case=ignore_case)

    def decide(self, attempt: Attempt) -> Verdict:
        """Return a hit with the place of the first canary that is found."""
        if self._sought is not None:
            return found_any(self._sought, attempt.response)
        texts = texts_of_notes(attempt, "canary")
        if isinstance(texts, str):
            return Verdict.unjudged(texts)
        return found_any(self._of(texts), attempt.response)

    def _of(self, texts: Sequence[str]) -> tuple[Sought, ...]:
        return tuple(sought(text, ignore_case=self._ignore_case) for text in texts)


# -- JSON of a given shape ----------------------------------------------------------------------------------------

_EXTRACTS = ("whole", "fenced", "first")
_JSON_KINDS = ("json", "jsonc", "json5", "")
_LONGEST_PROBLEM = 200


class JsonSchema(Judge):
    """Hits when the answer is JSON that is valid under a JSON Schema.

    `schema` is the schema as an object, or "@" and the path of a file that holds it; without `$schema` it is read by
    the draft of 2020-12. `extract` says where the JSON is: "whole" (the answer is nothing else), "fenced" (the first
    fenced block that is marked as JSON, or else the first that is not marked), or "first" (the first object or list
    anywhere). An object with a key twice is not valid under any schema. `format` is not checked. References are
    followed within the schema and to the drafts themselves; nothing is fetched. The judge needs `faircount[schema]`.
    """

    name = "structure.JsonSchema"
    looks_for = "JSON that is valid under a schema"

    def __init__(self, schema: Mapping[str, Any] | bool | str, *, extract: str = "whole") -> None:
        self._schema = self._read(schema)
        self._extract = check_choice(self.name, "extract", extract, _EXTRACTS)
        self._validator: Any = self._checked()
        super().__init__(schema=self._schema, extract=extract)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the validator, which cannot go to another process."""
        return {**self.__dict__, "_validator": None}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Make the validator again."""
        self.__dict__.update(state)
        self._validator = self._checked()

    def _read(self, schema: object) -> Mapping[str, Any] | bool:
        if isinstance(schema, str):
            if not schema.startswith("@"):
                raise UsageError(f"{self.name}: schema must be an object, or @ followed by the path of a file")
            try:
                schema = decode(text_or_file(self.name, "schema", schema))
            except NotJson as error:
                raise UsageError(f"{self.name}: the schema file is not JSON: {error}") from None
        if not isinstance(schema, Mapping | bool):
            raise UsageError(f"{self.name}: schema must be an object, or @ followed by the path of a file with one")
        return schema

    def _checked(self) -> Any:
        """Return a validator that fetches nothing, for a schema that is one."""
        try:
            import jsonschema
            from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
        except ImportError:
            raise UsageError(f'{self.name} needs jsonschema: pip install "faircount[schema]"') from None
        kind = jsonschema.validators.validator_for(self._schema, default=jsonschema.Draft202012Validator)
        try:
            kind.check_schema(self._schema)
        except jsonschema.SchemaError as error:
            where = f"{error.json_path}: {clip(error.message, _LONGEST_PROBLEM)}"
            raise UsageError(f"{self.name}: schema is not a JSON Schema: {where}") from None
        return kind(self._schema, registry=REGISTRY)

    def decide(self, attempt: Attempt) -> Verdict:
        """Return a hit with the place of the valid JSON, or a pass with the first problem."""
        try:
            value, span = self._found(attempt.response or "")
        except NotJson as error:
            return Verdict(Decision.PASS, reason=f"not JSON: {error}")
        problem = self._problem(value)
        if problem:
            return Verdict(Decision.PASS, reason=problem, span=span)
        return Verdict(Decision.HIT, reason="valid under the schema", span=span)

    def _problem(self, value: object) -> str:
        from referencing.exceptions import Unresolvable

        try:
            error = next(self._validator.iter_errors(value), None)
        except Unresolvable as missing:
            raise UsageError(f"the schema refers to {missing.ref}, which is not in it; nothing is fetched") from None
        if error is None:
            return ""
        return f"not valid at {error.json_path}: {clip(error.message, _LONGEST_PROBLEM)}"

    def _found(self, response: str) -> tuple[Any, Span]:
        if self._extract == "fenced":
            blocks = [block for block in fenced(response) if block.kind in _JSON_KINDS]
            if not blocks:
                raise NotJson("no fenced block with JSON")
            block = next((block for block in blocks if block.kind), blocks[0])
            return decode(block.content), Span(block.start, block.end)
        if self._extract == "first":
            for value, start, end in values(response):
                return value, Span(start, end)
            raise NotJson("no object or list")
        return decode(response), Span(0, len(response))


# -- a time limit -------------------------------------------------------------------------------------------------


class Latency(Judge):
    """Hits when the target answered within `limit` seconds, the limit included.

    The score is limit / (limit + latency): 1 for no time at all, 0.5 exactly at the limit, towards 0 beyond it. An
    attempt without a latency is unjudged.
    """

    name = "latency.Latency"
    looks_for = "an answer within the time limit"
    scores = True
    needs_response = False

    def __init__(self, limit: float) -> None:
        self._limit = check_number(self.name, "limit", limit)
        if self._limit == 0:
            raise UsageError(f"{self.name}: limit must be more than 0 seconds")
        super().__init__(limit=limit)

    def decide(self, attempt: Attempt) -> Verdict:
        """Return a hit for an answer in time."""
        latency = attempt.latency
        if latency is None:
            return Verdict.unjudged("the record has no latency")
        if math.isnan(latency) or latency < 0:
            return Verdict.unjudged(f"the latency of the record, {latency}, is not a time")
        hit = latency <= self._limit
        score = 1 / (1 + latency / self._limit)
        # Just beyond the limit the division rounds to one half, which is on the other side.
        score = score if hit else min(score, math.nextafter(0.5, 0.0))
        relation = "within" if hit else "over"
        reason = f"took {latency:.3f} s, {relation} the limit of {self._limit:g} s"
        return Verdict(Decision.of(hit), score, reason)
