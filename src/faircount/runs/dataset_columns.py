"""Which column of a dataset is the prompt, which the id and so on: as asked for, as in spikee, or as names suggest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from faircount.core.errors import UsageError
from faircount.core.text import clip, visible
from faircount.io import columns
from faircount.io.columns import ID_NAMES, ColumnFinder, Mapped, Role, plain
from faircount.readers.result_rows import CASE_FACETS

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
_NAMES_OF_ROLES = {
    **{role: role for role in _ROLES},
    "content": PROMPT,
    "text": PROMPT,
    "system_message": SYSTEM,
    "judge_name": JUDGE,
}
_GUESSED = (
    Role(ID, ID_NAMES, any_of_rank=True),
    Role(SYSTEM, (SYSTEM_NAMES,)),
    Role(JUDGE, (("judge_name",),), any_of_rank=True),
    Role(JUDGE_ARGS, (("judge_args",),), any_of_rank=True),
)
_PROMPT = Role(PROMPT, (PROMPT_NAMES,), "contains prompts")


class DatasetColumns(Struct, frozen=True):
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
    """Return what `--map ROLE=COLUMN` asks for; an empty column means that the file has none for the role."""
    return _with_prompt(columns.read_map(texts, _NAMES_OF_ROLES))


def checked_roles(pairs: Iterable[tuple[str, str]]) -> Mapped:
    """Return roles as they are called here, with their columns; UsageError where there is no such role."""
    return _with_prompt(columns.checked_map(pairs, _NAMES_OF_ROLES))


def _with_prompt(mapped: Mapped) -> Mapped:
    if (PROMPT, "") in mapped:
        raise UsageError("--map prompt=: without a prompt there is nothing to send; name its column")
    return mapped


def find_columns(path: str, names: Sequence[str], mapped: Mapped) -> DatasetColumns:
    """Choose the columns of a file by the names that it has; UsageError where it cannot be told."""
    finder, asked = ColumnFinder(path, names), dict(mapped)
    roles = {role: finder.named(Role(role), column) for role, column in mapped if column}
    prompt: tuple[str, ...]
    if PROMPT in roles:
        prompt = (roles.pop(PROMPT),)
    elif any(name in names for name in SPIKEE_PROMPTS) and not _SPIKEE_MARKS.isdisjoint(names):
        prompt = tuple(name for name in SPIKEE_PROMPTS if name in names)
    else:
        guessed = finder.guess(_PROMPT)
        if guessed is None:
            raise finder.missing(_PROMPT)
        prompt = (guessed,)
    roles |= {role.name: column for role in _GUESSED if role.name not in asked and (column := finder.guess(role))}
    # What is called as spikee calls it needs no word.
    told = [
        f"{'system message' if role == SYSTEM else role} ({clip(visible(column), 60)})"
        for role, column in finder.guessed.items()
        if plain(column) != plain(_FIELD.get(role, ""))
    ]
    return DatasetColumns(
        prompt,
        roles.get(ID),
        roles.get(SYSTEM),
        tuple((_FIELD.get(role, role), column) for role, column in roles.items()),
        f"{path}: columns used: {', '.join(told)}" if told else "",
    )
