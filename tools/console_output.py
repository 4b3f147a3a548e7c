"""Renews the output that the documentation shows for its commands; what a line `…` leaves out stays left out.

Run: .venv/bin/python -m tools.console_output [PAGE…]

The commands of a page run in a folder where `faircount demo` has run, as the tests run them. Every stretch of lines
that a page shows is replaced by the stretch of the new output that is most like it; look at the difference before you
commit it.
"""

from __future__ import annotations

import difflib
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.console_blocks import ELLIPSIS, Shown, matches, shown_commands
from tests.test_docs import DOCS, PAGES_WITH_COMMANDS, run

_LINES_THAT_MAY_BE_NEW = 3
_NUMBERS = re.compile(r"[\d.,%\[\]+-]+")


def renewed(claimed: Sequence[str], real: Sequence[str]) -> list[str]:
    """Return the lines to show instead of those claimed: all, or the stretches between ellipses."""
    stretches, ellipses = [list[str]()], list[str]()
    for line in claimed:
        if line.strip() == ELLIPSIS:
            ellipses.append(line)
            stretches.append([])
        else:
            stretches[-1].append(line)
    if not ellipses:
        return list(real)
    shown, begin = list[str](), 0
    for number, stretch in enumerate(stretches):
        is_last = number == len(stretches) - 1
        if stretch:
            first, last = _place_of(stretch, real, begin, at_start=number == 0, at_end=is_last)
            shown += real[first:last]
            begin = last
        if not is_last:
            shown.append(ellipses[number])
    return shown


def _place_of(
    stretch: Sequence[str], real: Sequence[str], begin: int, *, at_start: bool, at_end: bool
) -> tuple[int, int]:
    """Return where in the output the lines are that are most like a stretch: from its first line to its last."""
    first = begin if at_start else max(range(begin, len(real)), key=lambda at: (_likeness(stretch[0], real[at]), -at))
    if at_end:
        return (first, len(real)) if at_start else (_from_the_end(stretch, real, begin), len(real))
    wanted = range(first, min(first + 2 * len(stretch) + _LINES_THAT_MAY_BE_NEW, len(real)))
    last = max(wanted, key=lambda at: (_likeness(stretch[-1], real[at]), -abs(at - first - len(stretch) + 1)))
    return first, last + 1


def _from_the_end(stretch: Sequence[str], real: Sequence[str], begin: int) -> int:
    begin = max(begin, len(real) - 2 * len(stretch) - _LINES_THAT_MAY_BE_NEW)
    return max(range(begin, len(real)), key=lambda at: (_likeness(stretch[0], real[at]), at))


def _likeness(one: str, other: str) -> float:
    """Return how alike two lines are, whatever their figures."""
    if not one.strip() or not other.strip():
        return float(one.strip() == other.strip())
    words = [" ".join(_NUMBERS.sub("#", line).split()) for line in (one, other)]
    return difflib.SequenceMatcher(None, *words).ratio()


def renew(page: Path, folder: Path) -> None:
    """Rewrite the blocks of a page whose output is no longer true."""
    text = page.read_text(encoding="utf-8")
    for shown in shown_commands(page):
        real = [line.rstrip() for line in run(shown, folder)]
        if shown.output and not matches(shown.output, real):
            while real and not real[0]:
                del real[0]
            old = "\n".join(shown.output)
            assert text.count(old) == 1, f"{page}: the output of {shown.command} is there {text.count(old)} times"
            text = text.replace(old, "\n".join(renewed(shown.output, real)))
            sys.stdout.write(f"{page}: {shown.command}\n")
    page.write_text(text, encoding="utf-8")


def main() -> None:
    """Renew the pages that were named, or all."""
    pages = [Path(name).resolve() for name in sys.argv[1:]] or PAGES_WITH_COMMANDS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(Shown("faircount demo", ()), folder)
        shutil.copytree(DOCS / "samples", folder / "docs" / "samples")
        for page in pages:
            renew(page, folder)


if __name__ == "__main__":
    main()
