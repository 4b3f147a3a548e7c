"""What gates are judged on: an analysis, or two runs of a comparison, as their JSON documents say them.

A figure is taken as the document has it. Shares that it gives only as counts get Wilson's interval here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from faircount import stats
from faircount.analysis.gates.expression import ASR, ASR_CORRECTED, PASS_RATE, SHARES, Gate
from faircount.errors import UsageError
from faircount.model import Estimate
from faircount.stats.gates import SEQUENCE_OVER_FAMILIES
from faircount.text import clip, visible

ATTACK, TASK = "attack", "task"
FAMILIES = ("cluster wilson", SEQUENCE_OVER_FAMILIES)
"""The methods of rates whose intervals respect families."""
COUNTS = ("total", "success", "failure", "error", "guardrail", "unjudged")
RATE_OF = {ATTACK: ASR, TASK: PASS_RATE}
"""What the rate of successes is called, by what results are about."""
NEEDS_QUALITY = "a corrected rate needs something that is known of the judge: name it with --judge-quality FILE"
WIDTH = 60
_LISTED = 30
_DECIDED = ("success", "failure", "guardrail")
_KNOWN = ("errors", "unjudged")


class Uncorrected(Struct, frozen=True):
    """Why a rate could not be corrected for the judge, and the labels by verdict where there were too few."""

    status: str
    labels: Mapping[str, int] | None = None


class Subject(Struct, frozen=True):
    """One analysis, or the new one of two compared runs: its name, where it stands, and the figures as told.

    `against` is the run that it is compared with. `breakdowns` holds groups by field, `entries` the outcomes of all
    entries, which a comparison may not tell; then it has the `shares` of the run apart.
    """

    name: str
    path: str
    aim: str
    level: float
    figures: Mapping[str, Any]
    breakdowns: Mapping[str, Sequence[Mapping[str, Any]]]
    entries: Mapping[str, int] | None = None
    shares: Mapping[str, Any] | None = None
    sources: tuple[Mapping[str, Any], ...] = ()
    against: str | None = None
    paired: bool = False

    @property
    def compared(self) -> bool:
        """Whether this is one of two runs that are compared."""
        return self.against is not None

    @property
    def rate(self) -> Estimate:
        """The rate of successes over all entries: the new run's, if two are compared."""
        return _estimate(self.figures["rate_b"] if self.compared else self.figures["rates"]["asr"])

    @property
    def corrected(self) -> Estimate | None:
        """The rate corrected for the judge; None where there is none, or the runs are compared."""
        found = None if self.compared else self.figures["rates"].get(ASR_CORRECTED)
        return None if found is None else _estimate(found)

    @property
    def old_rate(self) -> Estimate:
        """The rate of the baseline, if two runs are compared."""
        return _estimate(self.figures["rate_a"])

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """What was counted, under the names that the document has for it."""
        if self.compared:
            cells = ("both", "only_a", "only_b", "neither")
            return tuple((name, self.figures[name]) for name in cells if isinstance(self.figures.get(name), int))
        return tuple((name, (self.entries or {})[name]) for name in COUNTS)

    @property
    def empty(self) -> bool:
        """Whether there is no entry at all, and so no group either."""
        return not self.rate.n

    def bounds(self, gate: Gate) -> tuple[Estimate, Estimate] | None:
        """Return the figure of a gate if every error and unjudged entry had failed, and if every one had succeeded.

        A line that could not be read may have been such an entry. None where there are neither, and for shares of
        these entries themselves, which are known.
        """
        if gate.figure in _KNOWN or not (self.undecided(gate) or self.unread):
            return None
        low, high = self._bounds(gate, self.undecided(gate))
        if not self.unread:
            return low, high
        return _with_others(low, 0, low.n + self.unread), _with_others(high, self.unread, high.n + self.unread)

    def _bounds(self, gate: Gate, undecided: int) -> tuple[Estimate, Estimate]:
        estimate, group = self.estimate(gate), self.group(gate)
        figures = self.figures if group is None else group
        if gate.figure == ASR_CORRECTED:
            # Over pairs it is the rate of those that were answered; over entries it has all of them below the line.
            total = estimate.n + undecided if self.compared else estimate.n
            return _with_others(estimate, 0, total), _with_others(estimate, undecided, total)
        if gate.figure in SHARES:
            return estimate, _with_others(estimate, undecided, estimate.n)
        if self.compared and not undecided:
            return estimate, estimate
        if self.compared:
            known = figures["bounds"]
            return _estimate(known["lowest"]["rate_b"]), _estimate(known["highest"]["rate_b"])
        return estimate, _estimate(figures["rates"]["asr_at_most"] if group is None else group["rate_at_most"])

    @property
    def unread(self) -> int:
        """How many lines could not be read, of both files where two runs are compared."""
        return sum(source.get("bad_lines", 0) for source in self.sources)

    def undecided(self, gate: Gate) -> int:
        """Return how many entries, or pairs of them, ended in an error or were not judged."""
        group = None if self.empty and not self.compared else self.group(gate)
        if self.compared:
            return int((self.figures if group is None else group).get("undecided") or 0)
        counts = (self.entries or {}) if group is None else group["entries"]
        return int(counts["total"]) - sum(int(counts[name]) for name in _DECIDED)

    def families(self, gate: Gate) -> tuple[int, float] | None:
        """Return how many families the rate of a gate rests on, and its design effect; None where that is not known."""
        group = self.group(gate)
        known = self.figures.get("families") if group is None else group.get("families")
        if not isinstance(known, Mapping) or not known.get("count") or not known.get("design_effect"):
            return None
        return int(known["count"]), float(known["design_effect"])

    def estimate(self, gate: Gate) -> Estimate:
        """Return the figure of a gate other than a regression; undefined where there are no entries."""
        self._refuse_other_aim(gate)
        group = self.group(gate)
        if gate.field is not None and group is None:
            return stats.undefined("entry", self.level, "wilson")
        if gate.figure in SHARES:
            return self._share(gate, group)
        if gate.figure == ASR_CORRECTED:
            found = self._corrected(gate, group)
            return stats.undefined("entry", self.level, "corrected") if found is None else _estimate(found)
        if group is None:
            return self.rate
        return _estimate(group["rate_b"] if self.compared else group["rate"])

    def group(self, gate: Gate) -> Mapping[str, Any] | None:
        """Return the group that a gate is about; None if it is about all entries, or if there are no entries.

        A field or a value that is not there is an error: a gate on nothing would always be passed.
        """
        if gate.field is None or self.empty:
            return None
        field = _name_in_files(gate.field)
        groups = self.breakdowns.get(field)
        if groups is None:
            there = _listed(self.breakdowns) or "none"
            raise _refused(gate, self, f"no breakdown by {_shown(gate.field)}; available: {there}. See --by")
        for group in groups:
            if (group["value"] or None) == gate.value:
                return group
        there = _listed(group["value"] for group in groups) or "none"
        raise _refused(gate, self, f"{_shown(field)} has no value {_shown(gate.value)}; available: {there}")

    def uncorrected(self, gate: Gate) -> Uncorrected | None:
        """Return why there is no corrected rate, for a gate that is about one; None where there are no entries."""
        if gate.figure != ASR_CORRECTED or self.empty:
            return None
        if self.compared:
            return Uncorrected("compared")
        group = self.group(gate)
        if group is None:
            return Uncorrected(self.figures["correction"]["status"])
        return Uncorrected(group["corrected"]["status"], group["corrected"]["labels"])

    def _corrected(self, gate: Gate, group: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        known = self.figures.get("corrected" if self.compared else "correction")
        if known is None:
            raise _refused(gate, self, NEEDS_QUALITY)
        if self.compared and group is not None:
            raise _refused(gate, self, "a comparison corrects no groups; use results analyze for it")
        found: Mapping[str, Any] | None
        if self.compared:
            found = known["rate_b"]
        else:
            found = self.figures["rates"][ASR_CORRECTED] if group is None else group["corrected"]["estimate"]
        return found

    def _share(self, gate: Gate, group: Mapping[str, Any] | None) -> Estimate:
        shares = (self.shares if self.compared else self.figures["shares"]) if group is None else group.get("shares")
        if shares is None:
            raise _refused(gate, self, f"a comparison does not count {gate.figure} of this; use results analyze for it")
        return _estimate(shares[gate.figure])

    def _refuse_other_aim(self, gate: Gate) -> None:
        right = RATE_OF[self.aim]
        if gate.figure == ASR_CORRECTED and self.aim == ATTACK:
            return
        if gate.figure in (ASR, ASR_CORRECTED, PASS_RATE) and gate.figure != right:
            what = "attacks, which should not succeed" if self.aim == ATTACK else "tasks, which should succeed"
            raise _refused(gate, self, f"these are results of {what}: their figure is {right}, not {gate.figure}")


def of_analysis(document: Mapping[str, Any]) -> tuple[Subject, ...]:
    """Return what gates are judged on in a document of `results analyze`: each of its analyses."""
    return tuple(
        Subject(
            name=analysis["name"],
            path=analysis["sources"][0]["path"] if len(analysis["sources"]) == 1 else analysis["name"],
            aim=analysis.get("aim", ATTACK),
            level=analysis["level"],
            figures=analysis,
            breakdowns=analysis["breakdowns"],
            entries=analysis["entries"],
            sources=tuple(analysis["sources"]),
        )
        for analysis in document["analyses"]
    )


def of_comparison(document: Mapping[str, Any], aim: str | None = None) -> tuple[Subject, ...]:
    """Return what gates are judged on in a document of `results compare`: each run beside the baseline.

    The baseline is the first run of the first pair; pairs of other runs are left out. What the results are about must
    be known, from `aim` or from the document: it says which change is for the worse.
    """
    baseline = document["pairs"][0]["a"] if document["pairs"] else None
    files = {file["path"]: file for file in document.get("files", ())}
    rates = {path: file["rate"]["value"] for path, file in files.items() if "rate" in file}
    return tuple(
        Subject(
            name=pair["b"],
            path=pair["b"],
            aim=_aim(aim or pair.get("aim") or document.get("aim")),
            level=pair["difference"]["level"],
            figures={**pair, "file_rates": [rates.get(pair["a"]), rates.get(pair["b"])]},
            breakdowns=pair.get("by") or {},
            entries=files.get(pair["b"], {}).get("entries"),
            shares=files.get(pair["b"], {}).get("shares"),
            sources=tuple(files[path] for path in (pair["a"], pair["b"]) if path in files),
            against=pair["a"],
            paired=bool(pair["paired"]),
        )
        for pair in document["pairs"]
        if pair["a"] == baseline
    )


def _aim(aim: object) -> str:
    if aim not in RATE_OF:
        raise ValueError(f"a comparison is of attacks or of tasks, not of {aim!r}")
    return str(aim)


def _estimate(data: Mapping[str, Any]) -> Estimate:
    return Estimate(**{name: data[name] for name in Estimate.__struct_fields__})


def _with_others(estimate: Estimate, successes: int, total: int) -> Estimate:
    """Return a rate of n entries as one of `total` entries, of which the others had so many successes."""
    if estimate.value is None:
        return estimate
    value, low, high = (
        None if share is None else min(1.0, (share * estimate.n + successes) / total)
        for share in (estimate.value, estimate.low, estimate.high)
    )
    return replace(estimate, value=value, low=low, high=high, n=total)


def _name_in_files(field: str) -> str:
    from faircount.analysis.fields import raw_name

    return raw_name(field)


def _listed(values: Iterable[str | None]) -> str:
    names = [_shown(value) for value in values]
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _shown(value: str | None) -> str:
    return "null" if value is None or value == "" else clip(visible(value), WIDTH)


def _refused(gate: Gate, subject: Subject, reason: str) -> UsageError:
    return UsageError(f"--fail-on '{clip(visible(gate.text), 200)}': {visible(subject.name)}: {reason}")
