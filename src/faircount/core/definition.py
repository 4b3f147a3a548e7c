"""Whose definitions results are counted by: the rules in which tools differ, each a field, and the table of them.

What counts, folds or shows asks a rule, never the name. A tool whose figures can be asked for by name is one more entry
of the table; the command line, its help and its refusals follow. What rules do is said where they are asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Exclusion(Struct, frozen=True):
    """An option that has no meaning by a definition, or has none with one value, and how a message about it begins."""

    option: str
    message: str
    value: str | None = None


class Definition(Struct, frozen=True, kw_only=True):
    """The rules that one tool counts by; without any said, they are Faircount's own."""

    name: str
    help: str = ""
    """What it does, where whose it is does not say that."""
    beside_ours: bool = False
    """Its figures are shown in an analysis beside ours: nothing else knows it."""
    made_by_reader: bool = False
    """Its figures are made while a file is read, by the reader of the tool's format."""
    needs_verdicts: bool = False
    """Its figures are made of single verdicts, not of what rows were folded into."""
    excluded: tuple[Exclusion, ...] = ()
    notice: str = ""
    """What is said of an analysis that is made by it."""
    dataset_notice: str = ""
    """What is said of a comparison of datasets that is made by it."""
    looks_for_problems: bool = True
    """Whether problems that only the ledger shows are looked for; figures of another tool are shown as it has them."""

    # -- rows and entries
    merges_rows_by_id: bool = False
    """Rows of one id are one entry, whatever they hold, and any truthy verdict is a success."""
    counts_copies: bool = False
    """A file that is given twice counts twice."""
    category_by_field: bool = False
    """Whether a row is of a category is said by one of its fields alone, so that it may be of several."""
    one_verdict_per_row: bool = False
    """Nothing is known of several judges of a row."""
    one_attempt_per_row: bool = False
    """Nothing is known of the attempts that a row was made of: no retries, no success within k attempts."""

    # -- blocks and errors
    refusals_are_blocks: bool = True
    """A provider's refusal to take a prompt may count as a block."""
    blocks_are_errors: bool = False
    """Entries that were blocked are counted among the errors as well."""
    any_block_counts: bool = False
    """A group counts every entry with a blocked row as blocked, not those alone that nothing else became of."""
    blocks_by_flag: bool = False
    """Blocks of an attack and their categories are those of flagged rows, not those of requests in a history."""
    guardrail_by_verdict: bool = False
    """A guardrail blocked the attacks that failed and all benign prompts but successes; an undefined share is 0."""

    # -- groups and datasets
    ranks_raw_rates: bool = False
    """Combinations are of all fields that a format combines, ranked by raw rates."""
    matches_by_long_id: bool = False
    """Results belong to the entries of a dataset by their long id alone, by which ties are ordered, highest first."""
    no_answer_resists: bool = False
    """A target without an answer to an entry of a dataset resisted it."""

    def refusal(self, options: object) -> str:
        """Return why options cannot be had by this definition, or nothing."""
        for one in self.excluded:
            given: Any = getattr(options, one.option, None)
            if given not in (None, False) and one.value in (None, given):
                flag = " ".join(filter(None, ("--" + one.option.replace("_", "-"), one.value)))
                return f"{one.message} and {flag} exclude each other"
        return ""


FAIRCOUNT = Definition(name="faircount")
_SPIKEE = Definition(
    name="spikee",
    excluded=(
        Exclusion("judge_quality", "spikee corrects no rate: its definition"),
        Exclusion("judge", "spikee knows one verdict per row: its definition"),
        Exclusion("guardrail_success", "spikee reads true as bypassed: its definition", "detected"),
        Exclusion("block_signal", "spikee knows verdicts only: its definition", "raised"),
    ),
    notice="spikee's definitions are in use: any truthy verdict is a success, guardrail triggers count as errors, rows "
    "with one id merge",
    dataset_notice="spikee's own definitions are in use: entries are distinguished by their long id alone, and a "
    "target without an answer counts as resisting",
    looks_for_problems=False,
    merges_rows_by_id=True,
    counts_copies=True,
    category_by_field=True,
    one_verdict_per_row=True,
    one_attempt_per_row=True,
    refusals_are_blocks=False,
    blocks_are_errors=True,
    any_block_counts=True,
    blocks_by_flag=True,
    guardrail_by_verdict=True,
    ranks_raw_rates=True,
    matches_by_long_id=True,
    no_answer_resists=True,
)
"""As spikee 0.9.2 counts."""

_OF_ONE_REPORT = "garak's figures are those of one whole report: --definition garak"
_GARAK = Definition(
    name="garak",
    help="the name of another tool adds that tool's figures for its files",
    beside_ours=True,
    needs_verdicts=True,
    excluded=tuple(
        Exclusion(option, _OF_ONE_REPORT) for option in ("combine", "where", "judge", "false_positive_checks")
    ),
)
"""Analyses alone know it: garak's figures of probes and detectors are shown beside ours."""

TOOLS = (
    "inspect",
    "promptfoo",
    "AgentDojo",
    "JailbreakBench",
    "HarmBench",
    "DeepEval",
    "DeepTeam",
    "lm-eval",
    "OpenAI evals",
    "PyRIT",
)
"""Tools whose readers make the tool's own figures from the records of a file, while they read it."""

_OF_FILES = [
    Definition(
        name=name,
        beside_ours=True,
        made_by_reader=True,
        excluded=(Exclusion("combine", f"{name}'s figures are those of one file: --definition {name}"),),
    )
    for name in TOOLS
]

DEFINITIONS: Mapping[str, Definition] = {one.name: one for one in (FAIRCOUNT, _SPIKEE, _GARAK, *_OF_FILES)}
