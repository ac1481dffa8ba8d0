"""A models endpoint that plays a script, one entry a call, and remembers what it was asked."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_peers import http

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Text:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True)
class Call:
    """A tool call, its arguments sent in two pieces."""

    name: str
    arguments: JsonObject | str
    id: str = "call_1"
    index: int = 0


@dataclass(frozen=True)
class Cut:
    """The connection breaks here."""


@dataclass(frozen=True)
class EndEarly:
    """The stream ends in order, but without a finish."""


@dataclass(frozen=True)
class ErrorEvent:
    """An error in the middle of the stream."""

    error: JsonObject


class Hold:
    """The stream stands still until `release` is called."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._released = asyncio.Event()

    def release(self) -> None:
        """Go on."""
        self._released.set()

    async def wait(self) -> None:
        """Stand still."""
        self.reached.set()
        await self._released.wait()


@dataclass(frozen=True)
class Refuse:
    """An HTTP error in place of a stream."""

    status: int
    error: JsonObject = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """A streamed answer, with the usage of its last chunk."""

    steps: Sequence[Text | Call | Cut | EndEarly | ErrorEvent | Hold]
    finish: str | None = None
    usage: JsonObject = field(
        default_factory=lambda: {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "cost_usd": 0.001}
    )


def say(*texts: str) -> Answer:
    """An answer of text alone."""
    return Answer([Text(text) for text in texts])


class ModelsPeer:
    """The endpoint. Asked more often than its script is long, it answers 500."""

    def __init__(self, *script: Answer | Refuse) -> None:
        self.script = list(script)
        self.requests: list[JsonObject] = []
        self.authorizations: list[str] = []
        self.connections = 0
        """How many were opened so far."""
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.url = ""
        self.windows: dict[str, int] = {}
        """Model -> the context window that is told."""

    async def __aenter__(self) -> "ModelsPeer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self.connections += 1
        task.add_done_callback(self._connections.discard)
        try:
            while (head := await http.read_head(reader)) is not None:
                if head.method == "GET":
                    window = self.windows.get(head.path.removeprefix("/v1/models/"))
                    told = json.dumps({"contextWindow": window} if window else {})
                    writer.write(http.response(200, told.encode()))
                    await writer.drain()
                    continue
                body = json.loads(await http.read_body(reader, head))
                self.requests.append(body)
                self.authorizations.append(head.headers.get("authorization", ""))
                step = self.script.pop(0) if self.script else Refuse(500, {"message": "the script is at its end"})
                if isinstance(step, Refuse):
                    writer.write(http.response(step.status, json.dumps({"error": step.error}).encode(), step.headers))
                elif not await self._play(step, writer):
                    return
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.transport.abort()

    async def _play(self, answer: Answer, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection lives on."""
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for step in answer.steps:
            match step:
                case Hold():
                    await writer.drain()
                    await step.wait()
                case Cut():
                    await writer.drain()
                    return False
                case EndEarly():
                    writer.write(http.chunk(b""))
                    return True
                case ErrorEvent():
                    _event(writer, {"error": step.error})
                    writer.write(http.chunk(b""))
                    return True
                case Text():
                    _delta(writer, {"content": step.text})
                case Call():
                    _call(writer, step)
            await writer.drain()
        calls = any(isinstance(step, Call) for step in answer.steps)
        finish = answer.finish or ("tool_calls" if calls else "stop")
        _event(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        _event(writer, {"choices": [], "usage": answer.usage})
        writer.write(http.chunk(b"data: [DONE]\n\n") + http.chunk(b""))
        return True


def _event(writer: asyncio.StreamWriter, value: JsonObject) -> None:
    writer.write(http.chunk(f"data: {json.dumps(value)}\n\n".encode()))


def _delta(writer: asyncio.StreamWriter, delta: JsonObject) -> None:
    _event(writer, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def _call(writer: asyncio.StreamWriter, call: Call) -> None:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    half = len(arguments) // 2
    begin = {"index": call.index, "id": call.id, "type": "function"}
    _delta(writer, {"tool_calls": [begin | {"function": {"name": call.name, "arguments": arguments[:half]}}]})
    _delta(writer, {"tool_calls": [{"index": call.index, "function": {"arguments": arguments[half:]}}]})
