"""The names of the ways to make one result of several attempts, as test files and the command line say them."""

from __future__ import annotations

from faircount.reading.aggregation import (
    DEFAULT,
    REBEL_NAMES,
    Aggregation,
    check_attempts,
    plain_names,
    read_aggregation,
)

__all__ = ["DEFAULT", "REBEL_NAMES", "Aggregation", "check_attempts", "plain_names", "read_aggregation"]
