"""What the user asked a comparison of result files to do, as one value that is passed down."""

from __future__ import annotations

from msgspec import Struct

from faircount.analysis.choices import AUTO, CORRECTIONS, GUARDRAIL_MEANINGS
from faircount.analysis.comparing.choices import MATCHES
from faircount.analysis.options import AnalyzeOptions
from faircount.errors import UsageError
from faircount.reading.streams import MAX_LINE_BYTES


class CompareOptions(Struct, frozen=True):
    """Options of `results compare`; the defaults are the documented ones."""

    baseline: str | None = None
    by: tuple[str, ...] = ()
    flips: int = 5
    """How many flips are shown with their texts, each way."""
    match: str = MATCHES[0]
    """What makes two entries the same one: id and prompt, or the id alone; `auto` decides."""
    level: float = 0.95
    cluster: str = AUTO
    guardrail_success: str = GUARDRAIL_MEANINGS[0]
    max_line: int = MAX_LINE_BYTES
    cache: bool = True
    judge_quality: str | None = None
    """What is known of the judge: a summary of judges, or labels."""
    correction: str = CORRECTIONS[0]
    policy_blocks: bool = True

    def __post_init__(self) -> None:
        if self.match not in MATCHES:
            raise UsageError(f"match must be one of {', '.join(MATCHES)}, not {self.match!r}")
        if self.flips < 0:
            raise UsageError(f"--flips {self.flips}: must be 0 or more")
        # What is shared with an analysis is checked there.
        _ = self.analyzed

    @property
    def analyzed(self) -> AnalyzeOptions:
        """How entries are counted."""
        return AnalyzeOptions(
            by=self.by,
            level=self.level,
            cluster=self.cluster,
            guardrail_success=self.guardrail_success,
            max_line=self.max_line,
            cache=self.cache,
            correction=self.correction,
            policy_blocks=self.policy_blocks,
        )

    @property
    def alpha(self) -> float:
        """How often a claim may be made where there is no difference."""
        return 1 - self.level
