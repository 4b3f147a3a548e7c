"""What people write as a label, made into a hit, a pass, or nothing; and what several of them say together."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from faircount.judging.verdict import Decision
from faircount.reading.clean import shown
from faircount.reading.labelled import DEFAULT_THRESHOLD, LabelOptions, LabelState, Ratings

HIT_WORDS = ("hit", "true", "t", "yes", "y", "positive", "success")
PASS_WORDS = ("pass", "false", "f", "no", "n", "negative", "failure")
UNRATED_WORDS = ("", "na", "n/a", "nan", "none", "null", "unresolved")

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]{1,3})?")
_LONGEST_WORD = 64
_VALUES_KEPT = 4096
_WORDS: dict[str, Decision | None] = {
    **dict.fromkeys(HIT_WORDS, Decision.HIT),
    **dict.fromkeys(PASS_WORDS, Decision.PASS),
    **dict.fromkeys(UNRATED_WORDS, None),
}
_OPPOSITE = {Decision.HIT: Decision.PASS, Decision.PASS: Decision.HIT, None: None}


class Told(Struct, frozen=True):
    """What the labels of one record say, and what was wrong with them."""

    ratings: Ratings
    label: Decision | None
    state: LabelState
    scored: bool = False
    wrong: tuple[str, ...] = ()
    plain: bool = True
    """Whether there is nothing to say about it beyond its state."""


class NoLabel(ValueError):
    """A value that is no label; the message says why."""


class LabelReader:
    """Reads the labels of records with the same columns. What was met before is known by heart."""

    def __init__(self, columns: Sequence[str], options: LabelOptions) -> None:
        self._columns = tuple(columns)
        self._threshold = options.label_threshold
        self._invert = options.invert_labels
        self._known: dict[Any, Told] = {}

    def told(self, values: Any) -> Told:
        """Return what the values of the label columns say: the only value, or a tuple of several."""
        # 1 and true are equal for a dict, but only 1 is compared with a threshold.
        key = values if self._threshold is None else (values, repr(values))
        try:
            return self._known[key]
        except KeyError:
            told = self._read(values)
            if len(self._known) < _VALUES_KEPT:
                self._known[key] = told
            return told
        except TypeError:  # a list or an object of several ratings
            return self._read(values)

    def _read(self, values: Any) -> Told:
        ratings: list[tuple[str, Decision | None]] = []
        wrong: list[str] = []
        scored = False
        for rater, value in self._ratings(values if len(self._columns) > 1 else (values,)):
            try:
                decision, score = self._decision(value)
            except NoLabel as reason:
                decision, score = None, False
                wrong.append(str(reason))
            scored = scored or score
            ratings.append((rater, _OPPOSITE[decision] if self._invert else decision))
        label, state = _together([decision for _, decision in ratings])
        if wrong:
            label, state = None, LabelState.UNLABELLED
        odd = bool(wrong) or scored or state is LabelState.TIE
        return Told(tuple(ratings), label, state, scored, tuple(wrong), not odd)

    def _ratings(self, values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        """Yield who rated and what they said; a list or an object in a column holds several ratings."""
        for column, value in zip(self._columns, values, strict=True):
            if isinstance(value, dict):
                yield from value.items()
            elif isinstance(value, list):
                for number, rating in enumerate(value, start=1):
                    yield f"{column}_{number}", rating
            else:
                yield column, value

    def _decision(self, value: Any) -> tuple[Decision | None, bool]:
        """Return what a value means, and whether it is a score that was compared with a threshold."""
        if value is None or isinstance(value, bool):
            return (None if value is None else Decision.of(value)), False
        if isinstance(value, str):
            word = value.strip().casefold() if len(value) <= _LONGEST_WORD else value
            if word in _WORDS:
                return _WORDS[word], False
            if len(word) <= _LONGEST_WORD and _NUMBER.fullmatch(word):
                return self._compared(float(word), value)
        elif isinstance(value, int | float):
            return (None, False) if value != value else self._compared(value, value)
        raise NoLabel(f"{shown(value)} is neither a hit nor a pass")

    def _compared(self, score: float, written: Any) -> tuple[Decision, bool]:
        if not isinstance(score, int) and not math.isfinite(score):
            raise NoLabel(f"{shown(written)} is not a finite number")
        if self._threshold is not None:
            return Decision.of(score >= self._threshold), True
        if not 0 <= score <= 1:
            raise NoLabel(
                f"{shown(written)} is a score outside 0 to 1: set the lowest score of a hit with --label-threshold"
            )
        return Decision.of(score >= DEFAULT_THRESHOLD), score not in (0, 1)


def _together(decisions: Sequence[Decision | None]) -> tuple[Decision | None, LabelState]:
    """Return the majority of those who rated."""
    hits, passes = decisions.count(Decision.HIT), decisions.count(Decision.PASS)
    if hits > passes:
        return Decision.HIT, LabelState.HIT
    if passes > hits:
        return Decision.PASS, LabelState.PASS
    return None, LabelState.TIE if hits else LabelState.UNLABELLED
