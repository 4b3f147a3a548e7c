"""inspect_ai's logs: real ones of four versions beside their oracle, and small ones made by the format.

`oracle.json` says what the headers of the golden logs hold (`tool_says`) and what an independent count of their samples
gives, for each scorer (`expected`).
"""

from __future__ import annotations

import gzip
import io
import json
import math
import random
import shutil
import types
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from faircount import Analysis, AnalyzeOptions, FaircountError, analyze
from tests.conftest import ROOT, Cli, codes, shared_folder
from tests.io.test_zip_members import zipped

SHARED = shared_folder()
GOLDEN = (SHARED or Path("shared")) / "golden" / "inspect"
ORACLE: dict[str, Any] = json.loads((GOLDEN / "oracle.json").read_text()) if SHARED is not None else {}
LOGS = list(ORACLE)
# Version 1 of the format does not name the scorer in a sample; its header does.
JUDGES = [(log, judge, "includes" if judge == "score" else judge) for log in LOGS for judge in ORACLE[log]["expected"]]
SAMPLE = ROOT / "docs" / "samples" / "inspect.json"
OUTCOMES = ("success", "failure", "error", "guardrail", "unjudged")
pytestmark = pytest.mark.filterwarnings("error")


def analysis(path: Path | str, **options: Any) -> Analysis:
    (found,) = analyze(str(path), options=AnalyzeOptions(cache=False, **options)).analyses
    return found


def outcomes(found: Analysis) -> dict[str, int]:
    return {name: count for name in OUTCOMES if (count := getattr(found.tally, name))}


def figures(path: Path | str) -> dict[str, tuple[float | None, int | None, float | None]]:
    (source,) = analysis(path, definition="inspect").sources
    return {one.name: (one.value, one.n, one.stated) for one in source.figures}


def score(value: Any, **more: Any) -> dict[str, Any]:
    return {"value": value, "answer": "an answer", "explanation": "because", "history": [], **more}


def sample(number: Any = "a", epoch: Any = 1, value: Any = "C", **changed: Any) -> dict[str, Any]:
    """Return a sample as inspect 0.3.285 writes it, with one scorer."""
    said = {"role": "user", "source": "input", "content": f"question {number}"}
    answer = {"role": "assistant", "source": "generate", "content": f"answer {number}"}
    return {
        "id": number,
        "epoch": epoch,
        "input": f"question {number}",
        "target": "right",
        "messages": [{"role": "system", "content": "Be good."}, said, answer],
        "output": {
            "model": "m",
            "choices": [{"message": answer, "stop_reason": "stop"}],
            "completion": answer["content"],
        },
        "scores": {"judge": score(value)},
        "metadata": {"level": "easy", "topic": f"topic {number}"},
        "events": [{"event": "model"}],
        "working_time": 1.5,
        **changed,
    }


def failed(number: Any = "a", epoch: int = 1, message: str = "TimeoutError('slow')", **changed: Any) -> dict[str, Any]:
    empty = {"model": "m", "choices": [], "completion": ""}
    return sample(number, epoch, **{"error": {"message": message}, "output": empty, "scores": {}, **changed})


def blocked(number: Any = "a", epoch: int = 1, value: Any = "I") -> dict[str, Any]:
    answer = {"role": "assistant", "content": ""}
    choices = [{"message": answer, "stop_reason": "content_filter"}]
    return sample(number, epoch, value, output={"choices": choices, "completion": ""})


def header(**changed: Any) -> dict[str, Any]:
    about = {
        "task": "quiz",
        "run_id": "r",
        "task_id": "t",
        "model": "maker/model",
        "dataset": {},
        "config": {},
        "packages": {"inspect_ai": "0.3.285"},
        **changed.pop("eval", {}),
    }
    return {"version": 2, "status": "success", "eval": about, **changed}


def stated(name: str = "judge", scorer: str = "judge", reducer: str | None = None, **metrics: Any) -> dict[str, Any]:
    """Return what a header says of a scorer; a metric is its value, or all that is said of it."""
    said = {key: one if isinstance(one, dict) else {"name": key, "value": one} for key, one in metrics.items()}
    return {"name": name, "scorer": scorer, "reducer": reducer, "metrics": said}


Samples = Iterable[dict[str, Any]]
Log = Callable[..., Path]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Write a log as a document."""

    def write(*samples: dict[str, Any], name: str = "log.json", **of_header: Any) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps({**header(**of_header), "samples": list(samples)}))
        return path

    return write


@pytest.fixture
def archive(tmp_path: Path) -> Log:
    """Write a log as an archive, of a run that ended well unless said otherwise."""

    def write(*samples: dict[str, Any], more: Any = (), whole: bool = True, method: int = 93, **of_header: Any) -> Path:
        said = header(**of_header)
        members: list[tuple[str, Any]] = [("_journal/start.json", {"version": 2, "eval": said["eval"], "plan": {}})]
        members += [
            (f"samples/{one['id']}_epoch_{one['epoch'] if one['epoch'] != 'x' else 1}.json", one) for one in samples
        ]
        members += [*more, ("header.json", said)] if whole else more
        path = tmp_path / "log.eval"
        path.write_bytes(
            zipped(
                ((name, one if isinstance(one, bytes) else json.dumps(one).encode()) for name, one in members), method
            )
        )
        return path

    return write


# -- the golden logs --------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize(("name", "told", "judge"), JUDGES)
@pytest.mark.parametrize("aim", ["attack", "task"])
def test_entries_of_a_scorer_are_those_of_the_oracle(name: str, told: str, judge: str, aim: str) -> None:
    expected = ORACLE[name]["expected"][told]
    found = analysis(GOLDEN / name, judge=judge, aim=aim)
    wanted = expected["outcomes"] if aim == "attack" else expected.get("outcomes_task_mean", expected["outcomes"])
    assert {state: getattr(found.tally, state) for state in OUTCOMES} == wanted
    assert (found.tally.total, found.attempts) == (expected["entries"], expected["attempts"])


@pytest.mark.shared
@pytest.mark.parametrize("name", [name for name in LOGS if ORACLE[name]["expected"]])
def test_attempts_of_the_headline_scorer_are_those_of_the_oracle(name: str, tmp_path: Path, cli: Cli) -> None:
    first = next(iter(ORACLE[name]["expected"].values()))
    rows = tmp_path / "rows.jsonl"
    exported = cli("results", "export", str(GOLDEN / name), "--aim", "attack", "--to", "jsonl", "-o", str(rows))
    assert exported.code == 0, exported.err
    states = Counter[str]()
    for row in map(json.loads, rows.read_text().splitlines()):
        for one in row["attempt_history"]:
            if one.get("guardrail"):
                states["guardrail"] += 1
            elif one["error"] is not None:
                states["error"] += 1
            else:
                states[{True: "success", False: "failure", None: "unjudged"}[one["success"]]] += 1
    assert {state: states[state] for state in OUTCOMES} == first["attempt_states"]


@pytest.mark.shared
@pytest.mark.parametrize("name", [name for name in LOGS if ORACLE[name]["tool_says"]["scores"]])
def test_inspects_own_figures_are_those_of_its_header(name: str) -> None:
    found = figures(GOLDEN / name)
    for told in ORACLE[name]["tool_says"]["scores"]:
        judge = told["name"] if told["name"] == told["scorer"] else f"{told['scorer']}.{told['name']}"
        for metric, value in told["metrics"].items():
            key = f"{judge} {metric}" + (f" ({told['reducer']})" if told["reducer"] else "")
            made, n, said = found.pop(key)
            assert said == value
            assert made == pytest.approx(value, abs=1e-12)
            if "bootstrap" not in metric and told["scored"] is not None:
                assert n == told["scored"]
    assert not found
    assert "F040" not in codes(analysis(GOLDEN / name))


@pytest.mark.shared
@pytest.mark.parametrize("name", LOGS)
def test_what_a_log_holds_and_how_it_ended_is_said(name: str) -> None:
    told = ORACLE[name]
    found = analysis(GOLDEN / name)
    (source,) = found.sources
    assert (source.lines or 6) == (told["samples_in_file"] or 6)
    assert (source.tool, source.bad_lines, source.blank_lines) == ("inspect", 0, told["not_reached"])
    assert ("F039" in codes(found)) is (told["tool_says"]["status"] != "success")
    assert ("F034" in codes(found)) is (told["tool_says"]["status"] != "success")
    assert ("F057" in codes(found)) is (name == "no_samples.eval")


@pytest.mark.shared
def test_versions_and_targets_are_those_of_the_logs() -> None:
    said = {name: analysis(GOLDEN / name).sources[0] for name in LOGS if name.startswith("old")}
    assert {name: one.tool_version for name, one in said.items()} == {
        "old_v0.3.10.json": "0.3.10",
        "old_v0.3.110.eval": "0.3.110",
        "old_v0.3.46.eval": "0.3.46",
        "old_v0.3.46_two_scorers.json": "0.3.46",
    }
    assert said["old_v0.3.10.json"].target == "openai/stub-model"


@pytest.mark.shared
def test_samples_that_were_not_reached_are_counted_in_no_rate() -> None:
    assert codes(analysis(GOLDEN / "cancelled.eval"))["F034"] == 13
    assert codes(analysis(GOLDEN / "killed.eval"))["F034"] == 13
    assert codes(analysis(GOLDEN / "attack_stopped_by_error.eval"))["F034"] == 1


@pytest.mark.shared
def test_errors_blocks_and_edits_of_golden_logs_are_said() -> None:
    assert codes(analysis(GOLDEN / "attack_edited.eval"))["F049"] == 4
    assert codes(analysis(GOLDEN / "attack_score_on_error.eval"))["F046"] == 1
    assert codes(analysis(GOLDEN / "attack_epochs3.eval"))["F056"] == 3
    assert codes(analysis(GOLDEN / "graded_by_model.eval"))["F047"] == 1
    assert outcomes(analysis(GOLDEN / "all_errors_status_success.eval")) == {"error": 5}


@pytest.mark.shared
def test_a_chunked_log_is_the_log_that_it_was_made_from(cli: Cli, tmp_path: Path) -> None:
    rows = []
    for name in ("mailbox_agent.eval", "mailbox_agent_chunked.eval"):
        out = tmp_path / f"{name}.jsonl"
        assert cli("results", "export", str(GOLDEN / name), "--to", "jsonl", "-o", str(out)).code == 0
        read = [json.loads(line) for line in out.read_text().splitlines()]
        for row in read:
            del row["meta"]
        rows.append(sorted(read, key=lambda row: str(row["id"])))
    assert rows[0] == rows[1]
    assert rows[0][0]["conversation"][0]["content"].startswith("\nYou are a helpful assistant")


@pytest.mark.shared
def test_ids_with_slashes_dots_and_line_feeds_are_ids_alone(cli: Cli) -> None:
    path = str(GOLDEN / "odd_ids.eval")
    shown = cli("results", "show", "ids/../up", path)
    assert "!samples/../up_epoch_" in shown.out, shown.err
    assert not (GOLDEN.parent / "up_epoch_1.json").exists()


@pytest.mark.shared
def test_families_are_the_clusters_of_the_logs_own_standard_error() -> None:
    assert analysis(GOLDEN / "attack_epochs3.eval", aim="attack").families.count == 4


# -- states -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "state"),
    [
        ("C", "success"), ("I", "failure"), ("N", "failure"), ("P", "success"), (True, "success"), (False, "failure"),
        (1, "success"), (0, "failure"), (0.5, "success"), (0.49, "failure"), ("yes", "success"), ("No", "failure"),
        ("0.7", "success"), (math.nan, "unjudged"), (None, "unjudged"), ("maybe", "unjudged"), ([1, 0], "unjudged"),
        (math.inf, "unjudged"), ("", "unjudged"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["log", "archive"])
def test_a_value_is_a_success_a_failure_or_nothing(value: Any, state: str, kind: str, request: Any) -> None:
    path = request.getfixturevalue(kind)(sample("a", value=value), sample("b", value="C"))
    found = analysis(path)
    assert outcomes(found) == Counter({state: 1}) + Counter(success=1)
    assert ("F004" in codes(found)) is (value in ("maybe", "", math.inf) or isinstance(value, list))
    assert ("F003" in codes(found)) is (value == "P")


def test_a_threshold_moves_what_a_number_means_and_not_what_a_word_means(log: Log) -> None:
    path = log(*(sample(str(one), value=one) for one in (0.5, 0.8, "C", "P", True)))
    assert outcomes(analysis(path)) == {"success": 5}
    assert outcomes(analysis(path, success_threshold=0.7)) == {"success": 3, "failure": 2}


def test_a_scale_beyond_1_is_unjudged_everywhere_without_a_threshold(log: Log, archive: Log) -> None:
    for write in (log, archive):
        path = write(*(sample(str(one), value=one) for one in (0, 1, 2, 5)))
        found = analysis(path)
        assert outcomes(found) == {"unjudged": 4}
        assert codes(found)["F052"] == 4
        given = analysis(path, success_threshold=2)
        assert outcomes(given) == {"success": 2, "failure": 2}
        assert "F052" not in codes(given)


def test_a_threshold_of_a_wide_scale_leaves_other_judges_alone(log: Log) -> None:
    path = log(sample("a", scores={"graded": score({"refused": 1, "level": 4})}))
    for judge in ("graded.refused", "graded.level"):
        assert outcomes(analysis(path, success_threshold=3, judge=judge)) == {"success": 1}


def test_an_error_is_an_error_and_no_failure(log: Log) -> None:
    found = analysis(log(failed("a"), sample("b", value="I"), failed("c", error={}), failed("d", error="text")))
    assert outcomes(found) == {"failure": 1, "error": 3}
    assert codes(found)["F047"] == 3


def test_the_error_of_a_scorer_leaves_the_verdicts_of_the_others(log: Log) -> None:
    raised = sample("a", value="I", error={"message": "ValueError('no grade')"})
    about = {"scorers": [{"name": "judge"}, {"name": "second"}]}
    path = log(raised, eval=about)
    assert outcomes(analysis(path)) == {"failure": 1}
    both = log(raised, sample("b", scores={"judge": score("C"), "second": score("C")}), eval=about)
    assert outcomes(analysis(both, judge="second")) == {"success": 1, "unjudged": 1}
    scored = log(raised, eval={**about, "config": {"score_on_error": True}})
    assert outcomes(analysis(scored)) == {"error": 1}
    assert codes(analysis(scored))["F046"] == 1


def test_a_content_filter_is_a_block_unless_the_scorer_saw_a_success(log: Log) -> None:
    found = analysis(log(blocked("a", value="I"), blocked("b", value=math.nan), blocked("c", value="C")), aim="attack")
    assert outcomes(found) == {"guardrail": 2, "success": 1}
    assert codes(found)["F056"] == 1


def test_a_grader_that_failed_is_no_verdict(log: Log) -> None:
    path = log(sample("a", scores={"judge": score("I", reason="grader_failed")}), sample("b"))
    assert outcomes(analysis(path)) == {"unjudged": 1, "success": 1}
    assert codes(analysis(path))["F045"] == 1


def test_a_cancelled_sample_was_not_reached(log: Log) -> None:
    path = log(
        failed("a", message="CancelledError()"),
        sample("b"),
        status="cancelled",
        eval={"dataset": {"sample_ids": ["a", "b", "c", "d"]}},
    )
    found = analysis(path)
    assert outcomes(found) == {"success": 1}
    assert (codes(found)["F034"], codes(found)["F039"]) == (3, 1)
    ended = next(one.message for one in found.findings if one.code == "F039")
    assert ended.endswith("status cancelled; the log has 2 samples")


def test_a_log_that_was_killed_after_one_sample_says_so(log: Log) -> None:
    found = analysis(log(sample("a"), status="started"))
    ended = next(one.message for one in found.findings if one.code == "F039")
    assert ended.endswith("status started, killed or still going; the log has 1 sample")


def test_edits_and_invalidations_are_said_and_the_last_value_counts(log: Log) -> None:
    history = [{"value": "I"}, {"value": "C", "provenance": {"author": "x"}}]
    edited = sample("a", scores={"judge": score("C", history=history)})
    found = analysis(log(edited, sample("b", value="I", invalidation={"author": "x"})))
    assert outcomes(found) == {"success": 1, "failure": 1}
    assert codes(found)["F049"] == 2


def test_limits_and_stop_reasons_are_facets_and_scored_normally(log: Log, cli: Cli) -> None:
    path = log(sample("a", limit={"type": "message", "limit": 3}), sample("b", value="I"))
    assert outcomes(analysis(path, where="limit = message")) == {"success": 1}
    assert outcomes(analysis(path, where='stop_reason = "stop" and level = easy')) == {"success": 1, "failure": 1}
    ran = cli("results", "analyze", str(path), "--by", "topic")
    assert "Breakdown by topic" in ran.out


# -- direction, judges, epochs ----------------------------------------------------------------------------------


def test_a_high_score_is_good_news_unless_the_user_says_otherwise(log: Log) -> None:
    path = log(sample("a"), sample("b", value="I"))
    assert analysis(path).sources[0].aim == "task"
    assert analysis(path, aim="attack").sources[0].aim == "attack"
    assert "F051" not in codes(analysis(path))


@pytest.mark.parametrize("name", ["refusal", "complied", "jailbreak_judge", "x.security", "HarmScore", "leakage"])
def test_names_that_suggest_an_attack_are_pointed_out(log: Log, name: str) -> None:
    path = log(sample("a", scores={name: score("C")}))
    assert codes(analysis(path))["F051"] == 1
    assert "F051" not in codes(analysis(path, aim="attack"))
    assert "F051" not in codes(analysis(path, aim="task"))


def test_the_headline_decides_and_any_judge_can_be_asked(log: Log) -> None:
    both = {"first": score("I"), "second": score({"a": "C", "b": "I"})}
    for results, state in (
        (None, "failure"),
        ({"scores": [stated("a", "second", accuracy=1)]}, "success"),
        ({"scores": [stated("first", "first", accuracy=0)], "headline": {"scorer": "second", "score": "a"}}, "success"),
    ):
        assert outcomes(analysis(log(sample("a", scores=both), results=results))) == {state: 1}
    path = log(sample("a", scores=both))
    assert outcomes(analysis(path, judge="second.a")) == {"success": 1}
    assert outcomes(analysis(path, judge="second.b")) == {"failure": 1}


@pytest.mark.parametrize(
    ("reducer", "state"),
    [(None, "failure"), ("mean", "failure"), ("max", "success"), ("pass_at_2", "success"), ("at_least_2", "failure"),
     ("pass_k_2", "failure"), ("median", "failure"), ("mode", "failure"), ("majority", "failure"),
     ("custom", "failure")],
)  # fmt: skip
def test_epochs_are_attempts_and_the_first_reducer_decides_a_task(log: Log, reducer: str | None, state: str) -> None:
    values = ["I", "C", "I"]
    epochs = [sample("a", number, value) for number, value in enumerate(values, 1)]
    config = {"epochs": 3, "epochs_reducer": None if reducer is None else [reducer, "max"]}
    path = log(*epochs, eval={"config": config})
    found = analysis(path)
    assert (outcomes(found), found.attempts) == ({state: 1}, 3)
    assert outcomes(analysis(path, aim="attack")) == {"success": 1}


def test_entries_are_the_same_in_any_order_and_shape(log: Log, archive: Log, cli: Cli, tmp_path: Path) -> None:
    samples = [sample(1, value="I"), sample("two"), sample("1", 2, "I")]
    found = []
    for path in (log(*samples), archive(*reversed(samples))):
        out = tmp_path / "rows.jsonl"
        assert cli("results", "export", str(path), "--to", "jsonl", "-o", str(out), "--force").code == 0
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        found.append({row["id"]: (row["success"], row["attempts"], row["input"]) for row in rows})
    assert found[0] == found[1]
    assert set(found[0]) == {"quiz/1", "quiz/two"}
    assert found[0]["quiz/1"][1] == 2


def test_numbered_samples_are_known_by_their_position(log: Log) -> None:
    assert codes(analysis(log(sample(1), sample(2))))["F053"] == 1
    assert "F053" not in codes(analysis(log(sample(1), sample("b"))))


def test_version_1_has_one_score_without_a_name(log: Log) -> None:
    old = {**sample("a"), "score": score("C")}
    del old["scores"]
    metrics = {"accuracy": {"name": "accuracy", "value": 1.0, "options": {}}}
    path = log(old, version=1, results={"scorer": {"name": "includes"}, "metrics": metrics})
    assert outcomes(analysis(path, judge="includes")) == {"success": 1}
    assert figures(path) == {"includes accuracy": (1.0, 1, 1.0)}


def test_a_prompt_is_the_input_and_a_response_the_completion(log: Log, cli: Cli) -> None:
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image", "image": "data:x"},
        {"type": "text", "text": "attachment://h"},
    ]
    asked = sample("a", input=[{"role": "user", "content": parts}], messages=[], attachments={"h": "the long text"})
    shown = cli("results", "show", "quiz/a", str(log(asked)))
    assert "Look:" in shown.out and "[image]" in shown.out and "the long text" in shown.out
    assert "answer a" in shown.out and "log.json!samples/1" in shown.out


# -- figures ----------------------------------------------------------------------------------------------------


def test_figures_follow_inspects_rules(log: Log) -> None:
    """Numbers worked by hand: 1, 0.5 and 0 have mean 0.5, variance 0.25 and standard error 0.5/sqrt(3)."""
    metrics: dict[str, Any] = {"accuracy": 0.5, "mean": 0.5, "std": 0.5, "var": 0.25, "stderr": 0.5 / math.sqrt(3)}
    results = {"scores": [stated(**metrics)]}
    path = log(sample("a"), sample("b", value="P"), sample("c", value="I"), failed("d"), results=results)
    found = figures(path)
    assert {name: n for name, (_, n, _) in found.items()} == {f"judge {name}": 3 for name in metrics}
    assert all(made == pytest.approx(said) for made, _, said in found.values())
    (source,) = analysis(path, definition="inspect").sources
    assert source.differs == (
        "inspect reports 0.5 as judge accuracy, the mean of 3 samples with a score; faircount counts entries, each by "
        "all of its epochs. Attempts that faircount counts apart: 1 ended in an error. Partial credit (P), 1 times, is "
        "half a point there and a success here.",
    )


@pytest.mark.parametrize(
    ("reducer", "value"),
    [("mean", 2 / 3), ("max", 1), ("median", 1), ("mode", 1), ("pass_at_2", 1), ("at_least_3", 0), ("pass_k_2", 1 / 3)],
)
def test_reducers_of_epochs_are_inspects(log: Log, reducer: str, value: float) -> None:
    epochs = [sample("a", number, one) for number, one in enumerate("CIC", 1)]
    path = log(*epochs, results={"scores": [stated(reducer=reducer, accuracy=value)]})
    made, n, _ = figures(path)[f"judge accuracy ({reducer})"]
    assert made == pytest.approx(value)
    assert n == 1


def test_a_sample_with_too_few_epochs_is_in_no_pass_at_k(log: Log) -> None:
    samples = [sample("a"), sample("a", 2, "I"), sample("b"), failed("b", 2)]
    path = log(*samples, results={"scores": [stated(reducer="pass_at_2", accuracy=1.0)]})
    assert figures(path)["judge accuracy (pass_at_2)"] == (1.0, 1, 1.0)


def test_a_figure_that_differs_from_the_samples_is_said(log: Log) -> None:
    path = log(sample("a"), sample("b", value="I"), results={"scores": [stated(accuracy=0.9, stderr=0.5)]})
    assert figures(path)["judge accuracy"] == (0.5, 2, 0.9)
    assert codes(analysis(path))["F040"] == 1


def test_a_figure_that_cannot_be_made_again_is_given_as_stated(log: Log) -> None:
    own = [
        stated(bootstrap_stderr=0.1, own=3.5),
        stated("x", "gone", accuracy=0.3),
        stated(reducer="of_mine", mean=0.2),
    ]
    path = log(sample("a"), results={"scores": own})
    found = figures(path)
    assert {name: made for name, (made, _, _) in found.items()} == {
        "judge bootstrap_stderr": 0.1,
        "judge own": 3.5,
        "gone.x accuracy": 0.3,
        "judge mean (of_mine)": 0.2,
    }
    assert "F040" not in codes(analysis(path))


def test_a_log_without_results_has_no_figures(log: Log) -> None:
    with pytest.raises(FaircountError, match="nothing of which inspect makes a figure"):
        analysis(log(sample("a")), definition="inspect")


# -- archives ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [0, 8, 93])
def test_an_archive_is_read_however_it_is_compressed(archive: Log, method: int) -> None:
    assert outcomes(analysis(archive(sample("a"), sample("b", value="I"), method=method))) == {
        "success": 1,
        "failure": 1,
    }


def test_of_a_doubled_member_the_later_one_counts(archive: Log) -> None:
    found = analysis(archive(failed("a"), sample("b", value="I"), sample("a")))
    assert outcomes(found) == {"success": 1, "failure": 1}
    assert found.sources[0].lines == 2


def test_evidence_names_the_member_of_a_sample(archive: Log, cli: Cli) -> None:
    path = archive(sample("a"), sample("cat/1"), sample("a"))
    assert f"{path}!samples/a_epoch_1.json" in cli("results", "show", "quiz/a", str(path)).out.replace("\n", "")


def test_a_killed_run_is_read_from_its_journal_and_samples(archive: Log) -> None:
    def summary(one: dict[str, Any]) -> dict[str, Any]:
        return {key: one[key] for key in ("id", "epoch", "input", "scores", "metadata")}

    journal = [
        ("_journal/summaries/10.json", [summary(sample("c", value="I"))]),
        ("_journal/summaries/2.json", [summary(sample("a")), summary(sample("b"))]),
    ]
    found = analysis(archive(sample("a"), more=journal, whole=False, eval={"dataset": {"sample_ids": list("abcd")}}))
    assert outcomes(found) == {"success": 2, "failure": 1}
    assert (codes(found)["F039"], codes(found)["F034"], codes(found)["F057"]) == (1, 1, 2)
    assert (found.sources[0].lines, found.sources[0].good_lines) == (3, 3)


def test_a_log_without_samples_gives_the_reduced_scores(archive: Log, log: Log) -> None:
    groups = [
        {"scorer": "judge", "reducer": reducer, "samples": [{"sample_id": one, "value": value} for one, value in given]}
        for reducer, given in (("mean", [("a", 0.75), (2, 0.25)]), ("max", [("a", "C"), (2, "C")]))
    ]
    results = {"scores": [stated(reducer="mean", accuracy=0.5), stated(reducer="max", accuracy=1.0)]}
    for path in (archive(more=[("reductions.json", groups)], results=results), log(reductions=groups, results=results)):
        found = analysis(path)
        assert outcomes(found) == {"success": 1, "failure": 1}
        assert codes(found)["F057"] == 2
        assert figures(path) == {"judge accuracy (mean)": (0.5, 2, 0.5), "judge accuracy (max)": (1.0, 2, 1.0)}


def test_a_damaged_sample_is_reported_and_its_summary_counts(archive: Log) -> None:
    path = archive(sample("a"), sample("b"), sample("c"), more=[("summaries.json", [sample("b", value="I")])], method=0)
    path.write_bytes(path.read_bytes().replace(b"answer b", b"answer x", 1))
    found = analysis(path)
    assert outcomes(found) == {"success": 2, "failure": 1}
    assert (codes(found)["F001"], codes(found)["F057"]) == (1, 1)
    assert next(one.where for one in found.findings if one.code == "F001") == (f"{path}!samples/b_epoch_1.json",)


def test_a_torn_archive_gives_the_samples_before_the_break(archive: Log) -> None:
    path = archive(sample("a"), sample("b", value="I"), sample("c"))
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(b"samples/c_epoch_1.json") + 40])
    found = analysis(path)
    assert outcomes(found) == {"success": 1, "failure": 1}
    assert (codes(found)["F002"], codes(found)["F039"]) == (1, 1)


def test_a_sample_over_the_limit_is_read_without_its_events(archive: Log) -> None:
    long = sample("a", events=[{"event": "x" * 1_000} for _ in range(50)])
    found = analysis(archive(long, sample("b", value="I")), max_line=20_000)
    assert outcomes(found) == {"success": 1, "failure": 1}
    assert not {"F001", "F002", "F027"} & set(codes(found))
    told = analysis(archive(sample("a", metadata={"x": "y" * 30_000})), max_line=20_000)
    assert (outcomes(told), codes(told)["F027"]) == ({"success": 1}, 1)


def test_without_zstandard_the_message_names_the_extra(archive: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(sample("a"))
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(FaircountError, match=r"pip install 'faircount\[zst\]'"):
        analysis(path)


def test_an_archive_of_something_else_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(zipped([("samples/a_epoch_1.json", b"{}"), ("other.json", b"{}")]))
    with pytest.raises(FaircountError):
        analysis(path)


# -- everything works on a log ----------------------------------------------------------------------------------


def test_commands_take_a_log(cli: Cli, tmp_path: Path) -> None:
    path = str(shutil.copy(SAMPLE, tmp_path / "log.json"))
    altered = tmp_path / "altered.json"
    altered.write_text(
        SAMPLE.read_text().replace('"Sure: room 12."', '"No."').replace('"value": "C"', '"value": "I"', 1)
    )
    attack = ("--aim", "attack")
    compared = cli("results", "compare", path, str(altered), *attack, "--output-format", "json")
    assert compared.code == 0, compared.err
    (pair,) = json.loads(compared.out)["pairs"]
    assert (pair["only_a"], pair["only_b"]) == (1, 0)
    shown = cli("results", "show", "front_desk/ada-roleplay", path, *attack)
    assert "Sure: room 12." in shown.out and "log.json!samples/7" in shown.out
    for words in (
        ("analyze", path, *attack, "--by", "technique"),
        ("analyze", path, *attack, "--where", "guest = ada"),
        ("check", path),
        ("export", path, *attack, "--to", "csv", "-o", str(tmp_path / "rows.csv")),
        ("convert-to-excel", path, *attack, "-o", str(tmp_path / "rows.xlsx")),
        ("sample-for-labels", path, *attack, "-o", str(tmp_path / "labels.jsonl")),
        ("rejudge", path, *attack, "--judge", 'contains("room")', "--rejudged", str(tmp_path / "again.jsonl")),
        ("analyze", str(tmp_path / "again.jsonl")),
    ):
        ran = cli("results", *words)
        assert ran.code == 0, (words, ran.err)
    assert cli("results", "analyze", path, *attack, "--fail-on", "asr > 90%").code == 0
    assert cli("results", "analyze", path, *attack, "--fail-on", "asr > 10%").code == 1


def test_an_extract_is_a_dataset_that_runs(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("results", "extract", str(SAMPLE), "--aim", "attack", "--category", "success", "-o", "d.jsonl").code == 0
    ran = cli("run", "d.jsonl", "--target", "simulated", "--judge", 'contains("x")', "--journal", "run.jsonl")
    assert ran.code == 0, ran.err
    assert analysis(tmp_path / "run.jsonl").tally.total == 2


@pytest.mark.parametrize("kind", ["log", "archive"])
def test_a_log_is_read_compressed_and_from_standard_input(
    kind: str, request: Any, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    path: Path = request.getfixturevalue(kind)(sample("a"), sample("b", value="I"))
    packed = path.with_name("packed.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert outcomes(analysis(packed)) == {"success": 1, "failure": 1}
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(path.read_bytes())))
    ran = cli("results", "analyze", "-", "--output-format", "json")
    assert json.loads(ran.out)["analyses"][0]["entries"]["success"] == 1


def test_the_sample_has_the_figures_of_its_page() -> None:
    found = analysis(SAMPLE, aim="attack")
    assert outcomes(found) == {"success": 2, "failure": 2, "guardrail": 1}
    assert found.attempts == 10
    made = figures(SAMPLE)
    assert {name: value for name, (value, _, _) in made.items()} == {
        "leaked accuracy (mean)": 0.375,
        "leaked stderr (mean)": pytest.approx(0.2394, abs=5e-5),
        "leaked accuracy (max)": 0.5,
        "leaked stderr (max)": pytest.approx(0.2887, abs=5e-5),
    }


# -- hostile logs -----------------------------------------------------------------------------------------------


def test_a_document_cut_anywhere_gives_what_comes_before(log: Log) -> None:
    path = log(sample("a"), sample("b", value="I"))
    whole = path.read_bytes()
    second = whole.index(b'{"id": "b"')
    for end in range(whole.index(b'"samples"'), len(whole), 401):
        path.write_bytes(whole[:end])
        try:
            found = analysis(path)
        except FaircountError:
            continue
        assert "F002" in codes(found)
        assert found.tally.total == (end >= second) + (end >= len(whole) - 2), end


@pytest.mark.parametrize("kind", ["log", "archive"])
def test_fields_of_the_wrong_kind_are_left_out_and_good_samples_count(kind: str, request: Any) -> None:
    odd = [
        sample("b", epoch="x"), sample("c", messages=7, input=[1]), sample("d", scores=[1]), sample("e", metadata="x"),
        sample("f", output=[]), sample("g", scores={"judge": None}), sample("h", working_time="long"), sample(None),
        sample("i", error=False), sample("j", limit=[], invalidation=0, error_retries=3), sample([1]),
        sample("k", output={"choices": [None], "completion": 3}), sample("l", metadata={"x" * 400: 1, "id": {}, "": 2}),
    ]  # fmt: skip
    found = analysis(request.getfixturevalue(kind)(sample("a"), *odd))
    assert found.tally.total == 12
    assert found.tally.success >= 6
    assert codes(found)["F001"] == 2
    assert codes(found)["F027"] >= 6


@pytest.mark.parametrize(
    "changed",
    [
        {
            "eval": {
                "task": 7,
                "model": [],
                "dataset": 3,
                "config": [],
                "packages": "x",
                "scorers": {"a": 1},
                "tags": "x",
            }
        },
        {
            "eval": {
                "config": {"epochs": "x", "epochs_reducer": [[]], "score_on_error": 2},
                "scorers": [1, {"name": []}],
            }
        },
        {"results": []},
        {"results": {"scores": [1, {"name": [], "scorer": {}, "metrics": [1]}, {"metrics": {"a": 1}}], "headline": 3}},
        {"results": {"scores": [stated(accuracy={"value": "x", "params": 3}, stderr={"params": {"cluster": []}})]}},
        {"results": {"scorer": 3, "metrics": []}},
        {"status": ["success"], "version": "x"},
        {"tags": {"a": 1}, "samples": {"a": 1}},
    ],
)
def test_a_header_of_the_wrong_kind_is_no_reason_to_stop(log: Log, archive: Log, changed: dict[str, Any]) -> None:
    if "status" not in changed:
        assert analysis(log(sample("a"), **changed)).tally.total == 1
    assert analysis(archive(sample("a"), **changed)).tally.total == 1


def test_huge_numbers_deep_nesting_and_lone_surrogates_are_read_or_reported(log: Log) -> None:
    path = log(sample("a"), sample("b", value="HERE"), sample("c\ud800", scores={"judge\ud800": score("C")}))
    text = path.read_text()
    for value in ("1" * 500, "1e999", "-1e999", "[" * 5_000 + "]" * 5_000, '{"a":' * 90 + "1" + "}" * 90, '"\\ud800"'):
        path.write_text(text.replace('"HERE"', value))
        found = analysis(path)
        assert found.tally.success >= 1
        assert found.tally.total + found.sources[0].bad_lines == 3


def test_many_judges_of_a_hostile_log_are_read_in_time(log: Log) -> None:
    samples = [sample(str(one), scores={"s": score({f"{one}-{key}": 1 for key in range(2_000)})}) for one in range(20)]
    assert analysis(log(*samples)).tally.total == 20


def _mutated(data: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data) or 1)
        end = min(len(data), place + rng.choice([1, 1, 2, 8, 200]))
        piece = rng.choice(
            [b"", bytes([rng.randrange(256)]), b"null", b"[", b"}", b'"', b"NaN", b"1e999", data[place:end] * 2]
        )
        data = data[:place] + piece + data[end:]
    return data if rng.random() < 0.8 else data[: rng.randrange(len(data) or 1)]


def _survives(path: Path) -> None:
    try:
        analyze(str(path), options=AnalyzeOptions(cache=False, definition="faircount"))
    except FaircountError as refusal:
        assert str(refusal)


def test_no_mutation_of_a_document_ends_in_anything_but_a_message(tmp_path: Path) -> None:
    rng, data, path = random.Random(1), SAMPLE.read_bytes(), tmp_path / "x.json"
    for _ in range(15):
        path.write_bytes(_mutated(data, rng))
        _survives(path)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["killed.eval", "old_v0.3.46.eval", "mailbox_agent_chunked.eval", "no_samples.eval"])
def test_no_mutation_of_an_archive_ends_in_anything_but_a_message(name: str, tmp_path: Path) -> None:
    rng, data, path = random.Random(2), (GOLDEN / name).read_bytes(), tmp_path / "x.eval"
    for _ in range(10):
        path.write_bytes(_mutated(data, rng))
        _survives(path)


def test_no_mutation_inside_an_archive_ends_in_anything_but_a_message(tmp_path: Path) -> None:
    rng, path = random.Random(3), tmp_path / "x.eval"
    said = header(results={"scores": [stated(accuracy=0.5, stderr=0.1)]}, eval={"dataset": {"sample_ids": ["a", "b"]}})
    members = {
        "_journal/start.json": said,
        "samples/a_epoch_1.json": sample("a"),
        "samples/b_epoch_1/sample.json": sample("b", messages=[], metadata=None),
        "samples/b_epoch_1/metadata.json": {"level": 1},
        "samples/b_epoch_1/messages/0.json": [{"role": "user", "content": "attachment://0"}],
        "samples/b_epoch_1/attachments/0.json": ["long"],
        "summaries.json": [sample("a"), sample("c")],
        "reductions.json": [{"scorer": "judge", "samples": [{"sample_id": "a", "value": 1}]}],
        "header.json": said,
    }
    whole = [(name, json.dumps(value).encode()) for name, value in members.items()]
    for _ in range(15):
        chosen = rng.randrange(len(whole))
        torn = [(name, _mutated(data, rng) if at == chosen else data) for at, (name, data) in enumerate(whole)]
        path.write_bytes(zipped(torn))
        _survives(path)


@pytest.mark.shared
def test_every_finding_names_the_sample_that_it_is_about(shared: Path, cli: Cli) -> None:
    path = shared / "golden" / "inspect" / "attack_epochs3.eval"
    found = analyze(str(path), aim="attack").analyses[0]
    (scale,) = [one for one in found.findings if one.code == "F052"]
    assert scale.where[0] == f"{path}!samples/g1-plain_epoch_1.json"
    assert "at samples/g1-plain_epoch_1.json" in cli("results", "analyze", str(path), "--aim", "attack").out
