"""Upstreams that misbehave on the wire in ways that no well-kept server offers: ends without a finish, hangs."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from models_service import ModelsFixture, RunningModels, three_ways, token

OPENAI = [
    {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    for choice in (
        {"index": 0, "delta": {"role": "assistant", "content": "Half an "}, "finish_reason": None},
        {"index": 0, "delta": {"content": "answer"}, "finish_reason": None},
    )
]
MESSAGE = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "content": [],
    "model": "claude",
    "usage": {"input_tokens": 5},
}
ANTHROPIC = [
    {"type": "message_start", "message": MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Half an "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "answer"}},
]
EVERY_WAY = pytest.mark.parametrize("model", ["through/gpt-4o", "translated/gpt-4o", "anthropic/claude-sonnet-4-5"])


class HalfAnswer:
    """Sends half an answer, then ends the response cleanly or keeps quiet until its client hangs up."""

    def __init__(self, hang: bool) -> None:
        self.hang = hang
        self.hung_up = asyncio.Event()
        self.sent = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(line for line in head.lower().splitlines() if line.startswith("content-length:"))
        await reader.readexactly(int(length.partition(":")[2]))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for event in ANTHROPIC if "/v1/messages" in head.splitlines()[0] else OPENAI:
            name = f"event: {event['type']}\n" if "type" in event else ""
            writer.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        await writer.drain()
        self.sent.set()
        if self.hang:
            await reader.read()
            self.hung_up.set()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def in_front_of(upstream: HalfAnswer, directory: Path) -> AsyncIterator[RunningModels]:
    server = await asyncio.start_server(upstream.handle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    models = ModelsFixture(directory)
    three_ways(models, f"{url}/v1", url)
    async with server, models.served() as running:
        await running.until_ready()
        yield running


@EVERY_WAY
async def test_an_end_without_a_finish_is_a_cut_however_cleanly_it_comes(tmp_path: Path, model: str) -> None:
    async with in_front_of(HalfAnswer(hang=False), tmp_path) as running:
        answer = await running.ask(model, "x")

    assert answer.text == "Half an answer"
    assert (answer.done, answer.finish) == (False, [])
    assert (answer.error["type"], answer.error["code"]) == ("upstream_cut", "stream_cut")


@EVERY_WAY
async def test_a_client_that_hangs_up_ends_the_upstreams_call(tmp_path: Path, model: str) -> None:
    upstream = HalfAnswer(hang=True)
    async with in_front_of(upstream, tmp_path) as running:
        request = {"model": model, "messages": [{"role": "user", "content": "x"}], "stream": True}
        headers = {"authorization": f"Bearer {token()}"}
        async with running.client.stream("POST", "/v1/chat/completions", json=request, headers=headers) as response:
            async for line in response.aiter_lines():
                if "answer" in line:
                    break
        async with asyncio.timeout(2):
            await upstream.hung_up.wait()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_hangs_up_before_the_answer_began_ends_the_call_too(tmp_path: Path, stream: bool) -> None:
    upstream = HalfAnswer(hang=True)
    async with in_front_of(upstream, tmp_path) as running:
        asking = asyncio.create_task(running.ask("through/gpt-4o", "x", stream=stream))
        await upstream.sent.wait()
        asking.cancel()
        async with asyncio.timeout(2):
            await upstream.hung_up.wait()
