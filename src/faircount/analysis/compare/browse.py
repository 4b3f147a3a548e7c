"""A comparison to look through: its pairs of entries by how they ended, what narrows them down, and what is unpaired.

What the page in the browser asks of a comparison. It holds numbers alone, an element for each pair in the order of the
baseline, so that it outlives the ledgers; texts are asked of the results, by the lines that are told here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.analyze import Folded
from faircount.analysis.browse import AttemptView, EntryPreview, EntryView, GivenVerdict, ShownText
from faircount.analysis.compare import figures, pairing
from faircount.analysis.compare.compare import ComparedSides, JoinedFiles, compare_open
from faircount.analysis.compare.model import Comparison
from faircount.analysis.compare.pairing import Side
from faircount.analysis.evidence import excerpts, lines_of
from faircount.analysis.options import CompareOptions
from faircount.analysis.result_set import ResultSet, ask_together
from faircount.core.model import Outcome
from faircount.ledger import entry_list, lookup
from faircount.ledger.lookup import lacks_objectives
from faircount.ledger.row_filter import ChosenRow
from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.ledger.store import LINE_BITS
from faircount.readers.loading import refuse_evidence_alone

UNDECIDED = 4
CELLS = {"both": 3, "only_a": figures.ONLY_A, "only_b": figures.ONLY_B, "neither": 0, "undecided": UNDECIDED}
"""How the entries of a pair ended: who succeeded, or that one of them has no answer that was judged."""
DECIDED = ("both", "only_a", "only_b", "neither")
MISSING_RUN = -1
_OUTCOMES = tuple(Outcome)

Values = tuple[Any, Mapping[int, str | None]]
"""The value of each pair as a number, -1 where the files tell different ones, and the text of each number."""


class PairList(Struct, frozen=True):
    """The entries that two files share, and those of either alone, by the lines of their first rows."""

    cells: Any
    lines: tuple[Any, Any]
    ids: tuple[str, ...]
    values: Mapping[str, Values]
    in_common: Mapping[str, tuple[Any, ...]]
    """The pairs of each group of flips, by the name of the cell, and last those that are in no cause."""
    alone: tuple[Mapping[str, Any], Mapping[str, Any]]
    """The lines of entries that only one of the files has, by the reason."""

    def __len__(self) -> int:
        return len(self.cells)

    def place(self, line: int, side: int = 1) -> int | None:
        """Return the pair whose entry begins on a line of one file."""
        import numpy as np

        found = np.flatnonzero(self.lines[side] == line)
        return int(found[0]) if len(found) else None

    def chosen(
        self,
        cells: Collection[str] = (),
        values: Mapping[str, Collection[str | None]] | None = None,
        cause: tuple[str, int] | None = None,
        lines: Any = None,
    ) -> Any:
        """Return for each pair whether it is wanted; `lines` are those that its entry of the second file may have."""
        import numpy as np

        wanted = np.ones(len(self), bool)
        if cells:
            wanted &= np.isin(self.cells, [CELLS[cell] for cell in cells if cell in CELLS])
        for field, texts in (values or {}).items():
            codes, known = self.values.get(field, (np.full(len(self), -1), {}))
            wanted &= np.isin(codes, [number for number, text in known.items() if text in texts])
        if cause is not None:
            found = self.in_common.get(cause[0], ())
            among = np.zeros(len(self), bool)
            among[found[cause[1]] if cause[1] < len(found) else []] = True
            wanted &= among
        if lines is not None:
            wanted &= np.isin(self.lines[1], lines)
        return wanted

    def counts(self, wanted: Any) -> dict[str, int]:
        """Return how many of the wanted pairs ended in each way."""
        import numpy as np

        found = np.bincount(self.cells[wanted], minlength=UNDECIDED + 1).tolist()
        return {name: found[cell] for name, cell in CELLS.items()}

    def by_value(self, field: str, wanted: Any) -> list[tuple[str | None, int]]:
        """Return the values of a field among the wanted pairs with how many have them, the most frequent first."""
        import numpy as np

        codes, texts = self.values[field]
        numbers, counts = np.unique(codes[wanted & (codes >= 0)], return_counts=True)
        found = zip(numbers.tolist(), counts.tolist(), strict=True)
        return [(texts[number], count) for number, count in sorted(found, key=lambda item: -item[1])]


class RunGrid(Struct, frozen=True):
    """Every entry of the baseline in every run: its outcome as a number, and its line; -1 where a run has it not."""

    ids: tuple[str, ...]
    outcomes: Any
    lines: Any

    def differing(self) -> tuple[Any, list[tuple[tuple[int, ...], int]]]:
        """Return the entries that succeeded in one run and were answered otherwise in another, and their kinds.

        Entries that succeeded in the same runs are one kind, and follow one another, the most frequent kind first; of
        each kind it is told which runs, and how many entries.
        """
        import numpy as np

        won = self.outcomes == OUTCOME_NUMBER[Outcome.SUCCESS]
        lost = np.isin(self.outcomes, [OUTCOME_NUMBER[one] for one in pairing.ANSWERS]) & ~won
        rows = np.flatnonzero(won.any(axis=1) & lost.any(axis=1))
        patterns, kind, sizes = np.unique(won[rows], axis=0, return_inverse=True, return_counts=True)
        kind = kind.reshape(-1)
        order = np.lexsort((np.arange(len(sizes)), -sizes))
        rank = np.empty(len(sizes), np.int64)
        rank[order] = np.arange(len(sizes))
        kinds = [(tuple(np.flatnonzero(patterns[one]).tolist()), int(sizes[one])) for one in order]
        return rows[np.lexsort((rows, rank[kind]))], kinds

    def outcome(self, row: int, run: int) -> Outcome | None:
        number = int(self.outcomes[row, run])
        return None if number == MISSING_RUN else _OUTCOMES[number]


class OpenComparison(Struct, frozen=True):
    """A comparison and the entries behind it: a list for each pair of files, and of several runs all beside another."""

    comparison: Comparison
    lists: tuple[PairList, ...]
    grid: RunGrid | None = None


def open_comparison(results: Sequence[ResultSet], options: CompareOptions) -> OpenComparison:
    """Compare sets of one file each, the first of them the baseline, see `compare_files`."""
    quality = None
    if options.judge_quality is not None:
        from faircount.analysis.correct.inputs import read_quality

        quality = read_quality(options.judge_quality, [one.files[0] for one in results], options.max_line)

    def question(folded: Sequence[Any]) -> OpenComparison:
        for one in folded:
            refuse_evidence_alone(one.sources)
        found = compare_open([Side(one) for one in folded], options, quality)
        lists = tuple(_list(found, joined, options) for joined in found.joined)
        return OpenComparison(found.comparison, lists, _grid(found) if len(results) > 2 else None)

    return ask_together(results, question)


def needs_rows(results: ResultSet) -> bool:
    """Return whether a set must know its rows to be compared: what is cached of it does not say what attacks want."""
    return results.ask(lambda folded: lacks_objectives(folded.ledger))


def _list(found: ComparedSides, joined: JoinedFiles, options: CompareOptions) -> PairList:
    import numpy as np

    a, b = found.sides[joined.a], found.sides[joined.b]
    matched = joined.matching.a, joined.matching.b
    answered = a.answered[matched[0]] & b.answered[matched[1]]
    cells = np.full(len(answered), UNDECIDED, np.int8)
    cells[answered] = joined.cells
    places = np.flatnonzero(answered)
    names = {number: name for name, number in CELLS.items()}
    in_common = {}
    for cell, one in joined.in_common.items():
        # The flips that no cause holds come last.
        causes = [members for group, members in zip(one.groups, one.members, strict=True) if group.stands_out]
        rest = np.setdiff1d(np.flatnonzero(joined.cells == cell), np.concatenate([*causes, np.empty(0, np.int64)]))
        in_common[names[cell]] = tuple(places[members] for members in (*one.members, rest))
    values = {}
    for field in figures.chosen_fields(found.sides, replace(options, by=())):
        numbers, alike, texts = figures.values_of_pairs(field, a, b, matched)
        if 1 < len(np.unique(numbers[alike])) <= figures.MOST_VALUES:
            values[field] = np.where(alike, numbers, -1).astype(np.int32), texts
    of_a = a, matched[0], joined.matching.other_a, joined.matching.repeated_a
    of_b = b, matched[1], joined.matching.other_b, joined.matching.repeated_b
    alone = [
        {reason: _lines(side)[rows] for reason, rows in pairing.unmatched_rows(side, *which).items()}
        for side, *which in (of_a, of_b)
    ]
    return PairList(
        cells,
        (_lines(a)[matched[0]], _lines(b)[matched[1]]),
        a.names(matched[0]),
        values,
        in_common,
        (alone[0], alone[1]),
    )


def _lines(side: Side) -> Any:
    return side.ords & ((1 << LINE_BITS) - 1)


def _grid(found: ComparedSides) -> RunGrid:
    import numpy as np

    first = found.sides[0]
    outcomes = np.full((len(first), len(found.sides)), MISSING_RUN, np.int8)
    lines = np.full((len(first), len(found.sides)), -1, np.int64)
    outcomes[:, 0], lines[:, 0] = first.outcomes, _lines(first)
    for joined in found.joined:
        if joined.a == 0:
            other, (here, there) = found.sides[joined.b], (joined.matching.a, joined.matching.b)
            outcomes[here, joined.b], lines[here, joined.b] = other.outcomes[there], _lines(other)[there]
    return RunGrid(first.names(np.arange(len(first))), outcomes, lines)


# -- texts of pairs ---------------------------------------------------------------------------------------------


def previews(results: ResultSet, lines: Collection[int]) -> dict[int, EntryPreview]:
    """Return entries by the lines of their first rows, with the beginnings of the texts that decided them."""

    def question(folded: Folded) -> dict[int, EntryPreview]:
        ledger = folded.ledger
        keys = lookup.entries_of_rows(ledger, [ledger.ord(0, line) for line in lines])
        deciding = lookup.deciding_rows(ledger, keys)
        # Rows of one ledger: where each comes from is part of its place.
        placed = [
            ChosenRow(row.ord, row.line, row.identity, source=0, strategy="", outcome=Outcome.UNJUDGED)
            for row in deciding.values()
        ]
        read = lines_of(ledger, folded.read, placed, results.options.max_line)
        found = {}
        for entry in entry_list.lines_of(ledger, keys):
            line = read[deciding[entry.key].ord]
            _, prompt, response = excerpts(line) if isinstance(line, bytes) else (None, f"({line})", None)
            found[entry.line] = EntryPreview(entry, prompt, response)
        return found

    return results.ask(question) if lines else {}


def lines_where(results: ResultSet, where: str) -> list[int]:
    """Return the lines on which entries begin of which a row fits a query."""
    return results.ask(
        lambda folded: entry_list.first_lines(folded.ledger, f"e.{results.entries_with(folded, where)}"), where=where
    )


class DecidingTexts(Struct, frozen=True):
    """What decided an entry: the attempt, what was asked and answered in it, and what its judges said."""

    attempt: AttemptView | None
    prompt: ShownText | None = None
    response: ShownText | None = None
    verdicts: tuple[GivenVerdict, ...] = ()


def deciding_texts(view: EntryView) -> DecidingTexts:
    """Return what decided an entry; of many requests in one attempt, the first that ended as the entry did."""
    attempt = next((one for one in view.attempts if one.decides), view.attempts[0] if view.attempts else None)
    if attempt is None:
        return DecidingTexts(None)
    inside = next((one for one in attempt.history if one.state is view.entry.outcome), None)
    texts = (*attempt.texts, *(() if inside is None else inside.texts))
    asked = [text for text in texts if text.role in ("prompt", "user")]
    answers = [text for text in texts if text.role in ("response", "assistant")]
    errors = [text for text in texts if text.role == "error"]
    verdicts = attempt.verdicts if inside is None else (*inside.verdicts, *attempt.verdicts)
    answer = answers[-1] if answers else errors[-1] if errors else None
    return DecidingTexts(attempt, asked[0] if asked else None, answer, verdicts)
