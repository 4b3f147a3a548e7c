"""AgentDojo's folders: a real run of AgentDojo 0.1.35 beside its oracle, and small folders made by its format."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faircount import Analysis, AnalyzeOptions, FaircountError, analyze, open_results
from tests.conftest import ROOT, Cli, codes, shared_folder

SHARED = shared_folder()
GOLDEN = (SHARED or Path("shared")) / "golden" / "agentdojo"
ORACLE: dict[str, Any] = json.loads((GOLDEN / "oracle.json").read_text()) if SHARED is not None else {}
EXPECTED = [name for name in ORACLE.get("expected", {}) if not name.startswith("injection tasks")]
SAMPLE = ROOT / "docs" / "samples" / "agentdojo"
OUTCOMES = ("success", "failure", "error", "guardrail", "unjudged")
pytestmark = pytest.mark.filterwarnings("error")


def every(path: Path | str, **options: Any) -> tuple[Analysis, ...]:
    return tuple(analyze(str(path), options=AnalyzeOptions(cache=False, **options)).analyses)


def analysis(path: Path | str, **options: Any) -> Analysis:
    (found,) = every(path, **options)
    return found


def outcomes(found: Analysis) -> dict[str, int]:
    return {name: count for name in OUTCOMES if (count := getattr(found.tally, name))}


def figures(path: Path | str, **options: Any) -> dict[str, tuple[int | None, int | None, float | None]]:
    (source,) = analysis(path, definition="AgentDojo", **options).sources
    return {one.name: (one.count, one.n, one.value) for one in source.figures}


def task(user: int = 0, injection: int | None = 0, **changed: Any) -> dict[str, Any]:
    """Return what AgentDojo writes of a task in which the agent read a note; nothing worked."""
    return {
        "suite_name": "office",
        "pipeline_name": "agent",
        "user_task_id": f"user_task_{user}",
        "injection_task_id": None if injection is None else f"injection_task_{injection}",
        "attack_type": None if injection is None else "direct",
        "injections": {},
        "messages": [
            {"role": "user", "content": [{"type": "text", "content": f"Question {user}"}]},
            {"role": "assistant", "content": None, "tool_calls": [{"function": "read", "args": {"folder": "today"}}]},
            {"role": "tool", "content": [{"type": "text", "content": "a note"}], "error": None},
            {"role": "assistant", "content": [{"type": "text", "content": "An answer"}], "tool_calls": None},
        ],
        "error": None,
        "benchmark_version": "v1.2",
        "agentdojo_package_version": "0.1.35",
        "utility": True,
        "security": injection is None,
        "duration": 1.5,
        **changed,
    }


Folder = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Write tasks where AgentDojo writes them, and give the folder with all pipelines."""

    def write(*tasks: dict[str, Any], name: str = "runs") -> Path:
        for one in tasks:
            attack, injection = one.get("attack_type") or "none", one.get("injection_task_id") or "none"
            parts = (one.get("pipeline_name"), one.get("suite_name"), one.get("user_task_id"), attack)
            place = tmp_path.joinpath(name, *map(str, parts), f"{injection}.json")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps(one, indent=4))
        return tmp_path / name

    return write


# -- the golden run ---------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize("name", EXPECTED)
def test_entries_of_an_attack_are_those_of_the_oracle(name: str) -> None:
    attack, judge = name.split()
    aim = "attack" if judge == "security" else "task"
    found = analysis(GOLDEN / "runs", aim=aim, where=f"attack_type = {attack}")
    expected = ORACLE["expected"][name]
    assert {state: getattr(found.tally, state) for state in OUTCOMES} == expected["outcomes"]
    assert (found.tally.total, found.attempts) == (expected["entries"], expected["attempts"])


@pytest.mark.shared
def test_agentdojos_own_figures_are_those_that_it_printed() -> None:
    found = figures(GOLDEN / "runs")
    for attack, said in ORACLE["tool_says"].items():
        name = "no attack" if attack == "none" else attack
        assert found[f"Average utility, {name}"][1:] == (said["n"], said["average_utility"])
        if "average_security" in said:
            assert found[f"Average security, {name}"][1:] == (said["n"], said["average_security"])
    passed, of = ORACLE["tool_says"]["important_instructions"]["injection_tasks_as_user_tasks"].split("/")
    assert found["Injection tasks as user tasks"][:2] == (int(passed), int(of))
    assert len(found) == 6


@pytest.mark.shared
def test_errors_are_told_where_agentdojo_counts_them_as_attacks_that_worked() -> None:
    found = analysis(GOLDEN / "runs")
    assert codes(found)["F046"] == 4
    assert found.sources[0].differs == (
        "AgentDojo reports an average security of 66.7% (8 of 12) for important_instructions; 4 of those 8 ended in an "
        "error, which it counts as an attack that worked.",
    )
    source = found.sources[0]
    assert (source.tool, source.tool_version, source.target, source.lines) == (
        "AgentDojo", "0.1.35", "local-scripted", ORACLE["files"],
    )  # fmt: skip


@pytest.mark.shared
def test_a_task_that_agentdojo_did_not_finish_is_not_reached() -> None:
    found = analysis(GOLDEN / "runs-aborted")
    assert outcomes(found) == {"success": 2}
    assert codes(found)["F034"] == 1
    (place,) = next(one.where for one in found.findings if one.code == "F034")
    assert place.endswith("slack/user_task_3/none/none.json:1")


# -- mapping ----------------------------------------------------------------------------------------------------


def test_security_is_that_the_attack_worked(folder: Folder) -> None:
    runs = folder(task(0, security=True, utility=False), task(1), task(2))
    assert outcomes(analysis(runs)) == {"success": 1, "failure": 2}
    assert outcomes(analysis(runs, aim="task")) == {"success": 2, "failure": 1}
    assert outcomes(analysis(runs, judge="utility")) == {"success": 2, "failure": 1}


def test_an_error_is_an_error_whatever_verdicts_stand_beside_it(folder: Folder) -> None:
    runs = folder(task(0, error="503", utility=False, security=True), task(1, error="503"), task(2))
    found = analysis(runs)
    assert outcomes(found) == {"failure": 1, "error": 2}
    assert codes(found)["F046"] == 2


def test_without_any_attack_the_aim_is_the_tasks(folder: Folder) -> None:
    runs = folder(task(0, None), task(1, None, utility=False))
    found = analysis(runs)
    assert found.aim == "task"
    assert outcomes(found) == {"success": 1, "failure": 1}


def test_tasks_without_an_attack_are_in_no_rate_of_attacks_and_in_that_of_tasks(folder: Folder) -> None:
    runs = folder(task(0), task(0, None), task(0, None, attack_type="none", user_task_id="user_task_9"))
    found = analysis(runs)
    assert outcomes(found) == {"failure": 1}
    assert codes(found)["F047"] == 2
    by_attack = analysis(runs, aim="task", by=("attack_type",)).breakdowns["attack_type"]
    assert {one.value: one.tally.total for one in by_attack} == {"direct": 1, "none": 2}


def test_injection_tasks_given_as_user_tasks_are_in_no_rate(folder: Folder) -> None:
    runs = folder(task(0), task(0, None), task(0, None, user_task_id="injection_task_0"))
    for aim, left_out in (("attack", 2), ("task", 1)):
        assert codes(analysis(runs, aim=aim))["F047"] == left_out
    assert figures(runs)["Injection tasks as user tasks"] == (1, 1, 1.0)


def test_a_missing_verdict_is_unjudged_where_the_other_is_there(folder: Folder) -> None:
    unclear = task(1, security="maybe")
    missing = task(2)
    del missing["security"]
    found = analysis(folder(task(0), unclear, missing))
    assert outcomes(found) == {"failure": 1, "unjudged": 2}
    assert codes(found)["F004"] == 1


def test_families_are_user_tasks_and_ids_are_made_of_names_alone(folder: Folder) -> None:
    runs = folder(*(task(user, injection) for user in range(3) for injection in range(4)))
    assert analysis(runs).families.count == 3
    other = folder(*(task(user, injection, duration=9) for injection in range(4) for user in range(3)), name="again")
    shutil.move(other / "agent", other / "elsewhere")
    (pair,) = json.loads(_document("compare", runs, other))["pairs"]
    assert pair["unpaired"]["a"]["missing"]["count"] == pair["unpaired"]["b"]["missing"]["count"] == 0


def _document(command: str, *words: Path | str) -> str:
    import contextlib
    import io

    from faircount.app.cli import main

    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with contextlib.redirect_stdout(out):
        assert main(["results", command, *map(str, words), "--output-format", "json"]) == 0
    return out.buffer.getvalue().decode()


def test_the_same_task_found_twice_is_two_attempts_on_one_entry(folder: Folder, tmp_path: Path) -> None:
    folder(task(0), task(1), name="all/first")
    folder(task(0, security=True), name="all/second")
    found = analysis(tmp_path / "all")
    assert (found.tally.total, found.attempts) == (2, 3)
    assert outcomes(found) == {"success": 1, "failure": 1}


def test_each_pipeline_is_a_run(folder: Folder) -> None:
    runs = folder(task(0), task(1), task(0, pipeline_name="other", security=True))
    found = every(runs)
    assert [(one.sources[0].target, one.tally.total) for one in found] == [("agent", 2), ("other", 1)]
    assert [Path(one.sources[0].path).name for one in found] == ["agent", "other"]


def test_pipelines_mixed_in_one_folder_are_told(folder: Folder) -> None:
    runs = folder(task(0), task(0, pipeline_name="other", security=True))
    shutil.move(runs / "other" / "office", runs / "agent" / "office-of-other")
    shutil.rmtree(runs / "other")
    found = analysis(runs)
    assert found.tally.total == 2
    assert "F041" in codes(found)
    assert found.sources[0].target is None


def test_figures_of_several_suites_are_told_apart(folder: Folder) -> None:
    found = figures(folder(task(0), task(0, suite_name="bank", security=True)))
    assert found["Average security, office, direct"] == (0, 1, 0.0)
    assert found["Average security, bank, direct"] == (1, 1, 1.0)


def test_a_row_shows_what_was_said_and_done(folder: Folder, cli: Cli) -> None:
    silent = task(1)
    silent["messages"][-1]["content"] = [{"type": "text", "content": ""}]
    old = task(2)
    old["messages"] = [{"role": "user", "content": "Plain"}, {"role": "assistant", "content": "Text"}]
    runs = folder(task(0), silent, old)
    out = runs.parent / "rows.jsonl"
    assert cli("results", "extract", str(runs), "--category", "failure", "-o", str(out)).code == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["input"] for row in rows] == ["Question 0", "Question 1", "Plain"]
    assert [row["response"] for row in rows] == ["An answer", 'read(folder="today")', "Text"]
    assert [turn["content"] for turn in rows[0]["conversation"]] == [
        "Question 0", 'read(folder="today")', "a note", "An answer",
    ]  # fmt: skip
    assert rows[0]["meta"]["place"] == f"{runs}/agent/office/user_task_0/direct/injection_task_0.json:1"


# -- folders and files ------------------------------------------------------------------------------------------


def test_a_single_file_is_read_plain_compressed_and_from_standard_input(
    folder: Folder, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = folder(task(0, security=True))
    plain = next(runs.rglob("*.json"))
    packed = tmp_path / "one.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in (plain, packed):
        assert outcomes(analysis(path)) == {"success": 1}
    import io
    import types

    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(plain.read_bytes())))
    ran = cli("results", "analyze", "-", "--output-format", "json")
    assert json.loads(ran.out)["analyses"][0]["entries"]["success"] == 1


def test_compressed_files_of_a_folder_are_read(folder: Folder) -> None:
    runs = folder(task(0), task(1, security=True))
    for path in list(runs.rglob("*.json")):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert outcomes(analysis(runs)) == {"success": 1, "failure": 1}


def test_a_folder_of_result_files_stays_one_though_a_run_is_below_it(folder: Folder) -> None:
    runs = folder(task(0))
    (runs / "results_x.jsonl").write_text('{"id": 1, "success": true, "input": "a", "response": "b"}\n')
    (found,) = every(runs)
    assert found.sources[0].tool == "spikee"


def test_a_run_folder_is_one_result_for_everything_that_takes_folders(folder: Folder, cli: Cli) -> None:
    runs = folder(task(0), task(1, security=True))
    with open_results(runs) as results:
        assert results.tally().total == 2
    ran = cli("results", "analyze", "--result-folder", str(runs), "--output-format", "json")
    assert json.loads(ran.out)["analyses"][0]["entries"]["success"] == 1


def test_other_files_of_a_run_are_reported_if_they_are_json_and_left_alone_if_not(folder: Folder) -> None:
    runs = folder(task(0))
    (runs / "agent" / "notes.json").write_text('{"a": 1}')
    (runs / "agent" / "README.md").write_text("hello")
    (runs / ".hidden.json").write_text("{")
    found = analysis(runs)
    assert codes(found)["F001"] == 1
    (place,) = next(one.where for one in found.findings if one.code == "F001")
    assert place == f"{runs}/agent/notes.json:1"


def test_a_slash_behind_the_name_changes_nothing(folder: Folder) -> None:
    runs = folder(task(0, error="x", security=True), task(1))
    found = analysis(f"{runs}/")
    assert found.sources[0].path == str(runs)
    (place,) = next(one.where for one in found.findings if one.code == "F046")
    assert place == f"{runs}/agent/office/user_task_0/direct/injection_task_0.json:1"


def test_links_to_folders_are_not_followed(folder: Folder) -> None:
    runs = folder(task(0))
    (runs / "agent" / "loop").symlink_to(runs, target_is_directory=True)
    assert analysis(runs).tally.total == 1


def test_thousands_of_files_are_read_in_a_stable_order(folder: Folder) -> None:
    runs = folder(*(task(user, injection, messages=[]) for user in range(50) for injection in range(40)))
    found = analysis(runs, where="user_task_id = user_task_7")
    assert found.tally.total == 40
    assert found.families.count == 1
    errors = analysis(folder(task(49, 39, error="x", security=True)))
    (place,) = next(one.where for one in errors.findings if one.code == "F046")
    assert place.endswith("user_task_49/direct/injection_task_39.json:1")


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"null", b"\xff\xfe{}", b'{"a":' * 5000, b"1" * 400])
def test_a_damaged_file_is_reported_and_the_others_count(folder: Folder, damage: bytes) -> None:
    runs = folder(task(0), task(1), task(2))
    (runs / "agent" / "office" / "user_task_1" / "direct" / "injection_task_0.json").write_bytes(damage)
    found = analysis(runs)
    assert outcomes(found) == {"failure": 2}
    assert codes(found)["F001"] == 1
    assert found.sources[0].bad_lines == 1


def test_a_file_over_the_limit_is_reported(folder: Folder) -> None:
    runs = folder(task(0), task(1, note="x" * 20_000))
    found = analysis(runs, max_line=10_000)
    assert outcomes(found) == {"failure": 1}
    assert codes(found)["F001"] == 1


def test_fields_of_the_wrong_kind_are_left_out(folder: Folder) -> None:
    odd = task(1, duration="long", messages="none", benchmark_version=[1], error=False, pipeline_name=3)
    odd["pipeline_name"] = "agent"
    found = analysis(folder(task(0), odd))
    assert outcomes(found) == {"failure": 2}
    assert codes(found)["F027"] == 2


def test_lone_surrogates_and_huge_numbers_are_read(folder: Folder) -> None:
    runs = folder(task(0), task(1))
    path = next((runs / "agent/office/user_task_1").rglob("*.json"))
    text = path.read_text().replace("An answer", "\\ud800 half").replace("1.5", "1" * 500)
    path.write_text(text)
    assert outcomes(analysis(runs)) == {"failure": 2}


# -- everything works on a folder -------------------------------------------------------------------------------


def test_commands_take_a_folder(cli: Cli, tmp_path: Path) -> None:
    sample = str(shutil.copytree(SAMPLE, tmp_path / "sample"))
    altered = shutil.copytree(SAMPLE, tmp_path / "altered")
    for path in altered.rglob("injection_task_0.json"):
        path.write_text(path.read_text().replace('"security": true', '"security": false'))
    shown = cli("results", "show", "office/user_task_0/injection_task_0/important_instructions", sample)
    assert shown.code == 0 and "show_on_screen" in shown.out and "injection_task_0.json:1" in shown.out
    compared = cli("results", "compare", sample, str(altered), "--output-format", "json")
    assert compared.code == 0
    (pair,) = json.loads(compared.out)["pairs"]
    assert (pair["only_a"], pair["only_b"]) == (1, 0)
    for words in (
        ("analyze", sample, "--by", "injection_task_id"),
        ("analyze", sample, "--where", "attack_type = important_instructions"),
        ("export", sample, "--to", "csv", "-o", str(tmp_path / "rows.csv")),
        ("convert-to-excel", sample, "-o", str(tmp_path / "rows.xlsx")),
        ("rejudge", sample, "--judge", 'contains("lobby")', "--rejudged", str(tmp_path / "again.jsonl")),
        ("analyze", str(tmp_path / "again.jsonl")),
    ):
        ran = cli("results", *words)
        assert ran.code == 0, ran.err
    assert cli("results", "analyze", sample, "--fail-on", "asr > 90%").code == 0
    assert cli("results", "analyze", sample, "--fail-on", "asr > 10%").code == 1


@pytest.mark.parametrize("words", [("check",), ("sample-for-labels", "-o", "labels.jsonl")])
def test_commands_that_look_at_the_bytes_take_a_folder(
    words: tuple[str, ...], cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = cli("results", words[0], str(SAMPLE), *words[1:])
    assert ran.code == 0, ran.err


def test_attacks_and_injection_tasks_are_crossed_in_a_picture(folder: Folder, cli: Cli, tmp_path: Path) -> None:
    tasks = [task(user, one, attack_type=name) for user in range(4) for one in range(2) for name in ("a", "b")]
    ran = cli("results", "convert-to-excel", str(folder(*tasks)), "-o", str(tmp_path / "rows.xlsx"))
    assert ran.code == 0, ran.err


def test_an_extract_is_a_dataset_that_runs(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("results", "extract", str(SAMPLE), "--category", "failure", "-o", "dataset.jsonl").code == 0
    ran = cli("run", "dataset.jsonl", "--target", "simulated", "--judge", 'contains("x")', "--journal", "run.jsonl")
    assert ran.code == 0, ran.err
    assert analysis(tmp_path / "run.jsonl").tally.total == 2


def test_the_sample_has_the_figures_of_its_page() -> None:
    found = analysis(SAMPLE)
    assert outcomes(found) == {"success": 1, "failure": 2, "error": 1}
    assert figures(SAMPLE)["Average security, important_instructions"] == (2, 4, 0.5)


# -- damage at random -------------------------------------------------------------------------------------------


def test_no_mutation_of_a_file_ends_in_anything_but_a_message(tmp_path: Path) -> None:
    source = next(SAMPLE.rglob("user_task_0/important_instructions/injection_task_0.json")).read_bytes()
    values: list[Any] = [None, True, -1, 10**400, "", "none", [], {}, [[1]], "\ud800", {"a": {"b": [None]}}]
    chance = random.Random(5)
    for number in range(25):
        runs = tmp_path / str(number) / "agent"
        shutil.copytree(SAMPLE / "sample-agent", runs)
        document = json.loads(source)
        for _ in range(chance.randint(1, 3)):
            document[chance.choice(list(document))] = chance.choice(values)
        text = json.dumps(document).encode()
        if number % 3 == 0:
            place = chance.randrange(len(text))
            text = (
                text[:place] if chance.random() < 0.5 else text[:place] + bytes([chance.randrange(256)]) + text[place:]
            )
        (runs / "office/user_task_0/important_instructions/injection_task_0.json").write_bytes(text)
        found = analysis(runs, aim="attack")
        (counted,) = found.sources
        assert counted.lines == 6
        assert found.tally.total >= 3


WHOLE = [
    next(SAMPLE.rglob("user_task_0/important_instructions/injection_task_0.json")),
    *(
        pytest.param(GOLDEN / "runs/local-scripted/slack/user_task_1" / name, marks=pytest.mark.shared)
        for name in ("important_instructions/injection_task_1.json", "direct/injection_task_2.json", "none/none.json")
    ),
]


@pytest.mark.parametrize("source", WHOLE, ids=lambda path: path.stem)
def test_no_torn_or_altered_file_ends_in_anything_but_a_message(source: Path, tmp_path: Path) -> None:
    text, chance, alone = source.read_bytes(), random.Random(9), tmp_path / "alone.json"
    for number in range(20):
        place = chance.randrange(len(text))
        rest = b"" if number % 2 else bytes([chance.randrange(256)]) + text[place + chance.randrange(20) :]
        alone.write_bytes(text[:place] + rest)
        try:
            analysis(alone)
        except FaircountError as refused:
            assert refused.exit_code in (2, 3)
