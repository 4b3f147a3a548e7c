"""Shards: every entry in one of them, and put together only if all are there and none twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.app.cli import main
from faircount.core import InputError, UsageError
from faircount.runs import (
    Answer,
    AttackSettings,
    Case,
    DatasetChoice,
    Limits,
    Request,
    Shard,
    Strategy,
    TargetError,
    lifecycle,
    merge_shards,
    read_shard,
    resume,
)
from tests.runs.running import Answering, Scripted, attempts, records
from tests.runs.test_run_entries import Numbered, answering, entry


@given(st.integers(0, 200), st.integers(1, 12))
def test_every_item_is_in_exactly_one_shard(items: int, count: int) -> None:
    parts = [Shard(number, count).of(tuple(range(items))) for number in range(1, count + 1)]
    assert sorted(item for part in parts for item in part) == list(range(items))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["", "1", "0/3", "4/3", "a/b", "1/0", "-1/3", "1/2/3"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--shard"):
        read_shard(text)


def cases_of(part: Shard, entries: int = 10) -> tuple[Case, ...]:
    return part.of(tuple(entry(f"e{number}") for number in range(entries)))


async def three_and_seven(request: Request) -> Answer:
    return Answer(output="PWNED" if request.case.endswith(("3", "7")) else "no")


def shard(
    folder: Path,
    text: str,
    *,
    entries: int = 10,
    name: str = "",
    limit: int | None = None,
    answering: Answering = three_and_seven,
    **more: Any,
) -> str:
    """Run a shard into a journal of its own, and return its path."""
    part = read_shard(text)
    path = str(folder / (name or f"shard_{part.number}.jsonl"))
    settings = lifecycle.Settings(
        files=(("d.jsonl", "0" * 64),),
        target={"kind": "scripted"},
        limits=Limits(),
        output_folder=str(folder),
        timestamp="20260101_120000",
        report_layout="per-case",
        folder=str(folder),
        entries=DatasetChoice(paths=("d.jsonl",)),
        shard=part,
        **more,
    )
    cases = cases_of(part, entries)

    journal = lifecycle.begin(path, settings, cases)
    strategy = Strategy(attack=Numbered(), iterations=2)
    lifecycle.execute(cases, Scripted(answering), journal, Limits(max_calls=limit), strategy=strategy)
    return path


def asr(path: str, capsys: pytest.CaptureFixture[str]) -> Mapping[str, Any]:
    capsys.readouterr()
    assert main(["results", "analyze", path, "--output-format", "json", "--no-cache"]) == 0
    analysis: Mapping[str, Any] = json.loads(capsys.readouterr().out)["analyses"][0]
    return analysis


def test_all_shards_make_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [shard(tmp_path, f"{number}/3") for number in (2, 3, 1)]
    out = str(tmp_path / "run.jsonl")
    assert main(["merge", *parts, "-o", out]) == 0
    assert "merged 3 shards (10 entries, 26 attempts)" in capsys.readouterr().err
    whole = shard(tmp_path, "1/1", name="whole.jsonl")
    found, expected = attempts(out), attempts(whole)
    assert found.keys() == expected.keys()
    assert all(found[key]["verdicts"] == expected[key]["verdicts"] for key in expected)
    header = records(out)[0]
    assert [one["shard"] for one in header["merged"]] == [1, 2, 3]
    assert header["settings"]["shard"] is None
    assert asr(out, capsys)["rates"] == asr(whole, capsys)["rates"]


def test_what_was_tried_again_after_errors_is_merged_as_it_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(request: Request) -> Answer:
        raise TargetError(f"HTTP 503 for {request.case}", "status")

    first = shard(tmp_path, "1/2", entries=8, answering=fail)
    second = shard(tmp_path, "2/2", entries=8)
    again = cases_of(read_shard("1/2"), 8)
    resumed = resume(first, again, retry_errors=True)
    strategy = Strategy(attack=Numbered(), iterations=2)
    lifecycle.execute(again, answering("PWNED"), resumed.journal, Limits(), strategy=strategy, earlier=resumed.earlier)
    out = str(tmp_path / "run.jsonl")
    assert main(["merge", first, second, "-o", out]) == 0
    tally = asr(out, capsys)["entries"]
    assert (tally["success"], tally["error"], tally["total"]) == (6, 0, 8)


def test_a_shard_that_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [shard(tmp_path, f"{number}/4") for number in (1, 3)]
    out = tmp_path / "run.jsonl"
    assert main(["merge", *parts, "-o", str(out)]) == 3
    assert "2 shards of 4 missing: 2/4, 4/4" in capsys.readouterr().err
    assert not out.exists()


def test_a_shard_that_is_there_twice_is_named(tmp_path: Path) -> None:
    parts = [shard(tmp_path, "1/2"), shard(tmp_path, "1/2", name="again.jsonl"), shard(tmp_path, "2/2")]
    with pytest.raises(InputError, match=r"again\.jsonl and .*shard_1\.jsonl are both shard 1/2"):
        merge_shards(parts)


def test_a_shard_that_is_not_complete_says_how_to_go_on(tmp_path: Path) -> None:
    parts = [shard(tmp_path, "1/2"), shard(tmp_path, "2/2", limit=4)]
    with pytest.raises(InputError, match=r"shard_2\.jsonl: not complete: .* left; continue with faircount resume"):
        merge_shards(parts)


def test_shards_of_different_runs_are_not_put_together(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="they differ in stop_when"):
        merge_shards([shard(tmp_path, "1/2"), shard(tmp_path, "2/2", stop_when="asr < 5%")])
    with pytest.raises(InputError, match="some belong to 2 and 3 shards"):
        merge_shards([shard(tmp_path, "1/2", name="a"), shard(tmp_path, "2/3", name="b")])


def test_shards_of_another_dataset_are_found_out_by_their_size_and_their_entries(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has 5 entries, but shard 1/2 of 11 has 6"):
        merge_shards([shard(tmp_path, "1/2", name="a"), shard(tmp_path, "2/2", entries=12, name="b")])
    first, second = shard(tmp_path, "1/2", name="c"), shard(tmp_path, "2/2", name="d")
    text = Path(second).read_text("ascii").replace('"e1"', '"e0"')
    Path(second).write_text(text, "ascii")
    with pytest.raises(InputError, match=r"the entry e0 is in .*c and in .*d"):
        merge_shards([first, second])


def check(paths: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Check shards, which must neither write nor change anything."""
    folder = Path(paths[0]).parent
    before = {path: path.read_bytes() for path in folder.iterdir()}
    capsys.readouterr()
    code = main(["merge", *paths, "--check"])
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    said = capsys.readouterr()
    return code, said.out.replace(f"{folder}/", ""), said.err


def test_shards_that_are_complete_are_proven_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = check([shard(tmp_path, f"{number}/3") for number in (3, 1, 2)], capsys)
    assert (code, out.splitlines()) == (
        0,
        [
            "shard 1/3: complete, 4 entries (shard_1.jsonl)",
            "shard 2/3: complete, 3 entries (shard_2.jsonl)",
            "shard 3/3: complete, 3 entries (shard_3.jsonl)",
        ],
    )
    assert "complete: 3 shards (10 entries, 26 attempts) of one run; nothing was written" in err


def test_what_is_left_of_each_shard_is_told_and_can_be_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [shard(tmp_path, f"{number}/9", entries=40, limit=limit) for number, limit in ((2, None), (4, 1), (9, 9))]
    done = sum(record["kind"] == "done" for record in records(parts[-1]))
    assert 0 < done < 4
    whole = Path(shard(tmp_path, "5/9", entries=40)).read_bytes()
    for name, cut in (("cases", whole.index(b'"kind":"call"') - 1), ("end", whole.index(b'{"kind":"end"'))):
        (tmp_path / name).write_bytes(whole[:cut])
    (tmp_path / "torn").write_bytes(whole[:50])
    code, out, err = check([*parts, str(tmp_path / "cases"), str(tmp_path / "torn")], capsys)
    assert (code, out.splitlines()) == (
        4,
        [
            "shard 2/9: complete, 5 entries (shard_2.jsonl)",
            "shard 4/9: 5 of 5 entries left (shard_4.jsonl)",
            "shard 5/9: nothing was sent yet (cases)",
            f"shard 9/9: {4 - done} of 4 entries left (shard_9.jsonl)",
            "not started: no complete header (torn)",
            "missing: 5 shards of 9: 1, 3, 6-8",
        ],
    )
    assert (
        "incomplete: 1 of 9 shards complete; run the others again with --resume-if-exists, or faircount resume" in err
    )
    code, out, _ = check([str(tmp_path / "end")], capsys)
    assert (code, out.splitlines()[0]) == (4, "shard 5/9: 4 entries done, but not its end (end)")
    code, out, err = check([str(tmp_path / "torn")], capsys)
    assert (code, out) == (4, "not started: no complete header (torn)\n")
    assert "0 of an unknown number of shards complete" in err


def test_shards_that_are_not_one_run_are_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = shard(tmp_path, "1/2")
    for paths, told in (
        ([first, shard(tmp_path, "2/3", name="b")], "some belong to 2 and 3 shards"),
        ([first, shard(tmp_path, "1/2", name="c", limit=3)], "are both shard 1/2"),
        ([first, shard(tmp_path, "2/2", name="d", attacking=AttackSettings(retries=3))], "they differ in retries"),
        ([first, shard(tmp_path, "2/2", name="e", entries=12)], "has 5 entries, but shard 1/2 of 11 has 6"),
        ([first, str(tmp_path / "nowhere")], "no such file"),
    ):
        code, out, err = check(paths, capsys)
        assert (code, out) == (3, "")
        assert told in err
    moved = Path(first).read_bytes().replace(b'"number":1,', b'"number":3,')
    (tmp_path / "moved").write_bytes(moved)
    assert "there is no shard 3/2" in check([str(tmp_path / "moved")], capsys)[2]


def test_a_merge_needs_a_file_to_write_or_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [shard(tmp_path, f"{number}/2") for number in (1, 2)]
    assert main(["merge", *parts]) == 2
    assert "name the merged journal with -o, or only check the shards with --check" in capsys.readouterr().err
    assert main(["merge", *parts, "-o", str(tmp_path / "run.jsonl"), "--check"]) == 0
    assert not (tmp_path / "run.jsonl").exists()


def test_what_is_no_shard_is_not_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = shard(tmp_path, "1/1")
    text = Path(path).read_text("ascii").replace('"shard":{"number":1,"count":1}', '"shard":null')
    Path(path).write_text(text, "ascii")
    assert main(["merge", path, "-o", str(tmp_path / "out.jsonl")]) == 3
    assert "without --shard" in capsys.readouterr().err
    assert main(["merge", path, "-o", path]) == 2
