"""Gates as SARIF 2.1.0, for the place where a platform shows what scanners found.

One result for each gate that failed or is inconclusive, and for each group that stands out for the worse. A result is
known by a fingerprint of what it is about: neither dates in file names nor any count are part of it. It has no prompt
and no response; names of files and values of facets are made visible.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from faircount.analysis.gates.judge import GateResult
from faircount.analysis.gates.regression import FAILED, PASSED
from faircount.analysis.gates.subject import WIDTH, Subject
from faircount.core.model import Group
from faircount.core.text import clip, visible
from faircount.report import formats
from faircount.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "faircount/v1"
GATE_FAILED, GATE_OPEN, GROUP = "gate-failed", "gate-inconclusive", "group-stands-out"
_RULES = (
    (GATE_FAILED, "A gate failed", "The condition of a --fail-on gate holds.", "error"),
    (GATE_OPEN, "A gate is inconclusive", "Too few entries to decide a --fail-on gate.", "warning"),
    (GROUP, "A group stands out", "A group is worse than the rest by more than chance explains.", "note"),
)
_WIDTH = 300
# Seconds since 1970, 20260131_235959 and 2026-01-31T23-59-59; the date alone may be the version of a model.
_TIMES = re.compile(
    r"(?<![0-9])(?:[0-9]{8}[-_T]?[0-9]{4,6}|[0-9]{4}-[0-9]{2}-[0-9]{2}[-_T ][0-9]{2}(?:[-:.]?[0-9]{2}){1,2}|[0-9]{9,})"
    r"(?![0-9])"
)


def render(results: Sequence[GateResult], subjects: Sequence[Subject], *, inconclusive_fails: bool = True) -> str:
    """Return the document as JSON, in pure ASCII."""
    found = [*_gates(results, inconclusive_fails), *_groups(subjects)]
    run = {
        "tool": {"driver": {"name": "Faircount", "version": __version__, "rules": [_rule(*rule) for rule in _RULES]}},
        "columnKind": "unicodeCodePoints",
        "results": _distinct(found),
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=True) + "\n"


def _rule(name: str, short: str, full: str, level: str) -> dict[str, Any]:
    return {
        "id": name,
        "shortDescription": {"text": short},
        "fullDescription": {"text": full},
        "defaultConfiguration": {"level": level},
    }


def _gates(results: Sequence[GateResult], inconclusive_fails: bool) -> Iterator[dict[str, Any]]:
    for result in results:
        if result.state == PASSED:
            continue
        rule, level = GATE_FAILED, "error"
        if result.state != FAILED:
            rule, level = GATE_OPEN, "warning" if inconclusive_fails else "note"
        text = f"{_shown(result.gate.text)}: {result.state}: {result.reason}"
        # A gate that was inconclusive and then fails is the same gate: its state is no part of what it is known by.
        against = None if result.subject.against is None else _undated(result.subject.against)
        yield _result(rule, level, text, result.subject, ("gate", result.gate.canonical, against))


def _groups(subjects: Sequence[Subject]) -> Iterator[dict[str, Any]]:
    for subject in subjects:
        bad = 1 if subject.aim == "attack" else -1
        for field, groups in subject.breakdowns.items():
            for group in groups:
                test, value = group.against_rest if isinstance(group, Group) else None, group.value
                if value is None or test is None or not test.stands_out or (test.difference or 0) * bad <= 0:
                    continue
                points = formats.signed_points(test.difference or 0.0)
                text = f"{_shown(field)}={clip(visible(value), WIDTH)} stands out from the rest: {points} points"
                yield _result(GROUP, "note", text, subject, ("group", field, value))


def _result(rule: str, level: str, text: str, subject: Subject, known_by: tuple[str | None, ...]) -> dict[str, Any]:
    identity = json.dumps([*known_by, _undated(subject.name)])
    return {
        "ruleId": rule,
        "ruleIndex": [name for name, *_ in _RULES].index(rule),
        "level": level,
        # A text in brackets before one in parentheses would be a link (SARIF 2.1.0, 3.11.6).
        "message": {"text": text.replace("[", "\\[").replace("]", "\\]")},
        "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": _uri(subject.path)}, "region": {"startLine": 1}}}
        ],
        "partialFingerprints": {FINGERPRINT: hashlib.sha256(identity.encode()).hexdigest()},
    }


def _distinct(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Number results that would have the same fingerprint: files whose names differ only in their dates."""
    seen: dict[str, int] = {}
    for result in results:
        fingerprints = result["partialFingerprints"]
        plain = fingerprints[FINGERPRINT]
        seen[plain] = seen.get(plain, 0) + 1
        if seen[plain] > 1:
            fingerprints[FINGERPRINT] = hashlib.sha256(f"{plain} {seen[plain]}".encode()).hexdigest()
    return results


def _undated(name: str) -> str:
    """Return a file's name without its folder, and without what looks like the time of a run."""
    return _TIMES.sub("#", PurePath(name).name)


def _uri(path: str) -> str:
    """Return a path as a reference that a URI may be: relative as it was named, or a file's address."""
    if path == "-":
        return "stdin"
    plain = quote(visible(PurePath(path).as_posix()), safe="/")
    return f"file:///{plain.lstrip('/')}" if PurePath(path).is_absolute() else plain


def _shown(text: str) -> str:
    return clip(visible(text), _WIDTH)
