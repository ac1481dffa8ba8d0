"""The generated CRDs: equal to the files, and bounded everywhere."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from mikan_api.base import ApiModel
from mikan_api.crd import RESOURCES, Resource, custom_resource_definition, files, render, render_for_chart
from mikan_dev.paths import REPOSITORY


def test_no_file_has_drifted_from_the_models() -> None:
    drifted = [str(p.relative_to(REPOSITORY)) for p, text in files(REPOSITORY).items() if p.read_text() != text]

    assert drifted == [], "run python -m mikan_api.crd"


def test_models_of_other_packages_are_not_looked_at() -> None:
    """An extension's may have no source that could be read."""
    built = type("Add", (ApiModel,), {"__module__": "mikan_extension_board"})

    assert custom_resource_definition(RESOURCES[0])
    assert built.__module__ not in render(RESOURCES[0])


def nodes(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from nodes(below, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[{key}]")


def every_node() -> list[Any]:
    found: list[tuple[str, dict[str, Any]]] = []
    for resource in RESOURCES:
        schema = custom_resource_definition(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for part in ("spec", "status"):
            found += nodes(schema["properties"][part], f"{resource.kind}.{part}")
    return [pytest.param(path, node, id=path) for path, node in found]


@pytest.mark.parametrize(("path", "node"), every_node())
def test_every_field_is_bounded(path: str, node: dict[str, Any]) -> None:
    match node["type"]:
        case "string":
            assert "maxLength" in node or "enum" in node or node.get("format") == "date-time"
        case "array":
            assert "maxItems" in node
        case "integer" | "number":
            assert {"minimum", "maximum"} <= node.keys()
        case "object":
            assert "properties" in node or "maxProperties" in node
        case other:
            assert other == "boolean"


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda r: r.kind)
def test_the_charts_copy_is_the_same_but_for_the_template_around_it(resource: Resource) -> None:
    text = render_for_chart(resource)

    assert "    helm.sh/resource-policy: keep" in text.splitlines()
    plain = [line for line in text.splitlines() if "{{-" not in line and line.strip() not in _ANNOTATION]
    assert yaml.safe_load("\n".join(plain)) == yaml.safe_load(render(resource))


_ANNOTATION = {"annotations:", "helm.sh/resource-policy: keep"}


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        (
            "Office",
            [
                "Platform",
                "Conversation",
                "Door",
                "Model",
                "Ready",
                "Reason",
                "Last-Activity",
                "Age",
                "Sandbox",
                "Agent pod",
                "Key",
            ],
        ),
        ("Vault", ["Scope", "Secret", "Mounts", "Ready", "Reason", "Age", "Variables", "Files", "Offices"]),
        (
            "ScheduledEvent",
            ["Type", "Conversation", "Schedule", "Next", "Last", "Suspended", "Age", "At", "Timezone", "Result"],
        ),
    ],
)
def test_columns(kind: str, columns: list[str]) -> None:
    resource = next(r for r in RESOURCES if r.kind == kind)
    version = custom_resource_definition(resource)["spec"]["versions"][0]

    assert [column["name"] for column in version["additionalPrinterColumns"]] == columns
