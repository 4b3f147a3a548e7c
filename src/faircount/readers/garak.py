"""Reads garak's reports and hit logs (`*.report.jsonl`, `*.hitlog.jsonl`) of all versions up to 0.17.1.

A report has a line for each attempt when its answers came (status 1), and the same again when the detectors had judged
them (status 2). A row is the second; where it never came, because the run was aborted, it is the first, unjudged. What
garak calls an attempt is an entry here, and each of its outputs an attempt; each detector is a judge. The detector
that the probe names as its own decides, or else the first one. Lines depend on others (a probe's own detector, the
second line of an attempt), so a report is read by one process, in one pass.

A hit log holds hits alone: its rows are evidence, and no rate can be made of them. Nothing here loads garak.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from xxhash import xxh3_64_hexdigest

from faircount.core.findings import Notes
from faircount.core.text import clip
from faircount.core.verdict import Decision, Verdict
from faircount.io.lenient_json import BadLine, parse
from faircount.io.streams import TOO_LONG as LINE_TOO_LONG
from faircount.io.streams import Block, Stream, blocks, open_bytes
from faircount.ledger.schema import Batch, Fields, LedgerRow, checksum
from faircount.readers.attempt_rows import AttemptFacts, RowMaker, answer_of, as_json
from faircount.readers.journal_reader import decoded_lines
from faircount.readers.journal_rows import TOO_LONG, lines_of, pieces_of
from faircount.readers.registry import Found, Probe, Reader, keys_of
from faircount.readers.result_rows import KNOWN_FIELDS
from faircount.readers.rows import ReadOptions
from faircount.readers.run_rows import BAD, Attacked, RunAttempt, RunFile, encoded, number_of, row_of_entry

GARAK = "garak"
HIT_LOG = "garak hit log"
THRESHOLD = 0.5
"""garak passes a score below `run.eval_threshold`, which no report records; this is its default."""
NO_OUTPUT = "garak recorded no output"
NOT_COMPLETE, OTHER_COUNTS, SEVERAL_RUNS, UNMATCHED_SCORES = "F039", "F040", "F041", "F042"

_ATTEMPT, _STARTED, _COMPLETE = "attempt", 1, 2
_BATCH_ROWS = 5_000
_ID_DIGITS = 12
_LONGEST_FAMILY = 160
_LONGEST_FACET = 200
_MOST_SUBJECTS = 200
_PREFIX = "detector."
"""Before the names of detectors in the eval lines of garak up to 0.10.3.1."""
_REPORT_LINE = re.compile(rb'^[ \t]*\{[ \t]*"entry_type"[ \t]*:', re.MULTILINE)
_HIT_KEYS = frozenset({"attempt_id", "probe", "detector", "score"})

_FIELDS = frozenset({"probe", "module", "goal", "intent", "tier", "buff", "lang", "target"})
"""The fields of an entry beside a probe's tags, which are fields by their taxonomy."""


# -- lines ------------------------------------------------------------------------------------------------------

# As much of a line as is counted; what else it holds is not decoded: `conversations` repeats prompt and outputs.


class _GarakMessage(Struct, gc=False):
    text: Any = None
    lang: Any = None
    data_path: Any = None
    data_checksum: Any = None


class _GarakTurn(Struct, gc=False):
    role: Any = None
    content: _GarakMessage | str | None = None


class _GarakPrompt(Struct, gc=False):
    turns: list[_GarakTurn] | None = None
    text: Any = None
    lang: Any = None


class _NotesOfAttempt(Struct, gc=False):
    triggers: Any = None
    buff_creator: Any = None


class _ReportLine(Struct, gc=False):
    entry_type: str
    uuid: str | int | None = None
    seq: int | None = None
    status: int | None = None
    probe_classname: str | None = None
    prompt: _GarakPrompt | str | None = None
    outputs: list[_GarakMessage | str | None] | None = None
    detector_results: dict[str, list[Any] | None] | None = None
    notes: _NotesOfAttempt | None = None
    goal: Any = None
    intent: Any = None
    probe: str | None = None
    detector: str | None = None
    passed: int | None = None
    fails: int | None = None
    nones: int | None = None
    total_evaluated: int | None = None
    total: int | None = None
    confidence_lower: float | None = None
    confidence_upper: float | None = None
    run: Any = None
    garak_version: Any = None
    plugin_cache: Any = None
    digest: Any = msgspec.field(default=None, name="eval")
    target_type: Any = msgspec.field(default=None, name="plugins.target_type")
    target_name: Any = msgspec.field(default=None, name="plugins.target_name")
    model_type: Any = msgspec.field(default=None, name="plugins.model_type")
    model_name: Any = msgspec.field(default=None, name="plugins.model_name")


class _HitLine(Struct, gc=False):
    probe: str
    detector: str
    attempt_id: str | int
    score: Any = None
    attempt_seq: int | None = None
    attempt_idx: int | None = None
    prompt: _GarakPrompt | str | None = None
    output: _GarakMessage | str | None = None
    triggers: Any = None
    goal: Any = None
    generator: Any = None
    run_id: Any = None


_decoder = msgspec.json.Decoder(_ReportLine)
_hit_decoder = msgspec.json.Decoder(_HitLine)
_NO_NOTES = _NotesOfAttempt()
_NAMES = {field.encode_name: field for field in msgspec.structs.fields(_ReportLine)}
_HIT_NAMES = {field.encode_name: field for field in msgspec.structs.fields(_HitLine)}


def _read_line(line: bytes, number: int, notes: Notes) -> _ReportLine:
    """Return a line that the strict decoder refuses, with what has the wrong type left out."""
    given = _parsed(line, number, notes)
    if not isinstance(given.get("entry_type"), str):
        raise BadLine("it has no entry_type")
    if given["entry_type"] == _ATTEMPT and not isinstance(given.get("probe_classname"), str):
        raise BadLine("the attempt does not name its probe")
    outputs = given.get("outputs")
    if outputs is not None and not isinstance(outputs, list):
        raise BadLine("outputs is not a list")
    values = _of_right_type(given, _NAMES, number, notes)
    if isinstance(outputs, list) and "outputs" not in values:
        values["outputs"] = [_message(one) for one in outputs]
    return _ReportLine(**values)


def _parsed(line: bytes, number: int, notes: Notes) -> dict[str, Any]:
    given, problems = parse(line)
    if problems.not_finite:
        notes.add("F012", "", number)
    for key in problems.duplicate_keys:
        notes.add("F011", key, number)
    # Before 0.13.0, a prompt could be a list of messages.
    if isinstance(given.get("prompt"), list):
        given["prompt"] = {"turns": given["prompt"]}
    return given


def _of_right_type(given: Mapping[str, Any], names: Mapping[str, Any], number: int, notes: Notes) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, field in names.items():
        value = given.get(name)
        if value is None:
            continue
        try:
            values[field.name] = msgspec.convert(value, field.type)
        except (msgspec.ValidationError, UnicodeEncodeError, RecursionError):
            if name == "prompt":
                values[field.name] = _GarakPrompt(text=as_json(value).decode("utf-8", "replace"))
            if name == "detector_results" and isinstance(value, dict):
                values[field.name] = {str(key): one for key, one in value.items() if isinstance(one, list)}
            notes.add("F027", name, number)
    return values


def _message(value: Any) -> _GarakMessage | str | None:
    if value is None or isinstance(value, str):
        return value
    try:
        return msgspec.convert(value, _GarakMessage)
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError):
        return _GarakMessage(text=as_json(value).decode("utf-8", "replace"))


def _key(line: _ReportLine) -> Any:
    """Return what the two lines of an attempt have in common."""
    return line.uuid if line.uuid is not None else (line.probe_classname, line.seq)


# -- what a line means ------------------------------------------------------------------------------------------


def _text_of(message: _GarakMessage | str | None) -> str | None:
    """Return what a message says; of a picture or a sound, where it is. None where there is no answer."""
    if message is None or isinstance(message, str):
        return message
    text = message.text if message.text is not None else message.data_path
    return text if text is None or isinstance(text, str) else as_json(text).decode("utf-8", "replace")


def _messages(prompt: _GarakPrompt | str | None) -> list[dict[str, Any]]:
    """Return a prompt as messages, whatever version wrote it."""
    if prompt is None or isinstance(prompt, str):
        return [] if prompt is None else [{"role": "user", "content": prompt}]
    if prompt.turns is None:
        return [{"role": "user", "content": _text_of(_GarakMessage(prompt.text))}]
    found = []
    for turn in prompt.turns:
        content = turn.content
        message = {"role": turn.role if isinstance(turn.role, str) else "user", "content": _text_of(content)}
        if isinstance(content, _GarakMessage) and content.data_checksum is not None:
            message["data"] = str(content.data_checksum)
        found.append(message)
    return found


def _asked(messages: Sequence[Mapping[str, Any]]) -> Any:
    asked = [message["content"] for message in messages if message["role"] == "user"]
    return asked[-1] if asked else messages[-1]["content"] if messages else None


def _language(prompt: _GarakPrompt | str | None) -> str | None:
    if not isinstance(prompt, _GarakPrompt):
        return None
    contents = [turn.content for turn in prompt.turns or () if isinstance(turn.content, _GarakMessage)]
    found = contents[-1].lang if contents else prompt.lang
    return found if isinstance(found, str) else None


def _triggers(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _family(probe: str, goal: Any, triggers: Sequence[str]) -> str:
    """Return what an entry is a variant of: what the answer should hold, or else what the probe is after."""
    text = "; ".join(triggers) if triggers else f"{probe}: {goal}" if isinstance(goal, str) and goal else probe
    if len(text) <= _LONGEST_FAMILY:
        return text
    return f"{text[:_LONGEST_FAMILY]}… {xxh3_64_hexdigest(text.encode('utf-8', 'surrogatepass'))}"


def score_of(value: Any) -> float | None:
    """Return a score from 0 to 1; None for one that is missing or cannot be one."""
    score = float(value) if isinstance(value, bool) else number_of(value)
    return score if score is not None and 0 <= score <= 1 else None


def _plain(detector: str) -> str:
    return detector.removeprefix(_PREFIX)


class _Probes:
    """What the plugin_cache lines of a report say of its probes: their own detectors, and fields of their entries."""

    def __init__(self) -> None:
        self._detectors: dict[str, str] = {}
        self._fields: dict[str, dict[str, str]] = {}

    def add(self, cache: Any) -> None:
        probes = cache.get("probes") if isinstance(cache, dict) else None
        for name, metadata in probes.items() if isinstance(probes, dict) else ():
            if not isinstance(metadata, dict):
                continue
            probe, own = name.removeprefix("probes."), metadata.get("primary_detector")
            if isinstance(own, str):
                self._detectors[probe] = _plain(own)
            self._fields[probe] = dict(_probe_fields(metadata))

    def deciding(self, probe: str, judged: Iterable[str]) -> str | None:
        """Return the detector that decides among those that judged."""
        names = list(judged)
        own = self._detectors.get(probe)
        return own if own in names else next(iter(names), None)

    def fields(self, probe: str) -> dict[str, str]:
        """Return what is known of a probe."""
        return self._fields.get(probe, {})


def _probe_fields(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("tier", "lang"):
        value = metadata.get(name)
        if isinstance(value, int | str) and not isinstance(value, bool):
            yield name, str(value)
    by_taxonomy: dict[str, list[str]] = {}
    tags = metadata.get("tags")
    for tag in tags if isinstance(tags, list) else ():
        taxonomy, colon, rest = str(tag).partition(":")
        if colon and rest:
            by_taxonomy.setdefault(taxonomy, []).append(rest)
    for taxonomy, names in by_taxonomy.items():
        taken = taxonomy in KNOWN_FIELDS or taxonomy in _FIELDS
        yield f"tag.{taxonomy}" if taken else taxonomy, clip(", ".join(names), _LONGEST_FACET)


class _EntryNames:
    """Ids of entries: the same in the next run of the same probes, and different for a prompt that a probe repeats."""

    def __init__(self) -> None:
        self._places: dict[str, dict[Any, int]] = {}

    def name(self, probe: str, messages: Sequence[Mapping[str, Any]], triggers: Sequence[str], place: Any) -> str:
        """Return the id of an entry; `place` distinguishes entries of a probe with the same prompt and triggers."""
        turns = [[*message.values()] for message in messages]
        digest = xxh3_64_hexdigest(as_json([probe, turns, list(triggers)]))[:_ID_DIGITS]
        name = f"{probe}:{digest}"
        places = self._places.setdefault(name, {})
        number = places.setdefault(place, len(places) + 1)
        return name if number == 1 else f"{name}#{number}"


class _GarakEntry(Struct, gc=False):
    """An attempt of garak's as an entry: where it is, what was asked, and what came of each generation."""

    line: int
    name: str
    long_id: str
    messages: list[dict[str, Any]]
    asked: Any
    judge: str | None
    fields: dict[str, Any]
    answers: list[str | None]
    verdicts: list[tuple[Verdict, ...]]
    run: str | None = None
    """The run that it belongs to, where the file holds several."""

    def attempts(self) -> Iterator[tuple[str | None, bool | None, tuple[Verdict, ...]]]:
        """Yield each answer, whether it is a success, and what the detectors said."""
        for answer, verdicts in zip(self.answers, self.verdicts, strict=True):
            yield answer, next((one.success for one in verdicts if one.judge == self.judge), None), verdicts


class PairCounts(Struct):
    """What garak counts of a probe and a detector, over all scores."""

    passed: int = 0
    fails: int = 0
    nones: int = 0


class EvalLine(Struct, frozen=True):
    """What an eval line says of a probe and a detector."""

    line: int
    passed: int
    total: int
    lower: float | None
    upper: float | None


class GroupScore(Struct, frozen=True):
    """The score of a group of probes in garak's digest, and the function by which it was made."""

    group: str
    score: float | None
    function: str | None


def _group_scores(digest: Any) -> Iterator[GroupScore]:
    for group, scores in digest.items() if isinstance(digest, dict) else ():
        summary = scores.get("_summary") if isinstance(scores, dict) else None
        if isinstance(summary, dict):
            function = summary.get("group_aggregation_function")
            yield GroupScore(
                str(group), score_of(summary.get("score")), function if isinstance(function, str) else None
            )


class ReportState:
    """The lines of a report, added one by one: what each attempt comes to, and what the file says of itself."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.version: str | None = None
        self.target: str | None = None
        self.targets: set[str | None] = set()
        self.counts: dict[tuple[str, str, str], PairCounts] = {}
        self.evaluated: dict[tuple[str, str, str], list[EvalLine]] = {}
        self.groups: tuple[GroupScore, ...] = ()
        self._run = ""
        self._names: dict[str, _EntryNames] = {}
        self._completed = True
        self._probes = _Probes()
        self.complete: set[Any] = set()
        """The attempts that detectors have judged."""

    def add(self, number: int, line: _ReportLine) -> _GarakEntry | None:
        """Add a line, and return the entry if it is an attempt."""
        kind = line.entry_type
        if kind == _ATTEMPT:
            return self._entry(number, line)
        if kind == "eval":
            self._add_eval(number, line)
        elif kind == "plugin_cache":
            self._probes.add(line.plugin_cache)
        elif kind == "init":
            self._begin(number, line)
        elif kind in ("completion", "digest"):
            # What aggregate_reports writes has no completion, but a digest.
            self._completed = True
            if kind == "digest":
                self.groups = tuple(_group_scores(line.digest))
        elif kind == "start_run setup":
            names = (line.target_type or line.model_type, line.target_name or line.model_name)
            self.target = " ".join(name for name in names if isinstance(name, str) and name) or self.target
            self.targets.add(self.target)
        return None

    def _begin(self, number: int, line: _ReportLine) -> None:
        self._end_of_run(number)
        self._completed = False
        if isinstance(line.garak_version, str):
            self.version = clip(line.garak_version, 40)
        run = clip(line.run, 60) if isinstance(line.run, str) else str(len(self._names) + 1)
        if run not in self._names and self._names:
            self.notes.add(SEVERAL_RUNS, "", number)
        # A run may be there twice, where somebody appended a copy: its entries are the same then.
        self._run = run
        self._names.setdefault(run, _EntryNames())

    def _entry(self, number: int, line: _ReportLine) -> _GarakEntry:
        probe = line.probe_classname
        if probe is None:
            raise BadLine("the attempt does not name its probe")
        noted = line.notes or _NO_NOTES
        messages, triggers = _messages(line.prompt), _triggers(noted.triggers)
        place = line.seq if line.seq is not None else line.uuid
        scores = {_plain(name): one or [] for name, one in (line.detector_results or {}).items()}
        answers = [_text_of(output) for output in line.outputs or ()] or [None]
        known = self._probes.fields(probe)
        fields = {
            "probe": probe,
            "module": probe.partition(".")[0],
            "goal": line.goal if isinstance(line.goal, str) else None,
            "intent": line.intent if isinstance(line.intent, str) else None,
            **known,
            "lang": _language(line.prompt) or known.get("lang"),
            "buff": noted.buff_creator if isinstance(noted.buff_creator, str) else None,
            "target": self.target,
        }
        if line.status == _COMPLETE and _key(line) not in self.complete:
            self.complete.add(_key(line))
            self._count(number, probe, scores, len(line.outputs or ()))
        return _GarakEntry(
            line=number,
            name=self._names.setdefault(self._run, _EntryNames()).name(probe, messages, triggers, place),
            long_id=_family(probe, line.goal, triggers),
            messages=messages,
            asked=_asked(messages),
            judge=self._probes.deciding(probe, scores),
            fields=fields,
            answers=answers,
            verdicts=self._verdicts(number, scores, len(answers)),
            run=None if self._run == next(iter(self._names)) else self._run,
        )

    def _verdicts(self, number: int, scores: Mapping[str, Sequence[Any]], outputs: int) -> list[tuple[Verdict, ...]]:
        found: list[list[Verdict]] = [[] for _ in range(outputs)]
        for detector, values in scores.items():
            for place in range(outputs):
                value = values[place] if place < len(values) else None
                score = score_of(value)
                if value is not None and score is None:
                    self.notes.add("F004", "a score that is not from 0 to 1", number)
                decision = None if score is None else Decision.of(score >= THRESHOLD)
                found[place].append(Verdict(decision, score, judge=detector))
        return [tuple(each) for each in found]

    def _count(self, number: int, probe: str, scores: Mapping[str, Sequence[Any]], outputs: int) -> None:
        """Count scores as garak does: all of them, whatever the outputs are."""
        for detector, values in scores.items():
            if len(values) != outputs:
                self._note(UNMATCHED_SCORES, detector, number)
            counts = self.counts.setdefault((self._run, probe, detector), PairCounts())
            for value in values:
                score = None if value is None else number_of(value)
                if score is None:
                    counts.nones += 1
                elif score < THRESHOLD:
                    counts.passed += 1
                else:
                    counts.fails += 1

    def _add_eval(self, number: int, line: _ReportLine) -> None:
        if line.probe is None or line.detector is None or line.passed is None:
            self.notes.add("F027", "eval", number)
            return
        total = line.total_evaluated if line.total_evaluated is not None else line.total
        if total is None:
            total = line.passed + (line.fails or 0)
        evaluated = EvalLine(number, line.passed, total, line.confidence_lower, line.confidence_upper)
        self.evaluated.setdefault((self._run, line.probe, _plain(line.detector)), []).append(evaluated)

    def finish(self, number: int) -> None:
        """Note how the file ended, and where garak's own counts are not those of its attempts."""
        self._end_of_run(number)
        for key, lines in self.evaluated.items():
            counts = self.counts.get(key, PairCounts())
            evaluated = counts.passed + counts.fails
            # aggregate_reports leaves the eval lines of all its runs as they are; garak up to 0.13.3 has one `total`.
            sums = (sum(one.passed for one in lines), sum(one.total for one in lines))
            agreed = {(counts.passed, evaluated), (counts.passed, evaluated + counts.nones)}
            if sums not in agreed and (lines[-1].passed, lines[-1].total) not in agreed:
                _, probe, detector = key
                what = (
                    f"{probe} / {detector}: garak counted {lines[-1].passed} passed of {lines[-1].total}, its attempts "
                    f"say {counts.passed} of {evaluated}"
                )
                self._note(OTHER_COUNTS, what, lines[-1].line)

    def _note(self, code: str, subject: str, number: int) -> None:
        """Note a problem; of very many subjects, which only a hostile file has, not each by itself."""
        many = len(self.notes.counts) >= _MOST_SUBJECTS
        self.notes.add(code, "and others" if many else subject, number)

    def _end_of_run(self, number: int) -> None:
        if not self._completed:
            self.notes.add(NOT_COMPLETE, "", number)


# -- the reader -------------------------------------------------------------------------------------------------


def read_state(path: str, max_line: int) -> ReportState:
    """Read a report for garak's own figures alone."""
    stream, found = open_bytes(path, path), Found(Notes(path))
    state = ReportState(found.notes)
    for _ in report_lines(stream, state, found, max_line):
        pass
    return state


def report_lines(
    stream: Stream, state: ReportState, found: Found, max_line: int
) -> Iterator[tuple[_ReportLine, _GarakEntry]]:
    """Yield the attempts of a report in their order; `found` hears how all lines fared."""
    for block in blocks(stream, max_line):
        records = None if block.buffer is LINE_TOO_LONG else decoded_lines(block, _decoder)
        for number, record in enumerate(_patiently(block, found) if records is None else records, found.lines + 1):
            try:
                entry = None if record is None else state.add(number, record)
            except BadLine as bad:
                found.add_bad(str(bad), number)
                continue
            if entry is not None and record is not None:
                yield record, entry
        found.lines += len(block.lines) if records is None else len(records)
    if stream.truncated:
        found.notes.add("F002", stream.truncated, found.lines)


def _patiently(block: Block, found: Found) -> Iterator[_ReportLine | None]:
    for number, line in enumerate(block.lines, found.lines + 1):
        if line is not LINE_TOO_LONG and not line.strip():
            found.blank += 1
            yield None
            continue
        try:
            yield _decoded(line, number, found.notes)
        except BadLine as bad:
            found.add_bad(str(bad), number)
            yield None


def _decoded(line: bytes, number: int, notes: Notes) -> _ReportLine:
    if line is LINE_TOO_LONG:
        raise BadLine(TOO_LONG)
    text = line.removeprefix(BOM_UTF8) if number == 1 else line
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_line(text, number, notes)


class GarakReader(Reader):
    """Reads garak's reports."""

    name = tool = GARAK
    noun = "line of a garak report"
    of_models = True
    fields = Fields(
        first=("probe",),
        facets=("probe", "intent", "owasp", "lang", "judge_name", "target"),
        others_on_request=True,
        case=("probe",),
        family=("trigger", "probe and goal"),
    )

    def sniff(self, probe: Probe) -> bool:
        """Return whether a file has lines with an entry_type; its first line may be damaged."""
        return bool(_REPORT_LINE.search(probe.head.removeprefix(BOM_UTF8))) or "entry_type" in keys_of(probe.head)

    def read(self, stream: Stream, options: ReadOptions, found: Found) -> Iterator[Batch]:
        """Yield the rows of a report: those of complete attempts as they come, those of others at the end."""
        state, maker = ReportState(found.notes), RowMaker(options, found.notes)
        begun: dict[Any, _GarakEntry] = {}
        rows: list[LedgerRow] = []

        def add(entry: _GarakEntry) -> None:
            if not found.excludes(entry.line):
                found.good += 1
                rows.append(_ledger_row(maker, entry))

        for line, entry in report_lines(stream, state, found, options.max_line):
            if line.status == _COMPLETE:
                begun.pop(_key(line), None)
                add(entry)
            elif _key(line) not in state.complete:
                begun.setdefault(_key(line), entry)
            if len(rows) >= _BATCH_ROWS:
                yield _batch(rows, maker)
                rows.clear()
        for entry in begun.values():
            add(entry)
        state.finish(found.lines)
        found.version, found.targets = state.version, state.targets
        yield _batch(rows, maker)

    def rows(self, stream: Stream, head: bytes, again: Callable[[], Iterator[bytes]] | None) -> RunFile | None:
        """Let a stream give each attempt as a row that people read."""
        del head
        run = RunFile(GARAK, GARAK, aim="attack")
        stream.chunks = pieces_of(_shown_rows(stream.chunks, again, run, stream.name))
        return run


def _batch(rows: Sequence[LedgerRow], maker: RowMaker) -> Batch:
    batch = Batch()
    batch.extend(rows, maker.facets)
    return batch


def _ledger_row(maker: RowMaker, entry: _GarakEntry) -> LedgerRow:
    attempts = []
    for number, (answer, success, verdicts) in enumerate(entry.attempts()):
        response, kind = answer_of(as_json(answer))
        attempts.append(
            AttemptFacts(
                number=number,
                success=None if answer is None else success,
                error=NO_OUTPUT if answer is None else None,
                response=response,
                answer=kind,
                line=entry.line,
                verdicts=verdicts,
            )
        )
    row = maker.entry_row(
        entry.line,
        entry.name,
        entry.long_id,
        entry.fields,
        attempts,
        text=checksum(as_json(entry.asked)),
        judges=entry.judge,
        thresholds=dict.fromkeys([one.judge for one in attempts[0].verdicts], THRESHOLD),
    )
    return row if entry.run is None else replace(row, result_origin=entry.run)


def _shown_row(entry: _GarakEntry) -> bytes:
    """Return an entry as a row that people read, with the fields of `result_rows`."""
    model = entry.fields.get("target")
    attempts = [
        RunAttempt(
            number=number,
            output=None if answer is None else {"output": answer},
            error=NO_OUTPUT if answer is None else None,
            success=None if answer is None else success,
            verdicts=verdicts,
            model=model,
            messages=entry.messages,
        )
        for number, (answer, success, verdicts) in enumerate(entry.attempts())
    ]
    described = {"metrics": [{"name": entry.judge}] if entry.judge is not None else []}
    fields = {"long_id": entry.long_id, **{name: value for name, value in entry.fields.items() if value is not None}}
    row = row_of_entry(Attacked(entry.name, described, fields, entry.asked, attempts))
    return encoded(row if entry.run is None else {**row, "result_origin": entry.run})


# -- rows that people read --------------------------------------------------------------------------------------


def _shown_rows(
    chunks: Iterator[bytes], again: Callable[[], Iterator[bytes]] | None, run: RunFile, name: str
) -> Iterator[bytes]:
    """Yield for every line of a report the row that is there, or nothing: `again` opens it a second time."""
    if again is not None:
        yield from _second_pass(again(), _complete(chunks), run, name)
        return
    import tempfile

    with tempfile.TemporaryFile(prefix="faircount-") as copy:
        complete = _complete(_copied(chunks, copy.write))
        copy.seek(0)
        yield from _second_pass(iter(lambda: copy.read(1 << 20), b""), complete, run, name)


def _copied(chunks: Iterator[bytes], write: Callable[[bytes], object]) -> Iterator[bytes]:
    for chunk in chunks:
        write(chunk)
        yield chunk


def _complete(chunks: Iterable[bytes]) -> set[Any]:
    """Return the attempts of a report that detectors have judged."""
    found, ignored = set(), Notes("")
    for number, line in enumerate(lines_of(chunks), start=1):
        try:
            record = None if line is None or b'"attempt"' not in line else _decoded(line.rstrip(b"\n"), number, ignored)
        except BadLine:
            continue
        if record is not None and record.entry_type == _ATTEMPT and record.status == _COMPLETE:
            found.add(_key(record))
    return found


def _second_pass(chunks: Iterable[bytes], complete: set[Any], run: RunFile, name: str) -> Iterator[bytes]:
    notes = Notes(name)
    state, begun = ReportState(notes), set[Any]()
    number = 0
    for number, line in enumerate(lines_of(chunks), start=1):
        try:
            if line is None:
                raise BadLine(TOO_LONG)
            if not line.strip():
                run.blank_lines += 1
                yield b""
                continue
            record = _decoded(line.rstrip(b"\n"), number, notes)
            entry = state.add(number, record)
        except BadLine as bad:
            run.bad[number] = str(bad)
            yield BAD
            continue
        key = _key(record)
        if entry is None or (record.status != _COMPLETE and (key in complete or key in begun)):
            yield b""
            continue
        begun.add(key)
        yield _shown_row(entry)
    state.finish(number)
    run.version, run.target = state.version, next(iter(state.targets)) if len(state.targets) == 1 else None
    run.problems += [(code, what, line) for (code, what), lines in notes.lines.items() for line in lines]


# -- hit logs ---------------------------------------------------------------------------------------------------


def _hit(line: bytes | None, number: int, notes: Notes) -> _HitLine:
    if line is None or line is LINE_TOO_LONG:
        raise BadLine(TOO_LONG)
    text = line.removeprefix(BOM_UTF8) if number == 1 else line
    try:
        return _hit_decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        given = _parsed(text, number, notes)
    if not all(isinstance(given.get(name), str) for name in ("probe", "detector", "attempt_id")):
        raise BadLine("it does not name its probe, detector and attempt")
    return _HitLine(**_of_right_type(given, _HIT_NAMES, number, notes))


def _hits(
    lines: Iterable[tuple[int, bytes | None]], notes: Notes, bad: Callable[[str, int], None]
) -> Iterator[_GarakEntry]:
    """Yield the hits of one attempt and detector together, as an entry on the line of the last of them."""
    names, group = _EntryNames(), list[tuple[int, _HitLine]]()
    for number, line in lines:
        if line is not None and line is not LINE_TOO_LONG and not line.strip():
            continue
        try:
            hit = _hit(line, number, notes)
        except BadLine as reason:
            bad(str(reason), number)
            continue
        if group and (hit.attempt_id, hit.detector) != (group[-1][1].attempt_id, group[-1][1].detector):
            yield _hit_entry(group, names)
            group = []
        group.append((number, hit))
    if group:
        yield _hit_entry(group, names)


def _hit_entry(group: Sequence[tuple[int, _HitLine]], names: _EntryNames) -> _GarakEntry:
    number, hit = group[-1]
    messages, triggers, detector = _messages(hit.prompt), _triggers(hit.triggers), _plain(hit.detector)
    place = hit.attempt_seq if hit.attempt_seq is not None else hit.attempt_id
    scores = [score_of(one.score) for _, one in group]
    return _GarakEntry(
        line=number,
        # Another detector's hits on the same attempt are evidence of their own.
        name=f"{names.name(hit.probe, messages, triggers, place)} {detector}",
        long_id=_family(hit.probe, hit.goal, triggers),
        messages=messages,
        asked=_asked(messages),
        judge=detector,
        fields={
            "probe": hit.probe,
            "module": hit.probe.partition(".")[0],
            "goal": hit.goal if isinstance(hit.goal, str) else None,
            "lang": _language(hit.prompt),
            "target": hit.generator.removesuffix(" None") if isinstance(hit.generator, str) else None,
        },
        answers=[_text_of(one.output) or "" for _, one in group],
        verdicts=[(Verdict(Decision.HIT, score, judge=detector),) for score in scores],
    )


class HitLogReader(Reader):
    """Reads garak's hit logs, as evidence."""

    name = HIT_LOG
    tool = GARAK
    noun = "hit of garak's"
    has_denominator = False
    of_models = True
    fields = GarakReader.fields

    def sniff(self, probe: Probe) -> bool:
        """Return whether the first line is a hit."""
        return keys_of(probe.head.removeprefix(BOM_UTF8)) >= _HIT_KEYS

    def read(self, stream: Stream, options: ReadOptions, found: Found) -> Iterator[Batch]:
        """Yield a row for the hits of each attempt and detector."""
        maker, rows = RowMaker(options, found.notes), list[LedgerRow]()
        for entry in _hits(_numbered(stream, options.max_line, found), found.notes, found.add_bad):
            if found.excludes(entry.line):
                continue
            found.good += 1
            rows.append(_ledger_row(maker, entry))
            found.targets.add(entry.fields["target"])
            if len(rows) >= _BATCH_ROWS:
                yield _batch(rows, maker)
                rows.clear()
        yield _batch(rows, maker)

    def rows(self, stream: Stream, head: bytes, again: Callable[[], Iterator[bytes]] | None) -> RunFile | None:
        """Let a stream give the hits of each attempt as a row that people read."""
        del head, again
        run = RunFile(GARAK, HIT_LOG, aim="attack")
        stream.chunks = pieces_of(_shown_hits(stream.chunks, run, stream.name))
        return run


def _numbered(stream: Stream, max_line: int, found: Found) -> Iterator[tuple[int, bytes | None]]:
    for block in blocks(stream, max_line):
        for line in block.lines:
            found.lines += 1
            yield found.lines, line
    if stream.truncated:
        found.notes.add("F002", stream.truncated, found.lines)


def _shown_hits(chunks: Iterator[bytes], run: RunFile, name: str) -> Iterator[bytes]:
    notes, before, last = Notes(name), 0, [0]

    def lines() -> Iterator[tuple[int, bytes | None]]:
        for last[0], line in enumerate(lines_of(chunks), start=1):
            yield last[0], line

    def bad(reason: str, number: int) -> None:
        run.bad[number] = reason

    for entry in _hits(lines(), notes, bad):
        yield from _blank_or_bad(before, entry.line, run)
        yield _shown_row(entry)
        before = entry.line
    yield from _blank_or_bad(before, last[0] + 1, run)


def _blank_or_bad(before: int, number: int, run: RunFile) -> Iterator[bytes]:
    """Yield what is on the lines between two rows."""
    for line in range(before + 1, number):
        yield BAD if line in run.bad else b""
