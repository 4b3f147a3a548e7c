"""The `cache` commands."""

from __future__ import annotations

from faircount.app.cli.runner import CommandResult
from faircount.core.errors import UsageError
from faircount.core.findings import counted
from faircount.core.text import inert_lines, visible
from faircount.readers.cache import FOLDER_VARIABLE, Cache, default_folder


def show() -> CommandResult:
    """Run `cache show`."""
    cache = _cache()
    return _answer(f"{cache.folder}: {_described(*cache.size())} (limit: {_megabytes(cache.limit)})")


def clear() -> CommandResult:
    """Run `cache clear`."""
    cache = _cache()
    entries, size = cache.clear()
    return _answer(f"{cache.folder}: {f'deleted {_described(entries, size)}' if entries else 'nothing to delete'}")


def _cache() -> Cache:
    folder = default_folder()
    if folder is None:
        raise UsageError(f"no home folder for the cache; set {FOLDER_VARIABLE}")
    return Cache(folder)


def _described(entries: int, size: int) -> str:
    return f"{counted(entries, 'cached file')}, {_megabytes(size)}" if entries else "empty"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _answer(text: str) -> CommandResult:
    return CommandResult(text=inert_lines(visible(text) + "\n"))
