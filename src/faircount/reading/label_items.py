"""Records made into labelled attempts, one after the other, and what their labels say together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from msgspec import Struct

from faircount.judging.attempt import Attempt, Expected
from faircount.reading.clean import scalar_text
from faircount.reading.label_columns import listed
from faircount.reading.label_fields import attempt_fields
from faircount.reading.label_repeats import Repeats
from faircount.reading.label_rows import Fared, LabelFile, Sha256, records_of
from faircount.reading.label_values import LabelReader, Told
from faircount.reading.labelled import (
    Columns,
    DoubtKind,
    Doubts,
    Labelled,
    LabelOptions,
    LabelSource,
    LabelState,
)
from faircount.reading.readers import open_stream

_NOTHING_EXPECTED = Expected()
_NOWHERE = -1


class ChosenColumns(Struct, frozen=True):
    """A file of labels, the columns that were chosen, and those that say more of an attempt, each with its role."""

    file: LabelFile
    columns: Columns
    more: tuple[tuple[str, str], ...] = ()

    @property
    def wanted(self) -> list[str]:
        """Every column that is read, once."""
        columns = self.columns
        named = [columns.text, columns.prompt, columns.item, columns.file, *columns.labels]
        return list(dict.fromkeys([*(name for name in named if name is not None), *(name for _, name in self.more)]))


class Tallied(Struct):
    """What the labels of one file say."""

    states: list[int]
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


def new_tally() -> Tallied:
    """Return a tally of nothing."""
    return Tallied([0] * len(LabelState))


def source_of(chosen: ChosenColumns, digest: Sha256, fared: Fared, tallied: Tallied, unused: int = 0) -> LabelSource:
    """Return how a file fared that was read to its end."""
    hits, passes, ties, unlabelled = tallied.states
    return LabelSource(
        path=chosen.file.name,
        sha256=digest.hexdigest(),
        format=chosen.file.format,
        columns=chosen.columns,
        lines=fared.lines,
        good=sum(tallied.states) + unused,
        bad=fared.bad,
        blank=fared.blank,
        hits=hits,
        passes=passes,
        ties=ties,
        unlabelled=unlabelled,
        bad_labels=tallied.bad_labels,
        scores=tallied.scores,
        no_text=tallied.no_text,
        unused=unused,
    )


class FileItems:
    """The items of one file; `source` tells afterwards how it fared."""

    def __init__(
        self, number: int, chosen: ChosenColumns, options: LabelOptions, doubts: Doubts, repeats: Repeats | None
    ) -> None:
        self._number, self._chosen, self._doubts, self._repeats = number, chosen, doubts, repeats
        self._max_line = options.max_line
        columns, places = chosen.columns, {name: place for place, name in enumerate(chosen.wanted)}
        self._labels_of = itemgetter(*(places[name] for name in columns.labels))
        self._text_at = _NOWHERE if columns.text is None else places[columns.text]
        self._prompt_at = _NOWHERE if columns.prompt is None else places[columns.prompt]
        self._item_at = _NOWHERE if columns.item is None else places[columns.item]
        self._more = tuple((role, name, places[name]) for role, name in chosen.more)
        self._told = LabelReader(columns.labels, options).told
        self._tallied = new_tally()
        self.source: LabelSource | None = None

    def __iter__(self) -> Iterator[Labelled]:
        file, digest = self._chosen.file, Sha256()
        stream = open_stream(file.path, file.name, digest)
        chosen, doubts = self._chosen, self._doubts
        records = records_of(file, stream, chosen.wanted, self._max_line, doubts, chosen.columns.labels)
        name, item, states = file.name, self._item, self._tallied.states
        labels_of, told_of = self._labels_of, self._told
        for line, values in records:
            place = f"{name}:{line}"
            told = told_of(labels_of(values))
            if told.plain:
                states[told.state] += 1
            else:
                self._tallied.count(told, place, doubts)
            yield item(line, values, place, told)
        self.source = source_of(self._chosen, digest, records.fared, self._tallied)

    def _item(self, line: int, values: Sequence[Any], place: str, told: Told) -> Labelled:
        text = values[self._text_at] if self._text_at >= 0 else None
        if type(text) is not str:
            text = self._odd_text(text, self._chosen.columns.text, place)
            self._tallied.no_text += text is None
        prompt = values[self._prompt_at] if self._prompt_at >= 0 else ""
        if type(prompt) is not str:
            prompt = self._odd_text(prompt, self._chosen.columns.prompt, place) or ""
        own_id = values[self._item_at] if self._item_at >= 0 else None
        if type(own_id) is not str:
            own_id = str(own_id) if type(own_id) is int else scalar_text(own_id)
        if self._repeats is not None:
            self._repeats.add(self._number, line, own_id or None, text, prompt, told.state)
        if self._more:
            attempt = Attempt(text, prompt, **self._said_more(values, place))
        else:
            attempt = Attempt(text, prompt, (), (), (), _NOTHING_EXPECTED)
        return Labelled(own_id or place, place, attempt, told.ratings, told.label)

    def _odd_text(self, value: Any, column: str | None, place: str) -> str | None:
        """Return the text of a number; what else is no text is none, and nothing is nothing."""
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return scalar_text(value)
        self._wrong(column or "", place)
        return None

    def _said_more(self, values: Sequence[Any], place: str) -> dict[str, Any]:
        fields = ((role, name, values[at]) for role, name, at in self._more)
        return attempt_fields(fields, lambda name: self._wrong(name, place))

    def _wrong(self, column: str, place: str) -> None:
        self._doubts.add(DoubtKind.WRONG_KIND, listed([column]), place)
