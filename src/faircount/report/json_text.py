"""A report as JSON. Pure ASCII, and no command to a CI job: nothing in it acts on where it is sent to."""

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from faircount.report.blocks import Report

_ESCAPE = re.compile(r"\\(?:u(?:d[89ab]..\\ud[c-f]..|(d[89a-f]..)|....)|[^u])")
"""An escaped character, or a pair of surrogates; the group is a lone one."""


def render(report: Report) -> str:
    """Return the report's document as indented JSON with a final line feed; NaN is never written.

    Lone surrogates, which most parsers of JSON refuse, become U+FFFD.
    """
    plain = msgspec.to_builtins(report.document, enc_hook=_plain)
    text = json.dumps(plain, ensure_ascii=True, allow_nan=False, indent=2) + "\n"
    if r"\ud" in text:
        text = _ESCAPE.sub(lambda escape: r"\ufffd" if escape[1] else escape[0], text)
    # Only strings hold this sign.
    return text.replace("##", r"\u0023#")


def _plain(value: Any) -> Any:
    """Return what anybody's judge or attack may hand over, such as a text of a subclass, as one of a plain type."""
    if isinstance(value, Mapping):
        return dict(value)
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise NotImplementedError(f"{type(value).__name__} is not plain data")
