"""Analyses of rows that are in parts: who has them, what cannot be asked of them, and what will be asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Protocol

from faircount.analysis.grouping import ATTACK_FIELD, MOST_GROUPS, column_of, raw_name
from faircount.analysis.options import AUTO, NONE, TAXONOMIES, AnalyzeOptions
from faircount.ledger import lookup, tallies
from faircount.ledger.labels import entries_by_judge
from faircount.ledger.store import LedgerView

if TYPE_CHECKING:
    from faircount.query import Query
    from faircount.readers.pieces import PartCrew


class Cluster(Protocol):
    """Machines that read files and fold them in parts."""

    memory: str
    """How much memory one task may use."""

    def sizes(self, size: int) -> tuple[int, int]:
        """Return how many parts so many bytes are dealt to, and how many bytes one task reads."""

    def crew(self, task_bytes: int) -> AbstractContextManager[PartCrew]:
        """Give those who do it."""

    def answers_of(self, work: Callable[[str], bytes], paths: Sequence[str]) -> list[bytes]:
        """Return what a function makes of each of some files."""


def undivided(options: AnalyzeOptions, where: Query | None) -> str:
    """Return which option needs all rows in one place, or nothing."""
    wanted = {
        "--judge-quality": options.judge_quality is not None,
        f"--definition {options.definition}": options.rules.beside_ours,
        "--judge": options.judge is not None,
        "--by judge": options.wants_verdicts,
        "--by owasp or atlas": not TAXONOMIES.isdisjoint(options.by),
        "--where with a line": where is not None and "line" in where.computed,
    }
    return next((option for option, is_wanted in wanted.items() if is_wanted), "")


def ask_ahead(ledger: LedgerView, options: AnalyzeOptions) -> None:
    """Ask most of what an analysis asks, so that parts elsewhere can be asked much of it at once."""
    ledger.expect(partial(_ask_entries, options=options))
    if options.cluster == NONE:
        return
    family = tallies.FAMILY if options.cluster == AUTO else column_of(ledger, raw_name(options.cluster))
    kinds = tallies.families(ledger, family)
    if any(kind.total > 1 for kind in kinds):
        ledger.expect(partial(_ask_families, family=family, options=options))


def _columns(ledger: LedgerView) -> list[str]:
    fields = dict.fromkeys([*ledger.fields.first, ATTACK_FIELD, *ledger.facets])
    return [column for field in fields if (column := column_of(ledger, field)) != tallies.NO_COLUMN]


def _ask_entries(ledger: LedgerView, options: AnalyzeOptions) -> None:
    tallies.overall(ledger)
    tallies.kinds_of_answers(ledger)
    tallies.grouped(ledger, tallies.SOURCE)
    for column in _columns(ledger):
        tallies.distinct_values(ledger, column)
        tallies.largest(ledger, column, MOST_GROUPS)
        tallies.by_number(ledger, column)
    if options.details:
        tallies.attacks(ledger)
        tallies.attempts_to_success(ledger, several=not options.rules.one_attempt_per_row)
        if not options.rules.one_attempt_per_row:
            tallies.attempts_given_up(ledger)
            tallies.entries_attacked(ledger)
            tallies.repeated_entries(ledger)
        tallies.guardrail_categories(ledger, MOST_GROUPS, flagged_only=options.rules.blocks_by_flag)
        tallies.error_kinds(ledger, MOST_GROUPS)
        tallies.timed_strategies(ledger)
    if options.rules.looks_for_problems:
        lookup.expect_rows_behind(ledger)
        for read in (False, True):
            entries_by_judge(ledger, read=read)


def _ask_families(ledger: LedgerView, family: str, options: AnalyzeOptions) -> None:
    tallies.families_by(ledger, family, tallies.SOURCE)
    if not options.details:
        return
    tallies.attack_families(ledger, family)
    tallies.category_families(ledger, family, flagged_only=options.rules.blocks_by_flag)
    for column in _columns(ledger):
        if 1 < len(tallies.by_number(ledger, column)) <= MOST_GROUPS:
            tallies.families_by(ledger, family, column)
            if column != tallies.ATTACK_NAME:
                tallies.groups_in_families(ledger, family, column)
