"""The items on which raters part, looked up once more in the files: what each one said and why, and the texts.

Texts and reasons are records: secrets in them are masked here, hidden characters are made visible by who shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.judges.predictions import AnswerTexts, Prediction
from faircount.analysis.judges.ratings import DECISIONS, JUDGE, RatingTable, item_key
from faircount.analysis.recorded import masked
from faircount.core.text import replace_surrogates
from faircount.core.verdict import Decision

if TYPE_CHECKING:
    from faircount.readers.label_types import Labelled

LONGEST_EXCERPT = 400
LONGEST_REASON = 240
_LOOKED_AT = 4096


class Excerpt(Struct, frozen=True):
    """The beginning of a text with its secrets masked, and how many characters the whole has."""

    text: str
    characters: int
    cut: bool = False


class Opinion(Struct, frozen=True):
    """What one rater, by its number, said of an item; a judge that could not decide says why in `error`."""

    rater: int
    decision: Decision | None
    score: float | None = None
    reason: str = ""
    error: str | None = None


class Case(Struct, frozen=True):
    """An item on which raters differ. `distance` is how far people and judges are apart: 1 is opposite.

    The texts are None where only predictions were given.
    """

    item: str
    place: str | None
    distance: float
    opinions: tuple[Opinion, ...]
    prompt: Excerpt | None
    response: Excerpt | None


class Disagreement(Struct, frozen=True):
    """An item on which raters differ, in short: the decisions of all in their order, None where missing."""

    item: str
    decisions: tuple[Decision | None, ...]


class _Told(Struct):
    """What the files tell of an item that is wanted; texts and reasons only if it is shown."""

    item: str = ""
    place: str = ""
    prompt: Excerpt | None = None
    response: Excerpt | None = None
    reasons: dict[tuple[str, str], Prediction] | None = None


def cases_of(
    table: RatingTable,
    parting: Any,
    distances: Any,
    shown: int,
    labels: Iterable[Labelled] | None,
    predictions: Callable[[], Iterable[Prediction]],
    texts: Callable[[Collection[str]], Mapping[str, AnswerTexts]] = lambda _: {},
) -> tuple[tuple[Case, ...], tuple[Disagreement, ...]]:
    """Return the first `shown` items as cases, and all of them in short, in the order given."""
    keys = [int(key) for key in table.items[parting]]
    told = {key: _Told() for key in keys}
    for key in keys[:shown]:
        told[key].reasons = {}
    if told:
        _from_labels(labels or (), told)
        _from_predictions(predictions(), told)
        shown_items = {one.item: one for one in told.values() if one.reasons is not None}
        for item, found in texts(shown_items).items():
            _add_texts(shown_items[item], found)
    # Among many items there are few patterns of decisions: each is made once.
    patterns: dict[bytes, tuple[Decision | None, ...]] = {}
    cases = tuple(
        _case(table, int(row), float(distance), told[key])
        for key, row, distance in zip(keys[:shown], parting, distances, strict=False)
    )
    return cases, tuple(
        Disagreement(replace_surrogates(told[key].item), _decisions(table, int(row), patterns))
        for key, row in zip(keys, parting, strict=True)
    )


def _from_labels(labels: Iterable[Labelled], told: dict[int, _Told]) -> None:
    for labelled in labels:
        wanted = told.get(item_key(labelled.item))
        if wanted is None:
            continue
        wanted.item, wanted.place = labelled.item, labelled.place
        if wanted.reasons is not None:
            prompt, response = labelled.attempt.prompt, labelled.attempt.response
            wanted.prompt = excerpt(prompt) if prompt else None
            wanted.response = None if response is None else excerpt(response)


def _from_predictions(predictions: Iterable[Prediction], told: dict[int, _Told]) -> None:
    for prediction in predictions:
        wanted = told.get(item_key(prediction.item))
        if wanted is None:
            continue
        if not wanted.item:
            wanted.item, wanted.place = str(prediction.item), prediction.place
        if wanted.reasons is not None:
            # Of two lines of a judge the last counts.
            wanted.reasons[prediction.judge, prediction.identity] = prediction


def _add_texts(told: _Told, found: AnswerTexts) -> None:
    """Add what a result file says of an item: its texts, and the reasons of its judges."""
    told.prompt = None if found.prompt is None else excerpt(found.prompt)
    told.response = None if found.response is None else excerpt(found.response)
    told.reasons = {
        who: replace(said, reason=found.reasons.get(said.judge, said.reason))
        for who, said in (told.reasons or {}).items()
    }


def _decisions(
    table: RatingTable, row: int, patterns: dict[bytes, tuple[Decision | None, ...]]
) -> tuple[Decision | None, ...]:
    numbers = table.decisions[:, row]
    pattern = numbers.tobytes()
    if pattern not in patterns:
        patterns[pattern] = tuple(DECISIONS[int(number)] for number in numbers)
    return patterns[pattern]


def _case(table: RatingTable, row: int, distance: float, told: _Told) -> Case:
    opinions = tuple(_opinion(table, rater, row, told.reasons or {}) for rater in range(len(table.raters)))
    return Case(
        replace_surrogates(told.item),
        replace_surrogates(told.place) or None,
        distance,
        opinions,
        told.prompt,
        told.response,
    )


def _opinion(table: RatingTable, rater: int, row: int, reasons: dict[tuple[str, str], Prediction]) -> Opinion:
    decision = DECISIONS[int(table.decisions[rater, row])]
    scores = table.scores.get(rater)
    # NaN, which stands for no score, differs from itself.
    score = None if scores is None or scores[row] != scores[row] else float(scores[row])
    who = table.raters[rater]
    said = reasons.get((who.name, who.identity)) if who.kind == JUDGE else None
    if said is None:
        return Opinion(rater, decision, score)
    return Opinion(rater, decision, score, _short(said.reason), None if said.error is None else _short(said.error))


def excerpt(text: str, longest: int = LONGEST_EXCERPT) -> Excerpt:
    """Return the beginning of a text without its secrets."""
    # Masking looks a little further than is shown, so that no half of a secret stands at the end.
    shown = replace_surrogates(masked(text[: longest + _LOOKED_AT]))
    cut = len(shown) > longest or len(text) > longest + _LOOKED_AT
    return Excerpt(shown[:longest], len(text), cut)


def _short(text: str) -> str:
    beginning = excerpt(text, LONGEST_REASON)
    return f"{beginning.text}…" if beginning.cut else beginning.text
