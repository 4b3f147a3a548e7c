"""What one line of a result file holds for people: texts with secrets masked, a history, a conversation.

Text stays as it was recorded otherwise, hidden characters and all; who shows it makes it visible.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import Struct

from faircount.model import Outcome
from faircount.reading import loose
from faircount.reading.clean import scalar_text
from faircount.reading.loose import BadLine, parse
from faircount.reading.spikee import history_item, history_state, policy_block_of
from faircount.reading.spikee_families import FAMILY_FIELDS, family
from faircount.text import mask_secrets

LONGEST_TEXT = 600
LONGEST_PART = 200
"""Characters shown of a text, and of one in a history or a conversation, unless all is wanted."""
FIRST_AND_LAST = 3

_PIECE = 4096
_MASKED = "…[masked]"
_KEY_BEGINS = "-----BEGIN "
_GOES_ON = re.compile(r"[A-Za-z0-9_\-./+=~]*")
_BETWEEN_SENTENCES = re.compile(r"[.,;!?)\]}]\s")
_PROMPT_FIELDS = ("input", "content", "text")
_OUTCOMES = tuple(Outcome)

Item = TypeVar("Item")


class Said(Struct, frozen=True):
    """A text with its secrets masked, and how many characters the whole of it has; `cut` if not all are here."""

    text: str
    characters: int
    cut: bool


class Request(Struct, frozen=True):
    """One request inside a dynamic attack, or one attempt of a case, with what its metrics said."""

    number: int
    state: Outcome
    input: Said | None
    response: Said | None
    error: Said | None
    metrics: Said | None = None


class Turn(Struct, frozen=True):
    """One turn of a conversation: who spoke, and in a tree of turns its name and the one before it."""

    name: str
    speaker: Said | None
    after: Said | None
    text: Said | None


class Recorded(Struct, frozen=True):
    """What a line holds; `history` and `conversation` are None where there is none, `…_total` counts all of it."""

    own_id: Said | None
    long_id: Said | None
    judge: Said | None
    judge_arguments: Said | None
    error: Said | None
    prompt: Said | None
    response: Said | None
    family: tuple[str, str] | None
    history: tuple[Request, ...] | None
    history_total: int
    conversation: tuple[Turn, ...] | None
    conversation_total: int


def recorded(line: bytes, *, whole: bool, policy_blocks: bool = True) -> Recorded:
    """Return what a line holds: all of it, or the beginnings of its texts and both ends of its lists.

    `policy_blocks`: whether a request that the provider refused was blocked, or ended in an error.
    """
    try:
        fields, _ = parse(line)
    except BadLine:
        fields = {}
    longest, longest_part = (None, None) if whole else (LONGEST_TEXT, LONGEST_PART)
    prompt = next((fields[name] for name in _PROMPT_FIELDS if fields.get(name) not in (None, "")), None)
    history, turns = _history(fields.get("attempt_history")), _turns(fields.get("conversation"))
    return Recorded(
        own_id=_said(fields.get("id"), longest),
        long_id=_said(fields.get("long_id"), longest),
        judge=_said(fields.get("judge_name"), longest),
        judge_arguments=_said(fields.get("judge_args"), longest),
        error=_said(fields.get("error"), longest),
        prompt=_said(prompt, longest),
        response=_said(fields.get("response"), longest),
        family=_family(fields),
        history=None
        if history is None
        else tuple(_request(*item, longest_part, policy_blocks) for item in _ends(history, whole)),
        history_total=len(history or ()),
        conversation=None if turns is None else tuple(_turn(*item, longest_part) for item in _ends(turns, whole)),
        conversation_total=len(turns or ()),
    )


def _ends(items: Sequence[Item], whole: bool) -> list[tuple[int, Item]]:
    """Return items with their numbers: all, or the first and the last few."""
    numbered = [(_number(item, place), item) for place, item in enumerate(items, start=1)]
    if whole or len(numbered) <= 2 * FIRST_AND_LAST + 1:
        return numbered
    return numbered[:FIRST_AND_LAST] + numbered[-FIRST_AND_LAST:]


def _number(item: Any, place: int) -> int:
    """Return the number that an item has of its own, as the attempts of a run have, or else its place."""
    own = item.get("attempt") if isinstance(item, dict) else None
    return own if isinstance(own, int) and not isinstance(own, bool) else place


def _family(fields: dict[str, Any]) -> tuple[str, str] | None:
    """Return the document and the instruction, or the input, that a row is a variant of."""
    named = family(scalar_text(fields.get("long_id")), *(scalar_text(fields.get(field)) for field in FAMILY_FIELDS))
    if named is None:
        return None
    document, _, instruction = masked(named).partition("\n")
    return document, instruction


# -- texts ------------------------------------------------------------------------------------------------------


def _said(value: Any, longest: int | None) -> Said | None:
    text = scalar_text(value)
    if text is None:
        return None
    if longest is None:
        return Said(masked(text), len(text), False)
    shown = masked(text[: _PIECE + longest])
    cut = len(shown) > longest or len(text) > _PIECE + longest
    return Said(shown[:longest] if cut else shown, len(text), cut)


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


def _request(number: int, item: dict[str, Any], longest: int | None, policy_blocks: bool) -> Request:
    told = history_item(item)
    state, _ = history_state(told, refused=policy_blocks and policy_block_of(told) is not None)
    texts = (item.get("input"), item.get("response"), item.get("error"), metrics_in_words(item.get("metrics")))
    return Request(number, _OUTCOMES[state], *(_said(text, longest) for text in texts))


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


def _turn(number: int, turn: tuple[str | None, Any], longest: int | None) -> Turn:
    name, node = turn
    after = node.get("parent") if isinstance(node, dict) else None
    spoken = node.get("data", node) if isinstance(node, dict) else node
    speaker = spoken.get("role") if isinstance(spoken, dict) else None
    content = spoken.get("content", spoken) if isinstance(spoken, dict) else spoken
    label = str(number) if name is None else masked(name)
    return Turn(label, _said(speaker, longest), _said(after, longest), _said(content, longest))
