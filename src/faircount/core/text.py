"""The one door through which the text of a record reaches a terminal, a page, a sheet or a log.

Records are hostile by nature: they hold escape sequences that retitle terminals, bidirectional marks that reorder
what people read, characters that cannot be seen, and now and then somebody's API key. Nothing here knows what the
text means; it makes every character visible and every secret unreadable.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

LONE_SURROGATES = re.compile("[\ud800-\udfff]")
"""Halves of characters, which no UTF-8 can hold."""

_NAMED_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

# Letters and marks that draw nothing although Unicode does not call them control or format characters:
# Hangul fillers, the Braille blank, the combining grapheme joiner, Mongolian and Khitan signs, variation selectors, a
# null note head.
_INVISIBLE = frozenset(
    code
    for first, last in (
        (0x034F, 0x034F),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x2800, 0x2800),
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),
        (0xFFA0, 0xFFA0),
        (0x16FE4, 0x16FE4),
        (0x1D159, 0x1D159),
        (0xE0100, 0xE01EF),
    )
    for code in range(first, last + 1)
)

# Other, format, surrogate, private-use and unassigned characters; line and paragraph separators.
_HIDDEN_CATEGORIES = frozenset(["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"])


# What the runners of CI jobs obey in a log. GitHub: `::name::` where a line begins, after spaces, and `##[name]`
# anywhere in it (actions/runner, ActionCommand.cs); Azure: `##vso[` and `##[` anywhere.
_COMMAND = re.compile(r"#(?=#(?:vso)?\[)", re.IGNORECASE)
_COMMAND_LINE = re.compile(r"^([^\S\n]*):(:[^\n]*)", re.MULTILINE)

_ROUNDS_OF_CLIPPING = 5


def _escape(character: str) -> str:
    named = _NAMED_ESCAPES.get(character)
    if named is not None:
        return named
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"


def _is_hidden(character: str) -> bool:
    category = unicodedata.category(character)
    # Any space but the usual one: a name with one would look like another.
    return category in _HIDDEN_CATEGORIES or ord(character) in _INVISIBLE or (category == "Zs" and character != " ")


def replace_surrogates(text: str) -> str:
    """Return text that UTF-8 can hold: a lone surrogate becomes U+FFFD."""
    return LONE_SURROGATES.sub("\ufffd", text)


def visible(text: str) -> str:
    """Return `text` on one line with every control, format, bidirectional and invisible character spelled out.

    So is the first sign of `##[` and `##vso[`, which are commands wherever they stand in the log of a CI job. Other
    printable text comes back unchanged, so the function can be applied twice without harm.
    """
    if "##" in text:
        text = _COMMAND.sub(r"\\x23", text)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(character) if _is_hidden(character) else character for character in text)


def inert_lines(text: str) -> str:
    """Return lines of which none begins with `::`, a command in the log of a CI job; there it is spelled `\\x3a:`."""
    return _COMMAND_LINE.sub(_inert_line, text) if "::" in text else text


def _inert_line(match: re.Match[str]) -> str:
    # The next column of a table stays where it is, if there is room.
    return rf"{match[1]}\x3a" + match[2].replace(" " * 5, " " * 2, 1)


def cell_width(text: str) -> int:
    """Return how many cells of a terminal a visible text takes: two for wide letters, none for combining marks."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


@lru_cache(maxsize=1024)
def _character_width(character: str) -> int:
    return 1 + (unicodedata.east_asian_width(character) in ("W", "F")) - (unicodedata.combining(character) != 0)


def left_to_right(text: str) -> str:
    """Return a visible text between marks that keep right-to-left letters in it from turning what is around it."""
    if text.isascii() or not any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text):
        return text
    return f"\N{LEFT-TO-RIGHT MARK}{text}\N{LEFT-TO-RIGHT MARK}"


def clip(text: str, limit: int) -> str:
    """Shorten `text` to at most `limit` characters, the last of them an ellipsis where something was cut."""
    if len(text) <= limit:
        return text
    return text[: max(limit - 1, 0)] + "…"


def clip_middle(text: str, limit: int) -> str:
    """Shorten `text` in its middle, for names, whose beginning and end say more than what is between them."""
    if len(text) <= limit:
        return text
    end = max((limit - 1) // 2, 0)
    return text[: max(limit - 1 - end, 0)] + "…" + text[len(text) - end :]


def _common_start(texts: Collection[str]) -> int:
    """Return how many characters texts have in common at their beginning."""
    first, last = min(texts), max(texts)
    return next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))


def clip_apart(texts: Sequence[str], limit: int, cut: Callable[[str, int], str] = clip) -> list[str]:
    """Shorten texts so that those that differ still do: of texts that would look alike, the common part is cut."""
    shown = [cut(text, limit) for text in texts]
    for _ in range(_ROUNDS_OF_CLIPPING):
        alike: dict[str, set[str]] = {}
        for text, short in zip(texts, shown, strict=True):
            alike.setdefault(short, set()).add(text)
        starts = {
            text: max(_common_start(group) - limit // 3, 0)
            for group in alike.values()
            if len(group) > 1
            for text in group
        }
        if not starts:
            break
        shown = [
            clip(f"…{text[starts[text] :]}" if starts.get(text) else text, limit) if text in starts else short
            for text, short in zip(texts, shown, strict=True)
        ]
    return _numbered(texts, shown, limit)


def _numbered(texts: Sequence[str], shown: Sequence[str], limit: int) -> list[str]:
    """Number the texts that still look alike, which only texts do that repeat themselves."""
    taken: dict[str, str] = {}
    numbered = []
    for text, short in zip(texts, shown, strict=True):
        number = 1
        while taken.setdefault(short, text) != text and number < limit:
            number += 1
            short = f"{clip(text, max(limit - len(f'#{number}'), 0))}#{number}"[:limit]
        numbered.append(short)
    return numbered


# Not compiled before it is needed: that takes 8 ms, and few files have anything like a secret.
_SECRETS = r"""
      (?P<labelled>
          (?i:(?:api[_-]?key|apikey|access[_-]?token|auth[_-]?token|client[_-]?secret|secret|password|passwd|token|key)
              ["']?\s*[=:]\s*["']?)
          (?P<value>[A-Za-z0-9_\-./+=]{12,})
      )
    | (?P<bearer>(?i:(?:bearer|basic)\s+)(?P<credential>[A-Za-z0-9_\-./+=~]{12,}))
    | (?P<bare>
          \b(?:sk|pk|rk)-[A-Za-z0-9_-]{12,}
        | \b(?:AKIA|ASIA)[A-Z0-9]{12,}
        | \bgh[pousr]_[A-Za-z0-9]{16,}
        | \bgithub_pat_[A-Za-z0-9_]{16,}
        | \bglpat-[A-Za-z0-9_-]{16,}
        | \bxox[abeoprs]-[A-Za-z0-9-]{10,}
        | \bAIza[A-Za-z0-9_-]{20,}
        | \bhf_[A-Za-z0-9]{16,}
        | \bgsk_[A-Za-z0-9]{16,}
        | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*
      )
"""


# A JSON Web Token is found in two steps: one pattern would read a long run of letters again for every `eyJ` in it.
_DOTTED = re.compile(r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{13,}+(?=\.[A-Za-z0-9_-]{10})")
_TOKEN_BEGINS = re.compile(r"\beyJ(?=[A-Za-z0-9_-]{10})")
_TOKEN_GOES_ON = re.compile(r"\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?")


def _masked(match: re.Match[str]) -> str:
    secret = match["value"] or match["credential"] or match["bare"]
    start = match.group(0)[: len(match.group(0)) - len(secret)]
    return f"{start}{secret[:3]}…[masked]"


def _mask_web_tokens(text: str) -> str:
    parts = []
    done = 0
    while dotted := _DOTTED.search(text, done):
        begins = _TOKEN_BEGINS.search(text, dotted.start(), dotted.end())
        goes_on = _TOKEN_GOES_ON.match(text, dotted.end())
        if begins is None or goes_on is None:
            parts.append(text[done : dotted.end()])
            done = dotted.end()
        else:
            parts.append(f"{text[done : begins.end()]}…[masked]")
            done = goes_on.end()
    return "".join(parts) + text[done:]


# What a text with a secret has, in small letters. Each is many times quicker to look for than `_SECRETS`.
_WORDS_OF_SECRETS = (
    *(
        "key",
        "token",
        "secret",
        "passw",
        "bearer",
        "basic",
        "sk-",
        "pk-",
        "rk-",
        "akia",
        "asia",
        "gho_",
        "ghp_",
        "ghr_",
    ),
    *("ghs_", "ghu_", "github_pat_", "glpat-", "xox", "aiza", "hf_", "gsk_", "-----begin"),
)
_LIKE_SECRETS = re.compile(
    r"""(?:key|token|secret|passwd|password)["']?\s*[=:]\s*["']?[a-z0-9_\-./+=]{12}"""
    r"|(?:bearer|basic)\s+[a-z0-9_\-./+=~]{12}"
    r"|[spr]k-[a-z0-9_-]{12}|a[ks]ia[a-z0-9]{12}|gh[pousr]_[a-z0-9]{16}|github_pat_|glpat-|xox[abeoprs]-"
    r"|aiza[a-z0-9_-]{20}|hf_[a-z0-9]{16}|gsk_|-----begin "
)


def _may_hold_secrets(text: str) -> bool:
    # A pattern that ignores case takes two letters that are not ASCII for an i; folding leaves them.
    small = text.lower() if text.isascii() else text.casefold().replace("ı", "i").replace("i\u0307", "i")
    return any(map(small.__contains__, _WORDS_OF_SECRETS)) and _LIKE_SECRETS.search(small) is not None


def mask_secrets(text: str) -> str:
    """Return `text` with everything that looks like an API key, token or password cut to its first three characters."""
    if "eyJ" in text:
        text = _mask_web_tokens(text)
    return re.sub(_SECRETS, _masked, text, flags=re.VERBOSE | re.DOTALL) if _may_hold_secrets(text) else text
