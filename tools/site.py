"""What MkDocs needs to make a site of docs/, beyond the pages: it is named in mkdocs.yml.

The navigation follows from the folders and from the order in which docs/index.md links the pages, so that a new page is
in it without being listed. Pages at the root of the repository become pages of the site, the notebook one with its
outputs, and a link out of docs/ leads to the copy, or to the repository if pyproject.toml has its address as `Source`.
Anchors are those of GitHub.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
COPIED = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages at the root of the repository that are pages of the site."""

STYLE = """\
/* Tables of findings and options are wide: they have the room, and scroll inside the page. */
.md-grid { max-width: 70rem; }
.md-typeset table:not([class]) td { word-break: normal; }
/* Output of commands is 100 columns wide; between two sidebars a laptop has less room. */
@media (min-width: 76.25em) and (max-width: 87.5em) { .md-typeset pre > code { font-size: .58rem; } }
.md-typeset .output { overflow-x: auto; }
.md-typeset .output figure { display: block; width: auto; max-width: none; margin: 1em 0; text-align: left; }
.md-typeset .output figcaption { max-width: none; margin: 0 0 .5em; text-align: left; font-style: normal; }
.md-typeset .output li { margin-left: 0; }
/* The theme has a class of this name for cards. */
.md-typeset .output table.grid { display: table; }
.md-typeset .output table.grid > thead { display: table-header-group; }
.md-typeset .output table.grid > tbody { display: table-row-group; }
.md-typeset .output .dataframe { border-collapse: collapse; border: 0; font-size: .64rem; }
.md-typeset .output .dataframe :is(th, td) {
  padding: .3em .8em; border: 0; border-bottom: .05rem solid var(--md-default-fg-color--lightest); text-align: right;
}
.md-typeset pre.output > code {
  border-left: .2rem solid var(--md-default-fg-color--lightest); background: transparent;
}
"""

SCRIPT = """\
// The search leaves out words after a dash, but options of the command line begin with two: --fail-on.
for (const kind of ["input", "keyup"]) document.addEventListener(kind, ({ target }) => {
  const words = target.matches?.(".md-search__input") && target.value.replace(/(^|\\s)-+(?=\\w)/g, "$1");
  if (words && words !== target.value) target.value = words;
}, true);
"""

_START = ("index.md", "start.md")
_HOMES = {"notebooks": "guides", "findings.md": "reference"}
"""Pages and folders that belong to the section of another folder."""

_SECTIONS = ("guides", "concepts", "reference")
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
_FENCED = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)


# --- navigation -----------------------------------------------------------------------------------------------------


def pages(docs: Path) -> list[str]:
    """Return the pages under a folder, notebooks as the pages that they become, as paths with slashes."""
    found = [path.relative_to(docs) for path in docs.rglob("*") if path.suffix in (".md", ".ipynb")]
    return sorted(path.with_suffix(".md").as_posix() for path in found)


def navigation(docs: Path, copied: Iterable[str] = COPIED) -> list[dict[str, Any]]:
    """Return the navigation: sections by folder; in each, the order in which the start page links its pages."""
    linked = [
        posixpath.normpath(target.partition("#")[0]).replace(".ipynb", ".md")
        for _, target in _LINK.findall((docs / "index.md").read_text(encoding="utf-8"))
    ]
    place = {page: number for number, page in reversed(list(enumerate(linked)))}
    sections: dict[str, list[str]] = {name: [] for name in _SECTIONS}
    rest = []
    for page in sorted(pages(docs), key=lambda page: (place.get(page, len(place) + len(linked)), page)):
        folder = _HOMES.get(page) or page.rpartition("/")[0].partition("/")[0]
        folder = _HOMES.get(folder, folder)
        if folder:
            sections.setdefault(folder, []).append(page)
        elif page not in _START:
            rest.append(page)
    return [
        {"Start": [page for page in _START if (docs / page).exists()]},
        *({name.capitalize(): _with_subfolders(name, found)} for name, found in sections.items() if found),
        {"Project": [*rest, *copied]},
    ]


def _with_subfolders(section: str, found: list[str]) -> list[Any]:
    """Return the pages of a section, those of a folder inside it as a section of their own at the end."""
    subfolders: dict[str, list[str]] = {}
    direct: list[Any] = []
    for page in found:
        inside = page.removeprefix(f"{section}/").rpartition("/")[0]
        if inside and page.startswith(f"{section}/"):
            subfolders.setdefault(inside, []).append(page)
        else:
            direct.append(page)
    return direct + [{name.capitalize(): there} for name, there in subfolders.items()]


# --- text -----------------------------------------------------------------------------------------------------------


def slug(text: str, separator: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def relinked(markdown: str, source: str, repository: str) -> str:
    """Return a page, by its place in the repository, with those links changed that mean something else on the site.

    Without an address of the repository, only the text of a link out of the site remains.
    """
    here = posixpath.dirname(source)
    at_home = here if source.startswith("docs/") else "docs"

    def change(found: re.Match[str]) -> str:
        label, target = found.groups()
        path, mark, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return found[0]
        place = posixpath.normpath(posixpath.join(here, path))
        if place.endswith(".ipynb"):
            place = place.replace(".ipynb", ".md")
        if place in COPIED:
            place = f"docs/{place}"
        elif not place.startswith("docs/") or (ROOT / place).is_dir():
            return f"[{label}]({repository}/blob/main/{place}{mark}{anchor})" if repository else label
        return f"[{label}]({posixpath.relpath(place, at_home)}{mark}{anchor})"

    parts = _FENCED.split(markdown)
    return "".join(part if number % 2 else _LINK.sub(change, part) for number, part in enumerate(parts))


def notebook_page(text: str) -> str:
    """Return a notebook as Markdown: its texts, its code, and the outputs that are stored in it."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [_output(output) for output in cell["outputs"]]
    return "\n\n".join(part for part in parts if part) + "\n"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        # A blank line would end the block of HTML.
        markup = re.sub(r"\n\s*\n", "\n", "".join(data["text/html"]).strip())
        # The theme overrides the attribute.
        markup = re.sub(r'(<svg [^>]*height="(\d+)")', r'\1 style="height: \2px"', markup)
        return f'<div class="output">\n{markup}\n</div>'
    shown = "".join(output["text"] if "text" in output else data.get("text/plain", ""))
    return f'<pre class="output"><code>{html.escape(shown.rstrip())}</code></pre>' if shown.strip() else ""


def repository_address() -> str:
    """Return the address of the repository that the package names, or nothing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project.get("urls", {}).get("Source", ""))


# --- the hooks of MkDocs --------------------------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    """Set what cannot be written in mkdocs.yml."""
    config.nav = navigation(Path(config.docs_dir))
    if address := repository_address():
        config.nav[-1]["Project"].append({"Source code": address})
    config.mdx_configs["toc"]["slugify"] = slug
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages of the root, the notebooks as pages, and what the theme shows."""
    from mkdocs.structure.files import File

    for name in COPIED:
        files.append(File.generated(config, name, content=(ROOT / name).read_text(encoding="utf-8")))
    docs = Path(config.docs_dir)
    for path in docs.rglob("*.ipynb"):
        name = path.relative_to(docs).with_suffix(".md").as_posix()
        files.append(File.generated(config, name, content=notebook_page(path.read_text(encoding="utf-8"))))
    icon = ROOT / "src" / "faircount" / "app" / "web" / "static" / "icon.svg"
    files.append(File.generated(config, "assets/icon.svg", content=icon.read_bytes()))
    files.append(File.generated(config, "assets/site.css", content=STYLE))
    files.append(File.generated(config, "assets/site.js", content=SCRIPT))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Change the links that mean something else on the site."""
    name = page.file.src_uri
    return relinked(markdown, name if name in COPIED else f"docs/{name}", repository_address())
