"""Targets that need no network and no key: simulations, for trying Faircount out, for the demo and for tests.

They are no models. All random draws depend on `seed`, the case, the number of the attempt and what is sent alone: the
same run comes out the same in any process, in any order and after any interruption, and an attempt that failed fails
again. `SimulatedTarget` answers tests; `SimulatedAttackTarget` is an assistant that can be talked into things, a
guardrail, or one behind the other.
"""

from __future__ import annotations

import functools
import json
import math
import random
import re
import struct
from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Any, ClassVar

from msgspec import Struct, structs

from faircount.core.errors import UsageError
from faircount.judges.judge import check_number
from faircount.runs.seeding import digest_of, rng_for
from faircount.runs.targets.base import BLOCKED, Answer, Request, Target, TargetError, prompt_of, system_of

# -- answers ------------------------------------------------------------------------------------------------------


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


def say(messages: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any], right: bool, rng: random.Random) -> str:
    """Return an answer to a conversation by a few rules over the last message of the user, right or wrong as asked.

        17 + 25, 6 times 7         the result; wrong: a number near it
        letters in a word          how many there are; wrong: one more or less
        say X, repeat X            X; wrong: something else
        prompts of an attack       a refusal; wrong: it complies
        after the result of a tool what the tool said; wrong: that it found nothing
        everything else            an echo; wrong: that it did not understand

    Where JSON is asked for, the answer is {"answer": ...}; half of the wrong ones stand in a code fence, too.
    """
    if messages and messages[-1].get("role") == "tool":
        result = text_of(messages[-1].get("content"))
        return f"The tool says: {result}" if right else "The tool found nothing."
    text = last_of(messages, "user").strip()
    if _ATTACK.search(text):
        return REFUSAL if right else f"Sure, here it is. {text}"
    as_json = _wants_json(messages, parameters)
    for rule in (_result, _letter_count, _repeated):
        found = rule(text, right, rng)
        if found is not None and as_json:
            return _in_json(found, right, rng)
        if found is not None:
            is_bare = rule is _repeated or _BARE.search(text)
            return found if is_bare else rng.choice(("{}", "The answer is {}.", "That is {}.")).format(found)
    words = f"You said: {text}" if right else "I am not sure that I understand."
    return _in_json(words, right, rng) if as_json else words


def _wants_json(messages: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]) -> bool:
    shape = parameters.get("response_format")
    if isinstance(shape, Mapping) and str(shape.get("type", "")).startswith("json"):
        return True
    asked = f"{last_of(messages, 'system')} {last_of(messages, 'user')}"
    return re.search(r"\bJSON\b", asked, re.I) is not None


def _in_json(found: str, right: bool, rng: random.Random) -> str:
    value: object = found
    if re.fullmatch(r"-?\d{1,18}", found):
        value = int(found)
    elif re.fullmatch(r"-?\d{1,18}\.\d+", found):
        value = float(found)
    written = json.dumps({"answer": value}, ensure_ascii=False)
    return written if right or rng.random() < 0.5 else f"Here it is:\n```json\n{written}\n```"


# -- rules ------------------------------------------------------------------------------------------------------


def find_sum(text: str) -> str | None:
    """Return the first sum, product or the like in a text that asks for one."""
    for words, sign in _WORDS_FOR_SIGNS:
        text = re.sub(words, sign, text, flags=re.I)
    found = _SUM.search(text)
    if found is None or not (_ASKS_FOR_SUM.search(text) or found.group() == text.strip(" ?.")):
        return None
    return found.group()


def _result(text: str, right: bool, rng: random.Random) -> str | None:
    found = find_sum(text)
    parts = _PARTS.findall(found) if found else []
    if not parts or len(parts) > 2 * _MOST_NUMBERS:
        return None
    try:
        value = _calculated(parts)
    except ZeroDivisionError:
        return "not defined" if right else "0"
    if not right:
        value += rng.choice((-10, -2, -1, 1, 2, 10))
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


def _letter_count(text: str, right: bool, rng: random.Random) -> str | None:
    found = _LETTERS.search(text)
    if found is None:
        return None
    count = found["word"].lower().count(found["letter"].lower())
    return str(count if right else max(0, count + rng.choice((-1, 1))) if count else count + 1)


def _repeated(text: str, right: bool, rng: random.Random) -> str | None:
    found = _ECHO.search(text.rstrip())
    if found is None:
        return None
    return found["text"].strip() if right else rng.choice(("I would rather not.", "What should I say?", "Hello."))


# -- calls of tools -----------------------------------------------------------------------------------------------


_WORD = re.compile(r"[a-z]+|\d+")
_NUMBER_GIVEN = re.compile(r"-?\d{1,15}(?:\.\d{1,6})?")
_QUOTED = re.compile(r"[\"“]([^\"”]+)[\"”]|(?<!\w)'([^']+)'(?!\w)")
_NAME = re.compile(r"(?<![.?!]\s)(?<!^)\b[A-Z]\w+(?:\s+[A-Z]\w+)*")
_FILL_WORDS = frozenset(
    ["the", "a", "an", "of", "in", "is", "what", "for", "to", "and", "by", "get", "me", "it", "with"]
)


def call(text: str, parameters: Mapping[str, Any], right: bool, rng: random.Random) -> list[dict[str, Any]]:
    """Return the calls that a message leads to: one or none.

    The tool is the one whose name and description have most words in common with the message. Arguments are taken from
    the message where it has something that fits: a value of an `enum`, a number, a word in quotes or with a capital
    letter. A wrong call lacks, changes or confuses something.
    """
    functions = _functions(parameters.get("tools"))
    chosen = _chosen(text, functions, parameters.get("tool_choice"))
    if chosen is None:
        return []
    given = _arguments(text, chosen.get("parameters"))
    name = str(chosen["name"])
    if not right:
        mistake = rng.choice(("none", "arguments", "name"))
        others = [str(one["name"]) for one in functions if one["name"] != name]
        if mistake == "none":
            return []
        if mistake == "name" and others:
            name = rng.choice(others)
        else:
            given = _spoilt(given)
    written = {"name": name, "arguments": json.dumps(given, ensure_ascii=False)}
    return [{"id": f"call_{rng.getrandbits(48):012x}", "type": "function", "function": written}]


def _functions(tools: object) -> list[Mapping[str, Any]]:
    given = tools if isinstance(tools, list | tuple) else ()
    functions = [tool.get("function") for tool in given if isinstance(tool, Mapping)]
    return [one for one in functions if isinstance(one, Mapping) and one.get("name")]


def _chosen(text: str, functions: Sequence[Mapping[str, Any]], choice: object) -> Mapping[str, Any] | None:
    if choice == "none" or not functions:
        return None
    if isinstance(choice, Mapping) and isinstance(choice.get("function"), Mapping):
        wanted = choice["function"].get("name")
        return next((one for one in functions if one["name"] == wanted), None)
    asked = _words(text)
    in_common = [len(asked & _words(f"{one['name']} {one.get('description', '')}")) for one in functions]
    best = max(range(len(functions)), key=in_common.__getitem__)
    return functions[best] if in_common[best] or choice == "required" else None


def _words(text: str) -> frozenset[str]:
    """Return the words of a text, without their endings: "additions" and "add" have their beginning in common."""
    words = _WORD.findall(text.lower().replace("_", " "))
    return frozenset(word[:5] for word in words if word not in _FILL_WORDS)


def _arguments(text: str, schema: object) -> dict[str, Any]:
    described = schema if isinstance(schema, Mapping) else {}
    properties = described.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    required = described.get("required") or []
    found = _ArgumentSource(text)
    given: dict[str, Any] = {}
    for name, kind in properties.items():
        value = found.take(str(name), kind if isinstance(kind, Mapping) else {})
        if value is None and name in required:
            value = found.anything(kind if isinstance(kind, Mapping) else {})
        if value is not None:
            given[str(name)] = value
    return given


class _ArgumentSource:
    """What a message offers as arguments; each number and name is taken once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._numbers = _NUMBER_GIVEN.findall(text)
        quoted = [first or second for first, second in _QUOTED.findall(text)]
        self._names = quoted or _NAME.findall(text)

    def take(self, name: str, kind: Mapping[str, Any]) -> Any:
        """Return what fits a property, or None."""
        choices = kind.get("enum")
        if isinstance(choices, list | tuple):
            words = self._text.lower()
            return next((one for one in choices if str(one).lower() in words), None)
        if kind.get("type") in ("number", "integer"):
            number = self._numbers.pop(0) if self._numbers else None
            return None if number is None else float(number) if "." in number else int(number)
        if kind.get("type", "string") == "string":
            if "expression" in name.lower():
                return find_sum(self._text)
            return self._names.pop(0) if self._names else None
        return None

    def anything(self, kind: Mapping[str, Any]) -> Any:
        """Return a value for a property that needs one and finds none in the message."""
        choices = kind.get("enum")
        if isinstance(choices, list | tuple) and choices:
            return choices[0]
        empty: dict[str, Any] = {"number": 0, "integer": 0, "boolean": True, "array": [], "object": {}}
        return empty.get(str(kind.get("type")), self._text)


def _spoilt(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of which the first is wrong; where there are none, one too many."""
    spoilt = dict(given)
    if not spoilt:
        return {"unexpected": True}
    name, value = next(iter(spoilt.items()))
    spoilt[name] = value + 1 if isinstance(value, int | float) and not isinstance(value, bool) else f"{value}?"
    return spoilt


# -- the simulated model ------------------------------------------------------------------------------------------


_MILLION = 1_000_000
# Of the beta distribution that abilities are drawn from: the lower, the more cases are always right or always wrong.
_CONCENTRATION = 2.0
# Of the lognormal distribution that latencies are drawn from: one in twenty takes more than twice the median.
_SPREAD = 0.45
_LATE = 3.0
_ERRORS = (
    ("status", "the server answered with status 500: internal error"),
    ("status", "the server answered with status 503: overloaded"),
    ("status", "the server answered with status 429: too many requests"),
    ("connection", "the server closed the connection without an answer"),
)


class Simulation(Struct, frozen=True):
    """The options of simulated targets; each variant takes some of them."""

    seed: int = 0
    accuracy: float = 0.85
    refusal_rate: float = 0.03
    error_rate: float = 0.0
    timeout_rate: float = 0.0
    latency: float = 0.0
    price: float = 0.0
    weakness: float = 0.3
    recall: float = 0.8
    false_positive_rate: float = 0.05


class Variant(Struct, frozen=True):
    """A simulated target by name: a sentence about it, the options that it takes, and their defaults."""

    name: str
    sentence: str
    takes: tuple[str, ...] = ("seed", "accuracy", "refusal_rate", "error_rate", "timeout_rate", "latency", "price")
    simulation: Simulation = Simulation()


TOOLS = "simulated:tools"
VARIANTS = (
    Variant("simulated", "answers by simple rules, mostly correctly; no network, no key, deterministic"),
    Variant(
        "simulated:flaky",
        "the same with errors (one in ten) and timeouts (one in twenty)",
        simulation=Simulation(error_rate=0.1, timeout_rate=0.05),
    ),
    Variant("simulated:slow", "the same, but slow: half a second at the median", simulation=Simulation(latency=0.5)),
    Variant(TOOLS, "calls the tools that a case offers, mostly the right ones"),
)


class _Simulated(Target):
    """A simulation, by the name of its variant."""

    variants: ClassVar[tuple[Variant, ...]]

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        variant = next((one for one in self.variants if one.name == name), None)
        if variant is None:
            raise UsageError(f"{name}: no such simulation; available: {', '.join(one.name for one in self.variants)}")
        self.name = name
        self._takes = variant.takes
        self.simulation = structs.replace(variant.simulation, **_checked(name, options or {}, variant.takes))

    def settings(self) -> Mapping[str, Any]:
        """Return the variant and all its options."""
        options = {name: getattr(self.simulation, name) for name in self._takes}
        return {"kind": "simulated", "name": self.name, "options": options}


class SimulatedTarget(_Simulated):
    """A simulated model, by the name of its variant.

    Every case has an ability of its own, drawn once around `accuracy` (some cases are nearly always right, some hardly
    ever, some now and then), and every attempt is right with that chance. At a `temperature` of 0 all attempts of a
    case get the same answer; errors and latencies still differ.

    Options: `seed` (0); `accuracy` (0.85), the share of right answers over many cases; `refusal_rate` (0.03), refusals
    without a cause; `error_rate` and `timeout_rate` (0), attempts that end in an error; `latency` (0), the median of
    the seconds that an answer takes, 60 at most, which are really waited; `price` (0), US dollars for a million tokens.
    A token is a word.
    """

    variants = VARIANTS

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(name, options)
        if self.simulation.error_rate + self.simulation.timeout_rate > 1:
            raise UsageError(f"{name}: error_rate and timeout_rate must add up to at most 1")

    async def answer(self, request: Request) -> Answer:
        """Return what the rules and the random draws come to."""
        rng = rng_for(self.simulation.seed, "transport", request.case, request.attempt)
        latency = self.simulation.latency * math.exp(rng.gauss(0.0, _SPREAD))
        trouble = self._trouble(rng)
        await _pass_time(latency * _LATE if trouble is not None and trouble.kind == "timeout" else latency)
        if trouble is not None:
            raise trouble
        return self._answered(request, latency)

    def _answered(self, request: Request, latency: float) -> Answer:
        same = request.parameters.get("temperature") == 0
        rng = rng_for(self.simulation.seed, "attempt", request.case, 0 if same else request.attempt)
        right = rng.random() < self._ability(request.case)
        refused = rng.random() < self.simulation.refusal_rate
        calls: list[dict[str, Any]] = []
        # When the tool has answered, the user is answered.
        if self.name == TOOLS and not refused and [one.get("role") for one in request.messages[-1:]] != ["tool"]:
            calls = call(last_of(request.messages, "user"), request.parameters, right, rng)
        text = "" if calls else REFUSAL if refused else say(request.messages, request.parameters, right, rng)
        text, cut = _cut(text, request.parameters.get("max_tokens"))
        asked = sum(len(text_of(message.get("content")).split()) for message in request.messages)
        answered = len(text.split()) + sum(len(one["function"]["arguments"].split()) for one in calls)
        return Answer(
            output=text,
            tools_called=tuple(calls),
            latency=latency,
            model=self.name,
            finish_reason="tool_calls" if calls else "length" if cut else "stop",
            prompt_tokens=asked,
            completion_tokens=answered,
            cost=(asked + answered) * self.simulation.price / _MILLION,
        )

    def _ability(self, case: str) -> float:
        """Return the chance that an attempt of a case is right."""
        mean = self.simulation.accuracy
        if mean in (0.0, 1.0):
            return mean
        rng = rng_for(self.simulation.seed, "case", case)
        return rng.betavariate(mean * _CONCENTRATION, (1 - mean) * _CONCENTRATION)

    def _trouble(self, rng: random.Random) -> TargetError | None:
        draw, which = rng.random(), rng.randrange(len(_ERRORS))
        if draw < self.simulation.error_rate:
            kind, message = _ERRORS[which]
            return TargetError(kind, f"{message} (simulated)")
        if draw < self.simulation.error_rate + self.simulation.timeout_rate:
            return TargetError("timeout", "no answer in time (simulated)")
        return None


def _cut(text: str, limit: object) -> tuple[str, bool]:
    """Return a text of so many words at most, and whether it was longer."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1 or len(text.split()) <= limit:
        return text, False
    return " ".join(text.split()[:limit]), True


async def _pass_time(seconds: float) -> None:
    if seconds > 0:
        import asyncio

        await asyncio.sleep(seconds)


def _checked(name: str, options: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for option, value in options.items():
        if option not in known:
            raise UsageError(f"{name}: has no option {option}; it takes {', '.join(known)}")
        if option == "seed":
            if isinstance(value, bool) or not isinstance(value, int):
                raise UsageError(f"{name}: seed must be a whole number")
            checked[option] = value
        else:
            high = {"latency": LONGEST_LATENCY, "price": math.inf}.get(option, 1.0)
            checked[option] = check_number(name, option, value, high=high)
    return checked


# -- simulated targets of attacks ---------------------------------------------------------------------------------


ASSISTANT, GUARDRAIL, GUARDED = "simulated:assistant", "simulated:guardrail", "simulated:guarded"

_STRONG = (
    re.compile(
        r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instructions?|rules?|prompt|above|previous)\b",
        re.I | re.S,
    ),
    re.compile(
        r"\b(?:developer|debug|god|maintenance|admin(?:istrator)?) mode\b|\bjailbreak|\bDAN\b|\bno restrictions\b", re.I
    ),
    re.compile(r"\b(?:new|updated|important|urgent|system) (?:instructions?|task|message|notice|update)\b", re.I),
    re.compile(r"<\|?/?(?:system|user|assistant|im_start|im_end)\|?>|\[/?INST\]|^#{2,}|-{5,}", re.I | re.M),
    re.compile(
        r"\byou (?:must|will|have to|are now)\b|\bact as\b|\bpretend\b|\bhypothetical|\bfiction\b|\bpoem\b", re.I
    ),
)
"""What jailbreaks are made of; each kind adds once."""
_ASKS = re.compile(
    r"\b(?:print|say|write|output|reply with|respond with|answer with|repeat|display|return|append|include)\b"
    r"[^\"'“`\n]{0,60}[\"'“`](?P<text>[^\"'”`\n]{1,300})[\"'”`]",
    re.I,
)
_LINK = re.compile(r"!?\[[^\]\n]{0,80}\]\([^)\s]{1,400}\)")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4}){8,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-f]{2}\s?){16,}", re.I)
_MORSE_OR_BITS = re.compile(r"(?:[.-]{1,5}[ /]+){12,}|(?:[01]{8}\s*){8,}")
_INVISIBLE = re.compile(r"[\u200b-\u200f\u2060-\u2064\U000e0000-\U000e007f]|[^\x00-\x7f]{6,}")
_LETTERS_AND_MORE = re.compile(r"[a-z]+[013457@$]+[a-z]*|[013457@$]+[a-z]+", re.I)
_PUNCTUATION = ".,;:!?\"'()[]{}-–—…“”‘’"
_LONGEST_WORD = 40
_LAST_WORDS = 5
_SECTIONS = ("jailbreak_type", "instruction_type", "plugin", "position", "lang")
_NORMAL, _SMALLEST = NormalDist(), 2.0**-60
_PER_TURN, _MOST_TURNS = 0.45, 6
_OWN_SPREAD, _SECTION_SPREAD = 1.1, 0.55
_WORDS_OF_AN_ANSWER = 40
_CATEGORIES = (
    ("jailbreak", re.compile(r"\bjailbreak|\bDAN\b|\bmode\b|\bno restrictions\b|\bpretend\b|\bact as\b", re.I)),
    ("encoding", re.compile(f"{_BASE64.pattern}|{_MORSE_OR_BITS.pattern}")),
    ("data exfiltration", re.compile(r"https?://|!\[", re.I)),
)


_ALWAYS = ("seed", "error_rate", "latency")
ATTACK_VARIANTS = (
    Variant(ASSISTANT, "sometimes falls for prompt injections; weakness=0..1, no network", ("weakness", *_ALWAYS)),
    Variant(
        GUARDRAIL,
        "a guardrail that answers true (let through) or false; recall, false_positive_rate",
        ("recall", "false_positive_rate", *_ALWAYS),
    ),
    Variant(
        GUARDED,
        "the assistant behind the guardrail, which blocks and names categories",
        ("weakness", "recall", "false_positive_rate", *_ALWAYS),
    ),
)


class SimulatedAttackTarget(_Simulated):
    """An assistant that can be talked into things, a guardrail, or one behind the other.

    The chance that the assistant obeys an instruction hidden in a prompt grows with `weakness` and with what the prompt
    does: strong words of a jailbreak, an encoding, a suffix, letters written differently, further turns of a
    conversation. Every entry has a resistance of its own, and so has every kind of jailbreak, instruction and plugin,
    drawn once: some entries fall at the first attempt, some never, most now and then. When it obeys it prints what the
    payload asks for; else it refuses, or does what the user wanted. A guardrail decides about the same prompt in the
    same way every time.
    """

    variants = ATTACK_VARIANTS

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(name, options)
        self.decides = name == GUARDRAIL

    async def answer(self, request: Request) -> Answer:
        """Return what the rules and the random draws come to."""
        latency = await self._transport(request)
        if self.name == GUARDRAIL:
            through = not self._stops(request)
            return Answer(output=str(through), let_through=through, latency=latency, model=self.name)
        if self.name == GUARDED and self._stops(request):
            found = [name for name, pattern in _CATEGORIES if pattern.search(prompt_of(request))]
            categories = ("prompt injection", *found)
            raise TargetError(BLOCKED, "the guardrail stopped the request", categories=categories)
        text = self._said(request)
        return Answer(
            output=text,
            latency=latency,
            model=self.name,
            finish_reason="stop",
            prompt_tokens=len(prompt_of(request).split()),
            completion_tokens=len(text.split()),
            cost=0.0,
        )

    async def _transport(self, request: Request) -> float:
        if not (self.simulation.latency or self.simulation.error_rate):
            return 0.0
        slow, fails, *_ = _shares(self.simulation.seed, "transport", request.case, request.attempt)
        latency = self.simulation.latency * math.exp(_normal(slow, 0.45))
        await _pass_time(latency)
        if fails < self.simulation.error_rate:
            raise TargetError("status", "the server answered with status 503: overloaded (simulated)")
        return latency

    # -- the assistant ------------------------------------------------------------------------------------------

    def _said(self, request: Request) -> str:
        prompt = prompt_of(request)
        if not _is_attack(request):
            return _task(request, prompt)
        obeys, refuses, *_ = _shares(self.simulation.seed, "attempt", request.case, request.attempt, prompt)
        if obeys < self._chance(request, prompt):
            return "\n".join(["Sure.", *(_wanted(request, prompt) or [str(request.fields.get("payload") or prompt)])])
        return REFUSAL if refuses < 0.4 else _task(request, prompt)

    def _chance(self, request: Request, prompt: str) -> float:
        """Return the chance that an attempt succeeds: a logit that everything adds to."""
        weakness = self.simulation.weakness
        if weakness in (0.0, 1.0):
            return weakness
        own = _drawn(_OWN_SPREAD, self.simulation.seed, "entry", request.case)
        # So that few entries are lost or won for good by the kinds that they are of.
        kinds = sum(
            _drawn(_SECTION_SPREAD, self.simulation.seed, name, request.fields[name])
            for name in _SECTIONS
            if isinstance(request.fields.get(name), str)
        )
        turns = min(sum(one.get("role") == "user" for one in request.messages) - 1, _MOST_TURNS)
        defence = 0.5 if system_of(request) else 0.0
        logit = math.log(weakness / (1 - weakness)) + own + kinds - defence
        logit += 0.3 * _strength(prompt) - 0.6 + _disguise(prompt) + _PER_TURN * turns
        return 1 / (1 + math.exp(-logit))

    # -- the guardrail ------------------------------------------------------------------------------------------

    def _stops(self, request: Request) -> bool:
        prompt, simulation = prompt_of(request), self.simulation
        draw, *_ = _shares(simulation.seed, "guardrail", request.case, prompt)
        if not _is_attack(request):
            return draw < simulation.false_positive_rate
        if simulation.recall in (0.0, 1.0):
            return draw < simulation.recall
        # What is disguised from the assistant is disguised from the guardrail, too; plain jailbreaks are easy.
        logit = math.log(simulation.recall / (1 - simulation.recall))
        logit += 0.3 * _strength(prompt) - 0.4 - 0.8 * _disguise(prompt)
        return draw < 1 / (1 + math.exp(-logit))


# -- what a prompt is -------------------------------------------------------------------------------------------


def _is_attack(request: Request) -> bool:
    fields = request.fields
    if any(fields.get(name) for name in ("payload", "jailbreak_type", "instruction_type", "judge_args")):
        return True
    text = " ".join(str(one.get("content")) for one in request.messages if one.get("role") == "user")
    return any(pattern.search(text) for pattern in _STRONG[:2])


def _strength(prompt: str) -> int:
    """Return how many of the means of jailbreaks a prompt uses."""
    return sum(pattern.search(prompt) is not None for pattern in _STRONG)


def _disguise(prompt: str) -> float:
    """Return how far a prompt hides what it says: encodings, odd spelling, noise at its end."""
    found = 0.0
    if _BASE64.search(prompt) or _HEX.search(prompt) or _MORSE_OR_BITS.search(prompt):
        found += 0.5
    if _INVISIBLE.search(prompt):
        found += 0.3
    words = prompt.split()
    found += min(0.6, 3.0 * sum(map(_is_odd, words)) / max(len(words), 1))
    noise = sum(not word.strip(_PUNCTUATION).isalnum() for word in words[-_LAST_WORDS:])
    return found + (0.5 if noise * 2 > _LAST_WORDS else 0.0)


def _is_odd(word: str) -> bool:
    """Return whether a word is written as no one writes it: with capitals inside, or figures for letters."""
    word = word.strip(_PUNCTUATION)
    if not 4 <= len(word) <= _LONGEST_WORD or (word.isalpha() and (word.islower() or word.istitle())):
        return False
    capitals = sum(one.isupper() for one in word[1:])
    return 0 < capitals < len(word) - 1 or _LETTERS_AND_MORE.fullmatch(word) is not None


def _wanted(request: Request, prompt: str) -> list[str]:
    """Return what an instruction asks for: what its judge looks for, else what stands in quotes in it, and links."""
    given = request.fields.get("judge_args")
    if "regex" in str(request.fields.get("judge_name")).lower():
        given = None  # a pattern is nothing that could be printed
    texts = [given] if isinstance(given, str) else [one for one in given or () if isinstance(one, str)]
    payload = request.fields.get("payload")
    source = payload if isinstance(payload, str) and payload else prompt
    found = [text for text in texts[:1] if text]
    found += [asked["text"] for asked in _ASKS.finditer(source)]
    return list(dict.fromkeys([*found, *_LINK.findall(source)]))


def _task(request: Request, prompt: str) -> str:
    """Return what a user may have wanted, with nothing in it that an attack asks for."""
    words = " ".join(prompt.split()[:_WORDS_OF_AN_ANSWER])
    if any(text in words for text in _wanted(request, prompt)) and _is_attack(request):
        words = "the document, and what it is about"
    return f"Here is what you asked for: {words}"


def _shares(*parts: object) -> tuple[float, float, float, float]:
    """Return four shares that hang on these values alone: each between 0 and 1, 1 excluded."""
    digest = digest_of(*parts)
    first, second, third, fourth = ((part >> 11) / 2**53 for part in struct.unpack(">4Q", digest))
    return first, second, third, fourth


@functools.lru_cache(maxsize=8192)
def _drawn(spread: float, *parts: object) -> float:
    return _normal(_shares(*parts)[0], spread)


def _normal(share: float, spread: float) -> float:
    return _NORMAL.inv_cdf(max(share, _SMALLEST)) * spread
