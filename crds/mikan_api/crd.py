"""``python -m mikan_api.crd [--check]``: writes ``crds/*.yaml`` and the chart's copies of them.

The models in `mikan_api.resources` are the source; this adds what only a CustomResourceDefinition knows: names,
columns, selectable fields, rules about ``metadata.name``. ``--check`` writes nothing and fails where a file drifted.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from mikan_api import names
from mikan_api.identity import OFFICE_KEY_PATTERN
from mikan_api.resources import (
    OfficeSpec,
    OfficeStatus,
    ScheduledEventSpec,
    ScheduledEventStatus,
    VaultSpec,
    VaultStatus,
)
from mikan_api.structural import Schema, structural_schema

MAX_OFFICE_NAME = 61


def _condition(field: str, kind: str = "Ready") -> str:
    return f'.status.conditions[?(@.type=="{kind}")].{field}'


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column; ``wide`` ones show with ``-o wide`` only."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False

    def manifest(self) -> dict[str, Any]:
        """The CRD's form."""
        return {"name": self.name, "type": self.type, "jsonPath": self.path} | ({"priority": 1} if self.wide else {})


@dataclass(frozen=True, slots=True)
class Resource:
    """All that a CRD says of one resource."""

    kind: str
    plural: str
    description: str
    spec: type[BaseModel]
    status: type[BaseModel]
    columns: tuple[Column, ...]
    short_names: tuple[str, ...] = ()
    selectable: tuple[str, ...] = ()
    name: tuple[tuple[str, Any], ...] = ()
    rules: tuple[tuple[str, str], ...] = ()

    @property
    def crd_name(self) -> str:
        """The CRD's own name, and its file's."""
        return f"{self.plural}.{names.GROUP}"


_AGE = Column("Age", ".metadata.creationTimestamp", "date")

RESOURCES = (
    Resource(
        kind="Office",
        plural="offices",
        description="A conversation and the agent that lives in it. Its name is the office key.",
        spec=OfficeSpec,
        status=OfficeStatus,
        short_names=("off",),
        selectable=(".spec.platform", ".spec.conversationId", ".spec.vaultName"),
        name=(("maxLength", MAX_OFFICE_NAME), ("pattern", OFFICE_KEY_PATTERN)),
        rules=(("self.metadata.name.startsWith('v1-' + self.spec.platform + '-')", "the name is the office key"),),
        columns=(
            Column("Platform", ".spec.platform"),
            Column("Conversation", ".spec.conversationId"),
            Column("Door", ".status.doorPolicy.layout"),
            Column("Model", ".status.llmModel"),
            Column("Ready", _condition("status")),
            Column("Reason", _condition("reason")),
            Column("Last-Activity", ".status.lastActivityTime", "date"),
            _AGE,
            Column("Sandbox", ".status.sandbox.podName", wide=True),
            Column("Agent pod", ".status.agent.podName", wide=True),
            Column("Key", ".metadata.name", wide=True),
        ),
    ),
    Resource(
        kind="Vault",
        plural="vaults",
        description="Which keys of a Secret reach the commands of an office, and how. Holds no value itself.",
        spec=VaultSpec,
        status=VaultStatus,
        selectable=(".spec.scope", ".spec.secretName"),
        name=(("maxLength", MAX_OFFICE_NAME),),
        rules=(
            (
                f"self.spec.scope != 'office' || self.metadata.name.matches('{OFFICE_KEY_PATTERN}')",
                "a vault of scope office is named by the office key",
            ),
            (
                "self.spec.scope == 'office' || self.metadata.name.startsWith(self.spec.scope + '-')",
                "the name begins with the scope: shared-, container- or user-",
            ),
        ),
        columns=(
            Column("Scope", ".spec.scope"),
            Column("Secret", _condition("status", "SecretFound")),
            Column("Mounts", _condition("status", "MountsValid")),
            Column("Ready", _condition("status")),
            Column("Reason", _condition("reason")),
            _AGE,
            Column("Variables", ".status.variables", wide=True),
            Column("Files", ".status.files", wide=True),
            Column("Offices", ".status.boundOffices", wide=True),
        ),
    ),
    Resource(
        kind="ScheduledEvent",
        plural="scheduledevents",
        description="A prompt that is delivered to an office by the clock.",
        spec=ScheduledEventSpec,
        status=ScheduledEventStatus,
        short_names=("sev",),
        selectable=(".spec.type", ".spec.platform", ".spec.conversationId", ".spec.source"),
        columns=(
            Column("Type", ".spec.type"),
            Column("Conversation", ".spec.conversationId"),
            Column("Schedule", ".spec.schedule"),
            Column("Next", ".status.nextFireTime", "date"),
            Column("Last", ".status.lastFireTime", "date"),
            Column("Suspended", ".spec.suspend", "boolean"),
            _AGE,
            Column("At", ".spec.at", wide=True),
            Column("Timezone", ".spec.timezone", wide=True),
            Column("Result", ".status.lastDelivery.result", wide=True),
        ),
    ),
)


def custom_resource_definition(resource: Resource) -> dict[str, Any]:
    """The whole CRD of a resource."""
    kind = resource.kind
    group_names = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": resource.plural,
        "singular": kind.lower(),
        "categories": ["mikan"],
    }
    version = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": _root_schema(resource)},
        "additionalPrinterColumns": [column.manifest() for column in resource.columns],
        "selectableFields": [{"jsonPath": path} for path in resource.selectable],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.crd_name},
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": group_names | ({"shortNames": list(resource.short_names)} if resource.short_names else {}),
            "versions": [version],
        },
    }


def _root_schema(resource: Resource) -> Schema:
    metadata: Schema = {"type": "object"}
    if resource.name:
        metadata["properties"] = {"name": {"type": "string", **dict(resource.name)}}
    schema: Schema = {
        "type": "object",
        "description": resource.description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": metadata,
            "spec": structural_schema(resource.spec),
            "status": structural_schema(resource.status),
        },
    }
    if resource.rules:
        schema["x-kubernetes-validations"] = [{"rule": rule, "message": text} for rule, text in resource.rules]
    return schema


HEADER = "# Generated from mikan_api.resources by `python -m mikan_api.crd`. Do not edit.\n"


def render(resource: Resource) -> str:
    """The YAML of a CRD."""
    plain = json.loads(json.dumps(custom_resource_definition(resource)))
    return HEADER + yaml.safe_dump(plain, sort_keys=False, width=120, allow_unicode=True)


def render_for_chart(resource: Resource) -> str:
    """The same, as a Helm template: installed unless somebody else did, and kept when the release goes."""
    name_line = f"  name: {resource.crd_name}\n"
    keep = "  {{- if .Values.crds.keep }}\n  annotations:\n    helm.sh/resource-policy: keep\n  {{- end }}\n"
    ours = f'{{{{- if include "mikan.ownsCrd" (dict "root" . "name" "{resource.crd_name}") }}}}\n'
    body = render(resource).removeprefix(HEADER).replace(name_line, name_line + keep, 1)
    return f"{HEADER}{ours}{body}{{{{- end }}}}\n"


def files(root: Path) -> dict[Path, str]:
    """Every generated file below the repository's root, with its content."""
    found: dict[Path, str] = {}
    for resource in RESOURCES:
        found[root / "crds" / f"{resource.plural}.yaml"] = render(resource)
        found[root / "charts/mikan/templates/crds" / f"{resource.plural}.yaml"] = render_for_chart(resource)
    return found


def main(arguments: list[str]) -> int:
    """Write the files, or with ``--check`` name those that have drifted and return 1."""
    root = Path(__file__).resolve().parents[2]
    drifted = [(p, text) for p, text in files(root).items() if not p.exists() or p.read_text() != text]
    for path, text in drifted:
        sys.stdout.write(f"{path.relative_to(root)}\n")
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return 1 if drifted and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
