"""Several judges of the same answers: the rate under each of them alone, and how often two of them agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from faircount import formats
from faircount.analysis.families import Grouping
from faircount.analysis.words import WORDS
from faircount.ledger import tallies
from faircount.ledger.store import Ledger, LedgerView
from faircount.model import Analysis, JudgeAgreement, JudgeFigures
from faircount.report import Column, Grid, Record, Records, Section
from faircount.stats.agreement import cohen_kappa, gwet_ac1
from faircount.stats.proportion import wilson

_UNIT = "verdict"
_KAPPA = (
    "Verdicts that both judges gave on the same answer. Kappa is agreement beyond chance: 1 is complete, 0 is what two "
    "judges with these habits would reach by chance; AC1 does not collapse where nearly all verdicts are the same."
)


def judge_figures(ledger: Ledger, grouping_of: Callable[[LedgerView], Grouping]) -> Iterator[JudgeFigures]:
    """Yield what the entries come to under each judge; `grouping_of` estimates rates of folded entries."""
    for judge in ledger.judges():
        with ledger.judged_by(judge) as judged:
            judged.fold()
            grouping = grouping_of(judged)
            yield JudgeFigures(
                judge=judge,
                tally=tallies.overall(judged).tally,
                rate=grouping.rate("success"),
                rate_judged=grouping.rate("success", among="judged", unit="judged entry"),
            )


def judge_agreement(ledger: LedgerView, level: float) -> Iterator[JudgeAgreement]:
    """Yield how often each two judges agree, on the verdicts that both gave."""
    for judges, counts in tallies.verdict_pairs(ledger).items():
        agreed, total = counts[0][0] + counts[1][1], sum(map(sum, counts))
        yield JudgeAgreement(
            judges=judges,
            verdicts=total,
            agreement=wilson(agreed, total, unit=_UNIT, level=level),
            kappa=cohen_kappa(counts, unit=_UNIT, level=level),
            ac1=gwet_ac1(counts),
        )


def judges_section(analysis: Analysis) -> Section:
    """Return the judges of an analysis with their rates, and how they agree."""
    words = WORDS[analysis.aim]
    columns = (
        Column("Judge", numeric=False),
        Column(words.wins),
        Column("Failed" if analysis.aim == "task" else "Failures"),
        Column("Unjudged"),
        Column("Of all", rank=1),
        Column("Of judged"),
    )
    rows = tuple(
        (Record(one.judge), one.tally.success, one.tally.failure, one.tally.unjudged, one.rate, one.rate_judged)
        for one in analysis.judges
    )
    rates = Grid(columns, rows, note=f"{words.rate} if each judge alone decided.")
    pairs = Grid(
        (
            Column("Two judges", numeric=False),
            Column("Verdicts"),
            Column("They agree"),
            Column("Kappa"),
            Column("AC1"),
        ),
        tuple(
            (
                Records(pair.judges),
                pair.verdicts,
                pair.agreement,
                formats.coefficient(pair.kappa),
                formats.coefficient_value(pair.ac1),
            )
            for pair in analysis.judge_agreement
        ),
        note=_KAPPA,
    )
    return Section("Judges", (rates, pairs) if pairs.rows else (rates,))
