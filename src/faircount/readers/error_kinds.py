"""Error texts made fit to show and to group: secrets masked, hidden characters visible, varying numbers levelled.

A kind is made of the words that distinguish an error: the HTTP status, the provider's code and its message. What
libraries put around those is the same for all errors, and in a narrow table it would be all that is seen of them.
"""

import re
from functools import lru_cache

from faircount.core.text import clip, mask_secrets, visible

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
    return _described(error)


@lru_cache(maxsize=8192)
def _described(error: str) -> tuple[str, str]:
    masked = mask_secrets(error)
    kind = _first_line(_of_provider(masked) or _unwrapped(masked))
    return clip(visible(masked), _SHOWN), clip(visible(_VARYING.sub("#", kind)), _KIND) or "(no text)"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _unwrapped(error: str) -> str:
    """Return an error without what stands before its words, but with the last exception that is named: the cause."""
    told = _OF_BOTOCORE.sub(r"\1: ", error, count=1)
    wrapped = _WRAPPINGS.match(told)
    rest = "" if wrapped is None else told[wrapped.end() :]
    if wrapped is None or not rest.strip():
        return told
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
    told = f"{' '.join(filter(None, [status, code]))}: {message}".removeprefix(": ")
    # Somebody's own words before it, such as who asked, tell errors apart as well.
    context = _STATUS.sub("", _WRAPPINGS.sub("", before)).strip(" \t\r\n:-,.<>[](")
    return f"{context}: {told}" if 0 < len(context) <= _LONGEST_CONTEXT and context != code else told
