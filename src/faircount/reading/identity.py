"""What a file holds, as one short value: two files with the same value hold the same bytes.

The digest is XXH3 with 128 bits, taken over ranges of a fixed size and then over their digests, so that several
processes or threads can share the work. It is seeded with a secret of the user's cache: XXH3 is no cryptographic
digest, but whoever does not know the seed cannot make two files that it takes for one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

from xxhash import xxh3_128, xxh3_128_digest

RANGE_BYTES = 8 * 1024 * 1024
_STEP = 1024 * 1024


class ContentHash:
    """Digests of the ranges of a file whose bytes are handed in one after the other."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._hash = xxh3_128(seed=seed)
        self._left = RANGE_BYTES
        self._whole: list[bytes] = []

    def update(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        rest = memoryview(data)
        while len(rest) >= self._left:
            self._hash.update(rest[: self._left])
            rest = rest[self._left :]
            self._whole.append(self._hash.digest())
            self._hash, self._left = xxh3_128(seed=self._seed), RANGE_BYTES
        self._hash.update(rest)
        self._left -= len(rest)

    def digests(self) -> list[bytes]:
        """Return the digests of all ranges, the last of which may be short."""
        return [*self._whole, self._hash.digest()] if self._left < RANGE_BYTES else list(self._whole)


def identity(digests: Sequence[bytes], seed: int) -> str:
    """Return the value that stands for a file with these digests of its ranges."""
    return xxh3_128_digest(b"".join(digests), seed=seed).hex()


def identity_of_file(path: str, seed: int) -> str:
    """Read a file, by a thread per core, and return the value that stands for it."""
    starts = list(range(0, Path(path).stat().st_size, RANGE_BYTES))
    digests: dict[int, bytes] = {}
    failures: list[OSError] = []

    def work(mine: Sequence[int]) -> None:
        try:
            with Path(path).open("rb", buffering=0) as file:
                for start in mine:
                    digests[start] = _range_digest(file, start, seed)
        except OSError as error:
            failures.append(error)

    count = min(os.cpu_count() or 1, len(starts)) or 1
    threads = [threading.Thread(target=work, args=(starts[turn::count],)) for turn in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return identity([digests[start] for start in starts], seed)


def _range_digest(file: FileIO, start: int, seed: int) -> bytes:
    digest = xxh3_128(seed=seed)
    file.seek(start)
    for _ in range(RANGE_BYTES // _STEP):
        digest.update(file.read(_STEP))
    return digest.digest()
