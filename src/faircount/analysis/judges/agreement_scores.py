"""What people gave as numbers: the label columns of labelled files once more, as scores on their own scale.

Labelled items have decisions only. Where a label is a score, its degrees are read here, in another pass over the same
records; files whose labels are no scores are not read again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from faircount.reading.labels import Labels

_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?\s*")
_LONGEST_NUMBER = 64
_STDIN = "-"

Scores = tuple[tuple[str, float], ...]
"""Raters, and what number each gave."""


def has_scores(labels: Labels) -> bool:
    """Tell whether labels are scores that can be read again: not from standard input, and not keyed to results."""
    readable = not labels.options.results and all(source.path != _STDIN for source in labels.sources)
    return readable and any(source.scores for source in labels.sources)


def label_scores(labels: Labels) -> Iterator[tuple[str, Scores]]:
    """Yield items by their ids with the scores that people gave.

    Labels that say the opposite of what judges look for are turned round, s becoming 1 - s: on a scale from 0 to 1
    they can be compared with judges', and among people it makes no difference.
    """
    for labelled, (place, scores) in zip(labels, _records(labels), strict=True):
        if labelled.place != place:
            raise AssertionError(f"{place} was read where {labelled.place} was expected")
        if labels.options.invert_labels:
            scores = tuple((rater, 1 - score) for rater, score in scores)
        if scores:
            yield labelled.item, scores


def _records(labels: Labels) -> Iterator[tuple[str, Scores]]:
    from faircount.reading.label_rows import label_file, records_of
    from faircount.reading.labelled import Doubts
    from faircount.reading.readers import open_stream

    for name, columns in labels.columns:
        file = label_file(name, name, labels.options.max_line)
        stream = open_stream(name, name)
        # What is doubtful was told when the items were read.
        for line, values in records_of(file, stream, columns.labels, labels.options.max_line, Doubts()):
            yield f"{name}:{line}", tuple(_scores(columns.labels, values))


def _scores(columns: Sequence[str], values: Sequence[Any]) -> Iterator[tuple[str, float]]:
    """Yield the numbers among the ratings of one record; a list or an object in a column holds several ratings."""
    for column, value in zip(columns, values, strict=True):
        if isinstance(value, dict):
            several = list(value.items())
        elif isinstance(value, list):
            several = [(f"{column}_{number}", rating) for number, rating in enumerate(value, start=1)]
        else:
            several = [(column, value)]
        for rater, rating in several:
            score = _number(rating)
            if score is not None:
                yield rater, score


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        value = float(value) if len(value) <= _LONGEST_NUMBER and _NUMBER.fullmatch(value) else None
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
