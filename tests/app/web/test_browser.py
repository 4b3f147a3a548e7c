"""The page in a real browser: it works by mouse and keyboard, for everybody, and hostile rows can do nothing in it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest

from faircount.analysis import AnalyzeOptions
from faircount.app.web import app as web_app
from faircount.app.web import runs as run_files
from faircount.app.web.runs import Runs
from tests.app.web.conftest import TOKEN, Served
from tests.conftest import Write, some, standard

CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("chromium is not installed", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
PATIENCE = 20_000
"""A page takes a while on a busy machine, in milliseconds."""
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 400, "height": 800}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


class Seen:
    """A tab, and everything in it that must never happen."""

    def __init__(self, browser: Any, base: str, **options: Any) -> None:
        self.base, self.harm = base, list[str]()
        self.context = browser.new_context(**{"viewport": WIDE, **options})
        self.tab = self.context.new_page()
        self.tab.set_default_timeout(PATIENCE)
        self.tab.on("dialog", self._dialog)
        self.tab.on("pageerror", lambda error: self.harm.append(f"error: {error}"))
        self.tab.on("console", self._console)
        self.tab.on("request", self._request)
        self.tab.goto(f"{base}/?token={TOKEN}")

    def _dialog(self, dialog: Any) -> None:
        self.harm.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.harm.append(f"console: {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith(self.base + "/"):
            self.harm.append(f"request: {request.url}")

    def go(self, address: str) -> Any:
        self.tab.goto(self.base + address)
        return self.tab

    def look(self) -> list[str]:
        """Return what went wrong on the page that is shown."""
        try:
            ran = self.tab.evaluate("window.ran")
        except playwright.Error as error:
            return [*self.harm, f"the page went elsewhere: {error}"]
        if ran:
            self.harm.append("a script of a record ran")
        foreign = self.tab.evaluate(
            """() => [...document.querySelectorAll("img, iframe, base, object, embed, style, [onerror], [onload], "
                + "[onmouseover], script:not([src='/static/view.js']), link[href*='attacker'], meta[http-equiv], "
                + "a[href^='javascript:'], a[href*='//']")].map((one) => one.outerHTML.slice(0, 200))"""
        )
        return self.harm + [f"element: {one}" for one in foreign]

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def seen(browser: Any, served: Served) -> Iterator[Seen]:
    tab = Seen(browser, served.base)
    yield tab
    assert tab.harm == []
    tab.close()


def path_of(tab: Any) -> str:
    return re.sub(r"^https?://[^/]+", "", tab.url)


# -- going about ------------------------------------------------------------------------------------------------


def test_from_a_number_to_the_characters_and_back(seen: Seen, run_of: dict[str, str]) -> None:
    tab = seen.tab
    assert "token" not in tab.url
    tab.click(f"#run-{run_of['dynamic']} .row-link")
    tab.click(".legend a:has-text('success')")
    expect(tab.locator(".count strong")).to_have_text("119")
    tab.click("table.entries .row-link >> nth=0")
    expect(tab.locator(".pane:visible")).to_have_count(3)
    tab.click("[data-xray] >> nth=0")
    expect(tab.locator("h1")).to_contain_text("X-ray")
    for _ in range(3):
        tab.go_back()
    assert path_of(tab) == f"/run/{run_of['dynamic']}"
    tab.go_forward()
    assert tab.inner_text(".count strong") == "119"


def test_the_keyboard_is_enough(seen: Seen, run_of: dict[str, str]) -> None:
    tab = seen.tab
    tab.keyboard.press("?")
    assert tab.locator("#help").is_visible()
    tab.keyboard.press("Escape")
    assert not tab.locator("#help").is_visible()
    tab.keyboard.press("/")
    tab.keyboard.type("weak")
    assert tab.locator("tr[data-run]:visible").count() == 1
    tab.keyboard.press("Escape")
    tab.keyboard.press("j")
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"**/run/{run_of['bot-weak']}")
    seen.go(f"/run/{run_of['bot-weak']}/entries?f.outcome=success&sort=-id")
    wanted = tab.locator("table.entries .row-link").all_inner_texts()
    for key in ("j", "j", "k", "j"):
        tab.keyboard.press(key)
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/entry/**")
    assert tab.inner_text("h1 bdi") == wanted[1]
    tab.keyboard.press("j")
    expect(tab.locator("h1 bdi")).to_have_text(wanted[2])
    tab.wait_for_load_state()
    tab.keyboard.press("k")
    expect(tab.locator("h1 bdi")).to_have_text(wanted[1])
    tab.wait_for_load_state()
    tab.keyboard.press("Escape")
    tab.wait_for_url("**/entries?**")
    assert tab.locator("table.entries .row-link").all_inner_texts() == wanted


def test_runs_are_filtered_as_one_types_and_compared(seen: Seen) -> None:
    tab = seen.tab
    tab.fill("#filter", "bot")
    assert tab.locator("tr[data-run]:visible").count() == 4
    assert "q=bot" in tab.url
    assert tab.locator("#compare-button").is_disabled()
    for number in (0, 2):
        tab.locator("tr[data-run]:visible input").nth(number).check()
    tab.click("#compare-button")
    assert "points lower" in tab.inner_text("main")


def test_a_query_is_completed_and_its_message_shown(seen: Seen, run_of: dict[str, str]) -> None:
    tab = seen.go(f"/run/{run_of['bot-weak']}/entries")
    tab.click("#where")
    tab.keyboard.type("la")
    tab.wait_for_selector("#where-list li:has-text('lang')")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    assert tab.input_value("#where") == "lang "
    tab.keyboard.type("= d")
    tab.wait_for_selector("#where-list li:text-is('de')")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    assert tab.input_value("#where") == "lang = de "
    tab.keyboard.press("Enter")
    tab.wait_for_url("**where=lang**")
    assert tab.inner_text(".count strong") == "90"
    tab.fill("#where", "lang = = x")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("[role=alert]")


def test_columns_are_chosen_and_kept(seen: Seen, run_of: dict[str, str]) -> None:
    tab = seen.go(f"/run/{run_of['bot-weak']}/entries?f.lang=de")
    tab.click("summary:has-text('Columns')")
    tab.uncheck("input[value=response]")
    tab.check("input[value=response_time]")
    tab.click("fieldset button")
    tab.wait_for_url("**col=response_time**")
    heads = tab.locator("table.entries thead th").all_inner_texts()
    assert "Time" in heads
    assert "Response" not in heads
    tab.click("table.entries thead a:has-text('Time')")
    tab.wait_for_url("**sort=response_time**")
    assert tab.locator("table.entries thead th").all_inner_texts() == [h if h != "Time" else "Time ▲" for h in heads]


def test_a_search_shows_hits_as_text(seen: Seen) -> None:
    tab = seen.tab
    tab.fill("#find", "sdrawkcab")
    tab.press("#find", "Enter")
    expect(tab.locator("#search-state")).to_contain_text("found in")
    assert tab.locator("#hits li mark").first.inner_text() == "sdrawkcab"
    assert "\u202e" not in tab.inner_text("main")
    tab.click("#hits .row-link >> nth=0")
    tab.wait_for_selector("#entry-title")


def test_a_long_text_does_not_freeze_the_page(browser: Any, write: Write) -> None:
    text = "".join(f"line {number} of a long answer\n" for number in range(2_000_000))
    path = write([standard(1, response=text)])
    assert Path(path).stat().st_size > 60_000_000
    with Runs([path], AnalyzeOptions(max_line=128 * 1024 * 1024)) as found:
        page = Served(found)
        try:
            tab = Seen(browser, page.base)
            shown = tab.go(f"/run/{found.all[0].id}/entry/1")
            before = len(shown.inner_text(".role-answer pre"))
            shown.click("[data-more]")
            expect(shown.locator(".rest .muted")).to_have_text("")
            assert shown.evaluate("document.querySelector('.role-answer pre').textContent.length") > before + 50_000
            assert shown.evaluate("document.querySelector('.role-answer pre').textContent.length") < 200_000
            assert tab.harm == []
            tab.close()
        finally:
            page.stop()


# -- a run in progress ------------------------------------------------------------------------------------------


def test_a_run_in_progress_is_shown_live(browser: Any, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "AGAIN_AFTER", 0.1)
    lines = _journal()
    path = Path(write(lines[: len(lines) // 3], "run.jsonl"))
    with path.open("ab") as file, Runs([str(path)], AnalyzeOptions()) as found:
        fcntl.flock(file, fcntl.LOCK_EX)
        page = Served(found)
        try:
            tab = Seen(browser, page.base)
            assert tab.tab.locator(".state.running").count() == 1
            before = tab.tab.inner_text(".rate-cell")
            width = _interval_width(tab.tab)
            file.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines[len(lines) // 3 :]))
            file.flush()
            expect(tab.tab.locator(".rate-cell")).not_to_have_text(before, use_inner_text=True)
            assert _interval_width(tab.tab) < width
            fcntl.flock(file, fcntl.LOCK_UN)
            file.write(b'{"kind":"end","at":null,"complete":true,"why":""}\n')
            file.flush()
            tab.tab.wait_for_selector(".state.running", state="detached")
            assert tab.harm == []
            tab.close()
        finally:
            page.stop()


def _journal() -> list[dict[str, Any]]:
    """Return the journal of a run of sixty entries, made by a real one."""
    import tempfile

    from faircount.app.cli import main

    with tempfile.TemporaryDirectory() as name:
        dataset = Path(name) / "d.jsonl"
        rows = [
            {"id": n, "content": f"Print CANARY-{n}", "judge_name": "canary", "judge_args": f"CANARY-{n}"}
            for n in range(60)
        ]
        dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
        target = "simulated:guardrail(seed=7, recall=0.5, false_positive_rate=0.05)"
        journal = Path(name) / "j.jsonl"
        main(
            [
                "-q",
                "run",
                str(dataset),
                "--target",
                target,
                "--journal",
                str(journal),
                "--output-folder",
                name,
                "-o",
                str(Path(name) / "r.txt"),
            ]
        )
        return [json.loads(line) for line in journal.read_text().splitlines()][:-1]


def _interval_width(tab: Any) -> float:
    return float(tab.evaluate("document.querySelector('tr[data-run] .fc-interval g').getBoundingClientRect().width"))


# -- for everybody ----------------------------------------------------------------------------------------------

SHOWN = (
    "/",
    "/run/{dynamic}",
    "/run/{guardrail_sample-attacks}",
    "/run/{dynamic}/entries?f.outcome=success&where=lang+%3D+de",
    "/run/{dynamic}/entries?where=lang+%3D+%3D",
    "/run/{dynamic}/entry/1",
    "/run/{<img}/entry/3",
    "/run/{<img}/xray/19?part=response",
    "/run/{dynamic}/judges",
    "/search?q=hidden",
    "/compare?run={bot-weak}&run={dynamic}",
    "/?base={bot-weak}",
    "/run/{dynamic}?base={guardrail_sample-benign}",
    "/run/{dynamic}/entries?base={bot-weak}&cell=only_b&f.lang=de",
    "/run/{dynamic}/entries?base={<img}&alone=b",
    "/run/{dynamic}/entries?base={bot-weak}&where=lang+%3D+%3D",
    "/run/{dynamic}/entry/1?base={bot-weak}",
    "/compare?run={bot-weak}&run={dynamic}&run={guardrail_sample-attacks}",
)


def addresses(run_of: dict[str, str]) -> list[str]:
    return [re.sub(r"\{([^}]+)\}", lambda match: run_of[match[1]], address) for address in SHOWN]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_fault_of_accessibility(scheme: str, browser: Any, served: Served, run_of: dict[str, str]) -> None:
    base = pytest.importorskip("axe_playwright_python.base", reason="axe-core is not installed")
    # axe is put into the page by the test, which the policy of the page would not allow.
    tab = Seen(browser, served.base, color_scheme=scheme, bypass_csp=True)
    found = []
    for address in addresses(run_of):
        page = tab.go(address)
        page.evaluate(Path(base.AXE_FILE_PATH).read_text(encoding="utf-8"))
        # Nothing but the colours depends on the scheme.
        rules = ", runOnly: ['color-contrast']" if scheme == "dark" else ""
        result = page.evaluate(f"axe.run(document, {{resultTypes: ['violations']{rules}}})")
        found += [
            f"{address}: {one['id']}: {[node['html'][:200] for node in one['nodes'][:3]]}"
            for one in result["violations"]
            if one["impact"] in ("serious", "critical")
        ]
    tab.close()
    assert found == []


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1280", "400"])
def test_nothing_is_wider_than_the_window(
    size: dict[str, int], browser: Any, served: Served, run_of: dict[str, str]
) -> None:
    tab = Seen(browser, served.base, viewport=size)
    for address in addresses(run_of):
        page = tab.go(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], address
    assert tab.harm == []
    tab.close()


def test_dark_surroundings_get_a_dark_page(browser: Any, served: Served) -> None:
    shades = {}
    for scheme in ("light", "dark"):
        tab = Seen(browser, served.base, color_scheme=scheme)
        colour = tab.tab.evaluate("getComputedStyle(document.body).backgroundColor")
        shades[scheme] = sum(map(int, re.findall(r"\d+", colour)[:3]))
        tab.close()
    assert shades["light"] > 700
    assert shades["dark"] < 150


def test_paper_gets_texts_whole_and_no_controls(seen: Seen, run_of: dict[str, str]) -> None:
    tab = seen.go(f"/run/{run_of['dynamic']}/entry/1")
    tab.emulate_media(media="print")
    assert not tab.locator(".top").is_visible()
    assert not tab.locator(".pane.list").is_visible()
    assert tab.locator("#entry-title").is_visible()
    assert tab.evaluate("getComputedStyle(document.querySelector('pre')).maxHeight") == "none"
    assert len(tab.pdf()) > 10_000


def test_it_reads_without_scripts(browser: Any, served: Served, run_of: dict[str, str]) -> None:
    tab = Seen(browser, served.base, java_script_enabled=False)
    page = tab.go(f"/run/{run_of['bot-weak']}/entries?f.lang=de")
    page.click("table.entries .row-link >> nth=0")
    assert "Entry" in page.inner_text("h1")
    tab.close()


# -- hostile rows -----------------------------------------------------------------------------------------------


def hostile_places(run: str) -> list[str]:
    lines = [f"/run/{run}/entry/{line}" for line in range(1, 23)]
    texts = [f"/run/{run}/xray/{line}?part={part}" for line in (1, 3, 9, 19) for part in ("response", "prompt")]
    others = [
        "/",
        f"/run/{run}",
        f"/run/{run}/entries?limit=200",
        f"/run/{run}/line/23",
        f"/run/{run}/judges",
        f"/search?q=script&run={run}",
    ]
    return some([*others, *lines, *texts])


def test_hostile_rows_fire_no_script_no_request_and_no_dialog(seen: Seen, run_of: dict[str, str]) -> None:
    for place in hostile_places(run_of["<img"]):
        page = seen.go(place)
        if place.startswith("/search"):
            expect(page.locator("#search-state")).to_contain_text("found in")
        for summary in page.query_selector_all("details:not([open]) > summary"):
            summary.evaluate("one => { one.parentElement.open = true; }")
        assert seen.look() == [], place


def test_the_check_would_notice_if_the_escape_were_taken_out(
    browser: Any, runs: Runs, run_of: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = web_app.environment

    def without_escape() -> jinja2.Environment:
        made = real()
        made.autoescape, made.finalize = False, None
        return made

    monkeypatch.setattr(web_app, "environment", without_escape)
    page = Served(runs)
    try:
        tab = Seen(browser, page.base)
        for place in (f"/run/{run_of['<img']}/entry/1", f"/run/{run_of['<img']}/entry/3"):
            tab.harm.clear()
            with contextlib.suppress(playwright.Error):
                tab.go(place)
            assert tab.look() != [], place
        # Even then the policy keeps scripts from running.
        assert "a script of a record ran" not in tab.harm
        tab.close()
    finally:
        page.stop()
