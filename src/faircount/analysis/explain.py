"""`explain` as a library call: what findings mean, by their codes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from faircount.components.factory import did_you_mean, near, short
from faircount.core.errors import UsageError
from faircount.core.findings import REGISTER, Explanation, explanations
from faircount.core.model import Document, Severity
from faircount.report.blocks import Paragraph, Report, Section, text_table

_LINK = re.compile(r"\[([^\[\]]*)\]\(([^()#]*)(?:#[^()]*)?\)")
_MARKS = re.compile(r"[`*]")
_NUMBER = re.compile(r"[fF]?([0-9]{1,3})")


class ExplainedFinding(Struct, frozen=True):
    """A code and what it means: why it is raised, what it does to the numbers, and what to do."""

    code: str
    severity: Severity
    title: str
    cause: str
    effect: str
    remedy: str


class ExplainedFindings(Document, frozen=True, kw_only=True):
    """The codes that were asked for in the order given, or all of them."""

    kind: Literal["findings"] = "findings"
    schema: Literal[1] = 1
    findings: tuple[ExplainedFinding, ...]


def explain(codes: Iterable[str] = ()) -> ExplainedFindings:
    """Explain findings: `F015`, `f015` or `15`; all of them if none is named."""
    known = explanations()
    chosen = dict.fromkeys(map(_code, codes)) or known
    return ExplainedFindings(findings=tuple(_explained(code, known[code]) for code in chosen))


def _code(word: str) -> str:
    number = _NUMBER.fullmatch(word.strip())
    code = f"F{int(number[1]):03}" if number else word.strip().upper()
    if code not in REGISTER:
        hint = did_you_mean(near(code, REGISTER)) or f"the codes are {min(REGISTER)} to {max(REGISTER)}; "
        raise UsageError(f"{short(word)}: no such finding; {hint}faircount explain lists all")
    return code


def _explained(code: str, explanation: Explanation) -> ExplainedFinding:
    kind = REGISTER[code]
    cause, effect, remedy = map(_plain, (explanation.cause, explanation.effect, explanation.remedy))
    return ExplainedFinding(code, kind.severity, kind.title, cause, effect, remedy)


def _plain(text: str) -> str:
    """Return Markdown as a sentence for any presenter; a link becomes its text with the page it leads to."""
    return _MARKS.sub("", _LINK.sub(r"\1 (docs/\2)", text))


def as_report(explained: ExplainedFindings, *, listed: bool = False) -> Report:
    """Arrange findings into a section each or, `listed`, into a table of codes, severities and titles."""
    if listed:
        rows = [(one.code, one.severity.value, one.title) for one in explained.findings]
        table = text_table(("Code", "Severity", "Title"), rows)
        return Report((Section("Findings", (table,)),), explained)
    return Report(tuple(map(_section, explained.findings)), explained)


def _section(one: ExplainedFinding) -> Section:
    said = (("Cause", one.cause), ("Effect on the numbers", one.effect), ("Remedy", one.remedy))
    title = f"{one.code}: {one.title} ({one.severity.value})"
    return Section(title, tuple(Paragraph(f"{name}: {text}") for name, text in said))
