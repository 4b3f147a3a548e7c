"""Reads the records of OpenAI evals (`oaieval`): one line for the run, one for its report, one for each event.

A sample is an entry. Each `match` event of it is an attempt with its verdict; a sample without one is judged by its
`metrics` event, if that has an accuracy, a score or a choice. The prompt is in the `sampling` event before. A sample
that was answered and never judged is unjudged. Events of samples that ran side by side are mixed, and the report may
come before them: which event of a sample is its last takes a first look through the file.

Nothing here loads evals or its registry.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from faircount.core.model import ToolFigure
from faircount.core.text import clip
from faircount.core.verdict import Decision, Verdict
from faircount.ledger.schema import Fields
from faircount.readers.registry import Probe
from faircount.readers.tool_records import TASK, ToolFile, ToolReader, ToolRecord, finite, first_keys, text_of

OPENAI_EVALS = "OpenAI evals"
MATCH = "match"
_METRICS, _SAMPLING, _ERROR = "metrics", "sampling", "error"
_TYPES = (MATCH, _METRICS, _SAMPLING, _ERROR)
"""The events that are read; others are passed over."""
_DECIDING = ("accuracy", "score", "choice")
"""Values of a `metrics` event that decide, the first that is there."""
_CHOICES = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")
_HALF = 0.5
_LONGEST_NAME = 80
_LONGEST_ERROR = 500
_TOLERANCE = 1e-9


class _Event(Struct, gc=False):
    """A line: of the run, of its report, or an event."""

    spec: Any = None
    final_report: Any = None
    run_id: Any = None
    sample_id: Any = None
    type: Any = None
    data: Any = None

    @property
    def key(self) -> _Key | None:
        """The run and the sample of an event."""
        if not isinstance(self.sample_id, str | int) or self.sample_id == "":
            return None
        return text_of(self.run_id), str(self.sample_id)

    @property
    def values(self) -> Mapping[str, Any]:
        """What an event says."""
        return self.data if isinstance(self.data, dict) else {}


_Key = tuple[str | None, str]
_decoder = msgspec.json.Decoder(_Event)


def _lines(file: ToolFile) -> Iterator[tuple[int, _Event]]:
    for number, text in file.json_lines():
        line = file.decode(text.removeprefix(BOM_UTF8) if number == 1 else text, _decoder, number)
        if line is not None:
            yield number, line


# -- the first look ---------------------------------------------------------------------------------------------


class _EvalsRun(Struct):
    """A run: what its first line says, and what oaieval counts of its events."""

    eval: str | None = None
    split: str | None = None
    model: str | None = None
    begun: int = 0
    """The line on which it begins."""
    matches: int = 0
    correct: int = 0
    scores: int = 0
    score: float = 0.0
    usage: dict[str, float] = field(default_factory=dict)
    report: Mapping[str, Any] | None = None

    def figures(self) -> Iterator[ToolFigure]:
        """Yield oaieval's accuracy over events, and the tokens that it adds up."""
        stated = self.report or {}
        if self.matches:
            accuracy = self.correct / self.matches
            yield ToolFigure("accuracy", accuracy, self.correct, self.matches, finite(stated.get("accuracy")))
        elif self.scores:
            yield ToolFigure("score", self.score / self.scores, n=self.scores, stated=finite(stated.get("score")))
        for name, total in self.usage.items():
            yield ToolFigure(f"usage_{name}", total, stated=finite(stated.get(f"usage_{name}")))


class _EvalsOverview(Struct):
    """What only the whole file shows: its runs, and of each sample the line on which it ends."""

    runs: dict[str | None, _EvalsRun] = field(default_factory=dict)
    ends: dict[_Key, int] = field(default_factory=dict)
    """The last line that decides a sample, or, where nothing does, the last one with an answer or an error."""
    matched: set[_Key] = field(default_factory=set)
    judged: set[_Key] = field(default_factory=set)
    metrics: dict[_Key, dict[str, Any]] = field(default_factory=dict)
    beyond: bool = False
    """Whether a score is not from 0 to 1."""

    def add(self, number: int, line: _Event) -> None:
        if line.spec is not None or line.final_report is not None:
            self._add_run(number, line)
            return
        key, values = line.key, line.values
        if key is None:
            return
        run = self.runs.setdefault(key[0], _EvalsRun())
        if line.type == MATCH:
            self.ends[key] = number
            self.matched.add(key)
            run.matches, run.correct = run.matches + 1, run.correct + (values.get("correct") is True)
        elif line.type == _METRICS:
            kept = self.metrics.setdefault(key, {})
            kept.update({name: values[name] for name in _DECIDING if values.get(name) is not None})
            score = finite(values.get("score"))
            if score is not None:
                run.scores, run.score = run.scores + 1, run.score + score
            known = [finite(values.get(name)) for name in _DECIDING[:2]]
            self.beyond |= any(one is not None and not 0 <= one <= 1 for one in known)
            if key not in self.matched:
                self.ends[key] = number
                self.judged.add(key)
        elif line.type in (_SAMPLING, _ERROR) and key not in self.matched and key not in self.judged:
            self.ends[key] = number
        if line.type == _SAMPLING:
            usage = values.get("usage")
            tokens = usage if isinstance(usage, dict) else {}
            for name in _USAGE if tokens else ():
                run.usage[name] = run.usage.get(name, 0) + (finite(tokens.get(name)) or 0)

    def _add_run(self, number: int, line: _Event) -> None:
        spec = line.spec if isinstance(line.spec, dict) else {}
        own = spec.get("run_id") if line.run_id is None else line.run_id
        run = self.runs.setdefault(text_of(own), _EvalsRun())
        if isinstance(line.final_report, dict):
            run.report = line.final_report
        if not spec:
            return
        run.begun = number
        name = spec.get("base_eval") or spec.get("eval_name")
        run.eval = clip(text_of(name) or "", _LONGEST_NAME) or None
        run.split = clip(text_of(spec.get("split")) or "", _LONGEST_NAME) or None
        models = spec.get("completion_fns")
        names = [one for one in models if isinstance(one, str)] if isinstance(models, list) else []
        run.model = clip(", ".join(names), _LONGEST_NAME) or None


# -- records ----------------------------------------------------------------------------------------------------


class _Sampling(Struct):
    """What a sample was asked and answered so far."""

    prompt: Any = None
    answer: Any = None
    error: str | None = None
    judged: bool = False
    """Whether the answer has its verdict, so that the next one is another attempt."""


def _verdict_of_match(values: Mapping[str, Any], file: ToolFile, number: int) -> Verdict:
    correct = values.get("correct")
    if not isinstance(correct, bool):
        file.note("F004", clip(text_of(correct) or "no value", _LONGEST_NAME), number)
    picked = values.get("picked")
    reason = f"picked {clip(picked, _LONGEST_NAME)}" if isinstance(picked, str) else ""
    return Verdict(Decision.of(correct if isinstance(correct, bool) else None), None, reason, judge=MATCH)


def _verdicts_of_metrics(
    values: Mapping[str, Any], overview: _EvalsOverview, file: ToolFile, number: int
) -> Iterator[Verdict]:
    """Yield what the values of a `metrics` event say; a score on another scale needs a threshold."""
    threshold = file.read_as.threshold
    for name in _DECIDING:
        value = values.get(name)
        score = float(value) if isinstance(value, bool) else finite(value)
        if score is not None:
            undecided = overview.beyond and threshold is None and not isinstance(value, bool)
            if undecided:
                file.note("F052", name, number)
            decided = None if undecided else score >= (_HALF if threshold is None else threshold)
            yield Verdict(Decision.of(decided), score, judge=name)
        elif isinstance(value, str):
            decided = _CHOICES.get(value.strip().casefold())
            why = None if decided is not None else f"choice {clip(value, _LONGEST_NAME)}"
            yield Verdict(Decision.of(decided), None, f"choice {clip(value, _LONGEST_NAME)}", error=why, judge=name)


def _messages(prompt: Any) -> list[dict[str, Any]]:
    if isinstance(prompt, list) and prompt and all(isinstance(one, dict) for one in prompt):
        return [{"role": text_of(one.get("role")) or "user", "content": text_of(one.get("content"))} for one in prompt]
    return [{"role": "user", "content": text_of(prompt)}]


def _answer(value: Any) -> str | None:
    """Return an answer; one alone is often in a list."""
    return text_of(value[0]) if isinstance(value, list) and len(value) == 1 else text_of(value)


class OpenAIEvalsReader(ToolReader):
    """Reads records of OpenAI evals."""

    name = tool = OPENAI_EVALS
    noun = "sample of OpenAI evals"
    aim = TASK
    of_models = True
    several_runs = True
    fields = Fields(first=("eval",), facets=("eval", "split", "judge_name", "target"), others_on_request=True)

    def sniff(self, probe: Probe) -> bool:
        """Return whether the first line describes a run of oaieval."""
        return first_keys(probe.head) >= {"spec", "spec.eval_name", "spec.run_id"}

    def records(self, file: ToolFile) -> Iterator[ToolRecord]:
        """Yield an attempt for each match of a sample, or the one that its last event makes of it."""
        with file.read_twice() as first:
            overview = _EvalsOverview()
            for number, line in _lines(first):
                overview.add(number, line)
            models = {run.model for run in overview.runs.values()}
            file.target = next(iter(models)) if len(models) == 1 else None
            yield from self._records_of(file, overview)
        self._tell_runs(file, overview)

    def _records_of(self, file: ToolFile, overview: _EvalsOverview) -> Iterator[ToolRecord]:
        asked: dict[_Key, _Sampling] = {}
        for number, line in _lines(file):
            key, values = line.key, line.values
            if line.spec is not None or line.final_report is not None:
                continue
            if key is None:
                file.refuse("neither a run, nor a report, nor an event of a sample", number)
                continue
            if line.type not in _TYPES:
                continue
            so_far = asked.setdefault(key, _Sampling())
            if line.type == _SAMPLING and (so_far.prompt is None or so_far.judged):
                # What follows in an eval that is graded by a model is the talk with that one.
                so_far = asked[key] = _Sampling(values.get("prompt"), values.get("sampled"))
            elif line.type == _ERROR:
                so_far.error = clip(text_of(values.get("message") or line.data) or "error", _LONGEST_ERROR)
            ends = overview.ends.get(key) == number
            if line.type == MATCH or (ends and key not in overview.matched):
                yield self._record(file, overview, number, line, so_far)
                so_far.judged = True
            if ends:
                del asked[key]

    def _record(
        self, file: ToolFile, overview: _EvalsOverview, number: int, line: _Event, asked: _Sampling
    ) -> ToolRecord:
        key = line.key or (None, "")
        run = overview.runs.get(key[0], _EvalsRun())
        verdicts = list[Verdict]()
        answer = asked.answer
        if line.type == MATCH:
            verdicts.append(_verdict_of_match(line.values, file, number))
            answer = line.values.get("sampled") if line.values.get("sampled") is not None else answer
        verdicts += _verdicts_of_metrics(overview.metrics.get(key, {}), overview, file, number)
        error = asked.error if not _answer(answer) else None
        return ToolRecord(
            line=number,
            entry=_entry(run, key[1]),
            messages=_messages(asked.prompt),
            response=_answer(answer),
            error=error,
            success=verdicts[0].success if verdicts else None,
            verdicts=tuple(verdicts) if error is None else (),
            judge=verdicts[0].judge if verdicts else None,
            target=run.model,
            run=key[0],
            fields={"eval": run.eval, "split": run.split},
        )

    def _tell_runs(self, file: ToolFile, overview: _EvalsOverview) -> None:
        wanted = {name: run for name, run in overview.runs.items() if file.stream.only_run in (None, name)}
        for name, run in wanted.items():
            prefix = f"{name}: " if len(wanted) > 1 else ""
            if run.report is None:
                file.note("F039", "no final_report: an exception ended it, or it is still going", run.begun)
            for one in run.figures():
                if one.stated is not None and one.value is not None and abs(one.stated - one.value) > _TOLERANCE:
                    told = f"the report says {one.stated:.4g}, its events {one.value:.4g}"
                    file.note("F040", f"{prefix}{one.name}: {told}", run.begun)
                file.figures.append(msgspec.structs.replace(one, name=prefix + one.name))
            ended = [key for key in overview.ends if key[0] == name]
            undecided = len(ended) - len(overview.matched.intersection(ended)) if run.matches else 0
            if undecided:
                more = "1 more sample has" if undecided == 1 else f"{undecided} more samples have"
                file.differs.append(
                    f"oaieval reports {run.correct / run.matches:.1%} ({run.correct} of {run.matches} match events); "
                    f"{more} no match event."
                )
        if overview.ends:
            file.note("F053", "a sample_id is the line of the sample in the dataset")


def _entry(run: _EvalsRun, sample: str) -> str:
    """Return the id of a sample, which begins with the name of the eval."""
    return sample if run.eval is None or sample.startswith(f"{run.eval}.") else f"{run.eval}:{sample}"
