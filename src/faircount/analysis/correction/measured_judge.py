"""A judge that was measured elsewhere: which record of a summary is meant, or the judge before labelled texts now.

A result file never chooses code: of the judges that rows can name, only those that compare strings are made here.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from faircount.analysis.correction.inputs import Quality
from faircount.analysis.correction.run_judges import told
from faircount.analysis.judges.evaluation import evaluate
from faircount.analysis.judges.options import MeasureOptions
from faircount.analysis.judges.quality import Confusion
from faircount.analysis.judges.summary import Summary
from faircount.errors import InputError, UsageError
from faircount.judging import registry
from faircount.judging.expression import parse
from faircount.judging.making import ADAPTERS, make_trusted_only
from faircount.reading.labels import Labels
from faircount.text import visible


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


# -- in a summary -----------------------------------------------------------------------------------------------


def _from_summary(summary: Summary, run: Sequence[str | None]) -> Measured:
    usable = [record for record in summary.judges if record.counts is not None and record.counts.n]
    if not usable:
        raise InputError(
            f"{summary.path}: has no judge with counts (tp, fn, tn, fp), and rates alone do not show their "
            "uncertainty; `faircount judges evaluate` writes a summary with counts"
        )
    if len(run) > 1:
        return Measured(
            None, None, f"the rows name several judges ({told(run)}), and one correction cannot cover them all"
        )
    matching = [record for record in usable if run[0] is not None and _same(record.called, run[0])]
    if len(matching) > 1:
        names = told([record.called for record in matching])
        return Measured(None, None, f"the summary measures several judges that the rows could mean: {names}")
    if matching:
        return Measured(matching[0].called, matching[0].counts, unsure=_parameters_unknown(matching[0].called))
    names = told([record.called for record in usable])
    unmeasured = f"the rows name {told(run)}, and the summary measures {names}"
    if len(usable) > 1:
        return Measured(None, None, unmeasured, unmeasured)
    return Measured(usable[0].called, usable[0].counts, unmeasured=unmeasured)


def _same(called: str, name: str) -> bool:
    return _canonical(called) == _canonical(name)


def _canonical(name: str) -> str:
    """Return a name of a judge without its parameters, the same for a short and a canonical name."""
    try:
        plain = parse(name).name
    except UsageError:
        plain = name
    prefix, colon, rest = plain.partition(":")
    plain = rest if colon and prefix.casefold() in ADAPTERS else plain
    known = registry.built_in(plain)
    return plain if known is None else known.name


def _parameters_unknown(called: str) -> str:
    try:
        call = parse(called)
    except UsageError:
        return ""
    if not call.positional and not call.keywords:
        return ""
    return f"the summary measures {told([called])}, and the rows do not record their judge's parameters"


# -- before labelled texts --------------------------------------------------------------------------------------


def _evaluated(labels: Labels, path: str, run: Sequence[str | None]) -> Measured:
    if len(run) > 1 or run[0] is None:
        which = f"several judges ({told(run)})" if len(run) > 1 else "no judge"
        raise UsageError(f"--judge-quality {path}: the rows name {which}; {_INSTEAD}")
    try:
        judge = make_trusted_only(run[0])
    except UsageError as error:
        raise UsageError(
            f"--judge-quality {path}: the rows name the judge {told(run)}, which a result file may not start; "
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
