"""A file of labels: which column is the response, which the prompt, which hold labels, and what a record says.

Labels are made into a hit, a pass, or nothing; what else a record has about an attempt goes to its judges.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct, field

from faircount.core.attempt import Expected, ToolCall, Turn
from faircount.core.errors import UsageError
from faircount.core.verdict import Decision
from faircount.io.columns import ID_NAMES, ColumnFinder, Role, plain, read_map
from faircount.io.records import RECORDS_SAMPLED, Records, Report, Sha256, column_names, some_values, without_surrogates
from faircount.readers.label_log import FILE, ID, LABEL, Adjudicated, LoggedLabels, is_label_log
from faircount.readers.label_types import (
    DEFAULT_THRESHOLD,
    Columns,
    DataProblemKind,
    DataProblems,
    LabelOptions,
    LabelSource,
    LabelState,
    Ratings,
)
from faircount.readers.rows import shown

TEXT_NAMES = (
    ("assistant_response", "response", "output", "answer", "completion", "generation"),
    ("text", "content"),
)
PROMPT_NAMES = (("objective", "prompt", "input", "question", "instruction"),)
LABEL_NAMES = ("label", "human_score", "human_label", "is_hit", "hit")
RATINGS_NAMES = ("ratings",)
LATE_LABEL_NAMES = ("expected", "gold", "truth")
"""Taken for labels only where nothing else is one: an expected answer is no label."""
KEY_NAMES = (("id",), ("entry_id",), ("long_id",), ("row_id",), ("key",), ("item",), ("place",))
FILE_NAMES = ("file", "results_file", "result_file", "source_file")

_TEXT = Role("text", TEXT_NAMES, "contains the responses", "--text-column")
_PROMPT = Role("prompt", PROMPT_NAMES, option="--prompt-column")
_LABELS = Role("labels", (LABEL_NAMES,), "contains labels", "--label-column")
_OTHER_LABELS = Role("labels", (RATINGS_NAMES, LATE_LABEL_NAMES), option="--label-column")
_ITEM = Role("item", ID_NAMES, option="--id-column", any_of_rank=True)
_KEY = Role("item", KEY_NAMES, "names the rows of the results", "--id-column", any_of_rank=True)
_FILE = Role("file", (FILE_NAMES,), any_of_rank=True)
_SOURCE = Role("file", (("source",),), any_of_rank=True)
"""Taken for the name of a results file only if it is one."""
_RATER = re.compile(r"(humanscore|humanlabel|label|rater|annotator|rating)([0-9]+)")
_NAMED_RATER = re.compile(r"(rater|annotator)(.+)")
_NO_RATER = frozenset(["id", "ids", "name", "names", "count", "comment", "comments", "note", "notes", "agreement"])
_MORE = {
    "conversation": "conversation",
    "tools_called": "tools_called",
    "tool_calls": "tools_called",
    "context": "context",
    "retrieval_context": "context",
    "expected_output": "expected_output",
    "expected": "expected_output",
    "expected_tools": "expected_tools",
    "expected_context": "expected_context",
    "latency": "latency",
    "response_time": "latency",
    "notes": "notes",
    "judge_args": "notes.judge_args",
    "triggers": "notes.triggers",
}
_MORE_BY_NAME = {plain(name): role for name, role in _MORE.items()}
_NOTE = "notes."


class LabelFile(Struct, frozen=True):
    """A file of labels: its name as it was given, where its bytes are, and which of its columns are read.

    `more` are the columns that say more of an attempt, each with its role. `is_log` says that labels were added to it
    one by one, see `label_log`.
    """

    name: str
    path: str
    columns: Columns
    more: tuple[tuple[str, str], ...] = ()
    is_log: bool = False

    @property
    def wanted(self) -> list[str]:
        """Every column that is read, once."""
        columns = self.columns
        named = [columns.text, columns.prompt, columns.item, columns.file, *columns.labels]
        return list(dict.fromkeys([*(name for name in named if name is not None), *(name for _, name in self.more)]))

    def records(self, report: Report, max_line: int, digest: Sha256 | None = None) -> LabelRecords:
        """Return the records of the file: the values of the wanted columns."""
        if self.is_log:
            return LoggedLabels(self.path, self.wanted, report, name=self.name, max_line=max_line, digest=digest)
        kind = some_values(self.wanted, self.columns.labels)
        return Records(self.path, kind, report, name=self.name, max_line=max_line, digest=digest)


LabelRecords = Records[Sequence[Any]] | LoggedLabels
_ROLES = {"text": "text", "response": "text", "prompt": "prompt", "label": "label", "id": "id"}


def _asked_for(options: LabelOptions) -> dict[str, tuple[str, ...]]:
    """Return the columns that the user names for each role, by an option of its own or by --map."""
    named = {"text": options.text_column, "prompt": options.prompt_column, "id": options.id_column}
    asked: dict[str, tuple[str, ...]] = {
        "label": options.label_column,
        **{role: () if column is None else (column,) for role, column in named.items()},
    }
    for role, column in read_map(options.map, _ROLES):
        if asked[role]:
            raise UsageError(f"--map {role}={column}: another option names this column, too; give one of them")
        asked[role] = (column,) if column else ()
    return asked


def label_file(name: str, path: str, options: LabelOptions, results: Container[str] = ()) -> LabelFile:
    """Choose the columns of a file of labels; `results` has the names of the results files whose rows they name."""
    if is_label_log(path, name, options.max_line):
        if options.text_needed and not options.results:
            raise UsageError(f"{name}: has labels of rows and no responses; name the result files with --results")
        return LabelFile(name, path, Columns((LABEL,), item=ID, file=FILE if options.results else None), is_log=True)
    names, all_known = column_names(path, name=name, max_line=options.max_line)
    finder = ColumnFinder(name, names, all_known=all_known)
    asked, mapped = _asked_for(options), dict(read_map(options.map, _ROLES))
    labels = tuple(dict.fromkeys(finder.named(_LABELS, label) for label in asked["label"]))
    roles = {"id": _ITEM} if options.results else {"id": _ITEM, "text": _TEXT, "prompt": _PROMPT}
    named = {name: finder.named(role, column) for name, role in roles.items() for column in asked[name]}
    labels = labels or _guessed_labels(finder)

    def found(name: str, role: Role) -> str | None:
        return named.get(name) if name in named or mapped.get(name) == "" else finder.guess(role)

    item = found("id", _KEY if options.results else _ITEM)
    if options.results:
        if item is None:
            raise finder.missing(_KEY)
        file = finder.guess(_FILE) or _source_of_rows(finder, path, name, options.max_line, results)
        return LabelFile(name, path, Columns(labels, item=item, file=file, guessed=tuple(finder.guessed)))
    text, prompt = found("text", _TEXT), found("prompt", _PROMPT)
    if text is None and options.text_needed and finder.free():
        raise finder.missing(_TEXT)
    columns = Columns(labels, text, prompt, item, guessed=tuple(finder.guessed))
    return LabelFile(name, path, columns, _more_columns(finder.free()))


def _source_of_rows(finder: ColumnFinder, path: str, name: str, max_line: int, results: Container[str]) -> str | None:
    """Return the column `source` if any of its first values is the name of a results file."""
    found = [column for column in finder.free() if plain(column) == "source"]
    if not found:
        return None
    records = Records(path, some_values(found[:1]), name=name, max_line=max_line)
    named = any(str(value) in results for _, (value,) in islice(records, RECORDS_SAMPLED))
    return finder.guess(_SOURCE) if named else None


def _guessed_labels(finder: ColumnFinder) -> tuple[str, ...]:
    """Return the column of labels, or else those of raters."""
    if label := finder.guess(_LABELS):
        return (label,)
    raters = _raters(finder)
    if len(set(raters)) < len(raters):
        raise finder.ambiguous(_LABELS, raters)
    if raters:
        finder.take(_LABELS, raters)
        return tuple(raters)
    if label := finder.guess(_OTHER_LABELS):
        return (label,)
    raise finder.missing(_LABELS)


def _raters(finder: ColumnFinder) -> list[str]:
    """Return the columns of several raters: numbered ones, or else those that name a rater."""
    families: dict[str, list[str]] = {}
    for name in finder.free():
        if match := _RATER.fullmatch(plain(name)):
            families.setdefault(match[1], []).append(name)
    if len(families) > 1:
        raise finder.ambiguous(_LABELS, [name for found in families.values() for name in found])
    if families:
        return next(iter(families.values()))
    matches = ((name, _NAMED_RATER.fullmatch(plain(name))) for name in finder.free())
    return [name for name, match in matches if match and match[2] not in _NO_RATER]


def _more_columns(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the columns that say more of an attempt, each with its role; of several for one role the first."""
    found: dict[str, str] = {}
    for name in names:
        is_note = name.casefold().startswith(_NOTE) and name != _NOTE
        role = _NOTE + name[len(_NOTE) :] if is_note else _MORE_BY_NAME.get(plain(name))
        if role is not None:
            found.setdefault(role, name)
    return tuple(found.items())


# -- what a record says -----------------------------------------------------------------------------------------

HIT_WORDS = ("hit", "true", "t", "yes", "y", "positive", "success")
PASS_WORDS = ("pass", "false", "f", "no", "n", "negative", "failure")
UNRATED_WORDS = ("", "na", "n/a", "nan", "none", "null", "unresolved", "unclear")

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_LONGEST_WORD = 64
_VALUES_KEPT = 4096
_WORDS: dict[str, Decision | None] = {
    **dict.fromkeys(HIT_WORDS, Decision.HIT),
    **dict.fromkeys(PASS_WORDS, Decision.PASS),
    **dict.fromkeys(UNRATED_WORDS, None),
}
_ARGUMENTS = ("arguments", "input_parameters", "args")
_LONGEST_LATENCY = 10**12
_OPPOSITE = {Decision.HIT: Decision.PASS, Decision.PASS: Decision.HIT, None: None}


class RecordLabels(Struct, frozen=True):
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

    def count(self, labels: RecordLabels, place: str, problems: DataProblems) -> None:
        """Count a label, and note what is odd about it."""
        self.states[labels.state] += 1
        if labels.state == LabelState.TIE:
            problems.add(DataProblemKind.TIE, "", place)
        self.scores += labels.scored
        self.bad_labels += bool(labels.wrong)
        for reason in labels.wrong:
            problems.add(DataProblemKind.BAD_LABEL, reason, place)

    def source(self, file: LabelFile, records: LabelRecords, digest: Sha256, unused: int = 0) -> LabelSource:
        """Return the counts of a file that was read to its end."""
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
        self._known: dict[Any, RecordLabels] = {}

    def labels_of(self, values: Any) -> RecordLabels:
        """Return what the values of the label columns say: the only value, or a tuple of several."""
        # 1 and true are equal for a dict, but only 1 is compared with a threshold.
        key = values if self._threshold is None else (values, repr(values))
        try:
            return self._known[key]
        except KeyError:
            labels = self._read(values)
            if len(self._known) < _VALUES_KEPT:
                self._known[key] = labels
            return labels
        except TypeError:  # a list or an object of several ratings
            return self._read(values)

    def _read(self, values: Any) -> RecordLabels:
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
        if isinstance(values, Adjudicated):
            label, state = _together([_OPPOSITE[values.decision] if self._invert else values.decision])
        if wrong:
            label, state = None, LabelState.UNLABELLED
        odd = bool(wrong) or scored or state is LabelState.TIE
        return RecordLabels(tuple(ratings), label, state, scored, tuple(wrong), not odd)

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
    """Return fields of an attempt; `wrong` is called with the columns whose values cannot be used."""
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
