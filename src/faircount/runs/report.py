"""The report of a run of tests, which is written beside its journal.

The report has the structure that REBEL documents. Every attempt is there, also those whose request failed; every result
says which metric and attempt it belongs to. What REBEL does not have stands under names of its own beside it.

Nothing is written here: whoever has a file takes the pieces.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from faircount.core.findings import counted
from faircount.core.model import Estimate
from faircount.core.verdict import Verdict
from faircount.readers.aggregation import aggregated, all_passed
from faircount.readers.journals import AttemptRecord, CaseRecord, RunRecord, State, UsageRecord
from faircount.readers.run_rows import WORDS, suite_of
from faircount.runs.journal import JournalReader
from faircount.stats import Design, wilson
from faircount.version import __version__

SCHEMA = 1
Layout = Literal["per-case", "per-metric"]

_NOTHING = {"role": None, "content": None, "tool_calls": None, "tool_call_id": None}
_HEAD_BYTES = 4096


class Totals(Struct):
    """What is counted over all cases of a run."""

    cases: int = 0
    renamed: int = 0
    metrics: int = 0
    passed: int = 0
    failed: int = 0
    undecided: int = 0
    unfinished: int = 0
    attempts: int = 0
    errors: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    suites: dict[str, list[int]] = field(default_factory=dict)
    """Passed and decided cases by suite: those of one suite are variants."""


class CaseReport:
    """A case with its attempts as a report tells of them.

    `results` are what each metric said of each attempt: attempt by attempt, metrics in their order.
    """

    def __init__(self, case: CaseRecord, attempts: tuple[AttemptRecord, ...], planned: int) -> None:
        self.case = case
        self.attempts = attempts
        self.planned = planned
        self.results = [(attempt, verdict) for attempt in attempts for verdict in _verdicts(attempt, self.metrics)]

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics, in their order."""
        return [metric.name for metric in self.case.metrics]

    @property
    def strategy(self) -> str:
        """How the results are made into one."""
        return self.case.retry_params.aggregation_strategy

    def results_of(self, metric: str) -> list[tuple[AttemptRecord, Verdict]]:
        """Return what one metric said, attempt by attempt."""
        return [(attempt, verdict) for attempt, verdict in self.results if verdict.judge == metric]

    def aggregate(self) -> Verdict:
        """Return all verdicts made into one."""
        verdicts = [verdict for _, verdict in self.results]
        return aggregated(self.strategy, verdicts, per_attempt=max(len(self.metrics), 1))

    def aggregate_of(self, metric: str) -> Verdict:
        """Return the verdicts of one metric made into one."""
        return aggregated(self.strategy, [verdict for _, verdict in self.results_of(metric)])

    def pass_rate(self, metric: str | None = None) -> Estimate:
        """Estimate the share of the decided attempts that passed, by all metrics or by one."""
        passed = [
            all_passed(one.decision for one in attempt.verdicts if metric in (None, one.metric))
            for attempt in self.attempts
        ]
        return wilson(passed.count(True), len(passed) - passed.count(None), unit="attempt")


def case_reports(reader: JournalReader, state: State) -> Iterator[CaseReport]:
    """Yield the cases of a run in their order, each with the attempts that count."""
    waiting: deque[int] = deque()
    # Cases and attempts stand in different places, each nearly in order: with two readers, neither jumps far.
    records = reader.records_at(iter(waiting.popleft, None), AttemptRecord)
    for name, case in zip(state.cases, reader.records_at(state.cases.values(), CaseRecord), strict=True):
        planned = case.retry_params.count
        found = [state.offset_of(name, attempt) for attempt in range(planned)]
        waiting.extend(offset for offset in found if offset is not None)
        yield CaseReport(case, tuple(itertools.islice(records, len(waiting))), planned)


def totals_of(reports: Iterator[CaseReport]) -> Totals:
    """Count over all cases."""
    totals = Totals()
    for report in reports:
        _add(totals, report)
    return totals


def _add(totals: Totals, report: CaseReport) -> None:
    totals.cases += 1
    totals.renamed += bool(report.case.declared_name)
    totals.metrics += len(report.metrics)
    if len(report.attempts) < report.planned:
        totals.unfinished += 1
    passed = report.aggregate().success
    totals.passed += passed is True
    totals.undecided += passed is None
    totals.failed += passed is False
    if passed is not None:
        suite = totals.suites.setdefault(suite_of(report.case.case), [0, 0])
        suite[0] += passed
        suite[1] += 1
    for attempt in report.attempts:
        totals.attempts += 1
        totals.errors += attempt.error is not None
        totals.retries += max(0, (attempt.tries or 0) - 1)
        usage = attempt.usage or UsageRecord()
        totals.prompt_tokens += usage.prompt_tokens or 0
        totals.completion_tokens += usage.completion_tokens or 0
        if usage.cost is not None:
            totals.cost = (totals.cost or 0.0) + usage.cost


def report_pieces(reader: JournalReader, timestamp: str, layout: Layout = "per-case") -> Iterator[bytes]:
    """Yield the report of a run as pieces of one JSON document; no more than one case is held at a time."""
    state = reader.state()
    totals = totals_of(case_reports(reader, state))
    count = totals.cases if layout == "per-case" else totals.metrics
    metadata = _metadata(reader.header, state, totals, timestamp, count)
    yield b'{\n  "metadata": ' + _indented(metadata, 2) + b',\n  "test_cases": ['
    separator = b"\n    "
    for report in case_reports(reader, state):
        entries = [_case_entry(report)] if layout == "per-case" else [_metric_entry(report, m) for m in report.metrics]
        for entry in entries:
            yield separator + _indented(entry, 4)
            separator = b",\n    "
    yield b"\n  ]\n}\n"


def is_report_of(path: str, header: RunRecord) -> bool:
    """Return whether a file is the report of the run with this header."""
    try:
        with Path(path).open("rb") as file:
            beginning = file.read(_HEAD_BYTES)
    except OSError:
        return False
    return f'"run": {json.dumps(header.run)}'.encode() in beginning


def _indented(value: Any, by: int) -> bytes:
    """Return a value as JSON in ASCII; the standard encoder is quick only where it need not indent."""
    try:
        text = msgspec.json.format(json.dumps(value, allow_nan=False).encode(), indent=2)
    except msgspec.DecodeError:  # a lone surrogate
        text = json.dumps(value, indent=2, allow_nan=False).encode()
    return text.replace(b"\n", b"\n" + b" " * by)


def _case_entry(report: CaseReport) -> dict[str, Any]:
    return {
        **_common(report),
        "evaluation_results": _results(report.results),
        "aggregated_result": _verdict_fields(report.aggregate()),
        "aggregated_by_metric": {
            metric: {
                **_verdict_fields(report.aggregate_of(metric)),
                "pass_rate": msgspec.to_builtins(report.pass_rate(metric)),
            }
            for metric in report.metrics
        },
        "pass_rate": msgspec.to_builtins(report.pass_rate()),
    }


def _metric_entry(report: CaseReport, metric: str) -> dict[str, Any]:
    return {
        **_common(report),
        "metric": metric,
        "evaluation_results": _results(report.results_of(metric)),
        "aggregated_result": _verdict_fields(report.aggregate_of(metric)),
        "pass_rate": msgspec.to_builtins(report.pass_rate(metric)),
    }


def _metadata(header: RunRecord, state: State, totals: Totals, timestamp: str, entries: int) -> dict[str, Any]:
    passed, decided = zip(*totals.suites.values(), strict=True) if totals.suites else ((), ())
    rate = Design(families=True).rate(passed, decided, unit="case")
    return {
        "timestamp": timestamp,
        "total_test_cases": entries,
        "tool": "faircount",
        "version": __version__,
        "schema": SCHEMA,
        "run": header.run,
        "started": header.started,
        "complete": state.complete,
        "settings": header.settings or {},
        "cases": {name: getattr(totals, name) for name in ("passed", "failed", "undecided", "unfinished")},
        "pass_rate": msgspec.to_builtins(rate.estimate),
        "attempts": totals.attempts,
        "errors": totals.errors,
        "transport_retries": totals.retries,
        "repeated_calls": state.repeated,
        "usage": {name: getattr(totals, name) for name in ("prompt_tokens", "completion_tokens", "cost")},
        "notes": [renaming(totals.renamed)] if totals.renamed else [],
    }


def renaming(cases: int) -> str:
    """Return the note on how the names of so many cases were made unique."""
    return (
        f"{counted(cases, 'case had', 'cases had')} the same name as a case of an earlier TestGroup of the same test; "
        "a number makes their names unique, #2 for the second group and so on"
    )


def _common(report: CaseReport) -> dict[str, Any]:
    case = report.case
    return {
        "name": case.case,
        **({"declared_name": case.declared_name} if case.declared_name else {}),
        "tags": case.tags,
        "retry_params": msgspec.to_builtins(case.retry_params),
        "input": {
            "messages": [{**_NOTHING, **message} for message in case.input.messages],
            "api_params": case.input.api_params,
        },
        "expected_output": case.expected_output,
        "metrics": msgspec.to_builtins(case.metrics),
        "actual_outputs": [_output(attempt) for attempt in report.attempts],
        "place": case.place,
        "missing_attempts": report.planned - len(report.attempts),
    }


def _output(attempt: AttemptRecord) -> dict[str, Any]:
    """Return an attempt as REBEL writes outputs; one whose request failed is marked by its error."""
    fields = msgspec.to_builtins(attempt)
    output = fields["output"] or {"output": "", "tools_called": [], "context": [], "execution_time": None}
    named = ("attempt", "error", "model", "finish_reason", "usage", "tries", "waited", "calls", "started", "request_id")
    return {**output, **{name: fields.get(name) for name in named}}


def _verdicts(attempt: AttemptRecord, metrics: Sequence[str]) -> Iterator[Verdict]:
    """Yield what each metric said of an attempt, and why one said nothing."""
    by_metric = {verdict.metric: verdict for verdict in attempt.verdicts}
    for metric in metrics:
        record, error = by_metric.get(metric), attempt.error
        if record is not None:
            reason = record.reason or ""
            yield Verdict(record.decision, record.score, reason, error=record.error, judge=metric)
        elif error is None:
            yield Verdict(None, reason="it was not measured", error="not measured", judge=metric)
        else:
            reason = f"the request failed: {error.message or ''}"
            yield Verdict(None, reason=reason, error=error.kind or "not measured", judge=metric)


def _results(results: Sequence[tuple[AttemptRecord, Verdict]]) -> list[dict[str, Any]]:
    return [
        {**_verdict_fields(verdict), "metric": verdict.judge, "attempt": attempt.attempt, "error": verdict.error}
        for attempt, verdict in results
    ]


def _verdict_fields(verdict: Verdict) -> dict[str, Any]:
    return {"score": verdict.score, "verdict": WORDS[verdict.success], "reason": verdict.reason}
