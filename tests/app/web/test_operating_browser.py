"""The sliders of costs and prevalence in a real browser: at once, by keyboard, without scripts, and for everybody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import faircount
from tests.app.web.conftest import Served, opened
from tests.app.web.test_browser import NARROW, PATIENCE, WIDE, Seen, browser, expect
from tests.app.web.test_operating import written

__all__ = ["browser"]
expect.set_options(timeout=PATIENCE)
ADDRESS = "/operating-point?score=risk&prevalence=5%25&cost_miss=20"
CHEAPEST = "tr[data-guardrail='0'][data-cheapest]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("thresholds"))


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Served]:
    with opened(*sorted(folder.iterdir())) as runs:
        served = Served(runs)
        yield served
        served.stop()


@pytest.fixture
def tab(browser: Any, page: Served) -> Iterator[Any]:
    seen = Seen(browser, page.base)
    yield seen.go(ADDRESS)
    assert seen.look() == []
    seen.close()


def expected(folder: Path, prevalence: float, false_alarm: float, miss: float) -> tuple[float, float]:
    """Return the cheapest threshold of the first guardrail and what it costs, by the library."""
    found = faircount.operating_point(
        folder / "results_guard-a_attacks.jsonl",
        false_positive_checks=str(folder / "results_guard-a_benign.jsonl"),
        score="risk",
        prevalence=prevalence,
        cost_false_alarm=false_alarm,
        cost_miss=miss,
    )
    cheapest = found.guardrails[0].cheapest
    assert cheapest is not None and cheapest.cost is not None and cheapest.cost.value is not None
    assert cheapest.rates.threshold is not None
    return cheapest.rates.threshold, cheapest.cost.value


def shown(tab: Any) -> tuple[float, float]:
    cost = tab.inner_text(f"{CHEAPEST} [data-is='cost']").replace(",", "")
    return float(tab.inner_text(f"{CHEAPEST} [data-is='threshold']")), float(re.split(r"[ \[]", cost)[0])


def test_what_the_script_works_out_is_what_the_library_says(tab: Any, folder: Path) -> None:
    for name, value in (("prevalence", "0.5%"), ("cost_miss", "300"), ("cost_false_alarm", "2.5")):
        tab.fill(f"#{name}", value)
    assert shown(tab) == pytest.approx(expected(folder, 0.005, 2.5, 300), rel=1e-3)
    # The server answers with the same, at an address that can be kept.
    tab.wait_for_url("**cost_false_alarm=2.5**")
    tab.reload()
    assert shown(tab) == pytest.approx(expected(folder, 0.005, 2.5, 300), rel=1e-3)


def test_sliders_move_by_keyboard_and_say_what_they_are(tab: Any, folder: Path) -> None:
    slider = tab.get_by_role("slider", name="Cost of a missed attack")
    before = shown(tab)
    slider.focus()
    for _ in range(100):
        tab.keyboard.press("ArrowRight")
    miss = float(tab.input_value("#cost_miss"))
    assert miss == pytest.approx(200, rel=0.05)
    assert slider.get_attribute("aria-valuetext") == tab.input_value("#cost_miss")
    assert shown(tab) == pytest.approx(expected(folder, 0.05, 1, miss), rel=1e-3)
    assert shown(tab)[0] < before[0]
    expect(tab.locator("circle.cheapest")).to_have_count(2)
    tab.get_by_role("slider", name="Share of attacks").press("Home")
    assert tab.input_value("#prevalence") == "0.01%"


def test_the_figure_of_precision_follows_the_share_of_attacks(tab: Any) -> None:
    tab.fill("#prevalence", "1%")
    expect(tab.locator("figcaption >> nth=1")).to_have_text("Precision and recall, with 1% attacks")
    expect(tab.locator("circle.cheapest")).to_have_count(2)


def test_without_scripts_the_form_asks_the_server(browser: Any, page: Served, folder: Path) -> None:
    seen = Seen(browser, page.base, java_script_enabled=False)
    tab = seen.go(ADDRESS)
    assert not tab.locator("input[type=range]").first.is_visible()
    tab.fill("#cost_miss", "300")
    tab.click("button:has-text('Apply')")
    assert shown(tab) == pytest.approx(expected(folder, 0.05, 1, 300), rel=1e-3)
    seen.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_is_wrong_for_people_who_cannot_see_or_point(scheme: str, browser: Any, page: Served) -> None:
    base = pytest.importorskip("axe_playwright_python.base", reason="axe-core is not installed")
    seen = Seen(browser, page.base, color_scheme=scheme, bypass_csp=True)
    tab = seen.go(ADDRESS)
    tab.evaluate(Path(base.AXE_FILE_PATH).read_text(encoding="utf-8"))
    result = tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
    seen.close()
    serious = [one for one in result["violations"] if one["impact"] in ("serious", "critical")]
    assert [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in serious] == []


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1280", "400"])
def test_nothing_is_wider_than_the_window(size: dict[str, int], browser: Any, page: Served) -> None:
    seen = Seen(browser, page.base, viewport=size)
    tab = seen.go(ADDRESS)
    assert tab.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert seen.look() == []
    seen.close()
