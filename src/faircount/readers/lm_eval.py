"""Reads the samples files of lm-evaluation-harness (`samples_<task>_<time>.jsonl`, written with `--log_samples`).

A file has a line for each document and filter; up to 0.4.2 it is one JSON array, without the names of the filters. A
document is an entry with one attempt, on the last of its lines; each metric of each filter is a judge, and the first
metric of the first filter decides. A metric is a verdict only if it is 0 or 1 for every document, or if the user sets a
threshold: whether it is, and which line is the last one, takes a first look through the file.

Results files hold aggregates, and are not read. Nothing here loads the harness or opens the file of results beside the
samples.
"""

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct, field
from xxhash import xxh3_64_intdigest

from faircount.core.model import ToolFigure
from faircount.core.text import clip
from faircount.core.verdict import Decision, Verdict
from faircount.io.documents import DamagedDocument, JsonDocument
from faircount.io.lenient_json import BadLine, parse
from faircount.ledger.schema import Fields
from faircount.readers.attempt_rows import as_json
from faircount.readers.registry import Probe, head_of
from faircount.readers.tool_records import (
    TASK,
    ToolFile,
    ToolReader,
    ToolRecord,
    finite,
    first_keys,
    short_fields,
    text_of,
)

LM_EVAL = "lm-eval"
_OWN = frozenset({
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash",
    "target_hash",
})  # fmt: skip
"""Members of a sample that are no metric, where it does not list its metrics."""
_TASK = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.:+-]+\.jsonl?(?:\.gz|\.zst)?")
_HASH_DIGITS = 12
_LONGEST_NAME = 80
_LONGEST_REASON = 200

_Sample = Mapping[str, Any]
_Key = tuple[int, int]
"""A document, and which of its lines with the same filter: a second one is a second attempt."""


# -- samples ----------------------------------------------------------------------------------------------------


def _samples(file: ToolFile) -> Iterator[tuple[int, _Sample]]:
    """Yield the samples of a file with their lines, whether it is JSON lines or an array."""
    if not head_of(file.stream).removeprefix(BOM_UTF8).lstrip().startswith(b"["):
        for number, line in file.json_lines():
            sample = _decoded(line.removeprefix(BOM_UTF8) if number == 1 else line, file, number)
            if sample is not None:
                yield number, sample
        return
    document = JsonDocument(file.stream.chunks, file.max_line)
    for part in document.items():
        # Two samples on one line, which lm-eval never writes, are still two.
        file.lines = max(file.lines + 1, part.line)
        if part.problem:
            file.refuse(part.problem, file.lines)
            continue
        sample = _decoded(part.text, file, file.lines)
        if sample is not None:
            yield file.lines, sample
    document.end()


def _decoded(text: bytes, file: ToolFile, number: int) -> _Sample | None:
    """Return a sample, which has a document; anything else is refused."""
    try:
        sample = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            sample, problems = parse(text)
        except BadLine as bad:
            file.refuse(str(bad), number)
            return None
        if problems.not_finite:
            file.note("F012", "", number)
        for key in problems.duplicate_keys:
            file.note("F011", key, number)
    if not isinstance(sample, dict):
        file.refuse("not a JSON object", number)
    elif sample.get("doc") is None and not isinstance(sample.get("doc_hash"), str):
        file.refuse("it has no document", number)
    else:
        return sample
    return None


def _doc_hash(sample: _Sample) -> str:
    """Return lm-eval's own hash of the document, which versions up to 0.4.2 do not write."""
    given = sample.get("doc_hash")
    if isinstance(given, str) and given:
        return given
    try:
        text = json.dumps(sample["doc"], indent=2, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except RecursionError:
        text = as_json(sample["doc"])
    return sha256(text).hexdigest()


class _Keys:
    """Numbers the lines of each document: by their filter, or by their order where filters are not named."""

    def __init__(self) -> None:
        self._times = Counter[tuple[int, str | None]]()

    def add(self, sample: _Sample, doc_hash: str) -> tuple[_Key, str]:
        """Return which attempt a line belongs to, and the name of its filter."""
        document = xxh3_64_intdigest(as_json([sample.get("doc_id"), doc_hash]))
        name = sample.get("filter")
        own = clip(name, _LONGEST_NAME) if isinstance(name, str) else None
        self._times[document, own] += 1
        times = self._times[document, own]
        return ((document, 0), f"#{times}") if own is None else ((document, times), own)


def _metrics(sample: _Sample) -> dict[str, Any]:
    """Return the values of a sample by metric."""
    listed = sample.get("metrics")
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else None
    return {name: sample.get(name) for name in (names if names is not None else sample) if name not in _OWN}


# -- the first look ---------------------------------------------------------------------------------------------


class _MetricKind(Struct):
    """The values of a metric and filter: whether all are 0 or 1, and what lm-eval's mean is made of."""

    binary: bool = True
    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, value: Any) -> None:
        number = _number(value)
        if number is None:
            # A pair of numbers, a list of references: what lm-eval makes of all of them together is no mean.
            self.binary = self.binary and (value is None or isinstance(value, float))
            return
        self.binary = self.binary and number in (0.0, 1.0)
        self.n, self.total, self.squares = self.n + 1, self.total + number, self.squares + number * number

    def figures(self, metric: str, name: str) -> Iterator[ToolFigure]:
        """Yield the mean and its standard error, as lm-eval calls them."""
        if not self.n or not math.isfinite(self.squares):
            return
        mean = self.total / self.n
        count = round(self.total) if self.binary else None
        yield ToolFigure(f"{metric},{name}", mean, count, self.n, note="" if self.binary else "mean over documents")
        if self.n > 1:
            variance = max(self.squares - self.n * mean * mean, 0.0) / (self.n - 1)
            yield ToolFigure(f"{metric}_stderr,{name}", math.sqrt(variance / self.n))


class _SamplesOverview(Struct):
    """What only the whole file shows."""

    metrics: dict[tuple[str, str], _MetricKind] = field(default_factory=dict)
    """By metric and filter, in the order of the file; the first one decides."""
    lines: Counter[_Key] = field(default_factory=Counter)

    def add(self, sample: _Sample, key: _Key, name: str) -> None:
        self.lines[key] += 1
        for metric, value in _metrics(sample).items():
            self.metrics.setdefault((metric, name), _MetricKind()).add(value)

    @property
    def deciding(self) -> tuple[str, str] | None:
        """The metric and the filter that decide."""
        return next(iter(self.metrics), None)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, bool) else finite(value)


# -- prompt and answer ------------------------------------------------------------------------------------------


def _arguments(sample: _Sample) -> list[tuple[Any, Any]]:
    """Return what was given to the model: a prompt with a continuation to score, or with settings."""
    given = sample.get("arguments")
    if isinstance(given, dict):
        listed = [(one.get("arg_0"), one.get("arg_1")) for one in given.values() if isinstance(one, dict)]
    elif isinstance(given, list):
        listed = [(one[0], one[1] if len(one) > 1 else None) for one in given if isinstance(one, list) and one]
    else:
        listed = []
    return listed


def _messages(arguments: Sequence[tuple[Any, Any]], sample: _Sample) -> list[dict[str, Any]]:
    """Return the prompt; without one, the document."""
    prompt = arguments[0][0] if arguments else sample.get("doc")
    if isinstance(prompt, list) and prompt and all(isinstance(one, dict) and "role" in one for one in prompt):
        return [{"role": text_of(one["role"]), "content": text_of(one.get("content"))} for one in prompt]
    return [{"role": "user", "content": text_of(prompt)}]


def _answers(sample: _Sample, arguments: Sequence[tuple[Any, Any]]) -> list[str]:
    """Return what the model said, as often as it was asked; of choices, the one that it finds most likely."""
    resps = sample.get("resps")
    listed = resps if isinstance(resps, list) else []
    said = [text for one in listed for text in (one if isinstance(one, list) else [one]) if isinstance(text, str)]
    if said:
        return said
    likelihoods = [_likelihood(one) for one in listed]
    known = [one for one in likelihoods if one is not None]
    if len(arguments) < 2 or len(known) != len(arguments) or len(likelihoods) != len(known):
        return [text_of(resps) or ""] if listed else []
    prompt, choice = arguments[known.index(max(known))]
    same = all(one[0] == prompt for one in arguments)
    return [(text_of(choice) or "").strip() if same else f"{text_of(prompt) or ''}{text_of(choice) or ''}"]


def _likelihood(resp: Any) -> float | None:
    """Return the log-likelihood of a choice, which newer versions write as a text."""
    while isinstance(resp, list) and resp:
        resp = resp[0]
    try:
        number = float(resp) if isinstance(resp, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(number) else number


def _reason(sample: _Sample) -> str:
    """Return the answer as the filter left it: that is what metrics are about."""
    filtered = sample.get("filtered_resps")
    answer = filtered[0] if isinstance(filtered, list) and len(filtered) == 1 else filtered
    return f"filtered answer: {clip(answer, _LONGEST_REASON)}" if isinstance(answer, str) else ""


# -- records ----------------------------------------------------------------------------------------------------


class LmEvalReader(ToolReader):
    """Reads samples files of lm-evaluation-harness."""

    name = tool = LM_EVAL
    noun = "sample of lm-eval"
    aim = TASK
    of_models = True
    fields = Fields(
        first=("task",), facets=("task", "repeats", "judge_name"), case=("task",), others_on_request=True
    )  # fmt: skip

    def sniff(self, probe: Probe) -> bool:
        """Return whether the first object is a document with what the model said."""
        head = probe.head.removeprefix(BOM_UTF8)
        keys = first_keys(head)
        # A long document hides what follows it.
        return keys >= {"doc_id", "doc"} and (bool(keys & {"target", "arguments", "resps"}) or b"\n" not in head)

    def records(self, file: ToolFile) -> Iterator[ToolRecord]:
        """Yield an attempt for each document, on the last of its lines."""
        with file.read_twice() as first:
            overview = _look_through(first)
            try:
                yield from self._records_of(file, overview)
            finally:
                _tell_figures(file, overview)

    def _records_of(self, file: ToolFile, overview: _SamplesOverview) -> Iterator[ToolRecord]:
        named = _TASK.fullmatch(file.name.replace("\\", "/").rpartition("/")[2])
        task = None if named is None else clip(named[1], _LONGEST_NAME)
        keys, verdicts, asked = _Keys(), dict[_Key, list[Verdict]](), overview.deciding
        judge = None if asked is None else ",".join(asked)
        threshold = file.read_as.threshold
        for number, sample in _samples(file):
            doc_hash = _doc_hash(sample)
            key, name = keys.add(sample, doc_hash)
            given = _verdicts(sample, name, overview, threshold)
            for (metric, _), verdict in given.items():
                if verdict.success is None and verdict.score is not None and verdict.judge == judge:
                    file.note("F052", f"{metric} is not 0 or 1 for each document", number)
            verdicts.setdefault(key, []).extend(given.values())
            overview.lines[key] -= 1
            if overview.lines[key] > 0:
                continue
            every = verdicts.pop(key)
            arguments = _arguments(sample)
            answers = _answers(sample, arguments)
            yield ToolRecord(
                line=number,
                entry=f"{task or 'doc'}:{doc_hash[:_HASH_DIGITS]}",
                messages=_messages(arguments, sample),
                response="\n\n".join(answers),
                success=next((one.success for one in every if one.judge == judge), None),
                verdicts=tuple(every),
                judge=judge,
                thresholds={} if threshold is None else {one.judge: threshold for one in every},
                fields={
                    "task": task,
                    "repeats": len(answers) if len(answers) > 1 else None,
                    **short_fields({"expected": sample.get("target")}, ""),
                    **short_fields(sample.get("doc"), "doc."),
                },
            )


def _look_through(file: ToolFile) -> _SamplesOverview:
    overview, keys = _SamplesOverview(), _Keys()
    try:
        for _, sample in _samples(file):
            overview.add(sample, *keys.add(sample, _doc_hash(sample)))
    except DamagedDocument:
        pass  # noted when the samples are read
    return overview


def _verdicts(
    sample: _Sample, name: str, overview: _SamplesOverview, threshold: float | None
) -> dict[tuple[str, str], Verdict]:
    """Return what each metric says of a sample; one that is not 0 or 1 everywhere decides nothing by itself."""
    found, reason = {}, _reason(sample)
    for metric, value in _metrics(sample).items():
        number, known = _number(value), overview.metrics.get((metric, name), _MetricKind())
        decided = None
        if number is not None and (threshold is not None or known.binary):
            decided = number >= (0.5 if threshold is None else threshold)
        found[metric, name] = Verdict(Decision.of(decided), number, reason, judge=f"{metric},{name}")
    return found


def _tell_figures(file: ToolFile, overview: _SamplesOverview) -> None:
    for (metric, name), values in overview.metrics.items():
        file.figures += values.figures(metric, name)
        if values.binary and values.n > 1 and values.total in (0, values.n):
            what = "none" if values.total == 0 else "all"
            file.differs.append(
                f"lm-eval reports {values.total / values.n:.0%} with a standard error of 0 for {metric},{name}, because"
                f" {what} of {values.n} documents are right; the interval here is never empty."
            )
