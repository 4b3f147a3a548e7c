"""Several requests for one entry arranged into sections: how soon success comes, and how steady it is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from faircount.analysis.arrange_groups import BARS_SHOWN, ROWS_SHOWN, of_how_many
from faircount.core.findings import counted
from faircount.core.model import Analysis, Estimate, Retries, WithinAttempts
from faircount.report import formats
from faircount.report.blocks import Bar, Bars, Block, Fact, Facts, Grid, Paragraph, Section, number_column, table


def attempts(a: Analysis, figures: bool) -> Iterator[Section]:
    """Yield the sections about requests to the first success and about repeated attempts, where there are any."""
    within = a.success_within
    if within is not None and not within.refused:
        yield Section("Success within k requests", _success_within(a, within, figures))
    elif len(a.attempts_to_success) > 1:
        reason = (Paragraph(within.refused),) if within is not None and within.refused else ()
        yield Section("Attempts to the first success", (_attempts_grid(a), *reason))
    if a.retries is not None:
        yield Section("Repeated attempts", _retries(a.retries, figures))


def _attempts_grid(a: Analysis) -> Grid:
    so_far = accumulate(step.entries for step in a.attempts_to_success)
    return table(
        list(zip(a.attempts_to_success, so_far, strict=True))[:ROWS_SHOWN],
        number_column("Requests", lambda row: row[0].attempts),
        number_column("Entries", lambda row: row[0].entries),
        number_column("Successful so far", lambda row: row[1]),
        note=_hidden(len(a.attempts_to_success)),
    )


def _hidden(steps: int) -> str:
    return f"{steps - ROWS_SHOWN:,} more steps in the JSON output." if steps > ROWS_SHOWN else ""


def _success_within(a: Analysis, found: WithinAttempts, figures: bool) -> tuple[Block, ...]:
    steps = table(
        found.steps[:ROWS_SHOWN],
        number_column("Requests", lambda step: step.attempts),
        number_column("Tried", lambda step: step.at_risk),
        number_column("Successes", lambda step: step.successes),
        number_column("Given up", lambda step: step.given_up, rank=1),
        number_column("Success within", lambda step: step.within),
        note=_hidden(len(found.steps)),
    )
    blocks: list[Block] = [steps, Paragraph(_budget(found))]
    if figures:
        bars = tuple(Bar(f"within {step.attempts:,}", step.within) for step in found.steps[:BARS_SHOWN])
        blocks.insert(0, Bars(of_how_many("Success within k requests", len(found.steps), "steps"), bars, a.rates.asr))
    return tuple(blocks)


def _budget(found: WithinAttempts) -> str:
    """Say in words what a number of requests buys, and how entries that were given up are counted."""
    half, last = found.half, found.steps[-1]
    if half.value is None:
        reached = (
            f"Fewer than half of the entries succeeded within {counted(last.attempts, 'request')}, the most "
            "that any had."
        )
    else:
        limits = f"{_whole(half.low)} to {_whole(half.high)}"
        reached = f"Half of the entries succeed within {counted(int(half.value), 'request')} ({limits})."
    left = found.left_out
    without = f" {counted(left, 'entry', 'entries')} without any answer {'is' if left == 1 else 'are'} left out."
    how = (
        " Kaplan-Meier: an entry that was given up counts up to its last answered request. This holds only if errors "
        "have nothing to do with how easily an entry gives way."
    )
    return reached + how + (without if left else "")


def _whole(limit: float | None) -> str:
    return "more than were made" if limit is None else f"{limit:,.0f}"


def _retries(found: Retries, figures: bool) -> tuple[Block, ...]:
    if found.mean is None or found.flake_rate is None:
        return (Paragraph(found.refused or ""),)
    over = f"of {counted(found.entries, 'entry', 'entries')} with {found.attempts:,} judged attempts"
    how = f"({formats.exact_percent(found.mean.level)} Wilson on the effective size)"
    error, naive = (formats.points(size, 2) for size in (found.standard_error, found.naive_standard_error))
    facts = [
        Fact("Mean over entries", None, found.mean, f"{over} {how}"),
        Fact(
            "standard error",
            error,
            note=f"{naive} if attempts were independent, which those of one entry are not",
            depth=1,
        ),
        Fact(
            "Correlation within entries",
            formats.fixed(found.icc, 2),
            note="ICC(1): share of the variance between entries",
        ),
        Fact("Flaky entries", None, found.flake_rate, f"mixed results, of {_of(found.flake_rate)} tried twice or more"),
    ]
    if found.left_out:
        facts.append(Fact("Left out", found.left_out, note="entries without a judged attempt of their own"))
    blocks: list[Block] = [Facts(tuple(facts)), *map(Paragraph, _advice(found))]
    if figures:
        bars = (Bar("mean over entries", found.mean), Bar("flaky entries", found.flake_rate))
        blocks.insert(0, Bars("Repeated attempts", bars))
    return tuple(blocks)


def _of(rate: Estimate) -> str:
    return counted(rate.n, "entry", "entries")


def _advice(found: Retries) -> Iterator[str]:
    """Say where the next calls buy most."""
    entries, again = found.with_entries, found.with_retries
    if entries is None or again is None:
        return
    better = "new entries help more" if entries < again else "both help equally"
    now, then, with_more = (formats.points(size, 2) for size in (found.standard_error, entries, again))
    yield (
        f"Another {found.next_calls} calls would bring the standard error from {now} to {then} on new entries, or to "
        f"{with_more} on more attempts of these: {better}."
    )
