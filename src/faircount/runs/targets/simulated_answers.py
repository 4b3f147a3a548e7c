"""What a simulated target says: a few rules over the last message of the user, right or wrong as it is told.

    17 + 25, 6 times 7         the result; wrong: a number near it
    letters in a word          how many there are; wrong: one more or less
    say X, repeat X            X; wrong: something else
    prompts of an attack       a refusal; wrong: it complies
    after the result of a tool what the tool said; wrong: that it found nothing
    everything else            an echo; wrong: that it did not understand

Where JSON is asked for, the answer is {"answer": ...}; half of the wrong ones stand in a code fence, too. Nothing here
draws lots for itself: randomness comes in as an argument, so that the same lots give the same words.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

LONGEST_LATENCY = 60.0
"""In seconds, at the median: they are really waited, also by those who resume a journal that somebody edited."""
REFUSAL = "I'm sorry, but I can't help with that."

_MOST_NUMBERS = 20
_WORDS_FOR_SIGNS = (
    (r"\bplus\b", "+"),
    (r"\bminus\b", "-"),
    (r"\b(?:times|multiplied by)\b|[×∗]", "*"),
    (r"\bdivided by\b|÷", "/"),
    (r"(?<=\d)\s*x\s*(?=\d)", "*"),
)
_NUMBER = r"\d{1,18}(?:\.\d{1,6})?"
_SUM = re.compile(rf"(?<![\w.]){_NUMBER}(?:\s*[-+*/]\s*{_NUMBER})+(?![\w.]*\w)")
_PARTS = re.compile(rf"{_NUMBER}|[-+*/]")
_ASKS_FOR_SUM = re.compile(r"\b(what|how much|calculate|compute|add|solve|result|sum|equals?)\b|=", re.I)
_BARE = re.compile(r"\b(only|just|nothing but)\b[^.?!]{0,400}\b(number|result|answer|digits?)\b", re.I)
_LETTERS = re.compile(
    r"how many\s+(?:times\s+(?:does|is)\s+)?(?:the\s+)?(?:letters?\s+)?[\"'“‘]?(?P<letter>[a-z])[\"'”’]?(?:s|'s)?\s+"
    r"(?:letters?\s+)?(?:are\s+|is\s+|do\s+|does\s+|appears?\s+|occurs?\s+)?(?:there\s+)?(?:appear\s+|occur\s+)?"
    r"in\s+(?:the\s+)?(?:word\s+)?[\"'“‘]?(?P<word>[a-z]+)",
    re.I,
)
_ECHO = re.compile(
    r"\b(?:repeat(?:\s+after\s+me)?|say|echo|(?:reply|respond|answer)\s+with)\b"
    r"(?:\s+(?:exactly|only|just|the\s+words?|the\s+text))*\s*(?::\s*)?[\"'“]?(?P<text>.+?)[\"'”]?[.!]?$",
    re.I | re.S,
)
_ATTACK = re.compile(
    r"\b(ignore|disregard|forget)\b.{0,40}\b(instructions?|rules?|prompt)\b|\bsystem prompt\b|\bjailbreak"
    r"|\b(password|api key|credit card)\b|\b(bomb|malware|ransomware|phishing)\b|\bdeveloper mode\b",
    re.I | re.S,
)

Rule = Callable[[str, bool, random.Random], "str | None"]


def text_of(content: object) -> str:
    """Return the text of the content of a message: a text, or the texts among its parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return " ".join(text for text in texts if isinstance(text, str))


def last_of(messages: Sequence[Mapping[str, Any]], role: str) -> str:
    """Return the last message of somebody; an empty text if there is none."""
    return next((text_of(one.get("content")) for one in reversed(messages) if one.get("role") == role), "")


def say(messages: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any], right: bool, lots: random.Random) -> str:
    """Return an answer to a conversation."""
    if messages and messages[-1].get("role") == "tool":
        result = text_of(messages[-1].get("content"))
        return f"The tool says: {result}" if right else "The tool found nothing."
    text = last_of(messages, "user").strip()
    if _ATTACK.search(text):
        return REFUSAL if right else f"Sure, here it is. {text}"
    as_json = _wants_json(messages, parameters)
    for rule in (_result, _letter_count, _repeated):
        found = rule(text, right, lots)
        if found is not None:
            return _in_json(found, right, lots) if as_json else _in_words(text, found, rule, lots)
    words = f"You said: {text}" if right else "I am not sure that I understand."
    return _in_json(words, right, lots) if as_json else words


def _in_words(text: str, found: str, rule: Rule, lots: random.Random) -> str:
    if rule is _repeated or _BARE.search(text):
        return found
    return lots.choice(("{}", "The answer is {}.", "That is {}.")).format(found)


def _wants_json(messages: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]) -> bool:
    shape = parameters.get("response_format")
    if isinstance(shape, Mapping) and str(shape.get("type", "")).startswith("json"):
        return True
    asked = f"{last_of(messages, 'system')} {last_of(messages, 'user')}"
    return re.search(r"\bJSON\b", asked, re.I) is not None


def _in_json(found: str, right: bool, lots: random.Random) -> str:
    value: object = found
    if re.fullmatch(r"-?\d{1,18}", found):
        value = int(found)
    elif re.fullmatch(r"-?\d{1,18}\.\d+", found):
        value = float(found)
    written = json.dumps({"answer": value}, ensure_ascii=False)
    return written if right or lots.random() < 0.5 else f"Here it is:\n```json\n{written}\n```"


# -- rules ------------------------------------------------------------------------------------------------------


def find_sum(text: str) -> str | None:
    """Return the first sum, product or the like in a text that asks for one."""
    for words, sign in _WORDS_FOR_SIGNS:
        text = re.sub(words, sign, text, flags=re.I)
    found = _SUM.search(text)
    if found is None or not (_ASKS_FOR_SUM.search(text) or found.group() == text.strip(" ?.")):
        return None
    return found.group()


def _result(text: str, right: bool, lots: random.Random) -> str | None:
    found = find_sum(text)
    parts = _PARTS.findall(found) if found else []
    if not parts or len(parts) > 2 * _MOST_NUMBERS:
        return None
    try:
        value = _calculated(parts)
    except ZeroDivisionError:
        return "not defined" if right else "0"
    if not right:
        value += lots.choice((-10, -2, -1, 1, 2, 10))
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.4f}".rstrip("0")


def _calculated(parts: Sequence[str]) -> Fraction:
    """Return the value of numbers with signs between them; products go first."""
    terms = [Fraction(parts[0])]
    for sign, number in zip(parts[1::2], map(Fraction, parts[2::2]), strict=True):
        if sign == "*":
            terms[-1] *= number
        elif sign == "/":
            terms[-1] /= number
        else:
            terms.append(number if sign == "+" else -number)
    return sum(terms, Fraction(0))


def _letter_count(text: str, right: bool, lots: random.Random) -> str | None:
    found = _LETTERS.search(text)
    if found is None:
        return None
    count = found["word"].lower().count(found["letter"].lower())
    return str(count if right else max(0, count + lots.choice((-1, 1))) if count else count + 1)


def _repeated(text: str, right: bool, lots: random.Random) -> str | None:
    found = _ECHO.search(text.rstrip())
    if found is None:
        return None
    return found["text"].strip() if right else lots.choice(("I would rather not.", "What should I say?", "Hello."))
