"""Which column of a file has which role: as asked for, or as names suggest.

A name that is spelled exactly goes first; otherwise upper and lower case, spaces, `-` and `_` make no difference. A
guess is made only where one column fits, and is reported. Where several fit or none does, the message lists the columns
and names the option that decides. A column has one role.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets, visible

ID_NAMES = (("id",), ("item",), ("uuid",), ("key",), ("conversation_id",))

_COLUMNS_LISTED = 30
_SEPARATORS = re.compile(r"[-_\s]+")
_MAP = "--map"
_NEXT_ROLE = re.compile(r",(?=[^,=]*=)")
"""Where another role begins; the name of a column may have a comma in it."""

Mapped = tuple[tuple[str, str], ...]
"""Roles and columns; an empty column means that there is none for the role."""


class Role(Struct, frozen=True):
    """Something that a column can hold.

    `ranks` are the names that suggest it; the first rank decides in which a column is. `holds` completes "found no
    column that …". `option` names the column; with `any_of_rank` the first of several in a rank is taken.
    """

    name: str
    ranks: Sequence[Sequence[str]] = ()
    holds: str = ""
    option: str = ""
    any_of_rank: bool = False

    @property
    def how_to_name(self) -> str:
        """The option with which a user names the column."""
        return self.option or f"{_MAP} {self.name}=COLUMN"


def plain(name: str) -> str:
    """Return a name without what makes no difference."""
    return _SEPARATORS.sub("", name).casefold()


def listed(names: Iterable[str]) -> str:
    """Return the names of columns for a message."""
    every = list(names)
    shown = ", ".join(clip(visible(mask_secrets(name)), 40) or '""' for name in every[:_COLUMNS_LISTED])
    more = len(every) - _COLUMNS_LISTED
    return (f"{shown} and {more} more" if more > 0 else shown) or "none"


def read_map(texts: Sequence[str], roles: Mapping[str, str]) -> Mapped:
    """Return what `--map ROLE=COLUMN,ROLE=COLUMN` asks for; `roles` has the names that roles can be called by."""
    pairs = []
    for text in texts:
        for part in _NEXT_ROLE.split(text):
            role, equals, column = part.partition("=")
            if not equals:
                raise UsageError(_misunderstood(part, roles))
            pairs.append((role, column))
    return checked_map(pairs, roles)


def checked_map(pairs: Iterable[tuple[str, str]], roles: Mapping[str, str]) -> Mapped:
    """Return roles as they are called here, with their columns; UsageError where there is no such role."""
    known = {plain(name): role for name, role in roles.items()}
    mapped: dict[str, str] = {}
    for name, column in pairs:
        role = known.get(plain(name.strip()))
        if role is None:
            raise UsageError(_misunderstood(f"{name}={column}", roles))
        if role in mapped:
            raise UsageError(f"{_MAP} {role}=… is given twice; a role has one column")
        mapped[role] = column.strip()
    return tuple(mapped.items())


def _misunderstood(text: str, roles: Mapping[str, str]) -> str:
    names = ", ".join(dict.fromkeys(roles.values()))
    return f"{_MAP} {clip(visible(text), 60)}: give ROLE=COLUMN, such as prompt=question; the roles are {names}"


class ColumnFinder:
    """Finds the columns of one file; `guessed` has the roles that nobody named, each with its column.

    `all_known` is false where there may be more names than were seen.
    """

    def __init__(self, path: str, names: Sequence[str], *, all_known: bool = True) -> None:
        self._path, self._names, self._all_known = path, names, all_known
        self._taken: set[str] = set()
        self.guessed: dict[str, str] = {}

    def named(self, role: Role, column: str) -> str:
        """Return the column that was asked for, as the file writes it."""
        found = [name for name in self._names if name == column] or self._like([column])
        if len(found) > 1:
            raise self.ambiguous(role, found)
        if not found and self._all_known:
            option = role.option or f"{_MAP} {role.name}=…"
            raise UsageError(
                f"{self._path}: has no column {listed([column])} ({option}); its columns: {listed(self._names)}"
            )
        taken = found[0] if found else column
        self._taken.add(taken)
        return taken

    def candidates(self, role: Role) -> list[str]:
        """Return the columns that nobody has taken, of the first rank of names that has any."""
        for names in role.ranks:
            free = [name for name in self._like(names) if name not in self._taken]
            if found := [name for name in free if name in names] or free:
                return found
        return []

    def guess(self, role: Role) -> str | None:
        """Return the only column of the first rank of names that has any."""
        found = self.candidates(role)
        if len(found) > 1 and not role.any_of_rank:
            raise self.ambiguous(role, found)
        if not found:
            return None
        self.take(role, found[:1])
        return found[0]

    def take(self, role: Role, columns: Sequence[str]) -> None:
        """Give a role to columns that nobody named."""
        self.guessed[role.name] = columns[0]
        self._taken.update(columns)

    def free(self) -> list[str]:
        """Return the columns that have no role yet."""
        return [name for name in self._names if name not in self._taken]

    def _like(self, names: Iterable[str]) -> list[str]:
        wanted = {plain(name) for name in names}
        return [name for name in self._names if plain(name) in wanted]

    def ambiguous(self, role: Role, found: Sequence[str]) -> UsageError:
        """Return what is wrong where several columns fit."""
        return UsageError(
            f"{self._path}: several columns could be the {role.name}: {listed(found)}; name one with {role.how_to_name}"
        )

    def missing(self, role: Role) -> UsageError:
        """Return what is wrong where no column fits."""
        return UsageError(
            f"{self._path}: found no column that {role.holds}; name it with {role.how_to_name}. Its columns: "
            f"{listed(self._names)}"
        )
