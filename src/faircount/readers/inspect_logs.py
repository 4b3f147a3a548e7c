"""Logs of inspect_ai as records: archives (`.eval`) and documents (`.json`), of all versions of the format so far.

A sample and epoch is an attempt; each scorer is a judge, and each key of a scorer that gives several values. The
samples themselves are read, because summaries cut texts and leave out edits and blocks; a summary stands in for a
sample that is missing. A log does not say whether its scores are good news: they are, unless the user says otherwise.
Nothing that a log names is ever opened, run or written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from xxhash import xxh3_64_hexdigest

from faircount.core.findings import counted
from faircount.core.text import clip, replace_surrogates, visible
from faircount.core.verdict import Decision, Verdict
from faircount.io.files import local_file
from faircount.io.streams import is_compressed, is_stored, split_member
from faircount.io.zip_members import ZIP_MAGIC, ZipMembers
from faircount.ledger.schema import Fields
from faircount.readers.aggregation import DEFAULT
from faircount.readers.inspect_figures import InspectScores, StatedScore, Unreadable, differing, figures_of, number_of
from faircount.readers.inspect_files import (
    MOST_JUDGES,
    REDUCTIONS,
    SUMMARIES,
    Choice,
    Header,
    InspectArchive,
    InspectDocument,
    InspectMessage,
    InspectOutput,
    InspectSample,
    Log,
    ScoresOnly,
    add_judges,
    at,
    sample_names,
    text_of,
    values_of,
)
from faircount.readers.registry import Probe, keys_of
from faircount.readers.tool_records import TASK, ToolFile, ToolReader, ToolRecord, objects_in

_MEMBER_IN_HEAD = re.compile(rb"PK\x03\x04.{26}(?:header\.json|_journal/(?:start|summaries/\d+)\.json)", re.DOTALL)
_STATUS = re.compile(rb'"status"\s*:\s*"(?:started|success|cancelled|error)"')
_REDUCER = re.compile(r"(pass_at|at_least|pass_k)_(\d{1,6})")
_AGGREGATIONS = {"pass_at": "pass@", "at_least": "at_least_", "pass_k": "pass^"}
_OF_ATTACKS = re.compile(r"refus|jailbreak|harm|attack|inject|leak|compl(?:y|ied|iance)|security", re.IGNORECASE)
_FAILED_JUDGES = ("grader_failed", "scoring_failed")
_CANCELLED = "CancelledError"
_LONGEST_FACET = 200
_LONGEST_ID = 200
_MOST_CLUSTERS = 20


class InspectReader(ToolReader):
    """Reads logs of inspect_ai."""

    name = tool = "inspect"
    noun = "sample of an inspect log"
    aim = TASK
    of_models = True
    fields = Fields(family=("cluster",))

    def sniff(self, probe: Probe) -> bool:
        """Return whether a file is an archive with a header or a journal, or a document with a status and an eval."""
        if not probe.head.startswith(ZIP_MAGIC):
            keys = keys_of(probe.head)
            return {"version", "status", "eval"} <= keys and _STATUS.search(probe.head) is not None
        if _MEMBER_IN_HEAD.search(probe.head) is not None:
            return True
        path, _ = split_member(probe.path)
        return is_stored(path) and not is_compressed(path) and bool(sample_names(local_file(path)))

    def records(self, file: ToolFile) -> Iterator[ToolRecord]:
        """Yield a record for each sample and epoch, in the order of the archive's directory or of the document."""
        with file.on_disk() as path:
            with Path(path).open("rb") as opened:
                zipped = opened.read(len(ZIP_MAGIC)) == ZIP_MAGIC
            if not zipped:
                with InspectDocument(file, path) as document:
                    yield from _Reading(file, document).records()
                return
            with ZipMembers(path, file.name) as members:
                yield from _Reading(file, InspectArchive(file, members)).records()

    def place(self, path: str, line: int) -> str:
        """Return where a sample is: its member of the archive, or its number in the document."""
        stored, _ = split_member(path)
        names = sample_names(local_file(stored)) if is_stored(stored) and not is_compressed(stored) else ()
        return f"{path}!{visible(names[line - 1])}" if 0 < line <= len(names) else f"{path}!samples/{line}"


# -- what the header says ---------------------------------------------------------------------------------------


class _Said(Struct, frozen=True):
    """What the header of a log says that the reading of its samples needs."""

    task: str
    scorers: tuple[str, ...]
    only_scorer: str
    stated: tuple[StatedScore, ...]
    headline: tuple[str, ...]
    """Names of the judge that decides, the most likely first."""
    aggregation: str
    score_on_error: bool
    cluster: str | None
    facets: dict[str, Any]
    metric_names: tuple[str, ...]


def _said_of(header: Header) -> _Said:
    about, results = header.eval, header.results or {}
    scorers = objects_in(about.get("scorers"))
    names = tuple(str(one.get("name")) for one in scorers)
    stated = [(one, _judge_names(one)) for one in objects_in(results.get("scores"))]
    only = at(results, "scorer", "name")
    if not stated and isinstance(only, str):
        stated = [({"metrics": results.get("metrics")}, (only,))]
    headline = at(results, "headline")
    first = _judge_names({"scorer": at(headline, "scorer"), "name": at(headline, "score")})
    likely = [*first, *(name for _, these in stated[:1] for name in these), *names]
    read = tuple(_stated(one, these) for one, these in stated)
    metrics = [metric for one in read for metric in one.metrics.values()]
    clusters = [at(one, "params", "cluster") for one in metrics] + [
        at(metric, "options", "cluster") for one in scorers for metric in objects_in(one.get("metrics"))
    ]
    reducers = at(about, "config", "epochs_reducer")
    tags = about.get("tags") or header.tags
    facets = {"solver": about.get("solver"), "tags": ", ".join(map(str, tags)) if isinstance(tags, list) else None}
    return _Said(
        task=str(about.get("task") or ""),
        scorers=names,
        only_scorer=only if isinstance(only, str) else names[0] if names else "score",
        stated=read,
        headline=tuple(dict.fromkeys(likely)),
        aggregation=_aggregation(reducers[0] if isinstance(reducers, list) and reducers else reducers),
        score_on_error=at(about, "config", "score_on_error") is True,
        cluster=next((one for one in clusters if isinstance(one, str)), None),
        facets={name: value for name, value in facets.items() if isinstance(value, str) and value},
        metric_names=tuple(str(at(one, "name")) for one in metrics),
    )


def _judge_names(score: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the judge of a stated score may be called in samples: a key of its scorer, or the scorer."""
    scorer, name = score.get("scorer"), score.get("name")
    names = [f"{scorer}.{name}", name, scorer] if scorer and name else [name, scorer]
    return tuple(one for one in names if isinstance(one, str))


def _stated(score: Mapping[str, Any], names: Sequence[str]) -> StatedScore:
    metrics, reducer = score.get("metrics"), score.get("reducer")
    given = (
        {str(key): one for key, one in metrics.items() if isinstance(one, dict)} if isinstance(metrics, dict) else {}
    )
    return StatedScore(tuple(names), reducer if isinstance(reducer, str) else None, given)


def _aggregation(reducer: object) -> str:
    """Return our name for a reducer of epochs; the mean for one that we do not have."""
    if reducer in ("mean", "median", "mode", "max", "majority"):
        return str(reducer)
    counting = _REDUCER.fullmatch(reducer) if isinstance(reducer, str) else None
    return f"{_AGGREGATIONS[counting[1]]}{int(counting[2])}" if counting and int(counting[2]) else DEFAULT


# -- samples as records -----------------------------------------------------------------------------------------


class _Reading:
    """Goes through a log once, makes records of its samples, and counts what the log's own figures need."""

    def __init__(self, file: ToolFile, log: Log) -> None:
        self._file, self._log = file, log
        self._said = said = _said_of(log.header)
        self._judges = {name or said.only_scorer: wide for name, wide in log.judges().items()}
        self._headline = self._find_headline()
        version = at(log.header.eval, "packages", "inspect_ai")
        target = log.header.eval.get("model")
        file.version = version if isinstance(version, str) else None
        file.target = target if isinstance(target, str) else None
        self._seen: set[tuple[str, int]] = set()
        self._answered: set[str] = set()
        self._numbered = True
        self._errors = self._unscored = self._blocked = self._partial = 0
        self._scores = InspectScores(epochs_apart=log.header.version == 1)
        metrics = [metric for one in said.stated for metric in one.metrics.values()]
        keys = [at(one, "params", key) for one in metrics for key in ("cluster", "group_key")]
        for key in [said.cluster, *keys]:
            if isinstance(key, str) and len(self._scores.metadata) < _MOST_CLUSTERS:
                self._scores.metadata[key] = {}

    def _find_headline(self) -> str | None:
        """Return the judge that decides: the log's headline, else its first scorer; of several values the first."""
        names = list(self._judges)
        for likely in self._said.headline:
            if likely in self._judges:
                return likely
            of_scorer = next((name for name in names if name.startswith(f"{likely}.")), None)
            if of_scorer is not None:
                return of_scorer
        return next(iter([*names, *self._said.scorers]), None)

    def records(self) -> Iterator[ToolRecord]:
        """Yield the records, and say at the end what is to be said of the log as a whole."""
        self._tell_beginning()
        for line, place, sample in self._log.samples():
            yield from self._record(line, place, sample)
        for sample in self._log.summaries():
            if (str(sample.id), sample.epoch) not in self._seen:
                self._file.lines += 1
                place = f"!{SUMMARIES}"
                self._file.note("F057", "a sample of which only the summary is there", self._file.lines, place)
                yield from self._record(self._file.lines, place, sample)
        if not self._seen:
            yield from self._reduced()
        self._tell_end()

    def _record(self, line: int, place: str, sample: InspectSample) -> Iterator[ToolRecord]:
        file, said = self._file, self._said
        if sample.id is None:
            file.refuse("it has no usable id", line, place)
            return
        name = str(sample.id)
        self._seen.add((name, sample.epoch))
        self._numbered &= isinstance(sample.id, int)
        error = _error_of(sample)
        if error is not None and error.startswith(_CANCELLED):
            file.note("F034", "cancelled before an answer", line, place)
            file.blank += 1
            return
        self._answered.add(name)
        output = sample.output or InspectOutput()
        metadata = sample.metadata or {}
        for key, values in self._scores.metadata.items():
            values[name] = str(metadata.get(key))
        verdicts = self._verdicts(line, place, sample)
        judged = [one.judge for one in verdicts if one.decision is not None]
        # A scorer that raised makes the sample an error, although there is an answer and other scorers judged it.
        of_judge = error is not None and bool(output.choices) and not said.score_on_error and bool(judged)
        if of_judge:
            missing = [one for one in self._known_judges() if one not in {verdict.judge for verdict in verdicts}]
            verdicts += [Verdict(None, error=error, judge=one) for one in missing[:MOST_JUDGES]]
            error = None
        choice = output.choices[0] if output.choices else Choice()
        blocked = "content filter" if choice.stop_reason == "content_filter" else None
        success = next((one.success for one in verdicts if one.judge == self._headline), None)
        self._count(line, place, error, blocked, success, judged)
        yield ToolRecord(
            line=line,
            entry=_entry(said.task, name),
            family=_short(metadata.get(said.cluster)) if said.cluster in metadata else "",
            messages=_asked(sample),
            response=text_of(output.completion or _content(choice), sample.attachments) if sample.output else None,
            error=error,
            blocked=blocked,
            success=success,
            verdicts=() if error is not None else tuple(verdicts),
            judge=self._headline,
            attempt=sample.epoch,
            seconds=sample.working_time,
            target=file.target,
            fields=self._fields(sample, choice, metadata),
            aggregation=said.aggregation,
        )

    def _known_judges(self) -> list[str]:
        """Return all judges: those of the samples, and scorers that never gave a score."""
        given = {name.partition(".")[0] for name in self._judges}
        return [*self._judges, *(name for name in self._said.scorers if name not in given)]

    def _fields(self, sample: InspectSample, choice: Choice, metadata: Mapping[str, Any]) -> dict[str, Any]:
        limit = at(sample.limit, "type") if isinstance(sample.limit, dict) else sample.limit
        retries = sample.error_retries
        own = {
            **self._said.facets,
            "stop_reason": choice.stop_reason,
            "limit": limit,
            "retries": len(retries) if isinstance(retries, list) and retries else None,
        }
        short = {key: value for key, value in {**metadata, **own}.items() if _is_short(value)}
        return {replace_surrogates(key): value for key, value in short.items()}

    def _verdicts(self, line: int, place: str, sample: InspectSample) -> list[Verdict]:
        found, edited = [], dict[int, str]()
        for judge, value, score in values_of(sample, self._said.only_scorer):
            self._scores.add(judge, str(sample.id), value)
            why = score.get("reason")
            reason = text_of(score.get("explanation"), sample.attachments)
            if why in _FAILED_JUDGES:
                found.append(Verdict(None, reason=reason, error=why, judge=judge))
                if not _is_unscored(value):
                    self._file.note("F045", str(why), line, place)
                continue
            success, number = self._decided(judge, value, line, place)
            unjudged = None if success is not None else str(why or "not scored")
            found.append(Verdict(Decision.of(success), number, reason, error=unjudged, judge=judge))
            if score.get("history"):
                edited[id(score)] = judge.partition(".")[0]
        for judge in edited.values():
            self._file.note("F049", f"score of {judge} edited", line, place)
        if sample.invalidation is not None:
            self._file.note("F049", "sample declared invalid", line, place)
        return found

    def _decided(self, judge: str, value: Any, line: int, place: str) -> tuple[bool | None, float | None]:
        """Return whether a score is a success, and its number."""
        try:
            number = number_of(value)
        except Unreadable:
            shown = clip(visible(str(value)), 40) if isinstance(value, str | int | float) else "a list"
            self._file.note("F004", f"{judge}: {shown}", line, place)
            return None, None
        if number is None:
            return None, None
        threshold = self._file.read_as.threshold
        if value == "P" and judge == self._headline:
            self._partial += 1
            self._file.note("F003", "P, partial credit: half a point", line, place)
        if isinstance(value, bool | str) and value != "P":
            return number >= 0.5, number
        if not self._judges.get(judge, False) and 0 <= number <= 1:
            # A threshold for a wider scale of another judge says nothing of this one.
            return number >= (threshold if threshold is not None and 0 <= threshold <= 1 else 0.5), number
        if threshold is None:
            self._file.note("F052", judge, line, place)
            return None, number
        return number >= threshold, number

    def _count(
        self, line: int, place: str, error: str | None, blocked: str | None, success: bool | None, judged: list[str]
    ) -> None:
        """Count what inspect's figures leave out, and note what they count although there is no answer to judge."""
        names = ", ".join(judged[:5])
        if error is not None:
            self._errors += 1
            self._file.note(*("F046", names) if judged else ("F047", "errors"), line, place)
        elif blocked is not None and not success:
            self._blocked += 1
            self._file.note(*("F056", names) if judged else ("F047", "stopped by a content filter"), line, place)
        elif success is None and self._headline is not None:
            self._unscored += 1
            self._file.note("F047", f"not scored by {self._headline}", line, place)

    def _reduced(self) -> Iterator[ToolRecord]:
        """Yield a record for each sample of a log that holds only reduced scores."""
        samples: dict[str, dict[str, Any]] = {}
        ids: dict[str, Any] = {}
        for group in self._log.reductions():
            for one in group.samples:
                name = str(one.get("sample_id"))
                ids[name] = one.get("sample_id")
                samples.setdefault(name, {}).setdefault(group.scorer, one)
                for judge, value, _ in values_of(ScoresOnly({group.scorer: one})):
                    numbers = self._scores.reduced.setdefault((judge, group.reducer), {})
                    number = None if isinstance(value, list) else _number_or_zero(value)
                    if number is not None:
                        numbers[name] = number
        for scores in samples.values():
            add_judges(self._judges, ScoresOnly(scores))
        self._headline = self._find_headline()
        for name, scores in samples.items():
            self._file.lines += 1
            place = f"!{REDUCTIONS}"
            self._file.note("F057", "the log has no samples, only a score for each", self._file.lines, place)
            given = ids[name] if isinstance(ids[name], int | str) else name
            yield from self._record(self._file.lines, place, InspectSample(id=given, scores=scores))

    # -- the log as a whole -----------------------------------------------------------------------------------------

    def _tell_beginning(self) -> None:
        said = self._said
        if self._file.read_as.aim is None:
            names = [*self._known_judges(), *said.metric_names]
            telling = next((name for name in names if _OF_ATTACKS.search(name)), None)
            if telling is not None:
                what = (
                    f"a high score is taken as good news, although {clip(visible(telling), 60)} looks like an attack's"
                )
                self._file.note("F051", what)

    def _tell_end(self) -> None:
        file, header = self._file, self._log.header
        planned = at(header.eval, "dataset", "sample_ids")
        reached = {name for name, _ in self._seen}
        for one in dict.fromkeys(map(str, planned if isinstance(planned, list) else [])):
            if one not in reached:
                file.note("F034", "planned and not begun")
        if header.status != "success":
            status = header.status if header.status in ("cancelled", "error") else "started, killed or still going"
            file.note("F039", f"status {status}; the log has {counted(len(self._seen), 'sample')}")
        if self._numbered and self._seen:
            file.note("F053", "samples have numbers instead of ids")
        file.figures += figures_of(self._said.stated, self._scores)
        for figure in differing(file.figures):
            file.note("F040", clip(visible(figure.name), 80))
        if file.figures:
            file.differs.append(self._difference())

    def _difference(self) -> str:
        """Return what inspect's first figure is of, and what is not in it or counts otherwise."""
        first = self._file.figures[0]
        text = f"inspect reports {'nothing' if first.value is None else f'{first.value:.4g}'} as "
        text += clip(visible(first.name), 80)
        if first.n is not None:
            scored = f"{first.n:,} scores" if self._scores.epochs_apart else f"{first.n:,} samples with a score"
            text += f", the mean of {scored}"
        text += "; faircount counts entries, each by all of its epochs."
        counts = [
            (self._errors, "ended in an error"),
            (self._unscored, "without a score"),
            (self._blocked, "stopped by a content filter"),
        ]
        apart = [f"{count:,} {what}" for count, what in counts if count]
        if apart:
            text += f" Attempts that faircount counts apart: {', '.join(apart)}."
        if self._partial:
            text += f" Partial credit (P), {self._partial:,} times, is half a point there and a success here."
        return text


def _error_of(sample: InspectSample) -> str | None:
    """Return the error of a sample, None for none: an object in a sample, a text in a summary."""
    if sample.error is None:
        return None
    said = at(sample.error, "message") if isinstance(sample.error, dict) else sample.error
    return said if isinstance(said, str) and said else "no message"


def _number_or_zero(value: object) -> float | None:
    try:
        return number_of(value)
    except Unreadable:
        return 0.0


def _is_unscored(value: object) -> bool:
    return not isinstance(value, list) and _number_or_zero(value) is None


def _is_short(value: object) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and 0 < len(value) <= _LONGEST_FACET)


def _short(value: object) -> str:
    return clip(str(value), _LONGEST_FACET)


def _entry(task: str, name: str) -> str:
    entry = f"{task}/{name}" if task else name
    return (
        entry
        if len(entry) <= _LONGEST_ID
        else f"{entry[:_LONGEST_ID]}-{xxh3_64_hexdigest(entry.encode(errors='replace'))}"
    )


def _content(choice: Choice) -> Any:
    return None if choice.message is None else choice.message.content


def _asked(sample: InspectSample) -> list[dict[str, str]]:
    """Return what was said before the first answer: the input, with what solvers put before it.

    Later messages of an agent differ from run to run, and so are not what a sample asks.
    """
    before = []
    for message in sample.messages:
        if message.role == "assistant" and message.source != "input":
            break
        before.append(message)
    if not any(message.role == "user" for message in before):
        given = sample.input
        before = given if isinstance(given, list) else [] if given is None else [InspectMessage("user", given)]
    return [{"role": one.role, "content": text_of(one.content, sample.attachments)} for one in before]
