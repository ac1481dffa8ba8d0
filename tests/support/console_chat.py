"""A person at the console: sends until it is taken, and sees what is shown."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import httpx

from mikan_api.console import CONSOLE_PREFIX, ConsoleEvent
from mikan_gateway.rendering.renderer import CUT_OFF

TOKEN = "t" * 24
PATIENCE = 25.0
"""Seconds that anything may take to be seen."""


class ConsoleChat:
    """A conversation as its feed tells of it, replayed."""

    def __init__(self, port: int, conversation: str) -> None:
        self._base = f"http://127.0.0.1:{port}{CONSOLE_PREFIX}/{conversation}"
        self._client = httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False, timeout=10)
        self._shown: dict[str, ConsoleEvent] = {}
        self._draft = ""
        self._after = 0
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "ConsoleChat":
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._client.aclose()

    async def say(self, message_id: str, text: str, file: bytes = b"", thread: str | None = None) -> None:
        """Send a message, again and again until it is taken, as a platform delivers one."""
        body: dict[str, Any] = {"messageId": message_id, "userId": "ann", "text": text}
        if thread:
            body["thread"] = thread
        if file:
            name = f"file-{message_id}"
            await self._until_taken(lambda: self._client.put(f"{self._base}/files/{name}", content=file), 201)
            body["attachments"] = [{"id": name, "name": "notes.txt"}]
        await self._until_taken(lambda: self._client.post(f"{self._base}/messages", json=body), 202)

    def replies(self, message_id: str) -> list[str]:
        """What stands below a message now; a file by its name. Without an id: what stands by itself."""
        return [e.text or e.file_name for e in self._shown.values() if (e.reply_to or "") == message_id]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until what is shown is so."""
        try:
            async with asyncio.timeout(PATIENCE), self._changed:
                await self._changed.wait_for(condition)
        except TimeoutError:
            shown = [(e.reply_to, e.text[:60] or e.file_name) for e in self._shown.values()]
            raise AssertionError(f"{what} never came; shown: {shown}; draft: {self._draft[:60]!r}") from None

    async def answered(self, message_id: str, *texts: str) -> None:
        """Wait until this, or the notice of a cut, stands below a message."""

        def condition() -> bool:
            replies = self.replies(message_id)
            return CUT_OFF in replies or all(text in replies for text in texts)

        await self.until(condition, f"{texts} below {message_id}")

    async def drafted(self, text: str) -> None:
        """Wait until a text is streaming."""
        await self.until(lambda: text in self._draft or any(text in e.text for e in self._shown.values()), text)

    async def _until_taken(self, request: Callable[[], Any], status: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(httpx.TransportError):
                    response = await request()
                    if response.status_code == status:
                        return
                    assert response.status_code == 503, response.text
                await asyncio.sleep(0.02)

    async def _watch(self) -> None:
        while True:
            with contextlib.suppress(httpx.TransportError):
                async with self._client.stream("GET", f"{self._base}/events?after={self._after}") as response:
                    async for line in response.aiter_lines():
                        if line.strip():
                            await self._see(ConsoleEvent.model_validate_json(line))
            await asyncio.sleep(0.02)

    async def _see(self, event: ConsoleEvent) -> None:
        self._after = max(self._after, event.seq)
        match event.kind:
            case "draft":
                self._draft = event.text
            case "post" | "upload":
                assert event.message_id not in self._shown, "a message id was posted twice"
                self._shown[event.message_id] = event
            case "edit":
                known = self._shown[event.message_id]
                self._shown[event.message_id] = known.model_copy(update={"text": event.text})
            case "delete":
                self._shown.pop(event.message_id, None)
            case _:
                pass
        async with self._changed:
            self._changed.notify_all()
