"""Writes large result files in spikee's format, the same for the same seed, with prompts of a realistic length."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORDS = [
    "account",
    "access",
    "answer",
    "article",
    "balance",
    "branch",
    "budget",
    "calendar",
    "client",
    "contract",
    "customer",
    "delivery",
    "department",
    "document",
    "draft",
    "employee",
    "figure",
    "folder",
    "invoice",
    "letter",
    "manager",
    "meeting",
    "message",
    "notice",
    "number",
    "office",
    "order",
    "payment",
    "period",
    "policy",
    "product",
    "project",
    "record",
    "report",
    "request",
    "result",
    "schedule",
    "service",
    "signature",
    "statement",
    "summary",
    "supplier",
    "system",
    "table",
    "team",
    "ticket",
    "total",
    "transfer",
    "update",
    "vendor",
    "week",
]
JAILBREAKS = ("dan", "dev", "debug", "emergency", "no-limits", "policy", "sorry", "test", "training", None)
INSTRUCTIONS = ("xss", "data-exfil-markdown", "long-output", "system-prompt", "harmful", None)
LANGUAGES = ("en", "en", "en", "en", "de", "fr", "it")
PLUGINS = (None, None, "1337", "base64", "morse", "splat")
POSITIONS = ("start", "middle", "end")
ATTACKS = ("best_of_n", "crescendo", "anti_spotlighting")
CATEGORIES = ("jailbreak", "prompt_injection", "hate")


def write_results(path: Path, entries: int, *, seed: int = 1, attack_share: float = 0.4) -> int:
    """Write a result file with about 1.3 lines of 2.9 KB for each entry; return the number of lines."""
    lines = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in _rows(random.Random(seed), entries, attack_share):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            lines += 1
    return lines


def _rows(rng: random.Random, entries: int, attack_share: float) -> Iterator[dict[str, Any]]:
    paragraphs = [" ".join(rng.choice(WORDS) for _ in range(rng.randint(20, 40))) for _ in range(500)]
    for number in range(1, entries + 1):
        row = _standard(rng, number, paragraphs)
        yield row
        if not row["success"] and rng.random() < attack_share:
            yield _attack(rng, row, paragraphs)


def _text(rng: random.Random, paragraphs: list[str]) -> str:
    return "\n".join(rng.choice(paragraphs) for _ in range(rng.randint(3, 6)))


def _standard(rng: random.Random, number: int, paragraphs: list[str]) -> dict[str, Any]:
    chance = rng.random()
    success, blocked, failed = chance < 0.22, 0.22 <= chance < 0.28, 0.28 <= chance < 0.31
    row: dict[str, Any] = {
        "id": number,
        "long_id": "",
        "success": success,
        "input": _text(rng, paragraphs),
        "input_type": "text",
        "response": "" if blocked or failed else _text(rng, paragraphs),
        "response_type": "text",
        "response_time": None if failed else round(rng.expovariate(0.7), 4),
        "judge_name": "canary",
        "judge_args": f"CANARY-{number:08x}",
        "judge_options": None,
        "attempts": 1,
        "task_type": "document",
        "jailbreak_type": rng.choice(JAILBREAKS),
        "instruction_type": rng.choice(INSTRUCTIONS),
        "document_id": f"mail-{number % 40:02d}",
        "position": rng.choice(POSITIONS),
        "spotlighting_data_markers": "\nDOCUMENT\n",
        "injection_delimiters": "\nINJECTION_PAYLOAD\n",
        "suffix_id": None,
        "lang": rng.choice(LANGUAGES),
        "system_message": None,
        "plugin": rng.choice(PLUGINS),
        "attack_name": "None",
        "error": "HTTP 503 upstream timeout" if failed else None,
    }
    row["long_id"] = _long_id(row, number % 7)
    if blocked:
        row["error"] = "Guardrail was triggered by the target"
        row["guardrail"] = True
        row["guardrail_categories"] = {name: rng.random() < 0.4 for name in CATEGORIES}
    return row


def _long_id(row: dict[str, Any], instruction: int) -> str:
    """Return what was crossed, as spikee writes it: there are some 1,700 documents with an instruction."""
    named = (row["jailbreak_type"], f"{row['instruction_type']}-{instruction:02d}", row["position"])
    plugin = f"_{row['plugin']}-1" if row["plugin"] else ""
    return "_".join(["document", row["document_id"], *map(str, named)]) + plugin


def _attack(rng: random.Random, standard: dict[str, Any], paragraphs: list[str]) -> dict[str, Any]:
    name = rng.choice(ATTACKS)
    row = {key: value for key, value in standard.items() if not key.startswith("guardrail")}
    return {
        **row,
        "id": f"{standard['id']}-attack",
        "long_id": f"{standard['long_id']}-{name}",
        "success": rng.random() < 0.3,
        "input": _text(rng, paragraphs),
        "response": _text(rng, paragraphs),
        "response_time": round(rng.expovariate(0.1), 4),
        "attempts": rng.randint(1, 10),
        "attack_name": name,
        "attack_options": None,
        "error": None,
        "objective": standard["input"],
    }
