"""A session's entries and how they hang together.

Values in memory only; `mikan_agent.sessions.journal` has the file. When a file is opened, each line's syntax is checked
and its id, parent and type are taken; the rest is built when somebody looks. So 100,000 entries open in a fraction of
the time that parsing them would take, and nothing unknown is lost.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NewType

import msgspec

from mikan_agent.messages import Message, parse_message
from mikan_agent.records.lines import Damaged, decode
from mikan_agent.sessions.exceptions import InvalidHeader, UnknownEntry

EntryId = NewType("EntryId", str)
VERSION = 3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a session file."""

    id: str
    timestamp: str
    cwd: str
    version: int = VERSION
    parent_session: str | None = None
    """Path of the session file that this one came from."""

    @classmethod
    def parse(cls, raw: Mapping[str, object]) -> "Header":
        """Read a header.

        Raises:
            InvalidHeader: it is none, lacks an id, or is of a newer version.
        """
        if raw.get("type") != "session":
            raise InvalidHeader("the first line is not a session header")
        identity, version = raw.get("id"), raw.get("version", 1)
        if not isinstance(identity, str) or not identity:
            raise InvalidHeader("the session header has no id")
        if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= VERSION:
            raise InvalidHeader(f"session version {version!r} cannot be read; known: 1 to {VERSION}")
        parent = text_field(raw, "parentSession")
        return cls(identity, text_field(raw, "timestamp"), text_field(raw, "cwd"), version, parent or None)

    def to_json(self) -> dict[str, object]:
        """The form on disk."""
        line: dict[str, object] = {
            "type": "session",
            "version": self.version,
            "id": self.id,
            "timestamp": self.timestamp,
            "cwd": self.cwd,
        }
        return line | ({"parentSession": self.parent_session} if self.parent_session else {})


class Stub(msgspec.Struct, frozen=True, gc=False):
    """What places an entry in the tree."""

    type: str
    id: str
    parent_id: str | None = msgspec.field(name="parentId", default=None)


_stubs = msgspec.json.Decoder(Stub)


def read_stub(content: bytes) -> Stub:
    """Check that a line is a JSON object, and say where it belongs.

    Raises:
        Damaged: it is no JSON object, or has no type or no id.
    """
    try:
        stub = _stubs.decode(content)
        content.decode()
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        # The slow and exact way: lone surrogates are legal JSON, and a damaged line deserves its reason.
        return stub_of(decode(content))
    if not stub.id:
        raise Damaged("an entry without an id")
    return stub


def stub_of(raw: Mapping[str, object]) -> Stub:
    """Where an entry belongs.

    Raises:
        Damaged: it has no type or no id.
    """
    kind, identity, parent = raw.get("type"), raw.get("id"), raw.get("parentId")
    if not isinstance(kind, str):
        raise Damaged("an entry without a type")
    if not isinstance(identity, str) or not identity:
        raise Damaged("an entry without an id")
    return Stub(kind, identity, parent if parent is None or isinstance(parent, str) else "")


class Entry:
    """One node of the tree."""

    __slots__ = ("_content", "_message", "_raw", "id", "parent", "type")

    def __init__(
        self, stub: Stub, parent: "Entry | None", content: bytes | Mapping[str, object], message: Message | None = None
    ) -> None:
        self.id = EntryId(stub.id)
        self.type = stub.type
        """``message``, ``compaction``, ...; types of newer writers included."""
        self.parent = parent
        self._content = content if isinstance(content, bytes) else b""
        self._raw = None if isinstance(content, bytes) else content
        self._message = message

    @property
    def raw(self) -> Mapping[str, object]:
        """The whole object on disk, never changed; built when first asked for."""
        if self._raw is None:
            try:
                self._raw = decode(self._content)
            except Damaged as damage:  # legal JSON beyond what this process can hold, such as a number of 5,000 digits
                logger.warning("session entry cannot be read", extra={"entry": self.id, "reason": str(damage)})
                self._raw = {"type": self.type, "id": self.id}
            self._content = b""
        return self._raw

    @property
    def timestamp(self) -> str:
        """ISO 8601, as written."""
        return text_field(self.raw, "timestamp")

    @property
    def message(self) -> Message | None:
        """The typed message of an entry of type ``message``; built when first asked for."""
        if self._message is None and self.type == "message":
            raw = self.raw.get("message")
            self._message = parse_message(raw) if isinstance(raw, Mapping) else None
        return self._message

    def path(self) -> "list[Entry]":
        """From the root to this entry."""
        entries = list(self._ancestry())
        entries.reverse()
        return entries

    def _ancestry(self) -> "Iterator[Entry]":
        entry: Entry | None = self
        while entry is not None:
            yield entry
            entry = entry.parent


class SessionTree:
    """All entries in file order, and the leaf: where the next one will hang.

    Parents are looked up among earlier entries only, so there is no cycle whatever a file says.
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._by_id: dict[str, Entry] = {}
        self.leaf: Entry | None = None

    @property
    def entries(self) -> Sequence[Entry]:
        """Every entry in file order."""
        return self._entries

    def get(self, entry_id: str) -> Entry:
        """The entry with this id.

        Raises:
            UnknownEntry: there is none.
        """
        try:
            return self._by_id[entry_id]
        except KeyError:
            raise UnknownEntry(f"no entry {entry_id[:80]!r} in this session") from None

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._by_id

    def children(self, entry_id: str | None) -> list[Entry]:
        """Entries that hang directly on this one; ``None``: the roots."""
        parent = None if entry_id is None else self.get(entry_id)
        return [entry for entry in self._entries if entry.parent is parent]

    def add(self, stub: Stub, content: bytes | Mapping[str, object], message: Message | None = None) -> bool:
        """Take in the next entry of the file, as its line or as the parsed object, and make it the leaf.

        Returns:
            Whether its parent was found. An orphan, whose parent was on a damaged line, hangs on the entry before it,
            so that damage in the middle doesn't cut off the conversation before it.

        Raises:
            Damaged: its id is taken.
        """
        if stub.id in self._by_id:
            raise Damaged(f"a second entry with id {stub.id[:80]!r}")
        parent = self._by_id.get(stub.parent_id) if stub.parent_id is not None else None
        orphan = stub.parent_id is not None and parent is None
        if orphan and self._entries:
            parent = self._entries[-1]
        entry = Entry(stub, parent, content, message)
        self._entries.append(entry)
        self._by_id[stub.id] = self.leaf = entry
        return not orphan


def text_field(raw: Mapping[str, object], name: str, default: str = "") -> str:
    """A field that should be text; ``default`` where a writer left it out or wrote something else."""
    value = raw.get(name)
    return value if isinstance(value, str) else default


def milliseconds(timestamp: str) -> int:
    """Unix milliseconds of a time in a session file; 0 where it cannot be read."""
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0
