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

import difflib
import operator as of
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Literal

from msgspec import Struct

from faircount.query.scanner import QUOTES, QueryError, Scanner
from faircount.text import visible

Part = Literal["value", "low", "high"]
Sign = Literal[">", ">=", "<", "<="]

ASR, PASS_RATE, REGRESSION = "asr", "pass_rate", "regression"
ASR_CORRECTED = "asr_corrected"
SHARES = ("errors", "guardrail", "unjudged")
FIGURES = (ASR, ASR_CORRECTED, PASS_RATE, *SHARES, REGRESSION)
LONGEST = 10_000

_SIGNS: tuple[Sign, ...] = (">=", "<=", ">", "<")
_COMPARE: dict[Sign, Callable[[float, float], bool]] = {">": of.gt, ">=": of.ge, "<": of.lt, "<=": of.le}
_BARE = re.compile(r"""[^\s:"'<>=]+""")
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,3})?")
_EXAMPLE = "Such as 'asr.high > 0.05', 'errors > 10%', 'jailbreak_type=dan: asr > 0.2' or 'regression > 0.02'."
_SIGNS_HINT = "A gate fails if what it says is so: 'asr > 0.05', 'pass_rate < 0.9'. The operators are > >= < <=."
_NUMBER_HINT = "Write a share, 0.05, or a percentage, 5%."


class Gate(Struct, frozen=True):
    """One gate: what is compared with what, and for which group; `field` is None for all entries.

    `value` is None for the missing value of the field. `text` is the gate as it was written.
    """

    text: str
    figure: str
    part: Part
    sign: Sign
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
        """Tell whether what the gate says is so for a value, which is what fails."""
        return _COMPARE[self.sign](value, self.threshold)


def parse(text: str) -> Gate:
    """Return the gate that a text says; raise UsageError with a mark under the place that is not understood."""
    if len(text) > LONGEST:
        raise QueryError.at(text, LONGEST, f"it is longer than {LONGEST:,} characters", _EXAMPLE, "gate")
    return _Parser(text).whole()


class _Parser(Scanner):
    def error(self, reason: str, hint: str, position: int | None = None) -> QueryError:
        """Return the error for a place, by default the one that was reached."""
        return QueryError.at(self.text, self.position if position is None else position, reason, hint, "gate")

    def whole(self) -> Gate:
        """Read one gate and nothing after it."""
        if not self.next:
            raise self.error("there is nothing", _EXAMPLE)
        field, value = self._group()
        figure, part = self._figure()
        self.skip()
        where = self.position
        sign = self._sign()
        if figure == REGRESSION and sign in ("<", "<="):
            raise self.error(
                "a regression fails only if it is too large", "Write regression > 0.02, with the margin.", where
            )
        threshold = self._number(figure, sign)
        if self.next:
            raise self.error(f"unexpected text after the gate: {self.found()}", "Give each gate its --fail-on.")
        return Gate(self.text.strip(), figure, part, sign, threshold, field, value)

    def found(self) -> str:
        """Return what comes next, in words for a message."""
        if not self.next:
            return "the end"
        bare = _BARE.match(self.text, self.position)
        return f"“{bare.group()[:40] if bare else self.next}”"

    # -- which entries -----------------------------------------------------------------------------------------

    def _group(self) -> tuple[str | None, str | None]:
        """Read `field=value:` if that is how the gate begins."""
        self.skip()
        start = self.position
        field = self._text("expected a figure or a field")
        if not self.take("="):
            self._refuse_colon(field, start)
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

    def _refuse_colon(self, field: str, start: int) -> None:
        if self.next == ":":
            raise self.error(f"expected = and a value after {field}", "Such as jailbreak_type=dan: asr > 0.2.")
        if self.text[start] in QUOTES:
            raise self.error(f"expected = and a value, found {self.found()}", _EXAMPLE)

    def _text(self, expected: str) -> str:
        """Read a text, bare or in quotes."""
        if self.next in QUOTES:
            return self._quoted().text
        self._refuse_curly_quotes()
        bare = _BARE.match(self.text, self.position)
        if bare is None:
            raise self.error(f"{expected}, found {self.found()}", _EXAMPLE)
        word = bare.group()
        if visible(word) != word:
            hidden = next(n for n, character in enumerate(word) if visible(character) != character)
            raise self.error("an invisible character", "Remove it, or put the text in quotes.", self.position + hidden)
        self.position = bare.end()
        return word

    # -- what is compared --------------------------------------------------------------------------------------

    def _figure(self) -> tuple[str, Part]:
        self.skip()
        start = self.position
        name = _NAME.match(self.text, start)
        if name is None:
            raise self.error(f"expected a figure, found {self.found()}", _figures_hint(""))
        figure = name.group().lower().replace("-", "_")
        if figure not in FIGURES:
            raise self.error(f"no such figure: {name.group()[:40]}", _figures_hint(figure))
        self.position = name.end()
        return figure, self._part_of(figure)

    def _part_of(self, figure: str) -> Part:
        if not self.text.startswith(".", self.position):
            return "value"
        where = self.position + 1
        name = _NAME.match(self.text, where)
        part = "" if name is None else name.group().lower()
        if figure == REGRESSION:
            raise self.error(
                "a regression has no parts: the gate is a test, and looks at the limits itself",
                "Write regression > 0.02, with the margin.",
                where - 1,
            )
        for known in ("low", "high", "value"):
            if part == known and name is not None:
                self.position = name.end()
                return known
        raise self.error("expected low or high", f"{figure}.low and {figure}.high are its limits.", where)

    def _sign(self) -> Sign:
        for sign in _SIGNS:
            if self.take(sign):
                return sign
        raise self.error(f"expected an operator, found {self.found()}", _SIGNS_HINT)

    def _number(self, figure: str, sign: Sign) -> float:
        self.skip()
        start = self.position
        found = _NUMBER.match(self.text, start)
        if found is None:
            raise self.error(f"expected a number, found {self.found()}", _NUMBER_HINT)
        self.position = found.end()
        number = Decimal(found.group())
        if self.take("%"):
            number /= 100
        if self.text.startswith(",", self.position):
            raise self.error("a comma in a number", "Write the point: 0.05.")
        share = float(number)
        reason = _unusable(figure, sign, share)
        if reason:
            raise self.error(reason, _NUMBER_HINT, start)
        return share


def _unusable(figure: str, sign: Sign, share: float) -> str:
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


def _figures_hint(word: str) -> str:
    near = difflib.get_close_matches(word, FIGURES, n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    return f"{hint}The figures are {', '.join(FIGURES)}."


def _quoted(text: str) -> str:
    return '"' + visible(text.replace("\\", "\\\\")).replace('"', '\\"') + '"'
