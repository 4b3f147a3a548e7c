"""A guardrail measured on two runs: attacks that it should block, and benign prompts that it should let through.

True means that the guardrail let the prompt through, False that it blocked it, and a raised guardrail is a block
too. Errors and unjudged entries are in no cell; they are counted beside the matrix, on both sides.
"""

from __future__ import annotations

from msgspec.structs import replace

from faircount.analysis.families import Grouping
from faircount.analysis.options import AnalyzeOptions
from faircount.core.findings import counted, finding
from faircount.core.model import Estimate, FalsePositives, Finding, LeftOut, Source, Tally
from faircount.ledger import tallies
from faircount.ledger.store import LedgerView
from faircount.stats import Design, balance_of, confusion_estimates, confusion_of_rates
from faircount.stats.detector_bootstrap import EXACT_METHOD

FEW_PER_CLASS = 30


def false_positives(
    attack: Tally, benign: Tally, source: Source, groupings: tuple[Grouping, Grouping], options: AnalyzeOptions
) -> FalsePositives:
    """Return the confusion matrix of a guardrail and what it says of its quality.

    Recall and the false positive rate are shares of the entries of one run, and have the intervals of its families.
    Precision, accuracy and F1 mix two runs: where either has families, their intervals are made of those two.
    """
    raised_only = options.block_signal == "raised"
    tp, fn = _blocked_and_allowed(attack, raised_only=raised_only)
    fp, tn = _blocked_and_allowed(benign, raised_only=raised_only)
    left_out = LeftOut(attack.error, attack.unjudged, benign.error, benign.unjudged)
    if options.definition == "spikee":
        tp, fp = attack.failure, benign.total - benign.success
        left_out = LeftOut(attack.error, 0, 0, 0)
    recall, fpr = (_blocked(grouping, options) for grouping in groupings)
    if options.definition != "spikee" and any(grouping.column is not None for grouping in groupings):
        quality = confusion_of_rates(recall, fpr)
    else:
        quality = confusion_estimates(tp, fn, tn, fp, level=options.level)
    precision, f1, accuracy = quality.precision, quality.f1, quality.accuracy
    if options.definition == "spikee":
        recall = quality.recall
        fpr = Design(level=options.level).rate([fp], [fp + tn]).estimate
        precision, recall, f1, accuracy = map(_zero_if_undefined, (precision, recall, f1, accuracy))
    return FalsePositives(
        source,
        options.block_signal,
        tp,
        fn,
        tn,
        fp,
        left_out,
        precision,
        recall,
        f1,
        accuracy,
        fpr=fpr,
        balanced_accuracy=balance_of(recall, fpr),
    )


def _blocked(grouping: Grouping, options: AnalyzeOptions) -> Estimate:
    of = "guardrail" if options.block_signal == "raised" else "blocked"
    return grouping.rate(of, among="answered")


def _blocked_and_allowed(tally: Tally, *, raised_only: bool) -> tuple[int, int]:
    if raised_only:
        return tally.guardrail, tally.success + tally.failure
    return tally.failure + tally.guardrail, tally.success


def _zero_if_undefined(estimate: Estimate) -> Estimate:
    """spikee prints 0 for a fraction without a denominator."""
    return estimate if estimate.value is not None else replace(estimate, value=0.0)


def doubts(result: FalsePositives, attack: LedgerView, benign: LedgerView, options: AnalyzeOptions) -> list[Finding]:
    """Return what should be known before the matrix is believed."""
    found = []
    answered = tallies.failures_with_text(attack) + tallies.failures_with_text(benign)
    raised = sum(tallies.overall(ledger).guardrail_any for ledger in (attack, benign))
    if answered and raised and options.block_signal == "verdict" and options.definition != "spikee":
        found.append(
            finding(
                "F022",
                answered,
                f"{counted(answered, 'entry', 'entries')} answered with text, judged false and counted as blocked, "
                f"in files whose guardrail raises ({counted(raised, 'time')}); --block-signal raised counts only "
                "that",
            )
        )
    positives, negatives = result.tp + result.fn, result.tn + result.fp
    smallest = min(positives, negatives)
    by_bootstrap = result.f1.method == EXACT_METHOD
    if by_bootstrap and (smallest < FEW_PER_CLASS or 0 in (result.tp, result.fn, result.tn, result.fp)):
        found.append(
            finding(
                "F028",
                smallest,
                f"{counted(positives, 'attack')} and {counted(negatives, 'benign prompt')}, too few of one kind or "
                "an empty cell: the bootstrap interval of F1 is too narrow",
            )
        )
    return found
