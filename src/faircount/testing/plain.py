"""Parameters as they are written down: plain data, the same in every process, and never a secret.

An object that has no form of its own is written as its class: an address in memory would make two runs of the same
test look different.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

import msgspec

from faircount.core.text import clip, mask_secrets

SECRET = "[secret]"
PRIVATE = "_faircount_tests_"
"""What the names of the modules of test files begin with, while they are executed; never written down."""

_DEEPEST = 12
_LONGEST_TEXT = 20_000
_LONGEST_REPR = 200
_MOST_ITEMS = 10_000
_PRIVATE_NAME = re.compile(rf"{PRIVATE}[0-9a-f]+\.([^\s@'\">]+)(?:@\d+)?")
_ADDRESS = re.compile(r"\bat 0x[0-9A-Fa-f]+")
_USER_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_SECRET_WORDS = frozenset(
    ["secret", "password", "passwd", "passphrase", "authorization", "credential", "credentials", "apikey", "cookie"]
)
_KEYS = frozenset(["api", "access", "private", "secret", "auth", "subscription", "account", "signing"])


def is_secret(name: str) -> bool:
    """Tell whether a value of this name is a secret: `api_key`, `token`, `Authorization`; not `max_tokens` or `key`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] == "env":
        return False
    if _SECRET_WORDS & set(words) or words[-1] == "token":
        return True
    return words[-1] == "key" and bool(_KEYS & set(words[:-1]))


def plain(value: Any, *, name: str = "") -> Any:
    """Return a value as plain data that JSON can hold; what is named like a secret, or looks like one, is hidden."""
    return _plain(value, name, 0)


def secrets_in(value: Any) -> set[str]:
    """Return the texts that `plain` hides because of their names, so that they can be hidden elsewhere too."""
    found: set[str] = set()
    _gather(value, "", found, 0)
    return found


def shown(name: str, value: object) -> str:
    """Return a value for `repr`, hidden if its name says that it is a secret."""
    return SECRET if is_secret(name) and _can_be_secret(value) else mask_secrets(repr(value))


def _can_be_secret(value: object) -> bool:
    return value is not None and not isinstance(value, bool)


def _plain(value: Any, name: str, depth: int) -> Any:
    if is_secret(name) and _can_be_secret(value):
        return SECRET
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, enum.Enum):
        return _plain(value.value, "", depth + 1)
    if value is None or isinstance(value, bool | int | float | str):
        return _simple(value)
    inner = fields_in(value)
    if inner is not None:
        told = {_key(key): _plain(item, str(key), depth + 1) for key, item in islice(inner.items(), _MOST_ITEMS)}
        # An object in an object stands with its class: two distances without parameters are not the same.
        return {"type": class_name(type(value)), **told} if depth and not isinstance(value, Mapping) else told
    if isinstance(value, list | tuple):
        return [_plain(item, "", depth + 1) for item in islice(value, _MOST_ITEMS)]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item, "", depth + 1) for item in value), key=repr)
    return _other(value)


def _simple(value: bool | int | float | str | None) -> Any:
    if isinstance(value, str):
        return clip(_USER_IN_ADDRESS.sub(SECRET, mask_secrets(str(value))), _LONGEST_TEXT)
    if isinstance(value, float):
        # JSON has no such numbers.
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value) if abs(value) < 2**63 else str(value)
    return value


def class_name(kind: type) -> str:
    """Return the module and name of a class; a module of a test file is called as its file is."""
    return _public(f"{kind.__module__}.{kind.__qualname__}")


def _public(name: str) -> str:
    return _PRIVATE_NAME.sub(r"\1", name)


def _key(key: object) -> str:
    return mask_secrets(key) if isinstance(key, str) else str(key)


def fields_in(value: Any) -> Mapping[Any, Any] | None:
    """Return what a value is made of, if it has names for it: a mapping, or an object that can tell its fields."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, type):
        return None
    tell = getattr(value, "_recorded", None)
    if callable(tell):
        told = tell()
        return told if isinstance(told, Mapping) else None
    asked = getattr(value, "client_params", None)
    if isinstance(asked, Mapping):
        # A client of REBEL's: which model it asks is what matters.
        return asked
    for names in ("__struct_fields__", "model_fields", "__dataclass_fields__"):
        fields = getattr(type(value), names, None)
        if isinstance(fields, tuple | Mapping):
            return {name: getattr(value, name, None) for name in fields}
    return None


def _other(value: Any) -> Any:
    named = getattr(value, "__qualname__", None)
    if isinstance(named, str):
        return _public(f"{getattr(value, '__module__', '')}.{named}".lstrip("."))
    try:
        written = msgspec.to_builtins(value, str_keys=True)
    except Exception:  # noqa: BLE001  an object of anybody's
        return _represented(value)
    return _plain(written, "", 1) if isinstance(written, str | int | float) else _represented(value)


def _represented(value: Any) -> str:
    kind = f"<{class_name(type(value))}>"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  an object of anybody's
        return kind
    if _ADDRESS.search(text):
        return kind
    return clip(_USER_IN_ADDRESS.sub(SECRET, mask_secrets(_public(text))), _LONGEST_REPR)


def _gather(value: Any, name: str, found: set[str], depth: int) -> None:
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        if is_secret(name):
            found.add(str(value))
        return
    inner = fields_in(value)
    items = inner.items() if inner is not None else ()
    for key, item in islice(items, _MOST_ITEMS):
        _gather(item, name if is_secret(name) else str(key), found, depth + 1)
    if isinstance(value, list | tuple):
        for item in islice(value, _MOST_ITEMS):
            _gather(item, name, found, depth + 1)
