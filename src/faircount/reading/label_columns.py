"""Which column of a labelled file is the response, which the prompt, which hold labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from faircount.io.columns import ID_NAMES, ColumnFinder, Role, plain
from faircount.io.records import Records, RecordType, Report, Sha256, column_names, some_values
from faircount.reading.labelled import Columns, LabelOptions

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
MAYBE_FILE_NAMES = ("source",)
"""Taken for the name of a results file only if it is one."""

_TEXT = Role("text", TEXT_NAMES, "contains the responses", "--text-column")
_PROMPT = Role("prompt", PROMPT_NAMES, option="--prompt-column")
_LABELS = Role("labels", (LABEL_NAMES,), "contains labels", "--label-column")
_OTHER_LABELS = Role("labels", (RATINGS_NAMES, LATE_LABEL_NAMES), option="--label-column")
_ITEM = Role("item", ID_NAMES, option="--id-column", any_of_rank=True)
_KEY = Role("item", KEY_NAMES, "names the rows of the results", "--id-column", any_of_rank=True)
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

    `more` are the columns that say more of an attempt, each with its role.
    """

    name: str
    path: str
    columns: Columns
    more: tuple[tuple[str, str], ...] = ()

    @property
    def wanted(self) -> list[str]:
        """Every column that is read, once."""
        columns = self.columns
        named = [columns.text, columns.prompt, columns.item, columns.file, *columns.labels]
        return list(dict.fromkeys([*(name for name in named if name is not None), *(name for _, name in self.more)]))

    def records(self, report: Report, max_line: int, digest: Sha256 | None = None) -> Records[Sequence[Any]]:
        """Return the records of the file: the values of the wanted columns."""
        kind: RecordType[Sequence[Any]] = some_values(self.wanted, self.columns.labels)
        return Records(self.path, kind, report, name=self.name, max_line=max_line, digest=digest)


def label_file(name: str, path: str, options: LabelOptions) -> LabelFile:
    """Choose the columns of a file with items: responses and labels."""
    names, all_known = column_names(path, name=name, max_line=options.max_line)
    finder = ColumnFinder(name, names, all_known=all_known)
    labels, text, prompt, item = _named(finder, options)
    labels = labels or _guessed_labels(finder)
    item = item or finder.guess(_ITEM)
    text = text or finder.guess(_TEXT)
    prompt = prompt or finder.guess(_PROMPT)
    if text is None and options.text_needed and finder.free():
        raise finder.missing(_TEXT)
    columns = Columns(labels, text, prompt, item, guessed=tuple(finder.guessed))
    return LabelFile(name, path, columns, _more_columns(finder.free()))


def keyed_label_file(name: str, path: str, options: LabelOptions, *, source_is_file: bool) -> LabelFile:
    """Choose the columns of a file whose labels name rows of results; a column `source` may name the results file."""
    names, all_known = column_names(path, name=name, max_line=options.max_line)
    finder = ColumnFinder(name, names, all_known=all_known)
    labels, _, _, item = _named(finder, options)
    labels = labels or _guessed_labels(finder)
    item = item or finder.guess(_KEY)
    if item is None:
        raise finder.missing(_KEY)
    ranks = (FILE_NAMES, MAYBE_FILE_NAMES) if source_is_file else (FILE_NAMES,)
    file = finder.guess(Role("file", ranks, any_of_rank=True))
    return LabelFile(name, path, Columns(labels, item=item, file=file, guessed=tuple(finder.guessed)))


def _named(finder: ColumnFinder, options: LabelOptions) -> tuple[tuple[str, ...], str | None, str | None, str | None]:
    """Return the columns that options name: those of labels, the text, the prompt and the id."""
    labels = tuple(dict.fromkeys(finder.named(_LABELS, name) for name in options.label_columns))
    asked = [(_TEXT, options.text_column), (_PROMPT, options.prompt_column), (_ITEM, options.id_column)]
    if options.results:
        asked = asked[-1:]
    found = {role.name: finder.named(role, name) for role, name in asked if name is not None}
    return labels, found.get("text"), found.get("prompt"), found.get("item")


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
