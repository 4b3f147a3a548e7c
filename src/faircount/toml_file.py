"""TOML files that users write: read with messages that name file, line and key. What they mean is for others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets

_LARGEST = 1024 * 1024
_SECRET = re.compile(r"(?i)(?:api[_-]?key|token|secret|password|passwd|credential|authorization)s?")


def small_file(path: str) -> bytes:
    """Return the content of a file that is small, as what people write by hand is."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > _LARGEST:
        raise UsageError(f"{path}: larger than 1 MiB, the limit for such files")
    return content


def read_toml(path: str) -> dict[str, Any]:
    """Return what a file says; UsageError with the line where it is no TOML."""
    return toml_of(small_file(path), path)


def toml_of(content: bytes, path: str) -> dict[str, Any]:
    """Return what the content of a file says."""
    import tomllib

    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(_torn(path, str(error))) from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply") from error
    except ValueError as error:  # Python converts no number of so many digits
        raise UsageError(f"{path}: invalid TOML: a number has too many digits") from error


def _torn(path: str, message: str) -> str:
    """Return what is wrong with a file that is no TOML, at its line where the reader says which."""
    found = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    if found is None:
        return f"{path}: invalid TOML: {message}"
    return f"{path}:{found[1]}: invalid TOML: {message[: found.start()]}, at column {found[2]}"


def table(path: str, name: str, value: object) -> dict[str, Any]:
    """Return a value that must be a table."""
    if not isinstance(value, dict):
        raise UsageError(f"{path}: {name} must be a table: [{name}]")
    return value


def refuse_unknown(path: str, where: str, told: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise for a key that nothing knows, with the one that was perhaps meant."""
    import difflib

    for key in told:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"available: {', '.join(known)}"
            place = f" in [{where}]" if where else ""
            raise UsageError(f"{path}: {clip(mask_secrets(key), 60)}: no such key{place}; {hint}")


def refuse_secrets(path: str, where: str, told: Mapping[str, Any]) -> None:
    """Raise for a key that would hold a secret, and for a value that looks like one."""
    for key, value in told.items():
        if _SECRET.fullmatch(key):
            raise UsageError(
                f"{path}: {where}.{key}: do not put secrets in a file; set an environment variable, and name it "
                'here: api_key_env = "MY_KEY"'
            )
        if isinstance(value, Mapping):
            refuse_secrets(path, f"{where}.{key}", value)
        elif isinstance(value, str) and key != "cache" and mask_secrets(value) != value:
            raise UsageError(f"{path}: {where}.{key}: looks like a secret; put it in an environment variable")
