"""JSON documents read a part at a time: every part with its place, and nothing lost that comes before damage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faircount.io import DamagedDocument, DocumentPart, JsonDocument

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def chunks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def rows_of(document: JsonDocument) -> Iterator[DocumentPart]:
    for key in document.members():
        if key == "results":
            for inner in document.members():
                if inner == "rows":
                    yield from document.items()


@pytest.fixture(params=[1, 64, 256 * 1024], autouse=True)
def window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircount.io.documents._LEAST_READ", request.param)


@pytest.mark.parametrize("size", [1, 7, 100_000])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=VALUES, rows=st.lists(VALUES, max_size=5), after=VALUES, ascii_only=st.booleans(), indented=st.booleans())
def test_items_are_given_with_their_places_and_everything_else_is_passed_over(
    size: int, before: Any, rows: list[Any], after: Any, ascii_only: bool, indented: bool
) -> None:
    whole = {"before": before, "results": {"table": before, "rows": rows, "stats": after}, "after": after}
    data = json.dumps(whole, ensure_ascii=ascii_only, indent=1 if indented else None).encode()
    document = JsonDocument(chunks(data, size))
    found = list(rows_of(document))
    document.end()
    assert [json.loads(part.text) for part in found] == rows
    for part in found:
        assert data[part.offset : part.offset + len(part.text)] == part.text
        assert part.line == data[: part.offset].count(b"\n") + 1


def test_what_comes_before_a_break_is_given_and_the_line_of_the_break_is_named() -> None:
    data = b'{"results": {"rows": [\n{"a": 1},\n{"a": 2},\n{"a": "cut o'
    document, found = JsonDocument(chunks(data, 5)), []
    with pytest.raises(DamagedDocument, match="ends in the middle") as damage:
        for part in rows_of(document):
            found.append(json.loads(part.text))
    assert found == [{"a": 1}, {"a": 2}]
    assert damage.value.line == 4


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"results": {"rows": [{"a": 1} {"a": 2}]}}', "a , or ] is missing"),
        (b'{"results" {"rows": []}}', "a : is missing"),
        (b'{"a": 1 "b": 2}', "a , or } is missing"),
        (b'{"a": nope}', "expecting value"),
        (b'{"results": {"rows": []', "it ends in the middle"),
    ],
)
def test_damage_is_named(data: bytes, reason: str) -> None:
    with pytest.raises(DamagedDocument, match=reason):
        list(rows_of(JsonDocument(chunks(data, 3))))


def test_more_after_the_end_is_damage() -> None:
    document = JsonDocument(iter([b'{"a": 1} {"b": 2}']))
    list(document.members())
    with pytest.raises(DamagedDocument, match="more follows"):
        document.end()


def test_a_part_over_the_limit_or_nested_too_deeply_is_passed_over_and_the_next_is_read() -> None:
    long, deep = json.dumps({"text": "x" * 5000}), "[" * 5000 + "]" * 5000
    data = f'{{"results": {{"rows": [{{"a": 1}}, {long}, {deep}, {{"a": 2}}]}}}}'.encode()
    found = list(rows_of(JsonDocument(chunks(data, 1000), longest=2000)))
    assert [json.loads(part.text) for part in found if not part.problem] == [{"a": 1}, {"a": 2}]
    long_one, deep_one = (part.problem for part in found if part.problem)
    assert long_one == "longer than 2,000 bytes"
    assert deep_one in ("nested too deeply", long_one)


def test_a_document_that_begins_with_a_byte_order_mark_is_read() -> None:
    assert list(JsonDocument(iter([b'\xef\xbb\xbf{"a": 1}'])).members()) == ["a"]


def test_memory_is_that_of_a_part_and_not_of_the_document() -> None:
    import tracemalloc

    row = json.dumps({"text": "x" * 2000}).encode()

    def endless() -> Iterator[bytes]:
        yield b'{"results": {"table": ["' + b"y" * 2_000_000 + b'"], "rows": [' + row
        for _ in range(10_000):
            yield b"," + row
        yield b"]}}"

    tracemalloc.start()
    count = sum(1 for _ in rows_of(JsonDocument(endless())))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 10_001
    assert peak < 12_000_000, "20 MB went through"
