"""Text for the cell of a sheet: exactly the source's text wherever a sheet can hold it.

A sheet is XML, in which most control characters and lone surrogates cannot be written at all. These, and the
other control characters, are spelled out as in a terminal (`\\x1b`, `\\ud800`); tabs, line feeds and carriage returns
stay. Nothing is added in front and nothing is taken for a number, a formula or a link: that is up to whoever writes the
cell, and `sheet_cells` writes every text as text. What does not fit is cut with a mark that says where the rest is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from faircount.core.text import clip_middle, visible

LONGEST = 32_767
"""The most that a cell holds, in units of UTF-16, as Excel counts."""

SOURCE = "the source"
_PLACE_WIDTH = 200
# Control characters but tab, line feed and carriage return; half a surrogate pair; what XML excludes besides.
_UNSPEAKABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_BEYOND_THE_FIRST_PLANE = re.compile("[\U00010000-\U0010ffff]")


class CellText(NamedTuple):
    """What a cell shows of a text, and whether that is less than all of it."""

    shown: str
    cut: bool


def is_plain(text: str) -> bool:
    """Return whether a text is certainly fine as it is; a quick test, which may also be False for a fine text."""
    return len(text) <= LONGEST // 2 and text.replace("\n", "").isprintable()


def spelled_out(text: str) -> str:
    """Return a text with the characters spelled out that a sheet or a file in UTF-8 cannot hold or would hide."""
    return _UNSPEAKABLE.sub(lambda match: visible(match[0]), text)


def cell_text(text: str, elsewhere: str = SOURCE) -> CellText:
    """Return what a cell shows of a text; if it has to be cut, the mark at its end names the place `elsewhere`."""
    if is_plain(text):
        return CellText(text, cut=False)
    shown = spelled_out(text)
    if units(shown) <= LONGEST:
        return CellText(shown, cut=False)
    room = LONGEST - units(_mark(len(text), elsewhere))
    kept, start = 0, []
    for character in text[:room]:
        spelled = spelled_out(character)
        room -= units(spelled)
        if room < 0:
            break
        start.append(spelled)
        kept += 1
    return CellText("".join(start) + _mark(len(text) - kept, elsewhere), cut=True)


def units(text: str) -> int:
    """Return the length of a text as Excel counts it: characters beyond the first plane count twice."""
    if text.isascii():
        return len(text)
    return len(text) + len(_BEYOND_THE_FIRST_PLANE.findall(text))


def _mark(missing: int, elsewhere: str) -> str:
    place = clip_middle(visible(elsewhere), _PLACE_WIDTH)
    return f"… [cut: {missing:,} more characters, full text in {place}]"


def companion_lines(cells: Iterable[tuple[int, str, str]]) -> Iterator[str]:
    """Yield a line of JSON for each text that was cut: its row, its column, and all of it.

    The lines are pure ASCII, so that lone surrogates and control characters come back as they were.
    """
    for row, column, text in cells:
        yield json.dumps({"row": row, "column": column, "text": text}) + "\n"
