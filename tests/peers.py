"""Run code and commands with the interpreter of a peer, whose packages come first.

A peer has an environment of its own: spikee that of `make peers`, each other one that which the variable
FAIRCOUNT_<NAME> names by its Python interpreter. What Faircount needs and the peer lacks comes from here, so the
interpreter must be of the same version.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.conftest import ROOT

_BEGIN = """\
import sys
sys.path.insert(0, {source!r})
sys.path.append({packages!r})
"""
_FILE = """\
import runpy
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""
_COMMAND = """\
from faircount.app.cli import main
sys.exit(main(sys.argv[1:]))
"""


def interpreter(name: str) -> str:
    """Return the interpreter of a peer; the test is skipped where there is none."""
    if name == "spikee":
        path = ROOT / ".venv-peers" / "bin" / "python"
        if not path.exists():
            pytest.skip("spikee is not installed (make peers)")
        return str(path)
    variable = f"FAIRCOUNT_{name.upper()}"
    if not os.environ.get(variable):
        pytest.skip(f"no {name}: name an interpreter that has it in {variable}")
    return os.environ[variable]


def run(name: str, folder: Path, code: str, *arguments: str, **variables: str) -> str:
    """Run code in a folder with a peer and return what it prints; it must succeed."""
    begin = _BEGIN.format(source=str(ROOT / "src"), packages=str(Path(msgspec.__file__).parent.parent))
    homes = {f"XDG_{kind}_HOME": str(folder / "xdg") for kind in ("DATA", "CONFIG", "CACHE")}
    done = subprocess.run(
        [interpreter(name), "-c", begin + code, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **homes, **variables},
        cwd=folder,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def run_file(name: str, folder: Path, path: str, *arguments: str) -> str:
    """Run a file as a program in a folder with a peer and return what it prints; it must succeed."""
    return run(name, folder, _FILE, path, *arguments)


def command(name: str, folder: Path, *words: str, **variables: str) -> str:
    """Run a command of Faircount's in a folder with a peer and return what it prints; it must succeed."""
    return run(name, folder, _COMMAND, *words, **variables)
