"""What people read is plain English, and short: phrases that no native speaker would use do not come back."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import cli_reference

import faircount
from faircount import stats
from faircount.core import REGISTER, explanations
from tests.conftest import ROOT

PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md")),
        *(ROOT / "docs").rglob("*.md"),
    ]
)
MOST_WORDS = 45_000
"""Words outside code blocks in all pages of `docs/`, those that are generated included."""

PHRASES = (
    r"read (it|them|this) so\b",
    r"\bdoubts\b",
    r"\bcoded (doubt|problem)s? (about|beside)",
    r"\bputs? (a |the )?(tests?|datasets?|prompts?|entries) to (a |the |each )?target",
    r"\bas often as it says",
    r"\bnone twice\b",
    r"\bgoes on after (any|a) stop",
    r"\bneed not be read again",
    r"\bis no facet of\b",
    r"\bvalues differ as families do",
    r"\btreated rightly\b",
    r"\btold apart\b",
    r"\btells? of\b",
    r"\bstands? in (the|a|an|one|it|any)\b",
    r"\bstands? in\b[.;,]",
    r"\b(is|are) in no (figure|rate|entry|cell)\b",
    r"\banew\b",
    r"\bpacked (file|in|with)\b",
    r"\bcannot tell\b",
    r"\b\d+\.\d0 ?%",
    r"\d %",
    r"\bhas it all\b",
    r"\bTell whether\b",
    r"\bso-manieth\b",
    r"\bhalf (a )?characters?\b",
    r"\blots of (draws|entries)\b",
    r"\bof one's own\b",
    r"\bput together again\b",
    r"\bthat nobody (has )?looked\b",
    r"\bleave the option away\b",
    r"\bwhat is told\b",
    r"\bsays how sure\b",
    r"\bnothing judged (them|it)\b",
    r"\bwhenever one looks\b",
    r"\bturned round\b",
    r"\bliker\b",
)
"""Phrases to avoid, as regular expressions that ignore case."""
_AVOIDED = re.compile("|".join(f"(?:{phrase})" for phrase in PHRASES), re.IGNORECASE)


def avoided(text: str) -> list[str]:
    """Return the phrases to avoid in a text, with the words around them."""
    flat = " ".join(text.split())
    return [flat[max(0, found.start() - 20) : found.end() + 20] for found in _AVOIDED.finditer(flat)]


def prose(text: str) -> str:
    """Return Markdown without code blocks and code."""
    without_blocks = re.sub(r"^[ ]*```.*?^[ ]*```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "`code`", without_blocks)


def words(text: str) -> int:
    """Count the words of Markdown outside code blocks; the bars of tables are none."""
    without_blocks = re.sub(r"^[ ]*```.*?^[ ]*```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return len(re.findall(r"[^\s|]*\w[^\s|]*", without_blocks))


@pytest.mark.parametrize("phrase", ["Read it so:", "61.30%", "61.3 %", "is read anew", "told apart by", "tells of it"])
def test_the_list_finds_what_it_is_for(phrase: str) -> None:
    assert avoided(f"These rows are good. {phrase}")


@pytest.mark.parametrize("text", ["It stands alone: 61.3% [55, 67].", "How to read this:", "It tells them to read it."])
def test_the_list_leaves_plain_english_alone(text: str) -> None:
    assert not avoided(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_in_plain_english(page: Path) -> None:
    assert avoided(prose(page.read_text(encoding="utf-8"))) == []


def _docstrings() -> Iterator[tuple[str, str]]:
    for module in (faircount, stats, importlib.import_module("faircount.testing")):
        for name in dir(module):
            if not name.startswith("_"):
                yield f"{module.__name__}.{name}", inspect.getdoc(getattr(module, name)) or ""


def test_docstrings_of_the_public_api_are_in_plain_english() -> None:
    assert {name: found for name, text in _docstrings() if (found := avoided(text))} == {}


def test_help_texts_of_all_commands_are_in_plain_english() -> None:
    assert avoided(cli_reference.page()) == []


def test_findings_are_in_plain_english() -> None:
    texts = {code: " ".join((REGISTER[code].title, e.cause, e.effect, e.remedy)) for code, e in explanations().items()}
    assert {code: found for code, text in texts.items() if (found := avoided(text))} == {}


def test_the_documentation_is_short() -> None:
    counts = {path.relative_to(ROOT): words(path.read_text(encoding="utf-8")) for path in (ROOT / "docs").rglob("*.md")}
    assert sum(counts.values()) <= MOST_WORDS, sorted(counts.items(), key=lambda pair: -pair[1])[:10]
