"""An interactive report: one script that the policy names, and entries that can do nothing but be listed."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.web.conftest import hostile_rows
from tests.conftest import encode, standard

CHROMIUM = shutil.which("chromium")


def faircount(*words: object) -> int:
    command = [sys.executable, "-m", "faircount", *map(str, words)]
    return subprocess.run(command, check=False, capture_output=True).returncode


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interactive")
    rows = [standard(f"e{at}", success=at % 3 == 0, lang=["de", "en"][at % 2]) for at in range(20)]
    rows += [one | {"lang": "</script><script>window.ran = 1</script>"} for one in hostile_rows()[:6]]
    (folder / "results_x.jsonl").write_bytes(encode(rows))
    target = folder / "page.html"
    assert faircount("results", "analyze", folder / "results_x.jsonl", "--interactive", "-o", target) == 0
    return target


def test_the_policy_allows_the_one_script_by_its_hash(page: Path) -> None:
    text = page.read_text("utf-8")
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(re.findall("<script", text)) == 2  # that one, and the data, which are not run
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#x27;sha256-{digest}&#x27;;" in text


def test_without_the_option_a_page_runs_nothing(page: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.html"
    faircount("results", "analyze", page.with_name("results_x.jsonl"), "-o", plain)
    text = plain.read_text("utf-8")
    assert "<script" not in text
    assert "script-src &#x27;none&#x27;" in text


def test_what_does_not_go_together_is_refused(page: Path) -> None:
    file = page.with_name("results_x.jsonl")
    assert faircount("results", "analyze", file, "--interactive") == 2
    assert faircount("results", "analyze", file, "--interactive", "--where", "lang = de", "-o", "x.html") == 2


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_tables_sort_and_rows_show_their_entries_in_a_browser(page: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    harm: list[str] = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page()
        tab.set_default_timeout(20_000)
        tab.on("dialog", lambda dialog: harm.append(dialog.message))
        tab.on("pageerror", lambda error: harm.append(str(error)))
        tab.on("console", lambda said: harm.append(said.text) if said.type in ("error", "warning") else None)
        tab.on("request", lambda one: None if one.url.startswith("file://") else harm.append(one.url))
        tab.goto(f"file://{page}")
        table = tab.locator("table.grid", has_text="Breakdown by language").first
        sort = table.locator("thead button").first
        sort.focus()
        tab.keyboard.press("Enter")
        assert table.locator("thead th").first.get_attribute("aria-sort") == "ascending"
        names = table.locator("tbody th bdi").all_inner_texts()
        assert names == sorted(names)
        table.get_by_role("button", name="Show the entries of de").click()
        listed = tab.locator(".behind-entries:not([hidden]) li").all_inner_texts()
        assert tab.locator(".behind-entries:not([hidden]) p").inner_text().startswith(f"de: {len(listed)} entries")
        assert [one.split()[0] for one in listed] == [f"e{at}" for at in range(0, 20, 2)]
        assert tab.evaluate("window.ran") is None
        browser.close()
    assert harm == []
