"""`faircount view`: the page, until an interrupt, or one page of it on standard output."""

from __future__ import annotations

import sys
from pathlib import Path

from faircount.app.cli.runner import CommandResult
from faircount.app.cli.terminal import note
from faircount.app.options import VerifyOptions, ViewOptions
from faircount.core.errors import UsageError
from faircount.core.findings import counted

EXIT_DIFFERS = 1
DIFFERENCES_SHOWN = 10


def view(options: ViewOptions) -> CommandResult:
    """Show results in the browser, or print one page."""
    if options.export is not None:
        from faircount.app.share import export_view

        made = export_view(options.export, options=options)
        without = "; texts were withheld" if made.redacted else ""
        said = f"{options.export}: {counted(len(made.files), 'file')}, {counted(made.figures, 'figure')}{without}"
        return CommandResult(text=f"{Path(options.export) / 'index.html'}\n", notes=[said])
    if options.redact or options.force:
        raise UsageError(f"--{'redact' if options.redact else 'force'} needs --export FOLDER")
    from faircount.app import view as call

    if options.get is not None:
        return CommandResult(text=call.page(options.get, options=options).decode("utf-8", "replace"))
    call.view(options=options, started=_started)
    return CommandResult()


def verify(options: VerifyOptions) -> CommandResult:
    """Recompute what an export shows, and print what differs."""
    from faircount.app.share import verify as call

    found = call(options.folder, *options.paths)
    shown = [f"  {one}\n" for one in found.differences[:DIFFERENCES_SHOWN]]
    more = len(found.differences) - len(shown)
    rest = f"  and {counted(more, 'more difference')}\n" if more else ""
    text = f"{found.sentence}\n{''.join(shown)}{rest}"
    return CommandResult(text=text, notes=found.notes, code=EXIT_DIFFERS if found.differences else 0)


def _started(address: str, warning: str) -> None:
    if warning:
        note(warning)
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    note("the page is at the address above; Ctrl-C ends it")
