"""What analysing large files of other tools takes, beside the tools themselves where they are installed.

Run: .venv/bin/python -m bench.readers --size 100

    FAIRCOUNT_INSPECT    an interpreter that has inspect_ai; it opens the log with read_eval_log
    FAIRCOUNT_PROMPTFOO  the promptfoo command; it imports the file, as its viewer needs
    FAIRCOUNT_GARAK      an interpreter that has garak; it makes the digest of the report

Ratios are of wall time in the same run. Files are made here, in the form that each tool writes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.analyze import machine
from bench.garak import attempts
from bench.measure import in_turns

_WORDS = ("lorem", "ipsum", "dolor", "sit", "amet", "consectetur", "adipiscing", "elit", "sed", "do", "eiusmod")
_OPEN_LOG = "import sys; from inspect_ai.log import read_eval_log; read_eval_log(sys.argv[1])"
_DIGEST = "import sys; from garak.analyze.report_digest import build_digest; build_digest(sys.argv[1])"
_HEAD = """\
| file | MiB | by | wall s | CPU s | memory MiB | times faster |
|---|---|---|---|---|---|---|"""


def _text(drawn: random.Random, words: int) -> str:
    return " ".join(drawn.choices(_WORDS, k=words)) + f" {drawn.random()}"


# -- inspect ----------------------------------------------------------------------------------------------------


def _sample(number: int, drawn: random.Random) -> dict[str, Any]:
    asked, answer = _text(drawn, 60), _text(drawn, 120)
    messages = [{"role": "user", "content": asked, "id": "q"}, {"role": "assistant", "content": answer, "id": "a"}]
    call = {"event": "model", "model": "bench/model", "input": messages[:1], "output": {"completion": answer}}
    call |= {"tools": [], "tool_choice": "auto", "config": {}}
    score = {"value": drawn.choice("CI"), "answer": answer, "explanation": _text(drawn, 20), "history": []}
    return {
        "id": f"q{number}",
        "epoch": 1,
        "input": asked,
        "target": "x",
        "messages": messages,
        "output": {
            "model": "bench/model",
            "choices": [{"message": messages[1], "stop_reason": "stop"}],
            "completion": answer,
        },
        "scores": {"match": score},
        "metadata": {"topic": f"topic {number % 20}"},
        "store": {},
        "events": [{**call, "timestamp": "2026-01-01T00:00:00+00:00", "uuid": str(one)} for one in range(6)],
        "model_usage": {"bench/model": {"input_tokens": 60, "output_tokens": 120, "total_tokens": 180}},
        "total_time": 0.5,
        "working_time": 0.4,
        "uuid": f"u{number}",
        "error_retries": [],
        "attachments": {},
    }


def _log(count: int) -> dict[str, Any]:
    metrics = {"accuracy": {"name": "accuracy", "value": 0.5, "params": {}, "metadata": {}}}
    scorer = {"name": "match", "scorer": "match", "params": {}, "metrics": metrics, "scored_samples": count}
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": "e",
            "run_id": "r",
            "created": "2026-01-01T00:00:00+00:00",
            "task": "bench",
            "task_id": "t",
            "task_version": 0,
            "task_file": None,
            "task_attribs": {},
            "task_args": {},
            "dataset": {"name": "bench", "samples": count, "sample_ids": [], "shuffled": False},
            "model": "bench/model",
            "model_args": {},
            "config": {"epochs": 1},
            "packages": {"inspect_ai": "0.3.285"},
            "scorers": [{"name": "match", "metrics": [{"name": "accuracy"}]}],
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {"total_samples": count, "completed_samples": count, "scores": [scorer]},
        "stats": {"started_at": "2026-01-01T00:00:00+00:00", "completed_at": "2026-01-01T01:00:00+00:00"},
    }


def write_log(path: Path, size: int) -> None:
    """Write a log of about so many bytes of samples: a zip archive, or one document if it is called .json."""
    drawn = random.Random(1)
    count = size // len(json.dumps(_sample(0, drawn)))
    header = _log(count)
    if path.suffix == ".json":
        with path.open("w", encoding="utf-8") as file:
            file.write(json.dumps(header)[:-1] + ', "samples": [')
            for number in range(count):
                file.write(("," if number else "") + json.dumps(_sample(number, drawn)))
            file.write("]}")
        return
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        start = {name: header[name] for name in ("version", "eval", "plan")}
        archive.writestr("_journal/start.json", json.dumps(start))
        summaries = []
        for number in range(count):
            sample = _sample(number, drawn)
            archive.writestr(f"samples/q{number}_epoch_1.json", json.dumps(sample))
            kept = ("id", "epoch", "input", "target", "metadata", "scores", "total_time", "working_time", "uuid")
            summaries.append({**{name: sample[name] for name in kept}, "completed": True, "retries": 0})
        archive.writestr("summaries.json", json.dumps(summaries))
        archive.writestr("reductions.json", "[]")
        archive.writestr("header.json", json.dumps(header))


# -- promptfoo --------------------------------------------------------------------------------------------------


def _row(number: int, drawn: random.Random) -> dict[str, Any]:
    asked, answer, passed = _text(drawn, 60), _text(drawn, 120), drawn.random() < 0.5
    graded = {"pass": passed, "score": float(passed), "reason": _text(drawn, 20)}
    assertion = {"type": "llm-rubric", "value": "is polite"}
    return {
        "cost": 0,
        "gradingResult": {**graded, "componentResults": [{**graded, "assertion": assertion}], "namedScores": {}},
        "id": f"r{number}",
        "latencyMs": 12,
        "namedScores": {},
        "prompt": {"raw": asked, "label": "plain"},
        "promptId": "p",
        "promptIdx": 0,
        "provider": {"id": "bench", "label": "bench-bot"},
        "response": {"output": answer, "tokenUsage": {"total": 180}, "cached": False},
        "score": float(passed),
        "success": passed,
        "testCase": {
            "description": f"case {number}",
            "vars": {"q": asked},
            "assert": [assertion],
            "metadata": {},
            "options": {},
        },
        "testIdx": number,
        "vars": {"q": asked},
        "metadata": {},
        "failureReason": int(not passed),
    }


def write_eval(path: Path, size: int) -> None:
    """Write a promptfoo document of about so many bytes."""
    drawn = random.Random(1)
    count = size // len(json.dumps(_row(0, drawn)))
    head = {"version": 3, "timestamp": "2026-01-01T00:00:00.000Z", "prompts": [{"provider": "bench-bot", "label": "x"}]}
    head["prompts"][0] |= {"raw": "{{q}}", "id": "p", "metrics": {"score": 0}}  # type: ignore[index]
    with path.open("w", encoding="utf-8") as file:
        file.write('{"evalId": "eval-bench", "results": ' + json.dumps(head)[:-1] + ', "results": [')
        for number in range(count):
            file.write(("," if number else "") + json.dumps(_row(number, drawn)))
        stats = {"successes": count // 2, "failures": count - count // 2, "errors": 0, "tokenUsage": {}}
        file.write('], "stats": ' + json.dumps(stats) + '}, "config": {"description": "bench"}, "shareableUrl": null, ')
        file.write('"metadata": {"promptfooVersion": "0.121.20", "evaluationCreatedAt": "2026-01-01T00:00:00.000Z"}}')


def write_report(path: Path, size: int) -> None:
    """Write a garak report of about so many bytes."""
    one = sum(len(json.dumps(line)) + 1 for line in attempts(100)) / 100
    with path.open("w", encoding="ascii") as file:
        file.writelines(json.dumps(line) + "\n" for line in attempts(int(size / one)))


# -- measuring --------------------------------------------------------------------------------------------------


def _theirs(name: str, *words: str) -> Sequence[str] | None:
    command = os.environ.get(f"FAIRCOUNT_{name}")
    return None if command is None else [*command.split(), *words]


def _files(folder: Path, size: int) -> Iterator[tuple[Path, str, Sequence[str] | None]]:
    """Yield each file, what opens it, and the command for that, if it is known."""
    for name in ("inspect.eval", "inspect.json"):
        path = folder / name
        write_log(path, size * (4 if path.suffix == ".eval" else 1))
        yield path, "inspect: read_eval_log", _theirs("INSPECT", "-c", _OPEN_LOG, str(path))
    path = folder / "promptfoo.json"
    write_eval(path, size)
    yield path, "promptfoo import", _theirs("PROMPTFOO", "import", str(path), "--force")
    path = folder / "garak.report.jsonl"
    write_report(path, size)
    yield path, "garak: digest", _theirs("GARAK", "-c", _DIGEST, str(path))


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100, help="size of each file in MiB, about")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{machine()}, best of {arguments.rounds} in turns")
    print(_HEAD)
    with tempfile.TemporaryDirectory() as name:
        for path, what, theirs in _files(Path(name), arguments.size * 2**20):
            commands = {"Faircount": [sys.executable, "-m", "faircount", "results", "analyze", str(path), "--no-cache"]}
            if theirs is not None:
                commands[what] = list(theirs)
            found = in_turns(commands, Path(name), arguments.rounds)
            size = path.stat().st_size / 2**20
            for by, took in found.items():
                times = f"{found[what].wall / took.wall:.1f}" if by == "Faircount" and what in found else ""
                measured = f"{took.wall:.2f} | {took.cpu:.2f} | {took.memory_mib:.0f}"
                print(f"| {path.name} | {size:.0f} | {by} | {measured} | {times} |", flush=True)
            path.unlink()


if __name__ == "__main__":
    main()
