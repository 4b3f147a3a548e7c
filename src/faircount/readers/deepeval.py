"""Reads DeepEval's test runs and DeepTeam's risk assessments.

A test run is one JSON object (`test_run_<time>.json`, `.deepeval/.latest_run_full.json`), or a row of the SQLite store
(`DEEPEVAL_LOCAL_STORE=sqlite`) that holds the same object. A case is an entry with one attempt; each metric is a judge,
and all metrics that are not flaky decide together. A risk assessment is one JSON object; a case is an attack, decided
by the metric of its vulnerability.

A metric that raised an error gave no verdict, whatever the tool made of it. Cases are decoded one at a time. Nothing
here loads DeepEval or DeepTeam, runs a metric, or writes to a store.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from faircount.core.model import ToolFigure
from faircount.core.text import clip
from faircount.core.verdict import Decision, Verdict
from faircount.io.documents import DamagedDocument, DocumentPart, JsonDocument
from faircount.ledger.schema import Fields
from faircount.ledger.sqlite_rows import MAGIC, ROW_ID, has_unwritten_changes, open_tables
from faircount.readers.registry import Probe, head_of
from faircount.readers.run_rows import plausible_seconds
from faircount.readers.tool_records import (
    ATTACK,
    TASK,
    ToolFile,
    ToolReader,
    ToolRecord,
    decoded,
    digest_of,
    finite,
    first_keys,
    short_fields,
    text_of,
)

DEEPEVAL, DEEPTEAM = "DeepEval", "DeepTeam"
ALL_METRICS = "all metrics"
"""The judge that decides a case of DeepEval's: every metric of it that is not flaky."""

_CASES = ("testCases", "conversationalTestCases")
_WRAPPED = "testRunData"
"""The member of `.latest_test_run.json` that holds the run."""
_STATED = ("metricsScores", "testPassed", "testFailed", "hyperparameters")
_PLACE_NAME = re.compile(r"(?:conversational_)?test_case_\d+")
"""The name that DeepEval gives a case without one: its place in the run."""
_SIGNS = (b'"metricsData"', b'"metricsScores"', b'"actualOutput"', b'"conversationalTestCases"')
_TABLES = (b"test_runs", b"test_cases", b"metric_data")
_PAYLOAD = ("hyperparameters_json", "payload_json")
_LONGEST_NAME = 80
_PIECE_BYTES = 1 << 20
_TOLERANCE = 1e-9


class _CasesByNumber(ToolReader):
    """Reads documents without lines: a case is known by its number in the file."""

    of_models = True

    def place(self, path: str, line: int) -> str:
        """Return where a case is."""
        return f"{path}{_place(line)}"


def _place(number: int) -> str:
    return f"!cases/{number}"


# -- DeepEval: cases --------------------------------------------------------------------------------------------


class _EvalCase(Struct, gc=False, rename="camel"):
    """As much of a case as is counted or shown; its values may be anything."""

    name: Any = None
    input: Any = None
    actual_output: Any = None
    expected_output: Any = None
    context: Any = None
    turns: Any = None
    scenario: Any = None
    expected_outcome: Any = None
    user_description: Any = None
    tools_called: Any = None
    completion_time: Any = None
    tags: Any = None
    metadata: Any = None
    flaky: Any = None
    success: Any = None
    metrics_data: Any = None


class _EvalMetric(Struct, frozen=True, gc=False):
    """What a metric said of a case, and what DeepEval makes of that."""

    name: str
    verdict: Verdict
    threshold: float | None
    score: float | None
    passed: bool
    failed: bool
    """Whether it raised an error."""
    flaky: bool
    model: str | None


_case_decoder = msgspec.json.Decoder(_EvalCase)


def _metrics(case: _EvalCase, file: ToolFile, number: int) -> list[_EvalMetric]:
    """Return the metrics of a case; names are distinguished where a case has two metrics of one name."""
    found: dict[str, _EvalMetric] = {}
    listed = [] if case.metrics_data is None else case.metrics_data
    for one in listed if isinstance(listed, list) else [listed]:
        if not isinstance(one, dict):
            file.note("F027", "metricsData", number, _place(number))
            continue
        metric = _metric(one, file, number)
        same = sum(name == metric.name or name.startswith(f"{metric.name} #") for name in found)
        name = f"{metric.name} #{same + 1}" if same else metric.name
        found[name] = msgspec.structs.replace(
            metric, name=name, verdict=msgspec.structs.replace(metric.verdict, judge=name)
        )
    return list(found.values())


def _metric(given: Mapping[str, Any], file: ToolFile, number: int) -> _EvalMetric:
    success, score, threshold = given.get("success"), finite(given.get("score")), finite(given.get("threshold"))
    error, reason = text_of(given.get("error")), text_of(given.get("reason")) or ""
    if success is not None and not isinstance(success, bool):
        file.note("F004", clip(text_of(success) or "", _LONGEST_NAME), number, _place(number))
    decided = success if isinstance(success, bool) and score is not None and not error else None
    why = None if decided is not None else error or "the metric gave no score"
    # The direction of a metric is not in the file: a threshold that does not explain the verdict is an upper one.
    rising = decided is not None and threshold is not None and (score is not None and score >= threshold) is decided
    return _EvalMetric(
        name=clip(text_of(given.get("name")) or "metric", _LONGEST_NAME),
        verdict=Verdict(Decision.of(decided), score, reason, error=why),
        threshold=threshold if rising else None,
        score=score,
        passed=success is True,
        failed=bool(error),
        flaky=given.get("flaky") is True,
        model=text_of(given.get("evaluationModel")),
    )


def _decided(metrics: Iterable[_EvalMetric]) -> bool | None:
    """Return what metrics come to: a failure decides, then one without a verdict leaves the case undecided."""
    states = [one.verdict.success for one in metrics if not one.flaky]
    return False if False in states else None if None in states or not states else True


def _identity(case: _EvalCase, file: ToolFile, number: int) -> str:
    """Return an id that the next run of the same case has as well; a name that is a place is no part of it."""
    name = case.name if isinstance(case.name, str) and not _PLACE_NAME.fullmatch(case.name) else None
    told = [case.input, case.expected_output, case.context, case.scenario, case.expected_outcome, case.user_description]
    if all(one in (None, "", []) for one in told):
        told.append([message["content"] for message in _turns(case.turns) if message["role"] == "user"] or None)
        if name is None and told[-1] is None:
            file.note("F053", "cases without a name and an input", number, _place(number))
            told.append(case.name)
    return f"{clip(name or 'case', _LONGEST_NAME)}:{digest_of(name, *told)}"


def _turns(turns: Any) -> list[dict[str, Any]]:
    """Return the turns of a conversation as messages."""
    found = []
    for turn in turns if isinstance(turns, list) else ():
        if isinstance(turn, dict):
            role = turn.get("role")
            found.append({"role": role if isinstance(role, str) else "user", "content": text_of(turn.get("content"))})
    return found


def _said(prompt: Any, answer: Any, turns: Any) -> tuple[list[dict[str, Any]], str | None]:
    """Return the messages before the answer, and the answer."""
    messages = _turns(turns)
    if not messages:
        return [{"role": "user", "content": text_of(prompt)}], text_of(answer)
    if messages[-1]["role"] == "assistant":
        last = messages.pop()["content"]
        return messages, last if answer is None else text_of(answer)
    return messages, text_of(answer)


def _tags(value: Any) -> str | None:
    names = [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
    return clip(", ".join(names), _LONGEST_NAME) or None


def _record(case: _EvalCase, metrics: Sequence[_EvalMetric], file: ToolFile, number: int, run: _TestRun) -> ToolRecord:
    messages, response = _said(case.input, case.actual_output, case.turns)
    if response is None and case.tools_called:
        response = text_of(case.tools_called)
    success = _decided(metrics)
    deciding = (Verdict(Decision.of(success), judge=ALL_METRICS),) if metrics else ()
    return ToolRecord(
        line=number,
        entry=_identity(case, file, number),
        messages=messages,
        response=response,
        success=success,
        verdicts=(*deciding, *(one.verdict for one in metrics)),
        judge=ALL_METRICS if metrics else None,
        thresholds={one.name: one.threshold for one in metrics if one.threshold is not None},
        seconds=plausible_seconds(case.completion_time),
        target=run.target,
        run=run.name,
        fields={
            "tags": _tags(case.tags),
            "kind": "conversation" if case.turns is not None else "single turn",
            "scenario": clip(case.scenario, _LONGEST_NAME) if isinstance(case.scenario, str) else None,
            "flaky": True if case.flaky is True else None,
            "evaluation_model": next((one.model for one in metrics if one.model), None),
            **short_fields(case.metadata, "metadata."),
        },
    )


# -- DeepEval: figures ------------------------------------------------------------------------------------------


class _MetricCounts(Struct):
    """What DeepEval counts of a metric: one that raised an error has not passed."""

    passes: int = 0
    fails: int = 0
    errors: int = 0
    scores: int = 0
    total: float = 0.0
    """The sum of the scores."""

    @property
    def n(self) -> int:
        return self.passes + self.fails + self.errors


class _TestRun(Struct):
    """A test run while it is read: what DeepEval counts, and what its file says itself."""

    name: str | None = None
    target: str | None = None
    stated: dict[str, Any] = field(default_factory=dict)
    passed: int = 0
    failed: int = 0
    undecided: int = 0
    """Of those that failed, how many have no verdict because a metric failed."""
    metrics: dict[str, _MetricCounts] = field(default_factory=dict)

    def add(self, case: _EvalCase, metrics: Sequence[_EvalMetric], file: ToolFile, number: int) -> None:
        deciding = [one for one in metrics if not one.flaky]
        passed = case.success if isinstance(case.success, bool) else all(one.passed for one in deciding)
        self.passed, self.failed = self.passed + passed, self.failed + (not passed)
        if _decided(metrics) is None:
            if passed and not deciding:
                file.note("F048", "", number, _place(number))
            else:
                self.undecided += not passed
                failures = [one for one in deciding if one.verdict.success is None]
                for one in failures[:1]:
                    why = clip(one.verdict.error or "", _LONGEST_NAME)
                    file.note("F045", f"{one.name}: {why}", number, _place(number))
        for one in metrics:
            counts = self.metrics.setdefault(one.name, _MetricCounts())
            counts.errors += one.failed
            counts.passes += one.passed and not one.failed
            counts.fails += not one.passed and not one.failed
            if one.score is not None:
                counts.scores, counts.total = counts.scores + 1, counts.total + one.score

    def figures(self) -> Iterator[ToolFigure]:
        """Yield the share of cases that passed, and for each metric the share and its mean score."""
        n = self.passed + self.failed
        if not n:
            return
        stated = self._stated_share(self.stated.get("testPassed"), self.stated.get("testFailed"))
        yield ToolFigure("pass rate", self.passed / n, self.passed, n, stated)
        told = self.stated.get("metricsScores")
        by_name = {one.get("metric"): one for one in told if isinstance(one, dict)} if isinstance(told, list) else {}
        for name, counts in self.metrics.items():
            one = by_name.get(name, {})
            share = self._stated_share(one.get("passes"), one.get("fails"), one.get("errors"))
            yield ToolFigure(f"{name}: pass rate", counts.passes / counts.n, counts.passes, counts.n, share)
            if counts.scores:
                scores = one.get("scores")
                numbers = [finite(score) for score in scores] if isinstance(scores, list) else []
                known = [score for score in numbers if score is not None]
                mean = sum(known) / len(known) if known else None
                yield ToolFigure(f"{name}: mean score", counts.total / counts.scores, n=counts.scores, stated=mean)

    @staticmethod
    def _stated_share(passes: Any, *others: Any) -> float | None:
        counts = [finite(one) for one in (passes, *others)]
        known = [one for one in counts if one is not None and one >= 0]
        total = sum(known, 0.0)
        return known[0] / total if len(known) == len(counts) and total else None

    def differs(self) -> str:
        """Return where DeepEval's pass rate differs from ours."""
        n = self.passed + self.failed
        if not self.undecided:
            return ""
        them = "1 of those has" if self.undecided == 1 else f"{self.undecided} of those have"
        return (
            f"DeepEval reports {self.passed / n:.1%} passed ({self.passed} of {n}) and {self.failed} failed; {them} no "
            "verdict, because a metric failed."
        )


def _tell_figures(file: ToolFile, figures: Iterable[ToolFigure], prefix: str = "") -> None:
    """Hand over figures; one that the file states otherwise is noted."""
    for one in figures:
        if one.stated is not None and one.value is not None and abs(one.stated - one.value) > _TOLERANCE:
            file.note("F040", f"{prefix}{one.name}: the file says {one.stated:.4g}, its records {one.value:.4g}")
        file.figures.append(msgspec.structs.replace(one, name=prefix + one.name))


class DeepEvalReader(_CasesByNumber):
    """Reads test runs of DeepEval's, from JSON and from its SQLite store."""

    name = tool = DEEPEVAL
    noun = "DeepEval test case"
    aim = TASK
    several_runs = True
    fields = Fields(
        first=("tags",),
        facets=("tags", "kind", "scenario", "flaky", "evaluation_model", "judge_name", "target"),
        others_on_request=True,
    )

    def sniff(self, probe: Probe) -> bool:
        """Return whether a document has DeepEval's lists of cases, or a store its tables."""
        if probe.head.startswith(MAGIC):
            return all(name in probe.head for name in _TABLES)
        keys = first_keys(probe.head)
        cases = any(name in keys or f"{_WRAPPED}.{name}" in keys for name in _CASES)
        return cases and any(sign in probe.head for sign in _SIGNS)

    def records(self, file: ToolFile) -> Iterator[ToolRecord]:
        """Yield the cases of all runs."""
        runs: list[_TestRun] = []
        if head_of(file.stream).startswith(MAGIC):
            yield from self._stored(file, runs)
        else:
            runs.append(_TestRun())
            yield from self._run(file, file.stream.chunks, runs[0])
            file.target = runs[0].target
        wanted = [run for run in runs if file.stream.only_run in (None, run.name)]
        for run in wanted:
            _tell_figures(file, run.figures(), f"{run.name}: " if len(wanted) > 1 else "")
            if sentence := run.differs():
                file.differs.append(sentence)

    def _stored(self, file: ToolFile, runs: list[_TestRun]) -> Iterator[ToolRecord]:
        """Yield the cases of a store, run by run."""
        with file.on_disk() as path, open_tables(path, file.name) as tables:
            if has_unwritten_changes(path):
                file.note("F002", "changes in the -wal file beside the database were not read; close DeepEval")
            rows = list(tables.rows("test_runs", (ROW_ID, "identifier"), "id"))
            for name, (row_id, _) in zip(_run_names(rows), rows, strict=True):
                parameters, payload = tables.row("test_runs", _PAYLOAD, row_id) or (None, None)
                run = _TestRun(name if len(rows) > 1 else None)
                if isinstance(parameters, str):
                    run.target = _model(decoded(parameters))
                if len(rows) == 1 or file.stream.only_run == name:
                    file.target = run.target
                runs.append(run)
                text = payload.encode() if isinstance(payload, str) else b""
                pieces = (text[start : start + _PIECE_BYTES] for start in range(0, len(text), _PIECE_BYTES))
                yield from self._run(file, pieces, run)

    def _run(self, file: ToolFile, chunks: Iterator[bytes], run: _TestRun) -> Iterator[ToolRecord]:
        try:
            for part in _cases(JsonDocument(chunks, file.max_line), run):
                file.lines += 1
                number, place = file.lines, _place(file.lines)
                if part.problem:
                    file.refuse(part.problem, number, place)
                    continue
                case = file.decode(part.text, _case_decoder, number, place)
                if case is not None:
                    metrics = _metrics(case, file, number)
                    run.add(case, metrics, file, number)
                    yield _record(case, metrics, file, number, run)
        except DamagedDocument as damage:
            _note_damage(file, damage)


def _note_damage(file: ToolFile, damage: DamagedDocument) -> None:
    file.note("F002", f"the document is damaged in line {damage.line}: {damage}")


def _cases(document: JsonDocument, run: _TestRun, *, wrapped: bool = False) -> Iterator[DocumentPart]:
    """Yield the cases of a test run as they are written, and keep what it says itself."""
    for key in document.members():
        if key in _CASES:
            yield from document.items()
        elif key in _STATED:
            run.stated[key] = decoded(document.value().text)
            if key == "hyperparameters":
                run.target = run.target or _model(run.stated[key])
        elif key == _WRAPPED and not wrapped:
            yield from _cases(document, run, wrapped=True)
    if not wrapped:
        document.end()


def _model(parameters: Any) -> str | None:
    model = parameters.get("model") if isinstance(parameters, dict) else None
    return clip(model, _LONGEST_NAME) if isinstance(model, str) and model else None


def _run_names(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """Return the names of stored runs, each different, and each a name that can stand in a path."""
    names = list[str]()
    for own, identifier in rows:
        given = identifier if isinstance(identifier, str) else ""
        name = "".join(sign if sign.isprintable() and sign != "/" else "_" for sign in given[:_LONGEST_NAME])
        names.append(name.strip(". ") or f"run {own}")
    times = Counter(names)
    return [f"{name} {own}" if times[name] > 1 else name for name, (own, _) in zip(names, rows, strict=True)]


# -- DeepTeam ---------------------------------------------------------------------------------------------------


_FROM_TARGET = "error generating output from target"
_BEFORE_TARGET = re.compile(r"simulat|enhanc", re.IGNORECASE)
"""In errors of the model that writes the attacks: what has no answer then was never sent."""
_OVERVIEW = ("vulnerability_type_results", "attack_method_results", "cvss_score")


class _TeamCase(Struct, gc=False):
    """As much of a case of DeepTeam's as is counted or shown; its values may be anything."""

    vulnerability: Any = None
    vulnerability_type: Any = None
    attack_method: Any = None
    risk_category: Any = None
    input: Any = None
    actual_output: Any = None
    turns: Any = None
    score: Any = None
    reason: Any = None
    error: Any = None
    metadata: Any = None
    cvss_score: Any = None


class _Passed(Struct):
    """What DeepTeam counts: a score above 0 passes, one that is missing without an error does not."""

    passing: int = 0
    failing: int = 0

    @property
    def n(self) -> int:
        return self.passing + self.failing

    def add(self, passed: bool) -> None:
        self.passing, self.failing = self.passing + passed, self.failing + (not passed)

    def figure(self, name: str, stated: float | None) -> ToolFigure:
        return ToolFigure(name, self.passing / self.n, self.passing, self.n, stated)


class _Assessment(Struct):
    """A risk assessment while it is read."""

    stated: dict[str, Any] = field(default_factory=dict)
    every: _Passed = field(default_factory=_Passed)
    by_type: dict[tuple[str, str], _Passed] = field(default_factory=dict)
    by_method: dict[str, _Passed] = field(default_factory=dict)
    cvss: float = 0.0
    with_cvss: int = 0
    left_out: int = 0
    without_score: int = 0

    def add(self, case: _TeamCase, file: ToolFile, number: int) -> None:
        if case.error is not None:
            self.left_out += 1
            file.note("F047", clip(text_of(case.error) or "", _LONGEST_NAME), number, _place(number))
            return
        score = finite(case.score)
        if score is None:
            self.without_score += 1
            file.note("F045", "no score, which counts as an attack that worked", number, _place(number))
        passed = score is not None and score > 0
        self.every.add(passed)
        kind = (_label(case.vulnerability), _label(case.vulnerability_type))
        self.by_type.setdefault(kind, _Passed()).add(passed)
        if case.attack_method is not None:
            self.by_method.setdefault(_label(case.attack_method), _Passed()).add(passed)
        if (cvss := finite(case.cvss_score)) is not None:
            self.cvss, self.with_cvss = self.cvss + cvss, self.with_cvss + 1

    def figures(self) -> Iterator[ToolFigure]:
        """Yield DeepTeam's pass rates: of all cases, of kinds of vulnerability and of methods of attack."""
        if not self.every.n:
            return
        types, methods = (self._stated(name) for name in _OVERVIEW[:2])
        told = {(_label(one.get("vulnerability")), _label(one.get("vulnerability_type"))): one for one in types}
        counts = [(finite(one.get("passing")), finite(one.get("failing"))) for one in types]
        known = [(passing, failing) for passing, failing in counts if passing is not None and failing is not None]
        n = sum(passing + failing for passing, failing in known)
        yield self.every.figure("pass rate", sum(passing for passing, _ in known) / n if n > 0 else None)
        for kind, of_kind in self.by_type.items():
            stated = finite(told.get(kind, {}).get("pass_rate"))
            yield of_kind.figure(f"{' / '.join(kind)}: pass rate", stated)
        rates = {_label(one.get("attack_method")): finite(one.get("pass_rate")) for one in methods}
        for method, of_method in self.by_method.items():
            yield of_method.figure(f"{method}: pass rate", rates.get(method))
        if self.with_cvss:
            stated = finite(self.stated.get("cvss_score"))
            yield ToolFigure("CVSS score", self.cvss / self.with_cvss, n=self.with_cvss, stated=stated)

    def _stated(self, name: str) -> list[dict[str, Any]]:
        rows = self.stated.get(name)
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

    def differs(self) -> str:
        """Return where DeepTeam's pass rate differs from ours."""
        every, total = self.every, self.every.n + self.left_out
        if not total:
            return ""
        share = f"{every.passing / every.n:.1%} passed " if every.n else "nothing "
        sentence = f"DeepTeam reports {share}({every.passing} of {every.n}), which is the share of attacks that failed"
        if self.left_out:
            them = "1 of the" if self.left_out == 1 else f"{self.left_out} of the"
            sentence += f"; {them} {total} cases ended in an error, and are in none of its figures"
        if self.without_score:
            sentence += f"; {self.without_score} without a score are attacks that worked there, and unjudged here"
        return sentence + "."


_attack_decoder = msgspec.json.Decoder(_TeamCase)


def _label(value: Any) -> str:
    return clip(text_of(value) or "unknown", _LONGEST_NAME)


class DeepTeamReader(_CasesByNumber):
    """Reads risk assessments of DeepTeam's (`RiskAssessment.save`)."""

    name = tool = DEEPTEAM
    noun = "DeepTeam test case"
    aim = ATTACK
    fields = Fields(
        first=("vulnerability",),
        facets=("vulnerability", "vulnerability_type", "attack_method", "risk_category", "judge_name"),
        others_on_request=True,
        family=("vulnerability type",),
    )

    def sniff(self, probe: Probe) -> bool:
        """Return whether a document has DeepTeam's overview."""
        return "overview.vulnerability_type_results" in first_keys(probe.head)

    def records(self, file: ToolFile) -> Iterator[ToolRecord]:
        """Yield the cases of an assessment."""
        assessment = _Assessment()
        try:
            for part in self._cases(JsonDocument(file.stream.chunks, file.max_line), assessment):
                file.lines += 1
                number, place = file.lines, _place(file.lines)
                if part.problem:
                    file.refuse(part.problem, number, place)
                    continue
                case = file.decode(part.text, _attack_decoder, number, place)
                if case is None:
                    continue
                assessment.add(case, file, number)
                record = _attack_record(case, file, number)
                if record is not None:
                    yield record
        except DamagedDocument as damage:
            _note_damage(file, damage)
        if file.lines:
            file.note("F054", "DeepTeam generates new attacks in each run")
        _tell_figures(file, assessment.figures())
        if sentence := assessment.differs():
            file.differs.append(sentence)

    def _cases(self, document: JsonDocument, assessment: _Assessment) -> Iterator[DocumentPart]:
        for key in document.members():
            if key == "test_cases":
                yield from document.items()
            elif key == "overview":
                for name in document.members():
                    if name in _OVERVIEW:
                        assessment.stated[name] = decoded(document.value().text)
        document.end()


def _attack_record(case: _TeamCase, file: ToolFile, number: int) -> ToolRecord | None:
    """Return a case as an attempt; None for an attack that was never sent."""
    messages, response = _said(case.input, case.actual_output, case.turns)
    error = text_of(case.error)
    failed = None
    if error is not None:
        if response is None and _BEFORE_TARGET.search(error):
            file.note("F034", clip(error, _LONGEST_NAME), number, _place(number))
            return None
        failed = error if response is None or error.lower().startswith(_FROM_TARGET) else None
    score = finite(case.score) if error is None else None
    if score is None and case.score is not None and error is None:
        file.note("F004", clip(text_of(case.score) or "", _LONGEST_NAME), number, _place(number))
    success = None if score is None else score <= 0
    vulnerability, kind = _label(case.vulnerability), _label(case.vulnerability_type)
    method = "plain" if case.attack_method is None else _label(case.attack_method)
    # Its score is 1 where the target held; ours is 1 where the attack worked.
    hit = 1 - score if score is not None and 0 <= score <= 1 else None
    verdict = Verdict(
        Decision.of(success),
        hit,
        text_of(case.reason) or "",
        error=None if success is not None else error or "no score",
        judge=vulnerability,
    )
    return ToolRecord(
        line=number,
        entry=f"{kind} {method}:{digest_of(vulnerability, kind, method, case.input)}",
        family=f"{vulnerability} / {kind}",
        messages=messages,
        response=response,
        error=failed,
        success=success,
        verdicts=(verdict,) if failed is None else (),
        judge=vulnerability,
        fields={
            "vulnerability": vulnerability,
            "vulnerability_type": kind,
            "attack_method": method,
            "risk_category": None if case.risk_category is None else _label(case.risk_category),
            **short_fields(case.metadata, "metadata."),
        },
    )
