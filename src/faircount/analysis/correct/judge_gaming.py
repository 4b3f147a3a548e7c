"""Attacks that win only by fooling the judge: their judged successes are no successes, while those of others are.

With labels of a sample of the run, an attack is named if it is shown at the level of the analysis, all attacks that
were tested taken together (Holm 1979), that fewer than half of its judged successes are true, and a smaller share of
them than of the others. With a judge that was measured elsewhere, if all of its judged successes could be false alarms,
and most of them must be: the corrected interval holds 0 and ends below the raw one, both at Bonferroni's level. A
finding says which; no figure changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.correct.correct import KnownJudge, group_counts
from faircount.analysis.correct.label_sample import LabelledEntry, labelled_by_value
from faircount.analysis.fields import ATTACK_FIELD, column_of
from faircount.core.findings import counted, finding
from faircount.core.model import Analysis, Estimate, Finding, Group
from faircount.core.text import clip, visible
from faircount.ledger.labels import values_of
from faircount.ledger.store import LedgerView
from faircount.report import formats
from faircount.stats import CorrectionStatus, MeasuredCorrector, attacks_that_fool

ATTACK_FIELDS = ("jailbreak_type", "instruction_type", "suffix_id", "plugin", ATTACK_FIELD)
"""The fields whose values are attacks, or parts of one."""
_NAMED = 3


class _Suspect(Struct, frozen=True):
    """A group of entries that one attack was made for."""

    field: str
    group: Group


def attacks_on_the_judge(analysis: Analysis, ledger: LedgerView, known: KnownJudge) -> list[Finding]:
    """Return a finding if there are attacks that win only by fooling the judge."""
    suspects = [
        _Suspect(field, group)
        for field in ATTACK_FIELDS
        for group in analysis.breakdowns.get(field, ())
        if len(analysis.breakdowns[field]) > 1 and group.value is not None
    ]
    found = list((_by_labels if known.by_labels else _by_measured_judge)(suspects, ledger, known))
    if not found:
        return []
    more = f"; and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
    who = "an attack wins" if len(found) == 1 else f"{len(found):,} attacks win"
    return [finding("F033", len(found), f"{who} only by fooling the judge: {'; '.join(found[:_NAMED])}{more}")]


# -- by labels of the run ---------------------------------------------------------------------------------------


def _by_labels(suspects: Sequence[_Suspect], ledger: LedgerView, known: KnownJudge) -> Iterator[str]:
    assert known.corrector is not None
    judged = [entry for entry in known.labelled if entry.success]
    families = {} if known.family is None else values_of(ledger, [entry.key for entry in judged], known.family)
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
    for suspect, own, shown in zip(suspects, labels, attacks_that_fool(tested, known.corrector.level), strict=True):
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


# -- by a judge that was measured elsewhere ---------------------------------------------------------------------


def _by_measured_judge(suspects: Sequence[_Suspect], ledger: LedgerView, known: KnownJudge) -> Iterator[str]:
    if not CorrectionStatus(known.correction.status).corrects:
        return
    corrector = known.corrector
    assert isinstance(corrector, MeasuredCorrector)
    tested = [suspect for suspect in suspects if suspect.group.tally.judged]
    # All attacks taken together, by Bonferroni's level.
    strict = replace(corrector, level=1 - (1 - corrector.level) / max(1, len(tested)))
    by_field: dict[str, list[_Suspect]] = {}
    for suspect in tested:
        by_field.setdefault(suspect.field, []).append(suspect)
    for field, of_field in by_field.items():
        counts = group_counts(ledger, column_of(ledger, field), [suspect.group for suspect in of_field], known)
        for suspect, of_group in zip(of_field, counts, strict=True):
            if strict.all_false_alarms(of_group):
                shown = None if suspect.group.corrected is None else suspect.group.corrected.estimate
                alarms = 1 - (known.correction.specificity.value or 0.0)
                yield (
                    f"{_named(suspect, shown)}, and a judge that calls {formats.percent(alarms)} of all failures a "
                    "success would call as many so if none were"
                )


# -- in words ---------------------------------------------------------------------------------------------------


def _named(suspect: _Suspect, corrected: Estimate | None) -> str:
    value = clip(visible(suspect.group.value or ""), 40)
    after = "no corrected rate" if corrected is None else f"{formats.estimate(corrected)} corrected"
    return f"{suspect.field} {value}, {formats.estimate(suspect.group.rate)} raw, {after}"
