"""The options of the commands about results and judges. The command line needs them early: nothing heavy is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from faircount.core.definition import DEFINITIONS, FAIRCOUNT, Definition
from faircount.core.errors import UsageError
from faircount.core.options import MAX_LINE_BYTES, Option, Options

if TYPE_CHECKING:
    from faircount.readers.registry import ReadAs
    from faircount.readers.rows import ReadOptions

BYPASSED, DETECTED = GUARDRAIL_MEANINGS = ("bypassed", "detected")
VERDICT, RAISED = BLOCK_SIGNALS = ("verdict", "raised")
SORTS = ("rate", "total", "name", "shrunk")
CORRECTIONS = ("two-phase", "ppi")
EVIDENCE = ("successes", "failures", "errors", "blocks")
AUTO, NONE = "auto", "none"
ATTACKS = "attacks"
JUDGE = "judge"
MATCHES = (AUTO, "prompt", "id")
LAST, EACH = "last", "each"
TURNS = (AUTO, LAST, EACH)
CUSTOM = "custom"
CATEGORIES = ("success", "failure", "fail", "errors", "error", "guardrail", "no-guardrail", CUSTOM)
"""What --category may be; fail and failure are one, errors and error, too."""
EXPORTS = ("jsonl", "csv", "parquet", "xlsx", "html")
GT, LT = SUCCESS_DEFINITIONS = ("gt", "lt")
TAXONOMIES = frozenset(["owasp", "atlas"])
"""What `--by` may name beside the fields of files: public catalogues of what can be tested."""
ALL = -1
"""A number that means all entries."""

_SAME_CATEGORY = {"errors": "error", "fail": "failure"}


def read_evidence(text: str) -> tuple[str, int]:
    """Return what --evidence asks for: a kind of entries, empty for the bad news, and how many of them."""
    kind, equals, number = text.partition("=")
    if not equals and text.isdecimal():
        kind, number = "", text
    number = number if equals or not kind else "5"
    if kind not in ("", *EVIDENCE) or not number.isdecimal():
        raise ValueError(f"{text!r} is not valid; use {', '.join(EVIDENCE)}, optionally with =N, or N alone")
    return kind, int(number)


# -- options that several commands have ---------------------------------------------------------------------------

Combine = Annotated[bool, Option("one analysis over all files, with a table per source", "counting")]
Together = Annotated[bool, Option("count all files together, as analyze --combine does", "counting")]
CountedBy = Annotated[
    str,
    Option(
        "definitions to count by",
        "counting",
        choices=tuple(name for name, rules in DEFINITIONS.items() if not rules.beside_ours),
    ),
]
AnalyzedBy = Annotated[
    str,
    Option(
        "; ".join(["definitions to count by", *(one.help for one in DEFINITIONS.values() if one.help)]),
        "counting",
        choices=tuple(DEFINITIONS),
    ),
]
GuardrailSuccess = Annotated[
    str,
    Option(
        "meaning of true for a boolean guardrail; detected in spikee 0.1",
        "counting",
        choices=GUARDRAIL_MEANINGS,
    ),
]
PolicyBlocks = Annotated[
    bool,
    Option("count refusals by a provider's policy as errors, as in spikee", "counting"),
]
Level = Annotated[float, Option("confidence level of the intervals", "counting", metavar="P", above=0, below=1)]
Cluster = Annotated[
    str,
    Option(
        "field that defines families; auto: document and instruction, or suite; none: independent entries",
        "counting",
        metavar="FIELD|auto|none",
    ),
]
JudgeQuality = Annotated[
    str | None,
    Option(
        "correct rates by labels for a sample of these entries (JSONL, CSV or xlsx), other labels, or a summary of "
        "judges",
        "judge errors",
        metavar="SUMMARY|LABELS",
    ),
]
Correction = Annotated[
    str,
    Option(
        "method for labels of these entries; ppi is PPI++, for labels drawn at random",
        "judge errors",
        choices=CORRECTIONS,
    ),
]


Aim = Annotated[
    str | None,
    Option(
        "meaning of success: bad news for an attack, good news for a task",
        "counting",
        choices=("attack", "task"),
        default="set by the format",
    ),
]


Judge = Annotated[
    str | None,
    Option(
        "which of several judges decides",
        "counting",
        metavar="NAME|any|all|majority",
        default="set by the format",
    ),
]


class ReadingOptions(Options, frozen=True, kw_only=True):
    """How result files are read."""

    max_line: Annotated[int, Option("skip and report lines longer than this", "input", metavar="BYTES", least=1)] = (
        MAX_LINE_BYTES
    )
    cache: Annotated[bool, Option("re-read large files, and cache nothing", "input")] = True
    aim: Aim = None
    format: Annotated[
        str | None,
        Option(
            "format of the files, or name of a map in faircount.toml",
            "input",
            metavar="NAME",
            default="recognised by content",
        ),
    ] = None
    map: Annotated[
        tuple[str, ...],
        Option(
            "columns of a table by role: id=case,success=jailbroken,prompt=goal",
            "input",
            metavar="ROLE=COLUMN,…",
        ),
    ] = ()
    success_threshold: Annotated[
        float | None,
        Option(
            "lowest score that is a success, for files without verdicts",
            "input",
            metavar="SCORE",
            default="0.5 on a scale from 0 to 1",
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        refusal = self.rules.refusal(self)
        if refusal:
            raise UsageError(refusal)

    @property
    def rules(self) -> Definition:
        """The definition that is counted by."""
        return DEFINITIONS[getattr(self, "definition", FAIRCOUNT.name)]

    @property
    def reading(self) -> ReadOptions:
        """How the lines of files become rows."""
        from faircount.readers.rows import ReadOptions

        detected = getattr(self, "guardrail_success", BYPASSED) == DETECTED
        blocks = getattr(self, "policy_blocks", True) and self.rules.refusals_are_blocks
        return ReadOptions(
            self.max_line,
            detected,
            policy_blocks=blocks,
            aim=self.aim,
            verdicts=getattr(self, "wants_verdicts", False),
        )

    @property
    def read_as(self) -> ReadAs:
        """What is said of the files that they do not say themselves."""
        from faircount.readers.registry import ReadAs

        columns = tuple(one for given in self.map for one in given.split(",") if one.strip())
        return ReadAs(self.aim, self.format, columns, self.success_threshold)

    @property
    def others(self) -> tuple[str, ...]:
        """The files that are read beside the inputs."""
        return ()

    @property
    def analyzed(self) -> AnalyzeOptions:
        """How entries are counted: as an analysis with the same options counts them."""
        shared = set(self.__struct_fields__) & set(AnalyzeOptions.__struct_fields__)
        return AnalyzeOptions(**{name: getattr(self, name) for name in shared})


# -- the commands -------------------------------------------------------------------------------------------------


class AnalyzeOptions(ReadingOptions, frozen=True, kw_only=True):
    """Options of `results analyze`."""

    combine: Combine = False
    where: Annotated[
        str | None, Option("only rows that match a query, such as 'lang = de'", "counting", metavar="QUERY")
    ] = None
    false_positive_checks: Annotated[
        str | None,
        Option("run on benign prompts, to measure a guardrail", "counting", metavar="BENIGN_FILE"),
    ] = None
    judge: Judge = None
    guardrail_success: GuardrailSuccess = BYPASSED
    block_signal: Annotated[
        str,
        Option(
            "what counts as blocked; verdict: a false verdict or a raised guardrail; raised: only the latter",
            "counting",
            choices=BLOCK_SIGNALS,
        ),
    ] = VERDICT
    definition: AnalyzedBy = FAIRCOUNT.name
    policy_blocks: PolicyBlocks = True
    level: Level = 0.95
    cluster: Cluster = AUTO
    generalise: Annotated[
        str | None,
        Option(
            "add an interval for untested values of this field; attacks means jailbreak types",
            "counting",
            metavar="FIELD|attacks",
        ),
    ] = None
    min_n: Annotated[
        int, Option("rank only combinations with at least N entries", "counting", metavar="N", least=1)
    ] = 1
    judge_quality: JudgeQuality = None
    correction: Correction = CORRECTIONS[0]
    overview: Annotated[bool, Option("show only the overview", "display")] = False
    by: Annotated[
        tuple[str, ...],
        Option(
            "break down by this field; also attack, document, judge, owasp (its Top 10 for LLMs), atlas (MITRE)",
            "display",
            metavar="FIELD",
        ),
    ] = ()
    sort: Annotated[str, Option("order of the groups", "display", choices=SORTS)] = SORTS[0]
    evidence: Annotated[
        tuple[tuple[str, int], ...],
        Option(
            "show the texts of N successes, failures, errors or blocks; N alone: successful attacks or failed tests",
            "display",
            metavar="KIND[=N]",
            default="5 in html, else none",
            read=read_evidence,
        ),
    ] = ()
    """Kinds of entries to show with their texts, and how many of each; the kind "" is the bad news of the aim."""
    details: bool = True
    """Whether more than the general figures are wanted."""
    figures: bool = False

    @property
    def wants_verdicts(self) -> bool:
        """Whether single verdicts are asked for, and not only what rows were folded into."""
        return self.judge is not None or self.rules.needs_verdicts or (self.details and JUDGE in self.by)

    def __post_init__(self) -> None:
        super().__post_init__()
        for kind, limit in self.evidence:
            if kind not in ("", *EVIDENCE):
                raise UsageError(f"--evidence must be one of {', '.join(EVIDENCE)}, not {kind!r}")
            if limit < 0:
                raise UsageError(f"--evidence must be 0 or more entries, not {limit}")


class CompareOptions(ReadingOptions, frozen=True, kw_only=True):
    """Options of `results compare`."""

    baseline: Annotated[str | None, Option("file to compare the others with (A)", "comparison", metavar="FILE")] = None
    match: Annotated[
        str,
        Option(
            "match entries by id and prompt, or by id; auto: by id if ids match but most prompts differ",
            "comparison",
            choices=MATCHES,
        ),
    ] = AUTO
    judge: Judge = None
    guardrail_success: GuardrailSuccess = BYPASSED
    policy_blocks: PolicyBlocks = True
    cluster: Cluster = AUTO
    level: Level = 0.95
    judge_quality: JudgeQuality = None
    correction: Correction = CORRECTIONS[0]
    by: Annotated[
        tuple[str, ...],
        Option("show differences by this field", "display", metavar="FIELD", default="every field that all files have"),
    ] = ()
    flips: Annotated[int, Option("show N fixed and N broken entries", "display", metavar="N", least=0)] = 5

    @property
    def analyzed(self) -> AnalyzeOptions:
        """How the entries of each file are counted; a correction is made for pairs of files."""
        from msgspec.structs import replace

        return replace(super().analyzed, judge_quality=None)

    @property
    def read_as(self) -> ReadAs:
        """What is said of the files that they do not say themselves."""
        from faircount.readers.registry import ReadAs

        columns = tuple(one for given in self.map for one in given.split(",") if one.strip())
        return ReadAs(self.aim, self.format, columns, self.success_threshold)

    @property
    def others(self) -> tuple[str, ...]:
        """The files that are read beside the inputs."""
        return () if self.baseline is None else (self.baseline,)

    @property
    def alpha(self) -> float:
        """How often a claim may be made where there is no difference."""
        return 1 - self.level


class CheckOptions(ReadingOptions, frozen=True, kw_only=True):
    """Options of `results check`."""

    combine: Together = False
    guardrail_success: GuardrailSuccess = BYPASSED
    policy_blocks: PolicyBlocks = True
    warnings: Annotated[bool, Option("exit with 1 on warnings, too", "severity")] = False


class ShowOptions(ReadingOptions, frozen=True, kw_only=True):
    """Options of `results show`."""

    combine: Together = False
    guardrail_success: GuardrailSuccess = BYPASSED
    policy_blocks: PolicyBlocks = True
    xray: Annotated[
        bool,
        Option(
            "list invisible characters, look-alikes, escape sequences, layers of coding, and addresses",
            "display",
        ),
    ] = False


class SelectOptions(ReadingOptions, frozen=True, kw_only=True):
    """How rows are selected by a category, a query or search terms. `query` is another word for `where`."""

    category: str | None = None
    where: str | None = None
    query: str | None = None
    custom_search: tuple[str, ...] = ()
    ignore_case: bool = False
    regex: bool = False
    entries: bool = False
    definition: CountedBy = FAIRCOUNT.name
    policy_blocks: PolicyBlocks = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.where is not None and self.query is not None:
            raise UsageError("--query is spikee's word for --where: use one of them, and join conditions with and")
        if self.category == CUSTOM and not self.custom_search:
            raise UsageError("--category custom needs a term: give --custom-search, once for each condition")
        if self.custom_search and self.category not in (None, CUSTOM):
            raise UsageError(
                f"--custom-search goes with --category custom, not with {self.category}; "
                "a category and a condition together: --category with --where"
            )
        if self.regex and not self.custom_search:
            raise UsageError("--regex is about the terms of --custom-search; in a query, use matches")
        if self.ignore_case and not self.custom_search and self.where is None and self.query is None:
            raise UsageError("--ignore-case is about --where and --custom-search; categories have no case")

    @property
    def rows_of(self) -> str | None:
        """The category of the rows; none where a query alone says which rows are meant."""
        return None


class ExtractOptions(SelectOptions, frozen=True, kw_only=True):
    """Options of `results extract`."""

    category: Annotated[
        str | None,
        Option(
            "rows of one category; failure (or fail) excludes errors",
            "selection",
            choices=CATEGORIES,
            default="success, unless rows are selected otherwise",
        ),
    ] = None
    where: Annotated[str | None, Option("rows that match a query", "selection", metavar="QUERY")] = None
    query: Annotated[str | None, Option("spikee's name for --where --ignore-case", "selection", metavar="QUERY")] = None
    custom_search: Annotated[
        tuple[str, ...],
        Option(
            "rows that match all terms: term, field:term, !term, !field:term, lang:en,plugin:hex",
            "selection",
            metavar="TERM",
        ),
    ] = ()
    ignore_case: Annotated[bool, Option("ignore case in --where and --custom-search", "selection")] = False
    regex: Annotated[bool, Option("treat --custom-search terms as regular expressions", "selection")] = False
    entries: Annotated[bool, Option("all rows of each entry that has a matching row", "selection")] = False

    @property
    def rows_of(self) -> str | None:
        """The category in force: by default success, and none where a query says which rows are meant."""
        if self.category is not None:
            return _SAME_CATEGORY.get(self.category, self.category)
        if self.custom_search:
            return CUSTOM
        return None if self.where is not None or self.query is not None else "success"

    @property
    def label(self) -> str:
        """The word for the choice in the name of the new file."""
        return self.rows_of or ("where" if self.query is None else "sfl")


class ExportOptions(SelectOptions, frozen=True, kw_only=True):
    """Options of `results export`. Without a query all rows are meant; without columns all there are."""

    entries: Annotated[bool, Option("export entries instead of rows", "selection")] = False
    where: Annotated[
        str | None,
        Option(
            "rows that match a query, or entries with such a row",
            "selection",
            metavar="QUERY",
        ),
    ] = None
    columns: Annotated[
        tuple[str, ...],
        Option(
            "only these columns, in this order: id,outcome,attempt_history[0].error",
            "selection",
            metavar="A,B,…",
        ),
    ] = ()
    name_lone_file: bool = True
    """Whether there is a column for the file even if there is only one."""


class ExcelOptions(ReadingOptions, frozen=True, kw_only=True):
    """Options of `results convert-to-excel`."""

    combine: Combine = False
    definition: CountedBy = FAIRCOUNT.name
    policy_blocks: PolicyBlocks = True


class DatasetComparisonOptions(ReadingOptions, frozen=True, kw_only=True):
    """Options of `results dataset-comparison`."""

    success_threshold: Annotated[
        float,
        Option(
            "success rate to select entries by",
            "comparison",
            metavar="SHARE",
            least=0,
            most=1,
        ),
    ] = 0.8
    success_definition: Annotated[
        str,
        Option("gt selects rates above the threshold, lt rates below it", "comparison", choices=SUCCESS_DEFINITIONS),
    ] = GT
    number: Annotated[
        int,
        Option(
            "at most N entries: the highest rates, with lt the lowest",
            "comparison",
            flags=("-n", "--number"),
            metavar="N",
            default="all",
            least=1,
        ),
    ] = ALL
    skip_validation: Annotated[bool, Option("continue if results lack entries of the dataset", "comparison")] = False
    guardrail_success: GuardrailSuccess = BYPASSED
    definition: CountedBy = FAIRCOUNT.name
    policy_blocks: PolicyBlocks = True
    level: Level = 0.95

    @property
    def detected(self) -> bool:
        """Whether true means detected in the file of a boolean guardrail."""
        return self.guardrail_success == DETECTED


class SampleOptions(ReadingOptions, frozen=True, kw_only=True):
    """Options of `results sample-for-labels`."""

    n: Annotated[int, Option("number of entries, at least one of each verdict", "sampling", metavar="N", least=2)] = 50
    by: Annotated[
        str | None,
        Option(
            "spread them over the values of this field",
            "sampling",
            metavar="FIELD",
            default="the first of spikee's fields with several values",
        ),
    ] = None
    seed: Annotated[int, Option("random seed of the sample", "sampling", metavar="N")] = 42
    guardrail_success: GuardrailSuccess = BYPASSED


class PowerOptions(Options, frozen=True, kw_only=True):
    """Options of `results power`; what is None was not asked or not given."""

    half_width: Annotated[
        float | None,
        Option(
            "entries needed for an interval with this half-width",
            "question: one or more of the first three, or --entries",
            metavar="W",
        ),
    ] = None
    difference: Annotated[
        float | None,
        Option("entries needed to detect a difference of D; negative for a decrease", metavar="D"),
    ] = None
    zero_hits: Annotated[
        float | None,
        Option("entries needed, all without success, to show that the rate is at most UPPER", metavar="UPPER"),
    ] = None
    entries: Annotated[int | None, Option("interval and difference that N entries can show", metavar="N")] = None
    rate: Annotated[
        float | None, Option("expected rate of the first target", "assumptions", metavar="P", default="0.5")
    ] = None
    paired: Annotated[bool, Option("both targets get the same entries; implied by --discordant, which it needs")] = (
        False
    )
    discordant: Annotated[float | None, Option("share of entries on which only one target succeeds", metavar="PSI")] = (
        None
    )
    families: Annotated[float | None, Option("entries come in families of M variants; needs --icc", metavar="M")] = None
    icc: Annotated[float | None, Option("correlation of outcomes within a family, from 0 to 1", metavar="RHO")] = None
    level: Annotated[float, Option("confidence level; tests are two-sided at 1 - P", metavar="P")] = 0.95
    power: Annotated[float | None, Option("probability of detecting the difference", metavar="P", default="0.8")] = None


def read_share(text: str) -> float:
    """Return a share that is given as one, 0.01, or in percent, 1%."""
    number = float(text.removesuffix("%").strip())
    return number / 100 if text.endswith("%") else number


def _share(text: str) -> float:
    try:
        return read_share(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a share; use 1% or 0.01") from None


ATTACK_SCORES, BENIGN_SCORES = SCORE_MEANINGS = ("attack", "benign")


_MOST_COST = 1e12
"""Beyond it, the cost of many prompts may not be a number."""


class OperatingOptions(ReadingOptions, frozen=True, kw_only=True):
    """Options of `results operating-point`."""

    false_positive_checks: Annotated[
        tuple[str, ...],
        Option(
            "run over harmless prompts, one for each FILE in order",
            "guardrail",
            metavar="BENIGN_FILE",
        ),
    ] = ()
    score: Annotated[
        str | None,
        Option(
            "field with the score, such as metadata.score",
            "guardrail",
            metavar="FIELD",
            default="the scores of judges",
        ),
    ] = None
    score_means: Annotated[
        str,
        Option("what a high score means; a threshold blocks that end", "guardrail", choices=SCORE_MEANINGS),
    ] = ATTACK_SCORES
    judge: Annotated[
        str | None,
        Option("only the scores of this judge", "guardrail", metavar="NAME", default="a curve for every judge"),
    ] = None
    max_fpr: Annotated[
        float | None,
        Option(
            "lowest threshold with at most this false positive rate",
            "threshold",
            metavar="SHARE",
            default="1%, unless --min-recall is given",
            above=0,
            below=1,
            read=_share,
        ),
    ] = None
    min_recall: Annotated[
        float | None,
        Option(
            "highest threshold that blocks at least this share of attacks",
            "threshold",
            metavar="SHARE",
            above=0,
            below=1,
            read=_share,
        ),
    ] = None
    cost_false_alarm: Annotated[
        float | None,
        Option(
            "cost of blocking a harmless prompt",
            "costs",
            metavar="COST",
            default="1 with --cost-miss",
            least=0,
            most=_MOST_COST,
        ),
    ] = None
    cost_miss: Annotated[
        float | None,
        Option(
            "cost of letting an attack through",
            "costs",
            metavar="COST",
            default="1 with --cost-false-alarm",
            least=0,
            most=_MOST_COST,
        ),
    ] = None
    prevalence: Annotated[
        float | None,
        Option(
            "share of attacks in your traffic, for precision and costs",
            "costs",
            metavar="SHARE",
            default="that of the files",
            above=0,
            below=1,
            read=_share,
        ),
    ] = None
    level: Level = 0.95
    cluster: Cluster = AUTO

    @property
    def analyzed(self) -> AnalyzeOptions:
        """How the entries of each file are counted: a judge is chosen for its scores, not for its verdicts."""
        from msgspec.structs import replace

        return replace(super().analyzed, judge=None)

    @property
    def others(self) -> tuple[str, ...]:
        """The files with harmless prompts."""
        return self.false_positive_checks


class RejudgeOptions(ReadingOptions, frozen=True, kw_only=True):
    """Options of `results rejudge`.

    Judges that only compare strings decide while rows are written, and nothing of that is kept, unless a number of
    `workers` is given.
    """

    judge_options: Annotated[
        str | None,
        Option("as in spikee: model for LLM judges; written into the rows", "judges", metavar="TEXT"),
    ] = None
    turns: Annotated[
        str,
        Option(
            "responses of attacks and conversations to judge; auto: as the judge needs",
            "judges",
            choices=TURNS,
        ),
    ] = AUTO
    fresh: Annotated[bool, Option("ask again instead of reusing stored verdicts", "verdicts")] = False
    flips: Annotated[int, Option("show N rows of each kind of change", "display", metavar="N", least=0)] = 3
    level: Annotated[float, Option("confidence level of the intervals", "display", metavar="P", above=0, below=1)] = (
        0.95
    )
    workers: Annotated[
        int | None,
        Option(
            "processes for local judges",
            "execution",
            metavar="N",
            least=1,
            default="one per core, none for judges that compare strings",
        ),
    ] = None
    concurrency: Annotated[
        int | None,
        Option(
            "concurrent requests for judges",
            "execution",
            metavar="N",
            least=1,
            default="8",
        ),
    ] = None


# -- judges ----------------------------------------------------------------------------------------------------


RANKED_BY = (
    "hit_f1",
    "hit_precision",
    "hit_recall",
    "pass_f1",
    "pass_precision",
    "pass_recall",
    "accuracy",
    "balanced_accuracy",
    "mcc",
)
SUMMARY = "data/detectors-eval/detector_metrics_summary.json"
_JUDGE = "judge, such as refusal or 'contains(text=\"BYPASSED\")'; see judges list"

JudgeLevel = Annotated[float, Option("confidence level of the intervals", metavar="P", above=0, below=1)]


class TryJudgeOptions(Options, frozen=True, kw_only=True):
    """Options of `judges try`."""

    judge: Annotated[str, Option(_JUDGE, metavar="JUDGE", positional=True)]
    text: Annotated[str, Option("response to judge; - for standard input", metavar="TEXT", positional=True)]
    prompt: Annotated[str, Option("prompt that the response answers", "context", metavar="TEXT")] = ""
    expected: Annotated[str | None, Option("expected response", metavar="TEXT")] = None
    judge_arg: Annotated[tuple[str, ...], Option("value of judge_args in a row, such as a canary", metavar="TEXT")] = ()
    latency: Annotated[float | None, Option("response time", metavar="SECONDS", least=0)] = None


class JudgesAndLabels(Options, frozen=True, kw_only=True):
    """Which judges, and which files of labels."""

    judges: Annotated[tuple[str, ...], Option(_JUDGE, metavar="JUDGE", positional=True)] = ()
    labels: Annotated[
        tuple[str, ...],
        Option(
            "file with responses and labels: hit or pass, true or false, 1 or 0, or scores",
            "labelled data",
            metavar="FILE",
            several=True,
        ),
    ] = ()


class MeasureOptions(Options, frozen=True, kw_only=True):
    """How judges are measured, and what is written: options of `judges evaluate`."""

    balance: Annotated[bool, Option("balance the classes by dropping items of the larger one", "measurement")] = False
    replicates: Annotated[
        int | None,
        Option(
            "N bootstrap replicates for F1; garak uses 10000",
            metavar="N",
            default="exact, without resampling",
            least=1,
        ),
    ] = None
    seed: Annotated[int, Option("random seed of --balance and --replicates", metavar="N")] = 42
    false_positive_rate: Annotated[
        float,
        Option(
            "for judges with scores: find the threshold with a false positive rate below this",
            metavar="SHARE",
            above=0,
            below=1,
        ),
    ] = 0.05
    level: JudgeLevel = 0.95
    output: Annotated[
        str | None, Option("summary file", "output", flags=("-o", "--output"), metavar="FILE", default=SUMMARY)
    ] = None
    predictions: Annotated[
        str | None, Option("write each judge's verdict on each item, as JSONL", "output", metavar="FILE")
    ] = None
    save_datasets: Annotated[bool, Option("save the labelled items used next to the summary", "output")] = False


class RankOptions(Options, frozen=True, kw_only=True):
    """Options of `judges rank`."""

    summaries: Annotated[
        tuple[str, ...], Option("summary of judges", metavar="SUMMARY", positional=True, default=SUMMARY)
    ] = ()
    by: Annotated[str, Option("metric to rank by", "ranking", choices=RANKED_BY)] = RANKED_BY[0]
    level: JudgeLevel = 0.95


class AgreeOptions(Options, frozen=True, kw_only=True):
    """How agreement is measured: options of `judges agree`."""

    predictions: Annotated[
        tuple[str, ...],
        Option("earlier verdicts, as written by evaluate --predictions", "comparison", metavar="FILE", several=True),
    ] = ()
    cases: Annotated[int, Option("show N items they disagree on", metavar="N", least=0)] = 10
    seed: Annotated[int, Option("random seed of the bootstrap", metavar="N")] = 42
    level: JudgeLevel = 0.95
    every_case: bool = False
    """Whether all items on which raters differ are wanted by their ids, or only those that are shown."""
    replicates: int = 2000
    """Replicates of the bootstrap."""


class WorkOptions(Options, frozen=True, kw_only=True):
    """How many judges work at once."""

    workers: Annotated[
        int | None,
        Option("processes for local judges", "execution", metavar="N", default="one per core", least=1),
    ] = None
    concurrency: Annotated[
        int | None,
        Option("concurrent requests for judges", metavar="N", default="8", least=1),
    ] = None
