"""Who judges which row: the judge that the user names, or the one that the row names if that may be.

A row can name a judge that compares strings, which is built in, or one that the user allowed by name. What else a file
names is never looked for, let alone loaded.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import astuple

from faircount.core.attempt import Attempt
from faircount.core.errors import UsageError
from faircount.core.verdict import Verdict
from faircount.judges.factory import make_trusted_only
from faircount.judges.judge import TURNS, Judge, Turns, every_part, verdict_of
from faircount.judges.verdict_store import TEXT_ALONE, VerdictStore, content_digest, seen_by


class PanelMember(Struct, frozen=True):
    """A judge with what is needed of it again and again."""

    judge: Judge
    digest: str
    sees: frozenset[str]
    quick: bool = False
    """Whether it only looks for strings: it has decided before anybody could look up what it said."""

    @property
    def turns(self) -> Turns:
        """Which answers of a history the judge asks for."""
        return self.judge.turns

    @property
    def called(self) -> str:
        """How the judge is named."""
        return self.judge.called or self.judge.name

    def name_of(self, attempt: Attempt) -> bytes:
        """Return what a verdict on an attempt is known by: the digests of the judge and of what it sees."""
        return bytes.fromhex(self.digest) + content_digest(attempt, self.sees)


def member_of(judge: Judge) -> PanelMember:
    """Return a judge as a member of a panel."""
    if judge.turns not in TURNS:
        raise UsageError(f"{judge.name}: turns must be one of {', '.join(TURNS)}, not {judge.turns!r}")
    sees = seen_by(judge)
    return PanelMember(judge, judge.identity.digest, sees, sees is TEXT_ALONE)


class Panel:
    """The judges of a rejudging: one for all rows, or those that rows name."""

    def __init__(self, judge: Judge | None = None, allowed: Mapping[str, Judge] | None = None) -> None:
        self._one = None if judge is None else member_of(judge)
        self._by_name: dict[str, PanelMember | None] = {
            name: member_of(judge) for name, judge in (allowed or {}).items()
        }

    @property
    def chosen(self) -> PanelMember | None:
        """The one judge for all rows, if the user named it."""
        return self._one

    @property
    def members(self) -> list[PanelMember]:
        """The judges that were asked for until now."""
        named = [member for member in self._by_name.values() if member is not None]
        return named if self._one is None else [self._one]

    def of(self, name: str | None, *, only_allowed: bool = False) -> PanelMember | None:
        """Return the judge of a row that names one, or None where there is none that may be used.

        Where a name may be that of something else, a metric, only what the user allowed is a judge.
        """
        if self._one is not None:
            return self._one
        if name is None or name == "":
            return None
        if name not in self._by_name and not only_allowed:
            try:
                self._by_name[name] = member_of(make_trusted_only(name))
            except UsageError:
                self._by_name[name] = None
        return self._by_name.get(name)

    def close(self) -> None:
        """Close the judges."""
        for member in self.members:
            member.judge.close()


class AskedAttempt(Attempt, frozen=True):
    """An attempt that is on its way to a judge: the judge that its row names, and what the verdict is known by."""

    judge_name: str | None = None
    known_by: bytes = b""

    @property
    def plain(self) -> Attempt:
        """The attempt as judges see it."""
        return Attempt(*astuple(self)[:-2])


class JointJudge(Judge):
    """All judges of a panel as one, which hands an attempt to its judge and keeps the verdict at once.

    It is kept where it is given, in a worker or a thread: whatever ends the run afterwards, it is not lost.
    """

    name = "rejudge.JointJudge"
    looks_for = "what the judges of a panel look for"
    needs_response = False

    def __init__(self, panel: Panel, store: VerdictStore | None) -> None:
        self._panel = panel
        self._store = store
        parts = [part for member in panel.members for part in every_part(member.judge)]
        self.waits = any(part.waits for part in parts)
        self.may_fork = all(part.may_fork for part in parts)
        super().__init__()

    def decide(self, attempt: Attempt) -> Verdict:
        """Ask the judge that the attempt is for."""
        assert isinstance(attempt, AskedAttempt)
        member = self._panel.of(attempt.judge_name)
        assert member is not None
        verdict = verdict_of(member.judge, attempt.plain)
        if self._store is None:
            return verdict
        return self._store.keep(member.digest, attempt.known_by[len(attempt.known_by) // 2 :], verdict)

    def close(self) -> None:
        """Close the judges."""
        self._panel.close()
