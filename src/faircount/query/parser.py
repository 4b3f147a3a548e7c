"""Expressions that people write on the command line, read from left to right, and the one way to report a mistake.

Each kind is read by a subclass of `Scanner`: queries, keywords, gates, stop rules and the names of judges, targets and
attacks. Nothing is looked up or run here. A query or a keyword expression is made into the tree of what it asks:

conditions = all-of { "or" all-of }
all-of     = part { "and" part }
part       = "not" part | "(" conditions ")" | condition

Of a query:
condition  = text in quotes | "exists" field | field [ test ]
test       = [ "not" ] ( "exists" | "in" "(" value { "," value } ")" | operator value ) | "is" [ "not" ] value
field      = name { "." name | "[" number "]" | "[" "*" "]" | "[" text in quotes "]" }

Of a keyword expression:
condition  = word | text in quotes

Gates and stop rules compare a figure with a share, `asr.high > 5%`: `FigureScanner` reads that for both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from faircount.core.errors import UsageError
from faircount.core.text import cell_width, visible
from faircount.query.query import (
    COMPUTED,
    And,
    Literal,
    Node,
    Not,
    Operator,
    Or,
    Path,
    Query,
    Step,
    Test,
    number_of,
    pattern_trouble,
)

LONGEST = 1_000_000
"""The most characters of an expression."""

QUOTES = ("'", '"')
CURLY_QUOTES = "“”„‟‘’‚«»"

_SPACE = re.compile(r"\s*")
_PLAIN = {quote: re.compile(rf"[^{quote}\\]+") for quote in QUOTES}
_CODES = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\x[0-9a-fA-F]{2}")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'"}
# How many characters of a long expression are shown before and after the mark.
_BEFORE = 56
_AFTER = 32


class QueryError(UsageError):
    """An expression that cannot be understood; `position` counts its characters from 0."""

    position = 0

    @classmethod
    def at(cls, text: str, position: int, reason: str, hint: str, what: str) -> QueryError:
        """Return the error for a place in `text`, with a mark under it; `reason` and `hint` may repeat parts of it."""
        start, end = max(position - _BEFORE, 0), position + _AFTER
        before = ("…" if start else "") + visible(text[start:position])
        after = visible(text[position:end]) + ("…" if end < len(text) else "")
        further = (f"{before}{after}", f"{' ' * cell_width(before)}^", visible(hint))
        first = f"the {what} cannot be parsed at character {position + 1}: {visible(reason)}"
        error = cls("\n  ".join([first, *further]))
        error.position = position
        error.further = further
        return error


class Word(NamedTuple):
    """A text of an expression: its characters, and where in the expression each of them stands."""

    text: str
    places: Sequence[int]
    quoted: bool


class Scanner:
    """Reads an expression; what differs between the kinds of expressions is set by subclasses."""

    what = "query"
    """What messages call the expression."""
    bare = re.compile(r"""[^\s()\[\],"'=<>!&|]+""")
    """A word without quotes."""
    escapes = True
    """Whether a backslash in quotes can give the next character another meaning."""
    longest = LONGEST

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        if len(text) > self.longest:
            raise self.error(f"it is longer than {self.longest:,} characters", "Make it shorter.", self.longest)

    def error(self, reason: str, hint: str, position: int | None = None) -> QueryError:
        """Return the error for a place, by default the one that was reached."""
        return QueryError.at(self.text, self.position if position is None else position, reason, hint, self.what)

    def skip(self) -> int:
        """Pass over white space, and return where it ends."""
        found = _SPACE.match(self.text, self.position)
        assert found is not None
        self.position = found.end()
        return self.position

    @property
    def next(self) -> str:
        """The next character after white space; empty at the end."""
        start = self.skip()
        return self.text[start : start + 1]

    def take(self, symbol: str) -> bool:
        """Pass over a symbol if it is what comes next."""
        found = self.text.startswith(symbol, self.skip())
        self.position += len(symbol) if found else 0
        return found

    def keyword(self) -> str:
        """Return the next word in lower case, or nothing if what comes next is no word, or the beginning of a path."""
        end = self.name_end(self.skip())
        return "" if self.text[end : end + 1] in (".", "[") else self.text[self.position : end].lower()

    def take_keyword(self, *words: str) -> str:
        """Pass over the next word if it is one of these, and return it."""
        found = self.keyword()
        if found not in words:
            return ""
        self.position += len(found)
        return found

    def name_end(self, start: int) -> int:
        """Return where a name without quotes ends: it holds letters, digits, _ and -."""
        end = start
        while end < len(self.text) and (self.text[end] == "-" or ("a" + self.text[end]).isidentifier()):
            end += 1
        return end

    def found(self) -> str:
        """Return what comes next, in words for a message."""
        if not self.next:
            return "the end"
        bare = self.bare.match(self.text, self.position)
        return f"“{bare.group()[:40] if bare else self.next}”"

    # -- texts -------------------------------------------------------------------------------------------------

    def word(self) -> Word | None:
        """Read a text, in quotes or bare; None if there is none here."""
        if self.next in QUOTES:
            return self.quoted()
        self.refuse_curly_quotes()
        bare = self.bare.match(self.text, self.position)
        if bare is None:
            return None
        text = bare.group()
        if visible(text) != text:
            for place, character in enumerate(text, start=self.position):
                if visible(character) != character:
                    raise self.error("invisible character", "Remove it, or quote the text if it belongs there.", place)
        self.position = bare.end()
        return Word(text, range(*bare.span()), quoted=False)

    def refuse_curly_quotes(self) -> None:
        """Raise an error for the quotation marks of word processors."""
        if self.next and self.next in CURLY_QUOTES:
            raise self.error("typographic quotation mark", "Use straight quotes, \" or '.")

    def quoted(self) -> Word:
        """Read a text in quotes, the first of which comes next."""
        start, quote = self.position, self.next
        self.position += 1
        texts: list[str] = []
        places: list[int] = []
        while not self.text.startswith(quote, self.position):
            if self.position >= len(self.text):
                inside = f", or \\{quote} for one inside" if self.escapes else ""
                raise self.error("this quote is not closed", f"Put {quote} after the text{inside}.", start)
            before = self.position
            part = self._quoted_part(quote)
            plain = len(part) == self.position - before
            places.extend(range(before, self.position) if plain else [before] * len(part))
            texts.append(part)
        self.position += 1
        return Word("".join(texts), places, quoted=True)

    def _quoted_part(self, quote: str) -> str:
        """Read plain characters or one escape; a backslash before anything else stands for itself."""
        plain = _PLAIN[quote].match(self.text, self.position)
        if plain is not None:
            self.position = plain.end()
            return plain.group()
        codes = _CODES.match(self.text, self.position) if self.escapes else None
        if codes is not None:
            self.position = codes.end()
            return _decoded(codes.group())
        escaped = self.text[self.position + 1 : self.position + 2] if self.escapes else ""
        if escaped in ("u", "x"):
            raise self.error(
                f"\\{escaped} needs {'four' if escaped == 'u' else 'two'} hexadecimal digits",
                f"Write \\u00e9 or \\xe9, or \\\\{escaped} for a backslash and the letter.",
            )
        if escaped not in _ESCAPES:
            self.position += 1
            return "\\"
        self.position += 2
        return _ESCAPES[escaped]


def _decoded(codes: str) -> str:
    if codes.startswith("\\x"):
        return chr(int(codes[2:], 16))
    text = json.loads(f'"{codes}"')
    assert isinstance(text, str)
    return text


# -- conditions -------------------------------------------------------------------------------------------------

DEEPEST = 50

# The symbol or word, and what it asks; longer symbols first. The flag says that the answer is turned round.
_SYMBOLS = {
    "==": (Operator.EQUAL, False),
    "=~": (Operator.MATCHES, False),
    "=": (Operator.EQUAL, False),
    "!=": (Operator.EQUAL, True),
    "!~": (Operator.MATCHES, True),
    "<>": (Operator.EQUAL, True),
    "<=": (Operator.AT_MOST, False),
    "<": (Operator.LESS, False),
    ">=": (Operator.AT_LEAST, False),
    ">": (Operator.MORE, False),
}
_WORDS = {
    "contains": Operator.CONTAINS,
    "like": Operator.LIKE,
    "matches": Operator.MATCHES,
    "regex": Operator.MATCHES,
    "has": Operator.HAS,
    "in": Operator.EQUAL,
    "exists": Operator.EXISTS,
}
_SIZES = frozenset([Operator.LESS, Operator.AT_MOST, Operator.MORE, Operator.AT_LEAST])
_JOINTS = ("and", "or", "not")
_BRACKETS = ("(", "[")
_INDEX = re.compile(r"-?[0-9]{1,9}")
_NAMED: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_SAY_OR_QUOTE = 'Quote it if it is a text: lang = "or".'
_OTHER_JOINTS = {"&": "Use the word and.", "|": "Use the word or.", "!": "Use the word not."}
_OTHER_JOINTS_QUOTED = {sign: f"{hint} Quote a text that contains {sign}." for sign, hint in _OTHER_JOINTS.items()}

_FIGURE = re.compile(r"[A-Za-z_][\w-]*")
_SIGN = re.compile(r"[<>]=?")
_SHARE = re.compile(r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,3})?")
SHARE_HINT = "Write a share, 0.05, or a percentage, 5%."


def parse(text: str, *, ignore_case: bool = False) -> Query:
    """Return the query that a text says, or raise a QueryError that points at what was not understood.

    `ignore_case` makes =, !=, <, in, has and matches ignore case, as contains and like always do.
    """
    return Query(text, _QueryParser(text, ignore_case).whole(), ignore_case)


def parse_keyword(text: str) -> Query:
    """Return what a keyword expression asks of a field `name`, or raise a QueryError."""
    return Query(text, _KeywordParser(text).whole())


class _Conditions(Scanner):
    """Conditions joined with and, or, not and round brackets; a subclass says what a condition is."""

    depth = 0

    def condition(self) -> Node:
        """Read one condition."""
        raise NotImplementedError

    def whole(self) -> Node:
        """Read conditions and nothing after them."""
        tree = self._either()
        if self.next:
            raise self._not_joined()
        return tree

    def _either(self) -> Node:
        parts = [self._all()]
        while self.take_keyword("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _all(self) -> Node:
        parts = [self._part()]
        while self.take_keyword("and"):
            parts.append(self._part())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _part(self) -> Node:
        negated = False
        while self.take_keyword("not"):
            negated = not negated
        node = self._group() if self.next == "(" else self.condition()
        return Not(node) if negated else node

    def _group(self) -> Node:
        start = self.position
        self.take("(")
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error("brackets nested too deeply", f"At most {DEEPEST} levels are allowed.", start)
        node = self._either()
        if not self.take(")"):
            if self.next:
                raise self._not_joined()
            raise self.error("this bracket is not closed", "Put ) where the group ends.", start)
        self.depth -= 1
        return node

    def _not_joined(self) -> QueryError:
        if self.next == ")":
            return self.error("unmatched closing bracket", "Remove it, or put ( where the group begins.")
        end = ")" if self.depth else "the end"
        hint = _OTHER_JOINTS_QUOTED.get(self.next, "Quote a text of several words.")
        return self.error(f"expected and, or, or {end}, found {self.found()}", hint)


class _KeywordParser(_Conditions):
    """Words that are in a name, as with pytest's -k: anything but white space, round brackets and quotes is a word."""

    what = "keyword expression"
    bare = re.compile(r"""[^\s()"']+""")
    escapes = False

    def keyword(self) -> str:
        """Return the next word; and, or, not are words of the language in lower case only."""
        found = self.bare.match(self.text, self.skip())
        return found.group() if found else ""

    def condition(self) -> Node:
        """Read a word, in quotes or bare."""
        if self.next in QUOTES:
            word = self.quoted().text
        else:
            word = self.keyword()
            if not word or word in _JOINTS:
                hint = "Write a word, a part of the name of a case; put and, or and not in quotes to search for them."
                raise self.error(f"expected a word, found {self.found()}", hint)
            self.position += len(word)
        return Test(Path(("name",)), Operator.CONTAINS, (Literal(word, word),))


class _QueryParser(_Conditions):
    def __init__(self, text: str, ignore_case: bool) -> None:
        super().__init__(text)
        self.ignore_case = ignore_case

    def condition(self) -> Node:
        """Read a test of a field, or a text in quotes, which is searched in all fields."""
        if self.next in QUOTES:
            return self._anywhere()
        if self.take_keyword("exists"):
            return Test(self._existing(), Operator.EXISTS)
        if self.next in ("", ")", *_OTHER_JOINTS) or self.keyword() in (*_JOINTS, *_NAMED):
            raise self._no_condition()
        return self._tested(self._path())

    def _anywhere(self) -> Node:
        start = self.position
        text = self.quoted().text
        if self.next in ("=", "<", ">", "!") or self.keyword() in (*_WORDS, "is"):
            raise self.error(
                "expected a field here, not a text", f'Write a field without quotes, or as row["{text[:40]}"].', start
            )
        return Test(Path(()), Operator.CONTAINS, (Literal(text, text),))

    def _existing(self) -> Path:
        bracket = self.take("(")
        path = self._path()
        if bracket and not self.take(")"):
            raise self.error(f"expected ), found {self.found()}", "Example: exists(error).")
        return path

    # -- fields ------------------------------------------------------------------------------------------------

    def _path(self) -> Path:
        """Read a field: a name, and steps into what it holds."""
        start = self.skip()
        steps: list[Step] = [self._name()]
        if number_of(str(steps[0])) is not None:
            raise self.error(
                "expected a field, not a number", f'Write a field of that name as row["{steps[0]}"].', start
            )
        while self.text.startswith((".", "["), self.position):
            self.position += 1
            steps.append(self._name() if self.text[self.position - 1] == "." else self._bracketed())
        if steps[0] == "row":
            return Path(tuple(steps[1:]))
        return Path(tuple(steps), computed=steps[0] in COMPUTED)

    def _name(self) -> str:
        start, end = self.position, self.name_end(self.position)
        if end == start:
            self.refuse_curly_quotes()
            raise self.error(
                f"expected the name of a field, found {self.found()}",
                'Examples: success, guardrail_categories.hate; write an unusual name as row["my field"].',
                start,
            )
        self.position = end
        return self.text[start:end]

    def _bracketed(self) -> Step:
        """Read what stands between square brackets, the first of which was passed."""
        start = self.position - 1
        step: Step = None
        if self.next in QUOTES:
            step = self.quoted().text
        elif not self.take("*"):
            index = _INDEX.match(self.text, self.position)
            if index is None:
                raise self.error(
                    f"expected a number, * or a quoted name, found {self.found()}",
                    'Examples: attempt_history[0], attempt_history[*], meta["a name"].',
                )
            self.position = index.end()
            step = int(index.group())
        if not self.take("]"):
            raise self.error("this bracket is not closed", "Put ] after the number, the * or the name.", start)
        return step

    # -- tests of a field --------------------------------------------------------------------------------------

    def _tested(self, path: Path) -> Node:
        if self.next in ("", ")") or self.keyword() in ("and", "or"):
            return Test(path, Operator.HOLDS)
        for symbol, (asked, turned) in _SYMBOLS.items():
            if self.take(symbol):
                return self._compared(path, asked, symbol, turned)
        if self.take_keyword("is"):
            turned = bool(self.take_keyword("not"))
            return self._compared(path, Operator.EQUAL, "is not" if turned else "is", turned)
        turned = bool(self.take_keyword("not"))
        word = self.take_keyword(*_WORDS)
        if not word:
            raise self._no_operator(turned)
        if word == "exists":
            test: Node = Test(path, Operator.EXISTS)
        elif word == "in":
            test = Test(path, Operator.EQUAL, self._listed())
        else:
            return self._compared(path, _WORDS[word], word, turned)
        return Not(test) if turned else test

    def _compared(self, path: Path, asked: Operator, written: str, turned: bool) -> Node:
        start, word = self._word(written)
        literal = _literal(word)
        if asked is Operator.MATCHES:
            self._check_pattern(word, start)
        if asked in _SIZES and (literal.value is None or isinstance(literal.value, bool)):
            raise self.error(
                f"expected a number or a text after {written}", f"{literal.text} cannot be ordered; use = or !=.", start
            )
        test = Test(path, asked, (literal,))
        return Not(test) if turned else test

    def _listed(self) -> tuple[Literal, ...]:
        if not self.take("("):
            raise self.error(f"expected ( after in, found {self.found()}", "Example: lang in (en, fr).")
        start = self.position - 1
        literals = [_literal(self._word("in (")[1])]
        while self.take(","):
            literals.append(_literal(self._word(",")[1]))
        if not self.take(")"):
            if self.next:
                raise self.error(f"expected , or ), found {self.found()}", "Quote a text of several words.")
            raise self.error("this bracket is not closed", "Put ) after the last value.", start)
        return tuple(literals)

    def _word(self, written: str) -> tuple[int, Word]:
        """Read the value after an operator; and, or, not are no values, so that a forgotten one is noticed."""
        self.skip()
        start = self.position
        word = self.word()
        if word is None:
            hint = 'Examples: success = true, attempts > 3, error contains "time-out".'
            if self.next in _BRACKETS:
                hint = "Quote a text that contains brackets."
            raise self.error(f"expected a value after {written}, found {self.found()}", hint)
        if not word.quoted and word.text.lower() in _JOINTS:
            raise self.error(f"expected a value after {written}, found {word.text}", _SAY_OR_QUOTE, start)
        return start, word

    def _check_pattern(self, word: Word, start: int) -> None:
        trouble = pattern_trouble(word.text, ignore_case=self.ignore_case)
        if trouble is not None:
            reason, index = trouble
            place = word.places[index] if index < len(word.places) else self.position - word.quoted
            raise self.error(
                f"invalid regular expression: {reason}",
                "Python syntax applies; use contains to search for literal text.",
                max(place, start),
            )

    # -- what was not understood -------------------------------------------------------------------------------

    def _no_condition(self) -> QueryError:
        hint = _OTHER_JOINTS.get(self.next, "Example: success = true.")
        if self.keyword() in (*_JOINTS, *_NAMED):
            hint = f"Write a field of that name as row.{self.keyword()}."
        return self.error(f"expected a condition, found {self.found()}", hint)

    def _no_operator(self, turned: bool) -> QueryError:
        from difflib import get_close_matches

        near = get_close_matches(self.keyword()[:40], [*_WORDS, "is", "and", "or"], n=1, cutoff=0.7)
        hint = (
            f"Did you mean {near[0]}?" if near else "Operators: =, !=, <, >, contains, like, matches, in, exists, is."
        )
        if self.next == ":":
            hint = "Use contains to search a field."
        hint = _OTHER_JOINTS.get(self.next, hint)
        if turned and not near:
            hint = "To negate a whole condition, put not before it: not success = true."
        expected = "contains, like, matches, has, in or exists" if turned else "an operator"
        return self.error(f"expected {expected}, found {self.found()}", hint)


def _literal(word: Word) -> Literal:
    """Return what a word means: bare ones may be numbers, true, false and null, those in quotes are texts."""
    if word.quoted:
        return Literal(word.text, word.text)
    name = word.text.lower()
    if name in _NAMED:
        return Literal(word.text, _NAMED[name])
    number = number_of(word.text)
    return Literal(word.text, word.text if number is None else number)


class FigureScanner(Scanner):
    """Reads `asr > 5%`: a figure, a sign and a share. A subclass says which there are, and how they go together."""

    bare = re.compile(r"""[^\s:"'<>=]+""")
    figures: Sequence[str] = ()
    signs: Sequence[str] = (">", ">=", "<", "<=")
    signs_hint = ""

    def figure(self) -> str:
        """Read the name of a figure, in any case."""
        name = _FIGURE.match(self.text, self.skip())
        figure = name.group().lower().replace("-", "_") if name else ""
        if name is None or figure not in self.figures:
            from difflib import get_close_matches

            near = get_close_matches(figure[:40], self.figures, n=1)
            hint = f"{f'Did you mean {near[0]}? ' if near else ''}The figures are {', '.join(self.figures)}."
            wrong = f"no such figure: {name.group()[:40]}" if name else f"expected a figure, found {self.found()}"
            raise self.error(wrong, hint)
        self.position = name.end()
        return figure

    def sign(self) -> str:
        """Read a sign."""
        found = _SIGN.match(self.text, self.skip())
        if found is None or found.group() not in self.signs:
            wrong = f"“{found.group()}”" if found else self.found()
            raise self.error(f"expected an operator, found {wrong}", self.signs_hint)
        self.position = found.end()
        return found.group()

    def share(self) -> float:
        """Read a share, written as 0.05 or 5%; it may be any number."""
        found = _SHARE.match(self.text, self.skip())
        if found is None:
            raise self.error(f"expected a number, found {self.found()}", SHARE_HINT)
        self.position = found.end()
        number = Decimal(found.group())
        if self.take("%"):
            number /= 100
        if self.text.startswith(",", self.position):
            raise self.error("a comma in a number", "Write the point: 0.05.")
        return float(number)
