"""Labelling and judges in a real browser: keys, undo, two people at once, and a server that is killed in the middle."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faircount.analysis import LabelWriter
from tests.app.web.conftest import TOKEN, Served, runs_of
from tests.app.web.test_browser import NARROW, WIDE, Seen, browser, expect
from tests.conftest import Write, encode, standard


def rows(entries: int = 60, hits: int = 15) -> list[dict[str, Any]]:
    """Return rows whose judge is wrong about every tenth, with scores."""
    generator = random.Random(4)
    found = []
    for n in range(1, entries + 1):
        true = n <= hits
        judged = true if n % 10 else not true
        score = min(
            max(generator.gauss(0.75 if judged else 0.3, 0.12), 0.5 if judged else 0.0), 1.0 if judged else 0.49
        )
        found.append(
            standard(
                n,
                success=judged,
                input=f"Say the word {n}",
                response=f"The word is CANARY {n}" if true else f"I will not say {n}",
                judge_name="model-judge",
                judge_score=round(score, 3),
                lang=("de", "en")[n % 2],
            )
        )
    return found


__all__ = ["browser"]


class Labelled:
    """A page on which labels are given, and the file that they go to."""

    def __init__(self, folder: Path, second_opinions: float = 0.0) -> None:
        (folder / "results_bot-x_data_1790000000.jsonl").write_bytes(encode(rows()))
        self.path = folder / "labels.jsonl"
        self.runs = runs_of(str(folder / "results_bot-x_data_1790000000.jsonl"))
        self.writer = LabelWriter(str(self.path))
        self.served = Served(self.runs, self.writer, second_opinions)

    def close(self) -> None:
        self.served.stop()
        self.writer.close()
        self.runs.__exit__()

    @property
    def labels(self) -> list[dict[str, Any]]:
        records = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
        taken_back = {record["retracts"] for record in records if record["kind"] == "retraction"}
        return [record for record in records if record["kind"] == "label" and record["number"] not in taken_back]


@pytest.fixture
def labelled(tmp_path: Path) -> Iterator[Labelled]:
    page = Labelled(tmp_path)
    yield page
    page.close()


class Labeller:
    """A person in front of a tab."""

    def __init__(self, browser: Any, base: str, name: str, **options: Any) -> None:
        self.seen = Seen(browser, base, **options)
        self.tab = self.seen.go("/label")
        self.tab.fill("#author", name)
        self.tab.click(".label-start button")
        self.tab.wait_for_selector("#label-title")
        self.tab.wait_for_load_state()

    @property
    def response(self) -> str:
        return str(self.tab.inner_text(".role-answer pre"))

    def press(self, key: str) -> None:
        with self.tab.expect_navigation():
            self.tab.keyboard.press(key)

    def label(self) -> str:
        """Label what is shown as it is, and return which entry that was."""
        response = self.response
        self.press("1" if "CANARY" in response else "2")
        return str(re.findall(r"\d+", response)[0])

    def close(self) -> None:
        assert self.seen.harm == []
        self.seen.close()


# -- labels ---------------------------------------------------------------------------------------------------------


def test_labels_are_given_with_keys_and_taken_back(browser: Any, labelled: Labelled) -> None:
    anna = Labeller(browser, labelled.served.base, "Anna")
    first = anna.response
    anna.press("1")
    second = anna.response
    assert second != first
    anna.press("3")
    assert [record["label"] for record in labelled.labels] == ["hit", "unclear"]
    assert anna.tab.inner_text("#saved") == "2 labels saved"
    anna.press("u")
    assert anna.response == second
    anna.press("2")
    assert [record["label"] for record in labelled.labels] == ["hit", "pass"]
    assert {record["author"] for record in labelled.labels} == {"Anna"}
    # In a note, keys are letters.
    anna.tab.keyboard.press("n")
    anna.tab.keyboard.type("1 of 2, u 3")
    assert anna.tab.input_value("#note") == "1 of 2, u 3"
    anna.tab.keyboard.press("Escape")
    anna.press("2")
    assert labelled.labels[-1]["note"] == "1 of 2, u 3"
    assert len(labelled.labels) == 3
    anna.tab.keyboard.press("?")
    assert "label: hit, pass, unclear" in anna.tab.inner_text("#help")
    anna.tab.keyboard.press("1")
    anna.tab.keyboard.press("Escape")
    assert len(labelled.labels) == 3
    anna.close()


def test_a_key_that_is_held_down_or_pressed_twice_labels_once(browser: Any, labelled: Labelled) -> None:
    anna = Labeller(browser, labelled.served.base, "Anna")
    with anna.tab.expect_navigation():
        anna.tab.evaluate(
            """() => { for (const repeat of [false, true, true, false])
                document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "1", repeat, bubbles: true })); }"""
        )
    anna.tab.wait_for_load_state()
    assert len(labelled.labels) == 1
    anna.close()


def test_the_interval_narrows_and_the_page_says_when_it_is_enough(
    browser: Any, labelled: Labelled, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The draw decides when it narrows: this one is the same each time.
    monkeypatch.setattr(random, "SystemRandom", lambda: random.Random(1))
    anna = Labeller(browser, labelled.served.base, "Anna")
    widths = []
    for number in range(30):
        anna.label()
        if number % 10 == 9:
            widths.append(
                anna.tab.evaluate("document.querySelector('#rates .fc-interval g').getBoundingClientRect().width")
            )
    assert widths[0] > widths[1] > widths[2]
    assert "You can stop" in anna.tab.inner_text(".decision")
    anna.tab.fill("#below", "28")
    anna.tab.click("#rates form button")
    expect(anna.tab.locator(".decision")).to_contain_text("Below 28%? Not known yet: about")
    anna.tab.wait_for_load_state()
    anna.label()
    assert "Below 28%?" in anna.tab.inner_text(".decision")
    anna.close()


def test_two_people_label_at_once_and_see_what_both_do(browser: Any, labelled: Labelled) -> None:
    anna, ben = (Labeller(browser, labelled.served.base, name) for name in ("Anna", "Ben"))
    done = []
    for _ in range(6):
        assert anna.response != ben.response
        done += [anna.label(), ben.label()]
    assert len(set(done)) == 12
    assert sorted({record["author"] for record in labelled.labels}) == ["Anna", "Ben"]
    ben.label()
    # What Ben has labelled comes to Anna's page by itself.
    expect(anna.tab.locator("#rates")).to_contain_text("13 of 60 entries labelled")
    anna.close()
    ben.close()


def test_people_who_differ_are_decided_between(browser: Any, tmp_path: Path) -> None:
    page = Labelled(tmp_path, second_opinions=1.0)
    anna = Labeller(browser, page.served.base, "Anna")
    anna.press("1")
    ben = Labeller(browser, page.served.base, "Ben")
    ben.press("2")
    ben.tab.click("a:has-text('1 to decide')")
    ben.tab.wait_for_selector(".opinions")
    assert re.sub(r"\s+", " ", ben.tab.inner_text(".opinions")) == "hit Anna pass Ben"
    ben.tab.click("section.attempt button[value=pass]")
    expect(ben.tab.locator("h1")).to_have_text("0 to decide")
    assert [record["label"] for record in page.labels if record.get("adjudicates")] == ["pass"]
    anna.close()
    ben.close()
    page.close()


def test_it_works_without_scripts(browser: Any, labelled: Labelled) -> None:
    anna = Labeller(browser, labelled.served.base, "Anna", java_script_enabled=False)
    for value in ("hit", "pass"):
        with anna.tab.expect_navigation():
            anna.tab.click(f"button[value={value}]")
    with anna.tab.expect_navigation():
        anna.tab.click("form[data-undo] button")
    assert [record["label"] for record in labelled.labels] == ["hit"]
    anna.tab.goto(f"{labelled.served.base}/run/{labelled.runs.all[0].id}/judges")
    with anna.tab.expect_navigation():
        anna.tab.click("form[data-threshold] button")
    assert "threshold=" in anna.tab.url
    anna.close()


def start_server(folder: Path) -> tuple[subprocess.Popen[str], str]:
    command = [
        sys.executable,
        "-m",
        "faircount",
        "view",
        ".",
        "--labels",
        "labels.jsonl",
        "--no-browser",
        "--second-opinions",
        "0",
        "--token",
        TOKEN,
    ]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    return server, server.stdout.readline().strip().partition("/?")[0]


def test_a_server_that_is_killed_loses_nothing_that_was_shown_as_saved(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "results_bot-x_data_1790000000.jsonl").write_bytes(encode(rows()))
    written: list[str] = []
    for number in range(3):
        server, base = start_server(tmp_path)
        with server:
            anna = Labeller(browser, base, "Anna")
            assert anna.tab.inner_text("#saved") == f"{len(written)} labels saved"
            saved = [*written, *(anna.label() for _ in range(4))]
            # The fifth is on its way when the server dies.
            anna.tab.evaluate("setTimeout(() => document.querySelector('[data-key=\"2\"]').click(), 0)")
            time.sleep(0.01 * number)
            server.send_signal(signal.SIGKILL)
            anna.seen.close()
        lines = (tmp_path / "labels.jsonl").read_bytes().split(b"\n")
        records = [json.loads(line) for line in lines[:-1]]
        written = [record["id"] for record in records if record["kind"] == "label"]
        assert written[: len(saved)] == saved
        assert len(written) - len(saved) in (0, 1)


# -- judges ---------------------------------------------------------------------------------------------------------


def test_the_threshold_is_moved_and_the_figures_follow(browser: Any, labelled: Labelled) -> None:
    anna = Labeller(browser, labelled.served.base, "Anna")
    for _ in range(24):
        anna.label()
    tab = anna.seen.go(f"/run/{labelled.runs.all[0].id}/judges")
    before = tab.inner_text("#judge-figures .matrix")
    tab.focus("#threshold")
    for _ in range(60):
        tab.keyboard.press("ArrowLeft")
    expect(tab.locator("#matrix-title")).to_contain_text("with the threshold")
    expect(tab.locator("#judge-figures .matrix")).not_to_have_text(before, use_inner_text=True)
    assert "threshold=0." in tab.url
    # What a script has put in is what the server gives.
    shown = tab.inner_text("#judge-figures")
    tab.reload()
    assert tab.inner_text("#judge-figures") == shown
    tab.click("text=As judged")
    tab.wait_for_url(lambda address: "threshold" not in address)
    assert tab.inner_text("#judge-figures .matrix") == before
    anna.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_fault_of_accessibility(scheme: str, browser: Any, labelled: Labelled) -> None:
    base = pytest.importorskip("axe_playwright_python.base", reason="axe-core is not installed")
    anna = Labeller(browser, labelled.served.base, "Anna", color_scheme=scheme, bypass_csp=True)
    for key in ("1", "2", "3"):
        anna.press(key)
    script, found = Path(base.AXE_FILE_PATH).read_text(encoding="utf-8"), []
    addresses = (
        "/label",
        "/label/undecided",
        f"/run/{labelled.runs.all[0].id}/judges?threshold=0.4",
        "/label?run=none",
    )
    for address in addresses:
        tab = anna.seen.go(address)
        tab.evaluate(script)
        result = tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found += [
            f"{address}: {one['id']}: {[node['html'][:200] for node in one['nodes'][:3]]}"
            for one in result["violations"]
            if one["impact"] in ("serious", "critical")
        ]
    anna.seen.close()
    assert found == []


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1280", "400"])
def test_nothing_is_wider_than_the_window(size: dict[str, int], browser: Any, labelled: Labelled) -> None:
    anna = Labeller(browser, labelled.served.base, "Anna", viewport=size)
    anna.press("3")
    for address in ("/label", "/label/undecided", f"/run/{labelled.runs.all[0].id}/judges"):
        tab = anna.seen.go(address)
        assert tab.evaluate("document.documentElement.scrollWidth") <= size["width"], address
    anna.close()


def test_hostile_answers_do_nothing_to_who_labels_them(browser: Any, runs: Any, tmp_path: Path) -> None:
    hostile = next(run for run in runs.all if "<img" in run.path)
    writer = LabelWriter(str(tmp_path / "labels.jsonl"))
    page = Served(runs, writer)
    seen = Seen(browser, page.base)
    tab = seen.go(f"/label?run={hostile.id}")
    tab.fill("#author", "<img src=x onerror=window.ran=1>")
    tab.click(".label-start button")
    tab.wait_for_selector("#label-title")
    tab.wait_for_load_state()
    for _ in range(20):
        assert seen.look() == []
        with tab.expect_navigation():
            tab.keyboard.press("3")
    for address in (f"/label/undecided?run={hostile.id}", f"/run/{hostile.id}/judges"):
        seen.go(address)
        assert seen.look() == []
    seen.close()
    page.stop()
    writer.close()


def test_two_servers_on_one_file_share_the_work(browser: Any, write: Write, tmp_path: Path) -> None:
    write(rows(), "results_bot-x_data_1790000000.jsonl")
    servers = [start_server(tmp_path) for _ in range(2)]
    try:
        people = [Labeller(browser, base, name) for (_, base), name in zip(servers, ("Anna", "Ben"), strict=True)]
        done = [person.label() for _ in range(5) for person in people]
        assert len(set(done)) == 10
        for person in people:
            person.close()
    finally:
        for server, _ in servers:
            with server:
                server.kill()
    records = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    assert [record["number"] for record in records[1:]] == list(range(1, len(records)))
    assert len({record["id"] for record in records if record["kind"] == "label"}) == 10
