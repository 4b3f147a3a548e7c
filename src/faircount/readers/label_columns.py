"""Which column of a labelled file is the response, which the prompt, which hold labels."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct

from faircount.core.errors import UsageError
from faircount.io.columns import ID_NAMES, ColumnFinder, Role, plain, read_map
from faircount.io.records import RECORDS_SAMPLED, Records, Report, Sha256, column_names, some_values
from faircount.readers.label_types import Columns, LabelOptions

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
        kind = some_values(self.wanted, self.columns.labels)
        return Records(self.path, kind, report, name=self.name, max_line=max_line, digest=digest)


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
