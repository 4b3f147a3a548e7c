"""What entries that flipped have in common: a value of a field, the payload that they are variants of, or their words.

Of the pairs that could flip one way (for "only B succeeded", those where A did not), some did. A group of them is a
cause if it flipped more often than all others. The groups are chosen one after another, the least likely first, each
among the pairs that no group before it holds. A group must pass Fisher's exact test and, where pairs come in families,
the interval over families as well. Every p is multiplied by the number of groups looked at, both ways together
(Bonferroni): to choose among them costs nothing more, since what chance alone does is bounded for all at once.

Groups never depend on who flipped: fields and families are those of the files, and prompts that are alike are found
among all pairs that could flip, or among a random sample of those that did and of those that did not.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.compare import figures
from faircount.analysis.compare.model import FlipGroup
from faircount.analysis.compare.pairing import Side, prompts_of
from faircount.analysis.evidence import masked
from faircount.analysis.options import CompareOptions
from faircount.stats import Design, bonferroni_level, difference_of_rates, fisher_exact, shown_sign

MOST_GROUPS = 8
FEWEST = 2
"""So many flips have something in common; one is always like itself."""
TEXTS_READ, TEXTS_SAMPLED = 600, 150
"""Of so many pairs prompts are read back; of more, those of so many random ones that flipped, and as many others."""
ALIKE = 0.4
"""Prompts with a larger cosine of their n-grams are alike."""
_TRIED = 50
_NGRAM, _BUCKETS = 4, 2048
_LOOKED_AT = 2000
_WORDS_NAMED = 4
_SHARED_BY, _RARE_ELSEWHERE = 0.8, 0.3
_LONGEST_WORD = 30
_WORD = re.compile(r"\w{3,}")
_COULD_FLIP = {figures.ONLY_A: (figures.ONLY_A, figures.BOTH), figures.ONLY_B: (figures.ONLY_B, 0)}


class FoundGroups(Struct, frozen=True):
    """Groups of the entries that flipped one way, with the places of their flips among the pairs."""

    groups: tuple[FlipGroup, ...] = ()
    members: tuple[Any, ...] = ()
    looked_at: int = 0
    """How many groups the adjustment answers for."""


class _Partition(Struct, frozen=True):
    """Pairs by what they have in common, as numbers; -1 is none. `sample` are those that were looked at, else all."""

    kind: Literal["field", "family", "text"]
    codes: Any
    name: Callable[[int], str | None] = lambda _: None
    field: str | None = None
    sample: Any = None


def found_groups(
    a: Side,
    b: Side,
    rows: tuple[Any, Any],
    cells: Any,
    families: Any,
    fields: Sequence[str],
    options: CompareOptions,
    *,
    texts: bool = True,
) -> dict[int, FoundGroups]:
    """Return what the pairs that flipped either way have in common, by their cell; `families` as in `figures`."""
    import numpy as np

    shared = list(_partitions(a, b, rows, families, fields))
    asked = {}
    for cell, could in _COULD_FLIP.items():
        at_risk, flipped = np.isin(cells, could), cells == cell
        # Where hardly any flipped, or all did, there is nothing to tell apart.
        if flipped.sum() < FEWEST or flipped.sum() == at_risk.sum():
            continue
        alike = [_alike_texts(a, rows[0], at_risk, flipped, options.max_line)] if texts else []
        asked[cell] = at_risk, flipped, [*shared, *(one for one in alike if one is not None)]
    looked_at = sum(_looked_at(part, at_risk) for at_risk, _, parts in asked.values() for part in parts)
    found = dict.fromkeys(_COULD_FLIP, FoundGroups())
    for cell, (at_risk, flipped, parts) in asked.items():
        made = list(_chosen(at_risk, flipped, parts, families, looked_at, options))
        names = [a.names(rows[0][members]) for _, members in made]
        groups = tuple(replace(group, ids=ids) for (group, _), ids in zip(made, names, strict=True))
        found[cell] = FoundGroups(groups, tuple(members for _, members in made), looked_at)
    return found


def _partitions(a: Side, b: Side, rows: tuple[Any, Any], families: Any, fields: Sequence[str]) -> Iterator[_Partition]:
    """Yield pairs by the values that both files tell of them, and by their families."""
    import numpy as np

    for field in fields:
        values, alike, texts = figures.values_of_pairs(field, a, b, rows)
        if not 1 < len(np.unique(values[alike])) <= figures.MOST_VALUES:
            continue
        yield _Partition("field", np.where(alike, values, -1), texts.get, field)
    if families is not None:
        yield _Partition("family", families)


def _looked_at(part: _Partition, at_risk: Any) -> int:
    """Return how many groups of a partition could be found: those with two pairs, and with others beside them."""
    import numpy as np

    among = at_risk if part.sample is None else at_risk & part.sample
    sizes = np.bincount(part.codes[among & (part.codes >= 0)])
    return int(((sizes >= FEWEST) & (sizes < among.sum())).sum())


# -- choosing ---------------------------------------------------------------------------------------------------


class _Candidate(Struct, frozen=True):
    part: _Partition
    code: int
    flipped: int
    pairs: int
    flipped_elsewhere: int
    pairs_elsewhere: int

    @property
    def score(self) -> float:
        """How far the flips lie above those that are expected, in deviations: what to look at first."""
        total, flips = self.pairs + self.pairs_elsewhere, self.flipped + self.flipped_elsewhere
        expected = self.pairs * flips / total
        variance = expected * (total - self.pairs) / total * (total - flips) / max(total - 1, 1)
        return (self.flipped - expected) / math.sqrt(variance) if variance else 0.0

    @property
    def p(self) -> float:
        return fisher_exact(self.flipped, self.pairs, self.flipped_elsewhere, self.pairs_elsewhere)


def _chosen(
    at_risk: Any, flipped: Any, parts: Sequence[_Partition], families: Any, looked_at: int, options: CompareOptions
) -> Iterator[tuple[FlipGroup, Any]]:
    """Yield the causes, the least likely first, each with the places of its flips; then the nearest to be one."""
    import numpy as np

    left = at_risk.copy()
    for _ in range(MOST_GROUPS):
        found = _least_likely(left, flipped, parts, families, looked_at, options)
        if found is None:
            return
        group, inside = found
        yield group, np.flatnonzero(inside & flipped)
        if not group.stands_out:
            return
        left &= ~inside


def _least_likely(
    left: Any, flipped: Any, parts: Sequence[_Partition], families: Any, looked_at: int, options: CompareOptions
) -> tuple[FlipGroup, Any] | None:
    """Return the least likely group that stands out, or else the least likely of all, with its pairs."""
    candidates = [one for part in parts for one in _candidates(part, left, flipped)]
    likeliest = sorted(candidates, key=lambda one: -one.score)[:_TRIED]
    # Of groups with the same pairs, the first names them best: a field does before a payload, and that before words.
    tested = sorted(((one.p, one) for one in likeliest if one.score > 0), key=lambda pair: pair[0])
    nearest = None
    for p, one in tested:
        if p * looked_at >= (1 if nearest is None else options.alpha):
            break
        inside = left & (one.part.codes == one.code)
        others = (left if one.part.sample is None else left & one.part.sample) & ~inside
        counted = [figures.of_families(families, flipped & mask, mask) for mask in (inside, others)]
        may_stand_out = p * looked_at < options.alpha and _holds_over_families(counted, families, looked_at, options)
        if may_stand_out or nearest is None:
            group = _group(one, p, counted, families, looked_at, options)
            if group.stands_out:
                return group, inside
            nearest = nearest or (group, inside)
    return nearest if nearest is not None and nearest[0].adjusted_p < 1 else None


def _holds_over_families(counted: Sequence[Any], families: Any, looked_at: int, options: CompareOptions) -> bool:
    """Return whether the interval over families leaves out 0, at the level that answers for all groups."""
    if families is None:
        return True
    design = Design(families=True, level=bonferroni_level(options.level, looked_at))
    first, second = (design.rate(*counts).estimate for counts in counted)
    least = difference_of_rates(first, second).low
    return least is not None and least > 0


def _candidates(part: _Partition, left: Any, flipped: Any) -> Iterator[_Candidate]:
    import numpy as np

    among = left if part.sample is None else left & part.sample
    known = among & (part.codes >= 0)
    sizes = np.bincount(part.codes[known])
    flips = np.bincount(part.codes[known & flipped], minlength=len(sizes))
    total, all_flips = int(among.sum()), int((among & flipped).sum())
    for code in np.flatnonzero((flips >= FEWEST) & (sizes < total)).tolist():
        inside, pairs = int(flips[code]), int(sizes[code])
        yield _Candidate(part, code, inside, pairs, all_flips - inside, total - pairs)


def _group(
    one: _Candidate, p: float, counted: Sequence[Any], families: Any, looked_at: int, options: CompareOptions
) -> FlipGroup:
    found = Design(families=families is not None, level=options.level).unpaired(*counted, unit=figures.PAIR)
    p = max(p, found.p or 0.0)
    adjusted = min(1.0, p * looked_at)
    return FlipGroup(
        kind=one.part.kind,
        field=one.part.field,
        value=one.part.name(one.code),
        flipped=one.flipped,
        pairs=one.pairs,
        flipped_elsewhere=one.flipped_elsewhere,
        pairs_elsewhere=one.pairs_elsewhere,
        difference=found.estimate,
        p=p,
        adjusted_p=adjusted,
        stands_out=shown_sign(found.estimate, adjusted, options.alpha) > 0,
        sampled=one.part.sample is not None,
    )


# -- prompts that are alike -------------------------------------------------------------------------------------


def _alike_texts(a: Side, rows: Any, at_risk: Any, flipped: Any, max_line: int) -> _Partition | None:
    """Return pairs by prompts that are alike; None where no prompt can be read back."""
    import numpy as np

    looked_at = np.flatnonzero(at_risk)
    if len(looked_at) > TEXTS_READ:
        chance = Random(0)
        kinds = [np.flatnonzero(kind).tolist() for kind in (at_risk & flipped, at_risk & ~flipped)]
        drawn = [chance.sample(places, min(TEXTS_SAMPLED, len(places))) for places in kinds]
        looked_at = np.array(sorted(drawn[0] + drawn[1]))
    prompts = prompts_of(a, rows[looked_at].tolist(), max_line)
    known = [(place, prompt) for place in looked_at.tolist() if (prompt := prompts.get(int(rows[place])))]
    if len(known) <= FEWEST:
        return None
    texts = [_looked_into(prompt) for _, prompt in known]
    groups = alike(texts)
    codes, sample = np.full(len(at_risk), -1), np.zeros(len(at_risk), bool)
    at = np.array([place for place, _ in known])
    codes[at], sample[at] = groups, True
    some = None if len(known) == at_risk.sum() else sample
    return _Partition("text", codes, lambda code: _words_of(texts, groups == code), sample=some)


def _looked_into(text: str) -> str:
    """Return what is compared of a text: its beginning and its end, in one case and with single spaces."""
    part = text if len(text) <= 2 * _LOOKED_AT else f"{text[:_LOOKED_AT]} {text[-_LOOKED_AT:]}"
    return " ".join(part.casefold().split())


def alike(texts: Sequence[str]) -> Any:
    """Return for each text the number of those that are alike, -1 where no other is like it.

    Texts are alike whose sets of four letters in a row have a cosine of at least `ALIKE`, weighted by how rare they are
    (Salton and Buckley 1988); what more than half of the texts have says nothing. The text with the most neighbours
    takes them first.
    """
    import numpy as np

    grams = np.zeros((len(texts), _BUCKETS), np.float32)
    for row, text in enumerate(texts):
        letters = np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32).astype(np.uint64)
        rolled = np.zeros(max(len(letters) - _NGRAM + 1, 0), np.uint64)
        for shift in range(_NGRAM if len(rolled) else 0):
            rolled = rolled * np.uint64(0x9E3779B97F4A7C15) + letters[shift : shift + len(rolled)]
        grams[row, (rolled >> np.uint64(20)) % np.uint64(_BUCKETS)] = 1
    having = grams.sum(axis=0)
    grams *= np.where((having > 0) & (having <= len(texts) / 2), np.log(len(texts) / np.maximum(having, 1)), 0)
    grams /= np.maximum(np.linalg.norm(grams, axis=1, keepdims=True), 1e-9)
    near = grams @ grams.T >= ALIKE
    np.fill_diagonal(near, False)
    found = np.full(len(texts), -1)
    for number in range(len(texts)):
        counts = near.sum(axis=1)
        first = int(counts.argmax())
        if not counts[first]:
            break
        members = np.flatnonzero(near[first])
        found[members] = found[first] = number
        near[[first, *members]] = near[:, [first, *members]] = False
    return found


def _words_of(texts: Sequence[str], members: Any) -> str | None:
    """Return the words that texts share and others hardly have, in the order in which they appear."""
    words = [dict.fromkeys(w for w in _WORD.findall(masked(text)) if len(w) <= _LONGEST_WORD) for text in texts]
    inside = Counter(word for own, member in zip(words, members, strict=True) if member for word in own)
    elsewhere = Counter(word for own, member in zip(words, members, strict=True) if not member for word in own)
    most, others = int(members.sum()), max(int((~members).sum()), 1)
    shared = [
        word
        for word, count in inside.items()
        if count >= _SHARED_BY * most and elsewhere[word] <= _RARE_ELSEWHERE * others
    ]
    rarest = sorted(shared, key=lambda word: (elsewhere[word], -inside[word]))[:_WORDS_NAMED]
    return " … ".join(word for word in shared if word in rarest) or None
