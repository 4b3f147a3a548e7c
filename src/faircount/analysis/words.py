"""What things are called, by what results are about: attacks that should not succeed, or tasks that should.

The counts are the same. Only here is it decided which word stands for them, and which end of a rate is the bad one.
"""

from __future__ import annotations

from msgspec import Struct

from faircount.core.model import Outcome

JUDGED = "They are only as good as the judge: its mistakes are in every rate and not in the intervals."
CORRECTED = (
    "Corrected rates and their intervals allow for the judge's mistakes, as far as the labels show them; other rates "
    "have these mistakes, and their intervals do not show them."
)
"""Stands in place of the sentence before where a rate was corrected for the judge."""


class Words(Struct, frozen=True):
    """The words of one aim."""

    rate: str
    rate_column: str
    of_rate: str
    """Stands before what a rate is a share of."""
    unit: str
    """What an entry is called in a sentence, and what became of those that were won."""
    won_verb: str
    variants: str
    """What entries are that are variants of one another; {} is the number of families."""
    won: str
    lost: str
    wins: str
    """Heads a column with the number of entries that were won."""
    examples: dict[str, str]
    """What entries are called that are shown with their texts, by their kind."""
    requests: str
    """Says what the number of all attempts counts."""
    family: str
    """What the entries of a family have in common, unless something else was asked for."""
    none_won: str
    """Said of entries without a verdict, over all entries."""
    not_won: str
    """What an entry without a success is called, in a sentence."""
    row: str
    """What a recorded row of an entry is called, and what stands in its history."""
    request: str
    outcomes: dict[Outcome, str]
    reasons: dict[Outcome, str]
    """Why an entry has its outcome, where not one attempt decides."""
    limits: tuple[str, ...]


WORDS: dict[str, Words] = {
    "attack": Words(
        rate="Success rate",
        rate_column="Rate",
        of_rate="",
        unit="attack",
        won_verb="succeeded",
        variants="variants of {} attacks",
        won="Successful attacks",
        lost="Failed attacks",
        wins="Successes",
        examples={
            "successes": "successful attacks",
            "failures": "failed attacks",
            "errors": "entries that ended in an error",
            "blocks": "blocked entries",
            "let through": "attacks that the guardrail let through",
            "blocked": "benign prompts that the guardrail blocked",
        },
        requests="requests, dynamic iterations included",
        family="document and instruction",
        none_won="over all entries they are not successes",
        not_won="unsuccessful",
        row="attempt",
        request="request",
        outcomes={outcome: outcome.value for outcome in Outcome},
        reasons={},
        limits=(
            "These numbers hold for this dataset: 0% means that these attacks failed, not that all would.",
            "They ignore severity: every success counts the same. Read the successful attempts.",
            JUDGED,
        ),
    ),
    "task": Words(
        rate="Pass rate",
        rate_column="Pass rate",
        of_rate="pass rate, ",
        unit="test",
        won_verb="passed",
        variants="cases of {} tests",
        won="Passed",
        lost="Failed",
        wins="Passed",
        examples={
            "successes": "passed cases",
            "failures": "failed cases",
            "errors": "cases that ended in an error",
            "blocks": "blocked cases",
        },
        requests="all attempts of all entries",
        family="suite",
        none_won="over all entries they did not pass",
        not_won="not passed",
        row="case",
        request="attempt",
        outcomes={
            **{outcome: outcome.value for outcome in Outcome},
            Outcome.SUCCESS: "passed",
            Outcome.FAILURE: "failed",
        },
        reasons={
            Outcome.SUCCESS: "its attempts passed, as its aggregation combines them",
            Outcome.FAILURE: "its attempts failed, as its aggregation combines them",
            Outcome.ERROR: "none of its attempts was answered",
            Outcome.UNJUDGED: "no metric decided, or nothing was tried",
        },
        limits=(
            "These numbers hold for these tests: 100% means that these passed, not that all would.",
            "They ignore importance: every passed test counts the same. Read the failed ones.",
            "They are only as good as the metrics: their mistakes are in every rate and not in the intervals.",
        ),
    ),
}
