"""People at the console who go on listening whatever breaks: what they typed, and all that was ever shown to them.

They come in by the network of the gateway's pod, for which no API server is needed; `mikan chat` needs one.
"""

import asyncio
import base64
import secrets
import threading
import time
from asyncio.subprocess import DEVNULL
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from free_port import free_port
from mikan_api.console import ConsoleEvent, ConsoleSend
from mikan_api.identity import OfficeKey
from mikan_cli.console import Console
from mikan_cli.exceptions import ConsoleUnreachable
from mikan_cluster.commands import eventually
from mikan_cluster.own import OwnCluster
from mikan_cluster.release import Release
from mikan_dev.paths import cache_dir

T = TypeVar("T")

GATEWAY = "python -m mikan_gateway"
CONSOLE = 8081


@dataclass
class Sent:
    """A message, and what has come back for it."""

    id: str
    text: str
    at: float = field(default_factory=time.monotonic)
    taken: float | None = None
    """Seconds until the gateway had it."""
    answered: float | None = None
    """Seconds until everything about it had been shown."""
    ends: int = 0
    """How often it was said that everything has been shown."""
    posts: dict[str, str] = field(default_factory=dict)
    """Message id -> its text as it stands, of messages that have not been deleted."""
    shown: list[str] = field(default_factory=list)
    """Every text that ever stood there, in order."""

    @property
    def answer(self) -> str:
        """All that stands there now."""
        return "\n\n".join(self.posts.values())

    def wait(self, seconds: float = 90) -> str:
        """Wait until everything about it has been shown; the answer."""
        eventually(f"an answer to {self.text!r}", lambda: self.answered is not None, seconds=seconds, every=0.05)
        self.check()
        return self.answer

    def wait_shown(self, text: str, seconds: float = 60) -> None:
        """Wait until a text has been shown, if only for a moment."""
        eventually(f"{text!r} below {self.text!r}", lambda: any(text in shown for shown in self.shown), seconds=seconds)

    def wait_taken(self, seconds: float = 60) -> None:
        """Wait until the gateway has it."""
        eventually(f"{self.text!r} taken", lambda: self.taken is not None, seconds=seconds, every=0.05)

    def check(self) -> None:
        """It was answered, in one message and once."""
        assert (self.ends, len(self.posts)) == (1, 1), f"{self.text!r}: {self.ends} ends, {self.posts}"

    def take(self, event: ConsoleEvent) -> None:
        """Something was shown, here or elsewhere."""
        if event.reply_to != self.id and event.message_id not in self.posts:
            return
        if event.kind == "working":
            if event.working is False:
                self.ends, self.answered = self.ends + 1, time.monotonic() - self.at
        elif event.kind == "delete":
            self.posts.pop(event.message_id, None)
        elif event.kind != "upload":
            self.posts[event.message_id] = event.text
            self.shown.append(event.text)


class PodForward:
    """A way to a port inside the pod that a process of ours runs in, found anew each time it is opened."""

    def __init__(self, cluster: OwnCluster, command: str, port: int) -> None:
        self._cluster, self._command, self._port = cluster, command, port
        self._forward: asyncio.subprocess.Process | None = None

    async def open(self) -> str:
        """Forward a local port; its URL.

        Raises:
            ConsoleUnreachable: no such process runs, or nothing listens there.
        """
        await self.close()
        found = self._cluster.pod_processes(self._command)
        if not found:
            raise ConsoleUnreachable(f"no process {self._command!r} runs")
        local = free_port()
        argv = [
            str(cache_dir() / "bin" / "k8s-all"), "netns-forward",
            f"127.0.0.1:{local}", str(found[-1].network), f"127.0.0.1:{self._port}",
        ]  # fmt: skip
        self._forward = await asyncio.create_subprocess_exec(*argv, stdout=DEVNULL, stderr=DEVNULL)
        for _ in range(100):
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", local)
                writer.close()
                return f"http://127.0.0.1:{local}"
            await asyncio.sleep(0.05)
        raise ConsoleUnreachable("the forward does not listen")

    async def close(self) -> None:
        """End it, if it runs."""
        if self._forward is not None:
            with suppress(ProcessLookupError):
                self._forward.kill()
            await self._forward.wait()
            self._forward = None


class Terminals:
    """Conversations with one release on a cluster of our own, served by a thread."""

    def __init__(self, cluster: OwnCluster, release: Release) -> None:
        self._cluster, self._release = cluster, release
        secret = release.kubectl.get("secret", f"{release.name}-console", "-n", release.namespace)
        self._token = base64.b64decode(secret["data"]["token"]).decode()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="terminals")
        self._thread.start()
        self._open: list[Terminal] = []

    def new(self) -> "Terminal":
        """A conversation that nobody has had yet."""
        conversation = f"f{secrets.token_hex(4)}"
        way = PodForward(self._cluster, GATEWAY, CONSOLE)

        async def make() -> Console:
            return Console(way, self._token, conversation)

        console = asyncio.run_coroutine_threadsafe(make(), self._loop).result()
        terminal = Terminal(console, self._loop, self._release.office_key(conversation))
        self._open.append(terminal)
        return terminal

    def close(self) -> None:
        """Hang up everywhere."""
        for terminal in self._open:
            terminal.hang_up()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Terminal:
    """One person's conversation."""

    def __init__(self, console: Console, loop: asyncio.AbstractEventLoop, key: OfficeKey) -> None:
        self.key = key
        self._console, self._loop = console, loop
        self._sent: list[Sent] = []
        self._listening = self._start(self._listen())
        self._sending: list[Future[None]] = []

    def send(self, text: str) -> Sent:
        """Type a message; it is offered until it is taken."""
        sent = Sent(f"m{secrets.token_hex(6)}", text)
        self._sent.append(sent)
        self._sending.append(self._start(self._offer(sent)))
        return sent

    def say(self, text: str, seconds: float = 90) -> str:
        """Type a message and wait for the answer."""
        return self.send(text).wait(seconds)

    def close(self) -> None:
        """Hang up; by now every message has been answered once."""
        self.hang_up()
        for sent in self._sent:
            sent.check()

    def hang_up(self) -> None:
        """Listen no more."""
        for future in (self._listening, *self._sending):
            future.cancel()
        self._sending.clear()
        self._start(self._console.close()).result(10)

    async def _offer(self, sent: Sent) -> None:
        await self._console.send(ConsoleSend(message_id=sent.id, user_id="tester", text=sent.text))
        sent.taken = time.monotonic() - sent.at

    async def _listen(self) -> None:
        async for event in self._console.events(0):
            for sent in self._sent:
                sent.take(event)

    def _start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)
