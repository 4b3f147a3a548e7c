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
from faircount.judges.builtin.pattern_parameters import check_share
from faircount.judges.judge import Judge

_READ = 300_000
_LONGEST_LINE = 400
_MOST_LINES = 4000
_STRONG, _WEAK = 0.55, 0.22

_ALIASES: Mapping[str, tuple[str, ...]] = {
    "python": ("python", "py", "python3", "python2", "ipython", "pycon", "jupyter"),
    "javascript": ("javascript", "js", "jsx", "typescript", "ts", "tsx", "node", "nodejs", "mjs", "vue", "svelte"),
    "c": ("c", "cpp", "c++", "cc", "h", "hpp", "objective-c", "objc", "cuda", "arduino"),
    "java": ("java", "kotlin", "kt", "scala", "groovy"),
    "csharp": ("csharp", "c#", "cs", "dotnet", "vb", "vbnet", "vba", "vbs", "vbscript", "fsharp", "f#"),
    "go": ("go", "golang"),
    "rust": ("rust", "rs"),
    "php": ("php",),
    "ruby": ("ruby", "rb"),
    "perl": ("perl", "pl"),
    "shell": (
        "shell",
        "sh",
        "bash",
        "zsh",
        "fish",
        "console",
        "terminal",
        "shell-session",
        "bat",
        "batch",
        "cmd",
        "dos",
    ),
    "powershell": ("powershell", "ps1", "ps", "pwsh"),
    "sql": ("sql", "mysql", "postgresql", "postgres", "plsql", "tsql", "sqlite"),
    "html": ("html", "htm", "xhtml", "xml", "svg"),
    "css": ("css", "scss", "sass", "less"),
    "assembly": ("assembly", "asm", "nasm", "x86asm", "armasm"),
    "other": (
        *(
            "swift",
            "dart",
            "lua",
            "r",
            "matlab",
            "octave",
            "julia",
            "haskell",
            "hs",
            "elixir",
            "ex",
            "erlang",
            "clojure",
        ),
        *(
            "lisp",
            "scheme",
            "ocaml",
            "solidity",
            "dockerfile",
            "makefile",
            "cmake",
            "hcl",
            "terraform",
            "nix",
            "awk",
            "vim",
        ),
        *(
            "zig",
            "nim",
            "fortran",
            "cobol",
            "pascal",
            "delphi",
            "prolog",
            "verilog",
            "vhdl",
            "graphql",
            "applescript",
            "ahk",
        ),
    ),
}
_LANGUAGE_OF = {alias: language for language, aliases in _ALIASES.items() for alias in aliases}
_NOT_PROGRAMS = frozenset(
    (
        *("text", "txt", "plaintext", "plain", "markdown", "md", "json", "jsonl", "yaml", "yml", "csv", "toml", "ini"),
        *("log", "diff", "output", "latex", "tex", "mermaid", "math", "http", "email", "bibtex"),
    )
)

# Per language: lines that are hardly anything else, and lines that are code only in company.
_LINES: Mapping[str, tuple[str, str]] = {
    "python": (
        r"(?:async )?def \w+\(.*\).*:|class \w+(?:\(.*\))?:|from [\w.]+ import [\w*(]|if __name__ =="
        r"|import \w+(?:\.\w+)*(?: as \w+)?$"
        r"|(?:el)?if .+(?:==|!=|<|>| in | not |\(|is None).*:$|for \w+(?:, ?\w+)* in .+:$"
        r"|with .+\(.*\)(?: as \w+)?:$|except(?: \w.*)?:$"
        r"|try:$|while (?:True|.+[=<>(]).*:$|print\(.+\)$|@\w+(?:\.\w+)*(?:\(.*\))?$",
        r"return\b.{0,80}[\w)\]]$|[\w.\[\]'\"]+ [+*-]?= .+|else:$|finally:$|\w[\w.]*\(.*\)$|raise \w+\(|pass$|>>> \S",
    ),
    "javascript": (
        r"(?:const|let|var) [\w{\[][\w, }\]]* ?=|(?:export |async )*function\*? ?\w*\(.*\) ?\{|.*=> ?\{$"
        r"|console\.\w+\(|document\.\w+"
        r"|import .+ from ['\"]|export (?:default|const|class|interface|type)\b|(?:module\.)?exports\b"
        r"|.*\brequire\(['\"]"
        r"|(?:window|process)\.\w+|interface \w+ ?\{|\w+\.(?:addEventListener|then|forEach|map|filter)\(",
        r"\}\)?;?,?$|return .+;$|.+;$|if ?\(.+\) ?\{?$|\} ?else ?\{",
    ),
    "c": (
        r"#\s?(?:include|define|ifdef|ifndef|pragma)\b|(?:int|void) main ?\(|(?:std::|using namespace )\w+|template ?<"
        r"|(?:static |const |unsigned |inline |extern )*(?:int|char|void|float|double|long|bool|size_t|uint\w+_t"
        r"|struct(?: \w++(?=[ *]))?|auto) ?\*{0,2} ?"
        r"\w+(?:\[.*\])? ?(?:\(.*\) ?[{;]?$|= ?.+;$|;$)|(?:printf|scanf|malloc|memcpy|strcpy|fprintf)\(.*\);"
        r"|(?:std::)?cout <<",
        r"return .+;$|\}$|\w+\(.*\);$|for ?\([^;]*;[^;]*;.*\)|if ?\(.+\) ?\{?$|.+;$",
    ),
    "java": (
        r"(?:public|private|protected) (?:static |final |abstract |async |override )*(?:class|interface|enum|record"
        r"|void|int|String|boolean"
        r"|double|List<|Task|\w+)\b.*[{;(]|System\.out\.print|import (?:java|javax|org|com|kotlin)\.[\w.*]+;"
        r"|package [\w.]+;$|@Override"
        r"|fun \w+\(.*\).*\{|val \w+ ?= ",
        r"\}$|return .+;$|.+;$|for ?\(.+\) ?\{",
    ),
    "csharp": (
        r"using [A-Z][\w.]+;$|namespace [\w.]+;?|Console\.\w+\(|(?:public|private|internal|protected) (?:static "
        r"|async )*(?:class|void|string"
        r"|int|Task)\b.*|Dim \w+ As \w+|Sub \w+\(|End Sub|Set \w+ = CreateObject\(",
        r"\}$|.+;$|End (?:If|Function)",
    ),
    "go": (
        r"package \w+$|func (?:\(.+\) )?\w+\(.*\).*\{|import \($|fmt\.\w+\(|\w+(?:, \w+)* := .+",
        r"\}$|return .+|if .+ \{$",
    ),
    "rust": (
        r"(?:pub )?(?:async )?fn \w.*|let mut \w+|println!\(|use \w+::|impl(?:<.*>)? \w+|#\[derive\(",
        r"\}$|.+;$|let \w+ = ",
    ),
    "php": (r"<\?php|\$\w+(?:\[.*\])? ?\.?= ?.+;$|echo .+;$|function \w+\(.*\$\w+.*\)", r"\}$|.+;$|\?>$"),
    "ruby": (
        r"def \w+[?!]?(?:\(.*\))?$|require(?:_relative)? ['\"]|.+ do \|[\w, ]+\|$|puts ['\"\w]|attr_accessor :",
        r"end$|class [A-Z]\w+",
    ),
    "perl": (r"use (?:strict|warnings)\b|my [$@%]\w+ ?=|sub \w+ ?\{|#!.*perl", r".+;$|\}$"),
    "shell": (
        r"#!/\S+|(?:\$ |# |sudo )?(?:sudo|apt|apt-get|yum|brew|curl|wget|chmod|chown|rm|mkdir|cp|mv|ls|cd|grep|cat"
        r"|echo|export|git|docker"
        r"|kubectl|pip3?|npm|npx|ssh|scp|nc|ncat|nmap|tar|sed|awk|find|kill|systemctl|python3?|bash|sh|openssl"
        r"|hydra|sqlmap|msfconsole"
        r"|tcpdump|iptables|crontab|dd|ps|touch|source|make|cargo|go)\b(?= )(?=.*(?: -{1,2}\w|https?://|[~.]?/\w|["
        r"|>] ?\S|\$\w|&& | install "
        r"|\.\w{1,4}\b)).+|(?:for|while) .+; do$|if \[\[? .+ \]\]?;? ?(?:then)?$|\w+=\$\(.+\)$|@echo off|reg add "
        r"|net user |powershell (?:-|\.)",
        r"then$|fi$|done$|esac$|else$|\w+=[\w\"'$/].*$|exit \d",
    ),
    "powershell": (
        r"(?:\$\w+ ?= ?)?(?:Get|Set|New|Invoke|Start|Stop|Remove|Add|Import|Write|Out|Test|Select|Where|ForEach"
        r"|Enable|Disable|Copy|Convert\w*)"
        r"-[A-Z]\w+\b|\$[\w:]+ ?= ?.*\[?New-Object|IEX ?\(|param ?\(|\[(?:System|Net|Convert|Ref)\.?[\w.]*\]",
        r"\$\w+ ?= ?.+|\}$|foreach ?\(",
    ),
    "sql": (
        r"SELECT\b.{1,300}\bFROM\b|(?i:select\b.{1,300}\bfrom\b.{1,300};$)|(?i:insert into [\w.`\"]+ ?\()|INSERT INTO\b"
        r"|(?i:update [\w.`\"]+ set \w+ ?=)|(?i:delete from [\w.`\"]+(?: where|;))|(?i:(?:create|drop"
        r"|alter) (?:table|database|view|index|user)"
        r" [\w.`\"].*[;(]$)|(?i:grant \w+.* on .+ to .+;)|' ?(?i:or) '?1'? ?= ?'?1",
        r"(?:FROM|WHERE|JOIN|LEFT JOIN|INNER JOIN|GROUP BY|ORDER BY|VALUES|HAVING|LIMIT|UNION)\b.+",
    ),
    "html": (
        r"<!DOCTYPE html|<(?:html|head|body|script|style|form|iframe|svg|table)\b[^>]*>|<(?:div|span|input|button"
        r"|img|a|p|ul|li|td|tr|meta|link)"
        r"\b[^>]*(?:=\"?|/)[^>]*>|<\?xml",
        r"</?\w+>",
    ),
    "css": (r"(?:[.#]?[\w-]+(?:[ ,:>]+[.#]?[\w-]+){0,4}|@media.*) ?\{$", r"[a-z-]+: ?[^;{}]+;$|\}$"),
    "assembly": (
        r"(?:mov|push|pop|xor|lea|cmp|jmp|jne|call|int)\s+(?:e?[abcd]x|r\w\w?|0x\w+|\[.*\]|dword)\b.*"
        r"|section \.(?:text|data)|global _start",
        r"\w+:$|ret$|nop$|syscall$",
    ),
}
_PATTERNS = {
    language: (re.compile(rf"(?:{strong})"), re.compile(rf"(?:{weak})")) for language, (strong, weak) in _LINES.items()
}
_FENCE = re.compile(r"(?m)^[ \t>]{0,8}(```+|~~~+)[ \t]*([\w+#.-]{0,30})[^\n]{0,80}$")
# A line of prose: words with spaces that end as a sentence does.
_PROSE = re.compile(r"[A-Z][a-z']*(?: [\w',-]+){4,}[.!?:]?$")


class _Block(Struct, frozen=True):
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
    version = "1"
    scores = True

    def __init__(self, *, language: str | None = None, threshold: float = 0.5) -> None:
        self.threshold = check_share(self.name, "threshold", threshold)
        self.language = _checked_language(self.name, language)
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


def _checked_language(judge: str, language: object) -> str | None:
    if language is None:
        return None
    known = _LANGUAGE_OF.get(language.strip().lower()) if isinstance(language, str) else None
    if known is None or known == "other":
        choices = ", ".join(name for name in _ALIASES if name != "other")
        raise UsageError(f"{judge}: language must be one of {choices}, or an alias of one")
    return known


def _blocks(text: str) -> Iterator[_Block]:
    """Return every stretch that may be code: the fenced ones, then what stands between them."""
    place = 0
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            yield from _unfenced(text, place, fence.start())
            opened = fence
        elif fence[1][0] == opened[1][0] and len(fence[1]) >= len(opened[1]):
            yield from _fenced(text, opened, fence.start())
            opened, place = None, fence.end()
    if opened is None:
        yield from _unfenced(text, place, len(text))
    else:
        yield from _fenced(text, opened, len(text))


def _fenced(text: str, opened: re.Match[str], end: int) -> Iterator[_Block]:
    start = opened.end()
    start += text.startswith("\n", start)
    tag = opened[2].lower()
    if end <= start or not text[start:end].strip():
        return
    looks_like = max(_weighed(text, start, end), key=lambda block: block.score, default=None)
    if tag in _LANGUAGE_OF:
        yield _Block(_LANGUAGE_OF[tag], 0.95, start, end, True)
    elif tag not in _NOT_PROGRAMS and looks_like is not None and looks_like.score >= 0.3:
        yield _Block(looks_like.language, max(0.85, looks_like.score), start, end, True)


def _unfenced(text: str, start: int, end: int) -> Iterator[_Block]:
    yield from _weighed(text, start, end)


def _weighed(text: str, start: int, end: int) -> list[_Block]:
    """Return a block per language of which there are lines that are hardly anything else."""
    doubts: dict[str, float] = {}
    reach: dict[str, tuple[int, int]] = {}
    for place, line in _lines(text, start, end):
        for language, (strong, weak) in _PATTERNS.items():
            weight = _STRONG if strong.match(line) else _WEAK if language in doubts and weak.match(line) else 0.0
            if weight:
                doubts[language] = doubts.get(language, 1.0) * (1 - weight)
                first = reach.get(language, (place, 0))[0]
                reach[language] = (first, place + len(line))
    return [_Block(language, min(1 - doubt, 0.94), *reach[language], False) for language, doubt in doubts.items()]


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    """Return the lines that may be code, without indents, and where each begins."""
    place = start
    for whole in text[start:end].split("\n", _MOST_LINES)[:_MOST_LINES]:
        line = whole.strip()
        if 1 < len(line) <= _LONGEST_LINE and not _PROSE.match(line):
            yield place + whole.index(line[0]), line
        place += len(whole) + 1
