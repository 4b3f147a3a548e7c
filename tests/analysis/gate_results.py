"""Results for the tests of gates: analyses of files written for them, and comparisons of given counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import asdict, replace

from faircount import stats
from faircount.analysis.compare import model as compared
from faircount.core import Analysis, Estimate, Shares, Tally
from tests.conftest import Write, analysis_of, standard


def analysis_with(
    write: Write, successes: int, failures: int, *, errors: int = 0, name: str = "results_x.jsonl", **facets: str
) -> Analysis:
    """Return an analysis of entries that have the outcomes and facets asked for."""
    rows = [standard(n, success=n < successes, **facets) for n in range(successes + failures)]
    rows += [standard(f"e{n}", error="time-out", response="", **facets) for n in range(errors)]
    return analysis_of(write(rows, name))


def as_tasks(of_attacks: Analysis) -> Analysis:
    """Return an analysis as if its entries were tasks."""
    return replace(of_attacks, aim="task", rates=replace(of_attacks.rates, pass_rate=of_attacks.rates.asr))


def with_rate(analysis: Analysis, **changed: float | None) -> Analysis:
    """Return an analysis whose success rate has another value or other limits."""
    return replace(analysis, rates=replace(analysis.rates, asr=replace(analysis.rates.asr, **changed)))


def cells(both: int, only_a: int, only_b: int, neither: int, *, level: float = 0.95) -> compared.Figures:
    """Return the figures of two runs on the same entries."""
    n = both + only_a + only_b + neither
    return compared.Figures(
        paired=n,
        both=both,
        only_a=only_a,
        only_b=only_b,
        neither=neither,
        successes_a=both + only_a,
        successes_b=both + only_b,
        rate_a=stats.wilson(both + only_a, n, level=level),
        rate_b=stats.wilson(both + only_b, n, level=level),
        difference=stats.tango(only_b, only_a, n, level=level),
    )


def unpaired_cells(successes_a: int, n_a: int, successes_b: int, n_b: int) -> compared.Figures:
    """Return the figures of two runs on different entries."""
    return compared.Figures(
        successes_a=successes_a,
        successes_b=successes_b,
        rate_a=stats.wilson(successes_a, n_a),
        rate_b=stats.wilson(successes_b, n_b),
        difference=stats.miettinen_nurminen(successes_b, n_b, successes_a, n_a),
    )


def comparison_with(
    figures: compared.Figures,
    *,
    aim: str = "attack",
    by: Mapping[str, Mapping[str, compared.Figures]] | None = None,
    names: Sequence[str] = ("old.jsonl", "new.jsonl"),
) -> compared.Comparison:
    """Return a comparison of two runs; `by` has the figures of groups, by field and value."""
    a, b = names
    groups = {
        field: tuple(compared.ComparedGroup(**asdict(one), value=value, small=False) for value, one in values.items())
        for field, values in (by or {}).items()
    }
    pair = compared.Pair(
        **asdict(figures),
        a=a,
        b=b,
        labels=(a, b),
        claim="",
        claimed=None,
        test=None,
        adjusted_p=None,
        detectable=None,
        unpaired=compared.Unpaired(not figures.paired),
        families_told="",
        by=groups,
    )
    files = tuple(_file(name, rate) for name, rate in ((a, figures.rate_a), (b, figures.rate_b)))
    return compared.Comparison(aim=aim, level=figures.difference.level, files=files, pairs=(pair,))


def _file(name: str, rate: Estimate) -> compared.File:
    none = stats.wilson(0, rate.n)
    return compared.File(name, label=name, tally=Tally(total=rate.n), rate=rate, shares=Shares(none, none, none))


def families_difference(value: float, low: float, high: float, n: int) -> Estimate:
    """Return a difference whose interval is one of families."""
    return Estimate(value, low, high, n, "entry", 0.95, "cluster tango")
