"""Recorded responses judged again: the rows with their new verdicts in a new file, and their effect on the rate."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.options import RejudgeOptions
from faircount.analysis.rejudge.panel import Panel
from faircount.analysis.rejudge.rejudge import FlipTexts, Rejudged, RejudgedFile, Rejudging, rejudged
from faircount.app.options import (
    AnyPath,
    Models,
    Notice,
    RejudgeFiles,
    ignore,
    place_of,
    refuse_inputs,
    refuse_same_file,
    stem_of,
)
from faircount.chat.settings import ChatSettings, Prices
from faircount.compat.tools import with_judge_options
from faircount.components.factory import Context
from faircount.components.spec import parse, render
from faircount.config import setting_of
from faircount.core.errors import UsageError
from faircount.core.findings import Notes, counted
from faircount.core.options import Options, options_from
from faircount.io.new_file import SUFFIX, NewFile
from faircount.io.streams import STDIN
from faircount.judges.builtin.refusal import hits_on_refusals
from faircount.judges.factory import JUDGES, make_judge
from faircount.judges.judge import Judge, every_part
from faircount.judges.verdict_store import VerdictStore
from faircount.readers import inputs
from faircount.readers.cache import default_folder
from faircount.readers.registry import ReadAs

STORE_FOLDER = "verdicts"
_LONGEST_NAME = 200
_NAMES_SHOWN = 3


class RejudgeResult(Struct, frozen=True):
    """What became of the files, with examples of changed rows of each, and what could not be read, judged or stored."""

    result: Rejudged
    files: tuple[str, ...]
    flips: tuple[Sequence[FlipTexts], ...]
    notes: tuple[str, ...]
    damaged: bool

    @property
    def complete(self) -> bool:
        """Whether every row that should be judged was; otherwise the same call judges the rest."""
        return self.result.complete


def rejudge(
    *paths: AnyPath,
    options: Sequence[Options] = (),
    progress: Callable[[], None] = ignore,
    notice: Notice = ignore,
    **keywords: Any,
) -> RejudgeResult:
    """Judge recorded responses again; the rows go to a new file next to the input. `progress` is called per verdict.

    Options are the fields of `RejudgeOptions`, `RejudgeFiles` and `Models`: `rejudge(file, judge="not(refusal)")`.
    """
    asked, where, models = options_from(keywords, RejudgeOptions, RejudgeFiles, Models, given=options)
    files = _files(paths, where, asked.read_as, notice)
    setting = setting_of(models, asked.concurrency)
    chat = setting.chat or ChatSettings()
    if asked.judge_options is not None and models.model is None:
        chat = replace(chat, model=asked.judge_options)
    asked = replace(asked, concurrency=chat.concurrency)
    panel = _panel(where, asked, replace(setting, chat=chat))
    reverses = panel.chosen is not None and hits_on_refusals(panel.chosen.judge)
    results: list[RejudgedFile] = []
    flips: list[Sequence[FlipTexts]] = []
    notes: list[Notes] = []
    with contextlib.closing(panel), _store(where, notice) as store:
        for name in files:
            with _kept_so_far(store, notice), Rejudging(name, panel, store, asked, on_verdict=progress) as work:
                if reverses and not work.of_tests:
                    notice(
                        f"{work.name}: this judge hits on refusals, and a hit counts as a success, so every refused "
                        "attack becomes a success; use --judge mitigation-bypass to count the attacks that were not "
                        "refused"
                    )
                results.append(_one(work, where, files, Prices(chat.prices)))
                flips.append(work.flips)
                notes.append(work.notes)
    return RejudgeResult(
        rejudged(results, asked, dry_run=where.dry_run),
        tuple(files),
        tuple(flips),
        tuple(_notes(results, notes, dry_run=where.dry_run)),
        any(one.total(code) for one in notes for code in ("F001", "F002")),
    )


def _one(work: Rejudging, where: RejudgeFiles, files: list[str], prices: Prices) -> RejudgedFile:
    if where.dry_run:
        work.plan(prices)
        return work.result(None)
    place = _place(work.name, where, files)
    work.ask()
    if not work.judged:
        found = work.result(None)
        if not found.refused:
            return found
        names = ", ".join(list(found.not_allowed)[:_NAMES_SHOWN])
        if not names:
            raise UsageError(f"{found.source.path}: its rows name no judge; name one with --judge")
        raise UsageError(
            f"{found.source.path}: its rows name judges that are not allowed ({names}); allow them with "
            "--allow-judge NAME=JUDGE, or name one judge for all rows with --judge"
        )
    with place as file:
        for lines in work.lines():
            file.write_all(lines)
    return work.result(file.path)


def _place(name: str, where: RejudgeFiles, files: list[str]) -> NewFile:
    """Return where the rows go; raise for an obstacle before any judge is asked, which may cost money."""
    path = where.rejudged or _beside(name)
    refuse_inputs(path, files)
    folder = Path(path).parent
    if not folder.is_dir():
        raise UsageError(f"{path}: cannot be written: no such folder: {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: cannot be written: no permission in {folder}; name a file with --rejudged")
    return NewFile(path, force=where.force, may_number=where.rejudged is None)


# -- what was asked for -----------------------------------------------------------------------------------------


def _files(paths: Sequence[AnyPath], where: RejudgeFiles, read_as: ReadAs, notice: Notice) -> list[str]:
    named = inputs.expand([os.fspath(path) for path in paths], read_as)
    if not named:
        raise UsageError("no result file given: name one, or a folder with --result-folder")
    files = inputs.distinct(named)
    for item in files:
        for other in item.also:
            notice(f"F007 {other}: the same file as {item.path}, judged once")
    if where.rejudged is not None and len(files) > 1:
        raise UsageError("--rejudged works with one input only; the rows of several inputs go to a file next to each")
    if where.force and where.rejudged is None:
        raise UsageError("--force needs --rejudged; the default file name is always new")
    refuse_same_file("--rejudged and --store", where.rejudged, where.store)
    return [item.path for item in files]


def _panel(where: RejudgeFiles, options: RejudgeOptions, setting: Context) -> Panel:
    def made(expression: str) -> Judge:
        if options.judge_options is not None:
            call = parse(expression)
            given = with_judge_options(call, options.judge_options)
            expression = expression if given is call else render(given)
        judge = make_judge(expression, setting)
        if not where.dry_run:
            for part in every_part(judge):
                part.ready()
        return judge

    if where.judge is not None and where.allow_judge:
        raise UsageError("--allow-judge is for the judges that rows name, and does not work with --judge")
    if where.judge is not None:
        return Panel(made(where.judge), {})
    return Panel(None, {name: made(text) for name, text in _allowed(where, setting).items()})


def _allowed(where: RejudgeFiles, setting: Context) -> Mapping[str, str]:
    """Return which judge a name in a row stands for: those of the configuration, and those that are allowed."""
    allowed = {name: name for name in setting.named if JUDGES.built_in(name) is None}
    for words in where.allow_judge:
        name, found, expression = words.partition("=")
        if not name or (found and not expression):
            raise UsageError(f"--allow-judge {words}: expected NAME or NAME=JUDGE")
        allowed[name] = expression or name
    return allowed


# -- where things are -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _store(where: RejudgeFiles, notice: Notice) -> Iterator[VerdictStore | None]:
    """Give the store of verdicts; without one that can be used, nothing is known and nothing is kept."""
    if where.store is not None:
        with VerdictStore(Path(where.store)) as store:
            yield store
        return
    folder = default_folder()
    try:
        opened = None if folder is None else VerdictStore(folder / STORE_FOLDER, folder=True)
    except UsageError as error:
        notice(f"{error}; verdicts of this run are not stored")
        opened = None
    with opened or contextlib.nullcontext() as store:
        yield store


@contextlib.contextmanager
def _kept_so_far(store: VerdictStore | None, notice: Notice) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if store is not None:
            notice("the verdicts so far are stored; repeat the command to resume")
        raise


def _beside(name: str) -> str:
    """Return where rejudged rows go: beside the input, under a name that says what they are and when."""
    source = Path("results_stdin.jsonl") if name == STDIN else place_of(name)
    stem = stem_of(source.name)
    rest = stem.partition("_")[2] or stem
    if len(rest.encode()) > _LONGEST_NAME:
        digest = hashlib.sha256(rest.encode()).hexdigest()[:12]
        rest = f"{rest.encode()[: _LONGEST_NAME - 13].decode('utf-8', 'ignore')}-{digest}"
    return str(source.parent / f"rejudge_{rest}_{int(time.time())}{SUFFIX}")


# -- the end ----------------------------------------------------------------------------------------------------


def _notes(results: Sequence[RejudgedFile], notes: Sequence[Notes], *, dry_run: bool) -> Iterator[str]:
    for one in notes:
        yield from one.problems()
    lost = sum(result.verdicts.not_kept for result in results)
    if lost:
        yield f"{counted(lost, 'verdict')} could not be written to the store; the next run asks for them again"
    unjudged, refused = sum(result.unjudged for result in results), sum(result.refused for result in results)
    if unjudged and not dry_run:
        yield f"{counted(unjudged, 'row')} unjudged because the judge failed; repeat the command to retry"
    if refused:
        yield f"{counted(refused, 'row')} not judged for lack of an allowed judge; see the report"
