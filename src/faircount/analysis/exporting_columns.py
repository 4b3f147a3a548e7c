"""The columns of an export: which there are, what the user calls them, and what a row has in each.

A column is a field of the rows, or what Faircount says of a row. Inside fields it is found as in a query: names and
numbers of elements, with every element for `[*]`. What is no single value becomes compact JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from faircount.core.errors import UsageError
from faircount.core.text import clip, visible
from faircount.query import COMPUTED, QueryError, parse
from faircount.query.query import Operator, Path, Step, Test, text_of, values_at

Cell = str | int | float | bool | None
"""What can stand in a cell; None for what is missing or null."""

TEXT, WHOLE, NUMBER, TRUTH = "text", "whole", "number", "truth"
"""The kinds of a column, for formats that have types."""

SAID = ("file", "line", "strategy", "outcome")
"""What Faircount says of a row, in the order of the columns."""

ROW = "row"
_KINDS = {
    "line": WHOLE,
    "success": TRUTH,
    "guardrail": TRUTH,
    "attempts": WHOLE,
    "response_time": NUMBER,
    "initial_success": TRUTH,
}
_SINGLE = frozenset([str, int, float, bool, type(None)])
_PLAIN_NAME = re.compile(r"[^\W\d][\w-]*")
# What stands between commas; those inside brackets or quotes separate nothing.
_NAME = re.compile(r"""(?:\[(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\]"'])*\]|[^,\[]|\[)+""")
_SHOWN = 40


class Column(Struct, frozen=True):
    """A column: its name, its kind, and where its value is in the row or, if `computed`, in what is said of it."""

    name: str
    kind: str
    steps: tuple[Step, ...]
    computed: bool = False

    @property
    def field(self) -> str | None:
        """The field of the rows that the column is, if it is one and not a part of one."""
        step = self.steps[0] if len(self.steps) == 1 and not self.computed else None
        return step if isinstance(step, str) else None


def said_column(name: str) -> Column:
    """Return the column of what Faircount says of a row or an entry."""
    return Column(name, _KINDS.get(name, TEXT), (name,), computed=True)


def field_column(field: str) -> Column:
    """Return the column of a field; one that is called like something that Faircount says gets its name in queries."""
    name = f"{ROW}.{field}" if field in COMPUTED else field
    return Column(name, _KINDS.get(field, TEXT), (field,))


def all_columns(said: Iterable[str], fields: Iterable[str]) -> list[Column]:
    """Return the columns of rows: what is said of them, then their fields."""
    return [*map(said_column, said), *map(field_column, fields)]


# -- named by the user ------------------------------------------------------------------------------------------


def split_names(texts: Iterable[str]) -> list[str]:
    """Return the names in lists with commas between them, each of which may stand only once."""
    names = [part.strip() for text in texts for part in _NAME.findall(text)]
    names = [name for name in names if name]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--columns: {_shown(name)} is named twice")
    return names


def named_column(name: str) -> Column:
    """Return the column that a name of the query language means."""
    path = _path(name)
    if path.computed and len(path.steps) == 1:
        return said_column(name)
    kind = _KINDS.get(str(path.steps[0]), TEXT) if len(path.steps) == 1 else TEXT
    return Column(name, kind, path.steps, path.computed)


def _path(name: str) -> Path:
    try:
        tree = parse(f"{name} exists").tree
    except QueryError:
        tree = None
    if not isinstance(tree, Test) or tree.operator is not Operator.EXISTS:
        raise UsageError(
            f"--columns {_shown(name)}: not a field name; examples: id, guardrail_categories.hate, "
            'attempt_history[0] and row["my field"]'
        )
    return tree.path


def refuse_unknown(columns: Iterable[Column], fields: Mapping[str, object]) -> None:
    """Raise if a column is of a field that no row has; with no field at all, nothing can be told."""
    for column in columns:
        first = column.steps[0] if column.steps and not column.computed else None
        if fields and isinstance(first, str) and first not in fields:
            raise unknown(column.name, [*sorted(map(written_name, fields)), *SAID])


def unknown(name: str, known: Iterable[str]) -> UsageError:
    """Return the error for a column that is not there."""
    listed = ", ".join(_shown(other) for other in known)
    return UsageError(f"--columns {_shown(name)}: no such column; available: {listed}")


def written_name(field: str) -> str:
    """Return how the query language names a field."""
    for name in (field, f"{ROW}.{field}"):
        try:
            if _PLAIN_NAME.fullmatch(field) and _path(name) == Path((field,)):
                return name
        except UsageError:
            continue
    quoted = field.replace("\\", "\\\\").replace('"', '\\"')
    return f'{ROW}["{quoted}"]'


def _shown(name: str) -> str:
    return clip(visible(name), _SHOWN)


# -- what a row has in its columns ------------------------------------------------------------------------------


def fields_needed(columns: Iterable[Column]) -> frozenset[str] | None:
    """Return the fields that the columns need of a row; None if they need all."""
    own = [column.steps[:1] for column in columns if not column.computed]
    if () in own or (None,) in own:
        return None
    return frozenset(step for steps in own for step in steps if isinstance(step, str))


Row = Mapping[str, object]


def cells_of(columns: Sequence[Column]) -> Callable[[Row, Row], list[Cell]]:
    """Return what makes cells of the fields of a row and of what is said of it."""
    looks = [_look(column) for column in columns]
    return lambda row, said: [look(row, said) for look in looks]


def _look(column: Column) -> Callable[[Row, Row], Cell]:
    if len(column.steps) == 1 and isinstance(name := column.steps[0], str):
        if column.computed:
            return lambda _, said: single(said.get(name))
        return lambda row, _: single(row.get(name))
    return lambda row, said: single(value_of(column, row, said))


def value_of(column: Column, row: Row, said: Row) -> object:
    """Return the value of a row in a column; where every element is asked for, a list, or None if there is none."""
    found = list(values_at(dict(said if column.computed else row), column.steps))
    return (found or None) if None in column.steps else found[0]


def single(value: object) -> Cell:
    """Return a value as what a cell can hold."""
    return value if value.__class__ in _SINGLE else text_of(value)  # type: ignore[return-value]
