"""Writes ``mikan/values.schema.json``: closed, so that helm refuses a misspelt value before it installs anything.

``settings`` comes from `mikan_api.settings`, which parses it again in the processes; the rest is described here.
Run ``python charts/schema.py`` after a change, ``--check`` to fail where the file has drifted.
"""

import json
import sys
from pathlib import Path
from typing import Any

from mikan_api.settings import Settings

TARGET = Path(__file__).parent / "mikan" / "values.schema.json"
Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
STRINGS: Schema = {"type": "array", "items": STRING}
NAME: Schema = {"type": "string", "maxLength": 253, "pattern": r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"}
ADDRESS: Schema = {"type": "string", "pattern": r"^(https?://[^\s?#@{}]+)?$"}
LABELS: Schema = {"type": "object", "additionalProperties": STRING}
LOG_LEVEL: Schema = {"enum": ["DEBUG", "INFO", "WARNING", "ERROR"]}
QUANTITIES: Schema = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
CIDRS: Schema = {"type": "array", "items": {"type": "string", "pattern": r"^[0-9a-fA-F.:]+/[0-9]{1,3}$"}}


def closed(**properties: Schema) -> Schema:
    """An object that knows these properties and no others."""
    return {"type": "object", "additionalProperties": False, "properties": properties}


def whole(minimum: int, maximum: int) -> Schema:
    """An integer between two bounds."""
    return {"type": "integer", "minimum": minimum, "maximum": maximum}


RESOURCES = closed(requests=QUANTITIES, limits=QUANTITIES)
KEY = closed(existingSecret=NAME)
CLAIM = closed(
    existingClaim=NAME,
    size={"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$"},
    storageClass=STRING,
    accessModes={
        "type": "array",
        "minItems": 1,
        "items": {"enum": ["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]},
    },
)


def settings() -> Schema:
    """The settings' own schema, its definitions put in place so that the file has one root."""
    schema = Settings.model_json_schema(by_alias=True)
    definitions = schema.pop("$defs", {})

    def resolve(node: object) -> object:
        if isinstance(node, dict):
            if "$ref" in node:
                return resolve(definitions[node["$ref"].rpartition("/")[2]])
            return {k: resolve(v) for k, v in node.items() if not (k == "title" and isinstance(v, str))}
        if isinstance(node, list):
            return [resolve(item) for item in node]
        return node

    resolved = resolve(schema)
    assert isinstance(resolved, dict)  # noqa: S101  the root of a model's schema is an object
    return resolved


def build() -> Schema:
    """The schema of all values."""
    process = {"logLevel": LOG_LEVEL, "resources": RESOURCES}
    root = closed(
        crds=closed(install=BOOLEAN, keep=BOOLEAN),
        images=closed(
            prefix={"type": "string", "minLength": 1},
            tag=STRING,
            pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
            pullSecrets=STRINGS,
        ),
        offices=closed(
            namespace={**NAME, "maxLength": 63},
            createNamespace=BOOLEAN,
            nodeSelector=LABELS,
            tolerations={"type": "array", "items": {"type": "object"}},
        ),
        settings=settings(),
        sandbox=closed(
            image=STRING,
            dns={
                "type": "array",
                "minItems": 1,
                "maxItems": 3,
                "items": {"type": "string", "pattern": r"^[0-9a-fA-F.:]+$"},
            },
            deniedCIDRs=CIDRS,
        ),
        agent=closed(resources=RESOURCES),
        priorityClass=closed(create=BOOLEAN, existing=NAME, value=whole(-2147483648, 1000000000)),
        operator=closed(replicas=whole(0, 5), **process),
        gateway=closed(
            replicas=whole(0, 2),
            drainSeconds=whole(1, 3600),
            retentionHours=whole(48, 876000),
            console=closed(enabled=BOOLEAN, existingSecret=NAME),
            key=KEY,
            **process,
        ),
        telegram={
            **closed(enabled=BOOLEAN, existingSecret=NAME, baseUrl=ADDRESS, baseFileUrl=ADDRESS),
            "if": {"properties": {"enabled": {"const": True}}},
            "then": {"properties": {"existingSecret": {"minLength": 1}}},
        },
        models=closed(
            replicas=whole(0, 20),
            # The models process checks it in full; it is written by provider and model names.
            config={
                "type": "object",
                "required": ["providers"],
                "properties": {"providers": {"type": "object", "minProperties": 1}},
            },
            existingSecret=NAME,
            key=KEY,
            **process,
        ),
        database=closed(existingSecret=NAME),
        packages=closed(gatewayClaim=NAME),
        storage=closed(offices=CLAIM, shared=CLAIM, packages=CLAIM, state=CLAIM),
        networkPolicy=closed(
            enabled=BOOLEAN,
            apiServer={
                "type": "array",
                "items": {
                    **closed(ip={"type": "string", "pattern": r"^[0-9a-fA-F.:]+$"}, port=whole(1, 65535)),
                    "required": ["ip", "port"],
                },
            },
            dns=closed(namespace=NAME, podLabels=LABELS),
            metricsNamespaces=STRINGS,
        ),
        **{"global": {"type": "object"}},
    )
    return {"$schema": "https://json-schema.org/draft-07/schema#", "title": "Values of the mikan chart", **root}


def main() -> int:
    """Write the file, or with ``--check`` compare it."""
    text = json.dumps(build(), indent=2, ensure_ascii=False) + "\n"
    if "--check" in sys.argv[1:]:
        if TARGET.exists() and TARGET.read_text() == text:
            return 0
        sys.stderr.write(f"{TARGET.name} has drifted: run python charts/schema.py\n")
        return 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
