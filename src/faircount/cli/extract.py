"""The command `results extract`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from faircount import formats
from faircount.analysis.extracting import Extraction, ExtractOptions
from faircount.cli.messages import note
from faircount.cli.new_dataset import named_output
from faircount.cli.output import refuse_inputs
from faircount.cli.progress import ReadingBar
from faircount.cli.results import named_files
from faircount.errors import InputError
from faircount.findings import Notes, counted
from faircount.present.new_file import SUFFIX, NewFile
from faircount.text import visible

FOLDER = "results"
PLACES_SHOWN = 3


def extract(arguments: argparse.Namespace) -> int:
    """Run `results extract`."""
    options = _options(arguments)
    files = named_files(arguments)
    path = _path(arguments, options)
    with ReadingBar(files) as bar, Extraction(files, options, bar.advance) as extraction:
        refuse_inputs(path, extraction.paths)
        with NewFile(path, force=arguments.force, may_number=arguments.output is None) as file:
            for pieces in extraction.lines():
                file.write_all(pieces)
    sys.stdout.write(_answer(extraction, file.path))
    for sentence in problems(extraction):
        note(sentence)
    if arguments.strict and extraction.damaged:
        note("--strict: some input could not be read, see above")
        return InputError.exit_code
    return 0


def _options(arguments: argparse.Namespace) -> ExtractOptions:
    return ExtractOptions(
        category=arguments.category,
        where=arguments.where,
        query=arguments.query,
        custom_search=tuple(arguments.custom_search),
        ignore_case=arguments.ignore_case,
        regex=arguments.regex,
        definition=arguments.definition,
        entries=arguments.entries,
        max_line=arguments.max_line,
        cache=arguments.cache,
        policy_blocks=arguments.policy_blocks,
    )


def _path(arguments: argparse.Namespace, options: ExtractOptions) -> str:
    """Return where the new dataset goes: where the user says, else to where spikee would write it."""
    path = named_output(arguments, standard_output="the number of rows")
    if path is not None:
        return path
    parts = ["extract", options.label, *([] if arguments.tag is None else [arguments.tag]), str(int(time.time()))]
    return str(Path(FOLDER) / ("_".join(parts) + SUFFIX))


def _answer(extraction: Extraction, path: str) -> str:
    """Return how many rows were chosen of how many, the rate, and where they are."""
    matched, total, place = extraction.matched, extraction.total, visible(path)
    if not total:
        return f"No rows were read: {place} is empty\n"
    if not matched:
        return f"None of {counted(total, 'row')} matches: {place} is empty\n"
    found = f"{matched:,} of {counted(total, 'row')} ({formats.percent(matched / total)})"
    if not extraction.options.entries:
        return f"Extracted {found} to {place}\n"
    entries = counted(extraction.entries, "entry", "entries")
    verb = "matches" if matched == 1 else "match"
    return f"{found} {verb}: extracted all {counted(extraction.written, 'row')} of {entries} to {place}\n"


def problems(extraction: Extraction) -> list[str]:
    """Return a sentence for each file that was given twice, and for all that could not be read."""
    sentences = [
        f"F007 {other}: the same file as {item.path}, read once" for item in extraction.inputs for other in item.also
    ]
    for _, notes in extraction.read:
        sentences += [f"F001 {told}" for told in _bad_lines(notes)]
        sentences += [f"F002 {notes.name}: {what}: the rest is missing" for what, _ in notes.subjects("F002")]
    return sentences


def _bad_lines(notes: Notes) -> list[str]:
    sentences = []
    for reason, times in notes.subjects("F001"):
        lines = notes.lines["F001", reason]
        places = ", ".join(f"{notes.name}:{line}" for line in lines[:PLACES_SHOWN])
        more = f" and {times - PLACES_SHOWN:,} more" if times > PLACES_SHOWN else ""
        left_out = "was" if times == 1 else "were"
        sentences.append(f"{counted(times, 'line')} could not be read and {left_out} skipped: {reason}; {places}{more}")
    return sentences
