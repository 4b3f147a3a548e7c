"""Lots that hang on given values alone: not on the process, and not on what was drawn before."""

from __future__ import annotations

import hashlib
import random


def digest_of(*parts: object) -> bytes:
    """Return 32 bytes that are the same for the same values."""
    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "surrogatepass")).digest()


def lots_for(*parts: object) -> random.Random:
    """Return a source of lots that is the same for the same values: a seed first, then what it is drawn for."""
    return random.Random(int.from_bytes(digest_of(*parts), "big"))
