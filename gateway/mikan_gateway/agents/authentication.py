"""Who an agent is: its office token, and the Office that the token was issued for, as it is now."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from mikan_api.exceptions import ConfigError, TokenRefused
from mikan_api.identity import OfficeKey
from mikan_api.tokens import OfficeClaims, verify_token
from mikan_gateway.exceptions import NotAuthenticated
from mikan_gateway.ports import Offices

logger = logging.getLogger(__name__)

KeyReader = Callable[[], Sequence[bytes]]
"""Reads the keys that are valid now from disk; raises `ConfigError` if it cannot."""


class Authenticator:
    """Verifies office tokens. Keys are read anew each time, so a rotation needs no restart."""

    def __init__(self, read_keys: KeyReader, offices: Offices) -> None:
        self._read_keys, self._offices = read_keys, offices
        self._keys: Sequence[bytes] = ()

    async def authenticate(self, authorization: str | None, office: str) -> OfficeClaims:
        """The claims of a bearer, for the office of the path.

        Raises:
            NotAuthenticated: with the HTTP status to answer.
        """
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise NotAuthenticated(401, "an office token is needed")
        try:
            claims = verify_token(await self._valid_keys(), "gateway", token.strip())
        except TokenRefused as error:
            raise NotAuthenticated(401, str(error)) from None
        if claims.office != office:
            raise NotAuthenticated(403, "this token is of another office")
        self._check_office(claims)
        return claims

    def _check_office(self, claims: OfficeClaims) -> None:
        view = self._offices.get(OfficeKey(claims.office))
        if view is not None and (view.uid, view.token_epoch) == (claims.uid, claims.epoch):
            return
        if not self._offices.health().ok:
            raise NotAuthenticated(503, "the offices are not known yet")
        raise NotAuthenticated(403, "this token is no longer valid: its office is gone or it was revoked")

    async def _valid_keys(self) -> Sequence[bytes]:
        try:
            self._keys = await asyncio.to_thread(self._read_keys)
        except ConfigError as error:
            # In the middle of a rotation; those of before are as good as they were.
            logger.warning("the token keys cannot be read: %s", error)
        return self._keys
