"""Two texts word by word: nothing is lost, what is marked is what differs, and hostile texts take no time."""

from __future__ import annotations

import difflib
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.analysis import word_difference

WORDS = st.lists(st.sampled_from(["a", "b", "no", "yes", "the", ",", "\n", "é", "\u202e", "x_1"]), max_size=30)


def marked(a: str, b: str) -> tuple[list[str], list[str]]:
    """Return what only one of the texts has."""
    found = word_difference(a, b)
    return [part.text for part in found.a if not part.shared], [part.text for part in found.b if not part.shared]


@given(WORDS, WORDS, st.sampled_from([" ", "  ", ""]))
def test_both_texts_are_there_and_what_they_share_is_the_same(one: list[str], other: list[str], between: str) -> None:
    a, b = between.join(one), between.join(other)
    found = word_difference(a, b)
    assert "".join(part.text for part in found.a) == a
    assert "".join(part.text for part in found.b) == b
    shared_a, shared_b = ("".join(part.text for part in parts if part.shared) for parts in (found.a, found.b))
    assert shared_a == shared_b
    assert found.same == (a == b)


@pytest.mark.parametrize(
    ("a", "b", "only"),
    [
        ("I can help with that.", "I cannot help with that.", (["can"], ["cannot"])),
        ("one two three", "one three", (["two "], [])),
        ("", "new words", ([], ["new words"])),
        ("no canary was found", "the canary is there", (["no", "was found"], ["the", "is there"])),
        # Signs alone are not what texts share.
        ("I'm sorry, I can't.", "Sure. Here, it's done!", (["I'm sorry, I can't."], ["Sure. Here, it's done!"])),
    ],
)
def test_what_differs_is_marked(a: str, b: str, only: tuple[list[str], list[str]]) -> None:
    assert marked(a, b) == only


def test_as_much_is_shared_as_the_standard_library_finds() -> None:
    chance = random.Random(5)
    vocabulary = [f"word{number}" for number in range(40)]
    for _ in range(50):
        words = chance.choices(vocabulary, k=60)
        other = [word for word in words if chance.random() > 0.2]
        for _ in range(5):
            other.insert(chance.randrange(len(other)), chance.choice(vocabulary))
        found = word_difference(" ".join(words), " ".join(other))
        shared = sum(len(part.text.split()) for part in found.a if part.shared)
        blocks = difflib.SequenceMatcher(None, words, other, autojunk=False).get_matching_blocks()
        assert shared >= 0.95 * sum(block.size for block in blocks)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("a b " * 50_000, "b a " * 50_000),
        ("!?" * 100_000, "?!," * 80_000),
        (" ".join(map(str, range(50_000))), " ".join(map(str, range(50_000, 0, -1)))),
        ("x" * 10_000_000, "y " * 5_000_000),
        ("\u202e\u200b" * 100_000, "\u200b\u202e " * 100_000),
        (
            " ".join(random.Random(1).choices("abcdef", k=50_000)),
            " ".join(random.Random(2).choices("abcdef", k=50_000)),
        ),
    ],
    ids=["two words", "signs", "reversed", "megabytes", "hidden", "random"],
)
def test_hostile_texts_take_no_time(a: str, b: str) -> None:
    started = time.process_time()
    found = word_difference(a, b)
    assert time.process_time() - started < 2
    assert "".join(part.text for part in found.b) == b
