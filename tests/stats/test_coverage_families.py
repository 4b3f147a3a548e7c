"""The headline interval covers at least 93% where entries come in families; `make test-slow` measures it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli, Write, standard
from tests.stats.coverage_families import (
    COIN_RATES,
    CORRELATIONS,
    DESIGNS,
    GATE,
    GATE_PASSES,
    LEAST,
    PAGE,
    RATES,
    Regime,
    all_or_nothing,
    coverage,
    error,
    ours,
    recorded,
    without_floor,
)

WORST = (
    Regime("7 × 136 and 4 × 1", 0.05, 0.6),
    Regime("7 × 136 and 4 × 1", 0.9, 0.6),
    Regime("7 × 136 and 4 × 1", 0.05, 0.3),
    Regime("7 × 136 and 4 × 1", 0.02, 0.3),
    Regime("30 of 6 to 96", 0.98, 0.6),
    Regime("7 × 136 and 4 × 1", 0.98, 0.3),
    Regime("30 of 6 to 96", 0.02, 0.3),
    Regime("20 Zipf, 400", 0.05, 0.6),
    Regime("30 of 6 to 96", 0.05, 0.6),
    Regime("30 of 6 to 96", 0.02, 0.6),
)
"""Where the interval without a floor covers least."""
RUNS = 20


@pytest.mark.slow
@pytest.mark.parametrize("rate", RATES, ids=lambda rate: f"{100 * rate:g}%")
@pytest.mark.parametrize("design", DESIGNS)
def test_the_interval_of_families_covers_what_it_says(design: str, rate: float) -> None:
    page = recorded()
    for correlation in CORRELATIONS:
        regime = Regime(design, rate, correlation)
        found = coverage(regime)
        assert found.covers >= LEAST - error(LEAST), regime.name
        # Seeds are fixed: what is measured is what is recorded.
        assert page[regime.name][0] == pytest.approx(found.covers, abs=0.00051), regime.name
        if rate == GATE:
            assert found.passes <= GATE_PASSES, regime.name


@pytest.mark.slow
@pytest.mark.parametrize("regime", WORST, ids=lambda regime: regime.name)
def test_the_command_line_gives_the_interval_that_was_measured(regime: Regime, write: Write, cli: Cli) -> None:
    sizes = DESIGNS[regime.design]
    for run, successes in enumerate(regime.drawn(RUNS).tolist()):
        rows = [
            standard(
                f"{family}-{variant}",
                long_id=f"document_d_j-{variant}_x-{family}_end",
                document_id="d",
                position="end",
                instruction_type="x",
                jailbreak_type=f"j-{variant}",
                success=variant < successes[family],
            )
            for family, size in enumerate(sizes)
            for variant in range(size)
        ]
        path = write(rows, f"results_{run}.jsonl")
        ran = cli("results", "analyze", path, "--overview", "--output-format", "json", "--fail-on", "asr.high > 5%")
        rate = json.loads(ran.out)["analyses"][0]["rates"]["asr"]
        low, high = ours(tuple(successes), sizes)
        assert (rate["low"], rate["high"]) == pytest.approx((low, high), abs=1e-9)
        assert ran.code == int(high > GATE)
        Path(path).unlink()


def test_the_record_has_every_regime_and_none_below_the_promise() -> None:
    page = recorded()
    assert set(page) == {Regime(design, rate, c).name for design in DESIGNS for rate in RATES for c in CORRELATIONS}
    assert all(new >= LEAST - error(LEAST) for new, _ in page.values())
    old = [before for _, before in page.values()]
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"in {sum(share < LEAST for share in old)} of {len(page)} situations, and only {100 * min(old):.1f}%" in text
    assert f"covers at least {100 * min(new for new, _ in page.values()):.1f}% in all of them" in text


def test_a_few_regimes_are_as_recorded_also_without_make_test_slow() -> None:
    for regime in (Regime("7 × 136 and 4 × 1", 0.005, 0.0), Regime("10 × 20", 0.01, 0.0)):
        draws = 300
        new, old = coverage(regime, draws=draws), coverage(regime, without_floor, draws)
        page = recorded()[regime.name]
        for found, figure in zip((new, old), page, strict=True):
            assert found.covers == pytest.approx(figure, abs=2 * error(figure, draws) + 0.01)


def test_seven_families_that_are_all_or_nothing_are_the_exception_that_the_page_names() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for rate in COIN_RATES:
        assert f"| {100 * rate:g}% | {100 * all_or_nothing(rate):.1f} |" in text
