"""From paths to cases: files are found, executed once each in their order, and what they declare becomes cases.

Everything that is wrong in any of the files is told at once. No request is made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from faircount.core.errors import FaircountError, InputError
from faircount.core.text import visible
from faircount.runs.cases import TaskCase
from faircount.runs.discovery import TestFile, discover
from faircount.runs.executing import Executed, execute, forget
from faircount.runs.suites import cases_of

if TYPE_CHECKING:
    from faircount.components.factory import Context

_MOST_NAMES = 10


class Collected(Struct, frozen=True):
    """The cases of all files in their order, the files with their SHA-256, and what gave no cases.

    `passed_over` are the Python files in folders that are not called tests, `without_cases` the test files that
    declare nothing.
    """

    cases: tuple[TaskCase, ...]
    files: tuple[tuple[str, str], ...]
    passed_over: tuple[str, ...] = ()
    without_cases: tuple[str, ...] = ()


def collect(paths: Sequence[str], *, setting: Context | None = None) -> Collected:
    """Return the cases of test files and folders; `path::name` takes the cases of one function, suite or name.

    `setting` is what judges that files name are made with. InputError: a file cannot be used, two cases have the same
    name, or there are no cases.
    """
    discovered = discover(paths)
    forget()
    others = frozenset(file.real for file in discovered.files)
    problems: list[str] = []
    executed: list[tuple[Executed, list[TaskCase]]] = []
    for file in discovered.files:
        try:
            done = execute(file, others, setting)
        except FaircountError as error:
            problems.append(str(error))
        else:
            executed.append((done, _cases(done, problems)))
    problems += _clashes(case for _, cases in executed for case in cases)
    if not problems:
        problems += _missing([(done.file, cases) for done, cases in executed])
    if problems:
        raise InputError(_told(problems))
    cases = [case for done, own in executed for case in _wanted(done.file, own)]
    without = [done.file.path for done, _ in executed if not done.suites]
    if not cases:
        raise InputError(_no_cases(without, discovered.passed_over))
    files = tuple((done.file.path, done.digest) for done, _ in executed)
    return Collected(tuple(cases), files, discovered.passed_over, tuple(without))


def _cases(done: Executed, problems: list[str]) -> list[TaskCase]:
    cases: list[TaskCase] = []
    for suite in done.suites:
        try:
            cases += cases_of(suite)
        except FaircountError as error:
            problems.append(str(error))
    return list(_numbered(cases))


def _numbered(cases: Iterable[TaskCase]) -> Iterator[TaskCase]:
    """Yield the cases of a file; where groups of one test share a name, that of the second gets #2, and so on."""
    named: dict[str, list[TaskCase]] = {}
    for case in cases:
        before = named.setdefault(case.name, [])
        if before and all(_is_other_group(other, case) for other in before):
            yield replace(case, name=f"{case.name} #{len(before) + 1}", declared_name=case.name)
        else:
            yield case
        before.append(case)


def _is_other_group(one: TaskCase, other: TaskCase) -> bool:
    """Return whether two cases ask the same and are measured by different metrics, as two groups of one test are.

    REBEL keeps results apart by the names of case and metric, and merges those with the same two names: an error here.
    """
    same = ("function", "messages", "api_params", "expected")
    metrics = {metric.name for metric in one.metrics} & {metric.name for metric in other.metrics}
    return not metrics and all(getattr(one, field) == getattr(other, field) for field in same)


def _wanted(file: TestFile, cases: list[TaskCase]) -> list[TaskCase]:
    """Return the cases of a file that were asked for."""
    return [case for case in cases if not file.names or any(case.is_called(name) for name in file.names)]


def _missing(files: list[tuple[TestFile, list[TaskCase]]]) -> list[str]:
    """Return what is to be said of names that no case has, in none of the files that were asked for it."""
    problems = []
    for name in dict.fromkeys(name for file, _ in files for name in file.names):
        asked = [(file, cases) for file, cases in files if name in file.names]
        there = [case for _, cases in asked for case in cases]
        if not any(case.is_called(name) for case in there):
            where = ", ".join(visible(file.path) for file, _ in asked[:_MOST_NAMES])
            more = ", …" if len(asked) > _MOST_NAMES else ""
            problems.append(f"{where}{more}: no test named {visible(name)}{_instead(name, there)}")
    return problems


def _instead(name: str, cases: list[TaskCase]) -> str:
    known = list(dict.fromkeys(name for case in cases for name in (case.function, case.suite, case.name)))
    close = get_close_matches(name, known, _MOST_NAMES) or list(dict.fromkeys(case.function for case in cases))
    some = ", ".join(visible(name) for name in close[:_MOST_NAMES])
    return f"; available: {some}{', …' if len(close) > _MOST_NAMES else ''}" if some else "; there are no tests"


def _clashes(cases: Iterable[TaskCase]) -> list[str]:
    first: dict[str, TaskCase] = {}
    problems = []
    for case in cases:
        before = first.setdefault(case.name, case)
        if before is not case:
            problems.append(_clash(before, case))
    return problems


def _clash(before: TaskCase, case: TaskCase) -> str:
    name = visible(case.name)
    if before.place == case.place and before.metrics is case.metrics:
        return f"{visible(case.place)}: two cases are both named {name}: two values of the grid are written the same"
    places = f"{visible(before.place)} and {visible(case.place)}"
    return f"two cases are both named {name}, at {places}; rename one, or give its TestGroup a postfix"


def _told(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return "\n".join([f"the tests cannot be run, for {len(problems)} reasons:", *(f"  {line}" for line in problems)])


def _no_cases(without: list[str], passed_over: Sequence[str]) -> str:
    some = ", ".join(visible(path) for path in without[:_MOST_NAMES]) + (", …" if len(without) > _MOST_NAMES else "")
    message = f"{some}: no cases; a test is a function decorated with @test_case from faircount.testing"
    if not passed_over:
        return message
    others = ", ".join(visible(path) for path in passed_over[:_MOST_NAMES])
    return f"{message}; skipped: {others}{', …' if len(passed_over) > _MOST_NAMES else ''}"
