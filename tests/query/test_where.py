"""`results analyze --where`: only the rows that a query chooses are counted, as if the others were not there."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from faircount import AnalyzeOptions, InputError, UsageError, analyze, open_results
from faircount.readers import loading, open_source
from tests.conftest import Cli, Write, analysis_of, attack, codes, standard
from tests.runs.run_files import HEADER, attempt, case


def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for i in range(12):
        found.append(standard(i, lang="de" if i % 3 else "en", success=i % 4 == 0, meta={"depth": i}))
        if not found[-1]["success"]:
            found.append(attack(i, lang=found[-1]["lang"], success=i % 5 == 0, attempts=3))
    return found


@pytest.mark.parametrize(
    ("query", "chosen"),
    [
        ("lang = de", lambda row: row["lang"] == "de"),
        ("success", lambda row: row["success"]),
        ("not success and lang != de", lambda row: not row["success"] and row["lang"] != "de"),
        ("strategy = goat", lambda row: row["attack_name"] == "goat"),
        ("meta.depth >= 6", lambda row: row.get("meta", {}).get("depth", 0) >= 6),
        ('input contains "PROMPT 1"', lambda row: "prompt 1" in row["input"]),
    ],
)
def test_an_analysis_of_chosen_rows_is_that_of_a_file_with_only_these(write: Write, query: str, chosen: Any) -> None:
    asked = analysis_of(write(rows(), "all.jsonl"), where=query)
    alone = analysis_of(write([row for row in rows() if chosen(row)], "some.jsonl"))
    assert asked.tally == alone.tally
    assert asked.attempts == alone.attempts
    assert asked.rates.asr == alone.rates.asr
    counted = [
        {
            field: [(g.tally, g.attempts, g.initial, g.attack_only) for g in groups]
            for field, groups in analysis.breakdowns.items()
        }
        for analysis in (asked, alone)
    ]
    assert counted[0] == counted[1]
    assert codes(asked)["F029"] == sum(not chosen(row) for row in rows())
    assert asked.where == query


_HELD = (
    "lang = de",
    "not lang = de",
    "lang = de or team = red",
    "lang contains e",
    "lang = nobody",
    'file contains "all"',
)


@pytest.mark.parametrize("query", _HELD)
@pytest.mark.parametrize("combine", [False, True])
def test_the_ledger_answers_as_reading_the_files_does(
    write: Write, monkeypatch: pytest.MonkeyPatch, query: str, combine: bool
) -> None:
    teams = [row | {"team": "red" if index % 2 else "blue", "target": "b"} for index, row in enumerate(rows())]
    files = [write(rows(), "all.jsonl"), write([*teams, "not a row"], "teams.jsonl")]
    options = AnalyzeOptions(where=query, combine=combine, cache=False)
    read: list[object] = []

    def opened(path: str, name: str, content: Any = None) -> Any:
        read.append(path)
        return open_source(path, name, content)

    monkeypatch.setattr(loading, "open_source", opened)
    held = analyze(*files, options=options)
    assert len(read) == len(files)
    monkeypatch.setattr("faircount.analysis.analyze._may_be_held", lambda _: False)
    assert held == analyze(*files, options=options)
    with open_results(*files) as opened_results:
        assert (
            opened_results.analysis(where=query) == analyze(*files, options=replace(options, combine=True)).analyses[0]
        )


@pytest.mark.parametrize("query", ["lang = de", "strategy = goat", "lang = de and strategy = goat"])
def test_an_open_set_answers_without_reading_again(write: Write, query: str) -> None:
    path = write(rows())
    with open_results(path) as found:
        whole = found.analysis()
        Path(path).unlink()
        chosen = found.analysis(where=query)
    write(rows())
    assert chosen == analysis_of(path, where=query)
    assert chosen.tally != whole.tally


def test_findings_of_rows_that_are_excluded_are_not_reported(write: Write) -> None:
    path = write([standard(0, lang="de"), standard(1, lang="en", success=True, error="timeout")])
    assert "F021" in codes(analysis_of(path))
    assert "F021" not in codes(analysis_of(path, where="lang = de"))


def test_lines_are_counted_from_the_beginning_of_the_file(write: Write) -> None:
    analysis = analysis_of(write([standard(i) for i in range(9)]), where="line > 2 and line <= 5")
    assert analysis.tally.total == 3


def test_the_file_can_be_chosen(write: Write) -> None:
    first, second = write([standard(1)], "results_a.jsonl"), write([standard(2)], "results_b.jsonl")
    options = AnalyzeOptions(combine=True, where='file like "%results_b.jsonl"')
    (analysis,) = analyze(first, second, options=options).analyses
    assert analysis.tally.total == 1


def test_damaged_lines_are_reported_whatever_the_query_says(write: Write) -> None:
    analysis = analysis_of(write([standard(1, lang="de"), "{torn", standard(2, lang="en")]), where="lang = de")
    assert codes(analysis) == {"F001": 1, "F029": 1}
    assert analysis.sources[0].good_lines == 2


def test_odd_lines_are_asked_too(write: Write) -> None:
    lines = [b'{"id": 1, "success": NaN, "lang": "de"}', b'{"id": 2, "success": true, "lang": "d\\ud800e"}']
    assert analysis_of(write(lines), where="lang = de").tally.total == 1


def test_rows_that_nobody_chose_leave_an_empty_analysis(write: Write) -> None:
    analysis = analysis_of(write(rows()), where="lang = nowhere")
    assert analysis.tally.total == 0
    assert analysis.rates.asr.value is None


def test_a_hopeless_file_stays_hopeless(write: Write) -> None:
    with pytest.raises(InputError):
        analysis_of(write(["{", "["]), where="lang = de")


def test_a_packed_file_is_asked_too(tmp_path: Path) -> None:
    path = tmp_path / "results_x.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in rows())))
    assert analysis_of(str(path), where="lang = en").tally.total == 4


def test_several_processes_choose_the_same_rows(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write([standard(i, lang="de" if i % 3 else "en", success=i % 7 == 0) for i in range(3000)])
    alone = analysis_of(path, where="lang = de")
    monkeypatch.setattr(loading, "PARALLEL_FROM_BYTES", 1)
    monkeypatch.setattr(loading, "RANGE_BYTES", 50_000)
    assert analysis_of(path, where="lang = de").tally == alone.tally
    assert analysis_of(path, where="line <= 100").tally.total == 100


def test_the_outcome_of_an_entry_cannot_choose_its_rows(write: Write) -> None:
    with pytest.raises(UsageError, match="outcome is computed from all rows"):
        analysis_of(write(rows()), where="outcome = success")


def test_a_mistake_is_pointed_at(write: Write, cli: Cli) -> None:
    ran = cli("results", "analyze", write(rows()), "--where", "lang = = de")
    assert ran.code == 2
    lines = ran.err.splitlines()
    assert lines[1:3] == ["  lang = = de", "         ^"]


def test_the_report_says_what_was_chosen(write: Write, cli: Cli) -> None:
    path = write(rows())
    out = cli("results", "analyze", path, "--where", 'lang = "\x1bde"').out
    assert 'Only rows with  lang = "\\x1bde"' in out
    document = json.loads(cli("results", "analyze", path, "--where", "lang = de", "--output-format", "json").out)
    assert document["analyses"][0]["where"] == "lang = de"


def test_by_spikees_definition_rows_are_chosen_too(write: Write) -> None:
    assert analysis_of(write(rows()), where="lang = en", definition="spikee").tally.total == 4


@pytest.mark.parametrize("query", ['response contains "answer"', "strategy = standard"])
def test_a_journal_from_a_pipe_is_asked_too(write: Write, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    path = write([HEADER, case("a"), case("b"), attempt("a"), attempt("b", 0, "f")], "run.jsonl")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(path).read_bytes())))
    assert analysis_of("-", where=query).tally == analysis_of(path, where=query).tally
