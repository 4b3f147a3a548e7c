"""Where the difference lies: the figures of the pairs that share a value of a field, tested together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import asdict, replace

from faircount.analysis import fields
from faircount.analysis.comparing.claims import agree
from faircount.analysis.comparing.figures import figures
from faircount.analysis.comparing.figures import with_bounds as figure_bounds
from faircount.analysis.comparing.model import ComparedGroup
from faircount.analysis.comparing.pairing import FIELDS_OF_RUNS
from faircount.analysis.comparing.side import Side
from faircount.analysis.options import CompareOptions
from faircount.analysis.summary import SMALL_GROUP
from faircount.errors import UsageError
from faircount.stats import benjamini_hochberg
from faircount.text import clip, visible

MOST_VALUES = 100
"""A field with more values is broken down only for those who ask: there are hardly two pairs of each."""


def chosen_fields(sides: Sequence[Side], options: CompareOptions) -> tuple[str, ...]:
    """Return the fields to break down by: those asked for, else those that every file has."""
    asked = fields.raw_names(options.by)
    for side in sides:
        _refuse_unknown(side, asked)
    if asked:
        return asked
    first, *others = (fields.to_break_down(side.ledger, (), side.folded.aim) for side in sides)
    shared = [field for field in first if all(field in other for other in others)]
    # What belongs to a run more than to its entries is broken down only if it is asked for.
    return tuple(
        field
        for field in shared
        if field not in FIELDS_OF_RUNS and all(side.column(field) is not None for side in sides)
    )


def _refuse_unknown(side: Side, asked: Sequence[str]) -> None:
    for field in asked:
        try:
            fields.existing_column(side.ledger, field, "--by")
        except UsageError as error:
            raise UsageError(f"{error} (in {clip(visible(side.path), 200)})") from None


def broken_down(
    field: str, a: Side, b: Side, rows: tuple[Any, Any], found: Any, codes: Any, options: CompareOptions
) -> tuple[tuple[ComparedGroup, ...], int] | None:
    """Return the groups of a field, not tested yet, and how many pairs are in none because the files differ in it.

    None where it splits no pairs and was not asked for.
    """
    import numpy as np

    values, alike, texts = _values(field, a, b, rows)
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
        return replace(group, adjusted_p=p, stands_out=bool(agree(group, p, alpha)))

    return [{field: tuple(sorted(map(of, groups), key=_order)) for field, groups in by.items()} for by in found]


def with_bounds(
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

    values, alike, texts = _values(field, a, b, rows)
    *cells, codes = bounding
    places = {texts[value]: at for value, at in _places(values, alike, np.unique(values[alike]))}
    groups = []
    for group in found:
        at = places[group.value]
        bounds = cells[0][at], cells[1][at]
        groups.append(figure_bounds(group, bounds, None if codes is None else codes[at], options.level))
    return tuple(groups)


def _values(field: str, a: Side, b: Side, rows: tuple[Any, Any]) -> tuple[Any, Any, dict[int, str | None]]:
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


def _order(group: ComparedGroup) -> tuple[object, ...]:
    """Those that stand out first, then the largest differences."""
    difference = group.difference.value or 0.0
    return not group.stands_out, -abs(difference), -group.paired, group.value is None, group.value or ""
