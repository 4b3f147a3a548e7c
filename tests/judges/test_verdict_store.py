"""Verdicts on disk: known by what was judged and by whom, never lost, never made of a failure."""

from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from faircount.components import Context
from faircount.core import UsageError
from faircount.judges import (
    EVERYTHING,
    Attempt,
    Decision,
    Span,
    Turn,
    Usage,
    Verdict,
    VerdictStore,
    content_digest,
    make_judge,
    seen_by,
)

JUDGE, OTHER = "a" * 64, "b" * 64


def name(number: int) -> bytes:
    return content_digest(Attempt(f"response {number}"), EVERYTHING)


def test_a_verdict_comes_back_whole(tmp_path: Path) -> None:
    verdict = Verdict(Decision.HIT, 0.75, "because", Span(1, 3), usage=Usage(2, 10, 5, 0.01))
    with VerdictStore(tmp_path / "verdicts.jsonl") as store:
        told = store.keep(JUDGE, name(1), verdict)
        assert told.at
    with VerdictStore(tmp_path / "verdicts.jsonl") as store:
        known = store.known(JUDGE, name(1))
    assert known == told
    assert known is not None
    assert (known.decision, known.score, known.reason, known.span, known.usage) == (
        verdict.decision,
        verdict.score,
        verdict.reason,
        verdict.span,
        verdict.usage,
    )


def test_a_verdict_is_known_for_its_judge_and_its_content_alone(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    with VerdictStore(path) as store:
        store.keep(JUDGE, name(1), Verdict(Decision.PASS))
    with VerdictStore(path) as store:
        assert store.known(OTHER, name(1)) is None
        assert store.known(JUDGE, name(2)) is None


def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    with VerdictStore(path) as store:
        told = store.keep(JUDGE, name(1), Verdict.unjudged("the server was away"))
        assert (told.decision, told.error, told.at) == (None, "the server was away", "")
    with VerdictStore(path) as store:
        assert store.known(JUDGE, name(1)) is None


def test_a_torn_record_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    with VerdictStore(path) as store:
        store.keep(JUDGE, name(1), Verdict(Decision.HIT))
        whole = path.read_bytes()
        # Another process is killed in the middle of its record while this one goes on.
        with path.open("ab") as file:
            file.write(whole[: len(whole) // 2])
        store.keep(JUDGE, name(2), Verdict(Decision.PASS))
    with VerdictStore(path) as store:
        first, second = store.known(JUDGE, name(1)), store.known(JUDGE, name(2))
    assert first is not None and first.decision is Decision.HIT
    assert second is not None and second.decision is Decision.PASS


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_wherever_the_last_record_is_torn_the_others_are_known(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "verdicts.jsonl"
    with VerdictStore(path) as store:
        for number in range(3):
            store.keep(JUDGE, name(number), Verdict(Decision.HIT))
    path.write_bytes(path.read_bytes()[:-cut])
    with VerdictStore(path) as store:
        known = [store.known(JUDGE, name(number)) is not None for number in range(3)]
    assert known[:2] == [True, True]


def test_a_damaged_record_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    with VerdictStore(path) as store:
        store.keep(JUDGE, name(1), Verdict(Decision.HIT, reason="found"))
    path.write_bytes(path.read_bytes().replace(b'"hit":true', b'"hit":null'))
    with VerdictStore(path) as store:
        assert store.known(JUDGE, name(1)) is None
    changed = path.read_bytes().replace(b'"hit":null', b'"hit":false')
    path.write_bytes(changed)
    with VerdictStore(path) as store:
        assert store.known(JUDGE, name(1)) is None


def test_the_first_of_two_verdicts_counts(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    with VerdictStore(path) as store:
        store.keep(JUDGE, name(1), Verdict(Decision.HIT))
        store.keep(JUDGE, name(1), Verdict(Decision.PASS))
    with VerdictStore(path) as store:
        known = store.known(JUDGE, name(1))
    assert known is not None and known.decision is Decision.HIT


def _keep_many(path: str, first: int, count: int) -> None:
    with VerdictStore(Path(path)) as store:
        for number in range(first, first + count):
            store.keep(JUDGE, name(number), Verdict(Decision.of(number % 2 == 0), reason="x" * (number % 200)))


@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path, each = str(tmp_path / "verdicts.jsonl"), 400
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_keep_many, args=(path, start * each, each)) for start in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    with VerdictStore(Path(path)) as store:
        for number in range(4 * each):
            known = store.known(JUDGE, name(number))
            assert known is not None and known.decision is Decision.of(number % 2 == 0)


def test_a_folder_has_a_file_for_each_judge_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    with VerdictStore(tmp_path / "verdicts", folder=True) as store:
        for judge in (JUDGE, OTHER):
            store.keep(judge, name(1), Verdict(Decision.HIT))
    files = sorted((tmp_path / "verdicts").iterdir())
    assert [file.name for file in files] == [f"{JUDGE}.jsonl", f"{OTHER}.jsonl"]
    if os.name == "posix":
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_a_file_with_something_else_in_it_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"id": 1}\n')
    with VerdictStore(path) as store, pytest.raises(UsageError, match="something other than verdicts"):
        store.known(JUDGE, name(1))
    assert path.read_text() == '{"id": 1}\n'


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with VerdictStore(tmp_path / "x") as store:
        (tmp_path / "x").mkdir()
        with pytest.raises(UsageError, match="not a regular file"):
            store.known(JUDGE, name(1))


def _write_nothing(*_: object) -> int:
    raise OSError(28, "No space left on device")


def test_a_full_disk_loses_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with VerdictStore(tmp_path / "verdicts.jsonl") as store:
        monkeypatch.setattr(os, "write", _write_nothing)
        told = store.keep(JUDGE, name(1), Verdict(Decision.HIT))
        monkeypatch.undo()
    assert (told.decision, told.at) == (Decision.HIT, "")


# -- what a verdict is known by ---------------------------------------------------------------------------------

ATTEMPT = Attempt("yes", "prompt", (Turn("user", "prompt"),), latency=1.0, notes={"judge_args": "x"})
VARIANTS = {
    "response": Attempt("no", "prompt", (Turn("user", "prompt"),), latency=1.0, notes={"judge_args": "x"}),
    "prompt": Attempt("yes", "other", (Turn("user", "prompt"),), latency=1.0, notes={"judge_args": "x"}),
    "conversation": Attempt("yes", "prompt", (), latency=1.0, notes={"judge_args": "x"}),
    "latency": Attempt("yes", "prompt", (Turn("user", "prompt"),), latency=2.0, notes={"judge_args": "x"}),
    "notes": Attempt("yes", "prompt", (Turn("user", "prompt"),), latency=1.0, notes={"judge_args": "y"}),
}
SEEN = {
    "canary": {"response", "notes"},
    'not(contains(text="x"))': {"response", "notes"},
    "refusal": {"response", "prompt", "conversation", "notes"},
    "any(latency(limit=3), canary)": {"response", "prompt", "conversation", "latency", "notes"},
}


@pytest.mark.parametrize("expression", SEEN)
def test_only_what_a_judge_sees_makes_it_another_question(expression: str) -> None:
    fields = seen_by(make_judge(expression, Context()))
    told = content_digest(ATTEMPT, fields)
    differing = {what for what, variant in VARIANTS.items() if content_digest(variant, fields) != told}
    assert differing == SEEN[expression]


def test_a_judge_of_somebodys_own_may_look_at_everything(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def judge(attempt):\n    return True\n")
    assert seen_by(make_judge(f"{path}:judge", Context())) == EVERYTHING
