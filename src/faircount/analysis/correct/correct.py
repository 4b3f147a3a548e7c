"""The success rate behind the verdicts, of a run, its groups and its attacks: what goes in, and what is doubtful.

The figures are those of a `stats.Corrector`, which is made once for a run. Labels of a sample of the run are counted
within a group, by verdict: whatever group an entry is in, its chance to be drawn depends on its verdict alone, so that
the labels of a group's judged successes are a random choice among these, and those of its judged failures likewise.
Labels of other groups say nothing: a judge that one attack fools would look right there. A judge that was measured
elsewhere is taken to err alike in all groups.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from faircount.analysis.correct import report
from faircount.analysis.correct.inputs import Quality, measured_judge
from faircount.analysis.correct.label_sample import (
    LabelledEntry,
    LabelSample,
    families_by_value,
    groups_without_labels,
    labelled_by_value,
    read_sample,
    respected,
    verdict_counts,
)
from faircount.analysis.correct.run_judges import judges_of_run
from faircount.analysis.fields import column_of
from faircount.core.findings import counted, finding
from faircount.core.model import (
    Analysis,
    CorrectedRate,
    Counts,
    Dynamic,
    Finding,
    Group,
    JudgeCorrection,
    LabelCounts,
    LabelsByVerdict,
    LessSpecific,
    Validation,
)
from faircount.ledger import tallies
from faircount.ledger.labels import FamilyKey, attacked_entries, families_of
from faircount.ledger.store import LedgerView
from faircount.stats import (
    CorrectedRates,
    CorrectionStatus,
    Corrector,
    LabelledCorrector,
    LabelledPart,
    MeasuredCorrector,
    VerdictCounts,
    undefined,
    youden_j,
)
from faircount.stats.corrector import PPI, TWO_PHASE

LESS_SPECIFIC = 0.03
"""By how much a specificity is taken to be lower, to show how much a corrected rate depends on it."""
LEAST_LABELS = 2
"""So many labels of a verdict make a rate of a group: one alone says 0% or 100%."""

_FOR_ALL = (
    CorrectionStatus.NO_VERDICTS,
    CorrectionStatus.NOT_IDENTIFIABLE,
    CorrectionStatus.INCOMPATIBLE_WITH_VALIDATION,
    CorrectionStatus.NOT_RANDOM,
    CorrectionStatus.NO_MEASURED_JUDGE,
)
"""What cannot be known of the run cannot be known of a part of it, for the same reason."""


class KnownJudge(Struct, frozen=True):
    """What is known of the judge of a run, for all that is corrected of it.

    There is no `corrector` where no judge was measured. `family` is the column that says what family an entry belongs
    to, None where entries are independent.
    """

    corrector: Corrector | None
    correction: JudgeCorrection
    family: str | None
    labelled: tuple[LabelledEntry, ...] = ()

    @property
    def by_labels(self) -> bool:
        """Whether labels of the run are known, not a judge that was measured elsewhere."""
        return self.correction.labels_from == "run"


def correct(
    ledger: LedgerView,
    counts: Counts,
    quality: Quality,
    *,
    level: float,
    method: str = TWO_PHASE,
    family: str | None = None,
) -> tuple[KnownJudge, list[Finding]]:
    """Return what is known of the judge, with the corrected rate of all entries, and what is doubtful about that."""
    sample = None if quality.sample is None else read_sample(ledger, quality.sample)
    labelled = () if sample is None else sample.entries
    families = families_by_value(ledger, family, tallies.NO_COLUMN, labelled).get(None, ())
    entries, judges = verdict_counts(counts.tally, labelled, families), judges_of_run(ledger)
    corrector: Corrector | None
    if sample is None:
        corrector, correction, doubts = _by_measured_judge(quality, judges, counts.attempts, entries, level)
    else:
        corrector = LabelledCorrector(level, method=method)
        correction, doubts = _by_sample(ledger, quality, sample, judges, entries, corrector)
    if correction.estimate is None:
        doubts = [finding("F030", 1, f"the rate cannot be corrected for its judge: {correction.reason}"), *doubts]
        correction = replace(correction, sentences=(f"Not corrected: {correction.reason}.",))
    else:
        correction = replace(correction, reason=None, sentences=tuple(report.promises(correction)))
    return KnownJudge(corrector, correction, family, labelled), doubts


_Judges = tuple[str | None, ...]


def _by_measured_judge(
    quality: Quality, judges: _Judges, requests: int, entries: VerdictCounts, level: float
) -> tuple[Corrector | None, JudgeCorrection, list[Finding]]:
    measured = measured_judge(quality, judges)
    cells, corrector = measured.counts, None
    found, reason = CorrectedRates(CorrectionStatus.NO_MEASURED_JUDGE), measured.refused
    sensitivity = specificity = undefined("label", level, "wilson")
    less = None
    if cells is not None:
        corrector = MeasuredCorrector(level, validation=Validation(cells.tp, cells.hits, cells.tn, cells.passes))
        found, (sensitivity, specificity) = corrector.rate(entries), corrector.quality
        reason = report.not_corrected(found.status, sensitivity, specificity, youden_j(corrector.validation))
        less = corrector.if_less_specific(entries, LESS_SPECIFIC) if found.estimate is not None else None
    doubts = []
    if measured.unmeasured:
        doubts.append(finding("F031", 1, f"this rate rests on an unmeasured judge: {measured.unmeasured}"))
    if measured.unsure:
        doubts.append(finding("F032", 1, measured.unsure))
    if cells is not None and requests > entries.total:
        doubts.append(finding("F032", requests, report.MANY_REQUESTS.format(requests / entries.total)))
    correction = JudgeCorrection(
        file=quality.path,
        labels_from="elsewhere",
        method="rogan-gladen",
        status=found.status,
        estimate=found.estimate,
        judged=found.judged,
        judge=measured.judge,
        run_judges=judges,
        sensitivity=sensitivity,
        specificity=specificity,
        labels=LabelCounts(0, 0) if cells is None else LabelCounts(cells.n, cells.hits, cells.errors),
        if_less_specific=None if less is None else LessSpecific(LESS_SPECIFIC, less),
        validation=None if corrector is None else corrector.validation,
        reason=reason,
    )
    return corrector, correction, doubts


def _by_sample(
    ledger: LedgerView,
    quality: Quality,
    sample: LabelSample,
    judges: _Judges,
    entries: VerdictCounts,
    corrector: LabelledCorrector,
) -> tuple[JudgeCorrection, list[Finding]]:
    found = corrector.rate(entries)
    if corrector.method == PPI and entries.judged and (sample.by_verdict or not corrector.drawn_at_random(entries)):
        found = CorrectedRates(CorrectionStatus.NOT_RANDOM)
    doubts = []
    groups = groups_without_labels(ledger, entries, sample.entries)
    if groups:
        message = f"no label falls on {groups}: the rate holds only if the judge errs there in the same way"
        doubts.append(finding("F032", 1, message))
    if sample.incomplete:
        left_out = counted(sample.incomplete, "entry", "entries")
        message = f"{left_out} left out since not every row that has a verdict has a label: label the attack rows, too"
        doubts.append(finding("F032", sample.incomplete, message))
    sensitivity, specificity = corrector.quality(entries)
    halves = found.judged is not None and corrector.method == TWO_PHASE
    correction = JudgeCorrection(
        file=quality.path,
        labels_from="run",
        method=corrector.method,
        status=found.status,
        estimate=found.estimate,
        judged=found.judged,
        judge=None,
        run_judges=judges,
        sensitivity=sensitivity,
        specificity=specificity,
        labels=LabelCounts(entries.labelled, entries.true, sample.left_out),
        more_labels=corrector.labels_to_halve(entries) if halves else None,
        reason=report.not_by_labels(found.status, entries),
    )
    return correction, doubts


# -- values of a field ------------------------------------------------------------------------------------------


def with_corrected_groups(analysis: Analysis, ledger: LedgerView, known: KnownJudge) -> Analysis:
    """Return an analysis whose breakdowns and dynamic attacks have corrected rates, or a reason why there is none."""
    breakdowns = {
        name: _corrected_field(ledger, column_of(ledger, name), groups, known)
        for name, groups in analysis.breakdowns.items()
    }
    dynamic = None if analysis.dynamic is None else _corrected_attacks(ledger, analysis.dynamic, known)
    return replace(analysis, breakdowns=breakdowns, dynamic=dynamic)


def _corrected_field(ledger: LedgerView, column: str, groups: Sequence[Group], known: KnownJudge) -> tuple[Group, ...]:
    counts = group_counts(ledger, column, groups, known)
    return tuple(
        replace(group, corrected=_rate_of(known, of_group)) for group, of_group in zip(groups, counts, strict=True)
    )


def group_counts(ledger: LedgerView, column: str, groups: Sequence[Group], known: KnownJudge) -> list[VerdictCounts]:
    """Count the entries of each group of a column by verdict, with labels and families."""
    labelled = labelled_by_value(ledger, column, known.labelled)
    families = families_by_value(ledger, known.family, column, known.labelled)
    times = Counter(group.value for group in groups)
    return [
        # Groups that cannot be told apart by their names cannot be told apart by their labels.
        verdict_counts(
            group.tally,
            labelled.get(group.value, ()) if times[group.value] == 1 else (),
            respected(families.get(group.value, ())),
        )
        for group in groups
    ]


def _rate_of(known: KnownJudge, counts: VerdictCounts) -> CorrectedRate:
    """Return the corrected rate over some entries, or why there is none."""
    labels = LabelsByVerdict(counts.successes.labelled, counts.failures.labelled) if known.by_labels else None
    if known.corrector is None or known.correction.status in _FOR_ALL:
        return CorrectedRate(None, known.correction.status, labels)
    found = replace(known.corrector, least_labels=LEAST_LABELS).rate(counts)
    return CorrectedRate(found.estimate, found.status, labels)


# -- dynamic attacks --------------------------------------------------------------------------------------------


class _AttackCells(Struct):
    """The entries that one attack was tried on: by what it did and what became of the entry.

    The key of `cells` says whether the attack won, and whether the entry is a success; entries of which nothing was
    judged are in none. `labels` has the same key, and what people say of the attack.
    """

    total: int = 0
    cells: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    labels: Counter[tuple[bool, bool, bool]] = field(default_factory=Counter)

    @property
    def counts(self) -> VerdictCounts:
        """The entries by whether the attack won.

        An entry that another attack won was drawn as a success, although this one failed on it: a stratum of its own.
        """
        strata = {
            cell: LabelledPart(entries, self.labels[*cell, True] + self.labels[*cell, False], self.labels[*cell, True])
            for cell, entries in self.cells.items()
        }
        won, lost = (_together(part for cell, part in strata.items() if cell[0] is is_won) for is_won in (True, False))
        return VerdictCounts(self.total, won, lost, strata=tuple(strata.values()))


def _together(parts: Iterable[LabelledPart]) -> LabelledPart:
    rows = [(part.judged, part.labelled, part.true) for part in parts]
    return LabelledPart(*(sum(row[place] for row in rows) for place in range(3)))


def _corrected_attacks(ledger: LedgerView, dynamic: Dynamic, known: KnownJudge) -> Dynamic:
    attacked = _attacked(ledger, known)
    names = {ledger.word("attack", number) or tallies.UNNAMED_ATTACK: number for number in attacked}
    times = Counter(figures.attack for figures in dynamic.attacks)
    attacks = []
    for figures in dynamic.attacks:
        # Attacks that cannot be told apart by their names cannot be told apart by their labels.
        found = attacked[names[figures.attack]] if times[figures.attack] == 1 else {}
        attacks.append(replace(figures, corrected=_rate_of(known, _counts_of_attack(found, known))))
    return replace(dynamic, attacks=tuple(attacks))


def _attacked(ledger: LedgerView, known: KnownJudge) -> dict[int, dict[FamilyKey, _AttackCells]]:
    """Count the entries that each attack was tried on, by family."""
    found: dict[int, dict[FamilyKey, _AttackCells]] = defaultdict(lambda: defaultdict(_AttackCells))
    for tried in attacked_entries(ledger, known.family):
        cells = found[tried.attack][tried.kin]
        cells.total += tried.entries
        if tried.judged:
            cells.cells[tried.won, tried.success] += tried.entries
    keys = [entry.key for entry in known.labelled]
    kin = families_of(ledger, keys, known.family) if keys else {}
    for entry in known.labelled:
        for attack, won, label in entry.attacks:
            found[attack][kin[entry.key]].labels[won, entry.success, label] += 1
    return found


def _counts_of_attack(families: Mapping[FamilyKey, _AttackCells], known: KnownJudge) -> VerdictCounts:
    whole = _AttackCells()
    for cells in families.values():
        whole.total += cells.total
        whole.cells.update(cells.cells)
        whole.labels.update(cells.labels)
    kinds = [] if known.family is None else [cells.counts for cells in families.values()]
    return replace(whole.counts, families=tuple(respected(kinds)))
