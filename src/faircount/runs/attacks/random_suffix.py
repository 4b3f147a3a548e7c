"""`random-suffix-search`: the request with a suffix of random characters, which climbs where the judge has degrees."""

from __future__ import annotations

import random
import string
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from faircount.runs.attacks.base import Entry, Step
from faircount.runs.attacks.built_in import OneText, check_seed, check_whole
from faircount.runs.attacks.mutations import wording_of
from faircount.runs.seeding import rng_for

_ALPHABET = string.ascii_letters + string.digits + string.punctuation + " "
_NOTE = "suffix"


class _Hill(Struct):
    """The best suffix since the last start; `stale` counts the iterations that brought nothing better."""

    suffix: str | None = None
    score: float = -1.0
    stale: int = 0


class RandomSuffixSearch(OneText):
    """Appends `length` random characters to the payload.

    Where the judge gives scores, an iteration changes about a fifth of the best suffix so far, and a score that is as
    good or better takes its place; after `patience` iterations without a better one it starts anew. Where the judge
    has no degrees there is nothing to climb: every iteration draws a new suffix. No tokens of a model are known here,
    and no gradients.
    """

    name = "random-suffix-search"
    sentence = "appends random characters; climbs towards a higher score if the judge gives graded ones"

    def __init__(self, *, length: int = 32, patience: int = 16, seed: int = 0) -> None:
        self._length = check_whole(self.name, "length", length, low=1, high=10_000)
        self._patience = check_whole(self.name, "patience", patience, low=1, high=10_000)
        self._seed = check_seed(self.name, seed)
        super().__init__(length=self._length, patience=self._patience, seed=self._seed)

    def text(self, entry: Entry, history: Sequence[Step]) -> tuple[str, Mapping[str, Any]]:
        """Return the text with the next suffix, which is remembered."""
        lots = rng_for(self._seed, entry.name, len(history))
        best = self._best(history)
        suffix = self._drawn(lots) if best is None else self._mutated(best, lots)
        wording = wording_of(entry)
        return wording.with_payload(f"{wording.payload} {suffix}"), {_NOTE: suffix}

    def _best(self, history: Sequence[Step]) -> str | None:
        """Return the suffix to go on from; None where a new one is to be drawn."""
        hill = _Hill()
        for step in history:
            suffix = (step.note or {}).get(_NOTE)
            if step.score is None or not isinstance(suffix, str):
                continue
            hill.stale = 0 if step.score > hill.score else hill.stale + 1
            if step.score >= hill.score:
                hill.suffix, hill.score = suffix, step.score
            if hill.stale >= self._patience:
                hill = _Hill()
        return hill.suffix

    def _drawn(self, lots: random.Random) -> str:
        return "".join(lots.choices(_ALPHABET, k=self._length))

    def _mutated(self, suffix: str, lots: random.Random) -> str:
        characters = list(suffix)
        for place in lots.sample(range(len(characters)), max(1, len(characters) // 5)):
            characters[place] = lots.choice(_ALPHABET)
        return "".join(characters)
