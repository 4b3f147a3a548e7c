"""Equal classes: as many hits as passes, by leaving out items of the larger class at random, with a seed.

Which items stay depends on the labels in their order and on the seed alone, not on any judge. Only the labels are kept,
one byte an item. The draw is selection sampling over `random()`, the one sequence that Python keeps the same for a seed
from version to version.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from faircount.core.errors import InputError
from faircount.core.verdict import Decision
from faircount.readers.label_types import Labelled

_LEFT_OUT, _KEPT, _HIT, _PASS = range(4)
_STAYS = bytes.maketrans(bytes([_HIT, _PASS]), bytes([_KEPT, _KEPT]))
_CODES = {Decision.HIT: _HIT, Decision.PASS: _PASS, None: _LEFT_OUT}


def balanced(labels: Iterable[Labelled], seed: int) -> bytes:
    """Read labels once and choose as many items of the larger class as the smaller one has; all of that one stay.

    Return a byte for every item in the order of reading: 1 if it stays, 0 if it does not or has no label.
    """
    codes = bytearray(_CODES[labelled.label] for labelled in labels)
    hits, passes = codes.count(_HIT), codes.count(_PASS)
    each = min(hits, passes)
    if not each:
        missing = "hits" if not hits else "passes"
        raise InputError(f"the labels have no {missing}, so the classes cannot be balanced (--balance)")
    larger, count = (_HIT, hits) if hits > passes else (_PASS, passes)
    _draw(codes, larger, each, count, Random(seed))
    return bytes(codes).translate(_STAYS)


def _draw(codes: bytearray, larger: int, wanted: int, left: int, random: Random) -> None:
    """Leave out all but the wanted number of the items of a class, of which so many are there."""
    place = codes.find(larger)
    while place >= 0:
        # An item stays with the chance that as many of those left are still wanted.
        if random.random() * left < wanted:
            wanted -= 1
        else:
            codes[place] = _LEFT_OUT
        left -= 1
        place = codes.find(larger, place + 1)
