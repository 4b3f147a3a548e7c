"""What is said of a query that is not understood: the query, a mark under the place, what was expected, and a hint."""

from __future__ import annotations

from faircount.errors import UsageError
from faircount.text import cell_width, visible

_BEFORE = 56
_AFTER = 32


class QueryError(UsageError):
    """A query that cannot be understood; `position` counts its characters from 0."""

    position = 0

    @classmethod
    def at(cls, text: str, position: int, reason: str, hint: str, what: str = "query") -> QueryError:
        """Return the error for a place in `text`; `reason` and `hint` may repeat parts of it."""
        lines = [f"the {what} cannot be parsed at character {position + 1}: {visible(reason)}"]
        lines += _marked(text, position)
        lines.append(f"  {visible(hint)}")
        error = cls("\n".join(lines))
        error.position = position
        error.further = tuple(line[2:] for line in lines[1:])
        return error


def _marked(text: str, position: int) -> list[str]:
    """Return the part of `text` around the place on one line, and a line with a mark under the place."""
    start = max(position - _BEFORE, 0)
    end = position + _AFTER
    before = ("…" if start else "") + visible(text[start:position])
    after = visible(text[position:end]) + ("…" if end < len(text) else "")
    return [f"  {before}{after}", f"  {' ' * cell_width(before)}^"]
