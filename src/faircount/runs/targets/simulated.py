"""Targets that need no network and no key: simulations, for trying Faircount out, for the demo and for tests.

They are no models. They follow the few rules of `simulated_answers`, and draw lots: every case has an ability of its
own, drawn once around `accuracy` (some cases are nearly always right, some hardly ever, some now and then), and every
attempt is right with that chance. All lots are drawn from `seed`, the name of the case and the number of the attempt:
the same run comes out the same in any process and in any order, and an attempt that failed fails again. At a
`temperature` of 0 all attempts of a case get the same answer; errors and latencies still differ.

Options: `seed` (0); `accuracy` (0.85), the share of right answers over many cases; `refusal_rate` (0.03), refusals
without a cause; `error_rate` and `timeout_rate` (0), attempts that end in an error; `latency` (0), the median of the
seconds that an answer takes, 60 at most, which are really waited; `price` (0), US dollars for a million tokens. A token
is a word.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from faircount.core.errors import UsageError
from faircount.judges.judge import check_number
from faircount.runs.seeding import rng_for
from faircount.runs.targets.base import Answer, Request, Target, TargetError
from faircount.runs.targets.simulated_answers import LONGEST_LATENCY, REFUSAL, last_of, say, text_of
from faircount.runs.targets.simulated_tools import call

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
    """The options of a simulated target."""

    seed: int = 0
    accuracy: float = 0.85
    refusal_rate: float = 0.03
    error_rate: float = 0.0
    timeout_rate: float = 0.0
    latency: float = 0.0
    price: float = 0.0
    tools: bool = False


class Variant(Struct, frozen=True):
    """A simulated target by name: a sentence about it, and in what it differs from the plainest."""

    name: str
    sentence: str
    simulation: Simulation = Simulation()


VARIANTS = (
    Variant("simulated", "answers by simple rules, mostly correctly; no network, no key, deterministic"),
    Variant(
        "simulated:flaky",
        "the same with errors (one in ten) and timeouts (one in twenty)",
        Simulation(error_rate=0.1, timeout_rate=0.05),
    ),
    Variant("simulated:slow", "the same, but slow: half a second at the median", Simulation(latency=0.5)),
    Variant("simulated:tools", "calls the tools that a case offers, mostly the right ones", Simulation(tools=True)),
)
_RATES = ("accuracy", "refusal_rate", "error_rate", "timeout_rate")


class SimulatedTarget(Target):
    """A simulation, by the name of its variant."""

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        variant = next((one for one in VARIANTS if one.name == name), None)
        if variant is None:
            raise UsageError(f"{name}: no such simulation; available: {', '.join(one.name for one in VARIANTS)}")
        self.name = name
        self.simulation = structs.replace(variant.simulation, **_checked(name, options or {}))
        if self.simulation.error_rate + self.simulation.timeout_rate > 1:
            raise UsageError(f"{name}: error_rate and timeout_rate must add up to at most 1")

    def settings(self) -> Mapping[str, Any]:
        """Return the variant and all its options."""
        options = structs.asdict(self.simulation)
        options.pop("tools")
        return {"kind": "simulated", "name": self.name, "options": options}

    async def answer(self, request: Request) -> Answer:
        """Return what the rules and the lots come to."""
        lots = rng_for(self.simulation.seed, "transport", request.case, request.attempt)
        latency = self.simulation.latency * math.exp(lots.gauss(0.0, _SPREAD))
        trouble = self._trouble(lots)
        await _pass_time(latency * _LATE if trouble is not None and trouble.kind == "timeout" else latency)
        if trouble is not None:
            raise trouble
        return self._answered(request, latency)

    def _answered(self, request: Request, latency: float) -> Answer:
        lots = self._lots(request)
        right = lots.random() < self._ability(request.case)
        refused = lots.random() < self.simulation.refusal_rate
        calls = [] if refused or not self.simulation.tools else _calls(request, right, lots)
        text = "" if calls else REFUSAL if refused else say(request.messages, request.parameters, right, lots)
        text, cut = _cut(text, request.parameters.get("max_tokens"))
        asked = sum(len(text_of(message.get("content")).split()) for message in request.messages)
        said = len(text.split()) + sum(len(one["function"]["arguments"].split()) for one in calls)
        return Answer(
            output=text,
            tools_called=tuple(calls),
            latency=latency,
            model=self.name,
            finish_reason="tool_calls" if calls else "length" if cut else "stop",
            prompt_tokens=asked,
            completion_tokens=said,
            cost=(asked + said) * self.simulation.price / _MILLION,
        )

    def _lots(self, request: Request) -> random.Random:
        """Return the lots that an answer is drawn from."""
        same = request.parameters.get("temperature") == 0
        return rng_for(self.simulation.seed, "attempt", request.case, 0 if same else request.attempt)

    def _ability(self, case: str) -> float:
        """Return the chance that an attempt of a case is right."""
        mean = self.simulation.accuracy
        if mean in (0.0, 1.0):
            return mean
        lots = rng_for(self.simulation.seed, "case", case)
        return lots.betavariate(mean * _CONCENTRATION, (1 - mean) * _CONCENTRATION)

    def _trouble(self, lots: random.Random) -> TargetError | None:
        lot, which = lots.random(), lots.randrange(len(_ERRORS))
        if lot < self.simulation.error_rate:
            kind, message = _ERRORS[which]
            return TargetError(kind, f"{message} (simulated)")
        if lot < self.simulation.error_rate + self.simulation.timeout_rate:
            return TargetError("timeout", "no answer in time (simulated)")
        return None


def _calls(request: Request, right: bool, lots: random.Random) -> list[dict[str, Any]]:
    if request.messages and request.messages[-1].get("role") == "tool":
        return []  # the tool has answered; now the user is answered
    return call(last_of(request.messages, "user"), request.parameters, right, lots)


def _cut(text: str, limit: object) -> tuple[str, bool]:
    """Return a text of so many words at most, and whether it was longer."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1 or len(text.split()) <= limit:
        return text, False
    return " ".join(text.split()[:limit]), True


async def _pass_time(seconds: float) -> None:
    if seconds > 0:
        import asyncio

        await asyncio.sleep(seconds)


def _checked(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    known = [one for one in Simulation.__struct_fields__ if one != "tools"]
    checked: dict[str, Any] = {}
    for option, value in options.items():
        if option not in known:
            raise UsageError(f"{name}: has no option {option}; it takes {', '.join(known)}")
        if option == "seed":
            if isinstance(value, bool) or not isinstance(value, int):
                raise UsageError(f"{name}: seed must be a whole number")
            checked[option] = value
        else:
            high = LONGEST_LATENCY if option == "latency" else 1.0 if option in _RATES else math.inf
            checked[option] = check_number(name, option, value, high=high)
    return checked
