"""Where an answer goes: standard output, or a file that is written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from faircount.errors import UsageError
from faircount.present import console, json_text
from faircount.report import Report


def show(report: Report, output_format: str, path: str | None, inputs: Iterable[str] = ()) -> None:
    """Show a report in a format on standard output, or write it to `path`; `inputs` are never overwritten."""
    if output_format == "json":
        text = json_text.render(report)
    else:
        terminal = path is None and sys.stdout.isatty()
        colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        text = console.render(report, width=console.terminal_width(terminal), colour=colour)
    if path is None:
        sys.stdout.write(text)
        return
    for name in inputs:
        if Path(path).exists() and Path(name).exists() and Path(path).samefile(name):
            raise UsageError(f"{path}: is an input; the answer needs a file of its own")
    write_whole(path, text)


def write_whole(path: str, text: str) -> None:
    """Write a file so that at any moment it holds either what it held before or all of the new text."""
    target = Path(path)
    if target.is_dir():
        raise UsageError(f"{path}: is a folder; name a file")
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n", errors="backslashreplace") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            mask = os.umask(0)
            os.umask(mask)
            Path(temporary).chmod(0o666 & ~mask)
            Path(temporary).replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error
