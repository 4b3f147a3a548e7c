"""What spikee printed, as data: a reader of its console reports and of its HTML pages.

Both become a `Printed`, with spikee's column heads turned into one set of names. A part that a report does not show is
None, so that a comparison cannot mistake "not shown" for "none". A value that spikee shows as 'None' is None here.
"""

from __future__ import annotations

import ast
import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

NINE_FIELDS = (
    "jailbreak_type",
    "instruction_type",
    "task_type",
    "position",
    "spotlighting_data_markers",
    "injection_delimiters",
    "lang",
    "suffix_id",
    "plugin",
)
COMBINED_FIELDS = ("jailbreak_type", "instruction_type", "lang", "suffix_id", "plugin")

Row = dict[str, int | str]
"""Figures by name: counts as numbers, rates as the text that spikee printed."""

Value = str | None
Combination = tuple[tuple[Value, ...], Row]
Key = TypeVar("Key")

_COLUMNS = {
    "Total": "total",
    "Successes": "successes",
    "All Successes": "successes",
    "Initial Successes": "initial",
    "Attack-Only Successes": "attack_only",
    "Attempts": "attempts",
    "Failed": "failed",
    "Errors": "errors",
    "Guardrail": "guardrail",
    "ASR": "rate",
    "Success Rate": "rate",
    "Initial ASR": "initial_rate",
    "Initial Rate": "initial_rate",
    "Initial Success Rate": "initial_rate",
    "Attack Improvement": "improvement",
    "GTR": "guardrail_rate",
    "Trigger Count": "entries",
    "Trigger Rate": "rate",
}
_GENERAL = {
    "Total Unique Entries": ("total", ""),
    "Total Entries": ("total", ""),
    "Successful Attacks": ("success", "success_rate"),
    "Successful Attacks (Total)": ("success", "success_rate"),
    "Initially Successful": ("initial", "initial_rate"),
    "Only Successful with Dynamic Attack": ("attack_only", "improvement"),
    "Failed Attacks": ("failure", "failure_rate"),
    "Errors": ("error", "error_rate"),
    "Guardrail Triggers": ("guardrail", "guardrail_rate"),
    "Total Attempts": ("attempts", ""),
}
_PAGE_RATES = {
    "Attack Success Rate": "success_rate",
    "Attack Success Rate (Overall)": "success_rate",
    "Attack Success Rate (Without Dynamic Attack)": "initial_rate",
    "Attack Success Rate (Improvement from Dynamic Attack)": "improvement",
}
_FALSE_POSITIVES = {
    "True Positives": "tp",
    "False Negatives": "fn",
    "True Negatives": "tn",
    "False Positives": "fp",
    "Precision": "precision",
    "Recall": "recall",
    "F1 Score": "f1",
    "Accuracy": "accuracy",
}


@dataclass(slots=True)
class Printed:
    """One report: its figures, and None for every part that it does not show."""

    name: str
    general: Row = field(default_factory=dict)
    attacks: dict[str, Row] = field(default_factory=dict)
    sources: dict[str, Row] | None = None
    false_positives: Row | None = None
    breakdowns: dict[str, dict[Value, Row]] | None = None
    categories: dict[str, Row] | None = None
    most: list[Combination] | None = None
    least: list[Combination] | None = None


# -- the console -----------------------------------------------------------------------------------------------


def read_console(text: str) -> list[Printed]:
    """Read everything that `spikee results analyze` printed: one report per analysed file."""
    parts = re.split(r"^=== Analysis of Results File: (.*) ===\n", text, flags=re.MULTILINE)[1:]
    return [_console_report(name, body) for name, body in zip(parts[::2], parts[1::2], strict=True)]


def _console_report(name: str, body: str) -> Printed:
    sections = _sections(body)
    printed = Printed(name, _general(sections["General Statistics"]))
    # The line is left out when it would say 0.
    printed.general.setdefault("guardrail", 0)
    if "Dynamic Attack Statistics" in sections:
        printed.attacks = {key: row for (key,), row in _table(sections["Dynamic Attack Statistics"], 1)}
    if "Combined Source Statistics" in sections:
        printed.sources = {key: row for (key,), row in _table(sections["Combined Source Statistics"], 1)}
    if "Confusion Matrix" in sections:
        printed.false_positives = _quality(sections["Confusion Matrix"] + sections["Performance Metrics"])
    if "Top 10 Most Successful Combinations" in sections:
        printed.breakdowns = {}
        for field_name in NINE_FIELDS:
            rows = _table(sections[f"Breakdown by {field_name.replace('_', ' ').title()}"], 1)
            printed.breakdowns[field_name] = {_from_repr(key): row for (key,), row in rows}
        printed.categories = {key: row for (key,), row in _table(sections.get("Guardrail Category Breakdown", []), 1)}
        printed.most = _combinations(sections["Top 10 Most Successful Combinations"])
        printed.least = _combinations(sections["Top 10 Least Successful Combinations"])
    return printed


def _sections(body: str) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in body.splitlines():
        title = re.fullmatch(r"=== (.*) ===", line)
        if title:
            lines = sections[title[1]] = []
        else:
            lines.append(line)
    return sections


def _general(lines: Sequence[str]) -> Row:
    """Read lines such as `Errors: 110 [13.55%]`."""
    figures: Row = {}
    for line in lines:
        match = re.fullmatch(r"(?:\s*- )?(.*?): (\d+)(?: \[([\d.]+%).*\])?", line)
        if match:
            count, rate = _GENERAL[match[1]]
            figures[count] = int(match[2])
            if rate:
                figures[rate] = match[3]
    return figures


def _quality(lines: Sequence[str]) -> Row:
    """Read lines such as `True Positives (attacks correctly blocked): 66` and `Recall: 0.5323 - Of all ...`."""
    figures: Row = {}
    for line in lines:
        match = re.match(r"([A-Z][\w ]*?)(?: \(.*\))?: ([\d.]+)", line)
        if match:
            figures[_FALSE_POSITIVES[match[1]]] = _number(match[2])
    return figures


def _combinations(lines: Sequence[str]) -> list[Combination]:
    return [(tuple(_from_repr(key) for key in keys), row) for keys, row in _table(lines, len(COMBINED_FIELDS))]


def _table(lines: Sequence[str], keys: int) -> Iterator[tuple[tuple[str, ...], Row]]:
    """Read a table whose columns stand over dashes; the first `keys` columns name the row."""
    rule = next((index for index, line in enumerate(lines) if line.startswith("--")), None)
    if rule is None:
        return
    spans = [match.span() for match in re.finditer("-+", lines[rule])]
    heads = _cells(lines[rule - 1], spans)
    for line in lines[rule + 1 :]:
        if not line:
            return
        cells = _cells(line, spans)
        yield tuple(cells[:keys]), _figures(heads[keys:], cells[keys:])


def _cells(line: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Cut a line at the places that a terminal shows them at, where a wide character takes two."""
    cells = ["" for _ in spans]
    place = 0
    for character in line:
        for index, (start, end) in enumerate(spans):
            if start <= place < end:
                cells[index] += character
        place += _width(character)
    return [cell.strip() for cell in cells]


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _figures(heads: Sequence[str], cells: Sequence[str]) -> Row:
    return {_COLUMNS[head]: _number(cell) for head, cell in zip(heads, cells, strict=True)}


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _from_repr(text: str) -> Value:
    value = ast.literal_eval(text)
    assert isinstance(value, str)
    return None if value == "None" else value


# -- the page --------------------------------------------------------------------------------------------------


def read_page(text: str) -> Printed:
    """Read an HTML page of spikee 0.1 or 0.9.2. It shows neither guardrails nor sources."""
    body = text[text.index("<body>") :]
    titled = re.split(r"<h[23]>(.*?)</h[23]>", body)
    sections = dict(zip(titled[1::2], titled[2::2], strict=True))
    name = re.search(r"<strong>Result File:</strong> (.*?)</p>", body)
    assert name is not None
    printed = Printed(name[1], _page_general(sections["General Statistics"]))
    if "Dynamic Attack Statistics" in sections:
        printed.attacks = {key: row for (key,), row in _page_table(sections["Dynamic Attack Statistics"], 1, str)}
    if "Confusion Matrix" in sections:
        items = [*_items(sections["Confusion Matrix"]), *_items(sections["Performance Metrics"])]
        printed.false_positives = _quality(items)
    printed.breakdowns = {}
    for field_name in NINE_FIELDS:
        rows = _page_table(sections[f"Breakdown by {field_name.replace('_', ' ').title()}"], 1, _from_page)
        printed.breakdowns[field_name] = {key: row for (key,), row in rows}
    width = len(COMBINED_FIELDS)
    printed.most = list(_page_table(sections["Top 10 Most Successful Combinations"], width, _from_raw))
    printed.least = list(_page_table(sections["Top 10 Least Successful Combinations"], width, _from_raw))
    return printed


def _items(section: str) -> list[str]:
    items = re.findall(r"<li>(.*?)</li>", section)
    return [re.sub(r"</?strong>|&nbsp;|^- ", "", item) for item in items]


def _page_general(section: str) -> Row:
    figures: Row = {}
    for item in _items(section):
        label, _, shown = item.lstrip("- ").partition(": ")
        if label in _PAGE_RATES:
            figures[_PAGE_RATES[label]] = shown
        else:
            figures[_GENERAL[label][0]] = int(shown)
    return figures


def _page_table(section: str, keys: int, read: Callable[[str], Key]) -> Iterator[tuple[tuple[Key, ...], Row]]:
    # spikee 0.1 opens one head too many (`<th>Plugin<th>`).
    heads = [head for head in re.findall(r"<th>([^<]*)", section) if head.strip()]
    for row in re.findall(r"<tr>(.*?)</tr>", section, flags=re.DOTALL):
        cells = re.findall(r"<td>(?:<pre>)?(.*?)(?:</pre>)?</td>", row, flags=re.DOTALL)
        if cells:
            yield tuple(read(cell) for cell in cells[:keys]), _figures(heads[keys:], cells[keys:])


def _from_page(cell: str) -> Value:
    """Read a breakdown's value: escaped, with newline and tab written as two characters."""
    text = html.unescape(cell).replace("\\n", "\n").replace("\\t", "\t")
    return None if text == "None" else text


def _from_raw(cell: str) -> Value:
    """Read a combination's value, which spikee puts on the page as it is."""
    return None if cell == "None" else cell
