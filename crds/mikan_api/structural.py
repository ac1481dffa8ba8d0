"""From a pydantic model to a structural OpenAPI v3 schema, the subset of JSON Schema that a CRD may hold.

Source of the subset: Kubernetes documentation, "Specifying a structural schema". What the API server does by itself
(pruning unknown fields) is left out; what it cannot express (patterns of map keys) becomes a CEL rule.
"""

import ast
import inspect
import itertools
import json
import textwrap
from typing import Any

from pydantic import BaseModel

from mikan_api.base import ApiModel

Schema = dict[str, Any]

MAX_EXACT = 2**53 - 1
"""The largest integer that every JSON reader takes exactly; the bound of numbers that name none."""

_DROPPED = ("title", "additionalProperties", "discriminator", "propertyNames", "patternProperties", "$defs")


def structural_schema(model: type[BaseModel]) -> Schema:
    """The structural schema of a model: references inlined, every description kept.

    Raises:
        ValueError: the model uses something that has no structural form, such as a union of two types.
    """
    raw = model.model_json_schema(by_alias=True, mode="validation")
    definitions = raw.get("$defs", {})
    docs = {cls.__name__: _attribute_docs(cls) for cls in _models()}
    return _convert(raw, definitions, docs)


def _convert(node: Schema, definitions: Schema, docs: dict[str, dict[str, str]]) -> Schema:
    node = _resolve(node, definitions)
    fields = docs.get(node.get("title", ""), {})
    out: Schema = {key: value for key, value in node.items() if key not in _DROPPED}
    if "description" in out:
        out["description"] = _plain(out["description"])
    if "anyOf" in out or "oneOf" in out or "allOf" in out:
        raise ValueError(f"no structural form for {node}")
    _normalise_scalars(out)
    if "properties" in node:
        out["properties"] = {
            name: _convert(_documented(prop, fields.get(name)), definitions, docs)
            for name, prop in node["properties"].items()
        }
    elif node.get("type") == "object":
        _convert_map(node, out, definitions, docs)
    if "items" in node:
        out["items"] = _convert(node["items"], definitions, docs)
    return out


def _documented(prop: Schema, text: str | None) -> Schema:
    return {**prop, "description": text} if text else prop


def _resolve(node: Schema, definitions: Schema) -> Schema:
    """Follow references and take ``X`` out of ``X | None``; what stands beside them wins over what they name."""
    while True:
        beside = dict(node)
        if "$ref" in node:
            target = definitions[beside.pop("$ref").rpartition("/")[2]]
        elif len(node.get("allOf", ())) == 1:
            target = beside.pop("allOf")[0]
        elif "anyOf" in node and len(branches := [b for b in node["anyOf"] if b.get("type") != "null"]) == 1:
            beside.pop("anyOf")
            beside.pop("title", None)  # the field's own, not the model's
            target = branches[0]
        else:
            return node
        node = {**target, **beside}


def _normalise_scalars(out: Schema) -> None:
    if "const" in out:
        out["enum"] = [out.pop("const")]
    if out.get("enum"):
        out.setdefault("type", "string")
    for bound, inclusive in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if bound in out:
            out[inclusive], out[bound] = out[bound], True
    if out.get("type") in {"integer", "number"}:
        out.setdefault("maximum", MAX_EXACT)
    if out.get("type") == "integer":
        out["format"] = "int64"
    if out.get("default", ...) in (None, [], {}):
        # An absent field and an empty one mean the same: the stored object stays as it was written.
        del out["default"]


def _convert_map(node: Schema, out: Schema, definitions: Schema, docs: dict[str, dict[str, str]]) -> None:
    patterns: Schema = node.get("patternProperties", {})
    keys: Schema = node.get("propertyNames", {})
    values = next(iter(patterns.values()), None) or node.get("additionalProperties")
    if not isinstance(values, dict):
        raise ValueError(f"a map needs a type for its values: {node}")
    out["additionalProperties"] = _convert(values, definitions, docs)
    pattern = next(iter(patterns), None) or keys.get("pattern")
    if pattern:
        rule = {"rule": f"self.all(k, k.matches({json.dumps(pattern)}))", "message": f"every key matches {pattern}"}
        out["x-kubernetes-validations"] = [*out.get("x-kubernetes-validations", []), rule]


def _models() -> set[type[BaseModel]]:
    """Every model class of this package."""
    found: set[type[BaseModel]] = set()
    pending: list[type[BaseModel]] = [ApiModel]
    while pending:
        cls = pending.pop()
        pending.extend(cls.__subclasses__())
        if cls.__module__.partition(".")[0] == ApiModel.__module__.partition(".")[0]:
            found.add(cls)
    return found


def _attribute_docs(cls: type[BaseModel]) -> dict[str, str]:
    """Docstrings that follow a field, by the field's outside name."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    docs: dict[str, str] = {}
    for field, after in itertools.pairwise(getattr(body, "body", [])):
        match field, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if name in cls.model_fields:
                docs[cls.model_fields[name].alias or name] = _plain(text)
    return docs


def _plain(text: str) -> str:
    """A docstring as `kubectl explain` should show it: one paragraph, no markup."""
    return " ".join(text.replace("``", "").split())
