"""Every regular expression of the package takes time in proportion to the text that it meets."""

from __future__ import annotations

import math
import re
import time

import pytest

from faircount.reading.spikee_families import family
from faircount.text import mask_secrets
from tests.patterns import Found, collect, cost, hostile_texts

_SMALL, _LARGE = 5_000, 20_000
_QUICK = 0.003
"""CPU seconds for the larger text that are not worth a second look: 0.15 s for a megabyte."""
_TOO_LONG = 0.15
_GROWTH = 8.0
"""Four times the text may take four times as long, and twice that on a machine that is busy; quadratic is 16."""

_AT_ONE_PLACE = {"faircount.judging.builtin.code._PATTERNS", "faircount.reading.other_tools._BY_START"}
"""Patterns in a table whose users try them at the beginning of a text only."""
_CLIPPED = {"faircount.judging.builtin.code._PATTERNS": 400}
"""Patterns that meet texts of at most so many characters."""
_OF_THE_COMMAND_LINE = {"faircount.analysis.exporting_columns._NAME"}
"""Patterns that meet what the user typed and nothing else."""


def _used(found: Found) -> Found:
    return Found(found.place, found.pattern, True) if found.place in _AT_ONE_PLACE else found


def _superlinear(found: Found) -> str | None:
    """Return the beginning of a text that takes a pattern out of proportion, if there is one."""
    small = list(hostile_texts(found.pattern, _SMALL))
    costs = []
    for text in small:
        costs.append(cost(found, text))
        if costs[-1] > _TOO_LONG and (math.isinf(costs[-1]) or cost(found, text) > _TOO_LONG):
            return f"{costs[-1]:.2f} s for {text[:60]!r}…"
    large = list(hostile_texts(found.pattern, _LARGE))
    for number in sorted(range(len(small)), key=lambda each: -costs[each])[:3]:
        more = min(cost(found, large[number]) for _ in range(2))
        if more > _QUICK:
            more = min(more, *(cost(found, large[number]) for _ in range(3)))
            less = min(cost(found, small[number]) for _ in range(5))
            if more > _QUICK and more > _GROWTH * less:
                return f"{less * 1000:.1f} ms, then {more * 1000:.1f} ms for {small[number][:60]!r}…"
    return None


def test_every_pattern_is_linear_or_meets_clipped_text() -> None:
    every = [_used(found) for found in collect()]
    assert len(every) > 300
    assert {found.place for found in every} >= _AT_ONE_PLACE | _CLIPPED.keys() | _OF_THE_COMMAND_LINE
    checked = [found for found in every if found.place not in _CLIPPED.keys() | _OF_THE_COMMAND_LINE]
    assert not {found.place: worst for found in checked if (worst := _superlinear(found))}


def test_patterns_over_clipped_text_are_quick_at_its_full_length() -> None:
    for found in map(_used, collect()):
        if limit := _CLIPPED.get(found.place):
            for text in hostile_texts(found.pattern, limit):
                assert cost(found, text) < 0.002 or min(cost(found, text) for _ in range(3)) < 0.002, text[:60]


@pytest.mark.parametrize(
    "pattern",
    [
        r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)",
        r"(a+)+$",
        r"\s+$",
        r"<a [^>]*/>",
        r"(\w+(?:Error|Exception)):",
    ],
)
def test_the_check_finds_patterns_that_are_not(pattern: str) -> None:
    anchored = pattern.startswith("[+-]")
    assert _superlinear(Found("here", re.compile(pattern), anchored)) is not None


def test_masking_a_megabyte_takes_no_longer_than_reading_it() -> None:
    begun = time.process_time()
    mask_secrets("eyJaaaaaaaaaa-" * 75_000)
    mask_secrets("eyJ-" * 250_000)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl!", "eyJ…[masked]!"),
        ("a-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.", "a-eyJ…[masked]"),
        ("www.eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0 end", "www.eyJ…[masked] end"),
        ("longer-than-13.eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0", "longer-than-13.eyJ…[masked]"),
        ("heyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0", "heyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0"),
        ("eyJhbGciOiJIUzI1NiJ9 and eyJzdWIiOiIxMjM0In0.", "eyJhbGciOiJIUzI1NiJ9 and eyJzdWIiOiIxMjM0In0."),
        ("eyJhbGciOiJIUzI1NiJ9.short", "eyJhbGciOiJIUzI1NiJ9.short"),
    ],
)
def test_web_tokens_are_masked_wherever_they_begin(text: str, shown: str) -> None:
    assert mask_secrets(text) == shown


def test_long_ids_are_taken_apart_in_linear_time() -> None:
    begun = time.process_time()
    family("task_doc_" + "_a" * 200_000, "doc", "end", None, None)
    assert time.process_time() - begun < 2


def test_an_error_of_megabytes_is_described_at_once() -> None:
    from faircount.reading.error_kinds import describe

    begun = time.process_time()
    for number in range(50):
        for hostile in ("A_" * 500_000, "https://a" * 100_000, "a." * 500_000, "eyJaaaaaaaaaa-" * 70_000):
            describe(f"{number} {hostile}")
    assert time.process_time() - begun < 5
