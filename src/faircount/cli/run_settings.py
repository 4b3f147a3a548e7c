"""From the words of `run` to what is meant: what is run, against which target, within which limits."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

from msgspec.structs import replace

from faircount.chat.settings import ChatSettings
from faircount.cli.judge_setting import setting_of
from faircount.errors import InputError, UsageError
from faircount.judging.making import Setting
from faircount.running import runs
from faircount.running.attacks.making import AttackSetting, make_attack
from faircount.running.attacks.seam import Attack
from faircount.running.budget import Limits
from faircount.running.dataset_choice import DatasetChoice, settled
from faircount.running.dataset_columns import read_map
from faircount.running.datasets import are_datasets
from faircount.running.runs import AttackSettings, Choice, Settings
from faircount.running.selecting import Selection, read_tags
from faircount.running.shards import read_shard
from faircount.running.stopping import read_rules
from faircount.running.targets.making import TargetSetting
from faircount.running.targets.openai import refuse_key
from faircount.running.targets.seam import Target

ABOUT_MODELS = ("model", "base_url", "api_key_env")
_FOR_ENTRIES = (
    "judge",
    "no_judge",
    "map",
    "where",
    "sample",
    "sample_seed",
    "attempts",
    "attack",
    "attack_iterations",
    "attack_options",
    "attack_only",
    "shard",
    "stop_when",
    "spikee_results",
)
_FOR_TESTS = ("aggregation", "report_layout", "tags", "exclude_tags", "fail_on_failed_tests")


def judge_setting(arguments: argparse.Namespace) -> Setting:
    """Return what judges are made with."""
    return setting_of(argparse.Namespace(**{**dict.fromkeys(ABOUT_MODELS), **vars(arguments)}))


def settings_of(arguments: argparse.Namespace, target: Target, attack: Attack | None, limits: Limits) -> Settings:
    """Return the settings of a new run, but for the files that it reads."""
    paths = paths_of(arguments)
    # The model that judges ask is recorded too, whatever the target is.
    refuse_key("--base-url", arguments.base_url or "", arguments.api_key_env or ChatSettings().api_key_env)
    entries = entries_of(arguments, paths, target) if attacks_entries(arguments) else None
    return Settings(
        choice=None if entries is not None else choice_of(arguments, paths),
        entries=entries,
        files=(),
        target=target.settings(),
        limits=limits,
        attacking=_attacking(arguments, attack) if entries is not None else AttackSettings(),
        shard=None if arguments.shard is None else read_shard(arguments.shard),
        stop_when=_stop_when(arguments),
        ignore_errors=arguments.errors == "ignore",
        output_folder=arguments.output_folder,
        timestamp=time.strftime(runs.TIMESTAMP),
        report_layout=arguments.report_layout or "per-case",
        folder=str(Path.cwd()),
        config=arguments.config,
        judges={name: getattr(arguments, name) for name in ABOUT_MODELS},
        spikee_results=arguments.spikee_results,
    )


def paths_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return what is to be run, by whichever option it was named."""
    in_folders = [path for folder in arguments.dataset_folder for path in _datasets_in(folder)]
    return (*arguments.paths, *arguments.test_dir, *arguments.dataset, *in_folders)


def _datasets_in(folder: str) -> list[str]:
    found = sorted(str(path) for path in Path(folder).glob("*.jsonl") if path.is_file())
    if not found:
        raise InputError(f"{folder}: {'no .jsonl files in this folder' if Path(folder).is_dir() else 'no such folder'}")
    return found


def attacks_entries(arguments: argparse.Namespace) -> bool:
    """Return whether the paths are datasets, whose entries are attacked, or tests; refuse options that do not fit."""
    paths = paths_of(arguments)
    if not paths:
        raise UsageError("nothing to run: name test files, folders of test files, or datasets")
    datasets = are_datasets(paths)
    wrong, kind = (_FOR_TESTS, "tests") if datasets else (_FOR_ENTRIES, "datasets")
    for name in wrong:
        if getattr(arguments, name, None):
            raise UsageError(f"--{name.replace('_', '-')} works only with {kind}, not with {paths[0]}")
    return datasets


def choice_of(arguments: argparse.Namespace, paths: tuple[str, ...]) -> Choice:
    """Return which tests are meant."""
    return Choice(paths, _selection(arguments), arguments.retries, arguments.aggregation)


def entries_of(arguments: argparse.Namespace, paths: tuple[str, ...], target: Target | None) -> DatasetChoice:
    """Return which entries are meant."""
    attempts = 1 if arguments.attempts is None else arguments.attempts
    _refuse_less(attempts, 1, "--attempts")
    decides = target is not None and target.decides
    choice = DatasetChoice(
        paths=paths,
        judge=arguments.judge,
        columns=read_map(arguments.map),
        sample=arguments.sample,
        sample_seed=arguments.sample_seed or "42",
        attempts=attempts,
        selection=_selection(arguments),
        needs_judge=not (arguments.no_judge or decides),
        where=arguments.where,
    )
    return settled(choice)


def _selection(arguments: argparse.Namespace) -> Selection:
    return Selection(
        keyword=arguments.keyword,
        tags=read_tags(*arguments.tags),
        exclude_tags=read_tags(*arguments.exclude_tags),
        names=tuple(arguments.case),
    )


def _stop_when(arguments: argparse.Namespace) -> str | None:
    if arguments.stop_when is not None:
        read_rules(arguments.stop_when)
    return arguments.stop_when  # type: ignore[no-any-return]


# -- attacks ----------------------------------------------------------------------------------------------------


def attack_of(arguments: argparse.Namespace, setting: Setting) -> Attack | None:
    """Return the attack that was named, if any."""
    if arguments.attack is None:
        for name in ("attack_iterations", "attack_options", "attack_only"):
            if getattr(arguments, name):
                raise UsageError(f"--{name.replace('_', '-')} needs --attack")
        return None
    return make_attack(arguments.attack, AttackSetting(chat=setting.chat, options=arguments.attack_options))


def _attacking(arguments: argparse.Namespace, attack: Attack | None) -> AttackSettings:
    iterations = attack_iterations(arguments)
    retries = 0 if arguments.retries is None else arguments.retries
    _refuse_less(retries, 0, "--retries")
    return AttackSettings(None if attack is None else attack.settings(), iterations, arguments.attack_only, retries)


def attack_iterations(arguments: argparse.Namespace) -> int:
    """Return how many iterations an attack on an entry has at most."""
    iterations: int = 10 if arguments.attack_iterations is None else arguments.attack_iterations
    _refuse_less(iterations, 1, "--attack-iterations")
    return iterations


def _refuse_less(number: int, least: int, option: str) -> None:
    if number < least:
        raise UsageError(f"{option} must be {least} or more")


# -- targets and limits -----------------------------------------------------------------------------------------


def target_setting(arguments: argparse.Namespace, setting: Setting) -> TargetSetting:
    """Return what targets are made with."""
    chat = setting.chat or ChatSettings()
    told = {"timeout": arguments.timeout, "tries": arguments.tries, "concurrency": arguments.concurrency}
    if arguments.requests_per_minute is not None:
        told["requests_per_minute"] = arguments.requests_per_minute  # of what the transport sends again, too
    return TargetSetting(
        chat=replace(chat, **told),
        target_args=arguments.target_args,
        api_config=arguments.api_config,
        api_client_module=arguments.api_client_module,
        api_client_class=arguments.api_client_class,
        api_client_args=arguments.api_client_args,
    )


def limits_of(arguments: argparse.Namespace) -> Limits:
    """Return the limits that were given."""
    for name in ("timeout", "tries"):
        _refuse_nonsense(name, getattr(arguments, name))
    return checked(
        Limits(
            concurrency=arguments.concurrency,
            requests_per_minute=arguments.requests_per_minute,
            # Every try has the time that --timeout gives it, and pauses between tries come on top.
            timeout=arguments.tries * (arguments.timeout + 60.0),
            max_calls=arguments.max_calls,
            max_cost=arguments.max_cost,
            stop_after_errors=arguments.stop_after_errors,
        )
    )


def checked(limits: Limits) -> Limits:
    """Return limits that make sense; UsageError for others."""
    for name in ("concurrency", "requests_per_minute", "max_calls", "max_cost", "stop_after_errors"):
        _refuse_nonsense(name, getattr(limits, name))
    return limits


def _refuse_nonsense(name: str, value: float | None) -> None:
    if value is not None and not 0 < value < math.inf:
        raise UsageError(f"--{name.replace('_', '-')} must be more than 0")
