"""What `targets list` and `targets try` answer, and how it is shown; no target is asked here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import wrap
from typing import Any, Literal

from msgspec import Struct

from faircount.model import Document
from faircount.report import Block, Cell, Fact, Facts, Paragraph, Record, Report, Section, text_table
from faircount.running.targets.factory import Available
from faircount.text import mask_secrets, visible

_LINE = 60
_MOST_LINES = 40
_HOW = (
    "Name a target with --target of run. Options go in brackets: simulated(seed=7), "
    'command(argv=["./bot"], input="json"), ./file.py:Name(limit=3).'
)


class Targets(Document, frozen=True, kw_only=True):
    """All targets that can be named."""

    kind: Literal["targets"] = "targets"
    schema: Literal[1] = 1
    targets: tuple[Available, ...]


class RequestError(Struct, frozen=True):
    """Why there is no answer; a block by a guardrail is a `kind` too."""

    kind: str
    message: str


class TriedTarget(Document, frozen=True, kw_only=True):
    """What a target gave for one prompt: an answer, a block, or an error."""

    kind: Literal["answer"] = "answer"
    schema: Literal[1] = 1
    target: str
    prompt: str
    output: str | None = None
    let_through: bool | None = None
    blocked: bool = False
    categories: tuple[str, ...] = ()
    error: RequestError | None = None
    tools_called: tuple[Mapping[str, Any], ...] = ()
    latency: float | None = None
    model: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    tries: int = 1
    waited: float = 0.0


def list_report(listed: Targets) -> Report:
    """Arrange names of targets, each with a sentence, into a report."""
    grid = text_table(("target", "what it is"), ((Record(one.name), one.sentence) for one in listed.targets))
    return Report((Section("Targets", (Paragraph(_HOW), grid), level=1),), listed)


def answer_report(tried: TriedTarget) -> Report:
    """Arrange what a target gave into a report. Its words are anybody's, and a key in them is masked."""
    blocks: list[Block] = [Facts(tuple(_facts(tried)))]
    told: list[tuple[Cell, ...]] = []
    if tried.error is not None:
        told += _lines("Said by the guardrail" if tried.blocked else "Error", tried.error.message)
    if tried.output is not None:
        told += _lines("Answer", tried.output)
    for call in tried.tools_called:
        function = call.get("function", {})
        told += _lines("Calls", f"{function.get('name')}({function.get('arguments')})")
    if told:
        blocks.append(text_table(("What", "Words"), told))
    return Report((Section("Answer of", tuple(blocks), level=1, subject=Record(tried.target)),), tried)


def _lines(label: str, text: str) -> Iterable[tuple[Cell, ...]]:
    """Yield a text on as many lines as it takes; a cell by itself would be cut."""
    shown = visible(mask_secrets(text))
    pieces = wrap(shown, _LINE, drop_whitespace=False, replace_whitespace=False, break_on_hyphens=False) or [""]
    for piece in pieces[:_MOST_LINES]:
        yield label, Record(piece)
        label = ""
    if len(pieces) > _MOST_LINES:
        yield "", f"… of {len(text):,} characters; --output-format json shows all"


def _facts(tried: TriedTarget) -> Iterable[Fact]:
    yield Fact("Came to", _came_to(tried))
    if tried.categories:
        yield Fact("Categories", Record(", ".join(tried.categories)))
    if tried.error is not None and not tried.blocked:
        yield Fact("Kind of error", Record(tried.error.kind))
    if tried.latency is not None:
        yield Fact("Took", f"{tried.latency:.3f} s")
    if tried.prompt_tokens is not None or tried.completion_tokens is not None:
        yield Fact("Tokens", f"{_number(tried.prompt_tokens)} + {_number(tried.completion_tokens)}")
    if tried.cost is not None:
        yield Fact("Cost", f"{tried.cost:.4g}")
    if tried.model is not None:
        yield Fact("Model", Record(tried.model))
    if tried.finish_reason is not None:
        yield Fact("Finish reason", Record(tried.finish_reason))
    if tried.tries > 1:
        yield Fact("Tries", f"{tried.tries}, with {tried.waited:.1f} s of waiting")


def _came_to(tried: TriedTarget) -> str:
    if tried.blocked:
        return "blocked by a guardrail"
    if tried.error is not None:
        return "an error"
    if tried.let_through is not None:
        return "let through" if tried.let_through else "stopped: not let through"
    return "an answer"


def _number(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"
