"""What `--judge-quality` names: a summary of judges, labels of a sample of this run, or labels from elsewhere.

Whether a file of labels is a sample of this run is decided by what it holds. Labels without responses can only be keyed
to rows of the run. With responses, they are of this run if at least half of the responses stand in its rows: ids alone
prove nothing, since every file has an entry 1. Of a judge that was measured elsewhere, this finds out which one is
meant. A result file never chooses code: of the judges that rows can name, only those that compare strings are made.
Nothing is corrected.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, field

from faircount.analysis.judges.evaluation import evaluate
from faircount.analysis.judges.quality import Confusion
from faircount.analysis.judges.summary import Summary, read_judges
from faircount.analysis.options import MeasureOptions
from faircount.analysis.problems import judge_names
from faircount.components.factory import adapters
from faircount.components.spec import parse
from faircount.core.errors import InputError, UsageError
from faircount.core.text import visible
from faircount.core.verdict import Decision
from faircount.io.files import is_file, read_range
from faircount.io.streams import STDIN
from faircount.judges.factory import JUDGES, make_trusted_only
from faircount.readers.label_types import LabelOptions
from faircount.readers.labels import Labels, read_labels
from faircount.readers.raw_rows import RawReader, values_reader
from faircount.readers.registry import open_stream

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
    """Whether the file, or a design beside it, says that they were drawn by verdict."""


class Quality(Struct, frozen=True):
    """What was given: exactly one of the three."""

    path: str
    summary: Summary | None = None
    sample: RunLabels | None = None
    labels: Labels | None = field(default=None)


def read_quality(path: str, results: Sequence[str], max_line: int) -> Quality:
    """Read what `--judge-quality` names, for an analysis of the given result files."""
    if path == STDIN or not is_file(path):
        what = "name a file" if path == STDIN or Path(path).is_dir() else "no such file"
        raise InputError(f"--judge-quality {path}: {what}; a summary of `judges evaluate`, or labels")
    if _is_summary(path):
        return Quality(path, summary=read_judges(path))
    return _read_labelled(path, results, max_line)


def _is_summary(path: str) -> bool:
    """Return whether a file is a summary, which is one JSON object over the whole file, not lines of labels."""
    first = read_range(path, 0, _FIRST_LINE).partition(b"\n")[0].removeprefix(codecs.BOM_UTF8).strip()
    if not first.startswith(b"{"):
        return False
    try:
        found = msgspec.json.decode(first)
    except RecursionError:
        raise InputError(f"{path}: nested too deeply to be a summary of judges or labels") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Path(path).suffix.casefold() not in (".jsonl", ".ndjson")
    # PyRIT's metrics of its scorers are lines.
    of_pyrit = isinstance(found, dict) and {"class_name", "hash", "metrics"} <= found.keys()
    return of_pyrit or (isinstance(found, dict) and isinstance(found.get("results"), dict))


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
    rows: dict[str, dict[int, bool | None]] = {}
    for item in keyed:
        file, _, line = item.place.rpartition(":")
        rows.setdefault(file, {})[int(line)] = None if item.label is None else item.label is Decision.HIT
    unused = sum(source.unused for source in keyed.sources)
    by_verdict = keyed.drawn_by_verdict or Path(path + DESIGN_SUFFIX).exists()
    return Quality(path, sample=RunLabels(rows, unused, by_verdict))


# -- whose responses they are -----------------------------------------------------------------------------------


def _stands_in(labels: Labels, results: Sequence[str], max_line: int) -> bool:
    """Return whether at least half of the labelled responses stand in the rows of the results."""
    responses = [item.attempt.response for item in labels]
    wanted = [_plain(text) for text in responses if text is not None]
    if not wanted or STDIN in results:
        return False
    missing, read = set(wanted), values_reader(("response",))
    for path in results:
        for rows in RawReader(open_stream(path, path), max_line=max_line).blocks():
            values = (read(raw).get("response") for raw in rows)
            missing.difference_update(_plain(value) for value in values if isinstance(value, str))
            if not missing:
                return True
    return 2 * sum(text not in missing for text in wanted) >= len(wanted)


def _plain(text: str) -> str:
    # A sheet spells out what it cannot hold, in the way of `visible`.
    return visible(_SPACES.sub(" ", text[: 2 * _COMPARED]).strip())[:_COMPARED]


# -- a judge that was measured elsewhere ------------------------------------------------------------------------


class Measured(Struct, frozen=True):
    """A judge and its counts against labels; `refused` says why there is none.

    `unmeasured` says that it is not the judge of the run, `unsure` why it may not be.
    """

    judge: str | None
    counts: Confusion | None
    refused: str = ""
    unmeasured: str = ""
    unsure: str = ""


def measured_judge(quality: Quality, run: Sequence[str | None]) -> Measured:
    """Return what is known of the judge of a run from elsewhere."""
    if quality.summary is not None:
        return _from_summary(quality.summary, run)
    if quality.labels is None:
        raise AssertionError("a file is a summary, a sample of the run, or labels from elsewhere")
    return _evaluated(quality.labels, quality.path, run)


def _from_summary(summary: Summary, run: Sequence[str | None]) -> Measured:
    usable = [record for record in summary.judges if record.counts is not None and record.counts.n]
    if not usable:
        raise InputError(
            f"{summary.path}: has no judge with counts (tp, fn, tn, fp), and rates alone do not show their "
            "uncertainty; `faircount judges evaluate` writes a summary with counts"
        )
    if len(run) > 1:
        return Measured(
            None, None, f"the rows name several judges ({judge_names(run)}), and one correction cannot cover them all"
        )
    matching = [record for record in usable if run[0] is not None and _canonical(record.called) == _canonical(run[0])]
    if len(matching) > 1:
        names = judge_names([record.called for record in matching])
        return Measured(None, None, f"the summary measures several judges that the rows could mean: {names}")
    if matching:
        return Measured(matching[0].called, matching[0].counts, unsure=_parameters_unknown(matching[0].called))
    names = judge_names([record.called for record in usable])
    unmeasured = f"the rows name {judge_names(run)}, and the summary measures {names}"
    if len(usable) > 1:
        return Measured(None, None, unmeasured, unmeasured)
    return Measured(usable[0].called, usable[0].counts, unmeasured=unmeasured)


def _canonical(name: str) -> str:
    """Return a name of a judge without its parameters, the same for a short and a canonical name."""
    try:
        plain = parse(name).name
    except UsageError:
        plain = name
    prefix, colon, rest = plain.partition(":")
    plain = rest if colon and prefix.casefold() in adapters("judge") else plain
    known = JUDGES.built_in(plain)
    return plain if known is None else known.name


def _parameters_unknown(called: str) -> str:
    try:
        call = parse(called)
    except UsageError:
        return ""
    if not call.positional and not call.parameters:
        return ""
    return f"the summary measures {judge_names([called])}, and the rows do not record their judge's parameters"


def _evaluated(labels: Labels, path: str, run: Sequence[str | None]) -> Measured:
    if len(run) > 1 or run[0] is None:
        which = f"several judges ({judge_names(run)})" if len(run) > 1 else "no judge"
        raise UsageError(f"--judge-quality {path}: the rows name {which}; {_INSTEAD}")
    try:
        judge = make_trusted_only(run[0])
    except UsageError as error:
        raise UsageError(
            f"--judge-quality {path}: the rows name the judge {judge_names(run)}, which a result file may not start; "
            f"{_INSTEAD}"
        ) from error
    evaluation = evaluate([judge], labels, MeasureOptions())
    if not evaluation.qualities:
        reason = visible(evaluation.errors[0].error)
        raise InputError(f"{path}: the judge {judge.called} could not be measured with it: {reason}")
    return Measured(judge.called, evaluation.qualities[0].counts)


_INSTEAD = (
    "measure the judge yourself with `faircount judges evaluate JUDGE --labels FILE -o summary.json`, and name "
    "that summary"
)
