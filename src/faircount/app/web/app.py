"""The application: which address shows which page, and the templates that lay pages out.

Every text that a template puts out is escaped, and every character in it that cannot be seen is spelled out first
(`_shown`): no template can forget it, since all of them are filled in by this one environment.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from faircount.analysis import browse
from faircount.analysis.browse import ShownText
from faircount.analysis.label_writer import LabelWriter, NotSavedError
from faircount.app.web import compare, forms, judges, labels, operating, pages, pairs, search
from faircount.app.web.comparisons import Comparisons
from faircount.app.web.runs import Run, Runs
from faircount.core.errors import FaircountError, InputError, UsageError
from faircount.core.text import replace_surrogates, visible
from faircount.report import formats
from faircount.version import __version__

FIRST_WAIT = 0.4
"""The first page waits so long for figures, in seconds; others are filled in when they are there."""
_HERE = Path(__file__).parent
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
_TEXTS_KEPT = 2
_NOT_FOUND = "There is no such page."


def _shown(value: Any) -> Any:
    """Return what a template puts out: texts with everything hidden spelled out, line by line."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join(visible(line) for line in value.split("\n"))
    return "" if value is None else value


def environment() -> jinja2.Environment:
    """Return what fills in the templates."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"version": __version__, "formats": formats, "title_of": pages.title_of}
    made.filters |= {"count": lambda number: f"{number:,}", "quoted": pages.quoted}
    return made


class OpenRuns(Struct, frozen=True):
    """The page of some runs, and what everything on it is asked of."""

    runs: Runs
    judge_quality: str | None = None
    wait: float | None = None
    labels: LabelWriter | None = None
    """The file that labels are written to; without it, nothing is."""
    second_opinions: float = 0.0
    comparisons: Comparisons | None = None
    exported: Any = None
    """What the pages of an export know of it; without it, they are served."""


class _Answers:
    """The functions behind the addresses; each gets a request and returns a response."""

    def __init__(self, page: OpenRuns) -> None:
        self._runs = page.runs
        self._quality = page.judge_quality
        self._wait = page.wait
        self._comparisons = page.comparisons or Comparisons(page.judge_quality)
        self._labelling = page.labels is not None
        self._exported = page.exported
        self._templates = environment()
        self._texts: OrderedDict[tuple[Any, ...], ShownText] = OrderedDict()
        self._lock = threading.Lock()

    def _html(self, template: str, status: int = 200, **context: Any) -> Response:
        context |= {"runs_open": self._runs.all, "labelling": self._labelling, "exported": self._exported}
        text = self._templates.get_template(template).render(**context)
        return Response(replace_surrogates(text).encode(), status_code=status, media_type="text/html")

    def problem(self, status: int, message: str) -> Response:
        return self._html("problem.html", status, message=message)

    def _run(self, request: Request) -> Run:
        run = self._runs.find(request.path_params["run"])
        if run is None:
            raise InputError("There is no such run on this page.")
        return run

    def _base(self, request: Request) -> Run | None:
        """Return the baseline that an address names: its page is about the difference from it."""
        named = request.query_params.get("base")
        base = self._runs.find(named) if named else None
        if named and base is None:
            raise InputError("The baseline is not among the runs on this page.")
        return base

    # -- pages ---------------------------------------------------------------------------------------------------

    def index(self, request: Request) -> Response:
        base = self._base(request)
        if base is not None:
            page = compare.compared_runs_page(self._comparisons, self._runs, base, _query(request), self._wait)
            return self._html("compare_runs.html", page=page)
        return self._html("runs.html", page=pages.runs_page(self._runs, _query(request), self._wait))

    def rows(self, request: Request) -> Response:
        """The lines of some runs alone, for a page that shows them already."""
        chosen = self._runs.chosen(request.query_params.getlist("run"))
        for run in chosen:
            run.summary()
        self._runs.call_by_target()
        base = self._base(request)
        if base is not None:
            lines = [compare.compared_line(self._comparisons, base, run) for run in chosen]
            return self._html("compare_rows.html", lines=lines, base=base)
        return self._html("run_rows.html", lines=[pages.run_line(run) for run in chosen])

    def run(self, request: Request) -> Response:
        run, base = self._run(request), self._base(request)
        if base is not None:
            return self._html("compare_run.html", page=compare.pair_page(self._comparisons, self._runs, run, base))
        return self._html("run.html", page=pages.run_page(self._runs, run, _query(request), self._quality))

    def entries(self, request: Request) -> Response:
        run, base = self._run(request), self._base(request)
        if base is not None:
            compared = pairs.pairs_page(self._comparisons, run, base, _query(request))
            return self._html("compare_entries.html", page=compared)
        page = pages.entries_page(run, _query(request))
        run.warm_up()
        return self._html("entries.html", page=page)

    def entry(self, request: Request) -> Response:
        run, line, base = self._run(request), request.path_params["line"], self._base(request)
        if base is not None:
            page = pairs.pair_entry_page(self._comparisons, run, base, line, _query(request))
            return self._html("compare_entry.html", page=page)
        return self._html("entry.html", page=pages.entry_page(self._runs, run, line, _query(request)))

    def entry_text(self, request: Request) -> Response:
        view = browse.entry_at(self._run(request).results(), request.path_params["line"])
        return PlainTextResponse(replace_surrogates(pages.as_text(view)))

    def entry_json(self, request: Request) -> Response:
        view = browse.entry_at(self._run(request).results(), request.path_params["line"])
        return Response(pages.as_json(view), media_type="application/json")

    def line(self, request: Request) -> Response:
        """The entry that the row on a line belongs to; a line that is no such row is shown as it is."""
        run, line = self._run(request), request.path_params["line"]
        try:
            return self._html("entry.html", page=pages.entry_page(self._runs, run, line, _query(request)))
        except UsageError:
            return self._html("line.html", page=pages.line_page(run, line))

    def text(self, request: Request) -> Response:
        run, line = self._run(request), request.path_params["line"]
        part = request.query_params.get("part", "")
        key = (run.id, run.stamp, line, part)
        with self._lock:
            text = self._texts.get(key)
        if text is None:
            text = pages.text_at(run, line, part)
            with self._lock:
                self._texts[key] = text
                while len(self._texts) > _TEXTS_KEPT:
                    self._texts.popitem(last=False)
        piece = pages.piece_of(text, pages.whole(request.query_params.get("from"), 0))
        return _json(piece)

    def xray(self, request: Request) -> Response:
        run, line = self._run(request), request.path_params["line"]
        return self._html("xray.html", page=pages.xray_page(run, line, request.query_params.get("part", "response")))

    def judges(self, request: Request, made_by: judges.JudgesPages) -> Response:
        return self._html("judges.html", page=made_by.page(self._run(request), _query(request)))

    def operating(self, request: Request, made_by: operating.OperatingPages) -> Response:
        return self._html("operating.html", page=made_by.page(_query(request)))

    def compare(self, request: Request) -> Response:
        """Two or more runs; the first that is named is the baseline."""
        named = [request.query_params.get("base", ""), *request.query_params.getlist("run")]
        chosen = self._runs.chosen(named)
        if len(chosen) == 2:
            page = compare.pair_page(self._comparisons, self._runs, chosen[1], chosen[0])
            return self._html("compare_run.html", page=page)
        return self._html("compare.html", page=compare.matrix_page(self._comparisons, chosen, _query(request)))

    # -- answers to our own scripts ------------------------------------------------------------------------------

    def complete(self, request: Request) -> Response:
        return _json(pages.completions(self._run(request), request.query_params.get("text", "")[:2000]))

    def live(self, request: Request) -> Response:
        """What has changed: the state of each run that is or was in progress, with a mark of how far its file is."""
        del request
        states = [(run, run.journal().state) for run in self._runs.all]
        return _json({run.id: [state, run.stamp[0]] for run, state in states if state})

    def search(self, request: Request) -> Response:
        words, chosen = self._searched(request)
        found = None
        if "now" in request.query_params and words:
            found = list(search.search(chosen, words))
        return self._html(
            "search.html",
            words=words,
            chosen=[run.id for run in chosen],
            named=request.query_params.getlist("run"),
            found=None if found is None else [one for one in found if isinstance(one, search.Hit)],
            labels={run.id: run.label for run in self._runs.all},
        )

    def hits(self, request: Request) -> Response:
        words, chosen = self._searched(request)
        per_run = search.MOST_HITS if len(chosen) == 1 else search.HITS_PER_RUN
        found = search.search(chosen, words, per_run) if words else iter(())
        return StreamingResponse(_lines(found), media_type="application/x-ndjson")

    def _searched(self, request: Request) -> tuple[str, list[Run]]:
        chosen = self._runs.chosen(request.query_params.getlist("run")) or self._runs.all
        return request.query_params.get("q", "").strip()[: search.LONGEST_QUERY], chosen

    def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        content = static_files().get(name)
        if content is None:
            return self.problem(404, _NOT_FOUND)
        return Response(content, media_type=_TYPES[Path(name).suffix])


def static_files() -> dict[str, bytes]:
    """Return our own scripts and styles by their names: no other file can be asked for."""
    found = {path.name: path.read_bytes() for path in (_HERE / "static").iterdir() if path.suffix in _TYPES}
    return found | {"report.css": resources.files("faircount.report").joinpath("report.css").read_bytes()}


def _query(request: Request) -> list[tuple[str, str]]:
    return list(request.query_params.multi_items())


def _json(content: Any) -> Response:
    return JSONResponse(content)


def _lines(found: Iterator[search.Hit | search.SearchProgress]) -> Iterator[bytes]:
    for one in found:
        yield search.as_line(one)


def application(page: OpenRuns) -> Starlette:
    """Return the application of a page."""
    answers = _Answers(page)

    def answer(function: Callable[..., Response]) -> Callable[..., Response]:
        def respond(*given: Any) -> Response:
            try:
                return function(*given)
            except NotSavedError as error:
                return answers.problem(500, str(error))
            except InputError as error:
                return answers.problem(404, str(error))
            except FaircountError as error:
                return answers.problem(400, str(error))
            except OSError as error:
                return answers.problem(500, f"A file could not be read: {error.strerror or error}")
            except Exception as error:
                if os.environ.get("FAIRCOUNT_DEBUG"):
                    raise
                return answers.problem(500, f"Internal error, please report it ({type(error).__name__}: {error}).")

        respond.__name__ = getattr(function, "__name__", "respond")
        return respond

    one = "/run/{run}"
    routes = {
        "/": answers.index,
        "/rows": answers.rows,
        "/compare": answers.compare,
        "/search": answers.search,
        "/hits": answers.hits,
        "/live": answers.live,
        "/static/{name}": answers.static,
        one: answers.run,
        f"{one}/entries": answers.entries,
        f"{one}/complete": answers.complete,
        f"{one}/entry/{{line:int}}": answers.entry,
        f"{one}/entry/{{line:int}}.txt": answers.entry_text,
        f"{one}/entry/{{line:int}}.json": answers.entry_json,
        f"{one}/line/{{line:int}}": answers.line,
        f"{one}/text/{{line:int}}": answers.text,
        f"{one}/xray/{{line:int}}": answers.xray,
    }

    sent: dict[str, Callable[..., Response]] = {}
    labels_of: judges.LabelsOfRun = judges.QualityLabels(page.judge_quality).of
    if page.labels is not None:
        label_pages = labels.LabelPages(page.runs, page.labels, answers._html, second_opinions=page.second_opinions)
        routes |= label_pages.shown
        sent = label_pages.sent
        labels_of = label_pages.labels_or(labels_of)
    judge_pages = judges.JudgesPages(labels_of)
    operating_pages = operating.OperatingPages(page.runs)
    routes["/operating-point"] = lambda request: answers.operating(request, operating_pages)
    routes[f"{one}/judges"] = lambda request: answers.judges(request, judge_pages)

    def missing(request: Request, error: Exception) -> Response:
        del request, error
        return answers.problem(404, _NOT_FOUND)

    made = Starlette(
        routes=[
            *(Route(path, answer(function), methods=["GET"]) for path, function in routes.items()),
            *(Route(path, forms.receiver(answer(function)), methods=["POST"]) for path, function in sent.items()),
        ],
        exception_handlers={404: missing},
    )
    made.state.forms = frozenset(sent)
    return made
