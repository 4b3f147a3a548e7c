"""What an attack raises when it cannot go on: it ends on that entry, and an error of the attack is recorded."""

from __future__ import annotations

from faircount.errors import FaircountError


class AttackError(FaircountError):
    """An attack that failed by itself, in a sentence without secrets. It says nothing about the target."""

    # Incomplete: another time the attack may know what to send.
    exit_code = 4
