"""An entry of a dataset and what was tried on it as rows of results: one of its standard attempts, one of its attack.

The rows are those that spikee writes, with the same meaning in each field, so that everything that reads, counts or
judges those works on these. Each row has the history of all its attempts, which spikee keeps of attacks alone. Nothing
here opens a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from faircount.core.model import Outcome
from faircount.core.verdict import Decision, Verdict
from faircount.io.lenient_json import BadLine
from faircount.readers.aggregation import any_hit
from faircount.readers.journal_records import RunRecord
from faircount.readers.journals import STANDARD, AttackFailure
from faircount.readers.result_rows import RUN_MARK
from faircount.readers.run_rows import (
    GuardrailBlock,
    RunAttempt,
    asked_of,
    block_of,
    error_text,
    input_of,
    listed,
    metric_names,
    objects,
    verdict_of,
)

NO_ATTACK = "None"
"""What a standard row has as the name of its attack, as spikee writes it."""
UNNAMED = "(unnamed)"

NOT_OF_ENTRIES = frozenset(
    [
        *("id", "success", "input", "input_type", "content", "content_type", "text", "response", "response_type"),
        *("response_time", "attempts", "attack_name", "attack_options", "error", "guardrail", "guardrail_categories"),
        "policy_block",
        *("objective", "attempt_history", "conversation", "meta", "outcome", "timestamp", "target", "target_options"),
        *("judge_name", "judge_options", "judge_error", "rejudged", RUN_MARK),
        *("result_parent_id", "attack_parent_id", "original_id", "result_origin", "source_file"),
        *("attack_parent_long_id", "entry_complete", "attack_attempt", "attack_invocation", "attack_result_format"),
    ]
)
"""What a dataset made from results may say of its entries, and a new run says anew or does not take over."""

_WORDS = {True: "success", False: "failure", None: "error"}
_TELLING = (Outcome.FAILURE, Outcome.UNJUDGED, Outcome.ERROR, Outcome.GUARDRAIL)


class Attacked(Struct, frozen=True):
    """An entry with all that was tried by one strategy."""

    name: str
    described: Mapping[str, Any]
    """The record of the case: input, entry, metrics, place and turns."""
    entry: Mapping[str, Any]
    """What the dataset says of the entry."""
    said: Any
    """What the user says in the entry's own messages."""
    attempts: Sequence[RunAttempt]
    attack: str | None = None
    """The name of the dynamic attack; None for standard attempts."""
    failure: AttackFailure | None = None

    @property
    def text(self) -> Any:
        """The text of the entry, the same whatever was sent; several turns are written as spikee writes them."""
        return text_of(self.entry, self.said, listed(self.described, "turns"))

    def telling(self) -> RunAttempt | None:
        """Return the attempt that the row shows."""
        return attempt_shown(self.attempts)


def text_of(entry: Mapping[str, Any], said: Any, turns: Sequence[Any]) -> Any:
    """Return the text of an entry; `said` is what the user says in its own messages."""
    content = entry.get("content", entry.get("text"))
    if isinstance(content, list):
        return str(content)
    return str([said, *turns]) if turns else said


class _HasState(Protocol):
    @property
    def state(self) -> Outcome: ...


_Attempt = TypeVar("_Attempt", bound=_HasState)


def attempt_shown(attempts: Sequence[_Attempt]) -> _Attempt | None:
    """Return the attempt that a row shows: the first success, or else the last of those that decide.

    An answer that nobody judged is shown before an error, since the error is not all that came.
    """
    if len(attempts) == 1:
        return attempts[0]
    last = {one.state: one for one in attempts}
    if Outcome.SUCCESS in last:
        return next(one for one in attempts if one.state is Outcome.SUCCESS)
    return next((last[state] for state in _TELLING if state in last), None)


def _attempt_of(record: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> RunAttempt:
    """Return what the record of an attempt tells; `messages` is what is sent where the record says nothing else."""
    output, model, error = record.get("output"), record.get("model"), error_text(record.get("error"))
    strategy, iteration = record.get("strategy"), record.get("iteration")
    through = output.get("let_through") if isinstance(output, dict) else None
    verdicts = [verdict_of(one) for one in objects(record, "verdicts")]
    return RunAttempt(
        number=record["attempt"],
        output=output if isinstance(output, dict) else None,
        error=error,
        success=None if error is not None else success_of(through, [one.decision for one in verdicts]),
        verdicts=verdicts,
        block=block_of(record.get("error")),
        model=model if isinstance(model, str) else None,
        strategy=strategy if isinstance(strategy, str) else STANDARD,
        iteration=iteration if type(iteration) is int else 0,
        messages=objects(record, "messages") or messages,
    )


def success_of(through: Any, decisions: Iterable[Decision | None]) -> bool | None:
    """Return what was decided: by a guardrail that let it through or not, or else by the judges: one is enough."""
    return through if isinstance(through, bool) else any_hit(decisions)


def row_of_entry(tried: Attacked) -> dict[str, Any]:
    """Return the row of an entry's standard attempts, or of its attack."""
    telling, text = tried.telling(), tried.text
    error = _row_error(tried, telling)
    row: dict[str, Any] = {
        "id": own_id(tried),
        "long_id": long_id(tried),
        "success": _row_success(telling, error),
        "input": text if tried.attack is None or telling is None else telling.input,
        "response": None if telling is None else telling.response if telling.error is None else "",
        "response_time": None if telling is None else telling.seconds,
        "judge_name": ", ".join(metric_names(tried.described)) or None,
        "attempts": len(tried.attempts),
        "attack_name": NO_ATTACK if tried.attack is None else tried.attack,
        "error": error,
        **_blocked(tried, telling),
        "attempt_history": [_history_item(one, text if tried.attack is None else None) for one in tried.attempts],
        "meta": {
            "place": tried.described.get("place"),
            **({} if tried.failure is None else {"attack_error": tried.failure.error}),
        },
        "target": next((one.model for one in reversed(tried.attempts) if one.model), None),
    }
    if tried.attack is not None:
        row["objective"] = text
    conversation = conversation_of(telling)
    if conversation:
        row["conversation"] = conversation
    return {**row, **_fields(tried)}


def own_id(tried: Attacked) -> int | str:
    """Return the id of the row: that of the entry, as the dataset writes it, marked where it is an attack's."""
    given = tried.entry.get("id")
    if tried.attack is not None:
        return f"{tried.name}-attack"
    return given if type(given) is int and str(given) == tried.name else tried.name


def long_id(tried: Attacked) -> str:
    """Return the long id as spikee makes it: with the attack's name, and a mark where the attack itself failed."""
    given = tried.entry.get("long_id")
    name = given if isinstance(given, str) and given else tried.name
    if tried.attack is None:
        return name
    return f"{name}-{tried.attack}" if tried.attempts else f"{name}-{tried.attack}-ERROR"


def _row_success(telling: RunAttempt | None, error: str | None) -> bool | None:
    """Return the verdict of the row. Where there is an error it is false, as spikee has it, and does not count."""
    return False if error is not None else None if telling is None else telling.success


def _row_error(tried: Attacked, telling: RunAttempt | None) -> str | None:
    """Return the error of the row: there is none if any attempt was answered."""
    if telling is not None:
        return telling.error
    return None if tried.failure is None else tried.failure.error


def _blocked(tried: Attacked, telling: RunAttempt | None) -> dict[str, Any]:
    """Return what tells that a guardrail stopped every attempt, with all that it named, or that the provider did."""
    if telling is None or telling.state is not Outcome.GUARDRAIL or telling.block is None:
        return {}
    if telling.block.policy is not None:
        return telling.block.fields
    names = [name for one in tried.attempts if one.block is not None for name in one.block.categories]
    return GuardrailBlock(tuple(names)).fields


def _history_item(attempt: RunAttempt, own_text: Any) -> dict[str, Any]:
    """Return an attempt as an item of the history, with what was sent unless it is the text of the row."""
    item: dict[str, Any] = {"attempt": attempt.number, "strategy": attempt.strategy, "iteration": attempt.iteration}
    if attempt.input != own_text:
        item["input"] = attempt.input
    item |= {
        "response": attempt.response,
        "success": attempt.success,
        "error": attempt.error,
        "response_time": attempt.seconds,
        **({} if attempt.block is None else attempt.block.fields),
    }
    if attempt.error is None and attempt.verdicts:
        item["metrics"] = [_judge_item(one) for one in attempt.verdicts]
    return item


def _judge_item(verdict: Verdict) -> dict[str, Any]:
    word, reason = _WORDS[verdict.success], verdict.reason or verdict.error
    return {"name": verdict.judge, "verdict": word, "score": verdict.score, "reason": reason}


def conversation_of(attempt: RunAttempt | None) -> list[Mapping[str, Any]]:
    """Return what was said before an attempt and in it, if it is more than one question and its answer."""
    if attempt is None or not any(message.get("role") == "assistant" for message in attempt.messages):
        return []
    answer = [] if attempt.error is not None else [{"role": "assistant", "content": attempt.response}]
    return [*attempt.messages, *answer]


def _fields(tried: Attacked) -> dict[str, Any]:
    """Return what the dataset says of the entry beside its text."""
    said = tried.said
    return {
        name: value
        for name, value in tried.entry.items()
        if name not in NOT_OF_ENTRIES and name != "long_id" and not (isinstance(value, str) and value == said)
    }


def attack_of(header: RunRecord) -> str:
    """Return the name of the attack of a run as its header has it."""
    found: Any = header.settings
    for name in ("attacking", "attack", "name"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) and found else UNNAMED


def attacked(
    name: str,
    described: Mapping[str, Any],
    records: Iterable[Mapping[str, Any]],
    *,
    attack: str | None = None,
    failure: AttackFailure | None = None,
) -> Attacked:
    """Return an entry with the attempts of its standard strategy, or of the attack of this name, in their order.

    BadLine: the records cannot be understood; a row can be made of everything else.
    """
    entry = described.get("entry", {})
    if not isinstance(entry, dict):
        raise BadLine("entry is not an object")
    objects(described, "metrics")
    listed(described, "turns")
    messages, _ = input_of(described)
    attempts = sorted((_attempt_of(record, messages) for record in records), key=lambda one: one.number)
    if attack is not None and attempts:
        attack = attempts[0].strategy
    return Attacked(name, described, entry, asked_of(messages), attempts, attack, failure)
