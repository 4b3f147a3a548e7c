"""What the eye cannot see in a text: hidden characters, look-alikes, escape sequences, and text in layers of coding.

Pure functions: a text in, findings with their offsets out. Nothing that a text holds is run, and no address in it is
opened. All work is bounded: of a long text the beginning is looked at, and layers are decoded down to a limit.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from typing import TypeVar
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from faircount.core.text import visible

S = TypeVar("S")

LOOKED_AT = 200_000
"""So many characters of a text are looked at."""
DEEPEST = 6
"""So many layers are decoded, one inside the other."""
MOST_DECODED = 200_000
"""So many characters are decoded in all."""
MOST_FOUND = 2_000
"""So many findings, layers and links are listed of each kind."""

ZERO_WIDTH, BIDI, TAG, LOOK_ALIKE, CONTROL, ESCAPE, INVISIBLE, SPACE = KINDS = (
    "zero-width",
    "bidirectional",
    "tag",
    "look-alike",
    "control",
    "escape sequence",
    "invisible",
    "unusual space",
)
IMAGE, LINK = "image", "link"


class Hidden(Struct, frozen=True):
    """Characters from `begin` up to `end` that hide something: what kind they are, and what they are called."""

    kind: str
    begin: int
    end: int
    name: str


class LeakingLink(Struct, frozen=True):
    """An address in a text: an image is loaded by whatever renders the text, and takes along what its address holds."""

    kind: str
    begin: int
    end: int
    address: str
    host: str


class Layer(Struct, frozen=True):
    """A part of a text that is text in another coding, decoded, with what is in it in turn."""

    coding: str
    begin: int
    end: int
    text: str
    found: XRay


class XRay(Struct, frozen=True):
    """What was found in a text; offsets count its characters from 0. `unseen` characters at its end were not read."""

    hidden: tuple[Hidden, ...] = ()
    layers: tuple[Layer, ...] = ()
    links: tuple[LeakingLink, ...] = ()
    unseen: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.hidden or self.layers or self.links)


def xray(text: str) -> XRay:
    """Return what a text hides."""
    return _xray(text, _DecodingBudget(MOST_DECODED), DEEPEST)


class _DecodingBudget(Struct):
    characters: int


def _xray(text: str, budget: _DecodingBudget, depth: int) -> XRay:
    looked_at = text[:LOOKED_AT]
    return XRay(
        tuple(_first(_hidden(looked_at))),
        tuple(_first(_layers(looked_at, budget, depth))),
        tuple(_first(_links(looked_at))),
        len(text) - len(looked_at),
    )


def _first(found: Iterator[S]) -> list[S]:
    return [item for _, item in zip(range(MOST_FOUND), found, strict=False)]


# -- characters -------------------------------------------------------------------------------------------------

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_ZERO_WIDTH = frozenset("\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufeff\u00ad\u180e\u034f")
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800\u17b4\u17b5")
# ECMA-48: CSI and OSC sequences, and other escapes of two characters; each as long as it can be.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,100}[ -/]{0,20}[@-~]"
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]{0,1000}(?:\x07|\x1b\\|\x9c)?|\x1b[ -~]?"
)
_PLAIN = re.compile(r"[\n\t\r -~]*")
_WORD = re.compile(r"[^\W\d_]+")

# Letters of other scripts that look like Latin ones (Unicode confusables, those of the scripts in use).
_LOOKS_LIKE = dict(
    zip(
        "аеорсухіѕјһԁԛԝѵьАВЕКМНОРСТУХІЅЈԌԚԜονρυχικαΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսոհցքѡІӀӏԍ",
        "aeopcyxisjhdqwvbABEKMHOPCTYXISJGQWovpuxikaABEZHIKMNOPTYXounhgqwIIlg",
        strict=True,
    )
)


def _hidden(text: str) -> Iterator[Hidden]:
    """Yield what is hidden in the order of the text; printable ASCII is passed over at once."""
    at = 0
    while at < len(text):
        at = _PLAIN.match(text, at).end()  # type: ignore[union-attr]
        if at >= len(text):
            return
        escape = _ESCAPE.match(text, at)
        if escape is not None:
            yield Hidden(
                ESCAPE, at, escape.end(), f"U+{ord(text[at]):04X}, then {visible(text[at + 1 : escape.end()])}"
            )
            at = escape.end()
            continue
        kind = _kind(text[at])
        if kind == TAG or (kind and kind == _kind(text[at + 1 : at + 2] or " ")):
            end = at + 1
            while end < len(text) and _kind(text[end]) == kind:
                end += 1
            names = _name(text[at]) if end == at + 1 else f"{end - at:,} characters, {_name(text[at])} first"
            yield Hidden(kind, at, end, names)
            at = end
            continue
        if kind:
            yield Hidden(kind, at, at + 1, _name(text[at]))
        elif text[at].isalpha():
            word = _WORD.match(text, at)
            start = at
            while start and text[start - 1].isalpha() and at - start < 40:
                start -= 1
            end = at + 1 if word is None else word.end()
            yield from _look_alikes(text, start, at, end)
            at = end
            continue
        at += 1


def _look_alikes(text: str, start: int, at: int, end: int) -> Iterator[Hidden]:
    """Yield letters of a word that look like Latin ones: beside Latin letters, or in a costume of their own."""
    mixed = any(letter.isascii() for letter in text[start:end])
    for place in range(at, end):
        letter = text[place]
        plain = unicodedata.normalize("NFKC", letter)
        if not letter.isascii() and len(plain) == 1 and plain.isascii() and plain.isalpha():
            yield Hidden(LOOK_ALIKE, place, place + 1, f"{_name(letter)}, looks like {plain}")
        elif mixed and letter in _LOOKS_LIKE:
            yield Hidden(LOOK_ALIKE, place, place + 1, f"{_name(letter)}, looks like {_LOOKS_LIKE[letter]}")


def _kind(character: str) -> str:
    code = ord(character)
    if 0xE0000 <= code <= 0xE007F:
        return TAG
    if character in _BIDI:
        return BIDI
    if character in _ZERO_WIDTH:
        return ZERO_WIDTH
    if character in _BLANK or 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:
        return INVISIBLE
    category = unicodedata.category(character)
    if category in ("Cc", "Cs"):
        return "" if character in "\n\t\r" else CONTROL
    if category in ("Cf", "Co", "Cn"):
        return INVISIBLE
    return SPACE if category in ("Zs", "Zl", "Zp") and character != " " else ""


def _name(character: str) -> str:
    named = unicodedata.name(character, "") or _CONTROLS.get(character, "no name")
    return f"U+{ord(character):04X} {named}"


_CONTROLS = {"\x00": "NULL", "\x07": "BELL", "\x08": "BACKSPACE", "\x1b": "ESCAPE", "\x7f": "DELETE"}


# -- layers -----------------------------------------------------------------------------------------------------

_TAGS = re.compile("[\U000e0020-\U000e007e]{2,}")
_HEX = re.compile(
    r"(?<![0-9A-Za-z])(?:0x)?(?:[0-9A-Fa-f]{2}[ :]?){7,}[0-9A-Fa-f]{2}(?![0-9A-Za-z])"
    r"|(?:\\x[0-9A-Fa-f]{2}){4,}"
)
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,}={0,2}(?![A-Za-z0-9+/_=-])")
_URL = re.compile(r"(?:%[0-9A-Fa-f]{2}[^\s%]{0,40}){3,}")
_ENTITIES = re.compile(r"(?:&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,10});[^&]{0,3}){3,}")
_LETTERS = re.compile(r"[A-Za-z']+")
_ROT13_LINE = re.compile(r"[^\n]{12,2000}")
_GZIP = b"\x1f\x8b"
_LEAST_PRINTABLE = 0.9
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "the and you that for with this your are not all from have was what when which will ignore previous "
        "instructions print system prompt say tell give show reply answer secret password please must is of to in it "
        "on as be do",
    )
)


def _layers(text: str, budget: _DecodingBudget, depth: int) -> Iterator[Layer]:
    """Yield the parts of a text that are text in another coding, each decoded and looked into."""
    if depth <= 0:
        return
    taken: list[tuple[int, int]] = []
    for coding, pattern, decode in _CODINGS:
        for match in pattern.finditer(text):
            begin, end = match.span()
            if any(begin < other_end and other_begin < end for other_begin, other_end in taken):
                continue
            if budget.characters <= 0:
                return
            decoded = decode(match[0])
            if not decoded or decoded == match[0]:
                continue
            taken.append((begin, end))
            name = coding
            if coding == "base64" and _is_gzip(match[0]):
                name = "gzip in base64"
            shown = decoded[: max(budget.characters, 0)]
            budget.characters -= len(shown)
            yield Layer(name, begin, end, shown, _xray(shown, budget, depth - 1))


def _readable(data: bytes | None) -> str | None:
    """Return bytes as text, if that is what they are."""
    if not data:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    printable = sum(character.isprintable() or character in "\n\r\t\x1b\u200b" for character in text)
    return text if printable >= _LEAST_PRINTABLE * len(text) else None


def _base64_bytes(text: str) -> bytes | None:
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    if len(plain) % 4 == 1:
        return None
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _is_gzip(text: str) -> bool:
    data = _base64_bytes(text)
    return data is not None and data.startswith(_GZIP)


def _of_base64(text: str) -> str | None:
    data = _base64_bytes(text)
    if data is not None and data.startswith(_GZIP):
        try:
            # What is packed may be a bomb: no more is unpacked than is shown.
            data = zlib.decompressobj(31).decompress(data, MOST_DECODED)
        except zlib.error:
            return None
    return _readable(data)


def _of_hex(text: str) -> str | None:
    digits = re.sub(r"\\x|^0x|[ :]", "", text)
    return _readable(bytes.fromhex(digits)) if len(digits) % 2 == 0 else None


def _of_url(text: str) -> str | None:
    return _readable(unquote_to_bytes(text.encode()))


def _of_tags(text: str) -> str | None:
    return "".join(chr(ord(character) - 0xE0000) for character in text)


def _of_rot13(text: str) -> str | None:
    """Return a line turned back, if that makes English words of what has hardly any."""
    turned = codecs.decode(text, "rot13")
    before, after = ([word.lower() for word in _LETTERS.findall(line)] for line in (text, turned))
    known, better = (sum(word in _COMMON for word in words) for words in (before, after))
    return turned if better >= 3 and better > 2 * known and better * 5 >= len(after) else None


_CODINGS: tuple[tuple[str, re.Pattern[str], Callable[[str], str | None]], ...] = (
    ("Unicode tags", _TAGS, _of_tags),
    ("hexadecimal", _HEX, _of_hex),
    ("base64", _BASE64, _of_base64),
    ("URL encoding", _URL, _of_url),
    ("HTML entities", _ENTITIES, html.unescape),
    ("rot13", _ROT13_LINE, _of_rot13),
)


# -- links ------------------------------------------------------------------------------------------------------

_ADDRESS = re.compile(
    r"""(?:https?|ftp|wss?)://[^\s<>"'`)\]}\\]{1,2000}|(?:javascript|data):[^\s<>"'`)]{1,200}""", re.IGNORECASE
)
_IMAGE_BEFORE = re.compile(
    r"""(?:!\[[^\]]{0,200}\]\(|<(?:img|image|iframe|object|embed|video|source|link|script)\b[^>]{0,300}"""
    r"""|url\(["']?|src=["']?)$""",
    re.IGNORECASE,
)
_HOST = re.compile(r"[a-z]+://(?:[^/@?#]*@)?([^/?#:]+)", re.IGNORECASE)
_BEFORE = 320


def _links(text: str) -> Iterator[LeakingLink]:
    """Yield addresses; those that are loaded without a click, because a picture or a script is there, are images."""
    for match in _ADDRESS.finditer(text):
        before = text[max(match.start() - _BEFORE, 0) : match.start()]
        kind = IMAGE if _IMAGE_BEFORE.search(before) else LINK
        host = _HOST.match(match[0])
        yield LeakingLink(kind, match.start(), match.end(), match[0], "" if host is None else host[1])
