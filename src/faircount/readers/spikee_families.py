"""Which entries are variants of one another: spikee crosses documents and instructions with jailbreaks, positions,
plugins and more, and writes what it crossed into the long id.

    <task>_<document>_<jailbreak>_<instruction>_<position>[_<plugin>-<k>][-p<prefix>][-s<suffix>][-sys]
    <id>[_<plugin>-<k>]                                        where nothing was crossed but plugins

A family is the document and the instruction behind a row. The other fields of the row say where one name ends and the
next begins, since names may hold the same signs that separate them.
"""

from __future__ import annotations

import re

FAMILY_FIELDS = ("document_id", "position", "instruction_type", "plugin")
"""The fields that help to read a long id, in the order in which `family` takes them."""

_SEPARATOR = "_"
_PARTS = 5
_EXTRACTED = "_extracted_"
_AFTER_THE_POSITION = "_-"


def family(
    long_id: str | None,
    document: str | None,
    position: str | None,
    instruction_type: str | None,
    plugin: str | None,
) -> str | None:
    """Return what the variants of one instruction in one document have in common; None where nothing tells."""
    if not long_id:
        return f"{document or ''}\n{instruction_type or ''}" if document or instruction_type else None
    if document and position:
        parts = long_id.split(_SEPARATOR, _PARTS)
        if len(parts) >= _PARTS and parts[1] == document and _begins_with(parts[4], position):
            return f"{document}\n{parts[3]}"
        instruction = _instruction(long_id, document, position, instruction_type)
        if instruction:
            return f"{document}\n{instruction}"
    return "\n" + _standalone(long_id, plugin)


def _begins_with(part: str, position: str) -> bool:
    return part == position or part.startswith(f"{position}-")


def _instruction(long_id: str, document: str, position: str, instruction_type: str | None) -> str | None:
    """Return the instruction in a long id in whose names there are separators."""
    _, found, rest = long_id.partition(f"_{document}_")
    jailbreak_ends = rest.find(_SEPARATOR, 1) if found else -1
    if jailbreak_ends < 0:
        return None
    end = re.compile(f"_{re.escape(position)}(?=[{_AFTER_THE_POSITION}]|$)").search(rest, jailbreak_ends + 2)
    if end is None:
        return None
    crossed = rest[: end.start()]
    jailbreak, between, named = crossed.rpartition(f"_{instruction_type}") if instruction_type else ("", "", "")
    if between and jailbreak:
        return f"{instruction_type}{named}"
    jailbreak, _, instruction = crossed.rpartition(_SEPARATOR)
    return instruction if jailbreak else None


def _standalone(long_id: str, plugin: str | None) -> str:
    """Return the id of an input that was taken as it is, without the plugin that changed it."""
    base = long_id.partition(_EXTRACTED)[0]
    named = base.rpartition(f"_{plugin}-")[0] if plugin else ""
    return named or base
