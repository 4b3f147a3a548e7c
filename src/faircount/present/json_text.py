"""A report as JSON. Pure ASCII, so that nothing in it can act on the terminal or pipe that it is sent to."""

import json

from faircount.report import Report


def render(report: Report) -> str:
    """Return the report's document as indented JSON with a final line feed; NaN is never written."""
    return json.dumps(report.document, ensure_ascii=True, allow_nan=False, indent=2) + "\n"
