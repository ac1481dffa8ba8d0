"""``python -m mikan_agent.subagents.schema_check``: applies a JSON Schema of a stranger's to a value.

A process of its own, since a regular expression in a schema can take for ever, and while it is matched nothing else of
its process runs. Reads one JSON object, ``{"schema", "value"}``, the value being optional; prints one:
``{"schemaFault"}``, ``{"valueFault"}`` or ``{}``.
"""

import json
import resource
import sys
from typing import Any

import jsonschema
import referencing

SECONDS = 10


def main() -> None:
    """Answer what standard input asks."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))  # though nobody waits any more
    json.dump(_applied(json.load(sys.stdin)), sys.stdout)


def _applied(asked: dict[str, Any]) -> dict[str, str]:
    schema = asked["schema"]
    try:
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        return {"schemaFault": f"the schema is not valid at {error.json_path}: {error.message[:300]}"}
    except Exception as error:  # noqa: BLE001  whatever a stranger's schema makes the library raise
        return {"schemaFault": f"the schema could not be read: {type(error).__name__}"}
    if "value" not in asked:
        return {}
    try:
        # An empty registry: nothing that a schema refers to is ever fetched.
        fault = next(iter(kind(schema, registry=referencing.Registry()).iter_errors(asked["value"])), None)
    except Exception as error:  # noqa: BLE001  a reference that leads nowhere, and whatever else
        return {"valueFault": f"the schema could not be applied: {type(error).__name__}"}
    if fault is None:
        return {}
    return {"valueFault": f"the answer does not fit the schema at {fault.json_path}: {fault.message[:300]}"}


if __name__ == "__main__":
    main()
