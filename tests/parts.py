"""Analyses folded in one ledger and in parts, with options and files drawn by a seed: what the tests of parts share."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import faircount.analysis.analyze as analysis
from faircount import AnalyzeOptions, analyze
from faircount.core import FaircountError
from faircount.readers import pieces_of
from tests.conftest import ROOT, encode
from tests.runs.run_files import HEADER, attempt, case, entry, report, unanswered
from tests.spread import spread

_fold_in_parts: Any = analysis._fold_in_parts


class Dividing:
    """Whether analyses are folded in parts, and in how many."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.folds = 0
        """How often anything was folded in parts."""
        # Files of a few rows are not folded together, so that each can be folded in parts.
        patch.setattr("faircount.readers.loading.TOGETHER_BELOW_BYTES", 0)

    def into(self, parts: int) -> None:
        """Fold in so many parts from now on; 0 is one ledger."""
        self.folds = 0

        def fold(*given: Any) -> Any:
            self.folds += 1
            return _fold_in_parts(*given[:-1], parts)

        self._patch.setattr(analysis, "parts_for", lambda _: 2 if parts else 1)
        self._patch.setattr(analysis, "_fold_in_parts", fold)

    def read_in_ranges(self, range_bytes: int) -> None:
        """Read all plain files in ranges of so many bytes, here."""
        for module in ("loading", "pieces"):
            self._patch.setattr(f"faircount.readers.{module}.RANGE_BYTES", range_bytes)
        self._patch.setattr("faircount.readers.loading.PARALLEL_FROM_BYTES", 1)
        self._patch.setattr(analysis, "pieces_of", partial(pieces_of, piece_bytes=3 * range_bytes))


def document(files: Sequence[str], options: Mapping[str, Any]) -> bytes:
    """Return all that an analysis says, as bytes, or why there is none."""
    try:
        found = analyze(*files, options=AnalyzeOptions(cache=False, **options))
    except FaircountError as error:
        return f"{type(error).__name__}: {error}".encode()
    return msgspec.json.encode([found.analyses, found.evidence, found.failures])


SPIKEE_FIELDS = ("lang", "plugin", "attack", "document", "jailbreak_type", "instruction_type", "position")


def drawn_options(draw: random.Random, files: Sequence[str], fields: Sequence[str]) -> dict[str, Any]:
    """Return options that can be had together, for files whose rows may have some fields."""
    found: dict[str, Any] = {
        "combine": len(files) > 2 or draw.random() < 0.7,
        "cluster": draw.choice(["auto", "auto", "none", *fields[:3]]),
        "min_n": draw.choice([1, 1, 5]),
        "sort": draw.choice(["rate", "total", "name", "shrunk"]),
        "level": draw.choice([0.95, 0.8]),
        "figures": draw.random() < 0.5,
        "details": draw.random() < 0.9,
        "policy_blocks": draw.random() < 0.8,
        "by": tuple(draw.sample(fields, draw.choice([0, 1, 2]))) if fields else (),
        "definition": draw.choice(["faircount", "faircount", "faircount", "spikee"]) if fields else "faircount",
    }
    if draw.random() < 0.5:
        kinds = draw.sample(["", "successes", "failures", "errors", "blocks"], 2)
        found["evidence"] = tuple((kind, draw.choice([1, 3, 20])) for kind in kinds)
    if fields and draw.random() < 0.3:
        queries = ["lang = en", "success = true", "response_time > 0.5", "lang = de or plugin = base64", "line < 90"]
        found["where"] = draw.choice(queries)
    if fields and draw.random() < 0.2:
        found["generalise"] = draw.choice(["attacks", "lang", "jailbreak_type"])
    if found["definition"] == "faircount" and draw.random() < 0.2:
        found["guardrail_success"] = "detected"
    return found


def made_files(folder: Path, draw: random.Random) -> tuple[list[str], Sequence[str]]:
    """Return some files of our own, and fields of their rows: result files, run journals or reports of test runs."""
    kind = draw.choice(["results", "results", "journals", "tests"])
    if kind == "journals":
        journals = sorted((ROOT / "tests" / "data" / "journals").glob("*s.jsonl"))
        return [str(draw.choice([path for path in journals if path.stem != "entries"]))], ()
    if kind == "results":
        paths = spread(folder, draw.choice([10, 60]), draw.randrange(10**6))
        return draw.sample(paths, draw.choice([1, 2, 4, len(paths)])), (*SPIKEE_FIELDS, "team")
    journal, written = folder / "run.jsonl", folder / "report.json"
    journal.write_bytes(encode(tests_journal(draw)))
    written.write_bytes(tests_report(draw))
    return draw.choice([[str(journal)], [str(written)], [str(journal), str(written)]]), ()


def tests_journal(draw: random.Random) -> list[dict[str, Any]]:
    """Return the journal of a run of tests, some of them flaky, some without an answer."""
    records = [HEADER]
    for number in range(draw.choice([1, 40])):
        name, tries = f"case {number}", draw.choice([1, 3])
        records.append(case(name, count=tries, tags=[f"suite{number % 3}"], strategy=draw.choice(["mean", "majority"])))
        for nth in range(tries):
            lost = draw.random() < 0.2
            records.append(unanswered(name, nth) if lost else attempt(name, nth, draw.choice("ppfe")))
    return records


def tests_report(draw: random.Random) -> bytes:
    """Return the report of a run of tests."""
    verdicts = [draw.choice(["p", "f", "e", "pf", "ppf"]) for _ in range(30)]
    words = {"p": "passed", "f": "failed", "e": "error"}
    return report(
        *(
            entry(f"case {number}", [f"answer {number}"] * len(said), said, words[said[0]], tags=[f"suite{number % 3}"])
            for number, said in enumerate(verdicts)
        )
    )


def shared_files(shared: Path, draw: random.Random) -> tuple[list[str], Sequence[str]]:
    """Return some files of one tool among the shared ones, and fields of their rows."""
    golden = shared / "golden"
    spikee, inspect = golden / "spikee" / "ws" / "results", golden / "inspect"
    of_spikee = [
        [*spikee.glob("results_*.jsonl"), *spikee.glob("three/*.jsonl")],
        [*spikee.glob("edge/*.jsonl"), *(shared / "hostile").glob("*.jsonl")],
        [*(golden / "spikee" / "out").rglob("files/results/*.jsonl"), *spikee.glob("results_h_guard*.jsonl")],
        list((shared / "data" / "spikee-v0.1").glob("*.jsonl")),
    ]
    of_others = [
        list((golden / "garak" / "reports").rglob("*.report.jsonl")),
        list((golden / "rebel").rglob("*.json")),
        [*inspect.glob("attack*.eval"), *inspect.glob("mail*.eval"), *inspect.glob("attack*.json")],
        [*inspect.glob("sums*.eval"), *inspect.glob("old*.eval"), *inspect.glob("old*.json")],
        list((golden / "promptfoo").glob("redteam.json*")),
        list((golden / "promptfoo").glob("eval.json*")),
        list((golden / "tables").glob("results*.*")),
        list((golden / "pyrit").glob("memory*.db")),
        list((golden / "harmbench").glob("*.json")),
    ]
    is_spikee = draw.random() < 0.6
    pool = sorted(draw.choice(of_spikee if is_spikee else of_others))
    files = [str(path) for path in draw.sample(pool, min(draw.choice([1, 2, 2, 4, 8]), len(pool)))]
    return files, SPIKEE_FIELDS if is_spikee else ()
