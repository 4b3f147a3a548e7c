"""The commands `run`, `resume` and `plan`."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import os
import shlex
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from faircount.analysis.arrange import as_report
from faircount.analysis.document import document
from faircount.analysis.options import AnalyzeOptions
from faircount.analysis.plan_report import as_report as plan_report
from faircount.analysis.results import analyze
from faircount.cli.gating import against_baseline, apply_gates, fields_of_gates, read_gates
from faircount.cli.judge_setting import setting_of
from faircount.cli.output import show, show_pages
from faircount.cli.run_progress import RunProgress
from faircount.errors import UsageError
from faircount.findings import counted
from faircount.judging.making import Setting
from faircount.present.new_file import NewFile
from faircount.running import resuming, runs
from faircount.running.case import Case
from faircount.running.engine import Ending, Limits
from faircount.running.journal import Journal
from faircount.running.journal_reading import read_journal
from faircount.running.report_document import case_reports, is_report_of, report_pieces, totals_of
from faircount.running.runs import Choice, Settings
from faircount.running.selecting import Selection, read_tags
from faircount.running.targets.making import TargetSetting, again, make_target
from faircount.running.targets.seam import Target
from faircount.text import visible

EXIT_FAILED_TESTS, EXIT_INCOMPLETE, EXIT_INTERRUPTED = 1, 4, 130
_ABOUT_MODELS = ("model", "base_url", "api_key_env")
_GRACE = 2.0
"""How long, in seconds, code of the user's may keep a run that was interrupted twice from ending."""


def run(arguments: argparse.Namespace) -> int:
    """Run `run`."""
    read_gates(arguments, compared=arguments.baseline is not None)
    limits = _limits(arguments)
    setting = _setting(arguments)
    chosen = runs.choose(_choice(arguments), setting)
    for note in chosen.notes:
        _say(note)
    target = make_target(arguments.target, _target_setting(arguments, setting))
    runs.make_ready(chosen.cases)
    settings = Settings(
        choice=_choice(arguments),
        files=chosen.files,
        target=target.settings(),
        limits=limits,
        output_folder=arguments.output_folder,
        timestamp=time.strftime(runs.TIMESTAMP),
        report_layout=arguments.report_layout,
        folder=str(Path.cwd()),
        config=arguments.config,
        judges={name: getattr(arguments, name) for name in _ABOUT_MODELS},
    )
    journal = _journal(arguments, settings, chosen.cases)
    ending = _execute(chosen.cases, target, journal, settings.limits)
    return _finish(arguments, settings, journal.path, ending)


def resume(arguments: argparse.Namespace) -> int:
    """Run `resume`."""
    path = str(Path(arguments.journal).absolute())
    settings = runs.settings_of(path)
    resuming.in_its_folder(settings, path)
    limits = {
        name: value
        for name in ("concurrency", "max_calls", "max_cost")
        if (value := getattr(arguments, name)) is not None
    }
    settings = replace(settings, limits=_checked(replace(settings.limits, **limits)))
    setting = _setting(argparse.Namespace(config=settings.config, **settings.judges))
    cases = resuming.same_tests(path, settings, setting)
    if resuming.is_over(path, cases) and not (arguments.retry_errors and read_journal(path).state().errors):
        _say("the run is complete: there is nothing to do")
        return _finish(arguments, settings, path, Ending(complete=True))
    target = again(settings.target)
    runs.make_ready(cases)
    for name in resuming.changed_metrics(path, cases):
        _say(f"{name}: this metric has changed since the run began; what it says now may not be comparable")
    resumed = resuming.resume(path, cases, retry_errors=arguments.retry_errors)
    if resumed.sent_before:
        under_way = counted(len(resumed.sent_before), "request")
        _say(f"sent again, because the run was stopped while they were under way: {under_way}")
    ending = _execute(cases, target, resumed.journal, settings.limits, resumed)
    return _finish(arguments, settings, path, ending)


def plan(arguments: argparse.Namespace) -> int:
    """Run `plan`."""
    from faircount.chat.prices import Prices
    from faircount.running.planning import planned

    if arguments.output_format == "html" and arguments.output is None:
        raise UsageError("--output-format html: name the page with -o")
    setting = _setting(arguments)
    chosen = runs.choose(_choice(arguments), setting)
    for note in chosen.notes:
        _say(note)
    model = setting.chat.model if setting.chat is not None else None
    prices = Prices(setting.chat.prices if setting.chat is not None else {})
    report = plan_report(planned(chosen.cases, model or None, prices))
    if arguments.output_format == "html":
        show_pages([("plan", report)], arguments.output)
    else:
        show(report, arguments.output_format, arguments.output)
    return 0


# -- from the words to what is meant ----------------------------------------------------------------------------


def _setting(arguments: argparse.Namespace) -> Setting:
    return setting_of(argparse.Namespace(**{**dict.fromkeys(_ABOUT_MODELS), **vars(arguments)}))


def _choice(arguments: argparse.Namespace) -> Choice:
    paths = (*arguments.paths, *arguments.test_dir)
    if not paths:
        raise UsageError("no tests given: name a test file or a folder with test files")
    selection = Selection(
        keyword=arguments.keyword,
        tags=read_tags(*arguments.tags),
        exclude_tags=read_tags(*arguments.exclude_tags),
        names=tuple(arguments.case),
    )
    return Choice(paths, selection, arguments.retries, arguments.aggregation)


def _target_setting(arguments: argparse.Namespace, setting: Setting) -> TargetSetting:
    from faircount.chat.settings import ChatSettings

    chat = setting.chat or ChatSettings()
    told = {"timeout": arguments.timeout, "tries": arguments.tries, "concurrency": arguments.concurrency}
    if arguments.requests_per_minute is not None:
        told["requests_per_minute"] = arguments.requests_per_minute  # of what the transport sends again, too
    return TargetSetting(
        chat=replace(chat, **told),
        target_args=arguments.target_args,
        api_config=arguments.api_config,
        api_client_module=arguments.api_client_module,
        api_client_class=arguments.api_client_class,
        api_client_args=arguments.api_client_args,
    )


def _limits(arguments: argparse.Namespace) -> Limits:
    for name in ("timeout", "tries"):
        _refuse_nonsense(name, getattr(arguments, name))
    return _checked(
        Limits(
            concurrency=arguments.concurrency,
            requests_per_minute=arguments.requests_per_minute,
            # Every try has the time that --timeout gives it, and pauses between tries come on top.
            timeout=arguments.tries * (arguments.timeout + 60.0),
            max_calls=arguments.max_calls,
            max_cost=arguments.max_cost,
            stop_after_errors=arguments.stop_after_errors,
        )
    )


def _checked(limits: Limits) -> Limits:
    for name in ("concurrency", "requests_per_minute", "max_calls", "max_cost", "stop_after_errors"):
        _refuse_nonsense(name, getattr(limits, name))
    return limits


def _refuse_nonsense(name: str, value: float | None) -> None:
    if value is not None and not 0 < value < math.inf:
        raise UsageError(f"--{name.replace('_', '-')} must be more than 0")


def _journal(arguments: argparse.Namespace, settings: Settings, cases: Sequence[Case]) -> Journal:
    """Make the journal: where the user says, or under a name that nothing has yet."""
    folder = Path(arguments.journal).parent if arguments.journal is not None else Path(settings.output_folder)
    for needed in (folder, Path(settings.output_folder)):
        try:
            needed.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{needed}: cannot be made: {error.strerror or error}") from error
    if arguments.journal is not None:
        return runs.begin(arguments.journal, settings, cases)
    for name in _free_names(f"run_{settings.timestamp}"):
        path = folder / f"{name}.jsonl"
        try:
            return runs.begin(str(path), settings, cases)
        except UsageError:
            if not path.exists():
                raise
    raise AssertionError("there is always a free name")


def _free_names(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}_{number}" for number in itertools.count(2))


# -- running, and what comes after ------------------------------------------------------------------------------


def _execute(
    cases: Sequence[Case],
    target: Target,
    journal: Journal,
    limits: Limits,
    resumed: resuming.Resumed | None = None,
) -> Ending:
    with RunProgress() as progress:

        def interrupted(number: int) -> None:
            if number == 1:
                progress.interrupt("finishing what is under way; interrupt again to stop at once")
            elif number == 2:
                _stop_soon(journal.path)

        return runs.execute(
            cases,
            target,
            journal,
            limits,
            state=None if resumed is None else resumed.state,
            sent_before=None if resumed is None else resumed.sent_before,
            heard=progress.heard,
            interrupted=interrupted,
        )


def _stop_soon(path: str) -> None:
    """End this process in a moment, whatever the user's code is doing; the journal is valid at any time."""

    def stop() -> None:
        _say(f"the run is not complete: interrupted; go on with: faircount resume {shlex.quote(path)}")
        os._exit(EXIT_INTERRUPTED)

    watch = threading.Timer(_GRACE, stop)
    watch.daemon = True
    watch.start()


def _finish(arguments: argparse.Namespace, settings: Settings, path: str, ending: Ending) -> int:
    """Write the report, print the analysis and return the exit code; a run that is stopped at once gets neither."""
    if ending.aborted:
        return _exit_code(arguments, path, ending)
    report, failure = "", None
    try:
        report = _write_report(path, settings)
    except UsageError as error:
        failure = error  # the analysis can be printed nevertheless
    analysis = None
    if read_journal(path).state().done:
        analysis = _print_analysis(path, arguments)
    _say(f"journal: {path}")
    if failure is not None:
        raise failure
    # A path of the folder in which the run was begun says nothing to those who resume it from elsewhere.
    _say(f"report: {Path(report).absolute() if Path(path).is_absolute() else report}")
    return _exit_code(arguments, path, ending) or _gates(arguments, path, analysis)


def _gates(arguments: argparse.Namespace, path: str, analysis: Mapping[str, Any] | None) -> int:
    """Judge the gates of a run that is complete; a resumed one has none."""
    if analysis is None or not hasattr(arguments, "fail_on"):
        return 0
    comparison = against_baseline(arguments, [path])
    return apply_gates(arguments, analysis=analysis, comparison=comparison, inputs=[path])


def _write_report(path: str, settings: Settings) -> str:
    """Write the report of a run over its own of before, but never over that of another run."""
    reader = read_journal(path)
    for target in runs.report_paths(settings):
        if Path(target).exists() and not is_report_of(target, reader.header):
            continue
        pieces = report_pieces(reader, settings.timestamp, settings.report_layout)
        try:
            with NewFile(target, force=Path(target).exists()) as new:
                new.write_all(pieces)
        except UsageError as error:
            if Path(target).exists() and not is_report_of(target, reader.header):
                continue  # another run took the name in this moment
            later = f"faircount resume {shlex.quote(path)}"
            raise UsageError(
                f"{error}; the run itself is safe in its journal, and {later} writes its report"
            ) from error
        return target
    raise AssertionError("there is always a free name")


def _print_analysis(path: str, arguments: argparse.Namespace) -> Mapping[str, Any]:
    """Print the analysis of a run, and return it as a document."""
    by = fields_of_gates(read_gates(arguments)) if hasattr(arguments, "fail_on") else ()
    result = analyze([path], AnalyzeOptions(cache=False, by=by))
    output_format = arguments.output_format
    try:
        show(as_report(result.analyses, figures=output_format == "markdown"), output_format, None)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has seen enough; how the run ended is still to be told, by the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return document(result.analyses)


def _exit_code(arguments: argparse.Namespace, path: str, ending: Ending) -> int:
    if not ending.complete:
        _say(f"the run is not complete: {ending.why}; go on with: faircount resume {shlex.quote(path)}")
        return EXIT_INTERRUPTED if ending.interrupted else EXIT_INCOMPLETE
    if arguments.fail_on_failed_tests:
        reader = read_journal(path)
        failed = totals_of(case_reports(reader, reader.state())).failed
        if failed:
            _say(f"--fail-on-failed-tests: {failed:,} of {len(reader.state().cases):,} cases failed")
            return EXIT_FAILED_TESTS
    return 0


def _say(sentence: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(f"faircount: {visible(sentence)}", file=sys.stderr, flush=True)  # noqa: T201
