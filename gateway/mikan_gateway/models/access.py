"""Who may call: the bearer of a good token of an Office that lives.

The office comes from the token alone, never from a body or a header of the client's choice.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from mikan_api.exceptions import TokenRefused
from mikan_api.identity import OfficeKey
from mikan_api.tokens import verify_bearer
from mikan_gateway.models.exceptions import CallRefused


class OfficeLookup(Protocol):
    """The Office objects as last seen."""

    def get(self, key: OfficeKey) -> tuple[str, int] | None:
        """Uid and token epoch of an Office; ``None`` if there is none."""
        ...

    def fault(self) -> str:
        """Why Offices may have changed unseen; empty if they are known as they are."""
        ...

    @property
    def listed(self) -> bool:
        """Whether they were known at least once."""
        ...


class Access:
    """Tells which office calls."""

    def __init__(self, keys: Callable[[], Sequence[bytes]], offices: OfficeLookup) -> None:
        self._keys = keys
        self._offices = offices

    def office_of(self, authorization: str | None) -> OfficeKey:
        """The office of an ``Authorization`` header.

        Raises:
            CallRefused: 401, 403, or 503 for an Office that may have been made since they were last seen.
        """
        try:
            claims = verify_bearer(self._keys(), "models", authorization)
        except TokenRefused as error:
            message = f"{error}; the operator writes the right one to the file 'models' of the pod's tokens"
            raise CallRefused(401, "authentication_error", "invalid_office_token", message) from None
        known = self._offices.get(claims.office)
        if known == (claims.uid, claims.epoch):
            return claims.office
        if fault := self._offices.fault():
            raise CallRefused(
                503, "server_error", "offices_unknown", f"this office is not known yet ({fault}); try again", "1"
            )
        raise CallRefused(
            403,
            "permission_error",
            "office_gone",
            f"office {claims.office} was deleted, made anew, or had its tokens revoked; the pod must be made anew",
        )
