"""Shards on many machines: which one a task of an array job runs, with which files, within which limits."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.core import UsageError
from faircount.runs import Shard, part_of_amount, part_of_calls, scheduled_shard
from tests.conftest import Cli
from tests.runs.running import attempts, records


def slurm(index: int, tasks: range) -> dict[str, str]:
    """Return what Slurm tells a task of an array."""
    values = {"ID": index, "COUNT": len(tasks), "MIN": tasks[0], "MAX": tasks[-1], "STEP": tasks.step}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in values.items()}


def kubernetes(index: int, count: int) -> dict[str, str]:
    return {"JOB_COMPLETION_INDEX": str(index), "JOB_COMPLETIONS": str(count)}


def aws_batch(index: int, count: int) -> dict[str, str]:
    return {"AWS_BATCH_JOB_ARRAY_INDEX": str(index), "AWS_BATCH_JOB_ARRAY_SIZE": str(count)}


# -- array jobs -------------------------------------------------------------------------------------------------


@given(st.integers(0, 50), st.integers(1, 60), st.integers(1, 9))
def test_every_task_of_a_slurm_array_is_another_shard_wherever_it_begins_and_whatever_its_step(
    first: int, count: int, step: int
) -> None:
    tasks = range(first, first + count * step, step)
    shards = [scheduled_shard(slurm(index, tasks)) for index in tasks]
    assert shards == [Shard(number, count) for number in range(1, count + 1)]


def test_kubernetes_and_aws_batch_count_from_zero() -> None:
    assert [scheduled_shard(kubernetes(index, 3)).number for index in range(3)] == [1, 2, 3]
    assert [scheduled_shard(aws_batch(index, 3)).number for index in range(3)] == [1, 2, 3]
    assert scheduled_shard({**kubernetes(2, 3), **aws_batch(2, 3), **slurm(2, range(3))}) == Shard(3, 3)


@given(st.sets(st.integers(0, 30), min_size=1, max_size=12))
def test_tasks_of_an_uneven_slurm_array_are_refused_or_different_shards(indices: set[int]) -> None:
    known = []
    for index in indices:
        names = {"ID": index, "COUNT": len(indices), "MIN": min(indices), "MAX": max(indices)}
        try:
            known.append(scheduled_shard({f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in names.items()}))
        except UsageError as error:
            assert "not evenly spaced" in str(error)
    assert len(set(known)) == len(known)


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, "not in an array job: none of SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX, AWS_BATCH_JOB_ARRAY_INDEX"),
        ({"SLURM_ARRAY_TASK_ID": ""}, "not in an array job"),
        ({"JOB_COMPLETIONS": "4"}, "not in an array job"),
        ({"SLURM_ARRAY_TASK_ID": "3"}, "SLURM_ARRAY_TASK_COUNT is not set; submit it with sbatch --array"),
        ({**slurm(3, range(8)), "SLURM_ARRAY_TASK_MIN": ""}, "SLURM_ARRAY_TASK_MIN is not set"),
        ({**slurm(3, range(8)), "SLURM_ARRAY_TASK_COUNT": "-8"}, "SLURM_ARRAY_TASK_COUNT is '-8', which is not a num"),
        ({**slurm(3, range(8)), "SLURM_ARRAY_TASK_COUNT": "0"}, "no known place among the 0"),
        ({**slurm(3, range(8)), "SLURM_ARRAY_TASK_COUNT": "4"}, "no known place among the 4 from 0 to 7"),
        (slurm(9, range(8)), "task 9 has no known place"),
        ({"JOB_COMPLETION_INDEX": "0"}, "JOB_COMPLETIONS is not set; set it in the job, under env of the container"),
        (kubernetes(4, 4), "JOB_COMPLETION_INDEX is 4, so JOB_COMPLETIONS cannot be 4"),
        ({"AWS_BATCH_JOB_ARRAY_INDEX": "\x1b[31m"}, "AWS_BATCH_JOB_ARRAY_INDEX is "),
        ({**slurm(0, range(8)), **kubernetes(0, 4)}, "1/8 by SLURM_ARRAY_TASK_ID, 1/4 by JOB_COMPLETION_INDEX"),
        ({**slurm(0, range(8)), "JOB_COMPLETION_INDEX": "0"}, "JOB_COMPLETIONS is not set"),
    ],
)
def test_what_the_environment_does_not_say_is_not_guessed(environment: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError) as refused:
        scheduled_shard(environment)
    assert told in str(refused.value)
    assert "\x1b" not in str(refused.value)
    assert "write --shard NUMBER/COUNT" in str(refused.value)


# -- limits -----------------------------------------------------------------------------------------------------


@given(st.integers(1, 300), st.integers(0, 10**6))
def test_the_requests_of_all_shards_are_those_of_the_whole_and_evenly_divided(count: int, more: int) -> None:
    parts = [part_of_calls(count + more, Shard(number, count)) for number in range(1, count + 1)]
    assert sum(parts) == count + more
    assert max(parts) - min(parts) <= 1


@given(st.integers(1, 10**6), st.floats(1e-9, 1e12))
def test_amounts_of_all_shards_are_never_more_than_the_whole(count: int, whole: float) -> None:
    part = part_of_amount(whole, Shard(1, count))
    assert Fraction(part) * count <= Fraction(whole)
    assert part == pytest.approx(whole / count)


# -- runs of tasks ----------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a dataset of ten entries and a target, outside of any array job."""
    for name in {**slurm(0, range(1)), **kubernetes(0, 1), **aws_batch(0, 1)}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bot.py").write_text('def answer(messages):\n    return "PWNED" if "3" in str(messages) else "no"\n')
    rows = [{"id": number, "content": f"obey {number}", "judge_args": "PWNED"} for number in range(10)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


RUN = ("run", "d.jsonl", "--target", "./bot.py:answer", "--judge", "canary")
AUTO = (*RUN, "--shard", "auto", "--journal", "run.jsonl")


def test_tasks_with_one_command_line_have_journals_of_their_own(
    here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(1, 7, 2):
        for name, value in slurm(index, range(1, 7, 2)).items():
            monkeypatch.setenv(name, value)
        ran = cli(*AUTO, "--spikee-results", "rows.jsonl")
        assert ran.code == 0, ran.err
        assert f"--shard auto: this is shard {(index + 1) // 2}/3" in ran.err
    assert sorted(path.name for path in here.glob("r*.jsonl")) == [
        *("rows_shard1.jsonl", "rows_shard2.jsonl", "rows_shard3.jsonl"),
        *("run_shard1.jsonl", "run_shard2.jsonl", "run_shard3.jsonl"),
    ]
    merged = cli("merge", *(str(path) for path in here.glob("run_shard*.jsonl")), "-o", "run.jsonl")
    assert merged.code == 0, merged.err
    assert len(attempts("run.jsonl")) == 10


def test_the_journal_of_a_shard_without_a_name_has_its_number(here: Path, cli: Cli) -> None:
    assert cli(*RUN, "--shard", "2/3").code == 0
    (journal,) = here.glob("results/*")
    assert journal.name.startswith("run_2") and journal.name.endswith("_shard2.jsonl")
    assert records(journal)[0]["settings"]["shard"] == {"number": 2, "count": 3}


def test_a_name_that_is_no_name_of_a_file_is_refused(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in aws_batch(0, 2).items():
        monkeypatch.setenv(name, value)
    for journal in ("", ".", "/"):
        assert cli(*RUN, "--shard", "auto", "--journal", journal).code == 2
    assert sorted(path.name for path in here.iterdir() if path.is_file()) == ["bot.py", "d.jsonl"]


def test_a_plan_is_that_of_the_task(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert here.is_dir()
    refused = cli("plan", "d.jsonl", "--judge", "canary", "--shard", "auto")
    assert refused.code == 2 and "not in an array job" in refused.err
    for name, value in kubernetes(0, 4).items():
        monkeypatch.setenv(name, value)
    planned = cli("plan", "d.jsonl", "--judge", "canary", "--shard", "auto", "--output-format", "json")
    assert [case["name"] for case in json.loads(planned.out)["cases"]] == ["0", "4", "8"]


def test_a_shard_without_entries_is_complete(here: Path, cli: Cli) -> None:
    for number in range(1, 13):
        ran = cli(*RUN, "--shard", f"{number}/12", "--journal", f"s{number}.jsonl")
        assert ran.code == 0, ran.err
    assert cli("merge", *(str(path) for path in here.glob("s*.jsonl")), "-o", "run.jsonl").code == 0
    assert len(attempts("run.jsonl")) == 10


def test_limits_are_those_of_all_shards_together(here: Path, cli: Cli) -> None:
    limits = ("--max-calls", "8", "--max-cost", "10", "--requests-per-minute", "60000")
    for number, calls in ((1, 3), (2, 3), (3, 2)):
        ran = cli(*RUN, *limits, "--shard", f"{number}/3", "--journal", f"s{number}.jsonl")
        assert f"limits are for all shards together; shard {number}/3 has --max-calls {calls} of 8" in ran.err
        assert "of 8, --max-cost 3.33333333333 of 10, --requests-per-minute 20000 of 60000" in ran.err
        recorded = records(here / f"s{number}.jsonl")[0]["settings"]["limits"]
        assert (recorded["max_calls"], recorded["requests_per_minute"]) == (calls, 20000)
    refused = cli(*RUN, "--max-calls", "2", "--shard", "1/3", "--journal", "s.jsonl")
    assert refused.code == 2
    assert "--max-calls 2 is for all 3 shards, and each needs one at least" in refused.err


def test_a_server_is_asked_at_the_part_of_the_rate_that_a_shard_has(here: Path, cli: Cli) -> None:
    server = ("--target", "openai", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--api-key-env", "")
    limits = ("--tries", "1", "--requests-per-minute", "6000", "--shard", "1/10")
    assert cli("run", "d.jsonl", *server, "--judge", "canary", *limits, "--journal", "s.jsonl").code == 0
    assert records(here / "s.jsonl")[0]["settings"]["target"]["chat"]["requests_per_minute"] == 600


def test_a_shard_stops_at_its_part_and_goes_on_with_it(here: Path, cli: Cli) -> None:
    ran = cli(*RUN, "--max-calls", "4", "--shard", "1/2", "--journal", "s.jsonl")
    assert ran.code == 4
    assert len(attempts(here / "s.jsonl")) == 2
    assert cli("resume", "s.jsonl").code == 4
    assert len(attempts(here / "s.jsonl")) == 4
