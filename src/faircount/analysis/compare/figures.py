"""Pairs of outcomes made into figures: the four cells, two rates, and their difference with interval and tests.

Groups of pairs that share a value of a field have figures too, and are tested together. Where entries come in families,
every interval is that of families. Entries that are in the same family in either file are: a family is known by what
its entries are variants of, which both files tell alike.

A difference is claimed where both agree: its interval leaves out 0, and its p-value, adjusted for the number of tests,
is below 1 - level. Where something is known of the judge, the difference corrected for its errors must say the same.
Nothing else is a claim, and no claim is not a claim that there is no difference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from faircount.analysis.compare.model import (
    Bounds,
    ComparedGroup,
    ComparedScore,
    ComparedScores,
    CorrectedPair,
    Figures,
)
from faircount.analysis.compare.pairing import FIELDS_OF_RUNS, Side
from faircount.analysis.grouping import existing_column, raw_name, raw_names, shared_by, to_break_down
from faircount.analysis.options import AUTO, NONE, CompareOptions
from faircount.analysis.summary import SMALL_GROUP
from faircount.analysis.words import WORDS
from faircount.core.errors import FaircountError, UsageError
from faircount.core.findings import counted
from faircount.core.model import Estimate
from faircount.core.text import clip, visible
from faircount.io.streams import STDIN, blocks
from faircount.readers.registry import open_stream
from faircount.report import formats
from faircount.stats import (
    Design,
    benjamini_hochberg,
    cluster_mean,
    conditional_odds_ratio,
    detectable_paired,
    detectable_unpaired,
    mcnemar,
    shown_sign,
)

PAIR = "pair of entries"
MOST_VALUES = 100
"""A field with more values is broken down only for those who ask: there are hardly two pairs of each."""
_Some = TypeVar("_Some", bound=Figures)
ONLY_B, ONLY_A, BOTH = 1, 2, 3
_INDEPENDENT = "Entries are treated as independent."


class FamiliesOfPairs(Struct, frozen=True):
    """What every pair is a variant of, as numbers from 0 on; None where pairs count as independent. And why so."""

    codes: Any
    explanation: str


def cells(a: Side, b: Side, rows_a: Any, rows_b: Any) -> Any:
    """Return one number for each pair: 3 if both succeeded, 2 if only A did, 1 if only B did, 0 if neither."""
    import numpy as np

    return 2 * a.succeeded[rows_a].astype(np.int8) + b.succeeded[rows_b].astype(np.int8)


def bounding_cells(a: Side, b: Side, rows_a: Any, rows_b: Any) -> tuple[Any, Any]:
    """Return the cells of pairs if errors and unjudged entries had ended so that B - A is lowest, and highest."""
    import numpy as np

    certain_a, certain_b = a.succeeded[rows_a], b.succeeded[rows_b]
    possible_a, possible_b = certain_a | ~a.answered[rows_a], certain_b | ~b.answered[rows_b]
    lowest = 2 * possible_a.astype(np.int8) + certain_b.astype(np.int8)
    return lowest, 2 * certain_a.astype(np.int8) + possible_b.astype(np.int8)


# -- families ---------------------------------------------------------------------------------------------------


def families(a: Side, b: Side, rows_a: Any, rows_b: Any, asked: str) -> FamiliesOfPairs:
    """Find what pairs are variants of, as an analysis does for entries, and decide whether there is any to respect."""
    import numpy as np

    if asked == NONE:
        return FamiliesOfPairs(None, "Pairs are treated as independent, as --cluster none asks.")
    if asked == AUTO:
        shared = f"a {shared_by(a.folded.ledger, WORDS[a.folded.aim])}"
        first, second = a.families[rows_a], b.families[rows_b]
        codes = _dense(np.where(first != 0, first, second))
    else:
        shared = "a value of the field asked for"
        words: dict[str | None, int] = {None: 0}
        field = raw_name(asked)
        columns = [existing_column(side.ledger, field, "--cluster") for side in (a, b)]
        first, second = (side.values(column, words) for side, column in zip((a, b), columns, strict=True))
        codes = _dense(np.where(first[rows_a] != 0, first[rows_a], second[rows_b]))
    count = int(codes.max()) + 1 if len(codes) else 0
    if count == len(codes):
        return FamiliesOfPairs(None, f"No pairs share {shared}: each counts on its own.")
    if count == 1 and asked == AUTO:
        return FamiliesOfPairs(None, f"All pairs share {shared}: the interval holds only for variants of this one.")
    if count == 1:
        return FamiliesOfPairs(
            codes, f"All pairs share {shared}: one family does not show how families vary, so there is no interval."
        )
    shown = counted(count, "family", "families")
    return FamiliesOfPairs(codes, f"Intervals respect {shown} of variants: pairs that share {shared}.")


def _dense(labels: Any) -> Any:
    """Number families from 0 on; a pair without a label, which is 0, is a family of its own."""
    import numpy as np

    known = labels != 0
    distinct, inverse = np.unique(labels[known], return_inverse=True)
    codes = np.empty(len(labels), np.int64)
    codes[known] = inverse
    codes[~known] = len(distinct) + np.arange(len(labels) - int(known.sum()))
    return codes


# -- figures ----------------------------------------------------------------------------------------------------


def figures(found: Any, codes: Any, level: float, *, whole: bool = True) -> Figures:
    """Return the figures of pairs, given by their cells and their families; `whole` adds what is told of all pairs."""
    import numpy as np

    cells = np.bincount(found, minlength=4)
    paired, (neither, won_b, won_a, won_both) = len(found), cells.tolist()
    alone = codes is None or not paired
    if alone:
        counts = cells.reshape(1, 4)
    else:
        _, family = np.unique(codes, return_inverse=True)
        counts = np.bincount(4 * family + found, minlength=4 * (int(family.max()) + 1)).reshape(-1, 4)
    only_b, only_a, both = (counts[:, cell].tolist() for cell in (ONLY_B, ONLY_A, BOTH))
    sizes = counts.sum(axis=1).tolist()
    design = Design(families=codes is not None, level=level)
    difference = design.paired(only_b, only_a, sizes, unit=PAIR)
    rate_a, rate_b = (
        design.rate([x + y for x, y in zip(both, only, strict=True)], sizes).estimate for only in (only_a, only_b)
    )
    odds = conditional_odds_ratio(won_b, won_a, level=level, unit="pair that differs") if whole else None
    made = Figures(
        paired=paired,
        both=won_both,
        only_a=won_a,
        only_b=won_b,
        neither=neither,
        successes_a=won_both + won_a,
        successes_b=won_both + won_b,
        rate_a=rate_a,
        rate_b=rate_b,
        difference=difference.estimate,
        odds_ratio=odds,
    )
    if design.respects(sizes):
        return replace(
            made,
            p=difference.p,
            families_p=difference.p,
            odds_ratio=None if odds is None else replace(odds, low=None, high=None),
            families=difference.families,
            effective_n=difference.effective_n,
            degrees=difference.degrees,
        )
    # The pairs of one family, which all of a group may be, show nothing of how families vary: their difference has no
    # interval and no test. The rates of a group are those of an analysis, which hold for variants of this family.
    if not alone and len(sizes) == 1 < paired:
        estimate = replace(difference.estimate, low=None, high=None)
        if whole:
            rate_a, rate_b = (replace(rate, low=None, high=None) for rate in (rate_a, rate_b))
        return replace(made, rate_a=rate_a, rate_b=rate_b, difference=estimate, families=1)
    if not paired:
        return replace(made, effective_n=0.0)
    test = mcnemar(won_a, won_b)
    return replace(made, p=test.p, mcnemar_p=test.p, mid_p=test.mid_p, effective_n=float(paired))


def with_bounds(figure: _Some, cells: tuple[Any, Any], codes: Any, level: float) -> _Some:
    """Return the figures of decided pairs with the bounds of all; `cells` are those of `bounding_cells`."""
    undecided = len(cells[0]) - figure.paired
    if not undecided:
        return figure
    lowest, highest = (figures(found, codes, level, whole=False) for found in cells)
    return replace(figure, undecided=undecided, bounds=Bounds(lowest, highest))


def unpaired_figures(a: Side, b: Side, asked: str, level: float) -> tuple[Figures, str]:
    """Return the figures of two files that share no entry, and what the intervals respect.

    All that each answered counts.
    """
    import numpy as np

    sides = (a, b)
    grouped = [families(side, side, rows := np.arange(len(side)), rows, asked) for side in sides]
    respected = [item for item in grouped if item.codes is not None]
    design = Design(families=bool(respected), level=level)
    explanation = respected[0].explanation.replace("pairs", "entries") if respected else _INDEPENDENT

    def of_each(won: Sequence[Any], among: Sequence[Any]) -> list[_Counted]:
        return [of_families(item.codes, *masks) for item, *masks in zip(grouped, won, among, strict=True)]

    certain, answered = [side.succeeded for side in sides], [side.answered for side in sides]
    found = _unpaired(of_each(certain, answered), design)
    undecided = sum(int((~known).sum()) for known in answered)
    if undecided:
        everything = [np.ones(len(side), bool) for side in sides]
        possible = [won | ~known for won, known in zip(certain, answered, strict=True)]
        lowest = _unpaired(of_each([possible[0], certain[1]], everything), design)
        highest = _unpaired(of_each([certain[0], possible[1]], everything), design)
        found = replace(found, undecided=undecided, bounds=Bounds(lowest, highest))
    return found, explanation


_Counted = tuple[list[int], list[int]]


def of_families(codes: Any, won: Any, among: Any) -> _Counted:
    """Return successes and entries of each family, or of all where there are none."""
    import numpy as np

    if codes is None:
        return [int((won & among).sum())], [int(among.sum())]
    successes, sizes = (np.bincount(codes[rows], minlength=int(codes.max()) + 1) for rows in (won & among, among))
    return successes.tolist(), sizes.tolist()


def _unpaired(counted: Sequence[_Counted], design: Design) -> Figures:
    a, b = counted
    difference = design.unpaired(b, a)
    rate_a, rate_b = (design.rate(*counts).estimate for counts in (a, b))
    return Figures(
        successes_a=sum(a[0]),
        successes_b=sum(b[0]),
        rate_a=rate_a,
        rate_b=rate_b,
        difference=difference.estimate,
        p=difference.p,
        effective_n=difference.effective_n,
        families=difference.families or None,
        families_p=difference.p if difference.families else None,
        fisher_p=None if difference.families else difference.p,
    )


# -- groups: the pairs that share a value of a field -----------------------------------------------------------


def chosen_fields(sides: Sequence[Side], options: CompareOptions) -> tuple[str, ...]:
    """Return the fields to break down by: those asked for, else those that every file has."""
    asked = raw_names(options.by)
    for side in sides:
        for field in asked:
            try:
                existing_column(side.ledger, field, "--by")
            except UsageError as error:
                raise UsageError(f"{error} (in {clip(visible(side.path), 200)})") from None
    if asked:
        return asked
    first, *others = (to_break_down(side.ledger, (), side.folded.aim) for side in sides)
    shared = [field for field in first if all(field in other for other in others)]
    # What belongs to a run more than to its entries is broken down only if it is asked for.
    return tuple(
        field
        for field in shared
        if field not in FIELDS_OF_RUNS and all(side.column(field) is not None for side in sides)
    )


def broken_down(
    field: str, a: Side, b: Side, rows: tuple[Any, Any], found: Any, codes: Any, options: CompareOptions
) -> tuple[tuple[ComparedGroup, ...], int] | None:
    """Return the groups of a field, not tested yet, and how many pairs are in none because the files differ in it.

    None where it splits no pairs and was not asked for.
    """
    import numpy as np

    values, alike, texts = values_of_pairs(field, a, b, rows)
    present = np.unique(values[alike])
    if not options.by and not 1 < len(present) <= MOST_VALUES:
        return None
    groups = [
        (texts[value], figures(found[at], None if codes is None else codes[at], options.level, whole=False))
        for value, at in _places(values, alike, present)
    ]
    made = (ComparedGroup(**asdict(figure), value=value, small=figure.paired < SMALL_GROUP) for value, figure in groups)
    return tuple(made), int((~alike).sum())


def tested(
    found: Sequence[Mapping[str, Sequence[ComparedGroup]]], alpha: float
) -> list[dict[str, tuple[ComparedGroup, ...]]]:
    """Return the groups of each pair of files, by field, tested by one adjustment for all of them."""
    adjusted = iter(benjamini_hochberg([group.p for by in found for groups in by.values() for group in groups]))

    def of(group: ComparedGroup) -> ComparedGroup:
        p = next(adjusted)
        return replace(group, adjusted_p=p, stands_out=bool(shown_sign(group.difference, p, alpha)))

    def order(group: ComparedGroup) -> tuple[object, ...]:
        """Those that stand out first, then the largest differences."""
        difference = group.difference.value or 0.0
        return not group.stands_out, -abs(difference), -group.paired, group.value is None, group.value or ""

    return [{field: tuple(sorted(map(of, groups), key=order)) for field, groups in by.items()} for by in found]


def groups_with_bounds(
    field: str,
    found: Sequence[ComparedGroup],
    a: Side,
    b: Side,
    rows: tuple[Any, Any],
    bounding: tuple[Any, Any, Any],
    options: CompareOptions,
) -> tuple[ComparedGroup, ...]:
    """Return groups with their bounds over all entries that both files have, answered or not; see `Figures.bounds`."""
    import numpy as np

    values, alike, texts = values_of_pairs(field, a, b, rows)
    *cells, codes = bounding
    places = {texts[value]: at for value, at in _places(values, alike, np.unique(values[alike]))}
    return tuple(
        with_bounds(group, (cells[0][at], cells[1][at]), None if codes is None else codes[at], options.level)
        for group in found
        for at in (places[group.value],)
    )


def values_of_pairs(field: str, a: Side, b: Side, rows: tuple[Any, Any]) -> tuple[Any, Any, dict[int, str | None]]:
    """Return the value of each pair as a number, whether both files tell the same, and the text of each number."""
    import numpy as np

    words: dict[str | None, int] = {None: 0}
    first, second = (
        np.zeros(len(at), np.int64) if column is None else side.values(column, words)[at]
        for side, column, at in zip((a, b), (a.column(field), b.column(field)), rows, strict=True)
    )
    return first, first == second, {number: text for text, number in words.items()}


def _places(values: Any, alike: Any, present: Any) -> list[tuple[int, Any]]:
    """Return each value with the places of its pairs; all are found by one sort."""
    import numpy as np

    at = np.flatnonzero(alike)
    order = at[np.argsort(values[at], kind="stable")]
    ends = np.searchsorted(values[order], present, side="right")
    return list(zip(present.tolist(), np.split(order, ends[:-1]), strict=True)) if len(present) else []


# -- what may be claimed --------------------------------------------------------------------------------------


POWER = 0.8
"""How often a difference that counts as one that could have been shown would have been."""


def supported(sign: int, corrected: CorrectedPair | None, alpha: float) -> int:
    """Return the sign of a raw difference if the corrected one shows it, too, or if nothing was to be corrected."""
    if corrected is None:
        return sign
    # Where the corrected difference has no test of its own, that of the raw one is.
    p = 0.0 if corrected.adjusted_p is None else corrected.adjusted_p
    return sign if shown_sign(corrected.difference, p, alpha) == sign else 0


def detectable(figures: Figures, alpha: float) -> float | None:
    """Return the true difference that pairs like these show in four cases of five, None where there is none.

    It is decided by the rule of `shown_sign`: McNemar's exact test, or Student's t with the families' design effect.
    """
    n, worth = figures.paired, figures.effective_n
    if not n or not worth:
        return None
    return detectable_paired(
        n,
        figures.differing / n,
        (2 * figures.both + figures.differing) / (2 * n),
        power=POWER,
        alpha=alpha,
        design_effect=n / worth,
        degrees=figures.degrees,
    )


def detectable_apart(figures: Figures, alpha: float) -> float | None:
    """Return the true difference that different entries like these show in four cases of five."""
    a, b, worth = figures.rate_a, figures.rate_b, figures.effective_n
    if a.value is None or b.value is None or not worth:
        return None
    degrees = None if figures.families is None else max(1.0, figures.families / 2 - 1)
    rate = (a.value + b.value) / 2
    return detectable_unpaired(worth, min(rate, 1 - rate), power=POWER, alpha=alpha, degrees=degrees)


def claim(
    figures: Figures,
    sign: int,
    flips: tuple[int, int] | None,
    could: float | None,
    labels: tuple[str, str],
    *,
    corrected: CorrectedPair | None = None,
    supports: bool = True,
) -> str:
    """Return the claim in words; `flips` are the entries fixed and broken, None where entries are not paired.

    `sign` is that of the raw difference; `supports` says whether the corrected one shows it, too.
    """
    a, b = labels
    if figures.difference.value is None:
        return f"No difference between {a} and {b} can be claimed: no entry was answered by both."
    flipped = "" if flips is None else f"; {counted(flips[0], 'entry', 'entries')} fixed, {flips[1]:,} broken"
    if sign:
        raw = f"{b} is {formats.points(figures.difference.value)} {'higher' if sign > 0 else 'lower'} than {a}"
        raw += _limits(figures.difference)
        if corrected is None:
            return f"{raw}{flipped}."
        if supports and corrected.difference is not None:
            shown = formats.points(corrected.difference.value or 0.0) + _limits(corrected.difference)
            return f"{raw} as judged, and by {shown} corrected for the judge{flipped}."
        if corrected.difference is None:
            unsupported = "and that cannot be corrected for the judge"
        else:
            shown = _points(corrected.difference)
            unsupported = f"and the difference corrected for the judge, {shown}, does not show it"
        return f"No difference can be claimed: {raw} as judged, {unsupported}{flipped}."
    if could is None:
        shown = f"there are too few {'entries' if figures.families is None else 'families'} to show any reliably"
    else:
        shown = f"this comparison could have shown {formats.points(could)}"
    if corrected is not None and corrected.difference is not None:
        shown += f"; corrected for the judge it is {_points(corrected.difference)}"
    return f"No difference between {a} and {b} can be claimed; {shown}{flipped}."


def _limits(difference: Estimate) -> str:
    """Return the interval of a claimed difference, for a sentence."""
    if difference.low is None or difference.high is None:
        return ""
    low, high = sorted((abs(difference.low), abs(difference.high)))
    return f" ({formats.exact_percent(difference.level)} interval {100 * low:.1f}–{100 * high:.1f} points)"


def _points(difference: Estimate) -> str:
    """Return a difference in points with its interval, for a sentence."""
    if difference.value is None:
        return formats.UNDEFINED
    value = f"{formats.fixed(100 * difference.value, 1)} points"
    if difference.low is None or difference.high is None:
        return f"{value} without an interval"
    return f"{value} [{formats.fixed(100 * difference.low, 1)}, {formats.fixed(100 * difference.high, 1)}]"


# -- scores of metrics ----------------------------------------------------------------------------------------
_NO_SCORES = "The files hold verdicts and no scores."

Means = Mapping[str, Mapping[str, float]]
"""By metric and by the id of the case."""


class _MetricScore(Struct, gc=False):
    name: Any = None
    score: Any = None


class _Item(Struct, gc=False):
    metrics: list[_MetricScore] = []


class _ScoredRow(Struct, gc=False):
    id: Any = None
    attempt_history: list[_Item] = []


_decoder = msgspec.json.Decoder(_ScoredRow)


def scores_of(side: Side, max_line: int) -> Means | str:
    """Return the mean score of each case by metric, or why there are none."""
    if side.folded.aim != "task":
        return _NO_SCORES
    if side.path == STDIN:
        return "Standard input can be read only once: scores, which need a second reading, are not compared."
    gathered: dict[str, dict[str, list[float]]] = {}
    try:
        for block in blocks(open_stream(side.path, side.path), max_line):
            for line in block.lines:
                for case, metric, score in _scores_in(line):
                    gathered.setdefault(metric, {}).setdefault(case, []).append(score)
    except (OSError, FaircountError):
        return "A file could not be read a second time, which scores need."
    if not gathered:
        return _NO_SCORES
    return {
        metric: {case: math.fsum(scores) / len(scores) for case, scores in cases.items()}
        for metric, cases in gathered.items()
    }


def _scores_in(line: bytes) -> Iterator[tuple[str, str, float]]:
    """Yield the scores that a line holds, each with its case and its metric."""
    try:
        row = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    for item in row.attempt_history:
        for metric in item.metrics:
            score = metric.score
            if isinstance(metric.name, str) and type(score) in (int, float) and math.isfinite(score):
                yield str(row.id), metric.name, float(score)


def compared_scores(
    a: Side, b: Side, means: tuple[Means | str, Means | str], rows: tuple[Any, Any], codes: Any, level: float
) -> ComparedScores:
    """Compare the scores of the entries that two files share, given by their places; `codes` are their families."""
    first, second = means
    if isinstance(first, str) or isinstance(second, str):
        return ComparedScores(refused=first if isinstance(first, str) else str(second))
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
            difference = _mean([(b - a, family) for a, b, family in pairs], level)
            mean_a, mean_b = (_mean([(pair[at], pair[2]) for pair in pairs], level).estimate for at in (0, 1))
            made.append(
                ComparedScore(metric, mean_a, mean_b, difference.estimate, difference.standard_error, difference.p)
            )
    return ComparedScores(tuple(made), None if made else "No case has a score of the same metric in both files.")


def _mean(values: Sequence[tuple[float, int]], level: float) -> Any:
    sums: dict[int, list[float]] = {}
    for value, family in values:
        sums.setdefault(family, []).append(value)
    totals, sizes = [math.fsum(found) for found in sums.values()], [len(found) for found in sums.values()]
    return cluster_mean(totals, sizes, unit="case", level=level)
