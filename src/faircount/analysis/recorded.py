"""What one line of a result file holds for people: texts with secrets masked, a history, a conversation.

Text stays as it was recorded otherwise, hidden characters and all; who shows it makes it visible.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

from faircount.core.model import Outcome
from faircount.core.text import mask_secrets
from faircount.io import lenient_json as loose
from faircount.io.lenient_json import BadLine, parse
from faircount.readers.raw_rows import family_of
from faircount.readers.rows import history_item, history_state, policy_block_of, scalar_text

LONGEST_EXCERPT = 600
"""So many characters of a text are in an excerpt."""

_PIECE = 4096
_MASKED = "…[masked]"
_KEY_BEGINS = "-----BEGIN "
_GOES_ON = re.compile(r"[A-Za-z0-9_\-./+=~]*")
_BETWEEN_SENTENCES = re.compile(r"[.,;!?)\]}]\s")
_PROMPT_FIELDS = ("input", "content", "text")
_OUTCOMES = tuple(Outcome)


class Request(Struct, frozen=True):
    """One request inside a dynamic attack, or one attempt of a case, with what its metrics said."""

    number: int
    state: Outcome
    input: str | None
    response: str | None
    error: str | None
    metrics: str | None


class Turn(Struct, frozen=True):
    """One turn of a conversation: who spoke, and in a tree of turns its name and the one before it."""

    name: str
    speaker: str | None
    after: str | None
    text: str | None


class Recorded(Struct, frozen=True):
    """What a line holds; `history` and `conversation` are None where there is none."""

    own_id: str | None
    long_id: str | None
    judge: str | None
    judge_arguments: str | None
    error: str | None
    prompt: str | None
    response: str | None
    history: tuple[Request, ...] | None
    conversation: tuple[Turn, ...] | None


def recorded(line: bytes, *, policy_blocks: bool = True) -> Recorded:
    """Return what a line holds.

    `policy_blocks`: whether a request that the provider refused was blocked, or ended in an error.
    """
    fields = _fields(line)
    history, turns = _history(fields.get("attempt_history")), _turns(fields.get("conversation"))
    return Recorded(
        own_id=_said(fields.get("id")),
        long_id=_said(fields.get("long_id")),
        judge=_said(fields.get("judge_name")),
        judge_arguments=_said(fields.get("judge_args")),
        error=_said(fields.get("error")),
        prompt=_said(_prompt(fields)),
        response=_said(fields.get("response")),
        history=None
        if history is None
        else tuple(_request(place, item, policy_blocks) for place, item in enumerate(history, start=1)),
        conversation=None if turns is None else tuple(_turn(*turn) for turn in enumerate(turns, start=1)),
    )


def excerpts(line: bytes) -> tuple[str | None, str | None, str | None]:
    """Return the beginnings of the id, the prompt and the response that a line holds."""
    fields = _fields(line)
    return _excerpt(fields.get("id")), _excerpt(_prompt(fields)), _excerpt(fields.get("response"))


def family_names(line: bytes) -> tuple[str, str] | None:
    """Return the document and the instruction, or the input, that a row is a variant of."""
    fields = _fields(line)
    named = family_of(fields)
    if named is None:
        return None
    document, _, instruction = masked(named).partition("\n")
    return document, instruction


def _fields(line: bytes) -> dict[str, Any]:
    try:
        return parse(line)[0]
    except BadLine:
        return {}


def _prompt(fields: dict[str, Any]) -> Any:
    return next((fields[name] for name in _PROMPT_FIELDS if fields.get(name) not in (None, "")), None)


# -- texts ------------------------------------------------------------------------------------------------------


def _said(value: Any) -> str | None:
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
    parts = []
    start = 0
    while start < len(text):
        end = _end_of_piece(text, start)
        piece = mask_secrets(text[start:end])
        parts.append(piece)
        if piece.endswith(_MASKED) and not text.endswith(_MASKED, start, end):
            if _KEY_BEGINS in text[start:end]:
                # Everything after the beginning of a private key is masked.
                break
            goes_on = _GOES_ON.match(text, end)
            end = end if goes_on is None else goes_on.end()
        start = end
    return "".join(parts)


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


# -- histories and conversations --------------------------------------------------------------------------------


def _history(value: Any) -> list[dict[str, Any]] | None:
    if not isinstance(value, list):
        return None
    return [item for item in value if isinstance(item, dict)]


def _request(place: int, item: dict[str, Any], policy_blocks: bool) -> Request:
    """Return a request by the number that it has of its own, as the attempts of a run have, or else by its place."""
    told = history_item(item)
    state, _ = history_state(told, refused=policy_blocks and policy_block_of(told) is not None)
    own = item.get("attempt")
    number = own if isinstance(own, int) and not isinstance(own, bool) else place
    texts = (item.get("input"), item.get("response"), item.get("error"), metrics_in_words(item.get("metrics")))
    return Request(number, _OUTCOMES[state], *map(_said, texts))


def metrics_in_words(said: Any) -> str | None:
    """Return what metrics said of an attempt, in words."""
    if not isinstance(said, list):
        return None
    return "; ".join(_metric(one) for one in said if isinstance(one, dict)) or None


def _metric(said: dict[str, Any]) -> str:
    name, verdict, score, reason = (scalar_text(said.get(key)) for key in ("name", "verdict", "score", "reason"))
    told = f"{name}: {verdict}" if score is None else f"{name}: {verdict} ({score})"
    return f"{told}, {reason}" if reason else told


def _turns(value: Any) -> list[tuple[str | None, Any]] | None:
    """Return the turns of a conversation: a list of them, or a tree by the names of its nodes, perhaps as JSON text."""
    if isinstance(value, str):
        value = _from_json(value)
    if value in (None, ""):
        return None
    if isinstance(value, dict):
        return list(value.items())
    return [(None, item) for item in (value if isinstance(value, list) else [value])]


def _from_json(text: str) -> Any:
    if loose.depth(text.encode("utf-8", "replace")) > loose.MAX_DEPTH:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _turn(number: int, turn: tuple[str | None, Any]) -> Turn:
    name, node = turn
    after = node.get("parent") if isinstance(node, dict) else None
    spoken = node.get("data", node) if isinstance(node, dict) else node
    speaker = spoken.get("role") if isinstance(spoken, dict) else None
    content = spoken.get("content", spoken) if isinstance(spoken, dict) else spoken
    return Turn(str(number) if name is None else masked(name), _said(speaker), _said(after), _said(content))
