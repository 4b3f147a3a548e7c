"""Several analyses beside each other: one line each, sorted by rate, kinds of runs in tables of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from faircount.core.findings import REGISTER, counted, finding
from faircount.core.model import Analysis, Estimate, Finding
from faircount.report import formats
from faircount.report.blocks import (
    Block,
    Findings,
    Grid,
    Interval,
    Label,
    Lead,
    Section,
    number_column,
    table,
    text_column,
)

_LABELS_NAMED = 4


class _Table(Struct, frozen=True):
    """How runs of one role are shown: under which title, and by which rate."""

    title: str
    noun: str
    rate: str
    share: str
    rates: str
    """What a sentence calls the rates."""


_TABLES = {
    "attacks": _Table(
        "Attack runs", "attack run", "Succeeded", "of all entries, the attacks that succeeded", "success rates"
    ),
    "guardrail": _Table(
        "Guardrails", "guardrail run", "Let through", "of all attacks, those let through", "attacks let through"
    ),
    "benign": _Table(
        "Benign checks", "benign check", "Blocked", "of the benign prompts decided, those blocked", "prompts blocked"
    ),
    "tests": _Table("Test runs", "test run", "Passed", "of all cases, those that passed", "pass rates"),
}


def league(analyses: Sequence[Analysis]) -> Iterator[Section]:
    """Yield the tables of several analyses, after what they come to and what is doubtful about them."""
    by_role = {role: _sorted([a for a in analyses if a.role == role]) for role in _TABLES}
    blocks: list[Block] = [Lead(tuple(_lead(role, found) for role, found in by_role.items() if found))]
    grouped = tuple(_grouped(analyses))
    if grouped:
        blocks.append(Findings(grouped))
    yield Section(f"Analysis of {counted(len(analyses), 'file')}", tuple(blocks), level=1)
    for role, found in by_role.items():
        if found:
            yield Section(_TABLES[role].title, (_grid(role, found),))


def rate_of(a: Analysis) -> Estimate:
    """Return the rate that a run of its role is about; of a benign check, the share that was blocked."""
    if a.role != "benign":
        return a.rates.asr
    return a.rates.blocked


def _sorted(analyses: Sequence[Analysis]) -> list[Analysis]:
    return sorted(analyses, key=lambda a: -1.0 if (value := rate_of(a).value) is None else value, reverse=True)


def _lead(role: str, found: Sequence[Analysis]) -> str:
    table = _TABLES[role]
    defined = [a for a in found if rate_of(a).value is not None]
    if len(defined) < 2:
        return "".join(f"1 {table.noun}: {formats.rate(rate_of(a))} {table.rate.lower()}." for a in defined)
    high, low = defined[0], defined[-1]
    if formats.rate(rate_of(high)) == formats.rate(rate_of(low)):
        return f"{counted(len(found), table.noun)}: {table.rates} of {formats.rate(rate_of(high))}."
    return (
        f"{counted(len(found), table.noun)}: {table.rates} from {formats.rate(rate_of(low))} "
        f"({low.sources[0].label}) to {formats.rate(rate_of(high))} ({high.sources[0].label})."
    )


def _grid(role: str, found: Sequence[Analysis]) -> Grid:
    kind = _TABLES[role]
    blocks = any(a.tally.guardrail for a in found) and role != "tests"
    return table(
        found,
        text_column("File", lambda a: Label(a.sources[0].label)),
        number_column("n", lambda a: a.tally.total),
        number_column(kind.rate, rate_of, note=f"{kind.rate}: {kind.share}."),
        number_column("Interval", lambda a: Interval(rate_of(a)), rank=1),
        number_column("Errors", lambda a: a.tally.error, rank=2),
        number_column("Blocks", lambda a: a.tally.guardrail, rank=3, when=blocks),
        number_column("Findings", lambda a: " ".join(dict.fromkeys(item.code for item in a.findings)), rank=4),
        note=_note(found),
    )


def _note(found: Sequence[Analysis]) -> str:
    level = formats.exact_percent(found[0].level)
    families = any(a.families.respected for a in found)
    what = "cases" if found[0].role == "tests" else "entries"
    return f"n: {what}. In brackets: {level} interval{', over families of variants' if families else ''}."


def _grouped(analyses: Sequence[Analysis]) -> Iterator[Finding]:
    """Yield one finding for each code, with the files that it concerns."""
    codes: dict[str, dict[str, int]] = {}
    alone: dict[str, Finding] = {}
    for a in analyses:
        for item in a.findings:
            files = codes.setdefault(item.code, {})
            files[a.sources[0].label] = files.get(a.sources[0].label, 0) + item.count
            alone[item.code] = item
    order = {"error": 0, "warning": 1, "info": 2}
    for code in sorted(codes, key=lambda code: (order[REGISTER[code].severity.value], code)):
        files = codes[code]
        named = [f"{label} ({count:,})" for label, count in list(files.items())[:_LABELS_NAMED]]
        more = f" and {len(files) - _LABELS_NAMED:,} more" if len(files) > _LABELS_NAMED else ""
        if len(files) == 1:
            yield finding(code, sum(files.values()), f"{next(iter(files))}: {alone[code].message}")
        else:
            title = REGISTER[code].title
            where = f"in {counted(len(files), 'file')}: {', '.join(named)}{more}"
            yield finding(code, sum(files.values()), f"{title}, {where}")
