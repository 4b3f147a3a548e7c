"""Every regular expression of the package takes time in proportion to the text that it meets."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faircount.core import Pattern, SlowPattern, mask_secrets
from faircount.judges import Attempt, Decision, Regex
from faircount.readers import family
from tests.conftest import Cli, Write, encode, standard
from tests.patterns import Found, collect, cost, hostile_texts

_SMALL, _LARGE = 1_000, 4_000
_QUICK = 0.0003
"""CPU seconds for the larger text that are not worth a second look, on a quick machine too."""
_TOO_LONG = 0.15
_GROWTH = 8.0
"""Four times the text may take four times as long, and twice that on a machine that is busy; quadratic is 16."""

_AT_ONE_PLACE = {"faircount.judges.builtin.code._PATTERNS", "faircount.readers.registry._NOT_READ"}
"""Patterns in a table whose users try them at the beginning of a text only."""
_CLIPPED = {
    "faircount.judges.builtin.code._PATTERNS": 400,
    **{f"faircount.app.web.pages.{name}": 200 for name in ("_WORD", "_TEST", "_AFTER_FIELD")},
}
"""Patterns that meet texts of at most so many characters."""
_OF_THE_COMMAND_LINE = {"faircount.analysis.export._NAME", "faircount.readers.table_files._COMPARED"}
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
            if more > _QUICK and more > _GROWTH * less and _grows(found, large[number], number):
                return f"{less * 1000:.1f} ms, then {more * 1000:.1f} ms for {small[number][:60]!r}…"
    return None


def _grows(found: Found, text: str | bytes, number: int) -> bool:
    """Look again, at four times the size: little of that time is noise."""
    longer = list(hostile_texts(found.pattern, 4 * _LARGE))[number]
    return cost(found, longer) > _GROWTH * min(cost(found, text) for _ in range(3))


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
    from faircount.readers import describe

    begun = time.process_time()
    for number in range(50):
        for hostile in ("A_" * 500_000, "https://a" * 100_000, "a." * 500_000, "eyJaaaaaaaaaa-" * 70_000):
            describe(f"{number} {hostile}")
    assert time.process_time() - begun < 5


# -- patterns that users and records bring ----------------------------------------------------------------------

_SLOW = "(a|aa)+b"
_HOSTILE = "a" * 60 + "!"
_PIECES = st.sampled_from(
    [
        *"ab[]{}^$.*+?|()-,1 :<=é",
        *(r"\w", r"\W", r"\s", r"\S", r"\b", r"\B", r"\d", r"\[", r"\]", r"\{", r"\\", "{2}", "{,3}", "{1,}"),
        *("[a-c]", "[^a]", "(?i)", "(?:", "(?=", "(?!", "(?<=a)", "[[:alpha:]]", "{e<=1}", "[]a]", r"[\w-]"),
    ]
)


def _spans(pattern: str, text: str) -> list[tuple[int, int]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [match.span() for match in re.finditer(pattern, text)]


@settings(max_examples=600, deadline=None)
@given(st.lists(_PIECES, min_size=1, max_size=7).map("".join), st.text("ab]{}[1_-e<=: é\u093f\x1c\n²Ⅷ", max_size=12))
def test_a_pattern_finds_what_pythons_own_module_finds(pattern: str, text: str) -> None:
    try:
        expected = _spans(pattern, text)
    except (re.error, OverflowError):
        with pytest.raises((re.error, OverflowError)):
            Pattern(pattern)
        return
    assert list(Pattern(pattern).spans(text)) == expected


def test_a_search_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircount.core.patterns.LIMIT", 0.2)
    pattern = Pattern(_SLOW)
    for _ in range(6):
        with pytest.raises(SlowPattern, match=r"took more than 0\.[12] s"):
            pattern.search(_HOSTILE)
    assert pattern.search("aab") == (0, 3)


def test_a_judge_whose_pattern_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircount.core.patterns.LIMIT", 0.2)
    verdict = Regex(pattern=_SLOW).decide(Attempt(response=_HOSTILE))
    assert verdict.decision is None and "took more than 0.2 s" in str(verdict.error)
    assert Regex(pattern=_SLOW).decide(Attempt(response="aab")).decision is Decision.HIT


def test_rows_whose_search_was_cut_off_are_counted_as_unreadable(
    cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faircount.core.patterns.LIMIT", 0.2)
    path = write([standard(1, response="aab"), standard(2, response=_HOSTILE), standard(3, response="aab")])
    query = f'response matches "{_SLOW}"'
    ran = cli("results", "analyze", path, "--where", query, "--output-format", "json")
    found = {each["code"]: each for each in json.loads(ran.out)["analyses"][0]["findings"]}
    assert found["F001"]["count"] == 1 and found["F001"]["where"][0].endswith(":2")
    assert cli("results", "analyze", path, "--where", query, "--strict").code == 3
    ran = cli("results", "extract", path, "--where", query, "-o", f"{path}.out")
    assert ran.code == 3 and ":2: the pattern" in ran.err


def test_a_pattern_of_a_dataset_does_not_stop_a_run(tmp_path: Path) -> None:
    rows = [{"id": 0, "content": "p", "judge_name": "regex", "judge_args": _SLOW}]
    rows += [{"id": n, "content": "p", "judge_name": "canary", "judge_args": "X"} for n in range(1, 4)]
    (tmp_path / "ds.jsonl").write_bytes(encode(rows))
    (tmp_path / "bot.py").write_text(f"def evil(prompt):\n    return {_HOSTILE!r}\n")
    words = ["run", "ds.jsonl", "--target", "./bot.py:evil", "--journal", "j.jsonl", "--output-format", "json"]
    done = subprocess.run([sys.executable, "-m", "faircount", *words], cwd=tmp_path, capture_output=True, timeout=90)
    assert done.returncode == 0, done.stderr
    assert "took more than" in (tmp_path / "j.jsonl").read_text()
    assert json.loads(done.stdout)["analyses"][0]["entries"]["unjudged"] == 1
