"""The pages of `faircount view` as files: the same pages, made by the same functions, with links between files.

Which address becomes which file is decided in one place (`Exporter.target`); a link to anything else is left out. What
only a server could answer is not there: queries, labels, other baselines, runs in progress.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape, unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from markupsafe import Markup
from msgspec import Struct

from faircount.analysis.compare import report as compare_report
from faircount.analysis.report import as_report
from faircount.app.web import app as web
from faircount.app.web.comparisons import ALONE, Comparisons, cells_of_flips
from faircount.app.web.export_entries import Lists, WrittenEntries, write_entries
from faircount.app.web.runs import Run, Runs
from faircount.app.web.server import get
from faircount.core.errors import FaircountError, InputError
from faircount.report import documents
from faircount.report.blocks import Report
from faircount.report.html import SCRIPT as TABLES
from faircount.report.html import hash_source

MOST_PAIRS = 15
"""Of more pairs of runs, those with the first run are compared."""
MOST_SIDE_BY_SIDE = 60
"""So many entries that flipped are shown side by side, as many of each pair of runs."""
_STYLES = ("report.css", "view.css", "export.css")
_DOCUMENTS, _RUNS, _PAIRS = "figures", "runs", "pairs"
_TAG = re.compile(r"<a\b[^<>]*>|</a>|<svg\b|</svg>|<link\b[^<>]*>|<script\b|</script>")
_HREF = re.compile(r'\shref="([^"]*)"')
_ONLY_BUTTONS = re.compile(r'class="[^"]*\b(?:button|set-base)\b')


class Exported(Struct, kw_only=True):
    """What every page of an export says of it."""

    created: str
    command: str
    python: str
    redacted: bool
    sources: tuple[Any, ...]
    policy: str = ""
    script: Markup = Markup("")
    pairs: set[tuple[str, str]] = set()
    comparisons: tuple[tuple[str, str], ...] = ()
    documents: tuple[tuple[str, str], ...] = ()
    limits: tuple[str, ...] = ()
    islands: dict[tuple[str, str], Markup] = {}


def script() -> str:
    """Return the one script of the pages of an export."""
    parts = [web.static_files()[name].decode() for name in ("keys.js", "rows.js", "export.js")]
    joined = "".join(part.replace("export function", "function") for part in parts)
    return f"{TABLES}{joined}keys();\nrows();\nexported();\n"


def policy_of(content: str) -> str:
    """Return what a page lets a browser do: run this script, and load the style beside it."""
    return (
        f"default-src 'none'; script-src '{hash_source(content)}'; style-src 'self' file:; img-src 'self' file:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


class Exporter:
    """Writes the pages of runs into a folder."""

    def __init__(self, folder: Path, runs: Runs, exported: Exported) -> None:
        self._folder = folder
        self._runs = runs
        self._about = exported
        self._compared = Comparisons(None)
        self._app = web.application(web.OpenRuns(runs, comparisons=self._compared, exported=exported))
        self._environment = web.environment()
        self._entries: dict[str, WrittenEntries] = {}
        self._known: set[str] = set()
        self._beside: set[tuple[str, str, int]] = set()
        exported.script = Markup(script())
        exported.policy = policy_of(exported.script)

    def write(self) -> None:
        """Write everything; the documents say which figures the pages show."""
        self._style()
        runs = [run for run in self._runs.summed_up(None) if run.summary().analysis is not None]
        self._known = {run.id for run in runs}
        pairs = self._pairs(runs)
        lists = Lists({run.id: run for run in runs})
        for run in runs:
            self._document(run.id, run.label, as_report([run.analysis(figures=True)]))
        for base, run in pairs:
            found = self._compared.of([base, run])
            name = f"{run.id}-vs-{base.id}"
            self._document(name, f"{run.label} against {base.label}", compare_report.as_report(found.comparison))
            for side, one, other in ((0, base, run), (1, run, base)):
                lines = [int(line) for lines in found.lists[0].alone[side].values() for line in lines]
                lists.add(one.id, "alone", other.id, lines, f"not in {other.label}")
            flips = found.lists[0].chosen(cells_of_flips(found.comparison)).nonzero()[0].tolist()
            if not self._about.redacted:
                shown = flips[: max(MOST_SIDE_BY_SIDE // len(pairs), 1)]
                self._beside |= {(run.id, base.id, int(found.lists[0].lines[1][place])) for place in shown}
        together = len(runs) > 2 and self._can_compare(runs)
        if together:
            comparison = self._compared.of(runs).comparison
            self._document("all", "all runs together", compare_report.as_report(comparison))
        self._about.comparisons = tuple(self._choices(runs, pairs, together))
        self._about.limits = tuple(self._limits())
        for run in runs:
            self._entries[run.id] = write_entries(run, lists, self._entry_page)
        for run in runs:
            self._about.islands[run.id, ""] = lists.of_run(run, self._entries[run.id])
        for base, run in pairs:
            sides = self._entries[base.id], self._entries[run.id]
            self._about.islands[run.id, base.id] = lists.of_pair(
                run,
                base,
                self._compared.of([base, run]),
                sides,
                {line for one, other, line in self._beside if (one, other) == (run.id, base.id)},
            )
        for address in self._addresses(runs, pairs):
            self._page(address)
        self._write("about.html", self._environment.get_template("export_about.html").render(**self._context()))

    # -- what there is -------------------------------------------------------------------------------------------

    def _pairs(self, runs: Sequence[Run]) -> list[tuple[Run, Run]]:
        """Return the pairs of runs that can be compared, the one that was named first as the baseline."""
        wanted = [(base, run) for at, base in enumerate(runs) for run in runs[at + 1 :]]
        if len(wanted) > MOST_PAIRS:
            wanted = wanted[: len(runs) - 1]
        found = [(base, run) for base, run in wanted if self._can_compare([base, run])]
        self._about.pairs = {(run.id, base.id) for base, run in found}
        return found

    def _can_compare(self, runs: Sequence[Run]) -> bool:
        """Return whether runs can be compared: not where one is of attacks and another of tests."""
        try:
            self._compared.of(runs)
        except FaircountError:
            return False
        return True

    def _choices(
        self, runs: Sequence[Run], pairs: Sequence[tuple[Run, Run]], together: bool
    ) -> Iterator[tuple[str, str]]:
        if together:
            yield self._together(runs), "Compare all runs"
        if pairs and pairs[0][0] is runs[0]:
            yield f"/?base={runs[0].id}", f"Against {runs[0].label}"

    def _together(self, runs: Sequence[Run]) -> str:
        return f"/compare?{urlencode([('run', run.id) for run in runs])}"

    def _limits(self) -> Iterator[str]:
        yield "Queries, labels and thresholds of judges need faircount view; runs in progress are as they were."
        if len(self._runs.all) * (len(self._runs.all) - 1) // 2 > MOST_PAIRS:
            yield f"There are more than {MOST_PAIRS} pairs of runs: each is compared with the first run."
        if not self._about.redacted:
            yield (
                f"Up to {MOST_SIDE_BY_SIDE} entries that flipped are shown side by side, word by word, as many of each "
                "pair of runs; the others open as entries of the run."
            )

    def _addresses(self, runs: Sequence[Run], pairs: Sequence[tuple[Run, Run]]) -> Iterator[str]:
        yield "/"
        yield from (href for href, _ in self._about.comparisons)
        for run in runs:
            yield f"/run/{run.id}"
            yield f"/run/{run.id}/entries"
        for base, run in pairs:
            yield f"/run/{run.id}?base={base.id}"
            yield f"/run/{run.id}/entries?base={base.id}"
        for one, against, line in sorted(self._beside):
            yield f"/run/{one}/entry/{line}?base={against}"

    def target(self, address: str) -> str:
        """Return the file that holds what an address shows, with the place in it; nothing where no file does."""
        parts = urlsplit(address)
        query, fragment = parse_qsl(parts.query, keep_blank_values=True), f"#{parts.fragment}" if parts.fragment else ""
        said = dict(query)
        base = said.get("base", "")
        match parts.path.strip("/").split("/"):
            case [""]:
                known = any(href == address.partition("#")[0] for href, _ in self._about.comparisons)
                return ("index.html" if not query else "against.html" if known else "") + fragment
            case ["about"]:
                return "about.html"
            case ["compare"]:
                return "compare.html" + fragment if address.partition("#")[0] in dict(self._about.comparisons) else ""
            case ["document", name]:
                return f"{_DOCUMENTS}/{name}"
            case ["static", name]:
                return name
            case ["run", run, *_] if run not in self._known or "where" in said:
                return ""
            case ["run", run] if not query:
                return f"{_RUNS}/{run}.html{fragment}"
            case ["run", run] if set(said) == {"base"} and (run, base) in self._about.pairs:
                return f"{_PAIRS}/{run}-vs-{base}.html{fragment}"
            case ["run", run, "entries"]:
                return self._list(run, query, base)
            case ["run", run, "entry" | "line", line]:
                if (run, base, int(line)) in self._beside:
                    return f"{_PAIRS}/{run}-vs-{base}-{line}.html"
                return self._entries[run].target(int(line))
        return ""

    def _list(self, run: str, query: Sequence[tuple[str, str]], base: str) -> str:
        said = dict(query)
        if base and (run, base) not in self._about.pairs:
            return ""
        if said.get("alone") in ALONE:
            one, other = (run, base) if said["alone"] == ALONE[1] else (base, run)
            return f"{_RUNS}/{one}-entries.html#{urlencode({'f.alone': other})}"
        own = {"cell": "f.cell", "cause": "f.cause"}
        kept = [
            (own.get(name, name), value)
            for name, value in query
            if name in own or name == "sort" or name.startswith("f.")
        ]
        place = f"{_PAIRS}/{run}-vs-{base}-entries.html" if base else f"{_RUNS}/{run}-entries.html"
        return f"{place}#{urlencode(kept)}" if kept else place

    # -- files ---------------------------------------------------------------------------------------------------

    def _style(self) -> None:
        found = web.static_files()
        (self._folder / "export.css").write_bytes(b"\n".join(found[name] for name in _STYLES))
        (self._folder / "icon.svg").write_bytes(found["icon.svg"])

    def _document(self, name: str, words: str, report: Report) -> None:
        path = f"{name}.json"
        self._write(f"{_DOCUMENTS}/{path}", documents.as_json(report))
        self._about.documents = (*self._about.documents, (path, words))

    def _page(self, address: str) -> None:
        status, content = get(self._app, address)
        if status != 200:
            raise InputError(f"{address}: this page could not be made (status {status})")
        self._write(self.target(address), content.decode())

    def _entry_page(self, path: str, page: Mapping[str, Any]) -> None:
        template = self._environment.get_template("export_entries.html")
        self._write(path, template.render(page=page, **self._context()))

    def _context(self) -> dict[str, Any]:
        return {"exported": self._about, "labelling": False, "runs_open": self._runs.all}

    def _write(self, path: str, text: str) -> None:
        place = self._folder / path
        place.parent.mkdir(exist_ok=True)
        up = "../" * path.count("/")
        content = self._linked(text, up) if path.endswith(".html") else text
        place.write_bytes(content.encode("utf-8", "replace"))

    def _linked(self, text: str, up: str) -> str:
        """Return a page with links between files; a link to what is not in the export is left as its words."""
        parts, done, dropped, closing, inside_svg, inside_script = [], 0, 0, "</a>", False, False
        for found in _TAG.finditer(text):
            tag = found[0]
            if tag.endswith("script>") or inside_script or tag.startswith("<script"):
                inside_script = tag != "</script>"
                continue
            parts.append("" if dropped else text[done : found.start()])
            done = found.end()
            if tag.startswith(("<svg", "</svg")):
                inside_svg = tag.startswith("<svg")
            elif tag == "</a>":
                tag, dropped, closing = "" if dropped else closing, 0, "</a>"
            elif tag.startswith(("<a", "<link")) and (href := _HREF.search(tag)) is not None:
                address = unescape(href[1])
                place = address if address.startswith("#") else self.target(address)
                if place:
                    address = escape(place if place.startswith("#") else up + place)
                    tag = f'{tag[: href.start()]} href="{address}"{tag[href.end() :]}'
                elif _ONLY_BUTTONS.search(tag):
                    tag, dropped = "", 1
                else:
                    name = "g" if inside_svg else "span"
                    # Without their frames, one could not see where the words of a chip end.
                    shape = ' class="chip"' if 'class="chip"' in tag else ""
                    tag, closing = f"<{name}{shape}>", f"</{name}>"
            parts.append("" if dropped else tag)
        return "".join([*parts, text[done:]])
