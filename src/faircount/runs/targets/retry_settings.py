"""How patiently a target is asked, as a journal records it: the part of the chat settings that every server shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from faircount.chat.settings import ChatSettings

_NAMES = ("timeout", "tries", "requests_per_minute", "backoff", "longest_backoff", "longest_wait", "seed", "prices")


def recorded(chat: ChatSettings) -> dict[str, Any]:
    """Return what is written down."""
    return {name: msgspec.to_builtins(getattr(chat, name)) for name in _NAMES}


def settings_of(record: Mapping[str, Any]) -> ChatSettings:
    """Return settings from what was written down; `msgspec.ValidationError` where that cannot be."""
    return msgspec.convert({name: record[name] for name in _NAMES if name in record}, ChatSettings)


def told_or(chat: ChatSettings, **file: Any) -> ChatSettings:
    """Return settings with what a file says; what differs from the defaults was told by the user and stays."""
    default = ChatSettings()
    told = {
        name: value
        for name, value in file.items()
        if value is not None and getattr(chat, name) == getattr(default, name)
    }
    return msgspec.structs.replace(chat, **told)
