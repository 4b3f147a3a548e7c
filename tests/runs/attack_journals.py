"""Journals of runs over datasets for tests: record by record, and random ones with what they come to, counted apart."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Record = dict[str, Any]

ATTACK = "best_of_n"
JUDGE = {"name": "canary.Canary", "type": "canary.Canary", "version": "1", "parameters": {}, "identity": "0"}
JAILBREAKS = ("dan", "new-instructions", None)
PLUGINS = ("base64", "1337", None)


def header(**settings: Any) -> Record:
    """Return the header of a run over a dataset."""
    attacking = {"attack": {"kind": "built-in", "name": ATTACK, "options": {"seed": 7}}, "iterations": 4}
    told = {"attacking": attacking, **settings}
    run = {"kind": "run", "schema": 1, "aim": "attack", "run": "r", "version": "0.1.0"}
    return {**run, "started": "2026-01-01T00:00:00", "settings": told}


def entry(name: str, text: str = "", *, turns: Sequence[str] = (), system: str | None = None, **fields: Any) -> Record:
    """Return the record of an entry."""
    said = text or f"prompt {name}"
    messages = [{"role": "user", "content": said}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    told = {
        "id": int(name) if name.isdigit() else name,
        "long_id": f"long-{name}",
        "content": [said, *turns] if turns else said,
        "judge_name": "canary",
        "judge_args": "CANARY",
        **fields,
    }
    record: Record = {
        "kind": "case",
        "case": name,
        "input": {"messages": messages, "api_params": {}},
        "entry": told,
        "metrics": [JUDGE],
        "place": "data.jsonl:1",
    }
    return {**record, "turns": list(turns)} if turns else record


def call(name: str, number: int) -> Record:
    """Return the record of a request that is about to be sent."""
    return {"kind": "call", "case": name, "attempt": number}


def tried(
    name: str, number: int, letter: str, *, strategy: str = "standard", iteration: int = 0, **fields: Any
) -> Record:
    """Return the record of an attempt.

    The letter says what came: s success, f failure, u answered but not judged, e error, b blocked; t and n are a
    guardrail that answers, having let the prompt through or not.
    """
    answered = letter not in "eb"
    text = {"t": "True", "n": "False"}.get(letter, f"answer {number} of {name}")
    output: Record = {"output": text, "tools_called": [], "context": [], "execution_time": 0.5 + number}
    if letter in "tn":
        output["let_through"] = letter == "t"
    error: Record | None = None
    if letter == "e":
        error = {"kind": "status", "message": "HTTP 503"}
    elif letter == "b":
        error = {"kind": "blocked", "message": f"policy of {name}", "categories": [f"category-{number % 2}"]}
    verdict = {"s": "success", "f": "failure", "u": "error"}.get(letter)
    said: Record = {"metric": JUDGE["name"], "score": None, "verdict": verdict, "reason": f"because {letter}"}
    sent = {} if strategy == "standard" else {"messages": [{"role": "user", "content": f"variant {number} of {name}"}]}
    return {
        "kind": "attempt",
        "case": name,
        "attempt": number,
        "strategy": strategy,
        "iteration": iteration,
        "calls": 1,
        "started": "2026-01-01T00:00:01",
        **sent,
        "output": output if answered else None,
        "error": error,
        "verdicts": [] if verdict is None else [{**said, "error": "it broke" if letter == "u" else None}],
        "model": "model-1" if answered else None,
        "finish_reason": "stop",
        "usage": {},
        "tries": 1,
        "waited": 0.0,
        **fields,
    }


def attacked(name: str, number: int, letter: str, iteration: int = 0, **fields: Any) -> Record:
    """Return the record of an iteration of the attack."""
    return tried(name, number, letter, strategy=ATTACK, iteration=iteration, **fields)


def retry(name: str, number: int) -> Record:
    """Return the record that makes an attempt before it void."""
    return {"kind": "retry", "case": name, "attempt": number}


def done(name: str, outcome: str = "failure", error: str | None = None) -> Record:
    """Return the record that says that nothing more is tried on an entry."""
    told = {"kind": "done", "case": name, "outcome": outcome}
    return told if error is None else {**told, "error": error}


# -- random journals --------------------------------------------------------------------------------------------


def random_journal(seed: int, *, entries: int = 60, unfinished: bool = True, boolean: bool = False) -> list[Record]:
    """Return the records of a run: entries are under way at the same time, attempts are void, doubled or missing."""
    lots = random.Random(seed)
    attack_only, has_attack = lots.random() < 0.25, lots.random() < 0.8
    has_attack = has_attack or attack_only
    cases = [_random_entry(lots, number) for number in range(1, entries + 1)]
    courses = [
        _course(lots, case["case"], attack=has_attack, standard=not attack_only, boolean=boolean) for case in cases
    ]
    if unfinished:
        # A run that was stopped: some entries have only the beginning of their course, some nothing.
        for course in lots.sample(courses, entries // 6):
            del course[lots.randrange(len(course) + 1) :]
    records: list[Record] = [header(), *cases]
    waiting = [course for course in courses if course]
    while waiting:
        course = lots.choice(waiting[:5])
        records.append(course.pop(0))
        waiting = [one for one in waiting if one]
    return records


def _random_entry(lots: random.Random, number: int) -> Record:
    facets: Record = {"jailbreak_type": lots.choice(JAILBREAKS), "plugin": lots.choice(PLUGINS), "lang": "en"}
    own: Record = {"topic": lots.choice(["money", "health"]), "task_type": lots.choice(["qna", None])}
    turns = ("and then?", "go on") if lots.random() < 0.1 else ()
    return entry(str(number) if number % 3 else f"case-{number}", turns=turns, **facets, **own)


def _course(lots: random.Random, name: str, *, attack: bool, standard: bool, boolean: bool) -> list[Record]:
    """Return all records of one entry: standard attempts, then the attack, until something succeeds."""
    records: list[Record] = []
    number, won = 0, False
    letters = "ttnnnneb" if boolean else "ssfffffueebb"
    for strategy, most in (("standard", lots.choice([1, 1, 2, 3]) * standard), (ATTACK, lots.randrange(5) * attack)):
        for iteration in range(most):
            if won:
                break
            letter = lots.choice(letters)
            records += _sent(lots, name, number, letter, strategy=strategy, iteration=iteration)
            number += 1
            won = letter in "st"
    failed = attack and not won and lots.random() < 0.15
    return [*records, done(name, error=f"{ATTACK}: it gave up" if failed else None)]


def _sent(lots: random.Random, name: str, number: int, letter: str, **fields: Any) -> list[Record]:
    records = [call(name, number)]
    if lots.random() < 0.1:
        # What was recorded first is void: it was an error, and the attempt was made again.
        records += [tried(name, number, "e", **fields), retry(name, number), call(name, number)]
    records.append(tried(name, number, letter, **fields))
    if lots.random() < 0.05:
        records.append(tried(name, number, lots.choice("sf"), **fields))
    return records


# -- what a journal comes to, counted record by record ----------------------------------------------------------

ORDER = ("success", "failure", "error", "guardrail", "unjudged")


@dataclass
class Counted:
    """The figures of a journal by a plain loop over its records: entries, requests, and what came of them."""

    outcomes: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    initial: int = 0
    attack_only: int = 0
    blocked_entries: int = 0
    attacked: int = 0
    won_by_attack: int = 0
    attack_requests: int = 0
    attack_blocks: int = 0
    attack_blocked_entries: int = 0
    categories: Counter[str] = field(default_factory=Counter)
    to_success: Counter[int] = field(default_factory=Counter)
    answered_to_success: Counter[int] = field(default_factory=Counter)
    given_up: Counter[tuple[int, bool]] = field(default_factory=Counter)
    by_jailbreak: dict[str | None, Counter[str]] = field(default_factory=dict)


def states_of(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[int, Mapping[str, Any]]]:
    """Return the attempts of each entry that count: the first record of each, unless it was made void."""
    found: dict[str, dict[int, Mapping[str, Any]]] = {}
    for record in records:
        if record["kind"] == "case":
            found.setdefault(record["case"], {})
        elif record["kind"] == "attempt":
            found[record["case"]].setdefault(record["attempt"], record)
        elif record["kind"] == "retry":
            found[record["case"]].pop(record["attempt"], None)
    return found


def word_of(record: Mapping[str, Any]) -> str:
    """Return what became of an attempt."""
    if record["error"] is not None:
        return "guardrail" if record["error"]["kind"] == "blocked" else "error"
    if "let_through" in record["output"]:
        return "success" if record["output"]["let_through"] else "failure"
    verdict = record["verdicts"][0]["verdict"]
    return "unjudged" if verdict == "error" else str(verdict)


def counted(records: Sequence[Mapping[str, Any]]) -> Counted:
    """Count a journal."""
    result = Counted()
    facets = {r["case"]: r["entry"]["jailbreak_type"] for r in records if r["kind"] == "case"}
    failures: dict[str, bool] = {}
    for record in records:
        if record["kind"] == "done":
            failures[record["case"]] = "error" in record
        elif record["kind"] == "retry":
            failures.pop(record["case"], None)
    for name, attempts in states_of(records).items():
        if not attempts and name not in failures:
            continue  # the run has not come to it
        _count_entry(result, [attempts[number] for number in sorted(attempts)], facets[name], failures.get(name, False))
    return result


def _count_entry(result: Counted, attempts: Sequence[Mapping[str, Any]], facet: str | None, failed: bool) -> None:
    standard = [word_of(one) for one in attempts if one["strategy"] == "standard"]
    dynamic = [word_of(one) for one in attempts if one["strategy"] != "standard"]
    words = {*standard, *dynamic, *(["error"] if failed and not dynamic else [])}
    outcome = next((word for word in ORDER if word in words), "unjudged")
    result.outcomes[outcome] += 1
    result.by_jailbreak.setdefault(facet, Counter())[outcome] += 1
    result.requests += len(attempts)
    result.initial += "success" in standard
    result.attack_only += "success" in dynamic and "success" not in standard
    result.blocked_entries += "guardrail" in words
    for name in {name for one in attempts for name in (one["error"] or {}).get("categories", ())}:
        result.categories[name] += 1
    if dynamic or failed:
        result.attacked += 1
        result.won_by_attack += "success" in dynamic
        result.attack_requests += len(dynamic)
        result.attack_blocks += dynamic.count("guardrail")
        result.attack_blocked_entries += "guardrail" in dynamic
    if outcome == "success":
        words_in_order = [*standard, *dynamic]
        first = words_in_order.index("success")
        result.to_success[first + 1] += 1
        result.answered_to_success[first + 1 - words_in_order[:first].count("error")] += 1
        return
    if outcome == "unjudged":
        return  # nobody knows whether it succeeded
    # What ended in an error told nothing; everything else was a request that was spent.
    lost = [*standard, *dynamic].count("error")
    result.given_up[len(attempts) - lost, lost > 0 or (failed and not dynamic)] += 1
