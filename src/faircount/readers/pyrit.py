"""PyRIT's memory (SQLite) and its exports of conversations (JSON, CSV).

The memory has results of attacks: each is an attempt, and its outcome is PyRIT's, except where the target was stopped
or the judge failed. Exports, and a memory without results, have conversations only. Nothing is ever written, and no
cell is evaluated: those of a CSV file are Python literals, which are parsed.
"""

from __future__ import annotations

import ast
import warnings
from codecs import BOM_UTF8
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Struct

from faircount.core.errors import InputError
from faircount.core.findings import counted
from faircount.core.model import ToolFigure
from faircount.core.text import clip
from faircount.core.verdict import Decision, Verdict
from faircount.io.documents import JsonDocument
from faircount.io.files import local_file
from faircount.io.lenient_json import BadLine, depth
from faircount.io.records import Problem, Records, all_fields
from faircount.io.streams import raw_chunks, split_member
from faircount.ledger.schema import Fields
from faircount.ledger.sqlite_rows import MAGIC, ROW_ID, SqliteTables, has_unwritten_changes, is_cut_short, open_tables
from faircount.readers.pyrit_conversations import (
    BLOCKED,
    LONGEST_LABEL,
    PART,
    PYRIT_FACETS,
    TECHNICAL,
    MessagePart,
    PyritConversations,
    PyritScore,
    case_digest,
    case_labels,
    class_of,
    content_of,
    error_of,
    family_of,
    id_key,
    label_fields,
    names_of,
    operation_of,
    plain,
    run_of,
    score_of,
    scorer_details,
    target_of,
    without_notes,
)
from faircount.readers.registry import Probe, keys_of
from faircount.readers.tool_records import ToolFile, ToolReader, ToolRecord

_MESSAGES, _RESULTS, _SCORES = "PromptMemoryEntries", "AttackResultEntries", "ScoreEntries"
CSV_HEADER = b"id,role,conversation_id,sequence,timestamp,"
_LIST = ("converter_identifiers", "scores")
_DICT = ("labels", *(f"{one}_identifier" for one in ("prompt_target", "orchestrator", "attack", "scorer")))
_DEEPEST_LITERAL, _SHORT_CELL = 30, 300
_SCORER_FAILED = "Error in scorer"


# -- exports ----------------------------------------------------------------------------------------------------


class PyritExportReader(ToolReader):
    """Reads what `export_conversations` writes: a JSON array of messages, or the same as CSV."""

    name, tool, noun = "PyRIT export", "PyRIT", "PyRIT message"
    several_runs = of_models = True
    fields = Fields(
        first=("attack", "converter", "target"),
        facets=PYRIT_FACETS,
        family=("PyRIT objective",),
        others_on_request=True,
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
            yield from PyritConversations(file, partial(pieces, file, path)).records()


def _in_array(file: ToolFile, path: str, noting: bool) -> Iterator[tuple[int, MessagePart]]:
    """Yield the messages of a JSON array."""
    file = file if noting else without_notes(file)
    document = JsonDocument(raw_chunks(path, file.name), file.max_line)
    for number, part in enumerate(document.items(), 1):
        file.lines = number
        if part.problem:
            file.refuse(part.problem, number, f"!{number}")
        elif (given := file.decode(part.text, PART, number, f"!{number}")) is not None:
            yield number, given
    document.end()


def _in_table(file: ToolFile, path: str, noting: bool) -> Iterator[tuple[int, MessagePart]]:
    """Yield the messages of a CSV file, whose cells hold Python literals."""
    file = file if noting else without_notes(file)

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
        if (given := file.decode(text, PART, file.lines, f":{line}")) is not None:
            yield file.lines, given


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
_MESSAGE_COLUMNS = tuple(one.name for one in msgspec.structs.fields(MessagePart) if one.name != "scores")
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
            with open_tables(local_file(split_member(probe.path)[0])) as tables:
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
                yield from PyritConversations(file, memory.pieces).records()


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
            self._targets[id_key(key)] = target_of(self._json(given))
            file.version = plain(version) or file.version
        columns = (ROW_ID, "conversation_id", "sequence", "role", "response_error", "prompt_target_identifier")
        for row, conversation, sequence, role, error, target in self._rows(_MESSAGES, columns):
            key = id_key(conversation)
            number = sequence if isinstance(sequence, int) else 0
            self._messages[key].append((number, row, plain(role), plain(error).casefold()))
            if target is not None and key not in self._targets:
                self._targets[key] = target_of(self._json(target))
        for row, message in self._rows(_SCORES, (ROW_ID, "prompt_request_response_id")):
            self._scores[id_key(message)].append(row)
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
            times[plain(name)] += 1
            found[id_key(key)] = f"{name}#{times[plain(name)]}" if times[plain(name)] > 1 else plain(name)
        return found

    # -- conversations, where there are no results ----------------------------------------------------------------

    def pieces(self, noting: bool) -> Iterator[tuple[int, MessagePart]]:
        """Yield the rows of the table of messages, each with its scores."""
        file = self._file
        self._file = file if noting else without_notes(file)
        try:
            for number, row in enumerate(self._rows(_MESSAGES, _MESSAGE_COLUMNS), 1):
                self._file.lines = number
                values: dict[str, Any] = dict(zip(_MESSAGE_COLUMNS, row, strict=True))
                for name in ("converter_identifiers", *_DICT):
                    values[name] = self._json(values[name], name, number)
                key = id_key(values["conversation_id"])
                if values["prompt_target_identifier"] is None and key in self._targets:
                    values["prompt_target_identifier"] = {"class_name": self._targets[key]}
                values["scores"] = self._scores_of(values["id"], number)
                values = {name: value for name, value in values.items() if value is not None}
                try:
                    text = msgspec.json.encode(values)
                except (ValueError, TypeError, OverflowError, RecursionError):
                    self._file.refuse("a cell that is no value", number, f"!{number}")
                    continue
                if (given := self._file.decode(text, PART, number, f"!{number}")) is not None:
                    yield number, given
        finally:
            self._file = file

    def _scores_of(self, message: Any, number: int) -> list[dict[str, Any]]:
        found = []
        for row in self._scores.get(id_key(message), ()):
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
            file.version = plain(result["pyrit_version"]) or file.version
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
        return [*dict.fromkeys(map(id_key, mine))], [
            id_key(one) for one in (others if isinstance(others, list) else ())
        ]

    def _labels(self, result: Mapping[str, Any]) -> dict[str, Any]:
        labels = result["labels"]
        if not labels:  # before 1.0 they are those of the messages
            rows = sorted(self._messages.get(id_key(result["conversation_id"]), ()))
            labels = self._json(self._row(_MESSAGES, ("labels",), rows[0][1]).get("labels")) if rows else None
        return {str(key): value for key, value in labels.items()} if isinstance(labels, dict) else {}

    def _kin(self, result: Mapping[str, Any]) -> str:
        """Return what results of one attack have in common even where they do not name it."""
        return case_digest(self._labels(result), plain(result["attribution_parent_id"]))

    def _technique(self, result: Mapping[str, Any]) -> _Technique:
        given = result["atomic_attack_identifier"] or result["attack_identifier"]
        seeds: list[Any] = []
        node = given if isinstance(given, dict) else {}
        for _ in _WRAPPERS:
            children = node.get("children")
            if class_of(node) not in _WRAPPERS or not isinstance(children, dict):
                break
            seeds.append(children.get("seed_identifiers"))
            inside = children.get("attack_technique") or children.get("attack")
            node = inside if isinstance(inside, dict) else {}
        attack, children = class_of(node), node.get("children")
        if not attack:
            return _Technique()
        children = children if isinstance(children, dict) else {}
        converters = children.get("request_converters")
        converters = converters if isinstance(converters, list) else []
        own = {key: value for key, value in node.items() if key != "children"}
        scorer = children.get("objective_scorer")
        judge = ":".join([class_of(scorer), *scorer_details(scorer, "")]) if class_of(scorer) else None
        return _Technique(
            attack,
            tuple(converters),
            target_of(children.get("objective_target")),
            judge,
            case_digest(own, converters, [one for one in seeds if one]),
        )

    def _target(self, result: Mapping[str, Any], technique: _Technique) -> str:
        return self._targets.get(id_key(result["conversation_id"]), "") or technique.target

    def _record(self, number: int, result: Mapping[str, Any], *, several: bool) -> ToolRecord | None:
        file, objective = self._file, plain(result["objective"])
        outcome = plain(result["outcome"]).casefold()
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
        headline = next((one for one in scores if one.id and one.id == id_key(result["last_score_id"])), None)
        judge = technique.judge if headline is None else headline.judge
        success, error, blocked = self._state(number, outcome, result, marks)
        verdicts = [one.verdict(success if one is headline else one.success) for one in scores]
        if judge is not None and headline is None and error is None and blocked is None:
            failed = plain(result["outcome_reason"]) if success is None else None
            verdicts.append(Verdict(Decision.of(success), error=failed, judge=judge))
        target = self._target(result, technique)
        operation = operation_of(labels) or self._scenarios.get(id_key(result["attribution_parent_id"]), "")
        run = run_of(operation, target, several=several)
        if file.stream.only_run in (None, run):
            self._count(number, named.attack, outcome, error, blocked)
        harms = result["targeted_harm_categories"]
        took = result["execution_time_ms"]
        return ToolRecord(
            line=number,
            entry=f"{technique.attack or 'attack'}-"
            + case_digest(result["objective_sha256"] or objective, technique.digest, case_labels(labels)),
            family=family_of(objective or plain(result["objective_sha256"])),
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
                **label_fields(labels),
                "attack": technique.attack or None,
                "converter": names_of(technique.converters) if technique.digest else None,
                "target": target or None,
                "operation": operation or None,
                "harm_category": clip(", ".join(map(plain, harms)), LONGEST_LABEL) if isinstance(harms, list) else None,
                "score_category": headline.category if headline is not None and headline.category else None,
                "tries": len(conversations),
                "turns": len(marks),
            },
        )

    def _state(
        self, number: int, outcome: str, result: Mapping[str, Any], marks: Sequence[str]
    ) -> tuple[bool | None, str | None, str | None]:
        """Return whether an attack worked, what went wrong, and what stopped it."""
        reason = plain(result["error_message"]) or plain(result["outcome_reason"])
        none_answered = bool(marks) and all(mark in (*TECHNICAL, "blocked") for mark in marks)
        if outcome == "success":
            return True, None, None
        if outcome == "error":
            failed_scorer = _SCORER_FAILED in reason or _SCORER_FAILED in plain(result["outcome_reason"])
            return (None, None, None) if failed_scorer else (None, error_of(reason), None)
        if outcome not in _OUTCOMES:
            self._file.note("F004", f"outcome {clip(outcome, 40)!r}", number, f"!{number}")
        if none_answered and any(mark != "blocked" for mark in marks):
            return None, "no answer: " + ", ".join(sorted(set(marks))), None
        if none_answered or (outcome != "failure" and marks and marks[-1] == "blocked"):
            return None, None, BLOCKED
        return (False if outcome == "failure" else None), None, None

    def _last_conversation(
        self, number: int, result: Mapping[str, Any]
    ) -> tuple[list[dict[str, Any]], str | None, list[PyritScore]]:
        """Return what was said in the conversation that counts, its last answer, and the scores of that."""
        rows = sorted(self._messages.get(id_key(result["conversation_id"]), ()))
        columns = ("id", "original_value", "converted_value", "converted_value_data_type")
        messages: list[dict[str, Any]] = []
        response, scored, last = None, list[Any](), id_key(result["last_response_id"])
        for (_, role), parts in groupby(rows, key=lambda one: (one[0], one[2])):
            texts, answered, ids = list[str](), True, list[str]()
            for _, row, _, mark in parts:
                values = self._row(_MESSAGES, columns, row)
                texts.append(content_of(*(values.get(name) for name in columns[1:])))
                ids.append(id_key(values.get("id")))
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
        return messages, response, [one for one in (score_of(s, self._file, number) for s in given) if one is not None]

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
