"""Random numbers that depend on given values alone: not on the process, nor on what was drawn before."""

from __future__ import annotations

import hashlib
import random


def digest_of(*parts: object) -> bytes:
    """Return 32 bytes that are the same for the same values."""
    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "surrogatepass")).digest()


def rng_for(*parts: object) -> random.Random:
    """Return a generator that is the same for the same values: a seed first, then what is drawn."""
    return random.Random(int.from_bytes(digest_of(*parts), "big"))
