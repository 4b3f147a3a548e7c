"""A report as JSON. Pure ASCII, and no command to a CI job: nothing in it acts on where it is sent to."""

import json

import msgspec

from faircount.report import Report


def render(report: Report) -> str:
    """Return the report's document as indented JSON with a final line feed; NaN is never written."""
    text = json.dumps(msgspec.to_builtins(report.document), ensure_ascii=True, allow_nan=False, indent=2) + "\n"
    # Only strings hold this sign.
    return text.replace("##", r"\u0023#")
