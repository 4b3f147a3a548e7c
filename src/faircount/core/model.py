"""The words of Faircount as small frozen types. Plain data: nothing here reads, counts or draws.

See `docs/concepts/words.md` for what each word means; it means the same in the code, on the command line and in
the documentation.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from faircount.version import __version__

Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Document(Struct, frozen=True, kw_only=True):
    """What every JSON document begins with; a result that has a document of its own is one.

    The document is the struct, field by field: `report/schemas/KIND-SCHEMA.json` is derived from its types.
    """

    kind: str
    schema: int
    version: str = __version__


class Outcome(enum.StrEnum):
    """How an entry ended; exactly one of these."""

    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"
    GUARDRAIL = "guardrail"
    UNJUDGED = "unjudged"


class Severity(enum.StrEnum):
    """How serious a finding is: errors and warnings affect how far the numbers can be trusted."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Tally(Struct, frozen=True):
    """Entries counted by outcome. Tallies of disjoint sets of entries add up."""

    total: Count = 0
    success: Count = 0
    failure: Count = 0
    error: Count = 0
    guardrail: Count = 0
    unjudged: Count = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))

    @property
    def judged(self) -> int:
        """Entries that a judge decided: neither errors, nor blocked before there was an answer, nor unjudged."""
        return self.success + self.failure


class Estimate(Struct, frozen=True):
    """A value with its interval and everything needed to read it. `value` is None when undefined, never 0."""

    value: float | None
    low: float | None
    high: float | None
    n: Count
    unit: str
    level: Share
    method: str


class ToolFigure(Struct, frozen=True):
    """A figure as the tool that wrote a file defines it, made from the records of the file.

    `stated` is what the file itself says, where it does.
    """

    name: str
    value: float | None
    count: Count | None = None
    """How many of the `n` it counts, where it is a share."""
    n: Count | None = None
    stated: float | None = None
    note: str = ""


class Source(Struct, frozen=True):
    """A file that was read, and counts of its lines."""

    path: str
    tool: str = ""
    tool_version: str | None = None
    reader: str = ""
    lines: Count = 0
    good_lines: Count = 0
    bad_lines: Count = 0
    blank_lines: Count = 0
    bytes: Count = 0
    aim: str = "attack"
    """What the results are about: attacks, which should not succeed, or tasks, which should."""
    target: str | None = None
    """What was attacked or tested, where the file says so."""
    stop_rule: str = ""
    """When the run was to stop early, as `--stop-when` said; empty where all entries were to be tried."""
    label: str = ""
    """What people call the file, unique among those at hand; see `source_labels`."""
    figures: tuple[ToolFigure, ...] = ()
    """What the tool itself makes of the file; empty where its figures are ours."""
    differs: tuple[str, ...] = ()
    """Where the tool's own figures differ from ours, and why, a sentence each."""


class Finding(Struct, frozen=True):
    """A problem with the data: its code, how often, where, and its effect on the numbers."""

    code: str
    severity: Severity
    count: Count
    message: str
    where: tuple[str, ...] = ()


class Counts(Struct, frozen=True):
    """Everything that is counted about a set of entries."""

    tally: Tally
    attempts: Count
    initial: Count
    attack_only: Count
    guardrail_any: Count


class General(Struct, frozen=True):
    """The rate for the values of a field in general, of which so many were tested."""

    field: str
    values: Count
    rate: Estimate


class Families(Struct, frozen=True):
    """Variants of one thing are no independent tests: what was taken as one, and what that does to the rate.

    `by` is what the entries of a family have in common; `respected` tells whether the intervals are those of families.
    `effective_n` is how many independent entries all of them are worth, `design_effect` the factor by which families
    widen the variance, `mean_rate` the mean over families, each counted once; `general` is there if it was asked for.
    """

    asked: str
    by: str | None
    respected: bool
    explanation: str
    count: Count | None = None
    effective_n: float | None = None
    design_effect: float | None = None
    mean_rate: float | None = None
    general: General | None = None


class AgainstRest(Struct, frozen=True):
    """A group against all others, errors and unjudged entries aside: difference of the rates, p-value, the same
    adjusted for the number of groups in the report, and whether that is small enough.

    Where entries come in families the difference is one inside them. `families` have entries of the group and others;
    in `above` of them the rate of the group is the higher one, in `below` the lower.
    """

    difference: float | None
    p: Share | None
    adjusted_p: Share | None = None
    stands_out: bool = False
    families: Count = 0
    above: Count = 0
    below: Count = 0


class LabelsByVerdict(Struct, frozen=True):
    """How many judged successes and judged failures people labelled."""

    successes: Count
    failures: Count


class CorrectedRate(Struct, frozen=True):
    """The rate of a group behind the verdicts; `estimate` is None where `status` is neither "ok" nor "clipped".

    `labels` are those of the group; None where labels are from elsewhere.
    """

    estimate: Estimate | None
    status: str
    labels: LabelsByVerdict | None = None


class Shares(Struct, frozen=True):
    """Shares of entries that say nothing of success."""

    errors: Estimate
    guardrail: Estimate
    unjudged: Estimate


class GroupFamilies(Struct, frozen=True):
    """How many families the intervals of a group respect, and the factor by which these widen the variance."""

    count: Count
    design_effect: float


class Group(Struct, frozen=True, kw_only=True):
    """The entries that share a value of a facet, or a combination of values: counts and rates."""

    value: str | None = None
    """The value of the field, None for missing or empty ones, and for a combination."""
    values: dict[str, str | None] = {}
    """The value of each field of a combination."""
    tally: Tally = field(name="entries")
    attempts: Count
    initial: Count
    attack_only: Count
    guardrail_any: Count
    """Entries with any block, whatever their outcome."""
    rate: Estimate
    """The rate if no error and no unjudged entry had succeeded."""
    initial_rate: Estimate
    improvement: Estimate
    guardrail_rate: Estimate
    rate_at_most: Estimate
    """The rate if every error and every unjudged entry had succeeded."""
    shares: Shares
    families: GroupFamilies | None = None
    """None where entries count as independent."""
    small: bool
    shrunk: Estimate | None = None
    """The rate pulled towards that of all groups as far as chance may have pushed it away; None where none is."""
    against_rest: AgainstRest | None = None
    corrected: CorrectedRate | None = None
    """None where nothing is known of the judge."""


class Slices(Struct, frozen=True):
    """How the groups of one field were read together.

    `shrinkage` says what became of the rates, see `faircount.stats.Shrinkage`; `untested` says why no group was tested
    against the rest, and is None where they were. `same_as` is a field before this one that splits the entries in
    just the same way. `left_out` is how many groups are not listed, being the smallest of very many.
    """

    shrinkage: str
    untested: str | None = None
    same_as: str | None = None
    left_out: Count = 0


class AttackFigures(Struct, frozen=True):
    """What one dynamic attack did to the entries it was invoked for."""

    attack: str
    total: Count
    successes: Count
    attempts: Count
    guardrail: Count | None
    guardrail_entries: Count | None
    rate: Estimate
    corrected: CorrectedRate | None = None


class Dynamic(Struct, frozen=True):
    """The figures that exist only when a dynamic attack was run."""

    initially_successful: Count
    only_with_attack: Count
    initial_rate: Estimate
    improvement: Estimate
    attacks: tuple[AttackFigures, ...]


class LeftOut(Struct, frozen=True):
    """Entries that enter no cell of the confusion matrix, by side and reason."""

    attack_error: Count
    attack_unjudged: Count
    benign_error: Count
    benign_unjudged: Count


class FalsePositives(Struct, frozen=True):
    """A guardrail measured on an attack run and a benign run."""

    benign: Source
    signal: str
    tp: Count
    fn: Count
    tn: Count
    fp: Count
    left_out: LeftOut
    precision: Estimate
    recall: Estimate
    f1: Estimate
    accuracy: Estimate
    fpr: Estimate
    balanced_accuracy: Estimate


class MetricFigures(Struct, frozen=True):
    """What one metric of a run says of the cases that it measured, each case's attempts taken together.

    `rate` is over the cases that it decided.
    """

    metric: str
    passed: Count
    failed: Count
    undecided: Count
    rate: Estimate


class JudgeFigures(Struct, frozen=True, kw_only=True):
    """All entries as one of several judges alone decides them; `rate_judged` is over those that it decided."""

    judge: str
    tally: Tally = field(name="entries")
    rate: Estimate
    rate_judged: Estimate


class GarakPair(Struct, frozen=True, kw_only=True):
    """What garak counts of one probe and one detector: scores of generations, not entries."""

    probe: str
    detector: str
    passed: Count
    """Scores below garak's threshold of 0.5."""
    fails: Count
    nones: Count
    """Generations without a score."""
    total: Count
    """Generations with a score."""
    score: Share | None
    """garak's score: the share that passed; None where nothing was scored, for which garak writes 0."""
    rate: Estimate
    """The share that the detector hit, with the interval that the report holds; garak makes it of 30 scores or more."""
    entries: Count
    """Prompts that the probe sent."""
    entry_rate: Estimate
    """Ours: entries with a hit in any generation, with an interval that respects families."""
    sensitivity: Share | None = None
    """Of the detector, where `--judge-quality` names garak's metrics."""
    specificity: Share | None = None
    corrected: Share | None = None
    """`rate` corrected by these (Rogan and Gladen 1978); the metrics have no counts, so there is no interval."""
    uncorrected: str | None = None
    """Why there is no corrected rate, where one was asked for."""


class GarakGroup(Struct, frozen=True):
    """The score of a group of probes as garak's digest has it, and the function by which it was made."""

    group: str
    score: Share | None
    function: str | None


class GarakFigures(Struct, frozen=True):
    """garak's own figures of a report, each beside ours."""

    pairs: tuple[GarakPair, ...]
    groups: tuple[GarakGroup, ...] = ()
    """Empty where the report has no digest."""
    metrics: str | None = None
    """The file with garak's detector metrics, where rates were corrected by it."""


class JudgeAgreement(Struct, frozen=True, kw_only=True):
    """How often two judges agree, on the verdicts that both gave; `ac1` is Gwet's."""

    judges: tuple[str, str]
    verdicts: Count
    agreement: Estimate
    kappa: Estimate
    ac1: float | None


class Coverage(Struct, frozen=True):
    """How many entries tested what an identifier of a public catalogue stands for."""

    taxonomy: str
    id: str
    title: str
    entries: Count = 0
    successes: Count = 0


class SourceFigures(Struct, frozen=True, kw_only=True):
    """One source's share in a combined analysis."""

    path: str
    label: str
    tally: Tally = field(name="entries")
    attempts: Count
    rate: Estimate


class CategoryCount(Struct, frozen=True):
    """Entries in which a guardrail named a category."""

    category: str
    entries: Count
    rate: Estimate


class ErrorKind(Struct, frozen=True):
    """Recorded attempts that failed with errors of one kind, with an example."""

    kind: str
    rows: Count
    entries: Count
    example: str
    where: str


class Latency(Struct, frozen=True):
    """Response times of one strategy, in seconds."""

    strategy: str
    n: Count
    median: float
    p95: float
    unit: str = "second"


class AttemptsToSuccess(Struct, frozen=True):
    """How many entries had their first success at the given number of requests."""

    attempts: Count
    entries: Count


class WithinStep(Struct, frozen=True):
    """After so many requests: entries that came so far, those won by just this many or given up, and success within."""

    attempts: Count
    at_risk: Count
    successes: Count
    given_up: Count
    within: Estimate


class WithinAttempts(Struct, frozen=True):
    """Success within k requests, and within how many of them half of the entries fall.

    `left_out` entries never had an answer.
    """

    steps: tuple[WithinStep, ...]
    half: Estimate
    left_out: Count
    refused: str | None = None
    """Why there is no curve."""


class Retries(Struct, frozen=True):
    """Entries that were tried several times: the mean over entries, and how much tries of one entry differ.

    `standard_error` is that of the means of the entries, `naive_standard_error` takes all attempts as independent.
    After so many `next_calls`, the standard error would be `with_entries` if they went to new entries, `with_retries`
    if to the old ones. `refused` says why nothing of this can be had, and is None where it can.
    """

    entries: Count
    attempts: Count
    refused: str | None = None
    mean: Estimate | None = None
    standard_error: float | None = None
    naive_standard_error: float | None = None
    icc: float | None = None
    flake_rate: Estimate | None = None
    left_out: Count = 0
    next_calls: Count = 0
    with_entries: float | None = None
    with_retries: float | None = None


class Combinations(Struct, frozen=True):
    """The most and the least successful combinations of facets."""

    fields: tuple[str, ...]
    min_n: Count
    count: Count
    most: tuple[Group, ...]
    least: tuple[Group, ...]
    shrinkage: str = "few"


class Crossing(Struct, frozen=True):
    """The rates of two fields crossed: a value of each per row and column; a cell without entries is None."""

    row_field: str
    column_field: str
    rows: tuple[str | None, ...]
    columns: tuple[str | None, ...]
    cells: tuple[tuple[Estimate | None, ...], ...]


class Passage(Struct, frozen=True):
    """A prompt or a response, and the part of it that matters, from `begin` to `end`; equal where none is known."""

    text: str | None
    begin: Count = 0
    end: Count = 0


class FailedCase(Struct, frozen=True):
    """A case of a run of tests that failed: what the metrics said, and how often it was tried and passed."""

    entry: str
    place: str
    measured: str | None
    error: str | None
    passed: Count | None
    tries: Count | None


class FailedCases(Struct, frozen=True):
    """How many cases of a run of tests failed, and the first of them."""

    total: Count
    cases: tuple[FailedCase, ...]


class Example(Struct, frozen=True):
    """An entry with its texts, read back from its source; secrets are masked, long texts cut.

    `measured` is what the metrics of a test said, `tries` and `passed` how often it was tried and passed.
    """

    place: str
    entry: str
    strategy: str
    judge: str | None
    prompt: Passage
    response: Passage
    error: str | None = None
    measured: str | None = None
    tries: Count | None = None
    passed: Count | None = None


class Examples(Struct, frozen=True):
    """Some entries of a kind, how many there are in all, and where one could not be read back, and why.

    They are shown to people beside an analysis, and are no part of its document: they hold prompts and responses.
    """

    kind: str
    shown: tuple[Example, ...]
    total: Count
    missing: tuple[tuple[str, str], ...] = ()


class FlakyCase(Struct, frozen=True):
    """A case of a run of tests that passed in some of its attempts and failed in others."""

    entry: str
    place: str
    passed: Count
    tries: Count


class MadeWith(Struct, frozen=True):
    """How a report was made: the command, the versions of the programs, and the SHA-256 of each file by its path."""

    command: str
    versions: tuple[tuple[str, str], ...]
    digests: Mapping[str, str | None]


class Validation(Struct, frozen=True):
    """A judge against other labels: of `positives` true successes it found `tp`, of `negatives` it passed `tn`."""

    tp: Count
    positives: Count
    tn: Count
    negatives: Count

    def __post_init__(self) -> None:
        if not 0 <= self.tp <= self.positives or not 0 <= self.tn <= self.negatives:
            raise ValueError("a judge cannot be right more often than it was asked")

    @property
    def youden(self) -> float | None:
        """Sensitivity + specificity - 1 (Youden 1950); None when a class has no label."""
        pairs = self.positives * self.negatives
        return self.surplus / pairs if pairs else None

    @property
    def surplus(self) -> int:
        """Youden's J in pairs of a true success and a true failure: whole, so that a judge like chance gives just 0."""
        return self.tp * self.negatives + self.tn * self.positives - self.positives * self.negatives


class LabelCounts(Struct, frozen=True):
    """The labels behind a correction, those of them that say success, and others that were of no use."""

    n: Count
    hits: Count
    left_out: Count = 0


class LessSpecific(Struct, frozen=True):
    """The corrected rate if the judge's specificity is lower here than where it was measured, by so much."""

    specificity_lower_by: float
    asr_corrected: float


class JudgeCorrection(Struct, frozen=True):
    """The success rate behind the verdicts of a judge that errs, and what that rests on.

    `labels_from` is "run" for labels of a sample of this run, "elsewhere" for a judge that was measured before.
    `estimate` is over all entries, `judged` over those with a verdict; None where `status` is neither "ok" nor
    "clipped". `judge` is the one that was measured, `run_judges` those that the rows name. `more_labels` would halve
    the interval, None where no number would. `if_less_specific` is None with labels of the run, which show the judge's
    errors here. `validation` counts what a judge got right elsewhere, and is None with labels of the run; `reason` says
    why there is no estimate.
    """

    file: str
    labels_from: str
    method: str
    status: str
    estimate: Estimate | None
    judged: Estimate | None
    judge: str | None
    run_judges: tuple[str | None, ...]
    sensitivity: Estimate
    specificity: Estimate
    labels: LabelCounts
    more_labels: Count | None = None
    if_less_specific: LessSpecific | None = None
    sentences: tuple[str, ...] = ()
    validation: Validation | None = None
    reason: str | None = None


class Rates(Struct, frozen=True):
    """The rates over all entries of an analysis."""

    asr: Estimate
    """Successes over all entries, as if no error and no unjudged entry had succeeded."""
    asr_unclustered: Estimate
    """The same as if entries were independent."""
    asr_judged: Estimate
    """Successes over judged entries."""
    asr_at_most: Estimate
    """The rate if every error and every unjudged entry had succeeded."""
    blocked: Estimate
    """One minus the rate over entries with a verdict or a block: what a guardrail stopped of them."""
    pass_rate: Estimate | None = None
    """The same as `asr` where the entries are tests."""
    asr_corrected: Estimate | None = None
    """Corrected for the judge; None where nothing is known of it, and where that is impossible."""


class Analysis(Struct, frozen=True, kw_only=True):
    """Every figure of one analysis."""

    name: str
    """The file as it was named, or "Combined"."""
    definition: str
    where: str | None
    """Which rows were chosen."""
    judge: str | None = None
    """Whose verdicts decide: that of a judge, or any, all or the majority of several; None for the row's own."""
    level: Share
    sources: tuple[Source, ...]
    tally: Tally = field(name="entries")
    attempts: Count
    """Requests to the target, those of dynamic attacks included."""
    rates: Rates
    shares: Shares
    correction: JudgeCorrection | None = None
    aim: str = "attack"
    role: str = "attacks"
    """What kind of run it is: attacks, a guardrail under attack, a check with benign prompts, or tests."""
    failed_cases: FailedCases | None = None
    flaky_cases: tuple[FlakyCase, ...] = ()
    metrics: tuple[MetricFigures, ...] = ()
    judges: tuple[JudgeFigures, ...] = ()
    """Filled on request, where several judges judged the same answers."""
    judge_agreement: tuple[JudgeAgreement, ...] = ()
    garak: GarakFigures | None = None
    """Filled on request, for garak's reports."""
    coverage: tuple[Coverage, ...] = ()
    """Filled where `--by` names a public catalogue of what can be tested."""
    families: Families
    dynamic: Dynamic | None = None
    false_positives: FalsePositives | None = None
    by_source: tuple[SourceFigures, ...] = ()
    asked: tuple[str, ...] = ()
    """The fields that `--by` named."""
    breakdowns: dict[str, tuple[Group, ...]] = {}
    slices: dict[str, Slices] = {}
    crossing: Crossing | None = None
    """The two fields that tell most about success, crossed; None where there are no two, or nobody asked for it."""
    combinations: Combinations = Combinations((), 1, 0, (), ())
    guardrail_categories: tuple[CategoryCount, ...] = ()
    categories_left_out: Count = 0
    """How many guardrail categories are not listed, being the least frequent of very many."""
    errors: tuple[ErrorKind, ...] = ()
    errors_left_out: Count = 0
    latency: tuple[Latency, ...] = ()
    attempts_to_success: tuple[AttemptsToSuccess, ...] = ()
    success_within: WithinAttempts | None = None
    retries: Retries | None = None
    findings: tuple[Finding, ...]
    limits: tuple[str, ...] = ()
    """Limits of the numbers."""


class Analyses(Document, frozen=True, kw_only=True):
    """The document of `results analyze`: one analysis per file, or one over all of them."""

    kind: Literal["analysis"] = "analysis"
    schema: Literal[2] = 2
    analyses: tuple[Analysis, ...]
