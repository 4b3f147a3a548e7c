"""The documentation cannot rot: its commands run, its output is true, and nothing users meet is missing from it."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tools import cli_reference, findings_page, statistics_reference

import faircount
from faircount import stats
from faircount.app.cli import main
from faircount.app.cli.commands import build_in_full
from faircount.core import REGISTER, explanations
from faircount.readers import FOLDER_VARIABLE
from tests.conftest import some
from tests.console_blocks import Shown, matches, shown_commands

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
ANY_SAMPLE = "faircount-demo/results_bot-mid_sample_1790000000.jsonl"
PAGES_WITH_COMMANDS = [page for page in PAGES if list(shown_commands(page))]


def run(shown: Shown, folder: Path) -> list[str]:
    words = shlex.split(shown.command)
    pipe_to = None
    if "|" in words:
        pipe_to, words = words[words.index("|") + 1 :], words[: words.index("|")]
    assert words[0] == "faircount", f"only faircount is run from the documentation: {shown.command}"
    code, out, err = run_here(words[1:], folder)
    assert code in (0, 1, 2, 3, 4), err
    if pipe_to is not None:
        assert pipe_to[0] == "head"
        return out.splitlines()[: int(pipe_to[-1])]
    return (out + err).splitlines()


def run_here(words: list[str], folder: Path) -> tuple[int, str, str]:
    """Run a command in this process, which has everything imported, as a new one in the folder would."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="\n", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        for name, value in {"PATH": "", "COLUMNS": "100", "HOME": str(folder)}.items():
            patch.setenv(name, value)
        patch.delenv(FOLDER_VARIABLE, raising=False)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(words)
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else 1
    return code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    run(Shown("faircount demo", ()), folder)
    shutil.copytree(DOCS / "samples", folder / "docs" / "samples")
    return folder


@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_print_what_the_page_shows(page: Path, sample: Path) -> None:
    for shown in some(shown_commands(page)):
        real = run(shown, sample)
        if shown.output:
            assert matches(shown.output, real), f"{shown.command}\nreally prints:\n" + "\n".join(real)


def test_the_readme_shows_commands() -> None:
    assert ROOT / "README.md" in PAGES_WITH_COMMANDS


def test_command_line_reference_is_up_to_date() -> None:
    assert cli_reference.PAGE.read_text(encoding="utf-8") == cli_reference.page()


def test_statistics_reference_is_up_to_date_and_complete() -> None:
    text = statistics_reference.PAGE.read_text(encoding="utf-8")
    assert text == statistics_reference.page()
    assert all(f"\n- `{name}`: " in text for name in dir(stats))


def explained(page: str) -> dict[str, str]:
    """Return the options of the tables in a part of the reference, each with its help."""
    rows = re.findall(r"^\| (`-.*?`) \| (.*) \|$", page, re.MULTILINE)
    return {flag: meaning for words, meaning in rows for flag in re.findall(r"`(--?[\w-]+)", words)}


def test_every_option_is_in_the_reference_with_a_help_text() -> None:
    """Below its command, or in a shared table to which the command links: to all of it, or to the options it names."""
    headings = re.split(r"^#{2,3} (.*)\n", cli_reference.PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    parts = dict(zip(headings[1::2], headings[2::2], strict=True))
    tables = {title.lower().replace(" ", "-"): explained(text) for title, text in parts.items()}
    for parser in some(cli_reference.commands(build_in_full())):
        part = parts.get(parser.prog, "")
        helps = explained(part)
        for name, listed in re.findall(r"\]\(#([\w-]+)\)(?: \((.*?)\))?", part):
            chosen = re.findall(r"`(.*?)`", listed) or list(tables[name])
            helps |= {flag: tables[name][flag] for flag in chosen if flag in tables[name]}
        for action in parser._actions:
            names = [flag for flag in action.option_strings if flag not in ("-h", "--help")]
            if action.help == argparse.SUPPRESS:  # spikee's options: refused with a hint, or without an effect
                assert isinstance(action.const, str) or names == ["--no-auto-resume"], f"{parser.prog} {names}"
            elif names:
                meanings = [helps[flag] for flag in names if flag in helps]
                assert meanings, f"{parser.prog} {names}"
                assert all(len(meaning.split()) > 1 for meaning in meanings), f"{parser.prog} {names}: {meanings}"


def test_every_command_is_named_in_a_page_that_people_write() -> None:
    prose = "\n".join(page.read_text(encoding="utf-8") for page in PAGES if page != cli_reference.PAGE)
    for parser in some(cli_reference.commands(build_in_full())):
        if parser.get_default("run") is not None:
            assert parser.prog in prose, parser.prog


def test_the_readme_is_short_and_shows_a_picture_early() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert any(line.startswith("![") for line in lines[:15])


def test_the_page_of_findings_is_up_to_date() -> None:
    assert findings_page.PAGE.read_text(encoding="utf-8") == findings_page.page(), "run python -m tools.findings_page"


def test_every_finding_is_explained_with_cause_effect_and_remedy() -> None:
    assert list(explanations()) == list(REGISTER)
    for code, explanation in explanations().items():
        for text in (explanation.cause, explanation.effect, explanation.remedy):
            assert len(text.split()) >= 3 and text[0] == text[0].upper() and text.endswith("."), (code, text)


def test_every_finding_has_a_heading_that_links_can_name() -> None:
    text = findings_page.PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == list(REGISTER)
    for code, kind in REGISTER.items():
        assert f"\n## {code}\n\n**{kind.title[0].upper()}{kind.title[1:]}** ({kind.severity.value})\n" in text


EXAMPLES = tomllib.loads((ROOT / "tests" / "data" / "finding_examples.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("code", EXAMPLES)
def test_rows_raise_the_finding_of_the_example(code: str, tmp_path: Path) -> None:
    (tmp_path / "results_example.jsonl").write_text(EXAMPLES[code]["rows"], encoding="utf-8")
    printed = "\n".join(run(Shown("faircount results analyze results_example.jsonl", ()), tmp_path))
    assert code in EXAMPLES[code]["printed"]
    assert EXAMPLES[code]["printed"].rstrip() in printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_public_name_is_in_the_library_reference() -> None:
    page = (DOCS / "reference" / "library.md").read_text(encoding="utf-8")
    assert [name for name in dir(faircount) if f"| `{name}" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_examples_run(page: Path, sample: Path) -> None:
    document = "\n".join(run(Shown(f"faircount results analyze {ANY_SAMPLE} --output-format json", ()), sample))
    (sample / "analysis.json").write_text(document, encoding="utf-8")
    for code in re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        done = subprocess.run([sys.executable, "-c", code], cwd=sample, input=document, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_every_exit_code_is_documented() -> None:
    page = (DOCS / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    for code in (0, 1, 2, 3, 4, 70, 130):
        assert re.search(rf"^\| {code} \|", page, re.MULTILINE), code


@pytest.mark.parametrize("page", ["architecture.md", "guides/extend.md"])
def test_modules_and_folders_that_the_architecture_names_exist(page: str) -> None:
    package = ROOT / "src" / "faircount"
    named = re.findall(r"`([\w./]+\.(?:py|sql|json|toml)|[\w/]+/)`", (DOCS / page).read_text("utf-8"))
    homes = (package, package / "ledger" / "sql", package / "judges" / "builtin" / "refusals", ROOT)
    assert len(named) > 5
    assert [name for name in named if not any((home / name).exists() for home in homes)] == []


def test_the_architecture_is_short() -> None:
    assert len((DOCS / "architecture.md").read_text("utf-8").splitlines()) <= 200
