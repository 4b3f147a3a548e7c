"""Write the JSON schemas of the documents that are their structs: `python -m tools.schemas`.

What a struct and its fields mean is described by their docstrings; bounds are those of `msgspec.Meta`.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from faircount.analysis.catalogue import Attacks, AttackTrial, Judges, JudgeTrial, Targets, TargetTrial
from faircount.analysis.check import Checks
from faircount.analysis.compare.model import Comparison
from faircount.analysis.dataset_comparison import DatasetComparison
from faircount.analysis.explain import ExplainedFindings
from faircount.analysis.judges.agreement import Agreement
from faircount.analysis.judges.ranking import Ranking
from faircount.analysis.operating.points import OperatingPoints
from faircount.analysis.power import Power
from faircount.analysis.rejudge.rejudge import Rejudged
from faircount.analysis.run_reports import BenchResults
from faircount.analysis.show import FoundEntries
from faircount.core.model import Analyses, Document
from faircount.runs.plan import Plan

FOLDER = Path(__file__).parent.parent / "src" / "faircount" / "report" / "schemas"
DOCUMENTS: dict[type[Document], str] = {
    Analyses: "faircount results analyze",
    Comparison: "faircount results compare",
    BenchResults: "faircount bench",
    Checks: "faircount results check",
    DatasetComparison: "faircount results dataset-comparison",
    FoundEntries: "faircount results show",
    OperatingPoints: "faircount results operating-point",
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
    TargetTrial: "faircount targets try",
    ExplainedFindings: "faircount explain",
}
"""Each document, and the command that writes it with `--output-format json`."""


def schema_of(document: type[Document]) -> dict[str, Any]:
    """Return the schema of a document, derived from its types; every key is always present, and there are no others."""
    (top,), parts = msgspec.json.schema_components([document], ref_template="#/$defs/{name}")
    for struct in set(_structs(msgspec.inspect.type_info(document))):
        part, described = parts[struct.__name__], _described(struct)
        part["required"] = list(part["properties"])
        part["additionalProperties"] = False
        part["description"] = inspect.cleandoc(part["description"])
        for name, value in part["properties"].items():
            value.pop("default", None)
            if name in described:
                value["description"] = described[name]
    whole = parts.pop(top["$ref"].rpartition("/")[2])
    kind, number = (whole["properties"][name]["enum"][0] for name in ("kind", "schema"))
    written = f"What `{DOCUMENTS[document]} --output-format json` writes. Every key is always present."
    titled = {"title": f"Faircount {kind}, schema {number}", "description": written}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole, **titled, "$defs": parts}


def _structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs that a type, as `msgspec.inspect` has it, is made of."""
    waiting, seen = [kind], set()
    while waiting:
        found = waiting.pop()
        if isinstance(found, msgspec.inspect.StructType):
            if found.cls in seen:
                continue
            seen.add(found.cls)
            yield found.cls
            waiting += [field.type for field in found.fields]
        elif isinstance(found, msgspec.inspect.Type):
            for name in found.__struct_fields__:
                part = getattr(found, name)
                waiting += part if isinstance(part, tuple) else [part]


def _described(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return what the docstrings behind the fields of a struct say, by the names that the fields have in JSON."""
    names = {field.name: field.encode_name for field in msgspec.structs.fields(struct)}
    described: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if base is msgspec.Struct or not issubclass(base, msgspec.Struct):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for field, text in zip(definition.body, definition.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                assert isinstance(field.target, ast.Name)
                described[names[field.target.id]] = " ".join(str(text.value.value).split())
    return described


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
