"""The documented shape of what readers hand to the ledger.

A batch carries three kinds of rows. *Attempts*: one per recorded line, with the columns below and an open set of
facets. *History*: what happened inside a dynamic attack, counted per line by state and kind of error.
*Categories*: what a guardrail named when it blocked. Text stays in the source, reached by line and byte offset;
three checksums of it are enough to tell whether two rows tell of the same case and the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class Mark:
    """How sure a row is to belong to a dynamic attack. Plain numbers: they are written for every row."""

    STANDARD = 0
    ATTACK = 1
    ATTACK_BY_ID = 2
    """No attack is named, but the id ends like an attack row's: decided when all ids are known."""


class Answer:
    """What kind of response a row holds. Plain numbers, too."""

    EMPTY = 0
    BOOLEAN = 1
    TEXT = 2


ATTEMPT_COLUMNS: dict[str, str] = {
    "line": "BIGINT",
    "byte_offset": "BIGINT",
    "own_id": "VARCHAR",
    "parent_id": "VARCHAR",
    "result_origin": "VARCHAR",
    "source_file": "VARCHAR",
    "mark": "TINYINT",
    "attack": "VARCHAR",
    "decision": "BOOLEAN",
    "truthy": "BOOLEAN",
    "state": "VARCHAR",
    "errored": "BOOLEAN",
    "guardrail": "BOOLEAN",
    "error_text": "VARCHAR",
    "error_kind": "VARCHAR",
    "requests": "BIGINT",
    "response_time": "DOUBLE",
    "answer": "TINYINT",
    "text_crc": "BIGINT",
    "objective_crc": "BIGINT",
    "response_crc": "BIGINT",
    "has_history": "BOOLEAN",
}
"""Columns of an attempt in order; the store adds `source` before and the facets after them."""

HISTORY_COLUMNS: dict[str, str] = {
    "line": "BIGINT",
    "state": "VARCHAR",
    "error_kind": "VARCHAR",
    "times": "BIGINT",
    "first_at": "BIGINT",
}

CATEGORY_COLUMNS: dict[str, str] = {"line": "BIGINT", "category": "VARCHAR"}


@dataclass(slots=True)
class Batch:
    """A bounded number of rows on their way from a reader to the ledger, column by column."""

    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in ATTEMPT_COLUMNS})
    facets: dict[str, list[str | None]] = field(default_factory=dict)
    history: list[tuple[Any, ...]] = field(default_factory=list)
    categories: list[tuple[Any, ...]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.columns["line"])

    def add(self, columns: Mapping[str, Sequence[Any]], facets: Mapping[str, Sequence[str | None]]) -> None:
        """Append rows; a facet that is new, or that these rows do not have, is missing elsewhere."""
        before = len(self)
        for name, values in columns.items():
            self.columns[name] += values
        for name, labels in facets.items():
            if name in self.facets or any(labels):
                column = self.facets.setdefault(name, [])
                column += [None] * (before - len(column))
                column += labels

    def facet(self, name: str) -> list[str | None]:
        """Return a facet's values for all rows."""
        values = self.facets[name]
        return values + [None] * (len(self) - len(values))
