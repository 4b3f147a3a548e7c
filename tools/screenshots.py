"""Photographs pages of the demo's sample for the documentation, into docs/pictures; needs Chromium.

Run: .venv/bin/python -m tools.screenshots
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from faircount.app import write_sample

from .pictures import DEMO_SEED, FOLDER

PAGES = {
    "page.png": (["results_bot-mid_sample_1790000000.jsonl"], 1000),
    "league.png": (["results_bot-*_sample_1*.jsonl", "results_guardrail_sample-attacks_*.jsonl"], 640),
}
"""The picture, the files that its page is about, and how much of the page it shows, in pixels."""

WIDTH = 1280


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_sample(folder, seed=DEMO_SEED)
        for picture, (files, height) in PAGES.items():
            page = folder / picture.replace(".png", ".html")
            command = [sys.executable, "-m", "faircount", "results", "analyze", *files, "-o", str(page)]
            subprocess.run([*command, "--output-format", "html"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            _photograph(page, height, FOLDER / picture)


def _photograph(page: Path, height: int, picture: Path) -> None:
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--window-size={WIDTH},{height}", f"--screenshot={picture}", page.as_uri()]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
