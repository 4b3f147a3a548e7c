"""`results compare` as a library call: two or more result files in, a comparison on the entries they share out.

Entries that succeeded on one side only are read back from the files. Their texts are believed only if a line still
reads as the row that was counted; secrets are masked and long texts cut."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from faircount.analysis import problems
from faircount.analysis.analyze import Folded, fold_files
from faircount.analysis.compare import figures, pairing
from faircount.analysis.compare.flips import FoundGroups, found_groups
from faircount.analysis.compare.model import (
    ComparedGroup,
    Comparison,
    CorrectedPair,
    Figures,
    File,
    Flip,
    Flips,
    Overall,
    Pair,
    Unpaired,
)
from faircount.analysis.compare.pairing import Side
from faircount.analysis.evidence import CHANGED, example_of, lines_again, repeated_from, with_parts_that_matter
from faircount.analysis.grouping import find_families, raw_names, sequence_of
from faircount.analysis.options import CompareOptions
from faircount.analysis.words import WORDS
from faircount.core.errors import InputError, UsageError
from faircount.core.findings import EXAMPLES_KEPT, counted, finding
from faircount.core.model import Example, Finding, Passage
from faircount.core.text import clip, visible
from faircount.io.files import place_key
from faircount.io.streams import STDIN
from faircount.ledger import engine
from faircount.ledger.lookup import deciding_rows, lacks_objectives
from faircount.readers import inputs
from faircount.readers.inputs import Input
from faircount.readers.loading import Loader, Progress, refuse_evidence_alone, with_cache
from faircount.report.source_labels import labelled
from faircount.stats import Design, cochran_q, holm, shown_sign

if TYPE_CHECKING:
    from faircount.analysis.compare.corrected import CorrectedSide
    from faircount.analysis.correct.inputs import Quality

MOST_WITH_EACH_OTHER = 3
"""More files than this are compared with the baseline alone."""
FEW_PAIRED = 0.5
"""Where a smaller share of the answered entries of a file is in pairs, the comparison says so."""
_SHOWN_APART = frozenset(["F014", "F015", "F028"])
"""Findings about entries without an answer: here these are in no rate, and shown with what could not be paired."""

_LIMITS = {
    "attack": (
        "A difference shows that the files differ, not why: target, model, settings and judge may all have changed.",
        "The numbers hold for these entries and are only as good as the judge; a changed judge is a difference too.",
    ),
    "task": (
        "A difference shows that the files differ, not why: target, model, settings and metrics may all have changed.",
        "The numbers hold for these tests and are only as good as the metrics; a changed metric is a difference too.",
    ),
}
_NO_CLAIM = "Where no difference can be claimed, there may still be one."
_BOTH_AGREE = (
    "A difference is claimed only where the interval leaves out 0 and the test, adjusted for the number of pairs of "
    "files, agrees. Groups are adjusted together, over all fields (Benjamini-Hochberg)."
)
_CORRECTED_TOO = (
    "The difference corrected for the judge must exclude 0 too. Groups, flips and tests use the judge's verdicts "
    "as they are."
)
_EXACT_TEST = (
    "Cochran's test of all files takes entries as independent; intervals, tests of pairs and claims respect families."
)


def compare_files(
    files: Sequence[str],
    options: CompareOptions | None = None,
    progress: Progress = lambda _: None,
    *,
    labels: Sequence[str] = (),
) -> Comparison:
    """Compare result files, two or three pair by pair, more of them with the baseline, else the first.

    `labels` are what the files are called, unless they are to be made from their names.
    """
    options = options or CompareOptions()
    paths = _paths(files, options)
    quality = None
    if options.judge_quality is not None:
        # Only a correction needs judges and labels: most comparisons do without.
        from faircount.analysis.correct.inputs import read_quality

        quality = read_quality(options.judge_quality, paths, options.max_line)

    def compare(loader: Loader) -> Comparison:
        with engine.interruptible(), loader, contextlib.ExitStack() as stack:
            return compare_sides([_side(path, options, loader, stack) for path in paths], options, quality, labels)

    return with_cache(
        lambda cache: Loader(paths, options.analyzed.reading, progress, cache, alone=options.judge is None),
        compare,
        cache=options.cache,
    )


def _paths(files: Sequence[str], options: CompareOptions) -> list[str]:
    """Return the files to compare, the baseline first; each only once."""
    paths, baseline = inputs.expand(files, options.read_as), options.baseline
    if baseline is not None:
        found = inputs.expand([baseline], options.read_as)
        if len(found) > 1:
            raise UsageError(f"--baseline {baseline}: matches {len(found)} files; name one")
        paths = [*found, *(path for path in paths if _place(path) != _place(found[0]))]
    if len(paths) < 2:
        given = "no result file is given" if not paths else f"{clip(visible(paths[0]), 200)} is the only file given"
        raise UsageError(f"a comparison needs at least two result files, and {given}")
    seen: set[str] = set()
    for path in paths:
        if _place(path) in seen:
            raise UsageError(f"{path}: given twice; name each file once")
        seen.add(_place(path))
    return paths


def _place(path: str) -> str:
    return path if path == STDIN else place_key(path)


def compare_sides(
    sides: Sequence[Side], options: CompareOptions, quality: Quality | None = None, labels: Sequence[str] = ()
) -> Comparison:
    """Compare files that are open, see `compare_files`."""
    return compare_open(sides, options, quality, labels).comparison


def compare_open(
    sides: Sequence[Side], options: CompareOptions, quality: Quality | None = None, labels: Sequence[str] = ()
) -> ComparedSides:
    """Compare files that are open, and return their entries with the comparison."""
    named = labels or [source.label for source in labelled([side.folded.sources[0] for side in sides])]
    for side, label in zip(sides, named, strict=True):
        side.label = label
    by_aim = {side.folded.aim: clip(visible(side.path), 200) for side in sides}
    if len(by_aim) > 1:
        raise UsageError(
            f"{by_aim['task']} is a test run, which should pass, and {by_aim['attack']} an attack run, which should "
            "not succeed: they cannot be compared"
        )
    for side in sides:
        if not len(side):
            raise InputError(f"{side.path}: no entries to compare")
    known: list[CorrectedSide] = []
    if quality is not None:
        if sides[0].folded.aim == "task":
            raise UsageError("--judge-quality corrects the success rate of attacks, and these are test runs")
        from faircount.analysis.compare.corrected import corrected_side

        known = [corrected_side(side, quality, options) for side in sides]
    return _compared(sides, options, known)


def _side(path: str, options: CompareOptions, loader: Loader, stack: contextlib.ExitStack) -> Side:
    folded: Folded = stack.enter_context(fold_files([Input(path)], options.analyzed, loader))
    if lacks_objectives(folded.ledger):
        again = stack.enter_context(Loader([path], loader.options, alone=options.judge is None))
        folded = stack.enter_context(fold_files([Input(path)], options.analyzed, again))
    refuse_evidence_alone(folded.sources)
    return Side(folded)


# -- pairs of files ---------------------------------------------------------------------------------------------


_Groups = dict[str, tuple[ComparedGroup, ...]]


class JoinedFiles(Struct, frozen=True):
    """Two files with the entries that they share, before the number of pairs of files is answered for."""

    a: int
    b: int
    matching: pairing.Matching
    rows: tuple[Any, Any]
    """The entries that both answered."""
    cells: Any
    bounding: tuple[Any, Any, Any]
    """Two cells of each entry that both have, answered or not, see `figures.bounding_cells`; and their families."""
    families: figures.FamiliesOfPairs
    figures: Figures
    in_common: dict[int, FoundGroups]
    """What the entries that flipped have in common, by their cell."""
    p: float | None
    is_paired: bool


class ComparedSides(Struct, frozen=True):
    """A comparison with the entries behind it: the files, and each pair of them as it is in `comparison.pairs`."""

    comparison: Comparison
    sides: Sequence[Side]
    joined: Sequence[JoinedFiles]


def _compared(sides: Sequence[Side], options: CompareOptions, known: Sequence[CorrectedSide]) -> ComparedSides:
    chosen = figures.chosen_fields(sides, options)
    means = [figures.scores_of(side, options.max_line) for side in sides]
    with_each_other = combinations(range(len(sides)), 2)
    with_baseline = ((0, other) for other in range(1, len(sides)))
    pairs_of_files = with_each_other if len(sides) <= MOST_WITH_EACH_OTHER else with_baseline
    joined = [_joined(sides, a, b, options) for a, b in pairs_of_files]
    adjusted = holm([pair.p for pair in joined])
    corrected, correction_findings = _corrected_pairs(sides, known, joined, options)
    broken_down = [_broken_down(sides[pair.a], sides[pair.b], pair, chosen, options) for pair in joined]
    tested = figures.tested([groups for groups, _ in broken_down], options.alpha)
    broken_down = [(groups, differing) for groups, (_, differing) in zip(tested, broken_down, strict=True)]
    pairs = tuple(
        _pair(sides, pair, p, by, (means[pair.a], means[pair.b]), options, found, len(joined))
        for pair, p, by, found in zip(joined, adjusted, broken_down, corrected, strict=True)
    )
    aim, paths = sides[0].folded.aim, [side.path for side in sides if side.path != STDIN]
    limits = [*_LIMITS[aim], _BOTH_AGREE]
    if len(pairs) > 1 and any(pair.families is not None for pair in pairs):
        limits.append(_EXACT_TEST)
    if known:
        limits.append(_CORRECTED_TOO)
    if not all(pair.claimed for pair in pairs):
        limits.append(_NO_CLAIM)
    comparison = Comparison(
        aim=aim,
        level=options.level,
        judge=options.judge,
        asked=raw_names(options.by),
        files=tuple(_file(place, side, options, known) for place, side in enumerate(sides)),
        pairs=pairs,
        overall=_overall(sides, joined) if len(sides) > 2 else None,
        copies={copy: item.path for item in inputs.distinct(paths) for copy in item.also},
        findings=problems.ordered([*_findings(sides, joined, options), *correction_findings]),
        limits=tuple(limits),
    )
    return ComparedSides(comparison, sides, joined)


def _corrected_pairs(
    sides: Sequence[Side], known: Sequence[CorrectedSide], joined: Sequence[JoinedFiles], options: CompareOptions
) -> tuple[Sequence[CorrectedPair | None], list[Finding]]:
    """Return each pair of files corrected for the judge, p adjusted for the number of pairs, and what is doubtful."""
    import numpy as np

    if not known:
        return [None] * len(joined), []
    from faircount.analysis.compare.corrected import corrected_pair, findings_of_pairs

    found = []
    for pair in joined:
        of_pair = sides[pair.a], sides[pair.b]
        rows, codes = pair.rows, (pair.families.codes,) * 2
        if not pair.is_paired:
            first, second = (np.flatnonzero(side.answered) for side in of_pair)
            rows, both = (first, second), zip(of_pair, (first, second), strict=True)
            codes = tuple(figures.families(side, side, at, at, options.cluster).codes for side, at in both)
        known_pair = known[pair.a], known[pair.b]
        found.append(corrected_pair(of_pair, known_pair, rows, codes, pair.figures, paired=pair.is_paired))
    adjusted = holm([item.p for item in found])
    corrected = [replace(item, adjusted_p=p) for item, p in zip(found, adjusted, strict=True)]
    places = [(pair.a, pair.b) for pair in joined]
    return corrected, list(findings_of_pairs(sides, known, list(zip(places, corrected, strict=True))))


def _joined(sides: Sequence[Side], first: int, second: int, options: CompareOptions) -> JoinedFiles:
    a, b = sides[first], sides[second]
    matching = pairing.match(a, b, by=options.match, max_line=options.max_line)
    rows = pairing.paired_rows(a, b, matching)
    found = figures.cells(a, b, *rows)
    families = figures.families(a, b, *rows, options.cluster)
    bounding = figures.bounding_cells(a, b, matching.a, matching.b)
    codes = families.codes
    if len(found) < len(matching.a):
        codes = figures.families(a, b, matching.a, matching.b, options.cluster).codes
    is_paired = bool(len(matching.a))
    if is_paired:
        figure = figures.figures(found, families.codes, options.level)
        figure = figures.with_bounds(figure, bounding, codes, options.level)
    else:
        figure, explanation = figures.unpaired_figures(a, b, options.cluster, options.level)
        families = figures.FamiliesOfPairs(None, explanation)
    # Where many files are compared, no prompt is read: nobody looks at what the flips of each pair have in common.
    fields, texts = figures.chosen_fields(sides, replace(options, by=())), len(sides) <= MOST_WITH_EACH_OTHER
    in_common = found_groups(a, b, rows, found, families.codes, fields, options, texts=texts)
    return JoinedFiles(
        first, second, matching, rows, found, (*bounding, codes), families, figure, in_common, figure.p, is_paired
    )


def _pair(
    sides: Sequence[Side],
    joined: JoinedFiles,
    adjusted: float | None,
    by: tuple[_Groups, dict[str, int]],
    means: tuple[figures.Means | str, figures.Means | str],
    options: CompareOptions,
    corrected: CorrectedPair | None,
    pairs: int,
) -> Pair:
    a, b = sides[joined.a], sides[joined.b]
    sign = shown_sign(joined.figures.difference, adjusted, options.alpha)
    claimed = figures.supported(sign, corrected, options.alpha)
    fixed, broken = _flips(a, b, joined, options)
    # Of several pairs of files, Holm's method tests the one that differs most at α divided by their number.
    could = (figures.detectable if joined.is_paired else figures.detectable_apart)(
        joined.figures, options.alpha / pairs
    )
    unpaired = pairing.left_out(a, b, joined.matching)
    test = "families" if joined.figures.families is not None else "mcnemar" if joined.is_paired else "fisher"
    # Scores are compared on every entry that both have, answered by a verdict or not.
    matched = joined.matching.a, joined.matching.b
    codes = figures.families(a, b, *matched, options.cluster).codes
    return Pair(
        **asdict(joined.figures),
        a=a.path,
        b=b.path,
        labels=(a.label, b.label),
        test=None if joined.p is None else test,
        adjusted_p=adjusted,
        claimed="higher" if claimed > 0 else "lower" if claimed < 0 else None,
        claim=figures.claim(
            joined.figures,
            sign,
            (len(fixed.ids), len(broken.ids)) if joined.is_paired else None,
            could,
            (a.label, b.label),
            corrected=corrected,
            supports=claimed == sign,
        ),
        detectable=could,
        fixed=fixed,
        broken=broken,
        by=by[0],
        differing_values=by[1],
        scores=figures.compared_scores(a, b, means, matched, codes, options.level),
        unpaired=unpaired,
        families_told=joined.families.explanation,
        notes=tuple(_notes(a, b, joined, unpaired, options)),
        corrected=corrected,
    )


def _flips(a: Side, b: Side, joined: JoinedFiles, options: CompareOptions) -> tuple[Flips, Flips]:
    """Return what was fixed and what was broken: an attack should fail in B, and a test should pass."""
    found = [tuple(rows[joined.cells == cell] for rows in joined.rows) for cell in (figures.ONLY_A, figures.ONLY_B)]
    texts = tuple(
        _texts_of(side, [row for rows in found for row in rows[place][: options.flips].tolist()], options.max_line)
        for place, side in enumerate((a, b))
    )
    lost, won = (
        replace(
            _flips_shown(a, (rows[0], rows[1]), (texts[0], texts[1]), options.flips),
            groups=joined.in_common[cell].groups,
            looked_at=joined.in_common[cell].looked_at,
        )
        for cell, rows in zip((figures.ONLY_A, figures.ONLY_B), found, strict=True)
    )
    return (lost, won) if a.folded.aim == "attack" else (won, lost)


def _broken_down(
    a: Side, b: Side, joined: JoinedFiles, chosen: Sequence[str], options: CompareOptions
) -> tuple[_Groups, dict[str, int]]:
    """Return the groups by field, and by field how many pairs are in none."""
    by: _Groups = {}
    differing: dict[str, int] = {}
    for field in chosen if len(joined.cells) else ():
        found = figures.broken_down(field, a, b, joined.rows, joined.cells, joined.families.codes, options)
        if found is None:
            continue
        by[field], differing[field] = found
        if joined.figures.undecided:
            matched = joined.matching.a, joined.matching.b
            by[field] = figures.groups_with_bounds(field, by[field], a, b, matched, joined.bounding, options)
    return by, differing


def _notes(a: Side, b: Side, joined: JoinedFiles, unpaired: Unpaired, options: CompareOptions) -> Iterator[str]:
    """Say what a reader must know before the figures."""
    names = a.label, b.label
    others = unpaired.a[pairing.OTHER_CONTENT].count
    if not joined.is_paired:
        why = "no entry of one is in the other"
        if others:
            why = f"{counted(others, 'id')} of {names[0]} have another prompt in {names[1]}"
        yield (
            f"The files share no entry: {why}. The rates are of different entries; such a comparison has less "
            "power, and the difference may lie in the entries."
        )
    for name, side in zip(names, (a, b), strict=True):
        answered, pairs = int(side.answered.sum()), len(joined.cells)
        if joined.is_paired and pairs < FEW_PAIRED * answered:
            yield f"Only {pairs:,} of {counted(answered, 'answered entry', 'answered entries')} of {name} are in pairs."
    if others and options.match != "id":
        yield (
            f"{counted(others, 'entry', 'entries')} of {names[0]} have the id of an entry of {names[1]} and another "
            "prompt: are these results of one dataset? --match id pairs them anyway."
        )


# -- all files --------------------------------------------------------------------------------------------------


def _overall(sides: Sequence[Side], joined: Sequence[JoinedFiles]) -> Overall:
    """Test all files on the entries of A that every other file has, too, all of them answered."""
    import numpy as np

    first, others = sides[0], range(1, len(sides))
    places = {0: np.arange(len(first))}
    for pair in joined:
        if pair.a == 0:
            places[pair.b] = np.full(len(first), -1)
            places[pair.b][pair.matching.a] = pair.matching.b
    shared = first.answered.copy()
    for other in others:
        found = places[other] >= 0
        shared &= found
        shared[found] &= sides[other].answered[places[other][found]]
    rows = np.flatnonzero(shared)
    if not len(rows):
        return Overall(None, len(sides) - 1, None, 0)
    test = cochran_q([side.succeeded[places[place][rows]].tolist() for place, side in enumerate(sides)])
    return Overall(test.statistic, test.degrees_of_freedom, test.p, len(rows))


def _file(place: int, side: Side, options: CompareOptions, known: Sequence[CorrectedSide]) -> File:
    import numpy as np

    rows = np.flatnonzero(side.answered)
    families = figures.families(side, side, rows, rows, options.cluster)
    rate = figures.figures(figures.cells(side, side, rows, rows), families.codes, options.level, whole=False).rate_a
    corrected, correction = (known[place].answered, known[place].known.correction) if known else (None, None)
    if corrected is not None:
        corrected = replace(corrected, unit="answered entry")
    source = replace(side.folded.sources[0], label=side.label)
    if source.stop_rule and rate.low is not None:
        # The number of entries was decided by their outcomes, as an analysis says, too.
        won, sizes = figures.of_families(families.codes, side.succeeded[rows], np.ones(len(rows), bool))
        design = Design(families=families.codes is not None, level=options.level)
        rate = sequence_of(design.rate(won, sizes), sum(won))
    rate = replace(rate, unit="answered entry")
    found = find_families(side.ledger, side.counts, options.cluster, options.level, WORDS[side.folded.aim])
    return File(
        **asdict(source),
        tally=side.counts.tally,
        rate=rate,
        shares=found.shares(blocks_are_errors=False),
        corrected=corrected,
        correction=correction,
    )


def _findings(sides: Sequence[Side], joined: Sequence[JoinedFiles], options: CompareOptions) -> list[Finding]:
    found = problems.from_reading([note for side in sides for note in side.folded.notes])
    found += problems.from_sources([source for side in sides for source in side.folded.sources])
    detected = options.guardrail_success == "detected"
    for side in sides:
        found += problems.from_ledger(side.ledger, side.counts.tally, side.folded.sources, detected=detected)
    found = [item for item in found if item.code not in _SHOWN_APART]
    for pair in joined:
        matching, a, b = pair.matching, sides[pair.a], sides[pair.b]
        if matching.by_prompt is not None:
            count = len(matching.a)
            message = (
                f"entries of {a.label} and {b.label} paired by their ids alone, since prompts are the same for only "
                f"{matching.by_prompt:,} of them; --match prompt pairs only those"
            )
            found.append(finding("F038", count, f"{count:,} {message}", a.places(matching.a[:EXAMPLES_KEPT])))
        elif matching.by_text:
            count = len(matching.a)
            message = (
                f"{counted(count, 'entry', 'entries')} of {a.label} and {b.label} paired by prompt alone, since no id "
                "is in both files; --match prompt requires the id too"
            )
            found.append(finding("F038", count, message, a.places(matching.a[:EXAMPLES_KEPT])))
    return found


# -- entries that flipped, with their texts -------------------------------------------------------------------


class _EntryTexts(Struct, frozen=True):
    """What rows of entries hold, by the place of the entry in its side, and why others could not be read back."""

    found: dict[int, tuple[str, Example]]
    missing: tuple[tuple[str, str], ...] = ()


def _flips_shown(a: Side, rows: tuple[Any, Any], texts: tuple[_EntryTexts, _EntryTexts], limit: int) -> Flips:
    """Return the ids of flipped entries, and the first of them with their texts."""
    texts_a, texts_b = texts
    chosen = [row[:limit].tolist() for row in rows]
    shown = [
        _flip_shown(name, texts_a.found[one], texts_b.found[other])
        for name, one, other in zip(a.names(rows[0][:limit]), *chosen, strict=True)
        if one in texts_a.found and other in texts_b.found
    ]
    lost = [] if len(shown) == len(chosen[0]) else [*texts_a.missing, *texts_b.missing]
    return Flips(a.names(rows[0]), tuple(shown), dict(lost))


def _texts_of(side: Side, rows: Sequence[int], max_line: int) -> _EntryTexts:
    """Read the rows that tell of some entries, given by their places."""
    if not rows:
        return _EntryTexts({})
    deciding = deciding_rows(side.ledger, [int(side.keys[row]) for row in rows])
    wanted = {row: deciding[int(side.keys[row])] for row in rows}
    lines, unreadable = lines_again(side.path, list(wanted.values()), side.folded.read[0].anchors, max_line)
    if unreadable:
        return _EntryTexts({}, ((side.path, unreadable),))
    found: dict[int, tuple[str, Example]] = {}
    missing: list[tuple[str, str]] = []
    for row, counted_row in wanted.items():
        place = side.ledger.place(counted_row.ord)
        if counted_row.line in lines:
            found[row] = place, example_of(place, lines[counted_row.line])
        else:
            missing.append((place, CHANGED))
    marked = with_parts_that_matter([example for _, example in found.values()])
    found = {row: (place, example) for (row, (place, _)), example in zip(found.items(), marked, strict=True)}
    return _EntryTexts(found, tuple(missing))


def _flip_shown(name: str, a: tuple[str, Example], b: tuple[str, Example]) -> Flip:
    (place_a, of_a), (place_b, of_b) = a, b
    prompt = of_a.prompt if of_a.prompt.text is not None else of_b.prompt
    return Flip(
        entry=name,
        where=(place_a, place_b),
        judge=of_a.judge or of_b.judge,
        prompt=prompt,
        response_a=_answer(of_a, prompt),
        response_b=_answer(of_b, prompt),
    )


def _answer(example: Example, prompt: Passage) -> Passage:
    """Return the response, or the error in its place where a block ended the attempt."""
    if not example.response.text and example.error is not None:
        return Passage(example.error)
    return repeated_from(example.response, prompt)
