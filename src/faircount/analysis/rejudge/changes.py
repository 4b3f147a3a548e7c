"""What new verdicts change: rows that flipped, each way, and the rate over entries before and after.

An entry succeeded if any of its rows did. Every entry that has a verdict before and after counts, with what was left
alone as it was; one that is unjudged on either side is left out of both rates.
"""

from __future__ import annotations

from collections import Counter

from msgspec import UNSET, Struct, field

from faircount.core.model import Estimate, Outcome
from faircount.core.outcomes import state
from faircount.ledger.schema import RowMark
from faircount.readers.raw_rows import RawRow, entry_of, family_of

_SUCCEEDED, _TOLD = 1, 2
_BITS = 2
_MASK = (1 << _BITS) - 1
_ORDER = (Outcome.FAILURE, Outcome.UNJUDGED, Outcome.SUCCESS)
OUTCOMES: dict[bool | None, Outcome] = {True: Outcome.SUCCESS, False: Outcome.FAILURE, None: Outcome.UNJUDGED}


class Flip(Struct, frozen=True):
    """A row whose verdict changed."""

    place: str
    id: str | None
    before: Outcome
    after: Outcome


class FlipTexts(Struct, frozen=True):
    """A flip with its texts as they are now, and what the judge said: for people, never in a document."""

    flip: Flip
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


class _Entry(Struct):
    """An entry while rows are read: two bits of what was before, two of what is after, and its family."""

    bits: int = 0
    family: str | None = None
    has_standard: bool = False


class Changes(Struct):
    """Counts rows by their verdicts before and after, and folds them into entries."""

    examples: int
    rows: Counter[tuple[Outcome, Outcome]] = field(default_factory=Counter)
    shown: dict[tuple[Outcome, Outcome], list[FlipTexts]] = field(default_factory=dict)
    _entries: dict[str, _Entry] = field(default_factory=dict)
    _by_id: dict[str, tuple[str, _Entry]] = field(default_factory=dict)

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
            entry = self._by_id.setdefault(f"{origin}\n{row.id}", (f"{origin}\n{parent}", _Entry()))[1]
        else:
            entry = self._entries.setdefault(f"{origin}\n{parent}", _Entry())
        self._tell(entry, raw, before, after, is_standard=mark == RowMark.STANDARD)

    def _tell(self, entry: _Entry, raw: RawRow, before: bool | None, after: bool | None, *, is_standard: bool) -> None:
        row = raw.row
        error, blocked = row.error is not None, row.guardrail is True
        entry.bits |= _bits(state(success=before, error=error, guardrail=blocked)) << _BITS
        entry.bits |= _bits(state(success=after, error=error, guardrail=blocked))
        if entry.family is None or (is_standard and not entry.has_standard):
            entry.family = family_of(row)
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


def _rates(pairs: list[_Entry], left_out: int, level: float) -> RateChange:
    from faircount.stats import Design

    won = [(entry.bits >> _BITS & _SUCCEEDED, entry.bits & _SUCCEEDED) for entry in pairs]
    families = _families(pairs)
    design = Design(families=families is not None, level=level)
    members = [[won[place] for place in family] for family in families or [list(range(len(pairs)))]]
    sizes = [len(family) for family in members]
    gains, losses = ([family.count(change) for family in members] for change in ((0, 1), (1, 0)))
    before, after = ([sum(pair[side] for pair in family) for family in members] for side in (0, 1))
    difference = design.paired(gains, losses, sizes)
    return RateChange(
        entries=len(pairs),
        left_out=left_out,
        families=None if families is None else len(families),
        before=design.rate(before, sizes).estimate,
        after=design.rate(after, sizes).estimate,
        difference=difference.estimate,
        gained=sum(gains),
        lost=sum(losses),
        p=difference.p,
    )


def _families(pairs: list[_Entry]) -> list[list[int]] | None:
    """Return the places of entries by family, or None where nothing tells families or all entries are their own."""
    if any(entry.family is None for entry in pairs):
        return None
    found: dict[str, list[int]] = {}
    for place, entry in enumerate(pairs):
        found.setdefault(str(entry.family), []).append(place)
    return list(found.values()) if 1 < len(found) < len(pairs) else None
