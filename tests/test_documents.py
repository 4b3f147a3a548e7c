"""A result is its JSON document, and the schemas in the package are derived from the types."""

from __future__ import annotations

import jsonschema
import pytest
from tools import schemas

from faircount.model import Document


@pytest.mark.parametrize("document", schemas.DOCUMENTS, ids=lambda document: document.__name__)
def test_the_schema_is_that_of_the_types(document: type[Document]) -> None:
    assert schemas.place_of(document).read_text("utf-8") == schemas.text_of(document), "run python -m tools.schemas"
    jsonschema.Draft202012Validator.check_schema(schemas.schema_of(document))


def test_every_document_has_a_schema() -> None:
    """Those of commands that do not have it yet are named here."""
    derived = {schemas.place_of(document).name for document in schemas.DOCUMENTS}
    assert {path.name for path in schemas.FOLDER.glob("*.json")} - derived == BY_HAND


BY_HAND = {"judge-evaluation-1.json", "test-results-1.json"}
