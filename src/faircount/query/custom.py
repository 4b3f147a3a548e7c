"""The terms of `--custom-search`: a text in all fields or in one, or its absence; every term must hold.

A comma begins another condition only where a field is named behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from faircount.query.parser import QueryError
from faircount.query.query import pattern, pattern_trouble, singles, text_of

Row = Mapping[str, object]

_COMMA = re.compile(r",\s*+(?=(!?)([^:,]*):)")
"""A comma before what may be the name of a field."""
_COMMA_IN_A_WORD = re.compile(r",(?=\S)")
_BEGINS_JSON = ("[", "{")
_TRUTHS = {True: ("true", "True"), False: ("false", "False")}


class Condition(Struct, frozen=True):
    """One term: the text that is searched, the field if it names one, and whether it must be absent."""

    text: str
    field: str | None = None
    inverted: bool = False


class CustomSearch(Struct, frozen=True, dict=True):
    """Conditions that a row must all fulfil."""

    conditions: tuple[Condition, ...]
    ignore_case: bool = False
    regex: bool = False

    @classmethod
    def parse(
        cls, terms: Sequence[str], fields_present: Collection[str], *, ignore_case: bool = False, regex: bool = False
    ) -> CustomSearch:
        """Return the search that the terms describe; a name before a colon is a field if it is among those present."""
        if not regex:
            terms = [part for term in terms for part in _parts(term, fields_present)]
        conditions = tuple(_condition(term, fields_present) for term in terms)
        if regex:
            for term, condition in zip(terms, conditions, strict=True):
                _check_pattern(term, condition.text, ignore_case)
        return cls(conditions, ignore_case, regex)

    @property
    def fields(self) -> frozenset[str] | None:
        """The fields that are looked at; None if all of them are."""
        names = [condition.field for condition in self.conditions]
        return None if None in names else frozenset(name for name in names if name is not None)

    @cached_property
    def _tests(self) -> list[tuple[Callable[[str], bool], Condition]]:
        return [(self._test(condition.text), condition) for condition in self.conditions]

    def matches(self, row: Row) -> bool:
        """Return whether a row fulfils every condition."""
        return all(_found(test, row, condition.field) != condition.inverted for test, condition in self._tests)

    def _test(self, text: str) -> Callable[[str], bool]:
        if self.regex:
            search = pattern(text, ignore_case=self.ignore_case).search
            return lambda value: search(value) is not None
        if self.ignore_case:
            folded = text.casefold()
            return lambda value: folded in value.casefold()
        return lambda value: text in value


def possible_fields(terms: Collection[str]) -> frozenset[str]:
    """Return the names before a first colon, or between a comma and a colon: fields, if some row has them."""
    split = [term.removeprefix("!").partition(":") for term in terms]
    listed = [found[2] for term in terms for found in _COMMA.finditer(term)]
    return frozenset([*(name for name, colon, _ in split if colon), *listed])


def _parts(term: str, fields_present: Collection[str]) -> list[str]:
    """Return the conditions of a list such as `lang:en,plugin:hex`; QueryError for a list that may be a text."""
    commas = [comma for comma in _COMMA.finditer(term) if comma[2] in fields_present]
    begins = [0, *(comma.end() for comma in commas)]
    ends = [*(comma.start() for comma in commas), len(term)]
    for begin, end in zip(begins, ends, strict=True):
        unclear = _COMMA_IN_A_WORD.search(term, begin, end)
        if unclear and not _condition(term[begin:end], fields_present).text.startswith(_BEGINS_JSON):
            raise QueryError.at(
                term,
                unclear.start(),
                "ambiguous comma: it may separate two conditions, or be part of the text",
                "Use --custom-search once per condition; for a text with a comma, use --where '\"a,b\"' or "
                "--where 'response contains \"a,b\"'.",
                "term",
            )
    return [term[begin:end] for begin, end in zip(begins, ends, strict=True)]


def _condition(term: str, fields_present: Collection[str]) -> Condition:
    text = term.removeprefix("!")
    inverted = text != term
    name, colon, rest = text.partition(":")
    if colon and name in fields_present:
        return Condition(rest, name, inverted)
    if not text:
        raise QueryError.at(
            term,
            len(term),
            "expected a text to search for",
            "Examples: canary, error:HTTP 503, !guardrail:true.",
            "term",
        )
    return Condition(text, None, inverted)


def _check_pattern(term: str, text: str, ignore_case: bool) -> None:
    trouble = pattern_trouble(text, ignore_case=ignore_case)
    if trouble is not None:
        reason, index = trouble
        start = len(term) - len(text)
        hint = "Without --regex, the term is searched literally."
        raise QueryError.at(term, start + index, f"invalid regular expression: {reason}", hint, "term")


def _found(test: Callable[[str], bool], row: Row, field: str | None) -> bool:
    values = row.values() if field is None else (row.get(field),)
    return any(test(text) for value in values for text in texts_of(value))


def texts_of(value: object) -> Iterator[str]:
    """Yield the texts in which a value is searched.

    A text is searched as it is, anything else as compact JSON. True and false are also searched as Python writes
    them, as other tools search; texts inside lists and objects also as they are, without the escapes of JSON. Null has
    no text.
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, bool):
        yield from _TRUTHS[value]
    elif value is not None:
        yield text_of(value)
        if isinstance(value, dict | list):
            yield from (single for single in singles(value) if isinstance(single, str))
