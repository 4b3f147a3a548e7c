"""inspect_ai's own figures, made again from the scores of a log by inspect's rules.

inspect turns scores into numbers (C is 1, P one half, I and N 0), reduces the epochs of a sample to one number, and
takes its metrics over the samples that have a score: errors and unscored samples are not in them. Here these numbers
are only computed; which of them a log states is in its header. Metrics with chance in them, and those of others'
code, are given as the log states them.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from faircount.core.model import ToolFigure
from faircount.stats.distributions import student_critical_value
from faircount.stats.proportion import critical_value, score_limits

_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_TRUTH = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_COUNTING = re.compile(r"(pass_at|at_least|pass_k)_(\d{1,6})")
_LEVEL = 0.95
_CLOSE = 1e-6
_MOST_MADE = 2_000
"""So many figures are made again; no log but a hostile one states more."""
_STATED = "as the file states it"


class Unreadable(Exception):
    """A score that is no number, and no word that inspect takes for one."""


def number_of(value: object) -> float | None:
    """Return a score as inspect's number; None where there is none, which is how inspect marks an unscored sample."""
    if value is None:
        return None
    if isinstance(value, str):
        if value in _WORDS or value.lower() in _TRUTH:
            return _WORDS[value] if value in _WORDS else _TRUTH[value.lower()]
        try:
            number = float(value)
        except ValueError:
            raise Unreadable from None
        if not math.isfinite(number):
            raise Unreadable
        return number
    if not isinstance(value, int | float):
        raise Unreadable
    try:
        return _finite(float(value))
    except OverflowError:
        raise Unreadable from None


def _finite(number: float) -> float | None:
    if math.isinf(number):
        raise Unreadable
    return None if math.isnan(number) else number


class StatedScore(Struct, frozen=True):
    """What the header of a log says of a scorer and reducer: its metrics with their parameters.

    `judges` is what the judge may be called in samples, the most likely name first.
    """

    judges: tuple[str, ...]
    reducer: str | None
    metrics: Mapping[str, Mapping[str, Any]]


class InspectScores(Struct):
    """The scores of a log: the number of each epoch by judge and sample, and what metrics need of the metadata."""

    epochs_apart: bool = False
    """Whether epochs count as if they were samples of their own, as up to version 1 of the format."""
    by_judge: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    reduced: dict[tuple[str, str | None], dict[str, float]] = field(default_factory=dict)
    """Numbers that were reduced already, by judge and reducer: all that a log without samples has."""
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    """Values of the metadata by field and sample."""

    def add(self, judge: str, sample: str, value: object) -> None:
        """Count the score of an epoch as inspect does: one that cannot be read as 0, one that is missing not at all."""
        try:
            number = number_of(value)
        except Unreadable:
            number = 0.0
        if number is not None:
            self.by_judge.setdefault(judge, {}).setdefault(sample, []).append(number)

    def known(self, names: Sequence[str]) -> str | None:
        """Return the first of some names that is a judge with scores."""
        judges = {*self.by_judge, *(judge for judge, _ in self.reduced)}
        return next((name for name in names if name in judges), None)

    def of(self, judge: str, reducer: str | None) -> list[tuple[str, float]] | None:
        """Return the number of each sample that has one; None for a reducer that is not known here."""
        if (judge, reducer) in self.reduced:
            return list(self.reduced[judge, reducer].items())
        samples = self.by_judge.get(judge, {})
        if self.epochs_apart:
            return [(sample, number) for sample, numbers in samples.items() for number in numbers]
        if reducer is not None and reducer not in _REDUCERS and _COUNTING.fullmatch(reducer) is None:
            return None
        found = ((sample, _reduced(reducer or "mean", numbers)) for sample, numbers in samples.items())
        return [(sample, number) for sample, number in found if number is not None]


def _reduced(reducer: str, numbers: Sequence[float]) -> float | None:
    """Reduce the epochs of a sample; None where they are too few."""
    counting = _COUNTING.fullmatch(reducer)
    if counting is not None:
        # inspect compares with 1 exactly: on a scale from 1 to 5 everything passes, below 1 nothing does.
        return _of_passes(counting[1], int(counting[2]), len(numbers), sum(number >= 1 for number in numbers))
    return _REDUCERS[reducer](numbers)


_REDUCERS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "max": max,
    "mode": lambda numbers: Counter(numbers).most_common(1)[0][0],
}


def _of_passes(name: str, k: int, n: int, passed: int) -> float | None:
    if name == "at_least":
        return float(passed >= k)
    if k > n or k < 1:
        return None
    if name == "pass_at":
        return 1 - math.comb(n - passed, k) / math.comb(n, k)
    return math.comb(passed, k) / math.comb(n, k)


# -- metrics ----------------------------------------------------------------------------------------------------


def figures_of(stated: Iterable[StatedScore], scores: InspectScores) -> list[ToolFigure]:
    """Return the figures that a log states, each made again from its scores where that can be done."""
    found: list[ToolFigure] = []
    for one in stated:
        judge = scores.known(one.judges)
        numbers = scores.of(judge, one.reducer) if judge is not None and len(found) < _MOST_MADE else None
        name = judge or next(iter(one.judges), "")
        found += [_figure(name, one.reducer, key, metric, numbers, scores) for key, metric in one.metrics.items()]
    return found


def differing(figures: Iterable[ToolFigure]) -> list[ToolFigure]:
    """Return the figures that are not what the log states."""
    return [
        one
        for one in figures
        if one.stated is not None
        and (one.value is None or abs(one.value - one.stated) > _CLOSE * max(1.0, abs(one.stated)))
    ]


def _figure(
    judge: str,
    reducer: str | None,
    key: str,
    metric: Mapping[str, Any],
    numbers: list[tuple[str, float]] | None,
    scores: InspectScores,
) -> ToolFigure:
    name = f"{judge} {key}" + (f" ({reducer})" if reducer else "")
    value = metric.get("value")
    stated = float(value) if isinstance(value, int | float) and -1e300 < value < 1e300 else None
    kind = str(metric.get("name") or key).rpartition("/")[2]
    try:
        made = None if numbers is None else _metric(kind, metric, numbers, scores)
    except OverflowError:  # numbers that no metric is made for
        made = None
    if made is None or numbers is None:
        return ToolFigure(name, stated, stated=stated, note=_STATED)
    if kind not in ("accuracy", "mean"):
        return ToolFigure(name, made if numbers else None, n=len(numbers), stated=stated)
    shares = all(number in (0, 1) for _, number in numbers)
    count = round(sum(number for _, number in numbers)) if shares and numbers else None
    return ToolFigure(name, made if numbers else None, count=count, n=len(numbers), stated=stated)


def _metric(
    kind: str, metric: Mapping[str, Any], scored: list[tuple[str, float]], scores: InspectScores
) -> float | None:
    """Return a metric over samples with their numbers; None where it cannot be made again."""
    numbers = [number for _, number in scored]
    given = metric.get("params") or metric.get("options")
    params = given if isinstance(given, dict) else {}
    if metric.get("group") == "grouped":
        return _of_group(kind, params, scored, scores)
    if kind in ("lower", "upper"):
        limits = _limits(str(metric.get("group")), params, numbers)
        return None if limits is None else limits[kind == "upper"]
    if kind == "stderr" and params.get("cluster") is not None:
        return _clustered(scored, scores.metadata.get(str(params["cluster"]), {}))
    plain = _METRICS.get(kind)
    return None if plain is None else plain(numbers)


def _mean(numbers: Sequence[float]) -> float:
    return statistics.fmean(numbers) if numbers else 0.0


def _variance(numbers: Sequence[float]) -> float:
    mean = _mean(numbers)
    return math.fsum((number - mean) ** 2 for number in numbers) / (len(numbers) - 1) if len(numbers) > 1 else 0.0


def _std(numbers: Sequence[float]) -> float:
    return math.sqrt(_variance(numbers))


def _stderr(numbers: Sequence[float]) -> float:
    return _std(numbers) / math.sqrt(len(numbers)) if numbers else 0.0


_METRICS: dict[str, Callable[[Sequence[float]], float]] = {
    "accuracy": _mean,
    "mean": _mean,
    "std": _std,
    "var": _variance,
    "stderr": _stderr,
}


def _clustered(scored: Sequence[tuple[str, float]], cluster_of: Mapping[str, str]) -> float | None:
    """Return the standard error that takes samples of one cluster as dependent (Miller 2024, arXiv:2411.00640)."""
    mean = _mean([number for _, number in scored])
    sums: dict[str | None, float] = {}
    for sample, number in scored:
        cluster = cluster_of.get(sample)
        sums[cluster] = sums.get(cluster, 0.0) + number - mean
    if len(sums) < 2:
        return 0.0
    correction = len(sums) / (len(sums) - 1)
    return math.sqrt(correction * math.fsum(one * one for one in sums.values())) / len(scored)


def _limits(group: str, params: Mapping[str, Any], numbers: Sequence[float]) -> tuple[float, float] | None:
    level = params.get("level", _LEVEL)
    if not numbers or not isinstance(level, float) or not 0 < level < 1:
        return None
    mean = _mean(numbers)
    if group == "ci_wilson" and 0 <= mean <= 1:
        return score_limits(mean, len(numbers), critical_value(level))
    if group != "ci" or len(numbers) < 2:
        return None
    half = student_critical_value(level, len(numbers) - 1) * _stderr(numbers)
    return mean - half, mean + half


def _of_group(
    name: str, params: Mapping[str, Any], scored: Sequence[tuple[str, float]], scores: InspectScores
) -> float | None:
    inner = params.get("metric")
    kind = str(inner.get("name")).rpartition("/")[2] if isinstance(inner, dict) else ""
    group_of = scores.metadata.get(str(params.get("group_key")))
    plain = _METRICS.get(kind)
    if plain is None or group_of is None:
        return None
    if name == "all":
        return plain([number for _, number in scored]) if params.get("all", "samples") == "samples" else None
    chosen = [number for sample, number in scored if group_of.get(sample) == name]
    return plain(chosen) if chosen else None
