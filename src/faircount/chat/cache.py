"""Answers kept on disk, each in one file that is named by the digest of what was asked.

A request is where it goes, the model, the messages and the parameters; the same request gets the same answer again.
Only answers are kept: no messages, no headers, no errors. A file is written whole or not at all, for its owner alone. A
damaged file is as good as none. A cache that cannot be written is no reason to fail.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from faircount.chat import wire
from faircount.chat.answer import ChatAnswer
from faircount.chat.provider import ChatRequest
from faircount.core.errors import UsageError
from faircount.core.interrupts import uninterrupted
from faircount.core.text import visible

FORMAT = 1


class _Kept(Struct, frozen=True):
    format: int
    request: str
    digest: str
    answer: Raw


class AnswerCache:
    """A folder of answers."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{visible(folder)}: cannot create a folder for answers here ({error.strerror}); choose another one"
            ) from None

    def read(self, name: str) -> ChatAnswer | None:
        """Return a kept answer, or None."""
        try:
            data = self._path(name).read_bytes()
            kept = msgspec.json.decode(data, type=_Kept)
            if (kept.format, kept.request, kept.digest) != (FORMAT, name, _checksum(bytes(kept.answer))):
                return None
            answer = msgspec.json.decode(kept.answer, type=ChatAnswer)
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
            return None
        return msgspec.structs.replace(answer, cached=True, cost=0.0, tries=0, waited=0.0)

    def write(self, name: str, answer: ChatAnswer) -> None:
        """Keep an answer, over an older one or a damaged file."""
        content = msgspec.json.encode(answer)
        data = msgspec.json.encode(_Kept(FORMAT, name, _checksum(content), Raw(content)))
        path = self._path(name)
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            _write_whole(path, data)

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / f"{name}.json"


def name_of(base_url: str, provider: str, request: ChatRequest) -> str:
    """Return the name of a request: a SHA-256."""
    return wire.digest([FORMAT, provider, base_url, request.model, request.messages, request.parameters])


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@uninterrupted
def _write_whole(path: Path, data: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)  # for its owner alone
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
