"""Which cases are wanted: by name, by a keyword expression, and by tags.

Tags are compared whole, and case matters, as it does where they are declared: `basic` chooses neither `bas` nor
`Basic`. Everything that is asked for must hold. A choice that leaves nothing is an error that says what there was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from faircount.core.errors import UsageError
from faircount.core.text import visible
from faircount.query import parse_keyword
from faircount.runs.cases import Case

_MOST_TOLD = 10


SomeCase = TypeVar("SomeCase", bound=Case)


class Selection(Struct, frozen=True):
    """What is asked for; what is empty asks for nothing.

    `keyword` is an expression of words in the name of a case. `tags`: a case has one of them at least; `exclude_tags`:
    it has none of them. `names`: it is called one of them, or its suite or function is.
    """

    keyword: str | None = None
    tags: tuple[str, ...] = ()
    exclude_tags: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class Selected(Struct, Generic[SomeCase], frozen=True):
    """The cases that are wanted, in their order, and remarks about what was asked for and is not there."""

    cases: tuple[SomeCase, ...]
    notes: tuple[str, ...] = ()


def read_tags(*texts: str) -> tuple[str, ...]:
    """Return the tags that texts name, separated by commas."""
    tags = (tag.strip() for text in texts for tag in text.split(","))
    return tuple(dict.fromkeys(tag for tag in tags if tag))


def select(cases: Sequence[SomeCase], selection: Selection) -> Selected[SomeCase]:
    """Return the cases that a selection means; UsageError where it means none, or cannot be understood."""
    keyword = None if selection.keyword is None else parse_keyword(selection.keyword)
    wanted, unwanted, names = set(selection.tags), set(selection.exclude_tags), selection.names
    chosen = [
        case
        for case in cases
        if (not names or any(case.is_called(name) for name in names))
        and (keyword is None or keyword.matches({"name": case.name}))
        and (not wanted or wanted & set(case.tags))
        and not unwanted & set(case.tags)
    ]
    if not chosen:
        raise UsageError(_nothing(cases, selection))
    return Selected(tuple(chosen), _notes(cases, selection))


def _notes(cases: Sequence[Case], selection: Selection) -> tuple[str, ...]:
    tags = _tags(cases)
    unknown = [tag for tag in (*selection.tags, *selection.exclude_tags) if tag not in tags]
    notes = [f'no case has the tag "{visible(tag)}"; available: {_some(tags)}' for tag in dict.fromkeys(unknown)]
    for name in selection.names:
        if not any(case.is_called(name) for case in cases):
            notes.append(f'no case named "{visible(name)}"')
    return tuple(notes)


def _nothing(cases: Sequence[Case], selection: Selection) -> str:
    lines = [f"{_asked(selection)} selects none of {len(cases):,} {'case' if len(cases) == 1 else 'cases'}"]
    lines.append(f"  cases: {_some([case.name for case in cases])}")
    if selection.tags or selection.exclude_tags:
        lines.append(f"  tags: {_some(_tags(cases))}")
    return "\n".join(lines)


def _asked(selection: Selection) -> str:
    asked = []
    if selection.names:
        asked.append(f"the name {', '.join(visible(name) for name in selection.names)}")
    if selection.keyword is not None:
        asked.append(f"--keyword {visible(selection.keyword)}")
    if selection.tags:
        asked.append(f"--tags {visible(','.join(selection.tags))}")
    if selection.exclude_tags:
        asked.append(f"--exclude-tags {visible(','.join(selection.exclude_tags))}")
    return " with ".join(asked) or "the choice"


def _tags(cases: Sequence[Case]) -> list[str]:
    return sorted({tag for case in cases for tag in case.tags})


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_TOLD:,} more" if len(names) > _MOST_TOLD else ""
    return ", ".join(visible(name) for name in names[:_MOST_TOLD]) + more if names else "none"
