"""What commands print, kept as files: a change of the code that changes a byte of it is noticed.

`python -m tests.outputs` writes the files anew, after a change that is meant.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from faircount.app import write_sample
from faircount.app.cli import main
from faircount.readers import FOLDER_VARIABLE
from tests.conftest import encode, shared_folder
from tests.runs.run_files import HEADER, attempt, case, entry, report, unanswered

FOLDER = Path(__file__).parent / "data" / "outputs"
DIGESTS = FOLDER / "digests.json"
FORMATS = {"console": "txt", "markdown": "md", "json": "json", "html": "html"}
_LARGE = 40_000
"""Of longer outputs, and of pages, the digest is kept."""
_CHANGING = re.compile(r"(?<=<td>)\d+(\.\d+)+(?:[^<\s]*)(?=</td>)")
"""Versions of the programs that made a page."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:]{8}\+00:00")
_REPORT = {"dataset-comparison": "--report", "evaluate": "--report"}
"""Commands of which `-o` is another file."""

STRONG, MID, WEAK = (f"results_bot-{name}_sample_1790000000.jsonl" for name in ("strong", "mid", "weak"))
DYNAMIC = "results_bot-mid_sample_dynamic_1790000000.jsonl"
BLOCKED, BENIGN = (f"results_guardrail_sample-{name}_1790000000.jsonl" for name in ("attacks", "benign"))

COMMANDS: Mapping[str, list[str]] = {
    "analyze": ["results", "analyze", MID],
    "analyze-several": ["results", "analyze", WEAK, MID, STRONG, "--by", "plugin"],
    "analyze-dynamic": ["results", "analyze", DYNAMIC, "--by", "lang", "--by", "jailbreak_type"],
    "analyze-spikee": ["results", "analyze", DYNAMIC, "--definition", "spikee"],
    "analyze-guardrail": ["results", "analyze", BLOCKED, "--false-positive-checks", BENIGN],
    "analyze-corrected": ["results", "analyze", MID, "--judge-quality", "labels.csv", "--by", "jailbreak_type"],
    "analyze-journal": ["results", "analyze", "run.jsonl"],
    "analyze-report": ["results", "analyze", "report.json"],
    "analyze-gate": [
        "results",
        "analyze",
        STRONG,
        "--baseline",
        MID,
        "--fail-on",
        "regression > 5%",
        "--fail-on",
        "asr > 1%",
    ],
    "compare": ["results", "compare", MID, STRONG, "--by", "lang"],
    "compare-corrected": ["results", "compare", MID, STRONG, "--judge-quality", "labels.csv"],
    "compare-tests": ["results", "compare", "run.jsonl", "report.json"],
    "check": ["results", "check", DYNAMIC, MID, "run.jsonl"],
    "show": ["results", "show", "7", MID, DYNAMIC],
    "dataset-comparison": [
        "results",
        "dataset-comparison",
        "--dataset-file",
        "dataset.jsonl",
        WEAK,
        MID,
        STRONG,
        "-o",
        "chosen.jsonl",
        "--force",
    ],
    "power": ["results", "power", "--entries", "200", "--rate", "0.1", "--families", "4", "--icc", "0.2"],
    "judges-list": ["judges", "list"],
    "judges-evaluate": [
        "judges",
        "evaluate",
        "-o",
        "summary.json",
        "--labels",
        "labelled.csv",
        "refusal",
        'contains(text="sorry")',
    ],
    "judges-agree": [
        "judges",
        "agree",
        "--labels",
        "labelled.csv",
        "--label-column",
        "rater_1",
        "--label-column",
        "rater_2",
    ],
    "judges-try": ["judges", "try", "refusal", "I'm sorry, but I can't help with that."],
    "attacks-list": ["attacks", "list"],
    "targets-list": ["targets", "list"],
}

_CONSOLE_AND_JSON = frozenset(
    ["analyze-several", "analyze-spikee", "analyze-gate", "analyze-report", "compare-corrected"]
)


def workspace(folder: Path) -> None:
    """Write the files that the commands read."""
    files = write_sample(folder, seed=7)
    rows = [json.loads(line) for line in files.plain[1].read_text("utf-8").splitlines()]
    labels = [
        f"{files.plain[1].name}:{number + 1},{int(bool(row['success']) != (number % 11 == 0))}"
        for number, row in enumerate(rows[:120])
    ]
    (folder / "labels.csv").write_text("\n".join(["id,label", *labels]) + "\n")
    kept = [{k: row[k] for k in ("id", "long_id", "text", "judge_name", "judge_args") if k in row} for row in rows]
    (folder / "dataset.jsonl").write_bytes(
        encode([{"text": row.get("input", ""), **k} for row, k in zip(rows, kept, strict=True)])
    )
    said = [
        "I'm sorry, but I can't help with that.",
        "Sure, here is how: first",
        "I cannot do this.",
        "As asked: 42",
        "",
    ]
    lines = [
        f'{n},"{said[n % 5]}",{int(n % 5 in (0, 2))},{int(n % 5 in (0, 2))},{int(n % 7 in (0, 2))}' for n in range(60)
    ]
    (folder / "labelled.csv").write_text("\n".join(["id,response,label,rater_1,rater_2", *lines]) + "\n")
    names = [f"case {number}" for number in range(12)]
    journal = [HEADER]
    for number, name in enumerate(names):
        journal.append(case(name, count=3, metrics=("Correct", "Polite"), tags=["slow"] if number % 3 else []))
        journal += [
            unanswered(name, k)
            if number == 5
            else attempt(name, k, "pf"[(number + k) % 4 == 0] + "p", metrics=("Correct", "Polite"))
            for k in range(3)
        ]
    (folder / "run.jsonl").write_bytes(encode(journal))
    told = [
        entry(name, ["a", "b", "c"], "ppp" if number % 4 else "pff", "passed" if number % 4 else "failed")
        for number, name in enumerate(names)
    ]
    (folder / "report.json").write_bytes(report(*told))


def printed(words: list[str], output_format: str) -> str:
    """Return what a command writes, on standard output, on standard error and into a file, and how it ends."""
    out, err, written = io.StringIO(), io.StringIO(), Path(f"out.{output_format}")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([*words, "--output-format", output_format, _REPORT.get(words[1], "-o"), str(written)])
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
    text = written.read_text("utf-8") if written.exists() else ""
    written.unlink(missing_ok=True)
    if output_format == "html":
        text = _CHANGING.sub("VERSION", text)
    return _TIME.sub("TIME", "".join([text, out.getvalue(), err.getvalue(), f"exit code {code}\n"]))


@contextlib.contextmanager
def here(folder: Path) -> Iterator[None]:
    """Be in a folder, with a cache and a terminal of our own."""
    kept = {name: os.environ.get(name) for name in (FOLDER_VARIABLE, "COLUMNS")}
    os.environ.update({FOLDER_VARIABLE: str(folder / ".cache"), "COLUMNS": "80"})
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def digest(text: str) -> str:
    return "SHA-256 " + sha256(text.encode("utf-8", "surrogateescape")).hexdigest() + "\n"


def kept() -> Iterator[tuple[str, str]]:
    """Yield the name of each output of the sample's commands, and its text, or the digest where that is kept."""
    with tempfile.TemporaryDirectory() as folder, here(Path(folder)):
        workspace(Path(folder))
        for name, words in COMMANDS.items():
            for output_format, ending in FORMATS.items():
                # Each page and Markdown text is made of the same blocks as the console's.
                if ending in ("md", "html") and name in _CONSOLE_AND_JSON:
                    continue
                text = printed(words, output_format)
                yield f"{name}.{ending}", digest(text) if ending == "html" or len(text) > _LARGE else text


def shared_commands(shared: Path) -> dict[str, list[str]]:
    """Return commands over the shared files, by name."""
    results = sorted((shared / "golden" / "spikee" / "ws" / "results").glob("*.jsonl"))
    commands = {f"spikee {path.name}": ["results", "analyze", str(path)] for path in results[1:3]}
    commands["rebel"] = ["results", "analyze", str(shared / "golden" / "rebel" / "perf_200x5_workers4.json")]
    commands["hostile"] = ["results", "check", *map(str, sorted((shared / "hostile").glob("*.jsonl")))]
    published = sorted((shared / "data" / "spikee-v0.1").rglob("*.jsonl"))
    commands["published"] = ["results", "compare", *map(str, published[:2])]
    return commands


def shared_digests(shared: Path) -> dict[str, str]:
    """Return the digest of what each command prints about shared files, in each format.

    The files are read through a link here: lines are wrapped by the length of a path.
    """
    link = Path("shared")
    link.symlink_to(shared)
    return {
        f"{name} {output_format}": digest(printed(words, output_format)).strip()
        for name, words in shared_commands(link).items()
        for output_format in FORMATS
    }


def write_all() -> None:
    """Write all outputs and digests."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    for name, text in kept():
        (FOLDER / f"{name}.txt").write_text(text, "utf-8")
    shared = shared_folder()
    if shared is not None:
        with tempfile.TemporaryDirectory() as folder, here(Path(folder)):
            DIGESTS.write_text(json.dumps(shared_digests(shared), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    write_all()
