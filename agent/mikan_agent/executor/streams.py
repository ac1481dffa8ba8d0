"""Ports of the byte stream that leads to a helper."""

import asyncio
from typing import Protocol

from mikan_agent.executor.exceptions import ConnectionLost, ExecutorUnavailable

_READ_SIZE = 256 * 1024


class DuplexStream(Protocol):
    """An open byte stream."""

    async def read(self) -> bytes:
        """The next bytes, in whatever pieces they came; empty at the end.

        Raises:
            ConnectionLost: the stream broke; the message says how.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Send all of ``data``, waiting while the other side is slow. One call's bytes stay together.

        Raises:
            ConnectionLost: the stream broke.
        """
        ...

    async def aclose(self) -> None:
        """Close both directions; never fails."""
        ...


class Dialer(Protocol):
    """Opens streams to one helper."""

    async def dial(self) -> DuplexStream:
        """Open one.

        Raises:
            ExecutorUnavailable: not now; the message says why.
        """
        ...


class UnixDialer:
    """Streams over the helper's own socket."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def dial(self) -> DuplexStream:
        """Connect to the socket."""
        try:
            reader, writer = await asyncio.open_unix_connection(self._path, limit=_READ_SIZE)
        except OSError as error:
            raise ExecutorUnavailable(f"the sandbox helper does not answer: {error.strerror}") from error
        return SocketStream(reader, writer)


class SocketStream:
    """An asyncio stream pair as a DuplexStream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        try:
            return await self._reader.read(_READ_SIZE)
        except OSError as error:
            raise ConnectionLost(f"connection to the sandbox broke: {error.strerror}") from error

    async def write(self, data: bytes) -> None:
        """Send all of ``data``."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise ConnectionLost(f"connection to the sandbox broke: {error.strerror}") from error

    async def aclose(self) -> None:
        """Close the socket."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return  # it was broken already; closed is what we want
