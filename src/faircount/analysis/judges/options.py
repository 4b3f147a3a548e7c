"""The options of the commands about judges. The command line needs them early: nothing heavy is imported."""

from __future__ import annotations

from typing import Annotated

from faircount.core.options import Option, Options

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
_JUDGE = "judge name such as refusal, with parameters if needed: 'contains(text=\"BYPASSED\")'; see judges list"

Level = Annotated[float, Option("confidence level of the intervals", metavar="P", above=0, below=1)]


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
            "JSONL or CSV with responses and labels: hit or pass, true or false, 1 or 0, or scores",
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
            "use N bootstrap replicates for F1, as garak does with 10000",
            metavar="N",
            default="exact, without resampling",
            least=1,
        ),
    ] = None
    seed: Annotated[int, Option("random seed of --balance and --replicates", metavar="N")] = 42
    false_positive_rate: Annotated[
        float,
        Option(
            "for judges with scores: find the threshold that keeps the false positive rate below this",
            metavar="SHARE",
            above=0,
            below=1,
        ),
    ] = 0.05
    level: Level = 0.95
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
    level: Level = 0.95


class AgreeOptions(Options, frozen=True, kw_only=True):
    """How agreement is measured: options of `judges agree`."""

    predictions: Annotated[
        tuple[str, ...],
        Option("earlier verdicts, as written by evaluate --predictions", "comparison", metavar="FILE", several=True),
    ] = ()
    cases: Annotated[int, Option("show N items they disagree on", metavar="N", least=0)] = 10
    seed: Annotated[int, Option("random seed of the bootstrap", metavar="N")] = 42
    level: Level = 0.95
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
        Option("concurrent requests for judges that call a model or a program", metavar="N", default="8", least=1),
    ] = None
