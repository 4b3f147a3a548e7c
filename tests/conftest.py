"""What the tests share: a way to write result files, to run the command line, and to find the shared material."""

from __future__ import annotations

import gc
import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, settings

from faircount import Analysis, AnalyzeOptions, Report, analyze, as_report
from faircount.app.cli import main
from faircount.core import Examples
from faircount.readers import FOLDER_VARIABLE

ROOT = Path(__file__).parent.parent

# These machines are noisy: how long an example takes says nothing about the code.
settings.register_profile("faircount", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("faircount")


def shared_folder() -> Path | None:
    """Return the folder with golden, hostile and published files, or None where it is absent."""
    folder = Path(os.environ.get("FAIRCOUNT_SHARED", ROOT.parent / "shared"))
    return folder if folder.is_dir() else None


def pytest_collection_finish() -> None:
    """Spare the garbage collector the thousands of tests, and look for garbage as seldom as the program does."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000)


@pytest.fixture(scope="session", autouse=True)
def _cache_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's cache out of the tests, and the tests out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(tmp_path_factory.mktemp("cache")))
        # How wide the terminal is in which the tests run says nothing about a report.
        patch.delenv("COLUMNS", raising=False)
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared material; tests that need it are skipped where it is absent."""
    folder = shared_folder()
    if folder is None:
        pytest.skip("the shared files are not here (FAIRCOUNT_SHARED or ../shared)")
    return folder


def row(number: int | str = 1, **values: Any) -> dict[str, Any]:
    """Return a small row in spikee's format."""
    return {"id": number, "success": False, "input": f"prompt {number}", "response": "no", "attempts": 1, **values}


def standard(number: int | str = 1, **values: Any) -> dict[str, Any]:
    """Return a standard row as spikee writes it since 0.2."""
    return row(number, **{"attack_name": "None", "error": None, **values})


def attack(number: int | str = 1, name: str = "goat", **values: Any) -> dict[str, Any]:
    """Return a dynamic-attack row of an entry."""
    return row(f"{number}-attack", **{"input": "variant", "attack_name": name, "error": None, **values})


T = TypeVar("T")


def some(items: Iterable[T]) -> list[T]:
    """Return what a test goes through: without anything there, it would check nothing."""
    found = list(items)
    assert found
    return found


Lines = Iterable[dict[str, Any] | str | bytes]


def encode(lines: Lines) -> bytes:
    """Return JSONL: objects are encoded, texts and bytes stand as they are."""
    encoded = []
    for line in lines:
        text = json.dumps(line) if isinstance(line, dict) else line
        encoded.append(text.encode() if isinstance(text, str) else text)
    return b"".join(line + b"\n" for line in encoded)


Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write lines into a file of the test's own folder and return its path."""

    def write_file(lines: Lines, name: str = "results_x.jsonl") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(lines))
        return str(path)

    return write_file


def analysis_of(*paths: str, **options: Any) -> Analysis:
    """Return the only analysis of the given files."""
    (analysis,) = analyze(*paths, options=AnalyzeOptions(**options)).analyses
    return analysis


def examples_of(*paths: str, **options: Any) -> tuple[Examples, ...]:
    """Return the entries with texts that the only analysis of the given files has beside it."""
    (found,) = analyze(*paths, options=AnalyzeOptions(**options)).evidence.values()
    return found


def report_of(*paths: str, figures: bool = False, overview: bool = False, **options: Any) -> Report:
    """Return the report of the given files, with the texts of entries."""
    result = analyze(*paths, options=AnalyzeOptions(figures=figures, overview=overview, **options))
    return as_report(result.analyses, evidence=result.evidence, figures=figures, overview=overview)


def document_of(result: msgspec.Struct) -> dict[str, Any]:
    """Return a result as its JSON document has it."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(result))
    return found


def codes(analysis: Analysis) -> dict[str, int]:
    """Return the findings of an analysis as code and count."""
    return {finding.code: finding.count for finding in analysis.findings}


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str


def interruptible() -> None:
    """Give a child process the usual answer to Ctrl-C, which a parent in the background has switched off."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


Cli = Callable[..., Ran]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run the command line in this process."""

    def run(*words: str) -> Ran:
        try:
            code = main(words)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run
