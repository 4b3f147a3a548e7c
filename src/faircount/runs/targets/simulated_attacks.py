"""Simulated targets of attacks: an assistant that can be talked into things, a guardrail, and one behind the other.

They are no models, and need no network. Whether the assistant obeys an instruction that is hidden in a prompt is drawn
by lot. The chance grows with `weakness` and with what the prompt does: strong words of a jailbreak, an encoding, a
suffix, letters written differently, further turns of a conversation. Every entry has a resistance of its own, and so
has every kind of jailbreak, instruction and plugin, drawn once: some entries fall at the first attempt, some never,
most now and then. When it obeys it prints what the payload asks for. When it does not it refuses, or does what the user
wanted.

All lots hang on `seed`, the entry, the prompt and the number of the attempt alone, so that a run comes out the same in
any order and after any interruption. A guardrail decides about the same prompt in the same way every time.
"""

from __future__ import annotations

import functools
import math
import re
import struct
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

from msgspec import Struct, structs

from faircount.core.errors import UsageError
from faircount.judges.judge import check_number
from faircount.runs.seeding import digest_of
from faircount.runs.targets.base import BLOCKED, Answer, Request, Target, TargetError, prompt_of, system_of
from faircount.runs.targets.simulated_answers import LONGEST_LATENCY, REFUSAL

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


class AttackSimulation(Struct, frozen=True):
    """The options of a simulated target of attacks; which of them count is said by `_TAKES`."""

    seed: int = 0
    weakness: float = 0.3
    recall: float = 0.8
    false_positive_rate: float = 0.05
    error_rate: float = 0.0
    latency: float = 0.0


class AttackVariant(Struct, frozen=True):
    """A simulated target by name: a sentence about it, and the options that it takes."""

    name: str
    sentence: str
    takes: tuple[str, ...]


_ALWAYS = ("seed", "error_rate", "latency")
ATTACK_VARIANTS = (
    AttackVariant(
        ASSISTANT, "sometimes falls for prompt injections; weakness=0..1, no network", ("weakness", *_ALWAYS)
    ),
    AttackVariant(
        GUARDRAIL,
        "a guardrail that answers true (let through) or false; recall, false_positive_rate",
        ("recall", "false_positive_rate", *_ALWAYS),
    ),
    AttackVariant(
        GUARDED,
        "the assistant behind the guardrail, which blocks and names categories",
        ("weakness", "recall", "false_positive_rate", *_ALWAYS),
    ),
)


class SimulatedAttackTarget(Target):
    """A simulation, by the name of its variant."""

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        variant = next((one for one in ATTACK_VARIANTS if one.name == name), None)
        if variant is None:
            raise UsageError(f"{name}: no such simulation")
        self.name = name
        self.decides = name == GUARDRAIL
        self._takes = variant.takes
        self.simulation = structs.replace(AttackSimulation(), **_checked(variant, options or {}))

    def settings(self) -> Mapping[str, Any]:
        """Return the variant and all its options."""
        options = {name: getattr(self.simulation, name) for name in self._takes}
        return {"kind": "simulated", "name": self.name, "options": options}

    async def answer(self, request: Request) -> Answer:
        """Return what the rules and the lots come to."""
        latency = await self._transport(request)
        if self.name == GUARDRAIL:
            through = not self._stops(request)
            return Answer(output=str(through), let_through=through, latency=latency, model=self.name)
        if self.name == GUARDED and self._stops(request):
            raise TargetError(BLOCKED, "the guardrail stopped the request", categories=_categories(prompt_of(request)))
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
        slow, fails, *_ = _lots(self.simulation.seed, "transport", request.case, request.attempt)
        latency = self.simulation.latency * math.exp(_normal(slow, 0.45))
        if latency > 0:
            import asyncio

            await asyncio.sleep(latency)
        if fails < self.simulation.error_rate:
            raise TargetError("status", "the server answered with status 503: overloaded (simulated)")
        return latency

    # -- the assistant ------------------------------------------------------------------------------------------

    def _said(self, request: Request) -> str:
        prompt = prompt_of(request)
        if not _is_attack(request):
            return _task(request, prompt)
        obeys, refuses, *_ = _lots(self.simulation.seed, "attempt", request.case, request.attempt, prompt)
        if obeys < self._chance(request, prompt):
            return _obeyed(request, prompt)
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
        lot, *_ = _lots(simulation.seed, "guardrail", request.case, prompt)
        if not _is_attack(request):
            return lot < simulation.false_positive_rate
        if simulation.recall in (0.0, 1.0):
            return lot < simulation.recall
        # What is disguised from the assistant is disguised from the guardrail, too; plain jailbreaks are easy.
        logit = math.log(simulation.recall / (1 - simulation.recall))
        logit += 0.3 * _strength(prompt) - 0.4 - 0.8 * _disguise(prompt)
        return lot < 1 / (1 + math.exp(-logit))


# -- what a prompt is -------------------------------------------------------------------------------------------


def _is_attack(request: Request) -> bool:
    fields = request.fields
    if any(fields.get(name) for name in ("payload", "jailbreak_type", "instruction_type", "judge_args")):
        return True
    said = " ".join(str(one.get("content")) for one in request.messages if one.get("role") == "user")
    return any(pattern.search(said) for pattern in _STRONG[:2])


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
    return found + (0.5 if sum(map(_is_noise, words[-_LAST_WORDS:])) * 2 > _LAST_WORDS else 0.0)


def _is_odd(word: str) -> bool:
    """Return whether a word is written as no one writes it: with capitals inside, or figures for letters."""
    word = word.strip(_PUNCTUATION)
    if not 4 <= len(word) <= _LONGEST_WORD or (word.isalpha() and (word.islower() or word.istitle())):
        return False
    capitals = sum(one.isupper() for one in word[1:])
    return 0 < capitals < len(word) - 1 or _LETTERS_AND_MORE.fullmatch(word) is not None


def _is_noise(word: str) -> bool:
    """Return whether a word has signs in it that no word has."""
    return not word.strip(_PUNCTUATION).isalnum()


def _wanted(request: Request, prompt: str) -> list[str]:
    """Return what an instruction asks for: what its judge looks for, else what stands in quotes in it, and links."""
    told = request.fields.get("judge_args")
    if "regex" in str(request.fields.get("judge_name")).lower():
        told = None  # a pattern is nothing that could be printed
    texts = [told] if isinstance(told, str) else [one for one in told or () if isinstance(one, str)]
    payload = request.fields.get("payload")
    source = payload if isinstance(payload, str) and payload else prompt
    found = [text for text in texts[:1] if text]
    found += [asked["text"] for asked in _ASKS.finditer(source)]
    return list(dict.fromkeys([*found, *_LINK.findall(source)]))


def _obeyed(request: Request, prompt: str) -> str:
    wanted = _wanted(request, prompt)
    payload = request.fields.get("payload")
    return "\n".join(["Sure.", *(wanted or [str(payload or prompt)])])


def _task(request: Request, prompt: str) -> str:
    """Return what a user may have wanted, with nothing in it that an attack asks for."""
    words = " ".join(prompt.split()[:_WORDS_OF_AN_ANSWER])
    if any(text in words for text in _wanted(request, prompt)) and _is_attack(request):
        words = "the document, and what it is about"
    return f"Here is what you asked for: {words}"


def _categories(prompt: str) -> tuple[str, ...]:
    return ("prompt injection", *(name for name, pattern in _CATEGORIES if pattern.search(prompt)))


def _lots(*parts: object) -> tuple[float, float, float, float]:
    """Return four shares that hang on these values alone: each between 0 and 1, 1 excluded."""
    digest = digest_of(*parts)
    first, second, third, fourth = (number / 2**53 for number in (part >> 11 for part in struct.unpack(">4Q", digest)))
    return first, second, third, fourth


@functools.lru_cache(maxsize=8192)
def _drawn(spread: float, *parts: object) -> float:
    return _normal(_lots(*parts)[0], spread)


def _normal(share: float, spread: float) -> float:
    return _NORMAL.inv_cdf(max(share, _SMALLEST)) * spread


def _checked(variant: AttackVariant, options: Mapping[str, Any]) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for option, value in options.items():
        if option not in variant.takes:
            raise UsageError(f"{variant.name}: has no option {option}; it takes {', '.join(variant.takes)}")
        if option == "seed":
            if isinstance(value, bool) or not isinstance(value, int):
                raise UsageError(f"{variant.name}: seed must be a whole number")
            checked[option] = value
        else:
            high = LONGEST_LATENCY if option == "latency" else 1.0
            checked[option] = check_number(variant.name, option, value, high=high)
    return checked
