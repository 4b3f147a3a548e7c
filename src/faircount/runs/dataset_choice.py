"""Which entries of which datasets are run, as plain data: it stands in the header of a journal and is made again."""

from __future__ import annotations

import secrets

from msgspec import Struct, field
from msgspec.structs import replace

from faircount.runs.selecting import Selection

DEFAULT_SEED = "42"
RANDOM_SEED = "random"


class DatasetChoice(Struct, frozen=True):
    """Which files, which of their entries, and how they are judged.

    `judge` is an expression and judges all entries; without it each entry's own judge does. `columns` are roles and the
    columns that have them. `attempts` is up to how often each entry is tried. Without `needs_judge` the target itself
    says whether an attempt succeeded. `where` is a query about the fields of an entry.
    """

    paths: tuple[str, ...]
    judge: str | None = None
    columns: tuple[tuple[str, str], ...] = ()
    sample: str | None = None
    sample_seed: str = DEFAULT_SEED
    attempts: int = 1
    selection: Selection = field(default_factory=Selection)
    needs_judge: bool = True
    where: str | None = None


def settled(choice: DatasetChoice) -> DatasetChoice:
    """Return a choice that is the same whenever it is made: a seed that is to be random is drawn."""
    if choice.sample is None or choice.sample_seed != RANDOM_SEED:
        return choice
    return replace(choice, sample_seed=str(secrets.randbits(32)))
