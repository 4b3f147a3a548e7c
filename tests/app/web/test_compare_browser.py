"""Compared runs in a real browser: by mouse and keyboard, with and without scripts, and with hostile rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.web.conftest import HOSTILE, Served, hostile_rows, opened
from tests.app.web.test_browser import PATIENCE, Seen, browser, expect, path_of, seen
from tests.conftest import encode, some, standard

__all__ = ["browser", "seen"]
expect.set_options(timeout=PATIENCE)


def row_of(name: str) -> str:
    return f"tr[data-run]:has(bdi:text-is('{name}'))"


# -- going about ------------------------------------------------------------------------------------------------


def test_from_a_baseline_to_the_words_that_differ(seen: Seen, run_of: dict[str, str]) -> None:
    tab, base = seen.tab, run_of["bot-weak"]
    tab.click(f"#run-{base} [data-base]")
    tab.wait_for_url(f"**/?base={base}")
    expect(tab.locator("tr[data-ready=no]")).to_have_count(0)
    tab.click(f"{row_of('bot-strong')} .row-link")
    expect(tab.locator(".sentence")).to_contain_text("bot-strong is")
    cell = tab.locator("td.only_a a")
    count = re.findall(r"\d+", cell.inner_text())[0]
    cell.click()
    tab.wait_for_url("**cell=only_a**")
    assert tab.inner_text(".count strong") == count
    tab.click("table.entries .row-link >> nth=0")
    tab.wait_for_url("**/entry/**")
    assert tab.locator("del").count() > 0
    assert tab.locator("ins").count() > 0
    tab.go_back()
    tab.go_back()
    assert path_of(tab).endswith(f"?base={base}")


def test_the_keyboard_is_enough_to_compare(seen: Seen, run_of: dict[str, str]) -> None:
    tab = seen.tab
    tab.keyboard.press("/")
    tab.keyboard.type("weak")
    tab.keyboard.press("Escape")
    tab.keyboard.press("j")
    tab.keyboard.press("b")
    tab.wait_for_url(f"**/?base={run_of['bot-weak']}")
    expect(tab.locator("tr[data-ready=no]")).to_have_count(0)
    tab.keyboard.press("/")
    tab.keyboard.type("strong")
    tab.keyboard.press("Escape")
    tab.keyboard.press("j")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/run/**base=**")
    tab.locator("td.only_b a").focus()
    tab.keyboard.press("Enter")
    tab.wait_for_url("**cell=only_b**")
    wanted = tab.locator("table.entries .row-link").all_inner_texts()
    tab.keyboard.press("j")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/entry/**")
    assert tab.inner_text("h1 bdi >> nth=0") == wanted[0]
    tab.keyboard.press("j")
    expect(tab.locator("h1 bdi").first).to_have_text(wanted[1])
    tab.wait_for_load_state()
    tab.keyboard.press("Escape")
    tab.wait_for_url("**/entries?**")
    tab.keyboard.press("Escape")
    tab.wait_for_url(f"**/run/*?base={run_of['bot-weak']}")


def test_a_run_is_compared_with_another_from_its_own_page(seen: Seen, run_of: dict[str, str]) -> None:
    tab = seen.go(f"/run/{run_of['dynamic']}")
    tab.select_option("#base", run_of["bot-weak"])
    tab.click("form:has(#base) button")
    expect(tab.locator(".mode")).to_contain_text("bot-weak")
    tab.wait_for_load_state()
    tab.select_option("#base", label="bot-strong")
    expect(tab.locator(".mode")).to_contain_text("bot-strong")
    tab.click(".mode a:text-is('Swap')")
    expect(tab.locator("h1")).to_have_text("bot-strong")
    tab.click(".mode a:text-is('Stop comparing')")
    expect(tab.locator(".mode")).to_have_count(0)


def test_several_runs_are_chosen_against_the_baseline(seen: Seen, run_of: dict[str, str]) -> None:
    tab = seen.go(f"/?base={run_of['bot-weak']}")
    expect(tab.locator("tr[data-ready=no]")).to_have_count(0)
    assert tab.locator("#compare-button").is_disabled()
    for name in ("bot-mid sample", "bot-strong"):
        tab.check(f"{row_of(name)} input")
    tab.click("#compare-button")
    expect(tab.locator("#matrix-title")).to_contain_text("Against bot-weak")
    assert tab.locator(".entry-map tbody tr").count() == 50
    tab.click(".entry-map tbody tr >> nth=0 >> td >> nth=2 >> a")
    expect(tab.locator("#entry-title")).to_be_visible()


def test_it_compares_without_scripts(browser: Any, served: Served, run_of: dict[str, str]) -> None:
    tab = Seen(browser, served.base, java_script_enabled=False)
    page = tab.go(f"/run/{run_of['dynamic']}?base={run_of['bot-weak']}")
    page.click("td.only_b a")
    page.click("table.entries .row-link >> nth=0")
    assert "Entry" in page.inner_text("h1")
    assert page.locator("ins").count() > 0
    tab.close()


# -- hostile rows -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, list[str], int]]:
    """Two runs whose entries flip, with hostile text in every field, different in each; and a third like the first."""
    folder = tmp_path_factory.mktemp("hostile")
    rows = hostile_rows()
    rows += [standard(f"plain {number}", success=number % 2 == 0, lang=HOSTILE[0]) for number in range(40)]
    other = []
    for number, one in enumerate(rows):
        turned = one if one["error"] else {**one, "success": not one["success"]}
        texts = {name: f"{HOSTILE[number % len(HOSTILE)]} {one.get(name)}" for name in ("response", "judge_reason")}
        other.append({**turned, **texts})
    paths = []
    for name, made in (("<img src=x onerror=window.ran=1>", rows), ("'><svg onload=window.ran=1>", other), ("c", rows)):
        paths.append(folder / f"results_{name.replace('/', '')}_1790000000.jsonl")
        paths[-1].write_bytes(encode(made))
    runs = opened(*paths)
    page = Served(runs)
    yield page, [run.id for run in runs.all], len(rows)
    page.stop()


def test_hostile_rows_can_do_nothing_in_a_comparison(browser: Any, hostile: tuple[Served, list[str], int]) -> None:
    page, (base, run, third), count = hostile
    places = [
        f"/?base={base}",
        f"/run/{run}?base={base}",
        f"/run/{run}/entries?base={base}&limit=200",
        f"/run/{run}/entries?base={base}&cell=only_b&where=success+%3D+true",
        f"/compare?run={base}&run={run}&run={third}",
        *(f"/run/{run}/entry/{line}?base={base}" for line in range(1, count + 1, 2)),
    ]
    tab = Seen(browser, page.base)
    flipped = 0
    for place in places:
        shown = tab.go(place)
        for summary in shown.query_selector_all("details:not([open]) > summary"):
            summary.evaluate("one => { one.parentElement.open = true; }")
        assert tab.look() == [], place
        flipped += shown.locator("ins").count()
        assert "\u202e" not in shown.inner_text("main")
    assert flipped > 10
    tab.close()


def test_a_comparison_of_long_texts_does_not_freeze_the_page(browser: Any, tmp_path: Path) -> None:
    words = [f"word{number % 977}" for number in range(3_000_000)]
    paths = []
    for name, text in (("a", " ".join(words)), ("b", " ".join(reversed(words)))):
        paths.append(tmp_path / f"results_{name}.jsonl")
        paths[-1].write_text(json.dumps(standard(1, success=name == "b", response=text, judge_reason=text)) + "\n")
    assert min(path.stat().st_size for path in paths) > 20_000_000
    from faircount.analysis import AnalyzeOptions

    page = Served(opened(*paths, options=AnalyzeOptions(max_line=128 * 1024 * 1024)))
    try:
        tab = Seen(browser, page.base)
        base, run = re.findall(r'data-run="(\w+)"', tab.tab.content())
        shown = tab.go(f"/run/{run}/entry/1?base={base}")
        assert len(some(shown.content())) < 1_000_000
        expect(shown.locator(".beside.response .note").first).to_contain_text("more characters")
        assert tab.harm == []
        tab.close()
    finally:
        page.stop()
