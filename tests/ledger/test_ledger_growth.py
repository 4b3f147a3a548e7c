"""Choices among rows that were once made by looking at all pairs: the same, and without the pairs."""

from __future__ import annotations

import random
import time
from typing import Any

import duckdb
import pytest

from faircount.ledger import Overlap, linked_sources, origin_keys
from faircount.ledger.store import _statement
from tests.conftest import Write, analysis_of, attack, standard

ALL_PAIRS = """
SELECT ord, case_ord
FROM (
    SELECT
        a.ord,
        c.case_ord,
        ROW_NUMBER() OVER (
            PARTITION BY a.ord
            ORDER BY
                CASE WHEN c.text_hash = a.objective_hash THEN 0 ELSE 1 END,
                CASE WHEN c.signature = a.signature THEN 0 ELSE 1 END,
                CASE WHEN c.case_ord < a.ord THEN 0 ELSE 1 END,
                c.case_ord DESC
        ) AS choice
    FROM row_history AS a
    INNER JOIN standard_case AS c ON a.origin_key = c.origin_key AND a.entry_id = c.entry_id
    WHERE a.status = 'kept' AND a.is_attack
) AS ranked
WHERE choice = 1
"""
"""The case of an attack row by its definition."""

ALL_OVERLAPS = """
SELECT
    a.source,
    b.source,
    COUNT(DISTINCT a.ord),
    COUNT(DISTINCT CASE WHEN a.decision IS NOT DISTINCT FROM b.decision THEN a.ord END),
    COUNT(DISTINCT CASE WHEN a.response_time IS NOT NULL THEN a.ord END)
FROM attempt AS a
INNER JOIN attempt AS b
    ON
        a.source <> b.source
        AND a.text_hash = b.text_hash
        AND a.response_hash = b.response_hash
        AND a.parent_id = b.parent_id
        AND a.requests = b.requests
        AND a.mark = b.mark
        AND a.response_time IS NOT DISTINCT FROM b.response_time
        AND a.error_text IS NOT DISTINCT FROM b.error_text
        AND a.attack IS NOT DISTINCT FROM b.attack
GROUP BY a.source, b.source
"""


def cases_statement() -> str:
    text = _statement("resolve_rows.sql", case_signature="")
    begin = text.index("SELECT", text.index("CREATE TABLE attack_case AS"))
    return text[begin : text.index(";", begin)]


@pytest.mark.parametrize("seed", range(40))
def test_an_attack_row_belongs_to_the_case_that_all_pairs_say(seed: int) -> None:
    draw = random.Random(seed)
    rows: list[tuple[Any, ...]] = []
    for ord_ in range(draw.choice([30, 60, 200])):
        text = draw.choice([None, 1, 2, 3]) if draw.random() < 0.9 else draw.randrange(50)
        rows.append(
            (
                ord_,
                0,
                draw.randrange(2),
                f"e{draw.randrange(3)}",
                draw.random() < 0.5,
                text,
                text,
                f"s{draw.randrange(3)}",
            )
        )
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE row_history (ord BIGINT, source INT, origin_key INT, entry_id TEXT, is_attack BOOLEAN,"
            " text_hash INT, objective_hash INT, signature TEXT, status TEXT)"
        )
        connection.executemany("INSERT INTO row_history VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'kept')", rows)
        connection.execute(
            "CREATE TABLE standard_case AS SELECT origin_key, entry_id, text_hash, signature, MIN(ord) AS case_ord"
            " FROM row_history WHERE NOT is_attack GROUP BY ALL"
        )
        found, expected = (
            sorted(connection.execute(statement).fetchall()) for statement in (cases_statement(), ALL_PAIRS)
        )
    assert found == expected and expected


@pytest.mark.parametrize("seed", range(40))
def test_runs_are_linked_as_all_pairs_of_files_say(seed: int) -> None:
    draw = random.Random(seed)
    names = ["results_a", "results_b", "rejudge_a", "rejudge_b", "extract_c", "results_d"]
    paths = [f"{name}.jsonl" for name in draw.sample(names, 4)]
    rows: list[tuple[Any, ...]] = []
    pool = [(draw.randrange(3), draw.randrange(2), draw.choice([None, draw.random()])) for _ in range(6)]
    for source in range(len(paths)):
        for text, response, seconds in draw.sample(pool, draw.randrange(1, 6)):
            rows.append((len(rows), source, text, response, 1, 1, 0, seconds, None, None, draw.randrange(2)))
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE attempt (ord BIGINT, source INT, text_hash INT, response_hash INT, parent_id INT,"
            " requests INT, mark INT, response_time DOUBLE, error_text TEXT, attack INT, decision INT)"
        )
        connection.executemany(f"INSERT INTO attempt VALUES ({', '.join('?' * 11)})", rows)
        counts = [sum(row[1] == source for row in rows) for source in range(len(paths))]
        shared_times = connection.execute(_statement("share_times.sql")).fetchall()
        connection.execute("CREATE TABLE linked (source INT, other INT)")
        pairs = linked_sources(paths, counts, shared_times)
        if pairs:
            connection.executemany("INSERT INTO linked VALUES (?, ?)", pairs)
        found, expected = (
            [Overlap(*row) for row in connection.execute(statement).fetchall()]
            for statement in (_statement("link_sources.sql"), ALL_OVERLAPS)
        )
    assert set(found) <= set(expected)
    named = [(source, "") for source in range(len(paths))]
    assert origin_keys(paths, named, found, counts) == origin_keys(paths, named, expected, counts)


def test_one_id_with_thousands_of_rows_is_told_apart_in_the_time_that_it_takes_to_read_it(write: Write) -> None:
    """It took 33 s and 6 GB, since all pairs of its rows were made."""
    rows = [standard(1, input=f"case {i}", success=i % 9 == 0) for i in range(4_000)]
    rows += [attack(1, input=f"attack {i}", objective=f"case {i}", success=i % 7 == 0) for i in range(4_000)]
    path = write(rows)
    started = time.process_time()
    assert analysis_of(path, cache=False).tally.total == 4_000
    assert time.process_time() - started < 10
