"""Names of a package that are loaded when first used: importing the package costs nothing."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any


def names_of(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package.

    The stub beside its `__init__` says where each name is, a line for each: `from MODULE import NAME as NAME`.
    """

    @functools.cache
    def homes() -> dict[str, str]:
        from pathlib import Path

        lines = Path(file).with_suffix(".pyi").read_text("utf-8").splitlines()
        return {name: module for _, module, _, name, *_ in map(str.split, lines)}

    def get(name: str) -> Any:
        if name == "__all__":
            return sorted(homes())
        if name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes()[name]), name)

    return get, lambda: sorted(homes())
