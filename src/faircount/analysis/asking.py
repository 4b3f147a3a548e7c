"""One question put to result files: each folded by itself as `results analyze` does it, or all of them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from faircount.analysis.options import AnalyzeOptions
from faircount.analysis.results import Folded, fold_files
from faircount.errors import InputError
from faircount.ledger import engine
from faircount.reading import inputs
from faircount.reading.inputs import Input
from faircount.reading.loading import Loader, Progress, with_cache

Answer = TypeVar("Answer")

Question = Callable[[Folded, Sequence[Input]], Answer]
"""Is asked of a folded ledger and the files in it; may be asked again if the cache vanishes meanwhile."""


def ask_files(
    paths: Sequence[str], options: AnalyzeOptions, question: Question[Answer], progress: Progress
) -> tuple[list[Answer], list[tuple[str, str]]]:
    """Return the answers in the order of the files, and each file that cannot be used, with a sentence why."""
    chosen = inputs.distinct(paths)
    groups = [chosen] if options.combine and chosen else [[item] for item in chosen]
    alone = all(len(group) == 1 for group in groups)
    return with_cache(
        lambda cache: Loader(paths, options.reading, progress, cache, alone=alone),
        lambda loader: _ask(groups, options, question, loader),
        cache=options.cache,
    )


def _ask(
    groups: Sequence[Sequence[Input]], options: AnalyzeOptions, question: Question[Answer], loader: Loader
) -> tuple[list[Answer], list[tuple[str, str]]]:
    answers: list[Answer] = []
    unusable: list[tuple[str, str]] = []
    with engine.interruptible(), loader:
        for group in groups:
            try:
                with fold_files(group, options, loader) as folded:
                    answers.append(question(folded, group))
            except InputError as error:
                if len(group) > 1:
                    raise
                unusable.append((group[0].path, str(error)))
    return answers, unusable
