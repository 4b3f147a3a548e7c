"""What judges of other people's have in common: who they are is known only when they are made, and they may print.

Standard output belongs to answers: what such code prints while it is loaded or asked goes to standard error.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import math
import sys
import threading
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from faircount.core.verdict import Decision, Verdict
from faircount.errors import UsageError
from faircount.judging.judge import Judge
from faircount.text import clip, mask_secrets

_LONGEST = 200
_printing = threading.RLock()


class OutsideJudge(Judge):
    """A judge whose name, version and purpose belong to the object, not to its class."""

    def __init__(self, name: str, version: str, looks_for: str, parameters: Mapping[str, Any]) -> None:
        super().__init__(**parameters)
        call_it(self, name=name, version=version, looks_for=looks_for)


def call_it(judge: Judge, **words: Any) -> None:
    """Set what a class of judges says of itself for one judge alone."""
    vars(judge).update(words)


@contextlib.contextmanager
def printing_aside() -> Iterator[None]:
    """Let what is printed in here go to standard error; one at a time, since the stream belongs to the process."""
    with _printing, contextlib.redirect_stdout(sys.stderr):
        yield


def is_there(module: str) -> bool:
    """Tell whether a package can be imported, without importing it."""
    try:
        with printing_aside():
            return importlib.util.find_spec(module) is not None
    except Exception:  # noqa: BLE001  to find a part of a package, the package itself is imported
        return False


def version_of(distribution: str) -> str:
    """Return the version of an installed package."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def imported(module: str, prefix: str, distribution: str) -> ModuleType:
    """Import a module of a package that may be missing."""
    if not is_there(module.partition(".")[0]):
        raise UsageError(f"{prefix}: needs the package {distribution}; install it: pip install {distribution}")
    try:
        with printing_aside():
            return importlib.import_module(module)
    except (Exception, SystemExit) as error:  # another package can fail in any way
        raise UsageError(f"{prefix}: {module} cannot be imported: {in_short(error)}") from error


def in_short(error: BaseException) -> str:
    """Return what an error of other people's code says, on one line and without secrets."""
    words = str(error).strip().partition("\n")[0]
    return clip(mask_secrets(f"{type(error).__name__}: {words}" if words else type(error).__name__), _LONGEST)


def refuse_unknown(judge: str, given: Mapping[str, Any], known: Iterator[str] | list[str]) -> None:
    """Raise UsageError for a parameter that a judge does not take."""
    names = list(known)
    for name in given:
        if name not in names:
            has = f"it takes {', '.join(names)}" if names else "it takes none"
            raise UsageError(f"{judge}: has no parameter {name}; {has}")


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
