"""The page about the judges of a run: how right they are by people's labels, and how that changes with a threshold.

Every number is the library's. The page works by links and forms; a script only asks for it anew while the threshold is
moved.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from urllib.parse import urlencode

from markupsafe import Markup
from msgspec import Struct

from faircount.analysis.correct.inputs import RunLabels, read_quality
from faircount.analysis.judges import on_run
from faircount.analysis.judges.on_run import JudgedEntry, JudgeOnRun, RunVerdicts, ScoreBin
from faircount.analysis.judges.ranking import NAMES, Ranking
from faircount.analysis.options import RANKED_BY
from faircount.app.web.pages import Query, link_to
from faircount.app.web.runs import Run, Stamp
from faircount.core.errors import FaircountError
from faircount.core.model import Estimate, JudgeAgreement
from faircount.ledger.entry_list import JUDGES, differing
from faircount.report.svg import along, interval_svg

WRONG_SHOWN = 50
_STEPS = 200
_WHY_NOT = {
    "too_few_labels": "labels are needed of judged successes and of judged failures",
    "no_verdicts": "no entry has a verdict",
}

LabelsOfRun = Callable[[Run], tuple[RunLabels, str] | None]
"""Returns the labels of a run and the file that they are from."""


class ScoreRow(Struct, frozen=True):
    """One row of the histogram: the bars of entries with one label, as places in a drawing."""

    name: str
    kind: str
    count: int
    bars: tuple[tuple[str, str, float, float, str], ...]
    """Of each bar: where it begins, how wide it is, its top, its height, and its words."""


class WrongEntry(Struct, frozen=True):
    """A labelled entry that the judge gets wrong."""

    entry: JudgedEntry
    id: str
    href: str
    says_hit: bool


class JudgesPage(Struct, frozen=True):
    """The judges of a run."""

    run: Run
    verdicts: RunVerdicts
    labels: int
    judged: int
    file: str
    found: JudgeOnRun
    figures: tuple[tuple[str, Estimate, str], ...]
    raw: Markup
    corrected: Markup
    why_not: str
    threshold: float | None
    scale: tuple[float, float, float]
    rows: tuple[ScoreRow, ...]
    bins: tuple[ScoreBin, ...]
    mark: str
    agreements: tuple[tuple[JudgeAgreement, str], ...]
    all_differences: str
    ranking: Ranking | None
    by: str
    ranked_by: tuple[tuple[str, str], ...]
    wrong: tuple[WrongEntry, ...]
    more_wrong: int

    def link(self, judge: str | None) -> str:
        """Return the address of the page about another judge."""
        return f"/run/{self.run.id}/judges" + (f"?{urlencode({'judge': judge})}" if judge else "")


class JudgesPages:
    """Makes the page; what a judge says of a run is kept until the file changes."""

    def __init__(self, labels_of: LabelsOfRun) -> None:
        self._labels_of = labels_of
        self._verdicts: dict[tuple[str, str | None], tuple[Stamp, RunVerdicts]] = {}
        self._lock = threading.Lock()

    def verdicts(self, run: Run, judge: str | None) -> RunVerdicts:
        """Return what a judge says of a run."""
        results, stamp, key = run.results(rows=True), run.stamp, (run.id, judge)
        with self._lock:
            known = self._verdicts.get(key)
        if known is None or known[0] != stamp:
            known = stamp, on_run.run_verdicts(results, judge)
            with self._lock:
                self._verdicts[key] = known
        return known[1]

    def page(self, run: Run, query: Query) -> JudgesPage:
        """Return the page; the address says which judge, which threshold, and what judges are ranked by."""
        said, results = dict(query), run.results(rows=True)
        recorded = self.verdicts(run, None)
        judge = said.get("judge") if said.get("judge") in recorded.judges else None
        verdicts = recorded if judge is None else self.verdicts(run, judge)
        given = self._labels_of(run)
        labels = {} if given is None else on_run.entry_labels(results, given[0])
        threshold = _number(said.get("threshold")) if verdicts.scores else None
        found = on_run.judge_on_run(verdicts, labels, threshold)
        bins = on_run.score_bins(verdicts, labels)
        scale = (bins[0].start, bins[-1].end) if bins else (0.0, 1.0)
        by = said.get("by", "") if said.get("by") in RANKED_BY else RANKED_BY[0]
        at = threshold if threshold is not None else verdicts.in_use
        quality, wrong = found.quality, found.wrong[:WRONG_SHOWN]
        ids = on_run.entry_ids(results, [entry.place for entry in wrong])
        estimate = found.corrected.estimate
        return JudgesPage(
            run=run,
            verdicts=verdicts,
            labels=len(labels),
            judged=sum(entry.recorded is not None for entry in verdicts.entries),
            file="" if given is None else given[1],
            found=found,
            figures=(
                ("Precision", quality.precision, "of what it calls a success, how much is one"),
                ("Recall", quality.sensitivity, "of the true successes, how many it finds"),
                ("Specificity", quality.specificity, "of the true failures, how many it calls so"),
                ("Accuracy", quality.accuracy, "of all, how many it calls right"),
            ),
            raw=Markup(interval_svg(found.raw)),
            corrected=Markup("" if estimate is None else interval_svg(estimate)),
            why_not=_WHY_NOT.get(found.corrected.status, str(found.corrected.status).replace("_", " ")),
            threshold=threshold,
            scale=(*scale, (scale[1] - scale[0]) / _STEPS),
            rows=tuple(_rows(bins)),
            bins=bins,
            mark="" if at is None or not bins else along(min(max((at - scale[0]) / (scale[1] - scale[0]), 0.0), 1.0)),
            agreements=tuple(
                (one, link_to(run, {JUDGES: (differing(*one.judges),)})) for one in on_run.agreements(results)
            ),
            all_differences=link_to(run, {JUDGES: ("differ",)}),
            ranking=self._ranking(run, recorded.judges, labels, "" if given is None else given[1], by),
            by=by,
            ranked_by=tuple((name, NAMES[name]) for name in RANKED_BY),
            wrong=tuple(
                WrongEntry(
                    entry,
                    ids.get(entry.place, str(entry.line)),
                    f"/run/{run.id}/entry/{entry.line}",
                    bool(verdicts.calls_hit(entry, threshold)),
                )
                for entry in wrong
            ),
            more_wrong=len(found.wrong) - len(wrong),
        )

    def _ranking(
        self, run: Run, judges: Sequence[str], labels: dict[int, bool], source: str, by: str
    ) -> Ranking | None:
        if len(judges) < 2 or not labels:
            return None
        return on_run.ranked_judges([self.verdicts(run, judge) for judge in judges], labels, source, by)


def _number(text: str | None) -> float | None:
    try:
        found = float(text or "")
    except ValueError:
        return None
    return found if abs(found) < 1e300 else None


_HEIGHT = 40.0


def _rows(bins: Sequence[ScoreBin]) -> list[ScoreRow]:
    found = []
    for name, kind, of in (
        ("Labelled hit", "success", "hits"),
        ("Labelled pass", "failure", "passes"),
        ("No label", "unjudged", "unlabelled"),
    ):
        counts = [getattr(one, of) for one in bins]
        most = max(counts, default=0)
        bars = [
            (
                along(at / len(bins)),
                along(0.9 / len(bins)),
                round(_HEIGHT * (1 - count / most), 1),
                round(_HEIGHT * count / most, 1),
                f"{one.start:.4g} to {one.end:.4g}: {count:,}",
            )
            for at, (one, count) in enumerate(zip(bins, counts, strict=True))
            if count
        ]
        found.append(ScoreRow(name, kind, sum(counts), tuple(bars)))
    return found


class QualityLabels:
    """The labels that `--judge-quality` names, run by run; read again when the file changes."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._known: dict[str, tuple[object, tuple[RunLabels, str] | None]] = {}

    def of(self, run: Run) -> tuple[RunLabels, str] | None:
        """Return the labels of a run, if there are any of it."""
        if self._path is None:
            return None
        stamp = run.stamp, os.stat(self._path).st_mtime_ns  # noqa: PTH116
        known = self._known.get(run.id)
        if known is None or known[0] != stamp:
            try:
                sample = read_quality(self._path, [run.file], run.results().options.max_line).sample
            except FaircountError:
                sample = None
            known = self._known[run.id] = (stamp, None if sample is None else (sample, self._path))
        return known[1]
