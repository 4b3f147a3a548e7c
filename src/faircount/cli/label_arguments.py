"""Which words are label files and which are judges, and what the options say about labels."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from faircount.errors import InputError, UsageError
from faircount.reading.labelled import LabelOptions

STDIN = "-"
_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".gz", ".zst")


def labels_and_judges(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return the label files and the judges: words behind --labels that are no files are judges.

    `--labels a.csv refusal` names a file and a judge; `--labels nowhere.csv refusal` a file that is missing.
    """
    files: list[str] = []
    judges: list[str] = []
    for word in arguments.labels:
        if _is_file_name(word):
            files.append(word)
        else:
            judges.append(word)
    judges += arguments.judges
    _refuse_missing([*files, *arguments.results])
    return files, judges


def _is_file_name(word: str) -> bool:
    return word == STDIN or ("(" not in word and (Path(word).exists() or word.casefold().endswith(_SUFFIXES)))


def _refuse_missing(files: Sequence[str]) -> None:
    for name in files:
        if name != STDIN and not Path(name).exists():
            raise InputError(f"{name}: no such file")


def label_options(arguments: argparse.Namespace, *, text_needed: bool = True) -> LabelOptions:
    """Return what the options say about labels."""
    if arguments.max_line < 1:
        raise UsageError("--max-line must be 1 or more")
    return LabelOptions(
        text_column=arguments.text_column,
        prompt_column=arguments.prompt_column,
        label_columns=tuple(arguments.label_column),
        id_column=arguments.id_column,
        label_threshold=arguments.label_threshold,
        invert=arguments.invert_labels,
        results=tuple(arguments.results),
        max_line=arguments.max_line,
        text_needed=text_needed,
    )
