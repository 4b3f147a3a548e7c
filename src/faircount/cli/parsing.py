"""What every part of the command line is made of: the parser, lazy commands, and options that many commands share.

Only the argument parser is imported here; commands are loaded when they run.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any, NoReturn, TypeAlias

from faircount.cli.messages import error_line
from faircount.errors import UsageError

EXIT_CODES = """\
exit codes: 0 success, 1 gate failed, 2 usage or configuration error, 3 bad input, 4 incomplete, 70 bug,
            74 system error, 130 interrupted
"""


_GATHERED = ("inputs", "judges", "paths", "summaries")
"""The attributes in which commands collect the positional arguments between options."""


class Parser(argparse.ArgumentParser):
    """An argument parser that keeps messages short and suggests the likely option or command."""

    common: frozenset[str] = frozenset()
    """The options that --help shows, where it does not show all."""

    shortcuts: Sequence[str] = ()
    """Commands that may be written here although they are those of another noun."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)

    def show_only(self, common: Sequence[str]) -> None:
        """Let --help show these options alone, and --help-all every one."""
        self.common = frozenset(common)
        self.add_argument("--help-all", action=_HelpAll, nargs=0, help="show all options and exit")

    def format_help(self) -> str:
        """Return the help: that of the common options, if some are."""
        if not self.common:
            return super().format_help()
        shown = {*self.common, "-h", "--help-all"}
        hidden = [a for a in self._actions if a.option_strings and shown.isdisjoint(a.option_strings)]
        helps = [action.help for action in hidden]
        try:
            for action in hidden:
                action.help = argparse.SUPPRESS
            return super().format_help()
        finally:
            for action, text in zip(hidden, helps, strict=True):
                action.help = text

    def format_help_all(self) -> str:
        """Return the help with every option."""
        return super().format_help()

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Take file names between options, which the standard parser leaves over; refuse anything else."""
        parsed, left = super().parse_known_args(args, namespace)
        unknown = [word for word in left if word.startswith("-") and word != "-"]
        gathered = next((name for name in _GATHERED if hasattr(parsed, name)), None)
        if gathered is not None and not unknown:
            getattr(parsed, gathered).extend(("file", word) if gathered == "inputs" else word for word in left)
            left = []
        if left:
            self.error(self._hint(unknown or left))
        return parsed, left

    def _get_option_tuples(self, option_string):  # type: ignore[no-untyped-def]
        """Return the options that an abbreviation may mean; two names of one option are one."""
        found = super()._get_option_tuples(option_string)
        return found[:1] if len({id(match[0]) for match in found}) == 1 else found

    def _hint(self, words: Sequence[str]) -> str:
        import difflib

        known = [option for action in self._actions for option in action.option_strings]
        hints = []
        for word in words:
            near = difflib.get_close_matches(word.split("=")[0], known, n=1)
            hints.append(f"{word} (did you mean {near[0]}?)" if near else word)
        return f"unknown argument: {', '.join(hints)}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            import difflib

            near = difflib.get_close_matches(str(value), [*action.choices, *self.shortcuts], n=1)
            hint = f" (did you mean {near[0]}?)" if near else f"; available: {', '.join(action.choices)}"
            self.error(f"{value}: no such command{hint}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """Exit with a one-line message that points to the help."""
        self.exit(2, error_line(f"{message}; see {self.prog} --help", self.prog))


class _HelpAll(argparse.Action):
    """Shows the help with every option."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        del namespace, values, option
        sys.stdout.write(parser.format_help_all())
        parser.exit()


class Input(argparse.Action):
    """Collects files and folders in the order in which they were given."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        del parser
        kind = "folder" if option is not None and "folder" in option else "file"
        named = values if isinstance(values, list) else [values]
        namespace.inputs = [*namespace.inputs, *((kind, value) for value in named)]


class Instead(argparse.Action):
    """Refuses an option of another tool that means something else here, and names the option to use."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        del namespace, values
        parser.error(f"{option} is a spikee option; {self.const}")


def command(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """Return a command that imports its module only when it is run."""

    def run(arguments: argparse.Namespace) -> int:
        return int(getattr(importlib.import_module(module), function)(arguments))

    return run


Verbs: TypeAlias = "argparse._SubParsersAction[Parser]"


def add_noun(nouns: Verbs, name: str, *, short: str, what: str) -> Verbs:
    """Add a noun of the command line and return where its verbs go; without a verb it prints its help."""
    return add_commands(nouns.add_parser(name, help=short, description=what, epilog=EXIT_CODES))


def add_commands(parser: argparse.ArgumentParser) -> Verbs:
    """Return where the commands of a parser go; without one it prints its help."""

    def print_help(_: argparse.Namespace) -> int:
        parser.print_help()
        return 0

    parser.set_defaults(run=print_help)
    return parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the ways to name input files, shared by every command that reads results."""
    group = parser.add_argument_group("input")
    parser.set_defaults(inputs=[])
    group.add_argument(
        "files",
        nargs="*",
        action=Input,
        metavar="FILE",
        help="result file, folder, quoted glob, or - for standard input; may be compressed (.gz, .zst)",
    )
    group.add_argument(
        "--result-file",
        "--results-file",
        action=Input,
        metavar="FILE",
        help="same as FILE (repeatable)",
    )
    group.add_argument(
        "--result-folder",
        "--results-folder",
        action=Input,
        metavar="FOLDER",
        help="all results_*.jsonl in a folder, also compressed, in order of name (repeatable)",
    )
    add_max_line(group)
    group.add_argument("--strict", action="store_true", help="exit with 3 if any line cannot be read")
    group.add_argument(
        "--no-cache",
        dest="cache",
        action="store_false",
        help="re-read large files, and cache nothing",
    )


OUTPUT_FORMATS = ("console", "json", "markdown", "html", "xlsx")
_BY_SUFFIX = {".html": "html", ".htm": "html", ".json": "json", ".md": "markdown", ".xlsx": "xlsx"}


def add_format(group: argparse._ArgumentGroup, page: str, place: str = "-o") -> None:
    """Add the choice of format; `page` is help on HTML pages, `place` the option that names a report."""
    group.set_defaults(place_of_report=place)
    group.add_argument(
        "--output-format",
        choices=OUTPUT_FORMATS,
        help=f"report format; {page} (default: from the suffix of FILE, else console)",
    )


def settle_format(arguments: argparse.Namespace) -> None:
    """Settle the format of a report: the one named, or the one of the file's suffix; both must agree."""
    option = getattr(arguments, "place_of_report", None)
    if option is None:
        return
    path, told = arguments.output if option == "-o" else arguments.report, arguments.output_format
    named = _BY_SUFFIX.get(PurePath(path or "").suffix.lower())
    if told is not None and named is not None and told != named:
        raise UsageError(f"{option} {path} implies {named}, but --output-format is {told}; leave one of them out")
    arguments.output_format = told or named or "console"
    if arguments.output_format == "xlsx" and path is None:
        raise UsageError(f"--output-format xlsx needs {option} FILE")


def add_output(
    parser: argparse.ArgumentParser,
    *,
    page: str = "html is written to a file, next to the input unless -o is given",
    place: str = "write to FILE instead of standard output; a folder for the pages of several files",
) -> None:
    """Add the choice of format and place, shared by every command that shows a report."""
    group = parser.add_argument_group("output")
    add_format(group, page)
    group.add_argument("-o", "--output", type=_file_to_write, metavar="FILE", help=place)


def _file_to_write(name: str) -> str:
    """Return the name of a file; refuse the bare name of a format, which spikee's abbreviated --output would take."""
    if name in OUTPUT_FORMATS:
        raise argparse.ArgumentTypeError(
            f"{name} is a format: use --output-format {name}, or ./{name} for a file of that name"
        )
    return name


def add_max_line(group: argparse._ArgumentGroup) -> None:
    """Add the limit on the length of a line."""
    group.add_argument(
        "--max-line",
        type=int,
        default=64 * 1024 * 1024,
        metavar="BYTES",
        help="skip and report lines longer than this (default: 67108864)",
    )


def add_level(group: argparse._ArgumentGroup) -> None:
    """Add the confidence level."""
    group.add_argument(
        "--level", type=float, default=0.95, metavar="P", help="confidence level of the intervals (default: 0.95)"
    )


def add_policy_blocks(group: argparse._ArgumentGroup) -> None:
    """Add the choice whether a provider's refusal to take a prompt is a block."""
    group.add_argument(
        "--no-policy-blocks",
        dest="policy_blocks",
        action="store_false",
        help="count prompts that a provider refused by its policy as errors, as spikee does, instead of blocks",
    )


def add_field(group: argparse._ArgumentGroup) -> None:
    """Add the fields of an entry that is tried by itself."""
    group.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="field of the entry, as in a dataset, such as id or judge_args (repeatable)",
    )


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add what judges that ask a model need, shared by every command with judges."""
    group = parser.add_argument_group("models and configuration")
    group.add_argument("--config", metavar="FILE", help="TOML file with judges, prices and models")
    group.add_argument("--model", metavar="NAME", help="model for LLM judges")
    group.add_argument("--base-url", metavar="URL", help="base URL of an OpenAI-compatible endpoint")
    group.add_argument(
        "--api-key-env", metavar="NAME", help="environment variable with the API key (default: OPENAI_API_KEY)"
    )


def add_work(parser: argparse.ArgumentParser, *, but: str = "") -> None:
    """Add how judges are asked, shared by every command that asks many; `but` is an exception to add to the help."""
    group = parser.add_argument_group("execution")
    group.add_argument(
        "--workers", type=int, metavar="N", help=f"processes for local judges (default: one per core{but})"
    )
    group.add_argument(
        "--concurrency",
        type=int,
        metavar="N",
        help="concurrent requests for judges that call a model or a program (default: 8)",
    )
