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


def test_what_is_no_shard_is_not_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = shard(tmp_path, "1/1")
    text = Path(path).read_text("ascii").replace('"shard":{"number":1,"count":1}', '"shard":null')
    Path(path).write_text(text, "ascii")
    assert main(["merge", path, "-o", str(tmp_path / "out.jsonl")]) == 3
    assert "without --shard" in capsys.readouterr().err
    assert main(["merge", path, "-o", path]) == 2
