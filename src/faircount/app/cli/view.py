"""`faircount view`: the page, until an interrupt, or one page of it on standard output."""

from __future__ import annotations

import sys

from faircount.app.cli.runner import CommandResult
from faircount.app.cli.terminal import note
from faircount.app.options import ViewOptions


def view(options: ViewOptions) -> CommandResult:
    """Show results in the browser, or print one page."""
    from faircount.app import view as call

    if options.get is not None:
        return CommandResult(text=call.page(options.get, options=options).decode("utf-8", "replace"))
    call.view(options=options, started=_started)
    return CommandResult()


def _started(address: str, warning: str) -> None:
    if warning:
        note(warning)
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    note("the page is at the address above; Ctrl-C ends it")
