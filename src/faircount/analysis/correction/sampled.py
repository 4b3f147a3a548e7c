"""Labels of rows of the run, counted by entry: what people said of entries that the judge decided.

An entry is a true success if people call any of its rows one, and none if they call all of its rows failures. It counts
as labelled only if every row of it that has a verdict has a label: to count those alone whose labels happen to be
successes would make the rate too high.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from faircount.analysis import fields
from faircount.analysis.correction.given import RunLabels
from faircount.findings import counted
from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.ledger.store import LINE_BITS, Ledger
from faircount.ledger.tallies import text_of
from faircount.model import Outcome, Tally
from faircount.reading.spikee import NINE_FIELDS
from faircount.stats.judge_error import LabelledPart
from faircount.text import clip, visible

_SUCCESS, _FAILURE = OUTCOME_NUMBER[Outcome.SUCCESS], OUTCOME_NUMBER[Outcome.FAILURE]
_DECIDED = (_SUCCESS, _FAILURE)
_EXPECTED_LABELS = 5
"""Where so many labels would fall on a group by chance and none does, the sample is none of all entries."""
_GROUPS_NAMED = 3

_ROWS_OF_LABELLED = f"""
SELECT t.ord, t.entry_key, t.state, e.outcome
FROM told AS t
INNER JOIN entry AS e ON t.entry_key = e.entry_key
WHERE t.entry_key IN (SELECT entry_key FROM told WHERE ord IN (SELECT UNNEST(CAST(? AS BIGINT[]))))
    AND e.outcome IN ({_SUCCESS}, {_FAILURE})
ORDER BY t.ord
"""


class Sampled(Struct, frozen=True):
    """Entries with a verdict and a label, by verdict; `entries` are their keys, `left_out` the labels of no use."""

    successes: LabelledPart
    failures: LabelledPart
    entries: tuple[int, ...]
    left_out: int
    incomplete: int
    """Entries of which only some rows are labelled."""
    by_verdict: bool = False
    """Whether they are known to be drawn by verdict."""

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
    said: list[bool | None]
    labelled: int = 0

    @property
    def label(self) -> bool | None:
        return None if None in self.said or not self.said else any(self.said)


def sampled_entries(ledger: Ledger, tally: Tally, given: RunLabels) -> Sampled:
    """Count the labelled entries by verdict."""
    labels = {
        source << LINE_BITS | line: label
        for source, path in enumerate(ledger.paths)
        for line, label in given.rows.get(path, {}).items()
    }
    entries: dict[int, _Entry] = {}
    for ord_, key, state, outcome in ledger.query(_ROWS_OF_LABELLED, [list(labels)]) if labels else ():
        entry = entries.setdefault(key, _Entry(outcome == _SUCCESS, []))
        entry.labelled += ord_ in labels
        if state in _DECIDED:
            entry.said.append(labels.get(ord_))
    usable = {key: entry for key, entry in entries.items() if entry.label is not None}
    used = sum(entry.labelled for entry in usable.values())
    incomplete = sum(entry.label is None and any(said is not None for said in entry.said) for entry in entries.values())
    parts = [
        LabelledPart(judged, len(found), sum(bool(entry.label) for entry in found))
        for judged, success in ((tally.success, True), (tally.failure, False))
        for found in [[entry for entry in usable.values() if entry.success is success]]
    ]
    return Sampled(parts[0], parts[1], tuple(usable), len(labels) - used + given.unused, incomplete, given.by_verdict)


def groups_without_labels(ledger: Ledger, sampled: Sampled) -> str:
    """Name large groups of entries on which no label falls; empty where the labels are spread over all."""
    found = list(_unlabelled_groups(ledger, sampled))
    more = len(found) - _GROUPS_NAMED
    return "; ".join(found[:_GROUPS_NAMED]) + (f"; and {more} more" if more > 0 else "")


def _unlabelled_groups(ledger: Ledger, sampled: Sampled) -> Iterator[str]:
    judged = sampled.successes.judged + sampled.failures.judged
    for field in NINE_FIELDS:
        if field not in ledger.facets or not judged:
            continue
        column = fields.column_of(ledger, field)
        groups = ledger.query(
            f"SELECT {column}, COUNT(*), COUNT(CASE WHEN entry_key IN (SELECT UNNEST(CAST(? AS BIGINT[]))) THEN 1 END)"
            f" FROM entry WHERE outcome IN ({_SUCCESS}, {_FAILURE}) GROUP BY 1 ORDER BY 2 DESC, 1",
            [list(sampled.entries)],
        )
        for value, entries, labelled in groups:
            if not labelled and sampled.labels * entries / judged >= _EXPECTED_LABELS:
                name = clip(visible(text_of(ledger, column, value) or "none"), 40)
                yield f"{counted(entries, 'entry', 'entries')} with {field} {name}"
