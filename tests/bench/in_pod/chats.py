"""Runs in the gateway's pod: sends console messages and times what comes back. Argument: a job as JSON.

Job: ``conversations`` that each get ``rounds`` messages ``text``, one after another within a conversation and all
conversations at once; ``expect`` must be in the last text. Prints one JSON line: for each round the milliseconds from
the first send until every conversation was answered (``rounds``), for each message those until it was accepted, first
replied to, answered with its last text, and done (``messages``), and of a request that does nothing (``request``).
"""

import asyncio
import json
import sys
import time
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx

from mikan_api.console import CONSOLE_PREFIX, ConsoleEvent, ConsoleSend

CONSOLE = "http://127.0.0.1:8081"
TOKEN = Path("/etc/mikan/console/token")
PATIENCE = 120.0
"""Seconds for one message."""
REQUESTS = 30


@dataclass
class Timing:
    """Milliseconds from the send; ``text`` is what was shown last."""

    accepted: float = 0.0
    first: float = 0.0
    final: float = 0.0
    done: float = 0.0
    text: str = ""


@dataclass
class Waiting:
    """A message on its way."""

    message_id: str
    began: float
    timing: Timing = field(default_factory=Timing)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, event: ConsoleEvent) -> None:
        now = (time.perf_counter() - self.began) * 1000
        if event.kind in {"post", "draft", "edit"} and event.text:
            self.timing.first = self.timing.first or now
            if event.kind != "draft":
                self.timing.final, self.timing.text = now, event.text
        elif event.kind == "working" and event.working is False:
            self.timing.done = now
            self.over.set()


class Conversation:
    """One conversation with its event stream."""

    def __init__(self, client: httpx.AsyncClient, name: str) -> None:
        self._client, self._path = client, f"{CONSOLE_PREFIX}/{name}"
        self._waiting: Waiting | None = None
        self._listening = asyncio.Event()

    async def listen(self) -> None:
        state = (await self._client.get(self._path)).json()
        url = f"{self._path}/events?after={state.get('lastEvent', 0)}"
        async with self._client.stream("GET", url) as response:
            self._listening.set()
            async for line in response.aiter_lines():
                if line.strip():
                    event = ConsoleEvent.model_validate_json(line)
                    if self._waiting and event.reply_to in {self._waiting.message_id, None}:
                        self._waiting.take(event)

    async def ask(self, text: str, expect: str) -> Timing:
        async with asyncio.timeout(PATIENCE):
            await self._listening.wait()
            message = ConsoleSend(message_id=f"b{uuid.uuid4().hex}", user_id="bench", text=text)
            body = message.model_dump_json(by_alias=True, exclude_none=True)
            self._waiting = waiting = Waiting(message.message_id, time.perf_counter())
            response = await self._client.post(f"{self._path}/messages", content=body)
            waiting.timing.accepted = (time.perf_counter() - waiting.began) * 1000
            response.raise_for_status()
            await waiting.over.wait()
        if expect not in waiting.timing.text:
            raise AssertionError(f"{expect!r} is not in the answer {waiting.timing.text!r}")
        return waiting.timing


async def main(job: dict[str, Any], token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(
        base_url=CONSOLE, headers=headers, timeout=PATIENCE, limits=limits, trust_env=False
    ) as client:
        chats = [Conversation(client, name) for name in job["conversations"]]
        listeners = [asyncio.create_task(chat.listen()) for chat in chats]
        request = []
        for _ in range(REQUESTS):
            began = time.perf_counter()
            await client.get(f"{CONSOLE_PREFIX}/{job['conversations'][0]}")
            request.append((time.perf_counter() - began) * 1000)
        rounds, messages = [], []
        for _ in range(job["rounds"]):
            began = time.perf_counter()
            answered = await asyncio.gather(*(chat.ask(job["text"], job["expect"]) for chat in chats))
            rounds.append((time.perf_counter() - began) * 1000)
            messages += [asdict(timing) for timing in answered]
        for listener in listeners:
            listener.cancel()
        await asyncio.gather(*listeners, return_exceptions=True)
    print(json.dumps({"rounds": rounds, "messages": messages, "request": request}))


asyncio.run(main(json.loads(sys.argv[1]), TOKEN.read_text().strip()))
