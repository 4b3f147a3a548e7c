"""The words of the command line. Only the argument parser is imported here; commands are loaded when they run."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from faircount.analysis.choices import BLOCK_SIGNALS, DEFINITIONS, GUARDRAIL_MEANINGS, SORTS
from faircount.text import visible
from faircount.version import __version__

EXIT_CODES = """\
exit codes: 0 done, 1 a gate failed, 2 usage or configuration, 3 bad input, 4 incomplete, 70 a bug, 130 interrupted
"""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; wrong words end with exit code 2 and a hint."""
    arguments = build().parse_args(argv)
    arguments.words = tuple(argv)
    return arguments


class _Parser(argparse.ArgumentParser):
    """An argument parser that takes no abbreviations, keeps messages short and suggests what was perhaps meant."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Take file names between options, which the standard parser leaves over; refuse anything else."""
        parsed, left = super().parse_known_args(args, namespace)
        unknown = [word for word in left if word.startswith("-") and word != "-"]
        if hasattr(parsed, "inputs") and not unknown:
            parsed.inputs += [("file", word) for word in left]
            left = []
        if left:
            self.error(self._hint(unknown or left))
        return parsed, left

    def _hint(self, words: Sequence[str]) -> str:
        import difflib

        known = [option for action in self._actions for option in action.option_strings]
        hints = []
        for word in words:
            near = difflib.get_close_matches(word.split("=")[0], known, n=1)
            hints.append(f"{word} (did you mean {near[0]}?)" if near else word)
        return f"unknown: {', '.join(hints)}"

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one sentence and where help is."""
        self.exit(2, f"{self.prog}: {visible(message)}; see {self.prog} --help\n")


class _Input(argparse.Action):
    """Collects files and folders in the order in which they were given."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        del parser
        kind = "folder" if option is not None and "folder" in option else "file"
        named = values if isinstance(values, list) else [values]
        namespace.inputs = [*namespace.inputs, *((kind, value) for value in named)]


def _command(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """Return a command that imports its module only when it is run."""

    def run(arguments: argparse.Namespace) -> int:
        return int(getattr(importlib.import_module(module), function)(arguments))

    return run


def build() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(
        prog="faircount",
        description="Numbers people can believe, and the evidence behind them, from the results of attacking,\n"
        "benchmarking and guarding language models.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"faircount {__version__}")
    nouns = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)
    _add_results(nouns)
    _add_cache(nouns)
    _add_demo(nouns)
    return parser


def _add_results(nouns: argparse._SubParsersAction[_Parser]) -> None:
    results = nouns.add_parser(
        "results", help="work with result files", description="Work with result files.", epilog=EXIT_CODES
    )
    verbs = results.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)
    _add_analyze(verbs)
    _add_power(verbs)


def _add_analyze(verbs: argparse._SubParsersAction[_Parser]) -> None:
    parser = verbs.add_parser(
        "analyze",
        help="rates with intervals, breakdowns and doubts, from one or many files",
        description="Analyse result files: one analysis each, in the order given, or one over all with --combine.",
        epilog="example: faircount results analyze results/results_*.jsonl --combine --by jailbreak_type\n\n"
        + EXIT_CODES,
    )
    parser.set_defaults(run=_command("faircount.cli.results", "analyze"))
    add_inputs(parser)
    _add_what_to_count(parser)
    _add_what_to_show(parser)
    add_output(parser)


def _add_power(verbs: argparse._SubParsersAction[_Parser]) -> None:
    parser = verbs.add_parser(
        "power",
        help="how many entries a question needs, or what a number of entries can show",
        description="How many entries are needed for an interval or to detect a difference, or what a number of\n"
        "entries can show. Reads nothing. Rates, differences and widths are shares: 0.05 stands for 5 %.",
        epilog="example: faircount results power --rate 0.2 --half-width 0.05 --families 10 --icc 0.3\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=_command("faircount.cli.power", "power"))
    _add_what_to_ask(parser)
    _add_what_to_assume(parser)
    add_output(parser, page="html needs -o", place="write there instead of to standard output")


def _add_what_to_ask(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is asked: one or more of the first three, or --entries")
    group.add_argument(
        "--half-width", type=float, metavar="W", help="entries for an interval with a half-width of W, such as 0.05"
    )
    group.add_argument(
        "--difference",
        type=float,
        metavar="D",
        help="entries to detect that two rates differ by D; with a minus sign, a fall",
    )
    group.add_argument(
        "--zero-hits",
        type=float,
        metavar="UPPER",
        help="entries after which, without a single success, the rate is at most UPPER",
    )
    group.add_argument("--entries", type=int, metavar="N", help="what interval and what difference N entries can show")


def _add_what_to_assume(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is assumed")
    group.add_argument("--rate", type=float, metavar="P", help="expected rate, of the first target (default: 0.5)")
    group.add_argument(
        "--paired", action="store_true", help="two targets share their entries; needs --discordant, which implies it"
    )
    group.add_argument(
        "--discordant",
        type=float,
        metavar="PSI",
        help="share of entries on which only one of the two targets succeeds",
    )
    group.add_argument(
        "--families", type=float, metavar="M", help="entries come in families of M variants; needs --icc"
    )
    group.add_argument(
        "--icc", type=float, metavar="RHO", help="correlation of the outcomes within a family, from 0 to 1"
    )
    group.add_argument(
        "--level",
        type=float,
        default=0.95,
        metavar="P",
        help="confidence level; tests are made at 1 - P, two-sided (default: 0.95)",
    )
    group.add_argument(
        "--power", type=float, metavar="P", help="how often a difference should be detected (default: 0.8)"
    )


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the ways to name input files, shared by every command that reads results."""
    group = parser.add_argument_group("input")
    parser.set_defaults(inputs=[])
    group.add_argument(
        "files",
        nargs="*",
        action=_Input,
        metavar="FILE",
        help="result file, quoted glob, or - for standard input; .gz and .zst too",
    )
    group.add_argument(
        "--result-file",
        "--results-file",
        action=_Input,
        metavar="FILE",
        help="the same by name (repeatable)",
    )
    group.add_argument(
        "--result-folder",
        "--results-folder",
        action=_Input,
        metavar="FOLDER",
        help="every results_*.jsonl in a folder, packed or not, by name (repeatable)",
    )
    group.add_argument(
        "--max-line",
        type=int,
        default=64 * 1024 * 1024,
        metavar="BYTES",
        help="a longer line is reported and left out (default: 67108864)",
    )
    group.add_argument("--strict", action="store_true", help="exit with 3 if any line could not be read")
    group.add_argument(
        "--no-cache",
        dest="cache",
        action="store_false",
        help="read large files anew, and keep nothing for the next time",
    )


def _add_what_to_count(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is counted")
    group.add_argument("--combine", action="store_true", help="one analysis over all files, with a table per source")
    group.add_argument(
        "--false-positive-checks",
        metavar="BENIGN_FILE",
        help="measure a guardrail with a second run, over benign prompts",
    )
    group.add_argument(
        "--guardrail-success",
        choices=GUARDRAIL_MEANINGS,
        default=GUARDRAIL_MEANINGS[0],
        help="what true means in a boolean guardrail's file; spikee 0.1 wrote true for detected (default: bypassed)",
    )
    group.add_argument(
        "--block-signal",
        choices=BLOCK_SIGNALS,
        default=BLOCK_SIGNALS[0],
        help="what blocked means to --false-positive-checks: a false verdict or a raised guardrail, or only what was "
        "raised (default: verdict)",
    )
    group.add_argument(
        "--definition",
        choices=DEFINITIONS,
        default=DEFINITIONS[0],
        help="whose definitions to count by (default: faircount)",
    )
    group.add_argument(
        "--level",
        type=float,
        default=0.95,
        metavar="P",
        help="confidence level of the intervals (default: 0.95)",
    )
    group.add_argument(
        "--min-n",
        type=int,
        default=1,
        metavar="N",
        help="rank only combinations with at least N entries (default: 1)",
    )


def _add_what_to_show(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is shown")
    group.add_argument("--overview", action="store_true", help="the general part alone")
    group.add_argument(
        "--by",
        action="append",
        default=[],
        metavar="FIELD",
        help="break down by this field (repeatable; attack, document and judge for short)",
    )
    group.add_argument("--sort", choices=SORTS, default=SORTS[0], help="order of the groups (default: rate)")
    group.add_argument(
        "--evidence",
        type=int,
        metavar="N",
        help="show N successful attempts with prompt and response (default: 5 in html, else 0)",
    )


def add_output(
    parser: argparse.ArgumentParser,
    *,
    page: str = "html is a page in a file of its own, beside the input unless -o is given",
    place: str = "write there instead of to standard output; a folder for the pages of several files",
) -> None:
    """Add the choice of format and place, shared by every command that shows a report."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "--output-format",
        choices=("console", "json", "markdown", "html"),
        default="console",
        help=f"{page} (default: console)",
    )
    group.add_argument("-o", "--output", metavar="FILE", help=place)


def _add_cache(nouns: argparse._SubParsersAction[_Parser]) -> None:
    cache = nouns.add_parser(
        "cache",
        help="what is kept of large files, so that they need not be read again",
        description="What is kept of large files, so that they need not be read again. It is safe to delete.",
        epilog=EXIT_CODES,
    )
    verbs = cache.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)
    for verb, meaning in (("show", "say where the cache is and how large"), ("clear", "delete it")):
        parser = verbs.add_parser(
            verb, help=meaning, description=f"{meaning[0].upper()}{meaning[1:]}.", epilog=EXIT_CODES
        )
        parser.set_defaults(run=_command("faircount.cli.cache", verb))


def _add_demo(nouns: argparse._SubParsersAction[_Parser]) -> None:
    parser = nouns.add_parser(
        "demo",
        help="make sample results offline, analyse them, say what to try next",
        description="Make sample results of simulated targets offline, analyse them and say what to try next.",
        epilog=EXIT_CODES,
    )
    parser.set_defaults(run=_command("faircount.cli.demo", "demo"))
    parser.add_argument(
        "--folder",
        default="faircount-demo",
        metavar="FOLDER",
        help="where the sample goes (default: faircount-demo)",
    )
    parser.add_argument("--seed", type=int, default=7, metavar="N", help="another sample for another N (default: 7)")
