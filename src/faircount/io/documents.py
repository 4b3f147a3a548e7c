"""A JSON document that is one object, read from a stream a part at a time: memory is that of its largest part wanted.

A reader walks into the members and lists that it knows and passes over all others. What the document holds before
damage is given; then `DamagedDocument` says where it broke.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator

from msgspec import Struct

from faircount.core.options import MAX_LINE_BYTES

_LEAST_READ = 256 * 1024
_NEAR_THE_END = 64
"""An error so close to what was read of a document may be one that more of it mends: half a word or a number."""
_SPACE = re.compile(r"[ \t\r\n]*")
_MARKS = re.compile(r'"(?:[^"\\]|\\.)*+("?)|[{}\[\]]', re.DOTALL)
_REST_OF_STRING = re.compile(r'(?:[^"\\]|\\.)*+', re.DOTALL)
_DEPTH = {"{": 1, "[": 1, "}": -1, "]": -1}
_decoder = json.JSONDecoder(strict=False)


class DamagedDocument(Exception):
    """A document that cannot be read on; the message is the reason, `line` the place."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


class DocumentPart(Struct, frozen=True):
    """A value of a document as it is written: its text, and the line and the byte where it begins.

    A value that is too long or too deep has no text, and a `problem`.
    """

    text: bytes
    line: int
    offset: int
    problem: str = ""


class JsonDocument:
    """Goes through a document once. After each key that `members` yields, its value is taken, walked into or left."""

    def __init__(self, chunks: Iterator[bytes], longest: int = MAX_LINE_BYTES) -> None:
        self._chunks = chunks
        self._longest = longest
        # In Latin-1 every byte is a character: places are those of the bytes.
        self._text = ""
        self._place = 0
        self._offset = 0
        self._line, self._counted = 1, 0
        self._ended = False
        self._waiting = False
        self._more()
        if self._text.startswith(BOM_UTF8.decode("latin-1")):
            self._place = len(BOM_UTF8)

    @property
    def line(self) -> int:
        """The line that was reached."""
        self._line += self._text.count("\n", self._counted, self._place)
        self._counted = self._place
        return self._line

    def members(self) -> Iterator[str]:
        """Yield the keys of the object that comes next; nothing if it is no object, which is passed over."""
        if self._next() != "{":
            self.skip()
            return
        self._waiting = False
        self._place += 1
        while self._next() != "}":
            key = self._whole_value()
            self._expect(":")
            self._waiting = True
            yield str(key)
            if self._waiting:
                self.skip()
            if self._next() == ",":
                self._place += 1
            elif self._next() != "}":
                raise self._damaged("a , or } is missing")
        self._place += 1

    def items(self) -> Iterator[DocumentPart]:
        """Yield the items of the list that comes next; nothing if it is no list, which is passed over."""
        if self._next() != "[":
            self.skip()
            return
        self._waiting = False
        self._place += 1
        while self._next() != "]":
            yield self.value()
            if self._next() == ",":
                self._place += 1
            elif self._next() != "]":
                raise self._damaged("a , or ] is missing")
        self._place += 1

    def value(self) -> DocumentPart:
        """Return the value that comes next."""
        self._waiting = False
        self._next()
        line, offset = self.line, self._offset + self._place
        try:
            self._whole_value()
        except (RecursionError, _PartTooLong) as problem:
            self._place = offset - self._offset
            self.skip()
            deep = isinstance(problem, RecursionError)
            why = "nested too deeply" if deep else f"longer than {self._longest:,} bytes"
            return DocumentPart(b"", line, offset, why)
        start = offset - self._offset
        return DocumentPart(self._text[start : self._place].encode("latin-1"), line, offset)

    def skip(self) -> None:
        """Pass over the value that comes next, however large it is."""
        self._waiting = False
        first = self._next()
        if first == '"':
            self._place += 1
            self._skip_string()
        elif first in ("{", "["):
            self._skip_container()
        else:
            self._whole_value()

    def end(self) -> None:
        """Raise if something follows the document."""
        if self._next(may_end=True):
            raise self._damaged("more follows the end of the document")

    # -- reading --------------------------------------------------------------------------------------------------

    def _more(self) -> bool:
        """Read at least as much again as is there, so that long values are not tried too often; False at the end."""
        if self._ended:
            return False
        self._drop()
        wanted = max(_LEAST_READ, len(self._text))
        pieces, size = [], 0
        while size < wanted:
            chunk = next(self._chunks, None)
            if chunk is None:
                self._ended = True
                break
            pieces.append(chunk)
            size += len(chunk)
        self._text += b"".join(pieces).decode("latin-1")
        return size > 0

    def _drop(self) -> None:
        """Forget what was read before the place that was reached."""
        _ = self.line
        self._text = self._text[self._place :]
        self._offset += self._place
        self._place = self._counted = 0

    def _next(self, *, may_end: bool = False) -> str:
        """Return the next character that is no space, at which the document then stands."""
        while True:
            match = _SPACE.match(self._text, self._place)
            self._place = self._place if match is None else match.end()
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._more():
                if may_end:
                    return ""
                raise self._damaged("it ends in the middle")

    def _expect(self, sign: str) -> None:
        if self._next() != sign:
            raise self._damaged(f"a {sign} is missing")
        self._place += 1

    def _whole_value(self) -> object:
        """Decode the value that comes next and go behind it."""
        self._next()
        while True:
            try:
                value, end = _decoder.raw_decode(self._text, self._place)
            except json.JSONDecodeError as error:
                may_go_on = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _NEAR_THE_END
                if not may_go_on or self._ended:
                    self._place = error.pos
                    torn = error.pos >= len(self._text.rstrip()) or error.msg.startswith("Unterminated")
                    why = "it ends in the middle of a value" if torn else error.msg[:1].lower() + error.msg[1:]
                    raise self._damaged(why) from None
            else:
                # A number near the end may have more digits.
                if isinstance(value, str | dict | list) or end < len(self._text) - _NEAR_THE_END or self._ended:
                    if end - self._place > self._longest:
                        raise _PartTooLong
                    self._place = end
                    return value
            if len(self._text) - self._place > self._longest:
                raise _PartTooLong
            self._more()

    def _skip_container(self) -> None:
        depth = 0
        while True:
            for mark in _MARKS.finditer(self._text, self._place):
                if mark[1] == "":  # a string that does not end in what was read
                    self._place = mark.start() + 1
                    self._skip_string()
                    break
                self._place = mark.end()
                depth += _DEPTH.get(mark[0], 0)
                if depth == 0:
                    return
            else:
                self._place = len(self._text)
                if not self._more():
                    raise self._damaged("it ends in the middle of a value")

    def _skip_string(self) -> None:
        """Go behind the end of a string that has begun."""
        while True:
            rest = _REST_OF_STRING.match(self._text, self._place)
            self._place = self._place if rest is None else rest.end()
            if self._text[self._place : self._place + 1] == '"':
                self._place += 1
                return
            # A backslash at the very end waits for what it escapes.
            if not self._more():
                raise self._damaged("it ends in the middle of a value")

    def _damaged(self, reason: str) -> DamagedDocument:
        return DamagedDocument(reason, self.line)


class _PartTooLong(Exception):
    """A value longer than is read."""
