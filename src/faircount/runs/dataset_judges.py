"""Who judges which entry: the judge that the user names, or the one that the entry names if a file may name it.

A file never chooses code: it can name judges that compare strings, and those to which the user's configuration gives a
name. An entry for whose judge there is nothing to look for is not sent at all, because nothing would come of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from faircount.components.factory import Context
from faircount.core.errors import UsageError
from faircount.core.text import clip, visible
from faircount.io.lenient_json import BadLine
from faircount.judges.factory import JUDGES, STRING_JUDGES, make_judge, make_trusted_only
from faircount.judges.judge import Judge, written
from faircount.runs.cases import Case
from faircount.runs.entry_metric import EntryMetric

_BY_NOTES = {"canary.Canary": "canary", "strings.Regex": "regex"}
"""Judges that look for what stands in the `judge_args` of each entry, so that one of them does for all."""
_NAMES_TOLD = 5
_LONGEST_NAME = 60
_MOST_KEPT = 10_000

Bad = Callable[[Case, str], None]


class EntryJudges:
    """The judges of entries; each is made once and shared."""

    def __init__(self, setting: Context) -> None:
        self._setting = setting
        self._made: dict[Any, tuple[EntryMetric, ...]] = {}
        self._found: dict[tuple[str, str], tuple[EntryMetric, ...] | None] = {}
        self._patterns: dict[str, str] = {}
        self._unknown: dict[str, list[Any]] = {}

    def judged(self, cases: Iterable[Case], bad: Bad) -> list[Case]:
        """Return cases with their judges; `bad` hears of those that no judge can decide, which are left out.

        UsageError: there are entries without a judge that may be used.
        """
        found = list(self._each(cases, bad))
        if self._unknown:
            raise self._refusal()
        return found

    def _each(self, cases: Iterable[Case], bad: Bad) -> Iterator[Case]:
        for case in cases:
            fields = case.fields
            name, arguments = fields.get("judge_name"), fields.get("judge_args")
            try:
                metrics = self._known(name, arguments)
            except BadLine as reason:
                bad(case, str(reason))
                continue
            if metrics is None:
                self._unknown.setdefault(_name(name), [0, case.place])[0] += 1
                continue
            yield replace(case, metrics=metrics)

    def _known(self, name: Any, arguments: Any) -> tuple[EntryMetric, ...] | None:
        if type(name) is not str or type(arguments) is not str:
            return self._metrics(name, arguments)
        if (name, arguments) not in self._found:
            metrics = self._metrics(name, arguments)
            if len(self._found) >= _MOST_KEPT:
                return metrics
            self._found[name, arguments] = metrics
        return self._found[name, arguments]

    def _metrics(self, name: Any, arguments: Any) -> tuple[EntryMetric, ...] | None:
        """Return the judge that an entry names; None where a file may not name it."""
        if not isinstance(name, str) or not name:
            return None
        if name in self._setting.named:
            return self._once(name, lambda: make_judge(name, self._setting))
        known = JUDGES.built_in(name)
        if known is None or known.name not in STRING_JUDGES:
            return None
        texts = _texts(known.short, arguments)
        if known.name not in _BY_NOTES:
            return self._once((known.name, *texts), lambda: make_trusted_only(known.name, text=written(texts)))
        if known.name == "strings.Regex":
            self._check_patterns(texts)
        return self._once(known.name, lambda: make_trusted_only(known.name))

    def _once(self, key: Any, made: Callable[[], Judge]) -> tuple[EntryMetric, ...]:
        if key not in self._made:
            self._made[key] = (EntryMetric(made()),)
        return self._made[key]

    def _check_patterns(self, patterns: Iterable[str]) -> None:
        for pattern in patterns:
            if pattern not in self._patterns:
                self._patterns[pattern] = _wrong_with(pattern)
            if self._patterns[pattern]:
                raise BadLine(self._patterns[pattern])

    def _refusal(self) -> UsageError:
        told = [f"{visible(place)}: {name} ({_counted(count)})" for name, (count, place) in self._unknown.items()]
        more = len(told) - _NAMES_TOLD
        if more > 0:
            told[_NAMES_TOLD:] = [f"and {more:,} more names"]
        short = ", ".join(judge.short for judge in JUDGES.known if judge.name in STRING_JUDGES)
        total = _counted(sum(count for count, _ in self._unknown.values()))
        told.append(f"a dataset can name {short}, and judges that your configuration names")
        message = f"{total} cannot be judged; name a judge for all entries with --judge"
        error = UsageError("\n  ".join([message, *told]))
        error.further = tuple(told)
        return error


def judged_by(expression: str, setting: Context, cases: Iterable[Case]) -> list[Case]:
    """Return cases that one judge decides, which the user named."""
    metrics = (EntryMetric(make_judge(expression, setting)),)
    return [replace(case, metrics=metrics) for case in cases]


def _texts(judge: str, arguments: Any) -> tuple[str, ...]:
    """Return what a judge is to look for in the response, by the `judge_args` of an entry."""
    texts = [arguments] if isinstance(arguments, str) else arguments
    if texts is None or texts in ([], [""], ""):
        raise BadLine(f"the judge {judge} has nothing to look for: the entry has no judge_args")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadLine("judge_args is neither a string nor a list of strings")
    found = tuple(text for text in texts if text)
    if not found:
        raise BadLine("judge_args has only empty strings")
    return found


def _wrong_with(pattern: str) -> str:
    try:
        make_trusted_only("regex", pattern=pattern)
    except UsageError as error:
        return str(error)
    return ""


def _name(value: Any) -> str:
    if value is None or value == "":
        return "no judge named"
    return f"the judge {clip(visible(str(value)), _LONGEST_NAME)}"


def _counted(count: int) -> str:
    return f"{count:,} {'entry' if count == 1 else 'entries'}"
