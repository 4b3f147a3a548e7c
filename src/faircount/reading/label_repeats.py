"""Items that are there more than once: the same text with the same label or another, and ids with contrary labels.

No text is kept: an item is 25 bytes, of which 16 are hashes that the interpreter makes with a secret of its own.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from faircount.reading.labelled import DoubtKind, Doubts, LabelState

_LINE_BITS = 40
_NONE = 0

Place = Callable[[int, int], str]
"""Gives the place of a line in a file, both as numbers."""


class Repeats:
    """Remembers what tells items apart."""

    def __init__(self) -> None:
        self._texts = array("q")
        self._ids = array("q")
        self._states = bytearray()
        self._places = array("q")
        # Called a million times: the methods are looked up once.
        self._add_text, self._add_id = self._texts.append, self._ids.append
        self._add_state, self._add_place = self._states.append, self._places.append

    def add(self, file: int, line: int, item: str | None, text: str | None, prompt: str, state: int) -> None:
        """Remember an item; an id counts within its file."""
        self._add_text(_NONE if text is None else hash((prompt, text)))
        self._add_id(_NONE if item is None else hash((file, item)))
        self._add_state(state)
        self._add_place((file << _LINE_BITS) + line)

    def tell(self, doubts: Doubts, place: Place) -> None:
        """Hand over what is doubtful, each doubt where it comes up again."""
        import numpy as np

        states = np.frombuffer(bytes(self._states), np.uint8)
        repeated, contradicted = _again(np.frombuffer(self._texts, np.int64), states)
        _, contrary = _again(np.frombuffer(self._ids, np.int64), states)
        for kind, found in (
            (DoubtKind.REPEATED, repeated),
            (DoubtKind.CONTRADICTED, contradicted),
            (DoubtKind.SAME_ID, contrary),
        ):
            for number in found:
                where = self._places[number]
                doubts.add(kind, "", place(where >> _LINE_BITS, where & ((1 << _LINE_BITS) - 1)))


def _again(keys: Any, states: Any) -> tuple[list[int], list[int]]:
    """Return the items whose key and state another one before them has; and all whose key is both hit and pass."""
    import numpy as np

    known = np.flatnonzero(keys)
    order = known[np.lexsort((known, states[known], keys[known]))]
    sorted_keys, sorted_states = keys[order], states[order]
    same_key = sorted_keys[1:] == sorted_keys[:-1]
    repeated = order[1:][same_key & (sorted_states[1:] == sorted_states[:-1])]
    # A hit and a pass stand side by side among those with one key, with nothing between them.
    parted = same_key & (sorted_states[:-1] == LabelState.HIT) & (sorted_states[1:] == LabelState.PASS)
    contrary = np.isin(sorted_keys, sorted_keys[1:][parted]) & (sorted_states <= LabelState.PASS)
    return sorted(repeated.tolist()), sorted(order[contrary].tolist())
