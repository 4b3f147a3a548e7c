"""Cases, and which of them are run: by name, by a keyword expression and by tags; a random sample; a shard.

Tags are compared whole, and case matters, as it does where they are declared: `basic` chooses neither `bas` nor
`Basic`. Everything that is asked for must hold. A choice that leaves nothing is an error that says what there was. A
seed repeats a sample, and draws what other tools draw with it. To which shard an entry belongs depends on its place
in the dataset alone, so that every shard is chosen without the others and together they are the whole.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from faircount.core.errors import UsageError
from faircount.core.findings import counted
from faircount.core.text import clip, visible
from faircount.core.verdict import Decision, Verdict
from faircount.query import parse_keyword
from faircount.readers.aggregation import all_passed, any_hit
from faircount.readers.journals import (
    AttemptsRecord,
    CaseRecord,
    InputRecord,
    MetricRecord,
    OutputRecord,
    State,
)
from faircount.runs.seeding import rng_for
from faircount.testing.fields import plain

OUTPUT_FIELDS = ("output", "tools_called", "context", "execution_time")


class CaseMetric(Protocol):
    """What measures the answers of a case: a metric of a test, or the judge of an entry."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...
    @property
    def blocking(self) -> bool: ...
    @property
    def judge(self) -> Any: ...
    @property
    def digest(self) -> str: ...
    def ready(self) -> None: ...
    def close(self) -> None: ...
    def measure(self, case: Case, output: OutputRecord) -> Verdict: ...


class Case(Struct, frozen=True, kw_only=True):
    """What is asked of a target, what is expected, how it is measured, how often it is tried.

    `messages` are in OpenAI's shape, without what is not there. `expected` has all fields of an output, and
    `expected_fields` says which of them somebody gave. `fields` is what a dataset says of an entry.
    """

    name: str
    messages: tuple[Mapping[str, Any], ...]
    metrics: tuple[CaseMetric, ...]
    attempts: int = 1
    place: str = ""
    tags: tuple[str, ...] = ()
    api_params: Mapping[str, Any] = {}
    expected: Mapping[str, Any] = {}
    expected_fields: tuple[str, ...] = ()
    fields: Mapping[str, Any] = {}

    def is_called(self, name: str) -> bool:
        """Return whether a name means this case."""
        return name == self.name

    @property
    def units(self) -> int:
        """How much there is to do, as progress counts it."""
        raise NotImplementedError

    def units_done(self, state: State) -> int:
        """Return how much of it a journal has a record of."""
        raise NotImplementedError

    def success(self, decisions: Iterable[Decision | None]) -> bool | None:
        """Return what the verdicts on an attempt come to."""
        raise NotImplementedError

    def record(self) -> CaseRecord:
        """Return what is written down about the case."""
        raise NotImplementedError

    def _recorded(self) -> dict[str, Any]:
        metrics = [
            MetricRecord(one.name, one.type, one.version, dict(one.parameters), one.digest) for one in self.metrics
        ]
        asked = InputRecord(list(self.messages), plain(self.api_params) if self.api_params else {})
        return {"case": self.name, "input": asked, "metrics": metrics, "place": self.place}


class TaskCase(Case, frozen=True, kw_only=True):
    """A case of a test: its attempts do not depend on each other, and all its metrics must pass one.

    `function` and `suite` are the names that it comes from; `declared_name` is its name before a number made it unique,
    empty where none did.
    """

    aggregation: str = "mean"
    expected_fields: tuple[str, ...] = OUTPUT_FIELDS
    function: str = ""
    suite: str = ""
    declared_name: str = ""

    def is_called(self, name: str) -> bool:
        """Return whether a name means this case: its own, or that of its suite or function."""
        return name in (self.name, self.declared_name, self.suite, self.function)

    @property
    def units(self) -> int:
        """Its attempts."""
        return self.attempts

    def units_done(self, state: State) -> int:
        """Return how many attempts have a record."""
        return sum(state.is_done(self.name, attempt) for attempt in range(self.attempts))

    def success(self, decisions: Iterable[Decision | None]) -> bool | None:
        """Return whether all metrics passed an attempt."""
        return all_passed(decisions)

    def record(self) -> CaseRecord:
        """Return what is written down about the case."""
        return CaseRecord(
            **self._recorded(),
            tags=list(self.tags),
            expected_output=dict(self.expected),
            expected_fields=list(self.expected_fields),
            retry_params=AttemptsRecord(self.attempts, self.aggregation),
            declared_name=self.declared_name,
        )


class AttackCase(Case, frozen=True, kw_only=True):
    """An entry of a dataset: its attempts follow each other and end with the first success.

    There are up to `attempts` that were answered. `turns` are further messages of the user, sent one after the other
    once the one before was answered.
    """

    turns: tuple[str, ...] = ()

    @property
    def units(self) -> int:
        """The entry itself."""
        return 1

    def units_done(self, state: State) -> int:
        """Return 1 if nothing more is to be tried."""
        return int(state.is_finished(self.name))

    def success(self, decisions: Iterable[Decision | None]) -> bool | None:
        """Return whether any judge found what it looks for."""
        return any_hit(decisions)

    def record(self) -> CaseRecord:
        """Return what is written down about the entry."""
        prompt = self.messages[-1].get("content") if self.messages else None  # is in `input` already
        fields = {name: value for name, value in self.fields.items() if value != prompt}
        return CaseRecord(**self._recorded(), entry=fields, turns=list(self.turns) or ())


class RunCases(Struct, frozen=True):
    """The cases that are run, the files that they come from with their SHA-256, and what is to be said about them."""

    cases: tuple[Case, ...]
    files: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


# -- selecting -------------------------------------------------------------------------------------------------------


_MOST_NAMES = 10


SomeCase = TypeVar("SomeCase", bound=Case)


class Selection(Struct, frozen=True):
    """What is asked for; what is empty asks for nothing.

    `keyword` is an expression of words in the name of a case. `tags`: a case has one of them at least; `exclude_tags`:
    it has none of them. `names`: it is called one of them, or its suite or function is.
    """

    keyword: str | None = None
    tags: tuple[str, ...] = ()
    exclude_tags: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class Selected(Struct, Generic[SomeCase], frozen=True):
    """The cases that are wanted, in their order, and remarks about what was asked for and is not there."""

    cases: tuple[SomeCase, ...]
    notes: tuple[str, ...] = ()


def read_tags(*texts: str) -> tuple[str, ...]:
    """Return the tags that texts name, separated by commas."""
    tags = (tag.strip() for text in texts for tag in text.split(","))
    return tuple(dict.fromkeys(tag for tag in tags if tag))


def select(cases: Sequence[SomeCase], selection: Selection) -> Selected[SomeCase]:
    """Return the cases that a selection means; UsageError where it means none, or cannot be understood."""
    keyword = None if selection.keyword is None else parse_keyword(selection.keyword)
    wanted, unwanted, names = set(selection.tags), set(selection.exclude_tags), selection.names
    chosen = [
        case
        for case in cases
        if (not names or any(case.is_called(name) for name in names))
        and (keyword is None or keyword.matches({"name": case.name}))
        and (not wanted or wanted & set(case.tags))
        and not unwanted & set(case.tags)
    ]
    if not chosen:
        raise UsageError(_nothing(cases, selection))
    return Selected(tuple(chosen), _notes(cases, selection))


def _notes(cases: Sequence[Case], selection: Selection) -> tuple[str, ...]:
    tags = _tags(cases)
    unknown = [tag for tag in (*selection.tags, *selection.exclude_tags) if tag not in tags]
    notes = [f'no case has the tag "{visible(tag)}"; available: {_some(tags)}' for tag in dict.fromkeys(unknown)]
    for name in selection.names:
        if not any(case.is_called(name) for case in cases):
            notes.append(f'no case named "{visible(name)}"')
    return tuple(notes)


def _nothing(cases: Sequence[Case], selection: Selection) -> str:
    lines = [f"{_asked(selection)} selects none of {counted(len(cases), 'case')}"]
    lines.append(f"  cases: {_some([case.name for case in cases])}")
    if selection.tags or selection.exclude_tags:
        lines.append(f"  tags: {_some(_tags(cases))}")
    return "\n".join(lines)


def _asked(selection: Selection) -> str:
    asked = []
    if selection.names:
        asked.append(f"the name {', '.join(visible(name) for name in selection.names)}")
    if selection.keyword is not None:
        asked.append(f"--keyword {visible(selection.keyword)}")
    if selection.tags:
        asked.append(f"--tags {visible(','.join(selection.tags))}")
    if selection.exclude_tags:
        asked.append(f"--exclude-tags {visible(','.join(selection.exclude_tags))}")
    return " with ".join(asked) or "the choice"


def _tags(cases: Sequence[Case]) -> list[str]:
    return sorted({tag for case in cases for tag in case.tags})


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(visible(name) for name in names[:_MOST_NAMES]) + more if names else "none"


# -- samples ------------------------------------------------------------------------------------------------------


_COUNT = re.compile(r"[0-9]{1,12}")
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:e-?[0-9]{1,3})?", re.IGNORECASE)
_SEED = re.compile(r"-?[0-9]{1,40}")
_LONGEST = 40

Item = TypeVar("Item")


def draw_sample(items: Sequence[Item], sample: str, seed: str) -> tuple[Item, ...]:
    """Return the part of items that `sample` asks for, in the order in which they were drawn.

    `0.25` and `25%` are shares of all, `100` is a number of entries.
    """
    size = sample_size(sample, len(items))
    return tuple(random.Random(read_seed(seed)).sample(items, size))


def sample_size(sample: str, total: int) -> int:
    """Return how many of `total` entries are asked for; UsageError where that is none, or not to be understood."""
    text, shown = sample.strip(), clip(visible(sample), _LONGEST)
    number = text.removesuffix("%").strip()
    if _COUNT.fullmatch(text):
        size = min(int(text), total)
    else:
        share = float(number) if _NUMBER.fullmatch(number) else 0.0
        share = share / 100 if text.endswith("%") else share
        if not (math.isfinite(share) and 0 < share <= 1):
            raise UsageError(f"--sample {shown}: write a share such as 0.25 or 25%, or a number of entries such as 100")
        # Halves are rounded to the even number, as other tools round them.
        size = round(total * share)
    if size < 1:
        raise UsageError(f"--sample {shown} draws none of {counted(total, 'entry', 'entries')}")
    return size


def read_seed(seed: str) -> int:
    """Return the number that a seed is."""
    if not _SEED.fullmatch(seed.strip()):
        raise UsageError(f"--sample-seed {clip(visible(seed), _LONGEST)}: write a whole number, or the word random")
    return int(seed)


# -- shards -------------------------------------------------------------------------------------------------------


class Shard(Struct, frozen=True):
    """One of `count` parts; `number` counts from 1."""

    number: int
    count: int

    def of(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """Return the part: every k-th, so that what stands together in a dataset is spread over all."""
        return items[self.number - 1 :: self.count]

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def in_random_order(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Return items in an order that is drawn at random, and always the same."""
    order = list(items)
    rng_for(0, "order", len(order)).shuffle(order)
    return tuple(order)
