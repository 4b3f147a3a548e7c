"""What the user asked an analysis to do, as one value that is passed down."""

from __future__ import annotations

from msgspec import Struct

from faircount.analysis.choices import (
    AUTO,
    BLOCK_SIGNALS,
    CORRECTIONS,
    DEFINITIONS,
    EVIDENCE,
    GUARDRAIL_MEANINGS,
    SORTS,
)
from faircount.errors import UsageError
from faircount.reading.loading import ReadOptions
from faircount.reading.streams import MAX_LINE_BYTES


class AnalyzeOptions(Struct, frozen=True):
    """Options of `results analyze`; the defaults are the documented ones."""

    combine: bool = False
    overview: bool = False
    false_positive_checks: str | None = None
    guardrail_success: str = "bypassed"
    block_signal: str = "verdict"
    by: tuple[str, ...] = ()
    sort: str = "rate"
    min_n: int = 1
    level: float = 0.95
    definition: str = "faircount"
    cluster: str = AUTO
    generalise: str | None = None
    where: str | None = None
    max_line: int = MAX_LINE_BYTES
    evidence: tuple[tuple[str, int], ...] = ()
    """Kinds of entries to show with their texts, and how many of each; the kind "" is the bad news of the aim."""
    details: bool = True
    """Whether more than the general figures are wanted."""
    figures: bool = False
    cache: bool = True
    judge_quality: str | None = None
    correction: str = CORRECTIONS[0]
    policy_blocks: bool = True
    """Whether a provider's refusal to take a prompt is a block. spikee takes it for an error."""

    @property
    def reading(self) -> ReadOptions:
        """How files are read."""
        return ReadOptions(
            self.max_line,
            self.guardrail_success == "detected",
            policy_blocks=self.policy_blocks and self.definition != "spikee",
        )

    def __post_init__(self) -> None:
        _one_of("definition", self.definition, DEFINITIONS)
        _one_of("guardrail_success", self.guardrail_success, GUARDRAIL_MEANINGS)
        _one_of("block_signal", self.block_signal, BLOCK_SIGNALS)
        _one_of("sort", self.sort, SORTS)
        _one_of("correction", self.correction, CORRECTIONS)
        if self.definition == "spikee" and self.judge_quality is not None:
            raise UsageError("spikee corrects no rate: its definition and --judge-quality exclude each other")
        if self.definition == "spikee" and self.guardrail_success == "detected":
            raise UsageError(
                "spikee reads true as bypassed: its definition and --guardrail-success detected exclude each other"
            )
        if self.definition == "spikee" and self.block_signal == "raised":
            raise UsageError("spikee knows verdicts only: its definition and --block-signal raised exclude each other")
        if not 0 < self.level < 1:
            raise UsageError(f"the level must be between 0 and 1, not {self.level}")
        if self.min_n < 1:
            raise UsageError(f"min-n must be at least 1, not {self.min_n}")
        for kind, limit in self.evidence:
            _one_of("evidence", kind, ("", *EVIDENCE))
            if limit < 0:
                raise UsageError(f"evidence must be 0 or more entries, not {limit}")
        if self.max_line < 1:
            raise UsageError(f"max-line must be at least 1 byte, not {self.max_line}")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
