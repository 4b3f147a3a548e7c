"""What became of a row of results, whatever tool wrote it: its state, its errors and blocks, and those of its history.

Readers share this, so that an error, a block or a provider's refusal means the same in every format. Nothing here opens
a file.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw, Struct
from xxhash import xxh3_64_intdigest

from faircount.core.findings import Notes
from faircount.core.model import Outcome
from faircount.core.options import MAX_LINE_BYTES
from faircount.core.outcomes import known_pattern, policy_block, state
from faircount.ledger.schema import OUTCOME_NUMBER, AnswerKind, HistoryCount, checksum
from faircount.readers.error_kinds import describe
from faircount.readers.normalise import scalar_text

if TYPE_CHECKING:
    from faircount.query import Query

NO_RESPONSE = "No response received"
"""spikee 0.1's words for a target that never answered; spikee does not count them as an error."""

BLOCK_WORDS = "Guardrail was triggered"
"""How the error of a raised guardrail begins in the history of a dynamic attack, which carries no flag."""

EMPTY = Raw()
_MOST_CATEGORIES = 100
EMPTY_ANSWERS = frozenset([b"", b'""', b"null"])
_BOOLEAN_ANSWERS = frozenset([b'"True"', b'"False"', b"true", b"false"])
SHORT_ANSWERS = {
    **{xxh3_64_intdigest(text): AnswerKind.EMPTY for text in EMPTY_ANSWERS},
    **{xxh3_64_intdigest(text): AnswerKind.BOOLEAN for text in _BOOLEAN_ANSWERS},
}
"""What kind of answer a response is that is no text, by its digest."""

STATES = {
    (success, error, guardrail): OUTCOME_NUMBER[state(success=success, error=error, guardrail=guardrail)]
    for success in (True, False, None)
    for error in (True, False)
    for guardrail in (True, False)
}
"""What became of a row, by its verdict, and whether it has an error and a block."""


class ReadOptions(Struct, frozen=True):
    """How to read a source."""

    max_line: int = MAX_LINE_BYTES
    guardrail_detected: bool = False
    """Whether a boolean answer says that a guardrail detected an attack, and not that it let one through."""
    where: Query | None = None
    policy_blocks: bool = True
    """Whether a provider's refusal to take a prompt is a block; else it is an error like any other."""
    aim: str | None = None
    """What the results are about, where the user knows better than the format."""
    verdicts: bool = False
    """Whether what each of several judges said is wanted, and not only what it comes to."""


class HistoryItem(Struct, gc=False):
    """One request inside a row, with the texts of what was asked and answered, undecoded."""

    success: bool | None = None
    error: str | None = None
    guardrail: bool | None = None
    input: Raw = EMPTY
    response: Raw = EMPTY
    guardrail_categories: Raw = EMPTY
    policy_block: str | None = None


def history_item(item: Mapping[str, Any]) -> HistoryItem:
    """Return a request that is not written cleanly."""
    success, error = item.get("success"), item.get("error")
    return HistoryItem(
        success=bool(success) if success in (0, 1) else None,
        error=error if isinstance(error, str) else scalar_text(error or None),
        guardrail=item.get("guardrail") is True,
        policy_block=scalar_text(item.get("policy_block")),
        input=_text_of(item.get("input")),
        response=_text_of(item.get("response")),
        guardrail_categories=_text_of(item.get("guardrail_categories")),
    )


def _text_of(value: Any) -> Raw:
    """Return a value as JSON, nothing for null."""
    return EMPTY if value is None else Raw(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


class Refusable(Protocol):
    """What may have been refused by the provider: a row, or a request inside one."""

    @property
    def success(self) -> Any: ...
    @property
    def error(self) -> str | None: ...
    @property
    def guardrail(self) -> Any: ...
    @property
    def policy_block(self) -> str | None: ...


class Judged(Struct, frozen=True):
    """What became of a row, as the ledger counts it."""

    decision: bool | None
    state: int
    errored: bool = False
    guardrail: bool | None = None
    error_text: str | None = None
    error_kind: str | None = None
    refused: str | None = None
    """The pattern by which the provider refused the prompt."""


def policy_block_of(row: Refusable) -> str | None:
    """Return the pattern by which the provider refused the prompt of a row, if nothing else decides what became of it.

    It is the one that the run itself recorded, if that is still one, or else the one that the words of the error fit.
    """
    if row.error is None or row.error == NO_RESPONSE or row.success is True or row.guardrail is True:
        return None
    return known_pattern(row.policy_block) or policy_block(row.error)


def judged(row: Refusable, answer: int, options: ReadOptions, notes: Notes, line: int) -> Judged:
    """Return what became of a row, and note what is odd about it."""
    error = row.error
    decision = row.success if isinstance(row.success, bool) else None
    guardrail = row.guardrail if isinstance(row.guardrail, bool) else None
    errored = error is not None and error != NO_RESPONSE
    refused = policy_block_of(row) if error is not None and options.policy_blocks else None
    if options.guardrail_detected and decision is not None and answer != AnswerKind.TEXT and error is None:
        decision = not decision
    text, kind = (None, None) if error is None else _described(error, notes, line)
    if decision and (errored or guardrail):
        notes.add("F021", "", line)
    return Judged(
        decision=decision,
        state=STATES[decision, errored, bool(guardrail) or refused is not None],
        errored=errored,
        guardrail=True if refused is not None else guardrail,
        error_text=text,
        # A history knows blocks by the kinds of flagged rows; of a refusal it has the words itself.
        error_kind=kind if refused is None else None,
        refused=refused,
    )


def _described(error: str, notes: Notes, line: int) -> tuple[str | None, str | None]:
    if error == NO_RESPONSE:
        notes.add("F016", "", line)
        return None, None
    if not error:
        notes.add("F017", "", line)
    return describe(error)


def some_categories(named: Sequence[str]) -> Sequence[str]:
    """Return categories that a guardrail named at once, no more than one could have."""
    if len(named) <= _MOST_CATEGORIES:
        return named
    # What is kept of a row must not grow with what a file invents.
    return (*named[:_MOST_CATEGORIES], f"(more than {_MOST_CATEGORIES} named at once)")


def history_state(item: Refusable, *, refused: bool) -> tuple[int, str | None]:
    """Return what became of a request, as a number, and its kind of error if it is one."""
    error = item.error
    errored = error is not None and error != NO_RESPONSE
    blocked = bool(item.guardrail) or refused or (error is not None and error.startswith(BLOCK_WORDS))
    number = STATES[item.success, errored, blocked]
    kind = describe(error)[1] if error is not None and number == _ERROR else None
    return number, kind


_ERROR = OUTCOME_NUMBER[Outcome.ERROR]
_PLAIN = {success: (STATES[success, False, False], None) for success in (True, False, None)}


def history_of(items: Sequence[Refusable], *, policy_blocks: bool) -> tuple[list[HistoryCount], list[str]]:
    """Return what requests came to, counted by state and kind of error, and the patterns of the provider's refusals."""
    if len(items) == 1 and items[0].error is None and not items[0].guardrail:  # most rows of most files
        return [HistoryCount(*_PLAIN[items[0].success], 1, 1)], []
    counted: dict[tuple[int, str | None], list[int]] = {}
    refusals: dict[str, None] = {}
    for position, item in enumerate(items, start=1):
        if item.error is None and not item.guardrail:
            key: tuple[int, str | None] = _PLAIN[item.success]
        else:
            refused = policy_block_of(item) if item.error is not None and policy_blocks else None
            if refused is not None:
                refusals[refused] = None
            key = history_state(item, refused=refused is not None)
        if key in counted:
            counted[key][0] += 1
        else:
            counted[key] = [1, position]
    return [HistoryCount(outcome, kind, *found) for (outcome, kind), found in counted.items()], list(refusals)


def rejudgings(told: Any) -> list[dict[str, Any]]:
    """Return what `rejudged` says of each time that a row was judged again, the first time first."""
    found: list[dict[str, Any]] = []
    while isinstance(told, dict) and isinstance(told.get("before"), dict):
        found.insert(0, told)
        told = told["before"].get("rejudged")
    return found


class HasChecksums(Protocol):
    """A request inside a row, with checksums in place of its texts."""

    @property
    def input(self) -> int: ...
    @property
    def response(self) -> int: ...
    @property
    def error(self) -> str | None: ...


def history_hash(response: int, requests: Sequence[HasChecksums]) -> int:
    """Return what stands for all that a row was answered; rows that differ in it tell of different attempts.

    Verdicts are no part of it, nor which of the answers the row shows: judged again, an attempt is the same.
    """
    answers = [one.response for one in requests]
    numbers = [0 if response in answers else response, *answers]
    for one in requests:
        numbers.append(one.input)
        numbers.append(0 if one.error is None else checksum(one.error.encode("utf-8", "surrogatepass")))
    return checksum(array("q", numbers).tobytes())


class Checksums(Struct, frozen=True, gc=False):
    """A request inside a row, with checksums in place of its texts."""

    input: int
    response: int
    error: str | None
