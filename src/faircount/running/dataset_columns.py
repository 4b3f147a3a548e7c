"""Which column of a dataset is the prompt, which the id and so on: as told, as spikee names them, or as names suggest.

A guess is made only where one column fits, and a note says what was taken. Otherwise the message lists the columns and
names the option that decides. Upper and lower case, spaces, `-` and `_` make no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from faircount.errors import UsageError
from faircount.reading.label_columns import ID_NAMES, listed, plain
from faircount.reading.spikee import CASE_FACETS
from faircount.text import clip, visible

PROMPT, ID, SYSTEM, JUDGE, JUDGE_ARGS = "prompt", "id", "system", "judge", "judge_args"
CONTENT_TYPE = "content_type"
PROMPT_NAMES = (
    *("prompt", "text", "content", "input", "question", "instruction", "goal", "behavior", "behaviour", "query"),
    *("request", "objective", "user_prompt", "user_input", "message", "messages", "conversation", "turns"),
)
SYSTEM_NAMES = ("system_message", "system_prompt", "system")
SPIKEE_PROMPTS = ("content", "text")
"""Where spikee has the prompt, since 0.8 and before."""
_SPIKEE_MARKS = frozenset(["long_id", "judge_name", "judge_args", CONTENT_TYPE, "jailbreak_type", "instruction_type"])
_FIELD = {ID: "id", SYSTEM: "system_message", JUDGE: "judge_name", JUDGE_ARGS: "judge_args"}
"""Under which name of spikee's a role stands among the fields of an entry."""
FIELD_ROLES = (
    *(facet for facet in CASE_FACETS if facet not in _FIELD.values()),
    *("long_id", "payload", "steering_keywords", "exclude_from_transformations_regex"),
)
"""Fields of spikee's that any column can be taken for."""
_ROLES = (PROMPT, *_FIELD, *FIELD_ROLES)
_ALIASES = {"content": PROMPT, "text": PROMPT, "system_message": SYSTEM, "judge_name": JUDGE}
_BY_NAME = {plain(role): role for role in _ROLES} | {plain(name): role for name, role in _ALIASES.items()}
_OPTION = "--map"

Mapped = tuple[tuple[str, str], ...]
"""Roles and columns; an empty column means that there is none for the role."""


class Columns(Struct, frozen=True):
    """Which columns of a file have which role. `prompt`: the first of them that an entry has is its prompt.

    `fields` are names under which columns stand among the fields of an entry beside their own. `note` says what was
    guessed, and is empty where nothing was.
    """

    prompt: tuple[str, ...]
    id: str | None
    system: str | None
    fields: tuple[tuple[str, str], ...]
    note: str = ""


def read_map(texts: Sequence[str]) -> Mapped:
    """Return what `--map ROLE=COLUMN` says; an empty column means that the file has none for the role."""
    pairs = []
    for text in texts:
        role, equals, column = text.partition("=")
        if not equals:
            raise UsageError(_misunderstood(text))
        pairs.append((role, column))
    return checked_map(pairs)


def checked_map(pairs: Iterable[tuple[str, str]]) -> Mapped:
    """Return roles as they are called here, with their columns; UsageError where there is no such role."""
    mapped: dict[str, str] = {}
    for name, column in pairs:
        role = _BY_NAME.get(plain(name.strip()))
        if role is None:
            raise UsageError(_misunderstood(f"{name}={column}"))
        if role in mapped:
            raise UsageError(f"{_OPTION} {role}=… is given twice; a role has one column")
        mapped[role] = column.strip()
    if mapped.get(PROMPT) == "":
        raise UsageError(f"{_OPTION} prompt=: without a prompt there is nothing to send; name its column")
    return tuple(mapped.items())


def _misunderstood(text: str) -> str:
    return f"{_OPTION} {_told(text)}: give ROLE=COLUMN, such as prompt=question; the roles are {', '.join(_ROLES)}"


def find_columns(path: str, names: Iterable[str], mapped: Mapped) -> Columns:
    """Choose the columns of a file by the names that it has; UsageError where it cannot be told."""
    return _Chooser(path, tuple(names), dict(mapped)).choose()


class _Chooser:
    def __init__(self, path: str, names: tuple[str, ...], mapped: Mapping[str, str]) -> None:
        self._path, self._names, self._mapped = path, names, mapped
        self._plain = {plain(name) for name in names}
        self._guessed: list[str] = []

    def choose(self) -> Columns:
        roles = {role: self._named(role, column) for role, column in self._mapped.items() if column}
        prompt = (roles.pop(PROMPT),) if PROMPT in roles else self._prompt(set(roles.values()))
        roles |= {role: column for role, column in self._found() if role not in self._mapped}
        fields = tuple((_FIELD.get(role, role), column) for role, column in roles.items())
        said = f"{self._path}: columns used: {', '.join(self._guessed)}" if self._guessed else ""
        return Columns(prompt, roles.get(ID), roles.get(SYSTEM), fields, said)

    def _named(self, role: str, column: str) -> str:
        """Return the column that was asked for, as the file writes it."""
        found = [column] if column in self._names else self._with_names([column])
        if not found:
            raise UsageError(
                f"{self._path}: has no column {listed([column])} ({_OPTION} {role}=…); its columns: "
                f"{listed(self._names)}"
            )
        return self._only(role, found)

    def _prompt(self, taken: set[str]) -> tuple[str, ...]:
        if self._is_spikees():
            return tuple(name for name in SPIKEE_PROMPTS if name in self._names)
        found = [name for name in self._with_names(PROMPT_NAMES) if name not in taken]
        if not found:
            raise UsageError(
                f"{self._path}: no column with prompts found; name it with {_OPTION} prompt=COLUMN. "
                f"Its columns: {listed(self._names)}"
            )
        column = self._only(PROMPT, found)
        self._guessed.append(f"prompt ({_told(column)})")
        return (column,)

    def _is_spikees(self) -> bool:
        return any(name in self._names for name in SPIKEE_PROMPTS) and not _SPIKEE_MARKS.isdisjoint(self._names)

    def _found(self) -> Iterable[tuple[str, str]]:
        """Yield the other roles that names suggest, and the columns."""
        for rank in ID_NAMES:
            if found := self._with_names(rank):
                yield ID, found[0]
                if plain(found[0]) != plain("id"):
                    self._guessed.append(f"id ({_told(found[0])})")
                break
        if SYSTEM not in self._mapped and (found := self._with_names(SYSTEM_NAMES)):
            column = self._only(SYSTEM, found)
            yield SYSTEM, column
            if plain(column) != plain("system_message"):
                self._guessed.append(f"system message ({_told(column)})")
        for role in (JUDGE, JUDGE_ARGS):
            if found := self._with_names([_FIELD[role]]):
                yield role, found[0]

    def _with_names(self, wanted: Iterable[str]) -> list[str]:
        known = {plain(name) for name in wanted}
        return [name for name in self._names if plain(name) in known] if known & self._plain else []

    def _only(self, role: str, found: Sequence[str]) -> str:
        if len(found) > 1:
            raise UsageError(
                f"{self._path}: several columns could be the {role}: {listed(found)}; name one with "
                f"{_OPTION} {role}=COLUMN"
            )
        return found[0]


def _told(text: str) -> str:
    return clip(visible(text), 60)
