"""How fast the page answers: the first page, every kind of filter, sort and group, searches, and the memory it takes.

The file is in the cache, in both of its forms, as it is for whoever opens a file a second time. Two such runs are then
compared: the first page of a comparison makes it, the others find it made.

Run: .venv/bin/python -m bench.view --entries 100000
     .venv/bin/python -m bench.view --entries 1000000 --file big.jsonl
"""

from __future__ import annotations

import argparse
import http.cookiejar
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.analyze import machine
from bench.dataset_comparison import write_files
from bench.generate import write_results
from faircount import open_results
from faircount.readers.cache import FOLDER_VARIABLE

PAGES = {
    "entries": "entries",
    "entries, page 41": "entries?offset=2000",
    "one value": "entries?f.lang=de",
    "two fields": "entries?f.lang=en&f.outcome=success",
    "sorted by a field": "entries?sort=jailbreak_type",
    "sorted by id, reverse": "entries?sort=-id",
    "sorted by time": "entries?sort=-response_time",
    "a query": "entries?where=lang+%3D+de",
    "a query, sorted": "entries?where=outcome+%3D+error&sort=-attempts",
    "two fields crossed": "?rows=lang&columns=plugin",
    "the entry on line 1000": "entry/1000",
}
SEARCHES = {"rare": "zzz no such words", "frequent": "the"}
COMPARED = {
    "a run against the baseline": "?base={}",
    "runs against the baseline": "",
    "pairs that flipped": "/entries?base={}&cell=only_a",
    "pairs that flipped, of one value": "/entries?base={}&cell=only_b&f.lang=de",
    "pairs, page 401": "/entries?base={}&offset=20000",
    "two entries side by side": "/entry/1000?base={}&cell=both&cell=neither",
}
COMPARED_LIMITS = {100_000: (1.5, 300)}
"""The comparison of two runs in s, a page of it in ms."""
LIMITS = {100_000: (1.0, 100, 0.3, 2.0, 400), 1_000_000: (3.0, 500, None, None, None)}
"""First page in s, a page of the table in ms, first hits and whole search in s, memory in MiB."""


class Opened:
    """A running server, and a browser's memory of its token."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        self.process, self.base = process, address.partition("/?")[0]
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(cookies)
        self.first = self._opener.open(address).read().decode()

    @property
    def runs(self) -> list[str]:
        """The runs of the page."""
        return re.findall(r'data-run="(\w+)"', self.first)

    def get(self, place: str) -> tuple[float, bytes]:
        """Return how many seconds an answer took, and the answer."""
        started = time.perf_counter()
        content = self._opener.open(self.base + place).read()
        return time.perf_counter() - started, content

    def search(self, words: str) -> tuple[float, float]:
        """Return after how many seconds the first line of a search came, and the last."""
        started = time.perf_counter()
        with self._opener.open(f"{self.base}/hits?q={urllib.request.quote(words)}") as found:  # type: ignore[attr-defined]
            found.readline()
            first = time.perf_counter() - started
            found.read()
        return first, time.perf_counter() - started

    def memory(self) -> float:
        """Return the most memory that the server has taken, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024


@contextmanager
def opened(*paths: Path) -> Iterator[tuple[float, Opened]]:
    """Start a server; give how long it took to its first page with all figures, and the server."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "faircount", "view", *map(str, paths), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            found = Opened(process)
            if 'data-ready="no"' in found.first:  # the page asks for figures that were not there in time
                for run in found.runs:
                    found.get(f"/rows?run={run}")
            yield time.perf_counter() - started, found
        finally:
            process.terminate()


def main() -> None:
    """Measure and print a table; fail if a figure is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--file", type=Path, help="a file with so many entries, made before")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        path = arguments.file or Path(name) / "results_bench.jsonl"
        if arguments.file is None:
            write_results(path, arguments.entries)
        os.environ[FOLDER_VARIABLE] = str(Path(name) / "cache")
        for where in (None, "lang = de"):
            with open_results(path) as results:
                results.tally(where=where)
        size = path.stat().st_size / 1e6
        print(f"{machine()}, {arguments.entries:,} entries, {size:,.0f} MB, median of {arguments.rounds}\n")
        missed = measure(path, arguments.entries, arguments.rounds)
        if arguments.file is None:
            path.unlink()
            dataset, paths = write_files(Path(name), arguments.entries)
            dataset.unlink()
            for one in paths:
                with open_results(one) as results:
                    results.tally()
            missed += measure_compared(paths, arguments.entries, arguments.rounds)
    if missed:
        raise SystemExit(f"missed: {', '.join(missed)}")


Report = Callable[[str, float, str, float | None], None]


def reporting(missed: list[str]) -> Report:
    """Return what prints a line of the table, and notes what took too long."""

    def report(what: str, value: float, unit: str, limit: float | None) -> None:
        shown = f"{value:.2f}" if unit == "s" else f"{value:.0f}"
        print(f"| {what} | {shown} {unit} | {'' if limit is None else f'{limit:g} {unit}'} |", flush=True)
        if limit is not None and value > limit:
            missed.append(what)

    return report


def measure_compared(paths: Sequence[Path], entries: int, rounds: int) -> list[str]:
    """Print how fast two runs are compared, and return what took too long."""
    made_s, page_ms = COMPARED_LIMITS.get(entries, (None, None))
    missed: list[str] = []
    report, times = reporting(missed), []
    for _ in range(rounds):
        with opened(*paths) as (_, server):
            base, run = server.runs
            times.append(server.get(f"/run/{run}?base={base}")[0])
    report("two runs compared, the first time", statistics.median(times), "s", made_s)
    with opened(*paths) as (_, server):
        base, run = server.runs
        server.get(f"/run/{run}?base={base}")
        for what, place in COMPARED.items():
            address = f"/run/{run}{place.format(base)}" if place else f"/?base={base}"
            report(what, 1000 * statistics.median(server.get(address)[0] for _ in range(rounds)), "ms", page_ms)
        report("memory with two runs compared", server.memory(), "MiB", None)
    return missed


def measure(path: Path, entries: int, rounds: int) -> list[str]:
    """Print what is measured, and return what took too long."""
    first_page, page_ms, first_hit, whole_search, memory = LIMITS.get(entries, (None,) * 5)
    missed: list[str] = []
    report = reporting(missed)
    print("| what | measured | limit |\n|---|---|---|")
    times = []
    for _ in range(rounds - 1):
        with opened(path) as (seconds, _server):
            times.append(seconds)
    with opened(path) as (seconds, server):
        report("first page with its figures, after the command", statistics.median([*times, seconds]), "s", first_page)
        (run,) = server.runs
        # The cache gives entries at once; the first query about rows waits until these are read, and has no limit here.
        report(
            "the first query, asked at once", 1000 * server.get(f"/run/{run}/entries?where=lang+%3D+fr")[0], "ms", None
        )
        for what, place in PAGES.items():
            address = f"/run/{run}{'' if place.startswith('?') else '/'}{place}"
            took = statistics.median(server.get(address)[0] for _ in range(rounds))
            report(what, 1000 * took, "ms", page_ms)
        for what, words in SEARCHES.items():
            found = [server.search(words) for _ in range(min(rounds, 3))]
            report(f"search for {what} words: first line", min(first for first, _ in found), "s", first_hit)
            report(f"search for {what} words: all", min(last for _, last in found), "s", whole_search)
        report("memory", server.memory(), "MiB", memory)
    return missed


if __name__ == "__main__":
    main()
