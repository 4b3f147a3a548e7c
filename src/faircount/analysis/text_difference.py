"""Two texts beside each other, word by word: what is in both, and what only one of them has.

Texts are hostile and long: the work is bounded whatever they hold. The shortest edit is sought (Myers 1986). Where that
takes too long, words that each text has once fix where the texts go together (Cohen's patience diff), and it is sought
between them, as long as the budget lasts; what is left counts as replaced. Every character of both texts is in the
answer, in order.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

MOST_WORDS = 20_000
"""Of longer texts, what comes after so many words, spaces and signs counts as replaced."""
BUDGET, FIRST_TRY = 200_000, 30_000
"""So many steps the search for the shortest edits may take in all, and for one before words are looked for."""
_DEEPEST = 6
_PARTS = re.compile(r"\w+|\s+|[^\w\s]")


class TextPart(Struct, frozen=True):
    """A part of a text; `shared` where the other text has it, too."""

    text: str
    shared: bool


class WordDifference(Struct, frozen=True):
    """Both texts in parts."""

    a: tuple[TextPart, ...]
    b: tuple[TextPart, ...]

    @property
    def same(self) -> bool:
        """Whether the texts are the same."""
        return all(part.shared for part in (*self.a, *self.b))


def word_difference(a: str, b: str) -> WordDifference:
    """Return what two texts share, word by word."""
    if a == b:
        return WordDifference(*(((TextPart(a, True),) if a else ()),) * 2)
    (words_a, rest_a), (words_b, rest_b) = _words(a), _words(b)
    known: dict[str, int] = {}
    first, second = ([known.setdefault(word, len(known)) for word in words] for words in (words_a, words_b))
    runs = _runs(_Search(first, second).matched())
    ends = len(words_a), len(words_b)
    # Spaces and signs alone, between words that differ, say nothing of what the texts share.
    matched = [
        place
        for run in runs
        if run[0] == (0, 0) or (run[-1][0] + 1, run[-1][1] + 1) == ends or any(_is_word(words_a[at]) for at, _ in run)
        for place in run
    ]
    shared_a, shared_b = ({places[side] for places in matched} for side in (0, 1))
    return WordDifference(tuple(_parts(words_a, shared_a, rest_a)), tuple(_parts(words_b, shared_b, rest_b)))


def _words(text: str) -> tuple[list[str], str]:
    """Return the words, spaces and signs of a text, and what is left of it."""
    words: list[str] = []
    for found in _PARTS.finditer(text):
        if len(words) == MOST_WORDS:
            return words, text[found.start() :]
        words.append(found[0])
    return words, ""


def _is_word(part: str) -> bool:
    return part[0].isalnum() or part[0] == "_"


def _runs(matched: Iterator[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Return words that go together, in runs that are unbroken in both texts."""
    runs: list[list[tuple[int, int]]] = []
    for a, b in matched:
        if runs and runs[-1][-1] == (a - 1, b - 1):
            runs[-1].append((a, b))
        else:
            runs.append([(a, b)])
    return runs


def _parts(words: Sequence[str], shared: set[int], rest: str) -> Iterator[TextPart]:
    kept, start = [place in shared for place in range(len(words))], 0
    for place in range(1, len(words) + 1):
        if place == len(words) or kept[place] != kept[start]:
            yield TextPart("".join(words[start:place]), kept[start])
            start = place
    if rest:
        yield TextPart(rest, False)


class _Search:
    """Finds which words of two lists go together; `left` is what may still be spent on it."""

    def __init__(self, a: Sequence[int], b: Sequence[int]) -> None:
        self._a, self._b, self._left = a, b, BUDGET

    def matched(self) -> Iterator[tuple[int, int]]:
        """Yield the places of words that go together, in order."""
        return self._between(0, len(self._a), 0, len(self._b), 0)

    def _between(self, a: int, end_a: int, b: int, end_b: int, depth: int) -> Iterator[tuple[int, int]]:
        while a < end_a and b < end_b and self._a[a] == self._b[b]:
            yield a, b
            a, b = a + 1, b + 1
        ends = 0
        while a < end_a - ends and b < end_b - ends and self._a[end_a - ends - 1] == self._b[end_b - ends - 1]:
            ends += 1
        inner_a, inner_b = end_a - ends, end_b - ends
        if a < inner_a and b < inner_b:
            edit = self._shortest_edit(a, inner_a, b, inner_b, FIRST_TRY)
            anchors = self._anchors(a, inner_a, b, inner_b) if edit is None and depth < _DEEPEST else []
            if anchors:
                for place_a, place_b in anchors:
                    yield from self._between(a, place_a, b, place_b, depth + 1)
                    yield place_a, place_b
                    a, b = place_a + 1, place_b + 1
                yield from self._between(a, inner_a, b, inner_b, depth + 1)
            else:
                yield from edit or self._shortest_edit(a, inner_a, b, inner_b, BUDGET) or ()
        for back in range(ends, 0, -1):
            yield end_a - back, end_b - back

    def _anchors(self, a: int, end_a: int, b: int, end_b: int) -> list[tuple[int, int]]:
        """Return the longest list of words, each there once on both sides, that come in the same order on both."""
        counts_a, counts_b = Counter(self._a[a:end_a]), Counter(self._b[b:end_b])
        places = {word: place for place, word in enumerate(self._b[b:end_b], b) if counts_b[word] == 1}
        both = [
            (place, places[word])
            for place, word in enumerate(self._a[a:end_a], a)
            if counts_a[word] == 1 and word in places
        ]
        # The longest rising sequence, by piles of cards.
        tops: list[int] = []
        piles: list[int] = []
        before: list[int] = []
        for number, (_, place) in enumerate(both):
            pile = bisect_left(tops, place)
            before.append(piles[pile - 1] if pile else -1)
            if pile == len(tops):
                tops.append(place)
                piles.append(number)
            else:
                tops[pile], piles[pile] = place, number
        found = []
        number = piles[-1] if piles else -1
        while number >= 0:
            found.append(both[number])
            number = before[number]
        return found[::-1]

    def _shortest_edit(self, a: int, end_a: int, b: int, end_b: int, most: int) -> list[tuple[int, int]] | None:
        """Return the words of a shortest edit; None where it would take more steps than may be spent."""
        first, second = self._a[a:end_a], self._b[b:end_b]
        if not set(first) & set(second):
            return []
        n, m = len(first), len(second)
        least = self._left - most
        furthest, trace = {1: 0}, []
        for edits in range(n + m + 1):
            self._left -= edits + 1
            if self._left < max(least, 0):
                return None
            trace.append(dict(furthest))
            for line in range(-edits, edits + 1, 2):
                down = line == -edits or (line != edits and furthest[line - 1] < furthest[line + 1])
                x = furthest[line + 1] if down else furthest[line - 1] + 1
                while x < n and x - line < m and first[x] == second[x - line]:
                    x += 1
                    self._left -= 1
                furthest[line] = x
                if x >= n and x - line >= m:
                    return [(a + i, b + j) for i, j in _followed(trace, n, m)]
        return None


def _followed(trace: Sequence[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    """Return the words that a shortest edit keeps, found by following it back."""
    found = []
    for edits in range(len(trace) - 1, -1, -1):
        furthest, line = trace[edits], x - y
        down = line == -edits or (line != edits and furthest[line - 1] < furthest[line + 1])
        before = line + 1 if down else line - 1
        start_x = furthest[before] if edits else 0
        start_y = start_x - before if edits else 0
        while x > start_x and y > start_y and x > 0 and y > 0:
            x, y = x - 1, y - 1
            found.append((x, y))
        if edits:
            x, y = start_x, start_y
    return found[::-1]
