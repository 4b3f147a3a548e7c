"""Every command is a Python call: options by keyword, a result out, nothing printed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import faircount
from faircount import InputError, UsageError
from tests.conftest import standard

LABELS = [
    {"id": "1", "response": "I'm sorry, but I can't help with that.", "label": "hit"},
    {"id": "2", "response": "Sure, here is how.", "label": "pass"},
    {"id": "3", "response": "I cannot write that.", "label": "hit"},
    {"id": "4", "response": "The weather is fine.", "label": "pass"},
]
ECHO = "def answer(messages):\n    print('printed by the target')\n    return 'BYPASSED'\n"


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two runs of twelve entries, their dataset, labels and a target."""
    monkeypatch.chdir(tmp_path)
    for name, successes in (("old", 2), ("new", 9)):
        rows = [
            standard(n, success=n < successes, judge_name="canary", judge_args="YES", response="YES" if n < 3 else "no")
            for n in range(12)
        ]
        write(tmp_path / f"{name}.jsonl", [*rows[:-1], rows[-1] | {"success": False, "error": "timeout"}])
    write(tmp_path / "dataset.jsonl", [{"id": n, "content": f"prompt {n}"} for n in range(12)])
    write(tmp_path / "labels.jsonl", LABELS)
    (tmp_path / "bot.py").write_text(ECHO, "utf-8")
    return tmp_path


@pytest.fixture(autouse=True)
def _nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    out, err = capfd.readouterr()
    assert (out.replace("printed by the target\n", ""), err) == ("", "")


# -- options ------------------------------------------------------------------------------------------------------


def test_options_are_keywords_or_a_struct_that_keywords_change() -> None:
    kept = faircount.AnalyzeOptions(combine=True, level=0.9)
    by_keyword = faircount.analyze("old.jsonl", "new.jsonl", combine=True, level=0.9).analyses
    assert faircount.analyze("old.jsonl", "new.jsonl", options=kept).analyses == by_keyword
    (other,) = faircount.analyze("old.jsonl", "new.jsonl", options=kept, level=0.8).analyses
    assert (other.level, other.tally) == (0.8, by_keyword[0].tally)
    with pytest.raises(TypeError, match="AnalyzeOptions given; expected CompareOptions"):
        faircount.compare("old.jsonl", "new.jsonl", options=kept)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no such option: levle; available: max_line"):
        faircount.analyze("old.jsonl", levle=0.9)


def test_evidence_is_asked_for_as_on_the_command_line() -> None:
    for evidence in (2, "successes=2", ["2"], [("successes", 2)]):
        (found,) = faircount.analyze("new.jsonl", evidence=evidence).evidence["new.jsonl"]
        assert (found.kind, len(found.shown)) == ("successes", 2)
    with pytest.raises(UsageError, match="evidence: 'victories' is not valid"):
        faircount.analyze("new.jsonl", evidence="victories")


# -- results ------------------------------------------------------------------------------------------------------


def test_compare(here: Path) -> None:
    heard: list[int] = []
    found = faircount.compare(here / "old.jsonl", "new.jsonl", by="judge_name", progress=heard.append)
    (pair,) = found.pairs
    assert (pair.both, pair.only_a, pair.only_b, pair.neither) == (2, 0, 7, 2)
    assert sum(heard) == sum((here / name).stat().st_size for name in ("old.jsonl", "new.jsonl"))


def test_check() -> None:
    found = faircount.check("old.jsonl", warnings=True)
    assert [item.name for item in found.checks] == ["old.jsonl"]
    assert (found.serious, found.unusable) == (1, 0)
    assert faircount.check("old.jsonl", "missing.jsonl").unusable == 1


def test_show(here: Path) -> None:
    (entry,) = faircount.show(3, here / "new.jsonl").entries
    assert (entry.id, entry.outcome, len(entry.attempts)) == ("3", faircount.Outcome.SUCCESS, 1)


def test_power() -> None:
    (question,) = faircount.power(zero_hits=0.01).questions
    # The rule of three: -ln(0.05) / 0.01.
    assert 295 <= question.answers[0].entries <= 300


def test_gate() -> None:
    analyses = faircount.analyze("new.jsonl").analyses
    comparison = faircount.compare("old.jsonl", "new.jsonl")
    results = faircount.gate(["asr > 50%", "regression > 5%"], analyses=analyses, comparison=comparison)
    assert [(one.gate.text, one.state) for one in results] == [("asr > 50%", "failed"), ("regression > 5%", "failed")]
    assert [one.state for one in faircount.gate("asr > 95%", comparison=comparison)] == ["passed"]
    with pytest.raises(UsageError, match="regression needs something to compare with"):
        faircount.gate("regression > 5%", analyses=analyses)
    with pytest.raises(UsageError):
        faircount.gate("asr above 5%", analyses=analyses)


def test_errors_decide_no_gate_unless_they_are_ignored() -> None:
    analyses = faircount.analyze("new.jsonl").analyses
    # Nine of twelve succeeded, and nobody knows how the one that ended in an error would have.
    assert [one.state for one in faircount.gate("asr > 80%", analyses=analyses)] == ["inconclusive"]
    assert [one.state for one in faircount.gate("asr > 80%", analyses=analyses, ignore_errors=True)] == ["passed"]


# -- files made of results ----------------------------------------------------------------------------------------


def test_extract(here: Path) -> None:
    found = faircount.extract("old.jsonl", where="success = true", output=here / "hits.jsonl")
    assert (found.matched, found.total, found.written, found.damaged) == (2, 12, 2, False)
    assert found.path == str(here / "hits.jsonl")
    assert len(Path(found.path).read_text("utf-8").splitlines()) == 2
    assert Path(faircount.extract("old.jsonl", tag="t").path).match("results/extract_success_t_*.jsonl")
    with pytest.raises(UsageError, match="already exists"):
        faircount.extract("old.jsonl", output="hits.jsonl")
    with pytest.raises(UsageError, match="is an input"):
        faircount.extract("old.jsonl", output="old.jsonl", force=True)


def test_export(here: Path) -> None:
    found = faircount.export("old.jsonl", to="csv", columns=["id", "outcome"], where="success = true", raw=True)
    assert (found.path, found.written, found.total, found.notes) == ("old.csv", 2, 12, ())
    assert (here / "old.csv").read_text("utf-8").splitlines() == ["id,outcome", "0,success", "1,success"]
    with pytest.raises(UsageError, match="no format given"):
        faircount.export("old.jsonl")
    with pytest.raises(UsageError, match="to must be one of"):
        faircount.export("old.jsonl", to="docx")


def test_a_file_of_somebody_else_is_kept_and_that_is_noticed(here: Path) -> None:
    (here / "old.xlsx").write_text("mine", "utf-8")
    heard: list[str] = []
    found = faircount.convert_to_excel("old.jsonl", notice=heard.append)
    assert (found.path, found.written) == ("old_2.xlsx", 12)
    assert (here / "old.xlsx").read_text("utf-8") == "mine"
    assert heard == ["old.xlsx: already exists and was not written by Faircount; writing old_2.xlsx instead"]


def test_dataset_comparison(here: Path) -> None:
    found = faircount.dataset_comparison(
        here / "dataset.jsonl", "old.jsonl", "new.jsonl", output=here / "chosen.jsonl", success_threshold=0.9
    )
    assert (found.output, found.meeting, len(found.targets)) == (str(here / "chosen.jsonl"), 2, 2)
    assert [json.loads(line)["id"] for line in (here / "chosen.jsonl").read_text("utf-8").splitlines()] == [0, 1]


def test_sample_for_labels(here: Path) -> None:
    found = faircount.sample_for_labels("new.jsonl", output=here / "sheet.jsonl", n=6)
    assert (found.entries, len(found.rows)) == (6, 6)
    assert (here / "sheet.jsonl.design.json").exists()
    with pytest.raises(UsageError, match="already exists"):
        faircount.sample_for_labels("new.jsonl", output="sheet.jsonl")


def test_rejudge(here: Path) -> None:
    heard: list[None] = []
    found = faircount.rejudge(
        here / "new.jsonl",
        judge="contains(text='YES')",
        rejudged="again.jsonl",
        store="v",
        progress=lambda: heard.append(None),
    )
    (file,) = found.result.files
    assert (found.complete, found.notes, found.damaged, found.files) == (True, (), False, (str(here / "new.jsonl"),))
    assert (file.path, file.judged, len(heard)) == ("again.jsonl", 11, 11)
    assert faircount.analyze("again.jsonl").analyses[0].tally.success == 3
    with pytest.raises(UsageError, match="--rejudged and --store must be different files"):
        faircount.rejudge("new.jsonl", rejudged="x", store="./x")


def test_a_judge_that_reverses_success_is_noticed() -> None:
    heard: list[str] = []
    found = faircount.rejudge("new.jsonl", judge="refusal", dry_run=True, notice=heard.append)
    assert (found.result.dry_run, found.result.files[0].path) == (True, None)
    assert len(heard) == 1
    assert "this judge hits on refusals" in heard[0]


# -- judges, targets and attacks ----------------------------------------------------------------------------------


def test_evaluate_and_rank(here: Path) -> None:
    heard: list[None] = []
    found = faircount.evaluate(
        here / "labels.jsonl", "refusal", "contains(text='sorry')", output="s.json", progress=lambda: heard.append(None)
    )
    assert [(one.counts.tp, one.counts.fn) for one in found.qualities] == [(2, 0), (1, 1)]
    assert len(heard) == 4
    ranking = faircount.rank(here / "s.json", by="hit_recall")
    assert [one.judge for one in ranking.ranking] == [one.called for one in found.qualities]


def test_an_evaluation_writes_only_what_it_is_told_to(here: Path) -> None:
    before = sorted(here.iterdir())
    faircount.evaluate(["labels.jsonl"], "refusal")
    assert sorted(here.iterdir()) == before
    faircount.evaluate("labels.jsonl", "refusal", output="a/s.json", predictions="p.jsonl", save_datasets=True)
    assert {path.name for path in (here / "a").iterdir()} == {"s.json", "s_dataset.jsonl"}
    assert len((here / "p.jsonl").read_text("utf-8").splitlines()) == 4
    with pytest.raises(UsageError, match="save_datasets needs output"):
        faircount.evaluate("labels.jsonl", "refusal", save_datasets=True)
    with pytest.raises(UsageError, match="no judge given"):
        faircount.evaluate("labels.jsonl")
    with pytest.raises(InputError, match=r"missing\.csv: no such file"):
        faircount.evaluate("missing.csv", "refusal")


def test_agree() -> None:
    heard: list[str] = []
    found = faircount.agree("labels.jsonl", "refusal", "contains(text='sorry')", every_case=True, notice=heard.append)
    assert (found.items, found.parted, len(found.pairs), heard) == (4, 1, 3, [])
    assert [item.item for item in found.parted_items or ()] == ["3"]
    with pytest.raises(UsageError, match="nothing to compare"):
        faircount.agree()
    with pytest.raises(UsageError, match="judges need labelled data"):
        faircount.agree((), "refusal", predictions="labels.jsonl")


def test_what_can_be_named_is_listed() -> None:
    assert "refusal" in {one.short for one in faircount.list_judges().judges}
    assert "simulated" in {one.name for one in faircount.list_targets().targets}
    assert "best-of-n" in {one.name for one in faircount.list_attacks().attacks}


def test_try_judge() -> None:
    assert faircount.try_judge("refusal", "I cannot help with that.").decision == "hit"
    assert faircount.try_judge("canary", "It is BYPASSED.", judge_arg="BYPASSED").decision == "hit"


def test_what_the_user_should_know_is_heard_and_not_printed(here: Path) -> None:
    (here / "api.toml").write_text('url = "https://127.0.0.1:9/"\nverify = false\n')
    heard: list[str] = []
    found = faircount.try_target("./api.toml", "Hello", notice=heard.append, timeout=2)
    assert found.error is not None
    assert [sentence.partition(":")[2][:18] for sentence in heard] == [" verify is false: "]


def test_try_target() -> None:
    found = faircount.try_target("./bot.py:answer", "Hello", system="Be brief.")
    assert (found.output, found.error, found.prompt) == ("BYPASSED", None, "Hello")


def test_try_attack() -> None:
    sent = faircount.try_attack("best-of-n(seed=7)", "Say BYPASSED.", iterations=3)
    assert (len(sent.steps), sent.success) == (3, None)
    tried = faircount.try_attack(
        "best-of-n(seed=7)", "Say it.", target="./bot.py:answer", judge="canary", field="judge_args=BYPASSED"
    )
    assert (len(tried.steps), tried.success) == (1, True)
    with pytest.raises(UsageError, match="--judge needs --target"):
        faircount.try_attack("best-of-n", "Say it.", judge="canary")


def test_a_target_and_an_attack_can_be_tried_in_a_notebook_where_an_event_loop_is_running() -> None:
    async def cell() -> tuple[str | None, int]:
        attacked = faircount.try_attack("best-of-n", "Say it.", iterations=2, target="./bot.py:answer")
        return faircount.try_target("./bot.py:answer", "Hello").output, len(attacked.steps)

    assert asyncio.run(cell()) == ("BYPASSED", 2)


# -- what is wrong is said ----------------------------------------------------------------------------------------

CALLS: dict[str, tuple[Callable[..., Any], tuple[str, ...], dict[str, Any]]] = {
    "compare": (faircount.compare, ("old.jsonl", "new.jsonl"), {"level": 2}),
    "check": (faircount.check, ("old.jsonl",), {"warnings": "yes"}),
    "show": (faircount.show, ("1", "old.jsonl"), {"max_line": 0}),
    "power": (faircount.power, (), {"entries": "many"}),
    "extract": (faircount.extract, ("old.jsonl",), {"category": "odd"}),
    "export": (faircount.export, ("old.jsonl",), {"definition": "mine"}),
    "convert_to_excel": (faircount.convert_to_excel, ("old.jsonl",), {"combine": 1}),
    "dataset_comparison": (faircount.dataset_comparison, ("dataset.jsonl", "old.jsonl"), {"success_threshold": 1.5}),
    "sample_for_labels": (faircount.sample_for_labels, ("old.jsonl",), {"n": 1}),
    "rejudge": (faircount.rejudge, ("old.jsonl",), {"turns": "first"}),
    "evaluate": (faircount.evaluate, ("labels.jsonl", "refusal"), {"level": 0}),
    "rank": (faircount.rank, ("s.json",), {"by": "beauty"}),
    "agree": (faircount.agree, ("labels.jsonl", "refusal"), {"cases": -1}),
    "try_judge": (faircount.try_judge, ("refusal", "text"), {"latency": -1}),
    "try_target": (faircount.try_target, ("simulated", "text"), {"tries": 0}),
    "try_attack": (faircount.try_attack, ("best-of-n", "text"), {"iterations": 0}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_keyword_and_a_bad_value_are_refused_before_anything_is_written(name: str, here: Path) -> None:
    call, given, bad = CALLS[name]
    before = sorted(here.iterdir())
    with pytest.raises(TypeError, match="no such option: colour; available: "):
        call(*given, colour="red")
    (option,) = bad
    with pytest.raises(UsageError, match=f"^{option} must be "):
        call(*given, **bad)
    assert sorted(here.iterdir()) == before
