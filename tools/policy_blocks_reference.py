"""Writes the table and phrases of docs/reference/policy-blocks.md from the data; a test fails when it is stale.

Run: .venv/bin/python -m tools.policy_blocks_reference
"""

from __future__ import annotations

from pathlib import Path

from faircount.core.outcomes import patterns

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "policy-blocks.md"
BEGIN, END = "| pattern | provider | where |\n", "\n## "


def page() -> str:
    """Return the text of the page with the table, and the phrases below it, as they should be."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    rows = "".join(f"| `{pattern.id}` | {pattern.provider} | {pattern.source} |\n" for pattern in patterns())
    phrases = "".join(
        "\n".join([pattern.id, *(f"    {phrase}" for phrase in pattern.phrases), ""]) for pattern in patterns()
    )
    return f"{before}{BEGIN}|---|---|---|\n{rows}\n```text\n{phrases}```\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
