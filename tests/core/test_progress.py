"""A bar while reading takes long: on a terminal's standard error only, never in a pipe, never in the answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from faircount.app.cli import terminal as progress
from faircount.app.cli.terminal import ReadingBar
from tests.app.test_cli import on_terminal
from tests.conftest import Cli, Write, standard


def test_a_small_file_is_read_before_anybody_wonders(write: Write) -> None:
    path = write([standard(i) for i in range(50)])
    seen = on_terminal(["results", "analyze", path, "--overview"], NO_COLOR="1")
    assert b"Reading" not in seen


def test_the_bar_waits_for_its_moment(monkeypatch: pytest.MonkeyPatch, write: Write) -> None:
    path = write([standard(1)])
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with ReadingBar([path]) as bar:
        bar.advance(10)
        before = bar.shown
        monkeypatch.setattr(progress, "PATIENCE_SECONDS", -1.0)
        bar.advance(10)
        assert (before, bar.shown) == (False, True)
        assert bar._bar is not None
        assert bar._bar.tasks[0].completed == 20
        assert bar._bar.tasks[0].total == Path(path).stat().st_size


def test_no_bar_without_a_terminal(monkeypatch: pytest.MonkeyPatch, write: Write, cli: Cli) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", -1.0)
    ran = cli("results", "analyze", write([standard(1)]))
    assert ran.err == ""
    assert "Reading" not in ran.out


def test_a_stream_has_no_known_end() -> None:
    assert progress._total_bytes(["-"]) is None
