"""The commands `attacks list` and `attacks try`."""

from __future__ import annotations

import contextlib
import sys

from faircount.analysis.attacks import listing, trying
from faircount.cli.judge_setting import made_judges
from faircount.cli.parts import Models, Output
from faircount.cli.runner import Answer
from faircount.cli.try_arguments import fields_of, text_of
from faircount.config import setting_of
from faircount.errors import InputError, UsageError
from faircount.judging.making import Setting
from faircount.running.attacks.making import AttackSetting, make_attack
from faircount.running.attacks.seam import Attack, Entry
from faircount.running.options import TryAttackOptions

_NAME = "prompt"


def list_attacks(output: Output) -> Answer:
    """Run `attacks list`."""
    del output
    return Answer(report=listing.as_report(listing.list_attacks()), name="attacks")


def try_attack(options: TryAttackOptions, models: Models, output: Output) -> Answer:
    """Run `attacks try`."""
    import asyncio

    del output
    if options.judge is not None and options.target is None:
        raise UsageError("--judge needs --target: without one there is no answer to judge")
    setting = setting_of(models)
    attack = make_attack(options.attack, AttackSetting(setting.chat, options.attack_options))
    attack.ready()
    text = text_of(options.prompt)
    if not text.strip():
        raise UsageError("the prompt is empty")
    entry = Entry(_NAME, ({"role": "user", "content": text},), fields_of(options.field))
    # Standard output belongs to the answer, and an attack may be anybody's code.
    with contextlib.redirect_stdout(sys.stderr):
        trial = asyncio.run(_tried(attack, entry, options, setting))
    return Answer(
        report=trying.as_report(trial, entry),
        name="attack",
        inputs=[] if models.config is None else [models.config],
        notes=[f"{trial.attack}: {trial.error}"] if trial.error else [],
        code=InputError.exit_code if trial.error else 0,
    )


async def _tried(attack: Attack, entry: Entry, options: TryAttackOptions, setting: Setting) -> trying.AttackTrial:
    from faircount.running.targets.making import TargetSetting, make_target

    chat = setting.chat
    judges = [] if options.judge is None else made_judges([options.judge], setting)
    target = None
    try:
        if options.target is not None:
            target = make_target(options.target, TargetSetting() if chat is None else TargetSetting(chat))
        judge = judges[0] if judges else None
        return await trying.try_attack(attack, entry, iterations=options.iterations, target=target, judge=judge)
    finally:
        await attack.close()
        if target is not None:
            await target.close()
        for judge in judges:
            judge.close()
