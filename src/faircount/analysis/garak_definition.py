"""garak's own figures of a report beside ours (`--definition garak`), and garak's detector metrics applied to them.

garak counts scores of generations for each probe and detector; Faircount counts entries. Both are made from the
attempts of the report; of its eval lines only the interval is taken, of its digest only the scores of groups. Nothing
here corrects a rate of entries: what is known of a detector holds for single answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from faircount.analysis.grouping import Grouping, as_one, column_of
from faircount.core.errors import InputError, UsageError
from faircount.core.findings import counted, finding
from faircount.core.model import Analysis, Estimate, Finding, GarakFigures, GarakGroup, GarakPair, Source
from faircount.io.streams import STDIN
from faircount.ledger import tallies
from faircount.ledger.store import Ledger, LedgerView
from faircount.readers.garak import GARAK, EvalLine, PairCounts, ReportState, read_state
from faircount.report import formats
from faircount.report.blocks import Block, Records, Section, number_column, table, text_column
from faircount.stats import rate_from_shares, undefined

if TYPE_CHECKING:
    from faircount.analysis.judges.summary import Summary

_PROBE = "probe"
_GENERATION, _JUDGED_ENTRY = "generation", "judged entry"
_LEVEL = 0.95
"""garak's default; its setup line does not record another one."""
_METHOD = "garak bootstrap"
_NO_WIDTH = 1e-5
"""As in `stats.judge_error`: a detector that is so close to chance shows nothing. garak draws the line at 0.01."""
_NOT_MEASURED, _CHANCE = "not measured", "not identifiable"

_TWO_RATES = (
    "garak: share of generations that the detector hit, with garak's own interval, which takes all generations as "
    "independent. Faircount: share of prompts with a hit in any generation; its interval respects families."
)
_CORRECTED = (
    "Corrected: garak's rate, by sensitivity and specificity (Rogan and Gladen), cut to 0 and 100%. There is no "
    "interval, because garak's metrics do not record how many labels they rest on. Not identifiable: the detector is "
    "no better than chance."
)


def uses_metrics(summary: Summary | None, sources: Sequence[Source]) -> bool:
    """Return whether what `--judge-quality` names are garak's own metrics, without counts, for garak's reports."""
    if summary is None or not sources or any(source.reader != GARAK for source in sources):
        return False
    return not any(record.counts is not None and record.counts.n for record in summary.judges)


def refuse_others(sources: Sequence[Source]) -> None:
    """Raise if garak's figures are asked for of a file that is no report of garak's, or cannot be read twice."""
    for source in sources:
        if source.reader != GARAK:
            what = "a garak hit log" if source.tool == GARAK else f"a file of {source.tool}"
            raise InputError(f"{source.path}: --definition garak needs a garak report, and this is {what}")
        if source.path == STDIN:
            raise UsageError("garak's figures need the report twice, and standard input gives it once; name a file")


def garak_figures(
    ledger: LedgerView,
    source: Source,
    grouping_of: Callable[[LedgerView], Grouping],
    *,
    max_line: int,
    metrics: Summary | None = None,
) -> GarakFigures:
    """Return garak's figures of a report; `grouping_of` estimates rates of folded entries."""
    refuse_others([source])
    state = read_state(source.path, max_line)
    ours = dict(_entry_rates(ledger, grouping_of))
    pairs = [_pair(probe, detector, counts, lines, ours) for probe, detector, counts, lines in _counted(state)]
    if metrics is not None:
        shares = {}
        for record in metrics.judges:
            own = record.metrics or {}
            sensitivity, specificity = own.get("hit_sensitivity"), own.get("hit_specificity")
            if sensitivity is not None and specificity is not None:
                shares[record.called] = min(max(sensitivity, 0.0), 1.0), min(max(specificity, 0.0), 1.0)
        pairs = [_corrected(pair, shares) for pair in pairs]
    groups = tuple(GarakGroup(one.group, one.score, one.function) for one in state.groups)
    return GarakFigures(tuple(pairs), groups, None if metrics is None else metrics.path)


def _counted(state: ReportState) -> Iterator[tuple[str, str, PairCounts, list[EvalLine]]]:
    """Yield the pairs in the order of the file, those of several runs together."""
    counts: dict[tuple[str, str], PairCounts] = {}
    evaluated: dict[tuple[str, str], list[EvalLine]] = {}
    for (_, probe, detector), found in state.counts.items():
        whole = counts.setdefault((probe, detector), PairCounts())
        whole.passed += found.passed
        whole.fails += found.fails
        whole.nones += found.nones
    for (_, probe, detector), lines in state.evaluated.items():
        evaluated.setdefault((probe, detector), []).extend(lines)
    for (probe, detector), whole in counts.items():
        yield probe, detector, whole, evaluated.get((probe, detector), [])


def _pair(
    probe: str,
    detector: str,
    counts: PairCounts,
    lines: Sequence[EvalLine],
    ours: Mapping[tuple[str, str], tuple[int, Estimate]],
) -> GarakPair:
    total = counts.passed + counts.fails
    # Several eval lines of one pair are of several runs, and none has the interval of all.
    line = lines[0] if len(lines) == 1 and lines[0].total == total else None
    entries, rate = ours.get((probe, detector), (0, undefined(_JUDGED_ENTRY, method="wilson")))
    return GarakPair(
        probe=probe,
        detector=detector,
        passed=counts.passed,
        fails=counts.fails,
        nones=counts.nones,
        total=total,
        score=counts.passed / total if total else None,
        rate=Estimate(
            counts.fails / total if total else None,
            None if line is None or line.upper is None else line.lower,
            None if line is None or line.lower is None else line.upper,
            total,
            _GENERATION,
            _LEVEL,
            _METHOD,
        ),
        entries=entries,
        entry_rate=rate,
    )


def _entry_rates(
    ledger: LedgerView, grouping_of: Callable[[LedgerView], Grouping]
) -> Iterator[tuple[tuple[str, str], tuple[int, Estimate]]]:
    """Yield the entries of each probe and detector, and the rate among those that the detector judged."""
    if not isinstance(ledger, Ledger):
        return
    for detector in ledger.judges():
        with ledger.judged_by(detector) as judged:
            judged.fold()
            column, grouping = column_of(judged, _PROBE), grouping_of(judged)
            kinds = grouping.by(judged, column)
            for number, counts in tallies.by_number(judged, column):
                probe = tallies.text_of(judged, column, number)
                if probe is not None and counts.tally.judged:
                    own = kinds.get((number,)) or as_one(counts)
                    rate = grouping.rate("success", among="judged", unit=_JUDGED_ENTRY, kinds=own)
                    yield (probe, detector), (counts.tally.total, rate)


# -- corrected by garak's metrics -------------------------------------------------------------------------------


def _corrected(pair: GarakPair, shares: Mapping[str, tuple[float, float]]) -> GarakPair:
    """Return a pair with the rate that the shares of its detector give, or why there is none."""
    if pair.detector not in shares:
        return replace(pair, uncorrected=_NOT_MEASURED)
    sensitivity, specificity = shares[pair.detector]
    pair = replace(pair, sensitivity=sensitivity, specificity=specificity)
    if pair.rate.value is None:
        return replace(pair, uncorrected="nothing scored")
    corrected = rate_from_shares(pair.rate.value, sensitivity, specificity)
    return replace(pair, corrected=corrected, uncorrected=_CHANCE if corrected is None else None)


# -- in words ---------------------------------------------------------------------------------------------------


def findings(figures: GarakFigures, *, by_definition: bool) -> Iterator[Finding]:
    """Yield that garak's definitions are in use, and what corrected rates lack."""
    if by_definition:
        yield finding(
            "F043",
            1,
            "garak's figures are shown beside ours: garak counts generations for each probe and detector, ours count "
            "entries, by the detector that each probe names first",
        )
    corrected = list(dict.fromkeys(pair.detector for pair in figures.pairs if pair.corrected is not None))
    missing = list(dict.fromkeys(pair.detector for pair in figures.pairs if pair.uncorrected is not None))
    if figures.metrics is None:
        return
    if corrected:
        rates = sum(pair.corrected is not None for pair in figures.pairs)
        yield finding(
            "F044",
            rates,
            f"{counted(rates, 'corrected rate')} without an interval: {figures.metrics} has sensitivity and "
            "specificity, and not the number of labels behind them; measure the detector on labels of your own with "
            f"`faircount judges evaluate garak:{corrected[0]} --labels FILE`, or label a sample of this report with "
            "`faircount results sample-for-labels`",
        )
    if missing:
        names = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        yield finding(
            "F030",
            len(missing),
            f"{counted(len(missing), 'detector')} that {figures.metrics} does not measure, or finds no better than "
            f"chance, left uncorrected: {names}",
        )


def sections(analysis: Analysis) -> Iterator[Section]:
    """Yield garak's figures beside ours, and its rates corrected."""
    figures = analysis.garak
    if figures is None:
        return
    if analysis.definition == GARAK:
        blocks: list[Block] = [_pairs(figures)]
        if figures.groups:
            blocks.append(_groups(figures))
        yield Section("garak's figures", tuple(blocks))
    if figures.metrics is not None:
        yield Section("Corrected by garak's detector metrics", (_corrections(figures),))


def _pairs(figures: GarakFigures) -> Block:
    return table(
        figures.pairs,
        text_column("Probe and detector", lambda pair: Records((pair.probe, pair.detector))),
        number_column("Passed", lambda pair: pair.passed),
        number_column("Total", lambda pair: pair.total),
        number_column("garak", lambda pair: pair.rate),
        number_column("Faircount", lambda pair: pair.entry_rate),
        number_column("Unscored", lambda pair: pair.nones, when=any(pair.nones for pair in figures.pairs)),
        note=" ".join([_TWO_RATES, *_interval_notes(figures)]),
    )


def _interval_notes(figures: GarakFigures) -> Iterator[str]:
    flat = excluding = 0
    for pair in figures.pairs:
        value, low, high = pair.rate.value, pair.rate.low, pair.rate.high
        if value is None or low is None or high is None:
            continue
        if not low - _NO_WIDTH <= value <= high + _NO_WIDTH:
            excluding += 1
        elif high - low <= _NO_WIDTH:
            flat += 1
    if flat:
        has = "interval has" if flat == 1 else "intervals have"
        yield f"{flat:,} of garak's {has} no width: a bootstrap cannot draw what was not seen."
    if excluding:
        does = "interval does" if excluding == 1 else "intervals do"
        yield (
            f"{excluding:,} of garak's {does} not hold the rate: garak corrects the interval for the errors of its "
            "detector, and not the rate."
        )
    if any(not pair.total for pair in figures.pairs):
        yield "Where nothing was scored, garak's digest writes a score of 0, its worst."


def _groups(figures: GarakFigures) -> Block:
    functions = list(dict.fromkeys(group.function for group in figures.groups if group.function))
    made = f", by {', '.join(functions)} over probes and detectors" if functions else ""
    return table(
        figures.groups,
        text_column("Group", lambda group: Records((group.group,))),
        number_column("Score", lambda group: None if group.score is None else formats.percent(group.score)),
        note=f"Share passed, as garak's digest has it{made}.",
    )


def _corrections(figures: GarakFigures) -> Block:
    return table(
        [pair for pair in figures.pairs if pair.sensitivity is not None] or figures.pairs,
        text_column("Probe and detector", lambda pair: Records((pair.probe, pair.detector))),
        number_column("garak", lambda pair: replace(pair.rate, low=None, high=None)),
        number_column("Sens. / spec.", _quality),
        number_column(
            "Corrected",
            lambda pair: pair.uncorrected or (None if pair.corrected is None else formats.percent(pair.corrected)),
        ),
        note=_CORRECTED,
    )


def _quality(pair: GarakPair) -> str | None:
    if pair.sensitivity is None or pair.specificity is None:
        return None
    return f"{formats.percent(pair.sensitivity)} / {formats.percent(pair.specificity)}"
