"""`judges try`, `targets try` and `attacks try`: what one of them gave for one text, and how it is shown.

Nothing is asked here, and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap
from typing import Any, Literal

from msgspec import Struct

from faircount.core.attempt import Attempt
from faircount.core.model import Document, Passage
from faircount.core.text import mask_secrets, visible
from faircount.core.verdict import Decision, Identity, Usage, Verdict
from faircount.judges.judge import Judge, share, verdict_of
from faircount.report.blocks import (
    Block,
    Cell,
    Evidence,
    Exhibit,
    Fact,
    Facts,
    Grid,
    Paragraph,
    Place,
    Record,
    Report,
    Section,
    number_column,
    table,
    text_column,
    text_table,
)
from faircount.runs.attacks.base import Entry, Messages, Step

_AROUND = 40
_LINE = 60
_MOST_LINES = 40


# -- judges ---------------------------------------------------------------------------------------------------------


class Quote(Struct, frozen=True):
    """The part of a response that decided, with a few characters before and after it."""

    start: int
    end: int
    text: str
    before: str
    after: str

    @property
    def marked(self) -> str:
        """The quote in one text, with marks around what decided, and where something was left out."""
        return f"{self.before}»{self.text}«{self.after}"


class JudgeTrial(Document, frozen=True, kw_only=True):
    """What a judge said of a response, and who it was; `judge` is the expression that names it."""

    kind: Literal["verdict"] = "verdict"
    schema: Literal[1] = 1
    judge: str
    looks_for: str
    identity: Identity
    decision: Decision | None
    score: float | None
    reason: str
    evidence: Quote | None
    error: str | None
    usage: Usage | None


def try_judge(judge: Judge, attempt: Attempt) -> JudgeTrial:
    """Ask a judge about an attempt."""
    verdict = verdict_of(judge, attempt)
    return JudgeTrial(
        judge=judge.called or judge.name,
        looks_for=str(getattr(judge, "looks_for", "")),
        identity=judge.identity,
        decision=verdict.decision,
        score=share(verdict.score),
        reason=str(verdict.reason or ""),
        evidence=_quoted(verdict, attempt.response),
        error=verdict.error,
        usage=verdict.usage,
    )


def _quoted(verdict: Verdict, response: str | None) -> Quote | None:
    """Return the evidence of a verdict, with secrets masked; None where there is none in the response."""
    span = verdict.span
    if span is None or response is None or not 0 <= span.start <= span.end <= len(response):
        return None
    first, last = max(span.start - _AROUND, 0), min(span.end + _AROUND, len(response))
    return Quote(
        span.start,
        span.end,
        mask_secrets(response[span.start : span.end]),
        ("…" if first else "") + mask_secrets(response[first : span.start]),
        mask_secrets(response[span.end : last]) + ("…" if last < len(response) else ""),
    )


def judge_report(trial: JudgeTrial) -> Report:
    """Arrange a verdict into a report. Reasons and errors may repeat the response, which is anybody's text."""
    rows = [Fact("Decision", trial.decision.value if trial.decision else "unjudged")]
    rows.append(Fact("Score", "none" if trial.score is None else f"{trial.score:.4g}"))
    if trial.usage is not None:
        rows.append(Fact("Usage", _used(trial.usage)))
    rows.append(Fact("Version", Record(trial.identity.version)))
    rows.append(Fact("Identity", trial.identity.digest))
    blocks: list[Block] = [Facts(tuple(rows)), *_words(trial)]
    if trial.decision is None:
        blocks.append(Paragraph("The response is unjudged; that is not a pass."))
    return Report((Section("Verdict of", tuple(blocks), level=1, subject=Record(trial.judge)),), trial)


def _words(trial: JudgeTrial) -> Iterator[Grid]:
    """Yield what the judge said in words, as long as it is; facts would be cut."""
    quote = trial.evidence
    told: list[tuple[str, Record]] = []
    if trial.error:
        told.append(("Error", Record(trial.error)))
    if trial.reason:
        told.append(("Reason", Record(trial.reason)))
    if quote is not None:
        told.append((f"Evidence, characters {quote.start:,} to {quote.end:,}", Record(quote.marked)))
    if told:
        yield text_table(("What", "Words"), told)


def _used(usage: Usage) -> str:
    cost = "" if usage.cost is None else f", {usage.cost:.4g} US dollars"
    return f"{usage.requests:,} requests, {usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens{cost}"


# -- targets --------------------------------------------------------------------------------------------------------


class RequestError(Struct, frozen=True):
    """Why there is no answer; a block by a guardrail is a `kind` too."""

    kind: str
    message: str


class TargetTrial(Document, frozen=True, kw_only=True):
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


def target_report(trial: TargetTrial) -> Report:
    """Arrange what a target gave into a report. Its words are anybody's, and a key in them is masked."""
    blocks: list[Block] = [Facts(tuple(_facts(trial)))]
    told: list[tuple[Cell, ...]] = []
    if trial.error is not None:
        told += _lines("Said by the guardrail" if trial.blocked else "Error", trial.error.message)
    if trial.output is not None:
        told += _lines("Answer", trial.output)
    for call in trial.tools_called:
        function = call.get("function", {})
        told += _lines("Calls", f"{function.get('name')}({function.get('arguments')})")
    if told:
        blocks.append(text_table(("What", "Words"), told))
    return Report((Section("Answer of", tuple(blocks), level=1, subject=Record(trial.target)),), trial)


def _lines(label: str, text: str) -> Iterable[tuple[Cell, ...]]:
    """Yield a text on as many lines as it takes; a cell by itself would be cut."""
    shown = visible(mask_secrets(text))
    pieces = wrap(shown, _LINE, drop_whitespace=False, replace_whitespace=False, break_on_hyphens=False) or [""]
    for piece in pieces[:_MOST_LINES]:
        yield label, Record(piece)
        label = ""
    if len(pieces) > _MOST_LINES:
        yield "", f"… of {len(text):,} characters; --output-format json shows all"


def _facts(trial: TargetTrial) -> Iterable[Fact]:
    yield Fact("Came to", _came_to(trial))
    if trial.categories:
        yield Fact("Categories", Record(", ".join(trial.categories)))
    if trial.error is not None and not trial.blocked:
        yield Fact("Kind of error", Record(trial.error.kind))
    if trial.latency is not None:
        yield Fact("Took", f"{trial.latency:.3f} s")
    if trial.prompt_tokens is not None or trial.completion_tokens is not None:
        yield Fact("Tokens", f"{_number(trial.prompt_tokens)} + {_number(trial.completion_tokens)}")
    if trial.cost is not None:
        yield Fact("Cost", f"{trial.cost:.4g}")
    if trial.model is not None:
        yield Fact("Model", Record(trial.model))
    if trial.finish_reason is not None:
        yield Fact("Finish reason", Record(trial.finish_reason))
    if trial.tries > 1:
        yield Fact("Tries", f"{trial.tries}, with {trial.waited:.1f} s of waiting")


def _came_to(trial: TargetTrial) -> str:
    if trial.blocked:
        return "blocked by a guardrail"
    if trial.error is not None:
        return "an error"
    if trial.let_through is not None:
        return "let through" if trial.let_through else "stopped: not let through"
    return "an answer"


def _number(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


# -- attacks --------------------------------------------------------------------------------------------------------


class AttackTrial(Document, frozen=True, kw_only=True):
    """What an attack sent, step by step; `error` is its own, where it failed. `target` is None where there was none.

    `success` tells whether an iteration succeeded; None where nobody judged.
    """

    kind: Literal["attack-trial"] = "attack-trial"
    schema: Literal[1] = 1
    attack: str
    settings: Mapping[str, Any]
    prompt: str
    iterations: int
    target: str | None
    judge: str | None
    success: bool | None
    steps: tuple[Step, ...]
    error: str | None


def attack_report(trial: AttackTrial, entry: Entry) -> Report:
    """Arrange a trial of an attack on an entry into a report. Prompts, answers and errors are anybody's text."""
    rows = [Fact("Iterations", f"{len(trial.steps):,} of {trial.iterations:,}")]
    if trial.target is not None:
        rows.append(Fact("Target", Record(trial.target)))
    if trial.judge is not None:
        rows.append(Fact("Judge", Record(trial.judge)))
        rows.append(Fact("Success", "yes" if trial.success else "no"))
    blocks: list[Block] = [Facts(tuple(rows))]
    if any(step.note for step in trial.steps) or trial.target is not None:
        blocks.append(_grid(trial))
    if trial.error:
        blocks.append(Paragraph("The attack itself failed."))
        blocks.append(text_table(("Error",), [(Record(trial.error),)]))
    elif len(trial.steps) < trial.iterations and not trial.success:
        blocks.append(Paragraph("The attack has nothing more to send."))
    if trial.target is None:
        blocks.append(Paragraph("Nothing was sent: name a --target to send it."))
    sections = [Section("Attack", tuple(blocks), level=1, subject=Record(trial.attack))]
    if trial.steps:
        shown = tuple(_exhibit(trial, entry, number, step) for number, step in enumerate(trial.steps, 1))
        sections.append(Section("Prompts", (Evidence(shown, len(shown), "iterations"),)))
    return Report(tuple(sections), trial)


def _grid(trial: AttackTrial) -> Grid:
    return table(
        enumerate(trial.steps, 1),
        number_column("Iteration", lambda row: str(row[0])),
        text_column("Result", lambda row: _result(row[1]), when=trial.target is not None),
        text_column("Note", lambda row: Record(_note(row[1].note)), when=any(step.note for step in trial.steps)),
    )


def _exhibit(trial: AttackTrial, entry: Entry, number: int, step: Step) -> Exhibit:
    return Exhibit(
        entry=Record(entry.name),
        place=Place(f"iteration {number}"),
        known=(("attack", Record(trial.attack)), ("judge", Record(trial.judge))),
        said=(
            ("prompt", Passage(_sent(step.messages, entry.messages))),
            ("response", Passage(None if trial.target is None else step.error or step.response or "")),
        ),
    )


def _sent(messages: Messages, own: Messages) -> str:
    """Return what was sent as a text: the last message, or all of a conversation."""
    from faircount.testing.cases import text_of

    if len(messages) <= max(len(own), 1):
        return text_of(messages[-1].get("content")) if messages else ""
    return "\n".join(f"{one.get('role')}: {text_of(one.get('content'))}" for one in messages)


def _result(step: Step) -> str:
    if step.blocked:
        return "blocked"
    if step.error is not None:
        return "error"
    word = "not judged" if step.success is None else "success" if step.success else "failed"
    return word if step.score is None else f"{word}, score {step.score:.3g}"


def _note(note: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{name}: {value}" for name, value in (note or {}).items())
