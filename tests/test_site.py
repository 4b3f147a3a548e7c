"""The site of the documentation has every page, loads nothing from elsewhere, and is not built with a broken link.

The tests that build it need `.venv-docs`, which `make docs` makes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from tools import site

from tests.conftest import ROOT, some

DOCS = ROOT / "docs"
MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"
LOADING = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("image", "href")}
"""What makes a browser load something; other links of `link` are none."""


def build(*words: str) -> subprocess.CompletedProcess[str]:
    if not MKDOCS.exists():
        pytest.skip("MkDocs is not here: `make docs` installs it")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run([MKDOCS, "build", *words], cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build("--strict", "--site-dir", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Elements(HTMLParser):
    """Collects the elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


def leaves(navigation: Any) -> Iterator[str]:
    if isinstance(navigation, str):
        yield navigation
    else:
        for part in navigation.values() if isinstance(navigation, dict) else navigation:
            yield from leaves(part)


# --- navigation -----------------------------------------------------------------------------------------------------


def test_every_page_is_in_the_navigation_once() -> None:
    wanted = {*site.COPIED, *(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))}
    wanted |= {path.relative_to(DOCS).with_suffix(".md").as_posix() for path in DOCS.rglob("*.ipynb")}
    assert Counter(leaves(site.navigation(DOCS))) == Counter(wanted)


def test_a_section_has_the_order_of_the_start_page_and_then_what_it_does_not_link(tmp_path: Path) -> None:
    for name in (
        "start",
        "guides/a",
        "guides/b",
        "guides/new",
        "reference/formats/x",
        "reference/cli",
        "findings",
        "inside",
    ):
        page = tmp_path / f"{name}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("# A page", encoding="utf-8")
    links = "[b](guides/b.md#part) [a](guides/a.md) [b](guides/b.md) [CLI](reference/cli.md) [gone](guides/gone.md)"
    (tmp_path / "index.md").write_text(links, encoding="utf-8")
    assert site.navigation(tmp_path, ["CHANGELOG.md"]) == [
        {"Start": ["index.md", "start.md"]},
        {"Guides": ["guides/b.md", "guides/a.md", "guides/new.md"]},
        {"Reference": ["reference/cli.md", "findings.md", {"Formats": ["reference/formats/x.md"]}]},
        {"Project": ["inside.md", "CHANGELOG.md"]},
    ]


# --- text -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "link", "changed"),
    [
        ("docs/guides/ci.md", "../concepts/gates.md#errors", "../concepts/gates.md#errors"),
        ("docs/guides/ci.md", "../../CHANGELOG.md", "../CHANGELOG.md"),
        ("docs/guides/ci.md", "../../action.yml", "https://host/we/it/blob/main/action.yml"),
        ("docs/guides/ci.md", "../samples", "https://host/we/it/blob/main/docs/samples"),
        ("docs/guides/notebooks.md", "../notebooks/results.ipynb", "../notebooks/results.md"),
        ("CONTRIBUTING.md", "docs/architecture.md#packages", "architecture.md#packages"),
        ("CONTRIBUTING.md", "CHANGELOG.md", "CHANGELOG.md"),
        ("CONTRIBUTING.md", "LICENSE", "https://host/we/it/blob/main/LICENSE"),
        ("CONTRIBUTING.md", "#here", "#here"),
        ("docs/index.md", "https://example.org/x.md", "https://example.org/x.md"),
        ("docs/index.md", "mailto:someone@example.org", "mailto:someone@example.org"),
    ],
)
def test_a_link_leads_to_the_same_thing_on_the_site(source: str, link: str, changed: str) -> None:
    assert site.relinked(f"see [it]({link}).", source, "https://host/we/it") == f"see [it]({changed})."


@pytest.mark.parametrize("link", ["../../action.yml", "../samples"])
def test_a_link_out_of_the_site_is_its_text_where_the_address_of_the_repository_is_unknown(link: str) -> None:
    assert site.relinked(f"see [it]({link}).", "docs/guides/ci.md", "") == "see it."


def test_a_link_in_a_block_of_code_stays() -> None:
    block = "```markdown\n[it](LICENSE)\n```"
    assert site.relinked(block, "CONTRIBUTING.md", "https://host/we/it") == block


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Errors and unjudged entries", "errors-and-unjudged-entries"),
        ("F1 of a detector, as_is", "f1-of-a-detector-as_is"),
        ("What is – and what is not", "what-is--and-what-is-not"),
        ("Naïve intervals (95%)", "naïve-intervals-95"),
    ],
)
def test_anchors_are_those_of_github(heading: str, anchor: str) -> None:
    assert site.slug(heading, "-") == anchor


def test_the_page_of_a_notebook_has_its_outputs() -> None:
    (path,) = DOCS.rglob("*.ipynb")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    page = site.notebook_page(path.read_text(encoding="utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    assert page.count('class="output"') == len(some(outputs))
    for cell in notebook["cells"]:
        assert "".join(cell["source"]) in page


def test_outputs_of_a_notebook_cannot_be_markup_of_the_page() -> None:
    output = {"output_type": "stream", "text": ["a\n", "\n", "<b>```\n"]}
    cell = {"cell_type": "code", "source": ["1"], "outputs": [output]}
    page = site.notebook_page(json.dumps({"cells": [cell]}))
    assert '<pre class="output"><code>a\n\n&lt;b&gt;```</code></pre>' in page


# --- the built site -------------------------------------------------------------------------------------------------


def test_the_site_has_every_page_and_a_search(built: Path) -> None:
    for page in leaves(site.navigation(DOCS)):
        assert (built / page).with_suffix(".html").exists(), page
    found = json.loads((built / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    assert any("--fail-on" in section["text"] for section in found)
    assert {section["location"].partition("#")[0] for section in found} >= {
        page.replace(".md", ".html") for page in leaves(site.navigation(DOCS))
    }


def test_the_site_loads_nothing_from_elsewhere(built: Path) -> None:
    for page in some(built.rglob("*.html")):
        for tag, attributes in Elements(page.read_text(encoding="utf-8")).found:
            for name, value in attributes.items():
                leads_out = re.match(r"\s*(https?:)?//", value)
                is_a_link = tag == "link" and not re.search(
                    "stylesheet|icon|preload|preconnect", attributes.get("rel", "")
                )
                assert not ((tag, name) in LOADING and leads_out and not is_a_link), f"{page.name}: {tag} {value}"
                assert not (name == "style" and "url(" in value), f"{page.name}: {value}"
    for sheet in some(built.rglob("*.css")):
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"url\(\s*[\"']?(https?:)?//|@import", text), sheet.name


def test_the_site_shows_what_the_pages_show(built: Path) -> None:
    """Blocks, tables, list items and pictures are as many as by the rules of CommonMark, which GitHub follows."""
    parser = MarkdownIt("commonmark").enable("table")
    kinds = ("pre", "table", "tr", "li", "img", "h2", "h3")
    for page in some(DOCS.rglob("*.md")):
        wanted = Counter(tag for tag, _ in Elements(parser.render(page.read_text(encoding="utf-8"))).found)
        text = (built / page.relative_to(DOCS)).with_suffix(".html").read_text(encoding="utf-8")
        article = text.split("<article", 1)[1].split("</article>")[0]
        real = Counter(tag for tag, _ in Elements(article).found)
        assert {kind: real[kind] for kind in kinds} == {kind: wanted[kind] for kind in kinds}, page


def test_tables_in_outputs_of_a_notebook_have_their_headers_above_their_columns(built: Path) -> None:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"file://{built}/notebooks/results.html")
        tables = page.eval_on_selector_all(
            "article .output table.grid",
            """tables => tables.map(table => [table.tHead.rows[0], table.tBodies[0].rows[0]].map(row =>
                [...row.cells].map(cell => Math.round(cell.getBoundingClientRect().right))))""",
        )
    for heads, cells in some(tables):
        assert heads == cells


def test_the_search_finds_an_option_as_it_is_typed_in_a_terminal(built: Path) -> None:
    handler = partial(SimpleHTTPRequestHandler, directory=str(built))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, chromium() as browser:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        page.fill(".md-search__input", "")
        page.type(".md-search__input", "--judge-quality")
        page.wait_for_selector(".md-search-result__item a[href*='trust.html']")
        server.shutdown()


def test_the_output_of_commands_fits_on_a_laptop(built: Path) -> None:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"file://{built}/guides/compare.html")
        blocks = page.eval_on_selector_all("pre > code", "all => all.map(code => code.scrollWidth - code.clientWidth)")
        assert max(blocks) == 0


def test_commands_and_their_output_are_highlighted(built: Path) -> None:
    page = (built / "start.html").read_text(encoding="utf-8")
    assert '<span class="gp">$ </span>' in page


def test_a_broken_link_or_anchor_fails_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "start.md").write_text("# Start\n", encoding="utf-8")
    (docs / "index.md").write_text("# Home\n\n[a](start.md) [b](gone.md) [c](start.md#gone)\n", encoding="utf-8")
    config = tmp_path / "mkdocs.yml"
    lines = [f"INHERIT: {ROOT / 'mkdocs.yml'}", f"docs_dir: {docs}", f"hooks: [{ROOT / 'tools' / 'site.py'}]"]
    config.write_text("\n".join(lines), encoding="utf-8")
    done = build("--config-file", str(config), "--site-dir", str(tmp_path / "site"))
    assert done.returncode == 1
    assert "'gone.md'" in done.stderr and "'#gone'" in done.stderr
