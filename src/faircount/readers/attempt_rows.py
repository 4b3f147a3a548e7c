"""Attempts on an entry, or on a case of a run of tests, as one row of the ledger.

Only what the ledger counts is kept of an attempt, with checksums in place of its texts, so that a long run fits into
memory. How the same attempts are written as a row that people read is said in `entry_rows` and `run_rows`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from xxhash import xxh3_64_intdigest

from faircount.core.findings import Notes
from faircount.core.model import Outcome
from faircount.core.outcomes import state
from faircount.core.verdict import Verdict
from faircount.ledger.schema import AnswerKind, LedgerRow, RowMark, VerdictRow, checksum
from faircount.readers.journals import STANDARD
from faircount.readers.result_rows import (
    FACETS,
    FAMILY_FIELDS,
    KNOWN_FIELDS,
    UNKNOWN_FIELDS_KEPT,
    family,
    is_plain_name,
)
from faircount.readers.rows import (
    SHORT_ANSWERS,
    STATES,
    Cleaner,
    ReadOptions,
    RowOutcome,
    history_hash,
    history_of,
    judged,
    some_categories,
)
from faircount.readers.run_rows import (
    GuardrailBlock,
    RunAttempt,
    attempt_shown,
    decision_of,
    number_of,
    seconds_of,
    suite_of,
    telling_error,
)

_encode = msgspec.json.Encoder().encode
_FACETS = frozenset(FACETS)
NO_TEXT, _EMPTY_TEXT, _NULL = checksum(b""), checksum(b'""'), checksum(b"null")


_PLAIN = {success: RowOutcome(success, STATES[success, False, False]) for success in (True, False, None)}


class AttemptFacts(Struct, frozen=True, gc=False):
    """What the ledger needs of an attempt; `input` and `response` are checksums of their JSON."""

    number: int
    success: bool | None = None
    error: str | None = None
    block: GuardrailBlock | None = None
    seconds: float | None = None
    response: int = _NULL
    answer: int = AnswerKind.EMPTY
    input: int = NO_TEXT
    model: str | None = None
    strategy: str = STANDARD
    of_attack: bool = False
    line: int = 0
    """Where it is recorded."""
    wrong: str = ""
    """Why its record cannot be understood; then nothing else is known of it."""
    verdicts: tuple[Verdict, ...] = ()
    """What each metric said; of an attack only where several judges did."""
    started: str | None = None

    @property
    def state(self) -> Outcome:
        """What became of the attempt."""
        return state(success=self.success, error=self.error is not None, guardrail=self.block is not None)

    @property
    def policy_block(self) -> str | None:
        """The pattern by which the run took an error for a refusal of the provider's."""
        return None if self.block is None else self.block.policy

    @property
    def categories(self) -> tuple[str, ...]:
        """What a guardrail named that blocked it."""
        return () if self.block is None else self.block.categories

    @property
    def guardrail(self) -> bool | None:
        """Whether a guardrail blocked it."""
        return True if self.block is not None and self.block.policy is None else None


def verdicts_of(metrics: Iterable[str], said: Mapping[str, tuple[Any, Any]]) -> tuple[Verdict, ...]:
    """Return what each metric said, given as a score and a word; one that said nothing has not decided."""
    none = (None, None)
    found = [(metric, *said.get(metric, none)) for metric in metrics]
    return tuple([Verdict(decision_of(word), number_of(score), judge=metric) for metric, score, word in found])


def facts_of(attempt: RunAttempt) -> AttemptFacts:
    """Return what the ledger needs of an attempt of a test."""
    response, answer = answer_of(as_json(attempt.response))
    return AttemptFacts(
        number=attempt.number,
        success=attempt.success,
        error=attempt.error,
        block=attempt.block,
        seconds=attempt.seconds,
        response=response,
        answer=answer,
        model=attempt.model,
        verdicts=tuple(attempt.verdicts),
    )


def as_json(value: Any) -> bytes:
    """Return a value as JSON: what stands for a text is the checksum of this."""
    try:
        return _encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError):
        # Lone surrogates and huge numbers, which the standard library can write.
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def answer_of(text: bytes) -> tuple[int, int]:
    """Return the checksum of a response, given as JSON, and what kind of answer it is."""
    digest = xxh3_64_intdigest(text)
    return (digest - (1 << 64) if digest >> 63 else digest) or 1, SHORT_ANSWERS.get(digest, AnswerKind.TEXT)


class RowMaker:
    """Makes rows of one source, and learns the names of the facets that it meets."""

    def __init__(self, options: ReadOptions, notes: Notes) -> None:
        self._options = options
        self._notes = notes
        self._cleaner = Cleaner(notes)
        self._unknown: list[str] = []

    @property
    def facets(self) -> tuple[str, ...]:
        """The names of the facets, in their order."""
        return (*FACETS, *self._unknown)

    def single_row(
        self,
        line: int,
        name: int | str,
        *,
        prompt: Any,
        response: Any,
        success: bool | None,
        error: str | None = None,
        blocked: bool | None = None,
        seconds: float | None = None,
        attack: str | None = None,
        fields: Mapping[str, Any] | None = None,
        verdicts: Sequence[VerdictRow] = (),
    ) -> LedgerRow:
        """Return the row of one request on an entry, of a format that has a line for each.

        `verdicts` are those of all judges, where several judged it; `success` is what the format makes of them.
        """
        answer, kind = answer_of(as_json(response))
        row = _RowFacts(success, error, blocked, None, (), answer, kind, seconds)
        return self._made(
            line,
            row,
            None,
            fields or {},
            long_id="",
            parent_id=name,
            mark=RowMark.STANDARD if attack is None else RowMark.ATTACK,
            attack=attack,
            text_hash=checksum(as_json(prompt)),
            objective_hash=0,
            verdicts=verdicts,
        )

    def entry_row(
        self,
        line: int,
        name: int | str,
        long_id: str,
        fields: Mapping[str, Any],
        attempts: Sequence[AttemptFacts],
        *,
        text: int,
        attack: str | None = None,
        failure: str | None = None,
        judges: str | None = None,
        thresholds: Mapping[str, float] | None = None,
    ) -> LedgerRow:
        """Return the row of the standard attempts on an entry, or of the attack of this name.

        `text` is the checksum of the entry's own text, `failure` why the attack ended by a failure of its own. `judges`
        are those of the run; a judge that the fields name goes first.
        """
        shown = attempt_shown(attempts)
        error = failure if shown is None else shown.error
        block = None if shown is None or shown.block is None or shown.state is not Outcome.GUARDRAIL else shown.block
        stopped = block is not None and block.policy is None
        row = _RowFacts(
            success=False if error is not None else None if shown is None else shown.success,
            error=error,
            guardrail=True if stopped else None,
            policy_block=None if block is None else block.policy,
            categories=tuple(dict.fromkeys(name for one in attempts for name in one.categories)) if stopped else (),
            response=_NULL if shown is None else shown.response if error is None else _EMPTY_TEXT,
            answer=AnswerKind.EMPTY if shown is None or error is not None else shown.answer,
            response_time=None if shown is None else shown.seconds,
        )
        last = attempts[-1].model if attempts else None
        model = last or (
            next((one.model for one in reversed(attempts) if one.model), None) if len(attempts) > 1 else None
        )
        return self._made(
            line,
            row,
            attempts,
            {"target": model, "judge_name": judges, **fields},
            long_id=long_id,
            parent_id=name,
            mark=RowMark.STANDARD if attack is None else RowMark.ATTACK,
            attack=attack,
            text_hash=text if attack is None or shown is None else shown.input,
            objective_hash=0 if attack is None else text,
            verdicts=_verdicts(attempts, _of_any(attempts), thresholds or {}) if self._options.verdicts else (),
        )

    def task_row(
        self,
        line: int,
        own_id: str,
        name: str,
        fields: Mapping[str, Any],
        attempts: Sequence[AttemptFacts],
        *,
        success: bool | None,
        text: int,
        by_metric: Mapping[str, bool | None] | None = None,
        thresholds: Mapping[str, float] | None = None,
        long_id: str | None = None,
    ) -> LedgerRow:
        """Return the row of a case of a run of tests.

        `success` is what all its attempts come to, `by_metric` the same by each metric alone; `long_id` is what it is a
        variant of, if that is not its suite.
        """
        answered = [one for one in attempts if one.error is None]
        decided = success if answered else None
        failed = None if answered else telling_error(attempts)
        alike = next((one for one in answered if one.success is decided), answered[0] if answered else None)
        seconds = [one.seconds for one in answered if one.seconds is not None]
        row = _RowFacts(
            success=decided,
            error=None if failed is None else failed.error,
            guardrail=None if failed is None else failed.guardrail,
            policy_block=None if failed is None else failed.policy_block,
            categories=() if failed is None else failed.categories,
            response=_NULL if alike is None else alike.response,
            answer=AnswerKind.EMPTY if alike is None else alike.answer,
            response_time=sum(seconds) / len(seconds) if seconds else None,
        )
        model = next((one.model for one in answered if one.model), None)
        return self._made(
            line,
            row,
            attempts,
            {"target": model, **fields},
            # Cases of one suite are variants: they differ in parameters, not in what is asked.
            long_id=suite_of(name) if long_id is None else long_id,
            parent_id=own_id,
            mark=RowMark.TASK,
            attack=None,
            text_hash=text,
            objective_hash=0,
            verdicts=_verdicts(attempts, by_metric or {}, thresholds or {}) if self._options.verdicts else (),
        )

    def _made(
        self,
        line: int,
        row: _RowFacts,
        history: Sequence[AttemptFacts] | None,
        fields: Mapping[str, Any],
        *,
        long_id: str,
        parent_id: int | str,
        mark: int,
        attack: str | None,
        text_hash: int,
        objective_hash: int,
        verdicts: Sequence[VerdictRow] = (),
    ) -> LedgerRow:
        self._cleaner.line = line
        if row.error is not None and not row.error.isascii():
            row = replace(row, error=self._cleaner.whole("error", row.error))
        if row.error is None and row.guardrail is None and not self._options.guardrail_detected:
            found = _PLAIN[row.success]
        else:
            found = judged(row, row.answer, self._options, self._notes, line)
        facets = self._labels(fields, line)
        named = family(self._clean("long_id", long_id), *map(facets.get, FAMILY_FIELDS))
        attempts = history or ()
        counted, refusals = history_of(attempts, policy_blocks=self._options.policy_blocks)
        categories = [*some_categories(row.categories)] if row.categories else []
        if found.refused is not None:
            categories.append(found.refused)
        for one in attempts:
            if one.block is not None:
                categories += some_categories(one.block.categories)
        categories += refusals
        return LedgerRow(
            line=line,
            parent_id=parent_id if type(parent_id) is int else self._clean("id", str(parent_id)),
            mark=mark,
            attack=attack if attack is None else self._clean("attack_name", attack),
            decision=found.decision,
            truthy=row.success is True,
            state=found.state,
            errored=found.errored,
            guardrail=found.guardrail,
            error_text=found.error_text,
            error_kind=found.error_kind,
            requests=1 if history is None else len(attempts),
            response_time=row.response_time,
            answer=row.answer,
            text_hash=text_hash,
            objective_hash=objective_hash,
            response_hash=row.response if history is None else history_hash(row.response, attempts),
            family=0 if named is None else checksum(named.encode()),
            facets=facets,
            history=counted,
            verdicts=[replace(one, judge=one.judge and self._clean("judge", one.judge)) for one in verdicts]
            if verdicts
            else (),
            categories=[self._clean("guardrail_categories", name) for name in categories] if categories else (),
        )

    def _clean(self, field: str, text: str) -> str:
        return text if text.isascii() else self._cleaner.whole(field, text)

    def _labels(self, fields: Mapping[str, Any], line: int) -> dict[str, str]:
        """Return the fields that are facets as texts: all that are known, and as many others as are kept."""
        labels: dict[str, str] = {}
        excess = False
        for name, value in fields.items():
            if name in _FACETS:
                if type(value) is str and value.isascii():
                    if value:
                        labels[name] = value
                    continue
                if value is None:
                    continue
            else:
                if name in KNOWN_FIELDS:
                    continue
                if name not in self._unknown:
                    if len(self._unknown) == UNKNOWN_FIELDS_KEPT or not is_plain_name(name):
                        excess = True
                        continue
                    self._unknown.append(name)
                if isinstance(value, list | dict):
                    continue
            known = name if name in _FACETS else "an unknown field"
            text = value if type(value) is str and value.isascii() else self._cleaner.label(known, value)
            if text:
                labels[name] = text
        if excess:
            self._notes.add("F023", "", line)
        return labels


class _RowFacts(Struct, frozen=True, gc=False):
    """A row before what became of it is said."""

    success: bool | None
    error: str | None
    guardrail: bool | None
    policy_block: str | None
    categories: tuple[str, ...]
    response: int
    answer: int
    response_time: float | None


def _of_any(attempts: Sequence[AttemptFacts]) -> dict[str, bool | None]:
    """Return what each judge decided of an entry: one success is enough, and an answer not judged leaves it open."""
    said: dict[str, list[bool | None]] = {}
    for attempt in attempts:
        for one in attempt.verdicts if attempt.error is None else ():
            said.setdefault(one.judge, []).append(one.success)
    return {name: True if True in found else None if None in found else False for name, found in said.items()}


def _verdicts(
    attempts: Sequence[AttemptFacts], overall: Mapping[str, bool | None], thresholds: Mapping[str, float]
) -> list[VerdictRow]:
    """Return what each judge said of each attempt, and `overall` of the row, where there are several judges."""
    if len(overall) < 2:
        return []
    rows = [
        VerdictRow(judge=name, decision=decision, threshold=thresholds.get(name)) for name, decision in overall.items()
    ]
    for number, attempt in enumerate(attempts, start=1):
        rows += [
            VerdictRow(
                judge=one.judge,
                attempt=number,
                decision=one.success,
                score=one.score,
                threshold=thresholds.get(one.judge),
                reason_line=attempt.line,
                judged_at=seconds_of(attempt.started),
            )
            for one in (attempt.verdicts if attempt.error is None else ())
        ]
    return rows


def threshold_of(parameters: Any) -> float | None:
    """Return from which score on a metric passes, where its parameters say so."""
    return number_of(parameters.get("threshold")) if isinstance(parameters, Mapping) else None
