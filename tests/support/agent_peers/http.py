"""As much of HTTP/1.1 as the peers need, over asyncio streams."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Head:
    """Request line and headers (names in lower case), and the bytes they were read from."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next request's head; ``None`` at the end of the connection."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Head(method, path, headers, raw)


async def read_body(reader: asyncio.StreamReader, head: Head) -> bytes:
    """The request's body, chunked or by length."""
    if head.headers.get("transfer-encoding") == "chunked":
        return b"".join([chunk async for chunk in _chunks(reader)])
    return await reader.readexactly(int(head.headers.get("content-length", "0")))


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)


def response(status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
    """A whole response."""
    lines = {"content-length": str(len(body)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Answer\r\n{head}\r\n".encode() + body


def chunk(data: bytes) -> bytes:
    """One piece of a chunked body; empty ends it."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
