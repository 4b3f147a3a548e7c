"""The success rate behind the verdicts, of a run, its groups and its attacks, and the problems with it.

The figures are those of a `stats.Corrector`, which is made once for a run. Labels of a sample of the run are counted
within a group, by verdict: whatever group an entry is in, its chance to be drawn depends on its verdict alone, so that
the labels of a group's judged successes are a random choice among these, and those of its judged failures likewise.
Labels of other groups say nothing: a judge that one attack fools would look right there. A judge that was measured
elsewhere is taken to err alike in all groups."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.correct import report
from faircount.analysis.correct.inputs import Quality, RunLabels, measured_judge
from faircount.analysis.grouping import ATTACK_FIELD, column_of
from faircount.analysis.problems import judges_of_run
from faircount.core.findings import counted, finding
from faircount.core.model import (
    Analysis,
    CorrectedRate,
    Counts,
    Dynamic,
    Estimate,
    Finding,
    Group,
    JudgeCorrection,
    LabelCounts,
    LabelsByVerdict,
    LessSpecific,
    Tally,
    Validation,
)
from faircount.core.text import clip, visible
from faircount.ledger import tallies
from faircount.ledger.labels import (
    FamilyKey,
    attacked_entries,
    families_of,
    labels_by_value,
    rows_beside_labels,
    values_of,
    verdicts_of_families,
)
from faircount.ledger.store import LedgerView
from faircount.report import formats
from faircount.stats import (
    CorrectedRates,
    CorrectionStatus,
    Corrector,
    Design,
    LabelledCorrector,
    LabelledPart,
    MeasuredCorrector,
    VerdictCounts,
    attacks_that_fool,
    bonferroni_level,
    undefined,
    youden_j,
)
from faircount.stats.corrector import PPI, TWO_PHASE

# -- labels of entries of the run -----------------------------------------------------------------------------


_EXPECTED_LABELS = 5
"""Where so many labels would fall on a group by chance and none does, the sample is none of all entries."""
_GROUPS_NAMED = 3


class LabelledEntry(Struct, frozen=True):
    """An entry that people labelled: its key, whether the judge calls it a success, and whether people do.

    `attacks` says of each dynamic attack on it, by its number, what the judge and what people say of that alone.
    """

    key: int
    success: bool
    label: bool
    attacks: tuple[tuple[int, bool, bool], ...] = ()


class LabelSample(Struct, frozen=True):
    """What people labelled of a run: the entries with a verdict and a label; `left_out` are the labels of no use."""

    entries: tuple[LabelledEntry, ...]
    left_out: int
    incomplete: int
    """Entries of which only some rows are labelled."""
    by_verdict: bool
    """Whether they are known to be drawn by verdict."""


class _RowsOfEntry(Struct):
    """An entry of which a row is labelled: its verdict, and what people said of each row that has one."""

    success: bool
    rows: list[tuple[int | None, bool, bool | None]]
    """Of each row: its dynamic attack, whether the judge calls it a success, and what people say."""
    labelled: int = 0

    @property
    def label(self) -> bool | None:
        labels = [label for _, _, label in self.rows]
        return None if None in labels or not labels else any(labels)

    def as_labelled(self, key: int) -> LabelledEntry:
        attacks: dict[int, tuple[bool, bool]] = {}
        for attack, won, label in self.rows:
            if attack is not None:
                before = attacks.get(attack, (False, False))
                attacks[attack] = (before[0] or won, before[1] or bool(label))
        return LabelledEntry(key, self.success, bool(self.label), tuple((at, *both) for at, both in attacks.items()))


def read_sample(ledger: LedgerView, given: RunLabels) -> LabelSample:
    """Find the entries that people labelled."""
    labels = {
        ledger.ord(source, line): label
        for source, path in enumerate(ledger.paths)
        for line, label in given.rows.get(path, {}).items()
    }
    entries: dict[int, _RowsOfEntry] = {}
    for row in rows_beside_labels(ledger, list(labels)) if labels else ():
        entry = entries.setdefault(row.entry, _RowsOfEntry(row.success, []))
        entry.labelled += row.ord in labels
        if row.won is not None:
            entry.rows.append((row.attack, row.won, labels.get(row.ord)))
    usable = {key: entry for key, entry in entries.items() if entry.label is not None}
    used = sum(entry.labelled for entry in usable.values())
    incomplete = sum(
        entry.label is None and any(label is not None for _, _, label in entry.rows) for entry in entries.values()
    )
    found = tuple(entry.as_labelled(key) for key, entry in usable.items())
    return LabelSample(found, len(labels) - used + given.unused, incomplete, given.by_verdict)


# -- counted ----------------------------------------------------------------------------------------------------


def verdict_counts(
    tally: Tally, labelled: Iterable[LabelledEntry] = (), families: Sequence[VerdictCounts] = ()
) -> VerdictCounts:
    """Count some entries by verdict, and those of them that are labelled."""
    labels: dict[bool, list[bool]] = {True: [], False: []}
    for entry in labelled:
        labels[entry.success].append(entry.label)
    successes, failures = (
        LabelledPart(judged, len(labels[success]), sum(labels[success]))
        for judged, success in ((tally.success, True), (tally.failure, False))
    )
    return VerdictCounts(tally.total, successes, failures, families=tuple(families))


def labelled_by_value(
    ledger: LedgerView, column: str, labelled: Sequence[LabelledEntry]
) -> dict[str | None, list[LabelledEntry]]:
    """Return the labelled entries by their values of a column of `entry`."""
    if not labelled:
        return {}
    numbers = values_of(ledger, [entry.key for entry in labelled], column)
    values = {key: tallies.text_of(ledger, column, number) for key, number in numbers.items()}
    by_value: dict[str | None, list[LabelledEntry]] = defaultdict(list)
    for entry in labelled:
        by_value[values[entry.key]].append(entry)
    return by_value


def families_by_value(
    ledger: LedgerView, family: str | None, column: str, labelled: Sequence[LabelledEntry]
) -> dict[str | None, list[VerdictCounts]]:
    """Count the families among the entries of each value of a column of `entry`; those that are alike are one record.

    `family` is the column that says what family an entry belongs to; without it there is none.
    """
    if family is None:
        return {}
    found: dict[str | None, list[VerdictCounts]] = defaultdict(list)
    if not labelled:
        for (value,), kinds in tallies.families_by(ledger, family, column).items():
            found[tallies.text_of(ledger, column, value)] += [
                VerdictCounts(
                    kind.total,
                    LabelledPart(kind.success, 0, 0),
                    LabelledPart(kind.judged - kind.success, 0, 0),
                    kind.times,
                )
                for kind in kinds
            ]
        return found
    keys = [entry.key for entry in labelled]
    family_keys, values = families_of(ledger, keys, family), values_of(ledger, keys, column)
    labels: dict[tuple[FamilyKey, int | None], dict[bool, list[bool]]] = defaultdict(lambda: {True: [], False: []})
    for entry in labelled:
        labels[family_keys[entry.key], values[entry.key]][entry.success].append(entry.label)
    nothing: dict[bool, list[bool]] = {True: [], False: []}
    for alike in verdicts_of_families(ledger, family, column, keys):
        own = labels.get((alike.family, alike.facet), nothing)
        successes, failures = (
            LabelledPart(judged, len(own[verdict]), sum(own[verdict]))
            for judged, verdict in ((alike.successes, True), (alike.failures, False))
        )
        value = tallies.text_of(ledger, column, alike.facet)
        found[value].append(VerdictCounts(alike.total, successes, failures, alike.times))
    return found


def respected(families: Sequence[VerdictCounts]) -> Sequence[VerdictCounts]:
    """Return the families of a group if there are several, and one of several entries; else entries are independent."""
    sizes, times = [family.total for family in families], [family.times for family in families]
    return families if Design(families=True).respects(sizes, times) else ()


def groups_without_labels(ledger: LedgerView, counts: VerdictCounts, labelled: Sequence[LabelledEntry]) -> str:
    """Name large groups of entries on which no label falls; empty where the labels are spread over all."""
    keys, found = [entry.key for entry in labelled], []
    for field in ledger.fields.first if counts.judged else ():
        if field not in ledger.facets:
            continue
        for value, entries, labels in labels_by_value(ledger, column_of(ledger, field), keys):
            if not labels and counts.labelled * entries / counts.judged >= _EXPECTED_LABELS:
                name = clip(visible(value or "none"), 40)
                found.append(f"{counted(entries, 'entry', 'entries')} with {field} {name}")
    more = len(found) - _GROUPS_NAMED
    return "; ".join(found[:_GROUPS_NAMED]) + (f"; and {more} more" if more > 0 else "")


# -- the rate of a run ----------------------------------------------------------------------------------------


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
    """Return what is known of the judge, with the corrected rate of all entries, and the problems with that."""
    sample = None if quality.sample is None else read_sample(ledger, quality.sample)
    labelled = () if sample is None else sample.entries
    families = families_by_value(ledger, family, tallies.NO_COLUMN, labelled).get(None, ())
    entries, judges = verdict_counts(counts.tally, labelled, families), judges_of_run(ledger)
    corrector: Corrector | None
    if sample is None:
        corrector, correction, findings = _by_measured_judge(quality, judges, counts.attempts, entries, level)
    else:
        corrector = LabelledCorrector(level, method=method)
        correction, findings = _by_sample(ledger, quality, sample, judges, entries, corrector)
    if correction.estimate is None:
        findings = [finding("F030", 1, f"the rate cannot be corrected for its judge: {correction.reason}"), *findings]
        correction = replace(correction, sentences=(f"Not corrected: {correction.reason}.",))
    else:
        correction = replace(correction, reason=None, sentences=tuple(report.promises(correction)))
    return KnownJudge(corrector, correction, family, labelled), findings


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
    findings = []
    if measured.unmeasured:
        findings.append(finding("F031", 1, f"this rate rests on an unmeasured judge: {measured.unmeasured}"))
    if measured.unsure:
        findings.append(finding("F032", 1, measured.unsure))
    if cells is not None and requests > entries.total:
        findings.append(finding("F032", requests, report.MANY_REQUESTS.format(requests / entries.total)))
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
    return corrector, correction, findings


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
    findings = []
    groups = groups_without_labels(ledger, entries, sample.entries)
    if groups:
        message = f"no label falls on {groups}: the rate holds only if the judge errs there in the same way"
        findings.append(finding("F032", 1, message))
    if sample.incomplete:
        left_out = counted(sample.incomplete, "entry", "entries")
        message = f"{left_out} left out since not every row that has a verdict has a label: label the attack rows, too"
        findings.append(finding("F032", sample.incomplete, message))
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
    return correction, findings


# -- values of a field ------------------------------------------------------------------------------------------


def with_corrected_groups(analysis: Analysis, ledger: LedgerView, known: KnownJudge) -> Analysis:
    """Return an analysis whose breakdowns and dynamic attacks have corrected rates, or a reason why there is none."""
    breakdowns = {}
    for name, groups in analysis.breakdowns.items():
        counts = group_counts(ledger, column_of(ledger, name), groups, known)
        rates = (_rate_of(known, of_group) for of_group in counts)
        breakdowns[name] = tuple(replace(group, corrected=rate) for group, rate in zip(groups, rates, strict=True))
    dynamic = None if analysis.dynamic is None else _corrected_attacks(ledger, analysis.dynamic, known)
    return replace(analysis, breakdowns=breakdowns, dynamic=dynamic)


def group_counts(ledger: LedgerView, column: str, groups: Sequence[Group], known: KnownJudge) -> list[VerdictCounts]:
    """Count the entries of each group of a column by verdict, with labels and families."""
    labelled = labelled_by_value(ledger, column, known.labelled)
    families = families_by_value(ledger, known.family, column, known.labelled)
    times = Counter(group.value for group in groups)
    return [
        # Groups that share a name cannot be distinguished by their labels.
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
    cells: Counter[tuple[bool, bool]] = msgspec.field(default_factory=Counter)
    labels: Counter[tuple[bool, bool, bool]] = msgspec.field(default_factory=Counter)

    @property
    def counts(self) -> VerdictCounts:
        """The entries by whether the attack won.

        An entry that another attack won was drawn as a success, although this one failed on it: a stratum of its own.
        """
        strata = {
            cell: LabelledPart(entries, self.labels[*cell, True] + self.labels[*cell, False], self.labels[*cell, True])
            for cell, entries in self.cells.items()
        }
        sides = ([part for cell, part in strata.items() if cell[0] is won] for won in (True, False))
        won, lost = (
            LabelledPart(
                sum(part.judged for part in parts),
                sum(part.labelled for part in parts),
                sum(part.true for part in parts),
            )
            for parts in sides
        )
        return VerdictCounts(self.total, won, lost, strata=tuple(strata.values()))


def _corrected_attacks(ledger: LedgerView, dynamic: Dynamic, known: KnownJudge) -> Dynamic:
    attacked = _attacked(ledger, known)
    names = {ledger.word("attack", number) or tallies.UNNAMED_ATTACK: number for number in attacked}
    times = Counter(figures.attack for figures in dynamic.attacks)
    attacks = []
    for figures in dynamic.attacks:
        # Attacks that share a name cannot be distinguished by their labels.
        found = attacked[names[figures.attack]] if times[figures.attack] == 1 else {}
        whole = _AttackCells()
        for cells in found.values():
            whole.total += cells.total
            whole.cells.update(cells.cells)
            whole.labels.update(cells.labels)
        kinds = [] if known.family is None else [cells.counts for cells in found.values()]
        counts = replace(whole.counts, families=tuple(respected(kinds)))
        attacks.append(replace(figures, corrected=_rate_of(known, counts)))
    return replace(dynamic, attacks=tuple(attacks))


def _attacked(ledger: LedgerView, known: KnownJudge) -> dict[int, dict[FamilyKey, _AttackCells]]:
    """Count the entries that each attack was tried on, by family."""
    found: dict[int, dict[FamilyKey, _AttackCells]] = defaultdict(lambda: defaultdict(_AttackCells))
    for tried in attacked_entries(ledger, known.family):
        cells = found[tried.attack][tried.family]
        cells.total += tried.entries
        if tried.judged:
            cells.cells[tried.won, tried.success] += tried.entries
    keys = [entry.key for entry in known.labelled]
    family_keys = families_of(ledger, keys, known.family) if keys else {}
    for entry in known.labelled:
        for attack, won, label in entry.attacks:
            found[attack][family_keys[entry.key]].labels[won, entry.success, label] += 1
    return found


# -- attacks that win only by fooling the judge ---------------------------------------------------------------


ATTACK_FIELDS = ("jailbreak_type", "instruction_type", "suffix_id", "plugin", ATTACK_FIELD)
"""The fields whose values are attacks, or parts of one."""
_NAMED = 3


def attacks_on_the_judge(analysis: Analysis, ledger: LedgerView, known: KnownJudge) -> list[Finding]:
    """Return a finding if there are attacks that win only by fooling the judge; no figure changes.

    With labels of a sample of the run, an attack is named if it is shown at the level of the analysis, all attacks that
    were tested taken together (Holm 1979), that fewer than half of its judged successes are true, and a smaller share
    of them than of the others. With a judge that was measured elsewhere, if all of its judged successes could be false
    alarms, and most of them must be: the corrected interval holds 0 and ends below the raw one, both at Bonferroni's
    level.
    """
    suspects = {
        field: [group for group in groups if group.value is not None]
        for field in ATTACK_FIELDS
        if len(groups := analysis.breakdowns.get(field, ())) > 1
    }
    found = []
    for field, group, why in (_fooled_by_labels if known.by_labels else _fooled_by_measurement)(
        suspects, ledger, known
    ):
        value, corrected = clip(visible(group.value or ""), 40), _corrected_estimate(group)
        after = "no corrected rate" if corrected is None else f"{formats.estimate(corrected)} corrected"
        found.append(f"{field} {value}, {formats.estimate(group.rate)} raw, {after}, and {why}")
    if not found:
        return []
    more = f"; and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
    who = "an attack wins" if len(found) == 1 else f"{len(found):,} attacks win"
    return [finding("F033", len(found), f"{who} only by fooling the judge: {'; '.join(found[:_NAMED])}{more}")]


_Suspects = Mapping[str, Sequence[Group]]
"""Groups of entries that one attack was made for, by field."""


def _fooled_by_labels(suspects: _Suspects, ledger: LedgerView, known: KnownJudge) -> Iterator[tuple[str, Group, str]]:
    assert known.corrector is not None
    judged = [entry for entry in known.labelled if entry.success]
    families = {} if known.family is None else values_of(ledger, [entry.key for entry in judged], known.family)
    labelled: list[tuple[str, Group, list[LabelledEntry]]] = []
    for field, groups in suspects.items():
        by_value = labelled_by_value(ledger, column_of(ledger, field), judged)
        labelled += [(field, group, by_value.get(group.value, [])) for group in groups]
    tested = []
    for _, _, own in labelled:
        keys = {entry.key for entry in own}
        others = [entry for entry in judged if entry.key not in keys]
        tested.append((_one_each(own, families), _one_each(others, families)))
    shown = attacks_that_fool(tested, known.corrector.level)
    for (field, group, own), fools in zip(labelled, shown, strict=True):
        corrected = _corrected_estimate(group)
        # Where people find successes among its judged failures, the attack does win, if unseen.
        if fools and (corrected is None or not corrected.low):
            true, labels = sum(entry.label for entry in own), "labelled judged success"
            yield (
                field,
                group,
                f"of {counted(len(own), labels, f'{labels}es')} {true:,} {'is' if true == 1 else 'are'} true",
            )


def _one_each(entries: Iterable[LabelledEntry], families: Mapping[int, int | None]) -> list[bool]:
    """Return the labels of the first entry of each family: those of its variants are no independent ones."""
    first: dict[tuple[bool, int], bool] = {}
    for entry in sorted(entries, key=lambda entry: entry.key):
        family = families.get(entry.key)
        first.setdefault((False, entry.key) if family is None else (True, family), entry.label)
    return list(first.values())


def _fooled_by_measurement(
    suspects: _Suspects, ledger: LedgerView, known: KnownJudge
) -> Iterator[tuple[str, Group, str]]:
    if not CorrectionStatus(known.correction.status).corrects:
        return
    assert isinstance(known.corrector, MeasuredCorrector)
    tested = {field: [group for group in groups if group.tally.judged] for field, groups in suspects.items()}
    strict = replace(known.corrector, level=bonferroni_level(known.corrector.level, sum(map(len, tested.values()))))
    alarms = formats.percent(1 - (known.correction.specificity.value or 0.0))
    why = f"a judge that calls {alarms} of all failures a success would call as many so if none were"
    for field, groups in tested.items():
        counts = group_counts(ledger, column_of(ledger, field), groups, known) if groups else []
        for group, of_group in zip(groups, counts, strict=True):
            if strict.all_false_alarms(of_group):
                yield field, group, why


def _corrected_estimate(group: Group) -> Estimate | None:
    return None if group.corrected is None else group.corrected.estimate
