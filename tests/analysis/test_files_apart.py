"""Files analysed one by one share a ledger; what each of them says must not hang on the others."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from faircount import Analysis, AnalyzeOptions, analyze
from faircount.app import write_sample
from faircount.app.cli import main
from faircount.readers import loading
from tests.conftest import Write, attack, standard

EVERYTHING = AnalyzeOptions(cache=False, figures=True, evidence=(("", 3),))


def each_alone(paths: Sequence[str], options: AnalyzeOptions) -> list[Analysis]:
    return [found for path in paths for found in analyze(path, options=options).analyses]


def unlabelled(analyses: Sequence[Analysis]) -> list[Analysis]:
    """Return analyses without what is meant to depend on the other files: labels, and copies that were given."""
    return [
        replace(
            a,
            sources=tuple(replace(source, label="") for source in a.sources),
            findings=tuple(finding for finding in a.findings if finding.code != "F007"),
        )
        for a in analyses
    ]


def assert_apart_as_alone(paths: Sequence[str], options: AnalyzeOptions = EVERYTHING) -> None:
    together = unlabelled(analyze(*paths, options=options).analyses)
    for mine, alone in zip(together, unlabelled(each_alone(paths, options)), strict=True):
        assert mine == alone


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The demo's files, an extract and a copy of one of them: files that would meet if they were combined."""
    folder = tmp_path_factory.mktemp("samples")
    write_sample(folder, 7)
    mid = next(folder.glob("results_bot-mid_sample_1*.jsonl"))
    assert main(["results", "extract", str(mid), "-o", str(folder / "extract_success_1.jsonl")]) == 0
    shutil.copy(mid, folder / "rejudge_bot-mid_sample_1790000000.jsonl")
    with (folder / "rejudge_bot-mid_sample_1790000000.jsonl").open("a") as file:
        file.write('{"id": "one more"}\n{"torn')
    return sorted(map(str, folder.glob("*.jsonl")))


@pytest.mark.parametrize(
    "options",
    [
        EVERYTHING,
        replace(EVERYTHING, cluster="none", by=("plugin",), sort="name"),
        replace(EVERYTHING, definition="spikee"),
        replace(EVERYTHING, where="lang = de"),
    ],
)
def test_a_file_among_others_says_what_it_says_alone(samples: list[str], options: AnalyzeOptions) -> None:
    assert_apart_as_alone(samples, options)


def test_rows_of_one_id_in_several_files_do_not_meet(write: Write) -> None:
    one = write([standard(7, success=True), standard("7-attack-01")], name="results_one.jsonl")
    two = write([standard(7), attack(7, success=True), standard(7, input="another")], name="results_two.jsonl")
    three = write([standard(7, result_origin=one, original_id=7)], name="extract_three.jsonl")
    assert_apart_as_alone([one, two, three])
    assert [found.tally.total for found in analyze(one, two, three).analyses] == [2, 2, 1]


def test_a_field_that_only_another_file_has_is_no_field(write: Write) -> None:
    with_field = write([standard(1, team="red"), standard(2, team="blue")], name="results_a.jsonl")
    without = write([standard(1), standard(2)], name="results_b.jsonl")
    first, second = analyze(with_field, without).analyses
    assert "team" in first.breakdowns
    assert "team" not in second.breakdowns


def test_a_file_that_cannot_be_read_does_not_stop_the_others(write: Write) -> None:
    good, other = write([standard(1)], name="results_a.jsonl"), write([standard(2)], name="results_c.jsonl")
    bad = write(["not", "json"], name="results_b.jsonl")
    found = analyze(good, bad, other)
    assert [analysis.name for analysis in found.analyses] == [good, other]
    assert len(found.failures) == 1
    assert "results_b.jsonl" in found.failures[0]


def test_large_files_and_small_ones_take_turns(samples: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = sorted(Path(path).stat().st_size for path in samples)
    monkeypatch.setattr(loading, "TOGETHER_BELOW_BYTES", sizes[len(sizes) // 2])
    assert_apart_as_alone(samples)


@pytest.mark.shared
@pytest.mark.parametrize("folder", ["data/spikee-v0.1", "golden/spikee/ws/results", "golden/rebel", "hostile"])
def test_shared_files_say_together_what_they_say_alone(shared: Path, folder: str) -> None:
    files = [path for ending in ("jsonl", "json") for path in sorted((shared / folder).glob(f"*.{ending}"))]
    assert len(files) > 5
    found = analyze(*[str(path) for path in files], cache=False)
    alone = each_alone([analysis.name for analysis in found.analyses], AnalyzeOptions(cache=False))
    assert unlabelled(found.analyses) == unlabelled(alone)
    assert len(found.analyses) + len(found.failures) >= len(files) - 3  # copies are analysed once
