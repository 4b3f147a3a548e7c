"""The guide to runs on many machines: its Slurm script and its Kubernetes job are run as the schedulers would."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Cli, interruptible
from tests.runs.running import attempts, records
from tests.runs.test_shards import slurm

GUIDE = (ROOT / "docs" / "guides" / "many-machines.md").read_text("utf-8")
BOT = """\
import asyncio, os


async def answer(messages):
    await asyncio.sleep(float(os.environ.get("PAUSE", "0")))
    return "PWNED" if int(messages[-1]["content"].split()[-1]) % 7 == 3 else "no"
"""
ENTRIES = 60
TASKS = range(1, 7, 2)


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that script and job name, and the program on the path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bot.py").write_text(BOT)
    rows = [
        {
            "id": number,
            "long_id": f"summarization_doc{number % 5}_{'dan' if number % 2 else 'dev'}_x_start",
            "content": f"obey {number}",
            "judge_args": "PWNED",
            "jailbreak_type": "dan" if number % 2 else "dev",
        }
        for number in range(ENTRIES)
    ]
    (tmp_path / "attacks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "faircount"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m faircount "$@"\n')
    program.chmod(0o755)
    return tmp_path


class Task:
    """A task of an array job: a command in an environment, with a log."""

    def __init__(self, place: Path, command: list[str], **environment: str) -> None:
        self._log = place / f"task-{time.monotonic_ns()}.log"
        usual = {"PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=place,
                stdout=log,
                stderr=log,
                preexec_fn=interruptible,
                env={**os.environ, **usual, **environment},
            )

    def ends(self) -> int:
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait()

    @property
    def said(self) -> str:
        return self._log.read_text("utf-8")


def analysis(cli: Cli, *words: str) -> dict[str, Any]:
    """Return the analysis of a run without its file, and without how long answers took."""
    ran = cli("results", "analyze", *words, "--output-format", "json", "--no-cache")
    assert ran.code == 0, ran.err
    (found,) = json.loads(ran.out)["analyses"]
    del found["name"], found["sources"]
    for latency in found["latency"]:
        del latency["median"], latency["p95"]
    return dict(found)


# -- Slurm ------------------------------------------------------------------------------------------------------


def test_the_script_is_a_slurm_array_in_the_language_of_bash(place: Path) -> None:
    script = block("bash")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True, cwd=place)
    first, *lines = script.splitlines()
    directives = [line for line in lines if line.startswith("#")]
    assert first == "#!/bin/bash"
    assert all(re.fullmatch(r"#SBATCH --[a-z-]+(=[\w:%-]+)?", line) for line in directives)
    assert lines[: len(directives)] == directives, "Slurm reads none after the first command"
    assert re.search(r"^#SBATCH --array=\d+-\d+%\d+$", script, re.MULTILINE)


def test_a_slurm_array_of_which_a_task_was_killed_comes_to_what_one_machine_gives(place: Path, cli: Cli) -> None:
    (place / "job.sh").write_text(block("bash"))

    def task(index: int, **environment: str) -> Task:
        return Task(place, ["bash", "job.sh"], **slurm(index, TASKS), **environment)

    journals = [f"results/injections_shard{number}.jsonl" for number in (1, 2, 3)]
    first, victim, last = task(TASKS[0]), task(TASKS[1], PAUSE="0.2"), task(TASKS[2])
    until = time.monotonic() + 30
    while not (Path(journals[1]).exists() and b'"kind":"done"' in Path(journals[1]).read_bytes()):
        assert victim.process.poll() is None and time.monotonic() < until, victim.said
        time.sleep(0.005)
    victim.process.send_signal(signal.SIGKILL)
    assert victim.ends() == -signal.SIGKILL, "the script hands its process over, so that signals reach the run"
    assert (first.ends(), last.ends()) == (0, 0), first.said + last.said
    assert "shard 3/3 has --max-calls 66666 of 200000, --requests-per-minute 1600 of 4800" in last.said

    checked = cli("merge", *journals, "--check")
    assert checked.code == 4, checked.err
    assert re.search(r"^shard 2/3: \d+ of 20 entries left", checked.out, re.MULTILINE)
    assert checked.out.count("complete, 20 entries") == 2
    assert cli("merge", *journals, "-o", "whole.jsonl").code == 3

    again = [task(index) for index in TASKS]  # blindly: the whole array
    assert [one.ends() for one in again] == [0, 0, 0], [one.said for one in again]
    assert "the run is complete; nothing to do" in again[0].said
    checked = cli("merge", *journals, "--check")
    assert checked.code == 0, checked.err
    assert f"complete: 3 shards ({ENTRIES} entries, {ENTRIES} attempts) of one run" in checked.err
    assert cli("merge", *journals, "-o", "whole.jsonl").code == 0
    assert attempts("whole.jsonl").keys() == {(str(number), 0) for number in range(ENTRIES)}

    run = ("run", "attacks.jsonl", "--target", "./bot.py:answer", "--judge", "canary", "--journal", "one.jsonl")
    assert cli(*run).code == 0
    one = analysis(cli, "one.jsonl")
    assert analysis(cli, "whole.jsonl") == one
    assert analysis(cli, *journals, "--combine")["rates"] == one["rates"]


# -- Kubernetes -------------------------------------------------------------------------------------------------


def manifest() -> dict[str, Any]:
    """Read the job: blocks of keys and lists, lists in brackets, and nothing else of what YAML has."""
    text = re.sub(r"(^|\s)#.*$", "", block("yaml"), flags=re.MULTILINE)
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines() if line.strip()]
    found = _node(lines)
    assert not lines and isinstance(found, dict)
    return found


def _node(lines: list[tuple[int, str]]) -> Any:
    """Take a block of lines that are indented alike, with what is indented under them."""
    depth, first = lines[0]
    if first.startswith("- "):
        items = []
        while lines and lines[0][0] == depth and lines[0][1].startswith("- "):
            lines[0] = (depth + 2, lines[0][1].removeprefix("- "))
            items.append(_node(lines))
        return items
    found: dict[str, Any] = {}
    while lines and lines[0][0] == depth:
        key = re.fullmatch(r"(\w+):(?: (.+))?", lines.pop(0)[1])
        assert key is not None and key[1] not in found
        found[key[1]] = _node(lines) if key[2] is None else _value(key[2])
        assert not lines or lines[0][0] <= depth
    return found


def _value(text: str) -> Any:
    if text.startswith("["):
        return [_value(one) for one in text.removeprefix("[").removesuffix("]").split(", ")]
    if re.fullmatch(r'"[^"\\]*"', text):
        return text[1:-1]
    assert re.fullmatch(r"[\w./:-]+", text) and not re.search(r":$|^-$", text), f"not a plain scalar: {text}"
    return int(text) if text.isdigit() else text


def named(items: list[dict[str, Any]]) -> Iterator[str]:
    return (item["name"] for item in items)


def test_the_job_is_an_indexed_job_whose_pods_know_how_many_they_are() -> None:
    job = manifest()
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (job["apiVersion"], job["kind"], spec["completionMode"]) == ("batch/v1", "Job", "Indexed")
    assert spec["parallelism"] < spec["completions"]
    assert pod["restartPolicy"] == "Never", "backoffLimitPerIndex needs it"
    assert {one["name"]: one["value"] for one in container["env"]} == {"JOB_COMPLETIONS": str(spec["completions"])}
    assert set(named(container["volumeMounts"])) == set(named(pod["volumes"]))
    assert container["workingDir"] == container["volumeMounts"][0]["mountPath"]
    assert all(isinstance(word, str) for word in (*container["command"], *container["args"]))


def test_a_pod_of_the_job_runs_its_shard(place: Path) -> None:
    (container,) = manifest()["spec"]["template"]["spec"]["containers"]
    environment = {one["name"]: one["value"] for one in container["env"]}
    pods = [
        Task(place, [*container["command"], *container["args"]], JOB_COMPLETION_INDEX=str(index), **environment)
        for index in (0, 0, 63)
    ]
    assert sorted(pod.ends() for pod in pods) in ([0, 0, 0], [0, 0, 2]), "of two for one index, one runs"
    assert pods[2].process.returncode == 0, pods[2].said
    first = records(place / "results" / "injections_shard1.jsonl")
    assert first[0]["settings"]["shard"] == {"number": 1, "count": 64}
    assert [record["case"] for record in first if record["kind"] == "attempt"] == ["0"]
    assert records(place / "results" / "injections_shard64.jsonl")[-1]["complete"] is True, "60 entries: it has none"
