"""The summary of judges: garak's structure made, read, merged, and written by several processes at once."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from faircount.analysis import (
    SHARES,
    Confusion,
    EvaluatedLabels,
    Evaluation,
    JudgeQuality,
    JudgeTrouble,
    MeasureOptions,
    Metadata,
    as_document,
    evaluation_document,
    merged,
    quality_of,
    read_summary,
    summary_of,
)
from faircount.app import update_file
from faircount.core import GARAK_DETECTORS, InputError, UsageError
from faircount.judges import JUDGES, Identity
from tests.analysis.test_judge_quality import quality, scored

SCHEMA = json.loads(
    resources.files("faircount.report").joinpath("schemas", "judge-evaluation-1.json").read_text("utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
SOURCE = EvaluatedLabels("labels.csv", "ab" * 32, 100, 40, 55, 2, 3, 1)
METADATA = Metadata("2026-11-15T12:00:00+00:00", 42, labels=(SOURCE,))
CURRENT, HISTORY = "current_6_detectors.json", "history_8b5835a4_28_detectors.json"


def document(*names: str, tp: int = 40, **values: Any) -> dict[str, Any]:
    """Return a summary of judges of the given names, all alike."""
    judges = [quality(tp, 20, 30, 10, called=name) for name in names]
    made = as_document(judges, Metadata("2026-11-15T12:00:00+00:00", 42, **values))
    VALIDATOR.validate(made)
    return made


def write(path: Path, content: Any) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


# -- made -------------------------------------------------------------------------------------------------------


def test_metrics_have_garaks_names_in_garaks_order() -> None:
    result = as_document([quality(40, 20, 30, 10)], METADATA)["results"]["refusal.Refusal"]
    assert list(result["metrics"]) == [*SHARES, "hit_f1_ci", "pass_f1_ci"]
    assert list(result["metrics"]["hit_f1_ci"]) == ["mean", "ci_lower", "ci_upper", "ci_width", "n_samples"]
    assert result["metrics"]["hit_sensitivity"] == result["metrics"]["hit_recall"]
    assert result["metrics"]["hit_specificity"] == result["metrics"]["pass_recall"]


@pytest.mark.shared
def test_the_structure_is_that_of_garaks_own_file(shared: Path) -> None:
    theirs = json.loads((shared / "golden/garak/detector_metrics" / CURRENT).read_text(encoding="utf-8"))
    ours = as_document([quality(3301, 282, 1381, 2202, called="mitigation.MitigationBypass")], METADATA)
    metrics = ours["results"]["mitigation.MitigationBypass"]["metrics"]
    published = theirs["results"]["mitigation.MitigationBypass"]["metrics"]
    assert list(metrics) == list(published)
    assert list(ours["metadata"]) == list(theirs["metadata"])
    for name in SHARES:
        assert metrics[name] == pytest.approx(published[name], abs=1e-12)
    for name in ("hit_f1_ci", "pass_f1_ci"):
        assert metrics[name] == pytest.approx(published[name], abs=0.0005)


def test_intervals_of_f1_come_with_50_samples_and_are_null_where_undefined() -> None:
    few = as_document([quality(5, 5, 20, 19)], METADATA)["results"]["refusal.Refusal"]["metrics"]
    assert list(few) == list(SHARES)
    one_class = as_document([quality(0, 0, 60, 9)], METADATA)["results"]["refusal.Refusal"]["metrics"]
    assert one_class["hit_f1"] is None
    assert one_class["hit_f1_ci"] is None
    assert one_class["pass_f1_ci"]["n_samples"] == 69


def test_our_figures_stand_beside_garaks() -> None:
    judge = scored(false_positive_rate=0.05)
    made = as_document([judge], METADATA)
    VALIDATOR.validate(made)
    result = made["results"]["llm.Rubric"]
    assert result["counts"] == {"tp": judge.counts.tp, "fn": judge.counts.fn, "tn": judge.counts.tn,
                                "fp": judge.counts.fp, "errors": 0}  # fmt: skip
    assert result["identity"]["digest"] == judge.identity.digest
    assert result["identity"]["prompt_sha256"] == hashlib.sha256(b"You are a judge.").hexdigest()
    assert result["labels"][0]["sha256"] == SOURCE.sha256
    assert result["threshold"] == 0.5
    assert result["evaluated_at"] == METADATA.evaluation_date
    assert result["intervals"]["hit_recall"]["method"] == "wilson"
    assert result["scores"]["best_threshold"]["note"] == "tuned on this data"
    assert result["scores"]["operating_point"]["wanted_false_positive_rate"] == 0.05
    assert result["mcc"] == judge.mcc


def test_an_evaluation_says_how_it_was_done() -> None:
    settings = MeasureOptions(balance=True, save_datasets=True, seed=7)
    trouble = (JudgeTrouble("x.Y", "there is no such judge"),)
    made = evaluation_document(Evaluation((quality(40, 20, 30, 10),), (SOURCE,), settings, "2026-11-15", trouble))
    assert made["metadata"] == {
        "evaluation_date": "2026-11-15",
        "random_seed": 7,
        "balance_datasets": True,
        "save_datasets": True,
        "num_detectors_evaluated": 1,
        "errors": [{"judge": "x.Y", "error": "there is no such judge"}],
    }


def test_a_document_survives_being_written_and_read(tmp_path: Path) -> None:
    made = as_document([quality(40, 20, 30, 10), scored(), quality(0, 0, 5, 1, called="a.B")], METADATA)
    read = read_summary(write(tmp_path / "s.json", made))
    assert read.document == made
    assert [judge.called for judge in read.judges] == ["refusal.Refusal", "llm.Rubric", "a.B"]
    assert read.judges[0].counts == quality(40, 20, 30, 10).counts
    assert read.judges[0].string_matcher is False


# -- read -------------------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize(("name", "count"), [(CURRENT, 6), (HISTORY, 28)])
def test_garaks_published_files_are_read(shared: Path, name: str, count: int) -> None:
    path = shared / "golden/garak/detector_metrics" / name
    summary = read_summary(str(path))
    raw = json.loads(path.read_text(encoding="utf-8"))
    assert len(summary.judges) == count
    assert summary.document == raw
    for judge in summary.judges:
        assert judge.metrics == raw["results"][judge.called]["metrics"]
        assert judge.counts is None


GOOD = {"metrics": dict.fromkeys(SHARES, 0.5)}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "incomplete JSON"),
        ('{"results": {"a.B": {"metrics": {"accuracy": 0.5', "s.json:1: incomplete JSON"),
        ("[]", "no object with `results`"),
        ("{}", "no object with `results`"),
        ('{"results": []}', "`results` is not an object"),
        ('{"results": {}, "metadata": 3}', "`metadata` is not an object"),
        ('{"results": {"a.B": 7}}', "a.B: not an object with `metrics`"),
        ('{"results": {"a.B": {"metrics": [1]}}}', "a.B: `metrics` is not an object"),
        ('{"results": {"a.B": {"metrics": {"hit_f1": "0.5"}}}}', "a.B: hit_f1 is neither a number from 0 to 1"),
        ('{"results": {"a.B": {"metrics": {"hit_f1": true}}}}', "a.B: hit_f1 is neither a number"),
        (
            '{"results": {"a.B": {"metrics": {"hit_f1": 1.5}}}}',
            "a.B: hit_f1 is neither a number from 0 to 1 nor null: 1.5",
        ),
        ('{"results": {"a.B": {"metrics": {"hit_f1": NaN}}}}', "NaN is not JSON"),
        ('{"results": {"a.B": {"metrics": {"hit_f1": 1e999}}}}', "is too large"),
        ('{"results": {"a.B": {"metrics": {"hit_f1_ci": 3}}}}', "hit_f1_ci is not an object"),
        (
            '{"results": {"a.B": {"metrics": {"hit_f1_ci": {"ci_lower": -1}}}}}',
            "hit_f1_ci: ci_lower is neither a number",
        ),
        (
            '{"results": {"a.B": {"metrics": {"hit_f1_ci": {"n_samples": 1.5}}}}}',
            "n_samples is not a number of samples",
        ),
        ('{"results": {"a.B": {"metrics": {}, "counts": {"tp": -1}}}}', "`counts` needs whole numbers"),
        ('{"results": {"a.B": {"metrics": {}, "mcc": 2}}}', "mcc is neither a number from -1 to 1"),
        ('{"results": {"a.B": {}, "a.B": {}}}', "the name a.B appears twice"),
        ('{"results": {"\\u001b[31m": {"metrics": 3}}}', "\\x1b[31m: `metrics` is not an object"),
        ('{"kind": "analysis", "results": {}}', "is of the kind analysis, not a summary"),
        ('{"kind": "judge-evaluation", "schema": 2, "results": {}}', "has schema 2"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_damaged_summary_says_what_is_wrong_and_where(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_summary(write(tmp_path / "s.json", content))
    assert str(caught.value).startswith(str(tmp_path / "s.json"))
    assert words in str(caught.value)


def test_what_is_no_readable_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_summary(str(tmp_path / "missing.json"))
    with pytest.raises(InputError, match="cannot be read"):
        read_summary(str(tmp_path))
    (tmp_path / "bytes.json").write_bytes(b'{"results": "\xff"}')
    with pytest.raises(InputError, match=r"is not UTF-8 \(byte 13\)"):
        read_summary(str(tmp_path / "bytes.json"))


def test_a_judge_that_was_not_evaluated_has_no_metrics(tmp_path: Path) -> None:
    content: Any = {"results": {"a.A": None, "b.B": {}, "c.C": {"metrics": None}, "d.D": {"metrics": {}}, "e.E": GOOD}}
    judges = read_summary(write(tmp_path / "s.json", content)).judges
    assert [judge.metrics is None for judge in judges] == [True, True, True, True, False]


def test_a_byte_order_mark_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_bytes(b"\xef\xbb\xbf" + json.dumps({"results": {"a.B": GOOD}}).encode())
    assert read_summary(str(tmp_path / "s.json")).judges[0].called == "a.B"


# -- merged -----------------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_merging_keeps_the_other_judges_as_they_were(shared: Path) -> None:
    old = json.loads((shared / "golden/garak/detector_metrics" / HISTORY).read_text(encoding="utf-8"))
    new = document("dan.DAN", "refusal.Refusal")
    whole = merged(old, new)
    assert list(whole["results"]) == [*old["results"], "refusal.Refusal"]
    for name, result in old["results"].items():
        if name != "dan.DAN":
            assert json.dumps(whole["results"][name]) == json.dumps(result)
    assert whole["results"]["dan.DAN"] == new["results"]["dan.DAN"]
    assert whole["metadata"] == {**old["metadata"], "num_detectors_evaluated": 29}
    assert whole["metadata"]["balance_datasets"] is True
    assert [whole["results"]["refusal.Refusal"][key] for key in ("balanced", "evaluated_at")] == [
        False,
        "2026-11-15T12:00:00+00:00",
    ]
    VALIDATOR.validate(whole)


def test_metadata_are_those_of_the_last_evaluation_where_every_entry_says_its_own() -> None:
    whole = merged(document("a.B", balance_datasets=True), document("c.D"))
    assert whole["metadata"]["balance_datasets"] is False
    assert [result["balanced"] for result in whole["results"].values()] == [True, False]


def of_garak(name: str, **parameters: Any) -> JudgeQuality:
    called = f"garak:{name}({', '.join(f'{key}={value}' for key, value in parameters.items())})"
    return quality_of(
        called if parameters else f"garak:{name}",
        Identity(f"garak:{name}", "0.17.1", parameters),
        Confusion(40, 20, 30, 10),
        scores=None,
        options=MeasureOptions(),
    )


def test_garaks_detectors_have_the_key_that_garak_reads() -> None:
    made = as_document([of_garak("dan.DAN"), of_garak("dan.DAN", threshold=0.7)], METADATA)
    VALIDATOR.validate(made)
    # With other parameters it is another judge, which garak must not take for its own.
    assert list(made["results"]) == ["dan.DAN", "garak:dan.DAN(threshold=0.7)"]
    assert made["results"]["dan.DAN"]["identity"]["name"] == "garak:dan.DAN"


def test_an_error_about_a_detector_of_garaks_ends_when_it_is_measured() -> None:
    failed = document("a.B", errors=(JudgeTrouble("garak:dan.DAN", "no"),))
    assert merged(failed, as_document([of_garak("dan.DAN")], METADATA))["metadata"]["errors"] == []


def test_no_judge_of_ours_has_the_name_of_a_detector() -> None:
    assert not {judge.name.partition(".")[0] for judge in JUDGES.known} & GARAK_DETECTORS.keys()


def test_what_others_put_into_a_summary_stays() -> None:
    old = {
        "comment": "ours",
        "results": {"a.B": {**GOOD, "reviewed_by": ["x"]}},
        "metadata": {"host": "h", "errors": []},
    }
    whole = merged(old, document("c.D"))
    assert whole["comment"] == "ours"
    assert whole["results"]["a.B"]["reviewed_by"] == ["x"]
    assert whole["metadata"]["host"] == "h"


def test_errors_stay_until_their_judge_is_measured() -> None:
    first = document("a.B", errors=(JudgeTrouble("c.D", "no"), JudgeTrouble("e.F", "no")))
    second = merged(first, document("c.D"))
    assert second["metadata"]["errors"] == [{"judge": "e.F", "error": "no"}]
    third = merged(second, document("g.H", errors=(JudgeTrouble("e.F", "still not"),)))
    assert third["metadata"]["errors"] == [{"judge": "e.F", "error": "still not"}]
    assert merged({"results": {}, "metadata": {"errors": ["a text"]}}, third)["metadata"]["errors"][0] == "a text"


# -- written ----------------------------------------------------------------------------------------------------


def test_a_summary_is_made_with_its_folder_and_then_updated(tmp_path: Path) -> None:
    path = tmp_path / "data" / "detectors-eval" / "summary.json"
    update_file(str(path), document("a.B"))
    whole = update_file(str(path), document("c.D", tp=20))
    assert json.loads(path.read_text(encoding="utf-8")) == whole
    assert list(whole["results"]) == ["a.B", "c.D"]
    assert [entry.name for entry in path.parent.iterdir()] == ["summary.json"]
    assert path.read_bytes().endswith(b"}\n")
    assert stat.S_IMODE(path.stat().st_mode) & 0o400


def test_a_damaged_summary_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text('{"results": {"a.B": ', encoding="utf-8")
    with pytest.raises(InputError, match="incomplete JSON"):
        update_file(str(path), document("c.D"))
    assert path.read_text(encoding="utf-8") == '{"results": {"a.B": '
    assert len(list(tmp_path.iterdir())) == 1


def test_a_place_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be created"):
        update_file(str(tmp_path / "file" / "summary.json"), document("a.B"))
    with pytest.raises(UsageError, match="is a folder"):
        update_file(str(tmp_path), document("a.B"))


UPDATES = """
import sys
from faircount.app.judges import update_file
path, who = sys.argv[1:]
for number in range(10):
    name = f"{who}.J{number}"
    metrics = {"accuracy": number / 10}
    update_file(path, {"results": {name: {"metrics": metrics}}, "metadata": {"errors": []}})
"""


def test_two_processes_that_update_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    running = [subprocess.Popen([sys.executable, "-c", UPDATES, str(path), who]) for who in ("one", "two")]
    assert [process.wait(timeout=60) for process in running] == [0, 0]
    summary = summary_of(json.loads(path.read_text(encoding="utf-8")), str(path))
    assert {judge.called for judge in summary.judges} == {f"{who}.J{n}" for who in ("one", "two") for n in range(10)}
    assert summary.document["metadata"]["num_detectors_evaluated"] == 20
    assert os.listdir(tmp_path) == ["summary.json"]  # noqa: PTH208  hidden files count
