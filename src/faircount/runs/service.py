"""Runs as library calls: run, resume, plan and merge. Nothing is printed here, and no exit code is known.

    result = run("attacks.jsonl", target="./bot.py:answer", judge="canary")
    result = resume(result.journal)

A listener is called with what happens on the way; it is silent unless another one is given.
"""

from __future__ import annotations

import itertools
import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from faircount.chat.settings import ChatSettings, Prices
from faircount.compat.spikee.results import spikee_rows
from faircount.components.factory import Context, make_again
from faircount.config import setting_of
from faircount.core.errors import FaircountError, InputError, UsageError
from faircount.core.findings import counted
from faircount.core.options import Options, options_from
from faircount.io.files import refuse_address
from faircount.io.new_file import NewFile
from faircount.readers.journals import State
from faircount.runs import lifecycle
from faircount.runs.attacks.base import Attack
from faircount.runs.attacks.factory import make_attack
from faircount.runs.budget import Limits, Progress, read_rules, watcher
from faircount.runs.cases import Case, RunCases, Selection, Shard, read_tags
from faircount.runs.datasets import (
    DEFAULT_SEED,
    RANDOM_SEED,
    DatasetChoice,
    are_datasets,
    choose_entries,
    read_map,
    with_drawn_seed,
)
from faircount.runs.engine import Earlier, Ending
from faircount.runs.journal import Journal, has_begun, read_journal
from faircount.runs.lifecycle import AttackSettings, Settings, TestChoice
from faircount.runs.options import PER_CASE, JournalOptions, MergeOptions, ResumeOptions, RunOptions
from faircount.runs.plan import Plan, plan_cases
from faircount.runs.report import Layout, case_reports, is_report_of, report_pieces, totals_of
from faircount.runs.shards import (
    AUTO,
    ShardedRun,
    merge_shards,
    part_of_amount,
    part_of_calls,
    read_shard,
    read_shards,
    shard_path,
)
from faircount.runs.targets.base import Target
from faircount.runs.targets.factory import make_target
from faircount.runs.targets.openai import refuse_key

_ABOUT_MODELS = ("model", "base_url", "api_key_env")
_FOR_ENTRIES = (
    *("judge", "no_judge", "map", "where", "sample", "sample_seed", "attempts", "attack", "attack_iterations"),
    *("attack_options", "attack_only", "shard", "stop_when", "spikee_results"),
)
_FOR_TESTS = ("aggregation", "report_layout", "tags", "exclude_tags", "fail_on_failed_tests")
_ITERATIONS = 10
_PAUSES = 60.0
"""Every try has the time that --timeout gives it, and up to so many seconds of pauses before it come on top."""


class RunListener:
    """Receives the progress of runs and does nothing with it; subclass it to show something."""

    def notice(self, sentence: str) -> None:
        """Called with a message for the user that is not an error."""

    def begin(self, journal: str, *, entries: bool) -> None:
        """Called when requests are about to be sent, and whether entries of a dataset are counted or attempts."""

    def progress(self, tally: Progress) -> None:
        """Called with what was done so far, after every attempt of a test or every entry of a dataset."""

    def interrupted(self, number: int) -> None:
        """Called at the first interrupt, the second and so on, in a signal handler.

        The first one lets requests in flight finish, the second one gives them up.
        """

    def end(self) -> None:
        """Called when nothing more is sent."""


SILENT = RunListener()


class PreparedRun(Struct, frozen=True):
    """A run that can begin: everything that could be refused was. Without `journal`, its journal gets a new name."""

    settings: Settings
    cases: tuple[Case, ...]
    target: Target
    attack: Attack | None
    journal: str | None = None


class RunResult(Struct, frozen=True):
    """A run that has ended or was stopped: its journal, which holds everything, and how it ended.

    `report` is the file that was written beside the journal: the report of tests, or a dataset's results in spikee's
    format. It is empty if there is none, and `failure` is why, if it could not be written.
    """

    journal: str
    settings: Settings
    ending: Ending
    report: str = ""
    failure: FaircountError | None = None

    @property
    def complete(self) -> bool:
        """Whether everything was run; otherwise `resume` runs the rest."""
        return self.ending.complete

    def failed_cases(self) -> tuple[int, int]:
        """Return how many cases of a run of tests failed, and of how many; this reads the journal."""
        reader = read_journal(self.journal)
        state = reader.state()
        return totals_of(case_reports(reader, state)).failed, len(state.cases)


# -- run --------------------------------------------------------------------------------------------------------


def run(
    *paths: str | os.PathLike[str],
    ignore_errors: bool = False,
    options: Sequence[Options] = (),
    listener: RunListener = SILENT,
    **keywords: Any,
) -> RunResult:
    """Run tests, or the entries of datasets, against a target, and record every attempt in a journal.

    Options are the fields of `RunOptions` and `JournalOptions`: `run("tests", target="simulated", concurrency=16)`.
    With `ignore_errors`, the rule of `stop_when` counts errors and unjudged entries as failures; otherwise it must
    hold whether they all succeeded or none did.
    """
    what, where = options_from({"paths": paths or None, **keywords}, RunOptions, JournalOptions, given=options)
    prepared = prepare(what, where, ignore_errors=ignore_errors, listener=listener)
    if where.resume_if_exists:
        return start_or_resume(prepared, listener, same_budget=True)
    return start(prepared, listener)


def prepare(
    options: RunOptions,
    where: JournalOptions | None = None,
    *,
    ignore_errors: bool = False,
    listener: RunListener = SILENT,
) -> PreparedRun:
    """Return a run that can begin; UsageError or InputError if it could not. Nothing is sent or written."""
    where = where or JournalOptions()
    if where.resume_if_exists:
        _refuse_new_each_time(options, where)
    context = setting_of(options, options.concurrency)
    paths = _paths(options)
    attacks = _attacks_entries(paths, options, where)
    shard = _shard(options)
    if shard is not None and options.shard == AUTO:
        where = _own_files(where, shard)
        listener.notice(f"--shard auto: this is shard {shard}")
    if shard is not None:
        options = _own_limits(options, shard, listener.notice)
    target = _target(options, context, listener.notice)
    attack = _attack(options, context, listener.notice) if attacks else None
    # The model that judges ask is recorded too, whatever the target is.
    refuse_key("--base-url", options.base_url or "", options.api_key_env or ChatSettings().api_key_env)
    if options.stop_when is not None:
        read_rules(options.stop_when)
    settings = Settings(
        choice=None if attacks else TestChoice(paths, _selection(options), options.retries, options.aggregation),
        entries=_entries(paths, options, target) if attacks else None,
        files=(),
        target=target.settings(),
        limits=_limits(options),
        attacking=_attacking(options, attack) if attacks else AttackSettings(),
        shard=shard,
        stop_when=options.stop_when,
        ignore_errors=ignore_errors,
        output_folder=where.output_folder,
        timestamp=time.strftime(lifecycle.TIMESTAMP),
        report_layout=cast(Layout, where.report_layout or PER_CASE),
        folder=str(Path.cwd()),
        config=options.config,
        judges={name: getattr(options, name) for name in _ABOUT_MODELS},
        spikee_results=where.spikee_results,
    )
    if not (where.resume_if_exists and where.journal is not None and has_begun(where.journal)):
        _refuse_existing(settings.spikee_results)
    chosen = lifecycle.cases_for(settings, context)
    for note in chosen.notes:
        listener.notice(note)
    lifecycle.make_ready(chosen.cases, attack)
    return PreparedRun(replace(settings, files=chosen.files), chosen.cases, target, attack, where.journal)


def start(prepared: PreparedRun, listener: RunListener = SILENT) -> RunResult:
    """Run what was prepared, and write what belongs beside its journal."""
    journal = _new_journal(prepared)
    return _result(journal.path, prepared.settings, _execute(prepared, journal, listener))


def start_or_resume(
    prepared: PreparedRun, listener: RunListener = SILENT, *, retry_errors: bool = False, same_budget: bool = False
) -> RunResult:
    """Run what was prepared, or what is missing of it in its journal; one of another run is refused.

    With `same_budget`, what was spent before counts; else the budget begins anew. A run that stopped because enough was
    known stays as it is.
    """
    path = prepared.journal
    assert path is not None
    if not has_begun(path):
        return start(prepared, listener)
    before = lifecycle.settings_of(path)
    as_it_was = f"resume it as it was with faircount resume {shlex.quote(path)}"
    instead = f"{as_it_was}, or choose another file with --journal"
    lifecycle.refuse_other_settings(path, before, prepared.settings, instead)
    state, settings = read_journal(path).state(), replace(prepared.settings, timestamp=before.timestamp)
    lifecycle.refuse_changed(path, state, before, RunCases(prepared.cases, settings.files, ()))
    if settings.spikee_results is None:
        settings = replace(settings, spikee_results=before.spikee_results)
    elif settings.spikee_results != before.spikee_results:
        _refuse_existing(settings.spikee_results)
    ending = _ended(state, prepared.cases, listener, retry_errors=retry_errors)
    if ending is None and state.stopped_early and state.complete is False:
        ending = Ending(complete=False, why=state.why, decided=True, attempts=state.done)
    if ending is None:
        prepared = replace(prepared, settings=settings)
        ending = _continue(prepared, path, state, listener, retry_errors=retry_errors, same_budget=same_budget)
    return _result(path, settings, ending)


def _new_journal(prepared: PreparedRun) -> Journal:
    """Make the journal: where the user says, or under a name that nothing has yet."""
    folder = Path(prepared.settings.output_folder)
    needs = [folder if prepared.journal is None else Path(prepared.journal).parent]
    if not prepared.settings.is_attack:
        needs.append(folder)  # for the report
    for needed in needs:
        refuse_address(str(prepared.journal or prepared.settings.output_folder))
        try:
            needed.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{needed}: cannot be created: {error.strerror or error}") from error
    if prepared.journal is not None:
        return lifecycle.begin(prepared.journal, prepared.settings, prepared.cases)
    name, shard = str(folder / f"run_{prepared.settings.timestamp}.jsonl"), prepared.settings.shard
    for path in _free_names(Path(name if shard is None else shard_path(name, shard))):
        try:
            return lifecycle.begin(path, prepared.settings, prepared.cases)
        except UsageError:
            if not Path(path).exists():
                raise
    raise AssertionError("there is always a free name")


def _free_names(path: Path) -> Iterator[str]:
    """Yield names for a file: of several runs that began in one second, each has a name of its own."""
    yield str(path)
    yield from (str(path.with_stem(f"{path.stem}_{number}")) for number in itertools.count(2))


def _execute(prepared: PreparedRun, journal: Journal, listener: RunListener, earlier: Earlier | None = None) -> Ending:
    settings = prepared.settings
    rule, strategy = settings.stop_when, settings.attacking.strategy(prepared.attack) if settings.is_attack else None
    listener.begin(journal.path, entries=settings.is_attack)
    try:
        return lifecycle.execute(
            prepared.cases,
            prepared.target,
            journal,
            settings.limits,
            strategy=strategy,
            earlier=earlier,
            on_progress=listener.progress,
            watcher=watcher(rule, ignore_errors=settings.ignore_errors) if rule else lambda _: "",
            on_interrupt=listener.interrupted,
        )
    finally:
        listener.end()


# -- what options mean ------------------------------------------------------------------------------------------


def _paths(options: RunOptions) -> tuple[str, ...]:
    paths = list(options.paths)
    for folder in options.dataset_folder:
        found = sorted(str(path) for path in Path(folder).glob("*.jsonl") if path.is_file())
        if not found:
            why = "no .jsonl files in this folder" if Path(folder).is_dir() else "no such folder"
            raise InputError(f"{folder}: {why}")
        paths += found
    return tuple(paths)


def _attacks_entries(paths: tuple[str, ...], options: RunOptions, where: JournalOptions | None = None) -> bool:
    """Return whether the paths are datasets, whose entries are attacked, or tests; refuse options that do not fit."""
    if not paths:
        raise UsageError("nothing to run: name test files, folders of test files, or datasets")
    datasets = are_datasets(paths)
    wrong, kind = (_FOR_TESTS, "tests") if datasets else (_FOR_ENTRIES, "datasets")
    for name in wrong:
        if getattr(options, name, None) or getattr(where, name, None):
            raise UsageError(f"--{name.replace('_', '-')} works only with {kind}, not with {paths[0]}")
    return datasets


def _entries(paths: tuple[str, ...], options: RunOptions, target: Target | None) -> DatasetChoice:
    decides = target is not None and target.decides
    choice = DatasetChoice(
        paths=paths,
        judge=options.judge,
        columns=read_map(options.map),
        sample=options.sample,
        sample_seed=options.sample_seed or DEFAULT_SEED,
        attempts=options.attempts or 1,
        selection=_selection(options),
        needs_judge=not (options.no_judge or decides),
        where=options.where,
    )
    return with_drawn_seed(choice)


def _shard(options: RunOptions) -> Shard | None:
    """Return the part that is run; refuse what shards cannot do, since none knows of the others."""
    if options.shard is None:
        return None
    if options.stop_when is not None:
        raise UsageError(
            "--stop-when does not work with --shard: each shard would decide alone, and one that stops early cannot be "
            "merged; run all shards, merge them, and judge the whole with faircount results analyze --fail-on"
        )
    if options.sample is not None and options.sample_seed == RANDOM_SEED:
        raise UsageError("--sample-seed random does not work with --shard: each shard would draw another sample")
    return read_shard(options.shard)


def _refuse_new_each_time(options: RunOptions, where: JournalOptions) -> None:
    """Raise for what would make another run of the same command the next time."""
    if where.journal is None:
        raise UsageError("--resume-if-exists needs --journal FILE: without it every run has a new name")
    if options.sample is not None and options.sample_seed == RANDOM_SEED:
        raise UsageError("--sample-seed random does not work with --resume-if-exists: give a number")


def _own_files(where: JournalOptions, shard: Shard) -> JournalOptions:
    """Return names of a shard's own: the tasks of an array job all have the same command line."""
    given = {name: getattr(where, name) for name in ("journal", "spikee_results")}
    return replace(where, **{name: shard_path(path, shard) for name, path in given.items() if path is not None})


def _own_limits(options: RunOptions, shard: Shard, notice: Callable[[str], None]) -> RunOptions:
    """Return a shard's part of the limits, which are those of all shards together, and say what it is."""
    own: dict[str, float] = {}
    if options.max_calls is not None:
        own["max_calls"] = part_of_calls(options.max_calls, shard)
    for name in ("max_cost", "requests_per_minute"):
        if getattr(options, name) is not None:
            own[name] = part_of_amount(getattr(options, name), shard)
    if own:
        parts = [f"--{name.replace('_', '-')} {own[name]:.12g} of {getattr(options, name):.12g}" for name in own]
        notice(f"limits are for all shards together; shard {shard} has {', '.join(parts)}")
    return replace(options, **own)


def _selection(options: RunOptions) -> Selection:
    tags, exclude_tags = read_tags(*options.tags), read_tags(*options.exclude_tags)
    return Selection(keyword=options.keyword, tags=tags, exclude_tags=exclude_tags, names=options.case)


def _attack(options: RunOptions, context: Context, notice: Callable[[str], None]) -> Attack | None:
    if options.attack is None:
        for name in ("attack_iterations", "attack_options", "attack_only"):
            if getattr(options, name):
                raise UsageError(f"--{name.replace('_', '-')} needs --attack")
        return None
    return make_attack(options.attack, replace(context, tell=notice), options.attack_options)


def _attacking(options: RunOptions, attack: Attack | None) -> AttackSettings:
    retries = options.retries or 0
    if retries < 0:
        raise UsageError("--retries must be 0 or more")
    recorded = None if attack is None else attack.settings()
    return AttackSettings(recorded, options.attack_iterations or _ITERATIONS, options.attack_only, retries)


def _target(options: RunOptions, context: Context, notice: Callable[[str], None]) -> Target:
    chat = replace(
        context.chat or ChatSettings(),
        timeout=options.timeout,
        tries=options.tries,
        concurrency=options.concurrency,
    )
    if options.requests_per_minute is not None:  # of what the transport sends again, too
        chat = replace(chat, requests_per_minute=options.requests_per_minute)
    return make_target(
        options.target,
        replace(context, chat=chat, tell=notice),
        target_args=options.target_args,
        api_config=options.api_config,
        api_client_module=options.api_client_module,
        api_client_class=options.api_client_class,
        api_client_args=options.api_client_args,
    )


def _limits(options: RunOptions) -> Limits:
    return Limits(
        concurrency=options.concurrency,
        requests_per_minute=options.requests_per_minute,
        timeout=options.tries * (options.timeout + _PAUSES),
        max_calls=options.max_calls,
        max_cost=options.max_cost,
        stop_after_errors=options.stop_after_errors,
    )


# -- resume -----------------------------------------------------------------------------------------------------


def resume(
    journal: str | os.PathLike[str],
    *,
    options: ResumeOptions | None = None,
    listener: RunListener = SILENT,
    **keywords: Any,
) -> RunResult:
    """Run what is missing in a journal, with the settings and in the folder with which the run was started.

    Options are the fields of `ResumeOptions`: `resume("results/run_x.jsonl", retry_errors=True)`.
    """
    (asked,) = options_from({"journal": journal, **keywords}, ResumeOptions, given=options)
    path = str(Path(asked.journal).absolute())
    settings = lifecycle.settings_of(path)
    if asked.spikee_results is not None:
        if not settings.is_attack:
            raise UsageError("--spikee-results works only with datasets; this is a run of tests")
        spikee_results = str(Path(asked.spikee_results).absolute())
        _refuse_existing(spikee_results)
        settings = replace(settings, spikee_results=spikee_results)
    limits = {name: getattr(asked, name) for name in ("concurrency", "max_calls", "max_cost")}
    changed = {name: value for name, value in limits.items() if value is not None}
    settings = replace(settings, limits=replace(settings.limits, **changed))
    with lifecycle.in_its_folder(settings, path):
        ending = continue_run(path, settings, retry_errors=asked.retry_errors, listener=listener)
        return _result(path, settings, ending)


def continue_run(
    path: str, settings: Settings, *, retry_errors: bool = False, listener: RunListener = SILENT
) -> Ending:
    """Run what is missing in a journal; this process must be in the folder in which the run was begun."""
    models: dict[str, Any] = {name: settings.judges.get(name) for name in _ABOUT_MODELS}
    context = setting_of(RunOptions(config=settings.config, **models))
    state = read_journal(path).state()
    cases = lifecycle.same_cases(path, state, settings, context)
    ending = _ended(state, cases, listener, retry_errors=retry_errors)
    if ending is not None:
        return ending
    target: Target = make_again("target", settings.target, listener.notice)
    recorded = settings.attacking.attack
    attack: Attack | None = None if recorded is None else make_again("attack", recorded, listener.notice)
    lifecycle.make_ready(cases, attack)
    return _continue(PreparedRun(settings, cases, target, attack), path, state, listener, retry_errors=retry_errors)


def _ended(state: State, cases: Sequence[Case], listener: RunListener, *, retry_errors: bool) -> Ending | None:
    """Return how a run ended on which nothing is left to do."""
    if not lifecycle.is_over(state, cases) or (retry_errors and any(lifecycle.to_retry(state))):
        return None
    listener.notice("the run is complete; nothing to do")
    return Ending(complete=True, attempts=state.done)


def _continue(
    prepared: PreparedRun,
    path: str,
    state: State,
    listener: RunListener,
    *,
    retry_errors: bool,
    same_budget: bool = False,
) -> Ending:
    """Run what a journal does not have, of which `state` is what it comes to."""
    settings, cases = prepared.settings, prepared.cases
    for name in lifecycle.changed_metrics(path, state, cases):
        listener.notice(
            f"{name}: this metric has changed since the run began; old and new results may not be comparable"
        )
    limited = settings.limits.max_calls is not None or settings.limits.max_cost is not None
    resumed = lifecycle.resume(path, cases, retry_errors=retry_errors, same_budget=same_budget and limited, known=state)
    if resumed.earlier.sent:
        in_flight = counted(len(resumed.earlier.sent), "request")
        listener.notice(f"resending {in_flight} that were in flight when the run stopped")
    if state.stopped_early:
        # What was stopped because enough was known goes on to the end: that is why somebody resumes it.
        prepared = replace(prepared, settings=replace(settings, stop_when=None))
    return _execute(prepared, resumed.journal, listener, resumed.earlier)


def _refuse_existing(path: str | None) -> None:
    if path is not None and os.path.lexists(path):
        raise UsageError(f"{path}: already exists; name another file with --spikee-results")


# -- what is written beside a journal ---------------------------------------------------------------------------


def _result(path: str, settings: Settings, ending: Ending) -> RunResult:
    """Write what belongs beside a journal; not if requests were given up: then there is no time for anything."""
    if ending.aborted:
        return RunResult(path, settings, ending)
    try:
        report = settings.spikee_results or ""
        if not settings.is_attack:
            report = _write_report(path, settings)
        elif report:
            # An existing file is from before the interruption: there was none when the run began.
            with NewFile(report, force=True) as new:
                new.write_all(spikee_rows(path))
    except (UsageError, InputError) as error:
        return RunResult(path, settings, ending, failure=error)
    # A path of the folder in which the run was begun says nothing to those who resume it from elsewhere.
    absolute = report and Path(path).is_absolute()
    return RunResult(path, settings, ending, str(Path(report).absolute()) if absolute else report)


def _write_report(path: str, settings: Settings) -> str:
    """Write the report of a run over its own of before, but never over that of another run."""
    reader = read_journal(path)
    for target in _free_names(Path(settings.output_folder) / f"test_results_{settings.timestamp}.json"):
        if Path(target).exists() and not is_report_of(target, reader.header):
            continue
        pieces = report_pieces(reader, settings.timestamp, settings.report_layout)
        try:
            with NewFile(target, force=Path(target).exists()) as new:
                new.write_all(pieces)
        except UsageError as error:
            if Path(target).exists() and not is_report_of(target, reader.header):
                continue  # another run took the name in this moment
            later = f"faircount resume {shlex.quote(path)}"
            raise UsageError(f"{error}; the results are safe in the journal, and {later} writes the report") from error
        return target
    raise AssertionError("there is always a free name")


# -- plan and merge ---------------------------------------------------------------------------------------------


def plan(
    *paths: str | os.PathLike[str],
    options: RunOptions | None = None,
    listener: RunListener = SILENT,
    **keywords: Any,
) -> Plan:
    """Return what a run would do and cost, with the same options as `run`; nothing is sent."""
    (asked,) = options_from({"paths": paths or None, **keywords}, RunOptions, given=options)
    context = setting_of(asked, asked.concurrency)
    named = _paths(asked)
    if _attacks_entries(named, asked):
        chosen = choose_entries(_entries(named, asked, None), context)
        shard = _shard(asked)
        chosen = chosen if shard is None else replace(chosen, cases=shard.of(chosen.cases))
    else:
        chosen = lifecycle.choose_tests(TestChoice(named, _selection(asked), asked.retries, asked.aggregation), context)
    for note in chosen.notes:
        listener.notice(note)
    chat = context.chat or ChatSettings()
    iterations = 0 if asked.attack is None else asked.attack_iterations or _ITERATIONS
    return plan_cases(
        chosen.cases, chat.model or None, Prices(chat.prices), iterations=iterations, attack_only=asked.attack_only
    )


def merge(*journals: str | os.PathLike[str], options: MergeOptions | None = None, **keywords: Any) -> ShardedRun:
    """Merge the journals of a run's shards into a new journal, `output`; options are the fields of `MergeOptions`.

    With `check`, nothing is written, and the run may be incomplete.
    """
    (asked,) = options_from({"journals": journals, **keywords}, MergeOptions, given=options)
    if not asked.journals:
        raise UsageError("nothing to merge: name the journals of all shards")
    if asked.check:
        return read_shards(asked.journals)
    if asked.output is None:
        raise UsageError("name the merged journal with -o, or only check the shards with --check")
    for path in asked.journals:
        if Path(asked.output).exists() and Path(path).exists() and Path(asked.output).samefile(path):
            raise UsageError(f"{asked.output}: is an input; write the output to another file")
    whole = merge_shards(asked.journals)
    with NewFile(asked.output, force=asked.force) as new:
        new.write_all(whole.pieces())
    return whole
