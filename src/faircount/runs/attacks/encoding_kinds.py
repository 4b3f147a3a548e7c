"""Ways to write a text so that a filter on words does not see it, and what a reader must know to read it."""

from __future__ import annotations

import base64
import codecs
import string
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote

_LEET = str.maketrans("aeiostbgAEIOSTBG", "4310578943105789")
# Latin letters and letters of other scripts that look like them.
_LOOKALIKES = str.maketrans(
    "aceijopsxyABCEHIKMNOPSTXYZ",
    "\u0430\u0441\u0435\u0456\u0458\u043e\u0440\u0455\u0445\u0443"
    "\u0410\u0412\u0421\u0415\u041d\u0406\u041a\u041c\u039d\u041e\u0420\u0405\u0422\u0425\u03a5\u0396",
)
_WIDE = str.maketrans({chr(code): chr(code + 0xFEE0) for code in range(0x21, 0x7F)})
_MORSE_SIGNS = """
A .-    B -...  C -.-.  D -..   E .     F ..-.  G --.   H ....  I ..    J .---  K -.-   L .-..  M --
N -.    O ---   P .--.  Q --.-  R .-.   S ...   T -     U ..-   V ...-  W .--   X -..-  Y -.--  Z --..
0 ----- 1 .---- 2 ..--- 3 ...-- 4 ....- 5 ..... 6 -.... 7 --... 8 ---.. 9 ----.
. .-.-.- , --..-- ? ..--.. ! -.-.-- ' .----. / -..-. ( -.--. ) -.--.- & .-... : ---... ; -.-.-. = -...- + .-.-.
- -....- " .-..-. @ .--.-.
"""
_MORSE = dict(zip(_MORSE_SIGNS.split()[::2], _MORSE_SIGNS.split()[1::2], strict=True))
_SHIFT = 3


class Kind(NamedTuple):
    """A way to write; `known_as` says in an instruction how it is read, and is empty where anybody reads it."""

    name: str
    encode: Callable[[str], str]
    known_as: str


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _base64(text: str) -> str:
    return base64.b64encode(_bytes(text)).decode()


def _base32(text: str) -> str:
    return base64.b32encode(_bytes(text)).decode()


def _hex(text: str) -> str:
    return _bytes(text).hex()


def _binary(text: str) -> str:
    return " ".join(f"{byte:08b}" for byte in _bytes(text))


def _url(text: str) -> str:
    """Return every byte as %XX, letters too."""
    return "".join(
        quote(one, safe="", errors="surrogatepass") if not _is_safe(one) else f"%{ord(one):02X}" for one in text
    )


def _is_safe(character: str) -> bool:
    return character.isascii() and quote(character, safe="") == character


def _rot13(text: str) -> str:
    return codecs.encode(text, "rot13")


def _caesar(text: str) -> str:
    lower, upper = string.ascii_lowercase, string.ascii_uppercase
    moved = lower[_SHIFT:] + lower[:_SHIFT] + upper[_SHIFT:] + upper[:_SHIFT]
    return text.translate(str.maketrans(lower + upper, moved))


def _atbash(text: str) -> str:
    lower, upper = string.ascii_lowercase, string.ascii_uppercase
    return text.translate(str.maketrans(lower + upper, lower[::-1] + upper[::-1]))


def _morse(text: str) -> str:
    """Return letters divided by blanks and words by a stroke; what Morse has no sign for stays as it is."""
    words = (" ".join(_MORSE.get(one, one) for one in word) for word in text.upper().split())
    return " / ".join(words)


def _leetspeak(text: str) -> str:
    return text.translate(_LEET)


def _homoglyphs(text: str) -> str:
    return text.translate(_LOOKALIKES)


def _fullwidth(text: str) -> str:
    return text.translate(_WIDE)


def _spaced(text: str) -> str:
    return "  ".join(" ".join(word) for word in text.split())


def _reversed(text: str) -> str:
    return text[::-1]


KINDS = (
    Kind("base64", _base64, "Base64 of UTF-8"),
    Kind("hex", _hex, "hexadecimal bytes of UTF-8"),
    Kind("rot13", _rot13, "ROT13: every letter is moved by 13 places"),
    Kind("leetspeak", _leetspeak, "leetspeak: digits stand for letters"),
    Kind("morse", _morse, "Morse code, with / between words"),
    Kind("binary", _binary, "binary bytes of UTF-8"),
    Kind("url", _url, "URL percent-encoding"),
    Kind("homoglyphs", _homoglyphs, ""),
    Kind("reversed", _reversed, "reversed order: the last character comes first"),
    Kind("caesar", _caesar, f"a Caesar cipher: every letter is moved forward by {_SHIFT} places"),
    Kind("base32", _base32, "Base32 of UTF-8"),
    Kind("atbash", _atbash, "Atbash: A stands for Z, B for Y, and so on"),
    Kind("fullwidth", _fullwidth, ""),
    Kind("spaced", _spaced, ""),
)
