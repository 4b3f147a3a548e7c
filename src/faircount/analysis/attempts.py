"""Several requests for one entry: how soon success comes where a run stops at it, how steady it is where it does not.

Both can be had only from records that were made that way; where they were not, the reason is told instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from faircount.core.findings import counted
from faircount.core.model import Estimate, Retries, WithinAttempts, WithinStep
from faircount.ledger import tallies
from faircount.ledger.store import LedgerView
from faircount.ledger.tallies import GivenUp, RepeatedEntries
from faircount.report import formats
from faircount.stats import (
    Design,
    cluster_mean_of_shares,
    flake_rate_of_counts,
    icc_of_counts,
    next_calls,
    success_within_counts,
    undefined,
)

LARGEST_SHARE_GIVEN_UP = 0.2
"""More entries than this, given up early without an error, may have been chosen by what they were like."""

LARGEST_SHARE_UNKNOWN = 0.02
"""More attacks than this that ended in an error, after an unknown number of requests, move the curve by a point."""

NEXT_CALLS = 100


def success_within(ledger: LedgerView, level: float) -> WithinAttempts | None:
    """Return success within k answered requests, or None where no entry had more than one.

    An entry stops at its first success, so its number of requests is an outcome and not a plan: entries that were given
    up are censored, not failures of every later request. That is right if giving up has nothing to do with the entry,
    as where a target fails; entries that were given up for no reason that is told may be of another kind.

    Where it is unknown how many requests failed before an error, the entry may have been given up at once or at the
    end: intervals reach from the limit of one curve to that of the other, and too many such entries have no curve.
    """
    given_up = tallies.attempts_given_up(ledger)
    won = [(max(step.attempts, 1), True, step.entries) for step in tallies.attempts_to_success(ledger, answered=True)]
    counts = won + [(item.requests, False, item.entries) for item in given_up]
    most = max((requests for requests, _, _ in counts), default=0)
    if most < 2:
        return None
    unknown = sum(item.entries for item in given_up if item.unknown)
    refused = _why_no_curve(given_up, most, sum(entries for _, _, entries in counts))
    if unknown:
        refused = _why_unknown(unknown, tallies.entries_attacked(ledger)) or refused
    if refused:
        return WithinAttempts((), undefined("request", level, "kaplan-meier"), 0, refused)
    curve = success_within_counts(counts, level=level)
    lowest = curve
    if unknown:
        lasting = [(most if item.unknown else item.requests, False, item.entries) for item in given_up]
        lowest = success_within_counts(won + lasting, level=level)
    steps = tuple(
        WithinStep(
            step.k,
            step.at_risk,
            step.successes,
            step.censored,
            step.estimate if not unknown else replace(step.estimate, low=lowest.within(step.k).low),
        )
        for step in curve.steps
    )
    half = curve.attempts_for(0.5)
    if unknown:
        half = replace(half, high=lowest.attempts_for(0.5).high)
    return WithinAttempts(steps, half, curve.left_out)


def _why_unknown(unknown: int, attacked: int) -> str:
    """Say why there is no curve, if too many attacks raised an error after an unknown number of requests."""
    if unknown <= LARGEST_SHARE_UNKNOWN * attacked:
        return ""
    share = f"{counted(unknown, 'entry', 'entries')} of {attacked:,} attacked"
    return (
        f"No curve: on {share} an error ended the attempts, and the file does not say how many requests had failed "
        "before it. Without these failures the curve would be too high. spikee 0.9.2 and later, and faircount run, "
        "record that."
    )


def _why_no_curve(given_up: Sequence[GivenUp], most: int, entries: int) -> str:
    """Say why there is no curve, if so many entries were given up early that it would speak for others than all."""
    early = sum(item.entries for item in given_up if not item.errored and 0 < item.requests < most)
    if early <= LARGEST_SHARE_GIVEN_UP * entries:
        return ""
    share = f"{counted(early, 'entry', 'entries')} of {entries:,} ({formats.percent(early / entries, 0)})"
    return (
        f"No curve: {share} were given up before {most:,} requests without an error, so it is unknown what more "
        "requests would have done. Entries with different plans, such as some never attacked, cannot share a "
        "curve; analyse them separately."
    )


def retries(ledger: LedgerView, family: str | None, level: float) -> Retries | None:
    """Return how steady entries are that were tried several times by the same means, or None where none was."""
    found = tallies.repeated_entries(ledger, family)
    if all(item.attempts < 2 for item in found):
        return None
    entries, attempts = sum(i.times for i in found), sum(i.times * i.attempts for i in found)
    tried = [item for item in found if item.attempts]
    refused = _why_no_retries(tried)
    if refused:
        return Retries(entries, attempts, refused)
    successes = [item.successes for item in tried for _ in range(item.times)]
    sizes = [item.attempts for item in tried for _ in range(item.times)]
    families = None if family is None else [item.family or 0 for item in tried for _ in range(item.times)]
    if families is not None and len(set(families)) < 2:
        families = None
    variance = icc_of_counts(successes, sizes)
    following = next_calls(variance, NEXT_CALLS)
    return Retries(
        entries=variance.entries,
        attempts=variance.total,
        mean=cluster_mean_of_shares(successes, sizes, families, level=level).estimate,
        standard_error=variance.standard_error,
        naive_standard_error=variance.naive_standard_error,
        icc=variance.icc,
        flake_rate=_flaky(successes, sizes, families, level),
        left_out=sum(item.times for item in found if not item.attempts),
        next_calls=NEXT_CALLS,
        with_entries=None if following is None else following.with_entries,
        with_retries=None if following is None else following.with_retries,
    )


def _flaky(successes: Sequence[int], sizes: Sequence[int], families: Sequence[int] | None, level: float) -> Estimate:
    """Return the share of entries with mixed results, among those that were tried twice or more."""
    if families is None:
        return flake_rate_of_counts(successes, sizes, level=level)
    repeated = Counter(family for family, tried in zip(families, sizes, strict=True) if tried > 1)
    mixed = Counter(family for family, won, tried in zip(families, successes, sizes, strict=True) if 0 < won < tried)
    return (
        Design(families=True, level=level)
        .rate([mixed[family] for family in repeated], list(repeated.values()))
        .estimate
    )


def _why_no_retries(tried: Sequence[RepeatedEntries]) -> str:
    """Say why repeated attempts tell nothing of how steady entries are, if they stop at the first success."""
    planned = any(item.after_success for item in tried) or not any(item.successes for item in tried)
    if planned or len({item.attempts for item in tried}) == 1:
        return ""
    return "Entries were retried only until they succeeded: their attempts do not show how consistent they are."
