"""The `cache` commands."""

from __future__ import annotations

import argparse
import sys

from faircount.errors import UsageError
from faircount.findings import counted
from faircount.reading.cache import FOLDER_VARIABLE, Cache, default_folder
from faircount.text import visible


def show(arguments: argparse.Namespace) -> int:
    """Run `cache show`."""
    del arguments
    cache = _cache()
    _say(f"{cache.folder}: {_described(*cache.size())}, at most {_megabytes(cache.limit)}")
    return 0


def clear(arguments: argparse.Namespace) -> int:
    """Run `cache clear`."""
    del arguments
    cache = _cache()
    entries, size = cache.clear()
    _say(f"{cache.folder}: {f'{_described(entries, size)}, now deleted' if entries else 'nothing to delete'}")
    return 0


def _cache() -> Cache:
    folder = default_folder()
    if folder is None:
        raise UsageError(f"there is no home folder for a cache; name one in {FOLDER_VARIABLE}")
    return Cache(folder)


def _described(entries: int, size: int) -> str:
    return f"{counted(entries, 'reading')} kept in {_megabytes(size)}" if entries else "nothing kept"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _say(text: str) -> None:
    sys.stdout.write(visible(text) + "\n")
