"""Journals of schema 1, as the version before schema 2 wrote them, give the figures that that version gave.

Their verdicts on tests are the words passed and failed. The runs were stopped halfway, and resumed to their end by that
version as well. `FOLDER` in the journals is the folder in which the runs began.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import Cli, analysis_of
from tests.runs.running import records, report_of

DATA = Path(__file__).parents[1] / "data" / "journals"
Figures = tuple[int, int, int, int]


def figures(path: str) -> Figures:
    """Return successes, failures, entries that nobody judged, and attempts."""
    analysis = analysis_of(path)
    return analysis.tally.success, analysis.tally.failure, analysis.tally.unjudged, analysis.attempts


@pytest.mark.parametrize(
    ("name", "stopped", "resumed"),
    [
        ("tests.jsonl", (1, 3, 2, 7), (2, 4, 0, 12)),
        ("attacks.jsonl", (3, 2, 0, 11), (7, 1, 0, 21)),
        ("retries.jsonl", (1, 4, 1, 9), (2, 4, 0, 12)),
    ],
)
def test_a_journal_of_schema_1_is_analysed_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli, name: str, stopped: Figures, resumed: Figures
) -> None:
    shutil.copytree(DATA, tmp_path, dirs_exist_ok=True)
    (tmp_path / "results").mkdir()
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(Path(name).read_text().replace("FOLDER", str(tmp_path)))
    assert figures(name) == stopped
    assert cli("resume", name).code == 0
    assert figures(name) == resumed
    said = [verdict["verdict"] for record in records(name) for verdict in record.get("verdicts", ())]
    assert records(name)[0]["schema"] == 1
    assert {"success", "failure"} <= set(said)
    if name != "attacks.jsonl":
        assert {"passed", "failed"} <= set(said), "what an earlier version wrote stays as it is"
        told = report_of(tmp_path / "results")["metadata"]["cases"]
        assert (told["passed"], told["failed"]) == resumed[:2]
