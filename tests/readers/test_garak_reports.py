"""garak's reports: real ones of garak 0.17.1 beside their oracle, and small ones made by its format.

The golden reports are garak's own runs; `oracle.json` says what their eval lines hold, and what an independent count of
their attempts gives. Reports made here follow the format that garak's code writes, those of older versions as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from faircount import Analysis, AnalyzeOptions, analyze
from tests.conftest import ROOT, Cli, codes, shared_folder

SHARED = shared_folder()
GOLDEN = (SHARED or Path("shared")) / "golden" / "garak"
ORACLE: dict[str, Any] = json.loads((GOLDEN / "oracle.json").read_text()) if SHARED is not None else {}
REPORTS = [name for name, told in ORACLE.items() if "expected" in told]
HIT_LOGS = [name for name, told in ORACLE.items() if "expected" not in told]
PAIRS = [(name, pair) for name in REPORTS for pair in ORACLE[name]["expected"]]
OUTCOMES = ("success", "failure", "error", "guardrail", "unjudged")
pytestmark = pytest.mark.filterwarnings("error")

Lines = Iterable[Mapping[str, Any] | str]


def analysis(path: Path | str, **options: Any) -> Analysis:
    (found,) = analyze(str(path), options=AnalyzeOptions(cache=False, **options)).analyses
    return found


def message(text: str | None) -> dict[str, Any]:
    return {"text": text, "lang": "en", "data_path": None, "data_type": None, "data_checksum": None, "notes": {}}


def attempt(said: Any, scores: Mapping[str, Any], *, status: int = 2, seq: int = 0, **changed: Any) -> dict[str, Any]:
    """Return an attempt line of garak 0.17.1, with an output for each score of the first detector."""
    outputs = [message(f"answer {number}") for number in range(len(next(iter(scores.values()), [0])))]
    turns = said if isinstance(said, list) else [{"role": "user", "content": message(said)}]
    return {
        "entry_type": "attempt",
        "uuid": f"00000000-0000-0000-0000-{seq:012}",
        "seq": seq,
        "status": status,
        "probe_classname": "test.Probe",
        "prompt": {"turns": turns, "notes": None},
        "outputs": outputs,
        "detector_results": {} if status == 1 else scores,
        "notes": {},
        "goal": "say it",
        "conversations": [],
        **changed,
    }


SETUP = {"entry_type": "start_run setup", "plugins.target_type": "test.Target", "plugins.target_name": "small"}
INIT = {"entry_type": "init", "garak_version": "0.17.1", "start_time": "2026-01-01T00:00:00", "run": "run-1"}
CACHE = {
    "entry_type": "plugin_cache",
    "plugin_cache": {
        "probes": {
            "probes.test.Probe": {
                "primary_detector": "test.Second",
                "tags": ["owasp:llm01", "owasp:llm02", "avid-effect:security:S0100"],
                "tier": 1,
            }
        }
    },
}
END = {"entry_type": "completion", "end_time": "2026-01-01T00:01:00", "run": "run-1"}
Report = Callable[..., Path]


@pytest.fixture
def report(tmp_path: Path) -> Report:
    def write(*lines: Mapping[str, Any] | str, name: str = "x.report.jsonl", whole: bool = True) -> Path:
        every = [SETUP, INIT, *lines, END] if whole else lines
        path = tmp_path / name
        path.write_text("".join(one if isinstance(one, str) else json.dumps(one) + "\n" for one in every))
        return path

    return write


def outcomes(found: Analysis) -> dict[str, int]:
    return {name: count for name in OUTCOMES if (count := getattr(found.tally, name))}


# -- the golden reports -----------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize(("name", "pair"), PAIRS)
def test_entries_of_a_probe_and_detector_are_those_of_the_oracle(name: str, pair: str) -> None:
    probe, detector = pair.split(" / ")
    expected = ORACLE[name]["expected"][pair]
    judged = set(expected["outcomes"]) != {"error"}
    found = analysis(GOLDEN / name, where=f'probe = "{probe}"', judge=detector if judged else None)
    assert outcomes(found) == expected["outcomes"]
    assert (found.tally.total, found.attempts) == (expected["entries"], expected["attempts"])


@pytest.mark.shared
@pytest.mark.parametrize("name", REPORTS)
def test_garaks_own_figures_are_those_of_its_eval_lines(name: str) -> None:
    figures = analysis(GOLDEN / name, definition="garak").garak
    assert figures is not None
    told = {(one["probe"], one["detector"]): one for one in ORACLE[name]["tool_says"]}
    assert {(pair.probe, pair.detector) for pair in figures.pairs} == told.keys()
    for pair in figures.pairs:
        one, states = told[pair.probe, pair.detector], ORACLE[name]["expected"][f"{pair.probe} / {pair.detector}"]
        assert (pair.passed, pair.fails, pair.nones) == (one["passed"], one["fails"], one["nones"])
        assert pair.total == one["total_evaluated"]
        assert (pair.rate.low, pair.rate.high) == (one["confidence_lower"], one["confidence_upper"])
        assert pair.fails == states["attempt_states"].get("success", 0)
        assert pair.score == (pair.passed / pair.total if pair.total else None)


@pytest.mark.shared
@pytest.mark.parametrize("name", REPORTS)
def test_group_scores_are_those_of_the_digest(name: str) -> None:
    figures = analysis(GOLDEN / name, definition="garak").garak
    last = json.loads((GOLDEN / name).read_text(encoding="utf-8").splitlines()[-1])
    digest = last["eval"] if last["entry_type"] == "digest" else {}
    assert figures is not None
    assert {one.group: one.score for one in figures.groups} == {
        group: told["_summary"]["score"] for group, told in digest.items()
    }


@pytest.mark.shared
@pytest.mark.parametrize("name", REPORTS)
def test_a_run_without_completion_is_told(name: str) -> None:
    complete = "completion" in ORACLE[name]["entry_types"]
    found = analysis(GOLDEN / name)
    assert ("F039" in codes(found)) is not complete
    assert "F040" not in codes(found)
    (source,) = found.sources
    assert (source.tool, source.tool_version, source.reader, source.aim) == ("garak", "0.17.1", "garak", "attack")
    assert source.good_lines == ORACLE[name]["attempt_lines_by_status"]["2"]
    assert source.lines == sum(ORACLE[name]["entry_types"].values())


@pytest.mark.shared
@pytest.mark.parametrize("name", HIT_LOGS)
def test_a_hit_log_has_no_rate_and_gives_its_hits(name: str, cli: Cli, tmp_path: Path) -> None:
    ran = cli("results", "analyze", str(GOLDEN / name))
    assert ran.code == 3
    assert "garak hit log" in ran.err and "no denominator" in ran.err and "report.jsonl" in ran.err
    hits = tmp_path / "hits.jsonl"
    assert cli("results", "extract", str(GOLDEN / name), "-o", str(hits)).code == 0
    rows = [json.loads(line) for line in hits.read_bytes().split(b"\n") if line]
    assert sum(row["attempts"] for row in rows) == ORACLE[name]["lines"]
    by_pair: dict[str, int] = {}
    for row in rows:
        pair = f"{row['probe']} / {row['judge_name']}"
        by_pair[pair] = by_pair.get(pair, 0) + row["attempts"]
    assert by_pair == ORACLE[name]["pairs"]


@pytest.mark.shared
def test_a_hit_log_beside_its_report_leaves_the_report_as_it_is(cli: Cli) -> None:
    report, hits = GOLDEN / "reports/repeat_ansi1.report.jsonl", GOLDEN / "reports/repeat_ansi1.hitlog.jsonl"
    ran = cli("results", "analyze", str(report), str(hits), "--output-format", "json")
    (only,) = json.loads(ran.out)["analyses"]
    assert only["entries"]["success"] == 21
    assert "no denominator" in ran.err
    assert cli("results", "compare", str(report), str(hits)).code == 3


@pytest.mark.shared
def test_prompts_that_were_tried_five_times_and_once_are_the_same_entries(cli: Cli) -> None:
    both = (str(GOLDEN / f"reports/{name}.report.jsonl") for name in ("repeat", "repeat_ansi1"))
    document = json.loads(cli("results", "compare", *both, "--output-format", "json").out)
    (pair,) = document["pairs"]
    assert pair["unpaired"]["a"]["missing"]["count"] == 361 - 58
    assert pair["unpaired"]["b"]["missing"]["count"] == 0


@pytest.mark.shared
def test_an_aggregate_of_overlapping_runs_counts_each_prompt_once() -> None:
    found = analysis(GOLDEN / "analyze/aggregate_of_two_overlapping_runs.jsonl")
    # 361 prompts five times, and 58 of them once more.
    assert (found.tally.total, found.attempts) == (361, 361 * 5 + 58)
    assert not {"F039", "F040", "F041"} & set(codes(found))


# -- mapping ----------------------------------------------------------------------------------------------------


def test_the_probes_own_detector_decides_and_the_others_are_verdicts(report: Report) -> None:
    path = report(
        CACHE,
        attempt("a", {"test.First": [1.0, 1.0], "test.Second": [0.0, 0.0]}),
        attempt("b", {"test.First": [0.0, 0.0], "test.Second": [0.0, 0.5]}, seq=1),
    )
    assert outcomes(analysis(path)) == {"success": 1, "failure": 1}
    assert outcomes(analysis(path, judge="test.First")) == {"success": 1, "failure": 1}
    assert outcomes(analysis(path, judge="any")) == {"success": 2}
    figures = {one.judge: one.tally.success for one in analysis(path, by=("judge",)).judges}
    assert figures == {"test.First": 1, "test.Second": 1}


def test_without_a_plugin_cache_the_first_detector_decides(report: Report) -> None:
    path = report(attempt("a", {"test.First": [1.0], "test.Second": [0.0]}))
    assert outcomes(analysis(path)) == {"success": 1}


def test_missing_scores_are_unjudged_and_missing_outputs_are_errors(report: Report) -> None:
    path = report(
        attempt("a", {"d.D": [None, None]}),
        attempt("b", {"d.D": [None]}, seq=1, outputs=[None]),
        attempt("c", {"d.D": []}, seq=2, outputs=[]),
        attempt("d", {"d.D": [None, 1.0]}, seq=3),
        attempt("e", {}, seq=4, outputs=[message("hello")]),
        attempt("f", {"d.D": [0.0]}, seq=5, outputs=[message("")]),
    )
    found = analysis(path)
    assert outcomes(found) == {"success": 1, "failure": 1, "error": 2, "unjudged": 2}
    empty = attempt("x", {"d.D": [0.0]}, outputs=[message("")])
    assert analysis(report(empty)).role == "attacks"
    assert [kind.kind for kind in found.errors] == ["garak recorded no output"]


def test_an_attempt_that_was_never_judged_is_unjudged_and_counted_once(report: Report) -> None:
    judged, waiting = attempt("a", {"d.D": [0.0]}), attempt("b", {"d.D": [0.0]}, seq=1)
    path = report(
        SETUP, INIT, {**judged, "status": 1, "detector_results": {}}, {**waiting, "status": 1, "detector_results": {}},
        judged, whole=False,
    )  # fmt: skip
    found = analysis(path)
    assert outcomes(found) == {"failure": 1, "unjudged": 1}
    assert found.attempts == 2
    assert "F039" in codes(found)


def test_entries_that_nothing_judged_have_no_curve_and_are_not_taken_for_a_dataset(report: Report) -> None:
    begun = [attempt([f"answer {n}", "again"], {}, status=1, seq=n, prompt=f"prompt {n}") for n in range(4)]
    found = analysis(report(*begun))
    assert outcomes(found) == {"unjudged": 4}
    assert found.success_within is None
    (unjudged,) = [one for one in found.findings if one.code == "F014"]
    assert "is this a result file" not in unjudged.message


def test_families_are_triggers_or_else_probe_and_goal(report: Report) -> None:
    path = report(
        attempt("a", {"d.D": [0.0]}, notes={"triggers": ["secret"]}),
        attempt("b", {"d.D": [0.0]}, seq=1, notes={"triggers": ["secret"]}, probe_classname="test.Other"),
        attempt("c", {"d.D": [0.0]}, seq=2, notes={"triggers": ["other"]}),
        attempt("d", {"d.D": [0.0]}, seq=3),
        attempt("e", {"d.D": [0.0]}, seq=4),
        attempt("f", {"d.D": [0.0]}, seq=5, goal="another"),
    )
    found = analysis(path)
    assert found.families.count == 4
    assert found.families.by == "trigger or probe and goal"


def test_fields_are_those_of_the_probe(report: Report) -> None:
    found = analysis(report(CACHE, attempt("a", {"test.Second": [0.0]}), attempt("b", {"test.Second": [1.0]}, seq=1)))
    values = {name: [group.value for group in groups] for name, groups in found.breakdowns.items()}
    assert values["probe"] == ["test.Probe"]
    asked = analysis(report(CACHE, attempt("a", {"test.Second": [0.0]})), by=("module", "goal", "lang", "avid-effect"))
    values = {name: [group.value for group in groups] for name, groups in asked.breakdowns.items()}
    assert values["module"] == ["test"] and values["goal"] == ["say it"] and values["lang"] == ["en"]
    assert values["avid-effect"] == ["security:S0100"]
    (source,) = found.sources
    assert source.target == "test.Target small"


def test_equal_prompts_of_one_probe_are_entries_of_their_own(report: Report) -> None:
    path = report(attempt("a", {"d.D": [0.0]}), attempt("a", {"d.D": [0.0]}, seq=1))
    assert outcomes(analysis(path)) == {"failure": 2}
    assert "F006" not in codes(analysis(path))


def test_all_turns_of_a_conversation_make_the_entry(report: Report, cli: Cli) -> None:
    def turns(first: str) -> list[dict[str, Any]]:
        said = (("user", first), ("assistant", "yes?"), ("user", "go on"))
        return [{"role": role, "content": message(text)} for role, text in said]

    path = report(attempt(turns("x"), {"d.D": [0.0]}), attempt(turns("y"), {"d.D": [0.0]}, seq=0, uuid="other"))
    assert analysis(path).tally.total == 2
    out = path.with_name("rows.jsonl")
    assert cli("results", "extract", str(path), "--category", "failure", "-o", str(out)).code == 0
    row = json.loads(out.read_text().splitlines()[0])
    assert row["input"] == "go on"
    assert [turn["content"] for turn in row["conversation"]] == ["x", "yes?", "go on", "answer 0"]


# -- older versions: made by the format, not by garak -----------------------------------------------------------


def test_reports_before_0_13_have_plain_prompts_and_outputs(report: Report) -> None:
    old = {
        "entry_type": "attempt", "uuid": "u", "seq": 0, "status": 2, "probe_classname": "test.Probe",
        "probe_params": {}, "targets": [], "prompt": "say it", "outputs": ["it", None, "no"],
        "detector_results": {"test.D": [1.0, None, 0.0]}, "notes": {"trigger": "it"}, "goal": "g", "messages": [],
    }  # fmt: skip
    evaluated = {"entry_type": "eval", "probe": "test.Probe", "detector": "detector.test.D", "passed": 1, "total": 2}
    path = report(
        {"entry_type": "start_run setup", "plugins.model_type": "test", "plugins.model_name": "Blank"},
        {**INIT, "garak_version": "0.10.3.1"}, old, evaluated, END, whole=False,
    )  # fmt: skip
    found = analysis(path, definition="garak")
    assert outcomes(found) == {"success": 1} and found.attempts == 3
    assert found.sources[0].target == "test Blank" and found.sources[0].tool_version == "0.10.3.1"
    assert found.garak is not None and "F040" not in codes(found)
    (pair,) = found.garak.pairs
    assert (pair.detector, pair.passed, pair.total, pair.nones) == ("test.D", 1, 2, 1)


def test_a_prompt_is_the_same_entry_in_every_version(report: Report) -> None:
    new = report(attempt("say it", {"d.D": [0.0]}), name="new.jsonl")
    old = report(attempt("say it", {"d.D": [1.0]}, prompt="say it", outputs=["it"]), name="old.jsonl")
    as_list = report(attempt("", {"d.D": [1.0]}, prompt=[{"role": "user", "content": "say it"}]), name="list.jsonl")
    for path in (old, as_list):
        both = analyze(str(new), str(path), options=AnalyzeOptions(cache=False)).analyses
        assert [one.tally.total for one in both] == [1, 1]
    ids = {row_of(path)["id"] for path in (new, old, as_list)}
    assert len(ids) == 1


def row_of(path: Path) -> dict[str, Any]:
    from faircount.readers import Origin, rows_of

    (row,) = rows_of(Origin(str(path), str(path)), 1 << 20)
    found: dict[str, Any] = json.loads(row.line)
    return found


# -- damaged and hostile reports --------------------------------------------------------------------------------


def test_a_torn_end_costs_one_line(report: Report) -> None:
    whole = json.dumps(attempt("b", {"d.D": [1.0]}, seq=1))
    path = report(SETUP, INIT, attempt("a", {"d.D": [1.0]}), whole[: len(whole) // 2], whole=False)
    found = analysis(path)
    assert outcomes(found) == {"success": 1}
    assert {"F001", "F039"} <= set(codes(found))


def test_a_damaged_first_line_does_not_hide_what_the_file_is(report: Report) -> None:
    path = report('{"entry_type": "start_run se\n', INIT, attempt("a", {"d.D": [1.0]}), END, whole=False)
    found = analysis(path)
    assert (found.sources[0].reader, found.tally.success, found.sources[0].bad_lines) == ("garak", 1, 1)


def test_a_doubled_line_counts_once(report: Report) -> None:
    one = attempt("a", {"d.D": [1.0, 0.0]})
    evaluated = {"entry_type": "eval", "probe": "test.Probe", "detector": "d.D", "passed": 1, "fails": 1, "nones": 0}
    found = analysis(report(one, one, {**evaluated, "total_evaluated": 2}))
    assert (found.tally.total, found.attempts) == (1, 2)
    assert "F006" in codes(found) and "F040" not in codes(found)


def test_runs_in_one_file_are_kept_apart(report: Report) -> None:
    one = attempt("a", {"d.D": [1.0]})
    second = [{**SETUP, "plugins.target_type": "other.Target"}, {**INIT, "run": "run-2"}, one, {**END, "run": "run-2"}]
    found = analysis(report(one, END, *second))
    assert outcomes(found) == {"success": 2}
    assert "F041" in codes(found)
    assert found.sources[0].target is None


def test_a_run_that_is_there_twice_counts_once(report: Report) -> None:
    one = attempt("a", {"d.D": [1.0]})
    found = analysis(report(one, END, SETUP, INIT, one))
    assert outcomes(found) == {"success": 1}
    assert "F006" in codes(found) and "F041" not in codes(found)


@pytest.mark.parametrize("score", [1e300, -3, 7, "high", {"a": 1}, [1]])
def test_a_score_that_is_none_is_unjudged(report: Report, score: Any) -> None:
    found = analysis(report(attempt("a", {"d.D": [score]})))
    assert outcomes(found) == {"unjudged": 1}
    assert "F004" in codes(found)


def test_scores_that_are_not_numbers_of_json_are_unjudged(report: Report) -> None:
    line = json.dumps(attempt("a", {"d.D": [0.25]}))
    path = report(*(line.replace("0.25", word) + "\n" for word in ("NaN",)))
    found = analysis(path)
    assert outcomes(found) == {"unjudged": 1}
    assert "F012" in codes(found)


def test_scores_that_do_not_match_the_outputs_are_told(report: Report) -> None:
    path = report(attempt("a", {"d.D": [0.0]}, outputs=[message("x"), message("y")]), attempt("b", {"d.D": [0.0, 1.0]},
                  seq=1, outputs=[message("x")]))  # fmt: skip
    found = analysis(path)
    assert "F042" in codes(found)
    assert outcomes(found) == {"failure": 2}
    assert found.attempts == 3


def test_counts_of_garaks_that_differ_are_told_and_not_used(report: Report) -> None:
    evaluated = {"entry_type": "eval", "probe": "test.Probe", "detector": "d.D", "passed": 9, "total_evaluated": 10}
    found = analysis(report(attempt("a", {"d.D": [0.0]}), evaluated))
    assert outcomes(found) == {"failure": 1}
    (told,) = [one.message for one in found.findings if one.code == "F040"]
    assert "test.Probe / d.D: garak counted 9 passed of 10, its attempts say 1 of 1" in told


@pytest.mark.parametrize(
    "line",
    [
        "[1]",
        "null",
        '{"entry_type": 5}',
        '{"entry_type": "attempt"}',
        '{"entry_type": "attempt", "probe_classname": 5, "status": 2}',
        '{"entry_type": "attempt", "probe_classname": "p.P", "status": 2, "outputs": "x"}',
        '{"entry_type": "attempt", "probe_classname": "p.P", "prompt": ' + "[" * 5000 + "]" * 5000 + "}",
        "\x00",
        "{",
    ],
)
def test_a_line_that_cannot_be_read_is_counted_as_such(report: Report, line: str) -> None:
    found = analysis(report(line + "\n", attempt("a", {"d.D": [1.0]})))
    assert outcomes(found) == {"success": 1}
    assert found.sources[0].bad_lines == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"prompt": {"turns": "x"}},
        {"prompt": 5},
        {"prompt": None},
        {"outputs": [5, {"text": 7}, ["x"]]},
        {"detector_results": {"d.D": "x", "e.E": [1.0]}},
        {"notes": 5, "goal": {"a": 1}, "intent": []},
        {"notes": {"triggers": {"a": 1}}},
        {"seq": "x", "uuid": None},
        {"outputs": [{"text": "\ud800"}], "prompt": "\udfff"},
    ],
)
def test_odd_values_cost_nothing_but_themselves(report: Report, changed: dict[str, Any], cli: Cli) -> None:
    path = report(attempt("a", {"d.D": [1.0, 0.0, 0.0]}, **changed), attempt("b", {"d.D": [0.0]}, seq=1))
    found = analysis(path)
    assert found.tally.total == 2 and not found.sources[0].bad_lines
    shown = cli("results", "export", str(path), "--to", "csv", "-o", str(path.with_suffix(".csv")))
    assert shown.code == 0, shown.err


def test_a_report_without_attempts_is_empty(report: Report) -> None:
    assert "F026" in codes(analysis(report()))


def test_blank_lines_and_a_byte_order_mark_are_no_problem(report: Report) -> None:
    path = report("\ufeff" + json.dumps(SETUP) + "\n", INIT, "\n", attempt("a", {"d.D": [1.0]}), END, whole=False)
    found = analysis(path)
    assert (found.tally.success, found.sources[0].blank_lines, found.sources[0].bad_lines) == (1, 1, 0)


def test_many_rows_in_several_batches_keep_the_verdicts_of_each_detector(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faircount.readers.garak._BATCH_ROWS", 3)
    scores = {"d.D": [1.0], "e.E": [0.0]}
    path = report(*(attempt(f"prompt {number}", scores, seq=number) for number in range(10)))
    figures = {one.judge: one.tally.success for one in analysis(path, by=("judge",)).judges}
    assert figures == {"d.D": 10, "e.E": 0}


# -- everything that is done with results ------------------------------------------------------------------------


@pytest.fixture
def small(report: Report) -> Path:
    scores = [{"test.First": [1.0, 0.0], "test.Second": [float(number % 2), 0.0]} for number in range(6)]
    return report(CACHE, *(attempt(f"prompt {at}", one, seq=at) for at, one in enumerate(scores)))


@pytest.mark.parametrize("form", ["console", "json", "markdown", "html", "xlsx"])
def test_every_presenter_shows_garaks_figures(small: Path, cli: Cli, form: str) -> None:
    out = small.with_name(f"out.{form}")
    ran = cli("results", "analyze", str(small), "--definition", "garak", "--output-format", form, "-o", str(out))
    assert ran.code == 0, ran.err
    assert out.stat().st_size > 500


def test_figures_of_a_page_are_titled_by_the_field_that_they_show(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    sample = ROOT / "docs" / "samples" / "garak.report.jsonl"
    assert cli("results", "analyze", str(sample), "-o", str(page)).code == 0
    shown = page.read_text("utf-8")
    assert "Success rate by probe" in shown
    assert "Success rate by judge" not in shown


def test_extracted_entries_can_be_run_again(small: Path, cli: Cli) -> None:
    data, journal = small.with_name("data.jsonl"), small.with_name("run.jsonl")
    assert cli("results", "extract", str(small), "--category", "success", "-o", str(data)).code == 0
    ran = cli("run", str(data), "--target", "simulated:assistant", "--judge", "mitigation-bypass",
              "--journal", str(journal))  # fmt: skip
    assert ran.code == 0, ran.err
    assert analysis(journal).tally.total == 3


def test_rejudging_adds_verdicts_to_the_same_entries(small: Path, cli: Cli) -> None:
    again = small.with_name("rejudge_x.jsonl")
    ran = cli("results", "rejudge", str(small), "--judge", "mitigation-bypass", "--rejudged", str(again))
    assert ran.code == 0, ran.err
    assert outcomes(analysis(again)) == {"success": 6}
    (both,) = analyze(str(small), str(again), options=AnalyzeOptions(combine=True, cache=False)).analyses
    assert outcomes(both) == {"success": 6}
    assert {"F008", "F009"} <= set(codes(both))


def test_other_commands_take_a_report(small: Path, cli: Cli) -> None:
    sheet, table = small.with_name("labels.jsonl"), small.with_name("x.xlsx")
    for words in (
        ("judges", "agree", "--results", str(small)),
        ("results", "check", str(small)),
        ("results", "sample-for-labels", str(small), "--n", "4", "-o", str(sheet)),
        ("results", "convert-to-excel", str(small), "-o", str(table)),
        ("results", "analyze", str(small), "--where", "probe = test.Probe", "--by", "probe", "--by", "judge"),
        ("results", "analyze", str(small), "--fail-on", "asr > 99%"),
    ):
        ran = cli(*words)
        assert ran.code == 0, (words, ran.err)
    assert cli("results", "analyze", str(small), "--fail-on", "asr > 1%").code == 1


def test_rows_are_shown_with_every_generation(small: Path, cli: Cli) -> None:
    rows = small.with_name("rows.jsonl")
    assert cli("results", "export", str(small), "--to", "jsonl", "-o", str(rows)).code == 0
    first = json.loads(rows.read_text().splitlines()[0])
    ran = cli("results", "show", first["id"], str(small))
    assert ran.code == 0
    assert "test.First: success (1.0); test.Second: failure (0.0)" in " ".join(ran.out.split())


# -- garak's definition and metrics -----------------------------------------------------------------------------


def test_garaks_definition_is_refused_for_other_files(cli: Cli, tmp_path: Path, small: Path) -> None:
    other = tmp_path / "results_x.jsonl"
    other.write_text('{"id": 1, "success": true, "input": "a", "response": "b"}\n')
    ran = cli("results", "analyze", str(other), "--definition", "garak")
    assert (ran.code, "needs a garak report, and this is a file of spikee" in ran.err) == (3, True)
    for option in (("--combine",), ("--where", "probe = x"), ("--judge", "test.First")):
        ran = cli("results", "analyze", str(small), "--definition", "garak", *option)
        assert (ran.code, "exclude each other" in ran.err) == (2, True), option


def metrics(path: Path, **shares: tuple[float, float]) -> Path:
    results = {
        name.replace("_", "."): {"metrics": {"hit_sensitivity": se, "hit_specificity": sp}}
        for name, (se, sp) in shares.items()
    }
    path.write_text(json.dumps({"results": results, "metadata": {}}))
    return path


def test_garaks_metrics_correct_its_rates_without_an_interval(report: Report, tmp_path: Path, cli: Cli) -> None:
    hits = [{"test.First": [float(at < 6)], "test.Second": [float(at < 2)], "x.X": [0.0]} for at in range(10)]
    path = report(CACHE, *(attempt(f"p{at}", one, seq=at) for at, one in enumerate(hits)))
    quality = metrics(tmp_path / "metrics.json", test_First=(0.9, 0.6), test_Second=(0.1, 0.9))
    found = analysis(path, judge_quality=str(quality))
    assert found.garak is not None
    first, second, third = found.garak.pairs
    # (0.6 + 0.6 - 1) / (0.9 + 0.6 - 1)
    assert first.corrected == pytest.approx(0.4)
    assert (second.corrected, second.uncorrected) == (None, "not identifiable")
    assert (third.corrected, third.uncorrected) == (None, "not measured")
    assert {"F044", "F030"} <= set(codes(found))
    assert found.rates.asr_corrected is None
    ran = cli("results", "analyze", str(path), "--judge-quality", str(quality))
    assert "90.0% / 60.0%" in ran.out and "judges evaluate garak:test.First --labels FILE" in " ".join(ran.out.split())


@pytest.mark.shared
def test_the_published_metrics_are_applied_to_a_golden_report() -> None:
    quality = GOLDEN / "detector_metrics/current_6_detectors.json"
    told = json.loads(quality.read_text())["results"]
    figures = analysis(GOLDEN / "reports/repeat.report.jsonl", judge_quality=str(quality)).garak
    assert figures is not None
    corrected = {pair.detector: pair for pair in figures.pairs if pair.corrected is not None}
    assert set(corrected) == {"dan.DAN", "mitigation.MitigationBypass"}
    for detector, pair in corrected.items():
        se, sp = (told[detector]["metrics"][name] for name in ("hit_sensitivity", "hit_specificity"))
        assert pair.rate.value is not None
        assert pair.corrected == pytest.approx(min(max((pair.rate.value + sp - 1) / (se + sp - 1), 0), 1))
