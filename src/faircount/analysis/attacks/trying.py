"""`attacks try`: what an attack sends for one prompt, and, with a target, what comes of it.

Without a target every iteration is taken as answered and not successful, so that all of them can be seen. Nothing is
kept, and no journal is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from faircount.components.code import in_short
from faircount.model import Document, Passage
from faircount.reading.journal_records import VerdictWord
from faircount.report import (
    Block,
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
from faircount.running.attacks.failing import AttackError
from faircount.running.attacks.seam import Attack, Entry, Messages, Step
from faircount.running.case import entry_case
from faircount.running.entry_metric import EntryMetric
from faircount.running.recording import output_record
from faircount.running.targets.blocks import classified
from faircount.running.targets.seam import BLOCKED, Request, Target, TargetError
from faircount.testing.messages import text_of

if TYPE_CHECKING:
    from faircount.judging.judge import Judge

NO_ANSWER = "(the target's answer)"


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


async def try_attack(
    attack: Attack, entry: Entry, *, iterations: int, target: Target | None = None, judge: Judge | None = None
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
            step = Step(prompt.messages, NO_ANSWER, success=False, note=prompt.note)
            steps.append(step if target is None else await _asked(target, entry, step, metric, len(steps)))
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


async def _asked(target: Target, entry: Entry, sent: Step, metric: EntryMetric | None, number: int) -> Step:
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
    case = entry_case(entry.name, tuple(sent.messages), entry.fields, (metric,), place="")
    told = metric.measure(case, output_record(answer))
    success = None if told.verdict is VerdictWord.ERROR else told.verdict is VerdictWord.SUCCESS
    return Step(sent.messages, answer.output, success=success, score=told.score, note=sent.note)


# -- the report -------------------------------------------------------------------------------------------------


def as_report(trial: AttackTrial, entry: Entry) -> Report:
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
