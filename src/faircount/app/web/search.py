"""Full-text search over the files of runs: in prompts, responses, errors and reasons, hits as they are found.

Nothing is kept: the files are read from the beginning, as fast as they come from the disk. A block of lines is searched
as bytes first; only a line that may hold the words is decoded and looked into.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from faircount.analysis.browse import searched_texts
from faircount.analysis.evidence import masked
from faircount.app.web.runs import Run
from faircount.core.errors import FaircountError
from faircount.core.text import visible
from faircount.io.lenient_json import BadLine, parse
from faircount.io.streams import TOO_LONG, blocks
from faircount.readers.registry import open_stream

HITS_PER_RUN = 50
MOST_HITS = 1_000
LONGEST_QUERY = 1_000
_AROUND, _MASKED_AROUND = 80, 400
MASKED = "[masked]"
_OF_SECRET = re.compile(r"[\w\-./+=~]*", re.ASCII)
_PLAIN_RUN = re.compile(r"[^\W_]+(?: [^\W_]+)*|[!#-.:-@\[\]^_`{-~]+", re.ASCII)
_ESCAPED_ASCII = re.compile(rb"\\u00[2-7]")


class Hit(Struct, frozen=True):
    """A text in which the words are: where, what it is, and the words with what stands around them."""

    run: str
    line: int
    what: str
    before: str
    words: str
    after: str
    id: str = ""


class SearchProgress(Struct, frozen=True):
    """How far a search is: bytes read of a run, hits in it, and whether it is done with the run."""

    run: str
    bytes: int
    hits: int
    done: bool
    problem: str = ""
    more: bool = False


def needles_of(words: str) -> list[bytes]:
    """Return bytes in lower case of which every line that holds the words holds one, however JSON writes them."""
    runs = sorted(_PLAIN_RUN.findall(words), key=len, reverse=True)
    if runs and (len(runs[0]) > 1 or words.isascii()):
        return [runs[0].lower().encode()]
    letter = max(words.lower(), key=ord, default="")
    forms = {letter, letter.upper(), letter.lower()}
    written = {json.dumps(form)[1:-1].lower().encode() for form in forms}
    return sorted(written | {form.encode("utf-8", "surrogatepass").lower() for form in forms})


def search(
    runs: Iterable[Run], words: str, per_run: int = HITS_PER_RUN, max_line: int = 64 * 1024 * 1024
) -> Iterator[Hit | SearchProgress]:
    """Yield what is found in the files of runs, one after the other, and how far the search is."""
    wanted = words.lower()
    for run in runs:
        hits, read = 0, 0
        try:
            for found in _hits_in(run, words, wanted, max_line):
                if isinstance(found, int):
                    read = found
                    yield SearchProgress(run.id, read, hits, done=False)
                    continue
                yield found
                hits += 1
                if hits >= per_run:
                    break
            yield SearchProgress(run.id, read, hits, done=True, more=hits >= per_run)
        except (FaircountError, OSError) as error:
            yield SearchProgress(run.id, read, hits, done=True, problem=str(error))


_REPORTED_EVERY = 32 * 1024 * 1024


def _hits_in(run: Run, words: str, wanted: str, max_line: int) -> Iterator[Hit | int]:
    needles = needles_of(words)
    first, reported = 1, 0
    for block in blocks(open_stream(run.file, run.file), max_line):
        if block.buffer is TOO_LONG:
            first += 1
            continue
        content = bytes(memoryview(block.buffer)[: block.length])
        lowered = content.lower()
        may_be_escaped = b"\\u00" in content and _ESCAPED_ASCII.search(content) is not None
        if may_be_escaped or any(needle in lowered for needle in needles):
            for number, line, low in zip(_count(first), content.split(b"\n"), lowered.split(b"\n"), strict=False):
                escaped = may_be_escaped and _ESCAPED_ASCII.search(line) is not None
                if escaped or any(needle in low for needle in needles):
                    yield from _hits_of(run, number, line, wanted)
        first += content.count(b"\n") + (not content.endswith(b"\n"))
        if block.offset - reported > _REPORTED_EVERY:
            reported = block.offset
            yield reported


def _count(first: int) -> Iterator[int]:
    while True:
        yield first
        first += 1


def _hits_of(run: Run, number: int, line: bytes, wanted: str) -> Iterator[Hit]:
    """Yield the first hit of each kind of text in a row."""
    try:
        row: dict[str, Any] = parse(line)[0]
    except BadLine:
        return
    found = set()
    for what, text in searched_texts(row):
        at = -1 if what in found else _place(text, wanted)
        if at >= 0:
            found.add(what)
            before, words, after = _excerpt(text, at, wanted)
            own = row.get("id")
            yield Hit(run.id, number, what, before, words, after, str(own) if isinstance(own, str | int) else "")


def _excerpt(text: str, at: int, wanted: str) -> tuple[str, str, str]:
    """Return the words with what stands around them; secrets are masked, also those that are cut off."""
    start = max(at - _MASKED_AROUND, 0)
    window = text[start : at + len(wanted) + _MASKED_AROUND]
    if start:
        window = window[_OF_SECRET.match(window).end() :]  # type: ignore[union-attr]
    shown = masked(window)
    place = shown.lower().find(wanted)
    if place < 0:
        return "", MASKED, ""
    end = place + len(wanted)
    return shown[max(place - _AROUND, 0) : place], shown[place:end], shown[end : end + _AROUND]


def _place(text: str, wanted: str) -> int:
    """Return where words are in a text, whatever their case; folding may make letters longer, and then it is near."""
    folded = text.lower()
    at = folded.find(wanted)
    return at if at < 0 or len(folded) == len(text) else min(at, len(text))


def as_line(found: Hit | SearchProgress) -> bytes:
    """Return a hit as a line of JSON, in ASCII."""
    kind = "hit" if isinstance(found, Hit) else "progress"
    shown = {name: _shown(value) for name, value in msgspec.structs.asdict(found).items()}
    return json.dumps({"kind": kind, **shown}).encode() + b"\n"


def _shown(value: Any) -> Any:
    """Return a text with everything hidden spelled out, as templates do: here, a script puts it on the page."""
    return visible(value) if isinstance(value, str) else value
