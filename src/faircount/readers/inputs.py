"""Which files the user means: names, folders, globs and standard input, in the order given.

A file that was given twice, under whatever spelling, is found out here, before anything is read.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from faircount.core.errors import InputError, UsageError
from faircount.core.text import clip_middle
from faircount.io import lenient_json as loose
from faircount.io.files import (
    SCHEMES,
    has_other_scheme,
    is_address,
    is_file,
    is_folder,
    list_files,
    list_folder,
    look_again,
    place_key,
    size_of,
)
from faircount.io.streams import STDIN, sha256_of, split_member
from faircount.readers.registry import TABLE, ReadAs, is_run_folder, open_stream, read_as_of, runs_in, set_read_as

RESULT_PREFIX = "results_"
_RESULT_KEYS = frozenset({"success", "response", "error", "guardrail"})
_RESULT_KEY = re.compile(rb'"(?:success|response)"\s*:')
_TELLING_BYTES = 64 * 1024
_LONGEST_NAME = 40
RESULT_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")


class Input(Struct, frozen=True):
    """A file to read: its path as given, and the spellings that turned out to be the same file."""

    path: str
    also: tuple[str, ...] = ()


def expand(files: Sequence[str], read_as: ReadAs | None = None, *, split: bool = True) -> list[str]:
    """Return the paths that the given names stand for, a file that holds several runs as a path for each.

    A glob is every file that it matches, by name. `read_as` is what the user says of the files. Files that are not
    results are not to be `split`.
    """
    found: list[str] = []
    look_again(files)
    for name in files:
        found += _expand_file(name, read_as)
    if found.count(STDIN) > 1:
        raise UsageError("standard input (-) can be given only once")
    paths: list[str] = []
    for path in found:
        set_read_as(split_member(path)[0], read_as)
        for place, run in (runs_in(path) if split else {path: None}).items():
            set_read_as(place, replace(read_as or read_as_of(place), run=run))
            paths.append(place)
    return paths


def _expand_file(name: str, read_as: ReadAs | None) -> list[str]:
    if name == STDIN or is_file(name):
        return [name]
    pattern = glob.has_magic(name)
    # At an address, each of these is a request; a pattern is nothing else there.
    if not (pattern and is_address(name)):
        if is_folder(name):
            return results_in(name, read_as)[0]
        if split_member(name)[1] is not None:
            return [name]
    if pattern:
        found = list_files(name)
        if not found:
            raise InputError(f"{name}: no file matches")
        return found
    if is_address(name) or not Path(name).exists():
        known = f"; addresses begin with {', '.join(f'{one}://' for one in SCHEMES)}" if has_other_scheme(name) else ""
        raise InputError(f"{name}: no such file{known}")
    return [name]


def results_in(folder: str, read_as: ReadAs | None = None) -> tuple[list[str], list[str]]:
    """Return the result files of a folder, recognised by their content, and the names of its other files.

    A folder that is one run is the only result itself.
    """
    if is_run_folder(folder):
        return [str(Path(folder))], []  # without a slash at the end
    results: list[str] = []
    others: list[str] = []
    for path in list_folder(folder):
        name = Path(path).name
        if not name.startswith("."):
            set_read_as(path, read_as)
            if _holds_results(path):
                results.append(path)
            else:
                others.append(name)
    if not results:
        raise InputError(f"{folder}: no result files" + (f", only {listed(others)}" if others else ""))
    return results, others


def _holds_results(path: str) -> bool:
    """Return whether a file is one of a tool or a run, or begins with a row of a result file.

    Any table may lie in a folder, an export of ours, too: it is a result file where the user says how to read it.
    """
    try:
        stream = open_stream(path, path)
        if stream.run is not None and stream.run.reader == TABLE and read_as_of(path) == ReadAs():
            return False
        if stream.run is not None:
            return True
        start = next(stream.chunks, b"")
    except (InputError, UsageError):
        return False
    *whole, last = start[:_TELLING_BYTES].split(b"\n")
    return any(map(_is_result, whole or [last])) or (not whole and bool(_RESULT_KEY.search(last)))


def _is_result(line: bytes) -> bool:
    try:
        row, _ = loose.parse(line)
    except loose.BadLine:
        return False
    return "id" in row and not _RESULT_KEYS.isdisjoint(row)


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return a few names, and how many more there are."""
    more = len(names) - most
    return ", ".join(clip_middle(name, _LONGEST_NAME) for name in names[:most]) + (
        f" and {more:,} more" if more > 0 else ""
    )


def expand_folder(folder: str) -> list[str]:
    """Return the result files of a folder, by name."""
    if not is_folder(folder):
        raise InputError(f"{folder}: no such folder")
    if is_run_folder(folder):
        return expand([folder])
    found = sorted(
        path
        for path in list_folder(folder)
        if Path(path).name.startswith(RESULT_PREFIX) and path.endswith(RESULT_SUFFIXES)
    )
    if not found:
        raise InputError(f"{folder}: no file whose name starts with {RESULT_PREFIX} and ends with .jsonl, .gz or .zst")
    return found


def distinct(paths: Sequence[str]) -> list[Input]:
    """Merge paths that are the same file, by place or by content, keeping the first spelling of each."""
    kept: dict[str, list[str]] = {}
    by_identity: dict[object, str] = {}
    for path in paths:
        first = by_identity.setdefault(path if path == STDIN else place_key(path), path)
        kept.setdefault(first, []).append(path)
    for copy, original in _same_content(list(kept)):
        kept[original] += kept.pop(copy)
    return [Input(path, tuple(spellings[1:])) for path, spellings in kept.items()]


def _same_content(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Return (copy, original) for files of equal size and digest; empty files are not copies of each other."""
    copies: list[tuple[str, str]] = []
    by_size: dict[int, list[str]] = {}
    for path in paths:
        if path != STDIN and is_file(path) and (size := size_of(path)):
            by_size.setdefault(size, []).append(path)
    for same_size in by_size.values():
        if len(same_size) > 1:
            originals: dict[str, str] = {}
            for path in same_size:
                original = originals.setdefault(_digest(path), path)
                if original != path:
                    copies.append((path, original))
    return copies


def _digest(path: str) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
