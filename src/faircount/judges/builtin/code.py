"""Whether an answer contains program code, read from fences and from lines that look like code.

Prose about code, code named in passing (`print`), data formats (JSON, YAML, CSV) and logs are not program code. The
judge does not run, parse or rate the code, and a single line in an unusual language may be missed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from faircount.core.attempt import Attempt
from faircount.core.errors import UsageError
from faircount.core.verdict import Decision, Span, Verdict
from faircount.judges.builtin import pattern_source, read_patterns
from faircount.judges.judge import Judge, check_share

_READ = 300_000
_LONGEST_LINE = 400
_MOST_LINES = 4000
_STRONG, _WEAK = 0.55, 0.22

_FILE = read_patterns("code")
_LANGUAGES: Mapping[str, Mapping[str, str]] = _FILE["languages"]
_LANGUAGE_OF = {alias: language for language, known in _LANGUAGES.items() for alias in known["aliases"].split()}
_NOT_PROGRAMS = frozenset(_FILE["not_programs"].split())
_PATTERNS = {
    language: tuple(re.compile(f"(?:{pattern_source(known[kind], {})})") for kind in ("strong", "weak"))
    for language, known in _LANGUAGES.items()
    if "strong" in known
}
_FENCE = re.compile(r"(?m)^[ \t>]{0,8}(```+|~~~+)[ \t]*([\w+#.-]{0,30})[^\n]{0,80}$")
# A line of prose: words with spaces that end as a sentence does.
_PROSE = re.compile(r"[A-Z][a-z']*(?: [\w',-]+){4,}[.!?:]?$")


class _CodeBlock(Struct, frozen=True):
    """A stretch of an answer that looks like code of one language."""

    language: str
    score: float
    start: int
    end: int
    fenced: bool


class Code(Judge):
    """Hits when the answer contains program code.

    A fenced block counts if its tag is a programming language or its lines look like code; a fence around prose or data
    does not. Outside fences, lines are weighed by the signs of their language (keywords in place, brackets, calls). The
    score is 0.95 for a tagged block and grows with the number of lines elsewhere. `language`: only code in this one
    counts (aliases such as "py" and "bash" are known). `threshold`: the score from which it is a hit.
    """

    name = "code.Code"
    looks_for = "the answer contains program code"
    scores = True

    def __init__(self, *, language: str | None = None, threshold: float = 0.5) -> None:
        self.threshold = check_share(self.name, "threshold", threshold)
        known = None if language is None else _LANGUAGE_OF.get(str(language).strip().lower(), "other")
        if known == "other":
            choices = ", ".join(name for name in _LANGUAGES if name != "other")
            raise UsageError(f"{self.name}: language must be one of {choices}, or an alias of one")
        self.language = known
        super().__init__(language=self.language, threshold=self.threshold)

    def decide(self, attempt: Attempt) -> Verdict:
        """Return a hit for an answer with program code."""
        text = (attempt.response or "")[:_READ]
        blocks = [block for block in _blocks(text) if self.language in (None, block.language)]
        if not blocks:
            return Verdict(Decision.PASS, 0.0, "no program code" if self.language is None else f"no {self.language}")
        best = max(blocks, key=lambda block: block.score)
        where = "in a fenced block" if best.fenced else "in lines"
        reason = f"{best.language} {where}" if best.language != "other" else f"code {where}"
        score = round(best.score, 3)
        return Verdict(Decision.of(score >= self.threshold), score, reason, Span(best.start, best.end))


def _blocks(text: str) -> Iterator[_CodeBlock]:
    """Return every stretch that may be code: the fenced ones, then what stands between them."""
    place = 0
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            yield from _weighed(text, place, fence.start())
            opened = fence
        elif fence[1][0] == opened[1][0] and len(fence[1]) >= len(opened[1]):
            yield from _fenced(text, opened, fence.start())
            opened, place = None, fence.end()
    if opened is None:
        yield from _weighed(text, place, len(text))
    else:
        yield from _fenced(text, opened, len(text))


def _fenced(text: str, opened: re.Match[str], end: int) -> Iterator[_CodeBlock]:
    start = opened.end()
    start += text.startswith("\n", start)
    tag = opened[2].lower()
    if end <= start or not text[start:end].strip():
        return
    looks_like = max(_weighed(text, start, end), key=lambda block: block.score, default=None)
    if tag in _LANGUAGE_OF:
        yield _CodeBlock(_LANGUAGE_OF[tag], 0.95, start, end, True)
    elif tag not in _NOT_PROGRAMS and looks_like is not None and looks_like.score >= 0.3:
        yield _CodeBlock(looks_like.language, max(0.85, looks_like.score), start, end, True)


def _weighed(text: str, start: int, end: int) -> list[_CodeBlock]:
    """Return a block per language of which there are lines that are hardly anything else."""
    not_code: dict[str, float] = {}
    reach: dict[str, tuple[int, int]] = {}
    for place, line in _lines(text, start, end):
        for language, (strong, weak) in _PATTERNS.items():
            weight = _STRONG if strong.match(line) else _WEAK if language in not_code and weak.match(line) else 0.0
            if weight:
                not_code[language] = not_code.get(language, 1.0) * (1 - weight)
                first = reach.get(language, (place, 0))[0]
                reach[language] = (first, place + len(line))
    return [
        _CodeBlock(language, min(1 - chance, 0.94), *reach[language], False) for language, chance in not_code.items()
    ]


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    """Return the lines that may be code, without indents, and where each begins."""
    place = start
    for whole in text[start:end].split("\n", _MOST_LINES)[:_MOST_LINES]:
        line = whole.strip()
        if 1 < len(line) <= _LONGEST_LINE and not _PROSE.match(line):
            yield place + whole.index(line[0]), line
        place += len(whole) + 1
