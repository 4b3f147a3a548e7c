"""A query that was understood: what it says, which fields it needs, and whether a row fits.

The tree is made into functions once, so that asking a row costs little more than looking into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from msgspec import Struct

from faircount.query.tree import And, Node, Not, Operator, Or, Path, Step, paths, tests
from faircount.query.values import Check, check_of

Row = Mapping[str, object]

# Asks a row, and what Faircount says of it.
Question = Callable[[Row, Row], bool]

_NOTHING_SAID: Row = {}


class Query(Struct, frozen=True, dict=True):
    """A query: its text, its tree, and whether `=` and the like ignore case."""

    text: str
    tree: Node
    ignore_case: bool = False

    @property
    def fields(self) -> frozenset[str] | None:
        """The fields of a row that the query looks at; None if it looks at all of them."""
        own = [path.steps[:1] for path in paths(self.tree) if not path.computed]
        if () in own or (None,) in own:
            return None
        return frozenset(step for steps in own for step in steps if isinstance(step, str))

    @property
    def compared(self) -> frozenset[str]:
        """The fields of a row that must be in some file: those that the query asks for more than whether they exist."""
        asked = [test.path for test in tests(self.tree) if test.operator is not Operator.EXISTS]
        return frozenset(
            path.steps[0] for path in asked if not path.computed and path.steps and isinstance(path.steps[0], str)
        )

    @property
    def computed(self) -> frozenset[str]:
        """What Faircount has to say of a row before the query can be asked: outcome, strategy, line, file."""
        return frozenset(str(path.steps[0]) for path in paths(self.tree) if path.computed)

    @cached_property
    def _question(self) -> Question:
        return _compiled(self.tree, ignore_case=self.ignore_case)

    def matches(self, row: Row, said: Row = _NOTHING_SAID) -> bool:
        """Return whether a row fits; `said` holds what Faircount says of it, by the names in `computed`."""
        return self._question(row, said)


def _compiled(node: Node, *, ignore_case: bool) -> Question:
    """Return the question that a tree asks."""
    if isinstance(node, And):
        return _every([_compiled(part, ignore_case=ignore_case) for part in node.parts])
    if isinstance(node, Or):
        return _some([_compiled(part, ignore_case=ignore_case) for part in node.parts])
    if isinstance(node, Not):
        return _not(_compiled(node.part, ignore_case=ignore_case))
    return _asked_at(node.path, check_of(node.operator, node.literals, ignore_case=ignore_case))


def _every(parts: list[Question]) -> Question:
    def question(row: Row, said: Row) -> bool:
        for part in parts:  # noqa: SIM110 - a loop is twice as fast as all()
            if not part(row, said):
                return False
        return True

    return question


def _some(parts: list[Question]) -> Question:
    def question(row: Row, said: Row) -> bool:
        for part in parts:  # noqa: SIM110 - a loop is twice as fast as any()
            if part(row, said):
                return True
        return False

    return question


def _not(part: Question) -> Question:
    return lambda row, said: not part(row, said)


def _asked_at(path: Path, check: Check) -> Question:
    first, rest = path.steps[:1], path.steps[1:]
    if path.steps.count(None):
        return _asked_of_several(path, check)
    if not first:
        return lambda row, _: check(_as_object(row))
    name = first[0]
    if not isinstance(name, str):
        return lambda _, __: check(None)
    if path.computed:
        return lambda _, said: check(_followed(said.get(name), rest))
    if rest:
        return lambda row, _: check(_followed(row.get(name), rest))
    return lambda row, _: check(row.get(name))


def _asked_of_several(path: Path, check: Check) -> Question:
    def question(row: Row, said: Row) -> bool:
        start = said if path.computed else row
        return any(check(value) for value in values_at(_as_object(start), path.steps))

    return question


def _as_object(row: Row) -> dict[str, object]:
    return row if isinstance(row, dict) else dict(row)


def _followed(value: object, steps: tuple[Step, ...]) -> object:
    """Return what is at the end of the steps; None where there is nothing."""
    for step in steps:
        value = _step(value, step)
    return value


def _step(value: object, step: Step) -> object:
    if isinstance(value, dict) and isinstance(step, str):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
        return value[step]
    return None


def values_at(value: object, steps: tuple[Step, ...]) -> Iterator[object]:
    """Yield what is at the end of the steps, for every element where a step means every one."""
    reached = [value]
    for step in steps:
        if step is None:
            reached = [element for value in reached for element in _elements(value)]
        else:
            reached = [_step(value, step) for value in reached]
    yield from reached


def _elements(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
