"""Reading lines from a terminal without a thread, so that Ctrl-C and the end of the program never wait for Enter."""

import asyncio
import os


class LineReader:
    """Lines of a file descriptor. A terminal gives them whole, so its own line editing works."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._pending = b""
        self._ended = False

    async def next(self) -> str | None:
        """The next line without its end; ``None`` when there are no more."""
        while b"\n" not in self._pending and not self._ended:
            data = await self._read()
            self._pending += data
            self._ended = not data
        if not self._pending:
            return None
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        try:
            loop.add_reader(self._descriptor, readable.set)
        except PermissionError:
            # A regular file, which is always readable and can't be waited for.
            return await asyncio.to_thread(os.read, self._descriptor, 65_536)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._descriptor)
        return os.read(self._descriptor, 65_536)
