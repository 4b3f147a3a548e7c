"""The interface of judges: an attempt in, a verdict out.

A judge is a small object with a name, parameters and `decide`. Whoever has many attempts calls `verdict_of`, which
turns everything that can go wrong into an unjudged verdict: a judge that fails says nothing about the attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, get_args

from faircount.core.attempt import Attempt
from faircount.core.text import clip, mask_secrets
from faircount.core.verdict import Identity, Verdict

Turns = Literal["last", "any", "all"]
"""Which answers of a conversation, or of an attack with several requests, a judge wants to see: the last one alone, or
each by itself. Then what was recorded is a hit if any of them is one, or if all are."""
TURNS: tuple[Turns, ...] = get_args(Turns)

_LONGEST_ERROR = 300


class Judge:
    """What every judge is.

    A class of judges says what it is called (`name`, in the form `module.Name`), what a hit means (`looks_for`), and
    which `version` of its rules it follows; the number goes up with every change that could change a verdict. Its
    `__init__` takes parameters as keywords, each with a default where one makes sense, refuses wrong ones with
    `UsageError`, and hands them to `super().__init__` as they are to be written down: plain data.
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
        """What a model is told, for judges that ask one."""
        return None

    @property
    def identity(self) -> Identity:
        """Return who this judge is."""
        return Identity(self.name, self.version, self.parameters, self.prompt)

    def parts(self) -> Iterable[Judge]:
        """Return the judges that this one is made of."""
        return ()

    def ready(self) -> None:
        """Raise UsageError where the judge could decide nothing at all: a key that is missing, say."""

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
