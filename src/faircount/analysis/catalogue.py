"""Judges, attacks and targets: `list` says what can be named, `try` what one of them gave for one text.

What is built in and what packages offer is loaded; no other tool is imported. Nothing is asked here but one judge, and
nothing is kept."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import Parameter
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct

from faircount.compat.tools import ATTACK_IN_A_FILE, TOOLS_WITH_ATTACKS, TOOLS_WITH_JUDGES
from faircount.components.code import is_there, version_of
from faircount.components.factory import Available, Plugin
from faircount.core.attempt import Attempt
from faircount.core.model import Document, Passage
from faircount.core.text import mask_secrets, visible
from faircount.core.verdict import Decision, Identity, Usage
from faircount.judges.factory import JUDGES, parameters_of
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

if TYPE_CHECKING:
    from faircount.runs.attacks.base import Attack

T = TypeVar("T")
PURPOSE = "Use attacks only on systems that you own or are allowed to test."
_JUDGES_HOW = (
    'Parameters go in brackets: contains(text="BYPASSED"), any(refusal, canary), threshold(refusal, at=0.8). '
    "For a judge of your own: ./file.py:Name."
)
_ATTACKS_HOW = (
    'Options go in brackets: best-of-n(seed=7), encodings(kinds=["base64", "hex"]); or in --attack-options. '
    "Names ignore case, and _ works as -. For an attack of your own: ./file.py:Name."
)
_TARGETS_HOW = (
    "Name a target with --target of run. Options go in brackets: simulated(seed=7), "
    'command(argv=["./bot"], input="json"), ./file.py:Name(limit=3).'
)


class ListedParameter(Struct, frozen=True):
    """A parameter. `several` stands for any number of them; a default that is no plain data is None."""

    name: str
    required: bool
    several: bool
    default: Any

    @property
    def shown(self) -> str:
        """The parameter as it is written in an expression."""
        if self.several:
            return f"{self.name}…"
        return self.name if self.required else f"{self.name}={json.dumps(self.default, ensure_ascii=False)}"


class ListedJudge(Struct, frozen=True):
    """A judge that can be named; `package` is None where it is built in."""

    name: str
    short: str | None
    package: str | None
    looks_for: str
    version: str
    scores: bool
    string_matcher: bool
    parameters: tuple[ListedParameter, ...]


class ListedAttack(Struct, frozen=True):
    """An attack that can be named; `package` is None where it is built in."""

    name: str
    aliases: tuple[str, ...]
    package: str | None
    package_version: str | None
    does: str
    options: tuple[ListedParameter, ...]


class Broken(Struct, frozen=True):
    """What a package offers and cannot be used, and why."""

    name: str
    package: str
    package_version: str
    error: str


class Tool(Struct, frozen=True):
    """Another tool, whose own can be used when its package is installed."""

    prefix: str
    package: str
    installed: bool
    package_version: str | None
    example: str


class Judges(Document, frozen=True, kw_only=True):
    """All judges, those of packages that cannot be used, and the other tools."""

    kind: Literal["judges"] = "judges"
    schema: Literal[1] = 1
    judges: tuple[ListedJudge, ...]
    broken: tuple[Broken, ...]
    adapters: tuple[Tool, ...]


class Attacks(Document, frozen=True, kw_only=True):
    """All attacks, those of packages that cannot be used, and the other tools."""

    kind: Literal["attacks"] = "attacks"
    schema: Literal[2] = 2
    purpose: str = PURPOSE
    attacks: tuple[ListedAttack, ...]
    broken: tuple[Broken, ...]
    adapters: tuple[Tool, ...]


class Targets(Document, frozen=True, kw_only=True):
    """All targets that can be named, and those of packages that cannot be used."""

    kind: Literal["targets"] = "targets"
    schema: Literal[2] = 2
    targets: tuple[Available, ...]
    broken: tuple[Broken, ...]


def list_judges() -> Judges:
    """Return all judges."""
    offered = list(JUDGES.every())
    return Judges(
        judges=(
            *(_judge(one.load(), one.short) for one in JUDGES.known),
            *(_judge(plugin.kind, None, plugin) for plugin in offered if plugin.kind is not None),
        ),
        broken=_broken(offered),
        adapters=tuple(_tool(*words) for words in TOOLS_WITH_JUDGES),
    )


def list_attacks() -> Attacks:
    """Return all attacks."""
    from faircount.runs.attacks.factory import ATTACKS

    offered = list(ATTACKS.every())
    return Attacks(
        attacks=(
            *(_attack(one.load(), one.aliases) for one in ATTACKS.known),
            *(_attack(plugin.kind, (), plugin) for plugin in offered if plugin.kind is not None),
        ),
        broken=_broken(offered),
        adapters=tuple(_tool(*words) for words in TOOLS_WITH_ATTACKS),
    )


def list_targets() -> Targets:
    """Return all targets that can be named."""
    from faircount.runs.targets.factory import TARGETS, available

    return Targets(targets=tuple(available()), broken=_broken(list(TARGETS.every())))


def _broken(offered: Sequence[Plugin[T]]) -> tuple[Broken, ...]:
    """Return what packages offer and cannot be used."""
    return tuple(Broken(one.name, one.package, one.version, one.error) for one in offered if one.kind is None)


def _judge(kind: type[Judge], short: str | None, plugin: Plugin[Judge] | None = None) -> ListedJudge:
    return ListedJudge(
        kind.name,
        short,
        None if plugin is None else plugin.package,
        str(getattr(kind, "looks_for", "")),
        kind.version if plugin is None else plugin.version,
        bool(kind.scores),
        bool(kind.string_matcher),
        tuple(_parameter(one) for one in parameters_of(kind) if one.kind is not Parameter.VAR_KEYWORD),
    )


def _attack(kind: type[Attack], aliases: tuple[str, ...], plugin: Plugin[Attack] | None = None) -> ListedAttack:
    from faircount.runs.attacks.base import takes

    sentence = getattr(kind, "sentence", None)
    return ListedAttack(
        kind.name,
        aliases,
        None if plugin is None else plugin.package,
        None if plugin is None else plugin.version,
        sentence if isinstance(sentence, str) else (inspect.getdoc(kind) or "").partition("\n")[0],
        tuple(_parameter(one) for one in takes(kind) if one.kind is not Parameter.VAR_POSITIONAL),
    )


def _parameter(parameter: Parameter) -> ListedParameter:
    several = parameter.kind is Parameter.VAR_POSITIONAL
    required = parameter.default is Parameter.empty and not several
    try:
        default = None if required or several else json.loads(json.dumps(parameter.default, allow_nan=False))
    except (TypeError, ValueError):
        default = None
    return ListedParameter(parameter.name, required, several, default)


def _tool(prefix: str, module: str, package: str, example: str) -> Tool:
    version = version_of(package) if is_there(module) else None
    return Tool(prefix, package, version is not None, version, example)


# -- the reports ------------------------------------------------------------------------------------------------


def _written(parameters: Iterable[ListedParameter]) -> str:
    return ", ".join(one.shown for one in parameters) or "none"


def judges_report(listing: Judges) -> Report:
    """Arrange the judges into a report."""
    built_in = table(
        [one for one in listing.judges if one.package is None],
        text_column("judge", lambda one: one.short),
        text_column("looks for", lambda one: one.looks_for),
        text_column("parameters", lambda one: _written(one.parameters), rank=1),
        text_column("full name", lambda one: one.name, rank=2),
        text_column("version", lambda one: one.version, rank=3),
    )
    offered = table(
        [one for one in listing.judges if one.package is not None],
        text_column("judge", lambda one: Record(one.name)),
        text_column("looks for", lambda one: Record(one.looks_for)),
        text_column("parameters", lambda one: Record(_written(one.parameters)), rank=1),
        text_column("package", lambda one: Record(one.package)),
        text_column("version", lambda one: Record(one.version), rank=2),
    )
    first = Section("Judges", (Paragraph(_JUDGES_HOW),), level=1)
    return _report(listing, first, built_in, offered)


def attacks_report(listing: Attacks) -> Report:
    """Arrange the attacks into a report."""
    built_in = table(
        [one for one in listing.attacks if one.package is None],
        text_column("attack", lambda one: one.name),
        text_column("what it does", lambda one: one.does),
        text_column("options", lambda one: _written(one.options), rank=1),
        text_column("also called", lambda one: ", ".join(one.aliases) or "none", rank=2),
    )
    offered = table(
        [one for one in listing.attacks if one.package is not None],
        text_column("attack", lambda one: Record(one.name)),
        text_column("what it does", lambda one: Record(one.does)),
        text_column("options", lambda one: Record(_written(one.options)), rank=1),
        text_column("package", lambda one: Record(one.package)),
        text_column("version", lambda one: Record(one.package_version), rank=2),
    )
    first = Section("Attacks", (Paragraph(PURPOSE), Paragraph(_ATTACKS_HOW)), level=1)
    return _report(listing, first, built_in, offered, ATTACK_IN_A_FILE)


def targets_report(listing: Targets) -> Report:
    """Arrange names of targets, each with a sentence, into a report."""
    grid = text_table(("target", "what it is"), ((Record(one.name), one.sentence) for one in listing.targets))
    sections = [Section("Targets", (Paragraph(_TARGETS_HOW), grid), level=1), *_from_packages(listing.broken)]
    return Report(tuple(sections), listing)


def _from_packages(broken: tuple[Broken, ...], *offered: Grid) -> list[Section]:
    """Return the section of what packages offer, and of what cannot be used and why."""
    blocks: list[Block] = [grid for grid in offered if grid.rows]
    if broken:
        refused = ((Record(one.name), Record(one.package), Record(one.error)) for one in broken)
        blocks.append(text_table(("cannot be used", "package", "why"), refused))
    return [Section("From installed packages", tuple(blocks))] if blocks else []


def _report(listing: Judges | Attacks, first: Section, built_in: Grid, offered: Grid, *more_examples: str) -> Report:
    """Arrange what is built in, what packages offer, whose every text is anybody's, and the other tools."""
    sections = [first, Section("Built in", (built_in,)), *_from_packages(listing.broken, offered)]
    tools = (
        (
            f"{one.prefix}:",
            one.package,
            "not installed" if one.package_version is None else Place(one.package_version),
            ", ".join((one.example, *more_examples)),
        )
        for one in listing.adapters
    )
    grid = text_table(("prefix", "package", "version", "example"), tools)
    sections.append(Section(f"Other tools' {listing.kind}", (grid,)))
    return Report(tuple(sections), listing)


# -- trials of judges -----------------------------------------------------------------------------------------


_AROUND = 40
_LINE = 60
_MOST_LINES = 40


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
    verdict, response, quote = verdict_of(judge, attempt), attempt.response, None
    span = verdict.span
    if span is not None and response is not None and 0 <= span.start <= span.end <= len(response):
        first, last = max(span.start - _AROUND, 0), min(span.end + _AROUND, len(response))
        quote = Quote(
            span.start,
            span.end,
            mask_secrets(response[span.start : span.end]),
            ("…" if first else "") + mask_secrets(response[first : span.start]),
            mask_secrets(response[span.end : last]) + ("…" if last < len(response) else ""),
        )
    return JudgeTrial(
        judge=judge.called or judge.name,
        looks_for=str(getattr(judge, "looks_for", "")),
        identity=judge.identity,
        decision=verdict.decision,
        score=share(verdict.score),
        reason=str(verdict.reason or ""),
        evidence=quote,
        error=verdict.error,
        usage=verdict.usage,
    )


def judge_report(trial: JudgeTrial) -> Report:
    """Arrange a verdict into a report. Reasons and errors may repeat the response, which is anybody's text."""
    rows = [Fact("Decision", trial.decision.value if trial.decision else "unjudged")]
    rows.append(Fact("Score", "none" if trial.score is None else f"{trial.score:.4g}"))
    usage, quote = trial.usage, trial.evidence
    if usage is not None:
        cost = "" if usage.cost is None else f", {usage.cost:.4g} US dollars"
        tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
        rows.append(Fact("Usage", f"{usage.requests:,} requests, {tokens}{cost}"))
    rows.append(Fact("Version", Record(trial.identity.version)))
    rows.append(Fact("Identity", trial.identity.digest))
    blocks: list[Block] = [Facts(tuple(rows))]
    # What the judge said in words is shown as long as it is; facts would be cut.
    words = [(what, Record(text)) for what, text in (("Error", trial.error), ("Reason", trial.reason)) if text]
    if quote is not None:
        words.append((f"Evidence, characters {quote.start:,} to {quote.end:,}", Record(quote.marked)))
    if words:
        blocks.append(text_table(("What", "Words"), words))
    if trial.decision is None:
        blocks.append(Paragraph("The response is unjudged; that is not a pass."))
    return Report((Section("Verdict of", tuple(blocks), level=1, subject=Record(trial.judge)),), trial)


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
    blocks: list[Block] = [Facts(tuple(_target_facts(trial)))]
    texts: list[tuple[Cell, ...]] = []
    if trial.error is not None:
        texts += _lines("Message of the guardrail" if trial.blocked else "Error", trial.error.message)
    if trial.output is not None:
        texts += _lines("Answer", trial.output)
    for call in trial.tools_called:
        function = call.get("function", {})
        texts += _lines("Calls", f"{function.get('name')}({function.get('arguments')})")
    if texts:
        blocks.append(text_table(("What", "Words"), texts))
    return Report((Section("Answer of", tuple(blocks), level=1, subject=Record(trial.target)),), trial)


def _target_facts(trial: TargetTrial) -> Iterator[Fact]:
    if trial.blocked:
        result = "blocked by a guardrail"
    elif trial.error is not None:
        result = "an error"
    elif trial.let_through is not None:
        result = "let through" if trial.let_through else "not let through"
    else:
        result = "an answer"
    yield Fact("Result", result)
    if trial.categories:
        yield Fact("Categories", Record(", ".join(trial.categories)))
    if trial.error is not None and not trial.blocked:
        yield Fact("Kind of error", Record(trial.error.kind))
    if trial.latency is not None:
        yield Fact("Took", f"{trial.latency:.3f} s")
    tokens = trial.prompt_tokens, trial.completion_tokens
    if tokens != (None, None):
        yield Fact("Tokens", " + ".join("unknown" if count is None else f"{count:,}" for count in tokens))
    if trial.cost is not None:
        yield Fact("Cost", f"{trial.cost:.4g}")
    if trial.model is not None:
        yield Fact("Model", Record(trial.model))
    if trial.finish_reason is not None:
        yield Fact("Finish reason", Record(trial.finish_reason))
    if trial.tries > 1:
        yield Fact("Tries", f"{trial.tries}, with {trial.waited:.1f} s of waiting")


def _lines(label: str, text: str) -> Iterable[tuple[Cell, ...]]:
    """Yield a text on as many lines as it takes; a cell by itself would be cut."""
    shown = visible(mask_secrets(text))
    pieces = wrap(shown, _LINE, drop_whitespace=False, replace_whitespace=False, break_on_hyphens=False) or [""]
    for piece in pieces[:_MOST_LINES]:
        yield label, Record(piece)
        label = ""
    if len(pieces) > _MOST_LINES:
        yield "", f"… of {len(text):,} characters; --output-format json shows all"


# -- attacks --------------------------------------------------------------------------------------------------------


class AttackTrial(Document, frozen=True, kw_only=True):
    """What an attack sent, step by step; `error` is its own, where it failed. `target` is None where there was none.

    `success`: whether an iteration succeeded; None where nobody judged.
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
    noted = any(step.note for step in trial.steps)
    if noted or trial.target is not None:
        grid = table(
            enumerate(trial.steps, 1),
            number_column("Iteration", lambda row: str(row[0])),
            text_column("Result", lambda row: _result(row[1]), when=trial.target is not None),
            text_column(
                "Note",
                lambda row: Record(", ".join(f"{name}: {value}" for name, value in (row[1].note or {}).items())),
                when=noted,
            ),
        )
        blocks.append(grid)
    if trial.error:
        blocks.append(Paragraph("The attack itself failed."))
        blocks.append(text_table(("Error",), [(Record(trial.error),)]))
    elif len(trial.steps) < trial.iterations and not trial.success:
        blocks.append(Paragraph("The attack has nothing more to send."))
    if trial.target is None:
        blocks.append(Paragraph("Nothing was sent: name a --target to send it."))
    sections = [Section("Attack", tuple(blocks), level=1, subject=Record(trial.attack))]
    if trial.steps:
        shown = tuple(
            Exhibit(
                entry=Record(entry.name),
                place=Place(f"iteration {number}"),
                known=(("attack", Record(trial.attack)), ("judge", Record(trial.judge))),
                said=(
                    ("prompt", Passage(_sent(step.messages, entry.messages))),
                    ("response", Passage(None if trial.target is None else step.error or step.response or "")),
                ),
            )
            for number, step in enumerate(trial.steps, 1)
        )
        sections.append(Section("Prompts", (Evidence(shown, len(shown), "iterations"),)))
    return Report(tuple(sections), trial)


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
