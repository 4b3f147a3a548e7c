"""The shards of a run: which one this is, its part of the limits, and how all are proven to be one run and merged.

`--shard auto` asks the environment, where the schedulers of array jobs say which task of how many this is. What is not
said there, or said twice and differently, is not guessed.

The journals of shards are one run if they have the same version, content of datasets, choice of entries, target and
attack. That they are all there is proven by what they hold: every shard once, each with as many entries as its share of
the whole comes to, each entry in one shard only, and nothing left to be tried on any.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from faircount.core.errors import InputError, UsageError
from faircount.core.findings import counted
from faircount.core.text import clip, visible
from faircount.readers.journals import SCHEMA, EndRecord, ShardRecord, State, decode, encode_record
from faircount.runs.cases import Shard
from faircount.runs.journal import has_begun, read_journal
from faircount.runs.lifecycle import Settings, differences, settings_of

AUTO = "auto"
_SHARD = re.compile(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*")


def read_shard(text: str) -> Shard:
    """Return the shard that `i/n` names, or that the scheduler of this job says, for `auto`."""
    if text == AUTO:
        return scheduled_shard(os.environ)
    found = _SHARD.fullmatch(text)
    shard = Shard(int(found[1]), int(found[2])) if found else Shard(0, 0)
    if not 1 <= shard.number <= shard.count:
        raise UsageError(f"--shard {clip(visible(text), 40)}: write NUMBER/COUNT, such as 1/4 to 4/4, or auto")
    return shard


def shard_path(path: str, shard: Shard) -> str:
    """Return the name of a shard's own file, where all shards are given the same name: run.jsonl, run_shard3.jsonl."""
    place = Path(path)
    return str(place.with_stem(f"{place.stem}_shard{shard.number}")) if place.name else path


def part_of_calls(calls: int, shard: Shard) -> int:
    """Return how many of the requests of all shards this one may send; the first shards have one more of a rest."""
    if calls < shard.count:
        raise UsageError(f"--max-calls {calls:,} is for all {shard.count:,} shards, and each needs one at least")
    return calls // shard.count + (shard.number <= calls % shard.count)


def part_of_amount(amount: float, shard: Shard) -> float:
    """Return this shard's part of an amount; all parts together are never more than the whole, not even by rounding."""
    part = amount / shard.count
    while Fraction(part) * shard.count > Fraction(amount):
        part = math.nextafter(part, 0.0)
    return part


# -- array jobs ---------------------------------------------------------------------------------------------------


_INSTEAD = "or write --shard NUMBER/COUNT"


def scheduled_shard(environment: Mapping[str, str]) -> Shard:
    """Return the shard that this task of an array job is; UsageError where that cannot be known."""
    found = {name: read(environment) for name, read in _SCHEDULERS.items() if environment.get(name)}
    if not found:
        raise UsageError(
            f"--shard auto: not in an array job: none of {', '.join(_SCHEDULERS)} is set; write --shard NUMBER/COUNT"
        )
    if len(set(found.values())) > 1:
        said = ", ".join(f"{shard} by {name}" for name, shard in found.items())
        raise UsageError(f"--shard auto: schedulers disagree: {said}; write --shard NUMBER/COUNT")
    return next(iter(found.values()))


def _slurm(environment: Mapping[str, str]) -> Shard:
    """Return the place of a task in an array that may begin anywhere and have a step, such as 1-127:2."""
    index, count, first, last = (
        _number(environment, f"SLURM_ARRAY_TASK_{name}", "submit it with sbatch --array")
        for name in ("ID", "COUNT", "MIN", "MAX")
    )
    step, rest = divmod(last - first, count - 1) if count > 1 else (1, last - first)
    if rest or step < 1 or not first <= index <= last or (index - first) % step:
        raise UsageError(
            f"--shard auto: task {index} has no known place among the {count} from {first} to {last} of this Slurm "
            f"array: their numbers are not evenly spaced; submit a range, such as --array=0-{count - 1}, {_INSTEAD}"
        )
    return Shard((index - first) // step + 1, count)


def _kubernetes(environment: Mapping[str, str]) -> Shard:
    hint = "set it in the job, under env of the container, to the number of completions, which Kubernetes does not tell"
    return _zero_based(environment, "JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", hint)


def _aws_batch(environment: Mapping[str, str]) -> Shard:
    return _zero_based(environment, "AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE", "submit an array job")


def _zero_based(environment: Mapping[str, str], index_name: str, count_name: str, hint: str) -> Shard:
    index, count = _number(environment, index_name, hint), _number(environment, count_name, hint)
    if index >= count:
        raise UsageError(
            f"--shard auto: {index_name} is {index}, so {count_name} cannot be {count}; set it to the number of all "
            f"tasks, {_INSTEAD}"
        )
    return Shard(index + 1, count)


def _number(environment: Mapping[str, str], name: str, hint: str) -> int:
    value = environment.get(name, "").strip()
    if not re.fullmatch(r"[0-9]{1,9}", value):
        said = f"is {clip(visible(repr(value)), 40)}, which is not a number" if value else "is not set"
        raise UsageError(f"--shard auto: {name} {said}; {hint}, {_INSTEAD}")
    return int(value)


_SCHEDULERS: Mapping[str, Callable[[Mapping[str, str]], Shard]] = {
    "SLURM_ARRAY_TASK_ID": _slurm,
    "JOB_COMPLETION_INDEX": _kubernetes,
    "AWS_BATCH_JOB_ARRAY_INDEX": _aws_batch,
}
"""The variable that says a task's index, and how the rest is read, for each scheduler."""


# -- merging ------------------------------------------------------------------------------------------------------


_KEPT_RECORDS = frozenset(["case", "call", "attempt", "retry", "done"])
_SAME_SETTINGS = ("files", "entries", "target", "attacking", "stop_when", "ignore_errors")
"""What shards of one run have in common; how fast and how patiently the target is asked may differ."""


class ShardJournal(Struct, frozen=True):
    """A journal of one shard, and what it comes to."""

    path: str
    settings: Settings
    state: State

    @property
    def number(self) -> int:
        """Which shard it is."""
        return 0 if self.settings.shard is None else self.settings.shard.number

    @property
    def started(self) -> bool:
        """Whether anything was sent; before that, not all entries may have a record."""
        return bool(self.state.complete or self.state.kinds.get("call"))

    @property
    def left(self) -> int:
        """How many entries are left, of those that have a record."""
        return len(self.state.cases) - len(self.state.finished)

    @property
    def complete(self) -> bool:
        """Whether nothing is left, and the end is recorded."""
        return self.state.complete is True and not self.left


class ShardedRun(Struct, frozen=True):
    """Shards of one run, in their order, each once and no entry in two; of `count`, some may be missing.

    `unstarted` are journals without a whole header, of which nothing can be known. If the run is `complete`, each shard
    has its share of the entries.
    """

    parts: tuple[ShardJournal, ...]
    count: int
    unstarted: tuple[str, ...] = ()

    @property
    def missing(self) -> list[int]:
        """The numbers of the shards that are not there."""
        there = {part.number for part in self.parts}
        return [number for number in range(1, self.count + 1) if number not in there]

    @property
    def complete(self) -> bool:
        """Whether all shards are there, with nothing left on any."""
        return not self.unstarted and len(self.parts) == self.count and all(part.complete for part in self.parts)

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return sum(len(part.state.cases) for part in self.parts)

    @property
    def attempts(self) -> int:
        """How many attempts count."""
        return sum(part.state.done for part in self.parts)

    def pieces(self) -> Iterator[bytes]:
        """Yield the journal of the whole: a header, what each shard recorded, and the end."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        first = self.parts[0]
        header = replace(
            first.state.header,
            schema=SCHEMA,
            run=str(uuid.uuid4()),
            started=min(str(part.state.header.started) for part in self.parts),
            settings=msgspec.to_builtins(first.settings.of_all_shards()),
            merged=[
                ShardRecord(
                    Path(part.path).name, part.state.header.run, part.number, len(part.state.cases), part.state.done
                )
                for part in self.parts
            ],
        )
        yield encode_record(header)
        for part in self.parts:
            with Path(part.path).open("rb") as file:
                while file.tell() < part.state.end:
                    line = file.readline()
                    if decode(line).kind in _KEPT_RECORDS:
                        yield line
        yield encode_record(EndRecord(now, complete=True, why=""))


def merge_shards(paths: Sequence[str]) -> ShardedRun:
    """Return the journals of shards as one complete run; InputError says what is missing, double or different."""
    run = read_shards(paths)
    for path in run.unstarted:
        read_journal(path)  # says what is wrong with it
    missing = run.missing
    if missing:
        named = ", ".join(f"{number}/{run.count}" for number in missing[:10]) + (", …" if len(missing) > 10 else "")
        raise InputError(f"{counted(len(missing), 'shard')} of {run.count} missing: {named}")
    for part in run.parts:
        if not part.complete:
            raise InputError(
                f"{part.path}: not complete: {counted(part.left, 'entry', 'entries')} left; "
                f"continue with faircount resume {shlex.quote(part.path)}"
            )
    return run


def read_shards(paths: Sequence[str]) -> ShardedRun:
    """Return the journals of shards as one run, which need not be complete; InputError says what is wrong with them."""
    parts, unstarted = [], []
    for path in paths:
        if Path(path).exists() and not has_begun(path):
            unstarted.append(path)
            continue
        settings = settings_of(path)
        if settings.shard is None:
            raise InputError(f"{path}: not a shard: its run was started without --shard")
        parts.append(ShardJournal(path, settings, read_journal(path).state()))
    parts.sort(key=lambda part: part.number)
    if parts:
        _refuse_other_runs(parts)
    run = ShardedRun(tuple(parts), _count(parts), tuple(unstarted))
    _refuse_doubled(run)
    if run.complete:
        _refuse_wrong_shares(run)
    return run


def _refuse_other_runs(parts: Sequence[ShardJournal]) -> None:
    first = parts[0]
    for part in parts[1:]:
        if part.state.header.version != first.state.header.version:
            raise InputError(f"{part.path}: made by another version than {first.path}: they are not one run")
        for name, _, _ in differences(part.settings, first.settings, _SAME_SETTINGS):
            raise InputError(f"{part.path} and {first.path} are not parts of one run: they differ in {name}")


def _count(parts: Sequence[ShardJournal]) -> int:
    """Return how many shards the run has; 0 if that is not known."""
    counts = {part.settings.shard.count for part in parts if part.settings.shard is not None}
    if len(counts) > 1:
        numbers = " and ".join(str(count) for count in sorted(counts))
        raise InputError(f"these are not parts of one run: some belong to {numbers} shards")
    return max(counts, default=0)


def _refuse_doubled(run: ShardedRun) -> None:
    """Raise where a shard is there twice, or an entry is in two shards."""
    there: dict[int, str] = {}
    where: dict[str, str] = {}
    for part in run.parts:
        if not 1 <= part.number <= run.count:
            raise InputError(f"{part.path}: there is no shard {part.number}/{run.count}")
        if part.number in there:
            raise InputError(f"{part.path} and {there[part.number]} are both shard {part.number}/{run.count}")
        there[part.number] = part.path
        for name in part.state.cases:
            if name in where:
                raise InputError(f"the entry {clip(visible(name), 100)} is in {where[name]} and in {part.path}")
            where[name] = part.path


def _refuse_wrong_shares(run: ShardedRun) -> None:
    """Raise where a shard of a complete run has more or fewer entries than its share."""
    for part in run.parts:
        share = len(range(part.number - 1, run.entries, run.count))
        if len(part.state.cases) != share:
            raise InputError(
                f"{part.path}: has {counted(len(part.state.cases), 'entry', 'entries')}, but shard "
                f"{part.number}/{run.count} of {run.entries:,} has {share:,}"
            )
