"""Attacks that win only by fooling the judge: their judged successes are no successes, while those of others are.

With labels of a sample of the run, an attack is named if it is shown at the level of the analysis, all attacks that
were tested taken together (Holm 1979), that fewer than half of its judged successes are true, and a smaller share of
them than of the others. With a judge that was measured elsewhere, if all of its judged successes could be false alarms,
and most of them must be: the corrected interval holds 0 and ends below the raw one, both at Bonferroni's level. A
finding says which; no figure changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from faircount import formats
from faircount.analysis.correction.correcting import SHOWN, Run, measured_rate
from faircount.analysis.correction.groups import Known, labelled_by_value, widening_of
from faircount.analysis.correction.label_sample import LabelledEntry
from faircount.analysis.fields import ATTACK_FIELD, column_of
from faircount.findings import counted, finding
from faircount.ledger.labels import values_of
from faircount.ledger.store import LedgerView
from faircount.model import Analysis, Estimate, Finding, Group
from faircount.stats import holm, wilson
from faircount.stats.distributions import binomial_at_most
from faircount.text import clip, visible

ATTACK_FIELDS = ("jailbreak_type", "instruction_type", "suffix_id", "plugin", ATTACK_FIELD)
"""The fields whose values are attacks, or parts of one."""
LEAST_LABELS = 5
"""With fewer labels of its judged successes, no attack can be shown to fool the judge."""
_MOST = 0.5
_NAMED = 3


class _Suspect(Struct, frozen=True):
    """A group of entries that one attack was made for."""

    field: str
    group: Group


def fooled(analysis: Analysis, ledger: LedgerView, family: str | None, known: Known) -> list[Finding]:
    """Return a finding if there are attacks that win only by fooling the judge."""
    suspects = [
        _Suspect(field, group)
        for field in ATTACK_FIELDS
        for group in analysis.breakdowns.get(field, ())
        if len(analysis.breakdowns[field]) > 1 and group.value is not None
    ]
    if known.found is None:
        found = list(_by_measured_judge(suspects, ledger, family, known))
    else:
        found = list(_by_labels(suspects, ledger, family, known.found, known.level))
    if not found:
        return []
    more = f"; and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
    who = "an attack wins" if len(found) == 1 else f"{len(found):,} attacks win"
    return [finding("F033", len(found), f"{who} only by fooling the judge: {'; '.join(found[:_NAMED])}{more}")]


# -- by labels of the run ---------------------------------------------------------------------------------------


def _by_labels(
    suspects: Sequence[_Suspect], ledger: LedgerView, family: str | None, found: Sequence[LabelledEntry], level: float
) -> Iterator[str]:
    judged = [entry for entry in found if entry.success]
    families = {} if family is None else values_of(ledger, [entry.key for entry in judged], family)
    kin = {key: value for key, value in families.items() if value is not None}
    by_field = {
        field: labelled_by_value(ledger, column_of(ledger, field), judged)
        for field in dict.fromkeys(suspect.field for suspect in suspects)
    }
    labels = [by_field[suspect.field].get(suspect.group.value, []) for suspect in suspects]
    tested = []
    for own in labels:
        keys = {entry.key for entry in own}
        tested.append((_one_each(own, kin), _one_each((entry for entry in judged if entry.key not in keys), kin)))
    for suspect, own, shown in zip(suspects, labels, shown_to_fool(tested, level), strict=True):
        corrected = None if suspect.group.corrected is None else suspect.group.corrected.estimate
        # Where people find successes among its judged failures, the attack does win, if unseen.
        if shown and (corrected is None or not corrected.low):
            true = sum(entry.label for entry in own)
            yield (
                f"{_named(suspect, corrected)}, and of {counted(len(own), 'labelled judged success', _PLURAL)} "
                f"{true:,} {'is' if true == 1 else 'are'} true"
            )


_PLURAL = "labelled judged successes"


def _one_each(entries: Iterable[LabelledEntry], kin: dict[int, int]) -> list[bool]:
    """Return the labels of the first entry of each family: those of its variants are no independent ones."""
    first: dict[tuple[bool, int], bool] = {}
    for entry in sorted(entries, key=lambda entry: entry.key):
        place = (True, kin[entry.key]) if entry.key in kin else (False, entry.key)
        first.setdefault(place, entry.label)
    return list(first.values())


def shown_to_fool(tested: Sequence[tuple[Sequence[bool], Sequence[bool]]], level: float) -> list[bool]:
    """Tell for each attack whether it is shown to fool the judge, by labels of its judged successes and the others'."""
    adjusted = holm([_chance(own, others) for own, others in tested])
    return [p is not None and p <= 1 - level for p in adjusted]


def _chance(own: Sequence[bool], others: Sequence[bool]) -> float | None:
    """Return the chance of so few true ones, if half of them or as many as of the others were; None if not tested.

    The larger of two tests: the binomial one against a half, and Fisher's exact one, one-sided, against the others.
    """
    if len(own) < LEAST_LABELS or not others:
        return None
    true = sum(own)
    against_half = binomial_at_most(true, len(own), _MOST)
    return min(
        1.0, max(against_half, hypergeometric_at_most(true, len(own), true + sum(others), len(own) + len(others)))
    )


def hypergeometric_at_most(count: int, drawn: int, marked: int, total: int) -> float:
    """Return the chance of at most `count` marked ones among `drawn` of `total`, of which so many are marked."""
    ways = sum(
        math.comb(marked, k) * math.comb(total - marked, drawn - k)
        for k in range(max(0, drawn - (total - marked)), count + 1)
    )
    return ways / math.comb(total, drawn)


# -- by a judge that was measured elsewhere ---------------------------------------------------------------------


def _by_measured_judge(
    suspects: Sequence[_Suspect], ledger: LedgerView, family: str | None, known: Known
) -> Iterator[str]:
    if known.correction.status not in SHOWN:
        return
    tested = [suspect for suspect in suspects if suspect.group.tally.judged]
    level = 1 - (1 - known.level) / max(1, len(tested))
    widening = {field: widening_of(ledger, family, field, level) for field in {suspect.field for suspect in tested}}
    for suspect in tested:
        tally = suspect.group.tally
        factor = widening[suspect.field].get(suspect.group.value, 1.0)
        run = Run(tally, 0, level, factor, ())
        _, corrected = measured_rate(run, known.validation)
        worth = max(1, math.floor(tally.judged / factor))
        raw = wilson(math.floor(run.rate * worth), worth, level=level)
        if corrected is None or corrected.low is None or corrected.high is None or raw.low is None:
            continue
        if corrected.low == 0 and corrected.high < raw.low:
            shown = None if suspect.group.corrected is None else suspect.group.corrected.estimate
            alarms = 1 - (known.correction.specificity.value or 0.0)
            yield (
                f"{_named(suspect, shown)}, and a judge that calls {formats.percent(alarms)} of all failures a success "
                "would call as many so if none were"
            )


# -- in words ---------------------------------------------------------------------------------------------------


def _named(suspect: _Suspect, corrected: Estimate | None) -> str:
    value = clip(visible(suspect.group.value or ""), 40)
    after = "no corrected rate" if corrected is None else f"{formats.estimate(corrected)} corrected"
    return f"{suspect.field} {value}, {formats.estimate(suspect.group.rate)} raw, {after}"
