"""An export: every link leads somewhere, redacted it holds no text, and whatever was changed in it is found."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from faircount import InputError, UsageError, export_view, verify
from tests.app.web.conftest import hostile_rows
from tests.conftest import ROOT, encode, standard

CANARY = "zebra quartz umbrella vortex <b>& the ninth lantern"
"""A text that only a record has."""
A, B = "results_bot-a_1790000000.jsonl", "results_bot-b_1790000001.jsonl"


def secret_rows(seed: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for number in range(40):
        success = (number * 7 + seed) % 3 == 0
        rows.append(
            standard(
                f"{number}",
                success=success,
                input=f"{CANARY} prompt {number}",
                response=f"{CANARY} response {number}",
                system_message=f"{CANARY} system",
                judge_reason=f"{CANARY} reason",
                judge_args=f"{CANARY} args",
                payload=f"{CANARY} payload",
                notes=f"{CANARY} notes",
                lang="de" if number % 2 else "en",
                plugin=["plain", "base64"][number % 2],
                weight=["10", "0.2", "0.15"][number % 3],
            )
        )
    rows.append(standard("failed", success=False, response="", error=f"{CANARY} error"))
    rows.append(
        standard("e503" + "-long" * 20, success=False, response="", error=f"HTTP 503 upstream timeout ({CANARY})")
    )
    return rows


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    for seed, name in enumerate((A, B)):
        (folder / name).write_bytes(encode(secret_rows(seed)))
    (folder / "results_<img src=x onerror=window.ran=1>_1790000002.jsonl").write_bytes(encode(hostile_rows()))
    return folder


@pytest.fixture(scope="module")
def exported(results: Path) -> Path:
    export_view(results / "whole", *sorted(results.glob("*.jsonl")))
    return results / "whole"


@pytest.fixture(scope="module")
def redacted(results: Path) -> Path:
    export_view(results / "redacted", results / A, results / B, redact=True)
    return results / "redacted"


def run_of(folder: Path, name: str) -> str:
    """Return the id of the run whose file has a name."""
    sources = json.loads((folder / "manifest.json").read_text())["sources"]
    return str(next(one["id"] for one in sources if name in one["name"]))


def pages(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.rglob("*.html")):
        yield path, path.read_text("utf-8")


def test_every_link_leads_to_a_file_of_the_export(exported: Path) -> None:
    seen = 0
    for path, text in pages(exported):
        for link in re.findall(r'<(?:a|link)\b[^>]*\shref="([^"]*)"', text):
            file, _, place = unescape(link).partition("#")
            target = path if not file else path.parent / unquote(file)
            assert target.resolve().is_relative_to(exported), link
            assert target.is_file(), f"{path}: {link}"
            line = re.fullmatch(r"line=(\d+)", place)
            if line is not None:
                assert f'"line":{line[1]},' in target.read_text("utf-8")
            seen += 1
    assert seen > 200


def test_a_page_names_its_script_by_hash_and_loads_nothing_else(exported: Path) -> None:
    for path, text in pages(exported):
        assert re.search(r"script-src &#39;sha256-[\w+/=]+&#39;; style-src", text), path
        assert re.findall(r"<script(?! type=\"application/json\")[^>]*>", text) == ["<script>"], path
        assert not re.search(r'\s(?:src|action|formaction|srcset)="', text), path


def test_a_run_has_a_page_its_entries_and_the_comparison_with_the_others(exported: Path) -> None:
    manifest = json.loads((exported / "manifest.json").read_text())
    a, b = (one["id"] for one in manifest["sources"] if "bot-" in one["name"])
    for name in (f"runs/{a}.html", f"runs/{a}-entries.html", f"entries/{a}-0001.html", f"pairs/{b}-vs-{a}.html"):
        assert (exported / name).is_file()
    assert (exported / f"figures/{b}-vs-{a}.json").is_file()


def spellings(text: str) -> set[str]:
    words = {text, json.dumps(text)[1:-1], escape(text), escape(escape(text)), quote(text), text.replace(" ", "+")}
    words |= {text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")}
    # Wherever in a group of three the text begins.
    words |= {base64.b64encode(b" " * at + text.encode())[4:-4].decode() for at in range(3)}
    return words | {one.upper() for one in words} | {one.lower() for one in words}


@pytest.mark.parametrize("part", [CANARY, "zebra quartz", "umbrella vortex", "ninth lantern", "umbrella"])
def test_without_texts_no_byte_of_them_is_anywhere(redacted: Path, exported: Path, part: str) -> None:
    wanted = {one.encode() for one in spellings(part)}
    for path in redacted.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert not [one for one in wanted if one in content or one in str(path).encode()], path
    assert any(part.split()[0].encode() in path.read_bytes() for path in exported.rglob("*.html"))


def test_without_texts_a_short_text_is_withheld_as_well(tmp_path: Path) -> None:
    texts = {"system_message": "Be Oberon", "judge_reason": "leaks Titania", "goal": "find Puck"}
    rows = [standard(f"{number}", success=number % 2 > 0, plugin="a b", **texts) for number in range(8)]
    rows.append(standard("failed", success=False, response="", error="HTTP 503: Lysander"))
    (tmp_path / A).write_bytes(encode(rows))
    export_view(tmp_path / "redacted", tmp_path / A, redact=True)
    written = "".join(path.read_text("utf-8") for path in sorted((tmp_path / "redacted").rglob("*.*")))
    assert not [word for word in ("Oberon", "Titania", "Puck", "Lysander") if word in written]
    assert '"a b"' in written and "(withheld 1)" in written
    assert verify(tmp_path / "redacted", tmp_path / A).differences == ()


def test_without_texts_a_run_of_tests_keeps_what_its_metrics_said_to_itself(tmp_path: Path) -> None:
    journal = ROOT / "tests" / "data" / "journals" / "tests.jsonl"
    text = re.sub(r'("(?:reason|error|output|content)":)"[^"]+"', rf'\1"{CANARY}"', journal.read_text("utf-8"))
    (tmp_path / "tests.jsonl").write_text(text, "utf-8")
    export_view(tmp_path / "whole", tmp_path / "tests.jsonl")
    export_view(tmp_path / "redacted", tmp_path / "tests.jsonl", redact=True)
    holding = {
        folder: [path for path in (tmp_path / folder / "figures").iterdir() if "umbrella vortex" in path.read_text()]
        for folder in ("whole", "redacted")
    }
    assert holding["whole"] and not holding["redacted"]
    assert not [path for path in (tmp_path / "redacted").rglob("*.html") if "umbrella" in path.read_text("utf-8")]


@pytest.mark.parametrize("redact", [False, True])
def test_a_file_that_cannot_be_read_does_not_stop_the_others(results: Path, tmp_path: Path, *, redact: bool) -> None:
    (tmp_path / "broken.jsonl").write_text(f"{CANARY}\n", "utf-8")
    manifest = export_view(tmp_path / "folder", tmp_path / "broken.jsonl", results / A, redact=redact)
    assert manifest.figures and "broken" in (tmp_path / "folder" / "index.html").read_text("utf-8")
    assert not verify(tmp_path / "folder", tmp_path / "broken.jsonl", results / A).differences


def test_without_texts_every_figure_is_there(redacted: Path, results: Path, tmp_path: Path) -> None:
    whole = export_view(tmp_path / "whole", results / A, results / B)
    assert json.loads((redacted / "manifest.json").read_text())["figures"] == whole.figures


def test_an_export_of_the_same_files_is_verified_wherever_they_are(
    exported: Path, results: Path, tmp_path: Path
) -> None:
    copies = [
        shutil.copy(path, tmp_path / f"results_{number}.jsonl")
        for number, path in enumerate(sorted(results.glob("*.jsonl")))
    ]
    found = verify(exported, *copies)
    assert (found.differences, found.byte_for_byte) == ((), True)
    assert found.figures > 1000


@pytest.mark.parametrize("names", [("x/results/r.jsonl", "y/results/r.jsonl"), ("../r.jsonl", "r.jsonl")])
def test_files_of_one_name_in_several_folders_are_verified_from_elsewhere(
    names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here := tmp_path / "here").mkdir()
    monkeypatch.chdir(here)
    for seed, name in enumerate(names):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(encode(secret_rows(seed)))
    export_view("export", *names)
    monkeypatch.chdir(tmp_path)
    assert verify("here/export", *(Path("here", name).resolve() for name in names)).differences == ()
    assert Path.cwd() == tmp_path


@pytest.mark.parametrize(
    "names",
    [("a\0b", "b"), ("x" * 5000, "b"), ("a/" * 2000, "b"), ("same", "same"), ("a/..", "b"), ("a", "a/b"), (".", "b")],
)
def test_names_that_no_file_can_have_are_refused_and_make_nothing(
    names: tuple[str, str], redacted: Path, results: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(redacted, tmp_path / "copy")
    manifest = json.loads((copy / "manifest.json").read_text())
    for source, name in zip(manifest["sources"], names, strict=True):
        source["name"] = name
    (copy / "manifest.json").write_text(json.dumps(manifest))
    before = sorted(results.iterdir())
    with pytest.raises(InputError, match="name of a result file cannot be used"):
        verify(copy, results / A, results / B)
    assert sorted(results.iterdir()) == before


@pytest.mark.parametrize("name", ["/../../../evil", "a/../../../../evil", "../../../evil"])
def test_a_name_does_not_lead_out_of_the_folder_of_copies(
    name: str, redacted: Path, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (deep := tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    manifest = json.loads((redacted / "manifest.json").read_text())
    manifest["sources"][0]["name"] = name
    (copy := Path(shutil.copytree(redacted, tmp_path / "copy")) / "manifest.json").write_text(json.dumps(manifest))
    assert verify(copy.parent, results / A, results / B).differences
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_symlink() or path.name == "evil") == []


def test_what_was_changed_is_found(redacted: Path, results: Path, tmp_path: Path) -> None:
    def changed(*replacements: tuple[str, str, str]) -> list[str]:
        copy = tmp_path / str(len(list(tmp_path.iterdir())))
        shutil.copytree(redacted, copy)
        for name, before, after in replacements:
            content = (copy / name).read_text("utf-8")
            assert before in content
            (copy / name).write_text(content.replace(before, after, 1), "utf-8")
        return list(verify(copy, results / A, results / B).differences)

    manifest = json.loads((redacted / "manifest.json").read_text())
    run = manifest["sources"][0]["id"]
    page, document = f"runs/{run}.html", f"figures/{run}.json"
    rate = re.findall(r'headline-rate">([\d.]+%)', (redacted / page).read_text("utf-8"))[0]
    (said, *_) = changed((page, f'headline-rate">{rate}', 'headline-rate">1%'))
    assert said == f"{page}: was changed after it was written"

    # Whoever renews the manifest as well does not get away with it: figures and pages are made again.
    total = changed((document, '"total": 42', '"total": 43'))
    assert f"{document}: was changed after it was written" in total
    assert any(one.startswith(document) and "entries.total is 43, and should be 42" in one for one in total)
    other = changed(("manifest.json", '"command": "', '"command": "rm '))
    assert any("should be" in one for one in other)


@pytest.mark.parametrize(
    "change",
    [
        {"options": {"level": 0.9}},
        {"approved_by": "someone"},
        {"figures": 3},
        {"sources": {"sha256": "0" * 64}},
        {"sources": {"size": 5}},
        {"sources": {"tool": "other"}},
    ],
)
def test_what_was_changed_in_the_manifest_is_found(
    change: dict[str, Any], redacted: Path, results: Path, tmp_path: Path
) -> None:
    """Also where pages and their digests are changed with it."""
    copy = shutil.copytree(redacted, tmp_path / "copy")
    manifest = json.loads((copy / "manifest.json").read_text())
    if "sources" in change:
        source = manifest["sources"][0]
        (name, value) = next(iter(change["sources"].items()))
        for path in copy.rglob("*.html"):
            path.write_text(path.read_text("utf-8").replace(str(source[name]), str(value)), "utf-8")
            content = path.read_bytes()
            known = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            manifest["files"][path.relative_to(copy).as_posix()] = known
        source[name] = value
    else:
        manifest |= change
    (copy / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    assert verify(copy, results / A, results / B).differences


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"options": {"max_line": "x"}}, "Expected `int`"),
        ({"options": {"max_line": -5}}, "1 or more"),
        ({"sources": [{"date": "soon"}]}, "isoformat"),
    ],
)
def test_a_manifest_that_cannot_be_one_is_refused(
    change: dict[str, Any], said: str, redacted: Path, results: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(redacted, tmp_path / "copy")
    manifest = json.loads((copy / "manifest.json").read_text())
    if "sources" in change:
        change = {"sources": [manifest["sources"][0] | change["sources"][0]]}
    (copy / "manifest.json").write_text(json.dumps(manifest | change))
    with pytest.raises(InputError, match=said):
        verify(copy, results / A, results / B)


@pytest.mark.parametrize("content", ["{", "[" * 100_000])
def test_a_document_that_is_not_json_is_a_difference(
    content: str, redacted: Path, results: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(redacted, tmp_path / "copy")
    (path := next((copy / "figures").iterdir())).write_text(content)
    found = verify(copy, results / A, results / B).differences
    assert any(path.name in one and "is not JSON" in one for one in found)


def test_runs_that_cannot_be_compared_are_exported_without_their_comparison(results: Path, tmp_path: Path) -> None:
    tests = ROOT / "docs" / "samples" / "lm_eval.jsonl"
    made = export_view(tmp_path / "mixed", results / A, results / B, tests)
    assert len(made.sources) == 3
    names = {path.stem for path in (tmp_path / "mixed" / "pairs").glob("*.html") if path.stem.count("-") == 2}
    assert len(names) == 1
    assert verify(tmp_path / "mixed", results / A, results / B, tests).differences == ()


def test_a_missing_and_an_added_file_are_found(redacted: Path, results: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(redacted, tmp_path / "copy")
    (copy / "icon.svg").unlink()
    (copy / "more.html").write_text("<p>more</p>")
    found = verify(copy, results / A, results / B).differences
    assert "icon.svg: is missing" in found
    assert "more.html: is not part of the export" in found


def test_verifying_needs_result_files(redacted: Path) -> None:
    with pytest.raises(UsageError, match="no result file given"):
        verify(redacted)


def test_a_changed_result_file_is_found(redacted: Path, results: Path, tmp_path: Path) -> None:
    other = tmp_path / A
    other.write_bytes((results / A).read_bytes().replace(b'"success": true', b'"success": false', 1))
    found = verify(redacted, other, results / B)
    assert any(A in one and "no file given has its content" in one for one in found.differences)
    assert "not recomputed" in found.notes[0]


def test_of_another_version_only_figures_are_compared(redacted: Path, results: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(redacted, tmp_path / "copy")
    manifest = json.loads((copy / "manifest.json").read_text()) | {"faircount": "0.0.1"}
    (copy / "manifest.json").write_text(json.dumps(manifest))
    found = verify(copy, results / A, results / B)
    assert (found.differences, found.byte_for_byte) == ((), False)
    assert "written by Faircount 0.0.1" in found.notes[0]
    (copy / "figures" / "more.json").write_text('{"rate": 0.5}')
    assert "figures/more.json: should not be there" in verify(copy, results / A, results / B).differences


def test_a_folder_that_is_no_export_stays_as_it_is(results: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="other files"):
        export_view(tmp_path / "mine", results / A, force=True)
    # As a web application has one.
    (tmp_path / "mine" / "manifest.json").write_text('{"name": "app", "icons": []}')
    with pytest.raises(UsageError, match="other files"):
        export_view(tmp_path / "mine", results / A, force=True)
    (tmp_path / "mine" / "manifest.json").unlink()
    with pytest.raises(UsageError, match="does not work"):
        export_view(tmp_path / "new", results / A, labels="labels.jsonl")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["mine"]
    assert [one.name for one in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_an_export_is_replaced_unless_somebody_put_something_into_it(
    redacted: Path, results: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(redacted, tmp_path / "copy")
    assert len(export_view(copy, results / A, force=True).sources) == 1
    (copy / "runs" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="other files"):
        export_view(copy, results / A, force=True)
    assert (copy / "runs" / "notes.txt").read_text() == "mine"


# -- in a browser -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tab() -> Iterator[Any]:
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(20_000)
        page.harm = []
        page.on("dialog", lambda dialog: page.harm.append(dialog.message) or dialog.dismiss())
        page.on("pageerror", lambda error: page.harm.append(str(error)))
        page.on("console", lambda said: page.harm.append(said.text) if said.type in ("error", "warning") else None)
        page.on("request", lambda one: None if one.url.startswith("file://") else page.harm.append(one.url))
        yield page
        browser.close()


def test_lists_are_searched_filtered_and_sorted_from_the_disk(tab: Any, exported: Path) -> None:
    expect = pytest.importorskip("playwright.sync_api").expect
    run = run_of(exported, A)
    tab.goto(f"file://{exported}/against.html")
    assert tab.get_by_text("Dataset", exact=True).evaluate("one => getComputedStyle(one).overflowWrap") != "anywhere"
    tab.goto(f"file://{exported}/runs/{run}-entries.html#f.lang=de")
    assert tab.locator(".count strong").inner_text() == "20"
    tab.locator("#words").fill("prompt 13")
    expect(tab.locator(".count strong")).to_have_text("1")
    for sort, first in (("weight", "2"), ("-weight", "failed")):
        tab.goto(f"file://{exported}/runs/{run}-entries.html#sort={sort}")
        expect(tab.locator("tbody .row-link").first).to_have_text(first)
    tab.goto(f"file://{exported}/runs/{run}-entries.html#sort=-id")
    expect(tab.locator("tbody .row-link").first).to_have_text("failed")
    tab.locator("thead a", has_text="Id").click()
    expect(tab.locator("tbody .row-link").first).to_have_text("0")
    tab.keyboard.press("j")
    tab.keyboard.press("Enter")
    expect(tab).to_have_title(re.compile("Entry 0"))
    assert CANARY in tab.locator(".pane.text").inner_text()
    tab.keyboard.press("j")
    expect(tab).to_have_title(re.compile("Entry 1"))
    assert tab.harm == []


def test_a_comparison_of_all_runs_can_be_read_from_the_disk(tab: Any, tmp_path: Path) -> None:
    for number, name in enumerate("abc"):
        rows = [standard(f"{at}", success=at % 6 < 2 * number, input=f"prompt {at}") for at in range(240)]
        (tmp_path / f"results_bot-{name}_1790000000.jsonl").write_bytes(encode(rows))
    export_view(tmp_path / "export", *sorted(tmp_path.glob("*.jsonl")))
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.goto(f"file://{tmp_path}/export/compare.html")
    kinds = tab.locator('[aria-label="Kinds of entries"] .chip')
    assert kinds.count() > 1
    # No word is broken: there are two, and at most two lines.
    assert tab.locator("td.claim strong").first.evaluate("one => one.getClientRects().length") <= 2
    assert tab.locator("thead .sort").first.evaluate("one => getComputedStyle(one).borderTopWidth") == "0px"
    assert tab.harm == []


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_entries_do_nothing_in_an_export(tab: Any, exported: Path, width: int) -> None:
    tab.set_viewport_size({"width": width, "height": 800})
    run = run_of(exported, "<img")
    lines = [
        int(line) for line in re.findall(r'"line":(\d+),"id"', (exported / f"entries/{run}-0001.html").read_text())
    ]
    places = [f"runs/{run}.html", f"runs/{run}-entries.html", "index.html", "about.html"]
    for place in (*places, *(f"entries/{run}-0001.html#line={line}" for line in lines[:8])):
        tab.goto(f"file://{exported}/{place}")
        assert tab.evaluate("window.ran") is None
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
    tab.goto(f"file://{exported}/runs/{run_of(exported, A)}-entries.html#q=long")
    assert tab.locator("tbody th").count() == 1
    assert tab.locator("tbody th").evaluate("one => one.scrollWidth <= one.clientWidth"), "over the next column"
    assert tab.harm == []
