"""Corrected rates of groups: the entries of a value of a field, or those that a dynamic attack was tried on.

Labels of a sample of the run are counted within the group, by verdict: whatever group an entry is in, its chance to be
drawn depends on its verdict alone, so that the labels of a group's judged successes are a random choice among these,
and those of its judged failures likewise. Labels of other groups say nothing: a judge that one attack fools would look
right there. A judge that was measured elsewhere is taken to err alike in all groups.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from faircount.analysis.correction.correcting import (
    TOO_FEW,
    Run,
    labelled_rate_of,
    measured_rate,
    over_all,
    widened,
)
from faircount.analysis.correction.families import PPI, labelled_families_in_groups, respecting
from faircount.analysis.correction.inputs import Quality
from faircount.analysis.correction.label_sample import LabelledEntry, Sampled, labelled_parts, sampled_entries
from faircount.analysis.fields import column_of
from faircount.ledger import tallies
from faircount.ledger.labels import Kin, attacked_entries, families_of, values_of
from faircount.ledger.store import LedgerView
from faircount.model import (
    Analysis,
    CorrectedRate,
    Dynamic,
    Estimate,
    Group,
    JudgeCorrection,
    LabelsByVerdict,
    Tally,
    Validation,
)
from faircount.stats import Design, widening
from faircount.stats.judge_error import CorrectionStatus, LabelledPart
from faircount.stats.labelled_families import LabelledFamily
from faircount.stats.proportion import critical_value, undefined

LEAST_LABELS = 2
"""So many labels of a verdict make a rate: one alone says 0% or 100%. Where there are fewer entries, all of them."""

_FOR_ALL = (
    CorrectionStatus.NO_VERDICTS,
    CorrectionStatus.NOT_IDENTIFIABLE,
    CorrectionStatus.INCOMPATIBLE_WITH_VALIDATION,
    "not_random",
    "no_measured_judge",
)
"""What cannot be known of the run cannot be known of a part of it, for the same reason."""


class Known(Struct, frozen=True):
    """What is known of the judge: the correction of the run, and the labelled entries if they are of this run."""

    correction: JudgeCorrection
    level: float
    found: tuple[LabelledEntry, ...] | None

    @property
    def validation(self) -> Validation:
        """The counts of a judge that was measured elsewhere."""
        assert self.correction.validation is not None
        return self.correction.validation


def known_of(analysis: Analysis, correction: JudgeCorrection, ledger: LedgerView, quality: Quality) -> Known:
    """Return what is known of the judge behind an analysis."""
    sample = quality.sample
    found = None if sample is None else sampled_entries(ledger, analysis.tally, sample).found
    return Known(correction, analysis.level, found)


def with_corrected_groups(analysis: Analysis, ledger: LedgerView, family: str | None, known: Known) -> Analysis:
    """Return an analysis whose breakdowns and dynamic attacks have corrected rates, or a reason why there is none.

    `family` is the column that says what family an entry belongs to, None where entries are independent.
    """
    breakdowns = {
        name: _corrected_field(ledger, column_of(ledger, name), groups, family, known)
        for name, groups in analysis.breakdowns.items()
    }
    dynamic = None if analysis.dynamic is None else _corrected_attacks(ledger, analysis.dynamic, family, known)
    return replace(analysis, breakdowns=breakdowns, dynamic=dynamic)


# -- values of a field ------------------------------------------------------------------------------------------


def _corrected_field(
    ledger: LedgerView, column: str, groups: Sequence[Group], family: str | None, known: Known
) -> tuple[Group, ...]:
    labelled = labelled_by_value(ledger, column, known.found)
    widening = _widening_by_value(ledger, family, column, known.level) if known.found is None else {}
    families = _families_by_value(ledger, family, column, known)
    times = Counter(group.value for group in groups)
    corrected = []
    for group in groups:
        # Groups that cannot be told apart by their names cannot be told apart by their labels.
        found = labelled.get(group.value, ()) if times[group.value] == 1 else ()
        run = Run(group.tally, 0, known.level, widening.get(group.value, 1.0), ())
        parts = labelled_parts(found, run.tally)
        corrected.append(replace(group, corrected=_rate_of_group(known, run, parts, families.get(group.value, ()))))
    return tuple(corrected)


def labelled_by_value(
    ledger: LedgerView, column: str, found: Sequence[LabelledEntry] | None
) -> dict[str | None, list[LabelledEntry]]:
    """Return the labelled entries by their values of a column of `entry`."""
    if not found:
        return {}
    numbers = values_of(ledger, [entry.key for entry in found], column)
    values = {key: tallies.text_of(ledger, column, number) for key, number in numbers.items()}
    by_value: dict[str | None, list[LabelledEntry]] = defaultdict(list)
    for entry in found:
        by_value[values[entry.key]].append(entry)
    return by_value


def _families_by_value(
    ledger: LedgerView, family: str | None, column: str, known: Known
) -> dict[str | None, list[LabelledFamily]]:
    """Return the families of each group with their labels, where labels of the run and families are known."""
    if family is None or not known.found:
        return {}
    found = labelled_families_in_groups(ledger, family, known.found, column)
    by_value: dict[str | None, list[LabelledFamily]] = defaultdict(list)
    for number, families in found.items():
        by_value[tallies.text_of(ledger, column, number)] += families
    return by_value


def widening_of(ledger: LedgerView, family: str | None, field: str, level: float) -> dict[str | None, float]:
    """Return the factors by which families widen the variances of the rates of a field's groups, where there are."""
    return _widening_by_value(ledger, family, column_of(ledger, field), level)


def _widening_by_value(ledger: LedgerView, family: str | None, column: str, level: float) -> dict[str | None, float]:
    if family is None:
        return {}
    return {
        tallies.text_of(ledger, column, value): widening(
            Design(families=True, level=level).rate(
                [kind.success for kind in kinds], [kind.total for kind in kinds], times=[kind.times for kind in kinds]
            )
        )
        for (value,), kinds in tallies.families_by(ledger, family, column).items()
    }


def _rate_of_group(
    known: Known, run: Run, parts: tuple[LabelledPart, LabelledPart], families: Sequence[LabelledFamily] = ()
) -> CorrectedRate:
    """Return the corrected rate over the entries of a group, or why there is none."""
    successes, failures = parts
    labels = None if known.found is None else LabelsByVerdict(successes.labelled, failures.labelled)
    if known.correction.status in _FOR_ALL:
        return CorrectedRate(None, known.correction.status, labels)
    if not run.tally.judged:
        return CorrectedRate(None, CorrectionStatus.NO_VERDICTS, labels)
    if known.found is None:
        status, measured = measured_rate(run, known.validation)
        return CorrectedRate(None if measured is None else over_all(measured, run.tally, run.level), status)
    if not _enough(parts) and not (_drawn_from_all(known) and successes.labelled + failures.labelled):
        return CorrectedRate(None, TOO_FEW, labels)
    judged = labelled_rate_of(run, successes, failures, known.correction.method)
    estimate = over_all(judged, run.tally, run.level)
    if _kin(families):
        sampled = Sampled(successes, failures, (), 0, 0)
        estimate = respecting(families, sampled, run.tally, (judged, estimate), known.correction.method)[1]
    return CorrectedRate(estimate, CorrectionStatus.OK, labels)


def _kin(families: Sequence[LabelledFamily]) -> bool:
    """Tell whether there are families to respect: several, and one of several entries."""
    return sum(family.times for family in families) > 1 and any(family.entries > 1 for family in families)


def _enough(parts: Iterable[LabelledPart]) -> bool:
    return all(part.labelled >= min(LEAST_LABELS, part.judged) for part in parts)


# -- dynamic attacks --------------------------------------------------------------------------------------------


class _AttackCells(Struct):
    """The entries that one attack was tried on: by what it did and what became of the entry, all and by family.

    The key of `cells` says whether the attack won, and whether the entry is a success; entries of which nothing was
    judged are in none. `labels` has the same key, and what people say of the attack.
    """

    total: int = 0
    cells: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    labels: Counter[tuple[bool, bool, bool]] = field(default_factory=Counter)

    @property
    def strata(self) -> dict[tuple[bool, bool], LabelledPart]:
        """What was judged and labelled, by cell."""
        return {
            cell: LabelledPart(entries, self.labels[*cell, True] + self.labels[*cell, False], self.labels[*cell, True])
            for cell, entries in self.cells.items()
        }

    @property
    def parts(self) -> tuple[LabelledPart, LabelledPart]:
        """The same by whether the attack won."""
        won, lost = (
            _together(part for cell, part in self.strata.items() if cell[0] is is_won) for is_won in (True, False)
        )
        return won, lost


def _corrected_attacks(ledger: LedgerView, dynamic: Dynamic, family: str | None, known: Known) -> Dynamic:
    attacked = _attacked(ledger, family, known)
    names = {ledger.word("attack", number) or tallies.UNNAMED_ATTACK: number for number in attacked}
    times = Counter(figures.attack for figures in dynamic.attacks)
    attacks = []
    for figures in dynamic.attacks:
        # Attacks that cannot be told apart by their names cannot be told apart by their labels.
        found = attacked[names[figures.attack]] if times[figures.attack] == 1 else {}
        attacks.append(replace(figures, corrected=_rate_of_attack(found, known, family is not None)))
    return replace(dynamic, attacks=tuple(attacks))


def _attacked(ledger: LedgerView, family: str | None, known: Known) -> dict[int, dict[Kin, _AttackCells]]:
    """Count the entries that each attack was tried on, by family."""
    found: dict[int, dict[Kin, _AttackCells]] = defaultdict(lambda: defaultdict(_AttackCells))
    for tried in attacked_entries(ledger, family):
        told = found[tried.attack][tried.kin]
        told.total += tried.entries
        if tried.judged:
            told.cells[tried.won, tried.success] += tried.entries
    labelled = known.found or ()
    kin = families_of(ledger, [entry.key for entry in labelled], family) if labelled else {}
    for entry in labelled:
        for attack, won, label in entry.attacks:
            found[attack][kin[entry.key]].labels[won, entry.success, label] += 1
    return found


def _rate_of_attack(families: Mapping[Kin, _AttackCells], known: Known, in_families: bool) -> CorrectedRate:
    whole = _AttackCells()
    for told in families.values():
        whole.total += told.total
        whole.cells.update(told.cells)
        whole.labels.update(told.labels)
    won, lost = whole.parts
    tally = Tally(success=won.judged, failure=lost.judged, total=whole.total)
    kinds = [LabelledFamily(told.total, *told.parts) for told in families.values()] if in_families else []
    design = Design(families=True, level=known.level)
    factor = widening(design.rate([kind.successes.judged for kind in kinds], [kind.entries for kind in kinds]))
    if known.found is None:
        return _rate_of_group(known, Run(tally, 0, known.level, factor, ()), (won, lost))
    corrected = _rate_of_group(known, Run(tally, 0, known.level, 1.0, ()), (won, lost), kinds)
    if len(whole.strata) < 3 or corrected.estimate is None or _drawn_from_all(known):
        return corrected
    # An entry that another attack won was drawn as a success, although this one failed on it: a part of its own.
    strata = tuple(whole.strata.values())
    if not _enough(strata):
        return replace(corrected, estimate=None, status=TOO_FEW)
    judged = widened(stratified(strata, known.level), Run(tally, 0, known.level, factor, ()))
    return replace(corrected, estimate=over_all(judged, tally, known.level))


def _drawn_from_all(known: Known) -> bool:
    return known.correction.method == PPI


def _together(parts: Iterable[LabelledPart]) -> LabelledPart:
    rows = [(part.judged, part.labelled, part.true) for part in parts]
    return LabelledPart(*(sum(row[place] for row in rows) for place in range(3)))


def stratified(parts: Sequence[LabelledPart], level: float) -> Estimate:
    """Estimate a rate from labels drawn at random within each of several parts: `two_phase` for any number of them."""
    n, method = sum(part.judged for part in parts), "two-phase, post-stratified on the verdict"
    if not n or not all(part.labelled for part in parts):
        return undefined("judged entry", level, method, n)
    shares = [part.true / part.labelled for part in parts]
    value = math.fsum(part.judged / n * share for part, share in zip(parts, shares, strict=True))
    within = math.fsum((part.judged / n) ** 2 * part.careful_variance for part in parts)
    between = math.fsum(part.judged / n * (share - value) ** 2 / n for part, share in zip(parts, shares, strict=True))
    half = critical_value(level) * math.sqrt(within + between)
    return Estimate(value, max(value - half, 0.0), min(value + half, 1.0), n, "judged entry", level, method)
