"""What `--judge-quality` names: a summary of judges, labels of a sample of this run, or labels from elsewhere.

Whether a file of labels is a sample of this run is decided by what it holds. Labels without responses can only be keyed
to rows of the run. With responses, they are of this run if at least half of the responses stand in its rows: ids alone
prove nothing, since every file has an entry 1. Nothing is corrected here.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, field

from faircount.analysis.judges.summary import Summary, read_summary
from faircount.errors import InputError, UsageError
from faircount.judging.verdict import Decision
from faircount.reading.labelled import LabelOptions
from faircount.reading.labels import Labels, read_labels
from faircount.reading.raw_rows import RawReader, values_reader
from faircount.reading.readers import open_stream
from faircount.reading.streams import STDIN
from faircount.text import visible

DESIGN_SUFFIX = ".design.json"
"""Behind the name of a sheet: how `results sample-for-labels` drew it."""
_FIRST_LINE = 1024 * 1024
_COMPARED = 200
"""So many characters of a response are compared: spreadsheets cut long ones."""
_SPACES = re.compile(r"\s+")


class RunLabels(Struct, frozen=True):
    """Labels of rows of the run: by file and line, true for a success; None where people did not decide."""

    rows: dict[str, dict[int, bool | None]]
    unused: int = 0
    """Records whose key names no row, or that stand there twice."""
    by_verdict: bool = False
    """Whether a design beside the file says that they were drawn by verdict."""


class Quality(Struct, frozen=True):
    """What was given: exactly one of the three."""

    path: str
    summary: Summary | None = None
    sample: RunLabels | None = None
    labels: Labels | None = field(default=None)


def read_quality(path: str, results: Sequence[str], max_line: int) -> Quality:
    """Read what `--judge-quality` names, for an analysis of the given result files."""
    if path == STDIN or not Path(path).is_file():
        what = "name a file" if path == STDIN or Path(path).is_dir() else "no such file"
        raise InputError(f"--judge-quality {path}: {what}; a summary of `judges evaluate`, or labels")
    if _is_summary(path):
        return Quality(path, summary=read_summary(path))
    return _read_labelled(path, results, max_line)


def _is_summary(path: str) -> bool:
    """Tell a summary, which is one JSON object over the whole file, from lines of labels."""
    with Path(path).open("rb") as file:
        first = file.readline(_FIRST_LINE).removeprefix(codecs.BOM_UTF8).strip()
    if not first.startswith(b"{"):
        return False
    try:
        found = msgspec.json.decode(first)
    except RecursionError:
        raise InputError(f"{path}: nested too deeply to be a summary of judges or labels") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Path(path).suffix.casefold() not in (".jsonl", ".ndjson")
    return isinstance(found, dict) and isinstance(found.get("results"), dict)


def _read_labelled(path: str, results: Sequence[str], max_line: int) -> Quality:
    elsewhere = read_labels([path], LabelOptions(max_line=max_line, text_needed=False))
    columns = elsewhere.columns[0][1]
    if columns.text is not None and (columns.item is None or not _stands_in(elsewhere, results, max_line)):
        return Quality(path, labels=elsewhere)
    if STDIN in results:
        raise UsageError("--judge-quality: labels of rows need result files that can be read twice, not -")
    if columns.item is None:
        raise InputError(f"{path}: has no column of responses or ids, so it is unclear what was labelled")
    keyed = read_labels([path], LabelOptions(max_line=max_line, results=tuple(results)))
    return Quality(path, sample=_by_row(keyed, by_verdict=Path(path + DESIGN_SUFFIX).exists()))


def _by_row(keyed: Labels, *, by_verdict: bool) -> RunLabels:
    rows: dict[str, dict[int, bool | None]] = {}
    for item in keyed:
        path, _, line = item.place.rpartition(":")
        rows.setdefault(path, {})[int(line)] = None if item.label is None else item.label is Decision.HIT
    return RunLabels(rows, sum(source.unused for source in keyed.sources), by_verdict)


# -- whose responses they are -----------------------------------------------------------------------------------


def _stands_in(labels: Labels, results: Sequence[str], max_line: int) -> bool:
    """Tell whether at least half of the labelled responses stand in the rows of the results."""
    told = [item.attempt.response for item in labels]
    wanted = [_plain(text) for text in told if text is not None]
    if not wanted or STDIN in results:
        return False
    missing = set(wanted)
    for text in _responses(results, max_line):
        missing.discard(text)
        if not missing:
            return True
    return 2 * sum(text not in missing for text in wanted) >= len(wanted)


def _responses(results: Sequence[str], max_line: int) -> Iterator[str]:
    read = values_reader(("response",))
    for path in results:
        for rows in RawReader(open_stream(path, path), max_line=max_line).blocks():
            for raw in rows:
                value = read(raw).get("response")
                if isinstance(value, str):
                    yield _plain(value)


def _plain(text: str) -> str:
    # A sheet spells out what it cannot hold, in the way of `visible`.
    return visible(_SPACES.sub(" ", text[: 2 * _COMPARED]).strip())[:_COMPARED]
