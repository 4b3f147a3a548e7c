"""The file with the summary of judges: read, merged and written in one go, by one process at a time."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from faircount.errors import UsageError
from faircount.interrupts import uninterrupted

DEFAULT_SUMMARY = "data/detectors-eval/detector_metrics_summary.json"


def update_file(path: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Put the judges of a document into the summary at `path`, keep the others there, and return the whole.

    The folder is made where it is missing. A summary that is there and damaged is refused and left as it is. Two
    processes that do this at once wait for each other, and at any moment the file is whole.
    """
    from faircount.analysis.judges.summary import merged, read_summary, summary_of
    from faircount.new_file import whole_file

    summary_of(document, "the new summary")
    _make_folder(path)
    with _alone(path):
        old = read_summary(path).document if Path(path).is_file() else {}
        whole = merged(old, document)
        text = json.dumps(whole, ensure_ascii=True, allow_nan=False, indent=2) + "\n"
        with whole_file(path) as file:
            file.write(text.encode())
    return whole


def _make_folder(path: str) -> None:
    if not path:
        raise UsageError("-o: an empty name is no file; name one")
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{Path(path).parent}: cannot be created: {error.strerror or error}") from error


@contextlib.contextmanager
@uninterrupted
def _alone(path: str) -> Iterator[None]:
    """Keep other processes from updating the same summary, by a lock on a file beside it that goes away afterwards."""
    try:
        import fcntl
    except ImportError:  # a system without such locks: the file is still written whole
        yield
        return
    beside = Path(path).with_name(f".{Path(path).name}.lock")
    descriptor = -1
    while descriptor < 0:
        descriptor = _opened(beside)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not _is_still_there(beside, descriptor):
            # Whoever held the lock before has taken the file away: others lock the next one.
            os.close(descriptor)
            descriptor = -1
    try:
        yield
    finally:
        beside.unlink(missing_ok=True)
        os.close(descriptor)


def _opened(beside: Path) -> int:
    try:
        return os.open(beside, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(f"{beside.parent}: cannot be written to: {error.strerror or error}") from error


def _is_still_there(beside: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), beside.stat())
    except FileNotFoundError:
        return False
