"""The command `results rejudge`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from faircount.analysis.options import RejudgeOptions
from faircount.analysis.rejudging.changes import FlipTexts
from faircount.analysis.rejudging.panel import Panel
from faircount.analysis.rejudging.rejudge import RejudgedFile, Rejudging, rejudged
from faircount.analysis.rejudging.report import as_report
from faircount.chat.prices import Prices
from faircount.cli.judge_setting import concurrency_of
from faircount.cli.messages import note
from faircount.cli.output import refuse_inputs
from faircount.cli.parts import Models, Output, RejudgeFiles
from faircount.cli.progress import CountingBar
from faircount.cli.runner import Answer, Files
from faircount.config import setting_of
from faircount.errors import UsageError
from faircount.findings import Notes, counted
from faircount.judging.builtin.refusal import hits_on_refusals
from faircount.judging.expression import Call, parse, render
from faircount.judging.judge import Judge, every_part
from faircount.judging.making import Setting, make
from faircount.judging.registry import built_in
from faircount.judging.verdict_store import VerdictStore
from faircount.new_file import SUFFIX, NewFile
from faircount.reading import inputs
from faircount.reading.cache import default_folder
from faircount.reading.streams import STDIN
from faircount.report import Report

EXIT_INCOMPLETE = 4
STORE_FOLDER = "verdicts"
_COMPRESSED = (".gz", ".zst")
_SPIKEE = "spikee:"
_LONGEST_NAME = 200
_NAMES_SHOWN = 3


def rejudge(given: Files, options: RejudgeOptions, asked: RejudgeFiles, models: Models, output: Output) -> Answer:
    """Run `results rejudge`."""
    files = _files(given, asked, output)
    setting = setting_of(models, options.concurrency)
    if options.judge_options is not None and models.model is None and setting.chat is not None:
        setting = replace(setting, chat=replace(setting.chat, model=options.judge_options))
    options = replace(options, concurrency=concurrency_of(setting))
    panel = _panel(asked, options, setting)
    prices = Prices({} if setting.chat is None else setting.chat.prices)
    results: list[RejudgedFile] = []
    flips: list[Sequence[FlipTexts]] = []
    notes: list[Notes] = []
    reverses = panel.chosen is not None and hits_on_refusals(panel.chosen.judge)
    with contextlib.closing(panel), _store(asked) as store:
        for name in files:
            with CountingBar("Judging", "verdicts") as bar, _kept_so_far(store):
                work = Rejudging(name, panel, store, options, heard=bar.advance)
                results.append(_one(work, asked, files, prices, reverses=reverses))
                flips.append(work.flips)
                notes.append(work.notes)
    report = as_report(rejudged(results, options, dry_run=asked.dry_run), flips)
    return _answer(report, files, results, notes, asked)


def _one(work: Rejudging, asked: RejudgeFiles, files: list[str], prices: Prices, *, reverses: bool) -> RejudgedFile:
    with work:
        if reverses and not work.of_tests:
            note(
                f"{work.name}: this judge hits on refusals, and a hit counts as a success, so every refused "
                "attack becomes a success; use --judge mitigation-bypass to count the attacks that were not "
                "refused"
            )
        if asked.dry_run:
            work.plan(prices)
            return work.result(None)
        place = _place(work.name, asked, files)
        work.ask()
        if not work.judged:
            found = work.result(None)
            if found.refused:
                raise UsageError(_nobody(found))
            return found
        with place as file:
            for lines in work.lines():
                file.write_all(lines)
        return work.result(file.path)


def _place(name: str, asked: RejudgeFiles, files: list[str]) -> NewFile:
    """Return where the rows go; raise for an obstacle before any judge is asked, which may cost money."""
    path = asked.rejudged or _beside(name)
    refuse_inputs(path, files)
    folder = Path(path).parent
    if not folder.is_dir():
        raise UsageError(f"{path}: cannot be written: no such folder: {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: cannot be written: no permission in {folder}; name a file with --rejudged")
    return NewFile(path, force=asked.force, may_number=asked.rejudged is None)


def _nobody(found: RejudgedFile) -> str:
    """Return why no row of a file can be judged, and what to do."""
    names = ", ".join(list(found.not_allowed)[:_NAMES_SHOWN])
    if not names:
        return f"{found.source.path}: its rows name no judge; name one with --judge"
    return (
        f"{found.source.path}: its rows name judges that are not allowed ({names}); allow them with "
        "--allow-judge NAME=JUDGE, or name one judge for all rows with --judge"
    )


# -- what was asked for -----------------------------------------------------------------------------------------


def _files(given: Files, asked: RejudgeFiles, output: Output) -> list[str]:
    named = inputs.expand(given.names)
    if not named:
        raise UsageError("no result file given: name one, or a folder with --result-folder")
    files = inputs.distinct(named)
    for item in files:
        for other in item.also:
            note(f"F007 {other}: the same file as {item.path}, judged once")
    if asked.rejudged is not None and len(files) > 1:
        raise UsageError("--rejudged works with one input only; the rows of several inputs go to a file next to each")
    if asked.force and asked.rejudged is None:
        raise UsageError("--force needs --rejudged; the default file name is always new")
    places = [os.path.realpath(path) for path in (output.path, asked.rejudged, asked.store) if path]
    if len(set(places)) < len(places):
        raise UsageError("-o, --rejudged and --store must be different files")
    return [item.path for item in files]


def _panel(asked: RejudgeFiles, options: RejudgeOptions, setting: Setting) -> Panel:
    def made(expression: str) -> Judge:
        judge = make(_with_options(expression, options.judge_options), setting)
        if not asked.dry_run:
            for part in every_part(judge):
                part.ready()
        return judge

    if asked.judge is not None and asked.allow_judge:
        raise UsageError("--allow-judge is for the judges that rows name, and does not work with --judge")
    if asked.judge is not None:
        return Panel(made(asked.judge), {})
    return Panel(None, {name: made(text) for name, text in _allowed(asked, setting).items()})


def _allowed(asked: RejudgeFiles, setting: Setting) -> Mapping[str, str]:
    """Return which judge a name in a row stands for: those of the configuration, and those that are allowed."""
    allowed = {name: name for name in setting.named if built_in(name) is None}
    for words in asked.allow_judge:
        name, found, expression = words.partition("=")
        if not name or (found and not expression):
            raise UsageError(f"--allow-judge {words}: expected NAME or NAME=JUDGE")
        allowed[name] = expression or name
    return allowed


def _with_options(expression: str, options: str | None) -> str:
    """Return an expression that gives a judge of spikee's its options, as spikee does."""
    call = parse(expression)
    if options is None or not call.name.casefold().startswith(_SPIKEE) or "judge_options" in call.keywords:
        return expression
    return render(Call(call.name, call.positional, {**call.keywords, "judge_options": options}))


# -- where things are -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _store(asked: RejudgeFiles) -> Iterator[VerdictStore | None]:
    """Give the store of verdicts; without one that can be used, nothing is known and nothing is kept."""
    if asked.store is not None:
        with VerdictStore(Path(asked.store)) as store:
            yield store
        return
    folder = default_folder()
    try:
        opened = None if folder is None else VerdictStore(folder / STORE_FOLDER, folder=True)
    except UsageError as error:
        note(f"{error}; verdicts of this run are not stored")
        opened = None
    with opened or contextlib.nullcontext() as store:
        yield store


@contextlib.contextmanager
def _kept_so_far(store: VerdictStore | None) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if store is not None:
            note("the verdicts so far are stored; repeat the command to resume")
        raise


def _beside(name: str) -> str:
    """Return where rejudged rows go: beside the input, under the name that spikee would give them."""
    source = Path("results_stdin.jsonl" if name == STDIN else name)
    stem = source.name
    for compressed in _COMPRESSED:
        stem = stem.removesuffix(compressed)
    stem = stem.removesuffix(SUFFIX).removesuffix(".json")
    rest = stem.partition("_")[2] or stem
    if len(rest.encode()) > _LONGEST_NAME:
        digest = hashlib.sha256(rest.encode()).hexdigest()[:12]
        rest = f"{rest.encode()[: _LONGEST_NAME - 13].decode('utf-8', 'ignore')}-{digest}"
    return str(source.parent / f"rejudge_{rest}_{int(time.time())}{SUFFIX}")


# -- the end ----------------------------------------------------------------------------------------------------


def _answer(
    report: Report, files: Sequence[str], results: Sequence[RejudgedFile], notes: Sequence[Notes], asked: RejudgeFiles
) -> Answer:
    told = [sentence for one in notes for sentence in one.problems()]
    lost = sum(result.verdicts.not_kept for result in results)
    if lost:
        told.append(f"{counted(lost, 'verdict')} could not be written to the store; the next run asks for them again")
    unjudged, refused = sum(result.unjudged for result in results), sum(result.refused for result in results)
    if unjudged and not asked.dry_run:
        told.append(f"{counted(unjudged, 'row')} unjudged because the judge failed; repeat the command to retry")
    if refused:
        told.append(f"{counted(refused, 'row')} not judged for lack of an allowed judge; see the report")
    return Answer(
        report=report,
        name="rejudge",
        inputs=files,
        notes=told,
        damaged=any(one.total(code) for one in notes for code in ("F001", "F002")),
        code=EXIT_INCOMPLETE if unjudged or refused else 0,
    )
