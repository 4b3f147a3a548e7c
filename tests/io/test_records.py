"""The records of a file: the same ones whatever the file is written in, for everything that reads records."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import tracemalloc
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import openpyxl
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from faircount.analysis import read_predictions
from faircount.components import Context
from faircount.core import InputError, UsageError
from faircount.io import ColumnFinder, Problem, Records, Role, Sha256, all_fields, column_names, read_map, some_values
from faircount.judges import Decision
from faircount.readers import read_dataset, read_labels
from faircount.runs import DatasetChoice, ReplayTarget, Request, choose_entries
from tests.runs.target_outcomes import in_turn

Fields = dict[str, str]
Lines = list[int]

TEXTS = ("one", 'two, "quoted"; and\ttabbed', "drei\u2028é\U0001f600", "four")


def as_jsonl(rows: Sequence[Fields]) -> tuple[bytes, Lines]:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows), list(range(1, len(rows) + 1))


def as_array(rows: Sequence[Fields]) -> tuple[bytes, Lines]:
    text = json.dumps(rows, indent=1, ensure_ascii=False)
    begins = [number for number, line in enumerate(text.split("\n"), start=1) if line == " {"]
    return text.encode(), begins


def as_table(rows: Sequence[Fields], delimiter: str = ",") -> tuple[bytes, Lines]:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode(), list(range(2, len(rows) + 2))


def as_workbook(rows: Sequence[Fields]) -> tuple[bytes, Lines]:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for values in [list(rows[0]), *(list(row.values()) for row in rows)]:
        sheet.append(values)
    sheet.insert_rows(3)  # a row without anything
    file = io.BytesIO()
    book.save(file)
    return file.getvalue(), [2, *range(4, len(rows) + 3)]


def zipped(content: bytes, *names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, content)
    return file.getvalue()


def written(folder: Path, form: str, rows: Sequence[Fields]) -> tuple[str, Lines]:
    """Write rows in a form such as `jsonl`, `csv.gz` or `tsv.zip`; return the file and the line of each row."""
    kind, _, packed = form.partition(".")
    makers = {"jsonl": as_jsonl, "json": as_array, "csv": as_table, "xlsx": as_workbook}
    content, lines = as_table(rows, "\t") if kind == "tsv" else makers[kind](rows)
    path, name = folder / f"rows.{form}", f"rows.{form}"
    if packed == "gz":
        content = gzip.compress(content)
    elif packed == "zst":
        content = zstandard.ZstdCompressor().compress(content)
    elif packed == "zip":
        content = zipped(content, f"rows.{kind}", "__MACOSX/._rows", ".hidden")
    elif packed == "member":
        path, name = folder / "some.zip", f"some.zip/in/rows.{kind}"
        content = zipped(content, f"in/rows.{kind}", "other.csv")
    path.write_bytes(content)
    return str(folder / name), lines


PLAIN = ("jsonl", "json", "csv", "tsv", "xlsx")
FORMS = [
    *PLAIN,
    *(f"{kind}.{packed}" for kind in ("jsonl", "json", "csv") for packed in ("gz", "zst", "zip", "member")),
]


# -- everybody who reads records --------------------------------------------------------------------------------


def labelled(path: str) -> list[tuple[int, str]]:
    with read_labels([path]) as labels:
        assert labels.problems == ()
        assert [item.label for item in labels] == [Decision.HIT, Decision.PASS] * (len(TEXTS) // 2)
        return [(int(item.place.rpartition(":")[2]), item.attempt.response or "") for item in labels]


def entries(path: str) -> list[tuple[int, str]]:
    found = choose_entries(DatasetChoice(paths=(path,), columns=(("prompt", "response"),), judge="refusal"), Context())
    assert [case.name for case in found.cases] == [f"e{number}" for number in range(len(TEXTS))]
    return [(int(case.place.rpartition(":")[2]), case.messages[0]["content"]) for case in found.cases]


def compared(path: str) -> list[tuple[int, str]]:
    dataset = read_dataset(path)
    assert dataset.notes.counts == {}
    assert dataset.ids == [f"e{number}" for number in range(len(TEXTS))]
    rows = range(len(dataset))
    lines = [json.loads(line) for line in dataset.rows_with_rates(rows, [0.5] * len(dataset))]
    assert all(line["success_rate"] == 0.5 for line in lines)
    return [
        (int(dataset.place(row).rpartition(":")[2]), line["response"]) for row, line in zip(rows, lines, strict=True)
    ]


def predicted(path: str) -> list[tuple[int, str]]:
    predictions = read_predictions([path])
    found = [(prediction.item, prediction.reason, prediction.score) for prediction in predictions]
    assert predictions.findings == ()
    assert [score for _, _, score in found] == [0.25] * len(TEXTS)
    # A prediction does not know its line: it is counted that none is missing.
    assert predictions.sources[0].good_lines == len(TEXTS)
    return [(number, reason) for number, (_, reason, _) in enumerate(found)]


def replayed(path: str) -> list[tuple[int, str]]:
    said: list[str] = []
    target = ReplayTarget(path, said.append)
    asked = [
        Request(({"role": "user", "content": f"p{n}"},), fields={"id": f"e{n}"}) for n in reversed(range(len(TEXTS)))
    ]
    answers = in_turn(target, asked)
    assert said == []
    return [(number, answer.output) for number, answer in enumerate(reversed(answers))]


def row_of(number: int, text: str) -> Fields:
    return {
        "id": f"e{number}",
        "input": f"p{number}",
        "response": text,
        "label": "hit" if number % 2 == 0 else "pass",
        "judge": "j",
        "item": f"i{number}",
        "decision": "hit",
        "score": 0.25,  # type: ignore[dict-item]
        "reason": text,
    }


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("read", "has_lines"), [(labelled, 1), (entries, 1), (compared, 1), (predicted, 0), (replayed, 0)]
)
def test_every_format_gives_the_same_records(
    tmp_path: Path, form: str, read: Callable[[str], list[tuple[int, str]]], has_lines: bool
) -> None:
    path, lines = written(tmp_path, form, [row_of(number, text) for number, text in enumerate(TEXTS)])
    expected = lines if has_lines else range(len(TEXTS))
    assert read(path) == list(zip(expected, TEXTS, strict=True))


# -- records as they are ----------------------------------------------------------------------------------------


def read(path: str | Path, **options: Any) -> tuple[list[tuple[int, Any]], list[tuple[str, int]], Records[Any]]:
    """Return the records of a file, what was wrong with which line, and how the file fared."""
    problems: list[tuple[str, int]] = []
    kind = options.pop("kind", all_fields())

    def report(problem: Problem, reason: str, line: int) -> None:
        problems.append((reason or problem.value, line))

    records = Records(str(path), kind, report, **options)
    return list(records), problems, records


def put(folder: Path, content: bytes | str, name: str = "rows.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("form", FORMS)
def test_the_digest_is_that_of_the_file_and_texts_can_be_read_again(tmp_path: Path, form: str) -> None:
    rows = [row_of(number, text) for number, text in enumerate(TEXTS)]
    path, _ = written(tmp_path, form, rows)
    digest = Sha256()
    (file,) = tmp_path.iterdir()
    records = Records(path, all_fields(), digest=digest)
    for batch in records.batches():
        for value, text, offset in zip(batch.values, batch.texts, batch.offsets, strict=True):
            assert msgspec.json.decode(text) == value
            assert not records.in_place or file.read_bytes()[offset:].startswith(text)
    assert digest.hexdigest() == hashlib.sha256(file.read_bytes()).hexdigest()
    assert records.in_place == (form == "jsonl")


@pytest.mark.parametrize(
    ("content", "name", "format_"),
    [
        ('{"a": 1}\n', "x.csv", "jsonl"),
        ('\ufeff# about\n\n{"a": 1}\n', "x", "jsonl"),
        ('[{"a": 1}]', "x.jsonl", "json"),
        ('# [not this]\n[\n{"a": 1}]', "x.txt", "json"),
        ("a,b\n1,2\n", "x.txt", "csv"),
        ("[a],b\n1,2\n", "x.csv", "csv"),
        ("{a},b\n1,2\n", "x.csv", "csv"),
        ("torn\n", "x.jsonl", "jsonl"),
        ('torn"}\n{"a": 1}\n', "x.jsonl.gz", "jsonl"),
        ("[1, 2]\n", "x.jsonl", "jsonl"),
        ("[1, 2]\n", "x.json", "json"),
    ],
)
def test_a_format_is_known_by_content_and_by_name_only_where_content_cannot_tell(
    tmp_path: Path, content: str, name: str, format_: str
) -> None:
    assert Records(str(put(tmp_path, content, name)), all_fields()).format == format_


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_tab_goes_first_in_a_file_called_tsv(tmp_path: Path, delimiter: str) -> None:
    header = delimiter.join(["a,b,c,d", "e;f;g;h", "i"]) if delimiter == "\t" else delimiter.join("abc")
    found = read(put(tmp_path, f"{header}\n", "x.tsv"))[2].header
    assert found == header.split(delimiter)


def test_the_names_of_columns_are_those_of_the_first_thousand_records(tmp_path: Path) -> None:
    rows = [*({"a": n} for n in range(1000)), {"late": 1}]
    path = put(tmp_path, "".join(json.dumps(row) + "\n" for row in rows))
    assert column_names(str(path), name="x", max_line=1000) == (["a"], False)
    assert column_names(str(put(tmp_path, "a,b,a\n", "x.csv")), name="x", max_line=1000) == (["a", "b", "a"], True)


# -- damage -----------------------------------------------------------------------------------------------------

BAD = ('"torn', "[1]", '{"a": "\ud800"', "\x00", '{"a": 1} {"a": 2}', "{'a': 1}", "#late")


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("packed", [bytes, gzip.compress, lambda content: zipped(content, "x.jsonl")])
def test_a_bad_line_is_reported_and_the_others_count(
    tmp_path: Path, bad: str, packed: Callable[[bytes], bytes]
) -> None:
    lines = ['{"a": 1}', bad, "", '{"a": 2}', ""]
    path = put(tmp_path, packed("\n".join(lines).encode("utf-8", "surrogatepass")))
    found, problems, records = read(path)
    assert found == [(1, {"a": 1}), (4, {"a": 2})]
    assert [line for _, line in problems] == [2]
    assert (records.lines, records.bad, records.blank) == (4, 1, 1)


def test_a_bad_row_of_a_table_is_reported_and_the_others_count(tmp_path: Path) -> None:
    rows = [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    table, _ = as_table(rows)
    bad = table.replace(b"3,4", b"x\r\ny,z,w\r\n3,4").replace(b"\r", b"")
    found, problems, records = read(put(tmp_path, bad, "x.csv"))
    assert [line for line, _ in found] == [2, 5]
    assert problems == [("1 field, but the header has 2", 3), ("3 fields, but the header has 2", 4)]
    assert (records.lines, records.bad) == (5, 2)
    book = openpyxl.Workbook()
    for values in (["a", "b"], ["1"], ["3", "4", "5"], [None, None, None], ["6", "7"]):
        book.active.append(values)  # type: ignore[union-attr]
    book.save(tmp_path / "x.xlsx")
    found, problems, records = read(tmp_path / "x.xlsx")
    assert found == [(2, {"a": "1", "b": None}), (5, {"a": "6", "b": "7"})]
    assert problems == [("3 fields, but the header has 2", 3)]


def test_an_item_that_is_no_object_is_reported_and_an_array_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    found, problems, records = read(put(tmp_path, '[{"a": 1}, 5,\n{"a": NaN},\n{"a": 2}, {"a"', "x.json"))
    assert [line for line, _ in found] == [1, 2, 3]
    assert problems == [
        ("not a JSON object but a number", 1),
        ("the array is not valid JSON from here on", 3),
    ]
    assert (records.lines, records.bad) == (3, 1)


@pytest.mark.parametrize("packed", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_what_comes_before_a_break_counts_and_the_break_is_reported(
    tmp_path: Path, packed: Callable[[bytes], bytes]
) -> None:
    import random

    rows = [json.dumps({"a": random.Random(n).random()}) for n in range(20_000)]
    content = packed("\n".join(rows).encode())
    digest = Sha256()
    path = put(tmp_path, content[: len(content) // 2])
    found, problems, _ = read(path, digest=digest)
    assert 1000 < len(found) < 20_000
    assert any("stream" in reason for reason, _ in problems)
    assert digest.hexdigest() == hashlib.sha256(path.read_bytes()).hexdigest()


# -- hostile files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", PLAIN[:4])
def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path, form: str) -> None:
    path, lines = written(tmp_path, form, [{"a": "1"}, {"a": "2"}])
    Path(path).write_bytes(b"\xef\xbb\xbf" + Path(path).read_bytes())
    found = Records(path, all_fields())
    assert [(line, value["a"]) for line, value in found] == list(zip(lines, "12", strict=True))


def test_utf_16_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"UTF-16.*iconv"):
        read(put(tmp_path, "a,b\n1,2\n".encode("utf-16"), "x.csv"))


def test_nul_bytes_stay_where_they_are(tmp_path: Path) -> None:
    assert read(put(tmp_path, 'a,b\n"x\x00y",1\n', "x.csv"))[0] == [(2, {"a": "x\x00y", "b": "1"})]
    assert read(put(tmp_path, '{"a": "x\\u0000y"}\n'))[0] == [(1, {"a": "x\x00y"})]
    assert read(put(tmp_path, b'{"a": "x\x00y"}\n{"a": 1}\n'))[0] == [(2, {"a": 1})]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ('{"a": "first"}\n{"a": "%s"}\n{"a": "last"}\n', "x.jsonl"),
        ('[{"a": "first"},\n{"a": "%s"},\n{"a": "last"}]', "x.json"),
        ("a,b\nfirst,1\n%s,2\nlast,3\n", "x.csv"),
    ],
)
def test_a_huge_line_is_reported_and_the_next_one_is_read(tmp_path: Path, content: str, name: str) -> None:
    found, problems, records = read(put(tmp_path, content % ("x" * 400_000), name), max_line=100_000)
    assert [value["a"] for _, value in found] == ["first", "last"]
    assert "longer than 100" in problems[0][0]
    assert records.bad == 1


def test_nested_quotes_are_part_of_the_text(tmp_path: Path) -> None:
    text = 'He said ""no"", then "yes".\n"'
    table, _ = as_table([{"a": text, "b": '"'}])
    assert read(put(tmp_path, table, "x.csv"))[0] == [(2, {"a": text, "b": '"'})]


def test_columns_of_the_same_name_are_kept_apart(tmp_path: Path) -> None:
    found, _, records = read(put(tmp_path, "a,a,,a#2\n1,2,3,4\n", "x.csv"))
    assert records.header == ["a", "a", "", "a#2"]
    assert found == [(2, {"a": "1", "a#2": "2", "column_3": "3", "a#2#2": "4"})]


def test_a_key_that_appears_twice_is_bad_only_where_it_matters(tmp_path: Path) -> None:
    path = put(
        tmp_path, '{"a": 1, "a": 2}\n{"a": 1, "b": 1, "b": 2}\n{"a": 1, "a": 1}\n{"b": {"a": 1, "c": {"a": 2}}}\n'
    )
    assert [line for line, _ in read(path)[0]] == [1, 2, 3, 4]
    found, problems, _ = read(path, kind=some_values(["a", "b"], ["a"]))
    assert [line for line, _ in found] == [2, 3, 4]
    assert problems == [("the key a appears twice, with different values", 1)]


def test_lone_surrogates_are_replaced_and_reported_unless_they_are_to_be_kept(tmp_path: Path) -> None:
    path = put(tmp_path, '{"a": "x\\ud800", "\\udfff": ["\\uDC00"]}\n{"a": "\\ud83d\\ude00"}\n')
    found, problems, _ = read(path)
    assert found == [(1, {"a": "x\ufffd", "\ufffd": ["\ufffd"]}), (2, {"a": "\U0001f600"})]
    assert problems == [("lone surrogates were replaced", 1)]
    kept, problems, _ = read(path, kind=all_fields(keep_surrogates=True))
    assert (kept[0][1]["a"], problems) == ("x\ud800", [])


def test_numbers_that_json_cannot_hold_are_replaced_where_that_is_asked_for(tmp_path: Path) -> None:
    path = put(tmp_path, '{"a": NaN, "b": [-Infinity, 1e999, 2]}\n')
    assert read(path, kind=all_fields(finite=True))[:2] == (
        [(1, {"a": None, "b": [None, None, 2]})],
        [("a number that is not finite was replaced by null", 1)],
    )


@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.csv", "x.xlsx", "x.zip", "x"])
@given(content=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("any")
    for start in (b"", b"PK\x03\x04", b"\x1f\x8b", b"[", b"{"):
        path = put(folder, start + content, name)
        try:
            found, _, records = read(path)
        except (InputError, UsageError) as error:
            assert str(path) in str(error)
            continue
        assert len(found) + records.bad <= max(records.lines, content.count(b",") + 1)


# -- archives ---------------------------------------------------------------------------------------------------


def test_an_archive_with_several_files_asks_for_one(tmp_path: Path) -> None:
    path = put(tmp_path, zipped(b"a\n1\n", "b.csv", "c/d.csv"), "x.zip")
    with pytest.raises(
        UsageError, match=r"x\.zip: the archive has 2 files: b\.csv, c/d\.csv; name one, as in .*x\.zip/b"
    ):
        read(path)
    assert read(path / "c" / "d.csv")[0] == [(2, {"a": "1"})]
    with pytest.raises(InputError, match=r"no such file; it has: b\.csv, c/d\.csv"):
        read(path / "e.csv")
    with pytest.raises(InputError, match="the archive has no files"):
        read(put(tmp_path, zipped(b"", ".hidden"), "y.zip"))
    with pytest.raises(InputError, match="is not a zip archive"):
        read(put(tmp_path, "a\n1\n", "z.zip") / "a.csv")


def test_a_path_that_goes_on_behind_nothing_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "none.zip" / "a.csv")


def test_an_archive_that_expands_like_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircount.io.streams.EXPANSION_CHECKED_FROM", 1 << 20)
    path = put(tmp_path, zipped(b'{"a": 1}\n' * 1_000_000, "x.jsonl"), "x.zip")
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="expands more than 200 times"):
            for _ in Records(str(path), all_fields()):
                pass
        assert tracemalloc.get_traced_memory()[1] < 16 * 1024**2
    finally:
        tracemalloc.stop()


def test_damage_in_an_archive_is_reported_and_what_comes_before_it_counts(tmp_path: Path) -> None:
    import random

    rows = "".join(json.dumps({"a": random.Random(n).random()}) + "\n" for n in range(20_000))
    content = bytearray(zipped(rows.encode(), "x.jsonl"))
    middle = len(content) // 2
    content[middle : middle + 50] = bytes(50)
    found, problems, _ = read(put(tmp_path, bytes(content), "x.zip"))
    assert 1000 < len(found) < 20_000
    assert any("the zip archive is damaged" in reason for reason, _ in problems)
    with pytest.raises(InputError, match="cannot read this zip archive"):
        read(put(tmp_path, bytes(content[:middle]), "y.zip"))


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", None)
    for form in ("xlsx", "csv.zip"):
        path, _ = written(tmp_path, form, [{"a": "1"}])
        records = iter(Records(path, all_fields()))
        next(records)
        assert list(place.iterdir()) == []


# -- columns ----------------------------------------------------------------------------------------------------

TEXT = Role("text", (("response", "answer"), ("text",)), "contains texts")


def finder(*names: str) -> ColumnFinder:
    return ColumnFinder("x.csv", names)


@pytest.mark.parametrize(
    ("names", "column"),
    [
        (["id", "answer"], "answer"),
        (["Response", "response"], "response"),
        (["RESPONSE ", "text"], "RESPONSE "),
        (["text", "other"], "text"),
        (["other"], None),
    ],
)
def test_the_exact_name_goes_first_and_the_best_rank_decides(names: list[str], column: str | None) -> None:
    found = finder(*names)
    assert found.guess(TEXT) == column
    assert found.guessed == ({} if column is None else {"text": column})
    assert column not in found.free()


def test_several_columns_are_an_error_that_names_them_and_the_option() -> None:
    with pytest.raises(UsageError, match=r"several columns could be the text: response, answer; .* --map text=COLUMN"):
        finder("response", "answer").guess(TEXT)
    with pytest.raises(UsageError, match=r"could be the text: a_b, a b; name one with --map text=COLUMN"):
        finder("a_b", "a b").named(TEXT, "A-B")
    with pytest.raises(UsageError, match=r"has no column zz \(--map text=…\); its columns: a, b"):
        finder("a", "b").named(TEXT, "zz")
    assert finder("response", "answer").guess(Role("text", TEXT.ranks, any_of_rank=True)) == "response"


def test_a_column_has_one_role() -> None:
    found = finder("text", "response")
    assert found.named(Role("prompt"), "response") == "response"
    assert found.guess(TEXT) == "text"
    assert found.guessed == {"text": "text"}


ROLES = {"id": "id", "item": "id", "success": "success"}


@pytest.mark.parametrize(
    ("texts", "mapped"),
    [
        (["id=a,success=b"], (("id", "a"), ("success", "b"))),
        (["id=a", "success = b"], (("id", "a"), ("success", "b"))),
        (["ID=a, b,success="], (("id", "a, b"), ("success", ""))),
        (["Item=x=y"], (("id", "x=y"),)),
    ],
)
def test_a_map_names_the_columns_of_roles(texts: list[str], mapped: tuple[tuple[str, str], ...]) -> None:
    assert read_map(texts, ROLES) == mapped


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["id"], r"--map id: give ROLE=COLUMN, .*the roles are id, success"),
        (["x=1"], "--map x=1: give ROLE=COLUMN"),
        (["id=a,item=b"], "--map id=… is given twice"),
    ],
)
def test_a_map_that_is_not_understood_is_an_error(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_map(texts, ROLES)
