"""The commands `attacks list` and `attacks try`."""

from __future__ import annotations

import argparse
import contextlib
import sys

from faircount.analysis.attacks import listing, trying
from faircount.cli.judge_setting import made_judges, setting_of
from faircount.cli.messages import note
from faircount.cli.output import refuse_page_without_place, show_one
from faircount.cli.try_arguments import fields_of, text_of
from faircount.errors import InputError, UsageError
from faircount.running.attacks.making import AttackSetting, make_attack
from faircount.running.attacks.seam import Attack, Entry

_MOST_ITERATIONS = 10_000
_NAME = "prompt"


def list_attacks(arguments: argparse.Namespace) -> int:
    """Run `attacks list`."""
    refuse_page_without_place(arguments)
    show_one("attacks", listing.as_report(listing.list_attacks()), arguments)
    return 0


def try_attack(arguments: argparse.Namespace) -> int:
    """Run `attacks try`."""
    import asyncio

    refuse_page_without_place(arguments)
    if not 1 <= arguments.iterations <= _MOST_ITERATIONS:
        raise UsageError(f"--iterations must be from 1 to {_MOST_ITERATIONS:,}")
    if arguments.judge is not None and arguments.target is None:
        raise UsageError("--judge needs --target: without one there is no answer to judge")
    chat = setting_of(arguments).chat
    attack = make_attack(arguments.attack, AttackSetting(chat, arguments.attack_options))
    attack.ready()
    entry = _entry(arguments)
    # Standard output belongs to the answer, and an attack may be anybody's code.
    with contextlib.redirect_stdout(sys.stderr):
        trial = asyncio.run(_tried(attack, entry, arguments))
    inputs = [] if arguments.config is None else [arguments.config]
    show_one("attack", trying.as_report(trial, entry), arguments, inputs)
    if not trial.error:
        return 0
    note(f"{trial.attack}: {trial.error}")
    return InputError.exit_code


async def _tried(attack: Attack, entry: Entry, arguments: argparse.Namespace) -> trying.AttackTrial:
    from faircount.running.targets.making import TargetSetting, make_target

    chat = setting_of(arguments).chat
    judges = [] if arguments.judge is None else made_judges([arguments.judge], arguments)
    target = None
    try:
        if arguments.target is not None:
            target = make_target(arguments.target, TargetSetting() if chat is None else TargetSetting(chat))
        judge = judges[0] if judges else None
        return await trying.try_attack(attack, entry, iterations=arguments.iterations, target=target, judge=judge)
    finally:
        await attack.close()
        if target is not None:
            await target.close()
        for judge in judges:
            judge.close()


def _entry(arguments: argparse.Namespace) -> Entry:
    text = text_of(arguments.prompt)
    if not text.strip():
        raise UsageError("the prompt is empty")
    return Entry(_NAME, ({"role": "user", "content": text},), fields_of(arguments.field))
