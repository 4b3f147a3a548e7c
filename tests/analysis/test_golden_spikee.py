"""Faircount beside real runs of spikee: by spikee's definition the same figures, by its own only the intended others.

The golden runs are spikee 0.9.2 from PyPI, a few of them 0.9.1; the published files come with the pages that spikee
0.1 made of them. What each run printed is the oracle; nothing here is compared with our own output.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from faircount import Analysis, Estimate
from faircount.core import Group
from tests.analysis.spikee_output import NINE_FIELDS, Combination, Printed, Row, Value, read_console, read_page
from tests.conftest import ROOT, Cli, Write, analysis_of, codes, shared_folder, some, standard

SHARED = shared_folder()
GOLDEN = (SHARED or Path("shared")) / "golden" / "spikee"
WORKSPACE = GOLDEN / "ws"
PUBLISHED = (SHARED or Path("shared")) / "data" / "spikee-v0.1"
SPIKEE = ROOT / ".venv-peers" / "bin" / "spikee"
DIFFERENCES_PAGE = ROOT / "docs" / "reference" / "differences-from-spikee.md"

needs_shared = pytest.mark.skipif(
    SHARED is None, reason="the shared files are not here (FAIRCOUNT_SHARED or ../shared)"
)
needs_spikee = pytest.mark.skipif(not SPIKEE.exists(), reason="spikee is not installed (make peers)")

UNNAMED = "(unnamed)"
COMBINATIONS_SHOWN = 10

# -- the golden runs -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One run of `spikee results analyze`: what it was asked, and how it ended."""

    name: str
    version: str
    code: int
    files: tuple[str, ...]
    folders: tuple[str, ...]
    benign: str | None
    combine: bool
    page: bool

    @property
    def paths(self) -> list[str]:
        """The files that the command stands for, those of a folder by name."""
        found = [path for folder in self.folders for path in sorted((WORKSPACE / folder).glob("*.jsonl"))]
        return [str(WORKSPACE / name) for name in self.files] + [str(path) for path in found]


def golden_case(folder: Path) -> Case:
    ran = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser()
    parser.add_argument("--result-file", action="append", default=[])
    parser.add_argument("--result-folder", action="append", default=[])
    parser.add_argument("--false-positive-checks")
    parser.add_argument("--output-format", default="console")
    parser.add_argument("--combine", action="store_true")
    parser.add_argument("--overview", action="store_true")
    asked = parser.parse_args(ran["argv"][3:])
    return Case(
        folder.name,
        ran["version"],
        ran["rc"],
        tuple(asked.result_file),
        tuple(asked.result_folder),
        asked.false_positive_checks,
        asked.combine,
        asked.output_format == "html",
    )


CASES = {folder.name: golden_case(folder) for folder in sorted((GOLDEN / "out").glob("analyze_*"))}


@cache
def printed(case: Case) -> tuple[Printed, ...]:
    """Return the reports that spikee gave, on the console or as a page."""
    if case.page:
        pages = sorted((GOLDEN / "out" / case.name / "files").rglob("*.html"))
        return tuple(read_page(page.read_text(encoding="utf-8")) for page in pages)
    return tuple(read_console((GOLDEN / "out" / case.name / "stdout.txt").read_text(encoding="utf-8")))


def analyses(case: Case, definition: str) -> dict[str, Analysis]:
    """Return what Faircount says of the same files, by the name that spikee gives the report."""
    benign = None if case.benign is None else WORKSPACE / case.benign
    # spikee goes on without a benign file that is not there; that Faircount refuses is tested below.
    checks = str(benign) if benign is not None and benign.exists() else None
    if case.combine:
        return {"Combined": analysed(tuple(case.paths), definition, checks)}
    return {str(Path(path).relative_to(WORKSPACE)): analysed((path,), definition, checks) for path in case.paths}


@cache
def analysed(paths: tuple[str, ...], definition: str, checks: str | None = None) -> Analysis:
    return analysis_of(*paths, definition=definition, combine=len(paths) > 1, false_positive_checks=checks)


EMPTY = ("analyze_edge_empty", "analyze_html_empty")
"""Runs over a file without a line: no report on the console, a page full of zeros."""

MERGED_BY_091 = "analyze_edge_idattack_named_v091"
"""0.9.1 takes every id that contains -attack for an attack row; 0.9.2 asks whether the row names an attack."""

ATTACK_ROWS_091 = ("analyze_bon_v091", "analyze_only_v091")
"""Files in which an entry has several attack rows: 0.9.1's table counts the rows, 0.9.2's the entries."""


def compared() -> Iterator[tuple[Case, Printed]]:
    for case in CASES.values():
        if case.code == 0 and case.name not in EMPTY:
            yield from ((case, report) for report in printed(case))


def always(_: Printed) -> bool:
    return True


def reports(shows: Callable[[Printed], object] = always, *, without: Sequence[str] = ()) -> list[Any]:
    """Return the reports that show something, as parameters of a test."""
    return [
        pytest.param(case, report, id=f"{case.name}-{Path(report.name).stem}" if len(printed(case)) > 1 else case.name)
        for case, report in compared()
        if shows(report) and case.name not in without
    ]


# -- Faircount's figures, under spikee's names -----------------------------------------------------------------


def percent(estimate: Estimate) -> str:
    return "undefined" if estimate.value is None else f"{100 * estimate.value:.2f}%"


def decimals(estimate: Estimate) -> str:
    return "undefined" if estimate.value is None else f"{estimate.value:.4f}"


def share(count: int, total: int) -> str:
    return f"{100 * count / total:.2f}%" if total else "undefined"


def as_printed(a: Analysis) -> Printed:
    """Return an analysis in the shape of spikee's report. Blocks are put back among the errors, as spikee has them."""
    return Printed(
        name=a.name,
        general=general_figures(a),
        attacks=attack_figures(a),
        false_positives=false_positive_figures(a),
        breakdowns={field: {g.value: group_figures(a, g) for g in a.breakdowns[field]} for field in NINE_FIELDS},
        categories={c.category: {"entries": c.entries, "rate": percent(c.rate)} for c in a.guardrail_categories},
        most=[(tuple(g.values.values()), group_figures(a, g)) for g in a.combinations.most],
        least=[(tuple(g.values.values()), group_figures(a, g)) for g in a.combinations.least],
    )


def errors_with_blocks(a: Analysis, error: int, guardrail: int) -> int:
    return error if a.definition == "spikee" else error + guardrail


def general_figures(a: Analysis) -> Row:
    tally = a.tally
    errors = errors_with_blocks(a, tally.error, tally.guardrail)
    figures: Row = {
        "total": tally.total,
        "success": tally.success,
        "failure": tally.failure,
        "error": errors,
        "guardrail": tally.guardrail,
        "attempts": a.attempts,
        "success_rate": percent(a.rates.asr),
        "failure_rate": share(tally.failure, tally.total),
        "error_rate": share(errors, tally.total),
        "guardrail_rate": share(tally.guardrail, tally.total),
    }
    if a.dynamic is not None:
        figures |= {
            "initial": a.dynamic.initially_successful,
            "attack_only": a.dynamic.only_with_attack,
            "initial_rate": percent(a.dynamic.initial_rate),
            "improvement": percent(a.dynamic.improvement),
        }
    return figures


def attack_figures(a: Analysis) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for f in a.dynamic.attacks if a.dynamic is not None else ():
        found[f.attack] = {
            "total": f.total,
            "successes": f.successes,
            "attempts": f.attempts,
            "rate": percent(f.rate),
        }
        if f.guardrail_entries is not None:
            found[f.attack]["guardrail"] = f.guardrail_entries
    return found


def source_figures(a: Analysis) -> list[tuple[str, Row]]:
    return [
        (
            Path(s.path).stem,
            {
                "attempts": s.attempts,
                "successes": s.tally.success,
                "failed": s.tally.failure,
                "guardrail": s.tally.guardrail,
                "errors": errors_with_blocks(a, s.tally.error, s.tally.guardrail),
                "rate": percent(s.rate),
            },
        )
        for s in a.by_source
    ]


def false_positive_figures(a: Analysis) -> Row | None:
    result = a.false_positives
    if result is None:
        return None
    return {
        "tp": result.tp,
        "fn": result.fn,
        "tn": result.tn,
        "fp": result.fp,
        "precision": decimals(result.precision),
        "recall": decimals(result.recall),
        "f1": decimals(result.f1),
        "accuracy": decimals(result.accuracy),
    }


def group_figures(a: Analysis, group: Group) -> Row:
    return {
        "total": group.tally.total,
        "successes": group.tally.success,
        "initial": group.initial,
        "attack_only": group.attack_only,
        "attempts": group.attempts,
        "guardrail": group.guardrail_any if a.definition == "spikee" else group.tally.guardrail,
        "rate": percent(group.rate),
        "initial_rate": percent(group.initial_rate),
        "improvement": percent(group.improvement),
        "guardrail_rate": percent(group.guardrail_rate),
    }


def only(row: Row, columns: Mapping[str, object]) -> Row:
    """Return the figures of a row that the other side shows, too."""
    return {name: value for name, value in row.items() if name in columns}


# -- by spikee's definition ------------------------------------------------------------------------------------


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize(("case", "report"), reports(lambda report: report.general, without=[MERGED_BY_091]))
def test_spikees_definition_gives_its_general_figures(case: Case, report: Printed) -> None:
    ours = general_figures(analyses(case, "spikee")[report.name])
    assert only(ours, report.general) == report.general


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize(("case", "report"), reports(without=[MERGED_BY_091, *ATTACK_ROWS_091]))
def test_spikees_definition_gives_its_table_of_dynamic_attacks(case: Case, report: Printed) -> None:
    ours = attack_figures(analyses(case, "spikee")[report.name])
    shown = {attack: only(row, report.attacks.get(attack, row)) for attack, row in ours.items() if attack != UNNAMED}
    assert shown == report.attacks


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize(("case", "report"), reports(lambda report: report.sources))
def test_spikees_definition_gives_its_table_of_sources(case: Case, report: Printed) -> None:
    assert report.sources is not None
    ours = source_figures(analyses(case, "spikee")[report.name])
    assert sorted(ours, key=lambda item: item[0]) == sorted(report.sources.items())


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize(("case", "report"), reports(lambda report: report.false_positives))
def test_spikees_definition_gives_its_false_positive_figures(case: Case, report: Printed) -> None:
    assert false_positive_figures(analyses(case, "spikee")[report.name]) == report.false_positives


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize(("case", "report"), reports(lambda report: report.breakdowns, without=[MERGED_BY_091]))
def test_spikees_definition_gives_its_nine_breakdowns(case: Case, report: Printed) -> None:
    assert report.breakdowns is not None
    ours = as_printed(analyses(case, "spikee")[report.name]).breakdowns
    assert ours is not None
    assert breakdowns_like(ours, report.breakdowns) == report.breakdowns


def breakdowns_like(
    ours: Mapping[str, Mapping[Value, Row]], theirs: Mapping[str, Mapping[Value, Row]]
) -> dict[str, dict[Value, Row]]:
    """Return our groups, all of them, with the columns that their tables have."""
    return {
        field: {value: only(row, next(iter(theirs[field].values()), row)) for value, row in groups.items()}
        for field, groups in ours.items()
    }


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize(("case", "report"), reports(lambda report: report.categories is not None))
def test_spikees_definition_gives_its_guardrail_categories(case: Case, report: Printed) -> None:
    assert as_printed(analyses(case, "spikee")[report.name]).categories == report.categories


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize(("case", "report"), reports(lambda report: report.most, without=[MERGED_BY_091]))
def test_spikees_definition_ranks_the_same_combinations(case: Case, report: Printed) -> None:
    ours = as_printed(analyses(case, "spikee")[report.name])
    assert same_ranking(ours.most, report.most, at_the_edge=min)
    assert same_ranking(ours.least, report.least, at_the_edge=max)


def same_ranking(
    ours: Sequence[Combination] | None,
    theirs: Sequence[Combination] | None,
    *,
    at_the_edge: Callable[[list[Fraction]], Fraction],
) -> bool:
    """Tell whether two rankings agree. A full table may end inside a tie, where each is free to choose."""
    assert ours and theirs
    mine = {values: only(row, theirs[0][1]) for values, row in ours}
    rates = sorted(exact_rate(row) for row in mine.values())
    if rates != sorted(exact_rate(row) for _, row in theirs):
        return False
    if len(theirs) < COMBINATIONS_SHOWN:
        return mine == dict(theirs)
    edge = at_the_edge(rates)
    free = {values for values, row in theirs if exact_rate(row) == edge and values not in mine}
    bound = {values: row for values, row in theirs if values not in free}
    left = [row for values, row in mine.items() if values not in bound]
    return all(mine[values] == row for values, row in bound.items()) and {exact_rate(row) for row in left} <= {edge}


def exact_rate(row: Row) -> Fraction:
    return Fraction(int(row["successes"]), int(row["total"]))


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize(
    ("name", "entries", "attempts"), [("analyze_edge_idattack", 1, 3), ("analyze_edge_oldattack", 1, 7)]
)
def test_attack_rows_that_name_no_attack_get_a_line_that_spikee_has_not(name: str, entries: int, attempts: int) -> None:
    (report,) = printed(CASES[name])
    ours = attack_figures(analyses(CASES[name], "spikee")[report.name])
    assert report.attacks == {}
    assert {attack: (row["total"], row["attempts"]) for attack, row in ours.items()} == {UNNAMED: (entries, attempts)}


# -- 0.9.1, where it differs from 0.9.2 ------------------------------------------------------------------------


@pytest.mark.shared
@needs_shared
def test_ids_that_merely_contain_attack_are_counted_as_0_9_2_does_not_as_0_9_1_did() -> None:
    (old,), (new,) = printed(CASES[MERGED_BY_091]), printed(CASES["analyze_edge_idattack_named"])
    ours = as_printed(analyses(CASES[MERGED_BY_091], "spikee")[old.name])
    assert (old.general["total"], new.general["total"]) == (1, 3)
    assert only(ours.general, new.general) == new.general
    assert ours.breakdowns is not None and new.breakdowns is not None
    assert breakdowns_like(ours.breakdowns, new.breakdowns) == new.breakdowns


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize("name", ATTACK_ROWS_091)
def test_the_attack_table_counts_entries_as_0_9_2_does_not_rows_as_0_9_1_did(name: str) -> None:
    (old,), (new,) = printed(CASES[name]), printed(CASES[name.removesuffix("_v091")])
    ours = attack_figures(analyses(CASES[name], "spikee")[old.name])
    (path,) = CASES[name].paths
    rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    ((attack, counted),) = old.attacks.items()
    assert counted["total"] == sum(row["attack_name"] == attack for row in rows)
    assert int(counted["total"]) > int(new.attacks[attack]["total"])
    assert ours == new.attacks


# -- by Faircount's own definition -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """A figure that differs on purpose: what spikee prints, what Faircount says, and why."""

    spikee: int | str | None
    faircount: int | str | None
    reason: str


Pinned = dict[str, tuple[int | str | None, int | str | None]]


def because(reason: str, figures: Pinned) -> dict[str, Difference]:
    return {figure: Difference(spikee, faircount, reason) for figure, (spikee, faircount) in figures.items()}


def in_each(groups: Sequence[str], column: str, spikee: int, faircount: int) -> Pinned:
    return {f"{group} {column}": (spikee, faircount) for group in groups}


EDGE_GROUPS = (
    "jailbreak_type='dan'",
    "instruction_type='xss'",
    "task_type='document'",
    "position='end'",
    "spotlighting_data_markers=None",
    r"injection_delimiters='\nINJECTION_PAYLOAD\n'",
    "lang='en'",
    "suffix_id=None",
    "plugin=None",
)
"""The only group of each of the nine fields, in the hand-made files."""

STANDALONE_GROUPS = (
    "jailbreak_type=None",
    "instruction_type=None",
    "task_type=None",
    "position=None",
    "spotlighting_data_markers=None",
    "injection_delimiters=None",
)
"""The groups of the inputs that stand for themselves, which share their ids."""

EVERYTHING = ("lang='en'", "plugin=None")
"""Groups that hold every entry of the files with shared ids."""

SHARED_IDS = "inputs that stand for themselves share an id across suffixes; each of them is an entry"
IN_HISTORY = "blocks inside an attack stand in its history, not in a flag; an entry with any of them counts"
NOT_TOLD = "without a history the file does not tell how often an attack was blocked"
ID_LIKE_ATTACK = "ids that look like attack rows' but belong to no entry are entries"
UNJUDGED = "what nothing judged has not failed"
FLAG_ALONE = "a guardrail flag is a block, whether or not an error stands beside it"
WORD_FALSE = "the word false is no success"
GIVEN_TWICE = "a file that is given twice is counted once"
RAISED_IS_BLOCK = "a raised guardrail is a block, so a true positive"
POLICY_IS_BLOCK = "a prompt that the provider refused by its policy is a block; its error stays in the sum below"
ERROR_IS_NO_BLOCK = "an error on a benign prompt is not a block"

BON_SPLIT = because(
    SHARED_IDS,
    {
        "total": (50, 54),
        "failure": (35, 39),
        **in_each(STANDALONE_GROUPS, "total", 2, 6),
        **in_each(EVERYTHING, "total", 50, 54),
        "suffix_id=None attempts": (204, 174),
        "suffix_id='adv-suffix-random-01' total": (16, 18),
        "suffix_id='adv-suffix-random-01' attempts": (115, 130),
        "suffix_id='adv-suffix-random-03' total": (16, 18),
        "suffix_id='adv-suffix-random-03' attempts": (137, 152),
    },
)
ONLY_SPLIT = because(
    SHARED_IDS,
    {
        "total": (50, 54),
        "success": (40, 42),
        "attack_only": (40, 42),
        "error": (2, 4),
        **in_each(STANDALONE_GROUPS, "total", 2, 6),
        **in_each(STANDALONE_GROUPS, "successes", 2, 4),
        **in_each(STANDALONE_GROUPS, "attack_only", 2, 4),
        **in_each(EVERYTHING, "total", 50, 54),
        **in_each(EVERYTHING, "successes", 40, 42),
        **in_each(EVERYTHING, "attack_only", 40, 42),
        "suffix_id=None successes": (15, 14),
        "suffix_id=None attack_only": (15, 14),
        "suffix_id=None attempts": (37, 29),
        "suffix_id='adv-suffix-random-01' total": (16, 18),
        "suffix_id='adv-suffix-random-01' successes": (12, 14),
        "suffix_id='adv-suffix-random-01' attack_only": (12, 14),
        "suffix_id='adv-suffix-random-01' attempts": (31, 37),
        "suffix_id='adv-suffix-random-03' total": (16, 18),
        "suffix_id='adv-suffix-random-03' successes": (13, 14),
        "suffix_id='adv-suffix-random-03' attack_only": (13, 14),
        "suffix_id='adv-suffix-random-03' attempts": (30, 32),
    },
)
BON_BLOCKS = because(IN_HISTORY, {"attack best_of_n guardrail": (0, 25)})
ONLY_BLOCKS = because(IN_HISTORY, {"attack h_variants guardrail": (0, 6)})
DYN_BLOCKS = because(IN_HISTORY, {"attack h_variants guardrail": (0, 346)})
MULTI_BLOCKS = because(NOT_TOLD, {"attack multi_turn guardrail": (0, None)})
GUARDMIX = because(
    FLAG_ALONE,
    # Of four entries spikee has one failed (the flag without an error); Faircount has it blocked, as it has entry 2.
    {"failure": (1, 0), "error": (3, 4), "guardrail": (1, 2)},
) | because(NOT_TOLD, {"attack goat guardrail": (0, None)})
IDS_APART = because(
    ID_LIKE_ATTACK,
    {
        "total": (1, 3),
        "failure": (0, 2),
        "initial": (0, None),
        "attack_only": (1, None),
        **in_each(EDGE_GROUPS, "total", 1, 3),
        **in_each(EDGE_GROUPS, "initial", 0, 1),
        **in_each(EDGE_GROUPS, "attack_only", 1, 0),
    },
)
OLD_ATTACK = because(
    "attack rows that name no attack get a line of their own",
    {
        f"attack {UNNAMED} total": (None, 1),
        f"attack {UNNAMED} successes": (None, 1),
        f"attack {UNNAMED} attempts": (None, 7),
    },
)
MID_FILE = "results_h_bot-mid_cybersec-2026-01-user-input-atk-dataset-1700000001_1700001001"

INTENDED: dict[str, dict[str, Difference]] = {
    "analyze_bon": BON_SPLIT | BON_BLOCKS | because(SHARED_IDS, {"attack best_of_n total": (35, 39)}),
    "analyze_bon_v091": BON_SPLIT | BON_BLOCKS,
    "analyze_only": ONLY_SPLIT
    | ONLY_BLOCKS
    | because(SHARED_IDS, {"attack h_variants total": (50, 54), "attack h_variants successes": (40, 42)}),
    "analyze_only_v091": ONLY_SPLIT | ONLY_BLOCKS,
    "analyze_dyn": DYN_BLOCKS,
    "analyze_dyn_v091": DYN_BLOCKS,
    "analyze_dyn_overview": DYN_BLOCKS,
    "analyze_combine_dyn": DYN_BLOCKS,
    "analyze_multi": MULTI_BLOCKS,
    "analyze_multi_v091": MULTI_BLOCKS,
    "analyze_combine_same_twice": because(
        GIVEN_TWICE, {"attempts": (1624, 812), f"source {MID_FILE} attempts": (1624, 812)}
    ),
    "analyze_edge_attacksuffix": because(NOT_TOLD, {"attack best_of_n guardrail": (0, None)}),
    "analyze_edge_attacksuffix_v091": because(NOT_TOLD, {"attack best_of_n guardrail": (0, None)}),
    "analyze_edge_guardmix": GUARDMIX,
    "analyze_edge_guardmix_v091": GUARDMIX,
    "analyze_edge_idattack": IDS_APART,
    "analyze_edge_idattack_named_v091": IDS_APART,
    "analyze_edge_manual_edge": because(UNJUDGED, {"failure": (3, 1)}),
    "analyze_edge_oldattack": OLD_ATTACK,
    "analyze_edge_oldattack_v091": OLD_ATTACK,
    "analyze_edge_orphan": because(
        NOT_TOLD, {"attack goat guardrail": (0, None), "attack crescendo guardrail": (0, None)}
    ),
    "analyze_edge_strsuccess": because(
        # One of spikee's two failed entries is unjudged, and one of its two successes has failed: failed stays 2.
        WORD_FALSE,
        {"success": (2, 1), **in_each(EDGE_GROUPS, "successes", 2, 1)},
    ),
    "analyze_edge_typemix": because(NOT_TOLD, {"attack a guardrail": (0, None)}),
    "analyze_edge_workshop_edge": because(UNJUDGED, {"failure": (3, 0)})
    | because(FLAG_ALONE, {"error": (0, 1), "guardrail": (0, 1)}),
    "analyze_v01_o1": because(
        POLICY_IS_BLOCK, {"guardrail": (0, 106), "category openai-usage-policy entries": (None, 106)}
    ),
    "analyze_fp_exc": because(
        RAISED_IS_BLOCK,
        {
            "tp": (66, 116),
            "precision": ("0.5238", "0.6591"),
            "recall": ("0.5323", "0.6667"),
            "f1": ("0.5280", "0.6629"),
            "accuracy": ("0.5000", "0.5874"),
        },
    ),
    "analyze_fp_flaky": because(
        ERROR_IS_NO_BLOCK,
        {
            "fp": (60, 43),
            "precision": ("0.6739", "0.7425"),
            "f1": ("0.7359", "0.7750"),
            "accuracy": ("0.6642", "0.7097"),
        },
    ),
}
"""Every figure of a golden run that Faircount's own definition changes. `error` is errors and blocks together: by
Faircount's definition a block is not among the errors, so spikee's count must be the sum of the two."""


def counted(report: Printed) -> dict[str, Row]:
    """Return the counts of a report by part; rates follow from them, and a breakdown's blocks mean something else."""
    parts: dict[str, Row] = {"": {name: value for name, value in report.general.items() if "rate" not in name}}
    parts[""].pop("improvement", None)
    parts[""] |= report.false_positives or {}
    for attack, row in report.attacks.items():
        parts[f"attack {attack}"] = row
    for source, row in (report.sources or {}).items():
        parts[f"source {source}"] = row
    for category, row in (report.categories or {}).items():
        parts[f"category {category}"] = row
    for field, groups in (report.breakdowns or {}).items():
        for value, row in groups.items():
            parts[f"{field}={value!r}"] = {name: figure for name, figure in row.items() if name != "guardrail"}
    return {
        part: {name: value for name, value in row.items() if name != "improvement" and not name.endswith("rate")}
        for part, row in parts.items()
    }


def shown_as(report: Printed, a: Analysis) -> Printed:
    """Return an analysis in the shape of a report, without the parts that the report does not show."""
    ours = as_printed(a)
    ours.sources = dict(source_figures(a)) if report.sources is not None else None
    for part in ("false_positives", "breakdowns", "categories"):
        if getattr(report, part) is None:
            setattr(ours, part, None)
    return ours


def differences(theirs: dict[str, Row], ours: dict[str, Row]) -> Pinned:
    """Return every figure in which the two sides differ, and every row that only one side has."""
    found: Pinned = {}
    for part in {**theirs, **ours}:
        columns = theirs.get(part) or ours[part]
        for name in columns:
            pair = theirs.get(part, {}).get(name), ours.get(part, {}).get(name)
            if pair[0] != pair[1]:
                found[f"{part} {name}".strip()] = pair
    return found


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize(("case", "report"), reports())
def test_the_default_figures_differ_from_spikees_only_where_intended(case: Case, report: Printed) -> None:
    ours = shown_as(report, analyses(case, "faircount")[report.name])
    intended = INTENDED.get(case.name, {})
    assert differences(counted(report), counted(ours)) == {
        figure: (difference.spikee, difference.faircount) for figure, difference in intended.items()
    }


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize(("case", "report"), reports())
def test_by_default_every_entry_has_exactly_one_outcome_in_all_tables(case: Case, report: Printed) -> None:
    a = analyses(case, "faircount")[report.name]
    tallies = [a.tally, *(group.tally for groups in a.breakdowns.values() for group in groups)]
    for tally in some(tallies):
        assert tally.success + tally.failure + tally.error + tally.guardrail + tally.unjudged == tally.total
    for field in some(NINE_FIELDS):
        groups = [group.tally for group in a.breakdowns[field]]
        assert sum(tally.total for tally in groups) == a.tally.total
        assert sum(tally.guardrail for tally in groups) == a.tally.guardrail


@pytest.mark.shared
@needs_shared
def test_every_golden_analysis_is_spoken_for() -> None:
    checked = {case.name for case, _ in compared()}
    assert checked | {*EMPTY, *DAMAGED, *REFUSED} == set(CASES)
    assert set(INTENDED) <= checked
    assert all(difference.reason for intended in INTENDED.values() for difference in intended.values())


# -- where spikee gives up -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sensible:
    """What should be made of a file on which spikee ends with a traceback."""

    entries: dict[str, int]
    attempts: int
    findings: dict[str, int]
    plugin: str | None = None
    strict_code: int = 0


ONE_FAILED = {"total": 1, "success": 0, "failure": 1, "error": 0, "guardrail": 0, "unjudged": 0}

DAMAGED: dict[str, Sensible | None] = {
    "analyze_edge_bom": Sensible(ONE_FAILED, 1, {}),
    "analyze_edge_truncated": Sensible(ONE_FAILED, 1, {"F001": 1}, strict_code=3),
    "analyze_edge_nonobject": Sensible(ONE_FAILED, 1, {"F001": 1}, strict_code=3),
    "analyze_edge_nullattempts": Sensible(ONE_FAILED, 1, {"F013": 1}),
    "analyze_edge_listplugin": Sensible(ONE_FAILED, 1, {}, plugin='["a","b"]'),
    "analyze_edge_noid": None,
}
"""Without an id there is nothing to count: the only row of that file is refused."""

READABLE = [name for name, sensible in DAMAGED.items() if sensible is not None]


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize("name", READABLE)
def test_a_file_on_which_spikee_crashes_is_counted(name: str, cli: Cli) -> None:
    sensible = DAMAGED[name]
    assert sensible is not None
    assert CASES[name].code == 1
    ran = cli("results", "analyze", *CASES[name].paths, "--output-format", "json")
    assert ran.code == 0
    (document,) = json.loads(ran.out)["analyses"]
    assert document["entries"] == sensible.entries
    assert document["attempts"] == sensible.attempts
    assert [group["value"] for group in document["breakdowns"]["plugin"]] == [sensible.plugin]
    assert {finding["code"]: finding["count"] for finding in document["findings"]} == sensible.findings


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize("name", READABLE)
def test_strict_ends_with_3_where_a_line_was_lost(name: str, cli: Cli) -> None:
    sensible = DAMAGED[name]
    assert sensible is not None
    assert cli("results", "analyze", *CASES[name].paths, "--strict").code == sensible.strict_code


@pytest.mark.shared
@needs_shared
def test_a_file_without_one_countable_row_is_bad_input(cli: Cli) -> None:
    ran = cli("results", "analyze", *CASES["analyze_edge_noid"].paths)
    assert (ran.code, ran.out) == (3, "")
    assert "no id" in ran.err


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_file_has_no_entries_and_no_rate(name: str, cli: Cli) -> None:
    ran = cli("results", "analyze", *CASES[name].paths, "--output-format", "json")
    assert ran.code == CASES[name].code == 0
    (document,) = json.loads(ran.out)["analyses"]
    assert document["entries"]["total"] == 0
    assert document["rates"]["asr"]["value"] is None
    assert [finding["code"] for finding in document["findings"]] == ["F026"]


REFUSED = {"analyze_nofile": 2, "analyze_missing": 3, "analyze_fp_multi_error": 2}
"""Requests that spikee ends with exit code 1, and the code that says more."""


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize(("name", "code"), REFUSED.items())
def test_what_spikee_refuses_is_refused_with_a_telling_exit_code(name: str, code: int, cli: Cli) -> None:
    case = CASES[name]
    benign = [] if case.benign is None else ["--false-positive-checks", str(WORKSPACE / case.benign)]
    ran = cli("results", "analyze", *case.paths, *benign)
    assert case.code == 1
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("faircount")


@pytest.mark.shared
@needs_shared
def test_a_missing_benign_file_is_bad_input_and_not_a_report_without_it(cli: Cli) -> None:
    case = CASES["analyze_fp_missing"]
    assert case.benign is not None
    ran = cli("results", "analyze", *case.paths, "--false-positive-checks", str(WORKSPACE / case.benign))
    assert (ran.code, ran.out) == (3, "")
    assert case.benign in ran.err


@pytest.mark.shared
@needs_shared
def test_a_damaged_benign_file_still_gives_a_matrix_with_its_good_lines(cli: Cli) -> None:
    case = CASES["analyze_fp_malformed"]
    assert case.benign is not None
    words = ["results", "analyze", *case.paths, "--false-positive-checks", str(WORKSPACE / case.benign)]
    ran = cli(*words, "--output-format", "json")
    (document,) = json.loads(ran.out)["analyses"]
    assert ran.code == 0
    assert {cell: document["false_positives"][cell] for cell in ("tp", "fn", "tn", "fp")} == {
        "tp": 134,
        "fn": 40,
        "tn": 0,
        "fp": 1,
    }
    assert "F001" in [finding["code"] for finding in document["findings"]]
    assert cli(*words, "--strict").code == 3


@pytest.mark.shared
@needs_shared
def test_a_folder_is_read_by_name_whatever_order_the_disk_has(cli: Cli) -> None:
    case = CASES["analyze_folder3_overview"]
    (folder,) = case.folders
    ran = cli("results", "analyze", "--result-folder", str(WORKSPACE / folder), "--output-format", "json")
    names = [Path(document["name"]).name for document in json.loads(ran.out)["analyses"]]
    assert names == sorted(Path(report.name).name for report in printed(case))
    assert names != [Path(report.name).name for report in printed(case)]


# -- the published files and the pages that spikee 0.1 made of them --------------------------------------------

PUBLISHED_FILES = sorted(PUBLISHED.glob("*.jsonl"))


@cache
def published_page(path: Path) -> Printed:
    return read_page(path.with_name(f"{path.stem}_analysis.html").read_text(encoding="utf-8"))


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize("definition", ["spikee", "faircount"])
@pytest.mark.parametrize("path", PUBLISHED_FILES, ids=lambda path: path.stem)
def test_a_published_file_gives_the_figures_of_its_page(path: Path, definition: str) -> None:
    page, ours = published_page(path), as_printed(analysed((str(path),), definition))
    assert only(ours.general, page.general) == page.general
    assert ours.breakdowns is not None and page.breakdowns is not None
    assert breakdowns_like(ours.breakdowns, page.breakdowns) == page.breakdowns


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize("path", PUBLISHED_FILES, ids=lambda path: path.stem)
def test_a_published_file_ranks_the_combinations_of_its_page(path: Path) -> None:
    page, ours = published_page(path), as_printed(analysed((str(path),), "spikee"))
    assert same_ranking(ours.most, page.most, at_the_edge=min)
    assert same_ranking(ours.least, page.least, at_the_edge=max)


@pytest.mark.shared
@needs_shared
@pytest.mark.parametrize("path", PUBLISHED_FILES, ids=lambda path: path.stem)
def test_only_the_published_guardrails_look_like_the_old_kind(path: Path) -> None:
    is_guardrail = any(word in path.stem for word in ("guardrail", "prompt_shields", "prompt_guard"))
    assert ("F010" in codes(analysed((str(path),), "faircount"))) == is_guardrail


# -- the page for users ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    """A worked example of the page: files, the words of the command, and the figures claimed for each side."""

    heading: str
    files: Mapping[str, str]
    command: tuple[str, ...]
    claims: Mapping[str, tuple[str, str]]


LABELS = {
    "Total unique entries": "total",
    "Successful attacks": "success",
    "Failed attacks": "failure",
    "Errors": "error",
    "Guardrail triggers": "guardrail",
    "Total attempts": "attempts",
}
MATRIX_LABELS = {
    "True positives": "tp",
    "False negatives": "fn",
    "True negatives": "tn",
    "False positives": "fp",
    "Precision": "precision",
    "Recall": "recall",
    "F1": "f1",
    "Accuracy": "accuracy",
}
NOT_THERE = "–"


def worked_examples() -> Iterator[Example]:
    """Read the examples: below a heading, files by name, then for each table the command above it."""
    text = DIFFERENCES_PAGE.read_text(encoding="utf-8")
    for section in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        heading = section.splitlines()[0]
        files = dict(re.findall(r"^`(\S+\.jsonl)`[^\n]*:\n\n```jsonl\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))
        tables = re.split(r"^\| figure \| spikee 0\.9\.2 \| Faircount \|\n\|.*\n", section, flags=re.MULTILINE)
        for before, table in pairwise(tables):
            commands = re.findall(r"^With `results analyze (.*)`:$", before, re.MULTILINE)
            words = shlex.split(commands[-1]) if commands else ["--result-file", *files]
            claims = re.findall(r"^\| (.*?) \| (.*?) \| (.*?) \|$", table.split("\n\n")[0], re.MULTILINE)
            yield Example(heading, files, tuple(words), {label: (theirs, ours) for label, theirs, ours in claims})


def listed(report: Printed) -> dict[str, str]:
    """Return the figures of a report under the labels of the page."""
    figures = {label: str(report.general.get(name, NOT_THERE)) for label, name in LABELS.items()}
    matrix = report.false_positives or {}
    figures |= {label: str(matrix.get(name, NOT_THERE)) for label, name in MATRIX_LABELS.items()}
    figures |= {
        f"Attack `{name}`: entries with a block": str(row.get("guardrail", "?")) for name, row in report.attacks.items()
    }
    for value, row in (report.breakdowns or {}).get("plugin", {}).items():
        figures[f"Plugin `{value}`: guardrail"] = str(row.get("guardrail", NOT_THERE))
    return figures | {"Unjudged": NOT_THERE}


def claimed(example: Example, side: int) -> dict[str, str]:
    return {label: pair[side] for label, pair in example.claims.items()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of its own: the examples name their files without one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_files(example: Example, folder: Path) -> None:
    for name, text in example.files.items():
        (folder / name).write_text(text, encoding="utf-8")


def asked_of_faircount(example: Example, definition: str) -> Analysis:
    parser = argparse.ArgumentParser()
    parser.add_argument("--result-file", action="append")
    parser.add_argument("--false-positive-checks")
    parser.add_argument("--combine", action="store_true")
    asked = parser.parse_args(example.command)
    return analysis_of(
        *asked.result_file,
        definition=definition,
        combine=asked.combine,
        false_positive_checks=asked.false_positive_checks,
    )


EXAMPLES = [pytest.param(example, id=example.heading.replace(" ", "-")) for example in worked_examples()]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_page_of_differences_tells_faircounts_figures(example: Example, folder: Path) -> None:
    write_files(example, folder)
    a = asked_of_faircount(example, "faircount")
    figures = listed(as_printed(a)) | {"Errors": str(a.tally.error), "Unjudged": str(a.tally.unjudged)}
    assert {label: figures[label] for label in example.claims} == claimed(example, 1)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_page_of_differences_tells_what_spikees_definition_gives(example: Example, folder: Path) -> None:
    write_files(example, folder)
    figures = listed(as_printed(asked_of_faircount(example, "spikee")))
    assert {label: figures[label] for label in example.claims} == claimed(example, 0)


@pytest.mark.peer
@needs_spikee
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_page_of_differences_tells_what_spikee_prints(example: Example, folder: Path) -> None:
    write_files(example, folder)
    command = [str(SPIKEE), "-q", "results", "analyze", *example.command]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=True)
    (report,) = read_console(ran.stdout)
    figures = listed(report)
    assert {label: figures[label] for label in example.claims} == claimed(example, 0)


def test_the_page_of_differences_has_an_example_for_every_figure_that_differs() -> None:
    differing = [example for example in worked_examples() if claimed(example, 0) != claimed(example, 1)]
    assert len(differing) == len(EXAMPLES) >= 15


ROUNDED_ALIKE = [
    *(standard(number, plugin="hex", success=number <= 99) for number in range(1, 200)),
    *(standard(number, plugin="rot", success=number <= 300) for number in range(201, 402)),
]
"""99 of 199 and 100 of 201: both are 49.75%, and the second is the larger."""


def test_groups_with_the_same_printed_rate_are_in_the_order_of_their_exact_rates(write: Write) -> None:
    groups = analysis_of(write(ROUNDED_ALIKE)).breakdowns["plugin"]
    assert [(group.value, percent(group.rate)) for group in groups] == [("rot", "49.75%"), ("hex", "49.75%")]


@pytest.mark.peer
@needs_spikee
def test_spikee_keeps_groups_with_the_same_printed_rate_in_order_of_appearance(write: Write) -> None:
    command = [str(SPIKEE), "-q", "results", "analyze", "--result-file", write(ROUNDED_ALIKE)]
    ran = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
    (report,) = read_console(ran.stdout)
    assert report.breakdowns is not None
    assert [(value, row["rate"]) for value, row in report.breakdowns["plugin"].items()] == [
        ("hex", "49.75%"),
        ("rot", "49.75%"),
    ]


def test_categories_named_equally_often_are_in_order_of_their_names(write: Write) -> None:
    named = {"violence": True, "hate": True, "spam": False, "pii": True}
    path = write([standard(1, guardrail=True, guardrail_categories=named) | {"error": "blocked"}])
    categories = [category.category for category in analysis_of(path).guardrail_categories]
    assert categories == ["hate", "pii", "violence"]


def test_the_least_successful_combination_comes_first_among_the_least_successful(write: Write) -> None:
    path = write([standard(1, plugin="b", success=True), standard(2, plugin="a", success=False)])
    combinations = analysis_of(path).combinations
    assert [dict(group.values)["plugin"] for group in combinations.most] == ["b", "a"]
    assert [dict(group.values)["plugin"] for group in combinations.least] == ["a", "b"]
