"""Families in rates from labels of the run: the verdicts and labels of each family, and limits that respect them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from faircount.analysis.correction.sampled import LabelledEntry, Sampled
from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.ledger.store import LedgerView
from faircount.ledger.tallies import NO_COLUMN
from faircount.model import Estimate, Outcome, Tally
from faircount.stats.judge_error import LabelledPart, labelled_weight
from faircount.stats.labelled_families import (
    LabelledFamily,
    family_variance,
    over_all_gradient,
    prediction_powered_gradient,
    two_phase_gradient,
    with_families,
)

TWO_PHASE, PPI = "two-phase", "ppi"
_SUCCESS, _FAILURE = OUTCOME_NUMBER[Outcome.SUCCESS], OUTCOME_NUMBER[Outcome.FAILURE]
_LABELLED = "entry_key IN (SELECT UNNEST(CAST(? AS BIGINT[])))"


def labelled_families(ledger: LedgerView, column: str, found: Sequence[LabelledEntry]) -> list[LabelledFamily]:
    """Count entries, verdicts and labels of families; those without a label that are alike are one record."""
    return labelled_families_in_groups(ledger, column, found, NO_COLUMN).get(None, [])


def labelled_families_in_groups(
    ledger: LedgerView, column: str, found: Sequence[LabelledEntry], facet: str
) -> dict[int | None, list[LabelledFamily]]:
    """Count families as `labelled_families` does, among the entries of each value of a column of `entry` by itself."""
    alone = f"CASE WHEN {column} IS NULL THEN entry_key END"
    keys = [entry.key for entry in found]
    of_entry = {
        key: family
        for key, *family in ledger.query(
            f"SELECT entry_key, {column}, {alone}, {facet} FROM entry WHERE {_LABELLED}", [keys]
        )
    }
    labels: dict[tuple[int | None, ...], dict[bool, list[bool]]] = defaultdict(lambda: {True: [], False: []})
    for entry in found:
        labels[tuple(of_entry[entry.key])][entry.success].append(entry.label)
    rows = ledger.query(
        f"""
        SELECT
            CASE WHEN labelled > 0 THEN family END, CASE WHEN labelled > 0 THEN alone END, facet,
            total, success, failure, COUNT(*)
        FROM (
            SELECT
                {column} AS family,
                {alone} AS alone,
                {facet} AS facet,
                COUNT(*) AS total,
                COUNT(CASE WHEN outcome = {_SUCCESS} THEN 1 END) AS success,
                COUNT(CASE WHEN outcome = {_FAILURE} THEN 1 END) AS failure,
                COUNT(CASE WHEN {_LABELLED} THEN 1 END) AS labelled
            FROM entry
            GROUP BY {column}, {alone}, {facet}
        )
        GROUP BY 1, 2, 3, 4, 5, 6
        """,
        [keys],
    )
    nothing: dict[bool, list[bool]] = {True: [], False: []}
    families: dict[int | None, list[LabelledFamily]] = defaultdict(list)
    for *family, total, success, failure, times in rows:
        said = labels.get(tuple(family), nothing)
        parts = [
            LabelledPart(judged, len(said[verdict]), sum(said[verdict]))
            for judged, verdict in ((success, True), (failure, False))
        ]
        families[family[2]].append(LabelledFamily(total, parts[0], parts[1], times))
    return families


def respecting(
    families: Sequence[LabelledFamily],
    sampled: Sampled,
    tally: Tally,
    estimates: tuple[Estimate, Estimate],
    method: str,
) -> tuple[Estimate, Estimate, float | None]:
    """Return the rates over judged and over all entries with limits that respect families.

    With them comes what families add to the variance of the rate over judged entries, None where nobody knows.
    `estimates` are the rates as if entries were independent, by the given method.
    """
    judged, everything = estimates
    parts = sampled.successes, sampled.failures
    if method == PPI:
        gradient = prediction_powered_gradient(*parts, labelled_weight(*one_by_one(*parts)))
    else:
        gradient = two_phase_gradient(*parts)
    variance = family_variance(gradient, families)
    total = family_variance(over_all_gradient(gradient, judged.value or 0.0, tally.judged, tally.total), families)
    further = None if variance is None else max(0.0, variance.clustered - variance.independent)
    return with_families(judged, variance), with_families(everything, total), further


def one_by_one(successes: LabelledPart, failures: LabelledPart) -> tuple[list[int], list[float], list[float]]:
    """Return the labels, the verdicts on the same entries, and the verdicts on entries without a label."""
    labels: list[int] = []
    verdicts: list[float] = []
    unlabelled: list[float] = []
    for verdict, part in ((1, successes), (0, failures)):
        labels += [1] * part.true + [0] * (part.labelled - part.true)
        verdicts += [verdict] * part.labelled
        unlabelled += [verdict] * (part.judged - part.labelled)
    return labels, verdicts, unlabelled
