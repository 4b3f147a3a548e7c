"""Finds the part of a prompt or a response that matters: the payload, or what made the judge decide.

Texts are hostile and long: every search is for plain text, and looks at a bounded part.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from faircount.core.model import Passage

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
            begin, nearest = max(((_common(text, other), other) for other in others), key=itemgetter(0))
            ending = _common(text[begin:][::-1], nearest[begin:][::-1])
            if begin:
                one = Passage(one.text, begin, max(len(text) - ending, begin))
        found.append(one)
    return found


def _common(one: str, other: str) -> int:
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
