"""Runs in an agent's pod: a bare bot on the same models process, which keeps nothing. Argument: a job as JSON.

Each of ``chats`` chats gets ``messages`` messages ``text``, answered one after another by one streamed model call with
the chat so far, all chats at once. No store, no queue, no pods, no
platform. Prints one JSON line: ``seconds``, and ``answered`` milliseconds of each.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import httpx

TOKEN = Path(os.environ["MIKAN_TOKENS_DIR"]) / "models"
URL = f"{os.environ['MIKAN_MODELS_URL']}/v1/chat/completions"


async def answer(client: httpx.AsyncClient, messages: list[dict[str, Any]]) -> str:
    """One model call."""
    text = []
    body = {"model": "scripted/demo", "stream": True, "messages": messages}
    async with client.stream("POST", URL, json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                for choice in json.loads(line[6:]).get("choices", []):
                    text.append(choice["delta"].get("content") or "")
    return "".join(text)


async def chat(client: httpx.AsyncClient, count: int, text: str) -> list[float]:
    """One chat; milliseconds of each answer from when the first message was there."""
    messages: list[dict[str, Any]] = []
    taken = []
    began = time.perf_counter()
    for _ in range(count):
        messages.append({"role": "user", "content": text})
        messages.append({"role": "assistant", "content": await answer(client, messages)})
        taken.append((time.perf_counter() - began) * 1000)
    return taken


async def main(job: dict[str, Any]) -> None:
    """All chats at once."""
    headers = {"Authorization": f"Bearer {TOKEN.read_text().strip()}"}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(headers=headers, timeout=300, limits=limits, trust_env=False) as client:
        await chat(client, 1, job["text"])
        began = time.perf_counter()
        found = await asyncio.gather(*(chat(client, job["messages"], job["text"]) for _ in range(job["chats"])))
        seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "answered": [value for taken in found for value in taken]}))


asyncio.run(main(json.loads(sys.argv[1])))
