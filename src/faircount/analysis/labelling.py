"""Labelling a run entry by entry: which one comes next, what is asked of whom, and what the labels show so far.

An entry is drawn with a known chance, by what its label adds to the rate behind the verdicts, and shown without its
verdict and its target. Some entries are shown to a second person. All of that follows from the file of labels and the
run as it is: people can go on after any interruption, with another server, or two at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from faircount.analysis import browse, summary
from faircount.analysis.analyze import Folded
from faircount.analysis.browse import AttemptView
from faircount.analysis.correct.correct import correct
from faircount.analysis.correct.inputs import Quality, RunLabels
from faircount.analysis.evidence import lines_of
from faircount.analysis.grouping import find_families
from faircount.analysis.result_set import ResultSet
from faircount.analysis.words import WORDS
from faircount.core.errors import UsageError
from faircount.core.model import Estimate, JudgeCorrection, Outcome
from faircount.core.verdict import Decision
from faircount.io.lenient_json import BadLine, parse
from faircount.ledger import entry_list, lookup
from faircount.ledger.labels import entries_to_label, rows_beside_labels, rows_to_label
from faircount.readers.label_log import (
    Draw,
    DrawRecord,
    GivenLabel,
    LabelLog,
    LabelRecord,
    RetractionRecord,
    RowLabels,
    RowName,
)
from faircount.readers.rows import scalar_text
from faircount.stats import DrawnPart, draw_chances, label_sequence, labels_to_decide, shown_below, wilson

LEASE = 300.0
"""After so many seconds, an entry that was shown to somebody and not labelled is shown to the next one who asks."""
SECOND_OPINIONS = 0.1
"""The chance that somebody gets an entry that another person has labelled, if there is one."""


# -- the run --------------------------------------------------------------------------------------------------------


class RunFrame(Struct, frozen=True):
    """What there is to label in a run: its entries with a text, by verdict, each by the place of its first row."""

    successes: tuple[int, ...]
    failures: tuple[int, ...]
    total: int
    certain: int
    """Judged successes without a text: there is no judge who could have been wrong."""

    @property
    def sizes(self) -> tuple[int, int]:
        """How many there are of either verdict."""
        return len(self.successes), len(self.failures)


class RunToLabel(Struct, frozen=True):
    """A run, as the file of labels calls it."""

    name: str
    results: ResultSet
    frame: RunFrame


def names_in_labels(paths: Sequence[str]) -> list[str]:
    """Return what labels call files: their names without folders where these differ, else the paths."""
    names = [Path(path).name for path in paths]
    return names if len(set(names)) == len(names) else list(paths)


def run_frame(results: ResultSet) -> RunFrame:
    """Return what there is to label in a run; raise where that is nothing."""

    def question(folded: Folded) -> RunFrame:
        if folded.aim == "task":
            raise UsageError("a test run, not attacks")
        ledger = folded.ledger
        parts = [
            tuple(place or 0 for _, place in entries_to_label(ledger, verdict, "first_ord"))
            for verdict in (Outcome.SUCCESS, Outcome.FAILURE)
        ]
        if not any(parts):
            raise UsageError("nothing to label: no entry has both a verdict and a text answer")
        tally = summary.overall(ledger, results.options).tally
        return RunFrame(parts[0], parts[1], tally.total, tally.success - len(parts[0]))

    return results.ask(question)


def _entries_of(run: RunToLabel, draws: Sequence[Draw]) -> dict[int, tuple[int, bool]]:
    """Return the entry of each draw, and whether the judge calls it a success; what is no entry here is left out."""

    def question(folded: Folded) -> dict[int, tuple[int, bool]]:
        ledger = folded.ledger
        places = {draw.first.draw: ledger.ord(0, draw.first.rows[0][1]) for draw in draws if draw.first.rows}
        rows = {row.ord: row for row in rows_beside_labels(ledger, list(places.values()))} if places else {}
        entries = {line.key: line for line in entry_list.lines_of(ledger, list({row.entry for row in rows.values()}))}
        return {
            draw.first.draw: (entries[row.entry].ord, row.success)
            for draw in draws
            if draw.first.draw in places
            and (row := rows.get(places[draw.first.draw])) is not None
            and entries[row.entry].id == draw.first.entry
        }

    return run.results.ask(question)


def _rows_of(run: RunToLabel, place: int) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Return the id of an entry, and for each row that has a verdict, what labels call it and its line."""

    def question(folded: Folded) -> tuple[str, tuple[tuple[str, int], ...]]:
        ledger = folded.ledger
        (key,) = lookup.entries_of_rows(ledger, [place])
        (entry,) = entry_list.lines_of(ledger, [key])
        wanted = set(rows_to_label(ledger, key))
        rows = [row for row in lookup.rows_of(ledger, key) if row.ord in wanted]
        lines = lines_of(ledger, folded.read, rows, run.results.options.max_line)
        own = {row.ord: _own_id(lines[row.ord]) for row in rows}
        repeated = bool(lookup.rows_left_out(ledger, key))

        def name(row: lookup.EntryRow) -> str:
            """Return the id of a row if no other one has it; else its line names it."""
            own_id = own[row.ord]
            alone = bool(own_id) and not repeated and list(own.values()).count(own_id) == 1
            is_known = alone and lookup.entries_with_id(ledger, own_id) == [key]
            return own_id if is_known else f"{run.name}:{row.line}"

        return entry.id, tuple((name(row), row.line) for row in rows)

    return run.results.ask(question)


def _own_id(line: bytes | str) -> str:
    """Return the id that a row has; empty where it cannot be read back."""
    try:
        return "" if isinstance(line, str) else scalar_text(parse(line)[0].get("id")) or ""
    except BadLine:
        return ""


# -- what the labels show so far ------------------------------------------------------------------------------------


class RunLabelsSoFar(Struct, frozen=True):
    """What the labels of a run show so far.

    `rate` is the share of true successes among the entries of this run. There is none where entries were drawn from
    another state of the run, as `changed` says.
    """

    run: RunToLabel
    successes: DrawnPart
    failures: DrawnPart
    drawn: frozenset[int]
    """The entries that were drawn."""
    rate: Estimate | None
    changed: str = ""
    strangers: int = 0
    """Draws that fit no entry of the run."""

    @property
    def labelled(self) -> int:
        """Entries with a decided label."""
        return self.successes.labelled + self.failures.labelled

    @property
    def undecided(self) -> int:
        """Entries that were drawn and are not decided."""
        return self.successes.unknown + self.failures.unknown

    @property
    def left(self) -> int:
        """Entries that were not drawn."""
        return sum(self.run.frame.sizes) - len(self.drawn)

    def below(self, threshold: float) -> bool | None:
        """Return whether the rate is known to be below a threshold; None while it is not known."""
        return None if self.rate is None else shown_below(self.rate, threshold)

    def more_labels(self, threshold: float) -> int | None:
        """Return about how many more labels decide that."""
        if self.rate is None:
            return None
        frame = self.run.frame
        return labels_to_decide(
            self.successes, self.failures, threshold, total=frame.total, certain=frame.certain, level=self.rate.level
        )


def labels_so_far(run: RunToLabel, log: LabelLog) -> RunLabelsSoFar:
    """Return what the labels of a run show."""
    draws = [draw for draw in log.draws.values() if draw.first.file == run.name]
    entries = _entries_of(run, draws)
    counts = {True: [0, 0, 0], False: [0, 0, 0]}
    for draw in draws:
        if draw.first.draw not in entries:
            continue
        of_verdict = counts[entries[draw.first.draw][1]]
        of_verdict[0] += 1
        decision = decision_of(log, draw)
        of_verdict[1] += decision is Decision.HIT
        of_verdict[2] += decision is Decision.PASS
    sizes, strangers = run.frame.sizes, len(draws) - len(entries)
    drawn = frozenset(key for key, _ in entries.values())
    then = {draw.first.of for draw in draws} - {sizes}
    changed = ""
    if then or strangers:
        before = f"{sum(max(then)):,}" if then else "other"
        changed = (
            f"These labels were drawn from {before} judged entries, and the run has {sum(sizes):,} now: there is no "
            "interval for draws from another run."
        )
        return RunLabelsSoFar(run, DrawnPart(sizes[0]), DrawnPart(sizes[1]), drawn, None, changed, strangers)
    parts = [DrawnPart(size, *counts[verdict]) for size, verdict in zip(sizes, (True, False), strict=True)]
    rate = label_sequence(parts[0], parts[1], total=run.frame.total, certain=run.frame.certain)
    return RunLabelsSoFar(run, parts[0], parts[1], drawn, rate)


def decision_of(log: LabelLog, draw: Draw) -> Decision | None:
    """Return what people say of an entry: a success if any row is one, and open as long as any row is."""
    said = [log.row(name).decision for name in draw.rows]
    if None in said or not said:
        return None
    return Decision.HIT if Decision.HIT in said else Decision.PASS


def run_labels(run: RunToLabel, path: str, log: LabelLog) -> RunLabels:
    """Return the labels of a run as corrections take them."""
    lines = {record.line: (record.file, record.id) for record in log.labels.values() if record.file == run.name}
    decided = ((line, log.row(name).decision) for line, name in lines.items())
    said = {line: None if decision is None else decision is Decision.HIT for line, decision in decided}
    return RunLabels({path: said}, by_verdict=True)


def corrected_by(run: RunToLabel, labels: RunLabels, path: str) -> JudgeCorrection:
    """Return the corrected rate as `results analyze --judge-quality` gives it, with the labels of now."""

    def question(folded: Folded) -> JudgeCorrection:
        options = run.results.options
        counts = summary.overall(folded.ledger, options)
        grouping = find_families(folded.ledger, counts, options.cluster, options.level, WORDS[folded.aim])
        quality = Quality(path, sample=labels)
        known, _ = correct(folded.ledger, counts, quality, level=options.level, family=grouping.column)
        return known.correction

    return run.results.ask(question)


class SecondOpinions(Struct, frozen=True):
    """Rows that several people labelled, and on how many they say the same."""

    rows: int
    alike: Estimate
    open: int
    """Rows on which they differ and nobody has decided."""


def agreement_of_labels(log: LabelLog) -> SecondOpinions:
    """Return how far people agree who labelled the same rows."""
    several = [row for _, row in log.rows() if len(row.by_author) > 1]
    alike = sum(len({record.label for record in row.by_author.values()}) == 1 for row in several)
    return SecondOpinions(len(several), wilson(alike, len(several), unit="row"), sum(row.differ for row in several))


# -- who labels what ------------------------------------------------------------------------------------------------


class RowToLabel(Struct, frozen=True):
    """A row of a drawn entry that somebody is asked about; `at` counts the rows of the entry from 0."""

    run: RunToLabel
    draw: Draw
    at: int

    @property
    def name(self) -> RowName:
        """What names the row."""
        return self.draw.rows[self.at]

    @property
    def line(self) -> int:
        """The line of the row."""
        return self.draw.first.rows[self.at][1]

    def attempt(self) -> AttemptView:
        """Return the row with its texts; it has the verdict, too, which is not to be shown."""
        view = browse.entry_at(self.run.results, self.line)
        return next(attempt for attempt in view.attempts if attempt.line == self.line)


class LabelQueue:
    """What comes next, for everybody who labels some runs."""

    def __init__(
        self,
        runs: Sequence[RunToLabel],
        *,
        second_opinions: float = SECOND_OPINIONS,
        generator: random.Random | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._runs = {run.name: run for run in runs}
        self._second_opinions = second_opinions
        self._generator = generator or random.SystemRandom()
        self._clock = clock

    # -- what is open --------------------------------------------------------------------------------------------

    def item(self, log: LabelLog, draw: int, at: int) -> RowToLabel | None:
        """Return a row of a draw by its numbers."""
        found = log.draws.get(draw)
        if found is None or found.first.file not in self._runs or not 0 <= at < len(found.rows):
            return None
        return RowToLabel(self._runs[found.first.file], found, at)

    def open_for(self, log: LabelLog, author: str) -> RowToLabel | None:
        """Return what somebody was shown and has not labelled: the oldest first, which an undo brings back."""
        shown = [draw for draw in log.draws.values() if author in draw.shown and draw.first.file in self._runs]
        for draw in sorted(shown, key=lambda draw: draw.shown[author].number):
            for at, name in enumerate(draw.rows):
                if _lacks_label(log.row(name), author, again=draw.shown[author].again):
                    return self.item(log, draw.first.draw, at)
        return None

    def undecided(self, log: LabelLog) -> list[RowToLabel]:
        """Return the rows on which people differ or cannot tell, for somebody to decide."""
        found = []
        for draw in log.draws.values():
            for at, name in enumerate(draw.rows):
                row, item = log.row(name), self.item(log, draw.first.draw, at)
                if item is not None and row.by_author and row.adjudication is None and row.decision is None:
                    found.append(item)
        return found

    # -- what is added -------------------------------------------------------------------------------------------

    def show_next(self, log: LabelLog, author: str) -> Iterator[DrawRecord]:
        """Yield the record of what is shown to somebody next; nothing where something is open, or nothing is left."""
        if self.open_for(log, author) is None:
            record = self._left_behind(log, author) or self._labelled_by_others(log, author) or self._drawn(log, author)
            if record is None:
                record = self._labelled_by_others(log, author, surely=self._second_opinions > 0)
            if record is not None:
                yield record

    def _left_behind(self, log: LabelLog, author: str) -> DrawRecord | None:
        """Return an entry that was shown to somebody else some time ago and never labelled."""
        for draw in log.draws.values():
            if draw.first.file in self._runs and any(not log.row(name).by_author for name in draw.rows):
                latest = max(record.at for record in draw.shown.values())
                if (self._clock() - datetime.fromisoformat(latest)).total_seconds() > LEASE:
                    return self._shown(log, draw.first, author)
        return None

    def _labelled_by_others(self, log: LabelLog, author: str, *, surely: bool = False) -> DrawRecord | None:
        """Return an entry that one other person has labelled, now and then: its label is to be checked."""
        if not surely and self._generator.random() >= self._second_opinions:
            return None
        found = []
        for draw in log.draws.values():
            rows = [log.row(name) for name in draw.rows]
            by = {one for row in rows for one in row.by_author}
            adjudicated = any(row.adjudication is not None for row in rows)
            shown_twice = any(record.again for record in draw.shown.values())
            once = len(by) == 1 and author not in by and all(row.by_author for row in rows)
            if draw.first.file in self._runs and once and not adjudicated and not shown_twice:
                found.append(draw)
        return self._shown(log, self._generator.choice(found).first, author, again=True) if found else None

    def _drawn(self, log: LabelLog, author: str) -> DrawRecord | None:
        """Draw an entry: of the run whose rate is least known, with the verdict that is behind its allocation."""
        states = [labels_so_far(run, log) for run in self._runs.values()]
        states = [state for state in states if state.rate is not None and state.left]
        if not states:
            return None
        widest = max(map(_width, states))
        state = self._generator.choice([state for state in states if _width(state) == widest])
        run, frame = state.run, state.run.frame
        chances = draw_chances(state.successes, state.failures)
        at = 0 if self._generator.random() < chances[0] else 1
        left = [key for key in (frame.successes, frame.failures)[at] if key not in state.drawn]
        entry, rows = _rows_of(run, self._generator.choice(left))
        return DrawRecord(
            number=log.records + 1,
            draw=max(log.draws, default=0) + 1,
            file=run.name,
            entry=entry,
            rows=rows,
            probability=chances[at] / len(left),
            of=frame.sizes,
            author=author,
            at=self._now(),
        )

    def _shown(self, log: LabelLog, first: DrawRecord, author: str, *, again: bool = False) -> DrawRecord:
        return DrawRecord(
            number=log.records + 1,
            draw=first.draw,
            file=first.file,
            entry=first.entry,
            rows=first.rows,
            probability=first.probability,
            of=first.of,
            author=author,
            at=self._now(),
            again=again,
        )

    def _now(self) -> str:
        return self._clock().isoformat(timespec="milliseconds")

    def label(
        self,
        log: LabelLog,
        item: RowToLabel,
        author: str,
        label: GivenLabel,
        note: str = "",
        *,
        adjudicates: bool = False,
    ) -> LabelRecord | None:
        """Return the record of a label; None where the row was labelled meanwhile, or nobody asked for it."""
        row = log.row(item.name)
        if adjudicates:
            wanted = row.decision is None and row.adjudication is None and bool(row.by_author)
        else:
            shown = item.draw.shown.get(author)
            wanted = shown is not None and _lacks_label(row, author, again=shown.again)
        if not wanted:
            return None
        return LabelRecord(
            number=log.records + 1,
            id=item.name[1],
            file=item.name[0],
            label=label,
            note=note,
            author=author,
            at=self._now(),
            draw=item.draw.first.draw,
            line=item.line,
            probability=item.draw.first.probability,
            adjudicates=adjudicates,
        )

    def retraction(self, log: LabelLog, author: str) -> RetractionRecord | None:
        """Return the record by which somebody takes the last label back; None where there is none."""
        own = [number for number, record in log.labels.items() if record.author == author and record.file in self._runs]
        if not own:
            return None
        return RetractionRecord(number=log.records + 1, retracts=max(own), author=author, at=self._now())


def _lacks_label(row: RowLabels, author: str, *, again: bool) -> bool:
    return author not in row.by_author if again else not row.by_author


def _width(state: RunLabelsSoFar) -> float:
    rate = state.rate
    return 0.0 if rate is None or rate.low is None or rate.high is None else rate.high - rate.low


def labels_by_author(records: Iterable[LabelRecord]) -> dict[str, int]:
    """Count the labels of everybody."""
    found: dict[str, int] = {}
    for record in records:
        found[record.author] = found.get(record.author, 0) + 1
    return found
