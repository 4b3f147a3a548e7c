"""The entries of an export as data that its pages hold: lists to search, sort and filter, and entries in full.

A list is columns of one page; the entries in full are in pages of a few hundred each, so that a browser loads only
those that are opened. The data are inert: JSON in an element that no browser runs, every text with its secrets masked
and everything hidden spelled out. Our own script puts it on the page as text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from markupsafe import Markup
from msgspec import Struct, field

from faircount.analysis import browse
from faircount.analysis.browse import EntryFilter, EntryView, GivenVerdict, ShownText
from faircount.analysis.compare.browse import CELLS, OpenComparison, deciding_texts
from faircount.analysis.evidence import masked
from faircount.analysis.words import WORDS
from faircount.app.web.comparisons import words_of_cells
from faircount.app.web.naming import Naming
from faircount.app.web.pages import FIRST_PIECE, title_of
from faircount.app.web.runs import Run
from faircount.core.model import Outcome
from faircount.core.text import visible
from faircount.ledger import entry_list
from faircount.report import formats, html

AT_ONCE = 2_000
MOST_IN_PAGE, LARGEST_PAGE = 500, 1_000_000
"""A page of entries in full ends with so many entries, or after so many bytes."""
SEARCHED_BYTES = 12_000_000
LEAST_SEARCHED, MOST_SEARCHED = 60, 4_000
"""So many characters of each prompt and response are searched: fewer where there are many entries."""
FIELDS_IN_LISTS = 40
_COLUMNS_OF_FIELDS = 2
_LONGEST_REASON = 4_000


def island(name: str, data: Any) -> Markup:
    """Return data as an element of a page that nothing runs; no text in it can end the element."""
    return Markup(html.island(name, data).text)


def _shown(text: str) -> str:
    return "\n".join(visible(line) for line in masked(text).split("\n"))


class WrittenEntries(Struct):
    """The entries of a run as they were written: where each is, and the beginnings of its texts."""

    run: Run
    lines: list[int] = field(default_factory=list)
    entry_of: dict[int, int] = field(default_factory=dict)
    """The place of an entry in the list, by the line of any of its rows."""
    begins: list[int] = field(default_factory=list)
    """The first entry of each page."""
    ids: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    texts: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    values: dict[str, list[str | None]] = field(default_factory=dict)
    searched: int = 0

    def target(self, line: int) -> str:
        """Return the file and the place in it of the entry that has a row on a line."""
        at = self.entry_of.get(line)
        return "" if at is None else f"{self.page(bisect_right(self.begins, at))}#line={self.lines[at]}"

    def page(self, number: int) -> str:
        return f"entries/{self.run.id}-{number:04}.html"


def write_entries(run: Run, lists: Lists, write: Callable[[str, Mapping[str, Any]], None]) -> WrittenEntries:
    """Write the entries of a run in full, and return where they are and what its list shows of them."""
    results, naming = run.results(), run.naming
    total = results.tally().total
    found = WrittenEntries(run)
    found.searched = (
        0 if naming.redacted else max(LEAST_SEARCHED, min(MOST_SEARCHED, SEARCHED_BYTES // max(2 * total, 1)))
    )
    known = {line: (family, prompt) for line, family, prompt, _ in lists.known(run)}
    sizes = Counter(family for family, _ in known.values() if family)
    page: list[bytes] = []
    size = 0
    aim = "attack"

    def end_page(*, last: bool) -> None:
        number = len(found.begins)
        data = {
            "entries": [msgspec.Raw(one) for one in page],
            "words": {
                one.value: "blocked" if one is Outcome.GUARDRAIL else WORDS[aim].outcomes[one] for one in Outcome
            },
            "before": f"{run.id}-{number - 1:04}.html" if number > 1 else "",
            "after": "" if last else f"{run.id}-{number + 1:04}.html",
            "list": f"../runs/{run.id}-entries.html",
            "first": found.begins[-1],
            "total": total,
            "runs": [one.label for one in lists.runs.values()],
        }
        write(found.page(number), {"run": run, "aim": aim, "island": island("entries", data)})

    for views in browse.entries_in_full(results, AT_ONCE):
        for view in views:
            aim = view.aim
            if not page:
                found.begins.append(len(found.lines))
            elif len(page) >= MOST_IN_PAGE or size + len(page[-1]) >= LARGEST_PAGE:
                end_page(last=False)
                page.clear()
                size = 0
                found.begins.append(len(found.lines))
            family, prompt = known[view.entry.line]
            _list_entry(found, view, naming)
            data = _in_full(view, naming)
            data["family"] = sizes[family] if family else 0
            data["others"] = list(lists.others(run, prompt))
            page.append(msgspec.json.encode(data))
            size += len(page[-1])
    if page:
        end_page(last=True)
    return found


def _list_entry(found: WrittenEntries, view: EntryView, naming: Naming) -> None:
    at, entry = len(found.lines), view.entry
    found.lines.append(entry.line)
    found.entry_of |= {entry.line: at, **{attempt.line: at for attempt in view.attempts}}
    found.ids.append(visible(naming.name(entry.id)))
    found.outcomes.append(entry.outcome.value)
    fields = {**entry.fields, **({"attack_name": entry.attack} if entry.attack is not None else {})}
    for name, value in fields.items():
        found.values.setdefault(name, [None] * at).append(None if value is None else visible(naming.of(value)))
    for values in found.values.values():
        values.extend([None] * (at + 1 - len(values)))
    if found.searched:
        deciding = deciding_texts(view)
        for listed, text in zip(found.texts, (deciding.prompt, deciding.response), strict=True):
            listed.append("" if text is None else _shown(text.text[: found.searched]))


# -- an entry in full -------------------------------------------------------------------------------------------


def _in_full(view: EntryView, naming: Naming) -> dict[str, Any]:
    entry = view.entry
    return {
        "line": entry.line,
        "id": visible(naming.name(entry.id)),
        "outcome": entry.outcome.value,
        "why": view.reason[:1].upper() + view.reason[1:],
        "fields": [
            [visible(name), visible(title_of(name)), visible(naming.of(value))]
            for name, value in entry.fields.items()
            if value is not None
        ],
        "attempts": [
            {
                "number": one.number,
                "strategy": visible(naming.name(one.strategy)),
                "state": one.state.value,
                "decides": one.decides,
                "line": one.line,
                "seconds": "" if one.seconds is None else formats.seconds(one.seconds),
                "unread": "" if naming.redacted else visible(one.unread),
                "categories": [visible(naming.name(name)) for name in one.categories],
                "texts": _texts(one.texts, naming),
                "verdicts": _verdicts(one.verdicts, naming),
                "requests": [
                    {
                        "number": request.number,
                        "state": request.state.value,
                        "strategy": visible(naming.name(request.strategy)),
                        "seconds": "" if request.seconds is None else formats.seconds(request.seconds),
                        "texts": _texts(request.texts, naming),
                        "verdicts": _verdicts(request.verdicts, naming),
                    }
                    for request in one.history
                ],
            }
            for one in view.attempts
        ],
    }


def _texts(texts: Sequence[ShownText], naming: Naming) -> list[list[Any]]:
    """Return texts in parts: before, in and after the passage that matters, and how many characters are left out."""
    if naming.redacted:
        return []
    found: list[list[Any]] = []
    for one in texts:
        text, begin, end = one.text[:FIRST_PIECE], min(one.begin, FIRST_PIECE), min(one.end, FIRST_PIECE)
        parts = [text[:begin], text[begin:end], text[end:]] if begin < end else [text, "", ""]
        calls = [[visible(name), _shown(arguments[:FIRST_PIECE])] for name, arguments in one.calls]
        found.append([visible(one.role), *map(_shown, parts), len(one.text) - len(text), calls])
    return found


def _verdicts(verdicts: Sequence[GivenVerdict], naming: Naming) -> list[list[Any]]:
    return [
        [
            visible(naming.name(one.judge)),
            visible(naming.name(one.decision)),
            "" if one.score is None else f"{one.score:.3g}",
            "" if naming.redacted else _shown(one.reason[:_LONGEST_REASON]),
            visible(naming.name(one.instead_of)),
        ]
        for one in verdicts
    ]


# -- lists ------------------------------------------------------------------------------------------------------


class Lists:
    """What the lists of an export hold beside the entries: the entries behind its figures, and those of other runs."""

    def __init__(self, runs: Mapping[str, Run]) -> None:
        self.runs = runs
        self._sets: dict[str, dict[tuple[str, str], tuple[str, list[int]]]] = {name: {} for name in runs}
        self._known = {name: browse.families_and_prompts(run.results()) for name, run in runs.items()}
        self._prompts = {name: _by_prompt(known) for name, known in self._known.items()}

    def add(self, run: str, name: str, value: str, lines: list[int], words: str = "") -> None:
        """Note the entries of a run that a filter means, by their lines."""
        self._sets[run][name, value] = words or value, lines

    def known(self, run: Run) -> list[tuple[int, int, int, Outcome]]:
        """Return of each entry of a run its line, its family, the checksum of its prompt, and how it ended."""
        return self._known[run.id]

    def others(self, run: Run, prompt: int) -> Iterator[list[Any]]:
        """Yield the entries of other runs that have a prompt: the number and the id of the run, line and outcome."""
        for number, other in enumerate(self.runs):
            if other != run.id and prompt and (found := self._prompts[other].get(prompt)) is not None:
                yield [number, other, found[0], found[1].value]

    def of_run(self, run: Run, found: WrittenEntries) -> Markup:
        """Return the list of a run."""
        self._behind_figures(run)
        fields = self._fields(found)
        columns: list[dict[str, Any]] = [_id_column(), {"kind": "outcome", "field": "outcome", "title": "Outcome"}]
        if found.searched:
            columns += [
                {"kind": "text", "title": title, "texts": texts}
                for title, texts in zip(("Prompt", "Response"), found.texts, strict=True)
            ]
        columns += [
            {"kind": "field", "field": one["name"], "title": one["title"]}
            for one in [one for one in fields if one["name"] != "outcome"][:_COLUMNS_OF_FIELDS]
        ]
        return island("list", self._list(run, found, columns, fields) | {"words": _outcome_words(run)})

    def _list(
        self, run: Run, found: WrittenEntries, columns: list[dict[str, Any]], fields: list[dict[str, Any]]
    ) -> dict[str, Any]:
        return {
            "what": ["entry", "entries"],
            "ids": found.ids,
            "lines": found.lines,
            "begins": found.begins,
            "page": f"../entries/{run.id}-",
            "columns": columns,
            "fields": fields,
            "sets": self._named_sets(run.id, found),
            "searched": found.searched,
            "families": self._families(run, found),
        }

    def _named_sets(self, run: str, found: WrittenEntries) -> list[list[Any]]:
        return [
            [name, value, words, sorted({found.entry_of[line] for line in lines if line in found.entry_of})]
            for (name, value), (words, lines) in self._sets[run].items()
        ]

    def _families(self, run: Run, found: WrittenEntries) -> list[int]:
        known = {line: family for line, family, _, _ in self.known(run)}
        numbers = {0: 0}
        return [numbers.setdefault(known.get(line, 0), len(numbers)) for line in found.lines]

    def _behind_figures(self, run: Run) -> None:
        """Note the entries behind findings, kinds of errors and guardrail categories, to which the run's page links."""
        analysis = run.summary().analysis
        assert analysis is not None
        full = run.analysis(figures=True)
        named = [("finding", one.code, f"{one.code}") for one in full.findings if entry_list.has_rows_behind(one.code)]
        named += [(entry_list.ERROR_KIND, one.kind, one.kind) for one in full.errors]
        named += [(entry_list.CATEGORY, one.category, one.category) for one in full.guardrail_categories]
        for name, value, words in named:
            recorded = run.naming.recorded(value)
            lines = browse.lines_chosen(run.results(), EntryFilter({name: (recorded,)}))
            self.add(run.id, name, value, lines, words)

    def _fields(self, found: WrittenEntries) -> list[dict[str, Any]]:
        listed = [_coded("outcome", "outcome", found.outcomes)]
        for name, values in list(found.values.items())[:FIELDS_IN_LISTS]:
            listed.append(_coded(visible(name), visible(title_of(name)), values))
        return listed

    def of_pair(
        self,
        run: Run,
        base: Run,
        compared: OpenComparison,
        sides: tuple[WrittenEntries, WrittenEntries],
        beside: Collection[int],
    ) -> Markup:
        """Return the list of the entries that a run and its baseline share."""
        listed, c = compared.lists[0], compared.comparison
        a, b = ([one.entry_of[int(line)] for line in lines] for one, lines in zip(sides, listed.lines, strict=True))
        named = words_of_cells(c)
        by_number = {number: name for name, number in CELLS.items()}
        cells = [by_number[int(cell)] for cell in listed.cells]
        labels = [visible(label) for label in c.pairs[0].labels]
        fields = [
            _coded("cell", "pairs", cells) | {"words": {name: visible(words) for name, words in named.items()}},
            *(
                _coded(f"side{side}", labels[side], [one.outcomes[at] for at in places]) | {"hidden": True}
                for side, (one, places) in enumerate(zip(sides, (a, b), strict=True))
            ),
        ]
        for name, (codes, known) in listed.values.items():
            values = [None if (text := known.get(int(code))) is None else visible(text) for code in codes]
            fields.append(_coded(visible(name), visible(title_of(name)), values))
        columns: list[dict[str, Any]] = [_id_column()]
        columns += [{"kind": "outcome", "field": f"side{side}", "title": labels[side]} for side in (0, 1)]
        if sides[1].searched:
            columns.append({"kind": "text", "title": "Prompt", "texts": [sides[1].texts[0][at] for at in b]})
            for side, places in enumerate((a, b)):
                texts = [sides[side].texts[1][at] for at in places]
                columns.append({"kind": "text", "title": f"Response of {labels[side]}", "texts": texts})
        found = WrittenEntries(run, lines=[sides[1].lines[at] for at in b], begins=sides[1].begins)
        found.ids, found.searched = [visible(run.naming.name(one)) for one in listed.ids], sides[1].searched
        causes = [
            ["cause", f"{cell}.{number}", "what flips have in common", places.tolist()]
            for cell, groups in listed.in_common.items()
            for number, places in enumerate(groups)
        ]
        data = self._list(run, found, columns, fields) | {
            "what": ["pair of entries", "pairs of entries"],
            "places": b,
            "sets": causes,
            "families": [],
            "beside": f"{run.id}-vs-{base.id}-",
            "together": sorted(beside),
            "words": _outcome_words(run),
        }
        return island("list", data)


def _by_prompt(known: Sequence[tuple[int, int, int, Outcome]]) -> dict[int, tuple[int, Outcome]]:
    """Return the first entry that has each prompt."""
    found: dict[int, tuple[int, Outcome]] = {}
    for line, _, prompt, outcome in known:
        found.setdefault(prompt, (line, outcome))
    return found


def _id_column() -> dict[str, Any]:
    return {"kind": "id", "title": "Id"}


def _outcome_words(run: Run) -> dict[str, str]:
    del run
    return {one.value: "blocked" if one is Outcome.GUARDRAIL else one.value for one in Outcome}


def _coded(name: str, title: str, values: Sequence[str | None]) -> dict[str, Any]:
    """Return a field as its values, the most frequent first, and the number of the value of each entry."""
    counts = Counter(values)
    order = sorted(counts, key=lambda value: (-counts[value], value is None, value or ""))
    numbers = {value: number for number, value in enumerate(order)}
    return {"name": name, "title": title, "values": order, "codes": [numbers[value] for value in values]}
