"""Labels of rows of the run, counted by entry: what people said of entries that the judge decided.

An entry is a true success if people call any of its rows one, and none if they call all of its rows failures. It counts
as labelled only if every row of it that has a verdict has a label: to count those alone whose labels happen to be
successes would make the rate too high.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from faircount.analysis import fields
from faircount.analysis.correction.inputs import RunLabels
from faircount.findings import counted
from faircount.ledger.labels import labels_by_value, rows_beside_labels
from faircount.ledger.store import LedgerView
from faircount.model import Tally
from faircount.stats.judge_error import LabelledPart
from faircount.text import clip, visible

_EXPECTED_LABELS = 5
"""Where so many labels would fall on a group by chance and none does, the sample is none of all entries."""
_GROUPS_NAMED = 3


class LabelledEntry(Struct, frozen=True):
    """An entry that people labelled: its key, whether the judge calls it a success, and whether people do.

    `attacks` says of each dynamic attack on it, by its number, what the judge and what people say of that alone.
    """

    key: int
    success: bool
    label: bool
    attacks: tuple[tuple[int, bool, bool], ...] = ()


class Sampled(Struct, frozen=True):
    """Entries with a verdict and a label, by verdict; `left_out` are the labels of no use."""

    successes: LabelledPart
    failures: LabelledPart
    found: tuple[LabelledEntry, ...]
    left_out: int
    incomplete: int
    """Entries of which only some rows are labelled."""
    by_verdict: bool = False
    """Whether they are known to be drawn by verdict."""

    @property
    def entries(self) -> tuple[int, ...]:
        """The keys of the labelled entries."""
        return tuple(entry.key for entry in self.found)

    @property
    def labels(self) -> int:
        """Labelled entries."""
        return self.successes.labelled + self.failures.labelled

    @property
    def hits(self) -> int:
        """Entries that people call a success."""
        return self.successes.true + self.failures.true


class _Entry(Struct):
    """An entry of which a row is labelled: its verdict, and what people said of each row that has one."""

    success: bool
    said: list[tuple[int | None, bool, bool | None]]
    """Of each row: its dynamic attack, whether the judge calls it a success, and what people say."""
    labelled: int = 0

    @property
    def label(self) -> bool | None:
        labels = [label for _, _, label in self.said]
        return None if None in labels or not labels else any(labels)

    def told(self, key: int) -> LabelledEntry:
        attacks: dict[int, tuple[bool, bool]] = {}
        for attack, won, label in self.said:
            if attack is not None:
                before = attacks.get(attack, (False, False))
                attacks[attack] = (before[0] or won, before[1] or bool(label))
        return LabelledEntry(key, self.success, bool(self.label), tuple((at, *told) for at, told in attacks.items()))


def sampled_entries(ledger: LedgerView, tally: Tally, given: RunLabels) -> Sampled:
    """Count the labelled entries by verdict."""
    labels = {
        ledger.ord(source, line): label
        for source, path in enumerate(ledger.paths)
        for line, label in given.rows.get(path, {}).items()
    }
    entries: dict[int, _Entry] = {}
    for row in rows_beside_labels(ledger, list(labels)) if labels else ():
        entry = entries.setdefault(row.entry, _Entry(row.success, []))
        entry.labelled += row.ord in labels
        if row.won is not None:
            entry.said.append((row.attack, row.won, labels.get(row.ord)))
    usable = {key: entry for key, entry in entries.items() if entry.label is not None}
    used = sum(entry.labelled for entry in usable.values())
    incomplete = sum(
        entry.label is None and any(label is not None for _, _, label in entry.said) for entry in entries.values()
    )
    found = tuple(entry.told(key) for key, entry in usable.items())
    return Sampled(
        *labelled_parts(found, tally), found, len(labels) - used + given.unused, incomplete, given.by_verdict
    )


def labelled_parts(found: Iterable[LabelledEntry], tally: Tally) -> tuple[LabelledPart, LabelledPart]:
    """Count labelled entries by verdict, among so many judged ones."""
    labels: dict[bool, list[bool]] = {True: [], False: []}
    for entry in found:
        labels[entry.success].append(entry.label)
    successes, failures = (
        LabelledPart(judged, len(labels[success]), sum(labels[success]))
        for judged, success in ((tally.success, True), (tally.failure, False))
    )
    return successes, failures


def groups_without_labels(ledger: LedgerView, sampled: Sampled) -> str:
    """Name large groups of entries on which no label falls; empty where the labels are spread over all."""
    found = list(_unlabelled_groups(ledger, sampled))
    more = len(found) - _GROUPS_NAMED
    return "; ".join(found[:_GROUPS_NAMED]) + (f"; and {more} more" if more > 0 else "")


def _unlabelled_groups(ledger: LedgerView, sampled: Sampled) -> Iterator[str]:
    judged = sampled.successes.judged + sampled.failures.judged
    for field in ledger.fields.first:
        if field not in ledger.facets or not judged:
            continue
        column = fields.column_of(ledger, field)
        for value, entries, labelled in labels_by_value(ledger, column, sampled.entries):
            if not labelled and sampled.labels * entries / judged >= _EXPECTED_LABELS:
                name = clip(visible(value or "none"), 40)
                yield f"{counted(entries, 'entry', 'entries')} with {field} {name}"
