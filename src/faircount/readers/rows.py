"""What became of a row of results, whatever tool wrote it: its state, its errors and blocks, and those of its history.

Readers share this, so that an error, a block or a provider's refusal means the same in every format; so do values as
people write them, and the kinds of errors. Nothing here opens a file.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from struct import Struct as Packing
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw, Struct
from xxhash import xxh3_64_intdigest

from faircount.core.findings import Notes
from faircount.core.model import Outcome
from faircount.core.options import MAX_LINE_BYTES
from faircount.core.outcomes import known_pattern, policy_block, state
from faircount.core.text import clip, mask_secrets, replace_surrogates, visible
from faircount.ledger.schema import OUTCOME_NUMBER, AnswerKind, HistoryCount, checksum

if TYPE_CHECKING:
    from faircount.query import Query

NO_RESPONSE = "No response received"
"""The words of old files for a target that never answered. The verdict counts, as with the tool that wrote them."""

BLOCK_WORDS = "Guardrail was triggered"
"""How the error of a raised guardrail begins in the history of a dynamic attack, which carries no flag."""

EMPTY = Raw()
_HISTORY_TEXTS = ("input", "response", "guardrail_categories")
_MOST_CATEGORIES = 100
EMPTY_ANSWERS = frozenset([b"", b'""', b"null"])
_BOOLEAN_ANSWERS = frozenset([b'"True"', b'"False"', b"true", b"false"])
SHORT_ANSWERS = {
    **{xxh3_64_intdigest(text): AnswerKind.EMPTY for text in EMPTY_ANSWERS},
    **{xxh3_64_intdigest(text): AnswerKind.BOOLEAN for text in _BOOLEAN_ANSWERS},
}
"""What kind of answer a response is that is no text, by its digest."""

STATES = {
    (success, error, guardrail): OUTCOME_NUMBER[state(success=success, error=error, guardrail=guardrail)]
    for success in (True, False, None)
    for error in (True, False)
    for guardrail in (True, False)
}
"""What became of a row, by its verdict, and whether it has an error and a block."""


class ReadOptions(Struct, frozen=True):
    """How to read a source."""

    max_line: int = MAX_LINE_BYTES
    guardrail_detected: bool = False
    """Whether a boolean answer says that a guardrail detected an attack, and not that it let one through."""
    where: Query | None = None
    policy_blocks: bool = True
    """Whether a provider's refusal to take a prompt is a block; else it is an error like any other."""
    aim: str | None = None
    """What the results are about, where the user knows better than the format."""
    verdicts: bool = False
    """Whether what each of several judges said is wanted, and not only what it comes to."""


class HistoryItem(Struct, gc=False):
    """One request inside a row, with the texts of what was asked and answered, undecoded."""

    success: bool | None = None
    error: str | None = None
    guardrail: bool | None = None
    input: Raw = EMPTY
    response: Raw = EMPTY
    guardrail_categories: Raw = EMPTY
    policy_block: str | None = None


def history_item(item: Mapping[str, Any]) -> HistoryItem:
    """Return a request that is not written cleanly."""
    success, error = item.get("success"), item.get("error")
    texts = {name: raw_json(item[name]) for name in _HISTORY_TEXTS if item.get(name) is not None}
    return HistoryItem(
        success=bool(success) if success in (0, 1) else None,
        error=error if isinstance(error, str) else scalar_text(error or None),
        guardrail=item.get("guardrail") is True,
        policy_block=scalar_text(item.get("policy_block")),
        **texts,
    )


def raw_json(value: Any) -> Raw:
    """Return a value as JSON, lone surrogates as they are."""
    return Raw(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


class Refusable(Protocol):
    """What may have been refused by the provider: a row, or a request inside one."""

    @property
    def success(self) -> Any: ...
    @property
    def error(self) -> str | None: ...
    @property
    def guardrail(self) -> Any: ...
    @property
    def policy_block(self) -> str | None: ...


class RowOutcome(Struct, frozen=True):
    """What became of a row, as the ledger counts it."""

    decision: bool | None
    state: int
    errored: bool = False
    guardrail: bool | None = None
    error_text: str | None = None
    error_kind: str | None = None
    refused: str | None = None
    """The pattern by which the provider refused the prompt."""


def policy_block_of(row: Refusable) -> str | None:
    """Return the pattern by which the provider refused the prompt of a row, if nothing else decides what became of it.

    It is the one that the run itself recorded, if that is still one, or else the one that the words of the error fit.
    """
    if row.error is None or row.error == NO_RESPONSE or row.success is True or row.guardrail is True:
        return None
    return known_pattern(row.policy_block) or policy_block(row.error)


def judged(row: Refusable, answer: int, options: ReadOptions, notes: Notes, line: int) -> RowOutcome:
    """Return what became of a row, and note what is odd about it."""
    error = row.error
    decision = row.success if isinstance(row.success, bool) else None
    guardrail = row.guardrail if isinstance(row.guardrail, bool) else None
    errored = error is not None and error != NO_RESPONSE
    refused = policy_block_of(row) if error is not None and options.policy_blocks else None
    if options.guardrail_detected and decision is not None and answer != AnswerKind.TEXT and error is None:
        decision = not decision
    text, kind = (None, None) if error is None else _described(error, notes, line)
    if decision and (errored or guardrail):
        notes.add("F021", "", line)
    return RowOutcome(
        decision=decision,
        state=STATES[decision, errored, bool(guardrail) or refused is not None],
        errored=errored,
        guardrail=True if refused is not None else guardrail,
        error_text=text,
        # A history knows blocks by the kinds of flagged rows; of a refusal it has the words itself.
        error_kind=kind if refused is None else None,
        refused=refused,
    )


def _described(error: str, notes: Notes, line: int) -> tuple[str | None, str | None]:
    if error == NO_RESPONSE:
        notes.add("F016", "", line)
        return None, None
    if not error:
        notes.add("F017", "", line)
    return describe(error)


def some_categories(named: Sequence[str]) -> Sequence[str]:
    """Return categories that a guardrail named at once, no more than one could have."""
    if len(named) <= _MOST_CATEGORIES:
        return named
    # What is kept of a row must not grow with what a file invents.
    return (*named[:_MOST_CATEGORIES], f"(more than {_MOST_CATEGORIES} named at once)")


def history_state(item: Refusable, *, refused: bool) -> tuple[int, str | None]:
    """Return what became of a request, as a number, and its kind of error if it is one."""
    error = item.error
    errored = error is not None and error != NO_RESPONSE
    blocked = bool(item.guardrail) or refused or (error is not None and error.startswith(BLOCK_WORDS))
    number = STATES[item.success, errored, blocked]
    kind = describe(error)[1] if error is not None and number == _ERROR else None
    return number, kind


_ERROR = OUTCOME_NUMBER[Outcome.ERROR]
_PLAIN = {success: (STATES[success, False, False], None) for success in (True, False, None)}
_ONE_ANSWER = {success: HistoryCount(*plain, 1, 1) for success, plain in _PLAIN.items()}


def history_of(items: Sequence[Refusable], *, policy_blocks: bool) -> tuple[list[HistoryCount], list[str]]:
    """Return what requests came to, counted by state and kind of error, and the patterns of the provider's refusals."""
    if len(items) == 1 and items[0].error is None and not items[0].guardrail:  # most rows of most files
        return [_ONE_ANSWER[items[0].success]], []
    counted: dict[tuple[int, str | None], list[int]] = {}
    refusals: dict[str, None] = {}
    for position, item in enumerate(items, start=1):
        if item.error is None and not item.guardrail:
            key: tuple[int, str | None] = _PLAIN[item.success]
        else:
            refused = policy_block_of(item) if item.error is not None and policy_blocks else None
            if refused is not None:
                refusals[refused] = None
            key = history_state(item, refused=refused is not None)
        if key in counted:
            counted[key][0] += 1
        else:
            counted[key] = [1, position]
    return [HistoryCount(outcome, kind, *found) for (outcome, kind), found in counted.items()], list(refusals)


def rejudgings(rejudged: Any) -> list[dict[str, Any]]:
    """Return what `rejudged` says of each time that a row was judged again, the first time first."""
    found: list[dict[str, Any]] = []
    while isinstance(rejudged, dict) and isinstance(rejudged.get("before"), dict):
        found.insert(0, rejudged)
        rejudged = rejudged["before"].get("rejudged")
    return found


class HasChecksums(Protocol):
    """A request inside a row, with checksums in place of its texts."""

    @property
    def input(self) -> int: ...
    @property
    def response(self) -> int: ...
    @property
    def error(self) -> str | None: ...


_FOUR_NUMBERS = Packing("4q")


def history_hash(response: int, requests: Sequence[HasChecksums]) -> int:
    """Return what stands for all that a row was answered; rows that differ in it are of different attempts.

    Verdicts are no part of it, nor which of the answers the row shows: judged again, an attempt is the same.
    """
    if len(requests) == 1 and requests[0].error is None:  # most rows of most files
        one = requests[0]
        return checksum(_FOUR_NUMBERS.pack(0 if response == one.response else response, one.response, one.input, 0))
    answers = [one.response for one in requests]
    numbers = [0 if response in answers else response, *answers]
    for one in requests:
        numbers.append(one.input)
        numbers.append(0 if one.error is None else checksum(one.error.encode("utf-8", "surrogatepass")))
    return checksum(array("q", numbers).tobytes())


class Checksums(Struct, frozen=True, gc=False):
    """A request inside a row, with checksums in place of its texts."""

    input: int
    response: int
    error: str | None


# -- values as people write them --------------------------------------------------------------------------------
# Used on the careful way only: a value that a strict decoder accepts needs none of this.

TRUE_WORDS = frozenset(["true", "yes", "y", "t", "1", "on"])
FALSE_WORDS = frozenset(["false", "no", "n", "f", "0", "off"])

NOT_TRIED = "F034"
"""The finding about entries that a run has not come to: no rate counts them."""
STOP_WHEN = "--stop-when"
"""What stops a run early, as its findings name it."""
LARGEST_COUNT = 10**15
_LONGEST_SECONDS = 10**12


class Cleaner:
    """Cleans the values of one row at a time; `line` is the row's in the notes."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.line = 0

    def verdict(self, value: Any) -> bool | None:
        """Read a verdict: true, false, 0, 1 and null as they stand, words with a note, anything else unjudged."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float) and value in (0, 1):
            return bool(value)
        word = value.strip().lower() if isinstance(value, str) else None
        if word in TRUE_WORDS or word in FALSE_WORDS:
            self.notes.add("F003", shown(value), self.line)
            return word in TRUE_WORDS
        self.notes.add("F004", shown(value), self.line)
        return None

    def flag(self, field: str, value: Any) -> bool | None:
        """Read a flag that may be missing; what is neither true nor false is taken as missing, with a note."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float) and value in (0, 1):
            return bool(value)
        word = value.strip().lower() if isinstance(value, str) else None
        self.notes.add("F027", field, self.line)
        if word in TRUE_WORDS:
            return True
        return False if word in FALSE_WORDS else None

    def count(self, value: Any) -> int:
        """Read a number of attempts; what is no whole number of requests counts as one, with a note."""
        number = value
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= LARGEST_COUNT:
            return number
        self.notes.add("F013", shown(value), self.line)
        digits = value.strip() if isinstance(value, str) else ""
        if digits.isdecimal() and len(digits) < len(str(LARGEST_COUNT)):
            return int(digits)
        return 1

    def seconds(self, field: str, value: Any) -> float | None:
        """Read a duration; what is no finite number of seconds is taken as not recorded, with a note."""
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LONGEST_SECONDS:
            return float(value)
        if value == value:  # NaN is noted where it was parsed
            self.notes.add("F027", field, self.line)
        return None

    def error(self, value: Any) -> str | None:
        """Read an error text; false means none, and anything that is no text is kept as its JSON."""
        if value is None or value != value:
            return None
        if isinstance(value, str):
            return self.whole("error", value)
        self.notes.add("F027", "error", self.line)
        return None if value is False else scalar_text(value)

    def label(self, field: str, value: Any) -> str | None:
        """Read a facet; numbers, flags and lists become text."""
        text = None if isinstance(value, float) and not math.isfinite(value) else scalar_text(value)
        return None if text is None else self.whole(field, text)

    def attack(self, value: Any) -> str | None:
        """Read the name of an attack; what is neither text nor missing is noted, and names one only if it is true."""
        if value is None or value != value:
            return None
        if isinstance(value, str):
            return self.whole("attack_name", value)
        self.notes.add("F027", "attack_name", self.line)
        return self.label("attack_name", value) if value else None

    def whole(self, field: str, text: str) -> str:
        """Return text that can be stored; a lone surrogate becomes U+FFFD, with a note."""
        kept = replace_surrogates(text)
        if kept != text:
            self.notes.add("F025", field, self.line)
        return kept


def scalar_text(value: Any) -> str | None:
    """Return the text of a value: text as it is, null as None, anything else as compact JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def shown(value: Any) -> str:
    """Return a short, safe form of a value for a message."""
    return clip(visible(mask_secrets(json.dumps(value, ensure_ascii=False))), 40)


# -- error texts, fit to show and to group ----------------------------------------------------------------------
# A kind is made of the words that distinguish an error: the HTTP status, the provider's code and its message. What
# libraries put around those is the same for all errors, and in a narrow table it would be all that is seen of them.

_SHOWN = 300
_KIND = 120
_LOOKED_AT = 4000
"""No more of an error is looked at: a search through megabytes of hostile text could take for ever."""
_OF_SECRETS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+=~"

_VARYING = re.compile(
    r"""
      [0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}   # a UUID
    | 0x[0-9a-fA-F]+
    | \b(?=[0-9a-fA-F]*[0-9])(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}\b
    | (?<![\w.])(?![45]\d\d\b)\d+(?:\.\d+)*
    """,
    re.VERBOSE,
)

# What stands before the words of a provider: names of exceptions, and what libraries and our own targets say.
_WRAPPINGS = re.compile(
    r"""
    (?<!\S)
    (?: (?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?:\s-|:)\s+   # openai.BadRequestError: …, AzureException - …
      | (?:API\s)?Error:\s+
      | Error\scode:\s+(?=[45]\d\d\b)                             # the Python libraries of OpenAI and Anthropic
      | (?:[a-z]+:\s)?https?://\S+:\s(?:the\sserver\sanswered\swith\sstatus\s(?=[45]\d\d\b))?
    )+
    """,
    re.VERBOSE,
)
_NAMED = re.compile(r"(?<!\w)(\w+(?:Error|Exception)):")
# botocore: the exception, the operation, and how often it was tried.
_OF_BOTOCORE = re.compile(r"An error occurred \((\w+)\) when calling the \w+ operation(?: \([^()]*\))?: ")
_STATUS = re.compile(r"(?<![\w.])[45]\d\d(?![\w.])")
# A member of an object in JSON, or as Python prints it; a text may be cut off.
_MEMBER = re.compile(
    r"""
    (?P<key_quote>['"])(?P<key>message|detail|error|code|type|status)(?P=key_quote)\s*:\s*
    (?: '(?P<single>(?:[^'\\]|\\.)*+)(?:'|\\?\Z) | "(?P<double>(?:[^"\\]|\\.)*+)(?:"|\\?\Z) | (?P<number>[45]\d\d)\b )
    """,
    re.VERBOSE | re.DOTALL,
)
_CODE = re.compile(r"[A-Za-z][\w.-]{2,59}")
_NOT_TELLING = frozenset(["error", "null", "none"])
_ESCAPED = re.compile(r"\\(?:[nrt]|(.))", re.DOTALL)
_LONGEST_CONTEXT = 40


def describe(error: str) -> tuple[str, str]:
    """Return the error as it may be shown, and its kind.

    The kind is the first line with every varying number, address and identifier replaced by `#`; standalone 4xx and
    5xx stay, because they are HTTP's names for what went wrong. Where an error holds the JSON of a server, the kind is
    its status, code and message.
    """
    if len(error) > _LOOKED_AT:
        # What may be the beginning of a secret would not be known as one.
        error = error[:_LOOKED_AT].rstrip(_OF_SECRETS)
    return _shown_and_kind(error)


@lru_cache(maxsize=8192)
def _shown_and_kind(error: str) -> tuple[str, str]:
    masked = mask_secrets(error)
    kind = _first_line(_of_provider(masked) or _unwrapped(masked))
    return clip(visible(masked), _SHOWN), clip(visible(_VARYING.sub("#", kind)), _KIND) or "(no text)"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _unwrapped(error: str) -> str:
    """Return an error without what stands before its words, but with the last exception that is named: the cause."""
    words = _OF_BOTOCORE.sub(r"\1: ", error, count=1)
    wrapped = _WRAPPINGS.match(words)
    rest = "" if wrapped is None else words[wrapped.end() :]
    if wrapped is None or not rest.strip():
        return words
    if _STATUS.match(rest):
        return re.sub(r" - ", ": ", rest, count=1)
    names = _NAMED.findall(wrapped[0])
    return f"{names[-1]}: {rest}" if names else rest


def _of_provider(error: str) -> str:
    """Return status, code and message of the JSON that a server sent; nothing where there is no message."""
    start = error.find("{")
    if start < 0:
        return ""
    texts: dict[str, list[str]] = {}
    numbers: list[str] = []
    for member in _MEMBER.finditer(error, start):
        if member["number"] is not None:
            numbers.append(member["number"])
        else:
            text = _ESCAPED.sub(lambda escaped: escaped[1] or " ", member["single"] or member["double"] or "").strip()
            texts.setdefault(member["key"], []).append(text)
    message = next((text for key in ("message", "detail", "error") for text in texts.get(key, ()) if text), "")
    if not message:
        return ""
    codes = [text for key in ("code", "status", "type") for text in texts.get(key, ()) if _CODE.fullmatch(text)]
    code = next((text for text in codes if text.lower() not in _NOT_TELLING), "")
    before = error[:start]
    status = next(iter([*_STATUS.findall(before), *numbers]), "")
    described = f"{' '.join(filter(None, [status, code]))}: {message}".removeprefix(": ")
    # Somebody's own words before it, such as who asked, distinguish errors as well.
    context = _STATUS.sub("", _WRAPPINGS.sub("", before)).strip(" \t\r\n:-,.<>[](")
    return f"{context}: {described}" if 0 < len(context) <= _LONGEST_CONTEXT and context != code else described
