"""The interface of judges: an attempt in, a verdict out; checks of their parameters; judges of other people's.

A judge is a small object with a name, parameters and `decide`. Whoever has many attempts calls `verdict_of`, which
turns everything that can go wrong into an unjudged verdict: a judge that fails says nothing about the attempt.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, get_args

from faircount.components.code import CodePlace, is_file_name
from faircount.core.attempt import Attempt
from faircount.core.errors import UsageError
from faircount.core.text import clip, mask_secrets, visible
from faircount.core.verdict import Decision, Identity, Verdict

Turns = Literal["last", "any", "all"]
"""Which answers of a conversation, or of an attack with several requests, a judge wants to see: the last one alone, or
each by itself. Then what was recorded is a hit if any of them is one, or if all are."""
TURNS: tuple[Turns, ...] = get_args(Turns)

_LONGEST_ERROR = 300


class Judge:
    """Base class of all judges.

    A class of judges has a `name` in the form `module.Name`, a description of a hit (`looks_for`), and the `version` of
    its rules, which goes up with every change that could change a verdict. Its
    `__init__` takes parameters as keywords, each with a default where one makes sense, refuses wrong ones with
    `UsageError`, and passes them to `super().__init__` as plain data, to be recorded.
    """

    name: ClassVar[str]
    looks_for: ClassVar[str]
    version: ClassVar[str] = "1"
    scores: bool = False
    """Whether its verdicts have scores with degrees, so that a threshold can be chosen."""
    string_matcher: bool = False
    """Whether it looks for given strings: such a judge is right by definition, and its F1 says little."""
    waits: bool = False
    """Whether it waits for a model or another program most of the time: many can be asked at once, in threads."""
    needs_response: bool = True
    """Whether an attempt without an answer is unjudged without asking it."""

    quick: bool = False
    """Whether it decides in less time than it takes to hand an attempt to another process."""
    turns: Turns = "last"
    """Which answers it asks for where several were recorded. `decide` gets one at a time all the same."""
    may_fork: bool = True
    """Whether it may decide in forked processes; not so where it holds threads or another library's state."""
    called: str = ""
    """How the user would name it: its canonical name, with the parameters that were given; set by whoever makes it."""

    def __init__(self, **parameters: Any) -> None:
        self.parameters: Mapping[str, Any] = parameters

    @property
    def prompt(self) -> str | None:
        """The prompt for the model, for judges that ask one."""
        return None

    @property
    def identity(self) -> Identity:
        """Return who this judge is."""
        return Identity(self.name, self.version, self.parameters, self.prompt)

    def parts(self) -> Iterable[Judge]:
        """Return the judges that this one is made of."""
        return ()

    def ready(self) -> None:
        """Raise UsageError if the judge could not decide anything, such as when a key is missing."""

    def decide(self, attempt: Attempt) -> Verdict:
        """Return the verdict on an attempt. What is raised here leaves the attempt unjudged."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what the judge holds: connections, processes."""
        for part in self.parts():
            part.close()


def verdict_of(judge: Judge, attempt: Attempt) -> Verdict:
    """Return what a judge says of an attempt; a judge that fails leaves it unjudged, with its error."""
    if attempt.response is None and judge.needs_response:
        return Verdict.unjudged("no response to judge")
    try:
        verdict: object = judge.decide(attempt)
    except Exception as error:  # noqa: BLE001  the outermost door of judges, which may be anybody's code
        return Verdict.unjudged(clip(mask_secrets(f"{type(error).__name__}: {error}"), _LONGEST_ERROR))
    if not isinstance(verdict, Verdict):
        return Verdict.unjudged(f"{judge.name} returned {type(verdict).__name__}, not a Verdict")
    return verdict


def every_part(judge: Judge) -> Iterator[Judge]:
    """Return a judge and all that it is made of."""
    yield judge
    for part in judge.parts():
        yield from every_part(part)


# -- checks of parameters -----------------------------------------------------------------------------------------

# Each returns the value as it is written down; what is wrong is refused with a sentence that names judge and parameter.

_LONGEST_QUOTE = 60
_FILE_MARK = "@"

Word = TypeVar("Word", bound=str)


def quoted(text: str) -> str:
    """Return a text as a reason or an error quotes it: visible, short, between quotation marks."""
    return f'"{clip(visible(text), _LONGEST_QUOTE)}"'


def check_texts(judge: str, parameter: str, value: object, *, empty: bool = False) -> tuple[str, ...]:
    """Return a parameter that is one text or a list of texts; an empty text only where it means something."""
    texts = [value] if isinstance(value, str) else value
    kind = "a string" if empty else "a non-empty string"
    if not isinstance(texts, list | tuple) or not texts:
        raise UsageError(f"{judge}: {parameter} must be {kind}, or a list of such strings")
    if not all(isinstance(text, str) and (text or empty) for text in texts):
        raise UsageError(f"{judge}: every item of {parameter} must be {kind}")
    return tuple(texts)


def written(texts: Sequence[str] | None) -> str | list[str] | None:
    """Return texts as a parameter is written down: one text by itself, several as a list."""
    if texts is None:
        return None
    return texts[0] if len(texts) == 1 else list(texts)


def check_flag(judge: str, parameter: str, value: object) -> bool:
    """Return a parameter that is true or false."""
    if not isinstance(value, bool):
        raise UsageError(f"{judge}: {parameter} must be true or false")
    return value


def check_number(judge: str, parameter: str, value: object, *, low: float = 0.0, high: float = math.inf) -> float:
    """Return a parameter that is a finite number from `low` to `high`."""
    # A whole number may be larger than any float: it is compared before it is made one.
    most = min(high, sys.float_info.max)
    if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= most:
        return float(value)
    limits = f"of at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
    raise UsageError(f"{judge}: {parameter} must be a number {limits}")


def check_choice(judge: str, parameter: str, value: object, choices: Sequence[Word]) -> Word:
    """Return a parameter that is one of a few words."""
    for choice in choices:
        if value == choice:
            return choice
    raise UsageError(f"{judge}: {parameter} must be one of {', '.join(choices)}")


def text_or_file(judge: str, parameter: str, value: object) -> str:
    """Return a text given as it is, or the content of the file whose path follows an @."""
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{judge}: {parameter} must be a non-empty string, or @ followed by the path of a file")
    if not value.startswith(_FILE_MARK):
        return value
    path = value.removeprefix(_FILE_MARK)
    try:
        content = Path(path).read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "not UTF-8 text"
        raise UsageError(f"{judge}: {parameter}: {visible(path)} cannot be read: {why}") from None
    if not content.strip():
        raise UsageError(f"{judge}: {parameter}: {visible(path)} is empty")
    return content


def check_share(judge: str, parameter: str, value: object) -> float:
    """Return a number above 0 and up to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise UsageError(f"{judge}: {parameter} must be a number above 0 and at most 1")
    return float(value)


def check_count(judge: str, parameter: str, value: object, *, least: int) -> int:
    """Return a whole number that is not below `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{judge}: {parameter} must be a whole number of at least {least}")
    return value


def check_names(judge: str, parameter: str, value: object) -> tuple[str, ...]:
    """Return a list of texts, none of them empty; one text stands for a list of one."""
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise UsageError(f"{judge}: {parameter} must be a list of non-empty strings")
    return tuple(text.strip() for text in texts)


def check_choices(judge: str, parameter: str, value: object, known: Iterable[str]) -> tuple[str, ...]:
    """Return a list of names that are all known, at least one."""
    names = check_names(judge, parameter, value)
    choices = tuple(known)
    wrong = [name for name in names if name not in choices]
    if wrong or not names:
        problem = f"has unknown names {', '.join(repr(name) for name in wrong)}" if wrong else "must name at least one"
        raise UsageError(f"{judge}: {parameter} {problem}; available: {', '.join(choices)}")
    return names


def texts_of_notes(attempt: Attempt, parameter: str) -> tuple[str, ...] | str:
    """Return the texts that `judge_args` of a record gives, or a sentence that says why there are none."""
    value: Any = attempt.notes.get("judge_args")
    texts = [value] if isinstance(value, str) else value
    if texts is None or texts in ([], [""]):
        return f"nothing to look for: no {parameter} given, and the record has no judge_args"
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        return "judge_args of the record is neither a string nor a list of strings"
    # An empty text stands in every response, and says nothing.
    return tuple(text for text in texts if text) or "judge_args of the record has only empty strings"


# -- judges of other people's -------------------------------------------------------------------------------------

_HIT_FROM = 0.5


class ThirdPartyJudge(Judge):
    """A judge whose name, version and purpose belong to the object, not to its class."""

    def __init__(self, name: str, version: str, looks_for: str, parameters: Mapping[str, Any]) -> None:
        super().__init__(**parameters)
        describe(self, name=name, version=version, looks_for=looks_for)


def describe(judge: Judge, **words: Any) -> None:
    """Set what a class of judges says of itself for one judge alone."""
    vars(judge).update(words)


def by_score(score: float, threshold: float, reason: str = "") -> Verdict:
    """Return a hit for a score that reaches a threshold; the score is kept where it is between 0 and 1."""
    if not math.isfinite(score):
        return Verdict.unjudged(f"the score is {score}")
    return Verdict(Decision.of(score >= threshold), score=share(score), reason=reason)


def share(score: object) -> float | None:
    """Return a score that is between 0 and 1; None for anything else."""
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        return None
    return float(score)


# A judge in the user's own code (`./file.py:Name`) is a subclass of Judge, a judge, or a function of an attempt that
# returns a Verdict, true or false, a score (it says so: `-> float`), or None where it cannot decide.


def adopt(place: CodePlace, version: str, judge: Judge) -> Judge:
    """Give a judge of the user's a version and, where its author gave it none, a name and a purpose."""
    words = {"version": version}
    if not isinstance(getattr(judge, "name", None), str):
        words["name"] = _canonical(place)
    if not isinstance(getattr(judge, "looks_for", None), str):
        words["looks_for"] = _first_line(type(judge).__doc__) or f"what {place.inner} looks for"
    describe(judge, **words)
    return judge


def _canonical(place: CodePlace) -> str:
    stem = Path(place.module).stem if is_file_name(place.module) else place.module.rpartition(".")[2]
    return f"{stem}.{place.inner}"


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


class FunctionJudge(ThirdPartyJudge):
    """A judge made of a function of an attempt; from a score of 0.5 on it is a hit."""

    def __init__(
        self, place: CodePlace, version: str, function: Callable[..., Any], parameters: Mapping[str, Any]
    ) -> None:
        looks_for = _first_line(function.__doc__) or f"what {place.inner} looks for"
        super().__init__(_canonical(place), version, looks_for, parameters)
        self._function = function
        self.waits = inspect.iscoroutinefunction(function)
        self.turns = getattr(function, "turns", self.turns)
        self.scores = "float" in str(inspect.signature(function).return_annotation)

    def decide(self, attempt: Attempt) -> Verdict:
        """Return what the function says."""
        answer = self._function(attempt, **self.parameters)
        return _verdict(_awaited(answer) if inspect.isawaitable(answer) else answer)


def _awaited(answer: Any) -> Any:
    """Wait for an answer, also in a thread whose own loop is at work."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    async def wait() -> Any:
        return await answer

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, wait()).result()


def _verdict(answer: Any) -> Verdict:
    # numpy's truth values and numbers are no bool and float, but can say what they are.
    value = answer.item() if hasattr(answer, "item") and not isinstance(answer, Verdict) else answer
    if isinstance(value, Verdict):
        return value
    if isinstance(value, Decision):
        return Verdict(value)
    if value is None:
        return Verdict.unjudged("the function returned None")
    if isinstance(value, bool):
        return Verdict(Decision.of(value))
    if isinstance(value, int | float) and 0 <= value <= 1:
        return by_score(float(value), _HIT_FROM)
    kind = f"{value!r}" if isinstance(value, int | float) else type(value).__name__
    raise ValueError(f"the function returned {kind}; expected a Verdict, true or false, a score from 0 to 1, or None")
