"""The evidence behind a report: entries read back from their files, and which files these were.

Long texts are not in the ledger. They are fetched from the source near a known byte offset, or line by line where the
source is compressed, and only believed if the line still reads as the row that was counted. What cannot be fetched is
reported.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.core.errors import FaircountError, InputError
from faircount.core.model import Analysis, Example, Examples, MadeWith, Outcome, Passage, Source
from faircount.core.text import mask_secrets
from faircount.io import lenient_json as loose
from faircount.io.files import ReplacedError, chunks_of, is_address, size_of, version_of
from faircount.io.lenient_json import BadLine, parse
from faircount.io.streams import RANGE_BYTES, STDIN, Stream, blocks, file_of, is_stored, open_range
from faircount.ledger import lookup, tallies
from faircount.ledger.lookup import CountedRow, EntryRow, ExampleRow
from faircount.ledger.row_filter import ChosenRow
from faircount.ledger.store import LedgerView
from faircount.readers.cache import ReadSource
from faircount.readers.raw_rows import family_of, identities_of
from faircount.readers.registry import lines_are_rows, open_stream
from faircount.readers.rows import history_item, history_state, policy_block_of, scalar_text
from faircount.version import __version__

LONGEST_TEXT = 4000
_LOOKED_AT = 4 * LONGEST_TEXT
_SEARCHED = 1_000_000
_OF_SECRETS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+=~"
PROMPT_FIELDS = ("input", "content", "text")

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
    column = tallies.NO_COLUMN
    if spread:
        # The values of the first field that has more than one take turns.
        columns = [ledger.facets[field] for field in ledger.fields.first if field in ledger.facets]
        column = next((name for name in columns if tallies.distinct_values(ledger, name) > 1), column)
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
    if not is_stored(path):
        return {}, READ_ONCE if path == STDIN or (not is_address(path) and Path(path).exists()) else VANISHED
    try:
        lines = dict(_near_anchors(path, wanted, anchors, max_line)) if lines_are_rows(path) else {}
        rest = [row for row in wanted if row.line not in lines]
        stream = open_stream(path, path, lines=frozenset(row.line for row in rest))
        return lines | dict(_pick(stream, 1, rest, max_line)), ""
    except ReplacedError:
        return {}, CHANGED
    except (OSError, FaircountError):
        return {}, VANISHED


def readable_again(name: str, cleanup: contextlib.ExitStack) -> str:
    """Return where a file can be read more than once: a stream is copied to a file first, until the cleanup."""
    if is_stored(name):
        return name
    import tempfile

    copy = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="faircount-"))) / "stream"
    try:
        with copy.open("wb") as file, contextlib.ExitStack() as opened:
            stream = sys.stdin.buffer if name == STDIN else opened.enter_context(Path(name).open("rb"))
            shutil.copyfileobj(stream, file)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error
    return str(copy)


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
        end = anchors[position][1] if position < len(anchors) else size_of(path)
        yield from _pick(open_range(path, path, start, end), first, rows, max_line)


def _pick(stream: Stream, first: int, wanted: Sequence[CountedRow], max_line: int) -> Iterator[tuple[int, bytes]]:
    """Read a stream, whose first line has the given number, as far as needed."""
    by_line = {row.line: row for row in wanted}
    if not by_line:
        return
    last, number = max(by_line), first
    for block in blocks(stream, max_line):
        lines = [(number + at, line) for at, line in enumerate(block.lines) if number + at in by_line]
        number += len(block.lines)
        # A line is believed only if it still reads as the row that was counted: the same id, prompt and answer.
        for (at, line), identity in zip(lines, identities_of([line for _, line in lines], max_line), strict=True):
            if identity == by_line[at].identity:
                yield at, line
        if number > last:
            return


def example_of(place: str, line: bytes, entry: str = "", strategy: str = "") -> Example:
    """Return what a line holds of an entry; of a test, the first attempt that was decided like the whole."""
    fields = _fields(line)
    prompt = prompt_of(fields)
    # What to look for in the texts: the payload, then what the judge compares with.
    arguments = fields.get("judge_args")
    payload = scalar_text(fields.get("payload")) or ""
    compared = [text for text in (arguments if isinstance(arguments, list) else [arguments]) if isinstance(text, str)]
    tries = [item for item in fields.get("attempt_history") or () if isinstance(item, dict) and "metrics" in item]
    decisive = next((item for item in tries if item.get("success") is fields.get("success")), {})
    metrics = decisive.get("metrics")
    if isinstance(metrics, list):
        # Those that failed the attempt come first.
        metrics = sorted(metrics, key=lambda one: not (isinstance(one, dict) and one.get("verdict") == "failed"))
    return Example(
        place,
        entry,
        strategy,
        scalar_text(fields.get("judge_name")) or None,
        _passage(prompt, (payload, *compared)),
        _passage(decisive.get("response", fields.get("response")), compared),
        error=_passage(fields.get("error")).text,
        measured=_passage(metrics_in_words(metrics)).text,
        tries=len(tries) or None,
        passed=sum(item.get("success") is True for item in tries) if tries else None,
    )


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
    whole = len(shown) == len(text) or len(piece) <= LONGEST_TEXT
    after = "" if whole else f"… [cut: the whole text has {len(text):,} characters]"
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

    if not is_stored(source.path):
        return None
    file, digest, size = file_of(source.path), hashlib.sha256(), 0
    if is_address(file) and size_of(file) > RANGE_BYTES:  # to fetch it once more would take as long as to read it
        return f"e_tag {version_of(file).tag}"
    try:
        for chunk in chunks_of(file):
            digest.update(chunk)
            size += len(chunk)
        return digest.hexdigest() if size == source.bytes else None
    except (OSError, InputError):
        return None


# -- what one line holds for people ----------------------------------------------------------------------------
#
# Texts have their secrets masked. Otherwise they stay as recorded, hidden characters and all; who shows them makes them
# visible. Texts are hostile and long: every search is for plain text, and looks at a bounded part.

LONGEST_EXCERPT = 600
"""So many characters of a text are in an excerpt."""

_PIECE = 4096
_MASKED = "…[masked]"
_KEY_BEGINS = "-----BEGIN "
_GOES_ON = re.compile(r"[A-Za-z0-9_\-./+=~]*")
_BETWEEN_SENTENCES = re.compile(r"[.,;!?)\]}]\s")
_OUTCOMES = tuple(Outcome)


class RecordedRequest(Struct, frozen=True):
    """One request inside a dynamic attack, or one attempt of a case, with what its metrics said."""

    number: int
    state: Outcome
    input: str | None
    response: str | None
    error: str | None
    metrics: str | None


class RecordedTurn(Struct, frozen=True):
    """One turn of a conversation: who spoke, and in a tree of turns its name and the one before it."""

    name: str
    speaker: str | None
    after: str | None
    text: str | None


class RowTexts(Struct, frozen=True):
    """What a line holds; `history` and `conversation` are None where there is none."""

    own_id: str | None
    long_id: str | None
    judge: str | None
    judge_arguments: str | None
    error: str | None
    prompt: str | None
    response: str | None
    history: tuple[RecordedRequest, ...] | None
    conversation: tuple[RecordedTurn, ...] | None


def recorded(line: bytes, *, policy_blocks: bool = True) -> RowTexts:
    """Return what a line holds.

    `policy_blocks`: whether a request that the provider refused was blocked, or ended in an error.
    """
    fields = _fields(line)
    history, conversation = fields.get("attempt_history"), fields.get("conversation")
    requests = [item for item in history if isinstance(item, dict)] if isinstance(history, list) else None
    if isinstance(conversation, str) and loose.depth(conversation.encode("utf-8", "replace")) <= loose.MAX_DEPTH:
        with contextlib.suppress(ValueError, RecursionError):
            conversation = json.loads(conversation)
    turns: list[tuple[str | None, Any]] | None = None
    # A list of turns, or a tree by the names of its nodes.
    if isinstance(conversation, dict):
        turns = list(conversation.items())
    elif conversation not in (None, ""):
        turns = [(None, item) for item in (conversation if isinstance(conversation, list) else [conversation])]
    return RowTexts(
        own_id=_masked_text(fields.get("id")),
        long_id=_masked_text(fields.get("long_id")),
        judge=_masked_text(fields.get("judge_name")),
        judge_arguments=_masked_text(fields.get("judge_args")),
        error=_masked_text(fields.get("error")),
        prompt=_masked_text(prompt_of(fields)),
        response=_masked_text(fields.get("response")),
        history=None if requests is None else tuple(_request(*item, policy_blocks) for item in enumerate(requests, 1)),
        conversation=None if turns is None else tuple(_turn(number, *turn) for number, turn in enumerate(turns, 1)),
    )


def _request(place: int, item: dict[str, Any], policy_blocks: bool) -> RecordedRequest:
    """Return a request by the number that it has of its own, as the attempts of a run have, or else by its place."""
    request = history_item(item)
    state, _ = history_state(request, refused=policy_blocks and policy_block_of(request) is not None)
    own = item.get("attempt")
    number = own if isinstance(own, int) and not isinstance(own, bool) else place
    texts = (item.get("input"), item.get("response"), item.get("error"), metrics_in_words(item.get("metrics")))
    return RecordedRequest(number, _OUTCOMES[state], *map(_masked_text, texts))


def _turn(number: int, name: str | None, node: Any) -> RecordedTurn:
    after = node.get("parent") if isinstance(node, dict) else None
    spoken = node.get("data", node) if isinstance(node, dict) else node
    speaker = spoken.get("role") if isinstance(spoken, dict) else None
    content = spoken.get("content", spoken) if isinstance(spoken, dict) else spoken
    return RecordedTurn(
        str(number) if name is None else masked(name), _masked_text(speaker), _masked_text(after), _masked_text(content)
    )


def metrics_in_words(metrics: Any) -> str | None:
    """Return what metrics said of an attempt, in words."""
    sentences = []
    for one in metrics if isinstance(metrics, list) else ():
        if isinstance(one, dict):
            name, verdict, score, reason = (scalar_text(one.get(key)) for key in ("name", "verdict", "score", "reason"))
            result = f"{name}: {verdict}" if score is None else f"{name}: {verdict} ({score})"
            sentences.append(f"{result}, {reason}" if reason else result)
    return "; ".join(sentences) or None


def excerpts(line: bytes) -> tuple[str | None, str | None, str | None]:
    """Return the beginnings of the id, the prompt and the response that a line holds."""
    fields = _fields(line)
    return _excerpt(fields.get("id")), _excerpt(prompt_of(fields)), _excerpt(fields.get("response"))


def family_names(line: bytes) -> tuple[str, str] | None:
    """Return the document and the instruction, or the input, that a row is a variant of."""
    named = family_of(_fields(line))
    if named is None:
        return None
    document, _, instruction = masked(named).partition("\n")
    return document, instruction


def _fields(line: bytes) -> dict[str, Any]:
    try:
        return parse(line)[0]
    except BadLine:
        return {}


def prompt_of(fields: Mapping[str, Any]) -> Any:
    """Return the prompt of a row, whichever field holds it; None where there is none."""
    return next((fields[name] for name in PROMPT_FIELDS if fields.get(name) not in (None, "")), None)


# -- texts ------------------------------------------------------------------------------------------------------


def _masked_text(value: Any) -> str | None:
    text = scalar_text(value)
    return None if text is None else masked(text)


def _excerpt(value: Any) -> str | None:
    text = scalar_text(value)
    if text is None:
        return None
    shown = masked(text[: _PIECE + LONGEST_EXCERPT])
    if max(len(shown), len(text) - _PIECE) <= LONGEST_EXCERPT:
        return shown
    return f"{shown[:LONGEST_EXCERPT]}… [cut: the whole text has {len(text):,} characters]"


def masked(text: str) -> str:
    """Mask the secrets of a text piece by piece: one search through megabytes of hostile text could take for ever."""
    return "".join(masked_pieces(text))


def masked_pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces with its secrets masked; of a text that is looked at in part, the rest is not searched."""
    start = 0
    while start < len(text):
        end = _end_of_piece(text, start)
        piece = mask_secrets(text[start:end])
        yield piece
        if piece.endswith(_MASKED) and not text.endswith(_MASKED, start, end):
            if _KEY_BEGINS in text[start:end]:
                # Everything after the beginning of a private key is masked.
                break
            goes_on = _GOES_ON.match(text, end)
            end = end if goes_on is None else goes_on.end()
        start = end


def _end_of_piece(text: str, start: int) -> int:
    """Return where a piece can end so that no secret stands on both sides: between sentences, or else at a space."""
    if len(text) - start <= _PIECE:
        return len(text)
    half = start + _PIECE // 2
    ends = [match.end() for match in _BETWEEN_SENTENCES.finditer(text, half, start + _PIECE)]
    if ends:
        return ends[-1]
    space = max(text.rfind(sign, half, start + _PIECE) for sign in " \n\t")
    return start + _PIECE if space < 0 else space


# -- the part of a text that matters --------------------------------------------------------------------------


SHORTEST_NEEDLE = 4
_SHORTEST_SHARED = 12
_LONGEST_SEARCHED = 4000
_LONG_ENOUGH_TO_CUT = 200
"""Of a shorter text all is shown anyway."""


def passage(text: str | None, needles: Sequence[str] = ()) -> Passage:
    """Return a text with the first of the needles that is in it, such as the payload, or a judge's canary."""
    for needle in needles:
        at = -1 if text is None or len(needle) < SHORTEST_NEEDLE else text.find(needle)
        if at >= 0:
            return Passage(text, at, at + len(needle))
    return Passage(text)


def apart(passages: Sequence[Passage]) -> list[Passage]:
    """Mark in prompts where nothing is marked what sets them apart from the one that is most like them.

    Prompts of one run share the task and the document; what differs is the payload.
    """
    texts = [one.text or "" for one in passages]
    found = []
    for at, (one, text) in enumerate(zip(passages, texts, strict=True)):
        others = [other for place, other in enumerate(texts) if place != at and other != text]
        if one.begin == one.end and len(text) > _LONG_ENOUGH_TO_CUT and others:
            begin, nearest = max(((common_beginning(text, other), other) for other in others), key=itemgetter(0))
            ending = common_beginning(text[begin:][::-1], nearest[begin:][::-1])
            if begin:
                one = Passage(one.text, begin, max(len(text) - ending, begin))
        found.append(one)
    return found


def common_beginning(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def repeated_from(response: Passage, prompt: Passage) -> Passage:
    """Mark in a response where nothing is marked the longest passage that it repeats from the payload."""
    if response.text is None or prompt.text is None or response.begin < response.end:
        return response
    payload = prompt.text[prompt.begin : prompt.end] or prompt.text
    begin, length = _longest_shared(payload[:_LONGEST_SEARCHED], response.text[:_LONGEST_SEARCHED])
    if length < _SHORTEST_SHARED or not response.text[begin : begin + length].strip():
        return response
    return Passage(response.text, begin, begin + length)


def _longest_shared(one: str, other: str) -> tuple[int, int]:
    """Return where in the second text the longest passage that is in both begins, and its length.

    If a passage of some length is shared, so are shorter ones: halving finds the longest, whatever the texts repeat.
    """
    begin, shortest, longest = 0, 0, min(len(one), len(other))
    while shortest < longest:
        length = (shortest + longest + 1) // 2
        pieces = {one[at : at + length] for at in range(len(one) - length + 1)}
        found = next((at for at in range(len(other) - length + 1) if other[at : at + length] in pieces), None)
        if found is None:
            longest = length - 1
        else:
            begin, shortest = found, length
    return begin, shortest
