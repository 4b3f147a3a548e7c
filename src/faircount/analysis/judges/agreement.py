"""`judges agree` as a library call: how far people and judges agree beyond chance, and on which items they part.

A rating that is missing, and an item that a judge left unjudged, is no disagreement: it is left out wherever it would
be compared. Files are gone through twice, once for the figures and once for the items that are shown, so that memory
follows the number of items and not their texts. Secrets in texts and reasons are masked here; hidden characters are
made visible by who shows them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis.evidence import masked
from faircount.analysis.judges.predictions import (
    AnswerTexts,
    KeptPredictions,
    Prediction,
    Predictions,
    PredictionsSource,
    prediction_line,
    read_predictions,
)
from faircount.analysis.judges.ratings import (
    DECISION_OF,
    JUDGE,
    MISSING,
    PERSON,
    Kind,
    Rater,
    Ratings,
    RatingTable,
    has_scores,
    item_key,
    label_scores,
)
from faircount.analysis.options import AgreeOptions
from faircount.core.errors import InputError
from faircount.core.model import Document, Estimate, Finding
from faircount.core.text import replace_surrogates
from faircount.core.verdict import Decision
from faircount.judges.batch import DEFAULT_CONCURRENCY, judged
from faircount.readers.label_types import DEFAULT_THRESHOLD, DataProblem, DataProblemKind, Labelled, LabelSource
from faircount.stats.agreement import Measurement, alpha_of_kinds, cohen_kappa, fleiss_kappa, gwet_ac1, pabak
from faircount.stats.proportion import wilson

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from faircount.core.verdict import Decision, Verdict
    from faircount.judges.judge import Judge
    from faircount.readers.label_types import Labelled
    from faircount.readers.labels import Labels

LABEL = "label"
"""The rater that stands for people whose single ratings are not known."""
ALL, PEOPLE, JUDGES = "people_and_judges", "people", "judges"
DECISIONS, SCORES = "decisions", "scores"
ONE_SIDED = 0.9
"""From this share of one category on, kappa says little."""
_UNIT = "item"
_COUNTS = ("pass_pass", "pass_hit", "hit_pass", "hit_hit")
_STEPS = (100, 20, 10)
_MOST_WORK = 2_000_000
"""Kinds of items times values squared: what one replicate of the bootstrap of scores may cost."""

Progress = Callable[[], None]
"""Hears of every item that was judged."""


class RaterFigures(Struct, frozen=True):
    """How a rater decided. `name` is unique among the people and among the judges; see `Rater` for the others.

    `undecided` are items of the table that it did not decide, whatever the reason; `error` is why a judge could not
    decide, the first time. `judge` is None for people.
    """

    name: str
    kind: Kind
    judge: str | None
    identity: str | None
    decided: int
    undecided: int
    hits: Estimate
    scored: int
    repeated: int
    error: str | None


class RaterPair(Struct, frozen=True):
    """Two raters, by their names and by their places among all raters, on the items that both decided.

    `counts` are the items by decision of the first and of the second: pass and pass, pass and hit, hit and pass, hit
    and hit. `prevailing` is the share of the category that the two used most; where that is nearly all, a pair is
    `one_sided`, and kappa says little.
    """

    raters: tuple[str, str]
    places: tuple[int, int]
    items: int
    counts: Mapping[str, int]
    kappa: Estimate
    observed: Estimate
    pabak: float | None
    ac1: float | None
    prevailing: float | None
    one_sided: bool


class GroupAgreement(Struct, frozen=True):
    """Several raters at once. `fleiss` is over the items that all of them decided; `step` is how far apart scores are
    at least that were distinguished, where there were too many to distinguish all."""

    who: str
    what: str
    raters: int
    measurement: str
    alpha: Estimate
    fleiss: Estimate | None = None
    step: float | None = None


class Agreement(Document, frozen=True, kw_only=True):
    """What `judges agree` found. `compared` are the items with two decisions or more, `parted` those that differ.

    `label_threshold` is from which score of people on an item is a hit; None where labels are no scores.
    `scores_apart`: people's scores and judges' are on different scales, so that they cannot be compared. `cases` are
    the first of those that differ, `parted_items` all of them; None where they were not asked for.
    """

    kind: Literal["judge-agreement"] = "judge-agreement"
    schema: Literal[2] = 2
    level: float
    seed: int
    replicates: int
    label_threshold: float | None
    scores_apart: bool
    labels: tuple[LabelSource, ...]
    predictions: tuple[PredictionsSource, ...]
    items: int
    compared: int
    parted: int
    raters: tuple[RaterFigures, ...]
    together: tuple[GroupAgreement, ...]
    pairs: tuple[RaterPair, ...]
    cases: tuple[DisputedItem, ...]
    parted_items: tuple[Disagreement, ...] | None
    doubts: tuple[DataProblem, ...]
    findings: tuple[Finding, ...]


def measure_agreement(
    labels: Labels | None,
    predictions: Predictions | None = None,
    judges: Sequence[Judge] = (),
    options: AgreeOptions | None = None,
    progress: Progress | None = None,
    *,
    workers: int | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
) -> Agreement:
    """Compare people, the judges of predictions, and judges that are asked now about the labelled items."""
    options = options or AgreeOptions()
    predictions = predictions or read_predictions(())
    asked = KeptPredictions()

    def judged_now() -> Iterator[tuple[Labelled, Sequence[Verdict]]]:
        """Yield each item with the verdicts of the judges on it."""
        if not judges:
            yield from ((labelled, ()) for labelled in labels or ())
            return
        # Judges are a few chunks ahead of what is taken down; so many items wait between the two.
        items, ahead = itertools.tee(labels or ())
        attempts = (labelled.attempt for labelled in ahead)
        verdicts = judged(judges, attempts, workers=workers, concurrency=concurrency)
        for pair in zip(items, verdicts, strict=True):
            yield pair
            if progress is not None:
                progress()

    table = _gathered(labels, predictions, asked, judges, judged_now()).table()
    if len(table.raters) < 2:
        only = f"{table.raters[0].name} is the only one who rated anything" if table.raters else "nothing was rated"
        raise InputError(f"nothing to compare: {only}; give labels and a judge, or several of either")
    parting, distances = table.parting()
    wanted = len(parting) if options.every_case else options.cases
    cases, parted_items = cases_of(
        table,
        parting[:wanted],
        distances[:wanted],
        options.cases,
        labels,
        lambda: itertools.chain(predictions, asked),
        predictions.texts,
    )
    passes, hits = table.counts(range(len(table.raters)))
    raters = tuple(_rater_figures(table, options))
    threshold = None
    if labels is not None and any(source.scores for source in labels.sources):
        threshold = labels.options.label_threshold
        threshold = DEFAULT_THRESHOLD if threshold is None else threshold
    # Every two raters: people and judges first, then people among themselves, then judges.
    kinds = [rater.kind for rater in table.raters]
    pairs = sorted(
        itertools.combinations(range(len(table.raters)), 2),
        key=lambda pair: (kinds[pair[0]] == kinds[pair[1]], kinds[pair[0]] == JUDGE),
    )
    return Agreement(
        level=options.level,
        seed=options.seed,
        replicates=options.replicates,
        label_threshold=threshold,
        scores_apart=_scores_apart(table),
        labels=() if labels is None else labels.sources,
        predictions=predictions.sources,
        items=len(table.items),
        compared=int((passes + hits >= 2).sum()),
        parted=len(parting),
        raters=raters,
        together=tuple(_together(table, options)),
        pairs=tuple(_pair(table, raters, places, options) for places in pairs),
        cases=cases,
        parted_items=parted_items if options.every_case else None,
        # Raters who differ are what this is about, and no doubt.
        doubts=() if labels is None else tuple(doubt for doubt in labels.problems if doubt.kind != DataProblemKind.TIE),
        findings=predictions.findings,
    )


# -- gathering --------------------------------------------------------------------------------------------------


def _gathered(
    labels: Labels | None,
    predictions: Iterable[Prediction],
    asked: KeptPredictions,
    judges: Sequence[Judge],
    judged_now: Iterable[tuple[Labelled, Sequence[Verdict]]],
) -> Ratings:
    """Gather what everybody said; what judges say now is also kept, for the cases."""
    ratings = Ratings()
    people: dict[str, Rater] = {}
    now = [Rater(judge.called or judge.name, JUDGE, judge.identity.digest) for judge in judges]
    for labelled, verdicts in judged_now:
        key = item_key(labelled.item)
        for name, decision in labelled.ratings or ((LABEL, labelled.label),):
            ratings.add(people.get(name) or people.setdefault(name, Rater(name, PERSON)), key, decision)
        for rater, verdict in zip(now, verdicts, strict=True):
            _add_verdict(ratings, rater, key, verdict)
            asked.add(prediction_line(rater.name, rater.identity, labelled, verdict))
    if labels is not None and has_scores(labels):
        for item, scores in label_scores(labels):
            for name, score in scores:
                ratings.add_score(people.setdefault(name, Rater(name, PERSON)), item_key(item), score)
    known: dict[tuple[str, str], Rater] = {}
    label = Rater(LABEL, PERSON)
    for prediction in predictions:
        who = (prediction.judge, prediction.identity)
        rater = known.get(who) or known.setdefault(who, Rater(prediction.judge, JUDGE, prediction.identity))
        key = item_key(prediction.item)
        _add_verdict(ratings, rater, key, prediction)
        if labels is None and prediction.label is not None:
            ratings.echo(label, key, prediction.label)
    return ratings


def _add_verdict(ratings: Ratings, rater: Rater, key: int, verdict: Verdict | Prediction) -> None:
    ratings.add(rater, key, verdict.decision, verdict.score)
    if verdict.decision is None and verdict.error:
        ratings.add_error(rater, verdict.error)


# -- one rater, two raters --------------------------------------------------------------------------------------


def _rater_figures(table: RatingTable, options: AgreeOptions) -> Iterator[RaterFigures]:
    for index, rater in enumerate(table.raters):
        decisions = table.decisions[index]
        decided = int((decisions != MISSING).sum())
        scores = table.scores.get(index)
        # A judge that is there in several versions also has the beginning of its digest.
        versions = sum(other.kind == rater.kind and other.name == rater.name for other in table.raters)
        name = f"{rater.name} #{rater.identity[:8] or 'unknown'}" if versions > 1 else rater.name
        yield RaterFigures(
            replace_surrogates(name),
            rater.kind,
            replace_surrogates(rater.name) if rater.kind == JUDGE else None,
            rater.identity or None,
            decided,
            len(table.items) - decided,
            wilson(int((decisions == 1).sum()), decided, unit=_UNIT, level=options.level),
            0 if scores is None else int((scores == scores).sum()),
            table.repeated.get(rater, 0),
            excerpt(table.errors.get(rater, ""), LONGEST_REASON).text or None,
        )


def _pair(
    table: RatingTable, raters: Sequence[RaterFigures], places: tuple[int, int], options: AgreeOptions
) -> RaterPair:
    counts = table.pair(*places)
    n = int(counts.sum())
    hits = int(counts.sum(axis=0)[1] + counts.sum(axis=1)[1])
    prevailing = max(hits, 2 * n - hits) / (2 * n) if n else None
    return RaterPair(
        (raters[places[0]].name, raters[places[1]].name),
        places,
        n,
        {name: int(count) for name, count in zip(_COUNTS, counts.ravel(), strict=True)},
        cohen_kappa(counts, unit=_UNIT, level=options.level),
        wilson(int(counts.trace()), n, unit=_UNIT, level=options.level),
        pabak(counts),
        gwet_ac1(counts),
        prevailing,
        prevailing is not None and prevailing > ONE_SIDED,
    )


# -- all of them ------------------------------------------------------------------------------------------------


def _together(table: RatingTable, options: AgreeOptions) -> Iterator[GroupAgreement]:
    import numpy as np

    people, judges = table.of_kind(PERSON), table.of_kind(JUDGE)
    mixed = [*people, *judges] if people and judges else []
    for who, raters in ((ALL, mixed), (PEOPLE, people), (JUDGES, judges)):
        if len(raters) >= 2:
            passes, hits = table.counts(raters)
            per_kind = np.bincount(passes.astype(np.int64) * (len(raters) + 1) + hits)
            codes = np.flatnonzero(per_kind)
            kinds_of_items = np.stack([codes // (len(raters) + 1), codes % (len(raters) + 1)], axis=1)
            alpha = _alpha(kinds_of_items, per_kind[codes], [0, 1], "nominal", options)
            complete = passes + hits == len(raters)
            decided_by_all = np.stack([passes[complete], hits[complete]], axis=1)
            how = {"replicates": options.replicates, "seed": options.seed}
            fleiss = fleiss_kappa(decided_by_all, **how, unit=_UNIT, level=options.level)
            yield GroupAgreement(who, DECISIONS, len(raters), "nominal", alpha, fleiss)
        scorers = [rater for rater in raters if rater in table.scores]
        kinds = {table.raters[rater].kind for rater in scorers}
        if len(scorers) >= 2 and (who != ALL or (len(kinds) == 2 and not _scores_apart(table))):
            yield from _on_scores(table, who, scorers, options)


def _on_scores(table: RatingTable, who: str, raters: Sequence[int], options: AgreeOptions) -> Iterator[GroupAgreement]:
    import numpy as np

    scores = np.stack([table.scores[rater] for rater in raters], axis=1)
    values = np.unique(scores[~np.isnan(scores)])
    if len(values) <= 2:
        # Scores without degrees are the decisions once more.
        return
    kinds, times, values, step = _score_kinds(scores, values)
    measurements: tuple[Measurement, ...] = ("ordinal", "interval")
    for measurement in measurements:
        alpha = _alpha(kinds, times, values, measurement, options)
        yield GroupAgreement(who, SCORES, len(raters), measurement, alpha, step=step)


def _alpha(kinds: Any, times: Any, values: Any, measurement: Measurement, options: AgreeOptions) -> Estimate:
    return alpha_of_kinds(
        kinds,
        times,
        values,
        measurement,
        replicates=options.replicates,
        seed=options.seed,
        unit=_UNIT,
        level=options.level,
    )


def _score_kinds(
    scores: npt.NDArray[np.float64], values: npt.NDArray[np.float64]
) -> tuple[Any, Any, Any, float | None]:
    """Return kinds of items by value, how many there are of each, the values, and their step where some were rounded.

    Scores of many digits make nearly every item a kind of its own. Then they are taken in so many steps of their
    range as can be dealt with.
    """
    import numpy as np

    lowest, highest = float(values[0]), float(values[-1])
    if len(values) <= _STEPS[0] + 1:
        kinds, times = _kinds(np.where(np.isnan(scores), len(values), np.searchsorted(values, scores)), len(values))
        if len(kinds) * len(values) ** 2 <= _MOST_WORK:
            return kinds, times, values, None
    for steps in _STEPS:
        step = (highest - lowest) / steps
        kinds, times = _kinds(np.where(np.isnan(scores), steps + 1, np.round((scores - lowest) / step)), steps + 1)
        if len(kinds) * (steps + 1) ** 2 <= _MOST_WORK:
            break
    return kinds, times, lowest + step * np.arange(steps + 1), step


def _kinds(places: npt.NDArray[Any], values: int) -> tuple[Any, Any]:
    """Count items of the same kind: places of raters' values, in whatever order; the place after the last is none."""
    import numpy as np

    rows = np.sort(places.astype(np.int16), axis=1)
    found, times = np.unique(rows, axis=0, return_counts=True)
    kinds = np.zeros((len(found), values + 1), np.int16)
    for column in found.T:
        kinds[np.arange(len(found)), column] += 1
    return kinds[:, :values], times


def _scores_apart(table: RatingTable) -> bool:
    """Return whether people score on another scale than judges, whose scores are between 0 and 1."""
    people = [table.scores[rater] for rater in table.of_kind(PERSON) if rater in table.scores]
    judges = [rater for rater in table.of_kind(JUDGE) if rater in table.scores]
    return bool(people and judges) and any(bool(((scores < 0) | (scores > 1)).any()) for scores in people)


# -- the items on which raters part ---------------------------------------------------------------------------


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


class DisputedItem(Struct, frozen=True):
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


class _WantedItem(Struct):
    """What the files record of an item that is wanted; texts and reasons only if it is shown."""

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
) -> tuple[tuple[DisputedItem, ...], tuple[Disagreement, ...]]:
    """Return the first `shown` items as cases, and all of them in short, in the order given."""
    keys = [int(key) for key in table.items[parting]]
    items = {key: _WantedItem() for key in keys}
    for key in keys[:shown]:
        items[key].reasons = {}
    for labelled in labels or () if items else ():
        wanted = items.get(item_key(labelled.item))
        if wanted is not None:
            wanted.item, wanted.place = labelled.item, labelled.place
            if wanted.reasons is not None:
                wanted.prompt = excerpt(labelled.attempt.prompt) if labelled.attempt.prompt else None
                wanted.response = _excerpt_or_none(labelled.attempt.response)
    for prediction in predictions() if items else ():
        wanted = items.get(item_key(prediction.item))
        if wanted is not None:
            if not wanted.item:
                wanted.item, wanted.place = str(prediction.item), prediction.place
            if wanted.reasons is not None:
                # Of two lines of a judge the last counts.
                wanted.reasons[prediction.judge, prediction.identity] = prediction
    shown_items = {one.item: one for one in items.values() if one.reasons is not None}
    for item, found in (texts(shown_items) if items else {}).items():
        one = shown_items[item]
        one.prompt, one.response = _excerpt_or_none(found.prompt), _excerpt_or_none(found.response)
        one.reasons = {
            who: replace(before, reason=found.reasons.get(before.judge, before.reason))
            for who, before in (one.reasons or {}).items()
        }
    cases = []
    for key, row, distance in zip(keys[:shown], parting, distances, strict=False):
        one = items[key]
        opinions = tuple(_opinion(table, rater, int(row), one.reasons or {}) for rater in range(len(table.raters)))
        item, place = replace_surrogates(one.item), replace_surrogates(one.place) or None
        cases.append(DisputedItem(item, place, float(distance), opinions, one.prompt, one.response))
    # Among many items there are few patterns of decisions: each is made once.
    patterns: dict[bytes, tuple[Decision | None, ...]] = {}
    parted = []
    for key, row in zip(keys, parting, strict=True):
        numbers = table.decisions[:, int(row)]
        pattern = numbers.tobytes()
        if pattern not in patterns:
            patterns[pattern] = tuple(DECISION_OF[int(number)] for number in numbers)
        parted.append(Disagreement(replace_surrogates(items[key].item), patterns[pattern]))
    return tuple(cases), tuple(parted)


def _opinion(table: RatingTable, rater: int, row: int, reasons: dict[tuple[str, str], Prediction]) -> Opinion:
    decision = DECISION_OF[int(table.decisions[rater, row])]
    scores = table.scores.get(rater)
    # NaN, which stands for no score, differs from itself.
    score = None if scores is None or scores[row] != scores[row] else float(scores[row])
    who = table.raters[rater]
    prediction = reasons.get((who.name, who.identity)) if who.kind == JUDGE else None
    if prediction is None:
        return Opinion(rater, decision, score)
    return Opinion(
        rater,
        decision,
        score,
        _short(prediction.reason),
        None if prediction.error is None else _short(prediction.error),
    )


def _short(text: str) -> str:
    beginning = excerpt(text, LONGEST_REASON)
    return f"{beginning.text}…" if beginning.cut else beginning.text


def _excerpt_or_none(text: str | None) -> Excerpt | None:
    return None if text is None else excerpt(text)


def excerpt(text: str, longest: int = LONGEST_EXCERPT) -> Excerpt:
    """Return the beginning of a text without its secrets."""
    # Masking looks a little further than is shown, so that no half of a secret stands at the end.
    shown = replace_surrogates(masked(text[: longest + _LOOKED_AT]))
    cut = len(shown) > longest or len(text) > longest + _LOOKED_AT
    return Excerpt(shown[:longest], len(text), cut)
