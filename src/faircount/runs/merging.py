"""The journals of shards put together into one, if they are all parts of one run: none missing, none twice.

What makes them one run: the same version, the same content of datasets, choice of entries, target and attack. That
they are all there is proven by what they hold: every shard once, each with as many entries as its share of the whole
comes to, each entry in one shard only, and nothing left to be tried on any. Nothing is written here: whoever has a file
takes the pieces.
"""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from faircount.core.errors import InputError
from faircount.core.findings import counted
from faircount.core.text import clip, visible
from faircount.readers.journals import SCHEMA, EndRecord, ShardRecord, State, decode, encode_record
from faircount.runs.journal import read_journal
from faircount.runs.lifecycle import Settings, settings_of
from faircount.runs.targets.factory import without_limits

_KEPT = frozenset(["case", "call", "attempt", "retry", "done"])
_SAME = ("files", "entries", "target", "attacking", "stop_when", "ignore_errors")
"""What shards of one run have in common; how fast and how patiently the target is asked may differ."""


class Part(Struct, frozen=True):
    """A journal of one shard, and what it comes to."""

    path: str
    settings: Settings
    state: State

    @property
    def number(self) -> int:
        """Which shard it is."""
        return 0 if self.settings.shard is None else self.settings.shard.number


class Merged(Struct, frozen=True):
    """The shards of one run, in their order; all of it was proven."""

    parts: tuple[Part, ...]

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
            settings=msgspec.to_builtins(replace(first.settings, shard=None, spikee_results=None)),
            merged=[_origin(part) for part in self.parts],
        )
        yield encode_record(header)
        for part in self.parts:
            yield from _records(part)
        yield encode_record(EndRecord(now, complete=True, why=""))


def _origin(part: Part) -> ShardRecord:
    name, entries = Path(part.path).name, len(part.state.cases)
    return ShardRecord(name, part.state.header.run, part.number, entries, part.state.done)


def _records(part: Part) -> Iterator[bytes]:
    with Path(part.path).open("rb") as file:
        while file.tell() < part.state.end:
            line = file.readline()
            if decode(line).kind in _KEPT:
                yield line


def merged(paths: Sequence[str]) -> Merged:
    """Return the journals of shards as one run; InputError says what is missing, double or different."""
    parts = sorted((_part(path) for path in paths), key=lambda part: part.number)
    _refuse_other_runs(parts)
    _refuse_gaps(parts)
    _refuse_unfinished(parts)
    _refuse_other_entries(parts)
    return Merged(tuple(parts))


def _part(path: str) -> Part:
    settings = settings_of(path)
    if settings.shard is None:
        raise InputError(f"{path}: not a shard: its run was started without --shard")
    return Part(path, settings, read_journal(path).state())


def _refuse_other_runs(parts: Sequence[Part]) -> None:
    first = parts[0]
    for part in parts[1:]:
        if part.state.header.version != first.state.header.version:
            raise InputError(f"{part.path}: made by another version than {first.path}: they are not one run")
        for name in _SAME:
            if _told(part, name) != _told(first, name):
                raise InputError(f"{part.path} and {first.path} are not parts of one run: they differ in {name}")


def _told(part: Part, name: str) -> object:
    return without_limits(part.settings.target) if name == "target" else getattr(part.settings, name)


def _refuse_gaps(parts: Sequence[Part]) -> None:
    """Raise unless every shard is there once."""
    there: dict[int, str] = {}
    counts = {part.settings.shard.count for part in parts if part.settings.shard is not None}
    if len(counts) > 1:
        told = " and ".join(str(count) for count in sorted(counts))
        raise InputError(f"these are not parts of one run: some belong to {told} shards")
    count = counts.pop()
    for part in parts:
        if part.number in there:
            raise InputError(f"{part.path} and {there[part.number]} are both shard {part.number}/{count}")
        there[part.number] = part.path
    missing = [number for number in range(1, count + 1) if number not in there]
    if missing:
        named = ", ".join(f"{number}/{count}" for number in missing[:10]) + (", …" if len(missing) > 10 else "")
        raise InputError(f"{counted(len(missing), 'shard')} of {count} missing: {named}")


def _refuse_unfinished(parts: Sequence[Part]) -> None:
    for part in parts:
        left = len(part.state.cases) - len(part.state.finished)
        if part.state.stopped_early and part.state.complete is False:
            raise InputError(
                f"{part.path}: stopped early because enough was known, so it is not complete; "
                f"run the rest with faircount resume {shlex.quote(part.path)}"
            )
        if left or not part.state.complete:
            raise InputError(
                f"{part.path}: not complete: {counted(left, 'entry', 'entries')} left; "
                f"continue with faircount resume {shlex.quote(part.path)}"
            )


def _refuse_other_entries(parts: Sequence[Part]) -> None:
    """Raise where an entry is in two shards, or a shard has more or fewer entries than its share."""
    where: dict[str, str] = {}
    total, count = sum(len(part.state.cases) for part in parts), len(parts)
    for part in parts:
        share = len(range(part.number - 1, total, count))
        if len(part.state.cases) != share:
            raise InputError(
                f"{part.path}: has {counted(len(part.state.cases), 'entry', 'entries')}, but shard "
                f"{part.number}/{count} of {total:,} has {share:,}"
            )
        for name in part.state.cases:
            if name in where:
                raise InputError(f"the entry {clip(visible(name), 100)} is in {where[name]} and in {part.path}")
            where[name] = part.path
