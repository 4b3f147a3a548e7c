"""Several judges of the same answers: the rate under each of them alone, and how often two of them agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from faircount.analysis.families import Grouping
from faircount.analysis.words import WORDS
from faircount.core.model import Analysis, JudgeAgreement, JudgeFigures
from faircount.ledger import tallies
from faircount.ledger.store import Ledger, LedgerView
from faircount.report import formats
from faircount.report.blocks import Record, Records, Section, number_column, table, text_column
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
    rates = table(
        analysis.judges,
        text_column("Judge", lambda one: Record(one.judge)),
        number_column(words.wins, lambda one: one.tally.success),
        number_column("Failed" if analysis.aim == "task" else "Failures", lambda one: one.tally.failure),
        number_column("Unjudged", lambda one: one.tally.unjudged),
        number_column("Of all", lambda one: one.rate, rank=1),
        number_column("Of judged", lambda one: one.rate_judged),
        note=f"{words.rate} if each judge alone decided.",
    )
    pairs = table(
        analysis.judge_agreement,
        text_column("Two judges", lambda pair: Records(pair.judges)),
        number_column("Verdicts", lambda pair: pair.verdicts),
        number_column("They agree", lambda pair: pair.agreement),
        number_column("Kappa", lambda pair: formats.coefficient(pair.kappa)),
        number_column("AC1", lambda pair: formats.fixed(pair.ac1)),
        note=_KAPPA,
    )
    return Section("Judges", (rates, pairs) if pairs.rows else (rates,))
