"""Which tool wrote a file, where that is a tool whose results Faircount does not read yet.

A file is recognised by how it begins, never by its name. Reads no file and decides nothing about its content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_BY_KEYS: tuple[tuple[str, frozenset[str]], ...] = (
    ("a garak report", frozenset({"entry_type"})),
    ("a garak hit log", frozenset({"attempt_id", "probe", "detector", "score"})),
    ("a promptfoo result file", frozenset({"promptIdx", "testIdx", "vars", "success"})),
    ("a promptfoo result file", frozenset({"results", "results.version"})),
    ("an inspect log", frozenset({"version", "status", "eval"})),
    ("an lm-eval sample file", frozenset({"doc_id", "doc", "target", "resps"})),
    ("an lm-eval result file", frozenset({"results", "configs"})),
    ("an lm-eval result file", frozenset({"results", "group_subtasks"})),
    ("a PyRIT export", frozenset({"conversation_id", "role", "converted_value"})),
    ("a PyRIT file of scorer metrics", frozenset({"class_name", "hash", "metrics"})),
    ("a DeepEval test run", frozenset({"testCases"})),
    ("a DeepEval test run", frozenset({"conversationalTestCases"})),
    ("a DeepEval test run", frozenset({"testRunData"})),
    ("a DeepTeam risk assessment", frozenset({"overview", "test_cases"})),
    ("an AgentDojo run", frozenset({"suite_name", "pipeline_name", "user_task_id", "messages"})),
    ("a JailbreakBench artifact", frozenset({"parameters", "jailbreaks"})),
    ("an OpenAI evals log", frozenset({"spec", "spec.eval_name"})),
)
"""What a file is whose first object has all of these keys; `a.b` is the key b of the object under a."""

_BY_START: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("an inspect log", re.compile(rb"PK\x03\x04(?=[\s\S]*(?:header\.json|_journal/start\.json))")),
    ("a promptfoo database", re.compile(rb"SQLite format 3\0(?=[\s\S]*eval_results)")),
    ("a PyRIT database", re.compile(rb"SQLite format 3\0(?=[\s\S]*PromptMemoryEntries)")),
    ("a DeepEval database", re.compile(rb"SQLite format 3\0(?=[\s\S]*metric_data)")),
    ("a DuckDB database, such as PyRIT keeps", re.compile(rb"[\s\S]{8}DUCK")),
    ("a promptfoo result file in YAML", re.compile(rb"evalId:.*\n")),
    ("a promptfoo table", re.compile(rb"(?>[^\n]*?,Status,Score,Named Scores,)(?=[^\n]*,Grader Reason,Comment\b)")),
    ("a PyRIT export", re.compile(rb"id,role,conversation_id,sequence,timestamp,")),
    ("a HarmBench result file", re.compile(rb'\{\s*"[^"]*":\s*\[\s*\{\s*"test_case":(?=[\s\S]*"generation":)')),
)

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"?(\s*:)?|[{}\[\]]')
_DEPTH = 2


def other_tool(start: bytes) -> str | None:
    """Return what a file of another tool's is, by its first bytes, or None."""
    for what, pattern in _BY_START:
        if pattern.match(start):
            return what
    if start.lstrip()[:1] not in (b"{", b"["):
        return None
    keys = _keys(start)
    return next((what for what, needed in _BY_KEYS if needed <= keys), None)


def _keys(start: bytes) -> frozenset[str]:
    """Return the keys of the first object in a text, which may break off; `a.b` is one of the object under a."""
    try:
        first = msgspec.json.decode(start.partition(b"\n")[0])
    except (msgspec.DecodeError, RecursionError):
        return frozenset(_scanned(start))
    if isinstance(first, list) and first:
        first = first[0]
    if not isinstance(first, dict):
        return frozenset()
    nested = (f"{key}.{name}" for key, value in first.items() if isinstance(value, dict) for name in value)
    return frozenset({*first, *nested})


def _scanned(start: bytes) -> Iterator[str]:
    """Yield the keys of the first object, of which perhaps only the beginning is there."""
    path: list[str] = []
    depth = 0
    for token in _TOKEN.finditer(start):
        text = token[0]
        if text in (b"{", b"["):
            # A list of objects has no key of its own: its objects are looked into as if each stood alone.
            depth += 0 if text == b"[" and not depth else 1
        elif text in (b"}", b"]"):
            depth -= 1
            if depth <= 0:
                return
        elif token[1] is not None and 1 <= depth <= _DEPTH:
            name = text.rpartition(b'"')[0][1:].decode("utf-8", "replace")
            path = [*path[: depth - 1], name]
            yield ".".join(path)
