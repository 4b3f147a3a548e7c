"""Predictions: what is written can be read again, what cannot be read is told, and nothing secret is kept."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from faircount.analysis import KeptPredictions, Prediction, prediction_line, read_predictions
from faircount.core import InputError, UsageError
from faircount.judges import Attempt, Decision, Span, Usage, Verdict
from faircount.readers import Labelled
from tests.conftest import Write

HIT, PASS = Decision.HIT, Decision.PASS
DIGEST = "ab" * 32


def labelled(item: str = "7", label: Decision | None = HIT) -> Labelled:
    return Labelled(item, "labels.csv:8", Attempt("no"), (("human_score", label),), label)


def line(verdict: Verdict, item: str = "7", label: Decision | None = HIT) -> bytes:
    return prediction_line("refusal.Refusal", DIGEST, labelled(item, label), verdict)


def told(**values: Any) -> dict[str, Any]:
    return {"judge": "a", "item": "1", "label": "hit", "decision": "pass", **values}


def test_a_line_holds_what_was_promised_and_nothing_else() -> None:
    verdict = Verdict(HIT, 0.75, "it says no", Span(0, 2), usage=Usage(1, 2, 3))
    written = line(verdict)
    assert written.endswith(b"}\n")
    assert written.count(b"\n") == 1
    assert json.loads(written) == {
        "judge": "refusal.Refusal",
        "item": "7",
        "label": "hit",
        "decision": "hit",
        "score": 0.75,
        "reason": "it says no",
        "error": None,
        "place": "labels.csv:8",
        "identity": DIGEST,
    }


def test_an_unjudged_item_has_no_decision_and_an_item_without_a_label_none() -> None:
    written = json.loads(line(Verdict.unjudged("TimeoutError: no answer"), label=None))
    assert (written["label"], written["decision"], written["error"]) == (None, None, "TimeoutError: no answer")


def test_a_reason_with_line_breaks_stays_on_one_line() -> None:
    written = line(Verdict(HIT, reason="one\ntwo\u2028three"))
    assert written.count(b"\n") == 1
    assert json.loads(written)["reason"] == "one\ntwo\u2028three"


@pytest.mark.parametrize("length", [0, 1000])
def test_secrets_in_a_reason_are_masked(length: int) -> None:
    key = "sk-" + "a1B2" * 8
    written = line(Verdict(HIT, reason=f"{'x ' * length}it leaks {key}", error=f"key={key}"))
    assert key.encode() not in written
    assert b"[masked]" in written


def test_half_a_character_and_a_score_that_is_no_number_can_be_written() -> None:
    written = json.loads(line(Verdict(HIT, math.nan, "half \ud83d here"), item="\udc00"))
    assert (written["reason"], written["item"], written["score"]) == ("half \ufffd here", "\ufffd", None)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    path.write_bytes(line(Verdict(HIT, 0.5, "why")) + line(Verdict.unjudged("broken"), item="8", label=PASS))
    (first, second) = read_predictions([str(path)])
    assert first == Prediction("refusal.Refusal", "7", HIT, HIT, 0.5, "why", None, "labels.csv:8", DIGEST)
    assert (second.item, second.decision, second.label, second.error) == ("8", None, PASS, "broken")


def test_what_is_kept_in_memory_is_the_same_every_time() -> None:
    kept = KeptPredictions()
    lines = [line(Verdict(Decision.of(number % 3 == 0), reason="x" * 100), str(number)) for number in range(5000)]
    for one in lines:
        kept.add(one)
    assert [str(prediction.item) for prediction in kept] == [str(number) for number in range(5000)]
    assert list(kept) == list(kept)
    assert sum(map(len, kept._packed)) < sum(map(len, lines)) / 5


BAD = [
    (b'{"judge": "a", "item": "1", "decision"', "torn"),
    (b"[1, 2]", "not a JSON object but a list"),
    (json.dumps(told(decision="maybe")).encode(), "no prediction: Invalid enum value 'maybe'"),
    (json.dumps(told(score="high")).encode(), "no prediction"),
    (b'{"judge": "a", "item": "1"}', "no prediction: Object missing required field `decision`"),
    (b'{"judge": "a", "item": "1", "decision": "hit", "reason": "\xff"}', "not UTF-8"),
    (b"[" * 5000, "nested more than"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD)
def test_a_bad_line_is_told_with_its_place_and_the_others_count(bad: bytes, reason: str, write: Write) -> None:
    path = write([told(item=1), bad, b"", told(item=2)], "predictions.jsonl")
    predictions = read_predictions([path])
    assert [prediction.item for prediction in predictions] == [1, 2]
    (finding,) = predictions.findings
    assert (finding.code, finding.count, finding.where) == ("F001", 1, (f"{path}:2",))
    assert reason in finding.message
    (source,) = predictions.sources
    assert (source.lines, source.good_lines, source.bad_lines, source.blank_lines) == (4, 2, 1, 1)


def test_a_line_over_the_limit_is_bad_and_the_next_is_read(write: Write) -> None:
    from faircount.analysis import Predictions

    path = write([told(reason="x" * 5000), told(item=2)])
    predictions = Predictions([path], max_line=1000)
    assert [prediction.item for prediction in predictions] == [2]
    assert "longer than 1,000 bytes" in predictions.findings[0].message


def test_not_a_number_is_no_score(write: Write) -> None:
    path = write([b'{"judge": "a", "item": "1", "decision": "hit", "score": NaN}'])
    (prediction,) = read_predictions([path])
    assert prediction.score is None


def test_half_a_character_is_replaced_and_the_line_counts(write: Write) -> None:
    path = write([told(reason="half \ud83d"), told(**{"\ude00": 1, "item": "\ud83d"})])
    predictions = read_predictions([path])
    assert [(one.item, one.reason) for one in predictions] == [("1", "half \ufffd"), ("\ufffd", "")]
    assert predictions.findings == ()


def test_a_second_time_gives_the_same_and_counts_nothing_twice(write: Write) -> None:
    predictions = read_predictions([write([told(), b"{"])])
    assert list(predictions) == list(predictions)
    assert predictions.sources[0].lines == 2
    assert predictions.findings[0].count == 1


def test_a_packed_file_is_read(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "predictions.jsonl.gz"
    path.write_bytes(gzip.compress(line(Verdict(PASS))))
    assert [prediction.decision for prediction in read_predictions([str(path)])] == [PASS]


def test_a_file_that_is_not_there_and_standard_input_are_refused(tmp_path: Path) -> None:
    with pytest.raises((InputError, UsageError), match="nowhere"):
        list(read_predictions([str(tmp_path / "nowhere.jsonl")]))
    with pytest.raises(UsageError, match="read twice"):
        read_predictions(["-"])
