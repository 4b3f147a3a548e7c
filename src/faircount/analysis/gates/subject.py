"""What gates are judged on: an analysis, or the new one of two compared runs. Figures are taken as they are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from faircount import stats
from faircount.analysis.compare.model import ComparedGroup, Comparison, File, Pair
from faircount.analysis.gates.expression import ASR, ASR_CORRECTED, PASS_RATE, SHARES, Gate
from faircount.core.errors import UsageError
from faircount.core.model import Analysis, CorrectedRate, Estimate, Group, GroupFamilies, Shares, Tally
from faircount.core.text import clip, visible
from faircount.stats.gates import SEQUENCE_OVER_FAMILIES

ATTACK, TASK = "attack", "task"
FAMILIES = ("cluster wilson", SEQUENCE_OVER_FAMILIES)
"""The methods of rates whose intervals respect families."""
RATE_OF = {ATTACK: ASR, TASK: PASS_RATE}
"""What the rate of successes is called, by what results are about."""
NEEDS_QUALITY = "a corrected rate needs something that is known of the judge: name it with --judge-quality FILE"
_CORRECTS_NO_GROUPS = "a comparison corrects no groups; use results analyze for it"
WIDTH = 60
_LISTED = 30
_KNOWN = ("errors", "unjudged")
_CELLS = ("both", "only_a", "only_b", "neither")


class GateFigures(Struct, frozen=True):
    """The entries that a gate is about, all of a subject or a group, by the figures that gates compare.

    The rate is between `at_least` and `at_most`, whatever the `undecided` entries would have done. A comparison has
    neither `shares` nor a `corrected` rate of groups.
    """

    rate: Estimate
    at_least: Estimate
    at_most: Estimate
    undecided: int
    shares: Shares | None = None
    families: GroupFamilies | None = None
    corrected: CorrectedRate | None = None


class Subject(Struct, frozen=True):
    """One analysis, or the new one of two compared runs, with its name and where it stands."""

    name: str
    path: str
    aim: str
    level: float
    whole: GateFigures
    counts: tuple[tuple[str, int], ...]
    """What was counted, under the names that the document has for it."""
    unread: int
    """How many lines could not be read, of both files where two runs are compared."""
    breakdowns: Mapping[str, Sequence[Group | ComparedGroup]]
    pair: Pair | None = None
    """The run and the one that it is compared with."""
    files: tuple[File, ...] = ()

    @property
    def against(self) -> str | None:
        """The run that this one is compared with."""
        return None if self.pair is None else self.pair.a

    @property
    def rate(self) -> Estimate:
        """The rate of successes over all entries: the new run's, if two are compared."""
        return self.whole.rate

    @property
    def empty(self) -> bool:
        """Whether there is no entry at all, and so no group either."""
        return not self.rate.n

    def group(self, gate: Gate) -> Group | ComparedGroup | None:
        """Return the group that a gate is about; None if it is about all entries, or if there are no entries.

        A field or a value that is not there is an error: a gate on nothing would always be passed.
        """
        if gate.field is None or self.empty:
            return None
        field = _name_in_files(gate.field)
        groups = self.breakdowns.get(field)
        if groups is None:
            there = _listed(self.breakdowns) or "none"
            raise _refused(gate, self, f"no breakdown by {_shown(gate.field)}; available: {there}. See --by")
        for group in groups:
            if (group.value or None) == gate.value:
                return group
        there = _listed(group.value for group in groups) or "none"
        raise _refused(gate, self, f"{_shown(field)} has no value {_shown(gate.value)}; available: {there}")

    def part(self, gate: Gate) -> GateFigures:
        """Return the entries that a gate is about."""
        group = self.group(gate)
        if group is None:
            return self.whole
        return _of_group(group) if isinstance(group, Group) else _of_pair(group)

    def estimate(self, gate: Gate) -> Estimate:
        """Return the figure of a gate other than a regression; undefined where there are no entries."""
        self._refuse_other_aim(gate)
        part = self.part(gate)
        if gate.figure in SHARES:
            if part.shares is None:
                why = f"a comparison does not count {gate.figure} of this; use results analyze for it"
                raise _refused(gate, self, why)
            share: Estimate = getattr(part.shares, gate.figure)
            return share
        if gate.figure != ASR_CORRECTED:
            return part.rate
        if part.corrected is None:
            of_group = self.pair is not None and self.whole.corrected is not None
            raise _refused(gate, self, _CORRECTS_NO_GROUPS if of_group else NEEDS_QUALITY)
        return part.corrected.estimate or stats.undefined("entry", self.level, "corrected")

    def bounds(self, gate: Gate) -> tuple[Estimate, Estimate] | None:
        """Return the figure of a gate if every error and unjudged entry had failed, and if every one had succeeded.

        A line that could not be read may have been such an entry. None where there are neither, and for shares of
        these entries themselves, which are known.
        """
        part = self.part(gate)
        if gate.figure in _KNOWN or not (part.undecided or self.unread):
            return None
        estimate = self.estimate(gate)
        low, high = part.at_least, part.at_most
        if gate.figure == ASR_CORRECTED:
            # Over pairs it is the rate of those that were answered; over entries it has all of them below the line.
            total = estimate.n if self.pair is None else estimate.n + part.undecided
            low, high = stats.with_others(estimate, 0, total), stats.with_others(estimate, part.undecided, total)
        elif gate.figure in SHARES:
            low, high = estimate, stats.with_others(estimate, part.undecided, estimate.n)
        if not self.unread:
            return low, high
        return stats.with_others(low, 0, low.n + self.unread), stats.with_others(
            high, self.unread, high.n + self.unread
        )

    def _refuse_other_aim(self, gate: Gate) -> None:
        right = RATE_OF[self.aim]
        if gate.figure == ASR_CORRECTED and self.aim == ATTACK:
            return
        if gate.figure in (ASR, ASR_CORRECTED, PASS_RATE) and gate.figure != right:
            what = "attacks, which should not succeed" if self.aim == ATTACK else "tasks, which should succeed"
            raise _refused(gate, self, f"these are results of {what}: their figure is {right}, not {gate.figure}")


def of_analysis(analysis: Analysis) -> Subject:
    """Return what gates are judged on in an analysis."""
    rates, tally, families = analysis.rates, analysis.tally, analysis.families
    known = families.count and families.design_effect
    corrected = None if analysis.correction is None else CorrectedRate(rates.asr_corrected, analysis.correction.status)
    return Subject(
        name=analysis.name,
        path=analysis.sources[0].path if len(analysis.sources) == 1 else analysis.name,
        aim=analysis.aim,
        level=analysis.level,
        whole=GateFigures(
            rates.asr,
            rates.asr,
            rates.asr_at_most,
            _undecided(tally),
            analysis.shares,
            GroupFamilies(families.count or 0, families.design_effect or 0.0) if known else None,
            corrected,
        ),
        counts=tuple((name, getattr(tally, name)) for name in tally.__struct_fields__),
        unread=sum(source.bad_lines for source in analysis.sources),
        breakdowns=analysis.breakdowns,
    )


def of_comparison(comparison: Comparison) -> tuple[Subject, ...]:
    """Return what gates are judged on in a comparison: each run beside the baseline, the first run of the first pair.

    Pairs of other runs are left out.
    """
    return tuple(
        _of_run(comparison, pair, comparison.sides(pair))
        for pair in comparison.pairs
        if pair.a == comparison.pairs[0].a
    )


def _of_run(comparison: Comparison, pair: Pair, files: tuple[File, File]) -> Subject:
    corrected = None if pair.corrected is None else CorrectedRate(pair.corrected.rate_b, "compared")
    return Subject(
        name=pair.b,
        path=pair.b,
        aim=comparison.aim,
        level=pair.difference.level,
        whole=replace(_of_pair(pair), shares=files[1].shares, corrected=corrected),
        counts=tuple((name, getattr(pair, name)) for name in _CELLS),
        unread=sum(file.bad_lines for file in files),
        breakdowns=pair.by,
        pair=pair,
        files=files,
    )


def _of_group(group: Group) -> GateFigures:
    rates = group.rate, group.rate, group.rate_at_most
    return GateFigures(*rates, _undecided(group.tally), group.shares, group.families, group.corrected)


def _of_pair(figures: Pair | ComparedGroup) -> GateFigures:
    bounds = figures.bounds
    low, high = (figures.rate_b,) * 2 if bounds is None else (bounds.lowest.rate_b, bounds.highest.rate_b)
    return GateFigures(figures.rate_b, low, high, figures.undecided)


def _undecided(tally: Tally) -> int:
    return tally.total - tally.success - tally.failure - tally.guardrail


def _name_in_files(field: str) -> str:
    from faircount.analysis.fields import raw_name

    return raw_name(field)


def _listed(values: Iterable[str | None]) -> str:
    names = [_shown(value) for value in values]
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _shown(value: str | None) -> str:
    return "null" if value is None or value == "" else clip(visible(value), WIDTH)


def _refused(gate: Gate, subject: Subject, reason: str) -> UsageError:
    return UsageError(f"--fail-on '{clip(visible(gate.text), 200)}': {visible(subject.name)}: {reason}")
