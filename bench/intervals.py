"""The interval of F1 from labelled samples: ours beside a loop that resamples them as garak's figures are made.

Both answer the same question: the percentiles of F1 over replicates drawn with replacement inside each class. The loop
draws every sample of every replicate; only some of its 10,000 replicates are run here, and their time is scaled up.

Run: .venv/bin/python -m bench.intervals --samples 1000 1000000 --replicates 20
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable

import numpy as np

from faircount.stats.detector_bootstrap import DEFAULT_REPLICATES, f1_bca, f1_bootstrap

RECALL, FALSE_ALARM_RATE = 0.9, 0.04
HEAD = """\
| samples | way | CPU ms | wall ms | F1 interval | CPU, exact : this |
|---|---|---|---|---|---|"""
Interval = tuple[float | None, float | None]
Counts = tuple[int, int, int, int]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--replicates", type=int, default=20, help="replicates of the resampling loop that are run")
    arguments = parser.parse_args()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(
        f"{machine}, best of {arguments.rounds}\n"
        f"Every sample drawn anew: {arguments.replicates} replicates run once, time scaled to {DEFAULT_REPLICATES:,}\n"
    )
    print(HEAD)
    for samples in arguments.samples:
        _compare(samples, arguments.rounds, arguments.replicates)


def _compare(samples: int, rounds: int, replicates: int) -> None:
    counts = _counts(samples)
    exact, limits = _best(lambda: _limits(counts), rounds)
    _show(samples, "exact percentiles", exact, limits, exact)
    cost, limits = _best(lambda: _corrected_limits(counts), rounds)
    _show(samples, "exact BCa", cost, limits, exact)
    cost, limits = _best(lambda: _limits(counts, DEFAULT_REPLICATES), rounds)
    _show(samples, f"{DEFAULT_REPLICATES:,} draws of two counts", cost, limits, exact)
    cost, limits = _best(lambda: _resampled(counts, replicates), 1)
    scale = DEFAULT_REPLICATES / replicates
    _show(
        samples,
        f"every sample drawn anew ({replicates} replicates, scaled)",
        (cost[0] * scale, cost[1] * scale),
        limits,
        exact,
    )


def _counts(samples: int) -> Counts:
    """Return tp, fn, tn, fp of a good detector on two classes of the same size."""
    positives = samples // 2
    tp, fp = round(positives * RECALL), round((samples - positives) * FALSE_ALARM_RATE)
    return tp, positives - tp, samples - positives - fp, fp


def _limits(counts: Counts, replicates: int | None = None) -> Interval:
    estimate = f1_bootstrap(*counts, replicates=replicates)
    return estimate.low, estimate.high


def _corrected_limits(counts: Counts) -> Interval:
    estimate = f1_bca(*counts)
    return estimate.low, estimate.high


def _resampled(counts: Counts, replicates: int) -> Interval:
    """Draw the verdicts of each class anew, as often as there are samples, and take percentiles of their F1."""
    tp, fn, tn, fp = counts
    generator = np.random.default_rng(42)
    on_hits, on_passes = np.repeat([1, 0], [tp, fn]), np.repeat([0, 1], [tn, fp])
    values = np.empty(replicates)
    for replicate in range(replicates):
        found = generator.choice(on_hits, len(on_hits)).sum()
        alarms = generator.choice(on_passes, len(on_passes)).sum()
        values[replicate] = 2 * found / (found + alarms + len(on_hits))
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def _best(work: Callable[[], Interval], rounds: int) -> tuple[tuple[float, float], Interval]:
    """Return the least CPU and wall time of several rounds, in seconds, and what the work gave."""
    costs = []
    for _ in range(rounds):
        cpu, wall = time.process_time(), time.perf_counter()
        result = work()
        costs.append((time.process_time() - cpu, time.perf_counter() - wall))
    return (min(cpu for cpu, _ in costs), min(wall for _, wall in costs)), result


def _show(samples: int, way: str, cost: tuple[float, float], limits: Interval, exact: tuple[float, float]) -> None:
    cpu, wall = (1000 * seconds for seconds in cost)
    interval = " to ".join("-" if limit is None else f"{limit:.5f}" for limit in limits)
    print(
        f"| {samples:,} | {way} | {cpu:,.1f} | {wall:,.1f} | {interval} | 1 : {cost[0] / exact[0]:,.1f} |", flush=True
    )


if __name__ == "__main__":
    main()
