"""What a file holds, as one short value: files with the same value hold the same bytes.

The digest is taken over ranges of a fixed size and then over their digests, so that several processes or threads can
share the work. It is XXH3 with 128 bits, with a seed of its own and begun with some bytes of its own, so that neither
the numbers that XXH3 works with nor the places where it uses them are known to anybody but the user's cache. That
matters because XXH3 is fast but no cryptographic digest: with the seed alone kept secret, one can still write two files
that one seed in seventy takes for one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

from xxhash import xxh3_128

RANGE_BYTES = 8 * 1024 * 1024
SECRET_BYTES = 2048
_STEP = 1024 * 1024
_XXH3_BLOCK = 1024
"""After so many bytes XXH3 begins again with the same numbers."""


class Secret:
    """What makes the digests of one cache its own."""

    def __init__(self, random: bytes) -> None:
        if len(random) != SECRET_BYTES:
            raise ValueError(f"a secret has {SECRET_BYTES} bytes, not {len(random)}")
        length = 1 + int.from_bytes(random[8:16]) % (_XXH3_BLOCK - 1)
        self._seed, self._beginning = int.from_bytes(random[:8]), random[16 : 16 + length]

    def digesting(self) -> xxh3_128:
        """Begin a digest."""
        return xxh3_128(self._beginning, seed=self._seed)


class ContentHash:
    """Digests of the ranges of a file whose bytes are handed in one after the other."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret
        self._digest = secret.digesting()
        self._left = RANGE_BYTES
        self._whole: list[bytes] = []

    def update(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        rest = memoryview(data)
        while len(rest) >= self._left:
            self._digest.update(rest[: self._left])
            rest = rest[self._left :]
            self._whole.append(self._digest.digest())
            self._digest, self._left = self._secret.digesting(), RANGE_BYTES
        self._digest.update(rest)
        self._left -= len(rest)

    def digests(self) -> list[bytes]:
        """Return the digests of all ranges, the last of which may be short."""
        return [*self._whole, self._digest.digest()] if self._left < RANGE_BYTES else list(self._whole)


def identity(digests: Sequence[bytes], secret: Secret) -> str:
    """Return the value that stands for a file with these digests of its ranges."""
    whole = secret.digesting()
    whole.update(b"".join(digests))
    return whole.digest().hex()


def identity_of_file(path: str, secret: Secret) -> str:
    """Read a file, by a thread per core, and return the value that stands for it."""
    starts = list(range(0, Path(path).stat().st_size, RANGE_BYTES))
    digests: dict[int, bytes] = {}
    failures: list[OSError] = []

    def work(mine: Sequence[int]) -> None:
        try:
            with Path(path).open("rb", buffering=0) as file:
                for start in mine:
                    digests[start] = _range_digest(file, start, secret)
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
    return identity([digests[start] for start in starts], secret)


def _range_digest(file: FileIO, start: int, secret: Secret) -> bytes:
    digest = secret.digesting()
    file.seek(start)
    for _ in range(RANGE_BYTES // _STEP):
        digest.update(file.read(_STEP))
    return digest.digest()
