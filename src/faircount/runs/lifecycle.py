"""A run from its beginning to its end: what is to be run, its journal, and how it is resumed.

The header of a journal holds everything that a run needs to be resumed: which files and cases, which target, which
limits, and where its report goes. It holds no secret: keys are looked up again where they came from. Tests that are not
what they were when the run began are refused, because their attempts would not belong together.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from faircount.components.code import in_short
from faircount.components.factory import Context
from faircount.core import interrupts
from faircount.core.errors import FaircountError, InputError, UsageError
from faircount.core.model import Outcome
from faircount.core.text import clip, visible
from faircount.readers.aggregation import check_attempts, read_aggregation
from faircount.readers.journals import (
    ATTACK,
    SCHEMA,
    TASK,
    AttemptRecord,
    CallRecord,
    CaseRecord,
    EndRecord,
    RetryRecord,
    RunRecord,
    State,
    decode,
    encode_record,
)
from faircount.runs.attacks.base import Attack
from faircount.runs.budget import Limits, costs_of
from faircount.runs.cases import (
    AttackCase,
    Case,
    CaseMetric,
    RunCases,
    Selection,
    Shard,
    TaskCase,
    in_random_order,
    select,
)
from faircount.runs.datasets import DatasetChoice, choose_entries
from faircount.runs.engine import Earlier, Ending, Engine, OnProgress, Watcher
from faircount.runs.journal import Journal, JournalReader, read_journal
from faircount.runs.plan import Strategy
from faircount.runs.report import Layout, renaming
from faircount.runs.targets.base import Target
from faircount.runs.targets.factory import without_limits
from faircount.runs.test_files import collect
from faircount.version import __version__

TIMESTAMP = "%Y%m%d_%H%M%S"
_MOST_SHOWN = 3
_LONGEST_SHOWN = 60
OnInterrupt = Callable[[int], None]
T = TypeVar("T")


class TestChoice(Struct, frozen=True):
    """Which tests are run, and how often. `retries` and `aggregation` go before what the tests say."""

    paths: tuple[str, ...]
    selection: Selection = field(default_factory=Selection)
    retries: int | None = None
    aggregation: str | None = None


class AttackSettings(Struct, frozen=True):
    """How entries are attacked, so that a run can be resumed; `attack` is what the attack recorded of itself."""

    attack: Mapping[str, Any] | None = None
    iterations: int = 10
    attack_only: bool = False
    retries: int = 0

    def strategy(self, attack: Attack | None) -> Strategy:
        """Return the same with the attack itself."""
        return Strategy(attack, self.iterations, self.attack_only, self.retries)


class Settings(Struct, frozen=True):
    """What a header says of a run, so that it can be resumed. Paths are those of `folder`.

    A run is one of tests, which `choice` says, or of entries of datasets, which `entries` says.
    """

    files: tuple[tuple[str, str], ...]
    target: Mapping[str, Any]
    limits: Limits
    output_folder: str
    timestamp: str
    report_layout: Layout
    folder: str
    choice: TestChoice | None = None
    entries: DatasetChoice | None = None
    attacking: AttackSettings = AttackSettings()
    shard: Shard | None = None
    stop_when: str | None = None
    ignore_errors: bool = False
    """Whether `stop_when` counts errors and unjudged entries as failures; else a rule must hold whatever they were."""
    config: str | None = None
    judges: Mapping[str, str | None] = {}
    """What the command line said of the model that judges ask: model, base_url, api_key_env."""
    spikee_results: str | None = None
    """Where the results go in spikee's format."""

    @property
    def is_attack(self) -> bool:
        """Whether entries are attacked; otherwise tests are run."""
        return self.entries is not None

    def of_all_shards(self) -> Settings:
        """Return what a shard has in common with the whole run."""
        return replace(self, shard=None, spikee_results=None)


def cases_for(settings: Settings, context: Context | None = None) -> RunCases:
    """Return what a run with these settings is about; the same files give the same cases in the same order."""
    if settings.choice is not None:
        return choose_tests(settings.choice, context)
    if settings.entries is None:
        raise InputError("the header of the journal names neither tests nor a dataset")
    chosen = choose_entries(settings.entries, context or Context())
    cases = chosen.cases if settings.shard is None else settings.shard.of(chosen.cases)
    return replace(chosen, cases=cases if settings.stop_when is None else in_random_order(cases))


def choose_tests(choice: TestChoice, context: Context | None = None) -> RunCases:
    """Collect the tests of the paths and return those that are meant."""
    if choice.retries is not None and choice.retries < 1:
        raise UsageError("--retries must be 1 or more: it is the number of attempts on each case")
    collected = collect(choice.paths, context=context)
    selected = select(collected.cases, choice.selection)
    cases = tuple(_adjusted(case, choice) for case in selected.cases)
    notes, files = list(selected.notes), collected.passed_over
    if files:
        named = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
        notes.insert(0, f"skipped, because the name of a test file contains “test”: {named}; name a file to run it")
    renamed = [case for case in cases if case.declared_name]
    if renamed:
        first = visible(renamed[0].name)
        notes.append(f"{renaming(len(renamed))}: {first}; a postfix gives a TestGroup its own name")
    return RunCases(cases, collected.files, tuple(notes))


def _adjusted(case: TaskCase, choice: TestChoice) -> TaskCase:
    attempts = case.attempts if choice.retries is None else choice.retries
    aggregation = case.aggregation if choice.aggregation is None else choice.aggregation
    try:
        check_attempts(read_aggregation(aggregation), attempts)
    except ValueError as error:
        raise UsageError(f"{case.name}: {error}") from error
    return replace(case, attempts=attempts, aggregation=aggregation)


# -- the journal ------------------------------------------------------------------------------------------------


def begin(path: str, settings: Settings, cases: Sequence[Case]) -> Journal:
    """Make the journal of a new run, with its header and its cases."""
    header = RunRecord(
        schema=SCHEMA,
        aim=ATTACK if settings.is_attack else TASK,
        run=str(uuid.uuid4()),
        version=__version__,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        settings=msgspec.to_builtins(settings),
    )
    journal = Journal.create(path, header)
    try:
        journal.append_all_now(case.record() for case in cases)
    except BaseException:
        journal.close()
        raise
    return journal


def settings_of(path: str) -> Settings:
    """Return what the header of a journal says."""
    try:
        return msgspec.convert(read_journal(path).header.settings, Settings)
    except (msgspec.ValidationError, UnicodeError) as error:  # a lone surrogate in the name of a field
        raise InputError(f"{path}: its header cannot be used to resume the run: {visible(str(error))}") from error


# -- running ----------------------------------------------------------------------------------------------------


def make_ready(cases: Sequence[Case], attack: Attack | None = None) -> None:
    """Raise where a metric could measure nothing at all, or an attack do nothing, before anything is begun."""
    if attack is not None:
        attack.ready()
    for case, metric in _each_judge(cases):
        try:
            metric.ready()
        except FaircountError:
            raise
        except Exception as error:  # a metric may be anybody's code
            raise InputError(
                f"{visible(case.place)}: the metric {visible(metric.name)} is not ready: {visible(in_short(error))}"
            ) from error


def _each_judge(cases: Sequence[Case]) -> list[tuple[Case, CaseMetric]]:
    """Return every judge once, with a metric and a case that it stands in."""
    return list({id(metric.judge): (case, metric) for case in cases for metric in case.metrics}.values())


def execute(
    cases: Sequence[Case],
    target: Target,
    journal: Journal,
    limits: Limits,
    *,
    strategy: Strategy | None = None,
    earlier: Earlier | None = None,
    on_progress: OnProgress = lambda _: None,
    watcher: Watcher = lambda _: "",
    on_interrupt: OnInterrupt = lambda _: None,
) -> Ending:
    """Run cases into a journal, write how it ended, and close the journal.

    The first interrupt lets what is under way finish, the second one gives it up. `on_interrupt` is called for
    each with its number, in a signal handler: also when the user's code keeps everything else from going on.
    """
    engine = Engine(cases, target, journal, limits, strategy=strategy, on_progress=on_progress, watcher=watcher)
    try:
        with _interrupts(engine, on_interrupt) as listen:

            async def run() -> Ending:
                listen()
                return await engine.run(earlier)

            ending = run_in_a_loop(run)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        journal.append_now(EndRecord(now, ending.complete, ending.why, ending.decided or None))
        return ending
    finally:
        journal.close()
        for _, metric in _each_judge(cases):
            with contextlib.suppress(Exception):  # all that it said is recorded
                metric.close()


def run_in_a_loop(run: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run something in an event loop; in a notebook there is one already, so that another thread is needed."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run())
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(run())).result()


@contextlib.contextmanager
def _interrupts(engine: Engine, on_interrupt: OnInterrupt) -> Iterator[Callable[[], None]]:
    """Let interrupts drain the engine, and then stop it; elsewhere than in the main thread there are none.

    To be terminated is a second interrupt: there may be no time to let anything finish. What is given is to be called
    when the event loop runs: an interrupt while it starts would leave it half made.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield lambda: None
        return
    count = 0
    loop: asyncio.AbstractEventLoop | None = None
    wakes, woken = socket.socketpair()
    wakes.setblocking(False)
    woken.setblocking(False)

    def stop() -> None:
        if loop is not None and count:
            with contextlib.suppress(RuntimeError):  # the loop is closed: it is over anyway
                loop.call_soon_threadsafe(engine.drain if count == 1 else engine.abort)

    def listen() -> None:
        nonlocal loop
        loop = asyncio.get_running_loop()
        # A signal that comes just before the loop waits for its sockets is not seen until one of them has something.
        # Only the main thread sees signals, and the loop of Windows does this itself.
        if threading.current_thread() is threading.main_thread():
            with contextlib.suppress(NotImplementedError):
                loop.add_reader(wakes.fileno(), lambda: wakes.recv(4096))
                wakeups.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False))
        stop()

    def interrupt(number: int, _: object) -> None:
        nonlocal count
        count = count + 1 if number == signal.SIGINT else max(count + 1, 2)
        stop()
        on_interrupt(count)

    # Only where the program takes these for interrupts anyway: the command line does, and others may not.
    others = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    taken = [each for each in others if signal.getsignal(each) in (signal.default_int_handler, interrupts.handle)]
    before = {number: signal.signal(number, interrupt) for number in [signal.SIGINT, *taken]}
    with wakes, woken, contextlib.ExitStack() as wakeups:
        try:
            yield listen
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


# -- resuming -----------------------------------------------------------------------------------------------------


class Resumed(Struct, frozen=True):
    """A run that goes on, with what its journal holds."""

    journal: Journal
    earlier: Earlier


def is_over(state: State, cases: Sequence[Case]) -> bool:
    """Return whether a run has come to its end, with a record of everything that was to be tried."""
    return bool(state.complete) and all(case.units_done(state) == case.units for case in cases)


def same_cases(path: str, state: State, settings: Settings, context: Context | None) -> tuple[Case, ...]:
    """Choose again what a run is about; what is not what it was is an error."""
    chosen = cases_for(settings, context)
    refuse_changed(path, state, settings, chosen)
    return chosen.cases


def refuse_changed(path: str, state: State, settings: Settings, chosen: RunCases) -> None:
    """Raise where files or cases are not what they were when a run with these settings began."""
    for file in changed_files(settings.files, chosen.files):
        raise InputError(f"{file}: has changed since the run in {path} began; restore it, or start a new run")
    if settings.is_attack:
        _refuse_other_entries(path, state, chosen.cases)
    else:
        _refuse_other_cases(path, state, chosen.cases)


def changed_files(before: Iterable[tuple[str, str]], now: Iterable[tuple[str, str]]) -> list[str]:
    """Return the files whose content differs, by their digests."""
    old, new = dict(before), dict(now)
    return [file for file in dict.fromkeys((*new, *old)) if old.get(file) != new.get(file)]


_MAY_DIFFER = ("files", "limits", "timestamp", "spikee_results")
"""What a run may go on with that it was not begun with; files are compared by what they hold."""
_OF_OPTIONS = ("entries.selection.", "entries.", "choice.selection.", "choice.", "attacking.")
"""Under which names settings have what options of the same names say."""


def refuse_other_settings(path: str, before: Settings, now: Settings, instead: str) -> None:
    """Raise where a run was begun with other settings, and say which; how fast and how much it may ask can change."""
    names = [name for name in Settings.__struct_fields__ if name not in _MAY_DIFFER]
    differing = list(differences(before, now, names))
    if differing:
        shown = [f"{name} was {_shown(old)} and is {_shown(new)}" for name, old, new in differing[:_MOST_SHOWN]]
        more = len(differing) - _MOST_SHOWN
        what = "; ".join(shown) + (f"; {more} more" if more > 0 else "")
        raise UsageError(f"{path}: this run was started with other settings: {what}; {instead}")


def differences(one: Settings, other: Settings, names: Iterable[str]) -> Iterator[tuple[str, Any, Any]]:
    """Yield what differs between the settings of these names, each by the name of its option, with both values."""
    first, second = (_recorded(replace(each, target=without_limits(each.target))) for each in (one, other))
    for name in names:
        for place, old, new in _differing(name, first[name], second[name]):
            yield next((place[len(prefix) :] for prefix in _OF_OPTIONS if place.startswith(prefix)), place), old, new


def _recorded(settings: Settings) -> dict[str, Any]:
    """Return settings as a journal has them, where a tuple is a list."""
    recorded: dict[str, Any] = json.loads(json.dumps(msgspec.to_builtins(settings)))
    return recorded


def _differing(name: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            yield from _differing(f"{name}.{key}", one.get(key), other.get(key))
    elif one != other:
        yield name, one, other


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("name") or ", ".join(f"{name}={one}" for name, one in value.items())
    text = ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
    return clip(visible(text), _LONGEST_SHOWN) or "not set"


def resume(
    path: str, cases: Sequence[Case], *, retry_errors: bool, same_budget: bool = False, known: State | None = None
) -> Resumed:
    """Open a journal again to go on with the same cases; `known` is what it came to when it was looked at.

    With `same_budget`, what was spent before counts.
    """
    journal, state = Journal.reopen(path, known)
    try:
        # The cases that were not written yet when the run was stopped at its very beginning.
        missing = [case.record() for case in cases if case.name not in state.cases]
        void = [RetryRecord(case, attempt) for case, attempt in to_retry(state)] if retry_errors else []
        if missing or void:
            journal.append_all_now([*missing, *void])
            state = read_journal(path).state()
        made: dict[str, list[AttemptRecord]] = {}  # of entries that are not finished
        if any(isinstance(case, AttackCase) for case in cases):
            offsets = [offset for _, offset in state.attempts_of_unfinished()]
            for record in read_journal(path).records_at(offsets, AttemptRecord):
                made.setdefault(record.case, []).append(record)
        calls, cost = _spent(path) if same_budget else (0, None)
        return Resumed(journal, Earlier(state, state.calls_under_way(), made, calls, cost))
    except BaseException:
        journal.close()
        raise


def _spent(path: str) -> tuple[int, float | None]:
    """Return how many requests a journal tells of, those included that were sent again, and what they cost."""
    calls, cost = 0, None
    for line in read_journal(path):
        if isinstance(line.record, CallRecord):
            calls += 1
        elif isinstance(line.record, AttemptRecord):
            calls += max(0, (line.record.tries or 1) - 1)
            for price in costs_of(line.record):
                cost = (cost or 0.0) + price
    return calls, cost


def to_retry(state: State) -> Iterator[tuple[str, int]]:
    """Yield the attempts that are tried again after errors: of an entry, only if nothing but errors came of it."""
    for case, attempt in state.failed_attempts():
        if state.finished.get(case, Outcome.ERROR) == Outcome.ERROR:
            yield case, attempt


def _refuse_other_entries(path: str, state: State, cases: Sequence[Case]) -> None:
    """Raise where the same datasets make other entries than before; what they are is in the files, which are the same.

    All cases are written before the first call; a run that was stopped before that has only some. In a journal that was
    put together of shards they stand in another order.
    """
    names = [case.name for case in cases]
    all_there = len(names) == len(state.cases) and all(name in state.cases for name in names)
    if not all_there and (state.kinds.get("call") or list(state.cases) != names[: len(state.cases)]):
        raise InputError(
            f"{path}: the entries differ from those the run started with, although their files have not changed; use "
            "the version of Faircount that started it, or start a new run"
        )


def _refuse_other_cases(path: str, state: State, cases: Sequence[Case]) -> None:
    """Raise where the same files make other cases than before, as those do that read data from elsewhere."""
    reader = read_journal(path)
    gone = state.cases.keys() - {case.name for case in cases}
    changed = [case for case in cases if not _is_in(state, reader, case)]
    for name, place in [(case.name, case.place) for case in changed] or [(name, path) for name in sorted(gone)]:
        raise InputError(
            f"{visible(place)}: the case {visible(name)} has changed since the run in {path} began, although its "
            "file has not; restore what it is built from, or start a new run"
        )


def _is_in(state: State, reader: JournalReader, case: Case) -> bool:
    """Return whether a journal has a case; `place` may differ, and the version of what measures it."""
    if case.name not in state.cases:
        return not state.kinds.get("call")  # all cases are written before the first call
    before, now = next(reader.records_at([state.cases[case.name]], CaseRecord)), decode(encode_record(case.record()))
    same = ("tags", "input", "expected_output", "retry_params")
    names = [[metric.name for metric in one] for one in (before.metrics, case.metrics)]
    return all(getattr(now, name) == getattr(before, name) for name in same) and names[0] == names[1]


def changed_metrics(path: str, state: State, cases: Sequence[Case]) -> list[str]:
    """Return the names of the metrics whose code or parameters are not those that the journal tells of."""
    there = [case for case in cases if case.name in state.cases]
    # One case of each metric is enough: the others were made with the same.
    found_in = {metric.digest: (case, metric.name) for case in there for metric in case.metrics}
    places = {state.cases[case.name] for case, _ in found_in.values()}
    records = read_journal(path).records_at(places, CaseRecord)
    before = {metric.identity for record in records for metric in record.metrics}
    return sorted({name for digest, (_, name) in found_in.items() if digest not in before})


@contextlib.contextmanager
def in_its_folder(settings: Settings, path: str) -> Iterator[None]:
    """Be in the folder in which a run was begun, because its paths are relative to that, and return."""
    here = None
    with contextlib.suppress(OSError):  # a folder that was removed
        here = Path.cwd()
    try:
        os.chdir(settings.folder)
    except OSError as error:
        raise InputError(
            f"{path}: the run was started in {settings.folder}, which cannot be entered: {error.strerror or error}"
        ) from error
    try:
        yield
    finally:
        if here is not None:
            with contextlib.suppress(OSError):
                os.chdir(here)
