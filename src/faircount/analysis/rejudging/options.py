"""How results are judged again."""

from __future__ import annotations

from msgspec import Struct

from faircount.analysis.rejudging.choices import AUTO, TURNS
from faircount.errors import UsageError
from faircount.judging.many import DEFAULT_CONCURRENCY
from faircount.reading.streams import MAX_LINE_BYTES


class RejudgeOptions(Struct, frozen=True):
    """Options of `results rejudge`; the defaults are the documented ones.

    `turns` says what of an attack with a history is judged: its last response, each, or what the judge asks for.
    `fresh` asks anew what is known. `examples` is how many rows are shown that changed in each direction. Judges that
    only compare strings decide while rows are written, and nothing of that is kept, unless a number of `workers` is
    given.
    """

    turns: str = AUTO
    judge_options: str | None = None
    fresh: bool = False
    examples: int = 3
    level: float = 0.95
    workers: int | None = None
    concurrency: int = DEFAULT_CONCURRENCY
    max_line: int = MAX_LINE_BYTES

    def __post_init__(self) -> None:
        if self.turns not in TURNS:
            raise UsageError(f"turns must be one of {', '.join(TURNS)}, not {self.turns!r}")
        if not 0 < self.level < 1:
            raise UsageError(f"level must be between 0 and 1, not {self.level}")
        if self.examples < 0:
            raise UsageError(f"examples must be 0 or more, not {self.examples}")
        if self.max_line < 1:
            raise UsageError(f"max-line must be at least 1 byte, not {self.max_line}")
