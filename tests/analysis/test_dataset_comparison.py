"""`results dataset-comparison`: which entry is meant, what counts as an answer, what is chosen and written."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from faircount.analysis import ComparedDataset, DatasetComparisonOptions, compare_dataset, dataset_matching
from faircount.analysis.dataset_comparison import as_report
from faircount.core import Estimate, InputError, UsageError
from faircount.io import Records
from faircount.readers import read_dataset, with_rate
from faircount.report import Grid, HeatMap, Label, Record, console, documents, html, markdown
from faircount.stats import cluster_wilson, wilson
from tests.conftest import Cli, Lines, Write, attack, standard
from tests.oracles import known

SCHEMA = json.loads(
    resources.files("faircount.report").joinpath("schemas", "dataset-comparison-2.json").read_text("utf-8")
)
HOSTILE = "\x1b]0;owned\x07\u202e<script>alert(1)</script>|`x`"


def entry(number: int | str, **values: Any) -> dict[str, Any]:
    """Return a row of a dataset whose content is the prompt of the result row with that id."""
    return {"id": number, "long_id": f"case-{number}", "content": f"prompt {number}", **values}


def result(number: int | str, success: bool | None = False, **values: Any) -> dict[str, Any]:
    return standard(number, **{"success": success, "long_id": f"case-{number}", **values})


def error(number: int | str) -> dict[str, Any]:
    return result(number, error="HTTP 503", response="")


def blocked(number: int | str) -> dict[str, Any]:
    return result(number, error="Guardrail was triggered", guardrail=True, response="")


class Files:
    """Writes a dataset and targets, and compares them."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def compare(self, dataset: Lines, *targets: Lines, **options: Any) -> ComparedDataset:
        path, paths = self.written(dataset, *targets)
        return compare_dataset(path, paths, DatasetComparisonOptions(**{"skip_validation": True, **options}))

    def written(self, dataset: Lines, *targets: Lines) -> tuple[str, list[str]]:
        paths = [self._write(rows, f"results_target-{number}.jsonl") for number, rows in enumerate(targets)]
        return self._write(dataset, "cases.jsonl"), paths


@pytest.fixture
def files(write: Write) -> Files:
    return Files(write)


def written_rows(comparison: ComparedDataset) -> list[dict[str, Any]]:
    return [json.loads(line) for line in comparison.rows()]


def rates(comparison: ComparedDataset) -> dict[str, float]:
    return {str(row["id"]): row["success_rate"] for row in written_rows(comparison)}


# -- what counts as an answer -----------------------------------------------------------------------------------


def test_a_rate_is_over_the_targets_that_really_answered(files: Files) -> None:
    compared = files.compare(
        [entry(1)], [result(1, True)], [error(1)], [result(1, None)], [], [result(1)], success_threshold=0.4
    )
    assert rates(compared) == {"1": 0.5}
    told = [(t.entries.error, t.entries.unjudged, t.missing.count, t.answered) for t in compared.result.targets]
    assert told == [(0, 0, 0, 1), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]


def test_by_spikees_rule_all_of_these_have_resisted(files: Files) -> None:
    compared = files.compare(
        [entry(1)],
        [result(1, True)],
        [error(1)],
        [result(1, None)],
        [],
        [result(1)],
        success_threshold=0.1,
        definition="spikee",
    )
    assert rates(compared) == {"1": 0.2}


def test_a_block_is_an_answer_and_shown_apart(files: Files) -> None:
    compared = files.compare([entry(1)], [result(1, True)], [blocked(1)], success_threshold=0.4)
    assert rates(compared) == {"1": 0.5}
    assert compared.result.targets[1].entries.guardrail == 1
    assert compared.result.targets[1].rate.n == 1


def test_a_dynamic_attack_counts_for_its_entry(files: Files) -> None:
    compared = files.compare([entry(1)], [result(1), attack(1, success=True)])
    assert rates(compared) == {"1": 1.0}


def test_an_entry_that_nobody_answered_has_no_rate_and_is_never_chosen(files: Files) -> None:
    compared = files.compare([entry(1), entry(2)], [error(1), result(2)], success_definition="lt", success_threshold=1)
    assert compared.rates == (None, 0.0)
    assert compared.result.without_rate == 1
    assert rates(compared) == {"2": 0.0}


# -- which entry is meant ---------------------------------------------------------------------------------------


def test_entries_that_share_a_long_id_are_told_apart(files: Files) -> None:
    dataset = [entry(1, long_id="same"), entry(2, long_id="same")]
    results = [result(1, True, long_id="same"), result(2, long_id="same")]
    assert rates(files.compare(dataset, results)) == {"1": 1.0}
    assert rates(files.compare(dataset, results, definition="spikee")) == {"1": 1.0, "2": 1.0}


def test_entries_that_share_an_id_are_told_apart_by_their_content(files: Files) -> None:
    dataset = [entry(1, content="first"), entry(1, content="second")]
    results = [result(1, True, input="second"), result(1, False, input="first")]
    (row,) = written_rows(files.compare(dataset, results))
    assert row["content"] == "second"


def test_rows_that_nothing_tells_apart_share_a_rate(files: Files) -> None:
    compared = files.compare([entry(1), entry(1, judge_args="other")], [result(1, True)])
    assert [row["success_rate"] for row in written_rows(compared)] == [1.0, 1.0]
    assert compared.dataset.repeated_entries == 1


def test_an_id_with_another_content_is_no_match(files: Files) -> None:
    compared = files.compare([entry(1)], [result(1, True, input="something else")])
    (target,) = compared.result.targets
    assert (target.missing.count, target.other_content.count) == (1, 1)
    assert target.other_content.where[0].endswith("results_target-0.jsonl:1")
    assert compared.rates == (None,)


def test_results_that_the_dataset_does_not_have_are_counted(files: Files) -> None:
    (target,) = files.compare([entry(1)], [result(1), result(2), result("x")]).result.targets
    assert (target.missing.count, target.not_in_dataset.count) == (0, 2)


def test_a_number_and_its_text_are_one_id(files: Files) -> None:
    assert rates(files.compare([entry("7")], [result(7, True)])) == {"7": 1.0}


def test_a_result_without_a_prompt_goes_by_its_id_if_only_one_entry_has_it(files: Files) -> None:
    bare = {"id": 1, "success": True, "attack_name": "None", "response": "yes"}
    assert rates(files.compare([entry(1)], [bare])) == {"1": 1.0}
    (target,) = files.compare([entry(1), entry(1, content="other")], [bare]).result.targets
    assert (target.undecided.count, target.missing.count) == (1, 2)


def test_an_entry_without_content_goes_by_its_id(files: Files) -> None:
    assert rates(files.compare([{"id": 1, "long_id": "a"}], [result(1, True)])) == {"1": 1.0}


def test_the_name_that_older_datasets_have_for_the_content_is_known(files: Files) -> None:
    dataset = [{"id": 1, "text": "first"}, {"id": 1, "text": "second"}]
    (row,) = written_rows(files.compare(dataset, [result(1, True, input="second"), result(1, input="first")]))
    assert row["text"] == "second"


def test_a_conversation_is_met_as_spikee_writes_it(files: Files) -> None:
    turns = ["hello", 'it\'s "you"', "print é"]
    compared = files.compare([entry("m", content=turns)], [result("m", True, input=str(turns))])
    assert rates(compared) == {"m": 1.0}


@pytest.mark.parametrize(("in_dataset", "in_results"), [("caf\\u00e9 \\/", "café /"), ("café /", "caf\\u00e9 \\/")])
def test_escapes_do_not_change_a_content(files: Files, in_dataset: str, in_results: str) -> None:
    dataset = f'{{"id": 1, "content": "{in_dataset}"}}'
    results = f'{{"id": 1, "attack_name": "None", "success": true, "input": "{in_results}"}}'
    assert len(written_rows(files.compare([dataset], [results.replace("\\/", "/")]))) == 1


def test_attacks_without_their_standard_row_go_by_their_objective(files: Files) -> None:
    dataset = [entry(1, content="first"), entry(1, content="second")]
    only = [attack(1, success=True, objective="second"), attack(1, success=False, objective="first")]
    (row,) = written_rows(files.compare(dataset, only))
    assert row["content"] == "second"


def test_rows_extracted_from_results_are_met_by_the_id_that_they_had_there(files: Files) -> None:
    extracted = [
        entry(1, content="prompt 8", result_parent_id=8),
        entry(2, content="prompt 9", result_parent_id="9"),
    ]
    before, after = [result(8, True), result(9)], [result(1, True, input="prompt 8"), result(2, input="prompt 9")]
    assert rates(files.compare(extracted, before, after)) == {"1": 1.0}


def test_several_runs_in_one_file_fold_as_attempts_do(files: Files) -> None:
    rows = [result(1, input="prompt 1", source_file="a"), result(1, True, input="prompt 1", source_file="b")]
    assert rates(files.compare([entry(1)], rows)) == {"1": 1.0}


def test_many_rows_are_matched_as_few_are(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = [entry(n) for n in range(1, 40)] + [entry("text"), entry(5, content="five again"), entry(100)]
    results = [result(n, n % 3 == 0) for n in range(1, 38)]
    results += [result("text", True), result(5, True, input="five again"), result(200), error(39)]
    one_by_one = files.compare(dataset, results)
    monkeypatch.setattr(dataset_matching, "ONE_BY_ONE_UP_TO_ROWS", 0)
    at_once = files.compare(dataset, results)
    assert at_once.result.targets == one_by_one.result.targets
    assert at_once.rates == one_by_one.rates
    assert rates(at_once) == rates(one_by_one) != {}


# -- what is chosen ---------------------------------------------------------------------------------------------


def three_targets(files: Files, **options: Any) -> ComparedDataset:
    """Compare four entries that succeed on 1, 3, 0 and 2 of three targets."""
    wins = {1: 1, 2: 3, 3: 0, 4: 2}
    targets = [[result(number, place < count) for number, count in wins.items()] for place in range(3)]
    return files.compare([entry(number) for number in wins], *targets, **options)


def test_gt_gives_the_highest_rates_first(files: Files) -> None:
    assert list(rates(three_targets(files, success_threshold=0.3))) == ["2", "4", "1"]
    assert list(rates(three_targets(files, success_threshold=0.3, number=2))) == ["2", "4"]


def test_lt_gives_the_lowest_rates_first(files: Files) -> None:
    assert list(rates(three_targets(files, success_threshold=0.9, success_definition="lt"))) == ["3", "1", "4"]
    assert list(rates(three_targets(files, success_threshold=0.9, success_definition="lt", number=1))) == ["3"]


def test_spikee_keeps_the_highest_rates_with_lt(files: Files) -> None:
    chosen = three_targets(files, success_threshold=0.9, success_definition="lt", number=1, definition="spikee")
    assert rates(chosen) == {"4": pytest.approx(2 / 3)}


def test_the_threshold_itself_is_not_above_nor_below(files: Files) -> None:
    assert three_targets(files, success_threshold=1.0).result.meeting == 0
    assert three_targets(files, success_threshold=0.0, success_definition="lt").result.meeting == 0


def test_ties_keep_the_order_of_the_dataset(files: Files) -> None:
    numbers = [5, 3, 9, 1]
    compared = files.compare([entry(n) for n in numbers], [result(n, True) for n in sorted(numbers)])
    assert list(rates(compared)) == ["5", "3", "9", "1"]


def test_a_file_given_twice_is_one_target(files: Files) -> None:
    path, (results,) = files.written([entry(1)], [result(1, True)])
    assert rates(compare_dataset(path, [results, results])) == {"1": 1.0}
    spikee = compare_dataset(
        path, [results, results], DatasetComparisonOptions(definition="spikee", success_threshold=0.4)
    )
    assert rates(spikee) == {"1": 0.5}


def test_files_with_the_same_bytes_are_targets_of_their_own_and_pointed_out(files: Files) -> None:
    compared = files.compare([entry(1)], [result(1, True)], [result(1, True)], [result(1)], success_threshold=0.6)
    assert rates(compared) == {"1": pytest.approx(2 / 3)}
    paths = [target.source.path for target in compared.result.targets]
    assert compared.result.copies == {paths[1]: paths[0]}
    shown = console.render(as_report(compared.result, "new.jsonl"), width=100, colour=False)
    assert "Leave out copies." in shown


@pytest.mark.parametrize(
    "wrong",
    [
        {"success_threshold": 80.0},
        {"success_threshold": float("nan")},
        {"success_definition": "ge"},
        {"number": 0},
        {"definition": "mine"},
        {"guardrail_success": "maybe"},
        {"definition": "spikee", "guardrail_success": "detected"},
        {"level": 1.0},
        {"max_line": 0},
    ],
)
def test_options_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        DatasetComparisonOptions(**wrong)


# -- how targets differ -----------------------------------------------------------------------------------------


def test_entries_are_counted_by_how_many_targets_fall(files: Files) -> None:
    compared = files.compare(
        [entry(n) for n in range(1, 6)],
        [result(1, True), result(2, True), result(3), result(4, True), error(5)],
        [result(1, True), result(2), result(3), error(4), error(5)],
    )
    assert [(f.targets, f.answered_by_all, f.answered_by_some) for f in compared.result.falls] == [
        (2, 1, 0),
        (1, 1, 1),
        (0, 1, 0),
    ]
    assert [entry.id for entry in compared.result.everywhere.examples] == ["1"]
    # Entry 4 succeeds on the first target, but nobody else answered it.
    assert [[entry.id for entry in target.alone.examples] for target in compared.result.targets] == [["2"], []]


def test_transfer_is_over_what_the_second_target_answered(files: Files) -> None:
    compared = files.compare(
        [entry(n) for n in range(1, 6)],
        [result(1, True), result(2, True), result(3, True), result(4, True), result(5)],
        [result(1, True), result(2), error(3), blocked(4), result(5, True)],
    )
    forth, back = compared.result.transfer
    assert (forth.first, forth.second) == tuple(target.source.path for target in compared.result.targets)
    assert (forth.successes, forth.rate.n) == (1, 3)
    assert (forth.rate.low, forth.rate.high) == (wilson(1, 3).low, wilson(1, 3).high)
    assert (back.successes, back.rate.n) == (1, 2)


def test_the_interval_of_a_target_respects_families(files: Files) -> None:
    names = [f"document_mail-{n // 8}_dan-01_exfil-0{n // 8}_start" for n in range(40)]
    facets = [
        {"document_id": f"mail-{n // 8}", "instruction_type": f"i{n // 8}", "task_type": "document"} for n in range(40)
    ]
    dataset = [entry(n, long_id=names[n]) for n in range(40)]
    compared = files.compare(dataset, [result(n, n < 16, long_id=names[n], **facets[n]) for n in range(40)])
    (target,) = compared.result.targets
    assert compared.result.families == 5
    assert target.rate.value == 0.4
    assert target.rate.low is not None
    plain = wilson(16, 40).low
    assert plain is not None
    assert target.rate.low < plain


def test_transfer_respects_families_too(files: Files) -> None:
    names = [f"document_mail-{n // 8}_dan-01_exfil-0{n // 8}_start" for n in range(40)]
    facets = [
        {"document_id": f"mail-{n // 8}", "instruction_type": f"i{n // 8}", "task_type": "document"} for n in range(40)
    ]
    wins = [[n for n in range(40) if n % 8 < 6], [n for n in range(40) if n % 8 < n // 8 + 1]]
    compared = files.compare(
        [entry(n, long_id=names[n]) for n in range(40)],
        *([result(n, n in won, long_id=names[n], **facets[n]) for n in range(40)] for won in wins),
    )
    forth, back = compared.result.transfer
    expected = cluster_wilson([1, 2, 3, 4, 5], [6] * 5, unit=forth.rate.unit)
    assert (forth.successes, forth.rate) == (15, expected.estimate)
    # What succeeds on the second succeeds on the first.
    assert (back.successes, back.rate.value, back.rate.method) == (15, 1.0, "cluster wilson")


# -- does the dataset fit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", ["faircount", "spikee"])
def test_a_dataset_that_does_not_fit_is_refused_unless_validation_is_skipped(
    cli: Cli, files: Files, tmp_path: Path, definition: str
) -> None:
    dataset, (first, second) = files.written(
        [entry(1), entry(2), entry(3)], [result(n) for n in (1, 2, 3)], [result(1), result(4, True)]
    )
    words = ["results", "dataset-comparison", "--dataset", dataset, first, second, "-o", str(tmp_path / "new.jsonl")]
    refused = cli(*words, "--definition", definition)
    assert refused.code == 3
    assert f"{second} has no result of 2 of 3 entries ({dataset}:2, {dataset}:3)" in refused.err
    assert "--skip-validation" in refused.err
    assert first not in refused.err
    assert not (tmp_path / "new.jsonl").exists()
    assert cli(*words, "--definition", definition, "--skip-validation").code == 0


def test_the_message_says_what_else_does_not_fit(files: Files) -> None:
    with pytest.raises(
        InputError, match=r"1 result with the id but not the content of an entry \(.*:1\), and 1 result"
    ):
        files.compare([entry(1)], [result(1, input="other"), result(2)], skip_validation=False)


def test_results_of_more_entries_fit(files: Files) -> None:
    assert files.compare([entry(1)], [result(1, True), result(2)], skip_validation=False).result.meeting == 1


def test_a_dataset_without_entries_is_refused(files: Files) -> None:
    with pytest.raises(InputError, match="no entries"):
        files.compare([], [result(1)])
    with pytest.raises(InputError, match="cannot read any of its 2 lines"):
        files.compare(["no", "[1]"], [result(1)])


def test_results_that_cannot_be_read_at_all_are_refused(files: Files) -> None:
    with pytest.raises(InputError, match="as a spikee result"):
        files.compare([entry(1)], ["torn {"])


def test_the_dataset_is_one_file_that_can_be_read_twice(files: Files, tmp_path: Path) -> None:
    path, results = files.written([entry(1)], [result(1)])
    with pytest.raises(UsageError, match=r"2 datasets: .*cases\.jsonl, .*results_target-0\.jsonl"):
        compare_dataset(str(tmp_path / "*.jsonl"), results)
    with pytest.raises(UsageError, match="standard input"):
        compare_dataset("-", results)
    with pytest.raises(UsageError, match="standard input"):
        compare_dataset(path, ["-"], DatasetComparisonOptions(definition="spikee"))
    with pytest.raises(InputError, match="no such file"):
        compare_dataset(str(tmp_path / "nope.jsonl"), results)
    with pytest.raises(UsageError, match="no result file"):
        compare_dataset(path, [])


def test_damaged_lines_are_reported_and_left_out(cli: Cli, files: Files, tmp_path: Path) -> None:
    dataset, (results,) = files.written(
        [entry(1), '{"id": 2, "content": "torn', "", b"\xff\xfe", '{"id": true}', entry(3)],
        [result(1, True), "garbage", result(3)],
    )
    words = ["results", "dataset-comparison", "--dataset", dataset, results, "--output-format", "json"]
    done = cli(*words, "-o", str(tmp_path / "a.jsonl"))
    document = json.loads(done.out)
    assert done.code == 0
    assert (document["entries"], document["dataset"]["bad_lines"]) == (2, 3)
    (finding,) = [f for f in document["findings"] if f["code"] == "F001"]
    assert finding["count"] == 4
    assert f"{dataset}:2" in finding["where"]
    assert f"{results}:2" in finding["where"]
    assert cli(*words, "--strict", "-o", str(tmp_path / "b.jsonl")).code == 3


def test_odd_rows_of_a_dataset_are_read_as_well_as_they_can_be(files: Files) -> None:
    dataset = ['{"id": 1.0, "score": NaN, "content": "prompt 1"}', '{"id": 2, "long_id": 5, "content": "prompt 2"}']
    compared = files.compare(dataset, [result(1, True), result(2, True)])
    assert list(compared.rows()) == [
        b'{"id": 1.0, "score": NaN, "content": "prompt 1", "success_rate": 1.0}\n',
        b'{"id": 2, "long_id": 5, "content": "prompt 2", "success_rate": 1.0}\n',
    ]


# -- what is written --------------------------------------------------------------------------------------------


def test_rows_are_written_byte_for_byte(files: Files) -> None:
    line = '{"id": 1,  "content": "caf\\u00e9 é", "n": 1.50e3, "big": 12345678901234567890123, "x": {"b": [ ]}}'
    compared = files.compare([line], [result(1, True, input="café é")])
    (written,) = compared.rows()
    assert written == (line[:-1] + ', "success_rate": 1.0}\n').encode()


def test_a_compact_row_stays_compact() -> None:
    assert with_rate(b'{"id":1,"content":"a"} \r', 0.5) == b'{"id":1,"content":"a","success_rate":0.5}\n'


def test_a_rate_that_is_there_is_replaced_in_its_place() -> None:
    line = b'{"id": 1, "success_rate": 0.25, "content": "a\\u0041"}'
    assert with_rate(line, 1.0) == b'{"id": 1, "success_rate": 1.0, "content": "a\\u0041"}\n'
    nested = b'{"id": 1, "content": "\\"success_rate\\": 3"}'
    assert with_rate(nested, 1.0) == nested[:-1] + b', "success_rate": 1.0}\n'
    not_strict = b'{"id": 1, "success_rate": 0.25, "x": NaN}'
    assert with_rate(not_strict, 1.0) == b'{"id": 1, "success_rate": 1.0, "x": NaN}\n'


def test_the_new_dataset_can_be_compared_again(files: Files, tmp_path: Path) -> None:
    compared = three_targets(files, success_threshold=0.3)
    again = tmp_path / "again.jsonl"
    again.write_bytes(b"".join(compared.rows()))
    second = compare_dataset(str(again), [t.source.path for t in compared.result.targets], DatasetComparisonOptions())
    assert rates(second) == {"2": 1.0}


@pytest.mark.parametrize("packed", [False, True])
def test_a_packed_dataset_is_read_too(files: Files, tmp_path: Path, packed: bool) -> None:
    path, results = files.written([entry(n) for n in (3, 1, 2)], [result(n, True) for n in (1, 2, 3)])
    if packed:
        data = Path(path).read_bytes()
        path = str(tmp_path / "cases.jsonl.gz")
        Path(path).write_bytes(gzip.compress(data))
    assert list(rates(compare_dataset(path, results))) == ["3", "1", "2"]


def test_a_dataset_that_changes_meanwhile_is_noticed(files: Files) -> None:
    compared = files.compare([entry(1)], [result(1, True)])
    Path(compared.dataset.path).write_text(json.dumps(entry(2)) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="changed while it was being read"):
        list(compared.rows())


def test_a_dataset_is_read_in_blocks(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [entry(n, content=f"prompt {n}" + "x" * 5000) for n in range(200)]
    path, _ = files.written([*rows[:90], "broken", *rows[90:]])
    dataset = read_dataset(path)
    assert len(dataset) == 200
    assert dataset.place(150).endswith(":152")
    lines = list(dataset.rows_with_rates([199, 0], [0.5, 1.0]))
    assert [json.loads(line)["id"] for line in lines] == [199, 0]
    monkeypatch.setattr(Records, "_at_once", lambda *_: None)
    assert read_dataset(path).contents == dataset.contents


# -- the command ------------------------------------------------------------------------------------------------


def run(cli: Cli, files: Files, *words: str, targets: Sequence[Lines] | None = None) -> Any:
    dataset, paths = files.written(
        [entry(1), entry(2)], *(targets or ([result(1, True), result(2)], [result(1, True), result(2, True)]))
    )
    return cli("results", "dataset-comparison", "--dataset-file", dataset, *paths, *words)


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_the_default_name_and_place_are_spikees(cli: Cli, files: Files, in_folder: Path) -> None:
    for _ in range(2):
        assert run(cli, files, "--tag", "top").code == 0
    names = sorted(path.name for path in (in_folder / "datasets").iterdir())
    assert len(names) == 2
    assert all(name.startswith("comparison_cases_top_1") and name.endswith(".jsonl") for name in names)


def test_nothing_is_overwritten_without_force(cli: Cli, files: Files, in_folder: Path) -> None:
    new = in_folder / "new.jsonl"
    assert run(cli, files, "-o", str(new)).code == 0
    before = new.read_bytes()
    refused = run(cli, files, "-o", str(new), "--success-threshold", "0.1")
    assert refused.code == 2
    assert "--force" in refused.err
    assert new.read_bytes() == before
    assert run(cli, files, "-o", str(new), "--success-threshold", "0.1", "--force").code == 0
    assert len(new.read_bytes().splitlines()) == 2
    assert list(in_folder.iterdir()) == [new]


def test_no_entry_gives_an_empty_file_and_says_so(cli: Cli, files: Files, in_folder: Path) -> None:
    done = run(cli, files, "-o", "none.jsonl", "--success-threshold", "1")
    assert done.code == 0
    assert (in_folder / "none.jsonl").read_bytes() == b""
    assert "the file is empty" in done.out


def test_an_input_is_never_overwritten(cli: Cli, files: Files, tmp_path: Path) -> None:
    for name in ("cases.jsonl", "results_target-0.jsonl"):
        done = run(cli, files, "-o", str(tmp_path / name), "--force")
        assert (done.code, "is an input" in done.err) == (2, True)
        done = run(cli, files, "-o", str(tmp_path / "new.jsonl"), "--report", str(tmp_path / name))
        assert (done.code, "is an input" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-o", "a.jsonl", "--tag", "x"], "--tag"),
        (["-o", "-"], "needs a file"),
        (["-o", "page.html"], "--report"),
        (["--force"], "--force needs -o"),
        (["--tag", "a/b"], "use 1 to 50 letters"),
        (["--success-threshold", "80"], "--success-threshold must be from 0 to 1, not 80"),
        (["--number", "0"], "--number must be 1 or more, not 0"),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    cli: Cli, files: Files, in_folder: Path, words: list[str], reason: str
) -> None:
    done = run(cli, files, *words)
    assert done.code == 2
    assert reason in done.err
    assert list(in_folder.iterdir()) == []


def test_the_dataset_must_be_named(cli: Cli, files: Files) -> None:
    _, paths = files.written([entry(1)], [result(1)])
    assert "--dataset-file" in cli("results", "dataset-comparison", *paths).err


def test_every_format_is_written_where_it_belongs(cli: Cli, files: Files, in_folder: Path) -> None:
    assert "From target to target" in run(cli, files, "-o", "a.jsonl").out
    assert run(cli, files, "-o", "b.jsonl", "--output-format", "markdown").out.startswith("# Comparison of")
    page = run(cli, files, "-o", "c.jsonl", "--output-format", "html")
    assert page.out == "c_analysis.html\n"
    assert "How success transfers" in (in_folder / "c_analysis.html").read_text(encoding="utf-8")
    assert run(cli, files, "-o", "d.jsonl", "--output-format", "json", "--report", "d.json").out == ""
    assert json.loads((in_folder / "d.json").read_text(encoding="utf-8"))["output"] == "d.jsonl"


def test_several_folders_and_files_are_targets(cli: Cli, write: Write, in_folder: Path) -> None:
    dataset = write([entry(1)], "cases.jsonl")
    for name in ("one/results_a.jsonl", "one/results_b.jsonl", "two/results_c.jsonl", "results_d.jsonl"):
        last = write([result(1, name < "results_d")], name)
    folder = Path(last).parent
    words = ["--result-folder", str(folder / "one"), "--result-folder", str(folder / "two"), "--result-file", last]
    done = cli("results", "dataset-comparison", "--dataset", dataset, *words, "--output-format", "json")
    assert [target["source"]["label"] for target in json.loads(done.out)["targets"]] == ["a", "b", "c", "d"]
    assert list((in_folder / "datasets").iterdir()) != []


def test_targets_are_called_by_what_tells_them_apart(write: Write) -> None:
    dataset = write([entry(1), entry(2)], "cases.jsonl")
    names = ["results_gpt_4o_cases_1700000001.jsonl", "results_llama_cases_1700000002.jsonl"]
    paths = [write([result(1, True), result(2, place > 0)], name) for place, name in enumerate(names)]
    compared = compare_dataset(dataset, paths)
    told = document(compared, "new.jsonl")
    assert [(target["source"]["label"], target["source"]["path"]) for target in told["targets"]] == [
        ("gpt_4o", paths[0]),
        ("llama", paths[1]),
    ]
    sections = {section.title: section for section in as_report(compared.result, "new.jsonl").sections}
    grids = {title: sections[title].blocks[0] for title in ("Targets", "Sources", "From target to target")}
    assert all(isinstance(grid, Grid) for grid in grids.values())
    shown = {title: [row[:2] for row in grid.rows] for title, grid in grids.items() if isinstance(grid, Grid)}
    assert [label for label, _ in shown["Targets"]] == [Label("llama"), Label("gpt_4o")], "the highest rate first"
    assert shown["Sources"] == [
        (Label(name), Record(path, whole=True)) for name, path in zip(("gpt_4o", "llama"), paths, strict=True)
    ]
    assert shown["From target to target"] == [
        (Label("gpt_4o"), Label("llama")),
        (Label("llama"), Label("gpt_4o")),
    ]


# -- the report -------------------------------------------------------------------------------------------------


def document(compared: ComparedDataset, output: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(documents.as_json(as_report(compared.result, output)))
    return read


def rich_comparison(files: Files, **options: Any) -> ComparedDataset:
    first: Lines
    dataset = [
        entry(HOSTILE, content="h"),
        entry(1),
        entry(1, content="again"),
        entry(2),
        entry(2),
        entry(3, long_id="case-1"),
    ]
    first = [result(HOSTILE, True, input="h"), result(1, True), result(1, input="again"), error(2), "torn", result(9)]
    second = [result(HOSTILE, True, input="h"), result(1, input="elsewhere"), blocked(3), result(2, None)]
    return files.compare(dataset, first, second, **options)


@pytest.mark.parametrize("options", [{}, {"definition": "spikee"}, {"success_definition": "lt", "number": 1}])
def test_every_document_keeps_to_the_schema(files: Files, options: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    told = document(rich_comparison(files, **options), "new.jsonl")
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(told)))
    del told["transfer"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(told, SCHEMA)


def test_a_target_without_answers_has_no_rate(files: Files) -> None:
    told = document(files.compare([entry(1)], [error(1)]), "new.jsonl")
    assert told["targets"][0]["rate"]["value"] is None
    assert told["transfer"] == []
    jsonschema.validate(told, SCHEMA)


def test_hostile_text_reaches_nobody(files: Files) -> None:
    report = as_report(rich_comparison(files, success_threshold=0.1).result, f"{HOSTILE}.jsonl", figures=True)
    shown = console.render(report, width=100, colour=False)
    pages = [shown, markdown.render(report), html.render(report)]
    assert all("\x1b]" not in page and "\u202e" not in page and "\x07" not in page for page in pages)
    assert "<script>alert" not in pages[2]
    assert "\\x1b]0;owned" in shown


def test_hostile_names_of_targets_reach_nobody(write: Write) -> None:
    names = [f"results_{HOSTILE.replace('/', '_')}{place}.jsonl" for place in range(3)]
    paths = [write([result(1, place > 0), result(2, place > 1)], name) for place, name in enumerate(names)]
    compared = compare_dataset(write([entry(1), entry(2)], "cases.jsonl"), paths)
    jsonschema.validate(document(compared, "new.jsonl"), SCHEMA)
    report = as_report(compared.result, "new.jsonl", figures=True)
    pages = [console.render(report, width=100, colour=False), markdown.render(report), html.render(report)]
    assert all("\x1b" not in page and "\u202e" not in page and "\x07" not in page for page in pages)
    assert all("\\u202e" in page for page in pages)
    assert "<script>alert" not in pages[2]


def test_the_report_says_what_could_not_be_matched_and_what_is_alike(files: Files) -> None:
    shown = console.render(as_report(rich_comparison(files).result, "new.jsonl"), width=120, colour=False)
    for words in (
        "What could not be matched",
        "results with an entry's id but other content",
        "results without an entry",
        "Repeated ids",
        "Repeated entries",
        "no target answered; never chosen",
        "Limits of these numbers",
        "at most, so it takes few values",
    ):
        assert words in " ".join(shown.split())


def test_of_many_pairs_of_targets_the_strongest_and_the_weakest_are_shown(files: Files) -> None:
    # Target n falls to the first n + 1 of seven entries: all that one falls to, a weaker one falls to, too.
    targets = [[result(entry_of, entry_of <= number) for entry_of in range(7)] for number in range(7)]
    compared = files.compare([entry(number) for number in range(7)], *targets)
    told = " ".join(console.render(as_report(compared.result, "new.jsonl"), width=100, colour=False).split())
    assert "The strongest 5 of 42 pairs" in told and "The weakest 5 of 42 pairs" in told
    assert len(document(compared, "new.jsonl")["transfer"]) == 42
    section = next(s for s in as_report(compared.result, "new.jsonl").sections if s.title == "From target to target")
    strongest, weakest = (block for block in section.blocks if isinstance(block, Grid))
    expected = sorted((min(to, of) + 1) / (of + 1) for of in range(7) for to in range(7) if of != to)
    for grid, ends in ((strongest, expected[-5:]), (weakest, expected[:5])):
        rates_shown = [row[2].value for row in grid.rows if isinstance(row[2], Estimate)]
        assert sorted(known(rate) for rate in rates_shown) == pytest.approx(ends)


@pytest.mark.parametrize("count", [2, 7, 20, 21])
def test_the_map_of_transfer_goes_from_the_weakest_target_to_the_strongest(files: Files, count: int) -> None:
    targets = [[result(number, number <= place) for number in range(count)] for place in range(count)]
    compared = files.compare([entry(number) for number in range(count)], *targets)
    section = next(
        s for s in as_report(compared.result, "new.jsonl", figures=True).sections if s.title == "From target to target"
    )
    maps = [block for block in section.blocks if isinstance(block, HeatMap)]
    if count > 20:
        assert not maps
        return
    (drawn,) = maps
    assert drawn.rows == drawn.columns == tuple(Label(t.source.label) for t in reversed(compared.result.targets))
    for row, of in zip(drawn.cells, reversed(range(count)), strict=True):
        for cell, to in zip(row, reversed(range(count)), strict=True):
            assert (cell is None) if of == to else cell is not None and cell.value == (min(to, of) + 1) / (of + 1)


# -- the cache --------------------------------------------------------------------------------------------------


def large(write: Write, name: str, *, only_attacks: bool = False) -> tuple[str, str]:
    filler = "x" * 120
    numbers = range(16_500)
    make = attack if only_attacks else result
    rows = [make(n, success=n % 4 == 0, response=filler, objective=f"prompt {n}") for n in numbers]
    return write([entry(n) for n in numbers], "cases.jsonl"), write(rows, name)


@pytest.mark.parametrize("only_attacks", [False, True])
def test_what_an_analysis_kept_gives_the_same_comparison(cli: Cli, write: Write, only_attacks: bool) -> None:
    dataset, results = large(write, "results_large.jsonl", only_attacks=only_attacks)
    anew = compare_dataset(dataset, [results], DatasetComparisonOptions(cache=False))
    assert cli("results", "analyze", "--overview", results).code == 0
    kept = compare_dataset(dataset, [results], DatasetComparisonOptions())
    assert kept.result.targets == anew.result.targets
    assert kept.rates == anew.rates
    assert kept.result.meeting == 4125
