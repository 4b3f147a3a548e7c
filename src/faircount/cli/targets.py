"""The commands `targets list` and `targets try`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from msgspec.structs import replace

from faircount.analysis.target_report import RequestError, Targets, TriedTarget, answer_report, list_report
from faircount.chat.settings import ChatSettings
from faircount.cli.parts import Output
from faircount.cli.runner import Answer
from faircount.cli.try_arguments import fields_of, text_of
from faircount.config import setting_of
from faircount.judging.outside import in_short
from faircount.running.options import TryTargetOptions
from faircount.running.targets import seam
from faircount.running.targets.blocks import classified
from faircount.running.targets.making import TargetSetting, available, make_target
from faircount.running.targets.seam import BLOCKED, Request, Target, TargetError

EXIT_NO_ANSWER = 4


def list_targets(output: Output) -> Answer:
    """Run `targets list`."""
    del output
    return Answer(report=list_report(Targets(targets=tuple(available()))), name="targets")


def try_target(options: TryTargetOptions, output: Output) -> Answer:
    """Run `targets try`."""
    del output
    fields = fields_of(options.field)
    messages: list[dict[str, Any]] = [] if options.system is None else [{"role": "system", "content": options.system}]
    messages.append({"role": "user", "content": text_of(options.prompt)})
    request = Request(tuple(messages), case=str(fields.get("id", "try")), fields=fields)
    chat = replace(setting_of(options).chat or ChatSettings(), timeout=options.timeout, tries=options.tries)
    target = make_target(options.target, TargetSetting(chat=chat, target_args=options.target_args))
    tried = _tried(options.target, request, *asyncio.run(_asked(target, request)))
    answer = Answer(report=answer_report(tried), name="answer")
    if tried.error is None or tried.blocked:
        return answer
    return replace(answer, notes=[f"{options.target}: {tried.error.message}"], code=EXIT_NO_ANSWER)


async def _asked(target: Target, request: Request) -> tuple[seam.Answer | None, TargetError | None, float]:
    began = time.perf_counter()
    answer: seam.Answer | None = None
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


def _tried(
    name: str, request: Request, answer: seam.Answer | None, error: TargetError | None, seconds: float
) -> TriedTarget:
    told = error or answer
    given: dict[str, Any] = {"tries": told.tries, "waited": told.waited} if told is not None else {}
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
    return TriedTarget(target=name, prompt=str(request.messages[-1]["content"]), latency=latency, **given)
