"""The console API from the client's side (`mikan_api.console`), over a connection that may break and come back."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import httpx
from pydantic import ValidationError

from mikan_api.console import (
    CONSOLE_PREFIX,
    MAX_FILE_BYTES,
    ConsoleAccepted,
    ConsoleEvent,
    ConsoleSend,
    ConsoleState,
)
from mikan_api.identity import check_raw_id
from mikan_cli.exceptions import ConsoleRefused, ConsoleUnreachable

RETRY_SECONDS = 1.0
FIRST_TRIES = 4
"""Tries of the very first request: enough for a gateway that restarts, few enough for a wrong address."""
SILENCE_SECONDS = 45.0
"""An event stream says something at least every 15 s; three times that is a dead connection."""


class Transport(Protocol):
    """A way to the console that can be opened again."""

    async def open(self) -> str:
        """The console's base URL, by a fresh connection."""
        ...

    async def close(self) -> None: ...


class FixedUrl:
    """A console that is reachable as it is."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    async def open(self) -> str:
        return self._url

    async def close(self) -> None:
        return None


class Console:
    """One conversation at the console."""

    def __init__(self, transport: Transport, token: str, conversation: str) -> None:
        check_raw_id(conversation)
        self._transport = transport
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(30.0, read=SILENCE_SECONDS),
            # What is asked goes to this machine or through kubectl, never through a proxy of the environment.
            trust_env=False,
        )
        self._path = (
            f"{CONSOLE_PREFIX}/{httpx.URL('http://x').copy_with(path='/' + conversation).raw_path.decode()[1:]}"
        )
        self._base = ""
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        """Let go of the connection."""
        await self._client.aclose()
        await self._transport.close()

    async def last_event(self) -> int:
        """The number of the newest event.

        Raises:
            ConsoleUnreachable, ConsoleRefused, ClusterUnusable: it can't be had.
        """
        for _ in range(FIRST_TRIES - 1):
            with contextlib.suppress(ConsoleUnreachable):
                return await self._last_event()
            await asyncio.sleep(RETRY_SECONDS)
        return await self._last_event()

    async def _last_event(self) -> int:
        response = await self._request("GET", "")
        return ConsoleState.model_validate_json(response.content).last_event

    async def send(self, message: ConsoleSend) -> ConsoleAccepted:
        """Send a message, again and again until it is taken: the same id twice is one message.

        Raises:
            ConsoleRefused: it will not be taken.
            ClusterUnusable: the way to the console is gone for good.
        """
        body = message.model_dump_json(by_alias=True, exclude_none=True).encode()
        while True:
            try:
                response = await self._request("POST", "/messages", content=body)
                return ConsoleAccepted.model_validate_json(response.content)
            except ConsoleUnreachable:
                await asyncio.sleep(RETRY_SECONDS)

    async def put_file(self, file_id: str, file: Path) -> None:
        """Put the bytes of an attachment there.

        Raises:
            ConsoleRefused: it is too large, or not taken.
            ConsoleUnreachable: it could not be sent.
        """
        content = await asyncio.to_thread(_read, file)
        await self._request("PUT", f"/files/{file_id}", content=content)

    async def get_file(self, file_id: str, path: Path) -> None:
        """Fetch an upload into a new file.

        Raises:
            ConsoleRefused: there is no such file any more.
            ConsoleUnreachable: the connection broke.
        """
        response = await self._request("GET", f"/files/{file_id}")
        await asyncio.to_thread(_write_new, path, response.content)

    async def events(self, after: int) -> AsyncIterator[ConsoleEvent]:
        """Events after a number, without end; a broken connection is taken up where it broke.

        Raises:
            ConsoleRefused: the console won't.
            ClusterUnusable: the way to the console is gone for good.
        """
        while True:
            try:
                async for event in self._stream(after):
                    after = event.seq or after
                    yield event
            except ConsoleUnreachable:
                await asyncio.sleep(RETRY_SECONDS)

    async def _stream(self, after: int) -> AsyncIterator[ConsoleEvent]:
        base = await self._url()
        try:
            async with self._client.stream("GET", f"{base}{self._path}/events?after={after}") as response:
                if response.status_code != 200:
                    await response.aread()
                    raise _refusal(response)
                async for line in response.aiter_lines():
                    if line.strip():
                        yield _event(line)
        except httpx.HTTPError as error:
            await self._lost(base)
            raise _unreachable(error) from None

    async def _request(self, method: str, path: str, content: bytes | None = None) -> httpx.Response:
        base = await self._url()
        try:
            response = await self._client.request(method, f"{base}{self._path}{path}", content=content)
        except httpx.HTTPError as error:
            await self._lost(base)
            raise _unreachable(error) from None
        if response.status_code >= 300:
            raise _refusal(response)
        return response

    async def _url(self) -> str:
        async with self._opening:
            if not self._base:
                self._base = await self._transport.open()
            return self._base

    async def _lost(self, base: str) -> None:
        """Have the next request open a new connection, unless somebody did so already."""
        async with self._opening:
            if self._base == base:
                self._base = ""


def _refusal(response: httpx.Response) -> ConsoleRefused | ConsoleUnreachable:
    reason = f"HTTP {response.status_code}"
    with contextlib.suppress(ValueError, KeyError, TypeError):
        reason = str(response.json()["error"])
    if response.status_code in {502, 503, 504}:
        return ConsoleUnreachable(f"the gateway can't take this now: {reason}")
    if response.status_code == 401:
        return ConsoleRefused(f"the console does not accept this token: {reason}", "Check the token file or Secret.")
    return ConsoleRefused(f"the console refused: {reason}")


def _unreachable(error: httpx.HTTPError) -> ConsoleUnreachable:
    return ConsoleUnreachable(
        f"the console can't be reached ({type(error).__name__})", "Check that the gateway's pod is running."
    )


def _event(line: str) -> ConsoleEvent:
    try:
        return ConsoleEvent.model_validate_json(line)
    except ValidationError:
        raise ConsoleRefused("the console sent something else than events", "Check what is at that address.") from None


def _read(file: Path) -> bytes:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ConsoleRefused(f"{file} is larger than {MAX_FILE_BYTES} bytes")
        return file.read_bytes()
    except OSError as error:
        raise ConsoleRefused(f"{file}: {error.strerror}") from None


def _write_new(path: Path, content: bytes) -> None:
    try:
        with path.open("xb") as file:
            file.write(content)
    except OSError as error:
        raise ConsoleRefused(f"{path}: {error.strerror}") from None
