"""The commands `list` and `try` of targets and attacks."""

from __future__ import annotations

import contextlib
import sys

from faircount.analysis import catalogue
from faircount.analysis import catalogue as trials
from faircount.app import targets
from faircount.app.cli.judges import text_of
from faircount.app.cli.messages import note
from faircount.app.cli.parts import Output
from faircount.app.cli.runner import EXIT_INCOMPLETE, CommandResult
from faircount.app.options import Models
from faircount.core.errors import InputError
from faircount.runs.options import TryAttackOptions, TryTargetOptions


def list_targets(_: Output) -> CommandResult:
    """Run `targets list`."""
    return CommandResult(report=catalogue.targets_report(catalogue.list_targets()), name="targets")


def try_target(options: TryTargetOptions, _: Output) -> CommandResult:
    """Run `targets try`."""
    tried = targets.try_target(options.target, text_of(options.prompt), options=options, notice=note)
    failed = None if tried.blocked else tried.error
    return CommandResult(
        report=trials.target_report(tried),
        name="answer",
        notes=[] if failed is None else [f"{options.target}: {failed.message}"],
        code=0 if failed is None else EXIT_INCOMPLETE,
    )


def list_attacks(_: Output) -> CommandResult:
    """Run `attacks list`."""
    return CommandResult(report=catalogue.attacks_report(catalogue.list_attacks()), name="attacks")


def try_attack(options: TryAttackOptions, models: Models, _: Output) -> CommandResult:
    """Run `attacks try`."""
    prompt = text_of(options.prompt)
    # Standard output belongs to the answer, and an attack may be anybody's code.
    with contextlib.redirect_stdout(sys.stderr):
        trial = targets.try_attack(options.attack, prompt, options=[options, models], notice=note)
    return CommandResult(
        report=trials.attack_report(trial, targets.entry_of(prompt)),
        name="attack",
        inputs=[] if models.config is None else [models.config],
        notes=[f"{trial.attack}: {trial.error}"] if trial.error else [],
        code=InputError.exit_code if trial.error else 0,
    )
