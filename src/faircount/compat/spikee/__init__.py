"""spikee: its judges, target modules and attacks, from the installed package or from a workspace.

In spikee each is a module with a function, or with a class that has a method of the same name.
"""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any

from faircount.components.code import imported, in_short, is_there, version_of, version_of_code
from faircount.core.errors import UsageError
from faircount.core.text import clip, visible

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def installed(noun: str, target: str) -> ModuleType:
    """Return a judge or an attack of the installed package."""
    name = f"spikee:{target}"
    if not _NAME.fullmatch(target):
        raise UsageError(
            f"spikee:{clip(visible(target), 100)}: name one of spikee's {noun}s, or the file of one: "
            f"spikee:./{noun}s/mine.py"
        )
    imported("spikee", name, "spikee")
    if not is_there(f"spikee.{noun}s.{target}"):
        raise UsageError(
            f"{name}: the installed spikee has no such {noun}; name one in a workspace by its file: "
            f"spikee:./{noun}s/{target}.py"
        )
    return imported(f"spikee.{noun}s.{target}", name, "spikee")


def file_version(path: str, module: ModuleType) -> str:
    """Return the version of a file in a workspace: spikee's, where it is installed, and the digest of the file."""
    return f"{version_of('spikee') if is_there('spikee') else 'none'}+{version_of_code(path, module)}"


def class_with(module: ModuleType, method: str) -> type | None:
    """Return the first class of a module's own that has a method."""
    for _, found in inspect.getmembers(module, inspect.isclass):
        own = found.__module__ == module.__name__ and not inspect.isabstract(found)
        if own and callable(getattr(found, method, None)):
            return found
    return None


def first_option(name: str, implementation: Any) -> tuple[Any, bool]:
    """Return the first option that a judge or an attack offers, and whether it asks a model."""
    offer = getattr(implementation, "get_available_option_values", None)
    if offer is None:
        return None, False
    try:
        options = offer()
    except Exception as error:  # code of a workspace
        raise UsageError(f"{name}: cannot read its options: {in_short(error)}") from error
    values, asks = (*options, False)[:2] if isinstance(options, tuple) else (options, False)
    return (values[0] if isinstance(values, list | tuple) and values else None), bool(asks)
