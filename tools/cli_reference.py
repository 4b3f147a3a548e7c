"""Writes docs/reference/cli.md from the parser itself; a test fails when the page is stale.

Options that several commands describe in the same words are listed once, by group; each command lists its own options
and links to the groups that it shares.

Run: .venv/bin/python -m tools.cli_reference
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from faircount.app.cli.commands import build_in_full

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"
HEAD = """\
# Command line

`--help` after a command, `--help-all` after `run`, shows the same text; `tools/cli_reference.py` generates this page.
Below each command are its own options, and links to [shared ones](#shared-options). See also
[exit codes](exit-codes.md).
"""
TABLE = "| option | meaning |\n|---|---|"


class Row(NamedTuple):
    """An option as the tables show it, in its group."""

    group: str
    word: str
    meaning: str

    @property
    def name(self) -> str:
        """The name to refer to it by: the last of its flags, which is the longest, or what stands for a file."""
        flag = self.word.split("`")[1].split(" ")[0]
        return flag if not re.fullmatch(r"-\w", flag) else self.word.split("`")[3].split(" ")[0]

    @property
    def text(self) -> tuple[str, str]:
        """What the tables show, whatever the group is called."""
        return self.word, self.meaning


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and, in order, those of its sub-commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from commands(child)


def page() -> str:
    """Return the text of the reference page."""
    parsers = list(commands(build_in_full()))
    rows = {parser.prog: list(_rows(parser)) for parser in parsers}
    shared = _shared(rows)
    described = [parser for parser in parsers if rows[parser.prog] or not _has_commands(parser)]
    parts = [HEAD, *_overview(parser for parser in described if not _has_commands(parser)), "", "## Shared options", ""]
    for group, own in shared.items():
        parts += [f"### {_title(group)}", "", TABLE, *(_line(row.word, row.meaning) for row in own), ""]
    return "\n".join([*parts, *(_section(parser, rows[parser.prog], shared) for parser in described)])


def examples(parser: argparse.ArgumentParser) -> list[str]:
    """Return the commands that the help of a parser ends with."""
    return re.findall(r"^(?:examples?:)? +?(faircount .+)$", parser.epilog or "", re.MULTILINE)


def _has_commands(parser: argparse.ArgumentParser) -> bool:
    return any(isinstance(action, argparse._SubParsersAction) for action in parser._actions)


def _shared(rows: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    """Return by group what several commands describe alike; of descriptions of one name in a group the usual one.

    What two groups describe alike is in the first.
    """
    counts = Counter(row for own in rows.values() for row in own if row.group)
    usual: dict[tuple[str, str], Row] = {}
    for row, count in counts.items():
        key = row.group, row.name
        if count > 1 and (key not in usual or count > counts[usual[key]]):
            usual[key] = row
    groups: dict[str, list[Row]] = defaultdict(list)
    seen: set[tuple[str, str]] = set()
    for (group, _), row in usual.items():
        if row.text not in seen:
            seen.add(row.text)
            groups[group].append(row)
    return groups


def _overview(parsers: Iterable[argparse.ArgumentParser]) -> Iterator[str]:
    """Yield a line of links for the commands of each noun, and one for the others."""
    names = [parser.prog.split()[1:] for parser in parsers]
    for noun, group in groupby(sorted(names, key=lambda name: name[0] if len(name) > 1 else ""), key=_noun):
        links = (f"[{name[-1]}](#{'-'.join(['faircount', *name])})" for name in group)
        yield f"- {noun}{', '.join(links)}"


def _noun(name: Sequence[str]) -> str:
    return f"`{name[0]}` " if len(name) > 1 else ""


def _section(parser: argparse.ArgumentParser, rows: Sequence[Row], shared: Mapping[str, Sequence[Row]]) -> str:
    lines = [f"## {parser.prog}", "", " ".join((parser.description or "").split()), ""]
    if shown := examples(parser):
        lines += ["```sh", *shown, "```", ""]
    elsewhere = {row.text for options in shared.values() for row in options}
    own = [row for row in rows if row.text not in elsewhere]
    if own:
        lines += [TABLE, *(_line(row.word, row.meaning) for row in own), ""]
    links, texts = [], {row.text for row in rows}
    for group, options in shared.items():
        used = [row for row in options if row.text in texts]
        names = "" if len(used) == len(options) else f" ({', '.join(f'`{row.name}`' for row in used)})"
        links += [f"[{_title(group).lower()}](#{_title(group).lower().replace(' ', '-')}){names}"] if used else []
    if links:
        lines += [f"Shared: {', '.join(links)}.", ""]
    return "\n".join(lines)


def _title(group: str) -> str:
    """Return the first words of a group's title, which is a heading."""
    return re.split(r"[,:]", group)[0].capitalize()


def _rows(parser: argparse.ArgumentParser) -> Iterator[Row]:
    formatter = parser._get_formatter()
    for group in parser._action_groups:
        # The groups of argparse itself say nothing about what an option does.
        title = "" if group in parser._action_groups[:2] else group.title or ""
        for action in group._group_actions:
            if action.help == argparse.SUPPRESS or isinstance(
                action, argparse._HelpAction | argparse._SubParsersAction
            ):
                continue
            value = str(action.metavar or "|".join(map(str, action.choices or ())))
            words = [f"{flag} {value if action.nargs != 0 else ''}".strip() for flag in action.option_strings] or [
                value
            ]
            yield Row(title, ", ".join(f"`{word}`" for word in words), formatter._expand_help(action))


def _line(word: str, meaning: str) -> str:
    cells = (cell.replace("|", "\\|") for cell in (word, meaning))
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
