"""Write the JSON schemas of the documents that are their structs: `python -m tools.schemas`."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import msgspec

from faircount.analysis.attacks.listing import Attacks
from faircount.analysis.attacks.trying import AttackTrial
from faircount.analysis.bench_report import BenchResults
from faircount.analysis.checking import Checks
from faircount.analysis.comparing.found import Comparison
from faircount.analysis.dataset_comparison import DatasetComparison
from faircount.analysis.judges.agreement import Agreement
from faircount.analysis.judges.listing import Judges
from faircount.analysis.judges.ranking import Ranking
from faircount.analysis.judges.trying import JudgeTrial
from faircount.analysis.one_entry import FoundEntries
from faircount.analysis.power import Power
from faircount.analysis.rejudging.rejudge import Rejudged
from faircount.analysis.target_report import Targets, TriedTarget
from faircount.model import Analyses, Document
from faircount.running.planning import Plan

FOLDER = Path(__file__).parent.parent / "src" / "faircount" / "present" / "schemas"
DOCUMENTS: dict[type[Document], str] = {
    Analyses: "faircount results analyze",
    Comparison: "faircount results compare",
    BenchResults: "faircount bench",
    Checks: "faircount results check",
    DatasetComparison: "faircount results dataset-comparison",
    FoundEntries: "faircount results show",
    Plan: "faircount plan",
    Power: "faircount results power",
    Rejudged: "faircount results rejudge",
    Judges: "faircount judges list",
    JudgeTrial: "faircount judges try",
    Ranking: "faircount judges rank",
    Agreement: "faircount judges agree",
    Attacks: "faircount attacks list",
    AttackTrial: "faircount attacks try",
    Targets: "faircount targets list",
    TriedTarget: "faircount targets try",
}
"""Each document, and the command that writes it with `--output-format json`."""


def schema_of(document: type[Document]) -> dict[str, Any]:
    """Return the schema of a document, derived from its types; every key is always present, and there are no others."""
    (top,), parts = msgspec.json.schema_components([document], ref_template="#/$defs/{name}")
    whole = parts.pop(top["$ref"].rpartition("/")[2])
    for part in (whole, *parts.values()):
        if part.get("type") == "object" and "properties" in part:
            part["required"] = list(part["properties"])
            part["additionalProperties"] = False
            part["description"] = inspect.cleandoc(part["description"])
            for value in part["properties"].values():
                value.pop("default", None)
    kind, number = (whole["properties"][name]["enum"][0] for name in ("kind", "schema"))
    described = f"What `{DOCUMENTS[document]} --output-format json` writes. Every key is always present."
    titled = {"title": f"Faircount {kind}, schema {number}", "description": described}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole, **titled, "$defs": parts}


def place_of(document: type[Document]) -> Path:
    """Return the file of a document's schema."""
    properties = schema_of(document)["properties"]
    return FOLDER / f"{properties['kind']['enum'][0]}-{properties['schema']['enum'][0]}.json"


def text_of(document: type[Document]) -> str:
    """Return the schema as it is written."""
    return json.dumps(schema_of(document), indent=2) + "\n"


if __name__ == "__main__":
    for one in DOCUMENTS:
        place_of(one).write_text(text_of(one), encoding="utf-8")
