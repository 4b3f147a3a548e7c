"""Results that stay open: each answer is the one that reading the files again would give, whoever asks."""

from __future__ import annotations

import io
import json
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

import faircount
from faircount import InputError, ResultSet, Tally, UsageError, open_results
from tests.conftest import Cli, Write, analysis_of, attack, encode, row, standard

ONE_BY_ONE = "ONE_BY_ONE_UP_TO_ROWS"


def rows() -> list[Any]:
    """Return rows whose facets are texts, numbers, truth values, lists, empty and missing."""
    odd: list[Any] = ["5", 5, 5.0, "5.0", True, "true", 1, 0, "", None, ["a", "b"], {"a": 1}, "a", "A b", "null", -1.5]
    found: list[Any] = []
    for i in range(64):
        facets = {"lang": ["en", "de", "fr", None][i % 4], "severity": odd[i % len(odd)], "plugin": odd[i * 7 % 16]}
        found.append(standard(i, success=i % 5 == 0, error="HTTP 500" if i % 11 == 3 else None, **facets))
        if i % 6 == 0:
            found.append(attack(i, ["goat", "crescendo"][i % 4 // 2], success=i % 4 == 0, lang="de"))
    found += [found[3], standard(7, input="another case", lang="it"), attack(99, success=True)]
    return [*found, row("5-attack", lang="en"), row("gone-attack", lang="en"), '{"id": "torn', ""]


QUERIES = [
    "outcome = success",
    "not outcome = success",
    "outcome in (error, failure) and lang = en",
    "lang != en",
    "lang like d*",
    'lang matches "^(de|fr)$"',
    "lang contains e or outcome = guardrail",
    "not lang contains e",
    "lang exists",
    "lang = null",
    'lang like "*"',
    "strategy = goat",
    "strategy != standard and lang = de",
    "not strategy = standard",
    "file contains results",
    "file = nowhere",
    "line > 20",
    "severity = 5",
    'severity = "5"',
    "severity = 1",
    "severity = true",
    "severity > 0",
    "severity < 1",
    'severity < "B"',
    "severity has a",
    "severity contains a",
    "not severity = 5",
    "plugin = 5",
    'plugin = "5"',
    "plugin has a",
    "plugin contains a",
    "plugin contains 1",
    "plugin[0] = a",
    "plugin",
    "system_message = x",
    'input contains "prompt 1"',
    'input contains "prompt 1" and outcome = failure',
]
BY_THE_LEDGER = {query for query in QUERIES if query.startswith(("outcome", "not outcome", "lang !=", "strategy"))}


def read_again(paths: list[str], query: str, definition: str) -> tuple[list[dict[str, Any]], Counter[str]]:
    results = faircount.read(*paths, definition=definition).where(query)
    return list(results.rows()), Counter(entry["outcome"] for entry in results.entries(["outcome"]))


def outcomes(tally: Tally) -> Counter[str]:
    named = {name: getattr(tally, name) for name in ("success", "failure", "error", "guardrail", "unjudged")}
    return Counter({name: count for name, count in named.items() if count})


@pytest.mark.filterwarnings("ignore:F001")
@pytest.mark.parametrize(
    ("query", "definition"),
    [
        *((query, "faircount") for query in QUERIES),
        # The definition decides how chosen rows are folded, not which are chosen.
        *(
            pytest.param(query, "spikee", marks=() if n % 4 == 0 else pytest.mark.slow)
            for n, query in enumerate(QUERIES)
        ),
    ],
)
def test_the_ledger_chooses_what_reading_the_files_again_does(write: Write, query: str, definition: str) -> None:
    paths = [write(rows(), "results_a.jsonl"), write(rows()[:30], "results_b.jsonl")]
    expected, entries = read_again(paths, query, definition)
    with open_results(*paths, definition=definition) as results:
        found = results.rows(where=query)
        assert [(one["file"], one["line"]) for one in found] == [(one["file"], one["line"]) for one in expected]
        assert [(one["strategy"], one["outcome"], one["id"]) for one in found] == [
            (one["strategy"], one["outcome"], one["id"]) for one in expected
        ]
        assert results.tally(where=query).total == entries.total()
        if definition == "faircount":
            assert outcomes(results.tally(where=query)) == entries


@pytest.mark.parametrize("query", sorted(BY_THE_LEDGER))
def test_no_file_is_read_for_what_the_ledger_holds(write: Write, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_results(write(rows())) as results:
        before = results.tally()
        monkeypatch.setattr("faircount.analysis.result_set.Export", None)
        assert 0 < results.tally(where=query).total < before.total


def test_entries_are_counted_by_one_field_or_by_several(write: Write) -> None:
    paths = [write([standard(1, lang="en", success=True), standard(2, lang="de")], "results_a.jsonl")]
    paths.append(write([standard(3, lang="en"), attack(3, success=True)], "results_b.jsonl"))
    with open_results(*paths) as results:
        assert results.tally() == Tally(3, 2, 1)
        assert results.tally("lang") == {"en": Tally(2, 2), "de": Tally(1, 0, 1)}
        assert results.tally("attack") == {None: Tally(2, 1, 1), "goat": Tally(1, 1)}
        assert results.tally("file", "lang = en") == {paths[0]: Tally(1, 1), paths[1]: Tally(1, 1)}
        assert results.tally(("lang", "file"), "outcome = failure") == {("de", paths[0]): Tally(1, 0, 1)}
        with pytest.raises(UsageError, match=r"by language: no such field; available: .*lang"):
            results.tally("language")
        with pytest.raises(UsageError, match="no file has a field langs; did you mean lang"):
            results.tally(where="langs = en")
    assert [source.lines for source in open_results(*paths).sources] == [2, 2]


def test_rows_come_sorted_and_page_by_page(write: Write) -> None:
    langs = ["b", "a", None, "c", "a"]
    path = write([standard(i, lang=lang, response_time=9.5 - i, success=i == 4) for i, lang in enumerate(langs)])
    with open_results(path) as results:
        assert [one["id"] for one in results.rows(sort="lang")] == [1, 4, 0, 3, 2]
        assert [one["id"] for one in results.rows(sort="-lang")] == [3, 0, 1, 4, 2]
        assert [one["id"] for one in results.rows(sort="response_time", offset=1, limit=2)] == [3, 2]
        assert results.rows(sort="outcome", columns="id,outcome", limit=1) == [{"id": 4, "outcome": "success"}]
        assert results.rows(sort="-line", columns=["line"], limit=2) == [{"line": 5}, {"line": 4}]
        assert results.rows(sort="file", columns="line", offset=4) == [{"line": 5}]
        with pytest.raises(UsageError, match="sort language: no such field; available: outcome, file"):
            results.rows(sort="language")


def test_an_analysis_an_entry_and_a_comparison_are_those_of_the_files(write: Write, cli: Cli) -> None:
    first, second = write(rows(), "results_a.jsonl"), write(rows()[5:50], "results_b.jsonl")
    options: dict[str, Any] = {"by": "lang", "level": 0.9, "evidence": 2, "cluster": "lang"}
    with open_results(first) as a, open_results(second) as b, open_results(first, second) as both:
        asked = {**options, "by": ("lang",), "evidence": (("", 2),)}
        assert a.analysis(**options) == analysis_of(first, **asked) == a.analysis(**options)
        assert both.analysis() == analysis_of(first, second, combine=True)
        assert a.analysis("success = true") == analysis_of(first, where="success = true")
        assert a.analysis(false_positive_checks=second) == analysis_of(first, false_positive_checks=second)
        shown = cli("results", "show", "12", first, "--output-format", "json").out
        assert json.loads(msgspec.json.encode(a.entry("12"))) == json.loads(shown)
        compared = " ".join(cli("results", "compare", first, second).out.split())
        assert a.compare(b).pairs[0].claim in compared
        assert a.design().families is False
        assert a.design("lang", level=0.8) == faircount.stats.Design(families=True, level=0.8)
        with pytest.raises(UsageError, match="no entry or row has the id nowhere"):
            a.entry("nowhere")
        with pytest.raises(UsageError, match="two sets of one file each"):
            a.compare(both)
        with pytest.raises(TypeError, match="definition"):
            a.analysis(definition="spikee")


def test_the_text_of_a_row_is_read_back_and_its_secrets_are_masked(write: Write) -> None:
    path = write([standard(1), standard(1), standard(2, response="it is sk-proj-" + "a1B2" * 12)])
    with open_results(path) as results:
        assert results.text(f"{path}:2").prompt == "prompt 1"
        assert "a1B2a1B2" not in str(results.text(f"{path}:3").response)
        for nowhere in (f"{path}:9", f"{path}:x", "elsewhere:1", path):
            with pytest.raises(UsageError, match="no such row"):
                results.text(nowhere)


def test_a_file_that_changed_is_not_believed(write: Write) -> None:
    path = write([standard(1, response="as it was")])
    with open_results(path) as results:
        assert results.rows(columns="response") == [{"response": "as it was"}]
        Path(path).write_bytes(encode([standard(1, response="forged!!!")]))
        assert results.tally().total == 1
        with pytest.raises(InputError, match=":1: the file has changed since it was read"):
            results.rows(columns="response")
        Path(path).unlink()
        with pytest.raises(InputError, match="the file can no longer be read"):
            results.text(f"{path}:1")


def test_nothing_is_answered_after_the_end(write: Write) -> None:
    with open_results(write([standard(1)])) as results:
        pass
    results.close()
    for ask in (results.tally, results.rows, results.analysis, lambda: results.sources):
        with pytest.raises(UsageError, match="closed"):
            ask()


def test_mistakes_are_told(tmp_path: Path, write: Write) -> None:
    with pytest.raises(UsageError, match="no result file given"):
        open_results()
    with pytest.raises(UsageError, match="definition"):
        open_results(write([standard(1)]), definition="theirs")
    with pytest.raises(InputError, match="no such file"):
        open_results(tmp_path / "results_gone.jsonl")
    with pytest.raises(InputError, match="cannot read its only line"), open_results(write(["torn {"])) as results:
        results.tally()


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and files that are large enough for it."""
    monkeypatch.setenv("FAIRCOUNT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("faircount.readers.loading.CACHED_FROM_BYTES", 1)
    for module in ("readers.loading", "ledger.store"):
        monkeypatch.setattr(f"faircount.{module}.{ONE_BY_ONE}", 1)
    return tmp_path / "cache"


def test_what_the_cache_has_is_enough_and_may_vanish(write: Write, cached: Path) -> None:
    path = write(rows())
    with open_results(path) as results:
        answers = results.analysis(), results.tally("lang", "outcome = success"), results.rows("lang = en")
    for _ in range(2):
        with open_results(path) as results:
            assert (results.analysis(), results.tally("lang", "outcome = success")) == answers[:2]
            assert results.rows("lang = en") == answers[2]
    with open_results(path) as results:
        assert results.tally() == answers[0].tally
        shutil.rmtree(cached)
        assert results.analysis() == answers[0]
        assert results.rows("lang = en") == answers[2]


def questions(results: ResultSet, other: ResultSet, path: str) -> list[Callable[[], Any]]:
    return [
        lambda: results.tally("lang"),
        lambda: results.tally(("lang", "severity"), "outcome = success"),
        lambda: results.tally(where='input contains "prompt 1"'),
        lambda: results.rows("lang = de", sort="-severity", limit=5),
        lambda: results.analysis(by="lang", evidence=1),
        lambda: results.entry("12"),
        lambda: results.text(f"{path}:3"),
        lambda: (results.compare(other), other.compare(results)),
    ]


@pytest.mark.parametrize("many", [False, True])
def test_eight_threads_ask_one_open_set(write: Write, many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if many:
        monkeypatch.setattr(f"faircount.ledger.store.{ONE_BY_ONE}", 1)
    first, second = write(rows(), "results_a.jsonl"), write(rows()[5:50], "results_b.jsonl")
    with open_results(first) as a, open_results(second) as b:
        expected = [ask() for ask in questions(a, b, first)]
    start = threading.Barrier(8)
    with open_results(first) as a, open_results(second) as b:

        def ask_all(number: int) -> list[Any]:
            asked = questions(a, b, first)
            order = [*range(number, 8), *range(number)]
            start.wait()
            answers = {place: asked[place]() for place in order * 3}
            return [answers[place] for place in range(8)]

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(ask_all, range(8))) == [expected] * 8


def test_what_can_be_read_only_once_is_asked_only_for_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = encode([standard(1, lang="en"), standard(2, success=True)])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    with open_results("-") as results:
        assert results.tally(where="lang = en") == Tally(1, 0, 1)
        for ask in (lambda: results.tally(where="input = x"), lambda: results.analysis("success = true")):
            with pytest.raises(UsageError, match="can be read only once"):
                ask()
        with pytest.raises(InputError, match="can be read only once"):
            results.rows()


def test_queries_that_read_files_do_not_mix_up_sets(write: Write) -> None:
    first, second = open_results(write([standard(1)], "a.jsonl")), open_results(write([standard(2)], "b.jsonl"))
    assert first.tally(where='input contains "1"').total == 1
    assert second.tally(where='input contains "2"').total == 1
    first.close()
    assert second.tally(where='input contains "1"').total == 0
    assert second.tally(where='input contains "2"').total == 1
    second.close()


def test_a_word_that_means_several_values_is_looked_up_in_the_file(write: Write) -> None:
    with open_results(write([standard(1, severity=True), standard(2, severity="true"), standard(3, severity=1)])) as r:
        assert [one["id"] for one in r.rows("severity = 1")] == [1, 3]
        assert [one["id"] for one in r.rows("severity = true")] == [1, 2, 3]
