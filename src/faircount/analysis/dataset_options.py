"""What the user asked a comparison to do, as one value that is passed down."""

from __future__ import annotations

from msgspec import Struct

from faircount.analysis.choices import DEFINITIONS, GUARDRAIL_MEANINGS
from faircount.errors import UsageError
from faircount.reading.loading import ReadOptions
from faircount.reading.streams import MAX_LINE_BYTES

SUCCESS_DEFINITIONS = ("gt", "lt")
ALL = -1
"""A number that means all entries, as spikee's default is written."""

_SPIKEE = "spikee"


class ComparisonOptions(Struct, frozen=True):
    """Options of `results dataset-comparison`; the defaults are the documented ones."""

    success_threshold: float = 0.8
    success_definition: str = SUCCESS_DEFINITIONS[0]
    number: int = ALL
    skip_validation: bool = False
    definition: str = DEFINITIONS[0]
    guardrail_success: str = GUARDRAIL_MEANINGS[0]
    policy_blocks: bool = True
    level: float = 0.95
    max_line: int = MAX_LINE_BYTES
    cache: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.success_threshold <= 1:
            raise UsageError(
                f"--success-threshold {self.success_threshold:g}: must be a share from 0 to 1; 0.8 means 80%"
            )
        if self.success_definition not in SUCCESS_DEFINITIONS:
            raise UsageError(f"--success-definition must be gt or lt, not {self.success_definition!r}")
        if self.number < 1 and self.number != ALL:
            raise UsageError(f"--number {self.number}: must be at least 1 (or {ALL}, for all entries)")
        if self.definition not in DEFINITIONS:
            raise UsageError(f"definition must be one of {', '.join(DEFINITIONS)}, not {self.definition!r}")
        if self.guardrail_success not in GUARDRAIL_MEANINGS:
            raise UsageError(f"guardrail_success must be one of {', '.join(GUARDRAIL_MEANINGS)}")
        if self.by_spikee and self.detected:
            raise UsageError(
                "spikee reads true as bypassed: its definition and --guardrail-success detected exclude each other"
            )
        if not 0 < self.level < 1:
            raise UsageError(f"the level must be between 0 and 1, not {self.level}")
        if self.max_line < 1:
            raise UsageError(f"max-line must be at least 1 byte, not {self.max_line}")

    @property
    def by_spikee(self) -> bool:
        """Whether spikee's rules are to be used."""
        return self.definition == _SPIKEE

    @property
    def reading(self) -> ReadOptions:
        """How result files are read."""
        return ReadOptions(self.max_line, self.detected, policy_blocks=self.policy_blocks and not self.by_spikee)

    @property
    def detected(self) -> bool:
        """Whether true means detected in the file of a boolean guardrail."""
        return self.guardrail_success == "detected"
