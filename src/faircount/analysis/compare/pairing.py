"""Which entries of two files are the same one: by id and by prompt, or by the id alone.

A `Side` is one file as arrays, an element for every entry in the order of the file. An id that stands for another
prompt is another entry. Where a file has no prompt, the id must do, if it is the only one of its kind on both sides.
Two entries of a file that cannot be told apart are in no pair. The id alone decides if that is asked for, or if prompts
hardly match while ids do: attacks that are made for each target have prompts of their own. The prompt alone decides
where no id is in both files: two tools on one dataset name its entries each in their own way.

The ledger knows a prompt by the checksum of its bytes, and JSON can write one text in several ways: a file that another
program wrote again may escape what the first one did not. Entries that share an id and nothing else are read back and
compared as texts: a few at first, and all of them only if any of these is the same."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.analyze import Folded
from faircount.analysis.compare.model import Unpaired, UnpairedEntries
from faircount.analysis.evidence import lines_again
from faircount.analysis.grouping import ATTACK_FIELD
from faircount.analysis.options import MATCHES
from faircount.core.findings import EXAMPLES_KEPT
from faircount.core.model import Outcome
from faircount.core.options import MAX_LINE_BYTES
from faircount.io.lenient_json import BadLine, parse
from faircount.ledger import lookup, tallies
from faircount.ledger.lookup import counted_rows
from faircount.ledger.schema import OUTCOME_NUMBER
from faircount.ledger.store import Ledger
from faircount.readers.datasets import NO_CONTENT
from faircount.readers.rows import scalar_text

ANSWERS = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.GUARDRAIL)
"""What an answered entry ends in: a block is an answer."""


class Side:
    """The entries of one folded file, as far as a comparison asks about them."""

    def __init__(self, folded: Folded) -> None:
        import numpy as np

        assert isinstance(folded.ledger, Ledger)
        self.folded = folded
        self.ledger = folded.ledger
        self.label = ""
        """What people call the file; known when all files are."""
        self.counts = tallies.overall(self.ledger)
        heads = lookup.entry_heads(self.ledger, arrays=True)
        self.keys, self.outcomes, self.families = heads.entry_key, heads.outcome, heads.family
        self.ords, self.alone = heads.ord, heads.alone
        self._numbers = heads.id.astype(np.int64)
        self.contents = heads.content.astype(np.int64)
        """The checksum of each entry's prompt, 0 where there is none."""
        self.contents[np.isin(self.contents, np.array(sorted(NO_CONTENT), np.int64))] = 0
        self.succeeded = self.outcomes == OUTCOME_NUMBER[Outcome.SUCCESS]
        self.answered = np.isin(self.outcomes, [OUTCOME_NUMBER[outcome] for outcome in ANSWERS])

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def path(self) -> str:
        return self.ledger.paths[0]

    def ids(self, words: dict[str, int]) -> Any:
        """Return the ids as numbers that mean the same in every file that shares `words`."""
        import numpy as np

        if not (self._numbers >= 0).any():
            return self._numbers
        lexicon = self.ledger.lexicon("parent_id")
        shared = np.array([words.setdefault(word or "", len(words)) for word in lexicon], np.int64)
        return np.where(self._numbers >= 0, shared[np.maximum(self._numbers, 0)], self._numbers)

    def names(self, rows: Any) -> tuple[str, ...]:
        """Return the ids of entries as text."""
        return tuple(self.ledger.word("parent_id", number) or "" for number in self._numbers[rows].tolist())

    def places(self, rows: Any) -> tuple[str, ...]:
        """Return where entries stand."""
        return tuple(self.ledger.place(ord_) for ord_ in self.ords[rows].tolist())

    @cached_property
    def _order_of_keys(self) -> Any:
        import numpy as np

        return np.argsort(self.keys, kind="stable")

    def values(self, column: str, words: dict[str | None, int]) -> Any:
        """Return the values of a column as numbers that mean the same in every file that shares `words`."""
        import numpy as np

        keys, values = lookup.values_of_entries(self.ledger, column)
        order = self._order_of_keys
        numbers = np.empty(len(self), np.int64)
        numbers[order[np.searchsorted(self.keys, keys, sorter=order)]] = values
        distinct, inverse = np.unique(numbers, return_inverse=True)
        texts = [tallies.text_of(self.ledger, column, number or None) or None for number in distinct.tolist()]
        return np.array([words.setdefault(text, len(words)) for text in texts], np.int64)[inverse]

    def column(self, field: str) -> str | None:
        """Return the column that holds a field, None where no entry has it."""
        return self.ledger.facets.get(field, ATTACK_FIELD if field == ATTACK_FIELD else None)


# -- which entries are the same -------------------------------------------------------------------------------


MISSING, OTHER_CONTENT, REPEATED = "missing", "other_content", "repeated"
ERROR, UNJUDGED, OTHER_UNANSWERED = "error", "unjudged", "other_unanswered"
REASONS = (MISSING, OTHER_CONTENT, REPEATED, ERROR, UNJUDGED, OTHER_UNANSWERED)
"""Why an entry is in no pair: the other file does not have it; it has the id with another prompt; its file has it more
than once; it ended in an error; nobody judged it; the other file has no answer to it."""

_SPREAD = 0x9E3779B97F4A7C15
"""An odd number whose multiples are spread over 64 bits (Knuth's golden ratio)."""

FEW_MATCHED, MUCH_BETTER, NEARLY_ALL = 0.5, 2.0, 0.95
"""Where prompts match in a smaller share of the entries, and ids in so many times as many, ids decide."""
FIELDS_OF_RUNS = (ATTACK_FIELD, "judge_name", "judge_options", "target", "target_options")
"""What belongs to a run more than to its entries."""

TRIED_FIRST = 50
MOST_READ = 20_000
"""More entries are not read back: they stay apart."""
_PROMPTS, _OBJECTIVE = ("input", "content", "text"), ("objective",)

Rows = Any
"""Places of entries in an array, or one flag for each."""


class Matching(Struct, frozen=True):
    """The entries that two files share, as places in each, and which others are in both under one id."""

    a: Rows
    b: Rows
    other_a: Rows
    other_b: Rows
    repeated_a: Rows
    repeated_b: Rows
    by_prompt: int | None = None
    """How many entries the files share by id and prompt, where that was so few that the id alone decides."""
    by_text: bool = False
    """Whether the prompt alone decides, since no id is in both files."""


def match(a: Side, b: Side, *, by: str = MATCHES[0], max_line: int = MAX_LINE_BYTES) -> Matching:
    """Find the entries that two files share, by one of `MATCHES`."""
    found = _matched(a, b, by_id=by == "id", max_line=max_line)
    if by != "auto" or len(found.a) >= FEW_MATCHED * min(len(a), len(b)):
        return found
    by_id = _matched(a, b, by_id=True, max_line=max_line)
    if not len(found.a) and not len(by_id.a) and not (found.other_a.any() or found.repeated_a.any()):
        by_text = _matched_by_text(a, b)
        return by_text if len(by_text.a) >= FEW_MATCHED * min(len(a), len(b)) else found
    enough = max(FEW_MATCHED * min(len(a), len(b)), MUCH_BETTER * len(found.a))
    if len(by_id.a) < enough or not _alike(a, b, by_id):
        return found
    return replace(by_id, by_prompt=len(found.a))


def _alike(a: Side, b: Side, matching: Matching) -> bool:
    """Return whether entries with the same ids look like one dataset: some field that varies agrees in nearly all.

    Two datasets that number their entries from 1 on share all ids and nothing else. Without such a field ids decide,
    unless attacks name their objectives, and these differ.
    """
    import numpy as np

    objectives = a.alone[matching.a] & b.alone[matching.b]
    objectives &= (a.contents[matching.a] != 0) & (b.contents[matching.b] != 0)
    if (a.contents[matching.a] != b.contents[matching.b])[objectives].sum() > (1 - NEARLY_ALL) * len(matching.a):
        return False
    agreements = []
    for field in a.ledger.facets:
        columns = a.column(field), b.column(field)
        if field in FIELDS_OF_RUNS or columns[0] is None or columns[1] is None:
            continue
        words: dict[str | None, int] = {None: 0}
        first, second = a.values(columns[0], words)[matching.a], b.values(columns[1], words)[matching.b]
        if len(np.unique(first)) > 1 and len(np.unique(second)) > 1:
            agreements.append(float((first == second).mean()))
    return not agreements or max(agreements) >= NEARLY_ALL


def _matched(a: Side, b: Side, *, by_id: bool, max_line: int) -> Matching:
    import numpy as np

    words: dict[str, int] = {}
    ids_a, ids_b = a.ids(words), b.ids(words)
    contents_a, contents_b = (np.zeros_like(side.contents) if by_id else side.contents for side in (a, b))
    keys_a, keys_b = _keys(ids_a, contents_a), _keys(ids_b, contents_b)
    alone_a, alone_b = _alone(keys_a), _alone(keys_b)
    at_a, at_b = _joined(keys_a, keys_b, alone_a, alone_b)
    same = (ids_a[at_a] == ids_b[at_b]) & (contents_a[at_a] == contents_b[at_b])
    at_a, at_b = at_a[same], at_b[same]
    at_a, at_b = _with_unknown((ids_a, contents_a, at_a), (ids_b, contents_b, at_b))
    at_a, at_b = _with_rewritten((a, ids_a, at_a), (b, ids_b, at_b), max_line)
    left_a, left_b = _left(len(a), at_a), _left(len(b), at_b)
    order = np.argsort(at_a, kind="stable")
    return Matching(
        at_a[order],
        at_b[order],
        left_a & alone_a & np.isin(ids_a, ids_b),
        left_b & alone_b & np.isin(ids_b, ids_a),
        left_a & ~alone_a,
        left_b & ~alone_b,
    )


def _matched_by_text(a: Side, b: Side) -> Matching:
    """Find the entries with the same prompt, of which either file has one."""
    import numpy as np

    alone_a, alone_b = _alone(a.contents), _alone(b.contents)
    at_a, at_b = _joined(a.contents, b.contents, alone_a & (a.contents != 0), alone_b & (b.contents != 0))
    order = np.argsort(at_a, kind="stable")
    none_a, none_b = np.zeros(len(a), bool), np.zeros(len(b), bool)
    return Matching(
        at_a[order],
        at_b[order],
        none_a,
        none_b,
        ~alone_a & np.isin(a.contents, b.contents) & (a.contents != 0),
        ~alone_b & np.isin(b.contents, a.contents) & (b.contents != 0),
        by_text=True,
    )


def _keys(ids: Any, contents: Any) -> Any:
    """Return one number for id and content; that two of them coincide by chance is looked at when they are joined."""
    import numpy as np

    return contents.view(np.uint64) ^ (ids.view(np.uint64) * np.uint64(_SPREAD))


def _alone(keys: Any) -> Any:
    """Return for each key whether it is the only one of its kind."""
    import numpy as np

    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return counts[inverse] == 1


def _joined(keys_a: Any, keys_b: Any, among_a: Any, among_b: Any) -> tuple[Any, Any]:
    import numpy as np

    rows_a, rows_b = np.flatnonzero(among_a), np.flatnonzero(among_b)
    _, at_a, at_b = np.intersect1d(keys_a[rows_a], keys_b[rows_b], assume_unique=True, return_indices=True)
    return rows_a[at_a], rows_b[at_b]


def _left(count: int, matched: Any) -> Any:
    import numpy as np

    left = np.ones(count, bool)
    left[matched] = False
    return left


def _with_unknown(a: tuple[Any, Any, Any], b: tuple[Any, Any, Any]) -> tuple[Any, Any]:
    """Add the entries whose prompt one side does not know: by an id that only one entry of either side has."""
    import numpy as np

    (ids_a, contents_a, at_a), (ids_b, contents_b, at_b) = a, b
    if contents_a.all() and contents_b.all():
        return at_a, at_b
    left_a, left_b = _left(len(ids_a), at_a) & _alone(ids_a), _left(len(ids_b), at_b) & _alone(ids_b)
    more_a, more_b = _joined(ids_a, ids_b, left_a, left_b)
    unknown = (contents_a[more_a] == 0) | (contents_b[more_b] == 0)
    return np.concatenate([at_a, more_a[unknown]]), np.concatenate([at_b, more_b[unknown]])


def _with_rewritten(a: tuple[Side, Any, Any], b: tuple[Side, Any, Any], max_line: int) -> tuple[Any, Any]:
    """Add the entries whose prompt is the same text, written in another way, under an id that is the only one."""
    import numpy as np

    (side_a, ids_a, at_a), (side_b, ids_b, at_b) = a, b
    left_a, left_b = _left(len(ids_a), at_a) & _alone(ids_a), _left(len(ids_b), at_b) & _alone(ids_b)
    more_a, more_b = _joined(ids_a, ids_b, left_a, left_b)
    if not len(more_a):
        return at_a, at_b
    order = np.argsort(more_a, kind="stable")
    more_a, more_b = more_a[order], more_b[order]
    rows_a, rows_b = more_a.tolist(), more_b.tolist()
    same = np.zeros(len(more_a), bool)
    # All others are read back only if one of the first is the same.
    for part in (slice(TRIED_FIRST), slice(TRIED_FIRST, MOST_READ)):
        prompts_a, prompts_b = (
            prompts_of(side, at[part], max_line) for side, at in ((side_a, rows_a), (side_b, rows_b))
        )
        same[part] = [
            prompts_a.get(one) is not None and prompts_a.get(one) == prompts_b.get(other)
            for one, other in zip(rows_a[part], rows_b[part], strict=True)
        ]
        if not same.any():
            break
    return np.concatenate([at_a, more_a[same]]), np.concatenate([at_b, more_b[same]])


def prompts_of(side: Side, rows: Sequence[int], max_line: int) -> dict[int, str | None]:
    """Return the prompts of entries by their places, read back; of an attack that stands alone, the objective."""
    if not rows:
        return {}
    places = {int(side.ords[row]): row for row in rows}
    wanted = {places[row.ord]: row for row in counted_rows(side.ledger, places)}
    lines, _ = lines_again(side.path, list(wanted.values()), side.folded.read[0].anchors, max_line)
    prompts: dict[int, str | None] = {}
    for place, row in wanted.items():
        if row.line not in lines:
            continue
        with contextlib.suppress(BadLine):
            values: dict[str, Any] = parse(lines[row.line])[0]
            names = _OBJECTIVE if side.alone[place] else _PROMPTS
            prompts[place] = next((scalar_text(values[n]) for n in names if values.get(n) not in (None, "")), None)
    return prompts


# -- what could not be paired -----------------------------------------------------------------------------------


def paired_rows(a: Side, b: Side, matching: Matching) -> tuple[Rows, Rows]:
    """Return the entries that both files have and answered."""
    both = a.answered[matching.a] & b.answered[matching.b]
    return matching.a[both], matching.b[both]


def left_out(a: Side, b: Side, matching: Matching) -> Unpaired:
    """Say of every entry that is in no pair why."""
    return Unpaired(
        not len(matching.a),
        _reasons(a, matching.a, matching.other_a, matching.repeated_a, b.answered[matching.b]),
        _reasons(b, matching.b, matching.other_b, matching.repeated_b, a.answered[matching.a]),
    )


def _reasons(
    side: Side, matched: Rows, other: Rows, repeated: Rows, answered_there: Rows
) -> dict[str, UnpairedEntries]:
    here = side.outcomes[matched]
    unanswered_there = matched[side.answered[matched] & ~answered_there]
    rows = unmatched_rows(side, matched, other, repeated) | {
        ERROR: matched[here == OUTCOME_NUMBER[Outcome.ERROR]],
        UNJUDGED: matched[here == OUTCOME_NUMBER[Outcome.UNJUDGED]],
        OTHER_UNANSWERED: unanswered_there,
    }
    return {reason: UnpairedEntries(len(rows[reason]), side.places(rows[reason][:EXAMPLES_KEPT])) for reason in REASONS}


def unmatched_rows(side: Side, matched: Rows, other: Rows, repeated: Rows) -> dict[str, Rows]:
    """Return the entries that are in one file alone, by the reason."""
    import numpy as np

    return {
        MISSING: np.flatnonzero(_left(len(side), matched) & ~other & ~repeated),
        OTHER_CONTENT: np.flatnonzero(other),
        REPEATED: np.flatnonzero(repeated),
    }
