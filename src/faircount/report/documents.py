"""What programs read: a report as JSON, and gates as JUnit XML and SARIF 2.1.0, which CI systems show.

Names of files and values of facets are made visible and escaped. Gates have no prompt, response or time. JSON is pure
ASCII and no command to a CI job: nothing in it acts on where it is sent to.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from faircount.core.model import Estimate, Group
from faircount.core.text import clip, visible
from faircount.report import formats
from faircount.report.blocks import Report
from faircount.report.markup import Markup, tag
from faircount.version import __version__

# -- JSON -------------------------------------------------------------------------------------------------------

_ESCAPE = re.compile(r"\\(?:u(?:d[89ab]..\\ud[c-f]..|(d[89a-f]..)|....)|[^u])")
"""An escaped character, or a pair of surrogates; the group is a lone one."""


def as_json(report: Report) -> str:
    """Return the report's document as indented JSON with a final line feed; NaN is never written.

    Lone surrogates, which most parsers of JSON refuse, become U+FFFD.
    """
    plain = msgspec.to_builtins(report.document, enc_hook=_plain)
    text = json.dumps(plain, ensure_ascii=True, allow_nan=False, indent=2) + "\n"
    if r"\ud" in text:
        text = _ESCAPE.sub(lambda escape: r"\ufffd" if escape[1] else escape[0], text)
    # Only strings hold this sign.
    return text.replace("##", r"\u0023#")


def _plain(value: Any) -> Any:
    """Return what anybody's judge or attack may hand over, such as a text of a subclass, as one of a plain type."""
    if isinstance(value, Mapping):
        return dict(value)
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise NotImplementedError(f"{type(value).__name__} is not plain data")


# -- gates ------------------------------------------------------------------------------------------------------

SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "faircount/v1"
GATE_FAILED, GATE_OPEN, GROUP = "gate-failed", "gate-inconclusive", "group-stands-out"
_RULES = (
    (GATE_FAILED, "A gate failed", "The condition of a --fail-on gate holds.", "error"),
    (GATE_OPEN, "A gate is inconclusive", "Too few entries to decide a --fail-on gate.", "warning"),
    (GROUP, "A group stands out", "A group is worse than the rest by more than chance explains.", "note"),
)
_RATE_NAMES = {"attack": "asr", "task": "pass_rate"}
_WIDTH, _VALUE_WIDTH = 300, 60
# Seconds since 1970, 20260131_235959 and 2026-01-31T23-59-59; the date alone may be the version of a model.
_TIMES = re.compile(
    r"(?<![0-9])(?:[0-9]{8}[-_T]?[0-9]{4,6}|[0-9]{4}-[0-9]{2}-[0-9]{2}[-_T ][0-9]{2}(?:[-:.]?[0-9]{2}){1,2}|[0-9]{9,})"
    r"(?![0-9])"
)


class JudgedGate(Protocol):
    """A gate as it was written, and in the one spelling that all ways to write it share."""

    @property
    def text(self) -> str: ...
    @property
    def canonical(self) -> str: ...


class JudgedSubject(Protocol):
    """What gates were judged on; `against` is the run that it was compared with."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def aim(self) -> str: ...
    @property
    def rate(self) -> Estimate: ...
    @property
    def counts(self) -> Sequence[tuple[str, int]]: ...
    @property
    def breakdowns(self) -> Mapping[str, Sequence[object]]: ...
    @property
    def against(self) -> str | None: ...


class Judgement(Protocol):
    """What became of a gate; its state is "passed", "failed" or "inconclusive"."""

    @property
    def gate(self) -> JudgedGate: ...
    @property
    def subject(self) -> JudgedSubject: ...
    @property
    def state(self) -> str: ...
    @property
    def reason(self) -> str: ...
    def blocks(self, inconclusive_fails: bool, /) -> bool: ...


def _shown(text: str) -> str:
    return clip(visible(text), _WIDTH)


# -- JUnit: a test case for each gate, a suite for each subject -------------------------------------------------


def junit(results: Sequence[Judgement], subjects: Sequence[JudgedSubject], *, inconclusive_fails: bool = True) -> str:
    """Return the document. A gate that is inconclusive fails or is skipped, as the user says."""
    suites = [_suite(subject, results, inconclusive_fails) for subject in subjects]
    blocking = sum(result.blocks(inconclusive_fails) for result in results)
    lines = [part for suite in suites for part in ("\n  ", suite)]
    whole = tag("testsuites", *lines, "\n", name="faircount", tests=len(results), failures=blocking, errors=0)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{whole.text}\n'


def _suite(subject: JudgedSubject, results: Sequence[Judgement], inconclusive_fails: bool) -> Markup:
    own = [result for result in results if result.subject is subject]
    blocking = [result.blocks(inconclusive_fails) for result in own]
    cases = [part for one in zip(own, blocking, strict=True) for part in ("\n    ", _case(*one))]
    return tag(
        "testsuite",
        "\n    ",
        _properties(subject),
        *cases,
        "\n  ",
        name=_shown(subject.name),
        tests=len(own),
        failures=sum(blocking),
        errors=0,
        skipped=sum(result.state == "inconclusive" for result in own) if not inconclusive_fails else 0,
    )


def _properties(subject: JudgedSubject) -> Markup:
    rate = subject.rate
    figures = {"value": rate.value, "low": rate.low, "high": rate.high}
    pairs = [(f"entries.{name}", str(count)) for name, count in subject.counts]
    pairs += [
        (f"{_RATE_NAMES[subject.aim]}.{name}", repr(share)) for name, share in figures.items() if share is not None
    ]
    if subject.against is not None:
        pairs.append(("baseline", _shown(subject.against)))
    lines = [part for name, value in pairs for part in ("\n      ", tag("property", name=name, value=value))]
    return tag("properties", *lines, "\n    ")


def _case(result: Judgement, blocks: bool) -> Markup:
    sentence = f"{result.state}: {result.reason}"
    if blocks:
        kind = "gate" if result.state == "failed" else result.state
        outcome = tag("failure", sentence, message=sentence, type=kind)
    elif result.state == "inconclusive":
        outcome = tag("skipped", message=sentence)
    else:
        outcome = tag("system-out", sentence)
    name = _shown(result.gate.text)
    return tag("testcase", outcome, name=name, classname=_shown(result.subject.name), time="0")


# -- SARIF ------------------------------------------------------------------------------------------------------


def sarif(results: Sequence[Judgement], subjects: Sequence[JudgedSubject], *, inconclusive_fails: bool = True) -> str:
    """Return the document as JSON, in pure ASCII.

    It has a result for each gate that failed or is inconclusive, and for each group that stands out for the worse. A
    result is known by a fingerprint of what it is about: neither dates in file names nor any count are part of it.
    """
    rules = [
        {
            "id": name,
            "shortDescription": {"text": short},
            "fullDescription": {"text": full},
            "defaultConfiguration": {"level": level},
        }
        for name, short, full, level in _RULES
    ]
    run = {
        "tool": {"driver": {"name": "Faircount", "version": __version__, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": _distinct([*_gates(results, inconclusive_fails), *_groups(subjects)]),
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=True) + "\n"


def _gates(results: Sequence[Judgement], inconclusive_fails: bool) -> Iterator[dict[str, Any]]:
    for result in results:
        if result.state == "passed":
            continue
        rule, level = GATE_FAILED, "error"
        if result.state != "failed":
            rule, level = GATE_OPEN, "warning" if inconclusive_fails else "note"
        text = f"{_shown(result.gate.text)}: {result.state}: {result.reason}"
        # A gate that was inconclusive and then fails is the same gate: its state is no part of what it is known by.
        against = None if result.subject.against is None else _undated(result.subject.against)
        yield _result(rule, level, text, result.subject, ("gate", result.gate.canonical, against))


def _groups(subjects: Sequence[JudgedSubject]) -> Iterator[dict[str, Any]]:
    for subject in subjects:
        bad = 1 if subject.aim == "attack" else -1
        for field, groups in subject.breakdowns.items():
            for group in groups:
                # Groups of a comparison are not compared with the rest of one run.
                if not isinstance(group, Group) or group.value is None:
                    continue
                test = group.against_rest
                if test is None or not test.stands_out or (test.difference or 0) * bad <= 0:
                    continue
                points = formats.signed_points(test.difference or 0.0)
                value = clip(visible(group.value), _VALUE_WIDTH)
                text = f"{_shown(field)}={value} stands out from the rest: {points} points"
                yield _result(GROUP, "note", text, subject, ("group", field, group.value))


def _result(
    rule: str, level: str, text: str, subject: JudgedSubject, known_by: tuple[str | None, ...]
) -> dict[str, Any]:
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
