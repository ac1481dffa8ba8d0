"""Checks an answer against the schema that was asked for: exactly JSON, never dug out of prose."""

import json
from typing import Any

from pydantic import JsonValue

from mikan_agent.exceptions import AgentError

MAX_SCHEMA = 64 * 1024
"""Bytes of a schema as JSON."""


class InvalidOutput(AgentError):
    """The answer is not what the schema asks for; the message says where."""


class InvalidSchema(AgentError):
    """The schema itself can't be used."""


class OutputCheck:
    """A schema, ready to check answers. Blocking: a schema may be slow."""

    def __init__(self, schema: dict[str, Any]) -> None:
        """
        Raises:
            InvalidSchema: no valid JSON Schema, or too long.
        """
        import jsonschema  # only those who ask for a schema pay for it
        import referencing

        if len(json.dumps(schema)) > MAX_SCHEMA:
            raise InvalidSchema(f"the schema is longer than {MAX_SCHEMA} bytes")
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        try:
            kind.check_schema(schema)
        except jsonschema.SchemaError as error:
            raise InvalidSchema(f"the schema is not valid at {error.json_path}: {error.message[:300]}") from None
        self.text = json.dumps(schema, ensure_ascii=False)
        """The schema, for the prompt."""
        # An empty registry: nothing that a schema refers to is ever fetched.
        self._validator = kind(schema, registry=referencing.Registry())

    def read(self, answer: str) -> JsonValue:
        """The answer as JSON.

        Raises:
            InvalidOutput
        """
        try:
            value: JsonValue = json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise InvalidOutput(f"the answer is not JSON alone: {error}") from None
        try:
            fault = next(iter(self._validator.iter_errors(value)), None)
        except Exception as error:  # noqa: BLE001
            # A reference that leads nowhere, and whatever else a stranger's schema makes the library raise.
            raise InvalidOutput(f"the schema could not be applied: {type(error).__name__}") from None
        if fault is not None:
            raise InvalidOutput(f"the answer does not fit the schema at {fault.json_path}: {fault.message[:300]}")
        return value
