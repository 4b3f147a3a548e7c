"""Queries and terms that real runs of spikee were given: understood, and answered as their authors meant them.

The golden runs of `spikee results extract` are the oracle: the rows in the file that a run wrote where it was kept,
else the number of rows that it printed. Where the page on queries names a difference, the rows are chosen here by
plain Python instead.
"""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from faircount.query import CustomSearch, QueryError, parse
from tests.conftest import shared_folder

SHARED = shared_folder()
GOLDEN = (SHARED or Path("shared")) / "golden" / "spikee"
Row = dict[str, Any]

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(SHARED is None, reason="the shared files are not here (FAIRCOUNT_SHARED or ../shared)"),
]


class Case:
    """One run of `spikee results extract`: what it was asked, and what it answered."""

    def __init__(self, folder: Path) -> None:
        ran = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        parser = ArgumentParser()
        for option in ("--query", "--tag", "--category", "--custom-search"):
            parser.add_argument(option)
        parser.add_argument("--result-file", action="append", default=[])
        parser.add_argument("--result-folder", action="append", default=[])
        asked = parser.parse_args(ran["argv"][3:])
        self.folder = folder
        self.query: str = asked.query or ""
        self.term: str | None = asked.custom_search
        self.printed = (folder / "stdout.txt").read_text(encoding="utf-8")
        self.failed = ran["rc"] != 0
        workspace = GOLDEN / "ws"
        folders = [path for name in asked.result_folder for path in sorted((workspace / name).glob("*.jsonl"))]
        self.files = [*(workspace / name for name in asked.result_file), *folders]

    @property
    def rows(self) -> list[Row]:
        return [row for path in self.files for row in rows_of(path)]

    @property
    def kept(self) -> list[Any] | None:
        """The ids of the rows that spikee chose, where the file that it wrote was kept."""
        files = list((self.folder / "files").rglob("*.jsonl"))
        return [row["original_id"] for path in files for row in rows_of(path)] if files else None

    @property
    def count(self) -> int:
        (count,) = re.findall(r"Extracted (\d+) /", self.printed)
        return int(count)


@cache
def rows_of(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def cases(pattern: str) -> dict[str, Case]:
    return {folder.name: Case(folder) for folder in sorted((GOLDEN / "out").glob(pattern))}


QUERIED = cases("extract_*")
CUSTOM = {name: case for name, case in cases("extract091_custom_*").items() if case.term is not None}

REFUSED = {"extract_bad1", "extract_bad3", "extract_bad4", "extract_bad5", "extract_empty", "extract_numfield"}

# What the author meant, where spikee did otherwise.
MEANT: dict[str, Callable[[Row], bool]] = {
    "extract_bad2": lambda row: "x" in row["response"].lower(),
    "extract_badtag": lambda row: row["success"] is True,
    "extract_nolongid": lambda row: row["success"] is True,
    "extract_bare_success": lambda row: row["success"] is True,
    "extract_like_multiline": lambda row: "january" in row["response"].lower(),
    "extract_noguard_ne": lambda row: row.get("guardrail") is not True,
    "extract_unicode": lambda row: "café" in json.dumps(row, ensure_ascii=False) and row["id"] in (1, 2),
    "extract_unicode_like": lambda row: "canary" in row["response"],
}


def chosen(case: Case) -> list[Any]:
    """Return the ids that the query of a case chooses; spikee's queries ignore case."""
    query = parse(case.query, ignore_case=True)
    return [row["id"] for row in case.rows if query.matches(row)]


@pytest.mark.parametrize("name", sorted(set(QUERIED) - REFUSED - set(MEANT)))
def test_a_query_chooses_the_rows_that_spikee_chose(name: str) -> None:
    case = QUERIED[name]
    assert len(chosen(case)) == case.count
    if case.kept is not None:
        assert chosen(case) == case.kept


@pytest.mark.parametrize("name", sorted(set(QUERIED) & set(MEANT)))
def test_a_query_chooses_what_its_author_meant(name: str) -> None:
    case = QUERIED[name]
    ids = chosen(case)
    assert ids == [row["id"] for row in case.rows if MEANT[name](row)]
    assert ids
    assert case.failed or len(ids) != case.count


@pytest.mark.parametrize("name", sorted(set(QUERIED) & REFUSED))
def test_a_query_that_spikee_refuses_is_refused_at_the_same_character(name: str) -> None:
    case = QUERIED[name]
    position = re.findall(r"at character (\d+)", case.printed)
    with pytest.raises(QueryError) as caught:
        parse(case.query)
    assert [str(caught.value.position + 1)] == (position or ["1"])


# In 0.9.1 `!field:term` turned nothing round.
OTHER_COUNTS = {"extract091_custom_negfield": 741}


@pytest.mark.parametrize("name", sorted(CUSTOM))
def test_terms_choose_the_rows_that_spikee_chose(name: str) -> None:
    case = CUSTOM[name]
    fields = {field for row in case.rows for field in row}
    search = CustomSearch.parse([str(case.term)], fields)
    ids = [row["id"] for row in case.rows if search.matches(row)]
    assert len(ids) == OTHER_COUNTS.get(name, case.count)
    if case.kept is not None:
        assert ids == case.kept


def test_the_golden_runs_are_there() -> None:
    assert len(QUERIED) >= 30
    assert len(CUSTOM) == 6
    assert QUERIED.keys() >= MEANT.keys() | REFUSED
