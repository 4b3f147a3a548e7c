"""`results rejudge` as a library call: a file in, its rows with new verdicts out, and what became of them.

A file is read twice: once to ask judges about what is not known yet, once to write. Whatever ends the first, verdicts
that were given are kept, and the next time goes on from there.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace
from xxhash import xxh3_128

from faircount.analysis.options import EACH, LAST, RejudgeOptions
from faircount.analysis.recorded import excerpts
from faircount.analysis.rejudge.changes import OUTCOMES, ChangedRows, Changes, Flip, FlipTexts, RateChange
from faircount.analysis.rejudge.panel import Asked, Bench, Panel, Seat
from faircount.analysis.rejudge.rows import (
    NewVerdict,
    Part,
    Shape,
    SkipReason,
    is_empty,
    is_simple,
    left_alone,
    parts_of,
    rewritten,
    success_of,
    text_alone,
    unchanged,
)
from faircount.chat.settings import Prices
from faircount.core.errors import InputError
from faircount.core.findings import Notes
from faircount.core.model import Document, Source
from faircount.core.text import mask_secrets
from faircount.core.verdict import Usage, Verdict
from faircount.io.streams import STDIN, ContentHash
from faircount.judges.batch import DEFAULT_CONCURRENCY, judged
from faircount.judges.judge import Judge, Turns, every_part, verdict_of
from faircount.judges.verdict_store import VerdictStore
from faircount.readers.loading import refuse_hopeless
from faircount.readers.raw_rows import RawReader, RawRow
from faircount.readers.registry import open_stream
from faircount.readers.rejudged_runs import marked
from faircount.report.source_labels import labelled

CHARACTERS_PER_TOKEN = 4
ANSWER_TOKENS = 256
"""What an answer of a judging model is taken to have, where nobody asked yet."""
UNKNOWN_MODEL = ""
"""Stands for the model of a judge that does not say which one it asks."""
_ERRORS_TOLD = 5


class _Planned(Struct, frozen=True, gc=False):
    """A row that is judged: by whom, how its parts make one verdict, and what the verdict on each is known by."""

    judge_name: str | None
    shape: Shape
    parts: tuple[tuple[int | None, bytes], ...]


class Work(Struct):
    """What judging took, or would take: verdicts wanted, those known before, those asked for now, those that failed.

    `planned` is what models would be asked in a dry run, by their names; estimated.
    """

    wanted: int = 0
    known: int = 0
    repeated: int = 0
    asked: int = 0
    failed: int = 0
    not_kept: int = 0
    usage: Usage = field(default_factory=Usage)
    planned: dict[str, Usage] = field(default_factory=dict)


class JudgeOfRows(Struct, frozen=True):
    """A judge and how many rows it had; `identity` is the digest of all that it is."""

    judge: str
    identity: str
    looks_for: str
    rows: int


class RejudgedFile(Struct, frozen=True):
    """What became of a file; `path` is where the rows are, None where none were written.

    `left_alone` counts rows by why they were not judged, `not_allowed` those that name a judge that may not be used, by
    its name, and `errors` those that are unjudged, by what went wrong: the most frequent.
    """

    source: Source
    path: str | None
    judges: tuple[JudgeOfRows, ...]
    rows: int
    judged: int
    unjudged: int
    left_alone: dict[SkipReason, int]
    not_allowed: dict[str, int]
    errors: dict[str, int]
    verdicts: Work
    changes: tuple[ChangedRows, ...]
    flips: tuple[Flip, ...]
    rates: RateChange | None

    @property
    def refused(self) -> int:
        """How many rows name no judge, or one that may not be used."""
        return self.left_alone[SkipReason.NO_JUDGE] + self.left_alone[SkipReason.NOT_ALLOWED]


class Rejudged(Document, frozen=True, kw_only=True):
    """What became of rejudged files; without prompts and responses.

    `complete`: every row that should be judged was.
    """

    kind: Literal["rejudge"] = "rejudge"
    schema: Literal[2] = 2
    dry_run: bool
    turns: str
    judge_options: str | None
    fresh: bool
    complete: bool
    files: tuple[RejudgedFile, ...]


def rejudged(files: Sequence[RejudgedFile], options: RejudgeOptions, *, dry_run: bool = False) -> Rejudged:
    """Return what became of files, or what would be done with them."""
    sources = labelled([file.source for file in files])
    return Rejudged(
        dry_run=dry_run,
        turns=options.turns,
        judge_options=options.judge_options,
        fresh=options.fresh,
        complete=not any(file.unjudged or file.refused for file in files),
        files=tuple(replace(file, source=source) for file, source in zip(files, sources, strict=True)),
    )


class Rejudging:
    """One file on its way: `ask`, then `lines`, then `result`. Use it as a context."""

    def __init__(
        self,
        name: str,
        panel: Panel,
        store: VerdictStore | None,
        options: RejudgeOptions | None = None,
        *,
        heard: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.work = Work()
        self._panel, self._store, self._options, self._heard = panel, store, options or RejudgeOptions(), heard
        self._plans: list[_Planned | SkipReason] = []
        self._verdicts: dict[bytes, Verdict | None] = {}
        self._left: Counter[SkipReason] = Counter()
        self._refused: Counter[str] = Counter()
        self._rows_of: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._changes = Changes(self._options.flips)
        self._unjudged = 0
        self._read: tuple[Source, Notes] | None = None
        self._digest = ""
        self._now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._cleanup = contextlib.ExitStack()
        self._path = ""
        self._of_own_run = False

    def __enter__(self) -> Rejudging:
        self._path = self._place()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @property
    def judged(self) -> int:
        """How many rows are judged."""
        return len(self._plans) - self._left.total()

    @property
    def of_tests(self) -> bool:
        """Whether the file tells of a run of tests, in which a hit is what one wants."""
        return open_stream(self._path, self.name).tells_of_tests

    # -- asking --------------------------------------------------------------------------------------------------

    def plan(self, prices: Prices | None = None) -> None:
        """Find out what would be asked, and ask nobody."""
        prices = prices or Prices({})
        for asked in self._unknown():
            self._estimate(asked)
        for model, usage in self.work.planned.items():
            tokens = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
            self.work.planned[model] = replace(usage, cost=prices.cost(model or None, **tokens))

    def ask(self) -> None:
        """Ask the judges about everything that is not known."""
        unknown = self._unknown()
        first = next(unknown, None)
        if first is None:
            return
        # Judges that rows name are made by now, as far as the first question needs one; others compare strings too.
        bench = Bench(self._panel, self._store)
        queue: deque[bytes] = deque()

        def attempts() -> Iterator[Asked]:
            for asked in _chained(first, unknown):
                queue.append(asked.known_by)
                yield asked

        options = self._options
        for (verdict,) in judged(
            [bench], attempts(), workers=options.workers, concurrency=options.concurrency or DEFAULT_CONCURRENCY
        ):
            self._hear(queue.popleft(), verdict)

    def _hear(self, name: bytes, verdict: Verdict) -> None:
        self._verdicts[name] = verdict if verdict.at else replace(verdict, at=self._now)
        work = self.work
        work.asked += 1
        work.failed += verdict.decision is None
        work.not_kept += verdict.decision is not None and not verdict.at and self._store is not None
        if verdict.usage is not None:
            work.usage += verdict.usage
        self._heard()

    def _unknown(self) -> Iterator[Asked]:
        """Go through the file, plan every row, and yield what nobody has judged yet, each once."""
        digest = _Content()
        reader = self._reader(digest)
        run = reader.stream.tells_of_tests
        self._of_own_run = reader.stream.run is not None
        for found in reader.blocks():
            for raw in found:
                plan, parts = self._planned(raw, run=run)
                self._plans.append(plan)
                if isinstance(plan, SkipReason):
                    self._left[plan] += 1
                    continue
                yield from self._not_known(plan, parts)
        self._read = reader.source(), reader.notes
        refuse_hopeless([self._read[0]], [self._read[1]])
        self._digest = digest.hexdigest()

    def _planned(self, raw: RawRow, *, run: bool) -> tuple[_Planned | SkipReason, Sequence[Part]]:
        why = left_alone(raw, run=run)
        if why is not None:
            return why, ()
        name = raw.row.judge_name
        seat = self._panel.of(name, only_allowed=run)
        if seat is None:
            return self._refuse(name, raw)
        each_turn = self._turns(seat) != LAST
        if seat.quick and self._options.workers is None and is_simple(raw, each_turn=each_turn, run=run):
            return self._at_once(seat, name, raw), ()
        shape, parts = parts_of(raw, each_turn=each_turn, run=run)
        if not parts:
            return SkipReason.EMPTY, ()
        self._rows_of[seat.digest] += 1
        names = tuple((part.turn, seat.name_of(part.attempt)) for part in parts)
        return _Planned(None if self._panel.chosen else name, shape, names), parts

    def _at_once(self, seat: Seat, name: str | None, raw: RawRow) -> _Planned | SkipReason:
        """Plan a row that is judged when it is written: that takes less than to look up what is known."""
        if is_empty(raw):
            return SkipReason.EMPTY
        self._rows_of[seat.digest] += 1
        self.work.wanted += 1
        self.work.asked += 1
        return _Planned(None if self._panel.chosen else name, Shape.ONE, ())

    def _refuse(self, name: str | None, raw: RawRow) -> tuple[SkipReason, tuple[()]]:
        if is_empty(raw):
            return SkipReason.EMPTY, ()
        if not name:
            return SkipReason.NO_JUDGE, ()
        self._refused[name] += 1
        return SkipReason.NOT_ALLOWED, ()

    def _turns(self, seat: Seat) -> Turns:
        """Return which answers of a history are judged, and what they come to: what the judge asks for, or the user."""
        turns = self._options.turns
        if turns == LAST:
            return "last"
        # In the history of our own run every attempt was judged, and one that succeeded is enough.
        each = turns == EACH or self._of_own_run
        return "any" if each and seat.turns == LAST else seat.turns

    def _not_known(self, plan: _Planned, parts: Sequence[Part]) -> Iterator[Asked]:
        work = self.work
        for part, (_, name) in zip(parts, plan.parts, strict=True):
            work.wanted += 1
            if name in self._verdicts:
                work.repeated += 1
                continue
            known = self._known(name)
            self._verdicts[name] = known
            if known is not None:
                work.known += 1
                continue
            attempt = part.attempt
            yield Asked(
                attempt.response,
                attempt.prompt,
                attempt.conversation,
                attempt.tools_called,
                attempt.context,
                attempt.expected,
                attempt.latency,
                attempt.notes,
                plan.judge_name,
                name,
            )

    def _known(self, name: bytes) -> Verdict | None:
        if self._store is None:
            return None
        half = len(name) // 2
        # A judge that is asked anew is still opened here, before any process is forked.
        known = self._store.known(name[:half].hex(), name[half:])
        return None if self._options.fresh else known

    def _estimate(self, asked: Asked) -> None:
        """Add what a question would take of a model."""
        self.work.asked += 1
        seat = self._panel.of(asked.judge_name)
        judges = [] if seat is None else [part for part in every_part(seat.judge) if part.waits]
        shown = sum(len(turn.content) for turn in asked.conversation) + len(asked.prompt) + len(asked.response or "")
        for judge in judges:
            if not list(judge.parts()):
                tokens = -(-(shown + len(judge.prompt or "")) // CHARACTERS_PER_TOKEN)
                model = _model_of(judge) or UNKNOWN_MODEL
                self.work.planned[model] = self.work.planned.get(model, Usage()) + Usage(1, tokens, ANSWER_TOKENS)

    # -- writing -------------------------------------------------------------------------------------------------

    def lines(self) -> Iterator[list[bytes]]:
        """Yield the rows with their new verdicts, as lines."""
        digest = _Content()
        reader = self._reader(digest)
        run = reader.stream.run if reader.stream.tells_of_tests else None
        plans = iter(self._plans)
        for found in reader.blocks():
            begins = b"" if run is None else marked(run)
            lines = []
            for raw in found:
                plan = next(plans, None)
                if plan is None:
                    raise _changed(self.name)
                line = self._line(raw, plan)
                lines.append(begins + line[1:] if begins else line)
            yield lines
        if digest.hexdigest() != self._digest:
            raise _changed(self.name)

    def _line(self, raw: RawRow, plan: _Planned | SkipReason) -> bytes:
        if isinstance(plan, SkipReason):
            self._changes.add(raw, None if raw.row.success is UNSET else raw.row.success, judged=False)
            return unchanged(raw.line)
        seat = self._panel.of(plan.judge_name)
        if seat is None or (plan.judge_name is not None and plan.judge_name != raw.row.judge_name):
            raise _changed(self.name)
        verdicts = tuple((turn, self._verdict(name)) for turn, name in plan.parts) or self._decided(seat, raw)
        success = success_of(plan.shape, verdicts, raw, self._turns(seat))
        new = NewVerdict(success, seat.called, seat.digest, plan.shape, verdicts, self._judge_options(seat))
        line = rewritten(raw, new)
        self._count(raw, new, line)
        return line

    def _decided(self, seat: Seat, raw: RawRow) -> tuple[tuple[None, Verdict], ...]:
        """Judge a row now, by a judge that only looks for strings."""
        said = verdict_of(seat.judge, text_alone(raw))
        self.work.failed += said.decision is None
        self._heard()
        return ((None, replace(said, at=self._now)),)

    def _verdict(self, name: bytes) -> Verdict:
        return self._verdicts.get(name) or _failed("not asked")

    def _count(self, raw: RawRow, new: NewVerdict, line: bytes) -> None:
        before = None if raw.row.success is UNSET else raw.row.success
        changes = self._changes
        changes.add(raw, new.success, judged=True)
        if changes.wants(before, new.success):
            place = f"{self.name}:{raw.number}"
            reason = mask_secrets(new.error if new.success is None else new.deciding.reason)
            own_id, prompt, response = excerpts(line)
            flip = Flip(place, own_id, OUTCOMES[before], OUTCOMES[new.success])
            changes.show(FlipTexts(flip, new.judge, reason, prompt, response))
        if new.failed:
            self._unjudged += 1
            self._errors[mask_secrets(new.error)] += 1

    def _judge_options(self, seat: Seat) -> str | UnsetType | None:
        """Return the options that are written into a row: those given, else the model that was asked, if any."""
        if self._options.judge_options is not None:
            return self._options.judge_options
        model = next(filter(None, (_model_of(part) for part in every_part(seat.judge))), None)
        if model is not None:
            return model
        return UNSET if self._panel.chosen is None else None

    # -- afterwards ----------------------------------------------------------------------------------------------

    @property
    def notes(self) -> Notes:
        """What was found while reading."""
        assert self._read is not None
        return self._read[1]

    @property
    def flips(self) -> tuple[FlipTexts, ...]:
        """Some rows whose verdicts changed."""
        return tuple(texts for shown in self._changes.shown.values() for texts in shown)

    def result(self, path: str | None) -> RejudgedFile:
        """Return what became of the file, after the last line; `path` is where the lines went."""
        assert self._read is not None
        seats = {seat.digest: seat for seat in self._panel.seats if self._rows_of[seat.digest]}
        return RejudgedFile(
            source=self._read[0],
            path=path,
            judges=tuple(
                JudgeOfRows(seat.called, digest, seat.judge.looks_for, self._rows_of[digest])
                for digest, seat in seats.items()
            ),
            rows=len(self._plans),
            judged=self.judged,
            unjudged=self._unjudged,
            left_alone={why: self._left[why] for why in SkipReason},
            not_allowed=dict(self._refused.most_common()),
            errors=dict(self._errors.most_common(_ERRORS_TOLD)),
            verdicts=self.work,
            changes=self._changes.counts(),
            flips=tuple(texts.flip for texts in self.flips),
            rates=None if path is None else self._changes.rates(self._options.level),
        )

    # -- the file ------------------------------------------------------------------------------------------------

    def _reader(self, digest: _Content) -> RawReader:
        return RawReader(open_stream(self._path, self.name, digest), max_line=self._options.max_line)

    def _place(self) -> str:
        """Return where the file can be read twice: a stream is copied to a file first."""
        if self.name != STDIN and Path(self.name).is_file():
            return self.name
        folder = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="faircount-")))
        copy = folder / "stream"
        try:
            with copy.open("wb") as file:
                if self.name == STDIN:
                    shutil.copyfileobj(sys.stdin.buffer, file)
                else:
                    with Path(self.name).open("rb") as stream:
                        shutil.copyfileobj(stream, file)
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror or error}") from error
        return str(copy)


class _Content(ContentHash):
    """What tells whether a file is still the one that was read before."""

    def __init__(self) -> None:
        self._hash = xxh3_128()

    def update(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        self._hash.update(data)

    def hexdigest(self) -> str:
        """Return what stands for all bytes so far."""
        return str(self._hash.hexdigest())


def _chained(first: Asked, rest: Iterator[Asked]) -> Iterator[Asked]:
    yield first
    yield from rest


def _model_of(judge: Judge) -> str | None:
    """Return the model that a judge asks, or the options by which one of spikee's finds it."""
    if not judge.waits:
        return None
    told = judge.parameters.get("judge_options") or judge.parameters.get("model")
    return told if isinstance(told, str) and told else None


def _failed(error: str | None) -> Verdict:
    return Verdict(None, error=error or "the judge did not decide")


def _changed(name: str) -> InputError:
    return InputError(f"{name}: changed while it was in use; nothing is written, start again")
