"""What people gave as numbers: the label columns of labelled files once more, as scores on their own scale.

Labelled items have decisions only. Where a label is a score, its degrees are read here, in another pass over the same
records; files whose labels are no scores are not read again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from faircount.io.records import Records, some_values
from faircount.io.streams import STDIN
from faircount.readers.label_values import is_number, ratings_in
from faircount.readers.labels import Labels

Scores = tuple[tuple[str, float], ...]
"""Raters, and what number each gave."""


def has_scores(labels: Labels) -> bool:
    """Tell whether labels are scores that can be read again: not from standard input, and not keyed to results."""
    readable = not labels.options.results and all(source.path != STDIN for source in labels.sources)
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
    for name, columns in labels.columns:
        # What is doubtful was told when the items were read.
        for line, values in Records(name, some_values(columns.labels), max_line=labels.options.max_line):
            scores = ((rater, _number(rating)) for rater, rating in ratings_in(columns.labels, values))
            yield f"{name}:{line}", tuple((rater, score) for rater, score in scores if score is not None)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        value = float(value) if is_number(value) else None
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
