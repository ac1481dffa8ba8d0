"""Who an agent is: its office token, and the Office that the token was issued for, as it is now."""

from collections.abc import Callable, Sequence

from mikan_api.exceptions import TokenRefused
from mikan_api.identity import OfficeKey
from mikan_api.tokens import OfficeClaims, verify_bearer
from mikan_gateway.exceptions import NotAuthenticated
from mikan_gateway.ports import Offices


class Authenticator:
    """Verifies office tokens. Asks for the keys each time, so a rotation needs no restart."""

    def __init__(self, keys: Callable[[], Sequence[bytes]], offices: Offices) -> None:
        self._keys, self._offices = keys, offices

    async def authenticate(self, authorization: str | None, office: str) -> OfficeClaims:
        """The claims of a bearer, for the office of the path.

        Raises:
            NotAuthenticated: with the HTTP status to answer.
        """
        try:
            claims = verify_bearer(self._keys(), "gateway", authorization)
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
