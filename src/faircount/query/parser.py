"""The grammar: the text of a query made into its tree.

query      = all-of { "or" all-of }
all-of     = condition { "and" condition }
condition  = "not" condition | "(" query ")" | text in quotes | "exists" field | field [ test ]
test       = [ "not" ] ( "exists" | "in" "(" value { "," value } ")" | operator value ) | "is" [ "not" ] value
field      = name { "." name | "[" number "]" | "[" "*" "]" | "[" text in quotes "]" }
"""

from __future__ import annotations

from difflib import get_close_matches

from faircount.query.query import Query
from faircount.query.scanner import QUOTES, Scanner, Word
from faircount.query.tree import And, Literal, Node, Not, Operator, Or, Path, Test
from faircount.query.values import number_of, pattern_trouble

LONGEST = 1_000_000
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
_NAMED: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_SAY_OR_QUOTE = 'Quote it if it is a text: lang = "or".'
_OTHER_JOINTS = {"&": "Use the word and.", "|": "Use the word or.", "!": "Use the word not."}
_OTHER_JOINTS_QUOTED = {sign: f"{hint} Quote a text that contains {sign}." for sign, hint in _OTHER_JOINTS.items()}


def parse(text: str, *, ignore_case: bool = False) -> Query:
    """Return the query that a text says, or raise a QueryError that points at what was not understood.

    `ignore_case` makes =, !=, <, in, has and matches ignore case, as contains and like always do.
    """
    parser = _Parser(text, ignore_case)
    if len(text) > LONGEST:
        raise parser.scanner.error("the query is too long", f"At most {LONGEST:,} characters are allowed.", LONGEST)
    return Query(text, parser.query(), ignore_case)


class _Parser:
    def __init__(self, text: str, ignore_case: bool) -> None:
        self.scanner = Scanner(text)
        self.ignore_case = ignore_case
        self.depth = 0

    def query(self) -> Node:
        tree = self._either()
        if self.scanner.next:
            raise self._not_joined()
        return tree

    def _either(self) -> Node:
        parts = [self._all()]
        while self.scanner.take_keyword("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _all(self) -> Node:
        parts = [self._condition()]
        while self.scanner.take_keyword("and"):
            parts.append(self._condition())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _condition(self) -> Node:
        negated = False
        while self.scanner.take_keyword("not"):
            negated = not negated
        node = self._positive()
        return Not(node) if negated else node

    def _positive(self) -> Node:
        if self.scanner.next == "(":
            return self._grouped()
        if self.scanner.next in QUOTES:
            return self._anywhere()
        if self.scanner.take_keyword("exists"):
            return Test(self._existing(), Operator.EXISTS)
        if self.scanner.next in ("", ")", *_OTHER_JOINTS) or self.scanner.keyword() in (*_JOINTS, *_NAMED):
            raise self._no_condition()
        return self._tested(self.scanner.path())

    def _grouped(self) -> Node:
        start = self.scanner.position
        self.scanner.take("(")
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.scanner.error("brackets nested too deeply", f"At most {DEEPEST} levels are allowed.", start)
        node = self._either()
        if not self.scanner.take(")"):
            if self.scanner.next:
                raise self._not_joined()
            raise self.scanner.error("this bracket is not closed", "Put ) where the group ends.", start)
        self.depth -= 1
        return node

    def _anywhere(self) -> Node:
        """Read a text in quotes, which is searched in all fields."""
        start = self.scanner.position
        word = self.scanner.word()
        assert word is not None
        if self.scanner.next in ("=", "<", ">", "!") or self.scanner.keyword() in (*_WORDS, "is"):
            raise self.scanner.error(
                "expected a field here, not a text",
                f'Write a field without quotes, or as row["{word.text[:40]}"].',
                start,
            )
        return Test(Path(()), Operator.CONTAINS, (Literal(word.text, word.text),))

    def _existing(self) -> Path:
        bracket = self.scanner.take("(")
        path = self.scanner.path()
        if bracket and not self.scanner.take(")"):
            raise self.scanner.error(f"expected ), found {self.scanner.found()}", "Example: exists(error).")
        return path

    # -- tests of a field --------------------------------------------------------------------------------------

    def _tested(self, path: Path) -> Node:
        scanner = self.scanner
        if scanner.next in ("", ")") or scanner.keyword() in ("and", "or"):
            return Test(path, Operator.HOLDS)
        for symbol, (asked, turned) in _SYMBOLS.items():
            if scanner.take(symbol):
                return self._compared(path, asked, symbol, turned)
        if scanner.take_keyword("is"):
            turned = bool(scanner.take_keyword("not"))
            return self._compared(path, Operator.EQUAL, "is not" if turned else "is", turned)
        turned = bool(scanner.take_keyword("not"))
        word = scanner.take_keyword(*_WORDS)
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
            raise self.scanner.error(
                f"expected a number or a text after {written}", f"{literal.text} cannot be ordered; use = or !=.", start
            )
        test = Test(path, asked, (literal,))
        return Not(test) if turned else test

    def _listed(self) -> tuple[Literal, ...]:
        scanner = self.scanner
        if not scanner.take("("):
            raise scanner.error(f"expected ( after in, found {scanner.found()}", "Example: lang in (en, fr).")
        start = scanner.position - 1
        literals = [_literal(self._word("in (")[1])]
        while scanner.take(","):
            literals.append(_literal(self._word(",")[1]))
        if not scanner.take(")"):
            if scanner.next:
                raise scanner.error(f"expected , or ), found {scanner.found()}", "Quote a text of several words.")
            raise scanner.error("this bracket is not closed", "Put ) after the last value.", start)
        return tuple(literals)

    def _word(self, written: str) -> tuple[int, Word]:
        """Read the value after an operator; and, or, not are no values, so that a forgotten one is noticed."""
        self.scanner.skip()
        start = self.scanner.position
        word = self.scanner.word()
        if word is None:
            hint = 'Examples: success = true, attempts > 3, error contains "time-out".'
            if self.scanner.next in _BRACKETS:
                hint = "Quote a text that contains brackets."
            raise self.scanner.error(f"expected a value after {written}, found {self.scanner.found()}", hint)
        if not word.quoted and word.text.lower() in _JOINTS:
            raise self.scanner.error(f"expected a value after {written}, found {word.text}", _SAY_OR_QUOTE, start)
        return start, word

    def _check_pattern(self, word: Word, start: int) -> None:
        trouble = pattern_trouble(word.text, ignore_case=self.ignore_case)
        if trouble is not None:
            reason, index = trouble
            place = word.places[index] if index < len(word.places) else self.scanner.position - word.quoted
            raise self.scanner.error(
                f"invalid regular expression: {reason}",
                "Python syntax applies; use contains to search for literal text.",
                max(place, start),
            )

    # -- what was not understood -------------------------------------------------------------------------------

    def _no_condition(self) -> Exception:
        scanner = self.scanner
        hint = _OTHER_JOINTS.get(scanner.next, "Example: success = true.")
        if scanner.keyword() in (*_JOINTS, *_NAMED):
            hint = f"Write a field of that name as row.{scanner.keyword()}."
        return scanner.error(f"expected a condition, found {scanner.found()}", hint)

    def _no_operator(self, turned: bool) -> Exception:
        scanner = self.scanner
        near = get_close_matches(scanner.keyword()[:40], [*_WORDS, "is", "and", "or"], n=1, cutoff=0.7)
        hint = (
            f"Did you mean {near[0]}?" if near else "Operators: =, !=, <, >, contains, like, matches, in, exists, is."
        )
        if scanner.next == ":":
            hint = "Use contains to search a field."
        hint = _OTHER_JOINTS.get(scanner.next, hint)
        if turned and not near:
            hint = "To negate a whole condition, put not before it: not success = true."
        expected = "contains, like, matches, has, in or exists" if turned else "an operator"
        return scanner.error(f"expected {expected}, found {scanner.found()}", hint)

    def _not_joined(self) -> Exception:
        scanner = self.scanner
        if scanner.next == ")":
            return scanner.error("unmatched closing bracket", "Remove it, or put ( where the group begins.")
        end = ")" if self.depth else "the end"
        hint = _OTHER_JOINTS_QUOTED.get(scanner.next, "Quote a text of several words.")
        return scanner.error(f"expected and, or, or {end}, found {scanner.found()}", hint)


def _literal(word: Word) -> Literal:
    """Return what a word means: bare ones may be numbers, true, false and null, those in quotes are texts."""
    if word.quoted:
        return Literal(word.text, word.text)
    name = word.text.lower()
    if name in _NAMED:
        return Literal(word.text, _NAMED[name])
    number = number_of(word.text)
    return Literal(word.text, word.text if number is None else number)
