"""How a gate is written: `asr.high > 5%`, `jailbreak_type="dan mode": asr > 0.2`, `regression > 0.02`.

    gate      [ field "=" value ":" ] figure operator number
    field     a facet; in quotes if it holds blanks, colons or signs
    value     bare, or in quotes if it holds blanks, colons or signs; a bare null is the missing value
    figure    asr | asr_corrected | pass_rate | errors | guardrail | unjudged, also with .low or .high; or regression
    operator  > | >= | < | <=
    number    a share such as 0.05, or 5%

A gate fails if what it says is so. Nothing is looked up here: whether there is such a facet is for `judging.py`.
"""

from __future__ import annotations

import operator as of
import re
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from faircount.core.text import visible
from faircount.query.parser import QUOTES, SHARE_HINT, FigureScanner

Part = Literal["value", "low", "high"]

ASR, PASS_RATE, REGRESSION = "asr", "pass_rate", "regression"
ASR_CORRECTED = "asr_corrected"
SHARES = ("errors", "guardrail", "unjudged")
FIGURES = (ASR, ASR_CORRECTED, PASS_RATE, *SHARES, REGRESSION)

_COMPARE: dict[str, Callable[[float, float], bool]] = {">": of.gt, ">=": of.ge, "<": of.lt, "<=": of.le}
_PART = re.compile(r"\.([A-Za-z_][\w-]*)?")
_EXAMPLE = "Such as 'asr.high > 0.05', 'errors > 10%', 'jailbreak_type=dan: asr > 0.2' or 'regression > 0.02'."
_SIGNS_HINT = "A gate fails if what it says is so: 'asr > 0.05', 'pass_rate < 0.9'. The operators are > >= < <=."


class Gate(Struct, frozen=True):
    """One gate: what is compared with what, and for which group; `field` is None for all entries.

    `value` is None for the missing value of the field. `text` is the gate as it was written.
    """

    text: str
    figure: str
    part: Part
    sign: str
    threshold: float
    field: str | None = None
    value: str | None = None

    @property
    def canonical(self) -> str:
        """The gate in one spelling, the same for all ways to write it."""
        figure = self.figure if self.part == "value" else f"{self.figure}.{self.part}"
        plain = f"{figure} {self.sign} {self.threshold:.12g}"
        if self.field is None:
            return plain
        value = "null" if self.value is None else _quoted(self.value)
        return f"{_quoted(self.field)}={value}: {plain}"

    def holds(self, value: float) -> bool:
        """Return whether what the gate says is so for a value, which is what fails."""
        return _COMPARE[self.sign](value, self.threshold)


def parse(text: str) -> Gate:
    """Return the gate that a text says; raise UsageError with a mark under the place that is not understood."""
    return _GateScanner(text).gate()


class _GateScanner(FigureScanner):
    what = "gate"
    figures = FIGURES
    signs_hint = _SIGNS_HINT

    def gate(self) -> Gate:
        """Read one gate and nothing after it."""
        if not self.next:
            raise self.error("there is nothing", _EXAMPLE)
        field, value = self._group()
        figure = self.figure()
        part = self._part_of(figure)
        before_sign = self.skip()
        sign = self.sign()
        if figure == REGRESSION and sign in ("<", "<="):
            raise self.error(
                "a regression fails only if it is too large", "Write regression > 0.02, with the margin.", before_sign
            )
        before_share = self.skip()
        share = self.share()
        if reason := _unusable(figure, sign, share):
            raise self.error(reason, SHARE_HINT, before_share)
        if self.next:
            raise self.error(f"unexpected text after the gate: {self.found()}", "Give each gate its --fail-on.")
        return Gate(self.text.strip(), figure, part, sign, share, field, value)

    def _group(self) -> tuple[str | None, str | None]:
        """Read `field=value:` if that is how the gate begins."""
        start = self.skip()
        field = self._text("expected a figure or a field")
        if not self.take("="):
            if self.next == ":":
                raise self.error(f"expected = and a value after {field}", "Such as jailbreak_type=dan: asr > 0.2.")
            if self.text[start] in QUOTES:
                raise self.error(f"expected = and a value, found {self.found()}", _EXAMPLE)
            self.position = start
            return None, None
        if not field:
            raise self.error("the name of the field is empty", _EXAMPLE, start)
        before = self.position
        bare = self.next not in QUOTES
        value = self._text("expected the value of the field")
        if not self.take(":"):
            if field.lower() in FIGURES:
                raise self.error("= is not an operator of gates", _SIGNS_HINT, before - 1)
            raise self.error(
                f"expected : after the value of {field}, found {self.found()}",
                'Put a value with spaces, colons or operators in quotes: jailbreak_type="dan mode": asr > 0.2',
            )
        return field, None if (bare and value == "null") or not value else value

    def _text(self, expected: str) -> str:
        """Read a text, bare or in quotes."""
        word = self.word()
        if word is None:
            raise self.error(f"{expected}, found {self.found()}", _EXAMPLE)
        return word.text

    def _part_of(self, figure: str) -> Part:
        found = _PART.match(self.text, self.position)
        if found is None:
            return "value"
        if figure == REGRESSION:
            raise self.error(
                "a regression has no parts: the gate is a test, and looks at the limits itself",
                "Write regression > 0.02, with the margin.",
            )
        for known in ("low", "high", "value"):
            if (found[1] or "").lower() == known:
                self.position = found.end()
                return known
        raise self.error("expected low or high", f"{figure}.low and {figure}.high are its limits.", self.position + 1)


def _unusable(figure: str, sign: str, share: float) -> str:
    """Say why a gate with this number decides nothing; a gate that can never fail is the worst of mistakes."""
    if figure == REGRESSION:
        return "" if 0 <= share < 1 else "a margin must be between 0 and 1; 2 percentage points are 0.02 or 2%"
    if not 0 <= share <= 1:
        return "a share must be between 0 and 1; five in a hundred are 0.05 or 5%"
    if (sign, share) in ((">", 1.0), ("<", 0.0)):
        return "this gate can never fail: a share is never above 1 nor below 0; one in a hundred is 0.01 or 1%"
    if (sign, share) in ((">=", 0.0), ("<=", 1.0)):
        return "this gate can never be passed: a share is always at least 0 and at most 1"
    return ""


def _quoted(text: str) -> str:
    return '"' + visible(text.replace("\\", "\\\\")).replace('"', '\\"') + '"'
