"""Which column of a labelled file is the response, which the prompt, which hold labels: as told, or as names suggest.

A guess is made only where one column fits. Otherwise the message lists the columns and names the option that decides.
Upper and lower case, spaces, `-` and `_` make no difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from faircount.errors import UsageError
from faircount.reading.labelled import Columns, LabelOptions
from faircount.text import clip, mask_secrets, visible

TEXT_NAMES = (
    ("assistant_response", "response", "output", "answer", "completion", "generation"),
    ("text", "content"),
)
PROMPT_NAMES = (("objective", "prompt", "input", "question", "instruction"),)
LABEL_NAMES = ("label", "human_score", "human_label", "is_hit", "hit")
RATINGS_NAMES = ("ratings",)
LATE_LABEL_NAMES = ("expected", "gold", "truth")
"""Taken for labels only where nothing else is one: an expected answer is no label."""
ID_NAMES = (("id",), ("item",), ("uuid",), ("key",), ("conversation_id",))
KEY_NAMES = (("id",), ("entry_id",), ("long_id",), ("row_id",), ("key",), ("item",), ("place",))
FILE_NAMES = ("file", "results_file", "result_file", "source_file")
MAYBE_FILE_NAMES = ("source",)
"""Taken for the name of a results file only if it is one."""

_RATER = re.compile(r"(humanscore|humanlabel|label|rater|annotator|rating)([0-9]+)")
_NAMED_RATER = re.compile(r"(rater|annotator)(.+)")
_NO_RATER = frozenset(["id", "ids", "name", "names", "count", "comment", "comments", "note", "notes", "agreement"])
_COLUMNS_LISTED = 30
_SEPARATORS = re.compile(r"[-_\s]+")


def plain(name: str) -> str:
    """Return a name without what makes no difference."""
    return _SEPARATORS.sub("", name).casefold()


def listed(names: Iterable[str]) -> str:
    """Return the names of columns for a message."""
    every = list(names)
    told = ", ".join(clip(visible(mask_secrets(name)), 40) or '""' for name in every[:_COLUMNS_LISTED])
    more = len(every) - _COLUMNS_LISTED
    return (f"{told} and {more} more" if more > 0 else told) or "none"


def find_columns(
    path: str, names: Sequence[str], options: LabelOptions, *, all_known: bool, source_is_file: bool = False
) -> Columns:
    """Choose the columns of a file by the names that it has.

    `all_known` is false where there may be more names than were seen. `source_is_file` tells whether a column `source`
    names results files.
    """
    return _Chooser(path, names, options, all_known).choose(source_is_file)


class _Chooser:
    def __init__(self, path: str, names: Sequence[str], options: LabelOptions, all_known: bool) -> None:
        self._path, self._names, self._options, self._all_known = path, names, options, all_known
        self._taken: set[str] = set()
        self._guessed: list[str] = []

    def choose(self, source_is_file: bool) -> Columns:
        options, keyed = self._options, bool(self._options.results)
        labels = tuple(dict.fromkeys(self._named(name, "--label-column") for name in options.label_column))
        text = None if keyed else self._named_or_none(options.text_column, "--text-column")
        prompt = None if keyed else self._named_or_none(options.prompt_column, "--prompt-column")
        item = self._named_or_none(options.id_column, "--id-column")
        labels = labels or self._labels()
        item = item or self._guess("item", KEY_NAMES if keyed else ID_NAMES, None)
        if keyed:
            if item is None:
                raise self._missing("names the rows of the results", "--id-column")
            return Columns(labels, item=item, file=self._file(source_is_file), guessed=tuple(self._guessed))
        text = text or self._guess("text", TEXT_NAMES, "--text-column")
        prompt = prompt or self._guess("prompt", PROMPT_NAMES, "--prompt-column")
        if text is None and options.text_needed and set(self._names) - self._taken:
            raise self._missing("contains the responses", "--text-column")
        return Columns(labels, text, prompt, item, guessed=tuple(self._guessed))

    def _named_or_none(self, name: str | None, option: str) -> str | None:
        return None if name is None else self._named(name, option)

    def _named(self, name: str, option: str) -> str:
        """Return the column that was asked for, as the file writes it."""
        found = [name] if name in self._names else [other for other in self._names if plain(other) == plain(name)]
        if len(found) > 1:
            raise self._ambiguous(found, option)
        if not found and self._all_known:
            raise UsageError(
                f"{self._path}: has no column {listed([name])} ({option}); its columns: {listed(self._names)}"
            )
        column = found[0] if found else name
        if self._names.count(column) > 1:
            raise self._ambiguous([column, column], option)
        self._taken.add(column)
        return column

    def _with_names(self, wanted: Sequence[str]) -> list[str]:
        """Return the columns with one of these names: those spelled so, or else those that are nearly."""
        names = {plain(name) for name in wanted}
        found = [name for name in self._names if plain(name) in names and name not in self._taken]
        return [name for name in found if name in wanted] or found

    def _guess(self, role: str, ranks: Sequence[Sequence[str]], option: str | None) -> str | None:
        """Return the only column of the first rank that has any; without an option any of them will do."""
        for wanted in ranks:
            found = self._with_names(wanted)
            if len(found) > 1 and option is not None:
                raise self._ambiguous(found, option)
            if found:
                return self._take(role, found[:1])[0]
        return None

    def _take(self, role: str, found: Sequence[str]) -> tuple[str, ...]:
        self._taken.update(found)
        self._guessed.append(role)
        return tuple(found)

    def _labels(self) -> tuple[str, ...]:
        """Return the column of labels, or else those of raters."""
        found = self._only(LABEL_NAMES) or self._raters() or self._only(RATINGS_NAMES) or self._only(LATE_LABEL_NAMES)
        if not found:
            raise self._missing("contains labels", "--label-column")
        return self._take("labels", found)

    def _only(self, wanted: Sequence[str]) -> list[str]:
        found = self._with_names(wanted)
        if len(found) > 1:
            raise self._ambiguous(found, "--label-column")
        return found

    def _raters(self) -> list[str]:
        """Return the columns of several raters: numbered ones, or else those that name a rater."""
        families: dict[str, list[str]] = {}
        for name in self._names:
            match = _RATER.fullmatch(plain(name))
            if match and name not in self._taken:
                families.setdefault(match[1], []).append(name)
        if len(families) > 1:
            raise self._ambiguous([name for found in families.values() for name in found], "--label-column")
        if families:
            (raters,) = families.values()
        else:
            matches = ((name, _NAMED_RATER.fullmatch(plain(name))) for name in self._names if name not in self._taken)
            raters = [name for name, match in matches if match and match[2] not in _NO_RATER]
        if len(set(raters)) < len(raters):
            raise self._ambiguous(raters, "--label-column")
        return raters

    def _file(self, source_is_file: bool) -> str | None:
        found = self._with_names(FILE_NAMES) or (self._with_names(MAYBE_FILE_NAMES) if source_is_file else [])
        return self._take("file", found[:1])[0] if found else None

    def _ambiguous(self, found: Sequence[str], option: str) -> UsageError:
        return UsageError(f"{self._path}: several columns match: {listed(found)}; name one with {option}")

    def _missing(self, what: str, option: str) -> UsageError:
        return UsageError(
            f"{self._path}: found no column that {what}; name it with {option}. Its columns: {listed(self._names)}"
        )
