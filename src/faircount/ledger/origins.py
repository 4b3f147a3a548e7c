"""Which rows come from the same run, when files of several kinds are analysed together.

An extracted row names the file it came from; a rejudged file holds the rows of the file it was made from; a resumed
run starts with a copy of what it resumes. Such rows must meet in one entry, however the paths are spelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

_EXTRACTED, _ORIGINAL, _REJUDGED = 0, 1, 2


class Overlap(Struct, frozen=True):
    """How many rows of one source stand in another."""

    source: int
    other: int
    found: int
    found_with_verdict: int
    found_timed: int


def preference(path: str) -> int:
    """Return whose verdict stands when several files tell of one attempt: rejudged over original over extracted."""
    name = _parts(path)[-1]
    if name.startswith("rejudge_"):
        return _REJUDGED
    return _EXTRACTED if name.startswith("extract_") else _ORIGINAL


def is_rejudged(path: str) -> bool:
    """Tell whether a file holds the rows of another, judged again."""
    return preference(path) == _REJUDGED


def origin_keys(
    paths: Sequence[str], named: Iterable[tuple[int, str]], overlaps: Iterable[Overlap], rows: Sequence[int]
) -> dict[tuple[int, str], int]:
    """Return the run that the rows of a source with a given named origin ('' for none) come from.

    A run is known by the number of the source that holds it, or by a number beyond all sources where the named
    file is not among them.
    """
    own = _derived_from(paths, overlaps, rows)
    keys: dict[tuple[int, str], int] = {}
    absent: list[str] = []
    for source, origin in named:
        if not origin:
            keys[source, origin] = own[source]
            continue
        match = next((i for i, path in enumerate(paths) if _same_file(path, origin)), None)
        if match is not None:
            keys[source, origin] = own[match]
            continue
        known = next((i for i, path in enumerate(absent) if _same_file(path, origin)), None)
        if known is None:
            known = len(absent)
            absent.append(origin)
        keys[source, origin] = len(paths) + known
    return keys


def _derived_from(paths: Sequence[str], overlaps: Iterable[Overlap], rows: Sequence[int]) -> list[int]:
    """Return for each source the source whose run it repeats, or itself."""
    own = list(range(len(paths)))
    for overlap in sorted(overlaps, key=lambda pair: (pair.source, pair.other)):
        source, other = overlap.source, overlap.other
        if own[source] != source or _root(own, other) == source:
            continue
        if _repeats(overlap, paths, rows):
            own[source] = _root(own, other)
    return [_root(own, source) for source in own]


def _repeats(overlap: Overlap, paths: Sequence[str], rows: Sequence[int]) -> bool:
    """Tell whether a source holds nothing but rows of another: rejudged ones, or copies with the same verdicts.

    Times measured to the microsecond, with the same prompts and answers, are what makes a copy certain.
    """
    source, other = overlap.source, overlap.other
    whole, timed = overlap.found == rows[source], overlap.found_timed > 0
    larger = rows[other] > rows[source] or (rows[other] == rows[source] and other < source)
    if is_rejudged(paths[source]):
        return whole and (not is_rejudged(paths[other]) or (timed and larger))
    return overlap.found_with_verdict == rows[source] and timed and larger


def _root(own: Sequence[int], source: int) -> int:
    while own[source] != source:
        source = own[source]
    return source


def _parts(path: str) -> tuple[str, ...]:
    parts = PurePosixPath(path.replace("\\", "/")).parts
    return tuple(part for part in parts if part not in (".", "/")) or ("",)


def _same_file(path: str, origin: str) -> bool:
    """Tell whether two spellings name one file: one is the other with more folders in front."""
    mine, theirs = _parts(path), _parts(origin)
    shorter = min(len(mine), len(theirs))
    return mine[-shorter:] == theirs[-shorter:]
