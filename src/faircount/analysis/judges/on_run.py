"""The judges of a run against labels of its entries: matrix, scores, another threshold, disagreements, ranks.

Labelled entries were drawn by the verdicts that the run records, so that their shares are not those of the run: every
part of it weighs as much as it has entries (`stats.run_quality`, `stats.LabelledCorrector`). A judge calls an entry a
success if it calls any of its answers one; its score is that of the answer that is nearest to a success.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis import browse, summary
from faircount.analysis.analyze import Folded
from faircount.analysis.correct.correct import read_sample, respected
from faircount.analysis.correct.inputs import RunLabels
from faircount.analysis.grouping import find_families
from faircount.analysis.judges.quality import Confusion
from faircount.analysis.judges.ranking import Ranking, ranked
from faircount.analysis.judges.summary import JudgeRecord, Summary
from faircount.analysis.result_set import ResultSet
from faircount.analysis.words import WORDS
from faircount.core.errors import UsageError
from faircount.core.model import Estimate, JudgeAgreement, Outcome
from faircount.ledger import entry_list, lookup
from faircount.ledger.labels import FamilyKey, entry_outcomes, entry_scores, first_rows, values_of
from faircount.ledger.store import Ledger, ord_of, source_and_line
from faircount.ledger.tallies import has_several_judges
from faircount.readers.raw_rows import RawReader, values_reader
from faircount.readers.registry import open_stream
from faircount.stats import (
    CorrectedRates,
    Design,
    LabelledCorrector,
    LabelledPart,
    RunQuality,
    VerdictCounts,
    run_quality,
)

BINS = 20
_SCORE_FIELDS = ("judge_name", "success", "rejudged", "judge_score", "score", "attempt_history")
_DECIDED = {Outcome.SUCCESS: True, Outcome.FAILURE: False}


class JudgedEntry(Struct, frozen=True):
    """An entry: the place of its first row, what the run records of it, and what one judge says, with its score."""

    place: int
    family: FamilyKey
    recorded: bool | None
    decision: bool | None
    score: float | None = None

    @property
    def line(self) -> int:
        """The line of its first row."""
        return source_and_line(self.place)[1]


class RunVerdicts(Struct, frozen=True):
    """What one judge says of the entries of a run; without a name, what the run records."""

    judge: str | None
    judges: tuple[str, ...]
    """All judges of the run."""
    entries: tuple[JudgedEntry, ...]
    has_families: bool
    level: float
    lower_is_hit: bool = False
    """Whether low scores go with successes."""
    in_use: float | None = None
    """The threshold that the judge decides by, where scores show one."""

    @property
    def scores(self) -> list[float]:
        """All scores."""
        return [entry.score for entry in self.entries if entry.score is not None]

    def calls_hit(self, entry: JudgedEntry, threshold: float | None) -> bool | None:
        """Return what the judge says of an entry, or would with another threshold."""
        if threshold is None or entry.score is None or entry.decision is None:
            return entry.decision
        return entry.score <= threshold if self.lower_is_hit else entry.score >= threshold


def run_verdicts(results: ResultSet, judge: str | None = None) -> RunVerdicts:
    """Return what a judge says of the entries of one file, or what the run records."""

    def question(folded: Folded) -> RunVerdicts:
        ledger, options = folded.ledger, results.options
        if folded.aim == "task":
            raise UsageError("judges are measured on attacks here, and this is a test run")
        assert isinstance(ledger, Ledger)
        judges = tuple(ledger.judges())
        if judge is not None and judge not in judges:
            raise UsageError("no such judge in this run")
        counts = summary.overall(ledger, options)
        grouping = find_families(ledger, counts, options.cluster, options.level, WORDS[folded.aim])
        recorded = entry_outcomes(ledger, grouping.column)
        said = {entry.place: _DECIDED.get(entry.outcome) for entry in recorded}
        several = has_several_judges(ledger)
        if judge is not None and several:
            with ledger.judged_by(judge) as judged:
                judged.fold(options.rules)
                said = {entry.place: _DECIDED.get(entry.outcome) for entry in entry_outcomes(judged)}
        one = judge or (judges[0] if len(judges) == 1 else None)
        scores = scores_of_entries(results, ledger, one) if one is not None or not several else {}
        lower, edge = _threshold(said, scores)
        entries = tuple(
            JudgedEntry(
                entry.place,
                entry.family,
                _DECIDED.get(entry.outcome),
                said.get(entry.place),
                scores[entry.place][0 if lower else 1] if entry.place in scores else None,
            )
            for entry in recorded
        )
        return RunVerdicts(judge, judges, entries, grouping.column is not None, options.level, lower, edge)

    return results.ask(question, verdicts=True)


ScoresInRow = Callable[[Mapping[str, Any]], Iterable[float]]


def scores_of_entries(results: ResultSet, ledger: Ledger, judge: str | None) -> dict[int, tuple[float, float]]:
    """Return the lowest and the highest score of each entry: as recorded of several judges, or else in the rows."""
    found = {} if judge is None else entry_scores(ledger, judge)
    if found or len(ledger.judges()) > 1:
        return found
    return scores_in_rows(results, ledger, _SCORE_FIELDS, browse.scores_in)


def scores_in_rows(
    results: ResultSet, ledger: Ledger, fields: Collection[str], scores_in: ScoresInRow
) -> dict[int, tuple[float, float]]:
    """Return the lowest and the highest of the scores that some fields of the rows of each entry have."""
    found: dict[int, tuple[float, float]] = {}
    entry_of, values = first_rows(ledger), values_reader(fields)
    path = results.chosen[0].path
    for rows in RawReader(open_stream(path, path), max_line=results.options.max_line).blocks():
        for raw in rows:
            place = entry_of.get(ord_of(0, raw.number))
            if place is None:
                continue
            for score in scores_in(values(raw)):
                if math.isfinite(score):
                    low, high = found.get(place, (score, score))
                    found[place] = min(score, low), max(score, high)
    return found


def _threshold(said: Mapping[int, bool | None], scores: Mapping[int, tuple[float, float]]) -> tuple[bool, float | None]:
    """Return whether low scores mean a success, and the last score that does, if scores decide at all."""
    scored = {
        decision: [scores[place] for place, one in said.items() if one is decision and place in scores]
        for decision in (True, False)
    }
    hits, passes = scored[True], scored[False]
    if not hits or not passes:
        return False, None
    if math.fsum(high for _, high in hits) / len(hits) < math.fsum(high for _, high in passes) / len(passes):
        edge = max(low for low, _ in hits)
        return True, edge if edge < min(low for low, _ in passes) else None
    edge = min(high for _, high in hits)
    return False, edge if edge > max(high for _, high in passes) else None


def entry_labels(results: ResultSet, given: RunLabels) -> dict[int, bool]:
    """Return what people say of entries, by the places of their first rows."""

    def question(folded: Folded) -> dict[int, bool]:
        sample = read_sample(folded.ledger, given)
        if not sample.entries:
            return {}
        places = values_of(folded.ledger, [entry.key for entry in sample.entries], "first_ord")
        return {places[entry.key] or 0: entry.label for entry in sample.entries}

    return results.ask(question)


# -- figures --------------------------------------------------------------------------------------------------------


class JudgeOnRun(Struct, frozen=True):
    """How good a judge is on a run, by labels of some entries; or would be with another threshold.

    `counts` are of labelled entries, all shares of the run. `raw` is the success rate that the judge gives, `corrected`
    that behind it. `wrong` are the labelled entries that it gets wrong.
    """

    counts: Confusion
    quality: RunQuality
    raw: Estimate
    corrected: CorrectedRates
    wrong: tuple[JudgedEntry, ...]


def judge_on_run(verdicts: RunVerdicts, labels: Mapping[int, bool], threshold: float | None = None) -> JudgeOnRun:
    """Measure a judge on a run."""
    called = {entry.place: verdicts.calls_hit(entry, threshold) for entry in verdicts.entries}
    cells = Counter((labels[entry.place], called[entry.place]) for entry in verdicts.entries if entry.place in labels)
    parts = _parts(verdicts.entries, labels, called)
    sides = [[part for (_, hit), part in parts.items() if hit is side] for side in (True, False)]
    counts = VerdictCounts(
        len(verdicts.entries), _added(sides[0]), _added(sides[1]), families=tuple(_families(verdicts, labels, called))
    )
    families = counts.families or (counts,)
    raw = Design(families=verdicts.has_families, level=verdicts.level).rate(
        [family.successes.judged for family in families],
        [family.total for family in families],
        times=[family.times for family in families],
    )
    return JudgeOnRun(
        counts=Confusion(
            tp=cells[True, True],
            fn=cells[True, False],
            tn=cells[False, False],
            fp=cells[False, True],
            errors=cells[True, None] + cells[False, None],
        ),
        quality=run_quality(sides[0], sides[1], level=verdicts.level),
        raw=raw.estimate,
        corrected=_corrected(verdicts, counts, parts, labels),
        wrong=tuple(
            entry
            for entry in verdicts.entries
            if entry.place in labels and called[entry.place] is (not labels[entry.place])
        ),
    )


_Called = Mapping[int, bool | None]
_Cell = tuple[bool, bool]
"""What the run records, by which labels were drawn, and what the judge says."""


def _parts(entries: Sequence[JudgedEntry], labels: Mapping[int, bool], called: _Called) -> dict[_Cell, LabelledPart]:
    """Count the entries that were drawn with the same chance and that the judge calls the same."""
    sizes: Counter[_Cell] = Counter()
    said: dict[_Cell, list[bool]] = defaultdict(list)
    for entry in entries:
        hit = called[entry.place]
        if entry.recorded is None or hit is None:
            continue
        sizes[entry.recorded, hit] += 1
        if entry.place in labels:
            said[entry.recorded, hit].append(labels[entry.place])
    return {cell: LabelledPart(size, len(said[cell]), sum(said[cell])) for cell, size in sizes.items()}


def _added(parts: Sequence[LabelledPart]) -> LabelledPart:
    return LabelledPart(
        sum(part.judged for part in parts), sum(part.labelled for part in parts), sum(part.true for part in parts)
    )


def _families(verdicts: RunVerdicts, labels: Mapping[int, bool], called: _Called) -> Sequence[VerdictCounts]:
    """Count the entries of every family."""
    if not verdicts.has_families:
        return ()
    members: dict[FamilyKey, list[JudgedEntry]] = defaultdict(list)
    for entry in verdicts.entries:
        members[entry.family].append(entry)
    families = []
    for entries in members.values():
        parts = _parts(entries, labels, called)
        sides = [_added([part for (_, hit), part in parts.items() if hit is side]) for side in (True, False)]
        families.append(VerdictCounts(len(entries), sides[0], sides[1]))
    return respected(families)


def _corrected(
    verdicts: RunVerdicts, counts: VerdictCounts, parts: Mapping[_Cell, LabelledPart], labels: Mapping[int, bool]
) -> CorrectedRates:
    """Return the rate behind the verdicts.

    Where the judge splits what was drawn together, each part of it counts by itself; where one of these has no label,
    they stay together: that is less exact, and as true.
    """
    corrector = LabelledCorrector(verdicts.level)
    strata, apart = [], True
    for recorded in (True, False):
        own = [part for (drawn, _), part in parts.items() if drawn is recorded and part.judged]
        if all(part.labelled for part in own):
            strata += own
        else:
            apart = False
            strata.append(_added(own))
    by_judge = [[part for (_, hit), part in parts.items() if hit is side] for side in (True, False)]
    # Entries that the judge did not decide may be successes: only the verdicts of the run tell of those.
    decided = sum(entry.recorded is not None for entry in verdicts.entries) == counts.judged
    if decided and apart and all(len(side) < 2 for side in by_judge):
        return corrector.rate(counts)
    if decided and len(strata) > 2:
        return corrector.rate(replace(counts, strata=tuple(strata)))
    # Nothing is known beyond what the run records.
    recorded_only = {entry.place: entry.recorded for entry in verdicts.entries}
    drawn = _parts(verdicts.entries, labels, recorded_only)
    nothing = LabelledPart(0, 0, 0)
    return corrector.rate(
        VerdictCounts(
            len(verdicts.entries),
            drawn.get((True, True), nothing),
            drawn.get((False, False), nothing),
            families=tuple(_families(verdicts, labels, recorded_only)),
        )
    )


# -- scores ---------------------------------------------------------------------------------------------------------


class ScoreBin(Struct, frozen=True):
    """Entries whose scores are from `start` to below `end`, in the last one up to it: by label."""

    start: float
    end: float
    hits: int
    passes: int
    unlabelled: int


def score_bins(verdicts: RunVerdicts, labels: Mapping[int, bool]) -> tuple[ScoreBin, ...]:
    """Return a histogram of the scores; the scale is 0 to 1 where all scores are on it."""
    scores = verdicts.scores
    if not scores:
        return ()
    low, high = min(scores), max(scores)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    width = (high - low) / BINS or 1.0
    counts = [[0, 0, 0] for _ in range(BINS)]
    for entry in verdicts.entries:
        if entry.score is not None:
            at = min(int((entry.score - low) / width), BINS - 1)
            label = labels.get(entry.place)
            counts[at][2 if label is None else 0 if label else 1] += 1
    return tuple(ScoreBin(low + at * width, low + (at + 1) * width, *found) for at, found in enumerate(counts))


# -- several judges -------------------------------------------------------------------------------------------------


def agreements(results: ResultSet) -> list[JudgeAgreement]:
    """Return how often each two judges of a run agree."""
    return results.ask(
        lambda folded: list(summary.judge_agreement(folded.ledger, results.options.level)), verdicts=True
    )


def ranked_judges(judges: Sequence[RunVerdicts], labels: Mapping[int, bool], source: str, by: str) -> Ranking:
    """Rank judges of a run by a figure of the labelled entries."""
    records = tuple(
        JudgeRecord(verdicts.judge or "", None, judge_on_run(verdicts, labels).counts) for verdicts in judges
    )
    return ranked([Summary(source, records)], by, level=judges[0].level)


def entry_ids(results: ResultSet, places: Sequence[int]) -> dict[int, str]:
    """Return the ids of entries by the places of their first rows."""

    def question(folded: Folded) -> dict[int, str]:
        keys = lookup.entries_of_rows(folded.ledger, places) if places else []
        return {line.ord: line.id for line in entry_list.lines_of(folded.ledger, keys)}

    return results.ask(question)
