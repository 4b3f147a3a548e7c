"""What gates are judged on: an analysis, or the new one of two compared runs. Figures are taken as they are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from faircount import stats
from faircount.analysis.compare.model import ComparedGroup, Comparison, CorrectedPair, Figures, File, Pair
from faircount.analysis.gates.expression import ASR, ASR_CORRECTED, PASS_RATE, REGRESSION, SHARES, Gate
from faircount.analysis.grouping import raw_name
from faircount.analysis.words import WORDS
from faircount.core.errors import UsageError
from faircount.core.findings import counted
from faircount.core.model import Analysis, CorrectedRate, Estimate, Group, GroupFamilies, Shares, Tally
from faircount.core.text import clip, visible
from faircount.report import formats
from faircount.report.blocks import Fact, Facts, Paragraph, Place, Record, Report, Section, table, text_column
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
        field = raw_name(gate.field)
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
        if not isinstance(group, Group):
            return _of_pair(group)
        rates = group.rate, group.rate, group.rate_at_most
        return GateFigures(*rates, _undecided(group.tally), group.shares, group.families, group.corrected)

    def estimate(self, gate: Gate) -> Estimate:
        """Return the figure of a gate other than a regression; undefined where there are no entries."""
        rates = (ASR, ASR_CORRECTED) if self.aim == ATTACK else (PASS_RATE,)
        if gate.figure in (ASR, ASR_CORRECTED, PASS_RATE) and gate.figure not in rates:
            what = "attacks, which should not succeed" if self.aim == ATTACK else "tasks, which should succeed"
            why = f"these are results of {what}: their figure is {RATE_OF[self.aim]}, not {gate.figure}"
            raise _refused(gate, self, why)
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
    subjects = []
    for pair in comparison.pairs:
        if pair.a != comparison.pairs[0].a:
            continue
        files = comparison.sides(pair)
        corrected = None if pair.corrected is None else CorrectedRate(pair.corrected.rate_b, "compared")
        subject = Subject(
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
        subjects.append(subject)
    return tuple(subjects)


def _of_pair(figures: Pair | ComparedGroup) -> GateFigures:
    bounds = figures.bounds
    low, high = (figures.rate_b,) * 2 if bounds is None else (bounds.lowest.rate_b, bounds.highest.rate_b)
    return GateFigures(figures.rate_b, low, high, figures.undecided)


def _undecided(tally: Tally) -> int:
    return tally.total - tally.success - tally.failure - tally.guardrail


def _listed(values: Iterable[str | None]) -> str:
    names = [_shown(value) for value in values]
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _shown(value: str | None) -> str:
    return "null" if value is None or value == "" else clip(visible(value), WIDTH)


def _refused(gate: Gate, subject: Subject, reason: str) -> UsageError:
    return UsageError(f"--fail-on '{clip(visible(gate.text), 200)}': {visible(subject.name)}: {reason}")


ENTRY, FAMILY = ("more entry", "more entries"), ("more family", "more families")
_CELL_WORDS = {"both": "both succeed", "only_a": "only the old", "only_b": "only the new", "neither": "neither"}
_TASK_CELLS = {**_CELL_WORDS, "both": "both pass"}
NEEDS_BASELINE = "a regression needs something to compare with: name it with --baseline FILE"


class GateResult(Struct, frozen=True):
    """What became of a gate on one subject. `reason` is our own words; `more` entries, or families, would decide."""

    gate: Gate
    subject: Subject
    state: str
    reason: str
    estimate: Estimate
    more: int | None = None

    def blocks(self, inconclusive_fails: bool) -> bool:
        """Return whether the result stops a release, by what the user says of gates that are inconclusive."""
        return self.state == FAILED or (self.state == INCONCLUSIVE and inconclusive_fails)


def subjects_of(analyses: Sequence[Analysis], comparison: Comparison | None = None) -> tuple[Subject, ...]:
    """Return everything that gates can be judged on: analyses first, then pairs of runs."""
    return (*map(of_analysis, analyses), *(() if comparison is None else of_comparison(comparison)))


def judge(gates: Iterable[Gate], subjects: Sequence[Subject], *, ignore_errors: bool = False) -> tuple[GateResult, ...]:
    """Judge every gate on everything it applies to, in the order in which gates were given.

    A regression applies to pairs of runs; any other gate to analyses or, where there are none, to the new run of each
    pair. A gate that applies to nothing is an error: it would always be passed. With `ignore_errors`, errors and
    unjudged entries count as they do in the rates: as entries without a success, and in no pair.
    """
    results: list[GateResult] = []
    for gate in gates:
        meant = [subject for subject in subjects if subject.pair is not None]
        if gate.figure != REGRESSION:
            meant = [subject for subject in subjects if subject.pair is None] or meant
        if not meant:
            why = NEEDS_BASELINE if gate.figure == REGRESSION else "there is nothing to judge"
            raise UsageError(f"--fail-on '{clip(visible(gate.text), 200)}': {why}")
        judge_one = _regression if gate.figure == REGRESSION else _figure
        results += [judge_one(gate, subject, ignore_errors) for subject in meant]
    return tuple(results)


def _regression(gate: Gate, subject: Subject, ignore_errors: bool) -> GateResult:
    group, pair = subject.group(gate), subject.pair
    assert pair is not None
    if group is not None and pair.corrected is not None:
        why = "groups are compared as the judge has them: leave this gate to a comparison without --judge-quality"
        raise UsageError(f"--fail-on '{clip(visible(gate.text), 200)}': {why}")
    figures: Figures = group if isinstance(group, Figures) else pair
    found = judged(figures, gate.threshold, subject.aim, () if group else subject.files)
    if not ignore_errors:
        found = _bounded_change(found, figures, gate.threshold, subject.aim)
    if subject.unread and not ignore_errors:
        found = _with_unread(found, subject.unread, gate.threshold)
    return GateResult(gate, subject, found.state, found.reason, found.worsening, found.more)


def _figure(gate: Gate, subject: Subject, ignore_errors: bool) -> GateResult:
    as_counted = _decided(gate, subject, subject.estimate(gate))
    bounds = None if ignore_errors else subject.bounds(gate)
    if bounds is None:
        return as_counted
    states = {_decided(gate, subject, bound).state for bound in bounds}
    undecided, unread = subject.part(gate).undecided, subject.unread
    if states == {as_counted.state}:
        what = [counted(undecided, "error or unjudged entry", "errors or unjudged entries")] if undecided else []
        what += [counted(unread, "unreadable line")] if unread else []
        return replace(as_counted, reason=f"{as_counted.reason}; {' and '.join(what)} cannot change this")
    state = INCONCLUSIVE if len(states) > 1 else states.pop()
    return replace(as_counted, state=state, reason=_bounded_reason(gate, bounds, undecided, unread), more=None)


def _decided(gate: Gate, subject: Subject, estimate: Estimate) -> GateResult:
    part, figure = subject.part(gate), f"the {_LIMITS[gate.part]}{_NAMES[gate.figure]}"
    if estimate.value is None:
        if gate.figure == ASR_CORRECTED and part.corrected is not None and not subject.empty:
            status, labels = part.corrected.status, part.corrected.labels
            why = _NOT_CORRECTED[status]
            if labels is not None and status == "too_few_labels":
                why += f", {labels.successes:,} of judged successes and {labels.failures:,} of judged failures"
            return GateResult(gate, subject, INCONCLUSIVE, f"{figure} is undefined: {why}", estimate)
        more = stats.entries_without_any(gate.sign, gate.threshold, subject.level)
        reason = f"{figure} is undefined: there are no entries"
        if more is not None:
            needed = counted(more, "entry", "entries")
            reason += f"; at least {needed} would be needed to show that the gate is passed"
        return GateResult(gate, subject, INCONCLUSIVE, reason, estimate, more)
    value = {"value": estimate.value, "low": estimate.low, "high": estimate.high}[gate.part]
    entries = counted(estimate.n, "entry", "entries")
    if value is None:
        why = f"{entries} of one family have no interval; entries of other families would be needed"
        return GateResult(gate, subject, INCONCLUSIVE, f"{figure} is undefined: {why}", estimate)
    failed = gate.holds(value)
    relation = f"{(_SO if failed else _NOT_SO)[gate.sign]} {formats.exact_percent(gate.threshold)}"
    interval = f" ({limits})" if (limits := formats.interval(estimate)) else ""
    reason, more = f"{figure} is {formats.percent_apart(value, gate.threshold)}", None
    if gate.part == "value":
        reason += f"{interval} of {entries}, {relation}"
    else:
        reason += f", {relation}; it is {formats.rate(estimate)}{interval} of {entries}"
    if _is_doubtful(gate, estimate):
        families = part.families if estimate.method in FAMILIES else None
        # What a corrected rate lacks may be labels: no number of entries alone is known to do.
        if gate.figure != ASR_CORRECTED and families is None:
            more = stats.more_entries(estimate, gate.threshold)
        elif gate.figure != ASR_CORRECTED and families is not None:
            more = stats.more_families(estimate, gate.threshold, families)
        needed = (
            "" if more is None else f": about {counted(more, *(ENTRY if families is None else FAMILY))} at this rate"
        )
        threshold = formats.exact_percent(gate.threshold)
        if gate.part != "value":
            there = f"{needed} would bring the limit there, too" if needed else ""
            reason += f"; the rate itself is on the other side of {threshold}{there}"
        else:
            would = f"{needed} would decide" if needed else ", and no number of entries is known that would decide"
            reason += f"; {threshold} is inside the interval, so chance may have decided{would}"
    return GateResult(gate, subject, FAILED if failed else PASSED, reason, estimate, more)


def _is_doubtful(gate: Gate, estimate: Estimate) -> bool:
    """Return whether a rate is on one side of a threshold, and its interval reaches to the other."""
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None or not low <= gate.threshold <= high:
        return False
    return gate.part == "value" or gate.holds(low if gate.part == "low" else high) != gate.holds(value)


# -- the report -------------------------------------------------------------------------------------------------


def _sections(results: Sequence[GateResult], *, inconclusive_fails: bool = True) -> tuple[Section, ...]:
    """Return the gates as a section; none where there are no gates."""
    if not results:
        return ()
    grid = table(
        results,
        text_column("Gate", lambda result: Record(result.gate.text)),
        text_column("State", lambda result: result.state),
        text_column("Results", lambda result: Place(result.subject.name), rank=1),
        text_column("Why", lambda result: result.reason, rank=2),
    )
    return (Section("Gates", (Paragraph(_verdict(results, inconclusive_fails=inconclusive_fails)), grid)),)


def _verdict(results: Sequence[GateResult], *, inconclusive_fails: bool = True) -> str:
    """Say in a sentence what follows from all gates."""
    blocking = [result for result in results if result.blocks(inconclusive_fails)]
    open_ones = sum(result.state == INCONCLUSIVE for result in results)
    counts = "as a failure" if inconclusive_fails else "as passed"
    doubtful = f" {open_ones:,} inconclusive, which counts {counts}." if open_ones else ""
    if len(results) == 1:
        return f"The gate {'blocks' if blocking else 'passes'}.{doubtful}"
    if blocking:
        return f"{len(blocking):,} of {len(results):,} gates {'blocks' if len(blocking) == 1 else 'block'}.{doubtful}"
    return f"All {len(results):,} gates pass.{doubtful}"


def summary(results: Sequence[GateResult], subjects: Sequence[Subject], *, inconclusive_fails: bool = True) -> Report:
    """Return what a job says at its end: the gates first, then what was counted."""
    counted = tuple(section for subject in subjects for section in _subject(subject))
    return Report((*_sections(results, inconclusive_fails=inconclusive_fails), *counted))


def _subject(subject: Subject) -> Iterator[Section]:
    words = WORDS[subject.aim]
    if subject.pair is not None:
        cells = _CELL_WORDS if subject.aim == "attack" else _TASK_CELLS
        facts = [
            Fact("Baseline", Place(subject.pair.a), subject.pair.rate_a),
            Fact("New run", Place(subject.name), subject.rate),
        ]
        facts += [Fact(cells[name], count, depth=1) for name, count in subject.counts]
        yield Section(f"Comparison, {words.rate.lower()} of", (Facts(tuple(facts)),), subject=Place(subject.name))
        return
    names = {outcome.value: name for outcome, name in words.outcomes.items()}
    facts = [Fact("Entries", dict(subject.counts)["total"]), Fact(words.rate, None, subject.rate)]
    corrected = subject.whole.corrected
    if corrected is not None and corrected.estimate is not None:
        facts.append(Fact("Corrected for the judge", None, corrected.estimate))
    facts += [Fact(names[name].capitalize(), count, depth=1) for name, count in subject.counts if name != "total"]
    yield Section("Results of", (Facts(tuple(facts)),), subject=Place(subject.name))


# -- regressions ----------------------------------------------------------------------------------------------


PASSED, FAILED, INCONCLUSIVE = "passed", "failed", "inconclusive"
# Intervals that take entries as independent: the tests of `stats.gates` say the same with one-sided limits.
_PLAIN = ("tango", "newcombe paired", "newcombe", "miettinen-nurminen", "farrington-manning")
_ROUNDED = 0.00005
_STATES = {"non_inferior": PASSED, "inferior": FAILED, "not_shown": INCONCLUSIVE}


class _Change(Struct, frozen=True):
    """A change for the worse with one-sided limits, what follows from it, and how many more entries would decide."""

    worsening: Estimate
    state: str
    reason: str
    more: int | None


def judged(figures: Figures, margin: float, aim: str, files: Sequence[File] = ()) -> _Change:
    """Judge a pair of runs, or a group of one; the `files` of a pair are told where their rates differ from it."""
    difference = figures.difference
    alpha = round(1 - difference.level, 12)
    if not 0 < alpha < 0.5:
        raise UsageError("--fail-on regression needs a --level above 0.5")
    if isinstance(figures, Pair) and figures.corrected is not None:
        return _corrected_change(figures, figures.corrected, margin, alpha, aim)
    # Without an interval, as in a group of one family, nothing is tested either.
    if difference.method not in _PLAIN or difference.low is None:
        worsening = _worsening(difference, aim)
        found = stats.non_inferiority_by_limits(worsening, margin, alpha=alpha, degrees=figures.degrees)
        more = stats.more_to_narrow(found, alpha) if found.verdict == "not_shown" else None
    elif figures.paired:
        worse, better = (figures.only_b, figures.only_a) if aim != TASK else (figures.only_a, figures.only_b)
        found = stats.non_inferiority_paired(worse, better, figures.paired, margin, alpha=alpha)
        more = stats.more_pairs(worse, better, figures.paired, margin, alpha) if found.verdict == "not_shown" else None
    else:
        new, old = (figures.successes_b, figures.rate_b.n), (figures.successes_a, figures.rate_a.n)
        if aim == TASK:
            new, old = (new[1] - new[0], new[1]), (old[1] - old[0], old[1])
        found = stats.non_inferiority_unpaired(*new, *old, margin, alpha=alpha)
        more = stats.more_entries_of_each(new, old, margin, alpha) if found.verdict == "not_shown" else None
    state, paired = _STATES[found.verdict], bool(figures.paired)
    reason = _sentence(figures, found.difference, state, margin, more, paired=paired, aim=aim, files=files)
    return _Change(found.difference, state, reason, more)


def _bounded_change(found: _Change, figures: Figures, margin: float, aim: str) -> _Change:
    """Judge the change by its bounds: as if errors and unjudged entries had ended for the best, and for the worst."""
    if figures.bounds is None:
        return found
    low, high = (judged(bound, margin, aim) for bound in (figures.bounds.lowest, figures.bounds.highest))
    if isinstance(figures, Pair) and figures.corrected is not None:
        # The labels say nothing of entries without a verdict: the bounds move a corrected change as far as a raw one.
        low, high = (_moved(found, judged_raw, figures.difference, margin, aim) for judged_raw in (low, high))
    best, worst = (low, high) if aim != TASK else (high, low)
    undecided = figures.undecided
    what = f"{undecided:,} {'pair has' if undecided == 1 else 'pairs have'}"
    if best.state == worst.state != INCONCLUSIVE:
        decisive, how = (worst, "for the worst") if worst.state == PASSED else (best, "for the best")
        reason = f"{decisive.reason or found.reason}; {what} an error or no verdict, taken {how}"
        return replace(decisive, reason=reason)
    changes = " and ".join(
        f"{formats.signed_points(change.worsening.value or 0.0, 2)} points if all had ended {how} ({change.state})"
        for change, how in ((best, "for the best"), (worst, "for the worst"))
    )
    reason = (
        f"{what} an error or no verdict: the change for the worse is {changes}; run these again, or "
        "leave them out with --errors ignore"
    )
    return _Change(found.worsening, INCONCLUSIVE, reason, None)


def _with_unread(found: _Change, unread: int, margin: float) -> _Change:
    """Judge the change as if lines that could not be read had been pairs that ended for the best, or for the worst."""
    worsening = found.worsening
    total = worsening.n + unread
    best = stats.with_others(worsening, -unread, total).low
    worst = stats.with_others(worsening, unread, total).high
    if best is None or worst is None or found.state == INCONCLUSIVE:
        return found
    if best > margin if found.state == FAILED else worst < margin:
        return found
    reason = (
        f"{counted(unread, 'line')} could not be read; had all of them been entries that changed, the gate could come "
        "out the other way; fix the files, or use --errors ignore"
    )
    return _Change(worsening, INCONCLUSIVE, reason, None)


def _moved(found: _Change, bound: _Change, difference: Estimate, margin: float, aim: str) -> _Change:
    raw, there, worsening = difference.value, bound.worsening.value, found.worsening
    if raw is None or there is None or worsening.value is None or worsening.low is None or worsening.high is None:
        return bound
    by = there - (raw if aim != TASK else -raw)
    value, low, high = (limit + by for limit in (worsening.value, worsening.low, worsening.high))
    state = PASSED if high < margin else FAILED if low > margin else INCONCLUSIVE
    return _Change(replace(worsening, value=value, low=low, high=high), state, "", None)


def _worsening(difference: Estimate, aim: str) -> Estimate:
    """Return a difference as a change for the worse."""
    value, low, high = difference.value, difference.low, difference.high
    if aim != TASK or value is None or low is None or high is None:
        return difference
    return replace(difference, value=-value, low=-high, high=-low)


def _corrected_change(pair: Pair, corrected: CorrectedPair, margin: float, alpha: float, aim: str) -> _Change:
    """Decide by the difference corrected for the judge; where it could not be corrected, nothing is shown."""
    if corrected.difference is None:
        nothing = stats.undefined("entry", 1 - 2 * alpha, "corrected", pair.difference.n)
        reason = "the change corrected for the judge is undefined: the comparison could not correct it, and says why"
        return _Change(nothing, INCONCLUSIVE, reason, None)
    worsening = _worsening(corrected.difference, aim)
    found = stats.non_inferiority_by_limits(worsening, margin, alpha=alpha, degrees=pair.degrees)
    state = _STATES[found.verdict]
    # More labels may be what is missing: how many entries would decide is not known.
    reason = _sentence(corrected, found.difference, state, margin, None, paired=bool(pair.paired), aim=aim)
    return _Change(found.difference, state, f"corrected for the judge: {reason}", None)


def _sentence(
    figures: Figures | CorrectedPair,
    worsening: Estimate,
    state: str,
    margin: float,
    more: int | None,
    *,
    paired: bool,
    aim: str,
    files: Sequence[File] = (),
) -> str:
    limit = f"margin of {formats.exact_percent(margin).removesuffix('%')} points"
    kind = "paired entries" if paired else "entries of both runs, unpaired"
    enough = "" if more is None else f"; about {counted(more, 'more entry', 'more entries')} would decide"
    if more is not None and not paired:
        enough += ", of each run"
    if worsening.value is None or worsening.low is None or worsening.high is None:
        lack = f"there are {counted(worsening.n, 'entry', 'entries')} to compare, with no interval"
        if isinstance(figures, Figures) and figures.families == 1:
            lack = f"{counted(worsening.n, 'entry', 'entries')} of one family do not show how families vary"
        return f"the change is undefined: {lack if worsening.n else 'there are no entries to compare'}{enough}"
    change, low, high = (formats.signed_points(share, 2) for share in (worsening.value, worsening.low, worsening.high))
    rates = [None if rate is None else rate.value for rate in (figures.rate_a, figures.rate_b)]
    old, new = ("undefined" if rate is None else formats.percent(rate) for rate in rates)
    # The rates of both files are told where those of the pairs are others: some entries are in no pair.
    of_files = [file.rate.value for file in files if file.rate.value is not None]
    same = all(rate is not None and abs(rate - of) < _ROUNDED for rate, of in zip(rates, of_files, strict=False))
    whole = (
        ""
        if len(of_files) != 2 or same
        else f" ({' and '.join(map(formats.percent, of_files))} of all answered entries)"
    )
    start = (
        f"{_NAMES[RATE_OF[aim]]} from {old} to {new}{whole}, a change for the worse of {change} points "
        f"({low} to {high}), {worsening.n:,} {kind}, one-sided limits at "
        f"{formats.exact_percent((1 + worsening.level) / 2)}; "
    )
    if state == PASSED:
        return f"{start}the upper limit is below the {limit}"
    if state == FAILED:
        return f"{start}the lower limit is above the {limit}"
    shown = "; it is shown to be worse, but not by how much" if worsening.low > 0 else ""
    return f"{start}the {limit} lies between the limits{shown}{enough}"


# -- the reasons ----------------------------------------------------------------------------------------------


_NAMES = {
    "asr": "success rate",
    "asr_corrected": "success rate corrected for the judge",
    "pass_rate": "pass rate",
    "errors": "share of errors",
    "guardrail": "share of entries that a guardrail blocked",
    "unjudged": "share of unjudged entries",
}
_NOT_CORRECTED = {
    "not_identifiable": "it is not identifiable, since the judge is too close to chance",
    "incompatible_with_validation": "the judge was measured elsewhere, and that does not hold here",
    "no_verdicts": "no entry has a verdict",
    "too_few_labels": "there are too few labels",
    "not_random": "the labels were not drawn at random from all entries, as --correction ppi needs",
    "no_measured_judge": "the judge is unmeasured, or there are several",
    "compared": "the comparison could not correct it, and says why",
}
_LIMITS = {"low": "lower limit of the ", "high": "upper limit of the ", "value": ""}
_SO = {">": "above", ">=": "at least", "<": "below", "<=": "at most"}
_NOT_SO = {">": "not above", ">=": "below", "<": "not below", "<=": "above"}


def _bounded_reason(gate: Gate, bounds: tuple[Estimate, Estimate], undecided: int, unread: int) -> str:
    """Say what a figure would be if every error and unjudged entry had failed, and if every one had succeeded."""
    known = [{"value": bound.value, "low": bound.low, "high": bound.high}[gate.part] for bound in bounds]
    shown = ["undefined" if value is None else formats.percent_apart(value, gate.threshold) for value in known]
    of = max(bound.n for bound in bounds) - unread
    was = "was" if undecided == 1 else "were"
    what = [f"{undecided:,} of {counted(of, 'entry', 'entries')} ended in an error or {was} not judged"]
    what = what if undecided else []
    what += [f"{counted(unread, 'line')} could not be read"] if unread else []
    ways = ("had not been blocked", "had been") if gate.figure == "guardrail" else ("had failed", "had succeeded")
    do = "run them again" if undecided else "fix the file"
    return (
        f"{' and '.join(what)}: the {_LIMITS[gate.part]}{_NAMES[gate.figure]} is {shown[0]} if all of them {ways[0]}, "
        f"{shown[1]} if all {ways[1]}, and the threshold is {formats.exact_percent(gate.threshold)}; {do}, or use "
        "--errors ignore"
    )
