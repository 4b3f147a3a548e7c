"""What a comparison finds out, as plain data. A difference is always B - A, and a success counts whatever the aim."""

from __future__ import annotations

from msgspec import Struct

from faircount.model import Estimate, Finding, JudgeCorrection, Passage, Shares, Source, Tally


class Table(Struct, frozen=True):
    """Pairs of entries by who succeeded."""

    both: int = 0
    only_a: int = 0
    only_b: int = 0
    neither: int = 0

    @property
    def paired(self) -> int:
        """All pairs."""
        return self.both + self.only_a + self.only_b + self.neither

    @property
    def differing(self) -> int:
        """Pairs of which one succeeded."""
        return self.only_a + self.only_b


class Figures(Struct, frozen=True):
    """Two rates on the same entries and their difference.

    `families` is how many families the intervals respect, None where entries count as independent. There is one p-value
    for the difference: McNemar's exact one where entries are independent, else `families_p`, the larger of that and of
    the t over families with so many `degrees` of freedom. Of different entries it is Fisher's, or that of families.
    `effective_n` is how many independent pairs these are worth, or entries of either file where these share none.
    `undecided` pairs are not among them, since an entry ended in an error or was not judged; `bounds` are the figures
    with these pairs, first such that B - A is lowest (A's had succeeded, B's had failed), then such that it is highest.
    None where there are none.
    """

    table: Table
    rate_a: Estimate
    rate_b: Estimate
    difference: Estimate
    mcnemar_p: float | None
    mid_p: float | None = None
    odds_ratio: Estimate | None = None
    families: int | None = None
    families_p: float | None = None
    effective_n: float | None = None
    degrees: float | None = None
    fisher_p: float | None = None
    undecided: int = 0
    bounds: tuple[Figures, Figures] | None = None

    @property
    def p(self) -> float | None:
        """The p-value that goes with the interval of the difference."""
        if self.families is not None:
            return self.families_p
        return self.fisher_p if self.mcnemar_p is None else self.mcnemar_p


class Group(Struct, frozen=True):
    """The pairs that share a value of a field; `adjusted_p` answers for all groups of the comparison."""

    value: str | None
    figures: Figures
    adjusted_p: float | None
    stands_out: bool
    small: bool

    @property
    def one_family(self) -> bool:
        """Whether all pairs are variants of one: such a group is not tested."""
        return self.figures.families == 1


class Breakdown(Struct, frozen=True):
    """The groups of a field, and how many pairs are in none because the files tell different values of them."""

    field: str
    groups: tuple[Group, ...]
    differing: int = 0
    asked: bool = False
    """Whether it was asked for by name."""


class Score(Struct, frozen=True):
    """The scores of one metric on the cases that both files have scores of."""

    metric: str
    mean_a: Estimate
    mean_b: Estimate
    difference: Estimate
    standard_error: float | None
    p: float | None


class Scores(Struct, frozen=True):
    """The scores of both files, or why there are none to compare."""

    metrics: tuple[Score, ...] = ()
    refused: str = ""


class Flip(Struct, frozen=True):
    """An entry that succeeded on one side only: what was asked and what each side answered, with secrets masked."""

    entry: str
    place_a: str
    place_b: str
    judge: str | None
    prompt: Passage
    response_a: Passage
    response_b: Passage


class Flips(Struct, frozen=True):
    """Entries that flipped one way: the ids of all, some of them to look at, and what could not be read back, why."""

    ids: tuple[str, ...] = ()
    shown: tuple[Flip, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()


class LeftOut(Struct, frozen=True):
    """Entries of one file that are in no pair for one reason: how many, and where the first of them stand."""

    reason: str
    count: int
    where: tuple[str, ...] = ()


class Unpaired(Struct, frozen=True):
    """What could not be paired, of either file."""

    a: tuple[LeftOut, ...]
    b: tuple[LeftOut, ...]


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
    reason: str = ""
    sentences: tuple[str, ...] = ()
    p: float | None = None
    adjusted_p: float | None = None


class Pair(Struct, frozen=True):
    """Two files compared; `a` and `b` are their places among the files.

    `paired` is False where the files share no entry: then the figures are those of different entries. `test` says what
    `p` is of. `adjusted_p` answers for the number of pairs of files. `claimed` is the sign of the difference that is
    claimed, 0 for none; `detectable` is the difference that could have been shown. `corrected` is None where nothing
    is known of the judge.
    """

    a: int
    b: int
    paired: bool
    figures: Figures
    p: float | None
    test: str
    adjusted_p: float | None
    claimed: int
    claim: str
    detectable: float | None
    fixed: Flips
    broken: Flips
    by: tuple[Breakdown, ...]
    scores: Scores
    unpaired: Unpaired
    families: str
    notes: tuple[str, ...] = ()
    corrected: CorrectedPair | None = None


class Overall(Struct, frozen=True):
    """Cochran's test of all files on the entries that all of them answered."""

    cochran_q: float | None
    df: int
    p: float | None
    entries: int


class File(Struct, frozen=True):
    """A file of the comparison by itself: its outcomes, and its rate among the entries that were answered.

    `corrected` is that rate corrected for the judge, and `correction` what that rests on; None where they are not.
    """

    source: Source
    tally: Tally
    rate: Estimate
    shares: Shares
    corrected: Estimate | None = None
    correction: JudgeCorrection | None = None

    @property
    def label(self) -> str:
        """What people call the file."""
        return self.source.label

    @property
    def answered(self) -> int:
        """Entries that were answered; a block is an answer."""
        return self.tally.judged + self.tally.guardrail


class Comparison(Struct, frozen=True):
    """Files compared: two or three of them pair by pair, more of them with the first, the baseline."""

    aim: str
    level: float
    files: tuple[File, ...]
    pairs: tuple[Pair, ...]
    overall: Overall | None
    copies: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]
    limits: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The files in their order, the baseline first."""
        return tuple(file.source.path for file in self.files)

    @property
    def damaged(self) -> bool:
        """Tell whether any file had lines that could not be read, or broke off."""
        return any(item.code in ("F001", "F002") for item in self.findings)
