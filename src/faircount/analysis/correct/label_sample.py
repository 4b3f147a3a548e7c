"""Labels of rows of the run, counted by entry: what people said of entries that the judge decided.

An entry is a true success if people call any of its rows one, and none if they call all of its rows failures. It counts
as labelled only if every row of it that has a verdict has a label: to count those alone whose labels happen to be
successes would make the rate too high.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from faircount.analysis import fields
from faircount.analysis.correct.inputs import RunLabels
from faircount.core.findings import counted
from faircount.core.model import Tally
from faircount.core.text import clip, visible
from faircount.ledger import tallies
from faircount.ledger.labels import (
    FamilyKey,
    families_of,
    labels_by_value,
    rows_beside_labels,
    values_of,
    verdicts_of_families,
)
from faircount.ledger.store import LedgerView
from faircount.stats import Design, LabelledPart, VerdictCounts

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


class LabelSample(Struct, frozen=True):
    """What people labelled of a run: the entries with a verdict and a label; `left_out` are the labels of no use."""

    entries: tuple[LabelledEntry, ...]
    left_out: int
    incomplete: int
    """Entries of which only some rows are labelled."""
    by_verdict: bool
    """Whether they are known to be drawn by verdict."""


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

    def as_labelled(self, key: int) -> LabelledEntry:
        attacks: dict[int, tuple[bool, bool]] = {}
        for attack, won, label in self.said:
            if attack is not None:
                before = attacks.get(attack, (False, False))
                attacks[attack] = (before[0] or won, before[1] or bool(label))
        return LabelledEntry(key, self.success, bool(self.label), tuple((at, *said) for at, said in attacks.items()))


def read_sample(ledger: LedgerView, given: RunLabels) -> LabelSample:
    """Find the entries that people labelled."""
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
    found = tuple(entry.as_labelled(key) for key, entry in usable.items())
    return LabelSample(found, len(labels) - used + given.unused, incomplete, given.by_verdict)


# -- counted ----------------------------------------------------------------------------------------------------


def verdict_counts(
    tally: Tally, labelled: Iterable[LabelledEntry] = (), families: Sequence[VerdictCounts] = ()
) -> VerdictCounts:
    """Count some entries by verdict, and those of them that are labelled."""
    labels: dict[bool, list[bool]] = {True: [], False: []}
    for entry in labelled:
        labels[entry.success].append(entry.label)
    successes, failures = (
        LabelledPart(judged, len(labels[success]), sum(labels[success]))
        for judged, success in ((tally.success, True), (tally.failure, False))
    )
    return VerdictCounts(tally.total, successes, failures, families=tuple(families))


def labelled_by_value(
    ledger: LedgerView, column: str, labelled: Sequence[LabelledEntry]
) -> dict[str | None, list[LabelledEntry]]:
    """Return the labelled entries by their values of a column of `entry`."""
    if not labelled:
        return {}
    numbers = values_of(ledger, [entry.key for entry in labelled], column)
    values = {key: tallies.text_of(ledger, column, number) for key, number in numbers.items()}
    by_value: dict[str | None, list[LabelledEntry]] = defaultdict(list)
    for entry in labelled:
        by_value[values[entry.key]].append(entry)
    return by_value


def families_by_value(
    ledger: LedgerView, family: str | None, column: str, labelled: Sequence[LabelledEntry]
) -> dict[str | None, list[VerdictCounts]]:
    """Count the families among the entries of each value of a column of `entry`; those that are alike are one record.

    `family` is the column that says what family an entry belongs to; without it there is none.
    """
    if family is None:
        return {}
    found: dict[str | None, list[VerdictCounts]] = defaultdict(list)
    if not labelled:
        for (value,), kinds in tallies.families_by(ledger, family, column).items():
            found[tallies.text_of(ledger, column, value)] += [
                VerdictCounts(
                    kind.total,
                    LabelledPart(kind.success, 0, 0),
                    LabelledPart(kind.judged - kind.success, 0, 0),
                    kind.times,
                )
                for kind in kinds
            ]
        return found
    keys = [entry.key for entry in labelled]
    kin, values = families_of(ledger, keys, family), values_of(ledger, keys, column)
    labels: dict[tuple[FamilyKey, int | None], dict[bool, list[bool]]] = defaultdict(lambda: {True: [], False: []})
    for entry in labelled:
        labels[kin[entry.key], values[entry.key]][entry.success].append(entry.label)
    nothing: dict[bool, list[bool]] = {True: [], False: []}
    for alike in verdicts_of_families(ledger, family, column, keys):
        said = labels.get((alike.kin, alike.facet), nothing)
        successes, failures = (
            LabelledPart(judged, len(said[verdict]), sum(said[verdict]))
            for judged, verdict in ((alike.successes, True), (alike.failures, False))
        )
        value = tallies.text_of(ledger, column, alike.facet)
        found[value].append(VerdictCounts(alike.total, successes, failures, alike.times))
    return found


def respected(families: Sequence[VerdictCounts]) -> Sequence[VerdictCounts]:
    """Return the families of a group if there are several, and one of several entries; else entries are independent."""
    sizes, times = [family.total for family in families], [family.times for family in families]
    return families if Design(families=True).respects(sizes, times) else ()


def groups_without_labels(ledger: LedgerView, counts: VerdictCounts, labelled: Sequence[LabelledEntry]) -> str:
    """Name large groups of entries on which no label falls; empty where the labels are spread over all."""
    found = list(_unlabelled_groups(ledger, counts, labelled))
    more = len(found) - _GROUPS_NAMED
    return "; ".join(found[:_GROUPS_NAMED]) + (f"; and {more} more" if more > 0 else "")


def _unlabelled_groups(ledger: LedgerView, counts: VerdictCounts, labelled: Sequence[LabelledEntry]) -> Iterator[str]:
    keys = [entry.key for entry in labelled]
    for field in ledger.fields.first:
        if field not in ledger.facets or not counts.judged:
            continue
        column = fields.column_of(ledger, field)
        for value, entries, labels in labels_by_value(ledger, column, keys):
            if not labels and counts.labelled * entries / counts.judged >= _EXPECTED_LABELS:
                name = clip(visible(value or "none"), 40)
                yield f"{counted(entries, 'entry', 'entries')} with {field} {name}"
