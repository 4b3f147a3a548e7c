"""What folding in parts costs beside one ledger: CPU per row of every stage, and the bytes that travel between them.

What executors of a cluster do is done here one after the other, in one process, without Spark and its Java. Bytes are
compressed as Spark does it, with LZ4.

Run: .venv/bin/python -m bench.cluster
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow

from bench.analyze import machine
from bench.generate import write_results
from faircount import AnalyzeOptions
from faircount.analysis.analyze import analyze_files
from faircount.ledger.divided import Crew
from faircount.ledger.parts import (
    Division,
    FoldedPart,
    Survey,
    answers,
    deal_entries,
    entries_of_part,
    fold_part,
    open_fold,
    read_answers,
    survey,
)
from faircount.ledger.questions import Question, Rows
from faircount.ledger.store import Ledger
from faircount.readers.pieces import MANY_QUESTIONS, Piece, PieceRead, read_piece

MOST_CPU, MOST_BYTES = 1.3, 60
STAGES = ("read and deal", "survey", "fold", "ask", "deal again", "ask families")


class MeasuredCluster:
    """A cluster of one process that measures what it does."""

    memory = ""

    def __init__(self, parts: int, task_bytes: int) -> None:
        self._sizes = parts, task_bytes
        self.crew_of: MeasuredCrew | None = None

    def sizes(self, size: int) -> tuple[int, int]:
        """Return what the bench asks for, whatever the size is."""
        del size
        return self._sizes

    @contextmanager
    def crew(self, task_bytes: int) -> Iterator[MeasuredCrew]:
        """Give those who do it."""
        del task_bytes
        with tempfile.TemporaryDirectory() as folder:
            self.crew_of = MeasuredCrew(Path(folder))
            yield self.crew_of

    def answers_of(self, work: object, paths: Sequence[str]) -> list[bytes]:
        """Analyse no file as a whole."""
        raise NotImplementedError


class MeasuredCrew(Crew):
    """Does everything itself, and counts CPU seconds and bytes."""

    def __init__(self, folder: Path) -> None:
        self.raw, self.packed = Counter[str](), Counter[str]()
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._folder = folder
        self._parts: list[list[bytes]] = []
        self._folds: list[FoldedPart] = []
        self._entries: dict[str, list[list[bytes]]] = {}

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        before = time.process_time()
        yield
        self.seconds[name] += time.process_time() - before

    def _sent(self, name: str, blob: bytes) -> bytes:
        self.raw[name] += len(blob)
        self.packed[name] += len(pyarrow.compress(blob, "lz4", asbytes=True))
        return blob

    def read(self, pieces: Sequence[Piece], progress: object) -> list[PieceRead]:
        """Read all pieces."""
        del progress
        self._parts = [[] for _ in range(pieces[0].parts)]
        found = []
        for piece in pieces:
            with self._stage("read and deal"):
                read, dealt = read_piece(piece)
            found.append(read)
            for part, blob in dealt.items():
                self._parts[part].append(self._sent("rows", blob))
        return found

    def survey(self, division: Division, pairs: Sequence[tuple[int, int]] | None) -> list[Survey]:
        """Look at the rows of every part."""
        with self._stage("survey"):
            return [survey(blobs, part, division, pairs) for part, blobs in enumerate(self._parts)]

    def fold(self, division: Division) -> None:
        """Fold every part."""
        self._division = division
        for part, blobs in enumerate(self._parts):
            folder = self._folder / str(part)
            folder.mkdir()
            with self._stage("fold"):
                self._folds.append(fold_part(blobs, part, division, folder))

    def _folded(self, part: int, questions: int = 0) -> Ledger:
        at_once = questions >= MANY_QUESTIONS
        return open_fold(self._folds[part], self._folder / str(part), self._division, at_once=at_once)

    def ask(self, questions: Sequence[Question], family: str | None) -> Iterator[list[Rows]]:
        """Ask every part."""
        if family is not None and family not in self._entries:
            dealt: list[list[bytes]] = [[] for _ in self._parts]
            for part in range(len(self._parts)):
                with self._stage("deal again"), self._folded(part) as ledger:
                    again = deal_entries(ledger, family, len(self._parts))
                for target, blob in again.items():
                    dealt[target].append(self._sent("entries", blob))
            self._entries[family] = dealt
        for part in range(len(self._parts)):
            with self._stage("ask" if family is None else "ask families"):
                if family is None:
                    with self._folded(part, len(questions)) as ledger:
                        found = answers(ledger, questions)
                else:
                    with entries_of_part(self._entries[family][part], self._division) as ledger:
                        found = answers(ledger, questions)
            yield read_answers(found)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=400_000)
    parser.add_argument("--parts", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.jsonl"
        rows = write_results(path, given.entries)
        options = AnalyzeOptions(combine=True, cache=False)
        cluster = MeasuredCluster(given.parts, 64 * 1024**2)
        parted = analyze_files([str(path)], options, cluster=cluster)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        before = _all_cpu()
        whole = analyze_files([str(path)], options)
        alone = _all_cpu() - before
        size = path.stat().st_size
    assert cluster.crew_of is not None
    crew = cluster.crew_of
    total = sum(crew.seconds.values())
    equal = msgspec.json.encode(parted.analyses) == msgspec.json.encode(whole.analyses)
    print(f"{machine()}; {rows:,} rows, {size / 1e6:,.0f} MB, {given.parts} parts\n")
    print("| stage | CPU µs a row |\n|---|---|")
    for stage in STAGES:
        print(f"| {stage} | {crew.seconds[stage] / rows * 1e6:.1f} |")
    print(f"| all | {total / rows * 1e6:.1f} |\n| one ledger | {alone / rows * 1e6:.1f} |\n")
    print(f"{total / alone:.2f} times the CPU of one ledger (at most {MOST_CPU} wanted); memory {memory:,.0f} MiB")
    for what, raw in crew.raw.items():
        print(f"{what}: {raw / rows:.0f} bytes a row, compressed {crew.packed[what] / rows:.0f} (rows: {MOST_BYTES})")
    print(f"the documents are {'equal' if equal else 'DIFFERENT'}")


def _all_cpu() -> float:
    found = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in found)


if __name__ == "__main__":
    main()
