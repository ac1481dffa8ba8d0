"""Toxiproxy: a TCP proxy of others that misbehaves on demand, one for each link between two processes.

Built by Go into a cache the first time, and served on ports of its own. Which toxics there are is told in its README
(https://github.com/Shopify/toxiproxy).
"""

import asyncio
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import httpx

from free_port import free_port

VERSION = "2.5.0"
MODULE = "github.com/Shopify/toxiproxy/v2/cmd/server"
_GO = Path(__file__).parents[1] / "cluster" / "go.sh"

Stream = Literal["upstream", "downstream"]
BOTH: tuple[Stream, ...] = ("upstream", "downstream")


class ToxiproxyUnavailable(RuntimeError):
    """It cannot be built here; the message says why."""


def ensure_toxiproxy() -> Path:
    """The program's path; builds it on first use.

    Raises:
        ToxiproxyUnavailable: no Go, or the module cannot be had.
    """
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mikan-test"
    program = root / f"toxiproxy-{VERSION}"
    if not program.is_file():
        root.mkdir(parents=True, exist_ok=True)
        _build(program)
    return program


def _build(program: Path) -> None:
    # Test processes may build at the same time: each in a place of its own, and the last one's stays.
    with tempfile.TemporaryDirectory(dir=program.parent) as place:
        go = subprocess.run([_GO], capture_output=True, text=True, check=False)
        if go.returncode:
            raise ToxiproxyUnavailable(go.stderr.strip()[-500:])
        command = [go.stdout.strip(), "install", f"{MODULE}@v{VERSION}"]
        environment = {**os.environ, "GOBIN": place, "CGO_ENABLED": "0"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            raise ToxiproxyUnavailable(f"{MODULE}@v{VERSION} cannot be built: {done.stderr.strip()[-500:]}")
        shutil.move(Path(place) / "server", program)


class Link:
    """The way to one server, and what is wrong with it."""

    def __init__(self, client: httpx.AsyncClient, name: str, port: int) -> None:
        self._client, self._name = client, name
        self.port = port
        """Where the server can be reached."""

    async def down(self) -> None:
        """Cut every connection and refuse new ones."""
        await self._enable(False)

    async def up(self) -> None:
        """Let connections through again."""
        await self._enable(True)

    async def poison(self, kind: str, streams: tuple[Stream, ...] = BOTH, **attributes: int) -> None:
        """Add a toxic to connections that stand and to new ones."""
        for stream in streams:
            await self._ask("POST", f"/proxies/{self._name}/toxics", type=kind, stream=stream, attributes=attributes)

    async def heal(self) -> None:
        """Take every toxic away; connections that one of them was on may be broken all the same."""
        toxics = (await self._ask("GET", f"/proxies/{self._name}/toxics")).json()
        for toxic in toxics:
            await self._ask("DELETE", f"/proxies/{self._name}/toxics/{toxic['name']}")
        await self.up()

    async def _enable(self, enabled: bool) -> None:
        await self._ask("POST", f"/proxies/{self._name}", enabled=enabled)

    async def _ask(self, method: str, path: str, **body: Any) -> httpx.Response:
        response = await self._client.request(method, path, json=body or None)
        return response.raise_for_status()


class Toxiproxy:
    """A running server."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def link(self, name: str, port: int) -> Link:
        """A way to the server at a port of the loopback address, healthy at first."""
        unique = f"{name}-{secrets.token_hex(4)}"
        body = {"name": unique, "listen": "127.0.0.1:0", "upstream": f"127.0.0.1:{port}", "enabled": True}
        made = (await self._client.post("/proxies", json=body)).raise_for_status().json()
        return Link(self._client, unique, int(made["listen"].rpartition(":")[2]))


@asynccontextmanager
async def toxiproxy() -> AsyncIterator[Toxiproxy]:
    """A server of one's own, for as long as it is needed."""
    program = await asyncio.to_thread(ensure_toxiproxy)
    port = free_port()
    nothing = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        program, "-host", "127.0.0.1", "-port", str(port), stdout=nothing, stderr=nothing
    )
    try:
        # The server turns away what looks like a browser by its User-Agent.
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            async with asyncio.timeout(10):
                while True:
                    with suppress(httpx.TransportError):
                        (await client.get("/version")).raise_for_status()
                        break
                    await asyncio.sleep(0.02)
            yield Toxiproxy(client)
    finally:
        process.terminate()
        await process.wait()
