"""Answers that must be exactly JSON."""

from typing import Any

import pytest

from mikan_agent.subagents.output import InvalidOutput, InvalidSchema, OutputCheck

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"stuck": {"type": "boolean"}},
    "required": ["stuck"],
    "additionalProperties": False,
}


def test_a_value_that_fits_is_the_output() -> None:
    assert OutputCheck(SCHEMA).read(' {"stuck": true}\n') == {"stuck": True}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "the answer is not JSON alone"),
        ('```json\n{"stuck": true}\n```', "the answer is not JSON alone"),
        ('Here it is: {"stuck": true}', "the answer is not JSON alone"),
        ('{"stuck": "yes"}', r"the answer does not fit the schema at \$\.stuck: 'yes' is not of type 'boolean'"),
        ("{}", r"the answer does not fit the schema at \$: 'stuck' is a required property"),
        ("[" * 100_000, "the answer is not JSON alone"),
    ],
)
def test_anything_else_is_invalid_and_says_where(answer: str, reason: str) -> None:
    with pytest.raises(InvalidOutput, match=reason):
        OutputCheck(SCHEMA).read(answer)


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidSchema, match=r"the schema is not valid at \$\.type"):
        OutputCheck({"type": "objekt"})


@pytest.mark.parametrize("reference", ["http://127.0.0.1:1/schema.json", "file:///etc/passwd", "#/nowhere"])
def test_nothing_that_a_schema_refers_to_is_fetched(reference: str) -> None:
    with pytest.raises(InvalidOutput, match="the schema could not be applied"):
        OutputCheck({"$ref": reference}).read("1")
