"""`judges try`: what one judge says of one response, and which words decided."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from faircount.judging.attempt import Attempt
from faircount.judging.judge import Judge, verdict_of
from faircount.judging.third_party import share
from faircount.judging.verdict import Decision, Identity, Usage, Verdict
from faircount.model import Document
from faircount.report import Block, Fact, Facts, Grid, Paragraph, Record, Report, Section, text_table
from faircount.text import mask_secrets

_AROUND = 40


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


# -- the report -------------------------------------------------------------------------------------------------


def as_report(trial: JudgeTrial) -> Report:
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
