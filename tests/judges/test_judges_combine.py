"""Judges made of judges: what they decide, what they leave open, whom they ask, and who they are."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from typing import Any

import pytest

from faircount.core import UsageError
from faircount.judges import (
    AllOf,
    AnyOf,
    Attempt,
    Contains,
    Decision,
    Judge,
    Latency,
    Majority,
    Not,
    Regex,
    Span,
    Threshold,
    Usage,
    Verdict,
    every_part,
    verdict_of,
)

HIT, PASS = Decision.HIT, Decision.PASS
UNJUDGED = Verdict.unjudged("no idea")
ATTEMPT = Attempt("x")


class Says(Judge):
    """A judge that says the same of everything, and counts how often it was asked."""

    name = "tests.Says"
    looks_for = "nothing"

    def __init__(self, verdict: Verdict | Exception, *, scores: bool = False, waits: bool = False) -> None:
        super().__init__(verdict=repr(verdict))
        self.verdict, self.scores, self.waits = verdict, scores, waits
        self.asked = 0
        self.closed = False

    def decide(self, attempt: Attempt) -> Verdict:  # noqa: ARG002
        self.asked += 1
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict

    def close(self) -> None:
        self.closed = True


def of(*decisions: Decision | None) -> list[Says]:
    return [Says(UNJUDGED if decision is None else Verdict(decision)) for decision in decisions]


def scored(score: float | None, decision: Decision | None = None) -> Says:
    decision = decision or Decision.of((score or 0) >= 0.5)
    return Says(Verdict(decision, score), scores=True)


def settled(kind: type[Judge], decisions: Sequence[Decision | None]) -> Decision | None:
    """Return what holds whatever the undecided would have said, by trying everything they could have said."""

    def whole(parts: Sequence[Decision | None]) -> Decision | None:
        hits = sum(part is HIT for part in parts)
        if kind is Majority:
            return None if 2 * hits == len(parts) else Decision.of(2 * hits > len(parts))
        return Decision.of(hits > 0 if kind is AnyOf else hits == len(parts))

    open_parts = [place for place, decision in enumerate(decisions) if decision is None]
    outcomes = set()
    for filling in itertools.product((HIT, PASS), repeat=len(open_parts)):
        parts = list(decisions)
        for place, decision in zip(open_parts, filling, strict=True):
            parts[place] = decision
        outcomes.add(whole(parts))
    return outcomes.pop() if len(outcomes) == 1 else None


@pytest.mark.parametrize("kind", [AnyOf, AllOf, Majority])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_whole_decides_what_no_undecided_part_could_turn(kind: Any, count: int) -> None:
    for decisions in itertools.product((HIT, PASS, None), repeat=count):
        wanted = settled(kind, decisions)
        for waits in (False, True):
            parts = of(*decisions)
            parts[0].waits = waits
            verdict = verdict_of(kind(*parts), ATTEMPT)
            assert verdict.decision is wanted, decisions
            assert (verdict.error is None) == (wanted is not None)


def test_asking_stops_when_nothing_can_change_the_decision() -> None:
    for kind, decisions, asked in (
        (AnyOf, (PASS, HIT, HIT), 2),
        (AllOf, (HIT, PASS, None), 2),
        (Majority, (HIT, HIT, PASS), 2),
        (Majority, (HIT, None, PASS), 3),
        (AnyOf, (None, PASS, PASS), 3),
    ):
        parts = of(*decisions)
        verdict_of(kind(*parts), ATTEMPT)
        assert sum(part.asked for part in parts) == asked


def test_parts_that_wait_are_asked_last() -> None:
    slow, quick = Says(Verdict(HIT), waits=True), Says(Verdict(HIT))
    judge = AnyOf(slow, quick)
    assert verdict_of(judge, ATTEMPT).decision is HIT
    assert (slow.asked, quick.asked) == (0, 1)
    assert judge.waits
    assert list(judge.parts()) == [slow, quick]


# -- scores -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "score"),
    [(AnyOf, 0.9), (AllOf, 0.2), (Majority, pytest.approx(0.6))],
)
def test_scores_are_combined_where_every_part_has_one(kind: Any, score: float) -> None:
    for order in itertools.permutations([0.9, 0.7, 0.2]):
        parts = [scored(value) for value in order]
        judge = kind(*parts)
        assert judge.scores
        assert verdict_of(judge, ATTEMPT).score == score
        assert [part.asked for part in parts] == [1, 1, 1]


@pytest.mark.parametrize("kind", [AnyOf, AllOf, Majority])
def test_a_part_without_a_score_leaves_the_whole_without(kind: Any) -> None:
    mixed = kind(scored(0.9), *of(HIT))
    assert not mixed.scores
    assert verdict_of(mixed, ATTEMPT).score is None
    forgetful = kind(scored(0.9), scored(None, HIT))
    assert verdict_of(forgetful, ATTEMPT).score is None


def test_not_turns_the_score_round_and_keeps_the_evidence() -> None:
    span = Span(1, 2)
    part = Says(Verdict(HIT, 0.75, "seen", span, usage=Usage(1, 2, 3, 0.5)), scores=True)
    verdict = verdict_of(Not(part), ATTEMPT)
    assert verdict == Verdict(PASS, 0.25, "hit inverted; tests.Says: seen", span, usage=Usage(1, 2, 3, 0.5))
    assert verdict_of(Not(Says(Verdict(PASS))), ATTEMPT).decision is HIT
    assert verdict_of(Not(Not(part)), ATTEMPT).decision is HIT


def test_what_is_unjudged_is_not_turned_into_a_hit() -> None:
    for judge in (Not(Says(UNJUDGED)), Not(Says(ValueError("broken"))), Threshold(Says(UNJUDGED), at=0.0)):
        assert verdict_of(judge, ATTEMPT).decision is None


@pytest.mark.parametrize(
    ("score", "at", "wanted"), [(0.7, 0.7, HIT), (0.69, 0.7, PASS), (0.0, 0.0, HIT), (1.0, 1.0, HIT), (None, 0.5, None)]
)
def test_a_threshold_decides_by_the_score(score: float | None, at: float, wanted: Decision | None) -> None:
    for decision in (HIT, PASS):
        verdict = verdict_of(Threshold(scored(score, decision), at=at), ATTEMPT)
        assert verdict.decision is wanted
        assert verdict.score == (score if wanted else None)


# -- reasons, usage, failures -----------------------------------------------------------------------------------


def test_the_reason_names_the_part_that_decided_and_shows_its_evidence() -> None:
    judge = AnyOf(Contains("zz"), Contains("x"))
    assert verdict_of(judge, ATTEMPT) == Verdict(HIT, reason='strings.Contains: contains "x"', span=Span(0, 1))
    named = Contains("x")
    named.called = 'strings.Contains(text="x")'
    assert verdict_of(AnyOf(named), ATTEMPT).reason == 'strings.Contains(text="x"): contains "x"'
    both = verdict_of(AllOf(Contains("x"), Regex("x$")), ATTEMPT)
    assert both.span == Span(0, 1)
    assert both.reason == '2 of 2 hit; strings.Contains: contains "x"'
    one_passes = verdict_of(AllOf(Contains("x"), Regex("y")), ATTEMPT)
    assert one_passes.reason == "strings.Regex: matches nothing that was looked for"


def test_a_tie_is_called_one() -> None:
    verdict = verdict_of(Majority(*of(HIT, PASS)), ATTEMPT)
    assert verdict.error == "tie: 1 judges hit and 1 pass"


def test_a_part_that_fails_is_unjudged_and_said_so() -> None:
    broken = Says(ValueError("boom"))
    verdict = verdict_of(AnyOf(broken, *of(PASS)), ATTEMPT)
    assert verdict.error == "1 of 2 judges did not decide; tests.Says: ValueError: boom"
    assert verdict_of(AnyOf(broken, *of(HIT)), ATTEMPT).decision is HIT
    assert verdict_of(AllOf(broken, *of(PASS)), ATTEMPT).decision is PASS


@pytest.mark.parametrize("kind", [AnyOf, AllOf, Majority])
def test_usage_is_added_up(kind: Any) -> None:
    parts = [
        Says(Verdict(HIT, 1.0, usage=Usage(1, 10, 5, 0.25)), scores=True),
        Says(Verdict(PASS, 0.0, usage=Usage(2, 1, 1)), scores=True),
        Says(Verdict.unjudged("x", usage=Usage(1, 1, 1, 0.5)), scores=True),
    ]
    assert verdict_of(kind(*parts), ATTEMPT).usage == Usage(4, 12, 7, 0.75)
    assert verdict_of(kind(*of(HIT)), ATTEMPT).usage is None


# -- what they are ----------------------------------------------------------------------------------------------


def test_an_attempt_without_a_response_reaches_parts_that_need_none() -> None:
    silent = Attempt(None, latency=0.5)
    judge = AnyOf(Contains("x"), Latency(1))
    assert not judge.needs_response
    assert verdict_of(judge, silent).decision is HIT
    assert verdict_of(AllOf(Contains("x"), Latency(1)), silent).decision is None
    assert AnyOf(Contains("x"), Contains("y")).needs_response
    assert not Not(Latency(1)).needs_response


def test_a_whole_is_a_string_matcher_if_all_its_parts_are() -> None:
    assert AnyOf(Contains("x"), Regex("y")).string_matcher
    assert Not(Contains("x")).string_matcher
    assert not AllOf(Contains("x"), Latency(1)).string_matcher


def test_the_identity_changes_with_every_part() -> None:
    judges: list[Judge] = [
        AnyOf(Contains("x")),
        AnyOf(Contains("y")),
        AnyOf(Contains("x"), Contains("y")),
        AllOf(Contains("x")),
        Majority(Contains("x")),
        Not(Contains("x")),
        Not(Not(Contains("x"))),
        Threshold(Contains("x")),
        Threshold(Contains("x"), at=0.6),
        AnyOf(AnyOf(Contains("x"))),
    ]
    assert len({judge.identity.digest for judge in judges}) == len(judges)
    assert AnyOf(Contains("x")).identity.digest == AnyOf(Contains("x")).identity.digest
    newer = Contains("x")
    newer.version = "2"  # type: ignore[misc]
    assert AnyOf(newer).identity.digest != AnyOf(Contains("x")).identity.digest


def test_parts_are_known_and_closed() -> None:
    inner = Says(Verdict(HIT))
    judge = AnyOf(Not(inner), Threshold(Contains("x")))
    assert [type(part).__name__ for part in every_part(judge)] == ["AnyOf", "Not", "Says", "Threshold", "Contains"]
    judge.close()
    assert inner.closed


def test_a_whole_of_local_judges_can_go_to_another_process() -> None:
    judge = Majority(Contains("x"), Not(Regex("y")), Threshold(Latency(1)))
    copy = pickle.loads(pickle.dumps(judge))
    assert copy.identity == judge.identity
    assert verdict_of(copy, ATTEMPT) == verdict_of(judge, ATTEMPT)


@pytest.mark.parametrize(
    ("kind", "parts", "options", "words"),
    [
        (AnyOf, [], {}, "combine.AnyOf needs at least one judge"),
        (AllOf, ["refusal"], {}, "combine.AllOf combines judges; str is not a judge"),
        (Not, [3], {}, "combine.Not combines judges; int is not a judge"),
        (Threshold, [Contains("x")], {"at": 1.5}, "combine.Threshold: at must be a number from 0 to 1"),
        (Threshold, [Contains("x")], {"at": "high"}, "at must be a number"),
    ],
)
def test_wrong_parts_are_refused(kind: Any, parts: list[Any], options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        kind(*parts, **options)
