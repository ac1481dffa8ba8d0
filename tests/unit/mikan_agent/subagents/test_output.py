"""Answers that must be exactly JSON."""

from typing import Any

import pytest

from mikan_agent.subagents import output
from mikan_agent.subagents.output import InvalidOutput, InvalidSchema, OutputCheck

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"stuck": {"type": "boolean"}},
    "required": ["stuck"],
    "additionalProperties": False,
}


async def test_a_value_that_fits_is_the_output() -> None:
    assert await OutputCheck(SCHEMA).read(' {"stuck": true}\n') == {"stuck": True}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "the answer is not JSON alone"),
        ('```json\n{"stuck": true}\n```', "the answer is not JSON alone"),
        ('Here it is: {"stuck": true}', "the answer is not JSON alone"),
        ('{"stuck": "yes"}', r"the answer does not fit the schema at \$\.stuck: 'yes' is not of type 'boolean'"),
        ("{}", r"the answer does not fit the schema at \$: 'stuck' is a required property"),
        ("[" * 100_000, "the answer is not JSON alone"),
        ('{"stuck": NaN}', "the answer is not JSON alone: NaN is no JSON value"),
        ('{"stuck": -Infinity}', "the answer is not JSON alone: -Infinity is no JSON value"),
        ('{"stuck": 1e999}', "the answer is not JSON alone: 1e999 is too large a number"),
        ('{"stuck": "\\ud800"}', "the answer is not JSON alone: .* surrogates not allowed"),
    ],
)
async def test_anything_else_is_invalid_and_says_where(answer: str, reason: str) -> None:
    with pytest.raises(InvalidOutput, match=reason):
        await OutputCheck(SCHEMA).read(answer)


async def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidSchema, match=r"the schema is not valid at \$\.type"):
        await OutputCheck({"type": "objekt"}).look()


@pytest.mark.parametrize("reference", ["http://127.0.0.1:1/schema.json", "file:///etc/passwd", "#/nowhere"])
async def test_nothing_that_a_schema_refers_to_is_fetched(reference: str) -> None:
    with pytest.raises(InvalidOutput, match="the schema could not be applied"):
        await OutputCheck({"$ref": reference}).read("1")


async def test_a_schema_that_takes_for_ever_is_given_up_and_stops_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "SECONDS", 2.0)
    with pytest.raises(InvalidOutput, match="the schema could not be applied within 2 s"):
        await OutputCheck({"pattern": "^(a+)+$"}).read(f'"{"a" * 64}!"')


async def test_what_makes_the_library_break_is_no_schema() -> None:
    with pytest.raises(InvalidSchema, match="the schema could not be read: TypeError"):
        await OutputCheck({"$schema": []}).look()
