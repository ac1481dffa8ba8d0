"""The models process in a test: its configuration in a directory, Offices in a dict, its app or a real server."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from mikan_api.environment import Listen
from mikan_api.identity import OfficeAddress, OfficeKey
from mikan_api.tokens import OfficeClaims, issue_token
from mikan_gateway.models.config import Config
from mikan_gateway.models.process import DefaultSettings, ModelsProcess, listener

KEY = b"k" * 32
OFFICE = OfficeAddress.parse("console", "demo").key
UID = "0b5c1f5e-0000-4000-8000-000000000001"


@dataclass
class KnownOffices:
    """An `OfficeLookup`."""

    offices: dict[OfficeKey, tuple[str, int]] = field(default_factory=lambda: {OFFICE: (UID, 0)})
    problem: str = ""
    listed: bool = True

    def get(self, key: OfficeKey) -> tuple[str, int] | None:
        return self.offices.get(key)

    def fault(self) -> str:
        return self.problem


def token(key: bytes = KEY, office: OfficeKey = OFFICE, uid: str = UID, epoch: int = 0) -> str:
    """An office's token for the models process."""
    return issue_token(key, "models", OfficeClaims(office, uid, epoch))


@dataclass
class ModelsFixture:
    """A models process over files in a directory."""

    directory: Path
    offices: KnownOffices = field(default_factory=KnownOffices)

    def __post_init__(self) -> None:
        for name in ("config", "keys", "models-keys"):
            (self.directory / name).mkdir()
        (self.directory / "keys" / "current").write_bytes(KEY)
        self.config = Config(
            offices_namespace="offices",
            settings_dir=self.directory / "settings",
            keys_dir=self.directory / "keys",
            models_config=self.directory / "config" / "models.json",
            models_keys_dir=self.directory / "models-keys",
            listen=Listen("127.0.0.1", 0),
            log_level="INFO",
        )
        self.configure({})

    def configure(self, document: dict[str, Any]) -> None:
        """Write ``models.json``."""
        self.config.models_config.write_text(json.dumps(document))

    def provider_key(self, name: str, value: str) -> None:
        """Write a provider's key."""
        (self.config.models_keys_dir / name).write_text(value)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["RunningModels"]:
        """The app, without a listener."""
        process = ModelsProcess(self.config, self.offices, DefaultSettings())
        async with process.app.router.lifespan_context(process.app):
            transport = httpx.ASGITransport(process.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://models") as client:
                yield RunningModels(process, client)

    @asynccontextmanager
    async def served(self) -> AsyncIterator["RunningModels"]:
        """A real uvicorn server on a port of its own."""
        process = ModelsProcess(self.config, self.offices, DefaultSettings())
        server = uvicorn.Server(listener(process.app, self.config))
        # With the protocol named, as in production: asyncio sets TCP_NODELAY on such sockets only.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
            listening.bind(("127.0.0.1", 0))
            task = asyncio.create_task(server.serve([listening]))
            while not server.started:  # noqa: ASYNC110  uvicorn tells it in no other way
                await asyncio.sleep(0.01)
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as client:
                yield RunningModels(process, client)
            server.should_exit = True
            await task


@dataclass
class Streamed:
    """A streamed answer, taken apart."""

    status: int
    chunks: list[dict[str, Any]]
    done: bool
    headers: httpx.Headers
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """The answer's text."""
        return "".join(c["delta"].get("content") or "" for chunk in self.chunks for c in chunk.get("choices", ()))

    @property
    def calls(self) -> list[tuple[str, Any]]:
        """Tool calls, put together: name and arguments."""
        calls: dict[int, list[str]] = {}
        for chunk in self.chunks:
            for choice in chunk.get("choices", ()):
                for piece in choice["delta"].get("tool_calls") or ():
                    call = calls.setdefault(piece["index"], ["", ""])
                    call[0] += piece["function"].get("name") or ""
                    call[1] += piece["function"].get("arguments") or ""
        return [(name, json.loads(arguments)) for name, arguments in calls.values()]

    @property
    def finish(self) -> list[str]:
        """Every finish reason."""
        return [c["finish_reason"] for chunk in self.chunks for c in chunk.get("choices", ()) if c["finish_reason"]]

    @property
    def usage(self) -> dict[str, Any]:
        """Usage, from the last chunk."""
        return dict(self.chunks[-1]["usage"])

    @property
    def error(self) -> dict[str, Any]:
        """The error, from the body or from the last event."""
        return dict((self.body or self.chunks[-1])["error"])


@dataclass
class RunningModels:
    """A running models process and a client of it."""

    process: ModelsProcess
    client: httpx.AsyncClient

    async def until_ready(self) -> None:
        """Wait until every part is there, litellm's import included."""
        while (await self.client.get("/readyz")).status_code != 200:  # noqa: ASYNC110  nothing tells it
            await asyncio.sleep(0.1)

    async def ask(self, model: str, content: Any, stream: bool = True, bearer: str = "", **fields: Any) -> Streamed:
        """One call. ``content`` is the user's message, or the whole list of messages."""
        messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
        request = {"model": model, "messages": messages, "stream": stream} | fields
        headers = {"authorization": f"Bearer {bearer or token()}"}
        response = await self.client.post("/v1/chat/completions", json=request, headers=headers)
        if "event-stream" not in response.headers.get("content-type", ""):
            return Streamed(response.status_code, [], False, response.headers, response.json())
        data = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
        chunks = [json.loads(item) for item in data if item != "[DONE]"]
        return Streamed(response.status_code, chunks, data[-1] == "[DONE]", response.headers, {})


def tools(*names: str) -> list[dict[str, Any]]:
    """Tools as an agent offers them."""
    return [{"type": "function", "function": {"name": n, "parameters": {"type": "object"}}} for n in names]


def three_ways(models: ModelsFixture, openai: str, anthropic: str) -> None:
    """Configure three ways to one upstream: passed through, and by litellm in either form."""
    models.provider_key("openai", "sk-openai-key-of-the-test")
    models.provider_key("anthropic", "sk-ant-key-of-the-test")
    price = {"gpt-4o": {"inputUsdPerMillion": 2.5, "outputUsdPerMillion": 10}}
    through = {"kind": "openai", "apiBase": openai, "keyFile": "openai", "models": price}
    litellm = {"kind": "litellm", "litellmProvider": "openai", "apiBase": openai, "keyFile": "openai"}
    claude = {"kind": "litellm", "litellmProvider": "anthropic", "apiBase": anthropic, "keyFile": "anthropic"}
    models.configure({"providers": {"through": through, "translated": litellm, "anthropic": claude}})
