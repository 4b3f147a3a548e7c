"""`judges evaluate`: labels and judges in, a summary, predictions and a report out."""

from __future__ import annotations

import csv
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from sklearn import metrics

from faircount.app.cli import main
from tests.conftest import ROOT

SUMMARY = Path("data/detectors-eval/detector_metrics_summary.json")
JUDGE = 'strings.Contains(text="no")'


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(["judges", "evaluate", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def labelled(rows: Iterable[tuple[str, object]], name: str = "labels.jsonl") -> str:
    lines = [json.dumps({"id": number, "response": text, "label": label}) for number, (text, label) in enumerate(rows)]
    Path(name).write_text("\n".join(lines) + "\n")
    return name


def random_rows(count: int, seed: int = 1) -> list[tuple[str, int]]:
    """Return answers that hold "no" more often when they are hits."""
    draw = random.Random(seed)
    labels = [int(draw.random() < 0.4) for _ in range(count)]
    return [("oh no" if draw.random() < (0.8 if label else 0.1) else "yes", label) for label in labels]


def result(path: Path = SUMMARY, judge: str = JUDGE) -> Any:
    return json.loads(path.read_text())["results"][judge]


def test_figures_equal_those_of_scikit_learn(run: Callable[..., tuple[int, str, str]]) -> None:
    rows = random_rows(400)
    assert run("--labels", labelled(rows), 'contains(text="no")')[0] == 0
    truth, said = [label for _, label in rows], [int("no" in text) for text, _ in rows]
    found = result()["metrics"]
    both = metrics.precision_recall_fscore_support(truth, said, labels=[1, 0])
    for place, name in enumerate(("hit", "pass")):
        assert found[f"{name}_precision"] == pytest.approx(both[0][place], abs=1e-12)
        assert found[f"{name}_recall"] == pytest.approx(both[1][place], abs=1e-12)
        assert found[f"{name}_f1"] == pytest.approx(both[2][place], abs=1e-12)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(truth, said), abs=1e-12)
    assert found["hit_sensitivity"] == found["hit_recall"]
    assert found["hit_specificity"] == found["pass_recall"]
    assert result()["mcc"] == pytest.approx(metrics.matthews_corrcoef(truth, said), abs=1e-12)
    assert result()["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(truth, said), abs=1e-12)
    tn, fp, fn, tp = metrics.confusion_matrix(truth, said).ravel()
    assert result()["counts"] == {"tp": tp, "fn": fn, "tn": tn, "fp": fp, "errors": 0}


def test_the_interval_that_garak_published_is_reproduced(run: Callable[..., tuple[int, str, str]]) -> None:
    counts = {("no", 1): 3301, ("yes", 1): 282, ("no", 0): 2202, ("yes", 0): 1381}
    labels = labelled(row for row, times in counts.items() for _ in range(times))
    assert run("--labels", labels, 'contains(text="no")', "--replicates", "10000", "--seed", "42")[0] == 0
    interval = result()["metrics"]["hit_f1_ci"]
    assert (interval["ci_lower"], interval["ci_upper"]) == pytest.approx((0.7202, 0.7329), abs=0.0005)
    assert interval["n_samples"] == 7166
    assert interval["ci_width"] == interval["ci_upper"] - interval["ci_lower"]


def test_the_summary_keeps_the_judges_that_were_measured_before(run: Callable[..., tuple[int, str, str]]) -> None:
    labels = labelled(random_rows(60))
    run("--labels", labels, 'contains(text="no")')
    before = result()
    run("--labels", labels, 'contains(text="yes")')
    document = json.loads(SUMMARY.read_text())
    assert document["results"][JUDGE] == before
    assert document["metadata"]["num_detectors_evaluated"] == 2
    schema = ROOT / "src/faircount/report/schemas/judge-evaluation-1.json"
    Draft202012Validator(json.loads(schema.read_text())).validate(document)


def test_words_behind_labels_that_are_no_files_are_judges(run: Callable[..., tuple[int, str, str]]) -> None:
    one, two = labelled(random_rows(30), "a.jsonl"), labelled(random_rows(30, 2), "b.jsonl")
    assert run("--labels", one, two, 'contains(text="no")', 'exact(text="oh no")')[0] == 0
    assert len(json.loads(SUMMARY.read_text())["results"]) == 2
    assert run('contains(text="no")', "--labels", one, "--labels", two, "--balance", 'exact(text="yes")')[0] == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--labels", "nowhere.csv", "refusal"], 3, "nowhere.csv: no such file"),
        (["refusal"], 2, "no labelled data given"),
        (["--labels", "labels.jsonl"], 2, "no judge given"),
        (["--labels", "labels.jsonl", "refusel"], 2, "refusal"),
        (["--labels", "labels.jsonl", "refusal", "refusal"], 2, "refusal.Refusal: named twice"),
        (["--labels", "labels.jsonl", "refusal", "--workers", "0"], 2, "--workers must be 1 or more"),
        (["--labels", "labels.jsonl", "refusal", "--replicates", "0"], 2, "--replicates must be 1 or more"),
        (["--labels", "labels.jsonl", "refusal", "--level", "2"], 2, "--level"),
        (["--labels", "labels.jsonl", "refusal", "-o", "labels.jsonl"], 2, "is an input"),
        (["--labels", "labels.jsonl", "refusal", "--predictions", "labels.jsonl"], 2, "is an input"),
        (["--labels", "labels.jsonl", 'regex(pattern="(")'], 2, "pattern"),
        (["--labels", "labels.jsonl", "./nowhere.py:Judge"], 2, "nowhere.py"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_written(
    run: Callable[..., tuple[int, str, str]], words: list[str], code: int, said: str
) -> None:
    labelled(random_rows(10))
    before = Path("labels.jsonl").read_bytes()
    found, _, err = run(*words)
    assert (found, said in err, "Traceback" in err) == (code, True, False), err
    assert not SUMMARY.exists()
    assert Path("labels.jsonl").read_bytes() == before


def test_predictions_tell_what_each_judge_said_of_each_item(run: Callable[..., tuple[int, str, str]]) -> None:
    Path("judge.py").write_text(
        "def shaky(attempt):\n"
        "    if attempt.response == 'break':\n"
        "        raise RuntimeError('no idea')\n"
        "    return attempt.response == 'oh no'\n"
    )
    labels = labelled([("oh no", 1), ("break", 1), ("yes", 0)])
    assert run("--labels", labels, 'contains(text="no")', "./judge.py:shaky", "--predictions", "said.jsonl")[0] == 0
    lines = [json.loads(line) for line in Path("said.jsonl").read_text().splitlines()]
    assert [(line["item"], line["label"], line["decision"]) for line in lines if line["judge"] == JUDGE] == [
        ("0", "hit", "hit"),
        ("1", "hit", "pass"),
        ("2", "pass", "pass"),
    ]
    shaky = [line for line in lines if "shaky" in line["judge"]]
    assert [line["decision"] for line in shaky] == ["hit", None, "pass"]
    assert "no idea" in shaky[1]["error"]
    counts = result(judge=shaky[0]["judge"])["counts"]
    assert counts == {"tp": 1, "fn": 0, "tn": 1, "fp": 0, "errors": 1}
    assert len({line["identity"] for line in lines}) == 2


def test_a_judge_that_decides_nothing_has_no_figures_and_the_others_have(
    run: Callable[..., tuple[int, str, str]],
) -> None:
    labels = labelled(random_rows(20))
    code, _, err = run("--labels", labels, "canary", 'contains(text="no")')
    assert code == 3
    assert "canary.Canary: it decided none of the items" in err
    document = json.loads(SUMMARY.read_text())
    assert list(document["results"]) == [JUDGE]
    assert document["metadata"]["errors"][0]["judge"] == "canary.Canary"


def test_a_class_without_samples_is_undefined_and_not_zero(run: Callable[..., tuple[int, str, str]]) -> None:
    run("--labels", labelled([("yes", 0)] * 60), 'contains(text="no")')
    found = result()["metrics"]
    assert [found[name] for name in ("hit_precision", "hit_recall", "hit_f1", "hit_f1_ci")] == [None] * 4
    assert (found["accuracy"], found["pass_recall"]) == (1, 1)


def test_balanced_classes_have_the_same_size_and_the_seed_decides_which_items_stay(
    run: Callable[..., tuple[int, str, str]],
) -> None:
    labels = labelled(random_rows(300))
    chosen = {}
    for name, seed in (("first", "42"), ("again", "42"), ("other", "7")):
        words = ["--labels", labels, 'contains(text="no")', "--balance", "--seed", seed, "--save-datasets"]
        assert run(*words, "-o", f"{name}.json")[0] == 0
        chosen[name] = Path(f"{name}_dataset.jsonl").read_text()
        counts = result(Path(f"{name}.json"))["counts"]
        assert counts["tp"] + counts["fn"] == counts["tn"] + counts["fp"] == sum(label for _, label in random_rows(300))
    assert chosen["first"] == chosen["again"] != chosen["other"]
    metadata = json.loads(Path("first.json").read_text())["metadata"]
    assert (metadata["balance_datasets"], metadata["save_datasets"], metadata["random_seed"]) == (True, True, 42)


def test_saved_datasets_can_be_evaluated_again_with_the_same_figures(run: Callable[..., tuple[int, str, str]]) -> None:
    labels = labelled(random_rows(100))
    run("--labels", labels, 'contains(text="no")', "--balance", "--save-datasets", "-o", "one.json")
    run("--labels", "one_dataset.jsonl", 'contains(text="no")', "-o", "two.json")
    assert result(Path("one.json"))["metrics"] == result(Path("two.json"))["metrics"]


def test_inverted_labels_turn_hits_into_passes(run: Callable[..., tuple[int, str, str]]) -> None:
    labels = labelled(random_rows(100))
    run("--labels", labels, 'contains(text="no")', "-o", "plain.json")
    run("--labels", labels, 'not(contains(text="no"))', "--invert-labels", "-o", "turned.json")
    plain = result(Path("plain.json"))["counts"]
    turned = result(Path("turned.json"), f"combine.Not({JUDGE})")["counts"]
    assert (plain["tp"], plain["fn"], plain["tn"], plain["fp"]) == (
        turned["tn"],
        turned["fp"],
        turned["tp"],
        turned["fn"],
    )


def test_labels_can_be_keyed_to_the_entries_of_a_results_file(run: Callable[..., tuple[int, str, str]]) -> None:
    rows = [
        {"id": number, "success": False, "input": "p", "response": text} for number, text in enumerate(["no", "ok"])
    ]
    Path("results_x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("labels.csv").write_text("id,label\n0,hit\n1,pass\n")
    assert run("--labels", "labels.csv", "--results", "results_x.jsonl", "--", 'contains(text="no")')[0] == 0
    assert result()["counts"] == {"tp": 1, "fn": 0, "tn": 1, "fp": 0, "errors": 0}


@pytest.mark.parametrize("output_format", ["console", "json", "markdown", "html"])
def test_every_format_tells_of_the_judge_and_hides_nothing_hostile(
    run: Callable[..., tuple[int, str, str]], output_format: str
) -> None:
    labels = labelled([*random_rows(60), ("\x1b]0;owned\x07<script>alert(1)</script> no", 1)])
    words = ["--labels", labels, "refusal", 'contains(text="no")', "--output-format", output_format]
    code, out, _ = run(*words, "--report", "report.txt")
    text = Path("report.txt").read_text()
    assert code == 0
    assert "refusal.Refusal" in text
    assert "\x1b" not in text + out
    assert "<script>alert(1)" not in text


def test_damaged_lines_are_counted_and_the_others_still_count(run: Callable[..., tuple[int, str, str]]) -> None:
    labels = labelled(random_rows(60))
    with Path(labels).open("a") as file:
        file.write('{"response": "no", "label": "perhaps"}\n{"response": \n')
    code, out, _ = run("--labels", labels, 'contains(text="no")')
    assert code == 0
    assert sum(result()["counts"].values()) == 60
    assert result()["labels"][0]["bad"] == 1
    assert result()["labels"][0]["unlabelled"] == 1
    assert "labels.jsonl:61" in out
    assert "labels.jsonl:62" in out


def test_an_interrupted_evaluation_leaves_nothing_behind() -> None:
    labels = labelled(random_rows(3000))
    Path("judge.py").write_text("import time\ndef slow(attempt):\n    time.sleep(0.01)\n    return True\n")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "faircount", "judges", "evaluate", "--labels", labels, "./judge.py:slow"),
            *("--predictions", "said.jsonl", "--save-datasets"),
        ],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert {path.name for path in Path().iterdir()} - {"data", "__pycache__"} == {"labels.jsonl", "judge.py"}
    assert not [path for path in Path("data").rglob("*") if path.is_file()]


@pytest.mark.shared
def test_files_of_pyrit_are_read_as_they_are(shared: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    path = shared / "data/labelled/pyrit_refusal.csv"
    with path.open(encoding="utf-8", newline="") as file:
        next(file)
        rows = list(csv.DictReader(file))
    assert run("--labels", str(path), "refusal")[0] == 0
    counts = result(judge="refusal.Refusal")["counts"]
    assert counts["tp"] + counts["fn"] == sum(row["human_score"] == "1" for row in rows)
    assert counts["tn"] + counts["fp"] == sum(row["human_score"] == "0" for row in rows)
