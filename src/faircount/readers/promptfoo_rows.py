"""What a row of promptfoo's results is about and what came of it, whatever file it is in.

Entries are known by the content of their tests, never by `testIdx`, which repeats and filters change. What promptfoo
counts as a verdict and is none (a grader that failed, a test without an assertion, an answer that a filter stopped) is
none here. Nothing here reads a file, or trusts that a value has the type that it should.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from xxhash import xxh3_64_hexdigest

from faircount.core.text import clip
from faircount.core.verdict import Decision, Verdict
from faircount.readers.tool_records import finite, object_of, objects_in

ALL_ASSERTIONS = "all assertions"
"""The judge that decides about a task."""
BROKEN, UNASSERTED, UNREADABLE = "the judge failed", "no assertion", "no verdict"
"""Why nothing was decided of an answer."""
LONGEST_NAME = 160

_NO_FAILURE, _ASSERTION, _ERROR = 0, 1, 2
"""`failureReason`. `error` is no sign of an error: it repeats the reason of a failed assertion as well."""
_RED_TEAM = "promptfoo:redteam:"
_BASIC = "basic"
"""The strategy of a test that was sent as the plugin made it."""
_NO_ASSERTIONS = "No assertions"
_BROKEN_JUDGE = ("Could not extract JSON", "Custom function threw error", "Python code execution failed")
"""How reasons begin that say that a check did not work. Only graders that are models mark it: `graderError`."""
_REDACTED = "[REDACTED]"
_OF_THE_SESSION = frozenset(["sessionId", "_conversation"])
"""Variables that promptfoo adds while a test runs."""
_KNOWN_METADATA = frozenset(
    ["pluginId", "strategyId", "severity", "policyId", "language", "stopReason", "originalText", "purpose", "goal"]
)
_OWN_FIELDS = frozenset(["plugin", "attack_strategy", "policy", "stop_reason", "prompt", "grader", "target"])
_MEANT_BY_FILTERS = frozenset(["outcome", "strategy", "line", "file"])
"""Fields that have a meaning here, or in every filter."""

_LONGEST_FIELD = 200
_LONGEST_REASON = 4_000
_LONGEST_PREFIX = 40
_MOST_VERDICTS = 64
_LARGEST_COUNT = 1 << 53
_VARIABLE = re.compile(r"\{\{-?\s*(\w+)")
_NOT_IN_ID = re.compile(r"[^\w.:-]+")


class PromptfooRow(Struct, rename="camel", gc=False):
    """As much of a row as is counted or shown."""

    id: Any = None
    test_idx: Any = None
    prompt_idx: Any = None
    provider: Any = None
    prompt: Any = None
    vars: dict[str, Any] | None = None
    test_case: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    success: bool | None = None
    failure_reason: int | None = None
    error: Any = None
    score: Any = None
    grading_result: dict[str, Any] | None = None
    named_scores: dict[str, Any] | None = None
    latency_ms: Any = None
    metadata: dict[str, Any] | None = None

    @property
    def reason(self) -> int | None:
        """Why it failed, where that is said: in a database, 0 is also what rows of old versions got later."""
        return None if self.failure_reason == _NO_FAILURE and self.success is False else self.failure_reason


# -- values of a hostile file ------------------------------------------------------------------------------------


def short(value: Any, longest: int = _LONGEST_FIELD) -> str:
    """Return a short text without lone surrogates; nothing for what is no text."""
    if not isinstance(value, str):
        return ""
    return clip(value.encode("utf-8", "replace").decode("utf-8"), longest)


def count_in(value: Any) -> int:
    """Return a count, 0 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LARGEST_COUNT else 0


def _ordered_json(value: Any) -> bytes:
    """Return JSON in which the order of keys says nothing."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(value, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _id(prefix: str, *content: Any) -> str:
    """Return a name that can be read and depends on the content alone."""
    readable = _NOT_IN_ID.sub("-", clip(short(prefix), _LONGEST_PREFIX)).strip("-")
    return f"{readable or 'test'}:{xxh3_64_hexdigest(_ordered_json(content))[:12]}"


# -- what a row is about -------------------------------------------------------------------------------------------


def provider_name(provider: Any) -> str:
    """Return the label of a provider, or else its id."""
    given = object_of(provider)
    named = provider if isinstance(provider, str) else given.get("label") or given.get("id")
    return short(named, LONGEST_NAME)


def _label(row: PromptfooRow) -> str:
    """Return what a prompt is called, which is its template where nobody named it; version 0.24 had other words."""
    prompt = object_of(row.prompt)
    label = prompt.get("label") or prompt.get("display")
    return label if isinstance(label, str) else ""


def _metadata(row: PromptfooRow) -> Mapping[str, Any]:
    return {**object_of(object_of(row.test_case).get("metadata")), **(row.metadata or {})}


def components_of(row: PromptfooRow) -> list[Mapping[str, Any]]:
    """Return what each assertion of a row said."""
    return objects_in(object_of(row.grading_result).get("componentResults"))


def _type(component: Mapping[str, Any]) -> str:
    return short(object_of(component.get("assertion")).get("type"), LONGEST_NAME)


def is_attack(row: PromptfooRow) -> bool:
    """Return whether a row is of a red team."""
    if isinstance(_metadata(row).get("pluginId"), str):
        return True
    asserted = objects_in(object_of(row.test_case).get("assert"))
    kinds = [short(one.get("type")) for one in asserted] + [_type(one) for one in components_of(row)]
    return any(kind.startswith(_RED_TEAM) for kind in kinds)


def _variables(row: PromptfooRow) -> dict[str, Any]:
    """Return the variables of a test as they were given: a row that is still streamed has them filled in."""
    given = object_of(row.test_case).get("vars")
    variables = given if isinstance(given, dict) else row.vars or {}
    return {name: value for name, value in variables.items() if name not in _OF_THE_SESSION}


class TestedCase(Struct, frozen=True):
    """What a row tests: ids that are the same in the next run, and fields."""

    entry: str
    family: str
    fields: Mapping[str, Any]


def task_of(row: PromptfooRow) -> TestedCase:
    """Return what a test asks, with which prompt. The same test with other prompts is a family."""
    case, variables, label = object_of(row.test_case), _variables(row), _label(row)
    content: list[Any] = [variables, case.get("description"), case.get("assert")]
    if _REDACTED in [value for value in variables.values() if isinstance(value, str)]:
        content.append(object_of(row.prompt).get("raw"))
    prefix = case.get("description") or next((one for one in variables.values() if isinstance(one, str)), "")
    fields = {"prompt": short(label), "grader": _grader(case)}
    return TestedCase(_id(prefix, label, *content), _id(prefix, *content), {**_of_test(case), **_said(fields)})


def attack_of(row: PromptfooRow, names: RunNames) -> TestedCase:
    """Return what an attack is: a strategy on a text that a plugin made. Strategies on one text are a family."""
    metadata, variables, label = _metadata(row), _variables(row), _label(row)
    plugin, strategy = short(metadata.get("pluginId")), short(metadata.get("strategyId")) or _BASIC
    if not plugin:
        kinds = [_type(one) for one in components_of(row)]
        plugin = next((kind.removeprefix(_RED_TEAM) for kind in kinds if kind.startswith(_RED_TEAM)), "")
    text: Any = metadata.get("originalText")
    injected = _injected(variables, label)
    others = {name: value for name, value in variables.items() if name != injected}
    if not isinstance(text, str):
        text = variables.get(injected, variables)
        text = object_of(row.prompt).get("raw") if text == _REDACTED else text
    content: list[Any] = [plugin, text, others, metadata.get("language")]
    # Another prompt in the same file is another entry; of a prompt that changed since the last run, entries stay.
    which = [strategy, label] if names.is_second_prompt(label) else [strategy]
    fields = {
        "plugin": plugin,
        "attack_strategy": strategy,
        "severity": short(metadata.get("severity")),
        "policy": short(metadata.get("policyId")),
        "language": short(metadata.get("language")),
        "stop_reason": short(metadata.get("stopReason")),
        "prompt": short(label),
    }
    made = TestedCase(_id(f"{plugin}:{strategy}", which, *content), _id(plugin, *content), _said(fields))
    return msgspec.structs.replace(made, fields={**_of_test(object_of(row.test_case)), **made.fields})


def _injected(variables: Mapping[str, Any], label: str) -> str:
    """Return the variable that holds the attack; the configuration names it, but only behind all rows."""
    if len(variables) == 1:
        return next(iter(variables))
    named = ["prompt", *_VARIABLE.findall(label)]
    return next((name for name in named if name in variables), "")


def _of_test(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a test that is short enough to be fields."""
    found: dict[str, Any] = {}
    for name, value in object_of(case.get("metadata")).items():
        if name in _KNOWN_METADATA or name.startswith("_"):
            continue
        known = f"metadata_{name}" if name in _OWN_FIELDS | _MEANT_BY_FILTERS else short(name)
        if isinstance(value, bool) or finite(value) is not None:
            found[known] = value
        elif isinstance(value, str) and len(value) <= _LONGEST_FIELD:
            found[known] = short(value)
    return found


def _grader(case: Mapping[str, Any]) -> str:
    """Return the model that grades a test, where the test names one."""
    return provider_name(object_of(case.get("options")).get("provider"))


def _said(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}


def messages_of(row: PromptfooRow) -> list[dict[str, Any]]:
    """Return what was said to the target before its answer."""
    metadata, raw = _metadata(row), object_of(row.prompt).get("raw")
    final = metadata.get("redteamFinalPrompt")
    turns: Any = metadata.get("messages")
    if not turns and isinstance(raw, str) and not isinstance(final, str) and raw.lstrip().startswith("["):
        with contextlib.suppress(msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            turns = msgspec.json.decode(raw)
    said = [one for one in objects_in(turns) if isinstance(one.get("role"), str) and "content" in one]
    while said and said[-1]["role"] == "assistant":
        said.pop()
    if said:
        return [{"role": one["role"], "content": one["content"]} for one in said]
    return [{"role": "user", "content": final if isinstance(final, str) else raw}]


# -- what came of a row --------------------------------------------------------------------------------------------


class RowState(Struct, frozen=True):
    """What came of a row. `passed` is in promptfoo's words; None where nothing decided."""

    error: str | None = None
    blocked: str | None = None
    passed: bool | None = None
    unjudged: str = ""
    """Why nothing decided."""


def state_of(row: PromptfooRow) -> RowState:
    """Return what came of a row; an error goes before all, and what is no verdict before a verdict."""
    answer, grading = object_of(row.response), object_of(row.grading_result)
    if _is_error(row):
        error = row.error or answer.get("error")
        return RowState(error=short(error, _LONGEST_REASON) or "promptfoo recorded an error")
    guardrails = object_of(answer.get("guardrails"))
    blocked = short(guardrails.get("reason")) or "flagged" if guardrails.get("flagged") is True else None
    passed, unjudged = row.success, ""
    if passed is None and isinstance(grading.get("pass"), bool):
        passed = grading["pass"]
    if row.failure_reason not in (None, _NO_FAILURE, _ASSERTION) or passed is None:
        unjudged = UNREADABLE
    elif passed and grading.get("reason") == _NO_ASSERTIONS and not components_of(row):
        unjudged = UNASSERTED
    elif not passed and _judges_failed(row):
        unjudged = BROKEN
    return RowState(blocked=blocked, passed=None if unjudged else passed, unjudged=unjudged)


def _is_error(row: PromptfooRow) -> bool:
    """Return whether the target gave no answer; before version 3, a row does not say so itself."""
    if row.reason is not None:
        return row.reason == _ERROR
    if row.success:
        return False
    return row.grading_result is None or object_of(row.response).get("error") is not None


def is_broken(component: Mapping[str, Any]) -> bool:
    """Return whether a failed check says that it could not decide."""
    if component.get("pass") is not False:
        return False
    reason = component.get("reason")
    marked = object_of(component.get("metadata")).get("graderError") is True
    return marked or (isinstance(reason, str) and reason.startswith(_BROKEN_JUDGE))


def _judges_failed(row: PromptfooRow) -> bool:
    """Return whether a row failed only because its judges did."""
    failed = [one for one in components_of(row) if one.get("pass") is False]
    # A set of assertions fails with what is in it, which is listed beside it.
    failed = [one for one in failed if object_of(one.get("assertion"))] or failed or [object_of(row.grading_result)]
    return all(is_broken(one) for one in failed)


def verdicts_of(row: PromptfooRow, state: RowState, *, turned: bool) -> tuple[str, tuple[Verdict, ...]]:
    """Return the judge that decides, and what each judge said; `turned` where a failed assertion is a success."""
    grading, components = object_of(row.grading_result), components_of(row)
    judged: dict[str, Verdict] = {}
    for component in components[:_MOST_VERDICTS]:
        name = _unused(judge_name(component), judged)
        given = component.get("pass")
        decided = None if is_broken(component) or not isinstance(given, bool) else given is not turned
        judged[name] = _verdict(name, decided, component.get("score"), component.get("reason"), turned=turned)
    metrics = {object_of(one.get("assertion")).get("metric") for one in components}
    for metric, score in list((row.named_scores or {}).items())[:_MOST_VERDICTS]:
        value = finite(score)
        if metric not in metrics and value is not None:
            decided = (value >= 0.5) is not turned if 0 <= value <= 1 else None
            name = _unused(short(metric, LONGEST_NAME) or "score", judged)
            judged[name] = _verdict(name, decided, score, "", turned=turned)
    own = next((name for name in judged if name.startswith(_RED_TEAM)), None)
    if turned and own is not None:
        return own, tuple(judged.values())
    success = None if state.passed is None else state.passed is not turned
    whole = _verdict(ALL_ASSERTIONS, success, row.score, grading.get("reason"), turned=turned)
    return ALL_ASSERTIONS, (whole, *judged.values())


def judge_name(component: Mapping[str, Any]) -> str:
    """Return the name of an assertion: its type and metric. The metric of a red team has the strategy in it."""
    kind, metric = _type(component) or "assert-set", object_of(component.get("assertion")).get("metric")
    return kind if kind.startswith(_RED_TEAM) or not short(metric) else f"{kind}/{short(metric, LONGEST_NAME)}"


def _unused(name: str, names: Mapping[str, Any]) -> str:
    number, found = 1, name
    while found in names or found == ALL_ASSERTIONS:
        number += 1
        found = f"{name} #{number}"
    return found


def _verdict(judge: str, decided: bool | None, score: Any, reason: Any, *, turned: bool) -> Verdict:
    said, value = short(reason, _LONGEST_REASON), finite(score)
    if decided is None:
        return Verdict(None, reason=said, error=said or "no verdict", judge=judge)
    if turned and value is not None:
        value = 1 - value if 0 <= value <= 1 else None
    return Verdict(Decision.of(decided), value, said, judge=judge)


# -- names -------------------------------------------------------------------------------------------------------------


class RunNames:
    """Names of runs and prompts in one evaluation. Providers of one name are distinguished by their columns."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._columns: dict[tuple[str, str], dict[Any, int]] = {}
        self._first_prompt: str | None = None
        self._listed = False

    def add(self, prompts: Any) -> list[tuple[str, Mapping[str, Any]]]:
        """Take the list of prompts of an evaluation, one for each prompt and provider; return each with its run."""
        found = []
        for number, prompt in enumerate(objects_in(prompts)):
            row = PromptfooRow(prompt=prompt, provider=prompt.get("provider"), prompt_idx=number)
            if provider_name(row.provider):
                found.append((self.run(row), prompt))
                self.is_second_prompt(_label(row))
        self._listed = bool(found)
        return found

    def run(self, row: PromptfooRow) -> str:
        """Return the run that a row is of: its provider."""
        provider = provider_name(row.provider)
        column = row.prompt_idx if isinstance(row.prompt_idx, int) else None
        columns = self._columns.setdefault((provider, _label(row)), {})
        # Where columns are listed, one that is not among them tells nothing.
        number = columns.get(column, 1) if self._listed else columns.setdefault(column, len(columns) + 1)
        name = self._prefix + (provider or "unnamed provider")
        return name if number == 1 else f"{name} #{number}"

    def is_second_prompt(self, label: str) -> bool:
        """Return whether a prompt is another one than the first of the file."""
        if self._first_prompt is None:
            self._first_prompt = label
        return label != self._first_prompt
