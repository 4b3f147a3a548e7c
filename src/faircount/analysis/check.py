"""`results check` as a library call: how the lines of files were read, the problems with them, and no figures.

The findings are those of `results analyze`; the breakdowns that it makes are not needed for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis import problems
from faircount.analysis.analyze import COMBINED, Folded, ask_files, findings_of
from faircount.analysis.options import CheckOptions
from faircount.core.errors import InputError, UsageError
from faircount.core.findings import DAMAGE, counted
from faircount.core.model import Document, Finding, Severity, Source
from faircount.core.text import visible
from faircount.io.files import is_local_folder, open_binary
from faircount.io.streams import file_of, is_stored
from faircount.readers import inputs
from faircount.readers.inputs import Input
from faircount.readers.loading import Progress
from faircount.readers.registry import ReadAs, reader_named
from faircount.report.blocks import Block, Findings, Paragraph, Place, Report, Section
from faircount.report.source_labels import labelled

_MEANING = {"attack": "an attack that worked (--aim attack)", "task": "a task done right (--aim task)"}
_NAMES = {Severity.ERROR: ("error", None), Severity.WARNING: ("warning", None), Severity.INFO: ("info", "infos")}


class Checked(Struct, frozen=True):
    """A file, or several together, and the problems with it; `unusable` says why nothing could be read."""

    name: str
    unusable: str | None = None
    sources: tuple[Source, ...] = ()
    findings: tuple[Finding, ...] = ()


class Checks(Document, frozen=True, kw_only=True):
    """What was checked, in the order given; `files` are those that could be opened.

    `serious` counts the findings that have one of the `serious_severities`, `unusable` the files that could not be used
    at all.
    """

    kind: Literal["check"] = "check"
    schema: Literal[2] = 2
    serious_severities: tuple[Severity, ...]
    serious: int
    unusable: int
    checks: tuple[Checked, ...]
    files: tuple[str, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings."""
        return tuple(finding for item in self.checks for finding in item.findings)

    @property
    def damaged(self) -> bool:
        """Return whether any file had lines that could not be read, or broke off."""
        return any(finding.code in DAMAGE for finding in self.findings)


def check_files(
    files: Sequence[str], options: CheckOptions | None = None, progress: Progress = lambda _: None
) -> Checks:
    """Check result files, each by itself or all together; one that cannot be used does not stop the others."""
    options = options or CheckOptions()
    if not files:
        raise UsageError("no result file given; name a file or a folder")
    there, found = _there(files, options.read_as)

    def question(folded: Folded, chosen: Sequence[Input]) -> Checked:
        findings = problems.ordered(findings_of(folded, chosen, options.analyzed))
        name = COMBINED if options.combine else chosen[0].path
        return Checked(name, sources=folded.sources, findings=findings)

    answers, unusable = ask_files(inputs.expand(there, options.read_as), options.analyzed, question, progress)
    found |= {item.name: item for item in answers}
    found |= {path: _unusable(path, sentence) for path, sentence in unusable}
    order = {path: place for place, path in enumerate(_names(files))}
    checked = sorted(found.values(), key=lambda item: order.get(item.name, -1))
    named = iter(labelled([source for item in checked for source in item.sources]))
    checked = [replace(item, sources=tuple(islice(named, len(item.sources)))) for item in checked]
    severities = (Severity.ERROR, Severity.WARNING) if options.warnings else (Severity.ERROR,)
    return Checks(
        serious_severities=severities,
        serious=sum(finding.severity in severities for item in checked for finding in item.findings),
        unusable=sum(item.unusable is not None for item in checked),
        checks=tuple(checked),
        files=tuple(there),
    )


def _there(files: Sequence[str], read_as: ReadAs) -> tuple[list[str], dict[str, Checked]]:
    """Return the paths that can be opened, and why the others cannot."""
    there: list[str] = []
    missing: dict[str, Checked] = {}
    for name in files:
        try:
            paths = inputs.expand([name], read_as)
            for place in map(file_of, filter(is_stored, paths)):
                if not is_local_folder(place):
                    open_binary(place).close()
            there += paths
        except InputError as error:
            missing[name] = _unusable(name, str(error))
        except OSError as error:
            missing[name] = _unusable(name, f"cannot be read: {error.strerror or error}")
    return there, missing


def _names(files: Sequence[str]) -> Iterator[str]:
    """Yield what the given names stand for, those of which nothing can be read included."""
    for name in files:
        yield name
        try:
            yield from inputs.expand([name])
        except InputError:
            continue


def _unusable(name: str, sentence: str) -> Checked:
    return Checked(name, unusable=sentence.removeprefix(f"{name}: "))


# -- the report -------------------------------------------------------------------------------------------------


def as_report(checks: Checks) -> Report:
    """Arrange what was checked into a report whose last line sums up."""
    several = len(checks.checks) > 1
    sections = [Section(f"Check of {len(checks.checks):,} files", (), level=1)] if several else []
    sections += [_section(item, several=several) for item in checks.checks]
    sections.append(Section("Result", (Paragraph(verdict(checks)),)))
    return Report(tuple(sections), checks)


def _section(item: Checked, *, several: bool) -> Section:
    blocks: list[Block] = []
    for source in item.sources:
        lines = counted(source.lines, "line")
        text = f"{lines}: {source.good_lines:,} good, {source.bad_lines:,} bad, {source.blank_lines:,} blank"
        if source.tool_version is not None:
            text += f"; written by {source.tool} {source.tool_version}"
            text += ", judging by its fields" if reader_named(source.reader).version_by_fields else ""
        blocks.append(Paragraph(text))
        target = f", target {visible(source.target)}" if source.target else ""
        blocks.append(Paragraph(f"Read as: {source.reader}; a success is {_MEANING[source.aim]}{target}"))
    if item.unusable is not None:
        blocks.append(Paragraph(f"cannot be used: {visible(item.unusable)}"))
    elif item.findings:
        blocks.append(Findings(item.findings))
    else:
        blocks.append(Paragraph("nothing to report"))
    if len(item.sources) > 1:
        return Section(f"Check of {len(item.sources)} files together", tuple(blocks), level=1)
    subject = Place(item.sources[0].path if item.sources else item.name)
    return Section("File" if several else "Check of", tuple(blocks), level=2 if several else 1, subject=subject)


def verdict(checks: Checks) -> str:
    """Return one sentence that sums up what was checked."""
    files = counted(sum(len(item.sources) or 1 for item in checks.checks), "file")
    parts = []
    for severity in Severity:
        count = sum(finding.severity is severity for finding in checks.findings)
        if count:
            parts.append(counted(count, *_NAMES[severity]))
    if checks.unusable:
        parts.append(f"{counted(checks.unusable, 'file')} that cannot be used")
    serious_codes = (finding.code for finding in checks.findings if finding.severity in checks.serious_severities)
    codes = ", ".join(dict.fromkeys(serious_codes))
    serious = f"; serious: {codes}" if codes else "; nothing serious" if parts and not checks.unusable else ""
    return f"{files} checked: {', '.join(parts) or 'nothing to report'}{serious}"
