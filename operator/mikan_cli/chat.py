"""`mikan chat`: send a message, show what comes back, save what was uploaded."""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mikan_api.console import MAX_FILES, MAX_SEND_TEXT, ConsoleFile, ConsoleSend
from mikan_cli.console import Console
from mikan_cli.display import Display
from mikan_cli.exceptions import ConsoleRefused, NoAnswer
from mikan_cli.exchange import Exchange
from mikan_cli.text import free_path, printable

TURNED_AWAY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Person:
    """Who is typing."""

    user_id: str
    name: str


class Chat:
    """A conversation at the terminal."""

    def __init__(
        self, console: Console, person: Person, display: Display, timeout: float, save_to: Path | None = None
    ) -> None:
        self._console = console
        self._person = person
        self._display = display
        self._timeout = timeout
        self._save_to = save_to

    async def say(self, text: str, attach: Sequence[Path] = (), thread: str | None = None) -> Exchange:
        """Send a message and show all that comes back, until there is nothing more to come.

        Raises:
            NoAnswer: the time is up before that.
            CliError: the console can't be reached, or refuses.
        """
        if len(text) > MAX_SEND_TEXT or len(attach) > MAX_FILES:
            raise ConsoleRefused(f"a message takes {MAX_SEND_TEXT} characters and {MAX_FILES} files")
        exchange = Exchange(_new_id())
        self._display.begin()
        try:
            async with asyncio.timeout(self._timeout or None):
                await self._exchange(exchange, text, attach, thread)
        except TimeoutError:
            raise NoAnswer(
                f"no complete answer within {self._timeout:g} s",
                "Look at the office with `kubectl get offices --all-namespaces`, or allow more with --timeout.",
            ) from None
        finally:
            self._display.end(exchange)
        for upload in exchange.uploads.values():
            await self._save(upload.file_id, upload.file_name, upload.size)
        return exchange

    async def stop(self, thread: str | None = None) -> None:
        """Say `stop`, and leave it to the answer that is under way to show what came of it."""
        await self._console.send(self._message(_new_id(), "stop", thread))

    async def _exchange(self, exchange: Exchange, text: str, attach: Sequence[Path], thread: str | None) -> None:
        after = await self._console.last_event()
        files = [await self._attach(exchange.message_id, index, file) for index, file in enumerate(attach)]
        message = self._message(exchange.message_id, text, thread, files)
        follow = asyncio.create_task(self._follow(exchange, after))
        try:
            accepted = await self._console.send(message)
            if accepted.log_number is None:
                await asyncio.wait({follow}, timeout=TURNED_AWAY_SECONDS)
                if not follow.done():
                    raise ConsoleRefused(f"the gateway does not let {self._person.user_id!r} in", "Ask an admin.")
            await follow
        finally:
            follow.cancel()
            await asyncio.gather(follow, return_exceptions=True)

    def _message(
        self, message_id: str, text: str, thread: str | None, files: Sequence[ConsoleFile] = ()
    ) -> ConsoleSend:
        return ConsoleSend(
            message_id=message_id,
            user_id=self._person.user_id,
            user_name=self._person.name,
            text=text,
            thread=thread,
            attachments=tuple(files),
        )

    async def _attach(self, message_id: str, index: int, file: Path) -> ConsoleFile:
        file_id = f"{message_id}-{index}"
        await self._console.put_file(file_id, file)
        return ConsoleFile(id=file_id, name=file.name[:255])

    async def _follow(self, exchange: Exchange, after: int) -> None:
        async for event in self._console.events(after):
            if exchange.take(event):
                self._display.update(exchange)
            if exchange.done:
                return

    async def _save(self, file_id: str, name: str, size: int) -> None:
        shown = printable(name).replace("\n", " ")
        if self._save_to is None:
            self._display.note(f"file: {shown} ({size} bytes); --save DIRECTORY keeps files")
            return
        path = await asyncio.to_thread(free_path, self._save_to, name)
        await self._console.get_file(file_id, path)
        self._display.note(f"file: {path} ({size} bytes)")


def _new_id() -> str:
    return f"t{uuid.uuid4().hex}"
