"""Markup that is safe by construction: elements are made only by `tag`, which escapes whatever text it is given.

No text reaches an SVG or a page another way, and nothing that could load or run something can be said at all.
"""

from __future__ import annotations

import re
from html import escape

from msgspec import Struct

from faircount.core.text import visible


class Markup(Struct, frozen=True):
    """Finished markup. Deliberately no `str`: a text can never be taken for markup, nor markup for a text."""

    text: str


Child = Markup | str | None
Attribute = str | int | float | bool | None

VOID = frozenset(["meta", "br", "wbr"])
_REFUSED = re.compile(r"on.*|style|src|srcset|action|formaction|xlink:href", re.IGNORECASE)


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """Return an element. Texts and attribute values are made visible and escaped; None and False are left out.

    `class_` stands for `class` and `_` for `-`. What could load or run something is refused.
    """
    start = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Markup(f"<{start}>")
    return Markup(f"<{start}>{together(*children).text}</{name}>")


def together(*children: Child) -> Markup:
    """Return children one after the other, each text among them escaped."""
    return Markup("".join(child.text if isinstance(child, Markup) else _escaped(child or "") for child in children))


def _escaped(text: str) -> str:
    """Return a text that can neither act nor hide. Line feeds stay: they mean nothing but a break inside `<pre>`."""
    return escape("\n".join(visible(line) for line in text.split("\n")), quote=True)


def _attribute(key: str, value: Attribute) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    written = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    if _REFUSED.fullmatch(name) or (name == "href" and not written.startswith("#")):
        raise ValueError(f"a report never has the attribute {name}={written!r}")
    return f' {name}="{_escaped(written)}"'
