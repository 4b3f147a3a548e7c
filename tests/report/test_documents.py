"""A result is its JSON document, and the schemas in the package are derived from the types."""

from __future__ import annotations

import json

import jsonschema
import msgspec
import pytest
from tools import schemas

from faircount.core import Document
from tests.conftest import Cli, Write, document_of, standard


@pytest.mark.parametrize("document", schemas.DOCUMENTS, ids=lambda document: document.__name__)
def test_the_schema_is_that_of_the_types(document: type[Document]) -> None:
    assert schemas.place_of(document).read_text("utf-8") == schemas.text_of(document), "run python -m tools.schemas"
    jsonschema.Draft202012Validator.check_schema(schemas.schema_of(document))


def test_a_schema_has_what_the_docstrings_of_fields_say_and_the_bounds_of_counts_and_shares() -> None:
    (comparison,) = (document for document in schemas.DOCUMENTS if document.__name__ == "Comparison")
    parts = schemas.schema_of(comparison)["$defs"]
    pair, tally = parts["Pair"]["properties"], parts["Tally"]["properties"]
    assert pair["claimed"]["description"] == "How B is claimed to differ from A."
    assert pair["undecided"]["description"].startswith("Pairs that are not among these"), "also of what is inherited"
    assert pair["adjusted_p"]["anyOf"][0] == {"type": "number", "minimum": 0, "maximum": 1}
    assert tally["total"] == {"type": "integer", "minimum": 0}


@pytest.mark.parametrize("command", ["analyze", "compare"])
def test_what_is_written_is_the_result_itself(write: Write, cli: Cli, command: str) -> None:
    paths = [write([standard(n, success=n < won) for n in range(9)], f"results_{won}.jsonl") for won in (2, 5)]
    written = json.loads(cli("results", command, *paths, "--output-format", "json").out)
    (document,) = (document for document, words in schemas.DOCUMENTS.items() if words == f"faircount results {command}")
    assert document_of(msgspec.convert(written, document)) == written


def test_every_document_has_a_schema() -> None:
    """The rest is in the form of another tool: REBEL's report of a run, garak's summary of judges."""
    derived = {schemas.place_of(document).name for document in schemas.DOCUMENTS}
    assert {path.name for path in schemas.FOLDER.glob("*.json")} - derived == BY_HAND


BY_HAND = {"judge-evaluation-1.json", "test-results-1.json"}
