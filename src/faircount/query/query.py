"""A query that was understood: what it says, which fields it needs, and whether a row fits."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from faircount.query.compiling import Question, Row, compiled
from faircount.query.tree import Node, Operator, paths, tests

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
        return compiled(self.tree, ignore_case=self.ignore_case)

    def matches(self, row: Row, said: Row = _NOTHING_SAID) -> bool:
        """Return whether a row fits; `said` holds what Faircount says of it, by the names in `computed`."""
        return self._question(row, said)
