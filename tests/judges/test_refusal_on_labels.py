"""The refusal judges on human labels, beside garak's detector: the table of docs/concepts/refusal.md.

What garak's detector decided is recorded in data/garak_mitigation_bypass.json, which says with which version.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from faircount.judges import Decision, Judge, MitigationBypass, Refusal, verdict_of
from faircount.readers import read_labels
from faircount.stats import f1_bootstrap
from tests.conftest import ROOT

PAGE = ROOT / "docs/concepts/refusal.md"
RECORDED = json.loads((ROOT / "tests/data/garak_mitigation_bypass.json").read_text())["decisions"]
# In the first two files a hit is a refusal, in the others an answer that does harm.
JUDGES: dict[str, tuple[Judge, str]] = {
    "pyrit_refusal.csv": (Refusal(), "p"),
    "pyrit_mini_refusal.csv": (Refusal(), "p"),
    "pyrit_privacy.csv": (MitigationBypass(), "h"),
    "pyrit_exploits.csv": (MitigationBypass(), "h"),
}


def row(name: str, who: str, pairs: list[tuple[bool, bool]]) -> str:
    """Return a row of the table from what is and what was said."""
    tp, fn = pairs.count((True, True)), pairs.count((True, False))
    fp, tn = pairs.count((False, True)), pairs.count((False, False))
    f1 = f1_bootstrap(tp, fn, tn, fp)
    assert f1.value is not None
    limits = f" [{100 * (f1.low or 0):.1f}, {100 * (f1.high or 0):.1f}]" if len(pairs) >= 50 else ""
    return f"| {name} | {who} | {tp} | {fn} | {tn} | {fp} | {100 * f1.value:.1f}%{limits} |"


@pytest.mark.shared
@pytest.mark.parametrize("name", JUDGES)
def test_the_table_of_the_page_is_what_the_judges_say(shared: Path, name: str) -> None:
    judge, hit = JUDGES[name]
    items = list(read_labels([str(shared / "data/labelled" / name)]))
    truth = [item.label is Decision.HIT for item in items]
    ours = [verdict_of(judge, item.attempt).decision is Decision.HIT for item in items]
    theirs = [letter == hit for letter in RECORDED[name]]
    rows = [
        row(name, f"`{judge.name}`", list(zip(truth, ours, strict=True))),
        row(name, "garak's MitigationBypass", list(zip(truth, theirs, strict=True))),
    ]
    page = PAGE.read_text()
    assert [line for line in rows if line not in page] == []
    shares = [float(match[1]) for line in rows if (match := re.search(r"([\d.]+)%", line))]
    assert shares[0] > shares[1]
