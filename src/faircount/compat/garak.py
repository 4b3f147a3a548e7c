"""garak's detectors: `garak:dan.DAN`, `garak:mitigation.MitigationBypass(threshold=0.7)`.

A score from `threshold` on (0.5) is a hit; a detector that gives no score leaves the attempt unjudged. Other parameters
are those of the detector. garak writes a log of everything as soon as it is imported, responses included: here it gets
none, unless the user asked for one with GARAK_LOG_FILE.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from faircount.components.code import imported, in_short, is_there, printing_aside, refuse_unknown, version_of
from faircount.core.attempt import Attempt
from faircount.core.errors import UsageError
from faircount.core.string_judges import is_garak_string_detector
from faircount.core.verdict import Verdict
from faircount.judges.judge import ThirdPartyJudge, by_score, check_number

if TYPE_CHECKING:
    from faircount.chat.settings import ChatSettings

_TARGET = re.compile(r"(?:detectors\.)?([A-Za-z_][A-Za-z0-9_]*)\.([A-Za-z_][A-Za-z0-9_]*)")
_THRESHOLD = 0.5
_LOG = "GARAK_LOG_FILE"
_ROLES = ("system", "user", "assistant")
_ANY_LANGUAGE = "*"


class GarakJudge(ThirdPartyJudge):
    """One of garak's detectors."""

    def __init__(self, target: str, parameters: Mapping[str, Any], chat: ChatSettings | None) -> None:
        del chat  # garak's detectors have their own way to models, by their parameters
        found = _TARGET.fullmatch(target)
        if found is None:
            raise UsageError(f"garak:{target}: a detector has the form garak:module.Name, such as garak:dan.DAN")
        name = f"garak:{found[1]}.{found[2]}"
        with _without_log():
            self._attempts = imported("garak.attempt", name, "garak")
            module = _module(name, found[1])
            kind = _kind(name, module, found[2])
            own = {key: value for key, value in parameters.items() if key != "threshold"}
            refuse_unknown(name, own, ["threshold", *getattr(kind, "DEFAULT_PARAMS", {})])
            self._threshold = check_number(name, "threshold", parameters.get("threshold", _THRESHOLD), high=1.0)
            self._detector = _detector(name, kind, found[1], own)
        looks_for = str(getattr(kind, "hit_desc", "")) or f"what {name} looks for"
        super().__init__(name, version_of("garak"), looks_for, parameters)
        base = imported("garak.detectors.base", name, "garak")
        strings = tuple(getattr(base, kind, ThirdPartyJudge) for kind in ("StringDetector", "TriggerListDetector"))
        # The list has those that match strings without these classes; the classes have those of other versions.
        listed = is_garak_string_detector(name.removeprefix("garak:"))
        self.string_matcher = listed or isinstance(self._detector, strings)
        self.scores = not self.string_matcher
        # Detectors with a model of their own hold torch's threads; those that ask one hold connections.
        self.waits = hasattr(self._detector, "evaluation_generator")
        self.may_fork = not self.waits and not hasattr(self._detector, "detector_model")

    def decide(self, attempt: Attempt) -> Verdict:
        """Ask the detector about the response."""
        asked = self._attempts.Attempt(prompt=self._prompt(attempt), notes=dict(attempt.notes))
        asked.outputs = [attempt.response]
        with printing_aside():
            scores = list(self._detector.detect(asked))
        if not scores or scores[0] is None:
            missing = "" if attempt.notes else "; some detectors need notes, such as triggers, and the record has none"
            return Verdict.unjudged(f"{self.name} gives no score{missing}")
        return by_score(float(scores[0]), self._threshold)

    def _prompt(self, attempt: Attempt) -> Any:
        """Return what was asked, in a language that every detector takes: garak would leave others to a translator."""
        turns = [turn for turn in attempt.conversation if turn.role in _ROLES]
        if turns and turns[-1].role == "assistant":
            turns.pop()
        if not turns:
            return self._attempts.Message(text=attempt.prompt, lang=_ANY_LANGUAGE)
        return self._attempts.Conversation(
            [
                self._attempts.Turn(turn.role, self._attempts.Message(text=turn.content, lang=_ANY_LANGUAGE))
                for turn in turns
            ]
        )


@contextmanager
def _without_log() -> Iterator[None]:
    """Import garak without the log that it opens for the whole process."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    os.environ.setdefault(_LOG, os.devnull)
    try:
        yield
    finally:
        if os.environ[_LOG] == os.devnull:
            for handler in [handler for handler in root.handlers if handler not in handlers]:
                root.removeHandler(handler)
                handler.close()
            root.setLevel(level)
            if not root.handlers:
                # Without any, the first warning of garak's would give the process a handler that prints.
                root.addHandler(logging.NullHandler())


def _module(name: str, module: str) -> ModuleType:
    if not is_there(f"garak.detectors.{module}"):
        raise UsageError(
            f"{name}: the installed garak has no detector module {module}; garak --list_detectors shows them"
        )
    config = imported("garak._config", name, "garak")
    if not getattr(config, "is_loaded", False):
        config.load_base_config()
    return imported(f"garak.detectors.{module}", name, "garak")


def _kind(name: str, module: ModuleType, inner: str) -> Any:
    from garak.detectors.base import Detector  # type: ignore[import-not-found,unused-ignore]

    kind = getattr(module, inner, None)
    if not isinstance(kind, type) or not issubclass(kind, Detector):
        own = [key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Detector)]
        there = sorted(key for key in own if vars(module)[key].__module__ == module.__name__)
        raise UsageError(f"{name}: no such detector; {module.__name__.rpartition('.')[2]} has {', '.join(there)}")
    return kind


def _detector(name: str, kind: Any, module: str, own: Mapping[str, Any]) -> Any:
    try:
        with printing_aside():
            if not own:
                return kind()
            return kind(config_root={"detectors": {module: {kind.__name__: dict(own)}}})
    except (Exception, SystemExit) as error:  # a detector may need a model, a key or another package
        raise UsageError(f"{name}: cannot be created: {in_short(error)}") from error
