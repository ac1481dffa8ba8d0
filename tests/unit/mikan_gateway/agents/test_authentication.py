import pytest

from gateway_doubles import KEY, FakeOffices, key_of
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.tokens import OfficeClaims, issue_token
from mikan_gateway.agents.authentication import Authenticator
from mikan_gateway.exceptions import NotAuthenticated


@pytest.fixture
def offices() -> FakeOffices:
    offices = FakeOffices()
    offices.add(OfficeAddress(Platform.CONSOLE, "C1"))
    return offices


def _bearer(claims: OfficeClaims, key: bytes = KEY, audience: str = "gateway") -> str:
    return f"Bearer {issue_token(key, audience, claims)}"  # type: ignore[arg-type]


async def _status(offices: FakeOffices, header: str | None, path: str) -> int:
    with pytest.raises(NotAuthenticated) as caught:
        await Authenticator(lambda: [KEY], offices).authenticate(header, path)
    token = (header or "").removeprefix("Bearer ").strip()
    assert not token or token not in str(caught.value)
    return caught.value.status


async def test_a_valid_token_of_the_office_in_the_path_is_believed(offices: FakeOffices) -> None:
    claims = offices.claims(key_of())
    assert await Authenticator(lambda: [KEY], offices).authenticate(_bearer(claims), key_of()) == claims


async def test_whoever_shows_no_valid_token_is_unknown(offices: FakeOffices) -> None:
    claims = offices.claims(key_of())
    forged = [None, "", "Bearer ", "Basic abc", _bearer(claims, b"x" * 32), _bearer(claims, audience="models")]
    assert [await _status(offices, header, key_of()) for header in forged] == [401] * 6


async def test_the_token_of_another_office_is_refused(offices: FakeOffices) -> None:
    offices.add(OfficeAddress(Platform.CONSOLE, "C2"))
    assert await _status(offices, _bearer(offices.claims(key_of("C2"))), key_of()) == 403


async def test_a_token_dies_with_its_office_and_its_epoch(offices: FakeOffices) -> None:
    header = _bearer(offices.claims(key_of()))
    offices.change(key_of(), token_epoch=1)
    assert await _status(offices, header, key_of()) == 403
    offices.add(OfficeAddress(Platform.CONSOLE, "C1"))  # made again: another uid
    assert await _status(offices, header, key_of()) == 403
    del offices.views[key_of()]
    assert await _status(offices, header, key_of()) == 403


async def test_while_the_offices_are_not_known_an_agent_is_asked_to_come_again(offices: FakeOffices) -> None:
    header = _bearer(offices.claims(key_of()))
    del offices.views[key_of()]
    offices.synced = False
    assert await _status(offices, header, key_of()) == 503


async def test_keys_rotate_without_a_restart(offices: FakeOffices) -> None:
    new, keys = b"n" * 32, [KEY]
    authenticator = Authenticator(lambda: keys, offices)
    claims = offices.claims(key_of())
    await authenticator.authenticate(_bearer(claims), key_of())
    keys[:] = [new]
    with pytest.raises(NotAuthenticated):
        await authenticator.authenticate(_bearer(claims), key_of())
    keys[:] = [new, KEY]
    await authenticator.authenticate(_bearer(claims), key_of())
    await authenticator.authenticate(_bearer(claims, new), key_of())
