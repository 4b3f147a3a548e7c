"""The command `results rejudge`."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from faircount.analysis.rejudging.changes import FlipTexts
from faircount.analysis.rejudging.options import RejudgeOptions
from faircount.analysis.rejudging.panel import Panel
from faircount.analysis.rejudging.rejudge import RejudgedFile, Rejudging, rejudged
from faircount.analysis.rejudging.report import as_report
from faircount.chat.prices import Prices
from faircount.cli.extract import PLACES_SHOWN
from faircount.cli.judge_setting import check_work, concurrency_of, setting_of
from faircount.cli.messages import note
from faircount.cli.output import refuse_inputs, refuse_page_without_place, show_one
from faircount.cli.progress import CountingBar
from faircount.cli.results import named_files
from faircount.errors import InputError, UsageError
from faircount.findings import Notes, counted
from faircount.judging.builtin.refusal import hits_on_refusals
from faircount.judging.expression import Call, parse, render
from faircount.judging.judge import Judge, every_part
from faircount.judging.making import Setting, make
from faircount.judging.registry import built_in
from faircount.judging.verdict_store import VerdictStore
from faircount.present.new_file import SUFFIX, NewFile
from faircount.reading import inputs
from faircount.reading.cache import default_folder
from faircount.reading.streams import STDIN

EXIT_INCOMPLETE = 4
STORE_FOLDER = "verdicts"
_COMPRESSED = (".gz", ".zst")
_SPIKEE = "spikee:"
_LONGEST_NAME = 200


def rejudge(arguments: argparse.Namespace) -> int:
    """Run `results rejudge`."""
    check_work(arguments)
    files = _files(arguments)
    setting = _setting(arguments)
    options = _options(arguments, setting)
    panel = _panel(arguments, setting)
    prices = Prices({} if setting.chat is None else setting.chat.prices)
    results: list[RejudgedFile] = []
    flips: list[Sequence[FlipTexts]] = []
    notes: list[Notes] = []
    reverses = panel.chosen is not None and hits_on_refusals(panel.chosen.judge)
    with contextlib.closing(panel), _store(arguments) as store:
        for name in files:
            with CountingBar("Judging", "verdicts") as bar, _kept_so_far(store):
                work = Rejudging(name, panel, store, options, heard=bar.advance)
                results.append(_one(work, arguments, files, prices, reverses=reverses))
                flips.append(work.flips)
                notes.append(work.notes)
    report = as_report(rejudged(results, options, dry_run=arguments.dry_run), flips)
    show_one("rejudge", report, arguments, files)
    return _exit_code(results, notes, arguments)


def _one(
    work: Rejudging, arguments: argparse.Namespace, files: list[str], prices: Prices, *, reverses: bool
) -> RejudgedFile:
    with work:
        if reverses and not work.of_tests:
            note(
                f"{work.name}: this judge hits on refusals, and a hit counts as a success, so every refused "
                "attack becomes a success; use --judge mitigation-bypass to count the attacks that were not "
                "refused"
            )
        if arguments.dry_run:
            work.plan(prices)
            return work.result(None)
        place = _place(work.name, arguments, files)
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


def _place(name: str, arguments: argparse.Namespace, files: list[str]) -> NewFile:
    """Return where the rows go; raise for an obstacle before any judge is asked, which may cost money."""
    path = arguments.rejudged or _beside(name)
    refuse_inputs(path, files)
    folder = Path(path).parent
    if not folder.is_dir():
        raise UsageError(f"{path}: cannot be written: no such folder: {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: cannot be written: no permission in {folder}; name a file with --rejudged")
    return NewFile(path, force=arguments.force, may_number=arguments.rejudged is None)


def _nobody(found: RejudgedFile) -> str:
    """Return why no row of a file can be judged, and what to do."""
    names = ", ".join(list(found.not_allowed)[:PLACES_SHOWN])
    if not names:
        return f"{found.source.path}: its rows name no judge; name one with --judge"
    return (
        f"{found.source.path}: its rows name judges that are not allowed ({names}); allow them with "
        "--allow-judge NAME=JUDGE, or name one judge for all rows with --judge"
    )


# -- what was asked for -----------------------------------------------------------------------------------------


def _files(arguments: argparse.Namespace) -> list[str]:
    refuse_page_without_place(arguments)
    named = inputs.expand(named_files(arguments))
    if not named:
        raise UsageError("no result file given: name one, or a folder with --result-folder")
    files = inputs.distinct(named)
    for item in files:
        for other in item.also:
            note(f"F007 {other}: the same file as {item.path}, judged once")
    if arguments.rejudged is not None and len(files) > 1:
        raise UsageError("--rejudged works with one input only; the rows of several inputs go to a file next to each")
    if arguments.force and arguments.rejudged is None:
        raise UsageError("--force needs --rejudged; the default file name is always new")
    places = [os.path.realpath(path) for path in (arguments.output, arguments.rejudged, arguments.store) if path]
    if len(set(places)) < len(places):
        raise UsageError("-o, --rejudged and --store must be different files")
    return [item.path for item in files]


def _setting(arguments: argparse.Namespace) -> Setting:
    setting = setting_of(arguments)
    if arguments.judge_options is not None and arguments.model is None and setting.chat is not None:
        return replace(setting, chat=replace(setting.chat, model=arguments.judge_options))
    return setting


def _options(arguments: argparse.Namespace, setting: Setting) -> RejudgeOptions:
    return RejudgeOptions(
        turns=arguments.turns,
        judge_options=arguments.judge_options,
        fresh=arguments.fresh,
        examples=arguments.flips,
        level=arguments.level,
        workers=arguments.workers,
        concurrency=concurrency_of(setting),
        max_line=arguments.max_line,
    )


def _panel(arguments: argparse.Namespace, setting: Setting) -> Panel:
    judge = None if arguments.judge is None else _judge(arguments.judge, setting, arguments)
    if judge is not None and arguments.allow_judge:
        raise UsageError("--allow-judge is for the judges that rows name, and does not work with --judge")
    named = {} if judge is not None else _allowed(arguments, setting)
    return Panel(judge, {name: _judge(text, setting, arguments) for name, text in named.items()})


def _allowed(arguments: argparse.Namespace, setting: Setting) -> Mapping[str, str]:
    """Return which judge a name in a row stands for: those of the configuration, and those that are allowed."""
    allowed = {name: name for name in setting.named if built_in(name) is None}
    for words in arguments.allow_judge:
        name, found, expression = words.partition("=")
        if not name or (found and not expression):
            raise UsageError(f"--allow-judge {words}: expected NAME or NAME=JUDGE")
        allowed[name] = expression or name
    return allowed


def _judge(expression: str, setting: Setting, arguments: argparse.Namespace) -> Judge:
    judge = make(_with_options(expression, arguments.judge_options), setting)
    if not arguments.dry_run:
        for part in every_part(judge):
            part.ready()
    return judge


def _with_options(expression: str, options: str | None) -> str:
    """Return an expression that gives a judge of spikee's its options, as spikee does."""
    call = parse(expression)
    if options is None or not call.name.casefold().startswith(_SPIKEE) or "judge_options" in call.keywords:
        return expression
    return render(Call(call.name, call.positional, {**call.keywords, "judge_options": options}))


# -- where things are -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _store(arguments: argparse.Namespace) -> Iterator[VerdictStore | None]:
    """Give the store of verdicts; without one that can be used, nothing is known and nothing is kept."""
    if arguments.store is not None:
        with VerdictStore(Path(arguments.store)) as store:
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


def _exit_code(results: Sequence[RejudgedFile], notes: Sequence[Notes], arguments: argparse.Namespace) -> int:
    for one in notes:
        for sentence in _problems(one):
            note(sentence)
    lost = sum(result.verdicts.not_kept for result in results)
    if lost:
        note(f"{counted(lost, 'verdict')} could not be written to the store; the next run asks for them again")
    if arguments.strict and any(one.total(code) for one in notes for code in ("F001", "F002")):
        note("--strict: some input could not be read, see above")
        return InputError.exit_code
    unjudged, refused = sum(result.unjudged for result in results), sum(result.refused for result in results)
    if unjudged and not arguments.dry_run:
        note(f"{counted(unjudged, 'row')} unjudged because the judge failed; repeat the command to retry")
    if refused:
        note(f"{counted(refused, 'row')} not judged for lack of an allowed judge; see the report")
    return EXIT_INCOMPLETE if unjudged or refused else 0


def _problems(notes: Notes) -> Iterator[str]:
    for reason, times in notes.subjects("F001"):
        places = ", ".join(f"{notes.name}:{line}" for line in notes.lines["F001", reason][:PLACES_SHOWN])
        left_out = "was" if times == 1 else "were"
        yield f"F001 {counted(times, 'line')} could not be read and {left_out} skipped: {reason}; {places}"
    for what, _ in notes.subjects("F002"):
        yield f"F002 {notes.name}: {what}: the rest is missing"
