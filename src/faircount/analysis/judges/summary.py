"""The summary of judges in the structure of garak's `detector_metrics_summary.json`: made, read and merged.

Our own figures stand beside garak's, under other names; what somebody else put into a summary stays as it is. Nothing
is written here: see `faircount.app.judges`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from faircount.analysis.judges.quality import (
    LEAST_SAMPLES,
    Confusion,
    EvaluatedLabels,
    Evaluation,
    JudgeQuality,
    JudgeTrouble,
    ScoreQuality,
)
from faircount.core.errors import InputError
from faircount.core.model import Estimate
from faircount.core.string_judges import is_garak_string_detector
from faircount.core.text import clip, visible
from faircount.core.verdict import Identity
from faircount.stats import counts_from_shares
from faircount.version import __version__

KIND = "judge-evaluation"
SCHEMA = 1
SHARES = (
    "accuracy",
    "hit_precision",
    "hit_recall",
    "hit_f1",
    "hit_sensitivity",
    "hit_specificity",
    "pass_precision",
    "pass_recall",
    "pass_f1",
)
"""garak's metrics, in its order."""
INTERVALS = ("hit_f1_ci", "pass_f1_ci")
_INTERVAL_KEYS = ("mean", "ci_lower", "ci_upper", "ci_width", "n_samples")
_CELLS = ("tp", "fn", "tn", "fp")
_ESTIMATES = ("accuracy", "balanced_accuracy", "hit_f1", "hit_precision", "hit_recall", "pass_f1", "pass_precision")
_GARAK = "garak:"
"""What stands before the names of garak's detectors everywhere but in a summary."""
_LONGEST_NAME = 80
_LARGEST_LINE = 1 << 20
_PYRIT_KEYS = frozenset(["class_name", "hash", "metrics"])
_LARGEST_FILE = 256 * 1024 * 1024


class Metadata(Struct, frozen=True):
    """What is said of an evaluation as a whole."""

    evaluation_date: str
    random_seed: int
    balance_datasets: bool = False
    save_datasets: bool = False
    errors: tuple[JudgeTrouble, ...] = ()
    labels: tuple[EvaluatedLabels, ...] = ()


class JudgeRecord(Struct, frozen=True):
    """A judge as a summary tells of it. `metrics` is None where it was not evaluated; `counts` where it has none."""

    called: str
    metrics: Mapping[str, Any] | None
    counts: Confusion | None = None
    string_matcher: bool = False
    labels: frozenset[str] = frozenset()
    """The digests of the label files, where they are known."""
    items: int | None = None
    """How many labelled items there were, where that is said without counts."""

    @property
    def n(self) -> int | None:
        """Labelled items that were decided: counted, or as garak and PyRIT say; None where they do not."""
        if self.counts is not None:
            return self.counts.n
        if self.items is not None:
            return self.items
        intervals = [(self.metrics or {}).get(name) or {} for name in INTERVALS]
        return next((interval["n_samples"] for interval in intervals if interval.get("n_samples")), None)


class Summary(Struct, frozen=True):
    """A summary that was read: its judges in their order, and the document as it is."""

    path: str
    judges: tuple[JudgeRecord, ...]
    document: Mapping[str, Any] = field(default_factory=dict)


# -- making -----------------------------------------------------------------------------------------------------


def evaluation_document(evaluation: Evaluation) -> dict[str, Any]:
    """Return the summary of an evaluation."""
    options = evaluation.options
    metadata = Metadata(
        evaluation.evaluated_at,
        options.seed,
        options.balance,
        options.save_datasets,
        evaluation.errors,
        evaluation.labels,
    )
    return as_document(evaluation.qualities, metadata)


def as_document(qualities: Sequence[JudgeQuality], metadata: Metadata) -> dict[str, Any]:
    """Return qualities in garak's structure, with our own figures beside; what is undefined is null."""
    results = {_key(quality): _result(quality, metadata) for quality in qualities}
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "version": __version__,
        "results": results,
        "metadata": {
            "evaluation_date": metadata.evaluation_date,
            "random_seed": metadata.random_seed,
            "balance_datasets": metadata.balance_datasets,
            "save_datasets": metadata.save_datasets,
            "num_detectors_evaluated": len(results),
            "errors": [asdict(trouble) for trouble in metadata.errors],
        },
    }


def _key(quality: JudgeQuality) -> str:
    """Return the key of a judge: garak looks up its detectors by module and class, and so with their defaults."""
    identity = quality.identity
    if identity.name.startswith(_GARAK) and not identity.parameters:
        return identity.name.removeprefix(_GARAK)
    return quality.called


def _result(quality: JudgeQuality, metadata: Metadata) -> dict[str, Any]:
    # The figures that garak has, under its names; intervals of F1 from 50 samples on.
    metrics: dict[str, Any] = {name: getattr(quality, name).value for name in SHARES}
    if quality.counts.n >= LEAST_SAMPLES:
        metrics["hit_f1_ci"] = _interval(quality.hit_f1, quality.hit_f1_mean)
        metrics["pass_f1_ci"] = _interval(quality.pass_f1, quality.pass_f1_mean)
    return {
        "metrics": metrics,
        "counts": asdict(quality.counts),
        "mcc": quality.mcc,
        "balanced_accuracy": quality.balanced_accuracy.value,
        "tier": {**asdict(quality.tier), "reaches": list(quality.tier.reaches)},
        "intervals": {name: asdict(getattr(quality, name)) for name in (*_ESTIMATES, "pass_recall")},
        "threshold": quality.threshold,
        "scores": None if quality.scores is None else _scores(quality.scores),
        "identity": identity_data(quality.identity),
        "string_matcher": quality.string_matcher,
        "labels": [asdict(source) for source in metadata.labels],
        "evaluated_at": metadata.evaluation_date,
        "random_seed": metadata.random_seed,
        "balanced": metadata.balance_datasets,
        "notes": list(quality.notes),
    }


def _interval(f1: Estimate, mean: float | None) -> dict[str, Any] | None:
    if f1.low is None or f1.high is None:
        return None
    return {
        "mean": mean,
        "ci_lower": f1.low,
        "ci_upper": f1.high,
        "ci_width": f1.high - f1.low,
        "n_samples": f1.n,
    }


def identity_data(identity: Identity) -> dict[str, Any]:
    """Return who a judge is as plain data; a prompt can be long, and stands here as its digest."""
    prompt = identity.prompt
    return {
        "name": identity.name,
        "version": identity.version,
        "parameters": dict(identity.parameters),
        "prompt_sha256": None if prompt is None else hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest(),
        "digest": identity.digest,
    }


def _scores(scores: ScoreQuality) -> dict[str, Any]:
    best, point = scores.best, scores.operating_point
    operating = None
    if point is not None:
        operating = {
            "wanted_false_positive_rate": point.wanted,
            "level": point.level,
            "threshold": point.threshold,
            "false_positive_rate": asdict(point.false_positive_rate),
            "recall": asdict(point.recall),
            "passes_needed": point.samples_needed,
        }
    return {
        "n": scores.n,
        "unscored": scores.unscored,
        "roc_auc": asdict(scores.roc_auc),
        "average_precision": scores.average_precision,
        "best_threshold": None
        if best is None
        else {**asdict(best), "thresholds_as_good": scores.best_count, "note": "tuned on this data"},
        "in_use": None if scores.in_use is None else asdict(scores.in_use),
        "operating_point": operating,
        "thresholds": scores.thresholds,
        "sweep": [asdict(step) for step in scores.sweep],
        "roc": [list(point) for point in scores.roc],
        "precision_recall": [list(point) for point in scores.precision_recall],
    }


# -- reading ----------------------------------------------------------------------------------------------------


def read_summary(path: str) -> Summary:
    """Read a summary, Faircount's or garak's; one that is damaged is refused with what is wrong."""
    try:
        if Path(path).stat().st_size > _LARGEST_FILE:
            raise InputError(f"{path}: is too large for a summary of judges")
        content = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; `faircount judges evaluate` writes one") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        document = json.loads(
            content.decode("utf-8-sig"), object_pairs_hook=_once, parse_constant=_finite, parse_float=_finite
        )
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 (byte {error.start}); a summary of judges is JSON") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: incomplete JSON: {error.msg}") from error
    except RecursionError as error:
        raise InputError(f"{path}: is nested too deeply for a summary of judges") from error
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
    return summary_of(document, path)


def read_judges(path: str) -> Summary:
    """Read what is known of judges: a summary, Faircount's or garak's, or PyRIT's metrics of its scorers."""
    try:
        with Path(path).open("rb") as file:
            first = msgspec.json.decode(file.readline(_LARGEST_LINE))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return read_summary(path)
    if not isinstance(first, dict) or not first.keys() >= _PYRIT_KEYS:
        return read_summary(path)
    if Path(path).stat().st_size > _LARGEST_FILE:
        raise InputError(f"{path}: is too large for metrics of judges")
    records = list(_pyrit_records(path))
    if not records:
        raise InputError(f"{path}: has no metrics of a scorer that decides true or false")
    return Summary(path, tuple(records))


def _pyrit_records(path: str) -> Iterator[JudgeRecord]:
    """Yield PyRIT's scorers that decide true or false; of others there is only the error of a scale."""
    known: Counter[str] = Counter()
    for number, line in enumerate(Path(path).read_bytes().splitlines(), start=1):
        try:
            scorer = msgspec.json.decode(line, type=_PyritScorer) if line.strip() else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"{path}:{number}: not a line of PyRIT's metrics: {_shown(error)}") from error
        found = None if scorer is None else scorer.metrics
        if scorer is None or found is None or found.accuracy is None or found.precision is None or found.recall is None:
            continue
        called = " ".join([scorer.class_name, *_models_in(scorer.children)][:2])
        known[called] += 1
        called = called if known[called] == 1 else f"{called} #{known[called]}"
        counts = counts_from_shares(found.num_responses, found.accuracy, found.precision, found.recall)
        metrics: dict[str, float | None] = {"accuracy": found.accuracy, "hit_precision": found.precision}
        metrics |= {"hit_recall": found.recall, "hit_f1": found.f1_score, "hit_sensitivity": found.recall}
        _check_metrics(metrics, f"{path}:{number}")
        known_counts = None if counts is None else Confusion(*counts)
        yield JudgeRecord(called, metrics, known_counts, items=found.num_responses)


def _models_in(children: Any) -> Iterator[str]:
    """Yield the models that a scorer asks, itself or through others."""
    if isinstance(children, list):
        for child in children:
            yield from _models_in(child)
    elif isinstance(children, dict):
        model = children.get("model_name")
        if isinstance(model, str) and model:
            yield model
        yield from _models_in([one for one in children.values() if isinstance(one, dict | list)])


class _PyritMetrics(Struct, frozen=True):
    num_responses: int
    accuracy: float | None = None
    precision: float | None = None
    recall: float | None = None
    f1_score: float | None = None


class _PyritScorer(Struct, frozen=True):
    class_name: str
    metrics: _PyritMetrics | None = None
    children: Mapping[str, Any] = {}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {_shown(twice)} appears twice in one object, so it is ambiguous")
    return found


def _finite(text: str) -> float:
    if text in ("NaN", "Infinity", "-Infinity"):
        raise ValueError(f"{text} is not JSON; write null for undefined values")
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {_shown(text)} is too large")
    return number


def _shown(name: object) -> str:
    return clip(visible(str(name)), _LONGEST_NAME)


def summary_of(document: object, path: str) -> Summary:
    """Return a document as a summary; `path` is what errors call it."""
    if not isinstance(document, dict) or "results" not in document:
        raise InputError(f"{path}: not a summary of judges: there is no object with `results`")
    if document.get("kind", KIND) != KIND:
        raise InputError(f"{path}: is of the kind {_shown(document['kind'])}, not a summary of judges")
    schema = document.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise InputError(f"{path}: has schema {_shown(schema)}; this version of Faircount reads schema {SCHEMA}")
    results, metadata = document["results"], document.get("metadata", {})
    if not isinstance(results, dict):
        raise InputError(f"{path}: `results` is not an object of judges by name")
    if not isinstance(metadata, dict):
        raise InputError(f"{path}: `metadata` is not an object")
    judges = tuple(_record(called, result, f"{path}: {_shown(called)}") for called, result in results.items())
    return Summary(path, judges, document)


def _record(called: str, result: object, where: str) -> JudgeRecord:
    if result is None:
        return JudgeRecord(called, None)
    if not isinstance(result, dict):
        raise InputError(f"{where}: not an object with `metrics`")
    metrics = result.get("metrics")
    if metrics is not None and not isinstance(metrics, dict):
        raise InputError(f"{where}: `metrics` is not an object")
    if metrics:
        _check_metrics(metrics, where)
    for name, lowest in (("mcc", -1.0), ("balanced_accuracy", 0.0)):
        _check_number(result.get(name), f"{where}: {name}", lowest)
    matcher = result.get("string_matcher")
    digests = [source.get("sha256") for source in _listed(result.get("labels")) if isinstance(source, dict)]
    return JudgeRecord(
        called,
        {**metrics, **{name: result[name] for name in ("mcc", "balanced_accuracy") if name in result}}
        if metrics
        else None,
        _counts(result.get("counts"), where),
        matcher if isinstance(matcher, bool) else is_garak_string_detector(called),
        frozenset(digest for digest in digests if isinstance(digest, str)),
    )


def _listed(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else ()


def _check_metrics(metrics: Mapping[str, Any], where: str) -> None:
    for name in SHARES:
        _check_number(metrics.get(name), f"{where}: {name}", 0.0)
    for name in INTERVALS:
        interval = metrics.get(name)
        if interval is None:
            continue
        if not isinstance(interval, dict):
            raise InputError(f"{where}: {name} is not an object with ci_lower and ci_upper")
        for key in _INTERVAL_KEYS[:4]:
            _check_number(interval.get(key), f"{where}: {name}: {key}", 0.0)
        n = interval.get("n_samples")
        if n is not None and not _is_count(n):
            raise InputError(f"{where}: {name}: n_samples is not a number of samples")


def _check_number(value: object, where: str, lowest: float) -> None:
    """Refuse what is neither a number from `lowest` to 1 nor null."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not lowest - 1e-9 <= value <= 1 + 1e-9:
        raise InputError(f"{where} is neither a number from {lowest:g} to 1 nor null: {_shown(json.dumps(value))}")


def _counts(value: object, where: str) -> Confusion | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not all(_is_count(value.get(name)) for name in _CELLS):
        raise InputError(f"{where}: `counts` needs whole numbers for tp, fn, tn and fp")
    errors = value.get("errors", 0)
    return Confusion(value["tp"], value["fn"], value["tn"], value["fp"], errors if _is_count(errors) else 0)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# -- merging ----------------------------------------------------------------------------------------------------


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return an old summary with the judges of a new one: those replaced or added, all others as they were.

    Errors about the judges of the new one are dropped, others stay. Whatever else either holds is kept, the new first.
    Only the metadata say when garak's own entries were measured, and on which data: they stay while there are any.
    """
    results = {**old.get("results", {}), **new["results"]}
    metadata = {**old.get("metadata", {}), **new["metadata"]}
    if any(not isinstance(result, dict) or "evaluated_at" not in result for result in results.values()):
        metadata |= old.get("metadata", {})
    metadata["num_detectors_evaluated"] = len(results)
    fresh = list(_listed(new["metadata"].get("errors")))
    names = new["results"].keys() | {error.get("judge") for error in fresh if isinstance(error, dict)}
    about = names | {f"{_GARAK}{name}" for name in names}
    kept = [
        error
        for error in _listed(old.get("metadata", {}).get("errors"))
        if not (isinstance(error, dict) and isinstance(error.get("judge"), str) and error["judge"] in about)
    ]
    metadata["errors"] = [error for error in kept if error not in fresh] + fresh
    return {**old, **new, "results": results, "metadata": metadata}
