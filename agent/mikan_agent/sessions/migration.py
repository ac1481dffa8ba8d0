"""Older session files, line by line into version 3.

Version 1 is a list without ids; version 2 is the tree with a role that was renamed since. Lines that need no change
keep their bytes; new fields are added at a line's end, so that what is not known here survives as it was written.
Source: ``packages/coding-agent/docs/session.md`` of badlogic/pi-mono, section "Session Version".
"""

import hashlib
import json
from collections.abc import Iterable, Iterator

from mikan_agent.records.lines import Damaged, Line, decode, encode
from mikan_agent.sessions.form import VERSION, Header


def migrated_lines(header: Header, lines: Iterable[Line]) -> Iterator[bytes]:
    """Entry lines of an older file as version 3, without line breaks; damaged ones stay what they are."""
    ids = _Ids(header.id)
    for line in lines:
        try:
            raw = decode(line.content)
        except Damaged:
            yield line.content
            continue
        content = line.content if header.version >= 2 else ids.give(raw, line.content)
        yield _role_renamed(raw, content)


def migrated_header(raw: dict[str, object]) -> bytes:
    """The header line, with every field that it had."""
    return encode(raw | {"version": VERSION})


class _Ids:
    """Ids for a version 1 file: a chain in file order, the same at every reading."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._ids = [""]
        """By position in the file, the header first: what ``firstKeptEntryIndex`` counts."""

    def give(self, raw: dict[str, object], content: bytes) -> bytes:
        entry_id = hashlib.sha256(f"{self._seed}\0{len(self._ids)}".encode()).hexdigest()[:16]
        fields: dict[str, object] = {"id": entry_id, "parentId": self._ids[-1] or None}
        kept = raw.get("firstKeptEntryIndex")
        if isinstance(kept, int) and 0 < kept < len(self._ids):
            fields["firstKeptEntryId"] = self._ids[kept]
        self._ids.append(entry_id)
        raw |= fields
        return _with_fields(content, fields)


def _with_fields(content: bytes, fields: dict[str, object]) -> bytes:
    """Add fields at the end of an object; the last of two equal names counts, in every JSON reader."""
    body = content.rstrip()[:-1].rstrip()
    added = json.dumps(fields, separators=(",", ":"))[1:].encode()
    return body + (b"" if body == b"{" else b",") + added


def _role_renamed(raw: dict[str, object], content: bytes) -> bytes:
    message = raw.get("message")
    if raw.get("type") != "message" or not isinstance(message, dict) or message.get("role") != "hookMessage":
        return content
    return encode(raw | {"message": message | {"role": "custom"}})[:-1]
