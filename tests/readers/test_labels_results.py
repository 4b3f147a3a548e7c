"""Labels keyed to results: every key finds its row, and what finds none, or too many, is told."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from faircount.core import InputError, UsageError
from faircount.judges import Attempt, Decision
from faircount.readers import DataProblemKind, LabelOptions, Labels, read_labels
from tests.conftest import Write, attack, encode, standard

HIT, PASS = Decision.HIT, Decision.PASS


def table(tmp_path: Path, text: str, name: str = "labels.csv") -> str:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def keyed(labels: str, *results: str, **options: Any) -> Labels:
    return read_labels([labels], LabelOptions(results=results, **options))


def found(labels: Labels) -> list[tuple[str, str | None, Decision | None]]:
    return [(item.item, item.attempt.response, item.label) for item in labels]


def doubted(labels: Labels) -> dict[DataProblemKind, list[str]]:
    told: dict[DataProblemKind, list[str]] = {}
    for doubt in labels.problems:
        told.setdefault(doubt.kind, []).extend(place.rpartition(":")[2] for place in doubt.places)
    return told


def test_texts_come_from_the_results_and_labels_from_the_labels(tmp_path: Path, write: Write) -> None:
    rows = [
        standard(1, response="one", response_time=0.5, judge_args="X"),
        standard("b", response="two", input="asked"),
        standard(3, response="three"),
    ]
    results = write(rows)
    labels = keyed(table(tmp_path, "id,label\nb,hit\n1,pass\n"), results)
    first, second = labels
    assert (first.item, first.place, first.label) == ("1", f"{results}:1", PASS)
    assert first.attempt == Attempt("one", "prompt 1", latency=0.5, notes={"judge_args": "X"})
    assert (second.item, second.place, second.label) == ("b", f"{results}:2", HIT)
    assert second.attempt == Attempt("two", "asked")
    assert second.ratings == (("label", HIT),)
    assert labels.has_text
    assert labels.problems == ()
    (source,), (result,) = labels.sources, labels.results
    assert (source.good, source.hits, source.passes, source.unused, source.no_text) == (2, 1, 1, 0, 0)
    assert (result.path, result.lines, result.good, result.bad, result.labelled) == (results, 3, 3, 0, 2)
    assert result.sha256 == hashlib.sha256(encode(rows)).hexdigest()


@pytest.mark.parametrize(
    ("key", "response"),
    [
        ("12", "standard"),
        ("12-attack", "attacked"),
        ("long-12", "standard"),
        ("long-12-attack", "attacked"),
        ("results_x.jsonl:3", "attacked"),
        ("13-attack", "alone"),
        ("only-long", "other"),
    ],
)
def test_a_key_is_an_entry_a_row_a_long_id_or_a_line(tmp_path: Path, write: Write, key: str, response: str) -> None:
    results = write(
        [
            standard(11, response="other", long_id="only-long"),
            standard(12, response="standard", long_id="long-12"),
            attack(12, response="attacked", long_id="long-12-attack"),
            attack(13, response="alone"),
        ]
    )
    assert found(keyed(table(tmp_path, f"key,label\n{key},1\n"), results)) == [(key, response, HIT)]


def test_an_entry_without_a_standard_row_has_no_row_of_its_own(tmp_path: Path, write: Write) -> None:
    results = write([attack(13, response="alone"), standard(14)])
    labels = keyed(table(tmp_path, "id,label\n13,1\n14,0\n"), results)
    assert [item for item, _, _ in found(labels)] == ["14"]
    assert doubted(labels) == {DataProblemKind.KEY_WITHOUT_ROW: ["2"]}


def test_a_standard_row_goes_before_an_attack_row_with_the_same_id(tmp_path: Path, write: Write) -> None:
    results = write([standard(5, attack_name="goat", response="attacked"), standard(5, response="standard")])
    assert found(keyed(table(tmp_path, "id,label\n5,1\n"), results)) == [("5", "standard", HIT)]


def test_a_full_path_with_a_line_is_a_key(tmp_path: Path, write: Write) -> None:
    results = write([standard(1, response="a"), standard(1, response="b")])
    labels = keyed(table(tmp_path, f'id,label\n"{results}:2",1\n'), results)
    assert found(labels) == [(f"{results}:2", "b", HIT)]


def test_an_extracted_row_is_found_by_the_entry_it_came_from(tmp_path: Path, write: Write) -> None:
    results = write([standard(1, result_parent_id="77", response="extracted")])
    assert found(keyed(table(tmp_path, "id,label\n77,1\n"), results)) == [("77", "extracted", HIT)]


@pytest.mark.parametrize("response", [True, False, "True", "False", None])
def test_the_answer_of_a_guardrail_is_no_text(tmp_path: Path, write: Write, response: Any) -> None:
    labels = keyed(table(tmp_path, "id,label\n1,1\n"), write([standard(1, response=response)]))
    assert found(labels) == [("1", None, HIT)]
    assert labels.sources[0].no_text == 1


def test_keys_without_rows_rows_without_labels_and_keys_that_stand_twice_are_counted(
    tmp_path: Path, write: Write
) -> None:
    results = write([standard(number, response=f"r{number}", long_id=f"L{number}") for number in range(1, 8)])
    keys = ["1,1", "2,0", "1,1", "9,1", "3,1", "3,0", ",1", "4,1", "L4,0", "5,1", "L5,1", "6,"]
    labels = keyed(table(tmp_path, "id,label\n" + "\n".join(keys) + "\n"), results)
    assert found(labels) == [
        ("1", "r1", HIT),
        ("2", "r2", PASS),
        ("3", "r3", None),
        ("4", "r4", None),
        ("5", "r5", HIT),
        ("6", "r6", None),
    ]
    assert doubted(labels) == {
        DataProblemKind.KEY_TWICE: ["4", "12"],
        DataProblemKind.KEY_CONTRADICTED: ["7", "10"],
        DataProblemKind.KEY_WITHOUT_ROW: ["8", "5"],
    }
    (source,), (result,) = labels.sources, labels.results
    assert (source.good, source.unused) == (12, 6)
    assert (source.hits, source.passes, source.ties, source.unlabelled) == (2, 1, 0, 3)
    assert (result.good, result.labelled) == (7, 6)


def test_an_id_in_several_files_needs_to_be_told_apart(tmp_path: Path, write: Write) -> None:
    one = write([standard(1, response="from one")], "one.jsonl")
    two = write([standard(1, response="from two"), standard(2, response="second")], "two.jsonl")
    with pytest.raises(
        InputError, match=r"1 key could match several rows .*labels\.csv:2: 1 is .*one\.jsonl:1 and 1 ot"
    ):
        list(keyed(table(tmp_path, "id,label\n1,1\n2,0\n"), one, two))
    labels = keyed(table(tmp_path, f"file,id,label\none.jsonl,1,1\n{two},1,0\n,2,1\nthree.jsonl,1,1\n"), one, two)
    assert found(labels) == [("1", "from one", HIT), ("1", "from two", PASS), ("2", "second", HIT)]
    (doubt,) = labels.problems
    assert (doubt.kind, doubt.reason) == (
        DataProblemKind.KEY_WITHOUT_ROW,
        "the file three.jsonl is not among the results",
    )


def test_a_column_source_is_a_file_only_where_it_names_one(tmp_path: Path, write: Write) -> None:
    results = write([standard(1, response="a")])
    plain = keyed(table(tmp_path, "source,id,label\nforum,1,1\n"), results)
    named = keyed(table(tmp_path, "source,id,label\nresults_x.jsonl,1,1\n", "other.csv"), results)
    assert found(plain) == found(named) == [("1", "a", HIT)]
    assert [labels.columns[0][1].file for labels in (plain, named)] == [None, "source"]


def test_a_line_of_another_file_than_the_column_says_is_no_row(tmp_path: Path, write: Write) -> None:
    one, two = (write([standard(1, response=name)], f"{name}.jsonl") for name in ("one", "two"))
    labels = keyed(table(tmp_path, "file,id,label\none.jsonl,two.jsonl:1,1\ntwo.jsonl,two.jsonl:1,0\n"), one, two)
    assert found(labels) == [("two.jsonl:1", "two", PASS)]
    assert doubted(labels) == {DataProblemKind.KEY_WITHOUT_ROW: ["2"]}


def test_files_of_one_name_are_told_apart_by_their_paths(tmp_path: Path, write: Write) -> None:
    one, two = (write([standard(1, response=name)], f"{name}/r.jsonl") for name in ("a", "b"))
    with pytest.raises(InputError, match=r"several result files are named r\.jsonl"):
        list(keyed(table(tmp_path, "file,id,label\nr.jsonl,1,1\n"), one, two))
    assert found(keyed(table(tmp_path, f"file,id,label\n{two},1,1\n"), one, two)) == [("1", "b", HIT)]


def test_rows_of_one_id_in_one_file_are_ambiguous_unless_they_are_the_same(tmp_path: Path, write: Write) -> None:
    path = table(tmp_path, "id,label\n1,1\n")
    same = write([standard(1, response="a"), standard(1, response="a")], "same.jsonl")
    assert found(keyed(path, same)) == [("1", "a", HIT)]
    other = write([standard(1, response="a"), standard(1, response="b")], "other.jsonl")
    with pytest.raises(InputError, match=r"write file:line as the key"):
        list(keyed(path, other))


def test_raters_and_thresholds_work_as_elsewhere(tmp_path: Path, write: Write) -> None:
    results = write([standard(1), standard(2), standard(3)])
    path = table(tmp_path, "id,rater_1,rater_2\n1,4,5\n2,1,5\n3,x,1\n")
    labels = keyed(path, results, label_threshold=3, invert_labels=True)
    assert [item.label for item in labels] == [PASS, None, None]
    (source,) = labels.sources
    assert (source.passes, source.ties, source.unlabelled, source.bad_labels, source.scores) == (1, 1, 1, 1, 3)
    assert doubted(labels) == {DataProblemKind.TIE: ["3"], DataProblemKind.BAD_LABEL: ["4"]}


def test_labels_in_jsonl_and_damaged_results_are_read(write: Write) -> None:
    lines = [standard(1, response="a"), "{torn", json.dumps(standard(2)).replace('"no"', '"\\ud83d!"'), standard(3)]
    labels = keyed(write([{"id": 1, "label": True}, {"id": 2, "label": False}, "bad"], "l.jsonl"), write(lines))
    assert found(labels) == [("1", "a", HIT), ("2", "\ufffd!", PASS)]
    assert (labels.sources[0].bad, labels.results[0].bad, labels.results[0].good) == (1, 1, 3)


def test_labels_can_be_iterated_again_until_the_results_change(tmp_path: Path, write: Write) -> None:
    results = write([standard(1)])
    labels = keyed(table(tmp_path, "id,label\n1,1\n"), results)
    assert list(labels) == list(labels)
    write([standard(1, response="changed")])
    with pytest.raises(InputError, match="changed while it was being used"):
        list(labels)


def test_what_cannot_be_matched_is_refused(tmp_path: Path, write: Write) -> None:
    results = write([standard(1)])
    with pytest.raises(UsageError, match=r"no column that names the rows of the results; .*--id-column"):
        keyed(table(tmp_path, "name,label\n1,1\n"), results)
    with pytest.raises(UsageError, match="not standard input"):
        keyed(table(tmp_path, "id,label\n1,1\n"), "-")
    with pytest.raises(InputError, match="none of its keys matches a row of the results"):
        list(keyed(table(tmp_path, "id,label\n7,1\n"), results))
    with pytest.raises(InputError, match="no readable labels"):
        list(keyed(table(tmp_path, "id,label\n"), results))


@pytest.mark.shared
def test_published_results_can_be_labelled_by_every_id(shared: Path, tmp_path: Path) -> None:
    (path,) = (shared / "data" / "spikee-v0.1").glob("results_az_gpt4o-*-prompt_*.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    text = "id,label\n" + "".join(f"{row['id']},{row['success']}\n" for row in rows)
    labels = keyed(table(tmp_path, text), str(path))
    items = list(labels)
    assert [item.attempt.response for item in items] == [row["response"] for row in rows]
    assert [item.label for item in items] == [Decision.of(row["success"]) for row in rows]
    assert labels.results[0].labelled == len(rows)
    assert labels.problems == ()
