"""Checks an answer against the schema that was asked for: exactly JSON, never dug out of prose."""

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

from pydantic import JsonValue

from mikan_agent.exceptions import AgentError
from mikan_agent.strict_json import read_json

MAX_SCHEMA = 64 * 1024
"""Bytes of a schema as JSON."""
SECONDS = 10.0
"""For one look at a schema."""
_COMMAND = (sys.executable, "-P", "-m", "mikan_agent.subagents.schema_check")


class InvalidOutput(AgentError):
    """The answer is not what the schema asks for; the message says where."""


class InvalidSchema(AgentError):
    """The schema itself can't be used."""


class OutputCheck:
    """A schema, ready to check answers. A process of its own applies it, for a bounded time."""

    def __init__(self, schema: dict[str, Any]) -> None:
        """
        Raises:
            InvalidSchema: too long.
        """
        if len(json.dumps(schema)) > MAX_SCHEMA:
            raise InvalidSchema(f"the schema is longer than {MAX_SCHEMA} bytes")
        self._schema = schema
        self.text = json.dumps(schema, ensure_ascii=False)
        """The schema, for the prompt."""

    async def look(self) -> None:
        """See whether the schema can be used.

        Raises:
            InvalidSchema: no valid JSON Schema.
        """
        if fault := (await _applied({"schema": self._schema})).get("schemaFault"):
            raise InvalidSchema(fault)

    async def read(self, answer: str) -> JsonValue:
        """The answer as JSON.

        Raises:
            InvalidOutput
        """
        try:
            value = read_json(answer)
            json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise InvalidOutput(f"the answer is not JSON alone: {error}") from None
        for fault in (await _applied({"schema": self._schema, "value": value})).values():
            raise InvalidOutput(fault)
        return value


async def _applied(asked: dict[str, Any]) -> dict[str, str]:
    """What `mikan_agent.subagents.schema_check` says."""
    process = await asyncio.create_subprocess_exec(
        *_COMMAND, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(SECONDS):
            out, _ = await process.communicate(json.dumps(asked).encode())
    except TimeoutError:
        out = b""
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        fault = f"the schema could not be applied within {SECONDS:g} s"
        return {"schemaFault" if "value" not in asked else "valueFault": fault}
    said: dict[str, str] = json.loads(out)
    return said
