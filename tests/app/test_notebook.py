"""Results in a notebook: what is read, chosen and summarised, and what data frames hold."""

from __future__ import annotations

import builtins
import gc
import json
import os
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

import faircount
from faircount import InputError, UsageError
from faircount.app import HOSTILE_RESPONSES, SampleFiles, write_sample
from faircount.app.notebook import results as notebook
from faircount.app.notebook.results import as_table, spelled_out
from faircount.query import QueryError
from faircount.query.query import text_of
from tests.conftest import Write, analysis_of, attack, row, some, standard

TORN = '{"id": 9, "success": fal'


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> SampleFiles:
    return write_sample(tmp_path_factory.mktemp("sample"), 7)


# --- which files ----------------------------------------------------------------------------------------------------


def test_files_folders_globs_and_paths_are_taken(write: Write, tmp_path: Path) -> None:
    first, second = write([standard(1)], "results_a.jsonl"), write([standard(2)], "results_b.jsonl")
    other = write([standard(3)], "other.jsonl")
    write(["no result"], "notes.txt")
    assert faircount.read(first).files == (first,)
    assert faircount.read(Path(first), second).files == (first, second)
    assert faircount.read(tmp_path).files == (other, first, second)
    assert faircount.read(str(tmp_path / "*_b.jsonl")).files == (second,)


def test_names_that_lead_nowhere_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        faircount.read(tmp_path / "missing.jsonl")
    with pytest.raises(InputError, match="no result files"):
        faircount.read(tmp_path)
    with pytest.raises(UsageError, match="no result file given"):
        faircount.read()


def test_what_can_be_read_only_once_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("-", tmp_path / "pipe"):
        with pytest.raises(UsageError, match="only once"):
            faircount.read(name)


def test_wrong_options_are_told_at_once(write: Write) -> None:
    path = write([standard(1)])
    with pytest.raises(UsageError, match="definition"):
        faircount.read(path, definition="theirs")
    with pytest.raises(UsageError, match="level"):
        faircount.read(path).summary(level=95)
    with pytest.raises(TypeError):
        faircount.read(path).summary(colour="red")
    with pytest.raises(TypeError):
        faircount.read(path).summary(combine=False)


def test_files_are_read_when_they_are_asked_and_as_they_are_then(write: Write) -> None:
    results = faircount.read(write([standard(1)]))
    assert results.summary().tally.total == 1
    write([standard(1), standard(2)])
    assert results.summary().tally.total == len(list(results.rows())) == 2


def test_nothing_is_left_running_or_open(write: Write) -> None:
    results = faircount.read(write([standard(n) for n in range(100)]))
    gc.collect()  # what other tests left open is closed now, and not in the middle
    threads, files = threading.active_count(), open_files()
    results.summary()
    results.to_arrow()
    results.to_arrow(entries=True)
    for iterator in (results.rows(), results.entries()):
        next(iterator)
        del iterator
    gc.collect()
    assert (threading.active_count(), open_files()) == (threads, files)


def open_files() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


# --- summaries ------------------------------------------------------------------------------------------------------


def test_several_files_are_summarised_together(sample: SampleFiles) -> None:
    files = [str(path) for path in sample.plain]
    summary = faircount.read(*files).summary(by="plugin")
    expected = analysis_of(*files, combine=True, by=("plugin",), figures=True)
    assert summary.tally == expected.tally
    assert summary.rates.asr == expected.rates.asr
    assert summary.breakdowns == expected.breakdowns
    assert summary.asked == ("plugin",)
    assert [figures.path for figures in summary.by_source] == files


def test_options_of_an_analysis_are_those_of_a_summary(sample: SampleFiles) -> None:
    results = faircount.read(sample.guardrail_attacks)
    options: Any = {"false_positive_checks": str(sample.guardrail_benign), "level": 0.9, "by": ["lang"], "min_n": 10}
    summary = results.summary(**options)
    expected = analysis_of(str(sample.guardrail_attacks), **{**options, "by": ("lang",)})
    assert summary.level == 0.9
    assert summary.false_positives == expected.false_positives


def test_evidence_of_a_summary_is_a_number_or_kinds_with_numbers(write: Write) -> None:
    results = faircount.read(write([standard(n, success=n < 3, response=f"said {n}") for n in range(6)]))
    assert results.summary().evidence == ()

    def told(evidence: Any) -> list[tuple[str, int, int]]:
        return [(one.kind, len(one.shown), one.total) for one in results.summary(evidence=evidence).evidence]

    assert told(2) == [("successes", 2, 3)]
    assert told([("failures", 1), ("", 5)]) == [("failures", 1, 3), ("successes", 3, 3)]
    with pytest.raises(UsageError, match="evidence"):
        results.summary(evidence=[("victories", 1)])


def test_a_definition_holds_for_everything(write: Write) -> None:
    path = write([standard(1, success="maybe")])
    assert faircount.read(path).summary().tally.success == 0
    theirs = faircount.read(path, definition="spikee")
    assert theirs.summary().tally.success == 1
    assert [row["outcome"] for row in theirs.rows()] == ["success"]
    assert [entry["outcome"] for entry in theirs.entries()] == ["success"]


# --- choosing -------------------------------------------------------------------------------------------------------


def test_where_keeps_the_rows_that_fit_and_leaves_the_others_alone(sample: SampleFiles) -> None:
    results = faircount.read(sample.plain[0])
    chosen = results.where("jailbreak_type = dan and not success")
    rows = [json.loads(line) for line in sample.plain[0].read_text(encoding="utf-8").splitlines()]
    expected = [row["id"] for row in rows if row["jailbreak_type"] == "dan" and not row["success"]]
    assert [row["id"] for row in chosen.rows()] == expected
    assert chosen.to_arrow(["id"]).to_pydict() == {"id": expected}
    assert results.query is None
    assert len(list(results.rows())) == len(rows)


def test_conditions_add_up(write: Write) -> None:
    rows = [standard(n, lang="en" if n % 2 else "fr", plugin="a" if n < 4 else "b") for n in range(1, 7)]
    results = faircount.read(write(rows)).where("lang = en or lang = de").where("plugin = b")
    assert results.query == "(lang = en or lang = de) and (plugin = b)"
    assert [row["id"] for row in results.rows()] == [5]
    assert results.summary().tally.total == 1


def test_many_conditions_are_no_deep_nest(write: Write) -> None:
    results = faircount.read(write([standard(1), standard(2)]))
    for _ in range(60):
        results = results.where("id = 1")
    assert [row["id"] for row in results.rows()] == [1]


def test_a_query_that_is_not_understood_is_told_at_once(write: Write) -> None:
    results = faircount.read(write([standard(1)])).where("id = 1")
    with pytest.raises(QueryError, match="at character 10"):
        results.where('response contain "x"')


def test_a_summary_is_made_of_the_chosen_rows_alone(write: Write) -> None:
    path = write([standard(1), attack(1, success=True), standard(2)])
    results = faircount.read(path)
    assert results.summary().tally.success == 1
    assert results.where("strategy = standard").summary().tally == faircount.Tally(failure=2, total=2)


def test_rows_are_chosen_by_outcome_but_not_summarised(write: Write) -> None:
    won = faircount.read(write([standard(1), attack(1, success=True), standard(2)])).where("outcome = success")
    assert [row["id"] for row in won.rows()] == [1, "1-attack"]
    assert [entry["id"] for entry in won.entries()] == ["1"]
    with pytest.raises(UsageError, match="cannot select rows by outcome"):
        won.summary()


# --- rows and entries -----------------------------------------------------------------------------------------------


def test_rows_have_what_is_said_of_them_and_their_fields_as_they_are(write: Write) -> None:
    path = write([standard(1, guardrail_categories={"hate": True}), attack(1, success=True, outcome="mine")])
    first, second = faircount.read(path).rows()
    said = {"file": path, "line": 1, "strategy": "standard", "outcome": "success"}
    assert list(first)[:4] == list(said)
    assert first | said == first
    assert first["guardrail_categories"] == {"hate": True}
    assert first["row.outcome"] is None
    assert (second["strategy"], second["row.outcome"]) == ("goat", "mine")
    assert second["guardrail_categories"] is None


def test_columns_are_named_as_in_queries(write: Write) -> None:
    path = write([standard(1, attempt_history=[{"success": True}, {"success": False}])])
    wanted = ["outcome", "attempt_history[-1].success", "attempt_history", "id"]
    (found,) = faircount.read(path).rows(wanted)
    assert found == {
        "outcome": "failure",
        "attempt_history[-1].success": False,
        "attempt_history": [{"success": True}, {"success": False}],
        "id": 1,
    }
    table = faircount.read(path).to_arrow(wanted)
    assert table.column_names == wanted
    assert table["attempt_history"].to_pylist() == ['[{"success":true},{"success":false}]']
    assert faircount.read(path).to_arrow("id").column_names == ["id"]


def test_a_column_that_no_row_has_is_refused(write: Write) -> None:
    results = faircount.read(write([standard(1)]))
    for entries in (False, True):
        with pytest.raises(UsageError, match="no such column"):
            results.to_arrow(["jailbreak"], entries=entries)


def test_entries_are_those_that_the_summary_counts(sample: SampleFiles) -> None:
    with pytest.warns(UserWarning, match="F001 1 line"):
        entries = faircount.read(sample.dynamic).to_pandas(entries=True)
    tally = faircount.read(sample.dynamic).summary().tally
    counted = entries["outcome"].value_counts()
    assert len(entries) == tally.total
    assert {name: counted.get(name, 0) for name in ("success", "failure", "error", "guardrail")} == {
        name: getattr(tally, name) for name in ("success", "failure", "error", "guardrail")
    }
    assert entries["attempts"].sum() == faircount.read(sample.dynamic).summary().attempts


def test_entries_as_dicts_and_as_a_table_agree(sample: SampleFiles) -> None:
    results = faircount.read(sample.plain[1]).where("plugin = base64")
    assert list(results.entries()) == results.to_arrow(entries=True).to_pylist()
    assert list(results.entries(["id", "outcome"])) == results.to_arrow(["id", "outcome"], entries=True).to_pylist()


# --- types ----------------------------------------------------------------------------------------------------------


KINDS: tuple[Any, ...] = (object, int, (int, float, type(None)), (str, type(None)), (float, str), (bool, type(None)))


def column(write: Write, *values: object) -> pyarrow.ChunkedArray:
    """Return the column of a field that has these values, each in a row of its own."""
    rows = [standard(number, x=value) for number, value in enumerate(values, start=1)]
    return faircount.read(write(rows)).to_arrow(["x"])["x"]


@pytest.mark.parametrize("batch", [1, 2, 1000])
@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([True, None, False], "bool", [True, None, False]),
        ([1, None, -2], "int64", [1, None, -2]),
        ([2**63 - 1, 1 - 2**63], "int64", [2**63 - 1, 1 - 2**63]),
        ([0.5, None, 1e300], "double", [0.5, None, 1e300]),
        ([1, 0.5, None, 2], "double", [1.0, 0.5, None, 2.0]),
        (["a", None, ""], "string", ["a", None, ""]),
        ([None, None], "string", [None, None]),
        ([True, 1], "string", ["true", "1"]),
        ([1, "1", 0.5, None], "string", ["1", "1", "0.5", None]),
        ([1, 2.0, "x", 3], "string", ["1", "2.0", "x", "3"]),
        ([2**63], "string", [str(2**63)]),
        ([2**53 + 1, 0.5], "string", [str(2**53 + 1), "0.5"]),
        ([[1, {"a": "é"}], {}], "string", ['[1,{"a":"é"}]', "{}"]),
        ([1, [2]], "string", ["1", "[2]"]),
    ],
)
def test_a_column_has_one_type_wherever_its_batches_end(
    write: Write, monkeypatch: pytest.MonkeyPatch, batch: int, values: list[Any], kind: str, expected: list[Any]
) -> None:
    monkeypatch.setattr("faircount.app.notebook.results.BATCH_ROWS", batch)
    found = column(write, *values)
    assert str(found.type) == kind
    assert found.to_pylist() == expected


CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63)]),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=())),
)


def cells_of(kind: Any) -> st.SearchStrategy[list[Any]]:
    def fits(value: object) -> bool:
        return isinstance(value, kind)

    return st.lists(CELLS.filter(fits))


@given(st.one_of(*map(cells_of, KINDS)))
def test_where_batches_end_changes_nothing(values: list[Any]) -> None:
    found = []
    for batch in (1, 3, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("faircount.app.notebook.results.BATCH_ROWS", batch)
            found.append(as_table(["x"], [[value] for value in values]))
    first, *others = [(table.arrow["x"].type, table.arrow.to_pylist(), table.spelled_out) for table in found]
    assert others == [first, first]
    texts = str(first[0]) == "string"
    for value, cell in zip(values, first[1], strict=True):
        assert cell["x"] == (spelled_out(text_of(value)) if texts and value is not None else value)


@pytest.mark.shared
def test_hostile_files_give_tables_that_agree(shared: Path) -> None:
    for path in some(sorted((shared / "hostile").glob("*.jsonl"))):
        results = faircount.read(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows, table = list(results.rows()), results.to_arrow()
            assert len(results.to_pandas()) == len(results.to_polars()) == len(table) == len(rows) > 0
            assert len(results.to_arrow(entries=True)) == results.summary().tally.total
        assert table["line"].to_pylist() == [row["line"] for row in rows]


def test_numbers_that_json_does_not_know_are_numbers(write: Write) -> None:
    path = write(['{"id": 1, "success": true, "x": NaN}', '{"id": 2, "success": true, "x": 3}'])
    found = faircount.read(path).to_arrow(["x"])["x"]
    assert str(found.type) == "double"
    assert found.to_pylist()[1] == 3.0


def test_half_characters_are_spelled_out_and_counted(write: Write) -> None:
    path = write(['{"id": 1, "success": true, "response": "a\\ud800b", "x": ["\\udfff"]}', standard(2, response="é")])
    results = faircount.read(path)
    with pytest.warns(UserWarning, match="2 texts contained lone surrogates") as warned:
        table = results.to_arrow(["response", "x"])
    assert table.to_pydict() == {"response": ["a\\ud800b", "é"], "x": ['["\\udfff"]', None]}
    assert [Path(warning.filename) for warning in warned] == [Path(__file__)]


def test_names_of_fields_may_be_anything(write: Write) -> None:
    path = write(['{"id": 1, "success": true, "a\\ud800": 1, "a\\\\ud800": 2, "<b>": 3, "": 4}'])
    table = faircount.read(path).to_arrow()
    assert table.column_names[-4:] == ["a\\ud800", "a\\ud800_", "<b>", ""]
    assert [table.column(at).to_pylist() for at in range(-4, 0)] == [[1], [2], [3], [4]]


def test_a_file_with_a_new_field_in_every_row_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "MOST_COLUMNS", 50)
    results = faircount.read(write([standard(n, **{f"field{n}": n}) for n in range(60)]))
    with pytest.raises(UsageError, match=r"different fields; select some with columns="):
        results.to_arrow()
    assert len(results.to_arrow(["field7"])) == 60


def test_files_without_rows_give_tables_without_rows(write: Write) -> None:
    results = faircount.read(write([]))
    assert results.to_arrow().column_names == ["file", "line", "strategy", "outcome"]
    assert len(results.to_arrow()) == len(results.to_pandas()) == len(results.to_polars()) == 0
    assert len(results.to_arrow(entries=True)) == 0
    assert len(faircount.read(write([standard(1)])).where("id = 2").to_pandas()) == 0


def test_hostile_texts_come_back_as_they_were(write: Write) -> None:
    path = write([standard(n, response=text) for n, text in enumerate(HOSTILE_RESPONSES)])
    results = faircount.read(path)
    assert results.to_arrow(["response"])["response"].to_pylist() == list(HOSTILE_RESPONSES)
    assert results.to_pandas(["response"])["response"].tolist() == list(HOSTILE_RESPONSES)
    assert results.to_polars(["response"])["response"].to_list() == list(HOSTILE_RESPONSES)


# --- data frames ----------------------------------------------------------------------------------------------------


def test_pandas_keeps_whole_numbers_and_truth_beside_what_is_missing(write: Write) -> None:
    frame = faircount.read(write([row(1, success=True, n=1), row(2, success=None, n=None, t=0.5)])).to_pandas()
    assert {name: str(frame[name].dtype) for name in ("success", "n", "t", "response")} == {
        "success": "boolean",
        "n": "Int64",
        "t": "float64",
        "response": "string",
    }
    assert frame["success"].isna().tolist() == [False, True]
    assert isinstance(frame, pandas.DataFrame)


def test_frames_and_the_table_agree(sample: SampleFiles) -> None:
    results = faircount.read(sample.plain[2])
    table = results.to_arrow()
    frame = results.to_polars()
    assert isinstance(frame, polars.DataFrame)
    assert frame.to_dicts() == table.to_pylist()
    assert results.to_pandas()["response_time"].dropna().tolist() == [
        seconds for seconds in table["response_time"].to_pylist() if seconds is not None
    ]


def test_rows_agree_with_what_the_file_holds(sample: SampleFiles) -> None:
    lines = sample.plain[0].read_text(encoding="utf-8").splitlines()
    fields = list(dict.fromkeys(name for line in lines for name in json.loads(line)))
    found = list(faircount.read(sample.plain[0]).rows())
    assert [{name: row[name] for name in fields} for row in found] == [
        {name: json.loads(line).get(name) for name in fields} for line in lines
    ]


# --- what is told ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", ["rows", "entries", "to_arrow", "to_pandas", "to_polars"])
def test_damaged_lines_are_told_where_the_table_is_made(write: Write, ask: str) -> None:
    path = write([standard(1), TORN])
    with pytest.warns(UserWarning, match="F001 1 line could not be read") as warned:
        rows = list(getattr(faircount.read(path), ask)("id")) if ask in ("rows", "entries") else None
        if rows is None:
            getattr(faircount.read(path), ask)()
    assert len(warned) == 1
    assert f"{path}:2" in str(warned[0].message)
    assert Path(warned[0].filename) == Path(__file__)


def test_a_part_that_no_row_has_is_told(write: Write) -> None:
    results = faircount.read(write([standard(1, guardrail_categories={"hate": True})]))
    with pytest.warns(UserWarning, match="empty in every row: guardrail_categories.hat$"):
        results.to_arrow(["guardrail_categories.hat"])


def test_a_file_without_one_usable_line_is_an_error(write: Write) -> None:
    results = faircount.read(write([TORN]))
    for ask in (results.summary, results.to_arrow, lambda: results.to_arrow(entries=True)):
        with pytest.raises(InputError, match="its only line"):
            ask()


@pytest.mark.parametrize("missing", ["pyarrow", "pandas", "polars"])
def test_a_library_that_is_not_there_is_named(write: Write, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    results = faircount.read(write([standard(1)]))
    ask = {"pyarrow": results.to_arrow, "pandas": results.to_pandas, "polars": results.to_polars}[missing]
    with pytest.raises(UsageError, match=rf"^{missing} is not installed: pip install"):
        ask()


def test_reading_and_summarising_need_no_data_frames(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def guarded(name: str, *rest: Any) -> Any:
        assert name.partition(".")[0] not in ("pandas", "polars", "pyarrow"), name
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", guarded)
    results = faircount.read(write([standard(1)]))
    assert results.summary()._repr_html_()
    assert len(list(results.rows())) == len(list(results.entries())) == 1
