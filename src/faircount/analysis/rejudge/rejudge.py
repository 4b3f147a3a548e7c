"""`results rejudge` as a library call: a file in, its rows with new verdicts out, and what became of them.

A file is read twice: once to ask judges about what is not known yet, once to write. Whatever ends the first, verdicts
that were given are kept, and the next time goes on from there. An entry succeeded if any of its rows did. Every entry
that has a verdict before and after counts in the rates, with what was left alone as it was; one that is unjudged on
either side is left out of both."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import asdict, replace
from xxhash import xxh3_128

from faircount.analysis.evidence import excerpts, readable_again
from faircount.analysis.options import EACH, LAST, RejudgeOptions
from faircount.analysis.rejudge.panel import AskedAttempt, JointJudge, Panel, PanelMember
from faircount.analysis.rejudge.rows import (
    JudgedPart,
    NewVerdict,
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
from faircount.core.model import Document, Estimate, Outcome, Source
from faircount.core.outcomes import state
from faircount.core.text import mask_secrets
from faircount.core.verdict import Usage, Verdict
from faircount.io.streams import ContentHash
from faircount.judges.batch import DEFAULT_CONCURRENCY, judged
from faircount.judges.judge import Judge, Turns, every_part, verdict_of
from faircount.judges.verdict_store import VerdictStore
from faircount.ledger.schema import RowMark
from faircount.readers.loading import refuse_hopeless
from faircount.readers.raw_rows import RawReader, RawRow, entry_of, family_of
from faircount.readers.registry import open_stream, reader_named
from faircount.readers.rejudged_runs import marked
from faircount.report.source_labels import labelled

# -- what new verdicts change ---------------------------------------------------------------------------------


_SUCCEEDED, _TOLD = 1, 2
_BITS = 2
_MASK = (1 << _BITS) - 1
_ORDER = (Outcome.FAILURE, Outcome.UNJUDGED, Outcome.SUCCESS)
OUTCOMES: dict[bool | None, Outcome] = {True: Outcome.SUCCESS, False: Outcome.FAILURE, None: Outcome.UNJUDGED}


class RowFlip(Struct, frozen=True):
    """A row whose verdict changed."""

    place: str
    id: str | None
    before: Outcome
    after: Outcome


class FlipTexts(Struct, frozen=True):
    """A flip with its texts as they are now, and what the judge said: for people, never in a document."""

    flip: RowFlip
    judge: str
    reason: str
    prompt: str | None
    response: str | None


class ChangedRows(Struct, frozen=True):
    """How many rows had one verdict before and have another, or the same, after."""

    before: Outcome
    after: Outcome
    rows: int


class RateChange(Struct, frozen=True):
    """The rate over the entries that have a verdict before and after, and its paired difference, after minus before.

    `families` is how many families of variants the intervals respect; None: every entry is taken by itself.
    """

    entries: int
    left_out: int
    families: int | None
    before: Estimate
    after: Estimate
    difference: Estimate
    gained: int
    lost: int
    p: float | None


class _EntryBits(Struct, gc=False):
    """An entry while rows are read: two bits of what was before, two of what is after, and its family."""

    bits: int = 0
    family: str | None = None
    has_standard: bool = False


class Changes(Struct):
    """Counts rows by their verdicts before and after, and folds them into entries."""

    examples: int
    rows: Counter[tuple[Outcome, Outcome]] = field(default_factory=Counter)
    shown: dict[tuple[Outcome, Outcome], list[FlipTexts]] = field(default_factory=dict)
    _entries: dict[str, _EntryBits] = field(default_factory=dict)
    _by_id: dict[str, tuple[str, _EntryBits]] = field(default_factory=dict)

    def add(self, raw: RawRow, after: bool | None, *, judged: bool) -> None:
        """Count a row; one that was left alone is after what it was before."""
        row = raw.row
        before = None if row.success is UNSET else row.success
        if judged:
            self.rows[OUTCOMES[before], OUTCOMES[after]] += 1
        mark, parent = entry_of(row)
        origin = row.result_origin or row.source_file or ""
        if mark == RowMark.ATTACK_BY_ID:
            # Only an entry that is there can have such a row; else the row is an entry of its own.
            entry = self._by_id.setdefault(f"{origin}\n{row.id}", (f"{origin}\n{parent}", _EntryBits()))[1]
        else:
            entry = self._entries.setdefault(f"{origin}\n{parent}", _EntryBits())
        error, blocked = row.error is not None, row.guardrail is True
        entry.bits |= _bits(state(success=before, error=error, guardrail=blocked)) << _BITS
        entry.bits |= _bits(state(success=after, error=error, guardrail=blocked))
        is_standard = mark == RowMark.STANDARD
        if entry.family is None or (is_standard and not entry.has_standard):
            family = family_of(row)
            # There are fewer families than entries.
            entry.family = None if family is None else sys.intern(family)
            entry.has_standard = entry.has_standard or is_standard

    def wants(self, before: bool | None, after: bool | None) -> bool:
        """Return whether a row that changed so is still wanted as an example."""
        shown = self.shown.get((OUTCOMES[before], OUTCOMES[after]), ())
        return before is not after and len(shown) < self.examples

    def show(self, texts: FlipTexts) -> None:
        """Keep a row as an example of what changed."""
        self.shown.setdefault((texts.flip.before, texts.flip.after), []).append(texts)

    def counts(self) -> tuple[ChangedRows, ...]:
        """Return how many rows changed how; those that were failures come first, and those that were successes last."""
        order = sorted(self.rows, key=lambda change: tuple(map(_ORDER.index, change)))
        return tuple(ChangedRows(*change, self.rows[change]) for change in order)

    def rates(self, level: float) -> RateChange:
        """Return the rates before and after on the same entries, and their difference."""
        for name, (parent, entry) in self._by_id.items():
            merged = self._entries.setdefault(parent if parent in self._entries else name, entry)
            merged.bits |= entry.bits
        entries = self._entries.values()
        pairs = [entry for entry in entries if entry.bits & _TOLD and entry.bits >> _BITS & _TOLD]
        return _rates(pairs, len(self._entries) - len(pairs), level)


def _bits(outcome: Outcome) -> int:
    if outcome is Outcome.SUCCESS:
        return _SUCCEEDED | _TOLD
    return 0 if outcome is Outcome.UNJUDGED else _TOLD


def _rates(pairs: list[_EntryBits], left_out: int, level: float) -> RateChange:
    from faircount.stats import Design

    won = [(entry.bits >> _BITS & _SUCCEEDED, entry.bits & _SUCCEEDED) for entry in pairs]
    families: dict[str | None, list[tuple[int, int]]] = {}
    for entry, pair in zip(pairs, won, strict=True):
        families.setdefault(entry.family, []).append(pair)
    # Families are respected where they are known of all entries, and some entries share one.
    respects = None not in families and 1 < len(families) < len(pairs)
    design = Design(families=respects, level=level)
    members = list(families.values()) if respects else [won]
    sizes = [len(family) for family in members]
    gains, losses = ([family.count(change) for family in members] for change in ((0, 1), (1, 0)))
    before, after = ([sum(pair[side] for pair in family) for family in members] for side in (0, 1))
    difference = design.paired(gains, losses, sizes)
    return RateChange(
        entries=len(pairs),
        left_out=left_out,
        families=len(families) if respects else None,
        before=design.rate(before, sizes).estimate,
        after=design.rate(after, sizes).estimate,
        difference=difference.estimate,
        gained=sum(gains),
        lost=sum(losses),
        p=difference.p,
    )


# -- rejudging a file -----------------------------------------------------------------------------------------


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
    flips: tuple[RowFlip, ...]
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
        on_verdict: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.work = Work()
        self._panel, self._store, self._options, self._on_verdict = (
            panel,
            store,
            options or RejudgeOptions(),
            on_verdict,
        )
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
        self._place: Callable[[str, int], str] = "{}:{}".format

    def __enter__(self) -> Rejudging:
        self._path = readable_again(self.name, self._cleanup)
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @property
    def judged(self) -> int:
        """How many rows are judged."""
        return len(self._plans) - self._left.total()

    @property
    def of_tests(self) -> bool:
        """Whether the file is of a run of tests, in which a hit is what one wants."""
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
        joint = JointJudge(self._panel, self._store)
        queue: deque[bytes] = deque()

        def attempts() -> Iterator[AskedAttempt]:
            for asked in chain([first], unknown):
                queue.append(asked.known_by)
                yield asked

        options = self._options
        for (verdict,) in judged(
            [joint], attempts(), workers=options.workers, concurrency=options.concurrency or DEFAULT_CONCURRENCY
        ):
            work, kept_now = self.work, bool(verdict.at)
            self._verdicts[queue.popleft()] = verdict if kept_now else replace(verdict, at=self._now)
            work.asked += 1
            work.failed += verdict.decision is None
            work.not_kept += verdict.decision is not None and not kept_now and self._store is not None
            if verdict.usage is not None:
                work.usage += verdict.usage
            self._on_verdict()

    def _unknown(self) -> Iterator[AskedAttempt]:
        """Go through the file, plan every row, and yield what nobody has judged yet, each once."""
        digest = _FileDigest()
        reader = self._reader(digest)
        run = reader.stream.tells_of_tests
        self._of_own_run = reader.stream.run is not None
        if self._of_own_run:
            self._place = reader_named(reader.stream.run.reader).place
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

    def _planned(self, raw: RawRow, *, run: bool) -> tuple[_Planned | SkipReason, Sequence[JudgedPart]]:
        why = left_alone(raw, run=run)
        if why is not None:
            return why, ()
        name = raw.row.judge_name
        member = self._panel.of(name, only_allowed=run)
        if member is None:
            if is_empty(raw):
                return SkipReason.EMPTY, ()
            if not name:
                return SkipReason.NO_JUDGE, ()
            self._refused[name] += 1
            return SkipReason.NOT_ALLOWED, ()
        named, each_turn = None if self._panel.chosen else name, self._turns(member) != LAST
        if member.quick and self._options.workers is None and is_simple(raw, each_turn=each_turn, run=run):
            # The row is judged when it is written: that takes less than to look up what is known.
            if is_empty(raw):
                return SkipReason.EMPTY, ()
            self.work.wanted += 1
            self.work.asked += 1
            self._rows_of[member.digest] += 1
            return _Planned(named, Shape.ONE, ()), ()
        shape, parts = parts_of(raw, each_turn=each_turn, run=run)
        if not parts:
            return SkipReason.EMPTY, ()
        self._rows_of[member.digest] += 1
        return _Planned(named, shape, tuple((part.turn, member.name_of(part.attempt)) for part in parts)), parts

    def _turns(self, member: PanelMember) -> Turns:
        """Return which answers of a history are judged, and what they come to: what the judge asks for, or the user."""
        turns = self._options.turns
        if turns == LAST:
            return "last"
        # In the history of our own run every attempt was judged, and one that succeeded is enough.
        each = turns == EACH or self._of_own_run
        return "any" if each and member.turns == LAST else member.turns

    def _not_known(self, plan: _Planned, parts: Sequence[JudgedPart]) -> Iterator[AskedAttempt]:
        work = self.work
        for part, (_, name) in zip(parts, plan.parts, strict=True):
            work.wanted += 1
            if name in self._verdicts:
                work.repeated += 1
                continue
            known, half = None, len(name) // 2
            if self._store is not None:
                # A judge that is asked again is still opened here, before any process is forked.
                known = self._store.known(name[:half].hex(), name[half:])
            known = None if self._options.fresh else known
            self._verdicts[name] = known
            if known is not None:
                work.known += 1
            else:
                yield AskedAttempt(**asdict(part.attempt), judge_name=plan.judge_name, known_by=name)

    def _estimate(self, asked: AskedAttempt) -> None:
        """Add what a question would take of a model."""
        self.work.asked += 1
        member = self._panel.of(asked.judge_name)
        judges = [] if member is None else [part for part in every_part(member.judge) if part.waits]
        shown = sum(len(turn.content) for turn in asked.conversation) + len(asked.prompt) + len(asked.response or "")
        for judge in judges:
            if not list(judge.parts()):
                tokens = -(-(shown + len(judge.prompt or "")) // CHARACTERS_PER_TOKEN)
                model = _model_of(judge) or UNKNOWN_MODEL
                self.work.planned[model] = self.work.planned.get(model, Usage()) + Usage(1, tokens, ANSWER_TOKENS)

    # -- writing -------------------------------------------------------------------------------------------------

    def lines(self) -> Iterator[list[bytes]]:
        """Yield the rows with their new verdicts, as lines."""
        digest = _FileDigest()
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
        member = self._panel.of(plan.judge_name)
        if member is None or (plan.judge_name is not None and plan.judge_name != raw.row.judge_name):
            raise _changed(self.name)
        verdicts: tuple[tuple[int | None, Verdict], ...] = tuple(
            (turn, self._verdicts.get(name) or Verdict(None, error="not asked")) for turn, name in plan.parts
        )
        if not verdicts:
            # A judge that only looks for strings is asked now.
            verdict = verdict_of(member.judge, text_alone(raw))
            self.work.failed += verdict.decision is None
            self._on_verdict()
            verdicts = ((None, replace(verdict, at=self._now)),)
        success = success_of(plan.shape, verdicts, raw, self._turns(member))
        # The options that are written into the row: those given, else the model that was asked, if any.
        options: str | UnsetType | None = self._options.judge_options
        if options is None:
            options = next(filter(None, map(_model_of, every_part(member.judge))), None)
        if options is None and self._panel.chosen is None:
            options = UNSET
        new = NewVerdict(success, member.called, member.digest, plan.shape, verdicts, options)
        line = rewritten(raw, new)
        self._count(raw, new, line)
        return line

    def _count(self, raw: RawRow, new: NewVerdict, line: bytes) -> None:
        before = None if raw.row.success is UNSET else raw.row.success
        changes = self._changes
        changes.add(raw, new.success, judged=True)
        if changes.wants(before, new.success):
            place = self._place(self.name, raw.number)
            reason = mask_secrets(new.error if new.success is None else new.deciding.reason)
            own_id, prompt, response = excerpts(line)
            flip = RowFlip(place, own_id, OUTCOMES[before], OUTCOMES[new.success])
            changes.show(FlipTexts(flip, new.judge, reason, prompt, response))
        if new.failed:
            self._unjudged += 1
            self._errors[mask_secrets(new.error)] += 1

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
        members = {member.digest: member for member in self._panel.members if self._rows_of[member.digest]}
        return RejudgedFile(
            source=self._read[0],
            path=path,
            judges=tuple(
                JudgeOfRows(member.called, digest, member.judge.looks_for, self._rows_of[digest])
                for digest, member in members.items()
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

    def _reader(self, digest: _FileDigest) -> RawReader:
        return RawReader(open_stream(self._path, self.name, digest), max_line=self._options.max_line)


class _FileDigest(ContentHash):
    """What shows whether a file is still the one that was read before."""

    def __init__(self) -> None:
        self._hash = xxh3_128()

    def update(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        self._hash.update(data)

    def hexdigest(self) -> str:
        """Return what stands for all bytes so far."""
        return str(self._hash.hexdigest())


def _model_of(judge: Judge) -> str | None:
    """Return the model that a judge asks, or the options by which it finds one."""
    if not judge.waits:
        return None
    model = judge.parameters.get("judge_options") or judge.parameters.get("model")
    return model if isinstance(model, str) and model else None


def _changed(name: str) -> InputError:
    return InputError(f"{name}: changed while it was in use; nothing is written, start again")
