"""The grammar of conditions: the text of a query or a keyword expression made into the tree of what it asks.

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

import re
from collections.abc import Sequence
from decimal import Decimal
from difflib import get_close_matches

from faircount.query.query import Query
from faircount.query.scanner import QUOTES, QueryError, Scanner, Word
from faircount.query.tree import COMPUTED, And, Literal, Node, Not, Operator, Or, Path, Step, Test
from faircount.query.values import number_of, pattern_trouble

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
