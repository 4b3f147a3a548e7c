"""Families in rates from labels of the run: the verdicts and labels of each family, and limits that respect them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from faircount.analysis.correction.label_sample import LabelledEntry, Sampled
from faircount.ledger.labels import Kin, families_of, values_of, verdicts_of_families
from faircount.ledger.store import LedgerView
from faircount.ledger.tallies import NO_COLUMN
from faircount.model import Estimate, Tally
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


def labelled_families(ledger: LedgerView, column: str, found: Sequence[LabelledEntry]) -> list[LabelledFamily]:
    """Count entries, verdicts and labels of families; those without a label that are alike are one record."""
    return labelled_families_in_groups(ledger, column, found, NO_COLUMN).get(None, [])


def labelled_families_in_groups(
    ledger: LedgerView, column: str, found: Sequence[LabelledEntry], facet: str
) -> dict[int | None, list[LabelledFamily]]:
    """Count families as `labelled_families` does, among the entries of each value of a column of `entry` by itself."""
    keys = [entry.key for entry in found]
    kin, values = families_of(ledger, keys, column), values_of(ledger, keys, facet)
    labels: dict[tuple[Kin, int | None], dict[bool, list[bool]]] = defaultdict(lambda: {True: [], False: []})
    for entry in found:
        labels[kin[entry.key], values[entry.key]][entry.success].append(entry.label)
    nothing: dict[bool, list[bool]] = {True: [], False: []}
    families: dict[int | None, list[LabelledFamily]] = defaultdict(list)
    for alike in verdicts_of_families(ledger, column, facet, keys):
        said = labels.get((alike.kin, alike.facet), nothing)
        parts = [
            LabelledPart(judged, len(said[verdict]), sum(said[verdict]))
            for judged, verdict in ((alike.successes, True), (alike.failures, False))
        ]
        families[alike.facet].append(LabelledFamily(alike.total, parts[0], parts[1], alike.times))
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
