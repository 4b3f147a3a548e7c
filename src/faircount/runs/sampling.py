"""A part of the entries, drawn at random in a way that a seed repeats: the same seed draws what spikee draws."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from typing import TypeVar

from faircount.core.errors import UsageError
from faircount.core.text import clip, visible

_COUNT = re.compile(r"[0-9]{1,12}")
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:e-?[0-9]{1,3})?", re.IGNORECASE)
_SEED = re.compile(r"-?[0-9]{1,40}")
_LONGEST = 40

Item = TypeVar("Item")


def drawn(items: Sequence[Item], sample: str, seed: str) -> tuple[Item, ...]:
    """Return the part of items that `sample` asks for, in the order in which they were drawn.

    `0.25` and `25%` are shares of all, `100` is a number of entries.
    """
    size = sample_size(sample, len(items))
    return tuple(random.Random(read_seed(seed)).sample(items, size))


def sample_size(sample: str, total: int) -> int:
    """Return how many of `total` entries are asked for; UsageError where that is none, or not to be understood."""
    text = sample.strip()
    if _COUNT.fullmatch(text):
        size = min(int(text), total)
    else:
        # Halves are rounded to the even number, as spikee rounds them.
        size = round(total * _share(text, sample))
    if size < 1:
        raise UsageError(f"--sample {_told(sample)} draws none of {total:,} {'entry' if total == 1 else 'entries'}")
    return size


def read_seed(seed: str) -> int:
    """Return the number that a seed is."""
    if not _SEED.fullmatch(seed.strip()):
        raise UsageError(f"--sample-seed {_told(seed)}: write a whole number, or the word random")
    return int(seed)


def _share(text: str, sample: str) -> float:
    number = text.removesuffix("%").strip()
    if _NUMBER.fullmatch(number):
        share = float(number) / 100 if text.endswith("%") else float(number)
        if math.isfinite(share) and 0 < share <= 1:
            return share
    raise UsageError(f"--sample {_told(sample)}: write a share such as 0.25 or 25%, or a number of entries such as 100")


def _told(text: str) -> str:
    return clip(visible(text), _LONGEST)
