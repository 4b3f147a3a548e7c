"""`results dataset-comparison` beside real runs of spikee: the same rows by its definition, and known others by ours.

The golden runs are spikee 0.9.2 from PyPI. Where a run's file was not kept, the real spikee is run again. Our own
numbers are counted once more here, from the rows of the files, by a rule that knows nothing of ledgers.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from faircount.analysis import ComparedDataset, DatasetComparisonOptions, compare_dataset
from tests.conftest import ROOT, Cli, shared_folder

SHARED = shared_folder()
GOLDEN = (SHARED or Path("shared")) / "golden" / "spikee"
WORKSPACE = GOLDEN / "ws"
SPIKEE = ROOT / ".venv-peers" / "bin" / "spikee"
GUIDE = ROOT / "docs" / "guides" / "dataset-comparison.md"
NO_LONGER_SPIKEES = "compare_with_dyn_v091"

needs_shared = pytest.mark.skipif(
    SHARED is None, reason="the shared files are not here (FAIRCOUNT_SHARED or ../shared)"
)
needs_spikee = pytest.mark.skipif(not SPIKEE.exists(), reason="spikee is not installed (make peers)")

CHOSEN = {
    "compare_attack_only": (44, 42),
    "compare_default": (6, 9),
    "compare_dup_longid": (24, 7),
    "compare_folder": (159, 159),
    "compare_gt03_n5_tag": (613, 613),
    "compare_gt05": (159, 159),
    "compare_gt1_none": (0, 0),
    "compare_lt02": (199, 199),
    "compare_same_twice": (0, 492),
    "compare_skip_validation": (493, 492),
    "compare_with_dyn": (203, 203),
}
"""How many entries spikee and Faircount choose in each golden run."""


@dataclass(frozen=True)
class Case:
    """One run of `spikee results dataset-comparison`."""

    name: str
    asked: argparse.Namespace
    words: tuple[str, ...]

    @property
    def dataset(self) -> str:
        return str(WORKSPACE / self.asked.dataset)

    @property
    def results(self) -> list[str]:
        found = [path for folder in self.asked.result_folder for path in sorted((WORKSPACE / folder).iterdir())]
        return [str(WORKSPACE / name) for name in self.asked.result_file] + [str(path) for path in found]

    @property
    def printed(self) -> str:
        return (GOLDEN / "out" / self.name / "stdout.txt").read_text(encoding="utf-8")

    @property
    def file(self) -> Path | None:
        return next((GOLDEN / "out" / self.name).glob("files/datasets/*.jsonl"), None)

    def compared(self, **options: Any) -> ComparedDataset:
        asked = DatasetComparisonOptions(
            success_threshold=self.asked.success_threshold,
            success_definition=self.asked.success_definition,
            **{"number": self.asked.number, "skip_validation": True, **options},
        )
        return compare_dataset(self.dataset, self.results, asked)


def golden_case(folder: Path) -> Case:
    words = json.loads((folder / "meta.json").read_text(encoding="utf-8"))["argv"]
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset")
    parser.add_argument("--result-file", action="append", default=[])
    parser.add_argument("--result-folder", action="append", default=[])
    parser.add_argument("--success-threshold", type=float, default=0.8)
    parser.add_argument("--success-definition", default="gt")
    parser.add_argument("-n", "--number", type=int, default=-1)
    parser.add_argument("--skip-validation", action="store_true")
    parser.add_argument("--tag")
    return Case(folder.name, parser.parse_args(words[3:]), tuple(words))


CASES = [golden_case(path) for path in sorted(GOLDEN.glob("out/compare_*")) if path.name != NO_LONGER_SPIKEES]
PARAMETERS = [pytest.param(case, id=case.name) for case in CASES]

pytestmark = [needs_shared, pytest.mark.shared]


@pytest.mark.parametrize("case", PARAMETERS)
def test_by_spikees_definition_the_rows_are_spikees(case: Case) -> None:
    compared = case.compared(definition="spikee")
    told = re.search(r"(\d+) entries matched", case.printed)
    assert told is not None
    assert compared.result.meeting == int(told[1])
    if case.file is not None:
        assert b"".join(compared.rows()) == case.file.read_bytes()


@needs_spikee
@pytest.mark.peer
@pytest.mark.parametrize("case", [p for p in PARAMETERS if isinstance(p.values[0], Case) and p.values[0].file is None])
def test_the_rows_of_a_run_that_was_not_kept_are_those_of_a_new_one(case: Case, tmp_path: Path) -> None:
    for name in ("datasets", "results"):
        shutil.copytree(WORKSPACE / name, tmp_path / name)
    before = set((tmp_path / "datasets").iterdir())
    (tmp_path / "datasets").chmod(0o755)
    subprocess.run([SPIKEE, *case.words], cwd=tmp_path, check=True, capture_output=True)
    written = b"".join(path.read_bytes() for path in set((tmp_path / "datasets").iterdir()) - before)
    assert b"".join(case.compared(definition="spikee").rows()) == written


@pytest.mark.parametrize("case", PARAMETERS)
def test_both_numbers_are_known(case: Case) -> None:
    name = case.name.replace("validation_fail", "skip_validation")
    by_spikee, ours = CHOSEN[name]
    assert case.compared(definition="spikee").result.meeting == by_spikee
    assert case.compared().result.meeting == ours


def test_the_guide_tells_both_numbers() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    told = re.findall(r"^\| .* \| `(compare_\w+)` \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    assert told != []
    for name, by_spikee, ours in told:
        assert CHOSEN[name] == (int(by_spikee), int(ours))


# -- our numbers, counted another way ---------------------------------------------------------------------------


def answered(row: Mapping[str, Any]) -> bool:
    """Tell whether a standard row of spikee 0.9.2 holds an answer: a block is one, an error is not."""
    return bool(row.get("guardrail")) or row["error"] is None


def rows_of(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").split("\n") if line]


def recounted(case: Case) -> dict[int, float]:
    """Return the rates of the dataset's rows, by their place, from standard rows alone."""
    files = [rows_of(path) for path in dict.fromkeys(case.results)]
    tables = [{(str(row["id"]), row["input"]): row for row in rows} for rows in files]
    rates = {}
    for place, entry in enumerate(rows_of(case.dataset)):
        rows = [table.get((str(entry["id"]), entry["content"])) for table in tables]
        judged = [row["success"] for row in rows if row is not None and answered(row)]
        if judged:
            rates[place] = sum(judged) / len(judged)
    return rates


STATIC = [p for p in PARAMETERS if isinstance(p.values[0], Case) and not re.search("dyn|attack", p.values[0].name)]


@pytest.mark.parametrize("case", STATIC)
def test_our_rates_are_those_of_a_plain_recount(case: Case) -> None:
    compared = case.compared(number=-1)
    expected = recounted(case)
    assert {row: rate for row, rate in enumerate(compared.rates) if rate is not None} == expected
    assert list(compared.chosen) == ranked(expected, case.asked)


def ranked(rates: Mapping[int, float], asked: argparse.Namespace) -> list[int]:
    above = asked.success_definition == "gt"
    chosen = [
        place
        for place, rate in rates.items()
        if (rate > asked.success_threshold if above else rate < asked.success_threshold)
    ]
    return sorted(chosen, key=lambda place: (-rates[place] if above else rates[place], place))


# -- the command ------------------------------------------------------------------------------------------------


def words_of(case: Case, *more: str) -> Sequence[str]:
    words = ["results", "dataset-comparison", "--dataset", case.dataset]
    for path in case.results:
        words += ["--result-file", path]
    words += ["--success-threshold", str(case.asked.success_threshold)]
    return [*words, *more]


def test_a_dataset_that_does_not_fit_is_refused_where_spikee_goes_on(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (case,) = [case for case in CASES if case.name == "compare_validation_fail"]
    assert "810 missing entries" in case.printed
    refused = cli(*words_of(case, "--definition", "spikee"))
    assert (refused.code, "has no result of 810 of 812 entries" in refused.err) == (3, True)
    refused = cli(*words_of(case))
    assert (refused.code, "has no result of 812 of 812 entries" in refused.err) == (3, True)
    assert list(tmp_path.iterdir()) == []
    assert cli(*words_of(case, "--skip-validation")).code == 0


def test_the_name_of_the_new_dataset_is_spikees(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (case,) = [case for case in CASES if case.name == "compare_gt03_n5_tag"]
    assert cli(*words_of(case, "-n", "5", "--tag", case.asked.tag, "--definition", "spikee")).code == 0
    (written,) = (tmp_path / "datasets").iterdir()
    assert case.file is not None
    assert re.sub(r"_\d{10}\.", ".", written.name) == re.sub(r"_\d{10}\.", ".", case.file.name)
    assert written.read_bytes() == case.file.read_bytes()


@needs_spikee
@pytest.mark.peer
@pytest.mark.parametrize("name", ["17-seeds-a b--c.jsonl", f"{'long-' * 20}.jsonl", "é.jsonl", "_x_.jsonl"])
def test_odd_names_are_shortened_as_spikee_does(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text('{"id": 1, "long_id": "a", "content": "c"}\n', encoding="utf-8")
    row = {"id": 1, "long_id": "a", "input": "c", "success": True, "attack_name": "None"}
    (tmp_path / "results_r.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    words = ["results", "dataset-comparison", "--dataset", name, "--result-file", "results_r.jsonl"]
    subprocess.run([SPIKEE, "-q", *words], check=True, capture_output=True)
    (theirs,) = (tmp_path / "datasets").iterdir()
    theirs.unlink()
    assert cli(*words).code == 0
    (ours,) = (tmp_path / "datasets").iterdir()
    assert ours.name.rpartition("_")[0] == theirs.name.rpartition("_")[0]
