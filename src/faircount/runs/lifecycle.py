"""A run from its beginning to its end: what is to be run, the journal that it goes into, and how it goes on later.

The header of a journal holds everything that a run needs to be resumed: which files and cases, which target, which
limits, and where its report goes. It holds no secret: keys are looked up again where they came from.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from faircount.components.code import in_short
from faircount.components.factory import Context
from faircount.core import interrupts
from faircount.core.errors import FaircountError, InputError, UsageError
from faircount.core.text import visible
from faircount.readers.aggregation import check_attempts, read_aggregation
from faircount.readers.journals import ATTACK, SCHEMA, TASK, EndRecord, RunRecord
from faircount.runs.attacks.base import Attack
from faircount.runs.budget import Limits
from faircount.runs.cases import Case, Chosen, Measuring, TaskCase
from faircount.runs.dataset_choice import DatasetChoice
from faircount.runs.datasets import choose_entries
from faircount.runs.engine import Earlier, Ending, Engine, Heard, Watching
from faircount.runs.journal import Journal, read_journal
from faircount.runs.plan import Strategy
from faircount.runs.report import Layout, renaming
from faircount.runs.selecting import Selection, select
from faircount.runs.shards import Shard, in_random_order
from faircount.runs.targets.base import Target
from faircount.runs.test_files import collect
from faircount.version import __version__

TIMESTAMP = "%Y%m%d_%H%M%S"
Interrupted = Callable[[int], None]
T = TypeVar("T")


class Choice(Struct, frozen=True):
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
    choice: Choice | None = None
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


def chosen_for(settings: Settings, setting: Context | None = None) -> Chosen:
    """Return what a run with these settings is about; the same files give the same cases in the same order."""
    if settings.choice is not None:
        return choose(settings.choice, setting)
    if settings.entries is None:
        raise InputError("the header of the journal names neither tests nor a dataset")
    chosen = choose_entries(settings.entries, setting or Context())
    cases = chosen.cases if settings.shard is None else settings.shard.of(chosen.cases)
    return replace(chosen, cases=cases if settings.stop_when is None else in_random_order(cases))


def choose(choice: Choice, setting: Context | None = None) -> Chosen:
    """Collect the tests of the paths and return those that are meant."""
    if choice.retries is not None and choice.retries < 1:
        raise UsageError("--retries must be 1 or more: it is the number of attempts on each case")
    collected = collect(choice.paths, setting=setting)
    selected = select(collected.cases, choice.selection)
    cases = tuple(_adjusted(case, choice) for case in selected.cases)
    notes = (*_passed_over(collected.passed_over), *selected.notes, *_renamed(cases))
    return Chosen(cases, collected.files, notes)


def _adjusted(case: TaskCase, choice: Choice) -> TaskCase:
    attempts = case.attempts if choice.retries is None else choice.retries
    aggregation = case.aggregation if choice.aggregation is None else choice.aggregation
    try:
        check_attempts(read_aggregation(aggregation), attempts)
    except ValueError as error:
        raise UsageError(f"{case.name}: {error}") from error
    return replace(case, attempts=attempts, aggregation=aggregation)


def _passed_over(files: Sequence[str]) -> Iterator[str]:
    if files:
        named = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
        yield f"skipped, because the name of a test file contains “test”: {named}; name a file to run it"


def _renamed(cases: Sequence[TaskCase]) -> Iterator[str]:
    renamed = [case for case in cases if case.declared_name]
    if renamed:
        yield f"{renaming(len(renamed))}: {visible(renamed[0].name)}; a postfix gives a TestGroup its own name"


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
    except (msgspec.ValidationError, UnicodeError) as error:  # half a character in the name of a field
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


def _each_judge(cases: Sequence[Case]) -> list[tuple[Case, Measuring]]:
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
    heard: Heard = lambda _: None,
    watching: Watching = lambda _: "",
    interrupted: Interrupted = lambda _: None,
) -> Ending:
    """Run cases into a journal, write how it ended, and close the journal.

    The first interrupt lets what is under way finish, the second one gives it up. `interrupted` hears of each, with its
    number: in a signal handler, and so also when the user's code keeps everything else from going on.
    """
    engine = Engine(cases, target, journal, limits, strategy=strategy, heard=heard, watching=watching)
    try:
        with _interrupts(engine, interrupted) as listening:
            ending = run_in_a_loop(lambda: _run(engine, earlier, listening))
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


async def _run(engine: Engine, earlier: Earlier | None, listening: Callable[[], None]) -> Ending:
    listening()
    return await engine.run(earlier)


@contextlib.contextmanager
def _interrupts(engine: Engine, interrupted: Interrupted) -> Iterator[Callable[[], None]]:
    """Let interrupts drain the engine, and then stop it; elsewhere than in the main thread there are none.

    To be terminated is a second interrupt: there may be no time to let anything finish. What is given is to be called
    when the event loop runs: an interrupt while it starts would leave it half made.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield lambda: None
        return
    count = 0
    loop: asyncio.AbstractEventLoop | None = None

    def stop() -> None:
        if loop is not None and count:
            with contextlib.suppress(RuntimeError):  # the loop is closed: it is over anyway
                loop.call_soon_threadsafe(engine.drain if count == 1 else engine.abort)

    def listen() -> None:
        nonlocal loop
        loop = asyncio.get_running_loop()
        stop()

    def interrupt(number: int, _: object) -> None:
        nonlocal count
        count = count + 1 if number == signal.SIGINT else max(count + 1, 2)
        stop()
        interrupted(count)

    # Only where the program takes these for interrupts anyway: the command line does, and others may not.
    others = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    taken = [each for each in others if signal.getsignal(each) in (signal.default_int_handler, interrupts.handle)]
    before = {number: signal.signal(number, interrupt) for number in [signal.SIGINT, *taken]}
    try:
        yield listen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
