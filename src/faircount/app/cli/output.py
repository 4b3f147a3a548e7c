"""Where an answer goes: standard output, or a file that is written whole or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from faircount.app.cli.messages import colours, note
from faircount.app.output_files import beside_others, is_our_page, refuse_inputs, stem_of
from faircount.core.errors import UsageError
from faircount.core.text import inert_lines, visible
from faircount.io.new_file import whole_file
from faircount.report import console, documents
from faircount.report.blocks import Report

STDIN = "-"
PAGE_SUFFIX = "_analysis.html"


def show(report: Report, output_format: str, path: str | None, inputs: Iterable[str] = ()) -> None:
    """Show a report in a format on standard output, or write it to `path`; `inputs` are never overwritten."""
    if output_format == "xlsx" and path is not None:
        from faircount.report import xlsx

        refuse_inputs(path, inputs)
        xlsx.write_report(path, report)
        return
    if output_format == "json":
        text = documents.as_json(report)
    elif output_format == "markdown":
        from faircount.report import markdown

        text = markdown.render(report)
    else:
        terminal = path is None and sys.stdout.isatty()
        colour = path is None and colours(sys.stdout)
        text = console.render(report, width=console.terminal_width(terminal), colour=colour)
    if path is None:
        sys.stdout.write(text)
        return
    refuse_inputs(path, inputs)
    _write(path, text)


# -- pages ------------------------------------------------------------------------------------------------------


def show_pages(
    pages: Sequence[tuple[str, Report]], path: str | None, inputs: Sequence[str] = (), *, several: bool = False
) -> None:
    """Write each report as an HTML page and print where it is. A page is known by its input, or by a name.

    Without `path` a page goes beside its input. `path` is the file to write or, with `several` pages, a folder. A
    file that the user did not name is replaced only if Faircount wrote it, else the page gets a number.
    """
    from faircount.report import html

    named = path is not None and not several and not Path(path).is_dir()
    if path is not None and named:
        targets = [path]
    else:
        places = _unique([_page_path(name, path) for name, _ in pages])
        targets = [beside_others(place, _may_be_written, note) for place in places]
    for target in targets:
        refuse_inputs(target, inputs)
    if path is not None and several:
        _make_folder(path)
    for target, (_, report) in zip(targets, pages, strict=True):
        _write(target, html.render(report))
        sys.stdout.write(inert_lines(f"{visible(target)}\n"))


def _page_path(name: str, folder: str | None) -> str:
    """Return where the page of an input goes: into the folder if there is one, else beside the input."""
    source = Path("stdin" if name == STDIN else name)
    return str((source.parent if folder is None else Path(folder)) / f"{stem_of(source.name)}{PAGE_SUFFIX}")


def _unique(paths: Sequence[str]) -> list[str]:
    """Number the paths that stand more than once, also where only the case of their letters differs."""
    taken: set[str] = set()
    result = []
    for path in paths:
        unique, number = path, 1
        while os.path.realpath(unique).casefold() in taken:
            number += 1
            unique = f"{path.removesuffix(PAGE_SUFFIX)}_{number}{PAGE_SUFFIX}"
        taken.add(os.path.realpath(unique).casefold())
        result.append(unique)
    return result


def _may_be_written(path: str) -> bool:
    return not os.path.lexists(path) or is_our_page(path)


def _make_folder(path: str) -> None:
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UsageError(f"{path}: is a file; several pages need a folder") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be created: {error.strerror or error}") from error


def _write(path: str, text: str) -> None:
    with whole_file(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))
