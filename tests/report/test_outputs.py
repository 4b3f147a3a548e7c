"""Everything that commands print is as it was; after a change that is meant, run `python -m tests.outputs`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.outputs import DIGESTS, FOLDER, here, kept, shared_digests


def test_commands_print_what_they_printed() -> None:
    found = dict(kept())
    expected = {path.name.removesuffix(".txt"): path.read_text("utf-8") for path in FOLDER.glob("*.txt")}
    assert len(expected) > 60
    assert found.keys() == expected.keys()
    for name, text in found.items():
        assert text == expected[name], f"{name} has changed; see tests/outputs.py"


def test_commands_print_the_same_about_the_shared_files(shared: Path, tmp_path: Path) -> None:
    expected = json.loads(DIGESTS.read_text())
    with here(tmp_path):
        found = shared_digests(shared)
    assert sorted(name for name in expected if found.get(name) != expected[name]) == []
    assert found.keys() == expected.keys()
