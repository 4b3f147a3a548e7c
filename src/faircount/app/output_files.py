"""Where files go: never over an input, and over another file only if Faircount wrote it or the caller insists."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from faircount.core.errors import UsageError

AnyPath = str | os.PathLike[str]
Notice = Callable[[str], None]
"""Hears a sentence that the user should know and no error says."""
_START_OF_A_PAGE = 4096
_COMPRESSED, _RECORDS = (".gz", ".zst"), (".jsonl", ".json")


def ignore(*_: object) -> None:
    """Hear of progress, or a notice, and do nothing about it."""


def stem_of(name: str) -> str:
    """Return the name of a file of records without its folder and what says how it is written: x of a/x.jsonl.gz."""
    stem = Path(name).name
    for suffix in (*_COMPRESSED, *_RECORDS):
        stem = stem.removesuffix(suffix)
    return stem


def refuse_inputs(path: str, inputs: Iterable[str]) -> None:
    """Raise if a file to be written is one of the inputs."""
    for name in inputs:
        if Path(path).exists() and Path(name).exists() and Path(path).samefile(name):
            raise UsageError(f"{path}: is an input; write the output to another file")


def refuse_same_file(names: str, *paths: AnyPath | None) -> None:
    """Raise if two of the files to be written are the same; `names` are those of the options that name them."""
    places = [os.path.realpath(path) for path in paths if path]
    if len(set(places)) < len(places):
        raise UsageError(f"{names} must be different files")


def beside_others(path: str, may_be_written: Callable[[str], bool], notice: Notice) -> str:
    """Return where a file goes whose name the user did not choose: with a number, if another's file is in the way."""
    suffix = Path(path).suffix
    names = itertools.chain([path], (f"{path.removesuffix(suffix)}_{number}{suffix}" for number in itertools.count(2)))
    place = next(filter(may_be_written, names))
    if place != path:
        notice(f"{path}: already exists and was not written by Faircount; writing {place} instead")
    return place


def is_our_page(path: str) -> bool:
    """Return whether a file is a page that Faircount wrote."""
    from faircount.report import html

    if Path(path).is_file():
        with contextlib.suppress(OSError), Path(path).open(encoding="utf-8", errors="replace") as file:
            return html.is_ours(file.read(_START_OF_A_PAGE))
    return False
