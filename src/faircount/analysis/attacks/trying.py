"""`attacks try`: what an attack sends for one prompt, and, with a target, what comes of it.

Without a target every iteration is taken as answered and not successful, so that all of them can be seen. Nothing is
kept, and no journal is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from faircount.judging.outside import in_short
from faircount.model import Passage
from faircount.report import (
    Block,
    Cell,
    Column,
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
)
from faircount.running.attacks.failing import AttackError
from faircount.running.attacks.seam import Attack, Entry, Messages, Step
from faircount.running.case import entry_case
from faircount.running.entry_metric import EntryMetric
from faircount.running.targets.blocks import classified
from faircount.running.targets.seam import BLOCKED, Request, Target, TargetError
from faircount.testing.messages import text_of
from faircount.version import __version__

if TYPE_CHECKING:
    from faircount.judging.judge import Judge

KIND = "attack-trial"
SCHEMA = 1
NO_ANSWER = "(the target's answer)"


class Trial(Struct, frozen=True):
    """What an attack sent, step by step; `error` is its own, where it failed. `target` is None where there was none."""

    attack: str
    settings: Mapping[str, Any]
    entry: Entry
    iterations: int
    target: str | None
    judge: str | None
    steps: tuple[Step, ...]
    error: str = ""

    @property
    def success(self) -> bool | None:
        """Whether an iteration succeeded; None where nobody judged."""
        if self.judge is None:
            return None
        return any(step.success for step in self.steps)


async def try_attack(
    attack: Attack, entry: Entry, *, iterations: int, target: Target | None = None, judge: Judge | None = None
) -> Trial:
    """Play an attack on an entry up to its first success; what it raises is told in the trial."""
    metric = None if judge is None else EntryMetric(judge)
    steps: list[Step] = []
    error = ""
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
    return Trial(
        attack.name,
        attack.settings(),
        entry,
        iterations,
        None if target is None else target.name,
        None if judge is None else judge.called or judge.name,
        tuple(steps),
        error,
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
    output = {
        "output": answer.output,
        "tools_called": list(answer.tools_called),
        "context": list(answer.context),
        "execution_time": answer.latency,
    }
    told = metric.measure(case, output)
    success = None if told.verdict == "error" else told.verdict == "passed"
    return Step(sent.messages, answer.output, success=success, score=told.score, note=sent.note)


# -- the report -------------------------------------------------------------------------------------------------


def as_report(trial: Trial) -> Report:
    """Arrange a trial into a report. Prompts, answers and errors are anybody's text."""
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
        blocks.append(Grid((Column("Error", numeric=False),), ((Record(trial.error),),)))
    elif len(trial.steps) < trial.iterations and not trial.success:
        blocks.append(Paragraph("The attack has nothing more to send."))
    if trial.target is None:
        blocks.append(Paragraph("Nothing was sent: name a --target to send it."))
    sections = [Section("Attack", tuple(blocks), level=1, subject=Record(trial.attack))]
    if trial.steps:
        shown = tuple(_exhibit(trial, number, step) for number, step in enumerate(trial.steps, 1))
        sections.append(Section("Prompts", (Evidence(shown, len(shown), "iterations"),)))
    return Report(tuple(sections), document(trial))


def _grid(trial: Trial) -> Grid:
    columns = [Column("Iteration")]
    if trial.target is not None:
        columns.append(Column("Result", numeric=False))
    if any(step.note for step in trial.steps):
        columns.append(Column("Note", numeric=False))
    rows: list[tuple[Cell, ...]] = []
    for number, step in enumerate(trial.steps, 1):
        cells: list[Cell] = [str(number)]
        if trial.target is not None:
            cells.append(_result(step))
        if len(columns) > len(cells):
            cells.append(Record(_note(step.note)))
        rows.append(tuple(cells))
    return Grid(tuple(columns), tuple(rows))


def _exhibit(trial: Trial, number: int, step: Step) -> Exhibit:
    return Exhibit(
        entry=Record(trial.entry.name),
        place=Place(f"iteration {number}"),
        known=(("attack", Record(trial.attack)), ("judge", Record(trial.judge))),
        said=(
            ("prompt", Passage(_sent(step.messages, trial.entry.messages))),
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


def document(trial: Trial) -> dict[str, Any]:
    """Return the whole answer of `attacks try` as plain data; every key is always present."""
    asked = trial.target is not None
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "version": __version__,
        "attack": trial.attack,
        "settings": dict(trial.settings),
        "prompt": trial.entry.text,
        "iterations": trial.iterations,
        "target": trial.target,
        "judge": trial.judge,
        "success": trial.success,
        "steps": [
            {
                "messages": [dict(message) for message in step.messages],
                "note": None if step.note is None else dict(step.note),
                "response": step.response if asked else None,
                "success": step.success if asked else None,
                "score": step.score,
                "error": step.error,
                "blocked": step.blocked,
            }
            for step in trial.steps
        ],
        "error": trial.error or None,
    }
