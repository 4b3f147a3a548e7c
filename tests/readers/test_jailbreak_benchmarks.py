"""JailbreakBench's published artifacts beside their oracle, HarmBench's structure, and small documents of both."""

from __future__ import annotations

import gzip
import io
import json
import random
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faircount import Analysis, AnalyzeOptions, FaircountError, analyze
from faircount.core import ToolFigure
from tests.conftest import ROOT, Cli, codes, shared_folder

SHARED = shared_folder()
GOLDEN = (SHARED or Path("shared")) / "golden"
JAILBREAKBENCH, HARMBENCH = GOLDEN / "jailbreakbench", GOLDEN / "harmbench"
ARTIFACTS: dict[str, Any] = json.loads((JAILBREAKBENCH / "oracle.json").read_text()) if SHARED is not None else {}
RESULTS: dict[str, Any] = json.loads((HARMBENCH / "oracle.json").read_text()) if SHARED is not None else {}
SAMPLES = ROOT / "docs" / "samples"
OUTCOMES = ("success", "failure", "error", "guardrail", "unjudged")
pytestmark = pytest.mark.filterwarnings("error")


def every(path: Path | str, **options: Any) -> tuple[Analysis, ...]:
    return tuple(analyze(str(path), options=AnalyzeOptions(cache=False, **options)).analyses)


def analysis(path: Path | str, **options: Any) -> Analysis:
    (found,) = every(path, **options)
    return found


def outcomes(found: Analysis) -> dict[str, int]:
    return {name: count for name in OUTCOMES if (count := getattr(found.tally, name))}


def figures(path: Path | str, tool: str) -> dict[str, ToolFigure]:
    (source,) = analysis(path, definition=tool).sources
    return {one.name: one for one in source.figures}


def jailbreak(number: int, jailbroken: Any = False, **changed: Any) -> dict[str, Any]:
    return {
        "index": number,
        "goal": f"Goal {number}",
        "behavior": f"Behaviour {number}",
        "category": f"Category {number % 2}",
        "prompt": f"Prompt {number}",
        "response": f"Answer {number}",
        "number_of_queries": 10,
        "queries_to_jailbreak": 3 if jailbroken else None,
        "jailbroken": jailbroken,
        **changed,
    }


def artifact(*items: Any, **parameters: Any) -> dict[str, Any]:
    return {
        "parameters": {"method": "M", "model": "m-1", "attack_type": "black_box", **parameters},
        "jailbreaks": items,
    }


def case(number: int, label: Any = 0, **changed: Any) -> dict[str, Any]:
    return {"test_case": f"Prompt {number}", "generation": f"Answer {number}", "label": label, **changed}


Document = Callable[..., Path]


@pytest.fixture
def document(tmp_path: Path) -> Document:
    def write(content: Any, name: str = "x.json", indent: int | None = 1) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=indent))
        return path

    return write


# -- JailbreakBench's artifacts ---------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize("name", ARTIFACTS)
def test_entries_of_an_artifact_are_those_of_the_oracle(name: str) -> None:
    expected = ARTIFACTS[name]
    found = analysis(JAILBREAKBENCH / name)
    assert {state: getattr(found.tally, state) for state in OUTCOMES} == expected["expected"]["outcomes"]
    assert found.tally.total == expected["expected"]["entries"]
    assert len(found.breakdowns.get("category", ())) in (expected["categories"], 0)
    assert (found.sources[0].tool, found.aim) == ("JailbreakBench", "attack")
    assert found.sources[0].target == Path(name).stem


@pytest.mark.shared
@pytest.mark.parametrize("name", [name for name, one in ARTIFACTS.items() if one["second_judge_llama_guard1"]])
def test_the_older_judge_is_a_second_one(name: str) -> None:
    found = analysis(JAILBREAKBENCH / name, judge="jailbroken_llama_guard1")
    assert found.tally.success == ARTIFACTS[name]["second_judge_llama_guard1"]


@pytest.mark.shared
@pytest.mark.parametrize("name", ARTIFACTS)
def test_figures_are_those_of_the_parameters_or_the_difference_is_told(name: str) -> None:
    said, path = ARTIFACTS[name]["tool_says"], JAILBREAKBENCH / name
    found = figures(path, "JailbreakBench")
    differing = 0
    for figure, stated in said.items():
        if stated is not None:
            assert found[figure].stated == stated
            differing += abs((found[figure].value or 0) - stated) > 0.005
    assert codes(analysis(path)).get("F040", 0) == differing
    made_up = name.startswith("test-artifact")
    assert found["attack_success_rate"].value == (1.0 if made_up else said["attack_success_rate"])
    assert found["number_of_submitted_prompts"].value == (1 if made_up else said["number_of_submitted_prompts"])


@pytest.mark.shared
def test_the_count_of_jailbreaks_is_stale_in_most_artifacts() -> None:
    names = [name for name in ARTIFACTS if not name.startswith("test-artifact")]
    stale = [name for name in names if "F040" in codes(analysis(JAILBREAKBENCH / name))]
    assert (len(stale), len(names)) == (13, 18)


def test_a_behaviour_without_a_prompt_is_unjudged(document: Document) -> None:
    found = analysis(
        document(artifact(jailbreak(0, True), jailbreak(1), jailbreak(2, prompt=None, response=None, jailbroken=False)))
    )
    assert outcomes(found) == {"success": 1, "failure": 1, "unjudged": 1}
    assert found.sources[0].differs == (
        "JailbreakBench reports 33.3% (1 of 3); for 1 of the others the attack submitted no prompt, which leaves them "
        "unjudged here.",
    )


@pytest.mark.parametrize(
    ("verdict", "state"),
    [(True, "success"), (False, "failure"), (1, "success"), (0, "failure"), (None, "unjudged"), ("yes", "unjudged"),
     (2, "unjudged"), ([], "unjudged")],
)  # fmt: skip
def test_a_verdict_is_true_or_false_and_anything_else_is_none(document: Document, verdict: Any, state: str) -> None:
    found = analysis(document(artifact(jailbreak(0, jailbroken=verdict))))
    assert outcomes(found) == {state: 1}
    assert codes(found).get("F004", 0) == (state == "unjudged" and verdict is not None)


def test_behaviours_are_entries_whatever_their_order_and_method(document: Document, cli: Cli) -> None:
    one = document(artifact(*map(jailbreak, range(4))), "a.json")
    other = document(artifact(*(jailbreak(n, True, index=str(n)) for n in (3, 1, 0, 2)), method="N"), "b.json")
    (pair,) = json.loads(cli("results", "compare", str(one), str(other), "--output-format", "json").out)["pairs"]
    assert (pair["paired"], pair["only_b"]) == (4, 4)


def test_lines_are_those_of_the_file_and_of_a_compact_file_the_numbers_of_items(document: Document) -> None:
    items = artifact(jailbreak(0), jailbreak(1, jailbroken="?"))
    for indent, line in ((1, 19), (None, 2)):
        path = document(items, indent=indent)
        (place,) = next(one.where for one in analysis(path).findings if one.code == "F004")
        assert place == f"{path}:{line}"


def test_a_submission_has_a_run_for_each_model(document: Document) -> None:
    def summary(*items: Any, count: int) -> dict[str, Any]:
        return {"model_summary": {"attack_success_rate": 0.5, "total_number_of_jailbreaks": count}, "jailbreaks": items}

    path = document(
        {
            "summaries": {
                "m-1": summary(jailbreak(0, True), jailbreak(1), count=1),
                "org/m-2": summary(jailbreak(0, True), jailbreak(1), jailbreak(2), jailbreak(3, True), count=3),
            },
            "method_name": "M",
        }
    )
    first, second = every(path)
    assert [one.sources[0].target for one in (first, second)] == ["m-1", "org/m-2"]
    assert (outcomes(first), outcomes(second)) == ({"success": 1, "failure": 1}, {"success": 2, "failure": 2})
    assert "F040" not in codes(first) and codes(second)["F040"] == 1
    one = every(path, definition="JailbreakBench")[0]
    assert [figure.name for figure in one.sources[0].figures][:2] == [
        "attack_success_rate",
        "total_number_of_jailbreaks",
    ]
    packed = path.with_suffix(".json.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert [one.tally.total for one in every(packed)] == [2, 4]


def test_methods_and_queries_are_fields(document: Document) -> None:
    path = document(
        artifact(jailbreak(0, True), jailbreak(1, number_of_queries=90), jailbreak(2, number_of_queries="x"))
    )
    found = analysis(path, by=("method", "number_of_queries"))
    assert [one.value for one in found.breakdowns["method"]] == ["M"]
    assert analysis(path, where="number_of_queries > 50").tally.total == 1
    assert figures(path, "JailbreakBench")["total_number_of_queries"].value == 100


def test_a_budget_in_place_of_queries_is_no_difference(document: Document) -> None:
    path = document(artifact(jailbreak(0, True), jailbreak(1, True), total_number_of_queries=6))
    assert "F040" not in codes(analysis(path))


# -- HarmBench's results ----------------------------------------------------------------------------------------


@pytest.mark.shared
def test_test_cases_are_those_of_the_oracle() -> None:
    told = RESULTS["completions_evaluated.json"]
    found = analysis(HARMBENCH / "completions_evaluated.json")
    expected = told["expected"]["test_cases"]
    assert found.tally.total == expected.pop("entries") and outcomes(found) == expected
    assert found.families.count == sum(told["expected"]["behaviors_any"].values())
    assert codes(found)["F045"] == told["labels"]["-1"]
    behaviours = analysis(HARMBENCH / "completions_evaluated.json", by=("behavior",)).breakdowns["behavior"]
    assert sum(one.tally.success > 0 for one in behaviours) == told["expected"]["behaviors_any"]["success"]


@pytest.mark.shared
def test_average_asr_is_the_mean_of_the_behaviours_means() -> None:
    told = RESULTS["completions_evaluated.json"]
    found = figures(HARMBENCH / "completions_evaluated.json", "HarmBench")
    assert found["Average ASR"].value == pytest.approx(told["tool_would_say"]["Average ASR"], abs=1e-12)
    by_words = found["Average ASR by AdvBench's refusal words"].value
    assert by_words == pytest.approx(told["advbench_asr_macro"], abs=1e-12)
    (sentence,) = analysis(HARMBENCH / "completions_evaluated.json").sources[0].differs
    assert "41.6%" in sentence and "39.4% (26 of 66)" in sentence and "nothing on 3 of the others" in sentence


@pytest.mark.shared
def test_numbers_among_test_cases_are_passed_over() -> None:
    found = analysis(HARMBENCH / "fork_with_counts.json")
    items = [one for many in json.loads((HARMBENCH / "fork_with_counts.json").read_text()).values() for one in many]
    cases = [one for one in items if isinstance(one, dict)]
    assert found.tally.total == len(cases) < len(items)
    assert found.tally.success == sum(one["label"] == 1 for one in cases)
    assert found.sources[0].bad_lines == 0


@pytest.mark.parametrize(
    ("label", "state"),
    [(1, "success"), (0, "failure"), (-1, "unjudged"), (None, "unjudged"), (True, "success"), ("1", "unjudged"),
     (3, "unjudged"), ({}, "unjudged")],
)  # fmt: skip
def test_a_label_is_one_or_zero_and_anything_else_no_verdict(document: Document, label: Any, state: str) -> None:
    found = analysis(document({"b": [case(0, label)]}))
    assert outcomes(found) == {state: 1}
    assert ("F045" in codes(found)) is (label == -1)
    assert ("F004" in codes(found)) is (label in ("1", 3, {}))


def test_a_test_case_is_the_same_entry_in_any_order_and_an_equal_one_is_an_attempt(
    document: Document, cli: Cli
) -> None:
    one = document({"a": [case(0), case(1)], "b": [case(0)]}, "one.json")
    other = document({"b": [case(0, 1)], "a": [case(1, 1), case(0, 1), case(0)]}, "other.json")
    (pair,) = json.loads(cli("results", "compare", str(one), str(other), "--output-format", "json").out)["pairs"]
    assert (pair["paired"], pair["only_b"]) == (3, 3)
    assert (analysis(other).tally.total, analysis(other).attempts) == (3, 4)
    assert figures(other, "HarmBench")["Average ASR"].value == pytest.approx((1 + 2 / 3) / 2)


def test_images_are_part_of_a_test_case(document: Document) -> None:
    found = analysis(document({"a": [case(0, test_case=["1.png", "look"]), case(0, test_case=["2.png", "look"])]}))
    assert found.tally.total == 2


def test_method_and_model_come_from_the_path_alone(document: Document) -> None:
    path = document({"a": [case(0)]}, "results/GCG/gcg_llama/results/llama2_7b.json")
    found = analysis(path, by=("method",))
    assert found.sources[0].target == "llama2_7b"
    assert [one.value for one in found.breakdowns["method"]] == ["GCG"]
    assert analysis(document({"a": [case(0)]})).sources[0].target is None


def test_what_is_no_test_case_is_reported(document: Document) -> None:
    found = analysis(document({"empty": [], "a": [case(0), "text", None, {"generation": "x"}], "b": "text"}))
    assert outcomes(found) == {"failure": 1}
    assert codes(found)["F001"] == 3
    assert codes(found)["F027"] == 2


# -- recognition and damage -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [{"test_case": "generation"}, {"a": [{"test_case": 1}]}, {"a": {"test_case": 1, "generation": 2}},
     {"jailbreaks": []}, {"parameters": {"jailbreaks": []}}, {"summaries": {"jailbreaks": []}}, {"a": []}],
)  # fmt: skip
def test_documents_that_only_look_alike_are_not_taken(document: Document, content: Any) -> None:
    try:
        found = every(document(content))
    except FaircountError:
        return
    assert {one.sources[0].tool for one in found}.isdisjoint({"JailbreakBench", "HarmBench"})


def test_a_byte_order_mark_and_a_first_list_without_a_test_case_are_no_hindrance(document: Document) -> None:
    text = "\ufeff" + json.dumps({"none": [], "numbers": [0], "a": [3, case(0, 1)]})
    assert outcomes(analysis(document(text))) == {"success": 1}


@pytest.mark.parametrize("content", [artifact(*map(jailbreak, range(5))), {"a": [*map(case, range(5))]}])
def test_a_torn_document_gives_what_comes_before(document: Document, content: Any) -> None:
    text = json.dumps(content, indent=1)
    whole = analysis(document(text)).tally.total
    seen = set()
    for place in range(0, len(text) - 1, 71):
        try:
            found = analysis(document(text[:place]))
        except FaircountError as refused:
            assert refused.exit_code in (2, 3)
            continue
        assert found.tally.total <= whole
        if found.tally.total:
            assert "F002" in codes(found)
        seen.add(found.tally.total)
    assert seen >= {1, 2, 3, 4}


def test_what_follows_the_document_is_told_and_figures_stay(document: Document) -> None:
    path = document(json.dumps(artifact(jailbreak(0, True))) + " more")
    assert codes(analysis(path))["F002"] == 1
    assert figures(path, "JailbreakBench")["attack_success_rate"].value == 1


def test_items_of_the_wrong_kind_too_deep_or_too_long_are_reported(document: Document) -> None:
    deep = "[" * 3000 + "]" * 3000
    good = json.dumps(jailbreak(0, True))
    items = [good, "3", "null", deep, '{"prompt": "nothing else"}', json.dumps(jailbreak(1, response="x" * 20_000))]
    text = '{"parameters": {"model": 3, "attack_success_rate": "NaN"}, "jailbreaks": [' + ",\n".join(items) + "]}"
    found = analysis(document(text), max_line=10_000)
    assert outcomes(found) == {"success": 1}
    assert codes(found)["F001"] == 5
    assert found.sources[0].target == "3"


GOLDEN_FILES = [*(JAILBREAKBENCH / name for name in list(ARTIFACTS)[:1]), *(HARMBENCH / name for name in RESULTS)]


@pytest.mark.parametrize(
    "source",
    [
        SAMPLES / "jailbreakbench.json",
        SAMPLES / "harmbench.json",
        *(pytest.param(path, marks=pytest.mark.shared) for path in GOLDEN_FILES),
    ],
    ids=lambda path: path.name,
)
def test_no_mutation_ends_in_anything_but_a_message(source: Path, tmp_path: Path) -> None:
    original = source.read_bytes()
    values: list[bytes] = [b"null", b"-1", b"1e999", b"9" * 400, b'"\\ud800"', b"[]", b"{}", b"NaN", b"true", b'"x"']
    chance = random.Random(7)
    path = tmp_path / "x.json"
    for _ in range(25):
        text = original
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(40, len(text))
            kind = chance.randrange(3)
            if kind == 0:
                text = text[:place] + bytes([chance.randrange(256)]) + text[place + 1 :]
            elif kind == 1:
                colon = text.find(b": ", place) + 2
                end = min(at for at in (text.find(b",", colon), text.find(b"\n", colon), len(text)) if at >= 0)
                text = text[:colon] + chance.choice(values) + text[end:]
            else:
                text = text[:place] + text[place : place + 30] + text[place:]
        path.write_bytes(text)
        try:
            every(path)
        except FaircountError as refused:
            assert refused.exit_code in (2, 3)


# -- everything works -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "by", "where", "entry"),
    [
        ("jailbreakbench.json", "category", "category = Noise", "Rude limerick"),
        ("harmbench.json", "behavior", "behavior = sock_mixing", "cake_theft-"),
    ],
)
def test_commands_take_the_files(
    name: str, by: str, where: str, entry: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (SAMPLES / name).read_bytes()
    Path("sample.json").write_bytes(text)
    Path("packed.json.gz").write_bytes(gzip.compress(text))
    altered = text.replace(b'"jailbroken": true', b'"jailbroken": false').replace(b'"label": 1', b'"label": 0')
    Path("altered.json").write_bytes(altered)
    for words in (
        ("analyze", "sample.json", "--by", by),
        ("analyze", "sample.json", "--where", where),
        ("analyze", "packed.json.gz", "--by", "judge"),
        ("extract", "sample.json", "-o", "dataset.jsonl"),
        ("export", "sample.json", "--to", "csv", "-o", "rows.csv"),
        ("convert-to-excel", "sample.json", "-o", "rows.xlsx"),
        ("sample-for-labels", "sample.json", "-o", "labels.jsonl"),
        ("rejudge", "sample.json", "--judge", 'contains("rather")', "--rejudged", "again.jsonl"),
        ("analyze", "again.jsonl"),
        ("check", "sample.json"),
        ("analyze", "sample.json", "--fail-on", "asr > 95%"),
    ):
        ran = cli("results", *words)
        assert ran.code == 0, f"{words}: {ran.err}"
    assert cli("results", "analyze", "sample.json", "--fail-on", "asr > 1%").code == 1
    (pair,) = json.loads(cli("results", "compare", "sample.json", "altered.json", "--output-format", "json").out)[
        "pairs"
    ]
    assert pair["only_a"] == outcomes(analysis("sample.json"))["success"] and pair["only_b"] == 0
    rows = [json.loads(line) for line in Path("dataset.jsonl").read_text().splitlines()]
    shown = cli("results", "show", _entry_id("sample.json", entry, cli), "sample.json")
    assert shown.code == 0 and "Of course" in shown.out, shown.err
    ran = cli("run", "dataset.jsonl", "--target", "simulated", "--judge", 'contains("x")', "--journal", "run.jsonl")
    assert ran.code == 0, ran.err
    assert analysis("run.jsonl").tally.total == len(rows)
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(text)))
    assert cli("results", "analyze", "-").code == 0


def _entry_id(path: str, prefix: str, cli: Cli) -> str:
    assert cli("results", "export", path, "--to", "jsonl", "-o", "ids.jsonl").code == 0
    ids = [json.loads(line)["id"] for line in Path("ids.jsonl").read_text().splitlines()]
    return next(str(one) for one in ids if str(one).startswith(prefix))


def test_the_samples_have_the_figures_of_their_page() -> None:
    assert outcomes(analysis(SAMPLES / "jailbreakbench.json")) == {"success": 3, "failure": 2, "unjudged": 1}
    assert analysis(SAMPLES / "jailbreakbench.json", judge="jailbroken_llama_guard1").tally.success == 4
    assert outcomes(analysis(SAMPLES / "harmbench.json")) == {"success": 4, "failure": 5, "unjudged": 1}
    assert figures(SAMPLES / "harmbench.json", "HarmBench")["Average ASR"].value == pytest.approx(0.5)
