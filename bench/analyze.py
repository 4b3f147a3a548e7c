"""`results analyze` against spikee's, on files of our own generator, in the same run, in turns.

Run: make bench, or .venv/bin/python -m bench.analyze --entries 1000 100000 --rounds 3
"""

from __future__ import annotations

import argparse
import compileall
import gzip
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import zstandard

from bench.generate import write_results
from bench.measure import THEIRS, in_turns, run_once, show_beside
from faircount.readers.cache import FOLDER_VARIABLE

ROOT = Path(__file__).parent.parent
SPIKEE = ROOT / ".venv-peers" / "bin" / "spikee"
FAIRCOUNT = Path(sys.executable).parent / "faircount"
HEAD = """\
| what | tool | wall s | CPU s | memory MiB | wall: times faster | memory: times less |
|---|---|---|---|---|---|---|"""
CACHED = "faircount, cached"
MANY_FILES, ENTRIES_OF_MANY = 38, 956
ENTRIES_COMPRESSED = 100_000


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    parser.add_argument("--alone", type=int, nargs="*", default=[], help="sizes to be measured without spikee")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if not SPIKEE.exists():
        sys.exit("spikee is not installed: run make peers")
    # An installed package is compiled, as spikee is here; ours runs from its sources.
    compileall.compile_dir(str(ROOT / "src"), quiet=2)
    print(f"{machine()}, best of {arguments.rounds}")
    print(HEAD)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ[FOLDER_VARIABLE] = str(folder / "cache")
        show_beside("--help", in_turns(_commands("--help"), folder, arguments.rounds))
        for entries in [*arguments.entries, *arguments.alone]:
            _measure(folder, entries, arguments.rounds, with_spikee=entries not in arguments.alone)
        _measure_many_files(folder, arguments.rounds)
        _measure_compressed(folder, arguments.rounds)


def machine() -> str:
    """Return a description of the machine: processor, cores, memory, system, Python."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    cores = f"{os.cpu_count()} cores"
    return f"{model or platform.machine()}, {cores}, {memory:.0f} GiB, {system}, Python {platform.python_version()}"


def _commands(*words: str) -> dict[str, Sequence[str]]:
    return {
        THEIRS: [str(SPIKEE), "-q", "results", "analyze", *words],
        "faircount": [str(FAIRCOUNT), "results", "analyze", *words],
    }


def _measure_many_files(folder: Path, rounds: int) -> None:
    """Compare analysing files one by one with analysing them as one: the aim is at most twice the CPU."""
    many = folder / "many"
    many.mkdir()
    for number in range(MANY_FILES):
        write_results(many / f"results_target-{number:02d}_bench_1790000000.jsonl", ENTRIES_OF_MANY, seed=number)
    words = [str(FAIRCOUNT), "results", "analyze", "--no-cache", "--result-folder", str(many)]
    commands = {"one by one": words, "one by one, details": [*words, "--details"], "combined": [*words, "--combine"]}
    measured = in_turns(commands, folder, rounds)
    print(f"\n| {MANY_FILES} files of {ENTRIES_OF_MANY} entries | wall s | CPU s | memory MiB | CPU: times combined |")
    print("|---|---|---|---|---|")
    for name, one in measured.items():
        ratio = one.cpu / measured["combined"].cpu
        print(f"| {name} | {one.wall:.2f} | {one.cpu:.2f} | {one.memory_mib:.0f} | {ratio:.2f} |")


def _measure_compressed(folder: Path, rounds: int) -> None:
    """Compare compressed files with the plain one: the aim is at most one and a half times its wall time."""
    plain = folder / "results_bench-compressed.jsonl"
    write_results(plain, ENTRIES_COMPRESSED)
    text = plain.read_bytes()
    packed = {"gzip": gzip.compress(text, 6), "Zstandard": zstandard.ZstdCompressor().compress(text)}
    files = {"plain": plain}
    for kind, data in packed.items():
        files[kind] = folder / f"results_bench-{kind}.jsonl"
        files[kind].write_bytes(data)
    words = [str(FAIRCOUNT), "results", "analyze", "--no-cache"]
    measured = in_turns({kind: [*words, str(path)] for kind, path in files.items()}, folder, rounds)
    print(f"\n| {ENTRIES_COMPRESSED:,} entries | MB | wall s | CPU s | memory MiB | wall: times plain |")
    print("|---|---|---|---|---|---|")
    for kind, one in measured.items():
        size, ratio = files[kind].stat().st_size / 1e6, one.wall / measured["plain"].wall
        print(f"| {kind} | {size:,.0f} | {one.wall:.2f} | {one.cpu:.2f} | {one.memory_mib:.0f} | {ratio:.2f} |")


def _measure(folder: Path, entries: int, rounds: int, *, with_spikee: bool) -> None:
    path = folder / f"results_bench-{entries}.jsonl"
    lines = write_results(path, entries)
    commands = _commands("--result-file", str(path))
    cached = commands["faircount"]
    if not with_spikee:
        del commands[THEIRS]
    # A cold run fills the cache as it goes, so the cache must be empty before each.
    commands["faircount"] = ["sh", "-c", 'rm -rf "$0" && exec "$@"', os.environ[FOLDER_VARIABLE], *cached]
    what = f"{entries:,} entries, {lines:,} lines, {path.stat().st_size / 1e6:,.0f} MB"
    measured = in_turns(commands, folder, rounds)
    run_once(cached, folder)
    measured[CACHED] = in_turns({CACHED: cached}, folder, rounds)[CACHED]
    show_beside(what, measured)
    path.unlink()


if __name__ == "__main__":
    main()
