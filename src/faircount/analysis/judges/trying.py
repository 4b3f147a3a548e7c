"""`judges try`: what one judge says of one response, and which words decided."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from faircount.judging.attempt import Attempt
from faircount.judging.judge import Judge, verdict_of
from faircount.judging.outside import share
from faircount.judging.verdict import Identity, Usage, Verdict
from faircount.report import Block, Column, Fact, Facts, Grid, Paragraph, Record, Report, Section
from faircount.text import mask_secrets
from faircount.version import __version__

KIND = "verdict"
SCHEMA = 1
_AROUND = 40


class Trial(Struct, frozen=True):
    """What a judge said of a response, and who it was."""

    called: str
    looks_for: str
    identity: Identity
    response: str | None
    verdict: Verdict

    @property
    def decided(self) -> bool:
        """Whether there is a decision."""
        return self.verdict.decision is not None


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


def try_judge(judge: Judge, attempt: Attempt) -> Trial:
    """Ask a judge about an attempt."""
    verdict = verdict_of(judge, attempt)
    return Trial(
        judge.called or judge.name, str(getattr(judge, "looks_for", "")), judge.identity, attempt.response, verdict
    )


def quoted(trial: Trial) -> Quote | None:
    """Return the evidence of a verdict, with secrets masked; None where there is none in the response."""
    span, response = trial.verdict.span, trial.response
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


def as_report(trial: Trial) -> Report:
    """Arrange a verdict into a report. Reasons and errors may repeat the response, which is anybody's text."""
    verdict = trial.verdict
    rows = [Fact("Decision", verdict.decision.value if verdict.decision else "unjudged")]
    score = share(verdict.score)
    rows.append(Fact("Score", "none" if score is None else f"{score:.4g}"))
    if verdict.usage is not None:
        rows.append(Fact("Usage", _used(verdict.usage)))
    rows.append(Fact("Version", Record(trial.identity.version)))
    rows.append(Fact("Identity", trial.identity.digest))
    blocks: list[Block] = [Facts(tuple(rows)), *_words(trial)]
    if verdict.decision is None:
        blocks.append(Paragraph("The response is unjudged; that is not a pass."))
    return Report((Section("Verdict of", tuple(blocks), level=1, subject=Record(trial.called)),), document(trial))


def _words(trial: Trial) -> Iterator[Grid]:
    """Yield what the judge said in words, as long as it is; facts would be cut."""
    verdict, quote = trial.verdict, quoted(trial)
    told: list[tuple[str, Record]] = []
    if verdict.error:
        told.append(("Error", Record(verdict.error)))
    if verdict.reason:
        told.append(("Reason", Record(verdict.reason)))
    if quote is not None:
        told.append((f"Evidence, characters {quote.start:,} to {quote.end:,}", Record(quote.marked)))
    if told:
        yield Grid((Column("What", numeric=False), Column("Words", numeric=False)), tuple(told))


def _used(usage: Usage) -> str:
    cost = "" if usage.cost is None else f", {usage.cost:.4g} US dollars"
    return f"{usage.requests:,} requests, {usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens{cost}"


def document(trial: Trial) -> dict[str, Any]:
    """Return the whole answer of `judges try` as plain data; every key is always present."""
    verdict, identity, quote = trial.verdict, trial.identity, quoted(trial)
    usage = verdict.usage
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "version": __version__,
        "judge": trial.called,
        "looks_for": trial.looks_for,
        "identity": {
            "name": identity.name,
            "version": identity.version,
            "parameters": dict(identity.parameters),
            "prompt": identity.prompt,
            "digest": identity.digest,
        },
        "decision": None if verdict.decision is None else verdict.decision.value,
        "score": share(verdict.score),
        "reason": str(verdict.reason or ""),
        "evidence": None
        if quote is None
        else {
            "start": quote.start,
            "end": quote.end,
            "text": quote.text,
            "before": quote.before,
            "after": quote.after,
        },
        "error": verdict.error,
        "usage": None
        if usage is None
        else {
            "requests": usage.requests,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cost": usage.cost,
        },
    }
