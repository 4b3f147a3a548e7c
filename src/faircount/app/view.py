"""`faircount view` as a library call: files in, a page on this machine, or one page of it as text.

What serves the page is imported only here, and only then.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faircount.app.options import AnyPath, ViewOptions, refuse_inputs
from faircount.app.results import RESULTS_FOLDER
from faircount.core.errors import InputError, UsageError
from faircount.core.options import options_from

if TYPE_CHECKING:
    from starlette.applications import Starlette

NEEDED = ("starlette", "uvicorn", "jinja2")
MISSING = "the page needs packages that are not installed ({}); install them with: pip install 'faircount[view]'"


def view(
    *paths: AnyPath,
    options: ViewOptions | None = None,
    started: Callable[[str, str], None] = lambda *_: None,
    **keywords: Any,
) -> None:
    """Show results in the browser until an interrupt; options are the fields of `ViewOptions`.

    `started` is called with the address of the page, and a warning if others can reach it.
    """
    (asked,) = options_from(keywords, ViewOptions, given=options)
    _refuse_missing()
    from faircount.app.web.app import FIRST_WAIT
    from faircount.app.web.server import Access, is_loopback, listening_socket, serve

    access = Access.for_host(asked.host, asked.port or 0, asked.token)
    with _application(paths, asked, wait=FIRST_WAIT) as app, listening_socket(asked.host, asked.port or 0) as listening:
        access = Access(access.host, listening.getsockname()[1], access.token)
        warning = "" if is_loopback(asked.host) else _WARNING.format(asked.host)
        started(access.address, warning)
        serve(app, access, listening, browser=asked.browser)


_WARNING = (
    "listening on {}: whoever can reach this machine and has the token can read every prompt and response of these "
    "files, and the connection is not encrypted"
)


def page(address: str, *paths: AnyPath, options: ViewOptions | None = None, **keywords: Any) -> bytes:
    """Return one page as it would be served; options are the fields of `ViewOptions`."""
    (asked,) = options_from(keywords, ViewOptions, given=options)
    _refuse_missing()
    from faircount.app.web.server import get

    with _application(paths, asked, wait=None) as app:
        status, content = get(app, address)
    if status == 404:
        raise InputError(f"{address}: no such page")
    if status >= 400:
        raise UsageError(f"{address}: this page cannot be shown (status {status})")
    return content


def _refuse_missing() -> None:
    missing = [name for name in NEEDED if util.find_spec(name) is None]
    if missing:
        raise UsageError(MISSING.format(", ".join(missing)))


@contextlib.contextmanager
def _application(paths: tuple[AnyPath, ...], asked: ViewOptions, wait: float | None) -> Iterator[Starlette]:
    from faircount.app.web.app import OpenRuns, application
    from faircount.app.web.runs import Runs

    files = files_of(paths, asked)
    with contextlib.ExitStack() as opened:
        labels = None
        if asked.labels is not None:
            from faircount.analysis.label_writer import LabelWriter

            refuse_inputs(asked.labels, files)
            labels = opened.enter_context(contextlib.closing(LabelWriter(asked.labels)))
        runs = opened.enter_context(Runs(files, asked.analyzed))
        if wait is not None:
            runs.begin()
        yield application(OpenRuns(runs, asked.judge_quality, wait, labels, asked.second_opinions))


def files_of(paths: tuple[AnyPath, ...], asked: ViewOptions) -> list[str]:
    """Return the result files that a page is about; without what shows pages, say so."""
    _refuse_missing()
    from faircount.app.web.runs import found_files

    names = [os.fspath(path) for path in paths] or [str(path) for path in asked.paths] or [_default_folder()]
    return found_files(names, asked.read_as)


def _default_folder() -> str:
    return RESULTS_FOLDER if Path(RESULTS_FOLDER).is_dir() else "."
