"""Whether an answer is JSON of a wanted shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faircount.core.attempt import Attempt
from faircount.core.errors import UsageError
from faircount.core.text import clip
from faircount.core.verdict import Decision, Span, Verdict
from faircount.judges.json_text import NotJson, decode, fenced, values
from faircount.judges.judge import Judge, check_choice, text_or_file

_EXTRACTS = ("whole", "fenced", "first")
_JSON_KINDS = ("json", "jsonc", "json5", "")
_LONGEST_PROBLEM = 200

Piece = tuple[Any, Span]


class JsonSchema(Judge):
    """Hits when the answer is JSON that is valid under a JSON Schema.

    `schema` is the schema as an object, or "@" and the path of a file that holds it; without `$schema` it is read by
    the draft of 2020-12. `extract` says where the JSON is: "whole" (the answer is nothing else), "fenced" (the first
    fenced block that is marked as JSON, or else the first that is not marked), or "first" (the first object or list
    anywhere). An object with a key twice is not valid under any schema. `format` is not checked. References are
    followed within the schema and to the drafts themselves; nothing is fetched. The judge needs `faircount[schema]`.
    """

    name = "structure.JsonSchema"
    looks_for = "JSON that is valid under a schema"

    def __init__(self, schema: Mapping[str, Any] | bool | str, *, extract: str = "whole") -> None:
        self._schema = self._read(schema)
        self._extract = check_choice(self.name, "extract", extract, _EXTRACTS)
        self._validator: Any = self._checked()
        super().__init__(schema=self._schema, extract=extract)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the validator, which cannot go to another process."""
        return {**self.__dict__, "_validator": None}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Make the validator again."""
        self.__dict__.update(state)
        self._validator = self._checked()

    def _read(self, schema: object) -> Mapping[str, Any] | bool:
        if isinstance(schema, str):
            if not schema.startswith("@"):
                raise UsageError(f"{self.name}: schema must be an object, or @ followed by the path of a file")
            try:
                schema = decode(text_or_file(self.name, "schema", schema))
            except NotJson as error:
                raise UsageError(f"{self.name}: the schema file is not JSON: {error}") from None
        if not isinstance(schema, Mapping | bool):
            raise UsageError(f"{self.name}: schema must be an object, or @ followed by the path of a file with one")
        return schema

    def _checked(self) -> Any:
        """Return a validator that fetches nothing, for a schema that is one."""
        try:
            import jsonschema
            from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
        except ImportError:
            raise UsageError(f'{self.name} needs jsonschema: pip install "faircount[schema]"') from None
        kind = jsonschema.validators.validator_for(self._schema, default=jsonschema.Draft202012Validator)
        try:
            kind.check_schema(self._schema)
        except jsonschema.SchemaError as error:
            where = f"{error.json_path}: {clip(error.message, _LONGEST_PROBLEM)}"
            raise UsageError(f"{self.name}: schema is not a JSON Schema: {where}") from None
        return kind(self._schema, registry=REGISTRY)

    def decide(self, attempt: Attempt) -> Verdict:
        """Return a hit with the place of the valid JSON, or a pass with the first problem."""
        try:
            value, span = self._found(attempt.response or "")
        except NotJson as error:
            return Verdict(Decision.PASS, reason=f"not JSON: {error}")
        problem = self._problem(value)
        if problem:
            return Verdict(Decision.PASS, reason=problem, span=span)
        return Verdict(Decision.HIT, reason="valid under the schema", span=span)

    def _problem(self, value: object) -> str:
        from referencing.exceptions import Unresolvable

        try:
            error = next(self._validator.iter_errors(value), None)
        except Unresolvable as missing:
            raise UsageError(f"the schema refers to {missing.ref}, which is not in it; nothing is fetched") from None
        if error is None:
            return ""
        return f"not valid at {error.json_path}: {clip(error.message, _LONGEST_PROBLEM)}"

    def _found(self, response: str) -> Piece:
        if self._extract == "fenced":
            return self._fenced(response)
        if self._extract == "first":
            for value, start, end in values(response):
                return value, Span(start, end)
            raise NotJson("no object or list")
        return decode(response), Span(0, len(response))

    def _fenced(self, response: str) -> Piece:
        blocks = [block for block in fenced(response) if block.kind in _JSON_KINDS]
        if not blocks:
            raise NotJson("no fenced block with JSON")
        block = next((block for block in blocks if block.kind), blocks[0])
        return decode(block.content), Span(block.start, block.end)
