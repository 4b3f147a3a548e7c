"""A comparison to look through: its pairs, what narrows them down, and all runs side by side, counted by Python."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from faircount import open_results
from faircount.analysis import CompareOptions, compare_files, open_comparison
from tests.conftest import Write, document_of, standard

LANGUAGES = ("en", "de", "fr")
CELLS = ("both", "only_a", "only_b", "neither", "undecided")
Rows = list[dict[str, Any]]


def entries(count: int, won: int, *, errors: int = 0, first: int = 0) -> Rows:
    """Return entries of which every `won`-th succeeds, and every `errors`-th ends in an error."""
    return [
        standard(
            number,
            success=number % won == 0 and not (errors and number % errors == 1),
            input=f"prompt {number}",
            lang=LANGUAGES[number % 3],
            error="down" if errors and number % errors == 1 else None,
        )
        for number in range(first, first + count)
    ]


@pytest.fixture
def runs(write: Write) -> list[tuple[str, Rows]]:
    """Three runs: the second lacks entries at the beginning and has some more at the end; the third has errors."""
    made = {"a": entries(90, 2), "b": entries(90, 3, first=6), "c": entries(90, 5, errors=7)}
    return [(write(rows, f"results_{name}.jsonl"), rows) for name, rows in made.items()]


def outcome(row: dict[str, Any]) -> str:
    return "error" if row["error"] else "success" if row["success"] else "failure"


def ends(rows: Rows) -> dict[str, str]:
    return {str(row["id"]): outcome(row) for row in rows}


def cell(one: str, other: str) -> str:
    if "error" in (one, other):
        return "undecided"
    names = {(True, True): "both", (True, False): "only_a", (False, True): "only_b", (False, False): "neither"}
    return names[one == "success", other == "success"]


def test_pairs_are_those_that_python_finds(runs: list[tuple[str, Rows]]) -> None:
    for (path_a, rows_a), (path_b, rows_b) in ((runs[0], runs[1]), (runs[0], runs[2]), (runs[2], runs[1])):
        with open_results(path_a) as a, open_results(path_b) as b:
            found = open_comparison([a, b], CompareOptions())
        (listed,) = found.lists
        first, second = ends(rows_a), ends(rows_b)
        shared = [name for name in first if name in second]
        assert list(listed.ids) == shared
        ended = Counter(cell(first[name], second[name]) for name in shared)
        assert listed.counts(slice(None)) == {name: ended[name] for name in CELLS}
        alone = [sum(len(lines) for lines in one.values()) for one in listed.alone]
        assert alone == [len(first) - len(shared), len(second) - len(shared)]


def test_lines_lead_to_the_entries(runs: list[tuple[str, Rows]]) -> None:
    with open_results(runs[0][0]) as a, open_results(runs[1][0]) as b:
        (listed,) = open_comparison([a, b], CompareOptions()).lists
    for place, name in enumerate(listed.ids):
        for side, (_, rows) in enumerate(runs[:2]):
            assert str(rows[int(listed.lines[side][place]) - 1]["id"]) == name
        assert listed.place(int(listed.lines[1][place])) == place
    assert listed.place(10_000) is None


def test_filters_choose_what_they_say(runs: list[tuple[str, Rows]]) -> None:
    with open_results(runs[0][0]) as a, open_results(runs[1][0]) as b:
        (listed,) = open_comparison([a, b], CompareOptions()).lists
    first, second = ends(runs[0][1]), ends(runs[1][1])
    languages = {str(row["id"]): row["lang"] for row in runs[0][1]}
    wanted = listed.chosen(["only_a"], {"lang": ["de"]})
    assert [listed.ids[place] for place in wanted.nonzero()[0]] == [
        name for name in listed.ids if cell(first[name], second[name]) == "only_a" and languages[name] == "de"
    ]
    by_value = dict(listed.by_value("lang", listed.chosen(["only_a", "only_b"])))
    flipped = [languages[name] for name in listed.ids if cell(first[name], second[name]).startswith("only")]
    assert by_value == Counter(flipped)
    assert not listed.chosen((), {"nothing": ["x"]}).any()
    assert listed.chosen(lines=[int(listed.lines[1][3])]).nonzero()[0].tolist() == [3]


def test_the_comparison_is_that_of_the_files(runs: list[tuple[str, Rows]]) -> None:
    paths = [path for path, _ in runs]
    with open_results(paths[0]) as a, open_results(paths[1]) as b, open_results(paths[2]) as c:
        found = open_comparison([a, b, c], CompareOptions())
    assert document_of(found.comparison) == document_of(compare_files(paths))


def test_the_grid_has_the_entries_that_are_not_alike_in_all_runs(runs: list[tuple[str, Rows]]) -> None:
    paths, outcomes = [path for path, _ in runs], [ends(rows) for _, rows in runs]
    with open_results(paths[0]) as a, open_results(paths[1]) as b, open_results(paths[2]) as c:
        grid = open_comparison([a, b, c], CompareOptions()).grid
    assert grid is not None
    rows, kinds = grid.differing()
    different = {}
    for name in outcomes[0]:
        ended = [one.get(name) for one in outcomes]
        if "success" in ended and "failure" in ended:
            different[name] = tuple(number for number, one in enumerate(ended) if one == "success")
    assert {grid.ids[row] for row in rows} == set(different)
    assert dict(kinds) == Counter(different.values())
    assert [count for _, count in kinds] == sorted((count for _, count in kinds), reverse=True)
    followed = [different[grid.ids[row]] for row in rows]
    assert followed == [kind for kind, count in kinds for _ in range(count)]
    for row in rows:
        shown = [grid.outcome(row, number) for number in range(3)]
        assert [None if one is None else one.value for one in shown] == [one.get(grid.ids[row]) for one in outcomes]


def test_runs_that_are_alike_have_an_empty_grid(write: Write) -> None:
    paths = [write(entries(10, 2), f"results_{name}.jsonl") for name in "abc"]
    with open_results(paths[0]) as a, open_results(paths[1]) as b, open_results(paths[2]) as c:
        grid = open_comparison([a, b, c], CompareOptions()).grid
    assert grid is not None
    rows, kinds = grid.differing()
    assert (len(rows), kinds) == (0, [])
