"""The commands `targets list` and `targets try`."""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

from msgspec.structs import replace

from faircount.analysis.target_report import RequestError, Targets, TriedTarget, answer_report, list_report
from faircount.chat.settings import ChatSettings
from faircount.cli.judge_setting import setting_of
from faircount.cli.messages import note
from faircount.cli.output import refuse_page_without_place, show_one
from faircount.cli.try_arguments import fields_of, text_of
from faircount.errors import UsageError
from faircount.judging.outside import in_short
from faircount.running.targets.blocks import classified
from faircount.running.targets.making import TargetSetting, available, make_target
from faircount.running.targets.seam import BLOCKED, Answer, Request, Target, TargetError

EXIT_NO_ANSWER = 4


def list_targets(arguments: argparse.Namespace) -> int:
    """Run `targets list`."""
    refuse_page_without_place(arguments)
    show_one("targets", list_report(Targets(targets=tuple(available()))), arguments)
    return 0


def try_target(arguments: argparse.Namespace) -> int:
    """Run `targets try`."""
    refuse_page_without_place(arguments)
    request = _request(arguments)
    target = make_target(arguments.target, _setting(arguments))
    tried = _tried(arguments.target, request, *asyncio.run(_asked(target, request)))
    show_one("answer", answer_report(tried), arguments)
    if tried.error is None or tried.blocked:
        return 0
    note(f"{arguments.target}: {tried.error.message}")
    return EXIT_NO_ANSWER


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


def _tried(
    name: str, request: Request, answer: Answer | None, error: TargetError | None, seconds: float
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


def _request(arguments: argparse.Namespace) -> Request:
    fields = fields_of(arguments.field)
    messages: list[dict[str, Any]] = []
    if arguments.system is not None:
        messages.append({"role": "system", "content": arguments.system})
    messages.append({"role": "user", "content": text_of(arguments.prompt)})
    return Request(tuple(messages), case=str(fields.get("id", "try")), fields=fields)


def _setting(arguments: argparse.Namespace) -> TargetSetting:
    for name in ("timeout", "tries"):
        if not 0 < getattr(arguments, name) < float("inf"):
            raise UsageError(f"--{name} must be more than 0")
    chat = setting_of(arguments).chat or ChatSettings()
    return TargetSetting(
        chat=replace(chat, timeout=arguments.timeout, tries=arguments.tries), target_args=arguments.target_args
    )
