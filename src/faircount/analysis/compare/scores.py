"""The scores that metrics gave, case by case: read from the files of runs, since the ledger holds verdicts only.

A case has one number for each metric: the mean over its attempts that have a score. The difference of two files is the
mean over cases of the differences of these, and its error is that of the cases, or of the families they come in.
Scores of different metrics are never mixed: they need not be on one scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from faircount.analysis.compare.model import Score, Scores
from faircount.analysis.compare.side import Side
from faircount.core.errors import FaircountError
from faircount.io.streams import STDIN, blocks
from faircount.readers.registry import open_stream
from faircount.stats import cluster_mean

NO_SCORES = "The files hold verdicts and no scores."
NOTHING_SHARED = "No case has a score of the same metric in both files."
READ_ONCE = "Standard input can be read only once: scores, which need a second reading, are not compared."

Means = Mapping[str, Mapping[str, float]]
"""By metric and by the id of the case."""


class _Said(Struct, gc=False):
    name: Any = None
    score: Any = None


class _Item(Struct, gc=False):
    metrics: list[_Said] = []


class _Row(Struct, gc=False):
    id: Any = None
    attempt_history: list[_Item] = []


_decoder = msgspec.json.Decoder(_Row)


def scores_of(side: Side, max_line: int) -> Means | str:
    """Return the mean score of each case by metric, or why there are none."""
    if side.folded.aim != "task":
        return NO_SCORES
    if side.path == STDIN:
        return READ_ONCE
    gathered: dict[str, dict[str, list[float]]] = {}
    try:
        for block in blocks(open_stream(side.path, side.path), max_line):
            for line in block.lines:
                _gather(line, gathered)
    except (OSError, FaircountError):
        return "A file could not be read a second time, which scores need."
    if not gathered:
        return NO_SCORES
    return {
        metric: {case: math.fsum(scores) / len(scores) for case, scores in cases.items()}
        for metric, cases in gathered.items()
    }


def _gather(line: bytes, gathered: dict[str, dict[str, list[float]]]) -> None:
    try:
        row = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    for item in row.attempt_history:
        for said in item.metrics:
            score = said.score
            if isinstance(said.name, str) and type(score) in (int, float) and math.isfinite(score):
                gathered.setdefault(said.name, {}).setdefault(str(row.id), []).append(float(score))


def compared(
    a: Side, b: Side, means: tuple[Means | str, Means | str], rows: tuple[Any, Any], codes: Any, level: float
) -> Scores:
    """Compare the scores of the entries that two files share, given by their places; `codes` are their families."""
    first, second = means
    if isinstance(first, str) or isinstance(second, str):
        return Scores(refused=first if isinstance(first, str) else str(second))
    names_a, names_b = a.names(rows[0]), b.names(rows[1])
    families = range(len(names_a)) if codes is None else codes.tolist()
    made = []
    for metric in first:
        told_a, told_b = first[metric], second.get(metric, {})
        pairs = [
            (told_a[one], told_b[other], family)
            for one, other, family in zip(names_a, names_b, families, strict=True)
            if one in told_a and other in told_b
        ]
        if pairs:
            made.append(_score(metric, pairs, level))
    return Scores(tuple(made), None if made else NOTHING_SHARED)


def _score(metric: str, pairs: Sequence[tuple[float, float, int]], level: float) -> Score:
    difference = _mean([(b - a, family) for a, b, family in pairs], level)
    return Score(
        metric,
        _mean([(a, family) for a, _, family in pairs], level).estimate,
        _mean([(b, family) for _, b, family in pairs], level).estimate,
        difference.estimate,
        difference.standard_error,
        difference.p,
    )


def _mean(values: Sequence[tuple[float, int]], level: float) -> Any:
    sums: dict[int, list[float]] = {}
    for value, family in values:
        sums.setdefault(family, []).append(value)
    totals, sizes = [math.fsum(found) for found in sums.values()], [len(found) for found in sums.values()]
    return cluster_mean(totals, sizes, unit="case", level=level)
