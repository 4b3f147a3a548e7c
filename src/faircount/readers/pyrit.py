"""PyRIT's memory (SQLite) and its exports of conversations (JSON, CSV).

The memory has results of attacks: each is an attempt, and its outcome is PyRIT's, except where the target was stopped
or the judge failed. Exports, and a memory without results, have conversations only: each answer of the target is an
attempt, judged by its scores. Conversations with attackers, scorers and converters are never counted. Nothing is ever
written, and no cell is evaluated: those of a CSV file are Python literals, which are parsed.
"""

from __future__ import annotations

import ast
import math
import warnings
from codecs import BOM_UTF8
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Struct, field
from xxhash import xxh3_64_hexdigest

from faircount.core.errors import InputError
from faircount.core.findings import counted
from faircount.core.model import ToolFigure
from faircount.core.text import clip
from faircount.core.verdict import Decision, Verdict
from faircount.io.documents import DamagedDocument, JsonDocument
from faircount.io.lenient_json import BadLine, depth, parse
from faircount.io.records import Problem, Records, all_fields
from faircount.io.streams import raw_chunks, split_member
from faircount.ledger.schema import Fields
from faircount.ledger.sqlite_rows import MAGIC, ROW_ID, SqliteTables, has_unwritten_changes, is_cut_short, open_tables
from faircount.readers.registry import Probe, keys_of
from faircount.readers.tool_records import ToolFile, ToolReader, ToolRecord

_MESSAGES, _RESULTS, _SCORES = "PromptMemoryEntries", "AttackResultEntries", "ScoreEntries"
CSV_HEADER = b"id,role,conversation_id,sequence,timestamp,"
_LIST = ("converter_identifiers", "scores")
_DICT = ("labels", *(f"{one}_identifier" for one in ("prompt_target", "orchestrator", "attack", "scorer")))
_RUN_LABELS = ("op", "op_name", "operation", "operation_name", "run", "run_id")
_NOT_THE_CASE = frozenset(
    (*_RUN_LABELS, "operator", "user", "user_name", "username", "date", "time", "timestamp", "session", "session_id")
) | {"model", "model_name", "target", "endpoint", "deployment", "version"}
"""Labels that say which run it was, of what and whose: not part of a test case, which is the same in the next run."""
_IDENTITY_ONLY = frozenset(["hash", "eval_hash", "class_module", "__module__", "pyrit_version", "id"])
_MOST_LABELS, _LONGEST_LABEL, _LONGEST_ERROR, _LONGEST_FAMILY = 16, 200, 300, 60
_DEEPEST_LITERAL, _SHORT_CELL, _MOST_WRITERS = 30, 300, 50
_THRESHOLD = 0.5
_SCORER_FAILED = "Error in scorer"
_BLOCKED = "blocked by a content filter"
_NO_ANSWER = "no answer is recorded"
_TECHNICAL = ("processing", "unknown")
"""What `response_error` says of an answer that is none: the text is that of an exception."""

_FACETS = ("attack", "converter", "target", "harm_category", "operation")
_OWN_FIELDS = (*_FACETS, "score_category", "tries", "turns")


# -- messages and scores, as all versions have them -------------------------------------------------------------


class _Score(Struct, frozen=True, gc=False):
    """What a scorer said of a message."""

    judge: str
    success: bool | None
    value: float | None
    reason: str
    failed: str | None
    decides: bool
    """False for a scorer that looks for refusals: what it finds is no success of an attack."""
    category: str
    id: str = ""

    def verdict(self, success: bool | None) -> Verdict:
        """Return it as a verdict, with another decision where the result of the attack has one."""
        return Verdict(Decision.of(success), self.value, self.reason, error=self.failed, judge=self.judge)


class _Given(Struct, kw_only=True):
    """A part of a message as a file has it: one row of the table of messages."""

    conversation_id: str
    role: str
    id: str = ""
    sequence: int = 0
    labels: dict[str, Any] | None = None
    converter_identifiers: list[Any] | None = None
    prompt_target_identifier: dict[str, Any] | None = None
    orchestrator_identifier: dict[str, Any] | None = None
    attack_identifier: dict[str, Any] | None = None
    scorer_identifier: dict[str, Any] | None = None
    original_value: str | None = None
    converted_value: str | None = None
    converted_value_data_type: str | None = None
    response_error: str | None = None
    scores: list[Any] | None = None

    @property
    def text(self) -> str:
        """What was sent or answered."""
        return _content(self.original_value, self.converted_value, self.converted_value_data_type)

    @property
    def attack(self) -> Mapping[str, Any]:
        """What sent it: an orchestrator, in later versions an attack."""
        return self.attack_identifier or self.orchestrator_identifier or {}


_given = msgspec.json.Decoder(_Given)
_Pieces = Callable[[bool], Iterator[tuple[int, _Given]]]
"""Goes through the parts of messages in a file, with their numbers; problems are noted if that is asked for."""


def _content(original: Any, converted: Any, kind: Any) -> str:
    """Return what was sent or answered; of what is no text, its kind and where it is."""
    text = _text(original if converted is None else converted)
    return text if kind in (None, "", "text", "error") else f"[{kind}] {text}"


def _class_of(identifier: Any) -> str:
    """Return the name of the class that an identifier is of: 1.x has `class_name`, 0.x `__type__`."""
    found = identifier.get("class_name") or identifier.get("__type__") if isinstance(identifier, dict) else None
    return found if isinstance(found, str) else ""


def _target_of(identifier: Any) -> str:
    """Return what a target is called: its model, else its class."""
    if not isinstance(identifier, dict):
        return ""
    names = (identifier.get("underlying_model_name"), identifier.get("model_name"), _class_of(identifier))
    return next((name for name in names if isinstance(name, str) and name), "")


def _score_of(given: Any, file: ToolFile, number: int) -> _Score | None:
    """Return a score by its fields; nothing if it is no object."""
    if not isinstance(given, dict):
        return None
    scorer = given.get("scorer_class_identifier")
    categories = given.get("score_category")
    category = ", ".join(map(str, categories)) if isinstance(categories, list) else str(categories or "")
    name = _class_of(scorer) or "scorer"
    status = given.get("status")
    failed = None if status in (None, "complete", "completed") else f"the score is {status}"
    success, value = (None, None) if failed else _decided(given, file, number)
    return _Score(
        ":".join([name, *_details(scorer, category)]),
        success,
        value,
        _text(given.get("score_rationale")),
        failed,
        name == "TrueFalseInverterScorer" or ("refusal" not in name.casefold() and category.casefold() != "refusal"),
        clip(category, _LONGEST_LABEL),
        _key(given.get("id")),
    )


def _details(scorer: Any, category: str) -> list[str]:
    """Return what distinguishes scorers of one class: what they look for, and the model that they ask."""
    if not isinstance(scorer, dict) or "class_name" not in scorer:
        return [category] if category else []
    question, children = scorer.get("question"), scorer.get("children")
    model = children.get("prompt_target") if isinstance(children, dict) else None
    found = (scorer.get("substring"), question.get("category") if isinstance(question, dict) else "", _target_of(model))
    return [clip(one, _LONGEST_FAMILY) for one in found if isinstance(one, str) and one]


def _decided(given: Mapping[str, Any], file: ToolFile, number: int) -> tuple[bool | None, float | None]:
    """Return whether a score says that the attack worked, and its value where it has degrees."""
    said = given.get("score_value")
    word = str(said).strip().casefold() if isinstance(said, bool | str | int | float) else ""
    if word in ("true", "false"):
        return word == "true", None
    try:
        value = float(word)
    except (ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        file.note("F004", f"score {clip(word, 40)!r}", number, f"!{number}")
        return None, None
    threshold = file.read_as.threshold
    if threshold is None and not 0 <= value <= 1:
        file.note("F052", "float_scale", number, f"!{number}")
        return None, value
    return value >= (_THRESHOLD if threshold is None else threshold), value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _key(value: Any) -> str:
    """Return an id in one form: with and without dashes, it is the same."""
    return _text(value).replace("-", "").casefold()


def _digest(*parts: Any) -> str:
    return xxh3_64_hexdigest(msgspec.json.encode(_clean(parts), order="sorted"))


def _clean(value: Any) -> Any:
    """Return what describes a component, without what describes its record."""
    if isinstance(value, dict):
        return {_clean(str(key)): _clean(one) for key, one in value.items() if key not in _IDENTITY_ONLY}
    if isinstance(value, list | tuple):
        return [_clean(one) for one in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return value if value is None or isinstance(value, bool) else str(value)


def _case_labels(labels: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in labels.items() if key.casefold() not in _NOT_THE_CASE}


def _label_fields(labels: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for key, value in list(labels.items())[:_MOST_LABELS]:
        if isinstance(value, str | int | float | bool) and key not in _RUN_LABELS:
            found[f"label_{key}" if key in _OWN_FIELDS else key] = clip(str(value), _LONGEST_LABEL)
    return found


def _operation(labels: Mapping[str, Any]) -> str:
    return next((_text(labels[name]) for name in _RUN_LABELS if labels.get(name)), "")


def _family(objective: str) -> str:
    short = clip(objective, _LONGEST_FAMILY)
    return objective if short == objective else f"{short} {_digest(objective)}"


def _names(components: Iterable[Any]) -> str:
    return "+".join(filter(None, map(_class_of, components))) or "none"


def _run(operation: str, target: str, *, several: bool) -> str | None:
    return "@".join(filter(None, (operation, target if several or not operation else ""))) or None


# -- conversations without results ------------------------------------------------------------------------------


class _Outline(Struct):
    """What is kept of a conversation before its texts are read again."""

    pieces: int = 0
    starts: tuple[int, str] | None = None
    """The lowest number of a message, and its role."""
    first: tuple[int, str, str] | None = None
    """The first message of the user: its number, and itself in short, before and after converters."""
    asked: set[str] = field(default_factory=set)
    """All messages of the user in short, before converters."""
    said: set[str] = field(default_factory=set)
    """What was answered in short, and the texts in it if it is JSON."""
    answers: int = 0
    scores_given: int = 0
    """How many answers are a scorer's: JSON with a score."""
    target: str = ""
    system: str = ""
    of_a_scorer: bool = False
    attacker: str = ""
    """What the attacker that wrote its messages was told, in short."""
    others: bool = False
    """Whether it is one with an attacker, a scorer or a converter, and not with the target."""


class _Conversations:
    """The conversations of a file in two passes: what they are, then the answers of the target in them."""

    def __init__(self, file: ToolFile, pieces: _Pieces) -> None:
        self._file, self._pieces = file, pieces
        self._outlines: dict[str, _Outline] = defaultdict(_Outline)
        self._judges: dict[str, Counter[str]] = defaultdict(Counter)
        self._targets: set[str] = set()
        self._bad: set[int] = set()

    def records(self) -> Iterator[ToolRecord]:
        """Yield a record for each answer of the target; conversations come in the order of their ends."""
        file, seen = self._file, set[str]()
        damage: DamagedDocument | None = None
        try:
            for number, piece in self._pieces(True):
                if piece.id and _digest(piece.id) in seen:
                    self._bad.add(number)
                    file.refuse("the id of an earlier message", number, f"!{number}")
                    continue
                seen.add(_digest(piece.id))
                self._outline(number, piece)
        except DamagedDocument as broken:
            damage = broken
        del seen
        self._find_others()
        self._targets = {one.target for one in self._outlines.values() if one.target and not one.others}
        if len(self._targets) == 1:
            file.target = next(iter(self._targets))
        waiting: dict[str, list[tuple[int, _Given]]] = {}
        last = 0
        try:
            for number, piece in self._pieces(False):
                outline = self._outlines[piece.conversation_id]
                if number in self._bad or outline.others:
                    continue
                waiting.setdefault(piece.conversation_id, []).append((number, piece))
                outline.pieces -= 1
                if not outline.pieces:
                    for record in self._of_conversation(waiting.pop(piece.conversation_id), outline):
                        last = max(last, record.line)
                        # A file whose conversations are mixed: the number of the end stands for an earlier one.
                        yield record if record.line == last else msgspec.structs.replace(record, line=number)
        except DamagedDocument:
            pass
        if damage is not None:
            raise damage

    def _outline(self, number: int, piece: _Given) -> None:
        outline = self._outlines[piece.conversation_id]
        outline.pieces += 1
        outline.target = outline.target or _target_of(piece.prompt_target_identifier)
        outline.of_a_scorer = outline.of_a_scorer or bool(piece.scorer_identifier)
        if outline.starts is None or piece.sequence < outline.starts[0]:
            outline.starts = piece.sequence, piece.role
        original = piece.original_value or ""
        if piece.role == "user":
            outline.asked.add(_digest(original))
            if outline.first is None or piece.sequence < outline.first[0]:
                outline.first = piece.sequence, _digest(original), _digest(piece.converted_value or original)
        elif piece.role == "assistant":
            outline.answers += 1
            answer = piece.converted_value or original
            inside = _object(answer)
            outline.said.update(_digest(one) for one in (answer, *inside.values()) if isinstance(one, str) and one)
            outline.scores_given += "score_value" in inside
            for given in piece.scores or ():
                score = _score_of(given, _scratch(self._file), number)
                if score is not None and score.decides:
                    self._judges[_class_of(piece.attack)][score.judge] += 1
        elif piece.role in ("system", "developer"):
            outline.system = outline.system or _digest(original)

    def _find_others(self) -> None:
        """Find the conversations that are not with the target, and who wrote those that are.

        They begin with an instruction. A scorer answers with scores; what an attacker or a converter answers begins
        another conversation. Attackers may begin alike: the one that wrote most of a conversation is its own.
        """
        begun: dict[str, set[str]] = defaultdict(set)
        for name, outline in self._outlines.items():
            for text in outline.first[1:] if outline.first is not None else ():
                begun[text].add(name)
        writers: dict[str, list[str]] = defaultdict(list)
        for name, outline in self._outlines.items():
            instructed = outline.starts is not None and outline.starts[1] in ("system", "developer")
            if outline.of_a_scorer or (instructed and outline.answers and outline.scores_given == outline.answers):
                outline.others = True
            elif instructed:
                written = {other for text in outline.said for other in begun.get(text, ()) if other != name}
                outline.others = bool(written)
                for other in written:
                    # A converter writes what is sent, not what is meant.
                    if self._outlines[other].asked & outline.said and len(writers[other]) < _MOST_WRITERS:
                        writers[other].append(name)
        taken: set[str] = set()
        for name, found in writers.items():
            asked = self._outlines[name].asked
            best = max(found, key=lambda one: (len(self._outlines[one].said & asked), one not in taken))
            taken.add(best)
            writer = self._outlines[best]
            self._outlines[name].attacker = _digest(writer.system, writer.first[1] if writer.first else "")

    def _of_conversation(self, pieces: list[tuple[int, _Given]], outline: _Outline) -> Iterator[ToolRecord]:
        pieces.sort(key=lambda one: (one[1].sequence, one[0]))
        messages: list[dict[str, Any]] = []
        asked: list[_Given] = []
        answered = False
        for (_, role), parts in groupby(pieces, key=lambda one: (one[1].sequence, one[1].role)):
            numbered = list(parts)
            number, given = numbered[-1][0], [piece for _, piece in numbered]
            if role == "assistant":
                if asked:
                    yield self._attempt(number, given, messages, asked, outline)
                    answered = True
            elif role == "user":
                asked = asked or given
            messages = [*messages, {"role": role, "content": "\n".join(piece.text for piece in given)}]
        if asked and not answered:
            yield self._attempt(pieces[-1][0], (), messages, asked, outline)
        elif not asked:
            self._file.note("F034", "conversations without a request", pieces[-1][0], f"!{pieces[-1][0]}")

    def _attempt(
        self,
        number: int,
        answer: Sequence[_Given],
        messages: Sequence[Mapping[str, Any]],
        asked: Sequence[_Given],
        outline: _Outline,
    ) -> ToolRecord:
        first = asked[0]
        attack, labels = _class_of(first.attack), first.labels or {}
        target = _target_of(first.prompt_target_identifier)
        converters = first.converter_identifiers or []
        scores = [
            one for piece in answer for one in (_score_of(s, self._file, number) for s in piece.scores or ()) if one
        ]
        judges = self._judges[attack]
        headline = judges.most_common(1)[0][0] if judges else None
        deciding = [one for one in scores if one.decides]
        score = next((one for one in deciding if one.judge == headline), deciding[0] if deciding else None)
        text, marks = "\n".join(piece.text for piece in answer), {piece.response_error for piece in answer}
        error = _error_of(text) if marks.intersection(_TECHNICAL) else None if answer else _NO_ANSWER
        objective = "\n".join(piece.original_value or "" for piece in asked)
        case = outline.attacker or objective
        operation = _operation(labels)
        return ToolRecord(
            line=number,
            entry=f"{attack or 'conversation'}-{_digest(case, attack, converters, _case_labels(labels))}",
            family=f"{attack} {outline.attacker}" if outline.attacker else _family(objective),
            messages=messages,
            response=None if error is not None or "blocked" in marks else text,
            error=error,
            blocked=_BLOCKED if "blocked" in marks else None,
            success=None if score is None else score.success,
            verdicts=tuple(one.verdict(one.success) for one in scores),
            judge=headline if score is None else score.judge,
            target=target or None,
            run=_run(operation, target, several=len(self._targets) > 1),
            fields={
                **_label_fields(labels),
                "attack": attack or None,
                "converter": _names(converters),
                "target": target or None,
                "operation": operation or None,
                "score_category": score.category if score is not None and score.category else None,
            },
        )


def _object(text: str) -> dict[str, Any]:
    """Return the fields of an answer that is a JSON object, perhaps in a block of code; else none."""
    body = text.strip().removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    if not body.startswith("{"):
        return {}
    try:
        return parse(body.encode("utf-8", "surrogatepass"))[0]
    except BadLine:
        return {}


def _error_of(text: str) -> str:
    """Return what went wrong, without the lines of a traceback."""
    return clip(text.strip().partition("\n")[0], _LONGEST_ERROR) or "an error without a text"


# -- exports ----------------------------------------------------------------------------------------------------


class PyritExportReader(ToolReader):
    """Reads what `export_conversations` writes: a JSON array of messages, or the same as CSV."""

    name, tool, noun = "PyRIT export", "PyRIT", "PyRIT message"
    several_runs = of_models = True
    fields = Fields(
        first=("attack", "converter", "target"), facets=_FACETS, family=("PyRIT objective",), others_on_request=True
    )

    def sniff(self, probe: Probe) -> bool:
        """Return whether a file begins as an export does."""
        head = probe.head.removeprefix(BOM_UTF8).lstrip()
        if head.startswith(CSV_HEADER):
            return True
        return head.startswith(b"[") and keys_of(head) >= {"conversation_id", "role", "converted_value"}

    def place(self, path: str, line: int) -> str:
        """Return where a message is: it is known by its number."""
        return f"{path}!{line}"

    def records(self, file: ToolFile) -> Iterator[ToolRecord]:
        """Yield a record for each answer of the target."""
        with file.on_disk() as path:
            start = next(raw_chunks(path, file.name), b"").removeprefix(BOM_UTF8).lstrip()
            pieces = _in_array if start.startswith(b"[") else _in_table
            yield from _Conversations(file, partial(pieces, file, path)).records()


def _in_array(file: ToolFile, path: str, noting: bool) -> Iterator[tuple[int, _Given]]:
    """Yield the messages of a JSON array."""
    file = file if noting else _scratch(file)
    document = JsonDocument(raw_chunks(path, file.name), file.max_line)
    for number, part in enumerate(document.items(), 1):
        file.lines = number
        if part.problem:
            file.refuse(part.problem, number, f"!{number}")
        elif (given := file.decode(part.text, _given, number, f"!{number}")) is not None:
            yield number, given
    document.end()


def _in_table(file: ToolFile, path: str, noting: bool) -> Iterator[tuple[int, _Given]]:
    """Yield the messages of a CSV file, whose cells hold Python literals."""
    file = file if noting else _scratch(file)

    def report(problem: Problem, reason: str, line: int) -> None:
        if problem is Problem.BAD_LINE:
            file.lines += 1
            file.refuse(reason, file.lines, f":{line}")
        elif problem is Problem.CUT_SHORT:
            file.note("F002", reason, file.lines)

    for line, cells in Records(path, all_fields(), report, name=file.name, max_line=file.max_line):
        file.lines += 1
        try:
            text = msgspec.json.encode(_from_cells(cells))
        except (BadLine, ValueError, TypeError, OverflowError, RecursionError) as error:
            reason = str(error) if isinstance(error, BadLine) else "a cell that is no value"
            file.refuse(reason, file.lines, f":{line}")
            continue
        if (given := file.decode(text, _given, file.lines, f":{line}")) is not None:
            yield file.lines, given


def _scratch(file: ToolFile) -> ToolFile:
    """Return a file whose notes are dropped, for what was noted before."""
    return ToolFile(file.tool, file.reader, aim=file.aim, stream=file.stream, max_line=file.max_line)


def _from_cells(cells: Mapping[str, str | None]) -> dict[str, Any]:
    """Return a row of a CSV file with the values that its cells stand for."""
    values: dict[str, Any] = dict(cells)
    for name in (*_LIST, *_DICT):
        if (cell := cells.get(name)) is not None:
            values[name] = (_known_literal if len(cell) < _SHORT_CELL else _literal)(cell, name)
    sequence = cells.get("sequence")
    if sequence is not None and sequence.isdecimal() and len(sequence) < 10:
        values["sequence"] = int(sequence)
    return values


def _literal(cell: str, name: str) -> Any:
    """Return the value of a Python literal: nothing in it is called, looked up or computed."""
    if depth(cell.encode("utf-8", "replace")) > _DEEPEST_LITERAL:
        raise BadLine(f"{name} is nested too deeply")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a text with an escape that Python does not know
            return ast.literal_eval(cell)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise BadLine(f"{name} is no Python literal") from None


_known_literal = lru_cache(maxsize=1000)(_literal)
"""For short cells, of which most rows have the same: parsing takes most of the time."""


# -- the memory -------------------------------------------------------------------------------------------------

_RESULT_COLUMNS = (
    "conversation_id",
    "objective",
    "objective_sha256",
    "atomic_attack_identifier",
    "attack_identifier",
    "outcome",
    "outcome_reason",
    "error_message",
    "execution_time_ms",
    "last_response_id",
    "last_score_id",
    "pruned_conversation_ids",
    "adversarial_chat_conversation_ids",
    "labels",
    "targeted_harm_categories",
    "attribution_parent_id",
    "pyrit_version",
)
_RESULT_JSON = (
    "atomic_attack_identifier",
    "attack_identifier",
    "pruned_conversation_ids",
    "adversarial_chat_conversation_ids",
    "labels",
    "targeted_harm_categories",
)
_SCORE_COLUMNS = (
    "id",
    "score_value",
    "score_type",
    "score_category",
    "score_rationale",
    "scorer_class_identifier",
    "status",
)
_SCORE_JSON = ("score_category", "scorer_class_identifier")
_MESSAGE_COLUMNS = tuple(one.name for one in msgspec.structs.fields(_Given) if one.name != "scores")
_OUTCOMES = ("success", "failure", "undetermined", "error")
_WRAPPERS = ("AtomicAttack", "AttackTechnique")


class PyritReader(ToolReader):
    """Reads PyRIT's memory: a result of an attack is an attempt."""

    name = tool = "PyRIT"
    noun = "PyRIT attack result"
    several_runs = of_models = True
    fields = PyritExportReader.fields

    def sniff(self, probe: Probe) -> bool:
        """Return whether a file is an SQLite database with PyRIT's tables."""
        if not probe.head.startswith(MAGIC):
            return False
        if _MESSAGES.encode() in probe.head and _SCORES.encode() in probe.head:
            return True
        try:
            with open_tables(split_member(probe.path)[0]) as tables:
                return {_MESSAGES, _SCORES} <= set(tables.tables())
        except (InputError, OSError):
            return False

    def place(self, path: str, line: int) -> str:
        """Return where a result is: it is known by its number."""
        return f"{path}!{line}"

    def records(self, file: ToolFile) -> Iterator[ToolRecord]:
        """Yield a record for each result of an attack; without any, for each answer of the target."""
        with file.on_disk() as path, open_tables(path, file.name) as tables:
            if has_unwritten_changes(path):
                file.note("F002", "changes beside the database (-wal) are not read; close PyRIT and read it again")
            if is_cut_short(path):
                file.note("F002", "the database is cut short")
            memory = _Memory(file, tables)
            if memory.has_results:
                yield from memory.records()
            else:
                yield from _Conversations(file, memory.pieces).records()


class _Technique(Struct, frozen=True):
    """What an attack consists of, whatever it was aimed at."""

    attack: str = ""
    converters: tuple[Any, ...] = ()
    target: str = ""
    judge: str | None = None
    digest: str = ""


class _Memory:
    """A database while it is read: which messages and scores there are and where, not what they say."""

    def __init__(self, file: ToolFile, tables: SqliteTables) -> None:
        self._file, self._tables = file, tables
        self._targets: dict[str, str] = {}
        self._messages: dict[str, list[tuple[int, int, str, str]]] = defaultdict(list)
        """For each conversation: number, row, role and error of each part of a message."""
        self._scores: dict[str, list[int]] = defaultdict(list)
        for key, given, version in self._rows(
            "Conversations", ("conversation_id", "target_identifier", "pyrit_version")
        ):
            self._targets[_key(key)] = _target_of(self._json(given))
            file.version = _text(version) or file.version
        columns = (ROW_ID, "conversation_id", "sequence", "role", "response_error", "prompt_target_identifier")
        for row, conversation, sequence, role, error, target in self._rows(_MESSAGES, columns):
            key = _key(conversation)
            number = sequence if isinstance(sequence, int) else 0
            self._messages[key].append((number, row, _text(role), _text(error).casefold()))
            if target is not None and key not in self._targets:
                self._targets[key] = _target_of(self._json(target))
        for row, message in self._rows(_SCORES, (ROW_ID, "prompt_request_response_id")):
            self._scores[_key(message)].append(row)
        self._scenarios = self._named_scenarios()
        self._techniques: dict[str, dict[str, _Technique]] = defaultdict(dict)
        self._counts: Counter[tuple[str, str]] = Counter()
        self._blocked = self._failed_scorers = 0

    @property
    def has_results(self) -> bool:
        """Whether there are results of attacks, which the memory has since 0.9."""
        return next(self._rows(_RESULTS, (ROW_ID,)), None) is not None

    def _rows(self, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table up to where it is damaged."""
        try:
            yield from self._tables.rows(table, columns, order_by=ROW_ID)
        except InputError:
            self._damaged(table)

    def _damaged(self, table: str) -> None:
        subject = f"the table {table} is damaged"
        if ("F002", subject) not in self._file.subjects:
            self._file.note("F002", subject)

    def _results(self, *, noting: bool) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the results with their numbers; what should be JSON and is none is noted if that is asked for."""
        for number, row in enumerate(self._rows(_RESULTS, _RESULT_COLUMNS), 1):
            result = dict(zip(_RESULT_COLUMNS, row, strict=True))
            yield number, result | {name: self._json(result[name], name * noting, number) for name in _RESULT_JSON}

    def _json(self, cell: Any, column: str = "", number: int = 0) -> Any:
        """Return what a cell holds as JSON; what is none is noted under the name of its column."""
        if cell is None or cell == "":
            return None
        try:
            return msgspec.json.decode(cell if isinstance(cell, bytes | str) else str(cell))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            if column:
                self._file.note("F027", column, number, f"!{number}")
            return None

    def _named_scenarios(self) -> dict[str, str]:
        """Return how scenarios are called by their ids; the second of one name is numbered."""
        times: Counter[str] = Counter()
        found = {}
        for key, name in self._rows("ScenarioResultEntries", ("id", "scenario_name")):
            times[_text(name)] += 1
            found[_key(key)] = f"{name}#{times[_text(name)]}" if times[_text(name)] > 1 else _text(name)
        return found

    # -- conversations, where there are no results ----------------------------------------------------------------

    def pieces(self, noting: bool) -> Iterator[tuple[int, _Given]]:
        """Yield the rows of the table of messages, each with its scores."""
        file = self._file
        self._file = file if noting else _scratch(file)
        try:
            for number, row in enumerate(self._rows(_MESSAGES, _MESSAGE_COLUMNS), 1):
                self._file.lines = number
                values: dict[str, Any] = dict(zip(_MESSAGE_COLUMNS, row, strict=True))
                for name in ("converter_identifiers", *_DICT):
                    values[name] = self._json(values[name], name, number)
                key = _key(values["conversation_id"])
                if values["prompt_target_identifier"] is None and key in self._targets:
                    values["prompt_target_identifier"] = {"class_name": self._targets[key]}
                values["scores"] = self._scores_of(values["id"], number)
                values = {name: value for name, value in values.items() if value is not None}
                try:
                    text = msgspec.json.encode(values)
                except (ValueError, TypeError, OverflowError, RecursionError):
                    self._file.refuse("a cell that is no value", number, f"!{number}")
                    continue
                if (given := self._file.decode(text, _given, number, f"!{number}")) is not None:
                    yield number, given
        finally:
            self._file = file

    def _scores_of(self, message: Any, number: int) -> list[dict[str, Any]]:
        found = []
        for row in self._scores.get(_key(message), ()):
            values = self._row(_SCORES, _SCORE_COLUMNS, row)
            for name in _SCORE_JSON:
                values[name] = self._json(values.get(name), name, number)
            found.append(values)
        return found

    def _row(self, table: str, columns: Sequence[str], row: int) -> dict[str, Any]:
        try:
            values = self._tables.row(table, columns, row)
        except InputError:
            self._damaged(table)
            values = None
        return {} if values is None else dict(zip(columns, values, strict=True))

    # -- results of attacks ---------------------------------------------------------------------------------------

    def records(self) -> Iterator[ToolRecord]:
        """Yield a record for each result."""
        file = self._file
        attacked, named, other_targets = set[str](), set[str](), set[str]()
        for _, result in self._results(noting=False):
            technique = self._technique(result)
            if technique.digest:
                self._techniques[self._kin(result)][technique.digest] = technique
            file.version = _text(result["pyrit_version"]) or file.version
            attacked.add(self._target(result, technique))
            mine, others = self._conversations(result)
            named.update(mine, others)
            other_targets.update(self._targets.get(one, "") for one in others)
        attacked.discard("")
        if len(attacked) == 1:
            file.target = next(iter(attacked))
        for number, result in self._results(noting=True):
            file.lines = number
            record = self._record(number, result, several=len(attacked) > 1)
            if record is not None:
                yield record
        self._add_figures()
        open_ended = [
            key
            for key, messages in self._messages.items()
            if key not in named
            and self._targets.get(key) in attacked - other_targets
            and min(messages)[2] not in ("system", "developer")
        ]
        if open_ended:
            file.note("F039", f"conversations with the target without a result: {len(open_ended):,}")

    def _conversations(self, result: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Return the conversations of a result with the target, the last one first, and those with its attacker."""
        pruned, others = result["pruned_conversation_ids"], result["adversarial_chat_conversation_ids"]
        mine = [result["conversation_id"], *(pruned if isinstance(pruned, list) else ())]
        return [*dict.fromkeys(map(_key, mine))], [_key(one) for one in (others if isinstance(others, list) else ())]

    def _labels(self, result: Mapping[str, Any]) -> dict[str, Any]:
        labels = result["labels"]
        if not labels:  # before 1.0 they are those of the messages
            rows = sorted(self._messages.get(_key(result["conversation_id"]), ()))
            labels = self._json(self._row(_MESSAGES, ("labels",), rows[0][1]).get("labels")) if rows else None
        return {str(key): value for key, value in labels.items()} if isinstance(labels, dict) else {}

    def _kin(self, result: Mapping[str, Any]) -> str:
        """Return what results of one attack have in common even where they do not name it."""
        return _digest(self._labels(result), _text(result["attribution_parent_id"]))

    def _technique(self, result: Mapping[str, Any]) -> _Technique:
        given = result["atomic_attack_identifier"] or result["attack_identifier"]
        seeds: list[Any] = []
        node = given if isinstance(given, dict) else {}
        for _ in _WRAPPERS:
            children = node.get("children")
            if _class_of(node) not in _WRAPPERS or not isinstance(children, dict):
                break
            seeds.append(children.get("seed_identifiers"))
            inside = children.get("attack_technique") or children.get("attack")
            node = inside if isinstance(inside, dict) else {}
        attack, children = _class_of(node), node.get("children")
        if not attack:
            return _Technique()
        children = children if isinstance(children, dict) else {}
        converters = children.get("request_converters")
        converters = converters if isinstance(converters, list) else []
        own = {key: value for key, value in node.items() if key != "children"}
        scorer = children.get("objective_scorer")
        judge = ":".join([_class_of(scorer), *_details(scorer, "")]) if _class_of(scorer) else None
        return _Technique(
            attack,
            tuple(converters),
            _target_of(children.get("objective_target")),
            judge,
            _digest(own, converters, [one for one in seeds if one]),
        )

    def _target(self, result: Mapping[str, Any], technique: _Technique) -> str:
        return self._targets.get(_key(result["conversation_id"]), "") or technique.target

    def _record(self, number: int, result: Mapping[str, Any], *, several: bool) -> ToolRecord | None:
        file, objective = self._file, _text(result["objective"])
        outcome = _text(result["outcome"]).casefold()
        if not objective and not result["objective_sha256"]:
            file.refuse("it has no objective", number, f"!{number}")
            return None
        named = self._technique(result)
        technique, labels = named, self._labels(result)
        if not named.digest:
            # The result of an error does not name its attack: it is that of all others with its labels, if one.
            known = self._techniques.get(self._kin(result), {})
            technique = next(iter(known.values())) if len(known) == 1 else named
        conversations, _ = self._conversations(result)
        marks = [
            mark
            for key in conversations
            for _, _, role, mark in sorted(self._messages.get(key, ()))
            if role == "assistant"
        ]
        messages, response, scores = self._last_conversation(number, result)
        headline = next((one for one in scores if one.id and one.id == _key(result["last_score_id"])), None)
        judge = technique.judge if headline is None else headline.judge
        success, error, blocked = self._state(number, outcome, result, marks)
        verdicts = [one.verdict(success if one is headline else one.success) for one in scores]
        if judge is not None and headline is None and error is None and blocked is None:
            failed = _text(result["outcome_reason"]) if success is None else None
            verdicts.append(Verdict(Decision.of(success), error=failed, judge=judge))
        target = self._target(result, technique)
        operation = _operation(labels) or self._scenarios.get(_key(result["attribution_parent_id"]), "")
        run = _run(operation, target, several=several)
        if file.stream.only_run in (None, run):
            self._count(number, named.attack, outcome, error, blocked)
        harms = result["targeted_harm_categories"]
        took = result["execution_time_ms"]
        return ToolRecord(
            line=number,
            entry=f"{technique.attack or 'attack'}-"
            + _digest(result["objective_sha256"] or objective, technique.digest, _case_labels(labels)),
            family=_family(objective or _text(result["objective_sha256"])),
            prompt=objective,
            messages=messages,
            response=response,
            error=error,
            blocked=blocked,
            success=success,
            verdicts=tuple(verdicts),
            judge=judge,
            seconds=took / 1000 if isinstance(took, int | float) and 0 <= took < 1e12 else None,
            target=target or None,
            run=run,
            fields={
                **_label_fields(labels),
                "attack": technique.attack or None,
                "converter": _names(technique.converters) if technique.digest else None,
                "target": target or None,
                "operation": operation or None,
                "harm_category": clip(", ".join(map(_text, harms)), _LONGEST_LABEL)
                if isinstance(harms, list)
                else None,
                "score_category": headline.category if headline is not None and headline.category else None,
                "tries": len(conversations),
                "turns": len(marks),
            },
        )

    def _state(
        self, number: int, outcome: str, result: Mapping[str, Any], marks: Sequence[str]
    ) -> tuple[bool | None, str | None, str | None]:
        """Return whether an attack worked, what went wrong, and what stopped it."""
        reason = _text(result["error_message"]) or _text(result["outcome_reason"])
        none_answered = bool(marks) and all(mark in (*_TECHNICAL, "blocked") for mark in marks)
        if outcome == "success":
            return True, None, None
        if outcome == "error":
            failed_scorer = _SCORER_FAILED in reason or _SCORER_FAILED in _text(result["outcome_reason"])
            return (None, None, None) if failed_scorer else (None, _error_of(reason), None)
        if outcome not in _OUTCOMES:
            self._file.note("F004", f"outcome {clip(outcome, 40)!r}", number, f"!{number}")
        if none_answered and any(mark != "blocked" for mark in marks):
            return None, "no answer: " + ", ".join(sorted(set(marks))), None
        if none_answered or (outcome != "failure" and marks and marks[-1] == "blocked"):
            return None, None, _BLOCKED
        return (False if outcome == "failure" else None), None, None

    def _last_conversation(
        self, number: int, result: Mapping[str, Any]
    ) -> tuple[list[dict[str, Any]], str | None, list[_Score]]:
        """Return what was said in the conversation that counts, its last answer, and the scores of that."""
        rows = sorted(self._messages.get(_key(result["conversation_id"]), ()))
        columns = ("id", "original_value", "converted_value", "converted_value_data_type")
        messages: list[dict[str, Any]] = []
        response, scored, last = None, list[Any](), _key(result["last_response_id"])
        for (_, role), parts in groupby(rows, key=lambda one: (one[0], one[2])):
            texts, answered, ids = list[str](), True, list[str]()
            for _, row, _, mark in parts:
                values = self._row(_MESSAGES, columns, row)
                texts.append(_content(*(values.get(name) for name in columns[1:])))
                ids.append(_key(values.get("id")))
                answered = answered and mark in ("", "none", "empty")
            if role == "assistant":
                response = "\n".join(texts) if answered else None
                scored = ids if not last or last in ids or not scored else scored
            messages.append({"role": role, "content": "\n".join(texts)})
        while messages and messages[-1]["role"] == "assistant":
            messages.pop()
        given = [
            one for message in dict.fromkeys([last, *scored]) if message for one in self._scores_of(message, number)
        ]
        return messages, response, [one for one in (_score_of(s, self._file, number) for s in given) if one is not None]

    # -- PyRIT's own figures --------------------------------------------------------------------------------------

    def _count(self, number: int, attack: str, outcome: str, error: str | None, blocked: str | None) -> None:
        file, place = self._file, f"!{number}"
        self._counts[attack or "unknown", outcome] += 1
        if outcome == "failure" and blocked is not None:
            self._blocked += 1
            file.note("F056", "failure", number, place)
        elif outcome == "failure" and error is not None:
            file.note("F046", "failure", number, place)
        elif outcome == "error" and error is None:
            self._failed_scorers += 1
            file.note("F047", "failures of a scorer, recorded as errors", number, place)
        elif outcome in ("error", "undetermined"):
            file.note("F047", "errors" if outcome == "error" else "undetermined results", number, place)

    def _add_figures(self) -> None:
        """Add the success rates that `analyze_results` gives: of what was decided."""
        if not self._counts:
            return
        attacks = sorted({attack for attack, _ in self._counts})
        for name, of in [("success rate", attacks), *((f"success rate, {one}", [one]) for one in attacks)]:
            won, lost, open_, errors = (sum(self._counts[one, outcome] for one in of) for outcome in _OUTCOMES)
            value = won / (won + lost) if won + lost else None
            left_out = [f"{open_:,} undetermined"] * bool(open_) + [counted(errors, "error")] * bool(errors)
            self._file.figures.append(ToolFigure(name, value, won, won + lost, note=" and ".join(left_out)))
        whole = self._file.figures[0]
        said = "no rate" if whole.value is None else f"{whole.value:.1%} ({whole.count:,} of {whole.n:,})"
        failed, blocked = self._failed_scorers, self._blocked
        reasons = [
            f"{whole.note} left out" if whole.note else "",
            f"{counted(failed, 'failure')} of a scorer among the errors" if failed else "",
            f"{counted(blocked, 'blocked answer')} among the failures" if blocked else "",
        ]
        if any(reasons):
            self._file.differs.append(f"PyRIT reports {said}; {', '.join(filter(None, reasons))}.")
