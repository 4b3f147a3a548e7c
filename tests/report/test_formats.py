"""Numbers for people: as precise as what is known, never nothing where there is something, the same everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import faircount
from faircount.core import Estimate
from faircount.report import formats


def rate(value: float | None, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value, low, high, 956, "entry", 0.95, "wilson")


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        (rate(0.2594, 0.125, 0.463), "26% [12, 46]"),
        (rate(0.613, 0.59, 0.6352), "61.3% [59.0, 63.5]"),
        (rate(0.5, 0.451, 0.55), "50.0% [45.1, 55.0]"),
        (rate(0.5, 0.449, 0.55), "50% [45, 55]"),
        (rate(0.0, 0.0, 0.146), "0% [0, 15]"),
        (rate(0.0, 0.0, 0.027), "0.0% [0.0, 2.7]"),
        (rate(0.25), "25.0%"),
        (rate(None), "undefined"),
    ],
)
def test_a_rate_has_whole_percents_where_its_interval_is_wider_than_ten_points(figure: Estimate, shown: str) -> None:
    assert formats.estimate(figure) == shown


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        (rate(0.004, 0.001, 0.12), "0.4% [0, 12]"),
        (rate(0.0004, 0.0002, 0.0007), "0.04% [0.0, 0.1]"),
        (rate(0.996, 0.88, 0.999), "99.6% [88, 100]"),
        (rate(0.99996, 0.999, 0.99999), "99.996% [99.9, 100.0]"),
    ],
)
def test_what_is_not_nothing_is_never_0_and_what_is_not_all_never_100(figure: Estimate, shown: str) -> None:
    assert formats.estimate(figure) == shown


def test_an_interval_stands_in_a_sentence() -> None:
    assert formats.named_interval(rate(0.2594, 0.125, 0.463)) == "95% interval 12–46%"
    assert formats.named_interval(rate(0.02, 0.006, 0.07)) == "95% interval 0.6–7.0%"
    assert formats.named_interval(rate(0.25)) == ""


def test_a_share_can_be_told_from_its_threshold() -> None:
    assert formats.percent_apart(0.0500001, 0.05) == "5.00001%"
    assert formats.percent_apart(0.04, 0.05) == "4.0%"
    assert formats.percent_apart(0.05, 0.05) == "5.0%"


def test_points_have_a_sign_unless_they_round_to_nothing() -> None:
    assert formats.difference(rate(-0.0617, -0.0944, -0.031)) == "-6.2 [-9.4, -3.1]"
    assert formats.difference(rate(0.0004, -0.02, 0.02)) == "0.0 [-2.0, +2.0]"
    assert formats.difference(rate(0.3)) == "+30.0 [no interval]"


def test_what_rounds_to_0_has_no_sign() -> None:
    assert formats.fixed(-0.0004) == "0.000"
    assert formats.fixed(-0.0006) == "-0.001"
    assert formats.fixed(None) == "undefined"


def test_an_unknown_cost_says_why() -> None:
    assert formats.cost(0.00625) == "0.0063"
    assert formats.cost(None) == "unknown"
    assert formats.cost(None, []).startswith("unknown: no model is named")
    assert formats.cost(None, ["a", "b\x1b[31m"]).startswith(r"unknown: no price for a, b\x1b[31m;")


def test_no_other_module_writes_percentages() -> None:
    """One module decides how a share is written, and the sign stands at the number, as in English."""
    root = Path(faircount.__file__).parent
    private = re.compile(r'\{100 \* [^{}]*:[^{}]*\} ?%|[\d}] %([.,;:)"]| [a-z])')
    found = [
        f"{path.relative_to(root)}:{number}: {line.strip()}"
        for path in sorted(root.rglob("*.py"))
        if path.name not in ("formats.py", "svg.py")  # lengths of a drawing are shares of its width
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if private.search(line) and "%b" not in line
    ]
    assert found == []
