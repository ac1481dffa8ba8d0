"""Requests over real sockets, against a server that says exactly the bytes it is told to."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from mikan_agent.exceptions import ServiceSilent, ServiceUnreachable
from mikan_agent.http_client import MAX_HEAD, HttpClient

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"


CUT = CHUNKED[:-10]
CLOSE = b""
"""In place of an answer."""


class Server:
    """Answers each whole request with the next of its answers, a byte at a time, and closes where it has none."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        while (request := await _request(reader)) and (answer := self.answers.pop(0)):
            self.requests.append(request)
            for byte in range(len(answer)):
                writer.write(answer[byte : byte + 1])
        writer.close()

    def close_connections(self) -> None:
        for writer in self.writers:
            writer.close()


async def _request(reader: asyncio.StreamReader) -> bytes:
    request = b""
    while not _is_whole(request) and (data := await reader.read(65536)):
        request += data
    return request


def _is_whole(request: bytes) -> bool:
    head, _, body = request.partition(b"\r\n\r\n")
    if b"chunked" in head:
        return body.endswith(b"0\r\n\r\n")
    lengths = [line for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")]
    return bool(lengths) and len(body) == int(lengths[0].partition(b": ")[2])


@asynccontextmanager
async def served(*answers: bytes, silence: float = 5.0) -> AsyncIterator[tuple[HttpClient, Server]]:
    server = Server(answers)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listener:
        client = HttpClient(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/base/", silence)
        yield client, server
        await client.aclose()
        server.close_connections()
        await asyncio.sleep(0.01)


async def get(client: HttpClient) -> tuple[int, bytes]:
    async with client.request("GET", "/it", {}) as response:
        return response.status, b"".join([chunk async for chunk in response.chunks()])


async def test_a_request_is_sent_as_it_was_given() -> None:
    async with served(OK) as (client, server), client.request("POST", "/it?a=b", {"X-One": "1"}, b"body") as response:
        assert (response.status, response.headers) == (200, {"content-length": "2"})

    first, host, *rest = server.requests[0].split(b"\r\n")
    assert first == b"POST /base/it?a=b HTTP/1.1"
    assert host.startswith(b"Host: 127.0.0.1:")
    assert rest == [b"X-One: 1", b"Content-Length: 4", b"", b"body"]


async def test_answers_of_either_form_are_read_whole_over_one_connection() -> None:
    async with served(OK, CHUNKED, b"HTTP/1.1 100 Continue\r\n\r\n" + OK) as (client, server):
        assert [await get(client) for _ in range(3)] == [(200, b"ok"), (200, b"hello"), (200, b"ok")]
        assert server.connections == 1


@pytest.mark.parametrize(
    "first",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\n",
    ],
    ids=["closes", "old", "says-more"],
)
async def test_a_connection_that_cannot_be_used_again_is_not(first: bytes) -> None:
    async with served(first, OK) as (client, server):
        assert await get(client) == (200, b"ok")
        # What comes after the answer has to arrive to be seen.
        await asyncio.sleep(0.01)
        assert await get(client) == (200, b"ok")
        assert server.connections == 2


async def test_an_answer_that_is_left_before_its_end_gives_its_connection_up() -> None:
    async with served(CUT, OK) as (client, server):
        async with client.request("GET", "/it", {}) as response:
            assert response.status == 200
        assert await get(client) == (200, b"ok")
        assert server.connections == 2


async def test_a_connection_that_was_closed_while_idle_is_not_used() -> None:
    async with served(OK, OK) as (client, server):
        await get(client)
        server.close_connections()
        await asyncio.sleep(0.01)
        assert await get(client) == (200, b"ok")
        assert server.connections == 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (CLOSE, "the connection was closed"),
        (b"nonsense\r\n\r\n", "the answer is not HTTP (HttpParserError)"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 3 * MAX_HEAD, f"the answer's headers take more than {MAX_HEAD} bytes"),
    ],
    ids=["closed", "no-http", "endless-head"],
)
async def test_an_answer_that_makes_no_sense_says_why(answer: bytes, reason: str) -> None:
    async with served(answer) as (client, _):
        with pytest.raises(ServiceUnreachable) as caught:
            await get(client)
        assert (type(caught.value), str(caught.value)) == (ServiceUnreachable, reason)


async def test_a_body_that_is_cut_is_an_error_after_what_came() -> None:
    async with served(CUT) as (client, server), client.request("GET", "/it", {}) as response:
        chunks = response.chunks()
        assert b"hello".startswith(await anext(chunks))
        server.close_connections()
        with pytest.raises(ServiceUnreachable, match="the connection was closed"):
            await get_rest(chunks)


async def get_rest(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


async def test_silence_ends_a_request() -> None:
    async with served(CUT, silence=0.05) as (client, _):
        with pytest.raises(ServiceSilent, match="no answer in time"):
            await get(client)


async def test_nobody_there_is_told() -> None:
    async with served() as (client, _):
        pass
    with pytest.raises(ServiceUnreachable, match=r"^ConnectionRefusedError$"):
        await get(client)


async def pieces(*sizes: int) -> AsyncIterator[bytes]:
    for size in sizes:
        yield b"x" * size


async def test_a_body_of_unknown_length_is_sent_in_chunks() -> None:
    async with served(OK) as (client, server), client.request("PUT", "/it", {}, pieces(3, 0, 17)) as response:
        assert response.status == 200
    assert server.requests[0].partition(b"\r\n\r\n")[2] == b"3\r\nxxx\r\n11\r\n" + b"x" * 17 + b"\r\n0\r\n\r\n"


async def test_a_refusal_in_the_middle_of_an_upload_is_read() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(refusal)
        await writer.drain()
        writer.write_eof()
        # Reads on for a while, as servers do, so that the refusal is not lost to a reset.
        await reader.read(1 << 16)
        await asyncio.sleep(0.05)
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as listener:
        client = HttpClient(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", 5.0)
        async with client.request("PUT", "/it", {}, pieces(*[1 << 16] * 400)) as response:
            assert response.status == 413
        await client.aclose()
