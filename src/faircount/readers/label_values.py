"""What a record says: its labels, made into a hit, a pass, or nothing, and what else it has about an attempt."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from faircount.core.attempt import Expected, ToolCall, Turn
from faircount.core.verdict import Decision
from faircount.io.records import Records, Sha256, without_surrogates
from faircount.readers.label_columns import LabelFile
from faircount.readers.label_types import (
    DEFAULT_THRESHOLD,
    DoubtKind,
    Doubts,
    LabelOptions,
    LabelSource,
    LabelState,
    Ratings,
)
from faircount.readers.normalise import shown

HIT_WORDS = ("hit", "true", "t", "yes", "y", "positive", "success")
PASS_WORDS = ("pass", "false", "f", "no", "n", "negative", "failure")
UNRATED_WORDS = ("", "na", "n/a", "nan", "none", "null", "unresolved")

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_LONGEST_WORD = 64
_VALUES_KEPT = 4096
_WORDS: dict[str, Decision | None] = {
    **dict.fromkeys(HIT_WORDS, Decision.HIT),
    **dict.fromkeys(PASS_WORDS, Decision.PASS),
    **dict.fromkeys(UNRATED_WORDS, None),
}
_ARGUMENTS = ("arguments", "input_parameters", "args")
_NOTE = "notes."
_LONGEST_LATENCY = 10**12
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


class LabelTally(Struct):
    """What the labels of one file say."""

    states: list[int] = field(default_factory=lambda: [0] * len(LabelState))
    bad_labels: int = 0
    scores: int = 0
    no_text: int = 0

    def count(self, told: Told, place: str, doubts: Doubts) -> None:
        """Count a label, and note what is odd about it."""
        self.states[told.state] += 1
        if told.state == LabelState.TIE:
            doubts.add(DoubtKind.TIE, "", place)
        self.scores += told.scored
        self.bad_labels += bool(told.wrong)
        for reason in told.wrong:
            doubts.add(DoubtKind.BAD_LABEL, reason, place)

    def source(self, file: LabelFile, records: Records[Any], digest: Sha256, unused: int = 0) -> LabelSource:
        """Return how a file fared that was read to its end."""
        hits, passes, ties, unlabelled = self.states
        return LabelSource(
            path=file.name,
            sha256=digest.hexdigest(),
            format=records.format,
            columns=file.columns,
            lines=records.lines,
            good=sum(self.states) + unused,
            bad=records.bad,
            blank=records.blank,
            hits=hits,
            passes=passes,
            ties=ties,
            unlabelled=unlabelled,
            bad_labels=self.bad_labels,
            scores=self.scores,
            no_text=self.no_text,
            unused=unused,
        )


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
        for rater, value in ratings_in(self._columns, values if len(self._columns) > 1 else (values,)):
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

    def _decision(self, value: Any) -> tuple[Decision | None, bool]:
        """Return what a value means, and whether it is a score that was compared with a threshold."""
        if value is None or isinstance(value, bool):
            return (None if value is None else Decision.of(value)), False
        if isinstance(value, str):
            word = value.strip().casefold() if len(value) <= _LONGEST_WORD else value
            if word in _WORDS:
                return _WORDS[word], False
            if is_number(word):
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


def ratings_in(columns: Sequence[str], values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield who rated and what they said; a list or an object in a column holds several ratings."""
    for column, value in zip(columns, values, strict=True):
        if isinstance(value, dict):
            yield from value.items()
        elif isinstance(value, list):
            for number, rating in enumerate(value, start=1):
                yield f"{column}_{number}", rating
        else:
            yield column, value


def is_number(text: str) -> bool:
    """Return whether a text is a number as people write it."""
    return len(text) <= _LONGEST_WORD and bool(_NUMBER.fullmatch(text.strip()))


def _together(decisions: Sequence[Decision | None]) -> tuple[Decision | None, LabelState]:
    """Return the majority of those who rated."""
    hits, passes = decisions.count(Decision.HIT), decisions.count(Decision.PASS)
    if hits > passes:
        return Decision.HIT, LabelState.HIT
    if passes > hits:
        return Decision.PASS, LabelState.PASS
    return None, LabelState.TIE if hits else LabelState.UNLABELLED


# -- more about an attempt ----------------------------------------------------------------------------------------

Field = tuple[str, str, Any]
"""A role, the name of the column, and the value."""


class WrongKind(ValueError):
    """A value of a shape that no judge can use."""


def attempt_fields(fields: Iterable[Field], wrong: Callable[[str], None]) -> dict[str, Any]:
    """Return fields of an attempt; `wrong` hears the columns whose values cannot be used."""
    made: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    for role, name, value in fields:
        if value is None or value == "":
            continue
        try:
            if role == "notes":
                notes = {**_notes(value), **notes}
            elif role.startswith(_NOTE):
                notes[role.removeprefix(_NOTE)] = value if role == "notes.judge_args" else _note(value)
            elif role.startswith("expected_"):
                target, make = _EXPECTED[role]
                expected[target] = make(value)
            else:
                made[role] = _MADE[role](value)
        except WrongKind:
            wrong(name)
    if expected:
        made["expected"] = Expected(**expected)
    if notes:
        made["notes"] = notes
    return made


def _notes(value: Any) -> dict[str, Any]:
    """Return a JSON object of notes; any other text is a remark of the people who labelled."""
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        return {}
    notes = _note(value)
    if not isinstance(notes, dict):
        raise WrongKind
    return notes


def _note(value: Any) -> Any:
    """Return a note; a cell of CSV holds a list or an object as JSON."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return without_surrogates(json.loads(value))
    except (ValueError, RecursionError):
        return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongKind
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(_text, value if isinstance(value, list) else [value]))


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list):
        raise WrongKind
    return value


def _turns(value: Any) -> tuple[Turn, ...]:
    return tuple(map(_turn, _list(value)))


def _turn(value: Any) -> Turn:
    if not isinstance(value, dict):
        raise WrongKind
    content = value.get("content")
    # A turn that only calls tools has no content.
    return Turn(_text(value.get("role")), "" if content is None else _text(content))


def _tool_calls(value: Any) -> tuple[ToolCall, ...]:
    return tuple(map(_tool_call, _list(value)))


def _tool_call(value: Any) -> ToolCall:
    if isinstance(value, str):
        return ToolCall(value)
    call = value.get("function", value) if isinstance(value, dict) else None
    if not isinstance(call, dict):
        raise WrongKind
    arguments: Any = next((call[name] for name in _ARGUMENTS if call.get(name) is not None), {})
    if not isinstance(arguments, str | dict):
        raise WrongKind
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(_text(call.get("name")), written)


def _seconds(value: Any) -> float:
    try:
        seconds = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        raise WrongKind from None
    if not 0 <= seconds <= _LONGEST_LATENCY:
        raise WrongKind
    return seconds


_MADE: dict[str, Callable[[Any], Any]] = {
    "conversation": _turns,
    "tools_called": _tool_calls,
    "context": _texts,
    "latency": _seconds,
}
_EXPECTED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "expected_output": ("output", _text),
    "expected_tools": ("tools_called", _tool_calls),
    "expected_context": ("context", _texts),
}
