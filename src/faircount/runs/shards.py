"""Parts of a dataset that are run apart: which entries belong to which, and how they are put in random order.

To which shard an entry belongs hangs on its place in the dataset alone, so that every shard is chosen without the
others and together they are the whole.
"""

from __future__ import annotations

import re
from typing import TypeVar

from msgspec import Struct

from faircount.core.errors import UsageError
from faircount.core.text import clip, visible
from faircount.runs.seeding import rng_for

Item = TypeVar("Item")
_SHARD = re.compile(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*")


class Shard(Struct, frozen=True):
    """One of `count` parts; `number` counts from 1."""

    number: int
    count: int

    def of(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """Return the part: every so-manieth, so that what stands together in a dataset is spread over all."""
        return items[self.number - 1 :: self.count]


def read_shard(text: str) -> Shard:
    """Return the shard that `i/n` names."""
    found = _SHARD.fullmatch(text)
    shard = Shard(int(found[1]), int(found[2])) if found else Shard(0, 0)
    if not 1 <= shard.number <= shard.count:
        raise UsageError(f"--shard {clip(visible(text), 40)}: write NUMBER/COUNT, such as 1/4 to 4/4")
    return shard


def in_random_order(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Return items in an order that is drawn by lot, and always the same."""
    order = list(items)
    rng_for(0, "order", len(order)).shuffle(order)
    return tuple(order)
