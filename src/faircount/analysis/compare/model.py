"""What a comparison finds out, as plain data. A difference is always B - A, and a success counts whatever the aim."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from faircount.core.findings import DAMAGE
from faircount.core.model import (
    Count,
    Document,
    Estimate,
    Finding,
    JudgeCorrection,
    Passage,
    Share,
    Shares,
    Source,
    Tally,
)


class Figures(Struct, frozen=True, kw_only=True):
    """Two rates on the same entries and their difference, with the entries by who succeeded."""

    paired: Count = 0
    """Pairs of entries; 0 where the rates are of different entries."""
    both: Count = 0
    only_a: Count = 0
    only_b: Count = 0
    neither: Count = 0
    successes_a: Count
    successes_b: Count
    rate_a: Estimate
    rate_b: Estimate
    difference: Estimate
    p: Share | None = None
    """The p-value that goes with the interval of the difference, one of the following."""
    mcnemar_p: Share | None = None
    """McNemar's exact test, of independent pairs."""
    mid_p: Share | None = None
    families_p: Share | None = None
    """The larger of the exact test and of the t over families with so many `degrees` of freedom."""
    fisher_p: Share | None = None
    """Fisher's exact test, of different entries."""
    odds_ratio: Estimate | None = None
    families: Count | None = None
    """How many families the intervals respect; None where entries count as independent."""
    effective_n: float | None = None
    """How many independent pairs these are worth, or entries of either file where these share none."""
    degrees: float | None = None
    undecided: Count = 0
    """Pairs that are not among these, since an entry ended in an error or was not judged."""
    bounds: Bounds | None = None
    """None where no pair is undecided."""

    @property
    def differing(self) -> int:
        """Pairs of which one succeeded."""
        return self.only_a + self.only_b


class Bounds(Struct, frozen=True):
    """The figures with undecided pairs: such that B - A is lowest (A's had succeeded, B's had failed), and highest."""

    lowest: Figures
    highest: Figures


class ComparedGroup(Figures, frozen=True):
    """The pairs that share a value of a field; `adjusted_p` answers for all groups of the comparison."""

    value: str | None
    small: bool
    adjusted_p: Share | None = None
    stands_out: bool = False

    @property
    def one_family(self) -> bool:
        """Whether all pairs are variants of one: such a group is not tested."""
        return self.families == 1


class ComparedScore(Struct, frozen=True):
    """The scores of one metric on the cases that both files have scores of."""

    metric: str
    mean_a: Estimate
    mean_b: Estimate
    difference: Estimate
    standard_error: float | None
    p: Share | None


class ComparedScores(Struct, frozen=True):
    """The scores of both files, or why there are none to compare."""

    metrics: tuple[ComparedScore, ...] = ()
    refused: str | None = None


class Flip(Struct, frozen=True, kw_only=True):
    """An entry that succeeded on one side only: what was asked and what each side answered, with secrets masked."""

    entry: str = field(name="id")
    where: tuple[str, str]
    judge: str | None
    prompt: Passage
    response_a: Passage
    response_b: Passage


class FlipGroup(Struct, frozen=True, kw_only=True):
    """Entries that flipped one way and have something in common, which flipped more often than all others.

    Counts are of the pairs that could flip so, given how A ended, and that no group before this one holds.
    """

    kind: Literal["field", "family", "text"]
    """What they share: the value of a field, the payload that they are variants of, or words of their prompts."""
    field: str | None
    value: str | None
    """The value of the field, or the words."""
    ids: tuple[str, ...] = ()
    """Those that flipped; the first of them is an example."""
    flipped: Count
    pairs: Count
    flipped_elsewhere: Count
    pairs_elsewhere: Count
    difference: Estimate
    """The share that flipped in the group, less that elsewhere."""
    p: Share
    """Fisher's exact test, or that over families where it is larger."""
    adjusted_p: Share
    """`p` times the number of groups looked at."""
    stands_out: bool
    """Whether that is below 1 - level, and the interval leaves out 0: a cause. The last group may be none."""
    sampled: bool = False
    """Whether prompts were compared in a random sample of the pairs, so that the counts are those of the sample."""


class Flips(Struct, frozen=True):
    """Entries that flipped one way: the ids of all, some of them to look at, and what could not be read back, why."""

    ids: tuple[str, ...] = ()
    shown: tuple[Flip, ...] = ()
    missing: dict[str, str] = {}
    groups: tuple[FlipGroup, ...] = ()
    """What they have in common, the least likely first; see `stands_out`."""
    looked_at: Count = 0
    """How many groups were looked at, both ways together."""


class UnpairedEntries(Struct, frozen=True):
    """Entries of one file that are in no pair for one reason: how many, and where the first of them stand."""

    count: Count
    where: tuple[str, ...] = ()


class Unpaired(Struct, frozen=True):
    """What could not be paired, of either file, by the reason.

    `fallback` tells whether the files share no entry, so that the figures are those of different entries.
    """

    fallback: bool
    a: dict[str, UnpairedEntries] = {}
    b: dict[str, UnpairedEntries] = {}


class CorrectedPair(Struct, frozen=True):
    """Two rates on the same entries corrected for the judge, and their difference; None where they cannot be.

    `status` is "ok", or "not_corrected" where there is no corrected difference: then `reason` says why. `p` is that of
    labels, None with a judge that was measured elsewhere, where the tests of the raw difference are those of the
    corrected one. `adjusted_p` answers for the number of pairs of files.
    """

    status: str
    method: str
    rate_a: Estimate | None
    rate_b: Estimate | None
    difference: Estimate | None
    reason: str | None = None
    sentences: tuple[str, ...] = ()
    p: Share | None = None
    adjusted_p: Share | None = None


class Pair(Figures, frozen=True):
    """Two files compared."""

    a: str
    """The path of the first file."""
    b: str
    """The path of the second."""
    labels: tuple[str, str]
    """What people call the files."""
    claim: str
    claimed: Literal["higher", "lower"] | None
    """How B is claimed to differ from A."""
    test: str | None
    """What `p` is of."""
    adjusted_p: Share | None
    """`p` answering for the number of pairs of files."""
    detectable: float | None
    """The difference that could have been shown."""
    unpaired: Unpaired
    families_told: str
    """What the intervals respect, and why."""
    notes: tuple[str, ...] = ()
    corrected: CorrectedPair | None = None
    """None where nothing is known of the judge."""
    fixed: Flips = Flips()
    broken: Flips = Flips()
    by: dict[str, tuple[ComparedGroup, ...]] = {}
    differing_values: dict[str, int] = {}
    """By field, how many pairs are in no group because the files tell different values of them."""
    scores: ComparedScores = ComparedScores()

    @property
    def shares_entries(self) -> bool:
        """Whether the files share any entry, so that the figures are those of pairs."""
        return not self.unpaired.fallback


class Overall(Struct, frozen=True):
    """Cochran's test of all files on the entries that all of them answered."""

    cochran_q: float | None
    df: Count
    p: Share | None
    entries: Count


class File(Source, frozen=True, kw_only=True):
    """A file of the comparison by itself: its outcomes, and its rate among the entries that were answered.

    `corrected` is that rate corrected for the judge, and `correction` what that rests on; None where they are not.
    """

    tally: Tally = field(name="entries")
    rate: Estimate
    shares: Shares
    corrected: Estimate | None = None
    correction: JudgeCorrection | None = None

    @property
    def answered(self) -> int:
        """Entries that were answered; a block is an answer."""
        return self.tally.judged + self.tally.guardrail


class Comparison(Document, frozen=True, kw_only=True):
    """Files compared: two or three of them pair by pair, more of them with the first, the baseline."""

    kind: Literal["comparison"] = "comparison"
    schema: Literal[2] = 2
    aim: str
    level: Share
    judge: str | None = None
    """Whose verdicts decide, see `Analysis.judge`."""
    asked: tuple[str, ...] = ()
    """The fields that `--by` named."""
    files: tuple[File, ...]
    pairs: tuple[Pair, ...]
    overall: Overall | None = None
    copies: dict[str, str] = field(default_factory=dict)
    """Files that hold the same bytes as another before them, with that one."""
    findings: tuple[Finding, ...] = ()
    limits: tuple[str, ...] = ()
    """Limits of the numbers."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files in their order, the baseline first."""
        return tuple(file.path for file in self.files)

    @property
    def damaged(self) -> bool:
        """Return whether any file had lines that could not be read, or broke off."""
        return any(item.code in DAMAGE for item in self.findings)

    def sides(self, pair: Pair) -> tuple[File, File]:
        """Return the two files of a pair."""
        files = {file.path: file for file in self.files}
        return files[pair.a], files[pair.b]
