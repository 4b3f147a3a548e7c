"""A parrot says what it hears; to be attacked, it must be shouted at. Its log has lines `parrot: PROMPT > ANSWER`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from faircount.judges import Attempt, Decision, Judge, Verdict
from faircount.ledger import Batch, Fields
from faircount.readers import Found, Probe, Reader, ReadOptions, RowMaker, Stream, blocks
from faircount.runs import Answer, Attack, Entry, Play, Prompt, Request, Step, Target, TargetError

_MARK = b"parrot: "


class Repeats(Judge):
    """Hits when a response has the word."""

    name = "parrot.Repeats"
    looks_for = "a word that the parrot repeats"

    def __init__(self, word: str) -> None:
        self._word = word
        super().__init__(word=word)

    def decide(self, attempt: Attempt) -> Verdict:
        """Look for the word."""
        return Verdict(Decision.of(self._word in (attempt.response or "")))


class Parrot(Target):
    """Repeats what it hears in capital letters, and nothing else."""

    name = "parrot"
    sentence = "repeats what is shouted at it"

    def __init__(self, token: str = "", deaf: bool = False) -> None:
        self.token = token
        self.deaf = deaf

    def settings(self) -> Mapping[str, Any]:
        """Return nothing: what a target of a package was given is recorded for it."""
        return {}

    async def answer(self, request: Request) -> Answer:
        """Repeat the last message."""
        if self.deaf:
            raise TargetError("deaf", "the parrot heard nothing")
        said = str(request.messages[-1]["content"])
        return Answer(output=said if said.isupper() else "squawk")


class Louder(Attack):
    """Says it again in capital letters, so many times."""

    name = "louder"
    sentence = "says it in capital letters"

    def __init__(self, times: int = 1) -> None:
        self.times = times

    def settings(self) -> Mapping[str, Any]:
        """Return nothing: what an attack of a package was given is recorded for it."""
        return {}

    def begin(self, entry: Entry, *, iterations: int) -> Play:
        """Return the attack on an entry."""
        return _Shouting(entry, min(self.times, iterations))


class _Shouting(Play):
    def __init__(self, entry: Entry, times: int) -> None:
        self._entry, self._times = entry, times

    async def next(self, history: Sequence[Step]) -> Prompt | None:
        if len(history) >= self._times:
            return None
        return Prompt(({"role": "user", "content": self._entry.text.upper()},))


class LogReader(Reader):
    """Reads what a parrot heard and said; a parrot that repeats succeeds."""

    name = "parrot-log"
    tool = "parrot"
    noun = "line of a parrot"
    fields = Fields()

    def sniff(self, probe: Probe) -> bool:
        """Return whether the file begins with a parrot."""
        return probe.head.startswith(_MARK)

    def read(self, stream: Stream, options: ReadOptions, found: Found) -> Iterator[Batch]:
        """Yield a batch for each block of lines."""
        maker = RowMaker(options, found.notes)
        for block in blocks(stream, options.max_line):
            rows, batch = [], Batch()
            for line in block.lines:
                found.lines += 1
                heard, arrow, said = line.removeprefix(_MARK).decode().partition(" > ")
                if not line.startswith(_MARK) or not arrow:
                    found.add_bad("not a line of a parrot", found.lines)
                    continue
                found.good += 1
                success = heard in said
                rows.append(
                    maker.single_row(found.lines, str(found.lines), prompt=heard, response=said, success=success)
                )
            batch.extend(rows, maker.facets)
            yield batch
