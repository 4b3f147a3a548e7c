"""JSON as it goes over the wire, there and back; the fast way first, the careful way for what that refuses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal, NoReturn

import msgspec

from faircount.core.errors import UsageError


class NotJson(Exception):
    """Bytes that are no JSON."""


def encode(value: object, order: Literal["deterministic"] | None = None) -> bytes:
    """Return JSON. Half a surrogate pair, which prompts of attacks contain, is written as an escape."""
    try:
        return msgspec.json.encode(value, enc_hook=_plain, order=order)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return _encode_carefully(value, sort=order is not None)


def _encode_carefully(value: object, *, sort: bool) -> bytes:
    try:
        return json.dumps(value, default=_plain, allow_nan=False, sort_keys=sort, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):
        raise UsageError("chat: the messages or parameters contain something that cannot be written as JSON") from None


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


def digest(value: object) -> str:
    """Return the SHA-256 of a value; the order of keys does not matter."""
    return hashlib.sha256(encode(value, order="deterministic")).hexdigest()


def decode(body: bytes) -> Any:
    """Return what JSON says, or raise `NotJson`. NaN and Infinity are no JSON."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _decode_carefully(body)


def _decode_carefully(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8-sig"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise NotJson from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def mended(text: str) -> str:
    """Return a text that can be written as UTF-8: half a surrogate pair becomes the replacement character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
