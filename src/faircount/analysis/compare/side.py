"""One file of a comparison as arrays: an element for every entry, in the order of the file."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from faircount.analysis.analyze import Folded
from faircount.analysis.fields import ATTACK_FIELD
from faircount.core.model import Outcome
from faircount.ledger import lookup, tallies
from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.ledger.store import Ledger
from faircount.readers.datasets import NO_CONTENT

ANSWERS = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.GUARDRAIL)
"""What an answered entry ends in: a block is an answer."""

_SUCCESS = OUTCOME_NUMBER[Outcome.SUCCESS]


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
        heads = lookup.entry_heads(self.ledger, arrays=True)
        self.keys, self.outcomes, self.families = heads.entry_key, heads.outcome, heads.family
        self.ords, self.alone = heads.ord, heads.alone
        self._numbers = heads.id.astype(np.int64)
        self.contents = heads.content.astype(np.int64)
        """The checksum of each entry's prompt, 0 where there is none."""
        self.contents[np.isin(self.contents, np.array(sorted(NO_CONTENT), np.int64))] = 0
        self.succeeded = self.outcomes == _SUCCESS
        self.answered = np.isin(self.outcomes, [OUTCOME_NUMBER[outcome] for outcome in ANSWERS])

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def path(self) -> str:
        return self.ledger.paths[0]

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

        keys, values = lookup.values_of_entries(self.ledger, column)
        order = self._order_of_keys
        numbers = np.empty(len(self), np.int64)
        numbers[order[np.searchsorted(self.keys, keys, sorter=order)]] = values
        distinct, inverse = np.unique(numbers, return_inverse=True)
        texts = [tallies.text_of(self.ledger, column, number or None) or None for number in distinct.tolist()]
        return np.array([words.setdefault(text, len(words)) for text in texts], np.int64)[inverse]

    def column(self, field: str) -> str | None:
        """Return the column that holds a field, None where no entry has it."""
        return self.ledger.facets.get(field, ATTACK_FIELD if field == ATTACK_FIELD else None)
