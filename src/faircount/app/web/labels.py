"""The pages on which people label entries: one at a time, without verdict and target, and what their labels show.

Looking changes nothing. What changes the file of labels is a form that is sent: an answer, an undo, a decision between
people who differ, or the wish for the next entry. An answer is on the disk before the next entry is shown.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlencode

from markupsafe import Markup
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from faircount.analysis import labelling
from faircount.analysis.browse import AttemptView, ShownText
from faircount.analysis.correct.inputs import RunLabels
from faircount.analysis.label_writer import LabelWriter
from faircount.analysis.labelling import LabelQueue, RowToLabel, RunFrame, RunLabelsSoFar, RunToLabel, SecondOpinions
from faircount.app.web import pages
from faircount.app.web.forms import form_token
from faircount.app.web.judges import LabelsOfRun
from faircount.app.web.pages import TextView
from faircount.app.web.runs import RUNNING, Run, Runs, Stamp
from faircount.core.errors import FaircountError, InputError, UsageError
from faircount.core.text import clip, visible
from faircount.io.lenient_json import BadLine, parse
from faircount.readers.label_log import AnyRecord, GivenLabel, LabelLog, LabelRecord
from faircount.readers.rows import scalar_text
from faircount.report import formats
from faircount.report.svg import interval_svg

AUTHOR = "faircount-author"
"""The cookie with the name of who labels."""
DEFAULT_BELOW = "5"
LONGEST_NAME, LONGEST_NOTE = 40, 2_000
_LONGEST_CRITERION = 2_000

Html = Callable[..., Response]
Fields = Sequence[tuple[str, str]]


# -- what a page shows ----------------------------------------------------------------------------------------------


class ChosenRuns(Struct, frozen=True):
    """What an address says: which runs are labelled, and what is to be decided about their rates."""

    runs: tuple[str, ...] = ()
    below: str = DEFAULT_BELOW

    @classmethod
    def of(cls, fields: Fields) -> ChosenRuns:
        """Read an address, or the hidden fields of a form."""
        below = dict(fields).get("below", DEFAULT_BELOW).strip().removesuffix("%").strip()
        return cls(tuple(dict.fromkeys(value for name, value in fields if name == "run")), below[:12])

    @property
    def threshold(self) -> float | None:
        """The rate that is asked about; None where that is no share."""
        try:
            found = float(self.below) / 100
        except ValueError:
            return None
        return found if 0 < found <= 1 else None

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The fields that a form has to keep."""
        return [*(("run", run) for run in self.runs), ("below", self.below)]

    def address(self, path: str, **more: str) -> str:
        """Return the address of a page about the same runs."""
        return f"{path}?{urlencode([*self.fields, *more.items()])}"


class RateLine(Struct, frozen=True):
    """What the labels of a run show so far, and whether that is enough."""

    run: Run
    state: RunLabelsSoFar
    interval: Markup
    decided: bool | None
    sentence: str


class ItemView(Struct, frozen=True):
    """A row to be labelled, without anything that tells its verdict or its target."""

    draw: int
    at: int
    rows: int
    texts: tuple[TextView, ...]
    history: tuple[tuple[int, tuple[TextView, ...]], ...]
    criterion: str
    unread: str
    said: tuple[LabelRecord, ...] = ()
    """What people said of it, where somebody is to decide between them."""


class LabelPage(Struct, frozen=True):
    """The page of who labels."""

    chosen: ChosenRuns
    author: str
    token: str
    file: str
    offered: tuple[tuple[Run, str], ...]
    """Runs, and why one cannot be labelled."""
    rates: tuple[RateLine, ...]
    item: ItemView | None
    items: tuple[ItemView, ...]
    own: int
    labels: int
    opinions: SecondOpinions
    undecided: int
    notice: str
    problems: tuple[str, ...]


_NOTICES = {
    "stale": "This was labelled already: nothing was changed. Press u to take your last label back.",
    "undone": "Taken back. Label it again.",
    "nothing": "There is no label of yours to take back.",
    "decided": "Decided.",
}


# -- answers --------------------------------------------------------------------------------------------------------


class LabelPages:
    """The functions behind the addresses of labels; those that change something get the fields of a form."""

    def __init__(self, runs: Runs, writer: LabelWriter, html: Html, *, second_opinions: float) -> None:
        self._runs, self._writer, self._html = runs, writer, html
        self._second_opinions = second_opinions
        self._names = dict(zip(runs.all, labelling.names_in_labels([run.path for run in runs.all]), strict=True))
        self._frames: dict[str, tuple[Stamp, RunFrame | str]] = {}
        self._lock = threading.Lock()

    @property
    def shown(self) -> dict[str, Callable[[Request], Response]]:
        """What only looks."""
        return {
            "/label": self.label,
            "/label/rates": self.rates,
            "/label/undecided": self.undecided,
            "/label/text/{draw:int}/{at:int}": self.text,
        }

    @property
    def sent(self) -> dict[str, Callable[[Request, Fields], Response]]:
        """What changes the file of labels."""
        return {
            "/label/start": self.start,
            "/label/answer": self.answer,
            "/label/undo": self.undo,
            "/label/decide": self.decide,
        }

    # -- looking -------------------------------------------------------------------------------------------------

    def label(self, request: Request) -> Response:
        author, log, queue = _author(request), self._writer.refresh(), self._queue(request)
        item = queue.open_for(log, author) if author else None
        return self._html("label.html", page=self._page(request, log, queue, None if item is None else [item]))

    def rates(self, request: Request) -> Response:
        """The figures alone, for a page that shows them already."""
        log = self._writer.refresh()
        return self._html("label_rates.html", page=self._page(request, log, self._queue(request), None))

    def undecided(self, request: Request) -> Response:
        log, queue = self._writer.refresh(), self._queue(request)
        return self._html("label_undecided.html", page=self._page(request, log, queue, queue.undecided(log)))

    def text(self, request: Request) -> Response:
        """A further piece of a long text, by the numbers of the draw: no address tells the run."""
        log, queue = self._writer.refresh(), self._queue(request)
        item = queue.item(log, request.path_params["draw"], request.path_params["at"])
        part = request.query_params.get("part", "")
        if item is not None:
            for text in _texts(item.attempt()):
                if text.part == part:
                    return JSONResponse(pages.piece_of(text, pages.whole(request.query_params.get("from"), 0)))
        raise InputError("There is no such text.")

    # -- sending -------------------------------------------------------------------------------------------------

    def start(self, request: Request, fields: Fields) -> Response:
        """Take down who labels, and show an entry."""
        author = _cleaned_name(dict(fields).get("author", "")) or _author(request)
        if not author:
            raise UsageError("Say who labels: a name, or initials.")
        chosen = ChosenRuns.of(fields)
        queue = self._queue_of(chosen)
        self._writer.write(lambda log: list(queue.show_next(log, author)))
        response = RedirectResponse(chosen.address("/label"), status_code=303)
        response.set_cookie(AUTHOR, quote(author), httponly=True, samesite="strict", path="/")
        return response

    def answer(self, request: Request, fields: Fields) -> Response:
        """Write a label down, and draw the next entry with it."""
        author, chosen, said = _required_author(request), ChosenRuns.of(fields), _SentLabel.of(fields)
        queue, stale = self._queue_of(chosen), False

        def make(log: LabelLog) -> list[AnyRecord]:
            nonlocal stale
            item = queue.item(log, said.draw, said.at)
            record = None if item is None else queue.label(log, item, author, said.answer, said.note)
            stale = record is None
            if record is None:
                return list(queue.show_next(log, author))
            log.add(record)
            return [record, *queue.show_next(log, author)]

        self._writer.write(make)
        return _back(chosen, "/label", "stale" if stale else "")

    def undo(self, request: Request, fields: Fields) -> Response:
        """Take the last label of somebody back."""
        author, chosen = _required_author(request), ChosenRuns.of(fields)
        queue, found = self._queue_of(chosen), False

        def make(log: LabelLog) -> list[AnyRecord]:
            nonlocal found
            record = queue.retraction(log, author)
            found = record is not None
            return [] if record is None else [record]

        self._writer.write(make)
        return _back(chosen, "/label", "undone" if found else "nothing")

    def decide(self, request: Request, fields: Fields) -> Response:
        """Write down what somebody decided where people differ, or could not tell."""
        author, chosen, said = _required_author(request), ChosenRuns.of(fields), _SentLabel.of(fields)
        queue, stale = self._queue_of(chosen), False

        def make(log: LabelLog) -> list[AnyRecord]:
            nonlocal stale
            item = queue.item(log, said.draw, said.at)
            record = None if item is None else queue.label(log, item, author, said.answer, said.note, adjudicates=True)
            stale = record is None
            return [] if record is None else [record]

        self._writer.write(make)
        return _back(chosen, "/label/undecided", "stale" if stale else "decided")

    # -- runs ----------------------------------------------------------------------------------------------------

    def to_label(self, run: Run) -> RunToLabel | str:
        """Return a run as it is to be labelled, or why it cannot be."""
        if run.journal().state == RUNNING:
            return "still running"
        results, stamp = run.results(), run.stamp
        with self._lock:
            known = self._frames.get(run.id)
        if known is None or known[0] != stamp:
            try:
                known = stamp, labelling.run_frame(results)
            except (FaircountError, OSError) as error:
                known = stamp, str(error)
            with self._lock:
                self._frames[run.id] = known
        return known[1] if isinstance(known[1], str) else RunToLabel(self._names[run], results, known[1])

    def _chosen(self, chosen: ChosenRuns) -> list[tuple[Run, RunToLabel]]:
        wanted = self._runs.chosen(chosen.runs) or self._runs.all
        found = ((run, self.to_label(run)) for run in wanted)
        return [(run, one) for run, one in found if isinstance(one, RunToLabel)]

    def _queue_of(self, chosen: ChosenRuns) -> LabelQueue:
        return LabelQueue([one for _, one in self._chosen(chosen)], second_opinions=self._second_opinions)

    def _queue(self, request: Request) -> LabelQueue:
        return self._queue_of(ChosenRuns.of(list(request.query_params.multi_items())))

    def labels_or(self, others: LabelsOfRun) -> LabelsOfRun:
        """Return what gives the labels of a run: those of the file, or others where it has none."""

        def labels_of(run: Run) -> tuple[RunLabels, str] | None:
            one = self.to_label(run)
            found = None if isinstance(one, str) else labelling.run_labels(one, run.path, self._writer.refresh())
            return others(run) if found is None or not found.rows[run.path] else (found, self._writer.path)

        return labels_of

    # -- contexts ------------------------------------------------------------------------------------------------

    def _page(
        self, request: Request, log: LabelLog, queue: LabelQueue, items: Sequence[RowToLabel] | None
    ) -> LabelPage:
        chosen = ChosenRuns.of(list(request.query_params.multi_items()))
        author = _author(request)
        views = tuple(_item_view(item, log, chosen) for item in items or ())
        rates = tuple(_rate_line(run, labelling.labels_so_far(one, log), chosen) for run, one in self._chosen(chosen))
        found = ((run, self.to_label(run)) for run in self._runs.all)
        own = labelling.labels_by_author(log.labels.values())
        trouble = [*self._writer.problems, *([self._writer.torn] if self._writer.torn else [])]
        return LabelPage(
            chosen=chosen,
            author=author,
            token=form_token(request),
            file=self._writer.path,
            offered=tuple((run, one if isinstance(one, str) else "") for run, one in found),
            rates=rates,
            item=views[0] if views else None,
            items=views,
            own=own.get(author, 0),
            labels=sum(own.values()),
            opinions=labelling.agreement_of_labels(log),
            undecided=len(queue.undecided(log)),
            notice=_NOTICES.get(request.query_params.get("notice", ""), ""),
            problems=tuple(trouble),
        )


def _back(chosen: ChosenRuns, path: str, notice: str) -> Response:
    return RedirectResponse(chosen.address(path, **({"notice": notice} if notice else {})), status_code=303)


def _author(request: Request) -> str:
    return _cleaned_name(unquote(request.cookies.get(AUTHOR, "")))


def _required_author(request: Request) -> str:
    author = _author(request)
    if not author:
        raise UsageError("Nobody said who labels: open /label and give a name.")
    return author


def _cleaned_name(text: str) -> str:
    return clip(visible(" ".join(text.split())), LONGEST_NAME)


class _SentLabel(Struct, frozen=True):
    """An answer as a form sends it."""

    draw: int
    at: int
    answer: GivenLabel
    note: str

    @classmethod
    def of(cls, fields: Fields) -> _SentLabel:
        said = dict(fields)
        try:
            answer = GivenLabel(said.get("label", ""))
        except ValueError:
            raise UsageError("A label is hit, pass or unclear.") from None
        note = said.get("note", "").replace("\r\n", "\n").strip()[:LONGEST_NOTE]
        return cls(pages.whole(said.get("draw"), 0), pages.whole(said.get("at"), -1), answer, note)


# -- a row ----------------------------------------------------------------------------------------------------------


def _texts(attempt: AttemptView) -> Iterator[ShownText]:
    yield from attempt.texts
    for request in attempt.history:
        yield from request.texts


def _item_view(item: RowToLabel, log: LabelLog, chosen: ChosenRuns) -> ItemView:
    attempt, draw = item.attempt(), item.draw.first.draw

    def view(text: ShownText) -> TextView:
        # A passage that is marked would tell what the judge found.
        address = chosen.address(f"/label/text/{draw}/{item.at}", part=text.part)
        return pages.text_view(ShownText(text.part, text.role, text.text, calls=text.calls), address, "")

    row = log.row(item.name)
    return ItemView(
        draw=draw,
        at=item.at,
        rows=len(item.draw.rows),
        texts=tuple(map(view, attempt.texts)),
        history=tuple(
            (request.number, tuple(map(view, request.texts))) for request in attempt.history if len(attempt.history) > 1
        ),
        criterion=_criterion(attempt.row),
        unread=attempt.unread,
        said=tuple(row.by_author.values()),
    )


def _criterion(line: bytes) -> str:
    """Return what the judge was told to look for: a person needs to know it as well."""
    try:
        row: Mapping[str, Any] = parse(line)[0]
    except BadLine:
        return ""
    arguments = row.get("judge_args")
    if isinstance(arguments, str):
        return arguments[:_LONGEST_CRITERION]
    listed = arguments if isinstance(arguments, list) else ()
    return ", ".join(filter(None, map(scalar_text, listed)))[:_LONGEST_CRITERION]


# -- rates ----------------------------------------------------------------------------------------------------------


def _rate_line(run: Run, state: RunLabelsSoFar, chosen: ChosenRuns) -> RateLine:
    threshold = chosen.threshold
    drawn = Markup("") if state.rate is None or state.rate.low is None else Markup(interval_svg(state.rate))
    if threshold is None or state.rate is None:
        return RateLine(run, state, drawn, None, "")
    decided = state.below(threshold)
    return RateLine(run, state, drawn, decided, _sentence(state, threshold, decided))


def _sentence(state: RunLabelsSoFar, threshold: float, decided: bool | None) -> str:
    rate, asked = state.rate, formats.exact_percent(threshold)
    assert rate is not None
    if decided is not None:
        limit = rate.high if decided else rate.low
        least = "at most" if decided else "at least"
        share = formats.percent_apart(limit or 0.0, threshold)
        answer = "Yes" if decided else "No"
        return f"Below {asked}? {answer}: {least} {share} of the entries are true successes. You can stop."
    more = state.more_labels(threshold)
    if more is None:
        return f"Below {asked}? Not known yet."
    return f"Below {asked}? Not known yet: about {more:,} more labels will show it, if they go on like these."
