"""Parquet: a documented schema that other readers know, every text as it was, and nothing changed in silence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.ledger import engine
from faircount.report import SQL_TYPES, Stored, Value, parquet, write_parquet
from tests.analysis.test_export import HOSTILE
from tests.conftest import ROOT, Cli, Write, attack, row, standard

KINDS = ("text", "whole", "number", "truth")
# What Spark 3 and 4 read: no unsigned numbers, no lists and objects.
PHYSICAL = {"text": "BYTE_ARRAY", "whole": "INT64", "number": "DOUBLE", "truth": "BOOLEAN"}


@pytest.fixture(autouse=True)
def _folder_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def stored(folder: Path, columns: list[tuple[str, str]], rows: Any) -> tuple[Stored, list[tuple[Any, ...]]]:
    path = folder / "x.parquet"
    with path.open("wb") as file:
        told = write_parquet(file.write, folder, columns, rows, lambda inside: engine.connect(folder=inside, threads=1))
    assert [item.name for item in folder.iterdir()] == ["x.parquet"]
    return told, duckdb.read_parquet(str(path)).fetchall()


def export(cli: Cli, path: str, *words: str) -> str:
    ran = cli("results", "export", path, "-o", "out.parquet", *words)
    assert ran.code == 0, ran.err
    return ran.err


def schema(path: str = "out.parquet") -> dict[str, tuple[str, str | None]]:
    rows = duckdb.execute("SELECT name, type, converted_type FROM parquet_schema(?)", [path]).fetchall()
    return {name: (kind, converted) for name, kind, converted in rows[1:]}


# -- the schema -------------------------------------------------------------------------------------------------


def test_the_schema_of_rows_is_the_documented_one(write: Write, cli: Cli) -> None:
    export(cli, write([standard(1, response_time=0.5, guardrail=False, other={"x": 1}), attack(1, success=True)]))
    found = {name: kind for name, (kind, _) in schema().items()}
    expected = {
        "line": "INT64", "attempts": "INT64", "response_time": "DOUBLE", "success": "BOOLEAN", "guardrail": "BOOLEAN",
    }  # fmt: skip
    assert found == {name: expected.get(name, "BYTE_ARRAY") for name in found}
    assert list(found)[:5] == ["file", "line", "strategy", "outcome", "id"]
    assert expected.keys() < found.keys()


def test_the_guide_tells_the_schema(write: Write, cli: Cli) -> None:
    guide = (ROOT / "docs" / "guides" / "export.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", guide, re.MULTILINE))
    for words in ([], ["--entries"]):
        export(cli, write([standard(1, response_time=0.5, guardrail=False, lang="en")]), "--force", *words)
        types = {name: kind for name, kind, *_ in duckdb.execute("DESCRIBE FROM 'out.parquet'").fetchall()}
        for name, kind in types.items():
            assert told.get(name, "VARCHAR") == kind, name


def test_types_are_those_that_every_reader_has(tmp_path: Path) -> None:
    rows: list[list[Value]] = [["x", 1, 1.5, True]]
    stored(tmp_path, list(zip(KINDS, KINDS, strict=True)), rows)
    assert {name: kind for name, (kind, _) in schema("x.parquet").items()} == PHYSICAL
    assert schema("x.parquet")["text"][1] == "UTF8"
    assert set(SQL_TYPES.values()) == {"VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN"}


def test_a_table_without_rows_has_its_types_too(write: Write, cli: Cli) -> None:
    export(cli, write([row(1)]), "--where", "id = 2")
    assert schema()["line"][0] == "INT64"
    assert schema()["response"] == ("BYTE_ARRAY", "UTF8")
    assert duckdb.execute("SELECT COUNT(*) FROM 'out.parquet'").fetchall() == [(0,)]


# -- other readers ----------------------------------------------------------------------------------------------


def _by_pandas() -> list[dict[str, Any]]:
    frame = pandas.read_parquet("out.parquet")
    return [{name: None if pandas.isna(v) else v for name, v in line.items()} for line in frame.to_dict("records")]


def _by_duckdb() -> list[dict[str, Any]]:
    found = duckdb.read_parquet("out.parquet")
    return [dict(zip(found.columns, line, strict=True)) for line in found.fetchall()]


def _by_pyarrow() -> list[dict[str, Any]]:
    parquet = pytest.importorskip("pyarrow.parquet")
    read: list[dict[str, Any]] = parquet.read_table("out.parquet").to_pylist()
    return read


def _by_polars() -> list[dict[str, Any]]:
    polars = pytest.importorskip("polars")
    read: list[dict[str, Any]] = polars.read_parquet("out.parquet").to_dicts()
    return read


@pytest.mark.parametrize("read", [_by_pandas, _by_duckdb, _by_pyarrow, _by_polars])
def test_every_reader_gets_the_texts_as_they_were(write: Write, cli: Cli, read: Any) -> None:
    path = write([row(1, **HOSTILE), row(2, success=True, attempts=12)])
    told = export(cli, path)
    first, second = read()
    for name, text in HOSTILE.items():
        if isinstance(text, str):
            assert first[name] == text.replace("\ud800", "\ufffd")
    assert first["nested"] == '{"list":[1,null,"é"],"deep":{"=1":"\\u001b"}}'
    assert (first["id"], first["line"], first["success"], first["attempts"]) == ("1", 1, False, 1)
    assert (second["id"], second["line"], second["success"], second["attempts"]) == ("2", 2, True, 12)
    assert second["formula"] is None
    assert "1 text contained lone surrogates, replaced by U+FFFD" in told


# -- values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        ("text", 5, "5"),
        ("text", 1.5, "1.5"),
        ("text", True, "true"),
        ("text", False, "false"),
        ("text", "", ""),
        ("text", math.nan, "NaN"),
        ("text", 10**30, "1" + "0" * 30),
        ("whole", 5, 5),
        ("whole", "5", 5),
        ("whole", 5.0, 5),
        ("whole", 2**63 - 1, 2**63 - 1),
        ("whole", -(2**63), -(2**63)),
        ("number", 5, 5.0),
        ("number", "0.5", 0.5),
        ("number", math.inf, math.inf),
        ("truth", True, True),
        ("truth", 0, False),
        ("truth", "True", True),
        ("truth", "false", False),
    ],
)
def test_a_value_that_fits_is_kept(tmp_path: Path, kind: str, value: Value, found: Value) -> None:
    told, rows = stored(tmp_path, [("x", kind)], [[value], [None]])
    assert rows == [(found,), (None,)]
    assert told == Stored(rows=2)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("whole", "many"),
        ("whole", 1.5),
        ("whole", 2**63),
        ("whole", True),
        ("whole", math.nan),
        ("number", "fast"),
        ("number", 10**400),
        ("truth", "yes"),
        ("truth", 2),
        ("truth", math.nan),
    ],
)
def test_a_value_that_does_not_fit_is_null_and_counted(tmp_path: Path, kind: str, value: Value) -> None:
    told, rows = stored(tmp_path, [("x", kind)], [[value]])
    assert rows == [(None,)]
    assert told == Stored(rows=1, misfits={"x": 1})


def test_what_does_not_fit_is_told(write: Write, cli: Cli) -> None:
    told = export(cli, write([row(1, attempts="many"), row(2, attempts=[1]), row(3, success="perhaps")]))
    assert "attempts: 2 values did not fit the type of the column and became null" in told
    assert "success: 1 value did not fit" in told


@given(st.lists(st.text(st.characters()), min_size=1, max_size=5))
def test_any_text_comes_back(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    _, rows = stored(tmp_path_factory.mktemp("any"), [("x", "text")], [[text] for text in texts])
    assert rows == [(re.sub("[\ud800-\udfff]", "\ufffd", text),) for text in texts]


# -- names ------------------------------------------------------------------------------------------------------


def test_names_of_fields_never_become_sql(tmp_path: Path) -> None:
    names = ['a"); DROP TABLE part; --', "b' OR 1=1", "select", "x\x00y", "\ud800", "", " ", "dotted.name", "é,=(){}"]
    stored(tmp_path, [(name, "text") for name in names], [[str(number) for number in range(len(names))]])
    found = duckdb.read_parquet(str(tmp_path / "x.parquet"))
    assert found.columns == [
        *names[:3], "x\\x00y", "\\ud800", "(empty)", "(empty)_2", "dotted.name", "é,=(){}",
    ]  # fmt: skip
    assert found.fetchall() == [tuple(str(number) for number in range(len(names)))]


def test_names_differ_in_more_than_case(tmp_path: Path) -> None:
    stored(tmp_path, [(name, "text") for name in ("Plugin", "plugin", "plugin_2", "PLUGIN")], [["1", "2", "3", "4"]])
    columns = duckdb.read_parquet(str(tmp_path / "x.parquet")).columns
    assert columns == ["Plugin", "plugin_2", "plugin_2_2", "PLUGIN_3"]


# -- the file ---------------------------------------------------------------------------------------------------


def test_rows_of_many_parts_keep_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_PART_ROWS", 10)
    told, rows = stored(tmp_path, [("n", "whole"), ("t", "text")], ([n, f"row {n}"] for n in range(105)))
    assert rows == [(n, f"row {n}") for n in range(105)]
    assert told.rows == 105


def test_rows_are_not_gathered_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_PART_CHARACTERS", 1000)
    largest = []
    write = parquet._PartFiles._write

    def watched(self: Any, part: list[list[Value]]) -> None:
        largest.append(len(part))
        write(self, part)

    monkeypatch.setattr(parquet._PartFiles, "_write", watched)
    stored(tmp_path, [("t", "text")], (["x" * 100] for _ in range(500)))
    assert (len(largest), max(largest)) == (50, 10)


@pytest.mark.parametrize("folder", ["it's", "a[b]*?", "é ü"])
def test_a_folder_may_be_called_anything(tmp_path: Path, folder: str) -> None:
    place = tmp_path / folder
    place.mkdir()
    with (place / "y.parquet").open("wb") as file:
        rows = [["1"]]
        write_parquet(file.write, place, [("x", "text")], rows, lambda inside: engine.connect(folder=inside))
    assert pandas.read_parquet(place / "y.parquet").x.tolist() == ["1"]


def test_a_failure_leaves_no_parts(tmp_path: Path) -> None:
    def failing() -> Iterator[list[str]]:
        yield ["x"]
        raise RuntimeError("torn")

    with pytest.raises(RuntimeError, match="torn"):
        write_parquet(len, tmp_path, [("x", "text")], failing(), lambda inside: engine.connect(folder=inside))
    assert list(tmp_path.iterdir()) == []
