"""The words of labelled data: what a file of labels is asked for, what comes out of it, and which problems it has.

Problems are facts about one set of labels: a count, a sentence and the first places. They are no findings, which are
about results: nothing here changes how an attempt is counted.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from faircount.core.attempt import Attempt
from faircount.core.options import MAX_LINE_BYTES, Option, Options
from faircount.core.verdict import Decision

if TYPE_CHECKING:
    from faircount.io.records import Report

DEFAULT_THRESHOLD = 0.5
PLACES_KEPT = 5
_REASONS_KEPT = 50
_OTHER_REASONS = "other reasons"


class LabelOptions(Options, frozen=True, kw_only=True):
    """How labelled files are to be read.

    Without `label_threshold`, numbers between 0 and 1 are hits from 0.5 on, and others are no labels. `results` are
    files of results; the labels then name their rows.
    """

    results: Annotated[
        tuple[str, ...],
        Option(
            "result files with the responses, if --labels has ids; without --labels, agree compares their judges",
            "labelled data",
            metavar="FILE",
            several=True,
        ),
    ] = ()
    text_column: Annotated[str | None, Option("column of the responses", metavar="NAME", default="guessed")] = None
    prompt_column: Annotated[str | None, Option("column of the prompts", metavar="NAME", default="guessed")] = None
    label_column: Annotated[
        tuple[str, ...], Option("column of the labels, one for each rater", metavar="NAME", default="guessed")
    ] = ()
    id_column: Annotated[str | None, Option("column of the ids", metavar="NAME", default="guessed")] = None
    map: Annotated[
        tuple[str, ...],
        Option(
            "columns by role: text=reply,label=verdict,id=ref; empty cancels a guess",
            metavar="ROLE=COLUMN",
        ),
    ] = ()
    label_threshold: Annotated[
        float | None,
        Option("score of a label from which it is a hit", metavar="SCORE", default="0.5"),
    ] = None
    invert_labels: Annotated[bool, Option("labels mean the opposite of what the judges look for")] = False
    max_line: Annotated[int, Option("skip and report lines longer than this", metavar="BYTES", least=1)] = (
        MAX_LINE_BYTES
    )
    text_needed: bool = True
    """Whether a file without a column of responses is refused, unless it has nothing but ids and labels."""


class Columns(Struct, frozen=True):
    """Which column of a file was taken for what, as the file writes it; `guessed` names those nobody asked for."""

    labels: tuple[str, ...]
    text: str | None = None
    prompt: str | None = None
    item: str | None = None
    file: str | None = None
    guessed: tuple[str, ...] = ()


Ratings = tuple[tuple[str, Decision | None], ...]
"""Who rated, and what they said; None is not rated, or not to be understood."""


class Labelled(Struct, frozen=True):
    """An attempt with what people said of it; `label` is None after a tie, and where nobody said anything.

    `item` is the id that the file gives, or else the place.
    """

    item: str
    place: str
    attempt: Attempt
    ratings: Ratings
    label: Decision | None


class LabelState(enum.IntEnum):
    """What became of the label of an item."""

    HIT = 0
    PASS = 1
    TIE = 2
    UNLABELLED = 3


class LabelSource(Struct, frozen=True):
    """A file of labels that was read: its digest, how many lines could be read, and what its labels say.

    `lines` are those of the file; `good` and `bad` are records, of which one may take several lines. The good are
    `hits`, `passes`, `ties` and `unlabelled`, and for labels that are keyed to results also `unused`.
    """

    path: str
    sha256: str
    format: str
    columns: Columns
    lines: int
    good: int
    bad: int
    blank: int
    hits: int
    passes: int
    ties: int
    unlabelled: int
    bad_labels: int
    """Of the unlabelled, those with a label that is neither a hit nor a pass."""
    scores: int
    """Records with a label that is a score and was compared with the threshold."""
    no_text: int
    """Items without a response."""
    unused: int = 0
    """Keys that are there twice, or have no row."""


class ResultsSource(Struct, frozen=True):
    """A file of results that labels are keyed to."""

    path: str
    sha256: str
    lines: int
    good: int
    bad: int
    labelled: int
    """Rows that a label names; the others have none."""


class DataProblemKind(enum.StrEnum):
    """What can be wrong with labelled data."""

    BAD_LINE = "could not be read"
    BAD_LABEL = "a label that is neither a hit nor a pass"
    TIE = "raters are evenly split"
    WRONG_KIND = "a field of the wrong type, which is ignored"
    CHANGED_TEXT = "lone surrogates were replaced"
    REPEATED = "the same text with the same label again"
    CONTRADICTED = "the same text is both a hit and a pass"
    SAME_ID = "an id that has both a hit and a pass"
    SAME_FILE = "the same file given more than once"
    KEY_TWICE = "a key that appears more than once"
    KEY_CONTRADICTED = "a key with different labels, which counts as unlabelled"
    KEY_WITHOUT_ROW = "a key without a row in the results"


class DataProblem(Struct, frozen=True):
    """A problem, how often it came up, and the first places."""

    kind: DataProblemKind
    reason: str
    count: int
    places: tuple[str, ...]


class DataProblems:
    """Gathers problems with exact counts in bounded memory."""

    def __init__(self) -> None:
        self._found: dict[tuple[DataProblemKind, str], tuple[list[int], list[str]]] = {}

    def add(self, kind: DataProblemKind, reason: str, place: str) -> None:
        """Count a problem at a place. The reason must be in our words, or made visible."""
        key = (kind, reason)
        if key not in self._found and sum(kind is known for known, _ in self._found) >= _REASONS_KEPT:
            key = (kind, _OTHER_REASONS)
        count, places = self._found.setdefault(key, ([0], []))
        count[0] += 1
        if len(places) < PLACES_KEPT:
            places.append(place)

    def of_records(self, name: str) -> Report:
        """Return what is called with problems with the records of a file."""
        from faircount.io.records import Problem

        def add(problem: Problem, reason: str, line: int) -> None:
            kinds = {
                Problem.CHANGED_TEXT: DataProblemKind.CHANGED_TEXT,
                Problem.CHANGED_NUMBER: DataProblemKind.WRONG_KIND,
            }
            words = {
                Problem.CUT_SHORT: f"the rest was not read: {reason}",
                Problem.CHANGED_NUMBER: Problem.CHANGED_NUMBER.value,
            }
            self.add(kinds.get(problem, DataProblemKind.BAD_LINE), words.get(problem, reason), f"{name}:{line}")

        return add

    def listed(self) -> tuple[DataProblem, ...]:
        """Return what was gathered, in the order of the kinds."""
        order = list(DataProblemKind)
        found = [DataProblem(kind, reason, count[0], tuple(at)) for (kind, reason), (count, at) in self._found.items()]
        return tuple(sorted(found, key=lambda problem: order.index(problem.kind)))
