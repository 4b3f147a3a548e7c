"""What was chosen to be run, out of test files or datasets."""

from __future__ import annotations

from msgspec import Struct

from faircount.running.case import Case


class Chosen(Struct, frozen=True):
    """The cases that are run, the files that they come from with their SHA-256, and what is to be said about them."""

    cases: tuple[Case, ...]
    files: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
