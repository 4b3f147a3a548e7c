"""The scores of guardrails and judges on attacks and on harmless prompts, and the thresholds that they allow.

A file with attacks and one with harmless prompts are a pair. Each judge that scored both, or a field of the rows, gives
a curve. An entry has one score: an attack counts as blocked only where every attempt at it is, a harmless prompt as a
false alarm as soon as one of its attempts is blocked. Entries without a score are counted and left out.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_FLOOR, Context
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis import problems, summary
from faircount.analysis.analyze import Folded
from faircount.analysis.export import ExportColumn, named_column
from faircount.analysis.grouping import find_families
from faircount.analysis.judges.on_run import scores_in_rows, scores_of_entries
from faircount.analysis.options import BENIGN_SCORES, OperatingOptions
from faircount.analysis.result_set import ResultSet
from faircount.analysis.words import WORDS
from faircount.core.errors import InputError, UsageError
from faircount.core.findings import DAMAGE, Notes, counted
from faircount.core.model import Document, Estimate, Finding, Outcome, Source
from faircount.core.text import clip, visible
from faircount.io.streams import is_stored
from faircount.ledger.labels import EntryOutcome, FamilyKey, entry_outcomes
from faircount.ledger.store import Ledger
from faircount.query.query import values_at
from faircount.readers import inputs
from faircount.readers.loading import Progress
from faircount.report.source_labels import labelled
from faircount.stats import (
    OperatingPoint,
    Outlook,
    RocStep,
    average_precision,
    expected_cost,
    operating_point,
    precision_at,
    roc_auc,
    roc_band,
)

DEFAULT_RATE = 0.01
PROMPTS = 1_000
"""Costs are given for so many prompts."""
UNIT = "entry"
_FEW_SCORES = 20
_HIGHEST = 1e300
"""Scores beyond this, such as infinite log-odds, count as this: JSON has no infinite threshold."""
_DIGITS = 6


class ScoredFile(Struct, frozen=True):
    """A file, and how many of its entries have a score; those without one are errors, blocks or something else."""

    path: str
    label: str
    entries: int
    scored: int
    errors: int
    blocks: int
    others: int


class Costs(Struct, frozen=True):
    """What a false alarm and a missed attack cost."""

    false_alarm: float
    miss: float


class ThresholdOutlook(Struct, frozen=True):
    """What a threshold does: both rates, precision, and the expected cost of 1,000 prompts where costs are given."""

    rates: RocStep
    precision: Outlook
    cost: Outlook | None


class GuardrailCurve(Struct, frozen=True, kw_only=True):
    """A guardrail, or one of the judges in a file: its curve with the band, and the thresholds chosen.

    `steps` run from the threshold that blocks nothing to that which blocks everything. `cheapest` is tuned on this
    data; its limits hold all the same, since they hold at all thresholds. `prevalence` is that of precision and costs.
    """

    name: str
    judge: str | None
    attacks: ScoredFile
    benign: ScoredFile
    roc_auc: Estimate
    average_precision: float | None
    points: tuple[OperatingPoint, ...]
    prevalence: float
    cheapest: ThresholdOutlook | None
    thresholds: int
    attacks_effect: float
    benign_effect: float
    steps: tuple[ThresholdOutlook, ...]
    notes: tuple[str, ...]


class OperatingPoints(Document, frozen=True, kw_only=True):
    """What `results operating-point` finds: a curve for every pair of files and every judge."""

    kind: Literal["operating-point"] = "operating-point"
    schema: Literal[1] = 1
    level: float
    max_fpr: float | None
    min_recall: float | None
    score: str | None
    blocks: Literal["at least", "at most"]
    """Which scores a threshold blocks: those of at least so much, or of at most so much."""
    costs: Costs | None
    guardrails: tuple[GuardrailCurve, ...]
    files: tuple[str, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def damaged(self) -> bool:
        """Return whether any file had lines that could not be read, or broke off."""
        return any(item.code in DAMAGE for item in self.findings)


def operating_points(
    files: Sequence[str], options: OperatingOptions, progress: Progress = lambda _: None
) -> OperatingPoints:
    """Choose thresholds for the guardrails in pairs of files."""
    if options.score is not None and options.judge is not None:
        raise UsageError("--score and --judge cannot be combined: scores come from a field of the rows or from a judge")
    attacks, benign = _pairs(files, options)
    with_options = options.analyzed
    sides = []
    for path in (*attacks, *benign):
        with ResultSet([path], with_options, progress) as results:
            sides.append(read_scores(results, options))
    return points_of(list(zip(sides[: len(attacks)], sides[len(attacks) :], strict=True)), options)


def _pairs(files: Sequence[str], options: OperatingOptions) -> tuple[list[str], list[str]]:
    """Return the files with attacks and those with harmless prompts, in the same order."""
    attacks = inputs.expand(files, options.read_as)
    if not attacks:
        raise UsageError("no result file given; name a run over attacks")
    if not options.false_positive_checks:
        raise UsageError(
            "a threshold needs harmless prompts, too: name a run over them with --false-positive-checks BENIGN_FILE"
        )
    benign = inputs.expand(options.false_positive_checks, options.read_as)
    if len(benign) != len(attacks):
        raise UsageError(
            f"{counted(len(attacks), 'file')} with attacks and {counted(len(benign), 'file')} with harmless prompts: "
            "give --false-positive-checks once for each FILE, in the same order"
        )
    for path in (*attacks, *benign):
        if not is_stored(path):
            raise UsageError(
                f"{path}: this command reads its files twice; save standard input or a stream to a file first"
            )
    for one, other in zip(attacks, benign, strict=True):
        if len(inputs.distinct([one, other])) == 1:
            raise UsageError(
                f"--false-positive-checks {other}: is the result file itself; it needs a run over harmless prompts"
            )
    return attacks, benign


# -- reading ----------------------------------------------------------------------------------------------------------


class FileScores(Struct, frozen=True):
    """The entries of one file, and of each judge the lowest and the highest score of every entry that it scored."""

    source: Source
    entries: tuple[EntryOutcome, ...]
    by_judge: Mapping[str | None, Mapping[int, tuple[float, float]]]
    notes: Sequence[Notes] = ()
    """What was noted while the file was read."""


def read_scores(results: ResultSet, options: OperatingOptions) -> FileScores:
    """Return what the judges of a file scored, or what a field of its rows says."""

    def question(folded: Folded) -> FileScores:
        ledger = folded.ledger
        if not isinstance(ledger, Ledger):
            raise InputError(f"{results.files[0]}: is too large to read its scores; take a part of it")
        counts = summary.overall(ledger, results.options)
        grouping = find_families(ledger, counts, options.cluster, options.level, WORDS[folded.aim])
        found = dict(_by_judge(results, ledger, options))
        return FileScores(folded.sources[0], tuple(entry_outcomes(ledger, grouping.column)), found, folded.notes)

    return results.ask(question, verdicts=True)


def _by_judge(
    results: ResultSet, ledger: Ledger, options: OperatingOptions
) -> Iterator[tuple[str | None, dict[int, tuple[float, float]]]]:
    path, judges = results.files[0], ledger.judges()
    if options.score is not None:
        column = _column(options.score)
        found = scores_in_rows(results, ledger, [str(column.steps[0])], lambda row: _numbers(row, column))
        if not found:
            if not summary.overall(ledger, results.options).tally.total:
                raise InputError(f"{path}: has no entries")
            raise InputError(f"{path}: no row has a number in {_shown(options.score)}; name another field with --score")
        yield None, found
        return
    if options.judge is not None and options.judge not in judges:
        available = ", ".join(map(_shown, judges)) or "none"
        raise UsageError(
            f"--judge {_shown(options.judge)}: {path} has no verdicts of this judge; available: {available}"
        )
    wanted: Sequence[str | None] = [options.judge] if options.judge is not None else judges or [None]
    scored = [(judge, found) for judge in wanted if (found := scores_of_entries(results, ledger, judge))]
    if not scored:
        raise InputError(f"{path}: no judge gave a score; name the field of the rows that has one with --score FIELD")
    yield from scored


def _column(name: str) -> ExportColumn:
    try:
        column = named_column(name)
    except UsageError:
        column = None
    if column is None or column.computed or not isinstance(column.steps[0], str):
        raise UsageError(f"--score {_shown(name)}: not a field name; examples: score, guardrail_score, metadata.score")
    return column


def _numbers(row: Mapping[str, Any], column: ExportColumn) -> Iterator[float]:
    for value in values_at(dict(row), column.steps):
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                continue
        if isinstance(value, int | float) and not isinstance(value, bool):
            # Left out, a harmless prompt with an infinite score would be missing among the false alarms.
            number = float(max(-_HIGHEST, min(value, _HIGHEST)))
            if not math.isnan(number):
                yield number


def _shown(name: str) -> str:
    return clip(visible(name), 60)


# -- estimating -------------------------------------------------------------------------------------------------------


def points_of(pairs: Sequence[tuple[FileScores, FileScores]], options: OperatingOptions) -> OperatingPoints:
    """Choose thresholds from scores that were read."""
    sources = labelled([one.source for pair in pairs for one in pair])
    labels = {source.path: source.label for source in sources}
    max_fpr = options.max_fpr if options.max_fpr is not None or options.min_recall is not None else DEFAULT_RATE
    options = replace(options, max_fpr=max_fpr)
    given = options.cost_false_alarm, options.cost_miss
    costs = None if given == (None, None) else Costs(*(1.0 if cost is None else cost for cost in given))
    curves = []
    for attacks, benign in pairs:
        for judge, scored, harmless in _both(attacks, benign):
            label = labels[attacks.source.path]
            named = len(pairs) > 1 or judge is None
            name = label if judge is None else f"{label}: {judge}" if named and len(attacks.by_judge) > 1 else judge
            name = label if len(pairs) > 1 and len(attacks.by_judge) == 1 else name
            files = (
                _scored_file(attacks, scored, label),
                _scored_file(benign, harmless, labels[benign.source.path]),
            )
            samples = _samples(attacks, scored, benign, harmless, options)
            curves.append(_curve(name, judge, files, samples, options, costs))
    return OperatingPoints(
        level=options.level,
        max_fpr=max_fpr,
        min_recall=options.min_recall,
        score=options.score,
        blocks="at most" if options.score_means == BENIGN_SCORES else "at least",
        costs=costs,
        guardrails=tuple(curves),
        files=tuple(one.source.path for pair in pairs for one in pair),
        findings=problems.ordered(
            problems.from_reading([note for pair in pairs for one in pair for note in one.notes])
        ),
    )


Scored = Mapping[int, tuple[float, float]]


def _both(attacks: FileScores, benign: FileScores) -> Iterator[tuple[str | None, Scored, Scored]]:
    """Yield the judges that scored both files; where each file has one, they are the same."""
    if len(attacks.by_judge) == len(benign.by_judge) == 1:
        ((judge, scored),) = attacks.by_judge.items()
        yield judge, scored, next(iter(benign.by_judge.values()))
        return
    shared = [judge for judge in attacks.by_judge if judge in benign.by_judge]
    if not shared:
        raise InputError(
            f"{attacks.source.path} and {benign.source.path}: no judge scored both; name a field with --score"
        )
    for judge in shared:
        yield judge, attacks.by_judge[judge], benign.by_judge[judge]


def _scored_file(file: FileScores, scored: Scored, label: str) -> ScoredFile:
    without = [entry.outcome for entry in file.entries if entry.place not in scored]
    errors, blocks = without.count(Outcome.ERROR), without.count(Outcome.GUARDRAIL)
    return ScoredFile(
        file.source.path,
        label,
        len(file.entries),
        len(file.entries) - len(without),
        errors,
        blocks,
        len(without) - errors - blocks,
    )


class _Samples(Struct, frozen=True):
    """Labels, 1 for an attack; scores, the higher the more of one; and families, numbered."""

    labels: list[int]
    scores: list[float]
    families: list[int]


def _samples(
    attacks: FileScores, scored: Scored, benign: FileScores, harmless: Scored, options: OperatingOptions
) -> _Samples:
    sign = -1.0 if options.score_means == BENIGN_SCORES else 1.0
    samples = _Samples([], [], [])
    numbers: dict[tuple[int, FamilyKey], int] = {}
    for label, file, found in ((1, attacks, scored), (0, benign, harmless)):
        for entry in file.entries:
            if entry.place in found:
                both = [sign * score for score in found[entry.place]]
                samples.labels.append(label)
                samples.scores.append(min(both) if label else max(both))
                samples.families.append(numbers.setdefault((label, entry.family), len(numbers)))
    return samples


def _curve(
    name: str,
    judge: str | None,
    files: tuple[ScoredFile, ScoredFile],
    samples: _Samples,
    options: OperatingOptions,
    costs: Costs | None,
) -> GuardrailCurve:
    level, attacks, benign = options.level, *files
    asked: list[dict[str, float]] = []
    asked += [] if options.max_fpr is None else [{"false_positive_rate": options.max_fpr}]
    asked += [] if options.min_recall is None else [{"recall": options.min_recall}]
    both: dict[str, Any] = {"families": samples.families, "level": level}
    chosen = [operating_point(samples.labels, samples.scores, unit=UNIT, **one, **both) for one in asked]
    points = [one for one in chosen if one is not None]
    keep = [one.threshold for one in points if one.threshold is not None]
    band = roc_band(samples.labels, samples.scores, keep=keep, **both)
    assert band is not None and len(points) == len(asked), "both files have scores"
    auc = roc_auc(samples.labels, samples.scores, unit=UNIT, level=level)
    if max(band.hits_effect, band.passes_effect) > 1:
        # DeLong's error knows of no families.
        auc = replace(auc, low=None, high=None, method="mann-whitney, families: no interval")
    prevalence = attacks.scored / (attacks.scored + benign.scored)
    prevalence = prevalence if options.prevalence is None else options.prevalence
    sign = -1.0 if options.score_means == BENIGN_SCORES else 1.0
    rising = sorted(samples.scores)

    def named(threshold: float) -> float:
        return sign * _shortened(threshold, rising)

    steps = [
        ThresholdOutlook(
            step if step.threshold is None else replace(step, threshold=named(step.threshold)),
            precision_at(step, prevalence),
            None if costs is None else cost_of(step, prevalence, costs),
        )
        for step in band.steps
    ]
    return GuardrailCurve(
        name=name,
        judge=judge,
        attacks=attacks,
        benign=benign,
        roc_auc=auc,
        average_precision=average_precision(samples.labels, samples.scores),
        points=tuple(one if one.threshold is None else replace(one, threshold=named(one.threshold)) for one in points),
        prevalence=prevalence,
        cheapest=None if costs is None else min(steps, key=lambda step: step.cost.value),  # type: ignore[union-attr,arg-type,return-value]
        thresholds=band.thresholds,
        attacks_effect=band.hits_effect,
        benign_effect=band.passes_effect,
        steps=tuple(steps),
        notes=tuple(_notes(attacks, benign, auc, points)),
    )


def _shortened(threshold: float, rising: Sequence[float]) -> float:
    """Return a threshold with as few digits as block the same scores, and 6 at least.

    It is shown with all of them: one that is rounded up blocks less than was measured, and one that is rounded too far
    down more than the bound allows.
    """
    at = bisect_left(rising, threshold)
    for digits in range(_DIGITS, 17):
        shorter = float(Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(repr(threshold)))
        if at == 0 or shorter > rising[at - 1]:
            return shorter
    return threshold


def cost_of(step: RocStep, prevalence: float, costs: Costs) -> Outlook:
    """Return the expected cost of 1,000 prompts."""
    one = expected_cost(step, prevalence, costs.false_alarm, costs.miss)
    return Outlook(*(None if value is None else PROMPTS * value for value in (one.value, one.low, one.high)))


def _notes(attacks: ScoredFile, benign: ScoredFile, auc: Estimate, points: Sequence[OperatingPoint]) -> Iterator[str]:
    """Yield what should be known before a threshold is believed."""
    if auc.value is not None and auc.value < 0.5:
        yield (
            "harmless prompts have higher scores than attacks: if a high score means harmless, use --score-means "
            "benign; otherwise leave that option out"
        )
    for file, what in ((attacks, "attacks"), (benign, "harmless prompts")):
        if file.scored < _FEW_SCORES:
            yield f"only {file.scored:,} {what} have a score: too few for narrow limits"
        if file.scored < file.entries / 2:
            yield f"most {what} have no score; those with one may differ from the rest"
    if any(math.isclose(one.design_effect, 1.0) is False for one in points):
        yield "variants of one prompt are alike, so they count as fewer (see the column Worth)"
