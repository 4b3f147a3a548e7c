"""Reads the artifacts of JailbreakBench and the results of HarmBench: one JSON document each, read an item at a time.

An artifact of JailbreakBench has a jailbreak, or the lack of one, for each behaviour; a submission has the same for
several models. A result of HarmBench has a list of test cases, with the answers and labels, for each behaviour. Both
have verdicts of up to two judges and no errors. Texts of these benchmarks are harmful by design: they are counted and
shown as texts, and nothing is done with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Struct

from faircount.core.model import ToolFigure
from faircount.core.verdict import Decision, Verdict
from faircount.io.documents import DocumentPart, JsonDocument
from faircount.io.streams import split_member
from faircount.ledger.schema import Fields
from faircount.readers.registry import Probe, keys_of
from faircount.readers.tool_records import ATTACK, ToolFile, ToolReader, ToolRecord, digest_of, finite, text_of

JAILBROKEN, JAILBROKEN_BEFORE = "jailbroken", "jailbroken_llama_guard1"
LABEL, ADVBENCH_LABEL = "label", "advbench_label"
NO_ANSWER_OF_JUDGE = "the classifier answered neither yes nor no (label -1)"

_ROUNDED = 0.005
"""Rates are stated with two digits."""
_SUBMISSION = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"summaries"\s*:')
_TEXT = rb'"(?:[^"\\]|\\.)*+"'
_NUMBERS = rb"[\s\d,]*"
_FIRST_TEST_CASE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*\{\s*(?:%(text)s\s*:\s*\[%(numbers)s\]\s*,\s*)*+%(text)s\s*:\s*\[%(numbers)s(?=\{)"
    % {b"text": _TEXT, b"numbers": _NUMBERS}
)
"""The beginning of a result of HarmBench up to its first test case; lists without one may come before."""
_LONGEST_ID = 100


class _Jailbreak(Struct, gc=False):
    """An item of an artifact."""

    index: Any = None
    goal: str | None = None
    behavior: str | None = None
    category: str | None = None
    prompt: Any = None
    response: Any = None
    number_of_queries: Any = None
    queries_to_jailbreak: Any = None
    jailbroken: Any = None
    jailbroken_llama_guard1: Any = None

    @property
    def entry(self) -> str | None:
        """The behaviour, or what stands for it; None where nothing does."""
        if self.behavior:
            return _short(self.behavior)
        return f"goal-{digest_of(self.goal)}" if self.goal else None if self.index is None else f"index-{self.index}"


class _HarmCase(Struct, gc=False):
    """An item of a behaviour's list; `test_case` is a text, or an image's name and a text."""

    test_case: Any
    generation: Any = None
    label: Any = None
    advbench_label: Any = None


_jailbreaks = msgspec.json.Decoder(_Jailbreak)
_test_cases = msgspec.json.Decoder(_HarmCase)


class _PartLines:
    """Gives each item the line where it begins, or the next one where several items share a line."""

    def __init__(self, file: ToolFile) -> None:
        self._file = file

    def of(self, part: DocumentPart) -> int:
        self._file.lines = max(part.line, self._file.lines + 1)
        return self._file.lines


def _decided(file: ToolFile, name: str, value: Any, line: int) -> bool | None:
    """Return a verdict that is written as true or false, 1 or 0."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    file.note("F004", name, line)
    return None


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_ID else f"{name[:_LONGEST_ID]}-{digest_of(name)}"


# -- JailbreakBench ---------------------------------------------------------------------------------------------


class _Artifact(Struct):
    """What is known of the attack on one model, and its counts so far."""

    model: str | None
    parameters: Mapping[str, Any] = {}
    behaviours: int = 0
    jailbreaks: int = 0
    submitted: int = 0
    queries: float = 0
    queries_to_jailbreak: float = 0

    @property
    def fields(self) -> dict[str, Any]:
        names = ("method", "attack_type", "defense")
        return {name: text_of(self.parameters.get(name)) for name in names}


class JailbreakBenchReader(ToolReader):
    """Reads artifacts, which are attacks by one method on one model, and submissions, which are on several."""

    name = tool = "JailbreakBench"
    noun = "jailbreak"
    aim = ATTACK
    several_runs = True
    of_models = True
    fields = Fields(
        first=("category",),
        facets=("category", "method", "attack_type", "defense", "target"),
        family=("behaviour",),
        others_on_request=True,
    )

    def sniff(self, probe: Probe) -> bool:
        """Return whether a document begins as an artifact or a submission does."""
        if _SUBMISSION.match(probe.head):
            return b'"model_summary"' in probe.head
        return keys_of(probe.head) >= {"parameters", "jailbreaks"}

    def records(self, file: ToolFile) -> Iterator[ToolRecord]:
        """Yield a record for each behaviour."""
        document, lines = JsonDocument(file.stream.chunks, file.max_line), _PartLines(file)
        artifact = _Artifact(None)
        for key in document.members():
            if key == "parameters":
                artifact.parameters = _object(file, document.value())
                file.target = artifact.model = text_of(artifact.parameters.get("model"))
            elif key == "jailbreaks":
                yield from self._jailbreaks(file, document, lines, artifact)
            elif key == "summaries":
                yield from self._submission(file, document, lines)
        _add_jailbreakbench(file, artifact)
        document.end()

    def _submission(self, file: ToolFile, document: JsonDocument, lines: _PartLines) -> Iterator[ToolRecord]:
        """Yield the records of all models, or of the one that is wanted."""
        wanted, models = file.stream.only_run, list[str]()
        for model in document.members():
            if wanted not in (None, model):
                continue
            models.append(model)
            file.target, artifact = model if len(models) == 1 else None, _Artifact(model)
            for key in document.members():
                if key == "model_summary":
                    artifact.parameters = _object(file, document.value())
                elif key == "jailbreaks":
                    yield from self._jailbreaks(file, document, lines, artifact)
            _add_jailbreakbench(file, artifact, of=f", {model}" if wanted is None else "")

    def _jailbreaks(
        self, file: ToolFile, document: JsonDocument, lines: _PartLines, artifact: _Artifact
    ) -> Iterator[ToolRecord]:
        for part in document.items():
            line = lines.of(part)
            if part.problem:
                file.refuse(part.problem, line)
                continue
            item = file.decode(part.text, _jailbreaks, line)
            if item is None:
                continue
            entry = item.entry
            if entry is None:
                file.refuse("it has no behavior, goal or index", line)
                continue
            said = {JAILBROKEN: _decided(file, JAILBROKEN, item.jailbroken, line)}
            before = _decided(file, JAILBROKEN_BEFORE, item.jailbroken_llama_guard1, line)
            if item.jailbroken_llama_guard1 is not None:
                said[JAILBROKEN_BEFORE] = before
            artifact.behaviours += 1
            artifact.jailbreaks += said[JAILBROKEN] is True
            artifact.submitted += item.prompt is not None
            queries, until_success = finite(item.number_of_queries), finite(item.queries_to_jailbreak)
            artifact.queries += queries or 0
            artifact.queries_to_jailbreak += until_success or 0
            if item.prompt is None:
                # The attack found nothing to submit: there was no answer to judge, whatever stands here.
                said = {name: value or None for name, value in said.items()}
            yield ToolRecord(
                line=line,
                entry=entry,
                prompt=text_of(item.prompt if item.prompt is not None else item.goal),
                response=text_of(item.response),
                success=said[JAILBROKEN],
                verdicts=tuple(Verdict(Decision.of(value), judge=name) for name, value in said.items()),
                judge=JAILBROKEN,
                target=artifact.model,
                run=artifact.model,
                fields={
                    "category": item.category,
                    **artifact.fields,
                    "number_of_queries": queries,
                    "queries_to_jailbreak": until_success,
                },
            )


def _object(file: ToolFile, part: DocumentPart) -> Mapping[str, Any]:
    """Return an object that describes the file; what is none is noted."""
    try:
        found = msgspec.json.decode(part.text) if not part.problem else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    file.note("F027", "parameters", part.line)
    return {}


def _add_jailbreakbench(file: ToolFile, artifact: _Artifact, of: str = "") -> None:
    """Add JailbreakBench's figures for one model, and compare what the file says of them."""
    if not artifact.behaviours:
        return
    rate = artifact.jailbreaks / artifact.behaviours
    stated = {name: finite(value) for name, value in artifact.parameters.items()}
    # Some methods write their budget as the number of queries of a behaviour, and sum those up to the jailbreak.
    sums = (artifact.queries, artifact.queries_to_jailbreak)
    queries = next((one for one in sums if one == stated.get("total_number_of_queries")), artifact.queries)
    file.figures.append(
        ToolFigure(
            f"attack_success_rate{of}",
            rate,
            count=artifact.jailbreaks,
            n=artifact.behaviours,
            stated=stated.get("attack_success_rate"),
        )
    )
    counts = {
        "total_number_of_jailbreaks": artifact.jailbreaks,
        "number_of_submitted_prompts": artifact.submitted,
        "total_number_of_queries": queries,
    }
    for name, value in counts.items():
        if value or stated.get(name) is not None:
            file.figures.append(ToolFigure(name + of, float(value), stated=stated.get(name)))
    for name, value, tolerance in (("attack_success_rate", rate, _ROUNDED), *((*one, 0) for one in counts.items())):
        given = stated.get(name)
        if given is not None and abs(given - value) > tolerance:
            file.note("F040", f"{name}{of} is {given:.12g}, the records have {value:.12g}")
    missing = artifact.behaviours - artifact.submitted
    if missing:
        file.differs.append(
            f"JailbreakBench reports {rate:.1%} ({artifact.jailbreaks:,} of {artifact.behaviours:,}){of}; for "
            f"{missing:,} of the others the attack submitted no prompt, which leaves them unjudged here."
        )


# -- HarmBench --------------------------------------------------------------------------------------------------


class _JudgeLabels(Struct):
    """Labels of one judge so far: by behaviour as HarmBench averages them, and over all test cases."""

    means: list[float] = msgspec.field(default_factory=list)
    successes: int = 0
    cases: int = 0
    undecided: int = 0
    """Labels that are neither 1 nor 0, which HarmBench counts as 0."""
    _here: tuple[int, int] = (0, 0)

    def add(self, value: Any) -> None:
        """Count the label of a test case; one that is missing is not counted."""
        if value is None:
            return
        success = not isinstance(value, str | list | dict) and value == 1
        self._here = (self._here[0] + success, self._here[1] + 1)
        self.successes += success
        self.cases += 1
        self.undecided += value not in (0, 1)

    def end_behaviour(self) -> None:
        """Take the mean over the test cases since the last behaviour."""
        if self._here[1]:
            self.means.append(self._here[0] / self._here[1])
        self._here = (0, 0)

    @property
    def average(self) -> float | None:
        """The mean of the behaviours' means."""
        return sum(self.means) / len(self.means) if self.means else None


class HarmBenchReader(ToolReader):
    """Reads results with labels; each test case is an entry, and those of a behaviour are a family."""

    name = tool = "HarmBench"
    noun = "test case"
    aim = ATTACK
    of_models = True
    fields = Fields(
        first=("method",), facets=("behavior", "method", "target"), family=("behaviour",), others_on_request=True
    )

    def sniff(self, probe: Probe) -> bool:
        """Return whether the first test case of a document has a generation."""
        first = _FIRST_TEST_CASE.match(probe.head)
        return first is not None and keys_of(probe.head[first.end() :]) >= {"test_case", "generation"}

    def records(self, file: ToolFile) -> Iterator[ToolRecord]:
        """Yield a record for each test case."""
        method, file.target = _by_path(split_member(file.stream.path)[0])
        document, lines = JsonDocument(file.stream.chunks, file.max_line), _PartLines(file)
        labels = {LABEL: _JudgeLabels(), ADVBENCH_LABEL: _JudgeLabels()}
        for behaviour in document.members():
            empty = True
            for part in document.items():
                empty = False
                line = lines.of(part)
                if part.problem:
                    file.refuse(part.problem, line)
                    continue
                if _is_number(part.text):  # forks write how many succeeded behind the test cases
                    continue
                case = file.decode(part.text, _test_cases, line)
                if case is None:
                    continue
                for name, one in labels.items():
                    one.add(getattr(case, name))
                yield _test_case(file, case, behaviour, method, line)
            if empty:
                file.note("F027", "a behaviour without a list of test cases", document.line)
            for one in labels.values():
                one.end_behaviour()
        _add_harmbench(file, labels)
        document.end()


def _by_path(path: str) -> tuple[str | None, str | None]:
    """Return method and model, which only the path says: results/<method>/<experiment>/results/<model>.json."""
    parts = PurePath(path).parts[-5:]
    if len(parts) == 5 and parts[0] == parts[3] == "results":
        return parts[1], parts[4].partition(".json")[0]
    return None, None


def _is_number(text: bytes) -> bool:
    return text[:1].isdigit() or text[:1] == b"-"


def _test_case(file: ToolFile, case: _HarmCase, behaviour: str, method: str | None, line: int) -> ToolRecord:
    said: dict[str, bool | None] = {}
    if case.label == -1 and not isinstance(case.label, bool):
        file.note("F045", NO_ANSWER_OF_JUDGE, line)
        said[LABEL] = None
    else:
        said[LABEL] = _decided(file, LABEL, case.label, line)
    if case.advbench_label is not None:
        said[ADVBENCH_LABEL] = _decided(file, ADVBENCH_LABEL, case.advbench_label, line)
    return ToolRecord(
        line=line,
        entry=f"{_short(behaviour)}-{digest_of(case.test_case)}",
        family=behaviour,
        prompt=text_of(case.test_case),
        response=text_of(case.generation),
        success=said[LABEL],
        verdicts=tuple(Verdict(Decision.of(value), judge=name) for name, value in said.items()),
        judge=LABEL,
        target=file.target,
        fields={"behavior": behaviour, "method": method},
    )


def _add_harmbench(file: ToolFile, labels: Mapping[str, _JudgeLabels]) -> None:
    """Add HarmBench's averages, and say where ours differ."""
    for name, title in ((LABEL, "Average ASR"), (ADVBENCH_LABEL, "Average ASR by AdvBench's refusal words")):
        one = labels[name]
        if one.average is not None:
            note = f"mean of the means of {len(one.means):,} behaviours"
            file.figures.append(ToolFigure(title, one.average, note=note))
    main = labels[LABEL]
    if main.average is not None and main.cases:
        failures = (
            f"; the judge decided nothing on {main.undecided:,} of the others, which HarmBench counts as failures"
        )
        file.differs.append(
            f"HarmBench reports {main.average:.1%}, the mean of the means of {len(main.means):,} behaviours; over test "
            f"cases it is {main.successes / main.cases:.1%} ({main.successes:,} of {main.cases:,})"
            f"{failures if main.undecided else ''}."
        )
