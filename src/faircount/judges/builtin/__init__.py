"""The judges that are built in. The patterns that they look for are in TOML files beside them, for people to review."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent
_FRAGMENT = re.compile(r"\{([a-z_]+)\}")


def read_patterns(name: str) -> dict[str, Any]:
    """Return what a file of patterns holds."""
    import tomllib

    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def pattern_source(written: str, fragments: Mapping[str, str]) -> str:
    """Return the pattern that a file writes over several lines, with fragments in their places."""
    return _FRAGMENT.sub(lambda name: fragments[name[1]], written.replace("\n", ""))
