"""Writes the table of docs/reference/policy-blocks.md from the data itself; a test fails when the page is stale.

Run: .venv/bin/python -m tools.policy_blocks_reference
"""

from __future__ import annotations

from pathlib import Path

from faircount.core.outcomes import patterns

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "policy-blocks.md"
BEGIN, END = "| pattern | provider | where it says so | any of these phrases |\n", "\n## "


def page() -> str:
    """Return the text of the page with the table as it should be."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    rows = "".join(
        f"| `{pattern.id}` | {pattern.provider} | {pattern.source} | {', '.join(f'`{p}`' for p in pattern.phrases)} |\n"
        for pattern in patterns()
    )
    return f"{before}{BEGIN}|---|---|---|---|\n{rows}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
