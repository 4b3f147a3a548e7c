"""How long the target took."""

from __future__ import annotations

import math

from faircount.core.attempt import Attempt
from faircount.core.errors import UsageError
from faircount.core.verdict import Decision, Verdict
from faircount.judges.judge import Judge, check_number


class Latency(Judge):
    """Hits when the target answered within `limit` seconds, the limit included.

    The score is limit / (limit + latency): 1 for no time at all, 0.5 exactly at the limit, towards 0 beyond it. An
    attempt without a latency is unjudged.
    """

    name = "latency.Latency"
    looks_for = "an answer within the time limit"
    scores = True
    needs_response = False

    def __init__(self, limit: float) -> None:
        self._limit = check_number(self.name, "limit", limit)
        if self._limit == 0:
            raise UsageError(f"{self.name}: limit must be more than 0 seconds")
        super().__init__(limit=limit)

    def decide(self, attempt: Attempt) -> Verdict:
        """Return a hit for an answer in time."""
        latency = attempt.latency
        if latency is None:
            return Verdict.unjudged("the record has no latency")
        if math.isnan(latency) or latency < 0:
            return Verdict.unjudged(f"the latency of the record, {latency}, is not a time")
        hit = latency <= self._limit
        score = 1 / (1 + latency / self._limit)
        # Just beyond the limit the division rounds to one half, which is on the other side.
        score = score if hit else min(score, math.nextafter(0.5, 0.0))
        relation = "within" if hit else "over"
        reason = f"took {latency:.3f} s, {relation} the limit of {self._limit:g} s"
        return Verdict(Decision.of(hit), score, reason)
