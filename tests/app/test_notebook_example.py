"""The example notebook: every cell runs, in order, and says what the guide and the summary say."""

from __future__ import annotations

import ast
import contextlib
import json
import os
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from faircount.core import visible
from tests.report.test_html import Page

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "notebooks" / "results.ipynb"


def content() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return read


class Ran(dict[str, Any]):
    """What cells left behind by the name of each: what it showed, and what it printed; and the names that they made."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed: dict[str, str] = {}

    def run(self, name: str, source: str) -> None:
        """Run a cell as a notebook does: the value of its last line is what it shows."""
        tree = ast.parse(source, filename=name)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(StringIO()) as captured:
            exec(compile(tree, name, "exec"), self.names)
            if isinstance(last, ast.Expr):
                self[name] = eval(compile(ast.Expression(last.value), name, "eval"), self.names)
        self.printed[name] = captured.getvalue()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """Run the code cells but the last, which cleans up; that comes at the end."""
    os.chdir(tmp_path_factory.mktemp("notebook"))
    cells = [(cell["id"], "".join(cell["source"])) for cell in content()["cells"] if cell["cell_type"] == "code"]
    run = Ran()
    try:
        with pytest.warns(UserWarning, match="F001 1 line could not be read"):
            for name, source in cells[:-1]:
                run.run(name, source)
        yield run
    finally:
        run.run(*cells[-1])
        os.chdir(ROOT)
    assert not run.names["folder"].exists()


def test_the_notebook_is_stored_with_its_outputs(ran: Ran) -> None:
    notebook = content()
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    names = [cell["id"] for cell in notebook["cells"]]
    assert len(names) == len(set(names))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            outputs = cell["outputs"]
            printed = "".join("".join(out["text"]) for out in outputs if out.get("name") == "stdout")
            assert printed == ran.printed.get(cell["id"], ""), f"{cell['id']}: run the notebook again"
            assert (ran.get(cell["id"]) is not None) == any("text/html" in out.get("data", {}) for out in outputs)
        else:
            assert cell.keys() == {"cell_type", "id", "metadata", "source"}


def test_what_is_shown_can_be_shown(ran: Ran) -> None:
    for name in ("read", "summary", "pandas-rows", "times", "pandas-entries", "polars"):
        assert repr(ran[name])
        assert ran[name]._repr_html_()


def test_the_summary_tells_what_the_sample_is_about(ran: Ran) -> None:
    summary = ran["summary"]
    assert [finding.code for finding in summary.findings][:1] == ["F001"]
    assert summary.tally.total == 270
    assert summary.families.respected
    assert summary.families.count == 36
    assert (
        summary.rates.asr.high - summary.rates.asr.low
        > summary.rates.asr_unclustered.high - summary.rates.asr_unclustered.low
    )
    assert f"{summary.rates.asr.value:.1%} [{summary.rates.asr.low:.1%}" in ran.printed["rates"]
    assert "families:            36 worth" in ran.printed["rates"]
    assert len(ran.printed["groups"].splitlines()) == 5


def test_hostile_responses_of_the_sample_stay_text(ran: Ran) -> None:
    page = Page(ran.names["results"].summary(evidence=300)._repr_html_())
    assert visible("<script>fetch(") in page.text
    assert not {"script", "img", "a"} & {*page.elements}


def test_rows_are_counted_as_the_file_has_them(ran: Ran) -> None:
    lines = ran.names["sample"].dynamic.read_text(encoding="utf-8").splitlines()[:-1]
    read = [json.loads(line) for line in lines]
    assert len(ran.names["rows"]) == len(read)
    timed = [row for row in read if row["attack_name"] == "None" and row["response_time"] is not None]
    assert ran["times"].loc["standard", "count"] == len(timed)
    chosen = [
        row
        for row in read
        if row["attack_name"] == "None" and row["jailbreak_type"] == "dan" and not row.get("guardrail")
    ]
    assert f"of {len(chosen)} (" in ran.printed["where"]


def test_entries_agree_with_the_summary(ran: Ran) -> None:
    groups = ran.names["summary"].breakdowns["jailbreak_type"]
    assert {group.value: group.tally.success for group in groups} == ran["pandas-entries"]["success"].to_dict()
    plugins = {group.value: group.tally for group in ran.names["summary"].breakdowns["plugin"]}
    assert {row["plugin"]: (row["len"], row["successes"]) for row in ran["polars"].to_dicts()} == {
        value: (tally.total, tally.success) for value, tally in plugins.items()
    }
    assert f"of {plugins['base64'].total} (wilson)" in ran.printed["wilson"]


def test_the_comparison_is_that_of_the_same_entries(ran: Ran) -> None:
    weak, mid = (
        [json.loads(line)["success"] for line in path.read_text(encoding="utf-8").splitlines()]
        for path in ran.names["sample"].plain[:2]
    )
    only_weak = sum(a and not b for a, b in zip(weak, mid, strict=True))
    only_mid = sum(b and not a for a, b in zip(weak, mid, strict=True))
    assert (ran.names["only_weak"], ran.names["only_mid"]) == (only_weak, only_mid)
    assert ran.names["difference"].value == pytest.approx((only_weak - only_mid) / 270)
    assert "of 270 (tango)" in ran.printed["compare"]
    assert ran.printed["compare"].splitlines()[-1].startswith("p = ")
