"""The analysis of result files: files in, one analysis per file or one over all of them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from faircount.analysis import evidence, problems, summary
from faircount.analysis.evidence import READ_ONCE, sources_of
from faircount.analysis.grouping import (
    MOST_GROUPS,
    Grouping,
    family_findings,
    find_families,
    generalised,
    raw_names,
    to_break_down,
)
from faircount.analysis.in_parts import Cluster, ask_ahead, undivided
from faircount.analysis.options import JUDGE, TAXONOMIES, AnalyzeOptions
from faircount.analysis.words import CORRECTED, JUDGED, WORDS
from faircount.core.errors import InputError, UsageError
from faircount.core.findings import DAMAGE, EXAMPLES_KEPT, Notes, finding
from faircount.core.model import (
    Analysis,
    Counts,
    Examples,
    FailedCase,
    FailedCases,
    FalsePositives,
    Finding,
    GarakFigures,
    JudgeCorrection,
    Outcome,
    Rates,
    Source,
)
from faircount.core.text import clip, visible
from faircount.core.workers import Answered
from faircount.io.files import is_address, size_of
from faircount.io.streams import file_of, is_stored
from faircount.ledger import engine, row_filter, tallies
from faircount.ledger.schema import AnswerKind
from faircount.ledger.store import TOGETHER, Ledger, LedgerView
from faircount.query import Query
from faircount.query.query import tests
from faircount.readers import inputs
from faircount.readers.cache import ReadSource
from faircount.readers.inputs import Input
from faircount.readers.loading import (
    Loader,
    Progress,
    parse_row_query,
    parts_for,
    refuse_evidence_alone,
    refuse_hopeless,
    refuse_unknown_fields,
    with_cache,
)
from faircount.readers.pieces import NOT_EVERYWHERE, LocalCrew, ReadInParts, expect_file, pieces_of
from faircount.readers.raw_rows import ROW_FIELDS, Origin
from faircount.readers.registry import default_reader, reader_named
from faircount.report.source_labels import labelled, looks_benign
from faircount.stats import Design

if TYPE_CHECKING:
    from faircount.analysis.correct.correct import KnownJudge
    from faircount.analysis.correct.inputs import Quality

COMBINED = "Combined"
_BAD_NEWS = {"attacks": "successes", "guardrail": "let through", "benign": "blocked", "tests": "failures"}
"""Which entries people look at first, by the role of a run."""
STOPPABLE = (
    "With --stop-when the outcomes decide how many entries are run. Rates over all entries have an interval that holds "
    "whenever a run stops, a confidence sequence; intervals of groups, differences and corrected rates do not allow "
    "for that."
)
CASES_SHOWN = 50
"""So many failed and flaky cases of a run of tests are kept with their texts."""
BATCH_BYTES = 64 * 1024 * 1024
"""Small files of about so many bytes in all are read into one ledger."""


class AnalysisSet(Struct, frozen=True):
    """The analyses of a request, the files that it named, and a sentence for each file that could not be analysed.

    `evidence` has the texts of entries to show, by the name of the analysis: those asked for, and the failed cases of
    a run of tests.
    """

    analyses: tuple[Analysis, ...]
    files: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    evidence: Mapping[str, tuple[Examples, ...]] = {}

    @property
    def damaged(self) -> bool:
        """Whether any source had lines that could not be read, or broke off."""
        return any(f.code in DAMAGE for a in self.analyses for f in a.findings)


def analyze_files(
    files: Sequence[str],
    options: AnalyzeOptions,
    progress: Progress = lambda _: None,
    cluster: Cluster | None = None,
) -> AnalysisSet:
    """Analyse result files: one analysis each in the order given, or one over all with `options.combine`.

    With a `cluster`, its machines do it; the result is the same.
    """
    paths = inputs.expand(files, options.read_as)
    if not paths:
        raise UsageError("no result file given; name a file or a folder")
    chosen, alone = inputs_of(paths, options)
    if options.false_positive_checks is not None:
        options = replace(options, false_positive_checks=_benign_path(chosen, options.false_positive_checks))
        paths.append(options.false_positive_checks or "")
    if cluster is not None:
        return _analyze_on(cluster, chosen, paths, options, progress)
    asked = AnalysisRequest.of(chosen, options)
    where = None if options.where is None else parse_row_query(options.where)
    if where is not None:
        in_parts = parts_for([item.path for item in chosen]) > 1
        if _may_be_held(where) and all(map(is_stored, paths)) and not in_parts:
            with suppress(NotHeldError):
                return with_cache(
                    lambda cache: Loader(paths, options.reading, progress, cache, alone=False, where=where),
                    lambda loader: _analyze(asked, paths, options, loader),
                    cache=options.cache,
                )
        refuse_unknown_fields(where, [Origin(item.path, item.path) for item in chosen], options.max_line)
    return with_cache(
        lambda cache: Loader(
            paths,
            replace(options.reading, where=where),
            progress,
            cache,
            alone=alone and not options.wants_verdicts,
            question=_question(options) if where is None else "",
        ),
        lambda loader: _analyze(asked, paths, options, loader),
        # What one query chose by reading is hardly ever wanted again.
        cache=options.cache and where is None,
    )


def _question(options: AnalyzeOptions) -> str:
    """Return what is asked of each file by itself, nothing if the answer needs other files, too."""
    if options.combine or options.judge_quality is not None or options.false_positive_checks is not None:
        return ""
    return msgspec.json.encode(options).decode()


WHOLE_BELOW_BYTES = 256 * 1024**2
"""A smaller file that is analysed by itself is analysed by one machine of a cluster."""


def _analyze_on(
    cluster: Cluster, chosen: Sequence[Input], paths: Sequence[str], options: AnalyzeOptions, progress: Progress
) -> AnalysisSet:
    where = None if options.where is None else parse_row_query(options.where)
    for item in chosen:
        if not is_stored(item.path):
            raise UsageError(f"{item.path}: {READ_ONCE}; with --engine spark, name files that every machine can read")
    refused = undivided(options, where)
    if refused:
        raise UsageError(f"{refused} does not work with --engine spark yet; leave --engine out")
    asked = AnalysisRequest(chosen, None)
    reading = replace(options.reading, where=where)
    loader = Loader([], reading, progress, None, cluster=cluster)
    found, failures = list[AnalysisFound](), list[str]()
    whole: list[str] = []
    if not options.combine:
        whole = [item.path for item in chosen if size_of(file_of(item.path)) < WHOLE_BELOW_BYTES]
    answers = cluster.answers_of(partial(_analyzed, options, str(Path.cwd())), whole) if whole else []
    analysed = dict(zip(whole, answers, strict=True))
    for group in [list(chosen)] if options.combine else [[item] for item in chosen]:
        try:
            if not options.combine and group[0].path in analysed:
                one = msgspec.msgpack.decode(analysed[group[0].path], type=AnalysedFile)
                if one.analysis is None:
                    raise InputError(one.failure)
                found.append((one.analysis, one.examples))
                continue
            with fold_files(group, options, loader) as folded:
                refuse_evidence_alone(folded.sources)
                name = COMBINED if options.combine else group[0].path
                found.append(analysis_of(replace(asked, chosen=group), folded, options, name, loader))
        except InputError as error:
            if len(chosen) == 1 or options.combine:
                raise
            failures.append(str(error))
    return analysis_set(found, paths, failures)


class AnalysedFile(Struct, frozen=True):
    """The analysis of one file by another machine, or why there is none."""

    analysis: Analysis | None = None
    examples: tuple[Examples, ...] = ()
    failure: str = ""


def _analyzed(options: AnalyzeOptions, folder: str, path: str) -> bytes:
    """Analyse one file where this is called; a path that is not absolute begins in a folder."""
    try:
        with nullcontext() if is_address(path) or Path(path).is_absolute() else chdir(folder):
            expect_file(path, path)
            found = analyze_files([path], replace(options, cache=False))
    except OSError:
        return msgspec.msgpack.encode(AnalysedFile(failure=f"{path}: {NOT_EVERYWHERE}"))
    except InputError as error:
        return msgspec.msgpack.encode(AnalysedFile(failure=str(error)))
    (analysis,) = found.analyses
    return msgspec.msgpack.encode(AnalysedFile(analysis, found.evidence[analysis.name]))


def inputs_of(paths: Sequence[str], options: AnalyzeOptions) -> tuple[list[Input], bool]:
    """Return the files to analyse, and whether each is folded by itself by our own rules."""
    chosen = [Input(path) for path in paths] if options.rules.counts_copies else inputs.distinct(paths)
    return chosen, not (options.rules.merges_rows_by_id or (options.combine and len(chosen) > 1))


class AnalysisRequest(Struct, frozen=True):
    """The files to analyse, and what is known of the judge behind their verdicts."""

    chosen: Sequence[Input]
    quality: Quality | None

    @classmethod
    def of(cls, chosen: Sequence[Input], options: AnalyzeOptions) -> AnalysisRequest:
        """Read what is known of the judge, where options say that there is something."""
        if options.judge_quality is None:
            return cls(chosen, None)
        # Only a correction needs judges and labels: most analyses do without.
        from faircount.analysis.correct.inputs import read_quality

        return cls(chosen, read_quality(options.judge_quality, [item.path for item in chosen], options.max_line))


def _analyze(asked: AnalysisRequest, paths: Sequence[str], options: AnalyzeOptions, loader: Loader) -> AnalysisSet:
    with engine.interruptible(), loader:
        failures: list[str] = []
        if options.combine:
            with fold_files(asked.chosen, options, loader) as folded:
                found = [analysis_of(asked, folded, options, COMBINED, loader)]
        else:
            found, failures = _analyze_each(asked, options, loader)
    return analysis_set(found, paths, failures)


def _with_labels(analyses: Sequence[Analysis]) -> tuple[Analysis, ...]:
    """Return analyses whose sources have labels, unique among all of them."""
    known = {source.path: source for analysis in analyses for source in sources_of(analysis)}
    labels = {source.path: source.label for source in labelled(list(known.values()))}

    def named(source: Source) -> Source:
        return replace(source, label=labels[source.path])

    return tuple(
        replace(
            a,
            sources=tuple(map(named, a.sources)),
            false_positives=None
            if a.false_positives is None
            else replace(a.false_positives, benign=named(a.false_positives.benign)),
            by_source=tuple(replace(figures, label=labels[figures.path]) for figures in a.by_source),
        )
        for a in analyses
    )


AnalysisFound = tuple[Analysis, tuple[Examples, ...]]
"""An analysis, and entries of it with their texts."""


def analysis_set(found: Sequence[AnalysisFound], paths: Sequence[str], failures: Sequence[str] = ()) -> AnalysisSet:
    """Return analyses whose files have labels, unique among all of them."""
    evidence = {analysis.name: examples for analysis, examples in found}
    return AnalysisSet(_with_labels([analysis for analysis, _ in found]), tuple(paths), tuple(failures), evidence)


def _analyze_each(
    asked: AnalysisRequest, options: AnalyzeOptions, loader: Loader
) -> tuple[list[AnalysisFound], list[str]]:
    """Analyse files one by one; among several, one that cannot be used does not stop the others."""
    found, failures = list[AnalysisFound](), list[str]()
    for batch in _batches(asked.chosen, options, loader):
        if batch[0].path in loader.answers:
            kept = msgspec.msgpack.decode(loader.answers[batch[0].path], type=Analysis)
            loader.progress(sum(source.bytes for source in kept.sources))
            found.append((kept, ()))
            continue
        for item, folded in _folded_each(batch, options, loader):
            try:
                if isinstance(folded, InputError):
                    raise folded
                refuse_evidence_alone(folded.sources)
            except InputError as error:
                if len(asked.chosen) == 1:
                    raise
                failures.append(str(error))
                continue
            alone = AnalysisRequest([item], asked.quality)
            analysis, examples = analysis_of(alone, folded, options, item.path, loader)
            found.append((analysis, examples))
            # The texts of entries are kept nowhere.
            if not examples and not options.evidence:
                loader.keep_answer(item.path, analysis)
    return found, failures


def _batches(chosen: Sequence[Input], options: AnalyzeOptions, loader: Loader) -> Iterator[list[Input]]:
    """Yield files that can share a ledger: small ones together, as far as memory allows, large ones alone."""
    batch: list[Input] = []
    size = 0
    for item in chosen:
        alone = options.rules.merges_rows_by_id or options.wants_verdicts or not TAXONOMIES.isdisjoint(options.by)
        small = loader.is_small(item.path) and not alone
        size += size_of(item.path) if small else 0
        if batch and (not small or size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        if not small:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _folded_each(
    batch: Sequence[Input], options: AnalyzeOptions, loader: Loader
) -> Iterator[tuple[Input, Folded | InputError]]:
    """Read files and fold each by itself; yield it ready to be asked, or why it cannot be used."""
    if len(batch) == 1:
        try:
            with fold_files(batch, options, loader) as folded:
                yield batch[0], folded
        except InputError as error:
            yield batch[0], error
        return
    with Ledger([item.path for item in batch], apart=True) as ledger:
        read = [_read_or_not(ledger, index, loader) for index in range(len(batch))]
        usable = [one for one in read if not isinstance(one, InputError)]
        with wanted_rows(ledger, usable, loader.where) as (wanted, kept):
            wanted.fold()
            kept_by_path = {one.source.path: one for one in kept}
            for item, view, one in zip(batch, wanted.views(), read, strict=True):
                yield item, one if isinstance(one, InputError) else Folded(view, (kept_by_path[item.path],))


def _read_or_not(ledger: Ledger, index: int, loader: Loader) -> ReadSource | InputError:
    try:
        read = loader.load(ledger, index)
        refuse_hopeless([read.source], [read.notes])
    except InputError as error:
        return error
    return read


def _benign_path(chosen: Sequence[Input], name: str) -> str:
    """Return the one file of benign prompts to measure a guardrail with, beside the one file of attacks."""
    if len(chosen) > 1:
        raise UsageError("--false-positive-checks needs exactly one result file, to measure one guardrail")
    found = inputs.expand([name])
    if len(found) > 1:
        raise UsageError(f"--false-positive-checks {name}: matches {len(found)} files; name one")
    if len(inputs.distinct([chosen[0].path, found[0]])) == 1:
        raise UsageError(
            f"--false-positive-checks {name}: is the result file itself; it needs a run over benign prompts"
        )
    return found[0]


class Folded(Struct, frozen=True):
    """A ledger ready to be asked, with what reading its sources showed."""

    ledger: LedgerView
    read: tuple[ReadSource, ...]

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(item.source for item in self.read)

    @property
    def notes(self) -> tuple[Notes, ...]:
        return tuple(item.notes for item in self.read)

    @property
    def aim(self) -> str:
        """What the results are about; sources of different aims are never read together."""
        return _aims(self.sources)[0][0]


@contextmanager
def fold_files(chosen: Sequence[Input], options: AnalyzeOptions, loader: Loader) -> Iterator[Folded]:
    """Read the sources into a ledger and fold it by the chosen definition."""
    paths = [item.path for item in chosen]
    parts = parts_for(paths)
    if loader.cluster is not None:
        parts, task = loader.cluster.sizes(sum(size_of(file_of(path)) for path in paths))
        with loader.cluster.crew(task) as crew:
            pieces = pieces_of(paths, parts, loader.options, piece_bytes=task)
            yield _folded_by(ReadInParts(paths, pieces, crew, loader.progress), options, loader.cluster.memory)
        return
    if parts > 1 and not loader.used_cache and not undivided(options, loader.options.where or loader.where):
        with _fold_in_parts(paths, options, loader, parts) as folded:
            yield folded
        return
    with Ledger([item.path for item in chosen]) as ledger:
        read = tuple(loader.load(ledger, index) for index in range(len(chosen)))
        refuse_hopeless([one.source for one in read], [one.notes for one in read])
        _refuse_both_aims([one.source for one in read])
        with wanted_rows(ledger, read, loader.where, options.judge) as (wanted, kept):
            wanted.fold(options.rules, combined=options.combine)
            with loader.keeping_fold(wanted):
                yield Folded(wanted, tuple(kept))


@contextmanager
def _fold_in_parts(paths: Sequence[str], options: AnalyzeOptions, loader: Loader, parts: int) -> Iterator[Folded]:
    """Read sources that are too large for one ledger, and fold them part by part, on the disk."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="faircount-") as folder:
        crew = LocalCrew(Path(folder), loader.pool, loader.processes)
        pieces = pieces_of(paths, parts, loader.options)
        yield _folded_by(ReadInParts(paths, pieces, crew, loader.progress), options, crew.memory)


def _folded_by(found: ReadInParts, options: AnalyzeOptions, memory: str) -> Folded:
    sources = [one.source for one in found.read]
    refuse_hopeless(sources, [one.notes for one in found.read])
    _refuse_both_aims(sources)
    ledger = found.fold(options.rules, combined=options.combine, memory=memory)
    ask_ahead(ledger, options)
    return Folded(ledger, tuple(found.read))


# -- rows that a query chooses ----------------------------------------------------------------------------------


class NotHeldError(Exception):
    """A query asks for more than the ledger holds: the files have to be read for it."""


_OF_ROWS_THAT_COUNT = ("F016", "F017", "F021", "F025", "F027")
"""Findings about rows that are counted: what was noted of rows that a query excludes would have to be taken back."""


def _may_be_held(query: Query) -> bool:
    """Return whether a ledger may hold all that a query asks for, as far as can be said before the files are read."""
    asked = [test.path.steps for test in tests(query.tree) if not test.path.computed]
    never = ROW_FIELDS.difference(default_reader().fields.facets)
    return query.computed <= {"file"} and all(len(steps) == 1 and steps[0] not in never for steps in asked)


@contextmanager
def wanted_rows(
    ledger: Ledger,
    read: Sequence[ReadSource],
    where: Query | None,
    judge: str | None = None,
    *,
    folded: bool = False,
) -> Iterator[tuple[Ledger, Sequence[ReadSource]]]:
    """Give the rows that a query chooses, with the verdicts of a judge, ready to be folded as if they were all.

    `folded`: all rows are folded already. If all are wanted as they are, it is the same ledger.
    """
    with ExitStack() as chosen:
        if not folded and (where is not None or judge is not None):
            ledger.settle()
        if where is not None:
            ledger, read = _only_rows(ledger, read, where, folded=folded)
            chosen.enter_context(ledger)
        if judge is not None:
            if where is not None:
                ledger.settle()
            ledger = chosen.enter_context(_judged_rows(ledger, judge))
        yield ledger, read


def _judged_rows(ledger: Ledger, judge: str) -> Ledger:
    """Return a ledger of the same rows with the verdicts of one judge, or of several together."""
    known = ledger.judges()
    if judge not in (*TOGETHER, *known):
        available = ", ".join([*(clip(visible(name), 60) for name in known), *TOGETHER])
        given = f"{ledger.paths[0]} has none of its verdicts" if len(ledger.paths) == 1 else "no file has its verdicts"
        raise UsageError(f"--judge {clip(visible(judge), 60)}: {given}; available: {available}")
    return ledger.judged_by(judge)


def _only_rows(
    ledger: Ledger, read: Sequence[ReadSource], where: Query, *, folded: bool
) -> tuple[Ledger, tuple[ReadSource, ...]]:
    """Return a ledger of the rows that a query chooses, and what was noted of them; NotHeldError if it cannot say."""
    condition = row_filter.condition_of(ledger, where, ledger.fields.facets)
    unknown = where.compared.difference(ledger.fields.facets, ledger.facets)
    if condition is None or unknown or any(one.notes.total(code) for one in read for code in _OF_ROWS_THAT_COUNT):
        raise NotHeldError
    rows = row_filter.rows_where(condition, folded=folded)
    excluded = row_filter.other_lines(ledger, rows, EXAMPLES_KEPT)
    targets = row_filter.only_words(ledger, rows, "target")

    def kept(one: ReadSource) -> ReadSource:
        number, notes, key = ledger.paths.index(one.source.path), one.notes, ("F029", "")
        if number not in excluded:
            return one
        count, first = excluded[number]
        by_rows = reader_named(one.source.reader).ranges
        return replace(
            one,
            source=replace(one.source, target=targets.get(number)) if by_rows else one.source,
            notes=Notes(notes.name, {**notes.counts, key: count}, {**notes.lines, key: first}),
        )

    return ledger.only(rows), tuple(map(kept, read))


Question = Callable[[Folded, Sequence[Input]], Answered]
"""Is asked of a folded ledger and the files in it; may be asked again if the cache vanishes meanwhile."""


def ask_files(
    paths: Sequence[str], options: AnalyzeOptions, question: Question[Answered], progress: Progress
) -> tuple[list[Answered], list[tuple[str, str]]]:
    """Return the answers in the order of the files, and each file that cannot be used, with a sentence why."""
    chosen = inputs.distinct(paths)
    groups = [chosen] if options.combine and chosen else [[item] for item in chosen]
    alone = all(len(group) == 1 for group in groups)
    return with_cache(
        lambda cache: Loader(paths, options.reading, progress, cache, alone=alone),
        lambda loader: _ask(groups, options, question, loader),
        cache=options.cache,
    )


def _ask(
    groups: Sequence[Sequence[Input]], options: AnalyzeOptions, question: Question[Answered], loader: Loader
) -> tuple[list[Answered], list[tuple[str, str]]]:
    answers: list[Answered] = []
    unusable: list[tuple[str, str]] = []
    with engine.interruptible(), loader:
        for group in groups:
            try:
                with fold_files(group, options, loader) as folded:
                    answers.append(question(folded, group))
            except InputError as error:
                if len(group) > 1:
                    raise
                unusable.append((group[0].path, str(error)))
    return answers, unusable


def _aims(sources: Sequence[Source]) -> list[tuple[str, str]]:
    """Return aim and path of each source that has entries, or of all where none has."""
    with_entries = [source for source in sources if source.good_lines] or sources
    return [(source.aim, source.path) for source in with_entries] or [("attack", "")]


def _refuse_both_aims(sources: Sequence[Source]) -> None:
    """Raise if attacks and tasks are to be counted together: what is good in one is bad in the other."""
    by_aim = dict(_aims(sources))
    if len(by_aim) > 1:
        raise UsageError(
            f"{by_aim['task']} is a test run, which should pass, and {by_aim['attack']} an attack run, which should "
            "not succeed: one rate cannot cover both; analyse them separately"
        )


def analysis_of(
    wanted: AnalysisRequest, folded: Folded, options: AnalyzeOptions, name: str, loader: Loader
) -> AnalysisFound:
    ledger, aim = folded.ledger, folded.aim
    refuse_evidence_alone(folded.sources)
    if not TAXONOMIES.isdisjoint(options.by):
        from faircount.analysis import taxonomy

        taxonomy.derive(ledger, options.by)
    garak, of_tool = _garak_figures(wanted, folded, options)
    if options.rules.made_by_reader:
        from faircount.analysis import tool_figures

        tool_figures.refuse_others(folded.sources, options.definition)
        of_tool += tool_figures.findings(options.definition)
    counts = summary.overall(ledger, options)
    grouping = _grouping(folded, counts, options)
    if options.generalise is not None:
        grouping = generalised(ledger, grouping, options.generalise)
    matrix, of_matrix, mistakes = _false_positives(folded, grouping, options, loader)
    by_metrics = garak is not None and garak.metrics is not None
    known, judge_findings = _known_judge(folded, counts, grouping, None if by_metrics else wanted.quality, options)
    judge_findings += of_tool
    correction = None if known is None else known.correction
    found = [*findings_of(folded, wanted.chosen, options), *judge_findings, *family_findings(grouping)]
    if options.rules.notice:
        found.append(finding("F024", 1, options.rules.notice))
    analysis = Analysis(
        name=name,
        definition=options.definition,
        where=options.where,
        judge=options.judge,
        level=options.level,
        sources=folded.sources,
        tally=counts.tally,
        attempts=counts.attempts,
        rates=_rates(aim, grouping, correction),
        shares=grouping.shares(blocks_are_errors=options.rules.blocks_are_errors),
        families=grouping.families,
        false_positives=matrix,
        by_source=summary.by_source(ledger, folded.sources, grouping, options) if options.combine else (),
        findings=problems.ordered([*found, *of_matrix]),
        limits=tuple(_limits(aim, grouping, correction)),
        aim=aim,
        role=role_of(ledger, folded.sources),
        correction=correction,
        garak=garak,
        coverage=() if TAXONOMIES.isdisjoint(options.by) else tuple(taxonomy.coverage(ledger, options.by)),
    )
    examples = (*mistakes, *_evidence(folded, options))
    if options.details:
        analysis = _with_details(analysis, folded, counts, grouping, options)
        if aim == "task":
            failed = _failed_cases(folded, options)
            cases = (FailedCase(c.entry, c.place, c.measured, c.error, c.passed, c.tries) for c in failed.shown)
            analysis = replace(analysis, failed_cases=FailedCases(failed.total, tuple(cases)))
            examples = (failed, *examples)
    return _corrected_groups(analysis, ledger, known), examples


def _garak_figures(
    wanted: AnalysisRequest, folded: Folded, options: AnalyzeOptions
) -> tuple[GarakFigures | None, list[Finding]]:
    """Return garak's own figures, where they are asked for or its detector metrics are to be applied to them."""
    metrics = None if wanted.quality is None else wanted.quality.summary
    by_definition = options.rules.beside_ours and not options.rules.made_by_reader
    if not by_definition and (metrics is None or options.combine):
        return None, []
    from faircount.analysis import garak_definition

    if by_definition:
        garak_definition.refuse_others(folded.sources)
    if not garak_definition.uses_metrics(metrics, folded.sources):
        metrics = None
        if not by_definition:
            return None, []

    grouping_of = partial(_grouping_of_judged, folded, options)
    found = garak_definition.garak_figures(
        folded.ledger, folded.sources[0], grouping_of, max_line=options.max_line, metrics=metrics
    )
    return found, list(garak_definition.findings(found, by_definition=by_definition))


def _rates(aim: str, grouping: Grouping, correction: JudgeCorrection | None) -> Rates:
    rate = grouping.rate("success")
    return Rates(
        asr=rate,
        asr_unclustered=replace(grouping, column=None, design=Design(level=grouping.design.level)).rate("success"),
        asr_judged=grouping.rate("success", among="judged", unit="judged entry"),
        asr_at_most=grouping.rate("possible"),
        blocked=grouping.rate("blocked", among="answered"),
        pass_rate=rate if aim == "task" else None,
        asr_corrected=None if correction is None else correction.estimate,
    )


def _limits(aim: str, grouping: Grouping, correction: JudgeCorrection | None) -> Iterator[str]:
    """Yield what the numbers cannot show."""
    corrected = correction is not None and correction.estimate is not None
    yield from (CORRECTED if corrected and text == JUDGED else text for text in WORDS[aim].limits)
    yield grouping.limit
    if grouping.stoppable:
        yield STOPPABLE


def _grouping(folded: Folded, counts: Counts, options: AnalyzeOptions) -> Grouping:
    """Return the families of the entries. Where one run could stop early, so could all of them together."""
    found = find_families(folded.ledger, counts, options.cluster, options.level, WORDS[folded.aim])
    return replace(found, stoppable=any(source.stop_rule for source in folded.sources))


def _grouping_of_judged(folded: Folded, options: AnalyzeOptions, judged: LedgerView) -> Grouping:
    """Return the families of the entries of the same files, with the verdicts of other judges."""
    return _grouping(Folded(judged, folded.read), summary.overall(judged, options), options)


def _with_details(
    analysis: Analysis, folded: Folded, counts: Counts, grouping: Grouping, options: AnalyzeOptions
) -> Analysis:
    ledger, aim = folded.ledger, folded.aim
    is_task, rules = aim == "task", options.rules
    within = not rules.one_attempt_per_row
    by_judge = JUDGE in options.by and options.judge is None and not rules.one_verdict_per_row
    several = by_judge and tallies.has_several_judges(ledger)
    asked = raw_names(name for name in options.by if not (several and name == JUDGE))
    broken = to_break_down(ledger, asked, aim)
    broken_down = ledger.meanwhile(lambda: summary.breakdowns(ledger, broken, grouping, options))
    # A case of a run is tried as often as was planned, whatever comes of it: there is no first success to wait for.
    won = () if is_task else tuple(tallies.attempts_to_success(ledger, several=within))
    categories, categories_left_out = summary.guardrail_categories(ledger, counts.tally.total, grouping, options)
    errors, errors_left_out = tallies.error_kinds(ledger, MOST_GROUPS)
    detailed = replace(
        analysis,
        dynamic=summary.dynamic(ledger, counts, grouping, options),
        asked=asked,
        guardrail_categories=categories,
        categories_left_out=categories_left_out,
        errors=tuple(errors),
        errors_left_out=errors_left_out,
        latency=tuple(tallies.latency(ledger)),
        attempts_to_success=won,
        success_within=summary.success_within(ledger, options.level) if within and not is_task else None,
        retries=summary.retries(ledger, grouping.column, options.level) if within else None,
        metrics=tuple(summary.metrics_of(ledger, grouping)) if is_task else (),
        flaky_cases=tuple(tallies.flaky_cases(ledger, CASES_SHOWN)) if is_task and within else (),
    )
    if several and isinstance(ledger, Ledger):
        detailed = replace(
            detailed,
            judges=tuple(summary.judge_figures(ledger, partial(_grouping_of_judged, folded, options))),
            judge_agreement=tuple(summary.judge_agreement(ledger, options.level)),
        )
    groups, slices = summary.read_breakdowns(ledger, broken_down(), grouping, options)
    return replace(
        detailed,
        breakdowns=groups,
        slices=slices,
        combinations=summary.combinations(ledger, groups, grouping, options),
        crossing=summary.crossing(ledger, groups, grouping, options) if options.figures else None,
    )


def role_of(ledger: LedgerView, sources: Sequence[Source]) -> str:
    """Return what kind of run the entries are of, see `Analysis.role`."""
    if sources and sources[0].aim == "task":
        return "tests"
    if sources and all(looks_benign(source.path) for source in sources):
        return "benign"
    if sources and all(reader_named(source.reader).of_models for source in sources):
        return "attacks"
    answers = tallies.kinds_of_answers(ledger)
    return "guardrail" if answers and not answers.get(AnswerKind.TEXT) else "attacks"


def _failed_cases(folded: Folded, options: AnalyzeOptions) -> Examples:
    """Return the cases of a run of tests that failed, with their texts."""
    return evidence.gather(
        folded.ledger,
        folded.read,
        evidence.FAILED_CASES,
        CASES_SHOWN,
        max_line=options.max_line,
        outcomes=(Outcome.FAILURE, Outcome.ERROR),
        spread=False,
    )


def _corrected_groups(analysis: Analysis, ledger: LedgerView, known: KnownJudge | None) -> Analysis:
    if known is None:
        return analysis
    from faircount.analysis.correct.correct import attacks_on_the_judge, with_corrected_groups

    corrected = with_corrected_groups(analysis, ledger, known)
    found = attacks_on_the_judge(corrected, ledger, known)
    return replace(corrected, findings=problems.ordered([*corrected.findings, *found]))


def _known_judge(
    folded: Folded, counts: Counts, grouping: Grouping, quality: Quality | None, options: AnalyzeOptions
) -> tuple[KnownJudge | None, list[Finding]]:
    if quality is None:
        # The metrics of tests are what is asked for; another tool's figures are its own.
        asked = folded.aim != "task" and options.rules.looks_for_problems
        return None, problems.unmeasured(folded.ledger) if asked else []
    if folded.aim == "task":
        raise UsageError("--judge-quality corrects the success rate of attacks, and these are test runs")
    from faircount.analysis.correct.correct import correct

    level, method = options.level, options.correction
    return correct(folded.ledger, counts, quality, level=level, method=method, family=grouping.column)


def _evidence(folded: Folded, options: AnalyzeOptions) -> Iterator[Examples]:
    for kind, limit in options.evidence:
        if limit:
            role = role_of(folded.ledger, folded.sources)
            shown_anyway = options.false_positive_checks is not None or (role == "tests" and not options.overview)
            if not kind and shown_anyway:
                continue
            wanted = kind or _BAD_NEWS[role]
            yield evidence.gather(folded.ledger, folded.read, wanted, limit, max_line=options.max_line)


def findings_of(folded: Folded, chosen: Sequence[Input], options: AnalyzeOptions) -> list[Finding]:
    found = problems.from_reading(folded.notes, options.rules)
    found += problems.from_inputs(chosen)
    found += problems.from_sources(folded.sources)
    found += problems.benign_among_attacks(folded.sources)
    if not options.rules.looks_for_problems:
        return found
    tally = summary.overall(folded.ledger, options).tally
    detected = options.guardrail_success == "detected"
    return found + problems.from_ledger(folded.ledger, tally, folded.sources, detected=detected)


def _false_positives(
    folded: Folded, grouping: Grouping, options: AnalyzeOptions, loader: Loader
) -> tuple[FalsePositives | None, list[Finding], list[Examples]]:
    """Return a guardrail measured, the problems with that, and examples of what it did wrong."""
    path = options.false_positive_checks
    if path is None:
        return None, [], []
    with fold_files([Input(path)], options, loader) as benign:
        tests = next((source.path for source in (*folded.sources, *benign.sources) if source.aim == "task"), None)
        if tests is not None:
            raise UsageError(f"--false-positive-checks measures a guardrail on attacks, and {tests} is a test run")
        attack_tally = summary.overall(folded.ledger, options).tally
        counts = summary.overall(benign.ledger, options)
        groupings = grouping, _grouping(benign, counts, options)
        result = summary.false_positives(attack_tally, counts.tally, benign.sources[0], groupings, options)
        found = findings_of(benign, [Input(path)], options)
        found = [replace(item, message=f"benign prompts: {item.message}") for item in found]
        found += summary.guardrail_findings(result, folded.ledger, benign.ledger, options)
        return result, found, list(_mistakes(folded, benign, options))


def _mistakes(folded: Folded, benign: Folded, options: AnalyzeOptions) -> Iterator[Examples]:
    """Yield the attacks that a guardrail let through and the benign prompts that it blocked."""
    limit = max((limit for kind, limit in options.evidence if not kind), default=0)
    if not limit:
        return
    raised_only = options.block_signal == "raised"
    allowed = (Outcome.SUCCESS, Outcome.FAILURE) if raised_only else (Outcome.SUCCESS,)
    blocked = (Outcome.GUARDRAIL,) if raised_only else (Outcome.FAILURE, Outcome.GUARDRAIL)
    for kind, side, outcomes in (("let through", folded, allowed), ("blocked", benign, blocked)):
        yield evidence.gather(
            side.ledger, side.read, kind, limit, max_line=options.max_line, outcomes=outcomes, spread=False
        )
