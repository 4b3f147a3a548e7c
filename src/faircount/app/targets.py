"""Targets and attacks tried on one prompt. Nothing is saved.

Without a target every iteration of an attack is taken as answered and not successful, so that all of them can be seen.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from faircount.analysis.catalogue import AttackTrial, RequestError, TargetTrial
from faircount.app.judges import made_judges
from faircount.app.options import Models, Notice, ignore
from faircount.chat.settings import ChatSettings
from faircount.components.code import in_short
from faircount.components.factory import Context
from faircount.config import setting_of
from faircount.core.errors import UsageError
from faircount.core.options import Options, options_from
from faircount.core.text import clip, visible
from faircount.judges.judge import Judge
from faircount.runs.attacks.base import Attack, AttackError, Entry, Step
from faircount.runs.attacks.factory import make_attack
from faircount.runs.cases import AttackCase
from faircount.runs.engine import output_record
from faircount.runs.lifecycle import run_in_a_loop
from faircount.runs.metrics import EntryMetric
from faircount.runs.options import TryAttackOptions, TryTargetOptions
from faircount.runs.targets.base import BLOCKED, Answer, Request, Target, TargetError, classified
from faircount.runs.targets.factory import make_target

_NO_ANSWER = "(the target's answer)"


def try_target(
    target: str, prompt: str, *, options: TryTargetOptions | None = None, notice: Notice = ignore, **keywords: Any
) -> TargetTrial:
    """Send one prompt to a target and return the result; options are the fields of `TryTargetOptions`."""
    (asked,) = options_from({"target": target, "prompt": prompt, **keywords}, TryTargetOptions, given=options)
    fields = _fields(asked.field)
    messages: list[dict[str, Any]] = [] if asked.system is None else [{"role": "system", "content": asked.system}]
    messages.append({"role": "user", "content": asked.prompt})
    request = Request(tuple(messages), case=str(fields.get("id", "try")), fields=fields)
    chat = replace(setting_of(asked).chat or ChatSettings(), timeout=asked.timeout, tries=asked.tries)
    made = make_target(asked.target, Context(chat, tell=notice), target_args=asked.target_args)
    answer, error, seconds = run_in_a_loop(lambda: _asked(made, request))
    outcome = error or answer
    given: dict[str, Any] = {"tries": outcome.tries, "waited": outcome.waited} if outcome is not None else {}
    if error is not None:
        given |= {
            "blocked": error.kind == BLOCKED,
            "categories": (*error.categories, *filter(None, [error.policy_block])),
            "error": RequestError(error.kind, error.message),
        }
    if answer is not None:
        names = ("output", "let_through", "tools_called", "model", "finish_reason", "prompt_tokens")
        given |= {one: getattr(answer, one) for one in (*names, "completion_tokens", "cost")}
    latency = seconds if answer is None else answer.latency
    return TargetTrial(target=asked.target, prompt=asked.prompt, latency=latency, **given)


async def _asked(target: Target, request: Request) -> tuple[Answer | None, TargetError | None, float]:
    began = time.perf_counter()
    answer: Answer | None = None
    failed: TargetError | None = None
    try:
        answer = await target.answer(request)
    except TargetError as error:
        answer, failed = error.answer, classified(error)
    except Exception as error:  # noqa: BLE001  a target may be anybody's code
        failed = classified(TargetError(type(error).__name__, in_short(error)))
    finally:
        seconds = time.perf_counter() - began
        await target.close()
    return answer, failed, seconds


# -- attacks ------------------------------------------------------------------------------------------------------


def try_attack(
    attack: str, prompt: str, *, options: Sequence[Options] = (), notice: Notice = ignore, **keywords: Any
) -> AttackTrial:
    """Return what an attack sends for one prompt; nothing is sent unless a `target` is named.

    Options are the fields of `TryAttackOptions` and `Models`.
    """
    asked, models = options_from(
        {"attack": attack, "prompt": prompt, **keywords}, TryAttackOptions, Models, given=options
    )
    if asked.judge is not None and asked.target is None:
        raise UsageError("--judge needs --target: without one there is no answer to judge")
    setting = replace(setting_of(models), tell=notice)
    made = make_attack(asked.attack, setting, asked.attack_options)
    made.ready()
    if not asked.prompt.strip():
        raise UsageError("the prompt is empty")
    entry = entry_of(asked.prompt, asked.field)
    return run_in_a_loop(lambda: _tried(made, entry, asked, setting))


def entry_of(prompt: str, pairs: Sequence[str] = ()) -> Entry:
    """Return the entry that an attack is tried on: a prompt, and its fields as NAME=VALUE."""
    return Entry("prompt", ({"role": "user", "content": prompt},), _fields(pairs))


async def _tried(attack: Attack, entry: Entry, options: TryAttackOptions, setting: Context) -> AttackTrial:
    judges = [] if options.judge is None else made_judges([options.judge], setting)
    target = None
    try:
        if options.target is not None:
            target = make_target(options.target, setting)
        judge = judges[0] if judges else None
        return await _played(attack, entry, options.iterations, target, judge)
    finally:
        await attack.close()
        if target is not None:
            await target.close()
        for judge in judges:
            judge.close()


async def _played(
    attack: Attack, entry: Entry, iterations: int, target: Target | None, judge: Judge | None
) -> AttackTrial:
    """Play an attack on an entry up to its first success; what it raises is told in the trial."""
    metric = None if judge is None else EntryMetric(judge)
    steps: list[Step] = []
    error = None
    play = None
    try:
        play = attack.begin(entry, iterations=iterations)
        while len(steps) < iterations and not (steps and steps[-1].success):
            prompt = await play.next(tuple(steps))
            if prompt is None:
                break
            step = Step(prompt.messages, _NO_ANSWER, success=False, note=prompt.note)
            steps.append(step if target is None else await _sent(target, entry, step, metric, len(steps)))
    except Exception as raised:  # noqa: BLE001  an attack may be anybody's code
        error = str(raised) if isinstance(raised, AttackError) else in_short(raised)
    finally:
        if play is not None:
            await play.close()
    if target is None:
        steps = [replace(step, response=None, success=None) for step in steps]
    return AttackTrial(
        attack=attack.name,
        settings=attack.settings(),
        prompt=entry.text,
        iterations=iterations,
        target=None if target is None else target.name,
        judge=None if judge is None else judge.called or judge.name,
        success=None if judge is None else any(step.success for step in steps),
        steps=tuple(steps),
        error=error or None,
    )


async def _sent(target: Target, entry: Entry, sent: Step, metric: EntryMetric | None, number: int) -> Step:
    request = Request(sent.messages, case=entry.name, attempt=number, fields=entry.fields)
    try:
        answer = await target.answer(request)
    except TargetError as raised:
        error = classified(raised)
        blocked = error.kind == BLOCKED
        return Step(sent.messages, error=f"{error.kind}: {error.message}", blocked=blocked, note=sent.note)
    if answer.let_through is not None:
        return Step(sent.messages, answer.output, success=answer.let_through, note=sent.note)
    if metric is None:
        return Step(sent.messages, answer.output, note=sent.note)
    case = AttackCase(name=entry.name, messages=tuple(sent.messages), metrics=(metric,), fields=entry.fields)
    measured = metric.measure(case, output_record(answer))
    return Step(sent.messages, answer.output, success=measured.success, score=measured.score, note=sent.note)


def _fields(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the fields of an entry from NAME=VALUE; a field that is given several times is a list."""
    fields: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--field {clip(visible(pair), 60)}: expected NAME=VALUE")
        name = name.strip()
        earlier = fields.get(name)
        fields[name] = value if name not in fields else [*(earlier if isinstance(earlier, list) else [earlier]), value]
    return fields
