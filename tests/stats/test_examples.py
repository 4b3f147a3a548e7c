"""Worked examples from elsewhere: every number that an example expects comes out of the library, at its tolerance.

The file named by FAIRCOUNT_STAT_EXAMPLES is checked (by default the shared one) and always our own, of the same shape:
`{"examples": [{"id", "family", "inputs", "expected", "abs_tol", …}]}`. Ids are only shown, never looked at.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, shared_folder
from tests.judges import examples_of_judges
from tests.stats import examples_of_rates

OWN = Path(__file__).parents[1] / "data" / "stat_examples.json"
SHARED = Path(
    os.environ.get("FAIRCOUNT_STAT_EXAMPLES", (shared_folder() or ROOT.parent / "shared") / "stats" / "examples.json")
)


def examples(path: Path) -> list[Any]:
    """Return the examples of a file as test parameters; where it is absent, one that says so."""
    if not path.is_file():
        absent = pytest.mark.skip(reason=f"{path} is not here (FAIRCOUNT_STAT_EXAMPLES)")
        return [pytest.param({}, id="absent", marks=absent)]
    document = json.loads(path.read_text(encoding="utf-8"))
    listed = document["examples"] if isinstance(document, dict) else document
    return [pytest.param(example, id=str(example["id"])) for example in listed]


def check(example: dict[str, Any]) -> None:
    """Let the module that knows the family answer; one that nobody knows fails there."""
    about_rates = example["family"] in examples_of_rates.FAMILIES
    answer = examples_of_rates.check if about_rates else examples_of_judges.check
    answer(example["family"], example["inputs"], example["expected"], example["abs_tol"])


@pytest.mark.parametrize("example", examples(SHARED))
def test_a_worked_example_comes_out(example: dict[str, Any]) -> None:
    check(example)


@pytest.mark.parametrize("example", examples(OWN))
def test_an_example_of_our_own_comes_out(example: dict[str, Any]) -> None:
    assert example["source"], "an expected value comes from somebody else, who is named"
    check(example)


@pytest.mark.parametrize(
    ("family", "inputs", "expected"),
    [
        ("astrology", {"k": 1, "n": 2}, {"p": 0.5}),
        ("single_proportion_ci", {"k": 1, "stars": 2}, {"p": 0.5}),
        ("single_proportion_ci", {"k": 1, "n": 2}, {"fortune": 0.5}),
        ("single_proportion_ci", {"k": 1, "n": 2}, {"p": 0.51}),
        ("single_proportion_ci", {"k": 1, "n": 2}, {"p": None}),
        ("single_proportion_ci", {"k": 0, "n": 0}, {"p": 0.0}),
        ("single_proportion_ci", {"k": 1, "n": 2}, {"wilson": [0.1]}),
        ("single_proportion_ci", {"k": 1, "n": 2}, {}),
    ],
)
def test_an_example_that_is_unknown_or_wrong_fails(
    family: str, inputs: dict[str, Any], expected: dict[str, Any]
) -> None:
    with pytest.raises((AssertionError, LookupError)):
        check({"family": family, "inputs": inputs, "expected": expected, "abs_tol": 1e-6})
