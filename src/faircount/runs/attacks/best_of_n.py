"""`best-of-n`: the same request again and again, each time written a little differently.

After Hughes et al. 2024, "Best-of-N Jailbreaking": the inner letters of words are scrambled, letters change their case,
and a few characters are replaced by their neighbours in ASCII, each with a probability that follows from `strength`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from faircount.judges.judge import check_number
from faircount.runs.attacks.base import Entry, Step
from faircount.runs.attacks.built_in import OneText, check_seed
from faircount.runs.attacks.mutations import wording_of
from faircount.runs.seeding import rng_for

_LONG_WORD = re.compile(r"\w{4,}")
_FIRST, _LAST = 0x20, 0x7E


class BestOfN(OneText):
    """Scrambles words, changes the case of letters and the characters themselves, differently in every iteration.

    `strength` from 0 to 1: a word of four letters or more is scrambled, and a letter changes its case, with the
    probability √strength; a character becomes the one before or after it in ASCII with the probability strength³.
    `seed` gives another series.
    """

    name = "best-of-n"
    sentence = "scrambles words and changes case and characters at random, differently each iteration"

    def __init__(self, *, strength: float = 0.4, seed: int = 0) -> None:
        self._strength = check_number(self.name, "strength", strength, high=1.0)
        self._seed = check_seed(self.name, seed)
        super().__init__(strength=self._strength, seed=self._seed)

    def text(self, entry: Entry, history: Sequence[Step]) -> tuple[str, Mapping[str, Any]]:
        """Return the text, rewritten."""
        lots = rng_for(self._seed, entry.name, len(history))
        wording = wording_of(entry)
        return wording.with_payload(wording.turned(lambda text: _changed(text, self._strength, lots))), {}


def _changed(text: str, strength: float, lots: random.Random) -> str:
    often, seldom = strength**0.5, strength**3
    scrambled = _LONG_WORD.sub(lambda word: _scrambled(word[0], often, lots), text)
    cased = "".join(one.swapcase() if lots.random() < often else one for one in scrambled)
    return "".join(_neighbour(one, lots) if lots.random() < seldom else one for one in cased)


def _scrambled(word: str, probability: float, lots: random.Random) -> str:
    if lots.random() >= probability:
        return word
    inner = list(word[1:-1])
    lots.shuffle(inner)
    return f"{word[0]}{''.join(inner)}{word[-1]}"


def _neighbour(character: str, lots: random.Random) -> str:
    """Return the character before or after one in printable ASCII; any other stays."""
    code = ord(character)
    if not _FIRST <= code <= _LAST:
        return character
    moved = code + lots.choice((-1, 1))
    return chr(moved) if _FIRST <= moved <= _LAST else character
