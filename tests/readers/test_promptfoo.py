"""promptfoo's results: real ones of versions 0.24, 0.80 and 0.121 beside their oracle, and small ones made here.

`oracle.json` says what promptfoo itself states of the golden files (`tool_says`), and what an independent count of
their rows gives (`expected`): of a file as a whole and of each provider.
"""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from faircount import Analysis, AnalyzeOptions, FaircountError, analyze
from faircount.core import Source, ToolFigure
from faircount.readers import Probe, PromptfooReader, keys_of
from tests.conftest import ROOT, Cli, codes, shared_folder

SHARED = shared_folder()
GOLDEN = (SHARED or Path("shared")) / "golden" / "promptfoo"
ORACLE: dict[str, Any] = json.loads((GOLDEN / "oracle.json").read_text()) if SHARED is not None else {}
DATABASE = "promptfoo_killed_run.db"
SAMPLE = ROOT / "docs" / "samples" / "promptfoo.json"
RUNS = [(name, run) for name in ORACLE for run in ORACLE[name]["expected"]]
OUTCOMES = ("success", "failure", "error", "guardrail", "unjudged")
BOTH = ("weak", "strong")
pytestmark = pytest.mark.filterwarnings("error")


def analysis(*paths: Path | str, **options: Any) -> Analysis:
    (found,) = analyze(*map(str, paths), options=AnalyzeOptions(cache=False, **options)).analyses
    return found


def outcomes(found: Analysis, *, every: bool = False) -> dict[str, int]:
    counts = {name: getattr(found.tally, name) for name in OUTCOMES}
    return counts if every else {name: count for name, count in counts.items() if count}


def figures(source: Source) -> dict[str, ToolFigure]:
    return {one.name: one for one in source.figures}


def component(passed: Any = True, kind: str = "contains", **changed: Any) -> dict[str, Any]:
    reason = "Assertion passed" if passed else "Expected output to contain"
    return {"pass": passed, "score": int(bool(passed)), "reason": reason, "assertion": {"type": kind}, **changed}


def row(
    thing: str = "a", *components: Mapping[str, Any], provider: str = "bot", number: int = 0, **changed: Any
) -> dict[str, Any]:
    """Return a row of version 3: it passes if its assertions do, of which there is one if none is given."""
    results = components or (component(),)
    passed = all(one["pass"] for one in results)
    made = {
        "id": f"id-{provider}-{number}-{thing}",
        "testIdx": number,
        "promptIdx": 0,
        "provider": {"id": f"{provider}-id", "label": provider},
        "prompt": {"raw": f"What is {thing}?", "label": "What is {{thing}}?"},
        "vars": {"thing": thing},
        "testCase": {"description": "", "vars": {"thing": thing}, "assert": [{"type": "contains", "value": "7"}]},
        "response": {"output": f"answer to {thing}"},
        "success": passed,
        "failureReason": 0 if passed else 1,
        "score": float(passed),
        "gradingResult": {
            "pass": passed,
            "score": float(passed),
            "reason": "All assertions passed" if passed else "Expected output to contain",
            "componentResults": list(results),
        },
        "latencyMs": 12,
        "metadata": {},
    }
    return made | changed


def failed(thing: str = "a", **changed: Any) -> dict[str, Any]:
    return row(thing, component(False), **changed)


def error(thing: str = "a", **changed: Any) -> dict[str, Any]:
    return row(thing, **{"success": False, "failureReason": 2, "error": "503", "gradingResult": None, **changed})


def attack(
    text: str = "do it", passed: bool = True, plugin: str = "contracts", strategy: str | None = None, **changed: Any
) -> dict[str, Any]:
    """Return a row of a red team; one that passed is an attack that failed."""
    metadata = {"pluginId": plugin, "severity": "high"}
    if strategy is not None:
        metadata |= {"strategyId": strategy, "originalText": text}
    sent = text if strategy is None else f"{strategy} of {text}"
    made = row(text, component(passed, f"promptfoo:redteam:{plugin}", **changed.pop("judged", {})))
    case = {"vars": {"query": sent}, "assert": [{"type": f"promptfoo:redteam:{plugin}"}], "metadata": metadata}
    return made | {"vars": {"query": sent}, "testCase": case, "metadata": metadata, "id": sent + plugin, **changed}


def document(*rows: Mapping[str, Any], results: Mapping[str, Any] | None = None, **changed: Any) -> dict[str, Any]:
    """Return a document of version 3 in promptfoo's order."""
    given = [one["provider"].get("label") for one in rows if isinstance(one.get("provider"), dict)]
    providers = dict.fromkeys(name for name in given if isinstance(name, str))
    prompts = [{"raw": "What is {{thing}}?", "label": "What is {{thing}}?", "provider": name} for name in providers]
    inner = {"version": 3, "timestamp": "2026-01-01", "prompts": prompts, "results": list(rows), **(results or {})}
    return {"evalId": "eval-1", "results": inner, "config": {}, "metadata": {"promptfooVersion": "0.121.20"}, **changed}


@pytest.fixture
def made(tmp_path: Path) -> Any:
    """Write rows as a document, and return its path."""

    def write(*rows: Mapping[str, Any], name: str = "eval.json", **changed: Any) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(document(*rows, **changed), indent=2))
        return path

    return write


def lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


# -- the golden files -------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize(("name", "run"), [*RUNS, *((DATABASE, run) for run in ("all", "strong-bot", "weak-bot"))])
@pytest.mark.parametrize("aim", [None, "attack"])
def test_outcomes_are_those_of_the_oracle(name: str, run: str, aim: str | None) -> None:
    every = ORACLE["killed.jsonl" if name == DATABASE else name]["expected"]
    path = GOLDEN / name if run == "all" or len(every) == 2 else GOLDEN / name / run
    found = analysis(path, combine=run == "all", aim=aim)
    by_mean = "outcomes" if aim == "attack" else "outcomes_task_mean"
    assert outcomes(found, every=True) == every[run].get(by_mean, every[run]["outcomes"])
    assert (found.tally.total, found.attempts) == (every[run]["entries"], every[run]["attempts"])


@pytest.mark.shared
@pytest.mark.parametrize("name", [name for name in ORACLE if ORACLE[name]["tool_says"]])
def test_figures_of_a_file_are_those_that_promptfoo_states(name: str) -> None:
    said = ORACLE[name]["tool_says"]
    source = whole(GOLDEN / name)
    found = figures(source)
    assert (found["pass rate"].count, found["failures"].count) == (said["successes"], said["failures"])
    assert found["errors"].count == (said["errors"] or 0)
    assert found["pass rate"].value == pytest.approx(said["pass_rate_percent"] / 100, abs=5e-5)
    assert found["pass rate"].stated == found["pass rate"].value
    if "report_asr" in said:
        assert found["attack success rate"].value == pytest.approx(said["report_asr"])
    assert "attack success rate" not in found or "report_asr" in said


@pytest.mark.shared
@pytest.mark.parametrize("prompt", ORACLE.get("eval.json", {}).get("tool_says", {}).get("prompts", []))
def test_figures_of_a_provider_are_those_of_its_column(prompt: dict[str, Any]) -> None:
    found = analysis(GOLDEN / "eval.json" / prompt["provider"], definition="promptfoo")
    counts = [figures(found.sources[0])[name].count for name in ("pass rate", "failures", "errors")]
    assert counts == [prompt["testPassCount"], prompt["testFailCount"], prompt["testErrorCount"]]
    assert "F040" not in codes(found)


def whole(path: Path) -> Source:
    """Return a file as its reader describes it with all its runs."""
    from faircount.core import Notes
    from faircount.readers import Found, ReadOptions, open_source

    stream, reader = open_source(str(path), str(path))
    found = Found(Notes(str(path)))
    for _ in reader.read(stream, ReadOptions(), found):
        pass
    return reader.source(found, stream.bytes_read)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "redteam.json",
            "promptfoo reports an attack success rate of 53.3% (8 of 15); 2 of those 8 are grader failures; 3 of the "
            "other 7 were stopped by a filter; 1 more is an error and left out.",
        ),
        (
            "eval.json",
            "promptfoo reports a pass rate of 37.5% (21 of 56 rows); 8 of the 29 failures are grader failures; 8 of "
            "the 29 failures were stopped by a filter; 4 of those 21 have no assertion.",
        ),
        (
            "old_v0.80.3.json",
            "promptfoo reports a pass rate of 41.7% (5 of 12 rows); 3 of the 7 failures are errors; 2 of those 5 have "
            "no assertion.",
        ),
        (
            "old_v0.24.2.json",
            "promptfoo reports a pass rate of 30.0% (3 of 10 rows); 1 of the 7 failures is an error; 2 of those 3 have "
            "no assertion.",
        ),
    ],
)
def test_a_sentence_says_where_promptfoos_figure_is_not_ours(name: str, sentence: str) -> None:
    assert whole(GOLDEN / name).differs == (sentence,)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("redteam.json", {"F034": 1, "F045": 2, "F047": 1, "F054": 1, "F056": 3}),
        ("eval.json/weak-bot", {"F045": 3, "F048": 2, "F056": 4}),
        ("old_v0.80.3.json", {"F046": 3, "F048": 2}),
        ("old_v0.24.2.json", {"F046": 1, "F047": 2, "F048": 2}),
        ("killed.jsonl/weak-bot", {"F039": 1}),
        (f"{DATABASE}/weak-bot", {"F039": 1}),
    ],
)
def test_what_promptfoo_counts_and_is_no_verdict_is_reported(name: str, expected: dict[str, int]) -> None:
    found = {code: count for code, count in codes(analysis(GOLDEN / name)).items() if "F038" < code < "F058"}
    assert {**found, **{code: count for code, count in codes(analysis(GOLDEN / name)).items() if code == "F034"}} == (
        expected
    )


@pytest.mark.shared
def test_files_of_one_run_hold_the_same_entries(cli: Cli, tmp_path: Path) -> None:
    def ids(name: str) -> set[str]:
        rows = tmp_path / f"{name.replace('/', '-')}.rows.jsonl"
        rows.unlink(missing_ok=True)
        assert cli("results", "export", str(GOLDEN / name), "--to", "jsonl", "-o", str(rows)).code == 0
        return {json.loads(line)["id"] for line in rows.read_text().splitlines()}

    assert ids("killed.jsonl/weak-bot") == ids(f"{DATABASE}/weak-bot")
    assert ids("killed.jsonl/weak-bot") < ids("eval.json/weak-bot") == ids("eval.jsonl/weak-bot")
    assert ids("eval.json/weak-bot") == ids("eval.json/strong-bot")
    assert ids("redteam.json") == ids("redteam.jsonl")


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "what"), [("eval.csv", "errors and grader failures look like verdicts"), ("eval.yaml", "in YAML")]
)
def test_other_outputs_are_refused_with_the_way_to_json(name: str, what: str, cli: Cli) -> None:
    ran = cli("results", "analyze", str(GOLDEN / name))
    assert ran.code == 3
    told = " ".join(ran.err.split())
    assert what in told and "promptfoo export eval ID -o x.json" in told


@pytest.mark.shared
def test_no_other_golden_file_is_taken_for_promptfoos() -> None:
    reader, claimed = PromptfooReader(), []
    for path in (SHARED or Path()).joinpath("golden").rglob("*"):
        if path.is_file() and reader.sniff(Probe(path.read_bytes()[:65_536], str(path))):
            claimed.append(path.parent.name)
    assert set(claimed) == {"promptfoo"}
    assert len(claimed) == len(ORACLE) + 1


# -- recognition ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("indent", [None, 2])
def test_a_document_is_known_by_its_first_keys(indent: int | None) -> None:
    head = json.dumps(document(row()), indent=indent).encode()
    assert "results.version" in keys_of(head)
    assert PromptfooReader().sniff(Probe(head))
    assert PromptfooReader().sniff(Probe(head[:400]))
    assert not PromptfooReader().sniff(Probe(b'{"results": {"acc": 1}, "version": 3}'))
    assert not PromptfooReader().sniff(Probe(b'{"version": 2, "results": [{"version": 3}]}'))


def test_rows_on_one_line_are_read_like_those_of_a_document(made: Any, tmp_path: Path) -> None:
    rows = [row("a"), failed("b", number=1), error("c", number=2)]
    streamed = lines(tmp_path / "x.jsonl", ({k: v for k, v in one.items() if k != "id"} for one in rows))
    short = tmp_path / "short.json"
    short.write_text(json.dumps(document(*rows)))
    for path in (made(*rows), streamed, short):
        assert outcomes(analysis(path)) == {"success": 1, "failure": 1, "error": 1}


def test_a_byte_order_mark_is_no_problem(made: Any, tmp_path: Path) -> None:
    path = made(row("a"), failed("b"))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    streamed = lines(tmp_path / "x.jsonl", [row("a"), failed("b")])
    streamed.write_bytes(b"\xef\xbb\xbf" + streamed.read_bytes())
    for one in (path, streamed):
        assert outcomes(analysis(one)) == {"success": 1, "failure": 1}


def test_rows_with_their_ids_are_recognised_on_lines(tmp_path: Path) -> None:
    path = lines(tmp_path / "x.jsonl", [row("a"), failed("b", number=1)])
    found = analysis(path)
    assert (found.sources[0].reader, outcomes(found)) == ("promptfoo", {"success": 1, "failure": 1})
    assert "F039" not in codes(found)


# -- states and direction ---------------------------------------------------------------------------------------

FLAGGED = {"output": "blocked", "guardrails": {"flagged": True, "reason": "policy"}}
BROKEN = component(False, "llm-rubric", metadata={"graderError": True}, reason="judge overloaded")
THREW = component(False, "javascript", reason="Custom function threw error: x is undefined")
NOTHING = {"pass": True, "score": 1, "reason": "No assertions", "componentResults": []}


@pytest.mark.parametrize(
    ("one", "outcome"),
    [
        (row(), "success"),
        (failed(), "failure"),
        (error(), "error"),
        (error(gradingResult=row()["gradingResult"]), "error"),
        (failed(error="Expected output to contain"), "failure"),
        (failed(response=FLAGGED), "guardrail"),
        (row(response=FLAGGED), "success"),
        (row(gradingResult=NOTHING), "unjudged"),
        (row("a", BROKEN), "unjudged"),
        (row("a", THREW), "unjudged"),
        (row("a", BROKEN, component(False)), "failure"),
        (row("a", BROKEN, component(False, assertion=None)), "unjudged"),
        (row(success=None), "success"),
        (row(success=None, gradingResult=None), "unjudged"),
        (row(success="yes", gradingResult=None), "unjudged"),
        (failed(failureReason=7), "unjudged"),
        (failed(failureReason=None), "failure"),
        (failed(failureReason=None, gradingResult=None), "error"),
        (failed(failureReason=None, response={"error": "503"}), "error"),
        # A database gives rows of old versions the default, 0.
        (failed(failureReason=0, gradingResult=None), "error"),
        (failed(failureReason=0), "failure"),
    ],
)
def test_the_state_of_a_task(one: dict[str, Any], outcome: str, made: Any) -> None:
    found = analysis(made(one))
    assert found.sources[0].aim == "task"
    assert outcomes(found) == {outcome: 1}


@pytest.mark.parametrize(
    ("one", "outcome"),
    [
        (attack(passed=False), "success"),
        (attack(passed=True), "failure"),
        (attack(passed=True, response=FLAGGED), "guardrail"),
        (attack(passed=False, response=FLAGGED), "success"),
        (attack(passed=False, judged={"metadata": {"graderError": True}}), "unjudged"),
        (attack(passed=False, judged={"reason": "Could not extract JSON from x"}), "unjudged"),
        (attack(passed=False, failureReason=2), "error"),
        (attack(passed=False, metadata={}), "success"),
    ],
)
def test_the_state_of_an_attack(one: dict[str, Any], outcome: str, made: Any) -> None:
    found = analysis(made(one))
    assert found.sources[0].aim == "attack"
    assert outcomes(found) == {outcome: 1}


def test_an_attack_read_as_a_task_is_done_right_when_it_is_resisted(made: Any) -> None:
    path = made(attack("a", passed=True), attack("b", passed=False), attack("c", passed=True))
    assert outcomes(analysis(path, aim="task")) == {"success": 2, "failure": 1}
    assert outcomes(analysis(path)) == {"success": 1, "failure": 2}


def test_the_first_row_decides_the_aim_and_others_are_reported(made: Any) -> None:
    found = analysis(made(attack("a", passed=False), failed("b"), row("c")))
    assert (found.sources[0].aim, outcomes(found)) == ("attack", {"success": 2, "failure": 1})
    assert codes(found)["F051"] == 1
    found = analysis(made(failed("b"), row("c"), attack("a", passed=False)))
    assert (found.sources[0].aim, outcomes(found)) == ("task", {"success": 1, "failure": 2})
    assert codes(found)["F051"] == 1


def test_the_verdicts_of_an_attack_are_turned(made: Any) -> None:
    path = made(attack("a", passed=False), attack("b", passed=True, plugin="pii"))
    assert outcomes(analysis(path, judge="promptfoo:redteam:contracts")) == {"success": 1, "unjudged": 1}
    assert outcomes(analysis(path, judge="promptfoo:redteam:pii")) == {"failure": 1, "unjudged": 1}


def test_every_assertion_is_a_judge(made: Any) -> None:
    named = component(False, assertion={"type": "contains", "metric": "right"})
    path = made(row("a", component(), component(False), named, namedScores={"right": 0, "f": 0.8, "far": 7}))
    judges = {one.judge: outcomes_of(one.tally) for one in analysis(path, by=("judge",)).judges}
    assert judges == {
        "all assertions": {"failure": 1},
        "contains": {"success": 1},
        "contains #2": {"failure": 1},
        "contains/right": {"failure": 1},
        "f": {"success": 1},
        "far": {"unjudged": 1},
    }
    assert outcomes(analysis(path, judge="f")) == {"success": 1}


def outcomes_of(tally: Any) -> dict[str, int]:
    return {name: count for name in OUTCOMES if (count := getattr(tally, name))}


# -- entries, attempts and runs ---------------------------------------------------------------------------------


def exported(path: Path | str, cli: Cli) -> list[dict[str, Any]]:
    out = Path(str(path).partition(".json")[0] + ".rows.jsonl")
    out.unlink(missing_ok=True)
    ran = cli("results", "export", str(path), "--to", "jsonl", "-o", str(out))
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_repeats_are_attempts_on_one_entry_whatever_their_order(made: Any, cli: Cli) -> None:
    rows = [row("a"), failed("a", number=1), failed("b", number=2), row("b", number=3), row("b", number=4)]
    first = made(*rows)
    assert (analysis(first).tally.total, analysis(first).attempts) == (2, 5)
    ids = {one["id"] for one in exported(first, cli)}
    # By the mean, one of two is not enough, and two of three are.
    assert outcomes(analysis(first)) == {"success": 1, "failure": 1}
    random.Random(1).shuffle(rows)
    again = made(*(one | {"id": f"other {at}", "testIdx": at + 50} for at, one in enumerate(rows)), name="again.json")
    assert {one["id"] for one in exported(again, cli)} == ids


@pytest.mark.parametrize(
    "changed",
    [
        {"testCase": {"vars": {"thing": "a"}, "assert": [{"type": "contains", "value": "8"}]}},
        {"testCase": {"vars": {"thing": "a"}, "assert": [{"type": "contains", "value": "7"}], "description": "other"}},
        {"prompt": {"raw": "What is a?", "label": "other"}},
        {"testCase": {"vars": {"thing": "A"}, "assert": [{"type": "contains", "value": "7"}]}},
    ],
)
def test_another_prompt_assertion_description_or_variable_is_another_entry(changed: dict[str, Any], made: Any) -> None:
    assert analysis(made(row(), row(number=1, **changed))).tally.total == 2


def test_variables_that_were_redacted_do_not_make_tests_the_same(made: Any) -> None:
    hidden = {"vars": {"thing": "[REDACTED]"}}
    rows = [row(testCase=hidden, prompt={"raw": raw, "label": "p"}, id=raw) for raw in ("one", "two", "one")]
    assert analysis(made(rows[0], rows[1], rows[2] | {"testIdx": 2})).tally.total == 2


def test_prompts_of_one_test_are_a_family(made: Any, cli: Cli) -> None:
    rows = [row(name, prompt={"raw": name, "label": label}) for name in "abc" for label in ("p", "q")]
    shown = exported(made(*rows), cli)
    assert (len(shown), len({one["id"] for one in shown}), len({one["long_id"] for one in shown})) == (6, 6, 3)


def test_strategies_on_one_text_are_entries_of_one_family(made: Any, cli: Cli) -> None:
    path = made(*(attack(text, strategy=how) for text in ("x", "y") for how in (None, "base64", "crescendo")))
    rows = exported(path, cli)
    assert len(rows) == 6
    assert sorted({one["id"].rpartition(":")[0] for one in rows}) == [
        f"contracts:{how}" for how in ("base64", "basic", "crescendo")
    ]
    assert len({one["long_id"] for one in rows}) == 2


def test_a_red_team_keeps_its_entries_when_its_prompt_changes_and_not_among_several(made: Any, cli: Cli) -> None:
    old, new = (attack(prompt={"raw": f"{label} do it", "label": label}) for label in ("old", "new"))
    ids = [{one["id"] for one in exported(made(one, results={"prompts": []}), cli)} for one in (old, new)]
    assert ids[0] == ids[1]
    both = made(old, new | {"promptIdx": 1}, results={"prompts": []})
    assert analysis(both, combine=True).tally.total == 2


def test_providers_are_runs_that_are_addressed_behind_the_file(made: Any, cli: Cli) -> None:
    rows = [row(thing, provider=bot) for thing in "ab" for bot in BOTH]
    path = made(*rows, failed("c", provider="weak"))
    found = analyze(str(path), options=AnalyzeOptions(cache=False)).analyses
    assert [one.sources[0].path for one in found] == [f"{path}/weak", f"{path}/strong"]
    assert outcomes(analysis(f"{path}/weak")) == {"success": 2, "failure": 1}
    assert outcomes(analysis(f"{path}/strong")) == {"success": 2}
    assert analysis(path, combine=True).tally.total == 5
    ran = cli("results", "compare", f"{path}/weak", f"{path}/strong", "--output-format", "json")
    assert json.loads(ran.out)["pairs"][0]["unpaired"]["a"]["missing"]["count"] == 1


def test_providers_are_found_without_going_through_the_rows(made: Any) -> None:
    path = made(row(provider="weak"), row(provider="strong"))
    torn = path.with_name("torn.json")
    torn.write_text(path.read_text().partition('"results": [')[0])
    from faircount.io import open_bytes

    assert PromptfooReader().runs(open_bytes(str(torn), "torn")) == list(BOTH)
    unlisted = made(row(provider="weak"), row(provider="strong"), results={"prompts": []}, name="unlisted.json")
    assert PromptfooReader().runs(open_bytes(str(unlisted), "unlisted")) == list(BOTH)


@pytest.mark.parametrize("name", ["https://host/chat?x=1", "openai:gpt-4", "a/../b", "/", "x" * 5000, "\udc80", "ä b"])
def test_every_name_of_a_provider_can_be_addressed(name: str, made: Any) -> None:
    path = made(row(provider="first"), row(provider="second") | {"provider": {"id": "", "label": name}})
    found = analyze(str(path), options=AnalyzeOptions(cache=False)).analyses
    assert [one.tally.total for one in found] == [1, 1]


def test_providers_of_one_name_are_distinguished_by_their_columns(made: Any, tmp_path: Path) -> None:
    rows = [row("a"), failed("a", promptIdx=1, id="other")]
    twice = [{"label": "What is {{thing}}?", "provider": "bot"}] * 2
    streamed = lines(tmp_path / "x.jsonl", ({k: v for k, v in one.items() if k != "id"} for one in rows))
    for path in (made(*rows, results={"prompts": twice}), streamed):
        found = analyze(str(path), options=AnalyzeOptions(cache=False)).analyses
        assert [one.sources[0].path for one in found] == [f"{path}/bot", f"{path}/bot #2"]
        assert [outcomes(one) for one in found] == [{"success": 1}, {"failure": 1}]


def test_providers_that_no_list_names_are_counted_and_reported(made: Any) -> None:
    found = analysis(made(row("a"), row("b", provider="other"), results={"prompts": [{"provider": "bot"}]}))
    assert (found.tally.total, codes(found)["F041"]) == (2, 1)


# -- findings and figures ---------------------------------------------------------------------------------------


def test_counts_that_are_not_those_of_the_rows_are_reported(made: Any) -> None:
    stats = {"successes": 2, "failures": 0, "errors": 0}
    found = analysis(made(row("a"), failed("b"), results={"stats": stats}), definition="promptfoo")
    assert codes(found)["F040"] == 2
    odd = {"successes": 10**400, "failures": "x", "errors": -1}
    assert "F040" in codes(analysis(made(row("a"), results={"stats": odd})))
    assert figures(found.sources[0])["pass rate"] == ToolFigure("pass rate", 0.5, count=1, n=2, stated=1.0)


def test_cached_answers_among_repeats_are_reported(made: Any) -> None:
    cached: Any = {"response": {"output": "x", "cached": True}}
    assert codes(analysis(made(row("a"), row("a", number=1, **cached), row("b", **cached))))["F050"] == 1


def test_plugins_without_a_test_are_reported_and_collections_are_not(made: Any) -> None:
    plugins = [
        {"id": name, "numTests": 3} for name in ("contracts", "pii", "hijacking", "owasp:llm", "file://own.yaml")
    ]
    path = made(attack(), attack(plugin="pii:direct"), config={"redteam": {"plugins": plugins}})
    assert codes(analysis(path))["F034"] == 3


def test_facets_are_those_of_the_test_and_of_the_red_team(made: Any) -> None:
    case = row()["testCase"] | {"metadata": {"level": "easy", "file": "f", "list": [1], "long": "x" * 300}}
    path = made(row(testCase=case), failed("b"))
    assert [one.value for one in analysis(path, by=("level",)).breakdowns["level"]] == ["easy", None]
    assert analysis(path, where="level = easy").tally.total == 1
    assert analysis(path, where="metadata_file = f").tally.total == 1
    assert (
        analysis(made(attack("x"), attack("x", strategy="base64")), where="attack_strategy = base64").tally.total == 1
    )
    assert analysis(made(attack("x"), attack("x", plugin="pii")), where="plugin = pii").tally.total == 1


def test_a_conversation_is_shown_as_it_was(made: Any, cli: Cli) -> None:
    chat = json.dumps([{"role": "system", "content": "be kind"}, {"role": "user", "content": "the question"}])
    turns = [{"role": "user", "content": "turn one"}, {"role": "assistant", "content": "no"}]
    path = made(row(prompt={"raw": chat, "label": "chat"}))
    assert exported(path, cli)[0]["input"] == "the question"
    one = attack(strategy="crescendo")
    path = made(one | {"metadata": one["metadata"] | {"messages": [*turns, {"role": "user", "content": "turn two"}]}})
    assert exported(path, cli)[0]["input"] == "turn two"
    path = made(one | {"metadata": one["metadata"] | {"redteamFinalPrompt": "the last try"}})
    assert exported(path, cli)[0]["input"] == "the last try"


def test_an_answer_that_is_an_object_is_shown_as_json(made: Any, cli: Cli) -> None:
    assert json.loads(exported(made(row(response={"output": {"answer": 42}})), cli)[0]["response"]) == {"answer": 42}


# -- the database -----------------------------------------------------------------------------------------------

COLUMNS = (
    "id TEXT, eval_id TEXT, prompt_idx INT, test_idx INT, test_case TEXT, prompt TEXT, provider TEXT, latency_ms INT, "
    "response TEXT, error TEXT, success INT, score REAL, grading_result TEXT, named_scores TEXT, metadata TEXT, "
    "failure_reason INT"
)


def database(path: Path, *rows: Mapping[str, Any], columns: str = COLUMNS) -> Path:
    """Write rows into a database like promptfoo's."""
    names = [one.split()[0] for one in columns.split(", ")]
    with sqlite3.connect(path) as made:
        made.execute(f"CREATE TABLE eval_results ({columns})")
        made.execute("CREATE TABLE evals (id TEXT, vars TEXT)")
        for one in rows:
            camel = {name: "".join([name.split("_")[0], *map(str.title, name.split("_")[1:])]) for name in names}
            given = {name: one.get(camel[name], one.get(name)) for name in names}
            values = [json.dumps(value) if isinstance(value, dict) else value for value in given.values()]
            made.execute(f"INSERT INTO eval_results VALUES ({', '.join('?' * len(names))})", values)
        for name in dict.fromkeys(one.get("eval_id") for one in rows):
            made.execute("INSERT INTO evals VALUES (?, ?)", (name, '["thing"]'))
        made.execute("INSERT INTO evals VALUES ('eval-old', '[]')")
    made.close()
    return path


def test_a_database_is_read_run_by_run(tmp_path: Path) -> None:
    rows = [row("a"), failed("b"), error("c"), row("a", provider="strong")]
    path = database(tmp_path / "promptfoo.db", *(one | {"eval_id": "eval-1"} for one in rows))
    found = analyze(str(path), options=AnalyzeOptions(cache=False)).analyses
    assert [outcomes(one) for one in found] == [{"success": 1, "failure": 1, "error": 1}, {"success": 1}]
    assert codes(found[0])["F057"] == 1
    assert "F039" not in codes(found[0])


def test_evaluations_in_one_database_are_runs_of_their_own_aim(tmp_path: Path) -> None:
    rows = [row("a") | {"eval_id": "eval-1"}, attack("b", passed=False) | {"eval_id": "eval-2"}]
    path = database(tmp_path / "promptfoo.db", *rows)
    found = analyze(str(path), options=AnalyzeOptions(cache=False)).analyses
    assert [one.sources[0].path for one in found] == [f"{path}/eval-1/bot", f"{path}/eval-2/bot"]
    assert [one.sources[0].aim for one in found] == ["task", "attack"]
    assert [outcomes(one) for one in found] == [{"success": 1}, {"success": 1}]


def test_rows_of_a_database_are_placed_in_their_table(tmp_path: Path, cli: Cli) -> None:
    path = database(tmp_path / "promptfoo.db", row("a"), error("b"), row("c", response="{torn"))
    found = analysis(path)
    places = {one.code: one.where for one in found.findings}
    assert places["F015"] == (f"{path}!eval_results/2",)
    assert places["F027"] == (f"{path}!eval_results/3",)
    assert "!eval_results/2" in cli("results", "show", exported(path, cli)[1]["id"], str(path)).out


def test_a_database_without_the_columns_or_with_a_view_is_no_crash(tmp_path: Path) -> None:
    found = analysis(database(tmp_path / "few.db", row("a"), columns="id TEXT, success INT, provider TEXT"))
    assert found.tally.total == 1
    with sqlite3.connect(tmp_path / "view.db") as made:
        made.execute("CREATE TABLE evals (id TEXT)")
        made.execute("CREATE VIEW eval_results AS SELECT id AS success FROM evals")
    made.close()
    assert codes(analysis(tmp_path / "view.db"))["F002"] == 1
    torn = tmp_path / "torn.db"
    torn.write_bytes((tmp_path / "few.db").read_bytes()[:5000])
    allowed(torn)


# -- everything that is done with results ------------------------------------------------------------------------


def test_the_sample_is_counted_as_its_page_says() -> None:
    found = analysis(SAMPLE, definition="promptfoo")
    assert outcomes(found) == {"success": 4, "failure": 3, "error": 1, "guardrail": 2, "unjudged": 2}
    assert figures(found.sources[0])["attack success rate"].value == pytest.approx(6 / 11)


@pytest.mark.parametrize(
    "words",
    [
        ("analyze", "--by", "plugin", "--by", "attack_strategy", "--by", "severity", "--by", "judge"),
        ("analyze", "--where", "attack_strategy = base64"),
        ("analyze", "--definition", "promptfoo"),
        ("analyze", "--fail-on", "asr > 99%"),
        ("check",),
        ("convert-to-excel", "-o", "OUT/x.xlsx"),
        ("export", "--to", "csv", "-o", "OUT/x.csv"),
        ("sample-for-labels", "--n", "4", "-o", "OUT/labels.jsonl"),
        ("rejudge", "--judge", 'contains("Sure")', "--rejudged", "OUT/rejudged.jsonl"),
        ("extract", "-o", "OUT/data.jsonl"),
    ],
)
def test_every_command_takes_the_sample(words: tuple[str, ...], cli: Cli, tmp_path: Path) -> None:
    command, *rest = (word.replace("OUT", str(tmp_path)) for word in words)
    ran = cli("results", command, str(SAMPLE), *rest)
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("form", ["json", "markdown", "html", "xlsx"])
def test_every_presenter_shows_promptfoos_figures(form: str, cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / f"out.{form}"
    words = ("--definition", "promptfoo", "--output-format", form, "-o", str(out))
    assert cli("results", "analyze", str(SAMPLE), *words).code == 0
    if form != "xlsx":
        assert "6 of 11" in out.read_text("utf-8")


def test_a_gate_fails_on_the_rate(cli: Cli) -> None:
    assert cli("results", "analyze", str(SAMPLE), "--fail-on", "asr > 1%").code == 1


def test_an_entry_is_shown_with_its_verdict(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "sample.json"
    path.write_bytes(SAMPLE.read_bytes())
    shown = cli("results", "show", exported(path, cli)[0]["id"], str(path))
    assert shown.code == 0, shown.err
    assert "promptfoo:redteam:contracts" in shown.out and "The answer agrees." in " ".join(shown.out.split())


def test_extracted_entries_can_be_run_again(cli: Cli, tmp_path: Path) -> None:
    data, journal = tmp_path / "data.jsonl", tmp_path / "run.jsonl"
    assert cli("results", "extract", str(SAMPLE), "--category", "success", "-o", str(data)).code == 0
    ran = cli("run", str(data), "--target", "simulated:assistant", "--judge", 'contains("Sure")', "--journal",
              str(journal))  # fmt: skip
    assert ran.code == 0, ran.err
    assert analysis(journal).tally.total == 4


def test_rejudged_entries_are_the_same_entries(cli: Cli, tmp_path: Path) -> None:
    again = tmp_path / "rejudge.jsonl"
    ran = cli("results", "rejudge", str(SAMPLE), "--judge", 'contains("Sure")', "--rejudged", str(again))
    assert ran.code == 0, ran.err
    # Four attacks that worked, and two of which the grader failed.
    assert analysis(again).tally.success == 6


def test_a_run_is_compared_with_the_next(cli: Cli, tmp_path: Path) -> None:
    given = json.loads(SAMPLE.read_text())
    for one in given["results"]["results"][:1]:
        one.update(success=True, failureReason=0)
        one["gradingResult"]["componentResults"][0]["pass"] = True
    other = tmp_path / "other.json"
    other.write_text(json.dumps(given, indent=2))
    ran = cli("results", "compare", str(SAMPLE), str(other), "--output-format", "json")
    assert ran.code == 0, ran.err
    (pair,) = json.loads(ran.out)["pairs"]
    assert pair["unpaired"]["a"]["missing"]["count"] == pair["unpaired"]["b"]["missing"]["count"] == 0


def test_compressed_files_and_standard_input_are_read(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "eval.json.gz"
    packed.write_bytes(gzip.compress(SAMPLE.read_bytes()))
    assert outcomes(analysis(packed)) == outcomes(analysis(SAMPLE))
    rows = database(tmp_path / "promptfoo.db", row("a"), failed("b"))
    zipped = tmp_path / "promptfoo.db.gz"
    zipped.write_bytes(gzip.compress(rows.read_bytes()))
    assert outcomes(analysis(zipped)) == {"success": 1, "failure": 1}
    with SAMPLE.open() as given:
        monkeypatch.setattr(sys, "stdin", given)
        ran = cli("results", "analyze", "-", "--output-format", "json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["analyses"][0]["entries"]["success"] == 4


# -- hostile files ----------------------------------------------------------------------------------------------


def allowed(path: Path) -> None:
    """Analyse a file, of which anything may come but a crash."""
    try:
        analyze(str(path), options=AnalyzeOptions(cache=False))
    except FaircountError as error:
        assert error.exit_code in (2, 3)


def test_a_torn_document_gives_the_rows_before_the_break(made: Any) -> None:
    whole_text = made(*(row(str(at), number=at) for at in range(6))).read_text()
    for share in (0.4, 0.6, 0.8):
        torn = made(row(), name="torn.json")
        torn.write_text(whole_text[: int(len(whole_text) * share)])
        found = analysis(torn)
        assert codes(found)["F002"] == 1
        assert 1 <= found.tally.success < 6
        assert figures(found.sources[0])["pass rate"].count == found.tally.success


def test_a_row_that_is_there_twice_counts_once(made: Any) -> None:
    found = analysis(made(row("a"), row("a"), failed("b")))
    assert (found.attempts, found.sources[0].bad_lines) == (2, 1)
    old: Any = {"id": None, "testIdx": None, "testCase": None}
    assert analysis(made(row("a", **old), row("a", **old))).attempts == 2


ODD: tuple[Any, ...] = (None, [], {}, "x", 10**400, -1, 0.5, True, [[{}]], {"a": [None]}, "\ud800")


@pytest.mark.parametrize("key", [*row(), "namedScores", "error"])
def test_a_value_of_the_wrong_type_costs_no_other_row(key: str, made: Any) -> None:
    odd = [one | {key: value} for value in ODD for one in (row(f"odd {value}"[:20]), attack(f"odd {value}"[:20]))]
    found = analysis(made(row("good", number=1), *odd), combine=True)
    assert found.tally.success >= 1
    assert found.sources[0].good_lines + found.sources[0].bad_lines == 1 + len(odd)


@pytest.mark.parametrize("where", ["gradingResult", "testCase", "response", "metadata", "provider", "prompt"])
def test_values_inside_may_be_anything(where: str, made: Any) -> None:
    for value in ODD:
        keys = (*(row()[where] or {"pluginId": 1}), "guardrails", "vars", "assert", "metadata")
        inside = dict.fromkeys(keys, value)
        found = analysis(made(row("a", number=1), row("b") | {where: inside}), combine=True)
        assert found.tally.total >= 1


def test_nan_and_deep_nesting_and_rows_that_are_none(made: Any) -> None:
    path = made(row("a"), row("b", score=1.5))
    text = path.read_text().replace("1.5", "NaN")
    deep = "[" * 5000 + "]" * 5000
    path.write_text(text.replace('"results": [', f'"results": [null, 7, "x", {{}}, {{"response": {deep}}},'))
    found = analysis(path)
    assert found.tally.success == 2
    assert found.sources[0].bad_lines == 5


def test_many_assertions_and_fields_are_bounded(made: Any) -> None:
    case = row()["testCase"] | {"metadata": {f"field {at}": at for at in range(200)}}
    found = analysis(made(row("a", *(component() for _ in range(200)), testCase=case)), by=("judge",))
    assert (found.tally.success, codes(found)["F023"]) == (1, 1)
    assert len(found.judges) <= 65


@pytest.mark.shared
@pytest.mark.parametrize("name", ["killed.jsonl", "old_v0.24.2.json", "redteam.json", DATABASE])
def test_no_mutation_of_a_real_file_is_a_crash(name: str, tmp_path: Path) -> None:
    content = (GOLDEN / name).read_bytes()
    draw = random.Random(name)
    tokens = [b"null", b"[]", b"{}", b'"', b"1e999", b"true", b"\xff", b"\\ud800", b"-", b"}", b"]", b"NaN", b""]
    for number in range(10 if len(content) > 200_000 else 20):
        broken = bytearray(content)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(broken))
            broken[at : at + draw.randint(0, 12)] = draw.choice(tokens)
        if number % 4 == 0:
            del broken[draw.randrange(len(broken)) :]
        path = tmp_path / f"{number}{Path(name).suffix}"
        path.write_bytes(bytes(broken))
        allowed(path)


def test_files_made_of_a_run_go_beside_the_file_that_holds_it(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "eval.json"
    document = json.loads(SAMPLE.read_text())
    rows = document["results"]["results"]
    for number, row in enumerate(rows):
        row["provider"] = {"id": "x", "label": ("org/weak bot", "strong")[number % 2]}
    document["results"]["prompts"] = []
    path.write_text(json.dumps(document))
    run = f"{path}/org/weak bot"
    assert cli("results", "convert-to-excel", run).code == 0
    assert cli("results", "rejudge", run, "--judge", 'contains("x")').code == 0
    assert cli("results", "analyze", str(path), "--output-format", "html").code == 0
    made = {one.name for one in tmp_path.iterdir()} - {"eval.json"}
    assert "eval_org-weak-bot.xlsx" in made
    assert {"eval_org-weak-bot_analysis.html", "eval_strong_analysis.html"} <= made
    assert sum(name.startswith("rejudge_org-weak-bot_") for name in made) == 1, made
