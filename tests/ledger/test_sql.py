"""The shared SQL is whole statements, and quantiles stay out of it: they cannot be put together from parts."""

from __future__ import annotations

from importlib import resources
from string import Template

import pytest
import sqlglot

FOLDER = resources.files("faircount.ledger").joinpath("sql")
FILES = sorted(path.name for path in FOLDER.iterdir())
PARTS = {
    "case_signature": "CONCAT_WS(' ', '', COALESCE(a.facet_0, 0))",
    "outcome": "CASE WHEN f.succeeded THEN 0 ELSE 1 END",
    "facets": "a.facet_0",
    "unnamed_origin": "s.path",
    "decide": "MAX(decision)",
    "chosen": "judge = 1",
    "own": "a.facet_0 = 1",
    "together": "FALSE",
    "success": 0,
    "failure": 1,
    "error": 2,
    "guardrail": 3,
    "unjudged": 4,
    "several_attacks": -1,
    "task": 3,
    "entries_per_run": 4294967296,
    "half_of_them": 2147483648,
}


def text_of(name: str) -> str:
    return Template(FOLDER.joinpath(name).read_text(encoding="utf-8")).substitute(PARTS)


@pytest.mark.parametrize("name", FILES)
def test_shared_sql_is_whole_statements(name: str) -> None:
    assert all(sqlglot.parse(text_of(name), read="duckdb"))


@pytest.mark.parametrize("name", FILES)
def test_shared_sql_holds_no_quantiles(name: str) -> None:
    assert "quantile" not in text_of(name).lower()
    assert "percentile" not in text_of(name).lower()
