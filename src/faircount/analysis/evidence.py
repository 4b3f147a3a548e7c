"""The evidence behind a report: entries read back from their files, and which files these were.

Long texts are not in the ledger. They are fetched from the source near a known byte offset, or line by line where the
source is packed, and only believed if the line still reads as the row that was counted. What cannot be fetched is told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from faircount.analysis.passages import apart, passage, repeated_from
from faircount.analysis.recorded import metrics_in_words
from faircount.core.errors import FaircountError
from faircount.core.model import Analysis, Example, Examples, MadeWith, Outcome, Passage, Source
from faircount.core.text import mask_secrets
from faircount.io.lenient_json import BadLine, parse
from faircount.io.streams import STDIN, Stream, blocks, open_range
from faircount.ledger import lookup, tallies
from faircount.ledger.lookup import CountedRow, EntryRow, ExampleRow
from faircount.ledger.row_filter import ChosenRow
from faircount.ledger.store import LedgerView
from faircount.readers.cache import ReadSource
from faircount.readers.raw_rows import identity_of
from faircount.readers.registry import lines_are_rows, open_stream
from faircount.readers.rows import scalar_text
from faircount.version import __version__

LONGEST_TEXT = 4000
_LOOKED_AT = 4 * LONGEST_TEXT
_SEARCHED = 1_000_000
_OF_SECRETS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+=~"
_PROMPT_FIELDS = ("input", "content", "text")

FAILED_CASES = "failed cases"
"""The kind of evidence that a run of tests always has."""
CHANGED = "the file has changed since it was read"
VANISHED = "the file can no longer be read"
READ_ONCE = "standard input and pipes can be read only once"


KINDS: dict[str, tuple[Outcome, ...]] = {
    "successes": (Outcome.SUCCESS,),
    "failures": (Outcome.FAILURE,),
    "errors": (Outcome.ERROR,),
    "blocks": (Outcome.GUARDRAIL,),
    "let through": (Outcome.SUCCESS,),
    "blocked": (Outcome.FAILURE, Outcome.GUARDRAIL),
}
"""Kinds of entries to look at, and how they ended; the last two are what a guardrail did wrong."""


def gather(
    ledger: LedgerView,
    read: Sequence[ReadSource],
    kind: str,
    limit: int,
    *,
    max_line: int,
    outcomes: Sequence[Outcome] = (),
    spread: bool = True,
) -> Examples:
    """Return up to `limit` entries of a kind, spread over sources and one facet or else in their order."""
    outcomes = outcomes or KINDS[kind]
    column = _spread_column(ledger) if spread else tallies.NO_COLUMN
    chosen = choose(lookup.examples(ledger, outcomes, column, limit), limit)
    found: dict[int, Example] = {}
    missing: list[tuple[str, str]] = []
    for source in dict.fromkeys(row.source for row in chosen):
        wanted = [row for row in chosen if row.source == source]
        path = ledger.paths[source]
        lines, unreadable = lines_again(path, wanted, read[source].anchors, max_line)
        if unreadable:
            missing.append((path, unreadable))
            continue
        for row in wanted:
            line = lines.get(row.line)
            if line is None:
                missing.append((ledger.place(row.ord), CHANGED))
            else:
                found[row.ord] = example_of(ledger.place(row.ord), line, row.entry, row.strategy)
    shown = with_parts_that_matter([found[row.ord] for row in chosen if row.ord in found])
    counts = tallies.overall(ledger).tally
    return Examples(kind, tuple(shown), sum(getattr(counts, outcome) for outcome in outcomes), tuple(missing))


# -- choosing ---------------------------------------------------------------------------------------------------


def _spread_column(ledger: LedgerView) -> str:
    """Return the column whose values take turns: the first field that has more than one."""
    columns = [ledger.facets[field] for field in ledger.fields.first if field in ledger.facets]
    return next((name for name in columns if tallies.distinct_values(ledger, name) > 1), tallies.NO_COLUMN)


def choose(rows: Sequence[ExampleRow], limit: int) -> list[ExampleRow]:
    """Choose rows so that the values of the facet take turns, then the sources, then the order of the rows."""
    waiting: dict[tuple[int | None, int], list[ExampleRow]] = {}
    for row in sorted(rows, key=lambda row: row.ord, reverse=True):
        waiting.setdefault((row.facet, row.source), []).append(row)
    facets = {facet: 0 for facet, _ in waiting}
    sources = {source: 0 for _, source in waiting}
    chosen: list[ExampleRow] = []
    while waiting and len(chosen) < limit:
        key = min(waiting, key=lambda key: (facets[key[0]], sources[key[1]], waiting[key][-1].ord))
        chosen.append(waiting[key].pop())
        facets[key[0]] += 1
        sources[key[1]] += 1
        if not waiting[key]:
            del waiting[key]
    return chosen


# -- reading back -----------------------------------------------------------------------------------------------


def lines_again(
    path: str, wanted: Sequence[CountedRow], anchors: Sequence[tuple[int, int]], max_line: int
) -> tuple[dict[int, bytes], str]:
    """Return the lines of rows by their numbers, and why the source cannot be read a second time, if so.

    A line that no longer holds the row that was counted is left out.
    """
    if path == STDIN or not Path(path).is_file():
        return {}, READ_ONCE if path == STDIN or Path(path).exists() else VANISHED
    try:
        lines = dict(_near_anchors(path, wanted, anchors, max_line)) if lines_are_rows(path) else {}
        rest = [row for row in wanted if row.line not in lines]
        stream = open_stream(path, path, lines=frozenset(row.line for row in rest))
        return lines | dict(_pick(stream, 1, rest, max_line)), ""
    except (OSError, FaircountError):
        return {}, VANISHED


def lines_of(
    ledger: LedgerView, read: Sequence[ReadSource], rows: Sequence[EntryRow | ChosenRow], max_line: int
) -> dict[int, bytes | str]:
    """Return each row's line by its place, or the reason why it cannot be had."""
    found: dict[int, bytes | str] = {}
    for source in dict.fromkeys(row.source for row in rows):
        wanted = [row for row in rows if row.source == source]
        lines, unreadable = lines_again(ledger.paths[source], wanted, read[source].anchors, max_line)
        found |= {row.ord: lines.get(row.line, unreadable or CHANGED) for row in wanted}
    return found


def _near_anchors(
    path: str, wanted: Sequence[CountedRow], anchors: Sequence[tuple[int, int]], max_line: int
) -> Iterator[tuple[int, bytes]]:
    """Look for each row behind the last line before it whose place is known."""
    behind: dict[int, list[CountedRow]] = {}
    for row in wanted:
        behind.setdefault(bisect_right(anchors, row.line, key=itemgetter(0)), []).append(row)
    for position, rows in behind.items():
        first, start = anchors[position - 1]
        end = anchors[position][1] if position < len(anchors) else Path(path).stat().st_size
        yield from _pick(open_range(path, path, start, end), first, rows, max_line)


def _pick(stream: Stream, first: int, wanted: Sequence[CountedRow], max_line: int) -> Iterator[tuple[int, bytes]]:
    """Read a stream, whose first line has the given number, as far as needed."""
    by_line = {row.line: row for row in wanted}
    if not by_line:
        return
    last, number = max(by_line), first
    for block in blocks(stream, max_line):
        for line in block.lines:
            if number in by_line and _holds(line, by_line[number], max_line):
                yield number, line
            number += 1
        if number > last:
            return


def _holds(line: bytes, row: CountedRow, max_line: int) -> bool:
    """Tell whether a line still reads as the row that was counted: the same id, prompt and answer."""
    return identity_of(line, max_line) == row.identity


def example_of(place: str, line: bytes, entry: str = "", strategy: str = "") -> Example:
    """Return what a line holds of an entry; of a test, the first attempt that was decided like the whole."""
    try:
        fields, _ = parse(line)
    except BadLine:
        fields = {}
    prompt = next((fields[name] for name in _PROMPT_FIELDS if fields.get(name) not in (None, "")), None)
    payload, *compared = _needles(fields)
    tries = [item for item in fields.get("attempt_history") or () if isinstance(item, dict) and "metrics" in item]
    telling = next((item for item in tries if item.get("success") is fields.get("success")), {})
    return Example(
        place,
        entry,
        strategy,
        scalar_text(fields.get("judge_name")) or None,
        _passage(prompt, (payload, *compared)),
        _passage(telling.get("response", fields.get("response")), compared),
        error=_passage(fields.get("error")).text,
        measured=_passage(_measured(telling.get("metrics"))).text,
        tries=len(tries) or None,
        passed=sum(item.get("success") is True for item in tries) if tries else None,
    )


def _measured(metrics: Any) -> str | None:
    """Return what the metrics said of an attempt, those that failed it first."""
    if not isinstance(metrics, list):
        return None
    return metrics_in_words(
        sorted(metrics, key=lambda one: not (isinstance(one, dict) and one.get("verdict") == "failed"))
    )


def _needles(fields: Mapping[str, Any]) -> list[str]:
    """Return what to look for in the texts of a row: its payload first, then what its judge compares with."""
    arguments = fields.get("judge_args")
    compared = arguments if isinstance(arguments, list) else [arguments]
    return [scalar_text(fields.get("payload")) or "", *(text for text in compared if isinstance(text, str))]


def with_parts_that_matter(found: Sequence[Example]) -> list[Example]:
    """Mark in the texts of examples the payload, and what the responses make of it."""
    prompts = apart([example.prompt for example in found])
    return [
        replace(example, prompt=prompt, response=repeated_from(example.response, prompt))
        for example, prompt in zip(found, prompts, strict=True)
    ]


def _passage(value: Any, needles: Sequence[str] = ()) -> Passage:
    """Return a text with secrets masked, no longer than people read, and the first of the needles that is in it."""
    text = scalar_text(value)
    if text is None:
        return Passage(None)
    at = passage(text[:_SEARCHED], needles).begin
    start = at - LONGEST_TEXT // 4 if at > LONGEST_TEXT // 2 and len(text) > LONGEST_TEXT else 0
    # Masking looks at a bounded part: a search through megabytes of hostile text could take for ever.
    piece = text[start : start + _LOOKED_AT]
    if start:
        # What a secret begins with may be cut off: what goes on from there is not shown.
        piece = piece.lstrip(_OF_SECRETS)
        start = text.index(piece, start)
    shown = mask_secrets(piece)[:LONGEST_TEXT]
    before = f"[cut: {start:,} characters] …" if start else ""
    after = (
        ""
        if len(shown) == len(text) or len(piece) <= LONGEST_TEXT
        else f"… [cut: the whole text has {len(text):,} characters]"
    )
    return passage(f"{before}{shown}{after}", needles)


# -- which files these were -------------------------------------------------------------------------------------


def made_with(command: str, analyses: Sequence[Analysis]) -> MadeWith:
    """Return how a report is being made, with the digest of each file as it is now."""
    import platform
    from importlib import metadata

    versions = (
        ("Faircount", __version__),
        ("Python", platform.python_version()),
        ("DuckDB", metadata.version("duckdb")),
    )
    digests = {source.path: _digest(source) for analysis in analyses for source in sources_of(analysis)}
    return MadeWith(command, versions, digests)


def sources_of(analysis: Analysis) -> tuple[Source, ...]:
    """Return every file that an analysis rests on, the benign one included."""
    benign = () if analysis.false_positives is None else (analysis.false_positives.benign,)
    return (*analysis.sources, *benign)


def _digest(source: Source) -> str | None:
    """Return the SHA-256 of a file in hexadecimal, or None where it is not, or no longer, what was read."""
    import hashlib

    path = Path(source.path)
    if source.path == STDIN or not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return digest if file.tell() == source.bytes else None
    except OSError:
        return None
