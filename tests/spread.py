"""Result files that have everything in which rows of one file depend on those of another, made by a seed.

Five cuts of one run, a resumed copy, a copy judged again, an extract that names where its rows come from, old rows
whose ids look like those of attacks, a compressed file; and in all of them repeated rows, other cases under one id and
damaged lines.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
from pathlib import Path
from typing import Any

from tests.conftest import attack, encode, standard

CUTS = 5
ROW = dict[str, Any]
ERRORS = ("HTTP 503 after 7 s", "Guardrail was triggered", "timeout", "content_filter: refused", "429")
FLAGGED = "not allowed here"
"""An error that some rows flag as a block: then it is one in the histories of the file, too."""


def spread(folder: Path, entries: int = 2000, seed: int = 0) -> list[str]:
    """Write the files and return their paths."""
    draw = random.Random(seed)
    rows = [rows_of_entry(draw, number) for number in range(entries)]
    size = -(-entries // CUTS)
    cuts = [damaged(draw, [row for one in rows[at : at + size] for row in one]) for at in range(0, entries, size)]
    extracted, old = rows[: entries // 10], entries // 8
    later = [row for number in range(old) for row in rows_of_entry(draw, f"late{number}")]
    files: dict[str, list[Any]] = {f"results_bot_cut{number}.jsonl": cut for number, cut in enumerate(cuts)}
    files["results_bot_resumed.jsonl"] = [*cuts[0], *damaged(draw, later)]
    files["rejudge_bot_cut1.jsonl"] = [judged_again(draw, row) for row in cuts[1 % len(cuts)] if type(row) is dict]
    files["extract_mixed.jsonl"] = damaged(
        draw, [row for one in extracted for row in extracted_rows(draw, one, entries)]
    )
    files["results_old.jsonl"] = damaged(draw, [row for _ in range(old) for row in old_rows(draw, old)])
    files["results_packed.jsonl.gz"] = damaged(draw, [row for n in range(old) for row in rows_of_entry(draw, n)])
    paths = []
    for name, lines in files.items():
        path = folder / name
        path.write_bytes(gzip.compress(encode(lines), mtime=0) if name.endswith(".gz") else encode(lines))
        paths.append(str(path))
    return paths


def entry_id(draw: random.Random, number: int | str) -> int | str:
    """Return an id for a number, in one of its spellings."""
    if isinstance(number, str):
        return number
    spellings: list[int | str] = [number, number, number, str(number), f"case {number}", f"{number}-attack"]
    return draw.choice([*spellings, 10**9 + number])


def fields(draw: random.Random, number: int | str) -> ROW:
    """Return what groups and families are made of."""
    group = hash_of(number)
    return {
        "long_id": f"doc{group % 40}_{number}",
        "document_id": f"doc{group % 40}" if group % 11 else None,
        "jailbreak_type": draw.choice(["dan", "new-instructions", "test", None]),
        "instruction_type": f"kind{group % 7}",
        "lang": draw.choice(["en", "de", "fr"]),
        "position": draw.choice(["start", "end"]),
        "plugin": draw.choice([None, "base64", "1337", "splat"]),
        "suffix_id": draw.choice([None, "adv1"]),
        "judge_name": draw.choice(["canary", "canary", "regex"]),
        "team": f"team{group % 90}",
    }


def hash_of(number: int | str) -> int:
    """Return a number that is the same in every process."""
    return number if isinstance(number, int) else sum(map(ord, number))


def rows_of_entry(draw: random.Random, number: int | str) -> list[ROW]:
    """Return the rows of one entry: standard attempts, attacks on it, now and then another case under its id."""
    name, shown = entry_id(draw, number), fields(draw, number)
    found = []
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        found.append(standard(name, **shown, **result(draw), input=f"prompt {number}"))
    if draw.random() < 0.3:
        attacks = draw.sample(["goat", "crescendo", "best_of_n", "attacks.anti"], draw.choice([1, 1, 2]))
        for nth, kind in enumerate(attacks):
            given = result(draw) | history(draw)
            identity = f"{name}-attack" + (f"-{nth}" if nth else "")
            found.append(attack(name, kind, **shown, **given) | {"id": identity, "objective": f"prompt {number}"})
    if draw.random() < 0.1:
        found.append(copy.deepcopy(draw.choice(found)))
    if draw.random() < 0.05:
        found.append(standard(name, **fields(draw, number), **result(draw), input=f"another prompt {number}"))
    return found


def result(draw: random.Random) -> ROW:
    """Return how an attempt ended."""
    kind = draw.random()
    found: ROW = {
        "success": draw.random() < 0.3,
        "response": draw.choice(["no", "Sure.", True, False, "", f"answer {draw.randrange(9)}"]),
        "response_time": round(draw.expovariate(1), draw.choice([1, 6])) if draw.random() < 0.9 else None,
        "attempts": draw.choice([1, 1, 1, 2, 3]),
    }
    if kind < 0.1:
        error = draw.choice([*ERRORS, FLAGGED])
        found |= {"error": error, "success": False, "response": ""}
        if draw.random() < 0.5:
            found["guardrail"] = error in ERRORS[1:2] or error == FLAGGED
    elif kind < 0.2:
        found |= {"guardrail": True, "success": False, "error": "blocked by policy"}
        found["guardrail_categories"] = {f"category{draw.randrange(9)}": True, "other": draw.random() < 0.5}
    elif kind < 0.22:
        found["success"] = None
    return found


def history(draw: random.Random) -> ROW:
    """Return the requests of an attack, where they are recorded."""
    if draw.random() < 0.5:
        return {}
    error = [None, None, FLAGGED, "timeout"]
    items = [{"success": draw.random() < 0.2, "error": draw.choice(error)} for _ in range(draw.randrange(4))]
    return {"attempt_history": items, "attempts": len(items)}


def judged_again(draw: random.Random, row: ROW) -> ROW:
    """Return a row with another verdict."""
    return row | {"success": (not row["success"]) if draw.random() < 0.2 else row["success"], "judge_name": "strict"}


def extracted_rows(draw: random.Random, rows: list[ROW], entries: int) -> list[ROW]:
    """Return rows of an entry as an extract has them, and now and then one of an entry of another file."""
    names = ["results_bot_cut0.jsonl", "./runs/results_bot_cut0.jsonl", "C:\\runs\\results_bot_cut0.jsonl"]
    absent = [*["results_absent.jsonl"] * 3, "a/results_absent.jsonl", "z/results_absent.jsonl", "results_gone.jsonl"]
    found = []
    for row in rows:
        origin = draw.choice([*names, *names, *absent, None])
        made = {**row, "id": f"x{draw.randrange(10**6)}", "original_id": row["id"], "source_file": origin}
        if draw.random() < 0.7:
            made["result_origin"] = origin
        if draw.random() < 0.3:
            made["result_parent_id"] = str(row["id"]).split("-attack")[0]
        found.append(made)
    if draw.random() < 0.2:
        number = draw.randrange(entries)
        there = {"attack_parent_id": number, "result_origin": f"results_bot_cut{draw.randrange(CUTS)}.jsonl"}
        found.append(attack(number, "goat", **fields(draw, number), **result(draw)) | there)
    return found


def old_rows(draw: random.Random, names: int) -> list[ROW]:
    """Return rows that do not say whether they belong to an attack; their ids may look so."""
    number = draw.randrange(names)
    root = draw.choice([number, f"old {number}", f"o-{number}"])
    endings = ["", "-attack", "-attack-2", "-attack-attack", "-attack-3-attack"]
    found = []
    for ending in draw.sample(endings, draw.choice([1, 2, 3])):
        identity: Any = f"{root}{ending}" if ending else root
        row = standard(identity, **fields(draw, number), **result(draw), input=f"prompt {root}")
        del row["attack_name"]
        field = draw.choice(["", "", "", "result_parent_id", "original_id"])
        if field:
            other = draw.randrange(names)
            row[field] = draw.choice([f"old {other}", other, f"{other}-attack", f"o-{other}-attack-2"])
        found.append(row)
    return found


def damaged(draw: random.Random, rows: list[ROW]) -> list[Any]:
    """Return lines of a file: rows, some of them repeated or damaged, some with fields that nobody knows."""
    lines: list[Any] = []
    for row in rows:
        kind = draw.random()
        text = json.dumps(row)
        if kind < 0.01:
            lines += [text[: draw.randrange(len(text))], "", "[]", b'{"id": 1, "x": "\xff"}']
        elif kind < 0.02:
            wrong = draw.choice(["success", "attempts", "response_time", "lang", "id", "error", "guardrail"])
            lines.append(row | {wrong: draw.choice(["yes", -3, [1], {"a": 1}, 10**30, None])})
        elif kind < 0.04:
            lines += [row, row]
        elif kind < 0.06:
            lines.append(row | {draw.choice(["tier", "Über feld", "a.b"]): draw.choice(["x", 7, True, ["y"]])})
        else:
            lines.append(row)
    return lines
