"""Photographs labelling and judges on the page, for the documentation: somebody labels a run, two people differ."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from .pictures import FOLDER

WIDTH = 1280
RESULTS = "results_bot-mid_labelled_1790000000.jsonl"
_LABELS = 60

LABEL, DECIDE, JUDGES = PICTURES = ("label.png", "label-decide.png", "judges.png")


def photograph_labels(sample: Path, folder: Path) -> None:
    """Photograph the pages about a run of the sample, which a second judge has judged again with scores."""
    from playwright.sync_api import sync_playwright

    _write_judged_again(sample / "results_bot-mid_sample_1790000000.jsonl", folder / RESULTS)
    command = [sys.executable, "-m", "faircount", "view", RESULTS, "--labels", "labels.jsonl", "--no-browser"]
    command += ["--second-opinions", "1"]
    with (
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server,
        sync_playwright() as started,
    ):
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        anna = _labeller(browser, address, "Anna")
        for _ in range(_LABELS):
            _label(anna, "1" if "CANARY" in anna.inner_text(".role-answer pre") else "2")
        anna.goto(anna.url.replace("below=5", "below=30"))
        anna.set_viewport_size({"width": WIDTH, "height": 520})
        anna.screenshot(path=FOLDER / LABEL)
        ben = _labeller(browser, address, "Ben")
        # He sees what Anna has labelled, and says the opposite.
        _label(ben, "2" if "CANARY" in ben.inner_text(".role-answer pre") else "1")
        ben.click("#rates a:has-text('to decide')")
        ben.wait_for_selector(".opinions")
        ben.set_viewport_size({"width": WIDTH, "height": 560})
        ben.screenshot(path=FOLDER / DECIDE)
        run = anna.evaluate("new URLSearchParams(location.search).get('run')")
        base = address.partition("/?")[0]
        anna.goto(f"{base}/run/{run}/judges?judge=model-judge&threshold=0.6")
        anna.set_viewport_size({"width": WIDTH, "height": 900})
        anna.screenshot(path=FOLDER / JUDGES)
        browser.close()
        server.terminate()


def _labeller(browser: Any, address: str, name: str) -> Any:
    tab = browser.new_context(viewport={"width": WIDTH, "height": 900}).new_page()
    tab.goto(address)
    tab.wait_for_selector('tr[data-ready="no"]', state="detached")
    tab.goto(address.partition("/?")[0] + "/label")
    tab.fill("#author", name)
    tab.click(".label-start button")
    tab.wait_for_selector("#label-title")
    tab.wait_for_load_state()
    return tab


def _label(tab: Any, key: str) -> None:
    with tab.expect_navigation():
        tab.keyboard.press(key)


def _write_judged_again(source: Path, target: Path) -> None:
    """Write the rows with the verdicts of a judge that scores answers and errs now and then."""
    generator, lines = random.Random(3), []
    for line in source.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if not row["error"]:
            before = row["success"]
            score = min(max(generator.gauss(0.72 if before else 0.25, 0.17), 0.0), 1.0)
            row["success"] = score >= 0.5
            row["rejudged"] = {"judge": "model-judge", "score": round(score, 3), "before": {"success": before}}
        lines.append(json.dumps(row) + "\n")
    target.write_text("".join(lines), encoding="utf-8")
