"""How `targets list` and `targets try` are shown. Plain data in, reports out; no target is asked here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import wrap
from typing import Any

from msgspec import Struct

from faircount.report import Block, Cell, Column, Fact, Facts, Grid, Paragraph, Record, Report, Section
from faircount.text import mask_secrets, visible
from faircount.version import __version__

LIST_KIND, ANSWER_KIND = "targets", "answer"
SCHEMA = 1
_LINE = 60
_MOST_LINES = 40
_HOW = (
    "Name a target with --target of run. Options go in brackets: simulated(seed=7), "
    'command(argv=["./bot"], input="json"), ./file.py:Name(limit=3).'
)


class TriedTarget(Struct, frozen=True):
    """What a target gave for one prompt: an answer, a block, or an error."""

    target: str
    prompt: str
    output: str | None = None
    let_through: bool | None = None
    blocked: bool = False
    categories: tuple[str, ...] = ()
    error_kind: str | None = None
    error_message: str | None = None
    tools_called: tuple[Mapping[str, Any], ...] = ()
    latency: float | None = None
    model: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    tries: int = 1
    waited: float = 0.0


def list_report(targets: Iterable[tuple[str, str]]) -> Report:
    """Arrange names of targets, each with a sentence, into a report."""
    told = list(targets)
    rows: tuple[tuple[Cell, ...], ...] = tuple((Record(name), sentence) for name, sentence in told)
    grid = Grid((Column("target", numeric=False), Column("what it is", numeric=False)), rows)
    document = {
        "kind": LIST_KIND,
        "schema": SCHEMA,
        "version": __version__,
        "targets": [{"name": name, "sentence": sentence} for name, sentence in told],
    }
    return Report((Section("Targets", (Paragraph(_HOW), grid), level=1),), document)


def answer_report(tried: TriedTarget) -> Report:
    """Arrange what a target gave into a report. Its words are anybody's, and a key in them is masked."""
    blocks: list[Block] = [Facts(tuple(_facts(tried)))]
    told: list[tuple[Cell, ...]] = []
    if tried.error_message is not None:
        told += _lines("Said by the guardrail" if tried.blocked else "Error", tried.error_message)
    if tried.output is not None:
        told += _lines("Answer", tried.output)
    for call in tried.tools_called:
        function = call.get("function", {})
        told += _lines("Calls", f"{function.get('name')}({function.get('arguments')})")
    if told:
        blocks.append(Grid((Column("What", numeric=False), Column("Words", numeric=False)), tuple(told)))
    return Report((Section("Answer of", tuple(blocks), level=1, subject=Record(tried.target)),), _document(tried))


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
    if tried.error_kind is not None and not tried.blocked:
        yield Fact("Kind of error", Record(tried.error_kind))
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
    if tried.error_kind is not None:
        return "an error"
    if tried.let_through is not None:
        return "let through" if tried.let_through else "stopped: not let through"
    return "an answer"


def _number(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _document(tried: TriedTarget) -> dict[str, Any]:
    """Return the whole answer of `targets try` as plain data; every key is always present."""
    error = None
    if tried.error_kind is not None:
        error = {"kind": tried.error_kind, "message": tried.error_message}
    return {
        "kind": ANSWER_KIND,
        "schema": SCHEMA,
        "version": __version__,
        "target": tried.target,
        "prompt": tried.prompt,
        "output": tried.output,
        "let_through": tried.let_through,
        "blocked": tried.blocked,
        "categories": list(tried.categories),
        "error": error,
        "tools_called": [dict(call) for call in tried.tools_called],
        "latency": tried.latency,
        "model": tried.model,
        "finish_reason": tried.finish_reason,
        "prompt_tokens": tried.prompt_tokens,
        "completion_tokens": tried.completion_tokens,
        "cost": tried.cost,
        "tries": tried.tries,
        "waited": tried.waited,
    }
