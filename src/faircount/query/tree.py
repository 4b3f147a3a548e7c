"""What a query says, as a tree: tests of fields, put together with and, or, not."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

# What Faircount says of a row. A row's own field of such a name is reached as row.outcome, and so on.
COMPUTED = frozenset(["outcome", "strategy", "line", "file"])

# A step into a value: the name of a field, the number of an element, or None for every element.
Step = str | int | None


class Operator(StrEnum):
    """What a test asks of a value."""

    EQUAL = "="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="
    CONTAINS = "contains"
    LIKE = "like"
    MATCHES = "matches"
    HAS = "has"
    EXISTS = "exists"
    HOLDS = "holds"


class Path(Struct, frozen=True):
    """Where a value is; no steps are the whole row. `computed`: the first step is what Faircount says of the row."""

    steps: tuple[Step, ...]
    computed: bool = False


class Literal(Struct, frozen=True):
    """A value of a query: as it was written, and what it means."""

    text: str
    value: bool | int | float | str | None


class Test(Struct, frozen=True):
    """One question to the value at a path; it is enough if it holds for one of the literals."""

    path: Path
    operator: Operator
    literals: tuple[Literal, ...] = ()


class And(Struct, frozen=True):
    """All parts hold."""

    parts: tuple[Node, ...]


class Or(Struct, frozen=True):
    """At least one part holds."""

    parts: tuple[Node, ...]


class Not(Struct, frozen=True):
    """The part does not hold."""

    part: Node


Node = And | Or | Not | Test


def tests(node: Node) -> list[Test]:
    """Return every test in a tree."""
    if isinstance(node, Test):
        return [node]
    if isinstance(node, Not):
        return tests(node.part)
    return [test for part in node.parts for test in tests(part)]


def paths(node: Node) -> list[Path]:
    """Return the path of every test in a tree."""
    return [test.path for test in tests(node)]
