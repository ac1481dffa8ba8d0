"""Office tokens: how an agent proves to the gateway and to the models process which office it is.

``mkn1.<audience>.<office key>.<office uid>.<epoch>.<mac>``: HMAC-SHA-256 (base64url, unpadded) over all before the
last dot. The operator issues with both keys; gateway and models each hold their own alone, so neither can issue for the
other. The uid makes a token die with its Office; the epoch (annotation ``mikan.dev/token-epoch``) lets an admin revoke.
Whether that Office still lives is for the verifier to look up: this module checks form, audience and mac.

What the operator asks of the gateway carries ``mkr1.<digest of the body>.<mac>``, under the gateway's key too: it holds
for that request alone, so one that is overheard can be repeated and nothing else.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mikan_api.exceptions import InvalidAddress, TokenRefused
from mikan_api.identity import OfficeKey, parse_office_key

Audience = Literal["gateway", "models"]

MIN_KEY_BYTES = 32
MAX_TOKEN_LENGTH = 512
MAX_EPOCH_DIGITS = 15
_PREFIX = "mkn1"
_REQUEST_PREFIX = "mkr1"


@dataclass(frozen=True, slots=True)
class OfficeClaims:
    """What a verified token says of its bearer."""

    office: OfficeKey
    uid: str
    epoch: int


def parse_epoch(text: str) -> int:
    """The epoch that an Office's annotation says; 0 where it says none that an epoch can be.

    Issuer and verifiers read it here, so that they agree on what a hostile annotation means.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_EPOCH_DIGITS else 0


def _mac(key: bytes, signed: str) -> str:
    digest = hmac.new(key, signed.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _check_key(key: bytes) -> None:
    if len(key) < MIN_KEY_BYTES:
        raise ValueError(f"a token key needs at least {MIN_KEY_BYTES} bytes")


def issue_token(key: bytes, audience: Audience, claims: OfficeClaims) -> str:
    """Issue a token; the same input gives the same token, so a reconcile has nothing to write."""
    _check_key(key)
    signed = f"{_PREFIX}.{audience}.{claims.office}.{claims.uid}.{claims.epoch}"
    return f"{signed}.{_mac(key, signed)}"


def verify_token(keys: Sequence[bytes], audience: Audience, token: str) -> OfficeClaims:
    """Verify a token against the current key and, during a rotation, the previous one.

    Raises:
        TokenRefused: wrong form, audience or mac. The message never holds the token.
    """
    parts = token.split(".") if token.isascii() and len(token) <= MAX_TOKEN_LENGTH else []
    if len(parts) != 6 or parts[0] != _PREFIX or not parts[4].isdigit():
        raise TokenRefused("malformed office token")
    if parts[1] != audience:
        raise TokenRefused(f"this office token is not for {audience}")
    signed = token.rpartition(".")[0]
    # Every key is tried, in constant time each, so that timing tells nothing of which one fits.
    matches = [hmac.compare_digest(_mac(key, signed), parts[5]) for key in keys]
    if not any(matches):
        raise TokenRefused("office token with a wrong signature")
    try:
        return OfficeClaims(parse_office_key(parts[2]), parts[3], int(parts[4]))
    except InvalidAddress:
        raise TokenRefused("malformed office token") from None


def verify_bearer(keys: Sequence[bytes], audience: Audience, authorization: str | None) -> OfficeClaims:
    """Verify the token of an ``Authorization`` header.

    Raises:
        TokenRefused: see `verify_token`; or the header is missing or of another scheme.
    """
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise TokenRefused("send the office's token as 'Authorization: Bearer <token>'")
    return verify_token(keys, audience, token.strip())


def sign_request(key: bytes, body: bytes) -> str:
    """The token that goes with a request of the operator's."""
    _check_key(key)
    digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode()
    signed = f"{_REQUEST_PREFIX}.{digest}"
    return f"{signed}.{_mac(key, signed)}"


def verify_request(keys: Sequence[bytes], body: bytes, authorization: str | None) -> None:
    """Verify that the operator sent this body.

    Raises:
        TokenRefused: it did not. The message never holds the token.
    """
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.isascii() or len(token) > MAX_TOKEN_LENGTH:
        raise TokenRefused("this is for the operator alone")
    matches = [hmac.compare_digest(sign_request(key, body), token.strip()) for key in keys]
    if not any(matches):
        raise TokenRefused("a request that the operator's key did not sign")
