"""The register of findings: every code Faircount can raise, its severity and its title. Codes are never reused.

What each code means is in `findings.toml`, which is read when it is asked for: its cause, its effect on the numbers and
the remedy. `docs/findings.md` is generated from both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct, field

from faircount.core.model import Finding, Severity

DATA = Path(__file__).with_name("findings.toml")
_PLACES_SHOWN = 3
EXAMPLES_KEPT = 20
DAMAGE = ("F001", "F002")
"""Findings that part of a file could not be read: bad lines, or a file that broke off."""


class FindingKind(Struct, frozen=True):
    """A registered finding: its severity and a title for indexes."""

    severity: Severity
    title: str


class Explanation(Struct, frozen=True, forbid_unknown_fields=True):
    """What a finding means, in Markdown; links are relative to `docs/`."""

    cause: str
    effect: str
    remedy: str


_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO

REGISTER: dict[str, FindingKind] = {
    "F001": FindingKind(_E, "unreadable lines"),
    "F002": FindingKind(_E, "a compressed file that ends too early"),
    "F003": FindingKind(_W, "verdicts written as words"),
    "F004": FindingKind(_W, "unrecognised verdicts"),
    "F005": FindingKind(_W, "different cases with the same id"),
    "F006": FindingKind(_W, "the same row more than once in a file"),
    "F007": FindingKind(_W, "the same file given more than once"),
    "F008": FindingKind(_W, "rows of one run in several files"),
    "F009": FindingKind(_W, "verdicts replaced by later ones"),
    "F010": FindingKind(_W, "a boolean guardrail file that looks like the old format"),
    "F011": FindingKind(_W, "a key that appears twice in one row"),
    "F012": FindingKind(_W, "NaN or Infinity in a row"),
    "F013": FindingKind(_W, "a number of attempts that is not a number"),
    "F014": FindingKind(_W, "unjudged entries"),
    "F015": FindingKind(_I, "entries without an answer counted in the rate"),
    "F016": FindingKind(_I, "rows that record “No response received”"),
    "F017": FindingKind(_I, "errors without a message"),
    "F018": FindingKind(_I, "attack rows without a history"),
    "F019": FindingKind(_I, "ids that look like attack rows"),
    "F020": FindingKind(_I, "attack rows without a standard row"),
    "F021": FindingKind(_W, "success recorded together with an error or a block"),
    "F022": FindingKind(_W, "answers counted as blocks"),
    "F023": FindingKind(_I, "unknown fields not kept as facets"),
    "F024": FindingKind(_I, "spikee's definitions in use"),
    "F025": FindingKind(_W, "text with lone surrogates"),
    "F026": FindingKind(_I, "a file without entries"),
    "F027": FindingKind(_W, "a field of the wrong type"),
    "F028": FindingKind(_I, "an interval that may be too narrow"),
    "F029": FindingKind(_I, "rows excluded by --where"),
    "F030": FindingKind(_W, "a rate that cannot be corrected for its judge"),
    "F031": FindingKind(_I, "a rate that depends on an unmeasured judge"),
    "F032": FindingKind(_W, "labels that may not match the run"),
    "F033": FindingKind(_W, "an attack that wins only by fooling the judge"),
    "F034": FindingKind(_W, "entries not tried yet"),
    "F035": FindingKind(_I, "prompts refused by the provider, counted as blocks"),
    "F036": FindingKind(_W, "benign checks pooled with attacks"),
    "F037": FindingKind(_W, "an interval based on few families"),
    "F038": FindingKind(_W, "entries paired by their ids or prompts alone"),
    "F039": FindingKind(_W, "a run that did not complete"),
    "F040": FindingKind(_W, "a tool's own counts that differ from its records"),
    "F041": FindingKind(_W, "several runs in one file"),
    "F042": FindingKind(_W, "scores that do not match the outputs"),
    "F043": FindingKind(_I, "another tool's figures beside ours"),
    "F044": FindingKind(_W, "a corrected rate without an interval"),
    "F045": FindingKind(_W, "failures of a judge that the tool counts as verdicts"),
    "F046": FindingKind(_W, "errors that the tool counts as verdicts"),
    "F047": FindingKind(_I, "records that the tool leaves out of its own figures"),
    "F048": FindingKind(_W, "tests without an assertion that the tool counts as passed"),
    "F049": FindingKind(_I, "verdicts changed by hand, or declared invalid"),
    "F050": FindingKind(_W, "cached answers among repeated attempts"),
    "F051": FindingKind(_I, "a direction of success that is assumed"),
    "F052": FindingKind(_W, "scores without a threshold"),
    "F053": FindingKind(_I, "ids that are positions, not names"),
    "F054": FindingKind(_I, "entries generated for this run only"),
    "F055": FindingKind(_I, "a table whose columns were guessed"),
    "F056": FindingKind(_W, "blocked answers that the tool counts as verdicts"),
    "F057": FindingKind(_W, "results without the records behind them"),
}


@cache
def explanations() -> Mapping[str, Explanation]:
    """Return what each registered finding means, in the order of the codes."""
    import tomllib

    return msgspec.convert(tomllib.loads(DATA.read_text(encoding="utf-8")), dict[str, Explanation])


def finding(code: str, count: int, message: str, where: Iterable[str] = ()) -> Finding:
    """Make a registered finding; at most `EXAMPLES_KEPT` places are kept."""
    return Finding(code, REGISTER[code].severity, count, message, tuple(where)[:EXAMPLES_KEPT])


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return `1 line`, `2 lines`, `1,000 entries`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


class Notes(Struct):
    """Problems gathered while reading a source: exact counts, the first few lines, bounded memory.

    A note is kept under (code, subject): the subject is the field or reason, in our own words or made visible.
    """

    name: str
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    lines: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    places: dict[int, str] = field(default_factory=dict)
    """Where the records of some lines are, in a file that has no lines: a member of an archive, a row of a table."""

    def add(self, code: str, subject: str, line: int) -> None:
        """Count one more occurrence at a line; 0 stands for the source as a whole."""
        key = (code, subject)
        self.counts[key] = self.counts.get(key, 0) + 1
        lines = self.lines.setdefault(key, [])
        if len(lines) < EXAMPLES_KEPT:
            lines.append(line)

    def absorb(self, later: Notes, lines_before: int) -> None:
        """Add the notes of a later part of the source, whose lines were counted from 1."""
        for key, count in later.counts.items():
            self.counts[key] = self.counts.get(key, 0) + count
            lines = self.lines.setdefault(key, [])
            lines += [line + lines_before for line in later.lines[key][: EXAMPLES_KEPT - len(lines)]]

    def total(self, code: str) -> int:
        """Return how often `code` was noted, whatever the subject."""
        return sum(count for (noted, _), count in self.counts.items() if noted == code)

    def subjects(self, code: str) -> Iterator[tuple[str, int]]:
        """Yield each subject noted under `code` with its count, most frequent first."""
        found = [(subject, count) for (noted, subject), count in self.counts.items() if noted == code]
        yield from sorted(found, key=lambda pair: -pair[1])

    def problems(self) -> list[str]:
        """Return a sentence for each kind of lines that could not be read, and one if the source broke off."""
        sentences = []
        for reason, times in self.subjects("F001"):
            places = ", ".join(map(self.place, self.lines["F001", reason][:_PLACES_SHOWN]))
            more = f" and {times - _PLACES_SHOWN:,} more" if times > _PLACES_SHOWN else ""
            skipped = "was" if times == 1 else "were"
            sentences.append(
                f"F001 {counted(times, 'line')} could not be read and {skipped} skipped: {reason}; {places}{more}"
            )
        return [*sentences, *(f"F002 {self.name}: {what}: the rest is missing" for what, _ in self.subjects("F002"))]

    def where(self, code: str) -> list[str]:
        """Return the first places (`file:line`) noted under `code`, in the order of their lines."""
        lines = sorted(line for (noted, _), lines in self.lines.items() if noted == code for line in lines)
        return list(map(self.place, lines))

    def place(self, line: int) -> str:
        """Return where a line is, for people."""
        return f"{self.name}{self.places.get(line, f':{line}')}" if line else self.name
