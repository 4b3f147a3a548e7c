"""One file of a comparison as arrays: an element for every entry, in the order of the file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from faircount.analysis.dataset_matching import needs_rows
from faircount.analysis.fields import ATTACK_FIELD
from faircount.analysis.results import Folded
from faircount.ledger import tallies
from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.ledger.store import Ledger
from faircount.model import Outcome
from faircount.reading.datasets import NO_CONTENT

ANSWERS = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.GUARDRAIL)
"""What an answered entry ends in: a block is an answer."""

_SUCCESS = OUTCOME_NUMBER[Outcome.SUCCESS]

# An entry is known by its first standard row, or else by its first row. Where that is part of an attack, its prompt is
# a variant that the attack made up: its objective is the content.
_ENTRIES = """
SELECT
    e.entry_key AS entry_key,
    e.outcome AS outcome,
    COALESCE(e.family, 0) AS family,
    t.ord AS ord,
    CASE WHEN t.mark = 2 AND NOT t.is_attack THEN COALESCE(t.own_id, t.parent_id) ELSE t.parent_id END AS id,
    CASE WHEN t.is_attack THEN 0 ELSE COALESCE(t.text_hash, 0) END AS content,
    t.is_attack AS alone
FROM (
    SELECT entry_key, COALESCE(MIN(CASE WHEN is_attack THEN NULL ELSE ord END), MIN(ord)) AS head
    FROM told
    GROUP BY entry_key
) AS h
INNER JOIN entry AS e ON h.entry_key = e.entry_key
INNER JOIN told AS t ON h.head = t.ord
ORDER BY t.ord
"""

_OBJECTIVES = """
SELECT e.entry_key, COALESCE(a.objective_hash, 0)
FROM entry AS e
INNER JOIN attempt AS a ON e.first_ord = a.ord
WHERE NOT e.has_standard
ORDER BY e.entry_key
"""


class Side:
    """The entries of one folded file, as far as a comparison asks about them."""

    def __init__(self, folded: Folded) -> None:
        import numpy as np

        assert isinstance(folded.ledger, Ledger)
        self.folded = folded
        self.ledger = folded.ledger
        self.label = ""
        """What people call the file; known when all files are."""
        self.counts = tallies.overall(self.ledger)
        with self.ledger.beside() as connection:
            found: dict[str, Any] = connection.execute(_ENTRIES).fetchnumpy()
        self.keys, self.outcomes, self.families = (found[name] for name in ("entry_key", "outcome", "family"))
        self.ords, self.alone = found["ord"], found["alone"]
        self._numbers = found["id"].astype(np.int64)
        self.contents = self._contents(found)
        self.succeeded = self.outcomes == _SUCCESS
        self.answered = np.isin(self.outcomes, [OUTCOME_NUMBER[outcome] for outcome in ANSWERS])

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def path(self) -> str:
        return self.ledger.paths[0]

    def _contents(self, found: dict[str, Any]) -> Any:
        """Return the checksum of each entry's prompt, 0 where there is none."""
        import numpy as np

        contents = found["content"].astype(np.int64)
        if found["alone"].any():
            rows = self.ledger.query(_OBJECTIVES)
            keys, objectives = (np.array([row[at] for row in rows], np.int64) for at in range(2))
            at = np.flatnonzero(found["alone"])
            contents[at] = objectives[np.searchsorted(keys, found["entry_key"][at])]
        contents[np.isin(contents, np.array(sorted(NO_CONTENT), np.int64))] = 0
        return contents

    def ids(self, words: dict[str, int]) -> Any:
        """Return the ids as numbers that mean the same in every file that shares `words`."""
        import numpy as np

        if not (self._numbers >= 0).any():
            return self._numbers
        lexicon = self.ledger.lexicon("parent_id")
        shared = np.array([words.setdefault(word or "", len(words)) for word in lexicon], np.int64)
        return np.where(self._numbers >= 0, shared[np.maximum(self._numbers, 0)], self._numbers)

    def names(self, rows: Any) -> tuple[str, ...]:
        """Return the ids of entries as text."""
        return tuple(self.ledger.word("parent_id", number) or "" for number in self._numbers[rows].tolist())

    def places(self, rows: Any) -> tuple[str, ...]:
        """Return where entries stand."""
        return tuple(self.ledger.place(ord_) for ord_ in self.ords[rows].tolist())

    @cached_property
    def _order_of_keys(self) -> Any:
        import numpy as np

        return np.argsort(self.keys, kind="stable")

    def values(self, column: str, words: dict[str | None, int]) -> Any:
        """Return the values of a column as numbers that mean the same in every file that shares `words`."""
        import numpy as np

        with self.ledger.beside() as connection:
            found = connection.execute(f"SELECT entry_key, COALESCE({column}, 0) AS value FROM entry").fetchnumpy()
        order = self._order_of_keys
        numbers = np.empty(len(self), np.int64)
        numbers[order[np.searchsorted(self.keys, found["entry_key"], sorter=order)]] = found["value"]
        distinct, inverse = np.unique(numbers, return_inverse=True)
        texts = [tallies.text_of(self.ledger, column, number or None) or None for number in distinct.tolist()]
        return np.array([words.setdefault(text, len(words)) for text in texts], np.int64)[inverse]

    def column(self, field: str) -> str | None:
        """Return the column that holds a field, None where no entry has it."""
        return self.ledger.facets.get(field, ATTACK_FIELD if field == ATTACK_FIELD else None)


def lacks_objectives(folded: Folded) -> bool:
    """Tell whether a file must be read anew: the cache holds no objectives, and attacks stand there alone."""
    return isinstance(folded.ledger, Ledger) and needs_rows(folded.ledger)


def aims(sides: Sequence[Side]) -> list[str]:
    """Return what each file is about."""
    return [side.folded.aim for side in sides]
