"""Session keys: ``conversationId[:suffix]``, raw platform values; the first ``:`` separates.

The only owner of the grammar (behaviour "Session keys"): nobody else splits a key. Adapters choose an override by their
platform's rules; everything else derives. A key is unique within its office only, so runtime state is addressed by
office and session key together.
"""

import hashlib
import re
from typing import NewType

from mikan_api.exceptions import InvalidAddress, InvalidSessionKey
from mikan_api.identity import check_raw_id, has_control_character

SessionKey = NewType("SessionKey", str)

MAX_SUFFIX = 512
_MAX_FILE_STEM = 120


def parse_session_key(value: str) -> SessionKey:
    """Accept a session key.

    Raises:
        InvalidSessionKey: the conversation part or the suffix breaks the rules of raw ids (a suffix may hold ``:``).
    """
    conversation, colon, suffix = value.partition(":")
    try:
        check_raw_id(conversation)
    except InvalidAddress as error:
        raise InvalidSessionKey(f"session key: {error}") from None
    if colon:
        _check_suffix(suffix)
    return SessionKey(value)


def _check_suffix(suffix: str) -> None:
    if not suffix or suffix in {".", ".."} or len(suffix) > MAX_SUFFIX:
        raise InvalidSessionKey(f"session suffix {suffix[:80]!r} is empty, a dot name or too long")
    if has_control_character(suffix) or any(c in suffix for c in "/\\"):
        raise InvalidSessionKey(f"session suffix {suffix[:80]!r} holds '/', '\\' or a control character")


def derive_session_key(
    conversation_id: str, ts: str, thread_ts: str | None = None, override: str | None = None
) -> SessionKey:
    """The session of a message: the platform's override, else ``id:thread_ts``, else ``id:ts``.

    Raises:
        InvalidSessionKey: the override belongs to another conversation, or a part is unusable.
    """
    if override is None:
        return parse_session_key(f"{conversation_id}:{thread_ts or ts}")
    key = parse_session_key(override)
    if conversation_id_of(key) != conversation_id:
        raise InvalidSessionKey(f"session key {override[:80]!r} is not of conversation {conversation_id[:80]!r}")
    return key


def conversation_id_of(key: SessionKey) -> str:
    """The raw conversation id of a session key."""
    return key.partition(":")[0]


def thread_suffix_of(key: SessionKey) -> str | None:
    """The thread part of a session key; ``None`` for a top-level session."""
    _, colon, suffix = key.partition(":")
    return suffix if colon else None


def thread_file_name(suffix: str) -> str:
    """The fixed file name of a thread's session: the suffix where it is safe as it is, else slugged and hashed."""
    if len(suffix) <= _MAX_FILE_STEM and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", suffix) and suffix != "current":
        return f"{suffix}.jsonl"
    slug = re.sub(r"[^A-Za-z0-9]+", "-", suffix).strip("-")[:32] or "thread"
    return f"{slug}~{hashlib.sha256(suffix.encode()).hexdigest()[:16]}.jsonl"
