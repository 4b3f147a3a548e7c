"""A journal of attacks as a result file of spikee's.

A result file has the fields of spikee 0.9.2 in their order. What spikee does not write is added behind them: the flags
of a guardrail that stopped an attack, the history of an entry that was tried several times, and why an attack failed.
Entries whose turn did not come have no row: spikee would count them as attacks that failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from faircount.core.errors import InputError
from faircount.core.text import visible
from faircount.io.lenient_json import BadLine
from faircount.judges.factory import JUDGES
from faircount.readers.journal_rows import EntryGathering
from faircount.readers.journals import ATTACK, RunRecord, State
from faircount.readers.run_rows import Attacked, RunAttempt, row_of_entry
from faircount.runs.journal import JournalReader, read_journal

_JUDGE_FIELDS = ("judge_name", "judge_args", "judge_options")
_FACETS = (
    *("task_type", "jailbreak_type", "instruction_type", "document_id", "position", "spotlighting_data_markers"),
    *("injection_delimiters", "suffix_id", "lang", "system_message", "plugin"),
)
_FIRST_FIELDS = ("id", "long_id", "success", "input", "input_type", "response", "response_type", "response_time")
_STANDARD_FIELDS = (*_FIRST_FIELDS, *_JUDGE_FIELDS, "attempts", *_FACETS, "attack_name", "error")
_ATTACK_FIELDS = (
    *(*_FIRST_FIELDS, "attempts", "lang", "error", "attack_name", "attack_options", *_JUDGE_FIELDS),
    *(name for name in _FACETS if name != "lang"),
)
_OPTIONAL_FIELDS = ("guardrail", "guardrail_categories", "policy_block", "objective", "conversation")
_TEXT = "text"
_OF_SPIKEE = "spikee:"


def spikee_rows(path: str) -> Iterator[bytes]:
    """Return the rows of a journal, line by line, in the order in which entries were finished, as spikee has them.

    InputError: it is not the journal of a run over a dataset.
    """
    reader = read_journal(path)
    if reader.header.aim != ATTACK:
        raise InputError(
            f"{visible(path)}: is the journal of a run of tests; spikee's format holds results of attacks, so only a "
            "run over a dataset can be written in it"
        )
    return _spikee_lines(reader, reader.state())


def _spikee_lines(reader: JournalReader, state: State) -> Iterator[bytes]:
    options = _attack_options(reader.header)
    gathering = EntryGathering(state)
    waiting: dict[str, list[Attacked]] = {}
    for tried in _finished_entries(reader.path, state, gathering):
        rows = waiting.setdefault(tried.name, [])
        rows.append(tried)
        if gathering.is_complete(tried.name):
            # The attack stands behind the attempts that made it necessary.
            for row in sorted(waiting.pop(tried.name), key=lambda one: one.attack is not None):
                made = _spikee_row(row, options)
                try:
                    yield json.dumps(made, ensure_ascii=False).encode() + b"\n"
                except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot hold
                    yield json.dumps(made).encode() + b"\n"


def _finished_entries(path: str, state: State, gathering: EntryGathering) -> Iterator[Attacked]:
    """Yield what was tried on entries by one strategy, as it became complete; nothing of those whose turn did not come.

    An entry that is finished although nothing was tried, since its attack had nothing to try, counts as in the journal.
    """
    offset = 0
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, start=1):
            if offset >= state.end:
                return  # torn, or added by a run that goes on
            try:
                tried = gathering.taken(offset, line)
            except BadLine as bad:
                raise InputError(f"{visible(path)}:{number}: cannot understand the entry: {bad}") from None
            offset += len(line)
            if tried is not None and (tried.attempts or tried.failure or state.is_finished(tried.name)):
                yield tried


def _spikee_row(tried: Attacked, options: str | None) -> dict[str, Any]:
    fields = row_of_entry(tried)
    fields |= {
        "input_type": tried.entry.get("content_type") or _TEXT,
        "response": fields["response"] or "",
        "response_type": _TEXT,
        "judge_name": _judge_name(tried, fields["judge_name"]),
        "attack_options": options,
    }
    names = _STANDARD_FIELDS if tried.attack is None else _ATTACK_FIELDS
    row = {name: fields.get(name) for name in names}
    # spikee counts by these: what has parts becomes its text.
    row |= {
        name: json.dumps(value, ensure_ascii=False)
        for name, value in row.items()
        if name in _FACETS and isinstance(value, list | dict)
    }
    row |= {name: fields[name] for name in _OPTIONAL_FIELDS if name in fields}
    if tried.attack is not None or len(tried.attempts) > 1:
        row["attempt_history"] = [_history_item(one) for one in tried.attempts]
    return row if tried.failure is None else {**row, "meta": {"attack_error": tried.failure.error}}


def _history_item(attempt: RunAttempt) -> dict[str, Any]:
    return {
        "input": attempt.input,
        "response": attempt.response or "",
        "success": attempt.success,
        "error": attempt.error,
        "input_type": _TEXT,
        "response_type": _TEXT,
        "invocation": 1,
        **({} if attempt.block is None else attempt.block.fields),
    }


def _judge_name(tried: Attacked, judged_by: str | None) -> str | None:
    """Return the judge by the name that the dataset has for it, if it is the one that judged."""
    given = tried.entry.get("judge_name")
    if not isinstance(given, str) or judged_by is None:
        return judged_by
    known = JUDGES.built_in(given)
    types = [metric.get("type") for metric in tried.described.get("metrics") or ()]
    same = judged_by in (given, _OF_SPIKEE + given) or (known is not None and known.name in types)
    return given if same else judged_by


def _attack_options(header: RunRecord) -> str | None:
    """Return the options of the attack as spikee writes options."""
    found: Any = header.settings
    for name in ("attacking", "attack", "options"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return ",".join(f"{name}={value}" for name, value in found.items()) or None if isinstance(found, Mapping) else None
