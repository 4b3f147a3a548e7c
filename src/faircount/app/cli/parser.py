"""The argument parser: commands are a table, and the parser of one is made when it is chosen, from annotated structs.

Only the argument parser is imported here.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, get_args

from faircount.app.cli.terminal import error_line

if TYPE_CHECKING:
    from faircount.core.options import Option, OptionField, Options

EXIT_CODES = """\
exit codes: 0 success, 1 gate failed, 2 usage or configuration error, 3 bad input, 4 incomplete, 70 bug,
            74 system error, 130 interrupted
"""


class Command(NamedTuple):
    """A command: what it is called, what its help says, the structs of its options, and the function that takes them.

    Structs and the function are named "module:name"; they are loaded when the command is chosen. With `short_help`,
    --help shows only the common options. `refused` are options of other tools that mean something else here, and what
    to use instead.
    """

    name: str
    help: str
    description: str
    function: str
    options: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    short_help: bool = False
    refused: Mapping[str, str] = {}

    @property
    def epilog(self) -> str:
        """What stands at the end of the help."""
        if not self.examples:
            return EXIT_CODES
        word = "example: " if len(self.examples) == 1 else "examples: "
        return word + f"\n{' ' * len(word)}".join(self.examples) + f"\n\n{EXIT_CODES}"

    def parts(self) -> list[type[Options]]:
        """Return the structs whose fields the options are."""
        return [load(name) for name in self.options]


class Noun(NamedTuple):
    """What commands are about, with its commands."""

    name: str
    help: str
    description: str
    commands: tuple[Command, ...]


def load(name: str) -> Any:
    """Return what "module:name" means."""
    module, _, found = name.partition(":")
    return getattr(importlib.import_module(module), found)


def _import_msgspec() -> None:
    """Import msgspec without typing_extensions, which it does not need here and which takes longer than itself."""
    if sys.modules.keys().isdisjoint(["msgspec", "typing_extensions"]):
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
        try:
            import msgspec  # noqa: F401
        finally:
            del sys.modules["typing_extensions"]


class Parser(argparse.ArgumentParser):
    """An argument parser that keeps messages short and suggests the likely option or command."""

    common: frozenset[str] = frozenset()
    """The options that --help shows, where it does not show all."""
    shortcuts: Sequence[str] = ()
    """Commands that may be written here although they are those of another noun."""
    gathered: tuple[str, Callable[[str], Any]] | None = None
    """The attribute that collects positional arguments between options, and what makes a value of a word."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)

    # -- commands and options -------------------------------------------------------------------------------------

    def add_commands(self, offered: Sequence[Noun | Command]) -> None:
        """Add commands; without one the parser prints its help."""

        def print_help(_: argparse.Namespace) -> int:
            self.print_help()
            return 0

        self.set_defaults(run=print_help)
        commands: Any = self.add_subparsers(title="commands", metavar="COMMAND", prog=self.prog)
        commands._choices_actions += [commands._ChoicesPseudoAction(one.name, (), one.help) for one in offered]
        commands.choices = commands._name_parser_map = _Parsers(self.prog, offered)

    def add_command(self, command: Command) -> None:
        """Add the options of a command, and what runs it."""
        _import_msgspec()
        from faircount.core.options import option_fields

        self.set_defaults(run=lambda arguments: int(load("faircount.app.cli.runner:run_command")(command, arguments)))
        title = ""
        for known in (known for part in command.parts() for known in option_fields(part)):
            for option in known.options:
                title = option.group or title
                self._add_option(known, option, title)
                if command.short_help and option.common:
                    self.common |= set(known.flags(option))
        for flag, instead in command.refused.items():
            self.add_argument(flag, nargs="?", action=_Instead, const=instead, help=argparse.SUPPRESS)
        if self.common:
            self.add_argument("--help-all", action=_HelpAll, nargs=0, help="show all options and exit")

    def _add_option(self, known: OptionField, option: Option, title: str) -> None:
        words: dict[str, Any] = {"help": _help(known, option), "metavar": option.metavar}
        if known.type is bool:
            words = {"help": words["help"], "action": "store_false" if known.default else "store_true"}
        else:
            words |= {"type": _reader(known, option), "choices": option.choices or None}
        if known.repeated:
            words |= {"action": _Take, "default": ()}
        if option.positional:
            words |= {"nargs": "+" if known.required else "*"} if known.repeated else {}
            self._group(title).add_argument(known.name, **words)
            self.gathered = (known.name, option.read or str) if known.repeated else self.gathered
            return
        words |= {"nargs": "+"} if option.several else {}
        words |= {"dest": known.name, "required": known.required}
        words.setdefault("default", known.default)
        self._group(title).add_argument(*known.flags(option), **words)

    def _group(self, title: str) -> argparse._ActionsContainer:
        if not title:
            return self
        known = {group.title: group for group in self._action_groups}
        return known.get(title) or self.add_argument_group(title)

    # -- help -----------------------------------------------------------------------------------------------------

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

    # -- parsing --------------------------------------------------------------------------------------------------

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Take file names between options, which the standard parser leaves over; refuse anything else."""
        parsed, left = super().parse_known_args(args, namespace)
        unknown = [word for word in left if word.startswith("-") and word != "-"]
        if self.gathered is not None and not unknown:
            name, read = self.gathered
            setattr(parsed, name, (*getattr(parsed, name), *map(read, left)))
            left = []
        if left:
            self.error(self._hint(unknown or left))
        return parsed, left

    def _get_option_tuples(self, option_string):  # type: ignore[no-untyped-def]
        """Return the options that an abbreviation may mean; two names of one option are one."""
        found = super()._get_option_tuples(option_string)
        return found[:1] if len({id(match[0]) for match in found}) == 1 else found

    def _hint(self, words: Sequence[str]) -> str:
        from difflib import get_close_matches

        known = [option for action in self._actions for option in action.option_strings]
        hints = []
        for word in words:
            near = get_close_matches(word.split("=")[0], known, n=1)
            hints.append(f"{word} (did you mean {near[0]}?)" if near else word)
        return f"unknown argument: {', '.join(hints)}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            from difflib import get_close_matches

            near = get_close_matches(str(value), [*action.choices, *self.shortcuts], n=1)
            hint = f" (did you mean {near[0]}?)" if near else f"; available: {', '.join(action.choices)}"
            self.error(f"{value}: no such command{hint}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """Exit with a one-line message that points to the help."""
        self.exit(2, error_line(f"{message}; see {self.prog} --help", self.prog))


class _Parsers(dict[str, Any]):
    """Parsers by the names of commands, each made when it is chosen: all of them take longer than many an answer."""

    def __init__(self, prog: str, offered: Iterable[Noun | Command]) -> None:
        super().__init__((one.name, one) for one in offered)
        self._prog = prog

    def __getitem__(self, name: str) -> Parser:
        one = super().__getitem__(name)
        if isinstance(one, Noun):
            self[name] = Parser(prog=f"{self._prog} {name}", description=one.description, epilog=EXIT_CODES)
            self[name].add_commands(one.commands)
        elif isinstance(one, Command):
            self[name] = Parser(prog=f"{self._prog} {name}", description=one.description, epilog=one.epilog)
            self[name].add_command(one)
        return super().__getitem__(name)  # type: ignore[no-any-return]


class _HelpAll(argparse.Action):
    """Shows the help with every option."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        del namespace, values, option
        sys.stdout.write(argparse.ArgumentParser.format_help(parser))
        parser.exit()


class _Take(argparse.Action):
    """Adds values to those that were given before, by whichever option."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        del parser, option
        more = values if isinstance(values, list | tuple) and self.nargs is not None else [values]
        setattr(namespace, self.dest, (*getattr(namespace, self.dest), *more))


class _Instead(argparse.Action):
    """Refuses an option of another tool that means something else here, and names the option to use."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        del namespace, values
        parser.error(f"{option} is {self.const}")


def _help(known: OptionField, option: Option) -> str:
    """Return what the help says of an option: what it does, whether it may be repeated, and its default."""
    if not option.help:
        return argparse.SUPPRESS
    default = option.default
    if not default and isinstance(known.default, str | int | float) and not isinstance(known.default, bool):
        default = f"{known.default:g}" if isinstance(known.default, float) else str(known.default)
    repeatable = known.repeated and not option.once and not option.positional and not option.several
    more = ["repeatable"] if repeatable else []
    more += [f"default: {default}"] if default else []
    text = f"{option.help} ({'; '.join(more)})" if more else option.help
    return text.replace("%", "%%")


def _reader(known: OptionField, option: Option) -> Callable[[str], Any]:
    """Return what makes a value of a word."""
    if option.read is None:
        kinds = get_args(known.type) or (known.type,)
        return next(kind for kind in kinds if kind is not type(None))  # type: ignore[no-any-return]
    read = option.read

    def value(word: str) -> Any:
        try:
            return read(word)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return value
