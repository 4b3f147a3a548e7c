"""Writes docs/findings.md from the register of findings and their text; a test fails when the page is stale.

Run: .venv/bin/python -m tools.findings_page
"""

from __future__ import annotations

import re
from pathlib import Path

from faircount.core.findings import REGISTER, explanations

PAGE = Path(__file__).parent.parent / "docs" / "findings.md"
HEAD = """\
# Findings

A finding is a problem with the data. Analyses list findings at the top, with severity, count and the first places
(`file:line`). `faircount explain F015` prints the text below. A code never changes its meaning.

- **error**: data are missing. Only F001 and F002 are errors, and only they make `--strict` exit with code 3.
- **warning**: a figure could be read differently, or the data contradict themselves.
- **info**: how something was counted, where that is not obvious.
"""
_CODE = re.compile(r"\b(F[0-9]{3})\b")


def page() -> str:
    """Return the text of the page."""
    return "\n".join([_linked(HEAD), *map(_section, REGISTER)])


def _section(code: str) -> str:
    kind, text = REGISTER[code], explanations()[code]
    title = kind.title[0].upper() + kind.title[1:]
    lines = [f"**{title}** ({kind.severity.value})", text.cause, f"*Effect:* {text.effect}", f"*Remedy:* {text.remedy}"]
    return "\n\n".join([f"## {code}", *map(_linked, lines)]) + "\n"


def _linked(text: str) -> str:
    """Link the codes of findings in running text, not in code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _CODE.sub(_link, part) for part in parts)


def _link(code: re.Match[str]) -> str:
    return f"[{code[1]}](#{code[1].lower()})"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
