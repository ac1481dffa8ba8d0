"""Runs in an agent's pod: what an answer cannot cost less than.

Argument: a job as JSON (``count``, ``text``, ``command``).

Prints one JSON line of milliseconds: the models process asked directly for the same answer without and with a tool
call, one WebSocket round trip, and a Python that only imports what an agent needs (with its memory in MB).
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

TOKEN = Path(os.environ["MIKAN_TOKENS_DIR"]) / "models"
URL = f"{os.environ['MIKAN_MODELS_URL']}/v1/chat/completions"
BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}
IMPORTS = "import httpx, pydantic, websockets; print(open('/proc/self/status').read().split('VmRSS:')[1].split()[0])"
ROUND_TRIPS = 200


async def timed(action: Any, count: int) -> list[float]:
    """Milliseconds of each run."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        await action()
        taken.append((time.perf_counter() - began) * 1000)
    return taken


async def complete(client: httpx.AsyncClient, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ask the scripted model; the tool calls that it makes."""
    body = {"model": "scripted/demo", "stream": True, "messages": messages, "tools": [BASH]}
    calls: list[dict[str, Any]] = []
    async with client.stream("POST", URL, json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                for choice in json.loads(line[6:]).get("choices", []):
                    for call in choice["delta"].get("tool_calls", []):
                        if "id" in call:
                            calls.append(call)
                        else:
                            calls[-1]["function"]["arguments"] += call["function"]["arguments"]
    return calls


async def models(job: dict[str, Any]) -> dict[str, list[float]]:
    asked = {"role": "user", "content": job["text"]}
    command = {"role": "user", "content": job["command"]}
    headers = {"Authorization": f"Bearer {TOKEN.read_text().strip()}"}
    async with httpx.AsyncClient(headers=headers, timeout=60, trust_env=False) as client:

        async def with_tool() -> None:
            calls = await complete(client, [command])
            results = [{"role": "tool", "tool_call_id": call["id"], "content": "done"} for call in calls]
            assert results, "the scripted model called no tool"
            await complete(client, [command, {"role": "assistant", "content": "", "tool_calls": calls}, *results])

        await complete(client, [asked])
        return {
            "text": await timed(lambda: complete(client, [asked]), job["count"]),
            "bash": await timed(with_tool, job["count"]),
        }


async def websocket() -> list[float]:
    async def echo(socket: ServerConnection) -> None:
        async for message in socket:
            await socket.send(message)

    async with serve(echo, "127.0.0.1", 0, compression=None) as server:
        port = server.sockets[0].getsockname()[1]
        async with connect(f"ws://127.0.0.1:{port}", compression=None, proxy=None) as client:

            async def round_trip() -> None:
                await client.send("x" * 200)
                await client.recv()

            return await timed(round_trip, ROUND_TRIPS)


def bare_python(count: int) -> tuple[list[float], float]:
    taken, resident = [], 0.0
    for _ in range(count):
        began = time.perf_counter()
        printed = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True).stdout
        taken.append((time.perf_counter() - began) * 1000)
        resident = int(printed) / 1024
    return taken, resident


async def main(job: dict[str, Any]) -> None:
    figures = {**await models(job), "websocket": await websocket()}
    figures["imports"], resident = bare_python(5)
    print(json.dumps({**figures, "imports_mb": resident}))


asyncio.run(main(json.loads(sys.argv[1])))
