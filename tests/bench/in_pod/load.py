"""Runs in the gateway's pod: many messages in many conversations at once. Argument: a job as JSON.

Job: ``conversations`` that each get ``messages`` messages as fast as they are accepted, and ``text`` and ``expect`` as
in ``chats.py``. Fails where an answer is missing, doubled, or not in the order of its conversation. Prints one JSON
line: ``seconds`` from the first send to the last answer, and milliseconds of each message until it was ``accepted`` and
``answered``.
"""

import asyncio
import json
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from mikan_api.console import CONSOLE_PREFIX, ConsoleEvent, ConsoleSend

CONSOLE = "http://127.0.0.1:8081"
TOKEN = Path("/etc/mikan/console/token")
PATIENCE = 900.0
"""Seconds for everything."""
AFTER = 2.0
"""Seconds in which an answer could come a second time."""


class Conversation:
    """One conversation: what was sent, and what came of it."""

    def __init__(self, client: httpx.AsyncClient, name: str, expect: str) -> None:
        self._client, self._path, self._expect = client, f"{CONSOLE_PREFIX}/{name}", expect
        self._listening = asyncio.Event()
        self.name = name
        self.sent: dict[str, float] = {}
        self.accepted: list[float] = []
        self.answered: dict[str, float] = {}
        """Message -> milliseconds until its answer stood there whole; in the order of the answers."""
        self.posts: Counter[str] = Counter()
        self.over = asyncio.Event()

    async def listen(self) -> None:
        """Take in what is shown."""
        state = (await self._client.get(self._path)).json()
        url = f"{self._path}/events?after={state.get('lastEvent', 0)}"
        async with self._client.stream("GET", url) as response:
            self._listening.set()
            async for line in response.aiter_lines():
                if line.strip():
                    self._take(ConsoleEvent.model_validate_json(line), time.perf_counter())

    def _take(self, event: ConsoleEvent, now: float) -> None:
        message = event.reply_to or ""
        if message not in self.sent or event.kind not in {"post", "edit"}:
            return
        self.posts[message] += event.kind == "post"
        if self._expect in (event.text or "") and message not in self.answered:
            self.answered[message] = (now - self.sent[message]) * 1000
            if len(self.answered) == len(self.sent) == self.expected:
                self.over.set()

    async def send(self, count: int, text: str) -> None:
        """Send messages, each once the one before was accepted."""
        self.expected = count
        await self._listening.wait()
        for _ in range(count):
            message = ConsoleSend(message_id=f"l{uuid.uuid4().hex}", user_id="bench", text=text)
            body = message.model_dump_json(by_alias=True, exclude_none=True)
            began = self.sent[message.message_id] = time.perf_counter()
            response = await self._client.post(f"{self._path}/messages", content=body)
            response.raise_for_status()
            self.accepted.append((time.perf_counter() - began) * 1000)

    def check(self) -> None:
        """Nothing lost, nothing doubled, everything in order."""
        missing = [message for message in self.sent if message not in self.answered]
        doubled = {message: count for message, count in self.posts.items() if count != 1}
        if missing or doubled or list(self.answered) != list(self.sent):
            raise AssertionError(f"{self.name}: {len(missing)} missing, doubled {doubled}, or out of order")


async def main(job: dict[str, Any], token: str) -> None:
    """Everything at once."""
    headers = {"Authorization": f"Bearer {token}"}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(
        base_url=CONSOLE, headers=headers, timeout=PATIENCE, limits=limits, trust_env=False
    ) as client:
        chats = [Conversation(client, name, job["expect"]) for name in job["conversations"]]
        listeners = [asyncio.create_task(chat.listen()) for chat in chats]
        began = time.perf_counter()
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*(chat.send(job["messages"], job["text"]) for chat in chats))
                await asyncio.gather(*(chat.over.wait() for chat in chats))
        except TimeoutError:
            print("not everything was answered in time", file=sys.stderr)
        seconds = time.perf_counter() - began
        await asyncio.sleep(AFTER)
        for chat in chats:
            chat.check()
        for listener in listeners:
            listener.cancel()
        await asyncio.gather(*listeners, return_exceptions=True)
    accepted = [value for chat in chats for value in chat.accepted]
    answered = [value for chat in chats for value in chat.answered.values()]
    print(json.dumps({"seconds": seconds, "accepted": accepted, "answered": answered}))


asyncio.run(main(json.loads(sys.argv[1]), TOKEN.read_text().strip()))
