"""Messages and scores of PyRIT, as all of its versions have them, and conversations that have no results.

A conversation says nothing of its part in an attack: those with attackers, scorers and converters are found by what is
said in them, and never counted. Each answer of the target is an attempt, judged by its scores.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Struct, field
from xxhash import xxh3_64_hexdigest

from faircount.core.text import clip
from faircount.core.verdict import Decision, Verdict
from faircount.io.documents import DamagedDocument
from faircount.io.lenient_json import BadLine, parse
from faircount.readers.tool_records import ToolFile, ToolRecord

_RUN_LABELS = ("op", "op_name", "operation", "operation_name", "run", "run_id")
_NOT_THE_CASE = frozenset(
    (*_RUN_LABELS, "operator", "user", "user_name", "username", "date", "time", "timestamp", "session", "session_id")
) | {"model", "model_name", "target", "endpoint", "deployment", "version"}
"""Labels that say which run it was, of what and whose: not part of a test case, which is the same in the next run."""
_IDENTITY_ONLY = frozenset(["hash", "eval_hash", "class_module", "__module__", "pyrit_version", "id"])
LONGEST_LABEL, _MOST_LABELS, _LONGEST_ERROR, _LONGEST_FAMILY = 200, 16, 300, 60
_MOST_WRITERS = 50
_THRESHOLD = 0.5
BLOCKED = "blocked by a content filter"
_NO_ANSWER = "no answer is recorded"
TECHNICAL = ("processing", "unknown")
"""What `response_error` says of an answer that is none: the text is that of an exception."""

PYRIT_FACETS = ("attack", "converter", "target", "harm_category", "operation")
_OWN_FIELDS = (*PYRIT_FACETS, "score_category", "tries", "turns")


# -- messages and scores, as all versions have them -------------------------------------------------------------


class PyritScore(Struct, frozen=True, gc=False):
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


class MessagePart(Struct, kw_only=True):
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
        return content_of(self.original_value, self.converted_value, self.converted_value_data_type)

    @property
    def attack(self) -> Mapping[str, Any]:
        """What sent it: an orchestrator, in later versions an attack."""
        return self.attack_identifier or self.orchestrator_identifier or {}


PART = msgspec.json.Decoder(MessagePart)
_Pieces = Callable[[bool], Iterator[tuple[int, MessagePart]]]
"""Goes through the parts of messages in a file, with their numbers; problems are noted if that is asked for."""


def content_of(original: Any, converted: Any, kind: Any) -> str:
    """Return what was sent or answered; of what is no text, its kind and where it is."""
    text = plain(original if converted is None else converted)
    return text if kind in (None, "", "text", "error") else f"[{kind}] {text}"


def class_of(identifier: Any) -> str:
    """Return the name of the class that an identifier is of: 1.x has `class_name`, 0.x `__type__`."""
    found = identifier.get("class_name") or identifier.get("__type__") if isinstance(identifier, dict) else None
    return found if isinstance(found, str) else ""


def target_of(identifier: Any) -> str:
    """Return what a target is called: its model, else its class."""
    if not isinstance(identifier, dict):
        return ""
    names = (identifier.get("underlying_model_name"), identifier.get("model_name"), class_of(identifier))
    return next((name for name in names if isinstance(name, str) and name), "")


def score_of(given: Any, file: ToolFile, number: int) -> PyritScore | None:
    """Return a score by its fields; nothing if it is no object."""
    if not isinstance(given, dict):
        return None
    scorer = given.get("scorer_class_identifier")
    categories = given.get("score_category")
    category = ", ".join(map(str, categories)) if isinstance(categories, list) else str(categories or "")
    name = class_of(scorer) or "scorer"
    status = given.get("status")
    failed = None if status in (None, "complete", "completed") else f"the score is {status}"
    success, value = (None, None) if failed else _decided(given, file, number)
    return PyritScore(
        ":".join([name, *scorer_details(scorer, category)]),
        success,
        value,
        plain(given.get("score_rationale")),
        failed,
        name == "TrueFalseInverterScorer" or ("refusal" not in name.casefold() and category.casefold() != "refusal"),
        clip(category, LONGEST_LABEL),
        id_key(given.get("id")),
    )


def scorer_details(scorer: Any, category: str) -> list[str]:
    """Return what distinguishes scorers of one class: what they look for, and the model that they ask."""
    if not isinstance(scorer, dict) or "class_name" not in scorer:
        return [category] if category else []
    question, children = scorer.get("question"), scorer.get("children")
    model = children.get("prompt_target") if isinstance(children, dict) else None
    found = (scorer.get("substring"), question.get("category") if isinstance(question, dict) else "", target_of(model))
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


def plain(value: Any) -> str:
    """Return a value as text, empty where there is none."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def id_key(value: Any) -> str:
    """Return an id in one form: with and without dashes, it is the same."""
    return plain(value).replace("-", "").casefold()


def case_digest(*parts: Any) -> str:
    """Return what stands for the content of a test case: the same in the next run."""
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


def case_labels(labels: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels that are part of a test case."""
    return {key: value for key, value in labels.items() if key.casefold() not in _NOT_THE_CASE}


def label_fields(labels: Mapping[str, Any]) -> dict[str, str]:
    """Return labels as facets; one with the name of a field of ours gets a prefix."""
    found = {}
    for key, value in list(labels.items())[:_MOST_LABELS]:
        if isinstance(value, str | int | float | bool) and key not in _RUN_LABELS:
            found[f"label_{key}" if key in _OWN_FIELDS else key] = clip(str(value), LONGEST_LABEL)
    return found


def operation_of(labels: Mapping[str, Any]) -> str:
    """Return the operation that labels name."""
    return next((plain(labels[name]) for name in _RUN_LABELS if labels.get(name)), "")


def family_of(objective: str) -> str:
    """Return the family of all attempts at an objective; a long one is cut, with a digest of the whole."""
    short = clip(objective, _LONGEST_FAMILY)
    return objective if short == objective else f"{short} {case_digest(objective)}"


def names_of(components: Iterable[Any]) -> str:
    """Return the classes of converters."""
    return "+".join(filter(None, map(class_of, components))) or "none"


def run_of(operation: str, target: str, *, several: bool) -> str | None:
    """Return how a run is called: by its operation, and by its target where there are several."""
    return "@".join(filter(None, (operation, target if several or not operation else ""))) or None


# -- conversations without results ------------------------------------------------------------------------------


class _ConversationOutline(Struct):
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


class PyritConversations:
    """The conversations of a file in two passes: what they are, then the answers of the target in them."""

    def __init__(self, file: ToolFile, pieces: _Pieces) -> None:
        self._file, self._pieces = file, pieces
        self._outlines: dict[str, _ConversationOutline] = defaultdict(_ConversationOutline)
        self._judges: dict[str, Counter[str]] = defaultdict(Counter)
        self._targets: set[str] = set()
        self._bad: set[int] = set()

    def records(self) -> Iterator[ToolRecord]:
        """Yield a record for each answer of the target; conversations come in the order of their ends."""
        file, seen = self._file, set[str]()
        damage: DamagedDocument | None = None
        try:
            for number, piece in self._pieces(True):
                if piece.id and case_digest(piece.id) in seen:
                    self._bad.add(number)
                    file.refuse("the id of an earlier message", number, f"!{number}")
                    continue
                seen.add(case_digest(piece.id))
                self._outline(number, piece)
        except DamagedDocument as broken:
            damage = broken
        del seen
        self._find_others()
        self._targets = {one.target for one in self._outlines.values() if one.target and not one.others}
        if len(self._targets) == 1:
            file.target = next(iter(self._targets))
        waiting: dict[str, list[tuple[int, MessagePart]]] = {}
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

    def _outline(self, number: int, piece: MessagePart) -> None:
        outline = self._outlines[piece.conversation_id]
        outline.pieces += 1
        outline.target = outline.target or target_of(piece.prompt_target_identifier)
        outline.of_a_scorer = outline.of_a_scorer or bool(piece.scorer_identifier)
        if outline.starts is None or piece.sequence < outline.starts[0]:
            outline.starts = piece.sequence, piece.role
        original = piece.original_value or ""
        if piece.role == "user":
            outline.asked.add(case_digest(original))
            if outline.first is None or piece.sequence < outline.first[0]:
                outline.first = (
                    piece.sequence,
                    case_digest(original),
                    case_digest(piece.converted_value or original),
                )
        elif piece.role == "assistant":
            outline.answers += 1
            answer = piece.converted_value or original
            inside = _object(answer)
            outline.said.update(case_digest(one) for one in (answer, *inside.values()) if isinstance(one, str) and one)
            outline.scores_given += "score_value" in inside
            for given in piece.scores or ():
                score = score_of(given, without_notes(self._file), number)
                if score is not None and score.decides:
                    self._judges[class_of(piece.attack)][score.judge] += 1
        elif piece.role in ("system", "developer"):
            outline.system = outline.system or case_digest(original)

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
            self._outlines[name].attacker = case_digest(writer.system, writer.first[1] if writer.first else "")

    def _of_conversation(
        self, pieces: list[tuple[int, MessagePart]], outline: _ConversationOutline
    ) -> Iterator[ToolRecord]:
        pieces.sort(key=lambda one: (one[1].sequence, one[0]))
        messages: list[dict[str, Any]] = []
        asked: list[MessagePart] = []
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
        answer: Sequence[MessagePart],
        messages: Sequence[Mapping[str, Any]],
        asked: Sequence[MessagePart],
        outline: _ConversationOutline,
    ) -> ToolRecord:
        first = asked[0]
        attack, labels = class_of(first.attack), first.labels or {}
        target = target_of(first.prompt_target_identifier)
        converters = first.converter_identifiers or []
        scores = [
            one for piece in answer for one in (score_of(s, self._file, number) for s in piece.scores or ()) if one
        ]
        judges = self._judges[attack]
        headline = judges.most_common(1)[0][0] if judges else None
        deciding = [one for one in scores if one.decides]
        score = next((one for one in deciding if one.judge == headline), deciding[0] if deciding else None)
        text, marks = "\n".join(piece.text for piece in answer), {piece.response_error for piece in answer}
        error = error_of(text) if marks.intersection(TECHNICAL) else None if answer else _NO_ANSWER
        objective = "\n".join(piece.original_value or "" for piece in asked)
        case = outline.attacker or objective
        operation = operation_of(labels)
        return ToolRecord(
            line=number,
            entry=f"{attack or 'conversation'}-{case_digest(case, attack, converters, case_labels(labels))}",
            family=f"{attack} {outline.attacker}" if outline.attacker else family_of(objective),
            messages=messages,
            response=None if error is not None or "blocked" in marks else text,
            error=error,
            blocked=BLOCKED if "blocked" in marks else None,
            success=None if score is None else score.success,
            verdicts=tuple(one.verdict(one.success) for one in scores),
            judge=headline if score is None else score.judge,
            target=target or None,
            run=run_of(operation, target, several=len(self._targets) > 1),
            fields={
                **label_fields(labels),
                "attack": attack or None,
                "converter": names_of(converters),
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


def error_of(text: str) -> str:
    """Return what went wrong, without the lines of a traceback."""
    return clip(text.strip().partition("\n")[0], _LONGEST_ERROR) or "an error without a text"


def without_notes(file: ToolFile) -> ToolFile:
    """Return a file whose notes are dropped, for what was noted before."""
    return ToolFile(file.tool, file.reader, aim=file.aim, stream=file.stream, max_line=file.max_line)
