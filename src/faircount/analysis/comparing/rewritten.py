"""Prompts that are the same although their bytes differ: JSON can write one text in several ways.

The ledger knows a prompt by the checksum of its bytes. A file that another program wrote again may escape what the
first one did not. Entries that share an id and nothing else are read back and compared as texts: a few at first, and
all of them only if any of these is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from faircount.analysis.comparing.sides import Side
from faircount.analysis.evidence import lines_again
from faircount.ledger.store import LINE_BITS
from faircount.reading.clean import scalar_text
from faircount.reading.loose import BadLine, parse

TRIED_FIRST = 50
MOST_READ = 20_000
"""More entries are not read back: they stay apart."""

_PROMPTS, _OBJECTIVE = ("input", "content", "text"), ("objective",)
_ROWS = """
SELECT ord, COALESCE(parent_id, 0), COALESCE(own_id, 0), COALESCE(text_hash, 0), COALESCE(response_hash, 0)
FROM told
WHERE ord BETWEEN ? AND ?
ORDER BY ord
"""


class _Row(Struct, frozen=True):
    """A row to be read back."""

    line: int
    identity: tuple[str | None, str | None, int, int]


def same_prompts(a: Side, b: Side, rows_a: Sequence[int], rows_b: Sequence[int], max_line: int) -> list[bool]:
    """Tell for each pair of entries whether their prompts are the same text."""
    first = _same(a, b, rows_a[:TRIED_FIRST], rows_b[:TRIED_FIRST], max_line)
    if not any(first):
        return [False] * len(rows_a)
    more = _same(a, b, rows_a[TRIED_FIRST:MOST_READ], rows_b[TRIED_FIRST:MOST_READ], max_line)
    return [*first, *more, *[False] * (len(rows_a) - len(first) - len(more))]


def _same(a: Side, b: Side, rows_a: Sequence[int], rows_b: Sequence[int], max_line: int) -> list[bool]:
    told_a, told_b = _prompts(a, rows_a, max_line), _prompts(b, rows_b, max_line)
    return [
        told_a.get(one) is not None and told_a.get(one) == told_b.get(other)
        for one, other in zip(rows_a, rows_b, strict=True)
    ]


def _prompts(side: Side, rows: Sequence[int], max_line: int) -> dict[int, str | None]:
    """Return the prompts of entries by their places; of an attack that stands alone, the objective."""
    if not rows:
        return {}
    places = {int(side.ords[row]): row for row in rows}
    ledger = side.ledger
    wanted = {
        places[ord_]: _Row(
            ord_ & ((1 << LINE_BITS) - 1),
            (ledger.word("parent_id", parent), ledger.word("own_id", own), *checksums),
        )
        for ord_, parent, own, *checksums in ledger.query(_ROWS, [min(places), max(places)])
        if ord_ in places
    }
    lines, _ = lines_again(side.path, list(wanted.values()), side.folded.read[0].anchors, max_line)
    return {
        row: _prompt(lines[told.line], _OBJECTIVE if side.alone[row] else _PROMPTS)
        for row, told in wanted.items()
        if told.line in lines
    }


def _prompt(line: bytes, names: Sequence[str]) -> str | None:
    fields: dict[str, Any]
    try:
        fields, _ = parse(line)
    except BadLine:
        return None
    return next((scalar_text(fields[name]) for name in names if fields.get(name) not in (None, "")), None)
