"""The commands `run`, `resume` and `plan`."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.plan_report import as_report as plan_report
from faircount.cli.gating import read_gates
from faircount.cli.output import refuse_page_without_place, show_one
from faircount.cli.run_ending import EXIT_INTERRUPTED, finish, say
from faircount.cli.run_progress import RunProgress
from faircount.cli.run_settings import (
    attack_iterations,
    attack_of,
    attacks_entries,
    checked,
    choice_of,
    entries_of,
    judge_setting,
    limits_of,
    paths_of,
    settings_of,
    target_setting,
)
from faircount.errors import UsageError
from faircount.findings import counted
from faircount.running import resuming, runs
from faircount.running.attacks.making import attack_again
from faircount.running.attacks.seam import Attack
from faircount.running.case import Case
from faircount.running.courses import Tactics
from faircount.running.datasets import choose_entries
from faircount.running.engine import Earlier, Ending
from faircount.running.journal import Journal
from faircount.running.journal_reading import read_journal
from faircount.running.runs import Settings
from faircount.running.shards import read_shard
from faircount.running.stopping import watcher
from faircount.running.targets.making import again, make_target
from faircount.running.targets.seam import Target

_GRACE = 2.0
"""How long, in seconds, code of the user's may keep a run that was interrupted twice from ending."""


class Prepared(Struct, frozen=True):
    """A run that can begin: everything that could be refused was."""

    settings: Settings
    cases: tuple[Case, ...]
    target: Target
    attack: Attack | None

    @property
    def tactics(self) -> Tactics | None:
        """How entries are attacked; None for tests."""
        return self.settings.attacking.tactics(self.attack) if self.settings.is_attack else None


def run(arguments: argparse.Namespace) -> int:
    """Run `run`."""
    read_gates(arguments, compared=arguments.baseline is not None)
    prepared = prepare(arguments)
    journal = _journal(arguments, prepared.settings, prepared.cases)
    return finish(arguments, prepared.settings, journal.path, start(prepared, journal))


def prepare(arguments: argparse.Namespace, tell: Callable[[str], None] = say) -> Prepared:
    """Return the run that the words of `run` mean; UsageError or InputError where it could not begin."""
    limits = limits_of(arguments)
    setting = judge_setting(arguments)
    is_attack = attacks_entries(arguments)
    target = make_target(arguments.target, target_setting(arguments, setting))
    attack = attack_of(arguments, setting) if is_attack else None
    settings = settings_of(arguments, target, attack, limits)
    _refuse_existing(settings.spikee_results)
    chosen = runs.chosen_for(settings, setting)
    for note in chosen.notes:
        tell(note)
    runs.make_ready(chosen.cases, attack)
    return Prepared(replace(settings, files=chosen.files), chosen.cases, target, attack)


def start(prepared: Prepared, journal: Journal) -> Ending:
    """Run what was prepared."""
    return _execute(prepared.settings, prepared.cases, prepared.target, prepared.tactics, journal)


def resume(arguments: argparse.Namespace) -> int:
    """Run `resume`."""
    path = str(Path(arguments.journal).absolute())
    settings = runs.settings_of(path)
    if arguments.spikee_results is not None:
        settings = _with_spikee_results(settings, str(Path(arguments.spikee_results).absolute()))
    resuming.in_its_folder(settings, path)
    limits = {
        name: value
        for name in ("concurrency", "max_calls", "max_cost")
        if (value := getattr(arguments, name)) is not None
    }
    settings = replace(settings, limits=checked(replace(settings.limits, **limits)))
    ending = go_on(path, settings, retry_errors=arguments.retry_errors)
    return finish(arguments, settings, path, ending)


def go_on(path: str, settings: Settings, *, retry_errors: bool = False, to_the_end: bool = True) -> Ending:
    """Run what is missing in a journal; its folder is the one in which the run was begun.

    A run that stopped because enough was known goes on `to_the_end`, or stays as it is.
    """
    setting = judge_setting(argparse.Namespace(config=settings.config, **settings.judges))
    state = read_journal(path).state()
    cases = resuming.same_cases(path, state, settings, setting)
    if resuming.is_over(state, cases) and not (retry_errors and any(resuming.to_retry(state))):
        say("the run is complete; nothing to do")
        return Ending(complete=True, attempts=state.done)
    if state.stopped_early and state.complete is False and not to_the_end:
        return Ending(complete=False, why=state.why, decided=True, attempts=state.done)
    target = again(settings.target)
    attack = None if settings.attacking.attack is None else attack_again(settings.attacking.attack)
    runs.make_ready(cases, attack)
    for name in resuming.changed_metrics(path, state, cases):
        say(f"{name}: this metric has changed since the run began; old and new results may not be comparable")
    resumed = resuming.resume(path, cases, retry_errors=retry_errors, known=state)
    if resumed.earlier.sent:
        under_way = counted(len(resumed.earlier.sent), "request")
        say(f"resending {under_way} that were in flight when the run stopped")
    if state.stopped_early:
        # What was stopped because enough was known goes on to the end: that is why somebody resumes it.
        settings = replace(settings, stop_when=None)
    prepared = Prepared(settings, cases, target, attack)
    return _execute(settings, cases, target, prepared.tactics, resumed.journal, resumed.earlier)


def plan(arguments: argparse.Namespace) -> int:
    """Run `plan`."""
    from faircount.chat.prices import Prices
    from faircount.running.planning import planned

    refuse_page_without_place(arguments)
    setting = judge_setting(arguments)
    paths = paths_of(arguments)
    if attacks_entries(arguments):
        chosen = choose_entries(entries_of(arguments, paths, None), setting)
        if arguments.shard is not None:
            chosen = replace(chosen, cases=read_shard(arguments.shard).of(chosen.cases))
    else:
        chosen = runs.choose(choice_of(arguments, paths), setting)
    for note in chosen.notes:
        say(note)
    model = setting.chat.model if setting.chat is not None else None
    prices = Prices(setting.chat.prices if setting.chat is not None else {})
    iterations = 0 if arguments.attack is None else attack_iterations(arguments)
    told = planned(chosen.cases, model or None, prices, iterations=iterations, attack_only=arguments.attack_only)
    report = plan_report(told)
    show_one("plan", report, arguments)
    return 0


# -- the journal ------------------------------------------------------------------------------------------------


def _journal(arguments: argparse.Namespace, settings: Settings, cases: Sequence[Case]) -> Journal:
    """Make the journal: where the user says, or under a name that nothing has yet."""
    folder = Path(arguments.journal).parent if arguments.journal is not None else Path(settings.output_folder)
    for needed in (folder, Path(settings.output_folder)):
        try:
            needed.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{needed}: cannot be created: {error.strerror or error}") from error
    if arguments.journal is not None:
        return runs.begin(arguments.journal, settings, cases)
    for name in _free_names(f"run_{settings.timestamp}"):
        path = folder / f"{name}.jsonl"
        try:
            return runs.begin(str(path), settings, cases)
        except UsageError:
            if not path.exists():
                raise
    raise AssertionError("there is always a free name")


def _free_names(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}_{number}" for number in itertools.count(2))


def _with_spikee_results(settings: Settings, path: str) -> Settings:
    if not settings.is_attack:
        raise UsageError("--spikee-results works only with datasets; this is a run of tests")
    _refuse_existing(path)
    return replace(settings, spikee_results=path)


def _refuse_existing(path: str | None) -> None:
    if path is not None and os.path.lexists(path):
        raise UsageError(f"{path}: already exists; name another file with --spikee-results")


# -- running ----------------------------------------------------------------------------------------------------


def _execute(
    settings: Settings,
    cases: Sequence[Case],
    target: Target,
    tactics: Tactics | None,
    journal: Journal,
    earlier: Earlier | None = None,
) -> Ending:
    """Run cases into a journal, and say now and then how far it is."""
    with RunProgress(attacks=settings.is_attack) as progress, contextlib.ExitStack() as stopping:

        def interrupted(number: int) -> None:
            if number == 1:
                progress.interrupt("finishing requests in flight; interrupt again to stop immediately")
            elif number == 2:
                # Once the run has ended, nothing of the user's keeps what follows from ending.
                stopping.callback(_stop_soon(journal.path).cancel)

        return runs.execute(
            cases,
            target,
            journal,
            settings.limits,
            tactics=tactics,
            earlier=earlier,
            heard=progress.heard,
            watching=watcher(settings.stop_when, ignore_errors=settings.ignore_errors)
            if settings.stop_when
            else lambda _: "",
            interrupted=interrupted,
        )


def _stop_soon(path: str) -> threading.Timer:
    """End this process in a moment, whatever the user's code is doing; the journal is valid at any time."""

    def stop() -> None:
        say(f"the run is incomplete: interrupted; resume with: faircount resume {shlex.quote(path)}")
        os._exit(EXIT_INTERRUPTED)

    watch = threading.Timer(_GRACE, stop)
    watch.daemon = True
    watch.start()
    return watch
