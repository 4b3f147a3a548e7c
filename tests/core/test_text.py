"""Hostile text comes out visible, on one line, and without secrets."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircount.core import clip, clip_middle, mask_secrets, visible


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202edef\u202c", "abc\\u202edef\\u202c"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("\u2028line\u2029", "\\u2028line\\u2029"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("selector\U000e0100", "selector\\U000e0100"),
        ("filler\u3164", "filler\\u3164"),
        ("half\ud800", "half\\ud800"),
        ("\x7f", "\\x7f"),
        ("non\u00a0breaking", "non\\xa0breaking"),
        ("wide\u3000space\u2003", "wide\\u3000space\\u2003"),
        ("note\U0001d159head", "note\\U0001d159head"),
        ("filler\U00016fe4", "filler\\U00016fe4"),
    ],
)
def test_hidden_characters_are_spelled_out(hostile: str, shown: str) -> None:
    assert visible(hostile) == shown


@pytest.mark.parametrize("plain", ["", "hello", "café", "运行", "Ünïcödé 😀"])
def test_readable_text_is_left_alone(plain: str) -> None:
    assert visible(plain) == plain


@given(st.text())
def test_visible_text_is_harmless_and_stays_as_it_is(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_clipped_text_fits(text: str, limit: int) -> None:
    assert len(clip(text, limit)) <= limit
    assert len(clip_middle(text, limit)) <= limit
    assert clip("x" * 3, 3) == "xxx"


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        (31, "/a/very/long/path/results.jsonl"),
        (30, "/a/very/long/pa…/results.jsonl"),
        (14, "/a/very….jsonl"),
        (13, "/a/ver….jsonl"),
        (3, "/…l"),
        (2, "/…"),
        (1, "…"),
    ],
)
def test_a_name_loses_its_middle(limit: int, shown: str) -> None:
    assert clip_middle("/a/very/long/path/results.jsonl", limit) == shown


@given(st.text(max_size=60), st.integers(min_value=1, max_value=60))
def test_what_a_name_keeps_is_its_beginning_and_its_end(text: str, limit: int) -> None:
    shown = clip_middle(text, limit)
    if len(text) <= limit:
        assert shown == text
        return
    assert len(shown) == limit
    begins = (limit - 1) - (limit - 1) // 2
    begin, end = shown[:begins], shown[begins + 1 :]
    assert shown[begins] == "…" and text.startswith(begin) and text.endswith(end)
    assert 0 <= len(begin) - len(end) <= 1


@pytest.mark.parametrize(
    "secret",
    [
        "sk-abcdefghijklmnopqrstuvwxyz123456",
        "sk-proj-abcdef_ghijkl-mnopqrstuvwxyz",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "xoxb-123456789012-abcdefghijkl",
        "AIzaSyA-abcdefghijklmnopqrstuvwxyz012345",
        "hf_abcdefghijklmnopqrstuvwx",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijkl",
    ],
)
def test_keys_are_masked_wherever_they_stand(secret: str) -> None:
    masked = mask_secrets(f"401 for {secret}, try again")
    assert secret not in masked
    assert secret[6:] not in masked
    assert masked.startswith("401 for ")
    assert masked.endswith(", try again")


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("Authorization: Bearer abcdef0123456789abcdef", "0123456789abcdef"),
        ("GET /v1?api_key=abcdef0123456789&x=1", "0123456789"),
        ('{"password": "correct-horse-battery"}', "horse-battery"),
        ("token: 0123456789abcdef", "456789abcdef"),
    ],
)
def test_labelled_secrets_are_masked(text: str, hidden: str) -> None:
    assert hidden not in mask_secrets(text)


@pytest.mark.parametrize(
    "text", ["HTTP 503 upstream timeout", "Guardrail was triggered by the target: policy 3", "the key is short"]
)
def test_ordinary_errors_are_not_masked(text: str) -> None:
    assert mask_secrets(text) == text
