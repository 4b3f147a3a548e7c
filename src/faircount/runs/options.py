"""The options of the commands that run something. The command line needs them early: nothing heavy is imported."""

from __future__ import annotations

import math
from typing import Annotated

from faircount.core.options import Option, Options

PER_CASE, _ = REPORT_LAYOUTS = ("per-case", "per-metric")
_MOST_ITERATIONS = 10_000

Field = Annotated[
    tuple[str, ...],
    Option("field of the entry, as in a dataset, such as id or judge_args", metavar="NAME=VALUE"),
]
BaseUrl = Annotated[str | None, Option("base URL of an OpenAI-compatible endpoint", metavar="URL")]
ApiKeyEnv = Annotated[
    str | None, Option("environment variable with the API key", metavar="NAME", default="OPENAI_API_KEY")
]
Timeout = Annotated[float, Option("timeout of one request", metavar="SECONDS", above=0, below=math.inf)]
Tries = Annotated[int, Option("send a failing request up to N times", metavar="N", least=1)]


class RunOptions(Options, frozen=True, kw_only=True):
    """What is run, against which target, within which limits: options of `run`, of `plan` and of bench files."""

    paths: Annotated[
        tuple[str, ...],
        Option(
            "test file, folder, or file::name for one function, suite or case; or dataset: .jsonl, .json, .csv, .tsv, "
            "also compressed",
            "selection",
            metavar="PATH",
            positional=True,
        ),
        Option("same as PATH; REBEL's name for it", flags=("--test-dir",), metavar="DIR"),
        Option("same as PATH; spikee's name for it", flags=("--dataset",), metavar="FILE"),
    ] = ()
    dataset_folder: Annotated[tuple[str, ...], Option("all .jsonl files in a folder, by name", metavar="DIR")] = ()
    keyword: Annotated[
        str | None, Option("cases whose name matches: alpha and not (beta or gamma)", metavar="EXPRESSION")
    ] = None
    tags: Annotated[tuple[str, ...], Option("cases with any of these tags", metavar="A,B")] = ()
    exclude_tags: Annotated[tuple[str, ...], Option("cases with none of these tags", metavar="A,B")] = ()
    case: Annotated[
        tuple[str, ...],
        Option("case, suite or function of this name, or entry with this id", metavar="NAME"),
    ] = ()
    retries: Annotated[
        int | None,
        Option(
            "tests: run every case N times (default: as set there); datasets: retry errors up to N times (default: 0)",
            metavar="N",
            common=True,
        ),
    ] = None
    aggregation: Annotated[
        str | None,
        Option(
            "how to combine attempts: min, max, mean, median, majority, any, all, first, mode, pass@3 …",
            metavar="NAME",
            default="as set in the tests",
        ),
    ] = None
    judge: Annotated[
        str | None,
        Option(
            "judge for all entries",
            "datasets",
            metavar="JUDGE",
            default="that of each entry, if it compares strings or is in --config",
            common=True,
        ),
    ] = None
    no_judge: Annotated[bool, Option("for a guardrail that answers yes or no")] = False
    map: Annotated[
        tuple[str, ...],
        Option(
            "columns by role: prompt=question, id=ref, system=persona, judge_args=canary; empty cancels a guess",
            metavar="ROLE=COLUMN",
        ),
    ] = ()
    where: Annotated[str | None, Option("only entries that match a query: 'plugin = base64'", metavar="QUERY")] = None
    sample: Annotated[str | None, Option("only a random sample: 0.25, 25% or 100", metavar="P")] = None
    sample_seed: Annotated[str | None, Option("seed of the sample, or random", metavar="N", default="42")] = None
    attempts: Annotated[
        int | None, Option("try an entry up to N times, until it succeeds", metavar="N", default="1", least=1)
    ] = None
    shard: Annotated[
        str | None,
        Option(
            "run only part I of N, with its share of the limits; auto: from Slurm, Kubernetes or AWS Batch",
            metavar="I/N",
        ),
    ] = None
    stop_when: Annotated[
        str | None,
        Option(
            "run in random order until the answer is clear: 'asr < 5%', 'asr > 20%', 'width < 4%'",
            metavar="RULE",
        ),
    ] = None
    attack: Annotated[
        str | None,
        Option(
            "attack to try if an entry's own prompt failed; see attacks list",
            "dynamic attacks, only on systems you are authorised to test",
            metavar="ATTACK",
            common=True,
        ),
    ] = None
    attack_iterations: Annotated[
        int | None, Option("maximum number of iterations per entry", metavar="N", default="10", least=1)
    ] = None
    attack_options: Annotated[str | None, Option("options of the attack", metavar="TEXT")] = None
    attack_only: Annotated[bool, Option("skip the entries' own prompts")] = False
    target: Annotated[
        str | None,
        Option(
            "openai, simulated, ./file.py:Name or another; see targets list",
            "target",
            metavar="NAME",
            common=True,
        ),
    ] = None
    model: Annotated[
        str | None, Option("model for the target openai and for LLM judges", metavar="NAME", common=True)
    ] = None
    base_url: BaseUrl = None
    api_key_env: ApiKeyEnv = None
    target_args: Annotated[str | None, Option("parameters of the target, as a JSON object", metavar="JSON")] = None
    config: Annotated[str | None, Option("TOML file with judges, prices and models", metavar="FILE", common=True)] = (
        None
    )
    api_config: Annotated[str | None, Option("REBEL's JSON file with api_key, base_url and model", metavar="FILE")] = (
        None
    )
    api_client_module: Annotated[str | None, Option("module of an API client written for REBEL", metavar="MODULE")] = (
        None
    )
    api_client_class: Annotated[str | None, Option("class of the REBEL client", metavar="CLASS")] = None
    api_client_args: Annotated[str | None, Option("arguments of that class, as a JSON object", metavar="JSON")] = None
    concurrency: Annotated[
        int,
        Option(
            "concurrent requests",
            "limits",
            flags=("--concurrency", "--threads", "--num-workers-api"),
            metavar="N",
            least=1,
            common=True,
        ),
    ] = 8
    num_workers_eval: Annotated[
        int | None,
        Option("no effect: answers are measured as they arrive", metavar="N"),
    ] = None
    requests_per_minute: Annotated[
        float | None, Option("maximum number of requests per minute", metavar="N", above=0, below=math.inf)
    ] = None
    timeout: Timeout = 60.0
    tries: Tries = 5
    max_calls: Annotated[int | None, Option("stop after N requests", metavar="N", least=1)] = None
    max_cost: Annotated[
        float | None,
        Option(
            "stop after spending X, in the currency of the prices", metavar="X", above=0, below=math.inf, common=True
        ),
    ] = None
    stop_after_errors: Annotated[int | None, Option("stop after N failed requests in a row", metavar="N", least=1)] = (
        None
    )
    no_auto_resume: Annotated[bool, Option("")] = False
    """Accepted as spikee has it: every run is a new one."""


class JournalOptions(Options, frozen=True, kw_only=True):
    """Where a run is recorded, and what is written beside its journal."""

    journal: Annotated[
        str | None,
        Option(
            "journal, a new file",
            "output",
            metavar="FILE",
            default="run_<time>.jsonl in the output folder",
            common=True,
        ),
    ] = None
    resume_if_exists: Annotated[bool, Option("resume the run if the journal exists", "output")] = False
    output_folder: Annotated[str, Option("folder for journal and report", "output", metavar="DIR")] = "results"
    report_layout: Annotated[
        str | None,
        Option(
            "layout of the report; per-metric as in REBEL's",
            "output",
            choices=REPORT_LAYOUTS,
            default=PER_CASE,
        ),
    ] = None
    spikee_results: Annotated[
        str | None, Option("also write a dataset's results in spikee's format", "output", metavar="FILE")
    ] = None
    fail_on_failed_tests: Annotated[bool, Option("exit with 1 if a case failed", "output")] = False


class ResumeOptions(Options, frozen=True, kw_only=True):
    """Options of `resume`; what is None stays as it was."""

    journal: Annotated[str, Option("journal of the run", metavar="JOURNAL", positional=True)]
    retry_errors: Annotated[bool, Option("retry attempts whose request failed", "execution")] = False
    concurrency: Annotated[int | None, Option("concurrent requests", metavar="N", least=1, default="as before")] = None
    max_calls: Annotated[
        int | None, Option("stop after N more requests", metavar="N", least=1, default="as before")
    ] = None
    max_cost: Annotated[
        float | None,
        Option("stop after spending X more", metavar="X", above=0, below=math.inf, default="as before"),
    ] = None
    spikee_results: Annotated[
        str | None,
        Option(
            "also write results in spikee's format, to a new file",
            "output",
            metavar="FILE",
            default="as before",
        ),
    ] = None
    fail_on_failed_tests: Annotated[bool, Option("exit with 1 if a case failed", "output")] = False


class MergeOptions(Options, frozen=True, kw_only=True):
    """Options of `merge`."""

    journals: Annotated[tuple[str, ...], Option("journal of a shard", metavar="JOURNAL", positional=True)]
    output: Annotated[str | None, Option("merged journal", flags=("-o", "--output"), metavar="FILE")] = None
    force: Annotated[bool, Option("overwrite FILE if it already exists")] = False
    check: Annotated[bool, Option("only show which shards are complete; exit with 4 if any is not")] = False


class BenchOptions(Options, frozen=True, kw_only=True):
    """Options of `bench`."""

    file: Annotated[str, Option("bench file, in TOML", metavar="FILE", positional=True)]
    plan: Annotated[bool, Option("show what would run, without running it")] = False
    retry_errors: Annotated[bool, Option("retry attempts whose request failed")] = False


class TryTargetOptions(Options, frozen=True, kw_only=True):
    """Options of `targets try`."""

    target: Annotated[str, Option("target, as for run --target", metavar="TARGET", positional=True)]
    prompt: Annotated[str, Option("user message; - for standard input", metavar="PROMPT", positional=True)]
    system: Annotated[str | None, Option("system message", "request", metavar="TEXT")] = None
    field: Field = ()
    model: Annotated[str | None, Option("model to use", "target", metavar="NAME")] = None
    base_url: BaseUrl = None
    api_key_env: ApiKeyEnv = None
    target_args: Annotated[str | None, Option("parameters of the target, as a JSON object", metavar="JSON")] = None
    config: Annotated[str | None, Option("TOML file with prices and models", metavar="FILE")] = None
    timeout: Timeout = 60.0
    tries: Tries = 1


class TryAttackOptions(Options, frozen=True, kw_only=True):
    """Options of `attacks try`."""

    attack: Annotated[
        str,
        Option(
            "attack, such as best-of-n or 'best-of-n(seed=7)'",
            metavar="ATTACK",
            positional=True,
        ),
    ]
    prompt: Annotated[
        str,
        Option("prompt that the attack starts from; - for standard input", metavar="PROMPT", positional=True),
    ]
    iterations: Annotated[
        int, Option("maximum number of iterations", "attack", metavar="N", least=1, most=_MOST_ITERATIONS)
    ] = 5
    attack_options: Annotated[
        str | None, Option("attack options: NAME=VALUE,NAME=VALUE or a JSON object", metavar="TEXT")
    ] = None
    field: Field = ()
    target: Annotated[
        str | None,
        Option("target to send it to, as for run", "target and judge", metavar="NAME"),
    ] = None
    judge: Annotated[str | None, Option("judge that decides about success; see judges list", metavar="JUDGE")] = None
