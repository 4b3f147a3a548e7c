"""What judges are made with, from the options that every command with judges has."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from faircount.config import Config, read_config
from faircount.errors import UsageError
from faircount.judging.judge import Judge, every_part
from faircount.judging.making import Setting, make
from faircount.judging.many import DEFAULT_CONCURRENCY

if TYPE_CHECKING:
    from faircount.chat.settings import ChatSettings

_OPTIONS = ("model", "base_url", "api_key_env", "concurrency")


def setting_of(arguments: argparse.Namespace) -> Setting:
    """Return the setting that --config and the options about models describe; an option goes before the file."""
    config = read_config(arguments.config) if arguments.config is not None else Config()
    return Setting(chat=_chat(arguments, config), named=dict(config.judges))


def made_judges(expressions: Sequence[str], arguments: argparse.Namespace) -> list[Judge]:
    """Return the judges that are named; one that is named twice is refused."""
    setting = setting_of(arguments)
    judges = [make(expression, setting) for expression in expressions]
    for judge in judges:
        for part in every_part(judge):
            part.ready()
    called = [judge.called for judge in judges]
    for name in called:
        if called.count(name) > 1:
            raise UsageError(f"{name}: named twice; name each judge once")
    return judges


def concurrency_of(setting: Setting) -> int:
    """Return how many requests may be under way at once."""
    return DEFAULT_CONCURRENCY if setting.chat is None else setting.chat.concurrency


def check_work(arguments: argparse.Namespace) -> None:
    """Raise if the options about how the work is done make no sense."""
    for name in ("workers", "concurrency"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name} must be 1 or more")


def _chat(arguments: argparse.Namespace, config: Config) -> ChatSettings:
    import msgspec

    from faircount.chat.settings import ChatSettings

    told: dict[str, Any] = dict(config.chat)
    told.update({name: getattr(arguments, name) for name in _OPTIONS if getattr(arguments, name, None) is not None})
    try:
        return msgspec.convert({**told, "prices": dict(config.prices)}, ChatSettings)
    except msgspec.ValidationError as error:
        raise UsageError(f"--config, --model, --base-url and --api-key-env: {error}") from error
