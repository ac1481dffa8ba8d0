"""Office identity: a platform and a raw conversation id, and the key derived from them.

The one owner of the derivation (behaviour "Office identity"). An existing workspace can be moved in as it is, so every
value here is frozen for good. What a key names in the cluster is `mikan_api.names`; what it names on disk is
`mikan_api.layout`.
"""

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NewType

from mikan_api.exceptions import InvalidAddress

OfficeKey = NewType("OfficeKey", str)

MAX_READABLE = 32
MAX_CONVERSATION_ID = 512
OFFICE_KEY_PATTERN = r"^v1-(slack|discord|telegram|github|console|web)-[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?-[0-9a-f]{16}$"

_DERIVATION = b"office-address-v1"


class Platform(StrEnum):
    """Where a conversation lives."""

    SLACK = "slack"
    DISCORD = "discord"
    TELEGRAM = "telegram"
    GITHUB = "github"
    CONSOLE = "console"
    WEB = "web"


def has_control_character(value: str) -> bool:
    """Whether ``value`` holds a C0 control, DEL or a C1 control."""
    return any(unicodedata.category(c) == "Cc" for c in value)


def check_raw_id(value: str) -> None:
    """Refuse a raw platform identifier that could not be told apart or stored safely.

    Raises:
        InvalidAddress: empty, ``.``, ``..``, over 512 characters, or holding ``:``, ``/``, ``\\`` or a control.
    """
    if not value or value in {".", ".."}:
        raise InvalidAddress(f"conversation id {value!r} is empty or a dot name")
    if len(value) > MAX_CONVERSATION_ID:
        raise InvalidAddress(f"conversation id is longer than {MAX_CONVERSATION_ID} characters")
    if has_control_character(value) or any(c in value for c in ":/\\"):
        raise InvalidAddress(f"conversation id {value!r} holds ':', '/', '\\' or a control character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidAddress("conversation id is not valid Unicode") from None


@dataclass(frozen=True, slots=True)
class OfficeAddress:
    """A conversation as its platform names it; the identity of an office."""

    platform: Platform
    conversation_id: str

    def __post_init__(self) -> None:
        check_raw_id(self.conversation_id)

    @classmethod
    def parse(cls, platform: str, conversation_id: str) -> "OfficeAddress":
        """Build an address from raw strings.

        Raises:
            InvalidAddress: the platform is unknown (the message names it) or the id is unusable.
        """
        try:
            known = Platform(platform)
        except ValueError:
            raise InvalidAddress(f"unknown platform {platform!r}; known: {', '.join(Platform)}") from None
        return cls(known, conversation_id)

    @property
    def key(self) -> OfficeKey:
        """The office key of this address."""
        return office_key(self)


def readable_part(conversation_id: str) -> str:
    """The diagnostic middle of an office key: at most 32 of ``a-z0-9-``, never empty."""
    dashed = re.sub(r"[^a-z0-9]+", "-", conversation_id.lower()).strip("-")
    return dashed[:MAX_READABLE].rstrip("-") or "conversation"


@lru_cache(maxsize=65_536)
def office_key(address: OfficeAddress) -> OfficeKey:
    """``v1-<platform>-<readable>-<16 hex>``; at most 61 characters, and not reversible."""
    raw = b"\0".join((_DERIVATION, address.platform.encode(), address.conversation_id.encode()))
    digest = hashlib.sha256(raw).hexdigest()[:16]
    return OfficeKey(f"v1-{address.platform}-{readable_part(address.conversation_id)}-{digest}")


def parse_office_key(value: str) -> OfficeKey:
    """Accept a string that has the form of an office key.

    Raises:
        InvalidAddress: it has not.
    """
    if not re.fullmatch(OFFICE_KEY_PATTERN, value):
        raise InvalidAddress("not an office key (v1-<platform>-<readable>-<16 hex digits>)")
    return OfficeKey(value)
