"""Bytes beside the socket: attachments out, uploads in, only with the office's own token."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from gateway_doubles import KEY, key_of
from gateway_server import Gateway
from mikan_api.tokens import issue_token


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    gateway = Gateway(f"sqlite+aiosqlite:///{tmp_path}/mikan.db", tmp_path / "spool")
    await gateway.start()
    gateway.office()
    gateway.office("C2")
    yield gateway
    await gateway.stop()


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    token = issue_token(KEY, "gateway", gateway.offices.claims(key_of()))
    base = f"{gateway.server.http}/agent/v1/offices/"
    async with httpx.AsyncClient(
        base_url=base, headers={"Authorization": f"Bearer {token}"}, trust_env=False
    ) as client:
        yield client


async def _pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_an_attachment_is_streamed_whole(gateway: Gateway, client: httpx.AsyncClient) -> None:
    content = bytes(range(256)) * 3_000
    await gateway.spool.save_attachment(key_of(), "a1", _pieces(content[:1000], content[1000:]))
    answer = await client.get(f"{key_of()}/attachments/a1")
    assert (answer.status_code, answer.content) == (200, content)
    assert (await client.get(f"{key_of()}/attachments/a2")).status_code == 404


async def test_an_upload_is_there_under_its_id_and_may_be_repeated(gateway: Gateway, client: httpx.AsyncClient) -> None:
    for _ in range(2):
        answer = await client.put(f"{key_of()}/blobs/b1", content=_pieces(b"ab", b"cd"))
        assert (answer.status_code, answer.json()) == (201, {"size": 4})
    assert gateway.spool.blob(key_of(), "b1").read_bytes() == b"abcd"


async def test_an_upload_over_the_cap_is_refused(gateway: Gateway, client: httpx.AsyncClient) -> None:
    answer = await client.put(f"{key_of()}/blobs/b1", content=_pieces(b"x" * 600_000, b"x" * 600_000))
    assert (answer.status_code, answer.json()) == (413, {"error": "larger than 1000000 bytes"})
    assert not gateway.spool.blob(key_of(), "b1").exists()


@pytest.mark.parametrize("name", ["..%2f..%2fetc", ".hidden", "%2e%2e", "a%00b", "a%5cb"])
async def test_an_id_that_could_leave_the_spool_is_refused(client: httpx.AsyncClient, name: str) -> None:
    assert (await client.get(f"{key_of()}/attachments/{name}")).status_code in {400, 404}
    assert (await client.put(f"{key_of()}/blobs/{name}", content=b"x")).status_code in {400, 404, 405}


async def test_another_offices_bytes_are_out_of_reach(gateway: Gateway, client: httpx.AsyncClient) -> None:
    await gateway.spool.save_attachment(key_of("C2"), "a1", _pieces(b"secret"))
    answer = await client.get(f"{key_of('C2')}/attachments/a1")
    assert (answer.status_code, answer.json()) == (403, {"error": "this token is of another office"})
    assert (await client.put(f"{key_of('C2')}/blobs/b1", content=b"x")).status_code == 403
    async with httpx.AsyncClient(trust_env=False) as stranger:
        nobody = await stranger.get(f"{gateway.server.http}/agent/v1/offices/{key_of()}/attachments/a1")
    assert nobody.status_code == 401
